"""What runs inside the sandbox: one notebook, twice, and the verdicts on it.

`sandbox.py` starts this file and talks to it in lines of JSON over standard input and output. The first process never
runs a line of the notebook. It forks children that do, one after the other:

1. The *showing* child runs the cells and sends what they show. Nothing of it counts, and nothing secret is here yet:
   the seeds of the hidden tests arrive when this child and all that it started have ended.
2. The *judging* child runs the cells again, shows nothing, and takes the answers at each graded cell. Plain data
   (numbers, text, lists, arrays) is sent out of it; answers that are code are judged in it.
3. The *data* child never runs the notebook. It judges the plain data.

In the judging child, check and answer share one process, since a check follows an answer line by line. The course is
imported before the first cell. Everything that decides a verdict (names, classes, tasks, built-ins; see `guard`) is put
back before each check, and compared after each call of an answer and after each check. An audit hook refuses the ways
to another function's variables: frames, `gc`, `ctypes`, exchanged code, trace functions (see `watch`). A verdict
carries a secret that was drawn after the notebook was handed in. So nobody has a mark by printing a result, changing
`check` or leaving early.

What remains possible, for answers in code only and with intent: to write into the memory of this process (arrays beyond
their bounds, a foreign function library) and forge everything; to return an object whose own methods change the check,
and change it back before the next comparison; to look up the stack from where Python asks nobody (a signal handler that
is set during a call, a function of C that is an answer); to call the right answers of the course itself, which every
learner has on disk. What looks like one of these is listed for the teacher (`submissions.py`). None of it leads out of
the sandbox, to other submissions or to the gradebook.
"""

import contextlib
import ctypes
import functools
import hashlib
import io
import itertools
import json
import operator
import os
import pathlib
import random
import re
import resource
import secrets
import select
import signal
import sys
import threading
import time
import traceback
import types

PASSED, WRONG = "passed", "not right"
MOST = 8 * 2**20  # bytes from one child
TEXT = 6000  # characters of one diagnosis
PUBLIC_SEED = 1  # of the check whose diagnosis is shown
SCAN = 0.1  # seconds between two looks at the memory in use

THREAD = "a thread"
RUNNING = "A thread that the notebook started still runs, and could change the check. End it, and hand in again."
CHANGED = "{} is not as the course made it. Take out the cell that changes it, and hand in again."
OTHERS = "{}\n  This answer does not hold for the other inputs that decide the marks."
NO_ANSWER = "The answer could not be read from the notebook: {}. Keep the names that the exercise uses."
LEFT_OUT = "(The picture is left out here.)"
EMPTY = '<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt" viewBox="0 0 1 1" />'
_NOT_HERE = "{} is not available while a notebook is marked"


class CellTimeout(BaseException):
    """A cell that ran too long; no Exception, so that `except Exception` lets it through."""


class Tampered(BaseException):
    """The check was changed while an answer ran."""


# The first process


def main():
    asked, answered = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    reader = os.fdopen(asked, "rb")
    job = json.loads(reader.readline())
    # Number 1 of a sandbox of its own: only then may everything else be ended.
    alone = os.getpid() == 1
    cells, limits = job["cells"], {**job["limits"], "alone": alone}
    # A child may have this process's user id: it must not read or change this process.
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)

    def say(kind, **fields):
        data = memoryview(json.dumps({"kind": kind, **fields}).encode() + b"\n")
        while data:
            data = data[os.write(answered, data):]

    os.makedirs("work", exist_ok=True)
    os.chdir("work")
    os.chmod(".", 0o777)
    shell = prepare(cells)
    say("ready", digest=digest())

    ended = apart(lambda tell: show(shell, cells, limits, tell), limits,
                  lambda line: say("show", line=line.decode("utf-8", "replace")))
    say("shown", ended=ended)
    seeds = json.loads(reader.readline())["seeds"]
    reader.close()

    def judged(name, work):
        nonce = secrets.token_hex(16).encode()
        told, forged = [], [0]

        def on_line(line):
            if not line.startswith(nonce):
                forged[0] += 1
                return
            told.append(json.loads(line[len(nonce):]))
            if told[-1]["what"] != "data":
                say("judge", line=told[-1])

        ended = apart(lambda tell: work(lambda **fields: tell(nonce, **fields)), limits, on_line)
        if ended is None and not any(line["what"] == "end" for line in told):
            ended = "left"
        say("judged", by=name, ended=ended, forged=forged[0])
        return [line for line in told if line["what"] == "data"]

    data = judged("judge", lambda tell: judge(shell, cells, limits, seeds, tell))
    if data:
        judged("data", lambda tell: judge_data(data, seeds, tell))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    say("done", cpu=round(sum(u.ru_utime + u.ru_stime for u in used), 2))


def prepare(cells=()):
    """Import all that a check needs, so that the children begin with it, and make the shell for the cells."""
    import autodiff.course.api as api
    import autodiff.drawing

    api.tasks()
    # No page shows an SVG picture (see `show`), and what draws graphs needs what the sandbox refuses.
    autodiff.drawing.to_svg = lambda source: EMPTY
    for name in ["numpy", "numpy.testing", "inspect", "random", "dis", "ast", "tracemalloc", "linecache"]:
        __import__(name)
    for name in sorted({name for cell in cells for name in named(cell.get("source", ""))}):
        with contextlib.suppress(Exception):
            __import__(name)
    return make_shell()


def named(source):
    """The modules of packages that do, while they are imported, what `watch` refuses: those that the text names."""
    plots = re.search(r"\bmatplotlib\b|pylab", source)
    found = {"matplotlib.pyplot", "matplotlib_inline.backend_inline"} if plots else set()
    for name in re.findall(r"\b(?:matplotlib|scipy|sklearn|sympy)\b(?:\.\w+)*", source):
        parts = name.split(".")
        found.update(".".join(parts[:k]) for k in range(1, len(parts) + 1))
    for package, names in re.findall(r"^[ \t]*from +((?:scipy|sklearn|sympy)[\w.]*) +import +([\w, ]+)", source, re.M):
        found.update(f"{package}.{name.split()[0]}" for name in names.split(",") if name.strip())
    return found


def digest():
    """A digest of the course's code, to tell whether two machines have the same."""
    import autodiff

    found = hashlib.sha256()
    here = pathlib.Path(autodiff.__file__).parent
    for path in sorted(here.rglob("*.py")):
        found.update(path.relative_to(here).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def apart(work, limits, on_line):
    """Run ``work(tell)`` in a child, hand each line that it tells to `on_line`, and end all that it started.

    Returns None when the child ended by itself, else how it ended: "time", "memory", "output" or "signal N".
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _child(work, limits, write)
    os.close(write)
    deadline, kept, size, looked = time.monotonic() + limits["seconds"], b"", 0, 0.0
    ended = status = None
    while ended is None:
        ready = select.select([read], [], [], 0.02)[0]
        if ready:
            got = os.read(read, 2**20)
            size += len(got)
            *lines, kept = (kept + got).split(b"\n")
            for line in lines:
                on_line(line)
            if size > MOST:
                ended = "output"
            if not got:
                status = _wait(child, deadline) if status is None else status
                ended = "time" if status is None else ""
        elif status is not None:
            ended = ""
        if status is None:
            # Something it started may still hold the pipe: its own end is enough.
            done, found = os.waitpid(child, os.WNOHANG)
            status = found if done else None
        now = time.monotonic()
        if now > deadline:
            ended = ended or "time"
        elif now > looked + SCAN and limits["alone"]:
            looked = now
            if _memory_in_use() > limits["memory"]:
                ended = "memory"
    os.close(read)
    _end_all(child, limits["alone"])
    if not ended and status and os.WIFSIGNALED(status):
        ended = f"signal {os.WTERMSIG(status)}"
    return ended or None


def _child(work, limits, write):
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        os.closerange(3, write)
        os.closerange(write + 1, most if 0 < most < 2**16 else 2**16)
        _give_up_rights(limits)
        # An encoder of its own: nothing that the notebook can change has a part in what is told.
        put, text_of = os.write, json.JSONEncoder().encode

        def tell(nonce=b"", **fields):
            data = nonce + text_of(fields).encode() + b"\n"
            while data:
                data = data[put(write, data):]

        work(tell)
    finally:
        os._exit(0)


def _give_up_rights(limits):
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    if os.getuid() == 0 and limits["alone"]:
        # Only the real root has no limit on processes; an id that nobody has makes the limit this child's own.
        for uid in (random.SystemRandom().randrange(10**9, 2 * 10**9), random.SystemRandom().randrange(61184, 65520)):
            try:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                break
            except OSError:
                continue
    size = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for name, value in (("AS", size + limits["memory"]), ("CPU", int(limits["seconds"]) + 5), ("CORE", 0),
                        ("FSIZE", limits["files"]), ("NOFILE", 256), ("NPROC", limits["processes"])):
        number = getattr(resource, "RLIMIT_" + name)
        most = resource.getrlimit(number)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(number, (value, value))
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # end with the first process


def _wait(child, deadline):
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.01)
    return None


def _end_all(child, alone):
    """End the child and, in a sandbox, every other process."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if alone:
                os.kill(-1, signal.SIGKILL)
            else:
                os.killpg(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _memory_in_use():
    """Bytes that the children hold themselves, without what they have of this process since the fork."""
    def own(name):
        lines = pathlib.Path("/proc", name, "status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem")))

    total, base = 0, own("1")
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += max(0, own(name) - base)
    return total * 1024


# Running cells


def make_shell():
    """IPython without a kernel. Its user module is `__main__` of the cells; this file is nowhere in it."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.text import DollarFormatter
    from traitlets import Type
    from traitlets.config import Config

    class Publisher(DisplayPublisher):
        keep = None

        def publish(self, data, metadata=None, **_):
            if self.keep:
                self.keep({"output_type": "display_data", "data": dict(data), "metadata": {}})

    class Hook(DisplayHook):
        keep = None

        def write_output_prompt(self):
            pass

        def write_format_data(self, format_dict, md_dict=None):
            if self.keep:
                self.keep({"output_type": "execute_result", "data": dict(format_dict), "metadata": {}})

        def finish_displayhook(self):
            pass

    expand = DollarFormatter().vformat

    class Shell(InteractiveShell):
        displayhook_class, display_pub_class = Type(Hook), Type(Publisher)
        keep = None

        def enable_gui(self, gui=None):
            """Nothing: no window is opened here. `%matplotlib inline` asks for it."""

        # IPython looks for the names of a command in the frames above it, which `watch` refuses.
        def get_local_scope(self, stack_depth):
            return self.user_ns

        def var_expand(self, cmd, depth=0, formatter=None):
            try:
                return expand(cmd, (), self.user_ns)
            except Exception:
                return cmd

        def _tee(self, channel):
            # IPython 9 keeps all that is printed, however much.
            return contextlib.nullcontext()

        def _showtraceback(self, etype, evalue, stb):
            if self.keep:
                self.keep({"output_type": "error", "ename": etype.__name__, "evalue": str(evalue)[:TEXT],
                           "traceback": [str(line)[:TEXT] for line in stb][:50]})

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    shell = Shell.instance(config=config, user_module=types.ModuleType("__main__"))
    # What ipykernel has and IPython has not. Nobody is there to look, so they do nothing.
    for name in ("autosave", "clear", "cls", "connect_info", "edit", "less", "man", "more", "qtconsole", "subshell"):
        shell.register_magic_function(lambda line: None, "line", name)
    # The folder in which a notebook can write is no place to import from, least of all for the data child.
    sys.path[:] = [path for path in sys.path if path]
    return shell


class Pen(io.TextIOBase):
    """A standard stream of which the first part is kept."""

    encoding = "utf-8"

    def __init__(self, name="", keep=None):
        self.label, self.keep_output = name, keep

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.keep_output:
            self.keep_output({"output_type": "stream", "name": self.label, "text": text})
        return len(text)


def run_cell(shell, source, limits, kill=os.kill, again=(1, 2, 3)):
    """Run one cell, for a limited time when it lets itself be stopped, and end the processes that it started."""
    seconds = limits["cell"]

    def end_others():
        # All but this process and number 1, which cannot be reached from here.
        for _ in again if limits["alone"] else ():
            with contextlib.suppress(OSError):
                kill(-1, signal.SIGKILL)

    def ring(number, frame):
        end_others()
        raise CellTimeout(f"this cell was stopped after {seconds:g} s")

    signal.signal(signal.SIGALRM, ring)
    # Again and again: code that swallows everything swallows the first one too, and so does a hook of `os.fork`.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        shell.run_cell(source, store_history=True)
    except CellTimeout:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        end_others()


def show(shell, cells, limits, tell):
    """Run the cells and tell what each shows, up to a limit for all of them."""
    left = [limits["output"]]
    outputs = []

    def keep(output):
        if left[0] <= 0:
            return
        if output["output_type"] == "stream":
            text = output["text"][:left[0]]
            cut = len(text) < len(output["text"])
            left[0] -= len(text)
            last = outputs[-1] if outputs else {}
            if last.get("output_type") == "stream" and last["name"] == output["name"]:
                last["text"] += text
            else:
                outputs.append({**output, "text": text})
        else:
            data = {kind: text for kind, text in output.get("data", {}).items()
                    if kind in ("text/plain", "image/png") and isinstance(text, str | bytes)}
            if "image/png" in data and isinstance(data["image/png"], bytes):
                import base64

                data["image/png"] = base64.b64encode(data["image/png"]).decode()
            if "image/svg+xml" in output.get("data", {}) and "image/png" not in data:
                data["text/plain"] = f"{data.get('text/plain', '')}\n{LEFT_OUT}".lstrip()
            size = sum(map(len, data.values())) + sum(map(len, output.get("traceback", ())))
            left[0] -= size
            cut = left[0] < 0
            if not cut:
                outputs.append({**output, "data": data} if "data" in output else output)
        if cut:
            left[0] = 0
            outputs.append({"output_type": "stream", "name": "stderr",
                            "text": f"\nWhat follows is left out: the notebook showed too much "
                                    f"(more than {limits['output']} characters)."})

    shell.keep = shell.displayhook.keep = shell.display_pub.keep = keep
    for cell in cells:
        if "source" not in cell:
            continue
        tell(what="begin", id=cell["id"])
        outputs.clear()
        with contextlib.redirect_stdout(Pen("stdout", keep)), contextlib.redirect_stderr(Pen("stderr", keep)):
            run_cell(shell, cell["source"], limits)
        tell(what="cell", id=cell["id"], outputs=list(outputs))
    tell(what="end")


# Judging


def judge(shell, cells, limits, seeds, tell):
    """Run the cells; tell a verdict, or plain data, for each task at its graded cell."""
    import gc

    from autodiff.course import api
    from autodiff.course import judge as judging

    check, collect = api.check, gc.enable
    denied = set()
    watch(denied)
    sys.settrace, sys.gettrace = tracing(judging, denied), lambda: None
    look, put_back = guard(judging, [task for cell in cells for task, _ in cell.get("tasks", ())])
    undone = {}
    sys.stdout, sys.stderr = Pen(), Pen()
    # Nothing is shown, so nothing is drawn.
    shell.display_formatter.format = lambda *_, **__: ({}, {})
    try:
        for cell in cells:
            tell(what="begin", id=cell["id"])
            if "source" in cell:
                run_cell(shell, cell["source"], limits)
                continue
            for task, expressions in cell["tasks"]:
                try:
                    answers = eval(f"[{', '.join(expressions)}]", shell.user_ns)
                except Exception as error:
                    tell(what="verdict", **verdict(task, WRONG, NO_ANSWER.format(_line(error))))
                    continue
                # After the last line of the notebook that could run unasked, such as a `__getitem__` of its names.
                undone.update(dict.fromkeys(put_back()))
                try:
                    data = [encode(answer) for answer in answers]
                except NotPlain:
                    kept = []
                    try:
                        found = ask(check, task, answers, seeds[task], look, kept)
                    except Tampered as error:
                        put_back()
                        said = RUNNING if str(error) == THREAD else CHANGED.format(error)
                        found = verdict(task, WRONG, said, tampered=True)
                    tell(what="verdict", **found)
                    kept.clear()
                else:
                    tell(what="data", task=task, answers=data)
                collect()
        tell(what="end", undone=list(undone)[:20], denied=sorted(denied)[:20])
    except Exception:
        tell(what="broke", text=traceback.format_exc()[-TEXT:])


def judge_data(lines, seeds, tell):
    """Judge answers that are data, in a process in which nothing of the notebook has run."""
    from autodiff.course.api import check

    os.chdir("/")
    for line in lines:
        tell(what="verdict", **ask(check, line["task"], [decode(a) for a in line["answers"]], seeds[line["task"]]))
    tell(what="end", undone=[], denied=[])


def ask(check, task, answers, seeds, look=lambda before: None, kept=None):
    """The verdict of the check with a public seed, whose diagnosis may be shown, and then with every secret one.

    What the check returned is put into `kept`: when an object of the notebook is let go, that may run code of it.
    """
    kept = [] if kept is None else kept

    def again(seed):
        compare()
        result = check(task, *answers, seed=seed)
        kept.append((result, result.table))
        compare()
        return result

    def compare():
        changed = look(())
        if changed:
            raise Tampered(changed)

    result = again(PUBLIC_SEED)
    result.table = None
    if result.status != PASSED:
        return verdict(task, result.status, result.text(), result.fault)
    for seed in seeds:
        other = again(seed)
        if other.status != PASSED:
            # The headline has no numbers in it: nothing of the secret inputs is told.
            return verdict(task, other.status, OTHERS.format(other.headline), other.fault, hidden=True)
    return verdict(task, PASSED, result.headline)


def verdict(task, status, text, fault=None, **more):
    return {"task": task, "status": status, "text": text[:TEXT], "fault": fault, **more}


def _line(error):
    return f"{type(error).__name__}: {str(error)[:200]}"


def watch(denied):
    """Refuse, to the code of the notebook, the ways into other functions' variables. Cannot be taken out again."""
    import autodiff

    events = {"sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.setprofile",
              "sys.addaudithook", "gc.get_objects", "gc.get_referrers", "gc.get_referents", "code.__new__", "compile",
              "object.__getattr__", "object.__setattr__", "sys.monitoring.register_callback", "marshal.loads",
              "marshal.load"}
    attributes = {"object.__getattr__": {"tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_back"},
                  "object.__setattr__": {"__code__", "__defaults__", "__kwdefaults__"}}
    library = os.path.dirname(os.__file__) + os.sep
    packages = os.path.join(library, "site-packages") + os.sep
    ours = (os.path.dirname(autodiff.__file__) + os.sep, __file__)
    # These look at frames themselves in the course of their work, and hand none out.
    harmless = tuple(library + name for name in (
        "collections", "typing.py", "enum.py", "dataclasses.py", "warnings.py", "abc.py")) + tuple(
        os.path.join(os.path.dirname(path), *name.split("/")) for name in (
            "numpy", "matplotlib", "traitlets", "ipywidgets", "comm", "IPython/core/magic.py")
        for path in [os.path.dirname(sys.modules["numpy"].__file__)])  # fmt: skip
    everything = (library, packages, os.path.dirname(os.path.dirname(sys.modules["numpy"].__file__)) + os.sep)
    getframe, ident, busy, get, text = sys._getframe, threading.get_ident, set(), attributes.get, str
    add, discard, note, fails, reads = busy.add, busy.discard, denied.add, RuntimeError, ("compile", "marshal.loads")

    def hook(event, arguments):
        if event not in events and not event.startswith("ctypes."):
            return
        if event == "compile" and (arguments[1] is None or not text(arguments[1]).startswith((library, *ours))):
            return  # a file name of its own choice would pass for a library below
        names = get(event)
        if names is not None and arguments[1] not in names:
            return
        me = ident()
        if me in busy:
            return
        add(me)
        try:
            what = event if names is None else arguments[1]
            frame = first = getframe(1)
            while frame is not None:
                file, function = frame.f_code.co_filename, frame.f_code.co_name
                if file.startswith(ours):
                    return
                if frame is first and file.startswith(harmless) and what.rpartition(".")[2] in frame.f_code.co_names:
                    return  # by its name there, and not because it was told to call it
                if event in reads and file.startswith("<frozen") and function == "_find_and_load":
                    return  # an import
                if not file.startswith(everything) and not file.startswith("<frozen"):
                    if event != "compile":
                        note(what)  # Python compiles a line too, to show it below an error
                    raise fails(_NOT_HERE.format(what))
                frame = frame.f_back
        finally:
            discard(me)

    sys.addaudithook(hook)


def tracing(judging, denied):
    """`sys.settrace` for the check alone. A trace function sees every frame, and so does who has that of the check.

    It takes no audit hook to refuse it, since Python raises the same event when it takes away a tracer that has failed.
    """
    def sets(settrace, getframe, file):
        while True:
            function = yield
            if getframe(1).f_code.co_filename == file:
                settrace(function)
            else:
                denied.add("sys.settrace")

    sets.__code__ = _as_course(sets, judging)
    setter = sets(sys.settrace, sys._getframe, judging.__file__)
    next(setter)
    return setter.send


def _as_course(function, judging):
    """The function's code as if it were the course's, which the budget of lines of an answer leaves out."""
    return function.__code__.replace(co_filename=judging.__file__)


def guard(judging, tasks):
    """Two functions for all that decides a verdict on `tasks`: ``look(None)`` tells what is changed now, and
    ``look(before)`` the first thing that was changed or put back since; ``put_back()`` restores all and names it."""
    import _signal
    import builtins
    import gc

    from autodiff.course import api

    course = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "autodiff"}
    near = {m.__name__: m for module in course.values() for m in vars(module).values()
            if isinstance(m, types.ModuleType) and m.__name__.split(".")[0] not in ("autodiff", "sys", "os")}
    near |= {name: m for name, m in sys.modules.items() if name.split(".")[0] == "numpy" and m is not None}
    for name in ("builtins", "random", "math", "inspect", "contextlib", "functools", "json", "json.encoder"):
        near[name] = sys.modules[name]
    shadows = frozenset(name for name in vars(builtins) if not name.startswith("_"))
    # Each: what it is called, a live view of its names, the names as they are now, all of them, how to set and to take
    # one away, and the names that must not be added (None: any).
    spaces = []
    # What stands under no name, each: what it is called, how to read it, of what, its value now, and how to set it.
    reads = []

    def keep(what, live, put, names=None, take=None, barred=frozenset()):
        names = [(n, v) for n, v in (live.items() if names is None else names) if (what, n) not in _CHANGING]
        keys, values = tuple(n for n, _ in names), tuple(v for _, v in names)
        known = frozenset(live) | (_FILLED if take else set())
        spaces.append((what, live, live.get, keys, values, known, len(live), put, take, barred))

    def keep_read(what, read, thing, put):
        reads.append((what, read, thing, read(thing), put))

    for name, module in sorted({**course, **near}.items()):
        live = vars(module)
        # Of other packages what is called or multiplied; their caches and settings change as they are used.
        names = [(n, v) for n, v in live.items() if name in course or callable(v) or type(v) is float]
        barred = shadows if name != "builtins" else frozenset()
        keep(name, live, live.__setitem__, names, live.__delitem__, barred)
        keep_read(f"the class of {name}", type, module, functools.partial(setattr, module, "__class__"))
        for attribute, value in list(live.items()):
            if isinstance(value, type) and value.__module__ == name and not value.__flags__ & _IMMUTABLE:
                keep(f"{name}.{attribute}", vars(value), functools.partial(type.__setattr__, value), None,
                     functools.partial(type.__delattr__, value), None)  # fmt: skip
                keep_read(f"{name}.{attribute}.__bases__", _BASES, value, functools.partial(_SET_BASES, value))
            elif name in course and type(value) is dict and not attribute.startswith("__"):
                keep(f"{name}.{attribute}", value, value.__setitem__)
    keep("sys", vars(sys), vars(sys).__setitem__, [(n, getattr(sys, n)) for n in ("settrace", "gettrace", "modules")])
    keep("sys.modules", sys.modules, sys.modules.__setitem__, list({**course, **near}.items()))
    keep("inside.py", globals(), globals().__setitem__)
    every = api.tasks()
    keep("autodiff.course.api.tasks()", every, every.__setitem__)
    for task in (every[name] for name in tasks):
        for thing in (task, *task.faults):  # frozen, which `object.__setattr__` overrules
            keep(f"the task {task.id}", vars(thing), vars(thing).__setitem__)
            for name, read in (("__class__", type), ("__dict__", vars(type(thing))["__dict__"].__get__)):
                keep_read(f"the task {task.id}", read, thing, functools.partial(object.__setattr__, thing, name))
    home = os.path.dirname(sys.modules["autodiff"].__file__) + os.sep
    for one in gc.get_objects():
        if type(one) is types.FunctionType and one.__code__.co_filename.startswith(home):
            if one.__kwdefaults__:
                keep(f"the defaults of {one.__qualname__}", one.__kwdefaults__, one.__kwdefaults__.__setitem__)
            for cell in one.__closure__ or ():
                if _full(cell):
                    keep_read(one.__qualname__, _CELL, cell, functools.partial(_SET_CELL, cell))
    for number in _signal.valid_signals():
        if _signal.getsignal(number) is not None:
            keep_read(f"signal {number}", _signal.getsignal, number, functools.partial(_signal.signal, number))
    gc.callbacks.clear()
    keep_read("gc.callbacks", len, gc.callbacks, lambda _: gc.callbacks.clear())
    lists = [(f"{name}.{a}", v, tuple(v)) for name, module in course.items() for a, v in vars(module).items()
             if type(v) is list]  # fmt: skip

    _looks.__code__ = _as_course(_looks, judging)
    # What a generator knows can be reached from nowhere else; the variables of a function can, by `__closure__`.
    looks = _looks(spaces, reads, lists, sys._current_frames, gc.isenabled)
    next(looks)
    look = looks.send
    index = next(n for n, space in enumerate(spaces) if space[0] == judging.__name__)
    judging._apart = _guarded(judging._apart, look)
    judging._apart.__code__ = _as_course(judging._apart, judging)
    what, live, get, keys, _, *rest = spaces[index]
    spaces[index] = (what, live, get, keys, tuple(map(get, keys)), *rest)
    for cell in judging._apart.__closure__:
        keep_read("judge._apart", _CELL, cell, functools.partial(_SET_CELL, cell))

    stop_collecting = gc.disable

    def put_back():
        stop_collecting()  # and so no object of the notebook is let go, which may run code, in the middle of a check
        found = []
        while True:
            before = len(found)
            for what, live, get, keys, values, known, count, put, take, barred in spaces:
                for name, value in zip(keys, values):
                    if get(name, spaces) is not value:
                        put(name, value)
                        found.append(f"{what}.{name}")
                if len(live) != count and take is not None:
                    for name in [n for n in live if n not in known]:
                        if barred is None or name in barred:
                            take(name)
                            found.append(f"{what}.{name}")
            for what, read, thing, value, put in reads:
                if read(thing) is not value:
                    put(value)
                    found.append(what)
            for what, live, values in lists:
                if tuple(live[:len(values)]) != values:
                    live[:] = values
                    found.append(what)
            # A second time, since what was put back may have been in use here.
            if len(found) == before or before > 1000:
                return [what[:100] for what in found]

    return look, put_back


_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_CHANGING = {("autodiff.course.graphs.Budget", "active")}  # changes while it is used
# A class has these when they were asked for.
_FILLED = {"__slotnames__", "__annotations__", "__doc__", "__annotations_cache__", "_abc_impl"}
_BASES, _SET_BASES = type.__dict__["__bases__"].__get__, type.__dict__["__bases__"].__set__
_CELL, _SET_CELL = (getattr(types.CellType.__dict__["cell_contents"], how) for how in ("__get__", "__set__"))


def _full(cell):
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _looks(spaces, reads, lists, frames, collects):
    """The generator behind ``look``; see `guard`. `spaces` and `reads` may still be filled before it is asked."""
    # Only operators and these from here on: the built-ins may not be what they were.
    missing, size, both, every, same, each, endless = object(), len, zip, all, operator.is_, map, itertools.repeat
    kind, answer, tries = type, None, (1, 2, 3)
    while True:
        before = yield answer
        # More than once, since the alarm of a cell or of an answer may ring in here: an exception would be the end.
        for _ in tries:
            answer = "the check"
            try:
                after = []
                for what, live, get, keys, values, known, count, _, take, barred in spaces:
                    if not every(each(same, each(get, keys, endless(missing)), values)):
                        for name, value in both(keys, values):
                            now = get(name, missing)
                            if now is not value:
                                after += ((what + "." + name, now),)
                    if size(live) != count and take is not None:
                        for name in live:
                            # No name of a module is an object with a comparison of its own.
                            if kind(name) is not str or name not in known and (barred is None or name in barred):
                                after += ((what + "." + name, live[name]),)
                for what, read, thing, value, _ in reads:
                    now = read(thing)
                    if now is not value:
                        after += ((what, now),)
                for what, live, values in lists:
                    if size(live) < size(values):
                        after += ((what, missing),)
                    for now, value in both(live, values):
                        if now is not value:
                            after += ((what, now),)
                if size(frames()) > 1:
                    after += ((THREAD, missing),)
                if collects():
                    after += (("gc.enable", missing),)
                answer = after if before is None else None
                if before is not None:
                    for (one, was), (other, now) in both(before, after):
                        if answer is None and (one != other or was is not now):
                            answer = other
                    if answer is None and size(after) != size(before):
                        answer = after[-1][0] if size(after) > size(before) else before[-1][0]
                break
            except BaseException:
                pass


def _guarded(real, look):
    """`judge._apart`, with a look at the guard before the check goes on with what an answer returned or raised.

    The check itself may have changed something for the time of the call, so before and after are compared.
    """
    fails = Tampered

    def _apart(function, args):
        # By their own names, which a call cannot exchange.
        compare, error, before = look, fails, look(None)
        try:
            value = next(real(function, args))
        finally:
            changed = compare(before)
            if changed:
                raise error(changed)
        yield value

    return _apart


# Plain data as JSON


class NotPlain(Exception):
    """An answer that is more than data."""


_CONSTANTS = {"None": None, "...": ..., "NotImplemented": NotImplemented, "True": True, "False": False}


def encode(value, depth=0, room=None):
    """JSON for plain data of exactly Python's and NumPy's own types; NotPlain for anything else.

    Types are compared by `is` alone: a class of the notebook may have an `==`, a `__class__` and so on of its own.
    """
    import numpy as np

    room = room if room is not None else [20_000]
    room[0] -= 1
    kind = type(value)
    if depth > 20 or room[0] < 0:
        raise NotPlain
    for name, constant in _CONSTANTS.items():
        if value is constant:
            return ["constant", name]
    if kind is int:
        if value.bit_length() > 10_000:
            raise NotPlain
        return ["int", hex(value)]
    if kind is float:
        return ["float", value.hex()]
    if kind is complex:
        return ["complex", value.real.hex(), value.imag.hex()]
    if kind is str:
        return ["str", value]
    if any(kind is one for one in (list, tuple, set, frozenset)):
        return [kind.__name__, [encode(v, depth + 1, room) for v in value]]
    if kind is dict:
        return ["dict", [[encode(k, depth + 1, room), encode(v, depth + 1, room)] for k, v in value.items()]]
    array = kind is np.ndarray
    if array or any(kind is np.dtype(code).type for code in "?bhilqBHILQefdg"):
        if value.dtype.kind in "biuf" and value.size <= 100_000:
            return ["array", value.dtype.str, list(value.shape) if array else None, np.asarray(value).tobytes().hex()]
    raise NotPlain


def decode(data):
    """What `encode` was given."""
    import numpy as np

    kind, *rest = data
    if kind == "constant":
        return _CONSTANTS[rest[0]]
    if kind == "int":
        return int(rest[0], 16)
    if kind == "float":
        return float.fromhex(rest[0])
    if kind == "complex":
        return complex(*map(float.fromhex, rest))
    if kind == "str":
        return rest[0]
    if kind == "dict":
        return {decode(k): decode(v) for k, v in rest[0]}
    if kind == "array":
        dtype, shape, text = rest
        flat = np.frombuffer(bytes.fromhex(text), dtype=dtype).copy()
        return flat[0] if shape is None else flat.reshape(shape)
    return {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind](map(decode, rest[0]))


if __name__ == "__main__":
    main()
