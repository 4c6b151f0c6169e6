"""How an answer is judged: tasks, faults, and running a learner's code without being hurt by it.

A `Task` has a judge, three hints and a list of named `Fault` s. A judge for values or for functions compares the answer
with the right one on several inputs; when it differs, it is compared with what each fault would have answered on the
same inputs. Only a fault that agrees on *all* of them is named. Otherwise the check says so and shows the smallest
difference.

`run` calls a learner's function under a budget of lines, of visits, of seconds and, where the system lets us, of
memory. It cannot flood the page (what the function prints is kept back) and turns every exception into a `Run` that
knows the learner's own line. The seconds are those of the processor, so that a busy machine changes no verdict; only a
call that waits is ended by the clock on the wall.

What it cannot end is a loop that C runs without ever coming back to Python, such as ``sum(iter(int, 1))``: no line is
executed there, and a signal waits for the next one. Whoever writes this has to interrupt or restart the kernel. Memory
has no limit of ours on Windows and in the browser.
"""

import ast
import contextlib
import contextvars
import dis
import functools
import inspect
import io
import linecache
import math
import os
import random
import signal
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

try:
    import resource
except ImportError:  # Windows, and the browser
    resource = None

from autodiff.course.graphs import Budget, Node, TooManyVisits
from autodiff.course.result import NOT_STARTED, PASSED, UNFINISHED, WRONG, Result, Table, safe_repr
from autodiff.explain import MissingGradientError

_HERE = os.path.dirname(os.path.abspath(__file__))
_NOT_THEIRS = (os.path.dirname(_HERE) + os.sep, os.path.dirname(os.__file__) + os.sep, "<frozen ")
_DEBUGGERS = ("pydevd", "_pydevd", "debugpy", "bdb", "pdb")
DEEP = 900
# Python in the browser ends when a chain of three thousand objects or more is let go, so chains are short there.
LONGEST_CHAIN = 1_500 if sys.platform == "emscripten" else 10_000
SECONDS = 10  # of the processor, for a call that may run a million lines or fewer; one that may run more gets more
MEMORY = 2**30  # bytes more than the process has when the call begins; see `_allowance`
_LOOK = 0.01  # seconds between two looks at time and memory: a loop takes about a gigabyte a second
_WAITS = 0.01  # a call that has less of the processor than this share is waiting, and not slow
# Of this thread alone, where that can be told; taken now, so that nobody who changes `time` later stops it.
_processor, _wall = getattr(time, "thread_time", time.process_time), time.monotonic
_GROUPS, _OWN_GROUPS = "/sys/fs/cgroup", "/proc/self/cgroup"


class TooManyLines(BaseException):
    """Learner code that ran too many lines or seconds; no Exception, so that `except Exception` lets it through."""


class EndedFromOutside(BaseException):
    """A call that ran out of time or was interrupted while an answer was judged: no judge may explain it otherwise."""

    def __init__(self, run):
        self.run = run


judging = contextvars.ContextVar("judging", default=False)


class TooMuchMemory(BaseException):
    """Learner code that took too much memory; no Exception either."""


@dataclass(frozen=True)
class Fault:
    """A known mistake.

    `title` says in one line what went wrong, `why` how it makes exactly the number shown, `look` what to look at next.
    `answers` are the mistake itself: functions that take one input of the check and return the wrong answer. Faults
    recognised by a property, not by their numbers, have none.
    """

    id: str
    title: str
    why: str
    look: str
    answers: tuple[Callable, ...] = ()


# Mistakes that can be made in several tasks. A task that lists them recognises them.

NOTEBOOK_NODE = Fault(
    "notebook-node", "a node of the notebook is used",
    "You used `{name}` of the notebook. The check makes its own graph; take the nodes from the argument.",
    "the names in your function. Each should be an argument, or get its value inside the function.")
EARLY_RETURN = Fault(
    "early-return", "the function returns in the first turn of a loop",
    "It returned before the loop was done. A `return` ends the whole function, also in the middle of a loop.",
    "how far is `return` indented? After the loop it stands as far left as the `for` or `while`.")
NODE_AS_NUMBER = Fault(
    "node-as-number", "a node is used as a number",
    "A node is no number. If b is a node, its number is `b.value`.",
    "the line shown: which names in it are nodes?")
NO_ATTRIBUTE = Fault(
    "no-attribute", "a node has no such attribute",
    "A node has no `{attribute}`. A node has `name`, `value` and `inputs`.",
    "the word after the dot in the line shown.")
MADE_PLAIN = Fault(
    "made-plain", "a plain number is made of a Tensor",
    "The engine refuses to make a plain number, or a plain array, of a Tensor that has a history: nothing that is "
    "computed from it would be recorded. So your function stopped.",
    "the line shown. Compute with the Tensor itself, and leave out `float` or `np.array`.")
_UNNAMED = "This is not one of the mistakes the check knows by name."


@dataclass(frozen=True)
class Task:
    """One thing to answer: `wants` names the arguments that ``check(id, ...)`` takes after the id.

    `deal(number)`: the inputs of a round, and `show(deal)` how they are told; a hint that depends on them is a function
    of the deal. `hands_over`: whether `given` returns
    them, for the cell to compute with; what is dealt for an answer on paper may hold the answer. After a second miss in
    one deal the next pass counts as help, and the next deal begins: `missed` says so, and `helped` why a mark "on my
    own" does not count.
    """

    id: str
    title: str
    wants: tuple[str, ...]
    judge: Callable
    faults: tuple[Fault, ...]
    hints: tuple[str | Callable, str | Callable, str | Callable]
    good: str
    deal: Callable | None = None
    show: Callable | None = None
    hands_over: bool = True
    missed: str = ("The right answers are shown now, and that counts as help. So the next try has new numbers, which "
                   '`given("{id}")` prints too:')
    helped: str = "You were shown the right answers for {id}"

    def hint(self, stage: int, number: int) -> str:
        """The hint of a stage, 1 to 3, for the inputs of deal `number`."""
        hint = self.hints[stage - 1]
        return hint(self.deal(number)) if callable(hint) else hint

    def knows(self, fault_id: str) -> bool:
        return any(f.id == fault_id for f in self.faults)

    def fault(self, fault_id: str) -> Fault:
        return next(f for f in self.faults if f.id == fault_id)


@dataclass
class Attempt:
    """One call of ``check``: the answers, fresh random numbers, the numbers dealt so far, and how often they missed.

    `before`: the answers that missed the same deal. A judge of values worked out by hand shows the right ones when the
    attempt `tells`, and marks the result as missed.
    """

    task: Task
    answers: tuple
    seed: int
    dealt: list = field(default_factory=list)
    misses: int = 0
    used_seed: bool = False
    before: Sequence[tuple] = ()

    @property
    def tells(self) -> bool:
        """Whether a wrong answer is shown the right one: from the second miss on."""
        return self.misses > 0

    @property
    def rng(self) -> random.Random:
        """Fresh random numbers from the seed; asking for them says that the inputs depend on it."""
        self.used_seed = True
        return random.Random(self.seed)

    def passed(self, table: Table | None = None) -> Result:
        return Result(f"{self.task.id}  {PASSED}", [self.task.good], table, task=self.task.id, status=PASSED)

    def not_started(self, table: Table | None = None) -> Result:
        body = ["Write your answer in place of the marked line or of the three dots, then run the cell again."]
        return Result(f"{self.task.id}  {NOT_STARTED}", body, table, task=self.task.id, status=NOT_STARTED)

    def unfinished(self, shown: Sequence[str]) -> Result:
        return Result(f"{self.task.id}  {UNFINISHED}", list(shown), task=self.task.id, status=UNFINISHED)

    def fault(self, fault_id: str, shown: Sequence[str] = (), table: Table | None = None, /, **words) -> Result:
        fault = self.task.fault(fault_id)
        body = [*shown, "What happened: " + fault.why.format(**words)]
        return Result(f"{self.task.id}  {WRONG}: {fault.title}", body, table, ["Look at next: " + fault.look],
                      task=self.task.id, status=WRONG, fault=fault_id)

    def wrong(self, shown: Sequence[str], look: str = "", table: Table | None = None) -> Result:
        """An answer that cannot be compared: it stopped, or has another form than asked for."""
        after = [look] if look else []
        return Result(f"{self.task.id}  {WRONG}", list(shown), table, after, task=self.task.id, status=WRONG)

    def unknown(self, shown: Sequence[str], table: Table | None = None, look: str = "") -> Result:
        """An answer that was compared, and differs in a way without a name. `shown` has the smallest difference."""
        look = look or "Work the smallest case that differs by hand, and compare each step with what your code does."
        return self.wrong([*shown, _UNNAMED], look, table)


@dataclass
class Run:
    """What one call of a learner's function did. `ended` is "returned", "raised", "recursion", "visits", "lines",
    "time", "memory", "interrupted" or "not started"; `depth` is how deep its own calls went (0 when a debugger kept us
    from counting). `inside`: the function of the engine or of a library that an error came out of."""

    ended: str
    value: object = None
    error: BaseException | None = None
    where: str = ""
    inside: str = ""
    visits: int = 0
    depth: int = 0
    printed: str = ""


def with_words(task: Task, word: str, others: Sequence) -> Task:
    """The same task, in which each of `others` says what `word` says, also inside of brackets."""
    def read(answer):
        if isinstance(answer, (tuple, list)):
            return type(answer)(map(read, answer)) if type(answer) in (tuple, list) else answer
        said = " ".join(answer.lower().split()) if isinstance(answer, str) else answer
        return word if any(said is other or isinstance(said, str) and said == other for other in others) else answer

    def judge(attempt: Attempt):
        return task.judge(replace(attempt, answers=tuple(map(read, attempt.answers))))

    return replace(task, judge=judge)


def name_of(function) -> str:
    return getattr(function, "__name__", None) or safe_repr(function, 40)


def blank(value) -> bool:
    """Whether an answer is still the three dots of an untouched cell."""
    return value is ... or value is NotImplemented


def run(function, *args, visits: int = 100_000, lines: int = 300_000) -> Run:
    """Call ``function(*args)``; see `Run`. `visits` bounds the reads of `Node.inputs`, `lines` the lines executed.

    While an answer is judged, a call that ends for want of time, or by an interrupt, is an `EndedFromOutside`.
    """
    if blank(function):
        return Run("not started")
    tracer = _Tracer(lines)
    out = io.StringIO()
    limit = sys.getrecursionlimit()
    result = Run("returned")
    with (Budget(visits) as budget, contextlib.redirect_stdout(out), _memory_limit(tracer.memory), _alarm(tracer),
          tracer):
        try:
            result.value = next(_apart(function, args))
            if isinstance(result.value, Iterator):
                result.value = list(result.value)
        except NotImplementedError as error:
            result.ended, result.error = "not started", error
        except RecursionError as error:
            result.ended, result.error = "recursion", error
        except TooManyVisits as error:
            result.ended, result.error = "visits", error
        except TooManyLines as error:
            result.ended, result.error = "time" if tracer.late else "lines", error
        except KeyboardInterrupt as error:
            result.ended, result.error = "interrupted", error
        except (MemoryError, TooMuchMemory) as error:
            result.ended, result.error = "memory", error
        except (Exception, SystemExit) as error:
            result.ended, result.error = "raised", error
    sys.setrecursionlimit(limit)
    result.visits, result.depth, result.printed = budget.visits, tracer.deepest, out.getvalue()
    if result.ended == "returned" and blank(result.value):
        result.ended = "not started"
    if result.ended == "returned" and result.depth > DEEP:
        result.ended = "recursion"
    if result.error is not None:
        result.where, result.inside = own_line(result.error), _inside(result.error)
        result.error.__traceback__ = None
    if result.ended in ("time", "interrupted") and judging.get():
        raise EndedFromOutside(result)
    return result


def _apart(function, args):
    # A generator has its own "exception being handled": a tracer that raises inside an `except` block leaves it set.
    yield function(*args)


@contextlib.contextmanager
def _alarm(tracer):
    """End a call where no line is executed, because it waits, as sleep does, or is long in C: on Unix, in the main
    thread."""
    possible = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not possible or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return

    before = _processor()

    def ring(number, frame):
        nonlocal before
        last, before = before, _processor()
        if before - last < _WAITS * tracer.seconds or before > tracer.deadline:
            tracer.end()

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, tracer.seconds, tracer.seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@contextlib.contextmanager
def _memory_limit(allowance):
    """Make an allocation that is much too large a MemoryError, where the system can: on Linux."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        before = resource.getrlimit(resource.RLIMIT_AS)
        wanted = pages * resource.getpagesize() + allowance
        if before[0] != resource.RLIM_INFINITY and before[0] <= wanted:
            raise OSError("there is a lower limit already")
        resource.setrlimit(resource.RLIMIT_AS, (wanted, before[1]))
    except (AttributeError, OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _allowance() -> int:
    """The bytes that a call may take: less where a control group would end the kernel of a student who takes more."""
    return int(min(MEMORY, _group_limit(_OWN_GROUPS, _GROUPS) / 3))


@functools.cache  # asked for by each call of an answer
def _group_limit(own_groups: str, groups: str) -> float:
    """The bytes that the control groups of the process may have together, version 1 or 2; infinite without a limit."""
    limits = [math.inf]
    with contextlib.suppress(OSError, ValueError):
        for line in Path(own_groups).read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds and "memory" not in kinds.split(","):
                continue
            top, name = ("memory", "memory.limit_in_bytes") if kinds else ("", "memory.max")
            # In a container the path may be that outside; then only the top is there, and it is the container's own.
            for group in (Path(path), *Path(path).parents):
                with contextlib.suppress(OSError, ValueError):  # no such group, or "max"
                    limits.append(int(Path(groups, top, *group.parts[1:], name).read_text()))
    return min(limits)


def _most_memory() -> int:
    """The most bytes that the process has had in memory so far; 0 where nobody can tell."""
    if resource is None:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class _Tracer:
    """Counts lines and call depth of the code called in its ``with`` block, our own files left out.

    It also looks at the time, and at what the process has in memory: `memory` bytes more than at first are too much.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self.memory = _allowance()
        self.most = _most_memory() + self.memory
        self.next_look = 0.0
        self.lines = 0
        self.depth = 0
        self.deepest = 0
        self.late = False
        self.calls = 0
        self.seconds = SECONDS * max(1, limit / 1_000_000)
        self.deadline = _processor() + self.seconds

    def __enter__(self):
        self.outer = sys.gettrace()
        # A debugger's breakpoints must keep working: then the budget of lines is given up, not the breakpoints.
        self.on = not (self.outer and getattr(self.outer, "__module__", "").split(".")[0].startswith(_DEBUGGERS))
        if self.on:
            sys.settrace(self.call)
        return self

    def __exit__(self, *exc):
        if self.on:
            sys.settrace(self.outer)

    def call(self, frame, event, arg):
        if frame.f_code.co_filename.startswith(_HERE):
            return None
        if not _of_learner(frame):
            # Loops of the engine and of libraries end, and counting in them makes a gradcheck several times as slow.
            self.calls += 1
            if not self.calls % 1000:
                self.look_at_clock()
            return None
        # A generator that delegates to another one runs on without reaching a new line, so calls count. They stop later
        # than lines: an exception raised here is lost when the call only closes a generator, and the tracer with it.
        self.spend(2 * self.limit)
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        return self.line

    def line(self, frame, event, arg):
        if event == "line":
            self.spend(self.limit)
        elif event == "return":
            self.depth -= 1
        return self.line

    def spend(self, limit):
        self.lines += 1
        if self.lines > limit:
            raise TooManyLines(f"more than {self.limit:,} lines")
        self.look_at_clock()

    def look_at_clock(self):
        now = _wall()
        if now > self.next_look:
            self.next_look = now + _LOOK
            if _processor() > self.deadline:
                self.end()
            if _most_memory() > self.most:
                raise TooMuchMemory

    def end(self):
        self.late = True
        raise TooManyLines(f"more than {self.seconds:g} s")


def _of_learner(frame) -> bool:
    """Whether a frame is of the learner's own code: not of the engine, nor of a library, nor of what these generate."""
    if frame.f_code.co_filename == "<string>":
        return frame.f_globals.get("__name__") == "__main__"
    return _learners_file(frame.f_code.co_filename)


@functools.cache
def _learners_file(name: str) -> bool:
    return not name.startswith(_NOT_THEIRS) and "site-packages" not in name


def own_line(error: BaseException) -> str:
    """The learner's own line where `error` came out: the last frame outside the engine and installed packages."""
    ours = [(frame, number) for frame, number in traceback.walk_tb(error.__traceback__) if _of_learner(frame)]
    if not ours:
        return ""
    frame, number = ours[-1]
    text = linecache.getline(frame.f_code.co_filename, number, frame.f_globals).strip()
    return f"line {number} of the cell: {text}" if text else f"line {number} of the cell"


def _inside(error: BaseException) -> str:
    """The function of the engine or of a library that the learner's code had called when `error` came; else ""."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)
              if not frame.f_code.co_filename.startswith(_HERE)]
    mine = [_of_learner(frame) for frame in frames]
    if not any(mine) or mine[-1]:
        return ""
    return frames[mine.index(False, mine.index(True))].f_code.co_name


def printed(result: Run) -> list[str]:
    """A paragraph with what the learner's function printed, if it printed anything."""
    lines = result.printed.splitlines()
    if not lines:
        return []
    more = [f"... and {len(lines) - 10} more lines"] if len(lines) > 10 else []
    return ["Your function printed:", "\n".join("    " + line[:100] for line in lines[:10] + more)]


def stopped(attempt: Attempt, result: Run, what: str, at: str = "") -> Result | None:
    """The diagnosis for a call that did not return, and None for one that did.

    `what` is the call as text, `at` what is special about its arguments.
    """
    if result.ended == "returned":
        return None
    if result.ended == "not started":
        return attempt.not_started()
    call = f"`{what}` ({at})" if at else f"`{what}`"
    where = [f"    {result.where}"] if result.where else []
    if result.ended == "raised":
        error = f"{type(result.error).__name__}: {_message(result.error)}".rstrip(": .")
        shown = [f"{call} raised {error}.", *where, *printed(result)]
        named, words = _known_error(result.error) if result.where else (None, {})
        if named and attempt.task.knows(named.id):
            return attempt.fault(named.id, shown, None, **words)
        return attempt.wrong(shown, look=named.why.format(**words) if named else _advice(result))
    if result.ended == "interrupted":
        return attempt.wrong([f"{call} was interrupted before it returned.", *where, *printed(result)])
    if result.ended == "recursion":
        body = [f"{call} called itself too deeply (RecursionError).", *where, *printed(result)]
        if attempt.task.knows("calls-itself"):
            return attempt.fault("calls-itself", body)
        return attempt.wrong(body, look="Look for your function's own name inside it. What would end these calls?")
    if result.ended == "memory":
        much = f"{_allowance() / 2**30:.2g} GB of memory"
        body = [f"{call} asked for more than {much} and was stopped.", *where, *printed(result)]
        return attempt.wrong(body, look="Which line makes so many numbers? What is the size of each array there?")
    if result.ended == "time":
        took = str(result.error).removeprefix("more than ")
        if result.inside:
            body = [f"{call} was stopped after {took}, inside of `{result.inside}`.", *where, *printed(result)]
            return attempt.wrong(body, look="It may be right, and takes too long. How many entries have the arrays "
                                            f"there, and how often is `{result.inside}` called? Fewer will do.")
        body = [f"{call} was stopped after {took}.", *where, *printed(result)]
        return attempt.wrong(body, look="Which line takes so long, or which loop does not end?")
    much = f"read the inputs of nodes {result.visits - 1} times" if result.ended == "visits" else f"ran {result.error}"
    body = [f"{call} {much} and was stopped: it might never have ended.", *where, *printed(result)]
    return attempt.wrong(body, look="Find the loop in this line. What changes at each turn, so that it must end?")


def _message(error: BaseException, limit: int = 400) -> str:
    """The text of an error on one line; a long one ends with a whole word."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        return ""
    return text if len(text) <= limit else text[:limit].rpartition(" ")[0] + " [...]"


def _known_error(error: BaseException) -> tuple[Fault | None, dict]:
    """The fault behind a mistake in the use of nodes or tensors, and its words."""
    text = _message(error)
    if isinstance(error, TypeError) and "is tracked and can't be turned into a" in text:
        return MADE_PLAIN, {}
    if isinstance(error, TypeError) and "operand" in text and "'Node'" in text:
        return NODE_AS_NUMBER, {}
    if isinstance(error, AttributeError) and text.startswith("'Node' object has no attribute"):
        return NO_ATTRIBUTE, {"attribute": getattr(error, "name", None) or text.split("'")[3]}
    return None, {}


def sharpen(attempt: Attempt, result: Result) -> Result:
    """A diagnosis for what shows in the code of a wrong answer, in place of one for what it returned."""
    if result.status != WRONG or not attempt.answers:
        return result
    function = attempt.answers[0]
    nodes = notebook_nodes(function) if attempt.task.knows(NOTEBOOK_NODE.id) else []
    shown = [p for p in result.body if not p.startswith(("What happened: ", _UNNAMED))]
    if nodes:
        return attempt.fault(NOTEBOOK_NODE.id, shown, result.table, name=nodes[0])
    if attempt.task.knows(EARLY_RETURN.id) and returns_in_first_turn(function):
        return attempt.fault(EARLY_RETURN.id, shown, result.table)
    return result


def notebook_nodes(function) -> list[str]:
    """The global names of nodes that a learner's function uses."""
    names, codes = [], [getattr(function, "__code__", None)]
    there = getattr(function, "__globals__", None)
    while codes and isinstance(there, dict):
        code = codes.pop()
        if not inspect.iscode(code):
            continue
        codes += code.co_consts
        names += [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    return [name for name in dict.fromkeys(names) if type(there.get(name)) is Node]


def returns_in_first_turn(function) -> bool:
    """Whether a function has a loop that cannot come to a second turn, because its body always returns."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except Exception:
        return False
    loops = [n for n in ast.walk(tree) if isinstance(n, (ast.For, ast.While))]
    return any(_returns(loop.body) and not any(isinstance(n, ast.Continue) for n in ast.walk(loop)) for loop in loops)


def _returns(body) -> bool:
    last = body[-1]
    return isinstance(last, ast.Return) or (
        isinstance(last, ast.If) and bool(last.orelse) and _returns(last.body) and _returns(last.orelse))


def _advice(result: Run) -> str:
    error = result.error
    if isinstance(error, TypeError) and "positional argument" in _message(error):
        if result.where:  # raised by a call within the learner's function, not by the call of it
            return "Look at the call in the line shown. The error names the function, and what is missing or too many."
        return "Compare the arguments of your function with those in the task."
    if isinstance(error, TypeError) and "unexpected keyword argument" in _message(error) and result.where:
        return ("Look at the call in the line shown: the function has no argument of this name. NumPy's names are not "
                "always those of other libraries, and `help` of the function lists them.")
    if isinstance(error, MissingGradientError):
        return "The store has nothing for this tensor. `tensor in grads` asks without an error, as `grads.get` does."
    if isinstance(error, NameError):
        return "A name is used before it is given a value. Check its spelling, and run the cells above."
    if not result.where:
        return "No line of yours raised this. Is what you handed to `check` the function that you wrote?"
    return "Look at the line shown. Which value there is not what you expect? Print it."


def function_or_reason(attempt: Attempt, function, arguments: str) -> Result | None:
    """None for something that can be called; else the answer to give. `arguments` is shown as the wanted call."""
    if blank(function):
        return attempt.not_started()
    if callable(function):
        return None
    name = attempt.task.wants[0]
    return attempt.wrong([f"`check` got {safe_repr(function)}, which is no function."],
                           look=f'Pass the function itself, without calling it: check("{attempt.task.id}", {name}). '
                                f"The check calls it as {name}({arguments}).")
