"""Detach: cut edges of a graph, and see which gradients vanish and which change."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np

from ..drawing import Drawing, RenderError
from ..drawing.render import finish, to_svg
from ..drawing.text import clean, summary
from ..drawing.view import Edge, Graph, NodeView, graph_of
from ..graph import Node
from ..tensor import Tensor, Var
from .lab import Lab, Shown, Table, Text, checks
from .plot import beside
from .rebuilt import rebuilt
from .ties import input_names

MOST_EDGES = 60


@dataclass(frozen=True)
class Row:
    """One node: its gradient before and after the cuts, None where it gets none."""

    name: str
    is_variable: bool
    before: np.ndarray | None
    after: np.ndarray | None

    @property
    def verdict(self) -> str:
        """unchanged, changed, vanished, or none where there was no gradient to begin with."""
        if self.before is None:
            return "none"
        if self.after is None:
            return "vanished"
        same = np.allclose(self.before, self.after, rtol=1e-12, atol=0.0, equal_nan=True)
        return "unchanged" if same else "changed"


@dataclass(frozen=True)
class Cuts:
    """`value` of the root, which no cut changes, and a row for each node: Vars first, then from the result down."""

    value: np.ndarray
    rows: tuple

    def __getitem__(self, name: str) -> Row:
        found = next((r for r in self.rows if r.name == name), None)
        if found is None:
            raise KeyError(f"no node is named {name!r} here; these are: {', '.join(r.name for r in self.rows)}")
        return found


def edges_of(graph: Graph) -> list[Edge]:
    """The edges along which a gradient goes back to a Var, in the order of recording; a cut names them by number."""
    return [e for e in graph.edges if e.flows and e.source.kind in ("variable", "result")]


def cut_gradients(graph: Graph, cut=()) -> Cuts:
    """The gradients of a graph before and after its edges with these numbers, counted from 1, are cut.

    >>> x = Var(3.0, name="x")
    >>> graph = graph_of((x - x / 2) ** 2)
    >>> [round(float(r), 6) for r in (cut_gradients(graph)["x"].before, cut_gradients(graph, [3])["x"].after)]
    [1.5, 3.0]
    """
    edges, root = edges_of(graph), graph.roots[0].node
    wrong = [n for n in cut if isinstance(n, bool) or not isinstance(n, Integral) or not 1 <= n <= len(edges)]
    if wrong:
        raise ValueError(f"there is no edge {clean(wrong[0])}: they have the numbers 1 to {len(edges)}")
    nodes = [n for n in graph.nodes if n.kind in ("variable", "result") and (n.uses or n.node is root)]
    before, after = (_gradients(root, nodes, {(e.target.node, e.slot) for e in chosen})
                     for chosen in ((), [edges[n - 1] for n in cut]))  # fmt: skip
    order = sorted(nodes, key=lambda n: (n.kind != "variable", -n.node.id))
    return Cuts(root.data, tuple(Row(n.handle, n.kind == "variable", before.get(n), after.get(n)) for n in order))


def _gradients(root: Node, views: list[NodeView], cut) -> dict:
    copies = rebuilt(root, cut=cut)
    store = copies[root].backward(keep=[copies[v.node] for v in views if v.node in copies])
    grads = {v: store.get(copies[v.node]) for v in views if v.node in copies}
    return {v: g.data for v, g in grads.items() if g is not None}


class _CutDrawing(Drawing):
    """The drawing with the edges numbered, and those that are cut marked in words and in their line."""

    def __init__(self, graph: Graph, numbers: dict, cut, gradients):
        self._numbers, self._cut = numbers, cut
        super().__init__(graph, gradients)

    def edge_label(self, edge, share=None):
        n = self._numbers.get(edge.key)
        return super().edge_label(edge, share) if n is None else f"{n} CUT" if n in self._cut else str(n)

    def _edge(self, edge):
        made = super()._edge(edge)
        if self._numbers.get(edge.key) in self._cut:
            made = made.replace('style="solid"', 'style="dashed" color="#8a1c1c" fontcolor="#8a1c1c"')
        return made


class _Graphviz:
    """A drawing in the place of a `Picture`."""

    def __init__(self, drawing: _CutDrawing, label: str):
        self.drawing, self.label = drawing, label

    def svg(self) -> str:
        try:
            return self.drawing.svg(columns=False)
        except RenderError:
            return ""


class DetachLab(Lab):
    """The graph with a box to tick for each edge; ticked edges are cut, as by `detach()`."""

    title = "Detach: where is the gradient cut?"

    def __init__(self, root: Tensor, names: dict):
        self.root, self.graph = root, graph_of(root, names)
        self.edges = edges_of(self.graph)
        if not self.edges:
            raise ValueError("there is nothing to cut: the result does not depend on a Var")
        if len(self.edges) > MOST_EDGES:
            raise ValueError(
                f"this lab offers up to {MOST_EDGES} edges to cut, and the graph has {len(self.edges)}: use a smaller "
                "expression"
            )
        self._numbers = {e.key: n for n, e in enumerate(self.edges, 1)}
        super().__init__(cut=())

    def _compute(self, values):
        cut = values["cut"]
        if not isinstance(cut, (tuple, list, set, range)):
            raise TypeError(f"cut must be a list of edge numbers, such as [1], got {clean(repr(cut))}")
        made = cut_gradients(self.graph, cut)
        values["cut"] = tuple(sorted(set(cut)))
        return made

    def edge(self, number: int) -> str:
        """An edge in words: ``n1 into n2 = x - n1, operand b``."""
        e = self.edges[number - 1]
        operand = f", operand {e.operand}" if len(e.target.inputs) > 1 else ""
        return f"{e.source.handle} into {clean(e.target.title, 40)}{operand}"

    def _controls(self):
        options = [(n, f"{n}: {self.edge(n)}", e.key) for n, e in enumerate(self.edges, 1)]
        return [checks("cut", "Edges to cut (or click them in the drawing)", options, self.values["cut"])]

    def _summary(self):
        variables = [r for r in self.result.rows if r.is_variable]
        said = {v: [r.name for r in variables if r.verdict == v] for v in ("changed", "vanished")}
        value = f"The value of {self.graph.roots[0].handle} is {summary(self.result.value)} with and without cuts."
        if not self.values["cut"]:
            return f"Nothing is cut. {value}"
        parts = [f"the gradient of {', '.join(names)} {verdict}" for verdict, names in said.items() if names]
        what = "; ".join(parts) or "no gradient of a Var changes"
        return f"Cut: {', '.join(map(str, self.values['cut']))}. {what[0].upper()}{what[1:]}. {value}"

    def _drawing(self) -> _CutDrawing:
        by_name = {r.name: r.after for r in self.result.rows}
        return _CutDrawing(self.graph, self._numbers, self.values["cut"], lambda view: by_name.get(view.handle))

    def _blocks(self):
        rows = [(r.name, "Var" if r.is_variable else "result", _entry(r.before), _entry(r.after), r.verdict)
                for r in self.result.rows]  # fmt: skip
        cuts = [f"Edge {n} is cut: {self.edge(n)}. In code: {self.edges[n - 1].source.handle}.detach() in its place."
                for n in self.values["cut"]]  # fmt: skip
        label = f"The graph, edges numbered 1 to {len(self.edges)}" + (
            f"; cut: {', '.join(map(str, self.values['cut']))}" if cuts else "; none is cut")  # fmt: skip
        parts = {e.key: n for n, e in enumerate(self.edges, 1)}
        drawn = Shown(_Graphviz(self._drawing(), label), {"control": "cut", "parts": parts})
        header = ("node", "is", "gradient before", "after the cuts", "so it")
        return [Text(self._summary(), strong=True), drawn, *map(Text, cuts), Table("Gradients", header, rows)]

    def _lines(self):
        cut = self.values["cut"]
        edges = [f"{'cut' if n in cut else '   '}  {n}: {self.edge(n)}" for n in range(1, len(self.edges) + 1)]
        return [*super()._lines(), "", "edges", *edges]

    def svg(self) -> str:
        """The drawing with the numbers below it; the numbers alone where nothing can draw."""
        drawing, lines = self._drawing(), "\n".join(line or " " for line in self._lines()[1:])
        try:
            return finish(to_svg(drawing.source), self.title, self.text, {n.key for n in drawing.shown.nodes}, lines)
        except RenderError:
            return beside([], self.title, self.text, self._lines()[1:])


def _entry(g) -> str:
    return "none" if g is None else summary(g)


def detach(f, *values, names: dict | None = None) -> DetachLab:
    """A lab on detach: the graph of an expression with edges to cut, and every gradient before and after.

    `f`: a function and its `values`, which become Vars, or a Tensor that is recorded already. `names`: as in `draw`.
    ValueError for more than sixty edges. What `f` raises is raised.

    >>> from autodiff import labs
    >>> lab = labs.detach(lambda x: (x - x / 2) ** 2, 3.0)
    >>> lab.edge(3)
    'n1 into n2 = x - n1, operand b'
    >>> lab.set(cut=[3])
    >>> lab.result["x"].before, lab.result["x"].after
    (array(1.5), array(3.))
    """
    if isinstance(f, Tensor):
        if values:
            raise TypeError("values belong to a function; a Tensor has its own")
        return DetachLab(f, names or {})
    if not callable(f) or not values:
        raise TypeError("detach takes a Tensor, or a function and its values: labs.detach(lambda x: x * x, 3.0)")
    variables = [v if isinstance(v, Tensor) else Var(v) for v in values]
    given = {v: n for v, n in zip(variables, input_names(f, len(variables))) if not v.name}
    root = f(*variables)
    if not isinstance(root, Tensor):
        raise TypeError(f"the function must return a Tensor, got {type(root).__name__}: {clean(root)}")
    return DetachLab(root, given | (names or {}))
