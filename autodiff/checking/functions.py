"""The functions under a check, each of which can be recorded from Vars and evaluated without a record."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from ..graph import PATH, Node
from ..recording import constant, no_grad
from ..tensor import Var


class First:
    """`f` itself."""

    order = 1
    quiet = staticmethod(no_grad)

    def __init__(self, f, items, positions, names):
        self.f, self.items, self.positions, self.names = f, items, positions, names
        self.whole = len(positions) == len(items)
        self.roots = ()

    def call(self, tensors) -> tuple:
        if self.whole:
            y = self.f(*tensors)
        else:
            items = self.items.copy()
            for p, t in zip(self.positions, tensors):
                items[p] = t
            y = self.f(*items)
        if isinstance(y, Node):
            return (y,)
        y = tuple(y) if isinstance(y, (tuple, list)) else (y,)
        for part in y:
            if not isinstance(part, (Node, np.ndarray, np.generic, int, float)):
                raise TypeError(f"gradcheck: f must return a Tensor or a tuple of them, got {type(part).__name__}")
        return y

    def record(self, variables) -> tuple:
        self.roots = self.call(variables)
        return self.roots

    operand = staticmethod(constant)  # an array as `plain` takes it

    def plain(self, operands) -> tuple:
        return self.call(operands)

    def name(self, i: int, count: int) -> str:
        return "output" if count == 1 else f"output {i}"


class Recording(First):
    """`f` evaluated on Vars, for functions that look at gradients themselves and so need to be recorded."""

    quiet = staticmethod(nullcontext)
    operand = Var


class Second:
    """The gradients of `f`, as a function of its inputs and of the cotangent."""

    order = 2
    quiet = staticmethod(nullcontext)

    def __init__(self, first: First, n: int, names):
        self.first, self.n, self.names = first, n, names
        self.roots = ()

    def record(self, variables) -> tuple:
        result = self.gradients(variables[: self.n], variables[self.n :], "none")
        self.roots = self.first.roots
        return result

    operand = Var

    def plain(self, operands) -> tuple:
        return self.gradients(operands[: self.n], operands[self.n :], "all")

    def gradients(self, xs, cotangents, detach) -> tuple:
        totals = [None] * self.n
        for y, c in zip([y for y in self.first.record(xs) if differentiable(y)], cotangents):
            store = y.backward(c, wrt=xs, detach=detach)
            for k, x in enumerate(xs):
                g = store.get(x)
                if g is not None:
                    totals[k] = g if totals[k] is None else totals[k] + g
        return tuple([np.zeros(x._shape, x._array.dtype) if g is None else g for x, g in zip(xs, totals)])

    def name(self, i: int, count: int) -> str:
        return f"the gradient of {self.names[i]}"


class Replay:
    """The recorded graph, evaluated again with other inputs: what was detached is a leaf of it, and stays as it is."""

    quiet = staticmethod(no_grad)
    operand = staticmethod(lambda array: array)

    def __init__(self, subject):
        self.subject, self.order, self.name = subject, subject.order, subject.name

    roots = property(lambda self: self.subject.roots)

    def record(self, variables) -> tuple:
        self.variables, self.outputs = variables, self.subject.record(variables)
        nodes = below_roots([y for y in self.outputs if isinstance(y, Node)])
        self.nodes = [(t, *forward_params(t)[:1]) for t in sorted(nodes, key=lambda t: t._id) if t._rule is not None]
        return self.outputs

    def plain(self, operands) -> tuple:
        values = dict(zip(self.variables, operands))
        for node, params in self.nodes:
            operands = [values.get(t, t._array) if isinstance(t, Node) else t for t in node._inputs]
            rule = node._rule
            values[node] = rule.forward(operands, **params) if rule.each else rule.forward(*operands, **params)
        return tuple([values.get(y, y._array) if isinstance(y, Node) else y for y in self.outputs])


def below_roots(roots) -> list[Node]:
    """The roots and everything they were computed from, along differentiable paths or not."""
    found = list(dict.fromkeys(roots))
    seen = set(found)
    for node in found:  # grows while we walk it
        for t in node._inputs:
            if isinstance(t, Node) and t not in seen:
                seen.add(t)
                found.append(t)
    return found


def forward_params(node: Node) -> tuple[dict, dict]:
    """A node's params, parted into those that its forward takes and those that its partials alone take."""
    params = node._params
    if not params:
        return params, params
    known = node._rule.signature.parameters
    anything = any(p.kind == p.VAR_KEYWORD for p in known.values())
    forward = {k: v for k, v in params.items() if anything and k != "saved" or k in known}
    return forward, {k: v for k, v in params.items() if k not in forward and k != "saved"}


def floating(y) -> bool:
    return (y._array.dtype if isinstance(y, Node) else np.asarray(y).dtype).kind == "f"


def differentiable(y) -> bool:
    """Whether y is a result that some Var leads to by differentiable ops."""
    return isinstance(y, Node) and y._role == PATH and floating(y)


def array_of(y) -> np.ndarray:
    return y._array if isinstance(y, Node) else np.asarray(y)


def random_cotangent(rng, shape, dtype):
    """Random, of either sign, no entry near 0 and hardly one equal to 1: ones would hide errors that sum to zero."""
    return np.asarray(rng.choice((-1.0, 1.0), shape) * rng.uniform(0.5, 1.5, shape)).astype(dtype)


def flat_gradient(g, v) -> np.ndarray:
    return np.zeros(v.size, v.dtype) if g is None else np.reshape(g, -1)


def index_of(i: int, shape) -> tuple[int, ...]:
    return tuple(int(n) for n in np.unravel_index(i, shape)) if shape else ()


def label_of(t: Node) -> str:
    name = getattr(t, "_name", None)
    return f"{name!r}" if name else f"one of shape {t._shape}"


def where_not_finite(v) -> str:
    i = tuple(int(n) for n in np.argwhere(~np.isfinite(v))[0])
    return f"{v[i]}" + (f" at index {i}" if i else "")
