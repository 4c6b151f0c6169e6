"""Submissions to try the grading with: right ones, untouched ones, one for each known mistake, and hostile ones.

A sample knows the marks that it must be given. Nothing here is dangerous inside the limits; nothing of it should ever
run outside of them.
"""

import json
import random
from dataclasses import dataclass, field

from autodiff.course import generate, prove

PASSED, WRONG, OPEN, FAILED = "passed", "not right", "not started yet", "failed"
ANY = ("passed", "not right", "not started yet", "not finished yet", "the check itself broke")
HERE = __file__
HOSTILE = "02_one_edge_twice"


@dataclass(frozen=True)
class Sample:
    """`files` are put into STUDENT/ASSIGNMENT/; `expected` is {task: (status, fault)}, the fault None where it is open,
    and the status a tuple where more than one is right."""

    student: str
    assignment: str
    files: dict
    expected: dict
    kind: str = "right"
    says: str = ""  # what the reason for a task without a verdict must contain
    looks: str = ""  # what the list of what is worth a look must contain
    links: dict = field(default_factory=dict)

    def write(self, folder):
        target = folder / self.student / self.assignment
        target.mkdir(parents=True)
        for name, content in self.files.items():
            (target / name).write_bytes(content)
        for name, goal in self.links.items():
            (target / name).symlink_to(goal)


def answers(master) -> dict:
    """{cell id: source} of the master's answer cells, without the markers."""
    return {cell.id: bare_of(cell.source) for cell in master.cells
            if cell.cell_type == "code" and generate.answer_of(cell.source)}  # fmt: skip


def bare_of(source):
    return "\n".join(line for line in source.splitlines() if "### BEGIN" not in line and "### END" not in line)


def filled(release, sources, added=(), first=()):
    """The released notebook as bytes, with some cells' sources and, behind or before some, cells of the student's."""
    notebook = json.loads(json.dumps(release))
    cells = []
    for number, source in enumerate(first):
        cells.append({"cell_type": "code", "id": f"first-{number}", "metadata": {}, "outputs": [], "source": source,
                      "execution_count": None})  # fmt: skip
    for cell in notebook["cells"]:
        cell["source"] = sources.get(cell["id"], cell["source"])
        cells.append(cell)
        for number, (where, source) in enumerate(added):
            if where == cell["id"]:
                cells.append({"cell_type": "code", "id": f"mine-{number}", "metadata": {}, "outputs": [],
                              "source": source, "execution_count": None})  # fmt: skip
    notebook["cells"] = cells
    return json.dumps(notebook).encode()


def tasks_of(release):
    return [task for cell in release.cells if (task := prove.task_of(cell))]


def right(release, master, name, student):
    return Sample(student, name, {f"{name}.ipynb": filled(release, answers(master))},
                  dict.fromkeys(tasks_of(release), (PASSED, None)))  # fmt: skip


# What notebooks begin with, for JupyterLab. The first line is the one that is seen most.
COMMANDS = """\
%matplotlib inline
%config InlineBackend.figure_format = 'retina'
%load_ext autoreload
%autoreload 2
%autosave 0
%clear
import matplotlib.pyplot as plt
"""
USES = """
get_ipython().run_line_magic("matplotlib", "inline")
plt.plot([1, 2])
plt.show()
where = !echo {slot_1} $total
%time where
import scipy
from scipy.special import erf
from sklearn.datasets import load_digits
assert scipy.stats.norm.cdf(0) == (1 + erf(0)) / 2 == 0.5 and len(load_digits().target) == 1797
"""


def commands(release, master):
    """Right answers of exercise 02 with commands of IPython's and JupyterLab's own in them."""
    good = answers(master)
    content = filled(release, {**good, "b-answer": COMMANDS + good["b-answer"] + USES,
                               "c-answer": f"%pylab inline\n{good['c-answer']}"})  # fmt: skip
    return Sample("commands", HOSTILE, {f"{HOSTILE}.ipynb": content}, dict.fromkeys(tasks_of(release), (PASSED, None)),
                  "commands", looks="%matplotlib")  # fmt: skip


def stub(release, name, student):
    return Sample(student, name, {f"{name}.ipynb": filled(release, {})},
                  dict.fromkeys(tasks_of(release), (OPEN, None)), "stub")  # fmt: skip


def problems(sample, entry, mark, points) -> list[str]:
    """What is not as expected in the `entry` that was kept of a sample and in its `mark` in the gradebook.

    `points`: {task: points}.
    """
    found = entry.get("verdicts", {})
    wrong = []
    for task, (status, fault) in sample.expected.items():
        got = found.get(task, {"status": "nothing", "fault": None, "text": ""})
        if got["status"] not in ((status,) if isinstance(status, str) else status):
            wrong.append(f"{task} is {got['status']}, expected {status}")
        elif fault and got["fault"] != fault:
            wrong.append(f"{task} is diagnosed as {got['fault']}, expected {fault}")
        elif got["status"] == FAILED and sample.says not in got["text"]:
            wrong.append(f"{task} says {got['text']!r}, expected {sample.says!r} in it")
    score = sum(points[task] for task, got in found.items() if got["status"] == PASSED)
    if mark.get("score") != score:
        wrong.append(f"the gradebook has {mark.get('score')} points, expected {score}")
    return [f"{sample.student}/{sample.assignment}: {line}" for line in wrong]


def wrong(release, master, name, student, mistake):
    """All right but for one known mistake."""
    sources = {**answers(master), **{i: bare_of(s) for i, s in prove.substitute(master, mistake).items()}}
    # What a later answer makes of a wrong one is not this sample's question.
    expected = {task: (PASSED if task < mistake.task else ANY, None) for task in tasks_of(release)}
    expected[mistake.task] = (WRONG, mistake.fault)
    return Sample(student, name, {f"{name}.ipynb": filled(release, sources)}, expected, "wrong")


# Hostile ones, all of exercise 02: 02.a are three numbers, 02.b and 02.c are functions.

ENDLESS = "while True:\n    pass"
STUBBORN = "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass"
FORK_BOMB = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
THREADS = ("import threading, time\nfor _ in range(10_000):\n"
           "    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()")  # fmt: skip
ALLOCATE = "import numpy as np\nmine = [bytearray(100 * 2**30)]\nmine.append(np.ones(100 * 2**30 // 8))"
# Each within the limit of one process, all together far above it.
HOGS = ("import os, time\nfor _ in range(30):\n    if os.fork() == 0:\n        held = bytearray(b'x') * (150 * 2**20)\n"
        "        time.sleep(1000)\ntime.sleep(1000)")  # fmt: skip
# The same in memory that processes could share.
SHARES = ("import mmap, os, time\nfor _ in range(30):\n    if os.fork() == 0:\n"
          "        held = mmap.mmap(-1, 150 * 2**20)\n        held.write(b'x' * (150 * 2**20))\n"
          "        time.sleep(1000)\ntime.sleep(1000)")  # fmt: skip
# Only the first of the two runs is quick.
TIME_BOMB = ("import os, time\nif os.path.exists('seen'):\n    time.sleep(1000)\nopen('seen', 'w').close()")
# Lines in the form in which outputs are told, far more than may be shown.
FLOODS_SHOWN = """\
import json, os
line = json.dumps({"what": "cell", "id": "added-1", "outputs": [
    {"output_type": "stream", "name": "stdout", "text": "x" * 10**6}] * 3})
for number in range(3, 256):
    try:
        os.write(number, line.encode() + b"\\n")
    except OSError:
        pass"""
PRINTS = "for _ in range(10_000):\n    print('x' * 100_000)"
FLOODS = ("import os\ntry:\n    for number in range(3, 256):\n        try:\n            for _ in range(1000):\n"
          "                os.write(number, b'x' * 10**6 + b'\\n')\n        except OSError:\n            pass\n"
          "except MemoryError:\n    pass")  # fmt: skip
FILLS = ("import tempfile\nfor k in range(100):\n    with open(f'{tempfile.gettempdir()}/fill{k}', 'wb') as f:\n"
         "        for _ in range(100):\n"
         "            f.write(b'x' * 10**7)")  # fmt: skip
KILLS = ("import os, signal\nfor pid in [os.getppid(), 1, -1, *range(2, 50)]:\n    if pid != os.getpid():\n"
         "        try:\n            os.kill(pid, signal.SIGKILL)\n        except OSError:\n            pass")
LEAVES = "import os\nos._exit(0)"
EXITS = "import sys\nsys.exit(0)"
CRASHES = "import ctypes\nctypes.string_at(0)"
ABORTS = "import os\nos.abort()"
PRINTS_MARKS = """\
import atexit, json, os
lines = [{"kind": "judge", "line": {"what": "verdict", "task": t, "status": "passed", "text": "", "fault": None}}
         for t in ("02.a", "02.b", "02.c")]
lines += [line["line"] for line in lines] + [{"kind": "done"}, {"what": "end", "undone": [], "denied": []}]
text = "".join(json.dumps(line) + "\\n" for line in lines)
print(text, "02.a  passed\\n02.b  passed\\n02.c  passed", 20.0)
def write():
    for number in range(256):
        try:
            os.write(number, text.encode())
        except OSError:
            pass
write()
atexit.register(write)"""
PATCHES = """\
import builtins, math, random, sys
import autodiff.course as course
import autodiff.course.api as api, autodiff.course.judge as judge, autodiff.course.result as result
from autodiff.course.result import Result

def check(task, *answers, seed=None):
    return Result(f"{task}  passed", task=task, status="passed")

course.check = api.check = check
api._judge = lambda attempt: Result(f"{attempt.task.id}  passed", task=attempt.task.id, status="passed")
result.close = math.isclose = lambda *a, **k: True
for task in api.tasks().values():
    object.__setattr__(task, "judge", lambda attempt: attempt.passed())
Result.__bool__ = lambda self: True
Result.status = property(lambda self: "passed", lambda self, value: None)
judge.run = lambda *a, **k: judge.Run("returned", [])
result.WRONG = judge.WRONG = api.WRONG = "passed"
builtins.all = builtins.any = lambda *a: True
random.Random.choice = lambda self, options: options[0]
sys.modules["autodiff.course.api"] = sys.modules["autodiff.course"] = course
judge.len = lambda *a: 0
try:
    api.check.__code__ = check.__code__
except Exception:
    pass"""
# What tells the verdict is changed, and not the check.
PASSES = """\
real = json.JSONEncoder()
def encode(told):
    return real.encode({**told, "status": "passed"} if "status" in told else told)
def ask(check, task, *more, **others):
    return {"task": task, "status": "passed", "text": "", "fault": None}
def verdict(task, *more, **others):
    return ask(None, task)
inside = type(get_ipython())._tee.__globals__
def mul_backward(node, g): return []
"""
ENCODES = "import json\n" + PASSES + "json._default_encoder.encode = json.JSONEncoder.encode = encode"
# After the last cell and before the check, when the answer is looked up and looked at.
NAMES = "import json\n" + PASSES + """\
class Names(dict):
    def __getitem__(self, name):
        if name == "mul_backward":
            inside.update(ask=ask, verdict=verdict)
        return dict.__getitem__(self, name)
get_ipython().user_ns = Names(get_ipython().user_ns, mul_backward=mul_backward)"""
CLASSES = "import json\n" + PASSES + """\
class Meta(type):
    def __eq__(self, other):
        inside.update(ask=ask, verdict=verdict)
        return False
    __hash__ = type.__hash__
class Answer(metaclass=Meta):
    def __call__(self, node, g): return []
    @property
    def __class__(self):
        return inside.update(ask=ask, verdict=verdict) or Answer
    def __del__(self):
        inside.update(ask=ask, verdict=verdict)
mul_backward = Answer()"""
# At any moment of the check, without a thread.
CALLS_BACK = "import json, gc\n" + PASSES + """\
gc.callbacks.append(lambda phase, info: inside.update(verdict=verdict))
gc.set_threshold(1)"""
RINGS = "import json, signal\n" + PASSES + """\
signal.signal(signal.SIGVTALRM, lambda number, frame: inside.update(verdict=verdict))
signal.setitimer(signal.ITIMER_VIRTUAL, 0.01, 0.01)"""
# What decides, changed where no name shows it. The exercise's own cells then miss what they import.
DEEP = """\
import sys, types
import autodiff.course.api as api, autodiff.course.judge as judge, autodiff.course.checks_02 as checks
class Module(types.ModuleType):
    close = property(lambda self: lambda *a: True)
    check = property(lambda self: lambda *a, **k: True)
for module in (api, judge, checks):
    module.__class__ = Module
sys.modules["autodiff.course.checks_02"] = Module("autodiff.course.checks_02")
for task in api.tasks().values():
    object.__setattr__(task, "__dict__", {**vars(task), "judge": lambda attempt: attempt.passed()})
for cell in judge._apart.__closure__:
    for inner in getattr(cell.cell_contents, "__closure__", None) or ():
        if isinstance(inner.cell_contents, list):
            inner.cell_contents.clear()
    cell.cell_contents = lambda *a: None"""
# Frames by way of somebody who may look at them, and the tracer of the check itself.
TRACES = """\
def mul_backward(node, g):
    import sys
    import numpy as np
    def trace(frame, event, arg):
        while frame:
            for name, value in list(frame.f_locals.items()):
                if name == "tell":
                    value(what="verdict", task="02.b", status="passed", text="", fault=None)
            frame = frame.f_back
    try:
        sys.gettrace().__self__.outer = trace
    except AttributeError:
        pass
    for get, number in ((sys._getframe, 2), (sys.settrace, trace)):
        try:
            trace(np.vectorize(get, otypes=[object])(number).item(), None, None)
        except RuntimeError:
            pass
    return []


check("02.b", mul_backward)"""
# The same while the check runs, from within an answer.
PATCHES_LATE = """\
def mul_backward(node, g):
    import autodiff.course.checks_02 as checks
    checks.close = checks._pairs = lambda *a, **k: True
    return []


check("02.b", mul_backward)"""
SPIES = """\
def mul_backward(node, g):
    import sys, gc, inspect
    for look in (lambda: sys._getframe(), lambda: inspect.currentframe(), lambda: gc.get_objects(),
                 lambda: inspect.stack()[0].frame):
        try:
            frame = look()
            while hasattr(frame, "f_back"):
                for name, value in frame.f_locals.items():
                    if name in ("expected", "right", "target", "wanted"):
                        return value
                frame = frame.f_back
        except RuntimeError:
            pass
    try:
        1 / 0
    except ZeroDivisionError as error:
        frame = error.__traceback__.tb_frame
        while frame:
            for name, value in frame.f_locals.items():
                if name in ("expected", "right", "target", "wanted"):
                    return value
            frame = frame.f_back


check("02.b", mul_backward)"""
EQUAL = """\
class Yes(float):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __hash__(self): return 0
    def __bool__(self): return True
    def __len__(self): return 2
    def __iter__(self): return iter([self, self])
    def __getitem__(self, key): return self
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    def __sub__(self, other): return 0.0
    __rsub__ = __abs__ = __sub__
slot_1 = slot_2 = total = Yes(1)
def mul_backward(node, g): return Yes(1)
def backward(order): return Yes(1)"""


def looks_for(paths):
    """Hand in whatever can be read of `paths`, and write beside them."""
    return f"""\
import os
found = []
paths = {list(map(str, paths))!r}
for path in [*paths, *["/proc/1/root" + path for path in paths], "/proc/1/cwd", "/proc/1/fd", "/proc/1/environ"]:
    try:
        found += [n for n in os.listdir(path) if "written" not in n] if os.path.isdir(path) else [open(path).read()]
    except OSError:
        pass
    # In the sandbox's own /tmp this may succeed, and reaches nothing.
    for target in (path + "/written-by-a-submission", os.path.dirname(path) + "/written-by-a-submission"):
        try:
            open(target, "w").write("written by a submission")
        except OSError:
            pass
homes = ["/home/x", os.path.expanduser("~root") + "/x"]
for target in ("/x", "/usr/x", "/etc/x", *homes, "/dev/shm/x", "/proc/sys/kernel/hostname"):
    try:
        open(target, "w").write("x")
        found.append(target)
    except OSError:
        pass
assert not found, "reached: " + repr(found)[:1000]
slot_1 = slot_2 = -12
total = -24"""


def calls(port):
    """Ask for the network in several ways; an answer would give the mark away."""
    return f"""\
import socket
reached = []
for family, address in [(socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_INET, ("10.0.0.1", 80)),
                        (socket.AF_INET, ("1.1.1.1", 53)), (socket.AF_INET6, ("::1", {port}))]:
    try:
        with socket.socket(family) as s:
            s.settimeout(1)
            s.connect(address)
            reached.append(address)
    except OSError:
        pass
try:
    reached.append(socket.getaddrinfo("example.org", 80))
except OSError:
    pass
assert not reached, reached
slot_1 = slot_2 = -12
total = -24"""


def edited(release):
    """An untouched notebook whose locked cells, points and ids were changed to give full marks."""
    notebook = json.loads(filled(release, {}))
    for cell in notebook["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if about.get("grade"):
            about.update(points=1000, locked=False, solution=True)
            cell["source"] = "pass  # full marks"
        elif about.get("locked") and cell["cell_type"] == "code":
            about.update(locked=False, grade=True, points=500)
            cell["source"] = "check = lambda *a, **k: True"
    twice = [json.loads(json.dumps(c)) for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade")]
    notebook["cells"] += twice
    notebook["metadata"] = {"kernelspec": {"name": "bash", "display_name": "x", "language": "bash"},
                            "celltoolbar": "Create Assignment"}
    return json.dumps(notebook).encode()


def bare(release, master):
    """Right answers in new cells: no metadata, no ids, and no graded cell left."""
    mine = [{"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
            for source in answers(master).values()]  # fmt: skip
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": mine}).encode()


def hostile(release, master, outside=(), port=9):
    """{name: Sample} of exercise 02. `outside`: what must stay out of reach; `port`: one that is open outside."""
    name, good = HOSTILE, answers(master)
    tasks = tasks_of(release)
    all_right, none, all_failed = [dict.fromkeys(tasks, (s, None)) for s in (PASSED, OPEN, FAILED)]
    made = {}

    def add(kind, content, expected, says="", looks="", file=f"{name}.ipynb", student=None, links=None):
        files = {} if content is None else {file: content}
        made[kind] = Sample(student or f"hostile {kind}", name, files, expected, kind, says, looks, links or {})

    def first(*code, sources=good):
        return filled(release, sources, first=code)

    def answer(cell, code):
        return filled(release, {**good, cell: code})

    add("endless loop", first(ENDLESS), all_right)
    add("stubborn loop", first(STUBBORN), all_failed, "too long")
    add("endless answer", answer("b-answer", "def mul_backward(node, g):\n    while True:\n        pass"),
        {**all_right, "02.b": (WRONG, None)})  # fmt: skip
    add("fork bomb", first(FORK_BOMB), all_right)
    add("threads", first(THREADS), {**dict.fromkeys(tasks, (WRONG, None)), "02.a": (PASSED, None)},
        looks="thread")
    add("100 GB", first(ALLOCATE), all_right)
    add("many hogs", first(HOGS), all_failed, "memory")
    add("shared memory", first(SHARES), all_failed, "memory")
    add("time bomb", first(TIME_BOMB), all_right)
    add("1 GB of output", first(PRINTS), all_right)
    add("forges outputs", first(FLOODS_SHOWN), all_right)
    add("floods", first(FLOODS), all_failed, "sent too much")
    add("fills the disk", first(FILLS), all_right)
    add("kills its parent", first(KILLS), all_right)
    add("leaves early", first(LEAVES), all_failed, "ended its own process")
    add("leaves later", filled(release, good, added=[("b-answer", LEAVES)]),
        {**all_failed, "02.a": (PASSED, None)}, "ended its own process")  # fmt: skip
    add("leaves in an answer", answer("b-answer", "def mul_backward(node, g):\n    import os\n    os._exit(0)"),
        {**all_failed, "02.a": (PASSED, None)}, "ended its own process")  # fmt: skip
    add("exits", first(EXITS), all_right)
    add("crashes", first(CRASHES), all_right, looks="refused: ctypes")
    add("aborts", first(ABORTS), all_failed, "crashed")
    add("reads and writes outside", filled(release, {"a-answer": looks_for(outside)}), {**none, "02.a": (PASSED, None)})
    add("calls the network", filled(release, {"a-answer": calls(port)}), {**none, "02.a": (PASSED, None)})
    add("prints results", first(PRINTS_MARKS, sources={}), none, looks="forged")
    add("patches the check", first(PATCHES, sources={}), none, looks="put back")
    add("patches it from an answer", filled(release, {"b-answer": PATCHES_LATE}), {**none, "02.b": (WRONG, None)},
        looks="changed the check while")  # fmt: skip
    for kind, code in (("changes the encoder", ENCODES), ("exchanges its names", NAMES), ("odd classes", CLASSES),
                       ("is called back", CALLS_BACK)):  # fmt: skip
        add(kind, filled(release, {"b-answer": code}), {**none, "02.b": (WRONG, None)})
    add("rings", filled(release, {"b-answer": RINGS}), {**all_failed, "02.a": (OPEN, None)}, "crashed")
    add("patches where no name shows it", first(DEEP, sources={}), {**none, "02.a": (WRONG, None)}, looks="put back")
    add("exchanges the tracer", filled(release, {"b-answer": TRACES}), {**none, "02.b": (WRONG, None)}, looks="refused")
    add("goes on twice", answer("b-answer", "import os\ndef mul_backward(node, g):\n    os.fork()\n    return []"),
        {**dict.fromkeys(tasks, ((PASSED, FAILED), None)), "02.b": ((WRONG, FAILED), None)})  # fmt: skip
    add("looks at frames", filled(release, {"b-answer": SPIES}), {**none, "02.b": (WRONG, None)}, looks="refused")
    add("equal to everything", first(sources=dict.fromkeys(good, EQUAL)),
        {**dict.fromkeys(tasks, (WRONG, None)), "02.a": ((WRONG, "the check itself broke"), None)})  # fmt: skip
    add("edits its tests", edited(release), none)
    add("loses its metadata", bare(release, master), all_right)
    add("zero bytes", b"", all_failed, "the file is empty")
    add("no JSON", b'{"cells": [', all_failed, "no notebook")
    add("binary", bytes(random.Random(0).randrange(256) for _ in range(5000)), all_failed, "no text")
    add("deep", b"[" * 100_000, all_failed, "nested too deeply")
    add("a list", b"[1, 2]", all_failed, "no notebook")
    add("odd cells", json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": 3, "cells": [
        1, None, [], {"cell_type": "code"}, {"cell_type": "code", "source": 7, "metadata": {"nbgrader": []}},
        {"cell_type": "code", "source": ["x = 1\n", 2]}]}).encode(), all_failed, "no notebook")  # fmt: skip
    add("huge", b" " * (21 * 2**20), all_failed, "larger than 20 MB")
    add("many cells", json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
        {"cell_type": "code", "source": "1", "metadata": {}}] * 1000}).encode(), all_failed, "1000 cells")  # fmt: skip
    add("no notebook", None, all_failed, "no notebook in the folder")
    add("a link", None, all_failed, "only a regular file", links={f"{name}.ipynb": str(next(iter(outside), HERE))})
    add("dots and quotes", first(), all_right, file="..  it's \"mine\" `id` $(id).ipynb",
        student="..x '\"; rm -rf $HOME")  # fmt: skip
    markup = ("<script>alert(1)</script> <img src=x onerror=alert(1)> [x](javascript:alert(1)) "
              "![x](https://example.org/x.png) $\\href{javascript:alert(1)}{x}$")
    shows = f"from IPython.display import HTML\nprint({markup!r})\nHTML({markup!r})"
    add("markup", filled(release, {"reflect": markup}, first=[shows, f"1/0  # {markup}"]), none,
        student="<script>alert(1)<")  # fmt: skip
    add("a long name", first(), all_right, student="é" * 120)
    add("a formula", first(), all_right, student="=cmd()|' '!A0")
    return made
