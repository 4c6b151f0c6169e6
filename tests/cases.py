"""The test table of the rules: for every function that has one, what to call and on which operands.

To add a function, add its line in autodiff/rules/table.py and its case here; `test_rules.py` does the rest.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from autodiff.rules import astype, index, put

CASES = []


@dataclass(frozen=True)
class Case:
    """`call` on `operands`: the floating arrays among them are differentiated, everything else is passed on.

    `torch`: the same in PyTorch, a function of the module and the operands. `exact`: the forward has NumPy's very bits.
    `second`: it has a second derivative. `repeats`: the operands may hold equal entries (stride-0 inputs do).
    """

    function: Callable
    name: str
    operands: tuple
    call: Callable
    torch: Callable | None = None
    exact: bool = True
    second: bool = True
    repeats: bool = True
    options: dict = field(default_factory=dict)

    def __call__(self, *operands):
        return self.call(*operands, **self.options)


def case(function, *operands, call=None, torch=None, name=None, exact=True, second=True, repeats=True, **options):
    """Enter a case; `torch`: a function of (module, *operands), or the name of PyTorch's function."""
    if isinstance(torch, str):
        path = torch.split(".")
        torch = lambda t, *xs: _walk(t, path)(*xs)
    label = name or function.__name__
    label += "".join(f"-{k}={v}" for k, v in options.items() if isinstance(v, (int, str, tuple, type(None))))
    taken = sum(c.name == label or c.name.startswith(label + "-again") for c in CASES)
    label += f"-again{taken}" if taken else ""
    CASES.append(Case(function, label, operands, call or function, torch, exact, second, repeats, options))


def _walk(thing, path):
    for name in path:
        thing = getattr(thing, name)
    return thing


def spread(*shape, low=-2.1, high=2.3, seed=0):
    """Numbers between `low` and `high` in random order, apart from each other and, with these bounds, from 0."""
    n = math.prod(shape)
    shift = 0.5 + 0.5 * ((0.618 * seed) % 1 - 0.5)
    values = low + (high - low) * (np.arange(n) + shift) / max(n, 1)
    return np.random.default_rng(seed).permutation(values).reshape(shape)


def positive(*shape, seed=0):
    return spread(*shape, low=0.3, high=2.5, seed=seed)


def unit(*shape, seed=0):
    return spread(*shape, low=-0.9, high=0.87, seed=seed)


A, B, C = spread(3, 4), spread(3, 4, seed=1), spread(4, seed=2)
P, Q = positive(3, 4), positive(3, 4, seed=1)
V, W = spread(5, seed=3), spread(5, seed=4)
T = spread(2, 3, 4, seed=5)
FLAGS = np.random.default_rng(7).random((3, 4)) < 0.5

# Arithmetic
case(np.add, A, C, torch="add")
case(np.add, A, 2.5)
case(np.subtract, C, A, torch="sub")
case(np.multiply, A, B, torch="mul")
case(np.multiply, spread(3, 1), spread(1, 4, seed=1), torch="mul")
case(np.multiply, A, 2.5)
case(np.divide, A, P, torch="div")
case(np.divide, 2.0, P, call=lambda a, b: a / b, torch=lambda t, a, b: a / b)
case(np.power, A, call=lambda a: a ** np.array([0, 1, 2, 3]), name="power-row")
case(np.power, P, B, torch="pow")
case(np.power, A, 3.0, torch="pow")
case(np.power, A, 1, torch="pow")
case(np.power, A, 0, torch="pow")
case(np.power, A, -2.0, torch="pow")
case(np.power, P, 0.5, torch="pow")
case(np.power, 2.0, A, call=lambda a, b: a**b, torch=lambda t, a, b: a**b)
case(np.float_power, P, B, torch="pow")
case(np.remainder, A, 0.7 * P, torch="remainder")
case(np.remainder, A, -0.7)
case(np.fmod, A, 0.7 * P, torch="fmod")
case(np.negative, A, torch="neg")
case(np.positive, A)
case(np.reciprocal, A, torch="reciprocal")
case(np.square, A, torch="square")
case(np.sqrt, P, torch="sqrt")
case(np.cbrt, A)

# Kinks
case(np.absolute, A, torch="abs")
case(np.fabs, A, torch="abs")
case(np.maximum, A, B, torch="maximum")
case(np.maximum, A, 0.25)
case(np.minimum, A, B, torch="minimum")
case(np.fmax, A, B, torch="fmax")
case(np.fmin, A, B, torch="fmin")
case(np.copysign, A, B, torch="copysign")

# Exponentials and logarithms
case(np.exp, A, torch="exp")
case(np.exp2, A, torch="exp2")
case(np.expm1, A, torch="expm1")
case(np.log, P, torch="log")
case(np.log2, P, torch="log2")
case(np.log10, P, torch="log10")
case(np.log1p, P, torch="log1p")
case(np.logaddexp, A, B, torch="logaddexp")
case(np.logaddexp, A, A[0], torch="logaddexp", name="logaddexp-equal")
case(np.logaddexp2, A, B, torch="logaddexp2")

# Trigonometric and hyperbolic functions
case(np.sin, A, torch="sin")
case(np.cos, A, torch="cos")
case(np.tan, unit(3, 4), torch="tan")
case(np.arcsin, unit(3, 4), torch="arcsin")
case(np.arccos, unit(3, 4), torch="arccos")
case(np.arctan, A, torch="arctan")
case(np.arctan2, A, B, torch="arctan2")
case(np.hypot, A, B, torch="hypot")
case(np.sinh, A, torch="sinh")
case(np.cosh, A, torch="cosh")
case(np.tanh, A, torch="tanh")
case(np.arcsinh, A, torch="arcsinh")
case(np.arccosh, 1.1 + P, torch="arccosh")
case(np.arctanh, unit(3, 4), torch="arctanh")
case(np.deg2rad, A, torch="deg2rad")
case(np.radians, A, torch="deg2rad")
case(np.rad2deg, A, torch="rad2deg")
case(np.degrees, A, torch="rad2deg")
case(np.sinc, A, torch="sinc")
case(np.sinc, np.array([-0.012, -0.005, 0.0, 1e-9, 0.0003, 0.004, 0.011]), name="sinc-near-0")

# Choosing
case(np.where, FLAGS, A, B, torch="where")
case(np.where, FLAGS, spread(3, 1), C, torch="where")
case(np.where, FLAGS, A, 0.0)
case(np.nan_to_num, A, torch="nan_to_num")
case(np.clip, A, -0.5, 0.8, torch="clamp")
case(np.clip, A, None, 0.8)
case(np.clip, A, spread(4, low=-1, high=-0.2), spread(4, low=0.2, high=1), torch="clamp")
case(np.clip, A, min=-0.5)

# Reductions
for axis, keepdims in ((None, False), (0, False), (-1, True), ((0, -1), False), (None, True), ((), False)):
    for function, name in ((np.sum, "sum"), (np.mean, "mean"), (np.max, "amax"), (np.min, "amin"), (np.var, "var"),
                           (np.std, "std"), (np.prod, None)):  # fmt: skip
        if axis == () and function in (np.var, np.std):
            continue
        again = {"correction": 0} if name in ("var", "std") else {}
        expression = lambda t, a, name=name, axis=axis, keepdims=keepdims, again=again: getattr(t, name)(
            a, dim=tuple(range(a.ndim)) if axis is None else axis, keepdim=keepdims, **again)  # fmt: skip
        case(function, T, axis=axis, keepdims=keepdims, torch=expression if name and axis != () else None)
ZEROS = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [1.5, -2.0, 0.5]])
case(np.prod, ZEROS, torch="prod", name="prod-zeros")
case(np.prod, ZEROS, axis=1, torch=lambda t, a: t.prod(a, 1), name="prod-zeros")
case(np.prod, ZEROS, axis=(0, 1), torch="prod", name="prod-zeros")
case(np.prod, np.array([2.0, 3.0, 0.0, 0.0]), torch="prod", name="prod-two-zeros")
case(np.var, A, axis=0, ddof=1, torch=lambda t, a: t.var(a, 0))
case(np.std, A, axis=0, ddof=1, torch=lambda t, a: t.std(a, 0))
case(np.std, A, axis=0, correction=1, torch=lambda t, a: t.std(a, 0))
case(np.sum, spread())
case(np.max, spread())
case(np.prod, spread())
for axis in (None, 0, -1):
    case(np.cumsum, T, axis=axis, torch=lambda t, a, axis=axis: t.cumsum(a.ravel() if axis is None else a, axis or 0))
    case(np.cumprod, T, axis=axis, torch=lambda t, a, axis=axis: t.cumprod(a.ravel() if axis is None else a, axis or 0))
case(np.cumprod, np.array([2.0, 0.0, 3.0, 4.0]), torch=lambda t, a: t.cumprod(a, 0), name="cumprod-zero")
case(np.cumprod, ZEROS, axis=1, torch=lambda t, a: t.cumprod(a, 1), name="cumprod-zeros")
case(np.cumprod, ZEROS, axis=0, torch=lambda t, a: t.cumprod(a, 0), name="cumprod-zeros")
case(np.ptp, A, axis=1, torch=lambda t, a: t.amax(a, 1) - t.amin(a, 1))
case(np.ptp, A, keepdims=True)

# Shape
case(np.reshape, A, (2, -1), torch="reshape")
case(np.reshape, A, -1, torch=lambda t, a, n: a.reshape(n))
case(np.ravel, A, torch="ravel")
case(np.squeeze, spread(1, 3, 1), torch="squeeze")
case(np.squeeze, spread(1, 3, 1), axis=-1, torch=lambda t, a: a.squeeze(-1))
case(np.expand_dims, A, axis=-2, torch=lambda t, a: a.unsqueeze(-2))
case(np.expand_dims, A, axis=(0, -1))
case(np.transpose, T, torch=lambda t, a: a.permute(2, 1, 0))
case(np.transpose, T, (1, -1, 0), torch="permute")
case(np.swapaxes, T, 0, -1, torch="swapaxes")
case(np.moveaxis, T, 0, -1, torch="moveaxis")
case(np.moveaxis, T, (0, -1), (-1, 0), torch="moveaxis")
case(np.broadcast_to, spread(3, 1), (2, 3, 4), torch="broadcast_to")
case(np.broadcast_to, spread(), (2, 3), torch="broadcast_to")
case(np.flip, T, torch=lambda t, a: t.flip(a, (0, 1, 2)))
case(np.flip, T, (0, -1), torch="flip")
case(np.roll, T, 3)
case(np.roll, T, (1, -2), (0, -1), torch="roll")
case(np.copy, A, torch="clone")
case(np.triu, T, 1, torch="triu")
case(np.tril, T, -1, torch="tril")
case(np.concatenate, A, T[0, :2], call=lambda a, b: np.concatenate([a, b]), torch=lambda t, a, b: t.cat([a, b]))
case(np.concatenate, A, B[:, :2], call=lambda a, b: np.concatenate([a, b, a], axis=-1))
case(np.concatenate, A, V, call=lambda a, b: np.concatenate([a, b, np.ones(2)], axis=None))
case(astype, A, call=lambda a: astype(astype(a, np.float64) * 2, a.dtype), name="astype-there-and-back")

# Indexing
ROWS = np.array([2, 0, 2, 1])
KEYS = {
    "int": 1, "negative": -1, "slice": slice(None, None, 2), "backwards": slice(None, None, -1),
    "newaxis": (None, slice(1, None), None), "ellipsis": (Ellipsis, 0), "all-ints": (1, -1), "empty-slice": slice(0, 0),
    "mask": FLAGS, "row-mask": np.array([True, False, True]), "no-rows": np.zeros(3, bool), "true": True,
    "repeated": ROWS, "list": [0, 0, -1], "pairs": (ROWS, np.array([0, 3, 0, -2])),
    "outer": np.ix_([0, 2, 0], [1, 1]), "split-advanced": (slice(None), ROWS), "zero-d": np.array(1),
    "mixed": (ROWS, None, slice(1, 3)), "empty-list": np.array([], int), "int-and-array": (0, ROWS),
    "two-d": np.array([[0, 1], [1, 1]]),
    "mask-and-int": (np.array([True, False, True]), 1), "nothing": (),
}  # fmt: skip
TORCH_KEYS = ("int", "negative", "slice", "newaxis", "ellipsis", "mask", "row-mask", "repeated", "pairs", "two-d")
for name, key in KEYS.items():
    case(index, A, call=lambda a, key=key: a[key], name=f"index-{name}",
         torch=(lambda t, a, key=key: a[key]) if name in TORCH_KEYS else None)  # fmt: skip
    case(put, np.asarray(A[key]), call=lambda g, key=key: put(g, (3, 4), key), name=f"put-{name}")
case(np.take, A, [2, 0, 0], axis=0)
case(np.take, A, np.array([[5, -1], [0, 0]]))
case(np.take, A, [5, -3], axis=1, mode="wrap")
case(np.take, A, [5, -3], axis=1, mode="clip")
ORDER = np.array([[3, 0, 0], [1, 1, 2], [-1, 0, 2]])
case(np.take_along_axis, A, ORDER, axis=1, torch=lambda t, a, i: t.take_along_dim(a, i % 4, 1))
case(np.take_along_axis, A, np.array([3, 3, 0]), axis=None)
case(np.take_along_axis, spread(1, 4), ORDER, axis=-1)
case(np.sort, A, torch=lambda t, a: t.sort(a)[0], repeats=False)
case(np.sort, A, axis=0, torch=lambda t, a: t.sort(a, 0)[0], repeats=False)
case(np.sort, A, axis=None, repeats=False)

# Linear algebra
SHAPES = (
    ((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((3, 4), (2, 4, 5)), ((5, 1, 3, 4), (2, 4, 3)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)), ((1, 1), (1, 1)),
    ((2, 0), (0, 3)),
)  # fmt: skip
for m, n in SHAPES:
    label = f"matmul-{'x'.join(map(str, m))}-{'x'.join(map(str, n))}"
    case(np.matmul, spread(*m), spread(*n, seed=1), torch="matmul", exact=max(len(m), len(n)) < 3, name=label)
case(np.dot, A, B.T, torch="matmul")
case(np.dot, V, W, torch="dot")
case(np.dot, T, spread(2, 4, 3), exact=False)
case(np.dot, spread(), A)
case(np.vdot, A, B, torch=lambda t, a, b: t.vdot(a.ravel(), b.ravel()))
case(np.inner, A, B, torch="inner", exact=False)
case(np.inner, V, W, torch="inner", exact=False)
case(np.outer, A, V, torch=lambda t, a, b: t.outer(a.ravel(), b))
case(np.tensordot, T, spread(3, 4, 2, seed=1), torch=lambda t, a, b: t.tensordot(a, b, 2))
case(np.tensordot, T, spread(4, 3, 2, seed=1), axes=((1, -1), (1, 0)))
case(np.tensordot, V, W, axes=0)
case(np.trace, A, torch="trace")
case(np.trace, T, 1, -1, 0)
case(np.diagonal, A, torch="diagonal")
case(np.diagonal, T, -1, 1, 2, torch="diagonal")

# Joining and splitting
case(np.stack, A, B, call=lambda a, b: np.stack([a, b], axis=-1), torch=lambda t, a, b: t.stack([a, b], -1))
case(np.vstack, A, C, call=lambda a, b: np.vstack([a, b]), torch=lambda t, a, b: t.vstack([a, b]))
case(np.hstack, A, B, call=lambda a, b: np.hstack([a, b]), torch=lambda t, a, b: t.hstack([a, b]))
case(np.hstack, V, W, call=lambda a, b: np.hstack([a, b]), torch=lambda t, a, b: t.hstack([a, b]))
case(np.dstack, A, B, call=lambda a, b: np.dstack([a, b]), torch=lambda t, a, b: t.dstack([a, b]))
case(np.column_stack, V, spread(5, 2), call=lambda a, b: np.column_stack([a, b]),
     torch=lambda t, a, b: t.column_stack([a, b]))  # fmt: skip
case(np.atleast_1d, spread(), torch="atleast_1d")
case(np.atleast_2d, V, torch="atleast_2d")
case(np.atleast_3d, A, torch="atleast_3d")
case(np.atleast_3d, spread(), V)
case(np.array_split, V, 3, torch="tensor_split")
case(np.array_split, T, [1, 2], axis=-1)
case(np.split, A, 2, axis=1)
case(np.split, A, [1, -1], axis=-1)
case(np.vsplit, A, 3, torch="vsplit")
case(np.hsplit, A, 2, torch="hsplit")
case(np.diff, A, torch="diff")
case(np.diff, A, n=2, axis=0)
case(np.diff, A, B, call=lambda a, b: np.diff(a, prepend=b, append=0.0))
case(np.divmod, A, 0.7 * P)
case(np.modf, A)
case(np.matrix_transpose, T, torch=lambda t, a: a.mT)
case(np.astype, A, np.float64)

# Derivative zero almost everywhere: the node is recorded, nothing goes below it
FLAT = {
    np.floor: (A,), np.ceil: (A,), np.trunc: (A,), np.rint: (A,), np.round: (A,), np.fix: (A,), np.sign: (A,),
    np.floor_divide: (A, P), np.heaviside: (A, 0.5),
}  # fmt: skip
