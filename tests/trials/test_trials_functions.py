"""Functions that people reach for: each against the same by other means."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
rng = np.random.default_rng(5)
NAN = np.nan


def both(f, g, *arrays):
    """Value, gradients and gradients of a mixture of the gradients of `f` are those of `g`."""
    found = []
    for function in (f, g):
        tensors = [ad.Var(a) for a in arrays]
        y = function(*tensors)
        weights = np.cos(np.arange(y.size)).reshape(y.shape)
        store = (y * weights).sum().backward(wrt=tensors, detach="none")
        first = [store.get(t, ad.Tensor(np.zeros(t.shape))) for t in tensors]
        mixed = sum((np.sin(t.data + 1) * s).sum() for t, s in zip(tensors, first))
        again = mixed.backward(wrt=tensors) if mixed.tracked else {}
        second = [again.get(t, ad.Tensor(np.zeros(t.shape))) for t in tensors]
        found.append([y.data, *(t.data for t in (*first, *second))])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


# Reductions of chosen entries

masks = st.lists(st.booleans(), min_size=6, max_size=6).filter(any).map(np.array)


@settings(max_examples=60, deadline=None)
@given(masks, st.sampled_from(["sum", "prod", "mean", "var", "std", "max", "min"]), st.booleans(), st.booleans())
def test_10_where_leaves_out_what_an_index_leaves_out(mask, name, skip_nans, with_nan):
    a = rng.standard_normal(6)
    if with_nan:
        a[np.flatnonzero(mask)[0] if skip_nans else np.argmin(mask)] = NAN  # in the first case among the chosen
        if skip_nans and mask.sum() == 1 or not skip_nans and mask.all():
            return
    function = getattr(np, "nan" * skip_nans + name)
    more = {"initial": {"max": -9.0, "min": 9.0}[name]} if name in ("max", "min") else {}
    numbers = mask & ~np.isnan(a)
    value = function(ad.Tensor(a), where=mask, **more).data
    assert np.array_equal(value.round(9), function(a, where=mask, **more).round(9))
    x = ad.Var(a)
    y = ad.Var(a[numbers])
    g, h = function(x, where=mask, **more).backward()[x].data, getattr(np, name)(y).backward()[y].data
    assert np.allclose(g[numbers], h) and not np.any(g[~numbers])


def test_10_where_has_a_second_derivative_and_broadcasts():
    a, mask = rng.standard_normal((3, 4)), np.array([[True], [False], [True]])
    for f in (np.var, np.std, np.mean, np.sum, np.prod):
        both(lambda x: f(x, axis=0, where=mask), lambda x: f(x[[0, 2]], axis=0), a)  # noqa: B023
        both(lambda x: f(x.T, axis=1, where=[True, False, True]), lambda x: f(x[[0, 2]], axis=0), a)  # noqa: B023
    both(lambda x: np.var(x, axis=1, ddof=1, where=[1, 1, 0, 1] == np.ones(4)),
         lambda x: np.var(x[:, [0, 1, 3]], axis=1, ddof=1), a)  # fmt: skip


def test_10_initial_values():
    a = rng.standard_normal((2, 3))
    both(lambda x: np.sum(x, axis=0, initial=2.0), lambda x: np.sum(x, axis=0) + 2, a)
    both(lambda x: np.prod(x, initial=3.0), lambda x: np.prod(x) * 3, a)
    both(lambda x: x.max(1, initial=0.1), lambda x: np.max(np.concatenate([x, np.full((2, 1), 0.1)], 1), 1), a)
    both(lambda x: np.nanmin(x, axis=0, initial=0.1), lambda x: np.minimum(np.min(x, axis=0), 0.1), a)
    both(lambda x: np.add.reduce(x, initial=1.0, where=[True, False, True]),
         lambda x: np.sum(x * np.array([1, 0, 1]), axis=0) + 1, a)  # fmt: skip
    both(lambda x, s: np.sum(x, initial=s), lambda x, s: np.sum(x) + s, a, np.array(0.3))  # differentiable too
    x = ad.Var([1.0, 3.0])
    assert np.max(x, initial=3.0).backward()[x].data.tolist() == [0, 0.5]  # as the binary maximum shares a tie
    assert x.max(where=[True, False], initial=-1.0).backward()[x].data.tolist() == [1, 0]
    assert x.max(initial=-1.0, ties="each").backward()[x].data.tolist() == [0, 1]
    empty = ad.Var(np.zeros((0, 2)))
    y = np.max(empty, axis=0, initial=4.0)
    assert y.data.tolist() == [4, 4] and y.backward()[empty].shape == (0, 2)
    half = np.sum(ad.Var(np.ones(3, np.float16)), initial=np.float64(2), where=[True, True, False])
    assert half.dtype == np.float16 and half.item() == 4
    assert np.max(ad.Tensor([3, 5, 9]), where=[True, True, False], initial=0).data.dtype.kind == "i"


def test_10_what_numpy_refuses_is_refused():
    x = ad.Var(np.ones((2, 3)))
    for f in (lambda: np.max(x, where=x.data > 0), lambda: np.nanmin(x, where=x.data > 0),
              lambda: np.sum(x, where=np.ones((4, 2, 3), bool)), lambda: np.max(ad.Var(np.zeros(0))),
              lambda: np.add.accumulate(x, axis=5), lambda: np.logaddexp.reduce(x, axis=2)):  # fmt: skip
        with pytest.raises(ValueError):
            f()


# Ufuncs over an axis


def one_by_one(ufunc):
    def running(x):
        rows = [x[0]]
        for i in range(1, x.shape[0]):
            rows.append(ufunc(rows[-1], x[i]))
        return np.stack(rows)

    return running


@pytest.mark.parametrize("n", (1, 2, 3, 7, 8))
@pytest.mark.parametrize("ufunc", (np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.hypot))
def test_10_accumulate_is_the_ufunc_again_and_again(ufunc, n):
    a = rng.standard_normal((n, 2))
    both(ufunc.accumulate, one_by_one(ufunc), a)
    both(lambda x: ufunc.accumulate(x, axis=1), lambda x: one_by_one(ufunc)(x.T).T, a.T)
    both(lambda x: ufunc.reduce(x), lambda x: one_by_one(ufunc)(x)[-1], a)


def test_10_accumulate_at_ties_and_infinities():
    x = ad.Var([1.0, 3.0, 3.0, 2.0, 3.0])
    y = np.maximum.accumulate(x)
    for i in range(5):
        share = y[i].backward()[x].data
        assert share.sum() == 1 and not np.any(share[x.data != y.data[i]]) and not np.any(share[i + 1 :])
    z = ad.Var([-np.inf, -np.inf, 0.0, 1000.0])
    y = np.logaddexp.accumulate(z)
    assert y.data.tolist() == [-np.inf, -np.inf, 0, 1000] and y[3].backward()[z].data.tolist() == [0, 0, 0, 1]
    assert np.logaddexp.reduce(ad.Var(np.zeros(0))).item() == -np.inf
    assert np.isnan(np.maximum.accumulate(ad.Var([1.0, NAN, 2.0])).data[1:]).all()


# Others


@pytest.mark.parametrize("x", (-40.0, -2.5, -1e-9, 0.0, 1e-4, 0.7, 12.0, 300.0))
def test_10_i0_and_its_derivatives(x):
    v = ad.Var(x)
    y, slopes = np.i0(v), [np.i0(v)]
    for _ in range(3):
        slopes.append(slopes[-1].backward(wrt=[v], detach="none")[v])
    assert y.item() == np.i0(x)
    for n, slope in enumerate(slopes):
        expected = float(mpmath.diff(lambda t: mpmath.besseli(0, t), x, n))
        assert slope.item() == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_10_shifts_are_permutations():
    for shape, axes in (((5,), None), ((4, 5), None), ((4, 5), 1), ((3, 4, 5), (0, -1))):
        a, g = rng.standard_normal((2, *shape))
        x = ad.Var(a)
        assert np.array_equal(np.fft.fftshift(x, axes).backward(g)[x].data, np.fft.ifftshift(g, axes))
        assert np.array_equal(np.fft.ifftshift(x, axes).backward(g)[x].data, np.fft.fftshift(g, axes))


def test_10_windows_are_reads():
    view = np.lib.stride_tricks.sliding_window_view
    for shape, window, axis in (((6,), 3, None), ((4, 5), (2, 2), None), ((4, 5), 3, 1), ((6,), (2, 3), (0, 0)),
                                ((3, 4), (1, 2), (-1, 0)), ((3, 4), (3, 4), None)):  # fmt: skip
        a = rng.standard_normal(shape)
        x = ad.Var(a)
        y = view(x, window, axis)
        g = rng.standard_normal(y.shape)
        assert np.array_equal(y.data, view(a, window, axis))
        reads = view(np.arange(a.size).reshape(shape), window, axis)
        assert np.allclose(y.backward(g)[x].data.ravel(), np.bincount(reads.ravel(), g.ravel(), a.size))
    for window, axis in ((7, None), ((2, 2), 0), (-1, None)):
        with pytest.raises(ValueError):
            view(ad.Var(np.ones(6)), window, axis)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(lambda f: sum(f) > 2), st.integers(0, 2))
def test_10_frequencies_of_cov_are_repetitions(frequencies, ddof):
    a, w = rng.standard_normal((3, 4)), rng.uniform(0.5, 2, 4)
    repeated = np.repeat(np.arange(4), frequencies)
    both(lambda x: np.cov(x, fweights=frequencies, ddof=ddof), lambda x: np.cov(x[:, repeated], ddof=ddof), a)
    both(lambda x, w: np.cov(x, fweights=frequencies, aweights=w, ddof=ddof),
         lambda x, w: np.cov(x[:, repeated], aweights=w[repeated], ddof=ddof), a, w)  # fmt: skip
    expected = np.cov(a.T, fweights=frequencies, aweights=w, ddof=ddof, rowvar=False)
    assert np.allclose(np.cov(ad.Var(a.T), fweights=frequencies, aweights=w, ddof=ddof, rowvar=False).data, expected)


REFUSED = [({"fweights": [1.5, 1]}, TypeError), ({"aweights": [-1, 1]}, ValueError),
           ({"aweights": [1, 1, 1]}, ValueError), ({"fweights": [[1, 1]]}, ValueError)]  # fmt: skip


@pytest.mark.parametrize("weights, error", REFUSED)
def test_10_weights_that_cov_refuses(weights, error):
    with pytest.raises((error, RuntimeError)):
        np.cov(np.ones((2, 2)), **weights)
    with pytest.raises(error, match=next(iter(weights))):
        np.cov(ad.Var(np.ones((2, 2))), **weights)


@pytest.mark.parametrize("rank", (1, 2, 3))
def test_10_pseudo_inverse_of_symmetric_matrices(rank):
    b = rng.standard_normal((3, rank))
    both(lambda b: np.linalg.pinv(b @ b.T, hermitian=True), lambda b: np.linalg.pinv(b.T) @ np.linalg.pinv(b), b)
    both(lambda b: np.linalg.svd(b @ b.T, hermitian=True)[1][:rank], lambda b: np.linalg.svd(b)[1][:rank] ** 2, b)
    with pytest.raises(ValueError, match="symmetric"):
        np.linalg.pinv(ad.Var([[1.0, 2.0], [0.0, 1.0]]), hermitian=True)


def test_10_nested_lists_of_tensors():
    a, b, c, d = scalars = [ad.Var(float(i)) for i in range(4)]
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])
    for y in (np.block([[a, b], [c, d]]), np.stack([np.stack([a, b]), [c, d]])):
        store = (y * weights).sum().backward()
        assert [store[t].item() for t in scalars] == [1, 2, 3, 4]
    with pytest.raises(TypeError, match=r"np\.block"):
        np.stack([[a, b], [c, d]])  # NumPy asks no Tensor here


def test_10_polynomials_by_their_roots_values_and_points():
    roots, x = np.array([0.5, -1.2, 2.0]), np.array([0.3, 1.7])
    both(lambda r: np.polyval(np.poly(r), x), lambda r: np.prod(x[:, None] - r, axis=1), roots)
    u, v = rng.standard_normal(5), np.array([2.0, -1.0, 0.5])
    both(lambda u, v: np.polyval(np.polydiv(u, v)[0], x) * np.polyval(v, x) + np.polyval(np.polydiv(u, v)[1], x),
         lambda u, v: np.polyval(u, x) + 0 * v.sum(), u, v)  # fmt: skip
    t, y = np.linspace(-1, 1, 6), rng.standard_normal(6)
    normal = lambda v, y: np.linalg.solve(v.T @ v, v.T @ y)
    both(lambda t, y: np.polyfit(t, y, 2), lambda t, y: normal(np.vander(t, 3), y), t, y)


def test_10_positions_of_tracked_values_stay_positions():
    x = ad.Var([[1.0, 5.0], [2.0, 3.0]])
    where = np.unravel_index(np.argmax(x), x.shape)
    assert x[where].backward()[x].data.tolist() == [[0, 1], [0, 0]]
