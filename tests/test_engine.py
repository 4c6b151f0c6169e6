"""The engine's contracts: operands, recording, the order, the backward pass and the store."""

import asyncio
import copy
import gc
import math
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad


def shared_node():
    x, y = ad.Var(3.0, name="x"), ad.Var(2.0, name="y")
    u = x * y + x
    return x, y, u, u**2


# Tensor and Var


def test_arrays_are_copied_once_and_values_never_change():
    source = np.array([1.0, 2.0])
    x = ad.Var(source)
    source[:] = 9
    assert x.data.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        x.data[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        (x * 2).data[0] = 5


def test_dtype_of_python_floats_is_float64_and_arrays_keep_theirs():
    assert ad.Var(1.0).dtype == np.float64
    assert ad.Var(np.ones(2, np.float32)).dtype == np.float32
    assert ad.Tensor([1, 2]).dtype == np.int64
    assert ad.Var([1, 2], dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("data", [1, [1, 2], True, np.arange(3), np.float64(1) > 0])
def test_a_var_of_integers_is_refused_by_name(data):
    with pytest.raises(TypeError, match=r"Var 'weights' needs floating data, got (int64|bool).*3\.0 for 3"):
        ad.Var(data, name="weights")


@pytest.mark.parametrize("data", [1j, "text", object(), [None]])
def test_complex_numbers_text_and_objects_are_refused(data):
    with pytest.raises(TypeError, match="takes floating, integer or boolean data"):
        ad.Tensor(data)


def test_attributes_tell_what_a_tensor_is():
    x, y, u, loss = shared_node()
    assert (x.shape, x.ndim, x.size, x.name) == ((), 0, 1, "x")
    assert x.op is None and x.is_variable and x.tracked
    assert loss.op.name == "square" and loss.op.inputs == (u,) and not loss.is_variable and loss.tracked
    k = ad.Tensor([1.0])
    assert not k.tracked and not k.is_variable and (k * 2).op is None
    assert x.id < y.id < u.id < loss.id
    assert ad.Var([[1.0]]).sum(axis=0).op.params == {"axis": 0}


def test_python_numbers_do_not_widen_float32():
    x = ad.Var(np.ones(3, np.float32))
    y = (2 * x + 1.5) / 3 - x**2.5
    assert y.dtype == np.float32
    assert y.backward()[x].dtype == np.float32


def test_a_wider_operand_widens_the_result_and_each_gradient_keeps_its_own_dtype():
    x, w = ad.Var(np.ones(3, np.float32)), ad.Var(np.ones(3))
    y = x * w
    assert y.dtype == np.float64
    grads = y.backward()
    assert (grads[x].dtype, grads[w].dtype) == (np.float32, np.float64)


@pytest.mark.parametrize("convert", [np.asarray, float, int, math.exp, np.array, lambda t: [1, 2][t]])
def test_a_tracked_tensor_does_not_lose_its_history_in_silence(convert):
    with pytest.raises(TypeError, match=r"tracked.*\.data.*\.item\(\).*\.detach\(\)"):
        convert(ad.Var(1.0) * 2)


def test_writing_a_tracked_tensor_into_a_plain_array_is_refused():
    target = np.zeros(2)
    with pytest.raises((TypeError, ValueError)) as error:
        target[0] = ad.Var(1.0) * 2
    assert ".data" in f"{error.value} {error.value.__cause__}"
    assert target.tolist() == [0, 0]
    with pytest.raises(TypeError, match="values never change"):
        target += ad.Var([1.0, 1.0])
    assert target.tolist() == [0, 0]


def test_an_untracked_tensor_converts_freely():
    k = ad.Tensor(2.0)
    assert (float(k), int(k), math.exp(k), np.asarray(k).tolist()) == (2.0, 2, math.exp(2), 2.0)
    assert [10, 20, 30][ad.Tensor(2)] == 30


def test_printing_and_formats_work_on_tracked_tensors():
    x, _, _, loss = shared_node()
    assert repr(x) == "Var(3., name='x')"
    assert str(loss) == "Tensor(81., op=square)"
    assert f"{loss:.2f} {x}" == "81.00 Var(3., name='x')"
    assert "float32" in repr(ad.Tensor(np.ones(1, np.float32)))


def test_item_assignment_is_refused_and_names_what_to_use():
    x = ad.Var([1.0, 2.0], name="x")
    with pytest.raises(TypeError, match=r"Var 'x'.*np\.where.*\.set"):
        x[0] = 5
    assert x.data.tolist() == [1, 2]


def test_comparisons_return_plain_boolean_arrays():
    x = ad.Var([1.0, 3.0])
    for result in (x > 2, x == ad.Tensor([1.0, 0.0]), 2 < x, np.isnan(x), np.greater(x, 2)):
        assert type(result) is np.ndarray and result.dtype == bool
    assert x in {x} and len({x, ad.Var(1.0)}) == 2


def test_operators_work_in_both_directions_with_arrays_on_the_left():
    x = ad.Var([1.0, 2.0])
    array = np.array([10.0, 20.0])
    for result in (array * x, array + x, array - x, array / x, array**x, array @ x, 2 - x, 2 / x, 2**x, 5 % x, 5 // x):
        assert isinstance(result, ad.Tensor) and result.tracked
    assert (array * x).backward()[x].data.tolist() == [10, 20]
    assert (np.float64(3) * x).backward()[x].data.tolist() == [3, 3]


def test_an_unknown_operand_is_a_type_error():
    with pytest.raises(TypeError):
        ad.Var(1.0) + "text"
    with pytest.raises(TypeError):
        None * ad.Var(1.0)


def test_a_numpy_function_without_a_rule_names_itself_and_the_nearest():
    x = ad.Var([1.0, 2.0])
    with pytest.raises(ad.NoRuleError, match=r"np\.busday_count|np\.packbits"):
        np.packbits(x)
    with pytest.raises(TypeError, match=r"np\.fft\.fft has no rule"):
        np.fft.fft(x)
    with pytest.raises(ad.NoRuleError, match="mean"):
        np.var(x, mean=1.5)
    with pytest.raises(ad.NoRuleError, match=r"np\.add\.at"):
        np.add.at(x, [0], 1)


def test_a_list_of_tensors_keeps_its_history_or_is_refused():
    x = ad.Var([1.0, 2.0])
    joined = np.concatenate([x, [x[0] * 3]])
    assert joined.backward()[x].data.tolist() == [4, 1]
    with pytest.raises(TypeError, match=r"np\.stack"):
        ad.Tensor([x[0], x[1]])
    with pytest.raises(TypeError, match=r"np\.stack"):
        np.array([[x[0]]])
    assert ad.Tensor([ad.Tensor(1.0), 2.0]).data.tolist() == [1, 2]


def test_a_constant_array_is_remembered_as_it_was():
    x, array = ad.Var([1.0, 1.0]), np.array([2.0, 3.0])
    y = x * array
    key = np.array([0, 0])
    z = x[key]
    array[:], key[:] = 0, 1
    assert y.backward()[x].data.tolist() == [2, 3]
    assert z.backward()[x].data.tolist() == [2, 0]


def test_copies_and_pickles_of_leaves_have_ids_of_their_own():
    x = ad.Var([1.0], name="x")
    for other in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert other.id != x.id and other.name == "x" and other.is_variable and other.data.tolist() == [1]
    with pytest.raises(TypeError, match="tracked"):
        copy.deepcopy(x * 2)


# Recording


def test_no_grad_records_nothing_and_ends_with_its_block():
    x = ad.Var(2.0)
    with ad.no_grad():
        y = x * x
        with ad.no_grad():
            pass
        z = np.exp(x)
    assert not y.tracked and y.op is None and not z.tracked and x.tracked
    assert (x * x).tracked
    with pytest.raises(ZeroDivisionError), ad.no_grad():
        raise ZeroDivisionError
    assert (x * x).tracked


def test_no_grad_is_per_thread_and_per_async_task():
    x, seen = ad.Var(2.0), {}
    with ad.no_grad():
        thread = threading.Thread(target=lambda: seen.update(thread=(x * x).tracked))
        thread.start()
        thread.join()
    assert seen["thread"]

    async def without(started, go_on):
        with ad.no_grad():
            started.set()
            await go_on.wait()
            return (x * x).tracked

    async def both():
        started, go_on = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(without(started, go_on))
        await started.wait()
        here = (x * x).tracked
        go_on.set()
        return here, await task

    assert asyncio.run(both()) == (True, False)


def test_detach_is_a_new_constant_in_the_same_memory():
    x = ad.Var([1.0, 2.0])
    h = x * 3
    d = h.detach()
    assert d.id != h.id and not d.tracked and np.shares_memory(d.data, h.data)
    assert ((x - d) ** 2).backward(wrt=[x])[x].data.tolist() == [-4, -8]


def test_broadcasting_is_a_node_of_its_own_and_sums_both_kinds_of_copied_axes():
    xw, b = ad.Var(np.ones((4, 3))), ad.Var(np.ones(3), name="b")
    y = xw + b
    wide = y.op.inputs[1]
    assert wide.op.name == "broadcast" and wide.shape == (4, 3) and wide.op.inputs == (b,)
    assert y.backward()[b].data.tolist() == [4, 4, 4]
    column = ad.Var(np.ones((4, 1)))
    assert (xw * column).backward()[column].data.tolist() == [[3]] * 4


def test_a_plain_tensor_that_is_broadcast_gets_its_gradient_in_its_own_shape_and_dtype():
    x, k = ad.Var(np.ones((4, 3))), ad.Tensor(np.array([1, 2, 3], np.float32))
    grads = (x * k).backward()
    assert grads[k].data.tolist() == [4, 4, 4] and grads[k].dtype == np.float32


# The order


def test_sixty_doublings_have_61_nodes_and_gradient_two_to_the_sixty():
    x = ad.Var([1.0])
    y = x
    for _ in range(60):
        y = y + y
    assert len(ad.sorted_nodes(y)) == 61
    assert y.backward()[x].data.tolist() == [2.0**60]


@pytest.mark.parametrize("length", [100_000, pytest.param(1_000_000, marks=pytest.mark.thorough)])
def test_a_long_chain_of_adds_is_built_differentiated_and_freed_without_recursion(length):
    x = ad.Var([1.0])
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(120)
    try:
        y = x
        for _ in range(length):
            y = y + 1.0
        last = weakref.ref(y)
        assert y.backward()[x].data.tolist() == [1]
        del y
        assert last() is None
    finally:
        sys.setrecursionlimit(limit)


def test_the_root_comes_first_and_users_before_what_they_use():
    _, _, _, loss = shared_node()
    nodes = ad.sorted_nodes(loss)
    assert nodes[0] is loss and len(nodes) == len(set(nodes)) == 5
    place = {t: i for i, t in enumerate(nodes)}
    assert all(place[t] < place[i] for t in nodes if t.op for i in t.op.inputs if i in place)


def test_integers_nondifferentiable_functions_and_products_with_zero_are_pruned():
    x, z = ad.Var([1.5, 2.5]), ad.Var([1.0, 1.0])
    for cut in (np.ceil(z), np.sign(z), z.round(), z.astype(int), z * 0, 0.0 * z, z.astype(int).astype(float)):
        y = (x + cut).sum()
        assert z not in set(ad.sorted_nodes(y))
        grads = y.backward()
        assert z not in grads and grads[x].data.tolist() == [1, 1]
        assert z in set(ad.sorted_nodes(z + y))
    assert np.ceil(z).tracked and np.ceil(z).op.name == "ceil"
    assert (np.ceil(x) + x).sum().backward()[x].data.tolist() == [1, 1]


def test_positions_are_integers_and_track_nothing():
    x = ad.Var([0.1, 0.9])
    place = x.argmax()
    assert isinstance(place, ad.Tensor) and not place.tracked and place.item() == 1
    assert x[place].backward()[x].data.tolist() == [0, 1]
    with pytest.raises(TypeError, match="must be floating"):
        (place + 2).sum().backward()


def test_with_wrt_nothing_below_a_target_is_visited():
    x, _, u, loss = shared_node()
    assert ad.sorted_nodes(loss, [u]) == [loss, u]
    assert set(ad.sorted_nodes(loss, [u, x])) >= {loss, u, x}
    assert ad.sorted_nodes(ad.Tensor(1.0)) == [] and ad.sorted_nodes(x) == [x]


# The backward pass


def test_the_shared_node():
    x, y, u, loss = shared_node()
    grads = loss.backward(keep=[u])
    assert [loss.item(), grads[u].item(), grads[x].item(), grads[y].item()] == [81, 18, 54, 54]


def test_both_uses_of_an_operand_count():
    x = ad.Var(-3.0)
    assert (x * x).backward()[x].item() == -6


def test_a_second_backward_gives_an_equal_store_and_changes_no_tensor():
    x, y, u, loss = shared_node()
    before = [t.data.copy() for t in (x, y, u, loss)]
    first, second = loss.backward(), loss.backward()
    assert first == second and first != ad.GradStore() and first != (loss * 2).backward()
    assert first.ids() == second.ids() and [first[t].item() for t in (x, y)] == [second[t].item() for t in (x, y)]
    assert all(np.array_equal(t.data, b) for t, b in zip((x, y, u, loss), before))


def test_the_store_holds_vars_and_plain_direct_inputs_and_nothing_else():
    x, k, unused = ad.Var([1.0, 2.0]), ad.Tensor([10.0, 20.0]), ad.Tensor(1.0)
    h = x * k
    loss = h.sum()
    for _ in range(2):
        grads = loss.backward()
        assert len(grads) == 2 and set(grads.ids()) == {x.id, k.id}
        assert grads[x].data.tolist() == [10, 20] and grads[k].data.tolist() == [1, 2]
        assert h not in grads and loss not in grads and unused not in grads
    cut = (h.detach() * 2).sum()
    assert not cut.tracked
    grads = cut.backward()
    assert len(grads) == 1 and grads[cut].item() == 1 and x not in grads


def test_an_array_operand_never_gets_a_slot():
    x = ad.Var([1.0, 2.0])
    assert len((x * np.array([3.0, 4.0]) * 2.0).backward()) == 1


def test_cotangents_weigh_the_outputs():
    a, b = ad.Var(2.0), ad.Var(3.0)
    y = np.stack([a * b, a**2 + b])
    grads = y.backward(np.array([2.0, 3.0]))
    assert (grads[a].item(), grads[b].item()) == (18, 7)
    assert y.backward()[a].item() == 7
    assert y.backward(ad.Tensor([2.0, 3.0]))[b].item() == 7


@pytest.mark.parametrize(
    ("cotangent", "error", "message"),
    [(np.ones(3), ValueError, r"shape \(2,\), got \(3,\)"), (1.0, ValueError, r"got \(\)"),
     (np.ones(2, np.float32), TypeError, "float64, got float32"), (np.ones(2, int), TypeError, "float64, got int64")],
)  # fmt: skip
def test_a_cotangent_that_does_not_fit_is_refused(cotangent, error, message):
    x = ad.Var([1.0, 2.0])
    with pytest.raises(error, match=message):
        (x * 2).backward(cotangent)


def test_wrt_gives_exactly_what_was_asked_and_computes_nothing_else():
    x, y, u, loss = shared_node()
    k = ad.Tensor(5.0)
    grads = (loss * k).backward(wrt=[u, y])
    assert set(grads.ids()) == {u.id, y.id} and grads[u].item() == 90 and grads[y].item() == 270
    assert (loss * k).backward(wrt=k)[k].item() == 81
    unasked = ad.Var(-1.0)
    with np.errstate(all="raise"):
        assert (unasked**2.0).backward(wrt=[unasked])[unasked].item() == -2
    for bad, message in ((ad.Tensor([1]), "must be floating"), (3.0, "takes Tensors")):
        with pytest.raises(TypeError, match=message):
            loss.backward(wrt=[bad])


def test_a_plain_target_is_reached_where_no_var_is():
    x, k = ad.Var(2.5), ad.Tensor(3.0)
    y = np.floor(x) * k
    assert y.backward(wrt=[k])[k].item() == 2
    assert y.backward(wrt=[x]).get(x) is None


def test_an_untracked_root_leaves_just_itself_and_an_integer_root_is_refused():
    k = ad.Tensor([1.0, 2.0])
    grads = k.backward()
    assert len(grads) == 1 and grads[k].data.tolist() == [1, 1]
    with pytest.raises(TypeError, match="must be floating"):
        ad.Tensor([1, 2]).backward()


def test_absent_and_zero_differ():
    x, z = ad.Var([1.0, 2.0]), ad.Var(0.0)
    grads = (x * z).sum().backward()
    assert grads[x].data.tolist() == [0, 0]
    assert ad.Var(1.0) not in grads


@pytest.mark.parametrize(
    ("function", "first", "taken", "none"),
    [(lambda x: x * x, 6, 2, 2), (lambda x: (x * x) * x, 27, 12, 18), (lambda x: np.exp(2 * x), None, None, None)],
)
def test_three_detach_policies(function, first, taken, none):
    x = ad.Var(3.0)
    e = math.exp(6)
    first, none = first or 2 * e, none or 4 * e
    y = function(x)
    constants, cut, whole = (y.backward(detach=d)[x] for d in ("all", "taken", "none"))
    for g in (constants, cut, whole):
        assert g.item() == pytest.approx(first, rel=1e-14)
    assert not constants.tracked and whole.tracked
    assert cut.backward()[x].item() == taken if taken else not cut.tracked
    assert whole.backward()[x].item() == pytest.approx(none, rel=1e-14)


def test_third_derivatives_are_right_when_nothing_is_cut():
    x = ad.Var(3.0)
    for function, third in ((lambda x: (x * x) * x, 6.0), (lambda x: np.exp(2 * x), 8 * math.exp(6))):
        y = function(x)
        for _ in range(3):
            y = y.backward(detach="none")[x]
        assert y.item() == pytest.approx(third, rel=1e-14)


def test_a_cotangent_may_be_differentiated_too():
    x, v = ad.Var([1.0, 2.0]), ad.Var([3.0, 4.0])
    pulled = (x**2).backward(v, wrt=[x], detach="none")[x]
    assert pulled.backward(wrt=[v])[v].data.tolist() == [2, 4]


def test_a_graph_recorded_before_a_set_is_stale_and_names_the_var_and_both_versions():
    w, x = ad.Var([1.0], name="w"), ad.Var([2.0])
    before = w * x
    w.set([5.0])
    w.set(np.array([6.0]))
    for asked in (None, [x], [w]):
        with pytest.raises(ad.StaleGraphError, match=r"Var 'w'.* had version 0 .* has version 2"):
            before.backward(wrt=asked)
    assert (w * x).backward()[x].data.tolist() == [6]


def test_set_refuses_another_shape_or_dtype_and_changes_nothing():
    w = ad.Var([1.0, 2.0], name="w")
    y = w * 3
    for bad, error in ((np.ones(3), ValueError), (np.ones(2, np.float32), TypeError), ([1j, 2], TypeError)):
        with pytest.raises(error):
            w.set(bad)
    assert w.data.tolist() == [1, 2] and y.backward()[w].data.tolist() == [3, 3]
    kept = w.data
    w.set([3, 4.0])
    assert kept.tolist() == [1, 2] and w.data.tolist() == [3, 4] and w.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_set_takes_pythons_numbers_in_the_dtype_of_the_var(dtype):
    w, v = ad.Var(dtype(1)), ad.Var(np.ones(2, dtype))
    for number in (2, 2.5, True):
        w.set(number)
        v.set([number, 1])
        assert w.item() == v.data[0] == number and w.dtype == v.dtype == dtype
    for bad in (2j, np.float64(2), "2"):
        if np.asarray(bad).dtype != dtype:
            with pytest.raises(TypeError, match="the dtype must stay"):
                w.set(bad)


def test_set_takes_the_value_of_a_tensor():
    w = ad.Var([1.0, 2.0])
    w.set(w - 0.5 * (w * w).backward()[w])
    assert w.data.tolist() == [0, 0] and w.op is None


def test_strong_zero_protects_the_branch_behind_a_mask():
    x = ad.Var([-1.0, 4.0])
    with np.errstate(invalid="ignore"):
        y = np.where(x > 0, np.sqrt(x), x)
        assert np.isnan(y.backward()[x].data[0])
        assert y.backward(strong_zero=True)[x].data.tolist() == [1, 0.25]
        second = y.backward(strong_zero=True, detach="none")[x].backward(strong_zero=True)[x]
    assert second.data.tolist() == [0, -1 / 32]


def test_strong_zero_does_not_lose_the_second_derivative_through_a_zero_cotangent():
    x = ad.Var(1.0)
    y = 0.5 * (np.sin(x) - math.sin(1.0)) ** 2
    g = y.backward(strong_zero=True, detach="none")[x]
    assert g.item() == 0
    assert g.backward(strong_zero=True)[x].item() == pytest.approx(math.cos(1.0) ** 2)


def test_detect_nonfinite_names_the_op_its_inputs_and_the_node():
    x = ad.Var([0.0, 1.0], name="x")
    y = np.sqrt(x).sum()
    with np.errstate(divide="ignore"):
        assert np.isinf(y.backward()[x].data[0])
        with ad.detect_nonfinite(), pytest.raises(FloatingPointError, match=r"rule of sqrt returned inf .* Var 'x'"):
            y.backward()
        assert np.isinf(y.backward()[x].data[0])


# Memory and sharing


def test_a_sum_of_contributions_never_writes_into_somebody_elses_array():
    x, k = ad.Var([1.0, 2.0]), ad.Tensor([1.0, 1.0])
    seed = np.array([1.0, 1.0])
    y = x + k
    total = y + y + x + x
    grads = total.backward(seed)
    assert grads[x].data.tolist() == [4, 4] and grads[k].data.tolist() == [2, 2] and seed.tolist() == [1, 1]
    kept = total.backward(keep=[y])
    assert kept[y].data.tolist() == [2, 2] and kept[x].data.tolist() == [4, 4]


def test_dropping_the_last_result_frees_its_graph_at_once():
    gc.disable()
    try:
        x = ad.Var([1.0])
        y = np.tanh(x * 2)
        inner = weakref.ref(y.op.inputs[0])
        store = y.backward(detach="none")
        del y, store
        assert inner() is None
    finally:
        gc.enable()


def test_a_store_keeps_no_graph_alive():
    x = ad.Var([1.0])
    y = np.tanh(x * 2)
    inner = weakref.ref(y.op.inputs[0])
    store = y.backward()
    del y
    assert inner() is None
    with pytest.raises(KeyError, match="not part of the graph of"):
        store[ad.Var(1.0)]


def test_an_index_into_a_0_d_tensor_that_has_a_share_already():
    x = ad.Var(-2.0)
    y = x * 1.0
    assert (y[None] * 1 + y * 2).sum().backward()[x].item() == 3
    assert (y * 2 + y[None] + y[...]).sum().backward()[x].item() == 4


def test_reading_entries_one_by_one_costs_one_sum_and_not_one_array_a_read():
    x = ad.Var(np.ones(3000))
    total = x[0]
    for i in range(1, 3000):
        total = total + x[i]
    assert total.backward()[x].data.tolist() == [1.0] * 3000


def test_four_threads_on_one_graph_get_equal_stores():
    x = ad.Var(np.linspace(0, 1, 50))
    y = x
    for _ in range(200):
        y = np.sin(y * x + x)
    stores = []
    threads = [threading.Thread(target=lambda: stores.append(y.backward()[x].data)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(stores) == 4 and all(np.array_equal(s, y.backward()[x].data) for s in stores)


# The store


def test_insert_remove_and_or_insert():
    x, store = ad.Var([1.0, 2.0], name="x"), ad.GradStore()
    assert len(store) == 0 and store.get(x) is None
    assert store.insert(x, [3.0, 4.0]) is None
    assert store.insert(x, ad.Tensor([5.0, 6.0])).data.tolist() == [3, 4]
    assert store.or_insert(x).data.tolist() == [5, 6]
    assert store.remove(x).data.tolist() == [5, 6] and store.remove(x) is None and x not in store
    assert store.or_insert(x).data.tolist() == [0, 0] and store.ids() == [x.id]


def test_insert_refuses_what_does_not_fit_and_changes_nothing():
    x, store = ad.Var([1.0, 2.0], name="x"), ad.GradStore()
    store.insert(x, [3.0, 4.0])
    for bad, error in (([1.0], ValueError), ([1, 2], TypeError), (np.ones(2, np.float32), TypeError)):
        with pytest.raises(error, match="Var 'x'"):
            store.insert(x, bad)
    assert store[x].data.tolist() == [3, 4]
    with pytest.raises(TypeError, match="only floating"):
        store.insert(ad.Tensor([1]), [1])
    with pytest.raises(TypeError, match="indexed by a Tensor"):
        store["x"]


def test_an_inserted_array_is_copied():
    x, store, g = ad.Var([1.0]), ad.GradStore(), np.array([2.0])
    store.insert(x, g)
    g[0] = 9
    assert store[x].data.tolist() == [2]


def test_extend_adds_what_both_have_and_leaves_all_as_it_was_when_one_does_not_fit():
    x, y = ad.Var([1.0, 2.0]), ad.Var(1.0)
    first, second = (x * 2).backward(), (x * y).backward()
    first.extend(second)
    assert first[x].data.tolist() == [3, 3] and first[y].item() == 3 and second[x].data.tolist() == [1, 1]
    broken = ad.GradStore()
    broken._grads = {y.id: ad.Tensor(1.0), x.id: ad.Tensor(1.0)}
    with pytest.raises(ValueError, match="do not fit"):
        first.extend(broken)
    assert first[y].item() == 3


def test_a_missing_gradient_says_why():
    x, y, u, loss = shared_node()
    unused, behind, pruned = ad.Var(1.0), ad.Var(1.0), ad.Var(1.0)
    hidden, seen = behind * 2, x * 2
    total = loss + hidden.detach() + np.floor(pruned * 2) + seen
    grads = total.backward()
    for tensor, why in (
        (u, "taken out"), (total, "taken out"), (hidden, "behind a detach"), (behind, "behind a detach"),
        (pruned, "pruned"), (ad.Tensor([1]), "only floating"),
    ):  # fmt: skip
        with pytest.raises(KeyError, match=why):
            grads[tensor]
    flat = (np.ceil(x) * 2).sum()
    with pytest.raises(KeyError, match=r"only reached through Tensor = ceil\("):
        flat.backward()[x]
    with pytest.raises(KeyError, match="not part of the graph"):
        loss.backward()[unused]
    with pytest.raises(KeyError, match="not among wrt"):
        loss.backward(wrt=[x])[y]
    with pytest.raises(KeyError, match="nothing was stored"):
        ad.GradStore()[x]


def why(store, tensor):
    with pytest.raises(KeyError) as error:
        store[tensor]
    return str(error.value).partition("): ")[2]


def test_a_gradient_missing_from_an_untracked_root_names_no_grad_and_detach():
    x = ad.Var([1.0, 2.0])
    with ad.no_grad():
        unrecorded = (x * x).sum()
    gradient = (x * x).sum().backward()[x].sum()
    for root in (unrecorded, (x.detach() * 2).sum(), ad.Tensor(x.data * 2).sum(), gradient):
        reason = why(root.backward(), x)
        assert "not part of the graph" in reason and "untracked" in reason
        assert all(word in reason for word in ("no_grad", "detached", ".data", 'detach="none"'))
    assert "behind a detach" in why((x * x).sum().detach().backward(), x)
    assert "untracked" not in why(x.sum().backward(), ad.Var(1.0))


def test_a_gradient_that_was_removed_is_said_to_be_removed():
    x, k = ad.Var([1.0, 2.0]), ad.Tensor([1.0, 2.0])
    y = (x * k).sum()
    for store in (y.backward(), y.backward(wrt=[x, k])):
        for t in (x, k):
            assert store.remove(t).shape == (2,)
            assert why(store, t) == "it was removed from the store."
        store.insert(k, [5.0, 6.0])
        assert store[k].data.tolist() == [5, 6]
    unused = ad.Var(1.0)
    assert store.remove(unused) is None and "removed" not in why(store, unused)


def test_a_pruned_result_is_said_to_be_pruned_and_is_there_when_asked_for():
    x = ad.Var([1.0, 2.0])
    for f in (np.floor(x), x * 0, np.floor(x) * 2.0):
        y = (f + x).sum()
        assert why(y.backward(), f).startswith("it is pruned")
        assert y.backward(wrt=[f])[f].data.tolist() == [1, 1]


def test_a_store_is_not_iterated_over_for_it_knows_ids_and_no_tensors():
    store = ad.Var(2.0).backward()
    with pytest.raises(TypeError, match="not iterable"):
        list(store)
    assert len(store.ids()) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_any_small_graph_agrees_with_central_differences(steps):
    def run(values):
        nodes = [ad.Var(v) if with_graph else v for v in values]
        for kind, i, j in steps:
            a, b = nodes[i % len(nodes)], nodes[j % len(nodes)]
            nodes.append([lambda: a + b, lambda: a * b, lambda: np.tanh(a), lambda: a - b * 0.5][kind]())
        return nodes

    point = [0.3, -0.7]
    with_graph = True
    nodes = run(point)
    grads = nodes[-1].backward()
    with_graph = False
    for k in (0, 1):
        up, down = list(point), list(point)
        up[k] += 1e-6
        down[k] -= 1e-6
        slope = (run(up)[-1] - run(down)[-1]) / 2e-6
        got = grads[nodes[k]].item() if nodes[k] in grads else 0.0
        assert got == pytest.approx(float(slope), rel=1e-5, abs=1e-6)
