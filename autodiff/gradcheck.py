"""Check a gradient against differences of the function's values, and explain what is wrong when they disagree.

The road of a check that passes is short: record `f` once, ask for its gradients, move each input entry up and down by one
step, compare. Everything else here starts after a disagreement: differences at many steps, left and right slopes, the ops
one by one. A disagreement is called wrong only when the differences are known better than the gap to the gradient.
"""

from __future__ import annotations

import inspect
import math
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np

from .backward import detect_nonfinite
from .graph import PATH, Node
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

MAX_ENTRIES = 2000  # an input with more is checked along random directions
DIRECTIONS = 8
MAX_ROWS = 1000  # with more output entries, random combinations of them are checked
COMBINATIONS = 4


class GradcheckError(AssertionError):
    """A gradient did not pass the check. `.report` is the `GradcheckReport`."""

    def __init__(self, report: GradcheckReport):
        super().__init__("\n" + str(report))
        self.report = report


@dataclass
class Entry:
    """One entry of the Jacobian: which output entry by which input entry, and what either side says of it."""

    output: str
    input: str
    index: tuple[int, ...] | None
    analytic: float
    numeric: float
    allowed: float
    uncertainty: float = 0.0  # how far off the numeric slope itself may be

    @property
    def absolute(self) -> float:
        return abs(self.analytic - self.numeric)

    @property
    def relative(self) -> float:
        return self.absolute / max(abs(self.analytic), abs(self.numeric)) if self.absolute else 0.0


@dataclass(repr=False)
class GradcheckReport:
    """What a check found; true when everything matched."""

    verdict: str
    ok: bool
    order: int = 1
    summary: str = ""
    worst: Entry | None = None
    wrong: int = 0
    checked: int = 0
    lines: list[str] = field(default_factory=list)
    seed: object = 0
    evaluations: int = 0

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        head = "gradcheck" if self.order == 1 else "gradgradcheck"
        return "\n".join([f"{head}: {self.verdict}. {self.summary}", *("  " + line for line in self.lines)])

    __repr__ = __str__


def gradcheck(f, inputs, *, eps=None, atol=1e-7, rtol=1e-5, raise_exception=True, fast_mode=False, rng=0,
              directions=None, hold_detached=False, allow_float32=False) -> GradcheckReport:  # fmt: skip
    """Whether the gradients of `f` agree with differences of its values."""
    return _check(1, f, inputs, _Settings(eps, atol, rtol, fast_mode, rng, directions, hold_detached, allow_float32),
                  raise_exception)  # fmt: skip


def gradgradcheck(f, inputs, *, eps=None, atol=1e-7, rtol=1e-5, raise_exception=True, fast_mode=False, rng=0,
                  directions=None, hold_detached=False, allow_float32=False) -> GradcheckReport:  # fmt: skip
    """Whether the gradients of the gradients of `f` agree with differences of its gradients."""
    return _check(2, f, inputs, _Settings(eps, atol, rtol, fast_mode, rng, directions, hold_detached, allow_float32),
                  raise_exception)  # fmt: skip


@dataclass
class _Settings:
    eps: float | None
    atol: float
    rtol: float
    fast_mode: bool
    rng: object
    directions: int | None
    hold_detached: bool
    allow_float32: bool


def _check(order, f, inputs, settings, raise_exception):
    items = inputs if isinstance(inputs, tuple) else (inputs,)
    positions, values = [], []
    for i, item in enumerate(items):
        if isinstance(item, Node):
            if item.is_variable:
                positions.append(i)
                values.append(item._data)
        elif isinstance(item, (float, np.ndarray, np.floating, list)) and np.asarray(item).dtype.kind == "f":
            positions.append(i)
            values.append(np.asarray(item))
    if not settings.allow_float32 and any(v.dtype.itemsize < 8 for v in values):
        raise ValueError("float32 inputs: pass allow_float32=True")
    names = [getattr(items[p], "name", None) or f"input {p}" for p in positions]
    subject = _First(f, items, positions)
    rng = np.random.default_rng(settings.rng)
    if order == 2:
        ys = [y for y in subject.record([Var(v) for v in values]) if _floating(y)]
        n = len(values)
        for k, y in enumerate(ys):
            values.append(_cotangent(rng, np.shape(y), y.dtype))
            names.append("cotangent" if len(ys) == 1 else f"cotangent of output {k}")
        subject = _Second(subject, n)
    report = _Run(subject, names, values, settings, rng).report()
    if raise_exception and not report:
        raise GradcheckError(report)
    return report


def _floating(y) -> bool:
    return np.asarray(y._data if isinstance(y, Node) else y).dtype.kind == "f"


def _cotangent(rng, shape, dtype):
    return (rng.choice((-1.0, 1.0), shape) * rng.uniform(0.5, 1.5, shape)).astype(dtype)


class _First:
    """`f` itself."""

    order, quiet = 1, staticmethod(no_grad)

    def __init__(self, f, items, positions):
        self.f, self.items, self.positions = f, items, positions

    def record(self, tensors):
        args = list(self.items)
        for p, t in zip(self.positions, tensors):
            args[p] = t
        y = self.f(*args)
        return tuple(y) if isinstance(y, (tuple, list)) else (y,)

    def plain(self, arrays):
        return self.record([constant(a) for a in arrays])


class _Second:
    """The gradients of `f`, as functions of its inputs and of the cotangent."""

    order, quiet = 2, staticmethod(nullcontext)

    def __init__(self, first, n):
        self.first, self.n = first, n

    def record(self, tensors, detach="none"):
        xs, cotangents = tensors[: self.n], tensors[self.n :]
        totals = [None] * self.n
        for y, c in zip([y for y in self.first.record(xs) if _floating(y)], cotangents):
            if not isinstance(y, Node) or not y.tracked:
                continue
            store = y.backward(c, wrt=xs, detach=detach)
            for k, x in enumerate(xs):
                g = store.get(x)
                if g is not None:
                    totals[k] = g if totals[k] is None else totals[k] + g
        return tuple(np.zeros(x.shape, x.dtype) if g is None else g for x, g in zip(xs, totals))

    def plain(self, arrays):
        return self.record([Var(a) for a in arrays[: self.n]] + [constant(a) for a in arrays[self.n :]], "all")


class _Run:
    def __init__(self, subject, names, values, settings, rng):
        self.subject, self.names, self.settings, self.rng = subject, names, settings, rng
        self.x = [np.array(v) for v in values]
        self.work = [v.copy() for v in self.x]
        self.views = [w.view() for w in self.work]
        self.evaluations = 0

    def z(self):
        self.evaluations += 1
        ys = self.subject.plain(self.views)
        return np.concatenate([np.ravel(y._data if isinstance(y, Node) else y) for y in ys if _floating(y)])

    def slopes(self, k, i, h):
        flat, x = self.work[k].reshape(-1), self.x[k].reshape(-1)[i]
        flat[i] = up = x + h
        zp = self.z()
        flat[i] = down = x - h
        zm = self.z()
        flat[i] = x
        return (zp - zm) / (up - down), (zp - self.z0) / (up - x), (self.z0 - zm) / (x - down)

    def report(self):
        s, order = self.settings, self.subject.order
        variables = [Var(v, name=n) for v, n in zip(self.x, self.names)]
        ys = [y for y in self.subject.record(variables) if _floating(y)]

        def made(verdict, ok=False, **more):
            return GradcheckReport(verdict, ok, order, seed=s.rng, evaluations=self.evaluations, **more)

        if not ys or not sum(v.size for v in self.x):
            return made(NOTHING)
        quiet = self.subject.quiet()
        with quiet, np.errstate(all="ignore"):
            self.z0 = self.z()
            again = self.z()
            if not np.allclose(self.z0, again, rtol=1e-12, atol=0, equal_nan=True):
                return made(NOT_DETERMINISTIC)
        rows = [(y, j) for y in ys for j in range(np.size(y))]
        analytic = [np.zeros((len(rows), v.size)) for v in self.x]
        reached = [False] * len(self.x)
        for r, (y, j) in enumerate(rows):
            if not isinstance(y, Node) or not y.tracked:
                continue
            c = _cotangent(self.rng, (), y.dtype)
            seed = np.zeros(y.shape, y.dtype)
            seed.reshape(-1)[j] = c
            store = y.backward(seed, wrt=variables)
            for k, v in enumerate(variables):
                g = store.get(v)
                if g is None:
                    continue
                reached[k] = True
                if g.shape != v.shape:
                    return made(WRONG_SHAPE, summary=f"the gradient of {v.label} has shape {g.shape}")
                if g.dtype != v.dtype:
                    return made(WRONG_DTYPE, summary=f"the gradient of {v.label} has dtype {g.dtype}")
                analytic[k][r] = g._data.reshape(-1) / c
        if not any(reached) and order == 1:
            return made(NOTHING)
        worst, wrong, checked = None, 0, 0
        with self.subject.quiet(), np.errstate(all="ignore"):
            for k, v in enumerate(self.x):
                for i in range(v.size):
                    scale = max(1.0, abs(float(v.reshape(-1)[i])))
                    h = s.eps or float(np.finfo(v.dtype).eps) ** (1 / 3) * scale
                    d, right, left = self.slopes(k, i, h)
                    a = analytic[k][:, i]
                    allowed = s.atol + s.rtol * np.abs(d)
                    err = np.abs(a - d)
                    bad = ~(err <= allowed)
                    if bad.any():
                        tries = [self.slopes(k, i, h * f) for f in (1e2, 1e-2)]
                        for d2, *_ in tries:
                            bad &= ~(np.abs(a - d2) <= s.atol + s.rtol * np.abs(d2))
                        lo, hi = np.minimum(left, right), np.maximum(left, right)
                        slack = 1e-5 * np.maximum(1, np.maximum(abs(lo), abs(hi)))
                        kink = np.abs(tries[1][1] - tries[1][2]) > 0.3 * np.abs(right - left)
                        bad &= ~(kink & (hi - lo > 1e-3) & (lo - slack <= a) & (a <= hi + slack))
                    wrong += int(bad.sum())
                    checked += bad.size
                    r = int(np.argmax(np.where(np.isnan(err), np.inf, err) / allowed * np.where(bad, 1, 1e-30)))
                    entry = Entry(f"output entry {r}", self.names[k], np.unravel_index(i, v.shape), float(a[r]),
                                  float(d[r]), float(allowed[r]))
                    if worst is None or bad[r] and not entry.absolute / entry.allowed < worst.absolute / worst.allowed:
                        worst, worst_k = entry, k
        verdict = MATCH
        if wrong:
            verdict = WRONG_VALUE
            if not np.isfinite(worst.analytic):
                verdict = NOT_FINITE
            elif not reached[worst_k]:
                verdict = DISCONNECTED
            elif worst.analytic == 0:
                verdict = ZERO
        return made(verdict, not wrong, worst=worst, wrong=wrong, checked=checked,
                    summary=f"{wrong} of {checked} entries disagree; worst: {worst}")
