"""What all labs have in common: controls, a result in words, numbers and pictures, and a widget on top of it."""

from __future__ import annotations

import functools
import textwrap
import threading
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path

import numpy as np

from ..drawing.text import clean, summary, table
from ..outside import plain
from ..tensor import Tensor
from .plot import Picture, beside

STATIC = Path(__file__).parent.parent / "static"
COLUMNS = 100  # of the text form
LONGEST = 600  # characters of a message


@dataclass
class Text:
    """A paragraph."""

    text: str
    strong: bool = False

    def plain(self) -> list[str]:
        return textwrap.wrap(self.text, COLUMNS) or [""]

    def data(self) -> dict:
        return {"kind": "text", "text": self.text, "strong": self.strong}


@dataclass
class Table:
    """Rows under a header; `current` is the row that the controls point at."""

    caption: str
    header: tuple
    rows: list
    current: int | None = None

    def plain(self) -> list[str]:
        return table(self.header, self.rows).splitlines()

    def data(self) -> dict:
        return {"kind": "table", "caption": self.caption, "header": list(self.header),
                "rows": [list(map(str, row)) for row in self.rows], "current": self.current}  # fmt: skip


@dataclass
class Shown:
    """A picture; `clicks` says which of its parts stand for an option of a control."""

    picture: Picture
    clicks: dict = field(default_factory=dict)

    def plain(self) -> list[str]:
        return []

    def data(self) -> dict:
        return {"kind": "picture", "svg": self.picture.svg(), "label": self.picture.label, **self.clicks}


@dataclass
class Progress:
    """How far something is."""

    label: str
    value: int
    most: int

    def plain(self) -> list[str]:
        return []

    def data(self) -> dict:
        return {"kind": "progress", "label": self.label, "value": self.value, "most": self.most}


# What labs are given. An error says the same in a cell and beside the controls.


def function(f, example: str):
    """`f`, if it can be called; else an error that shows how a lab is made."""
    if not callable(f):
        raise TypeError(f"a lab takes a function first, got {clean(repr(f))}: labs.{example}")
    return f


def real(name: str, value, says: str = "a number") -> float:
    """A number as a float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {says}, got {clean(repr(value))}")
    return float(value)


def whole(name: str, value, least: int, most: int, says: str = "a whole number") -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= value <= most:
        raise ValueError(f"{name} must be {says} from {least} to {most}, got {clean(value)}")
    return int(value)


def counted(n: int, word: str) -> str:
    """The number with its word: 1 step, 2 steps."""
    return f"{n} {word}{'' if n == 1 else 's'}"


def finite_arrays(inputs, names) -> list[np.ndarray]:
    """The inputs of a function as arrays of float64; an error that names the one that is none, or not finite."""
    arrays = []
    for name, value in zip(names, inputs, strict=True):
        try:
            array = np.asarray(value.data if isinstance(value, Tensor) else plain(value, f"the lab's {name}"))
        except ValueError:  # rows of unlike lengths
            array = np.array(None)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{name} must be a number or an array of numbers, got {clean(repr(value))}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, got {summary(array)}: there is no slope at such a point")
        arrays.append(array.astype(np.float64))
    return arrays


# Controls, as the front end reads them


def slider(name: str, label: str, texts: list[str], index: int) -> dict:
    """One of several stops; each has its own text."""
    return {"kind": "slider", "name": name, "label": label, "texts": texts, "value": index}


def choice(name: str, label: str, options: list[str], value: str) -> dict:
    """One of several words."""
    return {"kind": "choice", "name": name, "label": label, "options": [str(o) for o in options], "value": str(value)}


def checks(name: str, label: str, options: list[tuple[int, str, str]], values: list[int]) -> dict:
    """Any of several: (number, text, id of the part of the picture it stands for)."""
    made = [{"value": number, "text": text, "part": part} for number, text, part in options]
    return {"kind": "checks", "name": name, "label": label, "options": made, "value": list(values)}


def field_of_text(name: str, label: str, value: str, hint: str) -> dict:
    """A line to type."""
    return {"kind": "text", "name": name, "label": label, "value": value, "hint": hint}


def button(name: str, label: str, on: bool = True) -> dict:
    """Something to press."""
    return {"kind": "button", "name": name, "label": label, "on": on, "value": None}


class Lab:
    """An experiment with controls; where widgets do not run it shows its pictures and its numbers as they are.

    `.values`: what the controls say now. `.result`: the numbers. `.set(name=value)` moves a control from Python.
    """

    title = "Lab"

    def __init__(self, **values):
        self._lock, self._panel, self._count, self._trouble = threading.RLock(), None, 0, ""
        self.values, self.result = values, self._compute(values)

    # What each lab says of itself

    def _compute(self, values: dict):
        """The numbers for these values of the controls. Raises where there are none; then nothing has changed."""
        raise NotImplementedError

    def _controls(self) -> list[dict]:
        """The controls as they stand."""
        raise NotImplementedError

    def _blocks(self) -> list:
        """What is shown, in order."""
        raise NotImplementedError

    def _read(self, name: str, shown):
        """The value of a control, from what the front end calls it."""
        return shown

    def _summary(self) -> str:
        """The result in a sentence."""
        raise NotImplementedError

    def _says(self) -> str:
        """What a screen reader says when it changes."""
        return self._summary()

    # What all do

    def set(self, **changes) -> None:
        """Move controls; TypeError for a name that is none, and the error of the computation, if there is one: then
        nothing has changed."""
        unknown = sorted(changes.keys() - self.values.keys())
        if unknown:
            raise TypeError(f"{type(self).__name__} has no control {unknown[0]!r}; it has {', '.join(self.values)}")
        with self._lock:
            values = {**self.values, **changes}
            result = self._compute(values)
            self.values, self.result, self._trouble = values, result, ""
            self._show()

    @property
    def text(self) -> str:
        """All there is to see, as text."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        blocks = [b.plain() for b in self._blocks()]
        if not blocks:
            blocks = [Text(self._trouble).plain()]
        body = [line for lines in blocks if lines for line in ["", *lines]]
        return [self.title, *body[1:]] if body else [self.title]

    def svg(self) -> str:
        """The pictures and the numbers as one SVG document."""
        pictures = [b.picture for b in self._blocks() if isinstance(b, Shown)]
        return beside(pictures, self.title, self.text, self._lines()[1:])

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **kwargs):
        still = {"text/plain": self.text, "image/svg+xml": self.svg()}
        panel = self.widget
        if panel is None:
            return still
        bundle = panel._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, **still}, metadata

    @property
    def widget(self):
        """The widget, made when first asked for; None where the packages for it are missing."""
        if self._panel is None and _panel_class() is not None:
            self._panel = _panel_class()(view=self._view())
            self._panel.observe(lambda change: self._answer(change.new), "asked")
        return self._panel

    def _view(self) -> dict:
        return {"title": self.title, "controls": self._controls(), "blocks": [b.data() for b in self._blocks()],
                "says": self._says(), "trouble": self._trouble, "count": self._count}  # fmt: skip

    def _show(self) -> None:
        if self._panel is not None:
            with self._lock:  # a run in the background shows itself too, and the last view must be the newest
                self._panel.view = self._view()

    def _answer(self, asked: dict) -> None:
        """Somebody moved a control in the notebook."""
        with self._lock:
            self._count = asked.get("count", 0)
            try:
                self._act({name: self._read(name, value) for name, value in asked.get("values", {}).items()})
            except Exception as error:  # whatever the user's function raises belongs beside the controls
                self._trouble = self._told(error)
                self._show()

    @staticmethod
    def _told(error: Exception) -> str:
        return clean(f"{type(error).__name__}: {error}", LONGEST)

    def _act(self, changes: dict) -> None:
        self.set(**changes)


@functools.cache
def _panel_class():
    """The widget class, or None where the packages for it are missing."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        return None

    class Panel(anywidget.AnyWidget):
        _esm = (STATIC / "labs.js").read_text(encoding="utf-8")
        _css = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in ("stepper.css", "labs.css"))
        view = traitlets.Dict().tag(sync=True)
        asked = traitlets.Dict().tag(sync=True)

    return Panel
