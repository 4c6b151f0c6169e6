"""Lesson 07: every number about the four life-cycles, computed anew, and as the stored outputs show it."""

import os

import numpy as np
import pytest

import autodiff as ad
from autodiff.scalar import Value
from test_lessons import stored

NAME = "07_four_life_cycles.ipynb"
SYSTEMS = [ad.contracts.candle, ad.contracts.pytorch, ad.contracts.burn, ad.contracts.reset]
XS, TS = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 4.0, 6.0, 8.0])
PARTS = (slice(0, 2), slice(2, 4))


def forward(x, y):
    u = x * y + x
    return u, u * u


def fresh():
    x, y = ad.Var(3.0), ad.Var(2.0)
    return x, y, *forward(x, y)


def row(question):
    """The answers of the four systems; "error" where one refuses."""
    found = []
    for system in SYSTEMS:
        try:
            g = question(system())
            found.append(g if g is None else np.asarray(g).tolist())
        except (RuntimeError, ValueError, FloatingPointError):
            found.append("error")
    return found


def after(roots, look=lambda x, u, loss: x, clear=False):
    """The question: backward from each of roots(x, y, u, loss), then look at one node."""

    def question(c):
        x, y, u, loss = fresh()
        for i, root in enumerate(roots(x, y, u, loss)):
            if i and clear:
                c.clear()
            c.backward(root)
        return c.grad(look(x, u, loss))

    return question


def test_one_backward_is_the_same_everywhere():
    assert row(after(lambda x, y, u, loss: [loss])) == [54] * 4


def test_a_new_forward_adds_in_pytorch_alone_until_cleared():
    def rounds(x, y, u, loss):
        return [forward(x, y)[1] for _ in range(2)]

    assert row(after(rounds)) == [54, 108, 54, 54]
    assert row(after(rounds, clear=True)) == [54] * 4


def test_54_then_108_then_cleared_then_54():
    c, (x, y, *_) = ad.contracts.pytorch(), fresh()
    seen = []
    for action in ("backward", "backward", "clear", "backward"):
        c.clear() if action == "clear" else c.backward(forward(x, y)[1])
        seen.append(c.grad(x))
    assert seen == [54, 108, None, 54]


def test_a_second_backward_over_the_same_graph():
    assert row(after(lambda x, y, u, loss: [loss, loss])) == [54, "error", "error", 54]

    def same_sum(c):
        x = ad.Var(3.0)
        total = x + x
        c.backward(total)
        c.backward(total)
        return c.grad(x)

    assert row(same_sum) == [2, 4, "error", 2]


@pytest.mark.parametrize("keep, clear, expected", [
    (False, False, "error"), (False, True, "error"), (True, False, 108), (True, True, 54)])
def test_retaining_the_graph_and_clearing_the_gradients_are_two_switches(keep, clear, expected):
    c, (x, _, _, loss) = ad.contracts.pytorch(), fresh()
    c.backward(loss, retain_graph=keep)
    if clear:
        c.clear()
    if expected == "error":
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            c.backward(loss)
        return
    c.backward(loss)
    assert c.grad(x) == expected
    with pytest.raises(RuntimeError, match="retain_graph=True"):  # the second pass freed the values
        c.backward(loss)


def test_two_results_with_a_common_part():
    def two_calls(c, **first):
        x = ad.Var(3.0)
        k = x * x
        c.backward(2 * k, **first)
        c.backward(3 * k)
        return c.grad(x)

    def one_call(c):
        x = ad.Var(3.0)
        k = x * x
        c.backward(2 * k + 3 * k)
        return c.grad(x)

    assert row(two_calls) == [18, "error", "error", 18]
    assert row(one_call) == [30] * 4
    assert two_calls(ad.contracts.pytorch(), retain_graph=True) == 30


def test_who_gets_a_gradient():
    def constant(c):
        x, k = ad.Var(3.0), ad.Tensor(2.0)
        c.backward(x * k)
        return c.grad(k)

    def root(x, y, u, loss):
        return [loss]

    assert row(after(root, look=lambda x, u, loss: u)) == [None, None, None, 18]
    assert row(after(root, look=lambda x, u, loss: loss)) == [None, None, None, 1]
    assert row(constant) == [3, None, None, None]


def test_retain_grad_adds_and_belongs_to_one_node():
    c, (x, y, u, loss) = ad.contracts.pytorch(), fresh()
    c.retain_grad(u)
    c.backward(loss, retain_graph=True)
    assert (c.grad(u), c.grad(x)) == (18, 54)
    c.backward(loss)
    assert (c.grad(u), c.grad(x)) == (36, 108)
    new_u, new_loss = forward(x, y)
    c.backward(new_loss)
    assert (c.grad(new_u), c.grad(u), c.grad(x)) == (None, 36, 162)


def test_numbers_left_over_from_an_earlier_root():
    z = ad.Var(2.0)
    assert row(after(lambda x, y, u, loss: [loss, z * z])) == [None, 54, None, 54]


def test_the_rows_at_the_edges():
    @ad.custom_op(vjps=[lambda g, y, x: None])
    def silent(x):
        return x.copy()

    def of(start, make, kind=ad.Var):
        def question(c):
            x = kind(start)
            with np.errstate(divide="ignore"):
                c.backward(make(x, c))
            return c.grad(x)

        return question

    assert row(of([1.0, 2.0], lambda x, c: 2 * x)) == [[2, 2], "error", [2, 2], "error"]
    assert row(of(1.0, lambda k, c: k, ad.Tensor)) == [1, "error", "error", 1]
    assert row(of(2.0, lambda x, c: x * c.detach(x * x))) == [4] * 4
    assert row(of(2.0, lambda x, c: x * (x * x))) == [12] * 4
    assert row(of(0.0, lambda x, c: np.sqrt(x))) == [np.inf, np.inf, np.inf, "error"]
    assert row(of(2.0, lambda x, c: silent(x))) == [None, None, "error", None]
    assert row(of(2.0, lambda x, c: silent(2 * x))) == ["error", None, "error", None]


def test_reset_does_what_the_scalar_engine_does():
    c, (x, y, u, loss) = ad.contracts.reset(), fresh()
    sx, sy = Value(3.0), Value(2.0)
    su, sloss = forward(sx, sy)
    sz, z = Value(2.0), ad.Var(2.0)
    for root, sroot in ((loss, sloss), (loss, sloss), (z * z, sz * sz)):
        c.backward(root)
        sroot.backward()
        pairs = zip((x, y, u, loss, z), (sx, sy, su, sloss, sz))
        assert all(c.grad(t) == s.grad for t, s in pairs)


def loss_of(w, part):
    return ((w * XS[part] - TS[part]) ** 2).sum()


def test_micro_batches_add_up():
    w = ad.Var(0.0)
    assert [loss_of(w, part).backward()[w].item() for part in (slice(0, 4), *PARTS)] == [-120, -20, -100]

    def in_parts(c):
        for part in PARTS:
            c.backward(loss_of(w, part))
        return c.grad(w)

    assert row(in_parts) == [-100, -120, -100, -100]
    c, total = ad.contracts.candle(), ad.GradStore()
    for part in PARTS:
        total.extend(c.backward(loss_of(w, part)))
    assert total[w].item() == -120


def by_hand(clear, rounds):
    """The path of w without any engine: the slope of a part is its sum of 2x(wx - 2x)."""
    slopes = [(XS[part] ** 2).sum() * 2 for part in PARTS]
    w, collected, path = 0.0, 0.0, [0.0]
    for _ in range(rounds):
        collected = collected if clear == "never" else 0.0
        for slope in slopes:
            collected = (0.0 if clear == "before each micro-batch" else collected) + slope * (w - 2)
        w -= 0.005 * collected
        path.append(w)
    return path


def test_where_the_clear_stands():
    assert by_hand("after each update", 4) == pytest.approx([0, 0.6, 1.02, 1.314, 1.5198])
    assert by_hand("before each micro-batch", 4) == pytest.approx([0, 0.5, 0.875, 1.15625, 1.3671875])
    assert by_hand("never", 4) == pytest.approx([0, 0.6, 1.62, 2.754, 3.6618])
    swing = by_hand("never", 200)
    assert -0.2 < min(swing) < 0.1 and 3.9 < max(swing) < 4.2 and max(swing[150:]) > 3.9
    assert all(abs(by_hand(clear, 200)[-1] - 2) < 1e-9 for clear in ("after each update", "before each micro-batch"))
    for clear in ("after each update", "before each micro-batch", "never"):
        c, w, path = ad.contracts.pytorch(), ad.Var(0.0), [0.0]
        for _ in range(12):
            for part in PARTS:
                if clear == "before each micro-batch":
                    c.clear()
                c.backward(loss_of(w, part))
            w.set(w.data - 0.005 * c.grad(w))
            if clear == "after each update":
                c.clear()
            path.append(w.item())
        np.testing.assert_allclose(path, by_hand(clear, 12), rtol=1e-12)


def test_a_function_that_returns_gradients_has_no_life_cycle():
    df = ad.grad(lambda x, y: (x * y + x) ** 2, argnums=(0, 1))
    assert df(3.0, 2.0) == df(3.0, 2.0) == (54, 54)


@pytest.mark.torch
def test_what_the_lesson_says_of_pytorch_itself():
    try:
        import torch
    except ImportError:
        if "torch" in os.environ.get("AUTODIFF_REQUIRE", ""):
            raise
        pytest.skip("PyTorch is not installed: pip install torch==2.13.0 compares with it")
    x, y = (torch.tensor(v, requires_grad=True) for v in (3.0, 2.0))
    u, loss = forward(x, y)
    u.retain_grad()
    loss.backward(retain_graph=True)
    loss.backward()
    assert (u.grad.item(), x.grad.item()) == (36, 108)
    new_u, new_loss = forward(x, y)
    new_loss.backward()
    assert x.grad.item() == 162
    torch.optim.SGD([x, y], lr=0.1).zero_grad()
    assert x.grad is None and u.grad.item() == 36
    k = x * x
    (2 * k).backward()
    with pytest.raises(RuntimeError, match="a second time"):
        (3 * k).backward()
    twice = x + x
    x.grad = None
    twice.backward()
    twice.backward()
    assert x.grad.item() == 4


@pytest.mark.parametrize("cell, expected", [
    ("once", ["54.0     54.0     54.0     54.0"]),
    ("again", ["forward, backward, twice          54.0     108.0    54.0     54.0",
               "the same, with a clear between    54.0     54.0     54.0     54.0"]),
    ("clear", ["backward   x 54.0\nbackward   x 108.0\nclear      x None\nbackward   x 54.0"]),
    ("same", ["u*u: same graph, backward twice   54.0     error    error    54.0",
              "x+x: same graph, backward twice   2.0      4.0      error    2.0"]),
    ("messages", ["Use retain_graph=True the first time", "has been consumed by an earlier backward"]),
    ("retain", ["False         False   error", "False         True    error", "True          False   108.0",
                "True          True    54.0"]),
    ("trunk", ["a, then b            18.0     error    error    18.0",
               "a + b at once        30.0     30.0     30.0     30.0"]),
    ("leaf", ["the interior node u               none     none     none     18.0",
              "the root L                        none     none     none     1.0",
              "a constant k in x*k               3.0      none     none     none"]),
    ("keep", ["once       u 18.0   x 54.0", "twice      u 36.0   x 108.0", "new graph  u None   x 162.0"]),
    ("stale", ["none     54.0     none     54.0"]),
    ("edges", ["[2. 2.]  error    [2. 2.]  error", "root without history              1.0      error    error    1.0",
               "x * detach(x*x) at 2              4.0      4.0      4.0      4.0", "inf      inf      inf      error",
               "at the leaf       none     none     error    none", "up        error    none     error    none"]),
    ("table", ["forward, backward, twice          54.0     108.0    54.0     54.0",
               "rule says None, further up        error    none     error    none"]),
    ("parts", ["whole batch  -120.0", "first part   -20.0", "second part  -100.0"]),
    ("parts-run", ["-100.0   -120.0   -100.0   -100.0", "with the stores added: -120.0"]),
    ("when", ["0.000  0.600  1.020  1.314  1.520", "0.000  0.500  0.875  1.156  1.367",
              "0.000  0.600  1.620  2.754  3.662"]),
    ("others-run", ["call 1:  x 54.0  y 54.0", "call 2:  x 54.0  y 54.0"]),
])
def test_the_stored_outputs_show_these_numbers(cell, expected):
    text = stored(NAME, cell)
    assert [part for part in expected if part not in text] == []
