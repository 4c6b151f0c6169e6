"""Recording: run a NumPy function on the values of tensors, and remember how its result was computed."""

from __future__ import annotations

import functools
import inspect
import itertools
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .graph import CUT, PATH, SLOT, Node, is_floating
from .familiar import KEYWORDS, refuse_keywords
from .outside import PLAIN, HistoryLostError, callers, plain
from .rules import COMPOSED, MASKED, NOT_GIVEN, RULES, VALUES, Rule, astype, broadcast, reductions
from .rules.hints import WRITE, instead_of, name_of

new_id = itertools.count().__next__
recording = ContextVar("recording", default=True)
NO_PARAMS: dict = {}
ndarray = np.ndarray
REDUCTIONS = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.fmax: np.nanmax,
              np.fmin: np.nanmin, **{f: f.reduce for f in reductions.ASSOCIATIVE}}  # fmt: skip
CUMULATIVE = {np.add: np.cumsum, np.multiply: np.cumprod, **{f: f.accumulate for f in reductions.RUNNING}}


class NoRuleError(TypeError):
    """A NumPy function was called on a Tensor, and the table has no rule for it."""


@contextmanager
def no_grad():
    """Record nothing within this context, in this thread or async task: results are plain Tensors without history.

    >>> import autodiff as ad
    >>> x = ad.Var(2.0)
    >>> with ad.no_grad():
    ...     y = x * x
    >>> y, y.tracked
    (Tensor(4.), False)
    """
    before = recording.get()
    recording.set(False)
    try:
        yield
    finally:
        recording.set(before)  # not reset: a generator may end in another context than it began in


# How results are made


def init_leaf(t: Node, array: np.ndarray) -> None:
    """Make `t` a leaf without history."""
    t._array, t._shape, t._id, t._role = array, array.shape, new_id(), SLOT if is_floating(array.dtype) else CUT
    t._rule, t._inputs, t._values, t._params = None, (), (), NO_PARAMS


def constant(value) -> Node:
    """A plain Tensor that holds this array itself, without a copy."""
    t = _blank()
    init_leaf(t, value if value.__class__ is ndarray else np.asarray(value))
    return t


def results_are(kind: type) -> None:
    """Tensor says here that results are Tensors, so that the layers below it need not import it."""
    global _blank
    Node.kind, _blank = kind, functools.partial(object.__new__, kind)


def record(rule: Rule, value, inputs: tuple, values: tuple, params: dict = NO_PARAMS, role: int = PATH, shape=()):
    """A Tensor that remembers that `rule` made it of `inputs`, whose arrays are `values`; `shape`: if already known."""
    t = _blank()
    if value.__class__ is not ndarray:
        value = np.asarray(value)
    t._array = value
    t._shape = shape or value.shape
    t._rule = rule
    t._inputs = inputs
    t._values = values
    t._params = params
    t._id = new_id()
    t._role = role
    return t


def alias(t: Node) -> Node:
    """A node of its own with the value of `t`, in the same memory, that passes its gradient on to `t`."""
    return record(RULES[np.copy], t._array, (t,), (t._array,), role=t._role)


def apply(rule: Rule, operands: tuple, params: dict = NO_PARAMS, options: dict = NO_PARAMS) -> Node:
    """The rule's forward on the operands' values, recorded when one of them is tracked.

    `params` go to the forward and to the partials, `options` to the partials alone.
    """
    inputs, values, tracked = [], [], False
    for t in operands:
        t = t if isinstance(t, Node) else as_operand(t, rule)
        if isinstance(t, Node):
            tracked = tracked or t._role == PATH or t._rule is not None
            values.append(t._array)
        else:
            values.append(t)
        inputs.append(t)
    value = rule.forward(*values, **params) if rule.each is None else rule.forward(tuple(values), **params)
    kind = value.dtype.kind
    if kind not in "fiub":
        raise TypeError(f"{rule.name} gave {value.dtype}: Tensors hold floating, integer or boolean numbers only")
    if not tracked or not recording.get():
        return constant(value)
    if kind != "f" or rule.forward is np.multiply and any([_is_zero(t) for t in inputs]):
        rule = rule.without_partials
    if rule.save is not None:
        options = {**options, "saved": rule.save(value, *values, **params, **options)}
    role = CUT
    for i, (t, partial) in enumerate(zip(inputs, rule.partials or rule.partials_for(inputs))):
        if not isinstance(t, Node):
            inputs[i] = values[i] = frozen(t)
        elif partial is not None:
            role = PATH if t._role == PATH else role
            if rule.elementwise and is_floating(t._array.dtype):
                inputs[i] = t = aligned(t, value)
                values[i] = t._array
    return record(rule, value, tuple(inputs), tuple(values), {**params, **options} if options else params, role)


def aligned(t: Node, value: np.ndarray) -> Node:
    """`t` cast and broadcast to the dtype and shape of the result, by nodes of their own, plain tensors too."""
    role = PATH if t._role else CUT
    if t._array.dtype != value.dtype:
        t = record(RULES[astype], t._array.astype(value.dtype), (t,), (t._array,), {"dtype": value.dtype}, role)
    if t._shape != value.shape:
        shape = value.shape
        t = record(RULES[np.broadcast_to], broadcast(t._array, shape), (t,), (t._array,), {"shape": shape}, role)
    return t


def _is_zero(x) -> bool:
    return isinstance(x, (int, float, np.generic)) and x == 0


def as_operand(x, user):
    """What a rule can take: a Tensor, an array or a number. A sequence with Tensors in it is stacked."""
    if x.__class__ is ndarray or isinstance(x, (Node, np.generic, float, int)):
        return x
    x = plain(x, user)
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, (list, tuple)):
        if _holds_tensor(x):
            return np.stack([as_operand(item, user) if isinstance(item, (list, tuple)) else item for item in x])
        return np.asarray(x)
    raise TypeError(f"a Tensor can't be combined with {x!r:.80}, a {type(x).__name__}")


def cast(x, dtype, user):
    """An operand in this dtype; a Python number stays one, and adapts."""
    x = as_operand(x, user)
    return x if isinstance(x, (int, float)) and not isinstance(x, np.generic) else x.astype(dtype)


def _holds_tensor(items) -> bool:
    kinds = {*map(type, items)}
    if any([issubclass(kind, Node) for kind in kinds]):
        return True
    nested = any([issubclass(kind, (list, tuple)) for kind in kinds])
    return nested and any(isinstance(i, (list, tuple)) and _holds_tensor(i) for i in items)


def value_of(x: Any, user) -> Any:
    """`x` with the array of each Tensor in it; a tracked one in a sequence is refused."""
    if isinstance(x, Node):
        return x._array
    x = plain(x, user)
    if isinstance(x, (list, tuple)) and _holds_tensor(x):
        return [np.asarray(i) if isinstance(i, Node) else value_of(i, user) for i in x]
    return x


def frozen(value):
    """`value`, safe from later writes: lists become tuples, and arrays that somebody may write to are copied."""
    if isinstance(value, np.ndarray):
        ours = type(value) is np.ndarray and value.base is None and not value.flags.writeable
        return value if ours else np.array(plain(value, "an argument"), subok=False)
    return tuple(map(frozen, value)) if type(value) in (list, tuple) else value


def frozen_key(key):
    """An index that later writes to its arrays can't change."""
    if isinstance(key, tuple):
        return tuple(frozen_key(k) for k in key)
    if isinstance(key, Node):
        return key._array
    if isinstance(key, (list, np.ndarray)):
        key = np.array(value_of(key, "an index"))
        return key if key.size else key.astype(bool if key.dtype == bool else np.intp)
    if isinstance(key, slice) and any(isinstance(k, Node) for k in (key.start, key.stop, key.step)):
        return slice(*(k.item() if isinstance(k, Node) else k for k in (key.start, key.stop, key.step)))
    return plain(key, "an index")


# How NumPy functions find their rules


def call(function, args: tuple, kwargs: dict):
    """What `function`, one of NumPy's, gives on these arguments, some of which are Tensors."""
    written = COMPOSED.get(function)
    if kwargs and written is None and ("where" in kwargs or "initial" in kwargs):
        written = MASKED.get(function)
    if written is not None:
        for x in (*args, *kwargs.values()):
            if x.__class__ not in PLAIN:
                plain(x, function)
        try:
            result = written(*args, **kwargs)
        except TypeError:
            _refuse_unknown(written, function, kwargs)
            raise
        if result is not NotImplemented:
            return result
    rule = RULES.get(function)
    if rule is not None:
        if rule.forward.__class__ is np.ufunc and not kwargs:
            return apply(rule, args)
        return apply(rule, *_bind(rule, function, args, kwargs))
    if function in VALUES:
        _refuse_out(function, kwargs)
        result = on_values(function, args, kwargs)
        if not VALUES[function]:
            return result
        return tuple(map(constant, result)) if isinstance(result, tuple) else constant(result)
    if integers_only(args, kwargs) and not (function.__name__ in WRITE and isinstance(args[0], Node)):
        return on_values(function, args, kwargs)
    raise NoRuleError(_no_rule(function))


def integers_only(args: tuple, kwargs: dict) -> bool:
    """Whether the Tensors among these arguments hold integers and are only read: then a plain call loses nothing."""
    found = list(_tensors_in((args, list(kwargs.values()))))
    written = list(_tensors_in([kwargs.get("out")]))
    return not written and bool(found) and not any([is_floating(t._array.dtype) for t in found])


def _tensors_in(x):
    if isinstance(x, Node):
        yield x
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from _tensors_in(item)


def on_values(function, args: tuple, kwargs: dict):
    """What `function` gives on the values of these arguments. It may write to the plain arrays among them only."""
    args = [_values_in(plain(a, function)) for a in args]
    return function(*args, **{k: _values_in(plain(v, function)) for k, v in kwargs.items()})


def _values_in(x):
    """`x` with every Tensor in it replaced by its value, read-only."""
    if isinstance(x, Node):
        return x.data
    return type(x)(map(_values_in, x)) if type(x) in (list, tuple) and _holds_tensor(x) else x


def _refuse_out(function, kwargs: dict) -> None:
    if kwargs.get("out") is not None:
        raise HistoryLostError(f"{name_of(function)} can't write into an existing array or Tensor when Tensors take "
                               "part: values never change, and the history would be lost. Use the result")  # fmt: skip


def _refuse_unknown(written, function, kwargs: dict) -> None:
    """Raise NoRuleError for an argument that `function` has and `written`, its composition, has not."""
    parameters = inspect.signature(written).parameters
    unknown = [name for name in kwargs if name not in parameters]
    if unknown and not any(p.kind == p.VAR_KEYWORD for p in parameters.values()):
        known = [name for name, p in parameters.items() if p.default is not p.empty and name != "out"]
        refuse_keywords(name_of(function), [name for name in unknown if name in KEYWORDS])
        raise _no_rule_with(function, unknown[0], known) from None


def _no_rule_with(function, name: str, known: list[str]) -> NoRuleError:
    return NoRuleError(f"{name_of(function)} with {name}= has no rule; "
                       f"its rule knows {', '.join(known) or 'no keywords'}")  # fmt: skip


def _bind(rule: Rule, function, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The operands and the params in a call of `function`; an argument that the rule has no param for is refused."""
    count = 1 if rule.each else max(len(rule.partials), 1)
    names = rule.names
    if len(args) == count and not kwargs:
        return (tuple(args[0]) if rule.each else args), NO_PARAMS
    given = dict(zip(names, args))
    if len(args) > len(names) or not given.keys().isdisjoint(kwargs) or not kwargs.keys() <= set(names):
        refuse_keywords(name_of(function), [name for name in kwargs if name in KEYWORDS and name not in names])
        rule.signature.bind(*args, **kwargs)  # raises Python's own TypeError
    given.update(kwargs)
    operands = tuple(given.pop(name) for name in names[:count] if name in given)
    operands = tuple(operands[0]) if rule.each else operands
    _refuse_out(function, given)
    params = {}
    for name, value in given.items():
        default = rule.signature.parameters[name].default
        if value is NOT_GIVEN or value is default or (isinstance(value, (str, bool)) and value == default):
            continue
        if name == "dtype" and name not in rule.params:
            operands = tuple(cast(x, value, function) for x in operands)
        elif name in rule.params or not rule.differentiable:
            if isinstance(value, Node):
                value._keep_history(f"used as {name}= of {name_of(function)}, which has no partial for it")
            params[name] = frozen(value_of(value, function))
        elif name != "copy":
            known = [p for p in rule.params if p not in ("saved", "ties")]
            raise _no_rule_with(function, name, known)
    return operands, params


def _no_rule(function) -> str:
    library, _ = callers()
    within = f"{library} calls {name_of(function)}, which" if library else name_of(function)
    return (f"{within} has no rule, so it can't be used on a Tensor: {instead_of(function, library)}. "
            "Use .data for the plain value, or write a rule with ad.custom_op")  # fmt: skip


