"""What checks see besides values: half-done pairs and kinds, reports that were lost, and tests that return nothing."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.course import check
from autodiff.course.result import PASSED, UNFINISHED, WRONG

POINTS = [(0.0001, 0.0002), (300.1, 20.3), (-2.0, 0.7), (np.array([1.5, 0.5]), np.array([-0.5, 2.0]))]


@pytest.fixture(autouse=True)
def no_progress(monkeypatch):
    monkeypatch.setenv("AUTODIFF_PROGRESS", "off")


def words(result):
    return " ".join(result.text().split())


def accepts(op, point):
    return bool(ad.gradcheck(op, point, raise_exception=False))


def test_a_pair_with_three_dots_is_unfinished_and_says_which_share_is_right():
    result = check("04.b", lambda g, y, a, b: (g @ b.T, ...))
    assert result.status == UNFINISHED and "The first of your two shares is right. The second one is" in words(result)
    assert "is right" not in words(check("04.b", lambda g, y, a, b: (g @ b.T * 2, ...)))
    assert check("08.a", lambda g, out, x, y: (..., g)).status == UNFINISHED


def test_a_reduction_for_one_kind_is_half_done_when_right_and_wrong_when_wrong():
    def only_sum(spread, rest):
        def share(kind, g, y, a, axis):
            if kind == "sum":
                return np.broadcast_to(spread(g, axis), a.shape)
            return rest()

        return share

    def later():
        raise NotImplementedError

    for rest in (later, lambda: None):
        result = check("04.d", only_sum(np.expand_dims, rest))
        assert result.status == UNFINISHED and '`kind="sum"` is right' in words(result)
        assert check("04.d", only_sum(lambda g, axis: g, rest)).status != UNFINISHED


def test_shares_that_are_measured_with_any_step_are_named():
    def measured(f, a, g, step):
        share = np.zeros(a.shape)
        for i in np.ndindex(a.shape):
            up, down = a.copy(), a.copy()
            up[i] += step
            down[i] -= step
            share[i] = np.sum(g * (f(up) - f(down))) / (2 * step)
        return share

    for step in (1e-4, 1.0, 8.0):
        result = check("04.c", lambda g, y, a, step=step: measured(lambda a: np.broadcast_to(a, y.shape), a, g, step))
        assert result.fault == "measured"


def test_the_op_in_place_of_its_maker_is_told():
    wave = ad.custom_op(vjps=[lambda g, out, x, y: g, lambda g, out, x, y: g])(lambda x, y: x + y)
    assert 'check("08.b", make_wave)' in words(check("08.b", wave))


def test_tests_that_return_nothing_for_right_ones_pass_and_hear_of_it():
    def silent(op):
        for point in POINTS:
            if not accepts(op, point):
                return False

    assert "your function returned None" in words(check("08.c", silent))
    said = check("08.c", lambda op: all(accepts(op, point) for point in POINTS))
    assert said.status == PASSED and "None" not in words(said)


def test_a_lost_verdict_is_told_from_an_input_that_is_missing():
    few = [POINTS[0], *POINTS[2:]]
    assert check("08.c", lambda op: [accepts(op, point) for point in POINTS][-1]).fault == "verdict-lost"
    assert check("08.c", lambda op: any(accepts(op, point) for point in POINTS)).fault == "one-was-enough"
    assert check("08.c", lambda op: all(accepts(op, point) for point in few)).fault == "cos-float32"


def test_the_seed_of_watched_tests_is_told():
    assert "seed=7" in words(check("10.b", lambda op: True, seed=7))


def test_a_claim_that_is_judged_with_an_allowed_tolerance_is_judged_right():
    def study(allowed):
        def is_slope(f, x, slope):
            gaps = []
            for k in range(1, 13):
                h = 10.0**-k * max(1.0, abs(x))
                gaps.append(abs((f(x + h) - f(x - h)) / (2 * h) - slope))
            small = allowed * abs(slope)
            return any(one < small and two < small for one, two in zip(gaps, gaps[1:]))

        return is_slope

    for allowed in (4e-4, 1e-4, 1e-5):
        assert all(check("15.b", study(allowed), seed=seed) for seed in range(20))


def test_a_checker_that_takes_left_for_the_smaller_slope_is_found_with_every_g():
    def agrees(forward, rule, x):
        g = np.random.default_rng().normal(size=forward(x).shape)
        share = rule(g, x)
        for i in np.ndindex(x.shape):
            h = 6e-6 * max(1.0, abs(x[i]))
            up, down = x.copy(), x.copy()
            up[i] += h
            down[i] -= h
            right, left = np.sum(g * (forward(up) - forward(x))) / h, np.sum(g * (forward(x) - forward(down))) / h
            if not left - 1e-5 * abs(left) <= share[i] <= right + 1e-5 * abs(right):
                return False
        return True

    results = [check("15.c", agrees, seed=seed) for seed in range(20)]
    assert {result.status for result in results} == {WRONG} and results[0].fault == "ends-exchanged"
