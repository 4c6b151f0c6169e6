"""A report never takes a slope that its own steps made for a slope of the function."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_faults import faulty

import autodiff as ad
from autodiff.checking.study import one_sided

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def entropy(x):
    return np.where(x > 0, -x * np.log(np.where(x > 0, x, 1)), 0)


UNBOUNDED = {  # a function, and a point where its slope is infinite on one side or on both
    "entropy": (entropy, 0.0),
    "entropy above 1": (lambda x: 1 + entropy(x), 0.0),
    "entropy from the left": (lambda x: entropy(0.3 - x), 0.3),
    "entropy, odd": (lambda x: entropy(x) - entropy(-x), 0.0),
    "sqrt": (np.sqrt, 0.0),
    "sqrt of abs": (lambda x: np.sqrt(abs(x)), 0.0),
    "cbrt": (np.cbrt, 0.0),
    "power": (lambda x: x**0.5, 0.0),
    "small power": (lambda x: x**0.1, 0.0),
    "almost straight": (lambda x: x**0.9, 0.0),
    "arccos": (np.arccos, 1.0),
    "arcsin": (np.arcsin, -1.0),
    "arccosh": (np.arccosh, 1.0),
}


@pytest.mark.parametrize("slope", (5.0, 0.0, 12.27))
@pytest.mark.parametrize("name", UNBOUNDED)
def test_17_no_finite_slope_is_valid_where_it_is_infinite(name, slope):
    f, x = UNBOUNDED[name]
    op = faulty(f, lambda g, y, a: g * slope, name="op")
    report = ad.gradcheck(lambda x: op(x), x, raise_exception=False)
    assert not report and report.verdict == "not finite" and "without bound" in report.headline
    numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*(?:e[-+]\d+)?", report.headline)]
    assert set(numbers) <= {slope} and not report.kinks and "valid" not in str(report).replace("invalid", "")


def test_17_an_entry_that_is_right_does_not_hide_one_whose_slopes_cancel():
    op = faulty(lambda x: np.sqrt(abs(x)), lambda g, y, a: g * np.array([0.5 / np.sqrt(2), 0.0]), name="op")
    report = ad.gradcheck(lambda x: op(x), np.array([2.0, 0.0]), raise_exception=False)
    assert report.verdict == "not finite" and report.worst.index == (1,) and "1 of 4 entries" in str(report)


def test_17_so_close_to_0_a_slope_is_large_and_finite():
    x = np.array([1e-5, 1e-9, 1e-15, 1e-30, 1e-200])
    for f in (entropy, np.sqrt, np.log, np.cbrt):
        assert ad.gradcheck(f, x)


@pytest.mark.parametrize("power", (1.01, 1.1, 1.5, 2.0))
def test_17_a_slope_that_falls_slowly_is_not_called_infinite(power):
    assert ad.gradcheck(lambda x: np.where(x == 0, 0, abs(np.where(x == 0, 1, x)) ** power), 0.0)


def test_17_a_kink_of_slopes_that_do_not_settle_is_no_interval():
    slow = lambda x: np.where(x > 0, x / np.log(np.where((x > 0) & (x < 0.5), x, 0.5)), 0)  # 1/log(x): to 0, slowly
    op = faulty(slow, lambda g, y, a: g * -0.02, name="op")
    report = ad.gradcheck(lambda x: op(x), 0.0, raise_exception=False)
    assert not report and not report.kinks


def test_17_beside_a_kink_there_is_no_interval_of_valid_values():
    beside = lambda x: entropy(x - 1e-7) + np.maximum(x, 0)
    (kink,) = ad.gradcheck(beside, 5e-8).kinks
    assert kink.near and "[" not in kink.words and kink.words.endswith("the gradient, 1")


finite = st.floats(-100, 100).map(lambda x: round(x, 3))


@settings(max_examples=60, deadline=None)
@given(left=finite, right=finite, x=finite, offset=finite, bend=finite)
def test_17_the_interval_at_a_kink_is_the_functions(left, right, x, offset, bend):
    def f(t):
        d = t - x
        return offset + right * np.maximum(d, 0) + left * np.minimum(d, 0) + bend * d * d

    report = ad.gradcheck(f, x, raise_exception=False)
    assert report
    gap = abs(right - left)
    if gap > 1e-2 * (1 + abs(offset)):
        (kink,) = report.kinks
        assert (kink.left, kink.right) == pytest.approx((left, right), abs=2e-3 * gap + 1e-5)


STEPS = 6e-6 * 10.0 ** np.arange(4, -9, -1)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.05, 0.95), st.floats(0.01, 100), st.booleans(), finite)
def test_17_powers_below_1_and_logarithms_are_infinite(power, scale, down, slope):
    sign = -1 if down else 1
    assert one_sided(STEPS, slope + sign * scale * STEPS ** (power - 1))[0] == sign * math.inf
    assert one_sided(STEPS, slope - sign * scale * 100 * np.log(STEPS))[0] == sign * math.inf


@settings(max_examples=100, deadline=None)
@given(st.floats(0.5, 3), st.floats(-100, 100), finite, st.floats(0, 1e-10), st.integers(0, 1000))
def test_17_a_limit_is_known_as_well_as_it_says(power, scale, slope, noise, seed):
    scatter = noise * np.random.default_rng(seed).uniform(-1, 1, len(STEPS)) / STEPS
    value, error = one_sided(STEPS, slope + scale * STEPS**power + scatter, noise)
    assert math.isfinite(value) and abs(value - slope) <= 2 * error + 1e-9 * (1 + abs(scale))
