"""From what was handed in to what is run: find submissions, read them with care, restore what is not the student's.

Nothing here runs anything. A submission is a notebook in STUDENT/ASSIGNMENT/ (as nbgrader collects them) or in
STUDENT/. Of a notebook only this is taken: the text of the answer cells and of the cells that the student added. All
other cells, and all metadata, come from the assignment's own source: nobody gains or loses by editing them.
"""

import ast
import hashlib
import json
import os
import pathlib
import re
import stat
from dataclasses import dataclass

import nbformat
from nbgrader.utils import parse_utc

from deploy.course import build

BYTES = 20 * 2**20  # of a notebook
CELLS = 500
CHARACTERS = 200_000  # of all its cells

_CHECK = re.compile(r'^check\(\s*["\'](\d\d\.[a-z])["\']', re.M)
_SAFE = re.compile(r"[^A-Za-z0-9_.@-]")
LONGEST = 100  # characters of an id: file systems end at 255, nbgrader's gradebook at 128


class Unreadable(Exception):
    """A submission that is no notebook; the message is the reason for the student."""


class SourceError(Exception):
    """An assignment that cannot be graded here; the message names the cell."""


@dataclass(frozen=True)
class Submission:
    """A notebook handed in: `student` is the name as it was, `id` the one in the gradebook and in paths."""

    student: str
    assignment: str
    path: pathlib.Path | None
    problem: str = ""

    @property
    def id(self) -> str:
        return safe_id(self.student)

    @property
    def timestamp(self) -> str:
        """When it was handed in, as nbgrader notes it in timestamp.txt beside the notebook; "" for none."""
        try:
            data = read_regular(self.path.parent / "timestamp.txt", 100) if self.path else b""
            return parse_utc(data.decode("ascii").strip()).strftime("%Y-%m-%d %H:%M:%S.%f UTC") if data else ""
        except (OSError, ValueError, OverflowError):
            return ""

    def bytes(self) -> bytes:
        """The file's content, of a regular file and up to the limit; Unreadable otherwise."""
        if self.problem:
            raise Unreadable(self.problem)
        try:
            data = read_regular(self.path, BYTES + 1)
        except OSError as error:
            raise Unreadable(f"it could not be opened ({error.strerror}); only a regular file is read") from None
        if len(data) > BYTES:
            raise Unreadable(f"it is larger than {BYTES // 2**20} MB; clear its outputs, and hand in again")
        return data


def read_regular(path, most: int) -> bytes:
    """The first `most` bytes of a regular file. A link may lead to a file of the teacher's: OSError, as for a pipe."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "it is no regular file")
        return file.read(most)


def safe_id(name: str) -> str:
    """A name for paths and for the gradebook: other characters as =XX, so that no two names become one.

    >>> safe_id("ada"), safe_id("../x"), safe_id('o\\'neil "1"')
    ('ada', '=2E.=2Fx', 'o=27neil=20=221=22')
    >>> safe_id("a" * 101)
    'aaaaaaaaaaaaaaaaaaaa==9d0793397991b57a99a07c6e6b4a92ba'
    """
    raw = name.encode("utf-8", "surrogateescape")
    quoted = _SAFE.sub(lambda m: "".join(f"={b:02X}" for b in m[0].encode("utf-8", "surrogateescape")), name)
    quoted = "=2E" + quoted[1:] if quoted.startswith(".") else quoted
    # No other id has "==" in it.
    return quoted if len(quoted) <= LONGEST else f"{quoted[:20]}=={hashlib.sha256(raw).hexdigest()[:32]}"


def find(folder: pathlib.Path, assignments: list[str]) -> tuple[list[Submission], list[str]]:
    """Every submission under `folder`, in order, and a line for each thing that was left alone.

    What programs leave everywhere (`_LEFTOVERS`) has no line.
    """
    found, left = {}, []
    for student in _entries(folder):
        if student.is_symlink():
            left.append(f"{student.name}: it is a link, which may lead to anything")
        elif not student.is_dir(follow_symlinks=False):
            left.append(f"{student.name}: it is in no student's folder")
        else:
            for entry in _entries(student):
                if why := _add(found, left, student.name, entry, assignments):
                    left.append(f"{student.name}/{entry.name}: {why}")
    return list(found.values()), left


_LEFTOVERS = {".git", ".gitattributes", ".gitignore", ".ipynb_checkpoints", "__pycache__", ".DS_Store", "Thumbs.db",
              "desktop.ini"}  # fmt: skip


def _entries(folder):
    return sorted((e for e in os.scandir(folder) if e.name not in _LEFTOVERS), key=lambda e: e.name)


def _add(found, left, student, entry, assignments):
    """Add what this entry of a student's folder hands in to `found`; returns why there is nothing to add."""
    is_folder = entry.is_dir(follow_symlinks=False)
    if is_folder:
        one = _in_folder(student, entry, assignments)
    elif entry.name.endswith(".ipynb"):
        one = _by_name(student, entry, assignments)
    else:
        return "it is a link, which may lead to anything" if entry.is_symlink() else "it is no notebook"
    if one is None:
        return "no assignment of this course has this name"
    if (one.student, one.assignment) in found:
        return f"{one.assignment} of {student} is there twice"
    found[one.student, one.assignment] = one
    if is_folder and one.path:
        left += [f"{student}/{entry.name}/{name}: {one.path.name} beside it was taken"
                 for name in _notebooks(entry) if name != one.path.name]  # fmt: skip
    return None


def _notebooks(folder):
    return sorted(e.name for e in os.scandir(folder) if e.name.endswith(".ipynb") and not e.name.startswith("._"))


def _in_folder(student, entry, assignments):
    """The notebook of STUDENT/ASSIGNMENT/: the one with the right name, else the only one."""
    if entry.name not in assignments:
        return None
    names = _notebooks(entry)
    name = f"{entry.name}.ipynb"
    if name not in names and len(names) != 1:
        what = "no notebook" if not names else f"{len(names)} notebooks, none of them {name}"
        return Submission(student, entry.name, None, f"there is {what} in the folder that was handed in")
    return Submission(student, entry.name, pathlib.Path(entry.path, name if name in names else names[0]))


def _by_name(student, entry, assignments):
    """STUDENT/NAME.ipynb, where the name begins with that of an assignment: a browser may have added to it."""
    fits = [a for a in assignments if entry.name.startswith(a)]
    return Submission(student, max(fits, key=len), pathlib.Path(entry.path)) if fits else None


def read(data: bytes) -> list[dict]:
    """The cells of a notebook as {"type", "id", "grade_id", "source"}; Unreadable with the reason otherwise."""
    if not data.strip():
        raise Unreadable("the file is empty")
    try:
        raw = json.loads(data.decode("utf-8"))
        if not isinstance(raw, dict) or not isinstance(raw.get("nbformat"), int):
            raise Unreadable("it is no notebook")
        if raw["nbformat"] < 4:
            raw = nbformat.convert(nbformat.from_dict(raw), 4)
        cells = raw["cells"]
        if not isinstance(cells, list):
            raise Unreadable("it is no notebook: its cells are no list")
        if len(cells) > CELLS:
            raise Unreadable(f"it has {len(cells)} cells, and more than {CELLS} are not read")
        read = [one for one in map(_cell, cells) if one]
        size = sum(len(one["source"]) for one in read)
        if size > CHARACTERS:
            raise Unreadable(f"its cells have {size} characters, and more than {CHARACTERS} are not read")
        return read
    except UnicodeDecodeError:
        raise Unreadable("it is no text") from None
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(f"it is no notebook ({type(error).__name__}: {str(error)[:100]})") from None


def _cell(raw):
    source = raw.get("source", "")
    source = "".join(source) if isinstance(source, list) else source
    kind = raw.get("cell_type")
    if kind not in ("code", "markdown") or not isinstance(source, str):
        return None
    metadata = raw.get("metadata") if isinstance(raw.get("metadata"), dict) else {}
    graded = metadata.get("nbgrader") if isinstance(metadata.get("nbgrader"), dict) else {}
    # Half a surrogate pair cannot be written to a file.
    source = source.encode("utf-8", "replace").decode("utf-8")
    return {"type": kind, "id": raw.get("id"), "grade_id": graded.get("grade_id"), "source": source}


def restored(release, cells: list[dict]):
    """A copy of the released notebook with the student's answers and own cells in it, and what was set right.

    An answer is found by its grade id, else by its cell id, else by the task that it checks.
    """
    notebook = nbformat.from_dict(json.loads(json.dumps(release)))
    known = {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells}
    tasks = {_CHECK.search(c.source)[1]: name for name, c in known.items() if is_answer(c) and _CHECK.search(c.source)}
    taken, after, notes = {}, {None: []}, []
    place = None
    for cell in cells:
        name = next((n for n in (cell["grade_id"], cell["id"]) if isinstance(n, str) and n in known), None)
        if name is None and cell["type"] == "code" and _CHECK.search(cell["source"]):
            name = tasks.get(_CHECK.search(cell["source"])[1])
        if name is not None and name not in taken and known[name].cell_type == cell["type"]:
            taken[name] = cell["source"]
            place = name
            after.setdefault(place, [])
        elif cell["source"].strip():
            after[place].append(cell)
    changed = []
    for name, cell in known.items():
        if is_answer(cell):
            if name in taken:
                # A page with the answer on it, the teacher's too, must run nothing of it.
                changed_text = cell.cell_type == "markdown" and taken[name] != cell.source
                cell.source = without_tags(taken[name]) if changed_text else taken[name]
            else:
                notes.append(f"the answer {name} is missing")
        elif cell.cell_type == "code" and taken.get(name, "").rstrip() != cell.source.rstrip():
            changed.append(name)
    if changed:
        notes.append(f"read-only cells were changed or missing, and restored: {', '.join(changed)}")
    made, number = [], 0
    for place in [None, *known]:
        if place is not None:
            made.append(known[place])
        for cell in after.get(place, ()):
            number += 1
            if cell["type"] == "code":
                made.append(nbformat.v4.new_code_cell(cell["source"], id=f"added-{number}"))
            else:
                made.append(nbformat.v4.new_markdown_cell(without_tags(cell["source"]), id=f"added-{number}"))
    notebook.cells = made
    return notebook, notes


def without_tags(text: str) -> str:
    """Markdown that runs and loads nothing: no HTML, no link but to a page, and no picture.

    >>> without_tags("a < b, <b onclick=x>, <!-- c -->")
    'a < b, &lt;b onclick=x>, &lt;!-- c -->'
    >>> print(without_tags("[x](javascript:f) f[x](y) [w](https://x.org) ![p](https://x.org/p.png)"))
    [x]\\(javascript:f) f[x](y) [w](https://x.org) \\![p](https://x.org/p.png)
    """
    return _LINK.sub(r"]\\", re.sub(r"!(?=\[)", r"\!", re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)))


# The end of a link's text or name before an address of another kind; "&" and a backslash can stand for its colon.
_LINK = re.compile(r"\](?=\(\s*(?!https?://)[^)\n]*[:&\\]|:\s*(?!https?://)\S*[:&\\])")


def is_answer(cell) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def is_test(cell) -> bool:
    graded = cell.metadata.get("nbgrader", {})
    return cell.cell_type == "code" and bool(graded.get("grade")) and not graded.get("solution")


def asked(cell, where: str):
    """(task, answers as expressions, seeds) of a graded cell, as deploy/course/build.py writes it."""
    try:
        tree = ast.parse(cell.source)
        call = next(n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)
                    and isinstance(n.func.slice, ast.Constant) and n.func.slice.value == "ask_again")
        task, answers = ast.literal_eval(call.args[0]), list(map(ast.unparse, call.args[1].elts))
        seeds = ast.literal_eval(next(k.value for k in call.keywords if k.arg == "seeds"))
        same = build.TEST.format(task=task, points=build.POINTS.get(task, 0), answers=", ".join(answers), seeds=seeds)
        # A teacher's own test beside it would be left out in silence.
        if cell.source.splitlines()[1:] != same.rstrip("\n").splitlines()[1:]:
            raise ValueError("it has more or other lines")
    except (SyntaxError, StopIteration, ValueError, IndexError, AttributeError) as error:
        raise SourceError(f"{where}: a graded cell that `make course` did not write ({error}). Run make course again, "
                          "or grade this assignment with nbgrader itself.") from None
    return task, answers, seeds


@dataclass(frozen=True)
class Assignment:
    """What the source of an assignment says: its notebook with hidden tests, and the tasks of each graded cell."""

    name: str
    notebook: object
    graded: dict  # {grade id: (task, expressions, seeds)}
    digest: str

    @classmethod
    def load(cls, folder: pathlib.Path, name: str) -> "Assignment":
        data = (folder / "source" / name / f"{name}.ipynb").read_bytes()
        notebook = nbformat.reads(data.decode("utf-8"), as_version=4)
        for cell in notebook.cells:
            if "grade_id" not in cell.metadata.get("nbgrader", {}):
                raise SourceError(f"{name}, cell {cell.id}: no nbgrader metadata. Run make course again.")
        graded = {cell.metadata.nbgrader.grade_id: asked(cell, f"{name}, cell {cell.id}")
                  for cell in notebook.cells if is_test(cell)}  # fmt: skip
        return cls(name, notebook, graded, hashlib.sha256(data).hexdigest())

    def cells(self, notebook) -> list[dict]:
        """The code cells of a restored notebook for the sandbox: no hidden test and no seed is among them."""
        made = []
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name in self.graded:
                task, expressions, _ = self.graded[name]
                made.append({"id": cell.id, "tasks": [[task, expressions]]})
            elif cell.cell_type == "code":
                made.append({"id": cell.id, "source": cell.source})
        return made

    def seeds(self) -> dict:
        return {task: seeds for task, _, seeds in self.graded.values()}


# What a teacher may want to look at

_NAMES = {"_getframe", "__globals__", "__closure__", "__code__", "__subclasses__", "__builtins__", "__mro__", "f_back",
          "f_locals", "f_globals", "tb_frame", "gi_frame", "as_strided", "get_ipython", "setattr", "__setattr__",
          "exec", "eval", "compile", "__import__", "globals", "__class__", "__bases__", "__dict__"}  # fmt: skip
# What answers may be made with. Any other package is listed, whatever it is for.
_USUAL = {"abc", "array", "bisect", "cmath", "collections", "contextlib", "copy", "dataclasses", "decimal", "enum",
          "fractions", "functools", "heapq", "itertools", "math", "matplotlib", "numbers", "numpy", "operator",
          "pprint", "random", "statistics", "string", "time", "types", "typing"}  # fmt: skip
# Reached as an attribute of another module.
_MODULES = {"sys", "os", "gc", "ctypes", "inspect", "importlib", "builtins", "socket", "subprocess", "threading",
            "signal", "course"}  # fmt: skip
_CALLS = [["check"], ["given"], ["hint"], ["mark"], ["progress"], ["*"]]
_COMMAND = re.compile(r"^([ \t]*+)(?:[\w, ]++=[ \t]*+)?+([!%]++\w*+).*$", re.M)
MOST_LISTED = 20


def worth_a_look(release, notebook) -> list[str]:
    """Lines about code of the student that reaches further than an answer needs to; none of them takes a mark."""
    ours = {name for cell in release.cells if cell.cell_type == "code" for name in _reach(cell.source)}
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code" and (is_answer(cell) or not cell.metadata.get("nbgrader")):
            used = sorted({*_reach(cell.source)} - ours)
            if used:
                found.append(f"{cell.id}: {', '.join(used)}"[:200])
    return found[:MOST_LISTED]


def _reach(source):
    """The names in the source that reach far, and the commands of IPython's own."""
    tree = _parsed(source)
    if tree is None:
        yield from (match[2] for match in _COMMAND.finditer(source))
        tree = _parsed(_COMMAND.sub(r"\1pass", source))
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if _far(name.name))
        elif isinstance(node, ast.ImportFrom):
            yield from filter(_far, (f"{node.module}.{name.name}" for name in node.names))
        elif isinstance(node, ast.Name) and node.id in _NAMES:
            yield node.id
        elif isinstance(node, ast.Attribute) and (node.attr in _NAMES or node.attr in _MODULES):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in _NAMES:
            yield node.value


def _parsed(source):
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _far(name):
    """Whether an import is none that answers are usually made with.

    >>> [_far(name) for name in ("numpy.linalg", "autodiff", "autodiff.course.check")]
    [False, False, False]
    >>> [_far(name) for name in ("numpy.ctypeslib", "autodiff.course.judge", "autodiff.course", "socket.socket")]
    [True, True, True, True]
    """
    first, *rest = name.split(".")
    if first == "autodiff":
        return rest[:1] == ["course"] and rest[1:] not in _CALLS
    return first not in _USUAL or "ctypeslib" in rest
