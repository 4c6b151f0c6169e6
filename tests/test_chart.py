"""Charts of the lessons: the same picture and the same words in every run; measured numbers stay out of the words."""

import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from autodiff.course.chart import STYLES, chart

LINES = {"forward": ([1, 2, 4], [1.0, 2.5, 3.0]), "a < b & c": ([1, 4], [9, 7])}


def test_words_and_picture_are_the_same_in_every_run():
    pytest.importorskip("matplotlib")
    first, second = chart(LINES, "n", "seconds"), chart(LINES, "n", "seconds")
    assert first.svg() == second.svg() and repr(first) == repr(second)
    assert repr(first).splitlines() == [
        "chart of seconds against n", "n  forward  a < b & c", "1  1        9", "2  2.5", "4  3        7"]


def test_picture_has_axes_and_lines_with_names_and_a_description():
    pytest.importorskip("matplotlib")
    root = ElementTree.fromstring(chart(LINES, "n", "seconds", log="xy").svg())
    texts = {"".join(e.itertext()).strip() for e in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"n", "seconds", *LINES} <= texts
    assert root[0].tag.endswith("title") and root[1].tag.endswith("desc") and "forward" in root[1].text


def test_what_the_chart_says_stands_under_the_axes_and_inside_the_picture():
    pytest.importorskip("matplotlib")
    says = "A loss above 3 is drawn at 3, and a < b, " + "word " * 40
    bare, captioned = chart(LINES, "n", "s").figure(), chart(LINES, "n", "s", says=says).figure()
    for figure in (bare, captioned):
        figure.draw_without_rendering()
    caption = captioned.get_supxlabel()
    assert " ".join(caption.split()) == says.strip() and caption.count("\n") >= 2 and bare.get_supxlabel() == ""
    box, paper = captioned.texts[-1].get_window_extent(), captioned.bbox
    assert paper.x0 < box.x0 and box.x1 < 0.97 * paper.x1 and paper.y0 < box.y0
    assert box.y1 < captioned.axes[0].xaxis.label.get_window_extent().y0
    heights = [figure.axes[0].get_window_extent().height for figure in (bare, captioned)]
    assert heights[1] > 0.95 * heights[0]
    drawn = ElementTree.fromstring(chart(LINES, "n", "s", says=says).svg())
    texts = [t for e in drawn.iter("{http://www.w3.org/2000/svg}text") if (t := "".join(e.itertext()).strip())]
    assert says.strip() in " ".join(texts)


def test_measured_numbers_stay_out_of_the_words():
    words = repr(chart(LINES, "n", "seconds", measured=True, says="forward grows."))
    assert not re.search(r"\d", words) and "forward grows." in words and "measured" in words


def test_lines_are_told_apart_without_colour():
    assert len(set(map(str, STYLES))) == len(STYLES)
    with pytest.raises(ValueError, match="tells 6 lines apart, got 7"):
        chart({str(k): ([1], [1]) for k in range(7)}, "x", "y")


def test_lines_of_unequal_length_are_refused_by_name():
    with pytest.raises(ValueError, match="'f' has 2 xs and 1 ys"):
        chart({"f": ([1, 2], [1])}, "x", "y")


def test_long_lines_are_thinned_in_words_with_both_ends():
    words = repr(chart({"f": (range(100), range(100))}, "x", "y")).splitlines()
    assert len(words) == 14 and words[2].startswith("0") and words[-1].startswith("99")


def test_without_matplotlib_there_are_words(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert list(chart(LINES, "n", "s")._repr_mimebundle_()) == ["text/plain"]
