"""The graph: what a node remembers of where it came from, and an order to work through it.

A node refers to the nodes it was computed from, never the other way, and values never change. So a graph is acyclic by
construction, dropping the last result frees all of it, and creation order is a topological order: whatever a node
depends on is older than the node.
"""

from __future__ import annotations

from bisect import bisect
from operator import attrgetter
from collections.abc import Iterable

import numpy as np

from .freeing import FreedInTurn
from .rules import RULES, Rule, astype

# The role of a node in a backward pass.
CUT = 0  # gets no gradient: integers, results of non-differentiable functions, whatever leads to no Var
SLOT = 1  # gets a gradient as a direct input of a visited op, but there is nothing below it: a plain floating leaf
PATH = 2  # visited: a Var, what differentiable functions make of one, and a plain tensor cast or broadcast to meet it

MEETS = RULES[astype], RULES[np.broadcast_to]  # what a plain tensor is taken through to meet one on a path


class StaleGraphError(RuntimeError):
    """A Var was given a new value after the graph was recorded, so that graph can't be differentiated through it."""


class Op:
    """How a tensor was computed: `.name`, `.inputs` (tensors, arrays and numbers) and `.params` (axis and the like)."""

    __slots__ = ("rule", "inputs", "params")

    def __init__(self, rule: Rule, inputs: tuple, params: dict):
        self.rule, self.inputs, self.params = rule, inputs, params

    @property
    def name(self) -> str:
        return self.rule.name

    def __repr__(self) -> str:
        return f"Op({self.name!r}, {len(self.inputs)} inputs)"


class Node(FreedInTurn):
    """A value, and the rule and inputs it was computed with. `Tensor` adds everything that NumPy users see."""

    # _values: what the forward got, the inputs' arrays; _source: on a detached leaf, a weak reference to the original;
    # _sets: on a Var, the ids that were next when it was set. _name and _source may be missing.
    __slots__ = ("_array", "_shape", "_rule", "_inputs", "_values", "_params", "_id", "_role", "_name", "_source",
                 "_sets", "__weakref__")  # fmt: skip

    kind = None  # the class of results: Tensor, once it is there, so that the layers below it need not import it

    @property
    def is_variable(self) -> bool:
        """Whether this is a Var."""
        return self._rule is None and self._role == PATH

    @property
    def tracked(self) -> bool:
        """Whether this is a Var or has an Op."""
        return self._rule is not None or self._role == PATH

    @property
    def op(self) -> Op | None:
        """How this was computed; None on leaves."""
        return None if self._rule is None else Op(self._rule, self._inputs, self._params)

    @property
    def label(self) -> str:
        """What messages call this node: its name, else its op, with shape and id."""
        return label(type(self), getattr(self, "_name", None), self._rule and self._rule.name, self._shape, self._id)


def label(kind: type, name: str | None, op: str | None, shape: tuple, id: int) -> str:
    """What messages call a node."""
    named, made = f" {name!r}" if name else "", f" = {op}(...)" if op else ""
    return f"{kind.__name__}{named}{made} of shape {shape} (id {id})"


def differentiable_inputs(node: Node) -> list[Node]:
    """The nodes that `node` was computed from by rules that have a partial for them, one entry for each use."""
    rule = node._rule
    if rule is None or not rule.differentiable:
        return []
    if rule.every:
        return [t for t in node._inputs if isinstance(t, Node)]
    return [t for p, t in zip(rule.partials_for(node._inputs), node._inputs) if p is not None and isinstance(t, Node)]


def sorted_nodes(root: Node, wrt: Iterable[Node] | None = None) -> list[Node]:
    """The nodes a backward pass from `root` visits, root first, each before everything it was computed from.

    Without `wrt` these are the nodes that lead to a Var, each one once however many paths lead there, and the casts and
    broadcasts of plain tensors that meet one. Integer tensors, results of non-differentiable functions and products
    with the number 0 are pruned. With `wrt` they are the nodes that lead to one of these tensors, and nothing below a
    target. Any depth will do. Raises `StaleGraphError` when a Var was `set` after the graph was recorded.

    >>> import autodiff as ad
    >>> x = y = ad.Var([1.0])
    >>> for _ in range(60):
    ...     y = y + y
    >>> len(ad.sorted_nodes(y))
    61
    """
    if wrt is None:
        return reachable(root)
    return leading_to({t for t in ([wrt] if isinstance(wrt, Node) else wrt) if is_floating(t._array.dtype)}, root)[0]


def reachable(root: Node, stale_ok: bool = False, ends: list | None = None) -> list[Node]:
    """Every node on a differentiable path to a Var, users first. `ends`: takes what `_walk` puts there."""
    if root._role != PATH:
        if ends is not None:
            ends.append(root)
        return []
    return _walk(root, (), 0, False, stale_ok, ends)[0]


def leading_to(targets: set[Node], root: Node, ends: list | None = None) -> tuple[list[Node], set[Node] | None]:
    """The nodes from `root` on that are targets or lead to one, users first; and a set of them all.

    In place of the set None, where all that a backward pass would visit by itself leads to a target.
    """
    if not targets:
        return [], set()
    plain = any([_is_plain(t) for t in targets])  # others are reached through nodes on a path to a Var
    oldest = min([t._id for t in targets])  # what is older than all of them leads to none
    found, all_lead = _walk(root, targets, oldest, plain, False, ends)
    if all_lead:
        return found, None
    order, leads, tensor = [], set(targets), Node.kind
    for node in reversed(found):
        rule = node._rule
        if rule is not None:
            for t in node._inputs if rule.every else differentiable_inputs(node):
                if isinstance(t, tensor) and t in leads:
                    leads.add(node)
                    break
        if node in leads:
            order.append(node)
    order.reverse()
    return order, leads


def _is_plain(t: Node) -> bool:
    """Whether `t` is on no path to a Var: a plain tensor, also one cast and broadcast to meet what is."""
    while t._rule in MEETS:
        t = t._inputs[0]
    return t._role != PATH


def _walk(root: Node, targets, oldest: int, plain: bool, stale_ok: bool, ends: list | None = None):
    """What differentiable paths from `root` reach, users first, and whether all of it and all beside it is asked for.

    `plain`: also what is on no path to a Var. Nothing below the id `oldest` is visited. `ends`: a list to which is
    added what such paths end at: plain tensors, results without a gradient, and nodes without a partial for an input.
    """
    found, seen, all_lead, tensor = [root], {root}, not plain and root._role == PATH, Node.kind
    ends = [] if ends is None else ends
    for node in found:  # grows while we walk it
        rule = node._rule
        if rule is None:
            all_lead = all_lead and node in targets
            continue
        if not rule.every:
            if not stale_ok:
                _refuse_stale(node)
            ends.append(node)
        for t in node._inputs if rule.every else differentiable_inputs(node):
            if not isinstance(t, tensor):
                continue
            if t._role == PATH:
                if t._rule is None and t._sets and node._id < t._sets[-1] and not stale_ok:
                    _refuse_stale(node)
            elif not plain:
                all_lead = False
                ends.append(t)
                continue
            if t not in seen:
                if t._id < oldest:
                    all_lead = False
                    continue
                seen.add(t)
                found.append(t)
    found.sort(key=attrgetter("_id"), reverse=True)
    return found, all_lead


def captured(start: int, roots: Iterable[Node], own: Iterable[Node] = ()) -> list[Node]:
    """The tensors older than the id `start` from which `roots` were computed since, other than by way of `own`.

    So these are what a function that was run since `start` got from outside, as far as its results depend on it. Every
    edge counts, also those that pass no gradient on: a partial may read an operand that it has none for.
    """
    older, tensor = [], Node.kind
    seen = set(own)
    todo = [root for root in roots if root not in seen]
    seen.update(todo)
    for node in todo:  # grows while we walk it
        if node._id < start:
            older.append(node)
            continue
        for t in node._inputs:
            if isinstance(t, tensor) and t not in seen:
                seen.add(t)
                todo.append(t)
    return older


def _refuse_stale(node: Node) -> None:
    """Raise if a Var among the inputs was set since: a rule may read an operand that it has no partial for."""
    for t in node._inputs if node._rule.differentiable else ():
        if isinstance(t, Node) and t.is_variable and t._sets and node._id < t._sets[-1]:
            recorded, now = bisect(t._sets, node._id), len(t._sets)
            raise StaleGraphError(
                f"{t.label} had version {recorded} when {node.label} was recorded and has version {now} now: it was "
                "set to a new value in between, so this graph can no longer be differentiated through it. Compute the "
                "result again from the new value, or call backward before set."
            )


def is_floating(dtype: np.dtype) -> bool:
    """Whether values of this dtype can be differentiated."""
    return dtype.kind == "f"
