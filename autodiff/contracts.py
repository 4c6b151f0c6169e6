"""Four life-cycles of gradients around one engine.

The same derivatives, and four answers to what happens around them: where a gradient is kept, for how long, and whether
a second backward adds, repeats or fails. Each class has `backward(loss, **what_that_system_offers)`, `grad(t)`, which
is an array or None, and `clear()`; ``ad.trace(loss, contract=c)`` tells a backward step by step. What each must do was
observed on PyTorch 2 and read in the sources of candle 0.11 and burn 0.22.

>>> import autodiff as ad
>>> for life_cycle in (ad.contracts.candle, ad.contracts.pytorch, ad.contracts.reset):
...     x, y, c = ad.Var(3.0), ad.Var(2.0), life_cycle()
...     for _ in range(2):
...         u = x * y + x
...         _ = c.backward(u * u)
...     print(life_cycle.__name__, c.grad(x))
candle 54.0
pytorch 108.0
reset 54.0
"""

from __future__ import annotations

import numpy as np

from .backward import backward
from .graph import Node, sorted_nodes
from .gradstore import GradStore
from .rules import RULES, Rule, is_basic
from .rules.helpers import expand
from .rules.nn import relu
from .tensor import Tensor, Var


class _LifeCycle:
    """What the four have in common: the gradients at hand, by tensor id."""

    def __init__(self):
        self._grads: dict[int, np.ndarray] = {}

    def grad(self, t: Tensor) -> np.ndarray | None:
        """The gradient this system would show for `t` now, or None."""
        return self._grads.get(t.id)

    def clear(self) -> None:
        """Forget all gradients."""
        self._grads = {}

    def detach(self, t: Tensor) -> Tensor:
        """`t` cut off from its history, as this system cuts."""
        return t.detach()


def _to_each_winner(g, y, a, axis=None, keepdims=False, ties="split", saved=None):
    """The cotangent of a reduction's operand: each winner gets all of it, unless the call chose another convention."""
    return expand(g if ties == "split" else g / saved[1], a, axis, keepdims) * saved[0]


class candle(_LifeCycle):
    """candle's: each backward returns a new store, with every Var reached and every plain direct input.

    Slots start from zeros, and a gradient taken out of the store is cut (`detach=False` keeps all of them whole), so
    what is left may or may not have a graph: see `store`. Where stores are merged by `extend`, sums are cut too. At a
    tie the reductions `max` and `min` give each winner all of the gradient; `abs` and `relu` have slope 1 at 0.
    """

    RULES = {
        **{RULES[f]: Rule(f, [_to_each_winner]) for f in (np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin)},
        RULES[np.absolute]: Rule(np.absolute, [lambda g, y, a: g * np.where(a >= 0, 1, -1).astype(a.dtype)]),
        RULES[relu]: Rule(relu, [lambda g, y, a: g * (a >= 0)]),
    }

    def __init__(self):
        super().__init__()
        self.store = GradStore()

    def backward(self, loss: Tensor, *, detach: bool = True) -> GradStore:
        """The gradients of the sum of the entries of `loss`, in a new store.

        A leaf whose custom op returns None is absent; an interior node that gets nothing but None is a RuntimeError.
        """
        order = sorted_nodes(loss)
        reached = backward(loss, keep=order)
        for node in order:
            if node.op is not None and node not in reached:
                raise RuntimeError(f"no rule gave a gradient to {node.label}, and an interior node has to have one")
        self.store = backward(loss, detach="taken" if detach else "none", zeros=True, rules=self.RULES)
        self.store._cuts_sums = detach
        self._grads = {id: self.store._grads[id].data for id in self.store.ids()}
        return self.store

    def clear(self) -> None:
        super().clear()
        self.store = GradStore()


class pytorch(_LifeCycle):
    """PyTorch's: gradients add up on the leaves until cleared, and a backward frees what the graph had saved.

    A second backward over the same graph is a RuntimeError where a freed value is needed (x*x) and works where none is
    (x+x), or with `retain_graph=True`. A non-scalar loss needs a `gradient`. Interior nodes have a gradient after
    `retain_grad`.

    Two differences are left. This engine never goes into x*0, so x has None where PyTorch has zeros; and here `diag`,
    `trace` and `repeat` are an index of arrays, which counts as saved, and in PyTorch they save nothing.
    """

    # Functions whose backward needs no value that PyTorch saves.
    SAVE_NOTHING = frozenset(
        "add subtract negative positive sum mean broadcast reshape ravel squeeze expand_dims transpose swapaxes "
        "moveaxis concatenate remainder index flip roll copy astype cumsum triu tril".split()
    )

    def __init__(self):
        super().__init__()
        self._freed: set[int] = set()
        self._retained: set[int] = set()

    def backward(self, loss: Tensor, gradient=None, *, retain_graph: bool = False) -> None:
        """Add the gradients of `loss` to those of the leaves, and to those of retained nodes."""
        if not loss.tracked:
            raise RuntimeError(f"{loss.label} does not require grad: it has no history")
        if gradient is None and loss.size != 1:
            raise RuntimeError(f"a gradient can be left out for scalar outputs only, and {loss.label} is none")
        order = sorted_nodes(loss)
        for node in order:
            if node.id in self._freed and self._saved(node):
                raise RuntimeError(f"backward through {node.label} a second time: the values it had saved were freed. "
                                   "Use retain_graph=True the first time")  # fmt: skip
        kept = [t for t in order if t.id in self._retained]
        store = backward(loss, gradient, keep=kept)
        for t in order:
            if t in store and (t.is_variable or t.id in self._retained):
                g, old = store[t].data, self._grads.get(t.id)
                self._grads[t.id] = g if old is None else np.asarray(old + g)
        if not retain_graph:
            self._freed.update(t.id for t in order if t.op is not None)

    def _saved(self, node: Node) -> bool:
        """Whether PyTorch saves values for the backward of this function; an index of arrays is a value too."""
        if node.op.name in ("index", "put"):
            return not is_basic(node.op.params["key"])
        if node.op.name == "einsum":  # of one operand it only moves and adds
            return len(node.op.inputs) > 1
        return node.op.name not in self.SAVE_NOTHING

    def retain_grad(self, t: Tensor) -> None:
        """Keep the gradient of this interior node from now on."""
        if not t.tracked:
            raise RuntimeError(f"{t.label} does not require grad, so there is none to retain")
        self._retained.add(t.id)


class burn(_LifeCycle):
    """burn's: a backward consumes its graph; a new container has the gradients of required tensors (Vars) only.

    A second backward over the same graph, one from a loss without history, and a custom op that returns None is a
    RuntimeError.
    """

    def __init__(self):
        super().__init__()
        self._consumed: set[int] = set()

    def backward(self, loss: Tensor) -> None:
        """The gradients of the sum of the entries of `loss`, in place of those of the last backward."""
        if not loss.tracked:
            raise RuntimeError(f"{loss.label} has no history: there is nothing to differentiate")
        order = sorted_nodes(loss)
        if any(t.id in self._consumed for t in order):
            raise RuntimeError(f"the tape of {loss.label} has been consumed by an earlier backward: compute it again")
        store = backward(loss, keep=order)
        for t in order:
            if t not in store:
                raise RuntimeError(f"no rule gave a gradient to {t.label}, and every node of the tape has to have one")
        self._grads = {t.id: store[t].data for t in order if t.is_variable}
        self._consumed.update(t.id for t in order if t.op is not None)

    def detach(self, t: Tensor) -> Tensor:
        """The history is cut, but a required tensor stays required."""
        return Var(t.data) if t.is_variable else t.detach()


class reset(_LifeCycle):
    """A small scalar engine's: each backward first zeroes every node it reaches, interior ones too, then adds.

    Nodes outside the new graph keep their numbers. Scalars only; a value or gradient that is not finite is refused
    before anything is written.
    """

    def backward(self, loss: Tensor) -> None:
        """The gradients of `loss` on every node it was computed from."""
        if loss.size != 1:
            raise ValueError(f"this engine knows scalars only, and {loss.label} has {loss.size} entries")
        order = sorted_nodes(loss) or [loss]
        for t in order:
            if not np.isfinite(t._array).all():
                raise FloatingPointError(f"{t.label} holds {t.item()}: values must be finite")
        store = backward(loss, keep=order)
        grads = {t.id: store[t].data for t in order if t in store}
        for t in order:
            if t.id in grads and not np.isfinite(grads[t.id]).all():
                raise FloatingPointError(f"the gradient of {t.label} is {grads[t.id].item()}: gradients must be finite")
        self._grads.update(grads)
