"""Checkpointing: keep a function's inputs and output, and compute what lies between once more when it is needed."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .backward import propagate, running
from .graph import Node, captured, differentiable_inputs, is_floating
from .recording import NO_PARAMS, alias, constant, frozen, new_id, record, recording
from .rules import Rule
from .structure import leaves, rebuilt
from .tensor import Tensor


def checkpoint(f: Callable) -> Callable:
    """The same function with a graph of one node: its interior values are dropped, and recomputed in the backward pass.

    The gradients are the same, also of tracked tensors that `f` captures, also to second order, and checkpoints may be
    nested. `f` takes tensors, arrays or anything else and returns one Tensor, else TypeError; it must compute the same
    value from the same tensors when called again, else RuntimeError in the backward pass.

    >>> import numpy as np, autodiff as ad
    >>> x = ad.Var(0.5)
    >>> y = ad.checkpoint(lambda x: np.sin(np.exp(x)))(x)
    >>> y.op.name, len(ad.sorted_nodes(y)), y.backward()[x]
    ('checkpoint', 2, Tensor(-0.12834653))
    """

    @functools.wraps(f)
    def checkpointed(*args, **kwargs):
        if not recording.get():
            return f(*args, **kwargs)
        start = new_id()
        own, given = [_alias(a) for a in args], kwargs
        args, kwargs = _kept([list(args), kwargs])
        value = f(*own, **given)
        if not isinstance(value, Tensor):
            name = getattr(f, "__name__", "the function")
            raise TypeError(f"checkpoint: {name} must return one Tensor, got {type(value).__name__}; "
                            "checkpoint several results one by one, or stack them")  # fmt: skip
        if not value.tracked or value.id < start:
            return value
        outside = _outside(start, value, own)
        tensors = [(i, a) for i, a in enumerate(args) if isinstance(a, Node)]
        inputs = (*(a for _, a in tensors), *outside)
        again = functools.partial(_shares, f, args, [i for i, _ in tensors], outside, kwargs)
        rule = Rule(_no_forward, joint=again, name="checkpoint")
        values = tuple(t._array for t in inputs)
        return record(rule, value._array, inputs, values, NO_PARAMS, value._role)

    return checkpointed


def _no_forward(*values):
    raise TypeError("a checkpoint is run by calling the function again")


def _kept(tree):
    """A structure like this, safe from later writes to lists, dicts and arrays in it."""
    return rebuilt(tree, iter([frozen(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves(tree)]))


def _outside(start: int, value: Node, own) -> tuple[Node, ...]:
    """The older tensors that `value` was computed from since `start`, other than by way of the arguments `own`."""
    return tuple(t for t in captured(start, [value], (t for t in own if isinstance(t, Node))) if t._role)


def _alias(x):
    """A node of its own for an argument, so that its uses inside are told from its uses outside."""
    if not isinstance(x, Node):
        return x
    return alias(x) if x.tracked else constant(x._array)


def _shares(f, args, positions, outside, kwargs, g, y, *operands):
    """Run `f` again, recorded, and pull the cotangent `g` back to the tensors among its arguments and to `outside`."""
    constants = not isinstance(g, Node)
    token = recording.set(True)
    try:
        start = new_id()
        args, kwargs = rebuilt([args, kwargs], iter(leaves([args, kwargs])))  # `f` may write to lists and dicts
        for i in positions:
            args[i] = _alias(args[i])
        value = f(*args, **kwargs)
        expected = y if constants else y._array
        if value._shape != expected.shape or not np.array_equal(value._array, expected, equal_nan=True):
            raise RuntimeError(
                "a checkpointed function gave another value when it was run again: it must depend on its arguments "
                "and captured tensors only. Pass random numbers in as arguments"
            )
        found = _outside(start, value, args)
        if not {*outside} <= {*found} or any([t.tracked for t in {*found} - {*outside}]):
            raise RuntimeError(
                "a checkpointed function captured other tensors when it was run again: a variable that it uses has "
                "another value now (as that of a loop has), or it keeps results from one call to the next. Pass such "
                "tensors in as arguments"
            )
        targets = [*(args[i] for i in positions), *outside]
        order = _newer(value, start, set(args[i] for i in positions))
        slots = {value: g}
        propagate(order, slots, needed={*order, *targets}, stay={*targets}, detach="all" if constants else "none",
                  **(running.get() or {}))  # fmt: skip
        return [slots.get(t) for t in targets]
    finally:
        recording.reset(token)


def _newer(root: Node, start: int, leaves: set) -> list[Node]:
    """The nodes made since `start` that `root` leads to on differentiable paths, users first, without the leaves."""
    found, seen = [root], {root}
    for node in found:
        for t in differentiable_inputs(node):
            if t._id > start and t not in seen and t not in leaves and is_floating(t._array.dtype):
                seen.add(t)
                found.append(t)
    return sorted(found, key=lambda t: -t._id)
