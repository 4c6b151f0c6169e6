"""Where Tensors meet the world outside: what may come in, and what must not leave in silence.

What comes in is numbers, sequences and arrays of NumPy's own class. An array that means more than its numbers (it has
a mask, an index, a product of its own) is refused, never stripped: everything that comes in passes `plain`. What may
leave without a word is what has no history to lose; anything else is a `HistoryLostError`.
"""

from __future__ import annotations

import sys

import numpy as np

from .familiar import OURS
from .graph import Node
from .rules.hints import name_of, same_as

# What comes in

PLAIN = {np.ndarray, float, int, bool, str, type(None), type(Ellipsis), slice, range}  # and what was met before
PROTOCOLS = ("__array__", "__array_interface__", "__array_struct__", "__array_priority__", "__dataframe__")
MORE = {  # name of a class or of its base -> what it has that a plain array has not, and what to write
    "MaskedArray": ("mask", "m.filled(0) is a plain array, and np.where(m.mask, 0, x) leaves entries of x out"),
    "matrix": ("own meaning of *", "np.asarray(m) is a plain array, and @ multiplies matrices"),
    "recarray": ("fields", "Take one field, as a plain array"),
    "Series": ("index", "s.to_numpy() is a plain array"),
    "Index": ("labels", "i.to_numpy() is a plain array"),
    "DataFrame": ("index and columns", "df.to_numpy() is a plain array"),
    "ExtensionArray": ("missing values", "a.to_numpy() is a plain array"),
    "_spbase": ("sparse layout", "m.toarray() is a plain array"),
    "poly1d": ("own meaning of *", "np.polyval(p.coeffs, x) evaluates it, and p.coeffs is a plain array"),
    "TensorBase": ("graph in PyTorch", "t.numpy(force=True) is a plain array"),
}
SYMBOLS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "power": "**",
    "matmul": "@", "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=",
}  # fmt: skip


def is_foreign(cls: type) -> bool:
    """Whether values of this class are arrays of some kind, and neither ours nor of NumPy's own class."""
    if cls in PLAIN or issubclass(cls, (Node, np.generic, np.memmap)):
        return False
    return issubclass(cls, np.ndarray) or any([hasattr(cls, name) for name in PROTOCOLS])


def plain(x, user):
    """`x` itself. TypeError if it is an array that means more than its numbers, or a sequence that holds one.

    `user`: who is to use it, for the message: a name, a class, one of NumPy's functions or a rule.
    """
    cls = x.__class__
    if cls in PLAIN:
        return x
    if issubclass(cls, (list, tuple)):
        for kind in {*map(type, x)} - PLAIN:
            if issubclass(kind, (list, tuple)) or is_foreign(kind):
                for item in x:
                    plain(item, user)
    elif is_foreign(cls):
        raise TypeError(_refusal(cls, user))
    elif issubclass(cls, np.memmap):
        return np.asarray(x)
    elif issubclass(cls, (Node, np.generic)):
        PLAIN.add(cls)
    return x


def _refusal(cls: type, user) -> str:
    known = next((MORE[base.__name__] for base in cls.__mro__ if base.__name__ in MORE), None)
    lost = f"whose {known[0]} would be lost" if known else "which may mean more than its numbers"
    advice = known[1] if known else "np.asarray(...) of it is one, if its numbers are all that counts"
    name = public_name(cls.__module__, cls.__qualname__) or cls.__name__
    return (f"{_called(user)} got a {name}, {lost}: Tensors go together with numbers, sequences and plain arrays. "
            + advice)  # fmt: skip


def _called(user) -> str:
    if isinstance(user, (str, type)):
        return user if isinstance(user, str) else f"ad.{user.__name__}"
    function = getattr(user, "forward", user)
    symbol = SYMBOLS.get(function.__name__)
    numpys = isinstance(function, np.ufunc) or (function.__module__ or "numpy").startswith("numpy")
    name = name_of(function) if numpys else getattr(user, "name", function.__name__)
    return f"{name} ({symbol})" if symbol and numpys else name


# What must not leave in silence


class HistoryLostError(TypeError):
    """A tracked tensor was about to become a plain value in silence: what is computed from that has no gradient."""


ARRAY = ("NumPy's functions take Tensors: np.stack joins those of a list, np.block those of nested lists, and np.where "
         "or ad.scatter puts entries in place, as c[i] = ... would")  # fmt: skip
NUMBER = ("NumPy's functions take Tensors where math's do not, as np.exp; np.stack, np.block and np.where build arrays "
          "of them, which c[i] = ... can't write into a plain one")  # fmt: skip
INDEX = "An index is an integer, as .astype(int) gives"
COPY = "np.copy keeps the history"


def history_lost(t: Node, what: str, instead: str = ARRAY) -> HistoryLostError:
    """The error to raise when the tracked tensor `t` was to be `what`; `instead`: what to use at such a place."""
    library, own = callers()
    same = same_as(library) if library else f"ad.{own} takes Tensors" if own in OURS.split() else None
    return HistoryLostError(
        f"{t.label} is tracked and can't be {what}{f' by {library}' if library else ''}: its history would be lost. "
        f"{same or instead}; .data or .item() is the plain value, .detach() a constant Tensor"
    )


LIBRARIES, MADE_BY = ("numpy", "scipy", "pandas"), (".__init__", ".__new__", ".__call__")


def callers() -> tuple[str | None, str]:
    """The function of a library that called us, as users know it, or None; and the user's function in which it did."""
    library, frame, ours = None, sys._getframe(1), __name__.partition(".")[0]
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        top = module.partition(".")[0]
        if top in LIBRARIES:
            library = public_name(module, frame.f_code.co_qualname) or library
        elif top != ours:
            return library, frame.f_code.co_name
        frame = frame.f_back
    return library, ""


def public_name(module: str, qualname: str) -> str | None:
    """How users write the name of a function or class: from the first module that has it, and np for numpy."""
    parts, head = module.split("."), qualname.partition(".")[0]
    made = getattr(sys.modules.get(module), head, None)
    homes = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
    home = next((m for m in homes if made is not None and getattr(sys.modules.get(m), head, None) is made), None)
    if home is None or head.startswith("_"):
        return None
    for method in MADE_BY:
        qualname = qualname.removesuffix(method)
    return f"{home}.{qualname}".replace("numpy", "np", 1)
