"""Counts, sums and divisions where the dtype is too narrow for them."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.rules import helpers

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
MANY, ROWS = 70_000, 6_000  # more than float16 can name, and more than 1 can be added to in it


def half(*shape):
    return np.ones(shape, np.float16)


def gradients(f, arrays, dtype, detach="all"):
    tensors = [ad.Var(np.asarray(a, dtype)) for a in arrays]
    y = f(*tensors)
    grads = y.backward(np.ones(y.shape, y.dtype), wrt=tensors, detach=detach)
    return [grads[t].data for t in tensors]


@pytest.mark.parametrize("function", (np.max, np.min, np.amax, np.nanmax, np.nanmin, np.mean, np.nanmean, np.average))
@pytest.mark.parametrize("detach", ("all", "none"))
def test_03_counting_winners_in_float16_does_not_overflow(function, detach):
    (g,) = gradients(function, [half(MANY)], np.float16, detach)
    assert g.dtype == np.float16 and np.array_equal(g, np.full(MANY, 1 / MANY, np.float16))


LEVELS = (1000 + np.arange(ROWS) % 4 * 0.5).astype(np.float16)  # one unit in the last place apart
ZEROS = np.zeros(ROWS, int)
SUMS = {  # what adds up many, divides by a count or is a mean, on its way forward or back
    "var": (np.var, LEVELS),
    "var of columns": (lambda x: np.var(x, axis=0, ddof=1), np.stack([LEVELS, LEVELS[::-1]], 1)),
    "std": (lambda x: np.std(x[:48]), LEVELS - np.float16(998)),
    "nanvar": (np.nanvar, LEVELS),
    "nanstd": (np.nanstd, LEVELS),
    "mean of columns": (lambda x: np.mean(x, axis=0), half(ROWS, 2)),
    "max of columns": (lambda x: np.max(x, axis=0), half(ROWS, 2)),
    "weighted average": (lambda x, w: np.average(x, weights=w), LEVELS, half(ROWS)),
    "broadcast": (lambda x: np.broadcast_to(x, (ROWS, 2)), half(2)),
    "stretched": (lambda x, y: x + y, half(ROWS, 2), half(1, 2)),
    "cumsum": (lambda x: np.cumsum(x, axis=0), half(ROWS, 2)),
    "cumprod": (lambda x: np.cumprod(x, axis=0), half(ROWS, 2)),
    "index": (lambda x: x[ZEROS], half(3)),
    "two indices": (lambda x: x[ZEROS, ZEROS + 1], half(3, 3)),
    "repeat": (lambda x: np.repeat(x, ROWS), half(3)),
    "pad": (lambda x: np.pad(x, ROWS, mode="edge"), half(3)),
    "linspace": (lambda a, b: np.linspace(a, b, ROWS), half(), half() * 3),
    "einsum": (lambda a, b: np.einsum("i,ji->ji", a, b), half(2), half(ROWS, 2)),
    "softmax": (ad.softmax, half(MANY)),
    "log_softmax": (lambda x: ad.log_softmax(x)[:1], half(MANY)),
    "logsumexp": (ad.logsumexp, half(4096)),
    "gather": (lambda x: ad.gather(x, 0, ZEROS), half(3)),
    "index_select": (lambda x: ad.index_select(x, 0, ZEROS), half(3)),
    "scatter_add": (lambda x, s: ad.scatter_add(x, 0, ZEROS, s) ** 2, half(3), half(ROWS) / 64),
    "index_add": (lambda x, s: ad.index_add(x, 0, ZEROS, s) ** 2, half(3), half(ROWS) / 64),
    "avg_pool2d": (lambda x: ad.avg_pool2d(x, 33) ** 2, half(1, 1, 66, 66)),
    "avg_pool2d, one window": (lambda x: ad.avg_pool2d(x, 300), half(1, 1, 300, 300)),
    "max_pool2d": (lambda x: ad.max_pool2d(x, 60, stride=1), half(1, 1, 119, 119)),
    "upsample_nearest1d": (lambda x: ad.upsample_nearest1d(x, ROWS), half(1, 1, 2)),
    "upsample_bilinear2d": (lambda x: ad.upsample_bilinear2d(x, (100, 100)), half(1, 1, 2, 2)),
    "conv2d": (ad.conv2d, half(2, 1, 80, 80), half(1, 1, 2, 2), half(1)),
    "conv2d, large kernel": (ad.conv2d, half(1, 1, 119, 119), half(1, 1, 60, 60)),
}


@pytest.mark.parametrize("detach", ("all", "none"))
@pytest.mark.parametrize("name", SUMS)
def test_03_float16_gradients_are_float64_gradients_rounded(name, detach):
    f, *arrays = SUMS[name]
    exact = gradients(f, arrays, float)
    assert all(np.any(e) for e in exact) or name == "softmax"
    for got, e in zip(gradients(f, arrays, np.float16, detach), exact):
        assert got.dtype == np.float16
        np.testing.assert_allclose(got.astype(float), e, rtol=4e-3, atol=1e-3 * np.max(np.abs(e)) + 1e-7)


def test_03_sums_in_float32_do_not_stop_at_2_to_the_24():
    n = 2**24 + 2**20
    ones = np.broadcast_to(np.float32(1), (n, 2))
    assert np.array_equal(helpers.sum_to(ones, (2,)), [n, n])
    assert np.array_equal(helpers.sum_to(ones, (1, 2)), [[n, n]])
    x = ad.Var(np.ones(2, np.float32))
    assert np.array_equal(np.broadcast_to(x, (n, 2)).backward(ones)[x].data, [n, n])
    total = np.zeros(2, np.float32)
    helpers.add_at(total, ones[:, 0], np.broadcast_to(np.array(1), n))
    assert np.array_equal(total, [0, n])
    assert helpers.cumsum_slope(ones[:, 0], ones[:, 0], 0)[0] == n


def test_03_a_quantile_of_many_half_precision_entries_is_found():
    a = np.random.default_rng(0).permutation(np.linspace(0, 1, MANY)).astype(np.float16)
    for function, expected in ((np.quantile, np.quantile(a.astype(float), 0.3)), (np.nanmedian, 0.5)):
        x = ad.Var(a)
        y = function(x, 0.3) if function is np.quantile else function(x)
        assert y.dtype == np.float16 and y.item() == pytest.approx(expected, abs=1e-3)
        g = y.backward()[x].data
        assert g.sum() == pytest.approx(1, rel=1e-3) and 1 <= np.count_nonzero(g) <= 2
        assert a[g > 0] == pytest.approx(expected, abs=1e-3)
