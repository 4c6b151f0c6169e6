"""A bench for one part: the learner's part runs with ours around it, and the first finding ends the test.

A probe is a function that gets a `Bench`, asks one question after the other, and returns the table for a part that
passed. Each question has one fault: what is named is what was seen, not a guess from a number.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from autodiff.course.capstone.engine import OURS, Engine, borrowed_from, watch_over
from autodiff.course.judge import Attempt, Fault, Run, blank, printed, run, stopped
from autodiff.course.result import Table, safe_repr

ENGINE_INSIDE = Fault(
    "engine-inside", "autodiff does the work",
    "`{name}` uses `{what}`, which belongs to the package autodiff. The engine that runs then is ours, not yours.",
    "the names in your code that come from autodiff. NumPy and your own parts are enough.")


class Found(Exception):
    """A finding: the `Result` to show."""

    def __init__(self, result):
        self.result = result


class Bench:
    """The learner's `part` under its `name`, and the `engine` that is ours but for this part.

    `answers`: functions of ours that do what is asked, beside our own part of this name.
    """

    def __init__(self, attempt: Attempt, name: str, part):
        self.attempt, self.name, self.part = attempt, name, part
        self.engine = Engine(**({name: part} if name in OURS else {}))
        self.rng = attempt.rng
        self.begun = False
        self.last = None
        self.answers = ()

    def run(self, function, *args, engine: Engine | None = None, lines: int = 300_000, **params) -> Run:
        """Call learner's code among our parts."""
        engine = engine or self.engine
        # A test may have planted parts in its engine: then the learner's own is the part alone.
        watch = watch_over(engine, [self.name] if self.name in OURS else engine.yours, self.answers)
        with engine, watch:
            self.last = run(lambda: function(*args, **params), lines=lines)
        if watch.found is not None:
            name = watch.user if watch.user and watch.user.isidentifier() else self.name
            self.fault(ENGINE_INSIDE.id, (), None, name=name, what=watch.found)
        return self.last

    def call(self, what: str, function, *args, engine=None, lines=300_000, errors: Sequence = (), **params):
        """The value of a call; `what` is the call as text. `errors`: pairs of exception types, or a
        question to the exception, and the fault that it shows."""
        ran = self.run(function, *args, engine=engine, lines=lines, **params)
        if ran.ended == "not started" and self.begun:
            raise Found(self.attempt.unfinished([f"`{what}` raised NotImplementedError: this is not written yet."]))
        if ran.ended == "raised":
            for kinds, fault in errors:
                if isinstance(ran.error, kinds) if isinstance(kinds, (type, tuple)) else kinds(ran.error):
                    self.fault(fault, [told(what, ran)], call=what)
            if isinstance(ran.error, AttributeError) and "'Node' object has no" in str(ran.error):
                self.wrong(told(what, ran), look="A node has value, op, inputs, params, variable, name and tracked.")
        problem = stopped(self.attempt, ran, what)
        if problem is not None:
            raise Found(problem)
        self.begun = True
        return ran.value

    def fault(self, fault_id: str, shown: Sequence[str] = (), table: Table | None = None, **words):
        words = {"name": self.name, **words}
        raise Found(self.attempt.fault(fault_id, [*shown, *self._printed()], table, **words))

    def wrong(self, *shown: str, look: str = "", table: Table | None = None):
        raise Found(self.attempt.wrong([*shown, *self._printed()], look, table))

    def unknown(self, *shown: str, look: str = "", table: Table | None = None):
        raise Found(self.attempt.unknown([*shown, *self._printed()], table, look))

    def _printed(self) -> list[str]:
        return printed(self.last) if self.last is not None else []


def raised(ran: Run) -> str:
    """What a call raised, and where, without a full stop."""
    where = f", in {ran.where}" if ran.where else ""
    said = re.sub(r"<(?:\w+\.)*(\w+) object at 0x\w+>", r"a \1", " ".join(str(ran.error).split()))
    return f"raised {type(ran.error).__name__}: {said[:120]}{where}"


def told(what: str, ran: Run) -> str:
    """One sentence on an exception."""
    return f"`{what}` {raised(ran)}."


def judge_part(name: str, probe: Callable, wanted: str, accepts: Callable = callable) -> Callable:
    """The judge of one part. `wanted` says what a part is, for an answer that `accepts` refuses."""

    def judge(attempt: Attempt):
        part, = attempt.answers
        if blank(part) or part is OURS.get(name):
            return attempt.not_started()
        if not accepts(part):
            return attempt.wrong([f"`{name}` is {safe_repr(part)}; expected {wanted}."])
        what = borrowed_from(part)
        if what is not None:
            return attempt.fault(ENGINE_INSIDE.id, (), None, name=name, what=what)
        try:
            with np.errstate(all="ignore"):
                return attempt.passed(probe(Bench(attempt, name, part)))
        except Found as found:
            return found.result

    return judge


# Graphs to try a part on

MiniNode = OURS["Node"]  # the class itself: in `mini` the name may mean another one while a test runs


def leaf(name: str, value, variable: bool = True):
    """A variable, or a constant."""
    return MiniNode(value, variable=variable, name=name)


def op_node(op: str, *inputs, name: str | None = None):
    """The node of an operation on nodes whose shapes agree."""
    return MiniNode(OURS["RULES"][op][0](*(n.value for n in inputs)), op, inputs, name=name)


def all_nodes(root) -> list:
    """Every node that `root` was made from, constants too."""
    waiting, seen = [root], {}
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen[node] = None
            waiting.extend(node.inputs)
    return list(seen)


def generator(bench: Bench) -> np.random.Generator:
    """NumPy's random numbers from the seed of the attempt."""
    return np.random.default_rng(bench.rng.randrange(2**32))


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of either sign, away from 0, and short enough to show."""
    return np.round(rng.uniform(0.5, 1.5, shape), 2) * rng.choice([-1, 1], shape)
