"""Every rule, on its cases of tests/cases.py: against differences, against NumPy's forward, and against PyTorch."""

import numpy as np
import pytest
from cases import CASES, COVERED_BY, FLAT

import autodiff as ad
from autodiff.rules import COMPOSED, RULES

cases = pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
STEP = 1e-3  # with the four-point formula the error is of order STEP**4


def is_operand(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def outputs_of(result):
    """The floating results, as a list."""
    results = result if isinstance(result, (list, tuple)) else [result]
    return [r for r in results if hasattr(r, "dtype") and r.dtype.kind == "f"]


def cotangents_of(case, arrays, dtype=float, seed=11):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(y.shape).astype(dtype) for y in outputs_of(plain(case, arrays))]


def plain(case, arrays):
    """The call in NumPy alone, with the floating operands replaced by these."""
    fill = iter(arrays)
    return case(*[next(fill) if is_operand(x) else x for x in case.operands])


def operands_of(case, dtype=float):
    return [x.astype(dtype) for x in case.operands if is_operand(x)]


def loss_of(result, cotangents):
    return sum((y * c).sum() for y, c in zip(outputs_of(result), cotangents))


def gradients(case, tensors, cotangents, detach="all"):
    """The gradient for each tensor; zeros where there is no path to it."""
    outputs = outputs_of(plain(case, tensors))
    if len(outputs) == 1:
        store = outputs[0].backward(cotangents[0], wrt=tensors, detach=detach)
    else:
        store = loss_of(outputs, cotangents).backward(wrt=tensors, detach=detach)
    return [store.get(t) if t in store else ad.Tensor(np.zeros_like(t.data)) for t in tensors]


def differences(f, arrays):
    """The gradient of `f`, which takes a list of arrays to a number, by the four-point central difference."""
    grads = []
    for array in arrays:
        grad = np.zeros_like(array)
        for i in np.ndindex(array.shape):
            kept, total = array[i], 0.0
            for steps, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
                array[i] = kept + steps * STEP
                total += weight * f(arrays)
            array[i] = kept
            grad[i] = total / (12 * STEP)
        grads.append(grad)
    return grads


def assert_close(got, expected, rtol, what):
    for i, (g, e) in enumerate(zip(got, expected)):
        g = np.asarray(g.data if isinstance(g, ad.Tensor) else g)
        assert g.shape == e.shape, f"{what}: the gradient of operand {i} has shape {g.shape}, expected {e.shape}"
        atol = rtol * max(1.0, np.max(np.abs(e), initial=0.0))
        np.testing.assert_allclose(g, e, rtol=rtol, atol=atol, err_msg=f"{what}, operand {i}")


# The table is complete


def test_every_function_with_a_rule_has_a_case():
    covered = {c.function for c in CASES} | set(FLAT)
    covered |= {f for f, other in COVERED_BY.items() if other in covered}
    ours = [f for f in (*RULES, *COMPOSED) if not (getattr(f, "__module__", "") or "").startswith("autodiff.rules.nn")]
    missing = sorted({f.__name__ for f in ours if f not in covered})
    assert not missing, f"add cases to tests/cases.py for: {', '.join(missing)}"


def test_case_names_are_unique():
    names = [c.name for c in CASES]
    assert sorted(set(names)) == sorted(names)


# Derivatives


@cases
def test_first_derivative_matches_differences(case):
    arrays = operands_of(case)
    cotangents = cotangents_of(case, arrays)
    got = gradients(case, [ad.Var(a) for a in arrays], cotangents)
    expected = differences(lambda xs: float(loss_of(plain(case, xs), cotangents)), arrays)
    assert_close(got, expected, 1e-7, "first derivative")


@pytest.mark.parametrize("case", [c for c in CASES if c.second], ids=[c.name for c in CASES if c.second])
def test_second_derivative_matches_differences_of_the_first(case):
    arrays = operands_of(case)
    cotangents = cotangents_of(case, arrays)
    rng = np.random.default_rng(12)
    directions = [rng.standard_normal(a.shape) for a in arrays]

    def slope(xs, detach="all"):
        tensors = [ad.Var(x) for x in xs]
        grads = gradients(case, tensors, cotangents, detach)
        return tensors, sum((g * d).sum() for g, d in zip(grads, directions))

    tensors, total = slope(arrays, "none")
    store = total.backward(wrt=tensors)
    got = [store.get(t) if t in store else np.zeros_like(t.data) for t in tensors]
    expected = differences(lambda xs: slope(xs)[1].item(), arrays)
    assert_close(got, expected, 1e-6, "second derivative")


ONE_OF_EACH = list({c.function: c for c in reversed(CASES)}.values())
one_of_each = pytest.mark.parametrize("case", ONE_OF_EACH, ids=[c.name for c in ONE_OF_EACH])


@one_of_each
def test_third_derivative_matches_differences_of_the_second(case):
    arrays = operands_of(case)
    cotangents = cotangents_of(case, arrays)
    rng = np.random.default_rng(13)
    directions = [[rng.standard_normal(a.shape) for a in arrays] for _ in range(2)]

    def along(grads, i):
        return sum((g * d).sum() for g, d in zip(grads, directions[i]))

    def curvature(xs, detach="all"):
        tensors = [ad.Var(x) for x in xs]
        slope = along(gradients(case, tensors, cotangents, "none"), 0)
        store = slope.backward(wrt=tensors, detach=detach)
        return tensors, along([store.get(t, ad.Tensor(np.zeros(t.shape))) for t in tensors], 1)

    tensors, total = curvature(arrays, "none")
    store = total.backward(wrt=tensors)
    got = [store.get(t, np.zeros(t.shape)) for t in tensors]
    expected = differences(lambda xs: curvature(xs)[1].item(), arrays)
    assert_close(got, expected, 1e-5, "third derivative")


@one_of_each
def test_gradcheck_and_gradgradcheck_accept(case):
    arrays = tuple(operands_of(case))
    f = lambda *xs: tuple(outputs_of(plain(case, xs)))
    assert ad.gradcheck(f, arrays)
    if case.second:
        assert ad.gradgradcheck(f, arrays)


@cases
def test_gradients_are_the_same_as_tensors(case):
    arrays = operands_of(case)
    cotangents = cotangents_of(case, arrays)
    expected = gradients(case, [ad.Var(a) for a in arrays], cotangents)
    got = gradients(case, [ad.Var(a) for a in arrays], cotangents, "none")
    assert_close(got, [g.data for g in expected], 1e-12, "rule run on Tensors")
    assert [g.dtype for g in got] == [g.dtype for g in expected]


# The forward is NumPy's


@cases
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_forward_is_numpys(case, dtype):
    arrays = operands_of(case, dtype)
    expected = plain(case, arrays)
    got = plain(case, [ad.Var(a) for a in arrays])
    assert isinstance(got, (list, tuple)) == isinstance(expected, (list, tuple))
    pairs = list(zip(got, expected)) if isinstance(got, (list, tuple)) else [(got, expected)]
    assert not isinstance(got, (list, tuple)) or len(got) == len(expected)
    for g, e in pairs:
        e = np.asarray(e)
        assert isinstance(g, ad.Tensor) or g is not got
        g = g if isinstance(g, ad.Tensor) else ad.Tensor(g)  # a result that does not depend on the operands
        assert (g.shape, g.dtype) == (e.shape, e.dtype)
        if case.exact:
            assert np.array_equal(g.data, e), f"differs by {np.max(np.abs(g.data - e))}"
        else:
            np.testing.assert_allclose(g.data, e, rtol=40 * np.finfo(dtype).eps, atol=40 * np.finfo(dtype).eps)


@one_of_each
def test_constants_and_no_grad_record_nothing(case):
    arrays = operands_of(case)
    with ad.no_grad():
        silent = outputs_of(plain(case, [ad.Var(a) for a in arrays]))
    constant = outputs_of(plain(case, [ad.Tensor(a) for a in arrays]))
    for y, z, expected in zip(silent, constant, outputs_of(plain(case, arrays))):
        assert isinstance(z, ad.Tensor) and not z.tracked and not y.tracked
        assert np.array_equal(y.data, z.data)
        np.testing.assert_allclose(z.data, expected, rtol=1e-12, atol=1e-13)


@cases
def test_float32_gives_float32_gradients(case):
    arrays = operands_of(case, "float32")
    cotangents = cotangents_of(case, arrays, "float32")
    if len(cotangents) == 1:  # the forward may give another dtype, as np.float_power does
        cotangents = [cotangents[0].astype(np.asarray(outputs_of(plain(case, arrays))[0]).dtype)]
    got = gradients(case, [ad.Var(a) for a in arrays], cotangents)
    assert [g.dtype for g in got] == [np.dtype("float32")] * len(arrays)
    kept = gradients(case, [ad.Var(a) for a in arrays], cotangents, "none")
    assert [g.dtype for g in kept] == [np.dtype("float32")] * len(arrays)
    assert_close(kept, [g.data for g in got], 1e-5, "float32, rule run on Tensors")
    double = [a.astype(float) for a in arrays]
    expected = gradients(case, [ad.Var(a) for a in double], [c.astype(float) for c in cotangents])
    assert_close(got, [g.data for g in expected], 1e-3, "float32")


# Memory layouts


@cases
def test_non_contiguous_inputs_make_no_difference(case):
    arrays = operands_of(case)
    cotangents = cotangents_of(case, arrays)
    expected = [g.data for g in gradients(case, [ad.Var(a) for a in arrays], cotangents)]
    views = [ad.Var(np.repeat(a, 2, axis=-1))[..., ::2] if a.ndim else ad.Var(a) for a in arrays]
    assert_close(gradients(case, views, cotangents), expected, 1e-12, "every second entry")
    turned = [np.transpose(ad.Var(a.T.copy(order="C"))) for a in arrays]
    assert_close(gradients(case, turned, cotangents), expected, 1e-12, "Fortran order")


@pytest.mark.parametrize("case", [c for c in CASES if c.repeats], ids=[c.name for c in CASES if c.repeats])
def test_stride_0_inputs_make_no_difference(case):
    arrays = [np.ascontiguousarray(np.broadcast_to(a[..., :1], a.shape)) if a.ndim else a for a in operands_of(case)]
    cotangents = cotangents_of(case, arrays)
    expected = [g.data for g in gradients(case, [ad.Var(a) for a in arrays], cotangents)]
    views = [np.broadcast_to(ad.Var(a[..., :1]), a.shape) if a.ndim and a.size else ad.Var(a) for a in arrays]
    assert_close(gradients(case, views, cotangents), expected, 1e-12, "stride 0")


# PyTorch as a second opinion

WITH_TORCH = [c for c in CASES if c.torch is not None]


@pytest.mark.torch
@pytest.mark.parametrize("case", WITH_TORCH, ids=[c.name for c in WITH_TORCH])
def test_pytorch_agrees_to_second_order(case):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    arrays = operands_of(case)
    cotangents = cotangents_of(case, arrays)
    rng = np.random.default_rng(12)
    directions = [rng.standard_normal(a.shape) for a in arrays]

    tensors = [ad.Var(a) for a in arrays]
    ours = gradients(case, tensors, cotangents, "none")
    total = sum((g * d).sum() for g, d in zip(ours, directions))
    store = total.backward(wrt=tensors)
    ours_second = [store.get(t) if t in store else np.zeros_like(t.data) for t in tensors]

    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    fill = iter(leaves)
    operands = [next(fill) if is_operand(x) else torch.tensor(x) if isinstance(x, np.ndarray) else x
                for x in case.operands]  # fmt: skip
    result = case.torch(torch, *operands)
    results = result if isinstance(result, (list, tuple)) else [result]
    for y, c in zip(results, cotangents):
        assert tuple(y.shape) == c.shape, "the case's PyTorch expression has another shape"
    loss = sum((y * torch.tensor(c)).sum() for y, c in zip(results, cotangents))
    theirs = torch.autograd.grad(loss, leaves, create_graph=True, materialize_grads=True)
    assert_close(ours, [as_array(torch, g) for g in theirs], 1e-9, "PyTorch, first order")
    if case.second:
        slope = sum((g * torch.tensor(d)).sum() for g, d in zip(theirs, directions))
        if slope.requires_grad:
            second = torch.autograd.grad(slope, leaves, materialize_grads=True)
        else:
            second = [torch.zeros_like(leaf) for leaf in leaves]
        assert_close(ours_second, [as_array(torch, g) for g in second], 1e-8, "PyTorch, second order")


def as_array(torch, t):
    """By a sum, for the zeros that PyTorch stands in for have no memory, and turning them into an array can crash."""
    return (t.detach() + torch.zeros(t.shape)).numpy()


# Shapes and dtypes that every elementwise rule must take

ELEMENTWISE = list({c.function: c for c in CASES if c.function in RULES and RULES[c.function].elementwise
                    and len({x.shape for x in c.operands if is_operand(x)}) == 1}.values())  # fmt: skip
elementwise = pytest.mark.parametrize("case", ELEMENTWISE, ids=[c.name for c in ELEMENTWISE])


def resized(case, cut):
    return [cut(x) if isinstance(x, np.ndarray) else x for x in case.operands]


@elementwise
def test_zero_d_operands_give_zero_d_gradients(case):
    operands = resized(case, lambda a: a[1, 2] if a.ndim == 2 else a[1])
    tensors = [ad.Var(x) if isinstance(x, np.float64) else x for x in operands]
    y = case(*tensors)
    assert y.shape == ()
    grads = y.backward()
    whole = [ad.Var(x) if is_operand(x) else x for x in case.operands]
    full = case(*whole)
    expected = full.backward()
    at = (1, 2) if full.ndim == 2 else 1
    for t, w in zip(tensors, whole):
        if isinstance(t, ad.Var) and w in expected:
            assert grads[t].shape == ()
            assert grads[t].item() == pytest.approx(expected[w].data[at], rel=1e-12)


@elementwise
def test_strong_zero_drops_what_a_zero_cotangent_meets_and_nothing_else(case):
    arrays = operands_of(case)
    (cotangent,) = cotangents_of(case, arrays)[:1]
    cotangent[::2] = 0
    for detach in ("all", "none"):
        tensors = [ad.Var(a) for a in arrays]
        y = outputs_of(plain(case, tensors))[0]
        usual, strong = (y.backward(cotangent, wrt=tensors, detach=detach, strong_zero=s) for s in (False, True))
        for t in tensors:
            if t in usual:
                assert np.array_equal(strong[t].data, usual[t].data)
                assert not np.any(strong[t].data[::2])


@elementwise
def test_empty_operands_give_empty_gradients(case):
    operands = resized(case, lambda a: a[:0])
    tensors = [ad.Var(x) if is_operand(x) else x for x in operands]
    grads = case(*tensors).backward(detach="none")
    for t in tensors:
        if isinstance(t, ad.Var) and t in grads:
            assert grads[t].shape == t.shape


@pytest.mark.parametrize("function, operands", FLAT.items(), ids=[f.__name__ for f in FLAT])
def test_flat_functions_are_recorded_and_never_descended_into(function, operands):
    x = ad.Var(operands[0])
    y = function(x, *operands[1:])
    assert np.array_equal(y.data, function(*operands))
    assert y.op is not None and y.op.name == function.__name__
    assert ad.sorted_nodes(y) == []
    grads = (y.sum() + x.sum()).backward()
    assert np.array_equal(grads[x].data, np.ones_like(x.data))
