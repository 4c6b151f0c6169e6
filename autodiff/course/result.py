"""What a check, a hint or a progress listing shows: plain text, and HTML where a notebook can display it.

Meaning is always carried by words. Colours are left to the reader's theme.
"""

import html
import itertools
import math
import re
import textwrap
from dataclasses import dataclass, field

PASSED = "passed"
WRONG = "not right"
NOT_STARTED = "not started yet"
UNFINISHED = "not finished yet"
BROKEN = "the check itself broke"

_WIDTH = 100


@dataclass(frozen=True)
class Table:
    """Rows of short strings under a header, for example the target and yours side by side."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def without(self, name: str) -> "Table":
        """The table without the column of this name, if there is one."""
        header, *rows = (tuple(cell for cell, title in zip(row, self.header) if title != name)
                         for row in (self.header, *self.rows))
        return Table(header, tuple(rows))

    def text(self) -> str:
        columns = list(zip(self.header, *self.rows))
        widths = [max(len(cell) for cell in column) for column in columns]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                 for row in (self.header, *self.rows)]
        return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])

    def html(self) -> str:
        def row(cells, tag):
            style = "text-align:left;padding:2px 12px 2px 0"
            return "<tr>" + "".join(f'<{tag} style="{style}">{html.escape(c)}</{tag}>' for c in cells) + "</tr>"

        return ("<table><thead>" + row(self.header, "th") + "</thead><tbody>"
                + "".join(row(cells, "td") for cells in self.rows) + "</tbody></table>")


@dataclass
class Page:
    """A headline, paragraphs and a table. A paragraph that starts with four spaces is shown as it stands."""

    headline: str
    body: list[str] = field(default_factory=list)
    table: Table | None = None
    after: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        parts = [self.headline, *map(_wrap, self.body)]
        if self.table is not None:
            parts.append(textwrap.indent(self.table.text(), "  "))
        parts += map(_wrap, self.after + self.notes)
        return "\n\n".join(parts) if len(parts) > 2 else "\n".join(parts)

    def html(self) -> str:
        parts = [f"<p><strong>{_inline(self.headline)}</strong></p>", *map(_block, self.body)]
        if self.table is not None:
            parts.append(self.table.html())
        parts += map(_block, self.after)
        parts += [f"<p><em>{_inline(note)}</em></p>" for note in self.notes]
        return '<div style="border-left:4px solid currentColor;padding-left:12px">' + "".join(parts) + "</div>"

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": self.text(), "text/html": self.html()}


@dataclass(repr=False)
class Result(Page):
    """The outcome of one check: true when it passed.

    `status` is "passed", "not right", "not started yet", "not finished yet" or "the check itself broke". `fault` is
    the id of the recognised mistake, and None when the answer passed, was not started or finished, or is wrong in a way
    nobody has named. `missed`: values worked out by hand, or the letter of a choice, were compared, and some are wrong.
    `fits`: how many of these values are right, or what the recognised mistakes make of them.
    """

    task: str = ""
    status: str = WRONG
    fault: str | None = None
    missed: bool = False
    fits: int = 0

    def __bool__(self) -> bool:
        return self.status == PASSED


def _wrap(paragraph: str) -> str:
    if paragraph.startswith("    "):
        return paragraph
    return textwrap.fill(paragraph, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)


def _inline(text: str) -> str:
    """`code` and *stress* as HTML; a star between spaces is a product."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
    return re.sub(r"(?<!\S)\*(\w(?:[\w ]*\w)?)\*(?=[\s.,;:?!]|$)", r"<em>\1</em>", marked)


def _block(paragraph: str) -> str:
    if paragraph.startswith("    "):
        # JupyterLab sets the text of outputs in its prose font, <pre> too.
        style = "font-family:var(--jp-code-font-family, monospace);white-space:pre;margin:0 0 1em 1em"
        return f'<pre style="{style}">{html.escape(textwrap.dedent(paragraph), quote=False)}</pre>'
    return f"<p>{_inline(paragraph)}</p>"


def safe_repr(value, limit: int = 80) -> str:
    """`repr` on one line that survives objects whose own `__repr__` fails."""
    try:
        shown = " ".join(repr(value).split())
    except Exception:
        shown = f"<{type(value).__name__} object whose repr fails>"
    return shown if len(shown) <= limit else shown[:limit - 3] + "..."


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text: lines that begin with four spaces stand together as they are, others flow."""
    return ["\n".join(lines) if kept else " ".join(lines) for part in text.split("\n\n")
            for kept, lines in itertools.groupby(part.splitlines(), lambda line: line.startswith("    "))]


def show_number(value, digits: int = 6) -> str:
    """A number as a learner writes it: -3, not -3.0; anything else by its repr."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return format(value + 0, f".{digits}g") if value == value and abs(value) != float("inf") else str(value)
    return safe_repr(value, 40)


def as_number(value) -> float | None:
    """The value as a float, or None when it is no single real number (a bool is no answer to "how much")."""
    if isinstance(value, bool) or isinstance(value, (str, bytes, complex)):
        return None
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except Exception:
        return None


def close(a, b) -> bool:
    """Whether two numbers agree to nine digits; NaN agrees with nothing, infinity with itself alone."""
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
