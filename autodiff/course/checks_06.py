"""Checks of exercise 06, vector-Jacobian products: what a cotangent asks for, and of which number it is the gradient.

The function is that of lesson 05, f(x1, x2) = (x1 * x2, x1**2 + x2). Wrong answers as a learner would type them are in
wrong_answers/06.txt.
"""

from itertools import product

import numpy as np

from autodiff import GradStore, Tensor, Var, sorted_nodes
from autodiff.course.forms import (
    CHANGED_INPUT,
    NO_RETURN,
    Case,
    apart,
    as_array,
    by_hand,
    function,
    nonzero,
    same,
    show,
)
from autodiff.course.judge import EARLY_RETURN, MADE_PLAIN, Fault, name_of, printed, run
from autodiff.course.result import show_number


def _f(x):
    return np.stack([x[0] * x[1], x[0] ** 2 + x[1]])


def _jacobian(x):
    return np.array([[x[1], x[0]], [2 * x[0], 1.0]])


def _no_two(x):
    return np.array([[x[1], x[0]], [x[0], 1.0]])


def _own_value(x):
    return np.array([[x[0], x[1]], [2 * x[0], 1.0]])


def _x2_kept(x):
    return np.array([[x[1], x[0]], [2 * x[0], x[1]]])


# 06.a: a table and an answer, by hand.


_DEALS = ((3, 5, 2, 4), (2, 7, 3, -2), (4, 3, -2, 5), (-3, 5, 4, 7), (5, -2, 3, 7))
_LESSON = (2, 3)  # x and v of the lesson


def _deal(number):
    """(x, v): numbers for which no two mistakes give the same answers."""
    x1, x2, v1, v2 = _DEALS[number % len(_DEALS)]
    return np.array([x1, x2], float), np.array([v1, v2], float)


def _given_a(deal):
    (x1, x2), (v1, v2) = ([show_number(float(n)) for n in pair] for pair in deal)
    return f"x1 = {x1}, x2 = {x2}, and the cotangent v = ({v1}, {v2})."


def _a(table=_jacobian, answer=None):
    """A wrong answer: the table that was written, and what was made of v and the right table, or None for anything."""
    return lambda d: (table(d[0]), None if answer is None else answer(_jacobian(d[0]), d[1], _f(d[0])))


def _how_a(deal):
    return ("one row for each output, one column for each input; hold the other input still",
            "the first row as often as v1 says, plus the second row as often as v2 says")


def _x2_lost(x):
    return np.array([[x[1], x[0]], [2 * x[0], 0.0]])


_FAULTS_A = (
    Fault("rows-swapped", "the rows stand in the wrong order",
          "Your first row has the slopes of x1**2 + x2, and your second those of x1 * x2. The rows follow the outputs: "
          "y1 first.",
          "which output is the first one.",
          (_a(lambda x: _jacobian(x)[::-1]), lambda d: (_jacobian(d[0])[::-1], d[1] @ _jacobian(d[0])[::-1]))),
    Fault("flat-table", "the table is one long row",
          "Your four slopes stand in one list. J has two rows, one for each output, and each row is a list of its own.",
          "the brackets: [[..., ...], [..., ...]].",
          (lambda d: (_jacobian(d[0]).ravel(), None),)),
    Fault("exchanged", "the table and the answer are exchanged",
          "`J` has your two numbers, and `answer` your table.",
          "the two names, and the order in which `check` takes them: first J, then the answer.",
          (lambda d: (_vjp(*d), _jacobian(d[0])),)),
    Fault("in-a-table", "the answer has a pair of brackets too many",
          "The numbers of your answer {answer} are right. Asked for is a list of two numbers, one for each input, and "
          "yours is a table.",
          "the brackets: [..., ...].",
          (lambda d: (_jacobian(d[0]), _vjp(*d)[:, None]), lambda d: (_jacobian(d[0]), _vjp(*d)[None]))),
    Fault("lesson-numbers", "this is the table of the lesson",
          "Your J belongs to x1 = 2, x2 = 3, the point of lesson 05. The slopes change with the point, and here it is "
          "another one.",
          "the line that `given` prints.",
          (_a(lambda x: _jacobian(_LESSON)),)),
    Fault("x2-lost", "x2 is left out of the second output",
          "In the second row your slope in x2 is 0. But x2 is added in y2 = x1**2 + x2, so y2 grows as fast as x2.",
          "the last entry of the table.",
          (_a(_x2_lost),)),
    Fault("one-number", "the answer is one number, not one for each input",
          "Your table is right, and {answer} is the sum over both inputs. What arrives at x1 and what arrives at x2 "
          "stay apart: they are the slopes of two different things to move.",
          "over what you add: down each column, and no further.",
          (_a(answer=lambda J, v, y: (v @ J).sum()), _a(answer=lambda J, v, y: v @ y))),
    Fault("table-transposed", "the table lies on its side",
          "Your J is {J}. Its first row has the two slopes in x1. A row of a Jacobian belongs to one *output*: what "
          "each input does to y1. A column belongs to one input.",
          "the row of y1 alone: its slope in x1, then its slope in x2.",
          (_a(lambda x: _jacobian(x).T), lambda d: (_jacobian(d[0]).T, d[1] @ _jacobian(d[0]).T))),
    Fault("no-two", "the 2 of x1 ** 2 is missing",
          "In the second row you have x1 where 2 * x1 is right. In x1 * x1 two edges lead to x1, each with the slope "
          "x1.",
          "the slope of x1 ** 2.",
          (_a(_no_two),)),
    Fault("x2-kept", "the slope of x2 in x1**2 + x2 is not x2",
          "In the second row you wrote the value of x2. A slope says how fast y2 grows when x2 grows, and y2 grows as "
          "fast as x2 itself.",
          "the rule of the sum.",
          (_a(_x2_kept),)),
    Fault("own-value", "in x1 * x2 each input has its own value as slope",
          "Your first row is (x1, x2). The slope of a product in one input is the value of the *other* input.",
          "the rule of the product.",
          (_a(_own_value),)),
    Fault("from-the-right", "v is multiplied from the right",
          "Your table is right, and your answer {answer} is J times v: each row of the table with v. That is forward "
          "mode, and v would have to belong to the inputs. A cotangent belongs to the *outputs*: v1 is the weight of "
          "the first row, v2 that of the second.",
          "which of your two numbers belongs to x1, and which column of the table goes into it.",
          (_a(answer=lambda J, v, y: J @ v),)),
    Fault("ones-assumed", "both outputs count once",
          "Your table is right, and your answer {answer} adds its rows as they are. That is the answer to v = (1, 1). "
          "Here v says how much each output counts.",
          "where v1 and v2 stand in your calculation.",
          (_a(answer=lambda J, v, y: J.sum(axis=0)),)),
    Fault("one-row", "only one output is counted",
          "Your table is right, and your answer {answer} has one row of it only. That is the gradient of one output. v "
          "asks for both, each with its weight.",
          "the row that is missing, and its weight.",
          (_a(answer=lambda J, v, y: J[0]), _a(answer=lambda J, v, y: J[1]), _a(answer=lambda J, v, y: v[0] * J[0]),
           _a(answer=lambda J, v, y: v[1] * J[1]))),
    Fault("weights-swapped", "each row has the weight of the other",
          "Your table is right. In your answer {answer} the first row has the weight v2 and the second the weight v1.",
          "which entry of v belongs to which output.",
          (_a(answer=lambda J, v, y: v[::-1] @ J),)),
    Fault("not-added", "the weighted rows are not added up",
          "{answer} is the table with its rows weighted. Both rows lead to the same two inputs: what arrives at one "
          "input is added. The answer has one number for each input.",
          "the last step, from two rows to one.",
          (_a(answer=lambda J, v, y: v[:, None] * J),)),
    Fault("by-output", "there is one number for each output, not for each input",
          "Your answer {answer} adds along each row of the table, over the inputs. A backward pass goes to the inputs: "
          "it adds down each column, over the outputs.",
          "the first number of your answer: it should contain only slopes in x1.",
          (_a(answer=lambda J, v, y: v * J.sum(axis=1)), _a(answer=lambda J, v, y: J.sum(axis=1)))),
    Fault("values-weighted", "the values are weighted, not the slopes",
          "Your answer {answer} is made of the *values* of the outputs. A cotangent is a weight for slopes.",
          "the numbers that v is multiplied with: take them from the table.",
          (_a(answer=lambda J, v, y: v * y),)),
)

# 06.b: the product for any x and v.


def _cases_b(rng):
    def pair():
        return np.array([nonzero(rng), nonzero(rng)])

    def halves():
        return np.array([nonzero(rng, step=1.0), nonzero(rng, step=1.0)])

    cases = [("v = (2, 3), as in the lesson", np.array([2.0, 3.0]), np.array([2.0, 3.0])),
             ("v = (1, 0)", halves(), np.array([1.0, 0.0])), ("v = (0, 1)", halves(), np.array([0.0, 1.0])),
             ("any v", pair(), pair()), ("any v", pair(), pair()),
             # A step at x2 is lost beside x1**2. The right answer has no rounding, not even in float32.
             ("x1 large, v = (0, 1)", pair() * np.array([2.0**29, 1.0]), np.array([0.0, 1.0]))]
    return [Case(_Arrays(x, v), at) for at, x, v in cases]


class _Arrays:
    """Makes the two arrays of one call anew. The ids of Tensors that it draws tell whether the call made any."""

    def __init__(self, x, v):
        self.x, self.v, self.ids = x, v, []

    def __call__(self):
        self.ids.append(Tensor(0.0).id)
        return self.x.copy(), self.v.copy()


def _vjp(x, v):
    return v @ _jacobian(x)


def _table(table, join=lambda v, J: v @ J):
    return lambda x, v: join(v, table(x))


def _not_the_rule(attempt, answer, runs):
    """A diagnosis for numbers that come from the engine or from finite differences, right or nearly so."""
    for case, call, _ in runs:
        # The ids are drawn before the call twice, for its arguments, and once after it, for the right answer.
        first, second, third = case.args.ids[:3]
        if third - second > second - first:
            return attempt.fault("engine-used", (), None, call=call)
    *usual, (case, call, result) = runs
    if not all(same(run.value, _vjp(*c.fresh()), 0.01) for c, _, run in usual):
        return None
    want = _vjp(*case.fresh())
    if not same(result.value, want):
        said = "`{}` ({}) returned {}; expected {}.".format(call, case.at, *apart(result.value, want))
        return attempt.fault("differences", [said, *printed(result)], None)
    case, call, _ = usual[0]
    beside = _asked_beside(answer, case)
    if beside is not None:
        return attempt.fault("differences", [f"`{call}` called f at {show(beside)}."], None)
    return None


def _asked_beside(answer, case):
    """A point other than x at which the function calls the notebook's `f`, or None."""
    names = getattr(answer, "__globals__", {})
    f, asked = names.get("f"), []
    if not callable(f):
        return None

    def watched(x):
        asked.append(np.array(x))
        return f(x)

    x, v = case.fresh()
    names["f"] = watched
    try:
        run(answer, x.copy(), v)
    finally:
        names["f"] = f
    return next((point for point in asked if not np.array_equal(point, x)), None)


_FAULTS_B = (
    Fault("from-the-right", "v is multiplied from the right",
          "{got} is J @ v: each row of the Jacobian with v. A cotangent has one entry for each *output*, so it is a "
          "weight for rows: v @ J. Here both products can be computed, because there are as many outputs as inputs, "
          "and nothing warns you.",
          "the order of the product, and whether the rows of your J belong to the outputs; or, if you wrote it out, "
          "the entry of v that goes with 2 * x1.",
          (_table(_jacobian, lambda v, J: J @ v),)),
    Fault("ones-assumed", "v is not used: both outputs count once",
          "Whatever v is, your function returns the sum of the two rows of the Jacobian. That is the answer to "
          "v = (1, 1), which `backward` takes when you give it nothing.",
          "where v appears in your function.",
          (_table(_jacobian, lambda v, J: J.sum(axis=0)),)),
    Fault("one-row", "only one output is counted",
          "Your function answers for one output and forgets the other. Both contribute to each input, each with its "
          "own entry of v.",
          "how many terms your first number has: it needs two.",
          (_table(_jacobian, lambda v, J: J[0]), _table(_jacobian, lambda v, J: J[1]),
           _table(_jacobian, lambda v, J: v[0] * J[0]), _table(_jacobian, lambda v, J: v[1] * J[1]))),
    Fault("weights-swapped", "each output has the weight of the other",
          "v[0] belongs to the first output, x1 * x2, and v[1] to the second. You have them the other way round.",
          "v = (1, 0): the answer should be the slopes of x1 * x2.",
          (_table(_jacobian, lambda v, J: v[::-1] @ J),)),
    Fault("not-added", "the weighted rows are not added up",
          "You return a table: the Jacobian with each row times its entry of v. What comes to one input from both "
          "outputs is added, so there are two numbers, one for each input.",
          "the difference between v @ J and v[:, None] * J.",
          (_table(_jacobian, lambda v, J: v[:, None] * J),)),
    Fault("entry-by-entry", "the columns are weighted, not the rows",
          "Your entries of v go with the *inputs*: the first column of the Jacobian has v[0], the second v[1]. A "
          "cotangent goes with the outputs, the rows.",
          "what `v * J` does with a table: NumPy lines v up with its last axis.",
          (_table(_jacobian, lambda v, J: v * J), _table(_jacobian, lambda v, J: (v * J).sum(axis=0)),
           _table(_jacobian, lambda v, J: v * J.sum(axis=0)))),
    Fault("no-two", "the 2 of x1 ** 2 is missing",
          "Everything is right but one slope: that of x1 ** 2. Its two edges give x1 each, together 2 * x1.",
          "the slope of the second output in x1.",
          (_table(_no_two),)),
    Fault("own-value", "in x1 * x2 each input has its own value as slope",
          "With v = (1, 0) you return (x1, x2). The slope of a product in one input is the value of the other input.",
          "the rule of the product.",
          (_table(_own_value),)),
    Fault("x2-kept", "the slope of x2 in x1**2 + x2 is not x2",
          "With v = (0, 1) the second number should be 1, and yours is x2. y2 grows as fast as x2 itself.",
          "the rule of the sum.",
          (_table(_x2_kept),)),
    Fault("x2-lost", "x2 is left out of the second output",
          "With v = (0, 1) the second number should be 1, and yours is 0. x2 is added in the second output, which "
          "grows as fast as x2.",
          "the slope of x1**2 + x2 in x2.",
          (_table(_x2_lost),)),
    Fault("one-number", "there is one number, not one for each input",
          "{got} is the sum over both inputs. What arrives at x1 and what arrives at x2 stay apart.",
          "over what you add: the outputs, not the inputs.",
          (_table(_jacobian, lambda v, J: (v @ J).sum()),)),
    Fault("values-weighted", "the values are weighted, not the slopes",
          "{got} is made of the *values* of the outputs. A cotangent is a weight for slopes.",
          "the numbers that v is multiplied with.",
          (lambda x, v: v * _f(x), lambda x, v: v @ _f(x))),
    Fault("jacobian-returned", "the whole Jacobian is returned",
          "You return the table of all slopes. A vector-Jacobian product is one row of numbers: what v asks of this "
          "table.",
          "where v appears in your function.",
          (lambda x, v: _jacobian(x), lambda x, v: _jacobian(x).T)),
    Fault("fixed-numbers", "the slopes are fixed numbers",
          "Your Jacobian is the one at a single point, that of the lesson or of task a. At another x the slopes are "
          "others: three of the four have x in them.",
          "each number in your table. Which of them is x[0], which x[1], which 2 * x[0]?",
          tuple(lambda x, v, at=at: v @ _jacobian(at) for at in (_LESSON, *(deal[:2] for deal in _DEALS)))),
    Fault("whole-numbers", "the slopes are rounded to whole numbers",
          "Where x has whole numbers your function is right. `{call}` should be {want}, and what comes after the point "
          "was cut off. An array of integers does that to each number that is put into it.",
          "`dtype=int`, `astype(int)` or `int(...)` in your function.",
          (lambda x, v: v @ _jacobian(x).astype(int), lambda x, v: (v @ _jacobian(x)).astype(int),
           lambda x, v: v.astype(int) @ _jacobian(x).astype(int))),
    Fault("engine-used", "the engine did the work",
          "The numbers may be right, but they come from the engine: during `{call}` Tensors were made. This task is to "
          "do by hand what the engine does.",
          "the slopes of the two outputs. Use x, v, numbers and NumPy only."),
    Fault("differences", "the slopes are measured, not worked out",
          "These are finite differences: f at a point beside x, and the change divided by the step. That is near the "
          "slope, and no more. Where x1 is large, a small step at x2 is lost beside x1**2. A rule gives each slope "
          "from x alone, without a step.",
          "the four slopes of task a. Write each of them as an expression in x[0] and x[1]."),
    CHANGED_INPUT, NO_RETURN,
)

# 06.c: the number whose gradient is the product.


def _cases_c(rng):
    def case(at, x, v):
        return Case(lambda: (Var(x, name="x"), v.copy()), at)

    def pair():
        return np.array([nonzero(rng), nonzero(rng)])

    return [case("x = (2, 3), v = (2, 3)", np.array([2.0, 3.0]), np.array([2.0, 3.0])),
            case("v = (1, 0)", pair(), np.array([1.0, 0.0])), case("v = (1, 1)", pair(), np.array([1.0, 1.0])),
            case("any v", pair(), pair()), case("any v", pair(), pair())]


def _observed(value):
    """What a returned value shows: its numbers, and the gradient of x that a backward pass from it gives."""
    gradient = None
    if isinstance(value, GradStore):
        value = "a whole store"
    if isinstance(value, (list, tuple)):
        value = [v.data if isinstance(v, Tensor) else v for v in value]
    if isinstance(value, Tensor):
        try:
            store = value.backward()
            gradient = next((store[t].data for t in sorted_nodes(value) if t.is_variable and t.name == "x"), None)
        except Exception:
            gradient = None
        value = value.data
    numbers = as_array(value)
    if numbers is not None:
        # One number may come in any shape with one entry.
        value = numbers if numbers.size != 1 else float(numbers.reshape(()))
    return {"value": value, "gradient of x": gradient}


def _right_c(x, v):
    at = x.data
    return {"value": float(v @ _f(at)), "gradient of x": _vjp(at, v)}


def _with_cut(x, v, *cuts):
    """The number of task c, with some of its four x as plain numbers."""
    a, b, c, d = (x[k].item() if cut else x[k] for k, cut in zip((0, 1, 0, 1), cuts))
    return v[0] * (a * b) + v[1] * (c**2 + d)


_FAULTS_C = (
    Fault("no-weights", "the outputs are added without weights",
          "Your number is y1 + y2. Its gradient is the answer to v = (1, 1) alone. v says how much each output counts "
          "in the number.",
          "where v appears in your function.",
          (lambda x, v: _f(x).sum(),)),
    Fault("weights-swapped", "each output has the weight of the other",
          "v[0] is the weight of the first output, x1 * x2, and v[1] that of the second. You have them the other way "
          "round.",
          "v = (1, 0): your number should be x1 * x2.",
          (lambda x, v: (_f(x) * v[::-1]).sum(),)),
    Fault("two-numbers", "there are two numbers, not one",
          "You return two entries, each output times its weight. Asked for is one number. (An array with two entries "
          "has the right gradient here, because `backward` without a cotangent begins with ones, and so means the sum. "
          "Elsewhere, as in PyTorch, it is an error.)",
          "what makes one number of two.",
          (lambda x, v: _f(x) * v, lambda x, v: [v[0] * _f(x)[0], v[1] * _f(x)[1]])),
    Fault("outputs-returned", "the outputs are returned as they are",
          "You return f(x). It has two entries, and v is not in it. Asked for is one number, in which each output "
          "counts as much as v says.",
          "where v appears in your function.",
          (lambda x, v: _f(x), lambda x, v: [_f(x)[0], _f(x)[1]])),
    Fault("added-to-outputs", "v is added, not multiplied",
          "A number that is added shifts the outputs, and leaves their slopes as they are. A weight multiplies.",
          "what stands between f(x) and v.",
          (lambda x, v: (_f(x) + v).sum(), lambda x, v: _f(x) + v)),
    Fault("averaged", "the weighted outputs are averaged",
          "Your number and its gradient are half of the right ones: a mean divides by the number of entries.",
          "the operation that makes one number of two.",
          (lambda x, v: (_f(x) * v).mean(),)),
    Fault("cut", "the number is right, and has no history",
          "Your value is right, but a backward pass from it finds no way to x. `.data`, `.item()` and `float` give "
          "plain numbers, and what is computed from these is not recorded.",
          "the lines in which a plain number is made of a Tensor. Compute with x itself.",
          (lambda x, v: v @ _f(x.data),)),
    MADE_PLAIN,
    Fault("half-cut", "only one of the outputs has a history",
          "Your value is right, and your gradient is that of one output alone. The other one was made a plain number "
          "on the way, with `.data`, `.item()` or from x.data.",
          "the term of your sum in which the history ends.",
          (lambda x, v: v[0] * _f(x)[0] + v[1] * _f(x.data)[1], lambda x, v: v[0] * _f(x.data)[0] + v[1] * _f(x)[1])),
    Fault("factor-cut", "the history of one factor is cut",
          "Your value is right, and one of the four slopes is missing: a single x[0] or x[1] was made a plain number "
          "before it was multiplied or added, and the engine takes it for a constant.",
          "each place where x stands in your function: `.data`, `.item()` and `.detach()` behind it.",
          tuple(lambda x, v, cut=cut: _with_cut(x, v, *cut) for cut in product((False, True), repeat=4) if any(cut))),
    Fault("answer-returned", "the answer itself is returned, not the number it belongs to",
          "What you return are the entries of v @ J, or the store with them. Asked for is the number whose gradient "
          "they are. You need no slope to write it down; the engine finds the slopes.",
          "the table of lesson 05: for v = (2, 3) it names a number made of y1 and y2.",
          (lambda x, v: _vjp(x.data, v), lambda x, v: _f(x).backward(v),
           lambda x, v: np.stack([v[0] * x[1] + 2 * v[1] * x[0], v[0] * x[0] + v[1]]),
           lambda x, v: v[0] * x[1] + 2 * v[1] * x[0] + v[0] * x[0] + v[1])),
    Fault("weights-on-inputs", "the weights are put on the inputs",
          "You multiply v with x. A cotangent has one entry for each *output*: first compute the outputs, then weight "
          "them.",
          "the order of the two steps: f, then v.",
          (lambda x, v: _f(v * x).sum(), lambda x, v: (v * x).sum(), lambda x, v: _f(v * x))),
    Fault("squared", "the outputs are squared",
          "Your number grows with the square of the outputs, so its gradient has a factor more. To weight is only to "
          "multiply by v.",
          "what the slope of your number in y1 is. It should be v[0], and nothing else.",
          (lambda x, v: ((_f(x) * v) ** 2).sum(), lambda x, v: ((_f(x) - v) ** 2).sum(),
           lambda x, v: (v * _f(x) ** 2).sum())),
    Fault("multiplied", "the two outputs are multiplied",
          "In a product, y1 is a weight for y2. The weights are in v; between the two outputs stands a plus.",
          "what the slope of your number in y1 is. It should be v[0], and nothing else.",
          (lambda x, v: (_f(x) * v).prod(), lambda x, v: _f(x).prod())),
    Fault("one-output", "only one output is in the number",
          "Your number does not change when the other output does. Both count, each with its entry of v.",
          "how many terms your number has.",
          (lambda x, v: v[0] * _f(x)[0], lambda x, v: v[1] * _f(x)[1], lambda x, v: _f(x)[0], lambda x, v: _f(x)[1])),
    NO_RETURN,
)

# 06.d: the whole table, a row for each pass.


class Pullback:
    """A pullback that shows its name, counts its calls and takes one cotangent at a time."""

    def __init__(self, table):
        self._table, self.calls = np.asarray(table, float), 0

    def __call__(self, v):
        self.calls += 1
        v, wanted = np.asarray(v, float), (len(self._table),)
        if v.shape != wanted:
            raise ValueError(f"a cotangent has one entry for each output: shape {wanted}, not {v.shape}")
        return v @ self._table

    def __repr__(self):
        return "pullback"


class _Pulled:
    """Makes a pullback anew for each call, and remembers them: the first goes to the learner's function."""

    def __init__(self, table):
        self.table, self.made = np.asarray(table, float), []

    def __call__(self):
        self.made.append((Pullback(self.table), len(self.table)))
        return self.made[-1]


def _cases_d(rng):
    def table(*shape):
        numbers = rng.sample([-7.0, -5.0, -4.5, -3.0, -2.5, 1.5, 2.0, 3.5, 4.0, 5.5, 6.0, 8.0], shape[0] * shape[1])
        return np.array(numbers).reshape(shape)

    return [Case(_Pulled([[3.0, 2.0], [4.0, 1.0]]), "f of the lesson, at (2, 3)"),
            Case(_Pulled(table(3, 2)), "3 outputs, 2 inputs"), Case(_Pulled(table(2, 4)), "2 outputs, 4 inputs"),
            Case(_Pulled(table(1, 3)), "1 output, 3 inputs")]


def _rows(pullback, outputs):
    return np.stack([pullback(unit) for unit in np.eye(outputs)])


def _growing(pullback, outputs):
    v, rows = np.zeros(outputs), []
    for i in range(outputs):
        v[i] = 1.0
        rows.append(pullback(v))
    return np.stack(rows)


def _square(put):
    def wrong(pullback, outputs):
        table = np.zeros((outputs, outputs))
        for i, unit in enumerate(np.eye(outputs)):
            put(table, i, pullback(unit))
        return table

    return wrong


def _wasteful(attempt, answer, runs):
    if any(not same(result.value, case.args.table) for case, _, result in runs):
        return None
    for case, call, _ in runs:
        pullback, outputs = case.args.made[0]
        if pullback.calls == outputs + 1 and outputs > 1:
            return attempt.fault("one-pass-more", [f"`{call}` ({case.at}) returned the right table."], None,
                                 outputs=outputs)
        if pullback.calls > outputs:
            words = dict(call=call, calls=pullback.calls, outputs=outputs, name=name_of(answer))
            return attempt.fault("too-many-passes", [f"`{call}` ({case.at}) returned the right table."], None, **words)
    return None


_FAULTS_D = (
    Fault("transposed", "the rows are put up as columns",
          "Each call of the pullback gives a *row*: what all inputs do to one output. You stand the rows up as "
          "columns. With as many outputs as inputs the shape does not show it.",
          "the axis along which you stack, or a `.T`.",
          (lambda p, n: np.stack([p(unit) for unit in np.eye(n)], axis=1), lambda p, n: _rows(p, n).T)),
    Fault("ones-assumed", "the pullback is asked once, with ones",
          "With ones, all outputs count at once, and their rows come back added up. From a sum nobody can tell the "
          "rows apart. A cotangent with a single 1 asks for one row alone.",
          "the cotangent that asks for the first row, and nothing else.",
          (lambda p, n: p(np.ones(n)), lambda p, n: np.stack([p(np.ones(n))] * n),
           lambda p, n: np.stack([p(np.ones(n)) for _ in range(n)]) / n)),
    Fault("one-row", "only one row is there",
          "You asked one question, and got one row. Each output needs a question of its own.",
          "how often the pullback is called. It should be called once for each output.",
          (lambda p, n: p(np.eye(n)[0]), lambda p, n: [p(np.eye(n)[0])], lambda p, n: p(np.eye(n)[-1]))),
    Fault("unit-not-reset", "from the second row on, earlier rows are added in",
          "Your first row is right, and each later one is the sum of all up to it. The 1 of the row before is still in "
          "your cotangent.",
          "the array that you hand to the pullback in the second turn.",
          (_growing,)),
    Fault("all-at-once", "the pullback is given a table",
          "A cotangent is one question: one entry for each output. You handed over all of them together, as a table.",
          "a loop over the rows of that table.",
          (lambda p, n: p(np.eye(n)),)),
    Fault("a-number", "the pullback is given a number",
          "A cotangent says for *each* output how much it counts, so it has as many entries as there are outputs. A "
          "number in place of it says nothing about the others.",
          "how to write \"the first output once, the others not at all\".",
          (lambda p, n: [p(i) for i in range(n)], lambda p, n: [p(1) for i in range(n)],
           lambda p, n: [p([1]) for i in range(n)])),
    Fault("square", "the table is made square",
          "You made a table with as many columns as rows. The number of inputs is another one here, and the rows that "
          "come back do not fit. How many inputs there are, each row tells by its length.",
          "the line in which the table is made. A list of rows needs no size in advance.",
          (_square(lambda J, i, row: J.__setitem__(i, row)),
           _square(lambda J, i, row: J.__setitem__((slice(None), i), row)))),
    Fault("first-entry", "only the first entry of each row is kept",
          "{got}: from each answer you took the entry of the first input. The pullback returns an array with one entry "
          "for each input, and the whole array is a row. (`ad.vjp` of the lesson wraps it in a tuple; here it comes as "
          "it is.)",
          "the [0] behind the call.",
          (lambda p, n: np.array([p(unit)[0] for unit in np.eye(n)]),)),
    Fault("flat", "the rows are put one behind the other",
          "Your numbers are right, and in the right order, but they stand in one long line. A Jacobian is a table: one "
          "row for each output.",
          "what joins the rows: np.concatenate makes one line of them, np.stack a table.",
          (lambda p, n: np.concatenate([p(unit) for unit in np.eye(n)]),)),
    Fault("one-pass-more", "one pass too many",
          "But the pullback was called once more than there are outputs, {outputs}. Each call is a backward pass. If "
          "you wanted to know how many inputs there are: any of the rows tells it by its length.",
          "the call that is not for a row. A list of rows needs no size in advance."),
    Fault("too-many-passes", "more passes than outputs",
          "But the pullback was called {calls} times for {outputs} outputs. One call gives a whole row. To ask for "
          "each entry separately is the work of finite differences again.",
          "what you do with the other entries that a call returns."),
    EARLY_RETURN, NO_RETURN,
)

TASKS = (
    by_hand(
        "06.a", "a Jacobian, and what v asks of it", ("J", "answer"), deal=_deal, given=_given_a,
        right=lambda d: (_jacobian(d[0]), _vjp(*d)), faults=_FAULTS_A, how=_how_a,
        hints=(
            "First the table: four slopes, a row for each output. Then read v: how much does each *row* count?",
            "                 slope in x1    slope in x2\n"
            "    y1 = x1*x2    ?              ?            <-- counts v1 times\n"
            "    y2 = x1**2+x2 ?              ?            <-- counts v2 times\n"
            "                  |              |\n"
            "                  added up       added up\n"
            "                  = answer[0]    = answer[1]",
            "Fill in:\n\n"
            "    J = [[..., ...],        # of y1: in x1, in x2\n"
            "         [..., ...]]        # of y2: in x1, in x2\n"
            "    answer = [v1 * J[0][0] + v2 * ...,\n"
            "              v1 * ...     + v2 * ...]"),
        good="v weights the rows, the outputs, and what arrives at an input is added: v @ J."),
    function(
        "06.b", "the vector-Jacobian product for any v", "vjp", "x, v", cases=_cases_b, right=_vjp, faults=_FAULTS_B,
        look_at=_not_the_rule, expects="two numbers: one for x1, one for x2",
        hints=(
            "Do what you did by hand, with x[0], x[1], v[0] and v[1] in place of the numbers.",
            "Two outputs send something to each input:\n\n"
            "        v[0]        v[1]\n"
            "         y1          y2\n"
            "        /  \\        /  \\\n"
            "      x1    x2    x1    x2\n\n"
            "On each of the four edges stands a slope.",
            "With the table:\n\n"
            "    def vjp(x, v):\n"
            "        J = np.array([[..., ...],\n"
            "                      [..., ...]])\n"
            "        return ...          # v and J: in which order?"),
        good="Right for every v: a weight for each output, a number for each input."),
    function(
        "06.c", "the number whose gradient it is", "objective", "x, v", cases=_cases_c, right=_right_c,
        faults=_FAULTS_C, tidy=_observed, did="gave", expects="one number, as a Tensor that was computed from x",
        hints=(
            "In the lesson, v = (2, 3) asked for the slopes of 2 * y1 + 3 * y2. Which number is it for any v?",
            "    x --> f --> y1 --(weight v[0])--\\\n"
            "                                     one number\n"
            "            --> y2 --(weight v[1])--/\n\n"
            "The slope of this number in y1 must be v[0], and in y2 it must be v[1].",
            "No derivative is needed here:\n\n"
            "    def objective(x, v):\n"
            "        y = f(x)            # two outputs in one array, recorded\n"
            "        return ...          # one number, made of y and v"),
        good="v @ J is the gradient of one number, v1 * y1 + v2 * y2, and so one backward pass is enough."),
    function(
        "06.d", "the whole Jacobian, a row for each pass", "jacobian", "pullback, outputs", cases=_cases_d,
        right=_rows, faults=_FAULTS_D, look_at=_wasteful,
        expects="a table with one row for each output",
        hints=(
            "Which cotangent makes the answer exactly the first row? And which one the second?",
            "    v          v @ J\n"
            "    (1, 0, 0)  row 1\n"
            "    (0, 1, 0)  row 2\n"
            "    (0, 0, 1)  row 3\n\n"
            "`np.eye(3)` has these three as its rows.",
            "One question for each output:\n\n"
            "    def jacobian(pullback, outputs):\n"
            "        rows = []\n"
            "        for i in range(outputs):\n"
            "            v = ...                  # a single 1, at place i\n"
            "            rows.append(...)\n"
            "        return np.array(rows)"),
        good="One backward pass gives one row; as many passes as outputs give the whole Jacobian."),
)
