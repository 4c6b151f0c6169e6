"""NumPy functions written with others that have rules: their derivatives follow, and the drawing shows the parts.

Each has the arguments of NumPy's function that make sense here; one that it does not take is a NoRuleError.
"""

import numpy as np

from .helpers import alike, as_array, astype, axes_of, exponents, no_out, put, unique_positions
from .rule import NOT_GIVEN, composed

# Joining and splitting


@composed(np.concatenate)
def concatenate(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    """Arrays of several dtypes are cast first, by nodes of their own; then the rule applies."""
    no_out(out)
    arrays = tuple(map(as_array, arrays))
    dtype = np.result_type(*[a.dtype for a in arrays]) if dtype is None else np.dtype(dtype)
    if all(a.dtype == dtype for a in arrays):
        return NotImplemented
    return np.concatenate([a if a.dtype == dtype else astype(a, dtype) for a in arrays], axis)


@composed(np.stack)
def stack(arrays, axis=0):
    """Lists among the arrays are stacked themselves."""
    return np.concatenate([np.expand_dims(as_array(a), axis) for a in arrays], axis=axis)


@composed(np.vstack)
def vstack(arrays):
    return np.concatenate([np.atleast_2d(a) for a in arrays], axis=0)


@composed(np.hstack)
def hstack(arrays):
    arrays = [np.atleast_1d(a) for a in arrays]
    return np.concatenate(arrays, axis=0 if np.ndim(arrays[0]) == 1 else 1)


@composed(np.dstack)
def dstack(arrays):
    return np.concatenate([np.atleast_3d(a) for a in arrays], axis=2)


@composed(np.column_stack)
def column_stack(arrays):
    return np.concatenate([a if np.ndim(a) > 1 else np.reshape(a, (-1, 1)) for a in arrays], axis=1)


@composed(np.atleast_1d)
def atleast_1d(*arrays):
    return _each(lambda a: np.reshape(a, (1,)) if np.ndim(a) == 0 else a, arrays)


@composed(np.atleast_2d)
def atleast_2d(*arrays):
    return _each(lambda a: np.reshape(a, (1,) * (2 - np.ndim(a)) + np.shape(a)) if np.ndim(a) < 2 else a, arrays)


@composed(np.atleast_3d)
def atleast_3d(*arrays):
    shapes = {0: lambda s: (1, 1, 1), 1: lambda s: (1, *s, 1), 2: lambda s: (*s, 1)}
    return _each(lambda a: np.reshape(a, shapes[np.ndim(a)](np.shape(a))) if np.ndim(a) < 3 else a, arrays)


def _each(function, arrays):
    results = [function(a) for a in arrays]
    return results[0] if len(results) == 1 else tuple(results)


@composed(np.array_split)
def array_split(a, indices_or_sections, axis=0):
    """Slices; the cuts into equal parts come from NumPy's own function on the positions."""
    (axis,) = axes_of(axis, len(a.shape))
    n, indices_or_sections = a.shape[axis], np.asarray(indices_or_sections)
    if indices_or_sections.ndim == 0:
        lengths = [len(part) for part in np.array_split(np.arange(n), indices_or_sections)]
        cuts = [0, *np.cumsum(lengths).tolist()]
    else:
        cuts = [0, *(int(i) for i in indices_or_sections), n]
    before = (slice(None),) * axis
    return [a[(*before, slice(start, stop))] for start, stop in zip(cuts, cuts[1:])]


@composed(np.split)
def split(a, indices_or_sections, axis=0):
    if np.ndim(indices_or_sections) == 0 and a.shape[axis] % indices_or_sections:
        raise ValueError(f"an axis of length {a.shape[axis]} can't be split into {indices_or_sections} equal parts")
    return np.array_split(a, indices_or_sections, axis)


@composed(np.vsplit)
def vsplit(a, indices_or_sections):
    return np.split(a, indices_or_sections, 0)


@composed(np.hsplit)
def hsplit(a, indices_or_sections):
    return np.split(a, indices_or_sections, 1 if np.ndim(a) > 1 else 0)


# Picking entries


@composed(np.take)
def take(a, indices, axis=None, out=None, mode="raise"):
    no_out(out)
    if axis is None or not a.shape and axis in (0, -1):
        a, axis = np.ravel(a), 0
    (axis,) = axes_of(axis, len(a.shape))
    indices = np.asarray(indices)
    if mode == "wrap":
        indices = indices % a.shape[axis]
    elif mode == "clip":
        indices = np.clip(indices, 0, a.shape[axis] - 1)
    return a[(slice(None),) * axis + (indices,)]


@composed(np.take_along_axis)
def take_along_axis(arr, indices, axis=-1):
    if axis is None:
        return np.ravel(arr)[np.ravel(np.asarray(indices))]
    indices = np.asarray(indices)
    (axis,) = axes_of(axis, len(arr.shape))
    if indices.ndim != len(arr.shape):
        raise ValueError(f"take_along_axis: indices of {indices.ndim} axes for an array of {len(arr.shape)}")
    shape = np.broadcast_shapes(indices.shape[:axis], arr.shape[:axis])
    shape += (indices.shape[axis],) + np.broadcast_shapes(indices.shape[axis + 1 :], arr.shape[axis + 1 :])
    arr = np.broadcast_to(arr, shape[:axis] + (arr.shape[axis],) + shape[axis + 1 :])
    key = list(np.ogrid[tuple(slice(n) for n in shape)])
    key[axis] = np.broadcast_to(indices, shape)
    return arr[tuple(key)]


@composed(np.sort)
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    """The order is found once and remembered; equal entries keep their order, whatever `kind` is asked for."""
    if axis is None:
        a, axis = np.ravel(a), -1
    return np.take_along_axis(a, np.argsort(a, axis=axis, kind="stable"), axis)


@composed(np.clip)
def clip(a, a_min=None, a_max=None, out=None, *, min=None, max=None):
    """A bound shares the gradient with an entry that equals it, as maximum and minimum do; bounds that meet fix it."""
    no_out(out)
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    above, below = (bound is not None and bound is not NOT_GIVEN for bound in (low, high))
    result = np.maximum(a, low) if above else a
    result = np.minimum(result, high) if below else result
    if above and below and np.any(np.greater_equal(low, high)):
        result = np.where(np.greater_equal(low, high) & ~np.isnan(result), high, result)
    return result


@composed(np.compress)
def compress(condition, a, axis=None, out=None):
    no_out(out)
    return np.take(a, np.flatnonzero(np.asarray(condition)), axis)


@composed(np.extract)
def extract(condition, arr):
    return np.take(np.ravel(as_array(arr)), np.flatnonzero(np.asarray(condition)))


@composed(np.partition)
def partition(a, kth, axis=-1, kind="introselect", order=None):
    if axis is None:
        a, axis = np.ravel(a), -1
    return np.take_along_axis(a, np.argpartition(a, kth, axis=axis, kind=kind), axis)


@composed(np.unique)
def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True):
    """Entries, or slices along `axis`, at the positions that NumPy's own function finds."""
    ar = as_array(ar)
    found = unique_positions(ar, axis, equal_nan)
    values = np.take(ar, found[1], axis)
    asked = [f for f, wanted in zip(found[1:], (return_index, return_inverse, return_counts)) if wanted]
    return (values, *asked) if asked else values


@composed(np.union1d)
def union1d(ar1, ar2):
    return np.unique(np.concatenate([ar1, ar2], axis=None))


@composed(np.intersect1d)
def intersect1d(ar1, ar2, assume_unique=False):
    ar1 = np.sort(as_array(ar1), axis=None) if assume_unique else np.unique(ar1)
    return ar1[np.isin(ar1, ar2)]


@composed(np.setdiff1d)
def setdiff1d(ar1, ar2, assume_unique=False):
    ar1 = np.ravel(as_array(ar1)) if assume_unique else np.unique(ar1)
    return ar1[~np.isin(ar1, ar2)]


@composed(np.setxor1d)
def setxor1d(ar1, ar2, assume_unique=False):
    return np.sort(np.concatenate([np.setdiff1d(ar1, ar2, assume_unique), np.setdiff1d(ar2, ar1, assume_unique)]))


@composed(np.where)
def where(condition, x=NOT_GIVEN, y=NOT_GIVEN):
    return np.nonzero(condition) if x is NOT_GIVEN and y is NOT_GIVEN else NotImplemented


@composed(np.select)
def select(condlist, choicelist, default=0):
    """The first choice whose condition holds."""
    if len(condlist) != len(choicelist):
        raise ValueError(f"select: {len(condlist)} conditions for {len(choicelist)} choices")
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist)):
        result = np.where(condition, choice, result)
    shape = np.broadcast_shapes(*(np.shape(c) for c in (*condlist, *choicelist, default)))
    return result if np.shape(result) == shape else np.broadcast_to(result, shape)


@composed(np.choose)
def choose(a, choices, out=None, mode="raise"):
    no_out(out)
    a = np.asarray(a)
    choices = np.broadcast_arrays(*alike(*choices), a)[:-1]
    n = len(choices)
    if mode == "raise" and np.any((a < 0) | (a >= n)):
        raise ValueError(f"choose: an entry of `a` is not between 0 and {n - 1}")
    a = a % n if mode == "wrap" else np.clip(a, 0, n - 1)
    return np.take_along_axis(np.stack(choices), np.broadcast_to(a, choices[0].shape)[None], 0)[0]


@composed(np.piecewise)
def piecewise(x, condlist, funclist, *args, **kw):
    """Each function gets the entries where its condition holds; the last condition that holds counts."""
    x = as_array(x)
    if not x.shape:
        conditions = np.reshape(np.asarray(condlist, bool), (-1, 1))
        return np.reshape(np.piecewise(np.reshape(x, (1,)), list(conditions), funclist, *args, **kw), ())
    if not isinstance(condlist[0], (list, np.ndarray)):
        condlist = [condlist]
    conditions = [np.broadcast_to(np.asarray(c, bool), x.shape) for c in condlist]
    if len(funclist) == len(conditions) + 1:
        conditions.append(~np.any(conditions, axis=0))
    if len(funclist) != len(conditions):
        raise ValueError(f"piecewise: {len(funclist)} functions for {len(condlist)} conditions")
    result = np.zeros_like(x)
    for condition, function in zip(conditions, funclist):
        if not callable(function):
            result = np.where(condition, function, result)
        elif np.any(condition):
            values = np.broadcast_to(function(x[condition], *args, **kw), (np.count_nonzero(condition),))
            result = np.where(condition, put(values, x.shape, condition), result)
    return result if result.dtype == x.dtype else astype(result, x.dtype)


@composed(np.divmod)
def divmod_(a, b):
    return np.floor_divide(a, b), np.remainder(a, b)


@composed(np.frexp)
def frexp(a):
    """The exponents are integers, and so is the mantissa `a` times a constant."""
    powers = exponents(a)
    return np.ldexp(a, -powers), powers


@composed(np.modf)
def modf(a):
    whole = np.trunc(a)
    return a - whole, whole


# Shape and layout


@composed(np.astype)
def astype_(x, dtype, copy=True, device=None):
    return astype(x, np.dtype(dtype))


@composed(np.matrix_transpose)
def matrix_transpose(x):
    return np.swapaxes(x, -1, -2)


@composed(np.full_like)
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None):
    fill_value = as_array(fill_value)
    dtype = np.dtype(a.dtype if dtype is None else dtype)
    fill_value = fill_value if fill_value.dtype == dtype else astype(fill_value, dtype)
    return _own(np.broadcast_to(fill_value, a.shape if shape is None else shape))


def _own(a):
    """A plain array is copied: it may be a view of the caller's."""
    return np.array(a) if isinstance(a, np.ndarray) else a


@composed(np.broadcast_arrays)
def broadcast_arrays(*args, subok=False):
    arrays = [as_array(a) for a in args]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    return tuple(a if a.shape == shape else np.broadcast_to(a, shape) for a in arrays)


@composed(np.meshgrid)
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing={indexing!r}: expected 'xy' or 'ij'")
    n = len(xi)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else range(n)
    grids = [np.reshape(as_array(x), [-1 if i == k else 1 for i in range(n)]) for x, k in zip(xi, order)]
    grids = grids if sparse else np.broadcast_arrays(*grids)
    return tuple(map(_own, grids) if copy else grids)


@composed(np.block)
def block(arrays):
    """Innermost lists are joined along the last axis, the lists around them along the axes before it."""
    depth, ndim = _depth(arrays), max(_ndims(arrays))
    return _block(arrays, depth, max(ndim, depth))


def _depth(arrays):
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) else 0


def _ndims(arrays):
    return [n for a in arrays for n in _ndims(a)] if isinstance(arrays, list) else [np.ndim(arrays)]


def _block(arrays, depth, ndim):
    if isinstance(arrays, list):
        return np.concatenate([_block(a, depth - 1, ndim) for a in arrays], axis=-depth)
    array = as_array(arrays)
    return np.reshape(array, (1,) * (ndim - len(array.shape)) + array.shape)


@composed(getattr(np, "unstack", None))
def unstack(x, /, *, axis=0):
    moved = np.moveaxis(x, axis, 0)
    return tuple(moved[i] for i in range(moved.shape[0]))


@composed(np.dsplit)
def dsplit(a, indices_or_sections):
    return np.split(a, indices_or_sections, 2)


@composed(np.append)
def append(arr, values, axis=None):
    if axis is None:
        arr, values, axis = np.ravel(as_array(arr)), np.ravel(as_array(values)), 0
    return np.concatenate([arr, values], axis)


@composed(np.delete)
def delete(arr, obj, axis=None):
    if axis is None:
        arr, axis = np.ravel(arr), 0
    obj = obj if isinstance(obj, slice) else np.asarray(obj)
    return np.take(arr, np.delete(np.arange(arr.shape[axis]), obj), axis)


@composed(np.insert)
def insert(arr, obj, values, axis=None):
    """The values are joined to the end; NumPy's own function on the positions says which entry goes where."""
    if axis is None:
        arr, axis = np.ravel(as_array(arr)), 0
    arr, values = as_array(arr), as_array(values)
    (axis,) = axes_of(axis, len(arr.shape))
    n = arr.shape[axis]
    if np.ndim(obj) == 0 and not isinstance(obj, slice):  # then values are blocks of entries, as arr[obj:obj] = values
        values = np.reshape(values, (1,) * (len(arr.shape) - len(values.shape)) + values.shape)
        values = np.moveaxis(values, 0, axis)
        count = values.shape[axis]
    else:
        count = len(range(*obj.indices(n))) if isinstance(obj, slice) else len(np.insert(np.arange(n), obj, -1)) - n
    shape = arr.shape[:axis] + (count,) + arr.shape[axis + 1 :]
    values = np.broadcast_to(values, shape)
    values = values if values.dtype == arr.dtype else astype(values, arr.dtype)
    places = obj if np.ndim(obj) or isinstance(obj, slice) else [obj] * count
    order = np.insert(np.arange(n), places, n + np.arange(count))
    return np.take(np.concatenate([arr, values], axis), order, axis)


@composed(np.resize)
def resize(a, new_shape):
    """The entries in order, again and again."""
    new_shape = (new_shape,) if isinstance(new_shape, (int, np.integer)) else tuple(new_shape)
    size = int(np.prod(new_shape, dtype=int))
    if not a.size:
        return np.zeros(new_shape, a.dtype)
    return np.reshape(np.ravel(a)[np.arange(size) % a.size], new_shape)


@composed(np.repeat)
def repeat(a, repeats, axis=None):
    if axis is None or not a.shape and axis in (0, -1):
        a, axis = np.ravel(a), 0
    return np.take(a, np.repeat(np.arange(a.shape[axis]), np.asarray(repeats)), axis)


@composed(np.tile)
def tile(A, reps):
    reps = (reps,) if isinstance(reps, (int, np.integer)) else tuple(reps)
    ndim = max(len(reps), len(A.shape))
    reps, shape = (1,) * (ndim - len(reps)) + reps, (1,) * (ndim - len(A.shape)) + A.shape
    spaced = np.reshape(A, [i for n in shape for i in (1, n)])
    copies = np.broadcast_to(spaced, [i for pair in zip(reps, shape) for i in pair])
    return np.reshape(copies, [r * n for r, n in zip(reps, shape)])


@composed(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    """Entries read at the positions of all windows: a copy, where NumPy's is a view."""
    x = as_array(x)
    lengths = (window_shape,) if isinstance(window_shape, (int, np.integer)) else tuple(window_shape)
    axes = tuple(range(len(x.shape))) if axis is None else np.lib.array_utils.normalize_axis_tuple(
        axis, len(x.shape), allow_duplicate=True)  # fmt: skip
    if len(lengths) != len(axes):
        raise ValueError(f"sliding_window_view: {len(lengths)} window lengths for {len(axes)} axes")
    for length, k in zip(lengths, axes):
        if not 0 <= length <= x.shape[k]:
            raise ValueError(f"sliding_window_view: a window of length {length} on an axis of length {x.shape[k]}")
        starts = np.arange(x.shape[k] - length + 1)
        x = np.moveaxis(np.take(x, starts[:, None] + np.arange(length), k), k + 1, -1)
    return x


@composed(np.fft.fftshift)
def fftshift(x, axes=None):
    x = as_array(x)
    axes = axes_of(axes, len(x.shape))
    return np.roll(x, [x.shape[i] // 2 for i in axes], axes)


@composed(np.fft.ifftshift)
def ifftshift(x, axes=None):
    x = as_array(x)
    axes = axes_of(axes, len(x.shape))
    return np.roll(x, [-(x.shape[i] // 2) for i in axes], axes)


@composed(np.apply_along_axis)
def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    arr = as_array(arr)
    (axis,) = axes_of(axis, len(arr.shape))
    slices = np.moveaxis(arr, axis, -1)
    outer = slices.shape[:-1]
    results = [as_array(func1d(slices[i], *args, **kwargs)) for i in np.ndindex(outer)]
    if not results:
        raise ValueError("apply_along_axis: there is no slice to apply it to, one of the other axes has length 0")
    inner = results[0].shape
    joined = np.reshape(np.stack(results), outer + inner)
    return np.moveaxis(joined, range(-len(inner), 0), range(axis, axis + len(inner)))


@composed(np.apply_over_axes)
def apply_over_axes(func, a, axes):
    a = as_array(a)
    for axis in axes_of(axes, len(a.shape)):
        result = func(a, axis)
        a = result if len(result.shape) == len(a.shape) else np.expand_dims(result, axis)
    return a


@composed(np.flipud)
def flipud(m):
    return np.flip(m, 0)


@composed(np.fliplr)
def fliplr(m):
    return np.flip(m, 1)


@composed(np.rot90)
def rot90(m, k=1, axes=(0, 1)):
    first, second = axes_of(axes, len(m.shape))
    k %= 4
    if k == 0:
        return np.copy(m)
    if k == 2:
        return np.flip(m, (first, second))
    return np.swapaxes(np.flip(m, second), first, second) if k == 1 else np.flip(np.swapaxes(m, first, second), second)


@composed(np.rollaxis)
def rollaxis(a, axis, start=0):
    (axis,) = axes_of(axis, len(a.shape))
    start += len(a.shape) * (start < 0)
    return np.moveaxis(a, axis, start - (axis < start))


@composed(np.reshape)
def reshape(a, /, shape, order="C", *, copy=None):
    if order == "C":
        return NotImplemented
    a = as_array(a)
    if order != "F":
        raise TypeError(f"reshape with order={order!r} has no rule: it depends on the layout in memory. Use 'C' or 'F'")
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    return np.transpose(np.reshape(np.transpose(a), shape[::-1]))


@composed(np.ravel)
def ravel(a, order="C"):
    return NotImplemented if order == "C" else np.reshape(a, -1, order=order)


@composed(np.pad)
def pad(array, pad_width, mode="constant", **kwargs):
    """Zeros around it, or entries of its own: NumPy's own function on the positions says which."""
    a = as_array(array)
    widths = np.broadcast_to(_pad_widths(pad_width, len(a.shape)), (len(a.shape), 2)).tolist()
    if mode == "constant":
        key = tuple(slice(before, before + n) for (before, _), n in zip(widths, a.shape))
        inside = put(a, tuple(n + before + after for (before, after), n in zip(widths, a.shape)), key)
        if not np.any(kwargs.get("constant_values", 0)):
            return inside
        return inside + np.pad(np.zeros_like(a), widths, **kwargs)
    if mode not in ("edge", "reflect", "symmetric", "wrap") or kwargs.get("reflect_type", "even") != "even":
        options = "".join(f", {k}={v!r}" for k, v in kwargs.items())
        raise TypeError(f"pad with mode={mode!r}{options} has no rule; its rule knows 'constant', 'edge', 'reflect', "
                        "'symmetric' and 'wrap'")  # fmt: skip
    for axis, width in enumerate(widths):
        if any(width):
            a = np.take(a, np.pad(np.arange(a.shape[axis]), width, mode), axis)
    return a


def _pad_widths(pad_width, ndim):
    if not isinstance(pad_width, dict):
        return np.asarray(pad_width, int)
    widths = np.zeros((ndim, 2), int)
    for axis, width in pad_width.items():
        widths[axis] = width
    return widths
