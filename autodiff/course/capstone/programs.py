"""Random programs: the same steps on the nodes of an engine, on arrays and on Tensors."""

import functools

import numpy as np

import autodiff as ad

PROGRAMS = 24
_SHAPES = ((), (3,), (2, 3), (2, 1), (3, 2))
_KINDS = ("tanh", "exp", "log", "sum", "sum", "number", "matmul", "matmul", "matmul", "add", "sub", "mul")


class Program:
    """A few leaves and a list of steps, drawn from a seed; `run` takes the leaves through the steps.

    Leaves are variables but for the last one, a constant. Nodes are used again and again, shapes are broadcast, numbers
    and arrays stand on either side of an operator, and not every leaf is always reached.
    """

    def __init__(self, seed: int):
        rng = np.random.default_rng([17, seed])
        self.leaves = [rng.uniform(-2, 2, _SHAPES[rng.integers(len(_SHAPES))]) for _ in range(rng.integers(2, 5))]
        self.steps = []
        pool, tracked = list(self.leaves), [True] * (len(self.leaves) - 1) + [False]
        while len(self.steps) < 9 or not tracked[-1]:
            step = self._next(rng, pool)
            # Few steps of constants alone: else, with the young ones preferred, nothing else might follow.
            if step is not None and (any(tracked[k] for k in step[1]) or tracked.count(False) < 3):
                self.steps.append(step)
                pool.append(np.asarray(_step(step, pool, with_numpy)))
                tracked.append(any(tracked[k] for k in step[1]))
        self.seed_of_root = rng.standard_normal(np.shape(pool[-1]))
        self.other_seed = rng.standard_normal(np.shape(pool[-1]))

    @staticmethod
    def _next(rng, pool):
        # Rather the younger ones, so that the root is made of much.
        i, j = (int(max(rng.integers(len(pool), size=2))) for _ in range(2))
        if rng.random() < 0.4:
            i = len(pool) - 1
        a, b = pool[i], pool[j]
        kind = _KINDS[rng.integers(len(_KINDS))]
        if np.max(np.abs(a)) > 3:
            return ("tanh", (i,), None)
        if kind in ("tanh", "exp", "log"):
            return (kind, (i,), None)
        if kind == "sum":
            return (kind, (i,), None if rng.random() < 0.4 or not a.ndim else int(rng.integers(a.ndim)))
        if kind == "number":
            return (kind, (i,), (int(rng.integers(4)), round(float(rng.uniform(0.5, 2)), 2)))
        if kind == "matmul":
            fits = [k for k, b in enumerate(pool) if a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0]]
            return (kind, (i, int(rng.choice(fits))), None) if fits else None
        try:
            return (kind, (i, j), None) if np.broadcast(a, b).size <= 12 else None
        except ValueError:
            return None

    def run(self, leaves, functions):
        pool = list(leaves)
        for step in self.steps:
            pool.append(_step(step, pool, functions))
        return pool


def _step(step, pool, functions):
    kind, operands, extra = step
    xs = [pool[k] for k in operands]
    if kind == "number":
        how, c = extra
        x, = xs
        array = np.full(x.shape if hasattr(x, "shape") else x.value.shape, c)
        return (lambda: x * c, lambda: c - x, lambda: array * x, lambda: x + 1)[how]()
    if kind == "log":
        return functions("log", xs[0] * xs[0] + 1.0)
    if kind in ("tanh", "exp"):
        return functions(kind, *xs)
    if kind == "sum":
        return functions("sum", *xs, axis=extra)
    a, b = xs
    return {"matmul": lambda: a @ b, "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b}[kind]()


def with_numpy(op, x, axis=None):
    if op == "sum":
        return np.sum(x, axis=axis, keepdims=axis is not None)
    return {"tanh": np.tanh, "exp": np.exp, "log": np.log}[op](x)


def on_nodes(engine):
    def apply(op, x, **params):
        return x.sum(**params) if op == "sum" else engine.apply(op, x)

    return apply


@functools.cache
def programs(seed: int) -> tuple:
    """(program, values, gradients of the variables with None for absent) as `autodiff` has them."""
    made = []
    for number in range(PROGRAMS):
        program = Program(seed * PROGRAMS + number)
        tensors = [*map(ad.Var, program.leaves[:-1]), ad.Tensor(program.leaves[-1])]
        pool = program.run(tensors, with_numpy)
        grads = pool[-1].backward(program.seed_of_root)
        made.append((program, [np.array(t.data if isinstance(t, ad.Tensor) else t) for t in pool],
                     [None if grads.get(t) is None else np.array(grads[t].data) for t in tensors[:-1]]))
    return tuple(made)
