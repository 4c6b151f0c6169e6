"""Linear algebra: NumPy functions written with others, and what the rules of the rest need.

A function with several results is one factorisation and one node for each result: each node holds all the factors, so
that its rule need not factorise again, and the shares that come back through the several nodes add up. A rule that runs
on Tensors gets the other factors as nodes as well (see `parts`), so second derivatives are right.
"""

import string

import numpy as np

from .helpers import (
    alike, as_array, astype, axes_of, dispatched, merged, no_out, others, put, ratio, restored, root_where,
)  # fmt: skip
from .rule import NOT_GIVEN, composed

# Products


@composed(np.matmul)
def matmul(a, b):
    """Vectors become matrices and batch axes are broadcast first, by nodes of their own; then the rule applies."""
    a, b = as_array(a), as_array(b)
    if not a.shape or not b.shape:
        raise ValueError("matmul needs at least one axis on each side; use * to scale by a number")
    if len(a.shape) == 1:
        return np.squeeze(np.matmul(np.expand_dims(a, 0), b), -1 if len(b.shape) == 1 else -2)
    if len(b.shape) == 1:
        return np.squeeze(np.matmul(a, np.expand_dims(b, 1)), -1)
    if a.dtype != b.dtype:
        dtype = np.result_type(a.dtype, b.dtype)
        return np.matmul(astype(a, dtype), astype(b, dtype))
    if a.shape[:-2] == b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        return NotImplemented
    if len(b.shape) == 2:  # one large product instead of many small ones
        return np.reshape(np.matmul(np.reshape(a, (-1, a.shape[-1])), b), (*a.shape[:-1], b.shape[-1]))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.matmul(np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:]))


@composed(np.dot)
def dot(a, b, out=None):
    no_out(out)
    if not np.shape(a) or not np.shape(b):
        return np.multiply(a, b)
    if np.ndim(b) <= 2:
        return np.matmul(a, b)
    return np.tensordot(a, b, axes=(-1, -2))


@composed(np.vdot)
def vdot(a, b):
    return np.matmul(np.ravel(a), np.ravel(b))


@composed(np.inner)
def inner(a, b):
    return np.multiply(a, b) if not np.shape(a) or not np.shape(b) else np.tensordot(a, b, axes=(-1, -1))


@composed(np.outer)
def outer(a, b, out=None):
    no_out(out)
    return np.expand_dims(np.ravel(a), 1) * np.expand_dims(np.ravel(b), 0)


@composed(np.tensordot)
def tensordot(a, b, axes=2):
    """One matrix product, with the summed axes moved next to each other."""
    a, b = as_array(a), as_array(b)
    if isinstance(axes, (int, np.integer)):
        axes = (tuple(range(-axes, 0)), tuple(range(axes)))
    in_a, in_b = axes_of(axes[0], len(a.shape)), axes_of(axes[1], len(b.shape))
    if len(in_a) != len(in_b) or any(a.shape[i] != b.shape[j] for i, j in zip(in_a, in_b)):
        raise ValueError(f"tensordot: the summed axes do not fit: shapes {a.shape} and {b.shape}, axes {axes}")
    free_a = tuple(i for i in range(len(a.shape)) if i not in in_a)
    free_b = tuple(i for i in range(len(b.shape)) if i not in in_b)
    n = int(np.prod([a.shape[i] for i in in_a], dtype=int))
    rows, columns = tuple(a.shape[i] for i in free_a), tuple(b.shape[i] for i in free_b)
    left = np.reshape(np.transpose(a, free_a + in_a), (int(np.prod(rows, dtype=int)), n))
    right = np.reshape(np.transpose(b, in_b + free_b), (n, int(np.prod(columns, dtype=int))))
    return np.reshape(np.matmul(left, right), rows + columns)


@composed(np.trace)
def trace(a, offset=0, axis1=0, axis2=1):
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1)


@composed(np.diagonal)
def diagonal(a, offset=0, axis1=0, axis2=1):
    moved = np.moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = moved.shape[-2:]
    n = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    i = np.arange(n)
    return moved[..., i - min(offset, 0), i + max(offset, 0)]


@composed(np.vecdot, np.linalg.vecdot)
def vecdot(x1, x2, /, *, axis=-1):
    return np.sum(np.multiply(x1, x2), axis=axis)


@composed(getattr(np, "matvec", None))
def matvec(x1, x2):
    return np.squeeze(np.matmul(x1, np.expand_dims(as_array(x2), -1)), -1)


@composed(getattr(np, "vecmat", None))
def vecmat(x1, x2):
    return np.squeeze(np.matmul(np.expand_dims(as_array(x1), -2), x2), -2)


@composed(np.kron)
def kron(a, b):
    a, b = as_array(a), as_array(b)
    n = max(len(a.shape), len(b.shape))
    rows, columns = ((1,) * (n - len(x.shape)) + x.shape for x in (a, b))
    blocks = np.reshape(a, [i for r in rows for i in (r, 1)]) * np.reshape(b, [i for c in columns for i in (1, c)])
    return np.reshape(blocks, [r * c for r, c in zip(rows, columns)])


@composed(np.cross)
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(as_array(a), axisa, 0), np.moveaxis(as_array(b), axisb, 0)
    if not {len(a), len(b)} <= {2, 3}:
        raise ValueError(f"cross: vectors of 2 or 3 entries expected, got {len(a)} and {len(b)}")
    last = a[0] * b[1] - a[1] * b[0]
    if len(a) == len(b) == 2:
        return last
    first = (a[1] * b[2] if len(b) == 3 else 0) - (a[2] * b[1] if len(a) == 3 else 0)
    second = (a[2] * b[0] if len(a) == 3 else 0) - (a[0] * b[2] if len(b) == 3 else 0)
    return np.stack(np.broadcast_arrays(first, second, last), axis=axisc)


@composed(np.linalg.cross)
def cross_of_three(x1, x2, /, *, axis=-1):
    return np.cross(x1, x2, axis=axis)


@composed(np.linalg.matmul)
def linalg_matmul(x1, x2, /):
    return np.matmul(x1, x2)


@composed(np.linalg.outer)
def linalg_outer(x1, x2, /):
    return np.outer(x1, x2)


@composed(np.linalg.tensordot)
def linalg_tensordot(x1, x2, /, *, axes=2):
    return np.tensordot(x1, x2, axes=axes)


@composed(np.linalg.matrix_transpose)
def linalg_matrix_transpose(x, /):
    return np.swapaxes(x, -1, -2)


@composed(np.linalg.diagonal)
def linalg_diagonal(x, /, *, offset=0):
    return np.diagonal(x, offset, -2, -1)


@composed(np.linalg.trace)
def linalg_trace(x, /, *, offset=0):
    return np.trace(x, offset, -2, -1)


@composed(np.diag)
def diag(v, k=0):
    if len(v.shape) == 2:
        return np.diagonal(v, k)
    (n,) = v.shape
    i = np.arange(n)
    return put(v, (n + abs(k), n + abs(k)), (i + max(-k, 0), i + max(k, 0)))


@composed(np.diagflat)
def diagflat(v, k=0):
    return np.diag(np.ravel(as_array(v)), k)


@composed(np.linalg.matrix_power)
def matrix_power(a, n):
    """By repeated squaring."""
    if n < 0:
        return np.linalg.matrix_power(np.linalg.inv(a), -n)
    if n == 0:
        return np.where(True, np.eye(a.shape[-1], dtype=a.dtype), a)  # keeps the slot of `a`, with zeros
    if n == 1:
        return np.copy(a)
    if n == 3:  # as NumPy multiplies
        return np.matmul(np.matmul(a, a), a)
    result = None
    while n:
        if n % 2:
            result = a if result is None else np.matmul(result, a)
        n //= 2
        a = np.matmul(a, a) if n else a
    return result


@composed(np.linalg.multi_dot)
def multi_dot(arrays, *, out=None):
    """The products in the order with the fewest multiplications."""
    no_out(out)
    arrays = [as_array(a) for a in arrays]
    if len(arrays) < 2:
        raise ValueError(f"multi_dot: at least two arrays expected, got {len(arrays)}")
    first, last = len(arrays[0].shape) == 1, len(arrays[-1].shape) == 1
    sizes = [1 if first else arrays[0].shape[0], *(a.shape[0] for a in arrays[1:]), 1 if last else arrays[-1].shape[1]]
    if first:
        sizes[1] = arrays[0].shape[0]
    best = {(i, i): (0, i) for i in range(len(arrays))}  # first and last factor -> cost, where to split
    for length in range(1, len(arrays)):
        for i in range(len(arrays) - length):
            j = i + length
            best[i, j] = min((best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                             for k in range(i, j))  # fmt: skip

    def product(i, j):
        k = best[i, j][1]
        return arrays[i] if i == j else np.matmul(product(i, k), product(k + 1, j))

    return product(0, len(arrays) - 1)


# Einstein sums


@composed(np.einsum)
def einsum(*operands, out=None, optimize=False):
    """Diagonals, sums of one operand and stretched axes get nodes of their own; then the rule of `contract` applies."""
    no_out(out)
    terms, result, arrays = _parse_einsum(operands)
    sizes = {}
    for i, term in enumerate(terms):
        for label in sorted(set(term)):
            while terms[i].count(label) > 1:
                p = terms[i].index(label)
                q = terms[i].index(label, p + 1)
                if arrays[i].shape[p] != arrays[i].shape[q]:
                    raise ValueError(f"einsum: label {label!r} stands for axes of lengths {arrays[i].shape[p]} and "
                                     f"{arrays[i].shape[q]} of operand {i}")  # fmt: skip
                arrays[i] = np.diagonal(arrays[i], 0, p, q)
                terms[i] = terms[i][:p] + terms[i][p + 1 : q] + terms[i][q + 1 :] + label
        for label, n in zip(terms[i], arrays[i].shape):
            sizes[label] = n if n != 1 else sizes.get(label, 1)
    # A stretched axis goes before one looks which labels stand in one operand alone: it may have been the other one.
    for i in range(len(terms)):
        _drop(arrays, terms, i, lambda label, n: n == 1 != sizes[label])
    for i in range(len(terms)):
        elsewhere = set(result).union(*(t for k, t in enumerate(terms) if k != i))
        _drop(arrays, terms, i, lambda label, n: label not in elsewhere)
    return contract(tuple(alike(*arrays)), ",".join(terms) + "->" + result, optimize=optimize)


def _drop(arrays, terms, i, unwanted):
    """Sum operand `i` over the axes whose label and length are unwanted."""
    drop = [k for k, (label, n) in enumerate(zip(terms[i], arrays[i].shape)) if unwanted(label, n)]
    if drop:
        arrays[i] = np.sum(arrays[i], axis=tuple(drop))
        terms[i] = "".join(label for k, label in enumerate(terms[i]) if k not in drop)


def _parse_einsum(operands):
    """The labels of each operand, the labels of the result, and the operands, with the ellipses written out."""
    if isinstance(operands[0], str):
        text, arrays = operands[0].replace(" ", ""), [as_array(a) for a in operands[1:]]
    else:  # operands and lists of integers, in turn
        spell = lambda labels: "".join("..." if i is Ellipsis else string.ascii_letters[i] for i in labels)
        n = len(operands) // 2
        arrays = [as_array(a) for a in operands[: 2 * n : 2]]
        text = ",".join(spell(labels) for labels in operands[1 : 2 * n : 2])
        text += "->" + spell(operands[-1]) if len(operands) % 2 else ""
    inputs, arrow, result = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(arrays):
        raise ValueError(f"einsum: {text!r} names {len(terms)} operands, got {len(arrays)}")
    widths = [len(a.shape) - len(t.replace("...", "")) for t, a in zip(terms, arrays)]
    if any(w < 0 or w and "..." not in t for t, w in zip(terms, widths)):
        raise ValueError(f"einsum: {text!r} does not fit operands of {[len(a.shape) for a in arrays]} axes")
    if max(widths) and arrow and "..." not in result:
        raise ValueError(f"einsum: {text!r} has an ellipsis on the left and none in the result")
    spare = [c for c in string.ascii_letters if c not in text][: max(widths)]
    terms = [t.replace("...", "".join(spare[len(spare) - w :])) for t, w in zip(terms, widths)]
    if not arrow:
        once = [c for c in sorted(set(inputs) - set(".,")) if inputs.count(c) == 1]
        result = "..." * ("..." in inputs) + "".join(once)
    return terms, result.replace("...", "".join(spare)), arrays


@dispatched
def contract(arrays, subscripts, optimize=False):
    """An Einstein sum in which no operand names a label twice, and no label stands in one operand alone."""
    return np.einsum(subscripts, *arrays, optimize=optimize)


def contract_slope(g, i, arrays, subscripts):
    """The sum of `g` and all operands but number `i` over everything that is not in operand `i`."""
    inputs, _, result = subscripts.partition("->")
    terms = inputs.split(",")
    rest = [a for k, a in enumerate(arrays) if k != i]
    labels = [t for k, t in enumerate(terms) if k != i]
    return contract((*rest, g), ",".join([*labels, result]) + "->" + terms[i], optimize=True)


# Systems of equations and inverses


@composed(np.linalg.solve)
def solve(a, b):
    """A vector becomes a matrix and batch axes are broadcast first, by nodes of their own; then the rule applies."""
    a, b = as_array(a), as_array(b)
    if len(b.shape) == 1:
        return np.squeeze(np.linalg.solve(a, np.expand_dims(b, 1)), -1)
    if a.dtype != b.dtype or a.dtype.kind != "f":
        return np.linalg.solve(*alike(a, b, floating=True))
    if a.shape[:-2] == b.shape[:-2]:
        return NotImplemented
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.linalg.solve(np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:]))


@composed(np.linalg.pinv)
def pinv(a, rcond=None, hermitian=False, *, rtol=NOT_GIVEN):
    if not hermitian:
        return NotImplemented
    return np.linalg.pinv(symmetric(a, "pinv"), rcond, rtol=rtol)


def pinv_slope(g, y, a):
    """For a perturbation that does not change the rank."""
    rows = (g.mT - a @ (y @ g.mT)) @ y @ y.mT
    columns = y.mT @ y @ (g.mT - (g.mT @ y) @ a)
    return rows + columns - y.mT @ g @ y.mT


@composed(np.linalg.lstsq)
def lstsq(a, b, rcond=None):
    """The solution by the pseudo-inverse; the residuals and singular values are differentiable too."""
    a, b = as_array(a), as_array(b)
    m, n = a.shape
    if rcond is None:
        rcond = np.finfo(a.dtype).eps * max(m, n)
    x = np.matmul(np.linalg.pinv(a, rcond), b)
    s = np.linalg.svd(a, compute_uv=False)
    rank = np.count_nonzero(s > rcond * s[0])
    left = b - np.matmul(a, x)
    residuals = np.sum(left * left, axis=0)
    if len(b.shape) == 1:
        residuals = np.expand_dims(residuals, 0)
    return x, residuals if m > n == rank else residuals[:0], rank, s


@composed(np.linalg.tensorinv)
def tensorinv(a, ind=2):
    shape = a.shape[ind:] + a.shape[:ind]
    rows = int(np.prod(a.shape[:ind], dtype=int))
    return np.reshape(np.linalg.inv(np.reshape(a, (rows, -1))), shape)


@composed(np.linalg.tensorsolve)
def tensorsolve(a, b, axes=None):
    a, b = as_array(a), as_array(b)
    if axes is not None:
        axes = axes_of(axes, len(a.shape))
        a = np.transpose(a, [k for k in range(len(a.shape)) if k not in axes] + list(axes))
    shape = a.shape[len(b.shape) :]
    return np.reshape(np.linalg.solve(np.reshape(a, (b.size, -1)), np.ravel(b)), shape)


# Determinants


def cofactors(y, a):
    """The matrix of cofactors of `a`, whose determinant is `y`; right for singular matrices too."""
    if a.shape[-1] < 2:
        return np.ones_like(a)
    if np.all(y != 0):
        inverse = np.linalg.inv(a)
        if np.all(np.linalg.norm(a, 1, (-2, -1)) * np.linalg.norm(inverse, 1, (-2, -1)) < 1e8):
            return np.expand_dims(y, (-2, -1)) * inverse.mT
    return cofactors_of_singular(a)


@dispatched
def cofactors_of_singular(a):
    """By singular values: each divides out of their product without a division."""
    u, s, vh = np.linalg.svd(a)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return (u * (sign[..., None] * others(np.prod(s, axis=-1), s, -1))[..., None, :]) @ vh


@composed(cofactors_of_singular)
def minors(a):
    """The determinants of what is left without row i and column j: polynomials, so differentiable to any order."""
    n = a.shape[-1]
    keep = np.array([[k for k in range(n) if k != i] for i in range(n)], dtype=int).reshape(n, n - 1)
    parts = a[..., keep[:, None, :, None], keep[None, :, None, :]]
    return np.linalg.det(parts) * (-1.0) ** np.add.outer(np.arange(n), np.arange(n)).astype(a.dtype)


# Factorisations


class Factors:
    """The factors of one array, computed once; those of any other are computed when asked for."""

    __slots__ = ("array", "compute", "options", "found")

    def __init__(self, array, compute, **options):
        self.array, self.compute, self.options, self.found = array, compute, options, compute(array, **options)

    def __repr__(self):
        return f"<{len(self.found)} factors>"

    def of(self, array):
        return self.found if array is self.array else self.compute(array, **self.options)


def parts(part, a, factors):
    """All factors, as `part` of Tensors makes them nodes and of arrays gives them back."""
    return tuple(part(a, factors, i) for i in range(len(factors.found)))


@composed(np.linalg.slogdet)
def slogdet(a):
    factors = slogdet_factors(a)
    return SlogdetResult(det_sign(a, factors), log_det(a, factors))


SlogdetResult = type(np.linalg.slogdet(np.eye(1)))


@dispatched
def slogdet_factors(a):
    return Factors(a, np.linalg.slogdet)


@dispatched
def det_sign(a, factors):
    return factors.of(a)[0]


@dispatched
def log_det(a, factors):
    return factors.of(a)[1]


def symmetric(a, function):
    """The mean of a matrix and its transpose, which are equal but for rounding: so both triangles get their share.

    NumPy reads one triangle alone. Of a matrix whose triangles differ, that would be another function.
    """
    a = as_array(a)
    if is_skewed(a):
        raise ValueError(f"np.linalg.{function} of a Tensor takes symmetric matrices, so that both triangles get their "
                         "share of the gradient. Make it symmetric: (a + a.mT) / 2 is the mean of both triangles, and "
                         "np.tril(a) + np.tril(a, -1).mT is the lower one, which NumPy reads")  # fmt: skip
    return (a + np.swapaxes(a, -1, -2)) / 2


@dispatched
def is_skewed(a):
    """Whether a matrix differs from its transpose by more than rounding."""
    round_off = np.sqrt(np.finfo(a.dtype).eps) if a.dtype.kind == "f" else 0
    return bool(np.any(abs(a - a.mT) > round_off * np.linalg.norm(a, axis=(-2, -1), keepdims=True)))


def lower_share(slope):
    """The slope of a function that reads the lower triangle alone, and takes its entries for the upper one's too."""
    return np.tril(slope) + np.tril(slope.mT, -1)


@composed(np.linalg.cholesky)
def cholesky(a, /, *, upper=False):
    factor = cholesky_of_symmetric(symmetric(a, "cholesky"))
    return np.swapaxes(factor, -1, -2) if upper else factor


@dispatched
def cholesky_of_symmetric(a):
    return np.linalg.cholesky(a)


def cholesky_slope(g, y):
    inner = np.tril(y.mT @ g)
    inner = inner - np.eye(y.shape[-1], dtype=y.dtype) * inner / 2
    half = np.linalg.solve(y.mT, inner)
    return lower_share(np.linalg.solve(y.mT, half.mT).mT)


@composed(np.linalg.eigh)
def eigh(a, UPLO="L"):
    """Eigenvectors of equal eigenvalues have no derivative: infinite or NaN."""
    a = symmetric(a, "eigh")
    factors = eigh_factors(a, UPLO)
    return EighResult(*parts(eigh_part, a, factors))


@composed(np.linalg.eigvalsh)
def eigvalsh(a, UPLO="L"):
    return np.linalg.eigh(a, UPLO)[0]


EighResult = type(np.linalg.eigh(np.eye(1)))


@dispatched
def eigh_factors(a, UPLO):
    return Factors(a, np.linalg.eigh, UPLO=UPLO)


@dispatched
def eigh_part(a, factors, i):
    return factors.of(a)[i]


def eigh_slope(g, i, factors, w, v):
    inner = v * np.expand_dims(g, -2) if i == 0 else v @ (gaps(w) * (v.mT @ g))
    share = lower_share(inner @ v.mT)
    return share if factors.options["UPLO"].upper() == "L" else share.mT


def gaps(w):
    """1/(w[j] - w[i]) at [i, j], and 0 on the diagonal."""
    own = np.eye(w.shape[-1], dtype=w.dtype)
    return (1 - own) / (np.expand_dims(w, -2) - np.expand_dims(w, -1) + own)


@composed(np.linalg.svd)
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    """Vectors of equal or zero singular values have no derivative; nor have the vectors beyond the thin form."""
    a = symmetric(a, "svd") if hermitian else as_array(a)
    if not compute_uv:
        return svd_part(a, svd_factors(a, False), 1)
    factors = svd_factors(a, full_matrices)
    u, s, vh = parts(svd_part, a, factors)
    if full_matrices and a.shape[-2] > a.shape[-1]:
        u = np.concatenate([u, beyond_thin(a, factors, 0)], axis=-1)
    if full_matrices and a.shape[-2] < a.shape[-1]:
        vh = np.concatenate([vh, beyond_thin(a, factors, 2)], axis=-2)
    return SVDResult(u, s, vh)


@composed(np.linalg.svdvals)
def svdvals(x, /):
    return np.linalg.svd(x, compute_uv=False)


SVDResult = type(np.linalg.svd(np.eye(1)))


@dispatched
def svd_factors(a, full_matrices):
    return Factors(a, np.linalg.svd, full_matrices=full_matrices)


@dispatched
def beyond_thin(a, factors, i):
    """The vectors that no singular value belongs to."""
    k = min(a.shape[-2:])
    return factors.of(a)[i][..., k:] if i == 0 else factors.of(a)[i][..., k:, :]


def beyond_thin_slope(g, a):
    if np.any(g != 0):
        raise ValueError("the singular vectors beyond the thin form of svd are not determined by the matrix, so they "
                         "have no derivative; use full_matrices=False")  # fmt: skip
    return np.zeros_like(a)


@dispatched
def svd_part(a, factors, i):
    """A factor of the thin form."""
    k = min(a.shape[-2:])
    return factors.of(a)[i][..., :k] if i == 0 else factors.of(a)[i][..., :k, :] if i == 2 else factors.of(a)[i]


def svd_slope(g, i, u, s, vh):
    row = np.expand_dims(s, -2)
    if i == 1:
        return (u * np.expand_dims(g, -2)) @ vh
    if i == 2:
        return svd_slope(g.mT, 0, vh.mT, s, u.mT).mT
    inner = gaps(s * s) * (u.mT @ g)
    share = u @ ((inner + inner.mT) * row)
    if u.shape[-2] > s.shape[-1]:
        side = g / row
        share = share + side - u @ (u.mT @ side)
    return share @ vh


@composed(np.linalg.qr)
def qr(a, mode="reduced"):
    """A wide matrix is the factor of its left square and what that makes of the columns on the right."""
    if mode not in ("reduced", "r", "complete"):
        raise TypeError(f"qr with mode={mode!r} has no rule; its rule knows 'reduced' and 'r'")
    a = as_array(a)
    m, n = a.shape[-2:]
    if mode == "complete" and m > n:
        raise TypeError("qr with mode='complete' has no rule for tall matrices, which do not determine the columns "
                        "beyond the reduced form. Use mode='reduced'")  # fmt: skip
    square = a if m >= n else a[..., :, :m]
    factors = qr_factors(square)
    q, r = parts(qr_part, square, factors)
    if m < n:
        r = np.concatenate([r, np.matmul(np.swapaxes(q, -1, -2), a[..., :, m:])], axis=-1)
    return r if mode == "r" else QRResult(q, r)


QRResult = type(np.linalg.qr(np.eye(1)))


@dispatched
def qr_factors(a):
    return Factors(a, np.linalg.qr)


@dispatched
def qr_part(a, factors, i):
    return factors.of(a)[i]


def qr_slope(g, i, q, r):
    middle = -(g.mT @ q) if i == 0 else r @ g.mT
    lower = np.tril(middle, -1)
    side = q @ (np.tril(middle) + lower.mT)
    return np.linalg.solve(r, ((g + side) if i == 0 else side).mT).mT


# Norms


@composed(np.linalg.norm)
def norm(x, ord=None, axis=None, keepdims=False):
    """Maxima and sums of absolute values where that is what the norm is; else the rule applies."""
    x = as_array(x)
    axes = axes_of(axis, len(x.shape))
    ord = ord if ord is None or isinstance(ord, str) else float(ord)
    if ord is None or ord == "fro" or len(axes) == 1 and ord not in (0, 1, np.inf, -np.inf):
        return NotImplemented
    size = abs(x)
    if len(axes) == 1:
        if ord == 0:
            return np.sum(np.sign(size), axis=axes, keepdims=keepdims)
        return {1: np.sum, np.inf: np.max, -np.inf: np.min}[ord](size, axis=axes, keepdims=keepdims)
    if len(axes) != 2:
        raise ValueError(f"norm: ord={ord!r} needs one axis or two, got {len(axes)}; give axis=")
    if ord in (1, -1, np.inf, -np.inf):
        over, then = axes if abs(ord) == 1 else axes[::-1]
        sums = np.sum(size, axis=over, keepdims=True)
        result = (np.max if ord > 0 else np.min)(sums, axis=then, keepdims=True)
    elif ord in (2, -2, "nuc"):
        s = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), compute_uv=False)
        result = np.sum(s, axis=-1) if ord == "nuc" else s[..., 0 if ord == 2 else -1]
        result = np.expand_dims(result, sorted(axes))
    else:
        raise ValueError(f"norm: ord={ord!r} is not a norm of matrices")
    return result if keepdims else np.squeeze(result, axes)


@composed(np.linalg.vector_norm)
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    axes = axes_of(axis, len(x.shape))
    if len(axes) == 1:
        return np.linalg.norm(x, ord, axes[0], keepdims)
    return restored(np.linalg.norm(merged(x, axes), ord, -1), x, axes, keepdims)


@composed(np.linalg.matrix_norm)
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    return np.linalg.norm(x, ord, (-2, -1), keepdims)


@composed(np.linalg.cond)
def cond(x, p=None):
    if p in (None, 2, -2):
        s = np.linalg.svd(x, compute_uv=False)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return np.linalg.norm(x, p, (-2, -1)) * np.linalg.norm(np.linalg.inv(x), p, (-2, -1))


def norm_slope(wide, a, ord):
    """The slope of the `ord` norm, given in the shape of `a`; 0 where the norm is 0, and by entries that are 0."""
    if ord in (None, 2, "fro"):
        return ratio(a, wide)
    share = ratio(abs(a), wide)
    if ord > 1:
        return np.sign(a) * share ** (ord - 1)
    share = np.where(share == 0, np.inf, share)  # to a negative power 0 is infinite, and infinity 0
    return np.sign(a) * share ** (ord - 1) + root_where(a == 0, a)
