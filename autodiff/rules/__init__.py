"""The rules of differentiation, one line for each partial; nothing here knows of Tensors.

`table.py` holds those of NumPy's functions, `nn.py` those of activations, convolutions, pools and scatters.
"""

from . import compositions, linalg, reductions, statistics, table
from .rule import COMPOSED, MASKED, NOT_GIVEN, RULES, VALUES, Rule, composed, identity, nondifferentiable, rule
from .helpers import astype, broadcast, dispatched, index, is_basic, put

__all__ = [
    "COMPOSED", "MASKED", "NOT_GIVEN", "RULES", "VALUES", "Rule", "astype", "broadcast", "composed", "compositions",
    "dispatched", "identity", "index", "is_basic", "linalg", "nondifferentiable", "put", "reductions", "rule",
    "statistics", "table",
]  # fmt: skip
