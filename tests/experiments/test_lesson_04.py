"""Lesson 04, rules: its numbers computed anew, and what its stored outputs show."""

import inspect

import numpy as np
import pytest

import autodiff as ad
from autodiff.labs.broadcasting import broadcast
from autodiff.rules import table
from test_lessons import stored

NAME = "04_rules.ipynb"
W_GRAD = [[-0.022252, -2.686380, -0.424579], [1.790514, -0.126415, -4.387318]]
B_GRAD = [0.092104, -0.923299, -1.083957]
TABLE = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def gradients(f, inputs, g=None):
    """What the engine says, after a comparison with central differences."""
    variables = [ad.Var(i) for i in inputs]
    y = f(*variables)
    g = np.ones(y.shape) if g is None else np.asarray(g, dtype=float)
    grads = y.backward(g)
    for slot, v in enumerate(variables):
        for index in np.ndindex(v.shape):
            values = [np.array(i, dtype=float) for i in inputs]
            at = values[slot][index]
            values[slot][index] = at + 1e-6
            above = np.sum(g * f(*values))
            values[slot][index] = at - 1e-6
            slope = (above - np.sum(g * f(*values))) / 2e-6
            assert grads[v].data[index] == pytest.approx(slope, rel=1e-6, abs=1e-7)
    return [grads[v].data.tolist() for v in variables]


def test_multiply_sends_g_times_the_other_slot():
    assert gradients(np.multiply, [2.0, 5.0], 10.0) == [50, 20]


def test_tanh_reads_the_output_and_reading_the_input_is_right_at_0_only():
    for a, wrong in ((0.0, 1.0), (0.5, 0.75)):
        [right] = gradients(np.tanh, [a])
        assert right == pytest.approx(1 - np.tanh(a) ** 2) and 1 - a * a == wrong
    assert gradients(np.tanh, [0.5])[0] == pytest.approx(0.786, abs=5e-4)


def test_exp_sends_g_times_its_output():
    assert gradients(np.exp, [TABLE / 10])[0] == pytest.approx(np.exp(TABLE / 10))


def test_matmul_sends_g_bt_and_at_g():
    a = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    b = np.array([[1.0, 0.0, 2.0], [-1.0, 3.0, 1.0]])
    g = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [-1.0, 2.0, 1.0], [0.0, 0.0, 3.0]])
    to_a, to_b = gradients(np.matmul, [a, b], g)
    assert to_a == (g @ b.T).tolist() == [[5, 1], [0, 3], [1, 8], [6, 3]]
    assert to_b == (a.T @ g).tolist() == [[-4, 13, 28], [-4, 16, 34]]
    with pytest.raises(ValueError):
        g @ b
    with pytest.raises(ValueError):
        a @ g


def test_forgotten_transposes_have_the_right_shape_when_square_and_the_right_numbers_when_symmetric():
    rng = np.random.default_rng(1)
    a, b, g = rng.normal(size=(3, 3, 3))
    assert (g @ b).shape == (g @ b.T).shape and not np.allclose(g @ b, g @ b.T)
    for symmetric in (np.eye(3), b + b.T):
        right = gradients(np.matmul, [symmetric, symmetric], g)
        np.testing.assert_allclose(right[0], g @ symmetric)
        np.testing.assert_allclose(right[1], symmetric @ g)


def test_a_sum_copies_the_gradient_back():
    assert gradients(lambda a: np.sum(a, axis=1), [TABLE], [10, 20]) == [[[10, 10, 10], [20, 20, 20]]]


def test_the_winner_of_a_maximum_gets_all():
    assert gradients(np.max, [[1.0, 3.0, 2.0]], 10.0) == [[0, 10, 0]]


def test_a_copied_axis_is_summed_and_a_missing_one_disappears():
    x = np.arange(12.0).reshape(4, 3)
    assert gradients(np.add, [x, [1.0, 2.0, 3.0]])[1] == [4, 4, 4]
    assert gradients(np.add, [x, [[10.0], [20.0], [30.0], [40.0]]])[1] == [[3], [3], [3], [3]]
    assert gradients(np.add, [x, 5.0])[1] == 12
    assert gradients(np.add, [TABLE, [10.0, 20.0, 30.0]], [[1, 2, 3], [10, 20, 30]])[1] == [11, 22, 33]


def test_a_bias_is_broadcast_by_a_node_of_its_own():
    x, bias = ad.Var(np.zeros((4, 3))), ad.Var([1.0, 2.0, 3.0])
    z = x + bias
    copied = z.op.inputs[1]
    assert z.op.name == "add" and copied.op.name == "broadcast" and copied.shape == (4, 3)
    assert copied.op.inputs[0] is bias and "gradient summed over axis 0" in ad.draw(z).text


def test_both_kinds_of_copied_axis_at_once():
    made = broadcast((2, 1, 3), (4, 1))
    assert made.shape == (2, 4, 3)
    assert [(o.extra, o.stretched, o.copies) for o in made.operands] == [((), (1,), 4), ((0,), (2,), 6)]
    back = gradients(np.multiply, [np.arange(6.0).reshape(2, 1, 3), np.arange(4.0).reshape(4, 1)])
    assert (np.shape(back[0]), np.shape(back[1])) == ((2, 1, 3), (4, 1))


def test_wrong_shapes_are_swallowed_by_arrays_and_refused_by_set():
    g = np.ones((4, 3))
    assert (np.ones(3) - 0.1 * g).shape == (4, 3)
    assert (np.ones((4, 1)) - 0.1 * g.sum(axis=1)).shape == (4, 4)
    with pytest.raises(ValueError, match="shape"):
        ad.Var(np.ones(3)).set(np.ones((4, 3)))


@pytest.mark.parametrize("line", [
    "rule(np.add, lambda g, y, a, b: g, lambda g, y, a, b: g)",
    "rule(np.multiply, lambda g, y, a, b: g * b, lambda g, y, a, b: g * a)",
    "rule(np.divide, lambda g, y, a, b: g / b, lambda g, y, a, b: -g * y / b)",
    "rule(np.exp, lambda g, y, a: g * y)",
    "rule(np.sqrt, lambda g, y, a: g / (2 * y))",
    "rule(np.tanh, lambda g, y, a: g - g * (y * y))",
    "rule(np.matmul, lambda g, y, a, b: g @ b.mT, lambda g, y, a, b: a.mT @ g)",
    "rule(np.sum, lambda g, y, a, axis=None, keepdims=False: expand(g, a, axis, keepdims))",
    'rule(np.broadcast_to, lambda g, y, a, shape: sum_to(g, a.shape), name="broadcast")',
])
def test_the_lines_of_the_table_are_those_the_lesson_explains(line):
    assert line in " ".join(inspect.getsource(table).split()) and line in stored(NAME, "real")


def test_the_small_network():
    xs = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25], [2.0, 2.0]])
    w, b = [[0.1, -0.3, 0.2], [0.7, 0.05, -0.4]], [0.01, -0.02, 0.03]
    to_w, to_b = gradients(lambda w, b: np.sum(np.square(np.tanh(xs @ w + b))), [w, b])
    np.testing.assert_allclose(to_w, W_GRAD, atol=5e-7)
    np.testing.assert_allclose(to_b, B_GRAD, atol=5e-7)


def test_the_rule_of_the_bell_curve():
    [got] = gradients(lambda a: a * np.exp(-a * a), [[0.0, 0.5, 1.0]])
    a = np.array([0.0, 0.5, 1.0])
    y = np.exp(-a * a)
    assert got == pytest.approx(y + a * y * (-2 * a)) and got == pytest.approx([1, 0.3894, -0.367879], abs=5e-7)


@pytest.mark.parametrize("cell, expected", [
    ("table", ["with g = 10: 50 20"]),
    ("measured", ["50.0"]),
    ("tanh", ["a = 0.0: hers 1.000, right 1.000", "a = 0.5: hers 0.750, right 0.786", "(2, 3)  agrees: False"]),
    ("matmul-edges", ["edges: 48", "[[5.0, 1.0], [0.0, 3.0], [1.0, 8.0], [6.0, 3.0]]", "equal to G @ B.T: True",
                      "[[-4.0, 13.0, 28.0], [-4.0, 16.0, 34.0]]", "equal to A.T @ G: True"]),
    ("square", ["slot 1  an error: the shapes do not fit  agrees: False", "slot 1  (3, 3)  agrees: False",
                "slot 2  (3, 3)  agrees: True"]),
    ("sum", ["autodiff: [[10.0, 10.0, 10.0], [20.0, 20.0, 20.0]]", "by hand:  [[10.0, 10.0, 10.0], [20.0"]),
    ("max", ["gradient: [ 0. 10.  0.]"]),
    ("broadcast-draw", ["n2 = broadcast(bias, (4, 3))", "gradient summed over axis 0"]),
    ("broadcast", ["bias:   [4.0, 4.0, 4.0]", "column: [[3.0], [3.0], [3.0], [3.0]]", "summed over axis 1"]),
    ("lab", ["result of shape (2, 4, 3)", "g.sum(axis=2, keepdims=True).sum(axis=0)"]),
    ("step", ["10    contribution  n2 -> row  sum_to(g, a.shape) = [11, 22, 33]"]),
    ("trap-forgotten", ["bias after the update: (4, 3)", "column after the update: (4, 4)"]),
    ("trap", ["slot 2  (4,)  agrees: False", "slot 2  (3,)  agrees: False", "slot 2  (3,)  agrees: True"]),
    ("mini-backward", ["gradient of s * s + s at 3: 7.0"]),
    ("mini-network", ["-0.022252 -2.68638  -0.424579", "1.790514 -0.126415 -4.387318",
                      "b, with your table: [ 0.092104 -0.923299 -1.083957]"]),
    ("own", ["one node, one rule:   [ 1.        0.3894   -0.367879]",
             "autodiff, many nodes: [ 1.        0.3894   -0.367879]"]),
    ("others-run", ["(4, 3)    with (3,)   same: True", "(2, 1, 3) with (4, 1) same: True"]),
])
def test_the_stored_lesson_shows_it(cell, expected):
    text = stored(NAME, cell)
    assert [part for part in expected if part not in text] == []


@pytest.mark.parametrize("cell", ["check", "matmul-rule", "sum-rules", "divide", "others-run"])
def test_right_rules_pass_the_judge_of_the_lesson(cell):
    text = stored(NAME, cell)
    assert "True" in text and "False" not in text
