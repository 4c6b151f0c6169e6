"""Why a gradient is missing: told from the graph, when somebody asks for it."""

from __future__ import annotations

from .graph import CUT, Node, differentiable_inputs, is_floating, reachable


def why_missing(root, wrt, tensor: Node) -> str:
    """Why a store has no gradient for `tensor`: `root` is a weak reference to the root of its backward pass."""
    if root is None:
        return "nothing was stored for it here."
    root = root()
    if not is_floating(tensor._data.dtype):
        return f"it holds {tensor._data.dtype}, and only floating tensors have gradients."
    if root is None:
        return "this backward pass did not leave one (its graph is gone by now, so there is no telling why)."
    if wrt is not None and tensor._id not in wrt:
        return "it was not among wrt=[...], so it was not asked for."
    if wrt is None and tensor in set(reachable(root, everything=False, stale_ok=True)):
        return "its gradient was taken out once passed on, as those of the root and interior nodes are. Ask for it: keep=[...]."
    return _why_unreached(root, tensor)


def _why_unreached(root: Node, tensor: Node) -> str:
    """Walk every edge, also those a backward pass prunes, and say what stands between `root` and `tensor`."""
    seen, todo, cuts, detached = {root}, [root], [], []
    for node in todo:
        open_to = set(differentiable_inputs(node))
        source = getattr(node, "_source", None)
        below = [t for t in node._inputs if isinstance(t, Node)]
        if source is not None:
            detached.append(node)
            below = [t for t in (source(),) if t is not None]
        elif below and (node._role == CUT or not open_to.issuperset(below)):
            cuts.append(node)
        for t in below:
            if t not in seen:
                seen.add(t)
                todo.append(t)
    if tensor in seen:
        if detached:
            return f"it is behind a detach: {detached[0].label} was cut off from what it was computed from."
        if cuts:
            return f"it is only reached through {cuts[0].label}, whose derivative is zero or undefined: pruned."
        return "it was reached by no differentiable path."
    if detached:
        return (f"it is not reached. The graph contains a detach, {detached[0].label}; if it was computed from this "
                "tensor, that is where the gradient stops.")  # fmt: skip
    return f"it is not part of the graph of {root.label}."
