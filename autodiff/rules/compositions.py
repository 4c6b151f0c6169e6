"""NumPy functions written with others that have rules: their derivatives follow, and the drawing shows the parts.

Each has the arguments of NumPy's function that make sense here; an argument it does not take is Python's own TypeError.
"""

import numpy as np

from .helpers import as_array, astype, axes_of
from .rule import NOT_GIVEN, composed

# Linear algebra


@composed(np.matmul)
def matmul(a, b):
    """Vectors become matrices and batch axes are broadcast first, by nodes of their own; then the rule applies."""
    a, b = as_array(a), as_array(b)
    if not a.shape or not b.shape:
        raise ValueError("matmul needs at least one axis on each side; use * to scale by a number")
    if len(a.shape) == 1:
        return np.squeeze(np.matmul(np.expand_dims(a, 0), b), -1 if len(b.shape) == 1 else -2)
    if len(b.shape) == 1:
        return np.squeeze(np.matmul(a, np.expand_dims(b, 1)), -1)
    if a.dtype != b.dtype:
        dtype = np.result_type(a.dtype, b.dtype)
        return np.matmul(astype(a, dtype), astype(b, dtype))
    if a.shape[:-2] == b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        return NotImplemented
    if len(b.shape) == 2:  # one large product instead of many small ones
        return np.reshape(np.matmul(np.reshape(a, (-1, a.shape[-1])), b), (*a.shape[:-1], b.shape[-1]))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.matmul(np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:]))


@composed(np.dot)
def dot(a, b, out=None):
    _no_out(out)
    if not np.shape(a) or not np.shape(b):
        return np.multiply(a, b)
    if np.ndim(b) <= 2:
        return np.matmul(a, b)
    return np.tensordot(a, b, axes=(-1, -2))


@composed(np.vdot)
def vdot(a, b):
    return np.matmul(np.ravel(a), np.ravel(b))


@composed(np.inner)
def inner(a, b):
    return np.multiply(a, b) if not np.shape(a) or not np.shape(b) else np.tensordot(a, b, axes=(-1, -1))


@composed(np.outer)
def outer(a, b, out=None):
    _no_out(out)
    return np.expand_dims(np.ravel(a), 1) * np.expand_dims(np.ravel(b), 0)


@composed(np.tensordot)
def tensordot(a, b, axes=2):
    """One matrix product, with the summed axes moved next to each other."""
    a, b = as_array(a), as_array(b)
    if isinstance(axes, (int, np.integer)):
        axes = (tuple(range(-axes, 0)), tuple(range(axes)))
    in_a, in_b = axes_of(axes[0], len(a.shape)), axes_of(axes[1], len(b.shape))
    if len(in_a) != len(in_b) or any(a.shape[i] != b.shape[j] for i, j in zip(in_a, in_b)):
        raise ValueError(f"tensordot: the summed axes do not fit: shapes {a.shape} and {b.shape}, axes {axes}")
    free_a = tuple(i for i in range(len(a.shape)) if i not in in_a)
    free_b = tuple(i for i in range(len(b.shape)) if i not in in_b)
    n = int(np.prod([a.shape[i] for i in in_a], dtype=int))
    rows, columns = tuple(a.shape[i] for i in free_a), tuple(b.shape[i] for i in free_b)
    left = np.reshape(np.transpose(a, free_a + in_a), (int(np.prod(rows, dtype=int)), n))
    right = np.reshape(np.transpose(b, in_b + free_b), (n, int(np.prod(columns, dtype=int))))
    return np.reshape(np.matmul(left, right), rows + columns)


@composed(np.trace)
def trace(a, offset=0, axis1=0, axis2=1):
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1)


@composed(np.diagonal)
def diagonal(a, offset=0, axis1=0, axis2=1):
    moved = np.moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = moved.shape[-2:]
    n = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    i = np.arange(n)
    return moved[..., i - min(offset, 0), i + max(offset, 0)]


# Joining and splitting


@composed(np.concatenate)
def concatenate(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    """Arrays of several dtypes are cast first, by nodes of their own; then the rule applies."""
    _no_out(out)
    arrays = tuple(map(as_array, arrays))
    dtype = np.result_type(*[a.dtype for a in arrays]) if dtype is None else np.dtype(dtype)
    if all(a.dtype == dtype for a in arrays):
        return NotImplemented
    return np.concatenate([a if a.dtype == dtype else astype(a, dtype) for a in arrays], axis)


@composed(np.stack)
def stack(arrays, axis=0):
    return np.concatenate([np.expand_dims(a, axis) for a in arrays], axis=axis)


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
    """Slices; the cuts come from NumPy's own function on the positions."""
    (axis,) = axes_of(axis, len(a.shape))
    parts = np.array_split(np.arange(a.shape[axis]), indices_or_sections)
    starts = np.cumsum([0] + [len(p) for p in parts])
    before = (slice(None),) * axis
    return [a[before + (slice(int(i), int(i) + len(p)),)] for i, p in zip(starts, parts)]


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
def take(a, indices, axis=None, mode="raise"):
    if axis is None:
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
def sort(a, axis=-1):
    """The order is found once and remembered; equal entries keep their order."""
    if axis is None:
        a, axis = np.ravel(a), -1
    return np.take_along_axis(a, np.argsort(a, axis=axis, kind="stable"), axis)


@composed(np.clip)
def clip(a, a_min=None, a_max=None, *, min=None, max=None):
    """A bound shares the gradient with an entry that equals it, as maximum and minimum do."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    if low is not None and low is not NOT_GIVEN:
        a = np.maximum(a, low)
    return a if high is None or high is NOT_GIVEN else np.minimum(a, high)


@composed(np.diff)
def diff(a, n=1, axis=-1, prepend=NOT_GIVEN, append=NOT_GIVEN):
    (axis,) = axes_of(axis, len(np.shape(a)))
    ends = [p for p in (prepend, a, append) if p is not NOT_GIVEN]
    if len(ends) > 1:
        shape = np.shape(a)[:axis] + (1,) + np.shape(a)[axis + 1 :]
        a = np.concatenate([np.broadcast_to(p, shape) if np.ndim(p) == 0 else p for p in ends], axis)
    before = (slice(None),) * axis
    for _ in range(n):
        a = a[before + (slice(1, None),)] - a[before + (slice(None, -1),)]
    return a


@composed(np.ptp)
def ptp(a, axis=None, out=None, keepdims=False):
    _no_out(out)
    return np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)


@composed(np.divmod)
def divmod_(a, b):
    return np.floor_divide(a, b), np.remainder(a, b)


@composed(np.modf)
def modf(a):
    whole = np.trunc(a)
    return a - whole, whole


def _no_out(out):
    if out is not None:
        raise TypeError("out= can't be used with Tensors: values never change. Use the result")


@composed(np.astype)
def astype_(x, dtype, copy=True, device=None):
    return astype(x, np.dtype(dtype))


@composed(np.matrix_transpose)
def matrix_transpose(x):
    return np.swapaxes(x, -1, -2)
