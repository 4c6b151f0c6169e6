"""Functions of functions: gradients, Jacobians and products with them, built on nothing but `backward`.

At the top level these take numbers and arrays and give arrays. Inside one another, when an argument is a Tensor, and
when the function has captured a tracked one, they take and give Tensors. These are tracked when the result depends on a
tracked Tensor that is older than the call, whether it came as an argument or was captured: the recorded graph tells
(`captured`). So transforms nest freely. Every call differentiates with respect to nodes of its own, so an inner
derivative never sees an outer one's variable as its own (no perturbation confusion).

An argument may be a nested tuple, list or dict of arrays and numbers; its gradient then has the same structure.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from collections.abc import Callable, Sequence

import numpy as np

from .backward import backward, history_lost
from .gradstore import GradStore
from .graph import Node, is_floating, captured
from .outside import plain
from .recording import alias, constant, new_id, recording
from .structure import leaves, rebuilt, walk
from .tensor import Tensor, Var

_nested = ContextVar("nested", default=False)


def grad(f: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The function that computes the gradient of `f`, in the shape and structure of its argument.

    `argnums`: the position of the argument, or a tuple of them; then a tuple comes back. `f` must return one number
    (any one-element shape), else ValueError. An argument that is not reached, and a constant `f`, give zeros.
    TypeError for an integer argument.

    >>> import autodiff as ad
    >>> ad.grad(lambda x, y: (x * y + x) ** 2, argnums=(0, 1))(3.0, 2.0)
    (array(54.), array(54.))
    >>> ad.grad(lambda p: p["w"] * 3.0 + p["b"])({"w": 2.0, "b": 1.0})
    {'w': array(3.), 'b': array(1.)}
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
        run = _Run(f, args, kwargs, _positions(argnums, args))
        grads = run.given(run.pull(run.one_number("grad")))
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
        return run.given(run.pull(run.output, cotangent), tensors=isinstance(cotangent, Node))

    return run.given_back(run.output), pullback


def jvp(f: Callable, primals: Sequence, tangents: Sequence) -> tuple:
    """``(y, tangent)``: the value of `f`, and J·t, how it changes along the tangents.

    Two reverse passes: vᵀJ is linear in v, and its derivative in v along t is J·t. `tangents` have the structure,
    shapes and dtypes of `primals`; ValueError for another structure or shape, TypeError for another dtype.

    >>> import autodiff as ad
    >>> ad.jvp(lambda x, y: x * y, (3.0, 2.0), (1.0, 10.0))
    (array(6.), array(32.))
    """
    if len(primals) != len(tangents):
        raise ValueError(f"jvp needs one tangent for each primal, got {len(tangents)} for {len(primals)}")
    run = _Run(f, primals, {}, tuple(range(len(primals))), along=tangents)
    if not is_floating(run.output.dtype):
        return run.given_back(run.output), run.given_back(constant(np.zeros(run.output.shape)))
    with _inside(recorded=True):
        v = Var(np.ones(run.output.shape, run.output.dtype))
        slope = run.slope(run.pull(run.output, v), run.output.dtype)
    (tangent,) = run.pull(slope, wrt=[v])
    return run.given_back(run.output), run.given_back(tangent)


def jacobian(f: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The function that computes all partial derivatives of `f`, in the output's shape followed by the argument's.

    One backward pass for each entry of the output. `f` may return a tuple, list or dict; then the same comes back, and
    within it a tuple for a tuple of `argnums`, and the structure of the argument.

    >>> import numpy as np, autodiff as ad
    >>> ad.jacobian(lambda x: np.stack([x[0] * x[1], x[0] ** 2 + x[1]]))(np.array([2.0, 3.0]))
    array([[3., 2.],
           [4., 1.]])
    """

    def all_partials(*args, **kwargs):
        run = _Run(f, args, kwargs, _positions(argnums, args), several=True)
        results = []
        for output in run.outputs:
            rows = []
            for i in range(output.size):
                unit = np.zeros(output.shape, output.dtype)
                unit.flat[i] = 1
                rows.append(run.pull(output, unit))
            blocks = run.given([_stacked([row[k] for row in rows], output, x) for k, x in enumerate(run.inputs)])
            results.append(blocks if isinstance(argnums, tuple) else blocks[0])
        return rebuilt(run.returned, iter(results))

    return _named(all_partials, f, "jacobian")


def hessian(f: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The function that computes all second partial derivatives of `f`, which must return one number.

    Its shape is the argument's shape twice; for a tuple of `argnums`, a tuple of tuples, and for an argument with
    structure, that structure twice.

    >>> import numpy as np, autodiff as ad
    >>> ad.hessian(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 5.0]))
    array([[10.,  6.],
           [ 6.,  0.]])
    """
    return _named(jacobian(grad(f, argnums), argnums), f, "hessian")


def hvp(f: Callable, x, v):
    """The product of the Hessian of `f` at `x` with `v`, without building the Hessian.

    Two reverse passes: the gradient's product with `v` is one number, whose gradient is H·v. `v` has the structure,
    shapes and dtypes of `x`.

    >>> import numpy as np, autodiff as ad
    >>> ad.hvp(lambda x: x[0] ** 2 * x[1], np.array([3.0, 5.0]), np.array([1.0, 0.0]))
    array([10.,  6.])
    """
    run = _Run(f, (x,), {}, (0,), along=(v,))
    output = run.one_number("hvp")
    with _inside(recorded=True):
        slope = run.slope(_gradients(output, None, run.inputs, "none"), output.dtype)
    return run.given(run.pull(slope))[0]


# How a function is run


class _Run:
    """One forward of `f` on nodes of its own, and the ways back.

    `inputs`: these nodes, one for each leaf of the arguments at `positions`; `returned`: what `f` returned, and
    `outputs`: its leaves as Tensors. `tensors`: whether the caller gets Tensors. `along`: tangents of the inputs.
    """

    def __init__(self, f, args, kwargs, positions, *, several=False, along=()):
        self.start, self.recorded = new_id(), recording.get()
        self.f, self.primals = f, tuple(rebuilt(args[i], iter(leaves(args[i]))) for i in positions)  # theirs may change
        given = leaves([*args, *kwargs.values(), *along])
        with _inside(recorded=True):
            named = [leaf for i in positions for leaf in walk(args[i], _argument(f, i))]
            self.inputs = [_own(value, name, f) for name, value in named]
            own, args = iter(self.inputs), list(args)
            for i in positions:
                args[i] = rebuilt(args[i], own)
            self.tangents = [_tangent(*leaf) for i in positions[: len(along)]
                             for leaf in walk(self.primals[i], f"the tangent of {_argument(f, i)}", along[i])]
            self.returned = f(*args, **kwargs)
            outputs = leaves(self.returned) if several else [self.returned]
            self.outputs = [_tensor(output, f) for output in outputs]
        self.output = self.outputs[0] if self.outputs else None
        self.tensors = _nested.get() or any([isinstance(leaf, Node) for leaf in given])
        self.history = False
        self.look_at(self.outputs + self.tangents)

    def look_at(self, results) -> None:
        """Note whether `results` depend on a tracked tensor that is older than this run."""
        if not self.history and any([t.tracked for t in captured(self.start, results)]):
            self.tensors, self.history = True, self.recorded

    def one_number(self, transform: str) -> Tensor:
        if self.output.size != 1:
            raise ValueError(f"{transform} needs a function that returns one number, but {_name(self.f)} returned "
                             f"shape {self.output.shape}; sum it, or use jacobian or vjp")  # fmt: skip
        return self.output

    def pull(self, output, cotangent=None, wrt=None) -> list[Tensor]:
        """The cotangents of the inputs, or of `wrt`; with a graph where the caller may differentiate further."""
        wrt = self.inputs if wrt is None else wrt
        if not recording.get() or not (self.history or isinstance(cotangent, Node) and cotangent.tracked):
            with _inside(), history_lost() as lost:
                grads = _gradients(output, cotangent, wrt, "all")
            if not lost:
                return grads
            self.tensors = self.history = True  # a partial of the user's own has captured a tracked tensor
        with _inside(recorded=True):
            return _gradients(output, cotangent, wrt, "none")

    def slope(self, grads, dtype) -> Tensor:
        """The sum of the products of these gradients with the tangents."""
        products = [(g * t).sum() for g, t in zip(grads, self.tangents)]
        total = sum(products, start=constant(np.zeros((), dtype)))
        self.look_at([total])
        return total

    def given(self, grads, tensors=False) -> tuple:
        """The gradients as the caller gets them: for each primal, in its structure."""
        grads = iter([self.given_back(g, tensors) for g in grads])
        return tuple([rebuilt(primal, grads) for primal in self.primals])

    def given_back(self, t, tensors=False):
        """What the caller gets: a Tensor where it gave one, tracked where it differentiates further; else an array."""
        if not (self.tensors or tensors):
            return np.array(t._array)
        return t if not t.tracked or self.history or tensors else t.detach()


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


def _own(value, name: str, f) -> Tensor:
    """A node of this transform's own for a leaf of an argument: a Var, or an alias of a tracked Tensor."""
    array = value._array if isinstance(value, Node) else np.asarray(plain(value, f"a derivative of {_name(f)}"))
    if not is_floating(array.dtype):
        raise TypeError(f"argument {name} of {_name(f)} holds {array.dtype}: only floating numbers can be "
                        "differentiated. Pass 2.0 for 2, or convert it with .astype(float)")  # fmt: skip
    if isinstance(value, Node) and value.tracked:
        return alias(value)
    return Var(array)


def _tangent(name: str, x, t) -> Tensor:
    """The tangent `t` of the leaf `x`; `name` is what to call the tangent."""
    x = x if isinstance(x, Node) else np.asarray(plain(x, "jvp"))
    if t is None:
        raise ValueError(f"{name} is None, expected shape {x.shape}, the shape of its primal")
    weak = isinstance(t, (int, float)) and not isinstance(t, np.generic)
    t = t if isinstance(t, Node) else constant(np.asarray(plain(t, "jvp"), x.dtype if weak else None))
    if t.shape != x.shape:
        raise ValueError(f"{name} has shape {t.shape}, expected {x.shape}, the shape of its primal")
    if t.dtype != x.dtype:
        raise TypeError(f"{name} holds {t.dtype}, expected {x.dtype}, the dtype of its primal")
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
    return np.reshape(np.stack(rows), shape) if rows else constant(np.zeros(shape, x.dtype))


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


def _argument(f, position: int) -> str:
    """What messages call an argument: its name in the definition of `f`, else its position."""
    code = getattr(f, "__code__", None)
    names = code.co_varnames[hasattr(f, "__self__") : code.co_argcount] if code else ()
    return names[position] if position < len(names) else str(position)


def _name(f) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _named(made: Callable, f: Callable, kind: str) -> Callable:
    made.__name__ = f"{kind}({_name(f)})"
    made.__doc__ = f"{kind} of {_name(f)}."
    return made
