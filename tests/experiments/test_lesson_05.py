"""Lesson 05, vector–Jacobian products: every number it shows, computed anew, and stored in the notebook."""

import re

import numpy as np
import pytest

import autodiff as ad
from test_lessons import stored

LESSON = "05_vector_jacobian_products.ipynb"
AT, J = np.array([2.0, 3.0]), np.array([[3.0, 2.0], [4.0, 1.0]])


def f(x):
    return np.stack([x[0] * x[1], x[0] ** 2 + x[1]])


def outputs():
    x1, x2 = ad.Var(2.0), ad.Var(3.0)
    y1, q = x1 * x2, x1 * x1
    return x1, x2, y1, q, q + x2


def slopes(root, *variables, **asked):
    grads = root.backward(**asked)
    return [grads[t].item() for t in variables]


def test_jacobian_is_that_of_the_lesson():
    assert ad.jacobian(f)(AT).tolist() == J.tolist()


def test_a_nudge_fills_a_column_and_a_backward_pass_a_row():
    steps = 0.001 * np.eye(2)
    columns = [(f(AT + s) - f(AT - s)) / 0.002 for s in steps]
    assert np.allclose(np.stack(columns, axis=1), J, atol=1e-9)
    x1, x2, y1, _, y2 = outputs()
    assert [slopes(y, x1, x2) for y in (y1, y2)] == J.tolist()


@pytest.mark.parametrize("v, expected", [
    ([1, 0], [3, 2]), ([0, 1], [4, 1]), ([1, 1], [7, 3]), ([2, 3], [18, 7]), ([1, -1], [-1, 1]), ([0.5, -1], [-2.5, 0]),
])
def test_a_cotangent_asks_for_the_gradient_of_a_weighted_sum(v, expected):
    x1, x2, y1, _, y2 = outputs()
    v = np.array(v, dtype=float)
    assert slopes(np.stack([y1, y2]), x1, x2, cotangent=v) == expected
    assert slopes(v[0] * y1 + v[1] * y2, x1, x2) == expected
    assert slopes((np.stack([y1, y2]) * v).sum(), x1, x2) == expected
    assert (v @ J).tolist() == ad.vjp(f, AT)[1](v)[0].tolist() == expected


def test_without_a_cotangent_ones_are_assumed():
    x1, x2, y1, _, y2 = outputs()
    assert slopes(np.stack([y1, y2]), x1, x2) == slopes(y1 + y2, x1, x2) == [7, 3]


def test_forward_mode_gives_j_times_t():
    t = np.array([2.0, 3.0])
    assert ad.jvp(f, (AT,), (t,))[1].tolist() == (J @ t).tolist() == [12, 11]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pytorch_gives_the_same_products():
    torch = pytest.importorskip("torch")

    def g(x):
        return torch.stack([x[0] * x[1], x[0] ** 2 + x[1]])

    at, v = torch.tensor([2.0, 3.0]), torch.tensor([2.0, 3.0])
    assert torch.func.vjp(g, at)[1](v)[0].tolist() == [18, 7]
    assert torch.func.jvp(g, (at,), (v,))[1].tolist() == [12, 11]
    with pytest.raises(RuntimeError, match="scalar outputs"):
        g(at.requires_grad_()).backward()


def test_cotangents_on_the_way_are_the_product_from_the_left():
    first, second = np.array([[3.0, 2.0], [4.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    x1, x2, y1, q, y2 = outputs()
    y, v = np.stack([y1, y2]), np.array([2.0, 3.0])
    grads = y.backward(v, keep=[y1, q, y2])
    [direct] = [s.value for s in ad.trace(y, v)
                if s.kind == "contribution" and s.edge.source.node is x2 and s.edge.target.node is y2]
    assert [grads[y1].item(), grads[q].item(), float(direct)] == (v @ second).tolist() == [2, 3, 3]
    assert ((v @ second) @ first).tolist() == [18, 7] and (second @ first).tolist() == J.tolist()


def test_forward_and_reverse_mode_agree_on_the_loss():
    rng = np.random.default_rng(0)
    x, W = rng.normal(size=(1, 7)), rng.normal(size=(7, 5))

    def loss(x):
        h = np.tanh(x @ W)
        return (h * h).sum()

    h = np.tanh(x @ W)
    forward = np.array([(2 * h * (1 - h * h) * (t @ W)).sum() for t in np.eye(7)])
    assert np.allclose(ad.grad(loss)(x)[0], forward, rtol=1e-12)
    assert np.allclose([(loss(x + s) - loss(x - s)) / 2e-6 for s in 1e-6 * np.eye(7)], forward, atol=1e-7)


def passes(monkeypatch, run):
    """How many backward passes `run` makes."""
    made, backward = [], ad.transforms.backward
    monkeypatch.setattr(ad.transforms, "backward", lambda *a, **k: made.append(1) or backward(*a, **k))
    run()
    return len(made)


def test_reverse_mode_needs_one_pass_for_each_output(monkeypatch):
    rng = np.random.default_rng(0)
    tall, wide = rng.normal(size=(40, 3)), rng.normal(size=(1, 1000))
    assert passes(monkeypatch, lambda: ad.jacobian(lambda x: np.tanh(tall @ x))(np.ones(3))) == 40
    assert passes(monkeypatch, lambda: ad.grad(lambda x: np.tanh(wide @ x))(np.ones(1000))) == 1


@pytest.mark.parametrize("cell, expected", [
    ("nudge", ["move x1:  column [3. 4.]", "move x2:  column [2. 1.]"]),
    ("rows", ["backward from y1:  row [3.0, 2.0]", "backward from y2:  row [4.0, 1.0]"]),
    ("ones-run", ["y.backward()      7.0 3.0", "sum of the two    7.0 3.0"]),
    ("cotangent-run", ["y.backward(v)       18.0 7.0", "2 * y1 + 3 * y2     18.0 7.0", "v @ J          "]),
    ("pullback", ["v = [2, 3]   v @ J = [18.  7.]", "v = [1, -1]  v @ J = [-1.  1.]"]),
    ("whole", ["[[3. 2.]\n [4. 1.]]", "ad.jacobian: True"]),
    ("step", ["x1: 12 + 6 = 18", "x2: 3 + 4 = 7"]),
    ("product", ["v @ second            [2. 3. 3.]", "(v @ second) @ first  [18.  7.]"]),
    ("work-run", ["from the left: 3 million", "tables first:  2001 million", "the same result: True"]),
    ("size-run", ["8,000,000,000,000 bytes", "8,000,000 bytes"]),
    ("forward", ["along (1, 0): (3.0, 4.0)", "along (0, 1): (2.0, 1.0)"]),
    ("jvp-run", ["ad.jvp         [12. 11.]", "J @ t          [12. 11.]", "v @ J, v = t   [18.  7.]"]),
    ("tall-run", ["the same Jacobian: (1000, 3) True", "more than 10 times slower: True"]),
    ("others-run", ["RuntimeError: a gradient can be left out", "with a cotangent: 18.0 7.0", "18.0 7.0"]),
])
def test_notebook_shows(cell, expected):
    text = stored(LESSON, cell)
    assert [part for part in expected if part not in text] == []


def test_notebook_compares_the_ways_without_naming_seconds():
    text = stored(LESSON, "ratios")
    assert len(re.findall(r"\bTrue\b", text)) == 5 and "False" not in text
    assert "measured on this computer" in stored(LESSON, "chart")
