"""The trace is the backward pass itself: the same store for any graph, and every number on the way."""

import inspect
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad
from autodiff.drawing.text import summary
from autodiff.scalar import NonFiniteError, Value
from autodiff.tracing import Trace
from autodiff.tracing.source import function_source, partial_source, used_names, with_numbers


def example():
    x, y = ad.Var(3.0, name="x"), ad.Var(2.0, name="y")
    u = x * y + x
    return x, y, u, u**2


def stores(trace):
    return [{k: float(v) for k, v in step.store.items()} for step in trace]


# The example of the course, step by step


def test_every_event_of_the_example():
    x, y, u, L = example()
    t = ad.trace(L)
    assert [(s.kind, s.where) for s in t] == [
        ("seed", "L"), ("take", "L"),
        ("rule", "L -> u"), ("contribution", "L -> u"), ("accumulate", "L -> u"), ("take", "u"),
        ("rule", "u -> n2"), ("contribution", "u -> n2"), ("accumulate", "u -> n2"),
        ("rule", "u -> x"), ("contribution", "u -> x"), ("accumulate", "u -> x"), ("take", "n2"),
        ("rule", "n2 -> x"), ("contribution", "n2 -> x"), ("accumulate", "n2 -> x"),
        ("rule", "n2 -> y"), ("contribution", "n2 -> y"), ("accumulate", "n2 -> y"),
    ]  # fmt: skip
    assert [float(s.value) for s in t if s.kind == "contribution"] == [18, 18, 18, 36, 54]
    assert stores(t) == [
        {"L": 1}, {},
        {}, {}, {"u": 18}, {},
        {}, {}, {"n2": 18},
        {"n2": 18}, {"n2": 18}, {"n2": 18, "x": 18}, {"x": 18},
        {"x": 18}, {"x": 18}, {"x": 54},
        {"x": 54}, {"x": 54}, {"x": 54, "y": 54},
    ]  # fmt: skip
    assert stores(t) == [{k: float(v) for k, v in t.store_at(i).items()} for i in range(len(t))]


def test_the_words_of_the_example():
    t = ad.trace(example()[3], names={})
    formulas = [s.formula for s in t if s.kind in ("rule", "contribution", "accumulate")]
    assert formulas[:3] == ["square: g * (2 * a)  with g = 1, a = n3 = 9", "1 * (2 * 9) = 18", "n3: 18"]
    assert formulas[-6:] == ["multiply: g * b  with g = 18, b = y = 2", "18 * 2 = 36", "x: 18 + 36 = 54",
                             "multiply: g * a  with g = 18, a = x = 3", "18 * 3 = 54", "y: 54"]  # fmt: skip
    assert t[15].text == "Add it to what is there for x: 18 + 36 = 54."
    assert t[15].before == 18 and t[15].value == 36
    assert t[13].source == "lambda g, y, a, b: g * b"


def test_both_slots_of_one_edge_twice():
    x = ad.Var(-3.0, name="x")
    t = ad.trace(x * x)
    assert [(s.edge.slot, s.edge.operand, float(s.value)) for s in t if s.kind == "contribution"] == [
        (0, "a", -3), (1, "b", -3)]  # fmt: skip
    assert t[-1].formula == "x: -3 + (-3) = -6"


def test_skips_say_why():
    x, mask = ad.Var([1.5, -2.5], name="x"), np.array([True, False])
    i = ad.Tensor([1, 2], name="i")
    L = (np.where(mask, x, np.floor(x)) + (x * 0) + x * i).sum()
    reasons = {s.edge.source.title: s.text for s in ad.trace(L) if s.kind == "skip"}
    assert any("the slope of floor is 0 here" in r for r in reasons.values())
    assert any("the slope of multiply is 0 here" in r for r in reasons.values())
    y = ad.Var([1.0, 1.0], name="y")
    only = [s.text for s in ad.trace((x * y).sum(), wrt=[y]) if s.kind == "skip"]
    assert only == ["No gradient to x (operand a): it leads to none of wrt=."]
    absent = ad.trace((x * 2).sum(), wrt=[y])
    assert [s.kind for s in absent] == ["skip"] and len(absent.grads) == 0


def test_kept_gradients_stay_in_the_store():
    x, y, u, L = example()
    t = ad.trace(L, keep=[u])
    assert float(t[-1].store["u"]) == 18 and float(t.grads[u].item()) == 18
    assert "it stays in the store" in next(s for s in t if s.kind == "take" and s.node.node is u).text


def test_a_partial_may_call_its_arguments_what_it_likes():
    @ad.custom_op(vjps=[lambda c, out, x, y: c * y + 0 * out, lambda *args: args[0] * args[2]])
    def product(x, y):
        return x * y

    t = ad.trace(product(ad.Var(3.0, name="p"), ad.Var(2.0, name="q")), names={})
    assert [s.formula for s in t if s.kind in ("rule", "contribution")] == [
        "product: c * y + 0 * out  with c = 1, out = n2 = 6, y = q = 2", "1 * 2 + 0 * 6 = 2",
        "product: args[0] * args[2]", "args[0] * args[2] = 3"]  # fmt: skip


def test_a_checkpoint_is_traced_and_stepped_as_one_node():
    w, h = ad.Var(2.0, name="w"), ad.Var(3.0, name="h")
    y = ad.checkpoint(lambda h, w: h * w * w)(h, w)
    t = ad.trace(y, names={"y": y})
    assert [(s.where, float(s.value)) for s in t if s.kind == "contribution"] == [("y -> h", 4), ("y -> w", 12)]
    assert [s.source for s in t] == [None] * len(t)
    assert t[2].formula == "checkpoint: run it again, and go back through it  with g = 1"
    assert t[3].formula == "4" and "checkpoint" in repr(t)
    assert ad.step(y).trace.grads[w].item() == 12


def test_an_untracked_root_has_its_ones():
    t = ad.trace(ad.Tensor([1.0, 2.0], name="k"))
    assert [(s.kind, s.value.tolist()) for s in t] == [("seed", [1, 1])]


# The same as backward, for any graph

SHAPES = [(), (2,), (3, 2), (1, 2), (3, 1)]
SMALL = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 1.0, 2.0, 3.0])
UNARY = [np.tanh, np.square, np.negative, np.floor, np.exp, lambda a: a * 0, lambda a: a.detach(), lambda a: a + 0.5,
         lambda a: 2 - a, lambda a: a.sum(), lambda a: np.max(a, axis=-1, keepdims=True) if a.ndim else a,
         lambda a: a.max(), lambda a: a.reshape(-1), lambda a: a.astype("float32"), lambda a: a.astype(int),
         lambda a: a[..., [0, 0, -1]] if a.ndim else a[None], lambda a: a[0] if a.ndim else a[...],
         lambda a: np.sign(a) * a]  # fmt: skip
BINARY = [np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.hypot, lambda a, b: np.where(a > 0, a, b),
          lambda a, b: np.concatenate([a.reshape(-1), b.reshape(-1)])]  # fmt: skip


@st.composite
def graphs(draw):
    nodes = []
    for i in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(SHAPES))
        values = draw(st.lists(SMALL, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        kind = ad.Tensor if i == 2 else ad.Var
        nodes.append(kind(np.reshape(values, shape)))
    for _ in range(draw(st.integers(1, 9))):
        a, b = (nodes[draw(st.integers(0, len(nodes) - 1))] for _ in range(2))
        try:
            made = draw(st.sampled_from(UNARY))(a) if draw(st.booleans()) else draw(st.sampled_from(BINARY))(a, b)
        except (ValueError, IndexError):  # shapes that do not fit
            continue
        if made.size < 200:
            nodes.append(made)
    floating = [n for n in nodes if n.dtype.kind == "f"]
    return floating[-1], floating


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a.data, b.data, equal_nan=True)


def assert_same_store(traced, real):
    assert traced.ids() == real.ids()
    for id in real.ids():
        assert same(traced._grads[id], real._grads[id])
        assert traced._grads[id].tracked == real._grads[id].tracked


@settings(max_examples=300, deadline=None)
@given(graphs(), st.data())
def test_it_ends_as_backward_does(graph, data):
    root, nodes = graph
    options = {"detach": data.draw(st.sampled_from(["all", "taken", "none"])), "strong_zero": data.draw(st.booleans())}
    if data.draw(st.booleans()):
        options["wrt"] = data.draw(st.lists(st.sampled_from(nodes), max_size=3))
    if data.draw(st.booleans()):
        options["keep"] = data.draw(st.lists(st.sampled_from(nodes), max_size=2))
    if data.draw(st.booleans()):
        options["cotangent"] = np.full(root.shape, -1.5, root.dtype)
    with np.errstate(all="ignore"):
        real = root.backward(**options)
        trace = ad.trace(root, **options)
    assert_same_store(trace.grads, real)
    # The store of the last step is the one that is returned, and the sums are the sums of what arrived.
    left = {trace.graph.by_node[t].handle for t in trace.graph.by_node if t in real}
    assert set(trace[-1].store) == left
    for node, steps in trace.uses().items():
        total = sum(s.value.astype(float) for s in steps)
        found = trace.gradients()[node]
        if node is trace.root:
            total = total + trace[0].value
        assert np.allclose(total, found, rtol=1e-4, atol=1e-4, equal_nan=True)
    if options["detach"] == "none" and len(real):
        # the gradient of the gradient too
        id = real.ids()[-1]
        if real._grads[id].tracked and real._grads[id].dtype.kind == "f":
            with np.errstate(all="ignore"):
                second, traced = real._grads[id].backward(), trace.grads._grads[id].backward()
            common = [t for t in nodes if t in second]
            assert common == [t for t in nodes if t in traced]
            assert all(same(second[t], traced[t]) for t in common)


@pytest.mark.parametrize("strong_zero", [False, True])
def test_checkpoints_within_the_pass_know_of_strong_zeros(strong_zero):
    x = ad.Var([-1.0, 4.0], name="x")
    with np.errstate(all="ignore"):
        y = ad.checkpoint(lambda x: np.where(x > 0, np.sqrt(x), x))(x).sum()
        assert_same_store(ad.trace(y, strong_zero=strong_zero).grads, y.backward(strong_zero=strong_zero))


# Under a contract


def shown_by(contract, trace):
    """What the contract shows for the nodes of a trace's graph, by the names of the trace."""
    found = {view.handle: contract.grad(t) for t, view in trace.graph.by_node.items()}
    return {name: g for name, g in found.items() if g is not None}


def outcome(action):
    """What an action returns, or its error."""
    try:
        return action()
    except (RuntimeError, ValueError, FloatingPointError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


CONTRACTS = [ad.contracts.candle, ad.contracts.pytorch, ad.contracts.burn, ad.contracts.reset]


@pytest.mark.parametrize("life_cycle", CONTRACTS)
@settings(max_examples=150, deadline=None)
@given(graph=graphs(), data=st.data())
def test_under_a_contract_it_ends_with_what_that_contract_shows(life_cycle, graph, data):
    root, nodes = graph
    scalars = [n for n in nodes if n.size == 1]
    c = life_cycle()
    with np.errstate(all="ignore"):
        for _ in range(data.draw(st.integers(0, 2))):  # what earlier backwards left
            outcome(lambda: c.backward(data.draw(st.sampled_from(scalars or nodes))))
        options = {}
        if life_cycle is ad.contracts.pytorch:
            for t in data.draw(st.lists(st.sampled_from(nodes), max_size=2)):
                outcome(lambda: c.retain_grad(t))
            options = {"retain_graph": data.draw(st.booleans())}
            if data.draw(st.booleans()):
                options["gradient"] = np.full(root.shape, -1.5, root.dtype)
        if life_cycle is ad.contracts.candle:
            options = {"detach": data.draw(st.booleans())}
        if life_cycle is ad.contracts.reset and scalars:
            root = scalars[-1]
        before = {t: c.grad(t) for t in nodes}
        trace = outcome(lambda: ad.trace(root, contract=c, **options))
        assert all(c.grad(t) is g for t, g in before.items()), "tracing wrote to the life-cycle"
        real = outcome(lambda: c.backward(root, **options))
    if isinstance(trace, str):
        assert trace == real
        return
    assert not isinstance(real, str), real
    shown = shown_by(c, trace)
    assert trace.grads.keys() == {t for t in trace.graph.by_node if c.grad(t) is not None}
    assert all(np.array_equal(g, c.grad(t), equal_nan=True) for t, g in trace.grads.items())
    assert all(g.dtype == c.grad(t).dtype and g.shape == c.grad(t).shape for t, g in trace.grads.items())
    assert trace[-1].store.keys() == shown.keys()
    assert all(np.array_equal(g, shown[name], equal_nan=True) for name, g in trace[-1].store.items())
    # An exported step is one of the known kinds, and adds up.
    assert {s.kind for s in trace} <= {"seed", "take", "rule", "contribution", "accumulate", "skip", "zero", "keep"}
    for s in trace:
        if s.kind in ("accumulate", "keep") and s.before is not None and s.value is not None:
            assert np.allclose(s.before + s.value, s.change[1], rtol=1e-5, equal_nan=True)


def test_four_contracts_say_what_is_theirs():
    x, y, u, L = example()
    k = ad.Tensor(5.0, name="k")
    ends = {}
    for life_cycle in CONTRACTS:
        c = life_cycle()
        c.backward((x * y + x) ** 2 * k)
        t = ad.trace(L * k, contract=c, names={u: "u", L: "L"})
        ends[life_cycle.__name__] = {name: float(g) for name, g in t[-1].store.items()}
        assert t.contract == life_cycle.__name__ and t.text.startswith(f"backward pass from n6 under {t.contract}: ")
    assert ends == {
        "candle": {"k": 81, "x": 270, "y": 270}, "pytorch": {"x": 540, "y": 540}, "burn": {"x": 270, "y": 270},
        "reset": {"n6": 1, "L": 5, "u": 90, "n2": 90, "x": 270, "y": 270},
    }  # fmt: skip


def test_the_words_under_a_contract():
    x, y, u, L = example()
    z = ad.Var(4.0, name="z")
    torch, reset = ad.contracts.pytorch(), ad.contracts.reset()
    torch.retain_grad(u)
    for c in (torch, reset):
        c.backward(x * z)
    root = L + z * 0
    said = [s.text for s in ad.trace(root, contract=torch) if s.kind == "keep"]
    assert said == [
        "Add it to what x.grad holds from an earlier backward: 4 + 54 = 58.",
        "y.grad is empty: now it is 54.",
        "u.grad is empty: now it is 18.",
        "z is not reached: z.grad stays 3, from an earlier backward.",
    ]
    t = ad.trace(root, contract=reset)
    said = {s.kind: s.text for s in t if s.kind in ("zero", "keep", "take")}
    assert said["zero"] == "x holds 4 from an earlier backward: set it to 0 before this one."
    assert said["keep"] == "z is not reached: z stays 3, from an earlier backward."
    assert "it stays on the node" in said["take"]
    assert next(s.formula for s in t if s.kind == "accumulate" and s.edge.source.node is x) == "x: 0 + 18 = 18"
    assert json.loads(json.dumps(t.to_dicts(), allow_nan=False))[-1]["store"]["z"] == 3
    assert float(t.gradients()[t.graph.by_node[x]]) == 54


def test_what_a_contract_refuses_is_refused():
    x, y, u, L = example()
    burn = ad.contracts.burn()
    burn.backward(L)
    with pytest.raises(RuntimeError, match="consumed"):
        ad.trace(L, contract=burn)
    with pytest.raises(TypeError, match="wrt"):
        ad.trace(L, wrt=[x], contract=ad.contracts.candle())
    with pytest.raises(TypeError, match=r"call it: ad.contracts.reset\(\)"):
        ad.trace(L, contract=ad.contracts.reset)
    with pytest.raises(TypeError, match="life-cycle of ad.contracts, candle, pytorch, burn, reset, got 'candle'"):
        ad.trace(L, contract="candle")
    with pytest.raises(TypeError, match="no retain_graph= without a contract="):
        ad.trace(L, retain_graph=True)
    with pytest.raises(TypeError, match="without further arguments"):
        ad.trace(Value(1.0) * 2, contract=burn)


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_the_export_is_plain_and_the_text_is_complete(graph):
    with np.errstate(all="ignore"):
        trace = ad.trace(graph[0])
    dicts = json.loads(json.dumps(trace.to_dicts(), allow_nan=False))
    assert [d["index"] for d in dicts] == list(range(len(trace)))
    assert len(trace.text.splitlines()) == len(trace) + 2
    assert trace._repr_html_().count("<tr>") == len(trace) + 1
    for step, d in zip(trace, dicts):
        assert step.kind in {"seed", "take", "rule", "contribution", "accumulate", "skip"}
        assert d["store"].keys() == step.store.keys()
        if step.kind == "rule":
            assert step.source is not None and step.source.startswith("lambda g, y")


def test_nothing_is_changed_by_tracing():
    x, y, u, L = example()
    before = L.backward(keep=[u])
    t = ad.trace(L)
    assert_same_store(L.backward(keep=[u]), before)
    stored = [s.change[1] for s in t if s.change and s.change[1] is not None]
    copies = [np.array(a) for a in stored]
    L.backward()
    assert all(map(np.array_equal, stored, copies))


def test_earlier_steps_keep_their_numbers():
    x = ad.Var(np.arange(4.0), name="x")
    t = ad.trace((x[[0, 0, 1]].sum() + x[1:].sum() + x * x).sum())
    for node, steps in t.uses().items():
        total = np.zeros(node.shape)
        for s in steps:
            total = total + s.value
            stored = next(later for later in t[s.index :] if later.kind == "accumulate")
            assert np.array_equal(stored.change[1], total)


def test_errors_are_those_of_backward():
    x, y, u, L = example()
    with pytest.raises(ValueError, match="shape"):
        ad.trace(L, np.ones(2))
    with pytest.raises(ValueError, match="detach='some'"):
        ad.trace(L, detach="some")
    with pytest.raises(TypeError, match="floating"):
        ad.trace(ad.Tensor([1, 2]))
    with pytest.raises(TypeError, match="Tensor or an autodiff.scalar.Value"):
        ad.trace(3.0)
    with ad.detect_nonfinite(), np.errstate(divide="ignore"), pytest.raises(FloatingPointError, match="sqrt"):
        ad.trace(np.sqrt(ad.Var([0.0])).sum())
    x.set(4.0)
    with pytest.raises(ad.StaleGraphError):
        ad.trace(L)


def test_not_finite_numbers_are_exported_as_text():
    with np.errstate(divide="ignore", invalid="ignore"):
        t = ad.trace((np.sqrt(ad.Var([0.0, 1.0], name="x")) * 1).sum())
    assert t.to_dicts()[-1]["store"]["x"] == ["inf", 0.5]


def test_large_arrays_are_summarised():
    t = ad.trace(ad.Var(np.ones((64, 784)), name="W").sum())
    assert t.to_dicts()[-1]["value"] == {"shape": [64, 784], "summary": "all 1"}
    assert max(map(len, t.text.splitlines())) < 250


def test_a_long_pass_is_listed_from_both_ends():
    y = ad.Var(1.0)
    for _ in range(2000):
        y = y + 1.0
    t = ad.trace(y)
    lines = t.text.splitlines()
    assert len(t) == 8001 and len(lines) == 1003 and "7,001 more steps" in lines[502]


# The scalar engine


def test_the_scalar_engine_is_traced_with_its_own_rules():
    x, y = Value(3.0, name="x"), Value(2.0, name="y")
    L = (x * y + x) ** 2
    t = ad.trace(L)
    assert x.grad is None, "tracing wrote to a node"
    assert {n.name: g for n, g in t.grads.items() if n.name} == {"x": 54, "y": 54}
    assert t[-1].store == {"L": 1, "n3": 18, "n2": 18, "x": 54, "y": 54}
    assert [s.source for s in t if s.kind == "rule"][-2:] == ["lambda g, y, a, b: g * b", "lambda g, y, a, b: g * a"]
    assert "it stays on the node" in t[1].text and t[15].formula == "x: 18 + 36 = 54"
    with pytest.raises(TypeError, match="without further arguments"):
        ad.trace(L, keep=[x])


SCALAR = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / (b * b + 1),
          lambda a, b: a.tanh(), lambda a, b: b.relu(), lambda a, b: a**3]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=12))
def test_the_scalar_trace_ends_as_its_backward_does(program):
    nodes = [Value(1.5), Value(-0.5), Value(2.0)]
    try:
        for op, i, j in program:
            a, b = nodes[i % len(nodes)], nodes[j % len(nodes)]
            nodes.append(SCALAR[op](a, b))
        nodes[-1].backward()
    except NonFiniteError:
        return
    grads = ad.trace(nodes[-1]).grads
    assert {n: n.grad for n in grads} == grads


# The rule's own words


def test_every_partial_of_the_table_is_found():
    from autodiff.rules import RULES

    for rule in RULES.values():
        for slot in range(len(rule.partials)) if rule.each is None else [0]:
            if rule.each is None and rule.partials[slot] is None:
                continue
            source = partial_source(rule, slot)
            assert source and source.startswith("lambda g, y"), (rule, slot, source)
            written = eval(source, {**vars(ad.rules.helpers), **vars(ad.rules.table)})
            expected = inspect.unwrap(rule.each or rule.partials[slot])
            if expected is not ad.rules.identity:
                found, code = written.__code__, expected.__code__
                assert set(found.co_names) == {*code.co_names, *code.co_freevars}, (rule, slot)
                assert found.co_consts == code.co_consts, (rule, slot)
            else:
                assert source.endswith(": g")


def test_a_position_is_not_called_by_the_name_of_an_operand():
    x, y = ad.Var([1.0], name="x"), ad.Var([2.0], name="y")
    words = [step.formula for step in ad.trace(np.concatenate([x, y])) if step.kind == "rule"]
    assert [w.split("], ")[-1] for w in words] == ["i = 0", "i = 1"]


def test_two_partials_on_one_line_are_told_apart():
    pair = (lambda g, y, a, b: g * b, lambda g, y, a, b: g * a)
    assert [function_source(p) for p in pair] == ["lambda g, y, a, b: g * b", "lambda g, y, a, b: g * a"]

    def slope(g, y, a):
        return g * 3

    assert function_source(slope) == "def slope(g, y, a):\n    return g * 3"
    assert function_source(eval("lambda g, y, a: g")) is None
    assert function_source(np.exp) is None


def test_numbers_in_the_place_of_names():
    assert with_numbers("lambda g, y, a, b: g * a ** (b - 1)", {"g": 2.0, "a": -3.0}) == "2 * (-3) ** (b - 1)"
    assert with_numbers("lambda g, y, a: sum_to(g, a.shape)", {"g": 2.0, "a": 1.0}) == "sum_to(2, a.shape)"
    assert with_numbers("def f(): pass", {}) is None and with_numbers(None, {}) is None
    assert used_names("lambda g, y, a, b, saved: g * (1 - saved)") == ["g", "saved"]


def test_the_drawing_of_a_folded_graph_has_its_gradients_and_shares():
    x = ad.Var(1.0, name="x")
    y = x
    for _ in range(120):
        y = np.tanh(y * 1.01 + x)
    made = ad.trace(y)
    drawn = made.drawing()
    assert len(made.graph.nodes) == 361 and len(drawn.shown.nodes) < 20
    shown = [n for n in drawn.shown.nodes if n.kind != "folded"]
    assert drawn.source.count("\\ngrad ") == len(shown)
    assert f"grad {summary(made.grads[x].data)}" in drawn.source
    own = [e for e in drawn.shown.edges if not e.joins]
    assert own and all(drawn._share(e) is not None for e in own)
    assert all(drawn._share(e) is None for e in drawn.shown.edges if e.joins)


def test_a_trace_is_a_sequence():
    t = ad.trace(example()[3])
    assert isinstance(t, Trace) and len(list(t)) == len(t) == 19
    assert t[-1].index == 18 and [s.index for s in t[2:4]] == [2, 3]


def test_html_is_escaped():
    x = ad.Var(1.0, name="<img src=x onerror=alert(1)>")
    shown = ad.trace(x * 2)._repr_html_()
    assert "<img" not in shown and "&lt;img" in shown and "mathjax" not in shown
    price = ad.Var(1.0, name="$x$")
    assert '<td class="mathjax_ignore tex2jax_ignore">n1 -&gt; $x$</td>' in ad.trace(price * 2)._repr_html_()
