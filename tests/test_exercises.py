"""The exercises keep their promises, and the proofs of this can fail.

Each exercise is run in a real kernel, as the learner gets it and as its master. Wrong answers are substituted in
process, which is fast.
"""

import functools
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from autodiff.course import api, generate, prove
from autodiff.course.judge import Task
from autodiff.course.result import NOT_STARTED, PASSED, Result

ROOT = Path(__file__).resolve().parent.parent
MASTERS = sorted((ROOT / "solutions").glob("*.ipynb"))
NAMES = [path.name for path in MASTERS]
PLANTED = "02_one_edge_twice.ipynb"  # the exercise that proofs are tried on
# A kernel takes seconds to start. CI runs every page in one; elsewhere this one, and all of them in this process.
IN_A_KERNEL = NAMES if os.environ.get("AUTODIFF_THOROUGH") else [PLANTED]
WRONG = [(name, wrong) for name in NAMES for wrong in prove.wrong_answers(name[:2])]


def read(folder, name):
    return nbformat.read(ROOT / folder / name, as_version=4)


def tasks_of(name):
    return {k: t for k, t in api.tasks().items() if k.startswith(name[:2] + ".")}


def cell_of(notebook, task):
    return next(cell for cell in notebook.cells if prove.task_of(cell) == task)


# The promises


def test_every_exercise_is_in_step_with_its_master():
    assert NAMES and generate.generate(ROOT, check=True) == ([], [])


def test_every_exercise_with_checks_has_a_master_and_the_other_way_round():
    assert sorted({task.split(".")[0] for task in api.tasks()}) == [name[:2] for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_each_task_is_checked_once_in_the_cell_of_its_answer(name):
    tasks = tasks_of(name)
    for folder in ("solutions", "exercises"):
        assert prove.tasks_checked_once(read(folder, name), tasks) == []
    for task in tasks:
        assert generate.answer_of(cell_of(read("solutions", name), task).source)


@pytest.mark.parametrize("name", IN_A_KERNEL)
def test_the_stub_fails_every_check_and_nothing_else_in_a_kernel(name, tmp_path):
    statuses, errors = prove.executed(read("exercises", name), tmp_path)
    assert errors == [] and statuses == dict.fromkeys(tasks_of(name), NOT_STARTED)
    assert list(tmp_path.iterdir()) == [], "an exercise that CI runs writes nothing"


@pytest.mark.parametrize("name", IN_A_KERNEL)
def test_the_solution_passes_in_a_kernel(name, tmp_path):
    statuses, errors = prove.executed(read("solutions", name), tmp_path)
    assert errors == [] and statuses == dict.fromkeys(tasks_of(name), PASSED)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_stub_and_solution_in_process_too(name):
    assert prove.stub_fails_at_the_stub(read("exercises", name), tasks_of(name)) == []
    assert prove.solution_passes(read("solutions", name), tasks_of(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_each_fault_has_a_known_wrong_answer(name):
    assert prove.faults_are_proved(tasks_of(name), prove.wrong_answers(name[:2])) == []


@pytest.mark.parametrize("name, wrong", WRONG, ids=[f"{w.task}-{w.fault}-{i}" for i, (_, w) in enumerate(WRONG)])
def test_each_wrong_answer_gets_its_own_diagnosis_and_no_other(name, wrong):
    text, problems = prove.diagnosed(read("solutions", name), wrong)
    assert problems == []
    titles = [f.title for f in api.tasks()[wrong.task].faults if f": {f.title}\n" in text]
    assert titles == [api.tasks()[wrong.task].fault(wrong.fault).title]
    assert "Look at next: " in text


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_answer_stops_nothing_below_it(name):
    """The first task's, as it has the most below it."""
    master, wrong = read("solutions", name), prove.wrong_answers(name[:2])[0]
    results, errors = prove.run_cells(master, prove.substitute(master, wrong))
    assert errors == [] and results.keys() == tasks_of(name).keys() and not results[wrong.task]


def test_one_wrong_answer_in_a_kernel_stops_nothing_below_it(tmp_path):
    name, wrong = next((n, w) for n, w in WRONG if (w.task, w.fault) == ("02.c", "one-edge"))
    master = read("solutions", name)
    for cell_id, source in prove.substitute(master, wrong).items():
        next(cell for cell in master.cells if cell.id == cell_id).source = source
    statuses, errors = prove.executed(master, tmp_path)
    assert errors == [] and statuses == {"02.a": PASSED, "02.b": PASSED, "02.c": "not right"}


# How a page is written


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folder", ["solutions", "exercises"])
def test_a_page_has_every_part(folder, name):
    notebook = read(folder, name)
    text = "\n".join(cell.source for cell in notebook.cells)
    for part in ("**One skill**", "**Time** about", "minutes", "**You need**", "## Help, I get ...", "## Think back",
                 "## Mark it yourself", "## Three lines to remember", "## Sources", 'hint("', "mark("):
        assert part in text, part
    assert sum(line.startswith(("1. ", "2. ", "3. ", "4. ")) for line in text.splitlines()) == 3
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) <= 25, cell.id
        assert all(len(line) <= 160 for line in cell.source.splitlines()), cell.id
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folder", ["solutions", "exercises"])
def test_links_between_pages_lead_somewhere(folder, name):
    for cell in read(folder, name).cells:
        for target in re.findall(r"\]\(([^)]+)\)", cell.source if cell.cell_type == "markdown" else ""):
            if not target.startswith("https://"):
                assert (ROOT / folder / target).resolve().exists(), target


@pytest.mark.parametrize("name", NAMES)
def test_no_answer_is_left_in_the_exercise(name):
    master, exercise = read("solutions", name), read("exercises", name)
    source = "\n".join(cell.source for cell in exercise.cells)
    assert "SOLUTION" not in source and "AUTODIFF_PROGRESS" not in source
    for cell in master.cells:
        region = generate.answer_of(cell.source) if cell.cell_type == "code" else None
        for line in (region["answer"].splitlines() if region else ()):
            # A line of the answer may be part of a hint's or a page's own wording only when it is very short.
            assert len(line.strip()) < 12 or line.strip() not in source, line
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in exercise.cells)
    assert any(cell.get("outputs") for cell in master.cells), "a master is stored with its outputs"


# The proofs themselves, with planted failures


@pytest.fixture
def page():
    return read("exercises", PLANTED)


@pytest.fixture
def master():
    return read("solutions", PLANTED)


TASKS = tasks_of(PLANTED)


def plant(monkeypatch, task):
    """Put another task in the place of the course's own."""
    real = api._find
    monkeypatch.setattr(api, "_find", lambda task_id: task if task_id == task.id else real(task_id))


def test_a_stub_that_passes_a_check_is_found(page, master):
    cell_of(page, "02.b").source = cell_of(master, "02.b").source
    assert prove.stub_fails_at_the_stub(page, TASKS) == ["02.b: passed, expected not started yet"]


def test_a_stub_that_breaks_another_cell_is_found(page, tmp_path):
    page.cells.append(nbformat.v4.new_code_cell("mul_backward(y, 1.0)", id="planted"))
    for problems in (prove.stub_fails_at_the_stub(page, TASKS), prove.executed(page, tmp_path)[1]):
        (problem,) = problems
        assert problem.startswith("cell planted raised NotImplementedError")


def test_a_check_that_is_not_the_last_line_is_found(page):
    cell_of(page, "02.b").source += "\nNone"
    (problem,) = prove.stub_fails_at_the_stub(page, TASKS)
    assert problem == "02.b: no check was run, or it is not the last line of its cell"


def test_a_solution_that_fails_is_found(page, master):
    cell_of(master, "02.c").source = cell_of(page, "02.c").source
    assert prove.solution_passes(master, TASKS) == ["02.c: not started yet, expected passed"]


def test_a_missing_and_a_doubled_check_are_found(page):
    copy = nbformat.from_dict(cell_of(page, "02.b"))
    page.cells = [cell for cell in page.cells if prove.task_of(cell) != "02.a"] + [copy]
    found = prove.tasks_checked_once(page, TASKS)
    assert found == ["02.a: 0 check cells, expected 1", "02.b: 2 check cells, expected 1"]
    assert prove.tasks_checked_once(page, {}) == ["02.b: 2 check cells, expected 0", "02.c: 1 check cells, expected 0"]


def test_a_check_without_a_fault_is_found():
    bare = {"02.b": replace(TASKS["02.b"], faults=())}
    assert "02.b: a check without a named fault" in prove.faults_are_proved(bare, [])


def test_a_fault_without_a_wrong_answer_and_the_other_way_round_are_found():
    wrongs = [w for w in prove.wrong_answers("02") if (w.task, w.fault) != ("02.b", "own-value")]
    assert prove.faults_are_proved(TASKS, wrongs) == ["02.b own-value: no known wrong answer"]
    planted = [*prove.wrong_answers("02"), prove.WrongAnswer("02.b", "nonsense", ""),
               prove.WrongAnswer("07.x", "any", "")]
    assert prove.faults_are_proved(TASKS, planted) == ["02.b nonsense: a wrong answer for an unknown fault",
                                                       "07.x: a wrong answer for an unknown task"]


def test_two_faults_with_the_same_words_are_found():
    first, second, *rest = TASKS["02.b"].faults
    twins = {"02.b": replace(TASKS["02.b"], faults=(first, replace(second, title=first.title), *rest))}
    (problem,) = prove.faults_are_proved(twins, [w for w in prove.wrong_answers("02") if w.task == "02.b"])
    assert "two faults say the same" in problem


def test_a_wrong_answer_with_another_diagnosis_is_found(master):
    right = "a, b = node.inputs\nreturn [(a, g * b.value), (b, g * a.value)]"
    swapped = "return [(n, g * n.value) for n in node.inputs]"
    strange = "a, b = node.inputs\nreturn [(a, g * b.value + 1), (b, g * a.value)]"
    for source, found in ((right, "passed"), (swapped, "own-value"), (strange, "not right")):
        wrong = prove.WrongAnswer("02.b", "merged", source)
        assert prove.diagnosed(master, wrong)[1] == [f"02.b merged: diagnosed as {found}"]
    broken = prove.WrongAnswer("02.b", "merged", "return (")
    assert "SyntaxError" in prove.diagnosed(master, broken)[1][0]
    nowhere = prove.WrongAnswer("09.z", "x", "")
    assert prove.diagnosed(master, nowhere)[1] == ["09.z: the master has no answer to replace"]


def test_a_check_that_no_longer_recognises_a_fault_is_found(master, monkeypatch):
    """A check that has lost one fault still passes the solution, and only the proof of that fault fails."""
    task = TASKS["02.b"]
    lame = replace(task, faults=tuple(replace(f, answers=()) if f.id == "own-value" else f for f in task.faults))
    plant(monkeypatch, lame)
    assert prove.solution_passes(master, TASKS) == []
    wrong = next(w for w in prove.wrong_answers("02") if w.fault == "own-value")
    assert prove.diagnosed(master, wrong)[1] == ["02.b own-value: diagnosed as not right"]


def test_a_check_that_passes_everything_is_found(master, page, monkeypatch):
    def lenient(attempt):
        return Result("02.b  passed", task="02.b", status=PASSED)

    plant(monkeypatch, replace(TASKS["02.b"], judge=lenient))
    assert prove.stub_fails_at_the_stub(page, TASKS) == ["02.b: passed, expected not started yet"]
    wrong = next(w for w in prove.wrong_answers("02") if w.task == "02.b")
    assert prove.diagnosed(master, wrong)[1] == [f"02.b {wrong.fault}: diagnosed as passed"]


def test_a_check_that_breaks_is_no_diagnosis(master, monkeypatch):
    broken = Task("02.b", "t", ("f",), functools.partial(math.sqrt, -1), TASKS["02.b"].faults, ("", "", ""), "")
    plant(monkeypatch, broken)
    wrong = next(w for w in prove.wrong_answers("02") if w.task == "02.b")
    assert prove.diagnosed(master, wrong)[1] == [f"02.b {wrong.fault}: diagnosed as the check itself broke"]


def test_proofs_stay_out_of_the_learners_progress(master, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTODIFF_PROGRESS", str(tmp_path / "mine.json"))
    prove.solution_passes(master, TASKS)
    assert os.environ["AUTODIFF_PROGRESS"] == str(tmp_path / "mine.json") and list(tmp_path.iterdir()) == []
    monkeypatch.delenv("AUTODIFF_PROGRESS")
    prove.solution_passes(master, TASKS)
    assert "AUTODIFF_PROGRESS" not in os.environ


def test_what_a_page_sets_in_the_environment_ends_with_it():
    before = dict(os.environ)
    source = 'import os\nos.environ |= {"AUTODIFF_GRADED": "yes", "PATH": "none"}\nos.environ.pop("HOME", None)'
    cell = nbformat.v4.new_code_cell(source)
    assert prove.run_cells(nbformat.v4.new_notebook(cells=[cell]))[1] == [] and dict(os.environ) == before


def test_a_learner_who_runs_a_master_does_not_pass_by_it(tmp_path, monkeypatch):
    """The exercise is counted and the master is not, with the same progress file."""
    file = tmp_path / "mine.json"
    monkeypatch.setenv("AUTODIFF_PROGRESS", str(file))
    for folder, counted in (("solutions", False), ("exercises", True)):
        where = {"metadata": {"path": str(tmp_path)}}
        NotebookClient(read(folder, PLANTED), kernel_name="python3", timeout=120, resources=where).execute()
        assert file.exists() == counted


# The generator


@pytest.fixture
def copy(tmp_path):
    """A course folder of its own."""
    for folder in ("solutions", "exercises"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns(".*"))
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def run_main(capsys, *arguments):
    status = generate.main([str(a) for a in arguments])
    return status, "".join(capsys.readouterr())


def test_generating_twice_writes_nothing(copy, capsys):
    before = {p.name: p.read_bytes() for p in (copy / "exercises").iterdir()}
    assert run_main(capsys, "--root", copy) == (0, "Every exercise is in step with its master.\n")
    shutil.rmtree(copy / "exercises")
    status, text = run_main(capsys, "--root", copy)
    assert status == 0 and text.splitlines() == [f"wrote exercises/{name}" for name in NAMES]
    assert {p.name: p.read_bytes() for p in (copy / "exercises").iterdir()} == before
    assert all(content.endswith(b"}\n") and b"\r" not in content for content in before.values())


def test_an_exercise_edited_by_hand_is_found_and_nothing_is_written(copy, capsys):
    path = copy / "exercises" / NAMES[0]
    path.write_text(path.read_text().replace("One skill", "One skil"))
    edited = path.read_bytes()
    assert run_main(capsys, "--check", "--root", copy) == (1, f"exercises/{NAMES[0]}: not what its master generates\n")
    assert path.read_bytes() == edited
    assert run_main(capsys, "--root", copy)[0] == 0 and run_main(capsys, "--check", "--root", copy)[0] == 0


def test_a_master_that_changed_a_missing_and_a_stray_exercise_are_found(copy, capsys):
    (copy / "exercises" / NAMES[0]).unlink()
    path = copy / "solutions" / NAMES[1]
    path.write_text(path.read_text().replace("One skill", "The skill"))
    (copy / "exercises" / "99_stray.ipynb").write_text("{}")
    status, text = run_main(capsys, "--check", "--root", copy)
    assert status == 1 and text.splitlines() == [f"exercises/{NAMES[0]}: missing",
                                                 f"exercises/{NAMES[1]}: not what its master generates",
                                                 "exercises/99_stray.ipynb: has no master in solutions/"]


def test_an_exercise_in_which_somebody_worked_is_not_overwritten(copy, capsys):
    path = copy / "exercises" / PLANTED
    notebook = nbformat.read(path, as_version=4)
    cell_of(notebook, "02.b").source = "my = 'work'"
    next(cell for cell in notebook.cells if cell.cell_type == "code").execution_count = 3
    nbformat.write(notebook, path)
    status, text = run_main(capsys, "--root", copy)
    assert status == 1 and "left alone (--force overwrites it)" in text and "my = 'work'" in path.read_text()
    path_junk = copy / "exercises" / NAMES[0]
    path_junk.write_text("half a file")
    assert run_main(capsys, "--root", copy)[0] == 1 and path_junk.read_text() == "half a file"
    assert run_main(capsys, "--root", copy, "--force")[0] == 0 and "my = 'work'" not in path.read_text()


def test_volatile_parts_of_a_master_do_not_reach_the_exercise(master):
    before = generate.text_of(generate.exercise_from(master))
    master.metadata["widgets"] = {"state": {}}
    master.metadata["language_info"] = {"name": "python", "version": "3.99"}
    master.metadata["kernelspec"] = {"display_name": "mine", "name": "mine", "language": "python"}
    for cell in master.cells:
        cell.metadata["collapsed"] = True
        if cell.cell_type == "code":
            cell.execution_count = 42
            cell.outputs = []
    assert generate.text_of(generate.exercise_from(master)) == before


@pytest.mark.parametrize("source, complaint", [
    ("### BEGIN SOLUTION\nx = 1\ncheck('')", "1 BEGIN SOLUTION and 0 END SOLUTION"),
    ("x = 1\n### END SOLUTION", "0 BEGIN SOLUTION and 1 END SOLUTION"),
    ("### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n### BEGIN SOLUTION\ny = 1\n### END SOLUTION", "2 BEGIN SOLUTION"),
    ("### END SOLUTION\nx = 1\n### BEGIN SOLUTION\ncheck('')", "lines of their own"),
    ("x = 1  ### BEGIN SOLUTION\n### END SOLUTION", "lines of their own"),
    ("### BEGIN SOLUTION\nx = 1\n### END SOLUTION", "without check(...)"),
    ("### BEGIN SOLUTION\nprint(1)\n### END SOLUTION\ncheck('02.a', 1)", "assigns no name"),
    ("x = 1", "no answer between solution markers"),
])
def test_a_master_with_markers_in_disorder_is_refused_with_its_place(source, complaint):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="here")])
    with pytest.raises(generate.MasterError) as caught:
        generate.exercise_from(notebook, "solutions/x.ipynb")
    assert complaint in str(caught.value) and "solutions/x.ipynb" in str(caught.value)


def test_a_master_in_disorder_fails_the_check_and_the_others_are_still_written(copy, capsys):
    path = copy / "solutions" / NAMES[0]
    path.write_text(path.read_text().replace("### END SOLUTION", "### END", 1))
    (copy / "exercises" / NAMES[1]).unlink()
    status, text = run_main(capsys, "--root", copy)
    assert status == 1 and f"solutions/{NAMES[0]}, cell " in text and f"wrote exercises/{NAMES[1]}" in text


def test_a_folder_without_masters_is_an_error(tmp_path, capsys, monkeypatch):
    assert run_main(capsys, "--check", "--root", tmp_path)[0] == 1
    monkeypatch.setattr(generate, "find_root", lambda: None)
    status, text = run_main(capsys, "--check")
    assert status == 1 and "Start" not in text and "start this in the course folder" in text


def test_the_course_folder_is_found_from_inside_it(copy, monkeypatch):
    monkeypatch.chdir(copy / "exercises")
    assert generate.find_root() == copy


def test_hidden_tests_and_cells_of_the_master_are_left_out():
    answer = ("### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n"
              "### BEGIN HIDDEN TESTS\nassert x == 1\n### END HIDDEN TESTS\ncheck('02.a', x)")
    reason = "Why?\n\n<!-- ### BEGIN SOLUTION -->\nBecause.\n<!-- ### END SOLUTION -->"
    secret = nbformat.v4.new_code_cell("secret = 1", id="secret", metadata={"tags": ["master"]})
    kept = nbformat.v4.new_code_cell(answer, id="kept", metadata={"tags": ["a-tag"], "scrolled": True})
    prose = nbformat.v4.new_markdown_cell(reason, id="prose")
    exercise = generate.exercise_from(nbformat.v4.new_notebook(cells=[secret, kept, prose]))
    assert [cell.source for cell in exercise.cells] == ["x = ...\ncheck('02.a', x)", f"Why?\n\n{generate.TEXT_STUB}"]
    assert exercise.cells[0].metadata == {"tags": ["a-tag"]}


def test_the_generator_is_a_command():
    command = [sys.executable, "-m", "autodiff.course.generate", "--check"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (ran.returncode, ran.stdout) == (0, "Every exercise is in step with its master.\n"), ran.stderr


def test_the_proofs_are_a_command(capsys, monkeypatch):
    """With two real pages and one wrong answer for each, since all of them are proved above."""
    few = {number: prove.wrong_answers(number)[:1] for number in ("02", "03")}
    monkeypatch.setattr(prove, "masters", lambda root: [root / "solutions" / name for name in NAMES if name[:2] in few])
    monkeypatch.setattr(prove, "wrong_answers", few.__getitem__)
    monkeypatch.setattr(prove, "faults_are_proved", lambda tasks, wrongs: [])
    assert prove.main() == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Every proof holds."
    few["03"] = [replace(few["03"][0], fault="by-distance")]
    assert prove.main() == 1
    assert capsys.readouterr().out.splitlines()[-1] == "03.a by-distance: diagnosed as reversed"
