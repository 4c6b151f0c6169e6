"""Random programs, to second order, against PyTorch: shared nodes, broadcasting, ties, views, many kinds of functions.

AUTODIFF_PROGRAMS sets how many (2,000 by default), AUTODIFF_PROGRAM runs the one with this seed and prints it.
"""

import math
import os

import numpy as np
import pytest

import autodiff as ad

COUNT = int(os.environ.get("AUTODIFF_PROGRAMS", "2000"))
CHUNKS = 20
LARGE = 30.0  # beyond this a value is brought back by tanh, so that rounding stays comparable
NEAR = 1e-7  # entries that differ by less, and are not equal, may compare differently in the two libraries

# One line for each function: ours, PyTorch's, and whether it decides by comparing entries

UNARY = {
    "sin": (np.sin, lambda t, x: t.sin(x)),
    "tanh": (np.tanh, lambda t, x: t.tanh(x)),
    "exp": (lambda x: np.exp(x / 8), lambda t, x: t.exp(x / 8)),
    "log": (lambda x: np.log(x * x + 1), lambda t, x: t.log(x * x + 1)),
    "sqrt": (lambda x: np.sqrt(abs(x) + 1), lambda t, x: t.sqrt(abs(x) + 1)),
    "square": (lambda x: x**2, lambda t, x: x**2),
    "cube": (lambda x: x**3, lambda t, x: x**3),
    "reciprocal": (lambda x: 1 / (1 + x * x), lambda t, x: 1 / (1 + x * x)),
    "arctan": (np.arctan, lambda t, x: t.atan(x)),
    "negative": (np.negative, lambda t, x: -x),
    "affine": (lambda x: 2.5 * x - 1, lambda t, x: 2.5 * x - 1),
    "expm1": (lambda x: np.expm1(-abs(x)), lambda t, x: t.expm1(-abs(x))),
    "sinc": (lambda x: np.sinc(x + 0.3), lambda t, x: t.sinc(x + 0.3)),
    "flip": (np.flip, lambda t, x: t.flip(x, tuple(range(x.ndim)))),
    "copy": (np.copy, lambda t, x: x.clone()),
    "ravel": (np.ravel, lambda t, x: x.ravel()),
    "T": (lambda x: x.T, lambda t, x: x.permute(tuple(range(x.ndim))[::-1])),
    "sum": (np.sum, lambda t, x: x.sum()),
    "mean": (np.mean, lambda t, x: x.mean()),
    "prod": (lambda x: np.prod(x / 4), lambda t, x: (x / 4).prod()),
    "norm": (lambda x: np.linalg.norm(x * x + 1), lambda t, x: t.linalg.vector_norm(x * x + 1)),
    "outer": (lambda x: np.outer(x, x), lambda t, x: t.outer(x.ravel(), x.ravel())),
    "detach": (lambda x: x * x.detach(), lambda t, x: x * x.detach()),
    "abs": (abs, lambda t, x: abs(x)),
    "max": (np.max, lambda t, x: x.amax()),
    "min": (np.min, lambda t, x: x.amin()),
    "clip": (lambda x: np.clip(x, -1, 2), lambda t, x: _clip(t, x)),
    "floor": (lambda x: x + np.floor(x), lambda t, x: x + t.floor(x)),
}
ALONG = {  # with an axis
    "sum": (lambda x, i: np.sum(x, axis=i), lambda t, x, i: x.sum(i)),
    "mean": (lambda x, i: np.mean(x, axis=i, keepdims=True), lambda t, x, i: x.mean(i, keepdim=True)),
    "prod": (lambda x, i: np.prod(x / 2, axis=i), lambda t, x, i: (x / 2).prod(i)),
    "var": (lambda x, i: np.var(x, axis=i), lambda t, x, i: x.var(i, correction=0)),
    "cumsum": (lambda x, i: np.cumsum(x, axis=i), lambda t, x, i: x.cumsum(i)),
    "cumprod": (lambda x, i: np.cumprod(x / 2, axis=i), lambda t, x, i: (x / 2).cumprod(i)),
    "max": (lambda x, i: np.max(x, axis=i), lambda t, x, i: x.amax(i)),
    "min": (lambda x, i: np.min(x, axis=i, keepdims=True), lambda t, x, i: x.amin(i, keepdim=True)),
    "sort": (lambda x, i: np.sort(x, axis=i), lambda t, x, i: t.sort(x, dim=i, stable=True)[0]),
    "first": (lambda x, i: np.moveaxis(x, i, 0)[0], lambda t, x, i: x.select(i, 0)),
    "backwards": (lambda x, i: np.moveaxis(x, i, 0)[::-1], lambda t, x, i: x.movedim(i, 0).flip(0)),
    "take": (lambda x, i: np.take(x, [0, -1, 0], axis=i), lambda t, x, i: _take(t, x, i)),
    "unsqueeze": (lambda x, i: np.expand_dims(x, i), lambda t, x, i: x.unsqueeze(i)),
    "diff": (lambda x, i: np.diff(x, axis=i, prepend=0.5), lambda t, x, i: _diff(t, x, i)),
}
BINARY = {
    "add": (np.add, lambda t, x, y: x + y),
    "subtract": (np.subtract, lambda t, x, y: x - y),
    "multiply": (np.multiply, lambda t, x, y: x * y),
    "divide": (lambda x, y: x / (1 + y * y), lambda t, x, y: x / (1 + y * y)),
    # exponents that are never 0, where PyTorch (2.13) loses the mixed second derivative
    "power": (lambda x, y: (abs(x) + 0.5) ** (np.tanh(y) - 1.5), lambda t, x, y: (abs(x) + 0.5) ** (t.tanh(y) - 1.5)),
    "arctan2": (lambda x, y: np.arctan2(x, y * y + 1), lambda t, x, y: t.atan2(x, y * y + 1)),
    "hypot": (lambda x, y: np.hypot(x, y * y + 1), lambda t, x, y: t.hypot(x, y * y + 1)),
    "logaddexp": (np.logaddexp, lambda t, x, y: t.logaddexp(x, y)),
    "where": (lambda x, y: np.where(_mask(x), x, y), lambda t, x, y: t.where(t.tensor(_mask(x)), x, y)),
    "maximum": (np.maximum, lambda t, x, y: t.maximum(x, y)),
    "minimum": (np.minimum, lambda t, x, y: t.minimum(x, y)),
}
SAME = {  # of one shape
    "concatenate": (lambda x, y: np.concatenate([x, y]), lambda t, x, y: t.cat([x, y])),
    "stack": (lambda x, y: np.stack([x, y], axis=-1), lambda t, x, y: t.stack([x, y], -1)),
    "inner": (lambda x, y: np.sum(x * y, axis=-1), lambda t, x, y: (x * y).sum(-1)),
    "matmul": (lambda x, y: x @ np.swapaxes(y, -1, -2) if x.ndim > 1 else x @ y,
               lambda t, x, y: x @ y.mT if x.ndim > 1 else x @ y),
    "einsum": (lambda x, y: np.einsum("...i,...i->...", x, y), lambda t, x, y: t.einsum("...i,...i->...", x, y)),
}  # fmt: skip
KINKED = {"abs", "sqrt", "expm1", "power", "clip", "floor", "max", "min", "sort", "maximum", "minimum"}
SHAPES = [(), (1,), (3,), (2, 3), (3, 1), (1, 3), (2, 1, 3), (2, 2)]


def _clip(t, x):
    return t.minimum(t.maximum(x, t.tensor(-1.0, dtype=x.dtype)), t.tensor(2.0, dtype=x.dtype))


def _take(t, x, i):
    return x.index_select(i, t.tensor([0, x.shape[i] - 1, 0]))


def _diff(t, x, i):
    return t.diff(x, dim=i, prepend=t.full_like(x.narrow(i, 0, 1), 0.5))


def _mask(x):
    """A fixed pattern of the shape of `x`."""
    return (np.arange(math.prod(x.shape)) % 3 > 0).reshape(tuple(x.shape))


def values_of(x):
    return x.data if isinstance(x, ad.Tensor) else x.detach().numpy()


class Doubtful(Exception):
    """Entries that should be equal or apart are neither: rounding decides, and each library rounds in its way."""


def check_apart(name, *operands):
    """Raise `Doubtful` when a comparison hangs on rounding."""
    if name not in KINKED:
        return
    kinks = {"clip": (-1.0, 2.0), "floor": tuple(map(float, range(-31, 32)))}.get(name, (0.0,))
    flats = [np.ravel(values_of(x)) for x in operands]
    if name in ("max", "min", "sort"):
        gaps = np.abs(np.diff(np.sort(flats[0])))
    elif name in ("maximum", "minimum"):
        gaps = np.abs(np.ravel(values_of(operands[0])[..., None] - values_of(operands[1])[..., None]))
    else:
        gaps = np.abs(np.subtract.outer(flats[0], kinks)).ravel()
    if np.any((gaps > 0) & (gaps < NEAR)):
        raise Doubtful


class Program:
    """A list of steps ``(table, name, operands, axis)``, written while it runs on our tensors."""

    def __init__(self, seed):
        rng = self.rng = np.random.default_rng(seed)
        self.leaves = []
        for _ in range(rng.integers(1, 4)):
            shape = SHAPES[rng.integers(len(SHAPES))]
            whole = rng.random() < 0.5  # small integers make ties
            self.leaves.append(rng.integers(-2, 3, shape).astype(float) if whole else rng.standard_normal(shape))
        self.steps = []

    def write(self, tensors):
        pool, rng = list(tensors), self.rng
        for _ in range(rng.integers(4, 13)):
            self.steps.append(self.next_step(pool))
            pool.append(run_step(self.steps[-1], pool))
        return pool

    def next_step(self, pool):
        rng = self.rng
        pick = lambda: int(max(rng.integers(len(pool)), rng.integers(len(pool))))  # rather the younger ones
        while True:
            i, j, kind = pick(), pick(), rng.random()
            x, y = pool[i], pool[j]
            large = np.max(np.abs(values_of(x)), initial=0) > LARGE
            if large:
                return (UNARY, "tanh", (i,), None)
            if kind < 0.35:
                name = str(rng.choice(list(UNARY)))
                if name == "outer" and x.size > 6:
                    continue
                return (UNARY, name, (i,), None)
            if kind < 0.6 and x.ndim and x.size:
                return (ALONG, str(rng.choice(list(ALONG))), (i,), int(rng.integers(x.ndim)))
            if kind < 0.75 and x.ndim and x.shape == y.shape and x.size <= 24:
                return (SAME, str(rng.choice(list(SAME))), (i, j), None)
            if kind >= 0.6:
                try:
                    shape = np.broadcast_shapes(x.shape, y.shape)
                except ValueError:
                    continue
                if math.prod(shape) <= 48:
                    return (BINARY, str(rng.choice(list(BINARY))), (i, j), None)

    def run(self, torch, tensors):
        pool = list(tensors)
        for step in self.steps:
            pool.append(run_step(step, pool, torch))
        return pool

    def __str__(self):
        lines = [f"v{i} = Var({leaf.tolist()})" for i, leaf in enumerate(self.leaves)]
        for k, (_, name, operands, axis) in enumerate(self.steps, len(self.leaves)):
            lines.append(f"v{k} = {name}({', '.join(f'v{i}' for i in operands)}{'' if axis is None else f', {axis}'})")
        return "\n".join(lines)


def run_step(step, pool, torch=None):
    table, name, operands, axis = step
    xs = [pool[i] for i in operands]
    check_apart(name, *xs)
    extra = () if axis is None else (axis,)
    return table[name][0](*xs, *extra) if torch is None else table[name][1](torch, *xs, *extra)


def compare(seed, torch):
    """None, "doubtful", or what differs."""
    program = Program(seed)
    xs = [ad.Var(leaf) for leaf in program.leaves]
    try:
        pool = program.write(xs)
    except Doubtful:
        return "doubtful"
    rng = np.random.default_rng([seed, 1])
    roots = {len(pool) - 1, int(rng.integers(len(xs), len(pool)))}
    weights = {r: rng.standard_normal(pool[r].shape) for r in sorted(roots)}
    directions = [rng.standard_normal(x.shape) for x in xs]

    loss = sum((pool[r] * w).sum() for r, w in weights.items())
    first = [_or_zeros(loss.backward(wrt=xs), x) for x in xs]
    store = loss.backward(wrt=xs, detach="none")
    slope = sum((store[x] * d).sum() for x, d in zip(xs, directions) if x in store)
    second = slope.backward(wrt=xs) if isinstance(slope, ad.Tensor) else {}
    second = [_or_zeros(second, x) for x in xs]

    leaves = [torch.tensor(leaf, requires_grad=True) for leaf in program.leaves]
    try:
        theirs = program.run(torch, leaves)
    except Doubtful:
        return "doubtful"
    total = sum((theirs[r] * torch.tensor(w)).sum() for r, w in weights.items())
    grads = slopes(torch, total, leaves, create_graph=True)
    seconds = slopes(torch, sum((g * torch.tensor(d)).sum() for g, d in zip(grads, directions)), leaves)

    for order, ours, reference in (("first", first, grads), ("second", second, seconds)):
        for i, (a, b) in enumerate(zip(ours, reference)):
            b = (b.detach() + torch.zeros(b.shape)).numpy()  # a sum: the zeros PyTorch stands in for have no memory
            scale = max(1.0, np.max(np.abs(b), initial=0))
            if a.shape != b.shape or not np.allclose(a, b, rtol=1e-7, atol=1e-9 * scale):
                found = f"seed {seed}: {order} derivative of v{i}: {a.tolist()}, PyTorch {b.tolist()}"
                return f"{found}\n{program}\nroots {weights}"
    return None


def slopes(torch, y, leaves, **options):
    """PyTorch's gradients of `y`; zeros for a constant."""
    if not y.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    return torch.autograd.grad(y, leaves, materialize_grads=True, **options)


def _or_zeros(store, x):
    return store[x].data if x in store else np.zeros(x.shape)


@pytest.mark.torch
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_have_pytorchs_derivatives_to_second_order(chunk):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if only := os.environ.get("AUTODIFF_PROGRAM"):
        program = Program(int(only))
        program.write([ad.Var(leaf) for leaf in program.leaves])
        print(program)
        seeds = [int(only)] if chunk == 0 else []
    else:
        seeds = range(chunk, COUNT, CHUNKS)
    outcomes = [compare(seed, torch) for seed in seeds]
    wrong = [o for o in outcomes if o not in (None, "doubtful")]
    assert not wrong, f"{len(wrong)} of {len(outcomes)} programs differ; the first:\n{wrong[0]}"
    assert outcomes.count("doubtful") <= 0.1 * len(outcomes)


def test_the_random_programs_use_every_function_and_have_shared_nodes_and_ties():
    used, shared, tied = set(), 0, 0
    for seed in range(300):
        program = Program(seed)
        try:
            program.write([ad.Var(leaf) for leaf in program.leaves])
        except Doubtful:
            continue
        used |= {name for _, name, _, _ in program.steps}
        operands = [i for *_, operands, _ in program.steps for i in operands]
        shared += len(operands) > len(set(operands))
        tied += any(leaf.size > len(np.unique(leaf)) for leaf in program.leaves)
    assert used == {*UNARY, *ALONG, *BINARY, *SAME}
    assert shared > 200 and tied > 50
