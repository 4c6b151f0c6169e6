"""A step in words and in numbers."""

from __future__ import annotations

import ast
import inspect
import sys

from ..drawing.text import ENTRIES, shape_of, summary
from ..drawing.view import is_value
from ..graph import Node
from .source import body, function_source, partial_source, used_names, with_numbers


def plain(x):
    """The array of a tensor; anything else as it is."""
    return x._array if isinstance(x, Node) else x


def source_of(step) -> str | None:
    """The partial that a step asks, as it is written."""
    if step.edge is None:
        return None
    node, slot = step.node.node, step.edge.slot
    if is_value(node):
        return function_source(sys.modules["autodiff.scalar"].RULES[node.op][slot + 1])
    return partial_source(node._rule, slot)


def formula(step) -> str:
    """What is computed at this step, with numbers in the place of names where they are numbers."""
    if step.kind == "rule" and not is_value(step.node.node) and step.node.node._rule.joint is not None:
        return f"{step.node.op}: run it again, and go back through it  with g = {summary(step.cotangent)}"
    if step.kind == "rule":
        given = ", ".join(f"{name} = {what}" for name, what in _read(step))
        written = _returned(step.source)
        return step.node.op + (f": {written}" if written else "") + (f"  with {given}" if given else "")
    value = "" if step.value is None else summary(step.value)
    if step.kind == "contribution":
        written = with_numbers(step.source, {k: v for k, v in _operands(step).items() if not shape_of(v)})
        return value if written in (None, value, f"({value})") else f"{written} = {value}"
    if step.kind == "accumulate":
        return f"{step.edge.source.handle}: {_sum(step)}"
    if step.kind == "keep":
        return f"{_holder(step)}: {_sum(step)}"
    return ""


def sentence(step) -> str:
    """The step in one sentence."""
    name, value = step.node.handle, "" if step.value is None else summary(step.value)
    to = step.edge.source.handle if step.edge else ""
    slot = f" (operand {step.edge.operand})" if step.edge and len(step.edge.target.inputs) > 1 else ""
    if step.kind == "seed":
        return f"Start: put {value} into the store for {name}."
    if step.kind == "take":
        if _on_the_node(step):
            return f"Read {value}, the whole gradient of {name}; it stays on the node."
        if step.change[1] is not None:
            return f"Read {value}, the whole gradient of {name}; it stays in the store."
        return f"Take {value}, the whole gradient of {name}, out of the store."
    if step.kind == "skip":
        return f"No gradient to {to}{slot}: {step.reason}." if step.edge else f"{name} is passed over: {step.reason}."
    if step.kind == "rule":
        return f"{name} → {to}: ask the rule of {step.node.op}{slot}."
    if step.kind == "contribution":
        return f"{name} sends {value} to {to}{slot}."
    if step.kind == "zero":
        return f"{name} holds {summary(step.before)} from an earlier backward: set it to {value} before this one."
    if step.kind == "keep":
        return _keeping(step)
    if step.before is None:
        if _on_the_node(step):
            return f"{to} has no gradient yet: now it is {value}."
        return f"The store has nothing for {to} yet: now it holds {value}."
    return f"Add it to what is there for {to}: {_sum(step)}."


def _on_the_node(step) -> bool:
    """Whether gradients are kept on the nodes, and not in a store beside them."""
    return is_value(step.node.node) or step.trace.contract == "reset"


def _holder(step) -> str:
    """What holds a gradient that outlives the pass."""
    return step.node.handle + (".grad" if step.trace.contract == "pytorch" else "")


def _keeping(step) -> str:
    holder = _holder(step)
    if step.value is None:
        return f"{step.node.handle} is not reached: {holder} stays {summary(step.before)}, from an earlier backward."
    if step.before is None:
        return f"{holder} is empty: now it is {summary(step.value)}."
    return f"Add it to what {holder} holds from an earlier backward: {_sum(step)}."


def _sum(step) -> str:
    """The running sum, 18 + 36 = 54."""
    total = summary(step.change[1])
    if step.before is None or step.value is None:
        return total
    if getattr(step.value, "size", 1) > ENTRIES:
        return f"the sum is {total}"
    share = summary(step.value)
    return f"{summary(step.before)} + {f'({share})' if share.startswith('-') else share} = {total}"


def _operands(step) -> dict:
    """What the names in a partial stand for at this step: cotangent, output, then the operands, by position."""
    node = step.node.node
    if is_value(node):
        inputs = [x.data if is_value(x) else float(x) for x in node.inputs]
        return {"g": step.cotangent, "y": node.data, **dict(zip("ab", inputs))}
    rule, given = node._rule, (step.cotangent, node._array)
    if rule.each is not None or rule.joint is not None:
        return dict(zip("gyi", (*given, step.edge.slot)))
    parameters = inspect.signature(rule.partials[step.edge.slot]).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return dict(zip(names, (*given, *map(plain, node._inputs))))


def _read(step) -> list[tuple[str, str]]:
    """The names that the partial reads, with what they are: ("b", "y = 2")."""
    operands = _operands(step)
    handles = {e.slot: e.source.handle for e in step.node.inputs if not e.origin}
    of = dict(zip(operands, (None, step.node.handle, *map(handles.get, range(len(operands))))))
    if not is_value(step.node.node) and step.node.node._rule.each is not None:
        del of["i"]  # a position, no operand
    found = []
    for name in used_names(step.source):
        if name in operands:
            value = summary(operands[name])
            found.append((name, f"{of[name]} = {value}" if of.get(name) else value))
    return found


def _returned(source: str | None) -> str:
    """What a lambda returns, as written; of anything else, its first line."""
    if source is None:
        return ""
    found = body(source)
    return source.split("\n")[0] if found is None else ast.get_source_segment(source, found)
