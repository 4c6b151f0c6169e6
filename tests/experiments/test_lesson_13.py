"""Lesson 13, your own op: its numbers computed anew, and what its stored outputs show."""

import math

import mpmath
import numpy as np
import pytest

import autodiff as ad
from test_lessons import stored

NAME = "13_your_own_op.ipynb"


def by_x(g, out, x, y):
    return g * (y * np.cos(x * y) + 2 * x)


def by_y(g, out, x, y):
    return g * x * np.cos(x * y)


def forward(x, y):
    return np.sin(x * y) + x**2


def wave(*vjps):
    return ad.custom_op(vjps=vjps or [by_x, by_y])(forward)


def verdict(f, point, **options):
    return ad.gradcheck(f, point, raise_exception=False, **options).verdict


def table(text):
    """The first column of a printed table -> the words after it."""
    return {line[:16].strip(): line[16:].split() for line in text.splitlines() if line[:16].strip()}


# sin(x * y) + x**2 as one op


def test_one_op_gives_the_value_and_gradients_of_four():
    x, y = ad.Var(3.0), ad.Var(2.0)
    for f in (forward, wave()):
        L = f(x, y)
        grads = L.backward()
        assert L.item() == pytest.approx(math.sin(6) + 9) and round(L.item(), 6) == 8.720585
        assert grads[x].item() == pytest.approx(2 * math.cos(6) + 6) and round(grads[x].item(), 6) == 7.920341
        assert grads[y].item() == pytest.approx(3 * math.cos(6)) and round(grads[y].item(), 6) == 2.880511
    assert len(ad.sorted_nodes(forward(x, y))) == 6 and len(ad.sorted_nodes(wave()(x, y))) == 3
    shown = stored(NAME, "wave")
    for name in ("four ops", "one op  "):
        assert f"{name}  value 8.720585   x 7.920341   y 2.880511" in shown


@pytest.mark.torch
def test_torch_gives_the_same_two_gradients():
    torch = pytest.importorskip("torch")
    x, y = (torch.tensor(v, dtype=torch.double, requires_grad=True) for v in (3.0, 2.0))
    (torch.sin(x * y) + x**2).backward()
    assert round(x.grad.item(), 6) == 7.920341 and round(y.grad.item(), 6) == 2.880511


def test_the_stepper_shows_the_user_s_own_lines_with_the_right_numbers():
    shown = stored(NAME, "step")
    assert "wave: g * (y * np.cos(x * y) + 2 * x)  with g = 1, x = x = 3, y" in shown
    assert "1 * (2 * np.cos(3 * 2) + 2 * 3) = 7.92034" in shown and "1 * 3 * np.cos(3 * 2) = 2.88051" in shown


def test_a_solver_as_one_op_has_the_gradient_of_the_solution():
    def solve(x):
        w = np.log1p(x)
        for _ in range(20):
            e = np.exp(w)
            w = w - (w * e - x) / (e * (1 + w))
        return w

    solved = ad.custom_op(vjps=[lambda g, w, x: g / (np.exp(w) * (1 + w))])(solve)
    t = ad.Var(2.0)
    exact, slope = float(mpmath.lambertw(2)), float(mpmath.diff(mpmath.lambertw, 2).real)
    for f, nodes in [(solve, 142), (solved, 2)]:
        w = f(t)
        assert w.item() == pytest.approx(exact) and w.backward()[t].item() == pytest.approx(slope)
        assert len(ad.sorted_nodes(w)) == nodes
    assert ad.gradcheck(solved, np.array([0.5, 2.0, 10.0]))
    shown = stored(NAME, "lambert")
    assert (round(exact, 6), round(slope, 6)) == (0.852606, 0.230110)
    assert "recorded   w 0.852606   gradient 0.230110   nodes 142" in shown
    assert "custom op  w 0.852606   gradient 0.230110   nodes 2" in shown


# Shapes, dtypes, None


def test_errors_name_op_operand_and_shapes():
    rows, bias, x = ad.Var(np.ones((4, 3))), ad.Var(np.ones(3)), ad.Var(3.0)
    f = wave()
    f.__name__ = "wave"
    with pytest.raises(ValueError, match=r"for y returned shape \(4, 3\), expected \(3,\), the shape of y"):
        f(rows, bias).backward()
    single = ad.custom_op(vjps=[lambda g, out, x: (g * np.cos(x)).astype("float32")])(lambda x: np.sin(x))
    with pytest.raises(TypeError, match="returned float32, expected float64"):
        single(x).backward()
    with pytest.raises(TypeError, match=r"takes 2 operands \(x, y\), one for each of its vjps, got 1"):
        f(x)
    shown = stored(NAME, "errors")
    assert "the partial of wave for y returned shape (4, 3), expected (3,), the shape of y" in shown
    assert "the partial of sine for x returned float32, expected float64" in shown
    assert "wave takes 2 operands (x, y), one for each of its vjps, got 1" in shown


def test_broadcast_outside_and_summing_inside_give_the_bias_its_gradient():
    rows, bias = ad.Var(np.ones((4, 3))), ad.Var(np.ones(3))
    outside = wave()(rows, np.broadcast_to(bias, (4, 3))).backward()[bias].data
    inside = wave(by_x, lambda g, out, x, y: by_y(g, out, x, y).sum(axis=0))(rows, bias).backward()[bias].data
    for gradient in (outside, inside):
        np.testing.assert_allclose(gradient, [4 * math.cos(1)] * 3)
    assert round(4 * math.cos(1), 6) == 2.161209
    assert "[2.161209 2.161209 2.161209]" in stored(NAME, "shapes-cure-run")
    assert stored(NAME, "others-run").count("[2.161209 2.161209 2.161209]") == 2


@pytest.mark.torch
def test_torch_sums_a_wrong_shape_and_converts_a_wrong_dtype_in_silence():
    torch = pytest.importorskip("torch")

    class Wave(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return torch.sin(x * y) + x**2

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return None, (g * x * torch.cos(x * y)).float()

    x = torch.ones(4, 3, dtype=torch.double, requires_grad=True)
    y = torch.ones(3, dtype=torch.double, requires_grad=True)
    Wave.apply(x, y).sum().backward()
    assert y.grad.shape == (3,) and y.grad.dtype == torch.double and x.grad is None


def test_none_ends_the_way_and_the_check_says_disconnected():
    x, k = ad.Var(3.0), ad.Var(1.0)
    half = wave(by_x, None)
    grads = half(x, 2 * k).backward()
    assert k not in grads and round(grads[x].item(), 6) == 7.920341
    assert verdict(half, (3.0, 2.0)) == "disconnected"
    shown = stored(NAME, "none-run")
    assert "k in the store: False" in shown and "only reached through Tensor = half_wave(...)" in shown
    assert "gradcheck: disconnected. The slope of output with respect to y is 2.880511" in shown


# Checking at several points


RULES = {
    "right": [by_x, by_y],
    "2x dropped": [lambda g, out, x, y: g * y * np.cos(x * y), by_y],
    "cos missing": [lambda g, out, x, y: g * (y + 2 * x), lambda g, out, x, y: g * x],
    "x, y exchanged": [lambda g, out, x, y: by_x(g, out, 0, 0) + g * (x * np.cos(x * y) + 2 * x),
                       lambda g, out, x, y: g * y * np.cos(x * y)],
    "g missing": [lambda g, out, x, y: by_x(1, out, x, y), by_y],
    "plus 0.00005": [lambda g, out, x, y: by_x(g, out, x, y) + 5e-5 * g, by_y],
    "cos in float32": [by_x, lambda g, out, x, y: g * x * np.cos(np.float32(x * y)).astype(float)],
}  # fmt: skip
POINTS = [(0.0, 0.0), (0.0001, 0.0002), (1.5, 1.5), (3.0, 2.0), (300.1, 20.3)]


def test_every_wrong_rule_passes_somewhere_and_every_point_lets_one_pass():
    found = {name: [verdict(wave(*vjps), point) != "match" for point in POINTS] for name, vjps in RULES.items()}
    assert found == {
        "right": [False] * 5,
        "2x dropped": [False, True, True, True, True],
        "cos missing": [False, False, True, True, True],
        "x, y exchanged": [False, True, False, True, True],
        "g missing": [False, True, True, True, True],
        "plus 0.00005": [True, True, True, False, False],
        "cos in float32": [False, False, False, False, True],
    }
    wrong = [row for name, row in found.items() if name != "right"]
    assert all(any(row) and not all(row) for row in wrong) and not any(all(column) for column in zip(*wrong))
    shown = table(stored(NAME, "faults-run"))
    assert {name: [mark == "FOUND" for mark in shown[name]] for name in found} == found


def test_partials_in_numpy_are_right_to_second_order():
    assert ad.gradgradcheck(wave(), (3.0, 2.0))
    assert "gradgradcheck: match" in stored(NAME, "check")


# The straight-through estimator


@ad.custom_op(vjps=[lambda g, out, x: g])
def round_through(x):
    return np.round(x)


def with_detach(x):
    return x + (np.round(x) - x).detach()


def test_same_forward_other_gradient():
    z = ad.Var([0.4, 1.6])
    plain, through = np.round(z), round_through(z)
    assert np.array_equal(plain.data, through.data) and plain.data.tolist() == [0, 2]
    assert z not in plain.backward() and through.backward()[z].data.tolist() == [1, 1]
    shown = stored(NAME, "through-run")
    assert "plain   value [0. 2.]   gradient None" in shown and "through value [0. 2.]   gradient [1. 1.]" in shown


def test_the_check_refuses_the_op_and_accepts_the_claim():
    report = ad.gradcheck(round_through, 0.3, raise_exception=False)
    assert report.verdict == "wrong value" and (report.worst.analytic, report.worst.numeric) == (1, 0)
    assert verdict(with_detach, 0.3, hold_detached=True) == "match"
    assert "wrong value. The slope of output with respect to x is 0; the gradient says 1." in stored(
        NAME, "through-check")  # fmt: skip
    shown = stored(NAME, "through-detach-run")
    assert "forward is np.round: True\ngradients equal: True\ngradcheck: match." in shown


SIGNAL = np.array([0.10, 0.15, 0.20, 0.22, 0.25, 0.27, 0.28, 0.29, 0.90])


def loss(w, rounding, strong):
    return ((rounding(w * SIGNAL) - np.array([0.0] * 8 + [strong])) ** 2).mean()


def train(rounding, strong, steps):
    w, path = ad.Var(0.4), []
    for _ in range(steps + 1):
        path.append(w.item())
        gradient = loss(w, rounding, strong).backward().get(w)
        if gradient is not None:
            w.set(w.data - 0.2 * gradient.data)
    return path


def test_only_the_estimator_finds_the_meter():
    finals = [train(rounding, 2, 60)[-1] for rounding in (np.round, np.positive, round_through)]
    assert [f"{w:.3f}" for w in finals] == ["0.400", "1.428", "1.680"]
    losses = [loss(w, np.round, 2) for w in finals]
    assert [f"{value:.3f}" for value in losses] == ["0.444", "0.111", "0.000"]
    shown = stored(NAME, "train")
    for name, w, value, wrong in [("np.round      ", 0.4, 0.444, 1), ("no rounding   ", 1.428, 0.111, 1),
                                  ("round_through ", 1.68, 0, 0)]:  # fmt: skip
        assert f"{name} w = {w:.3f}   loss of the real meter {value:.3f}   wrong signals {wrong}" in shown


def test_without_rounding_the_minimum_is_outside_the_right_interval():
    shown = np.array([0.0] * 8 + [2])
    assert round((SIGNAL * shown).sum() / (SIGNAL**2).sum(), 3) == 1.465
    right = [w for w in np.linspace(0, 3, 30001) if loss(w, np.round, 2) == 0]
    assert (1.5 / 0.9, 0.5 / 0.29) == pytest.approx((right[0], right[-1]), abs=2e-4)
    assert (round(1.5 / 0.9, 3), round(0.5 / 0.29, 3)) == (1.667, 1.724)


def test_where_no_parameter_is_right_the_estimator_neither_settles_nor_finds_the_best():
    path = train(round_through, 3, 200)[-20:]
    best = [w for w in np.linspace(0, 4, 4001) if f"{loss(w, np.round, 3):.3f}" == "0.111"]
    assert f"{min(loss(w, np.round, 3) for w in np.linspace(0, 4, 4001)):.3f}" == "0.111"
    assert 1.66 < best[0] and best[-1] < 1.73
    assert all(1.98 < w < 2.02 for w in path)
    assert {f"{loss(w, np.round, 3):.3f}" for w in path} == {"0.444", "0.556"}
    shown = stored(NAME, "limits")
    assert "best loss on the grid 0.111" in shown and "'0.444'" in shown and "'0.556'" in shown
