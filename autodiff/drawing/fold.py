"""Large graphs: repeated structure is drawn once, and what is still too much is left out and counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .view import Edge, Graph, NodeView

LONGEST = 64  # nodes in one repetition, of a loop in the program say
MOST_EDGES = 800  # Graphviz needs ten seconds for so many, and a minute for 1,100
NAMED = 6  # operations of a repetition that are named


def folded(graph: Graph, largest: int) -> Graph:
    """`graph` itself when it has at most `largest` nodes and few enough edges, else with one node for what is left out.

    Of a repeated piece the first and the last repetition stay; if that is not enough, both ends of the graph.
    """
    nodes = graph.nodes
    if len(nodes) <= largest and len(graph.edges) <= MOST_EDGES:
        return graph
    codes = _codes(nodes)
    gaps = {}  # first node that is left out -> (one after the last, period)
    parts, left = [(0, len(nodes))], len(nodes)
    while left > largest and parts:
        low, high = parts.pop(0)
        first, last, period = _longest_repetition(codes[low:high])
        if last - first < 2 * period:
            continue
        first, last = low + first, low + last
        gaps[first] = (last, period)
        left -= last - first - 1
        parts += [(low, first), (last, high)]
    if left > largest or not gaps:
        ends = min(largest, len(nodes)) // 6
        gaps = {ends: (len(nodes) - ends, 0)}
    return _with_gaps(graph, [(_gap(i, nodes[a:b], period), nodes[a:b]) for i, (a, (b, period)) in
                              enumerate(sorted(gaps.items()))])  # fmt: skip


def _codes(nodes: list[NodeView]) -> np.ndarray:
    """A number for each node, equal where the node is made in the same way from nodes at the same distance."""
    place = {n: i for i, n in enumerate(nodes)}
    seen: dict = {}
    codes = []
    for i, node in enumerate(nodes):
        how = [node.kind, node.op, node.shape]
        for e in node.inputs:
            shared = e.source.kind == "variable" and e.source.uses > 1  # else each repetition has its own
            how.append(place[e.source] if shared else i - place[e.source] if e.source.inputs else -1)
        codes.append(seen.setdefault(tuple(how), len(seen)))
    return np.array(codes)


def _longest_repetition(codes: np.ndarray) -> tuple[int, int, int]:
    """(first, last, period): what lies between the first and the last repetition of the longest repeated piece."""
    best = (0, 0, 1)
    for period in range(1, min(LONGEST, len(codes) // 4) + 1):
        same = np.concatenate([[False], codes[period:] == codes[:-period], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])
        starts, ends = edges[::2], edges[1::2]
        if not len(starts):
            continue
        longest = int(np.argmax(ends - starts))
        length = int(ends[longest] - starts[longest]) // period * period - period
        if length > best[1] - best[0]:
            first = int(starts[longest]) + period
            best = (first, first + length, period)
    return best


def _gap(i: int, group: list[NodeView], period: int) -> NodeView:
    notes = []
    if period:
        ops = [n.op or n.kind for n in group[:period]]
        shown = ", ".join(ops[:NAMED]) + (", …" if period > NAMED else "")
        notes.append(f"{len(group) // period:,} times: {shown}")
    return NodeView(f"more{i}", None, None, None, "folded", f"… {len(group):,} more nodes …", notes=notes)


def _with_gaps(graph: Graph, gaps: list[tuple[NodeView, list[NodeView]]]) -> Graph:
    """`graph` with one node in the place of each group of nodes."""
    place: dict[NodeView, NodeView] = {}
    for gap, group in gaps:
        place.update(dict.fromkeys(group, gap))
    nodes = []
    for n in graph.nodes:
        if n not in place:
            place[n] = replace(n, inputs=[])
            nodes.append(place[n])
        elif not nodes or nodes[-1] is not place[n]:
            nodes.append(place[n])
    joined: dict = {}  # one edge for all that lead in or out
    places = {n.key: gap.key for gap, group in gaps for n in group}
    for node in graph.nodes:
        target = place[node]
        for e in node.inputs:
            source = place[e.source]
            if source.kind != "folded" and target.kind != "folded":
                target.inputs.append(Edge(e.key, source, target, e.slot, e.operand, e.flows, e.note, e.origin))
            elif source is target:
                places[e.key] = None
            else:
                if (source, target) not in joined:
                    joined[source, target] = Edge(e.key, source, target, 0, "", e.flows, e.note, joins=True)
                    target.inputs.append(joined[source, target])
                places[e.key] = joined[source, target].key
    return Graph(nodes, graph.roots, graph.by_node, places)
