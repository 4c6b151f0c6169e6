"""What stands in for `graphviz.Digraph` where that package is missing: holds the DOT text, and nothing else."""

from __future__ import annotations


class PlainDigraph:
    """The part of `graphviz.Digraph` that a drawing uses."""

    def __init__(self, name=None, graph_attr=None, node_attr=None, edge_attr=None, **_):
        self.name, self.body = name, []
        self._attr = (("graph", graph_attr), ("node", node_attr), ("edge", edge_attr))

    @property
    def source(self) -> str:
        """The DOT text."""
        head = [f"digraph {self.name} {{\n"] if self.name else ["digraph {\n"]
        for kind, attr in self._attr:
            if attr:
                head.append(f"\t{kind} [{' '.join(f'{k}={quoted(v)}' for k, v in attr.items())}]\n")
        return "".join([*head, *self.body, "}\n"])


def quoted(text: str, lines: bool = False) -> str:
    r"""`text` as a DOT string that is shown as it is; with `lines`, line breaks stay line breaks.

    >>> print(quoted('a "b" \\ &lt;'))
    "a \"b\" \\ &amp;lt;"
    """
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return '"' + (text.replace("\n", "\\n") if lines else text) + '"'
