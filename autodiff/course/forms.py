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

import contextlib
import copy
import itertools
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from autodiff.course.judge import Attempt, Fault, Task, blank, function_or_reason, name_of, printed, run, stopped
from autodiff.course.result import WRONG, Table, paragraphs, safe_repr, show_number

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


def show(value, digits: int = 6) -> str:
    """A value as a learner writes it, on one line."""
    if isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)) and not all(isinstance(v, (int, float)) for v in value):
        inner = ", ".join(show(v, digits) for v in value)
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{show(k)}: {show(v, digits)}" for k, v in value.items()) + "}"
    made = as_array(value)
    if made is None:
        return safe_repr(value, 60)
    if made.size > 12:
        return f"an array of shape {made.shape}"
    return _nested(made.tolist(), digits)


def _nested(value, digits) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_nested(v, digits) for v in value) + "]"
    return show_number(value, digits)


def apart(one, other) -> tuple[str, str]:
    """Two values that differ, with as many digits as it takes to see it; words in quotes where that is the difference.

    >>> apart(6.0, 6.00000002), apart(6.0, 7.0), apart(6.0, "6")
    (('6', '6.00000002'), ('6', '7'), ('6.0', "'6'"))
    """
    for digits in range(6, 18):
        texts = show(one, digits), show(other, digits)
        if texts[0] != texts[1]:
            return texts
    if not _is_array(one) or not _is_array(other):
        return safe_repr(one, 60), safe_repr(other, 60)
    places = [tuple(map(int, place)) for place in zip(*(as_array(one) != as_array(other)).nonzero())]
    return tuple(f"{text} with {entry} at {list(place)}" for place in places[:1] for text, entry in
                 zip(texts, apart(float(one[place]), float(other[place])))) or texts


# By hand


def by_hand(id: str, title: str, names: Sequence[str], *, deal: Callable, given: Callable, right: Callable,
            faults: Sequence[Fault], hints: Sequence[str], good: str, how: Callable | None = None,
            words: Sequence[str] = (), numbers: bool = True, say: Callable = lambda deal: {}) -> Task:
    """A task that is answered with one value for each of `names`.

    `deal(number)`: the inputs of round `number`, the same for everybody in round 0. `given(deal)`: how they are told.
    `right(deal)`: a tuple of the right answers. `how(deal)`: one line for each name on how to work it out, shown for
    the first that differs when no fault fits. `words`: what may stand in place of any number, such as "error"; a right
    answer that is a tuple then asks for as many numbers or words. `numbers=False`: nothing but these words. Words for
    `Fault.why`: the names, `first`, those of `say(deal)`, and `want_` and a name: "another value" until the target is
    shown, which is at the second miss, and never in a graded copy. The next deal has other right answers, since one
    that was shown is used up.
    """
    names, instead = tuple(names), tuple(words)
    told = lambda deal: f"{id}: {given(deal)}"

    def judge(attempt: Attempt):
        if all(map(blank, attempt.answers)):
            return attempt.not_started()
        left = [name for name, a in zip(names, attempt.answers) if blank(a)]
        if left:
            return attempt.unfinished([f"{' and '.join(f'`{n}`' for n in left)}: still three dots. "
                                       "Give each of the names a value."])
        now = attempt.dealt[-1]
        wants = right(now)
        answers = [_one_number(a) if isinstance(w, (int, float)) else a for a, w in zip(attempt.answers, wants)]
        agree = list(map(same, answers, wants))
        for name, a, w in zip(names, answers, wants):
            if not _same_form(a, w, instead, numbers):
                shown = [f"`{name}` is {safe_repr(a)}; expected {_form(w, instead, numbers)}."]
                return attempt.wrong(shown, look="Change this one first.")
        pairs = [(show(w), show(a)) if ok else apart(w, a) for w, a, ok in zip(wants, answers, agree)]
        rows = [(n, *pair, "right" if ok else "differs") for n, pair, ok in zip(names, pairs, agree)]
        if all(agree):
            result = attempt.passed(Table(("name", "expected", "yours"), tuple(row[:3] for row in rows)))
            result.fits = len(_leaves(wants))
            return result
        table = Table(("name", "yours", ""), tuple((row[0], *row[2:]) for row in rows))
        if attempt.tells:
            table = Table(("name", "expected", "yours", ""), tuple(rows))
        first = names[agree.index(False)]
        words = {n: mine for n, (_, mine) in zip(names, pairs)} | {"first": first} | say(now)
        words |= {f"want_{n}": want if attempt.tells else "another value" for n, (want, _) in zip(names, pairs)}
        known = [(f, answer(now)) for f in faults for answer in f.answers]
        found = next(([(f, row)] for f, row in known
                      if all(w is None or same(a, w) for a, w in zip(answers, row))), None)
        found = found or _two_of(known, answers, wants)
        if found:
            result = attempt.fault(found[0][0].id, (), table, **words)
            result.body += _second(found, words)
        else:
            said = f"The first that differs is `{first}`."
            if how is not None:
                said += f" How to work it out: {how(now)[names.index(first)]}."
            look = "Find out where this one comes from." if attempt.tells else "Work this one by hand once more."
            result = attempt.unknown([said], table, look)
        result.missed = True
        result.fits = _fits(answers, wants, [row for _, row in found or ()])
        return result

    # What is dealt may hold the answer, and an answer on paper needs none of it in the notebook.
    return dealt(Task(id, title, names, judge, tuple(faults), tuple(hints), good, deal, told, hands_over=False),
                 old_numbers(id), alone=not numbers)


def old_numbers(id: str) -> Fault:
    """The fault of right answers to inputs that were dealt earlier."""
    return Fault("old-numbers", "these are the answers for numbers you had before",
                 "The task has new inputs now. Your answers are right for the earlier ones.",
                 f'what `given("{id}")` prints: your answers must be made from this.')


def dealt(task: Task, old: Fault, alone: bool = False) -> Task:
    """A task whose answer is judged by the inputs that it was made from, also when these were dealt earlier.

    Those are the inputs that explain most of the answer (`Result.fits`); the present ones when no others explain more.
    `old`: the fault of an answer that is right for earlier inputs. `alone`: nothing else is taken for an earlier one,
    as words are so few that a wrong one may well have been right before.
    """
    def judge(attempt: Attempt):
        result, made_from = task.judge(attempt), None
        if result.status != WRONG:
            return result
        for deal in attempt.dealt[-2::-1]:
            was = task.judge(replace(attempt, dealt=[deal], misses=0))
            if was.fits > result.fits and (was or not alone):
                result, made_from = was, deal
        if made_from is None:
            return result
        before, now = ([*paragraphs(task.show(d))] for d in (made_from, attempt.dealt[-1]))
        new = ["The inputs now:", *now]
        if result:
            was = attempt.fault(old.id, (), result.table and result.table.without("expected"))
            was.after = [*new, *was.after]
            return was
        result.body = ["Your answers fit inputs that you had before better than those of now, so they are judged by "
                       "the earlier ones:", *before, *result.body]
        result.after += new
        result.missed = False
        return result

    return replace(task, judge=judge, faults=(*task.faults, old))


def _leaves(value) -> list:
    """The single values in an answer, as floats and words; the keys of dicts among them."""
    if isinstance(value, Mapping):
        return [leaf for key in sorted(value, key=str) for leaf in (str(key), *_leaves(value[key]))]
    made = as_array(value)
    if made is not None:
        return made.ravel().tolist()
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, (tuple, list)) else [value]


def _alike(one, other, rel=1e-9) -> bool:
    """`same` for single values, fast for floats."""
    if type(one) is type(other) is float:
        return math.isclose(one, other, rel_tol=rel, abs_tol=rel) or one != one and other != other
    return same(one, other)


def _fits(answers, wants, explained: Sequence) -> int:
    """How many single values are right, or what one of the `explained` rows has there.

    One less for a row with gaps, and for two mistakes together: these are weaker explanations.
    """
    rows = [_leaves(row) for row in ([_filled(row, wants) for row in explained] or [wants])]
    given, weak = _leaves(answers), len(explained) > 1 or any(value is None for row in explained for value in row)
    return sum(any(len(row) == len(given) and _alike(a, row[k]) for row in rows) for k, a in enumerate(given)) - weak


def _filled(row, wants):
    return tuple(want if one is None else one for one, want in zip(row, wants))


def _two_of(known: Sequence, answers, wants, rel=1e-9) -> list:
    """Two known mistakes that together make exactly these answers; [] where there are none.

    Where both change the same number, their factors are multiplied, or their differences added, or one hides the other.
    """
    given, right = _leaves(answers), _leaves(wants)
    rows = [(fault, row, _leaves(_filled(row, wants))) for fault, row in known]
    rows = [entry for entry in rows if len(entry[2]) == len(right) == len(given)]
    for (one, row_1, first), (two, row_2, second) in itertools.combinations(rows, 2):
        if one is not two and any(all(_alike(a, join(*three), rel) for a, *three in zip(given, first, second, right))
                                  for join in _JOINS):
            return [(one, row_1), (two, row_2)]
    return []


def _joining(both: Callable, word_stays: bool) -> Callable:
    def join(one, two, right):
        """What two mistakes make of one value."""
        if _alike(one, right) or word_stays and isinstance(two, str):
            return two
        if _alike(two, right) or word_stays and not all(isinstance(value, float) for value in (one, two, right)):
            return one
        return both(one, two, right)

    return join


# A word, such as "absent", is what it is, whatever a factor does to the numbers.
_JOINS = (_joining(lambda one, two, right: one * two / right if right else one, True),
          _joining(lambda one, two, right: one + two - right, True),
          _joining(lambda one, two, right: one, False), _joining(lambda one, two, right: two, False))


def _second(found: Sequence, words: Mapping) -> list[str]:
    return [f"There is a second mistake: {fault.title}. {fault.why.format(**words)}" for fault, _ in found[1:]]


def _one_number(answer):
    """An array with one entry as a number; anything else as it is."""
    made = as_array(answer)
    return made.item() if made is not None and made.size == 1 else answer


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
             hints: Sequence[str | Sequence[str]], good: str, name: str = "choice") -> Task:
    """A task that is answered by the letter of a choice, in as many wordings as it may come back.

    A hint that does not suit every wording is a sequence of texts, which the wordings take in turn.

    Each fault stands for one misunderstanding; its `answers` are letters, one for each wording, so that the letters may
    be shuffled between wordings. `good` is the reasoning, shown after the right answer. `name`: of the variable. With
    two letters ruled out, the next right one may be a guess: it counts as help, and the next wording is dealt.
    """
    missed = "This was the second wrong letter: the next right one counts as done with help"
    missed += ', and the question has other words now, which `given("{id}")` prints too:' if len(asked) > 1 else "."

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

    def hint(texts):
        return texts if isinstance(texts, str) else lambda number: texts[number % len(texts)]

    return Task(id, title, (name,), judge, tuple(faults), tuple(map(hint, hints)), good, lambda number: number,
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
                        told = dict(zip(("before", "after"), apart(was, after)))
                        return attempt.fault(CHANGED_INPUT.id, printed(result), None, call=call, position=position,
                                             **told)
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
                words = dict(call=runs[0][1], **dict(zip(("first", "second"), apart(gots[0], tidy(again.value)))))
                if KEPT.id in known:
                    return attempt.fault(KEPT.id, printed(again), None, **words)
                return attempt.wrong([KEPT.why.format(**words)], look=KEPT.look)
            return attempt.passed(_side_by_side(runs[:1], wants, gots))
        first = agree.index(False)
        case, call, result = runs[first]
        got, want = gots[first], wants[first]
        table = _side_by_side(runs, wants, gots, agree)
        where = f" ({case.at})" if case.at else ""
        told_want, told_got = apart(want, got)
        said = [f"`{call}`{where} {did} {told_got}; expected {told_want}.", *printed(result)]
        words = dict(call=call, at=case.at, got=told_got, want=told_want, name=name_of(answer))
        for slot in _slots(wants):
            for fault in faults:
                for wrong in fault.answers:
                    if _would_give(wrong, runs, gots, wants, tidy, rel, slot):
                        return attempt.fault(fault.id, [*said, *_right_half(slot)], table, **words)
        found = _two_of(_known(faults, runs, wants, tidy), gots, wants, rel)
        if found:
            result = attempt.fault(found[0][0].id, said, table, **words)
            result.body += _second(found, words)
            return result
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


def _known(faults, runs, wants, tidy) -> list:
    """Each known mistake with what it gives on the cases, where it gives something on all of them."""
    known = []
    for fault in faults:
        for wrong in fault.answers:
            with contextlib.suppress(Exception):
                made = [tidy(wrong(*case.fresh())) for case, _, _ in runs]
                if not any(would is None is not want for would, want in zip(made, wants)):
                    known.append((fault, made))
    return known


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
    mine, right = apart(float(a[place]), float(b[place]))
    return [f"They part first at index {', '.join(map(str, place))}: {mine} in place of {right}; {len(where)} of "
            f"{b.size} entries differ."]


def _side_by_side(runs, wants, gots, agree=None) -> Table:
    rows = []
    for k, (case, call, _) in enumerate(runs):
        want, got = show(wants[k]), show(gots[k])
        if agree is not None and not agree[k]:
            want, got = _without_equal_beginning(*apart(wants[k], gots[k]))
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
