"""A compact engine for reverse-mode automatic differentiation on NumPy, made to be read and stepped through."""

from . import operators as _operators  # gives Tensor its operators
from . import contracts, optim
from .backward import detect_nonfinite
from .checkpoint import checkpoint
from .custom import custom_op
from .explain import MissingGradientError
from .familiar import function_elsewhere, knows_keywords
from .functions import (
    avg_pool2d, conv1d, conv2d, conv_transpose1d, conv_transpose2d, elu, erf, gather, gelu, index_add,
    index_select, log_softmax, logsumexp, max_pool2d, narrow, relu, scatter, scatter_add, sigmoid, silu,
    slice_scatter, softmax, softplus, upsample_bilinear2d, upsample_nearest1d, upsample_nearest2d,
)  # fmt: skip
from .gradcheck import GradcheckError, GradcheckReport, gradcheck, gradgradcheck
from .gradstore import GradStore
from .graph import StaleGraphError, sorted_nodes
from .outside import HistoryLostError
from .recording import NoRuleError, no_grad
from .tensor import Tensor, Var
from .transforms import grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp

grad, value_and_grad, jacobian, hessian = map(knows_keywords, (grad, value_and_grad, jacobian, hessian))

__version__ = "0.1.0"
__all__ = [
    "GradStore", "GradcheckError", "GradcheckReport", "HistoryLostError", "MissingGradientError", "NoRuleError",
    "StaleGraphError", "Tensor", "Var",
    "avg_pool2d", "checkpoint", "contracts", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d",
    "custom_op", "detect_nonfinite", "elu", "erf", "gather", "gelu", "grad", "gradcheck", "gradgradcheck",
    "hessian", "hvp", "index_add", "index_select", "jacobian", "jvp", "log_softmax", "logsumexp", "max_pool2d",
    "narrow", "no_grad", "optim", "relu", "scatter", "scatter_add", "sigmoid", "silu", "slice_scatter", "softmax",
    "softplus", "sorted_nodes", "upsample_bilinear2d", "upsample_nearest1d", "upsample_nearest2d",
    "value_and_grad", "vjp",
]  # fmt: skip

_LATER = {  # name -> where it comes from
    "draw": "drawing", "trace": "tracing", "step": "widgets", "labs": "labs", "scalar": "scalar",
}  # fmt: skip


def __dir__():
    return sorted({*globals(), *_LATER})


def __getattr__(name):
    # Drawing and stepping need packages of their own, so they are imported when first asked for.
    if name not in _LATER:
        ours = function_elsewhere(name)
        raise AttributeError(f"module 'autodiff' has no attribute {name!r}" + (f". Here: {ours}" if ours else ""))
    from importlib import import_module

    module = import_module(f".{_LATER[name]}", __name__)
    return module if name in ("labs", "scalar") else getattr(module, name)
