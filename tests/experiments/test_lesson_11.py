"""Lesson 11, the gradient has a graph: its numbers computed anew, and shown in the stored notebook."""

import tracemalloc

import numpy as np
import pytest
from test_lessons import stored

import autodiff as ad

NAME = "11_the_gradient_has_a_graph.ipynb"
XS = ad.Tensor([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25], [2.0, 2.0]])


def second(f, value, policy):
    x = ad.Var(value)
    g = f(x).backward(detach=policy)[x]
    return g.backward()[x].item() if g.tracked else None


@pytest.mark.parametrize("f, taken, right", [
    (lambda x: x * x, 2, 2),
    (lambda x: (x * x) * x, 12, 18),
    (lambda x: x**3, 18, 18),
    (np.exp, np.exp(3), np.exp(3)),
    (lambda x: np.exp(2 * x), None, 4 * np.exp(6)),
])
def test_second_derivatives_are_right_by_luck_wrong_or_absent(f, taken, right):
    assert second(f, 3.0, "none") == pytest.approx(right, rel=1e-12)
    assert second(f, 3.0, "taken") == (taken if taken is None else pytest.approx(taken, rel=1e-12))
    assert second(f, 3.0, "all") is None


@pytest.mark.parametrize("at", [-2.0, 0.5, 3.0])
def test_taken_gives_4x_for_the_cube_and_6x_is_right(at):
    assert second(lambda x: (x * x) * x, at, "taken") == pytest.approx(4 * at)
    assert second(lambda x: (x * x) * x, at, "none") == pytest.approx(6 * at)


def test_the_lab_makes_the_same_cut():
    x = ad.Var(3.0, name="x")
    lab = ad.labs.detach(((x * x) * x).backward(detach="none")[x])
    lab.set(cut=[5, 9])
    assert (lab.result["x"].before, lab.result["x"].after) == (18, 12)


def rows():
    x, k = ad.Var([1.0, 2.0]), ad.Tensor([10.0, 20.0])
    w = ad.Var([[0.1, -0.3, 0.2], [0.7, 0.05, -0.4]])
    b = ad.Var([0.01, -0.02, 0.03])
    network = (np.tanh(XS @ w + b) ** 2).sum()
    return [((x * k).sum(), x), ((x * k).sum(), k), ((x * x).sum(), x), (np.exp(x).sum(), x), (network, w)]


def test_the_five_gradients_have_these_sizes_under_each_policy():
    def sizes(policy):
        return [len(ad.sorted_nodes(loss.backward(detach=policy)[t])) for loss, t in rows()]

    assert sizes("all") == [0, 0, 0, 0, 0]
    assert sizes("taken") == [0, 2, 4, 3, 0]
    assert sizes("none") == [0, 2, 4, 3, 12]


def test_the_five_gradients_have_the_published_sizes_in_candles_life_cycle():
    def sizes(**options):
        return [len(ad.sorted_nodes(ad.contracts.candle().backward(loss, **options)[t])) for loss, t in rows()]

    assert sizes() == [0, 3, 5, 4, 0] and sizes(detach=False) == [0, 3, 5, 4, 16]


def test_the_policies_do_not_change_any_first_derivative():
    for loss, t in rows():
        first, *others = (loss.backward(detach=policy)[t].data for policy in ("all", "taken", "none"))
        assert all(np.array_equal(first, other) for other in others)


def test_the_gradient_of_exp_holds_on_to_its_output():
    x = ad.Var([1.0, 2.0])
    y = np.exp(x)
    assert any(node is y for node in ad.sorted_nodes(y.sum().backward(detach="taken")[x]))


def test_hessian_and_product_by_hand():
    p, q = ad.Var(1.0), ad.Var(2.0)
    grads = (p * p * q + q * q * q).backward(detach="none")
    table = [[grads[i].backward()[j].item() for j in (p, q)] for i in (p, q)]
    assert table == [[4, 2], [2, 12]]
    product = (grads[p] - grads[q]).backward()
    assert [product[p].item(), product[q].item()] == [2, -10]

    def f(x):
        return x[0] ** 2 * x[1] + x[1] ** 3

    at = np.array([1.0, 2.0])
    assert ad.hessian(f)(at).tolist() == table
    assert ad.hvp(f, at, np.array([1.0, -1.0])).tolist() == [2, -10]


def test_a_large_product_agrees_with_differences_and_with_the_matrix():
    def f(x):
        return np.sin(x[1:] * x[:-1]).sum()

    rng = np.random.default_rng(0)
    start, v = rng.normal(size=60), rng.normal(size=60)
    x = ad.Var(start)
    product = f(x).backward(detach="none")[x].backward(v)[x].data
    np.testing.assert_allclose(product, ad.hessian(f)(start) @ v, rtol=1e-10, atol=1e-12)
    slope = ad.grad(f)
    numeric = (slope(start + 1e-5 * v) - slope(start - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(product, numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("v", [(1.0, 1.0), (7.0, -5.0), (0.0, 0.0)])
def test_two_backward_passes_give_the_forward_product_whatever_v_is(v):
    a, b = ad.Var(2.0), ad.Var(3.0)
    v1, v2 = ad.Var(v[0]), ad.Var(v[1])
    grads = (v1 * (a * b) + v2 * (a * a + b)).backward(detach="none")
    slopes = (grads[a] + 10 * grads[b]).backward(wrt=[v1, v2])
    assert [slopes[v1].item(), slopes[v2].item()] == [23, 14]
    assert (np.array([[3, 2], [4, 1]]) @ [1, 10]).tolist() == [23, 14]


def test_nested_gradients_of_the_cube():
    f, seen = (lambda x: x**3), []
    for _ in range(3):
        f = ad.grad(f)
        seen.append(f(3.0).item())
    assert seen == pytest.approx([27, 18, 6])


@pytest.mark.parametrize("policy, arrays_for_40", [("all", 1), ("taken", 5), ("none", 160)])
def test_what_a_store_keeps_alive(policy, arrays_for_40):
    h = x = ad.Var(np.full(20_000, 0.5))
    tracemalloc.start()
    try:
        for _ in range(40):
            h = np.tanh(h)
        store = h.sum().backward(detach=policy)
        del h
        held = tracemalloc.get_traced_memory()[0] / x.data.nbytes
    finally:
        tracemalloc.stop()
    assert len(store) == 1 and held == pytest.approx(arrays_for_40, abs=2)


def test_gradcheck_matches_where_gradgradcheck_does_not():
    def hidden(x):
        return 2 * x * x.detach() - (x * x).detach()

    assert ad.gradcheck(hidden, 3.0, raise_exception=False).verdict == "match"
    assert ad.gradgradcheck(hidden, 3.0, raise_exception=False).verdict == "disconnected"
    assert ad.gradgradcheck(lambda x: np.exp(2 * x), np.array([0.1, 0.2])).verdict == "match"


@pytest.mark.torch
def test_pytorch_has_the_same_second_derivatives():
    import torch

    cases = [(lambda m, x: x * x, 2), (lambda m, x: (x * x) * x, 18), (lambda m, x: m.exp(2 * x), 4 * np.exp(6))]
    for f, right in cases:
        x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
        [g] = torch.autograd.grad(f(torch, x), x, create_graph=True)
        assert torch.autograd.grad(g, x)[0].item() == pytest.approx(right)
    x = torch.tensor([[0.1, -0.3, 0.2], [0.7, 0.05, -0.4]], dtype=torch.float64, requires_grad=True)
    xs, b = torch.tensor(XS.data), torch.tensor([0.01, -0.02, 0.03], dtype=torch.float64)
    [g] = torch.autograd.grad((torch.tanh(xs @ x + b) ** 2).sum(), x, create_graph=True)
    theirs = torch.autograd.grad(g.sum(), x)[0].numpy()
    loss, w = rows()[-1]
    np.testing.assert_allclose(loss.backward(detach="none")[w].backward()[w].data, theirs, rtol=1e-10)


@pytest.mark.parametrize("cell, expected", [
    ("second", ["second derivative: 2.0", "21    accumulate    n2 -> x   x: 1 + 1 = 2"]),
    ("policies", ["all    first 6.0   tracked False  second None", "taken  first 6.0   tracked True   second 2.0",
                  "none   first 6.0   tracked True   second 2.0"]),
    ("cube", ["first:  27.0 27.0", "second: 12.0 18.0", "n4                 ()     3      detached"]),
    ("lab", ["x       Var     18               12              changed"]),
    ("luck", ["x * x          2.0000      2.0000        2.0000", "(x * x) * x   12.0000     18.0000       18.0000",
              "x ** 3        18.0000     18.0000       18.0000", "exp(2 * x)     absent   1613.7152     1613.7152"]),
    ("absent", ["gradient 806.8576   tracked: False", "it is not part of the graph"]),
    ("five", ["sum(x * k), of x                 0     0    0", "sum(x * k), of k                 0     2    2",
              "sum(x * x), of x                 0     4    4", "sum(exp(x)), of x                0     3    3",
              "sum(tanh(xs @ w + b)**2), of w   0     0   12"]),
    ("row-3", ["second derivative under taken: [2. 2.]"]),
    ("row-4", ["the same node: True"]),
    ("hessian", ["row of p [4.0, 2.0]", "row of q [2.0, 12.0]", "ad.hessian: [[4.0, 2.0], [2.0, 12.0]]"]),
    ("hvp", ["H v = [2.0, -10.0]", "ad.hvp: [2.0, -10.0]"]),
    ("hvp-large", ["agrees with differences: True", "product 8,000   Hessian 8,000,000"]),
    ("jvp", ["v = (1, 1):  [23.0, 14.0]", "v = (7, -5): [23.0, 14.0]", "ad.jvp:      [23.0, 14.0]"]),
    ("higher", ["at 3: 27.0", "at 3: 18.0", "at 3: 6.0"]),
    ("memory", ["all: fewer than 2 arrays: True", "taken: fewer than 10: True", "none: more than 100: True"]),
    ("memory-leak", ["more than 4 times a detached one: True"]),
    ("gradgrad", ["gradgradcheck: match. All 8 slopes agree"]),
    ("gradgrad-hidden", ["gradcheck:     match", "gradgradcheck: disconnected"]),
    ("others-run", ["sum(x * k), of k                    3", "sum(x * x), of x                    5",
                    "sum(exp(x)), of x                   4", "sum(tanh(xs @ w + b)**2), of w      0           16"]),
])
def test_the_lesson_shows_these_numbers(cell, expected):
    text = stored(NAME, cell)
    assert [part for part in expected if part not in text] == []


@pytest.mark.parametrize("row", ["row-1", "row-2", "row-3", "row-4", "row-5"])
def test_each_of_the_five_gradients_is_drawn_under_all_three_policies(row):
    assert "graph of all, taken, none: " in stored(NAME, row)
