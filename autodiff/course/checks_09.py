"""Checks of exercise 09, three faults: a detach, a no_grad and a forgotten clear in one graph, one at a time.

The graph is that of exercise 01 throughout: a = x*y, b = a + x, L = b**2 + a. Wrong answers as a learner would type
them, each with the fault it must be given, are in wrong_answers/09.txt.
"""

import textwrap
from dataclasses import replace
from unittest import mock

from autodiff import contracts
from autodiff.course.forms import KEPT, NO_RETURN, Asked, Case, by_hand, function, nonzero, question
from autodiff.course.judge import EARLY_RETURN, Fault, run, with_words
from autodiff.course.result import WRONG, as_number, show_number
from autodiff.recording import new_id

# What one forward and one backward pass give, in formulas: which uses of a pass a gradient on?

ABSENT = "absent"
_WHOLE, _CUT_B, _CUT_L, _CUT_BOTH = (True, True), (False, True), (True, False), (False, False)
_CUTS = {"none": _WHOLE, "detach": _CUT_B, "no_grad": _CUT_BOTH, "no_clear": _WHOLE}


def _loss(x, y):
    return (x * y + x) ** 2 + x * y


def _grads(x, y, cut=_WHOLE):
    """Gradients of x and y; `cut`: whether the use of a in b, and the direct one in L, are connected."""
    through_b, direct = cut
    g_b = 2 * (x * y + x)
    if not (through_b or direct):
        return g_b, ABSENT
    g_a = through_b * g_b + direct
    return g_b + g_a * y, g_a * x


def _added(*grads):
    """The sum of several gradients, an absent one being nothing."""
    present = [g for g in grads if g != ABSENT]
    return sum(present) if present else ABSENT


# 09.a: the three faults by hand.

_DEALS = ((3.0, 4.0), (2.0, -4.0), (-2.0, 5.0), (3.0, -5.0), (-3.0, 2.0), (2.0, 5.0), (-2.0, -6.0), (4.0, 3.0))
_A = tuple(f"{what}_{run}" for run in ("detach", "no_grad", "no_clear") for what in ("loss", "x", "y"))


def _deal(number):
    return _DEALS[number % len(_DEALS)]


def _given_a(deal):
    x, y = map(show_number, deal)
    right = tuple(map(show_number, (_loss(*deal), *_grads(*deal))))
    return (f"x = {x}, y = {y}, and a = x * y, b = a + x, L = b**2 + a. Without a fault: L = {right[0]}, gradient of x "
            f"{right[1]}, of y {right[2]}.")


def _right_a(deal):
    L = _loss(*deal)
    x, y = _grads(*deal)
    return (L, *_grads(*deal, _CUT_B), L, *_grads(*deal, _CUT_BOTH), L, 2 * x, 2 * y)


def _how_a(deal):
    x, y = map(show_number, deal)
    b = show_number(deal[0] * deal[1] + deal[0])
    same = "neither a cut nor a missing clear changes a value: what L is without a fault"
    return (same, f"2b from b = a + x directly, with b = {b}, and (gradient of a) times y", "(gradient of a) times x",
            same, f"only the edge from b to x is left: 2b, with b = {b}",
            "is there any way from L to y that was recorded?",
            same, "the gradient of the first round plus that of the second, and both are right",
            "the gradient of the first round plus that of the second, and both are right")


def _row(**numbers):
    return tuple(numbers.get(name) for name in _A)


def _pairs(run, grads):
    return {f"x_{run}": grads[0], f"y_{run}": grads[1]}


def _sums(deal, *cuts):
    """The gradients of several runs, added up."""
    return tuple(_added(*gs) for gs in zip(*(_grads(*deal, cut) for cut in cuts)))


_FAULTS_A = (
    Fault("loss-doubled", "a loss is doubled",
          "One of your losses is 2 * L. What adds up are the *gradients*: they stay where they are between two rounds. "
          "The loss is computed anew in each forward pass, and nobody adds it to anything.",
          "what a life-cycle keeps from one round to the next.",
          (lambda d: _row(loss_no_clear=2 * _loss(*d)), lambda d: _row(loss_no_grad=2 * _loss(*d)),
           lambda d: _row(loss_detach=2 * _loss(*d)))),
    Fault("value-cut", "a cut changes the value",
          "You computed a loss without what was cut. But `detach` and `no_grad` leave every value as it is: the number "
          "x*y is still there, only its history is not.",
          "the value of detach(a). Lesson 08 compares it with a.",
          (lambda d: _row(loss_detach=d[0] ** 2 + d[0] * d[1]), lambda d: _row(loss_no_grad=d[0] ** 2),
           lambda d: _row(loss_detach=d[0] ** 2), lambda d: _row(loss_no_grad=d[0] ** 2 + d[0] * d[1]))),
    Fault("zero-for-absent", "a 0 stands where nothing arrives",
          "Your y_no_grad is 0. A gradient of 0 would be a message: I was reached, and the slope is 0. Here the "
          "product was not recorded, so no way leads to y, and the gradient is absent.",
          "the difference between None and 0, fault 3 of lesson 12.",
          (lambda d: _row(y_no_grad=0.0),)),
    Fault("x-absent", "x gets nothing with no_grad",
          "You say that no gradient arrives at x. But only the product was computed in there. `b = a + x` "
          "uses x outside, and this edge is recorded.",
          "every line that uses x. Which of them is inside the `with`?",
          (lambda d: _row(x_no_grad=ABSENT), lambda d: _row(x_no_grad=0.0))),
    Fault("without-2", "the square of b lacks its 2",
          "Your x_no_grad is b. With no_grad the only way to x goes through b**2, and its slope is 2b. In the run with "
          "the detach the same 2b is one of the two terms.",
          "the derivative of b**2.",
          (lambda d: _row(x_no_grad=d[0] * d[1] + d[0]), lambda d: _row(x_detach=d[0] * d[1] + d[0] + d[1]))),
    Fault("detach-cuts-a", "the detach cuts both uses of a",
          "With the detach you have x = {x_detach} and y = {y_detach}, as if nothing came back to a. But only the use "
          "of a in b is detached. `L = b**2 + a` uses the other a, the recorded one, and it brings 1.",
          "the last line of the graph. Which a stands in it?",
          (lambda d: _row(**_pairs("detach", _grads(*d, _CUT_BOTH))), lambda d: _row(y_detach=ABSENT),
           lambda d: _row(y_detach=0.0))),
    Fault("detach-wrong-use", "the detach is put at the other use of a",
          "With the detach you have x = {x_detach} and y = {y_detach}: the share through b is counted and the direct "
          "one is not. It is the other way round: b is made from detach(a), and L uses a as it is.",
          "the line of b with the detach in it.",
          (lambda d: _row(**_pairs("detach", _grads(*d, _CUT_L))),)),
    Fault("b-cut", "the detach takes the whole of b away",
          "With the detach you kept only what comes from a directly. But b = detach(a) + x still has a recorded edge, "
          "to x, and the gradient 2b of b goes down there.",
          "the two edges below b: one is cut, one is not.",
          (lambda d: _row(**_pairs("detach", (d[1], d[0]))), lambda d: _row(x_detach=d[1]))),
    Fault("no-grad-one-use", "no_grad is treated like the detach",
          "With no_grad you have the numbers of the detach. A detach cuts one use, and the recorded a lives on beside "
          "it. What is computed within `no_grad` was never recorded, so there is no other a: both uses are cut.",
          "the edge from L to a, with a product that was not recorded.",
          (lambda d: _row(**_pairs("no_grad", _grads(*d, _CUT_B))),)),
    Fault("cut-ignored", "the cut changes nothing",
          "With a cut you have the gradients of the run without a fault. A cut does not change values; gradients it "
          "does change: a share is missing.",
          "which edges a gradient can still go back along.",
          (lambda d: _row(**_pairs("detach", _grads(*d))), lambda d: _row(**_pairs("no_grad", _grads(*d))))),
    Fault("two-faults", "two faults are in one run",
          "In one of your runs a second fault is still in: gradients of a run before were not cleared, or a cut is in "
          "the run without a clear. Then nobody can say which fault did what. One at a time.",
          "each run alone: a new life-cycle, and one fault.",
          tuple(lambda d, run=run, cuts=cuts: _row(**_pairs(run, _sums(d, *cuts))) for run, cuts in (
              ("no_grad", (_CUT_B, _CUT_BOTH)), ("no_clear", (_CUT_B, _WHOLE)), ("no_clear", (_CUT_BOTH, _WHOLE)),
              ("no_clear", (_CUT_B, _CUT_BOTH, _WHOLE)), ("no_clear", (_CUT_B, _CUT_BOTH, _WHOLE, _WHOLE)),
              ("no_clear", (_CUT_B, _CUT_B)), ("no_clear", (_CUT_BOTH, _CUT_BOTH)),
              ("detach", (_CUT_B, _CUT_B)), ("no_grad", (_CUT_BOTH, _CUT_BOTH))))),
    Fault("read-early", "the gradient is read after the first round",
          "Without a clear you have the right gradients, once. That is what is there after *one* round. Nobody can see "
          "then that the clear will be forgotten. Read after the second backward pass.",
          "what the second backward pass does to the gradient that is already there.",
          (lambda d: _row(**_pairs("no_clear", _grads(*d))),)),
    Fault("three-rounds", "the gradient of a round is counted three times",
          "Without a clear you have three times the right gradients. There are two rounds: the first brings one "
          "gradient, the second adds one.",
          "how many backward passes run before you read.",
          (lambda d: _row(x_no_clear=3 * _grads(*d)[0]),)),
    Fault("replaced", "the second round is taken for the life-cycle that replaces",
          "You say that there is nothing to read without a clear. PyTorch's life-cycle does not lose the old gradient: "
          "it adds the new one to it.",
          "54, then 108, in lesson 07.",
          (lambda d: _row(x_no_clear=ABSENT), lambda d: _row(x_no_clear=0.0))),
)

_TASK_A = by_hand(
    "09.a", "each fault by hand", _A, deal=_deal, given=_given_a, right=_right_a, faults=_FAULTS_A,
    how=_how_a, words=(ABSENT,), hints=(
        "First the losses: does a cut, or a gradient that is left over, change any number of a forward pass? Then draw "
        "the graph three times, and cross out the edges that no gradient can go along.",
        "What is left of the edges below L, with the detach, and with no_grad:\n\n"
        "    detach                     no_grad\n"
        "    L -> b**2 -> b -> x        L -> b**2 -> b -> x\n"
        "    L -> a -> x                a was not recorded\n"
        "    L -> a -> y\n\n"
        "Without a clear all edges are there, and the pass runs twice.",
        "    gradient of b = 2 * b                        in every run\n"
        "    detach     gradient of a = ...               what arrives directly, and nothing else\n"
        "               x = (gradient of b) + (gradient of a) * ...\n"
        "               y = (gradient of a) * ...\n"
        "    no_grad    x = ...                           y = a number, or a word?\n"
        "    no_clear   x = ... + ...                     first round and second round"),
    good="Three faults, one loss. A cut takes shares away, a missing clear adds a whole gradient.")

# 09.b: the experiment.

_FAULT_NAMES = ("none", "detach", "no_grad", "no_clear")


def _rows(fault, points, cut=None, added=None, read="now"):
    """The rows of an experiment, in formulas. `added`: whether gradients add up over the rounds. `read`: when."""
    cut = _CUTS[fault] if cut is None else cut
    added = fault == "no_clear" if added is None else added
    at_hand, seen = (None, None), []
    for x, y in points:
        new = tuple(None if g == ABSENT else g for g in _grads(x, y, cut))
        before = at_hand if added else (None, None)
        if read == "before the clear":
            seen.append(at_hand)
        at_hand = tuple(a if b is None else b if a is None else a + b for a, b in zip(before, new))
        if read != "before the clear":
            cleared = at_hand if added else (None, None)
            seen.append({"now": at_hand, "before": before, "end": None, "cleared": cleared}[read])
    return [(_loss(x, y), *(at_hand if s is None else s)) for (x, y), s in zip(points, seen)]


def _right_b(fault, points):
    return _rows(fault, points)


def _cases_b(rng):
    def points(k):
        return [(nonzero(rng, 1.5, 4.0), nonzero(rng, 1.5, 4.0)) for _ in range(k)]

    return [Case(("none", [(2.0, 3.0), (3.0, 4.0)]), "none"), Case(("detach", points(2)), "detach"),
            Case(("no_clear", points(3)), "no_clear"), Case(("no_grad", points(2)), "no_grad"),
            Case(("none", points(2)), "none, once more")]


def _tidy_b(rows):
    """Rows of numbers, with None for what is absent, from arrays, tensors, lists or words."""
    def entry(value):
        if value is None or isinstance(value, str) and value.strip().lower() in (ABSENT, "none"):
            return None
        number = as_number(getattr(value, "data", value) if hasattr(value, "is_variable") else value)
        return value if number is None else number

    if isinstance(rows, dict):
        return rows
    try:
        return [tuple(entry(value) for value in row) for row in rows]
    except TypeError:
        return rows


_ERRORS = {"does not require grad": "too-much-no-grad", "StaleGraphError": "old-graph", "a second time": "old-graph",
           "has no .grad": "dot-grad", "has no attribute 'zero_grad'": "zero-grad",
           "'NoneType' object is not subscriptable": "store-expected",
           "argument of type 'NoneType'": "store-expected"}


def _judge_b(attempt):
    """The form's judge, with a name for what the engine itself refuses, and for what None refuses."""
    result = _FORM_B.judge(attempt)
    said = " ".join(result.body)
    found = next((fault for text, fault in _ERRORS.items() if text in said), None)
    if "NoneType" in said and _read_none(attempt):
        # In one run None belongs into a row.
        found = "none-as-number" if '("no_grad"' in said else "nothing-there"
    if result.status == WRONG and result.fault is None and found:
        return attempt.fault(found, result.body, None)
    return result


def _read_none(attempt):
    """Whether `c.grad` has given None in the call that raises an error."""
    read, whole = [], contracts.pytorch.grad

    def grad(c, t):
        read.append(whole(c, t))
        return read[-1]

    for case in _cases_b(attempt.rng):
        read.clear()
        with mock.patch.object(contracts.pytorch, "grad", grad):
            result = run(attempt.answers[0], *case.fresh())
        if result.ended == "raised":
            return any(found is None for found in read)
    return False


def _look_at_b(attempt, answer, runs):
    case, call, result = runs[0]
    before = new_id()
    answer(*case.fresh())
    made = new_id() - before - 1
    if made == 0 and all(_tidy_b(r.value) == _right_b(*c.fresh()) for c, _, r in runs):
        return attempt.fault("no-experiment", (), None, call=call)
    return None


def _instead(wrong, *when):
    """A fault's rows for these faults only, and the right ones for the others."""
    return lambda fault, points: wrong(fault, points) if fault in when else _rows(fault, points)


def _zero_for_none(fault, points):
    return [tuple(0.0 if v is None else v for v in row) for row in _rows(fault, points)]


def _b_cut(fault, points):
    return [(_loss(x, y), y, x) for x, y in points]


def _doubled_loss(fault, points):
    rows, total = [], 0.0
    for row in _rows(fault, points):
        total = total + row[0] if fault == "no_clear" else row[0]
        rows.append((total, *row[1:]))
    return rows


_FAULTS_B = (
    Fault("only-none", "the run without a fault is right, and `fault` is not used yet",
          "All your runs show the gradients of \"none\", and for \"none\" they are right. So the experiment works, and "
          "no fault has been put in yet.",
          "the table of the three faults. Take one of them: which line becomes another one, for this name alone?",
          (lambda f, p: _rows("none", p),)),
    Fault("never-cleared", "the clear is missing in every run",
          "In each of your four runs the gradients add up from round to round. So the forgotten clear is in all of "
          "them, and your \"detach\" and \"no_grad\" have two faults at once. Only \"no_clear\" may leave it out.",
          "the line with `clear`. It belongs before the backward pass of each round, and depends on `fault`.",
          (lambda f, p: _rows(f, p, added=True),)),
    Fault("always-cleared", "with \"no_clear\", nothing adds up",
          "`{call}` shows the same gradients as a run without a fault. Either the clear is still there, or each round "
          "has new Vars or a new life-cycle: what is new has nothing to add to.",
          "what is made inside the loop, and what is made before it.",
          (_instead(lambda f, p: _rows(f, p, added=False), "no_clear"),)),
    Fault("read-early", "the gradients are read before the backward pass",
          "`{call}` shows in each row what was there *before* the backward pass of this row: nothing, or what the "
          "round before left behind.",
          "the order of the steps in one round: forward, clear, backward, and then read.",
          (lambda f, p: _rows(f, p, read="before"), lambda f, p: _rows(f, p, read="before the clear"))),
    Fault("read-late", "the gradients are read at the end, for all rows",
          "Every row of `{call}` shows the gradients of the last round. A gradient that is read after the loop says "
          "nothing about the rounds before. (A loss read in its round tells nothing of this.)",
          "where the gradients are read: inside the loop, or after it?",
          (lambda f, p: _rows(f, p, read="end"),)),
    Fault("cleared-first", "the clear comes between the backward pass and the reading",
          "`{call}` has no gradients, because they were cleared before anybody looked. A clear belongs *before* the "
          "backward pass of the next round.",
          "the order of the steps in one round: forward, clear, backward, read.",
          (lambda f, p: _rows(f, p, read="cleared"),)),
    Fault("detach-cuts-a", "the detach cuts both uses of a",
          "With \"detach\" you have the numbers of \"no_grad\". Your detached a is used in b *and* in L. In the task b "
          "uses detach(a), and L uses a.",
          "the two lines that use a. Does one of them still have the recorded one?",
          (_instead(lambda f, p: _rows(f, p, cut=_CUT_BOTH), "detach"),)),
    Fault("detach-wrong-use", "the detach is at the other use of a",
          "With \"detach\" the share through b arrives and the direct one does not. The detach belongs into the line "
          "of b.",
          "the line b = ..., and the line L = ...",
          (_instead(lambda f, p: _rows(f, p, cut=_CUT_L), "detach"),)),
    Fault("detach-missing", "with \"detach\", nothing is cut",
          "`{call}` shows the gradients of a run without a fault. `a.detach()` returns a *new* tensor, and changes "
          "nothing on a. If its result is not used, nothing is cut.",
          "what you do with the result of `detach()`.",
          (_instead(lambda f, p: _rows(f, p, cut=_WHOLE), "detach"),)),
    Fault("no-grad-one-use", "with \"no_grad\", a way to y is left",
          "y has a gradient. So a product was recorded somewhere: perhaps x*y is computed twice, once inside the "
          "`with` and once outside.",
          "every place where x * y stands in your function.",
          (_instead(lambda f, p: _rows(f, p, cut=_CUT_B), "no_grad"),
           _instead(lambda f, p: _rows(f, p, cut=_CUT_L), "no_grad"),
           _instead(lambda f, p: _rows(f, p, cut=_WHOLE), "no_grad"))),
    Fault("two-faults", "a cut is in the run without a clear",
          "With \"no_clear\" the gradients add up, as they should, but a cut is in as well. One fault at a time: else "
          "nobody can say which of them did what.",
          "the `if` and `else` in your function. Which branch does \"no_clear\" take?",
          (_instead(lambda f, p: _rows(f, p, cut=_CUT_B), "no_clear"),
           _instead(lambda f, p: _rows(f, p, cut=_CUT_BOTH), "no_clear"),
           _instead(lambda f, p: _rows(f, p, cut=_CUT_B, added=True), "no_grad", "no_clear"))),
    Fault("cut-in-none", "a cut is in the run without a fault",
          "The run \"none\" is the one to compare with, and your row for it has a share less than it should.",
          "the `if` and `else` in your function. Which branch does \"none\" take?",
          (_instead(lambda f, p: _rows(f, p, cut=_CUT_BOTH), "none"),
           _instead(lambda f, p: _rows(f, p, cut=_CUT_B), "none"),
           _instead(lambda f, p: _rows(f, p, cut=_CUT_BOTH), "none", "no_clear"),
           _instead(lambda f, p: _rows(f, p, cut=_CUT_B), "none", "no_clear"))),
    Fault("b-cut", "the whole of b is cut",
          "`{call}` has a gradient on the direct way from L to a, and none through b, not even to x. Your cut is "
          "around b. The task cuts less: `b = ... + x` still has an edge to x.",
          "what stands inside the `with`, or inside the brackets before `.detach()`.",
          (_instead(_b_cut, "no_grad"), _instead(_b_cut, "detach"), _instead(_b_cut, "detach", "no_grad"))),
    Fault("exchanged", "the gradients of x and y are exchanged",
          "The numbers are right, and x and y have each other's. A row is (L, gradient of x, gradient of y).",
          "the line that makes a row.",
          (lambda f, p: [(a, c, b) for a, b, c in _rows(f, p)],)),
    Fault("loss-last", "the loss is not the first entry of a row",
          "The numbers are right, in another order. A row is (L, gradient of x, gradient of y).",
          "the line that makes a row.",
          (lambda f, p: [(b, c, a) for a, b, c in _rows(f, p)],)),
    Fault("loss-left-out", "the loss is missing in the rows",
          "Your rows hold the two gradients. The loss belongs in front of them: task d asks what it can tell.",
          "the line that makes a row.",
          (lambda f, p: [row[1:] for row in _rows(f, p)],)),
    Fault("last-row-only", "one row is returned, the last one",
          "`{call}` returned the row of the last point alone. Each round has a row of its own, and all of them are "
          "returned in a list.",
          "where rows are collected: an `append` inside the loop.",
          (lambda f, p: _rows(f, p)[-1], lambda f, p: _rows(f, p)[-1:])),
    Fault("too-much-no-grad", "the loss has no history",
          "Everything was computed within `no_grad`, so L is a constant and no pass can begin. Only the product a = x "
          "* y belongs in there.",
          "which lines are indented below the `with`."),
    Fault("old-graph", "a graph of an earlier round is used again",
          "The graph belongs to the values at which it was recorded, and a backward pass uses it up. A new round needs "
          "a new forward pass: a, b and L again, after the `set`.",
          "the lines that compute a, b and L. Are they inside the loop, below the two `set`?"),
    Fault("zero-for-none", "a 0 stands where nothing arrived",
          "With \"no_grad\", y has no gradient: `c.grad(y)` is None, and your row says 0. The difference between "
          "\"nobody came\" and \"the slope is 0\" is the fingerprint that you are looking for.",
          "where your function turns None into a number.",
          (_zero_for_none,)),
    Fault("none-as-number", "None is used as a number",
          "With \"no_grad\", y has no gradient: `c.grad(y)` is None, and None has no value to take out.",
          "the line shown. What should the row have there, when there is no gradient?"),
    Fault("nothing-there", "a gradient is read when none is there",
          "`c.grad` gave None, and in this run every way is recorded. It shows what is there *now*: before the first "
          "backward pass, and after a clear, that is nothing.",
          "the order of the steps in one round: forward, clear, backward, and then read."),
    Fault("store-expected", "`c.backward` is taken to return a store",
          "In PyTorch's life-cycle `c.backward` returns None. It leaves the gradients with the life-cycle, and "
          "`c.grad(x)` shows that of x.",
          "the line that calls `c.backward`, and the one that reads."),
    Fault("dot-grad", "a Var has no `.grad`",
          "In PyTorch itself the gradient is an attribute of the leaf. Here the life-cycle `c` keeps it, and shows "
          "that of x as `c.grad(x)`.",
          "the line shown."),
    Fault("zero-grad", "there is no `zero_grad` here",
          "In PyTorch the clear is called `zero_grad()`, and it is a method of the optimiser. Here it is `c.clear()`.",
          "the line shown."),
    Fault("loss-added", "the loss adds up as well",
          "With \"no_clear\" your losses grow from row to row. A forward pass computes its loss anew; only gradients "
          "are kept.",
          "the first entry of your rows.",
          (_doubled_loss,)),
    Fault("no-experiment", "the numbers are right, and nothing was run",
          "`{call}` made no graph. Your formulas give the right rows today; an experiment also shows what you did "
          "*not* think of.",
          "`ad.Var`, `ad.contracts.pytorch()` and its `backward` and `grad`."),
    KEPT, NO_RETURN, EARLY_RETURN,
)

_FORM_B = function(
    "09.b", "the experiment", "experiment", "fault, points", cases=_cases_b, right=_right_b, faults=_FAULTS_B,
    tidy=_tidy_b, look_at=_look_at_b, lines=2_000_000,
    expects="a list with one row (L, gradient of x, gradient of y) for each point", hints=(
        "Write it first for \"none\" alone, and pass the check's first case with it. Then put in one fault after the "
        "other, each behind its own `if`.",
        "What is made once, and what is made in each round:\n\n"
        "    once     the life-cycle c, the Vars x and y, the list of rows\n"
        "    round    new values with x.set(...) and y.set(...)\n"
        "             forward: a, b, L\n"
        "             clear, unless that is the fault\n"
        "             backward\n"
        "             read: a row of three\n\n"
        "What must outlive a round, so that a forgotten clear can do harm?",
        "With the faults left out:\n\n"
        "    c = ad.contracts.pytorch()\n"
        "    x, y = ad.Var(1.0), ad.Var(1.0)\n"
        "    rows = []\n"
        "    for at_x, at_y in points:\n"
        "        x.set(at_x)\n"
        "        y.set(at_y)\n"
        "        a = x * y                   # here one fault\n"
        "        b = a + x                   # here another\n"
        "        L = b**2 + a\n"
        "        c.clear()                   # and here the third\n"
        "        ...                         # backward, then read\n"
        "    return rows"),
    good="One fault in each run, and the gradients read after the backward pass of their own round.")

_TASK_B = replace(_FORM_B, judge=_judge_b)

# 09.c: which fault is in? Five sheets with one fault each, or none.

_C = tuple(f"sheet_{k}" for k in range(1, 6))
_WORDS = ("none", "detach in b", "detach in L", "no_grad", "no_clear")
_SHEET_CUTS = dict(zip(_WORDS, (_WHOLE, _CUT_B, _CUT_L, _CUT_BOTH, _WHOLE)))
_ORDERS = ((3, 1, 4, 0, 2), (2, 4, 0, 3, 1), (4, 0, 1, 2, 3), (1, 3, 2, 4, 0), (0, 2, 3, 1, 4), (2, 3, 4, 1, 0),
           (4, 1, 0, 3, 2), (1, 0, 4, 2, 3))


def _deal_c(number):
    order = _ORDERS[number % len(_ORDERS)]
    return _DEALS[(number + 3) % len(_DEALS)], tuple(_WORDS[k] for k in order)


def _sheet(deal, word):
    x, y = _grads(*deal, _SHEET_CUTS[word])
    k = 2 if word == "no_clear" else 1
    return _loss(*deal), k * x, y if y == ABSENT else k * y


def _given_c(deal):
    point, words = deal
    lines = [f"x = {show_number(point[0])}, y = {show_number(point[1])}, and the same graph. After the second round:",
             f"    {'':8} {'loss':>8} {'x':>8} {'y':>8}"]
    for k, word in enumerate(words, 1):
        loss, x, y = _sheet(point, word)
        shown = [y if y == ABSENT else show_number(y)]
        lines.append(f"    sheet {k}  {show_number(loss):>8} {show_number(x):>8} {shown[0]:>8}")
    return "\n".join(lines)


def _said(deal, **instead):
    """The right words, with those of some faults exchanged for others: `_said(deal, no_grad="none")`."""
    return tuple(instead.get(word.replace(" ", "_"), word) for word in deal[1])


def _only_c(deal, **instead):
    return tuple(instead.get(word.replace(" ", "_")) for word in deal[1])


def _how_c(deal):
    point, words = deal
    x, y = map(show_number, _grads(*point))
    ways = {"none": f"work out both gradients without a fault: {x} and {y}",
            "detach in b": "y = (gradient of a) times x. Divide: how much has arrived at a?",
            "detach in L": "y = (gradient of a) times x. Divide: how much has arrived at a?",
            "no_grad": "y is absent: which fault leaves no way at all to y?",
            "no_clear": "compare both gradients with those of a run without a fault, by division"}
    return tuple(ways[word] for word in words)


_FAULTS_C = (
    Fault("loss-believed", "the loss is taken as a proof",
          "You answered \"none\" for every sheet, because the loss is right in all of them. A loss comes from the "
          "forward pass, and no fault here touches a value.",
          "the columns x and y.",
          (lambda d: ("none",) * 5,)),
    Fault("detach-exchanged", "the two places of the detach are exchanged",
          "Look at what has arrived at a: y's gradient divided by x. If it is 1, only the direct edge from L is left, "
          "so the cut is in b. If it is 2b, the direct edge is the one that is missing.",
          "the two detach sheets once more, with y's gradient divided by x.",
          (lambda d: _said(d, detach_in_b="detach in L", detach_in_L="detach in b"),)),
    Fault("absent-for-detach", "no_grad and a detach are taken for each other",
          "One of your sheets says that y is absent, or has a number, where the fault you named does the opposite. A "
          "detach of *one* use leaves another way to y. Only a product that was never recorded leaves none.",
          "the sheet with the word \"absent\".",
          (lambda d: _only_c(d, no_grad="detach in b"), lambda d: _only_c(d, no_grad="detach in L"),
           lambda d: _only_c(d, detach_in_b="no_grad"), lambda d: _only_c(d, detach_in_L="no_grad"))),
    Fault("absent-for-clear", "an absent gradient is taken for a missing clear",
          "Where the clear was forgotten there is too much, never nothing. An absent gradient means that no way was "
          "recorded.",
          "the sheet with the word \"absent\".",
          (lambda d: _only_c(d, no_grad="no_clear"),)),
    Fault("double-unseen", "the doubled gradients are taken for right ones",
          "In one sheet *both* gradients are twice what they should be. No cut does that: a cut takes one share out of "
          "one sum. Two backward passes without a clear do it.",
          "the gradients without a fault, worked out by hand once, and the ratio of each sheet to them.",
          (lambda d: _only_c(d, no_clear="none"),)),
    Fault("double-for-cut", "the doubled gradients are taken for a cut",
          "In the sheet without a clear both gradients are exactly twice the right ones. A cut leaves shares out: it "
          "cannot double anything.",
          "the ratio of each sheet to the right gradients.",
          (lambda d: _only_c(d, no_clear="detach in b"), lambda d: _only_c(d, no_clear="detach in L"),
           lambda d: _only_c(d, no_clear="no_grad"))),
    Fault("fault-in-right", "a fault is seen where there is none",
          "One of the sheets is right, and you named a fault for it. Work the gradients out without a fault, once, "
          "before you look for one.",
          "the gradient of b is 2b, and that of a is 2b + 1.",
          (lambda d: _only_c(d, none="detach in b"), lambda d: _only_c(d, none="detach in L"),
           lambda d: _only_c(d, none="no_clear"), lambda d: _only_c(d, none="no_grad"))),
    Fault("cut-unseen", "a cut is taken for a right run",
          "You answered \"none\" for a sheet in which a share is missing. Its loss is right. Its gradients are not.",
          "both gradients without a fault, by hand.",
          (lambda d: _only_c(d, detach_in_b="none"), lambda d: _only_c(d, detach_in_L="none"),
           lambda d: _only_c(d, no_grad="none"))),
    Fault("cut-for-double", "a cut is taken for a missing clear",
          "You answered \"no_clear\" for a sheet in which a share is missing. A forgotten clear makes *both* gradients "
          "twice as large.",
          "the ratio of each sheet to the right gradients.",
          (lambda d: _only_c(d, detach_in_b="no_clear"), lambda d: _only_c(d, detach_in_L="no_clear"))),
)

_TASK_C = by_hand(
    "09.c", "which fault is in?", _C, deal=_deal_c, given=_given_c, right=lambda d: d[1], faults=_FAULTS_C, how=_how_c,
    words=_WORDS, numbers=False, hints=(
        "Begin with the sheets that need no arithmetic. One gradient is missing altogether. And which sheet is twice "
        "another one, in both columns?",
        "In every sheet, divide the gradient of y by x. That is what has arrived at a:\n\n"
        "    2b + 1     both edges\n"
        "    2b         the edge through b\n"
        "    1          the direct edge\n"
        "    nothing    none of them\n"
        "    4b + 2     both edges, twice",
        "Five lines, one for each sheet:\n\n"
        "    b = x * y + x = ...            2b = ...\n"
        "    sheet 1: y / x = ...           so the fault is ...\n"
        "    sheet 2: ..."),
    good="A missing share, a missing gradient, a double one: each fault has a fingerprint of its own. The loss has "
         "none.")

# 09.d: can the loss tell?

def _asked(text, choices, right):
    """A question whose text fits into the width of an output cell."""
    return Asked(textwrap.fill(text, 96), choices, right)


_TASK_D = question(
    "09.d", "can the loss tell?", (
        _asked("In all faulty runs of this exercise the loss was right. A training goes on with such a fault: "
               "gradient, step, next round. When can its loss differ from that of a training without the fault?",
               {"a": "in the same round, in the last digits",
                "b": "never: the loss does not depend on gradients",
                "c": "from the next round on, after a step with the wrong gradient has moved the parameters",
                "d": "only with a forgotten clear; a cut does not show",
                "e": "only if the gradient is so wrong that the loss goes up"}, "c"),
        _asked("Two trainings start from the same weights. One of them has a detach too many. Their losses are printed "
               "in every round. Which lines can be different?",
               {"a": "all but the first",
                "b": "all, the first one as well",
                "c": "none of them, because a detach changes no value",
                "d": "none of them; that needs a gradient that was added twice",
                "e": "those in which the loss goes up, and no others"}, "a"),
        _asked("Somebody tests a training loop by comparing the loss of one forward pass with a stored number. The "
               "clear was forgotten. What does this test say?",
               {"a": "it fails: the loss is twice as large",
                "b": "it passes, and it would pass for all later losses too: gradients are no part of a loss",
                "c": "it fails, but it would pass with a cut in place of the forgotten clear",
                "d": "it passes; it would need a second round, after a step, to see anything",
                "e": "it passes; it would fail only once the loss goes up"}, "d")),
    faults=(
        Fault("loss-now", "the loss of the same round is said to change",
              "The loss is computed in the forward pass, *before* there is any gradient. No fault of this exercise "
              "touches a value, so the loss of this round is right to the last digit.",
              "the column of the losses in task c.", ("a", "b", "a")),
        Fault("never", "the loss is said to be independent of gradients",
              "Within one round that is true. But the gradient decides where the parameters go next, and the loss of "
              "the next round is computed from the moved parameters.",
              "what an optimiser does between two rounds.", ("b", "c", "b")),
        Fault("one-fault-only", "only one of the two kinds of fault is said to show",
              "Both kinds change gradients: a cut takes shares away, a forgotten clear adds old ones. So both lead to "
              "another step, and from there to other losses.",
              "the columns x and y in task c.", ("d", "d", "c")),
        Fault("only-upwards", "only a loss that goes up is said to show a fault",
              "A gradient that is twice as large, or that lacks a share, mostly still points downhill. The loss goes "
              "down, on another way and to another place, and looks healthy.",
              "the three trainings A, B and C of lesson 08, and their losses.", ("e", "e", "e"))),
    hints=(
        "In which order are these computed in one round: gradient, loss, step?",
        "Two rounds on one line:\n\n"
        "    forward -> loss 1 -> backward -> gradient -> step -> forward -> loss 2\n\n"
        "Mark where the fault comes in. What is to its right?",
        "Ask of each answer: does it say that something *left* of the fault changes, or that nothing to the *right* of "
        "it does? Both cannot be. What remains?"),
    good="The loss is computed before the gradient. A wrong gradient shows in it one step later, and only as another "
         "way down: so test gradients, not losses.")

TASKS = (with_words(_TASK_A, ABSENT, ("none", None)), _TASK_B, _TASK_C, _TASK_D)
