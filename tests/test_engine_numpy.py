"""What NumPy users run into: kinks, ties, NaN, zeros, dtypes, keys, shapes, and functions without a rule."""

import re
import warnings

import numpy as np
import pytest

import autodiff as ad
from autodiff.rules import COMPOSED, RULES
from autodiff.rules.hints import BY_NAME, OF_SCIPY

INF, NAN = np.inf, np.nan


def gradients(f, *arrays, dtype=float, **options):
    """The gradient of the sum of `f` for each array, as lists; None where there is no path."""
    xs = [ad.Var(np.array(a, dtype)) for a in arrays]
    grads = f(*xs).backward(**options)
    assert all(grads[x].shape == x.shape and grads[x].dtype == x.dtype for x in xs if x in grads)
    return [grads[x].data.tolist() if x in grads else None for x in xs]


def hessian(f, array):
    x = ad.Var(np.array(array, float))
    grad = np.ravel(f(x).backward(detach="none")[x])
    rows = [grad[i].backward() for i in range(grad.size)]
    return np.array([np.ravel(r[x].data) if x in r else np.zeros(x.size) for r in rows])


# Kinks and ties: one valid answer each, the one the design names

ANSWERS = {
    "max shares a tie": (np.max, [[1, 3, 3]], [[0, 0.5, 0.5]]),
    "min shares a tie": (np.min, [[1, 1, 3, 1]], [[1 / 3, 1 / 3, 0, 1 / 3]]),
    "max of equal entries": (np.max, [[1, 1, 1, 1]], [[0.25] * 4]),
    "max of NaN": (np.max, [[1, NAN, 3]], [[0, 1, 0]]),
    "min of two NaN": (np.min, [[NAN, NAN, 3]], [[0.5, 0.5, 0]]),
    "nanmax of a tie": (np.nanmax, [[3, NAN, 3]], [[0.5, 0, 0.5]]),
    "ptp of ties": (np.ptp, [[1, 3, 3]], [[-1, 0.5, 0.5]]),
    "maximum shares a tie": (np.maximum, [[1, 3, 3], [0, 3, 5]], [[1, 0.5, 0], [0, 0.5, 1]]),
    "minimum shares a tie": (np.minimum, [[1, 3, 3], [0, 3, 5]], [[0, 0.5, 1], [1, 0.5, 0]]),
    "maximum of one variable": (lambda x: np.maximum(x, x), [[1, 2]], [[1, 1]]),
    "maximum of NaN": (np.maximum, [[NAN, 1], [1, NAN]], [[1, 0], [0, 1]]),
    "fmax passes NaN over": (np.fmax, [[NAN, 1], [1, NAN]], [[0, 1], [1, 0]]),
    "abs at 0": (np.abs, [[0, -1, 2]], [[0, -1, 1]]),
    "clip at its bounds": (lambda x: np.clip(x, 0, 1), [[-1, 0, 0.5, 1, 2]], [[0, 0.5, 1, 0.5, 0]]),
    "clip between bounds that meet": (lambda x: np.clip(x, 1, 1), [[0, 1, 2]], [[0, 0, 0]]),
    "clip between variables that meet": (np.clip, [[0, 1, 2, 1], [1, 1, 1, 0], [1, 1, 1, 1]],
                                         [[0, 0, 0, 0.5], [0, 0, 0, 0], [1, 1, 1, 0.5]]),
    "norm at 0": (np.linalg.norm, [[0, 0]], [[0, 0]]),
    "norm of zero rows": (lambda x: np.linalg.norm(x, axis=1), [[[0, 0], [3, 4]]], [[[0, 0], [0.6, 0.8]]]),
    "norm of order 1 at 0": (lambda x: np.linalg.norm(x, 1), [[0, -2]], [[0, -1]]),
    "norm of order 3 at 0": (lambda x: np.linalg.norm(x, 3), [[0, 0]], [[0, 0]]),
    "norm of order 1/2 at 0": (lambda x: np.linalg.norm(x, 0.5), [[0, 4, -4]], [[0, 2, -2]]),
    "norm of order 1/2 of zeros": (lambda x: np.linalg.norm(x, 0.5), [[0, 0]], [[0, 0]]),
    "norm of order inf at a tie": (lambda x: np.linalg.norm(x, INF), [[2, -2]], [[0.5, -0.5]]),
    "norm squared at 0": (lambda x: np.linalg.norm(x) ** 2, [[0, 0]], [[0, 0]]),
    "hypot at 0": (np.hypot, [[0, 3], [0, 4]], [[0, 0.6], [0, 0.8]]),
    "std of equal entries": (np.std, [[2, 2, 2]], [[0, 0, 0]]),
    "std of equal entries that round": (np.std, [[0.1, 0.1, 0.1]], [[0, 0, 0]]),
    "std of entries that differ in their last digits": (np.std, [[1.7e15, 1.7e15 + 1, 1.7e15 + 2]],
                                                        [[-(6**-0.5), 0, 6**-0.5]]),
    "nanstd of equal entries": (np.nanstd, [[2, NAN, 2]], [[0, 0, 0]]),
    "var of equal entries": (np.var, [[2, 2, 2]], [[0, 0, 0]]),
    "softplus by its kinks": (lambda x: np.maximum(x, 0) + np.log(1 + np.exp(-abs(x))), [[0]], [[0.5]]),
    "x**0 at 0": (lambda x: x**0, [[0, 1, -3]], [[0, 0, 0]]),
    "x**0.0 at 0": (lambda x: x**0.0, [[0, 2]], [[0, 0]]),
    "x**[0, 1, 2] at 0": (lambda x: x ** np.array([0, 1, 2]), [[0, 0, 0]], [[0, 1, 0]]),
    "0**x": (lambda x: 0.0**x, [[1, 2]], [[0, 0]]),
    "x**y at 0": (np.power, [[0, 0], [2, 0]], [[0, 0], [0, 0]]),
    "negative base": (lambda x: x**3.0, [[-2]], [[12]]),
    "negative base, array exponent": (lambda x: x ** np.array([3.0, 2.0]), [[-2, -3]], [[12, -6]]),
    "prod with a zero": (np.prod, [[0, 2, 3]], [[6, 0, 0]]),
    "prod with two zeros": (np.prod, [[0, 0, 3]], [[0, 0, 0]]),
    "prod of one zero": (lambda x: np.prod(x, axis=0), [[0]], [[1]]),
    "cumprod with a zero": (np.cumprod, [[2, 0, 3, 4]], [[1, 32, 0, 0]]),
    "det of a singular matrix": (np.linalg.det, [[[1, 2], [2, 4]]], [[[4, -2], [-2, 1]]]),
    "det of the zero matrix": (np.linalg.det, [[[0, 0], [0, 0]]], [[[0, 0], [0, 0]]]),
    "logaddexp of infinities": (np.logaddexp, [[-INF, -INF, INF, INF], [-INF, 0, INF, 1]],
                                [[0.5, 0, 0.5, 1], [0.5, 1, 0.5, 0]]),
    "logaddexp2 of infinities": (np.logaddexp2, [[-INF, 3], [-INF, -INF]], [[0.5, 1], [0.5, 0]]),
    "arctan2 of large numbers": (np.arctan2, [[1e200], [1e200]], [[5e-201], [-5e-201]]),
    "sinc at 0": (np.sinc, [[0]], [[0]]),
    "nan_to_num": (np.nan_to_num, [[NAN, INF, 1]], [[0, 0, 1]]),
    "sort of ties": (lambda x: np.sort(x) * np.array([1, 2, 3]), [[3, 1, 1]], [[3, 1, 2]]),
    "median between two": (np.median, [[4, 1, 3, 2]], [[0, 0, 0.5, 0.5]]),
    "heaviside at 0": (np.heaviside, [[0, 1], [0.5, 0.5]], [None, [1, 0]]),
}  # fmt: skip


@pytest.mark.parametrize("f, arrays, expected", ANSWERS.values(), ids=ANSWERS)
def test_kinks_give_a_valid_finite_answer_without_a_warning(f, arrays, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for detach in ("all", "none"):
            got = gradients(f, *arrays, detach=detach)
            for g, e in zip(got, expected):
                np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-15) if e is not None else None
                assert (g is None) == (e is None)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # NumPy's own, as it takes the norm
@pytest.mark.parametrize("order", [-1, -2])
def test_a_norm_of_negative_order_is_0_beside_a_0_and_so_are_its_slopes(order):
    for detach in ("all", "none"):
        assert gradients(lambda x: np.linalg.norm(x, order), [0, 2, -2, 1], detach=detach) == [[0, 0, 0, 0]]


def test_float32_entries_that_differ_in_their_last_digits_have_a_std_with_slopes():
    assert gradients(np.std, [10000, 10000.0039], dtype=np.float32) == [[-0.5, 0.5]]


@pytest.mark.parametrize("ties, row, whole", [("split", [0, 0.5, 0.5], [0, 0.25, 0.25]), ("each", [0, 1, 1], [0, 1, 1]),
                                              ("first", [0, 1, 0], [0, 1, 0])])  # fmt: skip
def test_another_convention_for_ties_can_be_asked_for(ties, row, whole):
    x = [[1, 3, 3], [3, 3, 1]]
    assert gradients(lambda x: x.max(1, ties=ties), x)[0][0] == row
    assert gradients(lambda x: x.max(ties=ties), x)[0][0] == whole
    assert gradients(lambda x: x.max((1, 0), keepdims=True, ties=ties), x)[0][0] == whole
    assert gradients(lambda x: (-x).min((-1,), ties=ties), x)[0][0] == [-r for r in row]


def test_an_unknown_convention_for_ties_is_refused():
    with pytest.raises(ValueError, match="ties='last'.*'split', 'each' or 'first'"):
        ad.Var([1.0, 1.0]).max(ties="last")


def test_the_winners_are_remembered_and_not_found_again_by_comparison():
    x = ad.Var([1.0, 3.0, 2.0])
    won, count = np.max(x).op.params["saved"]
    assert won.tolist() == [False, True, False] and count == 1
    rule = RULES[np.max]
    rounded = np.array(2.9999999)  # as if a second evaluation had rounded otherwise
    assert rule.partials[0](np.array(1.0), rounded, x.data, saved=(won, count)).tolist() == [0, 1, 0]


def test_shares_of_a_tie_sum_to_one():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = ad.Var(rng.integers(0, 3, (4, 5)).astype(float))
        for function in (np.max, np.min, np.nanmax):
            for axis in (None, 0, -1, (0, 1)):
                g = function(x, axis=axis).backward()[x].data
                assert np.allclose(np.sum(g, axis=axis), 1)
    a, b = ad.Var([1.0, 2.0, 3.0]), ad.Var([1.0, 5.0, 0.0])
    for function in (np.maximum, np.minimum, np.fmax, np.fmin):
        grads = function(a, b).backward()
        assert np.array_equal(grads[a].data + grads[b].data, np.ones(3))


# Second derivatives where the formula divides by zero

SECOND = {
    "prod with zeros": (np.prod, [2, 3, 0, 0], [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 6], [0, 0, 6, 0]]),
    "cumprod with zeros": (lambda x: np.cumprod(x).sum(), [2, 0, 0, 4],
                           [[0, 1, 0, 0], [1, 0, 10, 0], [0, 10, 0, 0], [0, 0, 0, 0]]),
    "0**x": (lambda x: np.sum(0.0**x), [1], [[0]]),
    "array base 0": (lambda x: np.sum(np.array([0.0]) ** x), [1.5], [[0]]),
    "x**0": (lambda x: np.sum(x**0), [0, 2], [[0, 0], [0, 0]]),
    "x**1": (lambda x: np.sum(x**1), [0, 2], [[0, 0], [0, 0]]),
    "x**2 by power": (lambda x: np.sum(np.power(x, 2.0)), [0, -2], [[2, 0], [0, 2]]),
    "x**3": (lambda x: np.sum(x**3), [0, -2], [[0, 0], [0, -12]]),
    "power in both, exponent 0": (lambda v: v[0] ** v[1], [2, 0], [[0, 0.5], [0.5, np.log(2) ** 2]]),
    "power in both, base 0": (lambda v: v[0] ** v[1], [0, 2], [[2, 0], [0, 0]]),
    "sinc at 0": (lambda x: np.sinc(x).sum(), [0], [[-np.pi**2 / 3]]),
    "sinc on both sides of its series": (lambda x: np.sinc(x).sum(), [0.00999999, 0.01000001],
                                         [[-3.288894101958, 0], [0, -3.288894098063]]),
    "abs at 0": (lambda x: abs(x).sum(), [0, 1], [[0, 0], [0, 0]]),
    "logaddexp of equals": (lambda v: np.logaddexp(v[0], v[1]), [1, 1], [[0.25, -0.25], [-0.25, 0.25]]),
    "det of a singular matrix": (lambda v: np.linalg.det(np.reshape(v, (2, 2))), [1, 2, 2, 4],
                                 [[0, 0, 0, 1], [0, 0, -1, 0], [0, -1, 0, 0], [1, 0, 0, 0]]),
    "maximum": (lambda x: np.maximum(x, 1.0).sum(), [1, 2], [[0, 0], [0, 0]]),
    "norm of order 1": (lambda x: np.linalg.norm(x, 1), [0, 2], [[0, 0], [0, 0]]),
}  # fmt: skip


@pytest.mark.parametrize("f, x, expected", SECOND.values(), ids=SECOND)
def test_second_derivatives_are_right_where_a_formula_would_divide_by_zero(f, x, expected):
    np.testing.assert_allclose(hessian(f, x), expected, rtol=1e-7, atol=1e-12)


NONE = {
    "norm": (np.linalg.norm, [0, 0]),
    "norm of order 1/2": (lambda x: np.linalg.norm(x, 0.5), [0, 2]),
    "hypot": (lambda v: np.hypot(v[0], v[1]), [0, 0]),
    "std": (np.std, [2, 2, 2]),
    "std that rounds": (np.std, [0.1, 0.1, 0.1]),
    "nanstd": (np.nanstd, [2, 2, 2]),
    "power in both at (0, 1)": (lambda v: v[0] ** v[1], [0, 1]),
    "eigenvectors of equal eigenvalues": (lambda x: np.linalg.eigh(np.diag(x))[1][0, 0] ** 2, [1, 1]),
}


@pytest.mark.parametrize("f, x", NONE.values(), ids=NONE)
def test_a_second_derivative_that_does_not_exist_is_never_silently_finite(f, x):
    with np.errstate(all="ignore"):
        h = hessian(f, x)
        if "power" in str(f):
            h = h[[0, 1], [1, 0]]
    assert not np.all(np.isfinite(h)) or not h.size


# Masks

MASKED = {
    "exp that overflows": (lambda x: np.where(x <= 0, np.exp(10 * x), 1 + x), [100], [1]),
    "sqrt of a negative number": (lambda x: np.where(x > 0, np.sqrt(x), x), [-1, -4], [1, 1]),
    "sqrt, else a constant": (lambda x: np.where(x > 0, np.sqrt(x), 0), [-1, 0], [0, 0]),
    "log of 0": (lambda x: np.where(x > 2, np.log2(x), 2 * x), [0, 2, 3], [2, 2, 0.48089834696298783]),
    "quotient by 0": (lambda x: (x / np.array([0, 1]))[[False, True]], [1, 1], [0, 1]),
    "minimum with an overflow": (lambda x: np.minimum(np.exp(x), 1), [-5, 800], [0.006737946999085467, 0]),
    "arcsin outside": (lambda x: np.where(abs(x) < 1, np.arcsin(x), 3 * x), [2, 0], [3, 1]),
    "power of 0": (lambda x: np.where(x > 0, x**-0.5, 2 * x), [0, 1], [2, -0.5]),
    "maximum of a reciprocal": (lambda x: np.where(x == 0, x, 1 / x), [0, 2], [1, -0.25]),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("f, x, expected", MASKED.values(), ids=MASKED)
def test_a_mask_over_an_infinite_slope_is_visible_by_default_and_right_with_strong_zero(f, x, expected):
    for detach in ("all", "none"):
        (got,) = gradients(f, x, detach=detach)
        assert all(g == pytest.approx(e) or not np.isfinite(g) for g, e in zip(got, expected))
        (got,) = gradients(f, x, detach=detach, strong_zero=True)
        assert got == pytest.approx(expected)


# dtypes


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble"])
def test_python_numbers_do_not_widen(dtype):
    x = ad.Var(np.array([1.5, 2.5], dtype))
    for f in (lambda x: 3 * x + 1, lambda x: 2.0**x, lambda x: x**2, lambda x: x**-1.5, lambda x: x / 3,
              lambda x: 1 - x, lambda x: np.maximum(x, 2), lambda x: np.where(x > 2, x, 0.0),
              lambda x: np.clip(x, 0, 2), np.mean, np.std, np.median,
              lambda x: np.linspace(x, 3.0, 4), lambda x: np.arctan2(x, 1)):  # fmt: skip
        y = f(x)
        assert y.dtype == f(x.data).dtype == x.dtype
        assert y.backward()[x].dtype == x.dtype
        assert y.backward(detach="none")[x].dtype == x.dtype


MIXED = {
    "float64 array": lambda x: x * np.array([1.0, 2.0]),
    "float64 scalar": lambda x: np.float64(2) * x,
    "integer array": lambda x: x * np.array([1, 2]),
    "float64 Tensor": lambda x: x + ad.Tensor([1.0, 2.0]),
    "matmul": lambda x: x @ np.ones((2, 2)),
    "matmul, integers": lambda x: np.array([[1, 2], [3, 4]]) @ x,
    "concatenate": lambda x: np.concatenate([x, np.ones(2)]),
    "stack": lambda x: np.stack([np.ones(2), x]),
    "where": lambda x: np.where([True, False], x, np.array([1.0, 2.0])),
    "einsum": lambda x: np.einsum("i,i->", x, np.ones(2)),
    "solve": lambda x: np.linalg.solve(np.eye(2), x),
    "convolve": lambda x: np.convolve(x, np.ones(2)),
    "cross": lambda x: np.cross(x, np.array([1.0, 2.0, 3.0])[:2]),
    "interp": lambda x: np.interp(x, np.arange(5), np.arange(5.0) ** 2),
    "average": lambda x: np.average(x, weights=np.array([1.0, 3.0])),
    "cov": np.cov,
    "sum in float64": lambda x: np.sum(x, dtype=np.float64),
    "add in float64": lambda x: np.add(x, 1, dtype=np.float64),
    "append": lambda x: np.append(x, 3.0),
}


@pytest.mark.parametrize("f", MIXED.values(), ids=MIXED)
@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors")
def test_a_mixed_dtype_is_numpys_and_the_gradient_has_its_inputs_own(f):
    x = ad.Var(np.array([1.5, 2.5], np.float32))
    y = f(x)
    assert y.dtype == f(x.data).dtype == np.float64
    for detach in ("all", "none"):
        g = y.backward(detach=detach)[x]
        assert g.dtype == np.float32
    double = ad.Var(np.array([1.5, 2.5]))
    np.testing.assert_allclose(g.data, f(double).backward()[double].data, rtol=1e-6)


def test_casting_there_and_back_passes_the_cotangent_and_to_integers_cuts():
    x = ad.Var([1.5, 2.5])
    g = x.astype("float32").astype("float64").backward()[x]
    assert g.dtype == np.float64 and g.data.tolist() == [1, 1]
    assert x not in (x.astype(int) * 2.0).backward()


# Empty arrays


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value", "ignore:Degrees of freedom")
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_arrays_get_empty_gradients(shape):
    both = (np.sum, np.prod, np.mean, np.var, np.std, np.cumsum, np.cumprod, np.sort, np.flip)
    whole, along = (*both, np.ravel, np.linalg.norm), (*both, np.nansum, np.diff)
    for detach in ("all", "none"):
        for function in whole:
            x = ad.Var(np.zeros(shape))
            assert function(x).backward(detach=detach)[x].shape == shape
        for function in along:
            x = ad.Var(np.zeros(shape))
            assert function(x, axis=0).backward(detach=detach)[x].shape == shape


def test_empty_pieces_of_a_concatenation_and_of_a_product():
    x, y = ad.Var(np.zeros((0, 2))), ad.Var(np.ones((3, 2)))
    grads = np.concatenate([x, y]).backward()
    assert grads[x].shape == (0, 2) and grads[y].data.sum() == 6
    assert (y @ np.zeros((2, 0))).backward()[y].data.tolist() == [[0, 0]] * 3
    assert (x.T @ x).backward()[x].shape == (0, 2)


# Indexing


def test_an_index_given_as_a_tensor_or_a_list_is_kept_as_it_was():
    x = ad.Var([1.0, 2.0, 3.0])
    key = np.array([0, 0, 2])
    y = x[key]
    key[:] = 1
    assert y.backward()[x].data.tolist() == [2, 0, 1]
    assert x[ad.Tensor([1, 1])].backward()[x].data.tolist() == [0, 2, 0]
    assert x[ad.Tensor([True, False, True])].backward()[x].data.tolist() == [1, 0, 1]
    assert x[[]].backward()[x].data.tolist() == [0, 0, 0]
    assert x[x > 1].backward()[x].data.tolist() == [0, 1, 1]
    assert x[np.argmax(x)].backward()[x].data.tolist() == [0, 0, 1]
    assert x[np.where(x > 1)].backward()[x].data.tolist() == [0, 1, 1]


def test_reading_every_entry_costs_one_array_and_not_one_for_each(monkeypatch):
    made = []
    zeros = np.zeros
    monkeypatch.setattr(np, "zeros", lambda *args, **kw: made.append(1) or zeros(*args, **kw))
    x = ad.Var(np.arange(200.0))
    sum(x[i] for i in range(200)).backward()
    sum(row.sum() for row in ad.Var(np.ones((200, 3)))).backward()
    sum(part.sum() for part in np.split(ad.Var(np.ones(200)), 100)).backward()
    assert len(made) <= 3


@pytest.mark.parametrize("key", [5, (0, 0), "a", 1.5, [True, False]], ids=str)
def test_a_key_that_numpy_refuses_is_refused(key):
    x = ad.Var([1.0, 2.0, 3.0])
    with pytest.raises(IndexError):
        x[key]


# Arguments of the functions


def test_layout_orders_are_right_or_refused():
    x = ad.Var(np.arange(6.0).reshape(2, 3))
    w = np.arange(6.0)
    assert (np.ravel(x, order="F") * w).backward()[x].data.tolist() == [[0, 2, 4], [1, 3, 5]]
    assert (np.reshape(x, (3, 2), order="F") * w.reshape(3, 2)).backward()[x].data.tolist() == [[0, 4, 3], [2, 1, 5]]
    for order in ("A", "K"):
        with pytest.raises(TypeError, match="order="):
            np.ravel(x, order=order)


def test_keywords_a_rule_does_not_know_are_refused_by_name():
    x = ad.Var([1.0, 2.0])
    for f, name in ((lambda: np.add(x, 1, where=[True, False]), "where"), (lambda: np.var(x, mean=1.5), "mean"),
                    (lambda: np.var(x, mean=1.5, where=[True, False]), "mean"),
                    (lambda: np.quantile(x, 0.5, method="inverted_cdf"), "inverted_cdf"),
                    (lambda: np.pad(x, 1, mode="linear_ramp"), "linear_ramp"),
                    (lambda: np.polyfit(x, x, 1, full=True), "full"),
                    (lambda: np.intersect1d(x, x, return_indices=True), "return_indices"),
                    (lambda: np.linalg.qr(ad.Var(np.ones((3, 2))), mode="complete"), "complete")):  # fmt: skip
        with pytest.raises(TypeError, match=name):
            f()
    with pytest.raises(TypeError, match="out=|write into"):
        np.sum(x, out=np.zeros(()))


def test_ufunc_methods():
    x, y = ad.Var([1.0, 2.0]), ad.Var([3.0, 4.0, 5.0])
    assert np.array_equal(np.multiply.outer(x, y).data, np.multiply.outer(x.data, y.data))
    assert np.multiply.outer(x, y).backward()[x].data.tolist() == [12, 12]
    assert np.add.outer(x, np.ones((2, 2))).backward()[x].data.tolist() == [4, 4]
    assert np.add.reduce(np.outer(x, y)).shape == (3,)
    assert np.multiply.reduce(y).backward()[y].data.tolist() == [20, 15, 12]
    assert np.maximum.reduce(y).backward()[y].data.tolist() == [0, 0, 1]
    assert np.add.accumulate(y).backward()[y].data.tolist() == [3, 2, 1]
    assert np.multiply.accumulate(y).data.tolist() == [3, 12, 60]
    for f in (lambda: np.subtract.reduce(y), lambda: np.add.at(y, 0, 1), lambda: np.add.reduceat(y, [0, 1])):
        with pytest.raises(ad.NoRuleError, match=r"np\.\w+\.\w+ has no rule"):
            f()


def test_divmod_and_modf_return_both_parts():
    x = ad.Var([3.5, -3.5])
    whole, rest = divmod(x, 2.0)
    assert (whole.data.tolist(), rest.data.tolist()) == ([1, -2], [1.5, 0.5])
    assert rest.backward()[x].data.tolist() == [1, 1]
    assert x not in whole.backward()
    assert divmod(7.0, ad.Var(2.0))[0].item() == 3


def test_svd_vectors_beyond_the_thin_form_are_refused_only_where_they_count():
    a = ad.Var(np.arange(6.0).reshape(3, 2) ** 2)
    u, s, vh = np.linalg.svd(a)
    assert u.shape == (3, 3) and s.backward()[a].shape == (3, 2)
    thin = np.linalg.svd(a, full_matrices=False)[0]
    np.testing.assert_allclose((u[:, :2] ** 3).backward()[a].data, (thin**3).backward()[a].data)
    with pytest.raises(ValueError, match="beyond the thin form"):
        (u**3).backward()


OF_SYMMETRIC = {
    "cholesky": np.linalg.cholesky,
    "upper cholesky": lambda a: np.linalg.cholesky(a, upper=True),
    "eigenvalues": np.linalg.eigvalsh,
    "eigenvalues, upper": lambda a: np.linalg.eigvalsh(a, "U"),
    "eigenvectors": lambda a: np.linalg.eigh(a)[1] ** 2,
}


@pytest.mark.parametrize("f", OF_SYMMETRIC.values(), ids=OF_SYMMETRIC)
def test_functions_of_symmetric_matrices_give_numpys_values_and_symmetric_gradients(f):
    a = np.array([[2.0, 0.5], [0.5, 1.0]])
    x = ad.Var(a)
    y = f(x)
    assert np.array_equal(y.data, f(a))
    g = y.backward()[x].data
    np.testing.assert_allclose(g, g.T)
    assert ad.gradcheck(lambda a: f((a + a.mT) / 2), (a,))
    assert ad.gradcheck(lambda a: f(np.tril(a) + np.tril(a, -1).mT), (np.tril(a),))


@pytest.mark.parametrize("f", OF_SYMMETRIC.values(), ids=OF_SYMMETRIC)
@pytest.mark.parametrize("kind", [ad.Tensor, ad.Var])
def test_a_matrix_whose_triangles_differ_is_refused_as_numpy_would_read_one_alone(f, kind):
    for a in ([[4.0, 0.0], [2.0, 10.0]], [[4.0, 2.0], [2.001, 10.0]], [[[4.0, 1.0], [1.0, 5.0]], [[4.0, 0], [1, 4]]]):
        with pytest.raises(ValueError, match=r"takes symmetric matrices.*\(a \+ a\.mT\) / 2.*np\.tril\(a\)"):
            f(kind(a))


@pytest.mark.parametrize("f", OF_SYMMETRIC.values(), ids=OF_SYMMETRIC)
def test_a_matrix_that_is_symmetric_but_for_rounding_is_taken(f):
    for dtype, off in ((np.float64, 1e-12), (np.float32, 1e-6)):
        a = np.array([[4.0, 2.0], [2.0 + off, 10.0]], dtype)
        y = f(ad.Var(a))
        assert y.dtype == dtype and a[0, 1] != a[1, 0]
        np.testing.assert_allclose(y.data, f(a), rtol=1e-5)


def test_an_eigh_with_an_unknown_triangle_is_refused_as_numpy_refuses_it():
    with pytest.raises(ValueError, match="UPLO"):
        np.linalg.eigh(ad.Var(np.eye(2)), "lower")


def test_a_factorisation_is_made_once_and_shared_by_the_rules(monkeypatch):
    calls = []
    svd = np.linalg.svd
    x = ad.Var(np.arange(6.0).reshape(3, 2) ** 2)
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    monkeypatch.setattr(np.linalg, "svd", lambda *args, **kw: calls.append(1) or svd(*args, **kw))
    grads = ((u * s) @ vh).backward(detach="none")
    np.testing.assert_allclose(grads[x].data, np.ones((3, 2)), atol=1e-12)
    grads[x].backward()
    assert not calls


# Functions without a rule

UNSUPPORTED = {
    "in place": (lambda x: np.put(x, 0, 1), r"np\.put .*np\.where.*ad\.scatter"),
    "fill_diagonal": (lambda x: np.fill_diagonal(x, 1), r"np\.fill_diagonal .*ad\.scatter"),
    "put_along_axis": (lambda x: np.put_along_axis(x, [0], 1, 0), r"np\.put_along_axis .*ad\.scatter"),
    "FFT": (np.fft.fft, r"np\.fft\.fft .*complex numbers are out of scope"),
    "inverse real FFT": (np.fft.irfft, r"np\.fft\.irfft .*out of scope"),
    "eig": (lambda x: np.linalg.eig(np.outer(x, x)), r"np\.linalg\.eig .*np\.linalg\.eigh"),
    "emath": (np.emath.sqrt, r"np\.emath\.sqrt .*np\.sqrt"),
    "histogram": (np.histogram, r"np\.histogram .*np\.bincount"),
    "trim_zeros": (np.trim_zeros, r"np\.trim_zeros .*np\.flatnonzero"),
    "a ufunc's method": (np.subtract.reduce, r"np\.subtract\.reduce has no rule; call np\.subtract itself"),
    "a name nearby": (np.isnat, r"np\.isnat .*nearest supported function is np\.isnan"),
    "no name nearby": (np.is_busday, r"np\.is_busday has no rule.*: no supported one is like it\. Use \.data"),
    "a function made into a ufunc": (np.frompyfunc(abs, 1, 1), r"^abs \(vectorized\) has no rule"),
}


@pytest.mark.parametrize("f, message", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_a_function_without_a_rule_names_itself_and_what_to_use(f, message):
    with pytest.raises(ad.NoRuleError, match=message):
        f(ad.Var([1.0, 2.0]))


def test_a_function_of_scipys_is_named_as_such_and_what_is_the_same_is_supported():
    special = pytest.importorskip("scipy.special")
    x, y = np.array([0.2, 0.7, 0.9]), np.array([0.5, 2.0, 3.0])
    for name, same in OF_SCIPY.items():
        function = getattr(special, name)
        operands = (x, y)[: getattr(function, "nin", 1)]
        told = rf"scipy\.special\.{name}\b.*[:.] {re.escape(same)} is the same"
        with pytest.raises((ad.NoRuleError, ad.HistoryLostError), match=told):
            function(*map(ad.Var, operands))
        mine = eval(same, {"np": np, "ad": ad}, dict(zip("xy", map(ad.Var, operands))))
        assert mine.tracked
        np.testing.assert_allclose(mine.data, function(*operands), rtol=1e-12)
    with pytest.raises(ad.NoRuleError, match=r"scipy\.special\.log1p has no rule.*: np\.log1p\(x\) is the same"):
        special.log1p(ad.Var(x))
    with pytest.raises(ad.NoRuleError, match=r"scipy\.special\.gammaln has no rule.*: SciPy's functions have no rules"):
        special.gammaln(ad.Var(x))


UNKNOWN = {
    "stack": (lambda x: np.stack([x], dtype=float), r"np\.stack with dtype= has no rule; its rule knows axis"),
    "quantile": (lambda x: np.quantile(x, 0.5, weights=[1, 2], method="inverted_cdf"),
                 r"np\.quantile with weights= has no rule; its rule knows axis, overwrite_input, method, keepdims"),
    "std": (lambda x: np.std(x, mean=1.5), r"np\.std with mean= has no rule; .* knows axis, ddof, keepdims"),
}  # fmt: skip


@pytest.mark.parametrize("f, message", UNKNOWN.values(), ids=UNKNOWN)
def test_an_argument_that_only_numpy_knows_is_refused_by_name(f, message):
    with pytest.raises(ad.NoRuleError, match=message):
        f(ad.Var([1.0, 2.0]))


def test_a_mistake_in_the_arguments_that_are_known_stays_pythons_or_numpys_own_error():
    with pytest.raises(TypeError, match="argument") as error:
        np.stack(ad.Var([1.0]), 0, axis=1)
    assert not isinstance(error.value, ad.NoRuleError)
    with pytest.raises(TypeError, match=r"Tensor\.astype\(\) got an unexpected keyword argument 'order'"):
        ad.Var([1.0]).astype(float, order="F")
    with pytest.raises(TypeError, match=r"Tensor\.max\(\) got an unexpected keyword argument 'strict'"):
        ad.Var([1.0]).max(strict=True)
    assert ad.Var([1.0]).astype(np.float32, copy=False).dtype == np.float32


# A tracked tensor in the place of a plain argument

PLAIN = {
    "nan": lambda v: np.nan_to_num(ad.Var([1.0, NAN]), nan=v),
    "ord": lambda v: np.linalg.norm(ad.Var([1.0, 2.0]), v),
    "ord, for matrices": lambda v: np.linalg.norm(ad.Var([[1.0, 2.0]]), v, (0, 1)),
    "ddof": lambda v: np.var(ad.Var([1.0, 2.0]), ddof=v),
    "period": lambda v: np.unwrap(ad.Var([1.0, 2.0]), period=v),
    "beta": lambda v: ad.softplus(ad.Var([1.0]), v),
    "alpha": lambda v: ad.elu(ad.Var([1.0]), v),
    "q": lambda v: np.quantile(ad.Var([1.0, 2.0]), v),
    "constant_values": lambda v: np.pad(ad.Var([1.0]), 1, constant_values=v),
}


@pytest.mark.parametrize("f", PLAIN.values(), ids=PLAIN)
def test_history_is_not_lost_in_an_argument_that_has_no_partial(f):
    with pytest.raises(TypeError, match=r"is tracked and can't be .*its history would be lost"):
        f(ad.Var(1.0))


def test_a_constant_tensor_may_stand_for_a_plain_argument():
    x = ad.Var([3.0, 4.0])
    assert np.linalg.norm(x, ad.Tensor(2.0)).item() == 5
    assert np.var(x, ddof=ad.Tensor(1)).item() == 0.5
    assert np.linalg.norm(x, ad.Tensor(1)).item() == 7


def test_the_callers_arrays_are_copied_where_numpy_copies_them():
    fill, x = np.array([1.0, 2.0]), ad.Var([[1.0, 2.0], [3.0, 4.0]])
    filled, grid = np.full_like(x, fill), np.meshgrid(x[0], fill)[1]
    fill[0] = 99
    assert filled.tolist() == [[1, 2], [1, 2]] and grid.tolist() == [[1, 1], [2, 2]]
    filled[0, 0] = grid[0, 0] = 5
    assert filled.tolist() == [[5, 2], [1, 2]] and grid.tolist() == [[5, 1], [2, 2]]
    v = ad.Var(2.0)
    assert np.full_like(x, v).backward()[v].item() == 4


def test_complex_results_are_refused():
    with pytest.raises(TypeError):
        ad.Var([1.0]) * 1j
    with pytest.raises(TypeError, match="complex"):
        ad.Tensor([1j])
    with pytest.raises(TypeError):
        np.sqrt(ad.Var([1.0])) + np.array([1j])


def test_advice_names_only_functions_that_exist_and_are_supported():
    known = {*RULES, *COMPOSED}
    for name, advice in BY_NAME.items():
        assert name in ("fft", "vectorize") or hasattr(np, name) or hasattr(np.linalg, name), name
        for path in re.findall(r"np\.(?:linalg\.)?\w+", advice):
            function = eval(path, {"np": np})
            assert function in known or function in (np.isin, np.flatnonzero, np.searchsorted), path
