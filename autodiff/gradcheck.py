"""Check gradients against differences of the function's values, and explain a disagreement.

A check that passes is short: record `f` once, ask for its gradients, move every input entry up and down by one step,
compare. Everything else here starts after a disagreement: differences at many steps, slopes from the left and from the
right, the rules one by one. A gradient is called wrong only where the differences are known better than the gap.
"""

from __future__ import annotations

import inspect
import math
import textwrap
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from .backward import detect_nonfinite, propagate
from .graph import PATH, Node, sorted_nodes
from .recording import apply, constant, no_grad
from .tensor import Var

MATCH = "match"
WRONG_VALUE = "wrong value"
WRONG_SHAPE = "wrong shape"
WRONG_DTYPE = "wrong dtype"
DISCONNECTED = "disconnected"
ZERO = "zero where the slope is not"
NOT_MULTIPLIED = "not multiplied by the cotangent"
NOT_DETERMINISTIC = "not deterministic"
KINK = "at a kink"
NOT_FINITE = "not finite"
UNSUITED = "step unsuited to this magnitude"
NOTHING = "nothing was checked"
JUMP = "at a jump"  # reported as "at a kink": there is no slope

DIRECTIONS = 8  # how many random directions stand for an input with too many entries
COMBINATIONS = 4  # how many random cotangents stand for too many output entries
LADDER = 10.0 ** np.arange(4, -7, -1)  # the steps of a study, as multiples of the usual step


# What comes back


class GradcheckError(AssertionError):
    """A gradient did not pass its check; `.report` is the `GradcheckReport`."""

    def __init__(self, report: GradcheckReport):
        super().__init__(f"\n{report}")
        self.report = report


@dataclass
class Entry:
    """One entry of the Jacobian: which output entry by which input entry, and what either side says it is."""

    output: str
    input: str
    index: tuple[int, ...] | None  # None: along a random direction
    analytic: float
    numeric: float
    allowed: float
    uncertainty: float = 0.0  # how far off the numeric slope itself may be

    @property
    def absolute(self) -> float:
        """The gap between the two."""
        return abs(self.analytic - self.numeric)

    @property
    def relative(self) -> float:
        """The gap as a part of the larger of the two."""
        return self.absolute / max(abs(self.analytic), abs(self.numeric)) if self.absolute else 0.0

    @property
    def place(self) -> str:
        """The input entry in words."""
        if self.index is None:
            return f"{self.input} along a random direction"
        return self.input + (f"[{', '.join(map(str, self.index))}]" if self.index else "")


@dataclass
class Kink:
    """A place where the slopes from the left and from the right differ, and the value that the gradient takes there."""

    output: str
    input: str
    left: float
    right: float
    analytic: float
    near: bool = False  # within one step of the point, not at it

    def __str__(self) -> str:
        low, high = sorted((self.left, self.right))
        where = "within one step of" if self.near else "at"
        return (f"{where} {self.input}, the slope of {self.output} is {_number(self.left)} on the left and "
                f"{_number(self.right)} on the right: every value in [{_number(low)}, {_number(high)}] is valid. "
                f"The gradient says {_number(self.analytic)}, {self.convention}.")  # fmt: skip

    @property
    def convention(self) -> str:
        """Which of the valid values the gradient takes."""
        near = 1e-4 * abs(self.right - self.left)
        for value, name in ((self.left, "the slope on the left"), (self.right, "the slope on the right"),
                            ((self.left + self.right) / 2, "the middle"), (0.0, "the flat one")):  # fmt: skip
            if abs(self.analytic - value) <= near:
                return name
        return "one in between"


@dataclass(repr=False)
class GradcheckReport:
    """What a check found; true when everything matched, or took a valid value at a kink. Shown as text and as HTML.

    `verdict`: one of "match", "wrong value", "wrong shape", "wrong dtype", "disconnected", "zero where the slope is not",
    "not multiplied by the cotangent", "not deterministic", "at a kink", "not finite", "step unsuited to this magnitude",
    "nothing was checked". `worst`: the entry that is furthest off, with `.output`, `.input`, `.index`, `.analytic`,
    `.numeric`, `.absolute`, `.relative`. `wrong` of `checked` entries disagree. `hint`: the usual cause. `op`: the first
    op whose own rule disagrees. `steps`: (step, numeric slope, gap) of the worst entry. `taylor`: the order of the Taylor
    remainder, 2 when right and 1 when wrong. `kinks`, `detached`, `captured`, `notes`: what was met on the way.
    """

    verdict: str
    ok: bool
    order: int = 1
    headline: str = ""
    worst: Entry | None = None
    wrong: int = 0
    checked: int = 0
    hint: str | None = None
    op: str | None = None
    steps: list[tuple[float, float, float]] = field(default_factory=list)
    taylor: float | None = None
    complex_step: float | None = None
    kinks: list[Kink] = field(default_factory=list)
    detached: list[str] = field(default_factory=list)
    captured: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seed: object = 0
    evaluations: int = 0
    facts: list[tuple[str, str]] = field(default_factory=list)  # what the text says below the first line

    def __bool__(self) -> bool:
        return self.ok

    @property
    def first_line(self) -> str:
        """The verdict in words, and where."""
        words = "match, at a kink" if self.ok and self.verdict == KINK else self.verdict
        return f"{'gradcheck' if self.order == 1 else 'gradgradcheck'}: {words}. {self.headline}"

    def __str__(self) -> str:
        lines = [self.first_line]
        for name, text in self.facts:
            lines += textwrap.wrap(f"{name}: {text}", 118, initial_indent="  ", subsequent_indent="    ",
                                   break_long_words=False, break_on_hyphens=False)  # fmt: skip
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        cell = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"

        def row(cells, tag="td"):
            return "<tr>" + "".join(f'<{tag} style="{cell}">{escape(str(c))}</{tag}>' for c in cells) + "</tr>"

        parts = [f"<p><strong>{escape(self.first_line)}</strong></p>", "<table>"]
        parts += [f'<tr><th scope="row" style="{cell}">{escape(name)}</th><td style="{cell}">{escape(text)}</td></tr>'
                  for name, text in self.facts if name != "steps"]  # fmt: skip
        parts.append("</table>")
        if self.steps:
            parts += ["<table>", row(("step", "numeric slope", "gap to the gradient"), "th")]
            parts += [row((f"{h:.0e}", _number(slope), f"{gap:.1e}")) for h, slope, gap in self.steps]
            parts += ["</table>", *(f"<p>{escape(text)}</p>" for name, text in self.facts if name == "steps")]
        return '<div style="border-left:4px solid currentColor;padding-left:12px">' + "".join(parts) + "</div>"


def _number(x) -> str:
    x = float(x)
    return f"{x:.7g}" if x != round(x, 3) or abs(x) >= 1e7 else f"{x + 0.0:.10g}"


def _some(names, most: int = 4) -> str:
    names = list(names)
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


# What is asked


def gradcheck(f, inputs, *, eps=None, atol=1e-7, rtol=1e-5, raise_exception=True, fast_mode=False, rng=0,
              directions=DIRECTIONS, max_entries=2000, hold_detached=False, allow_float32=False) -> GradcheckReport:  # fmt: skip
    """Whether the gradients of `f` agree with differences of its values: a `GradcheckReport`, true if they do.

    `f` takes the inputs and returns a Tensor or a tuple of them; integer outputs and plain arrays count as constants.
    `inputs`: a floating array, a Var or a number, or a tuple of them; integers and plain Tensors are passed on and not
    checked. `eps`: the step; left out, it follows from dtype and magnitude. An entry agrees when |analytic - numeric| <=
    atol + rtol * |numeric|, and as the numeric slope is uncertain itself, that much is allowed as well.
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


def gradgradcheck(f, inputs, *, eps=None, atol=1e-7, rtol=1e-5, raise_exception=True, fast_mode=False, rng=0,
                  directions=DIRECTIONS, max_entries=2000, hold_detached=False,
                  allow_float32=False) -> GradcheckReport:  # fmt: skip
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
    items = list(inputs) if several else [inputs]
    names = _names(f, items)
    positions, values, notes = [], [], []
    for i, item in enumerate(items):
        value = _value_to_check(item, names[i], settings)
        if value is not None:
            positions.append(i)
            values.append(value)
    seed = rng if isinstance(rng, (int, np.integer)) else "of the generator passed as rng="
    if not positions:
        kinds = _some(f"{n} is {_kind(item)}" for n, item in zip(names, items))
        return _nothing(order, seed, f"No input is a Var or a floating array ({kinds}): write 3.0 for 3.")
    names = [names[p] for p in positions]
    notes += _shared_memory(names, values)
    rng = np.random.default_rng(rng)
    subject = _First(f, items, positions, names)
    before = [v.copy() for v in values]
    if order == 2:
        outputs = [y for y in subject.record([Var(v) for v in values]) if _floating(y)]
        cotangents = [_cotangent(rng, np.shape(y), y.dtype) for y in outputs]
        subject = _Second(subject, len(values), names)
        values = values + cotangents
        names = names + ["the cotangent" + (f" of output {k}" if len(outputs) > 1 else "") for k in range(len(outputs))]
    report = _Run(subject, names, values, settings, rng, seed, notes).report()
    if any(v.tobytes() != b.tobytes() for v, b in zip(values, before)):
        return GradcheckReport(NOT_DETERMINISTIC, False, order, "f writes to the arrays that it was given as inputs.",
                               seed=seed, evaluations=report.evaluations)  # fmt: skip
    return report


def _value_to_check(item, name: str, settings: _Settings):
    """The array of an input that is to be checked, or None for one that is just passed on."""
    if isinstance(item, Node):
        if item._rule is not None:
            raise TypeError(f"gradcheck: input {name} was computed from other tensors; pass its .data, or a Var")
        value = item._data if item.is_variable else None
    elif isinstance(item, (float, list, np.ndarray, np.generic)) and not isinstance(item, (bool, str)):
        value = np.asarray(item)
        if value.dtype.kind == "c":
            raise TypeError(f"gradcheck: input {name} is complex; complex numbers are not supported")
        value = value if value.dtype.kind == "f" else None
    else:
        value = None
    if value is not None and value.dtype.itemsize < 8 and not settings.allow_float32:
        raise ValueError(
            f"gradcheck: input {name} is {value.dtype}. At its precision (eps {np.finfo(value.dtype).eps:.0e}) no step "
            "gives a difference that is good to more than two or three digits, so right gradients look wrong. Convert it "
            "with .astype('float64'), or pass allow_float32=True for wider tolerances")  # fmt: skip
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


def _kind(item) -> str:
    if isinstance(item, Node):
        return f"a plain Tensor of {item._data.dtype}"
    return f"an array of {item.dtype}" if isinstance(item, np.ndarray) else f"the {type(item).__name__} {item!r:.20}"


def _shared_memory(names, values) -> list[str]:
    """Notes on inputs whose entries share memory: they are checked on copies, where every entry moves alone."""
    notes = []
    for i, (name, v) in enumerate(zip(names, values)):
        low, high = np.lib.array_utils.byte_bounds(v) if v.size else (0, 0)
        if high - low < v.size * v.itemsize:
            notes.append(f"entries of {name} share memory (stride {v.strides}): checked on a copy, each moves alone")
        for other, w in zip(names[:i], values):
            if v.size and w.size and np.shares_memory(v, w, max_work=10_000) if v.ndim < 3 else np.may_share_memory(v, w):
                notes.append(f"{other} and {name} share memory: checked on copies, each moves alone")
    return notes


def _floating(y) -> bool:
    return (y._data.dtype if isinstance(y, Node) else np.asarray(y).dtype).kind == "f"


def _array(y) -> np.ndarray:
    return y._data if isinstance(y, Node) else np.asarray(y)


def _cotangent(rng, shape, dtype):
    """Random, of either sign, no entry near 0 and hardly one equal to 1: ones would hide errors that sum to zero."""
    return np.asarray(rng.choice((-1.0, 1.0), shape) * rng.uniform(0.5, 1.5, shape)).astype(dtype)


def _nothing(order, seed, why, **more) -> GradcheckReport:
    return GradcheckReport(NOTHING, False, order, why, seed=seed, **more)


# What is checked: a function that can be recorded from Vars, and evaluated without recording


class _First:
    """`f` itself."""

    order = 1
    quiet = staticmethod(no_grad)

    def __init__(self, f, items, positions, names):
        self.f, self.items, self.positions, self.names = f, items, positions, names
        self.whole = len(positions) == len(items)
        self.roots = ()

    def call(self, tensors) -> tuple:
        if self.whole:
            y = self.f(*tensors)
        else:
            items = self.items.copy()
            for p, t in zip(self.positions, tensors):
                items[p] = t
            y = self.f(*items)
        if isinstance(y, Node):
            return (y,)
        y = tuple(y) if isinstance(y, (tuple, list)) else (y,)
        for part in y:
            if not isinstance(part, (Node, np.ndarray, np.generic, int, float)):
                raise TypeError(f"gradcheck: f must return a Tensor or a tuple of them, got {type(part).__name__}")
        return y

    def record(self, variables) -> tuple:
        self.roots = self.call(variables)
        return self.roots

    def plain(self, arrays) -> tuple:
        return self.call([constant(a) for a in arrays])

    def name(self, i: int, count: int) -> str:
        return "output" if count == 1 else f"output {i}"


class _Recording(_First):
    """`f` evaluated on Vars, for functions that look at gradients themselves and so need to be recorded."""

    quiet = staticmethod(nullcontext)

    def plain(self, arrays) -> tuple:
        return self.call([Var(a) for a in arrays])


class _Second:
    """The gradients of `f`, as a function of its inputs and of the cotangent."""

    order = 2
    quiet = staticmethod(nullcontext)

    def __init__(self, first: _First, n: int, names):
        self.first, self.n, self.names = first, n, names
        self.roots = ()

    def record(self, variables) -> tuple:
        result = self.gradients(variables[: self.n], variables[self.n :], "none")
        self.roots = self.first.roots
        return result

    def plain(self, arrays) -> tuple:
        return self.gradients([Var(a) for a in arrays[: self.n]], arrays[self.n :], "all")

    def gradients(self, xs, cotangents, detach) -> tuple:
        totals = [None] * self.n
        outputs = [y for y in self.first.record(xs) if _floating(y)]
        for y, c in zip(outputs, cotangents):
            if not isinstance(y, Node) or y._role != PATH:
                continue
            store = y.backward(c, wrt=xs, detach=detach)
            for k, x in enumerate(xs):
                g = store.get(x)
                if g is not None:
                    totals[k] = g if totals[k] is None else totals[k] + g
        return tuple([np.zeros(x._shape, x._data.dtype) if g is None else g for x, g in zip(xs, totals)])

    def name(self, i: int, count: int) -> str:
        return f"the gradient of {self.names[i]}"


class _Replay:
    """The recorded graph, evaluated again with other inputs: what was detached is a leaf of it, and stays as it is."""

    quiet = staticmethod(no_grad)

    def __init__(self, subject):
        self.subject, self.order, self.name = subject, subject.order, subject.name

    roots = property(lambda self: self.subject.roots)

    def record(self, variables) -> tuple:
        self.variables, self.outputs = variables, self.subject.record(variables)
        nodes = _below([y for y in self.outputs if isinstance(y, Node)])
        self.nodes = [(t, *_forward_params(t)[:1]) for t in sorted(nodes, key=lambda t: t._id) if t._rule is not None]
        return self.outputs

    def plain(self, arrays) -> tuple:
        values = dict(zip(self.variables, arrays))
        for node, params in self.nodes:
            operands = [values.get(t, t._data) if isinstance(t, Node) else t for t in node._inputs]
            rule = node._rule
            values[node] = rule.forward(operands, **params) if rule.each else rule.forward(*operands, **params)
        return tuple([values.get(y, y._data) if isinstance(y, Node) else y for y in self.outputs])


def _below(roots) -> list[Node]:
    """The roots and everything they were computed from, along differentiable paths or not."""
    found = list(dict.fromkeys(roots))
    seen = set(found)
    for node in found:  # grows while we walk it
        for t in node._inputs:
            if isinstance(t, Node) and t not in seen:
                seen.add(t)
                found.append(t)
    return found


def _forward_params(node: Node) -> tuple[dict, dict]:
    """A node's params, parted into those that its forward takes and those that its partials alone take."""
    params = node._params
    if not params:
        return params, params
    known = node._rule.signature.parameters
    anything = any(p.kind == p.VAR_KEYWORD for p in known.values())
    forward = {k: v for k, v in params.items() if anything and k != "saved" or k in known}
    return forward, {k: v for k, v in params.items() if k not in forward and k != "saved"}


# The check


@dataclass
class _Flag:
    """An entry that does not agree at the usual step: input k, column c, functional j of the outputs."""

    k: int
    c: int
    j: int
    severity: float


class _Misfit(Exception):
    """A gradient of the wrong shape or dtype."""

    def __init__(self, verdict, k, got):
        self.verdict, self.k, self.got = verdict, k, got


class _Run:
    """One check. A column of the Jacobian is an input entry or a direction; a row is an output entry or a combination."""

    def __init__(self, subject, names, values, settings, rng, seed, notes=()):
        self.subject, self.names, self.settings, self.rng, self.seed = subject, names, settings, rng, seed
        self.given = [np.array(v) for v in values]
        self.notes, self.evaluations = list(notes), 0
        self.studies, self.kinks = {}, []

    def result(self, verdict, ok=False, headline="", **more) -> GradcheckReport:
        return GradcheckReport(verdict, ok, self.subject.order, headline, seed=self.seed, evaluations=self.evaluations,
                               notes=self.notes, **more)  # fmt: skip

    def report(self) -> GradcheckReport:
        early = self.begin()
        if early is not None:
            return early
        try:
            self.analytic_side()
        except _Misfit as misfit:
            return self.misfit_report(misfit)
        with np.errstate(all="ignore"):
            early = self.find_way()
            if early is None:
                with self.way.quiet():
                    early = self.numeric_side()
            return early or self.judge()

    # Before anything is compared

    def begin(self) -> GradcheckReport | None:
        for name, v in zip(self.names, self.given):
            if not np.isfinite(v).all():
                return self.result(NOT_FINITE, headline=f"{name} itself is {_where_not_finite(v)}: no slope there.")
        if self.settings.hold_detached:
            self.subject = _Replay(self.subject)
        self.variables = [Var(v, name=n) for v, n in zip(self.given, self.names)]
        returned = self.subject.record(self.variables)
        self.positions = [i for i, y in enumerate(returned) if _floating(y)]
        self.ys = [returned[i] for i in self.positions]
        if len(self.ys) < len(returned):
            kinds = sorted({str(_array(y).dtype) for y in returned if not _floating(y)})
            if not self.ys:
                return _nothing(self.subject.order, self.seed, f"f returned {' and '.join(kinds)} only, and only "
                                "floating outputs have a derivative.")  # fmt: skip
            self.notes.append(f"an output of {' and '.join(kinds)} was passed over: it has no derivative")
        self.shapes = [np.shape(y) for y in self.ys]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.count = sum(self.sizes)
        self.look_at_graph(len(returned))
        for name, y in zip(self.output_names, self.ys):
            if not np.isfinite(_array(y)).all():
                return self.result(NOT_FINITE, headline=f"{name} is {_where_not_finite(_array(y))}: no slope there.")
        if not self.count or not any(v.size for v in self.given):
            empty = "the output has" if not self.count else "the inputs have"
            self.analytic_form()
            return _nothing(self.subject.order, self.seed, f"{empty.capitalize()} no entries, so there is no slope to "
                            "compare (shapes and dtypes of the gradients are right).")  # fmt: skip
        return None

    def look_at_graph(self, count) -> None:
        self.output_names = [self.subject.name(i, count) for i in self.positions]
        self.nodes = _below([y for y in self.ys if isinstance(y, Node)])
        nodes, own = set(self.nodes), set(self.variables)
        self.used = [v in nodes for v in self.variables]
        self.captured = [t for t in self.nodes if t.is_variable and t not in own]
        self.detached = sorted((t for t in self.nodes if getattr(t, "_source", None) is not None), key=lambda t: t._id)
        if self.captured:
            kind = _some(sorted(_label(t) for t in self.captured))
            self.notes.append(f"f also uses Vars that are not arguments: {kind}. They were held constant, not checked")
        if self.settings.hold_detached:
            self.notes.append(f"held constant: {self.detached_words()}")

    def detached_words(self) -> str:
        return (f"{len(self.detached)} detached tensor{'s' * (len(self.detached) != 1)}"
                + (f" ({_some(_label(t) for t in self.detached)})" if self.detached else ""))  # fmt: skip

    # The analytic side

    def analytic_form(self) -> None:
        self.pull([np.ones(shape, _array(y).dtype) for shape, y in zip(self.shapes, self.ys)])

    def analytic_side(self) -> None:
        """The Jacobian by the rules: `rows[k][j]` is the gradient of input k for row j."""
        s, rng = self.settings, self.rng
        self.dense = [_cotangent(rng, shape, _array(y).dtype) for shape, y in zip(self.shapes, self.ys)]
        self.reached = [False] * len(self.given)
        self.by_entry = self.count <= s.max_rows and not s.fast_mode
        if self.by_entry:
            self.functionals = self.count
            self.rows = [np.zeros((self.count, v.size), v.dtype) for v in self.given]
            scales = np.abs(_cotangent(rng, (self.count,), float)) * np.where(np.arange(self.count) % 2, -1, 1)
            j = 0
            for y, shape, size in zip(self.ys, self.shapes, self.sizes):
                self.fill_rows(y, shape, size, j, scales)
                j += size
            self.dense_twice = [self.pull(self.dense, bare=True) for _ in range(2)]
        else:
            self.functionals = COMBINATIONS
            self.combinations = [self.dense] + [
                [_cotangent(rng, shape, _array(y).dtype) for shape, y in zip(self.shapes, self.ys)]
                for _ in range(COMBINATIONS - 1)
            ]
            self.mixture = np.stack([np.concatenate([c.reshape(-1) for c in cs]) for cs in self.combinations])
            self.dense_twice = [self.pull(self.dense, bare=True) for _ in range(2)]
            pulled = [self.dense_twice[0]] + [self.pull(c) for c in self.combinations[1:]]
            self.rows = [np.stack([_flat(p[k], v) for p in pulled]) for k, v in enumerate(self.given)]

    def fill_rows(self, y, shape, size, j, scales) -> None:
        if not isinstance(y, Node) or y._role != PATH:
            return
        order = sorted_nodes(y, self.variables)
        needed, stay, dtype = set(order), set(self.variables), y._data.dtype
        if y not in needed:
            return
        for e in range(size):
            seed = np.zeros(size, dtype)
            seed[e] = scale = scales[j + e].astype(dtype)
            slots = {y: seed.reshape(shape)}
            try:
                propagate(order, slots, needed, stay, "all", False)
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
                    self.check_form(k, g._data)
                    totals[k] = g._data if totals[k] is None else totals[k] + g._data
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
        found = _first_misfit(self.subject.roots, self.rng)
        if found is None:
            raise error
        node, i, verdict, got, expected = found
        raise _Misfit(verdict, None, (node, i, got, expected, error)) from error

    # The numeric side

    def find_way(self) -> GradcheckReport | None:
        """How to evaluate the function so that it gives the value that was recorded; twice, so that chance shows."""
        self.z0 = np.concatenate([_array(y).reshape(-1) for y in self.ys]).astype(np.result_type(*map(_array, self.ys)))
        recorded = self.project(self.z0)
        precision = max(np.finfo(v.dtype).eps for v in (*self.given, *map(_array, self.ys)))
        ways = [(self.subject, False)]
        if precision > 1e-10:
            ways.insert(0, (self.subject, True))
        if type(self.subject) is _First:
            s = self.subject
            ways.append((_Recording(s.f, s.items, s.positions, s.names), False))
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
            self.same = 1000 * precision * max(scale, np.finfo(precision.dtype).tiny)
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

    def changing(self, first, again) -> GradcheckReport:
        j = int(np.argmax(np.abs(np.nan_to_num(again - first)))) if first.shape == again.shape else 0
        if self.subject.order == 2:
            with self.way.quiet():
                a, b = np.array(self.z()), np.array(self.z())
            if np.all(np.abs(a - b) <= self.same):
                return self.result(WRONG_VALUE, headline=f"{self.row_name(j)} is {_number(first[j])} when the rules run on "
                                   f"Tensors and {_number(again[j])} when they run on arrays.",
                                   hint="a rule whose branches, or values it reads with .data, differ between the two")  # fmt: skip
        return self.result(
            NOT_DETERMINISTIC, hint="a random number or a state inside f: fix its seed inside f, or pass it as an input",
            headline=f"The same inputs gave {self.row_name(j)} = {_number(first[j])}, then {_number(again[j])}.")  # fmt: skip

    def z(self) -> np.ndarray:
        """The rows' values at what `work` holds now. The result may share memory with `work`."""
        self.evaluations += 1
        ys = self.way.plain(self.views)
        if len(self.positions) == 1:
            y = _array(ys[self.positions[0]])
            if y.shape != self.shapes[0]:
                raise ValueError(f"gradcheck: f returned shape {self.shapes[0]} at the point and {y.shape} close to it")
            y = y.reshape(-1)
        else:
            y = np.concatenate([_array(ys[i]).reshape(-1) for i in self.positions])
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
        """Two evaluations for each column, one step up and one step down, then the comparison of all of them at once."""
        s = self.settings
        self.columns, self.numeric, self.flags, self.suspects = [], [], [], []
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
        above, below = np.empty((2, x.size, self.functionals), np.result_type(self.z0, np.float64))
        z = self.z
        for i, (high, low, here) in enumerate(zip(up, down, x)):
            flat[i] = high
            above[i] = z()
            flat[i] = low
            below[i] = z()
            flat[i] = here
        self.compare(k, above, below, up - x, x - down, self.rows[k].T)

    def along_directions(self, k) -> None:
        directions = self.columns[k]
        h = self.usual_step(k)
        above, below = np.empty((2, len(directions), self.functionals), np.result_type(self.z0, np.float64))
        for i, u in enumerate(directions):
            above[i], below[i] = self.moved(k, u, h), self.moved(k, u, -h)
        distance = np.full(len(directions), h)
        analytic = np.stack([self.rows[k] @ u for u in directions]) if directions else np.zeros((0, self.functionals))
        self.compare(k, above, below, distance, distance, analytic)

    def moved(self, k, u, t):
        """The rows' values with input k moved by t times a direction, or times a unit of one entry."""
        flat, x = self.flat[k], self.x[k].reshape(-1)
        if isinstance(u, int):
            flat[u] = x[u] + t
            z = np.array(self.z())
            flat[u] = x[u]
        else:
            flat[:] = x + t * u
            z = np.array(self.z())
            flat[:] = x
        return z

    def compare(self, k, above, below, up, down, analytic) -> None:
        up, down = up[:, None], down[:, None]
        slope = (above - below) / (up + down)
        gap, allowed = np.abs(analytic - slope), self.allowed(k, slope, analytic)
        severity = gap / allowed
        bad = ~(severity <= 1)
        self.numeric.append(slope)
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

    def study(self, k, c) -> _Study:
        if (k, c) not in self.studies:
            u = self.columns[k][c]
            single = isinstance(u, int)
            x = float(self.x[k].reshape(-1)[u]) if single else 0.0
            h = float(np.finfo(self.x[k].dtype).eps) ** (1 / 3) * (max(1.0, abs(x)) if single else 1.0)
            steps = list(h * LADDER)
            if 0 < abs(x) < 1e-6:  # as near to 0 as this, the steps must shrink with x
                steps += [abs(x) * f for f in (1e-1, 1e-2, 1e-3, 1e-4)]
            with self.way.quiet():
                self.studies[k, c] = self.study_along(k, u, h, np.sort(steps)[::-1])
        return self.studies[k, c]

    def study_along(self, k, u, h, steps) -> _Study:
        up = down = steps
        if isinstance(u, int):  # the steps that are really made: x + t is rounded
            x = self.x[k].reshape(-1)[u]
            up, down = (x + steps) - x, x - (x - steps)
        above = np.array([self.moved(k, u, t) for t in steps])
        below = np.array([self.moved(k, u, -t) for t in steps])
        return _Study(h, up, down, above, below, self.z0)

    def judge(self) -> GradcheckReport:
        """Look again, at many steps, at whatever did not agree at the first; then say what was found."""
        if not all(np.isfinite(rows).all() for rows in self.rows):
            return self.not_finite()
        early = self.unsteady_gradients()
        if early is not None:
            return early
        wrong, kinks, unsure, checked = [], [], [], self.functionals * sum(len(c) for c in self.columns)
        settled = 0
        for flag in sorted(self.flags, key=lambda flag: -flag.severity):
            if len(wrong) >= 200:
                break
            found = self.look_again(flag)
            if found.status == WRONG_VALUE:
                wrong.append((flag, found))
            else:
                settled += 1
                if found.status == KINK:
                    kinks.append((flag, found))
                elif found.status != MATCH:
                    unsure.append((flag, found))
                elif found.note:
                    self.notes.append(f"{self.row_name(flag.j)} by {self.place(flag.k, flag.c)}: {found.note}")
        kinks += self.doubtful()
        count = len(self.flags) - settled
        if not wrong:
            wrong = self.torn_ties(kinks)
            count = len(wrong)
        if not wrong:
            wrong = self.not_linear()
            count = len(wrong)
        if wrong:
            return self.wrong_report(wrong, kinks, count, checked)
        if unsure:
            return self.unsure_report(unsure, checked)
        return self.unused_report(checked) or self.match_report(kinks, checked)

    def look_again(self, flag) -> _Judgement:
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
        """Kinks among the entries that agreed, as abs does at 0: left and right slope still differ at a smaller step."""
        kinks, columns = [], {}
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
                    if found.status == KINK:
                        kinks.append((flag, found))
        return kinks

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
                found = _Judgement(WRONG_VALUE, slopes[0], abs(slopes[1] - slopes[0]), analytic=analytic, together=columns)
                torn.append((flags[0], found))
        return torn

    def together(self, columns, j, t):
        """Slope and bend of row j when these entries are moved by the same amount."""
        values = []
        for sign in (1, -1):
            for k, c in columns:
                self.flat[k][c] = self.x[k].reshape(-1)[c] + sign * t
            with self.way.quiet():
                values.append(float(self.z()[j]))
            for k, c in columns:
                self.flat[k][c] = self.x[k].reshape(-1)[c]
        z = float(self.z0[j])
        return (values[0] - values[1]) / (2 * t), abs(values[0] - 2 * z + values[1]) / t

    def not_linear(self) -> list:
        """Entries where the gradient for one dense cotangent is not the sum of the gradients for its entries."""
        if not self.by_entry:
            return []
        c = np.concatenate([d.reshape(-1) for d in self.dense])
        bad = []
        for k, v in enumerate(self.given):
            parts, dense = c @ self.rows[k], _flat(self.dense_twice[0][k], v)
            size = np.abs(c) @ np.abs(self.rows[k])
            gap = np.abs(dense - parts)
            allowed = self.settings.atol + max(1e-8, 1000 * float(np.finfo(v.dtype).eps)) * size
            for i in np.flatnonzero(~(gap <= allowed)):
                found = _Judgement(WRONG_VALUE, float(parts[i]), float(allowed[i]), analytic=float(dense[i]))
                bad.append((_Flag(k, int(i), -1, float(gap[i] / allowed[i])), found))
        return sorted(bad, key=lambda pair: -pair[0].severity)

    def unsteady_gradients(self) -> GradcheckReport | None:
        for k, v in enumerate(self.given):
            first, again = (_flat(pulled[k], v) for pulled in self.dense_twice)
            limit = 1000 * float(np.finfo(v.dtype).eps) * float(np.max(np.abs(first), initial=0.0))
            if not (np.abs(first - again) <= limit).all():
                i = int(np.argmax(np.abs(first - again)))
                return self.result(NOT_DETERMINISTIC, hint="a random number or a state inside a rule", headline=(
                    f"Two backward passes over one graph gave {self.entry_name(k, i)} the gradients {_number(first[i])} "
                    f"and {_number(again[i])}."))  # fmt: skip
        return None

    # Names

    def entry_name(self, k, i) -> str:
        return Entry("", self.names[k], _index(i, self.given[k].shape), 0, 0, 0).place

    def place(self, k, c) -> str:
        u = self.columns[k][c]
        return self.entry_name(k, u) if isinstance(u, int) else f"{self.names[k]} along a random direction"

    def row_name(self, j) -> str:
        if not self.by_entry or j < 0:
            return f"a random combination of {self.count} output entries" if self.count > 1 else self.output_names[0]
        for name, shape, size in zip(self.output_names, self.shapes, self.sizes):
            if j < size:
                return Entry("", name, _index(j, shape), 0, 0, 0).place
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
        return [p.reshape(s).astype(_array(y).dtype) for p, s, y in zip(parts, self.shapes, self.ys)]

    # What to say: nothing to object to

    def base_facts(self) -> list:
        facts = [("kink", str(kink)) for kink in self.kinks[:3]]
        if len(self.kinks) > 3:
            facts.append(("kink", f"and {len(self.kinks) - 3} more of the kind"))
        facts += [("note", text) for text in self.notes[:4]]
        if len(self.notes) > 4:
            facts.append(("note", f"and {len(self.notes) - 4} more"))
        return facts

    def last_fact(self) -> tuple[str, str]:
        s = self.settings
        step = f"{s.eps:g}" if s.eps else f"{self.usual_step(0):.0e} * max(1, |x|)"
        silent = "second order" if self.subject.order == 1 else "the first derivative"
        return "seed", (f"{self.seed}, step {step}, {self.evaluations} evaluations. Says nothing of other points and shapes, "
                        f"nor of {silent}.")  # fmt: skip

    def match_report(self, kinks, checked) -> GradcheckReport:
        self.kinks = self.told(kinks)
        worst, best = None, -1.0
        settled = {(f.k, f.c, f.j) for f in self.flags}
        for k, slope in enumerate(self.numeric):
            analytic = np.array([[self.analytic(k, c, j) for j in range(self.functionals)]
                                 for c in range(len(self.columns[k]))]) if not isinstance(self.columns[k], range) else self.rows[k].T
            if not slope.size:
                continue
            severity = np.abs(analytic - slope) / self.allowed(k, slope, analytic)
            for c, j in (np.unravel_index(i, severity.shape) for i in np.argsort(-severity, axis=None)):
                if (k, c, j) not in settled:
                    if severity[c, j] > best:
                        best = severity[c, j]
                        worst = self.entry(k, int(c), int(j), analytic[c, j], slope[c, j], 0.0)
                    break
        verdict = KINK if self.kinks else MATCH
        facts = []
        if worst:
            facts.append(("worst", f"{worst.output} by {worst.place}: gradient {_number(worst.analytic)}, numeric "
                          f"{_number(worst.numeric)}, gap {worst.absolute:.0e} of {worst.allowed:.0e} allowed"))  # fmt: skip
        return self.result(verdict, True, self.extent(), worst=worst, checked=checked, kinks=self.kinks,
                           facts=facts + self.base_facts() + [self.last_fact()], **self.met())  # fmt: skip

    def told(self, kinks) -> list[Kink]:
        kinks = sorted(kinks, key=lambda pair: (pair[1].near, pair[0].k, pair[0].c, pair[0].j))
        return [Kink(self.row_name(flag.j), self.place(flag.k, flag.c), found.left, found.right, found.analytic, found.near)
                for flag, found in kinks]  # fmt: skip

    def met(self) -> dict:
        return {"detached": [_label(t) for t in self.detached], "captured": [_label(t) for t in self.captured]}

    def extent(self) -> str:
        """How much was looked at, in words."""
        parts = []
        for name, v, columns in zip(self.names, self.given, self.columns):
            if isinstance(columns, range):
                parts.append(f"{v.size} of {name}")
            else:
                parts.append(f"{len(columns)} random directions of the {v.size} of {name}")
        rows = (f"{self.count} output entr{'y' if self.count == 1 else 'ies'}" if self.by_entry else
                f"{self.functionals} random combinations of the {self.count} output entries")  # fmt: skip
        return f"Every slope agrees: {rows} by the input entries ({', '.join(parts)})."

    def unused_report(self, checked) -> GradcheckReport | None:
        """Something that was to be checked was not: f does not use it, or no gradient can come through."""
        if any(self.reached) and self.subject.order == 2:
            idle = [n for n, used in list(zip(self.names, self.used))[self.subject_n():] if not used]
            if idle:
                return self.result(NOT_MULTIPLIED, headline=f"The gradients do not change with {_some(idle)}: a partial "
                                   "must return g times the derivative.", facts=[self.last_fact()], **self.met())  # fmt: skip
            return None
        unused = [n for n, used, v in zip(self.names, self.used, self.given) if not used and v.size]
        if any(self.reached) and (not unused or self.settings.hold_detached):
            return None
        if any(self.reached):
            why = f"f does not use {_some(unused)}: no op has it as input, and the output does not change with it."
        elif unused:
            why = f"f does not use {_some(unused)}, so it has no gradient there, and the output does not change with it."
        else:
            cuts = dict.fromkeys(t._rule.name for t in self.nodes if t._rule is not None and t._role != PATH)
            why = f"No gradient reaches {_some(self.names)}: it ends at {_some(cuts)}, and the numeric slope is 0 as well."
        hint = None
        if self.captured and unused:
            hint = (f"f uses {_some(sorted(_label(t) for t in self.captured))} from outside. Inside f, use the argument: "
                    "what is checked is a copy of what you passed in")  # fmt: skip
        elif self.settings.hold_detached and self.detached:
            hint = "everything was detached, and held constant as asked"
        facts = [("hint", hint)] if hint else []
        return self.result(NOTHING, headline=why, hint=hint, checked=checked if any(self.reached) else 0,
                           facts=facts + self.base_facts() + [self.last_fact()], **self.met())  # fmt: skip

    def subject_n(self) -> int:
        return getattr(self.subject, "n", None) or self.subject.subject.n

    def entry(self, k, c, j, analytic, numeric, uncertainty) -> Entry:
        u = self.columns[k][c]
        index = _index(u, self.given[k].shape) if isinstance(u, int) else None
        allowed = float(self.allowed(k, np.array([float(numeric)]), np.array([[float(analytic)]]))[0])
        return Entry(self.row_name(j), self.names[k], index, float(analytic), float(numeric), allowed, float(uncertainty))

    # What to say: an objection

    def misfit_report(self, misfit: _Misfit) -> GradcheckReport:
        found, kind = _first_misfit(self.subject.roots, self.rng), misfit.verdict.split()[-1]
        node, i, got, expected = (found[0], found[1], found[3], found[4]) if found else (None, None, None, None)
        op = f"{node._rule.name}, its partial for {_operand(node, i)}: {kind} {got}, expected {expected}" if found else None
        if misfit.k is not None:
            v = self.given[misfit.k]
            headline = (f"The gradient of {self.names[misfit.k]} has {kind} {misfit.got}, and {self.names[misfit.k]} has "
                        f"{v.shape if kind == 'shape' else v.dtype}.")  # fmt: skip
        else:
            headline = f"The backward pass fails, as the rule of {node._rule.name} returns {kind} {got} for {expected}."
        if kind == "shape":
            hint = "a cotangent has its operand's shape: undo the broadcast (sum over the axes it added) or the reduction"
        else:
            hint = "a cotangent has its operand's dtype: a constant in the rule widens or narrows it; use Python numbers"
        facts = ([("op", op)] if op else []) + [("hint", hint)]
        return self.result(misfit.verdict, headline=headline, op=op, hint=hint, facts=facts, **self.met())

    def not_finite(self) -> GradcheckReport:
        k = next(k for k, rows in enumerate(self.rows) if not np.isfinite(rows).all())
        j, i = (int(n) for n in np.argwhere(~np.isfinite(self.rows[k]))[0])
        analytic, numeric, error, more = float(self.rows[k][j, i]), math.nan, math.inf, ""
        if isinstance(self.columns[k], range):
            found = self.study(k, i).judge(j, 0.0, self.settings.atol, self.settings.rtol, 1.0)
            if found.error < 1e-3 * max(1.0, abs(found.numeric)):
                numeric, error = found.numeric, found.error
            more = f" ({found.note})" if found.status == NOT_FINITE else ""
        says = f"the numeric slope is {_number(numeric)}" if math.isfinite(numeric) else "the numeric slope does not settle"
        entry = Entry(self.row_name(j), self.names[k], _index(i, self.given[k].shape), analytic, numeric, 0.0, error)
        count = sum(int((~np.isfinite(rows)).sum()) for rows in self.rows)
        total = sum(rows.size for rows in self.rows)
        op = None
        try:
            with detect_nonfinite():
                self.pull(self.row_cotangents(j))
        except FloatingPointError as problem:
            op = str(problem).split(" as the cotangent")[0].removeprefix("the rule of ")
        hint = None
        if math.isfinite(numeric):
            hint = ("0 times infinity: a branch that was not chosen still has an infinite slope. Keep its input away from "
                    "there before the function (a second np.where), or use backward(strong_zero=True)")  # fmt: skip
        facts = [("count", f"{count} of {total} entries are not finite")] + [("op", op)] * bool(op)
        facts += [("hint", hint)] * bool(hint) + self.base_facts() + [self.last_fact()]
        return self.result(NOT_FINITE, headline=f"The gradient of {entry.output} by {entry.place} is {analytic}, and {says}{more}.",
                           worst=entry, wrong=count, checked=total, op=op, hint=hint, facts=facts, **self.met())  # fmt: skip

    def unsure_report(self, unsure, checked) -> GradcheckReport:
        flag, found = unsure[0]
        entry = self.entry(flag.k, flag.c, flag.j, found.analytic, found.numeric, found.error)
        where = f"{entry.output} by {entry.place}"
        exact = self.complex_slope(flag) if found.status == UNSUITED else None
        steps = self.step_rows(flag, found)
        facts, hint = [("count", f"{len(unsure)} of {checked} entries can't be judged; the others agree")], None
        if exact is not None:
            self.notes.append(f"differences can't judge {where}; the complex step, which subtracts nothing, says {_number(exact)}")
            agrees = abs(exact - found.analytic) <= entry.allowed
            if agrees and len(unsure) == 1:
                return self.match_report([], checked)
            if not agrees:
                found.numeric, found.error = exact, 0.0
                return self.wrong_report([(flag, found)], [], 1, checked)
        if found.status == JUMP:
            verdict, headline = KINK, f"At {entry.place}, {found.note}: {entry.output} has no slope to compare."
            hint = "move the point away from the jump"
        elif found.status == NOT_FINITE:
            verdict, headline = NOT_FINITE, f"At {where}, {found.note}; the gradient says {_number(entry.analytic)}."
        else:
            verdict = UNSUITED
            headline = (f"No step tells the slope of {where}: it comes out as {_number(found.numeric)}, give or take "
                        f"{found.error:.0e}; the gradient says {_number(found.analytic)}.")  # fmt: skip
            value = float(self.z0[flag.j])
            hint = (f"the value, {value:.3g}, is so large beside its changes that they are lost in rounding: check the "
                    "part that varies by itself, or take a point of moderate size")  # fmt: skip
            if not math.isfinite(found.numeric):
                hint = "the function is not finite around this point: move it inside the domain"
            facts.append(("steps", self.step_words(steps, "rounding and curvature meet before the slope settles")))
        facts += [("hint", hint)] * bool(hint) + self.base_facts() + [self.last_fact()]
        return self.result(verdict, headline=headline, worst=entry, checked=checked, wrong=0, hint=hint, steps=steps,
                           facts=facts, **self.met())  # fmt: skip

    def wrong_report(self, wrong, kinks, count, checked) -> GradcheckReport:
        flag, found = wrong[0]
        k, c, j = flag.k, flag.c, flag.j
        entry = self.entry(k, c, j, found.analytic, found.numeric, found.error)
        if found.together:
            entry = replace(entry, input=_some(self.place(*column) for column in found.together) + " together", index=())
        if not self.settings.explain:
            return self.result(self.wrong_verdict(wrong), worst=entry, wrong=count, checked=checked)
        located = self.locate(flag) if entry.index is None or not self.by_entry else None
        entry = located or entry
        cut = self.cut_on_purpose()
        self.kinks = self.told(kinks)
        verdict = DISCONNECTED if cut else self.wrong_verdict(wrong)
        op, flat_kink = (None, None) if cut else self.first_wrong_op()
        if flat_kink and found.together == () and not math.isfinite(found.left) and op is None:
            verdict = KINK
        hint = cut or self.hint(flag, found, op, flat_kink, verdict)
        facts = [("entry", f"|{_number(entry.analytic)} - {_number(entry.numeric)}| = {entry.absolute:.3g} > "
                  f"{self.tolerance_words(k, entry)}; relative error {entry.relative:.2g}"),
                 ("count", f"{count} of {checked} entries disagree ({self.by_input()})")]  # fmt: skip
        if math.isfinite(found.left) and found.status == WRONG_VALUE:
            low, high = sorted((found.left, found.right))
            facts.append(("kink", f"there is a kink here, with every value in [{_number(low)}, {_number(high)}] valid; "
                          "this one is outside" if not found.near else "a kink is within one step, but smaller steps are clear of it"))  # fmt: skip
        facts += [("op", op)] * bool(op) + [("hint", hint)] * bool(hint)
        steps, taylor, exact = [], None, None
        if j >= 0 and not found.together:
            steps, exact = self.step_rows(flag, found), self.complex_slope(flag)
            facts.append(("steps", self.step_words(steps, "a plateau: it is the gradient that is off, not the differences")))
            taylor = self.taylor_order(j)
        if taylor is not None:
            facts.append(("taylor", f"what is left of f(x + t*d) - f(x) beside t * gradient * d falls like t^{taylor:.1f}: "
                          "it is t^2 when the gradient is right, t^1 when it is wrong"))  # fmt: skip
        if exact is not None:
            facts.append(("complex", f"the complex step, which subtracts nothing, says {_number(exact)}"))
        if self.detached and not cut:
            self.notes.append(f"met on the way: {self.detached_words()}; holding them constant does not explain it")
        facts += self.base_facts() + [self.last_fact()]
        headline = (f"The slope of {entry.output} with respect to {entry.place} is {_number(entry.numeric)}; the gradient says "
                    + ("nothing: there is none." if verdict == DISCONNECTED and not self.reached[k] else
                       f"{_number(entry.analytic)}."))  # fmt: skip
        return self.result(verdict, headline=headline, worst=entry, wrong=count, checked=checked, hint=hint, op=op,
                           steps=steps, taylor=taylor, complex_step=exact, kinks=self.kinks, facts=facts, **self.met())  # fmt: skip

    def tolerance_words(self, k, entry) -> str:
        s, extra = self.settings, f" (numeric side good to {entry.uncertainty:.0e})" if entry.uncertainty else ""
        plain = s.atol + s.rtol * abs(entry.numeric)
        if abs(plain - entry.allowed) > 1e-3 * entry.allowed:
            return f"{entry.allowed:.3g}{extra}"
        return f"{s.atol:g} + {s.rtol:g} * {_number(abs(entry.numeric))} = {plain:.3g}{extra}"

    def by_input(self) -> str:
        parts = []
        for k, name in enumerate(self.names):
            total = self.functionals * len(self.columns[k])
            bad = sum(1 for flag in self.flags if flag.k == k)
            parts.append(f"{name} {bad} of {total}")
        return ", ".join(parts)

    def wrong_verdict(self, wrong) -> str:
        flag, found = wrong[0]
        if found.together:
            return WRONG_VALUE
        if not self.reached[flag.k]:
            return DISCONNECTED
        cotangents = self.row_cotangents(flag.j)
        once, twice = (self.pull([factor * c for c in cotangents]) for factor in (1, 2))
        one, two = (_flat(pulled[flag.k], self.given[flag.k]) for pulled in (once, twice))
        if not np.allclose(two, 2 * one, rtol=1e-6, atol=1e-12):
            return NOT_MULTIPLIED
        if all(found.analytic == 0 for flag, found in wrong):
            return ZERO
        return WRONG_VALUE

    def locate(self, flag) -> Entry | None:
        """The single entry that is furthest off, found by halving a direction, then a combination of outputs."""
        k, u, j = flag.k, self.columns[flag.k][flag.c], flag.j
        h = self.usual_step(k)
        if isinstance(u, int):
            i = u
        else:
            support = np.arange(u.size)
            while len(support) > 1:
                halves = []
                for half in np.array_split(support, 2):
                    part = np.zeros_like(u)
                    part[half] = u[half]
                    numeric = self.central(k, part, h)[j]
                    gap = abs(float(self.rows[k][j] @ part) - numeric)
                    halves.append((gap / (self.settings.atol + self.settings.rtol * abs(numeric)), half))
                support = max(halves, key=lambda pair: pair[0])[1]
            i = int(support[0])
        h *= max(1.0, abs(float(self.x[k].reshape(-1)[i])))
        analytic = float(self.rows[k][j][i])
        if self.by_entry:
            numeric, name = float(self.central(k, i, h)[j]), self.row_name(j)
        else:
            by_entry, self.by_entry = self.by_entry, True
            column = self.central(k, i, h, every=True)
            whole = np.concatenate([c.reshape(-1) for c in self.combinations[j]])
            support = np.arange(self.count)
            while len(support) > 1:
                halves = []
                for half in np.array_split(support, 2):
                    part = np.zeros_like(whole)
                    part[half] = whole[half]
                    halves.append((abs(self.pulled_entry(k, i, part) - part @ column), half))
                support = max(halves, key=lambda pair: pair[0])[1]
            o = int(support[0])
            part = np.zeros_like(whole)
            part[o] = whole[o]
            analytic, numeric, name = self.pulled_entry(k, i, part) / whole[o], float(column[o]), self.row_name(o)
            self.by_entry = by_entry
        allowed = self.settings.atol + self.settings.rtol * abs(numeric)
        if not abs(analytic - numeric) > allowed:
            return None
        return Entry(name, self.names[k], _index(i, self.given[k].shape), analytic, numeric, allowed)

    def central(self, k, u, h, every=False):
        with self.way.quiet():
            return (self.moved(k, u, h) - self.moved(k, u, -h)) / (2 * h)

    def pulled_entry(self, k, i, whole) -> float:
        parts = np.split(whole, np.cumsum(self.sizes)[:-1])
        pulled = self.pull([p.reshape(s).astype(_array(y).dtype) for p, s, y in zip(parts, self.shapes, self.ys)])
        return float(_flat(pulled[k], self.given[k])[i])

    # Second opinions

    def step_rows(self, flag, found) -> list:
        study = self.study(flag.k, flag.c)
        rows = zip(study.steps, study.slope[:, flag.j])
        return [(float(h), float(d), abs(found.analytic - float(d))) for h, d in rows if math.isfinite(d)]

    def step_words(self, steps, verdict) -> str:
        shown = [f"{gap:.1e} at {h:.0e}" for h, _, gap in steps[:: max(1, len(steps) // 4)]]
        gaps = [gap for _, _, gap in steps]
        if max(gaps) < 1.1 * min(gaps):
            return f"the gap is {min(gaps):.2g} at every step from {steps[0][0]:.0e} to {steps[-1][0]:.0e}: {verdict}"
        return f"the gap is {', '.join(shown)}: {verdict}"

    def taylor_order(self, j) -> float | None:
        """How fast f(x + t·d) leaves its linear approximation: like t² when the gradient is right, like t when not."""
        pulled = self.pull(self.row_cotangents(j))
        factor = 1.25 if self.by_entry else 1.0
        d = [self.rng.uniform(0.5, 1.5, v.size) * self.rng.choice((-1.0, 1.0), v.size) for v in self.given]
        slope = sum(float(_flat(g, v) @ u) for g, v, u in zip(pulled, self.given, d)) / factor
        remainders, steps = [], 0.02 * 0.5 ** np.arange(10)
        with self.way.quiet():
            for t in steps:
                for flat, x, u in zip(self.flat, self.x, d):
                    flat[:] = x.reshape(-1) + t * u
                remainders.append(abs(float(self.z()[j]) - float(self.z0[j]) - t * slope))
        for flat, x in zip(self.flat, self.x):
            flat[:] = x.reshape(-1)
        noise = 100 * float(np.finfo(self.z0.dtype).eps) * max(abs(float(self.z0[j])), 1e-300)
        r = np.array([v for v in remainders if v > noise and math.isfinite(v)])
        return float(np.median(np.log2(r[:-1] / r[1:])[-4:])) if len(r) > 2 else None

    def complex_slope(self, flag) -> float | None:
        """The slope as Im f(x + ih)/h, where f takes complex arrays and treats them as analytic functions do."""
        first, u = self.subject, self.columns[flag.k][flag.c]
        if not isinstance(first, _First):
            return None
        h = 1e-20
        points = [v.astype(np.float64) for v in self.given]
        moved = [v.astype(np.complex128) for v in points]
        moved[flag.k].reshape(-1)[u if isinstance(u, int) else slice(None)] += 1j * h * (1 if isinstance(u, int) else u)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                plain, ys = first.call(points), first.call(moved)
                real, z = (np.concatenate([np.ravel(np.asarray(y[i])) for i in self.positions]) for y in (plain, ys))
                z, real = self.project(z), self.project(real)
        except Exception:
            return None
        slope = float(np.imag(z[flag.j])) / h
        study = self.study(flag.k, flag.c).judge(flag.j, slope, 1e-6, 1e-4, abs(slope))
        if z.dtype.kind != "c" or not np.allclose(real, self.z0, rtol=1e-9) or study.status not in (MATCH, UNSUITED):
            return None
        return slope if math.isfinite(slope) else None

    def cut_on_purpose(self) -> str | None:
        """What to say if the disagreement goes away when detached tensors are held constant."""
        if not self.detached or isinstance(self.subject, _Replay):
            return None
        settings = replace(self.settings, hold_detached=True, explain=False)
        rng = np.random.default_rng(0)
        try:
            held = _Run(self.subject, self.names, self.given, settings, rng, 0).report()
        except Exception:
            return None
        finally:
            self.subject.record(self.variables)
        if held.verdict not in (MATCH, KINK, NOTHING) or held.wrong:
            return None
        return (f"with {self.detached_words()} held constant, the gradient agrees: what is missing is what detach() cuts "
                "off. If that is meant, pass hold_detached=True; if not, take the detach out")  # fmt: skip

    # Causes

    def first_wrong_op(self):
        """The first op whose rule disagrees on its own inputs, in words, and an op that stands at a kink."""
        settings = replace(self.settings, explain=False, hold_detached=False, eps=None, fast_mode=False, directions=4,
                           max_entries=64, max_rows=64, allow_float32=True)  # fmt: skip
        nodes = [t for t in _below([y for y in self.subject.roots if isinstance(y, Node)])
                 if t._rule is not None and t._rule.differentiable and t._role == PATH]  # fmt: skip
        nodes.sort(key=lambda t: t._id)
        at_kink, tried = None, 0
        for number, node in enumerate(nodes[:500], 1):
            report = _check_rule(node, settings, self.subject.order)
            if report is None:
                continue
            tried += 1
            if report.ok or report.verdict == NOTHING:
                at_kink = at_kink or (node._rule.name if report.kinks else None)
                continue
            where = f"the {_ordinal(number)} of {len(nodes)} ops counted from the inputs"
            said = f"{node._rule.name} ({where}, result of shape {node._shape}): "
            if report.worst is None:
                return said + report.first_line.partition(": ")[2], at_kink
            w = report.worst
            return (said + f"checked by itself, {report.verdict} for {w.place}: its rule says {_number(w.analytic)}, "
                    f"differences say {_number(w.numeric)}"), at_kink  # fmt: skip
        self.tried = (tried, len(nodes))
        return None, at_kink

    def hint(self, flag, found, op, at_kink, verdict) -> str | None:
        k, j = flag.k, flag.j
        if found.together:
            return (f"a tie: the shares of the tied entries add up to {_number(found.analytic)}, and moved together they "
                    f"move the output by {_number(found.numeric)} per unit. Shares of a maximum or minimum sum to 1")  # fmt: skip
        if verdict == KINK:
            return (f"each rule by itself takes a valid value, and {at_kink} stands at a kink: put together, such values "
                    "need not be the slope. Move the point a little, or write the function without the kink")  # fmt: skip
        if verdict == NOT_MULTIPLIED:
            return "the gradient does not double when the cotangent does: a partial must return g times the derivative"
        if verdict == DISCONNECTED and op is None:
            if self.captured and not self.used[k]:
                return (f"f uses {_some(sorted(_label(t) for t in self.captured))} from outside; inside f, use the argument")
            return ("no path of recorded ops leads from this input to the output, yet the output moves with it: its value "
                    "was used through .data, .item() or float(), or a partial is None or returns None")  # fmt: skip
        numeric = self.numeric[k].T
        usual = None
        if isinstance(self.columns[k], range):
            rows = sorted({f.j for f in self.flags if f.k == k}) or [j]
            usual = _usual_cause(self.rows[k][rows], numeric[rows], self.given[k], self.shapes[0], self.others(k, rows))
        if usual is None and op is None and getattr(self, "tried", (0, 0))[0] == self.tried[1]:
            usual = ("every rule agrees on its own inputs, so the ops that were recorded are not what f computes: a value "
                     "went through .data, .item() or a plain array on the way")  # fmt: skip
        return usual

    def others(self, k, rows) -> list:
        same = [i for i, v in enumerate(self.given) if i != k and v.shape == self.given[k].shape]
        return [(self.names[i], self.numeric[i].T[rows]) for i in same if isinstance(self.columns[i], range)]


@dataclass
class _Judgement:
    """What a study says of one entry: the numeric slope, how far off it may be, and whether the gradient agrees."""

    status: str
    numeric: float
    error: float
    left: float = math.nan
    right: float = math.nan
    near: bool = False
    note: str = ""
    analytic: float = math.nan
    together: tuple = ()  # the columns that were moved together


class _Study:
    """One column by differences at many steps, from far too large to far too small."""

    def __init__(self, h, up, down, above, below, z0):
        up, down = (np.asarray(d, np.float64)[:, None] for d in (up, down))
        self.h, self.steps = h, ((up + down) / 2)[:, 0]
        self.moved = (above - below).astype(np.float64)
        self.slope = self.moved / (up + down)
        self.right, self.left = (above - z0) / up, (z0 - below) / down
        self.floor = float(np.finfo(z0.dtype).eps) * np.abs(z0)  # rounding of the value itself

    def judge(self, j, analytic, atol, rtol, scale) -> _Judgement:
        h, d, sided = self.steps, self.slope[:, j], False
        order = 2
        if not np.isfinite(d).sum() > 1:  # at the edge of the domain there is one side only
            d, order, sided = (self.right if np.isfinite(self.right[:, j]).sum() > 1 else self.left)[:, j], 1, True
        numeric, error, level = _extrapolated(h, d, self.floor[j], order)
        noise = self.noise(j, d, numeric, level)
        numeric, error, level = _extrapolated(h, d, noise, order)
        if level is None:
            return _Judgement(UNSUITED, math.nan, math.inf, note="the function is not finite one step away")
        kink = self.kink(j, noise)
        note = "at the edge of the domain, the slope from inside agrees" if sided else ""
        if kink is not None:
            left, right, doubt, below = kink
            if below is not None:
                numeric, error = below
            if abs(analytic - numeric) <= atol + rtol * abs(numeric) + error:
                return _Judgement(KINK, numeric, error, left, right, below is not None)
            low, high = min(left, right), max(left, right)
            slack = atol + rtol * max(abs(low), abs(high)) + doubt
            certain = below is not None and error < abs(analytic - numeric) / 10
            status = KINK if low - slack <= analytic <= high + slack and not certain else WRONG_VALUE
            return _Judgement(status, numeric, error, left, right, below is not None)
        allowed = atol + rtol * abs(numeric)
        if error > max(allowed, 1e-3 * max(scale, abs(numeric))):
            return self.unsettled(j, numeric, error)
        if abs(analytic - numeric) <= allowed + error:
            if not note and error > allowed:
                note = f"the numeric slope is good to {error:.0e} only"
            return _Judgement(MATCH, numeric, error, note=note)
        return _Judgement(WRONG_VALUE, numeric, error)

    def noise(self, j, d, numeric, level) -> float:
        """How much the values scatter: far below the best step, whatever is not the slope is noise."""
        if level is None:
            return self.floor[j]
        small = (self.steps < self.steps[level] / 30) & np.isfinite(d)
        return max(self.floor[j], float(np.max(np.abs(d - numeric) * self.steps, initial=0.0, where=small)))

    def kink(self, j, noise):
        """Left and right slope, if their difference stays while the step shrinks; and the slope below that, if smooth."""
        h, gap = self.steps, (self.right - self.left)[:, j]
        near, best = np.flatnonzero(np.isfinite(gap) & (h <= 20 * self.h)), None
        for a, b in zip(near, near[1:]):
            large = max(abs(gap[a]), abs(gap[b]))
            clear = 15 * noise / h[b] + 1e-6 * max(abs(self.left[b, j]), abs(self.right[b, j]))
            if min(abs(gap[a]), abs(gap[b])) > clear and abs(gap[a] - gap[b]) <= 0.25 * large:
                doubt = abs(gap[a] - gap[b]) + 3 * noise / h[b]
                if best is None or doubt < best[0]:
                    best = (doubt, a, b, large)
        if best is None:
            return None
        doubt, a, b, large = best
        r = h[a] / h[b]
        left, right = (float((r * s[b, j] - s[a, j]) / (r - 1)) for s in (self.left, self.right))
        smooth = np.flatnonzero((h < h[b]) & (np.abs(gap) < 0.1 * large) & (15 * noise / h < 0.1 * large))
        below = None
        if len(smooth):
            numeric, error, level = _extrapolated(h[smooth], self.slope[smooth, j], noise, 2)
            below = (numeric, error)
            if level is None:
                below = (self.slope[smooth[0], j], 3 * noise / h[smooth[0]] + 0.1 * large)
        return left, right, doubt, below

    def unsettled(self, j, numeric, error) -> _Judgement:
        """The differences settle nowhere: a jump of the function, an infinite slope, or rounding."""
        finite = np.flatnonzero(np.isfinite(self.moved[:, j]))[-3:]
        jumps = np.abs(self.moved[finite, j])
        if len(jumps) == 3 and jumps.min() > 1000 * self.floor[j] and np.ptp(jumps) <= 0.1 * jumps.max():
            return _Judgement(JUMP, numeric, error, note=f"the function jumps by {_number(self.moved[finite[-1], j])} here")
        for side in (self.right, self.left, self.slope):
            sizes = np.abs(side[np.isfinite(side[:, j]), j])
            if len(sizes) > 5 and (sizes[1:] > 1.5 * sizes[:-1]).all():
                return _Judgement(NOT_FINITE, numeric, error, note="the slope grows without bound as the step shrinks")
        return _Judgement(UNSUITED, numeric, error)


def _extrapolated(h, d, noise, order):
    """The best slope from a pair of neighbouring steps (Richardson), a bound on its error, and where it was found."""
    best = (math.nan, math.inf, None)
    finite = np.flatnonzero(np.isfinite(d))
    for a, b in zip(finite, finite[1:]):
        r = (h[a] / h[b]) ** order
        value = (r * d[b] - d[a]) / (r - 1)
        error = abs(value - d[b]) + 3 * noise / h[b]
        if error < best[1]:
            best = (float(value), float(error), int(b))
    return best


# Causes and names


def _usual_cause(a, n, x, output_shape, others) -> str | None:
    """What the pattern of analytic against numeric slopes usually comes from. Both are rows by input entries."""
    wrong = ~np.isclose(a, n, rtol=1e-4, atol=1e-6 * float(np.max(np.abs(n), initial=0.0)))
    if not wrong.any():
        return None
    ratio = a[wrong & (n != 0)] / n[wrong & (n != 0)]
    partial = f" in {int(wrong.sum())} of {wrong.size} entries" if not wrong.all() else ""
    if ratio.size and ratio.size == wrong.sum() and np.allclose(ratio, ratio[0], rtol=1e-4) and ratio[0] != 0:
        return _ratio_words(float(np.mean(ratio)), x, output_shape) + partial + _where_wrong(wrong, x)
    if np.allclose(np.abs(a), np.abs(n), rtol=1e-4):
        return "right size, wrong sign in some entries: an abs, or a sign that depends on the input" + _where_wrong(wrong, x)
    for name, other in others:
        if np.allclose(a, other, rtol=1e-4, atol=1e-9):
            return f"this is the slope by {name}: two partials are swapped"
    moved = _moved_words(a, n, x.shape)
    if moved:
        return moved
    nonzero = n != 0
    if nonzero.all() and np.allclose(a * n, 1, rtol=1e-4):
        return "the reciprocal of the slope: divided where it should multiply"
    if np.allclose(a, n * n, rtol=1e-4):
        return "the square of the slope: applied twice"
    if wrong.all() and np.allclose(a - n, (a - n)[0, 0], rtol=1e-4):
        return f"off by {_number((a - n)[0, 0])} in every entry: a term is missing or added"
    if (a[wrong] == 0).all():
        return "0 in those entries: a path is dropped, or only the last of several shares is kept" + _where_wrong(wrong, x)
    if wrong.all() and a.shape[1] > 1 and np.allclose(a.sum(1), n.sum(1), rtol=1e-4):
        return "the sum over the entries is right: the shares are dealt out wrongly"
    return _where_wrong(wrong, x, alone=True) or None


def _ratio_words(r: float, x, output_shape) -> str:
    counts = {}
    for what, shape in (("the input", x.shape), ("the output", output_shape)):
        counts.setdefault(math.prod(shape), f"the number of entries of {what}")
        for axis, length in enumerate(shape):
            counts.setdefault(length, f"the length of axis {axis} of {what}")
    known = {-1: "the sign is wrong", 2: "counted twice, or a factor 2 too many",
             0.5: "a factor 2 is missing, or one of two equal paths was dropped (overwritten instead of summed)",
             -2: "the sign is wrong, and a factor 2 too many", -0.5: "the sign is wrong, and a factor 2 is missing",
             math.log(10): "a factor ln 10 too many", 1 / math.log(10): "a factor ln 10 is missing",
             math.log(2): "a factor ln 2 too many", 1 / math.log(2): "a factor ln 2 is missing",
             math.pi / 180: "degrees and radians mixed up", 180 / math.pi: "degrees and radians mixed up"}  # fmt: skip
    text = next((words for value, words in known.items() if math.isclose(r, value, rel_tol=1e-4)), "")
    for count, what in counts.items():
        if count > 1 and math.isclose(r, count, rel_tol=1e-4):
            text += ("; or " if text else "") + f"{what}: a sum where a mean belongs, or added up once too often"
        elif count > 1 and math.isclose(r, 1 / count, rel_tol=1e-4):
            text += ("; or " if text else "") + (f"1 over {what}: a mean where a sum belongs, or a broadcast that was "
                                                 "averaged or not summed")  # fmt: skip
    return f"gradient / numeric is {_number(r)}: " + (text or "a constant factor is off")


def _moved_words(a, n, shape) -> str | None:
    """Whether the right numbers stand in the wrong places."""
    grids = [(row.reshape(shape), right.reshape(shape)) for row, right in zip(a, n)]

    def holds(change) -> bool:
        return all(np.allclose(row, change(right), rtol=1e-4, atol=1e-8) for row, right in grids)

    if len(shape) > 1:
        last = tuple(range(len(shape) - 2)) + (len(shape) - 1, len(shape) - 2)
        if holds(lambda g: np.transpose(g, last).reshape(shape)) or holds(lambda g: g.T.reshape(shape)):
            return "the slopes, transposed"
        if holds(lambda g: np.transpose(g.reshape(np.array(shape)[list(last)]), last)):
            return "the slopes, transposed"
    for axis in range(len(shape)):
        for by in (1, -1):
            if holds(lambda g: np.roll(g, by, axis)):  # noqa: B023
                return f"the slopes, shifted by one along axis {axis}: an index is off by one"
        if holds(lambda g: np.flip(g, axis)):  # noqa: B023
            return f"the slopes, in reverse order along axis {axis}"
    for axis in range(len(shape)):
        for name, function in (("averaged", np.mean), ("summed", np.sum)):
            if holds(lambda g: np.broadcast_to(function(g, axis=axis, keepdims=True), g.shape)):  # noqa: B023
                return f"the slopes, {name} over axis {axis}: summed or broadcast over the wrong axis"
    if all(np.allclose(np.sort(row, None), np.sort(right, None), rtol=1e-4, atol=1e-8) for row, right in grids):
        return "the right numbers in the wrong places: an index or a permutation is wrong"
    return None


def _where_wrong(wrong, x, alone=False) -> str:
    """Words for the wrong entries, when they are few or lie beyond a threshold."""
    columns = wrong.any(axis=0)
    flat, joint = x.reshape(-1), "" if alone else "; "
    if columns.all() or flat.size < 3:
        return ""
    bad, good = flat[columns], flat[~columns]
    for words, b, g in (("|{n}| is large", np.abs(bad), np.abs(good)), ("{n} is large", bad, good), ("{n} is small", -bad, -good)):
        if b.size and g.size and b.min() > g.max() and columns.sum() > 1 or b.size and g.size and b.min() > 4 * abs(g.max()):
            return (f"{joint}wrong only where {words.format(n='x')}: from {_number(bad[np.argmin(b)])} on, and right up to "
                    f"{_number(good[np.argmax(g)])}: a branch, or a range where the formula fails")  # fmt: skip
    if columns.sum() <= 3:
        places = _some(str(list(_index(int(i), x.shape))) for i in np.flatnonzero(columns))
        return f"{joint}only at {places}, right in the other {int((~columns).sum())} entries"
    return ""


def _check_rule(node: Node, settings: _Settings, order: int) -> GradcheckReport | None:
    """The same check for one op alone, at the inputs that were recorded; None when it can't be run alone."""
    rule = node._rule
    values = [t._data if isinstance(t, Node) else t for t in node._inputs]
    positions = [i for i, t in enumerate(node._inputs) if isinstance(t, Node) and _floating(t) and t._data.size]
    names = [_operand(node, i) for i in positions]
    rng = np.random.default_rng(0)
    try:
        params, options = _forward_params(node)
        subject = _First(lambda *operands: apply(rule, operands, params, options), values, positions, names)
        given = [values[i] for i in positions]
        if order == 2:
            y = subject.record([Var(v) for v in given])[0]
            subject = _Second(subject, len(given), names)
            given, names = given + [_cotangent(rng, y._shape, y._data.dtype)], names + ["the cotangent"]
        return _Run(subject, names, given, settings, rng, 0).report()
    except Exception:
        return None


def _first_misfit(roots, rng):
    """The first op, users first, that returns a share of another shape or dtype than its operand's."""
    nodes = [t for t in _below([y for y in roots if isinstance(y, Node)])
             if t._rule is not None and t._rule.differentiable and t._role == PATH]  # fmt: skip
    for node in sorted(nodes, key=lambda t: -t._id):
        values = [t._data if isinstance(t, Node) else t for t in node._inputs]
        g = _cotangent(rng, node._shape, node._data.dtype)
        for i, (partial, t) in enumerate(zip(node._rule.partials_for(node._inputs), node._inputs)):
            if partial is None or not isinstance(t, Node) or not t._role:
                continue
            try:
                share = partial(g, node._data, *values, **node._params)
            except Exception:
                continue
            if share is None:
                continue
            share = np.asarray(_array(share))
            if share.shape != t._shape:
                return node, i, WRONG_SHAPE, share.shape, t._shape
            if share.dtype != t._data.dtype:
                return node, i, WRONG_DTYPE, share.dtype, t._data.dtype
    return None


def _operand(node: Node, i: int) -> str:
    """What the rule calls operand i."""
    rule = node._rule
    partial = next((p for p in rule.partials if p is not None and hasattr(p, "__code__")), None)
    if partial is not None and not rule.each:
        names = list(inspect.signature(partial).parameters)[2:]
        if i < len(names) and not names[i].startswith(("operands", "args")):
            return f"operand {names[i]}"
    return f"operand {i}"


def _flat(g, v) -> np.ndarray:
    return np.zeros(v.size, v.dtype) if g is None else np.reshape(g, -1)


def _index(i: int, shape) -> tuple[int, ...]:
    return tuple(int(n) for n in np.unravel_index(i, shape)) if shape else ()


def _label(t: Node) -> str:
    name = getattr(t, "_name", None)
    return f"{name!r}" if name else f"one of shape {t._shape}"


def _where_not_finite(v) -> str:
    i = tuple(int(n) for n in np.argwhere(~np.isfinite(v))[0])
    return f"{v[i]}" + (f" at index {i}" if i else "")


def _ordinal(n: int) -> str:
    return f"{n}{'th' if n % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"
