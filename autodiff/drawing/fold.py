"""Large graphs: repeated structure is drawn once, and what is still too much is left out and counted."""

from __future__ import annotations

from .view import Edge, Graph, NodeView


def folded(graph: Graph, largest: int) -> Graph:
    """`graph` itself when it has at most `largest` nodes; else its ends, and one node for what lies between."""
    if len(graph.nodes) <= largest:
        return graph
    ends = largest // 6
    middle = graph.nodes[ends:-ends]
    return _with_gaps(graph, [middle])


def _with_gaps(graph: Graph, groups: list[list[NodeView]]) -> Graph:
    """`graph` with one node in the place of each group of nodes."""
    place: dict[NodeView, NodeView] = {}
    for i, group in enumerate(groups):
        gap = NodeView(f"more{i}", None, None, None, "folded", f"… {len(group):,} more nodes …")
        place.update(dict.fromkeys(group, gap))
    nodes = list(dict.fromkeys(place.get(n, _copy(n)) for n in graph.nodes))
    copies = {n.key: n for n in nodes}
    joined = set()
    for node in graph.nodes:
        target = place.get(node) or copies[node.key]
        for e in node.inputs:
            source = place.get(e.source) or copies[e.source.key]
            if source.kind == "folded" or target.kind == "folded":  # one edge for all that lead in or out
                if source is not target and (source, target) not in joined:
                    joined.add((source, target))
                    target.inputs.append(Edge(e.key, source, target, 0, "", e.flows, e.note))
            else:
                target.inputs.append(Edge(e.key, source, target, e.slot, e.operand, e.flows, e.note, e.origin))
    return Graph(nodes, graph.roots, graph.by_node)


def _copy(n: NodeView) -> NodeView:
    return NodeView(n.key, n.node, n.value, n.name, n.kind, n.handle, n.formula, n.notes, [], n.uses)
