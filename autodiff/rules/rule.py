"""What a rule is: the derivative of one NumPy function, one partial for each operand.

A partial has the signature ``(g, y, *operands, **params)``: the cotangent of the output, the output, then the operands
as the function got them, then the other arguments by name. It returns the cotangent of its operand, in that operand's
shape. It is written with NumPy functions and operators only, so the same line runs on arrays, when gradients are
constants, and on Tensors, when gradients must be differentiable themselves.
"""

import functools
import inspect

import numpy as np

from .helpers import widened

NOT_GIVEN = getattr(np, "_NoValue", inspect.Parameter.empty)
RULES = {}  # NumPy function -> Rule
COMPOSED = {}  # NumPy function -> the same function, written with functions that have rules
MASKED = {}  # NumPy function -> the same for where= and initial=, where one of them is given
VALUES = {}  # NumPy function that looks at values only, such as isnan -> whether its result is made a Tensor


def identity(g, y, *operands, **params):
    """The partial of a function that passes its cotangent on unchanged; `backward` then makes no call at all."""
    return g


def _is_elementwise(function):
    return isinstance(function, np.ufunc) and function.signature is None


def _is_identity(partial, pattern=(lambda g: g).__code__.co_code):
    return getattr(getattr(partial, "__code__", None), "co_code", None) == pattern


class Rule:
    """The forward function and its partials.

    `partials`: one for each operand, None where the function is not differentiable in that operand.
    `joint`: instead of `partials`, one function that returns the cotangents of all operands at once.
    `each`: instead of `partials`, for functions of a sequence: a partial that gets the operand's position after `y`.
    `elementwise`: operands of other shapes and dtypes are first broadcast and cast, by nodes of their own.
    `save`: computes from ``(y, *operands, **params)``, at the forward, what the partials get as ``saved``.
    `params`: the names of the other arguments. `every`: all operands are differentiable. `plain`: so it is, and nothing
    is saved or done in place: such a rule may take the short ways.
    `into`: adds a contribution to an existing array in place, for partials that are zero nearly everywhere.
    `wide`: the partials add up or divide by a count, so float16 runs through them as float32 (see `widened`).
    `written`: the partials as they are written, also those that `identity` stands for.
    """

    __slots__ = ("name", "forward", "partials", "each", "joint", "elementwise", "save", "into", "differentiable",
                 "params", "every", "plain", "written", "_signature", "_names", "_without")  # fmt: skip

    def __init__(self, forward, partials=(), *, each=None, joint=None, elementwise=None, save=None, into=None,
                 name=None, signature=None, differentiable=True, wide=False):  # fmt: skip
        self.forward, self.each, self.joint, self.save, self.into = forward, each, joint, save, into
        self.name = name or forward.__name__
        self.elementwise = _is_elementwise(forward) if elementwise is None else elementwise
        self.differentiable = differentiable
        self.written = tuple(partials)
        self.partials = tuple(identity if _is_identity(p) else p for p in partials)
        self.every = differentiable and (each is not None or joint is not None or None not in self.partials)
        self.plain = self.every and each is None and joint is None and save is None and into is None
        self._signature, self._names, self._without = signature, None, None
        partial = each or next((p for p in partials if p is not None), None)
        self.params = _keywords(partial, skip=3 if each else 2 + len(self.partials)) if partial else ()
        if wide:
            self.partials = tuple(p and widened(p) for p in self.partials)

    def __repr__(self):
        return f"<rule of {self.name}>"

    @property
    def without_partials(self):
        """This rule without its partials: for results that have none, such as integers and products with 0."""
        if self._without is None:
            self._without = Rule(self.forward, name=self.name, differentiable=False)
        return self._without

    def partials_for(self, operands):
        """The partials, one for each of these operands."""
        if not self.differentiable:
            return (None,) * len(operands)
        if self.joint is not None:
            return _shares_of(self.joint, len(operands))
        return self.partials if self.each is None else _bind_positions(self.each, len(operands))

    @property
    def signature(self):
        """The forward's signature, found at first use."""
        if not isinstance(self._signature, inspect.Signature):
            self._signature = signature_of(self.forward, self._signature)
        return self._signature

    @property
    def names(self):
        """The names of the forward's arguments."""
        if self._names is None:
            self._names = tuple(self.signature.parameters)
        return self._names


def signature_of(function, text=None):
    """The signature of a NumPy function; `text` stands in where NumPy (before 2.4) does not tell it."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        if text is None:
            raise
        scope = {}
        exec(f"def f({text}): pass", scope)  # the text is a literal of this package
        return inspect.signature(scope["f"])


def _keywords(partial, skip):
    code = getattr(partial, "__code__", None)
    if code is None:
        return tuple(inspect.signature(partial).parameters)[skip:]
    return code.co_varnames[skip : code.co_argcount + code.co_kwonlyargcount]


@functools.cache
def _bind_positions(each, n):
    return tuple(lambda g, y, *xs, _i=i, **params: each(g, y, _i, *xs, **params) for i in range(n))


def _shares_of(joint, n):
    """Partials that call `joint` once, when the first of them is called, and share what it returns."""
    shares = []

    def share(i):
        def partial(*args, **params):
            if not shares:
                shares.extend(joint(*args, **params))
            return shares[i]

        return partial

    return [share(i) for i in range(n)]


def rule(forward, *partials, **options):
    """Enter the rule of `forward` in the table: one partial for each operand."""
    RULES[forward] = made = Rule(forward, partials, **options)
    return made


def nondifferentiable(*functions):
    """Enter functions whose derivative is zero almost everywhere: recorded in graphs, never descended into."""
    for function in functions:
        RULES[function] = Rule(function, differentiable=False)


def on_values(*functions, wrap=False):
    """Enter functions that have no derivative to speak of: they are given the values, and record nothing."""
    VALUES.update(dict.fromkeys(functions, wrap))


def masked(function):
    """Register what stands in for `function` where it is given where= or initial=."""

    def register(written):
        MASKED[function] = written
        return written

    return register


def composed(*functions):
    """Register a function written with NumPy functions that have rules of their own; None: newer than this NumPy."""

    def register(written):
        COMPOSED.update((function, written) for function in functions if function is not None)
        return written

    return register
