"""Lesson 06, the gradient store: every number it shows, computed anew, and stored in the notebook."""

import tracemalloc

import numpy as np
import pytest

import autodiff as ad
from test_lessons import stored

LESSON = "06_the_gradient_store.ipynb"


def graph():
    x, k = ad.Var([1.0, 2.0], name="x"), ad.Tensor([10.0, 20.0], name="k")
    h = x * k
    return x, k, h, h.sum()


def why(store, t):
    with pytest.raises(KeyError) as error:
        store[t]
    return str(error.value)


def test_leaves_stay_and_interior_nodes_are_taken_out():
    x, k, h, loss = graph()
    unused = ad.Var([5.0, 5.0])
    grads = loss.backward()
    assert len(grads) == 2
    assert grads[x].data.tolist() == [10, 20] and grads[k].data.tolist() == [1, 2]
    assert "taken out once passed on" in why(grads, h) and "taken out once passed on" in why(grads, loss)
    assert "not part of the graph" in why(grads, unused)


def test_kept_gradients_stay():
    x, k, h, loss = graph()
    grads = loss.backward(keep=[h, loss])
    assert len(grads) == 4 and grads[h].data.tolist() == [1, 1] and grads[loss].item() == 1


def test_a_constant_computed_from_constants_does_not_know_them():
    x, k, _, _ = graph()
    k3 = k * 3
    grads = (x * k3).sum().backward()
    assert grads[k3].data.tolist() == [1, 2] and k not in grads and not k3.tracked


def test_absent_is_not_zero():
    x, k, _, loss = graph()
    assert (x * ad.Tensor([0.0, 0.0])).sum().backward()[x].data.tolist() == [0, 0]
    assert x not in (x * 0).sum().backward() and x not in (k * k).sum().backward()
    unused, grads = ad.Var([5.0, 5.0]), loss.backward()
    assert grads.get(unused) is None and grads.or_insert(unused).data.tolist() == [0, 0] and unused in grads
    assert grads.or_insert(x).data.tolist() == [10, 20]


def test_an_optimiser_tells_absent_from_zero():
    w = ad.Var([1.0])
    optimiser = ad.optim.AdamW([w], lr=0.1, weight_decay=0.5)
    optimiser.step(ad.GradStore())
    assert w.item() == 1
    grads = ad.GradStore()
    grads.or_insert(w)
    optimiser.step(grads)
    assert w.item() < 1


def test_the_store_goes_by_identity():
    x, _, _, loss = graph()
    assert ad.Var([1.0, 2.0]) not in loss.backward()


def test_a_second_backward_gives_an_equal_store_and_adds_nothing():
    x, k, _, loss = graph()
    first, second = loss.backward(), loss.backward()
    assert first == second and first is not second and first[x].data.tolist() == [10, 20]
    first.extend(second)
    assert first[x].data.tolist() == [20, 40] and first[k].data.tolist() == [2, 4]
    assert second[x].data.tolist() == [10, 20]


def test_behind_a_detach_only_the_root_has_a_gradient():
    x, _, h, _ = graph()
    loss_d = (h.detach() * 2).sum()
    grads = loss_d.backward()
    assert not loss_d.tracked and loss_d.item() == 100
    assert len(grads) == 1 and grads[loss_d].item() == 1 and x not in grads


def test_a_node_used_twice_and_one_used_once():
    x, z = ad.Var([1.0, 2.0]), ad.Var([3.0, 4.0])
    grads = ((x + z) + x).sum().backward()
    assert grads[x].data.tolist() == [2, 2] and grads[z].data.tolist() == [1, 1]


X = np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 1.0], [2.0, 2.0]])
Y = np.array([[1.0], [2.0], [3.0], [4.0]])


def gradient_of(w, *losses):
    store = ad.GradStore()
    for loss in losses:
        store.extend(loss.backward())
    return store[w].data.ravel()


def test_micro_batches_add_up():
    w = ad.Var([[0.5], [-1.0]])

    def squares(*rows):
        return (X[[*rows]] @ w - Y[[*rows]]) ** 2

    by_hand = 2 * X.T @ (X @ w.data - Y)
    assert by_hand.ravel().tolist() == [-22, -39]
    assert gradient_of(w, squares(0, 1, 2, 3).sum()).tolist() == [-22, -39]
    assert gradient_of(w, squares(0, 1).sum(), squares(2, 3).sum()).tolist() == [-22, -39]
    mean = gradient_of(w, squares(0, 1, 2, 3).mean())
    assert np.allclose(gradient_of(w, squares(0, 1).mean(), squares(2, 3).mean()), 2 * mean)
    assert np.allclose(gradient_of(w, squares(0, 1).mean() / 2, squares(2, 3).mean() / 2), mean)
    assert np.allclose(gradient_of(w, squares(0, 1, 2).sum() / 4, squares(3).sum() / 4), mean)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pytorch_gives_the_same_gradients():
    torch = pytest.importorskip("torch")
    x, k = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([10.0, 20.0])
    h = x * k
    h.retain_grad()
    loss = h.sum()
    loss.backward(retain_graph=True)
    assert x.grad.tolist() == [10, 20] and k.grad is None and h.grad.tolist() == [1, 1]
    loss.backward()
    assert x.grad.tolist() == [20, 40]
    w = torch.tensor([[0.5], [-1.0]], requires_grad=True)
    ((torch.tensor(X, dtype=torch.float32) @ w - torch.tensor(Y, dtype=torch.float32)) ** 2).sum().backward()
    assert w.grad.ravel().tolist() == [-22, -39]


def peak(root, keep=()):
    tracemalloc.start()
    root.backward(keep=keep)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def chain(length):
    nodes = [ad.Var(np.linspace(0.0, 1.0, 100_000))]
    for _ in range(length):
        nodes.append(np.tanh(nodes[-1]))
    return nodes


def test_taken_gradients_cost_a_few_arrays_and_kept_ones_all_of_them():
    array, short, long = 800_000, chain(5), chain(40)
    assert peak(long[-1].sum()) < 4.5 * array
    assert peak(long[-1].sum()) < 1.2 * peak(short[-1].sum())
    assert 40.5 * array < peak(long[-1].sum(), keep=long) < 43.5 * array


@pytest.mark.parametrize("name, has", [
    ("candle", "x k"), ("pytorch", "x"), ("burn", "x"), ("reset", "x h loss"),
])
def test_what_each_life_cycle_leaves_behind(name, has):
    tensors = dict(zip(("x", "k", "h", "loss"), graph()))
    system = getattr(ad.contracts, name)()
    system.backward(tensors["loss"])
    assert [n for n, t in tensors.items() if system.grad(t) is not None] == has.split()


@pytest.mark.parametrize("cell, expected", [
    ("left-run", ["x       [10. 20.]", "k       [1. 2.]", "h       absent", "loss    absent", "unused  absent"]),
    ("engine", ["entries: 2", "x       [10. 20.]", "k       [1. 2.]", "h       absent", "loss    absent"]),
    ("trace", ["0     seed          loss", "5     take          h", "x: [10, 20], k: [1, 2]"]),
    ("why", ["h: its gradient was taken out", "loss: its gradient was taken out", "unused: it is not part"]),
    ("keep", ["h       [1. 1.]", "loss    1.0", "unused  absent"]),
    ("constant-run", ["k3: [1. 2.]", "k:  absent"]),
    ("zero-run", ["(x * zeros).sum()  [0. 0.]", "(x * 0).sum()      absent", "(k * k).sum()      absent"]),
    ("or-insert", ["get:       None", "or_insert: [0. 0.]", "or_insert: [10. 20.]"]),
    ("identity", ["same numbers: True   in the store: False"]),
    ("twice-run", ["second: [10. 20.]   first: [10. 20.]", "equal: True", "store: False", "[20. 40.] [2. 4.]"]),
    ("detach-run", ["tracked: False   entries: 1", "x       absent", "loss_d  1.0"]),
    ("step", ["x: [1, 1] + [1, 1] = [2, 2]"]),
    ("wrong-run", ["accumulate    x [2. 2.]  z [1. 1.]", "overwrite     x [1. 1.]  z [1. 1.]",
                   "add_in_place  x [2. 2.]  z [2. 2.]", "x and z share one array: True"]),
    ("micro-run", ["whole batch:       [-22. -39.]", "two micro-batches: [-22. -39.]"]),
    ("mean-run", ["means added:   [2. 2.]", "divided by 2:  [1. 1.]", "sums, 3 and 1: [1. 1.]"]),
    ("memory-run", ["more than 5 times the memory: True", "less than 1.5 times: True", "more than 4 times:   True"]),
    ("others-run", ["candle   has a gradient for x, k\n", "pytorch  has a gradient for x\n",
                    "burn     has a gradient for x\n", "reset    has a gradient for x, h, loss"]),
    ("mistake-run", ["behind a detach: it is not part of the graph", "another node:    it is not part of the graph"]),
])
def test_notebook_shows(cell, expected):
    text = stored(LESSON, cell)
    assert [part for part in expected if part not in text] == []
