"""What a backward pass tells while it runs, as events."""

from __future__ import annotations

import itertools
import sys

from ..graph import CUT, Node, is_floating


class Teller:
    """What `propagate` tells, as events of a trace: ``tell(kind, node, slot, value, ...)``.

    `stored`: (node, what its slot holds now, or None when it was taken out); None when the store stays as it is.
    """

    def __init__(self, tell, why_unwanted: str = "it leads to none of wrt="):
        self.tell, self.why_unwanted = tell, why_unwanted

    def seed(self, root, g) -> None:
        if g is None:
            self.tell("skip", root, None, reason="none of the tensors in wrt= is reached from it")
        else:
            self.tell("seed", root, None, g, stored=(root, g))

    def take(self, node, g, stays: bool) -> None:
        self.node, self.slots = node, itertools.count()
        if g is None:
            self.tell("skip", node, None, reason="no rule gave it a gradient")
        else:
            self.tell("take", node, None, g, stored=(node, g if stays else None))

    def skip(self, partial, t) -> None:
        slot = next(self.slots)
        if isinstance(t, Node):
            self.tell("skip", self.node, slot, reason=self._why(partial, t))

    def share(self, t, g, share, before, after) -> None:
        slot = next(self.slots)
        self.tell("rule", self.node, slot, g)
        if share is None:
            self.tell("skip", self.node, slot, reason="the rule returned None")
            return
        self.tell("contribution", self.node, slot, share)
        self.tell("accumulate", self.node, slot, share, before=before, stored=(t, after))

    def _why(self, partial, t: Node) -> str:
        if partial is None:
            return "the rule has no partial for this operand"
        if not is_floating(t._array.dtype):
            return f"it holds {t._array.dtype}"
        if t._rule is not None and not t._rule.differentiable:
            return f"the slope of {t._rule.name} is 0 here"
        return "it leads to no Var" if t._role == CUT else self.why_unwanted


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
