"""Check gradients against differences of the function's values, and explain a disagreement.

A check that passes is short: record `f` once, ask for its gradients, move every input entry up and down by one step,
compare. Everything else here starts after a disagreement: differences at many steps, slopes from the left and from the
right, the rules one by one. A gradient is called wrong only where the differences are known better than the gap.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass

import numpy as np

from .backward import propagate
from .checking.causes import Objection, first_misfit
from .checking.functions import (
    First,
    Recording,
    Replay,
    Second,
    array_of,
    below_roots,
    differentiable,
    flat_gradient,
    floating,
    index_of,
    label_of,
    random_cotangent,
    where_not_finite,
)
from .checking.report import (
    KINK,
    MATCH,
    NOT_DETERMINISTIC,
    NOT_FINITE,
    NOT_MULTIPLIED,
    NOTHING,
    UNSUITED,
    WRONG_DTYPE,
    WRONG_SHAPE,
    WRONG_VALUE,
    Entry,
    GradcheckError,
    GradcheckReport,
    Kink,
    number,
    some,
)
from .checking.study import LADDER, Judgement, Study
from .graph import PATH, Node, sorted_nodes
from .outside import plain
from .structure import rebuilt, walk
from .tensor import Var

DIRECTIONS = 8  # how many random directions stand for an input with too many entries
COMBINATIONS = 4  # how many random cotangents stand for too many output entries


# What is asked


def gradcheck(
    f,
    inputs,
    *,
    eps=None,
    atol=1e-7,
    rtol=1e-5,
    raise_exception=True,
    fast_mode=False,
    rng=0,
    directions=DIRECTIONS,
    max_entries=2000,
    hold_detached=False,
    allow_float32=False,
) -> GradcheckReport:
    """Whether the gradients of `f` agree with differences of its values: a `GradcheckReport`, true if they do.

    `f` takes the inputs and returns a Tensor or a tuple of them; integer outputs and plain arrays count as constants.
    `inputs`: a floating array, a Var or a number, or a tuple of them, each of which may be a nested tuple, list or dict
    as well; integers and plain Tensors are passed on and not checked. `eps`: the step; left out, it follows from dtype
    and magnitude. An entry agrees when |analytic - numeric| <= atol + rtol * |numeric|, and as the numeric slope is
    uncertain itself, that much is allowed as well.
    `fast_mode`: along `directions` random directions instead of entry by entry; inputs with more than `max_entries`
    entries always are. `rng`: the seed of cotangents and directions. `hold_detached`: on the numeric side too, what was
    detached stays as it is. `allow_float32`: check float32 inputs, with tolerances that suit their precision.
    `GradcheckError`, an AssertionError with `.report`, when something disagrees or nothing was checked; with
    `raise_exception=False` the report comes back. ValueError for float32 inputs that were not allowed.

    >>> import numpy as np, autodiff as ad
    >>> bool(ad.gradcheck(lambda x, w: np.tanh(x @ w), (np.array([[1.0, 2.0]]), np.array([[0.5], [-0.1]]))))
    True
    >>> stop = lambda x: (x - (x / 2).detach()) ** 2
    >>> ad.gradcheck(stop, 3.0, raise_exception=False).verdict, ad.gradcheck(stop, 3.0, hold_detached=True).verdict
    ('disconnected', 'match')
    """
    settings = _Settings(eps, atol, rtol, fast_mode, directions, max_entries, hold_detached, allow_float32)
    return _given_back(_check(1, f, inputs, settings, rng), raise_exception)


def gradgradcheck(
    f,
    inputs,
    *,
    eps=None,
    atol=1e-7,
    rtol=1e-5,
    raise_exception=True,
    fast_mode=False,
    rng=0,
    directions=DIRECTIONS,
    max_entries=2000,
    hold_detached=False,
    allow_float32=False,
) -> GradcheckReport:
    """Whether the gradients of the gradients of `f` agree with differences of its gradients; see `gradcheck`.

    The gradients of `f`, for a random cotangent, are taken as a function of the inputs and of the cotangent, and that
    function is checked. It says nothing about the first derivative itself: run `gradcheck` as well.

    >>> import numpy as np, autodiff as ad
    >>> bool(ad.gradgradcheck(np.exp, np.array([0.1, 0.2])))
    True
    """
    settings = _Settings(eps, atol, rtol, fast_mode, directions, max_entries, hold_detached, allow_float32)
    return _given_back(_check(2, f, inputs, settings, rng), raise_exception)


@dataclass
class _Settings:
    eps: float | None
    atol: float
    rtol: float
    fast_mode: bool
    directions: int
    max_entries: int
    hold_detached: bool
    allow_float32: bool
    max_rows: int = 1000
    explain: bool = True


def _given_back(report: GradcheckReport, raise_exception: bool) -> GradcheckReport:
    if raise_exception and not report:
        raise GradcheckError(report)
    return report


def _check(order: int, f, inputs, settings: _Settings, rng) -> GradcheckReport:
    several = isinstance(inputs, tuple) or isinstance(inputs, list) and any(hasattr(i, "shape") for i in inputs)
    arguments = list(inputs) if several else [inputs]
    named = [leaf for name, a in zip(_names(f, arguments), arguments) for leaf in walk(a, name)]
    names, items = [name for name, _ in named], [item for _, item in named]
    call = f if [*map(id, items)] == [*map(id, arguments)] else lambda *items: f(*rebuilt(arguments, iter(items)))
    positions, values, notes = [], [], []
    for i, item in enumerate(items):
        value = _value_to_check(item, names[i], settings)
        if value is not None:
            positions.append(i)
            values.append(value)
    seed = rng if isinstance(rng, (int, np.integer)) else "of the generator passed as rng="
    if not positions:
        kinds = some(f"{n} is {_kind(item)}" for n, item in zip(names, items))
        plain = any(isinstance(item, Node) and floating(item) for item in items)
        advice = "plain Tensors are constants, so pass an array or a Var" if plain else "write 3.0 for 3"
        return _nothing(order, seed, f"No input is a Var or a floating array ({kinds}): {advice}.")
    names = [names[p] for p in positions]
    notes += _shared_memory(names, values)
    rng = np.random.default_rng(rng)
    subject = First(call, items, positions, names)
    before = [v.copy() for v in values]
    if order == 2:
        outputs = [y for y in subject.record([Var(v) for v in values]) if differentiable(y)]
        cotangents = [random_cotangent(rng, np.shape(y), y.dtype) for y in outputs]
        subject = Second(subject, len(values), names)
        values = values + cotangents
        names = names + ["cotangent" + (f" of output {k}" if len(outputs) > 1 else "") for k in range(len(outputs))]
    report = _Run(subject, names, values, settings, rng, seed, notes).report()
    if any(v.tobytes() != b.tobytes() for v, b in zip(values, before)):
        return GradcheckReport(
            NOT_DETERMINISTIC,
            False,
            order,
            "f writes to the arrays that it was given as inputs.",
            seed=seed,
            evaluations=report.evaluations,
        )
    return report


def _value_to_check(item, name: str, settings: _Settings):
    """The array of an input that is to be checked, or None for one that is just passed on."""
    if isinstance(item, Node):
        if item._rule is not None:
            raise TypeError(f"gradcheck: input {name} was computed from other tensors; pass its .data, or a Var")
        value = item._array if item.is_variable else None
    elif isinstance(plain(item, "gradcheck"), (float, np.ndarray, np.generic)):
        value = np.asarray(item)
        if value.dtype.kind == "c":
            raise TypeError(f"gradcheck: input {name} is complex; complex numbers are not supported")
        value = value if value.dtype.kind == "f" else None
    else:
        value = None
    if value is not None and value.dtype.itemsize < 8 and not settings.allow_float32:
        raise ValueError(
            f"gradcheck: input {name} is {value.dtype}. At its precision (eps {np.finfo(value.dtype).eps:.0e}) no step "
            "gives a difference that is good to more than two or three digits, so right gradients look wrong. Convert "
            "it with .astype('float64'), or pass allow_float32=True for wider tolerances"
        )
    return value


def _names(f, items) -> list[str]:
    """What to call the inputs: a Var's own name, else f's parameter."""
    try:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [p.name for p in inspect.signature(f).parameters.values() if p.kind in kinds]
    except (TypeError, ValueError):
        parameters = []
    names = parameters[: len(items)] + [f"input {i}" for i in range(len(parameters), len(items))]
    return [getattr(item, "name", None) or name for item, name in zip(items, names)]


def _sentence(text: str) -> str:
    """`text` as the start of a sentence; names stay as they are."""
    return text[:1].upper() + text[1:] if text.startswith("the ") else text


def _kind(item) -> str:
    if isinstance(item, Node):
        return f"a plain Tensor of {item._array.dtype}"
    return f"an array of {item.dtype}" if isinstance(item, np.ndarray) else f"the {type(item).__name__} {item!r:.20}"


def _shared_memory(names, values) -> list[str]:
    """Notes on inputs whose entries share memory: they are checked on copies, where every entry moves alone."""
    notes = []
    for i, (name, v) in enumerate(zip(names, values)):
        low, high = np.lib.array_utils.byte_bounds(v) if v.size else (0, 0)
        if high - low < v.size * v.itemsize:
            notes.append(f"entries of {name} share memory (stride {v.strides}): checked on a copy, each moves alone")
        for other, w in zip(names[:i], values):
            if _overlap(v, w):
                notes.append(f"{other} and {name} share memory: checked on copies, each moves alone")
    return notes


def _overlap(v, w) -> bool:
    try:
        return np.shares_memory(v, w, max_work=10_000)
    except np.exceptions.TooHardError:
        return False


def _nothing(order, seed, why, **more) -> GradcheckReport:
    return GradcheckReport(NOTHING, False, order, why, seed=seed, **more)


# The check


@dataclass
class _Flag:
    """An entry that does not agree at the usual step: input k, column c, row j."""

    k: int
    c: int
    j: int
    severity: float


class _Misfit(Exception):
    """A gradient of the wrong shape or dtype."""

    def __init__(self, verdict, k, got):
        self.verdict, self.k, self.got = verdict, k, got


class _Run:
    """One check of a Jacobian: a column is an input entry or a direction, a row an output entry or a combination."""

    def __init__(self, subject, names, values, settings, rng, seed, notes=()):
        self.subject, self.names, self.settings, self.rng, self.seed = subject, names, settings, rng, seed
        self.given = [np.array(v) for v in values]
        self.notes, self.evaluations = list(notes), 0
        self.studies, self.kinks = {}, []
        self.reached = [False] * len(self.given)

    def result(self, verdict, ok=False, headline="", **more) -> GradcheckReport:
        return GradcheckReport(
            verdict,
            ok,
            self.subject.order,
            headline,
            seed=self.seed,
            evaluations=self.evaluations,
            notes=self.notes,
            **more,
        )

    def report(self) -> GradcheckReport:
        try:
            early = self.begin()
            if early is not None:
                return early
            self.analytic_side()
        except _Misfit as misfit:
            return Objection(self).misfit_report(misfit)
        with np.errstate(all="ignore"):
            early = self.find_way()
            if early is None:
                with self.way.quiet():
                    early = self.numeric_side()
            return self.judge() if early is None else early

    # Before anything is compared

    def begin(self) -> GradcheckReport | None:
        for name, v in zip(self.names, self.given):
            if not np.isfinite(v).all():
                return self.result(
                    NOT_FINITE, headline=f"The input {name} itself is {where_not_finite(v)}: no slope there."
                )
        if self.settings.hold_detached:
            self.subject = Replay(self.subject)
        self.variables = [Var(v, name=n) for v, n in zip(self.given, self.names)]
        returned = self.subject.record(self.variables)
        self.positions = [i for i, y in enumerate(returned) if floating(y)]
        self.ys = [returned[i] for i in self.positions]
        if len(self.ys) < len(returned):
            kinds = sorted({str(array_of(y).dtype) for y in returned if not floating(y)})
            if not self.ys:
                return _nothing(
                    self.subject.order,
                    self.seed,
                    f"f returned {' and '.join(kinds)} only, and only floating outputs have a derivative.",
                )
            self.notes.append(f"an output of {' and '.join(kinds)} was passed over: it has no derivative")
        self.shapes = [np.shape(y) for y in self.ys]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.count = sum(self.sizes)
        self.look_at_graph(len(returned))
        for name, y in zip(self.output_names, self.ys):
            if not np.isfinite(array_of(y)).all():
                return self.result(
                    NOT_FINITE, headline=f"The value of {name} is {where_not_finite(array_of(y))}: no slope there."
                )
        if not self.count or not any(v.size for v in self.given):
            empty = "the output has" if not self.count else "the inputs have"
            self.analytic_form()
            return _nothing(
                self.subject.order,
                self.seed,
                f"{empty.capitalize()} no entries, so there is no slope to "
                "compare (shapes and dtypes of the gradients are right).",
            )
        return None

    def look_at_graph(self, count) -> None:
        self.output_names = [self.subject.name(i, count) for i in self.positions]
        self.nodes = below_roots([y for y in self.ys if isinstance(y, Node)])
        nodes, own = set(self.nodes), set(self.variables)
        self.used = [v in nodes for v in self.variables]
        self.captured = [t for t in self.nodes if t.is_variable and t not in own]
        self.detached = sorted((t for t in self.nodes if getattr(t, "_source", None) is not None), key=lambda t: t._id)
        if self.captured:
            kind = some(sorted(label_of(t) for t in self.captured))
            self.notes.append(f"f also uses Vars that are not arguments: {kind}. They were held constant, not checked")
        if self.settings.hold_detached:
            self.notes.append(f"held constant: {self.detached_words()}")

    def detached_words(self) -> str:
        return f"{len(self.detached)} detached tensor{'s' * (len(self.detached) != 1)}" + (
            f" ({some(label_of(t) for t in self.detached)})" if self.detached else ""
        )

    # The analytic side

    def analytic_form(self) -> None:
        self.pull([np.ones(shape, array_of(y).dtype) for shape, y in zip(self.shapes, self.ys)])

    def analytic_side(self) -> None:
        """The Jacobian by the rules: `rows[k][j]` is the gradient of input k for row j."""
        s, rng = self.settings, self.rng
        self.dense = [random_cotangent(rng, shape, array_of(y).dtype) for shape, y in zip(self.shapes, self.ys)]
        self.by_entry = self.count <= s.max_rows and not s.fast_mode
        if self.by_entry:
            self.height = self.count
            self.rows = [np.zeros((self.count, v.size), v.dtype) for v in self.given]
            scales = np.abs(random_cotangent(rng, (self.count,), float)) * np.where(np.arange(self.count) % 2, -1, 1)
            j = 0
            for y, shape, size in zip(self.ys, self.shapes, self.sizes):
                self.fill_rows(y, shape, size, j, scales)
                j += size
            self.dense_twice = [self.pull(self.dense, bare=True) for _ in range(2)]
        else:
            self.height = COMBINATIONS
            self.combinations = [self.dense] + [
                [random_cotangent(rng, shape, array_of(y).dtype) for shape, y in zip(self.shapes, self.ys)]
                for _ in range(COMBINATIONS - 1)
            ]
            self.mixture = np.stack([np.concatenate([c.reshape(-1) for c in cs]) for cs in self.combinations])
            self.dense_twice = [self.pull(self.dense, bare=True) for _ in range(2)]
            pulled = [self.dense_twice[0]] + [self.pull(c) for c in self.combinations[1:]]
            self.rows = [np.stack([flat_gradient(p[k], v) for p in pulled]) for k, v in enumerate(self.given)]

    def fill_rows(self, y, shape, size, j, scales) -> None:
        if not isinstance(y, Node) or y._role != PATH:
            return
        order = sorted_nodes(y, self.variables)
        needed, stay, dtype = set(order), set(self.variables), y._array.dtype
        if y not in needed:
            return
        for e in range(size):
            seed = np.zeros(size, dtype)
            seed[e] = scale = scales[j + e].astype(dtype)
            slots = {y: seed.reshape(shape)}
            try:
                propagate(order, slots, needed=needed, stay=stay)
            except Exception as error:
                self.raise_named(error)
            for k, v in enumerate(self.variables):
                g = slots.get(v)
                if g is not None:
                    self.check_form(k, g)
                    np.divide(np.reshape(g, -1), scale, out=self.rows[k][j + e])

    def pull(self, cotangents, bare=False) -> list:
        """The gradients for these cotangents: one array, or None when not reached, for each input."""
        totals = [None] * len(self.given)
        for y, c in zip(self.ys, cotangents):
            if not isinstance(y, Node) or y._role != PATH:
                continue
            try:
                store = y.backward(c) if bare else y.backward(c, wrt=self.variables)
            except Exception as error:
                self.raise_named(error)
            for k, v in enumerate(self.variables):
                g = store.get(v)
                if g is not None:
                    self.check_form(k, g._array)
                    totals[k] = g._array if totals[k] is None else totals[k] + g._array
        return totals

    def check_form(self, k, g) -> None:
        v = self.given[k]
        if g.shape != v.shape:
            raise _Misfit(WRONG_SHAPE, k, g.shape)
        if g.dtype != v.dtype:
            raise _Misfit(WRONG_DTYPE, k, g.dtype)
        self.reached[k] = True

    def raise_named(self, error) -> None:
        """A backward pass failed: blame a share of the wrong shape if there is one, else let the error through."""
        found = first_misfit(self.subject.roots, self.rng)
        if found is None:
            raise error
        node, i, verdict, got, expected = found
        raise _Misfit(verdict, None, (node, i, got, expected, error)) from error

    # The numeric side

    def find_way(self) -> GradcheckReport | None:
        """How to evaluate the function so that it gives the value that was recorded; twice, so that chance shows."""
        self.z0 = np.concatenate([array_of(y).reshape(-1) for y in self.ys]).astype(
            np.result_type(*map(array_of, self.ys))
        )
        recorded = self.project(self.z0)
        precision = max(np.finfo(v.dtype).eps for v in (*self.given, *map(array_of, self.ys)))
        ways = [(self.subject, False)]
        if precision > 1e-10:
            ways.insert(0, (self.subject, True))
        if type(self.subject) is First:
            s = self.subject
            ways.append((Recording(s.f, s.items, s.positions, s.names), False))
        problem = None
        for way, widen in ways:
            self.start(way, widen)
            try:
                with way.quiet():
                    z = np.array(self.z())
            except Exception as error:
                problem = error
                continue
            scale = np.max(np.abs(recorded)) if recorded.size else 0
            # So much change is rounding, or is too little to be seen in a slope.
            self.same = max(1000 * float(precision) * scale, 0.1 * self.settings.atol * self.usual_step(0))
            if z.shape == recorded.shape and np.all(np.abs(z - recorded) <= self.same):
                self.z0 = z
                return None
        if problem is not None:
            raise problem
        return self.changing(recorded, z)

    def start(self, way, widen) -> None:
        self.way = way
        self.x = [v.astype(np.float64) if widen and v.dtype.itemsize < 8 else v for v in self.given]
        self.work = [v.copy() for v in self.x]
        self.views = [w[...] if w.ndim else w.reshape(()) for w in self.work]
        self.flat = [w.reshape(-1) for w in self.work]
        self.operands = [way.operand(v) for v in self.views]

    def changing(self, first, again) -> GradcheckReport:
        j = int(np.argmax(np.abs(np.nan_to_num(again - first)))) if first.shape == again.shape else 0
        if self.subject.order == 2:
            with self.way.quiet():
                a, b = np.array(self.z()), np.array(self.z())
            if np.all(np.abs(a - b) <= self.same):
                return self.result(
                    WRONG_VALUE,
                    headline=f"{_sentence(self.row_name(j))} is {number(first[j])} when the rules run on "
                    f"Tensors and {number(again[j])} when they run on arrays.",
                    hint="a rule whose branches, or values it reads with .data, differ between the two",
                )
        return self.result(
            NOT_DETERMINISTIC,
            hint="a random number or a state inside f: fix its seed inside f, or pass it as an input",
            headline=f"The same inputs gave {self.row_name(j)} = {number(first[j])}, then {number(again[j])}.",
        )

    def z(self) -> np.ndarray:
        """The rows' values at what `work` holds now. The result may share memory with `work`."""
        self.evaluations += 1
        ys = self.way.plain(self.operands)
        if len(self.positions) == 1:
            y = array_of(ys[self.positions[0]])
            if y.shape != self.shapes[0]:
                raise ValueError(f"gradcheck: f returned shape {self.shapes[0]} at the point and {y.shape} close to it")
            y = y.reshape(-1)
        else:
            y = np.concatenate([array_of(ys[i]).reshape(-1) for i in self.positions])
            if y.size != self.count:
                raise ValueError(f"gradcheck: f returned {self.count} entries at the point and {y.size} close to it")
        return y if self.by_entry else self.project(y)

    def project(self, y) -> np.ndarray:
        if self.by_entry:
            return y
        return self.mixture @ y

    def usual_step(self, k) -> float:
        x = self.x[k]
        return self.settings.eps or float(np.finfo(x.dtype).eps) ** (1 / 3)

    def scale(self, k):
        return 1.0 if self.settings.eps else np.maximum(1.0, np.abs(self.x[k].reshape(-1)))

    def numeric_side(self) -> GradcheckReport | None:
        """Two evaluations for each column, one step up and one step down, then one comparison of all of them."""
        s = self.settings
        self.columns, self.numeric, self.severity, self.flags, self.suspects = [], [], [], [], []
        for k, x in enumerate(self.x):
            if s.fast_mode or x.size > s.max_entries:
                size = min(s.directions, x.size) if x.size else 0
                self.columns.append([self.rng.normal(size=x.size) * self.natural_scale(k) for _ in range(size)])
                self.along_directions(k)
            else:
                self.columns.append(range(x.size))
                self.entry_by_entry(k)
        again = np.array(self.z())
        if not np.all(np.abs(again - self.z0) <= self.same):
            return self.changing(self.z0, again)
        return None

    def natural_scale(self, k):
        return np.maximum(1.0, np.abs(self.x[k].reshape(-1)))

    def entry_by_entry(self, k) -> None:
        flat, x = self.flat[k], self.x[k].reshape(-1)
        step = self.usual_step(k) * self.scale(k)
        up, down = x + step, x - step
        above, below = np.empty((2, x.size, self.height), np.result_type(self.z0, np.float64))
        # A new operand for each evaluation, around the same array: a function that remembers operands is not fooled.
        z, operands, view, operand = self.z, self.operands, self.views[k], self.way.operand
        for i, (high, low, here) in enumerate(zip(up, down, x)):
            flat[i] = high
            operands[k] = operand(view)
            above[i] = z()
            flat[i] = low
            operands[k] = operand(view)
            below[i] = z()
            flat[i] = here
        operands[k] = operand(view)
        self.compare(k, above, below, up - x, x - down, self.rows[k].T)

    def along_directions(self, k) -> None:
        directions = self.columns[k]
        h = self.usual_step(k)
        above, below = np.empty((2, len(directions), self.height), np.result_type(self.z0, np.float64))
        for i, u in enumerate(directions):
            above[i], below[i] = self.moved(k, u, h), self.moved(k, u, -h)
        distance = np.full(len(directions), h)
        analytic = np.stack([self.rows[k] @ u for u in directions]) if directions else np.zeros((0, self.height))
        self.compare(k, above, below, distance, distance, analytic)

    def moved(self, k, u, t):
        """The rows' values with input k moved by t times a direction, or times a unit of one entry."""
        flat, x = self.flat[k], self.x[k].reshape(-1)
        if isinstance(u, int):
            flat[u] = x[u] + t
        else:
            flat[:] = x + t * u
        self.renew(k)
        z = np.array(self.z())
        flat[:] = x
        self.renew(k)
        return z

    def renew(self, k) -> None:
        """Make the operand of input k anew, after its array was written to."""
        self.operands[k] = self.way.operand(self.views[k])

    def compare(self, k, above, below, up, down, analytic) -> None:
        up, down = up[:, None], down[:, None]
        slope = (above - below) / (up + down)
        gap, allowed = np.abs(analytic - slope), self.allowed(k, slope, analytic)
        severity = gap / allowed
        bad = ~(severity <= 1)
        self.numeric.append(slope)
        self.severity.append(severity)
        for c, j in zip(*np.nonzero(bad)):
            self.flags.append(_Flag(k, int(c), int(j), float(severity[c, j]) if severity[c, j] >= 0 else math.inf))
        # Left and right slopes that differ by more than curvature explains: worth a second look even where all agrees.
        right, left = (above - self.z0) / up, (self.z0 - below) / down
        size = np.maximum(np.abs(right), np.abs(left))
        doubt = ~bad & (np.abs(right - left) > 1e-3 * size + 1e-4)
        self.suspects += [(k, int(c), int(j)) for c, j in zip(*np.nonzero(doubt))]

    def allowed(self, k, slope, analytic):
        """How far analytic and numeric slope may differ: the tolerances, and the rounding of the analytic side."""
        s, eps = self.settings, float(np.finfo(self.given[k].dtype).eps)
        atol, rtol = (max(s.atol, 64 * eps), max(s.rtol, 1000 * eps)) if eps > 1e-10 else (s.atol, s.rtol)
        largest = np.max(np.abs(analytic), axis=0, initial=0.0, where=np.isfinite(analytic))
        return atol + rtol * np.abs(slope) + 64 * eps * largest

    # After a disagreement

    def study(self, k, c) -> Study:
        if (k, c) not in self.studies:
            u = self.columns[k][c]
            single = isinstance(u, int)
            x = float(self.x[k].reshape(-1)[u]) if single else 0.0
            h = float(np.finfo(self.x[k].dtype).eps) ** (1 / 3) * (max(1.0, abs(x)) if single else 1.0)
            steps = list(h * LADDER)
            if 0 < abs(x) < 1e-4:  # as near to 0 as this, the steps must shrink with x
                steps += [abs(x) * f for f in (1e-1, 1e-2, 1e-3, 1e-4)]
            with self.way.quiet():
                self.studies[k, c] = self.study_along(k, u, h, np.unique(steps)[::-1])
        return self.studies[k, c]

    def study_along(self, k, u, h, steps) -> Study:
        up = down = steps
        if isinstance(u, int):  # the steps that are really made: x + t is rounded
            x = self.x[k].reshape(-1)[u]
            up, down = (x + steps) - x, x - (x - steps)
        above = np.array([self.moved(k, u, t) for t in steps])
        below = np.array([self.moved(k, u, -t) for t in steps])
        return Study(h, up, down, above, below, self.z0)

    def judge(self) -> GradcheckReport:
        """Look again, at many steps, at whatever did not agree at the first; then say what was found."""
        if not all(np.isfinite(rows).all() for rows in self.rows):
            return Objection(self).not_finite()
        early = self.unsteady_gradients()
        if early is not None:
            return early
        wrong, kinks, unsure, checked = [], [], [], self.height * sum(len(c) for c in self.columns)
        settled, agreed = 0, []
        objection = Objection(self)
        for flag in sorted(self.flags, key=lambda flag: -flag.severity):
            if len(wrong) >= 200:
                break
            found = self.look_again(flag)
            if found.status == UNSUITED and len(unsure) < 20:
                objection.ask_complex_step(flag, found)
            if found.status == WRONG_VALUE:
                wrong.append((flag, found))
            else:
                settled += 1
                if found.status == KINK:
                    kinks.append((flag, found))
                elif found.status != MATCH:
                    unsure.append((flag, found))
                else:
                    agreed.append((flag, found))
                    if self.settings.eps and not found.note:
                        found.note = f"the step {self.settings.eps:g} does not suit it, others do, and there it agrees"
                    if found.note:
                        self.notes.append(f"{self.row_name(flag.j)} by {self.place(flag.k, flag.c)}: {found.note}")
        for flag, found in self.doubtful():
            (kinks if found.status == KINK else unsure).append((flag, found))
        count = len(self.flags) - settled
        if not wrong:
            wrong = self.torn_ties(kinks)
            count = len(wrong)
        if not wrong:
            wrong = self.not_linear()
            count = len(wrong)
        if wrong:
            return Objection(self).wrong_report(wrong, kinks, count, checked)
        if unsure:
            return Objection(self).unsure_report(unsure, checked)
        unused = self.unused_report(checked)
        return self.match_report(kinks, checked, agreed) if unused is None else unused

    def look_again(self, flag) -> Judgement:
        k, c, j = flag.k, flag.c, flag.j
        analytic = self.analytic(k, c, j)
        row = self.rows[k][j]
        scale = max(abs(analytic), float(np.max(np.abs(row), initial=0.0)))
        slack = float(self.allowed(k, np.zeros(1), np.array([[analytic]]))[0])
        found = self.study(k, c).judge(j, analytic, slack, self.rtol(k), scale)
        found.analytic = analytic
        return found

    def rtol(self, k):
        eps = float(np.finfo(self.given[k].dtype).eps)
        return max(self.settings.rtol, 1000 * eps) if eps > 1e-10 else self.settings.rtol

    def analytic(self, k, c, j) -> float:
        u = self.columns[k][c]
        return float(self.rows[k][j][u] if isinstance(u, int) else self.rows[k][j] @ u)

    # What may hide behind agreement

    def doubtful(self) -> list:
        """Kinks among the entries that agreed, as abs does at 0: the slopes still differ at a smaller step.

        Those of sqrt(abs(x)) as well, where left and right cancel and neither side has a slope.
        """
        found_there, columns = [], {}
        for k, c, j in self.suspects:
            columns.setdefault((k, c), []).append(j)
        for (k, c), rows in list(columns.items())[:200]:
            u, h = self.columns[k][c], self.usual_step(k)
            h = h * float(np.max(self.scale(k)[u])) if isinstance(u, int) and not self.settings.eps else h
            with self.way.quiet():
                bend = [np.abs(self.moved(k, u, t) - 2 * self.z0 + self.moved(k, u, -t)) / t for t in (h, h / 10)]
            for j in rows:
                if bend[1][j] > 0.5 * bend[0][j]:
                    flag = _Flag(k, c, j, 0.0)
                    found = self.look_again(flag)
                    if found.status in (KINK, NOT_FINITE):
                        found_there.append((flag, found))
        return found_there

    def torn_ties(self, kinks) -> list:
        """Tied entries moved together go past no kink, so their shares must add up to a slope that does exist."""
        torn, rows = [], {}
        for flag, found in kinks:
            if isinstance(self.columns[flag.k][flag.c], int) and not found.near:
                rows.setdefault(flag.j, []).append(flag)
        for j, flags in list(rows.items())[:50]:
            if len(flags) < 2:
                continue
            columns = tuple((flag.k, flag.c) for flag in flags)
            h = max(self.usual_step(flag.k) for flag in flags)
            slopes, bends = zip(*[self.together(columns, j, t) for t in (h, h / 10)])
            analytic = sum(self.analytic(flag.k, flag.c, j) for flag in flags)
            allowed = len(flags) * (self.settings.atol + self.rtol(flags[0].k) * max(1.0, abs(slopes[0]))) + 1e-6
            smooth = max(abs(slopes[1] - slopes[0]), max(bends)) < 1e-3 * max(1.0, abs(slopes[0]))
            if smooth and abs(analytic - slopes[0]) > allowed:
                found = Judgement(
                    WRONG_VALUE, slopes[0], abs(slopes[1] - slopes[0]), analytic=analytic, together=columns
                )
                torn.append((flags[0], found))
        return torn

    def together(self, columns, j, t):
        """Slope and bend of row j when these entries are moved by the same amount."""
        values = []
        for sign in (1, -1):
            for k, c in columns:
                self.flat[k][c] = self.x[k].reshape(-1)[c] + sign * t
                self.renew(k)
            with self.way.quiet():
                values.append(float(self.z()[j]))
            for k, c in columns:
                self.flat[k][c] = self.x[k].reshape(-1)[c]
                self.renew(k)
        z = float(self.z0[j])
        return (values[0] - values[1]) / (2 * t), abs(values[0] - 2 * z + values[1]) / t

    def not_linear(self) -> list:
        """Entries where the gradient for one dense cotangent is not the sum of the gradients for its entries."""
        if not self.by_entry:
            return []
        c = np.concatenate([d.reshape(-1) for d in self.dense])
        bad = []
        for k, v in enumerate(self.given):
            parts, dense = c @ self.rows[k], flat_gradient(self.dense_twice[0][k], v)
            size = np.abs(c) @ np.abs(self.rows[k])
            gap = np.abs(dense - parts)
            allowed = self.settings.atol + max(1e-8, 1000 * float(np.finfo(v.dtype).eps)) * size
            for i in np.flatnonzero(~(gap <= allowed)):
                found = Judgement(WRONG_VALUE, float(parts[i]), float(allowed[i]), analytic=float(dense[i]))
                bad.append((_Flag(k, int(i), -1, float(gap[i] / allowed[i])), found))
        return sorted(bad, key=lambda pair: -pair[0].severity)

    def unsteady_gradients(self) -> GradcheckReport | None:
        for k, v in enumerate(self.given):
            first, again = (flat_gradient(pulled[k], v) for pulled in self.dense_twice)
            limit = 1000 * float(np.finfo(v.dtype).eps) * float(np.max(np.abs(first), initial=0.0))
            if not (np.abs(first - again) <= limit).all():
                i = int(np.argmax(np.abs(first - again)))
                return self.result(
                    NOT_DETERMINISTIC,
                    hint="a random number or a state inside a rule",
                    headline=(
                        f"Two backward passes over one graph gave {self.entry_name(k, i)} the gradients "
                        f"{number(first[i])} and {number(again[i])}, {abs(first[i] - again[i]):.0e} apart."
                    ),
                )
        return None

    # Names

    def entry_name(self, k, i) -> str:
        return Entry("", self.names[k], index_of(i, self.given[k].shape), 0, 0, 0).place

    def place(self, k, c) -> str:
        u = self.columns[k][c]
        return self.entry_name(k, u) if isinstance(u, int) else f"{self.names[k]} along a random direction"

    def row_name(self, j) -> str:
        if not self.by_entry or j < 0:
            return f"a random combination of {self.count} output entries" if self.count > 1 else self.output_names[0]
        for name, shape, size in zip(self.output_names, self.shapes, self.sizes):
            if j < size:
                return Entry("", name, index_of(j, shape), 0, 0, 0).place
            j -= size
        raise IndexError(j)

    def row_cotangents(self, j) -> list:
        """The cotangents of row j, one for each output."""
        if j < 0:
            return self.dense
        if not self.by_entry:
            return self.combinations[j]
        whole = np.zeros(self.count)
        whole[j] = 1.25
        parts = np.split(whole, np.cumsum(self.sizes)[:-1])
        return [p.reshape(s).astype(array_of(y).dtype) for p, s, y in zip(parts, self.shapes, self.ys)]

    # What to say: nothing to object to

    def base_facts(self) -> list:
        groups = {}
        for kink in self.kinks:
            groups.setdefault(kink.words, []).append(f"{kink.output} by {kink.input}")
        facts = [("kink", f"{some(places)}: {words}") for words, places in list(groups.items())[:3]]
        if len(groups) > 3:
            facts.append(("kink", f"and {len(groups) - 3} more of the kind"))
        facts += [("note", text) for text in self.notes[:4]]
        if len(self.notes) > 4:
            facts.append(("note", f"and {len(self.notes) - 4} more"))
        return facts

    def last_fact(self) -> tuple[str, str]:
        s = self.settings
        step = f"{s.eps:g}" if s.eps else f"{self.usual_step(0):.0e} * max(1, |x|)"
        silent = "second order" if self.subject.order == 1 else "the first derivative"
        return "seed", (
            f"{self.seed}, step {step}, {self.evaluations} evaluations. Not checked: other points and shapes, {silent}."
        )

    def match_report(self, kinks, checked, agreed) -> GradcheckReport:
        self.kinks = self.told(kinks)
        worst, best = None, -0.5
        for k, (slope, severity) in enumerate(zip(self.numeric, self.severity)):
            plain = np.where(severity <= 1, severity, -1)  # those that agreed at the first step
            if plain.size and plain.max() > best:
                best = plain.max()
                c, j = (int(n) for n in np.unravel_index(np.argmax(plain), plain.shape))
                worst = self.entry(k, c, j, self.analytic(k, c, j), slope[c, j], 0.0)
        if worst is None and agreed:
            flag, found = agreed[0]
            worst = self.entry(flag.k, flag.c, flag.j, found.analytic, found.numeric, found.error)
            worst.allowed += found.error
        verdict = KINK if self.kinks else MATCH
        facts = []
        if worst:
            facts.append(
                (
                    "worst",
                    f"{worst.output} by {worst.place}: gradient {number(worst.analytic)}, numeric "
                    f"{number(worst.numeric)}, gap {worst.absolute or 0:.1g} of {worst.allowed:.1g} allowed",
                )
            )
        return self.result(
            verdict,
            True,
            self.extent(),
            worst=worst,
            checked=checked,
            kinks=self.kinks,
            facts=facts + self.base_facts() + [self.last_fact()],
            **self.met(),
        )

    def told(self, kinks) -> list[Kink]:
        kinks = sorted(kinks, key=lambda pair: (pair[1].near, pair[0].k, pair[0].c, pair[0].j))
        return [
            Kink(self.row_name(flag.j), self.place(flag.k, flag.c), found.left, found.right, found.analytic, found.near)
            for flag, found in kinks
        ]

    def met(self) -> dict:
        return {"detached": [label_of(t) for t in self.detached], "captured": [label_of(t) for t in self.captured]}

    def extent(self) -> str:
        """How much was looked at, in words."""
        parts = []
        for name, v, columns in zip(self.names, self.given, self.columns):
            if isinstance(columns, range):
                parts.append(f"{v.size} of {name}" if v.ndim else name)
            else:
                parts.append(f"{len(columns)} directions of {v.size} of {name}")
        rows = (
            f"{self.count} output entr{'y' if self.count == 1 else 'ies'}"
            if self.by_entry
            else f"{self.height} random combinations of {self.count} output entries"
        )
        total = self.height * sum(len(columns) for columns in self.columns)
        return (
            f"{'All ' * (total > 1)}{total} slope{'s agree' if total > 1 else ' agrees'}: {rows} by {', '.join(parts)}."
        )

    def unused_report(self, checked) -> GradcheckReport | None:
        """Something that was to be checked was not: f does not use it, or no gradient can come through."""
        if any(self.reached) and self.subject.order == 2:
            idle = [n for n, used in list(zip(self.names, self.used))[self.subject_n() :] if not used]
            if idle:
                return self.result(
                    NOT_MULTIPLIED,
                    headline=f"The gradients do not change with {some(idle)}: a partial "
                    "must return g times the derivative.",
                    facts=[self.last_fact()],
                    **self.met(),
                )
            return None
        unused = [n for n, used, v in zip(self.names, self.used, self.given) if not used and v.size]
        if any(self.reached) and (not unused or self.settings.hold_detached):
            return None
        if any(self.reached):
            why = f"f does not use {some(unused)}: no op has it as input, and the output does not change with it."
        elif unused:
            why = f"f does not use {some(unused)}, so it has no gradient there, and the output does not change with it."
        else:
            cuts = dict.fromkeys(t._rule.name for t in self.nodes if t._rule is not None and t._role != PATH)
            why = (
                f"No gradient reaches {some(self.names)}: it ends at {some(cuts)}, and the numeric slope is 0 as well."
            )
        hint = None
        if self.captured and unused:
            hint = (
                f"f uses {some(sorted(label_of(t) for t in self.captured))} from outside. Inside f, use the argument: "
                "what is checked is a copy of what you passed in"
            )
        elif self.settings.hold_detached and self.detached:
            hint = "everything was detached, and held constant as asked"
        facts = [("hint", hint)] if hint else []
        return self.result(
            NOTHING,
            headline=why,
            hint=hint,
            checked=checked if any(self.reached) else 0,
            facts=facts + self.base_facts() + [self.last_fact()],
            **self.met(),
        )

    def subject_n(self) -> int:
        return getattr(self.subject, "n", None) or self.subject.subject.n

    def entry(self, k, c, j, analytic, numeric, uncertainty) -> Entry:
        u = self.columns[k][c]
        index = index_of(u, self.given[k].shape) if isinstance(u, int) else None
        allowed = float(self.allowed(k, np.array([float(numeric)]), np.array([[float(analytic)]]))[0])
        return Entry(
            self.row_name(j), self.names[k], index, float(analytic), float(numeric), allowed, float(uncertainty)
        )
