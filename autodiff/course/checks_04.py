"""Checks of exercise 04, local rules: a product inside tanh, a matrix product, a broadcast, a sum and a maximum.

Every function is given plain arrays. Shares are compared to five digits, so float32 will do. Wrong answers as a learner
would type them, each with the fault it must be given, are in wrong_answers/04.txt.
"""

import itertools
import math
import os
import sys
from dataclasses import replace

import numpy as np

from autodiff.course.forms import CHANGED_INPUT, KEPT, NO_RETURN, Case, function, nonzero, same
from autodiff.course.judge import Fault, name_of, run
from autodiff.course.looks import half_done
from autodiff.course.result import NOT_STARTED

_DIGITS = 1e-5
_HUGE = 1e18  # no step that somebody measures with moves such a number
ENGINE = Fault(
    "engine", "the engine does the work",
    "`{name}` calls `{called}` of `autodiff`. This exercise is about the line that the engine itself uses there.",
    "the local derivative of this one operation, written with NumPy on the arrays that you are given.")
NONE_SHARE = Fault(
    "none-share", "one of the two shares is None",
    "One of your two shares is right, and in the place of the other stands None: nothing arrives at that input. But y "
    "changes when either of them does.",
    "the line with `return`, and where each of its two names gets its value.")
MEASURED = Fault(
    "measured", "the shares are measured, not computed",
    "Your answer comes from moving each entry a little, as `measured` does. That is a good judge and no rule. It needs "
    "two runs for each entry, and it loses its digits where a step is too large or too small for the numbers; here: "
    "{at}.",
    "the local derivative, written as a formula of the arrays that you are given.")


def _measured(f, a, g, step=1e-6):
    """The same steps as in the notebook, so that the rounding is the same too."""
    share = np.zeros(a.shape)
    for i in np.ndindex(a.shape):
        up, down = a.copy(), a.copy()
        up[i] += step
        down[i] -= step
        share[i] = np.sum(g * (f(up) - f(down))) / (2 * step)
    return share


_COURSE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_ENGINE = os.path.dirname(os.path.dirname(_COURSE)) + os.sep


def _called_of_engine(answer, args) -> str:
    """The first function of the engine that a call of the learner's function runs; "" for none."""
    called, outer = [], sys.getprofile()

    def watch(frame, event, arg):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(_ENGINE) and not file.startswith(_COURSE):
            called.append(frame.f_code.co_name)

    sys.setprofile(watch)
    try:
        run(answer, *args)
    finally:
        sys.setprofile(outer)
    return called[0] if called else ""


def _own_work(attempt, answer, runs):
    called = _called_of_engine(answer, runs[0][0].fresh())
    return attempt.fault(ENGINE.id, (), None, name=name_of(answer), called=called) if called else None


def _own_pair(right):
    """What is looked at before two shares are compared."""
    def look(attempt, answer, runs):
        engine = _own_work(attempt, answer, runs)
        if engine is not None:
            return engine
        pairs, wants = [_pair(result.value) for _, _, result in runs], [right(*case.fresh()) for case, _, _ in runs]
        return half_done(attempt, pairs, wants, _DIGITS)

    return look


def _pair(value):
    """Two shares as a tuple, also when they came as a list or as one array with two entries."""
    whole = isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return tuple(value) if whole and len(value) == 2 else value


def _array(rng, *shape, low=-2.0, high=2.0):
    return np.array([rng.uniform(low, high) for _ in range(int(np.prod(shape)))]).reshape(shape)


def _whole(rng, *shape):
    """Whole numbers, since all of them are shown."""
    return np.array([float(nonzero(rng, low=2.0, high=7.0, step=1.0)) for _ in range(math.prod(shape))]).reshape(shape)


# 04.a: y = tanh(a * b).


def _cases_a(rng):
    def case(g, a, b, at):
        return Case((g, np.tanh(a * b), a, b), at)

    def fresh(*shape):
        return _array(rng, *shape), _array(rng, *shape, low=0.3, high=1.5), _array(rng, *shape, low=-1.2, high=-0.2)

    sizes = np.array([1e6, 1e-6, -1e3])
    return [case(np.array([1.0, 10.0, -2.0]), np.array([0.5, -1.0, 2.0]), np.array([2.0, 0.5, -0.25]), "three numbers"),
            case(*fresh(4), "four numbers"), case(*fresh(2, 3), "a table"), case(*fresh(2, 2, 2), "a stack of tables"),
            case(_array(rng, 3), sizes, _array(rng, 3, low=0.4, high=1.4) / sizes, "entries of very different sizes")]


def _right_a(g, y, a, b):
    slope = g * (1 - y * y)
    return slope * b, slope * a


def _bent(slope):
    """The two shares with another slope for tanh."""
    return lambda g, y, a, b: (slope(g, y, a, b) * b, slope(g, y, a, b) * a)


_FAULTS_A = (
    Fault("slots-swapped", "a share stands in the place of the other one",
          "A share has the value of its own slot in it. In a product, the local derivative of a slot is the value in "
          "the *other* slot: the share of a contains b, and that of b contains a.",
          "the pair you return: first the share of a, then the share of b.",
          (lambda g, y, a, b: _right_a(g, y, a, b)[::-1],)),
    Fault("input-for-output", "the input of tanh stands where its output belongs",
          "You took 1 - (input)**2. The derivative of tanh is 1 - tanh(...)**2, and tanh(...) is the *output* y. Near "
          "0 input and output are almost equal, so a test there shows nothing.",
          "the letter that you square.",
          (_bent(lambda g, y, a, b: g * (1 - (a * b) ** 2)),
           lambda g, y, a, b: (g * (1 - a * a) * b, g * (1 - b * b) * a),
           lambda g, y, a, b: (g * (1 - b * b) * b, g * (1 - a * a) * a))),
    Fault("tanh-again", "tanh is applied to what is already the output",
          "y is tanh(a * b). Your code computes tanh of y, so it is the slope at another place.",
          "the number you square. Is it y, or tanh of y?",
          (_bent(lambda g, y, a, b: g * (1 - np.tanh(y) ** 2)),)),
    Fault("one-input", "tanh of one input alone is used",
          "tanh does not see a, nor b. It sees the product a * b, and its output for this is y.",
          "what stands inside the tanh of the forward pass.",
          (lambda g, y, a, b: (g * (1 - np.tanh(a) ** 2) * b, g * (1 - np.tanh(b) ** 2) * a),
           lambda g, y, a, b: (g * (1 - np.tanh(a) ** 2), g * (1 - np.tanh(b) ** 2)))),
    Fault("not-squared", "y is not squared",
          "Your slope of tanh is 1 - y. The square is missing: the slope is 1 - y**2.",
          "the derivative of tanh.",
          (_bent(lambda g, y, a, b: g * (1 - y)),)),
    Fault("y-for-slope", "the output is used as the slope",
          "You multiply by y. That is the rule of exp, which is its own derivative. For tanh the slope at the output y "
          "is 1 - y**2.",
          "the derivative of tanh, written with its output.",
          (_bent(lambda g, y, a, b: g * y), _bent(lambda g, y, a, b: g * y * y))),
    Fault("sign", "the sign is wrong",
          "The numbers are right except for their sign. The slope of tanh is never negative: tanh rises everywhere.",
          "the two terms of 1 - y**2, and their order.",
          (_bent(lambda g, y, a, b: g * (y * y - 1)),)),
    Fault("product-missing", "the slope of the product is missing",
          "You return g * (1 - y**2): that is what arrives at the product a * b. From there one more edge leads to a, "
          "and one to b, and each has a local derivative of its own.",
          "the steps from a * b to a, and from a * b to b.",
          (lambda g, y, a, b: (g * (1 - y * y),) * 2,)),
    Fault("tanh-missing", "the slope of tanh is missing",
          "You differentiated a * b alone. On the way back, tanh comes first: g has to be multiplied by the "
          "slope of tanh before it reaches the product.",
          "the step from y to a * b.",
          (lambda g, y, a, b: (g * b, g * a),)),
    Fault("upstream-missing", "g is missing",
          "You returned a local derivative alone. A share is g times the local derivative. With g = 1 the mistake does "
          "not show; here it does.",
          "where g appears in your function.",
          (_bent(lambda g, y, a, b: 1 - y * y),)),
    Fault("added", "the two shares are added",
          "You returned the sum of both shares. They go to two different nodes, a and b, so they stay apart. Shares "
          "are added where they meet at *one* node.",
          "the form of what you return: a pair.",
          (lambda g, y, a, b: sum(_right_a(g, y, a, b)),)),
    Fault("one-share", "only one of the two shares is returned",
          "One share came back. The operation has two slots, and each of them needs a share.",
          "the line with `return`: two shares, with a comma between them.",
          (lambda g, y, a, b: _right_a(g, y, a, b)[0], lambda g, y, a, b: _right_a(g, y, a, b)[1],
           lambda g, y, a, b: _right_a(g, y, a, b)[:1])),
    replace(MEASURED, answers=(lambda g, y, a, b: (_measured(lambda a: np.tanh(a * b), a, g),
                                                   _measured(lambda b: np.tanh(a * b), b, g)),)),
    replace(NONE_SHARE, answers=(lambda g, y, a, b: (None, _right_a(g, y, a, b)[1]),
                                 lambda g, y, a, b: (_right_a(g, y, a, b)[0], None))),
    ENGINE, CHANGED_INPUT, NO_RETURN, KEPT,
)

# 04.b: y = a @ b.


def _cases_b(rng):
    def case(g, a, b, note=""):
        return Case((g, a @ b, a, b), f"{a.shape} @ {b.shape}{note}")

    def fresh(rows, inner, columns):
        return case(_whole(rng, rows, columns), _whole(rng, rows, inner), _whole(rng, inner, columns))

    # Square ones first: there a wrong order or a missing transpose gives numbers, and numbers tell more than an error.
    return [case(np.array([[1.0, 0.0], [10.0, 2.0]]), np.array([[1.0, 2.0], [3.0, 5.0]]),
                 np.array([[4.0, 1.0], [-2.0, 3.0]])),
            fresh(3, 3, 3), fresh(4, 2, 3), fresh(2, 5, 3), fresh(1, 3, 2), fresh(3, 1, 4),
            case(_array(rng, 2, 3, low=1.0), *(_HUGE * _array(rng, *shape, low=1.0) for shape in ((2, 4), (4, 3))),
                 ", large entries")]


def _right_b(g, y, a, b):
    return g @ b.T, a.T @ g


def _both_orders(share_a, share_b):
    """A wrong pair, whichever of its two shares is computed first: that one raises the error when shapes do not fit."""

    def b_first(g, y, a, b):
        second = share_b(g, y, a, b)
        return share_a(g, y, a, b), second

    return lambda *args: (share_a(*args), share_b(*args)), b_first


_NO_T = (lambda g, y, a, b: g @ b, lambda g, y, a, b: a @ g)
_DOT = (lambda g, y, a, b: np.dot(g, b), lambda g, y, a, b: np.dot(a, g))

_FAULTS_B = (
    Fault("no-transpose", "a transpose is missing",
          "A matrix is used as it is where its transpose belongs. With square matrices nothing stops you and the "
          "numbers are wrong; with others the shapes do not fit.",
          "the shapes. For a of shape (4, 2) and b of shape (2, 3), g has (4, 3). Which product with g has shape (4, "
          "2)?",
          (*_both_orders(*_NO_T), *_both_orders(*_DOT))),
    Fault("order", "the factors stand in the wrong order",
          "The transposes are there, and the two factors are exchanged. For matrices P @ Q and Q @ P differ. In y = a "
          "@ b the matrix b stands on the right; in the share of a it still does.",
          "both products: on which side does g stand?",
          _both_orders(lambda g, y, a, b: b.T @ g, lambda g, y, a, b: g @ a.T)),
    Fault("order-no-transpose", "the order is wrong, and no transpose is there",
          "Both factors are exchanged and none is transposed. With square matrices nothing stops you; with others the "
          "shapes do not fit.",
          "the shapes first. Which products of g with a matrix or its transpose have the shape of a?",
          _both_orders(lambda g, y, a, b: b @ g, lambda g, y, a, b: g @ a)),
    Fault("g-transposed", "g is transposed in place of the other matrix",
          "A share is that of a transposed g, or was transposed as a whole: it comes out in a wrong shape, or with "
          "rows and columns exchanged.",
          "which of the two factors has to be turned so that the result has the shape of the input.",
          (*_both_orders(lambda g, y, a, b: g.T @ b, lambda g, y, a, b: a @ g.T),
           *_both_orders(lambda g, y, a, b: b @ g.T, lambda g, y, a, b: g.T @ a))),
    Fault("elementwise", "entries are multiplied one by one",
          "You used * where a matrix product belongs. * multiplies entry by entry; in y = a @ b each entry of a meets "
          "a whole row of b.",
          "the sign between your factors.",
          (*_both_orders(lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
           *_both_orders(lambda g, y, a, b: g * b.T, lambda g, y, a, b: a.T * g))),
    Fault("not-summed", "shares of one entry are not added",
          "Every row of a is multiplied with the same b. So each entry of b gets one share from each row of a, each "
          "entry of a one from each column of b, and they have to be added. You returned them one by one: one axis is "
          "too many.",
          "the axis that is too many. A matrix product adds over it by itself.",
          (lambda g, y, a, b: (g @ b.T, a[:, :, None] * g[:, None, :]),
           lambda g, y, a, b: (g[:, None, :] * b, a[:, :, None] * g[:, None, :]))),
    Fault("mean-for-sum", "the shares of the rows are averaged",
          "A share is the right one divided by the number of rows of a. Shares are added, not averaged. If a "
          "mean is wanted, it is in the loss, and then g contains it.",
          "the division in your code.",
          (lambda g, y, a, b: (g @ b.T, a.T @ g / len(a)), lambda g, y, a, b: (g @ b.T / len(a), a.T @ g / len(a)))),
    Fault("upstream-missing", "g is missing",
          "A share does not depend on g: it is replaced by ones, or left out. That is right only when the loss is the "
          "plain sum of y.",
          "where g appears in your function.",
          (lambda g, y, a, b: (np.ones_like(g) @ b.T, a.T @ np.ones_like(g)), lambda g, y, a, b: (b.T, a.T))),
    Fault("value-for-g", "y is used in place of g",
          "A share is made from the result y, not from its gradient g. The values of y play no part in this rule.",
          "the letters in your two products.",
          (lambda g, y, a, b: (y @ b.T, a.T @ y),)),
    Fault("pair-swapped", "a share stands in the place of the other one",
          "Where one of the two shares belongs, you return the other one.",
          "the shapes of your pair: the first must have the shape of a.",
          (lambda g, y, a, b: _right_b(g, y, a, b)[::-1],)),
    Fault("one-share", "only one of the two shares is returned",
          "One share came back. The operation has two slots, and each of them needs a share.",
          "the line with `return`: two shares, with a comma between them.",
          (lambda g, y, a, b: _right_b(g, y, a, b)[0], lambda g, y, a, b: _right_b(g, y, a, b)[1])),
    replace(MEASURED, answers=(lambda g, y, a, b: (_measured(lambda a: a @ b, a, g),
                                                   _measured(lambda b: a @ b, b, g)),)),
    replace(NONE_SHARE, answers=(lambda g, y, a, b: (None, a.T @ g), lambda g, y, a, b: (g @ b.T, None))),
    ENGINE, CHANGED_INPUT, NO_RETURN, KEPT,
)

# 04.c: y = np.broadcast_to(a, shape).


def _cases_c(rng):
    def case(a, shape, g=None, note=""):
        g = _whole(rng, *shape) if g is None else g
        return Case((g, np.array(np.broadcast_to(a, shape)), a), f"{a.shape} to {shape}{note}")

    return [case(np.array([5.0, 6.0, 7.0]), (2, 3), np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])),
            case(_whole(rng, 3), (3, 3)), case(_whole(rng, 4, 1), (4, 3)), case(_whole(rng, 1, 3), (4, 3)),
            case(_whole(rng, 2, 1, 3), (2, 4, 3)), case(_whole(rng, 2, 1), (3, 2, 4)), case(_whole(rng), (2, 3)),
            case(_whole(rng, 2, 3), (2, 3)), case(_whole(rng, 1, 1), (2, 2)), case(_whole(rng, 3), (4, 2, 3)),
            case(_HUGE * _array(rng, 2, low=1.0), (3, 2), note=", large entries")]


def _missing_axes(g, a):
    return tuple(range(g.ndim - a.ndim))


def _copied_axes(g, a):
    skipped = g.ndim - a.ndim
    return tuple(skipped + axis for axis, n in enumerate(a.shape) if n == 1 and g.shape[skipped + axis] != 1)


def _right_c(g, y, a):
    kept = g.sum(axis=_copied_axes(g, a), keepdims=True)
    return kept.sum(axis=_missing_axes(g, a))


def _mean_c(g, y, a):
    return _right_c(g, y, a) * (np.size(a) / np.size(g))


_FAULTS_C = (
    Fault("not-summed", "the gradient of the copies is not summed",
          "You returned a share in the shape of the result, {at}. Each entry of a was copied, each copy got a "
          "gradient, and the entry gets the *sum* of them. A share always has the shape of its input.",
          "the shape of a, and the shape of what you return.",
          (lambda g, y, a: g, lambda g, y, a: g * 1.0)),
    Fault("keepdims", "an axis of length 1 is lost",
          "The numbers are added rightly, and the shape is not that of a. An axis that a *has*, with length 1, stays: "
          "(4, 1) comes back as (4, 1). Added to the column later, (4,) would make a table of it.",
          "`keepdims=True`. For which axes do you need it, and for which not?",
          (lambda g, y, a: g.sum(axis=_copied_axes(g, a) + _missing_axes(g, a)),)),
    Fault("axes-kept", "an axis that the input lacks is left in",
          "A sum with keepdims leaves an axis of length 1 in place of each axis that was added up. a does not have the "
          "axes on its left at all: (3,) has to come back as (3,), not as (1, 3).",
          "which axes are new in the result, and which a has itself.",
          (lambda g, y, a: g.sum(axis=_copied_axes(g, a) + _missing_axes(g, a), keepdims=True),)),
    Fault("only-missing", "axes of length 1 are forgotten",
          "You sum over the axes that a lacks. But an axis is also copied when a has it with length 1, as (4, 1) in "
          "(4, 3).",
          "each axis of a with length 1. How long is it in the result?",
          (lambda g, y, a: g.sum(axis=_missing_axes(g, a)),)),
    Fault("only-length-1", "axes that the input lacks are forgotten",
          "You sum over the axes that have length 1 in a. But an axis is also copied when a does not have it, as axis "
          "0 for (3,) in (4, 3).",
          "how many axes g has, and how many a has.",
          (lambda g, y, a: g.sum(axis=_copied_axes(g, a), keepdims=True),)),
    Fault("axis-0", "the sum always goes over axis 0",
          "For a row that is copied downwards, axis 0 is right. Which axes were copied depends on the shape of a: for "
          "a column of shape (4, 1) it is axis 1, for a single number all of them.",
          "the shapes of a and g, lined up from the right.",
          (lambda g, y, a: g.sum(axis=0), lambda g, y, a: g.sum(axis=0, keepdims=True))),
    Fault("last-axis", "the sum goes over the last axis",
          "You add along the rows. A row of shape (3,) in a result of shape (2, 3) is copied *downwards*, along axis "
          "0: shapes are lined up from the right, so the axis that is missing is the first.",
          "one entry of a. At which places of the result does it stand?",
          (lambda g, y, a: g.sum(axis=-1), lambda g, y, a: g.sum(axis=1) if g.ndim > 1 else g.sum())),
    Fault("all-summed", "everything is summed to one number",
          "You added all entries of g. Only the copies of *one* entry belong together; different entries of a have "
          "different sums.",
          "the axes along which a was copied, and no others.",
          (lambda g, y, a: g.sum(), lambda g, y, a: np.full(a.shape, g.sum()))),
    Fault("mean-for-sum", "the copies are averaged",
          "Your share is the right one divided by the number of copies. An entry that is copied n times acts n times, "
          "so its shares are added.",
          "`mean` in your code, or a division.",
          (_mean_c,)),
    Fault("one-copy", "only one of the copies is counted",
          "You took the gradient of one copy. All copies act on the result, and each of them brings a share.",
          "an index like [0] on g.",
          (lambda g, y, a: _first_copy(g, a, 0), lambda g, y, a: _first_copy(g, a, -1))),
    Fault("times-value", "the share is multiplied by a value",
          "A copy grows by 1 when its original grows by 1: the local derivative is 1. The values of a and y play no "
          "part.",
          "a or y as a factor in your code.",
          (lambda g, y, a: _right_c(g * y, y, a),)),
    Fault("upstream-missing", "g is missing",
          "You counted the copies. That is the answer when every entry of g is 1. Here g has other numbers, and it is "
          "g that must be added up.",
          "where g appears in your function.",
          (lambda g, y, a: _right_c(np.ones_like(g), y, a), lambda g, y, a: np.ones_like(a))),
    replace(MEASURED, answers=(lambda g, y, a: _measured(lambda a: np.broadcast_to(a, y.shape), a, g),)),
    ENGINE, CHANGED_INPUT, NO_RETURN, KEPT,
)


def _first_copy(g, a, index):
    for axis in _copied_axes(g, a):
        g = np.take(g, [index], axis=axis)
    for _ in _missing_axes(g, a):
        g = g[index]
    return g


# 04.d: y = a.sum(axis) or y = a.max(axis).


def _cases_d(rng):
    def case(kind, g, a, axis, at):
        return Case((kind, g, a.sum(axis=axis) if kind == "sum" else a.max(axis=axis), a, axis), at)

    def fresh(kind, shape, axis, at, ties=0):
        a = np.array(rng.sample(range(-20, 20), int(np.prod(shape))), dtype=float).reshape(shape) / 2
        if ties:  # as many winners in each group of the last axis, at places of their own
            for row in a.reshape(-1, shape[-1]):
                row[rng.sample(range(shape[-1]), ties)] = 11.0 + rng.randrange(5)
        g = _whole(rng, *np.delete(np.array(shape), axis))
        return case(kind, g, a, axis, at)

    square = np.array([[3.0, 1.0], [3.0, 5.0]])
    tied = np.array([[5.0, 1.0, 5.0], [2.0, 6.0, 3.0], [7.0, 7.0, 7.0]])
    # Square ones first, as above: a lost axis gives numbers there, and an error elsewhere.
    return [case("sum", np.array([10.0, 20.0]), square, 1, "sum, (2, 2), axis 1"),
            case("max", np.array([10.0, 20.0]), square, 1, "max, (2, 2), axis 1"),
            case("max", np.array([10.0, 20.0, 30.0]), tied, 1, "max with ties, (3, 3), axis 1"),
            fresh("sum", (4, 3), 0, "sum, (4, 3), axis 0"), fresh("max", (4, 3), 0, "max, (4, 3), axis 0"),
            fresh("sum", (2, 3), 1, "sum, (2, 3), axis 1"), fresh("max", (2, 4), 1, "max with ties, (2, 4), axis 1", 3),
            fresh("max", (3, 2, 4), -1, "max with ties, (3, 2, 4), axis -1", 2),
            fresh("sum", (2, 3, 4), 1, "sum, (2, 3, 4), axis 1"),
            case("sum", _array(rng, 3), _HUGE * _array(rng, 2, 3), 0, "sum, (2, 3), axis 0, large entries"),
            case("max", _array(rng, 2), _HUGE * np.array([[1.0, 2.0, 2.0], [3.0, 1.0, -2.0]]), 1,
                 "max with ties, (2, 3), axis 1, large entries"),
            case("max", _array(rng, 2), np.array([[1.0, 1.000002], [-3.0, 1.5]]), 1, "max, a near tie, (2, 2), axis 1")]


def _right_d(kind, g, y, a, axis):
    g, y = np.expand_dims(g, axis), np.expand_dims(y, axis)
    won = a == y if kind == "max" else np.ones(a.shape)
    return g * won / (won.sum(axis=axis, keepdims=True) if kind == "max" else 1.0)


def _divided(shares, count):
    """A wrong rule may divide by 0; the warning would be about our line, not the learner's."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return shares / count


def _reduced(max_rule, sum_rule=lambda g, y, a, axis: g * np.ones(a.shape)):
    """A function of the task with other rules, which get g and y with their axis put back."""

    def share(kind, g, y, a, axis):
        g, y = np.expand_dims(g, axis), np.expand_dims(y, axis)
        return (max_rule if kind == "max" else sum_rule)(g, y, a, axis)

    return share


def _each(g, y, a, axis):
    return g * (a == y)


def _copied(g, y, a, axis):
    return g * np.ones(a.shape)


def _even(g, y, a, axis):
    return _divided(g * (a == y), (a == y).sum(axis=axis, keepdims=True))


def _nearly(g, y, a, axis):
    won = np.isclose(a, y)
    return _divided(g * won, won.sum(axis=axis, keepdims=True))


def _first(step):
    """All of g to one winner: the first, or the last."""

    def rule(g, y, a, axis):
        won = np.flip(a, axis) if step < 0 else a
        one = np.zeros(a.shape)
        np.put_along_axis(one, np.expand_dims(won.argmax(axis=axis), axis), 1.0, axis=axis)
        return g * (np.flip(one, axis) if step < 0 else one)

    return rule


def _axis_lost(spread, y_too, shared):
    """A function of the task that does not put the axis of g back, nor with `y_too` that of y."""

    def share(kind, g, y, a, axis):
        if kind == "sum":
            return spread(g, a, axis)
        if y_too is None:  # right for maxima
            return _right_d(kind, g, y, a, axis)
        won = a == (y if y_too else np.expand_dims(y, axis))
        return _divided(g * won, won.sum(axis=axis, keepdims=True)) if shared else g * won

    return share


# The ways to copy g that people use, each with an error of its own; the last one is right.
_SPREADS = (lambda g, a, axis: np.broadcast_to(g, a.shape), lambda g, a, axis: g * np.ones(a.shape),
            lambda g, a, axis: np.ones(a.shape) * g, lambda g, a, axis: g + np.zeros(a.shape),
            lambda g, a, axis: np.zeros(a.shape) + g, lambda g, a, axis: np.expand_dims(g, axis) * np.ones(a.shape))



def _one_axis(fixed, how, shared):
    """A function of the task that puts back the axis `fixed`, whatever it is asked."""

    def share(kind, g, y, a, axis):
        g, y = np.expand_dims(g, fixed), np.expand_dims(y, fixed)
        if kind == "sum":
            return _SPREADS[how](g, a, fixed)
        won = a == y
        return _divided(g * won, won.sum(axis=fixed, keepdims=True)) if shared else g * won

    return share


_AT_TIES = (
    "Your shares come from moving each entry a little, as `measured` does. That is a good judge and no rule. At a tie "
    "it sees two slopes, 1 upwards and 0 downwards, and takes the middle: each winner gets half of g, also when three "
    "of them share it.")
_FAULTS_D = (
    Fault("axis-lost", "the axis that was summed away is not put back",
          "g has one axis less than a. When shapes are lined up from the right, its numbers land in the wrong places: "
          "here each *column* got what belongs to a *row*. In other shapes it is an error.",
          "`np.expand_dims(g, axis)`. What is the shape of g before it, and after it? Does y need it too?",
          (*(_axis_lost(*way) for way in itertools.product(_SPREADS, (True, False), (True, False))),
           *(_axis_lost(spread, None, None) for spread in _SPREADS[:-1]))),
    Fault("y-axis-lost", "the axis of y is not put back",
          "g is in the right places, and the comparison with y is not: y has one axis less than a, so each row of a is "
          "compared with the maxima of *all* rows.",
          "the comparison with y. Which shape must y have there?",
          tuple(lambda kind, g, y, a, axis, rule=rule: _reduced(lambda g, _, a, axis: rule(g, y, a, axis))(
              kind, g, y, a, axis) for rule in (_each, _even))),
    Fault("axis-fixed", "always the same axis is put back",
          "`axis` differs from call to call, and your function always puts back the same one. That is right for some "
          "of the calls.",
          "a number, or None in square brackets, where `axis` belongs.",
          tuple(_one_axis(*way) for way in itertools.product((0, 1, -1), range(5), (True, False)))),
    Fault("ties-each", "each winner gets the whole of g",
          "Where two entries win together, your shares sum to 2 * g, and where three do, to 3 * g. But when all "
          "winners grow by 1, the maximum grows by 1 only. The shares of one maximum sum to g.",
          "the number of winners along the axis. What has to be done with it?",
          (_reduced(_each),)),
    Fault("near-ties", "entries that are nearly equal count as equal",
          "1 and 1.000002 are two numbers, and the larger one wins alone. `np.isclose`, or a tolerance, makes a tie of "
          "them. y is one of the entries of a, unchanged, so nothing is rounded here.",
          "how a is compared with y.",
          (_reduced(_nearly), _reduced(lambda g, y, a, axis: g * np.isclose(a, y)))),
    Fault("ties-first", "one winner gets everything",
          "Where several entries win together, you give all of g to one of them. The shares do sum to g, and some "
          "libraries do so. Here every winner is asked to get the same part.",
          "`argmax`, or a loop that stops at the first winner. Compare with the maximum instead.",
          (_reduced(_first(1)), _reduced(_first(-1)))),
    Fault("ties-all", "winners are counted in the whole array",
          "You divide by the number of all winners in a. Each row has a maximum of its own (each column, for axis 0), "
          "and its g is shared among *its* winners.",
          "the sum that counts the winners: along which axis, and with `keepdims`?",
          (_reduced(lambda g, y, a, axis: g * (a == y) / (a == y).sum()),
           _reduced(lambda g, y, a, axis: g * (a == y) / (a == a.max()).sum()))),
    Fault("count-axis-lost", "the numbers of winners lose their axis",
          "The winners are counted along the right axis, and the counts have one axis less than a. So each count lands "
          "in the wrong place.",
          "`keepdims=True` in the sum that counts the winners.",
          (_reduced(lambda g, y, a, axis: _divided(g * (a == y), (a == y).sum(axis=axis))),)),
    Fault("whole-maximum", "the maximum of the whole array is looked for",
          "You compare with the largest entry of all. With an axis, every row or column has a winner of its own.",
          "what y holds: one maximum for each group.",
          (_reduced(lambda g, y, a, axis: g * (a == a.max())),
           _reduced(lambda g, y, a, axis: g * (a == a.max()) / (a == a.max()).sum()),
           _reduced(lambda g, y, a, axis: _divided(g * (a == a.max()), (a == a.max()).sum(axis=axis, keepdims=True))))),
    Fault("kinds-exchanged", "the two kinds are exchanged",
          "For a sum you look for winners, and for a maximum every entry gets g. Each of the two rules stands where "
          "the other one belongs.",
          "the line that asks for `kind`, and which rule follows it.",
          tuple(_reduced(_copied, rule) for rule in (_even, _each))),
    Fault("losers-too", "the losers get a share as well",
          "For a maximum you copied g to every entry, as for a sum. An entry that did not win does not matter: if it "
          "grows a little, the maximum stays, so its share is 0.",
          "how the winners are found, by comparing a with y.",
          (_reduced(lambda g, y, a, axis: g * np.ones(a.shape)),
           _reduced(lambda g, y, a, axis: g * np.ones(a.shape) / a.shape[axis]))),
    Fault("kind-ignored", "the sum is treated like a maximum",
          "For a sum, only the largest entries got a share in your answer. Every entry of a sum goes into the result, "
          "with local derivative 1.",
          "where your function looks at `kind`.",
          (_reduced(_even, lambda g, y, a, axis: _even(g, np.max(a, axis=axis, keepdims=True), a, axis)),
           _reduced(_each, lambda g, y, a, axis: _each(g, np.max(a, axis=axis, keepdims=True), a, axis)),
           _reduced(_even, _even), _reduced(_each, _each))),
    Fault("mean-for-sum", "the gradient of a sum is divided",
          "For a sum you divided g by the number of entries. That is the rule of a mean. In a sum each entry has the "
          "local derivative 1 and gets all of g.",
          "the division in the case of a sum.",
          (_reduced(_even, lambda g, y, a, axis: g * np.ones(a.shape) / a.shape[axis]),
           _reduced(_each, lambda g, y, a, axis: g * np.ones(a.shape) / a.shape[axis]))),
    Fault("times-value", "the share is multiplied by a value",
          "You multiplied by the entries of a. A sum grows by 1 when one of its entries grows by 1, whatever the entry "
          "is, and a maximum grows by 1 with its winner.",
          "a as a factor in your code.",
          (_reduced(_even, lambda g, y, a, axis: g * a),
           _reduced(lambda g, y, a, axis: _even(g, y, a, axis) * a, lambda g, y, a, axis: g * a),
           _reduced(lambda g, y, a, axis: _even(g, y, a, axis) * a))),
    Fault("upstream-missing", "g is missing",
          "Your share is the local derivative alone: it does not depend on g. A share is g times the local derivative.",
          "where g appears in your function.",
          (_reduced(lambda g, y, a, axis: _even(1.0, y, a, axis), lambda g, y, a, axis: np.ones(a.shape)),
           _reduced(lambda g, y, a, axis: _each(1.0, y, a, axis), lambda g, y, a, axis: np.ones(a.shape)))),
    replace(MEASURED, why=_AT_TIES,
            answers=(lambda kind, g, y, a, axis: _measured(lambda a: getattr(a, kind)(axis=axis), a, g),)),
    ENGINE, CHANGED_INPUT, NO_RETURN, KEPT,
)

_TWO = "two shares, the one of a first: `return ..., ...`"

_D = function(
    "04.d", "a sum and a maximum along an axis", "reduction_share", "kind, g, y, a, axis", cases=_cases_d,
    right=_right_d, faults=_FAULTS_D, rel=_DIGITS, look_at=_own_work, expects="one array in the shape of a", hints=(
        "Both kinds begin in the same way: g has one axis less than a, so give the axis back, with length 1. Then "
        "a sum copies g to every entry, and a maximum only to its winners.",
        "For the maxima along axis 1:\n\n"
        "    a            y     won             g      share\n"
        "    [5, 1, 5]    5     [1, 0, 1]       10     [5, 0, 5]\n"
        "    [2, 6, 3]    6     [0, 1, 0]       20     ?\n"
        "    [7, 7, 7]    7     ?               30     ?",
        "    g, y = np.expand_dims(g, axis), np.expand_dims(y, axis)\n"
        '    if kind == "sum":\n'
        "        return ...                 # g, copied to the shape of a\n"
        "    won = ...                      # True for winners\n"
        "    return g * won / ...           # how many winners has each group?"),
    good="A sum hands g to every entry. A maximum hands it to its winners, and their parts sum to g.")


def _judge_d(attempt):
    """As the form does, and where one kind is done and the other is not begun, it says so."""
    result = _D.judge(attempt)
    if result.status != NOT_STARTED and result.fault != NO_RETURN.id:
        return result
    answer, found = attempt.answers[0], {"sum": [], "max": []}
    if not callable(answer):
        return result
    for case in _cases_d(attempt.rng):
        ran, want = run(answer, *case.fresh()), _right_d(*case.fresh())
        empty = ran.ended == "not started" or ran.ended == "returned" and ran.value is None
        right = ran.ended == "returned" and not empty and same(ran.value, want, _DIGITS)
        found[case.args[0]].append("empty" if empty else "right" if right else "wrong")
    for done, left in (("sum", "max"), ("max", "sum")):
        if set(found[left]) == {"empty"} and set(found[done]) == {"right"}:
            return attempt.unfinished([f'`kind="{done}"` is right in all cases. For `kind="{left}"` your function '
                                       "returns nothing yet."])
    return result


TASKS = (
    function(
        "04.a", "a product inside tanh", "tanh_product_shares", "g, y, a, b", cases=_cases_a, right=_right_a,
        faults=_FAULTS_A, rel=_DIGITS, look_at=_own_pair(_right_a), tidy=_pair, expects=_TWO, hints=(
            "Two steps lie between y and a: tanh, and the product. On the way back tanh comes first. Its slope can be "
            "written with y alone.",
            "g arrives at y. Each arrow multiplies by one local derivative:\n\n"
            "    y  --(slope of tanh)-->  a * b  --(other slot)-->  a\n"
            "                                    --(other slot)-->  b\n\n"
            "Lesson 04 has the rule of tanh, lesson 01 the one of the product.",
            "One line for what arrives at the product, one for the pair:\n\n"
            "    slope = g * (1 - ...)       # at a * b\n"
            "    return slope * ..., slope * ..."),
        good="Through the output: 1 - y**2 costs no second tanh. Then each slot of the product gets the value in the "
             "other slot."),
    function(
        "04.b", "a matrix product", "matmul_shares", "g, y, a, b", cases=_cases_b, right=_right_b, faults=_FAULTS_B,
        rel=_DIGITS, look_at=_own_pair(_right_b), tidy=_pair, expects=_TWO, hints=(
            "Write down the shapes of a, b and g for a product in which all three lengths differ. Each share is a "
            "matrix product of g with the *other* input, and it has the shape of its own input.",
            "With n rows, k inner places and m columns:\n\n"
            "    a  (n, k)      b  (k, m)      g  (n, m)\n\n"
            "    share of a     (n, k)  =  (n, m) times (?, ?)\n"
            "    share of b     (k, m)  =  (?, ?) times (n, m)\n\n"
            "Which matrix, or which transpose, has the shape that is missing?",
            "    return g @ ..., ... @ g"),
        good="g stays on its side, and the other matrix comes as its transpose: only this gives the shapes of a and "
             "b."),
    function(
        "04.c", "a broadcast", "broadcast_share", "g, y, a", cases=_cases_c, right=_right_c, faults=_FAULTS_C,
        rel=_DIGITS, look_at=_own_work, expects="one array in the shape of a", hints=(
            "Each entry of a was copied along some axes. Its share is the sum over the copies. Two kinds of axes are "
            "copied: those that a lacks, and those in which a has length 1.",
            "Shapes are lined up from the right:\n\n"
            "    result   (2, 4, 3)\n"
            "    a           (1, 3)\n"
            "              |  |  |\n"
            "              |  |  same length: not copied\n"
            "              |  length 1 in a: sum, and the axis stays\n"
            "              a lacks it: sum, and the axis goes",
            "First the axes that a lacks, then those of length 1:\n\n"
            "    lacks = g.ndim - ...\n"
            "    g = g.sum(axis=tuple(range(lacks)))\n"
            "    ones = tuple(axis for axis, n in enumerate(a.shape) if ...)\n"
            "    return g.sum(axis=ones, ...)"),
        good="Forwards copied, backwards summed, in the shape of a: an axis that a lacks goes, an axis of length 1 "
             "stays."),
    replace(_D, judge=_judge_d),
)
