"""The engine of lesson 16, as the course has it: what stands in for the parts that a learner has not written yet.

Each part relies on nothing but what lesson 16 promises of the others, and finds them by their names in this file.
`autodiff.course.capstone.engine` puts a learner's parts under these names for as long as a test runs.
"""

import numpy as np


def _add_up(g, shape):
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(k for k, length in enumerate(shape) if length == 1), keepdims=True)


RULES = {
    "add": (np.add, lambda g, y, a, b: g, lambda g, y, a, b: g),
    "sub": (np.subtract, lambda g, y, a, b: g, lambda g, y, a, b: -g),
    "mul": (np.multiply, lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
    "matmul": (np.matmul, lambda g, y, a, b: g @ b.T, lambda g, y, a, b: a.T @ g),
    "tanh": (np.tanh, lambda g, y, a: g * (1 - y * y)),
    "exp": (np.exp, lambda g, y, a: g * y),
    "log": (np.log, lambda g, y, a: g / a),
    "sum": (lambda a, axis=None: np.sum(a, axis=axis, keepdims=axis is not None),
            lambda g, y, a, axis=None: np.broadcast_to(g, a.shape)),
    "broadcast": (lambda a, shape: np.broadcast_to(a, shape), lambda g, y, a, shape: _add_up(g, a.shape)),
}


class Node:
    __array_ufunc__ = None  # array + node is left to the node

    def __init__(self, value, op=None, inputs=(), params=None, variable=False, name=None):
        self.value = np.array(value, dtype=np.float64)
        self.value.setflags(write=False)
        self.op = op
        self.inputs = tuple(inputs)
        self.params = dict(params or {})
        self.variable = variable
        self.name = name
        self.tracked = variable or any(node.tracked for node in self.inputs)

    def __add__(self, other):
        return record("add", self, other)

    def __radd__(self, other):
        return record("add", other, self)

    def __sub__(self, other):
        return record("sub", self, other)

    def __rsub__(self, other):
        return record("sub", other, self)

    def __mul__(self, other):
        return record("mul", self, other)

    def __rmul__(self, other):
        return record("mul", other, self)

    def __matmul__(self, other):
        return record("matmul", self, other)

    def __rmatmul__(self, other):
        return record("matmul", other, self)

    def sum(self, axis=None):
        return record("sum", self, axis=axis)


def record(op, *inputs, **params):
    nodes = [n if isinstance(n, Node) else Node(n) for n in inputs]
    if op in ("add", "sub", "mul"):
        shape = np.broadcast_shapes(*(n.value.shape for n in nodes))
        nodes = [n if n.value.shape == shape else record("broadcast", n, shape=shape) for n in nodes]
    value = RULES[op][0](*(n.value for n in nodes), **params)
    return Node(value, op, nodes, params) if any(n.tracked for n in nodes) else Node(value)


def sorted_nodes(root):
    done, entered, stack = [], set(), [(root, iter((root,)))]
    while stack:
        node, left = stack[-1]
        following = next((n for n in left if n.tracked and n not in entered), None)
        if following is None:
            stack.pop()
            if stack:
                done.append(node)
        else:
            entered.add(following)
            stack.append((following, iter(following.inputs)))
    return done[::-1]


class GradStore:
    def __init__(self):
        self._by_node = {}

    def accumulate(self, node, g):
        if g.shape != node.value.shape:
            raise ValueError(f"a gradient of shape {g.shape} for a value of shape {node.value.shape}")
        there = node in self._by_node
        self._by_node[node] = self._by_node[node] + g if there else g

    def extend(self, other):
        for node, g in other._by_node.items():
            self.accumulate(node, g)

    def take(self, node):
        return self._by_node.pop(node)

    def get(self, node, default=None):
        return self._by_node.get(node, default)

    def __getitem__(self, node):
        return self._by_node[node]

    def __contains__(self, node):
        return node in self._by_node

    def __len__(self):
        return len(self._by_node)


def backward(root, cotangent=None):
    store = GradStore()
    store.accumulate(root, np.ones(root.value.shape) if cotangent is None else np.asarray(cotangent, dtype=float))
    for node in sorted_nodes(root):
        if node.op is not None:
            g = store.take(node)
            values = [n.value for n in node.inputs]
            for n, partial in zip(node.inputs, RULES[node.op][1:]):
                if n.tracked:
                    store.accumulate(n, partial(g, node.value, *values, **node.params))
    return store


def gradcheck(f, *arrays, step=1e-6, rng=0):
    arrays = [np.array(a, dtype=float) for a in arrays]
    leaves = [Node(a, variable=True) for a in arrays]
    out = f(*leaves)
    v = np.random.default_rng(rng).standard_normal(out.value.shape)
    grads = backward(out, v)
    worst = 0.0
    for k, leaf in enumerate(leaves):
        got = grads.get(leaf, np.zeros(leaf.value.shape))
        for index in np.ndindex(leaf.value.shape):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in arrays]
                moved[k][index] += sign * step
                ends.append(np.sum(v * f(*map(Node, moved)).value))
            slope = (ends[0] - ends[1]) / (2 * step)
            worst = np.maximum(worst, abs(got[index] - slope) / max(1.0, abs(slope)))  # a nan stays
    return float(worst)
