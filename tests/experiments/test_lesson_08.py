"""Lesson 08: every number about detach, no_grad and eval, computed anew, and as the stored outputs show it."""

import os

import numpy as np
import pytest

import autodiff as ad
from test_lessons import stored

NAME = "08_detach_and_no_grad.ipynb"


def moving(x):
    return (x - x / 2) ** 2


def held(x):
    return (x - (x / 2).detach()) ** 2


def distance(s, t, cut=None):
    student, teacher = s * 2.0, t * 2.0
    if cut == "teacher":
        teacher = teacher.detach()
    if cut == "student":
        student = student.detach()
    return (student - teacher) ** 2


def two_weights(s, p, q):
    return (2 * s - q * np.tanh(2 * p)) ** 2


def torch_or_skip():
    try:
        import torch
    except ImportError:
        if "torch" in os.environ.get("AUTODIFF_REQUIRE", ""):
            raise
        pytest.skip("PyTorch is not installed: pip install torch==2.13.0 compares with it")
    return torch


def test_detach_shares_memory_without_history_and_copy_is_the_opposite():
    x = ad.Var(3.0)
    h = x / 2
    d, c = h.detach(), h.copy()
    assert d.item() == c.item() == 1.5 and d.id != h.id and d.op is None
    assert np.shares_memory(d.data, h.data) and not d.tracked
    assert not np.shares_memory(c.data, h.data) and c.tracked
    assert [(x * t).backward()[x].item() for t in (d, c)] == [1.5, 3.0]


@pytest.mark.parametrize("at", [3.0, -1.25, 0.5])
def test_equal_values_and_the_gradients_x_half_and_x(at):
    x = ad.Var(at)
    assert moving(x).item() == held(x).item()
    assert moving(x).backward()[x].item() == pytest.approx(at / 2, rel=1e-15)
    assert held(x).backward()[x].item() == pytest.approx(at, rel=1e-15)


def test_at_3_the_value_is_2_25_and_the_gradients_are_1_5_and_3():
    x = ad.Var(3.0)
    assert [(f(x).item(), f(x).backward()[x].item()) for f in (moving, held)] == [(2.25, 1.5), (2.25, 3.0)]


def test_the_share_that_is_cut_off_stays_at_the_detached_tensor():
    x = ad.Var(3.0)
    h = x / 2
    target = h.detach()
    loss = (x - target) ** 2
    grads = loss.backward()
    assert grads[target].item() == -3 and grads[x].item() - 3 / 2 == 1.5
    assert h.id not in [t.id for t in ad.sorted_nodes(loss)]


def test_differences_see_the_target_move_unless_it_is_held():
    def slope(f, step=0.001):
        return (f(3 + step) - f(3 - step)) / (2 * step)

    assert slope(lambda x: (x - x / 2) ** 2) == pytest.approx(1.5, abs=1e-9)
    assert slope(lambda x: (x - 1.5) ** 2) == pytest.approx(3, abs=1e-9)
    report = ad.gradcheck(held, 3.0, raise_exception=False)
    assert not report and report.worst.analytic == 3 and report.worst.numeric == pytest.approx(1.5)
    assert ad.gradcheck(held, 3.0, hold_detached=True)


def path_of(loss, rounds):
    x, path = ad.Var(3.0), [3.0]
    for _ in range(rounds):
        x.set(x.data - 0.1 * loss(x).backward()[x].data)
        path.append(x.item())
    return path


def test_the_three_updates_follow_their_closed_forms():
    n = np.arange(41)
    np.testing.assert_allclose(path_of(moving, 40), 3 * 0.95**n, rtol=1e-12)
    np.testing.assert_allclose(path_of(held, 40), 3 * 0.9**n, rtol=1e-12)
    np.testing.assert_allclose(path_of(lambda x: (x - 1.5) ** 2, 40), 1.5 + 1.5 * 0.8**n, rtol=1e-12)


def test_each_single_cut_of_the_lab_and_the_one_that_climbs():
    lab = ad.labs.detach(moving, 3.0)
    found = []
    for number in (1, 2, 3, 4):
        lab.set(cut=[number])
        found.append(lab.result["x"].after)
        assert lab.result.value == 2.25
    assert found == [3, -1.5, 3, None]
    path = path_of(lambda x: (x.detach() - x / 2) ** 2, 5)
    np.testing.assert_allclose(path, 3 * 1.05 ** np.arange(6), rtol=1e-12)


def test_what_no_grad_did_not_record_stays_a_constant():
    x = ad.Var(3.0)
    with ad.no_grad():
        y, h = x * x, x * 2
    assert not y.tracked and y.op is None
    with pytest.raises(KeyError, match="not part of the graph"):
        y.backward()[x]
    assert (h * x).backward()[x].item() == 6
    assert (x * 2 * x).backward()[x].item() == 12


def test_a_recorded_chain_keeps_every_value_and_no_grad_does_not():
    import tracemalloc

    def peak(steps=50):
        y = ad.Var(np.zeros(10_000))
        tracemalloc.start()
        for _ in range(steps):
            y = np.tanh(y)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    recorded = peak()
    with ad.no_grad():
        assert recorded > 20 * peak()


def test_dropout_of_the_lesson_keeps_three_of_four():
    kept = np.random.default_rng(0).random(4) < 0.5
    assert kept.sum() == 3 and 2 * (np.ones(4) * kept * 2).sum() == 12


def test_the_graph_of_a_fixed_teacher_gives_16_to_the_student_alone():
    s, t = ad.Var(0.0), ad.Var(2.0)
    joint, fixed, wrong = (distance(s, t, cut).backward() for cut in (None, "teacher", "student"))
    assert (joint[s].item(), joint[t].item()) == (-16, 16)
    assert fixed[s].item() == -16 and t not in fixed
    assert s not in wrong and wrong[t].item() == 16
    with ad.no_grad():
        answer = t * 2.0
    grads = ((s * 2.0 - answer) ** 2).backward()
    assert grads[s].item() == -16 and t not in grads


@pytest.mark.parametrize("cut, factor, student, teacher", [
    (None, 0.68, 0.5, 0.5), ("teacher", 0.84, 1, 0), ("student", 0.84, 0, 1)])
def test_the_loss_goes_to_0_whoever_moves(cut, factor, student, teacher):
    s, t = ad.Var(0.0), ad.Var(2.0)
    losses = []
    for n in range(31):
        gap = 2 * factor**n
        assert s.item() == pytest.approx(student * (2 - gap), abs=1e-12)
        assert t.item() == pytest.approx(2 - teacher * (2 - gap), abs=1e-12)
        losses.append(distance(s, t).item())
        grads = distance(s, t, cut).backward()
        for weight in (s, t):
            if weight in grads:
                weight.set(weight.data - 0.02 * grads[weight].data)
    assert losses[5] == pytest.approx(0.34 if cut is None else 2.80, abs=0.005) and losses[30] < 0.005


def test_one_cut_closes_every_path_to_the_teacher_and_detaching_one_weight_leaks():
    values = 0.5, 0.3, 1.5
    lab = ad.labs.detach(two_weights, *values)
    assert lab.edge(4).startswith("q into") and lab.edge(7).endswith("operand b")
    verdicts = {}
    for number in range(1, 9):
        lab.set(cut=[number])
        verdicts[number] = [lab.result[name].verdict for name in "spq"]
    assert verdicts[4] == ["unchanged", "unchanged", "vanished"]
    solutions = [n for n, found in verdicts.items() if found == ["unchanged", "vanished", "vanished"]]
    assert solutions == [7]
    s, p, q = (ad.Var(v) for v in values)
    leaking = ((2 * s - q.detach() * np.tanh(2 * p)) ** 2).backward()
    closed = ((2 * s - (q * np.tanh(2 * p)).detach()) ** 2).backward()
    assert p in leaking and q not in leaking
    assert p not in closed and q not in closed and closed[s].item() == two_weights(s, p, q).backward()[s].item()


def visits(system, carry):
    w, h, found = ad.Var(0.5), ad.Tensor(1.0), []
    for _ in range(3):
        h = np.tanh(w * carry(h))
        try:
            system.backward(h)
            found.append(len(ad.sorted_nodes(h)))
        except RuntimeError:
            return found + ["error"]
    return found


def test_a_carried_state_brings_its_history_along_unless_it_is_cut():
    for system, carried in ((ad.contracts.candle, [3, 5, 7]), (ad.contracts.pytorch, [3, "error"])):
        assert visits(system(), lambda h: h) == carried
        assert visits(system(), lambda h: h.detach()) == [3, 3, 3]


def test_a_running_total_brings_its_history_along():
    x, total, sizes = ad.Var(3.0), 0.0, []
    for _ in range(3):
        total = total + x * x
        sizes.append(len(ad.sorted_nodes(total)))
    assert sizes[0] < sizes[1] < sizes[2]


def test_memory_shared_with_a_weight_that_is_set_or_written_in_place():
    weight = np.array([1.0, 2.0])
    target, fixed = weight[:], weight.copy()
    weight -= 0.2 * weight
    assert target.tolist() == [0.8, 1.6] and fixed.tolist() == [1, 2]
    v = ad.Var([1.0, 2.0])
    target = v.detach()
    v.set(v.data - 0.2 * v.data)
    assert target.data.tolist() == [1, 2] and v.data.tolist() == [0.8, 1.6]


def test_burn_keeps_the_mark_when_it_cuts():
    x = ad.Var(3.0)
    systems = ad.contracts.candle, ad.contracts.pytorch, ad.contracts.burn
    assert [system().detach(x).is_variable for system in systems] == [False, False, True]


@pytest.mark.torch
def test_pytorch_gives_the_same_gradients_and_its_target_moves_without_a_clone():
    torch = torch_or_skip()
    for f, expected in ((moving, 1.5), (held, 3.0)):
        x = torch.tensor(3.0, requires_grad=True)
        f(x).backward()
        assert f(x).item() == 2.25 and x.grad.item() == expected
    for cut, gs, gt in ((None, -16, 16), ("teacher", -16, None), ("student", None, 16)):
        s, t = torch.tensor(0.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
        distance(s, t, cut).backward()
        assert [None if w.grad is None else w.grad.item() for w in (s, t)] == [gs, gt]
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    target, fixed = w.detach(), w.detach().clone()
    (w * w).sum().backward()
    torch.optim.SGD([w], lr=0.1).step()
    assert target.tolist() == w.tolist() == pytest.approx([0.8, 1.6]) and fixed.tolist() == [1, 2]


@pytest.mark.torch
def test_pytorchs_eval_records_and_its_no_grad_does_not():
    torch = torch_or_skip()
    model = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Dropout())
    assert model.eval()(torch.ones(4)).requires_grad
    model.train()
    with torch.no_grad():
        assert not model(torch.ones(4)).requires_grad and model[1].training


@pytest.mark.torch
def test_pytorch_refuses_a_carried_state_and_with_retain_graph_an_updated_weight():
    torch = torch_or_skip()

    def rounds(carry, update=False, **options):
        w, h = torch.tensor(0.5, requires_grad=True), torch.tensor(1.0)
        for _ in range(3):
            h = torch.tanh(w * carry(h))
            h.backward(**options)
            if update:
                torch.optim.SGD([w], lr=0.1).step()

    with pytest.raises(RuntimeError, match="a second time"):
        rounds(lambda h: h)
    rounds(lambda h: h, retain_graph=True)
    with pytest.raises(RuntimeError, match="inplace operation"):
        rounds(lambda h: h, retain_graph=True, update=True)
    rounds(lambda h: h.detach(), update=True)


@pytest.mark.parametrize("cell, expected", [
    ("detach", ["h  value 1.5   op divide   tracked True", "d  value 1.5   op None     tracked False",
                "the same tensor: False   the same id: False"]),
    ("copy", ["detach  memory of h: True   tracked: False", "copy    memory of h: False  tracked: True"]),
    ("copy-draw", ["with detach: 1.5", "with copy:   3.0"]),
    ("target-run", ["A, target x/2          value 2.25   gradient of x 1.5",
                    "B, target detach(x/2)  value 2.25   gradient of x 3.0"]),
    ("step", ["subtract: -g  with g = 3", "x: 3, target: -3"]),
    ("which", ["moves along: 1.5", "held at 1.5: 3.0"]),
    ("update", ["2.850  2.708  1.796  0.386", "2.700  2.430  1.046  0.044", "2.700  2.460  1.661  1.500"]),
    ("lab-run", ["cut 1: x into n1 = x / 2                 gradient of x: 3.0",
                 "cut 2: x into n2 = x - n1, operand a     gradient of x: -1.5",
                 "cut 3: n1 into n2 = x - n1, operand b    gradient of x: 3.0",
                 "cut 4: n2 into n3 = square(n2)           gradient of x: none",
                 "[3.0, 3.15, 3.31, 3.47, 3.65, 3.83]"]),
    ("nograd", ["value 9.0   op None   tracked False", "not part of the graph"]),
    ("nograd-draw", ["gradient of x: 6.0"]),
    ("memory", ["more than 10 times as much: True"]),
    ("eval", ["training  on           12.0   True", "training  off          12.0   False",
              "eval      on            8.0   True", "eval      off           8.0   False"]),
    ("teacher-draw", ["0      -16   Var", "2      16    Var"]),
    ("fixed-draw", ["0      -16   Var", "detached: the gradient stops here"]),
    ("teacher-train", ["joint                 0.34       0.00     1.00     1.00",
                       "teacher cut           2.80       0.00     1.99     2.00",
                       "student cut           2.80       0.00     0.00     0.01"]),
    ("test", ["student cut, by mistake: ['t']"]),
    ("leak-run", ["cut [4]    s unchanged, p unchanged, q vanished", "cut [7]    s unchanged, p vanished, q vanished"]),
    ("rounds", ["candle   carried as it is: [3, 5, 7]", "candle   detached:         [3, 3, 3]",
                "pytorch  carried as it is: [3, 'error']", "pytorch  detached:         [3, 3, 3]"]),
    ("others-memory", ["target [0.8 1.6]   fixed [1. 2.]", "target [1. 2.]   weight [0.8 1.6]"]),
    ("others-burn", ["candle   detach(x) is still a Var: False", "burn     detach(x) is still a Var: True"]),
])
def test_the_stored_outputs_show_these_numbers(cell, expected):
    text = stored(NAME, cell)
    assert [part for part in expected if part not in text] == []
