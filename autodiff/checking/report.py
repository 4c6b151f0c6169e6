"""What a gradcheck found: verdict, worst entry, kinks, and how that reads as text and as HTML."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

MATCH = "match"
WRONG_VALUE = "wrong value"
WRONG_SHAPE = "wrong shape"
WRONG_DTYPE = "wrong dtype"
DISCONNECTED = "disconnected"
ZERO = "zero where the slope is not"
NOT_MULTIPLIED = "not multiplied by the cotangent"
NOT_DETERMINISTIC = "not deterministic"
KINK = "at a kink"
NOT_FINITE = "not finite"
UNSUITED = "step unsuited to this magnitude"
NOTHING = "nothing was checked"
JUMP = "at a jump"  # reported as "at a kink": there is no slope


class GradcheckError(AssertionError):
    """A gradient did not pass its check; `.report` is the `GradcheckReport`."""

    def __init__(self, report: GradcheckReport):
        super().__init__(f"\n{report}")
        self.report = report


@dataclass
class Entry:
    """One entry of the Jacobian: which output entry by which input entry, and what either side says it is."""

    output: str
    input: str
    index: tuple[int, ...] | None  # None: along a random direction
    analytic: float
    numeric: float
    allowed: float
    uncertainty: float = 0.0  # how far off the numeric slope itself may be

    @property
    def absolute(self) -> float:
        """The gap between the two."""
        return abs(self.analytic - self.numeric)

    @property
    def relative(self) -> float:
        """The gap as a part of the larger of the two."""
        return self.absolute / max(abs(self.analytic), abs(self.numeric)) if self.absolute else 0.0

    @property
    def place(self) -> str:
        """The input entry in words."""
        if self.index is None:
            return f"{self.input} along a random direction"
        return self.input + (f"[{', '.join(map(str, self.index))}]" if self.index else "")


@dataclass
class Kink:
    """A place where the slopes from the left and from the right differ, and the value that the gradient takes there."""

    output: str
    input: str
    left: float
    right: float
    analytic: float
    near: bool = False  # within one step of the point, not at it

    @property
    def words(self) -> str:
        """The interval of valid values, and which of them the gradient takes; beside a kink only one value is valid."""
        says = number(self.analytic)
        if self.near:
            return f"a kink lies within one step; smaller steps are clear of it and agree with the gradient, {says}"
        low, high = sorted((self.left, self.right))
        return (
            f"slope {number(self.left)} on the left and {number(self.right)} on the right, so every value in "
            f"[{number(low)}, {number(high)}] is valid; the gradient says {says}, {self.convention}"
        )

    def __str__(self) -> str:
        return f"{self.output} by {self.input}: {self.words}"

    @property
    def convention(self) -> str:
        """Which of the valid values the gradient takes."""
        near = 1e-4 * abs(self.right - self.left)
        for value, name in (
            (self.left, "the slope on the left"),
            (self.right, "the slope on the right"),
            ((self.left + self.right) / 2, "the middle"),
            (0.0, "the flat one"),
        ):
            if abs(self.analytic - value) <= near:
                return name
        return "one in between"


@dataclass(repr=False)
class GradcheckReport:
    """What a check found; true when everything matched, or took a valid value at a kink. Shown as text and as HTML.

    `verdict`: one of "match", "wrong value", "wrong shape", "wrong dtype", "disconnected", "zero where the slope is
    not", "not multiplied by the cotangent", "not deterministic", "at a kink", "not finite", "step unsuited to this
    magnitude", "nothing was checked". `worst`: the entry that is furthest off, with `.output`, `.input`, `.index`,
    `.analytic`, `.numeric`, `.absolute`, `.relative`. `wrong` of `checked` entries disagree. `hint`: the usual cause.
    `op`: the first op whose own rule disagrees. `steps`: (step, numeric slope, gap) of the worst entry. `taylor`: the
    order of the Taylor remainder, 2 when right and 1 when wrong. `complex_step`: the slope by that method, where the
    function allows it. `kinks`, `detached`, `captured`, `notes`: what was met on the way.

    >>> import numpy as np, autodiff as ad
    >>> print(ad.gradcheck(np.abs, np.array([0.0, 2.0])))
    gradcheck: match, at a kink. All 4 slopes agree: 2 output entries by 2 of x.
      worst: output[0] by x[0]: gradient 0, numeric 0, gap 0 of 1e-07 allowed
      kink: output[0] by x[0]: slope -1 on the left and 1 on the right, so every value in [-1, 1] is valid; the gradient
        says 0, the middle
      seed: 0, step 6e-06 * max(1, |x|), 36 evaluations. Not checked: other points and shapes, second order.
    """

    verdict: str
    ok: bool
    order: int = 1
    headline: str = ""
    worst: Entry | None = None
    wrong: int = 0
    checked: int = 0
    hint: str | None = None
    op: str | None = None
    steps: list[tuple[float, float, float]] = field(default_factory=list)
    taylor: float | None = None
    complex_step: float | None = None
    kinks: list[Kink] = field(default_factory=list)
    detached: list[str] = field(default_factory=list)
    captured: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seed: object = 0
    evaluations: int = 0
    facts: list[tuple[str, str]] = field(default_factory=list)  # what the text says below the first line

    def __bool__(self) -> bool:
        return self.ok

    @property
    def first_line(self) -> str:
        """The verdict in words, and where."""
        words = "match, at a kink" if self.ok and self.verdict == KINK else self.verdict
        return f"{'gradcheck' if self.order == 1 else 'gradgradcheck'}: {words}. {self.headline}"

    def __str__(self) -> str:
        lines = [self.first_line]
        for name, text in self.facts:
            lines += textwrap.wrap(
                f"{name}: {text}",
                118,
                initial_indent="  ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        cell = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"

        def row(cells, tag="td"):
            return "<tr>" + "".join(f'<{tag} style="{cell}">{escape(str(c))}</{tag}>' for c in cells) + "</tr>"

        parts = [f"<p><strong>{escape(self.first_line)}</strong></p>", "<table>"]
        parts += [
            f'<tr><th scope="row" style="{cell}">{escape(name)}</th><td style="{cell}">{escape(text)}</td></tr>'
            for name, text in self.facts
            if name != "steps"
        ]
        parts.append("</table>")
        if self.steps:
            parts += ["<table>", row(("step", "numeric slope", "gap to the gradient"), "th")]
            parts += [row((f"{h:.0e}", number(slope), f"{gap:.1e}")) for h, slope, gap in self.steps]
            parts += ["</table>", *(f"<p>{escape(text)}</p>" for name, text in self.facts if name == "steps")]
        # A name may hold a dollar sign, and is no formula.
        style = 'class="mathjax_ignore tex2jax_ignore" style="border-left:4px solid currentColor;padding-left:12px"'
        return f"<div {style}>" + "".join(parts) + "</div>"


def number(x) -> str:
    x = float(x)
    return f"{x:.7g}" if x != round(x, 3) or abs(x) >= 1e7 else f"{x + 0.0:.10g}"


def some(names, most: int = 4) -> str:
    names = list(names)
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
