"""Checks of exercise 16, find the faults: rules as three libraries wrote them, and inputs that show which are wrong.

The rules are those of candle 0.11 (`backprop.rs`), of HIPS autograd (`numpy_vjps.py`, `linalg.py`) and of PyTorch
(its derivatives, some of an older release, and its documentation of `scatter_`), each as one line of this engine. Wrong
answers as a learner would type them, each with the fault it must be given, are in wrong_answers/16.txt.
"""

import numpy as np

import autodiff as ad
from autodiff.course.evidence import Written, drawn, evidence
from autodiff.course.judge import Fault

CANDLE, HIPS, TORCH = "candle", "HIPS autograd", "PyTorch"


def _norm(x):
    return np.linalg.norm(x)


def _masked_root(x):
    # The double where: the root never sees a number that it must not see.
    safe = np.where(x > 0, x, 1.0)
    return np.where(x > 0, np.sqrt(safe), x)


def _clip(x):
    return np.clip(x, 0, 1)


# 16.a: rules of one vector.

_TIES = "g * (x == y)"
_POOL_A = (
    Written("abs(x)", "np.abs(x)", {"x": "g * np.where(x >= 0, 1, -1)"}, np.abs, False, CANDLE),
    Written("abs(x)", "np.abs(x)", {"x": "g * np.sign(x)"}, np.abs, False, TORCH),
    Written("relu(x)", "np.maximum(x, 0)", {"x": "g * (x >= 0)"}, ad.relu, False, CANDLE),
    Written("relu(x)", "np.maximum(x, 0)", {"x": "g * (x > 0)"}, ad.relu, False, TORCH),
    Written("clip(x, 0, 1)", "np.clip(x, 0, 1)", {"x": "g * ((y != 0) & (y != 1))"}, _clip, False, HIPS),
    Written("clip(x, 0, 1)", "np.clip(x, 0, 1)", {"x": "g * ((x >= 0) & (x <= 1))"}, _clip, False, TORCH),
    Written("max(x)", "np.max(x)", {"x": "g * (x == y)"}, np.max, True, CANDLE),
    Written("max(x)", "np.max(x)", {"x": "g * (x == y) / np.sum(x == y)"}, np.max, False, HIPS),
    Written("min(x)", "np.min(x)", {"x": "g * (x == y)"}, np.min, True, CANDLE),
    Written("norm(x)", "np.sqrt(np.sum(x * x))", {"x": "g / y * x"}, _norm, True, HIPS),
    Written("prod(x)", "np.prod(x)", {"x": "g * y / x"}, np.prod, True, HIPS),
    Written("sinc(x)", "np.sinc(x)", {
        "x": "g * (np.pi * x * np.cos(np.pi * x) - np.sin(np.pi * x)) / (np.pi * x * x)"},
        np.sinc, True, "PyTorch 1.8"),
    Written("root(x)", "np.where(x > 0, np.sqrt(x), x)", {
        "x": "np.where(x > 0, g, 0) * 0.5 / np.sqrt(x) + np.where(x > 0, 0, g)"},
        _masked_root, True, "all three"),
    Written("tanh(x)", "np.tanh(x)", {"x": "g / np.cosh(x) ** 2"}, np.tanh, False, HIPS),
    Written("sqrt(x)", "np.sqrt(x)", {"x": "g / y * 0.5"}, np.sqrt, False, CANDLE),
    Written("elu(x)", "np.where(x > 0, x, np.expm1(x))", {"x": "g * ((x > 0) + (x <= 0) * (y + 1))"},
            ad.elu, False, CANDLE),
)
_FIRST_A = ("relu(x), candle", "norm(x), HIPS autograd", "clip(x, 0, 1), HIPS autograd", "max(x), candle",
            "tanh(x), HIPS autograd", "sinc(x), PyTorch 1.8", "sqrt(x), candle")

# 16.b: rules that move entries, and rules of two inputs.


def _pool(x):
    return x.reshape(-1, 2).max(axis=1)


_MASK = "(x == np.repeat(y, 2))"
_INDEXED = {"x": "g", "index": None, "src": "g[index]"}
_POOL_B = (
    Written("scatter(x, index, src)", "written(x, index, src)", _INDEXED, lambda x, i, s: ad.scatter(x, 0, i, s),
            True, CANDLE),
    Written("scatter(x, index, src)", "written(x, index, src)",
            {"x": "written(g, index, 0 * src)", "index": None, "src": "g[index]"},
            lambda x, i, s: ad.scatter(x, 0, i, s), True, TORCH),
    Written("scatter_add(x, index, src)", "added(x, index, src)",
            {"x": "written(g, index, 0 * src)", "index": None, "src": "g[index]"},
            lambda x, i, s: ad.scatter_add(x, 0, i, s), True, CANDLE),
    Written("scatter_add(x, index, src)", "added(x, index, src)", _INDEXED, lambda x, i, s: ad.scatter_add(x, 0, i, s),
            False, TORCH),
    Written("take(x, index)", "x[index]", {"x": "added(0 * x, index, g)", "index": None}, lambda x, i: x[i],
            False, CANDLE),
    Written("max_pool(x)", "x.reshape(-1, 2).max(axis=1)", {
        "x": f"np.repeat(g * {_MASK}.reshape(-1, 2).mean(axis=1), 2) * {_MASK}"}, _pool, True, CANDLE),
    Written("max_pool(x)", "x.reshape(-1, 2).max(axis=1)", {
        "x": "(g[:, None] * (np.arange(2) == x.reshape(-1, 2).argmax(axis=1)[:, None])).reshape(-1)"},
        _pool, False, TORCH),
    Written("maximum(a, b)", "np.maximum(a, b)", {"a": "g * ((a > b) + 0.5 * (a == b))",
                                                  "b": "g * ((b > a) + 0.5 * (a == b))"}, np.maximum, False, TORCH),
    Written("power(x, c)", "x ** c", {"x": "g * x ** (c - 1.0) * c", "c": None}, lambda x, c: x**c, True, CANDLE),
    Written("power(x, c)", "x ** c", {"x": "g * c * x ** np.where(c == 0, 1, c - 1)", "c": None}, lambda x, c: x**c,
            False, HIPS),
    Written("logaddexp(a, b)", "np.logaddexp(a, b)", {"a": "g * np.exp(a - y)", "b": "g * np.exp(b - y)"},
            np.logaddexp, False, HIPS),
    Written("divide(a, b)", "a / b", {"a": "g / b", "b": "-(g * a) / b ** 2"}, lambda a, b: a / b, False, HIPS),
)
_FIRST_B = ("power(x, c), candle", "scatter(x, index, src), PyTorch", "take(x, index), candle", "max_pool(x), candle",
            "scatter_add(x, index, src), PyTorch", "maximum(a, b), PyTorch")

# 16.c: the first derivative is right in all of them.

_SINC = "(np.pi * x * np.cos(np.pi * x) - np.sin(np.pi * x)) / (np.pi * x * x)"
_POOL_C = (
    Written("(x * x) * x", "(x * x) * x", {"x": "g * (x * x + 2 * x * cut(x))"}, lambda x: x**3, True, CANDLE),
    Written("x * x", "x * x", {"x": "g * (x + x)"}, lambda x: x * x, False, CANDLE),
    Written("exp(x)", "np.exp(x)", {"x": "g * y"}, np.exp, False, CANDLE),
    Written("exp(2 * x)", "np.exp(2 * x)", {"x": "g * cut(2 * y)"}, lambda x: np.exp(2 * x), True, CANDLE),
    Written("sin(x) ** 2", "np.sin(x) ** 2", {"x": "g * cut(2 * np.sin(x)) * np.cos(x)"}, lambda x: np.sin(x) ** 2,
            True, CANDLE),
    Written("log(x * x)", "np.log(x * x)", {"x": "g * cut(1 / (x * x)) * 2 * x"}, lambda x: np.log(x * x), True,
            CANDLE),
    Written("prod(x)", "np.prod(x)", {"x": "g * (others(x) if np.sum(x == 0) < 2 else cut(others(x)))"}, np.prod, True,
            "PyTorch 2.1"),
    Written("sinc(x)", "np.sinc(x)", {"x": f"g * np.where(x == 0, 0, {_SINC})"}, np.sinc, True, TORCH),
    Written("relu(x)", "np.maximum(x, 0)", {"x": "g * (x > 0)"}, ad.relu, False, TORCH),
    Written("sqrt(x)", "np.sqrt(x)", {"x": "g / y * 0.5"}, np.sqrt, False, CANDLE),
    Written("abs(x)", "np.abs(x)", {"x": "g * np.sign(x)"}, np.abs, False, TORCH),
    Written("2 * exp(x)", "2 * np.exp(x)", {"x": "g * cut(2.0) * np.exp(x)"}, lambda x: 2 * np.exp(x), False, CANDLE),
    Written("tanh(x)", "np.tanh(x)", {"x": "g * (1 - y * y)"}, np.tanh, False, CANDLE),
)
_FIRST_C = ("2 * exp(x), candle", "exp(2 * x), candle", "abs(x), PyTorch", "(x * x) * x, candle", "x * x, candle",
            "prod(x), PyTorch 2.1")

# Faults. None of them says more than the learner can ask the checker.

_ONLY_LETTERS = Fault(
    "only-letters", "letters without inputs",
    "A letter alone is an opinion, and a guess names letters too. A rule is shown to be wrong by an input at which the "
    "checker refuses it.",
    "write a dict: the letter, then an input. Try it first with `rules[letter]` in a cell of your own.")
_A_CHOICE = Fault(
    "a-choice", "a choice at a kink is taken for a mistake",
    "{letter} is {rule}. At {at}, or very near, this function has a kink, and gradcheck accepts the rule there: its "
    "value lies between the slopes on the two sides. Libraries choose different values at a kink, and each of them is "
    "valid.",
    "the report at this input: it names the interval of valid values, and the one that the rule takes.")
_ACCEPTED = Fault(
    "accepted", "gradcheck accepts the rule at this input",
    "{letter} is {rule}. At {at} gradcheck says: {verdict}. So this input shows nothing. A rule may be right "
    "everywhere, or right here and wrong somewhere else.",
    "what the rule divides by, what it compares, what it adds up. Try an input that makes this special. If gradcheck "
    "accepts all of them, the letter does not belong here.")
_NOWHERE = "{letter} is {rule}. At {at} the checker refuses it, and refuses the right rule as well ({right_verdict}). "
_RIGHT_FAILS = Fault(
    "right-fails-too", "no rule passes at this input",
    _NOWHERE + "The function has no finite slope there, so this input says nothing about the rule.",
    "the last column of the table. Choose an input at which a right rule is accepted.")
_NO_VALUE = Fault(
    "value-not-finite", "the function has no finite value at this input",
    _NOWHERE + "The *value* is infinite or NaN there: the input lies outside the function's domain, or a step of the "
    "computation is too large for a float. Without a value there is no slope to compare.",
    "the value of the function at your input. Compute it in a cell of your own, then choose an input at which it is "
    "finite.")
_NOTHING_THERE = Fault(
    "nothing-there", "there is nothing to check at this input",
    _NOWHERE + "An input or an output without entries has no slope that could be wrong.",
    "the number of entries. One or two are enough for most of these rules, and there must be one.")
_NOT_JUDGED = Fault(
    "not-judged", "the checker cannot judge at this input",
    _NOWHERE + "The numbers are so large, or so small, that a difference of two values does not show the slope. Then "
    "a refusal says nothing about the rule.",
    "the size of your numbers. Inputs of ordinary size, and zeros, are enough for these rules.")
_MISSING = Fault(
    "missing", "a wrong rule is not in your answer",
    "Shown so far: {shown}. Among the rules that you did not name there is at least one that is wrong.",
    "each rule that is left, one at a time. Is it right for every input, or only for the inputs you tried?")
_ACCEPTED_SECOND = Fault(
    "accepted", "gradgradcheck accepts the rule at this input",
    "{letter} is {rule}. At {at} gradgradcheck says: {verdict}. So this input shows nothing. `cut` is a mistake only "
    "where the value it cuts moves with x, and a rule without `cut` may be right to any order.",
    "the derivative of the rule, by hand. Which term does `cut` take away, and at which x is that term not 0?")
_RIGHT_FAILS_SECOND = Fault(
    "right-fails-too", "no rule passes at this input",
    _NOWHERE + "There the gradient itself has no finite slope, so this input says nothing about the rule.",
    "the last column of the table. Choose an input at which a right rule is accepted.")
_NOTHING_THERE_SECOND = Fault(
    "nothing-there", "there is nothing to check at this input",
    _NOWHERE + "Either there is no entry, or the gradient does not use x there, and then it has no derivative to "
    "compare.",
    "the number of entries, and what the rule returns at your input. Does it depend on x there?")

TASKS = (
    evidence(
        "16.a", "rules of one input", "wrong",
        deal=lambda number: drawn(_POOL_A, _FIRST_A, number, (3, 2, 4)),
        asks="rules of one input. y: the output, g: the gradient that has arrived at y. Under each function: the "
             "gradient of x.",
        faults=(_ONLY_LETTERS, _A_CHOICE, _ACCEPTED, _RIGHT_FAILS, _NO_VALUE, _NOTHING_THERE, _NOT_JUDGED,
                _MISSING),
        hints=(
            "A random input finds none of these mistakes. Read each rule and ask which input would be special for it. "
            "Then let gradcheck decide: what looks odd may be right.",
            "What to look for in a rule:\n\n"
            "    in the rule        try an input with\n"
            "    x == y             two equal entries\n"
            "    a division         a zero where it divides\n"
            "    x > 0, x >= 0      exactly 0\n"
            "    y != 1             an entry at the bound\n"
            "    cosh, exp          a large number\n\n"
            "Read each verdict to its end. Is the rule refused, or accepted *at a kink*?",
            "Try your inputs one after the other, and keep those that are refused:\n\n"
            "    for letter, at in {\"A\": [0.0, 2.0], ...}.items():\n"
            "        report = ad.gradcheck(rules[letter], np.array(at), raise_exception=False)\n"
            "        print(letter, bool(report), report.first_line)\n\n"
            "    wrong = {...}   # letter: input, for the refused ones"),
        good="Each wrong rule is shown by an input at which gradcheck refuses it and accepts a right one. The others "
             "are right, also where they look odd: a value at a kink is a choice, and an infinity inside may end as a "
             "right 0."),
    evidence(
        "16.b", "rules of several inputs", "wrong",
        deal=lambda number: drawn(_POOL_B, _FIRST_B, number, (3, 2, 4)),
        asks="rules of several inputs, all vectors; index and c are whole numbers and get no gradient.\n"
             "    written(x, index, v) is x with v written at index: of two writes to one place the last stays.\n"
             "    added(x, index, v) is x with v added at index: a place that is named twice gets both.",
        faults=(_ONLY_LETTERS, _A_CHOICE, _ACCEPTED, _RIGHT_FAILS, _NO_VALUE, _NOTHING_THERE, _NOT_JUDGED,
                _MISSING),
        hints=(
            "For each input ask: if this entry grows by a little, which outputs move, and by how much? An entry that "
            "is overwritten moves nothing. An entry that is read twice moves two outputs.",
            "An index that names one place twice is the hard case. With index = [2, 2]:\n\n"
            "    added:    src[0] --+--> y[2]      both move y[2]\n"
            "              src[1] --+\n\n"
            "    written:  src[0] --x              only one of the two\n"
            "              src[1] -----> y[2]      is still there\n\n"
            "And what becomes of x[2] in each of the two?",
            "One input is a tuple with a value for each operand. Whole numbers stay whole:\n\n"
            "    at = (np.zeros(3), np.array([0, 1]), np.array([5.0, 6.0]))\n"
            "    print(ad.gradcheck(rules[\"B\"], at, raise_exception=False).first_line)\n\n"
            "Which index makes it refuse? Then write the inputs down:\n\n"
            "    wrong = {\"...\": (..., ..., ...), ...}"),
        good="A repeated index and zero to the power of zero show what ordinary inputs hide. Some rules are "
             "wrong everywhere, and a rule that is wrong for one function is right for another."),
    evidence(
        "16.c", "wrong in the second order", "wrong", second=True,
        deal=lambda number: drawn(_POOL_C, _FIRST_C, number, (3, 2, 4)),
        asks="the first derivative is right in all of these. cut(v) is v without its history, v.detach().\n"
             "    others(x) is for each entry the product of all other entries.",
        faults=(_ONLY_LETTERS, _ACCEPTED_SECOND, _RIGHT_FAILS_SECOND, _NO_VALUE, _NOTHING_THERE_SECOND,
                _NOT_JUDGED, _MISSING),
        hints=(
            "The first derivative is what the rule says. The second one is the derivative of the rule. So "
            "differentiate the rule, with everything inside `cut` held constant, and compare with the true second "
            "derivative.",
            "Two rules for the same function x ** 3, with g = 1:\n\n"
            "    rule          its value   its derivative\n"
            "    3 * x * x     3x²         6x\n"
            "    3 * x * c     3x²         3x      c = cut(x): the right number, and it stands still\n\n"
            "Which terms of your rules stand still, and should they move?",
            "Try one input for each, with gradgradcheck:\n\n"
            "    for letter, op in rules.items():\n"
            "        report = ad.gradgradcheck(op, np.array([...]), raise_exception=False)\n"
            "        print(letter, report.first_line)\n\n"
            "One rule may be right at ordinary inputs. Its text says when it does something else."),
        good="A rule gives the right first derivative when its value is right. For the second one it must also move in "
             "the right way."),
)
