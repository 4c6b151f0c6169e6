"""Lesson 10, gradcheck: every number of the lesson computed anew, and the stored outputs that show it."""

import warnings

import numpy as np
import pytest
from test_lessons import stored

import autodiff as ad

LESSON = "10_gradcheck.ipynb"
XS = np.array([[1, -2], [0.5, 3], [-1, 0.25], [2, 2]])
W = np.array([[0.1, -0.3, 0.2], [0.7, 0.05, -0.4]])
B = np.array([0.01, -0.02, 0.03])
W_GRAD = [[-0.022252, -2.686380, -0.424579], [1.790514, -0.126415, -4.387318]]
B_GRAD = [0.092104, -0.923299, -1.083957]


def check(f, inputs, **options):
    return ad.gradcheck(f, inputs, raise_exception=False, **options)


def with_rule(forward, rule):
    return ad.custom_op(vjps=[rule])(forward)


def central(f, x, h=1e-6):
    slopes = np.empty_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += h
        down[i] -= h
        slopes[i] = (f(up) - f(down)) / (2 * h)
    return slopes


def plain_check(f, x):
    v = ad.Var(x)
    gradient = f(v).sum().backward()[v].data
    numeric = central(lambda a: f(ad.Tensor(a)).sum().item(), v.data)
    return bool(np.all(np.abs(gradient - numeric) <= 1e-7 + 1e-5 * np.abs(numeric)))


# Differences


@pytest.mark.parametrize("h", [0.1, 0.01, 0.001])
def test_errors_on_the_cube_are_3xh_plus_h2_and_h2(h):
    f = lambda x: x * x * x
    assert (f(2 + h) - f(2)) / h - 12 == pytest.approx(6 * h + h * h, rel=1e-6)
    assert (f(2 + h) - f(2 - h)) / (2 * h) - 12 == pytest.approx(h * h, rel=1e-6)


# The experiment


def gradients():
    w, b = ad.Var(W), ad.Var(B)
    loss = (np.tanh(XS @ w + b) ** 2).sum()
    grads = loss.backward()
    return loss.item(), grads[w].data, grads[b].data


def gap_at(h, dtype=np.float64):
    xs, w, b = (v.astype(dtype) for v in (XS, W, B))
    loss = lambda w, b: np.sum(np.tanh(xs @ w + b) ** 2)
    _, dw, db = gradients()
    by_w, by_b = central(lambda v: loss(v, b), w, dtype(h)), central(lambda v: loss(w, v), b, dtype(h))
    return max(np.abs(by_w - dw).max(), np.abs(by_b - db).max())


def test_gradients_of_the_experiment():
    loss, dw, db = gradients()
    assert loss == pytest.approx(4.4297, abs=1e-4)
    np.testing.assert_allclose(dw, W_GRAD, atol=5.1e-7)
    np.testing.assert_allclose(db, B_GRAD, atol=5.1e-7)


@pytest.mark.torch
def test_gradients_of_the_experiment_agree_with_pytorch():
    import torch

    w, b = (torch.tensor(v, requires_grad=True) for v in (W, B))
    (torch.tanh(torch.tensor(XS) @ w + b) ** 2).sum().backward()
    _, dw, db = gradients()
    np.testing.assert_allclose(dw, w.grad, rtol=1e-12)
    np.testing.assert_allclose(db, b.grad, rtol=1e-12)


def test_gradients_of_the_experiment_agree_with_30_digits():
    mp = pytest.importorskip("mpmath")
    with mp.workdps(30):
        loss = lambda *v: sum(mp.tanh(sum(mp.mpf(x[i]) * v[3 * i + j] for i in range(2)) + v[6 + j]) ** 2
                              for x in XS.tolist() for j in range(3))
        at = [mp.mpf(v) for v in [*W.ravel().tolist(), *B.tolist()]]
        exact = [float(mp.diff(loss, tuple(at), tuple(int(k == i) for k in range(9)))) for i in range(9)]
    _, dw, db = gradients()
    np.testing.assert_allclose([*dw.ravel(), *db], exact, rtol=1e-12)


def test_agreement_at_step_1e_6_is_a_few_times_1e_10():
    assert 1e-11 < gap_at(1e-6) < 1e-9
    assert np.spacing(gradients()[0]) / 2e-6 == pytest.approx(4.4e-10, rel=0.02)


def test_the_truncation_error_is_a_few_times_h_squared():
    assert gap_at(1e-3) / 1e-6 == pytest.approx(7.44, abs=0.1)


def test_the_step_study_is_a_v_and_float32_lies_above():
    steps = 10.0 ** -np.arange(0, 12.5, 0.5)
    curves = {t: np.array([gap_at(h, t) for h in steps]) for t in (np.float64, np.float32)}
    best = {t: steps[c.argmin()] for t, c in curves.items()}
    assert gap_at(1e-12) > 1000 * gap_at(1e-6)
    assert 1e-7 < best[np.float64] < 1e-4 and 1e-4 < best[np.float32] < 1e-1
    assert best[np.float32] > 10 * best[np.float64]
    assert curves[np.float32].min() > 1000 * curves[np.float64].min()
    flat = curves[np.float32][steps < 1e-9]  # x + h is x
    assert np.ptp(flat) == 0 and flat[0] == pytest.approx(4.387318, abs=1e-6)


@pytest.mark.parametrize("dtype, step, error", [(np.float64, 6e-6, 4e-11), (np.float32, 5e-3, 2e-5)])
def test_best_step_is_the_cube_root_of_eps(dtype, step, error):
    eps = np.finfo(dtype).eps
    assert eps ** (1 / 3) == pytest.approx(step, rel=0.1) and eps ** (2 / 3) == pytest.approx(error, rel=0.25)
    curve = ad.labs.differences(lambda x: x * x * x, 0.7).result.curves[np.dtype(dtype).name, "central"]
    assert step / 20 < curve.steps[curve.best] < step * 20 and curve.errors[curve.best] < 10 * error


def test_a_step_must_fit_the_size_of_x():
    square, at = lambda x: x * x, np.array(1e9)
    assert abs(central(square, at, 1e-6) / 2e9 - 1) > 0.01
    assert central(square, at, 6e3) == pytest.approx(2e9, rel=1e-9)


# Reports


def test_the_experiment_matches_and_float32_is_refused():
    report = check(lambda w, b: (np.tanh(XS @ w + b) ** 2).sum(), (W, B))
    assert report and report.verdict == "match" and report.checked == 9
    with pytest.raises(ValueError, match="input x is float32"):
        check(np.exp, np.float32([1.0]))
    with pytest.raises(AssertionError):
        ad.gradcheck(with_rule(lambda x: x * x, lambda g, y, x: g * x), 3.0)


def test_a_missing_factor_2_is_a_ratio_and_a_plateau():
    report = check(with_rule(lambda x: x * x, lambda g, y, x: g * x), np.array([1.0, -3.0]))
    assert not report and report.verdict == "wrong value"
    assert (report.worst.analytic, report.worst.numeric) == pytest.approx((-3, -6))
    assert (report.wrong, report.checked) == (2, 4)
    assert "gradient / numeric is 0.5" in report.hint
    assert len(report.steps) == 13 and all(gap == pytest.approx(3) for _, _, gap in report.steps)
    assert report.taylor == pytest.approx(1, abs=0.1)


def test_the_report_names_the_op_with_the_wrong_rule():
    def my_tanh(x):
        return np.tanh(x)

    op = with_rule(my_tanh, lambda g, y, x: g * (1 + y**2))
    report = check(lambda w, b: (op(XS @ w + b) ** 2).sum(), (W, B))
    assert (report.wrong, report.checked) == (9, 9) and report.op.startswith("my_tanh (the 4th of 6 ops")
    half = ad.Var(0.5)
    assert (op(half) ** 2).backward()[half].item() == pytest.approx(0.9242 * 1.2136, abs=1e-4)
    assert (np.tanh(half) ** 2).backward()[half].item() == pytest.approx(0.7268, abs=1e-4)


# Kinks


@pytest.mark.parametrize("slope, plain, at_0, beside", [
    (0, True, "at a kink", "match"), (1, False, "at a kink", "match"), (-0.5, False, "at a kink", "match"),
    (2, False, "wrong value", "match"), (None, True, "at a kink", "zero where the slope is not"),
])
def test_abs_at_0_fools_a_plain_checker(slope, plain, at_0, beside):
    rule = (lambda g, y, x: 0 * x) if slope is None else (lambda g, y, x: g * np.where(x == 0, slope, np.sign(x)))
    op = with_rule(np.abs, rule) if slope is None else with_rule(lambda x: np.abs(x), rule)
    assert plain_check(op, 0.0) is plain
    assert [check(op, x).verdict for x in (0.0, 0.5)] == [at_0, beside]
    assert bool(check(op, 0.0)) is (at_0 != "wrong value")


def test_a_kink_within_one_step():
    assert central(lambda v: np.maximum(v, 0), np.array(1e-7)) == pytest.approx(0.55)
    assert not plain_check(ad.relu, 1e-7)
    report = check(ad.relu, 1e-7)
    assert report and report.kinks[0].near and (report.kinks[0].left, report.kinks[0].right) == pytest.approx((0, 1))


@pytest.mark.parametrize("ties, passes", [("split", True), ("first", True), ("each", False)])
def test_tied_entries_are_moved_together(ties, passes):
    report = check(lambda x: x.max(ties=ties), np.array([1.0, 3.0, 3.0]))
    assert bool(report) is passes and (passes or "add up to 2" in report.hint)


def test_kinks_that_cancel_are_found():
    report = check(lambda x: ad.relu(x) - ad.relu(-x), 0.0)
    assert not report and report.verdict == "at a kink"


# What spoils a check


def test_a_random_function_is_no_function():
    rng = np.random.default_rng(0)
    noisy = lambda x: x + rng.standard_normal()
    assert 1e4 < abs(central(noisy, np.array(3.0))) < 1e7
    assert check(noisy, 3.0).verdict == "not deterministic"
    assert check(lambda x: x + 0.3, 3.0)


def test_a_captured_var_is_not_checked():
    same = with_rule(lambda s: s * 1.0, lambda g, y, s: 3 * g)
    scale, at = ad.Var(2.0, name="scale"), np.array([1.0, -3.0])
    report = check(lambda x: x * same(scale), at)
    assert report and "not arguments: 'scale'" in report.notes[0]
    assert check(lambda x, scale: x * same(scale), (at, 2.0)).verdict == "wrong value"


def test_an_intended_cut_can_be_held():
    cut = lambda x: (x - (x / 2).detach()) ** 2
    open_, held = check(cut, 3.0), check(cut, 3.0, hold_detached=True)
    assert (open_.verdict, held.verdict) == ("disconnected", "match")
    assert (open_.worst.analytic, open_.worst.numeric) == pytest.approx((3, 1.5))
    assert (held.worst.analytic, held.worst.numeric) == pytest.approx((3, 3))


# What a check does not prove


def softmax(x):
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def test_wrong_rules_that_pass():
    far = with_rule(lambda x: x * x, lambda g, y, x: g * np.where(x > 100, 0.0, 2 * x))
    zero = with_rule(softmax, lambda g, y, x: 0 * g)
    at = np.array([1.0, -3.0])
    assert check(far, at) and not check(far, np.array([1.0, 200.0]))
    assert check(lambda x: zero(x).sum(), at) and plain_check(zero, at) and not check(zero, at)
    assert check(np.ceil, at + 0.5).verdict == "nothing was checked" and not check(np.ceil, at + 0.5)


def test_large_inputs_are_checked_along_directions():
    assert "8 directions of 5000 of x" in check(lambda x: x * x, np.linspace(-1, 1, 5000)).headline


def linear(slope, claimed):
    return with_rule(lambda x: x * slope, lambda g, y, x: g * claimed)


HARD = {
    "abs at 0": (np.abs, 0.0, "at a kink", True),
    "relu at 1e-7": (ad.relu, 1e-7, "at a kink", True),
    "x**2 at 1e9": (lambda x: x**2, 1e9, "match", True),
    "first winner of max": (lambda x: x.max(ties="first"), [1.0, 3.0, 3.0], "at a kink", True),
    "1000.5 for 1000": (linear(1000.0, 1000.5), [1.0, -3.0], "wrong value", False),
    "0 for 5e-6": (linear(5e-6, 0.0), [1.0, -3.0], "zero where the slope is not", False),
    "integers only": (lambda x: (x > 0).astype(int), [1.0, -3.0], "nothing was checked", False),
    "ignores its argument": (lambda x: ad.Tensor(np.ones(3)), [1.0, -3.0], "nothing was checked", False),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_case(name):
    f, at, verdict, passes = HARD[name]
    report = check(f, np.array(at))
    assert report.verdict == verdict and bool(report) is passes


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_hard_cases_as_pytorch_judges_them():
    import inspect

    import torch
    from torch.autograd import gradcheck

    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, slope, claimed):
            ctx.claimed = claimed
            return x * slope

        @staticmethod
        def backward(ctx, g):
            return g * ctx.claimed, None, None

    def judged(f, at):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
            return gradcheck(f, (x,), raise_exception=False)

    defaults = {k: p.default for k, p in inspect.signature(gradcheck).parameters.items()}
    assert (defaults["eps"], defaults["atol"], defaults["rtol"]) == (1e-6, 1e-5, 1e-3)
    assert judged(torch.abs, 0.0)
    assert not judged(torch.relu, 1e-7)
    assert not judged(lambda x: x**2, [1e9])
    assert not judged(lambda x: x.max(dim=0).values, [1.0, 3.0, 3.0])
    assert judged(lambda x: Linear.apply(x, 1000.0, 1000.5), [1.0, -3.0])
    assert judged(lambda x: Linear.apply(x, 5e-6, 0.0), [1.0, -3.0])
    assert judged(lambda x: (x > 0).long(), [1.0, -3.0])
    assert judged(lambda x: torch.ones(3, dtype=torch.float64), [1.0, -3.0])


def test_settings_of_hips_autograd():
    util = pytest.importorskip("autograd.test_util")
    assert (util.EPS, util.TOL, util.RTOL) == (1e-6, 1e-6, 1e-6)  # it moves by half of EPS to each side


# What the lesson shows


@pytest.mark.parametrize("cell, expected", [
    ("differences-run", ["12.610000   0.610000  12.010000   0.010000", "12.060100   0.060100  12.000100   0.000100"]),
    ("experiment-gradient", ["[-0.022252 -2.68638  -0.424579]", "[ 1.790514 -0.126415 -4.387318]",
                             "[ 0.092104 -0.923299 -1.083957]"]),
    ("experiment-run", ["gap below 1e-9: True", "divided by 2h: 4e-10"]),
    ("v-run", ["more than 1000 times larger at 1e-12: True", "best step larger in float32: True"]),
    ("v-best", ["float64  step 6e-06   error there about 4e-11", "float32  step 5e-03   error there about 2e-05"]),
    ("size-run", ["step 1e-6      slope 1.92e+09", "step 6e-6 * x  slope 2e+09"]),
    ("check-run", ["gradcheck: match. All 9 slopes agree", "ValueError: gradcheck: input x is float32."]),
    ("report-run", ["gradcheck: wrong value. The slope of output[1] with respect to x[1] is -6; the gradient says -3.",
                    "gradient / numeric is 0.5", "a plateau"]),
    ("op-run", ["9 of 9 wrong", "op: my_tanh (the 4th of 6 ops"]),
    ("op-step", ["0.924234 * (1 + 0.462117 ** 2) = 1.12161"]),
    ("kink-run", ["   0 at 0    passes       passes: at a kink             passes: match",
                  "   1 at 0    fails        passes: at a kink             passes: match",
                  "-0.5 at 0    fails        passes: at a kink             passes: match",
                  "   2 at 0    fails        fails: wrong value            passes: match",
                  "0 for all x  passes       passes: at a kink             fails: zero where the slope is not"]),
    ("kink-words", ["every value in [-1, 1] is valid; the gradient says 0, the middle"]),
    ("kink-near", ["central difference: 0.55", "plain check passes: False", "gradcheck passes:   True"]),
    ("kink-ties", ["split  passes", "first  passes", "each   fails", "is 1; the gradient says 0."]),
    ("random-run", ["between 10 thousand and 10 million: True", "gradcheck: not deterministic."]),
    ("captured-run", ["not arguments: 'scale'", "with respect to scale is -3; the gradient says -9."]),
    ("detached-run", ["disconnected  gradient 3.0, numeric 1.5", "match         gradient 3.0, numeric 3.0"]),
    ("prove-run", ["wrong only beyond 100, checked near 0  passes", "the same, checked at 200               fails",
                   "softmax with rule 0, summed            passes", "softmax with rule 0, as it is          fails",
                   "ceil: no gradient at all               fails   nothing was checked", "rule 0 passes: True"]),
    ("others-run", ["abs at 0              passes  at a kink", "x**2 at 1e9           passes  match",
                    "integers only         fails   nothing was checked"]),
])
def test_stored_outputs(cell, expected):
    text = stored(LESSON, cell)
    assert [part for part in expected if part not in text] == []
