"""Statistics, numerical calculus and polynomials: NumPy functions written with others that have rules."""

import math

import numpy as np

from .helpers import alike, as_array, astype_if, axes_of, divided, merged, no_out, put, restored, widened
from .reductions import chosen
from .rule import NOT_GIVEN, composed, masked

# Averages and their relatives


@composed(np.average)
def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    a = as_array(a)
    if weights is None:
        result = np.mean(a, axis, keepdims=keepdims)
        total = np.full(result.shape, a.size / max(result.size, 1), result.dtype)
        return (result, total) if returned else result
    a, weights = alike(a, weights, floating=True)
    if weights.shape != a.shape:
        axes = axes_of(axis, len(a.shape))
        if axis is None or weights.shape != tuple(a.shape[i] for i in axes):
            raise TypeError(f"average: weights of shape {weights.shape} for entries of shape {a.shape}, axis={axis}")
        weights = np.transpose(weights, np.argsort(axes))
        weights = np.reshape(weights, tuple(n if i in axes else 1 for i, n in enumerate(a.shape)))
        weights = np.broadcast_to(weights, a.shape)
    total = np.sum(weights, axis, keepdims=keepdims)
    result = weighted_mean(a, weights, axis, keepdims)
    return (result, total) if returned else result


@widened
def weighted_mean(a, weights, axis, keepdims):
    return np.sum(a * weights, axis, keepdims=keepdims) / np.sum(weights, axis, keepdims=keepdims)


@composed(np.ptp)
def ptp(a, axis=None, out=None, keepdims=False):
    no_out(out)
    return np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)


@composed(np.median)
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    no_out(out)
    flat = merged(as_array(a), axis)
    n = flat.shape[-1]
    ordered = np.sort(flat, axis=-1)
    result = np.mean(ordered[..., (n - 1) // 2 : n // 2 + 1], axis=-1)
    return restored(_nan_if_any(result, flat), a, axis, keepdims)


def _nan_if_any(result, flat):
    """NaN where there is one among the entries; sorting has put it last."""
    nan = np.any(np.isnan(flat), axis=-1)
    return result + np.where(nan, np.nan, 0).astype(result.dtype) if np.any(nan) else result


POSITIONS = {  # method -> from the exact position in the sorted entries, the entry below and the weight of the next
    "linear": lambda p: (np.floor(p), p - np.floor(p)),
    "midpoint": lambda p: (np.floor(p), np.where(p == np.floor(p), 0, 0.5).astype(p.dtype)),
    "lower": lambda p: (np.floor(p), None),
    "higher": lambda p: (np.ceil(p), None),
    "nearest": lambda p: (np.rint(p), None),
}
PLOTTING = {  # method -> alpha and beta of R. J. Hyndman and Y. Fan (1996), where the exact position is another
    "interpolated_inverted_cdf": (0, 1), "hazen": (0.5, 0.5), "weibull": (0, 0), "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}  # fmt: skip


def position_in_sorted(q, n, method):
    """The entry below the quantile `q` of `n` sorted entries, and the weight of the one above it."""
    if method in PLOTTING:
        alpha, beta = PLOTTING[method]
        position = np.clip(n * q + (alpha + q * (1 - alpha - beta)) - 1, 0, n - 1)
        below, weight = POSITIONS["linear"](position)
    elif method in POSITIONS:
        below, weight = POSITIONS[method](q * (n - 1))
    else:
        raise TypeError(f"quantiles with method={method!r} have no rule; it knows {', '.join((*POSITIONS, *PLOTTING))}")
    return below.astype(int), weight


@composed(np.quantile)
def quantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
    no_out(out)
    a = as_array(a)
    adapts, q = isinstance(q, (int, float)), np.asarray(q)
    flat = merged(a, axis)
    n = flat.shape[-1]
    below, weight = position_in_sorted(q, n, method)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError("quantiles must be between 0 and 1, percentiles between 0 and 100")
    ordered = np.moveaxis(np.sort(flat, axis=-1), -1, 0)
    result = ordered[below]
    if weight is not None:
        weight = np.reshape(weight.astype(a.dtype) if adapts else weight, q.shape + (1,) * (len(ordered.shape) - 1))
        result = _between(result, ordered[np.minimum(below + 1, n - 1)], weight)
    result = _nan_if_any(result, flat)
    return _kept(result, q, a, axis) if keepdims else result


def _between(low, high, weight):
    step = high - low
    return np.where(weight < 0.5, low + step * weight, high - step * (1 - weight))  # as NumPy rounds


def _kept(result, q, a, axis):
    """Quantiles with the reduced axes kept."""
    kept = tuple(1 if i in axes_of(axis, len(a.shape)) else n for i, n in enumerate(a.shape))
    return np.reshape(result, q.shape + kept)


@composed(np.percentile)
def percentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
    return np.quantile(as_array(a), _fraction(q), axis, out, overwrite_input, method, keepdims)


def _fraction(q):
    return q / 100 if isinstance(q, (int, float)) else np.true_divide(q, 100)


@composed(np.cov)
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None):
    """`aweights` are differentiable too; `fweights` are how often each observation was made."""
    x = np.atleast_2d(_double(m))
    x = x.T if not rowvar and x.shape[0] != 1 else x
    if y is not None:
        y = np.atleast_2d(_double(y))
        x = np.concatenate([x, y.T if not rowvar and y.shape[0] != 1 else y], axis=0)
    ddof = int(not bias) if ddof is None else ddof
    weights = _weights(fweights, aweights, x.shape[1])
    if weights is None:
        x = x - np.mean(x, axis=1, keepdims=True)
        return np.squeeze(np.matmul(x, x.T) * (1 / (x.shape[1] - ddof)))
    total = np.sum(weights)
    x = x - np.expand_dims(np.matmul(x, weights) / total, 1)
    freedom = total if aweights is None or not ddof else np.sum(weights * aweights) / total
    freedom = total - ddof * (1 if aweights is None else freedom)
    return np.squeeze(np.matmul(x * weights, x.T) / freedom)


def _weights(fweights, aweights, n):
    """The weights of `n` observations, or None."""
    given = [(name, w if hasattr(w, "dtype") else np.asarray(w))
             for name, w in (("fweights", fweights), ("aweights", aweights)) if w is not None]  # fmt: skip
    for name, w in given:
        if w.shape != (n,):
            raise ValueError(f"cov: {name} of shape {w.shape} for {n} observations; give one for each")
        if np.any(w < 0):
            raise ValueError(f"cov: {name} may not be negative")
        if name == "fweights" and np.any(w != np.rint(w)):
            raise TypeError("cov: fweights count observations, so they must be integers; aweights need not be")
    return math.prod(_double(w) for _, w in given) if given else None


@composed(np.corrcoef)
def corrcoef(x, y=None, rowvar=True):
    c = np.cov(x, y, rowvar)
    if not c.shape:
        return c / c
    deviation = np.sqrt(np.diagonal(c))
    return c / np.expand_dims(deviation, 1) / np.expand_dims(deviation, 0)


# Of chosen entries: the numbers among others, or those that where= names


def _chosen(a, where, numbers):
    """`a`, and which of its entries count."""
    a = as_array(a)
    mask = np.broadcast_to(where, a.shape)
    return a, mask & ~np.isnan(a) if numbers else mask


@widened
def mean_of_chosen(a, mask, axis, keepdims):
    total = np.sum(chosen(a, mask, 0), axis=axis, keepdims=keepdims)
    return divided(total, np.sum(mask, axis=axis, keepdims=keepdims))


@widened
def var_of_chosen(a, mask, axis, ddof, keepdims):
    away, count = _deviations(a, mask, axis)
    return np.sum(away * away, axis=axis, keepdims=keepdims) / ((count if keepdims else np.squeeze(count, axis)) - ddof)


@widened
def std_of_chosen(a, mask, axis, ddof, keepdims):
    """The norm of the deviations, whose slope is right at 0 too; one number has none, which is no kink."""
    away, count = _deviations(a, mask, axis)
    axis = axis if a.shape else None
    length = np.linalg.norm(merged(np.where(count == 1, 1, away) if np.any(count == 1) else away, axis), axis=-1)
    count = np.reshape(count, length.shape)
    length = np.where(count == 1, 0, length) if np.any(count == 1) else length
    result = length / np.sqrt((count - ddof).astype(away.dtype))
    return restored(result, away, axis, keepdims)


def _deviations(a, mask, axis):
    """How far the chosen entries are from their mean, 0 for others; and how many there are, the reduced axes kept."""
    count = np.sum(mask, axis=axis, keepdims=True).astype(a.dtype)
    mean = np.sum(chosen(a, mask, 0), axis=axis, keepdims=True) / count
    return np.where(mask, a - mean, 0), count


def _in_dtype(a, dtype):
    return as_array(a) if dtype is None else astype_if(as_array(a), np.dtype(dtype))


@masked(np.mean)
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    no_out(out)
    return mean_of_chosen(*_chosen(_in_dtype(a, dtype), where, False), axis, keepdims)


@masked(np.var)
def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, correction=None):
    no_out(out)
    ddof = ddof if correction is None else correction
    return var_of_chosen(*_chosen(_in_dtype(a, dtype), where, False), axis, ddof, keepdims)


@masked(np.std)
def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, correction=None):
    no_out(out)
    ddof = ddof if correction is None else correction
    return std_of_chosen(*_chosen(_in_dtype(a, dtype), where, False), axis, ddof, keepdims)


@composed(np.nanmean)
def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    no_out(out)
    return mean_of_chosen(*_chosen(_in_dtype(a, dtype), where, True), axis, keepdims)


@composed(np.nanvar)
def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, correction=None):
    no_out(out)
    ddof = ddof if correction is None else correction
    return var_of_chosen(*_chosen(_in_dtype(a, dtype), where, True), axis, ddof, keepdims)


@composed(np.nanstd)
def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, correction=None):
    no_out(out)
    ddof = ddof if correction is None else correction
    return std_of_chosen(*_chosen(_in_dtype(a, dtype), where, True), axis, ddof, keepdims)


def _without_nans(a, value, dtype=None):
    a = _in_dtype(a, dtype)
    return chosen(a, ~np.isnan(a), value)


@composed(np.nansum)
def nansum(a, axis=None, dtype=None, out=None, keepdims=False, initial=NOT_GIVEN, where=True):
    no_out(out)
    return np.sum(_without_nans(a, 0, dtype), axis=axis, keepdims=keepdims, initial=initial, where=where)


@composed(np.nanprod)
def nanprod(a, axis=None, dtype=None, out=None, keepdims=False, initial=NOT_GIVEN, where=True):
    no_out(out)
    return np.prod(_without_nans(a, 1, dtype), axis=axis, keepdims=keepdims, initial=initial, where=where)


@composed(np.nancumsum)
def nancumsum(a, axis=None, dtype=None, out=None):
    no_out(out)
    return np.cumsum(_without_nans(a, 0, dtype), axis=axis)


@composed(np.nancumprod)
def nancumprod(a, axis=None, dtype=None, out=None):
    no_out(out)
    return np.cumprod(_without_nans(a, 1, dtype), axis=axis)


@composed(np.nanmedian)
def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    return np.nanquantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


@composed(np.nanquantile)
def nanquantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
    """The number of entries is that of each slice, and sorting has put the NaNs last."""
    no_out(out)
    a = as_array(a)
    ordered = np.sort(merged(a, axis), axis=-1)
    adapts, q = isinstance(q, (int, float)), np.asarray(q)
    count = np.sum(~np.isnan(ordered), axis=-1)
    below, weight = position_in_sorted(np.reshape(q, q.shape + (1,) * count.ndim), np.maximum(count, 1), method)
    weight = weight.astype(a.dtype) if weight is not None and adapts else weight
    entry = lambda k: np.moveaxis(np.take_along_axis(ordered, np.moveaxis(_merged_left(k, q.ndim), 0, -1), -1), -1, 0)
    result = entry(below)
    if weight is not None:
        result = _between(result, entry(np.minimum(below + 1, np.maximum(count - 1, 0))), _merged_left(weight, q.ndim))
    result = np.reshape(result, q.shape + result.shape[1:])
    return _kept(result, q, a, axis) if keepdims else result


def _merged_left(k, n):
    """`k` with its first `n` axes merged into one."""
    return np.reshape(k, (-1, *k.shape[n:]))


@composed(np.nanpercentile)
def nanpercentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
    return np.nanquantile(as_array(a), _fraction(q), axis, out, overwrite_input, method, keepdims)


# Sums and differences along an axis


@composed(getattr(np, "cumulative_sum", None))
def cumulative_sum(x, /, *, axis=None, include_initial=False):
    return _cumulative(np.cumsum, x, axis, include_initial, 0)


@composed(getattr(np, "cumulative_prod", None))
def cumulative_prod(x, /, *, axis=None, include_initial=False):
    return _cumulative(np.cumprod, x, axis, include_initial, 1)


def _cumulative(function, x, axis, include_initial, initial):
    x = np.atleast_1d(as_array(x))
    if axis is None:
        if len(x.shape) != 1:
            raise ValueError(f"axis= is needed for an array of {len(x.shape)} axes")
        axis = 0
    (axis,) = axes_of(axis, len(x.shape))
    result = function(x, axis=axis)
    if include_initial:
        shape = [1 if i == axis else n for i, n in enumerate(x.shape)]
        result = np.concatenate([np.full(shape, initial, result.dtype), result], axis=axis)
    return result


@composed(np.diff)
def diff(a, n=1, axis=-1, prepend=NOT_GIVEN, append=NOT_GIVEN):
    a = as_array(a)
    (axis,) = axes_of(axis, len(a.shape))
    ends = [p for p in (prepend, a, append) if p is not NOT_GIVEN]
    if len(ends) > 1:
        shape = a.shape[:axis] + (1,) + a.shape[axis + 1 :]
        a = np.concatenate([np.broadcast_to(p, shape) if np.ndim(p) == 0 else p for p in ends], axis)
    before = (slice(None),) * axis
    for _ in range(n):
        a = a[(*before, slice(1, None))] - a[(*before, slice(None, -1))]
    return a


@composed(np.ediff1d)
def ediff1d(ary, to_end=None, to_begin=None):
    flat = np.ravel(as_array(ary))
    ends = [np.ravel(as_array(e)) if e is not None else None for e in (to_begin, to_end)]
    parts = [p for p in (ends[0], flat[1:] - flat[:-1], ends[1]) if p is not None]
    return parts[0] if len(parts) == 1 else astype_if(np.concatenate(parts), flat.dtype)


def _double(a):
    """In float64, where NumPy computes so whatever it is given."""
    return astype_if(as_array(a), np.dtype(float))


@composed(np.trapezoid)
def trapezoid(y, x=None, dx=1.0, axis=-1):
    y = as_array(y)
    (axis,) = axes_of(axis, len(y.shape))
    if x is not None:
        x = as_array(x)
        dx = np.diff(x) if len(x.shape) == 1 else np.diff(x, axis=axis)
        if len(x.shape) == 1:
            dx = np.reshape(dx, [-1 if i == axis else 1 for i in range(len(y.shape))])
    before = (slice(None),) * axis
    return np.sum(dx * (y[(*before, slice(1, None))] + y[(*before, slice(None, -1))]) / 2.0, axis)


@composed(np.gradient)
def gradient(f, *varargs, axis=None, edge_order=1):
    """Central differences inside, one-sided ones of order `edge_order` at the ends; spacings may be Tensors."""
    f = as_array(f)
    if edge_order not in (1, 2):
        raise ValueError(f"edge_order={edge_order}: expected 1 or 2")
    axes = axes_of(axis, len(f.shape))
    spacings = list(varargs) * len(axes) if len(varargs) == 1 and np.ndim(varargs[0]) == 0 else list(varargs)
    spacings = spacings or [1.0] * len(axes)
    if len(spacings) != len(axes):
        raise TypeError(f"gradient: {len(spacings)} spacings for {len(axes)} axes")
    slopes = tuple(_gradient(f, h, i, edge_order) for h, i in zip(spacings, axes))
    return slopes[0] if len(axes) == 1 else slopes


def _gradient(f, h, axis, edge_order):
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError(f"gradient: axis {axis} has {n} entries, and edge_order={edge_order} needs {edge_order + 1}")
    at = lambda a, *k: a[(slice(None),) * axis + (slice(*k),)]
    first, second, third = at(f, 0, 1), at(f, 1, 2), at(f, 2, 3)
    last, before, third_last = at(f, n - 1, n), at(f, n - 2, n - 1), at(f, n - 3, n - 2) if n > 2 else None
    if np.ndim(h) == 0:
        inside = (at(f, 2, None) - at(f, None, -2)) / (2.0 * h)
        if edge_order == 1:
            ends = (second - first) / h, (last - before) / h
        else:
            ends = ((-1.5 / h) * first + (2.0 / h) * second + (-0.5 / h) * third,
                    (0.5 / h) * third_last + (-2.0 / h) * before + (1.5 / h) * last)  # fmt: skip
    else:
        if np.shape(h) != (n,):
            raise ValueError(f"gradient: spacings of shape {np.shape(h)} for axis {axis} of length {n}")
        steps = np.reshape(np.diff(h), [-1 if i == axis else 1 for i in range(len(f.shape))])
        left, right = at(steps, None, -1), at(steps, 1, None)
        inside = (-right / (left * (left + right)) * at(f, None, -2) + (right - left) / (left * right) * at(f, 1, -1)
                  + left / (right * (left + right)) * at(f, 2, None))  # fmt: skip
        p, q, r, s = at(steps, 0, 1), at(steps, 1, 2), at(steps, -2, -1), at(steps, -1, None)
        if edge_order == 1:
            ends = (second - first) / p, (last - before) / s
        else:
            ends = (-(2.0 * p + q) / (p * (p + q)) * first + (p + q) / (p * q) * second - p / (q * (p + q)) * third,
                    s / (r * (r + s)) * third_last - (s + r) / (r * s) * before
                    + (2.0 * s + r) / (s * (r + s)) * last)  # fmt: skip
    return np.concatenate([ends[0], inside, ends[1]], axis)


@composed(np.interp)
def interp(x, xp, fp, left=None, right=None, period=None):
    """Differentiable in all of `x`, `xp` and `fp`; at a knot the slope is that of the segment on the right."""
    x, xp, fp = _double(x), _double(xp), _double(fp)
    if period is not None:
        x, xp, left, right = np.remainder(x, abs(period)), np.remainder(xp, abs(period)), None, None
        order = np.asarray(np.argsort(xp))
        xp, fp = xp[order], fp[order]
        xp = np.concatenate([xp[-1:] - abs(period), xp, xp[:1] + abs(period)])
        fp = np.concatenate([fp[-1:], fp, fp[:1]])
    n = xp.shape[0]
    if n == 1:
        inside = np.broadcast_to(fp[0], x.shape)
    else:
        i = np.clip(np.asarray(np.searchsorted(xp, x, "right")) - 1, 0, n - 2)
        start, base = xp[i], fp[i]
        slope = (fp[i + 1] - base) / (xp[i + 1] - start)
        inside = slope * (x - start) + base
        inside = np.where(x == xp[n - 1], fp[n - 1], inside)
    inside = np.where(x < xp[0], fp[0] if left is None else left, inside)
    return np.where(x > xp[n - 1], fp[n - 1] if right is None else right, inside)


@composed(np.convolve)
def convolve(a, v, mode="full"):
    a, v = as_array(a), as_array(v)
    if a.dtype != v.dtype:
        return np.convolve(*alike(a, v), mode)
    if mode == "full":
        return NotImplemented if len(a.shape) == 1 == len(v.shape) else np.convolve(np.ravel(a), np.ravel(v))
    if mode not in ("same", "valid"):
        raise ValueError(f"convolve: mode={mode!r}: expected 'full', 'same' or 'valid'")
    short, long = sorted((a.shape[0], v.shape[0]))
    start, length = ((short - 1) // 2, long) if mode == "same" else (short - 1, long - short + 1)
    return np.convolve(a, v)[start : start + length]


@composed(np.correlate)
def correlate(a, v, mode="valid"):
    a, v = as_array(a), as_array(v)
    if a.shape[0] < v.shape[0]:
        return np.flip(np.correlate(v, a, mode))
    return np.convolve(a, np.flip(as_array(v)), mode)


# Sequences and polynomials


@composed(np.linspace)
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    y, step = steps_between(*alike(start, stop, floating=True), num, endpoint)
    y = np.moveaxis(y if dtype is None else astype_if(y, np.dtype(dtype)), 0, axis)
    return (y, step) if retstep else y


@widened
def steps_between(start, stop, num, endpoint):
    parts = num - 1 if endpoint else num
    delta = stop - start
    step = delta / parts if parts > 0 else np.full(delta.shape, np.nan, delta.dtype)
    i = np.reshape(np.arange(num), (num,) + (1,) * len(delta.shape)).astype(delta.dtype)
    y = i * step + start if parts > 0 else i * delta + start
    if endpoint and num > 1:
        y = np.concatenate([y[:-1], np.expand_dims(np.broadcast_to(stop, delta.shape), 0)], axis=0)
    return y, step


@composed(np.logspace)
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    base = base if np.ndim(base) == 0 else np.expand_dims(base, axis)
    y = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else astype_if(y, np.dtype(dtype))


@composed(np.geomspace)
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """For ends of one sign."""
    start, stop = _double(start), _double(stop)
    y = np.sign(start) * 10.0 ** np.linspace(np.log10(abs(start)), np.log10(abs(stop)), num, endpoint, axis=0)
    if num > 1:
        ends = [np.expand_dims(np.broadcast_to(e, y.shape[1:]), 0) for e in (start, stop)]
        y = np.concatenate([ends[0], y[1:-1], ends[1]] if endpoint else [ends[0], y[1:]], axis=0)
    return np.moveaxis(y if dtype is None else astype_if(y, np.dtype(dtype)), 0, axis)


@composed(np.polyval)
def polyval(p, x):
    """By Horner's scheme, highest power first."""
    p, x = as_array(p), as_array(x)
    y = np.zeros(x.shape, x.dtype)
    for i in range(p.shape[0]):
        y = y * x + p[i]
    return y


@composed(np.polyadd)
def polyadd(a1, a2):
    a1, a2 = np.atleast_1d(as_array(a1)), np.atleast_1d(as_array(a2))
    n = max(a1.shape[0], a2.shape[0])
    return np.add(*(np.pad(a, (n - a.shape[0], 0)) if a.shape[0] < n else a for a in (a1, a2)))


@composed(np.polysub)
def polysub(a1, a2):
    return np.polyadd(a1, np.negative(as_array(a2)))


@composed(np.polymul)
def polymul(a1, a2):
    return np.convolve(np.atleast_1d(as_array(a1)), np.atleast_1d(as_array(a2)))


@composed(np.polyder)
def polyder(p, m=1):
    for _ in range(m):
        p = p[:-1] * np.arange(p.shape[0] - 1, 0, -1)
    return p


@composed(np.polyint)
def polyint(p, m=1, k=None):
    constants = np.broadcast_to(as_array(0 if k is None else k), (m,))
    for i in range(m):
        p = np.concatenate([p / np.arange(p.shape[0], 0, -1), np.reshape(constants[i], (1,))])
    return p


@composed(np.poly)
def poly(seq_of_zeros):
    zeros = np.atleast_1d(as_array(seq_of_zeros))
    if len(zeros.shape) != 1:
        raise TypeError("poly of a matrix has no rule: its eigenvalues may be complex. np.linalg.eigvalsh takes "
                        "symmetric matrices, and poly their eigenvalues")  # fmt: skip
    result = np.ones(1, zeros.dtype)
    for i in range(zeros.shape[0]):
        result = np.convolve(result, np.concatenate([np.ones(1, zeros.dtype), -zeros[i : i + 1]]))
    return result


@composed(np.polydiv)
def polydiv(u, v):
    """By long division; leading zeros of the remainder are left out."""
    u, v = alike(np.atleast_1d(as_array(u)), np.atleast_1d(as_array(v)), floating=True)
    n = v.shape[0]
    quotient, rest = [], u
    for k in range(u.shape[0] - n + 1):
        quotient.append(rest[k : k + 1] / v[:1])
        rest = rest - put(quotient[-1] * v, u.shape, slice(k, k + n))
    start = 0
    while start < rest.shape[0] - 1 and np.allclose(rest[start], 0, rtol=1e-14):
        start += 1
    return np.concatenate(quotient) if quotient else np.zeros(1, u.dtype), rest[start:]


@composed(np.polyfit)
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """The coefficients alone, by least squares."""
    if full or cov:
        raise TypeError("polyfit of Tensors gives the coefficients alone: leave out full= and cov=")
    x, y = _double(x), _double(y)
    rows = np.vander(x, int(deg) + 1)
    if w is not None:
        w = _double(w)
        rows, y = rows * np.expand_dims(w, 1), y * (np.expand_dims(w, 1) if len(y.shape) == 2 else w)
    scale = np.sqrt(np.sum(rows * rows, axis=0))
    rcond = x.shape[0] * np.finfo(float).eps if rcond is None else rcond
    c = np.linalg.lstsq(rows / scale, y, rcond)[0]
    return c / (np.expand_dims(scale, 1) if len(c.shape) == 2 else scale)


@composed(np.vander)
def vander(x, N=None, increasing=False):
    x = as_array(x)
    x = astype_if(x, np.promote_types(x.dtype, int))  # as NumPy does
    n = x.shape[0] if N is None else N
    powers = np.broadcast_to(np.expand_dims(x, 1), (x.shape[0], max(n - 1, 0)))
    columns = np.cumprod(np.concatenate([np.ones((x.shape[0], min(n, 1)), x.dtype), powers], axis=1), axis=1)
    return columns if increasing else np.flip(columns, 1)


@composed(np.bincount)
def bincount(x, /, weights=None, minlength=0):
    """Differentiable in the weights."""
    x = np.asarray(x)
    if weights is None:
        return np.bincount(x, minlength=minlength)
    weights = _double(weights)
    return put(weights, (max(int(x.max(initial=-1)) + 1, minlength),), x)
