"""Labs on what people type: every verdict comes from numbers that the function made, and bad input is a sentence."""

import ast
import json
import math
import re

import nbformat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_lessons import ROOT

import autodiff as ad
from autodiff import labs
from autodiff.drawing.text import number

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def shown(lab):
    """All that a lab shows, on one line; it must be drawable, and have a place for all that it draws."""
    pictures = [lab.svg(), *(b["svg"] for b in lab._view()["blocks"] if b["kind"] == "picture")]
    assert not [p for p in pictures if re.search(r' (?:x|y|cx|cy|d|width|height)="[^"]*(?:nan|inf)', p)]
    json.dumps(lab._view(), allow_nan=False)
    return " ".join(lab.text.split())


def xlogx(x):
    return np.where(x > 0, -x * np.log(np.where(x > 0, x, 1)), 0)


# Ties

WITHOUT = {  # a function, a start, and what keeps a slope from being one there
    "floor": (lambda x: np.floor(x).sum(), [0.5, 1.0], "jump"),
    "floor of ties": (lambda x: np.floor(x.max()), [1.0, 1.0], "jump"),
    "round": (np.round, 0.5, "jump"),
    "sign": (np.sign, 0.0, "jump"),
    "modulo": (lambda x: x % 1, 1.0, "jump"),
    "steep and a jump": (lambda x: 1e6 * x + np.floor(x), 1.0, "jump"),
    "argmax": (lambda x: x.argmax(), [2.0, 2.0], "jump"),
    "integers": (lambda x: np.floor(x).astype(int), 1.0, "jump"),
    "log": (np.log, 0.0, "value"),
    "log below 0": (np.log, -1.0, "value"),
    "1 / x": (lambda x: 1 / x, 0.0, "value"),
    "sqrt": (np.sqrt, 0.0, "bound"),
    "sqrt of one of two": (lambda x: np.sqrt(x).sum(), [1.0, 0.0], "bound"),
    "sqrt of abs": (lambda x: np.sqrt(abs(x)), 0.0, "bound"),
    "sqrt of a tie": (lambda x: np.sqrt(x.max() - x.min()), [2.0, 2.0], "bound"),
    "cbrt": (np.cbrt, 0.0, "bound"),
    "arccos": (np.arccos, 1.0, "bound"),
    "x log x": (xlogx, 0.0, "bound"),
    "almost straight": (lambda x: abs(x) ** 0.9, 0.0, "bound"),
    "ever faster": (lambda x: np.where(x == 0, 0, x**2 * np.sin(1 / np.where(x == 0, 1, x))), 0.0, "limit"),
    "masked": (lambda x: np.where(x > 0, np.sqrt(x), x), -1.0, "slope"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_21_where_there_is_no_set_of_valid_slopes_the_lab_says_why(name):
    f, at, without = WITHOUT[name]
    lab = labs.ties(f, at)
    assert lab.result.without == without and "kink" not in lab.text.splitlines()[1]
    assert {a.valid for a in lab.result.answers} == {None if without == "limit" else False}
    assert "[-" not in (said := shown(lab)) and "every slope" not in said
    titles = [b["label"] for b in lab._view()["blocks"] if b["kind"] == "picture"]
    assert "none" in titles[1] or without == "limit" and "not known" in titles[1]


SMOOTH = {  # a function, a start, and its only slope
    "a step, between two jumps": (lambda x: np.floor(x).sum(), [0.5, 1.5], [0, 0]),
    "constant": (lambda x: 0 * x + 3, 1.0, [0]),
    "integers": (lambda x: np.floor(x).astype(int), 1.5, [0]),
    "argmax": (lambda x: x.argmax(), [1.0, 2.0], [0, 0]),
    "plateau": (ad.relu, -1.0, [0]),
    "no result": (lambda x: x[:0], [1.0, 2.0], [0, 0]),
    "no entries beside one": (lambda x, y: (x * y).sum() + 2 * y, [[], 1.0], [2]),
    "1.5th power": (lambda x: abs(x) ** 1.5, 0.0, [0]),
    "sqrt away from 0": (np.sqrt, 4.0, [0.25]),
    "far away": (np.abs, 1e200, [1]),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_21_one_slope_is_one_point(name):
    f, at, slope = SMOOTH[name]
    lab = labs.ties(f, *(at if isinstance(at, list) and [] in at else [at]))
    assert not lab.result.without and not lab.result.tied and {a.valid for a in lab.result.answers} == {True}
    np.testing.assert_allclose(lab.result.nearby, [slope], atol=1e-9)
    picture = lab._view()["blocks"][2]["svg"]
    assert picture.count('class="ad-shade"') == 1 and "<circle" in picture and "ad-strong" not in picture
    shown(lab)


def test_21_the_line_of_two_tied_entries_shrinks_to_a_point_beside_the_tie():
    lab = labs.ties(lambda x: x.max(), [1.0, 3.0, 3.0])
    drawing = lambda: lab._view()["blocks"][2]
    assert drawing()["svg"].count("ad-strong") == 1 and "<circle class=\"ad-shade\"" not in drawing()["svg"]
    for at, point in ((2.9, "(0, 1)"), (3.1, "(1, 0)")):
        lab._answer({"count": 1, "values": {"value": lab._controls()[1]["texts"].index(str(at))}})
        assert lab.values["value"] == at and lab.result.nearby.shape == (1, 3)
        assert drawing()["label"] == f"The valid gradients of x[1] and x[2] are one point, {point}"
        assert drawing()["svg"].count("ad-strong") == 0 and drawing()["svg"].count('class="ad-shade"') == 1


@given(*[st.floats(-50, 50).map(lambda x: round(x, 2))] * 2)
@settings(max_examples=20, deadline=None)
def test_21_the_slider_stops_at_round_numbers_and_at_every_tie(a, b):
    lab = labs.ties(lambda x: x.max(), [a, b])
    stops = lab._stops(lab.values)
    assert a in stops and b in stops and stops == sorted(set(stops)) and 20 <= len(stops) <= 120
    steps = np.diff([s for s in stops if s not in (a, b, 0.0, 1.0, -1.0)])
    assert np.allclose(steps / steps.min(), np.round(steps / steps.min()))


@pytest.mark.parametrize("bad", [math.nan, math.inf, [1.0, math.nan], [-math.inf, 2.0]])
def test_21_a_start_that_is_not_finite_is_refused_in_a_sentence(bad):
    for lab in (labs.ties, labs.differences):
        with pytest.raises(ValueError, match="^x must be finite, got .*: there is no slope at such a point$"):
            lab(lambda x: (x * x).sum(), bad)
    lab = labs.ties(lambda x: x.max(), [1.0, 3.0])
    with pytest.raises(ValueError, match="must be finite"):
        lab.set(value=math.nan)


@given(st.sampled_from([1e-3, 1.0, 1e3, 1e9]), st.floats(-1, 1))
@settings(max_examples=20, deadline=None)
def test_21_the_scale_of_a_slope_does_not_decide_what_is_valid(scale, share):
    kink = ad.custom_op(vjps=[lambda g, y, x: g * np.where(x == 0, share * scale, np.sign(x) * scale)])(
        lambda x: scale * abs(x))
    lab = labs.ties(lambda x: kink(x), 0.0)
    assert lab.result["engine"].valid
    np.testing.assert_allclose(lab.result.nearby.ravel(), [-scale, scale])


@given(st.floats(0.05, 0.95), st.floats(0.01, 100), st.floats(-5, 5), st.sampled_from([-1, 1]))
@settings(max_examples=20, deadline=None)
def test_21_no_power_below_1_has_a_subgradient(power, scale, at, side):
    lab = labs.ties(lambda x: scale * np.maximum(side * (x - at), 0) ** power, at)
    assert lab.result.without == "bound" and "every slope" not in shown(lab)


@pytest.mark.parametrize("kink, slope", [(1e-5, 1e-5), (1e-3, 10.0), (1.0, 1e5), (1.0, 8e7), (1e5, 1.0)])
def test_21_no_slope_hides_the_kink_of_another_entry(kink, slope):
    lab = labs.ties(lambda x: kink * abs(x[0]) + slope * x[1], [0.0, 1.0])
    assert lab.result.open == [0] and {a.valid for a in lab.result.answers} == {True}
    np.testing.assert_allclose(lab.result.nearby, [[-kink, slope], [kink, slope]])
    assert f"x[0]: 0 is in [{number(-kink)}, {number(kink)}]" in shown(lab)
    tied = labs.ties(lambda x: kink * x.max(), [1.0, 1.0])
    assert tied.result.tied and [a.valid for a in tied.result.answers] == [True, False, True, True]


def test_21_answers_that_are_wrong_without_a_kink_are_named():
    lab = labs.ties(lambda x: ad.relu(x) - ad.relu(-x), 0.0)  # this is x: its slope is 1, where relu'(0) = 0 says 0
    assert [a.valid for a in lab.result.answers] == [True, False, False, False]
    assert "there is no kink: all slopes nearby are the same. No subgradient: each, first, autodiff." in shown(lab)


# Finite differences

EXACT = {
    "abs": (np.abs, 0.0),
    "constant": (lambda x: 0 * x + 3, 1.0),
    "a line through 0": (lambda x: 2 * x, 0.0),
    "square at 0": (lambda x: x * x, 0.0),
    "pairs": (lambda x: np.abs(x).sum(), [0.0, 0.0]),
}


@pytest.mark.parametrize("name", EXACT)
def test_22_no_error_at_any_step_has_a_sentence_and_a_picture_of_its_own(name):
    lab = labs.differences(*EXACT[name])
    said = shown(lab)
    assert "the error is 0 at every step, so no step is better than another" in said
    assert not any(word in said for word in ("truncation", "rounding", "best step"))
    assert ("a kink cancel" in said) == (name in ("abs", "pairs"))
    (picture,) = [b for b in lab._view()["blocks"] if b["kind"] == "picture"]
    assert all("0 at every step" in picture[k] and "best" not in picture[k] for k in ("svg", "label"))
    assert picture["svg"].count('r="3"') > 30  # the points of the curve are drawn


OTHERWISE = {  # neither h or h², nor 1/h as rounding: a kink, a jump, a wrong rule
    "abs": (np.abs, 0.0, "one-sided"),
    "relu": (ad.relu, 0.0, "central"),
    "abs on a parabola": (lambda x: abs(x) + x * x, 0.0, "one-sided"),
    "tie": (lambda x: x.max(), [3.0, 3.0], "one-sided"),
    "jump": (np.floor, 1.0, "central"),
    "x log x": (xlogx, 0.0, "one-sided"),
    "wrong rule": (ad.custom_op(vjps=[lambda g, y, x: 3 * g * x])(lambda x: x * x), 1.0, "central"),
    "forgotten gradient": (lambda x: np.sin(x) + x.detach(), 1.0, "central"),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_22_an_error_that_neither_truncation_nor_rounding_makes_is_not_put_down_to_them(name):
    f, at, scheme = OTHERWISE[name]
    lab = labs.differences(f, at)
    for step in (1e-2, 1e-4, 1e-6, 1e-8):
        lab.set(scheme=scheme, step=step)
        assert lab.curve.branch(lab.index) == "neither"
        assert "is there a kink, a jump, or a wrong gradient?" in shown(lab)
    assert not lab.curve.truncation.any()
    assert ("It is the same at every step." in shown(lab)) == lab.curve.level == (name in ("abs", "relu"))
    assert ("best step" in lab.svg()) != lab.curve.level


@given(st.floats(0.3, 3), st.floats(-2, 2), st.sampled_from(["central", "one-sided"]))
@settings(max_examples=25, deadline=None)
def test_22_smooth_functions_have_truncation_above_and_rounding_below_the_best_step(k, at, scheme):
    curve = labs.differences(lambda x: np.exp(k * x) + 1, at).result.curves["float64", scheme]
    branches = [curve.branch(i) for i in range(len(curve.steps))]
    assert branches[4] == "truncation" and set(branches[-8:]) <= {"rounding", "nothing"} and "neither" not in branches
    assert curve.power == (2 if scheme == "central" else 1)


def branches(f, at):
    curves = labs.differences(f, at).result.curves
    return {key: {c.branch(i) for i in np.flatnonzero(np.isfinite(c.errors))} for key, c in curves.items()}


@given(st.floats(-3, 1.5), st.floats(0.01, 1), st.sampled_from([np.exp, np.log, np.sqrt, lambda t: 1 / t]))
@settings(max_examples=25, deadline=None)
def test_22_no_smooth_function_is_suspected_whatever_its_scale_is(decades, at, f):
    for key, found in branches(lambda x: f(10**decades * x + 1), at).items():
        assert "neither" not in found, key


@pytest.mark.parametrize("f, at", [(np.sin, 0.0), (lambda x: 3 * x, 0.0), (lambda x: 1 / x, 1e-3), (np.log, 1e-6),
                                   (np.sqrt, 1e-8), (lambda x: np.exp(x).sum(), [0.0, 5.0]),
                                   (lambda x: np.sin(x.astype(np.float32)), 1.0)])  # fmt: skip
def test_22_no_rounding_is_taken_for_a_kink(f, at):
    assert all("neither" not in found for found in branches(f, at).values())


def test_22_no_step_is_too_small_where_a_larger_one_rounds_as_much():
    lab = labs.differences(np.sin, 0.0)  # its value is 0, so all that is rounded is the step
    lab.set(dtype="float32", step=1e-8)
    assert "most of it rounding. " in shown(lab) and "rounding: ~ 1/h" not in lab.svg()


@pytest.mark.parametrize("power", [1.05, 1.1, 1.5, 1.9, 2.5, 4.0])
def test_22_the_error_of_a_power_has_its_own_law(power):
    lab = labs.differences(lambda x: abs(x) ** power, 0.0)
    for dtype in ("float64", "float32"):
        lab.set(dtype=dtype, scheme="one-sided", step=1e-3)
        assert lab.curve.power == pytest.approx(power - 1, abs=1e-3) and lab.curve.branch(lab.index) == "truncation"
        lab.set(scheme="central")
        assert lab.curve.exact and "a kink cancel" not in shown(lab)


@pytest.mark.parametrize("f, at", [(ad.relu, -1e-5), (lambda x: x % 1, 0.99), (np.abs, 1e-3)])
def test_22_a_kink_or_a_jump_within_the_step_is_asked_for(f, at):
    for key in (("float64", "central"), ("float32", "central")):
        assert "neither" in branches(f, at)[key]


@pytest.mark.parametrize("f, at, what", [(np.sqrt, 0.0, "gradient"), (np.log, 0.0, "value"), (np.log, -1.0, "value")])
def test_22_there_is_nothing_to_compare_with_a_gradient_that_is_not_finite(f, at, what):
    with pytest.raises(ValueError, match=f"^the {what} is not finite there"):
        labs.differences(f, at)


# Training

ROWS = np.linspace(-1, 1, 20)
IDLE = {  # a loss of (w, rows), a start, a rate, the loss it keeps, and why
    "detached": (lambda w, x: ((w.detach() - x - 1) ** 2).mean(), 0.0, 0.1, "the gradient of w is missing"),
    "no Var at all": (lambda w, x: (ad.Tensor(x) ** 2).mean(), 0.0, 0.1, "the gradient of w is missing"),
    "times 0": (lambda w, x: (0 * w + x).mean() + 2, 0.0, 0.1, "the gradient of w is missing"),
    "a dead relu": (lambda w, x: (ad.relu(w + x) - 1).mean() ** 2, -5.0, 0.1, "the gradient of w is 0 at every step"),
    "a plateau": (lambda w, x: np.clip(w + 0 * x, 0, 1).mean() + 1, 3.0, 0.1, "the gradient of w is 0 at every step"),
    "rate 0": (lambda w, x: ((w - x - 1) ** 2).mean(), 0.0, 0.0, "the learning rate is 0"),
    "a rate near 0": (lambda w, x: ((w - x - 1) ** 2).mean(), 0.0, 1e-30, "no step was large enough to show"),
}


@pytest.mark.parametrize("optimiser", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", IDLE)
def test_23_a_run_that_trains_nothing_says_so_and_why(name, optimiser):
    loss, at, lr, why = IDLE[name]
    w = ad.Var(at, name="w")
    lab = labs.training(lambda x: loss(w, x), w, ROWS, lr=lr, epochs=3, optimiser=optimiser)
    assert lab.result.flat and f"Nothing was trained, the loss did not change: {why}" in shown(lab)
    assert why in lab._says() and why in json.dumps(lab._view()["blocks"])


def test_23_a_loss_that_comes_to_use_other_vars_is_found_out_at_start():
    box = [ad.Var(2.0, name="w")]
    lab = labs.training(lambda x: ((box[0] - x) ** 2).mean(), box[0], ROWS, epochs=3)
    assert "trained" not in shown(lab)
    box[0] = ad.Var(1.0)
    lab._act({"start": True})
    lab.wait()
    assert "Nothing was trained" in (said := shown(lab)) and "its function may use other Vars by now" in said


def test_23_part_of_the_parameters_left_out_is_said_and_all_of_them_in_is_not():
    w, b, c = ad.Var(0.0, name="w"), ad.Var(1.0, name="b"), ad.Var(2.0)
    lab = labs.training(lambda x: ((w * x + ad.relu(b - 9) - x) ** 2).mean(), [w, b, c], ROWS, epochs=3)
    said = shown(lab)
    assert "Not all was trained: the gradient of parameter 3 is missing" in said
    assert "the gradient of b is 0 at every step" in said and lab.result.gradients[1:] == (0, None)
    for whole in ("regression", "classifier"):
        assert "trained" not in shown(labs.training(whole, epochs=2))


@pytest.mark.parametrize(
    "loss, at, lr, said",
    [
        (lambda w, x: (np.log(w) + x).mean(), -1.0, 0.1, "no step was made, as the loss is not finite"),
        (lambda w, x: (np.sqrt(w * w) + x * x).mean(), 0.0, 0.1, "at step 1 the gradient of w was not finite"),
        (lambda w, x: -1e10 * w + 0 * x.mean(), 0.0, 10.0, "it has no lowest value"),
        (lambda w, x: (w - x.mean() - 1) ** 2, 0.0, 1e3, "the learning rate is too large"),
    ],
)
def test_23_not_every_run_that_ends_early_had_too_large_a_rate(loss, at, lr, said):
    w = ad.Var(at, name="w")
    lab = labs.training(lambda x: loss(w, x), w, ROWS, lr=lr, epochs=30)
    text = shown(lab)
    assert lab.result.ended == "diverged" and said in text
    assert ("learning rate is too large" in text) == ("too large" in said)


@pytest.mark.parametrize("rates", [(0.1, 3.0), (3.0, 0.1), (50.0,), (0.1, 50.0), (50.0, 0.1)])
def test_23_no_curve_is_cut(rates):
    lab = labs.training("classifier", lr=rates[0], epochs=5)
    for lr in rates[1:]:
        lab.run(lr=lr)
    plot = lab._picture()
    for run in filter(None, (lab.result, lab.previous)):
        heights = [plot.at(0, loss)[1] for loss in run.losses if math.isfinite(loss)]
        order = np.argsort(np.argsort(run.losses[: len(heights)]))
        assert (np.argsort(np.argsort(-np.array(heights))) == order).all()  # higher losses are drawn higher
        assert min(heights) >= 33 and max(heights) <= plot.height - 45
    shown(lab)
    assert ("logarithmic" in lab.svg()) == plot._y.log


def test_23_nothing_that_the_lab_of_the_lesson_uses_is_bound_again():
    cells = [ast.parse(c.source) for c in nbformat.read(ROOT / "notebooks/14_training.ipynb", 4).cells
             if c.cell_type == "code"]
    (at,) = [i for i, cell in enumerate(cells) if "labs.training(" in ast.unparse(cell)]
    lambdas = [f for f in ast.walk(cells[at]) if isinstance(f, ast.Lambda)]
    used = {n.id for f in lambdas for n in ast.walk(f) if isinstance(n, ast.Name)} | {"scores_of"}
    bound = {n.id for cell in cells[at + 1 :] for n in ast.walk(cell)
             if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {f.name for cell in cells[at + 1 :] for f in ast.walk(cell) if isinstance(f, ast.FunctionDef)}
    assert "trained" in used and "params" in bound and not (used - {"x", "y"}) & bound


# Bad input, in a cell and beside the controls

SHAPES = [("4,3", "4"), ("4,x", "3"), ("4,3", "-1"), ((2.0,), "3"), (None, "3"), ("2,3", "4,3", "3"), ("9" * 12, "1")]


@pytest.mark.parametrize("shapes", SHAPES)
def test_24_shapes_that_do_not_fit_are_a_sentence_in_a_cell_as_in_the_box(shapes):
    lab, good = labs.broadcasting(*shapes), labs.broadcasting(*["1"] * len(shapes))
    good._answer({"count": 1, "values": dict(zip("abc", shapes))})
    assert lab.result is None and good.result is not None
    assert lab._view()["trouble"] == good._view()["trouble"] != ""
    assert " ".join(lab._trouble.split()) in shown(lab) and lab._view()["blocks"] == []
    boxes = {c["name"]: c["value"] for c in lab._controls()}
    assert [boxes[n] == s for n, s in zip("abc", shapes) if isinstance(s, str)]
    for name in boxes:  # each is put right in its box, one after the other
        lab._answer({"count": 2, "values": {name: "5,2"}})
    assert lab._trouble == "" and lab.result.shape == (5, 2) and "(5, 2)" in shown(lab)


def test_24_what_stands_in_a_box_counts_when_the_other_is_changed():
    lab = labs.broadcasting("4,3", "3")
    for name, text, fits in (("a", "5,2", False), ("b", "5,2", True), ("b", "x", False), ("b", "2", True)):
        lab._answer({"count": 1, "values": {name: text}})
        assert (lab._trouble == "") == fits
    assert lab.values == {"a": (5, 2), "b": (2,)}
    lab._answer({"count": 1, "values": {"b": "7"}})
    lab.set(a="7,2")  # from Python all is said at once: what was left in a box is forgotten
    lab._answer({"count": 1, "values": {"a": "4,2"}})
    assert lab.values == {"a": (4, 2), "b": (2,)}


w = ad.Var(0.0, name="w")
squares = lambda x: ((w - x) ** 2).mean()
BAD = {  # how it is made or moved, and the name that the sentence starts with
    "no function": (lambda: labs.ties(None, 1.0), "a lab takes a function first"),
    "swapped": (lambda: labs.ties([1.0, 2.0], np.max), "a lab takes a function first"),
    "a word": (lambda: labs.ties(np.abs, "two"), "x must be"),
    "complex": (lambda: labs.differences(np.abs, 1j), "x must be"),
    "ragged": (lambda: labs.ties(np.max, [[1, 2], [3]]), "x must be"),
    "value": (lambda: labs.ties(np.abs, 0.0).set(value="two"), "value must be a number, got 'two'"),
    "step": (lambda: labs.differences(np.exp, 1.0, step=None), "step must be a number, got None"),
    "step by set": (lambda: labs.differences(np.exp, 1.0).set(step="x"), "step must be a number"),
    "numbers for a function": (lambda: labs.differences(1.0, 2.0), "a lab takes a function first"),
    "cut": (lambda: labs.detach(np.exp, 1.0).set(cut=1), "cut must be a list of edge numbers"),
    "cut of words": (lambda: labs.detach(np.exp, 1.0).set(cut=[1, "a"]), "there is no edge a"),
    "cut of truth": (lambda: labs.detach(np.exp, 1.0).set(cut=[True]), "there is no edge True"),
    "rate": (lambda: labs.training("regression", epochs=1).run(lr="fast"), "lr must be a number"),
    "epochs": (lambda: labs.training(epochs=True), "epochs must be a whole number"),
    "seed": (lambda: labs.training(seed=-1), "seed must be a whole number"),
    "arrays for Vars": (lambda: labs.training(squares, np.ones(2), np.ones(3)), "params must be the Vars"),
    "no Vars": (lambda: labs.training(squares, [], np.ones(3)), "params must be the Vars"),
    "score": (lambda: labs.training(squares, w, np.ones(3), score=lambda x: None), "score"),
    "recurrence": (lambda: labs.checkpointing(3.0), "a lab takes a function first"),
    "start": (lambda: labs.checkpointing(lambda h: h * 2, "x"), "start must be"),
    "length": (lambda: labs.checkpointing(length="x"), "length must be a whole number"),
    "segments": (lambda: labs.checkpointing().set(segments=1.5), "segments must be a whole number"),
}


@pytest.mark.parametrize("name", BAD)
def test_24_bad_input_to_a_lab_is_named_in_a_sentence(name):
    make, said = BAD[name]
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert str(caught.value).startswith(said)


def test_24_numbers_of_numpy_and_structures_of_vars_are_numbers_and_vars():
    one = np.int64(1)
    lab = labs.training(squares, {"w": w}, np.ones(3), lr=np.float32(0.1), epochs=one, batch=one, seed=one)
    assert lab.result.ended == "done" and "1 epoch," in shown(lab)
    assert "1 segment of up to 1 step" in shown(labs.checkpointing(length=one))
    assert labs.broadcasting((np.int64(4), 3), "3").result.shape == (4, 3)
    assert labs.ties(np.abs, ad.Var(0.0)).result.tied


def test_22_gradients_that_are_not_numbers_are_not_called_different():
    lab = labs.checkpointing(lambda h, k: h * k, 0.5, math.nan, length=4)
    assert "NOT the same" not in shown(lab) and "the same as with everything stored" in shown(lab)


# What every lab is given


@pytest.mark.parametrize("lab", [labs.ties, labs.differences])
@pytest.mark.parametrize("bad, said", [
    (np.ma.array([1.0, 2.0], mask=[0, 1]), "the lab's x got a np.ma.MaskedArray, whose mask would be lost"),
    (np.ones((2, 2)).view(np.matrix), "the lab's x got a np.matrix"),
    ([np.ma.masked, 1.0], "the lab's x got a np.ma.core.MaskedConstant"),
    (None, "x must be a number or an array of numbers, got None"),
    ("3", "x must be a number or an array of numbers, got '3'"),
    ([[1.0], [1.0, 2.0]], "x must be a number or an array of numbers"),
    (1j, "x must be a number or an array of numbers, got 1j"),
])  # fmt: skip
def test_24_what_is_no_plain_number_or_array_is_refused(lab, bad, said):
    with pytest.raises(TypeError, match=re.escape(said)):
        lab(lambda x: (x * x).sum(), bad)


@pytest.mark.parametrize("count", [9, 27])
def test_24_no_input_is_left_out(count):
    for lab in (labs.ties, labs.differences):
        made = lab(lambda *a: sum((k + 1) * v for k, v in enumerate(a)), *[1.0] * count)
        slopes = made.result["engine"].flat if lab is labs.ties else made.result.analytic
        assert slopes.tolist() == [*range(1, count + 1)]
        assert len(set(made.entries if lab is labs.ties else made.result.names)) == count


@pytest.mark.parametrize("step", [lambda h: h, lambda h: h.detach() * 0.5, lambda h: ad.Tensor(0.5)])
def test_22_a_recurrence_that_keeps_nothing_has_no_costs_to_compare(step):
    with pytest.raises(ValueError, match="the steps keep no values for the backward pass"):
        labs.checkpointing(step)


def test_24_data_with_a_mask_and_a_score_above_1_are_refused():
    w = ad.Var(0.0)
    with pytest.raises(TypeError, match="the lab's data got a np.ma.MaskedArray"):
        labs.training(lambda x: (w - x).mean() ** 2, w, np.ma.array([1.0, 9.0], mask=[0, 1]))
    with pytest.raises(ValueError, match=r"score\(\*data\) must be a share from 0 to 1, got 50"):
        labs.training(lambda x: (w - x).mean() ** 2, w, np.ones(4), score=lambda x: 50, epochs=1)
    with pytest.raises(ValueError, match="optimiser must be one of SGD, AdamW"):
        labs.training("regression", optimiser=["SGD"])
