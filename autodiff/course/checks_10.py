"""Checks of exercise 10, audit an op: inputs, and then tests, that expose ops which pass a random check.

The tests are judged by faulty ops, each of which passes the check that the page shows, and by right ops that look
suspicious. Every attempt makes them anew. Wrong answers as a learner would type them, each with the fault it must be
given, are in wrong_answers/10.txt.
"""

import random
import re
from dataclasses import replace

import numpy as np

import autodiff as ad
from autodiff.course.evidence import Written, evidence
from autodiff.course.forms import as_array, tests
from autodiff.course.judge import EARLY_RETURN, Fault
from autodiff.course.looks import VERDICTS, Watch
from autodiff.course.result import WRONG

# 10.a: four faulty rules in the open, one of each kind.

_KINDS = (
    (Written("cube(x)", "x ** 3", {"x": "g * 3 * x * np.abs(x)"}, lambda x: x**3, True, clue="one-sign"),
     Written("fourth(x)", "x ** 4", {"x": "g * 4 * np.abs(x) ** 3"}, lambda x: x**4, True, clue="one-sign")),
    (Written("largest(x)", "np.max(x)", {"x": "g * (x == y)"}, np.max, True, clue="no-tie"),
     Written("smallest(x)", "np.min(x)", {"x": "g * (x == y)"}, np.min, True, clue="no-tie")),
    (Written("square(x)", "x * x", {"x": "g * np.clip(2 * x, -100, 100)"}, lambda x: x * x, True, clue="not-far"),
     Written("exp(x)", "np.exp(x)", {"x": "g * np.minimum(y, 1000)"}, np.exp, True, clue="not-far")),
    (Written("flip(x)", "x.T", {"x": "g.reshape(x.shape)"}, lambda x: x.T, True, clue="one-axis"),
     Written("sums(x)", "np.cumsum(x, axis=-1)", {"x": "np.cumsum(g[::-1], axis=0)[::-1]"},
             lambda x: np.cumsum(x, axis=-1), True, clue="one-axis")),
)


def _deal_a(number):
    rules = [kind[number % 2] for kind in _KINDS]
    if number:
        random.Random(number).shuffle(rules)
    return rules


_FAULTS_A = (
    Fault("only-letters", "letters without inputs",
          "All four rules are wrong, so their letters say nothing. What is asked for is an input for each letter.",
          "write a dict: the letter, then an input. Try it first with `rules[letter]` in a cell of your own."),
    Fault("one-sign", "the wrong half of the line is not visited",
          "{letter} is {rule}. At {at} gradcheck says: {verdict}. The rule takes an absolute value. On one side of 0 "
          "that changes nothing, and your input lies on that side.",
          "the sign of your numbers, and the sign of the true slope there."),
    Fault("too-near-0", "so near to 0 that nothing can be seen",
          "{letter} is {rule}. At {at} gradcheck says: {verdict}. The entries on the side where the rule is wrong are "
          "so near to 0 that the right slope and the wrong one are both nearly 0. gradcheck lets a gap of 1e-7 pass.",
          "the slope at your input, from the rule and from the function. How far apart are they?"),
    Fault("no-tie", "no two entries tie for the result",
          "{letter} is {rule}. At {at} gradcheck accepts it ({verdict}). The rule asks `x == y`: which entries equal "
          "the result? While only one entry does, the answer is right.",
          "an input in which more than one entry equals the result, to the last digit."),
    Fault("not-far", "the limit in the rule is not reached",
          "{letter} is {rule}. At {at} gradcheck says: {verdict}. The rule holds the slope below a limit. Below the "
          "limit it is right.",
          "the slope at your input. At which x does it pass the limit that stands in the rule?"),
    Fault("one-axis", "an input with one axis hides it",
          "{letter} is {rule}. At {at} gradcheck says: {verdict}. With one axis, or with a single row, there is only "
          "one order of the entries. The rule treats the axes wrongly, so there must be two.",
          "the shape of your input. Write a list of lists, with at least two rows and two columns."),
    Fault("right-fails-too", "no rule passes at this input",
          "{letter} is {rule}. At {at} gradcheck refuses it, and refuses the right rule as well ({right_verdict}). The "
          "value or the slope is too large for a float there, so this input says nothing about the rule.",
          "the last column of the table. Go as far as you need, and not further."),
    Fault("missing", "not every rule has an input",
          "Shown so far: {shown} of 4. All four are wrong, and each needs an input of its own.",
          "the letters that are not in the table yet."),
)

# 10.b: bend(x) = x² + |x|.


def _named(name, make):
    make.__name__ = name
    return make


def _bend(share):
    """An op for bend with this rule, without a trace of how it was made."""
    made = ad.custom_op(vjps=[_quiet(share)])(_quiet(lambda x: x * x + np.abs(x)))
    return lambda x: made(x)


def _quiet(function):
    """Far out the op overflows; the warning would be about our line, not the learner's."""
    def run(*values):
        with np.errstate(all="ignore"):
            return function(*values)

    return run


def _slope(x, at_zero=0.0):
    return 2 * x + np.where(x == 0, at_zero, np.sign(x))


def _bend_at_zero(value):
    return _bend(lambda g, y, x: g * _slope(x, value))


def _bend_clipped(limit):
    return _bend(lambda g, y, x: g * np.clip(_slope(x), -2 * limit, 2 * limit))


def _bend_far_left(limit):
    return _bend(lambda g, y, x: g * np.where(x < -limit, 0.5, 1.0) * _slope(x))


def _bend_near(limit):
    return _bend(lambda g, y, x: g * np.where(np.abs(x) < limit, 2 * x, _slope(x)))


def _bend_entry(place):
    def share(g, y, x):
        mask = np.ones(x.size)
        mask[place:place + 1] = 0.5
        return g * _slope(x) * mask.reshape(x.shape)

    return _bend(share)


def _bend_matrix():
    def share(g, y, x):
        right = g * _slope(x)
        return right.T.reshape(x.shape) if x.ndim == 2 else right

    return _bend(share)


def _bend_mean():
    return _bend(lambda g, y, x: np.mean(g) * _slope(x))


_RIGHT_B = {
    "bend_1": lambda rng: _bend_at_zero(0.0),
    "bend_2": lambda rng: _bend_at_zero(rng.choice([-1.0, -0.5, 0.25, 1.0])),
    "bend_3": lambda rng: lambda x: x * x + np.abs(x),
}

_FAULTS_B = (
    Fault("at-the-kink", "nobody looked at the kink",
          "The rule of `{name}` is right everywhere but at one point: 0. There bend has the slope -1 on the left and 1 "
          "on the right, and the rule gives a number outside [-1, 1]. A random number never hits 0.",
          "do your tests have an entry that is exactly 0, and do they look at its slope by itself?",
          (_named("bend_4", lambda rng: _bend_at_zero(rng.choice([-1, 1]) * rng.uniform(1.5, 3.0))),)),
    Fault("far", "nobody looked far out",
          "The rule of `{name}` is right for some hundred thousands, then it holds the slope at a limit. The task "
          "promises right gradients up to a million.",
          "the largest number in your tests. Test the ends of what is promised.",
          (_named("bend_5", lambda rng: _bend_clipped(rng.uniform(2e5, 8e5))),)),
    Fault("far-left", "only one end was visited",
          "The rule of `{name}` is right at 1,000,000 and wrong at -1,000,000. Your tests have large numbers of one "
          "sign only.",
          "the smallest number in your tests, the one farthest to the left.",
          (_named("bend_6", lambda rng: _bend_far_left(rng.uniform(2e5, 8e5))),)),
    Fault("near", "nobody looked close to the kink",
          "The rule of `{name}` takes every number below a few thousandths for 0, and drops the slope of |x| there. At "
          "0 itself that is a valid choice; at 0.001 it is wrong.",
          "the number closest to 0 in your tests that is not 0. What does the task promise?",
          (_named("bend_7", lambda rng: _bend_near(rng.uniform(0.0015, 0.005))),)),
    Fault("one-entry", "one wrong entry among many was not seen",
          "The rule of `{name}` is wrong in a single entry, somewhere behind the tenth. Shorter inputs do not have "
          "this entry.",
          "the number of entries in your longest input. How many does the task promise?",
          (_named("bend_8", lambda rng: _bend_entry(rng.randrange(10, 30))),)),
    Fault("matrix", "every input had one axis",
          "The rule of `{name}` hands back the share of a matrix with rows and columns exchanged. On vectors, and on "
          "a matrix with one row or one column, this cannot be seen.",
          "the shapes of your inputs.",
          (_named("bend_9", lambda rng: _bend_matrix()),)),
    Fault("summed-away", "a sum hides the rule",
          "The rule of `{name}` uses the mean of the gradient that arrives, for every entry. Behind a sum, 1 arrives "
          "at every entry, and their mean is 1 too. So the sum cannot show it.",
          "what arrives at the op in your tests: numbers of your own, or a 1 at each entry, as behind `.sum()` and in "
          "a plain `backward()`?",
          (_named("bend_10", lambda rng: _bend_mean()),)),
    Fault("one-choice", "a valid choice at the kink is refused",
          "`{name}` is right. At 0 its rule gives another value than 0, but it lies in [-1, 1], between the slopes on "
          "both sides. Every such value is valid. A formula that knows one value, and a central difference that takes "
          "the middle, refuse it.",
          "your test at 0. Does it accept every value from -1 to 1?"),
    *VERDICTS, EARLY_RETURN,
    Fault("accepts-all", "the tests accept every op",
          "All faulty ops pass your tests, as they pass the random check of the page. Either nothing special is "
          "visited, or no gradient is compared, or the verdict gets lost: a function without `return` accepts "
          "everything.",
          "the last line of your function, and then the numbers you test at."),
    Fault("refuses-all", "the tests refuse every op, also the right ones",
          "`{name}` is right, and your tests refuse it. So they cannot tell a right op from a faulty one.",
          "run your tests on `bend` of this page, one input at a time, and print each report. Usual causes: a "
          "difference with one fixed step, an input of integers (nothing is checked then), or a comparison with the "
          "verdict \"match\" (\"at a kink\" is a pass too)."),
)

# 10.c: gate(a, b) = a·clip(b, 0, 1).


def _summed(share, shape, inserted=np.sum, stretched=np.sum):
    """A share brought to the shape of its operand; the two ways to undo a broadcast can be replaced."""
    extra = share.ndim - len(shape)
    if extra:
        share = inserted(share, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and share.shape[i] != 1)
    return stretched(share, axis=axes).reshape(shape) if axes else share


def _first(share, axis):
    return share[tuple(slice(0, 1) if i in axis else slice(None) for i in range(share.ndim))]


def _gate_value(a, b):
    return a * np.clip(b, 0, 1)


def _inside(b, at_bounds=0.5):
    return np.where((b == 0) | (b == 1), at_bounds, (b > 0) & (b < 1)) * 1.0


def _shares(at_bounds=0.5, to_a=None, to_b=None, **undo):
    """The two partials of gate, broadcasting undone."""
    to_a = to_a or (lambda g, y, a, b: g * np.clip(b, 0, 1))
    to_b = to_b or (lambda g, y, a, b: g * a * _inside(b, at_bounds))
    return [_quiet(lambda g, y, a, b: _summed(to_a(g, y, a, b), np.shape(a), stretched=undo.get("stretched", np.sum))),
            _quiet(lambda g, y, a, b: _summed(to_b(g, y, a, b), np.shape(b), inserted=undo.get("inserted", np.sum)))]


def _gate(forward=_gate_value, **rule):
    made = ad.custom_op(vjps=_shares(**rule))(lambda a, b: forward(a, b))
    return lambda a, b: made(a, b)


def _gate_same():
    usual = _gate()
    alone = ad.custom_op(vjps=[lambda g, y, x: g * np.clip(x, 0, 1)])(lambda x: _gate_value(x, x))
    return lambda a, b: alone(a) if a is b else usual(a, b)


def _gate_shared():
    usual = _gate()
    without = _gate(to_b=lambda g, y, a, b: 0 * (g * a))

    def below(value):
        return {node.id for node in ad.sorted_nodes(value)} if isinstance(value, ad.Tensor) else set()

    return lambda a, b: without(a, b) if a is not b and below(a) & below(b) else usual(a, b)


def _gate_last():
    kept = []

    def forward(a, b):
        if not (np.iscomplexobj(a) or np.iscomplexobj(b)):  # gradcheck tries a complex step, after the gradients
            kept[:] = [a, b]
        return _gate_value(a, b)

    def last(a, b):
        fits = len(kept) == 2 and np.shape(kept[0]) == np.shape(a) and np.shape(kept[1]) == np.shape(b)
        return kept if fits else (a, b)

    return _gate(forward, to_a=lambda g, y, a, b: g * np.clip(last(a, b)[1], 0, 1),
                 to_b=lambda g, y, a, b: g * last(a, b)[0] * _inside(last(a, b)[1]))


def _gate_divides():
    return _gate(to_a=lambda g, y, a, b: g * y / a)


def _gate_mean():
    return _gate(to_a=lambda g, y, a, b: np.mean(g) * np.ones(g.shape) * np.clip(b, 0, 1))


_RIGHT_C = {
    "gate_1": lambda rng: _gate(at_bounds=0.5),
    "gate_2": lambda rng: _gate(at_bounds=1.0),
    "gate_3": lambda rng: lambda a, b: a * np.clip(b, 0, 1),
    "gate_4": lambda rng: _gate(at_bounds=0.0),
}

_FAULTS_C = (
    Fault("same-twice", "the same input in both slots was not tried",
          "`{name}` has a short way for gate(x, x), and there it sends back the share of the first slot only. With two "
          "different inputs the short way is not taken.",
          "the calls of `op` in your tests. Is one of them op(x, x), with entries of x between 0 and 1? Elsewhere clip "
          "is flat, and the share that is lost is 0.",
          (_named("gate_5", lambda rng: _gate_same()),)),
    Fault("shared-below", "two inputs made from one Var were not tried",
          "`{name}` loses the share of b when a and b are computed from the same Var, as in gate(sin(x), 2x). Then two "
          "paths lead to x, and only one of them counts. With op(x, x), or with two Vars, it is right.",
          "a test in which two different nodes, made from one x, go into the two slots. Some entries of b must lie "
          "between 0 and 1: elsewhere clip is flat, and the share that is lost is 0.",
          (_named("gate_6", lambda rng: _gate_shared()),)),
    Fault("last-call", "the op was called only once in each graph",
          "`{name}` keeps its inputs in one place, and the next call overwrites them. When it stands twice in a graph, "
          "both rules read the inputs of the last call.",
          "a test that uses `op` twice in one function, with different inputs of one shape. Some entries of b must lie "
          "between 0 and 1, where clip is not flat.",
          (_named("gate_7", lambda rng: _gate_last()),)),
    Fault("inserted-axis", "no input with fewer axes was tried",
          "`{name}` is wrong when b has fewer axes than a, for example (3,) with (2, 3). The share of b must be summed "
          "over the inserted axis, and here it is averaged.",
          "the shapes in your tests. Is there a b that must be copied along a new axis, and has it entries between 0 "
          "and 1? Elsewhere clip is flat, and the share of b is 0 whatever the rule does.",
          (_named("gate_8", lambda rng: _gate(inserted=np.mean)),)),
    Fault("stretched-axis", "no axis of length 1 was tried",
          "`{name}` is wrong when an axis of a has length 1 and is stretched, for example (2, 1) with (2, 3). The "
          "share of a must be summed along it, and here only its first entry counts.",
          "the shapes in your tests. Is there an a with an axis of length 1, and a b with some entries above 0?",
          (_named("gate_9", lambda rng: _gate(stretched=_first)),)),
    Fault("divides", "no zero in a was tried",
          "`{name}` computes the slope of a as y / a. That is the right number, but not where a is 0: there it is "
          "0 / 0, a NaN, although the value of the op is finite.",
          "do your tests have an entry of a that is exactly 0?",
          (_named("gate_10", lambda rng: _gate_divides()),)),
    Fault("at-the-bounds", "nobody looked at the kinks",
          "The rule of `{name}` is right inside and outside the interval. Exactly at its ends, b = 0 and b = 1, it "
          "gives a slope that lies outside what both sides have.",
          "do your tests have entries of b that are exactly 0 and 1, where a is not 0?",
          (_named("gate_11", lambda rng: _gate(at_bounds=rng.choice([-1.0, 2.0]))),)),
    Fault("summed-away", "a sum hides the rule",
          "In the share of a, the rule of `{name}` uses the mean of the gradient that arrives. Behind a sum, or with "
          "ones as cotangent, the same number arrives at each entry, and it is the mean too.",
          "what stands between the op and the result in your tests. Is there a test in which different numbers arrive "
          "at its entries, as when `ad.gradcheck` gets the op as it is?",
          (_named("gate_12", lambda rng: _gate_mean()),)),
    Fault("one-choice", "a valid choice at the kinks is refused",
          "`{name}` is right. At b = 0 and b = 1 the slope of clip is 0 on one side and 1 on the other. Every value "
          "between them is valid: candle takes 1/2, PyTorch 1, HIPS autograd 0.",
          "your test at the bounds. Does it ask for one value, or for one in the interval?"),
    Fault("input-form", "the two inputs are one tuple",
          "gate has two inputs and must get both. `ad.gradcheck(f, ...)` takes them as *one* tuple. A list of numbers "
          "is one input, and what follows the tuple is an option.",
          "the second argument of `ad.gradcheck` in the line shown, and how many inputs the function before it takes."),
    *VERDICTS, EARLY_RETURN,
    Fault("accepts-all", "the tests accept every op",
          "All faulty ops pass your tests, as they pass gradcheck behind a sum, at two random matrices. Either nothing "
          "special is tried, or no gradient is compared, or no b lies between 0 and 1 (elsewhere clip is flat), or the "
          "verdict gets lost: a function without `return` accepts everything.",
          "the last line of your function, and then the calls of `op`."),
    Fault("refuses-all", "the tests refuse every op, also the right ones",
          "`{name}` is right, and your tests refuse it. So they cannot tell a right op from a faulty one.",
          "run your tests on `gate` of this page, one use at a time, and print each report. A report that says \"at a "
          "kink\" is a pass too; one that says \"nothing was checked\" is none."),
)

_bend_watch, _gate_watch = Watch(), Watch()


def _handed_bend(plan, rng):
    op = plan(rng)

    def bend(x):
        return op(x)

    bend.__qualname__ = "bend"
    return bend


def _handed_gate(plan, rng):
    op = plan(rng)

    def gate(a, b):
        return op(a, b)

    gate.__qualname__ = "gate"
    return gate


def _judge_a(attempt):
    result = _A.judge(attempt)
    if result.fault != "one-sign":
        return result
    rules, answer = attempt.dealt[-1].written, {key.strip().upper(): value for key, value in attempt.answers[0].items()}
    letter = next(row[0] for row in result.table.rows if rules[row[0]].clue == "one-sign")
    if (as_array(answer[letter]) > 0).all():
        return result
    _, rule, at, said, _ = next(row for row in result.table.rows if row[0] == letter)
    words = dict(letter=letter, rule=rule, at=at, verdict=said.partition(": ")[2])
    return attempt.fault("too-near-0", (), result.table, **words)


def _judge_b(attempt):
    return _bend_watch.judge(_B, attempt)


_ONE_INPUT = re.compile(r"gradcheck\(\) takes 2 positional|gate\(\) missing 1 required positional|"
                        r"gate\(\) takes 2 positional arguments but 1")


def _judge_c(attempt):
    result = _gate_watch.judge(_C, attempt)
    if result.status == WRONG and result.fault is None and _ONE_INPUT.search(" ".join(result.body)):
        return attempt.fault("input-form", result.body, None)
    return result


_A, _B, _C = (
    evidence(
        "10.a", "one input for each rule", "inputs", deal=_deal_a,
        asks="four wrong rules. y: the output, g: the gradient that has arrived at y. Under each function: the "
             "gradient of x.",
        faults=_FAULTS_A,
        hints=(
            "The rules are in front of you. Write the right slope beside each, and ask for which numbers the two "
            "differ. A random vector with numbers from 0.5 to 2 does not reach them.",
            "What a random vector between 0.5 and 2 looks like, and what it never has:\n\n"
            "    it has             it never has\n"
            "    small numbers      ...\n"
            "    positive numbers   ...\n"
            "    different entries  ...\n"
            "    one axis           ...\n\n"
            "Fill in the right column. Then find the rule for each line.",
            "One input for each letter, first tried and then written down:\n\n"
            "    ad.gradcheck(rules[\"A\"], np.array([...]), raise_exception=False)\n\n"
            "    inputs = {\"A\": [...], \"B\": [...], \"C\": [...], \"D\": [[..., ...], [..., ...]]}\n\n"
            "The letters may stand for other rules in your round."),
        good="A random check visits ordinary points. Signs, ties, large numbers and other shapes must be visited on "
             "purpose."),
    tests(
        "10.b", "tests for an op of one input", "audit_bend", "op", right=_RIGHT_B, faults=_FAULTS_B,
        fresh=_bend_watch.handing(_handed_bend), refusals={"bend_2": "one-choice"},
        hints=(
            "Read what is promised: which numbers, which shapes, how many entries. Then test the ends of each promise, "
            "and the one point at which bend is special.",
            "Where the numbers of your tests should stand on the line:\n\n"
            "    -1,000,000          -0.001  0  0.001          1,000,000\n"
            "    ----|-----------------|-----|----|----------------|----\n"
            "        ?                 ?     ?    ?                ?\n\n"
            "And beside the numbers: a matrix, many entries, and no sum around the op.",
            "A list of inputs and one line that checks them all:\n\n"
            "    inputs = [np.array([...]), np.random.default_rng(1).normal(size=(..., ...)), ...]\n"
            "    return all(ad.gradcheck(..., x, raise_exception=False) for x in inputs)"),
        good="Your tests visit the ends of what is promised, the kink, a matrix and a long input, and look at the op "
             "without a sum. They accept every valid choice at the kink."),
    tests(
        "10.c", "tests for an op of two inputs", "audit_gate", "op", right=_RIGHT_C, faults=_FAULTS_C,
        fresh=_gate_watch.handing(_handed_gate), refusals=dict.fromkeys(("gate_1", "gate_2", "gate_4"), "one-choice"),
        hints=(
            "In the random check the op gets two different Vars of one shape, once. In a network it gets one Var "
            "twice, two nodes with a common past, inputs of different shapes, and it is called more than once. Beside "
            "the uses there are the numbers: kinks, and zeros.",
            "Ways to stand in a graph:\n\n"
            "    op(a, b)     op(x, x)     op(u, v)      two ops\n\n"
            "      op            op           op          op1  op2\n"
            "     /  \\          /  \\         /  \\         / \\  / \\\n"
            "    a    b         \\  /        u    v       a   \\/   c\n"
            "                    x           \\  /             b\n"
            "                                 x\n\n"
            "Which of them are in your tests?",
            "gradcheck takes any function, so write one for each way to use the op:\n\n"
            "    uses = [(op, (a, b)),\n"
            "            (lambda x: op(x, ...), (a,)),\n"
            "            (lambda x: op(np.sin(x), ...), (a,)),\n"
            "            (lambda x, y: op(x, y) + op(...), (a, b)),\n"
            "            (op, (..., ...))]          # other shapes; special numbers\n"
            "    return all(ad.gradcheck(f, at, raise_exception=False) for f, at in uses)"),
        good="Your tests use the op in every position it can have in a graph, with every kind of broadcast, and at its "
             "kinks and zeros."),
)

TASKS = (replace(_A, judge=_judge_a), replace(_B, judge=_judge_b), replace(_C, judge=_judge_c))
