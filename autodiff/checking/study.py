"""One column of a Jacobian by differences at many steps, and what they say of the gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .report import JUMP, KINK, MATCH, NOT_FINITE, UNSUITED, WRONG_VALUE, number

LADDER = 10.0 ** np.arange(4, -9, -1)  # the steps of a study, as multiples of the usual step


@dataclass
class Judgement:
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


class Study:
    """One column by differences at many steps, from far too large to far too small."""

    def __init__(self, h, up, down, above, below, z0):
        up, down = (np.asarray(d, np.float64)[:, None] for d in (up, down))
        self.h, self.steps, self.up, self.down = h, ((up + down) / 2)[:, 0], up[:, 0], down[:, 0]
        self.moved = (above - below).astype(np.float64)
        self.slope = self.moved / (up + down)
        self.right, self.left = (above - z0) / up, (z0 - below) / down
        self.floor = float(np.finfo(z0.dtype).eps) * np.abs(z0)  # rounding of the value itself

    def judge(self, j, analytic, atol, rtol, scale) -> Judgement:
        sides = self.left_and_right(j)
        if any(math.isinf(side) for side, _ in sides):
            return self.infinite(*(side for side, _ in sides))
        h, d, sided = self.steps, self.slope[:, j], False
        order = 2
        if not np.isfinite(d).sum() > 1:  # at the edge of the domain there is one side only
            d, order, sided = (self.right if np.isfinite(self.right[:, j]).sum() > 1 else self.left)[:, j], 1, True
        noise = scatter(h, d, self.floor[j])
        numeric, error, level = extrapolated(h, d, noise, order)
        if level is None:
            return Judgement(UNSUITED, math.nan, math.inf, note="the function is not finite one step away")
        kink = self.kink(j, noise, sides)
        note = "at the edge of the domain, the slope from inside agrees" if sided else ""
        if kink is not None:
            left, right, doubt, below = kink
            if below is not None:
                numeric, error = below
            if abs(analytic - numeric) <= atol + rtol * abs(numeric) + error:
                return Judgement(KINK, numeric, error, left, right, below is not None)
            low, high = min(left, right), max(left, right)
            slack = atol + rtol * max(abs(low), abs(high)) + doubt
            certain = below is not None and error < abs(analytic - numeric) / 10
            status = KINK if low - slack <= analytic <= high + slack and not certain else WRONG_VALUE
            return Judgement(status, numeric, error, left, right, below is not None)
        allowed = atol + rtol * abs(numeric)
        if error > max(allowed, 1e-3 * max(scale, abs(numeric)), 1e-5):
            return self.unsettled(j, numeric, error)
        if abs(analytic - numeric) <= allowed + error:
            if not note and error > allowed:
                note = f"the numeric slope is good to {error:.0e} only"
            return Judgement(MATCH, numeric, error, note=note)
        return Judgement(WRONG_VALUE, numeric, error)

    def left_and_right(self, j, n=None):
        """The slopes on the left and on the right, each with a bound on its error, from the `n` largest steps."""
        sides = (self.down, self.left), (self.up, self.right)
        return [one_sided(h[:n], slopes[:n, j], self.floor[j]) for h, slopes in sides]

    def infinite(self, left, right) -> Judgement:
        if math.isnan(left) or math.isnan(right) or left == right:
            which = "the slope grows"
        elif math.isinf(left) and math.isinf(right):
            which = "the slopes from left and right both grow"
        else:
            which = f"the slope from the {'left' if math.isinf(left) else 'right'} grows"
        note = f"{which} without bound as the step shrinks"
        return Judgement(NOT_FINITE, math.nan, math.inf, left, right, note=note)

    def kink(self, j, noise, sides):
        """Left and right slope, if they stay apart as the step shrinks; and the slope of steps too small to meet it."""
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
        smooth = np.flatnonzero((h < h[b]) & (np.abs(gap) < 0.1 * large) & (15 * noise / h < 0.1 * large))
        below = None
        if len(smooth):
            numeric, error, level = extrapolated(h[smooth], self.slope[smooth, j], noise, 2)
            below = (numeric, error)
            if level is None:
                below = (self.slope[smooth[0], j], 3 * noise / h[smooth[0]] + 0.1 * large)
            if any(math.isinf(side) for side, _ in self.left_and_right(j, b + 1)):
                return None
            # The kink lies between the point and these steps: beyond it, secants have the slopes of either side.
            left, right = ((s[a, j] * h[a] - s[b, j] * h[b]) / (h[a] - h[b]) for s in (self.left, self.right))
        else:
            (left, error), (right, more) = sides
            if not error + more <= 1e-3 * large:  # these slopes are of the steps, not of the function
                return None
            doubt = max(doubt, error + more)
        left, right = (0.0 if abs(s) < 1e-6 * large else float(s) for s in (left, right))
        return left, right, doubt, below

    def unsettled(self, j, numeric, error) -> Judgement:
        """The differences settle nowhere: a jump of the function, an infinite slope, or rounding."""
        finite = np.flatnonzero(np.isfinite(self.moved[:, j]))[-3:]
        jumps = np.abs(self.moved[finite, j])
        if len(jumps) == 3 and jumps.min() > 1000 * self.floor[j] and np.ptp(jumps) <= 0.1 * jumps.max():
            return Judgement(
                JUMP, numeric, error, note=f"the function jumps by {number(self.moved[finite[-1], j])} here"
            )
        return Judgement(UNSUITED, numeric, error)


def one_sided(steps, slopes, floor=0.0):
    """The slope on one side, from those at several steps: its limit as the step shrinks, and a bound on the error.

    `steps`: falling, over four decades at least; `slopes`: one for each, NaN where there is none; `floor`: the rounding
    of the values that they were computed from. The limit is ±inf where the slopes grow without bound: as those of sqrt
    do, by a power of the step, or as those of x·log(x), evenly with its logarithm. It is NaN where no slope is finite.
    Where the steps do not settle it, the error is as large as what they leave open.

    >>> h = 10.0 ** -np.arange(2, 12)
    >>> one_sided(h, np.sqrt(h) / h), one_sided(h, np.log(h))
    ((inf, 0.0), (-inf, 0.0))
    >>> slope, error = one_sided(h, np.expm1(h) / h, floor=1e-16)
    >>> bool(abs(slope - 1) < error < 1e-6)
    True
    """
    there = np.isfinite(slopes)
    h, s = np.asarray(steps, float)[there], np.asarray(slopes, float)[there]
    if len(h) < 2:
        return math.nan, math.inf
    limit = _unbounded(h, s, floor)
    if limit is not None:
        return limit, 0.0
    return extrapolated(h, s, scatter(h, s, floor), 1)[:2]


def _last_changes(h, s, noise):
    """How fast the slopes change with the logarithm of the step, at the smallest steps that still show it.

    Pairs of a step and the change per factor e, the smallest step last; none where the slopes have settled.
    """
    folds = np.log(h[:-1] / h[1:])
    rate, at = np.diff(s) / folds, np.sqrt(h[:-1]) * np.sqrt(h[1:])
    hidden = 20 * (noise * (1 / h[:-1] + 1 / h[1:]) + np.finfo(float).eps * np.abs(s[1:])) / folds
    seen = np.flatnonzero(np.abs(rate) > hidden)
    if not len(seen) or (hidden[seen[-1] + 1 :] < 0.5 * abs(rate[seen[-1]])).any():
        return []
    first = seen[-1]
    while first and abs(rate[first - 1]) > hidden[first - 1] and rate[first - 1] * rate[first] > 0:
        first -= 1
    return list(zip(at[first : seen[-1] + 1].tolist(), rate[first : seen[-1] + 1].tolist()))


def _order(first, then) -> float:
    """The power of the step that a rate of change follows, from two pairs of them."""
    (a, q), (b, r) = first, then
    return (math.log(abs(r)) - math.log(abs(q))) / (math.log(b) - math.log(a))


def _unbounded(h, s, floor):
    """±inf if the slopes grow evenly over the last three decades, as a power of the step or with its logarithm."""
    run = _last_changes(h, s, floor)
    run = [(at, rate) for at, rate in run if at <= 2e3 * run[-1][0]]
    if len(run) < 4 or run[0][0] < 500 * run[-1][0]:
        return None
    powers = [_order(*pair) for pair in zip(run, run[1:])]
    # -1 is a jump of the function, and what goes up and down is rounding
    steady = -0.98 < min(powers) and max(powers) - min(powers) < 0.1
    return math.copysign(math.inf, run[-1][1]) if steady and _order(run[0], run[-1]) < 0.008 else None


def scatter(steps, slopes, floor) -> float:
    """How much the values scatter, from the smallest steps, where the slope would not change without it."""
    last = np.flatnonzero(np.isfinite(slopes))[-4:]
    if len(last) < 2:
        return float(floor)
    return max(float(floor), float(np.median(np.abs(np.diff(slopes[last])) * np.asarray(steps)[last[1:]])))


def extrapolated(h, d, noise, order):
    """The best slope from a pair of neighbouring steps (Richardson), a bound on its error, and where it was found.

    The slope is the limit for small steps, so a larger step is believed only where it agrees with the smaller ones:
    far beyond a kink or a narrow feature of the function, differences settle just as well, on another value.
    """
    candidates, last = [], 0.0
    finite = np.flatnonzero(np.isfinite(d))
    for a, b in zip(finite, finite[1:]):
        r, change = (h[a] / h[b]) ** order, abs(d[a] - d[b])
        value = (r * d[b] - d[a]) / (r - 1)
        # The extrapolation is trusted where the slopes close in as fast as its order promises.
        error = (abs(value - d[b]) if change * r < 2 * last else change) + 3 * noise / h[b]
        candidates.append((float(value), float(error), int(b)))
        last = change
    best = (math.nan, math.inf, None)
    for value, error, level in reversed(candidates):
        if best[2] is None or error < best[1] and abs(value - best[0]) <= 3 * (error + best[1]):
            best = (value, error, level)
    run = _last_changes(h[finite], d[finite], noise)
    if len(run) > 1 and (power := _order(*run[-2:])) < 0.5:  # still on the move: what is to come, if it goes on so
        best = (best[0], max(best[1], abs(run[-1][1]) / power) if power > 0 else math.inf, best[2])
    return best
