"""Labs: experiments with controls, each on an expression of your own in three lines.

>>> from autodiff import labs
>>> lab = labs.broadcasting("4,3", "3")
>>> lab.set(b="4,1")
>>> lab.result.operands[1].code
'g.sum(axis=1, keepdims=True)'
"""

from .broadcasting import broadcasting
from .checkpointing import checkpointing
from .detach import detach
from .differences import differences
from .ties import ties
from .training import training

__all__ = ["broadcasting", "checkpointing", "detach", "differences", "ties", "training"]
