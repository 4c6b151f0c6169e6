"""Drawings of graphs: `draw` gives a `graphviz.Digraph` that shows itself in a notebook, with a text form beside it."""

from __future__ import annotations

import os
from pathlib import Path

from .digraph import PlainDigraph, quoted
from .fold import MOST_EDGES, folded
from .render import RenderError, finish, renderer, to_svg
from .text import brief, clean, shape_text, summary, table
from .view import Edge, Graph, NodeView, graph_of

try:
    from graphviz import Digraph
except ImportError:  # the text form needs no package, and the DOT text can be drawn without this one
    Digraph = PlainDigraph

__all__ = ["Drawing", "RenderError", "draw", "renderer"]

LARGEST = 300  # nodes that are drawn one by one
NARROW = 24  # characters on an edge
DEEP = 8  # longer graphs are drawn from top to bottom, others from left to right

# A kind is told apart by its outline and by its label; the fill only helps.
STYLES = {
    "variable": 'style="rounded,filled,bold" penwidth="2.2" fillcolor="#dcebff"',
    "result": 'style="rounded,filled" fillcolor="#ffffff"',
    "constant": 'style="filled,dashed" fillcolor="#f4f4f4"',
    "detached": 'style="filled,dashed" peripheries="2" fillcolor="#fff4dd"',
    "pruned": 'style="filled,dotted" penwidth="1.6" fillcolor="#eeeeee" fontcolor="#444444"',
    "unneeded": 'style="rounded,filled,dotted" fillcolor="#fafafa" fontcolor="#444444"',
    "folded": 'shape="note" style="filled" fillcolor="#f4f4f4"',
}
FONT = "Arial"  # one whose widths every Graphviz knows


class Drawing(Digraph):
    """The drawing of a graph: `.source` is its DOT text, `.text` a table with the same content, `.svg()` the picture.

    A notebook shows the picture, and the table where nothing can draw; a terminal shows the table.
    """

    def __init__(self, graph: Graph, gradient=lambda node: None, share=None):
        self.graph, self.shown = graph, folded(graph, LARGEST)
        # What stands for several nodes or edges has no gradient and no share of its own.
        self._gradient = lambda node: None if node.kind == "folded" else gradient(node)
        self._share = lambda edge: None if share is None or edge.joins else share(edge)
        self._wide = _depth(self.shown) <= DEEP
        super().__init__(
            graph_attr={"rankdir": "LR" if self._wide else "TB", "bgcolor": "white", "fontname": FONT,
                        "nodesep": "0.3", "ranksep": "0.45"},
            node_attr={"shape": "box", "fontname": FONT, "fontsize": "14", "margin": "0.16,0.08"},
            # The stepper writes a share larger while it is on its way, and there has to be room for that.
            edge_attr={"fontname": FONT, "fontsize": "15" if share else "12", "arrowsize": "0.8"},
        )  # fmt: skip
        self.lines = {}  # node key -> the lines of its label
        self.body.extend(self._statements())

    def _statements(self):
        for node in self.shown.nodes:
            self.lines[node.key] = self._label(node)
            label = quoted("\n".join(self.lines[node.key]), lines=True)
            yield f'\t{node.key} [id="{node.key}" label={label} {STYLES[node.kind]}]\n'
        for edge in self.shown.edges:
            yield f"\t{edge.source.key} -> {edge.target.key} [{self._edge(edge)}]\n"

    def _label(self, node: NodeView) -> list[str]:
        lines = [clean(node.title, 48)]
        if node.kind == "folded":
            return lines + node.notes
        if node.shape:
            lines.append(f"shape {shape_text(node.value)}")
        elif shape_text(node.value) != "()":
            lines.append(shape_text(node.value).removeprefix("() "))
        lines.append(f"value {brief(node.value)}")
        gradient = self._gradient(node)
        if gradient is not None:
            lines.append(f"grad {brief(gradient)}")
        return lines + node.notes

    def gradient_line(self, node: NodeView) -> int | None:
        """Which line of the node's label holds its gradient."""
        lines = self.lines.get(node.key, [])
        at = len(lines) - len(node.notes) - 1
        return at if self._gradient(node) is not None and at >= 0 else None

    def edge_label(self, edge: Edge, share: str | None = None) -> str:
        """The operand's name where there are several, and what goes back along the edge."""
        parts = [edge.operand if len(edge.target.inputs) > 1 else "", edge.note or share or ""]
        return ": ".join(p for p in parts if p)

    def _edge(self, edge: Edge) -> str:
        value = self._share(edge)
        label = self.edge_label(edge, None if value is None else brief(value, NARROW))
        style = "solid" if edge.flows else "dotted" if edge.origin else "dashed"
        return f'id="{edge.key}" label={quoted(label)} style="{style}"'

    @property
    def text(self) -> str:
        """The whole drawing as a table, inputs before results."""
        nodes, gradients = self.shown.nodes, [self._gradient(n) for n in self.shown.nodes]
        graded = any(g is not None for g in gradients)
        header = ("node", "is", "shape", "value", *(("grad",) if graded else ()), "notes")
        rows = []
        for n, g in zip(nodes, gradients):
            cut = [f"{e.operand or e.source.handle}: {e.note}" for e in n.inputs if e.note and not e.origin]
            cut += [f"from {e.source.handle}" for e in n.inputs if e.origin]
            plain = n.kind == "folded"
            rows.append((n.key, clean(n.title, 60), "" if plain else shape_text(n.value),
                         "" if plain else summary(n.value),
                         *(("" if g is None else summary(g),) if graded else ()), "; ".join(n.notes + cut)))
        return f"{self._headline()}\n{table(header, rows)}"

    def _headline(self) -> str:
        nodes, edges = len(self.graph.nodes), len(self.graph.edges)
        roots = ", ".join(r.handle for r in self.graph.roots[:5])
        if len(self.graph.roots) > 5:
            roots += f" and {len(self.graph.roots) - 5} more"
        return f"graph of {roots}: {nodes} node{'s' * (nodes != 1)}, {edges} edge{'s' * (edges != 1)}"

    def svg(self, listing: str = "", columns: bool = True) -> str:
        """The picture, as SVG text with a title and a description. `listing`: lines to write below it.

        A chain that is taller than a screen is set in columns, unless `columns` is False. `RenderError` where nothing
        can draw.
        """
        if len(self.shown.edges) > MOST_EDGES:
            raise RenderError(f"No picture: {len(self.shown.edges):,} edges are too many to lay out.")
        bold = {n.key for n in self.shown.nodes}
        return finish(to_svg(self.source), self._headline(), self.text, bold, listing, columns)

    def save(self, filename=None, directory=None, *, skip_existing=False) -> str:
        """Write the drawing to a file and return its path: .svg the picture, .txt the table, .gv or .dot the DOT text.

        ValueError for another ending, `RenderError` where nothing can draw.
        """
        path = Path(directory or "") / (filename or "Drawing.gv")
        forms = {".svg": self.svg, ".txt": lambda: self.text + "\n",
                 ".gv": lambda: self.source, ".dot": lambda: self.source}  # fmt: skip
        if path.suffix.lower() not in forms:
            raise ValueError(f"can't save a drawing as {path.name!r}: the name must end in {', '.join(forms)}")
        if not (skip_existing and path.exists()):
            content = forms[path.suffix.lower()]()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return os.fspath(path)

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__

    def _repr_mimebundle_(self, include=None, exclude=None, **_):
        try:
            return {"text/plain": self.text, "image/svg+xml": self.svg()}
        except RenderError as error:
            return {"text/plain": f"{self.text}\n{error}"}


def draw(root, grads=None, names=None) -> Drawing:
    """The graph of `root`: every node with its shape and value, every operand slot an edge.

    `root`: a Tensor or an `autodiff.scalar.Value`, or a list of them to be drawn together. `grads`: a GradStore, or a
    dict from nodes to gradients, to write into the nodes; the gradients of a Value are written as they are. `names`: a
    dict, node -> text or text -> node; nodes are called by their own name, else by this, else by the variable that
    holds them. What gets no gradient (detached, pruned, not needed) has another outline and says why.
    TypeError when `root` is no node.

    >>> import autodiff as ad
    >>> x, y = ad.Var(3.0), ad.Var(2.0)
    >>> u = x * y + x
    >>> L = u ** 2
    >>> ad.draw(L, grads=L.backward(keep=[u]))
    graph of L: 5 nodes, 5 edges
    node  is             shape  value  grad  notes
    n0    x              ()     3      54    Var; used 2 times
    n1    y              ()     2      54    Var
    n2    n2 = x * y     ()     6
    n3    u = n2 + x     ()     9      18
    n4    L = square(u)  ()     81
    """
    graph = graph_of(root, names)
    return Drawing(graph, _gradients(grads))


def _gradients(grads):
    if grads is None:
        return lambda view: getattr(view.node, "grad", None)

    def gradient(view):
        g = grads.get(view.node)
        return getattr(g, "_array", g)

    return gradient


def _depth(graph: Graph) -> int:
    depth: dict = {}
    for node in graph.nodes:
        depth[node] = 1 + max((depth.get(e.source, 0) for e in node.inputs), default=0)
    return max(depth.values(), default=0)
