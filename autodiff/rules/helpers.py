"""What several rules need: written with NumPy functions and operators, so it runs on arrays and on Tensors."""

import functools
import math

import numpy as np


def dispatched(function):
    """Make `function` overridable as NumPy's own functions are (NEP 18): a Tensor among its arguments takes over."""

    @functools.wraps(function)
    def public(*args, **kwargs):
        for arg in (*args, *kwargs.values()):
            for item in arg if isinstance(arg, (list, tuple)) else (arg,):
                if hasattr(item, "__array_function__") and not isinstance(item, (np.ndarray, np.generic)):
                    return item.__array_function__(public, (type(item),), args, kwargs)
        return function(*args, **kwargs)

    return public


# Counts and sums in float16 and float32. A NumPy function gives NumPy's own value, whatever that has lost on the way.
# For gradients, functions that NumPy has no name for, and those written with others that count: float16 is computed in
# float32 and cast back at the end (`widened`); counts stay integers until they meet a dtype that holds them; and a sum
# of many is added up in a dtype that has bits to spare for it (`add_up`).


def widened(function):
    """`function`, run on float32 where all its floating operands are float16, and its result cast back.

    Beyond 65504 a count is infinite in float16, and beyond 2048 adding 1 to a sum changes nothing.
    """

    @functools.wraps(function)
    def wide(*args, **kwargs):
        narrow = [_floating(a) and a.dtype.itemsize == 2 for a in args]
        if not any(narrow) or any(not n and _floating(a) for n, a in zip(narrow, args)):
            return function(*args, **kwargs)
        result = function(*(astype(a, np.dtype(np.float32)) if n else a for n, a in zip(narrow, args)), **kwargs)
        back = lambda r: astype(r, np.dtype(np.float16))
        return tuple(map(back, result)) if isinstance(result, tuple) else back(result)

    return wide


def _floating(x):
    return hasattr(x, "dtype") and x.dtype.kind == "f"


def accumulator(dtype, n):
    """The dtype to add up `n` numbers in: rounding them one by one may cost 12 bits, and stops a float32 at 2**24."""
    if dtype.itemsize > 4 or dtype.itemsize == 4 and n <= 1 << 12:
        return dtype
    return np.dtype(np.float32 if dtype.itemsize == 2 and n <= 1 << 12 else np.float64)


def add_up(a, axis=None, keepdims=False):
    """`np.sum`, added up in a dtype that has bits to spare for so many."""
    if a.dtype.itemsize > 4:
        return np.sum(a, axis=axis, keepdims=keepdims)
    wide = accumulator(a.dtype, math.prod([a.shape[i] for i in axes_of(axis, len(a.shape))]))
    return astype_if(np.sum(a, axis=axis, dtype=wide, keepdims=keepdims), a.dtype)


def astype_if(a, dtype):
    """`a` in this dtype; itself if it is in it."""
    return a if a.dtype == dtype else astype(a, dtype)


def as_array(x):
    """An array or a Tensor from what NumPy functions take; a sequence with Tensors in it is stacked."""
    if hasattr(x, "__array_function__"):
        return x
    if isinstance(x, (list, tuple)):
        items = [as_array(item) for item in x]
        return np.stack(items) if any(not isinstance(i, (np.ndarray, np.generic)) for i in items) else np.asarray(x)
    return np.asarray(x)


def axes_of(axis, ndim):
    """The axes as a tuple of non-negative integers; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    return np.lib.array_utils.normalize_axis_tuple(axis, ndim)


def reduced_axes(axis, ndim):
    """The axes of a reduction: of an array without axes, NumPy takes 0 and -1 as well."""
    return () if ndim == 0 and axis in (0, -1) else axes_of(axis, ndim)


def expand(g, a, axis, keepdims):
    """Undo a reduction of `a`: copy the cotangent of each result along the axes that were reduced."""
    if axis is not None and not keepdims and a.shape:
        g = np.expand_dims(g, axis)
    return broadcast(g, a.shape)


def broadcast(a, shape):
    """`np.broadcast_to`, several times faster where `a` is one block of memory."""
    if isinstance(a, np.generic):
        a = np.asarray(a)
    if type(a) is not np.ndarray or not a.flags.c_contiguous or not a.size:
        return np.broadcast_to(a, shape)
    extra = len(shape) - a.ndim
    if extra < 0 or any([n != m and n != 1 for n, m in zip(a.shape, shape[extra:])]):
        return np.broadcast_to(a, shape)  # raises NumPy's own error
    strides = [0 if n == 1 else step for n, step in zip(a.shape, a.strides)]
    wide = np.ndarray(shape, a.dtype, a, strides=(0,) * extra + tuple(strides))
    wide.setflags(write=False)
    return wide


def sum_to(g, shape):
    """Undo a broadcast: sum over the axes that were inserted on the left and the axes that were stretched."""
    extra = len(g.shape) - len(shape)
    if g.shape[extra:] == shape:
        return add_up(g, tuple(range(extra)))
    stretched = tuple(i for i, n in enumerate(shape, extra) if n == 1 != g.shape[i])
    return np.reshape(add_up(g, tuple(range(extra)) + stretched), shape)


def freedom(y, a, ddof, correction):
    """What a variance divides by: the entries that each result was computed from, less `ddof`; NaN when 0."""
    return a.size / max(y.size, 1) - (ddof if correction is None else correction) or math.nan


@dispatched
def ratio(a, b):
    """a/b, and 0 where b is 0: a subgradient there. Its own derivative there is NaN, for there is none to give."""
    zero = b == 0
    return np.where(zero, 0, a / np.where(zero, 1, b)) if np.any(zero) else a / b


def from_mean(a, axis):
    """a - mean(a)."""
    return a - add_up(a, axis, keepdims=True) / max(math.prod([a.shape[i] for i in axes_of(axis, len(a.shape))]), 1)


def deviation(y, a, axis, keepdims):
    """(a - mean)/std, the slope of a standard deviation `y`; 0 where all entries are equal, whatever rounding says."""
    if a.size == y.size:  # of one entry, whose deviation is 0 everywhere: no kink
        return np.zeros(a.shape, a.dtype)
    spread, away = expand(y, a, axis, keepdims), from_mean(a, axis)
    varies = np.max(a, axis, keepdims=True) != np.min(a, axis, keepdims=True) if a.size else np.zeros(a.shape, bool)
    if not np.all(varies):  # times 0, not np.where: a second derivative, which doesn't exist, then comes out as NaN
        varies = varies.astype(y.dtype)
        spread, away = spread * varies, away * varies
    return ratio(away, spread)


def turn(a, b):
    """a/(a² + b²), without overflow."""
    length = np.hypot(a, b)
    return a / length / length


def log_share(y, a, b, exp=np.exp):
    """exp(a - y), what `a` contributes to y = log(exp(a) + exp(b)); where `y` is infinite, as maximum shares it."""
    infinite = np.isinf(y)
    if not np.any(infinite):
        return exp(a - y)
    tied = np.where(a == b, 0.5, a == y).astype(y.dtype)
    return np.where(infinite, tied, exp(np.where(infinite, 0, a) - np.where(infinite, 0, y)))


def power_slope(a, b):
    """b·a**(b-1), and 0 where both are 0: a**0 is constant, also at 0."""
    if isinstance(b, (int, float)):
        return b * a ** (b - 1) if b else np.zeros_like(a)
    zero = a == 0
    if not np.any(zero):
        return b * a ** (b - 1)
    slope = b * a ** np.where(zero & (b == 0), 1, b - 1)
    return slope - root_where(zero & (b == 1), b - 1)


def exponent_slope(y, a, b):
    """y·log(a), and 0 where a is 0: 0**b is constant around any b > 0."""
    if isinstance(a, (int, float)):
        return y * math.log(a) if a > 0 else y * (0 if a == 0 else math.nan)
    zero = a == 0
    if not np.any(zero):
        return y * np.log(a)
    slope = np.where(zero, 0, y * np.log(np.where(zero, 1, a)))
    return slope - root_where(zero & (b <= 1), a)


def root_where(rough, x):
    """0, as the square root of zeros in `x`, whose derivative is infinite as the second one of a**b is there."""
    return np.where(rough, np.sqrt(np.where(rough, x, 1)), 0) if np.any(rough) else 0


def sinc_slope(a):
    """(cos πa - sinc a)/a, and 0 at 0; near 0 by its series, where the difference loses its digits."""
    near = abs(a) < 1e-2
    away = np.where(near, 1, a)
    p = (math.pi * np.where(near, a, 0)) ** 2
    series = -(math.pi**2) / 3 * a * (1 - p / 10 * (1 - p / 28 * (1 - p / 54)))
    return np.where(near, series, (np.cos(math.pi * away) - np.sinc(away)) / away)


def share_of_a(y, a, b):
    """The share of a maximum or minimum that goes to `a`: 1 where it won, ½ at a tie. NaN goes to whoever was NaN."""
    won = (a == y) | ((a != a) & (y != y))
    return np.where(a == b, 0.5, won).astype(y.dtype)


def winners(y, a, axis=None, keepdims=False, ties="split"):
    """Which entries of `a` are the maximum (or minimum) `y`, and how many of them share its cotangent, an integer."""
    top = y if keepdims or axis is None or not a.shape else np.expand_dims(y, axis)
    won = (a == top) | ((a != a) & (top != top))
    if ties == "first":
        won = _first(won, axis)
    elif ties not in ("split", "each"):
        raise ValueError(f"ties={ties!r}: expected 'split', 'each' or 'first'")
    return won, np.ones(np.shape(y), int) if ties == "each" else np.count_nonzero(won, axis=axis, keepdims=keepdims)


def divided(a, count):
    """`a` divided by these integers, in the dtype of `a`."""
    return a / np.asarray(count).astype(a.dtype)


def _first(won, axis):
    """Keep only the first True along the axes, whatever order these are given in."""
    axes = tuple(sorted(reduced_axes(axis, won.ndim)))
    last = np.moveaxis(won, axes, range(-len(axes), 0)) if axes else won[..., None]
    flat = last.reshape(*last.shape[: won.ndim - len(axes)], -1)
    flat = flat & (np.cumsum(flat, axis=-1) == 1)
    return np.moveaxis(flat.reshape(last.shape), range(-len(axes), 0), axes) if axes else flat[..., 0]


def divisible(a):
    """Whether a product may be divided by its factors `a`: none is 0.

    Where the quotient will be differentiated (`a` is no array), none may be small beside the others either: the terms
    of its derivative, each that much larger, would cancel and leave nothing but rounding errors.
    """
    if isinstance(a, np.ndarray) or not a.size:
        return np.all(a != 0)
    return np.all(abs(a) > 1e-4 * np.max(abs(a)))


def others(y, a, axis):
    """For each entry of `a`, the product of all the other entries that its result multiplies."""
    axes = reduced_axes(axis, len(a.shape))
    if not axes:
        return np.ones(a.shape, a.dtype)
    if divisible(a):
        keep = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
        return np.reshape(y, keep) / a
    flat = merged(a, axes)
    before, after = _products_before(flat), np.flip(_products_before(np.flip(flat, -1)), -1)
    last = tuple(range(-len(axes), 0))
    return np.moveaxis(np.reshape(before * after, np.moveaxis(a, axes, last).shape), last, axes)


def merged(a, axis):
    """`a` with these axes moved to the end and merged into one."""
    axes = axes_of(axis, len(a.shape))
    if len(axes) == 1 and axes[0] == len(a.shape) - 1:
        return a
    moved = np.moveaxis(a, axes, tuple(range(-len(axes), 0)))
    kept = moved.shape[: len(a.shape) - len(axes)]
    return np.reshape(moved, (*kept, math.prod(moved.shape[len(kept) :])))


def restored(y, a, axis, keepdims):
    """The result of a reduction of ``merged(a, axis)`` over its last axis, with the reduced axes kept if asked."""
    if not keepdims:
        return y
    axes = axes_of(axis, len(a.shape))
    return np.reshape(y, tuple(1 if i in axes else n for i, n in enumerate(a.shape)))


def _products_before(a):
    """For each entry, the product of the entries before it on the last axis."""
    one = np.ones((*a.shape[:-1], 1), a.dtype)
    return np.cumprod(np.concatenate([one, a[..., :-1]], axis=-1), axis=-1)


def _sum_after(g, axis):
    """For each entry, the sum of it and of those behind it."""
    wide = accumulator(g.dtype, g.shape[axis])
    return astype_if(np.flip(np.cumsum(np.flip(g, axis), axis, dtype=wide), axis), g.dtype)


def cumsum_slope(g, a, axis):
    """The cotangent of the input of a cumulative sum."""
    return np.reshape(_sum_after(g, 0 if axis is None else axis), a.shape)


def cumprod_slope(g, y, a, axis):
    """The cotangent of the input of a cumulative product; right with zeros too, where dividing by them is not."""
    if axis is None or not a.shape:
        return np.reshape(cumprod_slope(g, y, np.reshape(a, -1), 0), a.shape)
    if divisible(a):
        return _sum_after(g * y, axis) / a
    g, a = np.moveaxis(g, axis, 0), np.moveaxis(a, axis, 0)
    s = g[-1]
    sums = [s]
    for i in range(a.shape[0] - 1, 0, -1):  # s[i-1] = g[i-1] + a[i]·s[i]
        s = g[i - 1] + a[i] * s
        sums.append(s)
    before = np.moveaxis(_products_before(np.moveaxis(a, 0, -1)), -1, 0)
    return np.moveaxis(before * np.stack(sums[::-1]), 0, axis)


def restore_axes(axes):
    """The permutation that undoes `axes`."""
    return None if axes is None else tuple(int(i) for i in np.argsort(axes_of(axes, len(axes))))


def starts(y, *arrays, axis=0):
    """Where each array of a concatenation begins in the result, and where the last one ends."""
    lengths = [math.prod(np.shape(a)) if axis is None else np.shape(a)[axis] for a in arrays]
    return (0, *np.cumsum(lengths, dtype=int).tolist())


def part(g, arrays, i, axis, cuts):
    """The slice of `g` that array number `i` of a concatenation filled."""
    if axis is None:
        return np.reshape(g[cuts[i] : cuts[i + 1]], np.shape(arrays[i]))
    (axis,) = axes_of(axis, len(g.shape))
    return g[(slice(None),) * axis + (slice(cuts[i], cuts[i + 1]),)]


def is_basic(key):
    """Whether an index is of slices and integers only: then no entry is read twice."""
    keys = key if isinstance(key, tuple) else (key,)
    return all(k is None or k is Ellipsis or isinstance(k, (int, np.integer, slice)) for k in keys)


def index(a, key):
    """``a[key]``."""
    return a[key]


def add_at(total, g, key):
    """Add `g` to ``total[key]`` in place; an entry that the key names several times gets several shares."""
    if is_basic(key):
        total[key] += g
        return
    keys = [k.shape for k in (key if isinstance(key, tuple) else (key,)) if hasattr(k, "dtype") and k.dtype.kind != "b"]
    wide = accumulator(total.dtype, math.prod(np.broadcast_shapes(*keys)))  # a mask names no entry twice
    if wide == total.dtype:
        np.add.at(total, key, g)
    else:
        sums = np.zeros(total.shape, wide)
        np.add.at(sums, key, np.asarray(g, wide))
        total += sums.astype(total.dtype)


@dispatched
def put(g, shape, key):
    """Zeros of this shape with `g` added at ``[key]``: the adjoint of reading ``[key]``."""
    total = np.zeros(shape, g.dtype)
    add_at(total, g, key)
    return total


@dispatched
def astype(a, dtype):
    """`a` in another dtype."""
    return a.astype(dtype)


@dispatched
def exponents(a):
    """The powers of two of the binary representation, as np.frexp gives them."""
    return np.frexp(a)[1]


@dispatched
def unique_positions(a, axis, equal_nan):
    """The unique entries or slices, where they are first, which one each entry is, and how many there are of each."""
    return np.unique(a, True, True, True, axis, equal_nan=equal_nan)


def alike(*arrays, floating=False):
    """The arrays and Tensors in their common dtype; casts are nodes of their own."""
    dtype = np.result_type(*[a if isinstance(a, (int, float)) else as_array(a).dtype for a in arrays])
    arrays = [as_array(a) for a in arrays]
    if floating and dtype.kind != "f":
        dtype = np.dtype(float)
    return [a if a.dtype == dtype else astype(a, dtype) for a in arrays]


def no_out(out):
    if out is not None:
        raise TypeError("out= can't be used with Tensors: values never change. Use the result")
