"""Ties and kinks: what three conventions say the gradient is, and which of their answers are subgradients."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np

from ..checking.study import one_sided
from ..drawing.text import clean, number, summary
from ..graph import Node, reachable
from ..rules import RULES, Rule
from ..rules.nn import max_pool2d, relu
from ..tensor import Tensor, Var
from .lab import Lab, Shown, Table, Text, choice, finite_arrays, function, real, slider
from .plot import BOTTOM, HEIGHT, RIGHT, SIDE, TOP, WIDTH, Plot, round_step, span
from .rebuilt import rebuilt

CONVENTIONS = ("split", "each", "first")
MARKERS = {"split": "circle", "each": "square", "first": "triangle", "engine": "diamond"}
REACH = 1e-6  # how far away, relative to the entries, nearby slopes are looked up; then nearer and nearer
NEARER = 10.0 ** -np.arange(6)
CLOSE = 1e-4  # slopes nearer than this are one slope
LEAST = 1e-6  # what is smaller than this is rounding beside 1
DIRECTIONS = 60  # at random, the same in every run
MOST_ENTRIES = 64
EXAMPLE = "ties(lambda x: x.max(), [1.0, 3.0, 3.0])"

EXTREMA = {np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin}
PAIRS = {np.maximum, np.minimum, np.fmax, np.fmin}
FATE = {True: "valid", False: "NOT VALID", None: "not known"}
# At a tie, the shares of the first and of the second operand.
SHARES = {"split": (0.5, 0.5), "each": (1.0, 1.0), "first": (1.0, 0.0)}


@dataclass(frozen=True)
class Answer:
    """The gradient by one convention: one array for each input. `valid`: whether it is a subgradient, and `why`; None
    where that is not known."""

    convention: str
    grads: tuple
    valid: bool | None
    why: str

    @property
    def flat(self) -> np.ndarray:
        """All entries in one row."""
        return np.concatenate([g.ravel() for g in self.grads])


@dataclass(frozen=True)
class Ties:
    """The value, the answer of each convention, and `nearby`: the different slopes at points close by, one a row.

    `switched`: whether any operation has a tie to which the conventions apply; else all answers are the engine's.
    `without`: why there is no set of valid slopes ("value", "limit", "jump", "bound" or "slope" is what is missing or
    in the way), or nothing; `entries`: those whose slope has no bound or no limit.
    """

    value: float
    answers: tuple
    nearby: np.ndarray
    switched: bool = True
    without: str = ""
    entries: tuple = ()

    def __getitem__(self, convention: str) -> Answer:
        found = next((a for a in self.answers if a.convention == convention), None)
        if found is None:
            known = ", ".join(a.convention for a in self.answers)
            raise KeyError(f"no convention is called {convention!r} here; these are: {known}")
        return found

    @property
    def tied(self) -> bool:
        """Whether the slope depends on which side one looks from."""
        return len(self.nearby) > 1

    @property
    def open(self) -> list[int]:
        """The entries whose slope is not settled."""
        if self.without:
            return list(self.entries)
        return [int(i) for i in np.flatnonzero(np.ptp(self.nearby, axis=0) > CLOSE * _size(self.nearby))]


def compare(f, *inputs) -> Ties:
    """The gradient of the sum of the entries of `f` under each convention, and which of them are subgradients.

    An extremum shares its gradient among tied entries: evenly ("split"), all of it to each ("each") or to the "first".
    relu(x) counts as maximum(x, 0), abs(x) as maximum(x, -x), clip as a maximum and a minimum, and each window of
    max_pool2d as a maximum. A subgradient is a mean of the slopes at points nearby (Clarke,
    https://doi.org/10.1137/1.9781611971309). "engine" is what autodiff returns.

    >>> made = compare(lambda x: x.max(), [1.0, 3.0, 3.0])
    >>> [(a.convention, a.grads[0].tolist(), a.valid) for a in made.answers[:3]]
    [('split', [0.0, 0.5, 0.5], True), ('each', [0.0, 1.0, 1.0], False), ('first', [0.0, 1.0, 0.0], True)]
    """
    arrays = finite_arrays(inputs, input_names(function(f, EXAMPLE), len(inputs)))
    at, shapes = np.concatenate([a.ravel() for a in arrays]), [a.shape for a in arrays]
    variables, root = recorded(f, arrays)
    found = {}
    for name in CONVENTIONS:
        copies = rebuilt(root, lambda node: _rule_under(name, node))
        found[name] = gradient(copies.get(root, root), variables)
    found["engine"] = gradient(root, variables)
    value = float(np.sum(root.data))
    around = _around(f, at, shapes, value)
    answers = []
    for name, grads in found.items():
        flat = np.concatenate([g.ravel() for g in grads])
        answers.append((name, grads, flat, around.valid(flat)))
    names, (without, entries) = entry_names(f, shapes), around.without()
    nearby = _in_order(around.rows, len(at)) * around.unit
    if without:
        names = [names[i] for i in entries]
        fate = None if without == "limit" else False
        made = [Answer(name, grads, fate, _why_not(without, names)) for name, grads, *_ in answers]
    else:
        made = [Answer(name, grads, valid, _why(flat, valid, nearby, names)) for name, grads, flat, valid in answers]
    switched = any(_rule_under("split", n) for n in reachable(root) if n._rule is not None)
    return Ties(value, tuple(made), nearby, switched, without, entries)


def recorded(f, arrays) -> tuple:
    """The Vars and the result of `f`; an error where it is no Tensor, or depends on nothing."""
    variables = [Var(a) for a in arrays]
    root = f(*variables)
    if not isinstance(root, Tensor):
        raise TypeError(f"the function must return a Tensor, got {type(root).__name__}: {clean(root)}")
    if not root.tracked and root.dtype.kind == "f":
        raise ValueError("the result does not depend on the inputs")
    return variables, root


def gradient(root: Node, variables) -> tuple:
    """An array for each of the Vars; zeros where it is not reached."""
    if root.dtype.kind != "f":  # it changes by jumps alone
        return tuple(np.zeros(v.shape) for v in variables)
    grads = root.backward(wrt=variables)
    return tuple(np.asarray(grads[v].data) if v in grads else np.zeros(v.shape) for v in variables)


def _split(flat, shapes) -> list:
    ends = np.cumsum([math.prod(s) for s in shapes])[:-1]
    return [part.reshape(s) for part, s in zip(np.split(flat, ends), shapes)]


def _rule_under(convention: str, node: Node):
    """The rule of `node` and its params under this convention, or None where no convention applies."""
    rule, values, y = node._rule, node._values, node._array
    if rule.forward in EXTREMA:
        params = {k: v for k, v in node._params.items() if k not in ("saved", "ties")} | {"ties": convention}
        return rule, {**params, "saved": rule.save(y, *values, **params)}
    if rule is RULES.get(max_pool2d):
        won = node._params["saved"] > 0  # one item for each entry of the windows
        if convention != "split":
            share = won if convention == "each" else won & (np.cumsum(won, axis=0) == 1)
            return rule, {**node._params, "saved": share.astype(y.dtype)}
        return rule, node._params
    if rule.forward in PAIRS:
        pairs = values
    elif rule is RULES.get(relu):
        pairs = (values[0], np.zeros_like(values[0]))
    elif rule.forward in (np.absolute, np.fabs):
        pairs = (values[0], -values[0])
    else:
        return None
    a, b = pairs
    first, second = (np.where(a == b, share, p == y) for share, p in zip(SHARES[convention], pairs))
    if rule.forward in PAIRS:
        partials = (lambda g, y, a, b, **_: g * first, lambda g, y, a, b, **_: g * second)
    elif rule is RULES.get(relu):
        partials = (lambda g, y, a: g * first,)
    else:
        partials = (lambda g, y, a: g * first - g * second,)
    return Rule(rule.forward, partials, name=rule.name, elementwise=False), {}


# The subdifferential


def _around(f, at, shapes, value) -> _Around:
    """What is found close to `at`, in units of the slopes there where these are small."""
    around = _Around(f, at, shapes, value)
    around.look()
    if LEAST < around.most < 1:
        around = _Around(f, at, shapes, value, around.most)
        around.look()
    return around


class _Around:
    """What is found close to `at`: the different slopes (`rows`), and what keeps a slope from being one.

    `unbounded`, `unsettled`: the entries whose slope has no bound, or no limit that the steps would show, as the point
    is approached from some direction; `jumps`: whether the value has another limit there. Values and slopes are in
    multiples of `unit`.
    """

    def __init__(self, f, at, shapes, value, unit=1.0):
        self.f, self.at, self.shapes, self.value, self.unit = f, at, shapes, value / unit, unit
        self.reach = REACH * max(1.0, float(np.abs(at).max(initial=0.0)))
        self.rows: list = []
        self.most = 0.0  # the largest slope
        self.unbounded, self.unsettled = np.zeros(len(at), bool), np.zeros(len(at), bool)
        self.jumps = False

    def look(self) -> None:
        """Look in directions that leave no tie."""
        n, rng = len(self.at), np.random.default_rng(0)
        directions = [*rng.standard_normal((DIRECTIONS, n))]
        tilt = 1e-3 * rng.standard_normal(n)  # so that an axis direction leaves no tie among the other entries
        directions += [s * e + tilt for e in np.eye(n) for s in (1, -1)]
        with np.errstate(all="ignore"):
            if math.isfinite(self.value):
                for direction in directions:
                    self.towards(direction)

    def without(self) -> tuple:
        """Why there is no set of valid slopes, if so, and the entries that are to blame."""
        if not math.isfinite(self.value):
            return "value", ()
        if self.jumps:
            return "jump", ()
        for word, entries in (("bound", self.unbounded), ("limit", self.unsettled)):
            if entries.any():
                return word, tuple(np.flatnonzero(entries).tolist())
        return ("", ()) if self.rows else ("slope", ())

    def towards(self, direction) -> None:
        """Take in the slope as `at` is approached from there: where it changes evenly on the way, its limit.

        Without the limit, a parabola that is steep enough would have two slopes, and a square root one.
        """
        step = self.reach * direction / (np.abs(direction).max() or 1.0)
        (there, far), (_, near) = self.seen(step), self.seen(step / 10)
        if not np.isfinite(far).all() or not math.isfinite(there):
            return
        moved, still = near - far, 1e-3 * CLOSE * _size(far)
        short, long = (abs(v - self.value) for v in (self.seen(step * NEARER[-1])[0], there))
        if short > max(10 * NEARER[-1] * long, 1e-12 * max(abs(self.value), abs(there))):  # no slope makes that
            leaps = [abs(self.seen(step * k)[0] - self.value) for k in NEARER[-3:]]
            self.jumps |= min(leaps) > 0.9 * max(leaps)
        row = far
        if (np.abs(moved) > still).any():
            ratio = (self.seen(step / 100)[1] - near) / moved  # 0.1 on a parabola
            even = (ratio > 0.05) & (ratio < 0.5)
            row = np.where(even, far + moved / (1 - ratio), far)
            uneven = np.flatnonzero(~even & (np.abs(moved) > still) & ~self.unbounded & ~self.unsettled)
            if len(uneven):
                slopes = np.array([self.seen(step * k)[1] for k in NEARER])
                for i in uneven:
                    self.study(i, row, slopes[:, i])
        blamed, self.most = self.unbounded | self.unsettled, max(self.most, float(np.abs(row).max()))
        if not blamed.any() and not any((np.abs(row - k) <= CLOSE * _size(k)).all() for k in self.rows):
            self.rows.append(row)

    def study(self, i, row, slopes) -> None:
        """Put the limit of these slopes into `row`, or the entry among those that have none."""
        floor = np.finfo(float).eps * self.reach / REACH * np.nanmax(np.abs(slopes))
        row[i], error = one_sided(self.reach * NEARER, slopes, floor)
        self.unbounded[i] |= math.isinf(row[i])
        self.unsettled[i] |= not (math.isinf(row[i]) or error <= CLOSE * _size(row)[i])

    def seen(self, step) -> tuple:
        """The value there, and the slopes in one row."""
        variables, root = recorded(self.f, _split(self.at + step, self.shapes))
        slopes = np.concatenate([g.ravel() for g in gradient(root, variables)])
        return float(np.sum(root.data)) / self.unit, slopes / self.unit

    def valid(self, g) -> bool:
        """Whether `g` is a mean of nearby slopes; looks for further ones towards `g` until that is settled."""
        if not np.isfinite(g).all() or self.without()[0]:
            return False
        g, rng = g / self.unit, np.random.default_rng(1)
        with np.errstate(all="ignore"):
            for _ in range(40):
                size, known = _size(self.rows), len(self.rows)
                gap = g / size - nearest_mean(self.rows / size, g / size)
                if np.abs(gap).max() <= 10 * CLOSE:
                    return True
                gap = gap / size
                tilt = 1e-3 * np.abs(gap).max() * rng.standard_normal(len(g))
                for side in (1, -1):
                    self.towards(side * gap + tilt)
                if len(self.rows) == known:
                    return False
        return False


def _in_order(rows, n) -> np.ndarray:
    return np.array(sorted(rows, key=lambda r: tuple(np.round(r, 3)))).reshape(-1, n)


def _size(rows) -> np.ndarray:
    """For each entry what its slopes are measured by, so that the large ones of one hide no kink of another."""
    each = np.abs(np.reshape(rows, (-1, np.shape(rows)[-1]))).max(axis=0, initial=0.0)
    most = each.max(initial=0.0)
    return np.maximum(each, most if LEAST < most < 1 else max(1.0, LEAST * most))


def _why_not(without, names) -> str:
    which = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return {"value": "the value is not finite", "jump": "the function jumps", "slope": "no slope nearby is finite",
            "bound": f"{which}: the slope has no bound",
            "limit": f"{which}: the slopes do not settle"}[without]  # fmt: skip


def nearest_mean(rows: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The weighted mean of `rows` that is nearest to `g`: weights >= 0 that sum to 1.

    Wolfe's method (https://doi.org/10.1007/BF01580381): corners are added while one lies further towards `g`, and
    dropped when their weight would be negative.

    >>> nearest_mean(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 1.0]))
    array([0.5, 0.5])
    """
    scale = _size(rows - g).max()
    points = (rows - g) / scale
    chosen, weights = [int((points**2).sum(axis=1).argmin())], np.ones(1)
    for _ in range(10 * len(rows) + 10):
        x = weights @ points[chosen]
        pull = points @ x
        best = int(pull.argmin())
        if best in chosen or pull[best] > x @ x - 1e-12:
            break
        chosen, weights = [*chosen, best], np.append(weights, 0.0)
        while True:
            q = points[chosen]
            system = np.ones((len(chosen) + 1, len(chosen) + 1))
            system[0, 0], system[1:, 1:] = 0.0, q @ q.T
            trial = np.linalg.lstsq(system, np.eye(len(chosen) + 1)[0], rcond=None)[0][1:]
            if (trial > 1e-12).all():
                weights = trial / trial.sum()
                break
            falls = trial <= 1e-12
            part = (weights[falls] / np.maximum(weights[falls] - trial[falls], 1e-300)).min()
            weights = weights + min(part, 1.0) * (trial - weights)
            keep = weights > 1e-12
            chosen, weights = [c for c, k in zip(chosen, keep) if k], weights[keep] / weights[keep].sum()
            if len(chosen) == 1:
                break
    return weights @ rows[chosen]


def _why(g, valid, nearby, names) -> str:
    if not np.isfinite(g).all():
        return "not finite"
    size = _size(nearby)
    sums, low, high = nearby.sum(axis=1), nearby.min(axis=0), nearby.max(axis=0)
    if len(nearby) == 1:
        return "the only slope there is" if valid else f"the slope is {_row(nearby[0])}"
    if len(g) > 1 and np.ptp(sums) <= CLOSE * size.min() * len(g):
        due, got = _tidy(sums[0]), _tidy(g.sum())
        if valid:
            return f"shares sum to {due}, as they must"
        if abs(g.sum() - sums[0]) > CLOSE * size.min() * len(g):
            return f"shares sum to {got} instead of {due}"
    for i in np.flatnonzero(np.maximum(low - g, g - high) > 10 * CLOSE * size):
        return f"{names[i]}: {_tidy(g[i])} is not in [{_tidy(low[i])}, {_tidy(high[i])}]"
    moving = np.flatnonzero(high - low > CLOSE * size)
    if valid and len(moving) <= 3:
        return "; ".join(f"{names[i]}: {_tidy(g[i])} is in [{_tidy(low[i])}, {_tidy(high[i])}]" for i in moving)
    return "a mean of slopes nearby" if valid else "no mean of slopes nearby"


def _called(answer: Answer) -> str:
    return "autodiff" if answer.convention == "engine" else answer.convention


def _rounded(g) -> np.ndarray:
    """To four places, or to four digits of the largest where that is small."""
    most = np.abs(g).max(initial=0.0)
    return np.round(g, 4 - math.ceil(math.log10(most)) if 0.01 * LEAST < most < 1 else 4) + 0.0


def _tidy(x) -> str:
    return number(_rounded(x))


def _row(g) -> str:
    return _tidy(g[0]) if len(g) == 1 else summary(_rounded(g))


def entry_names(f, shapes) -> list[str]:
    """What the entries of the inputs are called: x[1] of the parameter x, or a[1] of the first input."""
    return [name if not shape else f"{name}[{', '.join(map(str, index))}]"
            for name, shape in zip(input_names(f, len(shapes)), shapes) for index in np.ndindex(*shape)]  # fmt: skip


def input_names(f, count: int) -> list[str]:
    """The names of the function's first parameters; letters where it has none of its own."""
    code = getattr(f, "__code__", None)  # NumPy's own functions have none, and name theirs differently in each version
    found = [] if code is None else list(inspect.signature(f).parameters)[: code.co_argcount]
    if len(found) >= count:
        return found[:count]
    return ["x"] if count == 1 else list(ascii_lowercase[:count]) if count <= 26 else [f"x{k}" for k in range(count)]


# The lab


class TiesLab(Lab):
    """One entry moves over its ties; the conventions are compared at each place."""

    title = "Ties and kinks: which answers are subgradients?"

    def __init__(self, f, arrays):
        self.f, self.start = f, arrays
        self.shapes = [a.shape for a in arrays]
        self.entries = entry_names(f, self.shapes)
        flat = np.concatenate([a.ravel() for a in arrays])
        if not 1 <= len(flat) <= MOST_ENTRIES:
            raise ValueError(f"this lab takes one to {MOST_ENTRIES} entries in all, got {len(flat)}")
        self._flat, self._open = flat, compare(f, *arrays).open
        first = next(iter(self._open), 0)
        super().__init__(entry=self.entries[first], value=float(flat[first]))

    def set(self, **changes):
        """Move controls; see `Lab.set`. Another entry starts from its own value."""
        if "entry" in changes and "value" not in changes and changes["entry"] in self.entries:
            changes["value"] = float(self._flat[self.entries.index(changes["entry"])])
        super().set(**changes)

    def _at(self, values) -> np.ndarray:
        if values["entry"] not in self.entries:
            raise ValueError(f"there is no entry {clean(values['entry'])!r}; there are {', '.join(self.entries)}")
        x = self._flat.copy()
        x[self.entries.index(values["entry"])] = real("value", values["value"])
        return x

    def _compute(self, values):
        return compare(self.f, *_split(self._at(values), self.shapes))

    def _stops(self, values) -> list[float]:
        """The places of the slider: a grid around the entry's first value, and wherever it meets another entry."""
        i = self.entries.index(values["entry"])
        centre = float(self._flat[i])
        others = [float(v) for v in np.delete(self._flat, i) if abs(v - centre) <= 1e3]
        reach = max([2.0, 1e-3 * abs(centre), *(1.25 * abs(v - centre) for v in others)])
        low, high = centre - reach, centre + reach
        step = round_step(reach / 16)  # so that 2.9 and 3.1 are among the stops beside 3
        grid = [step * k for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
        found = {float(f"{v:.12g}") for v in (*grid, 0.0, 1.0, -1.0)} | {*others, centre, float(values["value"])}
        return sorted(v + 0.0 for v in found if low <= v <= high or v == values["value"])

    def _controls(self):
        stops = self._stops(self.values)
        name = self.values["entry"]
        index = int(np.argmin([abs(s - self.values["value"]) for s in stops]))
        moving = slider("value", f"Value of {name}", [number(s) for s in stops], index)
        return [choice("entry", "Entry that moves", self.entries, name), moving] if len(self.entries) > 1 else [moving]

    def _read(self, name, shown):
        return self._stops(self.values)[shown] if name == "value" else shown

    def _summary(self):
        x = self._at(self.values)
        parts = ", ".join(f"{n} = {summary(a)}" for n, a in
                          zip(input_names(self.f, len(self.shapes)), _split(x, self.shapes)))  # fmt: skip
        wrong = [_called(a) for a in self.result.answers if not a.valid]
        which = ", ".join(self.entries[i] for i in self.result.open[:6]) + (", …" if len(self.result.open) > 6 else "")
        if self.result.without:
            return f"At {parts} " + {
                "value": f"the value is {number(self.result.value)}: there is no slope.",
                "jump": "the function jumps: no number is its slope there.",
                "slope": "no slope nearby is finite: there is nothing to compare with.",
                "bound": f"the slope along {which} grows without bound as the point is approached: no number is a "
                         "subgradient.",
                "limit": f"the slopes along {which} do not settle as the point is approached: which numbers are "
                         "subgradients is not known here.",
            }[self.result.without]  # fmt: skip
        said = f"No subgradient: {', '.join(wrong)}." if wrong else "Every convention gives a subgradient."
        if not self.result.switched:
            said = "No operation here goes by a convention: all four rows are autodiff's answer, which is "
            said += "no subgradient." if wrong else "a subgradient."
        if not self.result.tied:
            return f"At {parts} there is no kink: all slopes nearby are the same." + f" {said}" * bool(wrong)
        return f"At {parts} there is a kink: the slope along {which} depends on the side. {said}"

    def _blocks(self):
        made, names = self.result, input_names(self.f, len(self.shapes))
        rows = [
            (_called(a), *(summary(_rounded(g)) for g in a.grads), FATE[a.valid], a.why) for a in made.answers
        ]
        header = ("convention", *(f"gradient of {n}" for n in names), "subgradient?", "why")
        return [
            Text(self._summary(), strong=True),
            Shown(self._curve()),
            Shown(self._subdifferential()),
            Table(f"The gradient under each convention; the value is {number(made.value)}", header, rows),
        ]

    def _groups(self, coordinates) -> list[tuple[str, tuple]]:
        """Conventions that give the same point, together: (their names, the point)."""
        groups: dict = {}
        for a in self.result.answers:
            point = tuple(float(v) for v in _rounded(a.flat[list(coordinates)]))
            groups.setdefault(point, []).append(a)
        made = []
        for point, members in groups.items():
            wrong = [" (not valid)" * (a.valid is False) for a in members]
            said = ", ".join(_called(a) + w for a, w in zip(members, wrong))
            if len(members) == len(self.result.answers) and len(set(wrong)) == 1:
                said = "all" + wrong[0]
            made.append((said, point, members[0]))
        return made

    def _curve(self) -> Plot:
        """The value along the moving entry, and the slopes that the conventions give it."""
        i = self.entries.index(self.values["entry"])
        at, stops = self._at(self.values), self._stops(self.values)
        grid = sorted({*stops, *np.linspace(stops[0], stops[-1], 41).tolist()})
        with np.errstate(all="ignore"):
            heights = [self._height(at, i, v) for v in grid]
        here, top = float(at[i]), self.result.value
        name = self.values["entry"]
        label = f"The value against {name}, with the slope of each convention at {number(here)}"
        p = Plot(label, f"Value along {name}", (grid[0], grid[-1]), span(heights, 0.2), name, "value")
        p.line(list(zip(grid, heights)))
        reach, (low, high) = (grid[-1] - grid[0]) / 5, span(heights, 0.2)
        for _, (slope,), first in self._groups([i]):
            if not math.isfinite(slope) or not math.isfinite(top):
                continue
            p.line(
                [(here - 2 * reach, top - slope * 2 * reach), (here + 2 * reach, top + slope * 2 * reach)], "ad-soft"
            )
            rooms = [((high - top if slope * side > 0 else top - low) * 0.8, side) for side in (1, -1)]
            ends = [(min(reach, room / abs(slope) if slope else reach), side) for room, side in rooms]
            length, side = max(ends)
            end = here + side * length
            p.point(end, top + slope * (end - here), MARKERS[first.convention])
            p.note(end, top + slope * (end - here), f"slope {_tidy(slope)}", dx=11, dy=16)
        p.point(here, top)
        return p

    def _height(self, at, i, v) -> float:
        x = at.copy()
        x[i] = v
        try:
            return float(np.sum(np.asarray(self.f(*map(Tensor, _split(x, self.shapes))).data)))
        except Exception:  # where the user's function has no value, the curve has a gap
            return math.nan

    def _subdifferential(self) -> Plot:
        """Where the answers lie, and the set of all valid ones."""
        i, open_ = self.entries.index(self.values["entry"]), self.result.open or self._open
        first = i if i in open_ or not open_ else open_[0]
        rest = [k for k in open_ if k != first]
        return self._plane(first, rest[0]) if rest else self._interval(first)

    def _none(self) -> str:
        return "not known" if self.result.without == "limit" else "none"

    def _interval(self, i) -> Plot:
        made, name = self.result, self.entries[i]
        ends = made.nearby[:, i] if not made.without else np.empty(0)
        low, high = (float(ends.min()), float(ends.max())) if len(ends) else (math.nan, math.nan)
        groups = [g for g in self._groups([i]) if math.isfinite(g[1][0])]
        x = span([low, high, *(p[0] for _, p, _ in groups)], 0.35)
        said = self._none()
        if len(ends):
            said = f"every slope in [{_tidy(low)}, {_tidy(high)}]" if i in made.open else f"{_tidy(low)} alone"
        title = f"Valid slopes of {name}: {said}"
        p = Plot(title, title, x, (0, len(groups) + 1), f"gradient of {name}", "", ticks="x")
        if i in made.open and len(ends):
            p.area([(low, 0), (high, 0), (high, len(groups) + 1), (low, len(groups) + 1)])
        elif len(ends):
            p.spot(low, 0.45)
        for row, (text, (slope,), first) in enumerate(groups):
            p.point(slope, len(groups) - row, MARKERS[first.convention])
            p.note(slope, len(groups) - row, text, dx=13)
        return p

    def _plane(self, i, j) -> Plot:
        made = self.result
        points = [] if made.without else _hull(made.nearby[:, [i, j]])
        groups = [g for g in self._groups([i, j]) if all(map(math.isfinite, g[1]))]
        every = [*points, *(p for _, p, _ in groups)]
        a, b = self.entries[i], self.entries[j]
        shape = "segment" if len(points) == 2 else "area" if len(points) > 2 else "point"
        more = "" if len(made.open) <= 2 else f", {len(made.open)} entries are open"
        corners = ", ".join(f"({_tidy(u)}, {_tidy(v)})" for u, v in points[:8]) + (", …" if len(points) > 8 else "")
        form = f"form a{'n' * (shape == 'area')} {shape} with corners {corners}"
        if len(points) < 2:
            form = f"are one point, {corners}" if points else f"are {self._none()}"
        label = f"The valid gradients of {a} and {b} {form}"
        x, y = _alike(span([u for u, _ in every], 0.3), span([v for _, v in every], 0.3))
        p = Plot(label, f"Valid gradients{more}", x, y, f"gradient of {a}", f"gradient of {b}")
        if len(points) > 2:
            p.area(points)
        elif len(points) == 2:
            p.line(points, "ad-strong")
        elif points:
            p.spot(*points[0])
        for text, (u, v), first in groups:
            p.point(u, v, MARKERS[first.convention])
            p.note(u, v, text, dx=13)
        return p


def _alike(x, y) -> tuple:
    """Both ranges widened so that a unit is as long on both axes of a plot."""
    wide, high = WIDTH - SIDE - RIGHT, HEIGHT - TOP - BOTTOM
    unit = max((x[1] - x[0]) / wide, (y[1] - y[0]) / high)
    more = [(unit * side - (b - a)) / 2 for (a, b), side in ((x, wide), (y, high))]
    return tuple((a - m, b + m) for (a, b), m in zip((x, y), more))


def _hull(points) -> list[tuple[float, float]]:
    """The corners of the convex hull, anticlockwise (Andrew's monotone chain)."""
    points = sorted(set(map(tuple, np.round(points, 9).tolist())))
    if len(points) < 3:
        return points

    def half(points):
        chain: list = []
        for x, y in points:
            while len(chain) > 1:
                (ax, ay), (bx, by) = chain[-2:]
                if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 1e-9:
                    break
                chain.pop()
            chain.append((x, y))
        return chain[:-1]

    return half(points) + half(points[::-1])


def ties(f, *inputs) -> TiesLab:
    """A lab on ties and kinks: three conventions side by side, which of them are valid, and the set of valid answers.

    `f`: a function of as many arrays as there are `inputs`, up to 64 entries in all; of several results the sum counts.
    A slider moves one entry over its ties. What `f` raises is raised.

    >>> from autodiff import labs
    >>> lab = labs.ties(lambda x: x.max(), [1.0, 3.0, 3.0])
    >>> lab.result["each"].valid, lab.result["each"].why
    (False, 'shares sum to 2 instead of 1')
    """
    if not inputs:
        raise TypeError(f"ties takes a function and at least one input: labs.{EXAMPLE}")
    return TiesLab(f, finite_arrays(inputs, input_names(function(f, EXAMPLE), len(inputs))))
