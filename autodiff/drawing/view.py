"""What there is to draw: the graph of one or several roots as plain data, with a name and a reason for everything."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from ..graph import CUT, PATH, Node, differentiable_inputs, is_floating, reachable
from .names import callers_names
from .text import clean, shape_of, summary

INFIX = {"add": "+", "subtract": "-", "sub": "-", "multiply": "*", "mul": "*", "divide": "/", "div": "/",
         "power": "**", "pow": "**", "matmul": "@", "remainder": "%", "floor_divide": "//"}  # fmt: skip
PREFIX = {"negative": "-", "neg": "-", "positive": "+"}
HIDDEN = {"saved", "out"}  # params that are no part of the call


@dataclass(eq=False, slots=True, repr=False)
class Edge:
    """One operand slot: `source` is operand number `slot` of `target`."""

    key: str
    source: NodeView
    target: NodeView
    slot: int
    operand: str  # what the rule calls it: a, b, ...
    flows: bool  # whether a gradient goes back along it
    note: str = ""
    origin: bool = False  # no operand: leads from a tensor to its detached copy
    joins: bool = False  # stands for all edges that lead into or out of a folded node

    def __repr__(self) -> str:
        return f"<{self.key}: {self.source.key} -> {self.target.key}>"


@dataclass(eq=False, slots=True, repr=False)
class NodeView:
    """One node: `kind` is variable, constant, detached, result, pruned, unneeded, or folded for several in one."""

    key: str
    node: object
    value: object
    name: str | None
    kind: str
    handle: str = ""
    op: str = ""
    operands: list = field(default_factory=list)  # node views, arrays and numbers
    params: dict = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    inputs: list[Edge] = field(default_factory=list)
    uses: int = 0

    @property
    def title(self) -> str:
        """How it was made, ``u = n2 + x``; for a leaf its name."""
        return f"{self.handle} = {_formula(self.op, self.operands, self.params)}" if self.op else self.handle

    @property
    def shape(self) -> tuple:
        return shape_of(self.value)

    def __repr__(self) -> str:
        return f"<{self.key}: {self.title}>"


@dataclass(eq=False, repr=False)
class Graph:
    """The nodes, oldest first, and the roots. `places`: the key of what is left out -> of what stands there instead."""

    nodes: list[NodeView]
    roots: list[NodeView]
    by_node: dict
    places: dict = field(default_factory=dict)

    @property
    def edges(self) -> list[Edge]:
        return [e for n in self.nodes for e in n.inputs]


def is_value(x) -> bool:
    """Whether `x` belongs to the pure-Python engine, `autodiff.scalar`."""
    module = sys.modules.get("autodiff.scalar")
    return module is not None and isinstance(x, module.Value)


def is_node(x) -> bool:
    """Whether `x` can be a node of a graph."""
    return isinstance(x, Node) or is_value(x)


def graph_of(root, names: dict | None = None) -> Graph:
    """The graph of `root`, or of several roots given as a list or tuple.

    `names`: a dict, node -> text or text -> node; it comes before the variables of the caller, and after `name=`.
    """
    roots = list(root) if isinstance(root, (list, tuple)) else [root]
    if not roots or not (all(isinstance(r, Node) for r in roots) or all(map(is_value, roots))):
        got = ", ".join(type(r).__name__ for r in roots) or "nothing"
        raise TypeError(f"a graph starts from a Tensor or an autodiff.scalar.Value, or a list of one kind; got {got}")
    given = {**callers_names(is_node), **_by_node(names or {})}
    return (_scalar_graph if is_value(roots[0]) else _tensor_graph)(roots, given)


def _by_node(names: dict) -> dict:
    found = {}
    for key, value in names.items():
        node, name = (value, key) if isinstance(key, str) else (key, value)
        if not is_node(node):
            raise TypeError(f"names= maps nodes to text or text to nodes, got {key!r}: {value!r}")
        found[node] = str(name)
    return found


def _tensor_graph(roots: list, names: dict) -> Graph:
    found, seen = list(roots), set(roots)
    for node in found:  # grows while we walk it
        source = _source(node)
        for t in node._inputs if source is None else (source,):
            if isinstance(t, Node) and t not in seen:
                seen.add(t)
                found.append(t)
    found = sorted(seen, key=lambda t: t._id)
    visited = set()
    for root in roots:
        visited.update(reachable(root, stale_ok=True))
    views = {t: _view(t, f"n{i}", visited, names) for i, t in enumerate(found)}
    _settle_handles(views)
    count = 0
    for t, view in views.items():
        open_to = set(differentiable_inputs(t)) if t in visited else ()
        source = _source(t)
        if source is not None:
            view.inputs.append(Edge(f"e{count}", views[source], view, 0, "", False, "detach", origin=True))
            count += 1
            continue
        partials = t._rule.partials_for(t._inputs) if t._rule and t._rule.differentiable else ()
        operands = _operands(t._rule, len(t._inputs)) if t._rule else []
        for slot, x in enumerate(t._inputs):
            if isinstance(x, Node):
                flows = x in open_to and partials[slot] is not None and x._role != CUT
                view.inputs.append(Edge(f"e{count}", views[x], view, slot, operands[slot], flows,
                                        "" if flows else "no gradient"))  # fmt: skip
                views[x].uses += 1
                count += 1
        view.operands, view.params = [views[x] if isinstance(x, Node) else x for x in t._inputs], t._params
    for view in views.values():
        if view.uses > 1:
            view.notes.append(f"used {view.uses} times")
    return Graph(list(views.values()), [views[r] for r in roots], views)


def _source(node: Node):
    """What a detached tensor was cut from, if that still exists."""
    source = getattr(node, "_source", None)
    return None if source is None else source()


def _view(t: Node, key: str, visited: set, names: dict) -> NodeView:
    rule, notes = t._rule, []
    if rule is None:
        if t._role == PATH:
            kind, note = "variable", "Var" if t in visited else "Var, not reached"
        elif getattr(t, "_source", None) is not None:
            kind, note = "detached", "detached: the gradient stops here"
        else:
            kind = "constant"
            note = "constant" if is_floating(t._array.dtype) else "constant, not floating: no gradient"
        notes.append(note)
    elif not rule.differentiable:
        kind = "pruned"
        why = ("not floating" if not is_floating(t._array.dtype) else
               "times 0" if rule.forward is np.multiply else "slope 0")  # fmt: skip
        notes.append(f"pruned: {why}")
    elif t._role == CUT:
        kind = "pruned"
        notes.append("pruned: leads to no Var")
    elif t in visited:
        kind = "result"
        if rule.forward is np.broadcast_to:
            notes.append(_summed(t._inputs[0]._shape, t._shape))
    else:
        kind = "unneeded"
        notes.append("not needed for the gradient")
    return NodeView(key, t, t._array, getattr(t, "_name", None) or names.get(t), kind,
                    op=rule.name if rule else "", notes=notes)


def _summed(small: tuple, large: tuple) -> str:
    """Which axes of the result the gradient will be summed over, going back through a broadcast."""
    extra = len(large) - len(small)
    axes = [*range(extra), *(i for i, n in enumerate(small, extra) if n == 1 != large[i])]
    if not axes:
        return "gradient passes unchanged"
    return f"gradient summed over {'axis' if len(axes) == 1 else 'axes'} {', '.join(map(str, axes))}"


@functools.lru_cache(maxsize=1000)
def _operands(rule, count: int) -> list[str]:
    """What the rule's partials call the operands."""
    if rule.each is not None:
        return [f"xs[{i}]" for i in range(count)]
    for p in rule.partials:
        names = list(inspect.signature(p).parameters)[2 : 2 + count] if p is not None else []
        if len(names) == count and "operands" not in names:
            return names
    return list("abcdefgh"[:count]) if count <= 8 else [f"operand {i}" for i in range(count)]


def _settle_handles(views: dict) -> None:
    """A node is called by its name; by its key when it has none, and by both when the name is not its own."""
    for view in views.values():
        view.name = clean(view.name) if view.name else None
    taken = Counter(view.name or view.key for view in views.values())
    for view in views.values():
        view.handle = view.name or view.key
        if taken[view.handle] > 1 and view.name:
            view.handle += f" ({view.key})"


def _formula(op: str, inputs: list, params: dict) -> str:
    written = [x.handle if isinstance(x, NodeView) else _constant(x) for x in inputs]
    if len(written) == 2 and op in INFIX:
        return f"{written[0]} {INFIX[op]} {written[1]}"
    if len(written) == 1 and op in PREFIX:
        return PREFIX[op] + written[0]
    if op == "index" and len(written) == 1 and "key" in params:
        return f"{written[0]}[{_key(params['key'])}]"
    if len(written) > 5:
        written = [*written[:3], "…", written[-1]]
    if op in ("broadcast", "reshape") and "shape" in params:
        return f"{op}({', '.join(written)}, {clean(params['shape'])})"
    options = [f"{k}={_param(v)}" for k, v in params.items() if k not in HIDDEN and v is not None and v is not False]
    return f"{op}({', '.join(written + options)})"


def _constant(x) -> str:
    if isinstance(x, np.ndarray) and x.shape:
        return summary(x) if x.size <= 3 else f"array{x.shape}"
    return summary(x)


def _param(value) -> str:
    if isinstance(value, np.dtype):
        return value.name
    return f"array{value.shape}" if isinstance(value, np.ndarray) else clean(repr(value), 24)


def _key(key) -> str:
    if isinstance(key, tuple):
        return ", ".join(map(_key, key))
    if isinstance(key, slice):
        ends = [("" if k is None else str(k)) for k in (key.start, key.stop, key.step)]
        return ":".join(ends[: 2 if key.step is None else 3])
    if isinstance(key, np.ndarray):
        return clean(summary(key) if key.size <= 6 and key.dtype.kind != "b" else f"array{key.shape}")
    return "..." if key is Ellipsis else clean(str(key))


def _scalar_graph(roots: list, names: dict) -> Graph:
    order = sys.modules["autodiff.scalar"].sorted_nodes
    found: dict = {}
    for root in roots:
        found.update(dict.fromkeys(reversed(order(root))))
    views = {v: NodeView(f"n{i}", v, v.data, v.name or names.get(v), "result" if v.op else "variable", op=v.op or "",
                         notes=[] if v.op else ["leaf"]) for i, v in enumerate(found)}  # fmt: skip
    _settle_handles(views)
    count = 0
    for v, view in views.items():
        for slot, x in enumerate(v.inputs):
            if is_value(x):
                view.inputs.append(Edge(f"e{count}", views[x], view, slot, "ab"[slot], True))
                views[x].uses += 1
                count += 1
        view.operands = [views[x] if is_value(x) else x for x in v.inputs]
    for view in views.values():
        if view.uses > 1:
            view.notes.append(f"used {view.uses} times")
    return Graph(list(views.values()), [views[r] for r in roots], views)
