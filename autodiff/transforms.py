"""Functions of functions: gradients, Jacobians and products with them, built on nothing but `backward`.

At the top level these take numbers and arrays and give arrays. Inside one another, and when an argument is a Tensor,
they take and give Tensors, tracked if an argument is, so they nest freely, closures included. Every call differentiates
with respect to nodes of its own, so an inner derivative never sees an outer one's variable as its own (no perturbation
confusion).
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from collections.abc import Callable, Sequence

import numpy as np

from .backward import backward
from .gradstore import GradStore
from .graph import Node, is_floating
from .recording import alias, constant, recording
from .tensor import Tensor, Var

_nested = ContextVar("nested", default=False)


def grad(f: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The function that computes the gradient of `f`, in the shape of its argument.

    `argnums`: the position of the argument, or a tuple of them; then a tuple comes back. `f` must return one number
    (any one-element shape), else ValueError. An argument that is not reached, and a constant `f`, give zeros.
    TypeError for an integer argument.

    >>> import autodiff as ad
    >>> ad.grad(lambda x, y: (x * y + x) ** 2, argnums=(0, 1))(3.0, 2.0)
    (array(54.), array(54.))
    """
    with_value = value_and_grad(f, argnums)

    def gradient(*args, **kwargs):
        return with_value(*args, **kwargs)[1]

    return _named(gradient, f, "grad")


def value_and_grad(f: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The function that computes ``(value, gradient)`` of `f` in one forward and one backward pass; see `grad`.

    >>> import autodiff as ad
    >>> ad.value_and_grad(lambda x: x**3)(2.0)
    (array(8.), array(12.))
    """

    def value_and_gradient(*args, **kwargs):
        positions = _positions(argnums, args)
        run = _Run(f, args, kwargs, positions)
        if run.output.size != 1:
            raise ValueError(f"grad needs a function that returns one number, but {_name(f)} returned shape "
                             f"{run.output.shape}; sum it, or use jacobian or vjp")  # fmt: skip
        grads = run.pull(None)
        return run.given_back(run.output), grads if isinstance(argnums, tuple) else grads[0]

    return _named(value_and_gradient, f, "value_and_grad")


def vjp(f: Callable, *primals) -> tuple:
    """``(y, pullback)``: the value of `f`, and the function from a cotangent v of y to the product vᵀJ.

    `pullback(v)` returns a tuple with one entry for each primal, may be called again, and is itself differentiable in
    v. `v` has the shape and dtype of y; ones when left out.

    >>> import numpy as np, autodiff as ad
    >>> y, pullback = ad.vjp(lambda a, b: np.stack([a * b, a**2 + b]), 2.0, 3.0)
    >>> pullback(np.array([2.0, 3.0]))
    (array(18.), array(7.))
    """
    run = _Run(f, primals, {}, tuple(range(len(primals))))

    def pullback(cotangent=None):
        return run.pull(cotangent)

    return run.given_back(run.output), pullback


def jvp(f: Callable, primals: Sequence, tangents: Sequence) -> tuple:
    """``(y, tangent)``: the value of `f`, and J·t, how it changes along the tangents.

    Two reverse passes: vᵀJ is linear in v, and its derivative in v along t is J·t. `tangents` have the shapes and
    dtypes of `primals`; ValueError for another shape, TypeError for another dtype.

    >>> import autodiff as ad
    >>> ad.jvp(lambda x, y: x * y, (3.0, 2.0), (1.0, 10.0))
    (array(6.), array(32.))
    """
    if len(primals) != len(tangents):
        raise ValueError(f"jvp needs one tangent for each primal, got {len(tangents)} for {len(primals)}")
    run = _Run(f, primals, {}, tuple(range(len(primals))), graph=True, others=tangents)
    tangents = [_tangent(t, x, i) for i, (t, x) in enumerate(zip(tangents, run.inputs))]
    if not is_floating(run.output.dtype):
        return run.given_back(run.output), run.given_back(constant(np.zeros(run.output.shape)))
    with _inside(recorded=True):
        v = Var(np.ones(run.output.shape, run.output.dtype))
        pulled = run.pull(v)
        along = sum(((g * t).sum() for g, t in zip(pulled, tangents)), start=constant(np.zeros((), run.output.dtype)))
        tangent = _gradients(along, None, [v], "none" if run.graph_out else "all")[0]
    return run.given_back(run.output), run.given_back(tangent)


def jacobian(f: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The function that computes all partial derivatives of `f`, in the output's shape followed by the argument's.

    One backward pass for each entry of the output. `f` may return a tuple; then a tuple comes back, and within it one
    for a tuple of `argnums`.

    >>> import numpy as np, autodiff as ad
    >>> ad.jacobian(lambda x: np.stack([x[0] * x[1], x[0] ** 2 + x[1]]))(np.array([2.0, 3.0]))
    array([[3., 2.],
           [4., 1.]])
    """

    def all_partials(*args, **kwargs):
        positions = _positions(argnums, args)
        run = _Run(f, args, kwargs, positions, several=True)
        results = []
        for output in run.outputs:
            rows = []
            for i in range(output.size):
                unit = np.zeros(output.shape, output.dtype)
                unit.flat[i] = 1
                rows.append(run.pull(unit, output))
            blocks = [_stacked([row[k] for row in rows], output, x) for k, x in enumerate(run.inputs)]
            blocks = tuple(run.given_back(b) for b in blocks)
            results.append(blocks if isinstance(argnums, tuple) else blocks[0])
        return tuple(results) if run.is_tuple else results[0]

    return _named(all_partials, f, "jacobian")


def hessian(f: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The function that computes all second partial derivatives of `f`, which must return one number.

    Its shape is the argument's shape twice; for a tuple of `argnums`, a tuple of tuples.

    >>> import numpy as np, autodiff as ad
    >>> ad.hessian(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 5.0]))
    array([[10.,  6.],
           [ 6.,  0.]])
    """
    return _named(jacobian(grad(f, argnums), argnums), f, "hessian")


def hvp(f: Callable, x, v):
    """The product of the Hessian of `f` at `x` with `v`, without building the Hessian.

    >>> import numpy as np, autodiff as ad
    >>> ad.hvp(lambda x: x[0] ** 2 * x[1], np.array([3.0, 5.0]), np.array([1.0, 0.0]))
    array([10.,  6.])
    """
    return jvp(grad(f), (x,), (v,))[1]


# How a function is run


class _Run:
    """One forward of `f` on nodes of its own, and the ways back."""

    def __init__(self, f, args, kwargs, positions, *, graph=False, several=False, others=()):
        tensors = [a for a in (*args, *kwargs.values(), *others) if isinstance(a, Node)]
        self.tensors_out = _nested.get() or bool(tensors)
        self.graph_out = _nested.get() or any(t.tracked for t in tensors)  # else the caller knows of no graph
        self.recorded = recording.get()
        self.graph = graph or self.graph_out
        args = list(args)
        with _inside(recorded=True):
            self.inputs = [_own(args[i], i, f) for i in positions]
            for i, x in zip(positions, self.inputs):
                args[i] = x
            output = f(*args, **kwargs)
            self.is_tuple = several and isinstance(output, (tuple, list))
            self.outputs = [_tensor(o, f) for o in (output if self.is_tuple else (output,))]
        self.output = self.outputs[0] if self.outputs else None

    def pull(self, cotangent, output=None):
        """The cotangents of the inputs: Tensors where the caller gave one, tracked where it differentiates further."""
        graph = self.graph or isinstance(cotangent, Node) and cotangent.tracked
        with _inside(recorded=True) if graph else _inside():
            output = self.output if output is None else output
            grads = _gradients(output, cotangent, self.inputs, "none" if graph else "all")
        if not (graph or self.tensors_out or isinstance(cotangent, Node)):
            return tuple(np.array(g._array) for g in grads)
        return tuple(g if not g.tracked or recording.get() or _nested.get() else g.detach() for g in grads)

    def given_back(self, t):
        """What the caller gets: a Tensor where it gave one, tracked where it differentiates further; else an array."""
        if not isinstance(t, Node):
            return t
        if not self.tensors_out:
            return np.array(t._array)
        return t if not t.tracked or self.graph_out and self.recorded else t.detach()


@contextmanager
def _inside(recorded=None):
    """Within a transform: other transforms are nested; what is computed is recorded, also within a no_grad."""
    tokens = [(_nested, _nested.set(True))]
    if recorded is not None:
        tokens.append((recording, recording.set(recorded)))
    try:
        yield
    finally:
        for variable, token in tokens:
            variable.reset(token)


def _gradients(output: Tensor, cotangent, inputs, detach: str) -> list[Tensor]:
    floating = is_floating(output.dtype)
    store = backward(output, cotangent, wrt=inputs, detach=detach) if floating else GradStore()
    return [store.or_insert(x) for x in inputs]


def _own(arg, position: int, f) -> Tensor:
    """A node of this transform's own for an argument: a Var, or a copy of a Tensor that passes gradients on to it."""
    array = arg._array if isinstance(arg, Node) else np.asarray(arg)
    if not is_floating(array.dtype):
        raise TypeError(f"argument {position} of {_name(f)} holds {array.dtype}: only floating numbers can be "
                        "differentiated. Pass 2.0 for 2, or convert it with .astype(float)")  # fmt: skip
    if isinstance(arg, Node) and arg.tracked:
        return alias(arg)
    return Var(array)


def _tangent(t, x: Tensor, i: int) -> Tensor:
    weak = isinstance(t, (int, float)) and not isinstance(t, np.generic)
    t = t if isinstance(t, Node) else constant(np.asarray(t, x.dtype if weak else None))
    if t.shape != x.shape:
        raise ValueError(f"jvp: tangent {i} has shape {t.shape}, but primal {i} has shape {x.shape}")
    if t.dtype != x.dtype:
        raise TypeError(f"jvp: tangent {i} holds {t.dtype}, but primal {i} holds {x.dtype}")
    return t


def _tensor(output, f) -> Tensor:
    if isinstance(output, Node):
        return output
    try:
        return Tensor(output)
    except TypeError as error:
        raise TypeError(f"{_name(f)} must return a tensor or a number, got {type(output).__name__}: {error}") from None


def _stacked(rows: list, output: Tensor, x: Tensor):
    shape = (*output.shape, *x.shape)
    return np.reshape(np.stack(rows), shape) if rows else np.zeros(shape, x.dtype)


def _positions(argnums, args) -> tuple[int, ...]:
    positions = argnums if isinstance(argnums, tuple) else (argnums,)
    for i in positions:
        if not isinstance(i, (int, np.integer)):
            raise TypeError(f"argnums={argnums!r}: expected an integer, or a tuple of integers")
        if not -len(args) <= i < len(args):
            raise ValueError(f"argnums={argnums!r}, but the function was called with {len(args)} positional arguments")
    positions = tuple(i % len(args) for i in positions)
    if len(set(positions)) != len(positions):
        raise ValueError(f"argnums={argnums!r} names an argument twice")
    return positions


def _name(f) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _named(made: Callable, f: Callable, kind: str) -> Callable:
    made.__name__ = f"{kind}({_name(f)})"
    made.__doc__ = f"{kind} of {_name(f)}."
    return made
