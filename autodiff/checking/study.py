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
        self.h, self.steps = h, ((up + down) / 2)[:, 0]
        self.moved = (above - below).astype(np.float64)
        self.slope = self.moved / (up + down)
        self.right, self.left = (above - z0) / up, (z0 - below) / down
        self.floor = float(np.finfo(z0.dtype).eps) * np.abs(z0)  # rounding of the value itself

    def judge(self, j, analytic, atol, rtol, scale) -> Judgement:
        h, d, sided = self.steps, self.slope[:, j], False
        order = 2
        if not np.isfinite(d).sum() > 1:  # at the edge of the domain there is one side only
            d, order, sided = (self.right if np.isfinite(self.right[:, j]).sum() > 1 else self.left)[:, j], 1, True
        noise = self.noise(j, d)
        numeric, error, level = extrapolated(h, d, noise, order)
        if level is None:
            return Judgement(UNSUITED, math.nan, math.inf, note="the function is not finite one step away")
        kink = self.kink(j, noise)
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

    def noise(self, j, d) -> float:
        """How much the values scatter, from the smallest steps, where the slope would not change without it."""
        last = np.flatnonzero(np.isfinite(d))[-4:]
        if len(last) < 2:
            return float(self.floor[j])
        scatter = np.abs(np.diff(d[last])) * self.steps[last[1:]]
        return max(float(self.floor[j]), float(np.median(scatter)))

    def kink(self, j, noise):
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
        r = h[a] / h[b]
        left, right = ((r * s[b, j] - s[a, j]) / (r - 1) for s in (self.left, self.right))
        smooth = np.flatnonzero((h < h[b]) & (np.abs(gap) < 0.1 * large) & (15 * noise / h < 0.1 * large))
        below = None
        if len(smooth):
            numeric, error, level = extrapolated(h[smooth], self.slope[smooth, j], noise, 2)
            below = (numeric, error)
            if level is None:
                below = (self.slope[smooth[0], j], 3 * noise / h[smooth[0]] + 0.1 * large)
            # The kink lies between the point and these steps: beyond it, secants have the slopes of either side.
            left, right = ((s[a, j] * h[a] - s[b, j] * h[b]) / (h[a] - h[b]) for s in (self.left, self.right))
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
        for side in (self.right, self.left, self.slope):
            sizes = np.abs(side[np.isfinite(side[:, j]), j])
            if len(sizes) > 5 and (sizes[1:] > 1.5 * sizes[:-1]).all():
                return Judgement(NOT_FINITE, numeric, error, note="the slope grows without bound as the step shrinks")
        return Judgement(UNSUITED, numeric, error)


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
    return best
