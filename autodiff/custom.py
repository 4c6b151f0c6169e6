"""Operations of a user's own, with partials written by the user."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence

import numpy as np

from .backward import as_constant
from .graph import Node
from .outside import plain
from .recording import apply, frozen, value_of
from .rules import Rule


def custom_op(vjps: Sequence[Callable | None]) -> Callable:
    """A decorator that makes an operation of a forward function, named after it, with these partials.

    The forward gets arrays and returns one array. `vjps`: for each operand a partial ``(g, y, *operands, **params)``
    that returns the operand's cotangent, in its shape and dtype, or None for "no gradient to this operand"; None in
    place of a partial says the same. Partials written with NumPy functions can be differentiated themselves. Keyword
    arguments of the call are params: they go to the forward and to the partials. The partials are the contract, even
    where they are not the derivative of the forward (a straight-through estimator is such an op).
    A partial's wrong shape is a ValueError and a wrong dtype a TypeError, and a call with another number of operands is
    a TypeError; each names the op and the operand.

    >>> import numpy as np, autodiff as ad
    >>> @ad.custom_op(vjps=[lambda g, y, x: g])
    ... def rounded(x):
    ...     return np.round(x)
    >>> x = ad.Var([0.4, 1.6])
    >>> rounded(x), rounded(x).backward()[x]
    (Tensor([0., 2.], op=rounded), Tensor([1., 1.]))
    """
    if callable(vjps):
        raise TypeError(f"custom_op takes the partials: write @ad.custom_op(vjps=[...]) above {vjps.__name__}")
    vjps = list(vjps)

    def decorate(forward: Callable) -> Callable:
        name = forward.__name__
        names = _operand_names(forward, len(vjps))
        partials = [p and _checked(p, name, operand, i) for i, (p, operand) in enumerate(zip(vjps, names))]
        rule = Rule(_on_arrays(forward), partials, name=name)

        @functools.wraps(forward)
        def op(*operands, **params):
            if len(operands) != len(vjps):
                extra = ": add the partial of each other operand to vjps, and" * (len(operands) > len(vjps)) or ";"
                raise TypeError(f"{name} takes {len(vjps)} operands ({', '.join(names)}), one for each of its vjps, "
                                f"got {len(operands)}{extra} pass other arguments by name")  # fmt: skip
            for key, value in params.items():
                if isinstance(value, Node):
                    value._keep_history(f"given to {name} as {key}=, for which vjps has no partial")
            return apply(rule, operands, {key: frozen(value_of(value, name)) for key, value in params.items()})

        op.rule = rule
        return op

    return decorate


def _operand_names(forward, count: int) -> list[str]:
    parameters = list(inspect.signature(forward).parameters.values())
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return (names + [f"operand {i}" for i in range(count)])[:count] if len(names) < count else names[:count]


def _on_arrays(forward):
    name = forward.__name__

    def run(*operands, **params):
        value = np.asarray(plain(forward(*[_read_only(x) for x in operands], **params), f"the result of {name}"))
        if value.dtype.kind not in "fiub":
            raise TypeError(f"the forward of {forward.__name__} must return an array of numbers, got {value.dtype}")
        return np.array(value)  # the forward may keep, or be given, what it returns

    run.__name__ = forward.__name__
    return run


def _read_only(x):
    if not isinstance(x, np.ndarray):
        return x
    x = x.view()
    x.setflags(write=False)
    return x


def _checked(partial, op: str, operand: str, i: int):
    @functools.wraps(partial)
    def run(g, y, *operands, **params):
        share, x = partial(_read_only(g), _read_only(y), *[_read_only(o) for o in operands], **params), operands[i]
        if share is None:
            return None
        shape, dtype = np.shape(x), getattr(x, "dtype", None)
        if not isinstance(share, Node):
            share = np.asarray(plain(share, f"the partial of {op} for {operand}"))
            share = frozen(share)  # the partial may write to it again
        elif not isinstance(g, Node):
            share = as_constant(share)
        elif share.is_variable:
            share = np.copy(share)  # a later set must not change a gradient
        if share.shape != shape:
            raise ValueError(f"the partial of {op} for {operand} returned shape {share.shape}, expected {shape}, the "
                             f"shape of {operand}: a cotangent has its operand's shape")  # fmt: skip
        if share.dtype != dtype:
            raise TypeError(f"the partial of {op} for {operand} returned {share.dtype}, expected {dtype}, the dtype of "
                            f"{operand}; convert it with .astype")  # fmt: skip
        return share

    return run
