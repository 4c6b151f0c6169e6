"""The table of derivatives, one line for each function; activations, convolutions and pools are in `nn.py`.

Read a line as: the function, then for each operand the cotangent it receives, where g is the cotangent of the output, y
the output, and a and b are the operands. See `rule.py` for the whole contract.
To add a function, add its line here and its case in tests/cases.py.
"""

# fmt: off
# The columns are aligned by hand.
import numpy as np

from .helpers import (
    add_at, astype, cumprod_slope, cumsum_slope, deviation, divided, expand, exponent_slope, exponents, freedom,
    from_mean, index,
    log_share, others, part, power_slope, put, ratio, restore_axes, share_of_a, sinc_slope, starts, sum_to, turn,
    unique_positions, winners,
)
from .linalg import (
    beyond_thin, beyond_thin_slope, cholesky_of_symmetric, cholesky_slope, cofactors, contract, contract_slope,
    det_sign, eigh_factors, eigh_part, eigh_slope, is_skewed, log_det, norm_slope, parts, pinv_slope, qr_factors,
    qr_part, qr_slope, slogdet_factors, svd_factors, svd_part, svd_slope,
)
from .nn import bessel
from .rule import RULES, nondifferentiable, on_values, rule

LOG2, LOG10, DEGREE = float(np.log(2)), float(np.log(10)), float(np.pi / 180)

# Arithmetic
rule(np.add,         lambda g, y, a, b: g,                           lambda g, y, a, b: g)
rule(np.subtract,    lambda g, y, a, b: g,                           lambda g, y, a, b: -g)
rule(np.multiply,    lambda g, y, a, b: g * b,                       lambda g, y, a, b: g * a)
rule(np.divide,      lambda g, y, a, b: g / b,                       lambda g, y, a, b: -g * y / b)
rule(np.power,       lambda g, y, a, b: g * power_slope(a, b),       lambda g, y, a, b: g * exponent_slope(y, a, b))
rule(np.float_power, lambda g, y, a, b: g * power_slope(a, b),       lambda g, y, a, b: g * exponent_slope(y, a, b))
rule(np.remainder,   lambda g, y, a, b: g,                           lambda g, y, a, b: -g * np.floor_divide(a, b))
rule(np.fmod,        lambda g, y, a, b: g,                           lambda g, y, a, b: -g * np.rint((a - y) / b))
rule(np.nextafter,   lambda g, y, a, b: g,                           None)
rule(np.ldexp,       lambda g, y, a, b: np.ldexp(g, b),              None)
rule(np.negative,    lambda g, y, a: -g)
rule(np.positive,    lambda g, y, a: g)
rule(np.reciprocal,  lambda g, y, a: -g * y * y)
rule(np.square,      lambda g, y, a: g * (2 * a))
rule(np.sqrt,        lambda g, y, a: g / (2 * y))
rule(np.cbrt,        lambda g, y, a: g / (3 * (y * y)))

# Kinks: a valid subgradient everywhere, 0 at the kink of abs; maximum and minimum share a tie evenly. A second
# derivative is that of the choice made there: where kinks cancel, as in abs(x)**2 at 0, it can differ from the true one
rule(np.absolute,    lambda g, y, a: g * np.sign(a))
rule(np.fabs,        lambda g, y, a: g * np.sign(a))
rule(np.maximum,     lambda g, y, a, b, saved: g * saved,  lambda g, y, a, b, saved: g * (1 - saved), save=share_of_a)
rule(np.minimum,     lambda g, y, a, b, saved: g * saved,  lambda g, y, a, b, saved: g * (1 - saved), save=share_of_a)
rule(np.fmax,        lambda g, y, a, b, saved: g * saved,  lambda g, y, a, b, saved: g * (1 - saved), save=share_of_a)
rule(np.fmin,        lambda g, y, a, b, saved: g * saved,  lambda g, y, a, b, saved: g * (1 - saved), save=share_of_a)
rule(np.copysign,    lambda g, y, a, b: g * (np.sign(a) * np.copysign(1, b)),  None)
rule(ratio,          lambda g, y, a, b: g / b,                       lambda g, y, a, b: -g * y / b, elementwise=True)

# Exponentials and logarithms
rule(np.exp,         lambda g, y, a: g * y)
rule(np.exp2,        lambda g, y, a: g * (y * LOG2))
rule(np.expm1,       lambda g, y, a: g * (y + 1))
rule(np.log,         lambda g, y, a: g / a)
rule(np.log2,        lambda g, y, a: g / (a * LOG2))
rule(np.log10,       lambda g, y, a: g / (a * LOG10))
rule(np.log1p,       lambda g, y, a: g / (1 + a))
rule(np.logaddexp,   lambda g, y, a, b: g * log_share(y, a, b),      lambda g, y, a, b: g * log_share(y, b, a))
rule(np.logaddexp2,  lambda g, y, a, b: g * log_share(y, a, b, np.exp2),
     lambda g, y, a, b: g * log_share(y, b, a, np.exp2))

# Trigonometric and hyperbolic functions
rule(np.sin,         lambda g, y, a: g * np.cos(a))
rule(np.cos,         lambda g, y, a: -g * np.sin(a))
rule(np.tan,         lambda g, y, a: g * (1 + y * y))
rule(np.arcsin,      lambda g, y, a: g / np.sqrt((1 - a) * (1 + a)))
rule(np.arccos,      lambda g, y, a: -g / np.sqrt((1 - a) * (1 + a)))
rule(np.arctan,      lambda g, y, a: g / (1 + a * a))
rule(np.arctan2,     lambda g, y, a, b: g * turn(b, a),              lambda g, y, a, b: -g * turn(a, b))
rule(np.hypot,       lambda g, y, a, b: g * ratio(a, y),             lambda g, y, a, b: g * ratio(b, y))
rule(np.sinh,        lambda g, y, a: g * np.cosh(a))
rule(np.cosh,        lambda g, y, a: g * np.sinh(a))
rule(np.tanh,        lambda g, y, a: g - g * (y * y))
rule(np.arcsinh,     lambda g, y, a: g / np.hypot(a, 1))
rule(np.arccosh,     lambda g, y, a: g / np.sqrt((a - 1) * (a + 1)))
rule(np.arctanh,     lambda g, y, a: g / ((1 - a) * (1 + a)))
rule(np.deg2rad,     lambda g, y, a: g * DEGREE)
rule(np.radians,     lambda g, y, a: g * DEGREE)
rule(np.rad2deg,     lambda g, y, a: g / DEGREE)
rule(np.degrees,     lambda g, y, a: g / DEGREE)
rule(np.sinc,        lambda g, y, a: g * sinc_slope(a), elementwise=True)
rule(np.i0,          lambda g, y, x: g * bessel(x, 1), elementwise=True)

# Choosing
rule(np.where,       None,  lambda g, y, c, a, b: np.where(c, g, 0),  lambda g, y, c, a, b: np.where(c, 0, g),
     elementwise=True, signature="condition, x, y")
rule(np.nan_to_num,  lambda g, y, a, nan=0.0, posinf=None, neginf=None: np.where(np.isfinite(a), g, 0))
rule(np.heaviside,   None,  lambda g, y, a, b: np.where(a == 0, g, 0))
rule(np.unwrap,      lambda g, y, p, discont=None, axis=-1, period=2 * np.pi: g)
rule(np.real,        lambda g, y, a: g)
rule(np.conjugate,   lambda g, y, a: g)
rule(np.real_if_close, lambda g, y, a: g)
nondifferentiable(np.floor, np.ceil, np.trunc, np.rint, np.round, np.around, np.fix, np.sign, np.floor_divide, np.imag,
                  np.angle, np.spacing)

# Reductions: the cotangent goes back over the axes that were reduced
rule(np.sum,         lambda g, y, a, axis=None, keepdims=False:
     expand(g, a, axis, keepdims))
rule(np.mean,        lambda g, y, a, axis=None, keepdims=False:
     expand(g * (y.size / max(a.size, 1)), a, axis, keepdims), wide=True)
rule(np.prod,        lambda g, y, a, axis=None, keepdims=False:
     expand(g, a, axis, keepdims) * others(y, a, axis))
for extremum in (np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin):
    rule(extremum,   lambda g, y, a, axis=None, keepdims=False, ties="split", saved=None:
         expand(divided(g, saved[1]), a, axis, keepdims) * saved[0], save=winners, wide=True)
rule(np.var,         lambda g, y, a, axis=None, ddof=0, keepdims=False, correction=None:
     expand(g * (2 / freedom(y, a, ddof, correction)), a, axis, keepdims) * from_mean(a, axis), wide=True)
rule(np.std,         lambda g, y, a, axis=None, ddof=0, keepdims=False, correction=None:
     expand(g / freedom(y, a, ddof, correction), a, axis, keepdims) * deviation(y, a, axis, keepdims), wide=True)
rule(np.cumsum,      lambda g, y, a, axis=None: cumsum_slope(g, a, axis))
rule(np.cumprod,     lambda g, y, a, axis=None: cumprod_slope(g, y, a, axis), wide=True)

# Shape: the same entries in other places
rule(np.reshape,     lambda g, y, a, shape: np.reshape(g, a.shape), signature="a, shape, order='C', copy=None")
if np.lib.NumpyVersion(np.__version__) < "2.1.0":  # where the argument is called newshape
    RULES[np.reshape].forward = lambda a, shape: np.reshape(a, shape)
rule(np.ravel,       lambda g, y, a: np.reshape(g, a.shape))
rule(np.squeeze,     lambda g, y, a, axis=None: np.reshape(g, a.shape))
rule(np.expand_dims, lambda g, y, a, axis: np.reshape(g, a.shape))
rule(np.transpose,   lambda g, y, a, axes=None: np.transpose(g, restore_axes(axes)))
rule(np.swapaxes,    lambda g, y, a, axis1, axis2: np.swapaxes(g, axis1, axis2))
rule(np.moveaxis,    lambda g, y, a, source, destination: np.moveaxis(g, destination, source))
rule(np.broadcast_to, lambda g, y, a, shape: sum_to(g, a.shape), name="broadcast")
rule(np.flip,        lambda g, y, a, axis=None: np.flip(g, axis))
rule(np.roll,        lambda g, y, a, shift, axis=None: np.roll(g, np.negative(shift), axis))
rule(np.copy,        lambda g, y, a: g)
rule(np.triu,        lambda g, y, a, k=0: np.triu(g, k))
rule(np.tril,        lambda g, y, a, k=0: np.tril(g, k))
rule(np.concatenate, each=lambda g, y, i, *xs, axis=0, saved=None: part(g, xs, i, axis, saved), save=starts,
     signature="arrays, axis=0, out=None, dtype=None, casting='same_kind'")
rule(astype,         lambda g, y, a, dtype: g.astype(a.dtype))

# Indexing: `index` reads entries, `put` writes them into zeros; each is the other's adjoint
rule(index,          lambda g, y, a, key: put(g, a.shape, key), into=add_at)
rule(put,            lambda g, y, a, shape, key: g[key])

# Linear algebra; a function with several results has one node for each
rule(np.matmul,          lambda g, y, a, b: g @ b.mT,                        lambda g, y, a, b: a.mT @ g)
rule(contract,           each=lambda g, y, i, *xs, subscripts, optimize=False: contract_slope(g, i, xs, subscripts),
     name="einsum")
rule(np.convolve,        lambda g, y, a, v: np.convolve(g, np.flip(v), "valid"),
                         lambda g, y, a, v: np.convolve(g, np.flip(a), "valid"))
rule(np.linalg.solve,    lambda g, y, a, b: -np.linalg.solve(a.mT, g) @ y.mT,
                         lambda g, y, a, b: np.linalg.solve(a.mT, g))
rule(np.linalg.inv,      lambda g, y, a: -y.mT @ g @ y.mT)
rule(np.linalg.pinv,     lambda g, y, a, rcond=None, rtol=None: pinv_slope(g, y, a))
rule(np.linalg.det,      lambda g, y, a: np.expand_dims(g, (-2, -1)) * cofactors(y, a))
rule(log_det,            lambda g, y, a, factors: np.expand_dims(g, (-2, -1)) * np.linalg.inv(a).mT, name="slogdet")
rule(cholesky_of_symmetric, lambda g, y, a: cholesky_slope(g, y), name="cholesky")
rule(eigh_part,      lambda g, y, a, factors, i: eigh_slope(g, i, factors, *parts(eigh_part, a, factors)), name="eigh")
rule(svd_part,           lambda g, y, a, factors, i: svd_slope(g, i, *parts(svd_part, a, factors)), name="svd")
rule(beyond_thin,        lambda g, y, a, factors, i: beyond_thin_slope(g, a), name="svd")
rule(qr_part,            lambda g, y, a, factors, i: qr_slope(g, i, *parts(qr_part, a, factors)), name="qr")
rule(np.linalg.norm,     lambda g, y, x, ord=None, axis=None, keepdims=False:
     expand(g, x, axis, keepdims) * norm_slope(expand(y, x, axis, keepdims), x, ord))
nondifferentiable(det_sign)

# Functions that look at values only: predicates give plain arrays, positions give integer Tensors
on_values(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.isnan, np.isinf, np.isfinite,
          np.signbit, np.logical_and, np.logical_or, np.logical_not, np.logical_xor, np.isclose, np.allclose,
          np.array_equal, np.array_equiv, np.any, np.all, np.shape, np.ndim, np.size, np.count_nonzero, np.iscomplexobj,
          np.isrealobj, np.iscomplex, np.isreal, np.result_type, np.can_cast, np.min_scalar_type, np.may_share_memory,
          np.shares_memory, np.zeros_like, np.ones_like, np.empty_like, np.array_repr, np.array_str, np.array2string,
          np.isposinf, np.isneginf, np.isin, np.triu_indices_from, np.tril_indices_from, np.diag_indices_from,
          np.save, np.savez, np.savez_compressed, np.savetxt, np.unravel_index, np.ravel_multi_index)
on_values(slogdet_factors, eigh_factors, svd_factors, qr_factors, is_skewed, unique_positions, np.linalg.matrix_rank,
          np.einsum_path)
on_values(np.argmax, np.argmin, np.argsort, np.argpartition, np.argwhere, np.nonzero, np.flatnonzero, np.searchsorted,
          np.digitize, np.nanargmax, np.nanargmin, np.lexsort, np.bitwise_and, np.bitwise_or, np.bitwise_xor,
          np.invert, exponents, np.left_shift, np.right_shift, np.gcd, np.lcm, wrap=True)
