"""Lesson 02, what gets recorded: its numbers computed anew, and what its stored outputs show."""

import math

import numpy as np
import pytest

import autodiff as ad
from test_lessons import stored

NAME = "02_what_gets_recorded.ipynb"
W_GRAD = [[-0.022252, -2.686380, -0.424579], [1.790514, -0.126415, -4.387318]]
B_GRAD = [0.092104, -0.923299, -1.083957]


def boxes(root):
    return len(ad.draw(root).graph.nodes)


@pytest.fixture
def x():
    return ad.Var([1.0, 2.0], name="x")


@pytest.fixture
def k():
    return ad.Tensor([10.0, 20.0], name="k")


def test_an_op_holds_the_very_inputs_and_a_leaf_has_none():
    x, y = ad.Var(3.0), ad.Var(2.0)
    p = x * y
    u = p + x
    assert u.op.name == "add" and u.op.inputs[0] is p and u.op.inputs[1] is x and x.op is None


def test_the_branch_that_ran_is_recorded_and_nothing_else():
    def f(x):
        y = x
        for _ in range(2):
            y = y * x
        return y if y > 0 else -y

    v, w = ad.Var(2.0), ad.Var(-2.0)
    up, down = f(v), f(w)
    assert (boxes(up), boxes(down)) == (3, 4)
    assert (up.backward()[v].item(), down.backward()[w].item()) == (12, -12)
    for at, slope in ((2.0, 12), (-2.0, -12)):
        assert (f(at + 1e-5) - f(at - 1e-5)) / 2e-5 == pytest.approx(slope, abs=1e-6)


def test_a_var_and_a_plain_tensor_get_a_gradient_and_an_array_gets_no_box(x, k):
    h = x * k + np.array([3.0, 5.0])
    grads = h.sum().backward()
    assert boxes(h) == 4 and len(grads) == 2
    assert grads[x].data.tolist() == [10, 20] and grads[k].data.tolist() == [1, 2]
    with pytest.raises(TypeError, match="indexed by a Tensor"):
        grads[np.array([3.0, 5.0])]


def test_the_array_in_a_slot_gets_no_share_and_the_last_share_is_that_of_the_plain_tensor(x, k):
    steps = [s for s in ad.trace((x * k + np.array([3.0, 5.0])).sum()) if s.kind == "contribution"]
    assert len(steps) == 4  # sum, the one tensor in the slots of add, and both slots of multiply


def test_results_of_constants_are_constants(x, k):
    kk = k * k
    t, other = kk * x, k * (k * x)
    assert not kk.tracked and kk.op is None and (boxes(t), boxes(other)) == (3, 4)
    assert np.array_equal(t.data, other.data)
    tracked = [getattr(r, "tracked", None) for r in (x + 1, np.tanh(k), np.ceil(x), x.argmax(), x > 1, x.shape)]
    assert tracked == [True, False, True, False, None, None]


@pytest.mark.parametrize("line, error", [
    ("x[0] = 5.0", TypeError), ("x.data[0] = 5.0", ValueError), ("h.op = None", AttributeError),
    ("h.op.inputs[0] = k", TypeError),
])
def test_values_and_ops_can_not_be_changed(x, k, line, error):
    with pytest.raises(error):
        exec(line, {"x": x, "k": k, "h": x * k})


def test_the_array_given_to_a_var_is_copied():
    mine = np.array([1.0, 2.0])
    x = ad.Var(mine)
    mine[0] = 99
    assert x.data.tolist() == [1, 2]


def test_a_moved_name_is_no_var_and_set_is_watched():
    w = ad.Var(2.0, name="w")
    moved = w - 0.1 * (w * w).backward()[w]
    L = moved * moved
    with pytest.raises(KeyError, match="taken out once passed on"):
        L.backward()[moved]
    assert type(moved) is ad.Tensor and moved.op.name == "subtract" and moved.item() == pytest.approx(1.6)
    L = w * w
    w.set(w.data - 0.1 * L.backward()[w].data)
    assert w.is_variable and w.item() == pytest.approx(1.6)
    with pytest.raises(ad.StaleGraphError, match="version 0.*version 1"):
        L.backward()


def test_a_number_in_a_slot_halves_the_gradient_and_keeps_the_value():
    x = ad.Var(3.0)
    half, whole = x * x.item(), x * x
    assert half.item() == whole.item() == 9
    assert (half.backward()[x].item(), whole.backward()[x].item()) == (3, 6)


def test_every_silent_conversion_is_refused_and_the_way_out_is_named():
    h, c = ad.Var(3.0) * 2, np.zeros(2)
    for convert in (float, math.exp, np.asarray, ad.Var, ad.Tensor, lambda t: c.__setitem__(0, t)):
        with pytest.raises((TypeError, ValueError)) as caught:
            convert(h)
        message = str(caught.value.__cause__ or caught.value)
        assert all(word in message for word in ("is tracked", ".data", ".item()", ".detach()"))
    assert f"{h:.1f}" == "6.0" and h > 0
    with pytest.raises(ad.NoRuleError, match="np.bincount"):
        np.histogram(h)


def test_stack_keeps_the_history():
    x = ad.Var(3.0)
    total = np.stack([x * x, np.exp(x), x]).sum()
    assert total.backward()[x].item() == pytest.approx(2 * 3 + math.exp(3) + 1)
    assert total.item() == pytest.approx(9 + math.exp(3) + 3)


def test_a_new_var_begins_a_new_graph():
    x = ad.Var(3.0)
    h = x * x
    again = ad.Var(h.data)
    L = again * again
    grads = L.backward()
    assert boxes(L) == 2 and grads[again].item() == 18 and x not in grads
    assert (h * h).backward()[x].item() == 108 == 4 * 3**3


@pytest.mark.parametrize("kind", [ad.Tensor, np.array])
def test_the_small_network(kind):
    xs = kind([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25], [2.0, 2.0]])
    w, b = ad.Var([[0.1, -0.3, 0.2], [0.7, 0.05, -0.4]]), ad.Var([0.01, -0.02, 0.03])
    h = np.tanh(xs @ w + b)
    L = (h**2).sum()
    grads = L.backward()
    plain = kind is ad.Tensor
    assert (boxes(h), boxes(L), len(grads)) == (6 + plain, 8 + plain, 2 + plain)
    np.testing.assert_allclose(grads[w].data, W_GRAD, atol=5e-7)
    np.testing.assert_allclose(grads[b].data, B_GRAD, atol=5e-7)
    assert L.item() == pytest.approx(4.429746, abs=5e-7)

    def value(w, b):
        return (np.tanh(np.asarray(xs) @ w + b) ** 2).sum()

    for var, at in ((w, lambda t: value(t, b.data)), (b, lambda t: value(w.data, t))):
        for index in np.ndindex(var.shape):
            step = np.zeros(var.shape)
            step[index] = 1e-6
            slope = (at(var.data + step) - at(var.data - step)) / 2e-6
            assert grads[var].data[index] == pytest.approx(slope, abs=1e-8)


def test_only_two_of_the_systems_give_a_plain_tensor_a_gradient(x, k):
    L, got = (x * k + np.array([3.0, 5.0])).sum(), {}
    for name in ("candle", "pytorch", "burn"):
        system = getattr(ad.contracts, name)()
        system.backward(L)
        assert system.grad(x).tolist() == [10, 20]
        got[name] = system.grad(k)
    assert got["candle"].tolist() == [1, 2] and got["pytorch"] is None and got["burn"] is None


@pytest.mark.parametrize("cell, expected", [
    ("op", ["operation: add", "slot 1:    Tensor(6., op=multiply)   p: True", "op of x:   None"]),
    ("tell", ["9: add of\n    6: multiply of\n        3: a leaf\n        2: a leaf\n    3: a leaf"]),
    ("program-draw", ["7 nodes, 9 edges", "at_minus_2 = -n5"]),
    ("program-gradients", ["gradient at  2: 12.0", "gradient at -2: -12.0"]),
    ("kinds-draw", ["graph of h: 4 nodes, 3 edges", "h = n2 + [3, 5]"]),
    ("kinds-store", ["entries in the store: 2", "x: [10. 20.]", "k: [1. 2.]", "c: TypeError"]),
    ("tracked", ["kk tracked: False   op of kk: None", "graph of t: 3 nodes"]),
    ("tracked-draw-other", ["graph of other: 4 nodes"]),
    ("tracked-list", ["np.tanh(k)  Tensor   tracked: False", "np.ceil(x)  Tensor   tracked: True"]),
    ("box-run", ["q is 9.0   gradient of b: 10.0", "autodiff: 6.0"]),
    ("cycle", ["steps down from q: 1000   at a leaf: False"]),
    ("older", ["every input is older: True"]),
    ("update", ["w is a Tensor  computed by subtract", "taken out once passed on"]),
    ("set", ["w is a Var with value 1.6", "version 0", "version 1 now"]),
    ("item", ["values:    9.0 9.0", "gradients: 3.0 6.0"]),
    ("refused", ["turned into a Python number", "turned into a plain array", "made into a new Var", ".detach()"]),
    ("stack", ["sum: 32.086   gradient: 27.086", "2x + exp(x) + 1 = 27.086"]),
    ("back", ["again: 18.0", "x: KeyError: no gradient", "without the detour: 108.0", "graph of L: 2 nodes"]),
    ("norule", ["NoRuleError: np.histogram has no rule"]),
    ("network-draw", ["graph of h: 7 nodes", "broadcast(b, (4, 3))"]),
    ("network-gradients", ["-0.022252 -2.68638  -0.424579", "1.790514 -0.126415 -4.387318",
                           "0.092104 -0.923299 -1.083957", "entries: 3   xs among them: True"]),
    ("others-run", ["candle    [10. 20.] [1. 2.]", "pytorch   [10. 20.] None", "burn      [10. 20.] None"]),
])
def test_the_stored_lesson_shows_it(cell, expected):
    text = stored(NAME, cell)
    assert [part for part in expected if part not in text] == []
    assert "allowed" not in text
