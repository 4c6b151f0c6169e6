"""Rules that are wrong on purpose, each in one way, and what `gradcheck` must say of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import autodiff as ad
from autodiff.recording import apply
from autodiff.rules.rule import Rule

FAULTS = []


@dataclass(frozen=True)
class Fault:
    """`verdict` and words of the `hint` that must come out for `f` at `inputs`; `op`: the op to be named.

    `order` 2: the first derivative is right, and only the second is wrong.
    """

    name: str
    f: Callable
    inputs: tuple
    verdict: str
    hint: str = ""
    op: str | None = None
    order: int = 1
    options: tuple = ()

    def check(self, **options):
        check = ad.gradcheck if self.order == 1 else ad.gradgradcheck
        return check(self.f, self.inputs, raise_exception=False, **{**dict(self.options), **options})


def fault(name, f, *inputs, verdict, hint="", op=None, order=1, **options):
    FAULTS.append(Fault(name, f, inputs, verdict, hint, op, order, tuple(options.items())))


def faulty(forward, *partials, name=None, **options):
    """An op with these partials instead of the right ones."""
    rule = Rule(forward, partials, name=name or f"faulty_{forward.__name__}", **options)

    def op(*operands, **params):
        return apply(rule, operands, params)

    return op


rng = np.random.default_rng(5)
A, B, S = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 3))
V, W, P = rng.normal(size=5), rng.normal(size=4), rng.uniform(0.5, 2, 5)

# A constant factor

op = faulty(np.sin, lambda g, y, x: -g * np.cos(x))
fault("sign", lambda x: op(x), V, verdict="wrong value", hint="the sign is wrong", op="faulty_sin")

double = faulty(np.square, lambda g, y, x: g * 4 * x)
fault(
    "factor 2 too many", lambda x: double(x).sum(), V, verdict="wrong value", hint="counted twice", op="faulty_square"
)

half = faulty(np.square, lambda g, y, x: g * x)
fault("factor 2 missing", lambda x: half(x), V, verdict="wrong value", hint="a factor 2 is missing", op="faulty_square")

one_path = faulty(np.multiply, lambda g, y, a, b: g * b, None)
fault(
    "one of two equal paths dropped",
    lambda x: one_path(x, x),
    V,
    verdict="wrong value",
    hint="one of two equal paths",
    op="faulty_multiply",
)

mean_for_sum = faulty(np.sum, lambda g, y, x: np.broadcast_to(g, x.shape) * (1 / x.size))
fault(
    "mean for sum",
    lambda x: mean_for_sum(x),
    A,
    verdict="wrong value",
    hint="a mean where a sum belongs",
    op="faulty_sum",
)

sum_for_mean = faulty(np.mean, lambda g, y, x: np.broadcast_to(g, x.shape) * 1.0)
fault("sum for mean", lambda x: sum_for_mean(x), A, verdict="wrong value", hint="a sum where a mean belongs")

log2 = faulty(np.log2, lambda g, y, x: g / x)
fault("log2 as log", lambda x: log2(x), P, verdict="wrong value", hint="ln 2", op="faulty_log2")

log10 = faulty(np.log10, lambda g, y, x: g / x)
fault("log10 as log", lambda x: log10(x), P, verdict="wrong value", hint="ln 10")

degrees = faulty(np.deg2rad, lambda g, y, x: g)
fault("degrees", lambda x: degrees(x), V, verdict="wrong value", hint="degrees and radians")

slightly = faulty(np.multiply, lambda g, y, x, c: g * 1000.5, None)
fault("1000.5 for 1000", lambda x: slightly(x, 1000.0), V, verdict="wrong value", hint="gradient / numeric is 1.0005")

tiny = faulty(np.tanh, lambda g, y, x: g * (1 - y * y) * (1 + 3e-5))
fault("off in the fifth digit", lambda x: tiny(x), V, verdict="wrong value", op="faulty_tanh")

# A slope that is not seen

flat = faulty(lambda x: x * 5e-6, lambda g, y, x: g * 0.0, name="faulty_scale")
fault("0 for 5e-6", lambda x: flat(x), V, verdict="zero where the slope is not", op="faulty_scale")

zeros = faulty(np.exp, lambda g, y, x: np.zeros_like(g))
fault("zeros", lambda x: zeros(x), V, verdict="zero where the slope is not", op="faulty_exp")

nothing = faulty(np.exp, lambda g, y, x: None)
fault("returns None for a slope", lambda x: nothing(x), V, verdict="disconnected", hint="returns None", op="faulty_exp")

no_partial = faulty(np.multiply, lambda g, y, a, b: g * b, None)
fault("None for a partial", lambda x, w: no_partial(x, w), A, B, verdict="disconnected", op="faulty_multiply")

fault("value taken out by .data", lambda x: x * 2 + (x * x).data, V, verdict="wrong value", hint=".data")
fault("the whole value taken out by .data", lambda x, w: w * np.exp(x.data), V, P, verdict="disconnected", hint=".data")
fault("value taken out by .item", lambda x: x * (x * x).sum().detach().item(), V, verdict="wrong value", hint=".data")
fault(
    "a detach that was forgotten", lambda x: (np.exp(x).detach() * x).sum(), V, verdict="disconnected", hint="detach()"
)
fault(
    "everything behind a detach",
    lambda x, w: (np.exp(x).detach() * w).sum(),
    V,
    P,
    verdict="disconnected",
    hint="hold_detached=True",
)

dropped = faulty(lambda x: x * x + np.sin(x), lambda g, y, x: g * 2 * x, name="faulty_sum_of_two")
fault("a dropped path", lambda x: dropped(x), V, verdict="wrong value", op="faulty_sum_of_two")

overwritten = faulty(lambda x: x[[0, 1, 1, 2]], lambda g, y, x: _overwrite(g, x), name="faulty_index")


def _overwrite(g, x):
    total = np.zeros_like(x)
    total[[0, 1, 1, 2]] = g
    return total


fault(
    "overwritten instead of summed",
    lambda x: overwritten(x).sum() + (x * x).sum(),
    V,
    verdict="wrong value",
    op="faulty_index",
)

# The right numbers in the wrong place

transposed = faulty(lambda x: x * S, lambda g, y, x: (g * S).T, name="faulty_times")
fault("transposed", lambda x: (transposed(x) * x).sum(), S, verdict="wrong value", op="faulty_times")

no_transpose = faulty(lambda x: np.sum(S * x.T), lambda g, y, x: g * S, name="faulty_transposed_sum")
fault("transpose forgotten", lambda x: no_transpose(x), S, verdict="wrong value", hint="transposed")

not_transposed_back = faulty(lambda x: x.T * 1.0, lambda g, y, x: g.reshape(x.shape), name="faulty_transpose")
fault("reshape for transpose", lambda x: not_transposed_back(x), A, verdict="wrong value", op="faulty_transpose")

shifted = faulty(
    lambda x: np.sum(np.arange(5) ** 2 * x), lambda g, y, x: g * np.roll(np.arange(5.0) ** 2, 1), name="faulty_dot"
)
fault("shifted index", lambda x: shifted(x), V, verdict="wrong value", hint="shifted by one")

rolled = faulty(lambda x: np.roll(x, 1), lambda g, y, x: np.roll(g, 1), name="faulty_roll")
fault("rolled the wrong way", lambda x: rolled(x), V, verdict="wrong value", hint="wrong place", op="faulty_roll")

backwards = faulty(lambda x: np.sum(W * x), lambda g, y, x: g * W[::-1], name="faulty_reverse")
fault("reversed", lambda x: backwards(x), rng.normal(size=4), verdict="wrong value", hint="reverse order")

swapped = faulty(np.multiply, lambda g, y, a, b: g * a, lambda g, y, a, b: g * b)
fault(
    "partials swapped",
    lambda a, b: swapped(a, b),
    V,
    P,
    verdict="wrong value",
    hint="partials are swapped",
    op="faulty_multiply",
)

product = faulty(np.matmul, lambda g, y, a, b: g @ b, lambda g, y, a, b: a.T @ g)
fault(
    "b for its transpose",
    lambda a, b: product(a, b),
    S,
    S[::-1],
    verdict="wrong value",
    hint="transposed",
    op="faulty_matmul",
)

product_b = faulty(np.matmul, lambda g, y, a, b: g @ b.T, lambda g, y, a, b: a @ g)
fault(
    "a for its transpose, in a loss",
    lambda a, b: (product_b(a, b) ** 2).sum(),
    S,
    S[::-1],
    verdict="wrong value",
    hint="transposed",
    op="faulty_matmul",
)

# Broadcasting

first_row = faulty(lambda x: np.broadcast_to(x, (3, 4)), lambda g, y, x: g[0], name="faulty_broadcast")
fault(
    "broadcast not summed", lambda w: first_row(w) * A, W, verdict="zero where the slope is not", op="faulty_broadcast"
)

averaged = faulty(lambda x: np.broadcast_to(x, (3, 4)), lambda g, y, x: g.mean(axis=0), name="faulty_broadcast")
fault("broadcast averaged", lambda w: averaged(w).sum(), W, verdict="wrong value", hint="a mean where a sum belongs")

wrong_axis = faulty(lambda x: np.sum(x * S), lambda g, y, x: g * np.broadcast_to(S.mean(0), (3, 3)), name="faulty_mean")
fault("averaged over an axis", lambda x: wrong_axis(x), S.T, verdict="wrong value", hint="averaged over axis 0")

# Form

unsummed = faulty(lambda x: x * np.ones((3, 4)), lambda g, y, x: g, name="faulty_expand")
fault(
    "wrong shape", lambda w: unsummed(w).sum(), W, verdict="wrong shape", hint="undo the broadcast", op="faulty_expand"
)

inner_shape = faulty(lambda x: np.outer(x, x), lambda g, y, x: g @ x.reshape(-1, 1) * 2, name="faulty_outer")
fault("wrong shape inside", lambda x: inner_shape(np.sin(x)), V, verdict="wrong shape", op="faulty_outer")

narrow = faulty(np.exp, lambda g, y, x: (g * y).astype(np.float32))
fault("wrong dtype", lambda x: narrow(x), V, verdict="wrong dtype", hint="operand's dtype", op="faulty_exp")

# The cotangent

ignores = faulty(np.exp, lambda g, y, x: y)
fault(
    "not multiplied by the cotangent",
    lambda x: ignores(x),
    V,
    verdict="not multiplied by the cotangent",
    hint="does not double",
    op="faulty_exp",
)
fault(
    "not multiplied, in a scalar function",
    lambda x: ignores(x).sum(),
    V,
    verdict="not multiplied by the cotangent",
    op="faulty_exp",
)

squares = faulty(np.sin, lambda g, y, x: g * g * np.cos(x))
fault("multiplied twice by the cotangent", lambda x: squares(x), V, verdict="not multiplied by the cotangent")

mixes = faulty(np.sin, lambda g, y, x: np.broadcast_to(np.max(np.abs(g)), g.shape) * np.sign(g) * np.cos(x))
fault("wrong only for cotangents with several entries", lambda x: mixes(x), V, verdict="wrong value", op="faulty_sin")

softmax = faulty(lambda x: np.exp(x) / np.exp(x).sum(), lambda g, y, x: g * y, name="faulty_softmax")
fault("softmax without its second term", lambda x: softmax(x), V, verdict="wrong value", op="faulty_softmax")

centred = faulty(lambda x: x - x.mean(), lambda g, y, x: g * 0.5, name="faulty_centre")
fault("hidden by a cotangent of ones", lambda x: centred(x), V, verdict="wrong value", op="faulty_centre")

perpendicular = np.random.RandomState(0).randn(2)[::-1] * np.array([-1, 1])
orthogonal = faulty(np.sum, lambda g, y, x: g * (1 + 5 * perpendicular))
fault(
    "orthogonal to a fixed direction",
    lambda x: orthogonal(x),
    np.array([1.0, 2.0]),
    verdict="wrong value",
    op="faulty_sum",
)

# Here and there

spot = np.ones(300)
spot[217] = 1.01
one_wrong = faulty(np.sin, lambda g, y, x: g * np.cos(x) * spot)
fault(
    "one wrong entry among many",
    lambda x: one_wrong(x).sum(),
    rng.normal(size=300),
    verdict="wrong value",
    hint="[217]",
    op="faulty_sin",
)

needle = np.ones(6000)
needle[4321] = -1
lost = faulty(np.sin, lambda g, y, x: g * np.cos(x) * needle)
fault(
    "one wrong entry of thousands",
    lambda x: lost(x).sum(),
    np.linspace(0, 1, 6000),
    verdict="wrong value",
    op="faulty_sin",
)

last = faulty(
    lambda x, c: x[-1] * c,
    lambda g, y, x, c: np.array([0, 0, 2.0]) * np.sum(g * c),
    lambda g, y, x, c: g * x[-1],
    name="faulty_last",
)
fault(
    "wrong entries of a wide output",
    lambda x, c: last(x, c),
    np.linspace(0, 1, 3),
    np.linspace(1, 2, 4000),
    verdict="wrong value",
    op="faulty_last",
)

large = faulty(np.tanh, lambda g, y, x: g * np.where(np.abs(x) > 3, 0.5, 1 - y * y))
fault(
    "wrong only at large |x|",
    lambda x: large(x),
    np.array([0.1, -1.0, 2.0, 4.0, -5.0]),
    verdict="wrong value",
    hint="|x| is large",
    op="faulty_tanh",
)

negative = faulty(np.square, lambda g, y, x: g * 2 * np.abs(x))
fault("wrong sign for some", lambda x: negative(x), V, verdict="wrong value", hint="sign")

each = faulty(np.max, lambda g, y, x: g * (x == y))
fault(
    "each of two tied entries gets all",
    lambda x: each(x),
    np.array([1.0, 3.0, 3.0]),
    verdict="wrong value",
    hint="add up to 2",
)
none = faulty(np.max, lambda g, y, x: g * ((x == y) & (np.sum(x == y) == 1)))
fault(
    "tied entries get nothing", lambda x: none(x), np.array([1.0, 3.0, 3.0]), verdict="wrong value", hint="add up to 0"
)
pair = faulty(np.maximum, lambda g, y, a, b: g * (a >= b), lambda g, y, a, b: g * (b >= a))
fault(
    "both sides of a tie get all",
    lambda a, b: pair(a, b),
    np.array([1.0, 3.0]),
    np.array([0.0, 3.0]),
    verdict="wrong value",
    hint="add up to 2",
)

outside = faulty(np.abs, lambda g, y, x: g * np.where(x == 0, 1.5, np.sign(x)))
fault(
    "outside the slopes at a kink",
    lambda x: outside(x),
    np.array([-1.0, 0.0]),
    verdict="wrong value",
    op="faulty_absolute",
)

# Not finite, not repeatable

not_a_number = faulty(np.sqrt, lambda g, y, x: g * np.nan)
fault("NaN", lambda x: not_a_number(x), P, verdict="not finite", op="faulty_sqrt")
fault(
    "a mask does not protect",
    lambda x: np.where(x > 1, np.sqrt(x), x),
    np.array([0.0, 4.0]),
    verdict="not finite",
    hint="strong_zero",
    op="sqrt",
)
fault("an infinite slope", lambda x: np.sqrt(x), np.array([0.0, 4.0]), verdict="not finite")
fault("a function that is NaN", lambda x: np.log(x), np.array([-1.0, 4.0]), verdict="not finite")

noise = np.random.default_rng(1)
fault("not deterministic", lambda x: x * noise.normal(), V, verdict="not deterministic", hint="fix its seed")
calls = []


def drifting(x):
    calls.append(1)
    return x * (1 + 1e-3 * len(calls))


fault("drifts from call to call", drifting, V, verdict="not deterministic")
unsteady = faulty(np.sin, lambda g, y, x: g * np.cos(x) * (1 + 1e-6 * noise.normal()))
fault("not deterministic backwards", lambda x: unsteady(x), V, verdict="not deterministic", hint="inside a rule")

# Nothing to check

fault("integer output", lambda x: np.argmax(x), V, verdict="nothing was checked")
fault("integer input", lambda x: x * 2, 3, verdict="nothing was checked", hint="")
fault("an ignored argument", lambda x, y: x * 2, V, P, verdict="nothing was checked", hint="")
fault("every argument ignored", lambda x: ad.Tensor([1.0]) * 2, V, verdict="nothing was checked")
outer = ad.Var(V, name="outer")
fault(
    "the Var from outside",
    lambda x: (outer * outer).sum(),
    V,
    verdict="nothing was checked",
    hint="'outer' from outside",
)
fault("only steps", lambda x: np.floor(x), V, verdict="nothing was checked")
fault("no entries", lambda x: x * 2, np.zeros((0, 3)), verdict="nothing was checked")

# Second order: the first derivative is right, the second is not

cut = faulty(np.square, lambda g, y, x: g * (2 * getattr(x, "data", x)) if isinstance(x, ad.Tensor) else g * (2 * x))
fault("second order: the operand cut off", lambda x: cut(x), V, verdict="disconnected", op="faulty_square", order=2)

cut_result = faulty(np.exp, lambda g, y, x: g * (y.detach() if isinstance(y, ad.Tensor) else y))
fault(
    "second order: the result cut off",
    lambda x: cut_result(x).sum(),
    V,
    verdict="disconnected",
    hint="detach()",
    order=2,
)

cut_cotangent = faulty(np.sin, lambda g, y, x: (g.data if isinstance(g, ad.Tensor) else g) * np.cos(x))
fault(
    "second order: the cotangent cut off",
    lambda x: cut_cotangent(x),
    V,
    verdict="disconnected",
    op="faulty_sin",
    order=2,
)

bad_cos = faulty(np.cos, lambda g, y, x: g * np.sin(x))
bad_second = faulty(np.sin, lambda g, y, x: g * bad_cos(x) if isinstance(x, ad.Tensor) else g * np.cos(x))
fault(
    "second order: wrong sign",
    lambda x: bad_second(x),
    V,
    verdict="wrong value",
    hint="sign is wrong",
    op="faulty_sin",
    order=2,
)

half_second = faulty(
    lambda x: x**3, lambda g, y, x: g * (3 * half(x)) if isinstance(x, ad.Tensor) else g * 3 * x * x, name="faulty_cube"
)
fault(
    "second order: a factor 2 missing",
    lambda x: half_second(x),
    V,
    verdict="wrong value",
    hint="a factor 2 is missing",
    op="faulty_cube",
    order=2,
)

other_value = faulty(np.sin, lambda g, y, x: g * np.cos(x) * (2.0 if isinstance(x, ad.Tensor) else 1.0))
fault(
    "second order: another value on Tensors", lambda x: other_value(x), V, verdict="wrong value", hint="differ", order=2
)
