"""Lesson 00, start here: the two gradients of its first graph, and how they arrive, computed anew."""

import pytest

import autodiff as ad
from test_lessons import stored

LESSON = "00_start_here.ipynb"


def graph(x=3.0, y=2.0):
    x, y = ad.Var(x, name="x"), ad.Var(y, name="y")
    return x, y, x * y + x


def test_both_gradients_are_three():
    x, y, L = graph()
    grads = L.backward()
    assert L.item() == 9 and (grads[x].item(), grads[y].item()) == (3, 3)
    f = lambda x, y: x * y + x
    assert (f(3.001, 2) - f(3, 2)) / 0.001 == pytest.approx(3) == (f(3, 2.001) - f(3, 2)) / 0.001
    assert "gradient of L at x: 3.0\ngradient of L at y: 3.0" in stored(LESSON, "backward")


def test_another_x_changes_the_gradient_of_y_alone():
    x, y, L = graph(x=5.0)
    grads = L.backward()
    assert (grads[x].item(), grads[y].item()) == (3, 5)


def test_x_gets_one_at_step_7_and_two_more_at_step_11():
    x, y, L = graph()
    arrivals = [(step.index, step.before, step.store["x"].item()) for step in ad.trace(L)
                if step.kind == "accumulate" and step.edge.source.name == "x"]
    assert arrivals == [(7, None, 1), (11, 1, 3)]
    text = stored(LESSON, "step")
    assert "7     accumulate    L -> x   x: 1" in text and "11    accumulate    n2 -> x  x: 1 + 2 = 3" in text


def test_an_old_graph_does_not_know_a_new_x():
    _, _, L = graph()
    assert ad.Var(100.0, name="x") not in L.backward() and L.item() == 9
