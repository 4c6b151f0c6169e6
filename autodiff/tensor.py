"""Tensor and Var: values that remember how they were computed, and that NumPy's own functions work on."""

from __future__ import annotations

import sys
import weakref
from array import array as packed
from collections.abc import Iterable

import numpy as np

from .backward import backward
from .gradstore import GradStore
from .familiar import FIXED, attribute_elsewhere, refuse_keywords, refuses_others
from .graph import PATH, Node, is_floating
from .outside import ARRAY, COPY, INDEX, NUMBER, HistoryLostError, history_lost, plain
from .recording import (
    CUMULATIVE, NO_PARAMS, REDUCTIONS, NoRuleError, apply, as_operand, call, cast, constant, frozen_key, init_leaf,
    integers_only, new_id, on_values, record, recording, results_are, value_of,
)  # fmt: skip
from .rules import RULES, index


class Tensor(Node):
    """An array that takes part in graphs; by itself a constant. NumPy's functions and operators work on it.

    `data`: a number, a sequence or an array, of any shape and of floating, integer or boolean dtype. It is copied, and
    the value never changes. `dtype`: converts. `name`: what messages and drawings call it.
    TypeError for complex numbers, text and objects, and for sequences with tracked tensors (use `np.stack`).

    >>> import numpy as np, autodiff as ad
    >>> k = ad.Tensor([10.0, 20.0])
    >>> np.sqrt(k * k), k.shape, k.tracked
    (Tensor([10., 20.]), (2,), False)
    """

    __slots__ = ()

    @refuses_others
    def __init__(self, data, dtype=None, name: str | None = None, **others):
        if others:
            refuse_keywords(f"ad.{type(self).__name__}", others)
        if isinstance(data, Node):
            data._keep_history(f"made into a new {type(self).__name__}")
        array = np.array(value_of(data, type(self)), dtype=dtype)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{type(self).__name__} takes floating, integer or boolean data, got {array.dtype}"
                            + (": complex numbers are not supported" if array.dtype.kind == "c" else ""))  # fmt: skip
        init_leaf(self, array)
        self._name = name

    # What it is

    shape = property(lambda self: self._shape, doc="The lengths of the axes.")
    ndim = property(lambda self: len(self._shape), doc="The number of axes.")
    dtype = property(lambda self: self._array.dtype, doc="The type of the entries.")
    size = property(lambda self: self._array.size, doc="The number of entries.")
    id = property(lambda self: self._id, doc="A number of its own: younger tensors have larger ones.")
    name = property(lambda self: getattr(self, "_name", None), doc="The name it was given, or None.")
    T = property(lambda self: np.transpose(self), doc="All axes in reverse order.")
    mT = property(lambda self: np.swapaxes(self, -1, -2), doc="The last two axes swapped.")
    device = property(lambda self: "cpu", doc="Where the value is: always the CPU.")

    @property
    def data(self) -> np.ndarray:
        """The value, as a read-only array that shares the tensor's memory."""
        array = self._array
        while isinstance(array, np.ndarray) and array.flags.writeable:  # a view's base too
            array.setflags(write=False)
            array = array.base
        return self._array

    @data.setter
    def data(self, value):
        raise AttributeError(f"{self.label}: .data can't be written. Here: {FIXED}")

    def item(self) -> float | int | bool:
        """The value of a tensor of size 1, as a Python number."""
        return self._array.item()

    @refuses_others
    def backward(self, cotangent=None, *, wrt: Iterable[Tensor] | None = None, keep: Iterable[Tensor] = (),
                 detach: str = "all", strong_zero: bool = False, **others) -> GradStore:  # fmt: skip
        """The gradients of this tensor with respect to what it was computed from, as a `GradStore`.

        `cotangent`: what each entry counts, an array or Tensor of this tensor's shape and dtype; ones when left out, so
        the gradients are those of the sum of the entries. `wrt`: exactly these tensors and nothing else; when left out,
        every Var reached and every plain Tensor that is a direct input of a visited op. `keep`: interior nodes whose
        gradients stay in the store. `detach`: which gradients are constants: "all" of them; those "taken" out of the
        store, as candle does; or "none", and gradients of gradients are right to any order. `strong_zero`: in
        elementwise ops an entry with cotangent exactly 0 contributes exactly 0, where IEEE arithmetic gives 0·∞ = NaN.
        Reads the graph and changes nothing: a second call gives an equal store. TypeError for integer tensors and a
        wrong dtype, ValueError for a wrong shape, `StaleGraphError` after a `set`.

        >>> import autodiff as ad
        >>> x, y = ad.Var(3.0), ad.Var(2.0)
        >>> grads = ((x * y + x) ** 2).backward()
        >>> grads[x], grads[y]
        (Tensor(54.), Tensor(54.))
        """
        if others:
            refuse_keywords("Tensor.backward", others)
        return backward(self, cotangent, wrt=wrt, keep=keep, detach=detach, strong_zero=strong_zero)

    def detach(self) -> Tensor:
        """The same value in the same memory, without history: a constant with an id of its own."""
        result = constant(self._array)
        result._source = weakref.ref(self)
        return result

    def to_device(self, device: str) -> Tensor:
        """This tensor: there is only the CPU."""
        if device != "cpu":
            raise ValueError(f"device {device!r}: there is only 'cpu'")
        return self

    # NumPy's protocols (NEP 13 and NEP 18)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if self._role == PATH and len(inputs) == 1 and not kwargs and method == "__call__":
            rule = RULES.get(ufunc)
            if rule is not None and rule.plain and recording.get():  # the common case; `apply` gives the same
                return record(rule, ufunc(self._array), inputs, (self._array,), shape=self._shape)
        if "out" in kwargs or method == "at" and not isinstance(inputs[0], Node):
            if integers_only(inputs, kwargs):
                return on_values(getattr(ufunc, method), inputs, kwargs)
            raise HistoryLostError(
                f"np.{ufunc.__name__} can't write a Tensor into an existing array: values never change and the history "
                "would be lost. Use the result, or .data for its plain value"
            )
        if method == "reduce" and ufunc in REDUCTIONS:
            return call(REDUCTIONS[ufunc], inputs, {"axis": 0, **kwargs})
        if method == "accumulate" and ufunc in CUMULATIVE:
            return call(CUMULATIVE[ufunc], inputs, {"axis": 0, **kwargs})
        if method == "outer" and not kwargs:
            a, b = (as_operand(x, ufunc) for x in inputs)
            return call(ufunc, (np.reshape(a, np.shape(a) + (1,) * np.ndim(b)), b), NO_PARAMS)
        if method != "__call__":
            raise NoRuleError(f"np.{ufunc.__name__}.{method} has no rule; call np.{ufunc.__name__} itself")
        dtype = kwargs.pop("dtype", None)
        if dtype is not None:
            inputs = tuple(cast(x, dtype, ufunc) for x in inputs)
        if kwargs and any(value is not True for value in kwargs.values()):
            raise NoRuleError(f"np.{ufunc.__name__} with {', '.join(kwargs)}= has no rule; np.where chooses entries")
        return call(ufunc, inputs, NO_PARAMS)

    def __array_function__(self, function, types, args, kwargs):
        if not all(issubclass(t, (Tensor, np.ndarray)) for t in types):
            return NotImplemented
        return call(function, args, kwargs)

    @property
    def __pandas_priority__(self):
        """pandas asks for this before an operator with something of its own on the left; there is none to give."""
        plain(sys._getframe(1).f_locals.get("self"), "an operator with a Tensor")

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        """PyTorch asks this when a Tensor is among the operands of one of its functions."""
        name = getattr(function, "__name__", "function")
        advice = attribute_elsewhere(name.strip("_")) or "write it with NumPy's functions, which take Tensors"
        raise TypeError(f"torch.{name} can't take a {cls.__name__} of autodiff. Here: {advice}")

    def __array__(self, dtype=None, copy=None):
        self._keep_history("turned into a plain array")
        return np.array(self.data, dtype=dtype, copy=copy)

    def _keep_history(self, what: str, instead: str = ARRAY) -> None:
        """Refuse to be `what`, if there is a history to lose: integers have none, nor what is made of them alone."""
        made_of = [t for t in self._inputs if isinstance(t, Node)] or [self]
        if self.tracked and is_floating(self.dtype) and any([is_floating(t._array.dtype) for t in made_of]):
            raise history_lost(self, what, instead)

    def __float__(self):
        self._keep_history("turned into a Python number", NUMBER)
        return float(self.item())

    def __int__(self):
        self._keep_history("turned into a Python number", NUMBER)
        return int(self.item())

    def __complex__(self):
        return complex(float(self))

    __trunc__ = __int__

    def __index__(self):
        self._keep_history("used as an index", INDEX)
        return self._array.__index__()

    def __bool__(self):
        return bool(self._array)

    def __len__(self):
        return len(self._array)

    def __iter__(self):
        if not self._shape:
            raise TypeError("iteration over a 0-d Tensor")
        return (self[i] for i in range(self._shape[0]))

    def __contains__(self, value):
        return bool((self == value).any())

    def __getitem__(self, key):
        key = frozen_key(key)
        return apply(RULES[index], (self,), {"key": key})

    def __setitem__(self, key, value):
        raise TypeError(f"{self.label} can't be written to: values never change. Build a new tensor with np.where, "
                        "np.concatenate or ad.slice_scatter; give a Var a new value with .set")  # fmt: skip

    __hash__ = object.__hash__

    def __repr__(self):
        kind = type(self).__name__
        text = np.array2string(self._array, separator=", ", prefix=kind + "(")
        extras = [] if self.dtype in (np.float64, np.int64, np.bool_) else [f"dtype={self.dtype}"]
        extras += [f"name={self.name!r}"] if self.name else []
        extras += [f"op={self._rule.name}"] if self._rule else []
        return f"{kind}({', '.join([text, *extras])})"

    __str__ = __repr__

    def __format__(self, spec):
        return format(self.item(), spec) if spec else str(self)

    def __reduce__(self):
        self._keep_history("copied or pickled", COPY) if self._rule else None
        return type(self), (self._array, None, self.name)


class Var(Tensor):
    """A Tensor to differentiate with respect to: a leaf of graphs. Floating dtypes only.

    `data`: a number, sequence or array; Python floats become float64, arrays keep their dtype. `dtype`: converts.
    TypeError when the data is not floating.

    >>> import autodiff as ad
    >>> x = ad.Var([1.0, 2.0], name="x")
    >>> (x * x).sum().backward()[x]
    Tensor([2., 4.])
    """

    __slots__ = ()

    @refuses_others
    def __init__(self, data, dtype=None, name: str | None = None, **others):
        super().__init__(data, dtype, name, **others)
        if not is_floating(self.dtype):
            called = "Var" if name is None else f"Var {name!r}"
            raise TypeError(f"{called} needs floating data, got {self.dtype}: only floating numbers can be "
                            "differentiated. Write 3.0 for 3, or pass dtype=float")  # fmt: skip
        self._role, self._sets = PATH, packed("q")

    def set(self, value) -> None:
        """Give it a new value of the same shape and dtype. Graphs recorded before become stale.

        ValueError for another shape, TypeError for another dtype; then nothing changes.
        """
        array = np.array(value_of(value, "Var.set"))
        if array.dtype.kind in "fiub" and not isinstance(value, (Node, np.ndarray, np.generic)):
            array = array.astype(self.dtype, copy=False)  # Python's numbers adapt
        if array.shape != self._shape:
            raise ValueError(f"{self.label} can't be set to a value of shape {array.shape}: the shape must stay")
        if array.dtype != self.dtype:
            raise TypeError(f"{self.label} holds {self.dtype} and can't be set to {array.dtype}: the dtype must stay")
        self._replace(array)

    def _replace(self, array: np.ndarray) -> None:
        """Take over an array that fits and that nobody else holds."""
        self._array = array
        self._sets.append(new_id())


results_are(Tensor)
