"""Checks of exercise 14, same value and other gradient: two functions that meet, a cut, and a kink.

Wrong answers as a learner would type them, each with the fault it must be given, are in wrong_answers/14.txt.
"""

from dataclasses import dataclass
from itertools import permutations

from autodiff.course import judge
from autodiff.course.forms import NO_RETURN, Case, apart, by_hand, function, same, show
from autodiff.course.judge import EARLY_RETURN, Fault, printed
from autodiff.course.result import Table, show_number
from autodiff.course.tensors import Named, is_tensor, reading

# 14.a: six pairs, and the reason for each.

_WORDS = ("values", "nothing", "meet", "cut", "kink")
# What the word is for each kind of pair. "copy" and "away" look like a cut and like a kink, and are none.
_KINDS = {"values": "values", "copy": "nothing", "away": "nothing", "meet": "meet", "cut": "cut", "kink": "kink"}
_PAIRS = {
    "values": ("x + {x}", "{x} * x"),
    "copy": ("x**2", "x * x.copy()"),
    "away": ("abs(x)", "relu(x) + relu(-x)"),
    "meet": ("x**2", "{x} * x"),
    "cut": ("x**2", "x * x.detach()"),
    "kink": ("z", "relu(z) - relu(-z)"),
}
_OTHER_PAIRS = {
    "values": ("x * x", "x + x"),
    "copy": ("3 * x", "x + 2 * x.copy()"),
    "away": ("relu(x)", "maximum(x, 0)"),
    "meet": ("x**2 + {x}", "{x} * x + x"),
    "cut": ("x", "2 * x - x.detach()"),
    "kink": ("v.max()", 'v.max(ties="first")'),
}
_DEALS = tuple((x, pairs, order.split()) for x, pairs, order in (
    (3.0, _PAIRS, "meet copy kink cut values away"), (-4.0, _OTHER_PAIRS, "cut away values kink meet copy"),
    (5.0, _OTHER_PAIRS, "copy kink meet values away cut"), (-3.0, _PAIRS, "away cut copy meet kink values"),
    (6.0, _PAIRS, "kink values away copy cut meet"), (7.0, _OTHER_PAIRS, "values meet cut away copy kink")))


def _texts(deal):
    x, pairs, order = deal
    return [tuple(side.format(x=f"({show_number(x)})" if x < 0 else show_number(x)) for side in pairs[kind])
            for kind in order]


def _given(deal):
    texts = _texts(deal)
    width = max(len(left) for left, _ in texts)
    lines = [f"    {k}:  {left:{width}}   and   {right}" for k, (left, right) in enumerate(texts, 1)]
    return "\n".join([f"x = {show_number(deal[0])}, z = 0, v = [1, 4, 4].", *lines])


def _answered(**changed):
    """The words for the six pairs when some kinds of pair get another word."""
    return lambda deal: tuple((_KINDS | changed)[kind] for kind in deal[2])


def _how_a(deal):
    # The same words for kinds that look alike, or they would say which of the two it is.
    numbers, history = "compute both values here, and at another x too", "look whether a tensor in it loses its history"
    slopes = "look at the slopes on the left and on the right of this place"
    about = {"values": numbers, "meet": numbers, "cut": history, "copy": history, "kink": slopes, "away": slopes}
    return tuple(f"{left} and {right}: {about[kind]}" for kind, (left, right) in zip(deal[2], _texts(deal)))


_FAULTS_A = (
    Fault("equal-is-equal", "equal values were taken for equal gradients",
          "You wrote \"nothing\" for every pair with equal values. A gradient says how the value *changes*, and one "
          "value does not tell. In three of these pairs the gradients differ: at a cut, at a kink, and where two "
          "functions meet.",
          "the gradient of each expression by itself. Work out both numbers for each pair.",
          (_answered(cut="nothing", kink="nothing", meet="nothing"),)),
    Fault("other-formula", "another formula was taken for another function",
          "You wrote \"meet\" for pairs that are one and the same function in two spellings. They are equal for every "
          "x, not only here, nothing is cut, and at this x there is no kink: the gradients agree.",
          "the pairs with `copy`, and with `relu` or `abs`. Try another x of the same sign.",
          (_answered(copy="meet", away="meet"), _answered(away="meet"), _answered(copy="meet"))),
    Fault("copy-is-cut", "a copy was taken for a cut",
          "`copy` makes new memory and keeps the history: it is an operation with slope 1. `detach` shares the memory "
          "and drops the history. Only the second one cuts.",
          "the pair with `.copy()`. Which shares reach x?",
          (_answered(copy="cut"),)),
    Fault("away-is-kink", "a function with a kink was taken for a kink",
          "At this x you are away from the kink, which is at 0. There the slope on the left and the slope on the right "
          "are the same, and every library gives the same gradient.",
          "x itself: is it at the kink?",
          (_answered(away="kink"),)),
    Fault("kink-unseen", "a kink, or a tie, was not seen",
          "The pair with z or v stands exactly at a kink or a tie. There the engine has to choose, and the two "
          "expressions choose differently, although their values are equal everywhere.",
          "z = 0, and the two largest entries of v.",
          (_answered(kink="nothing"), _answered(kink="meet"), _answered(kink="cut"))),
    Fault("cut-unseen", "a cut was not seen",
          "In one of the pairs a tensor is detached. Its value counts and its history does not, so one share is "
          "missing from the gradient.",
          "the pair with `.detach()`.",
          (_answered(cut="nothing"), _answered(cut="meet"))),
    Fault("meet-unseen", "two different functions that meet here were taken for one",
          "One pair has equal values at this x, and at no x close by. These are two curves that cross, and where "
          "curves cross their slopes differ.",
          "each pair without detach and without a kink, at another x.",
          (_answered(meet="nothing"), _answered(meet="kink"), _answered(meet="cut"))),
    Fault("values-unseen", "a pair whose values differ already was not seen",
          "For one pair you answered about the gradients, but its two values are not equal at this x.",
          "both values of each pair. Begin with these.",
          (_answered(values="nothing"), _answered(values="meet"))),
    Fault("meet-is-values", "\"meet\" and \"values\" stand in each other's place",
          "\"values\" is the pair whose values differ at this x already. Where two functions meet, the values are "
          "equal here, and differ beside it.",
          "both values of these two pairs, at the given x.",
          (_answered(meet="values", values="meet"),)),
    Fault("equal-here", "a pair with equal values here was called \"values\"",
          "Two of your pairs have the word \"values\", and in one of them both values are equal at this x. That they "
          "differ at another x makes it another word.",
          "both values of these two pairs, at the given x.",
          (_answered(meet="values"),)),
    Fault("reasons-mixed", "the reasons stand in each other's places",
          "You found the three pairs with equal values and other gradients. But each reason leaves another trace. Two "
          "functions that meet have different values at another x. At a cut a tensor loses its history. At a kink the "
          "slopes on the left and on the right are not the same.",
          "these three pairs again, with three questions: other values at another x? a lost history? two slopes?",
          tuple(_answered(**dict(zip(("meet", "cut", "kink"), order)))
                for order in permutations(("meet", "cut", "kink")) if order != ("meet", "cut", "kink"))),
    Fault("wrong-twin", "of two pairs that look alike, the wrong one was taken",
          "Your \"kink\" or your \"cut\" stands at a pair that only looks like one, and the pair that is one got "
          "\"nothing\". A kink is at one place, and only there are there two slopes. A cut is where the history ends, "
          "not where new memory begins.",
          "which x, z or v each of these pairs is computed at, and what `copy` and `detach` keep.",
          (_answered(kink="nothing", away="kink"), _answered(cut="nothing", copy="cut"),
           _answered(kink="nothing", away="kink", cut="nothing", copy="cut"))),
)

# 14.b: another function with equal values at some points.

_STEP = 1e-4


@dataclass(frozen=True)
class Spot(Case):
    """A case with its place in the check: `group` counts functions, `role` is "point", "beside" or "between"."""

    role: str = ""
    group: int = 0


_SQUARE = Named("x**2", lambda x: x**2)


def _functions():
    import numpy as np

    return [Named("tanh(x) + 2", lambda x: np.tanh(x) + 2.0), Named("3 * x", lambda x: 3.0 * x),
            Named("exp(x)", np.exp), Named("x**3", lambda x: x**3),
            Named("1 / (1 + x**2)", lambda x: 1.0 / (1.0 + x**2))]


def _cases_b(rng):
    import autodiff as ad

    def spot(at, f, points, role, group):
        said = f"{f} at {show_number(round(at, 6))}"
        return Spot(lambda: (ad.Var(at, name="x"), f, list(points)), said, role, group)

    first, second = rng.sample(_functions(), 2)
    grid = rng.sample([-2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0], 4)
    # On no common grid: else what is 0 there, such as a sine, is 0 at every point of every call.
    points = [round(p + shift / 100, 2) for p, shift in zip(grid, rng.sample(range(1, 25), 4))]
    groups = [(_SQUARE, [1.0, 2.0]), (first, points[:1]), (second, points[1:])]
    made = []
    for k, (f, points) in enumerate(groups):
        made += [spot(p, f, points, "point", k) for p in points]
        made += [spot(p + step, f, points, "beside", k) for p in points for step in (_STEP, -_STEP)]
        made += [spot(p + 0.25, f, points, "between", k) for p in points]
    return made


def _number(made):
    """(value, gradient of x or None) when one number came back, else None."""
    found = None if isinstance(made, (tuple, list, dict)) else reading(made)
    if found is None or found[0].size != 1:
        return None
    gradient = found[1].get("x")
    return found[0].item(), None if gradient is None or gradient.size != 1 else gradient.item()


def _near(a, b, scale=1.0) -> bool:
    return abs(a - b) <= 1e-9 * max(1.0, abs(a), abs(b)) * scale


def _fault(attempt, fault_id, run, said, table, **words):
    return attempt.fault(fault_id, [*said, *printed(run)], table, **words)


def _judge_b(attempt, answer, runs):
    """14.b has many right answers: the properties are looked at, one after the other."""
    found = []
    for case, call, run in runs:
        got = _number(run.value)
        if got is None:
            return attempt.wrong([f"`{call}` returned {show(run.value)}; expected a tensor with one number.",
                                  *printed(run)], look="The form of what you return.")
        x, f, _ = case.fresh()
        found.append((case, call, run, got, _number(f(x))))
    points = [row for row in found if row[0].role == "point"]
    table = _table_b(points)
    unequal = [row for row in points if not _near(row[3][0], row[4][0])]
    if unequal:
        case, call, run, got, want = unequal[0]
        said = ["`{}` has the value {}; expected {}, as f has there.".format(call, *apart(got[0], want[0]))]
        agree = {row[0].group for row in points if _near(row[3][0], row[4][0])}
        fault = ("unequal-values" if not agree else "points-unused" if _ignores_points(answer, points) else
                 "several-points" if 0 not in agree and 1 in agree else "some-points")  # 0: two points, 1: one
        return _fault(attempt, fault, run, said, table)
    lost = [row for row in points if row[3][1] is None]
    if lost:
        flat = all(row[3][0] == lost[0][3][0] for row in found if row[0].group == lost[0][0].group)
        said = [f"`{lost[0][1]}` sends no gradient to x."]
        return _fault(attempt, "constant" if flat else "not-reached", lost[0][2], said, table)
    for case, call, run, got, _ in points:
        x = case.fresh()[0]
        sides = [row[3][0] for row in found if row[0].role == "beside" and row[0].group == case.group
                 and abs(row[0].fresh()[0].item() - x.item()) < 2 * _STEP]
        slope = (sides[0] - sides[1]) / (2 * _STEP)
        right, left = (sides[0] - got[0]) / _STEP, (got[0] - sides[1]) / _STEP
        if abs(right - left) > 0.05 * max(1.0, abs(slope)):
            said = [f"At `{call}` your values rise with the slope {left:.3g} on the left and {right:.3g} on the right."]
            return _fault(attempt, "kink-there", run, said, table)
        if abs(slope - got[1]) > 1e-4 * max(1.0, abs(slope), abs(got[1])):
            told = apart(got[1], slope)
            said = [f"`{call}` has the gradient {told[0]}, and beside this x its values rise with the slope {told[1]}."]
            return _fault(attempt, "cut-used", run, said, table)
    equal = [row for row in points if _near(row[3][1], row[4][1], 1e3)]
    if equal:
        case, call, run, got, want = equal[0]
        said = [f"`{call}` has the gradient {show_number(got[1])}, the same as f."]
        if len(equal) < len(points):
            return _fault(attempt, "some-gradients", run, said, table)
        everywhere = all(_near(row[3][0], row[4][0]) for row in found)
        return _fault(attempt, "same-function" if everywhere else "touches", run, said, table)
    return attempt.passed(_table_b([row for row in points if row[0].group == 0]))


def _ignores_points(answer, rows) -> bool:
    """Whether the values stay what they are when other points are handed over."""
    for case, _, _, got, _ in rows:
        x, f, points = case.fresh()
        other = _number(judge.run(answer, x, f, [p + 0.37 for p in points]).value)
        if other is None or other[0] != got[0]:
            return False
    return True


def _table_b(rows):
    """One row for each point: value and gradient, of f and of the answer."""
    return Table(("f, at the point", "f: value, gradient", "yours: value, gradient"),
                 tuple((case.at, show(want), show(got)) for case, _, _, got, want in rows))


_FAULTS_B = (
    Fault("same-function", "the gradients are equal, because it is the same function",
          "Your function has the values of f at the points and everywhere else that the check looked. Another spelling "
          "of one function has the same slopes. Add something that is 0 at the points, and not beside them.",
          "a factor that is 0 exactly at the point p. You need one such factor for each point.",
          ()),
    Fault("touches", "the two curves touch at the points, and do not cross",
          "Values and gradients both agree there. What you add is 0 at the points with slope 0, as (x - p)**2 is. To "
          "have another gradient, it must pass through 0 with a slope.",
          "the power of each factor (x - p).",
          ()),
    Fault("some-gradients", "at some points the gradients differ, at others they are equal",
          "What you add has a slope at some points, and at others it has the slope 0. Perhaps a factor appears twice, "
          "or something else in your product is 0 there as well.",
          "the point in the line above. Work out the derivative of what you add, there.",
          ()),
    Fault("some-points", "the values agree at some of the points only",
          "Where they differ, what you add to f(x) is not 0. There can be one point, or two, or more, and f can be any "
          "function: each point needs its own factor.",
          "the loop over `points`. Does it use all of them?",
          ()),
    Fault("several-points", "with one point the values agree, with two they do not",
          "Each point has its part in your function, and one part alone does what it should. With several points the "
          "parts disturb each other: at the point p the part of q is still there.",
          "two points p and q. Put x = p into what your loop makes: what is left of the part that belongs to q?",
          ()),
    Fault("points-unused", "your function does not depend on the points",
          "With other points in the list `points` your function has the same values at the same x. They agree with f "
          "where it happens to fit, and not at the points that the check brings.",
          "where `points` stands in your function.",
          ()),
    Fault("unequal-values", "the values differ at the points",
          "The task has two halves: equal values at the points, and other gradients there. The first half is missing.",
          "what you add to f(x), or put in its place. What is its value at a point?",
          ()),
    Fault("kink-there", "your function has a kink at a point",
          "At a kink the gradient is a choice, and other libraries may choose another one. Here the slope is to be "
          "clear: take something smooth that passes through 0 at the points.",
          "abs, relu, maximum or `where` in your function.",
          ()),
    Fault("cut-used", "the gradient is not the slope of the values: something is cut",
          "Without a cut the two numbers above agree. In your function the value follows x one way, "
          "and the graph has another. A `detach`, a plain number made from x, or an `if` on its value does this. Here "
          "the task is to do without.",
          "`.detach()`, `.item()`, `.data`, `no_grad` and `if` in your function.",
          ()),
    Fault("not-reached", "no gradient comes back to x",
          "The values are right, and nothing leads from your result back to x, so there is no gradient that could "
          "differ.",
          "where x, or f(x), loses its history.",
          ()),
    Fault("constant", "your function is a constant there",
          "The value is right, and it is the same for every x close by. A constant sends no gradient to x. The "
          "task asks for a function of x that has a gradient, with one point too.",
          "which term of your function contains x, when there is one point.",
          ()),
    EARLY_RETURN, NO_RETURN,
)

# 14.c: the value of one function, the gradient of another.


def _cases_c(rng):
    import autodiff as ad

    def case(numbers, f, h):
        return Case(lambda: (ad.Var(numbers, name="x"), f, h), f"f = {f}, h = {h}")

    functions = _functions()
    made = [case([1.0, 2.0], _SQUARE, Named("3 * x", lambda x: 3.0 * x))]
    for _ in range(3):
        f, h = rng.sample(functions, 2)
        made.append(case(rng.sample([-1.5, -0.75, 0.25, 0.5, 1.25, 1.75], 3), f, h))
    return made


def _reading(made):
    """{"value": ..., "gradient": ... or None}; what is no tensor or array stays as it is."""
    found = None if isinstance(made, (tuple, list, dict)) else reading(made)
    return made if found is None else {"value": found[0], "gradient": found[1].get("x")}


def _one_tensor(attempt, answer, runs):
    for _, call, run in runs:
        if isinstance(run.value, dict) or not isinstance(_reading(run.value), dict):
            return attempt.wrong([f"`{call}` returned {show(run.value)}; expected a tensor.", *printed(run)],
                                 look="The form of what you return.")
    return None


_FAULTS_C = (
    Fault("gradient-of-f", "value and gradient are those of f",
          "The value is right, and the gradient is that of f: equal gradients, which is what the task is to avoid. "
          "Either h does not appear, or its share is cut, or it cancels.",
          "along which path the gradient of h could come back.",
          (lambda x, f, h: f(x), lambda x, f, h: f(x) + h(x).detach() - h(x).detach())),
    Fault("value-of-h", "value and gradient are those of h",
          "The gradient is right, and the value is that of h. The value of f must come in, in a way that brings no "
          "gradient.",
          "what is missing from h(x) to reach the value f(x).",
          (lambda x, f, h: h(x),)),
    Fault("wrong-way", "f and h stand in each other's place",
          "You have the value of h and the gradient of f. The part with history decides the gradient; the detached "
          "part only corrects the value.",
          "which of the two stands outside the detach.",
          (lambda x, f, h: f(x) + (h(x) - f(x)).detach(),)),
    Fault("not-corrected", "the value of h is still in the sum",
          "The gradient is right. The value is f(x) + h(x): you added the value of f, and did not take away the value "
          "of h.",
          "the number that turns h(x) into f(x). It is a difference.",
          (lambda x, f, h: h(x) + f(x).detach(),)),
    Fault("sum", "value and gradient are sums",
          "You have f(x) + h(x), in the value and in the gradient. Nothing is cut.",
          "which part may have history, and which may not.",
          (lambda x, f, h: f(x) + h(x),)),
    Fault("f-not-cut", "both gradients come back",
          "The value is right, and the gradient is that of f plus that of h. f enters with its history.",
          "the term with f. Does it stand inside the detach?",
          (lambda x, f, h: h(x) + f(x) - h(x).detach(),)),
    Fault("cancelled", "the gradient of h cancels itself",
          "The value is right, and the gradient is 0: h enters twice with history, once plus and once minus.",
          "the second h in your sum. It is there to correct the value, and nothing else.",
          (lambda x, f, h: h(x) + f(x).detach() - h(x),)),
    Fault("scaled", "the gradient of h is scaled",
          "The value is right. You multiply h(x) by a constant, and a factor multiplies the gradient too: it is that "
          "of h times f(x) / h(x). To add a constant leaves the gradient as it is.",
          "a correction that is added.",
          (lambda x, f, h: h(x) * (f(x) / h(x)).detach(),)),
    Fault("h-reversed", "the gradient of h has the wrong sign",
          "The value is right, and the gradient is that of h times -1: the h with history is subtracted, and the "
          "detached one is added.",
          "the signs in front of the two h.",
          (lambda x, f, h: f(x).detach() - h(x) + h(x).detach(),)),
    Fault("summed", "the entries are added up",
          "Your result is one number: the sum of what it should be. The task asks for a value for each entry of x, as "
          "f gives it. A gradient does not show the difference, because the check takes it of the sum.",
          "a `.sum()` in your function.",
          (lambda x, f, h: (h(x) + (f(x) - h(x)).detach()).sum(),)),
    Fault("all-cut", "no gradient comes back",
          "The value is right, and your result has no history at all.",
          "what stands inside `detach` or `no_grad`. One tensor must stay outside.",
          (lambda x, f, h: f(x).detach(), lambda x, f, h: (h(x) + f(x) - h(x)).detach())),
    NO_RETURN,
)

# 14.d: one function, written twice, with two gradients at a kink.


# Where [0, 3, 3] is moved, alone and together: along these, a function may have no kink.
_ALONG = {(1, 0, 0): "x[0]", (0, 1, 1): "x[1] and x[2] together"}


def _cases_d(rng):
    import autodiff as ad

    def spot(numbers, at, role, group):
        return Spot(lambda: (ad.Var(numbers, name="x"),), at, role, group)

    def numbers(zero):
        low, high = rng.choice([-2.5, -1.5, -0.75]), rng.choice([1.5, 2.0, 3.5])
        chosen = [low, high, high]
        rng.shuffle(chosen)
        return [*chosen[:zero], 0.0, *chosen[zero:]]

    # The zero is first, in the middle and last: else two expressions that part at a fixed place could pass.
    special = [[0.0, 3.0, 3.0], numbers(rng.choice([1, 2])), numbers(3)]
    made = [spot(x, "a zero and a tie", "special", k) for k, x in enumerate(special)]
    made += [spot([2 * v for v in x], "a zero and a tie", "doubled", k) for k, x in enumerate(special)]
    for along, said in _ALONG.items():
        made += [spot([v + sign * _STEP * a for v, a in zip(special[0], along)], f"[0, 3, 3] with {said} moved",
                      "moved", along) for sign in (1, -1)]
    for k in range(2):
        x = rng.sample([-2.25, -1.25, -0.5, 0.5, 1.25, 2.75], 4)
        along = [rng.choice([-1, 1]) * rng.choice([0.5, 1.0, 1.5]) for _ in x]
        made.append(spot(x, "no zero, no tie", "smooth", k))
        made += [spot([a + sign * _STEP * b for a, b in zip(x, along)], "beside it", "beside", k) for sign in (1, -1)]
    return made


def _two(made):
    """[(value, gradient of x or None), ...] of two results, else None."""
    if not isinstance(made, (tuple, list)) or len(made) != 2:
        return None
    found = [reading(m) for m in made]
    return None if any(f is None for f in found) else [(value, grads.get("x")) for value, grads in found]


def _judge_d(attempt, answer, runs):
    """14.d has many right answers: the properties are looked at, one after the other."""
    import numpy as np

    found = []
    for case, call, run in runs:
        got = _two(run.value)
        if got is None:
            return attempt.wrong([f"`{call}` returned {show(run.value)}; expected two tensors, as in `return f, g`.",
                                  *printed(run)], look="The form of what you return.")
        found.append((case, call, run, *got))
    special = [row for row in found if row[0].role == "special"]
    table = _table_d(special)
    for case, call, run, f, g in found:
        if f[0].shape != g[0].shape or not same(f[0], g[0]):
            said = ["`{}` ({}): the values are {} and {}.".format(call, case.at, *apart(f[0], g[0]))]
            given = case.role in ("special", "doubled")
            return _fault(attempt, "unequal-values" if given else "only-here", run, said, table)
    for _, call, run, *both in found:
        for place, (_, gradient) in zip(("first", "second"), both):
            if gradient is None:
                return _fault(attempt, "not-reached", run, [f"`{call}`: no gradient comes from the {place}."], table)
            if not np.all(np.isfinite(gradient)):
                said = [f"`{call}`: the gradient of the {place} is {show(gradient)}."]
                return _fault(attempt, "not-finite", run, said, table)
    for case, call, run, *both in found:
        if case.role != "smooth":
            continue
        plus, minus = (row for row in found if row[0].role == "beside" and row[0].group == case.group)
        along = plus[0].fresh()[0].data - minus[0].fresh()[0].data
        for place, (_, gradient), up, down in zip(("first", "second"), both, plus[3:], minus[3:]):
            rise = float(np.sum(up[0]) - np.sum(down[0])) / (2 * _STEP)
            slope = float(np.sum(gradient * along)) / (2 * _STEP)
            if abs(rise - slope) > 1e-4 * max(1.0, abs(rise), abs(slope)):
                told = apart(rise, slope)
                said = [f"`{call}` has neither a zero nor a tie. There the values of the {place} rise with the slope "
                        f"{told[0]}, and its gradient says {told[1]}."]
                return _fault(attempt, "cut-used", run, said, table)
    equal = [row for row in special if same(row[3][1], row[4][1])]
    if equal:
        said = [f"`{equal[0][1]}`: both gradients are {show(equal[0][3][1])}."]
        fault = "equal-gradients" if len(equal) == len(special) else "some-inputs"
        return _fault(attempt, fault, equal[0][2], said, table)
    for case, call, ran, *_ in special:
        doubled = next(row for row in found if row[0].role == "doubled" and row[0].group == case.group)
        for place, made, again in zip(("first", "second"), ran.value, doubled[2].value):
            cut = _cut_from_x(made, again)
            if cut is not None:
                said = [f"`{call}`: in the graph of the {place} stands the constant {show(cut)}. With 2 * x in place "
                        "of x it is another one."]
                return _fault(attempt, "cut-at-kink", ran, said, table)
    result = attempt.passed(_table_d(special[:1]))
    result.body += _not_valid(found)
    return result


def _cut_from_x(made, doubled):
    """A constant in the graph of `made` that is another number in the graph for 2 * x; None when there is none.

    To double x moves no zero and no tie, and changes no sign and no order. So masks and indices stay as they are.
    """
    import numpy as np

    pairs = list(zip(_constants(made), _constants(doubled)))
    return next((a for a, b in pairs if a.shape == b.shape and not np.array_equal(a, b)), None)


def _constants(made):
    """What enters the graph of a tensor without history."""
    import numpy as np

    import autodiff as ad

    return [np.asarray(getattr(operand, "data", operand) if is_tensor(operand) else operand)
            for node in ad.sorted_nodes(made) if node.op is not None
            for operand in node.op.inputs if not (is_tensor(operand) and operand.tracked)]


def _not_valid(found) -> list[str]:
    """A sentence on the first gradient at [0, 3, 3] that is no subgradient, because it misses a slope that is clear."""
    import numpy as np

    here = found[0]
    for along, moved in _ALONG.items():
        up, down = (row for row in found if row[0].role == "moved" and row[0].group == along)
        for k, place in ((3, "first"), (4, "second")):
            rises = [float(np.sum(a[k][0]) - np.sum(b[k][0])) / _STEP for a, b in ((up, here), (here, down))]
            predicted = float(np.sum(here[k][1] * along))
            if abs(rises[0] - rises[1]) < 1e-2 and abs(rises[0] - predicted) > 1e-2:
                rise, predicted = apart(rises[0], predicted)
                return [f"One thing more: at [0, 3, 3] the gradient of the {place} is not valid. Move {moved}: the "
                        f"values rise with the slope {rise} on both sides, and this gradient predicts {predicted}."]
    return []


def _table_d(rows):
    return Table(("x", "first: value, gradient", "second: value, gradient"),
                 tuple((show(case.fresh()[0]), show(f), show(g)) for case, _, _, f, g in rows))


_FAULTS_D = (
    Fault("equal-gradients", "the two gradients are equal",
          "The two values are equal for every x: right. But at a zero and at a tie the gradients are equal too. Either "
          "it is one spelling twice, or both choose the same, or there is no kink at such a place.",
          "the table of lesson 09. Which functions have a kink at 0, or at a tie, and which of them choose "
          "differently?",
          ()),
    Fault("some-inputs", "the gradients differ for some of the inputs only",
          "Each input of the check has a 0 in some place and two equal largest entries in some places. Your two "
          "expressions part at fixed places, or at one of the numbers that happened to be there.",
          "an index in your function. Can you use all entries?",
          ()),
    Fault("unequal-values", "the values differ at the given inputs",
          "The two expressions must be equal for every x. First make them equal, then look at the gradients.",
          "both values at [0, 3, 3], by hand.",
          ()),
    Fault("only-here", "the values are equal at a zero and a tie, and differ elsewhere",
          "These are two functions that meet at such inputs, as in task b. Here one and the same function is wanted, "
          "in two spellings.",
          "both values at an x with negative entries, and without a tie.",
          ()),
    Fault("cut-used", "a gradient is wrong also where there is no kink",
          "Away from zeros and ties there is nothing to choose, and the gradient must be the slope of the values. "
          "There it is not, so something is cut. In this task no cut is allowed: the kink alone is to make the "
          "difference.",
          "`.detach()`, `.item()`, `.data` and `no_grad` in your function.",
          ()),
    Fault("cut-at-kink", "something is cut, just at the kink",
          "A number that was made from x has no history there. The two gradients differ because of this cut, and not "
          "because a kink leaves a choice. In this task no cut is allowed.",
          "`.detach()`, `.item()`, `.data` and `no_grad` in your function.",
          ()),
    Fault("not-reached", "one of the two sends no gradient to x",
          "A result without history, or a function that never reaches x, has no gradient. Then there is nothing that "
          "could be different.",
          "where the history is lost.",
          ()),
    Fault("not-finite", "a gradient is NaN or infinite",
          "The values agree, but one of the rules met a slope that is infinite, and 0 times infinity is NaN. That is "
          "no gradient from which one can choose.",
          "sqrt, log, a power or a division at 0. Take a function whose slopes on both sides are finite.",
          ()),
    NO_RETURN,
)

TASKS = (
    by_hand("14.a", "why the gradients differ", tuple(f"pair_{k}" for k in range(1, 7)),
            deal=lambda k: _DEALS[k % len(_DEALS)], given=_given, right=_answered(), faults=_FAULTS_A, how=_how_a,
            words=_WORDS, numbers=False, hints=(
        "Go through each pair in this order. Are the values equal here? Are they equal at another x too? Is something "
        "detached? Does x stand at a kink or a tie?",
        "    values differ here                              \"values\"\n"
        "    equal here, differ at another x                 \"meet\"\n"
        "    equal everywhere, a tensor has no history       \"cut\"\n"
        "    equal everywhere, x is at a kink or a tie       \"kink\"\n"
        "    equal everywhere, and none of these             \"nothing\"\n\n"
        "Two of the pairs only look as if they belonged to another line.",
        "Write down four numbers for each pair:\n\n"
        "    pair   value left   value right   gradient left   gradient right\n"
        "    1      ...          ...           ...             ...\n\n"
        "Where the values differ, the word is \"values\". Where all agree, it is \"nothing\". Else ask why."),
        good="Equal values can hide three things: two functions that meet, a cut, and a kink. And another formula "
             "alone is none of them."),
    function("14.b", "another function that meets f", "meeting", "x, f, points", cases=_cases_b,
             right=lambda x, f, points: 0.0, look_at=_judge_b, faults=_FAULTS_B, lines=2_000_000, hints=(
        "Begin with f(x). Add something that is 0 at every one of the points, and that is not flat there.",
        "For one point p, with x - p added:\n\n"
        "    g(x) = f(x) + (x - p)          the value at p: f(p) + 0\n"
        "                                   the slope at p: f'(p) + 1\n\n"
        "For two points p and q, what is 0 at both?",
        "    def meeting(x, f, points):\n"
        "        extra = 1.0\n"
        "        for p in points:\n"
        "            extra = ...       # 0 at p as well\n"
        "        return f(x) + extra"),
        good="Equal at all given points, and another function: a test that compares values at a few points cannot see "
             "the slopes."),
    function("14.c", "value of f, gradient of h", "borrowed", "x, f, h", cases=_cases_c,
             right=lambda x, f, h: _reading(h(x) + (f(x) - h(x)).detach()), tidy=_reading, look_at=_one_tensor,
             faults=_FAULTS_C, did="made", lines=1_000_000, hints=(
        "The gradient follows history, the value does not. So one part of the sum has history and decides the "
        "gradient. Another part is a constant and puts the value right.",
        "                result\n"
        "               /      \\\n"
        "    with history      constant\n"
        "    its gradient is    its value makes\n"
        "    the one you want   the sum equal to f(x)",
        "    def borrowed(x, f, h):\n"
        "        correction = ...            # a constant: what is missing from h(x) to f(x)\n"
        "        return h(x) + correction"),
        good="Value and gradient can be chosen separately: a detached correction changes the one and not the other."),
    function("14.d", "one function, two gradients at a kink", "pair", "x", cases=_cases_d, right=lambda x: (0.0, 0.0),
             look_at=_judge_d, faults=_FAULTS_D, lines=1_000_000, hints=(
        "x always has an entry 0 and two equal largest entries. Either will do. Think of a function with a kink or a "
        "tie at such a place, and of a second way to write it that chooses differently there.",
        "At a tie of the two largest entries, three conventions:\n\n"
        "    split    0, 1/2, 1/2\n"
        "    each     0, 1,   1\n"
        "    first    0, 1,   0\n\n"
        "At 0, where the slope goes from 0 to 1 or from -1 to 1: relu gives 0, abs gives 0, maximum gives 1/2.",
        "    def pair(x):\n"
        "        f = ...        # a function with a kink at 0, or with a tie\n"
        "        g = ...        # the same function, written so that it chooses differently there\n"
        "        return f, g"),
        good="Nobody cut anything, and both spellings are the same function. At a zero or a tie each operation chooses "
             "a slope, and with the two spellings the choices come to different gradients."),
)
