"""The lessons: their parts, stored outputs and reference numbers; links lead somewhere; nothing is machine-bound."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlparse

import nbformat
import pytest

from autodiff import drawing
from autodiff.course import setup_check as setup
from autodiff.course.setup_check import setup_check, widget_check

ROOT = Path(__file__).resolve().parent.parent
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WIDGET = "application/vnd.jupyter.widget-view+json"
PARTS = ["## Where others differ", "## The mistake people make, and its fingerprint", "## Three lines to remember",
         "## Exercise", "## Sources"]
every_lesson = pytest.mark.parametrize("path", LESSONS, ids=[path.stem for path in LESSONS])


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def prose(path):
    return "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")


def output_text(cell):
    """What a reader without widgets sees as text."""
    texts = [o.text if o.output_type == "stream" else o.get("data", {}).get("text/plain", "") for o in cell.outputs]
    return "".join(texts)


def stored(name, cell_id):
    [cell] = [cell for cell in read(ROOT / "notebooks" / name).cells if cell.id == cell_id]
    return output_text(cell)


def shows_something(cell):
    """Whether the last statement prints or has a value to show."""
    tree = ast.parse(cell.source)
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return isinstance(tree.body[-1], ast.Expr) or "print" in calls


# Parts


def test_all_seventeen_lessons_are_there():
    assert [path.name[:2] for path in LESSONS] == [f"{number:02}" for number in range(17)]


@every_lesson
def test_each_lesson_leads_on_to_the_next(path):
    following = [other.name for other in LESSONS if other.name > path.name][:1]
    exercise = prose(path).split("\n## Exercise\n")[1].split("\n## ")[0]
    assert all(f"]({name})" in exercise for name in following)


@every_lesson
def test_no_output_is_large(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            assert len(str(output)) < 200_000, cell.id


# The glossary

GLOSSARY = ROOT / "notebooks" / "GLOSSARY.md"


def glossary():
    """{place: (term, lesson that introduces it)}"""
    entries = re.findall(r"^### ([^\n]+)\n+(.*?)(?=^##|\Z)", GLOSSARY.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {term.lower().replace(" ", "-"): (term, re.findall(r"\(Lesson \[(\d\d)\]", text)) for term, text in entries}


def test_each_term_of_the_glossary_has_an_example_and_a_lesson_and_none_stands_twice():
    text = GLOSSARY.read_text(encoding="utf-8")
    terms = re.findall(r"^### (.+)$", text, flags=re.M)
    assert len(terms) == len(set(terms)) >= 70
    for term, body in re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", text, flags=re.M | re.S):
        assert "Example: " in body or "below" in body, term
    assert all(len(lessons) == 1 for _, lessons in glossary().values())
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (GLOSSARY.parent / link).exists(), link


@every_lesson
def test_links_to_the_glossary_lead_to_a_term(path):
    places = glossary()
    linked = re.findall(r"GLOSSARY\.md#([\w-]+)", prose(path))
    assert [place for place in linked if place not in places] == []


# Phrases in which the word is not the term of the glossary.
OTHER_SENSE = {"history": "git history"}
FORMS = {"pruning": r"prun(?:ing|es?|ed)", "detach": r"detach(?:e[sd])?", "no_grad": "no_grad"}


def reading_text(cell):
    """What is read on the way through a lesson: no headings, formulas or addresses, and no code but a term alone."""
    text = re.sub(r"^#[^\n]*$|```.*?```|\$\$.*?\$\$|\$[^$\n]*\$", " ", cell.source, flags=re.M | re.S)
    text = re.sub(r"`(?:ad\.)?(\w+)(?:\(\))?`", r" \1 ", text)
    text = re.sub(r"`[^`]*`", " ", text)
    return re.sub(r"\[([^\]]*)\]\(([^)]*)\)", lambda m: m[1] if "GLOSSARY" in m[2] else " ", text)


def first_use(term):
    """(lesson, cell) where a reader meets the term first, after the opening and before exercise and sources."""
    word = FORMS.get(term, re.escape(term).replace(r"\ ", r"\s+").replace(r"\-", "[-–]") + "(?:e?s)?")
    case = 0 if term in ("Var", "Tensor", "NaN") else re.I  # names of the code; a tensor is also a thing of others
    for path in LESSONS:
        for cell in read(path).cells:
            if cell.cell_type == "markdown" and not cell.source.startswith(("## Exercise", "## Sources")):
                text = reading_text(cell).split("Before you begin")[-1].replace(OTHER_SENSE.get(term, "\0"), " ")
                if re.search(rf"(?<![\w.]){word}(?!\w)", text, flags=case):
                    return path.name[:2], cell
    raise AssertionError(f"no lesson uses {term!r}")


@pytest.mark.parametrize("place", glossary())
def test_each_term_is_linked_where_it_is_used_first(place):
    term, [lesson] = glossary()[place]
    used, cell = first_use(term)
    assert (lesson, f"GLOSSARY.md#{place})" in cell.source) == (used, True), f"{used}, {cell.id}: {cell.source}"


def test_a_lesson_with_more_on_a_term_links_it_too():
    text = GLOSSARY.read_text(encoding="utf-8")
    later = re.findall(r"^### ([^\n]+)\n[^#]*?more in \[(\d\d)\]", text, flags=re.M)
    assert len(later) >= 10
    assert [(term, lesson) for term, lesson in later if f"GLOSSARY.md#{term.lower().replace(' ', '-')})" not in
            prose(next(p for p in LESSONS if p.name.startswith(lesson)))] == []


@every_lesson
def test_opens_with_what_the_reader_needs_to_know(path):
    first = read(path).cells[0]
    assert first.cell_type == "markdown" and first.source.startswith(f"# {path.stem[:2]} · ")
    assert "**You will be able to**" in first.source and "**You need**" in first.source
    assert re.search(r"\*\*Time\*\* \d+ minutes", first.source)
    assert len(re.findall(r"^- ", first.source, flags=re.M)) >= 3


@every_lesson
def test_ends_with_its_parts_in_order(path):
    text = prose(path)
    assert [line for line in text.splitlines() if line in PARTS] == PARTS
    remember = text.split(PARTS[2])[1].split("\n## ")[0]
    assert re.findall(r"^\d\.", remember, flags=re.M) == ["1.", "2.", "3."]


@every_lesson
def test_predictions_have_a_place_to_type_and_a_folded_answer(path):
    cells = read(path).cells
    questions = [i for i, cell in enumerate(cells) if cell.cell_type == "markdown" and "### Predict" in cell.source]
    assert questions
    for i in questions:
        assert "?" in cells[i].source
        assert cells[i + 1].cell_type == "code" and "your prediction" in cells[i + 1].source.lower()
        assert cells[i + 2].source.startswith("<details>") and cells[i + 2].source.endswith("</details>")
        names = [n.id for n in ast.walk(ast.parse(cells[i + 1].source)) if isinstance(n, ast.Name)]
        used = " ".join(cell.source for cell in cells[i + 3 :] if cell.cell_type == "code")
        assert all(name in used for name in names), f"{names}: the prediction is never shown beside the result"


@every_lesson
def test_graphs_are_drawn_and_one_is_stepped(path):
    code = "\n".join(cell.source for cell in code_cells(path))
    assert "ad.draw(" in code and "ad.step(" in code


@every_lesson
def test_cells_are_short(path):
    for cell in code_cells(path):
        lines = cell.source.splitlines()
        assert len(lines) <= 25, cell.id
        assert max(map(len, lines)) <= 88, cell.id  # more scrolls sideways


@every_lesson
def test_details_are_closed(path):
    text = prose(path)
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>") == text.count("</summary>")


@every_lesson
def test_says_first_how_to_hide_the_answers(path):
    assert "Edit > Clear Outputs of All Cells" in read(path).cells[0].source


@every_lesson
def test_names_only_lessons_that_exist(path):
    numbers = {other.stem[:2] for other in LESSONS}
    assert set(re.findall(r"[Ll]essons? \[?(\d\d)\b", prose(path))) <= numbers


@every_lesson
def test_gives_the_minutes_that_the_exercise_page_gives(path):
    exercise = prose(path).split("\n## Exercise\n")[1].split("\n## ")[0]
    for paragraph in exercise.split("\n\n"):
        for minutes in re.findall(r"About (\d+) minutes", paragraph):
            [page] = re.findall(r"\.\./exercises/(\w+\.ipynb)", paragraph)
            assert f"**Time** about {minutes} minutes" in prose(ROOT / "exercises" / page)


@every_lesson
def test_pictures_fit_on_the_page(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            picture = output.get("data", {}).get("image/svg+xml", "")
            for tag in re.findall(r"<svg[^>]*>", picture):
                [(number, unit)] = re.findall(r' width="([\d.]+)(pt|px|)"', tag)
                # What JupyterLab shows in a window of 1280 pixels.
                assert float(number) * (4 / 3 if unit == "pt" else 1) <= 853.4, cell.id


# The teacher's guide


@every_lesson
def test_the_teachers_guide_has_every_part_for_each_lesson(path):
    guide = (ROOT / "notebooks" / "TEACHING.md").read_text(encoding="utf-8")
    title = prose(path).splitlines()[0].removeprefix("# ")
    [minutes] = re.findall(r"\*\*Time\*\* (\d+) minutes", prose(path))
    heading = f"## {title} ({minutes} minutes)\n"
    assert heading in guide
    part = guide.split(heading)[1].split("\n## ")[0]
    for word in ("**Ask**", "**They will answer**", "**Board**", "**Live**", "**20 minutes**", "**45**"):
        assert word in part, word


def test_every_week_of_the_term_plan_fits_its_minutes_and_lessons_come_in_order():
    guide = (ROOT / "notebooks" / "TEACHING.md").read_text(encoding="utf-8")
    minutes = {n: int(m) for n, m in re.findall(r"^## (\d\d) · .+ \((\d+) minutes\)$", guide, flags=re.M)}
    plan = guide.split("### One term")[1].split("\n## ")[0]
    weeks = [(week, re.findall(r"\b\d\d\b", what.split(", then")[0].replace("45-minute", "")), "45-minute" in what)
             for week, what in re.findall(r"^\| (\d+) \| ([^|]+) \|", plan, flags=re.M)]
    assert [int(week) for week, _, _ in weeks] == list(range(1, 15))
    assert [lesson for _, lessons, _ in weeks for lesson in lessons] == sorted(minutes) == [p.name[:2] for p in LESSONS]
    assert [week for week, lessons, short in weeks if sum(45 if short else minutes[n] for n in lessons) > 90] == []


# Stored form


@every_lesson
def test_notebook_metadata_is_stable(path):
    notebook = read(path)
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    assert notebook.metadata.get("language_info", {"name": "python"}) == {"name": "python"}
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-z0-9-]+", i) for i in ids)
    assert all(set(cell.metadata) <= {"tags"} for cell in notebook.cells)


@every_lesson
def test_outputs_are_stored(path):
    for count, cell in enumerate(code_cells(path), 1):
        assert cell.execution_count == count, f"{cell.id}: run all cells from the top (make notebooks)"
        assert all(o.output_type != "error" for o in cell.outputs), cell.id
        assert all(o.get("name") != "stderr" for o in cell.outputs), cell.id
        if shows_something(cell):
            assert cell.outputs, cell.id


@every_lesson
def test_reads_well_with_widgets_switched_off(path):
    for cell in code_cells(path):
        assert all(WIDGET not in o.get("data", {}) for o in cell.outputs), cell.id
        if "ad.step(" in cell.source or "ad.draw(" in cell.source:
            assert len(output_text(cell)) > 40, f"{cell.id}: no text alternative"


@every_lesson
def test_names_no_machine(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.:/~-])/(home|root|tmp|Users|usr|opt|var|mnt|srv|workspace)/", text)
    assert not re.search(r"0x[0-9a-f]{8,}", text)


@every_lesson
def test_links_lead_somewhere(path):
    text = prose(path)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert any(link.startswith("https://") for link in links)
    for link in links:
        if urlparse(link).scheme:
            assert urlparse(link).scheme == "https" and "." in urlparse(link).netloc, link
        else:
            assert (path.parent / link.split("#")[0]).exists(), link


WITHOUT_WIDGETS = """
import sys
from importlib.machinery import PathFinder


class WithoutWidgets(PathFinder):
    @classmethod
    def find_spec(cls, name, *rest):
        return None if name.split(".")[0] in ("ipywidgets", "anywidget") else super().find_spec(name, *rest)


sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutWidgets
"""


@pytest.mark.thorough
def test_lessons_give_the_same_text_where_widgets_are_not_installed(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_WIDGETS, encoding="utf-8")
    ours = {"AUTODIFF_REQUIRE", "PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"}
    env = {name: value for name, value in os.environ.items() if name not in ours} | {"PYTHONPATH": str(tmp_path)}
    python = [sys.executable, "-c", "import ipykernel, comm; import anywidget"]
    assert "No module named 'anywidget'" in subprocess.run(python, env=env, capture_output=True, text=True).stderr
    lessons = [str(path) for path in LESSONS if path.name[:2] in ("00", "01", "05", "14")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *lessons]
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    cells = sum(len(code_cells(ROOT / lesson)) for lesson in lessons)
    assert ran.returncode == 0 and f"{cells} passed" in ran.stdout, ran.stdout + ran.stderr


def test_nbval_leaves_out_four_cells_only_and_two_show_a_complete_set_up():
    """nbval leaves out what differs where widgets are absent; what these cells say has tests of its own below."""
    ignored = {cell.id for path in LESSONS for cell in code_cells(path)
               if "nbval-ignore-output" in cell.metadata.get("tags", [])}
    assert ignored == {"check", "widget", "progress", "v-lab"}
    assert "Everything is ready." in stored("00_start_here.ipynb", "check")
    assert "IntSlider(value=3" in stored("00_start_here.ipynb", "widget")


# The reference numbers, as the lessons show them (nbval proves that the stored outputs are what the code gives)


@pytest.mark.parametrize("name, cell, expected", [
    ("00_start_here.ipynb", "backward", ["gradient of L at x: 3.0", "gradient of L at y: 3.0"]),
    ("00_start_here.ipynb", "step", ["7     accumulate    L -> x   x: 1", "11    accumulate    n2 -> x  x: 1 + 2 = 3"]),
    ("01_the_shared_node.ipynb", "nudge", ["slope in x: 54.0", "slope in y: 54.0"]),
    ("01_the_shared_node.ipynb", "scalar-run", [
        "L  value  81   gradient   1", "u  value   9   gradient  18", "x  value   3   gradient  54",
        "y  value   2   gradient  54"]),
    ("01_the_shared_node.ipynb", "scalar-shares", [
        "L -> u   slot 1   share   9", "L -> u   slot 2   share   9", "u -> x   slot 2   share  18",
        "p -> x   slot 1   share  36", "p -> y   slot 2   share  54"]),
    ("01_the_shared_node.ipynb", "numpy-run", [
        "u  value   9   gradient  18", "x  value   3   gradient  54", "y  value   2   gradient  54", "L  value  81"]),
    ("01_the_shared_node.ipynb", "power", ["u 18.0   x 54.0   y 54.0"]),
    ("01_the_shared_node.ipynb", "overwrite-run", [
        "u * u   slot 1, 2    9   9  27", "u * u   slot 2, 1    9  18  27", "u ** 2  slot 1, 2   18  18  54",
        "u ** 2  slot 2, 1   18  36  54", "right               18  54  54"]),
    ("01_the_shared_node.ipynb", "overwrite-sorted", [
        "u * u   overwriting       9  18  27", "u * u   adding           18  54  54",
        "u ** 2  overwriting      18  36  54", "u ** 2  adding           18  54  54"]),
    ("01_the_shared_node.ipynb", "edges-run", [
        "every edge        -6.0", "repeated removed  -3.0", "autodiff          -6.0"]),
    ("01_the_shared_node.ipynb", "edges-large", [
        "u 18.0  x 54.0  y 54.0", "u 9.0  x 27.0  y 27.0", "depth first 11   each node once 5"]),
    ("01_the_shared_node.ipynb", "others-run", ["54.0 54.0", "u in the store without keep: False"]),
    ("03_an_order_to_work_in.ipynb", "naive-run", [
        " 2       3        7          4", "10      11     2047       1024", "15      16    65535      32768"]),
    ("03_an_order_to_work_in.ipynb", "years", [
        "2,305,843,009,213,693,951", "more than 1000 years on this computer: True"]),
    ("03_an_order_to_work_in.ipynb", "early-run", ["too early: 20.0   autodiff: 36.0"]),
    ("03_an_order_to_work_in.ipynb", "order-run", ["gradient of x: 36.0"]),
    ("03_an_order_to_work_in.ipynb", "sixty-run", [
        "nodes and edges: (61, 120)", "gradient: 1.1529215e+18", "exactly 2**60: True"]),
    ("03_an_order_to_work_in.ipynb", "memo-run", [
        "['add', 'multiply', 'x']", "['add', 'x']", "gradient 7.0   without multiply 1.0"]),
    ("03_an_order_to_work_in.ipynb", "memo-no", ["keeps yes and no: 31   keeps only yes: 65535", "sorted_nodes: []"]),
    ("03_an_order_to_work_in.ipynb", "prune-run", ["['sum', 'add', 'x']", "gradient [1. 1.]"]),
    ("03_an_order_to_work_in.ipynb", "absent", ["only reached through Tensor = ceil(...)"]),
    ("03_an_order_to_work_in.ipynb", "deep-run", [
        "recursion: RecursionError", "explicit stack: 100001 nodes, gradient 1.0"]),
    ("03_an_order_to_work_in.ipynb", "deep-autodiff", ["100001 nodes, gradient 1.0"]),
])
def test_reference_numbers(name, cell, expected):
    text = stored(name, cell)
    assert [part for part in expected if part not in text] == []


# The set-up check of lesson 00


def by_name(report):
    return {line.name: line for line in report.lines}


def test_setup_check_says_the_same_on_every_complete_machine(monkeypatch):
    monkeypatch.setattr(setup, "_notebook", lambda: setup.Line("Notebook", True, "a Jupyter kernel"))
    for name in ("_widgets", "_pictures", "_plots", "_progress"):
        monkeypatch.setattr(setup, name, lambda name=name: setup.Line(name, True, "x"))
    report = setup_check()
    assert report and report.headline == "Everything is ready." and report.after == []
    assert not re.search(r"\d", report.text())


@pytest.mark.parametrize("absent, line, word", [
    ("ipywidgets", "Widgets", "still pictures"),
    ("jupyterlab_widgets", "Widgets", "still pictures"),
    ("anywidget", "Widgets", "still pictures"),
])
def test_setup_check_says_what_to_do(monkeypatch, absent, line, word):
    real = setup.find_spec
    monkeypatch.setattr(setup, "find_spec", lambda name: None if name == absent else real(name))
    report = setup_check()
    assert not report and not by_name(report)[line].ok
    assert line in report.headline and word in " ".join(report.text().split())
    assert 'python -m pip install -e ".[course]"' in report.text() and "make lab" in report.text()


@pytest.mark.parametrize("renderer, ok, detail", [
    ("dot", True, "the program dot"), ("wasm", True, "WebAssembly"), (None, False, "nothing that draws"),
])
def test_setup_check_of_pictures(monkeypatch, renderer, ok, detail):
    monkeypatch.setattr(drawing, "renderer", lambda: renderer)
    report = setup_check(details=True)
    assert by_name(report)["Pictures"].ok is ok and detail in by_name(report)["Pictures"].detail
    assert ok or "text instead of pictures" in report.text()


def test_setup_check_outside_a_notebook():
    line = by_name(setup_check())["Notebook"]
    assert not line.ok and "make lab" in line.advice


def test_setup_check_of_an_old_numpy(monkeypatch):
    monkeypatch.setattr(setup, "version", lambda package: "1.26.4")
    lines = by_name(setup_check(details=True))
    assert not lines["NumPy"].ok and "1.26.4" in lines["NumPy"].detail and "NumPy 2" in lines["NumPy"].advice
    assert not lines["Widgets"].ok or setup.find_spec("ipywidgets") is None


def test_setup_check_of_a_progress_file_that_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.setenv("AUTODIFF_PROGRESS", str(tmp_path / "mine" / "progress.json"))
    assert by_name(setup_check())["Progress file"].ok
    monkeypatch.setattr(setup.os, "access", lambda path, mode: False)
    line = by_name(setup_check(details=True))["Progress file"]
    assert not line.ok and str(tmp_path) in line.detail and "AUTODIFF_PROGRESS" in line.advice


def test_widget_check(monkeypatch):
    widgets = pytest.importorskip("ipywidgets")
    assert isinstance(widget_check(), widgets.IntSlider)
    with monkeypatch.context() as broken:
        broken.setitem(sys.modules, "ipywidgets", None)
        assert "no slider" in repr(widget_check())
    monkeypatch.setattr(setup, "find_spec", lambda name: None)
    assert "no slider" in repr(widget_check()) and "pip install" in repr(widget_check())
