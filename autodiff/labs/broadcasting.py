"""Broadcasting: shapes in, the result's shape and the axes that a gradient is summed over out."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from numbers import Integral

from ..drawing.text import clean
from .lab import Lab, Shown, Table, Text, counted, field_of_text
from .plot import Picture

MOST_AXES = 8
MOST_OPERANDS = 5


@dataclass(frozen=True)
class Operand:
    """One operand of a broadcast: `extra` axes are missing on its left, `stretched` axes have length 1 and are copied.

    Both are numbered as axes of the result. `copies`: how many entries of the result read each of its entries.
    """

    name: str
    shape: tuple
    extra: tuple
    stretched: tuple
    copies: int

    @property
    def summed(self) -> tuple:
        """The axes of the result that its gradient is summed over."""
        return (*self.extra, *self.stretched)

    @property
    def code(self) -> str:
        """NumPy for it, where g is the gradient of the result."""
        parts = "g"
        if self.stretched:
            parts += f".sum(axis={_axes(self.stretched)}, keepdims=True)"
        if self.extra:
            parts += f".sum(axis={_axes(self.extra)})"
        return parts


@dataclass(frozen=True)
class Broadcast:
    """The shape of the result, and what becomes of each operand."""

    shape: tuple
    operands: tuple


def parse_shape(text) -> tuple:
    """A shape as a person types it, or a tuple or integer as it is. ValueError that says what is wrong.

    >>> parse_shape("4, 3"), parse_shape("(3,)"), parse_shape("")
    ((4, 3), (3,), ())
    """
    if isinstance(text, str):
        inside = re.sub(r"^\s*[(\[](.*)[)\]]\s*$", r"\1", text)
        words = re.sub(r"(?<=\d)\s*[x×]\s*(?=\d)|,", " ", inside).split()
        for word in words:
            if not re.fullmatch(r"-?[0-9]+", word):
                raise ValueError(f"{word[:20]!r} is not a whole number; write a shape like 4,3 or 3, and nothing for a "
                                 "single number")  # fmt: skip
        if any(len(word) > 10 for word in words):
            raise ValueError("an axis can't be that long")
        shape = tuple(map(int, words))
    else:
        shape = tuple(text) if isinstance(text, (tuple, list)) else (text,)
        if not all(isinstance(n, Integral) and not isinstance(n, bool) for n in shape):
            raise ValueError(f"a shape has whole numbers, got {clean(text)}")
        shape = tuple(map(int, shape))
    if any(n < 0 for n in shape):
        raise ValueError(f"an axis can't have the negative length {min(shape)}")
    if len(shape) > MOST_AXES:
        raise ValueError(f"this lab shows up to {MOST_AXES} axes, got {len(shape)}")
    return shape


def broadcast(*shapes) -> Broadcast:
    """How these shapes combine. ValueError in one sentence where they do not.

    >>> made = broadcast((4, 3), (3,))
    >>> made.shape, made.operands[1].summed, made.operands[1].code
    ((4, 3), (0,), 'g.sum(axis=0)')
    """
    shapes = [parse_shape(s) for s in shapes]
    names = "abcde"[: len(shapes)]
    width = max(map(len, shapes))
    wide = [(1,) * (width - len(s)) + s for s in shapes]
    result = []
    for axis in range(width):
        lengths = [w[axis] for w in wide]
        given = [(n, name) for n, name in zip(lengths, names) if n != 1]
        if len({n for n, _ in given}) > 1:
            raise ValueError(_do_not_fit(shapes, names, axis, width, given))
        result.append(given[0][0] if given else 1)
    operands = []
    for name, shape, w in zip(names, shapes, wide):
        missing = width - len(shape)
        extra = tuple(range(missing))
        stretched = tuple(i for i in range(missing, width) if w[i] == 1 != result[i])
        copies = math.prod(result[i] for i in (*extra, *stretched))
        operands.append(Operand(name, shape, extra, stretched, copies))
    return Broadcast(tuple(result), tuple(operands))


def _do_not_fit(shapes, names, axis, width, given) -> str:
    (n, first), (m, second) = given[0], next(pair for pair in given if pair[0] != given[0][0])
    others = {length for s in shapes for length in s[:-1]}
    place = width - axis
    where = "the last axis" if place == 1 else f"axis number {place} from the right"
    said = ", ".join(f"{name} has shape {s}" for name, s in zip(names, shapes))
    advice = ""
    for name in (second, first):
        shape = shapes[names.index(name)]
        if len(shape) == 1 and shape[0] in others:
            advice = f" To line {name} up with another axis, give it axes of length 1 on the right: {(*shape, 1)}."
            break
    return (
        f"these shapes do not fit: {said}, and on {where} {first} has {n} and {second} has {m}. Shapes are lined up "
        f"from the right; on each axis the lengths must be equal, or one of them 1.{advice}"
    )


class Broadcasting(Lab):
    """Shapes to type, the shape of the result, and for each operand the axes that its gradient is summed over."""

    title = "Broadcasting: which axes is a gradient summed over?"

    def __init__(self, **shapes):
        self._typed: dict = {}
        try:
            super().__init__(**shapes)
        except ValueError as error:  # shown above the boxes, where it can be put right
            self.values, self.result, self._trouble = shapes, None, self._told(error)

    def set(self, **changes):
        """Move controls; see `Lab.set`."""
        super().set(**changes)
        self._typed = {}

    def _act(self, changes):
        # What was typed and did not fit still stands in its box, so it counts together with what is typed next.
        self._typed |= {name: text for name, text in changes.items() if name in self.values}
        self.set(**changes | self._typed)

    def _compute(self, values):
        for name, shape in values.items():
            try:
                values[name] = parse_shape(shape)
            except ValueError as error:
                raise ValueError(f"shape of {name}: {error}") from None
        return broadcast(*values.values())

    def _controls(self):
        return [field_of_text(name, f"Shape of {name}", _typed(value), "for example 4,3")
                for name, value in self.values.items()]  # fmt: skip

    def _summary(self):
        made = self.result
        if made is None:
            return ""
        shapes = ", ".join(f"{o.name} {o.shape}" for o in made.operands)
        return f"{shapes} give a result of shape {made.shape}."

    def _blocks(self):
        made = self.result
        if made is None:
            return []
        header = ("operand", "shape", "axes it lacks", "axes of length 1", "gradient", "its shape", "times read")
        rows = []
        for o in made.operands:
            code = o.code if o.summed else "g, unchanged"
            rows.append((o.name, str(o.shape), _axes(o.extra), _axes(o.stretched), code, str(o.shape), str(o.copies)))
            said = [o for o in made.operands if o.summed]
        why = " ".join(
            f"Each entry of {o.name} is read {counted(o.copies, 'time')}, so its gradient is a sum of "
            f"{counted(o.copies, 'share')}, over {_over(o.summed)} of the result."
            for o in said
        )
        return [
            Text(self._summary(), strong=True),
            Shown(_picture(made)),
            Text(why or "Nothing is copied, so every gradient passes unchanged."),
            Table("Where the gradient g of the result goes", header, rows),
        ]


def broadcasting(*shapes) -> Broadcasting:
    """A lab on broadcasting: which axes of the result the gradient of each operand is summed over.

    `shapes`: two to five, as tuples or as text such as "4,3"; (4, 3) and (3,) when left out. Where they do not fit
    together, the lab says so in one sentence above the boxes, and has no result yet; `set` raises it as a ValueError.

    >>> from autodiff import labs
    >>> print(labs.broadcasting("4,3", "3").result.operands[1].code)
    g.sum(axis=0)
    """
    shapes = shapes or ((4, 3), (3,))
    if not 2 <= len(shapes) <= MOST_OPERANDS:
        raise ValueError(f"this lab takes two to {MOST_OPERANDS} shapes, got {len(shapes)}")
    return Broadcasting(**dict(zip("abcde", shapes)))


def _typed(shape) -> str:
    return ",".join(map(str, shape)) if isinstance(shape, (tuple, list)) else str(shape)


def _axes(axes) -> str:
    return "-" if not axes else str(axes[0]) if len(axes) == 1 else str(tuple(axes))


def _over(axes) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"


def _picture(made: Broadcast) -> Picture:
    """The shapes lined up from the right, copied axes dashed and marked."""
    axes = len(made.shape)
    box, gap, left, row_height, top = 78, 6, 56, 58, 34
    rows = len(made.operands) + 1
    aside = ["gradient: sum over " + _over(o.summed) if o.summed else "gradient: unchanged" for o in made.operands]
    width = left + (box + gap) * max(axes, 1) + 12 + 6.8 * max(map(len, aside))
    said = "; ".join(
        f"{o.name} of shape {o.shape}" + (f", copied along result axes {_axes(o.summed)}" if o.summed else "")
        for o in made.operands
    )
    label = f"Shapes lined up from the right: {said}; result of shape {made.shape}"
    p = Picture(label, width, top + row_height * rows + 12)
    for axis in range(axes):
        p.text(left + axis * (box + gap) + box / 2, 20, f"axis {axis}", anchor="middle", quiet=True)
    lines = [(o.name, o.shape, o) for o in made.operands] + [("result", made.shape, None)]
    for i, (name, shape, o) in enumerate(lines):
        y = top + i * row_height + (8 if o is None else 0)
        p.text(8, y + 25, name, bold=True)
        for axis in range(axes):
            x = left + axis * (box + gap)
            own = axis - (axes - len(shape))
            copied = o is not None and axis in o.summed
            p.shape("rect", "ad-copied" if copied else "ad-box", x=x, y=y, width=box, height=42, rx=3)
            first = str(shape[own]) if own >= 0 else "no axis"
            p.text(x + box / 2, y + (18 if copied else 27), first, anchor="middle", size=14, bold=not copied)
            if copied:
                p.text(x + box / 2, y + 34, f"copied {counted(made.shape[axis], 'time')}", anchor="middle", size=11)
        at = left + max(axes, 1) * (box + gap) + 6
        if o is None:
            p.text(at, y + 25, "lengths that fit", quiet=True)
        else:
            p.text(at, y + 25, aside[i])
    return p
