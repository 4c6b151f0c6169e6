"""The four life-cycles: both tables of facts, and PyTorch itself beside the one that imitates it."""

import os

import numpy as np
import pytest

import autodiff as ad

C = ad.contracts
ALL = [C.candle, C.pytorch, C.burn, C.reset]


def forward(x, y):
    u = x * y + x
    return u, u * u


@pytest.fixture
def example():
    x, y = ad.Var(3.0, name="x"), ad.Var(2.0, name="y")
    return (x, y, *forward(x, y))


@pytest.mark.parametrize("life_cycle", ALL)
def test_the_first_backward_agrees_everywhere(life_cycle, example):
    x, y, u, loss = example
    c = life_cycle()
    assert c.grad(x) is None
    c.backward(loss)
    assert (c.grad(x), c.grad(y)) == (54, 54)
    c.clear()
    assert c.grad(x) is None


def test_which_tensors_have_a_gradient(example):
    x, y, u, loss = example
    k = ad.Tensor(5.0)
    shown = {}
    for life_cycle in ALL:
        c = life_cycle()
        c.backward(loss * k)
        shown[life_cycle.__name__] = [c.grad(t) if t is None else c.grad(t) for t in (x, u, k, loss)]
    assert shown == {
        "candle": [270, None, 81, None],
        "pytorch": [270, None, None, None],
        "burn": [270, None, None, None],
        "reset": [270, 90, None, 5],
    }


def test_the_second_backward_over_the_same_graph(example):
    x, _, _, loss = example
    for life_cycle in (C.candle, C.reset):
        c = life_cycle()
        c.backward(loss)
        c.backward(loss)
        assert c.grad(x) == 54
    c = C.burn()
    c.backward(loss)
    with pytest.raises(RuntimeError, match="consumed"):
        c.backward(loss)
    assert c.grad(x) == 54
    c = C.pytorch()
    c.backward(loss, retain_graph=True)
    c.backward(loss)
    assert c.grad(x) == 108
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        c.backward(loss)
    assert c.grad(x) == 108


def test_a_rebuilt_forward_adds_in_pytorch_alone_until_cleared(example):
    x, y, _, loss = example
    for life_cycle, second in ((C.candle, 54), (C.pytorch, 108), (C.burn, 54), (C.reset, 54)):
        c = life_cycle()
        for expected in (54, second):
            c.backward(forward(x, y)[1])
            assert c.grad(x) == expected
        c.clear()
        c.backward(forward(x, y)[1])
        assert c.grad(x) == 54


def test_nodes_outside_the_new_root(example):
    x, _, u, loss = example
    z = ad.Var(2.0)
    for life_cycle, stale in ((C.candle, None), (C.pytorch, 54), (C.burn, None), (C.reset, 54)):
        c = life_cycle()
        c.backward(forward(x, example[1])[1])
        c.backward(z * z)
        assert c.grad(z) == 4 and c.grad(x) == stale


def test_non_scalar_and_historyless_roots():
    x, k = ad.Var([1.0, 2.0]), ad.Tensor(1.0)
    for life_cycle in (C.candle, C.burn):
        c = life_cycle()
        c.backward(x * 2)
        assert c.grad(x).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="scalar outputs only"):
        C.pytorch().backward(x * 2)
    with pytest.raises(ValueError, match="scalars only"):
        C.reset().backward(x * 2)
    c = C.pytorch()
    c.backward(x * 2, np.array([1.0, 3.0]))
    assert c.grad(x).tolist() == [2, 6]
    for life_cycle in (C.pytorch, C.burn):
        with pytest.raises(RuntimeError, match="no history"):
            life_cycle().backward(k)
    for life_cycle in (C.candle, C.reset):
        c = life_cycle()
        c.backward(k)
        assert c.grad(k) == 1


def test_retain_grad_keeps_and_adds_interior_gradients(example):
    x, y, u, loss = example
    c = C.pytorch()
    c.retain_grad(u)
    c.backward(loss, retain_graph=True)
    c.backward(loss)
    assert c.grad(u) == 36 and c.grad(x) == 108
    with pytest.raises(RuntimeError, match="does not require grad"):
        c.retain_grad(ad.Tensor(1.0))


def test_detach_in_the_middle():
    x = ad.Var(3.0)
    cut = (x * 2).detach() * x
    for life_cycle in ALL:
        c = life_cycle()
        c.backward(cut)
        assert c.grad(x) == 6
    assert C.burn().detach(x).is_variable and not C.candle().detach(x).is_variable


def test_what_is_not_finite_passes_through_or_is_refused_before_anything_is_written():
    x, y = ad.Var(0.0, name="x"), ad.Var(5.0)
    with np.errstate(all="ignore"):
        c = C.reset()
        c.backward(y * y)
        for bad in (np.sqrt(x) * y, y / x):
            with pytest.raises(FloatingPointError, match="finite"):
                c.backward(bad)
            assert c.grad(y) == 10 and c.grad(x) is None
        for life_cycle in (C.candle, C.pytorch, C.burn):
            c = life_cycle()
            c.backward(np.sqrt(x) * y)
            assert np.isinf(c.grad(x))


# candle's gradients as graphs

XS = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25], [2.0, 2.0]])


def experiment():
    w = ad.Var([[0.1, -0.3, 0.2], [0.7, 0.05, -0.4]])
    b = ad.Var([0.01, -0.02, 0.03])
    return (np.tanh(ad.Tensor(XS) @ w + b) ** 2).sum(), w


def graph_of_gradient(loss, t, **options):
    g = C.candle().backward(loss, **options)[t]
    return g.tracked, len(ad.sorted_nodes(g))


def test_candles_gradients_as_graphs_have_the_published_sizes():
    x, k = ad.Var([1.0, 2.0]), ad.Tensor([10.0, 20.0])
    assert graph_of_gradient((x * k).sum(), x) == (False, 0)
    assert graph_of_gradient((x * k).sum(), k) == (True, 3)
    assert graph_of_gradient((x * x).sum(), x) == (True, 5)
    assert graph_of_gradient(np.exp(x).sum(), x) == (True, 4)
    loss, w = experiment()
    assert graph_of_gradient(loss, w) == (False, 0)
    assert graph_of_gradient(loss, w, detach=False) == (True, 16)


def test_candles_luck_with_second_derivatives():
    x = ad.Var(3.0)
    for function, second in ((lambda x: x * x, 2), (lambda x: (x * x) * x, 12)):
        assert C.candle().backward(function(x))[x].backward()[x].item() == second
    assert not C.candle().backward(np.exp(2 * x))[x].tracked
    assert C.candle().backward((x * x) * x, detach=False)[x].backward()[x].item() == 18


def test_candles_store_keeps_the_value_of_exp_alive():
    x = ad.Var([1.0])
    y = np.exp(x)
    g = C.candle().backward(y.sum())[x]
    assert any(t is y for t in ad.sorted_nodes(g))


# PyTorch itself


def pytorch():
    try:
        import torch
    except ImportError:
        if "torch" in os.environ.get("AUTODIFF_REQUIRE", ""):
            raise
        pytest.skip("PyTorch is not installed: pip install torch==2.13.0 compares with it")
    return torch


class Live:
    """PyTorch behind the interface of `contracts`."""

    def __init__(self, torch):
        self.torch = torch
        self.leaves = []

    def var(self, value):
        self.leaves.append(self.torch.tensor(value, dtype=self.torch.float64, requires_grad=True))
        return self.leaves[-1]

    def backward(self, loss, gradient=None, **options):
        loss.backward(None if gradient is None else self.torch.tensor(gradient), **options)

    def retain_grad(self, t):
        t.retain_grad()

    def grad(self, t):
        return None if t.grad is None else t.grad.numpy().copy()

    def clear(self):
        for t in self.leaves:
            t.grad = None


class Ours(C.pytorch):
    def var(self, value):
        return ad.Var(value)


def scenario(c, np_or_torch):
    """Everything about the life-cycle that can be seen, as a list."""
    seen = []

    def attempt(action):
        try:
            action()
            seen.append("works")
        except RuntimeError:
            seen.append("RuntimeError")

    def look(*tensors):
        seen.append([None if c.grad(t) is None else np.asarray(c.grad(t)).tolist() for t in tensors])

    x, y = c.var(3.0), c.var(2.0)
    u, loss = forward(x, y)
    attempt(lambda: c.backward(loss))
    look(x, y)
    attempt(lambda: c.backward(loss))
    look(x, y)
    attempt(lambda: c.backward(forward(x, y)[1]))
    look(x, y)
    c.clear()
    look(x, y)
    u, loss = forward(x, y)
    c.retain_grad(u)
    attempt(lambda: c.backward(loss, retain_graph=True))
    attempt(lambda: c.backward(loss, retain_graph=True))
    look(x, y, u)
    attempt(lambda: c.backward(loss))
    attempt(lambda: c.backward(loss))
    look(x, y, u)
    c.clear()
    z = c.var([1.0, 2.0])
    attempt(lambda: c.backward(z * 2))
    attempt(lambda: c.backward(z * 2, [1.0, 3.0]))
    look(z, x)
    sin, exp, tanh, einsum = (getattr(np_or_torch, name) for name in ("sin", "exp", "tanh", "einsum"))
    pad = np.pad if np_or_torch is np else np_or_torch.nn.functional.pad
    for graph in (z + z, z * 2, z * z, exp(z), z.sum(), z - 1, z / 2, -z, sin(z), z.reshape(2, 1),
                  z * 2 + z * 3, tanh(z) + z, z**3, z[0], z[:1] * 2, z[[0, 0]], z % 2, pad(z, (1, 1)),
                  einsum("ij->ji", z.reshape(2, 1)), einsum("i,i->i", z, z)):  # fmt: skip
        ones = np.ones(tuple(graph.shape)).tolist()
        for _ in range(2):
            attempt(lambda: c.backward(graph, ones))
        look(z)
    k = 2 * x
    for part in (2 * k, 3 * k):
        attempt(lambda: c.backward(part))
    look(x)
    k = x * x
    for part in (2 * k, 3 * k):
        attempt(lambda: c.backward(part))
    look(x)
    attempt(lambda: c.backward((x * 2).detach()))
    return seen


def test_the_pytorch_life_cycle_does_what_pytorch_does():
    torch = pytorch()
    ours, theirs = scenario(Ours(), np), scenario(Live(torch), torch)
    assert len(ours) == len(theirs) and "RuntimeError" in theirs and "works" in theirs
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if isinstance(b, str):
            assert a == b, f"step {i}"
        else:
            for one, other in zip(a, b):
                assert (one is None) == (other is None), f"step {i}"
                if other is not None:
                    np.testing.assert_allclose(one, other, rtol=1e-12, err_msg=f"step {i}")
