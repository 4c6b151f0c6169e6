"""gradcheck finds every planted fault and says what it is, and calls no right gradient wrong."""

import math
import re
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from cases import CASES
from planted_faults import FAULTS, faulty

import autodiff as ad
from autodiff.checking import report as words
from autodiff.checking.study import Study

VERDICTS = {
    words.MATCH,
    words.WRONG_VALUE,
    words.WRONG_SHAPE,
    words.WRONG_DTYPE,
    words.DISCONNECTED,
    words.ZERO,
    words.NOT_MULTIPLIED,
    words.NOT_DETERMINISTIC,
    words.KINK,
    words.NOT_FINITE,
    words.UNSUITED,
    words.NOTHING,
}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def look(f, inputs, **options):
    return ad.gradcheck(f, inputs, raise_exception=False, **options)


# Faults


def test_there_are_enough_faults():
    assert len(FAULTS) >= 40 and len({f.name for f in FAULTS}) == len(FAULTS)
    assert sum(f.order == 2 for f in FAULTS) >= 5


@pytest.mark.parametrize("fault", FAULTS, ids=[f.name for f in FAULTS])
def test_fault_is_found_and_named(fault):
    report = fault.check()
    assert not report
    assert report.verdict == fault.verdict
    assert fault.hint in (report.hint or "")
    if fault.op:
        assert report.op.startswith(fault.op)


@pytest.mark.parametrize("fault", FAULTS, ids=[f.name for f in FAULTS])
def test_fault_is_found_whatever_the_seed(fault):
    if fault.verdict != words.NOT_DETERMINISTIC:
        assert {fault.check(rng=seed).verdict for seed in range(1, 4)} == {fault.verdict}


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.order == 2], ids=lambda f: f.name)
def test_second_order_faults_are_right_to_first_order(fault):
    assert ad.gradcheck(fault.f, fault.inputs)


@pytest.mark.parametrize(
    "fault",
    [f for f in FAULTS if f.verdict in (words.WRONG_VALUE, words.ZERO, words.DISCONNECTED)],
    ids=lambda f: f.name,
)
def test_fault_is_found_along_random_directions(fault):
    if "tie" not in fault.name and "cotangents with several" not in fault.name:
        assert not fault.check(fast_mode=True)


def test_every_verdict_occurs():
    seen = {fault.verdict for fault in FAULTS}
    seen |= {look(f, x).verdict for _, f, x, _ in RIGHT} | {look(opaque(lambda x: 1e20 + x), 1.0).verdict}
    assert seen == VERDICTS


# Right functions that naive checkers reject or misjudge


def opaque(f):
    """The same function, closed to complex numbers."""
    op = faulty(lambda x: f(x), lambda g, y, x: g, name="opaque")
    return lambda x: op(x)


rng = np.random.default_rng(3)
S = rng.normal(size=(4, 3))


def softmax(x):
    e = np.exp(x - np.max(x.data if isinstance(x, ad.Tensor) else x))
    return e / e.sum()


def seeded(x):
    return x * np.random.default_rng(7).normal(size=3)


seen = {}


def remembering(x):
    return seen.setdefault(x, x) * 2


def looks_at_its_own_gradient(x):
    y = (x**3).sum()
    return y.backward(wrt=[x], detach="none")[x] if x.is_variable else x * x * 3


RIGHT = [
    ("large magnitude", lambda x: x**2, np.array([1e9, -1e12, 3.0]), words.MATCH),
    ("large and small summed", lambda x: (x**2).sum(), np.array([1e9, 1e-9, 3.0]), words.MATCH),
    ("steep", lambda x: np.exp(x), np.array([200.0, -200.0]), words.MATCH),
    ("small input of 1/x", lambda x: 1 / x, np.array([1e-6, 1e6]), words.MATCH),
    ("log close to 0", np.log, np.array([1e-7, 1e-12]), words.MATCH),
    ("arcsin close to 1", np.arcsin, np.array([1 - 1e-9, -0.5]), words.MATCH),
    ("relu close to its kink", lambda x: ad.relu(x), np.array([1e-7, -1e-7, 1e-12, 2.0]), words.KINK),
    ("relu at its kink", lambda x: ad.relu(x), np.array([0.0, 2.0]), words.KINK),
    ("abs at 0", np.abs, np.array([0.0, -2.0]), words.KINK),
    ("a kink away from 0", lambda x: np.maximum(x - 1, 0), np.array([1 + 1e-7, 1 - 1e-7, 1.0]), words.KINK),
    ("a slight kink", lambda x: x + 1e-3 * np.abs(x), np.array([0.0, 1.0]), words.KINK),
    ("max at a tie", np.max, np.array([3.0, 1.0, 3.0, 3.0]), words.KINK),
    ("maximum at a tie", np.maximum, (np.array([1.0, 3.0]), np.array([0.0, 3.0])), words.KINK),
    ("sort at a tie", lambda x: np.sort(x)[::-1], np.array([3.0, 1.0, 1.0]), words.KINK),
    ("norm at 0", lambda x: np.sqrt((x * x).sum() + 1e-300), np.zeros(2), words.KINK),
    ("smooth, but almost a kink", lambda x: np.tanh(1e6 * x), np.array([1e-7, 0.0]), words.MATCH),
    ("cube of abs: smooth at 0", lambda x: np.abs(x) ** 3, np.array([0.0, 1.0]), words.MATCH),
    ("edge of the domain", lambda x: x**1.5, np.array([0.0, 1.0]), words.MATCH),
    ("a large constant", lambda x: 1e8 + np.sin(x), np.array([1.0, 2.0]), words.MATCH),
    ("a constant that drowns the slope", lambda x: 1e20 + np.sin(x), np.array([1.0, 2.0]), words.MATCH),
    ("softmax", softmax, np.array([0.1, 2.0, -1.0]), words.MATCH),
    ("x - mean(x)", lambda x: x - x.mean(), np.array([0.1, 2.0, -1.0]), words.MATCH),
    ("several outputs", lambda x: (x * 2, np.argmax(x), np.zeros(2), x.sum()), np.array([1.0, 2.0, 3.0]), words.MATCH),
    ("an output that is constant", lambda x: (np.zeros_like(x), 2 * x), np.array([1.0]), words.MATCH),
    ("a matrix", lambda x: np.tanh(x @ S), rng.normal(size=(2, 4)), words.MATCH),
    ("0-d", np.sin, np.array(0.5), words.MATCH),
    ("a number", np.sin, 0.5, words.MATCH),
    ("one input without entries", lambda x, y: x.sum() + y.sum(), (np.ones(3), np.zeros((0, 2))), words.MATCH),
    ("an integer input beside it", lambda x, mask: x * mask, (np.ones(3), np.array([1, 0, 1])), words.MATCH),
    ("a plain Tensor beside it", lambda x, k: x * k, (np.ones(2), ad.Tensor([1.0, 2.0])), words.MATCH),
    ("stride 0", lambda x: np.sum(x) ** 2, np.broadcast_to(np.array([1.0]), (2,)), words.MATCH),
    ("not contiguous", np.tanh, rng.normal(size=(4, 6))[::2, ::-3], words.MATCH),
    ("random, with a seed of its own", seeded, np.ones(3), words.MATCH),
    ("remembers its operands", remembering, np.ones(3), words.MATCH),
    ("a view of the input", lambda x: x.T, np.ones((2, 3)), words.MATCH),
    ("the input itself", lambda x: x, np.ones(2), words.MATCH),
    ("a gradient inside", looks_at_its_own_gradient, np.array([1.0, 2.0]), words.MATCH),
    ("floor beside something", lambda x: x + np.floor(x), np.array([0.5, 1.5]), words.MATCH),
    ("many entries", lambda x: np.sin(x).sum(), np.linspace(0, 1, 5000), words.MATCH),
    ("a wide output", lambda x: np.outer(x, np.arange(3000.0)), np.linspace(0, 1, 4), words.MATCH),
    ("longdouble", np.sin, np.array([0.5], np.longdouble), words.MATCH),
]


@pytest.mark.parametrize("f, inputs, verdict", [row[1:] for row in RIGHT], ids=[row[0] for row in RIGHT])
def test_right_function_passes(f, inputs, verdict):
    for seed in (0, 1):
        report = ad.gradcheck(f, inputs, rng=seed)
        assert report and report.verdict == verdict, report
        assert not report.wrong


# These have no second derivative at their point, or take too long.
FIRST_ORDER_ONLY = ("edge", "gradient inside", "1e20", "drowns", "cube", "wide", "softmax")
TWICE = [row for row in RIGHT if row[3] == words.MATCH and not any(name in row[0] for name in FIRST_ORDER_ONLY)]


@pytest.mark.parametrize("f, inputs", [row[1:3] for row in TWICE], ids=[row[0] for row in TWICE])
def test_right_function_passes_to_second_order(f, inputs):
    assert ad.gradgradcheck(f, inputs)


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_every_rule_passes(case):
    positions = [i for i, x in enumerate(case.operands) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]

    def f(*arrays):
        operands = list(case.operands)
        for i, x in zip(positions, arrays):
            operands[i] = x
        return case(*operands)

    inputs = tuple(case.operands[i] for i in positions)
    report = look(f, inputs)
    if report.verdict == words.NOTHING:
        assert "no entries" in report.headline or "slope is 0" in report.headline or "not change" in report.headline
    else:
        assert report, report


# What each verdict rests on


def test_a_kink_is_told_with_both_slopes_and_the_convention():
    report = ad.gradcheck(np.abs, np.array([0.0, 1.0]))
    (kink,) = report.kinks
    assert (kink.left, kink.right, kink.analytic, kink.near) == (pytest.approx(-1), pytest.approx(1), 0, False)
    assert "every value in [-1, 1] is valid; the gradient says 0, the middle" in " ".join(str(report).split())


def test_a_kink_within_one_step_is_told_as_near():
    report = ad.gradcheck(lambda x: np.maximum(x, 0), np.array([1e-7]))
    assert [kink.near for kink in report.kinks] == [True] and "within one step" in str(report)


def test_beside_a_kink_only_the_real_slope_is_right():
    half = faulty(lambda x: np.maximum(x, 0), lambda g, y, x: g * 0.5, name="half")
    assert look(lambda x: half(x), np.array([1e-7])).verdict == words.WRONG_VALUE
    assert look(lambda x: half(x), np.array([0.0])).verdict == words.KINK


def test_a_jump_has_no_slope():
    report = look(lambda x: x * np.floor(x), np.array([1.0, 2.5]))
    assert report.verdict == words.KINK and not report and "jumps by 1" in report.headline


def test_valid_choices_that_do_not_add_up_are_explained():
    relu = faulty(lambda x: np.maximum(x, 0), lambda g, y, x: g * (x > 0), name="relu")
    report = look(lambda x: relu(x) - relu(-x), np.array([0.0, 2.0]))
    assert report.verdict == words.KINK and not report and "relu stands at a kink" in report.hint


def test_a_slope_that_drowns_in_rounding_is_not_called_wrong():
    report = look(opaque(lambda x: 1e20 + x), 1.0)
    assert report.verdict == words.UNSUITED and not report.wrong and "rounding" in report.hint
    assert ad.gradcheck(lambda x: 1e20 + np.sin(x), 1.0).notes[0].endswith("which subtracts nothing")


def test_a_step_that_does_not_suit_is_replaced_and_reported():
    report = ad.gradcheck(lambda x: x**2, 1e9, eps=1e-8)
    assert report.verdict == words.MATCH and "the step 1e-08 does not suit it" in report.notes[0]


def test_precise_enough_to_see_small_faults():
    for slope, right in ((1000.5, 1000.0), (0.0, 5e-6), (1 + 2e-5, 1.0)):
        op = faulty(lambda x: right * x, lambda g, y, x: g * slope, name="scaled")  # noqa: B023
        report = look(lambda x: op(x), np.array([0.3, 2.0]))  # noqa: B023
        assert not report and report.worst.numeric == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize(
    "f, exact, x",
    [
        (np.tanh, mpmath.tanh, 0.3),
        (np.exp, mpmath.exp, 5.0),
        (np.sin, mpmath.sin, 1e4),
        (np.log, mpmath.log, 1e-9),
        (lambda x: x**3, lambda x: x**3, 1e6),
        (np.arctan, mpmath.atan, -40.0),
        (np.sqrt, mpmath.sqrt, 1e-8),
    ],
)
def test_the_numeric_slope_is_as_good_as_it_says(f, exact, x):
    wrong = faulty(lambda x: f(x), lambda g, y, x: g * 0 + 123.0, name="wrong")
    worst = look(lambda x: wrong(x), x).worst
    slope = float(mpmath.diff(exact, mpmath.mpf(x)))
    assert abs(worst.numeric - slope) <= worst.uncertainty
    assert worst.uncertainty < 1e-4 * abs(slope)


def test_steps_taylor_and_complex_step_agree_on_a_wrong_gradient():
    report = look(lambda x: np.exp(x) + 0.5 * (x.data if isinstance(x, ad.Tensor) else x), np.array([0.3]))
    assert report.taylor == pytest.approx(1, abs=0.1) and report.complex_step == pytest.approx(math.exp(0.3) + 0.5)
    gaps = [gap for h, _, gap in report.steps if 1e-8 < h < 1e-3]
    assert gaps == pytest.approx([0.5] * len(gaps), abs=1e-3) and "a plateau" in str(report)


def test_a_study_finds_the_slope_between_curvature_and_rounding():
    h = 6e-6 * 10.0 ** np.arange(4, -7, -1)
    above, below = np.exp(1 + h)[:, None], np.exp(1 - h)[:, None]
    found = Study(6e-6, h, h, above, below, np.array([math.e])).judge(0, math.e, 1e-7, 1e-5, math.e)
    assert abs(found.numeric - math.e) <= found.error < 1e-8


# Detached, captured, shared


def stopped(x):
    return (x - (x / 2).detach()) ** 2


def test_a_cut_is_explained_and_held_when_asked():
    report = look(stopped, 3.0)
    assert (
        report.verdict == words.DISCONNECTED
        and report.worst.analytic == 3
        and report.worst.numeric == pytest.approx(1.5)
    )
    assert "hold_detached=True" in report.hint and len(report.detached) == 1
    held = ad.gradcheck(stopped, 3.0, hold_detached=True)
    assert held.worst.numeric == pytest.approx(3)
    assert ad.gradgradcheck(stopped, 3.0, hold_detached=True)


def test_a_gradient_without_its_cotangent_is_seen_to_second_order():
    op = faulty(np.exp, lambda g, y, x: y)
    assert ad.gradgradcheck(lambda x: op(x), np.ones(2), raise_exception=False).verdict == words.NOT_MULTIPLIED


def test_holding_does_not_hide_a_fault():
    op = faulty(np.sin, lambda g, y, x: -g * np.cos(x))
    report = look(lambda x: op(x) * np.exp(x).detach(), np.array([0.3, 0.4]), hold_detached=True)
    assert report.verdict == words.WRONG_VALUE and report.op.startswith("faulty_sin")
    assert look(lambda x: op(x) * np.exp(x).detach(), np.array([0.3, 0.4])).verdict == words.WRONG_VALUE


def test_a_captured_var_is_named():
    scale = ad.Var(2.0, name="scale")
    report = ad.gradcheck(lambda x: x * scale, np.ones(2))
    assert report.captured == ["'scale'"] and "not checked" in str(report)


def test_shared_memory_is_found_and_does_not_matter():
    a = np.ones(4)
    assert "entries of x share memory" in str(ad.gradcheck(lambda x: x.sum() ** 2, np.broadcast_to(a[:1], (3,))))
    assert "share memory" in str(ad.gradcheck(lambda x, y: (x * y).sum(), (a[:3], a[1:])))
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(5.0), 3)
    assert "entries of x share memory" in str(ad.gradcheck(lambda x: (x**2).sum(), windows))


def test_inputs_come_back_bit_for_bit():
    x = np.array([-0.0, 1e-310, 0.1, 3.0])
    before, var = x.tobytes(), ad.Var(x)
    ad.gradcheck(lambda x: np.sin(x), x)
    look(lambda x: np.sin(x) + x.data, var)
    assert x.tobytes() == before and var.data.tobytes() == before
    x = np.ones(3)

    def writes(t):
        x[0] += 1
        return t * 2

    assert "writes to the arrays" in look(writes, x).headline


def test_what_is_random_is_printed_and_repeatable():
    f = lambda x: np.exp(x) * x.mean()
    assert str(look(f, S, rng=5)) == str(look(f, S, rng=5)) and "seed: 5" in str(look(f, S, rng=5))
    assert ad.gradcheck(f, S, rng=np.random.default_rng(1))
    assert "directions of 12 of x" in str(ad.gradcheck(f, S, fast_mode=True))


# Arguments and errors


def test_float32_is_refused_with_the_reason_and_checked_on_request():
    x = np.array([0.5, -1.0], np.float32)
    with pytest.raises(ValueError, match="float32.*allow_float32=True"):
        ad.gradcheck(np.tanh, x)
    assert ad.gradcheck(np.tanh, x, allow_float32=True) and ad.gradgradcheck(np.tanh, x, allow_float32=True)
    assert ad.gradcheck(lambda x: np.tanh(x.astype(np.float32)), x, allow_float32=True)
    op = faulty(np.tanh, lambda g, y, x: g * (1 - y * y) * np.float32(1.001))
    assert look(lambda x: op(x), x, allow_float32=True).verdict == words.WRONG_VALUE


def test_a_failure_raises_with_its_report():
    op = faulty(np.sin, lambda g, y, x: -g * np.cos(x))
    with pytest.raises(AssertionError, match="wrong value") as caught:
        ad.gradcheck(lambda theta: op(theta), 0.5)
    assert isinstance(caught.value, ad.GradcheckError)
    report = caught.value.report
    assert (report.worst.input, report.worst.output, report.worst.index) == ("theta", "output", ())
    assert report.worst.absolute == pytest.approx(2 * math.cos(0.5)) and report.worst.relative == pytest.approx(2)
    with pytest.raises(ad.GradcheckError, match="nothing was checked"):
        ad.gradcheck(lambda x: ad.Tensor(1.0), 0.5)


def test_inputs_are_called_by_their_names():
    theta = ad.Var([1.0, 2.0], name="theta")
    assert "2 of theta, 2 of w" in str(ad.gradcheck(lambda x, w: x * w, (theta, np.ones(2))))


def test_a_plain_tensor_is_not_checked_and_the_advice_is_to_pass_a_var():
    report = ad.gradcheck(lambda x: x * x, ad.Tensor([1.0, 2.0]), raise_exception=False)
    assert report.verdict == words.NOTHING
    assert "pass an array or a Var" in str(report) and "3.0 for 3" not in str(report)
    assert "3.0 for 3" in str(ad.gradcheck(lambda x: x * x, 3, raise_exception=False))


def test_a_value_that_left_the_graph_is_the_cause_named_and_not_the_factor_it_leaves():
    for f in (lambda x: (x * x * x.data).sum(), lambda x: x * float(x.data[0])):
        report = ad.gradcheck(f, np.array([1.0, 2.0]), raise_exception=False)
        assert report.op is None and report.hint.startswith("every rule agrees on its own inputs")


def test_a_right_factorisation_is_not_blamed_for_the_op_after_it():
    x = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, 0.4], [0.5, -0.3, 1.0]])
    wrong = faulty(np.sin, lambda g, y, x: -g * np.cos(x))
    upper = lambda a: np.linalg.eigh(a, "U")[1]
    for f in (np.linalg.cholesky, np.linalg.eigvalsh, lambda a: np.linalg.eigh(a)[1], upper):
        assert ad.gradcheck(lambda x: f(x @ x.T), x)
        report = ad.gradcheck(lambda x: wrong(f(x @ x.T)), x, raise_exception=False)
        assert report.op.startswith("faulty_sin")


def test_what_can_not_be_checked_is_an_error():
    with pytest.raises(TypeError, match="complex"):
        ad.gradcheck(np.sin, np.array([1j]))
    with pytest.raises(TypeError, match="computed from other tensors"):
        ad.gradcheck(np.sin, ad.Var(1.0) * 2)
    with pytest.raises(TypeError, match="must return a Tensor"):
        ad.gradcheck(lambda x: {"y": x}, 1.0)
    with pytest.raises(ZeroDivisionError):
        ad.gradcheck(lambda x: x * (1 / 0), 1.0)

    def broken(g, y, x):
        raise KeyError("a bug in the rule")

    with pytest.raises(KeyError, match="a bug in the rule"):
        ad.gradcheck(faulty(np.sin, broken), 1.0)


def test_a_shape_that_depends_on_the_value_is_an_error():
    with pytest.raises(ValueError, match="returned shape"):
        ad.gradcheck(lambda x: x[x.data > 0], np.array([1e-7, 1.0]))


def test_thresholds_are_the_users():
    op = faulty(np.sin, lambda g, y, x: g * np.cos(x) * 1.01)
    assert ad.gradcheck(lambda x: op(x), 0.5, rtol=0.1)
    assert not look(lambda x: op(x), 0.5, rtol=1e-3)


# How it reads


def test_a_pass_takes_three_lines():
    text = str(ad.gradcheck(lambda x, w: np.tanh(x @ w), (S, S.T)))
    assert len(text.splitlines()) <= 4
    assert re.match(r"gradcheck: match\. All 384 slopes agree: 16 output entries by 12 of x, 12 of w\.\n", text)


def test_lines_stay_short_and_speak_of_what_is_needed():
    for fault in FAULTS:
        report = fault.check()
        text = str(report)
        assert all(len(line) <= 170 for line in text.splitlines()) and report.verdict in text.splitlines()[0]
        assert (
            "\u007b" not in text and not re.search(r"\bid \d", text) and " at 0x" not in text and "array(" not in text
        )
        assert len(text.splitlines()) <= 22


def test_the_text_is_the_same_in_every_process():
    code = (
        "import sys; sys.path.insert(0, 'tests')\nfrom planted_faults import FAULTS\n"
        "print(*[f.check() for f in FAULTS[:12]], sep='\\n')"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] and "wrong value" in runs[0]


def test_html_is_a_table_with_everything_escaped():
    x = ad.Var([0.5], name="<b>&x")
    op = faulty(np.sin, lambda g, y, x: -g * np.cos(x), name="<script>")
    html = look(lambda x: op(x), x)._repr_html_()
    assert "&lt;b&gt;&amp;x[0]" in html and "&lt;script&gt;" in html and "<script>" not in html and "<b>&" not in html
    assert html.count("<table>") == html.count("</table>") == 2 and "<th" in html
    assert not re.search(r"(?<!border-left:4px solid )\b(color|background)", html)


def test_no_toll_on_import():
    code = "import sys, numpy; before = set(sys.modules); import autodiff; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "html" not in run.stdout.split()


# How much work it is


def test_two_evaluations_for_each_input_entry():
    report = ad.gradcheck(lambda x, w: np.tanh(x @ w).sum(), (S, S.T))
    assert report.evaluations == 2 * 24 + 2


@pytest.mark.torch
def test_pytorch_agrees_on_what_passes():
    import torch

    x = rng.normal(size=(3, 4))
    for name in ("tanh", "exp", "sin", "atan"):
        function = {"atan": np.arctan}.get(name) or getattr(np, name)
        assert ad.gradcheck(function, x)
        assert torch.autograd.gradcheck(getattr(torch, name), torch.tensor(x, requires_grad=True))
