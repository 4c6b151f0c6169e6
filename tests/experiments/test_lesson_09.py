"""Lesson 09, ties and kinks: every number of the lesson computed anew, and the stored outputs that show it."""

import numpy as np
import pytest
from test_lessons import stored

import autodiff as ad

LESSON = "09_ties_and_kinks.ipynb"
CONVENTIONS = ("split", "each", "first")


def gradient(f, at):
    v = ad.Var(at)
    return f(v).sum().backward()[v].data


def relu_by(ties):
    return lambda v: np.stack([v, 0 * v]).max(axis=0, ties=ties)


# Ties


def test_at_a_tie_the_slopes_of_both_sides_differ():
    at = np.array([1.0, 3.0, 3.0])
    right = [(np.max(at + 0.1 * e) - 3) / 0.1 for e in np.eye(3)]
    left = [(3 - np.max(at - 0.1 * e)) / 0.1 for e in np.eye(3)]
    assert np.allclose(right, [0, 1, 1]) and np.allclose(left, [0, 0, 0])


@pytest.mark.parametrize("ties, expected", [("split", [0, 0.5, 0.5]), ("each", [0, 1, 1]), ("first", [0, 1, 0])])
def test_max_of_1_3_3_under_each_convention(ties, expected):
    assert gradient(lambda x: x.max(ties=ties), [1.0, 3.0, 3.0]).tolist() == expected


def test_moving_all_entries_together_has_slope_1_and_only_each_says_2():
    at = np.array([1.0, 3.0, 3.0])
    assert np.allclose([(np.max(at + h) - 3) / h for h in (0.1, -0.1)], 1)
    sums = [gradient(lambda x: x.max(ties=ties), at).sum() for ties in CONVENTIONS]
    assert sums == [1, 2, 1]


@pytest.mark.parametrize("ties, left, right", [
    ("split", [1, 0.5, 0], [0, 0.5, 1]), ("each", [1, 1, 0], [0, 1, 1]), ("first", [1, 1, 0], [0, 0, 1]),
])
def test_maximum_with_0_3_5_under_each_convention(ties, left, right):
    a, b = ad.Var([1.0, 3.0, 3.0]), ad.Var([0.0, 3.0, 5.0])
    grads = np.stack([a, b]).max(axis=0, ties=ties).backward()
    assert grads[a].data.tolist() == left and grads[b].data.tolist() == right
    if ties == "split":
        engine = np.maximum(a, b).backward()
        assert engine[a].data.tolist() == left and engine[b].data.tolist() == right


def test_near_the_tie_there_are_two_gradients_and_valid_answers_are_their_means():
    rng = np.random.default_rng(0)
    near = {tuple(gradient(lambda x: x.max(), np.array([1.0, 3.0, 3.0]) + 1e-3 * rng.standard_normal(3)))
            for _ in range(100)}
    assert near == {(0, 0, 1), (0, 1, 0)}
    made = ad.labs.ties(lambda x: x.max(), [1.0, 3.0, 3.0]).result
    assert [made[name].valid for name in (*CONVENTIONS, "engine")] == [True, False, True, True]
    assert made["each"].why == "shares sum to 2 instead of 1"


@pytest.mark.parametrize("at, expected", [(2.9, [0, 0, 1]), (3.1, [0, 1, 0])])
def test_beside_the_tie_all_conventions_agree(at, expected):
    for ties in CONVENTIONS:
        assert gradient(lambda x: x.max(ties=ties), [1.0, at, 3.0]).tolist() == expected


# Kinks


@pytest.mark.parametrize("f, at, left, here, right", [
    (np.abs, 0.0, -1, 0, 1), (ad.relu, 0.0, 0, 0, 1), (lambda x: np.clip(x, 0, 1), 1.0, 1, 0.5, 0),
])
def test_slopes_beside_a_kink_and_the_engines_choice(f, at, left, here, right):
    assert [gradient(f, at + h) for h in (-1e-3, 0.0, 1e-3)] == [left, here, right]


def test_a_line_is_below_abs_only_with_a_slope_of_the_subdifferential():
    x = np.linspace(-2, 2, 41)
    assert (0.5 * x <= np.abs(x)).all() and not (2 * x <= np.abs(x)).all()


def test_the_gradients_near_a_zero_vector_have_length_1_and_the_engine_gives_0():
    near = ad.labs.ties(lambda x: np.linalg.norm(x), [0.0, 0.0]).result
    assert np.allclose(np.linalg.norm(near.nearby, axis=1), 1) and near["engine"].valid
    assert gradient(np.linalg.norm, [0.0, 0.0]).tolist() == [0, 0]


# Zeros after relu


def test_shares_of_tied_zeros_end_in_relu_under_every_convention():
    z = ad.Var([[-1.0, -2.0, -0.5, -4.0], [3.0, 1.0, 0.5, -2.0]])
    h = ad.relu(z)
    rows = {"split": [0.25] * 4, "each": [1] * 4, "first": [1, 0, 0, 0]}
    for ties in CONVENTIONS:
        grads = h.max(axis=1, ties=ties).backward(keep=[h])
        assert grads[h].data.tolist() == [rows[ties], [1, 0, 0, 0]]
        assert grads[z].data.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0]]


def test_one_group_of_four_in_sixteen_is_tied_after_relu():
    groups = np.random.default_rng(1).standard_normal((100_000, 4))
    tied = lambda v: np.mean((v == v.max(axis=1, keepdims=True)).sum(axis=1) > 1)
    assert tied(groups) == 0 and abs(tied(np.maximum(groups, 0)) - 1 / 16) < 0.005


# Training


def train(ties, steps=12, rate=0.3):
    b, values, losses = 0.0, [], []
    for _ in range(steps + 1):
        v = ad.Var(b)
        loss = ((ad.Tensor(np.zeros(4)) + v).max(ties=ties) - 1) ** 2
        losses.append(loss.item())
        b -= rate * loss.backward()[v].item()
        values.append(b)
    return losses, values


@pytest.mark.parametrize("ties, gradient_0, after_one, factor", [
    ("split", -2, 0.6, 0.16), ("each", -8, 2.4, 1.96), ("first", -2, 0.6, 0.16),
])
def test_training_on_a_blank_window_explodes_only_with_each(ties, gradient_0, after_one, factor):
    assert gradient(lambda b: ((np.zeros(4) + b).max(ties=ties) - 1) ** 2, 0.0) == gradient_0
    losses, values = train(ties)
    assert values[0] == pytest.approx(after_one)
    assert losses == pytest.approx([factor**k for k in range(13)])


def fit(relu, steps=10, rate=0.05):
    x, w, losses = np.array([1.0, 2.0, 3.0]), 0.0, []
    for _ in range(steps + 1):
        v = ad.Var(w)
        loss = ((relu(v * x) - 2 * x) ** 2).mean()
        losses.append(loss.item())
        w -= rate * loss.backward()[v].item()
    return losses, w


@pytest.mark.parametrize("relu, at_0, end, weight", [
    (ad.relu, 0, 56 / 3, 0), (relu_by("split"), 0.5, 0, 2), (relu_by("first"), 1, 0, 2),
])
def test_a_weight_at_0_starts_only_with_a_slope_at_0(relu, at_0, end, weight):
    assert gradient(relu, 0.0) == at_0 and gradient(relu, 1.0) == 1 and gradient(relu, -1.0) == 0
    losses, w = fit(relu)
    assert losses[0] == pytest.approx(56 / 3) and losses[-1] == pytest.approx(end, abs=1e-3)
    assert w == pytest.approx(weight, abs=0.01)


# Kinks that cancel


@pytest.mark.parametrize("relu, straight", [(ad.relu, 0), (relu_by("split"), 1), (relu_by("first"), 2)])
def test_relu_minus_relu_is_the_identity_but_for_its_gradient_at_0(relu, straight):
    f = lambda x: relu(x) - relu(-x)
    assert [f(ad.Var(v)).item() for v in (-2.0, 0.0, 3.0)] == [-2, 0, 3]
    assert gradient(f, 0.0) == straight and gradient(f, 0.1) == gradient(f, -0.1) == 1


@pytest.mark.parametrize("ties, nothing", [("split", 0.25), ("first", 0)])
def test_no_convention_is_right_for_both_programs(ties, nothing):
    relu = relu_by(ties)
    f = lambda x: np.stack([x, relu(x)]).max(0, ties=ties) - relu(x)
    assert [f(ad.Var(v)).item() for v in (-2.0, 0.0, 3.0)] == [0, 0, 0]
    assert gradient(f, 0.0) == nothing


# The libraries' table

ROWS = {
    "max": (lambda x: x.max(), [1.0, 3.0, 3.0], [0, 0.5, 0.5]),
    "maximum": (lambda x: np.maximum(x[0], x[1]), [3.0, 3.0], [0.5, 0.5]),
    "abs": (np.abs, 0.0, 0),
    "relu": (ad.relu, 0.0, 0),
    "clip": (lambda x: np.clip(x, 0, 1), [0.0, 1.0], [0.5, 0.5]),
    "norm": (np.linalg.norm, [0.0, 0.0], [0, 0]),
    "x**0": (lambda x: x**0, 0.0, 0),
    "prod": (np.prod, [0.0, 2.0, 3.0], [6, 0, 0]),
    "where": (lambda x: np.where(x > 0, np.sqrt(x), x), -1.0, np.nan),
}


@pytest.mark.parametrize("name", ROWS)
def test_row_of_autodiff(name):
    f, at, expected = ROWS[name]
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(gradient(f, at), expected)


@pytest.mark.torch
def test_column_of_pytorch():
    import torch

    def g(f, at):
        x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
        f(x).sum().backward()
        return x.grad.numpy()

    same = np.testing.assert_array_equal
    same(g(lambda x: x.max(), [1.0, 3.0, 3.0]), [0, 0.5, 0.5])
    same(g(lambda x: x.max(dim=0).values, [1.0, 3.0, 3.0]), [0, 1, 0])
    same(g(lambda x: torch.maximum(x[0], x[1]), [3.0, 3.0]), [0.5, 0.5])
    same(g(torch.abs, 0.0), 0)
    same(g(torch.relu, 0.0), 0)
    same(g(lambda x: x.clamp(0, 1), [0.0, 1.0]), [1, 1])
    same(g(torch.linalg.norm, [0.0, 0.0]), [0, 0])
    same(g(lambda x: x**0, 0.0), 0)
    same(g(torch.prod, [0.0, 2.0, 3.0]), [6, 0, 0])
    same(g(lambda x: torch.where(x > 0, torch.sqrt(x), x), -1.0), np.nan)


def test_column_of_hips_autograd():
    autograd = pytest.importorskip("autograd")
    anp = autograd.numpy

    def g(f, at):
        with np.errstate(all="ignore"):
            return autograd.grad(lambda x: anp.sum(f(x)))(np.array(at))

    same = np.testing.assert_array_equal
    same(g(anp.max, [1.0, 3.0, 3.0]), [0, 0.5, 0.5])
    same(g(lambda x: anp.maximum(x[0], x[1]), [3.0, 3.0]), [0.5, 0.5])
    same(g(anp.abs, 0.0), 0)
    same(g(lambda x: anp.clip(x, 0, 1), [0.0, 1.0]), [0, 0])
    same(g(anp.linalg.norm, [0.0, 0.0]), [np.nan, np.nan])
    same(g(lambda x: x**0, 0.0), 0)
    same(g(anp.prod, [0.0, 2.0, 3.0]), [np.nan, 0, 0])
    same(g(lambda x: anp.where(x > 0, anp.sqrt(x), x), -1.0), np.nan)


# What the lesson shows


@pytest.mark.parametrize("cell, expected", [
    ("sides-run", ["x[0]       0.00        0.00", "x[1]       1.00        0.00", "x[2]       1.00        0.00"]),
    ("conventions-run", ["split  [0.  0.5 0.5]  sum 1", "each   [0. 1. 1.]  sum 2", "first  [0. 1. 0.]  sum 1"]),
    ("together-run", ["slope 1.00 up, 1.00 down", "each   predicts 2.00", "first  predicts 1.00"]),
    ("pairs-run", ["split   [1.  0.5 0. ]  [0.  0.5 1. ]  [1. 1. 1.]",
                   "each    [1. 1. 0.]     [0. 1. 1.]     [1. 2. 1.]",
                   "first   [1. 1. 0.]     [0. 0. 1.]     [1. 1. 1.]"]),
    ("sub-nearby", ["[(0.0, 0.0, 1.0), (0.0, 1.0, 0.0)]"]),
    ("sub-lab", ["each        [0, 1, 1]      NOT VALID     shares sum to 2 instead of 1"]),
    ("kink-run", ["abs(x)          0    -1      1       0.0", "relu(x)         0     0      1       0.0",
                  "clip(x, 0, 1)   1     1      0       0.5"]),
    ("relu-run", ["split  h [0.25, 0.25, 0.25, 0.25] [1.0, 0.0, 0.0, 0.0]", "before relu 0%", "after relu  6%"]),
    ("train-run", ["split  b after one step 0.6   last loss 2.8e-10",
                   "each   b after one step 2.4   last loss 3.2e+03",
                   "first  b after one step 0.6   last loss 2.8e-10"]),
    ("train-step", ["b: 4"]),
    ("dead-run", ["slope 0    loss 18.7 -> 18.7   w 0.00", "slope 1/2  loss 18.7 -> 0.0   w 2.00",
                  "slope 1    loss 18.7 -> 0.0   w 2.00"]),
    ("cancel-run", ["slope 1/2                1.00                        0.25",
                    "slope 1                  2.00                        0.00", "slope 0: 0.0 for the first"]),
    ("others-run", ["clip at its bounds     [0.5 0.5]", "prod([0,2,3])          [6. 0. 0.]", "nan"]),
])
def test_stored_outputs(cell, expected):
    text = stored(LESSON, cell)
    assert [part for part in expected if part not in text] == []
