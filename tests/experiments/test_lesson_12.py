"""Lesson 12, when gradients go wrong: each fault, its fingerprint and its cure; and what the stored notebook shows."""

import numpy as np
import pytest
from test_lessons import stored

import autodiff as ad

NAME = "12_when_gradients_go_wrong.ipynb"


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def gradient(f, at, **options):
    x = ad.Var(at)
    return f(x).backward(**options)[x].data


def first_nonfinite(y):
    with ad.detect_nonfinite(), pytest.raises(FloatingPointError) as caught:
        y.backward()
    return str(caught.value)


# 1 and 2


def test_doubled_by_adding_or_by_a_term_twice():
    w = ad.Var(3.0)
    cycle = ad.contracts.pytorch()
    for expected in (4, 8):
        cycle.backward((w - 1) ** 2)
        assert cycle.grad(w) == expected
    cycle.clear()
    cycle.backward((w - 1) ** 2)
    assert cycle.grad(w) == 4
    fit = (w - 1) ** 2
    twice = fit + fit
    assert (twice.item(), twice.backward()[w].item()) == (8, 8)


def test_two_zero_weights_wait_for_each_other_and_gradcheck_agrees():
    def network(w1, w2):
        return (np.tanh(2 * w1) * w2 - 1) ** 2

    w1, w2 = ad.Var(0.0), ad.Var(0.0)
    grads = network(w1, w2).backward()
    assert (grads[w1].item(), grads[w2].item()) == (0, 0) and w1 in grads
    assert ad.gradcheck(network, (0.0, 0.0)).verdict == "match"
    for start, low, high in ((0.0, 1, 1), (0.5, 0, 1e-3)):
        w1, w2 = ad.Var(start), ad.Var(start)
        for _ in range(100):
            grads = network(w1, w2).backward()
            w1.set(w1 - 0.1 * grads[w1])
            w2.set(w2 - 0.1 * grads[w2])
        assert low <= network(w1, w2).item() <= high
    assert gradient(ad.relu, -3.0) == 0 and gradient(np.tanh, 20.0) == 0


# 3


def test_absent_has_a_reason():
    w, bias = ad.Var(3.0), ad.Var(1.0)
    u = 2 * w
    reasons = {np.round(u) + bias: "pruned", u.detach() + bias: "behind a detach", u.data + bias: "not part of"}
    for total, reason in reasons.items():
        assert total.item() == 7 and w not in total.backward()
        with pytest.raises(KeyError, match=reason):
            total.backward()[w]
    assert (u + bias).backward()[w].item() == 2
    with ad.no_grad():
        quiet_u = 2 * w
    assert w not in (quiet_u + bias).backward()


def test_gradcheck_tells_a_cut_from_a_staircase():
    verdicts = [ad.gradcheck(f, 3.2, raise_exception=False).verdict
                for f in (lambda w: 2 * w.detach(), lambda w: np.round(2 * w))]
    assert verdicts == ["disconnected", "nothing was checked"]


# 4


def test_a_mask_does_not_protect_and_a_double_where_does():
    x = ad.Var([-1.0, 4.0])
    y = np.where(x > 0, np.sqrt(x), x)
    assert y.data.tolist() == [-1, 2]
    np.testing.assert_array_equal(y.backward()[x].data, [np.nan, 0.25])
    assert "the rule of sqrt returned nan at index (0,)" in first_nonfinite(y)
    assert y.backward(strong_zero=True)[x].data.tolist() == [1, 0.25]

    def double(x):
        return np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), x)

    assert gradient(double, [-1.0, 4.0]).tolist() == [1, 0.25]
    assert ad.gradcheck(double, np.array([-1.0, 4.0])).verdict == "match"


def double_sinc(x):
    safe = np.where(x != 0, x, 1)
    return np.where(x != 0, np.sin(safe) / safe, 1)


def double_norm(x):
    s = (x * x).sum()
    return np.where(s > 0, np.sqrt(np.where(s > 0, s, 1)), 0)


def harmless(x):
    return np.where(x > 0, x, 1)


@pytest.mark.parametrize("at, first, double, strong_zero_helps", [
    ([0.0], lambda x: np.where(x > 0, np.sqrt(x), 0), lambda x: np.where(x > 0, np.sqrt(harmless(x)), 0), True),
    ([0.0], lambda x: np.where(x > 0, np.log(x), 0), lambda x: np.where(x > 0, np.log(harmless(x)), 0), True),
    ([0.0], lambda x: np.where(x != 0, np.sin(x) / x, 1), double_sinc, True),
    ([0.0, 0.0], lambda x: np.sqrt((x * x).sum()), double_norm, False),
], ids=["sqrt", "log", "sinc", "norm"])  # fmt: skip
def test_the_family_at_zero(at, first, double, strong_zero_helps):
    assert np.isnan(gradient(first, at)).all()
    strong = gradient(first, at, strong_zero=True)
    assert (strong == 0).all() if strong_zero_helps else np.isnan(strong).all()
    assert (gradient(double, at) == 0).all()


def test_double_where_keeps_the_slope_away_from_the_dangerous_point():
    for f in (double_sinc, double_norm):
        assert ad.gradcheck(f, np.array([0.7, -1.2])).verdict == "match"


def test_the_norm_with_a_rule_of_its_own_is_zero_at_zero():
    assert gradient(np.linalg.norm, [0.0, 0.0]).tolist() == [0, 0]


def test_strong_zero_is_wrong_where_zero_times_infinity_has_a_limit():
    def f(x):
        return np.sqrt(x) ** 2

    assert np.isnan(gradient(f, 0.0)) and gradient(f, 0.0, strong_zero=True) == 0
    assert gradient(f, 1e-12) == pytest.approx(1)


# 5


def test_overflow_in_the_middle_of_a_finite_forward():
    x = ad.Var(-1000.0)
    y = 1 / (1 + np.exp(-x))
    assert y.item() == 0 and np.isnan(y.backward()[x].item())
    assert "the rule of exp returned nan" in first_nonfinite(y)
    assert gradient(ad.sigmoid, -1000.0) == 0
    outside = gradient(lambda x: np.minimum(np.exp(x), 1), [-5.0, 800.0])
    inside = gradient(lambda x: np.exp(np.minimum(x, 0)), [-5.0, 800.0])
    assert outside[0] == inside[0] == pytest.approx(0.0067, abs=5e-5)
    assert np.isnan(outside[1]) and inside[1] == 0


@pytest.mark.parametrize("at, dtype", [(1e-200, "float64"), (1e-25, "float32")])
def test_a_slope_that_no_float_can_hold(at, dtype):
    x = ad.Var(np.array(at, dtype))
    y = 1 / x
    assert np.isfinite(y.data) and y.backward()[x].item() == -np.inf
    assert y.item() == pytest.approx(1 / at)


# 6 and 7


def test_a_graph_is_stale_after_set():
    x = ad.Var(2.0, name="x")
    z = (x * x) * x
    assert z.backward()[x].item() == 12
    x.set(5.0)
    with pytest.raises(ad.StaleGraphError, match="'x'.*version 0.*version 1"):
        z.backward()
    assert ((x * x) * x).backward()[x].item() == 75
    saved, now = 4.0, 5.0
    assert saved + now * now + now * now == 54


def test_integers_are_refused_or_absent():
    with pytest.raises(TypeError, match="needs floating data"):
        ad.Var([1, 2, 3])
    with pytest.raises(TypeError, match="only floating numbers"):
        ad.grad(lambda t: t * t)(3)
    x, n = ad.Var([0.5, 1.0, 2.0]), ad.Tensor([1, 2, 3])
    with pytest.raises(KeyError, match="only floating tensors have gradients"):
        (x * n).sum().backward()[n]
    cast = (x.astype(int) * 10.0).sum()
    with pytest.raises(KeyError, match="pruned"):
        cast.backward()[x]
    weights = np.array([3, 1])
    weights[0] = weights[0] - 0.1 * 6.0
    assert weights[0] == 2


# 8


def test_a_column_against_a_row_is_the_right_gradient_of_the_wrong_loss():
    column, target = ad.Tensor([[0.0], [1.0], [2.0], [3.0]]), ad.Tensor([1.0, 3.0, 5.0, 7.0])

    def squared_error(w, b, target=target):
        return ((column * w + b - target) ** 2).mean()

    w, b = ad.Var(2.0), ad.Var(1.0)
    grads = squared_error(w, b).backward()
    assert (squared_error(w, b).item(), grads[w].item(), grads[b].item()) == (10, 5, 0)
    assert ad.gradcheck(squared_error, (2.0, 1.0)).verdict == "match"
    right = squared_error(w, b, target.reshape(4, 1))
    assert (right.item(), right.backward()[w].item()) == (0, 0)
    # The minimum of the wrong loss, from its normal equations: every prediction is paired with every target.
    xs = np.repeat(column.data.ravel(), 4)
    slope, intercept = np.polyfit(xs, np.tile(target.data, 4), 1)
    assert (slope, intercept) == (pytest.approx(0, abs=1e-12), pytest.approx(4))
    for _ in range(500):
        grads = squared_error(w, b).backward()
        w.set(w - 0.1 * grads[w])
        b.set(b - 0.1 * grads[b])
    assert (w.item(), b.item()) == (pytest.approx(0, abs=1e-6), pytest.approx(4, abs=1e-6))


def test_the_patient_has_a_nan_behind_a_mask():
    p = ad.Var([0.5, 0.5, 0.0])
    entropy = -np.where(p > 0, p * np.log(p), 0).sum()
    assert entropy.item() == pytest.approx(np.log(2))
    slope = np.log(2) - 1
    np.testing.assert_allclose(entropy.backward()[p].data, [slope, slope, np.nan])
    assert "the rule of multiply returned nan at index (2,)" in first_nonfinite(entropy)
    cured = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum()
    np.testing.assert_allclose(cured.backward()[p].data, [slope, slope, 0])


def test_which_life_cycles_let_a_nan_pass():
    t = ad.Var(0.0)
    by_hand = np.sqrt(t * t)
    for life_cycle in (ad.contracts.candle, ad.contracts.pytorch, ad.contracts.burn):
        cycle = life_cycle()
        cycle.backward(by_hand)
        assert np.isnan(cycle.grad(t))
    with pytest.raises(FloatingPointError, match="must be finite"):
        ad.contracts.reset().backward(by_hand)


# What the lesson says about others


@pytest.mark.torch
def test_pytorch_as_the_table_of_others_says():
    import torch

    x = torch.tensor([-1.0, 4.0], requires_grad=True)
    torch.where(x > 0, x.sqrt(), x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.float32([np.nan, 0.25]))
    x = torch.zeros(2, requires_grad=True)
    x.norm().backward()
    assert x.grad.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="floating point"):
        torch.tensor([1, 2], requires_grad=True)
    for through_data in (True, False):
        x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        z = (x * x) * x
        if through_data:
            x.data.fill_(5.0)
            z.backward()
            assert x.grad.item() == 54
        else:
            with torch.no_grad():
                x.fill_(5.0)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                z.backward()


@pytest.mark.filterwarnings("ignore")
def test_hips_autograd_as_the_table_of_others_says():
    autograd = pytest.importorskip("autograd")
    anp = autograd.numpy
    masked = autograd.grad(lambda x: anp.sum(anp.where(x > 0, anp.sqrt(x), x)))(np.array([-1.0, 4.0]))
    np.testing.assert_array_equal(masked, [np.nan, 0.25])
    assert np.isnan(autograd.grad(anp.linalg.norm)(np.zeros(2))).all()
    assert autograd.grad(lambda x: 3.0)(1.0) == 0
    assert autograd.grad(lambda x: anp.sum(x * x * 0.5))(np.array([1, 2, 3])).tolist() == [1, 2, 3]
    x = np.array([2.0])
    pullback, _ = autograd.make_vjp(lambda x: (x * x) * x)(x)
    x[0] = 5.0
    assert pullback(np.ones(1)).tolist() == [54]


@pytest.mark.parametrize("cell, expected", [
    ("setup", ["gradient of w: 4.0"]),
    ("doubled", ["A: gradient 8.0  loss 4.0", "B: gradient 8.0  loss 8.0"]),
    ("doubled-find", ["A, in a new store: 4.0", "B, in a new store: 8.0", "used 2 times"]),
    ("zero", ["sizes of the gradients: 0.0 0.0   loss after 100 steps: 1.0"]),
    ("zero-check", ["match"]),
    ("zero-cured", ["below 0.001: True", "relu at -3: gradient 0.0", "tanh at 20: gradient 0.0"]),
    ("absent", ["plain    value 7.0   gradient of w: Tensor(2.)", "round    value 7.0   gradient of w: None",
                "detach   value 7.0   gradient of w: None", "data     value 7.0   gradient of w: None",
                "no_grad  value 7.0   gradient of w: None"]),
    ("absent-find", ["pruned", "behind a detach", "not part of the graph"]),
    ("absent-check", ["detach  disconnected", "round   nothing was checked"]),
    ("nan", ["gradient [ nan 0.25]", "10    contribution  n1 -> x  g / (2 * y) = [nan, 0.25]"]),
    ("nan-find", ["the rule of sqrt returned nan at index (0,)"]),
    ("nan-cured", ["gradient [1.   0.25]", "gradcheck: match"]),
    ("nan-family-run", ["sqrt      [nan]        [0.]         [0.]", "log       [nan]        [0.]         [0.]",
                        "sin(x)/x  [nan]        [0.]         [0.]", "norm      [nan nan]    [nan nan]    [0. 0.]",
                        "np.linalg.norm: [0. 0.]"]),
    ("strong", ["default nan   strong_zero 0.0   right 1.0"]),
    ("overflow", ["gradient nan", "the rule of exp returned nan"]),
    ("overflow-trace", ["11    contribution  n2 -> n1  0 * inf = nan"]),
    ("overflow-cured", ["ad.sigmoid: 0.0", "outside: [0.0067    nan]", "inside:  [0.0067 0.    ]"]),
    ("overflow-honest-run", ["float64: value 1e+200  gradient -inf", "float32: value 1e+25  gradient -inf"]),
    ("stale", ["mixed: 54.0   at 2: 12.0   at 5: 75.0", "had version 0", "has version 1 now"]),
    ("stale-cured", ["recorded again: 75.0"]),
    ("integer", ["1. TypeError", "2. TypeError", "3. MissingGradientError", "4. MissingGradientError"]),
    ("integer-trap-run", ["stored: 2   meant: 2.4"]),
    ("broadcast", ["loss 10.0   gradient 5.0 0.0", "after training: w 0.000, b 4.000"]),
    ("broadcast-draw", ["gradcheck: match", "n2 = broadcast(prediction, (4, 4))"]),
    ("broadcast-cured", ["loss 0.0   gradient 0.0 0.0", "give a result of shape (4, 4)"]),
    ("patient", ["value 0.6931", "gradient [-0.3069 -0.3069     nan]", "the rule of multiply returned nan"]),
    ("patient-cured", ["gradient [-0.3069 -0.3069  0.    ]"]),
    ("others-run", ["candle   gradient nan", "pytorch  gradient nan", "burn     gradient nan",
                    "reset    the gradient"]),
])
def test_the_lesson_shows_these_numbers(cell, expected):
    text = stored(NAME, cell)
    assert [part for part in expected if part not in text] == []
