"""Small grey pictures side by side, such as handwritten digits, each with a caption below it; the captions in words.

>>> import numpy as np
>>> images(np.eye(3)[None], ["a diagonal"])  # a picture in a notebook
1 picture, 3 by 3 pixels: a diagonal
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import defaultdict

import numpy as np

from .plot import FONT, INK, SVG

SIDE, GAP, LINE = 52, 10, 16  # of a picture, between two of them, and of a line of a caption
SHADES = 16


class Images:
    """What `images` returns: an SVG picture for a notebook, and the captions everywhere else."""

    def __init__(self, pixels: np.ndarray, captions: list[str], columns: int):
        self.pixels, self.captions, self.columns = pixels, captions, columns

    @property
    def text(self) -> str:
        """How many pictures there are, and their captions."""
        count, high, wide = self.pixels.shape
        said = ", ".join(" ".join(c.split()) for c in self.captions if c)
        return f"{count} picture{'s' * (count != 1)}, {high} by {wide} pixels" + (f": {said}" if said else "")

    def svg(self) -> str:
        """The picture, as SVG text."""
        lines = max((c.count("\n") + 1 for c in self.captions if c), default=0)
        across, down = SIDE + GAP, SIDE + GAP + LINE * lines
        rows = -(-len(self.pixels) // self.columns)
        width, height = across * min(self.columns, len(self.pixels)) + GAP, down * rows + GAP
        root = ElementTree.Element("svg", {"xmlns": SVG, "role": "img", "width": str(width), "height": str(height),
                                           "viewBox": f"0 0 {width} {height}"})  # fmt: skip
        ElementTree.SubElement(root, "title").text = self.text
        ElementTree.SubElement(root, "rect", {"width": str(width), "height": str(height), "fill": "white"})
        paths = defaultdict(list)  # shade -> squares
        for k, (picture, caption) in enumerate(zip(self.pixels, self.captions)):
            left, top = GAP + across * (k % self.columns), GAP + down * (k // self.columns)
            step = SIDE / max(picture.shape)
            for (i, j), dark in np.ndenumerate(np.rint(picture * SHADES).astype(int)):
                if dark:
                    x, y = f"{left + j * step:g}", f"{top + i * step:g}"
                    paths[int(dark)].append(f"M{x} {y}h{step:g}v{step:g}h{-step:g}z")
            frame = {"x": str(left), "y": str(top), "width": str(SIDE), "height": str(SIDE), "fill": "none"}
            ElementTree.SubElement(root, "rect", {**frame, "stroke": "#9a9a9a"})
            for line, words in enumerate(caption.split("\n")):
                at = {"x": f"{left + SIDE / 2:g}", "y": str(top + SIDE + LINE * (line + 1) - 2)}
                look = {"text-anchor": "middle", "font-family": FONT, "font-size": "12", "fill": INK}
                ElementTree.SubElement(root, "text", {**at, **look}).text = words
        for dark, squares in sorted(paths.items()):
            grey = round(255 * (1 - dark / SHADES))
            ElementTree.SubElement(root, "path", {"d": "".join(squares), "fill": f"#{grey:02x}{grey:02x}{grey:02x}"})
        return ElementTree.tostring(root, encoding="unicode") + "\n"

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/svg+xml": self.svg(), "text/plain": self.text}


def images(pixels, captions=None, *, columns: int = 10) -> Images:
    """Pictures side by side, `columns` in a row: white for the smallest of `pixels`, black for the largest.

    `pixels`: (number, height, width). `captions`: a text for each, of one or more lines.
    ValueError for another shape, entries that are not finite, or another number of captions.
    """
    pixels = np.asarray(pixels, float)
    if pixels.ndim != 3 or pixels.size == 0 or not np.isfinite(pixels).all():
        raise ValueError(f"pictures are finite numbers of shape (number, height, width), got shape {pixels.shape}")
    captions = [""] * len(pixels) if captions is None else [str(c) for c in captions]
    if len(captions) != len(pixels):
        raise ValueError(f"{len(pixels)} pictures need as many captions, got {len(captions)}")
    low, high = pixels.min(), pixels.max()
    return Images((pixels - low) / ((high - low) or 1.0), captions, columns)
