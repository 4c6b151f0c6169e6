"""`gradcheck`: small gaps for right rules, large ones for planted faults. Each question has a fault of its own."""

import itertools

import numpy as np

from autodiff.course.capstone.bench import ENGINE_INSIDE, Bench, generator
from autodiff.course.capstone.engine import OURS, Engine
from autodiff.course.forms import NO_RETURN, apart
from autodiff.course.judge import Fault
from autodiff.course.result import Table, safe_repr


FAULTS = (
    NO_RETURN,
    Fault("not-a-number", "the result is no number",
          "`{call}` returned {got}; expected the largest gap as one number.",
          "the last line. The comparison with a tolerance is left to the caller."),
    Fault("half-step", "the difference is divided by the wrong width",
          "From x - step to x + step it is 2*step.",
          "the denominator of the difference."),
    Fault("not-divided", "the difference is not divided by the step",
          "f(x + step) - f(x - step) is a difference; the slope is this, divided by 2*step.",
          "the denominator of the difference."),
    Fault("turned", "the difference is turned round",
          "It is f(x + step) minus f(x - step). The slope that you compare with has the wrong sign.",
          "the order of the two points."),
    Fault("cotangent-once", "only one side knows the cotangent",
          "`backward` got the cotangent v, and the differences are those of f alone. Both must be of (v * f).sum().",
          "the two places where v belongs."),
    Fault("one-sided", "the difference is taken on one side only",
          "f(x + step) - f(x) is wrong by about step; with the point in the middle the error is about step*step.",
          "the two points of the difference."),
    Fault("two-steps", "the points and the division use different steps",
          "With the usual step the result is right. With another one the distance between the two points is not what "
          "you divide by: one of the two is a fixed number.",
          "both places where the step belongs: the two points, and the denominator."),
    Fault("moved-together", "several entries are moved at once",
          "In one call of f {count} entries of the arrays were not what the caller gave. The difference then mixes "
          "their slopes, and one wrong gradient can hide another.",
          "which entries are moved, and whether each is back in its place before the next one is moved."),
    Fault("step-ignored", "the argument `step` is not used",
          "The caller chose another step, and the result is as with a small one.",
          "where the step is used."),
    Fault("arrays-changed", "the arrays of the caller are changed",
          "After the call they are not what they were. An entry that is moved and moved back keeps a rounding, or is "
          "forgotten.",
          "where an entry is moved. Move it in a copy."),
    Fault("integers", "an array of integers is moved, and stays where it is",
          "In an array of integers 3 + 0.000001 is 3. The slope is then 0.",
          "how the copy is made: np.array with dtype=float."),
    Fault("absent", "a missing gradient stops the check",
          "A variable that the function does not use has no gradient in the store. As a number it counts as 0, and it "
          "may still be wrong: the difference decides.",
          "store.get with a default."),
    Fault("not-a-number-gap", "the gap is nan",
          "Where the slope is 0, a gap divided by it is 0/0.",
          "the division that makes the gap relative: by the larger one of 1 and the slope."),
    Fault("rng-ignored", "two calls differ",
          "The cotangent is random, and repeatable: it comes from the argument `rng`.",
          "np.random.default_rng(rng)."),
    Fault("never-rings", "it does not see wrong gradients",
          "With several planted faults the gap is still small. A check that cannot fail has told nobody anything.",
          "what is compared with what: the gradients that `backward` gives, with differences of f."),
    Fault("first-array", "only the first array is checked",
          "The fault is in the gradient of the second array.",
          "the loop over the arrays, and what is returned inside it."),
    Fault("first-entry", "not every entry is checked",
          "One of 12 entries has a wrong gradient, the last one.",
          "the loop over the entries, and how the largest gap is kept."),
    Fault("last-entry", "an earlier gap is forgotten",
          "One of 12 entries has a wrong gradient, the first one. The gaps after it are small, and hide it.",
          "how the largest gap is kept."),
    Fault("all-ones", "the cotangent is all ones",
          "A pass that ignores its cotangent and always sends ones is right for ones. Only another cotangent shows it.",
          "the cotangent: random numbers, not ones."),
    Fault("sign-blind", "a wrong sign is not seen",
          "The gap is taken between sizes. 3 and -3 have the same size.",
          "where the absolute value is taken: after the subtraction."),
    Fault("absent-skipped", "a gradient that is missing is not compared",
          "`backward` lost a variable whose slope is not 0, and the check left it out. A missing gradient counts as 0.",
          "what happens to a variable that is not in the store."),
    Fault("no-abs", "a gap can be negative",
          "A gradient may be too large or too small. Without an absolute value, a gap in one direction is hidden by "
          "the maximum.",
          "where the gap is computed."),
    Fault("averaged", "the gaps are averaged",
          "One wrong entry among many is lost in a mean. What counts is the largest gap.",
          "how the gaps are put together: max."),
    Fault("added-up", "the gaps are added up",
          "Each wrong entry makes the result grow, and so do the roundings of many right ones. What counts is the "
          "largest gap alone.",
          "how the gaps are put together."),
    Fault("deaf-to-nan", "a gradient that is nan is not heard",
          "nan is neither larger nor smaller than any number, and what keeps the largest gap here passes it over. Then "
          "the worst gradient of all counts as a right one.",
          "how the largest gap is kept, when one of the gaps is nan."),
    ENGINE_INSIDE,
)


def _rules_with(op, *partials, forward=None):
    table = dict(OURS["RULES"])
    table[op] = (forward or table[op][0], *(p or q for p, q in itertools.zip_longest(partials, table[op][1:])))
    return table


def _gap(bench, text, f, *arrays, errors=(), engine=None, **options):
    given = [a.copy() for a in arrays]
    gap = bench.call(text, bench.part, f, *given, engine=engine, errors=errors, lines=1_000_000, **options)
    if not all(map(np.array_equal, given, arrays)):
        bench.fault("arrays-changed", [])
    if gap is None:
        bench.fault("no-return", [], call=text)
    if isinstance(gap, (bool, np.bool_)) or not isinstance(gap, (float, int, np.floating)) and np.shape(gap) != ():
        bench.fault("not-a-number", [], call=text, got=safe_repr(gap, 60))
    try:
        return float(gap)
    except (TypeError, ValueError):
        bench.fault("not-a-number", [], call=text, got=safe_repr(gap, 60))


RIGHT, LARGE = 1e-5, 1e-3


# What a mistake takes for the slope of v*x*x at x = 3, where the difference over 2*step is 12*step.
_WRONG_SLOPES = (
    ("half-step", lambda v, step: 12 * v),
    ("half-step", lambda v, step: 3 * v),
    ("not-divided", lambda v, step: 12 * v * step),
    ("cotangent-once", lambda v, step: 6.0),
    ("turned", lambda v, step: -6 * v),
)
_RELATIVE = (lambda got, s: 1.0, lambda got, s: max(1.0, abs(s)), lambda got, s: max(1.0, abs(got)),
             lambda got, s: abs(s), lambda got, s: abs(got), lambda got, s: max(abs(s), abs(got)),
             lambda got, s: abs(s) + abs(got), lambda got, s: max(1.0, abs(s), abs(got)))


def probe(bench: Bench) -> Table:
    """Small gaps for right rules, large ones for planted faults, and nothing that it touches."""
    square = lambda x: x * x
    three = np.array(3.0)
    engine = bench.engine
    gap = _gap(bench, "gradcheck(x*x, 3)", square, three)
    rows = [("x*x at 3, all rules right", "small", gap)]
    if not abs(gap) < RIGHT:
        _name_slope(bench, gap, square, three)
    wide = _gap(bench, "gradcheck(x*x, 3, step=0.01)", square, three, step=0.01)
    if not abs(wide) < RIGHT:
        # On a parabola the difference on one side errs by the step, and the central one not at all.
        bench.fault("one-sided" if abs(wide) < 0.1 else "two-steps", [
            f"With step=0.01 the gap for x*x at 3 is {wide:.2g}; a central difference of a parabola is exact."])
    _probe_right(bench, rows)
    _probe_alarm(bench, rows, engine)
    cube = lambda x: x * x * x
    wide = _gap(bench, "gradcheck(x*x*x, 3, step=0.5)", cube, three, step=0.5)
    if abs(wide) < LARGE:
        bench.fault("step-ignored", [f"With step=0.5 the gap for x*x*x at 3 is {wide:.2g}; the difference is off by "
                                     "step*step = 0.25 there."])
    _probe_nan(bench)
    table = Table(("what is checked", "expected gap", "yours"),
                  tuple((text, want, "small" if abs(got) < RIGHT else "large") for text, want, got in rows))
    return table


def _name_slope(bench, gap, square, three):
    v = float(np.random.default_rng(0).standard_normal(()))
    shown = [f"For x*x at 3 the gap is {gap:.3g}, and the gradient is right."]
    gaps = {1e-6: gap, 0.25: _gap(bench, "gradcheck(x*x, 3, step=0.25)", square, three, step=0.25)}
    for fault, slope in _WRONG_SLOPES:
        for size in _RELATIVE:
            if all(abs(got - abs(6 * v - slope(v, step)) / (size(6 * v, slope(v, step)) or 1)) < 1e-4 * max(1.0, got)
                   for step, got in gaps.items()):
                bench.fault(fault, shown)
    bench.unknown(*shown, look="Print v, the two points and the slope. The points are 3 + step and 3 - step, and the "
                                    "slope is 6 times v.")


def _probe_right(bench, rows):
    apply = bench.engine.apply
    xs = np.array([[0.5, -1.0], [1.5, 0.3], [-0.2, 0.8]])
    w, b = np.array([[0.3, -0.7, 0.2], [0.5, 0.1, -0.9]]), np.array([0.1, -0.2, 0.4])
    arrays = w, b
    moved = [0]

    def layer(w, b):
        values = [getattr(n, "value", n) for n in (w, b)]
        moved.append(sum(np.sum(np.abs(value - given) > 1e-8) for value, given in zip(values, arrays)))
        return apply("tanh", xs @ w + b)

    gap = _gap(bench, "gradcheck(tanh(xs @ w + b), w, b)", layer, w, b)
    rows.append(("tanh(xs @ w + b), two arrays", "small", gap))
    if max(moved) > 1:
        bench.fault("moved-together", [f"For tanh(xs @ w + b) the gap is {gap:.3g}."], count=max(moved))
    if not abs(gap) < RIGHT:
        bench.unknown(f"For tanh(xs @ w + b) the gap is {gap:.3g}, and the gradients are right.",
                      look="Is each entry moved alone, and back again before the next one? Does the other array stay?")
    whole = np.array([[1, 2], [3, 4]])
    gap = _gap(bench, "gradcheck(x*x, integers)", lambda x: x * x, whole)
    if not abs(gap) < RIGHT:
        bench.fault("integers", [f"For x*x at an array of integers the gap is {gap:.3g}."])
    gap = _gap(bench, "gradcheck of a function that ignores y", lambda x, y: x * x, np.array(3.0), np.ones(2),
               errors=[((KeyError, TypeError, AttributeError), "absent")])
    if gap != gap:
        bench.fault("not-a-number-gap", ["For a function that ignores one of its arguments the gap is nan."])
    if not abs(gap) < RIGHT:
        bench.unknown(f"For a function that ignores its second argument the gap is {gap:.3g}; expected a small one.")
    gaps = [_gap(bench, "gradcheck(x*x, 3)", lambda x: x * x, np.array(3.0)) for _ in range(2)]
    if gaps[0] != gaps[1]:
        bench.fault("rng-ignored", ["Two calls with the same arguments gave {} and {}.".format(*apart(*gaps))])


def _losing_all(root, cotangent=None):
    """A faulty `backward` that loses every variable."""
    return OURS["GradStore"]()


def _all_ones(root, cotangent=None):
    """A faulty `backward` that sends ones, whatever it is asked to send."""
    return OURS["backward"](root)


def _probe_alarm(bench, rows, engine):
    """Planted faults. Each is right but for one thing, so that a check with one gap lets just this one through."""
    def mixed(**parts):
        return Engine(gradcheck=bench.part, **parts)

    rng = generator(bench)
    one, two = np.array(round(rng.uniform(0.5, 0.9), 2)), rng.uniform(0.4, 0.8, 2) * [1, -1]
    apply = engine.apply
    first, last = np.zeros(12), np.zeros(12)
    first[0] = last[-1] = 1.0
    faults = [
        ("never-rings", "tanh without its slope", mixed(RULES=_rules_with("tanh", lambda g, y, a: g)),
         lambda x: apply("tanh", x), (one,)),
        ("first-array", "a fault in the second array", mixed(RULES=_rules_with(
            "mul", None, lambda g, y, a, b: 2 * g * a)), lambda x, y: x * y, (np.array([0.7, 0.5]), two)),
        ("first-entry", "a fault in the last of 12 entries", mixed(RULES=_rules_with(
            "exp", lambda g, y, a: g * y * (1 + last))), lambda x: apply("exp", x), (np.linspace(-0.9, -0.1, 12),)),
        ("last-entry", "a fault in the first of 12 entries", mixed(RULES=_rules_with(
            "exp", lambda g, y, a: g * y * (1 + first))), lambda x: apply("exp", x), (np.linspace(-0.9, -0.1, 12),)),
        ("all-ones", "a pass that always sends ones", mixed(backward=_all_ones), lambda x: x * x, (two,)),
        ("sign-blind", "a wrong sign", mixed(RULES=_rules_with("sub", None, lambda g, y, a, b: g)),
         lambda x: 2.0 - x, (one,)),
        ("absent-skipped", "gradients that are absent", mixed(backward=_losing_all), lambda x, y: x * y,
         (one, np.array(0.4))),
    ]
    gaps = []
    found = {}
    for k in rng.permutation(len(faults)):  # in an order that cannot be counted
        fault, text, planted, f, arrays = faults[k]
        found[fault] = [_gap(bench, f"gradcheck with a planted fault: {text}", f, *arrays, engine=planted, rng=seed,
                             errors=[(KeyError, "absent")]) for seed in range(6)]
    for fault, text, *_ in faults:
        got = found[fault]
        gaps.append((fault, text, got))
        rows.append((f"planted fault: {text}", "large", max(got, key=abs)))
    for _, text, got in gaps:
        if min(got) < -RIGHT or (min(got) < RIGHT and max(got) > LARGE):
            bench.fault("no-abs", [f"With a planted fault, {text}, the gaps with six seeds are "
                                   f"{', '.join(f'{g:.2g}' for g in got)}."])
    quiet = [(fault, text, got) for fault, text, got in gaps if not max(got) > LARGE]
    table = Table(("what is checked", "expected gap", "yours"), tuple(
        (text, want, "small" if not abs(got) > LARGE else "large") for text, want, got in rows))
    if len(quiet) >= len(gaps) - 1:
        bench.fault("never-rings", [], table)
    if len(quiet) > 1:
        bench.unknown("It is silent for " + ", for ".join(text for _, text, _ in quiet) + ".", table=table)
    if quiet:
        fault, text, got = quiet[0]
        bench.fault(fault, [f"With a planted fault, {text}, the largest gap with six seeds is {max(got):.2g}."], table)
    _probe_largest(bench)


def _probe_largest(bench):
    many = np.full(200, 0.3)
    wrong = np.zeros(200)
    wrong[77] = 1.0
    engine = Engine(gradcheck=bench.part, RULES=_rules_with("tanh", lambda g, y, a: g * (1 - y * y) * (1 + wrong)))
    apply = engine.apply
    gap = max(_gap(bench, "gradcheck with one wrong entry of 200", lambda x: apply("tanh", x), many, engine=engine,
                   rng=seed) for seed in range(2))
    with Engine(RULES=engine.parts["RULES"]) as ours:
        right = max(OURS["gradcheck"](lambda x: ours.apply("tanh", x), many, rng=seed) for seed in range(2))
    if gap < right / 10:
        bench.fault("averaged", [f"With one wrong entry of 200 the gap is {gap:.2g}; the largest one is {right:.2g}."])
    _probe_together(bench)


def _probe_together(bench):
    """Wrong entries alone, then all of them at once: the largest gap is that of one of them."""
    x = np.linspace(-0.9, 0.9, 6)

    def gap(wrong, seed):
        rules = _rules_with("tanh", lambda g, y, a: g * (1 - y * y) * (1 + wrong))
        engine = Engine(gradcheck=bench.part, RULES=rules)
        return _gap(bench, "gradcheck with wrong entries", lambda x: bench.engine.apply("tanh", x), x, engine=engine,
                    rng=seed)

    for seed in range(2):
        largest, all_wrong = max(gap(wrong, seed) for wrong in np.eye(len(x))), gap(np.ones(len(x)), seed)
        if all_wrong > 1.05 * largest:
            bench.fault("added-up", [f"With one wrong entry of {len(x)} the gap is {largest:.2g} at most; with all of "
                                     f"them wrong it is {all_wrong:.2g}."])


def _probe_nan(bench):
    for at, place in enumerate(("first", "second", "last")):
        spoiled = np.ones(3)
        spoiled[at] = np.nan
        engine = Engine(gradcheck=bench.part, RULES=_rules_with("exp", lambda g, y, a, s=spoiled: g * y * s))
        gap = _gap(bench, "gradcheck with a gradient that is nan", lambda x: bench.engine.apply("exp", x),
                   np.array([0.3, -0.2, 0.5]), engine=engine)
        if gap <= LARGE:
            bench.fault("deaf-to-nan", [f"With a planted fault the {place} of three gradients is nan, and the gap is "
                                        f"{gap:.2g}."])
