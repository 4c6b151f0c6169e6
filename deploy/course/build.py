"""Make an nbgrader course folder from the masters in solutions/.

    python deploy/course/build.py [FOLDER]        build/course when left out

Each master becomes an assignment of its own, source/NN_name/NN_name.ipynb. Answers are solution cells; below each
stands a locked cell that asks the check again and carries the points, with hidden tests that ask with secret seeds; the
question to think back on is marked by hand; everything else is read-only. The cells in which learners mark themselves
are left out, as is the progress file: a graded exercise deals the same numbers to everybody on every day.

The seeds come from FOLDER/hidden_key, which the first run makes: keep it, and a later run writes the same files again.
nbgrader_config.py is the teacher's and is written once. All the rest is written anew, also after a late edit of a
master: then run `nbgrader generate_assignment --force` and grade again. nbgrader refuses new or fewer tasks once
somebody has handed in. How a teacher uses the folder is said in deploy/course/README.md, and what a submission can and
cannot do to the check in deploy/course/guard.py.
"""

import ast
import hashlib
import hmac
import os
import pathlib
import re
import secrets
import sys

import nbformat

from autodiff.course import generate

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = ROOT / "build" / "course"
CLEANED = 'make clean removes build/, marks too. For a real course: make course ARGS="../my-course".'
KEY = "hidden_key"
SEEDS = 3
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}

# Points of a task, by its id or by its exercise, and of the question to think back on.
POINTS = {"18": 2}
USUAL_POINTS = 5
THINK_BACK_POINTS = 5

CONFIG = '''\
"""The settings of this course. This file is yours: `make course` writes it once and never again."""

import os

load_subconfig("grading_config.py", os.path.dirname(os.path.abspath(__file__)))

c = get_config()
c.CourseDirectory.course_id = "autodiff"
# Where assignments are handed out and in; the folder must be there, and everybody must be able to write to it.
# c.Exchange.root = "/srv/nbgrader/exchange"
'''

NOTE = """\
**This copy is graded.** Below each answer stands a read-only cell that asks the check again; its first line says how
many points it gives. Your teacher's run also tries inputs that are not shown here. Keep the names that the exercise
uses. The numbers are the same every day, and nothing in this copy counts in your own progress."""

PROGRESS = """\
import os

os.environ["AUTODIFF_PROGRESS"] = "off"
os.environ["AUTODIFF_GRADED"] = "yes"  # the check does not tell what it expects
"""

TEST = """\
# {task}: {points} points. Read-only: it asks the check again, and its answer counts.
from contextlib import redirect_stderr
from io import StringIO

from autodiff.course import check

with redirect_stderr(StringIO()):
    _graded = check("{task}", {answers})
_graded.table = None
assert _graded.status == "passed", _graded.text()
### BEGIN HIDDEN TESTS
# The same with other inputs. What guard.py does not trust: any name of this notebook, and the course as it is loaded.
import builtins as _builtins
import os as _os

_guard = {{"__builtins__": _builtins, "__name__": "guard"}}
with _builtins.open(_os.environ.get("AUTODIFF_GUARD", "../../guard.py"), encoding="utf-8") as _file:
    _builtins.exec(_builtins.compile(_file.read(), "guard.py", "exec"), _guard)
_guard["ask_again"]("{task}", [{answers}], seeds={seeds})
### END HIDDEN TESTS"""

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://|#)[^)]*\)")
_PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?://|attachment:|data:)")


def main(arguments):
    folder = pathlib.Path(arguments[0]).resolve() if arguments else FOLDER
    try:
        names, points = build(ROOT / "solutions", folder)
    except generate.MasterError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(f"{name}  {given:g} points" for name, given in zip(names, points)))
    print(next_steps(folder, names[0]))
    return 0


def next_steps(folder, name):
    """What to type next, for one assignment."""
    scripts = pathlib.Path(sys.executable).parent
    # nbgrader starts programs that are found there.
    activate = [f'    {"." if os.name == "posix" else "call"} "{scripts / "activate"}"']
    activate = activate if sys.prefix != sys.base_prefix else []
    steps = [
        ("generate_assignment", "release/: without answers and hidden tests"),
        ("release_assignment", "to the exchange; or hand out the folder in release/ yourself"),
        ("collect", "from the exchange; or put notebooks into submitted/STUDENT/ASSIGNMENT/"),
        ("autograde", "runs them, and keeps the marks in gradebook.db"),
        ("generate_feedback", "feedback/: a page for each student, without hidden tests"),
        ("release_feedback", "to the exchange"),
    ]
    width = max(len(step) for step, _ in steps)
    lines = ["", f"The course is in {folder}. Next, for each assignment:", "", f'    cd "{folder}"', *activate]
    lines += [f"    nbgrader {step:{width}} {name}  # {what}" for step, what in steps]
    lines += ["", "Between autograde and feedback, mark the last question by hand: with Formgrader in JupyterLab.",
              "What students type, and how to set up the exchange: deploy/course/README.md."]
    if folder == FOLDER:
        lines += ["", CLEANED]
    return "\n".join(lines)


def build(masters, folder, key=None):
    """Write the course folder: the names of its assignments, and the points of each."""
    paths = sorted(pathlib.Path(masters).glob("*.ipynb"))
    if not paths:
        raise generate.MasterError(f"There are no masters in {masters}.")
    folder.mkdir(parents=True, exist_ok=True)
    key = key or kept_key(folder / KEY)
    made = [assignment(nbformat.read(path, as_version=4), path.name, key) for path in paths]
    for path, notebook in zip(paths, made):
        write(folder / "source" / path.stem / path.name, generate.text_of(notebook))
    for name in ("grading_config.py", "guard.py"):
        write(folder / name, (HERE / name).read_text(encoding="utf-8"))
    if not (folder / "nbgrader_config.py").exists():
        write(folder / "nbgrader_config.py", CONFIG)
    return [path.stem for path in paths], [points_of(notebook) for notebook in made]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def kept_key(path):
    """The key in the file, made when there is none."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32) + "\n", encoding="ascii")
    return path.read_text(encoding="ascii").strip()


def points_of(notebook):
    return sum(cell.metadata.nbgrader.get("points", 0) for cell in notebook.cells)


def assignment(master, name, key):
    """The notebook that nbgrader takes as the source of an assignment."""
    ids = [cell.id for cell in master.cells]
    twice = {i for i in ids if ids.count(i) > 1}
    if twice:
        raise generate.MasterError(f"solutions/{name}: two cells have the id {', '.join(sorted(twice))}")
    generate.exercise_from(master, f"solutions/{name}")  # refuses a master whose markers are not in order
    kept = [cell for cell in master.cells if generate.MASTER_TAG not in cell.metadata.get("tags", [])]
    cells = []
    for cell in kept:
        if marks_itself(cell):
            continue
        cells += graded_parts(cell, name, key)
        if len(cells) == 1:  # below the title
            cells += [locked("markdown", "graded-copy", NOTE), locked("code", "graded-progress", PROGRESS)]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={
        "kernelspec": dict(KERNEL), "language_info": {"name": "python"}})  # fmt: skip
    nbformat.validate(notebook)
    return notebook


def marks_itself(cell):
    """The cells about the learner's own progress, which is off in a graded copy."""
    if cell.cell_type == "markdown":
        return cell.source.startswith("## Mark it yourself")
    return re.match(r"(mark|progress)\(", cell.source) is not None


def graded_parts(cell, name, key):
    """A cell of the master with its nbgrader metadata, and the graded cells that belong below it."""
    where = f"solutions/{name}, cell {cell.id}"
    if cell.cell_type == "markdown":
        return [text_cell(cell, where)]
    if generate.answer_of(cell.source) is None:
        return [locked("code", cell.id, cell.source, cell)]
    tests = []
    for task, answers in checked(cell.source, where):
        points = POINTS.get(task, POINTS.get(task.split(".")[0], USUAL_POINTS))
        source = TEST.format(task=task, points=points, answers=answers, seeds=seeds_of(task, key))
        letters = task.replace(".", "-")
        # "raises-exception": Run All goes on below a wrong answer, as it does in exercises/.
        tests.append(new_cell("code", f"graded-{letters}", source, tags=["raises-exception"],
                              grade=True, locked=True, points=points))  # fmt: skip
    return [new_cell("code", cell.id, cell.source, tags=tags_of(cell), solution=True), *tests]


def text_cell(cell, where):
    if _PICTURE.search(cell.source):
        raise generate.MasterError(f"{where}: a picture beside the notebook does not come along; draw or attach it")
    # A student gets this one notebook, so links to its neighbours lead nowhere.
    source = _LINK.sub(r"\1", cell.source)
    if "BEGIN SOLUTION" not in source:
        return locked("markdown", cell.id, source, cell)
    return new_cell("markdown", cell.id, source, tags=tags_of(cell), attachments=cell.get("attachments"),
                    grade=True, solution=True, points=THINK_BACK_POINTS)  # fmt: skip


def checked(source, where):
    """(task, answers as source) of each check that an answer cell ends with."""
    calls = [node.value for node in ast.parse(source).body if isinstance(node, ast.Expr)]
    calls = [call for call in calls if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "check"]
    for call in calls:
        if call.keywords or len(call.args) < 2:
            raise generate.MasterError(f"{where}: expected check(task, answer, ...), got {ast.unparse(call)}")
    return [(ast.literal_eval(call.args[0]), ", ".join(map(ast.unparse, call.args[1:]))) for call in calls]


def seeds_of(task, key):
    """Secret seeds: the same for the same key, and longer than the ones `check` draws for itself."""
    digests = [hmac.new(key.encode(), f"{task} {n}".encode(), hashlib.sha256).digest() for n in range(SEEDS)]
    return [10**12 + int.from_bytes(digest[:5], "big") for digest in digests]


def tags_of(cell):
    return list(cell.metadata.get("tags", []))


def locked(kind, cell_id, source, cell=None):
    return new_cell(kind, cell_id, source, tags=tags_of(cell) if cell else [], locked=True,
                    attachments=cell.get("attachments") if cell else None)  # fmt: skip


def new_cell(kind, cell_id, source, *, tags, grade=False, solution=False, locked=False, points=None, attachments=None):
    metadata = {"tags": tags} if tags else {}
    metadata["nbgrader"] = {"schema_version": 3, "grade_id": cell_id, "grade": grade, "solution": solution,
                            "locked": locked, "task": False}  # fmt: skip
    if points is not None:
        metadata["nbgrader"]["points"] = points
    make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    more = {"attachments": attachments} if attachments else {}
    return make(source.rstrip("\n"), id=cell_id, metadata=metadata, **more)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
