"""What a Tensor shares with an ndarray: its operators and methods, each of them one of NumPy's functions."""

from __future__ import annotations

import numpy as np

from .familiar import name_ours, refuse_keywords
from .graph import PATH, Node, is_floating
from .recording import NO_PARAMS, aligned, apply, call, record, recording, value_of
from .outside import is_foreign
from .rules import NOT_GIVEN, RULES, astype
from .tensor import Tensor, Var

OPERANDS = (Node, np.ndarray, np.generic, int, float, list, tuple)


def is_operand(x) -> bool:
    """Whether an operator is ours to do, or to refuse: what is no array of any kind may know Tensors itself."""
    return isinstance(x, OPERANDS) or is_foreign(type(x))


def _binary(ufunc):
    rule, multiplies = RULES[ufunc], ufunc is np.multiply

    def operator(self, other):
        # The two common cases are written out; `apply` gives the same results and handles all others.
        cls = other.__class__
        if cls is Tensor or cls is Var:
            a, b = self._array, other._array
            if (self._role == PATH or other._role == PATH) and a.dtype is b.dtype and recording.get():
                if other is self or self._shape == other._shape:
                    return record(rule, ufunc(a, b), (self, other), (a, b), shape=self._shape)
                if self._role and other._role:
                    value = ufunc(a, b)
                    x, y = aligned(self, value), aligned(other, value)
                    return record(rule, value, (x, y), (x._array, y._array))
        elif cls is float or cls is int:
            if self._role == PATH and not (multiplies and other == 0) and recording.get():
                a = self._array
                return record(rule, ufunc(a, other), (self, other), (a, other), shape=self._shape)
        elif not is_operand(other):
            return NotImplemented
        return apply(rule, (self, other))

    if not rule.plain:
        operator = lambda self, other: apply(rule, (self, other))  # noqa: E731

    def reflected(self, other):
        return apply(rule, (other, self)) if is_operand(other) else NotImplemented

    return operator, reflected


def _comparison(ufunc):
    def compare(self, other):
        return ufunc(self._array, value_of(other, ufunc)) if is_operand(other) else NotImplemented

    return compare


def _method(function):
    def method(self, *args, **kwargs):
        return call(function, (self, *args), kwargs)

    return _called(method, function.__name__, function.__name__)


def _called(method, name: str, function: str, more: str = ""):
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"``np.{function}`` of this tensor.{more}"
    return method


def _attach_operators() -> None:
    pairs = dict(add=np.add, sub=np.subtract, mul=np.multiply, truediv=np.divide, floordiv=np.floor_divide,
                 mod=np.remainder, pow=np.power)  # fmt: skip
    for name, ufunc in pairs.items():
        operator, reflected = _binary(ufunc)
        setattr(Tensor, f"__{name}__", operator)
        setattr(Tensor, f"__r{name}__", reflected)
    compare = dict(eq=np.equal, ne=np.not_equal, lt=np.less, le=np.less_equal, gt=np.greater, ge=np.greater_equal)
    for name, ufunc in compare.items():
        setattr(Tensor, f"__{name}__", _comparison(ufunc))
    power = Tensor.__pow__

    def __pow__(self, n):
        squares = n.__class__ is int or n.__class__ is float and is_floating(self._array.dtype)
        return np.square(self) if squares and n == 2 else power(self, n)

    Tensor.__pow__ = __pow__
    Tensor.__neg__ = lambda self: call(np.negative, (self,), NO_PARAMS)
    Tensor.__pos__ = lambda self: self
    Tensor.__abs__ = lambda self: call(np.absolute, (self,), NO_PARAMS)
    matmul = lambda a, b: call(np.matmul, (a, b), NO_PARAMS)
    Tensor.__matmul__ = lambda self, other: matmul(self, other) if is_operand(other) else NotImplemented
    Tensor.__rmatmul__ = lambda self, other: matmul(other, self) if is_operand(other) else NotImplemented
    Tensor.__divmod__ = lambda self, other: np.divmod(self, other)
    Tensor.__rdivmod__ = lambda self, other: np.divmod(other, self)
    Tensor.__round__ = lambda self, decimals=0: np.round(self, decimals)
    for name in ("sum mean prod var std squeeze ravel clip cumsum cumprod dot argmax argmin round swapaxes "
                 "take repeat sort argsort diagonal trace nonzero searchsorted any all").split():  # fmt: skip
        setattr(Tensor, name, _method(getattr(np, name)))


def _extremum(function):
    def method(self, axis=None, keepdims=False, *, initial=NOT_GIVEN, where=True, ties="split", **others):
        refuse_keywords(f"Tensor.{function.__name__}", others)
        params = {"axis": axis, "keepdims": keepdims}
        if initial is not NOT_GIVEN or where is not True:
            return call(function, (self,), {**params, "initial": initial, "where": where, "ties": ties})
        return apply(RULES[function], (self,), params, NO_PARAMS if ties == "split" else {"ties": ties})

    return _called(method, function.__name__, function.__name__,
                   " `ties`: how entries that are equally extreme share the gradient: "
                   '"split" evenly (a subgradient), "each" gets all of it, or the "first" does.')  # fmt: skip


def _shape_of(args: tuple):
    """The one shape or axes argument, given as a sequence or as several integers."""
    return args[0] if len(args) == 1 and not isinstance(args[0], (int, np.integer)) else args


_attach_operators()
Tensor.max, Tensor.min = _extremum(np.max), _extremum(np.min)
Tensor.astype = lambda self, dtype, copy=True: apply(RULES[astype], (self,), {"dtype": np.dtype(dtype)})
Tensor.copy = lambda self: np.copy(self)
Tensor.flatten = lambda self: np.copy(np.ravel(self))
Tensor.reshape = lambda self, *shape: np.reshape(self, _shape_of(shape))
Tensor.transpose = lambda self, *axes: np.transpose(self, _shape_of(axes) if axes else None)
for _name in ("astype", "copy", "flatten", "reshape", "transpose"):
    _called(getattr(Tensor, _name), _name, "ravel" if _name == "flatten" else _name)
name_ours(Tensor)
