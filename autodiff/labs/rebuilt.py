"""A recorded graph again, with some of its rules replaced or some of its edges cut."""

from __future__ import annotations

from ..graph import CUT, PATH, Node, reachable
from ..recording import constant, record


def rebuilt(root: Node, other=lambda node: None, cut=frozenset()) -> dict[Node, Node]:
    """Each node on a path from `root` to a Var -> its copy; leaves, which have no history, are their own.

    `other(node)`: the rule and the params to use instead, or None. `cut`: (node, slot) pairs; in the copy, that operand
    is a constant. Values stay as they are, so nothing is computed again.
    """
    copies: dict[Node, Node] = {}
    for node in reversed(reachable(root)):
        if node._rule is None:
            copies[node] = node
            continue
        rule, params = other(node) or (node._rule, node._params)
        inputs = tuple(
            constant(t._array) if (node, slot) in cut else copies.get(t, t) if isinstance(t, Node) else t
            for slot, t in enumerate(node._inputs)
        )
        partials = rule.partials_for(inputs) if rule.differentiable else (None,) * len(inputs)
        leads = any(p is not None and isinstance(t, Node) and t._role == PATH for p, t in zip(partials, inputs))
        copies[node] = record(rule, node._array, inputs, node._values, params, PATH if leads else CUT)
    return copies
