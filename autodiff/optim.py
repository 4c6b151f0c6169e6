"""Optimisers: they read a gradient store and give Vars new values."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .gradstore import GradStore
from .tensor import Var


class _Optimiser:
    """Checks, then updates: when something does not fit, no Var has changed."""

    def __init__(self, params: Iterable[Var], lr: float):
        self.params = [params] if isinstance(params, Var) else list(params)
        for p in self.params:
            if not isinstance(p, Var):
                raise TypeError(f"an optimiser changes Vars, got {type(p).__name__}")
        if len(set(self.params)) != len(self.params):
            raise ValueError("a Var is listed twice: it would be updated twice")
        if isinstance(lr, bool) or not isinstance(lr, (int, float, np.integer, np.floating)):
            raise TypeError(f"lr is a number, got {type(lr).__name__}")
        if not lr >= 0:
            raise ValueError(f"lr must not be negative, got {lr}")
        self.lr = float(lr)

    def step(self, grads: GradStore) -> None:
        """Update every Var that has a gradient in `grads`; the others keep their values and their state."""
        found = [(p, grads.get(p)) for p in self.params]
        found = [(p, g._array) for p, g in found if g is not None]
        for p, g in found:
            if g.shape != p.shape:
                raise ValueError(f"the gradient of {p.label} has shape {g.shape}")
        updates = [(p, np.asarray(new)) for p, new in self._updates(found)]
        for p, new in updates:
            p._replace(new)


class SGD(_Optimiser):
    """Gradient descent: p ← p - lr·g.

    `params`: Vars. `lr`: the learning rate. TypeError when a parameter is not a Var.

    >>> import autodiff as ad
    >>> w = ad.Var([1.0, 2.0])
    >>> ad.optim.SGD([w], lr=0.5).step((w * w).sum().backward())
    >>> w
    Var([0., 0.])
    """

    def __init__(self, params: Iterable[Var], lr: float = 0.01):
        super().__init__(params, lr)

    def _updates(self, found):
        return [(p, (p._array - self.lr * g).astype(p.dtype, copy=False)) for p, g in found]


class AdamW(_Optimiser):
    """Adam with decoupled weight decay (Loshchilov and Hutter, https://arxiv.org/abs/1711.05101).

    With t the number of steps: m ← β₁m + (1-β₁)g, v ← β₂v + (1-β₂)g², and
    p ← p·(1 - lr·weight_decay) - lr·(m/(1-β₁ᵗ)) / (√(v/(1-β₂ᵗ)) + eps).
    `params`: Vars. Defaults are PyTorch's. TypeError when a parameter is not a Var.

    >>> import autodiff as ad
    >>> w = ad.Var([1.0, 2.0])
    >>> ad.optim.AdamW([w], lr=0.5, weight_decay=0.0).step((w * w).sum().backward())
    >>> w
    Var([0.5, 1.5])
    """

    def __init__(self, params: Iterable[Var], lr: float = 0.001, betas: tuple[float, float] = (0.9, 0.999),
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
