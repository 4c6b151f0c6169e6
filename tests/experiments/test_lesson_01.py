"""Lesson 01, the shared node: right and wrong engines, each walk written anew over the engine's own graph."""

import pytest

import autodiff as ad
from autodiff.scalar import Value
from test_lessons import stored

LESSON = "01_the_shared_node.ipynb"
ORDERS = {"slot 1, 2": 1, "slot 2, 1": -1}


def local_slopes(node):
    """One local slope for each slot, by hand."""
    if node.op is None:
        return []
    at = [i.item() if isinstance(i, ad.Tensor) else i for i in node.op.inputs]
    return {"add": lambda: [1, 1], "multiply": lambda: [at[1], at[0]], "square": lambda: [2 * at[0]]}[node.op.name]()


def edges(node):
    """(input, local slope) for each slot of a node."""
    return list(zip(node.op.inputs, local_slopes(node))) if node.op else []


def graph(square):
    x, y = ad.Var(3.0), ad.Var(2.0)
    u = x * y + x
    return u, x, y, square(u)


SQUARES = {"u * u ": lambda u: u * u, "u ** 2": lambda u: u**2}


def depth_first_overwriting(node, g, turn, grads):
    grads[node] = g
    for i, slope in edges(node)[::turn]:
        depth_first_overwriting(i, g * slope, turn, grads)
    return grads


def in_order(root, join, once=False):
    """Newest node first: `join` puts a share to what is there. `once`: only the first edge to each input."""
    grads = {root: 1.0}
    for node in ad.sorted_nodes(root):
        used = set()
        for i, slope in edges(node):
            if not (once and i in used):
                grads[i] = join(grads.get(i, 0.0), grads[node] * slope)
            used.add(i)
    return grads


def add(old, new):
    return old + new


def overwrite(old, new):
    return new


def visits(node):
    return 1 + sum(visits(i) for i, _ in edges(node))


@pytest.mark.parametrize("square", SQUARES)
def test_every_engine_gives_18_54_54(square):
    u, x, y, L = graph(SQUARES[square])
    grads = L.backward(keep=[u])
    by_hand = in_order(L, add)
    assert [grads[t].item() for t in (u, x, y)] == [by_hand[t] for t in (u, x, y)] == [18, 54, 54]
    a, b = Value(3.0), Value(2.0)
    v = a * b + a
    SQUARES[square](v).backward()
    assert (v.data, v.grad, a.grad, b.grad) == (9, 18, 54, 54)
    slope = lambda f: (f(1e-3) - f(-1e-3)) / 2e-3
    assert slope(lambda h: ((3 + h) * 2 + 3 + h) ** 2) == pytest.approx(54) == slope(lambda h: (9 + 3 * h) ** 2)


def test_the_shares_are_those_of_the_table_by_hand():
    u, x, y, L = graph(SQUARES["u * u "])
    p = u.op.inputs[0]
    grads = in_order(L, add)
    shares = [[grads[node] * slope for _, slope in edges(node)] for node in (L, u, p)]
    assert shares == [[9, 9], [18, 18], [36, 54]]
    text = stored(LESSON, "scalar-shares")
    assert all(f"slot {slot}   share {share:3.0f}" in text for row in shares for slot, share in enumerate(row, 1))


@pytest.mark.parametrize("square, order, expected", [
    ("u * u ", "slot 1, 2", [9, 9, 27]), ("u * u ", "slot 2, 1", [9, 18, 27]),
    ("u ** 2", "slot 1, 2", [18, 18, 54]), ("u ** 2", "slot 2, 1", [18, 36, 54]),
])
def test_overwriting_depth_first_gives_four_wrong_rows(square, order, expected):
    *nodes, L = graph(SQUARES[square])
    grads = depth_first_overwriting(L, 1.0, ORDERS[order], {})
    assert [grads[t] for t in nodes] == expected != [18, 54, 54]
    row = "{:3.0f} {:3.0f} {:3.0f}".format(*expected)
    assert f"{square}  {order}  {row}" in stored(LESSON, "overwrite-run")


@pytest.mark.parametrize("square, expected", [("u * u ", [9, 18, 27]), ("u ** 2", [18, 36, 54])])
def test_overwriting_in_a_good_order_is_wrong_too(square, expected):
    *nodes, L = graph(SQUARES[square])
    assert [in_order(L, overwrite)[t] for t in nodes] == expected
    assert "{}  overwriting     {:3.0f} {:3.0f} {:3.0f}".format(square, *expected) in stored(LESSON, "overwrite-sorted")


def test_a_removed_edge_halves_the_square():
    z = ad.Var(-3.0)
    q = z * z
    assert in_order(q, add)[z] == q.backward()[z].item() == -6 and in_order(q, add, once=True)[z] == -3
    assert "every edge        -6.0\nrepeated removed  -3.0" in stored(LESSON, "edges-run")


def test_removed_edges_give_9_27_27_and_removed_visits_save_6_of_11():
    u, x, y, L = graph(SQUARES["u * u "])
    grads = in_order(L, add, once=True)
    assert [grads[t] for t in (u, x, y)] == [9, 27, 27]
    assert (visits(L), len(ad.sorted_nodes(L))) == (11, 5)
    text = stored(LESSON, "edges-large")
    assert "u 9.0  x 27.0  y 27.0" in text and "depth first 11   each node once 5" in text
