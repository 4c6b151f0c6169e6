"""The table of rules: each forward and each partial against ours, and against what the named mistakes would give."""

import numpy as np

from autodiff.course.capstone.bench import ENGINE_INSIDE, Bench, Found, generator, numbers, raised
from autodiff.course.capstone.engine import OPS, OURS
from autodiff.course.forms import same, show
from autodiff.course.judge import Fault
from autodiff.course.result import Table, safe_repr


FAULTS = (
    Fault("keepdims-lost", "`sum` does not keep its axis as lesson 16 asks",
          "With an axis given, `sum` keeps this axis with length 1, so that (2, 3) becomes (2, 1); without one, the "
          "result has the shape (). Then `scores - sum` works without a reshape.",
          "the argument `keepdims` of np.sum. When is it true?"),
    Fault("axis-ignored", "`sum` adds everything, also when an axis is given",
          "The forward got an axis in its params and added over all of them.",
          "where `axis` goes in your forward of `sum`."),
    Fault("transpose-missing", "a transpose is missing in `matmul`",
          "In {what} one factor stands as it is in the forward. With square matrices this gives wrong numbers in "
          "silence; with other shapes the product does not even exist.",
          "the shapes: g is (n, p), a is (n, m), b is (m, p). Which product of two of them has the shape of the "
          "operand?"),
    Fault("wrong-side", "the factors of `matmul` stand on the wrong sides",
          "{What} multiplies the right two matrices in the wrong order. For matrices the order counts.",
          "the shapes: g is (n, p), a is (n, m), b is (m, p). What is left of g, and what is right of it?"),
    Fault("elementwise", "`matmul` goes back entry by entry",
          "{What} uses *, which multiplies entry by entry. The forward is a matrix product, and so is the way back.",
          "the rule of `matmul` in lesson 04."),
    Fault("own-slot", "a partial uses the value of its own slot",
          "{What} must give the share of its own slot, and the slope of a product by one factor is the *other* factor.",
          "which operand stands in each of the two partials."),
    Fault("input-output", "the input and the output are mixed up",
          "{What} is the right formula with the wrong value in it: y is the output, a the input, and they are "
          "different numbers.",
          "the arguments of a partial: (g, y, a). In which of the two is the derivative easy to write?"),
    Fault("square-missing", "the square in the slope of tanh is missing",
          "The slope of tanh is 1 minus the *square* of tanh.",
          "the rule of tanh in lesson 04."),
    Fault("not-divided", "`log` multiplies where it must divide",
          "The slope of log at a is 1/a. Your partial multiplies by a.",
          "the derivative of log."),
    Fault("not-expanded", "the gradient of `sum` keeps the shape of the sum",
          "Each entry of the operand went into the sum once, so each gets the cotangent of the sum. Your partial "
          "returned the cotangent itself, in the shape of the result; expected the shape of the operand.",
          "np.broadcast_to."),
    Fault("not-summed", "the gradient is not summed over the copies",
          "`broadcast` copies an entry many times, and each copy sends a share back. The entry gets their sum. Your "
          "partial returned all the shares.",
          "which axes were added by the copying, and which had length 1."),
    Fault("one-kind", "only one kind of copied axis is summed",
          "An axis is copied in two ways: (3,) becomes (2, 3), where a new axis is put in front; and (2, 1) becomes "
          "(2, 3), where an axis of length 1 grows. {What} sums over one kind and leaves the other.",
          "the two kinds of copied axes in lesson 04, and `summed` in lesson 16."),
    Fault("axis-lost", "an axis of length 1 is gone after the sum",
          "The operand has an axis of length 1. After summing over it, it must still be there.",
          "the argument `keepdims` of the sum."),
    Fault("all-summed", "everything is summed, not the copies alone",
          "{What} adds all entries of g to one number. Only the axes along which copies were made are summed.",
          "which entries of the result are copies of the same entry."),
    Fault("slope-missing", "a partial passes g on unchanged",
          "{What} returned g itself. The share is g times the slope of `{op}` here.",
          "the derivative of this operation."),
    Fault("upstream-missing", "a partial forgets g",
          "{What} is right for g = 1 and ignores g otherwise. g is what arrives from above; everything that goes down "
          "is multiplied by it.",
          "where g stands in this partial."),
    Fault("sign", "the sign of a partial is turned",
          "{What} is right but for its sign.",
          "what happens to the result when this operand grows a little."),
    Fault("mean-for-sum", "a mean stands where a sum belongs",
          "{What} is too small by a count of entries: it divides.",
          "the division, or np.mean, in this partial."),
    Fault("changed-input", "a rule writes into its arguments",
          "{What} changed `{argument}`. This array may be the value of a node, or a gradient that another node holds "
          "too.",
          "an assignment like g *= ... or a[...] = ...; make a new array instead."),
    Fault("slots", "there is not one partial for each slot",
          "The rule of `{op}` has {got} partials; `{op}` has {want}, one for each operand slot. The forward stands "
          "before them.",
          "the tuple: forward, partial of slot 1, partial of slot 2."),
    Fault("signature", "a rule cannot be called as it is called",
          "A forward gets (a, b) or (a), a partial gets (g, y) before them, and both get the params of the op by "
          "name: `axis` for sum, `shape` for broadcast.",
          "the arguments of this function."),
    Fault("nothing-returned", "a function of a rule returns nothing",
          "{What} returned None. A function without a `return` gives None, even when it has computed or printed the "
          "answer.",
          "the last line of this function."),
    Fault("not-float64", "the numbers are rounded to another dtype",
          "{What} gave an array of {dtype}. All of our values and gradients are float64; a smaller type drops digits.",
          "an astype or a dtype in this function."),
    Fault("wrong-shape", "a partial has the wrong shape",
          "{What} has the shape {got}; expected {want}. A gradient has the shape of the value it belongs to.",
          "each step of this partial: which shape has it there?"),
    ENGINE_INSIDE,
)


_ELEMENTWISE = [((2,), {}), ((2, 3), {}), ((), {})]
_CASES = {
    **{op: [((shape, shape), params) for shape, params in _ELEMENTWISE] for op in ("add", "sub", "mul")},
    **{op: [((shape,), params) for shape, params in _ELEMENTWISE] for op in ("tanh", "exp", "log")},
    "matmul": [(((2, 3), (3, 4)), {}), (((3, 3), (3, 3)), {}), (((1, 4), (4, 2)), {})],
    "sum": [(((3,),), {}), (((2, 3),), {"axis": None}), (((2, 3),), {"axis": 0}), (((2, 3),), {"axis": 1}),
            (((),), {})],
    "broadcast": [((shape,), {"shape": to}) for shape, to in (
        ((3,), (2, 3)), ((2, 1), (2, 3)), ((), (3,)), ((1, 3), (4, 2, 3)), ((1, 1), (2, 3)))],
}


def _leading(g, a):
    return g.sum(axis=tuple(range(g.ndim - a.ndim)))


def _length_one(g, a):
    return g.sum(axis=tuple(k for k, n in enumerate(a.shape, g.ndim - a.ndim) if n == 1), keepdims=True)


# {(op, slot): (fault, what the mistake gives)}; slot 0 is the forward, and None is any slot of any op.
_WRONG_RULES = (
    ("keepdims-lost", "sum", 0, lambda a, axis=None: np.sum(a, axis=axis)),
    ("keepdims-lost", "sum", 0, lambda a, axis=None: np.sum(a, axis=axis, keepdims=True)),
    ("axis-ignored", "sum", 0, lambda a, axis=None: np.sum(a)),
    ("transpose-missing", "matmul", 1, lambda g, y, a, b: g @ b),
    ("transpose-missing", "matmul", 2, lambda g, y, a, b: a @ g),
    ("wrong-side", "matmul", 1, lambda g, y, a, b: b.T @ g),
    ("wrong-side", "matmul", 2, lambda g, y, a, b: g @ a.T),
    ("wrong-side", "matmul", 1, lambda g, y, a, b: b @ g),
    ("wrong-side", "matmul", 2, lambda g, y, a, b: g @ a),
    ("elementwise", "matmul", 1, lambda g, y, a, b: g * b),
    ("elementwise", "matmul", 2, lambda g, y, a, b: g * a),
    ("own-slot", "mul", 1, lambda g, y, a, b: g * a),
    ("own-slot", "mul", 2, lambda g, y, a, b: g * b),
    ("own-slot", "matmul", 1, lambda g, y, a, b: a.T @ g),
    ("own-slot", "matmul", 2, lambda g, y, a, b: g @ b.T),
    ("input-output", "tanh", 1, lambda g, y, a: g * (1 - a * a)),
    ("input-output", "exp", 1, lambda g, y, a: g * a),
    ("input-output", "log", 1, lambda g, y, a: g / y),
    ("input-output", "exp", 1, lambda g, y, a: g * np.exp(y)),
    ("input-output", "tanh", 1, lambda g, y, a: g * (1 - np.tanh(y) ** 2)),
    ("square-missing", "tanh", 1, lambda g, y, a: g * (1 - y)),
    ("not-divided", "log", 1, lambda g, y, a: g * a),
    ("not-expanded", "sum", 1, lambda g, y, a, axis=None: g),
    ("not-summed", "broadcast", 1, lambda g, y, a, shape: g),
    ("one-kind", "broadcast", 1, lambda g, y, a, shape: _leading(g, a)),
    ("one-kind", "broadcast", 1, lambda g, y, a, shape: _length_one(g, a)),
    ("one-kind", "broadcast", 1, lambda g, y, a, shape: np.sum(g, axis=0)),
    ("axis-lost", "broadcast", 1, lambda g, y, a, shape: _length_one(g, a).reshape([n for n in a.shape if n != 1])),
    ("axis-lost", "broadcast", 1, lambda g, y, a, shape: _leading(g, a).sum(
        axis=tuple(k for k, n in enumerate(a.shape) if n == 1))),
    ("all-summed", "broadcast", 1, lambda g, y, a, shape: np.sum(g)),
)


def _wrong_rules(op, slot):
    right = OURS["RULES"][op][slot]
    yield from ((fault, wrong) for fault, of, at, wrong in _WRONG_RULES if (of, at) == (op, slot))
    if slot:
        yield "sign", lambda g, y, *a, **p: -right(g, y, *a, **p)
        yield "slope-missing", lambda g, y, *a, **p: g
        yield "upstream-missing", lambda g, y, *a, **p: right(np.ones_like(g), y, *a, **p)
    if slot and op in ("sum", "broadcast"):
        yield "mean-for-sum", lambda g, y, a, **p: right(g, y, a, **p) * min(a.size, np.size(g)) / max(
            a.size, np.size(g))
        yield "mean-for-sum", lambda g, y, a, **p: right(g, y, a, **p) / len(g)


def _try_rule(bench, function, args, params):
    """What a forward or a partial did: ("value", what it returned) or ("error", type and text); and the `Run`."""
    ran = bench.run(function, *args, lines=20_000, **params)
    if ran.ended == "returned":
        return ("value", ran.value), ran
    return ("error", f"{type(ran.error).__name__}: {ran.error}"), ran


def _same_outcome(got, wrong, args, params) -> bool:
    try:
        would = np.asarray(wrong(*args, **params))
    except Exception as error:
        return got == ("error", f"{type(error).__name__}: {error}")
    if got[0] != "value":
        return False
    there = np.asarray(got[1]) if np.size(got[1]) else None
    if there is None or there.dtype.kind not in "fiu":
        return False
    # A partial that forgot g may return the number 1 for an array of ones.
    return same(there if there.ndim else np.broadcast_to(there, would.shape), would)


class _RuleFault(Exception):
    def __init__(self, fault, shown, **words):
        self.fault, self.shown, self.words = fault, shown, words


def _call_text(op, slot, args, params):
    names = ("g", "y", "a", "b")[:len(args)] if slot else ("a", "b")[:len(args)]
    given = [f"{name} = {show(a) if np.size(a) <= 4 else f'an array of shape {np.shape(a)}'}"
             for name, a in zip(names, args)]
    return ", ".join([*given, *(f"{k} = {v}" for k, v in params.items())])


def _what(op, slot):
    return f"the partial of `{op}` for slot {slot}" if slot else f"the forward of `{op}`"


def _check_slot(bench, op, slot, function, cases):
    """Raise `_RuleFault` when a forward (slot 0) or a partial differs from ours."""
    right, what = OURS["RULES"][op][slot], _what(op, slot)
    tried = []
    for args, params in cases:
        given = [np.array(a) for a in args]
        got, ran = _try_rule(bench, function, given, params)
        tried.append((got, ran, args, params))
        for name, before, after in zip(("g", "y", "a", "b") if slot else ("a", "b"), args, given):
            if not np.array_equal(before, after):
                raise _RuleFault("changed-input", [f"Before the call {name} was {show(before)}, and after it "
                                                   f"{show(after)}."], What=what[0].upper() + what[1:],
                                 argument=name)
    wants = [np.asarray(right(*args, **params)) for args, params in cases]
    first = next((k for k, (t, want) in enumerate(zip(tried, wants)) if not (
        t[0][0] == "value" and isinstance(t[0][1], (np.ndarray, np.generic)) and same(t[0][1], want))), None)
    if first is None:
        return
    got, ran, args, params = tried[first]
    want, at = wants[first], _call_text(op, slot, args, params)
    said = raised(ran) if got[0] == "error" else f"returned {_brief(got[1])}; expected {_brief(want)}"
    shown = [f"{what[0].upper()}{what[1:]} {said}. It got {at}."]
    words = dict(what=what, What=what[0].upper() + what[1:], op=op, slot=slot, want=want.shape,
                 got=np.shape(got[1]) if got[0] == "value" and not isinstance(got[1], str) else "")
    for fault, wrong in _wrong_rules(op, slot):
        if all(_same_outcome(g, wrong, a, p) for g, _, a, p in tried):
            raise _RuleFault(fault, shown, **words)
    if got[0] == "error" and isinstance(ran.error, TypeError) and "argument" in str(ran.error):
        raise _RuleFault("signature", shown, **words)
    if got[0] == "error":
        raise _RuleFault("", shown, **words)
    if got[1] is None:
        raise _RuleFault("nothing-returned", shown, **words)
    if not isinstance(got[1], (np.ndarray, np.generic)):
        raise _RuleFault("", [*shown, f"This is of the type {type(got[1]).__name__}; expected an array."], **words)
    if got[1].shape != want.shape:
        raise _RuleFault("wrong-shape", shown, **words)
    rounded = got[1].dtype
    if rounded != np.float64 and all(g[0] == "value" and np.shape(g[1]) == w.shape and np.allclose(
            g[1], w.astype(rounded), rtol=1e-2) for (g, *_), w in zip(tried, wants)):
        raise _RuleFault("not-float64", shown, dtype=rounded, **words)
    raise _RuleFault("", shown, **words)


def _brief(value) -> str:
    if np.size(value) <= 6 and isinstance(value, (np.ndarray, np.generic, int, float, list)):
        return show(value) if np.ndim(value) else show(float(value))
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} that begins with {show(float(value.flat[0]))}"
    return safe_repr(value, 60)


def probe(bench: Bench) -> Table:
    """Each forward and each partial on several shapes, with a random cotangent."""
    rng = generator(bench)
    states, found, missing, broken = {}, None, [], None
    for op in OPS:
        rule, slots = bench.part.get(op), len(OURS["RULES"][op]) - 1
        cases = [([abs(numbers(rng, *s)) if op == "log" else numbers(rng, *s) for s in shapes], params)
                 for shapes, params in _CASES[op]]
        with_y = []
        for arrays, params in cases:
            y = np.asarray(OURS["RULES"][op][0](*arrays, **params))
            with_y.append(([numbers(rng, *y.shape), np.array(y), *arrays], params))
        if rule is None or rule is ...:
            missing.append(op)
            states[op] = ["missing"] * (slots + 1)
            continue
        if not isinstance(rule, (tuple, list)) or not all(map(callable, rule)):
            broken = broken or f"`RULES[\"{op}\"]` is {safe_repr(rule, 60)}; expected a tuple of functions: the " \
                               f"forward and {slots} partial{'s' * (slots > 1)}."
            states[op] = ["differs"] * (slots + 1)
            continue
        states[op] = []
        if len(rule) != slots + 1:
            found = found or _RuleFault("slots", [], op=op, got=len(rule) - 1, want=slots)
        for slot, function in enumerate(rule[:slots + 1]):
            try:
                _check_slot(bench, op, slot, function, with_y if slot else cases)
                states[op].append("right")
            except _RuleFault as fault:
                states[op].append("differs")
                found = found or fault
        states[op] += ["missing"] * (slots + 1 - len(states[op]))
    table = Table(("op", "forward", "slot 1", "slot 2"),
                  tuple((op, *state, *[""] * (3 - len(state))) for op, state in states.items()))
    if broken:
        bench.wrong(broken, table=table)
    if found is not None and found.fault:
        bench.fault(found.fault, found.shown, table, **found.words)
    if found is not None:
        look = "" if found.words["slot"] else "A forward computes its operation on whole arrays, with NumPy."
        bench.unknown(*found.shown, table=table, look=look)
    if missing:
        left = f"The rules that are there are right. Still missing: {', '.join(missing)}."
        strange = ", ".join(map(str, bench.part.keys() - OURS["RULES"].keys()))
        more = [f"RULES also has {strange}, which no test asks for: is this one of them under another name?"]
        result = bench.attempt.unfinished([left, *(more if strange else [])])
        result.table = table
        raise Found(result)
    return table
