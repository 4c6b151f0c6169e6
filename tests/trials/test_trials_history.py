"""History of what functions capture, arguments with structure, partials that return Tensors, what asking costs."""

import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad

ad_values = lambda x: x.data if isinstance(x, ad.Tensor) else np.asarray(x)  # noqa: E731

# 1. Programs in which inner derivatives capture the variables around them


CONSTANTS = st.sampled_from([-1.5, 0.5, 2.0])


@st.composite
def expressions(draw, depth: int, names: int):
    """A nested tuple: an expression in the variables 0 ... names-1; inner derivatives add variables of their own."""
    kinds = ["variable", "constant"] + ["+", "*", "sin", "exp", "derivative", "derivative"] * (depth > 0)
    kind = draw(st.sampled_from(kinds))
    part = lambda more=0: draw(expressions(depth - 1, names + more))  # noqa: E731
    if kind == "variable":
        return kind, draw(st.integers(0, names - 1))
    if kind == "constant":
        return kind, draw(CONSTANTS)
    if kind == "derivative":
        return kind, draw(st.sampled_from(sorted(WAYS))), part(1), part()
    return (kind, part(), part()) if kind in "+*" else (kind, part())


def by_vars(f, at):
    v = ad.Var(1.0) * at if isinstance(at, ad.Tensor) else ad.Var(at)
    y = f(v)
    if not isinstance(y, ad.Tensor):
        return 0.0
    return y.backward(wrt=[v], detach="none").or_insert(v)


def half(f, at):
    """A function of s whose second derivative at 0 is the first one of `f` at `at`."""
    return lambda s: s * f(at + s) * 0.5


WAYS = {  # how the derivative of f at a point may be asked for
    "grad": lambda f, at: ad.grad(f)(at),
    "value_and_grad": lambda f, at: ad.value_and_grad(f)(at)[1],
    "vjp": lambda f, at: ad.vjp(f, at)[1](1.0)[0],
    "jvp": lambda f, at: ad.jvp(f, (at,), (1.0,))[1],
    "jacobian": lambda f, at: ad.jacobian(f)(at),
    "hvp": lambda f, at: ad.hvp(half(f, at), 0.0, 1.0),
    "hessian": lambda f, at: ad.hessian(half(f, at))(0.0),
    "structure": lambda f, at: ad.grad(lambda p: f(p["at"][0]))({"at": [at]})["at"][0],
    "checkpoint": lambda f, at: ad.grad(ad.checkpoint(lambda v: f(v) + 0.0 * v))(at),
    "in checkpoint": lambda f, at: ad.checkpoint(ad.grad(f))(at if isinstance(at, ad.Tensor) else ad.Tensor(at)),
    "Var": by_vars,
}


def value(e, variables, functions, derivative):
    again = lambda e, *more: value(e, [*variables, *more], functions, derivative)  # noqa: E731
    kind, *parts = e
    if kind == "variable":
        return variables[parts[0]]
    if kind == "constant":
        return parts[0]
    if kind == "derivative":
        way, body, at = parts
        return derivative(way, lambda v: again(body, v), again(at))
    return functions[kind](*map(again, parts))


OURS = {"+": lambda a, b: a + b, "*": lambda a, b: a * b, "sin": np.sin, "exp": lambda a: np.exp(np.sin(a))}
EXACT = OURS | {"sin": mpmath.sin, "exp": lambda a: mpmath.exp(mpmath.sin(a))}


def ours(e, *x):
    return value(e, list(x), OURS, lambda way, f, at: WAYS[way](f, at))


def exact(e, *x):
    return value(e, list(x), EXACT, lambda way, f, at: mpmath.diff(f, at))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(expressions(depth=4, names=2))
def test_01_an_inner_derivative_carries_the_history_of_what_it_captured_to_second_order(e):
    at = (0.7, -0.4)
    x = [ad.Var(a) for a in at]
    y = ours(e, *x)
    y = y if isinstance(y, ad.Tensor) else ad.Tensor(y)
    store = y.backward(wrt=x, detach="none")
    slopes = [store.or_insert(v) for v in x]
    by_var = [s.backward(wrt=x).or_insert(v).item() for s in slopes for v in x]
    f = lambda *x: ours(e, *x)  # noqa: E731
    by_grad = [float(ad_values(g)) for row in ad.hessian(f, (0, 1))(*at) for g in row]
    with mpmath.workdps(30):
        g = lambda n: mpmath.diff(lambda *x: exact(e, *x), at, n)  # noqa: E731
        first = [float(g(n)) for n in ((1, 0), (0, 1))]
        twice = [float(g(n)) for n in ((2, 0), (1, 1), (1, 1), (0, 2))]
    close = lambda got, right: np.testing.assert_allclose(np.array(got, float), right, rtol=1e-9, atol=1e-9)  # noqa: E731
    close([ad_values(s) for s in slopes], first)
    close(ad.grad(f, (0, 1))(*at), first)
    close(by_var, twice)
    close(by_grad, twice)


def test_01_the_smallest_case_and_its_kin():
    x = ad.Var(1.5)
    f = lambda y: x * y  # noqa: E731
    pulled = [ad.grad(f)(2.0), ad.value_and_grad(f)(2.0)[1], ad.vjp(f, 2.0)[1]()[0], ad.jvp(f, (2.0,), (1.0,))[1],
              ad.jacobian(f)(2.0), ad.hvp(lambda y: x * y * y / 2, 2.0, 1.0), ad.hessian(lambda y: x * y * y / 2)(2.0),
              ad.checkpoint(ad.grad(f))(ad.Tensor(2.0)), ad.grad(ad.checkpoint(f))(2.0)]  # fmt: skip
    assert [(x * g).backward()[x].item() for g in pulled] == [3] * len(pulled)
    assert ad.value_and_grad(f)(2.0)[0].backward()[x].item() == 2
    assert ad.gradcheck(lambda x: x * ad.grad(lambda y: x * y * y)(2.0), 1.5)
    rate = ad.Var(0.1)
    w = 3.0
    for _ in range(3):
        w = w - rate * ad.grad(lambda w: w * w)(w)  # w = 3(1 - 2·rate)³
    assert w.backward()[rate].item() == pytest.approx(-18 * 0.8**2)


def test_01_history_is_that_of_the_graph_alone():
    x = ad.Var(1.5)
    for f in (lambda y: x.data * y, lambda y: x.detach() * y, lambda y: y + float(x.data)):
        assert type(ad.grad(f)(2.0)) is np.ndarray
    with ad.no_grad():
        g = ad.grad(lambda y: x * y)(2.0)
    assert isinstance(g, ad.Tensor) and not g.tracked
    y, pullback = ad.vjp(lambda y: x * y, 2.0)
    with ad.no_grad():
        assert not pullback()[0].tracked
    assert pullback()[0].tracked and y.tracked
    zeros = ad.grad(lambda y, unused: x * y, (0, 1))(2.0, np.ones(2))[1]
    assert isinstance(zeros, ad.Tensor) and zeros.data.tolist() == [0, 0]


def test_01_a_partial_may_read_what_it_passes_no_gradient_to():
    c = ad.Var(5.0)
    scaled = ad.custom_op(vjps=[lambda g, y, x, c: g * c, None])(lambda x, c: x * c)
    for f in (lambda y: scaled(y, c), lambda y: scaled(y, c * 1.0), ad.checkpoint(lambda y: scaled(y, c))):
        assert ad.grad(f)(2.0).backward()[c].item() == 1


# 4, 11. Arguments with structure


def test_04_11_a_gradient_has_the_structure_of_its_argument():
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    f = lambda p: (p[0] * p[1]).sum() if len(p) == 2 else len(p + [1.0]) * p[0].sum()  # noqa: E731
    assert [g.tolist() for g in ad.grad(f)([a, b])] == [[3, 4], [1, 2]]
    assert [g.tolist() for g in ad.grad(f)([a, b, a])] == [[4, 4], [0, 0], [0, 0]]
    assert ad.grad(lambda p: p["w"] ** 3)({"w": 1.0}) == {"w": 3.0}
    tree = {"layers": [(a, 2.0), (np.ones((2, 1)), 3.0)], "none": None}
    g = ad.grad(lambda p: sum((w**2).sum() * s for w, s in p["layers"]))(tree)
    assert [(w.tolist(), s.item()) for w, s in g["layers"]] == [([4, 8], 5), ([[6], [6]], 2)] and g["none"] is None
    assert type(g["layers"]) is list and type(g["layers"][0]) is tuple


def test_04_11_every_transform_takes_a_structure():
    p, v = {"a": 2.0, "b": [3.0]}, {"b": [1.0], "a": 10.0}  # in whatever order
    f = lambda p: p["a"] * p["b"][0] ** 2  # noqa: E731
    assert ad.value_and_grad(f)(p) == (18.0, {"a": 9.0, "b": [12.0]})
    assert ad.vjp(f, p)[1](2.0) == ({"a": 18.0, "b": [24.0]},)
    assert ad.jvp(f, (p,), (v,)) == (18.0, 102.0)
    assert ad.hvp(f, p, v) == {"a": 6.0, "b": [6.0 * 10 + 2 * 2]}
    assert ad.hessian(f)(p) == {"a": {"a": 0.0, "b": [6.0]}, "b": [{"a": 6.0, "b": [4.0]}]}
    assert ad.jacobian(lambda p: {"y": f(p)}, (0,))(p) == {"y": ({"a": 9.0, "b": [12.0]},)}
    assert ad.gradcheck(f, p) and ad.gradgradcheck(f, p)
    wrong = ad.gradcheck(lambda p: f(p) + p["b"][0].detach(), (p,), raise_exception=False)
    assert not wrong and wrong.worst.input == "p['b'][0]"
    x = ad.Var(2.0)
    assert ad.grad(lambda p: p["w"] ** 3)({"w": x})["w"].backward()[x].item() == 12


@pytest.mark.parametrize("call, error, words", [
    (lambda f: ad.grad(f)({"w": 3, "b": 1.0}), TypeError, r"argument params\['w'\] of loss holds int64.* 2\.0 for 2"),
    (lambda f: ad.jvp(f, ({"w": 3.0},), ({"v": 1.0},)), ValueError, "tangent of params: expected .*'w', got .*'v'"),
    (lambda f: ad.jvp(f, ({"w": 3.0},), ({"w": [1.0]},)), ValueError, r"tangent of params\['w'\] has shape \(1,\)"),
    (lambda f: ad.hvp(f, {"w": 3.0}, 1.0), ValueError, "tangent of params: expected a dict .*got a float"),
    (lambda f: ad.optim.SGD({"w": [np.ones(2)]}), TypeError, r"params\['w'\]\[0\] is a ndarray"),
    (lambda f: ad.optim.SGD({"w": ad.Var(1.0)}).step({"w": np.ones(2)}), ValueError, r"params\['w'\] has shape \(2,\)"),
    (lambda f: ad.optim.SGD({"w": ad.Var(1.0)}).step({"v": 1.0}), ValueError, "params: expected .*'w', got .*'v'"),
])  # fmt: skip
def test_04_11_what_does_not_fit_is_named_by_its_place(call, error, words):
    def loss(params):
        return params["w"] * 1.0

    with pytest.raises(error, match=words):
        call(loss)


@pytest.mark.parametrize("kind", [ad.optim.SGD, ad.optim.AdamW])
def test_04_11_an_optimiser_steps_a_structure_as_it_steps_a_list(kind):
    at = [np.array([1.0, -2.0]), np.array(0.5)]
    flat, nested = [ad.Var(a) for a in at], {"w": [ad.Var(at[0])], "b": ad.Var(at[1])}
    one, two, three = kind(flat, lr=0.1), kind(nested, lr=0.1), kind(more := [ad.Var(a) for a in at], lr=0.1)
    for _ in range(3):
        one.step((flat[0].sum() * flat[1] ** 2).backward())
        two.step(ad.grad(lambda p: p["w"][0].sum() * p["b"] ** 2)(nested))
        three.step([np.full(2, more[1].data ** 2), 2 * more[1].data * more[0].data.sum()])
    for a, b, c in zip(flat, [nested["w"][0], nested["b"]], more):
        np.testing.assert_allclose(a.data, b.data, rtol=1e-14)
        np.testing.assert_allclose(a.data, c.data, rtol=1e-14)


# 5. Partials that return Tensors while gradients are arrays


K = ad.Tensor(2.0)
DOUBLED = ad.custom_op(vjps=[lambda g, y, a: g * K])(lambda a: 2 * a)
THROUGH = ad.custom_op(vjps=[lambda g, y, a: DOUBLED(g)])(lambda a: 2 * a)


@pytest.mark.parametrize("op", [DOUBLED, THROUGH], ids=["constant", "another op"])
def test_05_a_partial_may_return_a_tensor(op):
    x = ad.Var(3.0)
    assert (op(x) + op(x) + op(x)).backward()[x].item() == 6
    v = ad.Var([1.0, 2.0, 3.0])
    y = (op(v)[[0, 0, 2]] * op(v[1])).sum() + op(v)[1] + v[0]
    expected = [2 * 2 * 4 + 1, 2 * (2 + 2 + 6) + 2, 8]  # y = 4·v1·(2·v0 + v2) + 2·v1 + v0
    for detach in ("all", "taken", "none"):
        np.testing.assert_allclose(y.backward(detach=detach)[v].data, expected)
        assert all(type(g._array) is np.ndarray for g in y.backward(detach=detach)._grads.values())
    with ad.detect_nonfinite():
        np.testing.assert_allclose(y.backward(strong_zero=True)[v].data, expected)
    assert ad.gradcheck(lambda v: op(v)[0] * op(v).sum(), v) and ad.gradgradcheck(lambda v: op(v)[0] * op(v).sum(), v)
    np.testing.assert_array_equal(ad.checkpoint(lambda v: op(op(v)))(v).backward()[v].data, [4, 4, 4])
    assert type(ad.grad(op)(3.0)) is np.ndarray


def test_05_a_tracked_tensor_that_a_partial_captured_is_history_too():
    k = ad.Var(2.0)
    by_k = ad.custom_op(vjps=[lambda g, y, a: g * k])(lambda a: a * 2.0)
    pulled = [ad.grad(by_k)(3.0), ad.vjp(by_k, 3.0)[1]()[0], ad.jvp(by_k, (3.0,), (1.0,))[1], ad.jacobian(by_k)(3.0)]
    for g in [*pulled, ad.grad(ad.checkpoint(by_k))(3.0)]:
        assert g.backward()[k].item() == 1
    assert ad.hvp(lambda a: by_k(a) ** 2 / 2, 3.0, 1.0).backward()[k].item() == 4  # slope y·k with y' = k: k²
    x = ad.Var(3.0)
    assert not by_k(x).backward()[x].tracked  # gradients are constants unless asked


# 12. What second derivatives and a narrower question cost


def nodes_made(call):
    """How many nodes a call makes: ids are counted up, one by one."""
    before = ad.Tensor(0.0).id
    call()
    return ad.Tensor(0.0).id - before


def test_12_hvp_makes_no_more_nodes_than_the_way_by_hand():
    ws = [np.full((3, 3), 0.1 * i) for i in range(1, 7)]

    def loss(ws):
        h = np.ones((2, 3))
        for w in ws:
            h = np.tanh(h @ w)
        return (h**2).sum()

    def by_hand():
        variables = [ad.Var(w) for w in ws]
        grads = loss(variables).backward(wrt=variables, detach="none")
        along = sum((grads[v] * w).sum() for v, w in zip(variables, ws))
        along = along.backward(wrt=variables)
        return [along[v] for v in variables]

    for got, right in zip(ad.hvp(loss, ws, ws), by_hand()):
        np.testing.assert_allclose(got, right.data, rtol=1e-12)
    assert nodes_made(lambda: ad.hvp(loss, ws, ws)) <= nodes_made(by_hand) + 2 * len(ws) + 2  # its own leaves


def calls_made(call):
    """How many calls of Python functions a call makes."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def chain(x, extra=0.0):
    h = x
    for _ in range(100):
        h = np.tanh(0.3 * h + x)
    return h + extra


@pytest.mark.parametrize("extra", [0.0, np.ones(1), ad.Tensor([1.0]), ad.Var([1.0])], ids=str)
def test_12b_asking_for_less_makes_no_more_calls(extra):
    x = ad.Var([0.5])
    y = chain(x, extra)
    everything, less = (calls_made(lambda: y.backward(wrt=w)) for w in (None, [x]))
    assert less <= everything + 10
    np.testing.assert_array_equal(y.backward()[x].data, y.backward(wrt=[x])[x].data)


def test_12b_nothing_below_the_oldest_target_is_visited():
    h = chain(ad.Var([0.5]))
    x = ad.Var([1.0])
    y = np.tanh(x * h)
    assert ad.sorted_nodes(y, [x]) == [y, y.op.inputs[0], x]
    assert calls_made(lambda: y.backward(wrt=[x])) < 40
