"""What names of other libraries are called here: data, and the errors that tell it."""

from __future__ import annotations

import functools
import inspect

import numpy as np

STORE = "backward returns the gradients: grads = loss.backward(), then grads[x]"
FRESH = "nothing is left over from an earlier backward, each returns a store of its own: leave it out"
KIND = "a Var is differentiated, a Tensor is a constant, and .tracked tells what has a history"
VALUE = ".data is the value as a NumPy array, .item() as a number"
FIXED = "values never change: give a Var a new one with x.set(...), or let ad.optim do it"
CONSTANT = ".detach() gives a constant"
ATTRIBUTES = {  # of other libraries' tensors
    STORE: "grad gradient grad_fn retain_grad register_hook autograd",
    FRESH: "zero_grad",
    KIND: "requires_grad requires_grad_ is_leaf",
    VALUE: "numpy cpu cuda values value primal tolist to_numpy",
    FIXED: "add_ sub_ mul_ div_ copy_ fill_ zero_ clamp_ assign assign_sub assign_add at set_ fill put",
    CONSTANT: "detach_ stop_gradient",
    "np.where(condition, x, y)": "where masked_fill",
    "x @ y multiplies matrices": "mm bmm matmul mv",
    "np.linalg.norm(x)": "norm",
    "np.concatenate, np.stack and np.block join tensors": "cat stack",
    "x.reshape(...)": "view view_as reshape_as",
    "np.expand_dims(x, axis)": "unsqueeze",
    "np.transpose(x, axes), or x.T": "permute t",
    "np.broadcast_to(x, shape)": "expand expand_as",
    "x.clip(low, high)": "clamp",
    "x.size": "numel",
    "x.ndim": "dim",
    'x.astype("float64"), and so on': "float double half long int to type",
}
NUMPYS = "exp expm1 log log1p sqrt sin cos tan sinh cosh tanh abs sign square power pow maximum minimum floor ceil"
OURS = "relu elu gelu silu sigmoid softplus erf softmax log_softmax logsumexp gather scatter scatter_add index_select"
KEYWORDS = {  # name of an argument -> what to write
    "argnum": "argnums=",
    "dim": "axis=",
    "keepdim": "keepdims=",
    "retain_graph": "leave it out: a backward reads the graph and consumes nothing",
    "create_graph": 'detach="none" keeps gradients differentiable',
    "gradient": "cotangent=",
    "grad_tensors": "cotangent=",
    "inputs": "wrt=",
    "requires_grad": f"leave it out: {KIND}",
    "device": "leave it out: there is only the CPU",
    "has_aux": "return one number; what else is wanted can be computed beside it",
}
FUNCTIONS = {  # of other libraries -> what to write
    "elementwise_grad": "ad.grad(lambda x: f(x).sum())",
    "egrad": "ad.grad(lambda x: f(x).sum())",
    "grad_and_aux": "ad.value_and_grad(f)",
    "make_vjp": "ad.vjp(f, *primals)",
    "make_jvp": "ad.jvp(f, primals, tangents)",
    "make_hvp": "ad.hvp(f, x, v)",
    "hessian_vector_product": "ad.hvp(f, x, v)",
    "jacrev": "ad.jacobian(f)",
    "jacfwd": "ad.jacobian(f)",
    "linearize": "ad.jvp(f, primals, tangents)",
    "stop_gradient": "x.detach()",
    "enable_grad": "recording is on outside of ad.no_grad()",
    "Variable": "ad.Var",
    "Parameter": "ad.Var",
    "Value": "ad.scalar.Value, or ad.Var for arrays",
    "numpy": "import numpy as np: NumPy's own functions take Tensors",
    "primitive": "@ad.custom_op(vjps=[...])",
    "custom_vjp": "@ad.custom_op(vjps=[...])",
    "jit": "leave it out: every call runs as it is written",
    "vmap": "NumPy's functions work on batches: give them an axis",
    "nn": "the functions are in ad itself, as ad.relu; parameters are Vars",
    "check_grads": "ad.gradcheck(f, inputs)",
}


class _Elsewhere:
    """An attribute that tensors have elsewhere: to read or write it is an AttributeError that names ours."""

    def __init__(self, name: str, advice: str):
        self.name, self.advice = name, advice

    def __get__(self, t, kind=None):
        raise AttributeError(f"{kind.__name__} has no .{self.name}. Here: {self.advice}")

    def __set__(self, t, value):
        self.__get__(t, type(t))


def fixed(getter, doc: str, advice: str) -> property:
    """A property that can't be written; `advice`: what to do instead."""

    def refuse(self, value):
        raise AttributeError(advice)

    return property(getter, refuse, doc=doc)


def attribute_elsewhere(name: str) -> str | None:
    """What an attribute of this name of other libraries' tensors, or a function on them, is called here, or None."""
    return _KNOWN.get(name)


_KNOWN = {name: advice for advice, names in ATTRIBUTES.items() for name in names.split()}
_KNOWN |= {name: f"np.{name}(x)" for name in NUMPYS.split()} | {name: f"ad.{name}(x)" for name in OURS.split()}


def name_ours(kind: type) -> None:
    """Give a tensor class the attributes that it has elsewhere, as errors; `dir` does not list them."""
    foreign = {name for name in _KNOWN if not hasattr(kind, name)}
    for name in foreign:
        setattr(kind, name, _Elsewhere(name, _KNOWN[name]))
    listed = kind.__dir__
    kind.__dir__ = lambda self: [name for name in listed(self) if name not in foreign | {"__pandas_priority__"}]


def refuse_keywords(function: str, names) -> None:
    """Raise TypeError for arguments by these names, which `function` has not."""
    for name in names:
        advice = KEYWORDS.get(name)
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}"
                        + (f". Here: {advice}" if advice else ""))  # fmt: skip


def function_elsewhere(name: str) -> str | None:
    """What a function or module of this name is called here, or None."""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    return f"np.{name} takes Tensors" if name.islower() and callable(getattr(np, name, None)) else None


def refuses_others(function):
    """A function whose `**others` are there to be refused: they are no part of the signature that it shows."""
    shown = inspect.signature(function)
    named = [p for p in shown.parameters.values() if p.kind != p.VAR_KEYWORD]
    function.__signature__ = shown.replace(parameters=named)
    return function


def knows_keywords(function):
    """The same function, with arguments by other libraries' names refused by ours."""

    @functools.wraps(function)
    def checked(*args, **kwargs):
        if not kwargs.keys() <= known:
            refuse_keywords(f"ad.{function.__name__}", kwargs.keys() - known)
        return function(*args, **kwargs)

    known = set(inspect.signature(function).parameters)
    return checked
