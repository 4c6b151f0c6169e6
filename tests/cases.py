"""The test table of the rules: for every function that has one, what to call and on which operands.

To add a function, add its line in autodiff/rules/table.py and its case here; `test_rules.py` does the rest.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from autodiff.rules import astype, index, put
from autodiff.rules.helpers import ratio
from autodiff.rules.linalg import (
    beyond_thin,
    cholesky_of_symmetric,
    cofactors_of_singular,
    contract,
    det_sign,
    eigh_part,
    log_det,
    qr_part,
    svd_part,
)

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
if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
    case(np.clip, A, min=-0.5)

# Reductions
for axis, keepdims in ((None, False), (0, False), (-1, True), ((0, -1), False), (None, True), ((), False)):
    for function, name in ((np.sum, "sum"), (np.mean, "mean"), (np.max, "amax"), (np.min, "amin"), (np.var, "var"),
                           (np.std, "std"), (np.prod, None)):  # fmt: skip
        again = {"correction": 0} if name in ("var", "std") else {}
        expression = lambda t, a, name=name, axis=axis, keepdims=keepdims, again=again: getattr(t, name)(
            a, dim=tuple(range(a.ndim)) if axis is None else axis, keepdim=keepdims, **again)  # fmt: skip
        case(function, T, axis=axis, keepdims=keepdims, torch=expression if name and axis != () else None)
ZEROS = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [1.5, -2.0, 0.5]])
case(np.prod, ZEROS, torch="prod", name="prod-zeros")
case(np.prod, ZEROS, axis=1, torch=lambda t, a: t.prod(a, 1), name="prod-zeros")
case(np.prod, ZEROS, axis=(0, 1), torch="prod", name="prod-zeros")
case(np.prod, np.array([2.0, 3.0, 0.0, 0.0]), torch="prod", name="prod-two-zeros")
TINY = np.array([[1e-17, 2.0, 3.0], [1.5, -1e-9, 0.5]])
case(np.prod, TINY, axis=1, name="prod-nearly-zero")
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
case(np.cumprod, TINY, axis=1, name="cumprod-nearly-zero")
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
    key = np.array(key) if isinstance(key, list) else key  # as a Tensor's [] hands it on
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
case(np.array_split, V, [2, 1, -1], name="array_split-overlapping")
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

case(np.dsplit, T, 2)
if hasattr(np, "unstack"):  # NumPy 2.1
    case(np.unstack, T, axis=1, torch=lambda t, a: t.unbind(a, 1))
case(np.append, A, V)
case(np.append, A, B, axis=1)
case(np.block, A, spread(3, 2), spread(2, 6), call=lambda a, b, c: np.block([[a, b], [c]]))
case(np.block, V, W, call=lambda a, b: np.block([a, b, 2.0]))
case(np.broadcast_arrays, spread(3, 1), C, torch="broadcast_tensors")
case(np.meshgrid, V, C, torch=lambda t, a, b: t.meshgrid(a, b, indexing="xy"))
case(np.meshgrid, V, C, spread(2), indexing="ij", torch=lambda t, *xs: t.meshgrid(*xs, indexing="ij"))
case(np.meshgrid, V, C, sparse=True)
case(np.full_like, spread(), call=lambda a: np.full_like(a, a * a, shape=(3, 4)))

# More of the shape
case(np.amax, T, axis=1)
case(np.amin, T, axis=1)
case(np.reshape, A, (2, 6), order="F")
case(np.ravel, A, order="F")
case(np.flipud, A, torch="flipud")
case(np.fliplr, A, torch="fliplr")
for k in (0, 1, 2, 3, -1):
    case(np.rot90, T, k, axes=(0, 2), name=f"rot90-{k}", torch=lambda t, a, k: t.rot90(a, k, (0, 2)))
case(np.rollaxis, T, 2)
case(np.rollaxis, T, 0, 3)
case(np.repeat, A, 2, torch=lambda t, a, n: t.repeat_interleave(a, n))
case(np.repeat, A, np.array([1, 0, 2]), axis=0, torch=lambda t, a, n: t.repeat_interleave(a, n, 0))
case(np.repeat, A, [2], axis=-1)
case(np.tile, A, 2)
case(np.tile, A, (2, 1, 3), torch="tile")
case(np.resize, V, (2, 4))
case(np.resize, A, 5)
case(np.delete, A, 1)
case(np.delete, A, [0, -1], axis=1)
case(np.delete, A, slice(0, 2), axis=0)
case(np.insert, V, 1, np.array(0.5))
case(np.insert, A, 2, spread(3, 1), axis=1)
case(np.insert, A, 1, spread(4), axis=0)
case(np.insert, A, [0, 2, 2], spread(3, 3), axis=1)
case(np.insert, V, [1, 5], spread(2))
case(np.insert, A, slice(0, 2), spread(4), axis=0)
case(np.pad, A, 1, torch=lambda t, a, n: t.nn.functional.pad(a, (1, 1, 1, 1)))
case(np.pad, A, ((1, 0), (0, 2)))
case(np.pad, A, (1, 2), constant_values=3.0)
for mode in ("edge", "reflect", "symmetric", "wrap"):
    case(np.pad, A, ((5, 1), (0, 7)), mode=mode)
case(np.pad, A, {-1: (1, 2)}, call=lambda a, w: np.pad(a, [(0, 0), (1, 2)]), name="pad-one-axis")

# More ways to pick entries
case(np.compress, A, call=lambda a: np.compress([True, False, True], a, axis=0))
case(np.compress, A, call=lambda a: np.compress([False, True, True], a))
case(np.extract, A, call=lambda a: np.extract(FLAGS, a))
case(np.partition, V, 2, repeats=False)
case(np.partition, A, (1, 2), axis=0, repeats=False)
case(np.unique, V, call=lambda a: np.unique(np.concatenate([a, a[:2]])), name="unique", repeats=False)
case(np.unique, A, call=lambda a: np.unique(a, axis=1), name="unique-columns", repeats=False)
case(np.select, A, B, call=lambda a, b: np.select([FLAGS, A > 0], [a, b * a], 7.0))
case(np.select, A, C, call=lambda a, b: np.select([FLAGS], [a], b))
case(np.choose, A, B, call=lambda a, b: np.choose(FLAGS.astype(int), [a, b]))
case(np.choose, V, call=lambda a: np.choose([3, -1, 1, 0, 2], [a, 2 * a, 0.5], mode="wrap"))
case(np.choose, V, call=lambda a: np.choose([3, -1, 1, 0, 2], [a, 2 * a, a * a], mode="clip"))
case(np.piecewise, A, call=lambda a: np.piecewise(a, [A < -1, A > 1], [lambda x: x * x, np.exp, 0.5]))
case(np.piecewise, A, call=lambda a: np.piecewise(a, [A > 0], [np.sqrt, np.negative]), repeats=False)
case(np.piecewise, spread(), call=lambda a: np.piecewise(a, [False], [np.sin, np.cos]), name="piecewise-0-d")
case(np.piecewise, V, call=lambda a: np.piecewise(a, V > 0, [np.sqrt, 3.0]), name="piecewise-one-condition")
case(np.heaviside, A, B, name="heaviside-away-from-0")
case(np.heaviside, np.zeros(5, int), V, name="heaviside-at-0")
case(np.ldexp, A, np.arange(-4, 8).reshape(3, 4))
case(np.real, A)
case(np.real_if_close, A)
case(np.conjugate, A)
case(np.unwrap, 3.0 * V)
case(ratio, A, P)

# Averages and their relatives
case(np.average, A)
case(np.average, A, axis=0, call=lambda a, axis: np.average(a, axis, returned=True))
case(np.average, A, P, call=lambda a, w: np.average(a, weights=w))
case(np.average, A, positive(4), call=lambda a, w: np.average(a, axis=-1, weights=w, returned=True))
case(np.average, T, positive(4, 2), call=lambda a, w: np.average(a, axis=(2, 0), weights=w, keepdims=True))
case(np.median, V, torch="median", repeats=False)
case(np.median, A, axis=1, repeats=False)
case(np.median, T, axis=(0, -1), keepdims=True, repeats=False)
case(np.median, A, repeats=False)
case(np.quantile, V, 0.3, torch="quantile", repeats=False, exact=False)
case(np.quantile, A, [0.0, 0.37, 1.0], axis=1, torch=lambda t, a, q: t.quantile(a, t.tensor(q, dtype=a.dtype), 1),
     repeats=False, exact=False)  # fmt: skip
case(np.quantile, T, [[0.2, 0.8]], axis=(0, 2), keepdims=True, repeats=False, exact=False)
for method in ("lower", "higher", "nearest", "midpoint"):
    case(np.quantile, A, [0.3, 0.5, 0.9], axis=0, method=method, repeats=False)
case(np.percentile, A, 40.0, axis=-1, repeats=False, exact=False)
case(np.percentile, V, [25, 75], repeats=False, exact=False)
case(np.cov, A, torch="cov", exact=False)
case(np.cov, A.T, B.T, rowvar=False, bias=True, exact=False)
case(np.cov, V, W, exact=False)
case(np.cov, V, ddof=0, exact=False)
case(np.corrcoef, A, torch="corrcoef", exact=False, repeats=False)
case(np.corrcoef, V, W, exact=False, repeats=False)
GAPS = np.eye(3, 4, 1, dtype=bool)
for function in (np.nansum, np.nanprod, np.nanmean, np.nanmax, np.nanmin, np.nanvar, np.nanstd, np.nancumsum,
                 np.nancumprod):  # fmt: skip
    more = () if "cum" in function.__name__ else ({"axis": (0, 1), "keepdims": True},)
    exact = function not in (np.nanmean, np.nanvar, np.nanstd)
    for options in ({}, {"axis": 0}, *more):
        case(function, A, call=lambda a, f=function, **kw: f(np.where(GAPS, np.nan, a), **kw), exact=exact,
             name=f"{function.__name__}-with-nans", **options)  # fmt: skip
case(np.nanvar, A, axis=1, ddof=1, exact=False)
case(np.nanstd, A, axis=1, ddof=1, exact=False)
if hasattr(np, "cumulative_sum"):  # NumPy 2.1
    case(np.cumulative_sum, V, include_initial=True)
    case(np.cumulative_prod, A, axis=1)

case(np.nanmedian, A, call=lambda a: np.nanmedian(np.where(GAPS, np.nan, a), axis=0), repeats=False, exact=False)
case(np.nanmedian, V, keepdims=True, repeats=False)
case(np.nanquantile, A, call=lambda a: np.nanquantile(np.where(GAPS, np.nan, a), [[0.2, 0.7]], axis=1, keepdims=True),
     repeats=False, exact=False)  # fmt: skip
case(np.nanquantile, A, call=lambda a: np.nanquantile(np.where(GAPS, np.nan, a), 0.4, axis=0, method="higher"),
     repeats=False)  # fmt: skip
case(np.nanpercentile, A, call=lambda a: np.nanpercentile(np.where(GAPS, np.nan, a), 30), repeats=False, exact=False)

# Numerical calculus and polynomials
case(np.ediff1d, A)
case(np.ediff1d, V, W, call=lambda a, b: np.ediff1d(a, b, [9.0]))
case(np.trapezoid, A, torch="trapezoid", exact=False)
case(np.trapezoid, A, np.cumsum(positive(4)), torch="trapezoid", exact=False)
case(np.trapezoid, A, np.cumsum(P, axis=0), axis=0, torch=lambda t, a, x: t.trapezoid(a, x, dim=0), exact=False)
case(np.gradient, V, torch=lambda t, a: t.gradient(a)[0])
case(np.gradient, A)
case(np.gradient, A, np.array(0.7), axis=1)
case(np.gradient, A, 0.5, edge_order=2, axis=-1)
case(np.gradient, V, np.cumsum(positive(5)), exact=False, repeats=False)
case(np.gradient, T, np.cumsum(positive(3)), axis=1, edge_order=2, exact=False, repeats=False)
KNOTS = np.array([-1.9, -0.8, 0.15, 1.1, 2.0])
case(np.interp, A, KNOTS, W, exact=False, repeats=False)
case(np.interp, A, KNOTS, W, left=-3.0, right=4.0, exact=False, repeats=False)
case(np.interp, V, np.array([0.2]), np.array([1.5]))
for mode in ("full", "same", "valid"):
    case(np.convolve, V, spread(3), mode=mode, exact=False)
    case(np.convolve, spread(2), spread(6), mode=mode, exact=False)
    case(np.correlate, V, spread(3), mode=mode, exact=False)
    case(np.correlate, spread(2), spread(5), mode=mode, exact=False)
case(np.linspace, spread(), np.array(5.0), 4)
case(np.linspace, V, W, 3, axis=-1)
case(np.linspace, V, 7.0, 5, endpoint=False)
case(np.linspace, V, W, 4, call=lambda a, b, n: np.linspace(a, b, n, retstep=True))
case(np.linspace, V, W, 1)
case(np.logspace, unit(2), unit(2, seed=1), 4, exact=False)
case(np.geomspace, positive(2), positive(2, seed=1), 4, exact=False)
case(np.geomspace, -positive(2), -positive(2, seed=1), 4, endpoint=False, exact=False)
case(np.polyval, C, A)
case(np.polyadd, C, V)
case(np.polysub, V, C)
case(np.polymul, C, spread(3), exact=False)
case(np.polyder, V)
case(np.polyder, V, 2)
case(np.polyint, V)
case(np.polyint, C, 2, spread(2))
case(np.vander, V)
case(np.vander, V, 3, increasing=True)
case(np.bincount, spread(6), call=lambda w: np.bincount([0, 3, 0, 1, 3, 3], w, minlength=6))

# Linear algebra of several arrays
case(np.vecdot, A, B, torch="linalg.vecdot", exact=False)
case(np.linalg.vecdot, A, B, exact=False)
if hasattr(np, "matvec"):  # NumPy 2.2
    case(np.matvec, T, C, exact=False)
    case(np.vecmat, spread(2, 3), T, exact=False)
case(np.kron, A, spread(2, 2), torch="kron")
case(np.kron, V, spread(2, 1, 2))
case(np.cross, spread(4, 3), spread(3))
case(np.cross, spread(3, 2), spread(3, seed=1), axisa=0, call=lambda a, b, axisa: np.cross(a, b, axisa=0, axisc=0))
case(np.linalg.cross, spread(4, 3), spread(4, 3, seed=1), exact=False)
case(np.linalg.matmul, A, B.T)
case(np.linalg.outer, V, W)
case(np.linalg.tensordot, T, spread(3, 4, 2, seed=1))
case(np.linalg.diagonal, T, offset=1)
case(np.linalg.trace, T)
case(np.linalg.matrix_transpose, T)
case(np.diag, V, torch="diag")
case(np.diag, V, -2, torch="diag")
case(np.diag, A, 1, torch="diag")
case(np.diagflat, A, 1)
EINSUMS = (
    ("ij,jk->ik", (3, 4), (4, 2)), ("ij,ij->", (3, 4), (3, 4)), ("ij,kj", (3, 4), (2, 4)), ("ii", (3, 3)),
    ("ii->i", (3, 3)), ("iij->j", (3, 3, 2)), ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("i,j->ij", (3,), (2,)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 2)), ("i...,i...->...", (3, 2), (3, 2)),
    ("bij,bjk,bk->bi", (2, 3, 4), (2, 4, 2), (2, 2)), ("ij,j,i", (3, 4), (4,), (3,)),
    ("ij,jk->ik", (1, 4), (4, 2)), ("ij,ij->ij", (3, 1), (3, 4)), ("ab,cd->", (2, 2), (3, 2)),
    ("iji,j->i", (2, 3, 2), (3,)), (",ij->ij", (), (2, 3)),
)  # fmt: skip
for text, *shapes in EINSUMS:
    operands = [spread(*shape, seed=k) for k, shape in enumerate(shapes)]
    case(np.einsum, *operands, call=lambda *xs, text=text: np.einsum(text, *xs), exact=False, name=f"einsum-{text}",
         torch=lambda t, *xs, text=text: t.einsum(text, *xs))  # fmt: skip
case(np.einsum, A, B.T, call=lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]), exact=False, name="einsum-lists")
case(np.einsum, A, B.T, A, call=lambda a, b, c: np.einsum("ij,jk,kl->il", a, b, c, optimize=True), exact=False)
case(contract, A, B.T, call=lambda a, b: contract((a, b), "ij,jk->ki"))
case(np.linalg.multi_dot, A, B.T, spread(3, 2), call=lambda *xs: np.linalg.multi_dot(xs), exact=False,
     torch=lambda t, *xs: t.linalg.multi_dot(xs))  # fmt: skip
case(np.linalg.multi_dot, V, spread(5, 2), spread(2, 4), C, call=lambda *xs: np.linalg.multi_dot(xs), exact=False)

# Linear algebra of one matrix
S, R = spread(3, 3) + 3 * np.eye(3), spread(2, 3, 3, seed=1) + 3 * np.eye(3)
for n in (-2, 0, 1, 2, 3, 5):
    case(np.linalg.matrix_power, S, n, name=f"matrix_power-{n}", repeats=False, exact=False)
case(np.linalg.matrix_power, R, 3, torch="linalg.matrix_power", exact=False)
case(np.linalg.solve, S, spread(3), torch="linalg.solve", repeats=False, exact=False)
case(np.linalg.solve, S, spread(3, 2), torch="linalg.solve", repeats=False)
case(np.linalg.solve, R, spread(3, 2), repeats=False)
case(np.linalg.solve, S, spread(2, 3, 1), repeats=False)
case(np.linalg.inv, S, torch="linalg.inv", repeats=False)
case(np.linalg.inv, R, torch="linalg.inv", repeats=False)
case(np.linalg.pinv, A, torch="linalg.pinv", repeats=False)
case(np.linalg.pinv, A.T, torch="linalg.pinv", repeats=False)
case(np.linalg.pinv, S, rcond=1e-12, repeats=False)
case(np.linalg.pinv, T, repeats=False)
case(np.linalg.lstsq, A.T, C, call=lambda a, b: np.linalg.lstsq(a, b)[0], torch=lambda t, a, b: t.linalg.pinv(a) @ b,
     exact=False, repeats=False)  # fmt: skip
case(np.linalg.lstsq, A.T, spread(4, 2), call=lambda a, b: np.linalg.lstsq(a, b)[1], exact=False, repeats=False)
case(np.linalg.lstsq, A, spread(3, 2), call=lambda a, b: np.linalg.lstsq(a, b)[::3], exact=False, repeats=False)
case(np.linalg.tensorinv, spread(2, 3, 6) + 3 * np.eye(6).reshape(2, 3, 6), repeats=False)
case(np.linalg.tensorsolve, spread(2, 3, 6) + 3 * np.eye(6).reshape(2, 3, 6), spread(2, 3), repeats=False)
case(np.linalg.tensorsolve, spread(2, 6, 3) + 3 * np.eye(6).reshape(2, 3, 6).swapaxes(1, 2), spread(2, 3), axes=(1,),
     repeats=False)  # fmt: skip
case(np.linalg.det, S, torch="linalg.det", repeats=False)
case(np.linalg.det, R, torch="linalg.det", repeats=False)
case(np.linalg.det, np.array([[1.0, 2.0], [2.0, 4.0]]), name="det-singular", torch="linalg.det")
case(np.linalg.det, np.arange(1.0, 10).reshape(3, 3), name="det-nearly-singular")
case(np.linalg.det, np.ones((3, 3)), name="det-rank-1")
case(np.linalg.det, np.zeros((1, 1)), name="det-1x1-zero")
case(np.linalg.det, np.stack([np.eye(3), np.zeros((3, 3))]), name="det-one-singular-in-a-batch")
case(cofactors_of_singular, S, exact=False, repeats=False)
case(np.linalg.slogdet, S, repeats=False)
case(np.linalg.slogdet, R, call=lambda a: np.linalg.slogdet(a)[1], torch="logdet", repeats=False)
case(np.linalg.cholesky, S, call=lambda a: np.linalg.cholesky(a @ a.T), torch=lambda t, a: t.linalg.cholesky(a @ a.T),
     exact=False, repeats=False)  # fmt: skip
case(np.linalg.cholesky, R, call=lambda a: np.linalg.cholesky(a @ a.mT, upper=True), exact=False, repeats=False)
case(np.linalg.eigh, S, call=lambda a: np.linalg.eigh(a + a.T), torch=lambda t, a: t.linalg.eigh(a + a.T), exact=False,
     repeats=False)  # fmt: skip
case(np.linalg.eigh, R, call=lambda a: np.linalg.eigh(a + a.mT, "U"), exact=False, repeats=False)
case(np.linalg.eigvalsh, S, call=lambda a: np.linalg.eigvalsh(a + a.T), torch=lambda t, a: t.linalg.eigvalsh(a + a.T),
     exact=False, repeats=False)  # fmt: skip
TALL, WIDE = spread(4, 3, seed=6), spread(3, 4, seed=6)
for matrix, shape in ((TALL, "tall"), (WIDE, "wide"), (S, "square"), (spread(2, 4, 3, seed=8), "batch")):
    thin = {"full_matrices": False}
    case(np.linalg.svd, matrix, **thin, repeats=False, exact=False, name=f"svd-{shape}")
    case(np.linalg.svd, matrix, compute_uv=False, torch="linalg.svdvals", repeats=False, exact=False,
         name=f"svd-{shape}")  # fmt: skip
    if shape != "wide":
        case(np.linalg.qr, matrix, repeats=False, exact=False, torch="linalg.qr", name=f"qr-{shape}")
case(np.linalg.svd, S, repeats=False, exact=False, name="svd-full-square")
case(np.linalg.svd, TALL, call=lambda a: np.linalg.svd(a)[1], repeats=False, exact=False, name="svd-full-tall-values")
case(np.linalg.svdvals, TALL, torch="linalg.svdvals", repeats=False, exact=False)
case(np.linalg.qr, WIDE, repeats=False, exact=False, torch="linalg.qr", name="qr-wide")
case(np.linalg.qr, TALL, mode="r", repeats=False, exact=False)
case(np.linalg.cond, S, torch="linalg.cond", repeats=False, exact=False)
case(np.linalg.cond, S, 1, repeats=False, exact=False)
case(np.linalg.cond, S, -2, torch="linalg.cond", repeats=False, exact=False)
for order in (None, 1, 2, 3, 1.5, np.inf, -np.inf, -1.5, 0):
    name = f"norm-vector-{order}"
    expression = lambda t, a, order=order: t.linalg.vector_norm(a, 2 if order is None else order)
    case(np.linalg.norm, V, order, torch=expression, name=name, repeats=order not in (np.inf, -np.inf))
    case(np.linalg.norm, T, order, axis=1, keepdims=True, name=name, repeats=order not in (np.inf, -np.inf))
for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
    name = f"norm-matrix-{order}"
    expression = lambda t, a, order=order: t.linalg.matrix_norm(a, "fro" if order is None else order)
    case(np.linalg.norm, S, order, torch=expression, exact=False, name=name, repeats=False)
    case(np.linalg.norm, np.sin(5 * T), order, axis=(-1, 0), exact=False, name=name, repeats=False)
case(np.linalg.norm, T)
case(np.linalg.norm, R, "nuc", axis=(1, 2), keepdims=True, exact=False, repeats=False)
case(np.linalg.vector_norm, T, torch="linalg.vector_norm", exact=False)
case(np.linalg.vector_norm, T, axis=(0, -1), ord=3, keepdims=True, exact=False)
case(np.linalg.vector_norm, T, axis=1, ord=1)
case(np.linalg.matrix_norm, T, torch="linalg.matrix_norm", exact=False)
case(np.linalg.matrix_norm, T, ord="nuc", keepdims=True, repeats=False, exact=False)

# Reductions of chosen entries, and from an initial value
CHOSEN = np.array([[True, False, True, True], [False, False, True, True], [True, True, True, False]])
for function in (np.sum, np.prod, np.mean, np.var, np.std, np.nansum, np.nanprod, np.nanmean, np.nanvar, np.nanstd):
    rounded = function not in (np.sum, np.prod, np.nansum, np.nanprod)
    case(function, A, where=CHOSEN, exact=not rounded, name=f"{function.__name__}-chosen")
    case(function, A, axis=0, where=CHOSEN[:, :1], keepdims=True, exact=not rounded, name=f"{function.__name__}-rows")
    if not rounded:
        case(function, A, axis=(0, 1), initial=1.5, exact=False, name=f"{function.__name__}-from")
        case(function, A, axis=1, initial=-0.5, where=CHOSEN, exact=False, name=f"{function.__name__}-from-chosen")
case(np.var, A, axis=1, where=CHOSEN, ddof=0.5, exact=False, name="var-chosen-ddof",
     torch=lambda t, a: t.stack([a[i][t.tensor(CHOSEN[i])].var(correction=0.5) for i in range(3)]))  # fmt: skip
for function in (np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin):
    least = -5.0 if "max" in function.__name__ else 5.0
    case(function, A, axis=1, where=CHOSEN, initial=least, name=f"{function.__name__}-chosen")
    case(function, A, axis=0, initial=0.5, keepdims=True, name=f"{function.__name__}-from")
    case(function, A[:, :0], axis=1, initial=0.5, name=f"{function.__name__}-of-none")

# Ufuncs over an axis
for ufunc in (np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.hypot):
    rounded, name = ufunc in (np.logaddexp, np.logaddexp2, np.hypot), ufunc.__name__
    last = {np.maximum: "cummax", np.minimum: "cummin", np.logaddexp: "logcumsumexp"}.get(ufunc)
    expression = lambda t, a, last=last: (r := getattr(t, last)(a, 1), r[0] if isinstance(r, tuple) else r)[1]
    case(ufunc.accumulate, A, axis=1, name=f"{name}.accumulate", exact=not rounded, torch=last and expression,
         repeats=not last or rounded)  # fmt: skip
    case(ufunc.accumulate, T, name=f"{name}.accumulate", exact=not rounded)
    if rounded:
        case(ufunc.reduce, A, name=f"{name}.reduce", exact=False)
        case(ufunc.reduce, T, axis=(0, 2), keepdims=True, name=f"{name}.reduce", exact=False)
        case(ufunc.reduce, A, axis=1, where=CHOSEN, initial=0.25, name=f"{name}.reduce-chosen", exact=False)
case(np.logaddexp.reduce, A, axis=None, exact=False, name="logaddexp.reduce-all",
     torch=lambda t, a: t.logsumexp(a, (0, 1)))  # fmt: skip

# More of NumPy
case(np.i0, np.array([-30.0, -3.0, -0.4, 0.0, 1e-3, 1.0, 8.0]), torch="i0")
case(np.i0, A, torch="i0")
case(np.nextafter, A, np.inf)
case(np.frexp, A, torch=lambda t, a: t.frexp(a)[0])
case(np.fft.fftshift, A, torch="fft.fftshift")
case(np.fft.fftshift, T, axes=(0, -1), torch=lambda t, a: t.fft.fftshift(a, (0, 2)))
case(np.fft.ifftshift, T, torch="fft.ifftshift")
case(np.fft.ifftshift, V, axes=0)
case(np.lib.stride_tricks.sliding_window_view, V, 3, torch=lambda t, a, n: a.unfold(0, n, 1))
case(np.lib.stride_tricks.sliding_window_view, A, (2, 3), torch=lambda t, a, n: a.unfold(0, 2, 1).unfold(1, 3, 1))
case(np.lib.stride_tricks.sliding_window_view, T, (2, 1, 2), axis=(-1, 0, 2))
case(np.apply_along_axis, T, call=lambda a: np.apply_along_axis(lambda v: v[:2] * v[-1], 1, a), name="apply_along_axis")
case(np.apply_along_axis, A, call=lambda a: np.apply_along_axis(lambda v: np.outer(v, v), 0, a), name="apply_to_matrix")
case(np.apply_over_axes, T, call=lambda a: np.apply_over_axes(np.sum, a, [0, -1]), name="apply_over_axes")
case(np.union1d, V, W, repeats=False)
case(np.intersect1d, V, call=lambda a: np.intersect1d(a[:4], a[2:]), name="intersect1d", repeats=False)
case(np.setdiff1d, V, call=lambda a: np.setdiff1d(a, a[1:3]), name="setdiff1d", repeats=False)
case(np.setxor1d, V, call=lambda a: np.setxor1d(a[:4], a[2:]), name="setxor1d", repeats=False)
case(np.stack, A, B, C, call=lambda a, b, c: np.stack([[a[0], b[1]], np.stack([c, c])]), name="stack-nested")
case(np.interp, A, 3 * KNOTS[::-1], W, period=2.5, exact=False, repeats=False)
for method in ("interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased"):
    case(np.quantile, A, [0.0, 0.3, 0.5, 0.97], axis=0, method=method, repeats=False, exact=False)
case(np.nanquantile, A, call=lambda a: np.nanquantile(np.where(GAPS, np.nan, a), 0.4, axis=0, method="hazen"),
     repeats=False, exact=False, name="nanquantile-hazen")  # fmt: skip
case(np.poly, V, exact=False)
case(np.polydiv, V, spread(3, seed=2), exact=False)
case(np.polydiv, spread(2), spread(3, seed=2), exact=False)
case(np.polyfit, V, W, 2, exact=False, repeats=False)
case(np.polyfit, V, spread(5, 2, seed=4), 1, w=np.arange(1.0, 6.0), exact=False, repeats=False)
FREQUENCIES = np.array([1, 3, 2, 1])
case(np.cov, A, fweights=FREQUENCIES, exact=False,
     torch=lambda t, a: t.cov(a, fweights=t.tensor(FREQUENCIES)))  # fmt: skip
case(np.cov, A, positive(4), call=lambda a, w: np.cov(a, aweights=w), exact=False,
     torch=lambda t, a, w: t.cov(a, aweights=w))  # fmt: skip
case(np.cov, A.T, positive(4), rowvar=False, ddof=0, exact=False,
     call=lambda a, w, **kw: np.cov(a, aweights=w, fweights=FREQUENCIES, **kw))  # fmt: skip
case(np.cov, V, W, positive(5), call=lambda a, b, w: np.cov(a, b, aweights=w, ddof=2), exact=False)
case(np.linalg.pinv, S, call=lambda a: np.linalg.pinv(a + a.T, hermitian=True), exact=False, repeats=False,
     torch=lambda t, a: t.linalg.pinv(a + a.T, hermitian=True))  # fmt: skip
case(np.linalg.svd, S, call=lambda a: np.linalg.svd(a + a.T, hermitian=True)[1], exact=False, repeats=False,
     name="svd-hermitian")  # fmt: skip

# Rules of functions that only others call, and whose cases cover them
COVERED_BY = {
    cholesky_of_symmetric: np.linalg.cholesky, eigh_part: np.linalg.eigh, qr_part: np.linalg.qr,
    svd_part: np.linalg.svd,
    beyond_thin: np.linalg.svd, log_det: np.linalg.slogdet, det_sign: np.linalg.slogdet,
}  # fmt: skip

# Derivative zero almost everywhere: the node is recorded, nothing goes below it
FLAT = {
    np.floor: (A,), np.ceil: (A,), np.trunc: (A,), np.rint: (A,), np.round: (A,), np.fix: (A,), np.sign: (A,),
    np.floor_divide: (A, P), np.around: (A,), np.imag: (A,), np.angle: (A,), np.spacing: (A,),
}  # fmt: skip
