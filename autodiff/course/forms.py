"""Forms of tasks: numbers worked out by hand, a question, a function, and tests that are judged by planted faults.

Each form makes a `Task` whose judge compares the answer with the right one, and a wrong answer with what each named
fault would have given on the same inputs. Only a fault that agrees on *every* input is named. What one form does not
cover, a task judges by itself (see checks_02 and checks_03).

In a pair that a function returns, such as two shares, a fault may be in one slot alone while the other is right, so its
sentence has to be true of one slot too.

`Fault.answers` are, for `by_hand`, functions from the deal to the wrong answers, one for each name, with None for
"any"; for `question`, the wrong choices; for `function`, functions that take what the learner's takes; for `tests`, the
faulty things which the learner's tests must refuse.
"""

import copy
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autodiff.course.judge import Attempt, Fault, Task, blank, function_or_reason, name_of, printed, run, stopped
from autodiff.course.result import Table, safe_repr, show_number

CHANGED_INPUT = Fault(
    "changed-input", "the function writes into its arguments",
    "After `{call}` the argument at position {position} is {after}; before it was {before}. Who called the function "
    "still needs it.",
    "an assignment like a[0] = ... or a += ... on an argument. Make a new array instead.")
NO_RETURN = Fault(
    "no-return", "the function returns nothing",
    "`{call}` returned None. A Python function without a `return` gives None, even when it has computed or printed the "
    "answer.",
    "the last line of your function.")
KEPT = Fault(
    "kept-between-calls", "the second call finds what the first one left behind",
    "`{call}` was called twice with equal arguments. The first time it returned {first}, the second time {second}. "
    "Something outlives the call: a name outside the function, or a list or dict as a default argument.",
    "where the things are made that your function fills. Make them inside it, at each call.")


# Comparing


def same(answer, want, rel=1e-9) -> bool:
    """Whether two answers agree: numbers and arrays to nine digits and in shape, words whatever their case."""
    if isinstance(want, str):
        return isinstance(answer, str) and " ".join(answer.lower().split()) == " ".join(want.lower().split())
    if want is None or isinstance(want, bool):
        return answer is want or (isinstance(want, bool) and type(answer).__name__ == "bool" and bool(answer) is want)
    if isinstance(want, Mapping):
        return (isinstance(answer, Mapping) and set(answer) == set(want)
                and all(same(answer[k], want[k], rel) for k in want))
    if isinstance(want, (tuple, list)) and any(isinstance(w, (str, tuple, list, Mapping)) or w is None or _is_array(w)
                                               for w in want):
        return (isinstance(answer, (tuple, list)) and len(answer) == len(want)
                and all(same(a, w, rel) for a, w in zip(answer, want)))
    got, right = as_array(answer), as_array(want)
    if got is None or right is None:
        return False
    import numpy as np

    return got.shape == right.shape and bool(np.allclose(got, right, rtol=rel, atol=rel, equal_nan=True))


def _is_array(value) -> bool:
    return getattr(value, "ndim", 0) > 0


def as_array(value):
    """The value as a float array, or None for what is no number, list of numbers, array or tensor."""
    import numpy as np

    if value is None or isinstance(value, (str, bytes, bool, complex, Mapping, set)) or callable(value):
        return None
    try:
        made = np.asarray(getattr(value, "data", value) if hasattr(value, "is_variable") else value)
        return made.astype(float) if made.dtype.kind in "fiu" else None
    except Exception:
        return None


def show(value) -> str:
    """A value as a learner writes it, on one line."""
    if isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)) and not all(isinstance(v, (int, float)) for v in value):
        inner = ", ".join(map(show, value))
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{show(k)}: {show(v)}" for k, v in value.items()) + "}"
    made = as_array(value)
    if made is None:
        return safe_repr(value, 60)
    if made.size > 12:
        return f"an array of shape {made.shape}"
    return _nested(made.tolist())


def _nested(value) -> str:
    return "[" + ", ".join(map(_nested, value)) + "]" if isinstance(value, list) else show_number(value)


# By hand


def by_hand(id: str, title: str, names: Sequence[str], *, deal: Callable, given: Callable, right: Callable,
            faults: Sequence[Fault], hints: Sequence[str], good: str, how: Callable | None = None,
            words: Sequence[str] = (), numbers: bool = True) -> Task:
    """A task that is answered with one value for each of `names`.

    `deal(number)`: the inputs of round `number`, the same for everybody in round 0. `given(deal)`: how they are told.
    `right(deal)`: a tuple of the right answers. `how(deal)`: one line for each name on how to work it out, shown for
    the first that differs when no fault fits. `words`: what may stand in place of any number, such as "error"; a right
    answer that is a tuple then asks for as many numbers or words. `numbers=False`: nothing but these words. Words for
    `Fault.why`: the names, `first`, and `want_` and a name: "another value" until the target is shown, which is at the
    second miss, and never in a graded copy. The next deal has other right answers, since one that was shown is used up.
    """
    names, instead = tuple(names), tuple(words)
    old = Fault("old-numbers", "these are the answers for numbers you had before",
                "The task has new inputs now: {given} Your answers belong to earlier inputs.",
                f'the line that given("{id}") prints above the table.')

    def judge(attempt: Attempt):
        if all(map(blank, attempt.answers)):
            return attempt.not_started()
        left = [name for name, a in zip(names, attempt.answers) if blank(a)]
        if left:
            return attempt.unfinished([f"{' and '.join(f'`{n}`' for n in left)}: still three dots. "
                                       "Give each of the names a value."])
        now = attempt.dealt[-1]
        wants = right(now)
        agree = [same(a, w) for a, w in zip(attempt.answers, wants)]
        for name, a, w in zip(names, attempt.answers, wants):
            if not _same_form(a, w, instead, numbers):
                shown = [f"`{name}` is {safe_repr(a)}; expected {_form(w, instead, numbers)}."]
                return attempt.wrong(shown, look="Change this one first.")
        rows = [(n, show(w), show(a), "right" if ok else "differs")
                for n, w, a, ok in zip(names, wants, attempt.answers, agree)]
        if all(agree):
            return attempt.passed(Table(("name", "expected", "yours"), tuple(row[:3] for row in rows)))
        table = Table(("name", "yours", ""), tuple((row[0], *row[2:]) for row in rows))
        known, would = next(((f.id, answer(now)) for f in faults for answer in f.answers
                             if all(w is None or same(a, w) for a, w in zip(attempt.answers, answer(now)))),
                            (None, (None,)))
        # Of words there are few, and those that are wrong now may well have been right before. A fault that says
        # nothing of some of them is the weaker explanation.
        if (numbers or any(w is None for w in would)) and any(all(map(same, attempt.answers, right(before)))
                                              for before in attempt.dealt[:-1]):
            return attempt.fault(old.id, (), table, given=given(now).split("\n")[0])
        if attempt.tells:
            table = Table(("name", "expected", "yours", ""), tuple(rows))
        first = names[agree.index(False)]
        words = {n: show(a) for n, a in zip(names, attempt.answers)} | {"first": first}
        words |= {f"want_{n}": show(w) if attempt.tells else "another value" for n, w in zip(names, wants)}
        if known is not None:
            result = attempt.fault(known, (), table, **words)
        else:
            said = f"The first that differs is `{first}`."
            if how is not None:
                said += f" How to work it out: {how(now)[names.index(first)]}."
            look = "Find out where this one comes from." if attempt.tells else "Work this one by hand once more."
            result = attempt.unknown([said], table, look)
        result.missed = True
        return result

    # What is dealt may hold the answer, and an answer on paper needs none of it in the notebook.
    return Task(id, title, names, judge, (*faults, old), tuple(hints), good, deal, lambda d: f"{id}: {given(d)}",
                hands_over=False)


def _same_form(answer, want, words=(), numbers=True) -> bool:
    # With words, the form must not tell where a word is right.
    if words and isinstance(want, tuple):
        return (isinstance(answer, (tuple, list)) and len(answer) == len(want)
                and all(_same_form(a, 0.0, words, numbers) for a in answer))
    if words:
        return (numbers and as_array(answer) is not None) or any(same(answer, word) for word in words)
    if isinstance(want, str):
        return isinstance(answer, str)
    if want is None or isinstance(want, (bool, Mapping, tuple)):
        return True
    return as_array(answer) is not None


def _form(want, words=(), numbers=True) -> str:
    if words:
        one = " or ".join(["a number"] * numbers + [f'"{word}"' for word in words])
        return f"{len(want)} answers in brackets, each {one}" if isinstance(want, tuple) else one
    if isinstance(want, str):
        return "a word in quotes"
    return "a number" if as_array(want) is not None and as_array(want).ndim == 0 else "a list of numbers"


# Questions


@dataclass(frozen=True)
class Asked:
    """One wording of a question: the `text`, and the choices by letter. `right` is the letter of the right one."""

    text: str
    choices: Mapping[str, str]
    right: str


def question(id: str, title: str, asked: Sequence[Asked], *, faults: Mapping[str, Sequence[str]] | Sequence[Fault],
             hints: Sequence[str], good: str, name: str = "choice") -> Task:
    """A task that is answered by the letter of a choice, in as many wordings as it may come back.

    Each fault stands for one misunderstanding; its `answers` are letters, one for each wording, so that the letters may
    be shuffled between wordings. `good` is the reasoning, shown after the right answer. `name`: of the variable. With
    two letters ruled out, the next right one may be a guess: it counts as help, and the next wording is dealt.
    """
    missed = "This was the second wrong letter: the next right one counts as done with help"
    missed += ', and the question has other words now, which `given("{id}")` prints.' if len(asked) > 1 else "."

    def given(number):
        now = asked[number % len(asked)]
        return now.text + "\n" + "\n".join(f"    {letter}  {text}" for letter, text in now.choices.items())

    def judge(attempt: Attempt):
        answer, = attempt.answers
        if blank(answer):
            return attempt.not_started()
        number = attempt.dealt[-1]
        now = asked[number % len(asked)]
        letter = _letter(answer, now.choices)
        if letter is None:
            letters = ", ".join(f'"{c}"' for c in now.choices)
            return attempt.wrong([f"`{attempt.task.wants[0]}` is {safe_repr(answer)}; expected one of {letters}."])
        if letter == now.right:
            return attempt.passed(Table(("yours",), ((f"{letter}  {now.choices[letter]}",),)))
        chosen = [f"You chose {letter}: {now.choices[letter]}"]
        if any(asked[before % len(asked)].right == letter for before in attempt.dealt[:-1]):
            chosen.append("This letter was right on an earlier day or in an earlier wording. The question has come "
                          "back in other words and with other letters: read it again.")
        fault = next((f.id for f in faults if f.answers[number % len(asked)] == letter), None)
        result = attempt.unknown(chosen) if fault is None else attempt.fault(fault, chosen)
        # A cell that is run once more rules nothing out.
        result.missed = all(_letter(*answers, now.choices) != letter for answers in attempt.before)
        return result

    return Task(id, title, (name,), judge, tuple(faults), tuple(hints), good, lambda number: number,
                lambda number: f"{id}: {given(number)}", hands_over=False, missed=missed,
                helped="You had chosen two wrong letters for {id}")


def _letter(answer, choices) -> str | None:
    """The letter somebody chose: alone, in brackets or quotes, with the beginning of its text, or as the whole text."""
    if not isinstance(answer, str):
        return None
    said = " ".join(answer.lower().split()).strip("().'\"")
    for letter, text in choices.items():
        text = " ".join(text.lower().split()).strip("().'\"")
        rest = re.fullmatch(rf"{letter}\W+(.+)", said)
        if said in (letter, text) or rest is not None and text.startswith(rest[1]):
            return letter
    return None


# Functions


@dataclass(frozen=True)
class Case:
    """One call of a learner's function: its arguments, and in words what is special about them.

    Each call gets arguments of its own: copies, or what `args` returns when it is a function, as Vars need.
    """

    args: tuple | Callable
    at: str = ""

    def fresh(self) -> tuple:
        return self.args() if callable(self.args) else copy.deepcopy(self.args)


def function(id: str, title: str, name: str, arguments: str, *, cases: Callable, right: Callable,
             faults: Sequence[Fault], hints: Sequence[str], good: str, rel: float = 1e-9, lines: int = 300_000,
             look_at: Callable | None = None, expects: str = "", tidy: Callable | None = None,
             did: str = "returned") -> Task:
    """A task that is answered with a function, tried on fresh inputs.

    `cases(rng)`: the calls, the simplest first. `right(*args)`: what the function must return. `arguments`: the call as
    shown, such as "g, a, b". `expects`: the wanted form in words. `look_at(attempt, function, runs)`: a diagnosis of
    the task's own (a `Result`) before values are compared, or None; `runs` holds (case, call, run). `tidy(value)`: the
    value to compare, made from what was returned; `did`: the verb before it. A fault whose function raises the
    learner's own error is named too.
    Words for `Fault.why`: `call`, `at`, `got`, `want`, `name`.
    """
    shared = {CHANGED_INPUT.id: CHANGED_INPUT, NO_RETURN.id: NO_RETURN, KEPT.id: KEPT}
    known = {f.id for f in faults} & set(shared)
    tidy = tidy or (lambda value: value)

    def judge(attempt: Attempt):
        answer, = attempt.answers
        reason = function_or_reason(attempt, answer, arguments)
        if reason is not None:
            return reason
        tried = list(cases(attempt.rng))
        runs, wants = [], []
        for case in tried:
            args, before = case.fresh(), case.fresh()
            call = f"{name_of(answer)}({', '.join(map(_argument, args))})"
            result = run(answer, *args, lines=lines)
            problem = stopped(attempt, result, call, case.at)
            if problem is not None:
                fault, slot = _same_error(faults, case, result, runs, wants, tidy, rel)
                shown = [*problem.body, *_right_half(slot)]
                return attempt.fault(fault.id, shown, None, call=call, at=case.at, got="an error", want="",
                                     name=name_of(answer)) if fault else problem
            want = right(*case.fresh())
            where = f" ({case.at})" if case.at else ""
            if result.value is None and want is not None:
                nothing = [f"`{call}`{where} returned None.", *printed(result)]
                fault = _same_none(faults, case)
                if fault is not None:  # it does return, and what it returns is None
                    return attempt.fault(fault.id, nothing, None, call=call, at=case.at, got="None", want=show(want),
                                         name=name_of(answer))
                if NO_RETURN.id in known:
                    return attempt.fault(NO_RETURN.id, printed(result), None, call=call)
                return attempt.wrong(nothing, look="What should it return?")
            for position, (was, after) in enumerate(zip(before, args), 1):
                if as_array(was) is not None and not same(after, was):
                    shown = [f"`{call}` changed its argument.", *printed(result)]
                    if CHANGED_INPUT.id in known:
                        return attempt.fault(CHANGED_INPUT.id, printed(result), None, call=call, position=position,
                                             before=show(was), after=show(after))
                    return attempt.wrong(shown, look="Make a new array instead of writing into an argument.")
            runs.append((case, call, result))
            wants.append(want)
        own = look_at(attempt, answer, runs) if look_at else None
        if own is not None:
            return own
        gots = [tidy(result.value) for _, _, result in runs]
        agree = [same(g, w, rel) for g, w in zip(gots, wants)]
        if all(agree):
            again = run(answer, *tried[0].fresh(), lines=lines)
            if again.ended != "returned" or not same(tidy(again.value), wants[0], rel):
                words = dict(call=runs[0][1], first=show(gots[0]), second=show(again.value))
                if KEPT.id in known:
                    return attempt.fault(KEPT.id, printed(again), None, **words)
                return attempt.wrong([KEPT.why.format(**words)], look=KEPT.look)
            return attempt.passed(_side_by_side(runs[:1], wants, gots))
        first = agree.index(False)
        case, call, result = runs[first]
        got, want = gots[first], wants[first]
        table = _side_by_side(runs, wants, gots, agree)
        where = f" ({case.at})" if case.at else ""
        said = [f"`{call}`{where} {did} {show(got)}; expected {show(want)}.", *printed(result)]
        words = dict(call=call, at=case.at, got=show(got), want=show(want), name=name_of(answer))
        for slot in _slots(wants):
            for fault in faults:
                for wrong in fault.answers:
                    if _would_give(wrong, runs, gots, wants, tidy, rel, slot):
                        return attempt.fault(fault.id, [*said, *_right_half(slot)], table, **words)
        if expects and not _comparable(got, want):
            return attempt.wrong([*said, f"Expected {expects}."],
                                 look="Look at the form of what you return, not at its numbers.")
        return attempt.unknown([*said, *_where_they_part(got, want)], table)

    return Task(id, title, (name,), judge, tuple(faults), tuple(hints), good)


def _argument(value) -> str:
    """An argument as one writes it in a call: words in quotes."""
    return f'"{value}"' if isinstance(value, str) else show(value)


SLOTS = (None, 0, 1)  # of a pair, which slot is right; None first: a mistake that explains both is the better one


def _slots(wants):
    return SLOTS if all(isinstance(want, tuple) and len(want) == 2 for want in wants) else SLOTS[:1]


def set_right(would, want, slot):
    """A wrong pair with its `slot` set right, and the whole of it as it is for None. None for what is no pair."""
    if slot is None:
        return would
    if not isinstance(would, (tuple, list)) or len(would) != 2:
        return None
    return type(would)([want[0], would[1]] if slot == 0 else [would[0], want[1]])


def _right_half(slot) -> list[str]:
    first, second = ("first", "second") if slot == 0 else ("second", "first")
    return [] if slot is None else [f"The {first} of the two is right. The mistake is in the {second}."]


def _would_give(wrong, runs, gots, wants, tidy, rel, slot) -> bool:
    for (case, _, _), got, want in zip(runs, gots, wants):
        try:
            would = set_right(tidy(wrong(*case.fresh())), want, slot)
        except Exception:
            return False
        if would is None or not same(got, would, rel):
            return False
    return True


def _same_error(faults, case, result, runs, wants, tidy, rel) -> tuple[Fault | None, int | None]:
    """The fault whose function stops on this case with the learner's own error, and agrees on the cases before.

    Also which slot of a pair is right there.
    """
    gots = [tidy(before.value) for _, _, before in runs]
    for slot in _slots(wants):
        for fault in faults:
            for wrong in fault.answers:
                try:
                    wrong(*case.fresh())
                except Exception as error:
                    if (type(error) is type(result.error) and _without_ids(error) == _without_ids(result.error)
                            and _would_give(wrong, runs, gots, wants, tidy, rel, slot)):
                        return fault, slot
    return None, None


def _without_ids(error) -> str:
    """The message, with the ids of tensors taken out: they differ from run to run."""
    return re.sub(r"\bid \d+", "id", str(error))


def _same_none(faults, case) -> Fault | None:
    """The fault whose function, too, returns None on this case."""
    for fault in faults:
        for wrong in fault.answers:
            try:
                if wrong(*case.fresh()) is None:
                    return fault
            except Exception:
                continue
    return None


def _comparable(got, want) -> bool:
    if isinstance(want, (tuple, list)) and not isinstance(got, (tuple, list)):
        return as_array(got) is not None and as_array(want) is not None
    if isinstance(want, (tuple, list)) and len(got) == len(want):
        return True  # one of the entries is wrong, not the form
    return isinstance(want, str) == isinstance(got, str) and (as_array(want) is None or as_array(got) is not None)


def _where_they_part(got, want) -> list[str]:
    """One sentence on the shape, or on the first entry that differs."""
    a, b = as_array(got), as_array(want)
    if a is None or b is None or b.ndim == 0:
        return []
    if a.shape != b.shape:
        return [f"The shape is {a.shape}; expected {b.shape}."]
    import numpy as np

    where = np.argwhere(~np.isclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True))
    if not len(where):
        return []
    place = tuple(map(int, where[0]))
    return [f"They part first at index {', '.join(map(str, place))}: {show_number(float(a[place]))} in place of "
            f"{show_number(float(b[place]))}; {len(where)} of {b.size} entries differ."]


def _side_by_side(runs, wants, gots, agree=None) -> Table:
    rows = []
    for k, (case, call, _) in enumerate(runs):
        want, got = show(wants[k]), show(gots[k])
        if agree is not None and not agree[k]:
            want, got = _without_equal_beginning(want, got)
        row = (case.at or _short(call), _short(want), _short(got))
        rows.append(row if agree is None else (*row, "right" if agree[k] else "differs"))
    return Table(("case", "expected", "yours", "")[: 3 if agree is None else 4], tuple(rows))


def _without_equal_beginning(want: str, got: str, limit: int = 44) -> tuple[str, str]:
    """Both texts; where one is too long to be shown whole, the equal entries at the beginning are left out."""
    equal = os.path.commonprefix([want, got])
    start = equal.rfind(", ") + 2
    if max(len(want), len(got)) <= limit or start < 2:
        return want, got
    return "... " + want[start:], "... " + got[start:]


def _short(text: str, limit: int = 44) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


# Tests


def tests(id: str, title: str, name: str, argument: str, *, right: Mapping[str, object], faults: Sequence[Fault],
          hints: Sequence[str], good: str, lines: int = 3_000_000, always: str = "accepts-all",
          never: str = "refuses-all", fresh: Callable | None = None, what: str = "op",
          refusals: Mapping[str, str] | None = None) -> Task:
    """A task that is answered with tests: a function that gets one thing and returns whether it is right.

    `right`: the things it must accept, by name. `Fault.answers`: the things it must refuse; the fault says what the
    tests did not look at. `always` and `never`: the faults for tests that accept, or refuse, everything. A failed
    `assert` counts as refusing. `fresh(thing, rng)`: what is handed over in place of the thing, such as a copy with new
    numbers and without its name, or a tuple of several arguments; the things then come in random order. `what`: the
    heading above the names. `refusals`: for names in `right`, the fault of tests that refuse it. Words for
    `Fault.why`: `name` of the thing, `call`.
    """

    def verdict(attempt, answer, thing, label):
        given = thing if fresh is None else fresh(thing, attempt.rng)
        result = run(answer, *(given if fresh is not None and isinstance(given, tuple) else (given,)), lines=lines)
        if result.ended == "raised" and isinstance(result.error, AssertionError):
            return False, None, result
        problem = stopped(attempt, result, f"{name_of(answer)}({label})")
        if problem is not None:
            return None, problem, result
        value = result.value
        if value is not None and type(value).__name__ not in ("bool", "bool_"):
            # A report that is true or false, as gradcheck gives, is a verdict too.
            if isinstance(value, (int, float, str, list, tuple, dict)) or _is_array(value) or not _has_truth(value):
                shown = [f"`{name_of(answer)}({label})` returned {safe_repr(value)}; expected True or False.",
                         *printed(result)]
                look = "Return True for a right one and False for a faulty one."
                return None, attempt.wrong(shown, look=look), result
        return value is None or bool(value), None, result

    def judge(attempt: Attempt):
        answer, = attempt.answers
        reason = function_or_reason(attempt, answer, argument)
        if reason is not None:
            return reason
        planted = [(fault, thing) for fault in faults for thing in fault.answers]
        things = [*right.items(), *((name_of(thing), thing) for _, thing in planted)]
        order = list(range(len(things)))
        if fresh is not None:
            attempt.rng.shuffle(order)  # else tests could count their calls
        said = {}
        for k in order:
            label, thing = things[k]
            ok, problem, result = verdict(attempt, answer, thing, label)
            if problem is not None:
                return problem
            said[k] = (ok, result)
        accepted = {label: said[k] for k, label in enumerate(right)}
        passed = [(fault, name_of(thing)) for k, (fault, thing) in enumerate(planted, len(right)) if said[k][0]]
        rows = [(label, "accept" if k < len(right) else "refuse", "accept" if said[k][0] else "refuse")
                for k, (label, _) in enumerate(things)]
        refused = [label for label, (ok, _) in accepted.items() if not ok]
        table = Table((what, "should", "yours"), tuple(rows))
        if refused and not passed and len(refused) == len(accepted):
            return attempt.fault(never, printed(accepted[refused[0]][1]), table, name=refused[0],
                                 call=f"{name_of(answer)}({refused[0]})")
        if refused:
            shown = printed(accepted[refused[0]][1])
            if refused[0] in (refusals or ()):
                words = dict(name=refused[0], call=f"{name_of(answer)}({refused[0]})")
                said = [f"Your tests refuse `{refused[0]}`, which is right.", *shown]
                return attempt.fault(refusals[refused[0]], said, table, **words)
            return attempt.wrong([f"Your tests refuse `{refused[0]}`, which is right.", *shown], table=table,
                                 look="Which of your tests fails? Is its tolerance too small, or its point a kink?")
        if len(passed) == len(planted):
            results = [result for _, result in said.values()]
            shown = printed(results[0])
            if all(result.value is None for result in results):
                shown = [f"`{name_of(answer)}` returned None each time, and no assertion failed.", *shown]
            return attempt.fault(always, shown, table, name=passed[0][1], call=f"{name_of(answer)}({passed[0][1]})")
        if passed:
            fault, label = passed[0]
            return attempt.fault(fault.id, [f"Your tests accept `{label}`, which is faulty."], table, name=label,
                                 call=f"{name_of(answer)}({label})")
        return attempt.passed(table)

    return Task(id, title, (name,), judge, tuple(faults), tuple(hints), good)


def _has_truth(value) -> bool:
    try:
        return bool(value) in (True, False)
    except Exception:
        return False


def nonzero(rng, low=1.5, high=5.0, step=0.5) -> float:
    """A number of either sign on a grid, away from 0 and ±1: two mistakes then seldom give one value."""
    return rng.choice([-1, 1]) * (low + step * rng.randrange(int(round((high - low) / step)) + 1))


def array(rng, *shape, low=1.5, high=5.0):
    """A float64 array of such numbers."""
    import numpy as np

    return np.array([nonzero(rng, low, high) for _ in range(math.prod(shape))]).reshape(shape)
