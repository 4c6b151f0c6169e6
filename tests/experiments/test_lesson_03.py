"""Lesson 03, an order to work in: every number it shows, computed anew; its own walk beside the engine's."""

import time

import nbformat
import numpy as np
import pytest

import autodiff as ad
from autodiff.scalar import Value
from test_lessons import ROOT, stored

LESSON = "03_an_order_to_work_in.ipynb"


def doublings(n, start):
    node = start
    for _ in range(n):
        node = node + node
    return node


def naive(node, g, grads):
    """A walk along every path of sums. The visits made."""
    grads[node] = grads.get(node, 0.0) + g
    return 1 + sum(naive(i, g, grads) for i in (node.op.inputs if node.op else ()))


def same(found, expected):
    """Whether these are the same nodes, not only equal ones."""
    return len(found) == len(expected) and all(a is b for a, b in zip(found, expected))


def lesson_code(*ids):
    notebook = nbformat.read(ROOT / "notebooks" / LESSON, as_version=4)
    namespace = {"ad": ad, "np": np}
    for cell_id in ids:
        exec(next(cell.source for cell in notebook.cells if cell.id == cell_id), namespace)
    return namespace


@pytest.mark.parametrize("n, visits", [(1, 3), (2, 7), (3, 15), (4, 31), (10, 2047), (15, 65535)])
def test_the_naive_walk_makes_a_visit_for_each_path(n, visits):
    start, grads = ad.Var(1.0), {}
    assert naive(doublings(n, start), 1.0, grads) == visits == 2 ** (n + 1) - 1
    assert grads[start] == 2**n
    assert f"{n:2}   {n + 1:5}   {visits:6}   {2**n:8}" in stored(LESSON, "naive-run")


def test_sixty_doublings_have_61_nodes_120_edges_and_2_to_the_60_paths():
    start = ad.Var(1.0)
    root = doublings(60, start)
    nodes = ad.sorted_nodes(root)
    assert (len(nodes), sum(len(n.op.inputs) for n in nodes if n.op)) == (61, 120)
    assert root.backward()[start].item() == 2**60
    text = stored(LESSON, "sixty-run")
    assert "(61, 120)" in text and f"{2**60:.7e}" in text and "exactly 2**60: True" in text
    assert f"{2**61 - 1:,}" in stored(LESSON, "years")


def test_the_naive_walk_would_take_more_than_a_thousand_years_for_sixty():
    root = doublings(14, ad.Var(1.0))
    start = time.perf_counter()
    visits = naive(root, 1.0, {})
    assert (2**61 - 1) * (time.perf_counter() - start) / visits > 1000 * 365 * 24 * 3600


def test_from_4_doublings_to_16_the_naive_walk_grows_4228_times_and_the_list_3_4_times():
    few, many = (doublings(n, ad.Var(1.0)) for n in (4, 16))
    visits = [naive(root, 1.0, {}) for root in (few, many)]
    nodes = [len(ad.sorted_nodes(root)) for root in (few, many)]
    assert visits == [31, 131071] and round(visits[1] / visits[0]) == 4228
    assert nodes == [5, 17] and nodes[1] / nodes[0] == 3.4
    text = stored(LESSON, "timed-run")
    assert "visits 31 and then 131071" in text and "5 and then     17, 3.4 times" in text


def test_time_grows_with_the_visits():
    def shortest(walk, n):
        root, times = doublings(n, ad.Var(1.0)), []
        for _ in range(5):
            start = time.perf_counter()
            walk(root)
            times.append(time.perf_counter() - start)
        return min(times)

    assert shortest(lambda root: naive(root, 1.0, {}), 16) > 100 * shortest(lambda root: naive(root, 1.0, {}), 4)
    assert shortest(ad.sorted_nodes, 16) < 30 * shortest(ad.sorted_nodes, 4)


def test_passed_on_too_early_20_arrives_for_36():
    x = ad.Var(2.0)
    s = x * x
    t = s + 1
    p = s * t
    slopes = {p: [t.item(), s.item()], t: [1.0], s: [2.0, 2.0], x: []}
    grads, seen = {p: 1.0}, set()

    def walk(node):
        seen.add(node)
        for i, slope in zip([i for i in (node.op.inputs if node.op else ()) if isinstance(i, ad.Tensor)], slopes[node]):
            grads[i] = grads.get(i, 0.0) + grads[node] * slope
            if i not in seen:
                walk(i)

    walk(p)
    assert grads[x] == 20 and p.backward()[x].item() == 36
    assert "too early: 20.0   autodiff: 36.0" in stored(LESSON, "early-run")


def leads(node, memo, order, when_seen):
    """The walk of the lesson: does a node lead to a Var?"""
    if node in memo:
        return when_seen(memo[node])
    below = [leads(i, memo, order, when_seen) for i in (node.op.inputs if node.op else ()) if isinstance(i, ad.Tensor)]
    memo[node] = node.is_variable or any(below)
    order += [node] if memo[node] else []
    return memo[node]


def test_a_memo_that_only_says_seen_loses_the_product_and_gives_1_for_7():
    x = ad.Var(3.0)
    square = x * x
    L = x + square
    right, lost = [], []
    leads(L, {}, right, lambda answer: answer)
    leads(L, {}, lost, lambda answer: False)
    assert same(right, [x, square, L]) and same(lost, [x, L])
    assert L.backward()[x].item() == 7 and (x + square.detach()).backward()[x].item() == 1
    text = stored(LESSON, "memo-run")
    assert "['add', 'multiply', 'x']" in text and "['add', 'x']" in text
    assert "gradient 7.0   without multiply 1.0" in text


@pytest.mark.parametrize("keep_no, expected", [(True, 31), (False, 65535)])
def test_a_memo_that_forgets_the_no_looks_along_every_path(keep_no, expected):
    dead = doublings(15, np.ceil(ad.Var(3.0)))
    assert ad.sorted_nodes(dead) == []
    memo, looks = set(), 0
    todo = [dead]
    while todo:  # no node leads to a Var, so a memo of the yes alone stays empty
        node = todo.pop()
        looks += 1
        if node not in memo:
            todo += node.op.inputs if node.op.name == "add" else []
            memo |= {node} if keep_no else set()
    assert looks == expected
    assert f"{'keeps yes and no' if keep_no else 'keeps only yes'}: {expected}" in stored(LESSON, "memo-no")


@pytest.mark.parametrize("flat", [np.ceil, np.floor, np.round, np.rint, np.trunc, np.sign])
def test_the_lessons_own_walk_agrees_with_the_engine_on_what_is_flat(flat):
    walk = lesson_code("memo")["leads"]
    for x in (ad.Var(1.5), ad.Tensor(1.5)):
        for L in (flat(x), flat(x) + x, flat(x * x) * 2.0):
            order = []
            assert walk(L, {}, order, lambda answer: answer) == bool(ad.sorted_nodes(L)), L
            assert same(order[::-1], ad.sorted_nodes(L))


def test_what_is_left_out_changes_no_gradient():
    x = ad.Var([0.5, 1.5], name="x")
    inside = np.ceil(x) + x
    L = inside.sum()
    assert same(ad.sorted_nodes(L), [L, inside, x]) and L.backward()[x].data.tolist() == [1, 1]
    direct = [np.sign(x) + x, np.floor(x) + x, x.astype(int).astype(float) + x, x * 0 + x]
    assert all(y.backward()[x].data.tolist() == [1, 1] and len(ad.sorted_nodes(y)) == 2 for y in direct)
    assert x[np.argmax(x)].backward()[x].data.tolist() == [0, 1]


def test_recursion_fails_at_depth_100_000_and_a_stack_does_not():
    small, start = Value(1.0), ad.Var(1.0)
    y, z = small, start
    for _ in range(100_000):
        y, z = y + 0.5, z + 0.5
    with pytest.raises(RecursionError):
        leads(z, {}, [], lambda answer: answer)
    y.backward()
    assert small.grad == 1 and len(ad.sorted_nodes(z)) == 100_001 and z.backward()[start].item() == 1
