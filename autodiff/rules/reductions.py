"""Reductions with where= and initial=, and those that are a ufunc's own: np.logaddexp.reduce, np.maximum.accumulate.

What NumPy leaves out is replaced by what changes nothing, and the initial value is brought in at the end.
"""

import functools

import numpy as np

from .helpers import as_array, astype_if, merged, no_out, reduced_axes, restored
from .rule import NOT_GIVEN, composed, masked

NEUTRAL = {  # reduction -> what changes nothing, and what brings in one more value
    np.sum: (0, np.add), np.prod: (1, np.multiply), np.max: (-np.inf, np.maximum), np.min: (np.inf, np.minimum),
    np.amax: (-np.inf, np.maximum), np.amin: (np.inf, np.minimum), np.nanmax: (-np.inf, np.fmax),
    np.nanmin: (np.inf, np.fmin),
}  # fmt: skip


def chosen(a, where, value):
    """`a` with `value` where the mask is false."""
    where = np.broadcast_to(where, a.shape)
    return a if np.all(where) else np.where(where, a, value)


def _restricted(function, a, axis, dtype, out, keepdims, initial, where, ties="split"):
    no_out(out)
    neutral, bring_in = NEUTRAL[function]
    a = as_array(a) if dtype is None else astype_if(as_array(a), np.dtype(dtype))
    if abs(neutral) == np.inf and a.dtype.kind != "f":
        limits = np.iinfo(a.dtype)
        neutral = limits.min if neutral < 0 else limits.max
    if where is not True and where is not NOT_GIVEN:
        if bring_in.identity is None and initial is NOT_GIVEN:
            raise ValueError(f"{function.__name__} with where= needs initial= too: there may be nothing to take it of")
        a = chosen(a, where, neutral)
    if bring_in.identity is None and not a.size and initial is not NOT_GIVEN:
        y = np.sum(a, axis=axis, keepdims=keepdims) + neutral
    elif ties != "split":
        y = a.max(axis, keepdims, ties=ties) if neutral < 0 else a.min(axis, keepdims, ties=ties)
    else:
        y = function(a, axis=axis, keepdims=keepdims)
    return y if initial is NOT_GIVEN else bring_in(y, astype_if(as_array(initial), y.dtype))


@masked(np.sum)
def sum_of_chosen(a, axis=None, dtype=None, out=None, keepdims=False, initial=NOT_GIVEN, where=True):
    return _restricted(np.sum, a, axis, dtype, out, keepdims, initial, where)


@masked(np.prod)
def prod_of_chosen(a, axis=None, dtype=None, out=None, keepdims=False, initial=NOT_GIVEN, where=True):
    return _restricted(np.prod, a, axis, dtype, out, keepdims, initial, where)


def _extremum_of_chosen(function):
    def written(a, axis=None, out=None, keepdims=False, initial=NOT_GIVEN, where=True, *, ties="split"):
        return _restricted(function, a, axis, None, out, keepdims, initial, where, ties)

    masked(function)(written)


for _function in (np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin):
    _extremum_of_chosen(_function)


# Ufuncs that may be applied in any order, and what changes nothing in them

ASSOCIATIVE = {np.logaddexp: -np.inf, np.logaddexp2: -np.inf, np.hypot: 0}
RUNNING = (*ASSOCIATIVE, np.maximum, np.minimum, np.fmax, np.fmin)


def _reduce(ufunc, a, axis=0, dtype=None, out=None, keepdims=False, initial=NOT_GIVEN, where=True):
    """Halves against halves until one entry is left, so that there are few nodes and rounding stays small."""
    no_out(out)
    a = as_array(a) if dtype is None else astype_if(as_array(a), np.dtype(dtype))
    neutral = ASSOCIATIVE[ufunc]
    y = merged(chosen(a, where, neutral), reduced_axes(axis, len(a.shape)))
    if not y.shape[-1]:
        y = np.concatenate([y, np.full((*y.shape[:-1], 1), neutral, y.dtype)], axis=-1)
    while y.shape[-1] > 1:
        n = y.shape[-1]
        pairs = ufunc(y[..., : n // 2], y[..., n // 2 : n - n % 2])
        y = np.concatenate([pairs, y[..., -1:]], axis=-1) if n % 2 else pairs
    y = y[..., 0]
    y = y if initial is NOT_GIVEN else ufunc(y, astype_if(as_array(initial), y.dtype))
    return restored(y, a, axis, keepdims) if a.shape else y


def _accumulate(ufunc, array, axis=0, dtype=None, out=None):
    """Each entry takes in what lies 1, 2, 4, 8 ... before it: few nodes. Ties are those of the ufunc."""
    no_out(out)
    a = as_array(array) if dtype is None else astype_if(as_array(array), np.dtype(dtype))
    y, step = np.moveaxis(a, axis, 0), 1
    while step < y.shape[0]:
        y, step = np.concatenate([y[:step], ufunc(y[:-step], y[step:])]), 2 * step
    return np.moveaxis(y, 0, axis)


for _ufunc in RUNNING:
    composed(_ufunc.accumulate)(functools.partial(_accumulate, _ufunc))
for _ufunc in ASSOCIATIVE:
    composed(_ufunc.reduce)(functools.partial(_reduce, _ufunc))
