"""How numbers, arrays and names are written in drawings and tables: short, and the same on every machine."""

from __future__ import annotations

import unicodedata

import numpy as np

ENTRIES = 6  # arrays up to this size are written out
ROOM = 36  # characters of a line in a drawing


def number(x, digits: int = 6) -> str:
    """A number with up to six digits, or so many; whole numbers below ten thousand million in full.

    >>> number(54.0), number(0.04517665973091214), number(2.0**60), number(-0.5)
    ('54', '0.0451767', '1.15292e+18', '-0.5')
    """
    if isinstance(x, bool):
        return str(x)
    x = float(x)
    return str(int(x)) if x.is_integer() and abs(x) < 1e10 else f"{x:.{digits}g}"


def summary(value) -> str:
    """A number or an array in a few words: small arrays in full, larger ones by their extremes and their mean.

    >>> import numpy as np
    >>> summary(3.0), summary(np.array([[1.0, 2.0], [3.0, 4.5]])), summary(np.arange(100.0))
    ('3', '[[1, 2], [3, 4.5]]', 'min 0, mean 49.5, max 99')
    """
    if not getattr(value, "shape", ()):
        return number(value.item() if hasattr(value, "item") else value)
    if value.size == 0:
        return "no entries"
    if value.size <= ENTRIES:
        return _nested(value.tolist())
    if told := _without_extremes(value):
        return told
    with np.errstate(invalid="ignore"):  # the mean of inf and -inf is NaN
        mean = number(value.mean(dtype=float))
    return f"min {number(value.min())}, mean {mean}, max {number(value.max())}"


def brief(value, room: int = ROOM) -> str:
    """The same where there is `room` for so many characters: fewer digits, then the extremes alone.

    >>> import numpy as np
    >>> brief(np.linspace(-1.23456, 2, 100)), brief(0.04517665973091214)
    ('-1.23 to 2', '0.0451767')
    >>> matrix = np.array([[-0.703735, 1.26542], [1.304, 0.947081]])
    >>> brief(matrix), brief(matrix, 20)
    ('[[-0.704, 1.27], [1.3, 0.947]]', '-0.704 to 1.3')
    """
    text = summary(value)
    if text.startswith("["):
        for written in (text, _nested(value.tolist(), 3)):
            if len(written) <= room:
                return written
        text = _without_extremes(value) or "min "
    return f"{value.min():.3g} to {value.max():.3g}" if text.startswith("min ") else text


def _without_extremes(value) -> str:
    """An array that has no least and greatest entry to tell, in a few words; else nothing."""
    if value.dtype.kind == "b":
        return f"{int(value.sum())} of {value.size} True"
    wrong = int((value != value).sum())
    if wrong:
        return f"{wrong} of {value.size} NaN"
    return f"all {number(value.flat[0])}" if value.min() == value.max() else ""


def _nested(items, digits: int = 6) -> str:
    return "[" + ", ".join(_nested(i, digits) if isinstance(i, list) else number(i, digits) for i in items) + "]"


def shape_of(value) -> tuple:
    """The shape of an array or tensor; () for a number."""
    return tuple(getattr(value, "shape", ()))


def shape_text(value) -> str:
    """The shape, and the dtype unless it is float64.

    >>> import numpy as np
    >>> shape_text(np.zeros((64, 784), np.float32))
    '(64, 784) float32'
    """
    dtype = str(getattr(value, "dtype", "float64"))
    return f"{shape_of(value)}" + ("" if dtype == "float64" else f" {dtype}")


def clean(text, limit: int = 40) -> str:
    r"""`text` on one line, at most `limit` characters, with everything that does not print written as an escape.

    >>> clean("two\nlines"), clean("x" * 50, 8)
    ('two\\nlines', 'xxxxxxx…')
    """
    text = str(text)
    shown = "".join(c if _prints(c) else c.encode("unicode_escape").decode() for c in text[: limit + 1])
    return shown if len(text) <= limit and len(shown) <= 2 * limit else shown[: limit - 1] + "…"


def _prints(c: str) -> bool:
    # Joiners and variation selectors belong to emoji and scripts; other format characters can turn the text around.
    return c in "\u200c\u200d" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")


def width(text: str) -> int:
    """How many columns `text` takes in a fixed-width font."""
    return sum(0 if unicodedata.combining(c) or c in "\u200c\u200d\ufe0f" else
               2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)  # fmt: skip


def table(header: tuple, rows: list) -> str:
    """The rows in columns, without trailing blanks.

    >>> print(table(("node", "value"), [("x", "3"), ("y", "10")]))
    node  value
    x     3
    y     10
    """
    rows = [header, *rows]
    widths = [max(width(row[i]) for row in rows) for i in range(len(header))]
    lines = ("  ".join(cell + " " * (w - width(cell)) for cell, w in zip(row, widths)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
