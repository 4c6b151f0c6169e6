"""What a check sees besides the value of an answer: a pair that is half done, and what tests did with their reports."""

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from autodiff.course.forms import same
from autodiff.course.judge import Attempt, Fault, Task, blank, name_of
from autodiff.course.result import WRONG, Result

VERDICT_LOST = Fault(
    "verdict-lost", "one of your checks refused it, and your function accepted it",
    "In your function a check refused `{name}`: {verdict}. So the input that shows the mistake is there. But the "
    "function did not return False: this verdict was lost on the way.",
    "what becomes of each report. Does a loop keep only the last one, or is one good report enough? One that refuses "
    "must decide.")
ONE_ENOUGH = Fault(
    "one-was-enough", "one good report is enough for your function",
    "Your function accepted `{name}` after {few} of {all} checks. It stopped at one that found nothing wrong, so the "
    "inputs after it were not tried. One good report says nothing about the other inputs.",
    "how the reports are joined: `any` where `all` belongs, or a `return` that comes too early.")
VERDICTS = (VERDICT_LOST, ONE_ENOUGH)
_SILENT = ("For right ones your function returned None. That was taken for True, as in tests made of `assert`. "
           "`return True` says it.")


def half_done(attempt: Attempt, pairs: Sequence, wants: Sequence, rel: float = 1e-9) -> Result | None:
    """The answer to pairs of shares in which one is still three dots, and None for others."""
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        return None
    words = ("first", "second")
    for place in (0, 1):
        if all(blank(pair[place]) for pair in pairs):
            other = all(same(pair[1 - place], want[1 - place], rel) for pair, want in zip(pairs, wants))
            said = f"The {words[1 - place]} of your two shares is right. " if other else ""
            return attempt.unfinished([f"{said}The {words[place]} one is still three dots."])
    return None


class Watch:
    """Runs a learner's tests, and keeps what `gradcheck` said of each thing, and whether the tests returned something.

    `counts`: how many reports each thing got. `refused`: the verdict of the first report that refused it.
    """

    def __init__(self):
        self.forget()

    def forget(self):
        self.thing, self.counts, self.refused, self.silent, self.said = "", {}, {}, False, False

    def handing(self, fresh: Callable) -> Callable:
        """The `fresh` of the form `tests`, which also says what is tested next."""
        def hand(thing, rng):
            self.thing = name_of(thing)
            return fresh(thing, rng)

        return hand

    def judge(self, form: Task, attempt: Attempt) -> Result:
        """What the form says, and one of `VERDICTS` where a fault was accepted because of how reports were joined."""
        answer, = attempt.answers
        if blank(answer) or not callable(answer):
            return form.judge(attempt)
        self.forget()
        inner = replace(attempt, answers=(self._watched(answer),))
        result = form.judge(inner)
        attempt.used_seed = inner.used_seed
        if result and self.silent:
            result.body.append(_SILENT)
        name = self._accepted(result)
        most, few = max(self.counts.values(), default=0), self.counts.get(name, 0)
        fault = VERDICT_LOST if name in self.refused else ONE_ENOUGH if 0 < few < most else None
        if fault is None or not form.knows(fault.id):
            return result
        shown = [part for part in result.body if not part.startswith("What happened: ")]
        words = dict(name=name, verdict=self.refused.get(name), few=few, all=most)
        return attempt.fault(fault.id, shown, result.table, **words)

    def _accepted(self, result: Result) -> str:
        """The faulty thing that is accepted and that the diagnosis is about, when no right one is refused; else ""."""
        if result.status != WRONG or result.table is None or not self.said:
            return ""
        differ = [(label, should) for label, should, yours in result.table.rows if should != yours]
        return differ[0][0] if differ and all(should == "refuse" for _, should in differ) else ""

    def _watched(self, answer: Callable) -> Callable:
        checking = importlib.import_module("autodiff.gradcheck")

        @functools.wraps(answer)
        def tests(*args):
            given_back = checking._given_back
            self.counts[self.thing] = 0

            def keep(report, raise_exception):
                self.counts[self.thing] += 1
                if not report:
                    self.refused.setdefault(self.thing, report.verdict)
                return given_back(report, raise_exception)

            checking._given_back = keep
            value = False
            try:
                value = answer(*args)
            finally:
                checking._given_back = given_back
                self.silent, self.said = self.silent or value is None, self.said or value is not None
            return value

        return tests
