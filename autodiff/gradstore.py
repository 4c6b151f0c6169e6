"""The gradient store: a mapping from tensors, by identity, to their gradients."""

from __future__ import annotations

import numpy as np

from .explain import Pass, missing
from .graph import Node, is_floating
from .outside import plain
from .recording import constant


class GradStore:
    """Gradients by tensor: what `backward` returns, and what can be merged, edited and given to an optimiser.

    A tensor that was not reached is absent; one that was reached with derivative 0 has zeros. Gradients have the shape
    and dtype of their tensor.

    >>> import autodiff as ad
    >>> x, k = ad.Var([1.0, 2.0]), ad.Tensor([10.0, 20.0])
    >>> grads = (x * k).sum().backward()
    >>> grads[x], grads[k], len(grads)
    (Tensor([10., 20.]), Tensor([1., 2.]), 2)
    """

    __slots__ = ("_grads", "_made_by", "_removed", "_cuts_sums")

    def __init__(self):
        self._grads: dict[int, Node] = {}
        self._made_by, self._removed = None, set()
        self._cuts_sums = False  # whether what `extend` adds up is cut, as candle's is

    @classmethod
    def _of(cls, slots: dict[Node, object], made_by: Pass) -> GradStore:
        """The store a backward pass leaves. It keeps no graph alive."""
        store = cls()
        store._grads = {t._id: g if isinstance(g, Node) else constant(g) for t, g in slots.items()}
        store._made_by = made_by
        return store

    def __getitem__(self, tensor: Node) -> Node:
        """The gradient of `tensor`. A missing one is a `MissingGradientError`, which says why it is missing."""
        grad = self._grads.get(_check(tensor)._id)
        if grad is None:
            raise missing(tensor, self._made_by, tensor._id in self._removed)
        return grad

    def get(self, tensor: Node, default=None):
        """The gradient of `tensor`, or `default`."""
        return self._grads.get(_check(tensor)._id, default)

    def __contains__(self, tensor: Node) -> bool:
        return _check(tensor)._id in self._grads

    def __len__(self) -> int:
        return len(self._grads)

    __iter__ = None  # a store knows ids, not the tensors themselves

    def __eq__(self, other) -> bool:
        """Whether both have the same tensors with the same gradients."""
        same = isinstance(other, GradStore) and self._grads.keys() == other._grads.keys()
        return same and all(np.array_equal(g._array, other._grads[i]._array, True) for i, g in self._grads.items())

    def ids(self) -> list[int]:
        """The ids of the tensors that have a gradient here."""
        return list(self._grads)

    def insert(self, tensor: Node, grad) -> Node | None:
        """Store `grad`, of the shape and dtype of `tensor`, and return what was there before, or None."""
        if not isinstance(grad, Node):
            grad = constant(np.array(plain(grad, "GradStore.insert")))
        elif grad.is_variable:
            grad = grad.detach()  # a later set must not change what is stored
        if grad._shape != _check(tensor)._shape:
            raise ValueError(f"the gradient of {tensor.label} must have its shape {tensor._shape}, not {grad._shape}")
        if grad._array.dtype != tensor._array.dtype:
            raise TypeError(f"the gradient of {tensor.label} must have its dtype {tensor._array.dtype}, "
                            f"not {grad._array.dtype}")  # fmt: skip
        if not is_floating(tensor._array.dtype):
            raise TypeError(f"{tensor.label} holds {tensor._array.dtype}: only floating tensors have gradients")
        old = self._grads.get(tensor._id)
        self._grads[tensor._id] = grad
        return old

    def remove(self, tensor: Node) -> Node | None:
        """Take the gradient of `tensor` out and return it, or None."""
        if tensor in self:
            self._removed.add(tensor._id)
        return self._grads.pop(tensor._id, None)

    def or_insert(self, tensor: Node) -> Node:
        """The gradient of `tensor`; zeros are stored first where there was none."""
        if tensor not in self:
            self.insert(tensor, constant(np.zeros(tensor._shape, tensor._array.dtype)))
        return self._grads[tensor._id]

    def extend(self, other: GradStore) -> None:
        """Add the gradients of `other` to these: the same tensor's are summed. Nothing changes if one does not fit."""
        if not isinstance(other, GradStore):
            raise TypeError(f"extend takes a GradStore, got {type(other).__name__}")
        sums = {}
        for id, grad in other._grads.items():
            mine = self._grads.get(id)
            if mine is not None and (mine._shape, mine._array.dtype) != (grad._shape, grad._array.dtype):
                raise ValueError(f"the two gradients of tensor {id} do not fit: {mine.label} and {grad.label}")
            total = grad if mine is None else mine + grad
            sums[id] = total.detach() if mine is not None and (self._cuts_sums or other._cuts_sums) else total
        self._grads.update(sums)

    def __repr__(self) -> str:
        return "GradStore({" + ", ".join(f"{id}: {grad!r}" for id, grad in self._grads.items()) + "})"


def _check(tensor) -> Node:
    if not isinstance(tensor, Node):
        raise TypeError(f"a gradient store is indexed by a Tensor, not by {type(tensor).__name__}")
    return tensor
