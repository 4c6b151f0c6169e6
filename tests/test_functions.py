"""`autodiff.functions`: every function on its cases, and what their documentation promises beyond derivatives."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import test_rules as checks
from cases import spread
from cases_functions import CASES
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functions as functions
from autodiff.rules import RULES, nn

CHECKS = {
    "first": checks.test_first_derivative_matches_differences,
    "second": checks.test_second_derivative_matches_differences_of_the_first,
    "tensors": checks.test_gradients_are_the_same_as_tensors,
    "float32": checks.test_float32_gives_float32_gradients,
    "layout": checks.test_non_contiguous_inputs_make_no_difference,
    "stride 0": checks.test_stride_0_inputs_make_no_difference,
}
WITH_TORCH = [c for c in CASES if c.torch is not None]
names = lambda cases: [c.name for c in cases]


@pytest.fixture
def torch():
    """PyTorch on one thread: for small operands more of them only wait for each other."""
    module = pytest.importorskip("torch", reason="PyTorch is not installed")
    threads = module.get_num_threads()
    module.set_num_threads(1)
    yield module
    module.set_num_threads(threads)


# Every function on its cases


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("case", CASES, ids=names(CASES))
def test_case(case, check):
    check(case)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES, ids=names(CASES))
def test_arrays_in_arrays_out_of_the_same_values_and_dtype(case, dtype):
    checks.test_forward_is_numpys(case, dtype)
    result = checks.plain(case, checks.operands_of(case, dtype))
    assert isinstance(result, (np.ndarray, np.generic))
    assert result.dtype == dtype


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("case", WITH_TORCH, ids=names(WITH_TORCH))
def test_pytorch_agrees(case, torch):
    checks.test_pytorch_agrees_to_second_order(case)
    operands = [torch.tensor(x) if isinstance(x, np.ndarray) else x for x in case.operands]
    expected = case.torch(torch, *operands).numpy()
    np.testing.assert_allclose(case(*case.operands), expected, rtol=1e-12, atol=1e-14)


def test_gradcheck_passes_to_second_order():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 2, 5, 5)), rng.standard_normal((3, 2, 2, 2))
    net = lambda x, w: ad.log_softmax(ad.max_pool2d(ad.gelu(ad.conv2d(x, w, padding=1)), 2).reshape(2, -1), 1)
    assert ad.gradcheck(net, (x, w))
    assert ad.gradgradcheck(net, (x, w), fast_mode=True)


def test_every_name_is_exported_and_has_a_case():
    assert sorted(functions.__all__) == functions.__all__
    for name in functions.__all__:
        assert getattr(ad, name) is getattr(functions, name)
        assert name in ad.__all__
    assert {c.function.__name__ for c in CASES} == set(functions.__all__)


def test_ops_are_recorded_under_the_name_that_was_called():
    composed = {"index_select": "index", "narrow": "index"}
    for case in CASES:
        name = case.function.__name__
        y = case(*[ad.Var(x) if checks.is_operand(x) else x for x in case.operands])
        ops = {t.op.name for t in ad.sorted_nodes(y) if t.op}
        assert composed.get(name, name) in ops, case.name


ELEMENTWISE = [ad.relu, ad.elu, ad.gelu, ad.silu, ad.sigmoid, ad.softplus, ad.erf,
               lambda x: ad.gelu(x, approximate="tanh")]  # fmt: skip
elementwise = pytest.mark.parametrize("f", ELEMENTWISE, ids=[*(f.__name__ for f in ELEMENTWISE[:-1]), "gelu-tanh"])


@elementwise
def test_elementwise_shapes_and_dtypes(f):
    for x in (1.5, 2, True, [1.0, 2.0], np.float32(1.5), np.zeros((0, 3)), np.array(0.5), np.array([1, 2])):
        given = np.asarray(x)
        y = f(x)
        assert not isinstance(y, ad.Tensor)
        assert np.shape(y) == given.shape
        assert y.dtype.kind == "f" or f is ad.relu
        if given.dtype.kind == "f":
            assert y.dtype == given.dtype
            v = ad.Var(given)
            assert f(v).shape == given.shape
            assert f(v).backward()[v].dtype == given.dtype
    assert f(np.float16([0.5])).dtype == np.float16
    assert isinstance(f(ad.Tensor([1.0])), ad.Tensor)
    stacked = f([ad.Var(1.0), ad.Var(2.0)])
    assert stacked.tracked
    with pytest.raises(TypeError, match="must hold real numbers, got dtype complex128"):
        f(1j)


@elementwise
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nothing_overflows_and_no_warning_is_given(f, dtype):
    big = float(np.finfo(dtype).max)
    x = ad.Var(np.array([-big, -1000.0, -88.0, -1e-30, 0.0, 1e-30, 88.0, 1000.0, big], dtype))
    with np.errstate(all="raise", under="ignore"):
        y = f(x)
        g = y.backward(detach="none")[x]
        second = g.backward(wrt=[x])[x] if g.tracked else g
    assert np.isfinite(y.data).all()
    assert np.isfinite(g.data).all()
    assert np.isfinite(second.data).all()
    flat, steep = (0, 0) if f in (ad.sigmoid, ad.erf) else (0, 1)
    assert g.data[0] == pytest.approx(flat, abs=1e-30)
    assert g.data[-1] == pytest.approx(steep, abs=1e-30)


@elementwise
def test_strong_zero_protects_an_entry_that_nobody_asks_for(f):
    x = ad.Var([np.nan, 1.0])
    loss = np.where([False, True], f(x), 0)
    assert np.isfinite(loss.sum().backward(strong_zero=True)[x].data).all()


# Values


def relative_error(got, exact):
    return max(float(abs((mpmath.mpf(float(g)) - e) / e)) if e else abs(float(g)) for g, e in zip(got, exact))


def test_erf_is_accurate_to_the_last_places():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-7, 7, 600), rng.uniform(0.9, 1.1, 200), 10.0 ** rng.uniform(-300, 0, 100),
                        [0.0, 1.0, -1.0, np.nextafter(1, 0), np.nextafter(1, 2), 5.9, 6.0, 28.0]])  # fmt: skip
    with mpmath.workdps(40):
        assert relative_error(ad.erf(x), [mpmath.erf(mpmath.mpf(v)) for v in x.tolist()]) < 5e-16
    assert np.max(np.abs(ad.erf(x) - [math.erf(v) for v in x])) < 4e-16
    with np.errstate(all="raise"):
        assert np.array_equal(ad.erf([np.inf, -np.inf, np.nan, -0.0]), [1, -1, np.nan, 0], equal_nan=True)
    assert np.signbit(ad.erf(-0.0))


def test_float32_results_are_good_to_the_last_place():
    x = np.linspace(-14, 14, 40_001, dtype=np.float32)
    np.testing.assert_allclose(ad.erf(x), ad.erf(x.astype(float)), rtol=6e-8)
    np.testing.assert_allclose(ad.gelu(x), ad.gelu(x.astype(float)), rtol=2e-7, atol=1e-43)


def test_small_values_keep_their_digits():
    x = np.random.default_rng(1).uniform(-37, 10, 400)
    with mpmath.workdps(40):
        exact = [mpmath.mpf(v) for v in x.tolist()]
        assert relative_error(ad.gelu(x), [v * mpmath.ncdf(v) for v in exact]) < 2e-15
        assert relative_error(ad.sigmoid(x), [1 / (1 + mpmath.exp(-v)) for v in exact]) < 1e-15
        assert relative_error(ad.softplus(x), [mpmath.log1p(mpmath.exp(v)) for v in exact]) < 1e-15
        v = ad.Var(x)
        slope = [mpmath.exp(-abs(v)) / (1 + mpmath.exp(-abs(v))) ** 2 for v in exact]
        assert relative_error(ad.sigmoid(v).backward()[v].data, slope) < 1e-15
        slope = [mpmath.ncdf(v) + v * mpmath.npdf(v) for v in exact]
        got = ad.gelu(v).backward()[v].data
        assert max(abs(g - s) / (abs(v) * mpmath.npdf(v)) for g, s, v in zip(got, slope, exact) if v < -1) < 2e-13


def test_logarithms_of_sums_keep_the_digits_of_small_terms():
    assert ad.log_softmax([0.0, -40.0])[0] == pytest.approx(-math.exp(-40), rel=1e-14)
    assert ad.logsumexp([0.0, -40.0]) == pytest.approx(math.exp(-40), rel=1e-14)
    assert ad.logsumexp([0.0, 0.0, -40.0]) == pytest.approx(math.log(2), rel=1e-15)
    rows = np.random.default_rng(2).normal(0, 30, (50, 6))
    with mpmath.workdps(60):
        exact = [mpmath.log(sum(mpmath.exp(mpmath.mpf(v)) for v in row)) for row in rows.tolist()]
    np.testing.assert_allclose(ad.logsumexp(rows, axis=1), np.array(exact, float), rtol=1e-14)


def test_logsumexp_of_infinite_and_of_no_entries():
    x = ad.Var([[-np.inf, -np.inf], [-np.inf, 2.0], [np.inf, 0.0]])
    with np.errstate(all="raise"):
        y = ad.logsumexp(x, axis=1)
        assert np.array_equal(y.data, [-np.inf, 2, np.inf])
        finite = ad.Var(x.data[:2])
        grad = ad.logsumexp(finite, axis=1).backward()[finite].data
        assert ad.logsumexp(np.zeros((2, 0)), axis=1).tolist() == [-np.inf, -np.inf]
    assert np.array_equal(grad, [[0, 0], [0, 1]])
    assert ad.softmax([[1e300, -1e300]]).tolist() == [[1, 0]]


@pytest.mark.parametrize("f", [ad.softmax, ad.log_softmax, lambda x: ad.logsumexp(x, axis=1)],
                         ids=["softmax", "log_softmax", "logsumexp"])  # fmt: skip
def test_entries_masked_by_minus_infinity_take_no_part(f):
    def derivatives(data):
        x = ad.Var(data)
        y = f(x)
        kept = np.where(np.isfinite(y.data), y, 0)
        grad = (kept * kept).sum().backward(detach="none")[x]
        return y.data, grad.data, (grad * grad).sum().backward(wrt=[x])[x].data

    masked, alone = derivatives([[0.5, -np.inf, 1.0]]), derivatives([[0.5, 1.0]])
    for got, expected in zip(masked, alone):
        np.testing.assert_allclose(np.delete(got, 1, axis=1) if got.ndim == 2 else got, expected, rtol=1e-14)
    assert masked[1][0, 1] == masked[2][0, 1] == 0


# Kinks and ties


def test_kinks():
    x = ad.Var([0.0])
    assert ad.relu(x).backward()[x].item() == 0
    assert ad.elu(x, alpha=0.5).backward()[x].item() == 0.5
    assert ad.silu(x).backward()[x].item() == 0.5
    assert ad.softplus(x).backward()[x].item() == 0.5
    x = ad.Var([np.nan, 1.0])
    assert np.isnan(ad.relu(x).data[0])
    assert ad.relu(x).backward()[x].data.tolist() == [1, 1]


def shares(x, **geometry):
    x = ad.Var(x)
    return ad.max_pool2d(x, **geometry).backward()[x].data


def test_max_pool_shares_of_a_window_sum_to_1():
    x = np.zeros((1, 1, 4, 4))
    assert np.array_equal(shares(x, kernel_size=2), np.full((1, 1, 4, 4), 0.25))
    x[0, 0, 0, :2] = 1
    assert np.array_equal(shares(x, kernel_size=2)[0, 0, :2, :2], [[0.5, 0.5], [0, 0]])
    rng = np.random.default_rng(3)
    x = rng.integers(0, 3, (2, 3, 7, 6)).astype(float)
    for geometry in (dict(kernel_size=3, stride=1), dict(kernel_size=2, stride=3), dict(kernel_size=3, padding=1)):
        y = ad.max_pool2d(x, **geometry)
        grad = shares(x, **geometry)
        assert grad.sum() == pytest.approx(y.size, rel=1e-14)
        assert (grad >= 0).all()
    assert np.array_equal(shares(np.full((1, 1, 2, 2), -np.inf), kernel_size=2, stride=2, padding=1),
                          np.ones((1, 1, 2, 2)))  # fmt: skip  padding has no share
    assert np.array_equal(shares([[[[np.nan, 1.0], [np.nan, 5.0]]]], kernel_size=2), [[[[0.5, 0], [0.5, 0]]]])


def test_max_pool_remembers_its_winners():
    x = ad.Var([[[[1.0, 3.0], [3.0, 2.0]]]])
    y = ad.max_pool2d(x, 2)
    assert np.array_equal(y.op.params["saved"].reshape(-1), [0, 0.5, 0.5, 0])
    cotangent = ad.Var([[[[2.0]]]])
    grad = y.backward(cotangent, detach="none")[x]
    assert np.array_equal(grad.backward(wrt=[cotangent])[cotangent].data, [[[[1.0]]]])


def test_leftover_entries_belong_to_no_window():
    for f in (ad.avg_pool2d, ad.max_pool2d):
        x = ad.Var(spread(1, 1, 5, 5))
        grad = f(x, 2).backward()[x].data
        assert not grad[..., 4, :].any()
        assert not grad[..., 4].any()


# Convolutions: linear in each operand, and adjoint to each other


GRID = [
    dict(stride=s, padding=p, dilation=d, groups=g)
    for s, p, d, g in itertools.product((1, 2, (2, 3)), (0, (1, 2)), (1, 2, (1, 3)), (1, 2, 4))
]


def numbers_of(geometry):
    return "-".join(str(v).replace(" ", "") for v in geometry.values())


@pytest.mark.torch
@pytest.mark.parametrize("geometry", GRID, ids=map(numbers_of, GRID))
def test_convolutions_agree_with_pytorch(geometry, torch):
    F = torch.nn.functional
    rng = np.random.default_rng(4)
    groups, strides, dilations = geometry["groups"], geometry["stride"], geometry["dilation"]
    limit = np.maximum(np.broadcast_to(strides, 2), np.broadcast_to(dilations, 2)) - 1
    calls = [("conv2d", (8, 4 // groups, 3, 2), {})]
    calls += [("conv_transpose2d", (4, 8 // groups, 3, 2), {"output_padding": e})
              for e in sorted({(0, 0), tuple(limit.tolist())})]  # fmt: skip
    for name, shape, extra in calls:
        arrays = rng.standard_normal((2, 4, 6, 7)), rng.standard_normal(shape), rng.standard_normal(8)
        ours, leaves = [ad.Var(a) for a in arrays], [torch.tensor(a, requires_grad=True) for a in arrays]
        y, t = getattr(ad, name)(*ours, **geometry, **extra), getattr(F, name)(*leaves, **geometry, **extra)
        np.testing.assert_allclose(y.data, t.detach().numpy(), rtol=1e-11, atol=1e-11)
        c = rng.standard_normal(y.shape)
        store = y.backward(c, detach="none")
        first = [store[v] for v in ours]
        expected = torch.autograd.grad(t, leaves, torch.tensor(c), create_graph=True)
        for g, e in zip(first, expected):
            np.testing.assert_allclose(g.data, e.detach().numpy(), rtol=1e-11, atol=1e-11)
        second = sum((g * g).sum() for g in first[:2]).backward(wrt=ours[:2])
        expected = torch.autograd.grad(sum((g * g).sum() for g in expected[:2]), leaves[:2])
        for v, e in zip(ours, expected):
            np.testing.assert_allclose(second[v].data, e.numpy(), rtol=1e-10, atol=1e-9)


def direct_conv(x, w, stride, padding, dilation, groups):
    """The sum that defines a convolution, one term at a time, over any number of spatial axes."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    size = [(m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation)]
    y, out, into = np.zeros((x.shape[0], w.shape[0], *size)), w.shape[0] // groups, w.shape[1]
    for o, c in itertools.product(range(w.shape[0]), range(into)):
        for at, k in itertools.product(np.ndindex(*size), np.ndindex(*w.shape[2:])):
            where = tuple(s * i + d * j for s, i, d, j in zip(stride, at, dilation, k))
            y[(slice(None), o, *at)] += x[(slice(None), o // out * into + c, *where)] * w[(o, c, *k)]
    assert y.ndim == n + 2
    return y


@st.composite
def convolutions(draw):
    """Operands of a convolution and its arguments, in one or two dimensions."""
    n = draw(st.integers(1, 2))
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(n))
    stride, dilation, padding, kernel = each(1, 3), each(1, 3), each(0, 3), each(1, 3)
    groups, into, out, batch = (draw(st.integers(1, 2)) for _ in range(4))
    lengths = tuple(
        max(1, d * (k - 1) + 1 - 2 * p) + draw(st.integers(0, 3)) for d, k, p in zip(dilation, kernel, padding)
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.standard_normal((draw(st.integers(0, batch)), groups * into, *lengths))
    w = rng.standard_normal((groups * out, into, *kernel))
    return n, x, w, dict(stride=stride, padding=padding, dilation=dilation, groups=groups), rng


def inner(a, b):
    return float(np.sum(np.asarray(a) * np.asarray(b)))


@settings(max_examples=80, deadline=None)
@given(convolutions())
def test_convolution_is_its_defining_sum_and_its_maps_are_adjoint(example):
    n, x, w, arguments, rng = example
    conv, transpose = ((ad.conv1d, ad.conv_transpose1d), (ad.conv2d, ad.conv_transpose2d))[n - 1]
    y = conv(x, w, **arguments)
    np.testing.assert_allclose(y, direct_conv(x, w, **arguments), rtol=1e-12, atol=1e-12)
    g = rng.standard_normal(y.shape)
    store = conv(vx := ad.Var(x), vw := ad.Var(w), **arguments).backward(g)
    assert inner(y, g) == pytest.approx(inner(x, store[vx].data), rel=1e-10, abs=1e-10)
    assert inner(y, g) == pytest.approx(inner(w, store[vw].data), rel=1e-10, abs=1e-10)
    left = [m - ((k - 1) * s - 2 * p + d * (j - 1) + 1) for m, k, s, p, d, j in
            zip(x.shape[2:], y.shape[2:], arguments["stride"], arguments["padding"], arguments["dilation"],
                w.shape[2:])]  # fmt: skip
    if y.size and min(left) >= 0:
        np.testing.assert_allclose(transpose(g, w, output_padding=left, **arguments), store[vx].data, atol=1e-12)


@st.composite
def linear_maps(draw):
    """A linear function of one image or array, and an operand for it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, c, h, w = (draw(st.integers(low, 4)) for low in (0, 1, 1, 1))
    size, kernel, stride = ((draw(st.integers(1, 6)), draw(st.integers(1, 6))) for _ in range(3))
    kernel = (min(kernel[0], h), min(kernel[1], w))
    index = rng.integers(-h, h, (n, c, draw(st.integers(0, 5)), w))
    rows = rng.integers(-h, h, draw(st.integers(0, 5)))
    start = draw(st.integers(0, h))
    return rng.standard_normal((n, c, h, w)), draw(st.sampled_from([
        lambda x: ad.avg_pool2d(x, kernel, stride),
        lambda x: ad.upsample_nearest2d(x, size),
        lambda x: ad.upsample_nearest1d(x.reshape(n, c, h * w), size[0] * size[1]),
        lambda x: ad.upsample_bilinear2d(x, size),
        lambda x: ad.upsample_bilinear2d(x, size, align_corners=True),
        lambda x: ad.gather(x, 2, index),
        lambda x: ad.index_select(x, -2, rows),
        lambda x: ad.narrow(x, 2, start, h - start),
        lambda x: ad.scatter_add(np.zeros((n, c, h, w)), 2, index[:, :, :h], x),
        lambda x: ad.scatter(np.zeros((n, c, h, w)), 2, index[:, :, :h], x),
        lambda x: ad.scatter(x, 2, index, np.zeros(index.shape)),
        lambda x: ad.index_add(np.zeros((n, c, 5, w)), 2, np.arange(h) * 7 % 5, x),
        lambda x: ad.slice_scatter(np.zeros((n, c, 3 * h, w)), x, 2, 1, None, 3),
        lambda x: ad.slice_scatter(x, np.zeros((n, c, h - start, w)), 2, start),
    ])), rng  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(linear_maps())
def test_linear_maps_and_their_gradients_are_adjoint(example):
    x, f, rng = example
    y = f(x)
    g = ad.Var(rng.standard_normal(y.shape))
    v = ad.Var(x)
    grad = f(v).backward(g, detach="none")[v]
    assert inner(y, g.data) == pytest.approx(inner(x, grad.data), rel=1e-11, abs=1e-11)
    again = (grad * x).sum().backward(wrt=[g])  # the gradient is linear in its cotangent, and its adjoint is f
    np.testing.assert_allclose(again[g].data if g in again else 0 * y, y, rtol=1e-11, atol=1e-11)


def test_large_convolutions_in_blocks_are_the_same(monkeypatch):
    rng = np.random.default_rng(5)
    x, w = ad.Var(rng.standard_normal((2, 4, 9, 8))), ad.Var(rng.standard_normal((6, 2, 3, 2)))

    def results():
        y = ad.conv2d(x, w, stride=2, padding=1, groups=2)
        store = y.backward(np.cos(y.data))
        return y.data, store[x].data, store[w].data

    whole = results()
    monkeypatch.setattr(nn, "BLOCK", 1)
    for part, expected in zip(results(), whole):
        np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-12)


def test_empty_batches_and_empty_indices():
    x = ad.Var(np.zeros((0, 2, 4, 4)))
    w = ad.Var(spread(3, 2, 3, 3))
    y = ad.conv2d(x, w, padding=1)
    assert y.shape == (0, 3, 4, 4)
    grads = y.backward(detach="none")
    assert grads[x].shape == x.shape
    assert not grads[w].data.any()
    assert ad.conv_transpose2d(x, np.zeros((2, 5, 2, 2)), stride=2).shape == (0, 5, 8, 8)
    for f in (lambda x: ad.max_pool2d(x, 2), lambda x: ad.avg_pool2d(x, 2), lambda x: ad.upsample_nearest2d(x, 3),
              lambda x: ad.upsample_bilinear2d(x, 3)):  # fmt: skip
        assert f(x).backward()[x].shape == x.shape
    v = ad.Var(spread(3, 2))
    assert ad.gather(v[:, 0], 0, []).shape == (0,)
    assert ad.index_select(v, 0, []).shape == (0, 2)
    assert np.array_equal(ad.index_add(v, 0, [], np.zeros((0, 2))).data, v.data)
    assert np.array_equal(ad.scatter(v, 0, np.zeros((0, 2), int), np.zeros((0, 2))).data, v.data)


# Dtypes, and arguments of every kind


def test_mixed_dtypes_are_promoted_and_gradients_keep_their_own():
    x, w, b = ad.Var(np.ones((1, 1, 3), "f4")), ad.Var(np.ones((1, 1, 2))), ad.Var(np.ones(1, "f2"))
    y = ad.conv1d(x, w, b)
    assert y.dtype == np.float64
    grads = y.backward()
    assert [grads[t].dtype for t in (x, w, b)] == ["float32", "float64", "float16"]
    x, src = ad.Var(np.ones(3, "f4")), ad.Var(np.ones(2))
    for f in (lambda: ad.scatter(x, 0, [0, 2], src), lambda: ad.scatter_add(x, 0, [0, 2], src),
              lambda: ad.index_add(x, 0, [0, 2], src), lambda: ad.slice_scatter(x, src, start=1)):  # fmt: skip
        y = f()
        assert y.dtype == np.float64
        assert [y.backward()[t].dtype for t in (x, src)] == ["float32", "float64"]
    for y in (ad.scatter(x, 0, [0], 2.5), ad.scatter_add(x, 0, [0], 2), ad.slice_scatter(x, 0.0, start=1)):
        assert y.dtype == np.float32


def test_integers_are_computed_on_and_not_differentiated():
    x = np.arange(16).reshape(1, 1, 4, 4)
    assert ad.conv2d(x, np.ones((1, 1, 2, 2), int)).dtype == x.dtype
    assert ad.max_pool2d(x, 2).tolist() == [[[[5, 7], [13, 15]]]]
    assert ad.max_pool2d(-x - 1, 3, padding=1).max() == -1
    assert ad.avg_pool2d(x, 2).tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    assert ad.upsample_bilinear2d(x, 2).dtype == np.float64
    assert ad.gather(x, 3, np.zeros((1, 1, 1, 1), int)).dtype == x.dtype
    w = ad.Var(np.ones((1, 1, 2, 2)))
    assert ad.conv2d(x, w).backward()[w].data.tolist() == [[[[45, 54], [81, 90]]]]


def test_a_tensor_may_be_any_operand():
    x, src = spread(4), spread(2, seed=1)
    for f in (lambda x, s: ad.scatter(x, 0, [0, 2], s), lambda x, s: ad.index_add(x, 0, [0, 2], s),
              lambda x, s: ad.slice_scatter(x, s, end=2)):  # fmt: skip
        expected = f(x, src)
        for operands in ((ad.Var(x), src), (x, ad.Var(src)), (ad.Tensor(x), ad.Var(src)), (list(x), ad.Var(src))):
            y = f(*operands)
            assert y.tracked
            assert np.array_equal(y.data, expected)
            y.backward()
    b = ad.Var([1.0])
    y = ad.conv1d(np.ones((1, 1, 3)), np.ones((1, 1, 2)), b)
    assert y.backward()[b].data.tolist() == [2]


def test_index_arguments():
    x = ad.Var(spread(3, 4))
    index = np.array([[0, 1], [2, 0]])
    expected = ad.gather(x, 1, index)
    for other in (index.tolist(), ad.Tensor(index), index.astype(np.uint8), index - 4):
        assert np.array_equal(ad.gather(x, 1, other).data, expected.data)
    before = expected.backward()[x].data.copy()
    index[:] = 3
    assert np.array_equal(expected.backward()[x].data, before), "a later write to the index must change nothing"
    largest = np.argmax(x, axis=1)
    picked = ad.gather(x, 1, np.expand_dims(largest, 1))
    assert np.array_equal(picked.data[:, 0], np.max(x.data, axis=1))


def test_the_last_of_several_writes_stays_and_gets_the_gradient():
    x, src = ad.Var([1.0, 2.0, 3.0]), ad.Var([10.0, 20.0, 30.0, 40.0])
    y = ad.scatter(x, 0, [1, 1, 0, 1], src)
    assert y.data.tolist() == [30, 40, 3]
    grads = y.backward([1.0, 2.0, 4.0])
    assert grads[x].data.tolist() == [0, 0, 4]
    assert grads[src].data.tolist() == [0, 0, 1, 2]
    rng = np.random.default_rng(6)
    x, src, index = rng.standard_normal((40, 50)), rng.standard_normal((60, 50)), rng.integers(0, 40, (60, 50))
    expected = x.copy()
    for i, j in np.ndindex(*index.shape):
        expected[index[i, j], j] = src[i, j]
    assert np.array_equal(ad.scatter(x, 0, index, src), expected)
    values = ad.Var(np.ones(4))
    assert ad.index_add(np.zeros(3), 0, [1, 1, 2, 1], values).data.tolist() == [0, 3, 1]


def test_gather_used_many_times_adds_in_place():
    x = ad.Var(np.zeros(50_000))
    loss = sum(ad.gather(x, 0, [i]).sum() for i in range(300))
    assert np.array_equal(np.flatnonzero(loss.backward()[x].data), np.arange(300))
    assert RULES[nn.gather].into is not None


def test_inputs_are_never_written_to_nor_shared():
    for case in CASES:
        operands = [x.copy() if isinstance(x, np.ndarray) else x for x in case.operands]
        y = case(*operands)
        for x, original in zip(operands, case.operands):
            if isinstance(x, np.ndarray):
                assert np.array_equal(x, original), case.name
                if case.function is not ad.narrow:  # a slice is a view, in NumPy too
                    assert not np.shares_memory(x, y), case.name


# Errors: what was got, what was expected


X3, X4 = np.ones((2, 3, 8)), np.ones((2, 3, 8, 8))
ERRORS = {
    "channels": (lambda: ad.conv2d(X4, np.ones((5, 4, 3, 3))), ValueError,
        r"conv2d: x has 3 channels \(axis 1 of shape \(2, 3, 8, 8\)\) but w expects 4 "
        r"\(axis 1 of shape \(5, 4, 3, 3\)\) with groups=1"),
    "channels without batch": (lambda: ad.conv2d(X4[0], np.ones((5, 4, 3, 3))), ValueError,
        r"3 channels \(axis 0 of shape \(3, 8, 8\)\)"),
    "channels of transpose": (lambda: ad.conv_transpose1d(X3, np.ones((4, 2, 3))), ValueError,
        r"conv_transpose1d: x has 3 channels .* w expects 4 \(axis 0 of shape \(4, 2, 3\)\)"),
    "groups": (lambda: ad.conv1d(X3, np.ones((4, 1, 3)), groups=3), ValueError, "multiple of groups=3"),
    "axes of x": (lambda: ad.conv2d(np.ones((8, 8)), np.ones((1, 1, 3, 3))), ValueError,
        r"x must have 4 axes .* got shape \(8, 8\)"),
    "axes of w": (lambda: ad.conv2d(X4, np.ones((3, 3))), ValueError, r"w must have 4 axes, got shape \(3, 3\)"),
    "bias": (lambda: ad.conv1d(X3, np.ones((4, 3, 3)), np.ones(3)), ValueError,
        r"b must have one entry for each of the 4 channels .* got shape \(3,\)"),
    "kernel too large": (lambda: ad.conv1d(X3, np.ones((4, 3, 5)), dilation=2), ValueError,
        r"a window spans \(9,\) entries .* x is \(8,\), \(8,\) with padding"),
    "stride 0": (lambda: ad.conv1d(X3, np.ones((4, 3, 3)), stride=0), ValueError, "stride must be at least 1, got 0"),
    "stride of 3": (lambda: ad.conv2d(X4, np.ones((4, 3, 3, 3)), stride=(1, 2, 3)), TypeError,
        r"stride must be an integer or 2 of them, got \(1, 2, 3\)"),
    "padding text": (lambda: ad.conv1d(X3, np.ones((4, 3, 3)), padding="full"), ValueError, "expected 'same', 'valid'"),
    "same, strided": (lambda: ad.conv1d(X3, np.ones((4, 3, 3)), padding="same", stride=2), ValueError, "stride 1"),
    "output_padding": (lambda: ad.conv_transpose1d(X3, np.ones((3, 4, 3)), stride=2, output_padding=2), ValueError,
        r"output_padding=\(2,\) must be less than stride=\(2,\) or dilation=\(1,\)"),
    "nothing left": (lambda: ad.conv_transpose1d(X3[..., :1], np.ones((3, 4, 3)), padding=2), ValueError,
        r"padding=\(2,\) leaves a result of spatial size \(-1,\)"),
    "complex": (lambda: ad.conv1d(1j * X3, np.ones((4, 3, 3))), TypeError, "conv1d: x must hold real numbers"),
    "pool too large": (lambda: ad.max_pool2d(X4, 9), ValueError, r"kernel_size \(9, 9\)"),
    "pool padding": (lambda: ad.avg_pool2d(X4, 2, padding=2), ValueError, "must be at most half the window"),
    "float kernel": (lambda: ad.avg_pool2d(X4, 2.0), TypeError, "kernel_size must be an integer or 2 of them, got 2.0"),
    "upsample axes": (lambda: ad.upsample_nearest1d(X4, 3), ValueError, r"must have 3 axes.* got shape \(2, 3, 8, 8\)"),
    "upsample to 0": (lambda: ad.upsample_bilinear2d(X4, (0, 3)), ValueError, "size must be at least 1, got 0"),
    "axis": (lambda: ad.gather(X3, 3, np.zeros((2, 3, 8), int)), np.exceptions.AxisError,
        r"gather: axis 3 is out of range for x of shape \(2, 3, 8\): expected -3 to 2"),
    "softmax axis": (lambda: ad.softmax(X3, 3), np.exceptions.AxisError, "softmax: axis 3 is out of range"),
    "axis twice": (lambda: ad.logsumexp(X3, (0, -3)), ValueError, "more than once"),
    "0-d": (lambda: ad.gather(1.0, 0, 0), np.exceptions.AxisError, "at least one axis"),
    "index range": (lambda: ad.gather([1.0, 2.0], 0, [0, 2]), IndexError,
        r"index holds 2 at \(1,\), out of range for axis 0 of x, of shape \(2,\): expected -2 to 1"),
    "index of floats": (lambda: ad.index_select(X3, 0, [0.5]), TypeError, "must hold integers, got dtype float64"),
    "index of flags": (lambda: ad.index_select(X3, 0, [True, False]), TypeError, "np.flatnonzero"),
    "index axes": (lambda: ad.gather(X3, 0, [0]), ValueError, r"as many axes as x.* got shape \(1,\)"),
    "index too long": (lambda: ad.gather(X3, 0, np.zeros((1, 4, 8), int)), ValueError, "must not be longer than x"),
    "index of 2 axes": (lambda: ad.index_select(X3, 0, [[0]]), ValueError, "index must have one axis"),
    "src too short": (lambda: ad.scatter([1.0, 2.0], 0, [0, 1], [5.0]), ValueError, r"src must be at least as long"),
    "src is not broadcast": (lambda: ad.index_add(np.zeros((4, 4)), 0, [1], [6.0, 7.0, 8.0, 9.0]), ValueError,
        r"src must have shape \(1, 4\).* got \(4,\)"),
    "slice": (lambda: ad.slice_scatter(X3, X3, axis=2, start=1), ValueError, r"src must have shape \(2, 3, 7\)"),
    "step": (lambda: ad.slice_scatter([1.0], [1.0], step=-1), ValueError, "step must be at least 1, got -1"),
    "narrow": (lambda: ad.narrow([1.0, 2.0], 0, 1, 2), IndexError,
        "start=1 and length=2 reach beyond axis 0, of length 2"),
    "gelu": (lambda: ad.gelu(1.0, approximate="erf"), ValueError, "approximate='erf': expected 'none' or 'tanh'"),
    "beta": (lambda: ad.softplus(1.0, beta=0), ValueError, "beta=0"),
    "text": (lambda: ad.relu("a"), TypeError, "relu: x must hold real numbers"),
}  # fmt: skip


@pytest.mark.parametrize("call, error, message", ERRORS.values(), ids=ERRORS)
def test_errors_say_what_was_got_and_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call()
