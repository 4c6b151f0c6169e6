"""The backward pass as data: `trace` records every event of it, with the numbers and with the store at that moment."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field

from ..backward import backward
from ..drawing import Drawing
from ..drawing.text import clean, shape_of, summary, table
from ..drawing.view import Edge, Graph, NodeView, graph_of, is_value
from ..graph import Node
from . import words
from .life_cycles import PLACES, contract_pass, kind_of
from .passes import Teller, scalar_pass

__all__ = ["Step", "Trace", "trace"]

EXPORTED = 64  # arrays up to this size are exported in full
LISTED = 1000  # steps that are listed one by one
OF_OTHER_PASSES = ("zero", "keep")  # kinds of steps that tell what earlier passes left


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One event of a backward pass.

    `kind`: seed, take, rule, contribution, accumulate or skip; under a contract also zero and keep. `node`: whose
    cotangent is being handed on. `edge`: the operand slot it goes to, or None. `value`: the number or array of this
    event; `before`: what the slot held, for an accumulate, a zero or a keep. `change`: (node, what its slot holds now,
    or None when it was taken out), or None. `cotangent`: what was taken last. `reason`: why something is skipped.
    """

    index: int
    kind: str
    node: NodeView
    edge: Edge | None
    value: object
    before: object
    change: tuple | None
    cotangent: object
    reason: str
    trace: Trace = field(repr=False)

    @property
    def store(self) -> dict:
        """Node name -> gradient: the store after this step."""
        return self.trace.store_at(self.index)

    @property
    def where(self) -> str:
        """The node, or the node and the operand it hands its share to."""
        return self.node.handle if self.edge is None else f"{self.node.handle} -> {self.edge.source.handle}"

    @property
    def source(self) -> str | None:
        """The partial that is asked, as it is written in the table, or None."""
        return words.source_of(self) if self.kind in ("rule", "contribution") else None

    @property
    def formula(self) -> str:
        """What is computed, with numbers where the operands are numbers: ``18 * 2 = 36``."""
        return words.formula(self)

    @property
    def text(self) -> str:
        """The event in one sentence."""
        return words.sentence(self)


class Trace:
    """The events of one backward pass, in order: a sequence of `Step`, and the graph they belong to.

    `grads`: the store at the end, the same as `backward` returns. `graph`: the nodes with their names. `root`: the node
    the pass starts from. `contract`: the name of the life-cycle it is traced under, or None.
    """

    def __init__(self, graph: Graph, contract: str | None = None):
        self.graph, self.root, self.contract = graph, graph.roots[0], contract
        self.steps: list[Step] = []
        self.grads = None
        self._cotangent = None

    def _tell(self, kind, node, slot, value=None, before=None, stored=None, reason="") -> None:
        """Record an event, with nodes of the engine; `passes` calls it."""
        view = self.graph.by_node[node]
        edge = None if slot is None else next(e for e in view.inputs if e.slot == slot and not e.origin)
        if kind == "take":
            self._cotangent = words.plain(value)
        change = None if stored is None else (self.graph.by_node[stored[0]], words.plain(stored[1]))
        self.steps.append(Step(len(self.steps), kind, view, edge, words.plain(value), words.plain(before), change,
                               self._cotangent, reason, self))  # fmt: skip

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index):
        return self.steps[index]

    def store_at(self, index: int) -> dict:
        """Node name -> gradient: the store after step `index`."""
        store: dict = {}
        for step in self.steps[: range(len(self.steps))[index] + 1]:
            _apply(step, store)
        return store

    def gradients(self) -> dict:
        """Node -> its whole gradient in this pass, also of the nodes whose gradient was taken out of the store."""
        held = (s.change for s in self.steps if s.change is not None and s.kind not in OF_OTHER_PASSES)
        return {node: value for node, value in held if value is not None}

    def uses(self) -> dict:
        """Node -> its contributions as steps, one for each use."""
        found: dict = {}
        for step in self.steps:
            if step.kind == "contribution":
                found.setdefault(step.edge.source, []).append(step)
        return found

    def drawing(self) -> Drawing:
        """The graph with all gradients of this pass in its nodes, and each contribution on its edge."""
        shares = {s.edge.key: s.value for s in self.steps if s.kind == "contribution"}
        gradients = {node.key: value for node, value in self.gradients().items()}
        # By their keys: a folded graph has views of its own.
        return Drawing(self.graph, lambda node: gradients.get(node.key), lambda edge: shares.get(edge.key))

    @property
    def place(self) -> str:
        """What the store is called here."""
        if self.contract is not None:
            return PLACES[self.contract]
        return "Gradients on the nodes" if is_value(self.root.node) else "Gradient store"

    @property
    def title(self) -> str:
        """Where the pass starts, and under which contract."""
        return f"backward pass from {self.root.handle}" + (f" under {self.contract}" if self.contract else "")

    @property
    def text(self) -> str:
        """All steps as a table; of a very long pass, both ends."""
        return f"{self._headline()}\n{table(self._header, self._rows())}"

    _header = ("step", "event", "where", "what happens", "store")

    def _headline(self) -> str:
        return f"{self.title}: {len(self.steps)} step{'s' * (len(self.steps) != 1)}"

    def _rows(self) -> list[tuple]:
        rows, store, left_out = [], {}, range(0)
        if len(self.steps) > LISTED:
            left_out = range(LISTED // 2, len(self.steps) - LISTED // 2)
        for s in self.steps:
            _apply(s, store)
            if s.index in left_out:
                if s.index == left_out[0]:
                    rows.append(("…", "", "", f"{len(left_out):,} more steps", ""))
                continue
            held = ", ".join(f"{k}: {summary(v)}" for k, v in list(store.items())[:20])
            rows.append((str(s.index), s.kind, clean(s.where), clean(s.formula or s.text, 90), clean(held, 72)))
        return rows

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        def line(cells, tag):
            return "<tr>" + "".join(f"<{tag}{_literal(c)}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

        rows = "".join(line(row, "td") for row in self._rows())
        return (f"<table><caption>{html.escape(self._headline())}</caption>"
                f"<thead>{line(self._header, 'th')}</thead><tbody>{rows}</tbody></table>")  # fmt: skip

    def to_dicts(self) -> list[dict]:
        """The steps as plain data, as `json.dumps` takes it. Numbers not finite are text, large arrays summaries."""
        store: dict = {}
        exported = []
        for s in self.steps:
            _apply(s, store)
            edge = s.edge
            exported.append({
                "index": s.index, "kind": s.kind, "node": s.node.key, "name": s.node.handle, "op": s.node.op,
                "edge": edge and edge.key, "slot": edge and edge.slot, "operand": edge and edge.operand,
                "input": edge and edge.source.key, "input_name": edge and edge.source.handle,
                "value": _exported(s.value), "before": _exported(s.before), "source": s.source, "formula": s.formula,
                "text": s.text, "store": {k: _exported(v) for k, v in store.items()},
            })  # fmt: skip
        return exported


def trace(root, cotangent=None, *, wrt=None, keep=(), detach="all", strong_zero=False, names=None, contract=None,
          **options) -> Trace:  # fmt: skip
    """The backward pass from `root` as data: one `Step` for each event, with the store at that moment.

    Takes the arguments of `Tensor.backward`, raises what it raises, and ends with the same store, `.grads`. `names` as
    for `draw`. A root from `autodiff.scalar` is traced too: it takes no arguments, gradients stay on the nodes, and
    `.grads` is a dict (the nodes themselves are not written to).

    With `contract`, a life-cycle of `ad.contracts` as it stands, this is what its next `backward(root, ...)` does. It
    takes the arguments of that `backward` and raises what it raises; the life-cycle itself is left as it is. `.grads`
    is then a dict, tensor -> array: what the contract shows afterwards for the tensors of this graph.

    >>> import autodiff as ad
    >>> x = ad.Var(-3.0)
    >>> y = x * x
    >>> ad.trace(y)
    backward pass from y: 8 steps
    step  event         where   what happens                                          store
    0     seed          y       Start: put 1 into the store for y.                    y: 1
    1     take          y       Take 1, the whole gradient of y, out of the store.
    2     rule          y -> x  multiply: g * b  with g = 1, b = x = -3
    3     contribution  y -> x  1 * (-3) = -3
    4     accumulate    y -> x  x: -3                                                 x: -3
    5     rule          y -> x  multiply: g * a  with g = 1, a = x = -3               x: -3
    6     contribution  y -> x  1 * (-3) = -3                                         x: -3
    7     accumulate    y -> x  x: -3 + (-3) = -6                                     x: -6
    >>> c = ad.contracts.pytorch()
    >>> c.backward(x * x)
    >>> ad.trace(y, contract=c)[-1].formula, c.grad(x)
    ('x.grad: -6 + (-6) = -12', array(-6.))
    """
    given = {"wrt": (wrt, wrt is not None), "keep": (keep, bool(keep)), "detach": (detach, detach != "all"),
             "strong_zero": (strong_zero, strong_zero)}  # fmt: skip
    given = {name: value for name, (value, is_given) in given.items() if is_given}
    if contract is None and options:
        raise TypeError(f"trace takes no {next(iter(options))}= without a contract=")
    if is_value(root):
        if cotangent is not None or given or contract is not None:
            raise TypeError("a Value of autodiff.scalar is traced without further arguments")
    elif not isinstance(root, Node):
        raise TypeError(f"a backward pass starts from a Tensor or an autodiff.scalar.Value, got {type(root).__name__}")
    result = Trace(graph_of(root, names), None if contract is None else kind_of(contract))
    if contract is not None:
        seed = () if cotangent is None else (cotangent,)
        result.grads = contract_pass(root, result._tell, result.graph, contract, *seed, **given, **options)
    elif is_value(root):
        result.grads = scalar_pass(root, result._tell)
    else:
        result.grads = backward(root, cotangent, wrt=wrt, keep=keep, detach=detach, strong_zero=strong_zero,
                                watch=Teller(result._tell))  # fmt: skip
    return result


def _apply(step: Step, store: dict) -> None:
    """Do to `store` what happened at this step."""
    if step.change is not None:
        node, value = step.change
        if value is None:
            store.pop(node.handle, None)
        else:
            store[node.handle] = value


def _literal(text: str) -> str:
    """The attribute that keeps a notebook from setting `text` as a formula, where it could."""
    return ' class="mathjax_ignore tex2jax_ignore"' if "$" in text or "\\" in text else ""


def _exported(x):
    """`x` as JSON takes it."""
    if x is None:
        return None
    if not shape_of(x):
        return _finite(x.item() if hasattr(x, "item") else x)
    if x.size > EXPORTED:
        return {"shape": list(x.shape), "summary": summary(x)}
    return _finite(x.tolist())


def _finite(x):
    if isinstance(x, list):
        return [_finite(i) for i in x]
    return str(x) if isinstance(x, float) and not math.isfinite(x) else x
