"""Pictures of the labs as SVG: the same text in every run, readable on white, and restyled by the notebook's theme."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

from ..drawing.text import number

SVG = "http://www.w3.org/2000/svg"
FONT = "Arial,Helvetica,sans-serif"
INK, QUIET, MARK, SHADE, GROUND = "#1a1a1a", "#5a5a5a", "#0b5cad", "#d5e4f5", "#ffffff"
# What a class looks like where no style sheet is: in a saved notebook.
LOOKS = {
    "ad-ink": {"stroke": INK, "fill": "none", "stroke-width": "2"},
    "ad-soft": {"stroke": QUIET, "fill": "none", "stroke-width": "1.5", "stroke-dasharray": "6 4"},
    "ad-thin": {"stroke": QUIET, "fill": "none", "stroke-width": "1"},
    "ad-strong": {"stroke": MARK, "fill": "none", "stroke-width": "3"},
    "ad-shade": {"stroke": MARK, "fill": SHADE, "stroke-width": "2"},
    "ad-box": {"stroke": INK, "fill": GROUND, "stroke-width": "1.5"},
    "ad-copied": {"stroke": INK, "fill": "#f0f0f0", "stroke-width": "1.5", "stroke-dasharray": "5 3"},
    "ad-point": {"stroke": INK, "fill": GROUND, "stroke-width": "2"},
    "ad-full": {"stroke": INK, "fill": INK, "stroke-width": "1"},
}
WIDTH, HEIGHT = 400, 290  # two plots fit side by side on a screen of 1280 pixels
SIDE, TOP, RIGHT, BOTTOM = 62, 34, 16, 46
LARGEST = 1e300  # what is drawn
MARKER = 6  # half the width of a marker


class Picture:
    """A canvas of `width` by `height`; `label` says in words what it shows."""

    def __init__(self, label: str, width: float, height: float):
        self.label, self.width, self.height = label, width, height
        self.root = ElementTree.Element("svg", {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}",
                                                "height": f"{height:g}"})  # fmt: skip

    def shape(self, tag: str, look: str, **attributes) -> None:
        """One element, drawn as `look`."""
        made = {"class": look, **LOOKS[look], **{k.replace("_", "-"): _short(v) for k, v in attributes.items()}}
        ElementTree.SubElement(self.root, tag, made)

    def path(self, points, look: str, closed: bool = False) -> None:
        """A line through these points; gaps where one is not finite."""
        parts, pen = [], "M"
        for x, y in points:
            if math.isfinite(x) and math.isfinite(y):
                parts.append(f"{pen}{x:.1f},{y:.1f}")
                pen = "L"
            else:
                pen = "M"
        if parts:
            self.shape("path", look, d=" ".join(parts) + (" Z" if closed else ""))

    def text(self, x: float, y: float, text: str, *, anchor="start", size=13, bold=False, quiet=False, turn=0) -> None:
        """A line of text."""
        made = {"x": _short(x), "y": _short(y), "text-anchor": anchor, "font-family": FONT, "font-size": str(size),
                "fill": QUIET if quiet else INK, "class": "ad-quiet-text" if quiet else "ad-text"}  # fmt: skip
        if bold:
            made["font-weight"] = "bold"
        if turn:
            made["transform"] = f"rotate({turn} {_short(x)} {_short(y)})"
        # A halo in the colour of the ground keeps words readable where they cross a line.
        made |= {"paint-order": "stroke", "stroke": GROUND, "stroke-width": "4", "stroke-linejoin": "round"}
        ElementTree.SubElement(self.root, "text", made).text = text

    def marker(self, x: float, y: float, kind: str) -> None:
        """A circle, square, triangle, diamond or dot."""
        m = MARKER
        if kind in ("circle", "dot"):
            self.shape("circle", "ad-full" if kind == "dot" else "ad-point", cx=x, cy=y, r=3 if kind == "dot" else m)
        else:
            corners = {
                "square": [(-m, -m), (m, -m), (m, m), (-m, m)],
                "triangle": [(0, -m - 1), (m + 1, m), (-m - 1, m)],
                "diamond": [(0, -m - 2), (m + 2, 0), (0, m + 2), (-m - 2, 0)],
            }[kind]
            self.path([(x + a, y + b) for a, b in corners], "ad-point", closed=True)

    def svg(self) -> str:
        """The picture alone, as SVG text."""
        alone = ElementTree.Element("svg", {"xmlns": SVG, **self.root.attrib})
        alone.extend(self.root)
        return ElementTree.tostring(alone, encoding="unicode")


class Plot(Picture):
    """Axes with a title; positions are given in the units of the axes.

    `x` and `y`: (low, high). `log`: which of "x" and "y" is logarithmic. `ticks`: which of them have numbers.
    """

    def __init__(self, label, title, x, y, xlabel, ylabel, *, log="", ticks="xy", width=WIDTH, height=HEIGHT):
        super().__init__(label, width, height)
        self._x = _Scale(*x, SIDE, width - RIGHT, "x" in log)
        self._y = _Scale(*y, height - BOTTOM, TOP, "y" in log)
        left, right, top, bottom = SIDE, width - RIGHT, TOP, height - BOTTOM
        self.text(8, 18, title, bold=True)
        for v in self._x.ticks(6) if "x" in ticks else ():
            at = self._x(v)
            self.path([(at, bottom), (at, bottom + 4)], "ad-thin")
            self.text(at, bottom + 18, _tick(v, "x" in log), anchor="middle", size=12, quiet=True)
        for v in self._y.ticks(6) if "y" in ticks else ():
            at = self._y(v)
            self.path([(left - 4, at), (left, at)], "ad-thin")
            self.text(left - 7, at + 4, _tick(v, "y" in log), anchor="end", size=12, quiet=True)
        self.path([(left, top), (left, bottom), (right, bottom)], "ad-thin")
        self.text((left + right) / 2, height - 8, xlabel, anchor="middle")
        self.text(14, (top + bottom) / 2, ylabel, anchor="middle", turn=-90)

    def at(self, x, y) -> tuple[float, float]:
        """Where a point is on the canvas."""
        return self._x(x), self._y(y)

    def line(self, points, look="ad-ink") -> None:
        """A line through points of the axes, as far as it lies within them."""
        placed = [self.at(x, y) for x, y in points]
        for a, b in zip(placed, placed[1:]):
            if not self._holds(a) or not self._holds(b):
                break
        else:
            return self.path(placed, look)
        for a, b in zip(placed, placed[1:]):
            inside = self._clipped(a, b)
            if inside:
                self.path(inside, look)

    def _holds(self, point) -> bool:
        # A gap in the line is no part of it that leaves the axes.
        return not all(map(math.isfinite, point)) or self._clipped(point, point) is not None

    def _clipped(self, a, b):
        """The part of the line from a to b within the axes (Liang and Barsky), or None."""
        low, high = 0.0, 1.0
        frame = ((SIDE, self.width - RIGHT), (TOP, self.height - BOTTOM))
        for start, end, (least, most) in zip(a, b, frame):
            if not math.isfinite(start) or not math.isfinite(end):
                return None
            for reach, room in ((start - end, start - least), (end - start, most - start)):
                if abs(reach) < 1e-12:
                    if room < -0.05:
                        return None
                elif reach < 0:
                    low = max(low, room / reach)
                else:
                    high = min(high, room / reach)
        if low > high:
            return None
        return [tuple(s + t * (e - s) for s, e in zip(a, b)) for t in (low, high)]

    def area(self, points, look="ad-shade") -> None:
        """A closed polygon."""
        self.path([self.at(x, y) for x, y in points], look, closed=True)

    def point(self, x, y, kind="dot") -> None:
        """A marker; nothing where there is no such place."""
        at = self.at(x, y)
        if all(map(math.isfinite, at)):
            self.marker(*at, kind)

    def spot(self, x, y) -> None:
        """A set that has shrunk to a point; a marker may lie upon it."""
        at_x, at_y = self.at(x, y)
        self.shape("circle", "ad-shade", cx=at_x, cy=at_y, r=MARKER + 5)

    def note(self, x, y, text, *, dx=10, dy=4, anchor=None, bold=False, quiet=False) -> None:
        """Words beside a point; they change sides where they would leave the picture."""
        at_x, at_y = self.at(x, y)
        room = 7.2 * len(text)
        if anchor is None:
            anchor = "end" if at_x + dx + room > self.width - 4 and at_x - dx - room > 0 else "start"
        shift = -dx if anchor == "end" else 0 if anchor == "middle" else dx
        at_y = min(max(at_y + dy, TOP + 4), self.height - BOTTOM - 4)
        self.text(at_x + shift, at_y, text, anchor=anchor, bold=bold, quiet=quiet)

    def upright(self, x, text="", look="ad-soft", anchor=None, row=0) -> None:
        """A line from top to bottom at `x`, with words at its upper end; `row` moves them down."""
        at = self._x(x)
        self.path([(at, TOP), (at, self.height - BOTTOM)], look)
        if text:
            anchor = anchor or ("end" if at + 6 + 7.2 * len(text) > self.width else "start")
            self.text(at + (-6 if anchor == "end" else 6), TOP + 10 + 17 * row, text, anchor=anchor)


class _Scale:
    """From the units of one axis to the canvas."""

    def __init__(self, low, high, start, end, log):
        if not high - low > 1e-9 * max(abs(low), abs(high)):  # else neighbouring ticks have the same number
            room = max(1.0, abs(low) / 2)
            low, high = (low / 2, low * 2) if log else (low - room, low + room)
        self.low, self.high, self.log = low, high, log
        self.start, self.end = start, end

    def __call__(self, v) -> float:
        if not math.isfinite(v) or self.log and v <= 0:
            return math.nan
        a, b, v = (math.log10(u) if self.log else u for u in (self.low, self.high, v))
        return self.start + (self.end - self.start) * (v - a) / (b - a)

    def ticks(self, most: int) -> list[float]:
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            if last - first >= 1:
                step = max(1, math.ceil((last - first + 1) / most))
                return [10.0**k for k in range(first, last + 1, step)]
        step = round_step((self.high - self.low) / most, up=True)
        first = math.ceil(self.low / step - 1e-9)
        return [float(f"{k * step:.12g}") for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def beside(pictures: list[Picture], title: str, description: str, lines: list[str]) -> str:
    """A whole SVG document: the pictures side by side, and `lines` of text below them."""
    size, step, gap = 12, 16, 12
    width = sum(p.width + gap for p in pictures) - gap if pictures else 0
    high = max((p.height for p in pictures), default=0)
    # 0.602 em is the widest of the usual monospace fonts; 8 in front of the text, 4 after it.
    width = max(width, 12 + 0.603 * size * max(map(len, lines), default=0))
    total = high + step * len(lines) + 14
    root = ElementTree.Element("svg", {"xmlns": SVG, "role": "img", "aria-label": title, "width": f"{width:g}",
                                       "height": f"{total:g}", "viewBox": f"0 0 {width:g} {total:g}"})  # fmt: skip
    ElementTree.SubElement(root, "title").text = title
    ElementTree.SubElement(root, "desc").text = description
    ElementTree.SubElement(root, "rect", {"width": f"{width:g}", "height": f"{total:g}", "fill": "white"})
    x = 0.0
    for p in pictures:
        inner = ElementTree.SubElement(root, "svg", {**p.root.attrib, "x": f"{x:g}", "y": "0"})
        inner.extend(p.root)
        x += p.width + gap
    for i, line in enumerate(lines):
        text = ElementTree.SubElement(root, "text", {
            "x": "8", "y": f"{high + step * (i + 1):g}", "font-family": "monospace", "font-size": str(size),
            "xml:space": "preserve", "fill": "black"})  # fmt: skip
        text.text = line
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}'


def round_step(raw: float, up: bool = False) -> float:
    """The nearest 1, 2 or 5 times a power of ten that is not above `raw`, or not below it."""
    power = 10.0 ** math.floor(math.log10(raw) + 1e-9)
    if up:
        return next(m * power for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))
    return next(m * power for m in (5, 2, 1) if m * power <= raw * (1 + 1e-9))


def span(values, share: float = 0.08) -> tuple[float, float]:
    """The least and the largest of the finite `values`, with some room."""
    finite = [v for v in values if abs(v) < LARGEST] or [0.0]
    low, high = min(finite), max(finite)
    room = (high - low) * share or max(abs(high), 1.0) * 0.5
    return low - room, high + room


def _tick(v: float, log: bool) -> str:
    return f"1e{round(math.log10(v))}" if log and not 1e-2 <= v < 1e4 else number(v)


def _short(v) -> str:
    return f"{v:.1f}".rstrip("0").rstrip(".") if isinstance(v, float) else str(v)
