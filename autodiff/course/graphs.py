"""The small graphs of the exercises, in plain Python.

A `Node` holds a name, a value, an operation and its inputs: one entry per operand slot, so the inputs of ``x * x`` are
``(x, x)``. Nodes know nothing about gradients. They count how often their inputs are read while a check runs, and stop
a walk that would never end.

>>> x = leaf("x", -3.0)
>>> y = mul(x, x, "y")
>>> y.value, y.inputs
(9.0, (x, x))
>>> shares(y, 1.0)
[(x, -3.0), (x, -3.0)]
"""

import random


class TooManyVisits(BaseException):
    """A walk read inputs too often. It is no Exception, so that `except Exception` lets it through."""


class Budget:
    """Counts the reads of `Node.inputs` inside a ``with`` block and ends the walk at `limit`."""

    active = None

    def __init__(self, limit: int):
        self.limit = limit
        self.visits = 0

    def spend(self):
        self.visits += 1
        if self.visits > self.limit:
            raise TooManyVisits(f"more than {self.limit} visits")

    def __enter__(self):
        self.outer, Budget.active = Budget.active, self
        return self

    def __exit__(self, *exc):
        Budget.active = self.outer


class Node:
    """One value in a graph.

    `name`: text; `value`: a float; `op`: "leaf", "add", "mul" or "neg"; `inputs`: the nodes it was computed from, one
    entry per operand slot, () for a leaf.
    """

    def __init__(self, name: str, value: float = 0.0, op: str = "leaf", inputs: tuple = ()):
        self.name = name
        self.value = value
        self.op = op
        self._inputs = tuple(inputs)

    @property
    def inputs(self) -> tuple:
        if Budget.active is not None:
            Budget.active.spend()
        return self._inputs

    def __repr__(self) -> str:
        return self.name


def leaf(name: str, value: float = 0.0) -> Node:
    """An input of the graph."""
    return Node(name, value)


def add(a: Node, b: Node, name: str) -> Node:
    """The node ``a + b``."""
    return Node(name, a.value + b.value, "add", (a, b))


def mul(a: Node, b: Node, name: str) -> Node:
    """The node ``a * b``."""
    return Node(name, a.value * b.value, "mul", (a, b))


def neg(a: Node, name: str) -> Node:
    """The node ``-a``."""
    return Node(name, -a.value, "neg", (a,))


def shares(node: Node, g: float) -> list[tuple[Node, float]]:
    """What `node` sends along each of its edges when the gradient `g` has arrived at it: one pair per edge."""
    if node.op == "leaf":
        return []
    if node.op == "neg":
        return [(node._inputs[0], -g)]
    a, b = node._inputs
    if node.op == "add":
        return [(a, g), (b, g)]
    return [(a, g * b.value), (b, g * a.value)]


def describe(root: Node) -> str:
    """The graph as one assignment a line, inputs before users.

    >>> x = leaf("x", 2.0)
    >>> print(describe(mul(x, x, "y")))
    y = x * x
    """
    lines = []
    for node in reversed(users_first(root)):
        names = [n.name for n in node._inputs]
        if names:
            lines.append(f"{node.name} = " + ("-" + names[0] if node.op == "neg" else
                                              {"add": " + ", "mul": " * "}[node.op].join(names)))
    return "\n".join(lines)


def users_first(root: Node) -> list[Node]:
    """Every node once, each after all its users: post-order on an explicit stack, reversed."""
    done, seen, stack = [], {root}, [(root, iter(root._inputs))]
    while stack:
        node, rest = stack[-1]
        for child in rest:
            if child not in seen:
                seen.add(child)
                stack.append((child, iter(child._inputs)))
                break
        else:
            done.append(node)
            stack.pop()
    return done[::-1]


def chain(length: int) -> Node:
    """``x1 = -x0``, ``x2 = -x1``, and so on: `length` + 1 nodes in one line."""
    node = leaf("x0", 1.0)
    for i in range(1, length + 1):
        node = neg(node, f"x{i}")
    return node


def doublings(count: int) -> Node:
    """``x1 = x0 + x0``, ``x2 = x1 + x1``, and so on: `count` + 1 nodes, 2**count paths."""
    node = leaf("x0", 1.0)
    for i in range(1, count + 1):
        node = add(node, node, f"x{i}")
    return node


def random_graph(rng: random.Random, leaves: int = 2, ops: int = 6) -> Node:
    """A graph of `ops` additions and products, in which every node is reached from the root."""
    nodes = [leaf("xyzw"[i], rng.choice([-3.0, -1.5, 1.5, 2.0, 2.5, 3.0])) for i in range(leaves)]
    unused = list(nodes)
    for i in range(ops):
        a, b = rng.choice(nodes), rng.choice(unused)
        node = rng.choice([add, mul])(a, b, f"n{i}")
        unused = [n for n in unused if n is not a and n is not b] + [node]
        nodes.append(node)
    while len(unused) > 1:
        a, b, *unused = unused
        nodes.append(add(a, b, f"n{len(nodes) - leaves}"))
        unused.append(nodes[-1])
    return unused[0]
