"""Einstein sums with stretched axes, axes of arrays that have none, and functions that are constant."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


# Einstein sums


@st.composite
def einsums(draw):
    """Subscripts and shapes: labels repeat and stretch, with ellipses, for one to three operands."""
    sizes = {label: draw(st.integers(1, 3)) for label in "ijk"}
    extra = draw(st.lists(st.integers(1, 3), max_size=2))
    terms, shapes = [], []
    for _ in range(draw(st.integers(1, 3))):
        labels = draw(st.text("ijk", max_size=3))
        lengths = {label: draw(st.sampled_from([1, sizes[label]])) for label in labels}
        shape = [lengths[label] for label in labels]
        if draw(st.booleans()):
            at, n = draw(st.integers(0, len(labels))), draw(st.integers(0, len(extra)))
            shape[at:at] = [draw(st.sampled_from([1, m])) for m in extra[len(extra) - n :]]
            labels = labels[:at] + "..." + labels[at:]
        terms.append(labels)
        shapes.append(tuple(shape))
    text = ",".join(terms)
    if draw(st.booleans()):
        kept = draw(st.permutations(sorted(set(text) & set("ijk"))))
        result = "".join(kept[: draw(st.integers(0, len(kept)))])
        at = draw(st.integers(0, len(result)))
        text += "->" + (result[:at] + "..." + result[at:] if "..." in text else result)
    return text, shapes


@settings(max_examples=300, deadline=None)
@given(einsums(), st.integers(0, 2**32 - 1))
def test_06_einsum_of_stretched_labels(call, seed):
    """It is linear in each operand, so moving one of them is NumPy's own einsum with the movement in its place."""
    text, shapes = call
    rng = np.random.default_rng(seed)
    arrays, moves = ([rng.standard_normal(shape) for shape in shapes] for _ in range(2))
    value = np.einsum(text, *arrays)
    g = rng.standard_normal(value.shape)
    for detach, others in itertools.product(("all", "none"), (ad.Var, ad.Tensor, np.array)):
        tensors = [ad.Var(a) for a in arrays]
        for k, move in enumerate(moves):
            operands = [t if i == k else others(a) for i, (t, a) in enumerate(zip(tensors, arrays))]
            y = np.einsum(text, *operands)
            np.testing.assert_allclose(y.data, value, rtol=1e-10, atol=1e-12)
            got = np.vdot(y.backward(g, detach=detach)[tensors[k]].data, move)
            moved = np.einsum(text, *arrays[:k], move, *arrays[k + 1 :])
            assert got == pytest.approx(np.vdot(g, moved), rel=1e-9, abs=1e-9)


def test_06_einsum_refuses_a_diagonal_of_unequal_lengths():
    with pytest.raises(ValueError, match="'i' stands for axes of lengths 1 and 3 of operand 0"):
        np.einsum("ii->i", ad.Var(np.ones((1, 3))))


# Arrays without axes

ON_ONE = (np.sum, np.prod, np.max, np.min, np.amax, np.amin, np.ptp, np.mean, np.var, np.std, np.median, np.average,
          np.nansum, np.nanprod, np.nanmax, np.nanmin, np.nanmean, np.nanvar, np.nanstd, np.nanmedian, np.cumsum,
          np.cumprod, np.nancumsum, np.nancumprod, np.linalg.norm, np.linalg.vector_norm, np.squeeze, np.sort,
          np.flip)  # fmt: skip
if hasattr(np, "cumulative_sum"):  # NumPy 2.1
    ON_ONE += (np.cumulative_sum, np.cumulative_prod)
ELSEWHERE = [
    lambda x, axis: np.take(x, [0, 0], axis=axis),
    lambda x, axis: np.repeat(x, 3, axis=axis),
    lambda x, axis: np.quantile(x, 0.3, axis=axis),
    lambda x, axis: np.percentile(x, 30, axis=axis),
]


@pytest.mark.parametrize("axis", (None, 0, -1, (), (0,), (-1,), 1), ids=str)
@pytest.mark.parametrize("keepdims", ({}, {"keepdims": True}), ids=("", "keepdims"))
@pytest.mark.parametrize("function", (*ON_ONE, *ELSEWHERE), ids=lambda f: f.__name__)
def test_08_axes_of_a_0_d_array_are_those_that_numpy_allows(function, axis, keepdims):
    try:
        expected = function(np.array(2.0), axis=axis, **keepdims)
    except Exception:
        with pytest.raises((ValueError, TypeError, IndexError)):  # an AxisError is the first and the last
            function(ad.Var(2.0), axis=axis, **keepdims)
        return
    slope = {"prod": 1, "ptp": 0, "var": 0, "std": 0, "nanvar": 0, "nanstd": 0}.get(function.__name__, 1)
    for detach in ("all", "none"):
        x = ad.Var(2.0)
        y = function(x, axis=axis, **keepdims)
        assert y.shape == np.shape(expected) and np.array_equal(y.data, expected)
        g = y.backward(detach=detach)[x]
        assert g.shape == () and g.item() == slope * np.size(expected)


def test_08_methods_and_reductions_of_ufuncs_too():
    x = ad.Var(0.0)  # the product's rule may not divide by it
    for y in (x.sum(0), x.prod(-1), x.max(0), x.min(-1, ties="first"), x.max((), ties="each"), x.cumprod(0),
              x.cumsum(-1), np.add.reduce(x), np.multiply.reduce(x), np.maximum.reduce(x, axis=-1)):  # fmt: skip
        assert y.backward()[x].item() == 1


# Functions that are constant

SINGLE = np.array([[0.0, 1.5, -1.7]])
CONSTANT = {
    "std": lambda x: np.std(x, axis=0),
    "std with ddof": lambda x: np.std(x, axis=0, ddof=0.5, keepdims=True),
    "std over no axis": lambda x: np.std(x, axis=()),
    "method": lambda x: x.std(0),
    "nanstd": lambda x: np.nanstd(x, axis=0),
    "var": lambda x: np.var(x, axis=0),
    "nanvar": lambda x: np.nanvar(x, axis=0),
    "ptp": lambda x: np.ptp(x, axis=0),
    "softmax": lambda x: ad.softmax(x, axis=0),
    "log_softmax": lambda x: ad.log_softmax(x, axis=0),
    "power 0": lambda x: x**0,
    "powers 0": lambda x: x ** np.zeros(3),
    "clip to a point": lambda x: np.clip(x, 0.5, 0.5),
    "cov": lambda x: np.cov(x.T, ddof=0),
    "eigenvector": lambda x: np.linalg.eigh(np.reshape(x, (3, 1, 1)))[1],
    "left factor": lambda x: np.linalg.svd(np.reshape(x - 9, (3, 1, 1)))[0],
    "orthogonal factor": lambda x: np.linalg.qr(np.reshape(x - 9, (3, 1, 1)))[0],
    "condition": lambda x: np.linalg.cond(np.reshape(x - 9, (3, 1, 1))),
    "one knot": lambda x: np.interp(x, [0.0], [1.0]),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_09_a_constant_function_is_no_kink(name):
    f = lambda x: (CONSTANT[name](x) * 1.25).sum()
    assert np.max(np.abs(ad.grad(f)(SINGLE))) < 1e-12
    assert np.max(np.abs(ad.hessian(f)(SINGLE))) < 1e-12


EQUAL = {  # of one entry, they are the entry or its size: straight lines away from 0
    "max": lambda x: np.max(x, axis=0), "min": lambda x: np.min(x, axis=0), "mean": lambda x: np.mean(x, axis=0),
    "median": lambda x: np.median(x, axis=0), "prod": lambda x: np.prod(x, axis=0),
    "sort": lambda x: np.sort(x, axis=0),
    "logsumexp": lambda x: ad.logsumexp(x, axis=0), "norm": lambda x: np.linalg.norm(x, axis=0),
    "norm 3": lambda x: np.linalg.norm(x, 3, axis=0), "hypot": lambda x: np.hypot(x, 0.0), "power 1": lambda x: x**1.0,
    "powers 1": lambda x: x ** np.ones(3), "det": lambda x: np.linalg.det(np.reshape(x, (3, 1, 1))),
    "average pool": lambda x: ad.avg_pool2d(np.reshape(x, (1, 1, 1, 3)), 1),
    "values": lambda x: np.linalg.svd(np.reshape(x, (3, 1, 1)))[1],
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_09_of_one_entry_there_is_no_curvature(name):
    x = SINGLE + 3
    f = lambda x: EQUAL[name](x).sum()
    assert np.allclose(ad.grad(f)(x), 1) and np.max(np.abs(ad.hessian(f)(x))) < 1e-12


def test_09_groups_of_one_number_beside_larger_ones():
    x = np.array([[1.0, 2.0, np.nan], [np.nan, 4.0, np.nan], [np.nan, 7.0, 3.0]])
    f = lambda x: np.nanstd(x, axis=0).sum()
    expected = np.zeros((3, 3))
    a = np.array([2.0, 4.0, 7.0])
    s = np.std(a)
    d = (a - a.mean()) / (3 * s)
    expected[:, 1] = d
    assert np.allclose(ad.grad(f)(x), expected)
    hessian = ad.hessian(f)(x)
    assert np.isfinite(hessian).all() and np.count_nonzero(hessian) == 9
    assert np.allclose(hessian[:, 1, :, 1], (np.eye(3) - 1 / 3) / (3 * s) - np.outer(d, d) / s)


def test_09_where_entries_tie_a_deviation_has_no_second_derivative():
    f = lambda x: np.std(x)
    assert np.array_equal(ad.grad(f)(np.ones(3)), np.zeros(3))
    assert np.isnan(ad.hessian(f)(np.ones(3))).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.floats(0, 1), st.integers(0, 1000))
def test_09_second_derivatives_of_deviations(n, m, ddof, seed):
    x = np.random.default_rng(seed).standard_normal((n, m))
    if n == 1 and ddof == 1:
        return
    s = np.std(x, axis=0, ddof=ddof)
    got = ad.hessian(lambda x: np.std(x, axis=0, ddof=ddof).sum())(x)
    expected = np.zeros((n, m, n, m))
    for k in range(m) if n > 1 else ():
        d = (x[:, k] - x[:, k].mean()) / ((n - ddof) * s[k])
        expected[:, k, :, k] = (np.eye(n) - 1 / n) / ((n - ddof) * s[k]) - np.outer(d, d) / s[k]
    assert np.allclose(got, expected, atol=1e-9 * max(1, math.prod(1 / s) if n > 1 else 1))
