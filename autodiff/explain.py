"""Why a gradient is missing: told from the graph, when somebody asks for it."""

from __future__ import annotations

from .graph import PATH, Node, differentiable_inputs, is_floating, reachable

REMOVED = "it was removed from the store."


def why_missing(root, wrt, tensor: Node) -> str:
    """Why a store has no gradient for `tensor`: `root` is a weak reference to the root of its backward pass."""
    if root is None:
        return "nothing was stored for it here."
    root = root()
    if not is_floating(tensor._array.dtype):
        return f"it holds {tensor._array.dtype}, and only floating tensors have gradients."
    if root is None:
        return "this backward pass did not leave one (its graph is gone by now, so there is no telling why)."
    if wrt is not None and tensor._id not in wrt:
        return "it was not among wrt=[...], so it was not asked for."
    if wrt is None and tensor in set(reachable(root, stale_ok=True)):
        if tensor._rule is None:
            return "it was reached, but no rule on the way gave it a gradient."
        return ("its gradient was taken out once passed on, as those of the root and interior nodes are. Ask for it: "
                "keep=[...].")  # fmt: skip
    return _why_unreached(root, tensor)


def _why_unreached(root: Node, tensor: Node) -> str:
    """Walk every edge, also those a backward pass prunes, and say what stands between `root` and `tensor`."""
    barriers, todo, detached = {root: None}, [root], None
    for node in todo:
        barrier = barriers[node]
        open_to = set(differentiable_inputs(node))
        below = [t for t in node._inputs if isinstance(t, Node)]
        source = getattr(node, "_source", None)
        if source is not None:
            detached = detached or node
            barrier = f"it is behind a detach: {node.label} was cut off from what it was computed from."
            below = [t for t in (source(),) if t is not None]
        for t in below:
            if t not in barriers:
                closed = source is None and t not in open_to  # the barrier named is the one nearest to the tensor
                pruned = f"it is only reached through {node.label}, whose derivative is zero or undefined: pruned."
                barriers[t] = pruned if closed else barrier
                todo.append(t)
    if tensor in barriers:
        if barriers[tensor] is None and tensor._rule is not None and tensor._role != PATH:
            return "it is pruned: no gradient leads through it to a Var, so none is computed. Ask for it: wrt=[...]."
        return barriers[tensor] or "it was reached, but no rule on the way gave it a gradient."
    if detached is not None:
        return (f"it is not reached. The graph contains a detach, {detached.label}; if it was computed from this "
                "tensor, that is where the gradient stops.")  # fmt: skip
    if not root.tracked:
        return (f"it is not part of the graph of {root.label}, which is untracked: computed within no_grad, or from "
                'constants only (detached tensors, .data, gradients without detach="none").')  # fmt: skip
    return f"it is not part of the graph of {root.label}."
