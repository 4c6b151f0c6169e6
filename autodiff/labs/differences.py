"""Finite differences: how far off they are at each step, and why there is a best one."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from ..drawing.text import clean, number, summary
from ..recording import no_grad
from ..tensor import Tensor
from .lab import Lab, Shown, Table, Text, choice, finite_arrays, function, real, slider
from .plot import Plot
from .ties import entry_names, gradient, input_names, recorded

EXPONENTS = [k / 4 for k in range(0, -65, -1)]  # four steps a decade, from 1 to 1e-16
STEPS = [10.0**k for k in EXPONENTS]
DTYPES, SCHEMES = ("float64", "float32"), ("central", "one-sided")
ORDER = {"central": 2, "one-sided": 1}
MOST_ENTRIES = 64
LEAST = 1e-18  # an error of 0 is drawn here, or lower
STRETCH, EVEN = 6, 0.3  # so many steps in a row, along which a power changes by less than this part of it
FAR_OFF = 100  # times what truncation and rounding make is more than they make


@dataclass(frozen=True)
class Curve:
    """The error of the differences at each step: the largest over the entries; NaN where `f` is not finite.

    `best`: the index of the step with the smallest error. `rounding`: what rounding alone costs at each step, about
    eps·|f|/h, or more where values are rounded on the way. `truncation`: C·h to the `power`, both from the smallest
    steps where the errors follow a power evenly, and at least the error where a smaller step halves it; else zeros.
    """

    steps: np.ndarray
    errors: np.ndarray
    numeric: np.ndarray
    best: int
    rounding: np.ndarray
    truncation: np.ndarray
    power: float

    def branch(self, i: int) -> str:
        """What the error at this step is made of: "truncation", "rounding", "both", "neither" or "nothing"."""
        r, t = self.rounding[i], self.truncation[i]
        if self.errors[i] == 0:
            return "nothing"
        if self.errors[i] > FAR_OFF * (r + t):  # so no verdict is made of two estimates that are 0
            return "neither"
        return "truncation" if t > 4 * r else "rounding" if r > 4 * t else "both"

    @property
    def level(self) -> bool:
        """Whether all errors are about the same, so that none is the smallest."""
        return bool(np.nanmax(self.errors) <= 1.001 * np.nanmin(self.errors))

    @property
    def exact(self) -> bool:
        """Whether there is no error at any step."""
        return not self.errors[np.isfinite(self.errors)].any()


@dataclass(frozen=True)
class Differences:
    """The gradient by the engine in float64, one row for all entries, and a curve for each (dtype, scheme)."""

    analytic: np.ndarray
    value: float
    names: list
    curves: dict


def numeric_gradient(f, arrays, h: float, scheme: str = "central") -> np.ndarray:
    """All partial derivatives of the sum of the entries of `f` by differences at step `h`, in the arrays' own dtype.

    >>> numeric_gradient(lambda x: x * x * x, [np.array(2.0)], 0.5), numeric_gradient(lambda x: x * x * x,
    ...     [np.array(2.0)], 0.5, "one-sided")
    (array([12.25]), array([15.25]))
    """
    found = []
    with np.errstate(all="ignore"):
        here = _value(f, arrays) if scheme == "one-sided" else None
        for k, a in enumerate(arrays):
            for i in range(a.size):
                moved = []
                for sign in (1, -1) if here is None else (1,):
                    b = a.copy()
                    b.reshape(-1)[i] += a.dtype.type(sign * h)
                    moved.append(_value(f, [*arrays[:k], b, *arrays[k + 1 :]]))
                difference = (moved[0] - moved[1]) / (2 * h) if here is None else (moved[0] - here) / h
                found.append(difference)
    return np.array(found)


def _value(f, arrays) -> float:
    with no_grad():
        y = f(*map(Tensor, arrays))
    values = y.data if isinstance(y, Tensor) else np.asarray(y)
    return float(np.sum(values, dtype=values.dtype))


def study(f, *inputs, steps=STEPS) -> Differences:
    """The error of finite differences against the engine's gradient, at each step, dtype and scheme.

    >>> made = study(np.exp, 1.0)
    >>> curve = made.curves["float64", "central"]
    >>> bool(1e-6 < curve.steps[curve.best] < 1e-4), bool(curve.errors[curve.best] < 1e-9)
    (True, True)
    """
    arrays = finite_arrays(inputs, input_names(function(f, "differences(np.exp, 1.0)"), len(inputs)))
    total = sum(a.size for a in arrays)
    if not 1 <= total <= MOST_ENTRIES:
        raise ValueError(f"this lab takes one to {MOST_ENTRIES} entries in all, got {total}")
    variables, root = recorded(f, arrays)
    analytic = np.concatenate([g.ravel() for g in gradient(root, variables)])
    value, names = float(np.sum(root.data)), entry_names(f, [a.shape for a in arrays])
    for what, found in (("value", np.array([value])), ("gradient", analytic)):
        if not np.isfinite(found).all():
            raise ValueError(
                f"the {what} is not finite there, {summary(found)}: differences have nothing to agree with"
            )
    curves: dict = {}
    for dtype, scheme in itertools.product(DTYPES, SCHEMES):
        exact = curves.get((DTYPES[0], scheme))  # truncation is the same in any dtype, and float64 shows more of it
        curves[dtype, scheme] = _curve(f, arrays, dtype, scheme, analytic, np.array(steps), value, exact)
    return Differences(analytic, value, names, curves)


def _curve(f, arrays, dtype, scheme, analytic, steps, value, exact=None) -> Curve:
    cast = [a.astype(dtype) for a in arrays]
    numeric = np.array([numeric_gradient(f, cast, h, scheme) for h in steps])
    with np.errstate(all="ignore"):
        errors = np.abs(numeric - analytic).max(axis=1)
    errors[~np.isfinite(errors)] = np.nan
    if np.isnan(errors).all():
        raise ValueError(f"the function is not finite near the inputs, in {dtype}")
    eps, slopes = float(np.finfo(dtype).eps), np.abs(analytic)
    # The value is rounded, at least to a multiple of the least number, and so are the place and the step.
    lost = eps * (abs(value) + float(np.max(slopes * np.abs(np.concatenate([a.ravel() for a in arrays])))))
    lost += float(np.finfo(dtype).smallest_subnormal)
    rounding = lost / (steps if scheme == "one-sided" else 2 * steps) + eps * float(np.max(slopes))
    if exact is None:
        clear = errors > 20 * rounding
        power, factor = _law(steps[clear], errors[clear], ORDER[scheme])
        decade = [int(np.argmin(np.abs(np.log(10 * steps / h)))) for h in steps]
        falls = clear & (errors[decade] < errors / 2)  # where a smaller step is better, this one is too large
        truncation = np.fmax(factor * steps**power, np.where(falls, errors, 0))
        rest = np.flatnonzero(clear & (errors > 4 * truncation))[: 2 * STRETCH]
        if _scatter(steps[rest], errors[rest]):  # the values are rounded inside, and by more
            rounding = np.maximum(rounding, np.median((errors * steps)[rest]) / steps)
    else:  # all that the exact numbers do not have is rounding
        power, truncation = exact.power, exact.truncation
        more = (errors > FAR_OFF * (rounding + truncation)) & (errors > 4 * exact.errors)
        rounding = np.where(more, errors, rounding)
    return Curve(steps, errors, numeric, int(np.nanargmin(errors)), rounding, truncation, power)


def _law(steps, errors, order) -> tuple:
    """The power of the step that the smallest errors follow evenly, and the factor before it; zeros without one."""
    h, e = np.log(steps), np.log(errors)
    powers = np.diff(e) / np.diff(h)
    long = min(STRETCH, len(powers))
    for k in range(len(powers) - long, -1, -1) if long > 1 else ():
        power = float(np.median(powers[k : k + long]))
        if np.ptp(powers[k : k + long]) < EVEN * power:
            power = order if abs(power - order) < 0.08 else power
            return power, float(np.exp(np.median((e - power * h)[k : k + long + 1])))
    return 0, 0.0


def _scatter(steps, errors) -> bool:
    """Whether the errors grow as 1/h over some decades, but unevenly, as rounding does and a jump does not."""
    if len(steps) < 2 * STRETCH:
        return False
    turns = np.diff(np.log(errors * steps))
    return bool(np.median(turns / np.diff(np.log(steps))) < 0.5 and np.median(np.abs(turns)) > 0.05)


class DifferencesLab(Lab):
    """The error against the step, for both dtypes and both schemes; a slider moves the step."""

    title = "Finite differences: which step?"

    def __init__(self, f, inputs, step):
        self._made = study(f, *inputs)
        super().__init__(dtype="float64", scheme="central", step=real("step", step))

    def _compute(self, values):
        for name, allowed in (("dtype", DTYPES), ("scheme", SCHEMES)):
            if values[name] not in allowed:
                raise ValueError(f"{name} must be {' or '.join(map(repr, allowed))}, got {clean(repr(values[name]))}")
        step = real("step", values["step"])
        if not STEPS[-1] <= step <= STEPS[0]:
            raise ValueError(f"the step must lie between {STEPS[-1]:.0e} and {STEPS[0]:g}, got {step:g}")
        return self._made

    @property
    def curve(self) -> Curve:
        """The curve of the chosen dtype and scheme."""
        return self.result.curves[self.values["dtype"], self.values["scheme"]]

    @property
    def index(self) -> int:
        """Which of the curve's steps is the nearest to the chosen one."""
        return int(np.argmin(np.abs(np.log10(self.curve.steps) - math.log10(self.values["step"]))))

    def _controls(self):
        steps = self.curve.steps[::-1]
        return [
            choice("dtype", "Numbers", DTYPES, self.values["dtype"]),
            choice("scheme", "Differences", SCHEMES, self.values["scheme"]),
            slider("step", "Step h", [_step(h) for h in steps], len(steps) - 1 - self.index),
        ]

    def _read(self, name, shown):
        return float(self.curve.steps[::-1][shown]) if name == "step" else shown

    def _summary(self):
        c, i = self.curve, self.index
        if not math.isfinite(c.errors[i]):
            return f"At step {_step(c.steps[i])} the function is not finite."
        if c.exact:
            but = " But one-sided differences do not come near the gradient: the two sides of a kink cancel here."
            which = f"{self.values['dtype']}, {self.values['scheme']}"
            return f"{which}: the error is 0 at every step, so no step is better than another.{but * self._hides()}"
        why = {"truncation": "most of it truncation: the step is too large",
               "rounding": "most of it rounding" + ": the step is too small" * bool(c.rounding[i] > 2 * c.rounding[0]),
               "both": "truncation and rounding are about equal",
               "nothing": "exact at this step",
               "neither": "more than truncation and rounding make: is there a kink, a jump, or a wrong gradient?",
               }[c.branch(i)]  # fmt: skip
        best = "This is the best step. " if i == c.best else ""
        best += f"Smallest error: {_error(c.errors[c.best])} at step {_step(c.steps[c.best])}."
        if c.level:
            best = "It is the same at every step."
        here = f"{self.values['dtype']}, {self.values['scheme']}, step {_step(c.steps[i])}"
        return f"{here}: error {_error(c.errors[i])}, {why}{'' if why.endswith('?') else '.'} {best}"

    def _hides(self) -> bool:
        """Whether central differences are exact only since left and right make up for each other."""
        aside = self.result.curves[self.values["dtype"], "one-sided"]
        return aside.branch(int(np.argmin(np.abs(aside.steps - 1e-8)))) == "neither"

    def _blocks(self):
        c, i, n = self.curve, self.index, len(self.result.analytic)
        entries = f"{n} entries" if n > 1 else "1 entry"
        rows, current = [], None
        for k in range(0, len(c.steps), 4):
            at = i if k <= i < k + 4 and not i % 4 else k
            if at == i:
                current = len(rows)
            cells = [_error(self.result.curves[d, s].errors[at]) for d in DTYPES for s in SCHEMES]
            rows.append((_step(c.steps[at]), *cells))
        header = ("step", *(f"{d} {s}" for d in DTYPES for s in SCHEMES))
        return [
            Text(self._summary(), strong=True),
            Shown(self._picture()),
            Table(f"Largest error over {entries}, by step", header, rows, current),
            Text(self._slopes()),
        ]

    def _slopes(self) -> str:
        c, i, made = self.curve, self.index, self.result
        analytic = f"Gradient by the engine: {summary(made.analytic)}."
        if len(made.analytic) == 1 and math.isfinite(c.errors[i]):
            relative = max(c.errors[i], 1e-12) / max(abs(made.analytic[0]), 1e-12)
            digits = 2 + max(0, min(8, math.floor(-math.log10(relative))))
            return f"{analytic} By differences at this step: {c.numeric[i][0]:.{digits}g}."
        return analytic

    def _picture(self) -> Plot:
        dtype, scheme = self.values["dtype"], self.values["scheme"]
        c, i = self.curve, self.index
        compared = next(d for d in DTYPES if d != dtype)
        other = self.result.curves[compared, scheme]
        drawn = [e for curve in (c, other) for e in curve.errors if math.isfinite(e) and e > 0] or [LEAST]
        low, high = max(LEAST, min(*drawn, 1.0) / 5), max(*drawn, 0.1) * 5
        label = f"Error against step on logarithmic axes, {dtype}, {scheme}: "
        if c.exact:
            label += "0 at every step, drawn along the lower edge"
        elif c.level:
            label += f"{_error(c.errors[c.best])} at every step"
        else:
            label += (
                f"{'a V with ' * bool(c.power)}its lowest point at step {_step(c.steps[c.best])}, error "
                f"{_error(c.errors[c.best])}; the chosen step {_step(c.steps[i])} has error {_error(c.errors[i])}"
            )
        p = Plot(label, f"Error of {scheme} differences", (STEPS[-1] / 1.5, STEPS[0] * 1.5), (low, high), "step h",
                 "largest error", log="xy", width=480, height=340)  # fmt: skip
        lift = lambda e: e if not math.isfinite(e) else min(max(e, low), high)
        for line in (c.rounding, c.truncation):
            inside = [(h, e) for h, e in zip(c.steps, line) if low <= e <= high]
            p.line(inside, "ad-thin")
        p.line([(h, lift(e)) for h, e in zip(other.steps, other.errors)], "ad-soft")
        p.line([(h, lift(e)) for h, e in zip(c.steps, c.errors)], "ad-ink")
        for h, e in zip(c.steps[::2], c.errors[::2]):
            if math.isfinite(e):
                p.point(h, lift(e))
        p.text(p.width - 8, 18, f"solid: {dtype}, dashed: {compared}", anchor="end", size=12, quiet=True)
        best = float(c.steps[c.best])
        if c.exact:
            p.note(1e-8, low, "0 at every step", dx=0, dy=-30, anchor="middle", bold=True)
        elif not c.level:
            p.upright(best, f"best step {_step(best)}")
        seen = [e for e in c.rounding if low <= e <= high]
        if not c.level and seen and seen[-1] > 10 * seen[0]:
            p.note(math.sqrt(best * STEPS[-1]), low, "rounding: ~ 1/h", dx=0, dy=-8, anchor="middle")
        if c.power and best < 0.1:
            power = {1: "h", 2: "h²"}.get(c.power, f"h^{c.power:.2g}")
            p.note(math.sqrt(best), low, f"truncation: ~ {power}", dx=0, dy=-8, anchor="middle")
        if math.isfinite(c.errors[i]):
            p.point(c.steps[i], lift(c.errors[i]), "diamond")
            p.note(c.steps[i], lift(c.errors[i]), f"h = {_step(c.steps[i])}", dx=0, dy=-14, anchor="middle", bold=True)
        return p


def differences(f, *inputs, step: float = 1e-6) -> DifferencesLab:
    """A lab on finite differences: their error against the step, in float32 and float64, central and one-sided.

    `f`: a function of as many arrays as there are `inputs`, up to 64 entries in all; of several results the sum counts.
    The error is the largest over all entries, against the engine's gradient in float64. What `f` raises is raised.

    >>> import numpy as np
    >>> from autodiff import labs
    >>> lab = labs.differences(np.exp, 1.0)
    >>> lab.set(dtype="float32", scheme="one-sided", step=1e-8)
    >>> lab.curve.branch(lab.index)
    'rounding'
    """
    if not inputs:
        raise TypeError("differences takes a function and at least one input: labs.differences(np.exp, 1.0)")
    return DifferencesLab(f, inputs, step)


def _step(h: float) -> str:
    return number(h) if h in (1.0, 0.1, 0.01) else f"{h:.1e}".replace(".0e", "e").replace("e-0", "e-")


def _error(e: float) -> str:
    if not math.isfinite(e):
        return "not finite"
    return "0" if e == 0 else f"{e:.0e}".replace("e-0", "e-").replace("e+0", "e+").replace("e+0", "")
