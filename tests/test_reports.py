"""Bug reports about automatic differentiation, filed against many engines, each tested here as its whole kind.

A test carries the ids of the reports it answers, and its name says what holds; the number that a report gives as right
is among what is asserted. The rest is compared with central differences of plain NumPy, with differences that are exact
because the function is linear in each entry, with the inequality that defines a subgradient, or with PyTorch.
"""
# ruff: noqa: B023  a function made in a loop is called in the same round of it

import gc
import itertools
import json
import math
import pathlib
import re
import subprocess
import sys
import threading
import tracemalloc
import weakref
from contextlib import contextmanager

import deep_chains
import mpmath
import numpy as np
import pytest

import autodiff as ad
from autodiff.scalar import Value

IDS = """
    B001 B003 B005 B007 B008 B010 B013 B015 B017 B019 B021 B023 B025 B027 B029 B030 B032 B034 B036 B038 B040 B042 B044
    B046 B048 B049 B051 B053 B055 B057 B058 B059 B061 B062 B064 B066 B068 B070 B072 B073 B075 B078 B080 B081 B083 B085
    B087 B088 B090 B093 B095 B097 B098 B100 B102 B104 B106 B108 B110 B112 B114 B116 B118 B120 B122 B124 B125 B127 B128
    B129 B130 B131
""".split()


def test_every_report_has_a_test():
    found = set()
    for name, test in globals().items():
        if name.startswith("test_"):
            marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
            found.update(re.findall(r"B\d{3}", f"{name} {[m.args[1] for m in marks if m.args[0] == 'report']}"))
    assert len(IDS) == len(set(IDS)) == 72
    assert found == set(IDS)


# Independent answers


def gradients(f, *values, cotangent=None, **options):
    """The engine's gradients of ``f(*values)``, one array for each value, in its shape and dtype."""
    xs = [ad.Var(v) for v in values]
    with np.errstate(all="ignore"):
        store = f(*xs).backward(cotangent, **options)
    results = [store[x].data for x in xs]
    assert [(g.shape, g.dtype) for g in results] == [(x.shape, x.dtype) for x in xs]
    return results if len(results) > 1 else results[0]


def weighed(f, values, cotangent):
    return float(np.sum(np.asarray(f(*values)) * cotangent))


def differences(f, values, cotangent, step=1e-3):
    """Central differences on plain arrays at two steps, extrapolated: good to about ten digits where f is smooth."""
    results = []
    for k, v in enumerate(values):
        slope = np.zeros(v.shape)
        for i in np.ndindex(v.shape):

            def at(t, k=k, i=i):
                moved = [np.array(v) for v in values]
                moved[k][i] += t
                return weighed(f, moved, cotangent)

            near, far = ((at(h) - at(-h)) / (2 * h) for h in (step, 2 * step))
            slope[i] = (4 * near - far) / 3
        results.append(slope)
    return results


def exact_differences(f, values, cotangent):
    """f with an entry set to 1 less f with it set to 0: the exact slope where f is linear in each single entry."""
    results = []
    for k, v in enumerate(values):
        slope = np.zeros(v.shape)
        for i in np.ndindex(v.shape):
            ends = []
            for end in (1.0, 0.0):
                moved = [np.array(v) for v in values]
                moved[k][i] = end
                ends.append(weighed(f, moved, cotangent))
            slope[i] = ends[0] - ends[1]
        results.append(slope)
    return results


def assert_slopes(f, *values, seed=0, linear=False, call=None, rtol=1e-7, atol=1e-8):
    """The gradients of `f` (or of `call`, the engine's name for it) are f's slopes, for a random cotangent."""
    values = [np.asarray(v, float) for v in values]
    cotangent = np.random.default_rng(seed).uniform(0.5, 2.0, np.shape(f(*values)))
    expected = (exact_differences if linear else differences)(f, values, cotangent)
    xs = [ad.Var(v) for v in values]
    y = (call or f)(*xs)
    np.testing.assert_allclose(y.data, f(*values), rtol=1e-12, atol=1e-12)
    grads = y.backward(cotangent)
    for x, slope in zip(xs, expected):
        assert grads[x].shape == slope.shape
        np.testing.assert_allclose(grads[x].data, slope, rtol=rtol, atol=atol)


def assert_subgradient(f, x, g, tries=200):
    """What defines a subgradient of a convex f: no tangent plane lies above f, anywhere."""
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 10.0):
        for z in x + rng.normal(scale=scale, size=(tries, *x.shape)):
            assert f(z) >= f(x) + np.sum(g * (z - x)) - 1e-12 * scale


def in_torch(f, *values, cotangent):
    """PyTorch's gradients of ``f(torch, *values)``."""
    import torch

    xs = [torch.tensor(np.asarray(v), requires_grad=True) for v in values]
    grads = torch.autograd.grad(f(torch, *xs), xs, torch.as_tensor(cotangent))
    return [g.numpy() for g in grads]


def right_or_not_finite(g, low, high=None):
    """Entry by entry: between the bounds, or visibly NaN or infinite."""
    low, high = np.asarray(low), np.asarray(low if high is None else high)
    inside = (g >= low - 1e-12 * (1 + abs(low))) & (g <= high + 1e-12 * (1 + abs(high)))
    return bool(np.all(inside | ~np.isfinite(g)))


@contextmanager
def no_collector():
    """Within this context only reference counts free anything; what is older is left out of collections."""
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


# Accumulation: a node is worked through once, and each of its uses counts


def test_B001_a_node_used_twice_is_worked_through_once_with_the_whole_of_its_cotangent():
    cotangents = []

    @ad.custom_op(vjps=[lambda g, y, x: cotangents.append(float(g)) or 3 * g])
    def tripled(x):
        return 3 * x

    x = ad.Var(2.0)
    y = tripled(x)
    assert (y + y * y).backward()[x].item() == 39
    assert cotangents == [13]
    v = Value(2.0)
    y = 3 * v
    (y + y * y).backward()
    assert (v.grad, y.grad) == (39, 13)


def test_B001_sixty_levels_of_shared_nodes_give_the_product_of_their_slopes():
    x, v = ad.Var(1.0), Value(1.0)
    y, s, value, slope = x, v, 1.0, 1.0
    for _ in range(60):
        y, s = y + y * y * 0.01, s + s * s * 0.01
        slope *= 1 + 0.02 * value
        value += 0.01 * value * value
    s.backward()
    assert y.backward()[x].item() == pytest.approx(slope, rel=1e-13)
    assert v.grad == pytest.approx(slope, rel=1e-13)
    assert len(ad.sorted_nodes(y)) == 3 * 60 + 1


def test_B003_a_diamond_sums_over_all_its_paths():
    for number in (lambda v: ad.Var(v), Value):
        for at, of in ((1.0, 1.0), (-1.5, 0.25)):
            x, a = number(at), number(of)
            xa, x2 = x * a, x * x
            f = x * xa + x2 * a + x * xa
            if isinstance(f, Value):
                f.backward()
                got = x.grad, a.grad
            else:
                got = tuple(f.backward()[t].item() for t in (x, a))
            assert got == pytest.approx((6 * of * at, 3 * at * at), rel=1e-14)  # f = 3 a x²


def run_program(program, leaves, bumped=None):
    """Nodes of a random straight-line program; one of them may be moved off by a tiny imaginary step."""
    nodes = []
    for k in range(len(leaves) + len(program)):
        if k < len(leaves):
            node = leaves[k]
        else:
            kind, i, j = program[k - len(leaves)]
            a, b = nodes[i], nodes[j]
            node = a + b if kind == 0 else a - b if kind == 1 else a * b
        nodes.append(node + 1e-30j if k == bumped else node)
    return nodes


@pytest.mark.parametrize("seed", range(25))
def test_B001_B003_B128_B131_every_node_of_any_shared_graph_gets_its_whole_gradient(seed):
    rng = np.random.default_rng(seed)
    program = [(int(rng.integers(3)), int(rng.integers(k)), int(rng.integers(max(k - 3, 0), k))) for k in range(3, 20)]
    values = [float(v) for v in rng.uniform(0.5, 1.1, 3) * rng.choice([-1, 1], 3)]
    nodes = run_program(program, [ad.Var(v) for v in values])
    scalars = run_program(program, [Value(v) for v in values])
    store = nodes[-1].backward(keep=nodes)
    scalars[-1].backward()
    for k in range(len(nodes)):
        slope = run_program(program, values, bumped=k)[-1].imag / 1e-30  # complex step: exact for polynomials
        got = store[nodes[k]].item() if nodes[k] in store else 0.0
        assert got == pytest.approx(slope, rel=1e-11, abs=1e-12)
        assert (scalars[k].grad or 0.0) == pytest.approx(slope, rel=1e-11, abs=1e-12)


def test_B005_a_second_backward_never_adds_what_was_left_in_interior_nodes():
    for calls in (1, 2, 5):
        for life_cycle, times, options in (
            (ad.contracts.reset, 1, {}), (ad.contracts.candle, 1, {}),
            (ad.contracts.pytorch, calls, {"retain_graph": True}),
        ):  # fmt: skip
            a, b, d = ad.Var(3.0), ad.Var(2.0), ad.Var(1.0)
            c = a + b
            deep = e = c * d
            for _ in range(6):  # the deeper the graph, the faster stale interior gradients would grow
                deep = deep + c * 1.0
            for root, (da, db, dd) in ((e, (1, 1, 5)), (deep, (7, 7, 5))):
                contract = life_cycle()
                for _ in range(calls):
                    contract.backward(root, **options)
                assert [contract.grad(t) for t in (a, b, d)] == [times * da, times * db, times * dd]
    v = [Value(3.0), Value(2.0), Value(1.0)]
    e = (v[0] + v[1]) * v[2]
    for _ in range(3):
        e.backward()
        assert [t.grad for t in v] == [1, 1, 5]


def test_B010_an_operand_that_meets_its_own_transpose_gets_both_shares():
    assert gradients(lambda x: x @ x.T, [[1.0]]).tolist() == [[2.0]]
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(3, 4)), rng.normal(size=(3, 3))
    expected = (g + g.T) @ x  # d tr(Gᵀ X Xᵀ) = tr((G + Gᵀ) X dXᵀ)
    for product in (
        lambda x: x @ x.T, lambda x: x @ x.mT, lambda x: np.dot(x, x.T), lambda x: x @ np.swapaxes(x, 0, 1),
        lambda x: np.matmul(x, np.transpose(x, (1, 0))), lambda x: np.einsum("ik,jk->ij", x, x),
        lambda x: np.inner(x, x),
        lambda x: np.tensordot(x, x, ((1,), (1,))), lambda x: (x[:, None, :] * x[None, :, :]).sum(-1),
    ):  # fmt: skip
        np.testing.assert_allclose(gradients(product, x, cotangent=g), expected, rtol=1e-12)
    for product in (lambda v: v @ v, lambda v: np.dot(v, v), lambda v: np.inner(v, v), lambda v: np.vdot(v, v)):
        assert gradients(product, [1.0, -2.0, 3.0]).tolist() == [2, -4, 6]
    batch = rng.normal(size=(2, 3, 4))
    assert_slopes(lambda x: x @ np.swapaxes(x, -1, -2), batch)
    assert_slopes(lambda x: np.outer(x, x), x[0])


def test_B128_every_gradient_of_the_worked_example_is_the_one_worked_out_by_hand():
    for number in (ad.Var, Value):
        x, y = number(2.0), number(3.0)
        a = x * y
        b = a + x
        loss = b * b + a
        if number is Value:
            loss.backward()
            got = [t.grad for t in (b, a, x, y)]
        else:
            store = loss.backward(keep=[a, b])
            got = [store[t].item() for t in (b, a, x, y)]
        assert loss.data == 70 and got == [16, 17, 67, 34]


def test_B131_the_base_example_and_what_the_life_cycles_make_of_its_second_backward():
    x, y = ad.Var(3.0), ad.Var(2.0)

    def forward(x, y):
        u = x * y + x
        return u, u * u

    u, loss = forward(x, y)
    store = loss.backward(keep=[u])
    assert [loss.item(), *(store[t].item() for t in (u, x, y))] == [81, 18, 54, 54]
    v, w = Value(3.0), Value(2.0)
    u, loss = forward(v, w)
    for _ in range(2):
        loss.backward()
        assert [loss.data, u.grad, v.grad, w.grad] == [81, 18, 54, 54]
    for life_cycle, second in ((ad.contracts.reset, 54), (ad.contracts.pytorch, 108)):
        c = life_cycle()
        for expected in (54, second):
            c.backward(forward(x, y)[1])
            assert c.grad(x) == c.grad(y) == expected


# Ties and kinks


def extremum(f):
    """A reduction to a number, on plain arrays."""
    return lambda x: float(f(x))


@pytest.mark.parametrize("of", [np.max, np.min, lambda m: m.max(axis=0), lambda m: m.min(keepdims=True)])
def test_B007_a_maximum_over_several_copies_of_one_variable_counts_it_once(of):
    for levels in range(1, 7):
        x = ad.Var([1.0])
        m = x
        for _ in range(levels):
            m = np.concatenate([np.reshape(of(m), (1,)), m])
        assert m.sum().backward()[x].data.tolist() == [levels + 1]  # each level appends x once more
    x = ad.Var(1.0)
    assert of(np.stack([x] * 5)).sum().backward()[x].item() == 1
    assert np.maximum(np.maximum(x, x), np.minimum(x, x)).backward()[x].item() == 1


def test_B013_B019_ties_of_a_maximum_take_shares_that_sum_to_one():
    x = np.array([1.0, 3.0, 3.0])
    for f in (lambda x: x.max(), np.max, np.amax, np.nanmax, lambda x: np.amax(x, 0), lambda x: x.max(0),
              np.maximum.reduce,
              lambda x: np.max(x, 0, keepdims=True), lambda x: np.linalg.norm(x, np.inf)):  # fmt: skip
        g = gradients(f, x)
        assert g.tolist() == [0, 0.5, 0.5]
        assert_subgradient(extremum(np.max), x, g)
    first = gradients(lambda x: x.max(0, ties="first"), x)
    assert first.tolist() == [0, 1, 0]
    assert_subgradient(extremum(np.max), x, first)
    assert gradients(lambda x: x.max(ties="each"), x).tolist() == [0, 1, 1]  # what engines without a count return


@pytest.mark.torch
def test_B013_B019_ties_are_shared_as_pytorch_shares_them():
    rng = np.random.default_rng(0)
    for axis, keepdims in itertools.product((None, 0, -1, (0, 2), (1, 2)), (False, True)):
        x = rng.integers(0, 3, (3, 4, 2)).astype(float)
        cotangent = rng.normal(size=np.max(x, axis, keepdims=keepdims).shape)
        dims = (0, 1, 2) if axis is None else axis
        for ours, theirs in ((np.max, "amax"), (np.min, "amin")):
            (expected,) = in_torch(lambda t, x: getattr(t, theirs)(x, dims, keepdims), x, cotangent=cotangent)
            got = gradients(lambda x: ours(x, axis=axis, keepdims=keepdims), x, cotangent=cotangent)
            np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_B015_every_way_to_write_a_clamp_is_valid_at_its_bounds_and_exact_off_them():
    x = np.array([-1.0, 0.0, 2.0, 6.0, 7.0])
    for f in (lambda x: np.clip(x, 0, 6), lambda x: x.clip(0, 6), lambda x: np.minimum(np.maximum(x, 0), 6),
              lambda x: np.maximum(np.minimum(x, 6), 0), lambda x: np.minimum(ad.relu(x), 6),
              lambda x: np.where(x < 0, 0, np.where(x > 6, 6, x)),
              lambda x: np.fmin(np.fmax(x, 0.0), 6.0)):  # fmt: skip
        g = gradients(f, x)
        assert g[[0, 2, 4]].tolist() == [0, 1, 0]
        assert np.all((0 <= g[[1, 3]]) & (g[[1, 3]] <= 1))
    at, low, high = gradients(lambda x, low, high: np.clip(x, low, high), x, 0.0, 6.0)
    np.testing.assert_allclose(at.sum() + low + high, 5)  # moving all three together moves every entry
    assert 1 <= low <= 2 and 1 <= high <= 2


@pytest.mark.parametrize("f", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_B017_the_two_sides_of_a_tie_share_its_gradient_evenly_in_either_order(f):
    a, b = np.array([1.0, -0.0, np.inf, 2.0, 3.0]), np.array([1.0, 0.0, np.inf, 5.0, 1.0])
    g = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    for left, right in ((a, b), (b, a)):
        ga, gb = gradients(f, left, right, cotangent=g)
        np.testing.assert_array_equal(ga + gb, g)
        assert ga[:3].tolist() == gb[:3].tolist() == [0.5, 1.0, 1.5]
    assert [float(v) for v in gradients(f, 1.0, 1.0)] == [0.5, 0.5]
    assert gradients(lambda x: f(x, x), a, cotangent=g).tolist() == g.tolist()
    assert gradients(lambda x: f(x, 1.0), [1.0]).tolist() == gradients(lambda x: f(1.0, x), [1.0]).tolist() == [0.5]
    wide, row = gradients(f, np.ones((3, 2)), np.ones(2))
    assert wide.tolist() == [[0.5, 0.5]] * 3 and row.tolist() == [1.5, 1.5]
    if f in (np.maximum, np.fmax):
        assert_subgradient(lambda z: float(np.sum(f(z[0], z[1]))), np.ones((2, 3)), np.full((2, 3), 0.5))


REDUCTIONS = [
    np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin, lambda x, axis, keepdims: x.max(axis, keepdims=keepdims),
    lambda x, axis, keepdims: x.min(axis, keepdims=keepdims),
    lambda x, axis, keepdims: np.maximum.reduce(x, axis=axis, keepdims=keepdims),
    lambda x, axis, keepdims: np.minimum.reduce(x, axis=axis, keepdims=keepdims),
]  # fmt: skip


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (-2, -1), (0, 1, 2)])
def test_B021_the_shares_of_every_reduction_sum_to_one(reduce, axis, keepdims):
    rng = np.random.default_rng(1)
    over = tuple(range(3)) if axis is None else axis
    for x in (np.ones((3, 4, 2)), rng.integers(0, 2, (3, 4, 2)).astype(float), np.full((1, 1, 1), -0.0)):
        f = lambda x: reduce(x, axis=axis, keepdims=keepdims)
        g = rng.normal(size=f(x).shape)
        shares = gradients(f, x, cotangent=g)
        np.testing.assert_allclose(shares.sum(axis=over, keepdims=keepdims), g, rtol=1e-13)
        winner = f(x) if keepdims or axis is None else np.expand_dims(f(x), axis)
        assert not shares[np.broadcast_to(x != winner, x.shape)].any()


def test_B021_four_equal_entries_share_evenly_to_second_order_too():
    assert gradients(np.max, np.ones(4)).tolist() == [0.25] * 4
    # Along the diagonal the maximum is x + t, so the second derivative of its square is 2.
    for f in (np.max, np.min, lambda x: np.max(x, axis=0), lambda x: np.linalg.norm(x, np.inf)):
        for x in (np.ones(4), np.array([1.0, 3.0, 3.0])):
            assert ad.hessian(lambda x: f(x) ** 2)(x).sum() == pytest.approx(2, rel=1e-14)
    x = np.array([[1.0, 1.0], [2.0, 2.0]])
    assert ad.hessian(lambda x: (np.max(x, axis=1) ** 2).sum())(x).sum() == pytest.approx(4, rel=1e-14)


def test_B021_windows_spreads_and_order_statistics_share_ties_too():
    image = np.random.default_rng(2).integers(0, 2, (2, 3, 6, 6)).astype(float)
    for kernel, stride in ((2, None), (3, 1), ((2, 3), (1, 2))):
        f = lambda x: ad.max_pool2d(x, kernel, stride)
        g = np.random.default_rng(3).normal(size=f(image).shape)
        assert gradients(f, image, cotangent=g).sum() == pytest.approx(g.sum(), rel=1e-12)
    assert gradients(lambda x: ad.max_pool2d(x, 2), np.ones((1, 1, 2, 2))).tolist() == [[[[0.25] * 2] * 2]]
    assert gradients(np.ptp, [1.0, 1.0, 3.0, 3.0]).tolist() == [-0.5, -0.5, 0.5, 0.5]
    for x in ([1.0, 3.0, 3.0], [2.0, 2.0, 2.0, 2.0], [0.0, 1.0, 1.0, 5.0]):
        for f in (np.median, lambda x: np.quantile(x, 0.3), lambda x: np.percentile(x, 75)):
            assert gradients(f, x).sum() == pytest.approx(1, rel=1e-13)
    np.testing.assert_allclose(gradients(np.sort, [2.0, 2.0, 2.0], cotangent=[1.0, 2.0, 3.0]).sum(), 6)


def test_B023_every_way_to_write_relu_is_valid_at_its_kink_and_exact_off_it():
    x = np.array([-2.0, 0.0, 3.0])
    for f in (lambda x: np.maximum(x, 0), lambda x: np.maximum(0.0, x), lambda x: np.where(x > 0, x, 0), ad.relu,
              lambda x: np.where(x >= 0, x, 0), lambda x: np.fmax(x, 0), lambda x: np.clip(x, 0, None),
              lambda x: (x + abs(x)) / 2, lambda x: x * (x > 0), lambda x: -np.minimum(-x, 0)):  # fmt: skip
        g = gradients(f, x)
        assert g[0] == 0 and g[2] == 1
        assert_subgradient(lambda z: np.maximum(z, 0).sum(), x, g)
        second = ad.hessian(lambda x: f(x).sum())(x)
        assert second[0, 0] == second[2, 2] == 0


def test_B025_kinks_that_cancel_leave_the_slope_of_the_smooth_function():
    x = np.array([0.0, -0.0, 0.5, -3.0, 30.0, -700.0])
    sigmoid = [float(1 / (1 + mpmath.exp(-mpmath.mpf(float(v))))) for v in x]
    for f in (lambda x: np.maximum(x, 0) + np.log(1 + np.exp(-abs(x))), ad.softplus, lambda x: np.logaddexp(x, 0),
              lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x))),
              lambda x: -np.minimum(-x, 0) + np.log1p(np.exp(-abs(x))),
              lambda x: (x + abs(x)) / 2 + np.log1p(np.exp(-np.fabs(x)))):  # fmt: skip
        np.testing.assert_allclose(gradients(f, x), sigmoid, rtol=1e-12, atol=1e-15)
    assert gradients(lambda x: np.maximum(x, 0) + np.log(1 + np.exp(-abs(x))), 0.0) == 0.5
    for f in (ad.softplus, lambda x: np.logaddexp(x, 0)):
        assert ad.hessian(f)(0.0) == pytest.approx(0.25, rel=1e-14)
    for f, slope in ((lambda x: np.maximum(x, 0) + np.minimum(x, 0), 1),
                     (lambda x: np.maximum(x, 0) - np.maximum(-x, 0), 1),
                     (lambda x: abs(x) * abs(x), 0), (lambda x: np.maximum(x, -x) - abs(x), 0)):  # fmt: skip
        assert gradients(f, 0.0) == slope


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("f", [np.max, np.min])
def test_B027_the_winner_is_remembered_and_not_found_again_by_its_value(f, dtype):
    y = np.array([0.2637331, 0.25321472], dtype)
    winner = [1.0, 0.0] if f is np.max else [0.0, 1.0]
    x = ad.Var(y)
    for axis, keepdims in itertools.product((None, 0, -1), (False, True)):
        m = f(x, axis=axis, keepdims=keepdims)
        value = m.data
        value.setflags(write=True)
        value[...] = np.nextafter(value, np.array(1, dtype))  # as if it had been computed again, with another rounding
        for detach in ("all", "none"):
            assert m.backward(detach=detach)[x].data.tolist() == winner
    near = np.array([y[0], np.nextafter(y[0], np.array(1, dtype))])
    assert gradients(f, near).tolist() == ([0.0, 1.0] if f is np.max else [1.0, 0.0])


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_B027_a_maximum_of_values_that_differ_in_their_rounding_alone_is_never_nan(axis, keepdims):
    rng = np.random.default_rng(0)
    a, b, c = rng.uniform(0.1, 1, (3, 4, 5)).astype(np.float32)
    assert np.any((a * b) * c != a * (b * c))
    for f in (np.max, np.min):
        y = [ad.Var(v) for v in ((a * b) * c, a * (b * c))]
        for call in (lambda p, q: f(np.maximum(p, q), axis=axis, keepdims=keepdims),
                     lambda p, q: f(np.stack([p, q]), axis=(0, 1, 2) if axis is None else (0, axis + 1),
                                    keepdims=keepdims)):  # fmt: skip
            result = call(*y)
            grads = result.backward()
            shares = sum(grads[t].data.sum() for t in y)
            assert shares == pytest.approx(result.size, rel=1e-6)


# Broadcasting


def test_B008_subtracting_the_mean_has_a_gradient_of_zero_and_not_the_diagonal_of_its_jacobian():
    x = np.array([1.0, 2.0, 3.0, 4.0])
    centred = lambda x: x - np.mean(x)
    assert gradients(centred, x).tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(ad.jacobian(centred)(x), np.eye(4) - 0.25, rtol=1e-14)
    g = np.random.default_rng(0).normal(size=(3, 4))
    for axis in (0, 1, -1, (0, 1), None):
        for f in (lambda x: x - x.mean(axis, keepdims=True), lambda x: x - np.mean(x, axis=axis, keepdims=True)):
            got = gradients(f, np.arange(12.0).reshape(3, 4), cotangent=g)
            np.testing.assert_allclose(got, g - g.mean(axis, keepdims=True), atol=1e-15)
            assert abs(gradients(f, np.arange(12.0).reshape(3, 4))).max() < 1e-15


SHAPES = [(), (1,), (4,), (1, 1), (1, 4), (5, 1), (5, 4), (1, 5, 1), (2, 1, 4), (2, 5, 4), (1, 1, 1), (0,), (5, 0)]
PAIRS = [(a, b) for a, b in itertools.combinations_with_replacement(SHAPES, 2)
         if all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1]))]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_B062_B064_a_gradient_has_the_shape_of_its_operand_whatever_that_was_broadcast_to(a, b):
    rng = np.random.default_rng(0)
    p, q = rng.uniform(0.5, 2, a), rng.uniform(0.5, 2, b)
    shape = np.broadcast_shapes(a, b)
    wide = rng.normal(size=shape)

    def summed(share, to):
        """Sum the copies one by one, each into the entry that it was copied from."""
        total, source = np.zeros(to), np.broadcast_to(np.arange(math.prod(to)).reshape(to), shape)
        for where in np.ndindex(shape):
            total.reshape(-1)[source[where]] += share[where]
        return total

    wp, wq = np.broadcast_to(p, shape), np.broadcast_to(q, shape)
    for f, to_p, to_q in (
        (lambda p, q: p + q, wide, wide), (lambda p, q: p - q, wide, -wide), (lambda p, q: p * q, wide * wq, wide * wp),
        (lambda p, q: p / q, wide / wq, -wide * wp / wq**2),
        (np.logaddexp, wide / (1 + np.exp(wq - wp)), wide / (1 + np.exp(wp - wq))),
        (lambda p, q: np.where(True, p, q), wide, 0 * wide),
        (np.hypot, wide * wp / np.hypot(wp, wq), wide * wq / np.hypot(wp, wq)),
        (lambda p, q: p**q, wide * wq * wp ** (wq - 1), wide * np.log(wp) * wp**wq),
    ):  # fmt: skip
        for x, y, to_x, to_y, g in (
            (p, q, summed(to_p, a), summed(to_q, b), f),
            (q, p, summed(to_q, b), summed(to_p, a), None),
        ):
            first, second = gradients(g or (lambda x, y: f(y, x)), x, y, cotangent=wide)
            np.testing.assert_allclose(first, to_x, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(second, to_y, rtol=1e-12, atol=1e-14)


def test_B062_B064_the_reported_numbers():
    a, b = gradients(lambda a, b: (a * b).sum(), [2.0], np.ones((5, 4)))
    assert a.tolist() == [20] and b.tolist() == [[2] * 4] * 5
    a, b = gradients(lambda a, b: (a * b).sum(), [1.0], [[1.0, 1.0]])
    assert a.tolist() == [2] and b.tolist() == [[1, 1]]


def test_B062_B064_products_of_matrices_give_back_the_shape_of_every_operand_as_well():
    rng = np.random.default_rng(0)
    for a, b in (
        ((3, 4), (2, 4, 5)),
        ((1, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((4,), (2, 4, 5)),
        ((2, 3, 4), (4,)),
    ):
        assert_slopes(np.matmul, rng.normal(size=a), rng.normal(size=b), linear=True)
    assert_slopes(lambda a, b: np.einsum("...ij,...jk->...ik", a, b), rng.normal(size=(1, 2, 3)),
                  rng.normal(size=(4, 3, 2)),
                  linear=True)  # fmt: skip
    assert_slopes(lambda a: np.broadcast_to(a, (3, 2, 4)), rng.normal(size=(2, 1)), linear=True)


def test_B066_writing_at_an_index_refuses_a_source_of_another_shape_and_repeats_one_when_asked():
    v, zeros, rows = ad.Var([6.0, 7.0, 8.0, 9.0]), np.zeros((4, 4)), np.arange(4)
    for call in (lambda: ad.index_add(zeros, 0, rows, v),
                 lambda: ad.index_add(zeros, 1, rows[:2], np.ones((4, 3)) * v[0]),
                 lambda: ad.scatter_add(zeros, 0, np.zeros((4, 4), int), v),
                 lambda: ad.slice_scatter(zeros, v, 0, 0, 2),
                 lambda: ad.scatter(zeros, 1, np.zeros((4, 2), int), v[:, None])):  # fmt: skip
        with pytest.raises(ValueError, match=r"src must (have shape|be at least)"):
            call()
    for as_row in (lambda v: np.broadcast_to(v[:, None], (4, 4)), lambda v: np.stack([v] * 4, axis=1)):
        assert gradients(lambda v: ad.index_add(zeros, 0, rows, as_row(v)), v.data).tolist() == [4, 4, 4, 4]
        assert gradients(lambda v: zeros + v[:, None], v.data).tolist() == [4, 4, 4, 4]
    weights = np.arange(16.0).reshape(4, 4)
    got = gradients(
        lambda v: ad.index_add(zeros, 0, rows, np.broadcast_to(v[:, None], (4, 4))), v.data, cotangent=weights
    )
    assert got.tolist() == weights.sum(axis=1).tolist()


def test_B068_a_column_against_a_vector_is_summed_over_both_axes_in_either_order():
    rng = np.random.default_rng(0)
    a, w, b = rng.normal(size=(5, 12)), rng.normal(size=(12, 1)), rng.normal(size=5)
    for f in (lambda a, w, b: (a @ w) * b, lambda a, w, b: b * (a @ w), lambda a, w, b: (a @ w)[:, 0] * b,
              lambda a, w, b: b * (a @ w)[:, 0], lambda a, w, b: np.outer(a @ w[:, 0], b),
              lambda a, w, b: b[None] * (a @ w)):  # fmt: skip
        assert_slopes(f, a, w, b, linear=True)
    column = rng.normal(size=(5, 1))
    got = gradients(lambda c, b: c * b, column, b)
    np.testing.assert_allclose(got[0], np.full((5, 1), b.sum()), rtol=1e-13)
    np.testing.assert_allclose(got[1], np.full(5, column.sum()), rtol=1e-13)


# A value of exactly zero


def test_B029_a_weight_of_exactly_zero_keeps_its_derivative():
    b = np.array([2.0, 0.0, 5.0])
    for strong_zero in (False, True):
        got = gradients(lambda b: np.log(np.sum(b * np.exp(np.zeros(3)))), b, strong_zero=strong_zero)
        np.testing.assert_allclose(got, [1 / 7] * 3, rtol=1e-15)
    x = np.random.default_rng(0).normal(size=(4, 3))
    for weights in (b, np.zeros(3) + [0, 0, 1], np.array([0.0, -0.0, 3.0])):
        f = lambda b, x: np.log((b * np.exp(x)).sum(axis=1))
        assert_slopes(f, weights, x)
        e = np.exp(x[0])
        expected = -np.outer(e, e) / (weights @ e) ** 2  # second derivative of log(b·e)
        np.testing.assert_allclose(ad.hessian(lambda b: f(b, x[:1]).sum())(weights), expected, rtol=1e-12)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_B029_a_variable_that_is_zero_is_not_taken_for_the_constant_zero(zero):
    x = np.array([3.0, -2.0])
    for f in (lambda z, x: z * x, lambda z, x: x * z, lambda z, x: np.multiply(z, x),
              lambda z, x: np.einsum(",i->i", z, x),
              lambda z, x: np.reshape(z, (1, 1)) @ x[None]):  # fmt: skip
        dz, dx = gradients(f, zero, x)
        assert dz == 1 and dx.tolist() == [0, 0]
    k, v = ad.Tensor(zero), ad.Var(x)
    assert (k * v).backward()[k].item() == 1
    assert_slopes(lambda a, b: a @ b, np.zeros((2, 3)), np.ones((3, 2)), linear=True)


# Branches behind a mask whose slope is not finite

MASKED = {
    "B030": (lambda a: np.where(a <= 0, np.exp(10 * a), 1 + a), 100.0, 1.0),
    "B032": (lambda x: np.where(x > 0, np.sqrt(x), x), [-1.0, -4.0], [1.0, 1.0]),
    "B034": (lambda x: np.where(x > 2, np.log2(x), 2 * x), [0.0, 2.0, 3.0], [2.0, 2.0, 0.48089834696298783]),
    "B036": (lambda x: (x / np.array([0.0, 1.0]))[np.array([False, True])], [1.0, 1.0], [0.0, 1.0]),
    "B038": (lambda x: np.minimum(np.exp(x), 1), [-5.0, 0.0, 800.0],
             ([0.006737946999085467, 0, 0], [0.006737946999085467, 1, 0])),
    "B040": (lambda x: np.where(x > 0, np.sqrt(x), 0), [-1.0], [0.0]),
    "B061": (lambda x: np.where(x > 0, x, np.exp(x) - 1), [1000.0], [1.0]),
}  # fmt: skip


@pytest.mark.parametrize("report", ["B030", "B032", "B034", "B036", "B038", "B040", "B061"])
def test_a_masked_branch_is_right_with_strong_zero_and_never_wrong_in_silence_without(report):
    f, x, expected = MASKED[report]
    low, high = expected if isinstance(expected, tuple) else (expected, expected)
    strong = gradients(f, x, strong_zero=True)
    assert np.isfinite(strong).all() and right_or_not_finite(strong, low, high)
    assert right_or_not_finite(gradients(f, x), low, high)
    assert right_or_not_finite(gradients(f, x, detach="none", strong_zero=True), strong)


# A function, a point where its value or slope is not finite, and one where all is well.
HAZARDS = [
    (np.sqrt, -1.0, 4.0), (np.sqrt, 0.0, 4.0), (np.log, 0.0, 2.0), (np.log, -1.0, 2.0), (np.log2, 0.0, 3.0),
    (np.log10, -2.0, 3.0), (np.log1p, -1.0, 0.5), (np.reciprocal, 0.0, 2.0), (np.cbrt, 0.0, 2.0), (np.arcsin, 1.0, 0.3),
    (np.arccos, 2.0, 0.3), (np.arccosh, 0.5, 2.0), (np.arctanh, 1.0, 0.3), (np.exp, 800.0, 0.4), (np.exp2, 1100.0, 0.4),
    (np.expm1, 800.0, 0.4), (np.sinh, 800.0, 0.4), (np.cosh, -800.0, 0.4), (lambda x: x**-0.5, 0.0, 2.0),
    (lambda x: x**0.5, -1.0, 2.0), (lambda x: np.power(x, np.full(2, 1.5)), -1.0, 2.0), (lambda x: 1 / x, 0.0, 2.0),
    (lambda x: np.log(np.sqrt(x)), -1.0, 2.0), (lambda x: np.exp(np.exp(x)), 9.0, 0.4),
    (lambda x: np.arctan2(x, 0 * x), 0.0, 2.0),
    (lambda x: x / (x - 1), 1.0, 3.0), (lambda x: np.tan(x) * np.sqrt(x), -1.0, 0.4),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(HAZARDS)))
def test_B030_B032_B034_B036_B040_no_function_behind_a_mask_leaks_through_it(case):
    f, bad, good = HAZARDS[case]
    x, mask = np.array([bad, good]), np.array([False, True])
    with np.errstate(all="ignore"):
        (slope,) = differences(lambda v: f(np.concatenate([v, v]))[1], [np.array([good])], 1.0)
    forms = (
        (lambda x: np.where(mask, f(x), 3 * x), 3.0), (lambda x: np.where(~mask, x, f(x)), 1.0),
        (lambda x: np.where(mask, f(x), 0), 0.0), (lambda x: f(x)[mask], 0.0), (lambda x: f(x)[1:], 0.0),
        (lambda x: np.where(mask[:, None], np.broadcast_to(f(x)[:, None], (2, 1)), 0), 0.0),
    )  # fmt: skip
    for form, at_bad in forms:
        strong = gradients(form, x, strong_zero=True)
        np.testing.assert_allclose(strong, [at_bad, slope[0]], rtol=1e-7)
        assert right_or_not_finite(gradients(form, x), strong)
        with np.errstate(all="ignore"):
            v = ad.Var(x)
            g = form(v).backward(strong_zero=True, detach="none")[v]
            second = g.backward(strong_zero=True).get(v)
        assert second is None or second.data[0] == 0
    safe = lambda x: np.where(mask, f(np.where(mask, x, good)), x)  # what to write when strong_zero is not wanted
    np.testing.assert_allclose(gradients(safe, x), [1, slope[0]], rtol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_B038_B061_saturating_functions_have_finite_slopes_where_exp_overflows(dtype):
    x = np.array([-1000.0, 1000.0], dtype)
    for f, expected in ((ad.elu, [0, 1]), (ad.relu, [0, 1]), (ad.sigmoid, [0, 0]), (ad.softplus, [0, 1]),
                        (ad.silu, [0, 1]),
                        (ad.gelu, [0, 1]), (np.tanh, [0, 0]), (lambda x: np.logaddexp(x, 0), [0, 1]),
                        (lambda x: ad.logsumexp(x), [0, 1])):  # fmt: skip
        assert gradients(f, x).tolist() == expected
    assert gradients(ad.elu, [1000.0, -1.0]).tolist() == [1, pytest.approx(math.exp(-1))]


# Roots, norms and powers at zero


def test_B042_a_norm_at_the_zero_vector_gives_a_vector_of_the_unit_ball():
    zero = np.zeros(3)
    assert gradients(np.linalg.norm, [0.0]).tolist() == [0]
    for f in (np.linalg.norm, lambda x: np.linalg.norm(x, 2), np.linalg.vector_norm, lambda x: np.linalg.norm(x, 1),
              lambda x: np.linalg.norm(x, 3), lambda x: np.linalg.norm(x, np.inf), lambda x: np.linalg.norm(x, axis=0),
              lambda x: np.linalg.norm(x, axis=-1, keepdims=True), lambda x: np.linalg.norm(np.reshape(x, (1, 3))),
              lambda x: np.hypot(np.hypot(x[0], x[1]), x[2]), lambda x: abs(x).sum()):  # fmt: skip
        g = gradients(f, zero)
        assert g.tolist() == [0, 0, 0]
        assert_subgradient(lambda z: float(np.squeeze(f(z))), zero, g, tries=50)
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(gradients(lambda x: np.linalg.norm(x, axis=1), rows), [[0, 0], [0.6, 0.8]], rtol=1e-15)
    assert gradients(np.std, [2.0, 2.0, 2.0]).tolist() == [0, 0, 0]
    # The root hides that this is a norm: its slope is infinite and its inside's is 0, and the product is not made up.
    assert not np.isfinite(gradients(lambda x: np.sqrt(np.sum(x**2)), zero)).any()


def test_B044_the_square_of_a_norm_has_slope_zero_at_zero():
    for f in (lambda x: np.linalg.norm(x) ** 2, lambda x: np.linalg.norm(x) * np.linalg.norm(x), lambda x: x @ x,
              lambda x: (np.linalg.norm(x, axis=0, keepdims=True) ** 2).sum(), lambda x: np.hypot(x[0], x[1]) ** 2,
              lambda x: np.square(np.linalg.vector_norm(x)), lambda x: np.sum(abs(x) ** 2),
              lambda x: np.sum(x * x)):  # fmt: skip
        assert gradients(f, [0.0, 0.0]).tolist() == [0, 0]
        np.testing.assert_allclose(gradients(f, [3.0, -4.0]), [6, -8], rtol=1e-14)
    assert right_or_not_finite(gradients(lambda x: np.sqrt(np.sum(x**2)) ** 2, [0.0, 0.0]), 0)
    assert right_or_not_finite(gradients(lambda x: np.sqrt(x) ** 2, 0.0), 1)
    with np.errstate(all="ignore"):
        for f in (lambda x: np.linalg.norm(x) ** 2, lambda x: np.hypot(x[0], x[1]) ** 2):
            assert right_or_not_finite(ad.hessian(f)(np.zeros(2)), 2 * np.eye(2))


def test_B046_three_equal_losses_are_zero_at_zero_or_visibly_undefined():
    for x in (np.array(0.0), ad.Tensor(0.0), np.zeros(3)):
        for length in (
            lambda v: np.linalg.norm(np.reshape(v, (-1,))),
            lambda v: np.hypot(v, 0 * v).sum(),
            lambda v: abs(v).sum(),
        ):
            assert gradients(lambda w: (length(x * w) - 1) ** 2, 1.0) == 0
        root = gradients(lambda w: (np.sqrt(np.sum((x * w) ** 2)) - 1) ** 2, 1.0)
        assert right_or_not_finite(root, 0)
    assert ad.grad(lambda w: (abs(0.0 * w) - 1) ** 2)(1.0) == 0


ZEROS = [0, 0.0, -0.0, np.float32(0), np.array(0), np.array(0.0), np.zeros(2), ad.Tensor(0), ad.Tensor(0.0),
         ad.Tensor([0.0, 0.0]),
         ad.Var(0.0), ad.Var([0.0, 0.0])]  # fmt: skip


@pytest.mark.parametrize("exponent", ZEROS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_B049_B055_a_power_of_zero_is_constant_and_its_gradient_zeros_and_not_none(exponent, dtype):
    for base in ([0.0, 1.0], [2.0, -3.0], [-0.0, 0.0]):
        for power in (lambda x, n: x**n, np.power, np.float_power):
            x = ad.Var(np.array(base, dtype))
            y = power(x, exponent)
            with np.errstate(all="raise"):
                g = y.backward(wrt=[x])[x]
            assert g.dtype == dtype and g.data.tolist() == [0, 0]
            with np.errstate(all="ignore"):  # the exponent's own share, of a negative base, is NaN
                assert y.backward()[x].data.tolist() == [0, 0]
                g = y.backward(wrt=[x], detach="none")[x]
                assert g.data.tolist() == [0, 0]
                if g.tracked:
                    assert g.backward(wrt=[x]).get(x, ad.Tensor([0.0, 0.0])).data.tolist() == [0, 0]


def test_B049_the_nth_derivative_of_the_nth_power_is_a_constant_at_zero_too():
    for n in range(5):
        for exponent in (n, float(n), np.array(float(n)), np.array(n), ad.Tensor(float(n)), ad.Var(float(n))):
            x = ad.Var(0.0)
            y, seen = x**exponent, []
            for _ in range(n + 1):
                y = y.backward(wrt=[x], detach="none").get(x, ad.Tensor(0.0))
                seen.append(y.item())
            assert seen == [0.0] * (n - 1) + [math.factorial(n)] * (n > 0) + [0.0]
    assert gradients(lambda x: x**0.5, 0.0) == np.inf and gradients(lambda x: x**-1.0, [0.0])[0] == -np.inf


@pytest.mark.parametrize(
    "base", [0.0, np.array(0.0), np.float64(0), ad.Tensor(0.0), ad.Var(0.0), np.zeros(2)], ids=repr
)
def test_B051_every_derivative_of_zero_to_the_x_is_zero_for_positive_x(base):
    for f in (lambda x: base**x, lambda x: np.power(base, x), lambda x: np.float_power(base, x)):
        for x in (1.0, 0.5, 3.0):
            g = lambda x: f(x).sum()
            for _ in range(3):
                g = ad.grad(g)
                assert g(x) == 0
    base, x = gradients(lambda b, x: b**x, 0.0, 1.0)
    assert (base, x) == (1, 0)


def test_B053_the_share_of_an_exponent_that_needs_none_is_not_computed():
    with np.errstate(all="raise"):
        for exponent in (2, 2.0, np.array(2.0), np.array([2.0]), ad.Tensor(2.0), ad.Var(2.0)):
            x = ad.Var([-3.0])
            assert (x**exponent).backward(wrt=[x])[x].data.tolist() == [-6]
        x = ad.Var([-3.0, 0.0, 2.0])
        assert (x**3).backward()[x].data.tolist() == [27, 0, 12]
        np.testing.assert_allclose((x[:1] ** -2).backward()[x].data, [2 / 27, 0, 0], rtol=1e-15)
        a = ad.Var(0.0)
        assert (a / 4.0).backward()[a].item() == 0.25 and np.arctan2(a, np.array(2.0)).backward()[a].item() == 0.5


def test_B053_a_partial_that_nobody_asked_for_is_not_run():
    def unwanted(g, y, a, b):
        raise AssertionError("this partial was not asked for")

    @ad.custom_op(vjps=[lambda g, y, a, b: g * b, unwanted])
    def product(a, b):
        return a * b

    x, w = ad.Var([3.0]), ad.Var([5.0])
    assert product(x, np.array([2.0])).backward()[x].data.tolist() == [2]
    assert product(x, w).backward(wrt=[x])[x].data.tolist() == [5]
    assert ad.grad(lambda x: product(x, w.data).sum())(np.array([1.0])).tolist() == [5]
    with pytest.raises(AssertionError, match="not asked for"):
        product(x, w).backward()


def test_B055_zeros_and_no_gradient_are_told_apart():
    x, other = ad.Var([2.0, -3.0, 0.0]), ad.Var(1.0)
    store = (x**0).sum().backward()
    assert store[x].data.tolist() == [0, 0, 0] and other not in store
    y = (x * 0 + other).sum()
    pruned = y.backward()
    assert x not in pruned and pruned[other].item() == 3
    with pytest.raises(KeyError, match="pruned"):
        pruned[x]
    for f in (lambda x: (x**0).sum(), lambda x: (x * 0).sum(), lambda x: other.data * 2, lambda x: 3.0):
        assert ad.grad(f)(np.ones(3)).tolist() == [0, 0, 0]


def zeros_at(n):
    """Arrays of n entries, with zeros in every set of places."""
    for places in itertools.product([False, True], repeat=n):
        yield np.where(places, 0.0, np.arange(2.0, 2.0 + n) * np.where(np.arange(n) % 2, -1, 1))


def test_B059_cumulative_products_are_right_wherever_their_zeros_are():
    assert gradients(lambda x: np.cumprod(x).sum(), [2.0, 0.0, 3.0, 4.0]).tolist() == [1, 32, 0, 0]
    for x in zeros_at(4):
        assert_slopes(np.cumprod, x, linear=True)
        y = np.stack([x, x[::-1], np.ones(4)])
        for axis in (None, 0, 1, -1):
            assert_slopes(lambda y: np.cumprod(y, axis=axis), y, linear=True)
        # d²/dx_i dx_j of the sum of cumulative products: each product that holds both, without them.
        second = [[sum(np.prod(np.delete(x[: k + 1], [i, j])) for k in range(max(i, j), 4)) if i != j else 0.0
                   for j in range(4)] for i in range(4)]  # fmt: skip
        np.testing.assert_allclose(ad.hessian(lambda x: np.cumprod(x).sum())(x), second, atol=1e-12)


# Integers


def test_B048_a_gradient_is_never_stored_in_an_integer():
    x = np.array([[1], [0], [0], [1]])
    f = lambda x: sum(np.linalg.norm(x[i] - x[i - 1]) ** 2 for i in range(1, 4))
    for refused in (lambda: ad.Var(x), lambda: ad.grad(f)(x)):
        with pytest.raises(TypeError, match="floating"):
            refused()
    for dtype in (np.float32, np.float64):
        got = gradients(f, x.astype(dtype))
        assert got.dtype == dtype and got.tolist() == [[2], [-2], [-2], [2]]
    whole, part = ad.Tensor([2, 3]), ad.Var([0.5, 0.25])
    for y in (whole * part, part * whole, part * np.array([2, 3]), [2, 3] * part):
        store = y.backward()
        assert store[part].data.tolist() == [2, 3] and store[part].dtype == np.float64 and whole not in store
    small = ad.Var(np.array([0.5, 0.25], np.float32))
    assert (whole * small).backward()[small].dtype == np.float32


@pytest.mark.parametrize("x", [2, np.int64(2), np.array(2), np.array([1, 2]), True, ad.Tensor(2)], ids=repr)
def test_B078_every_transform_refuses_integers_and_says_what_to_write(x):
    f = lambda x: np.sum(x * x)
    one = np.ones(np.shape(x))
    for transform in (lambda: ad.grad(f)(x), lambda: ad.value_and_grad(f)(x), lambda: ad.jacobian(f)(x),
                      lambda: ad.vjp(f, x),
                      lambda: ad.hessian(f)(x), lambda: ad.jvp(f, (x,), (one,)),
                      lambda: ad.hvp(f, x, one)):  # fmt: skip
        with pytest.raises(TypeError, match=r"Pass 2\.0 for 2|floating"):
            transform()
    with pytest.raises(TypeError, match=r"floating"):
        ad.Var(x)
    report = ad.gradcheck(f, x, raise_exception=False)
    assert not report and report.verdict == "nothing was checked"
    assert ad.grad(f)(2.0) == 4


def test_B080_positions_and_flags_track_nothing_and_cannot_be_differentiated():
    t = ad.Var([0.1, 0.9])
    for f in (np.argmax, np.argmin, np.argsort, lambda t: np.searchsorted(t, 0.5), lambda t: np.nonzero(t)[0],
              lambda t: t.argmax(0),
              lambda t: np.flatnonzero(t), lambda t: np.digitize(t, [0.5])):  # fmt: skip
        place = f(t)
        later = np.sum(place + 2)
        assert not place.tracked and not later.tracked and later.op is None
        with pytest.raises(TypeError, match="must be floating"):
            later.backward()
    for flags in (t > 0.5, np.isnan(t), t == t, np.signbit(t)):
        assert type(flags) is np.ndarray
    whole = t.astype(int)
    with pytest.raises(TypeError, match="must be floating"):
        whole.sum().backward()
    assert t not in (whole.astype(float) * 2.0).sum().backward()
    assert (t * np.argmax(t)).backward()[t].data.tolist() == [1, 1]
    assert gradients(lambda t: t[np.argmax(t)], [0.1, 0.9]).tolist() == [0, 1]


# Shapes


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (1, 1), (2, 3), (0, 2), (2, 0), (1, 3, 2)])
def test_B057_the_gradient_of_a_product_has_the_shape_of_its_input_over_any_axis(shape):
    n = len(shape)
    axes = [None, *range(-n, n), *itertools.combinations(range(n), 2), tuple(range(n))]
    for axis, keepdims in itertools.product(axes, (False, True)):
        for x in (np.zeros(shape), np.arange(float(math.prod(shape))).reshape(shape), np.full(shape, 2.0)):
            assert_slopes(lambda x: np.prod(x, axis=axis, keepdims=keepdims), x, linear=True)


def test_B057_the_product_of_a_single_zero_has_slope_one():
    for f in (
        lambda x: np.prod(x, axis=0),
        np.prod,
        lambda x: x.prod(0, keepdims=True),
        lambda x: np.multiply.reduce(x),
    ):
        assert gradients(f, [0.0]).tolist() == [1]
    assert gradients(np.prod, [0.0, 2.0, 3.0]).tolist() == [6, 0, 0]


GEOMETRIES = [dict(stride=2, dilation=1, padding=1, output_padding=1), dict(stride=1, dilation=2),
              dict(stride=2, dilation=3),
              dict(stride=(3, 1), dilation=(1, 2), padding=(0, 1)), dict(stride=3, output_padding=2),
              dict(groups=2, stride=2),
              dict(stride=(1, 2), dilation=(2, 1), padding=1, output_padding=(1, 0))]  # fmt: skip


def plain_conv_transpose2d(x, w, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Each entry of x adds a multiple of the kernel; written out, entry by entry."""
    two = lambda v: (v, v) if isinstance(v, int) else v
    (s, t), (p, q), (o, r), (d, e) = map(two, (stride, padding, output_padding, dilation))
    (n, c, h, width), (_, per, kh, kw) = x.shape, w.shape
    full = np.zeros((n, per * groups, (h - 1) * s + d * (kh - 1) + 1 + o, (width - 1) * t + e * (kw - 1) + 1 + r))
    for i, j, u, v, a in itertools.product(range(h), range(width), range(kh), range(kw), range(c)):
        first = a // (c // groups) * per
        full[:, first : first + per, i * s + u * d, j * t + v * e] += x[:, a, i, j, None] * w[a, :, u, v]
    return full[:, :, p : full.shape[2] - p, q : full.shape[3] - q]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_B070_a_transposed_convolution_keeps_stride_and_dilation_apart(geometry):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 2, 3, 4)), rng.normal(size=(2, 2 // geometry.get("groups", 1), 3, 2))
    forward = lambda x, w: plain_conv_transpose2d(x, w, **geometry)
    assert_slopes(forward, x, w, linear=True, call=lambda x, w: ad.conv_transpose2d(x, w, **geometry))
    # It is the adjoint of the convolution with the same numbers: <T x, y> = <x, C y>.
    y = rng.normal(size=forward(x, w).shape)
    back = ad.conv2d(y, w, **{k: v for k, v in geometry.items() if k != "output_padding"})
    assert np.sum(forward(x, w) * y) == pytest.approx(np.sum(x * back[:, :, :3, :4]), rel=1e-12)


@pytest.mark.torch
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_B070_transposed_convolutions_agree_with_pytorch(geometry):
    rng = np.random.default_rng(1)
    x, w, b = (
        rng.normal(size=(2, 2, 4, 3)),
        rng.normal(size=(2, 2 // geometry.get("groups", 1), 2, 3)),
        rng.normal(size=2),
    )
    f = lambda x, w, b: ad.conv_transpose2d(x, w, b, **geometry)
    cotangent = rng.normal(size=f(x, w, b).shape)
    expected = in_torch(lambda t, *xs: t.nn.functional.conv_transpose2d(*xs, **geometry), x, w, b, cotangent=cotangent)
    for got, g in zip(gradients(f, x, w, b, cotangent=cotangent), expected):
        np.testing.assert_allclose(got, g, rtol=1e-10, atol=1e-12)


# Derivatives of derivatives


def test_B058_second_and_third_derivatives_of_a_product_are_right_wherever_its_zeros_are():
    x = np.array([2.0, 3.0, 0.0, 0.0])
    assert ad.hessian(np.prod)(x).tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 6], [0, 0, 6, 0]]
    forms = (
        np.prod,
        lambda x: np.prod(x, axis=0),
        lambda x: np.prod(np.reshape(x, (2, 2)), axis=(0, 1)),
        lambda x: np.cumprod(x)[-1],
    )
    for x in zeros_at(4):
        second, third = np.zeros((4, 4)), np.zeros((4, 4, 4))
        for i, j, k in itertools.permutations(range(4), 3):  # the product of the others; 0 where an entry stands twice
            second[i, j], third[i, j, k] = np.prod(np.delete(x, [i, j])), np.prod(np.delete(x, [i, j, k]))
        for f in forms:
            np.testing.assert_allclose(ad.hessian(f)(x), second, atol=1e-13)
        if sorted(x == 0) == list(x == 0):  # each number of zeros once
            for f in forms[::3]:
                np.testing.assert_allclose(ad.jacobian(ad.hessian(f))(x), third, atol=1e-13)


FAMILIES = [  # a function, and its nth derivative in closed form
    (lambda x: x**3, lambda n, x: math.prod(range(3, 3 - n, -1)) * x ** max(3 - n, 0)),
    (lambda x: x * x * x, lambda n, x: math.prod(range(3, 3 - n, -1)) * x ** max(3 - n, 0)),
    (lambda x: np.exp(2 * x), lambda n, x: 2**n * math.exp(2 * x)),
    (np.sin, lambda n, x: math.sin(x + n * math.pi / 2)),
    (lambda x: 1 / x, lambda n, x: (-1) ** n * math.factorial(n) / x ** (n + 1)),
    (np.log, lambda n, x: -((-1) ** n) * math.factorial(n - 1) / x**n),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(FAMILIES)))
def test_B093_a_gradient_can_be_differentiated_again_and_again(case):
    f, nth = FAMILIES[case]
    for at in (3.0, 0.7):
        g, x = f, ad.Var(at)
        y = f(x)
        for n in range(1, 5):
            g = ad.grad(g)
            assert g(at) == pytest.approx(nth(n, at), rel=1e-11, abs=1e-11)
            if y.tracked:
                y = y.backward(wrt=[x], detach="none").get(x, ad.Tensor(0.0))
                assert y.item() == pytest.approx(nth(n, at), rel=1e-11, abs=1e-11)
    assert ad.grad(ad.grad(lambda x: x**3))(3.0) == 18


def test_B093_a_loss_after_an_update_can_be_differentiated_through_the_update():
    a, b, rate, w0 = 1.5, 0.7, 0.1, 2.0
    loss = lambda w: 0.5 * (a * w - b) ** 2
    updated = w0 - rate * a * (a * w0 - b)
    expected = a * (a * updated - b) * (1 - rate * a * a)
    assert ad.grad(lambda w: loss(w - rate * ad.grad(loss)(w)))(w0) == pytest.approx(expected, rel=1e-14)
    w = ad.Var(w0)
    after = loss(w - rate * loss(w).backward(detach="none")[w])
    assert after.backward()[w].item() == pytest.approx(expected, rel=1e-14)


def test_B095_the_mixed_hessian_of_a_kernel_is_right_where_its_two_points_meet():
    rng = np.random.default_rng(0)
    points = [(np.zeros(2), np.zeros(2)), (np.ones(2), np.ones(2)), (rng.normal(size=2), rng.normal(size=2))]
    for a, b in points:
        d = a - b
        expected = math.exp(-d @ d) * (2 * np.eye(2) - 4 * np.outer(d, d))
        for square in (
            lambda d: np.sum(d**2),
            lambda d: d @ d,
            lambda d: np.sum(d * d),
            lambda d: np.einsum("i,i", d, d),
        ):
            f = lambda a, b: np.exp(-square(a - b))
            np.testing.assert_allclose(ad.jacobian(ad.grad(f, 0), 1)(a, b), expected, rtol=1e-12, atol=1e-15)
        for length in (np.linalg.norm, np.linalg.vector_norm, lambda d: np.hypot(d[0], d[1])):
            f = lambda a, b: np.exp(-(length(a - b) ** 2))
            with np.errstate(all="ignore"):
                got = ad.jacobian(ad.grad(f, 0), 1)(a, b)
            assert right_or_not_finite(got, expected) and (np.isfinite(got).all() or not d.any())


def test_B097_the_second_derivative_of_a_loss_is_the_same_whatever_sums_it():
    rng = np.random.default_rng(0)
    for x, y in (([0.25], [1.0]), ([0.25, 0.5, 0.9], [1.0, 0.0, 1.0]), (rng.uniform(0.1, 0.9, 5), rng.uniform(size=5))):
        x, y = np.array(x), np.array(y)
        curvature = y / x**2 + (1 - y) / (1 - x) ** 2
        entropy = lambda x: -(y * np.log(x) + (1 - y) * np.log(1 - x))
        for whole, scale in (
            (np.sum, 1),
            (np.mean, 1 / x.size),
            (lambda v: v.sum(axis=0), 1),
            (lambda v: v @ np.ones(v.shape), 1),
        ):
            got = ad.hessian(lambda x: whole(entropy(x)))(x)
            np.testing.assert_allclose(got, np.diag(curvature) * scale, rtol=1e-12, atol=1e-12)
        v = ad.Var(x)
        g = entropy(v).backward(detach="none")[v]
        np.testing.assert_allclose(g.backward()[v].data, curvature, rtol=1e-12)
    assert ad.hessian(lambda x: -np.log(x).sum())(np.array([0.25])).item() == 16


# Views, and writing at an index


def test_B072_views_of_a_broadcast_array_send_every_copy_back_to_its_source():
    x, z = np.ones((3, 1)), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert gradients(lambda x: (z * np.broadcast_to(x, (3, 3))[0:2]).sum(), x).tolist() == [[6], [15], [0]]
    rng = np.random.default_rng(0)
    for view in (lambda w: w[0:2], lambda w: w.T, lambda w: w[::-1, ::2], lambda w: np.reshape(w, (9,)),
                 lambda w: np.ravel(w)[2:7],
                 lambda w: np.reshape(w.T, (9,))[::4], lambda w: w[[0, 0, 2]], lambda w: np.swapaxes(w, 0, 1)[1],
                 lambda w: np.roll(w, 1, 0)[:2], lambda w: np.diagonal(w), lambda w: np.flip(w, 1)[:, :1],
                 lambda w: np.broadcast_to(w[:, :, None], (3, 3, 2))):  # fmt: skip
        assert_slopes(lambda x: view(np.broadcast_to(x, (3, 3))), rng.normal(size=(3, 1)), linear=True)


def test_B072_overlapping_memory_is_copied_into_a_var_and_is_no_view_of_one():
    line = np.arange(4.0)
    windows = np.lib.stride_tricks.sliding_window_view(line, 2)
    for overlapping in (windows, np.broadcast_to(line, (3, 4)), np.lib.stride_tricks.as_strided(line, (2, 3), (8, 8))):
        assert gradients(lambda x: x * x, overlapping).tolist() == (2 * overlapping).tolist()
    with pytest.raises(TypeError, match="no rule|history would be lost"):
        np.lib.stride_tricks.as_strided(ad.Var(line), (2,))
    rows = np.arange(3)[:, None] + np.arange(2)  # the windows, by indexing
    for view in (lambda x: x[rows], lambda x: np.lib.stride_tricks.sliding_window_view(x, 2)):
        assert gradients(view, line).tolist() == [1, 2, 2, 1]


def masked_scatter(dest, mask, src):
    """The k-th True of the mask takes src[k]."""
    order = np.reshape(np.maximum(np.cumsum(mask) - 1, 0), np.shape(mask))
    return np.where(mask, np.reshape(src, (-1,))[order], dest)


def test_B073_a_masked_scatter_takes_its_source_in_order_and_not_in_place():
    mask = np.array([0, 0, 0, 0, 1, 0, 1, 0, 1, 0], bool)
    dest, src = gradients(lambda d, s: masked_scatter(d, mask, s), np.ones(10), np.zeros(10))
    assert src.tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0] and dest.tolist() == (1.0 - mask).tolist()
    rng = np.random.default_rng(0)
    for shape in ((10,), (3, 4), (2, 2, 3)):
        mask, g = rng.random(shape) < 0.5, rng.normal(size=shape)
        dest, src = gradients(lambda d, s: masked_scatter(d, mask, s), np.zeros(shape), np.zeros(shape), cotangent=g)
        expected = np.zeros(math.prod(shape))
        expected[: mask.sum()] = g[mask]
        np.testing.assert_array_equal(src.reshape(-1), expected)
        np.testing.assert_array_equal(dest, np.where(mask, 0, g))


def written_out(x, axis, index, src, add):
    """PyTorch's definition of scatter and scatter_add on an axis, one entry after the other."""
    y = np.array(x)
    for at in np.ndindex(index.shape):
        to = (*at[:axis], index[at], *at[axis + 1 :])
        y[to] = y[to] + src[at] if add else src[at]
    return y


def test_B075_adding_and_overwriting_at_an_index_each_have_their_own_gradient():
    index, weights = np.array([[0, 3], [1, 1]]), np.arange(1.0, 11.0).reshape(2, 5)
    x, values = gradients(
        lambda x, v: ad.scatter_add(x, 1, index, v), np.zeros((2, 5)), np.ones((2, 2)), cotangent=weights
    )
    assert x.tolist() == weights.tolist() and values.tolist() == [[1, 4], [7, 7]]
    x, values = gradients(lambda x, v: ad.scatter(x, 1, index, v), np.zeros((2, 5)), np.ones((2, 2)), cotangent=weights)
    assert x.tolist() == [[0, 2, 3, 0, 5], [6, 0, 8, 9, 10]] and values.tolist() == [
        [1, 4],
        [0, 7],
    ]  # the last write won


@pytest.mark.parametrize("seed", range(6))
def test_B075_scatters_of_any_shape_with_repeats_have_the_slopes_of_the_plain_loop(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 4, rng.integers(1, 4)))
    axis = int(rng.integers(len(shape)))
    smaller = tuple(int(rng.integers(1, n + 1)) for n in shape)
    index = rng.integers(0, shape[axis], smaller)
    x, src = rng.normal(size=shape), rng.normal(size=smaller)
    for add, call in ((True, ad.scatter_add), (False, ad.scatter)):
        assert_slopes(lambda x, s: written_out(x, axis, index, s, add), x, src, linear=True,
                      call=lambda x, s: call(x, axis, index, s))  # fmt: skip
    rows = rng.integers(0, shape[axis], 4)
    slices = rng.normal(size=(*shape[:axis], 4, *shape[axis + 1 :]))

    def rows_added(x, src):
        y = np.array(x)
        for k, row in enumerate(rows):
            y[(slice(None),) * axis + (row,)] += src[(slice(None),) * axis + (k,)]
        return y

    assert_slopes(rows_added, x, slices, linear=True, call=lambda x, s: ad.index_add(x, axis, rows, s))


# Writing in place


def test_B081_no_alias_of_a_value_can_be_written_to_behind_the_graph():
    source = np.array([1.0, 2.0, 3.0])
    x = ad.Var(source)
    o = ad.sigmoid(x)
    views = [o.data, o.detach().data, o.data[1:], o.data.reshape(3, 1), o.detach().reshape(3, 1).data, o[:2].data,
             o.T.data, x.data,
             o.reshape(1, 3).data, np.broadcast_to(o, (2, 3)).data, np.asarray(o.detach()), o.op.inputs[0].data,
             o.copy().data,
             o.astype(float).data, np.ravel(o).data, np.transpose(o).data]  # fmt: skip
    for alias in views:
        with pytest.raises(ValueError, match="read-only"):
            alias[...] = 0
    for write in (lambda: o.__setitem__(0, 0.0), lambda: o.detach().__setitem__(0, 0.0), lambda: np.asarray(o)):
        with pytest.raises(TypeError, match="values never change|history would be lost"):
            write()
    source[:] = 0
    factor, key, seed = np.full(3, 2.0), np.array([0, 0]), np.ones(3)
    scaled, picked = x * factor, x[key]
    factor[:], key[:] = 0, 1  # what was computed with is remembered as it was
    assert scaled.backward()[x].data.tolist() == [2, 2, 2] and picked.backward()[x].data.tolist() == [2, 0, 0]
    g = o.backward(seed)[x]
    seed[:] = 9
    s = [1 / (1 + math.exp(-v)) for v in (1, 2, 3)]
    np.testing.assert_allclose(g.data, [p * (1 - p) for p in s], rtol=1e-14)
    np.testing.assert_allclose(g.data, [0.19661193324148185, 0.10499358540350652, 0.04517665973091213], rtol=1e-14)
    with pytest.raises(ValueError, match="read-only"):
        g.data[0] = 5


def test_B081_what_a_transform_hands_out_may_be_written_to_without_harm():
    w = np.array([1.0, 2.0])
    f = lambda x: (w * x).sum()
    for _ in range(2):
        value, g = ad.value_and_grad(f)(np.ones(2))
        assert value == 3 and g.tolist() == [1, 2]
        g[...] = value[...] = 0
        for step, slope in ((lambda x: w * x, [1, 2]), (lambda x: x + w, [1, 1])):
            seed, pull = np.ones(2), ad.vjp(step, np.ones(2))[1]
            for _ in range(2):
                (g,) = pull(seed)
                assert g.tolist() == slope
                g[...] = 0
                assert seed.tolist() == [1, 1]

    @ad.custom_op(vjps=[lambda g, y, x: g])
    def spoiling(x):
        x[...] = 0
        return x

    with pytest.raises(ValueError, match="read-only"):
        spoiling(ad.Var(w))


def test_B083_an_augmented_assignment_makes_a_new_tensor_and_leaves_the_old_graph_as_it_was():
    for record in (True, False):
        for f, slopes in (
            (lambda v: 2 * v, lambda v: np.full(10, 2.0)),
            (lambda v: v * v, lambda v: 2 * v),
            (np.exp, np.exp),
        ):
            x = ad.Var(np.arange(10.0))
            v = x.reshape(10)
            out = f(v)
            for _ in range(2):
                np.testing.assert_allclose(out.backward()[x].data, slopes(np.arange(10.0)), rtol=1e-14)
                if record:
                    v += 1
                    v *= 2
                else:
                    with ad.no_grad():
                        v += 1
            assert x.data.tolist() == list(range(10))
    out = 2 * x
    x.set(x.data + 1)
    with pytest.raises(ad.StaleGraphError):
        out.backward()


def test_B085_replacing_an_entry_by_a_minimum_shares_a_tie_in_every_formulation():
    def where(b, c):
        bb, first = b + 1, np.arange(3) == 0
        return np.where(first, np.minimum(bb, c), bb)

    def joined(b, c):
        bb = b + 1
        return np.concatenate([np.minimum(bb[:1], c[:1]), bb[1:]])

    def scattered(b, c):
        bb = b + 1
        return ad.slice_scatter(bb, np.minimum(bb[0:1], c[0:1]), 0, 0, 1)

    def by_index(b, c):
        bb = b + 1
        return ad.scatter(bb, 0, np.array([0]), np.minimum(bb[:1], c[:1]))

    for f in (where, joined, scattered, by_index):
        b, c = gradients(lambda b, c: f(b, c).sum(), np.zeros(3), np.ones(3))
        assert b[1:].tolist() == [1, 1] and c[1:].tolist() == [0, 0]
        assert 0 <= b[0] <= 1 and b[0] + c[0] == 1
        for first, expected in ((-0.5, ([1, 1, 1], [0, 0, 0])), (0.5, ([0, 1, 1], [1, 0, 0]))):
            b, c = gradients(f, np.array([first, 0, 0]), np.ones(3))
            assert (b.tolist(), c.tolist()) == expected
    with pytest.raises(TypeError, match="slice_scatter"):
        ad.Var(np.zeros(3))[0] = 1.0


# Connected or not


def test_B087_a_tensor_in_a_nested_list_keeps_its_gradient_or_is_refused():
    joins = [
        lambda x: np.concatenate([[x[0]]]), lambda x: np.concatenate([[[x[0]]]]), lambda x: np.array([[x[0]]]),
        lambda x: np.stack([[x[0]]]), lambda x: np.stack([np.stack([x[0]])]), lambda x: np.concatenate([[x[0]], x]),
        lambda x: np.concatenate([x, [x[0]]]), lambda x: np.hstack([x[0]]), lambda x: np.hstack([x[0], x[0]]),
        lambda x: np.vstack([[x[0]]]),
        lambda x: np.asarray([x[0], 1.0]), lambda x: np.array(x[0]), lambda x: np.block([[x[0]]]),
        lambda x: np.append(x, x[0]),
        lambda x: ad.Tensor([[x[0]]]), lambda x: np.sum([x[0]]), lambda x: np.float64(x[0]), lambda x: np.full(1, x[0]),
        lambda x: np.zeros(1) + [x[0]], lambda x: [x[0]] * np.ones(1),
    ]  # fmt: skip
    works = 0
    for join in joins:
        try:
            y = join(ad.Var([1.0]))
        except TypeError as error:
            assert re.search(r"np\.stack|\.detach\(\)|has no rule", f"{error} {error.__cause__}")
            continue
        got = gradients(join, [1.0])
        assert got.tolist() == [y.size]  # every entry is a copy of x[0]
        works += 1
    assert works >= 5
    assert gradients(lambda x: np.stack([np.stack([x[0]])]), [1.0]).tolist() == [1]
    jacobian = ad.jacobian(lambda x: np.stack([np.stack([x[0]])]))(np.array([1.0]))
    assert jacobian.tolist() == [[[1.0]]]


def test_B087_an_output_that_does_not_depend_on_the_input_says_so():
    cut = lambda x: np.sum(x.data * 2.0) + 0 * x.sum()
    report = ad.gradcheck(cut, np.array([1.0]), raise_exception=False)
    assert not report and report.verdict in ("disconnected", "nothing was checked", "zero where the slope is not")
    x = ad.Var([1.0])
    y = x.detach() * ad.Var([2.0])
    with pytest.raises(KeyError, match="behind a detach"):
        y.backward()[x]


def test_B088_switching_a_model_to_evaluation_does_not_switch_off_recording():
    class Model:
        def __init__(self):
            self.w, self.training = ad.Var([0.5, -1.0]), True

        def eval(self):
            self.training = False
            return self

        def __call__(self, x):
            noise = np.random.default_rng(0).normal(size=2) if self.training else 0.0
            return np.tanh(self.w * x + noise)

    model = Model().eval()
    out = model(np.array([1.0, 2.0]))
    assert out.tracked
    np.testing.assert_allclose(out.backward()[model.w].data, [1, 2] * (1 - np.tanh([0.5, -2.0]) ** 2), rtol=1e-14)
    with ad.no_grad():
        assert np.array_equal(model(np.array([1.0, 2.0])).data, out.data) and not model(np.ones(2)).tracked
        assert out.tracked and out.backward()[model.w].shape == (2,)  # recorded before: still a graph
    assert model(np.ones(2)).tracked


# Lifetime, depth and memory


def test_B090_two_losses_over_shared_nodes_can_be_differentiated_one_after_the_other():
    t = ad.Var(1.0)
    for shared, slope in ((lambda t: 2 * t, 2.0), (lambda t: t + t, 2.0), (lambda t: t * t, 2.0), (np.exp, math.e)):
        k = shared(t)
        losses = [2 * k, 3 * k]
        for order in (losses, losses[::-1], losses * 3):
            store, c = ad.GradStore(), ad.contracts.pytorch()
            for loss in order:
                store.extend(loss.backward())
                c.backward(loss, retain_graph=True)
            expected = 5 * slope * len(order) / 2
            assert store[t].item() == pytest.approx(expected, rel=1e-14) and c.grad(t) == pytest.approx(
                expected, rel=1e-14
            )


def test_B090_without_retain_graph_the_second_loss_works_where_nothing_was_saved_and_is_refused_where_it_was():
    t, c = ad.Var(1.0), ad.contracts.pytorch()
    k = t + t
    c.backward(2 * k)
    c.backward(3 * k)
    assert c.grad(t) == 10
    for shared in (lambda t: t * t, np.exp):
        c, k = ad.contracts.pytorch(), shared(t)
        c.backward(2 * k)
        before = c.grad(t)
        with pytest.raises(RuntimeError, match="retain_graph"):
            c.backward(3 * k)
        assert c.grad(t) == before  # refused, and nothing added


@pytest.fixture(scope="module")
def deep():
    """What came of each deep graph of deep_chains.py, a process of its own because such a graph can end one."""
    script = pathlib.Path(__file__).with_name("deep_chains.py")
    try:
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240)
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"still at it after {late.timeout:.0f} s: {late.stderr}")
    assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stderr}"
    return dict(map(json.loads, done.stdout.splitlines()))


def test_B098_a_deep_graph_is_differentiated_and_freed_without_recursion(deep):
    g, freed = deep["long"]
    assert freed and g == pytest.approx(float(mpmath.mpf("1.002") ** 50_000), rel=1e-10)
    assert deep["plain"] == [1.0, True]


@pytest.mark.parametrize("step", deep_chains.STEPS)
def test_B098_no_kind_of_node_frees_what_is_below_it_by_recursion(deep, step):
    g, freed = deep[step]
    assert freed and np.isfinite(g).all() and np.shape(g) == (2,)


def test_B098_deep_gradient_graphs_and_the_scalar_engine_are_freed_without_recursion(deep):
    assert deep["gradient graph"] == [5_001, True] and deep["list"]
    assert deep["scalar"] == pytest.approx(1.0001**20_000, rel=1e-9)


def test_B100_stacking_thousands_of_tensors_needs_no_recursion(deep):
    assert deep["many inputs"] == [True] * 6


def linear_model():
    w = ad.Var(np.full((4, 4), 0.1))
    return w, lambda x: np.tanh(np.tanh(x @ w) @ w)


def contract_step(life_cycle):
    def work():
        x, c = ad.Var(1.5), life_cycle()
        c.backward(np.tanh(x) * x)
        return c.grad(x)

    return work


def missing_key():
    x = ad.Var(1.0)
    with pytest.raises(KeyError):
        (x * 2).backward()[ad.Var(1.0)]


def whole_graph():
    x = ad.Var(1.0)
    g = np.tanh(x).backward(detach="none")[x]
    return g.backward(detach="none")[x].backward()[x]


ACTIONS = {
    "gradient of a gradient": whole_graph, "nested grads": lambda: ad.grad(ad.grad(np.tanh))(1.0),
    "hessian": lambda: ad.hessian(lambda x: (x * x).sum())(np.ones(3)),
    "hvp": lambda: ad.hvp(lambda x: (x**3).sum(), np.ones(2), np.ones(2)),
    "jvp": lambda: ad.jvp(np.sin, (1.0,), (1.0,)), "pullback": lambda: ad.vjp(np.tanh, 1.0)[1](1.0),
    "checkpoint": lambda: ad.grad(ad.checkpoint(lambda x: np.sin(np.exp(x))))(1.0),
    "custom op": lambda: ad.grad(deep_chains.passed_on)(1.0),
    "missing gradient": missing_key, "candle": contract_step(ad.contracts.candle),
    "pytorch": contract_step(ad.contracts.pytorch),
    "burn": contract_step(ad.contracts.burn), "reset": contract_step(ad.contracts.reset),
    "sum over a joint rule": lambda: ad.grad(lambda x: np.linalg.svd(x, compute_uv=False).sum())(np.eye(2) + 0.1),
}  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS)
def test_B102_nothing_leaves_a_tensor_in_a_reference_cycle(action):
    ACTIONS[action]()  # what a first call caches is not what is asked about
    with no_collector():
        try:
            gc.set_debug(gc.DEBUG_SAVEALL)
            ACTIONS[action]()
            gc.collect()
            assert not [t for t in gc.garbage if isinstance(t, (ad.Tensor, ad.GradStore))]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()


def test_B102_a_gradient_with_a_graph_is_freed_with_its_last_name():
    with no_collector():
        x = ad.Var(1.0)
        y = np.tanh(x)
        store = y.backward(detach="none")
        g = store[x]
        assert g.tracked and g.item() == pytest.approx(1 - math.tanh(1) ** 2)
        refs = [weakref.ref(t) for t in (x, y, g)]
        del x, y, store, g
        assert [r() for r in refs] == [None, None, None]


def test_B102_B104_neither_a_store_nor_a_detached_tensor_keeps_a_graph_alive():
    with no_collector():
        x = ad.Var([1.0, 2.0])
        y = np.tanh(x * 3.0)
        inner, store, cut = weakref.ref(y.op.inputs[0]), y.backward(), y.detach()
        part = cut[:1] * 2.0
        del y
        assert inner() is None
        assert x in store and cut.shape == (2,) and part.shape == (1,)


@pytest.mark.parametrize("with_backward", [False, True])
def test_B104_dropping_the_last_output_frees_its_graph_with_or_without_a_backward(with_backward):
    w, model = linear_model()
    x = np.ones((10_000, 4))
    with no_collector():
        peaks, refs = [], []
        tracemalloc.start()
        try:
            for _ in range(12):
                tracemalloc.reset_peak()
                y = model(x)
                refs += [weakref.ref(y), weakref.ref(y.op.inputs[0])]
                if with_backward:
                    assert y.backward()[w].shape == (4, 4)
                peaks.append(tracemalloc.get_traced_memory()[1])
            alive = sum(r() is not None for r in refs)
            assert alive == 2  # the last output and its input
            del y
            assert not any(r() is not None for r in refs)
            assert tracemalloc.get_traced_memory()[0] < x.nbytes  # not one of the 12 x 4 results of that size is left
        finally:
            tracemalloc.stop()
    assert peaks[-1] < peaks[2] + x.nbytes


# What a gradient checker must see


def faulty(forward, partial, name="faulty"):
    """An op of one input with this partial, right or wrong."""
    run = lambda x: forward(x)
    run.__name__ = name
    return ad.custom_op(vjps=[partial])(run)


def check(f, inputs, **options):
    with np.errstate(all="ignore"):
        return ad.gradcheck(f, inputs, raise_exception=False, **options)


@pytest.mark.parametrize("fast", [False, True])
def test_B106_an_input_with_shared_memory_is_neither_falsely_failed_nor_waved_through(fast):
    u = np.array([1.0])
    v = np.broadcast_to(u, 2)
    assert check(lambda v: v.sum() ** 2, v, fast_mode=fast)
    assert gradients(lambda v: v.sum() ** 2, v).tolist() == [4, 4]
    line = np.array([0.3, -0.4, 0.7])
    twice = faulty(lambda x: x * x, lambda g, y, x: g * x)
    for shared in (
        v,
        np.lib.stride_tricks.as_strided(line, (2, 2), (8, 8)),
        line[::-1],
        np.broadcast_to(line[:, None], (3, 2)).T,
    ):
        before = shared.copy()
        assert check(lambda x: np.tanh(x) * x, shared, fast_mode=fast)
        assert not check(twice, shared, fast_mode=fast)
        assert shared.tobytes() == before.tobytes()
    assert check(lambda a, b: a * b, (line, line), fast_mode=fast)
    assert check(lambda a, b: a * b, (line, line[::-1]), fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_B108_an_output_that_does_not_depend_on_the_input_is_slope_zero_and_no_crash(fast):
    wrong = faulty(lambda x: 2 * x, lambda g, y, x: 3 * g)
    for x in (np.array([1.0]), np.array([[0.5, -2.0], [1.5, 3.0]])):
        for still in (lambda x: np.zeros_like(x), lambda x: np.zeros(x.shape), lambda x: ad.Tensor(np.zeros(x.shape)),
                      np.sign, np.floor,
                      lambda x: x.detach() * 0.0, lambda x: np.argmax(x), lambda x: x > 0,
                      lambda x: x.astype(int)):  # fmt: skip
            x = x + 0.25  # off the jumps of floor
            assert check(lambda x: (still(x), 2 * x), x, fast_mode=fast)
            assert check(lambda x: (2 * x, still(x)), x, fast_mode=fast)
            assert not check(lambda x: (still(x), wrong(x)), x, fast_mode=fast)
    assert ad.jacobian(lambda x: (np.zeros_like(x), 2 * x))(np.array([1.0]))[1].tolist() == [[2]]
    assert ad.jacobian(lambda x: (np.zeros_like(x), 2 * x))(np.array([1.0]))[0].tolist() == [[0]]


@pytest.mark.parametrize("n", [1, 40, 3000])
@pytest.mark.parametrize("fast", [False, True])
def test_B110_neither_many_inputs_nor_many_outputs_loosen_the_check(n, fast):
    x = np.random.default_rng(0).uniform(-1, 1, n)
    slight = faulty(np.sin, lambda g, y, x: 1.001 * g * np.cos(x))
    for f in (lambda x: np.sin(x).sum(), lambda x: np.sin(x).mean(), lambda x: np.sum(1e3 * np.sin(x))):
        assert check(f, x, fast_mode=fast)
    for f in (lambda x: slight(x).sum(), lambda x: np.sum(1e3 * slight(x))):
        assert not check(f, x, fast_mode=fast)
    assert check(lambda s: np.sin(s * x), 0.7, fast_mode=fast)
    assert not check(lambda s: slight(s * x), 0.7, fast_mode=fast)


def test_B110_one_wrong_entry_among_many_is_found_by_its_place():
    wrong = faulty(np.sin, lambda g, y, x: g * np.cos(x) * (1 + 1e-3 * (np.arange(x.size) == 777)))
    report = check(lambda x: wrong(x).sum(), np.linspace(0.1, 1, 1000))
    assert not report and report.worst.index == (777,) and report.wrong == 1


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_B112_a_wrong_gradient_cannot_hide_at_right_angles_to_the_direction(seed, fast):
    u = np.random.RandomState(0).randn(2)
    hidden = faulty(np.sum, lambda g, y, x: g * (1 + 5 * np.array([-u[1], u[0]])))
    for rng in (seed, np.random.RandomState(seed).randint(1 << 30)):
        assert not check(hidden, np.array([1.0, 2.0]), rng=rng, fast_mode=fast)
    drawn = np.random.default_rng(seed).normal(size=4)  # nor to one that is drawn as the checker may draw its own
    square = drawn - drawn.mean()
    off = faulty(np.sum, lambda g, y, x: g * (1 + square))
    assert not check(off, np.arange(4.0), rng=seed, fast_mode=fast)
    assert check(np.sum, np.array([1.0, 2.0]), rng=seed, fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_B112_nan_does_not_agree_with_nan(fast):
    x = np.array([1.0, 2.0])
    nan_slope = faulty(np.sum, lambda g, y, x: g * np.full(2, np.nan))
    nan_value = faulty(lambda x: x * np.nan, lambda g, y, x: g * np.nan)
    for f in (nan_slope, nan_value, lambda x: np.sum(nan_value(x)), lambda x: (np.sin(x), nan_value(x))):
        report = check(f, x, fast_mode=fast)
        assert not report and report.verdict == "not finite"
    assert not check(np.sin, np.array([np.nan, 1.0]), fast_mode=fast)


def test_B114_a_failure_names_input_output_entry_both_numbers_and_the_error():
    @ad.custom_op(
        vjps=[lambda g, y, scale, shift: g * shift, lambda g, y, scale, shift: g * scale * np.array([1.0, 1.0, 4.0])]
    )
    def product(scale, shift):
        return scale * shift

    def model(scale, shift):
        return scale + shift, product(scale, shift)

    inputs = (np.array([2.0, 3.0, 5.0]), np.array([7.0, 11.0, 13.0]))
    with pytest.raises(AssertionError) as error:
        ad.gradcheck(model, inputs)
    report = error.value.report
    worst, text = report.worst, str(error.value)
    assert (worst.input, worst.index) == ("shift", (2,)) and "output 1" in worst.output and "2" in worst.output
    assert worst.analytic == pytest.approx(20) and worst.numeric == pytest.approx(5, rel=1e-6)
    assert worst.absolute == pytest.approx(15, rel=1e-6) and worst.relative == pytest.approx(0.75, rel=1e-6)
    for said in ("shift[2]", "output 1[2]", "20", "5", "15", "0.75", "wrong value", "product"):
        assert said in text
    assert report.wrong == 1 and report.checked == 36


@pytest.mark.parametrize(
    ("f", "x", "said"),
    [(faulty(np.sin, lambda g, y, x: -g * np.cos(x)), [0.5], "x[0]"),
     (lambda x: x.detach() ** 2 + 0 * x, [0.5, 1.0], "x"),
     (lambda x: x.astype(int), [0.5], "int64"), (lambda x: ad.Var(1.0) * 2, [0.5], "x"), (np.sqrt, [-1.0], "nan"),
     (faulty(np.sin, lambda g, y, x: np.ones(1)), [0.5], "x[0]"), (lambda x: x * np.random.normal(), [0.5], "output")],
    ids=["sign", "cut", "integer", "ignored", "nan", "not multiplied", "random"],
)  # fmt: skip
def test_B114_every_message_is_filled_in_and_names_what_it_is_about(f, x, said):
    report = check(f, np.array(x))
    assert not report
    for text in (str(report), report._repr_html_(), str(ad.GradcheckError(report))):
        assert said in text and "{" not in text and "}" not in text


def test_B116_every_planted_fault_is_caught_and_the_right_rule_is_not():
    x, matrix = np.array([0.3, -0.7, 1.1]), np.array([[0.3, 0.5], [-0.7, 1.1]])
    right = [(np.sin, lambda g, y, x: g * np.cos(x), x), (np.sum, lambda g, y, x: g * np.ones_like(x), x),
             (lambda x: x @ x, lambda g, y, x: g @ x.mT + x.mT @ g, matrix),
             (lambda x: x[::-1] * 2, lambda g, y, x: 2 * g[::-1], x)]  # fmt: skip
    for forward, partial, at in right:
        for fast in (False, True):
            assert check(faulty(forward, partial), at, fast_mode=fast)
    wrong = {
        "sign": (np.sin, lambda g, y, x: -g * np.cos(x), x), "factor": (np.sin, lambda g, y, x: 2 * g * np.cos(x), x),
        "half": (np.sin, lambda g, y, x: g * np.cos(x) / 2, x), "zeros": (np.sin, lambda g, y, x: 0 * g, x),
        "none": (np.sin, lambda g, y, x: None, x), "cotangent dropped": (np.sin, lambda g, y, x: np.cos(x), x),
        "the value for the slope": (np.sin, lambda g, y, x: g * y, x),
        "shifted": (np.sin, lambda g, y, x: np.roll(g * np.cos(x), 1), x),
        "mean for sum": (np.sum, lambda g, y, x: g * np.ones_like(x) / 3, x),
        "one entry": (np.sin, lambda g, y, x: g * np.cos(x) * [1, 1, 1.01], x),
        "transposed": (lambda x: x * [[1, 2], [3, 4]], lambda g, y, x: (g * [[1, 2], [3, 4]]).mT, matrix),
        "dropped path": (lambda x: x @ x, lambda g, y, x: g @ x.mT, matrix),
        "not reversed": (lambda x: x[::-1] * 2, lambda g, y, x: 2 * g, x),
        "constant off": (np.sin, lambda g, y, x: g * np.cos(x) + 1e-3, x),
        "nearly": (np.sin, lambda g, y, x: g * np.cos(x) * 1.0005, x),
        "shape": (np.sum, lambda g, y, x: g, x),
        "dtype": (np.sin, lambda g, y, x: (g * np.cos(x)).astype(np.float32), x),
    }  # fmt: skip
    for name, (forward, partial, at) in wrong.items():
        op = faulty(forward, partial)
        for fast in (False, True):
            with pytest.raises((AssertionError, ValueError, TypeError)):  # shape and dtype: from custom_op itself
                ad.gradcheck(op, at, fast_mode=fast)
                pytest.fail(name)
    assert not check(lambda x: ad.Tensor([1.0]), x) and not check(np.argmax, x)  # nothing was checked


# Operations of a user's own


def test_B118_a_partial_that_returns_none_means_no_gradient_wherever_its_input_stands():
    for position in (0, 1):
        for none in (None, lambda g, y, a, b: None):
            mine = lambda g, y, a, b: -g * np.ones_like((a, b)[position])
            vjps = [mine, none] if position == 0 else [none, mine]

            @ad.custom_op(vjps=vjps)
            def loss(a, b):
                return -np.sum((a, b)[position])

            def call(i, label):
                return loss(i, label) if position == 0 else loss(label, i)

            i, label = ad.Var([1.0]), ad.Var([1.0])
            for behind in (label, label * 2, np.tanh(label), ad.Tensor([1.0]), np.array([1.0])):
                store = call(i, behind).backward()
                assert store[i].data.tolist() == [-1] and label not in store
            assert call(i, label).backward(detach="none")[i].data.tolist() == [-1]
            assert ad.grad(call, (0, 1))(np.ones(1), np.ones(1))[1].tolist() == [0]
            both = call(i, label * 3.0) + (label * i).sum()  # what comes by other ways still counts
            store = both.backward()
            assert store[label].data.tolist() == [1] and store[i].data.tolist() == [0]
            assert call(i, label).backward(wrt=[label]).get(label) is None


def test_B120_none_is_passed_on_as_no_gradient_and_not_as_zeros():
    double = faulty(lambda x: 2 * x, lambda g, y, x: None, name="double")
    x = ad.Var([1.0])
    for y in (double(x), double(x * 3), np.tanh(double(np.sin(x))).sum()):
        store = y.backward()
        assert x not in store and store.get(x) is None
        with pytest.raises(KeyError, match=r"no gradient for Var"):
            store[x]
        c = ad.contracts.pytorch()
        c.backward(y.sum())
        assert c.grad(x) is None
    c = ad.contracts.candle()
    c.backward(double(x))
    assert c.grad(x) is None
    for life_cycle, y in ((ad.contracts.candle, double(x * 3)), (ad.contracts.burn, double(x))):  # what these two do
        with pytest.raises(RuntimeError, match="no rule gave a gradient"):
            life_cycle().backward(y)
    assert (double(x) + x * 5).backward()[x].data.tolist() == [5]
    assert ad.grad(lambda x: double(x).sum())(np.ones(1)).tolist() == [0]
    assert not check(double, np.ones(1))


@pytest.mark.parametrize(
    ("share", "error", "got"),
    [(np.ones(5), ValueError, r"\(5,\)"), (np.ones(()), ValueError, r"\(\)"), (np.ones(1), ValueError, r"\(1,\)"),
     (np.ones((3, 1)), ValueError, r"\(3, 1\)"), (np.ones((1, 3)), ValueError, r"\(1, 3\)"), (2.0, ValueError, r"\(\)"),
     ([1.0, 1.0], ValueError, r"\(2,\)"), (np.ones(3, np.float32), TypeError, "float32"),
     (np.ones(3, int), TypeError, "int64")],
)  # fmt: skip
def test_B122_a_share_of_the_wrong_shape_or_dtype_is_an_error_that_names_op_and_operand(share, error, got):
    @ad.custom_op(vjps=[lambda g, y, values, k: share, None])
    def total(values, k):
        return np.sum(values) * k

    x = ad.Var([1.0, 1.0, 1.0])
    expected = r"\(3,\)" if error is ValueError else "float64"
    for y in (total(x, 1.0), np.exp(total(x * 2, 1.0)), total(x, 1.0) + x.sum()):
        for detach in ("all", "none"):
            with pytest.raises(error, match=rf"total for values returned.*{got}, expected {expected}"):
                y.backward(detach=detach)
    right = ad.custom_op(vjps=[lambda g, y, x: g * np.ones(3)])(lambda x: np.sum(x))
    assert right(x).backward()[x].data.tolist() == [1, 1, 1]


def test_B124_the_users_own_rule_is_used_by_every_way_to_differentiate():
    still = faulty(np.sin, lambda g, y, x: 0 * g, name="still")
    x = np.array([1.0])
    f = lambda x: still(x).sum()
    v = ad.Var(x)
    answers = [
        still(v).backward()[v].data, still(v).backward(detach="none")[v].data, still(v).backward(wrt=[v])[v].data,
        still(v).backward(strong_zero=True)[v].data, ad.grad(f)(x), ad.value_and_grad(f)(x)[1],
        ad.jacobian(still)(x)[0],
        ad.vjp(still, x)[1](np.ones(1))[0], ad.jvp(still, (x,), (np.ones(1),))[1], ad.hessian(f)(x)[0],
        ad.grad(ad.checkpoint(f))(x),
        ad.hvp(f, x, np.ones(1)), ad.grad(lambda x: ad.grad(f)(x).sum())(x),
        ad.contracts.candle().backward(still(v))[v].data,
    ]  # fmt: skip
    assert [a.tolist() for a in answers] == [[0.0]] * len(answers)
    np.testing.assert_allclose(still(v).data, np.sin(x), rtol=1e-15)
    straight = faulty(np.round, lambda g, y, x: g, name="straight")  # a slope where the function itself has none
    assert gradients(straight, [0.4, 1.6]).tolist() == [1, 1]
    assert check(still, x).verdict == "zero where the slope is not"


# Threads


def test_B125_graphs_built_and_differentiated_on_many_threads_do_not_disturb_each_other():
    shared, barrier, failures = ad.Var(0.5), threading.Barrier(8), []

    def work(k):
        barrier.wait()
        for _ in range(60):
            own = ad.Var(float(k))
            with ad.no_grad():
                assert not (own * shared).tracked
            y = own * shared
            for _ in range(10):
                y = y + own * 2.0
            store = y.backward()
            assert store[own].item() == 20.5 and store[shared].item() == k
            if k % 2:
                with ad.detect_nonfinite():
                    assert ad.grad(lambda x: x**3)(float(k)) == 3 * k * k
            else:
                zero = ad.Var(0.0)
                with np.errstate(divide="ignore"):
                    assert np.isinf(np.log(zero).backward()[zero].item())  # nobody asked for finite numbers here

    def guarded(k):
        try:
            work(k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(8)]
    with ad.no_grad(), ad.detect_nonfinite():  # of this thread, and no other's business
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not failures


def test_B125_one_thread_differentiates_while_another_builds_on_and_drops_the_same_nodes():
    x, stop, failures = ad.Var(np.linspace(0, 1, 20)), threading.Event(), []
    base = np.sin(x) * x
    expected = np.cos(x.data) * x.data + np.sin(x.data)

    def build():
        try:
            while not stop.is_set():
                y = base
                for _ in range(20):
                    y = y + base
                np.testing.assert_allclose(y.backward()[x].data, 21 * expected, rtol=1e-12)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=build) for _ in range(3)]
    for t in threads:
        t.start()
    for _ in range(300):
        np.testing.assert_allclose(base.backward()[x].data, expected, rtol=1e-13)
    stop.set()
    for t in threads:
        t.join()
    assert not failures


# Detaching, products with Jacobians, an operation worked out by hand


def test_B127_a_detached_copy_keeps_the_value_and_loses_its_share_of_the_gradient():
    def constant(t):
        with ad.no_grad():
            return t * 1.0

    for x, c in ((3.0, 0.5), (-2.0, 0.25), (1.5, 1.0)):
        full = lambda x: (x - x * c) ** 2
        assert gradients(full, x) == pytest.approx(2 * (1 - c) ** 2 * x, rel=1e-14)
        for stop in (lambda t: t.detach(), lambda t: ad.Tensor(t.data), lambda t: t.data, lambda t: t.item(), constant):
            stopped = lambda x: (x - stop(x * c)) ** 2
            assert gradients(stopped, x) == pytest.approx(2 * (1 - c) * x, rel=1e-14)
            assert stopped(ad.Var(x)).item() == full(x)
    for f, slope, after in ((lambda x: (x - x / 2) ** 2, 1.5, 2.85), (lambda x: (x - (x / 2).detach()) ** 2, 3.0, 2.7)):
        x = ad.Var(3.0)
        store = f(x).backward()
        assert store[x].item() == slope
        ad.optim.SGD([x], lr=0.1).step(store)
        assert x.item() == pytest.approx(after, rel=1e-15)


def test_B127_the_checker_lists_a_detached_tensor_and_can_hold_it_constant():
    f = lambda x: (x - (x / 2).detach()) ** 2
    report = check(f, 3.0)
    assert not report and len(report.detached) == 1
    held = check(f, 3.0, hold_detached=True)
    assert held and held.worst.analytic == pytest.approx(3)


def test_B129_a_vector_times_a_jacobian_is_the_same_by_every_way():
    f = lambda x: np.stack([x[0] * x[1], x[0] ** 2 + x[1]])
    rng = np.random.default_rng(0)
    cases = [(np.array([2.0, 3.0]), np.array([2.0, 3.0]))] + [tuple(rng.normal(size=(2, 2))) for _ in range(5)]
    for x, v in cases:
        jacobian = np.array([[x[1], x[0]], [2 * x[0], 1.0]])
        expected, direction = v @ jacobian, rng.normal(size=2)
        y, pull = ad.vjp(f, x)
        np.testing.assert_allclose(y, [x[0] * x[1], x[0] ** 2 + x[1]], rtol=1e-15)
        np.testing.assert_allclose(ad.jacobian(f)(x), jacobian, rtol=1e-15)
        for got in (pull(v)[0], pull(v)[0], gradients(f, x, cotangent=v), ad.grad(lambda x: v @ f(x))(x)):
            np.testing.assert_allclose(got, expected, rtol=1e-14)
        np.testing.assert_allclose(ad.jvp(f, (x,), (direction,))[1], jacobian @ direction, rtol=1e-14)
        np.testing.assert_allclose(pull(2 * v + 1)[0], 2 * expected + pull(np.ones(2))[0], rtol=1e-13)
    assert ad.vjp(f, np.array([2.0, 3.0]))[1](np.array([2.0, 3.0]))[0].tolist() == [18, 7]


def test_B130_an_expression_and_the_same_as_one_op_have_the_derivatives_worked_out_by_hand():
    @ad.custom_op(vjps=[lambda g, z, x, y: g * (y * np.cos(x * y) + 2 * x), lambda g, z, x, y: g * x * np.cos(x * y)])
    def whole(x, y):
        return np.sin(x * y) + x**2

    parts = lambda x, y: np.sin(x * y) + x**2
    for f in (parts, whole):
        np.testing.assert_allclose(gradients(f, 0.7, -1.3), (0.6021305256645448, 0.4296220246421681), rtol=1e-14)
        for x, y in np.random.default_rng(0).normal(size=(5, 2)):
            s, c = (float(t(mpmath.mpf(x) * mpmath.mpf(y))) for t in (mpmath.sin, mpmath.cos))
            np.testing.assert_allclose(gradients(f, x, y), (y * c + 2 * x, x * c), rtol=1e-12)
            second = [[-y * y * s + 2, c - x * y * s], [c - x * y * s, -x * x * s]]
            np.testing.assert_allclose(ad.hessian(f, (0, 1))(x, y), second, rtol=1e-11, atol=1e-13)
        assert ad.gradcheck(f, (np.array(0.7), np.array(-1.3))) and ad.gradgradcheck(f, (0.7, -1.3))
