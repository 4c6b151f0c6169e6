"""What lessons say: claims that trials found false, answers that stood before their question, names used twice."""

import json
import pathlib
import re

import numpy as np
import pytest

import autodiff as ad

ROOT = pathlib.Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
PAGES = LESSONS + sorted((ROOT / "solutions").glob("[0-9][0-9]_*.ipynb"))


def cells(path):
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in found]


def lesson(number: str):
    (path,) = [path for path in LESSONS if path.name.startswith(number)]
    return [text for _, text in cells(path)]


def shown_before(number: str, question: str) -> str:
    """All that a reader sees of a lesson before its answer to a question: the cells up to the fold below it."""
    texts = lesson(number)
    (at,) = [i for i, text in enumerate(texts) if question in text]
    return "\n".join(re.sub(r"<details>.*?</details>", "", text, flags=re.S) for text in texts[: at + 1])


def test_30_a_broadcast_reads_its_row_and_copies_nothing():
    row = np.arange(3.0)
    wide = np.broadcast_to(row, (4, 3))
    assert wide.strides == (0, row.itemsize) and np.shares_memory(wide, row)
    recorded = (ad.Var(np.zeros((4, 3))) + ad.Var(row)).op.inputs[1]
    assert recorded.data.strides[0] == 0
    for path in PAGES:
        text = "\n".join(text for _, text in cells(path))
        assert not re.search(r"NumPy (has )?cop(ies|ied)|copies the row", text), path.name


@pytest.mark.parametrize("name, f", [("entropy", lambda p: -p * np.log(p)), ("sqrt", np.sqrt)])
def test_30_where_a_double_where_gives_0_the_slope_from_the_right_is_infinite(name, f):
    slopes = [(f(2 * h) - f(h)) / h for h in (1e-4, 1e-8, 1e-12)]
    assert slopes[0] < slopes[1] < slopes[2] and slopes[2] > 20
    text = "\n".join(lesson("12"))
    assert "their slope at 0 is infinite" in text and "at p = 0 its slope is +∞" in text


def test_30_lesson_05_says_that_the_engine_has_reverse_mode_only_as_long_as_that_is_so():
    forward = hasattr(ad, "forward")
    assert ("The engine itself has reverse mode only" in "\n".join(lesson("05"))) is not forward


@pytest.mark.parametrize("number, question, answer", [
    ("02", "How many boxes has the picture of `h`", r"none\?|has no box"),
    ("04", "Which product has this shape?", r"B\.T"),
    ("08", "Cut only the edge by which", r"labs\.detach\("),
    ("12", "The right gradient of `w` is 4", r"exactly 2|Doubled"),
    ("12", "Both weights start at 0. What are the two gradients?", r"exactly 0"),
    ("12", "Which gradient does the\nengine report?", r"gradients are NaN|NaN behind"),
    ("12", "Which gradient does the formula give?", r"Symptom.\*\* NaN or ∞"),
    ("12", "And what does this engine do?", r"Here an error"),
    ("12", "We compute the loss *at the exact solution*", r"the average of everything|too high|Wrong broadcast"),
    ("13", "Which of the three\nends there?", r"1\.667"),
])  # fmt: skip
def test_31_no_answer_stands_before_its_question(number, question, answer):
    assert not re.search(answer, shown_before(number, question))


def test_31_the_first_page_gives_no_lessons_answer_away():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    picture = (ROOT / "notebooks" / "images" / "shared_node.svg").read_text(encoding="utf-8")
    assert not re.search(r"\b(54|108|61|36 \+ 18)\b", readme)
    assert set(re.findall(r"gradient (\S+)<", picture)) == {"?", "1"}


def test_32_no_lesson_gives_one_of_the_courses_own_names_to_something_else():
    for path in PAGES:
        code = "\n".join(text for kind, text in cells(path) if kind == "code")
        for name in ("check", "given", "hint", "mark", "progress"):
            assert not re.search(rf"^def {name}\(|^{name} = ", code, flags=re.M), (path.name, name)


def test_32_the_text_of_exercise_17_speaks_of_what_its_board_shows():
    from autodiff.course.capstone import board

    text = "\n".join(text for _, text in cells(ROOT / "solutions" / "17_build_your_own_engine.ipynb"))
    assert not re.search(r"\b[Rr]ed\b|\bgreen\b|line \d\d", text)
    rows = board({}).table.rows
    assert {row[-1].partition(":")[0] for row in rows} <= {"passed", "failed", "ours"}
    assert "the line of `RULES`" in text and any(row[1] == "RULES" for row in rows)


def test_the_texts_name_an_absent_gradient_and_a_lost_history_as_a_traceback_does():
    x = ad.Var(3.0)
    with pytest.raises(ad.MissingGradientError):
        ad.Var(1.0).backward()[x]
    with pytest.raises(ad.HistoryLostError):
        float(x)
    for path in PAGES:
        text = "\n".join(text for kind, text in cells(path) if kind == "markdown")
        misnamed = r"KeyError(: no gradient|`: )|TypeError[^|]*turned into a|`KeyError`, `None`"
        assert not re.search(misnamed, text), path.name
