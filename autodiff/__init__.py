"""A compact engine for reverse-mode automatic differentiation on NumPy, made to be read and stepped through."""

from . import operators as _operators  # gives Tensor its operators
from .backward import detect_nonfinite
from .gradcheck import GradcheckError, GradcheckReport, gradcheck, gradgradcheck
from .gradstore import GradStore
from .graph import StaleGraphError, sorted_nodes
from .recording import NoRuleError, no_grad
from .tensor import Tensor, Var

__version__ = "0.1.0"
__all__ = [
    "GradStore", "GradcheckError", "GradcheckReport", "NoRuleError", "StaleGraphError", "Tensor", "Var",
    "detect_nonfinite", "gradcheck", "gradgradcheck", "no_grad", "sorted_nodes",
]  # fmt: skip

_LATER = {"draw": "drawing", "trace": "tracing", "step": "widgets"}  # name -> the module it comes from


def __getattr__(name):
    # Drawing and stepping need packages of their own, so they are imported when first asked for.
    if name not in _LATER:
        raise AttributeError(f"module 'autodiff' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_LATER[name]}", __name__), name)
