"""Why a gradient is missing: told from what a backward pass leaves behind, which keeps no graph alive."""

from __future__ import annotations

from .graph import PATH, Node, differentiable_inputs, is_floating, label

WHY = {  # `MissingGradientError.reason` -> what the message says
    "removed": "it was removed from the store.",
    "not_asked": "it was not among wrt=[...], so it was not asked for.",
    "integer": "it holds {dtype}, and only floating tensors have gradients.",
    "taken": "its gradient was taken out once passed on, as those of the root and interior nodes are. Ask for it: "
             "keep=[...].",
    "not_reached": "it was reached, but no rule on the way gave it a gradient.",
    "pruned": "it is only reached through {barrier}, whose derivative is zero or undefined: pruned.",
    "unneeded": "it is pruned: no gradient leads through it to a Var, so none is computed. Ask for it: wrt=[...].",
    "behind": "it is behind a detach: {barrier} was cut off from what it was computed from.",
    "detached": "it is not reached. The graph contains a detach, {barrier}; if it was computed from this tensor, that "
                "is where the gradient stops.",
    "replaced": "it is a plain Tensor, not a Var, and no part of the graph of {root}. Where a Var was updated by an "
                "assignment, as in w -= ..., its name stands for a new Tensor since: give the Var its new value by "
                "w.set(...), or let ad.optim do it.",
    "untracked": "it is not part of the graph of {root}, which is untracked: computed within no_grad, or from constants"
                 ' only (detached tensors, .data, gradients without detach="none").',
    "foreign": "it is not part of the graph of {root}.",
    "nothing": "nothing was stored for it here.",
}  # fmt: skip
REASONS = {"unneeded": "pruned", "behind": "detached", "untracked": "foreign", "nothing": "foreign"}  # else the key


class MissingGradientError(KeyError):
    """A store has no gradient for a tensor. `reason` is why, as data.

    "taken" out once passed on; "pruned": on no path with a derivative; "detached"; "not_reached": no rule on the way
    gave one; "removed" by the user; "not_asked" for by wrt; "integer"; "replaced": a plain Tensor that took a Var's
    name; "foreign": no part of this graph.

    >>> import autodiff as ad
    >>> x = ad.Var(1.0)
    >>> try:
    ...     (0 * x + 3.0).backward()[x]
    ... except ad.MissingGradientError as error:
    ...     error.reason
    'pruned'
    """

    def __init__(self, message: str, reason: str):
        super().__init__(message, reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.args[0]  # KeyError would show it in quotes


def missing(tensor: Node, made_by: Pass | None, removed: bool) -> MissingGradientError:
    """The error for a store without a gradient for `tensor`: `made_by` is the pass that it comes from, if any."""
    words = {"dtype": tensor._array.dtype, "root": made_by and label(*made_by.root)}
    if removed or made_by is None:
        key = "removed" if removed else "nothing"
    else:
        key, barrier = made_by.why(tensor)
        words["barrier"] = barrier
    return MissingGradientError(f"no gradient for {tensor.label}: {WHY[key].format(**words)}", REASONS.get(key, key))


class Pass:
    """What a backward pass remembers: ids and labels, and no node.

    `order`: the nodes it visited; `ends`: where its paths ended, as `reachable` tells;
    `asked`: the ids in wrt=, or None; `kept`: the tensors in keep=.
    """

    __slots__ = ("root", "tracked", "visited", "asked", "kept", "behind", "cuts")

    def __init__(self, root: Node, order=(), ends=(), asked=None, kept=()):
        rule = root._rule
        name = getattr(root, "_name", None) if rule is None else None
        self.root = root.__class__, name, rule and rule.name, root._shape, root._id  # what `label` takes
        self.tracked, self.asked = rule is not None or root._role == PATH, asked
        self.visited, self.kept = [t._id for t in order], [t._id for t in kept] if kept else ()
        self.behind, self.cuts = _beyond(ends, self.visited) if ends else ((), ())

    def __getstate__(self):
        return None, {n: getattr(self, n) for n in self.__slots__} | {"cuts": [(cut, _gone) for cut, _ in self.cuts]}

    def why(self, tensor: Node) -> tuple[str, str | None]:
        """The key of `WHY`, and the label of what is in the way."""
        id = tensor._id
        if not is_floating(tensor._array.dtype):
            return "integer", None
        if self.asked is not None and id not in self.asked:
            return "not_asked", None
        if id in self.visited:
            left = tensor._rule is None or self.asked is not None or id in self.kept
            return "not_reached" if left else "taken", None
        if id in self.behind:
            return ("pruned", self.behind[id]) if self.behind[id] else ("unneeded", None)
        barrier = _cut_between(self.cuts, tensor)
        if barrier is not None:
            return "behind", barrier
        lost = [cut for cut, source in self.cuts if source() is None]
        if lost:
            return "detached", lost[0]
        if tensor._rule is None and tensor._role != PATH and getattr(tensor, "_source", None) is None:
            if not self.tracked or not hasattr(tensor, "_name"):  # a name, or None, is what constructors leave
                return "replaced", None
        return "foreign" if self.tracked else "untracked", None


def _beyond(ends, visited) -> tuple[dict, list]:
    """What lies beyond the `ends`: id -> label of the nearest node that passes nothing on, or None; and the detached
    leaves among it, each with a weak reference to what it was cut from."""
    behind, cuts, todo, seen, visited = {}, [], [], set(), set(visited)
    for t in dict.fromkeys(ends):
        if t._rule is not None:
            todo.append((t, None))
        elif getattr(t, "_source", None) is not None:
            cuts.append((t.label, t._source))
    for t, barrier in todo:  # grows while we walk it
        if t in seen:
            continue
        seen.add(t)
        if t._id not in visited:
            behind[t._id] = barrier
        if barrier is None and getattr(t, "_source", None) is not None:
            cuts.append((t.label, t._source))
        open_to = set(differentiable_inputs(t))
        for below in t._inputs:
            if isinstance(below, Node) and below not in seen and below._id not in visited:
                todo.append((below, barrier if below in open_to else t.label))
    return behind, cuts


def _gone() -> None:
    """What a weak reference to an original becomes where a store is copied or pickled."""


def _cut_between(cuts, tensor: Node) -> str | None:
    """The label of a detached leaf whose original was computed from `tensor`, through whatever detaches."""
    todo, seen = [(source(), cut) for cut, source in cuts], {None}
    for node, cut in todo:  # grows while we walk it
        if node in seen:
            continue
        if node is tensor:
            return cut
        seen.add(node)
        source = getattr(node, "_source", None)
        if source is not None:
            todo.append((source(), node.label))
        todo.extend((t, cut) for t in node._inputs if isinstance(t, Node))
    return None
