"""Checks of exercise 08, a custom op: two partials, the op made of them, and a test that wrong partials cannot pass.

The op is sin(x * y) + x**2 throughout. Wrong answers as a learner would type them, each with the fault it must be
given, are in wrong_answers/08.txt.
"""

import ast
import inspect
import math
import re
import textwrap
from dataclasses import replace

import numpy as np

import autodiff as ad
from autodiff.course.forms import (
    CHANGED_INPUT,
    NO_RETURN,
    SLOTS,
    Case,
    apart,
    array,
    as_array,
    function,
    nonzero,
    same,
    set_right,
    show,
    tests,
)
from autodiff.course.judge import EARLY_RETURN, Fault, Task, function_or_reason, name_of, printed, run, stopped
from autodiff.course.looks import VERDICTS, Watch, half_done
from autodiff.course.result import WRONG, Table, safe_repr, show_number
from autodiff.recording import new_id

# 08.a: the two partials, as functions of plain arrays.


def _forward(x, y):
    return np.sin(x * y) + x**2


def _right_a(g, out, x, y):
    return g * (y * np.cos(x * y) + 2 * x), g * x * np.cos(x * y)


def _pair(by_x, by_y):
    """A wrong pair of partials as a function of what the learner's gets; g is multiplied in here."""
    return lambda g, out, x, y: (g * by_x(x, y), g * by_y(x, y))


_cos = lambda x, y: np.cos(x * y)
_by_x = lambda x, y: y * np.cos(x * y) + 2 * x
_by_y = lambda x, y: x * np.cos(x * y)
# Mistakes of 08.a that are made in 08.b too.
_no_cosine = _pair(lambda x, y: y + 2 * x, lambda x, y: x)
_no_inner = _pair(lambda x, y: _cos(x, y) + 2 * x, _cos)
_own_values = _pair(lambda x, y: x * _cos(x, y) + 2 * x, lambda x, y: y * _cos(x, y))


def _math_cos(g, out, x, y):
    return g * (y * math.cos(x * y) + 2 * x), g * x * math.cos(x * y)


def _cases_a(rng):
    def at(g, x, y, words):
        return Case((np.array(g), np.asarray(_forward(np.array(x), np.array(y))), np.array(x), np.array(y)), words)

    return [at(1.0, 3.0, 2.0, "as in the lesson, g = 1"),
            at(nonzero(rng), nonzero(rng), nonzero(rng), "single numbers"),
            at(array(rng, 2, 3), array(rng, 2, 3), array(rng, 2, 3), "arrays of shape (2, 3)"),
            at(nonzero(rng), 300.0 + rng.randrange(1, 90), 0.05 * rng.randrange(1, 9), "x much larger than y"),
            at(nonzero(rng), 0.0, nonzero(rng), "x = 0")]


def _tidy_a(value):
    """A pair that came as one array, or as a list, is a pair too."""
    if isinstance(value, np.ndarray) and value.ndim and len(value) == 2:
        return value[0], value[1]
    return tuple(value) if isinstance(value, list) else value


def _uses_engine(call, *args) -> bool:
    """Whether a call with plain arrays makes tensors."""
    before = new_id()
    run(call, *args)
    return new_id() - before > 1


def _look_at_a(attempt, answer, runs):
    if _uses_engine(answer, *runs[0][0].fresh()):
        return attempt.fault("engine-used", printed(runs[0][2]), None, call=runs[0][1])
    gots = [_tidy_a(result.value) for _, _, result in runs]
    wants = [_right_a(*case.fresh()) for case, _, _ in runs]
    unfinished = half_done(attempt, gots, wants)
    if unfinished is not None:
        return unfinished
    if not all(map(same, gots, wants)) and all(same(g, w, 1e-3) for g, w in zip(gots, wants)):
        k = [same(g, w) for g, w in zip(gots, wants)].index(False)
        return attempt.fault("few-digits", printed(runs[k][2]), None, call=runs[k][1], got=_digits(gots[k]),
                             want=_digits(wants[k]))
    return None


def _digits(pair) -> str:
    first = [float(np.ravel(as_array(p))[0]) for p in pair]
    return " and ".join(f"{v:.10g}" for v in first)


_FAULTS_A = (
    Fault("x2-dropped", "the term x**2 has no derivative in the partial for x",
          "At x = 3, y = 2 your share of x is y * cos(x*y) alone. But x is used twice: inside the sine, and in x**2. "
          "The second use brings 2x, and the two are added. At x = 0 nothing is missing, so a check there is content.",
          "the second term of the function: what is its derivative by x?",
          (_pair(lambda x, y: y * _cos(x, y), _by_y),)),
    Fault("without-2", "the derivative of x**2 lacks its 2",
          "Your share of x has x where 2x belongs. The two slots of x * x bring x each.",
          "the power rule for x**2.",
          (_pair(lambda x, y: y * _cos(x, y) + x, _by_y),)),
    Fault("x2-kept", "the term x**2 is still in the partial, not its derivative",
          "Your share of x contains x**2 itself. A partial is made from derivatives: x**2 gives 2x.",
          "the second term in the partial for x.",
          (_pair(lambda x, y: y * _cos(x, y) + x**2, _by_y),)),
    Fault("cos-missing", "the derivative of the sine is missing",
          "You differentiated x*y + x**2, without a sine around x*y. The outer function has a slope of its own, "
          "cos(x*y), and it multiplies the slope of what is inside. Near 0 the cosine is 1, and nobody notices.",
          "the chain rule: slope of the outer function, times slope of the inner one.",
          (_no_cosine,)),
    Fault("sin-kept", "the sine was left as a sine",
          "There is sin(x*y) where cos(x*y) belongs. How fast a sine grows is told by the cosine.",
          "the derivative of sin.",
          (_pair(lambda x, y: y * np.sin(x * y) + 2 * x, lambda x, y: x * np.sin(x * y)),)),
    Fault("sign", "the cosine has the wrong sign",
          "There is -cos(x*y) where +cos(x*y) belongs. It is the derivative of the cosine that has a minus.",
          "the derivative of sin, and its sign near 0, where a sine grows.",
          (_pair(lambda x, y: -y * _cos(x, y) + 2 * x, lambda x, y: -x * _cos(x, y)),)),
    Fault("inner-missing", "the derivative of x*y inside the sine is missing",
          "The cosine is there, but nothing multiplies it. Inside the sine stands x*y, and that has a slope too: y "
          "when x moves, x when y moves.",
          "the chain rule: which factor comes from the inside?",
          (_no_inner,)),
    Fault("own-value", "the inner slope is the value of the wrong slot",
          "In the share of x you multiply the cosine by x, or in that of y by y. The slope of x*y by x is y: the value "
          "in the *other* slot. With x = y there is no difference.",
          "the slope of x*y when only x moves, and when only y moves.",
          (_own_values,)),
    Fault("exchanged", "a share stands in the place of the other one",
          "The number is right, and it belongs to the other operand. The first of the two shares is that of x, the "
          "second that of y.",
          "the order of the two things that you return.",
          (lambda g, out, x, y: _right_a(g, out, x, y)[::-1],)),
    Fault("g-missing", "the cotangent g is not used",
          "You return a local derivative alone. A partial returns g times the local derivative. At g = 1 there "
          "is no difference, so the mistake shows only when the op stands inside a larger graph.",
          "where g appears in your function.",
          (lambda g, out, x, y: _right_a(1.0, out, x, y),)),
    Fault("g-once", "g multiplies one of the two terms only",
          "In the share of x, g multiplies only one term of the sum. Both go up the same edge, so both "
          "are multiplied: g * (first + second). With g = 1 it does not show.",
          "the brackets in the partial for x.",
          (lambda g, out, x, y: (g * y * _cos(x, y) + 2 * x, _right_a(g, out, x, y)[1]),
           lambda g, out, x, y: (y * _cos(x, y) + g * 2 * x, _right_a(g, out, x, y)[1]))),
    Fault("inside-changed", "the cosine is taken of something else than x*y",
          "Your cosine is that of one operand alone. The slope of the outer function is taken where the outer function "
          "was computed, at x*y.",
          "what stands in the brackets of your cosine.",
          (_pair(lambda x, y: y * np.cos(x) + 2 * x, lambda x, y: x * np.cos(y)),
           _pair(lambda x, y: y * np.cos(x) + 2 * x, lambda x, y: x * np.cos(x)),
           _pair(lambda x, y: y * np.cos(y) + 2 * x, lambda x, y: x * np.cos(x)))),
    Fault("cos-of-out", "the cosine is taken of the result",
          "You used cos(out). The slope of the sine is taken where the sine was, at x*y; `out` comes after it, and has "
          "x**2 in it. Some rules are short when they use the result. The one of the sine is not.",
          "what stands in the brackets of your cosine.",
          (lambda g, out, x, y: (g * (y * np.cos(out) + 2 * x), g * x * np.cos(out)),)),
    Fault("cos-of-each", "a product of two cosines stands where the cosine of a product belongs",
          "You have cos(x) * cos(y). That is not cos(x*y): the sine sees one number, the product.",
          "what stands inside the sine of the function.",
          (_pair(lambda x, y: y * np.cos(x) * np.cos(y) + 2 * x, lambda x, y: x * np.cos(x) * np.cos(y)),)),
    Fault("x2-by-y", "the term x**2 is in the partial for y",
          "Your share of y has a 2x in it. When only y moves, x**2 stands still, so it adds nothing.",
          "the partial for y, with x as a fixed number.",
          (_pair(_by_x, lambda x, y: x * _cos(x, y) + 2 * x),)),
    Fault("added", "the shares of the two operands are added",
          "`{call}` returned one sum. Shares are added where they arrive at the *same* node. x and y are two nodes, "
          "and each keeps its own.",
          "the last line: a comma where you have a plus.",
          (lambda g, out, x, y: sum(_right_a(g, out, x, y)),)),
    Fault("no-share-of-y", "y gets no share",
          "The share of x is right, and nothing, or 0, is there for y. But y stands inside the sine, so the result "
          "moves when y moves.",
          "what you return in the second place.",
          (lambda g, out, x, y: (_right_a(g, out, x, y)[0], 0.0 * y),
           lambda g, out, x, y: (_right_a(g, out, x, y)[0], 0.0),
           lambda g, out, x, y: (_right_a(g, out, x, y)[0], None),
           lambda g, out, x, y: _right_a(g, out, x, y)[0])),
    Fault("no-share-of-x", "x gets no share",
          "The share of y is right, and nothing, or 0, is there for x. But the result moves when x moves, in two ways "
          "even.",
          "what you return in the first place.",
          (lambda g, out, x, y: (0.0 * x, _right_a(g, out, x, y)[1]),
           lambda g, out, x, y: (0.0, _right_a(g, out, x, y)[1]),
           lambda g, out, x, y: (None, _right_a(g, out, x, y)[1]),
           lambda g, out, x, y: _right_a(g, out, x, y)[1])),
    Fault("summed", "the shares are summed over the entries",
          "With arrays you return a single number. Each entry of x has a share of its own: the share of x has the "
          "shape of x. A sum belongs here only where an entry was copied by broadcasting.",
          "`.sum()` or `np.dot` in your function.",
          (lambda g, out, x, y: tuple(map(np.sum, _right_a(g, out, x, y))),)),
    Fault("math-cos", "math.cos takes single numbers only",
          "With arrays, `{call}` stopped. The functions of the module `math` take one number; those of NumPy take "
          "arrays and single numbers, and Tensors too.",
          "each place with `math.` in your function. NumPy has the same name.",
          (_math_cos,)),
    Fault("few-digits", "right to a few digits, and then not any more",
          "`{call}` returned {got}, and {want} is right. The formula is not wrong, its arithmetic is too coarse: a "
          "conversion to float32, or a slope from two values that are close together.",
          "what in your function makes digits disappear. Two cosines and a few products keep about 15 of them."),
    Fault("engine-used", "the engine worked out the derivative",
          "`{call}` made Tensors: the derivative came from the engine. In this task the engine is who will ask *you*. "
          "It has a rule for the sine; for your own functions it has none.",
          "the derivative on paper: it needs nothing but products, a sum and a cosine."),
    NO_RETURN, CHANGED_INPUT,
)

_A = function(
    "08.a", "the two partials", "partials", "g, out, x, y", cases=_cases_a, right=_right_a, faults=_FAULTS_A,
    tidy=_tidy_a, look_at=_look_at_a, expects="a pair: the share of x, then the share of y",
    hints=(
        "Take the two operands one at a time. While x moves, y is a fixed number, as 7 would be. How often does x "
        "stand in sin(x*y) + x**2?",
        "The function as a graph, with a name for what is inside the sine:\n\n"
        "    x, y  ->  m = x*y  ->  s = sin(m)  ->  s + q\n"
        "    x     ->  q = x*x  ------------------^\n\n"
        "From the result down to x there are two ways. Along a way the slopes are multiplied; where ways meet, they "
        "are added. Down to y there is only one way. And g has arrived at the top, before all of this.",
        "Fill in the gaps:\n\n"
        "    slope = ...                  # of the sine, at x*y\n"
        "    by_x = g * (slope * ... + ...)\n"
        "    by_y = g * slope * ...\n"
        "    return by_x, by_y"),
    good="Two ways lead to x and one leads to y, and g multiplies all of it.")

# 08.b: the op.

_POINTS = "x = 3, y = 2"


def _cases_b(rng):
    """(words, c, x, y): the cotangent of the op is c, an array of the shape of x and y."""
    return [(_POINTS, np.array(1.0), np.array(3.0), np.array(2.0)),
            ("single numbers", np.array(nonzero(rng)), np.array(nonzero(rng)), np.array(nonzero(rng))),
            ("arrays of shape (2, 3)", array(rng, 2, 3), array(rng, 2, 3), array(rng, 2, 3))]


def _used(op, c, x, y):
    """Value and gradients of sum(c * op(x, y)), as the engine gets them; what was not reached is None."""
    x, y = ad.Var(x, name="x"), ad.Var(y, name="y")
    result = op(x, y)
    grads = (c * result).sum().backward()
    return result.data, grads.get(x), grads.get(y)


def _used_float32(op):
    x, y = (ad.Var(np.array([1.5, -2.0]), dtype="float32") for _ in "xy")
    return op(x, y).sum().backward()[x]


def _used_twice(op, x, y):
    """The derivatives of (share of x) + 2 * (share of y): only partials that take Tensors have them."""
    x, y = ad.Var(x), ad.Var(y)
    first = op(x, y).backward(detach="none")
    second = (first[x] + 2 * first[y]).backward()
    return tuple(second[v].data if v in second else 0.0 for v in (x, y))


def _right_twice(x, y):
    s, mixed = np.sin(x * y), np.cos(x * y) - x * y * np.sin(x * y)
    return 2 - y**2 * s + 2 * mixed, mixed - 2 * x**2 * s


def _partials_use_engine(op) -> bool:
    def call():
        values = [np.array(v) for v in (1.0, 0.5, 0.7, 0.9)]
        for partial in op.rule.partials or ():
            if partial is not None:
                partial(*values)

    return _uses_engine(call)


def _judge_b(attempt):
    make, = attempt.answers
    if hasattr(make, "rule"):
        return attempt.wrong(["`check` got an op. It wants the function that makes the op, and calls it."],
                             look=f'Pass the function itself: check("08.b", {attempt.task.wants[0]}).')
    reason = function_or_reason(attempt, make, "")
    if reason is not None:
        return reason
    result = run(make)
    problem = stopped(attempt, result, f"{name_of(make)}()")
    if problem is not None:
        text = str(result.error)
        if "takes the partials" in text:
            return attempt.fault("no-brackets" if _has_bare_decorator(make) else "one-function", problem.body, None)
        return problem
    op, said = result.value, printed(result)
    if op is None:
        return attempt.fault(NO_RETURN.id, said, None, call=f"{name_of(make)}()")
    if not callable(op):
        return attempt.wrong([f"`{name_of(make)}()` returned {safe_repr(op)}; expected the op itself.", *said],
                             look="Return the name of the decorated function, without calling it.")
    if getattr(op, "__module__", "") == "autodiff.custom":
        return attempt.fault("no-forward", said, None)
    if not hasattr(op, "rule"):
        return attempt.fault("plain-function", said, None, name=name_of(op))
    return _judge_op(attempt, op, said)


def _has_bare_decorator(function) -> bool:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except Exception:
        return True
    made = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return any(not isinstance(decorator, ast.Call) for node in made for decorator in node.decorator_list)


def _judge_op(attempt, op, said):
    name, cases = name_of(op) if name_of(op).isidentifier() else "op", _cases_b(attempt.rng)
    rows, gots, wants = [], [], []
    for words, c, x, y in cases:
        at = words if x.ndim else f"x = {show_number(float(x))}, y = {show_number(float(y))}"
        result = run(_used, op, c, x, y)
        problem = stopped(attempt, result, f"{name}(x, y).backward() at {at}")
        if problem is not None:
            return _error_b(attempt, result, problem, name, run(op, x, y).ended == "raised")
        value, by_x, by_y = result.value
        if not same(value, _forward(x, y)) and same(value, _forward(x, y), 1e-4):
            got, want = (f"{float(np.ravel(as_array(v))[0]):.12g}" for v in (value, _forward(x, y)))
            return attempt.fault("forward-digits", said, None, name=name, at=at, got=got, want=want)
        if not same(value, _forward(x, y)):
            table = Table(("at", "expected", "yours"), ((at, *apart(_forward(x, y), value)),))
            return attempt.fault("other-forward", said, table, name=name, at=at)
        if by_x is None or by_y is None:
            return attempt.fault("none", said, None, name=name, operand="x" if by_x is None else "y")
        gots.append((by_x.data, by_y.data))
        wants.append(_right_a(c, value, x, y))
        rows.append((at, "1" if c.ndim == 0 and c == 1 else "random", _cut(show(wants[-1])), _cut(show(gots[-1]))))
    if all(map(same, gots, wants)):
        return _more_b(attempt, op, name, said, rows)
    marked = tuple((*row, "right" if same(g, w) else "differs") for row, g, w in zip(rows, gots, wants))
    table = Table(("at", "g", "expected", "yours", ""), marked)
    return _wrong_b(attempt, cases, gots, wants, said, table)


def _cut(text: str, limit: int = 30) -> str:
    return text if len(text) <= limit else text[:limit - 3] + "..."


def _wrong_b(attempt, cases, gots, wants, said, table):
    for slot in SLOTS:
        half = [] if slot is None else [f"The partial for {'xy'[slot]} is right. The mistake is in that for "
                                        f"{'yx'[slot]}."]
        for fault in attempt.task.faults:
            for answer in fault.answers:
                woulds = [set_right(answer(c, _forward(x, y), x, y), want, slot)
                          for (_, c, x, y), want in zip(cases, wants)]
                if all(map(same, gots, woulds)):
                    return attempt.fault(fault.id, [*half, *said], table)
    if all(same(g, w, 1e-3) for g, w in zip(gots, wants)):
        return attempt.fault("few-digits", said, table)
    first = [same(g, w) for g, w in zip(gots, wants)].index(False)
    which = [operand for operand, g, w in zip("xy", gots[first], wants[first]) if not same(g, w)]
    return attempt.unknown([f"The value is right. First to differ is the gradient of {' and of '.join(which)}.", *said],
                           table, look="Compare this partial with the one of task a.")


def _error_b(attempt, result, problem, name, in_forward):
    """A name for the errors that the engine raises about a partial, or that the forward raises by itself."""
    text = str(result.error)
    if "memoryview" in text:
        return attempt.fault("array-data", problem.body, None)
    if "one for each of its vjps" in text:
        return attempt.fault("one-partial", problem.body, None, name=name)
    if "positional argument" in text and ("4 were given" in text or "missing" in text):
        return attempt.fault("arguments", problem.body, None)
    if "must return an array of numbers, got object" in text:
        return attempt.fault("no-value", problem.body, None)
    shapes = re.search(r"returned shape \((.*?)\), expected \((.*?)\)", text)
    if shapes:
        both = shapes[1].replace("2,", "", 1).strip() == shapes[2]
        return attempt.fault("pair-returned" if both else "shape", problem.body, None)
    if isinstance(result.error, TypeError) and "Python scalar" in text:
        return attempt.fault("math-sin" if in_forward else "math-cos", problem.body, None, name=name)
    return problem


def _more_b(attempt, op, name, said, rows):
    """What a right op must do besides: keep the dtype, and be differentiable once more."""
    result = run(_used_float32, op)
    if result.ended != "returned":
        shown = stopped(attempt, result, f"{name}(x, y).backward() in float32").body
        return attempt.fault("dtype", shown, None)
    if _partials_use_engine(op):
        return attempt.fault("engine-used", said, None, name=name)
    x, y = np.array(0.5), np.array(0.75)
    result = run(_used_twice, op, x, y)
    want = _right_twice(x, y)
    if result.ended != "returned":
        shown = stopped(attempt, result, f"the gradient of a gradient of {name}(x, y)").body
        return attempt.fault("once-only", shown, None)
    if not same(result.value, want):
        got, want = apart(result.value, want)
        said = f"The derivatives of (share of x) + 2 * (share of y) are {got}; expected {want}."
        return attempt.fault("once-only", [said], None)
    return attempt.passed(Table(("at", "g", "expected", "yours"), tuple(rows[:1])))


_FAULTS_B = (
    Fault("plain-function", "a plain function, not an op",
          "`{name}` is an ordinary Python function. The engine runs through it and records each NumPy function "
          "in it, and your partials are never asked. `ad.custom_op` makes an op of it.",
          "the line directly above `def`. It begins with @."),
    Fault("no-brackets", "the decorator got the function in place of the partials",
          "`@ad.custom_op` without brackets hands the function over where the list of partials belongs.",
          "the line above `def`: @ad.custom_op(vjps=[..., ...])."),
    Fault("one-function", "one function in place of the list of partials",
          "`custom_op` got a function where the list belongs. One function may know both shares, but the engine asks "
          "for the share of each operand by itself: the list has one partial for each.",
          "what stands after `vjps=`. It begins with a square bracket."),
    Fault("no-forward", "the partials are there, and the forward is not",
          "`ad.custom_op(vjps=[...])` alone is only half of it: it waits for the forward. That is the function below "
          "the line with @.",
          "whether a `def` follows the line with @, and what your function returns."),
    Fault("one-partial", "the number of partials is not the number of operands",
          "`{name}` has two operands, x and y, and each needs a place of its own in the list `vjps`.",
          "how many things stand between the square brackets."),
    Fault("arguments", "a partial takes other arguments than it is given",
          "Each partial is called with four arguments: the cotangent g, the result, then x, then y, also when it does "
          "not need all of them.",
          "what stands between `lambda` and the colon, in both partials."),
    Fault("pair-returned", "one partial returns the shares of both operands",
          "A partial answers for one operand only. Yours returns two shares together, so the shape does not fit. The "
          "list `vjps` has a place for each operand.",
          "what the first partial returns. The second share belongs into the second partial."),
    Fault("shape", "a share has another shape than its operand",
          "The share of an operand has one entry for each entry of the operand. Yours has fewer: a number that was put "
          "in by hand, or a sum over the entries.",
          "the partial that the message names. Does it use g, x and y as the arrays that they are?"),
    Fault("no-value", "the forward returns nothing",
          "The forward ran to its end without a `return`, so the op has no value. A line with only an expression in it "
          "throws its value away.",
          "the last line of the forward."),
    Fault("other-forward", "the op computes another function",
          "The value of `{name}` at {at} is not sin(x*y) + x**2. With partials that fit, every gradient check would "
          "pass: it compares the partials with *your* forward.",
          "the body of the forward, term by term."),
    Fault("forward-digits", "the value of the op is right to a few digits only",
          "The value of `{name}` at {at} is {got}, and {want} is right. The terms are the right ones, and their "
          "arithmetic is too coarse: something in the forward is float32.",
          "conversions in the body of the forward. float64 that comes in should stay float64."),
    Fault("none", "an operand gets no gradient",
          "The gradient of {operand} is absent. `None` in place of a partial says that no gradient goes this way. But "
          "`{name}` does change when {operand} moves.",
          "the two places of the list `vjps`: which one is `None`, or returns `None`?"),
    Fault("exchanged", "the two partials are in the wrong order",
          "The share of x arrives at y, and the share of y at x. The first partial of the list belongs to the first "
          "operand.",
          "the order in `vjps`, and the order in the head of the forward.",
          (lambda g, out, x, y: _right_a(g, out, x, y)[::-1],)),
    Fault("same-partial", "both operands have the same partial",
          "x and y get the same numbers. A partial is written for one operand; two operands need two of them.",
          "the two entries of `vjps`.",
          (lambda g, out, x, y: (_right_a(g, out, x, y)[0],) * 2,
           lambda g, out, x, y: (_right_a(g, out, x, y)[1],) * 2)),
    Fault("g-missing", "the cotangent g is not used",
          "With g = 1 your gradients are right, and inside a larger graph they are not: what comes after the op does "
          "not reach its operands.",
          "where g stands in each of the two partials.",
          (lambda g, out, x, y: _right_a(1.0, out, x, y),)),
    Fault("g-once", "g multiplies one of the two terms only",
          "With g = 1 the gradients are right. In the share of x, g multiplies only one term of the sum. It belongs to "
          "both.",
          "the brackets in the partial for x.",
          (lambda g, out, x, y: (g * y * _cos(x, y) + 2 * x, _right_a(g, out, x, y)[1]),
           lambda g, out, x, y: (y * _cos(x, y) + g * 2 * x, _right_a(g, out, x, y)[1]))),
    Fault("g-alone", "the cotangent is passed on as it is",
          "A partial returns g itself. That would be right for x + y, with slope 1 in both operands.",
          "the slopes that you found in task a: they multiply g.",
          (lambda g, out, x, y: (g, g),)),
    Fault("x2-dropped", "the term x**2 has no derivative in the partial for x",
          "The forward has x**2, and your partial for x does not know about it: 2x is missing.",
          "the partial for x: one term for each use of x.",
          (_pair(lambda x, y: y * _cos(x, y), _by_y),)),
    Fault("cos-missing", "the derivative of the sine is missing",
          "You differentiated x*y + x**2. The slope of the sine, cos(x*y), multiplies what is inside.",
          "the chain rule, in both partials.",
          (_no_cosine,)),
    Fault("inner-missing", "the derivative of x*y inside the sine is missing",
          "The cosine is there, and no factor from the inside. The slope of x*y is y when x moves, and x when y moves.",
          "the chain rule, in both partials: slope of the sine, times slope of what stands in it.",
          (_no_inner,)),
    Fault("own-value", "the inner slope is the value of the wrong slot",
          "The partial for x has the cosine times x, or that for y the cosine times y. The slope of x*y by x is y: the "
          "value in the *other* slot.",
          "the slope of x*y when only one of the two moves.",
          (_own_values,)),
    Fault("math-cos", "a partial takes single numbers only",
          "`{name}` works with single numbers and stops with arrays. `math.cos(...)` and `float(...)` take one number "
          "at a time.",
          "the line shown. NumPy has functions of the same names that take arrays."),
    Fault("math-sin", "the forward takes single numbers only",
          "The forward of `{name}` works with single numbers and stops with arrays. `math.sin(...)` and `float(...)` "
          "take one number at a time.",
          "the line shown, in the body of the forward. NumPy has functions of the same names that take arrays."),
    Fault("array-data", "`.data` of an array is no array",
          "The forward and the partials get plain NumPy arrays, not Tensors. `.data` of a Tensor is its array; `.data` "
          "of an array is its raw memory, with which nothing can be computed.",
          "each `.data` in the forward and in the partials. What stands before it is the array already."),
    Fault("few-digits", "right to a few digits, and then not any more",
          "Your gradients agree with the right ones in the first digits only. Something in a partial is coarser than "
          "float64: a conversion to float32, or a slope from two values that are close together.",
          "what in the partials makes digits disappear."),
    Fault("dtype", "float32 goes in and something else comes out",
          "A cotangent has the dtype of its operand. A number such as 2 or 2.0 leaves float32 as it is; an *array* of "
          "float64, np.float64(2), or a conversion does not.",
          "numbers or conversions in the partials that carry a dtype of their own."),
    Fault("engine-used", "the engine worked out the derivative",
          "The partials of `{name}` make Tensors when they are called with plain arrays, so the engine differentiates "
          "in your place. The partials are the part that *you* bring.",
          "task a: the same two formulas."),
    Fault("once-only", "the gradient cannot be differentiated itself",
          "A partial written with NumPy functions takes Tensors too, and then the gradient has a graph. Something in "
          "yours wants plain numbers, or cuts: `math.`, `float(...)`, `.data`, `.detach()`.",
          "gradgradcheck in lesson 13, and each function that your partials call."),
    NO_RETURN,
)

_B = Task(
    "08.b", "the op", ("make_wave",), _judge_b, _FAULTS_B, (
        "Two things are needed: the forward, an ordinary function of two arrays, and above it one line that makes an "
        "op of it. Your formulas of task a are the partials, one for each operand.",
        "Who calls what:\n\n"
        "    wave(x, y)          ->  your forward gets the arrays of x and y\n"
        "    L.backward()        ->  partial 1 gets (g, out, x, y), returns the share of x\n"
        "                        ->  partial 2 gets (g, out, x, y), returns the share of y\n\n"
        "A partial returns one thing: an array in the shape and dtype of its operand.",
        "The form, with gaps:\n\n"
        "    @ad.custom_op(vjps=[\n"
        "        lambda g, out, x, y: ...,\n"
        "        lambda g, out, x, y: ...,\n"
        "    ])\n"
        "    def wave(x, y):\n"
        "        return ...\n\n"
        "    return wave"),
    "One node in the graph, two edges, and each edge carries what your partial returns.")

# 08.c: a test for partials that somebody else wrote.


def _op(vjps, forward=_forward, name="wave"):
    def copy(x, y):
        return forward(x, y)

    copy.__name__ = name
    op = ad.custom_op(vjps=vjps)(copy)
    op.vjps = vjps
    return op


_GX = lambda g, out, x, y: g * (y * np.cos(x * y) + 2 * x)
_GY = lambda g, out, x, y: g * x * np.cos(x * y)


def _cos32(t):
    return np.cos(t.astype("float32")).astype(t.dtype)


def _even(g):
    """g, but the same in every entry: no difference for single numbers, nor for a g of ones."""
    return np.broadcast_to(g.sum() / max(g.size, 1), g.shape)


def _planted(fault_id, *vjps):
    return _op(list(vjps), name=f"rule {_NUMBERS[fault_id]}")


# Neutral names, so that the table does not say what to look for.
_NUMBERS = {name: number for number, name in enumerate((
    "right", "x2-dropped", "cos-missing", "written-otherwise", "own-value", "g-missing", "small-error", "cos-float32",
    "one-operand", "also-right", "negative", "scalars-only"), 1)}

_RIGHT_OPS = {f"rule {_NUMBERS[name]}": _op(vjps, name=f"rule {_NUMBERS[name]}") for name, vjps in {
    "right": [_GX, _GY],
    "written-otherwise": [lambda g, out, x, y: g * y * np.cos(y * x) + (x + x) * g,
                          lambda g, out, x, y: np.cos(x * y) * (g * x)],
    "also-right": [lambda g, out, x, y: g * (y * (1 - 2 * np.sin(x * y / 2) ** 2) + 2 * x),
                   lambda g, out, x, y: g * x * (1 - 2 * np.sin(x * y / 2) ** 2)],
}.items()}

_FAULTS_C = (
    Fault("x2-dropped", "a partial without the 2x passes your test",
          "In `{name}` the derivative of x**2 is missing. A check of the first derivative sees that at every x but 0.",
          "the points of your test: is x different from 0 in at least one of them? And is it the first derivative "
          "that you check?",
          (_planted("x2-dropped", lambda g, out, x, y: g * y * np.cos(x * y), _GY),)),
    Fault("own-value", "x and y exchanged inside the sine pass your test",
          "`{name}` multiplies the cosine by x where y belongs, and by y where x belongs. At x = y nothing can be "
          "told apart.",
          "points with equal operands. Choose them different, and not each other's negative.",
          (_planted("own-value", lambda g, out, x, y: g * (x * np.cos(x * y) + 2 * x),
                    lambda g, out, x, y: g * y * np.cos(x * y)),)),
    Fault("cos-missing", "partials without a cosine pass your test",
          "In `{name}` the cosine is missing. Where x*y is near 0, the cosine is 1, and the difference is too small to "
          "be seen.",
          "the size of x*y in your points. At least one should be of the size of 1, or larger.",
          (_planted("cos-missing", lambda g, out, x, y: g * (y + 2 * x), lambda g, out, x, y: g * x),)),
    Fault("one-operand", "an operand without a gradient passes your test",
          "In `{name}` the partial for y is None, so y gets no gradient at all. Your test looks at x only, or takes "
          "an absent gradient for zero.",
          "what your test does with the second operand. Give `ad.gradcheck` both of them.",
          (_planted("one-operand", _GX, None),)),
    Fault("g-missing", "a partial without g passes your test",
          "`{name}` does not use g. When the op is the root of your graph, g is 1, and it makes no difference.",
          "the cotangent of your test. `ad.gradcheck` draws a random one; a comparison of your own needs one too.",
          (_planted("g-missing", lambda g, out, x, y: y * np.cos(x * y) + 2 * x, _GY),)),
    Fault("negative", "a partial that is wrong for negative x passes your test",
          "`{name}` has 2 * |x| in the share of x. As long as x is positive, that is right.",
          "the signs in your points.",
          (_planted("negative", lambda g, out, x, y: g * (y * np.cos(x * y) + 2 * np.abs(x)), _GY),)),
    Fault("scalars-only", "a partial that is wrong for arrays passes your test",
          "`{name}` spreads the mean of g over all entries. With a single number, the mean of g is g.",
          "a point whose operands are arrays with several different entries.",
          (_planted("scalars-only", lambda g, out, x, y: _GX(_even(g), out, x, y), _GY),)),
    Fault("small-error", "a small constant error passes your test",
          "`{name}` adds 0.00005 to the share of x. Beside a slope of 8, or of 500, that is lost in the tolerance. "
          "Beside a slope of 0.001 it is not.",
          "a point where the slopes are small: all operands much smaller than 1, and not 0.",
          (_planted("small-error", lambda g, out, x, y: _GX(g, out, x, y) + 5e-5 * g, _GY),)),
    Fault("cos-float32", "a cosine in float32 passes your test",
          "`{name}` computes one cosine in float32. For x*y of the size of 1 the error is about 1e-8, below every "
          "tolerance. For x*y in the thousands, float32 has no digits left for the angle.",
          "a lopsided point with a large product, such as x in the hundreds and y about 20.",
          (_planted("cos-float32", _GX, lambda g, out, x, y: g * x * _cos32(x * y)),)),
    Fault("behind-a-sum", "your test has arrays, and the same g arrives at each entry",
          "`{name}` spreads the mean of g over all entries. Your test calls the op with arrays, but what arrives at "
          "each entry is the same number, as behind `.sum()` or with ones as cotangent. Then the mean is that number "
          "too.",
          "what stands between the op and the loss in your test. `ad.gradcheck` takes the op as it is, and draws a "
          "random g."),
    Fault("input-form", "the two operands are one tuple",
          "The op has two operands and must get both. `ad.gradcheck(op, ...)` takes them as *one* tuple. A list of "
          "numbers is one operand, and what follows the tuple is an option.",
          "the second argument of `ad.gradcheck` in the line shown: round brackets around both operands."),
    Fault("two-shapes", "the operands of a point have different shapes",
          "One operand was copied to the shape of the other, and the share comes back in the larger shape. Here x and "
          "y have one shape always, so also right partials fail at this point.",
          "the shapes of the two operands in your points."),
    *VERDICTS,
    Fault("float32-check", "the check runs in float32",
          "Your operands are float32. There a difference quotient keeps about three digits, so the check must be so "
          "tolerant that small errors pass, or it refuses to run.",
          "where float32 comes in. Check in float64, also when the op will later be used in float32."),
    Fault("too-exact", "your test refuses partials that are right but written in another way",
          "`{name}` has its cosine from a half-angle formula. Its numbers are right, and differ from yours in the last "
          "digit. Rounding is not a mistake.",
          "a comparison with == or with a tolerance below 1e-12."),
    Fault("upside-down", "your test accepts the wrong ones and refuses the right ones",
          "Every verdict is the opposite of what it should be. A report of `ad.gradcheck` is true when everything "
          "agreed.",
          "a `not` in your function, or an exchanged True and False."),
    Fault("accepts-all", "your test accepts every op",
          "Your test accepts every op. Perhaps it never looks at the gradients, or throws away the verdict.",
          "what `ad.gradcheck(op, point, raise_exception=False)` returns, and what you do with it."),
    Fault("refuses-all", "your test refuses every op",
          "Your test refuses every op, also the three whose partials are right. Usual reasons: integers as points (an "
          "integer cannot be moved a little, so nothing is checked), enormous numbers (the sine turns many times "
          "within one step), or `is True` (a report counts as true, but it is not the word True).",
          "one of your points alone, with `ad.gradcheck(op, point)` in a new cell: its first line says what it found."),
    EARLY_RETURN,
)


def _fresh_c(op, rng):
    """The op anew, without its name and without what else could tell it from the others."""
    def forward(x, y):
        if {getattr(v, "dtype", None) for v in (x, y)} & {np.dtype("float32"), np.dtype("float16")}:
            _seen.append("float32")
        if min(np.size(x), np.size(y)) > 1:
            _seen.append("arrays")
        return _forward(x, y)

    forward.__name__ = "wave"
    return ad.custom_op(vjps=op.vjps)(forward)


_seen = []  # "float32" and "arrays" for the calls of the forward in the check that is running
_watch = Watch()

_FORM_C = tests(
    "08.c", "a test that wrong partials cannot pass", "rule_is_right", "op", right=_RIGHT_OPS, faults=_FAULTS_C,
    fresh=_watch.handing(_fresh_c), what="partials", refusals={f"rule {_NUMBERS['also-right']}": "too-exact"},
    hints=(
        "One point is never enough. For each wrong rule of lesson 13 there was a point at which it passed. Write down "
        "several points that differ in size, and in sign.",
        "What a point can see:\n\n"
        "    everything near 0     small constant errors      but no missing cosine\n"
        "    of the size of 1      wrong formulas             but no float32\n"
        "    x large, y not small  low precision              but no small errors\n"
        "    negative numbers      an abs that is too much\n"
        "    arrays                entries that are mixed up\n\n"
        "You need one point of each kind, and x different from y in all of them.",
        "A loop over points, and one verdict for all of them:\n\n"
        "    points = [(..., ...), (..., ...), ...]\n"
        "    for point in points:\n"
        "        if not ad.gradcheck(op, point, raise_exception=False):\n"
        "            return ...\n"
        "    return ..."),
    good="Small, middle, lopsided, negative, arrays: each kind of point sees what the others miss.")


_ERRORS_C = re.compile(r"gradcheck\(\) takes 2 positional|takes 2 operands|(?P<shape>the partial of wave .* shape)")


def _judge_c(attempt):
    _seen.clear()
    result = _watch.judge(_FORM_C, attempt)
    named = _ERRORS_C.search(" ".join(result.body)) if result.status == WRONG and result.fault is None else None
    if named:
        return attempt.fault("two-shapes" if named["shape"] else "input-form", result.body, None)
    if result.fault == "scalars-only" and "arrays" in _seen:
        shown = [p for p in result.body if not p.startswith("What happened: ")]
        return attempt.fault("behind-a-sum", shown, result.table, name=f"rule {_NUMBERS['scalars-only']}")
    if result.status == WRONG and ("float32" in _seen or "float32" in " ".join(result.body)):
        shown = [p for p in result.body if not p.startswith("What happened: ")]
        if result.fault != "cos-float32" or "float32" in _seen:
            return attempt.fault("float32-check", shown, result.table)
    if result.status == WRONG and result.table and all(row[1] != row[2] for row in result.table.rows):
        return attempt.fault("upside-down", (), result.table)
    if result:
        # In the same words whatever was drawn.
        right = len(_RIGHT_OPS)
        rows = ((f"{right} right ones", "accepted"), (f"{len(_NUMBERS) - right} wrong ones", "refused"))
        result.table = Table(("partials", "yours"), rows)
    return result


_C = replace(_FORM_C, judge=_judge_c)

TASKS = (_A, _B, _C)
