"""Lesson 15, memory against time: its numbers computed anew, and what its stored outputs show."""

import math
import time
import tracemalloc

import mpmath
import numpy as np
import pytest

import autodiff as ad
from autodiff.labs.checkpointing import count
from test_lessons import stored

NAME = "15_memory_against_time.ipynb"


class Counting:
    """The step of the lesson, which counts its calls."""

    def __init__(self):
        self.calls = 0

    def step(self, h, w):
        self.calls += 1
        return np.sin(w * h)

    def run(self, h, w, n):
        for _ in range(n):
            h = self.step(h, w)
        return h

    def with_checkpoints(self, h, w, segments, length):
        for _ in range(segments):
            h = ad.checkpoint(self.run)(h, w, length)
        return h

    def halves(self, h, w, n):
        if n == 1:
            return self.step(h, w)
        half = ad.checkpoint(lambda h, w: self.halves(h, w, n // 2))
        return half(half(h, w), w)

    def segmented(self, h, w, segments, length, add=True, handed_on=True):
        """By hand; `add` and `handed_on` off: the two mistakes of the lesson's table."""
        checkpoints = []
        with ad.no_grad():
            for _ in range(segments):
                checkpoints.append(h)
                h = self.run(h, w, length)
        g, dw = None, 0.0
        for checkpoint in reversed(checkpoints):
            h = ad.Var(checkpoint.data)
            grads = self.run(h, w, length).backward(g if handed_on else None)
            g, dw = grads[h], (dw + grads[w] if add else grads[w])
        return g.item(), dw.item()


@pytest.fixture
def made():
    return Counting()


@pytest.fixture
def h0():
    return ad.Var(0.5)


@pytest.fixture
def w():
    return ad.Var(1.02)


def full(made, h0, w, n=64):
    grads = made.run(h0, w, n).backward()
    return grads[h0].item(), grads[w].item()


def exact(n=64):
    """Both gradients with 50 digits, by forward mode."""
    mpmath.mp.dps = 50
    h, w, dh, dw = mpmath.mpf("0.5"), mpmath.mpf(1.02), mpmath.mpf(1), mpmath.mpf(0)
    for _ in range(n):
        c = mpmath.cos(w * h)
        h, dh, dw = mpmath.sin(w * h), c * w * dh, c * (h + w * dw)
    return float(dh), float(dw)


def test_the_full_graph_holds_two_results_a_step(made, h0, w):
    y = made.run(h0, w, 64)
    assert sum(node.op is not None for node in ad.sorted_nodes(y)) == 128
    assert full(made, h0, w) == pytest.approx(exact(), rel=1e-12)
    shown = stored(NAME, "kept-run")
    assert "results held: 128" in shown and "gradient of h0 0.023154   of w 6.925869" in shown


def test_from_the_start_each_time_takes_2080_steps(made, h0, w):
    g, dw = None, 0.0
    for k in range(64, 0, -1):
        with ad.no_grad():
            before = made.run(h0, w, k - 1)
        h = ad.Var(before.data)
        grads = made.step(h, w).backward(g)
        g, dw = grads[h], dw + grads[w]
    assert made.calls == 2080 == 64 * 65 // 2
    assert (g.item(), dw.item()) == pytest.approx(exact(), rel=1e-12)
    shown = stored(NAME, "start-run")
    assert "steps run: 2080" in shown and "gradient of h0 0.023154   of w 6.925869" in shown


def test_segments_by_hand_run_every_step_twice(made, h0, w):
    assert made.segmented(h0, w, 8, 8) == pytest.approx(exact(), rel=1e-12)
    assert made.calls == 128
    assert "steps run: 128   held: 24" in stored(NAME, "segments-run")


def test_the_start_is_equal_bit_for_bit_and_the_reused_parameter_to_rounding(made, h0, w):
    right = full(made, h0, w)
    got = [made.segmented(h0, w, s, 64 // s) for s in (2, 4, 8, 16)]
    assert all(g == right[0] for g, _ in got) and not all(dw == right[1] for _, dw in got)
    assert max(abs(dw - right[1]) for _, dw in got) <= 8 * np.spacing(right[1])
    shown = stored(NAME, "equal-run")
    assert "h0 the same bit for bit, each time: True" in shown and "w  the same bit for bit, each time: False" in shown
    assert "within 8 units of the last digit: True" in shown


def test_the_two_mistakes_have_the_fingerprints_of_the_table(made, h0, w):
    right = full(made, h0, w)
    overwritten = made.segmented(h0, w, 8, 8, add=False)
    assert overwritten[0] == right[0] and overwritten[1] < 0.9 * right[1]
    from_ones = made.segmented(h0, w, 8, 8, handed_on=False)
    assert abs(from_ones[0] / right[0] - 1) > 0.1 and abs(from_ones[1] / right[1] - 1) > 0.1
    assert made.segmented(h0, w, 1, 64, handed_on=False) == right


def held(s, n, values=2):
    return s + values * math.ceil(n / s)


def test_the_values_held_are_fewest_near_the_root_of_2n():
    counts = {s: held(s, 64) for s in range(1, 65)}
    best = min(counts, key=counts.get)
    assert (best, counts[best], counts[8], counts[1], counts[64]) == (11, 23, 24, 129, 66)
    assert min(held(s, 64, values=4) for s in range(1, 65)) == held(16, 64, values=4) == 32
    for n, fewest in [(64, 23), (6400, 227), (640000, 2263)]:
        assert min(held(s, n) for s in range(1, 4000)) == fewest
        assert f"{n:6}   {2 * n:10}   {fewest:10}" in stored(NAME, "sqrt-run")
    shown = stored(NAME, "how-many-run")
    assert "fewest: 23 with 11 segments" in shown and "1 segment: 129   64 segments: 66" in shown


@pytest.mark.parametrize("segments", [0, 1, 8, 11, 64])
def test_the_lab_counts_what_the_formula_says(segments):
    made = count(lambda h, w: np.sin(w * h), 0.5, 1.02, length=64, segments=segments)
    assert made.cost.kept == (held(segments, 64) if segments else 128)
    assert made.cost.again == (64 if segments else 0)
    assert tuple(map(float, made.grads)) == pytest.approx(exact(), rel=1e-12)
    assert f"{segments or '0, all stored':<13}  {made.cost.kept:<11}" in stored(NAME, "lab")


def test_ad_checkpoint_does_what_the_loop_by_hand_does(made, h0, w):
    y = made.with_checkpoints(h0, w, 8, 8)
    assert made.calls == 64 and len(ad.sorted_nodes(y)) == 10
    grads = y.backward()
    assert made.calls == 128
    assert (grads[h0].item(), grads[w].item()) == made.segmented(h0, w, 8, 8)
    shown = stored(NAME, "checkpoint-run")
    assert "nodes of the graph: 10   without checkpoints: 130" in shown
    assert "steps forward: 64   as by hand, bit for bit: True True" in shown


def test_the_stepper_shows_a_checkpoint_as_one_node():
    shown = stored(NAME, "checkpoint-step")
    assert "checkpoint: run it again, and go back through it  with g = 1" in shown and "w: 1.44273 + 0.55661" in shown


@pytest.mark.parametrize("n, again", [(8, 24), (64, 384), (256, 2048)])
def test_halves_of_halves_run_every_step_once_more_on_each_level(made, h0, w, n, again):
    y = made.halves(h0, w, n)
    assert made.calls == n
    dw = y.backward()[w].item()
    assert made.calls - n == again == n * int(math.log2(n))
    assert dw == pytest.approx(exact(n)[1], rel=1e-12)
    assert f"{n:3}   {n:7}   {again:5}   {again:11}   {dw:.6f}" in stored(NAME, "nested")


def measured(forward):
    """Peak in values, and processor time."""
    tracemalloc.start()
    forward().sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    begin = time.process_time()
    forward().sum().backward()
    return peak / 40_000, time.process_time() - begin


def test_measured_peaks_and_times_are_on_the_side_the_lesson_says(made, w):
    many = ad.Var(np.linspace(0.1, 1.0, 5000))
    stored_, time_ = measured(lambda: made.run(many, w, 256))
    segments, segments_time = measured(lambda: made.with_checkpoints(many, w, 16, 16))
    nested, nested_time = measured(lambda: made.halves(many, w, 256))
    one, _ = measured(lambda: ad.checkpoint(made.run)(many, w, 256))
    assert 0.8 < stored_ / 512 < 1.25 and 0.8 < segments / 48 < 1.25
    assert stored_ > 5 * segments and nested < segments and one > 0.9 * stored_
    assert segments_time < 3 * time_ and nested_time > segments_time
    assert "False" not in stored(NAME, "measure-check") and stored(NAME, "measure-check").count("True") == 6
    assert "saves less than a tenth: True" in stored(NAME, "one-run")
    for cell in ("measure", "measure-time"):
        assert "measured on this computer" in stored(NAME, cell) and "<svg" not in stored(NAME, cell)


def test_another_value_in_the_second_run_is_refused_and_an_argument_is_the_cure(h0):
    rng = np.random.default_rng(0)
    with pytest.raises(RuntimeError, match="gave another value when it was run again"):
        ad.checkpoint(lambda h: np.sin(h * rng.uniform(0.5, 1.5)))(h0).backward()
    got = ad.checkpoint(lambda h, scale: np.sin(h * scale))(h0, 1.2).backward()[h0].item()
    assert got == pytest.approx(1.2 * math.cos(0.6))
    shown = stored(NAME, "again-run")
    assert "RuntimeError: a checkpointed function gave another value" in shown and "with an argument: True" in shown


def test_without_the_comparison_the_gradient_is_that_of_another_run():
    used = np.random.default_rng(0).uniform(0.5, 1.5, size=2)
    right, wrong = used * np.cos(0.5 * used)
    shown = stored(NAME, "others-run")
    assert f"drawn forward {used[0]:.3f}, drawn again {used[1]:.3f}" in shown
    assert f"gradient {wrong:.3f}, right for the forward run {right:.3f}" in shown


@pytest.mark.torch
def test_torch_restores_its_own_random_numbers_and_no_others():
    torch = pytest.importorskip("torch")
    from torch.utils.checkpoint import checkpoint

    def gradient(draw):
        drawn = []

        def noisy(a):
            drawn.append(draw())
            return torch.sin(a * drawn[-1])

        a = torch.tensor(0.5, dtype=torch.double, requires_grad=True)
        checkpoint(noisy, a, use_reentrant=False).backward()
        return a.grad.item(), [d * math.cos(0.5 * d) for d in drawn]

    torch.manual_seed(0)
    got, (first, _) = gradient(lambda: torch.rand((), dtype=torch.double).item())
    assert got == pytest.approx(first)
    rng = np.random.default_rng(0)
    got, (first, _) = gradient(lambda: rng.uniform(0.5, 1.5))
    assert abs(got / first - 1) > 0.05  # no error either
