"""The backward pass as data: `trace` records every event of it, with the numbers and with the store at that moment."""

from __future__ import annotations

import html
import inspect
import math
import sys
from dataclasses import dataclass, field

from ..drawing import Drawing
from ..drawing.text import clean, shape_of, summary, table
from ..drawing.view import Edge, Graph, NodeView, graph_of, is_value
from ..graph import Node
from .passes import scalar_pass, tensor_pass
from .source import function_source, partial_source, used_names, with_numbers

__all__ = ["Step", "Trace", "trace"]

ENTRIES = 64  # arrays up to this size are exported in full


@dataclass(frozen=True, eq=False)
class Step:
    """One event of a backward pass.

    `kind`: seed, take, rule, contribution, accumulate or skip. `node`: whose cotangent is being handed on. `edge`: the
    operand slot it goes to, or None. `value`: the number or array of this event; `before`: what the slot held, for an
    accumulate. `source`: the partial as it is written; `formula`: the same with numbers. `text`: the event in words.
    """

    index: int
    kind: str
    node: NodeView
    edge: Edge | None = None
    value: object = None
    before: object = None
    source: str | None = None
    formula: str = ""
    text: str = ""
    change: tuple | None = None  # (node, what its slot holds now, or None when it was taken out)
    trace: Trace = field(default=None, repr=False)

    @property
    def store(self) -> dict:
        """Node name -> gradient: the store after this step."""
        return self.trace.store_at(self.index)

    @property
    def where(self) -> str:
        """The node, or the node and the operand it hands its share to."""
        return self.node.handle if self.edge is None else f"{self.node.handle} -> {self.edge.source.handle}"


class Trace:
    """The events of one backward pass, in order: a sequence of `Step`, and the drawing they belong to.

    `grads`: the store at the end, the same as `backward` returns. `graph`: the nodes with their names.
    """

    def __init__(self, graph: Graph, root: NodeView):
        self.graph, self.root = graph, root
        self.steps: list[Step] = []
        self.grads = None
        self._sources: dict = {}

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index):
        return self.steps[index]

    def store_at(self, index: int) -> dict:
        """Node name -> gradient: the store after step `index`."""
        store: dict = {}
        for step in self.steps[: range(len(self.steps))[index] + 1]:
            if step.change is not None:
                node, value = step.change
                store.pop(node.handle, None) if value is None else store.__setitem__(node.handle, value)
        return store

    def gradients(self) -> dict:
        """Node view -> its whole gradient, also of the nodes whose gradient was taken out of the store."""
        found = {}
        for step in self.steps:
            if step.change is not None and step.change[1] is not None:
                found[step.change[0]] = step.change[1]
        return found

    def uses(self) -> dict:
        """Node view -> its contributions, [(edge, value)], one for each use."""
        found: dict = {}
        for step in self.steps:
            if step.kind == "contribution":
                found.setdefault(step.edge.source, []).append((step.edge, step.value))
        return found

    def drawing(self) -> Drawing:
        """The graph with all gradients of this pass in its nodes, and each contribution on its edge."""
        shares = {s.edge: s.value for s in self.steps if s.kind == "contribution"}
        return Drawing(self.graph, self.gradients().get, shares.get)

    @property
    def text(self) -> str:
        """All steps as a table."""
        header = ("step", "event", "where", "what happens", "store")
        return f"{self._headline()}\n{table(header, self._rows())}"

    def _headline(self) -> str:
        return f"backward pass from {self.root.handle}: {len(self.steps)} steps"

    def _rows(self) -> list[tuple]:
        rows, store = [], {}
        for s in self.steps:
            if s.change is not None:
                node, value = s.change
                store.pop(node.handle, None) if value is None else store.__setitem__(node.handle, value)
            held = ", ".join(f"{k}: {summary(v)}" for k, v in store.items())
            rows.append((str(s.index), s.kind, clean(s.where), clean(s.formula or s.text, 90), clean(held, 72)))
        return rows

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        cells = [("step", "event", "where", "what happens", "store"), *self._rows()]
        head, *rows = ["".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in row)
                       for tag, row in zip(["th"] + ["td"] * len(cells), cells)]  # fmt: skip
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return (f"<table><caption>{html.escape(self._headline())}</caption>"
                f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")  # fmt: skip

    def to_dicts(self) -> list[dict]:
        """The steps as plain data: as `json.dumps` takes it. Numbers not finite are text, large arrays summaries."""
        return [{
            "index": s.index, "kind": s.kind, "node": s.node.key, "name": s.node.handle,
            "edge": s.edge and s.edge.key, "slot": s.edge and s.edge.slot, "operand": s.edge and s.edge.operand,
            "input": s.edge and s.edge.source.key, "input_name": s.edge and s.edge.source.handle,
            "value": _plain(s.value), "before": _plain(s.before), "source": s.source, "formula": s.formula,
            "text": s.text, "store": {k: _plain(v) for k, v in s.store.items()},
        } for s in self.steps]  # fmt: skip

    # How events become steps

    def _tell(self, kind, node, slot, value, before=None, stored=None) -> None:
        view = self.graph.by_node[node]
        edge = None if slot is None else next(e for e in view.inputs if e.slot == slot and not e.origin)
        reason = value if kind == "skip" else None
        value, before = (None if kind == "skip" else _array(value)), _array(before)
        change = None if stored is None else (self.graph.by_node[stored[0]], _array(stored[1]))
        source = self._source(node, slot) if kind in ("rule", "contribution") else None
        step = Step(len(self.steps), kind, view, edge, value, before, source, change=change, trace=self)
        formula, text = self._words(step, reason)
        object.__setattr__(step, "formula", formula)
        object.__setattr__(step, "text", text)
        self.steps.append(step)

    def _source(self, node, slot: int) -> str | None:
        if is_value(node):
            return function_source(sys.modules["autodiff.scalar"].RULES[node.op][slot + 1])
        key = (node._rule, 0 if node._rule.each else slot)
        if key not in self._sources:
            self._sources[key] = partial_source(node._rule, slot)
        return self._sources[key]

    def _words(self, step: Step, reason: str | None) -> tuple[str, str]:
        """The formula of a step, and the step in a sentence."""
        name, edge, value = step.node.handle, step.edge, summary(step.value) if step.value is not None else ""
        to = edge.source.handle if edge else ""
        slot = f" (operand {edge.operand})" if edge and len(edge.target.inputs) > 1 else ""
        if step.kind == "seed":
            return "", f"Start: put {value} into the store for {name}."
        if step.kind == "take":
            stays = step.change[1] is not None
            return "", (f"Read {value}, the whole gradient of {name}; it stays in the store." if stays else
                        f"Take {value}, the whole gradient of {name}, out of the store.")  # fmt: skip
        if step.kind == "skip":
            return "", f"No gradient to {to}{slot}: {reason}." if edge else f"{name} is passed over: {reason}."
        if step.kind == "rule":
            read = self._read(step)
            given = ", ".join(f"{k} = {v}" for k, v in read)
            what = f"{step.node.op}: {_returned(step.source)}" if step.source else step.node.op
            return what + (f"  with {given}" if given else ""), f"Ask the rule of {step.node.op} for {to}{slot}."
        if step.kind == "contribution":
            numbers = {k: v for k, v in self._operands(step).items() if not shape_of(v)}
            written = with_numbers(step.source, numbers)
            formula = value if written in (None, value) else f"{written} = {value}"
            return formula, f"{name} sends {value} to {to}{slot}."
        if step.before is None:
            return f"{to}: {value}", f"The store has nothing for {to} yet: now it holds {value}."
        total = summary(step.change[1])
        added = value if not value.startswith("-") else f"({value})"
        if shape_of(step.value) and step.value.size > 6:
            return f"{to}: new sum {total}", f"Add it to what the store has for {to}: {total}."
        return f"{to}: {summary(step.before)} + {added} = {total}", (
            f"Add it to what the store has for {to}: {summary(step.before)} + {added} = {total}.")  # fmt: skip

    def _operands(self, step: Step) -> dict:
        """What the names in a partial stand for at this step."""
        node = step.node.node
        if is_value(node):
            inputs = [x.data if is_value(x) else float(x) for x in node.inputs]
            return {"g": step.value if step.kind == "rule" else self._cotangent, "y": node.data,
                    **dict(zip("ab", inputs))}  # fmt: skip
        values = {"g": step.value if step.kind == "rule" else self._cotangent, "y": node._data}
        if node._rule.each is None:
            partial = node._rule.partials[step.edge.slot]
            names = [n for n in inspect.signature(partial).parameters if n not in ("g", "y")]
            if "operands" in names:
                names = []
            values.update(zip(names, [_array(x) for x in node._inputs]))
        return values

    def _read(self, step: Step) -> list[tuple[str, str]]:
        """The names that the partial reads, with what they are: ("b", "y = 2")."""
        self._cotangent = step.value
        handles = {e.slot: e.source.handle for e in step.node.inputs if not e.origin}
        found, operands = [], self._operands(step)
        names = [n for n in operands if n not in ("g", "y")]
        for name in used_names(step.source):
            if name not in operands:
                continue
            of = step.node.handle if name == "y" else handles.get(names.index(name)) if name in names else None
            shown = summary(operands[name])
            found.append((name, f"{of} = {shown}" if of else shown))
        return found


def trace(root, cotangent=None, *, wrt=None, keep=(), detach="all", strong_zero=False, names=None) -> Trace:
    """The backward pass from `root` as data: one `Step` for each event, with the store at that moment.

    Takes the arguments of `Tensor.backward`, raises what it raises, and ends with the same store, `.grads`. `names` as
    for `draw`. A root from `autodiff.scalar` is traced too; it takes no arguments, and its gradients stay on the nodes
    (those of the nodes themselves are not written).

    >>> import autodiff as ad
    >>> x = ad.Var(-3.0)
    >>> y = x * x
    >>> ad.trace(y)
    backward pass from y: 8 steps
    step  event         where   what happens                        store
    0     seed          y       Start: put 1 into the store for y.  y: 1
    ...
    >>> ad.trace(y)[-1].text
    'Add it to what the store has for x: -3 + (-3) = -6.'
    """
    if is_value(root):
        if cotangent is not None or wrt is not None or keep or detach != "all" or strong_zero:
            raise TypeError("a Value of autodiff.scalar is traced without further arguments")
    elif not isinstance(root, Node):
        raise TypeError(f"a backward pass starts from a Tensor or an autodiff.scalar.Value, got {type(root).__name__}")
    graph = graph_of(root, names)
    result = Trace(graph, graph.roots[0])
    if is_value(root):
        result.grads = scalar_pass(root, result._tell)
    else:
        result.grads = tensor_pass(root, result._tell, cotangent, wrt, keep, detach, strong_zero)
    return result


def _array(x):
    return x._data if isinstance(x, Node) else x


def _returned(source: str) -> str:
    """What a lambda returns, as written; of anything else, its first line."""
    from .source import body

    found = body(source)
    if found is None:
        return source.split("\n")[0]
    import ast

    return ast.get_source_segment(source, found) or ast.unparse(found)


def _plain(x):
    """`x` as JSON takes it."""
    if x is None:
        return None
    if not shape_of(x):
        x = x.item() if hasattr(x, "item") else x
        return x if not isinstance(x, float) or math.isfinite(x) else str(x)
    if x.size > ENTRIES:
        return {"shape": list(x.shape), "summary": summary(x)}
    return _finite(x.tolist())


def _finite(items):
    return [_finite(i) if isinstance(i, list) else i if not isinstance(i, float) or math.isfinite(i) else str(i)
            for i in items]  # fmt: skip
