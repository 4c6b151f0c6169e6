"""Optimisers: they read gradients and give Vars new values."""

from __future__ import annotations

import numpy as np

from .gradstore import GradStore
from .graph import Node
from .outside import plain
from .structure import rebuilt, walk
from .tensor import Var


class _Optimiser:
    """Checks, then updates: when something does not fit, no Var has changed."""

    def __init__(self, params, lr: float):
        tree = params if isinstance(params, (Var, tuple, list, dict)) else list(params)
        named = dict(walk(tree, "params"))
        for name, p in named.items():
            if not isinstance(p, Var):
                raise TypeError(f"an optimiser changes Vars, but {name} is a {type(p).__name__}; use ad.Var")
        seen: dict[Var, str] = {}
        for name, p in named.items():
            if seen.setdefault(p, name) != name:
                raise ValueError(f"{seen[p]} and {name} are one Var: it would be updated twice")
        if isinstance(lr, bool) or not isinstance(lr, (int, float, np.integer, np.floating)):
            raise TypeError(f"lr is a number, got {type(lr).__name__}")
        if not lr >= 0:
            raise ValueError(f"lr must not be negative, got {lr}")
        self.params, self.lr = list(named.values()), float(lr)
        self._tree = rebuilt(tree, iter(self.params))  # whatever takes the place of these Vars

    def step(self, grads) -> None:
        """Update every Var that has a gradient in `grads`; the others keep their values and their state.

        `grads`: a `GradStore`, or gradients in the structure of the parameters, as `ad.grad` gives them; None for
        "no gradient".
        """
        if isinstance(grads, GradStore):
            found = [(name, p, grads.get(p)) for name, p in walk(self._tree, "params")]
        else:
            found = list(walk(self._tree, "params", grads))
        found = [(name, p, g._array if isinstance(g, Node) else np.asarray(plain(g, f"the gradient of {name}")))
                 for name, p, g in found if g is not None]  # fmt: skip
        for name, p, g in found:
            if g.shape != p.shape:
                raise ValueError(f"the gradient of {name} has shape {g.shape}, but {name} has shape {p.shape}")
            if g.dtype.kind != "f":
                raise TypeError(f"the gradient of {name} holds {g.dtype}; gradients are floating")
        updates = [(p, np.asarray(new)) for p, new in self._updates([(p, g) for _, p, g in found])]
        for p, new in updates:
            p._replace(new)


class SGD(_Optimiser):
    """Gradient descent: p ← p - lr·g.

    `params`: Vars, also in nested tuples, lists and dicts. `lr`: the learning rate. TypeError when one is not a Var.

    >>> import autodiff as ad
    >>> params = {"w": ad.Var([1.0, 2.0])}
    >>> ad.optim.SGD(params, lr=0.5).step((params["w"] ** 2).sum().backward())
    >>> params
    {'w': Var([0., 0.])}
    """

    def __init__(self, params, lr: float = 0.01):
        super().__init__(params, lr)

    def _updates(self, found):
        return [(p, (p._array - self.lr * g).astype(p.dtype, copy=False)) for p, g in found]


class AdamW(_Optimiser):
    """Adam with decoupled weight decay (Loshchilov and Hutter, https://arxiv.org/abs/1711.05101).

    With t the number of steps: m ← β₁m + (1-β₁)g, v ← β₂v + (1-β₂)g², and
    p ← p·(1 - lr·weight_decay) - lr·(m/(1-β₁ᵗ)) / (√(v/(1-β₂ᵗ)) + eps).
    `params`: Vars, also in nested tuples, lists and dicts. Defaults are PyTorch's. TypeError when one is not a Var.

    >>> import autodiff as ad
    >>> w = ad.Var([1.0, 2.0])
    >>> ad.optim.AdamW([w], lr=0.5, weight_decay=0.0).step((w * w).sum().backward())
    >>> w
    Var([0.5, 1.5])
    """

    def __init__(self, params, lr: float = 0.001, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.01):  # fmt: skip
        super().__init__(params, lr)
        if not all(0 <= b < 1 for b in betas):
            raise ValueError(f"betas must lie in [0, 1), got {betas}")
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self._state: dict[Var, tuple] = {}

    def _updates(self, found):
        updates, state = [], {}
        b1, b2 = self.betas
        for p, g in found:
            t, m, v = self._state.get(p, (0, np.zeros_like(g), np.zeros_like(g)))
            t, m, v = t + 1, b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
            state[p] = (t, m, v)
            move = self.lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + self.eps)
            new = p._array * (1 - self.lr * self.weight_decay) - move
            updates.append((p, new.astype(p.dtype, copy=False)))
        self._state.update(state)
        return updates
