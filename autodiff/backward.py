"""The backward pass: visit the nodes users first, and hand each one's cotangent on to its inputs by its rule."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter
from collections.abc import Iterable

import numpy as np

from .gradstore import GradStore
from .explain import Pass
from .graph import Node, is_floating, leading_to, reachable
from .outside import plain
from .recording import constant
from .rules import identity

_detecting = ContextVar("detect_nonfinite", default=False)
GIVEN, RETURNED = "the cotangent given to backward holds {value}", "the rule of {op} returned {value}"
SUMMED = "adding the share of {op} gave {value}"
_lost = ContextVar("history_lost", default=None)
running = ContextVar("running", default=None)  # options of the pass that is running, for checkpoints within it


@contextmanager
def detect_nonfinite():
    """Within this context, the first NaN or infinity in a gradient raises FloatingPointError, naming where it arose.

    >>> import numpy as np, autodiff as ad
    >>> x = ad.Var([0.0, 1.0], name="x")
    >>> with ad.detect_nonfinite(), np.errstate(divide="ignore"):
    ...     np.sqrt(x).sum().backward()
    Traceback (most recent call last):
    ...
    FloatingPointError: the rule of sqrt returned inf at index (0,) as the cotangent of Var 'x' of shape (2,) (id ...
    """
    before = _detecting.get()
    _detecting.set(True)
    try:
        yield
    finally:
        _detecting.set(before)  # not reset: a generator may end in another context than it began in


@contextmanager
def history_lost():
    """Within this context: a list of the tracked cotangents that partials returned where arrays were wanted."""
    token = _lost.set(lost := [])
    try:
        yield lost
    finally:
        _lost.reset(token)


def as_constant(share: Node) -> np.ndarray:
    """The array of a cotangent that a partial returned as a Tensor, where gradients are arrays."""
    if share.tracked and _lost.get() is not None:
        _lost.get().append(share)
    return share._array


def backward(
    root: Node,
    cotangent=None,
    *,
    wrt: Iterable[Node] | None = None,
    keep: Iterable[Node] = (),
    detach: str = "all",
    strong_zero: bool = False,
    zeros: bool = False,
    rules: dict | None = None,
    watch=None,
) -> GradStore:
    """The gradients of ``(cotangent * root).sum()``; `Tensor.backward` and `propagate` document the arguments."""
    if detach not in ("all", "taken", "none"):
        raise ValueError(f"detach={detach!r}: expected 'all', 'taken' or 'none'")
    _check_floating(root, "the root of a backward pass")
    targets = None if wrt is None else _targets(wrt, "wrt")
    stay = {t for t in (*(_targets(keep, "keep") if keep else ()), *(targets or ())) if t._rule is not None}
    ends: list = []
    order, needed = (reachable(root, ends=ends), None) if targets is None else leading_to(set(targets), root, ends)
    slots = {root: _seed(root, cotangent, differentiable=detach != "all")}
    asked = None if targets is None else frozenset(map(attrgetter("_id"), targets))
    made_by = Pass(root, order, ends, asked, stay if asked is None else ())
    reached = needed is None or root in needed
    if watch is not None:
        watch.seed(root, slots[root] if reached else None)
    if not reached:
        return GradStore._of({}, made_by)
    options = {"strong_zero": strong_zero, "rules": rules}
    token = running.set(options)
    try:
        propagate(order, slots, needed=needed, stay=stay, detach=detach, zeros=zeros, watch=watch, **options)
    finally:
        running.reset(token)
    return GradStore._of(slots, made_by)


def propagate(order, slots, *, needed=None, stay=(), detach="all", strong_zero=False, zeros=False, rules=None,
              watch=None) -> None:  # fmt: skip
    """Take each node's cotangent out of its slot, and add its inputs' shares to their slots.

    Gradients that will be constants are arrays, and rules run on arrays. Gradients that must be differentiable are
    Tensors, and the same rules run on Tensors. A share may be an array that something else holds too, so it is never
    written to; a sum of shares belongs to its slot alone, so further shares are added to it in place.
    `needed`: the nodes that get a gradient, or None for all that can have one; `stay`: those that keep it. Leaves do.
    `rules`: a dict of rules and what takes their place in this pass.
    `zeros`: a first share is added to zeros, as candle does. `watch`: an object whose methods seed, take, skip and
    share are told what happens; nothing is added in place then, so it may keep what it is given.
    """
    arrays, taken, detecting = detach == "all", detach == "taken", _detecting.get()
    careful, in_place = not arrays or strong_zero or detecting, arrays and watch is None
    tensor, ndarray = Node.kind, np.ndarray
    owned = set()  # nodes whose slot holds a sum
    for node in order:
        rule = node._rule
        if rule is None:  # a leaf keeps its gradient
            continue
        if rules is not None:
            rule = rules.get(rule, rule)
        g = slots.pop(node, None)
        if watch is not None:
            watch.take(node, g, node in stay)
        if g is None:  # every rule on the way here said "no gradient"
            continue
        if stay and node in stay:
            slots[node] = g
        if taken:
            g = g.detach()
        for partial, t in zip(rule.partials or rule.partials_for(node._inputs), node._inputs):
            if partial is None or not isinstance(t, tensor) or not (t._role if needed is None else t in needed):
                if watch is not None:
                    watch.skip(partial, t)
                continue
            total = slots.get(t)
            if rule.into is not None and in_place and not detecting:
                if t not in owned:
                    total = slots[t] = np.zeros(t._shape, t._array.dtype) if total is None else np.array(total)
                    owned.add(t)
                rule.into(total, g, **node._params)
                continue
            if partial is identity:
                share = g
            elif arrays:
                share = partial(g, node._array, *node._values, **node._params)
            else:
                share = partial(g, node, *node._inputs, **node._params)
            if share is None:
                if watch is not None:
                    watch.share(t, g, None, total, total)
                continue
            if careful:
                share = share if arrays or isinstance(share, tensor) else constant(share)
                share = _strong_zero(g, share) if strong_zero and rule.elementwise else share
                if detecting:
                    _check_finite(share, node, t)
            if total is None and zeros:
                total = _zeros(t, arrays)
            if total is None:
                slots[t] = share
            elif in_place and t in owned:
                total += share
            else:
                after = total + share
                slots[t] = np.asarray(after) if arrays and after.__class__ is not ndarray else after
                owned.add(t)
            if detecting:
                _check_finite(slots[t], node, t, SUMMED)
            if watch is not None:
                watch.share(t, g, share, total, slots[t])


def _zeros(t: Node, arrays: bool):
    zeros = np.zeros(t._shape, t._array.dtype)
    return zeros if arrays else constant(zeros)


def _strong_zero(g, share):
    """`share`, with 0 where the cotangent is exactly 0 and the slope is not finite."""
    values, shares = (v._array if isinstance(v, Node) else v for v in (g, share))
    lost = (values == 0) & ~np.isfinite(shares)
    return np.where(lost, 0, share) if np.any(lost) else share


def _seed(root: Node, cotangent, differentiable: bool):
    shape, dtype = root._shape, root._array.dtype
    if cotangent is None:
        seed = np.empty(shape, dtype)
        seed.fill(1)
        return constant(seed) if differentiable else seed
    if not isinstance(cotangent, Node):
        weak = isinstance(cotangent, (int, float))
        cotangent = constant(np.array(plain(cotangent, "backward"), dtype if weak else None))
    if cotangent._shape != shape:
        raise ValueError(f"the cotangent of {root.label} must have its shape {shape}, got {cotangent._shape}")
    if cotangent._array.dtype != dtype:
        raise TypeError(f"the cotangent of {root.label} must have its dtype {dtype}, got {cotangent._array.dtype}; "
                        f"convert it with .astype({dtype.name!r})")  # fmt: skip
    if _detecting.get():
        _check_finite(cotangent, root, root, GIVEN)
    if not differentiable:
        return cotangent._array
    return np.copy(cotangent) if cotangent.is_variable else cotangent  # a later set must not change a gradient


def _targets(tensors: Iterable[Node], argument: str) -> list[Node]:
    tensors = [tensors] if isinstance(tensors, Node) else list(tensors)
    for t in tensors:
        if not isinstance(t, Node):
            raise TypeError(f"{argument}= takes Tensors, got {type(t).__name__}")
        _check_floating(t, f"a tensor in {argument}=")
    return tensors


def _check_floating(t: Node, what: str) -> None:
    if not is_floating(t._array.dtype):
        raise TypeError(f"{what} must be floating, but {t.label} holds {t._array.dtype}; convert it with "
                        ".astype('float64') before the computation")  # fmt: skip


def _check_finite(share, node: Node, t: Node, what: str = RETURNED) -> None:
    values = np.asarray(share._array if isinstance(share, Node) else share)
    bad = ~np.isfinite(values)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        inputs = ", ".join(i.label if isinstance(i, Node) else repr(i) for i in node._inputs)
        found = what.format(op=node._rule and node._rule.name, value=values[index])
        raise FloatingPointError(f"{found} at index {index} as the cotangent of {t.label}; the node is {node.label}, "
                                 f"its inputs are {inputs or 'none'}")  # fmt: skip
