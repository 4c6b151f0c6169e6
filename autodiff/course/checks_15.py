"""Checks of exercise 15, a checker of your own: central differences, a step study, and a checker that knows kinks.

The second and the third task are judged by planted faults, and by right gradients that simple checkers refuse. Wrong
answers as a learner would type them, each with the fault it must be given, are in wrong_answers/15.txt.
"""

import sys
from dataclasses import dataclass, replace

import numpy as np

from autodiff.course.forms import CHANGED_INPUT, NO_RETURN, Case, array, as_array, function, same, tests
from autodiff.course.judge import EARLY_RETURN, Fault, run
from autodiff.course.looks import Watch
from autodiff.course.result import PASSED

_CHECKERS = ("autodiff.gradcheck", "autodiff.checking")
_seen = []  # whether a checker of the engine has called a function of the check that is running


def _look_at_callers():
    frame = sys._getframe(2)
    while frame is not None and not _seen:
        if frame.f_globals.get("__name__", "").startswith(_CHECKERS):
            _seen.append(True)
        frame = frame.f_back


# 15.a: central differences of a function of an array.


@dataclass(frozen=True)
class _Named:
    """A function that a message can show."""

    name: str
    value: object

    @property
    def __name__(self):
        return self.name

    def __call__(self, x):
        _look_at_callers()
        return float(self.value(np.asarray(x, dtype=float)))

    def __repr__(self):
        return self.name


_DIGITS = 1e-7
_CUBES = _Named("cubes", lambda x: np.sum(x**3))
_WEIGHTED = _Named("weighted", lambda x: np.sum(np.arange(1.0, x.size + 1).reshape(x.shape) * x**3))
_MIXED = _Named("mixed", lambda x: x[0] ** 3 * x[1] + x[1] ** 2 * x[2] ** 3)


def _cases_a(rng):
    return [Case((_CUBES, np.array([2.0]), 0.5), "one entry"), Case((_MIXED, array(rng, 3), 0.25), "a vector"),
            Case((_WEIGHTED, array(rng, 2, 3), 0.125), "a matrix"),
            Case((_CUBES, np.array([1.1, -1.3]), 1e-3), "numbers that binary fractions do not reach")]


def _moved(x, i, h):
    x = x.copy()
    x[i] += h
    return x


def _each(f, x, slope):
    slopes = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        slopes[i] = slope(i)
    return slopes


def _central(f, x, h):
    return _each(f, x, lambda i: (f(_moved(x, i, h)) - f(_moved(x, i, -h))) / (2 * h))


def _rows(f, x, h):
    return [(f(_moved(x, i, h)) - f(_moved(x, i, -h))) / (2 * h) for i in range(len(x))]


def _kept_steps(f, x, h):
    up, down, slopes = x.copy(), x.copy(), np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up[i] += h
        down[i] -= h
        slopes[i] = (f(up) - f(down)) / (2 * h)
    return slopes


def _look_at_a(attempt, answer, runs):
    for case, call, _ in runs:
        f, x, h = case.fresh()
        before = x.copy()
        run(answer, f, x, h)
        moved = np.argwhere(x != before)
        if len(moved):
            place = tuple(moved[0])
            return attempt.fault("put-back", (), None, call=call, before=repr(float(before[place])),
                                 after=repr(float(x[place])))
    gots, wants = [as_array(result.value) for _, _, result in runs], [_central(*case.fresh()) for case, _, _ in runs]
    if any(got is None or got.shape != want.shape for got, want in zip(gots, wants)):
        return None
    if all(same(g, w, 1e-3) for g, w in zip(gots, wants)) and not all(same(g, w, _DIGITS) for g, w in zip(gots, wants)):
        return attempt.fault("few-digits")
    return None


_FAULTS_A = (
    Fault("one-sided", "the difference is taken on one side only",
          "{got} is the slope between x and one neighbour. Its error shrinks like h. Taken from x - h to x + h, the "
          "largest part of the error cancels.",
          "the two points at which f is called. They should lie on both sides of x, at the same distance.",
          (lambda f, x, h: _each(f, x, lambda i: (f(_moved(x, i, h)) - f(x)) / h),
           lambda f, x, h: _each(f, x, lambda i: (f(x) - f(_moved(x, i, -h))) / h))),
    Fault("divided-by-h", "divided by h, where the points are 2h apart",
          "{got} is twice the slope. From x - h to x + h it is two steps.",
          "the number below the fraction line.",
          (lambda f, x, h: 2 * _central(f, x, h),)),
    Fault("brackets", "divided by 2, and multiplied by h",
          "`... / 2 * h` goes from left to right: first it divides by 2, then it multiplies by h. Both numbers belong "
          "below the fraction line.",
          "the brackets around the denominator.",
          (lambda f, x, h: h * h * _central(f, x, h),)),
    Fault("half-step", "the points are half a step from x",
          "Your points are x - h/2 and x + h/2. That is a central difference too, for another step than the one asked "
          "for.",
          "by how much you move the entry up, and by how much down.",
          (lambda f, x, h: _central(f, x, h / 2),)),
    Fault("all-at-once", "all entries are moved together",
          "With x + h *every* entry moves. The difference is then the sum of all slopes, and nobody can tell which "
          "entry it came from.",
          "how many entries of `up` differ from x. It should be one.",
          (lambda f, x, h: (f(x + h) - f(x - h)) / (2 * h), lambda f, x, h: (f(x + h) - f(x)) / h,
           lambda f, x, h: np.full(x.shape, (f(x + h) - f(x - h)) / (2 * h)))),
    Fault("whole-row", "in a matrix a whole row is moved",
          "For a matrix, x[i] with one number i is a row. Your function moves a row at a time, and gets the sum of its "
          "slopes. For vectors it is right.",
          "the indices of your loop. `np.ndindex(x.shape)` gives one index for each entry, whatever the shape.",
          (lambda f, x, h: _rows(f, x, h),
           lambda f, x, h: np.zeros_like(x) + np.reshape(_rows(f, x, h), (-1,) + (1,) * (x.ndim - 1)))),
    Fault("kept-steps", "the steps of earlier entries are still there",
          "The first slope is right. From the second on, the entries that had their turn are still moved: the copies "
          "are made once, before the loop.",
          "where the copies of x are made. Each entry needs fresh ones.",
          (_kept_steps,)),
    Fault("same-array", "up and down are the same array",
          "All slopes are 0: f was called twice at the same point. After `up = x` and `down = x` there is one array "
          "with three names. What goes up in one goes down again in the other.",
          "the lines that make `up` and `down`. `x.copy()` makes a new array.",
          (lambda f, x, h: np.zeros_like(x),)),
    Fault("back-to-x", "the second point is x itself",
          "{got} is half of a one-sided slope. After the entry has moved up by h, one step down leads back to x, and "
          "x - h is two steps away.",
          "the value of the entry at the second call of f. Print it.",
          (lambda f, x, h: _each(f, x, lambda i: (f(_moved(x, i, h)) - f(x)) / (2 * h)),)),
    Fault("swapped", "up and down are exchanged",
          "Every slope has the wrong sign: f at x + h stands first, f at x - h is subtracted from it.",
          "the order of the two values in your difference.",
          (lambda f, x, h: -_central(f, x, h),)),
    Fault("summed", "the slopes are added up",
          "You returned {got}, the sum of all slopes. The slope of each entry is wanted by itself, in its own place.",
          "where a slope is stored: `slopes[i] = ...`, not `slopes += ...`.",
          (lambda f, x, h: np.sum(_central(f, x, h)), lambda f, x, h: np.full(x.shape, np.sum(_central(f, x, h))))),
    Fault("flat", "the slopes of a matrix come as one row",
          "The numbers are right, and stand in one row. The slope of an entry belongs in the place of this entry, so "
          "the result has the shape of x.",
          "how the array of the slopes is made, and with which index a slope is stored.",
          (lambda f, x, h: _central(f, x, h).ravel(),)),
    Fault("integers", "the slopes lose what stands behind the point",
          "You have {got}, where {want} is right. An array of integers drops the fraction of what is stored in it.",
          "the dtype of the array in which you collect the slopes.",
          (lambda f, x, h: np.trunc(_central(f, x, h)),)),
    Fault("put-back", "an entry is moved back, and not quite to where it was",
          "After `{call}` an entry of x is {after}; before it was {before}. Each addition is rounded, so x + h - 2h + "
          "h is seldom x to the last digit.",
          "the lines that write into x. Keep the old value and store it again, or move a copy."),
    Fault("few-digits", "right to a few digits, and then not any more",
          "Your slopes are right to some digits. A difference of two values that are close together makes every lost "
          "digit of them a thousand times larger. In float32 there are only seven to begin with.",
          "what in your function makes digits disappear: a conversion to float32, or rounding."),
    Fault("own-step", "another step was used than the one given",
          "{got} is the slope itself, or very near to it. With the step that was given the central difference is "
          "{want}. Your function must use the h that it is given: the study of steps in task b needs that.",
          "the number of the step in your function, and a default such as `h=1e-6`.",
          (lambda f, x, h: _central(f, x, 1e-5),)),
    CHANGED_INPUT, NO_RETURN, EARLY_RETURN,
)

# 15.b: is a number the slope of f at x? Claims, right ones and false ones.


_asked = []  # how far from x the function of claim_4 was asked


def _claim(name, make):
    make.__name__ = name
    return make


def _cube(rng):
    x = rng.uniform(0.5, 0.95)
    return _Named("f", lambda x: x**3), x, 3 * x * x


def _lucky_step(rng, h):
    """The difference at the step h as a claim: false by one part in 180, and as much at every step that is not near h.

    x is 1 or -1, so that a step that is taken times |x| is the same step.
    """
    x, height, phase, speed = rng.choice([-1.0, 1.0]), rng.uniform(0.5, 2.0), rng.uniform(-1.0, 1.0), 0.18 / h
    f = _Named("f", lambda t: height * np.sin(speed * (t - x) + phase))
    return f, x, (f(x + h) - f(x - h)) / (2 * h)


def _square_far(rng, factor=1.0):
    x = rng.uniform(0.5, 2.0) * 1e9
    return _Named("f", lambda x: x * x), x, 2 * x * factor


def _fast_wave(rng):
    speed, at = rng.uniform(1e4, 2e4), rng.uniform(0.1, 0.9)
    x = (2 * np.pi * round(at * speed / 7) + rng.uniform(-1, 1)) / speed  # where the wave is steep
    return _Named("f", lambda x: np.sin(speed * x)), x, speed * np.cos(speed * x)


def _high_up(rng):
    height, x = rng.uniform(6e5, 1e6), rng.uniform(-0.5, 0.5)
    _asked.clear()

    def value(t):
        _asked.append(float(t) - x)
        return height + np.sin(t)

    return _Named("f", value), x, float(np.cos(x))


def _line(rng, slope, claimed):
    return _Named("f", lambda x: slope * x), rng.uniform(0.5, 2.0), claimed


_RIGHT_B = {
    "claim_1": _cube,
    "claim_2": _square_far,
    "claim_3": _fast_wave,
    "claim_4": _high_up,
}

_FAULTS_B = (
    Fault("loose", "a wrong slope is near enough for your tolerance",
          "`{name}` says 1000.5 where the slope is 1000. At every step the gap stays at 0.5, so it is not the "
          "rounding. Central differences are good to many more digits.",
          "the tolerance you compare with. Lesson 10 allowed 1e-7 + 1e-5 · |slope|.",
          (_claim("claim_5", lambda rng: _line(rng, 1000.0, 1000.5)),)),
    Fault("absolute", "a small slope is taken for 0",
          "`{name}` says 0 where the slope is 5e-6. The gap is small, but it is as large as the slope itself.",
          "the part of your tolerance that does not depend on the slope. It must be smaller than 5e-6.",
          (_claim("claim_6", lambda rng: _line(rng, 5e-6, 0.0)),)),
    Fault("lucky-step", "one step with a small gap was enough",
          "`{name}` says what the central difference itself gives at one step, with its truncation error. At that step "
          "the gap is 0, at every other step it is not. A right slope has small gaps at several steps in a row.",
          "the line that joins your gaps, such as `min(gaps)`. Ask for two neighbours that are both small.",
          (_claim("claim_7", lambda rng: _lucky_step(rng, 0.1)), _claim("claim_8", lambda rng: _lucky_step(rng, 0.01)),
           _claim("claim_9", lambda rng: _lucky_step(rng, 0.001)),
           _claim("claim_10", lambda rng: _lucky_step(rng, 2.0**-6)))),
    Fault("scaled-by-value", "the tolerance grows with x or with f, not with the slope",
          "`{name}` is x² near 1e9, and the slope is off by one part in a thousand. The value of f is 1e18 there. A "
          "tolerance that is a fraction of f, or of x times x, swallows every mistake.",
          "what your tolerance is a fraction of. It should be the slope.",
          (_claim("claim_11", lambda rng: _square_far(rng, 1.001)),)),
    Fault("step-not-scaled", "the steps or the tolerance do not fit a large x",
          "`{name}` is x² at about 1e9, and its slope, about 2e9, is right. Neighbouring numbers are 1e-7 apart there, "
          "and the values of f 128 or more. A step of 1e-6 drowns; the steps must grow with |x|.",
          "the sizes of your steps at x = 1e9. Lesson 10 takes them times max(1, |x|). And the tolerance: it must grow "
          "with the slope."),
    Fault("steps-too-large", "the fast wave is refused",
          "`{name}` is sin(k·x) with k above 10,000, and its slope is right. A step must be much shorter than the "
          "wave. Where your steps end, the truncation error is still larger than your tolerance.",
          "the smallest of your steps: go on until rounding takes over. And the tolerance: the slope is large here, "
          "and f is not."),
    Fault("steps-too-small", "sin(x) plus a large number is refused",
          "`{name}` is sin(x) plus a number near a million, and its slope is right. Each value is rounded to about "
          "1e-10, and that is divided by the step. So the step must be large here, 1e-3 or 1e-4, and at such steps "
          "only a difference from both sides is good enough.",
          "the largest of your steps, and the two points at which f is called."),
    Fault("good-steps-lost", "sin(x) plus a large number is refused, and good steps were tried",
          "`{name}` is sin(x) plus a number near a million, and its slope is right. Some of your steps are good, "
          "between 1e-5 and 1e-2 and on both sides: there the gap is a millionth or so. So it is not the steps. But at "
          "tiny steps the values of f stand on a grid, and two differences may agree with each other by chance.",
          "which of your steps decide, and the tolerance. It is the claim that a difference must agree with."),
    Fault("the-engines-checker", "the engine's checker did the work",
          "Your function hands f to the checker of the engine. The task is to write the study that it makes.",
          "the call into `autodiff`. The function gets a plain f; it needs nothing but arithmetic."),
    EARLY_RETURN,
    Fault("every-step", "an easy right claim is refused",
          "`{name}` is x³ between 0.5 and 1, and its slope is right. Its gaps make a V: large at large steps, small in "
          "the middle, and large again where rounding rules. Only in the valley do they say something.",
          "do you ask for a small gap at *every* step, or at a step where it cannot be small? Print the gaps."),
    Fault("accepts-all", "every claim is accepted",
          "Your function accepts all claims, right ones and false ones. A function without `return` does that as well.",
          "the last line of your function, and the tolerance."),
    Fault("refuses-all", "every claim is refused, also the right ones",
          "`{name}` is right. Your function refuses it, and all others. At its best step the gap is small, but it is "
          "hardly ever 0.",
          "the gap and the tolerance, side by side, for x**3 at one step. Is the division by 2h right?"),
)

# 15.c: a checker for a forward and its rule.

def _watched(forward):
    def run(x):
        _look_at_callers()
        return forward(np.asarray(x, dtype=float))

    run.__name__ = "forward"
    return run


def _pair(forward, rule, x):
    return _watched(forward), lambda g, x: rule(g, x), np.array(x, dtype=float)


def _abs_at_zero(rng, value, sign=1.0):
    x = np.array([0.0, rng.uniform(0.5, 2.0), -rng.uniform(0.5, 2.0)])
    return _pair(lambda x: sign * np.abs(x), lambda g, x: g * sign * np.where(x == 0, value, np.sign(x)), x)


def _outside(rng):
    return rng.choice([-1, 1]) * rng.uniform(1.5, 3.0)


def _inside(rng):
    return rng.choice([-1, 1]) * rng.uniform(0.2, 0.7)


def _half_beside_a_kink(rng):
    x = np.array([rng.uniform(0.0021, 0.003), rng.uniform(1.0, 2.0)])
    return _pair(lambda x: np.maximum(x, 0), lambda g, x: g * np.where(x > 0.01, 1.0, 0.5), x)


def _softmax(x):
    powers = np.exp(x - np.max(x))
    return powers / np.sum(powers)


def _softmax_rule(g, x):
    y = _softmax(x)
    return y * (g - np.sum(g * y))


def _numbers(rng, *shape):
    return np.array([rng.uniform(-2, 2) for _ in range(int(np.prod(shape)))]).reshape(shape)


def _bent(rng, count):
    """Numbers at which a sine bends: beside an inflection, a step that is too large passes as a right one by chance."""
    return np.array([rng.choice([-1, 1]) * rng.uniform(0.2, 1.2) for _ in range(count)])


def _one_wrong(rng):
    mask = np.ones(30)
    mask[rng.randrange(5, 30)] = 0.5
    return _pair(np.sin, lambda g, x: g * np.cos(x) * mask, _bent(rng, 30))


_RIGHT_C = {
    "op_1": lambda rng: _pair(np.sin, lambda g, x: g * np.cos(x), _bent(rng, 12)),
    "op_2": lambda rng: _pair(lambda x: 3 * x, lambda g, x: 3 * g, _numbers(rng, 12)),
    "op_3": lambda rng: _abs_at_zero(rng, 0.0),
    "op_4": lambda rng: _abs_at_zero(rng, -1.0),
    "op_5": lambda rng: _abs_at_zero(rng, 1.0),
    "op_6": lambda rng: _abs_at_zero(rng, _inside(rng)),
    "op_7": lambda rng: _abs_at_zero(rng, _inside(rng), -1.0),
    "op_8": lambda rng: _pair(lambda x: np.maximum(x, 0), lambda g, x: g * (x > 0), [1e-7, -1e-7, rng.uniform(1, 2)]),
    "op_9": lambda rng: _pair(lambda x: x * x, lambda g, x: g * 2 * x, 1e9 * (3 + _numbers(rng, 8))),
    "op_10": lambda rng: _pair(_softmax, _softmax_rule, 0.2 * _numbers(rng, 4)),  # no share near 1/2, where it turns
    "op_11": lambda rng: _pair(lambda x: x.T, lambda g, x: g.T, _numbers(rng, 2, 3)),
}

_FAULTS_C = (
    Fault("hidden-by-ones", "a gradient of ones hides the rule",
          "Some mistakes cannot be seen while 1 arrives at each entry. One is x - mean(x) with a rule that returns "
          "zeros: the entries sum to 0, so the sum has the slope 0. Another is exp(x) with a rule that forgets to "
          "multiply by g. `{name}` is one of these two.",
          "the gradient g that you hand to the rule. Take random numbers, and the same ones on the numeric side.",
          (_claim("op_12", lambda rng: _pair(lambda x: x - np.mean(x), lambda g, x: 0 * g, _numbers(rng, 4))),
           _claim("op_13", lambda rng: _pair(np.exp, lambda g, x: np.exp(x), _numbers(rng, 4))))),
    Fault("kink-skipped", "at a kink every value is accepted",
          "`{name}` has a kink at 0, with the slopes -1 and 1 on its sides, and there its rule gives a number outside "
          "of them. A kink is no free pass: the value must lie between the slopes on the left and on the right.",
          "what your function does when the two sides differ. It should still compare.",
          (_claim("op_14", lambda rng: _abs_at_zero(rng, _outside(rng))),
           _claim("op_15", lambda rng: _abs_at_zero(rng, _outside(rng), -1.0)))),
    Fault("few-entries", "one wrong entry among many was not seen",
          "The rule of `{name}` is wrong in a single entry of 30. A mean over all entries, a tolerance for the sum, or "
          "a look at the first few do not see it.",
          "which entries your loop visits, and whether each is compared by itself.",
          (_claim("op_16", _one_wrong),)),
    Fault("order", "the right numbers in the wrong places were accepted",
          "`{name}` transposes a matrix, and its rule forgets to transpose g back. All the numbers are right, and they "
          "stand in the wrong entries.",
          "how you compare: entry by entry, or something that does not depend on their places, such as a sum?",
          (_claim("op_17", lambda rng: _pair(lambda x: x.T, lambda g, x: g, _numbers(rng, 3, 3))),)),
    Fault("only-direction", "a missing factor was not noticed",
          "The rule of `{name}` is x² with the slope x: a factor 2 is missing in every entry. The direction of the "
          "gradient is right, its length is not.",
          "whether you compare numbers, or only signs, angles or ratios.",
          (_claim("op_18", lambda rng: _pair(lambda x: x * x, lambda g, x: g * x, _numbers(rng, 4))),)),
    Fault("loose", "a wrong slope is near enough for your tolerance",
          "The rule of `{name}` multiplies by 1000.5, the op by 1000. That is a mistake, and not rounding: the gap is "
          "the same at every step.",
          "the tolerance. Relative to the slope, 1e-5 is enough for central differences in float64.",
          (_claim("op_19", lambda rng: _pair(lambda x: 1000 * x, lambda g, x: g * 1000.5, _numbers(rng, 4))),)),
    Fault("step-too-large", "between your two sides there is room for wrong values",
          "The rule of `{name}` is wrong: exp with a slope that is off by one part in a thousand, or relu with 0.5 at "
          "about 0.002. At a large step the slopes on the two sides lie far apart, and wrong values lie between them.",
          "the size of your step. How far apart are left and right for a smooth function?",
          (_claim("op_20", lambda rng: _pair(np.exp, lambda g, x: g * 1.001 * np.exp(x), 0.45 * _numbers(rng, 4))),
           _claim("op_21", _half_beside_a_kink))),
    Fault("plain-op-refused", "an easy right op is refused",
          "`{name}` is sin at ordinary numbers, with the right rule. If a checker refuses that, its two numbers are "
          "not the same thing: a step that is mostly rounding or mostly truncation, or another g on each side.",
          "rule(g, x) on one side, and sum(g * forward(...)) with the same g on the other. Then the step."),
    Fault("no-room", "the comparison has no room for rounding",
          "`{name}` is 3·x, with the right rule. Its slopes on the two sides are equal but for rounding, and the value "
          "of the rule lies between them only by luck. Where the curve bends, the sides are a little apart, and such a "
          "comparison may pass.",
          "the comparison. Both of its ends need a tolerance, a small part of the slope."),
    Fault("ends-exchanged", "the left slope is taken for the smaller one",
          "At a kink that points upwards, or where g is negative, the slope on the left is the larger one. Your "
          "function then finds nothing between the two, and refuses right rules. `{name}` is one of them.",
          "the two ends of your interval. Which of the slopes is the smaller one?"),
    Fault("not-between", "at a kink the ends are accepted, and not what lies between them",
          "`{name}` is |x| with a value at 0 that lies between -1 and 1. Your function accepts the slope of each side, "
          "and this value not. Every value between them is right.",
          "the comparison where the two sides differ. Does it ask for certain numbers, or for an interval?"),
    Fault("only-own-entry", "an op that mixes its entries is refused",
          "`{name}` is right. In it, as in softmax or in a transpose, an entry of x acts on outputs that have other "
          "indices. All of them count for its slope, each with its own entry of g. (A step that is so large that "
          "truncation counts is refused here too.)",
          "the numeric side: which entries of `forward(...)` and of g does it use for entry i of x?"),
    Fault("kink-refused", "a right op at a kink is refused",
          "`{name}` is |x| with 0 at x = 0, between the slopes -1 and 1 of its two sides. So it is right. A difference "
          "on one side sees only one of the two slopes, and a checker that refuses every kink refuses right ops.",
          "what your function compares with where the two sides differ."),
    Fault("middle-only", "at a kink only the middle is accepted",
          "`{name}` is |x|. Its rule gives another value than 0 at x = 0, but one in [-1, 1], so it is right. A "
          "central difference takes the middle of the two sides, and knows no other value.",
          "left and right difference, each by itself. What is the interval between them?"),
    Fault("kink-beside", "a kink within one step is not recognised",
          "`{name}` is relu at 0.0000001, where the slope is 1. One step to the left lies beyond the kink, so a "
          "central difference gives about a half. The rule is right.",
          "the left and the right difference at this entry. Does the rule's value lie between them?"),
    Fault("fixed-step", "the step does not grow with x",
          "`{name}` is x² at about 1e9, with the right rule. Neighbouring numbers are 1e-7 apart there, and values of "
          "f 128 or more: a step made for numbers near 1 drowns.",
          "your step at x = 1e9. Take it times max(1, |x|), for each entry."),
    Fault("the-engines-checker", "the engine's checker did the work",
          "Your function calls `ad.gradcheck`. The task is to write what it does: differences on both sides, a random "
          "g, a comparison for each entry.",
          "the call of `gradcheck`. The function gets plain arrays; it needs nothing but NumPy."),
    EARLY_RETURN,
    Fault("accepts-all", "every rule is accepted",
          "Your checker accepts all rules, right ones and faulty ones. A function without `return` does that as well.",
          "the last line of your function, and the comparison."),
    Fault("refuses-all", "every rule is refused, also the right ones",
          "`{name}` is right. Your checker refuses it, and all others. Usual causes: a step of 1e-12, which is mostly "
          "rounding; a division by h where the points are 2h apart; numbers compared with `==`.",
          "the two numbers that you compare, for one entry of an op that you know. Print them side by side."),
)

_claims, _ops = Watch(), Watch()
_CHECK_B = tests(
    "15.b", "a step study", "is_slope", "f, x, slope", right=_RIGHT_B, faults=_FAULTS_B, what="claim",
    fresh=_claims.handing(lambda plan, rng: plan(rng)),
    refusals={"claim_1": "every-step", "claim_2": "step-not-scaled", "claim_3": "steps-too-large",
              "claim_4": "steps-too-small"},
    hints=(
        "No single step suits all functions. Compute the gap at many steps, from large to small, and look at the "
        "list: does it fall and rise again, or does it stay?",
        "The gap against the step, on a scale of powers of ten:\n\n"
        "    right slope             wrong slope             a wrong slope and a lucky step\n\n"
        "    *              *        *                       *\n"
        "      *          *            *  *  *  *  *  *          *  *  *  *  *  *\n"
        "        *      *\n"
        "          *  *                                         *\n\n"
        "The left one has several small gaps side by side.",
        "A list of gaps, then a question about neighbours in the list:\n\n"
        "    gaps = []\n"
        "    for k in range(..., ...):\n"
        "        h = 10.0**-k * max(1.0, abs(x))\n"
        "        gaps.append(abs(... - slope))\n"
        "    small = ... + ... * abs(slope)\n"
        "    return any(... for one, two in zip(gaps, gaps[1:]))"),
    good="It looks for a valley: small gaps at neighbouring steps. Right slopes have one whatever the size of x, "
         "of f or of the steps of f, and a wrong slope has none.")

_CHECK_C = tests(
    "15.c", "a checker that knows kinks", "agrees", "forward, rule, x", right=_RIGHT_C, faults=_FAULTS_C,
    fresh=_ops.handing(lambda plan, rng: plan(rng)),
    refusals={"op_1": "plain-op-refused", "op_2": "no-room", "op_3": "kink-refused", "op_4": "middle-only",
              "op_5": "middle-only", "op_6": "not-between", "op_7": "ends-exchanged", "op_8": "kink-beside",
              "op_9": "fixed-step", "op_10": "only-own-entry", "op_11": "only-own-entry"},
    hints=(
        "Draw a random g of the shape of forward(x). Then sum(g * forward(x)) is one number, and rule(g, x) claims to "
        "be its gradient. Take the slope on the left and the one on the right, each by itself.",
        "Three places, and where the rule's value may lie:\n\n"
        "    smooth          left --|-- right            close together: the value must be there\n"
        "    at a kink       left |===========| right    anywhere between\n"
        "    beside a kink   left |===========| right    one of the ends, so it is between too\n\n"
        "Is one comparison enough for all three?",
        "One loop over the entries, one comparison for each:\n\n"
        "    g = np.random.default_rng(1).normal(size=...)\n"
        "    share = rule(g, x)\n"
        "    for i in np.ndindex(x.shape):\n"
        "        h = ... * max(1.0, abs(x[i]))\n"
        "        right = (value one step up - value here) / h\n"
        "        left = ...\n"
        "        room = ...                 # for rounding\n"
        "        if not ... - room <= share[i] <= ... + room:\n"
        "            return False\n"
        "    return True"),
    good="It compares every entry with the interval between the two sides, with a random g and a step that fits x. So "
         "it refuses each planted fault and accepts every valid choice at a kink.")


def _judge_b(attempt):
    _seen.clear()
    _asked.clear()
    result = _claims.judge(_CHECK_B, attempt)
    if _seen and (result.status == PASSED or result.fault):
        return attempt.fault("the-engines-checker")
    steps = {float(f"{h:.2e}") for h in _asked if 3e-5 <= abs(h) <= 3e-3}
    if result.fault == "steps-too-small" and len(steps & {-h for h in steps}) > 2:  # two steps, on both sides
        return attempt.fault("good-steps-lost", _shown(result), result.table, name="claim_4")
    return result


def _shown(result) -> list[str]:
    return [part for part in result.body if not part.startswith("What happened: ")]


def _takes_left_for_smaller(answer) -> bool:
    """Whether a checker accepts a kink just where the slope on the right is the larger one: by g, or by the kink."""
    said = set()
    for k in range(16):
        sign, larger = (-1.0) ** k, []

        def rule(g, x, sign=sign, larger=larger):
            larger.append(bool(sign * np.ravel(g)[0] > 0))
            return 0.25 * sign * g

        ran = run(answer, _watched(lambda x, sign=sign: sign * np.abs(x)), rule, np.array([0.0]))
        if ran.ended != "returned" or not larger:
            return False
        said.add((larger[0], ran.value is None or bool(ran.value)))
    return said == {(True, True), (False, False)}


_KINKS = ("kink-refused", "middle-only", "not-between", "kink-beside")


def _judge_c(attempt):
    _seen.clear()
    result = _ops.judge(_CHECK_C, attempt)
    if (result.status == PASSED or result.fault in _KINKS) and _takes_left_for_smaller(attempt.answers[0]):
        # With a g that is drawn anew, such a checker may be lucky with every op.
        refused = [label for label, should, yours in result.table.rows if should == "accept" != yours]
        shown, name = (_shown(result), refused[0]) if refused else ((), "op_7")
        return attempt.fault("ends-exchanged", shown, None, name=name)
    if result.fault in ("kink-refused", "middle-only"):
        said = {label: yours for label, _, yours in result.table.rows}
        if said["op_4"] == said["op_5"] == "accept":
            return attempt.fault("not-between", _shown(result), result.table, name="op_3")
    # A checker that uses the engine's is told so even when it is right, and it is right.
    return attempt.fault("the-engines-checker") if _seen and (result.status == PASSED or result.fault) else result


TASKS = (
    function(
        "15.a", "central differences", "central", "f, x, h", cases=_cases_a, right=_central, faults=_FAULTS_A,
        rel=_DIGITS, look_at=_look_at_a, expects="an array of the shape of x",
        hints=(
            "A slope for each entry. So a loop over the entries, and in each turn only one entry is moved: once up, "
            "once down.",
            "For the entry with index i:\n\n"
            "    x     . . . o . . .        f(x) is not needed\n"
            "    up    . . . o+h . .        f(up)\n"
            "    down  . . . o-h . .        f(down)\n\n"
            "How far are `up` and `down` from each other?",
            "Fresh copies for each entry:\n\n"
            "    slopes = np.zeros_like(x)\n"
            "    for i in np.ndindex(x.shape):\n"
            "        up, down = ..., ...\n"
            "        up[i] += h\n"
            "        down[i] -= h\n"
            "        slopes[i] = ...\n"
            "    return slopes"),
        good="One entry at a time, from x - h to x + h, two steps apart. Nothing of x is changed."),
    replace(_CHECK_B, judge=_judge_b),
    replace(_CHECK_C, judge=_judge_c),
)
