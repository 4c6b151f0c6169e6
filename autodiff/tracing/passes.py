"""The backward pass once more, event by event: the same steps as `backward`, each one told."""

from __future__ import annotations

import sys

import numpy as np

from .. import backward as engine
from ..graph import CUT, PATH, Node, is_floating, sorted_nodes
from ..recording import constant
from ..rules import identity
from ..gradstore import GradStore


def tensor_pass(root, tell, cotangent, wrt, keep, detach, strong_zero, *, zeros=False, only_vars=False) -> GradStore:
    """Do what `root.backward(...)` does, and tell each event: ``tell(kind, node, slot, value, ...)``.

    `stored`: (node, what its slot holds now, or None when it was taken out); None when the store stays as it is.
    `zeros`: slots start from zeros, and a first share is added to them. `only_vars`: plain tensors get no gradient.
    """
    if detach not in ("all", "taken", "none"):
        raise ValueError(f"detach={detach!r}: expected 'all', 'taken' or 'none'")
    engine._check_floating(root, "the root of a backward pass")
    targets = None if wrt is None else engine._targets(wrt, "wrt")
    stay = set(engine._targets(keep, "keep")) | set(targets or ())
    order = sorted_nodes(root, targets)
    asked = None if targets is None else frozenset(t._id for t in targets)
    needed = None if targets is None else set(order)
    if needed is not None and root not in needed:
        tell("skip", root, None, reason="none of the tensors in wrt= is reached from it")
        return GradStore._of({}, root, asked)
    slots = {root: engine._seed(root, cotangent, differentiable=detach != "all")}
    tell("seed", root, None, slots[root], stored=(root, slots[root]))
    token = engine.strong_zeros.set(strong_zero)  # checkpoints within the pass ask for it
    try:
        _hand_on(order, slots, tell, needed, stay, detach, strong_zero, zeros, only_vars)
    finally:
        engine.strong_zeros.reset(token)
    return GradStore._of(slots, root, asked)


def _hand_on(order, slots, tell, needed, stay, detach, strong_zero, zeros, only_vars) -> None:
    """What `propagate` of the engine does."""
    arrays, owned = detach == "all", set()
    for node in order:
        rule = node._rule
        if rule is None:
            continue
        g = slots.pop(node, None)
        if g is None:
            tell("skip", node, None, reason="no rule gave it a gradient")
            continue
        if node in stay:
            slots[node] = g
        if detach == "taken":
            g = g.detach()
        tell("take", node, None, g, stored=(node, g if node in stay else None))
        inputs, params = node._inputs, node._params
        if arrays:
            y, operands = node._array, [t._array if isinstance(t, Node) else t for t in inputs]
        else:
            y, operands = node, inputs
        for slot, (partial, t) in enumerate(zip(rule.partials_for(inputs), inputs)):
            if not isinstance(t, Node):
                continue
            wanted = t._role == PATH if only_vars else t._role if needed is None else t in needed
            if partial is None or not wanted:
                tell("skip", node, slot, reason=_why(partial, t, needed))
                continue
            tell("rule", node, slot, g)
            total = slots.get(t)
            if total is None and zeros:
                total = np.zeros(t._shape, t._array.dtype)
                total = total if arrays else constant(total)
            if arrays and rule.into is not None and not engine._detecting.get():
                share = np.zeros(t._shape, t._array.dtype)
                rule.into(share, g, **params)
                tell("contribution", node, slot, share)
                after = np.zeros(t._shape, t._array.dtype) if total is None else np.array(total)
                rule.into(after, g, **params)
                owned.add(t)
            else:
                share = g if partial is identity else partial(g, y, *operands, **params)
                if share is None:
                    tell("skip", node, slot, reason="the rule returned None")
                    continue
                if not arrays and not isinstance(share, Node):
                    share = constant(share)
                if strong_zero and rule.elementwise:
                    share = engine._strong_zero(g, share)
                if engine._detecting.get():
                    engine._check_finite(share, node, t)
                tell("contribution", node, slot, share)
                after = share if total is None else _sum(total, share, arrays, t in owned)
                if total is not None:
                    owned.add(t)
                if engine._detecting.get():
                    engine._check_finite(after, node, t, engine.SUMMED)
            slots[t] = after
            tell("accumulate", node, slot, share, before=total, stored=(t, after))


def _sum(total, share, arrays: bool, owned: bool):
    """`total + share` as `backward` adds it, but in a new array: earlier steps still hold the old one."""
    if arrays and owned:
        after = np.array(total)
        after += share
        return after
    return np.asarray(total + share) if arrays else total + share


def _why(partial, t: Node, needed) -> str:
    if partial is None:
        return "the rule has no partial for this operand"
    if not is_floating(t._array.dtype):
        return f"it holds {t._array.dtype}"
    if t._rule is not None and not t._rule.differentiable:
        return f"the slope of {t._rule.name} is 0 here"
    if t._role == CUT:
        return "it leads to no Var"
    return "it is no Var, and only those get a gradient here" if needed is None else "it leads to none of wrt="


def scalar_pass(root, tell) -> dict:
    """The same for `autodiff.scalar`, where gradients stay on the nodes: nothing is taken out. Node -> gradient."""
    scalar = sys.modules["autodiff.scalar"]
    grads = {root: 1.0}
    tell("seed", root, None, 1.0, stored=(root, 1.0))
    for node in scalar.sorted_nodes(root):
        if not node.op:
            continue
        g = grads[node]
        tell("take", node, None, g, stored=(node, g))
        numbers = [x.data if isinstance(x, scalar.Value) else float(x) for x in node.inputs]
        for slot, x in enumerate(node.inputs):
            if not isinstance(x, scalar.Value):
                continue
            tell("rule", node, slot, g)
            share = scalar.RULES[node.op][slot + 1](g, node.data, *numbers)
            tell("contribution", node, slot, share)
            before = grads.get(x)
            grads[x] = share if before is None else before + share
            tell("accumulate", node, slot, share, before=before, stored=(x, grads[x]))
    return grads
