"""Grading: each submission in a sandbox, hostile ones too; marks as expected, and nobody else affected.

The parts are tested one by one. Then a small class is graded as a teacher would do it, with two workers of which one is
killed on the way. `python -m deploy.grading.trial` does the same with 300 submissions.
"""

import csv
import dataclasses
import doctest
import hashlib
import html
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest
from conftest import programs_of_postgresql
from nbconvert.filters.markdown_mistune import markdown2html_mistune

# Also for what is written into the lists of parameters below, such as SIGKILL.
pytest.importorskip("resource", reason="submissions are graded on Linux; Windows has not even the modules for it")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from deploy.course import build  # noqa: E402
from deploy.grading import gradebook, grade, inside, pools, report, samples, sandbox, submissions, trial  # noqa: E402

NAME = samples.HOSTILE
LIMITS = {"cell": 3.0, "processes": 24, "memory": 600 * 2**20}


def master_of(name):
    return nbformat.read(ROOT / "solutions" / f"{name}.ipynb", as_version=4)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course folder with one assignment, generated."""
    folder = tmp_path_factory.mktemp("grading")
    (folder / "masters").mkdir()
    shutil.copy(ROOT / "solutions" / f"{NAME}.ipynb", folder / "masters")
    build.build(folder / "masters", folder / "course")
    gradebook.Course(folder / "course").generate(NAME)
    return folder / "course"


@pytest.fixture(scope="module")
def release(course):
    return gradebook.Course(course).release(NAME)


@pytest.fixture(scope="module")
def assignment(course):
    return submissions.Assignment.load(course, NAME)


@pytest.fixture(scope="module")
def master():
    return master_of(NAME)


# What was handed in


def test_no_two_names_become_one_and_none_leads_elsewhere():
    names = ["ada", "Ada", "..", ".", "../x", "a=2F", "a/", "a b", "a=20b", "é", "e\u0301", "'\"`$(id)", "\udcff",
             "é" * 120, "é" * 119 + "e", "a" * 101, submissions.safe_id("a" * 101)]
    safe = [submissions.safe_id(name) for name in names]
    assert len(set(safe)) == len(names)
    assert all(set(s) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@-=") for s in safe)
    assert not any(s.startswith(".") for s in safe)
    assert max(map(len, safe)) <= 100, "a file system takes 255 characters, nbgrader's gradebook 128"


def test_submissions_are_found_in_both_layouts_and_the_rest_is_named(tmp_path):
    for path in (f"ada/{NAME}/{NAME}.ipynb", f"bob/{NAME} (1).ipynb", f"cy/{NAME}/other.ipynb", f"di/{NAME}/a.ipynb",
                 f"di/{NAME}/b.ipynb", f"eve/{NAME}/.hidden.txt", "flo/99_new/99_new.ipynb", f"gil/{NAME}.ipynb",
                 f"gil/{NAME}/{NAME}.ipynb", f".git/{NAME}.ipynb", f"bob_{NAME}.ipynb", "ada/data.csv",
                 f"ada/{NAME}/{NAME} (1).ipynb", f"ada/{NAME}/data.csv", f".gitta/{NAME}.ipynb",
                 f"{NAME}.ipynb/{NAME}.ipynb"):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    (tmp_path / "hal").symlink_to(tmp_path / "ada")
    (tmp_path / "ida").mkdir()
    (tmp_path / "ida" / NAME).symlink_to(tmp_path / "ada" / NAME)
    found, left = submissions.find(tmp_path, [NAME])
    assert [(s.student, s.path and s.path.name, s.problem) for s in found] == [
        (".gitta", f"{NAME}.ipynb", ""), (f"{NAME}.ipynb", f"{NAME}.ipynb", ""), ("ada", f"{NAME}.ipynb", ""),
        ("bob", f"{NAME} (1).ipynb", ""), ("cy", "other.ipynb", ""),
        ("di", None, f"there is 2 notebooks, none of them {NAME}.ipynb in the folder that was handed in"),
        ("eve", None, "there is no notebook in the folder that was handed in"), ("gil", f"{NAME}.ipynb", "")]
    assert left == [f"ada/{NAME}/{NAME} (1).ipynb: {NAME}.ipynb beside it was taken", "ada/data.csv: it is no notebook",
                    f"bob_{NAME}.ipynb: it is in no student's folder",
                    "flo/99_new: no assignment of this course has this name",
                    f"gil/{NAME}.ipynb: {NAME} of gil is there twice", "hal: it is a link, which may lead to anything",
                    f"ida/{NAME}: it is a link, which may lead to anything"]


def test_a_pipe_or_a_folder_in_place_of_a_notebook_is_a_reason_and_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    for name in ("pipe.ipynb", "folder.ipynb", "missing.ipynb"):
        with pytest.raises(submissions.Unreadable, match="only a regular file is read"):
            submissions.Submission("ada", NAME, tmp_path / name).bytes()


def test_a_time_stamp_is_taken_only_when_it_is_one(tmp_path):
    one = submissions.Submission("ada", NAME, tmp_path / "x.ipynb")
    assert one.timestamp == ""
    for text, wanted in (("2026-11-30 08:00:00.000000 UTC", "2026-11-30 08:00:00.000000 UTC"), ("soon", ""), ("", "")):
        (tmp_path / "timestamp.txt").write_text(text)
        assert one.timestamp == wanted


def test_what_is_not_the_students_is_restored(release, assignment):
    cells = submissions.read(samples.edited(release))
    notebook, notes = submissions.restored(release, cells)
    for cell in notebook.cells:
        if "nbgrader" in cell.metadata:
            true = next(c for c in release.cells if c.id == cell.id)
            assert cell.metadata == true.metadata
            assert submissions.is_answer(cell) or cell.source == true.source
    ids = [c.metadata.nbgrader.grade_id for c in notebook.cells if "nbgrader" in c.metadata]
    assert ids == [c.metadata.nbgrader.grade_id for c in release.cells]
    assert "restored: graded-progress, setup" in notes[0]
    assert notebook.metadata == release.metadata


def test_answers_without_metadata_and_from_the_plain_exercise_are_found(release, master):
    plain = nbformat.read(ROOT / "exercises" / f"{NAME}.ipynb", as_version=4)
    for cell in plain.cells:
        cell.source = samples.answers(master).get(cell.id, cell.source)
    for data in (samples.bare(release, master), nbformat.writes(plain).encode()):
        notebook, _ = submissions.restored(release, submissions.read(data))
        sources = {c.id: c.source for c in notebook.cells}
        assert {name: sources[name] for name in samples.answers(master)} == samples.answers(master)


def test_cells_of_the_student_stay_in_their_place(release):
    data = samples.filled(release, {}, added=[("setup", "helper = 1")], first=["first = 1"])
    notebook, _ = submissions.restored(release, submissions.read(data))
    sources = [c.source for c in notebook.cells]
    place = next(i for i, c in enumerate(notebook.cells) if c.id == "setup")
    assert sources[0] == "first = 1" and sources[place + 1] == "helper = 1"


def test_nothing_secret_is_among_the_cells_for_the_sandbox(assignment, release):
    text = json.dumps(assignment.cells(release))
    assert assignment.seeds().keys() == {"02.a", "02.b", "02.c"}
    assert not any(str(seed) in text for seeds in assignment.seeds().values() for seed in seeds)
    assert "BEGIN HIDDEN" not in text and "ask_again" not in text


@pytest.mark.parametrize("change", [
    lambda s: s + "\nassert slot_1 == 7", lambda s: s.replace("ask_again", "asked"), lambda s: "", lambda s: "(",
    lambda s: s.replace("### BEGIN HIDDEN TESTS", "### BEGIN HIDDEN TESTS\nassert mine"),
])
def test_a_test_of_the_teachers_own_is_refused_and_not_left_out_in_silence(assignment, change):
    cell = next(c for c in assignment.notebook.cells if c.id == "graded-02-a")
    other = nbformat.from_dict(json.loads(json.dumps(cell)))
    other.source = change(other.source)
    with pytest.raises(submissions.SourceError, match="`make course` did not write"):
        submissions.asked(other, "here")


@pytest.mark.parametrize("text", [
    "[x](javascript:alert(1))", "[x](<javascript:alert(1)>)", "[x](\n javascript:f)", "[x][y]\n\n[y]: javascript:f",
    "[x]( JaVaScRiPt:f 'title')", "[x](javascript&colon;f)", "[x](javascript\\:f)", "> [x]: data:text/html,y\n\n[x]",
    "<javascript:alert(1)>", "<a href=javascript:f>x</a>", "![x](https://example.org/x.png)", "![x][y]\n\n[y]: x.png",
    "[![x](data:image/png)](vbscript:f)", "<img src=x onerror=f>", "* [x]:\n  javascript:f\n\n[x]",
])
def test_the_text_of_a_student_runs_and_loads_nothing_on_a_page(text):
    page = markdown2html_mistune(submissions.without_tags(text))
    assert not re.search(r'<(img|script)\b|href="(?!https://|x\.png")', page), page


def test_a_link_to_a_page_stays_one():
    page = markdown2html_mistune(submissions.without_tags("[x](https://example.org/?a=1&b=2) and `f[x](y)`"))
    assert '<a href="https://example.org/?a=1&amp;b=2">x</a>' in page and "<code>f[x](y)</code>" in page


@pytest.mark.parametrize("source, listed", [
    ("import sys; sys._getframe(1).f_locals", "_getframe, f_locals, sys"), ("import numpy.linalg, math", ""),
    ("from autodiff.course import check, judge", "autodiff.course.judge"), ("from gc import collect", "gc.collect"),
    ("import autodiff.course.checks_02 as c", "autodiff.course.checks_02"), ("f('__globals__')", "__globals__"),
    ("x = 1\n!cat /etc/passwd\nimport gc", "!cat, gc"), ("  %run other.py", "%run"), ("here = %pwd", "%pwd"),
    ("x = (", ""), (" " * 150_000 + "x(", ""), ("-" * 150_000, ""), ("import " + "a" * 1000, "a" * 191),
])
def test_code_that_reaches_far_is_worth_a_look(release, source, listed):
    started = time.monotonic()
    cells = submissions.read(samples.filled(release, {}, first=[source]))
    found = submissions.worth_a_look(release, submissions.restored(release, cells)[0])
    assert found == ([f"added-1: {listed}"] if listed else [])
    assert time.monotonic() - started < 10


def test_right_answers_are_not_worth_a_look(release, master):
    right = submissions.restored(release, submissions.read(samples.filled(release, samples.answers(master))))[0]
    assert submissions.worth_a_look(release, right) == []


# What comes out of the sandbox


def test_only_text_and_pictures_are_taken_from_outputs():
    outputs = [{"output_type": "display_data", "data": {"text/html": "<script>", "text/plain": "t", "image/png": "iVBO",
                                                         "application/javascript": "x", "image/svg+xml": "<svg/>"}},
               {"output_type": "display_data", "data": {"image/png": '"><script>'}},
               {"output_type": "stream", "name": "stdin", "text": "x" * 10**6}, {"output_type": "update"}, 3, None,
               {"output_type": "error", "ename": 3, "evalue": None, "traceback": [{}, "\ud800"]}]  # fmt: skip
    kept = gradebook.clean(outputs)
    assert [o.output_type for o in kept] == ["display_data", "display_data", "stream", "error"]
    assert kept[0].data == {"text/plain": "t", "image/png": "iVBO"} and kept[1].data == {"text/plain": ""}
    assert kept[2].name == "stdout" and len(kept[2].text) == gradebook.TEXT
    assert kept[3].traceback == ["", "?"]
    assert gradebook.clean("no list") == []
    nbformat.validate(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=kept)]))


def test_a_verdict_is_one_of_the_known_ones_or_none(assignment):
    said = {"02.a": {"status": "full marks", "text": "x"}, "02.b": {"status": "passed", "text": "ok", "fault": ["x"]},
            "02.c": {"status": "not right", "text": "no", "fault": "not-a-fault"}, "99.z": {"status": "passed"}}
    result = {"verdicts": said, "ended": "left", "where": "b"}
    found = grade.verdicts(assignment, {"unreadable": "", "result": result})
    assert {task: (v["status"], v["fault"]) for task, v in found.items()} == {
        "02.a": ("failed", None), "02.b": ("passed", None), "02.c": ("not right", None)}
    assert found["02.a"]["text"] == "02.a  The notebook ended its own process before this task (the last cell was b)."


@pytest.mark.parametrize("value", [
    1, -3, 10**50, True, None, ..., NotImplemented, 1.5, float("inf"), 1 + 2j, "text", [1, [2.0]], (1, "b"), {1, 2},
    {"A": [1.0, {"b": ()}]},
])
def test_plain_data_goes_through_json_and_back(value):
    back = inside.decode(json.loads(json.dumps(inside.encode(value))))
    assert back == value and type(back) is type(value)


def test_arrays_go_through_json_and_back_and_code_does_not():
    import numpy as np

    for array in (np.arange(6.0).reshape(2, 3), np.float32(2.5), np.array(True), np.int64(3)):
        back = inside.decode(json.loads(json.dumps(inside.encode(array))))
        assert back.dtype == array.dtype and np.array_equal(back, array)

    class Number(float):
        pass

    deep = []
    deep.append(deep)
    for value in (len, Number(1), [Number(1)], np.array([object()]), deep, [0] * 30_000, 1 << 20_000, {1: print}):
        with pytest.raises(inside.NotPlain):
            inside.encode(value)


# The sandbox


def test_without_a_sandbox_grading_is_refused_with_a_reason(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sandbox, "_chosen", {})
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    assert grade.main([str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "bubblewrap (bwrap) is not installed" in said and "apt install bubblewrap" in said and "--unsafe" in said
    with pytest.raises(sandbox.NoSandbox, match="neither docker nor podman"):
        sandbox.choose(image="course")
    assert sandbox.choose(unsafe=True) == sandbox.UNSAFE
    monkeypatch.setattr(sandbox, "_chosen", {})
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    with pytest.raises(sandbox.NoSandbox, match="bubblewrap is for Linux; --unsafe works on Linux only"):
        sandbox.choose(unsafe=True)


def test_a_container_is_shut_off(monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "_chosen", {})
    monkeypatch.setattr(sandbox, "_fails", lambda kind: "none here")
    monkeypatch.setattr(sandbox, "engine", lambda: "podman")
    assert sandbox.choose(image="course") == "container"
    command = " ".join(sandbox._container("course", sandbox.LIMITS, "/x/inside.py", "name"))
    for part in ("podman run --rm -i --name name --network none --read-only --cap-drop ALL", "no-new-privileges",
                 "--pids-limit 72", "--memory ", "--user 65534", "/x/inside.py:/inside.py:ro",
                 "--entrypoint python course -s -P /inside.py"):  # fmt: skip
        assert part in command


def test_the_sandbox_holds_python_and_the_course_and_none_of_the_rest():
    paths = sandbox.python_paths()
    for hidden in (ROOT, ROOT / "solutions", ROOT / "tests", Path.home()):
        assert not any(str(hidden) == path or str(hidden).startswith(path + "/") for path in paths), hidden


def job_of(sample, assignment, release, **limits):
    cells = submissions.read(next(iter(sample.files.values())))
    notebook, _ = submissions.restored(release, cells)
    return {"name": [sample.kind], "cells": assignment.cells(notebook), "seeds": assignment.seeds(),
            "options": {"image": None, "unsafe": False, "limits": {**LIMITS, **limits}, "digest": inside.digest(),
                        "inside": (ROOT / "deploy" / "grading" / "inside.py").read_text()}}


def problems_of(kind, assignment, release, master, **limits):
    """What is not as expected of one hostile sample, and the result of its sandbox."""
    sample = samples.hostile(release, master)[kind]
    result = sandbox.work(job_of(sample, assignment, release, **limits))
    entry = {"unreadable": "", "result": result}
    entry["verdicts"] = grade.verdicts(assignment, entry)
    points = 5 * sum(verdict["status"] == "passed" for verdict in entry["verdicts"].values())
    return samples.problems(sample, entry, {"score": points}, dict.fromkeys(sample.expected, 5)), result


# These are stopped by a limit on the whole notebook, which is set lower here than a class could have it.
STOPPED = {"stubborn loop": {"seconds": 8.0, "cell": 2.0}, "many hogs": {}, "shared memory": {}, "floods": {},
           "aborts": {}}  # fmt: skip


@pytest.mark.sandbox
@pytest.mark.thorough
@pytest.mark.parametrize("kind", STOPPED)
def test_a_notebook_beyond_its_limits_is_stopped_with_its_reason(kind, assignment, release, master):
    problems, result = problems_of(kind, assignment, release, master, **STOPPED[kind])
    assert problems == [] and result["seconds"] < 120


@pytest.mark.sandbox
@pytest.mark.thorough
def test_no_more_is_kept_of_forged_outputs_than_may_be_shown(assignment, release, master):
    problems, result = problems_of("forges outputs", assignment, release, master, output=50_000)
    assert problems == [] and len(json.dumps(result)) < 600_000


@pytest.mark.sandbox
def test_memory_that_no_limit_counts_and_namespaces_are_refused(assignment, release):
    with sandbox.refused() as (arguments, _):
        if not arguments:
            pytest.skip("the numbers of this machine's system calls are not listed")
    probe = """\
import ctypes
c = ctypes.CDLL(None, use_errno=True)
[c.memfd_create(b"x", 0), c.unshare(0x10000000), c.shmget(0, 4096, 0o1600), c.clone(0, 0, 0x10000011, 0),
 c.mount(b"x", b"/tmp", b"tmpfs", 0, 0), c.ptrace(0, 0, 0, 0)]"""
    sample = samples.Sample("ada", NAME, {"x": samples.filled(release, {}, first=[probe])}, {})
    shown = sandbox.work(job_of(sample, assignment, release))["outputs"]["added-1"]
    assert shown[-1]["data"]["text/plain"] == "[-1, -1, -1, -1, -1, -1]", shown


def test_lines_of_any_form_from_a_sandbox_stop_no_worker():
    result = {"outputs": {}, "verdicts": {}, "undone": [], "denied": [], "where": None}
    for line in (None, [], {}, {"what": "verdict", "task": []}, {"what": "end", "undone": 3}, {"what": "begin"}):
        sandbox._hear({"kind": "judge", "line": line}, {"cells": []}, result)
        sandbox._hear({"kind": "show", "line": json.dumps(line)}, {"cells": [{"id": "a"}]}, result)
    unknown = '{"what": "cell", "id": "b", "outputs": [1]}'
    for text in ("", "[" * 100_000, '{"what": "cell", "id": {}}', unknown, "9" * 5000):
        sandbox._hear({"kind": "show", "line": text}, {"cells": [{"id": "a"}]}, result)
    assert result == {"outputs": {}, "verdicts": {}, "undone": [], "denied": [], "where": None}


@pytest.mark.sandbox
def test_another_version_of_the_course_on_a_worker_is_no_mark(assignment, release, master):
    job = job_of(samples.right(release, master, NAME, "ada"), assignment, release)
    job["options"]["digest"] = "other"
    with pytest.raises(sandbox.WrongCourse, match="another version of the course"):
        sandbox.work(job)


@pytest.mark.sandbox
def test_what_a_notebook_shows_is_kept_apart_from_its_marks(assignment, release):
    show = "import numpy as np\nprint('printed')\nimport sys\nprint('aside', file=sys.stderr)\ndisplay(1)\nnp.arange(3)"
    saves = "import autodiff as ad\nL = ad.Var(3.0) ** 2\nad.draw(L).save('L.svg')\nprint(open('L.svg').read()[:5])"
    first = [show, "1/0", "%pwd", "[p for p in sys.path if not p or p.startswith('/tmp' + '/work')]",
             saves, "ad.step(L)"]
    sample = samples.Sample("ada", NAME, {"x": samples.filled(release, {}, first=first)}, {})
    result = sandbox.work(job_of(sample, assignment, release))
    shown = [gradebook.clean(result["outputs"][f"added-{n}"]) for n in range(1, 7)]
    assert [(o.output_type, o.get("text") or o.data["text/plain"]) for o in shown[0]] == [
        ("stream", "printed\n"), ("stream", "aside\n"), ("display_data", "1"), ("display_data", "array([0, 1, 2])")]
    assert shown[1][0].ename == "ZeroDivisionError"
    assert shown[2][0].data["text/plain"] == repr("/tmp" + "/work")
    assert shown[3][0].data["text/plain"] == "[]", "a module that a notebook writes must not be imported by a check"
    assert shown[4][0].text == "<?xml\n" and shown[5][-1].data["text/plain"].endswith(inside.LEFT_OUT)
    assert result["outputs"].keys() == {c["id"] for c in job_of(sample, assignment, release)["cells"] if "source" in c}


@pytest.mark.sandbox
def test_right_answers_with_commands_of_ipython_and_jupyterlab_in_them_keep_their_marks(assignment, release, master):
    sample = samples.commands(release, master)
    result = sandbox.work(job_of(sample, assignment, release))
    assert {task: v["status"] for task, v in result["verdicts"].items()} == dict.fromkeys(sample.expected, "passed")
    assert result["denied"] == [] and result["ended"] is None
    shown = gradebook.clean(result["outputs"]["b-answer"])
    assert not [o for o in shown if o.output_type == "error" or "UsageError" in o.get("text", "")], shown
    assert any("image/png" in o.get("data", {}) for o in shown), "a plot is not on the page"


@pytest.mark.sandbox
@pytest.mark.thorough
def test_the_other_kind_of_sandbox_and_none_give_the_same_marks(assignment, release, master, monkeypatch):
    """Root uses one kind of bubblewrap and everybody else the other; with --unsafe there is none."""
    for kind in ("bwrap", sandbox.UNSAFE):
        monkeypatch.setattr(sandbox, "_chosen", {(None, False): kind})
        result = sandbox.work(job_of(samples.right(release, master, NAME, "ada"), assignment, release))
        assert (result["sandbox"], result["ended"]) == (kind, None)
        assert {task: v["status"] for task, v in result["verdicts"].items()} == dict.fromkeys(
            ("02.a", "02.b", "02.c"), "passed")  # fmt: skip


def test_no_hostile_sample_runs_without_a_sandbox(monkeypatch):
    """The trial and these tests stop before they write one."""
    monkeypatch.setattr(sandbox, "_chosen", {})
    monkeypatch.setattr(sandbox, "_fails", lambda kind: "none here")
    with pytest.raises(sandbox.NoSandbox):
        trial.main([])


# A class


def some(release, master, outside, port):
    """Right, untouched, wrong in known ways, and hostile in every way but those that take a limit of their own."""
    hostile = samples.hostile(release, master, outside, port)
    mistakes = samples.prove.wrong_answers("02")
    wanted = [next(w for w in mistakes if w.task == task) for task in ("02.a", "02.b", "02.c")]
    return [samples.right(release, master, NAME, "ada"), samples.stub(release, NAME, "bob"),
            *[samples.wrong(release, master, NAME, f"wrong {w.task}", w) for w in wanted],
            samples.wrong(release, master, NAME, "wrong again", wanted[0]), samples.commands(release, master),
            *[sample for kind, sample in hostile.items() if kind not in STOPPED]]  # fmt: skip


def run(*arguments, **more):
    command = [sys.executable, "-m", "deploy.grading", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **more)


@pytest.fixture
def few(release, master):
    hostile = samples.hostile(release, master)
    mistake = next(iter(samples.prove.wrong_answers("02")))
    draws = [("setup", "import autodiff as ad\nad.draw(ad.Var(3.0) ** 2)")]
    files = {f"{NAME}.ipynb": samples.filled(release, samples.answers(master), draws)}
    right = dataclasses.replace(samples.right(release, master, NAME, "ada"), files=files)
    return [right, samples.wrong(release, master, NAME, "bob", mistake),
            hostile["patches the check"], hostile["zero bytes"], hostile["a long name"]]  # fmt: skip


@pytest.fixture
def handed_in(tmp_path, few):
    for sample in few:
        sample.write(tmp_path / "handed-in")
    return tmp_path / "handed-in"


@pytest.fixture
def own_course(tmp_path, course):
    """A copy of the course folder, in which a test may grade."""
    return Path(shutil.copytree(course, tmp_path / "course"))


@pytest.mark.sandbox
def test_a_few_submissions_get_their_marks_feedback_and_report(few, handed_in, own_course):
    ran = run(handed_in, "--course", own_course)
    assert ran.returncode == 0 and "0 were graded before, 5 now" in ran.stdout, ran.stdout + ran.stderr
    assert "2 of 5, about" in ran.stderr and "5 of 5" in ran.stderr
    assert trial.compared(few, own_course) == []
    assert "could not be read: the file is empty" in (own_course / "report" / "index.html").read_text("utf-8")
    assert len(list((own_course / "feedback").glob("*/*/*.html"))) == 5
    page = (own_course / "feedback" / "ada" / NAME / f"{NAME}.html").read_text("utf-8")
    text = re.sub(r"(?s)<(style|script)\b.*?</\1>", "", page)
    assert "graph of " in text and inside.LEFT_OUT in text and "failed" not in text, "of a right notebook"


class Graded:
    """A class that was graded with two workers, of which one was killed on the way."""

    def __init__(self, folder, course, release, master):
        self.course, self.handed_in = folder / "course", folder / "handed-in"
        shutil.copytree(course, self.course)
        self.outside = [self.course / "hidden_key", self.course / "gradebook.db", self.course / "source",
                        self.handed_in / "ada" / NAME, ROOT / "solutions", "/etc/passwd"]
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)
        self.samples = some(release, master, self.outside, self.server.getsockname()[1])
        for sample in self.samples:
            sample.write(self.handed_in)
        self.before = self.state()
        options = ["--workers", "2", "--cell", "3", "--processes", "24", "--memory", "0.6"]
        self.arguments = [self.handed_in, "--course", self.course, *options]
        command = [sys.executable, "-m", "deploy.grading", *map(str, self.arguments)]
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen(command, cwd=ROOT, **piped) as process:
            self.killed = self.kill_one(process)
            self.text = process.communicate(timeout=600)[0]
            self.status = process.returncode

    def kill_one(self, process):
        """End a worker while it works, when a few results are there."""
        for _ in range(2400):
            there = len(list(self.course.glob("results/*/*.json")))
            workers = [pid for pid in trial.workers_of(process.pid) if sandbox.descendants(pid)]
            if there >= 6 and workers:
                os.kill(workers[0], signal.SIGKILL)
                return workers[0]
            if process.poll() is not None:
                return None
            time.sleep(0.05)
        return None

    def state(self):
        """What the submissions must not change: what was handed in, the sources and the key."""
        files = [*self.handed_in.rglob("*"), *(self.course / "source").rglob("*"), self.course / "hidden_key"]
        return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in files if f.is_file()}

    def entry(self, sample):
        return json.loads((self.course / "results" / submissions.safe_id(sample.student) / f"{NAME}.json").read_text())

    def read(self, table):
        with open(self.course / "report" / table, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def sample(self, kind):
        return next(s for s in self.samples if s.kind == kind)


@pytest.fixture(scope="module")
def graded(tmp_path_factory, course, release, master):
    return Graded(tmp_path_factory.mktemp("class"), course, release, master)


@pytest.mark.sandbox
@pytest.mark.thorough
def test_every_mark_is_as_expected_although_a_worker_was_killed(graded):
    assert graded.killed and graded.status == 0, graded.text
    assert f"0 were graded before, {len(graded.samples)} now" in graded.text
    assert trial.compared(graded.samples, graded.course) == []


@pytest.mark.sandbox
@pytest.mark.thorough
def test_nobody_else_is_affected(graded):
    assert graded.state() == graded.before
    with pytest.raises(BlockingIOError):
        graded.server.accept()
    assert not [p for p in (ROOT, graded.course, graded.handed_in) for _ in p.glob("written-by-a-submission")]
    assert not Path("/x").exists()


@pytest.mark.sandbox
@pytest.mark.thorough
def test_what_hostile_ones_tried_is_told_to_the_teacher(graded):
    rows = {row["id"].lstrip("'"): row for row in graded.read("marks.csv")}
    assert len(rows) == len(graded.samples)
    for sample in graded.samples:
        row = rows[submissions.safe_id(sample.student)]
        assert sample.looks in row["worth a look"], sample.kind
        assert sample.says in row["reason"], sample.kind
    assert not any(row["student"].startswith(("=", "+", "-", "@")) for row in rows.values())


@pytest.mark.sandbox
@pytest.mark.thorough
def test_the_report_names_the_common_mistakes_and_runs_nothing(graded):
    page = (graded.course / "report" / "index.html").read_text(encoding="utf-8")
    one = next(w for w in samples.prove.wrong_answers("02") if w.fault == graded.sample("wrong").expected["02.a"][1])
    title = grade.report.api.tasks()["02.a"].fault(one.fault).title
    first = graded.read("mistakes.csv")[0]
    assert (first["students"], first["task"], first["fault"], first["what"]) == ("2", "02.a", one.fault, title)
    assert grade.report._marked(title) in page and 'x="0.00" width="100.00"' in page
    common = min(5, len(graded.read("mistakes.csv")))
    assert page.count("<svg class=bar") == common + 10 + 3, "a bar for each mistake, tenth of the points, and task"
    assert not re.search(r"<(script|img|iframe|object|embed|link|form)\b", page)
    assert "src=" not in page and "url(" not in page.replace("url(#", "")
    assert "&lt;script&gt;alert(1)&lt;" in page


@pytest.mark.sandbox
@pytest.mark.thorough
def test_the_pages_for_students_say_why_run_nothing_and_keep_the_seeds(graded, assignment):
    seeds = [str(seed) for seeds in assignment.seeds().values() for seed in seeds]
    for sample in graded.samples:
        page = graded.course / "feedback" / submissions.safe_id(sample.student) / NAME / f"{NAME}.html"
        text = page.read_text(encoding="utf-8")
        assert not any(seed in text for seed in seeds) and "BEGIN HIDDEN" not in text
        assert sample.says in html.unescape(text), sample.kind
        assert "<script>alert(1)" not in text and "onerror=alert(1)>" not in text and 'href="javascript' not in text
        assert 'src="https://example.org' not in text


@pytest.mark.sandbox
@pytest.mark.thorough
def test_a_second_run_does_only_what_is_left(graded, master, release):
    again = run(*graded.arguments)
    assert again.returncode == 0 and f"{len(graded.samples)} were graded before, 0 now" in again.stdout, again.stderr
    # One hands in again, one result is lost, and one mark was not written when the machine went down.
    bob, wrong = graded.sample("stub"), graded.sample("wrong")
    samples.right(release, master, NAME, "new").write(graded.handed_in)
    shutil.copy(graded.handed_in / "new" / NAME / f"{NAME}.ipynb", graded.handed_in / bob.student / NAME)
    kept = graded.course / "results" / submissions.safe_id(wrong.student) / f"{NAME}.json"
    kept.write_text(kept.read_text()[:100])
    ada = graded.course / "results" / "ada" / f"{NAME}.json"
    ada.write_text(json.dumps({k: v for k, v in json.loads(ada.read_text()).items() if k != "marked"}))
    third = run(*graded.arguments)
    assert f"{len(graded.samples) - 3} were graded before, 4 now" in third.stdout, third.stderr
    marks = gradebook.Course(graded.course).marks()
    assert marks["bob", NAME]["score"] == marks["new", NAME]["score"] == marks["ada", NAME]["score"] == 15
    assert json.loads(kept.read_text())["verdicts"]["02.a"]["fault"] == wrong.expected["02.a"][1]


@pytest.mark.sandbox
@pytest.mark.thorough
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_ended_leaves_nothing_running(how, tmp_path, course, release, master):
    shutil.copytree(course, tmp_path / "course")
    samples.hostile(release, master)["stubborn loop"].write(tmp_path / "handed-in")
    command = [sys.executable, "-m", "deploy.grading", tmp_path / "handed-in", "--course", tmp_path / "course"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while not (workers := [w for w in trial.workers_of(process.pid) if len(sandbox.descendants(w)) > 2]):
            assert process.poll() is None
            time.sleep(0.05)
        below = [pid for worker in workers for pid in [worker, *sandbox.descendants(worker)]]
        process.send_signal(how)
        said = process.stderr.read() if how == signal.SIGTERM else ""
        process.wait(30)
    assert how == signal.SIGKILL or "the same command does the rest" in said
    end = time.monotonic() + 20
    while left := [pid for pid in below if Path(f"/proc/{pid}/cmdline").exists()]:
        assert time.monotonic() < end, left
        time.sleep(0.1)


@pytest.mark.sandbox
@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="Dask is not installed: extra grading")
def test_a_dask_cluster_gives_the_same_marks(few, handed_in, own_course):
    """Its workers run elsewhere, and have only what a package has: the course, without this folder."""
    with trial.cluster(2) as address:
        ran = run(handed_in, "--course", own_course, "--dask", address)
    assert ran.returncode == 0 and "5 now" in ran.stdout, ran.stdout + ran.stderr
    assert trial.compared(few, own_course) == []


# The rest


def all_right_but(fails):
    """In place of the workers: every answer is right, and no worker has a sandbox for the students in `fails`."""
    said = dict.fromkeys(("02.a", "02.b", "02.c"), {"status": "passed", "text": "passed", "fault": None})
    right = {"outputs": {}, "verdicts": said, "ended": None, "where": None}

    def on_processes(jobs, workers):
        for job in jobs:
            yield job, sandbox.NoSandbox("no bwrap here") if job["name"][1] in fails else right

    return on_processes


@pytest.fixture
def postgresql():
    """The URL of an empty database, of a server that runs for this test alone."""
    programs = programs_of_postgresql()
    # The server runs as no root, and in a folder that others may enter.
    user = {"user": "nobody"} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        taken.close()
        if user:
            shutil.chown(folder, "nobody")
        data, options = f"{folder}/data", f"-h 127.0.0.1 -p {port} -k {folder}"
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": folder, **user}
        subprocess.run([programs / "initdb", "-D", data, "-A", "trust", "-U", "teacher"], **quiet)
        subprocess.run([programs / "pg_ctl", "-D", data, "-o", options, "-l", f"{folder}/log", "-w", "start"], **quiet)
        try:
            yield f"postgresql://teacher@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"], **quiet)


@pytest.mark.postgresql
@pytest.mark.thorough
def test_a_postgresql_gradebook_keeps_the_marks(postgresql, few, handed_in, own_course, monkeypatch, capsys):
    monkeypatch.setattr(sandbox, "choose", lambda *a: "bwrap")
    monkeypatch.setattr(pools, "on_processes", all_right_but([]))
    for expected in ("0 were graded before, 5 now", "5 were graded before, 0 now"):
        assert grade.main([str(handed_in), "--course", str(own_course), "--db", postgresql]) == 0
        assert expected in capsys.readouterr().out
    marks = gradebook.Course(own_course, postgresql).marks()
    ids = {sample.kind: submissions.safe_id(sample.student) for sample in few}
    assert {kind: marks[who, NAME]["score"] for kind, who in ids.items()} == {
        "right": 15, "wrong": 15, "patches the check": 15, "zero bytes": 0, "a long name": 15}
    assert not [key for key in gradebook.Course(own_course).marks() if key[1] == NAME]


@pytest.mark.parametrize("module", [submissions, gradebook])
def test_examples_in_docstrings(module):
    assert doctest.testmod(module).failed == 0


def test_workers_that_die_again_and_again_leave_their_jobs_and_end(monkeypatch):
    monkeypatch.setattr(pools.sandbox, "work", os._exit)
    done = list(pools.on_processes(iter([3, 4, 5]), 2))
    assert sorted(job for job, _ in done) == [3, 4, 5] and all(isinstance(r, pools.Left) for _, r in done)


def test_a_password_is_not_shown_and_a_driver_is_chosen():
    assert gradebook.without_password("postgresql+psycopg://me:secret@host/db") == "postgresql+psycopg://me:***@host/db"
    assert gradebook.driver_of("postgres://host/db") == "postgresql+psycopg://host/db"
    assert gradebook.driver_of("sqlite:///x.db") == "sqlite:///x.db"


def test_mistakes_are_counted_by_student_and_cells_of_a_table_are_no_formulas():
    told = [(who, who, NAME, task, "not right", fault, "t") for who, task, fault in (
        ("ada", "02.a", "one-edge"), ("bob", "02.a", "one-edge"), ("ada", "02.b", "one-slot"), ("cy", "02.b", ""))]
    assert [row[:3] for row in report.mistakes(told)] == [(2, "02.a", "one-edge"), (1, "02.b", "one-slot")]
    assert report._cell("=1+1") == "'=1+1" and report._cell("-x") == "'-x" and report._cell(-1.5) == -1.5


def test_a_job_that_no_worker_can_do_is_left_alone(tmp_path, own_course, release, master, monkeypatch, capsys):
    """The rest is graded; but when one after another is left so, the run ends. The same command goes on later."""
    fails = [f"s{n}" for n in range(5)]
    monkeypatch.setattr(sandbox, "choose", lambda *a: "bwrap")
    monkeypatch.setattr(pools, "on_processes", all_right_but(fails))
    for n in range(6):
        samples.right(release, master, NAME, f"s{n}").write(tmp_path / "handed-in")
    arguments = [str(tmp_path / "handed-in"), "--course", str(own_course)]
    assert grade.main(arguments) == 1
    assert capsys.readouterr().err.endswith("no bwrap here\n")
    del fails[1:]
    assert grade.main(arguments) == 1
    out, err = capsys.readouterr()
    assert "0 were graded before, 5 now" in out and f"not graded  s0/{NAME}: no bwrap here" in err
    fails.clear()
    assert grade.main(arguments) == 0 and "5 were graded before, 1 now" in capsys.readouterr().out
    marks = gradebook.Course(own_course).marks()
    assert {who: mark["score"] for (who, _), mark in marks.items()} == {f"s{n}": 15 for n in range(6)}


def test_that_make_clean_takes_the_marks_is_said_where_it_does(tmp_path, own_course, release, master, monkeypatch,
                                                               capsys):
    monkeypatch.setattr(sandbox, "choose", lambda *a: "bwrap")
    monkeypatch.setattr(pools, "on_processes", all_right_but([]))
    samples.right(release, master, NAME, "ada").write(tmp_path / "handed-in")
    assert grade.main([str(tmp_path / "handed-in"), "--course", str(own_course)]) == 0
    assert "make clean" not in capsys.readouterr().out
    monkeypatch.setattr(build, "FOLDER", own_course)
    assert grade.main([str(tmp_path / "handed-in")]) == 0
    assert "make clean removes build/, marks too." in capsys.readouterr().out


def test_points_and_comments_by_hand_come_onto_the_page_with_the_next_run(tmp_path, own_course, release, master,
                                                                          monkeypatch, capsys):
    monkeypatch.setattr(sandbox, "choose", lambda *a: "bwrap")
    monkeypatch.setattr(pools, "on_processes", all_right_but([]))
    for name in ("ada", "bob"):
        samples.right(release, master, NAME, name).write(tmp_path / "handed-in")
    pages = {name: own_course / "feedback" / name / NAME / f"{NAME}.html" for name in ("ada", "bob")}
    arguments = [str(tmp_path / "handed-in"), "--course", str(own_course)]
    assert grade.main(arguments) == 0 and "written anew" not in capsys.readouterr().out
    untouched = pages["bob"].stat().st_mtime_ns
    with gradebook.Course(own_course).gradebook() as book:
        book.find_grade("reflect", NAME, NAME, "ada").manual_score = 5
        book.db.commit()
    assert grade.main(arguments) == 0
    out = capsys.readouterr().out
    assert "2 were graded before, 0 now" in out and "given by hand: 1." in out
    assert "20.0 / 20.0" in pages["ada"].read_text("utf-8") and "15.0 / 20.0" in pages["bob"].read_text("utf-8")
    with gradebook.Course(own_course).gradebook() as book:
        book.find_comment("reflect", NAME, NAME, "ada").manual_comment = "Well thought"
        book.db.commit()
    assert grade.main(arguments) == 0 and "given by hand: 1." in capsys.readouterr().out
    assert "Well thought" in pages["ada"].read_text("utf-8")
    assert grade.main(arguments) == 0 and "written anew" not in capsys.readouterr().out
    assert pages["bob"].stat().st_mtime_ns == untouched


def test_what_was_left_alone_is_in_the_report_whatever_it_is_called(tmp_path, own_course, release, master, monkeypatch):
    monkeypatch.setattr(sandbox, "choose", lambda *a: "bwrap")
    monkeypatch.setattr(pools, "on_processes", all_right_but([]))
    samples.right(release, master, NAME, "ada").write(tmp_path / "handed-in")
    (tmp_path / "handed-in" / "<img src=x onerror=f>\udcff.ipynb").touch()
    assert grade.main([str(tmp_path / "handed-in"), "--course", str(own_course)]) == 0
    page = (own_course / "report" / "index.html").read_text("utf-8")
    assert "<h2>Left alone</h2>" in page and "<img" not in page
    assert "&lt;img src=x onerror=f&gt;?.ipynb: it is in no student&#x27;s folder" in page


@pytest.mark.parametrize("url, reason", [
    ("postgresql://me:secret@127.0.0.1:1/marks", r"/marks cannot be opened: .*[Cc]onnection refused\.|No module"),
    ("sqlite:////no/such/folder/x.db", r"cannot be opened: unable to open database file\."),
    ("oracel://me:secret@host/x", r"cannot be opened: Can't load plugin: \S+\."),
    ("marks", r"marks cannot be opened: Could not parse"),
])
def test_a_gradebook_that_cannot_be_opened_is_said_in_one_sentence(tmp_path, course, capsys, monkeypatch, url, reason):
    monkeypatch.setattr(sandbox, "choose", lambda *a: "bwrap")
    assert grade.main([str(tmp_path), "--course", str(course), "--db", url]) == 1
    said = capsys.readouterr().err
    assert re.fullmatch(f"The gradebook .*({reason}).*\n", said), said
    assert "secret" not in said


@pytest.mark.parametrize("number", ["0", "-1", "two"])
def test_no_worker_at_all_is_refused(capsys, number):
    with pytest.raises(SystemExit):
        grade.main(["--workers", number])
    assert f"--workers: {number!r} is no number of processes" in capsys.readouterr().err.replace("argument ", "")


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_takes_a_folder_whose_name_has_spaces():
    # The make that runs these tests hands its own variables on.
    environment = {n: v for n, v in os.environ.items() if not n.startswith("MAKE") and n not in ("ARGS", "PYTHON")}
    for given, taken in ((["SUBMISSIONS=handed in"], '-m deploy.grading "handed in"'), ([], "-m deploy.grading")):
        ran = subprocess.run(["make", "-n", "grade", *given], cwd=ROOT, capture_output=True, text=True, env=environment)
        assert ran.stdout.splitlines()[-1].rstrip().endswith(taken), ran.stdout + ran.stderr


def test_a_name_that_no_terminal_can_show_is_said_and_stops_nothing(tmp_path, course, capfdbinary, monkeypatch):
    monkeypatch.setattr(sandbox, "choose", lambda *a: "bwrap")
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "\udcff\x1b[2J.ipynb").touch()
    assert grade.main([str(tmp_path), "--course", str(course)]) == 1
    assert b"left alone  ada/??[2J.ipynb: no assignment" in capfdbinary.readouterr().out


def test_without_the_modules_of_posix_this_file_is_skipped_and_no_collection_fails(tmp_path):
    """As on Windows. The tests of the class server look for the same modules."""
    (tmp_path / "windows.py").write_text("import sys\nsys.modules |= dict.fromkeys(['resource', 'fcntl', 'grp'])\n")
    command = [sys.executable, "-m", "pytest", "-p", "windows", "-p", "no:cacheprovider", "--collect-only", "-q"]
    # What CI requires is not to be had there.
    environment = {n: v for n, v in os.environ.items() if not n.startswith("AUTODIFF_")} | {"PYTHONPATH": str(tmp_path)}
    ran = subprocess.run([*command, "tests/test_grading.py", "tests/test_hub.py"], cwd=ROOT, capture_output=True,
                         text=True, env=environment)  # fmt: skip
    assert ran.returncode == 0 and "SKIPPED" in ran.stdout and "submissions are graded on Linux" in ran.stdout
    assert "tests/test_hub.py::" in ran.stdout and "tests/test_grading.py::" not in ran.stdout, ran.stdout


def test_an_empty_folder_and_a_missing_one_are_said(tmp_path, course, capsys, monkeypatch):
    monkeypatch.setattr(sandbox, "choose", lambda *a: "bwrap")
    assert grade.main([str(tmp_path / "none"), "--course", str(course)]) == 1
    assert "There is no folder" in capsys.readouterr().err
    assert grade.main([str(tmp_path), "--course", str(course)]) == 1
    assert "There are no submissions" in capsys.readouterr().err
