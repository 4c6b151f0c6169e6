"""What a hostile reader of transforms, passes, checkpoints and reasons found."""

import asyncio
import copy
import pickle
import time
from collections import Counter, OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest

import autodiff as ad


# Checkpoints


def test_a_checkpoint_that_captures_other_tensors_when_it_runs_again_says_so():
    x, ws = ad.Var(1.5), [ad.Var(1.0) for _ in range(3)]  # of one value, so the result tells no difference
    late, bound = x, x
    for w in ws:
        late = ad.checkpoint(lambda a: a * w)(late)  # noqa: B023
        bound = ad.checkpoint(lambda a, w=w: a * w)(bound)
    assert [bound.backward()[w].item() for w in ws] == [1.5] * 3
    with pytest.raises(RuntimeError, match="captured other tensors .* of a loop"):
        late.backward()

    cache = {}

    def cached(a):
        cache.setdefault("w", np.exp(ws[0]))
        return a * cache["w"]

    def lazy(a):
        cache.setdefault("own", ad.Var(2.0))
        return a * cache["own"]

    for f in (cached, lazy):
        with pytest.raises(RuntimeError, match="captured other tensors .* keeps results"):
            ad.checkpoint(f)(x).backward()
        assert ad.checkpoint(f)(x).backward()[x].item() == (np.e if f is cached else 2)  # computed before


def test_a_checkpoint_may_make_constants_once():
    made, x = [], ad.Var([1.0, 2.0])

    def masked(a):
        made.append(ad.Tensor([0.0, 1.0])) if not made else None
        return (a * made[0] * a).sum()

    assert ad.checkpoint(masked)(x).backward()[x].data.tolist() == [0, 4]


def test_a_checkpoint_keeps_its_arguments_with_structure_as_they_were():
    x, c = ad.Var([0.0, 0.0]), np.array([2.0, 3.0])  # at 0, so the result tells no difference
    for f in (lambda x, p: (x * p["c"][0]).sum(), lambda x, p: (p["x"] * p["c"].pop()).sum() + 0 * x.sum()):
        p = {"c": [c.copy()], "x": x}
        y, z = ad.checkpoint(f)(x, {**p, "c": list(p["c"])}), ad.checkpoint(f)(x, p)
        if p["c"]:
            p["c"][0][:] = 7
        p["c"], p["x"] = [np.zeros(2)], ad.Var([0.0, 0.0])
        for _ in range(2):
            assert (y + z).backward()[x].data.tolist() == [4, 6]
    log, y = [], ad.Var(2.0)
    assert ad.checkpoint(lambda a, log: log.append(a.item()) or a * a)(y, log=log).backward()[y].item() == 4
    assert log == [2]


# Structures


class Layer(list):
    """A list with something of its own."""

    def __init__(self, name, items=()):
        super().__init__(items)
        self.name = name


class Pair(namedtuple("Pair", "a b")):
    def __new__(cls, both):
        return super().__new__(cls, both, both)


@pytest.mark.parametrize("p", [Counter(a=2.0, b=3.0), OrderedDict(a=2.0, b=3.0), defaultdict(float, a=2.0, b=3.0)])
def test_a_gradient_in_a_dict_of_another_kind_takes_the_place_of_the_value(p):
    assert ad.grad(lambda p: p["a"] * p["b"])(p) == {"a": 3, "b": 2} and type(ad.grad(lambda p: p["a"])(p)) is type(p)


def test_a_gradient_in_a_sequence_of_another_kind_needs_no_constructor():
    g = ad.grad(lambda p: p[0] * p[1] if p.name == "first" else None)(Layer("first", [2.0, 3.0]))
    assert type(g) is Layer and (g, g.name) == ([3, 2], "first")
    assert ad.grad(lambda p: p.a * p.b**2)(Pair(2.0))._asdict() == {"a": 4, "b": 8}


def test_a_gradient_has_the_structure_that_the_argument_had():
    p = [2.0, 3.0]
    _, pullback = ad.vjp(lambda p: p[0] * p[1], p)
    for change in (lambda: p.append(4.0), p.clear):
        change()
        assert pullback() == ([3, 2],)
    p = {"a": 2.0}
    assert ad.grad(lambda own: p.update(b=1.0) or own.update(c=1.0) or own["a"] ** 2)(p) == {"a": 4}


@pytest.mark.parametrize("call", [
    lambda p, t: ad.hvp(lambda p: p["a"] ** 2, p, t),
    lambda p, t: ad.jvp(lambda p: p["a"] ** 2, (p,), (t,)),
])  # fmt: skip
@pytest.mark.parametrize("p, t", [(None, 5.0), (None, {}), (3.0, None)], ids=str)
def test_nothing_and_something_are_unlike(call, p, t):
    with pytest.raises(ValueError, match=r"tangent of p\['b'\].* None"):
        call({"a": 3.0, "b": p}, {"a": 1.0, "b": t})


def test_an_optimiser_refuses_a_gradient_of_nothing():
    params = {"w": ad.Var(1.0), "b": None}
    with pytest.raises(ValueError, match=r"params\['b'\]: expected None"):
        ad.optim.SGD(params, lr=0.5).step({"w": 1.0, "b": 1.0})
    ad.optim.SGD(params, lr=0.5).step({"w": 1.0, "b": None})
    assert params["w"].item() == 0.5


# What a pass visits


def reason_of(call) -> str:
    with pytest.raises(ad.MissingGradientError) as error:
        call()
    return error.value.reason


@pytest.mark.parametrize("f", [np.floor, lambda x: 0 * x, ad.custom_op(vjps=[None])(lambda a: a * 2)])
def test_a_root_that_passes_nothing_on_leads_to_nothing(f):
    x = ad.Var(1.5)
    assert ad.sorted_nodes(f(x), [x]) == ad.sorted_nodes(f(x)) == []
    assert [reason_of(lambda: f(x).backward(wrt=w)[x]) for w in (None, [x])] == ["pruned"] * 2  # noqa: B023
    y = f(x)
    assert y.backward(wrt=[x, y])[y].item() == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_plain_tensor_that_was_broadcast_can_be_asked_for_where_no_var_is_reached(dtype):
    k = ad.Tensor(np.array(2.0, dtype))
    product = np.floor(ad.Var([1.5, 2.5])) * k
    y = -product
    t, between = product.op.inputs[1], []
    while t is not k:
        between.append(t)
        t = t.op.inputs[0]
    assert len(between) == 1 + (dtype is np.float32)
    for t in (*between, k):
        assert y.backward(wrt=[t])[t].data.sum() == -3  # -(1 + 2)


# Why a gradient is missing


def seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start


def test_what_lies_behind_a_pruned_part_is_walked_once():
    x = h = ad.Var(1e-30)
    for _ in range(60):  # 2^60 paths
        h = h + h
    y = x * np.floor(h)
    assert seconds(lambda: y.backward()) < 1
    assert reason_of(lambda: y.backward()[h]) == "pruned"


def test_many_detached_leaves_are_asked_together():
    x = h = ad.Var(0.5)
    loss = 0.0
    for _ in range(1000):
        h, before = np.tanh(h), h
        loss = loss + (h - before.detach()) ** 2
    store, other, inner = loss.backward(), ad.Var(1.0), np.sin(x)
    assert seconds(lambda: reason_of(lambda: store[other])) < 1
    assert reason_of(lambda: store[other]) == "foreign"
    y = (np.exp(inner).detach() * 2.0).detach() * x
    assert reason_of(lambda: y.backward()[inner]) == "detached"


def test_what_lies_below_an_operand_without_a_partial_is_pruned_whatever_is_asked():
    first_only = ad.custom_op(vjps=[lambda g, y, a, b: g * b, None])(lambda a, b: a * b)
    k, z = ad.Tensor(2.0), ad.Var(3.0)
    y = ad.Var(1.0) * first_only(k, np.exp(z))
    for wrt in (None, [k, z], [z]):
        assert reason_of(lambda: y.backward(wrt=wrt)[z]) == "pruned"  # noqa: B023
    assert y.backward(wrt=[k, z])[k].item() == pytest.approx(np.exp(3.0))


def test_a_store_with_a_detach_behind_it_can_be_copied_and_pickled():
    x, w = ad.Var(3.0), ad.Var(2.0)
    store = (x * (w * w).detach()).backward()
    for other in (copy.deepcopy(store), pickle.loads(pickle.dumps(store))):
        assert other == store and other[x].item() == 4
        assert reason_of(lambda: other[w]) == "detached"  # noqa: B023


# What partials return, and contexts that end elsewhere


def test_a_partial_may_use_its_memory_again():
    buffer, x = np.empty(2), ad.Var([1.0, 2.0])
    doubled = ad.custom_op(vjps=[lambda g, y, a: np.multiply(g, 2, out=buffer)])(lambda a: 2 * a)
    spread = ad.custom_op(vjps=[lambda g, y, a: np.broadcast_to(buffer[:1], 2)])(lambda a: a)
    store = (doubled(x) + 3 * doubled(x)).sum().backward()
    assert store[x].data.tolist() == [8, 8]
    buffer[:] = 5
    once = spread(x).backward()
    buffer[:] = 9
    assert once[x].data.tolist() == [5, 5] and store[x].data.tolist() == [8, 8]
    assert ad.jacobian(doubled)(np.ones(2)).tolist() == [[2, 0], [0, 2]]


def test_a_gradient_does_not_change_with_a_var_that_the_partial_returned():
    x, k = ad.Var(1.0), ad.Var(5.0)
    by_k = ad.custom_op(vjps=[lambda g, y, a: k])(lambda a: a * 5)
    grads = [by_k(x).backward(detach=d)[x] for d in ("all", "taken", "none")]
    assert grads[2].backward()[k].item() == 1
    k.set(7.0)
    assert [g.item() for g in grads] == [5, 5, 5]


@pytest.mark.parametrize("within", [ad.detect_nonfinite, ad.no_grad])
def test_a_context_may_end_in_another_task_than_it_began_in(within):
    async def numbers():
        with within():
            yield 1

    async def main():
        a = numbers()
        async for _ in a:
            break
        await asyncio.create_task(a.aclose())

    asyncio.run(main())


def test_a_checkpoint_follows_the_rules_of_the_pass_that_runs_it():
    x, candle = ad.Var([1.0, 1.0, 0.0]), ad.contracts.candle()
    for f in (np.max, lambda a: np.abs(a).sum() + np.max(a)):
        twice = lambda a: ad.checkpoint(ad.checkpoint(f))(a)  # noqa: B023, E731
        expected = candle.backward(f(x))[x].data  # each winner all of it, and slope 1 of abs at 0
        assert expected.tolist() in ([1, 1, 0], [2, 2, 1])
        for g in (ad.checkpoint(f), twice):
            assert candle.backward(g(x))[x].data.tolist() == expected.tolist()
            assert ad.trace(g(x), contract=candle).grads[x].tolist() == expected.tolist()
            assert g(x).backward()[x].data.tolist() == f(x).backward()[x].data.tolist() != expected.tolist()


@pytest.mark.parametrize("kind", [ad.optim.SGD, ad.optim.AdamW])
def test_an_optimiser_steps_the_vars_it_was_given(kind):
    w, params = ad.Var(1.0), {}
    params["w"] = w
    optimiser = kind(params, lr=0.5)
    params["w"] = w - 0.1  # a Tensor takes the name
    params["b"] = ad.Var(2.0)
    optimiser.step({"w": 1.0})
    assert w.item() < 0.6 and params["b"].item() == 2
    before = w.item()
    optimiser.step((w * params["b"]).backward())
    assert w.item() < before and params["b"].item() == 2
