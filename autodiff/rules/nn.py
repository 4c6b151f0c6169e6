"""What NumPy has no name for: activations, convolutions, pools, upsampling, and reads and writes by index arrays.

Each function comes with its rule; see `rule.py` for the contract. Linear maps come in adjoint pairs, each the rule of
the other, so that gradients can be differentiated to any order. Arguments are checked in `autodiff.functions`: here
shapes fit, indices are within range, and there is one entry for each spatial axis.

Images have shape (N, C, *S): batch, channels, spatial axes, any number of them. They are computed on with the batch
axis last in memory, since NumPy's inner loops are then long.
"""

import functools
import math
from types import FunctionType
from typing import NamedTuple

import numpy as np

from .helpers import accumulator, add_at, add_up, axes_of, dispatched, expand, widened
from .rule import rule

# Activations


@dispatched
def relu(a):
    """max(a, 0)."""
    return np.maximum(a, 0)


@dispatched
def elu(a, alpha=1.0):
    """a above 0, alpha·(exp(a) - 1) elsewhere."""
    return np.maximum(a, 0) + alpha * np.expm1(np.minimum(a, 0))


def elu_slope(a, alpha):
    """1 above 0, alpha·exp(a) elsewhere; exp never sees the entries above 0, where it would overflow."""
    return np.where(a > 0, 1, alpha * np.exp(np.where(a > 0, 0, a)))


@dispatched
def sigmoid(a):
    """1/(1 + exp(-a)), extended by exp(a) below 0: nothing overflows, and small values keep their digits."""
    return np.exp(np.minimum(a, 0)) / (1 + np.exp(-np.abs(a)))


@dispatched
def silu(a):
    """a·sigmoid(a)."""
    return a * sigmoid(a)


def silu_slope(a, s):
    """The derivative of a·sigmoid(a), where s is sigmoid(a)."""
    return s * (1 + a * (1 - s))


@dispatched
def softplus(a):
    """log(1 + exp(a)), without overflow and with the digits of small values."""
    return np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a)))


# The error function


class Precision(NamedTuple):
    """The terms that the error function needs: a series below 1 and a trapezoidal rule elsewhere.

    `series`: the coefficients of erf(z)·√π/(2z) in z². `step`: of the rule, whose relative error is exp(-(π/step)²).
    `nodes`: the squares of its positions, and the weights there.
    """

    series: tuple
    step: float
    nodes: tuple

    @classmethod
    def of(cls, terms, step, nodes):
        squares = [(step * n) ** 2 for n in range(1, nodes + 1)]
        return cls(tuple((-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(terms)), step,
                   tuple((s, math.exp(-s)) for s in squares))  # fmt: skip


DOUBLE, SINGLE = Precision.of(19, 0.5, 12), Precision.of(12, 0.65, 7)  # errors of 1e-17 and 1e-10
CACHED = 1 << 13  # entries that are worked on at once, so that they stay in cache through all terms


def _erf_near_0(z, precision):
    s = z * z
    total = np.full_like(s, precision.series[-1])
    for c in precision.series[-2::-1]:
        total *= s
        total += c
    return total * z * (2 / math.sqrt(math.pi))


def _erfc_from_half(z, gauss, precision):
    """1 - erf(z) for z ≥ ½, where `gauss` is exp(-z²): the trapezoidal rule on its integral representation.

    F. Matta and A. Reichel, Uniform computation of the error function and other related functions, Mathematics of
    Computation 25 (1971). Every term of the sum is positive, so no digits cancel, in the far tail neither.
    """
    s, step = z * z, precision.step
    total = 0.5 / s
    for square, weight in precision.nodes:
        total += weight / (s + square)
    pole = 2 / np.expm1(np.minimum(z, 20) * (2 * math.pi / step))  # beyond 20 it is far below every digit
    return total * z * gauss * (2 * step / math.pi) - pole * (z < math.pi / step)


def _pieces(a, near_0, away):
    """`near_0` below 1 in magnitude and `away` elsewhere, in double precision, each on its own entries only."""
    a = np.asarray(a)
    flat, precision = a.reshape(-1), DOUBLE if a.dtype.itemsize > 4 else SINGLE
    result = np.empty(flat.shape, a.dtype)
    for i in range(0, len(flat), CACHED):
        x = flat[i : i + CACHED].astype(np.float64)
        small = np.abs(x) < 1
        at, rest = np.flatnonzero(small), np.flatnonzero(~small)
        y = np.empty_like(x)
        y[at], y[rest] = near_0(x[at], precision), away(x[rest], precision)
        result[i : i + CACHED] = y
    return result.reshape(a.shape)[()]  # a number for a number, as ufuncs give


@dispatched
def erf(a):
    """2/√π·∫exp(-t²)dt from 0 to a: by its Maclaurin series below 1, else from the complementary function."""

    def away(x, precision):
        z = np.minimum(np.abs(x), 6)  # erfc(6) is below half a unit in the last place of 1
        return np.copysign(1 - _erfc_from_half(z, np.exp(-z * z), precision), x)

    return _pieces(a, _erf_near_0, away)


@dispatched
def ndtr(a):
    """The normal distribution function, ½·(1 + erf(a/√2)), with all digits where it is small."""

    def away(x, precision):
        z = np.minimum(np.abs(x), 40)  # exp(-800) is 0
        head = z.astype(np.float32).astype(np.float64)  # its square is exact: exp would magnify the rounding of z²
        gauss = np.exp(head * head / -2) * np.exp((z - head) * (z + head) / -2)
        tail = _erfc_from_half(z * math.sqrt(0.5), gauss, precision) / 2
        return (x > 0) - np.copysign(tail, x)

    return _pieces(a, lambda x, precision: 0.5 + _erf_near_0(x * math.sqrt(0.5), precision) / 2, away)


@dispatched
def bessel(a, n):
    """The modified Bessel function of the first kind I_n: the mean of exp(a·cos t)·cos(n·t) over a full turn.

    Of a periodic function the trapezoidal rule errs by its frequencies beyond the number of nodes, here less than 1e-16
    of the sum. The four quarters of the turn are taken together.
    """
    x, n = np.asarray(a, np.float64), abs(n)
    largest = np.max(np.abs(x), initial=0, where=np.isfinite(x))
    quarter = 5 + (n + int(math.sqrt(80 * min(largest, 800)))) // 4
    total = np.zeros_like(x)
    for k in range(quarter + 1):
        t = math.pi / 2 * k / quarter
        part = np.cosh(x * math.cos(t)) if n % 2 == 0 else np.sinh(x * math.cos(t))
        total = total + part * ((1 if k in (0, quarter) else 2) * math.cos(n * t) / (2 * quarter))
    return total.astype(np.asarray(a).dtype)


def gaussian(a, scale):
    """exp(-scale·a²); beyond 40 it is 0, and squaring could overflow."""
    a = np.clip(a, -40, 40)
    return np.exp(a * a * -scale)


def _gelu_tanh(a):
    """The tanh in gelu's approximation; beyond 10 it is ±1, and a³ could overflow."""
    a = np.clip(a, -10, 10)
    return np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * (a * a * a)))


@dispatched
def gelu(a, approximate="none"):
    """a·P(X ≤ a) for a normal X."""
    return a * ndtr(a) if approximate == "none" else a * (0.5 * (1 + _gelu_tanh(a)))


def gelu_slope(a, approximate):
    """The derivative of gelu."""
    if approximate == "none":
        return ndtr(a) + a * (gaussian(a, 0.5) * (1 / math.sqrt(2 * math.pi)))
    t, a = _gelu_tanh(a), np.clip(a, -10, 10)
    return 0.5 * (1 + t) + a * (1 - t * t) * (math.sqrt(0.5 / math.pi) * (1 + 3 * 0.044715 * (a * a)))


# Exponentials over an axis


def _finite_max(a, axis):
    top = np.max(a, axis=axis, keepdims=True, initial=-np.inf)
    return np.where(np.isfinite(top), top, 0)


@dispatched
@widened
def softmax(a, axis=-1):
    """exp(a)/Σexp(a)."""
    e = np.exp(a - _finite_max(a, axis))
    return e / add_up(e, axis, keepdims=True)


def _log_of_sum(a, axis):
    """a minus its maximum, and the logarithm of its summed exponentials.

    The entries that are the maximum are counted, not summed: by log1p the small ones then keep their digits.
    """
    a = a - _finite_max(a, axis)
    top = a == 0
    rest = add_up(np.where(top, 0, np.exp(a)), axis, keepdims=True)
    others = np.count_nonzero(top, axis=axis, keepdims=True) - 1
    with np.errstate(divide="ignore"):  # log(0) is -inf where there is no entry above -inf
        return a, np.log1p(others.astype(a.dtype) + rest)


@dispatched
@widened
def log_softmax(a, axis=-1):
    """a - log Σexp(a)."""
    shifted, log_sum = _log_of_sum(a, axis)
    return shifted - log_sum


@dispatched
@widened
def logsumexp(a, axis=None, keepdims=False):
    """log Σexp(a)."""
    y = _log_of_sum(a, axis)[1] + _finite_max(a, axis)
    return y if keepdims else np.squeeze(y, axis=axes_of(axis, y.ndim))[()]


def shares_of_sum(y, a, axis, keepdims):
    """exp(a - y): what each entry has in a logsumexp; all 0 where all entries are -inf."""
    return np.exp(a - expand(np.where(y == -np.inf, 0, y), a, axis, keepdims))


# Windows on images


class Geometry(NamedTuple):
    """How windows lie on an input: entry k of window l is input entry stride·l + dilation·k - before, on each axis."""

    stride: tuple
    before: tuple
    dilation: tuple
    groups: int = 1


def named(name, function):
    """The same function under a name of its own, which drawings and messages show."""
    copy = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    copy.__doc__ = function.__doc__
    return dispatched(widened(copy))


def _batch_last(a):
    return np.ascontiguousarray(a.transpose(*range(1, a.ndim), 0))


def _batch_first(a):
    return a.transpose(-1, *range(a.ndim - 1))


def _frame(a, before, size, fill=0):
    """The spatial part from -before, of this size, of a (C, *S, N) array; `fill` where there is nothing."""
    lengths = a.shape[1:-1]
    if all(b <= 0 and n - m >= -b for b, n, m in zip(before, lengths, size)):
        return a[(slice(None), *(slice(-b, m - b) for b, m in zip(before, size)))]
    result = np.full((a.shape[0], *size, a.shape[-1]), fill, a.dtype)
    pairs = [(max(b, 0), min(n + b, m), b) for b, n, m in zip(before, lengths, size)]
    inside = (slice(None), *(slice(i, max(i, j)) for i, j, b in pairs))
    result[inside] = a[(slice(None), *(slice(i - b, max(i, j) - b) for i, j, b in pairs))]
    return result


def _span(kernel, geometry, size):
    """How far `size` windows reach, on each axis."""
    return tuple((m - 1) * s + (k - 1) * d + 1 for m, k, s, d in zip(size, kernel, geometry.stride, geometry.dilation))


def _offsets(kernel, geometry, size):
    """For each entry of the kernel, the slices of a frame where the windows have that entry."""
    axes = [[slice(k * d, k * d + (m - 1) * s + 1, s) for k in range(n)]
            for n, m, s, d in zip(kernel, size, geometry.stride, geometry.dilation)]  # fmt: skip
    return [(slice(None), *(axis[k] for axis, k in zip(axes, ks))) for ks in np.ndindex(*kernel)]


def _windows(x, kernel, geometry, size):
    """A view of all windows, of shape (C, *kernel, *size, N)."""
    a = _frame(_batch_last(x), geometry.before, _span(kernel, geometry, size))
    steps = a.strides[1:-1]
    strides = [n * s for n, s in zip(steps, geometry.dilation)] + [n * s for n, s in zip(steps, geometry.stride)]
    shape, strides = (a.shape[0], *kernel, *size, a.shape[-1]), (a.strides[0], *strides, a.strides[-1])
    return np.lib.stride_tricks.as_strided(a, shape, strides, writeable=False)


# Convolutions: three linear maps, the partial derivatives of one sum Σ x[stride·l + dilation·k - before]·w[k]·g[l].
# Each is given the spatial size of its result.

BLOCK = 1 << 17  # entries of the windows that are copied out at once: memory stays bounded, and the copy in cache


def _blocks(rows, others):
    """Slices of the first spatial axis of the result, so that each has about BLOCK window entries."""
    step = max(1, BLOCK // max(1, others))
    return [slice(i, min(i + step, rows)) for i in range(0, rows, step)]


def _convolve(x, w, geometry, size):
    kernel, groups, (o, c) = w.shape[2:], geometry.groups, w.shape[:2]
    windows = _windows(x, kernel, geometry, size)
    n = x.shape[0]
    rows = w.reshape(groups, o // groups, c * math.prod(kernel))
    each = math.prod(size[1:]) * n
    parts = []
    for at in _blocks(size[0], x.shape[1] * math.prod(kernel) * each):
        columns = windows[(slice(None),) * (1 + len(kernel)) + (at,)]
        columns = columns.reshape(groups, rows.shape[2], (at.stop - at.start) * each)
        parts.append((rows @ columns).reshape(o, at.stop - at.start, *size[1:], n))
    return _batch_first(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1))


def _convolve_transpose(g, w, geometry, size):
    kernel, groups, (o, c) = w.shape[2:], geometry.groups, w.shape[:2]
    n, windows = g.shape[0], g.shape[2:]
    rows = np.swapaxes(w.reshape(groups, o // groups, c * math.prod(kernel)), 1, 2)
    a = _batch_last(g)
    each = math.prod(windows[1:]) * n
    frame = np.zeros((groups * c, *_span(kernel, geometry, windows), n), np.result_type(g, w))
    for at in _blocks(windows[0], groups * c * math.prod(kernel) * each):
        count = at.stop - at.start
        columns = rows @ a[:, at].reshape(groups, o // groups, count * each)
        columns = columns.reshape(groups * c, math.prod(kernel), count, *windows[1:], n)
        part = frame[:, at.start * geometry.stride[0] :]
        for k, offset in enumerate(_offsets(kernel, geometry, (count, *windows[1:]))):
            part[offset] += columns[:, k]
    return _batch_first(_frame(frame, [-b for b in geometry.before], size))


def _convolve_weight(x, g, geometry, size):
    groups, n, o, c = geometry.groups, x.shape[0], g.shape[1], x.shape[1] // geometry.groups
    windows = _windows(x, size, geometry, g.shape[2:])
    a = _batch_last(g)
    each = math.prod(g.shape[3:]) * n
    total = 0
    for at in _blocks(g.shape[2], x.shape[1] * math.prod(size) * each):
        count = at.stop - at.start
        columns = windows[(slice(None),) * (1 + len(size)) + (at,)]
        columns = columns.reshape(groups, c * math.prod(size), count * each)
        total = total + a[:, at].reshape(groups, o // groups, count * each) @ np.swapaxes(columns, 1, 2)
    return total.reshape(o, c, *size)


conv1d,           conv2d           = (named(f"conv{n}d", _convolve) for n in (1, 2))  # fmt: skip
conv_transpose1d, conv_transpose2d = (named(f"conv_transpose{n}d", _convolve_transpose) for n in (1, 2))
conv_weight1d,    conv_weight2d    = (named(f"conv_weight{n}d", _convolve_weight) for n in (1, 2))  # fmt: skip


# Pools: sums over windows, weighted by the share of each entry


@dispatched
@widened
def pool(a, share, kernel, geometry, size):
    """Σ share·a over each window; `share` holds one item for each entry of the kernel."""
    frame = _frame(_batch_last(a), geometry.before, _span(kernel, geometry, size))
    total = 0
    for s, offset in zip(share, _offsets(kernel, geometry, size)):
        total = total + frame[offset] * s
    return _batch_first(total)


@dispatched
@widened
def unpool(g, share, kernel, geometry, size):
    """The adjoint of `pool`: each entry of a window gets its share."""
    a, windows = _batch_last(g), g.shape[2:]
    frame = np.zeros((a.shape[0], *_span(kernel, geometry, windows), a.shape[-1]), a.dtype)
    for s, offset in zip(share, _offsets(kernel, geometry, windows)):
        frame[offset] += a * s
    return _batch_first(_frame(frame, [-b for b in geometry.before], size))


@dispatched
@widened
def avg_pool2d(a, kernel, geometry, size):
    """The mean of each window; padding counts as 0."""
    return pool(a, mean_share(kernel), kernel, geometry, size)


def mean_share(kernel):
    n = math.prod(kernel)
    return (1 / n,) * n


@dispatched
def max_pool2d(a, kernel, geometry, size):
    """The maximum of each window; padding never wins."""
    least = -np.inf if a.dtype.kind == "f" else np.iinfo(a.dtype).min
    frame = _frame(_batch_last(a), geometry.before, _span(kernel, geometry, size), least)
    parts = [frame[offset] for offset in _offsets(kernel, geometry, size)]
    return _batch_first(functools.reduce(np.maximum, parts) if len(parts) > 1 else parts[0].copy())


def window_winners(y, a, kernel, geometry, size):
    """The share of each entry of a window in its maximum: even among those that are equal to it."""
    a, top, span = _batch_last(a), _batch_last(y), _span(kernel, geometry, size)
    offsets = _offsets(kernel, geometry, size)
    frame = _frame(a, geometry.before, span, np.nan)  # equal to nothing: padding has no share
    won = np.empty((len(offsets), *top.shape), bool)
    for w, offset in zip(won, offsets):
        np.equal(frame[offset], top, out=w)
    count = np.sum(won, axis=0, dtype=np.intp)
    if not np.all(count):  # a NaN equals nothing either, and is the maximum where there is one
        lost = np.isnan(_frame(a, geometry.before, span))
        for w, offset in zip(won, offsets):
            w |= lost[offset]
        count = np.sum(won, axis=0, dtype=np.intp)
    dtype = np.promote_types(a.dtype, np.float32)  # float16 runs through the rule as this
    return won.astype(dtype) if np.all(count == 1) else won / count.astype(dtype)


# Upsampling: on each axis a weighted sum of a few reads


@functools.lru_cache(maxsize=256)
def _reads(n, m, mode):
    """For the m results on an axis of length n: pairs of positions, in ascending order, and weights."""
    i = np.arange(m)
    if mode == "nearest":
        return ((i * n // m, None),)
    if mode == "corners":
        at = i * ((n - 1) / max(m - 1, 1))
    else:
        at = np.maximum((i + 0.5) * (n / m) - 0.5, 0)
    low = np.minimum(at.astype(np.intp), n - 1)
    return (low, 1 - (at - low)), (np.minimum(low + 1, n - 1), at - low)


def _column(weight, axis, ndim, dtype):
    return weight.astype(dtype).reshape((-1,) + (1,) * (ndim - axis - 1))


def _upsample(a, size, mode):
    a = _batch_last(a)
    for axis, m in enumerate(size, 1):
        reads = [(np.take(a, i, axis), w) for i, w in _reads(a.shape[axis], m, mode)]
        parts = [part if w is None else part * _column(w, axis, a.ndim, a.dtype) for part, w in reads]
        a = functools.reduce(np.add, parts)
    return _batch_first(a)


def _upsample_transpose(g, size, mode):
    g = _batch_last(g)
    for axis, n in enumerate(size, 1):
        total = np.zeros((*g.shape[:axis], n, *g.shape[axis + 1 :]), g.dtype)
        for i, w in _reads(n, g.shape[axis], mode):
            _add_slices(total, g if w is None else g * _column(w, axis, g.ndim, g.dtype), axis, i)
        g = total
    return _batch_first(g)


def _add_slices(total, src, axis, index):
    """Add slice i of `src` to slice ``index[i]`` of `total`, in place; repeats are summed first, since += adds once."""
    if not index.size:
        return
    if np.any(index[1:] < index[:-1]):
        order = np.argsort(index, kind="stable")
        index, src = index[order], np.take(src, order, axis)
    starts = np.flatnonzero(np.concatenate([[True], index[1:] != index[:-1]]))
    if len(starts) < len(index):
        index, src = index[starts], np.add.reduceat(src, starts, axis, dtype=accumulator(src.dtype, len(index)))
    total[(slice(None),) * axis + (index,)] += src


UPSAMPLES = ("upsample_nearest1d", "upsample_nearest2d", "upsample_bilinear2d")
upsample_nearest1d, upsample_nearest2d, upsample_bilinear2d = (named(name, _upsample) for name in UPSAMPLES)
upsample_nearest1d_transpose, upsample_nearest2d_transpose, upsample_bilinear2d_transpose = (
    named(f"{name}_transpose", _upsample_transpose) for name in UPSAMPLES)  # fmt: skip


# Reading and writing by index arrays


def _flat_positions(shape, axis, index):
    """Where the entries that `index` names on `axis` are in a flattened array of this shape."""
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    grid = np.indices(index.shape, sparse=True)
    return sum((index if i == axis else grid[i]) * step for i, step in enumerate(steps)).reshape(-1)


@dispatched
def gather(a, axis, index):
    """The entries ``a[..., index[...], ...]``."""
    key = list(np.indices(index.shape, sparse=True))
    key[axis] = index
    return a[tuple(key)]


def add_gathered(total, g, axis, index):
    """Add `g` to the entries that `gather` reads, in place."""
    flat = total.reshape(-1)
    add_at(flat, g.reshape(-1), _flat_positions(total.shape, axis, index))
    if not np.shares_memory(flat, total):
        total[...] = flat.reshape(total.shape)


@dispatched
@widened
def scatter_add(a, src, axis, index):
    """`a` with `src` added to the entries that `index` names."""
    result = a.copy(order="C")
    add_gathered(result, src, axis, index)
    return result


def _owners(shape, axis, index):
    """For each entry of the flattened array, the number of the write that comes last in row-major order; else -1."""
    owner = np.full(math.prod(shape), -1)
    positions = _flat_positions(shape, axis, index)
    np.maximum.at(owner, positions, np.arange(len(positions)))
    return owner, positions


@dispatched
def scatter(a, src, axis, index):
    """`a` with the entries that `index` names replaced by those of `src`; of several writes the last one stays."""
    owner, _ = _owners(a.shape, axis, index)
    result, written = a.flatten(), owner >= 0
    result[written] = src.reshape(-1)[owner[written]]
    return result.reshape(a.shape)


def writes(y, a, src, axis, index):
    """Which entries of `a` were replaced, and which entries of `src` stayed."""
    owner, positions = _owners(a.shape, axis, index)
    stayed = owner[positions] == np.arange(len(positions))
    return (owner >= 0).reshape(a.shape), stayed.reshape(index.shape)


@dispatched
@widened
def index_add(a, src, axis, index):
    """`a` with slice i of `src` added to its slice ``index[i]``."""
    result = a.copy(order="C")
    _add_slices(result, src, axis, index)
    return result


@dispatched
def slice_scatter(a, src, key):
    """`a` with ``a[key]`` replaced by `src`."""
    result = a.copy(order="C")
    result[key] = src
    return result


# The rules: activations

ERF_SLOPE = 2 / math.sqrt(math.pi)
NORMAL_SLOPE = 1 / math.sqrt(2 * math.pi)

rule(relu,        lambda g, y, a: g * ~(a <= 0), elementwise=True)  # not a > 0: where a is NaN, g goes on as NaN did
rule(elu,         lambda g, y, a, alpha=1.0: g * elu_slope(a, alpha), elementwise=True)
rule(sigmoid,     lambda g, y, a: g * (y * sigmoid(-a)), elementwise=True)
rule(silu,        lambda g, y, a: g * silu_slope(a, sigmoid(a)), elementwise=True)
rule(softplus,    lambda g, y, a: g * sigmoid(a), elementwise=True)
rule(erf,         lambda g, y, a: g * (ERF_SLOPE * gaussian(a, 1)), elementwise=True)
rule(ndtr,        lambda g, y, a: g * (NORMAL_SLOPE * gaussian(a, 0.5)), elementwise=True)
rule(bessel,      lambda g, y, a, n: g * ((bessel(a, n - 1) + bessel(a, n + 1)) / 2), elementwise=True)
rule(gelu,        lambda g, y, a, approximate="none": g * gelu_slope(a, approximate), elementwise=True)

# Exponentials over an axis
rule(softmax,     lambda g, y, a, axis=-1: y * (g - add_up(g * y, axis, keepdims=True)), wide=True)
rule(log_softmax, lambda g, y, a, axis=-1: g - np.exp(y) * add_up(g, axis, keepdims=True), wide=True)
rule(logsumexp,   lambda g, y, a, axis=None, keepdims=False:
     expand(g, a, axis, keepdims) * shares_of_sum(y, a, axis, keepdims))


# Convolutions: the partials of one sum of products of x, w and g, so each rule is made of the two other maps
def _rules_of_convolution(conv, conv_transpose, conv_weight):
    rule(conv,           lambda g, y, x, w, geometry, size: conv_transpose(g, w, geometry, x.shape[2:]),
                         lambda g, y, x, w, geometry, size: conv_weight(x, g, geometry, w.shape[2:]))
    rule(conv_transpose, lambda g, y, x, w, geometry, size: conv(g, w, geometry, x.shape[2:]),
                         lambda g, y, x, w, geometry, size: conv_weight(g, x, geometry, w.shape[2:]))
    rule(conv_weight,    lambda g, y, x, u, geometry, size: conv_transpose(u, g, geometry, x.shape[2:]),
                         lambda g, y, x, u, geometry, size: conv(x, g, geometry, u.shape[2:]))


_rules_of_convolution(conv1d, conv_transpose1d, conv_weight1d)
_rules_of_convolution(conv2d, conv_transpose2d, conv_weight2d)

# Pools
rule(pool,       lambda g, y, a, share, kernel, geometry, size: unpool(g, share, kernel, geometry, a.shape[2:]))
rule(unpool,     lambda g, y, a, share, kernel, geometry, size: pool(g, share, kernel, geometry, a.shape[2:]))
rule(avg_pool2d, lambda g, y, a, kernel, geometry, size: unpool(g, mean_share(kernel), kernel, geometry, a.shape[2:]))
rule(max_pool2d, lambda g, y, a, kernel, geometry, size, saved: unpool(g, saved, kernel, geometry, a.shape[2:]),
     save=window_winners, wide=True)


# Upsampling
def _rules_of_upsampling(upsample, upsample_transpose):
    rule(upsample,           lambda g, y, a, size, mode: upsample_transpose(g, a.shape[2:], mode))
    rule(upsample_transpose, lambda g, y, a, size, mode: upsample(g, a.shape[2:], mode))


_rules_of_upsampling(upsample_nearest1d, upsample_nearest1d_transpose)
_rules_of_upsampling(upsample_nearest2d, upsample_nearest2d_transpose)
_rules_of_upsampling(upsample_bilinear2d, upsample_bilinear2d_transpose)

# Reading and writing by index arrays
rule(gather,        lambda g, y, a, axis, index: scatter_add(np.zeros(a.shape, g.dtype), g, axis, index),
     into=add_gathered)
rule(scatter_add,   lambda g, y, a, src, axis, index: g,
                    lambda g, y, a, src, axis, index: gather(g, axis, index))
rule(scatter,       lambda g, y, a, src, axis, index, saved: np.where(saved[0], 0, g),
                    lambda g, y, a, src, axis, index, saved: np.where(saved[1], gather(g, axis, index), 0), save=writes)
rule(index_add,     lambda g, y, a, src, axis, index: g,
                    lambda g, y, a, src, axis, index: np.take(g, index, axis))
rule(slice_scatter, lambda g, y, a, src, key: slice_scatter(g, np.zeros(src.shape, g.dtype), key),
                    lambda g, y, a, src, key: g[key])
