"""Transforms, custom operations, checkpointing and optimisers."""

import gc
import math
import tracemalloc

import numpy as np
import pytest

import autodiff as ad

RNG = np.random.default_rng(5)


def mlp(x, w, b):
    return (np.tanh(x @ w + b) ** 2).sum()


X, W, B = RNG.normal(size=(4, 2)), RNG.normal(size=(2, 3)), RNG.normal(size=3)


def central(f, x, step=1e-6):
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        g[i] = (f(up) - f(down)) / (2 * step)
    return g


# grad and its relatives


def test_arrays_in_arrays_out():
    value, (gx, gw) = ad.value_and_grad(mlp, argnums=(0, 1))(X, W, B)
    assert all(type(a) is np.ndarray for a in (value, gx, gw)) and value.shape == ()
    np.testing.assert_allclose(gw, central(lambda w: mlp(X, w, B), W), rtol=1e-7)
    assert type(ad.grad(mlp, 1)(X, W, B)) is np.ndarray
    gw[0, 0] = 0


def test_negative_argnums_count_from_the_end():
    np.testing.assert_array_equal(ad.grad(mlp, -1)(X, W, B), ad.grad(mlp, 2)(X, W, B))


def test_an_unreached_argument_and_a_constant_output_give_zeros():
    assert ad.grad(lambda x, y: x * 2, argnums=(0, 1))(1.0, 3.0) == (2.0, 0.0)
    assert ad.grad(lambda x: 7.0)(np.ones(1)).tolist() == [0]
    assert ad.grad(lambda x: x.argmax())(np.ones(3)).tolist() == [0, 0, 0]
    assert ad.grad(lambda x: (x * 0).sum())(np.ones(2)).tolist() == [0, 0]
    assert ad.jacobian(lambda x: np.ones(2))(np.ones(3)).tolist() == [[0] * 3] * 2
    assert ad.hessian(lambda x: x.sum())(np.ones(2)).tolist() == [[0, 0], [0, 0]]


def test_grad_says_what_it_got_when_the_output_is_not_one_number():
    with pytest.raises(ValueError, match=r"grad needs .* shape \(3,\)"):
        ad.grad(lambda x: x * 2)(np.ones(3))
    assert ad.grad(lambda x: x * 2)(np.ones((1, 1))).tolist() == [[2]]
    with pytest.raises(TypeError, match="must return a tensor or a number, got dict"):
        ad.grad(lambda x: {"loss": x})(1.0)


@pytest.mark.parametrize("bad", [2, np.arange(3), True])
def test_integer_arguments_are_refused(bad):
    with pytest.raises(TypeError, match=r"argument x of .* only floating numbers .* 2\.0 for 2"):
        ad.grad(lambda x: x * x)(bad)


def test_a_bad_argnums_is_refused():
    with pytest.raises(ValueError, match="argnums=2"):
        ad.grad(mlp, 2)(X, W)
    for argnums in ([0, 1], "x", 1.0, (0, [1])):
        with pytest.raises(TypeError, match=r"argnums=.*: expected an integer, or a tuple of integers"):
            ad.grad(mlp, argnums)(X, W)


def test_second_and_third_derivatives_by_nesting():
    d3 = ad.grad(ad.grad(ad.grad(lambda x: x**4)))
    assert d3(2.0) == 48
    assert ad.grad(ad.grad(np.sin))(0.3) == pytest.approx(-math.sin(0.3))


def test_an_inner_derivative_does_not_see_the_outer_variable_as_its_own():
    assert ad.grad(lambda x: x * ad.grad(lambda y: x + y)(x))(3.0) == 1
    assert ad.grad(lambda x: x * ad.grad(lambda y: x * y)(2.0))(3.0) == 6
    assert ad.jvp(lambda x: x * ad.jvp(lambda y: x + y, (1.0,), (1.0,))[1], (1.0,), (1.0,))[1] == 1
    assert ad.grad(lambda x: ad.vjp(lambda y: y * x, x)[1](ad.Tensor(1.0))[0])(5.0) == 1


def test_closures_are_differentiated_through():
    outer = ad.grad(lambda a: ad.grad(lambda x: np.sin(a * x))(2.0))
    a = 0.7
    assert outer(a) == pytest.approx(math.cos(2 * a) - 2 * a * math.sin(2 * a))


def test_tensors_in_tensors_out():
    x = ad.Var(3.0)
    g = ad.grad(lambda v: v**3)(x)
    assert isinstance(g, ad.Tensor) and g.item() == 27 and g.backward()[x].item() == 18


def test_a_plain_tensor_gives_a_plain_tensor_and_no_graph_of_a_hidden_variable():
    k, v = ad.Tensor([3.0, 1.0]), ad.Tensor([1.0, 2.0])
    f = lambda x: (x**3).sum()  # noqa: E731
    given = [ad.grad(f)(k), *ad.value_and_grad(f)(k), ad.jacobian(lambda x: x**3)(k), ad.hessian(f)(k), ad.hvp(f, k, v)]
    y, pullback = ad.vjp(lambda x: x**3, k)
    given += [y, *pullback(), *pullback(v), *pullback(v.data), *ad.jvp(f, (k,), (v,)), *ad.jvp(f, (k.data,), (v,))]
    assert all(isinstance(t, ad.Tensor) and not t.tracked for t in given)
    assert given[0].data.tolist() == [27, 3] and given[4].data.tolist() == [[18, 0], [0, 6]]
    assert given[5].data.tolist() == [18, 12]
    x = ad.Tensor(3.0)
    for _ in range(3):
        x = x - 0.1 * ad.grad(lambda x: x * x)(x)
    assert float(x) == pytest.approx(3 * 0.8**3) and x.op is None


def test_a_plain_tensor_inside_another_transform_stays_differentiable():
    k = ad.Tensor(2.0)
    assert ad.grad(lambda x: ad.grad(lambda y: x * y * y)(k))(3.0) == 4
    w = ad.Var(3.0)
    y, pullback = ad.vjp(lambda x: x * x, k)
    assert pullback(w)[0].backward(wrt=[w])[w].item() == 4 and not y.tracked
    assert ad.grad(lambda x, scale: x * x * scale)(k, scale=w).backward()[w].item() == 4


def test_transforms_work_inside_no_grad():
    with ad.no_grad():
        assert ad.grad(lambda x: x**3)(2.0) == 12
        assert ad.hessian(lambda x: x**3)(2.0) == 12
    assert (ad.Var(1.0) * 2).tracked


def test_the_pullback_of_two_outputs():
    y, pullback = ad.vjp(lambda x1, x2: np.stack([x1 * x2, x1**2 + x2]), 2.0, 3.0)
    v = np.array([2.0, 3.0])
    for _ in range(2):
        assert pullback(v) == (18, 7)
    assert pullback() == (7, 3)
    assert y.tolist() == [6, 7]
    slope = ad.Var(v)
    pulled = pullback(slope)[0]
    assert pulled.backward(wrt=[slope])[slope].data.tolist() == [3, 4]


def test_jvp_agrees_with_differences_and_refuses_what_does_not_fit():
    f = lambda w: np.tanh(X @ w)  # noqa: E731
    t = RNG.normal(size=W.shape)
    y, tangent = ad.jvp(f, (W,), (t,))
    np.testing.assert_allclose(tangent, (f(W + 1e-6 * t) - f(W - 1e-6 * t)) / 2e-6, rtol=1e-7)
    np.testing.assert_array_equal(y, f(W))
    with pytest.raises(ValueError, match=r"the tangent of w has shape \(3,\)"):
        ad.jvp(f, (W,), (np.ones(3),))
    with pytest.raises(ValueError, match="one tangent for each primal"):
        ad.jvp(f, (W,), ())


def test_jacobian_of_vectors_tuples_and_empty_outputs():
    f = lambda x, y: (np.outer(x, y), x.sum())  # noqa: E731
    x, y = RNG.normal(size=2), RNG.normal(size=3)
    (jx, jy), (sx, sy) = ad.jacobian(f, argnums=(0, 1))(x, y)
    assert jx.shape == (2, 3, 2) and jy.shape == (2, 3, 3) and sx.tolist() == [1, 1] and sy.tolist() == [0] * 3
    np.testing.assert_allclose(jx, np.einsum("ik,j->ijk", np.eye(2), y))
    assert ad.jacobian(lambda x: x[:0])(x).shape == (0, 2)


def test_hessian_is_symmetric_and_agrees_with_hvp_and_differences():
    f = lambda w: mlp(X, w, B)  # noqa: E731
    h = ad.hessian(f)(W).reshape(6, 6)
    np.testing.assert_allclose(h, h.T, atol=1e-12)
    v = RNG.normal(size=W.shape)
    np.testing.assert_allclose(ad.hvp(f, W, v).ravel(), h @ v.ravel(), rtol=1e-10)
    gradient = ad.grad(f)
    np.testing.assert_allclose(
        ad.hvp(f, W, v), (gradient(W + 1e-6 * v) - gradient(W - 1e-6 * v)) / 2e-6, rtol=1e-6, atol=1e-9
    )
    (xx, xy), (yx, yy) = ad.hessian(lambda x, y: x * x * y, argnums=(0, 1))(2.0, 3.0)
    assert (xx, xy, yx, yy) == (6, 4, 4, 0)


def test_a_failing_function_leaves_recording_as_it_was():
    def broken(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ad.grad(broken)(1.0)
    with ad.no_grad():
        with pytest.raises(ZeroDivisionError):
            ad.grad(broken)(1.0)
        assert not (ad.Var(1.0) * 2).tracked
    assert type(ad.grad(lambda x: x * x)(1.0)) is np.ndarray


# custom_op


def test_an_operand_without_a_partial_is_refused_and_the_message_says_what_is_missing():
    times = ad.custom_op(vjps=[lambda g, y, a, b: g * b])(lambda a, b: a * b)
    two, three = ad.Var(2.0), ad.Var(3.0)
    with pytest.raises(TypeError, match="got 2: add the partial of each other operand to vjps, and pass other .* name"):
        times(two, three)
    with pytest.raises(TypeError, match="given to .* as b=, for which vjps has no partial"):
        times(two, b=three)
    assert times(two, b=ad.Tensor(3.0)).backward()[two].item() == 3


@ad.custom_op(vjps=[lambda g, y, x, z: g * (np.cos(x * z) * z + 2 * x), lambda g, y, x, z: g * np.cos(x * z) * x])
def wave(x, z):
    return np.sin(x * z) + x**2


def test_a_custom_op_has_its_name_and_its_partials_to_second_order():
    x, z = ad.Var(0.7), ad.Var(-1.3)
    y = wave(x, z)
    assert y.op.name == "wave"
    grads = y.backward()
    assert grads[x].item() == pytest.approx(0.6021305256645448, rel=1e-15)
    assert grads[z].item() == pytest.approx(0.4296220246421681, rel=1e-15)
    plain = lambda x: np.sin(x * -1.3) + x**2  # noqa: E731
    second = y.backward(detach="none")[x].backward()[x].item()
    assert second == pytest.approx(float(ad.grad(ad.grad(plain))(0.7)))


def test_none_means_no_gradient_wherever_the_input_stands():
    @ad.custom_op(vjps=[lambda g, y, i, label: -g, lambda g, y, i, label: None])
    def loss(i, label):
        return -i

    i, label = ad.Var([1.0]), ad.Var([1.0])
    for second in (label, label * 2):
        grads = loss(i, second).backward()
        assert grads[i].data.tolist() == [-1] and label not in grads
    both = loss(i, label * 3) + label
    assert both.backward()[label].data.tolist() == [1]

    @ad.custom_op(vjps=[None])
    def cut(x):
        return x * 2

    assert i not in cut(i).backward()


def test_the_partials_are_the_contract_even_against_the_mathematics():
    @ad.custom_op(vjps=[lambda g, y, x: 0 * g])
    def stubborn(x):
        return np.sin(x)

    x = ad.Var([1.0])
    assert stubborn(x).backward()[x].data.tolist() == [0]


@pytest.mark.parametrize(
    ("partial", "error", "message"),
    [(lambda g, y, x: np.ones(5), ValueError, r"partial of total for x returned shape \(5,\), expected \(3,\)"),
     (lambda g, y, x: np.ones(3, np.float32), TypeError, "partial of total for x returned float32, expected float64")],
)  # fmt: skip
@pytest.mark.parametrize("detach", ["all", "none"])
def test_a_wrong_shape_or_dtype_names_op_argument_expected_and_got(partial, error, message, detach):
    @ad.custom_op(vjps=[partial])
    def total(x):
        return x.sum()

    with pytest.raises(error, match=message):
        total(ad.Var(np.ones(3))).backward(detach=detach)


def test_a_custom_forward_can_not_write_to_its_operands_and_takes_params_by_name():
    @ad.custom_op(vjps=[lambda g, y, x, power: g * power * x ** (power - 1)])
    def raised(x, power=2):
        return x**power

    x = ad.Var([2.0])
    assert raised(x, power=3).backward()[x].data.tolist() == [12]
    with pytest.raises(TypeError, match=r"raised takes 1 operands \(x\)"):
        raised(x, 3)

    @ad.custom_op(vjps=[lambda g, y, x: g])
    def writes(x):
        x += 1
        return x

    with pytest.raises(ValueError, match="read-only"):
        writes(x)
    assert x.data.tolist() == [2]


# checkpoint


def block(h, w):
    return np.tanh(h @ w)


def test_checkpointed_gradients_are_equal_also_for_captured_and_reused_parameters():
    w, h0 = ad.Var(RNG.normal(size=(3, 3))), ad.Var(RNG.normal(size=(2, 3)))

    def run(wrap):
        h = h0
        for _ in range(4):
            h = wrap(lambda h: block(h, w))(h)
        return (h**2).sum()

    plain, kept = run(lambda f: f), run(ad.checkpoint)
    assert len(ad.sorted_nodes(kept)) < len(ad.sorted_nodes(plain))
    for t in (w, h0):
        np.testing.assert_allclose(kept.backward()[t].data, plain.backward()[t].data, rtol=1e-13)


def test_checkpoints_nest_and_are_right_to_second_order():
    inner = ad.checkpoint(lambda x: np.sin(x) * x)
    outer = ad.checkpoint(lambda x: inner(np.exp(x)) + inner(x))
    plain = lambda x: np.sin(np.exp(x)) * np.exp(x) + np.sin(x) * x  # noqa: E731
    assert ad.grad(outer)(0.4) == pytest.approx(float(ad.grad(plain)(0.4)), rel=1e-14)
    assert ad.hessian(outer)(0.4) == pytest.approx(float(ad.hessian(plain)(0.4)), rel=1e-13)
    third = ad.grad(ad.hessian(outer))(0.4)
    assert third == pytest.approx(float(ad.grad(ad.hessian(plain))(0.4)), rel=1e-12)


def test_a_captured_interior_tensor_gets_each_share_once():
    x = ad.Var(0.5)
    h = np.exp(x)
    for detach in ("all", "none"):
        y = ad.checkpoint(lambda a: a * h * h)(h)
        assert y.backward(detach=detach)[x].item() == pytest.approx(3 * math.exp(1.5))
    assert ad.checkpoint(lambda a: a)(x).backward()[x].item() == 1
    k = ad.Tensor(2.0)
    assert ad.checkpoint(lambda a: a * k)(x).backward()[k].item() == 0.5


def test_a_checkpoint_refuses_what_it_can_not_repeat():
    noise = iter(range(1, 9))
    y = ad.checkpoint(lambda x: x * next(noise))(ad.Var(1.0))
    with pytest.raises(RuntimeError, match="another value when it was run again"):
        y.backward()
    with pytest.raises(TypeError, match="must return one Tensor, got tuple"):
        ad.checkpoint(lambda x: (x, x))(ad.Var(1.0))


def test_a_checkpoint_is_stale_after_a_captured_var_is_set():
    w, x = ad.Var(2.0, name="w"), ad.Var(3.0)
    y = ad.checkpoint(lambda x: x * w)(x)
    w.set(5.0)
    with pytest.raises(ad.StaleGraphError, match="Var 'w'"):
        y.backward()


def test_a_checkpoint_keeps_less_memory():
    x = ad.Var(np.ones(20_000))

    def deep(h):
        for _ in range(20):
            h = np.sin(h) + h
        return h

    def peak(f):
        gc.collect()
        tracemalloc.start()
        y = f(x)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return held, y

    held_all, plain = peak(deep)
    held_few, kept = peak(ad.checkpoint(deep))
    assert held_few < held_all / 10
    np.testing.assert_allclose(kept.backward()[x].data, plain.backward()[x].data)


# optim


DATA = np.array([[2, 1], [7, 4], [-4, 12], [5, 8]], np.float64)
GOAL = 3 * DATA[:, 0] + DATA[:, 1] - 2


def train(optimiser, steps, dtype=np.float64, **options):
    w, b = ad.Var(np.zeros(2, dtype)), ad.Var(np.zeros((), dtype))
    opt = optimiser([w, b], **options)
    xs, ys = DATA.astype(dtype), GOAL.astype(dtype)
    for _ in range(steps):
        opt.step(((xs @ w + b - ys) ** 2).sum().backward())
    return w.data, b.data


def test_sgd_reproduces_the_published_figures():
    w, b = train(ad.optim.SGD, 1000, lr=0.004)
    np.testing.assert_allclose(w, [2.9983196, 0.99790204], atol=2e-6)
    assert b == pytest.approx(-1.9796902, abs=2e-5)


def test_adamw_reproduces_the_published_figures():
    w, b = train(ad.optim.AdamW, 100, lr=0.1, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    np.testing.assert_allclose(w, [2.7257, 0.7097], atol=5e-5)
    assert b == pytest.approx(0.7873, abs=5e-5)


def test_float32_parameters_stay_float32():
    for optimiser in (ad.optim.SGD, ad.optim.AdamW):
        w, b = train(optimiser, 3, np.float32, lr=1e-3)
        assert w.dtype == b.dtype == np.float32


@pytest.mark.parametrize("optimiser", [ad.optim.SGD, ad.optim.AdamW])
def test_a_parameter_without_a_gradient_keeps_its_value_and_a_bad_store_changes_nothing(optimiser):
    w, b = ad.Var([1.0, 2.0]), ad.Var(1.0)
    opt = optimiser([w, b], lr=0.1)
    opt.step((w * w).sum().backward())
    assert b.item() == 1 and w.data[0] < 1
    grads, before = (w * b).sum().backward(), w.data.copy()
    grads._grads[b.id] = ad.Tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="has shape"):
        opt.step(grads)
    assert w.data.tolist() == before.tolist() and b.item() == 1


def test_optimisers_refuse_what_they_can_not_change():
    with pytest.raises(TypeError, match=r"changes Vars, but params\[0\] is a Tensor"):
        ad.optim.SGD([ad.Tensor([1.0])])
    w = ad.Var(1.0)
    with pytest.raises(ValueError, match="twice"):
        ad.optim.AdamW([w, w])
    with pytest.raises(ValueError, match="lr must not be negative"):
        ad.optim.SGD([w], lr=-1)
