"""Line charts of the lessons: labelled axes, lines told apart by marker and dash, and the same chart in words.

>>> chart({"squares": ([1, 2, 3], [1, 4, 9])}, "n", "n * n")  # a picture in a notebook
chart of n * n against n
n  squares
1  1
2  4
3  9
"""

import io
import textwrap

from autodiff.drawing.text import number

STYLES = [("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."), ("v", (0, (5, 1))), ("x", (0, (1, 1)))]
COLOURS = ["#0b5cad", "#b3540a", "#1a1a1a", "#6a3d9a", "#2a7a2a", "#8c1d40"]
MOST_ROWS = 12
CAPTION = 72  # characters in a line under the axes: it stays in the picture in a wider font than ours too


class Chart:
    """What `chart` returns: an SVG picture for a notebook, and text everywhere else."""

    def __init__(self, lines, xlabel, ylabel, title, log, measured, says):
        self.lines, self.xlabel, self.ylabel, self.title = lines, xlabel, ylabel, title
        self.log, self.measured, self.says = log, measured, says

    def figure(self):
        """The chart as a matplotlib figure."""
        from matplotlib.figure import Figure

        caption = textwrap.wrap(self.says, CAPTION)
        figure = Figure(figsize=(6.2, 3.8 + 0.2 * len(caption)), layout="constrained")
        axes = figure.add_subplot()
        for (label, (xs, ys)), (marker, dash), colour in zip(self.lines.items(), STYLES, COLOURS):
            few = marker if len(xs) <= 40 else None
            axes.plot(xs, ys, marker=few, linestyle=dash, color=colour, label=label)
        axes.set(xlabel=self.xlabel, ylabel=self.ylabel, title=self.title,
                 xscale="log" if "x" in self.log else "linear", yscale="log" if "y" in self.log else "linear")
        axes.grid(alpha=0.3)
        if len(self.lines) > 1:
            axes.legend()
        if caption:
            figure.supxlabel("\n".join(caption), x=0.02, ha="left", fontsize=10)
        return figure

    def svg(self) -> str:
        """The picture; title and desc say in words what it shows."""
        import matplotlib
        from xml.sax.saxutils import escape

        # Text stays text, and the same data give the same file.
        with matplotlib.rc_context({"svg.hashsalt": "autodiff", "svg.fonttype": "none", "font.family": "sans-serif"}):
            out = io.StringIO()
            self.figure().savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        drawn = out.getvalue()
        drawn = drawn[drawn.index("<svg"):].strip()
        end = drawn.index(">") + 1
        words = f"<title>{escape(self._headline())}</title><desc>{escape(self.text())}</desc>"
        return drawn[:end] + words + drawn[end:] + "\n"

    def _headline(self) -> str:
        return f"chart of {self.ylabel} against {self.xlabel}"

    def text(self) -> str:
        """The chart in words: a table, or for measured numbers only what was measured and `says`."""
        if self.measured:
            return "\n".join([f"{self._headline()}, measured on this computer: {', '.join(self.lines)}",
                              *([self.says] if self.says else [])])
        xs = sorted({x for line, _ in self.lines.values() for x in line})
        if len(xs) > MOST_ROWS:
            xs = [xs[round(k * (len(xs) - 1) / (MOST_ROWS - 1))] for k in range(MOST_ROWS)]
        values = [dict(zip(line, ys)) for line, ys in self.lines.values()]
        rows = [(self.xlabel, *self.lines),
                *((number(x), *(number(v[x]) if x in v else "" for v in values)) for x in xs)]
        widths = [max(map(len, column)) for column in zip(*rows)]
        table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([self._headline(), *([self.says] if self.says else []), *table])

    __repr__ = text

    def _repr_mimebundle_(self, include=None, exclude=None):
        try:
            return {"image/svg+xml": self.svg(), "text/plain": self.text()}
        except ImportError:
            return {"text/plain": self.text()}


def chart(lines, xlabel, ylabel, title="", *, log="", measured=False, says="") -> Chart:
    """A chart of `lines`, a dict from each line's name to its (xs, ys).

    `log`: "x", "y" or "xy" for logarithmic axes. `measured`: the numbers are timings or sizes of this computer and
    differ from run to run, so the text form leaves them out. `says`: one sentence on what to see, which must hold in
    every run.
    ValueError for a line whose xs and ys differ in length, or more lines than can be told apart.
    """
    if len(lines) > len(STYLES):
        raise ValueError(f"a chart tells {len(STYLES)} lines apart, got {len(lines)}")
    made = {}
    for label, (xs, ys) in lines.items():
        xs, ys = [float(x) for x in xs], [float(y) for y in ys]
        if len(xs) != len(ys):
            raise ValueError(f"line {label!r} has {len(xs)} xs and {len(ys)} ys; it needs as many of both")
        made[label] = (xs, ys)
    return Chart(made, xlabel, ylabel, title, log, measured, says)
