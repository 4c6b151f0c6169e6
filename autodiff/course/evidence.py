"""A form of tasks: rules as somebody wrote them, and inputs at which the checker refuses the wrong ones.

The learner says which rules are wrong, and hands over one input for each. A rule counts as shown to be wrong when
`gradcheck` (or `gradgradcheck`) refuses it at that input and accepts the right rule at the same input. So an opinion
never passes, and neither does an input at which no rule can be right.
"""

import ast
import functools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

import autodiff as ad
from autodiff.checking.report import KINK, NOT_FINITE, NOTHING
from autodiff.course.forms import dealt, show
from autodiff.course.judge import Attempt, Fault, Task, blank
from autodiff.course.result import Table, safe_repr

LARGEST = 200  # numbers in one input: a check costs two calls for each
_LETTERS = "ABCDEFGH"


def cut(value):
    """The value without its history: `detach` for Tensors, the array itself where nothing is recorded."""
    return value.detach() if isinstance(value, ad.Tensor) else value


def added(x, index, values):
    """`x` with `values` added at `index`; an index that is named twice gets both."""
    return ad.scatter_add(x, 0, index, values)


def written(x, index, values):
    """`x` with `values` written at `index`; of two writes to one place the last one stays."""
    return ad.scatter(x, 0, index, values)


def others(x):
    """For each entry of a vector the product of all other entries, without a division."""
    return np.stack([np.prod(np.delete(x, i)) for i in range(x.size)])


NAMES = {"np": np, "cut": cut, "added": added, "written": written, "others": others}


@dataclass(frozen=True)
class Written:
    """A rule as somebody wrote it.

    `forward` and the values of `partials` are source: what the learner reads is what runs. `partials`: by operand, in
    order; None for an operand of integers, which gets no gradient. `right`: the same function with right derivatives.
    `seen`: where the rule was seen. `clue`: the fault of an input that does not show what is wrong here.
    """

    name: str
    forward: str
    partials: Mapping[str, str | None]
    right: Callable = field(repr=False)
    wrong: bool = field(repr=False)
    seen: str = ""
    clue: str = field(default="accepted", repr=False)

    @property
    def operands(self) -> tuple[str, ...]:
        return tuple(self.partials)

    def op(self) -> Callable:
        """The op of the engine that has this rule, named after the function."""
        names = ", ".join(self.operands)
        # One text for the page and for the engine, so that they cannot differ.
        forward = eval(f"lambda {names}: {self.forward}", NAMES)
        forward.__name__ = forward.__qualname__ = self.name
        vjps = [text and _quiet(eval(f"lambda g, y, {names}: {text}", NAMES)) for text in self.partials.values()]
        made = ad.custom_op(vjps=vjps)(_quiet(forward))

        @functools.wraps(forward)
        def op(*values):
            return made(*values)

        return op

    def lines(self, letter: str) -> list[str]:
        head = f"    {letter}  {self.name}"
        head += f" = {self.forward}" if self.forward != self.name else ""
        head += f"    ({self.seen})" if self.seen else ""
        rules = [(name, text) for name, text in self.partials.items() if text is not None]
        if len(rules) == 1:
            return [head, f"           {rules[0][1]}"]
        width = max(len(name) for name, _ in rules)
        return [head, *(f"           {name:{width}}: {text}" for name, text in rules)]


def _quiet(function):
    @functools.wraps(function)
    def run(*values):
        with np.errstate(all="ignore"):
            return function(*values)

    return run


class Rules(dict):
    """{letter: op}, in the order of the letters; `written` has the rule behind each."""

    def __init__(self, chosen: Sequence[Written]):
        self.written = dict(zip(_LETTERS, chosen))
        super().__init__((letter, rule.op()) for letter, rule in self.written.items())


@dataclass
class _Shown:
    """What the checker says of one rule at one input."""

    letter: str
    rule: Written
    inputs: tuple
    report: object = None
    right: object = None
    problem: str = ""
    raised: str = ""
    at: str = field(init=False)

    def __post_init__(self):
        shown = list(map(_exact, self.inputs))
        self.at = ", ".join(shown) if len(shown) < 2 else f"({', '.join(shown)})"

    @property
    def refused(self) -> bool:
        return bool(self.raised) or not self.report

    @property
    def verdict(self) -> str:
        return self.raised or self.report.verdict

    @property
    def why_not(self) -> str:
        """The fault of an input at which the right rule is refused as well."""
        if self.right.verdict == NOTHING:
            return "nothing-there"
        if self.right.verdict not in (NOT_FINITE, KINK):
            return "not-judged"
        with np.errstate(all="ignore"):
            value = self.rule.right(*map(ad.Tensor, self.inputs)).data
        return "right-fails-too" if np.isfinite(value).all() else "value-not-finite"

    def row(self) -> tuple[str, ...]:
        at = self.at if len(self.at) <= 40 else self.at[:37] + "..."
        return (self.letter, self.rule.name, at, f"{'refused' if self.refused else 'accepted'}: {self.verdict}",
                f"{'accepted' if self.right else 'refused'}: {self.right.verdict}")


def evidence(id: str, title: str, name: str, *, deal: Callable, asks: str, faults: Sequence[Fault],
             hints: Sequence[str], good: str, second: bool = False) -> Task:
    """A task that is answered with a dict {letter: input}.

    `deal(number)`: the rules (`Written`) of a round. `asks`: the first line of what is given. `second`: the checker is
    `gradgradcheck`. Faults that the form names itself: "only-letters", "missing", "a-choice", the `clue` of the rule,
    for an input at which the wrong rule is accepted, and "right-fails-too", for one at which the right rule is refused.
    Of these a task may tell apart "value-not-finite", "nothing-there" (to check) and "not-judged" (by differences).
    Words for `Fault.why`: `letter`, `rule`, `at`, `verdict`, `right_verdict`, `shown` (how many are).
    """
    check = ad.gradgradcheck if second else ad.gradcheck
    checker = check.__name__
    known = {fault.id for fault in faults}

    def given(rules):
        return "\n".join([asks, *(line for letter, rule in rules.written.items() for line in rule.lines(letter))])

    def judge(attempt: Attempt):
        answer, = attempt.answers
        rules = attempt.dealt[-1]
        if blank(answer):
            return attempt.not_started()
        if not isinstance(answer, Mapping):
            letters = answer.split() if isinstance(answer, str) else answer
            if isinstance(letters, (list, tuple, set, frozenset)) and all(isinstance(v, str) for v in letters):
                return attempt.fault("only-letters", [f"`{name}` is {safe_repr(answer)}."])
            return attempt.wrong([f"`{name}` is {safe_repr(answer)}; expected a dict."], look=_form(name))
        found = {}
        for key, value in answer.items():
            letter = key.strip().upper() if isinstance(key, str) else key
            if letter not in rules.written:
                there = ", ".join(rules.written)
                return attempt.wrong([f"`{name}` has the key {safe_repr(key)}; the letters are {there}."])
            found[letter] = value
        left = [letter for letter, value in found.items() if blank(value)]
        if left:
            return attempt.unfinished([f"{', '.join(left)}: still three dots. Give each letter an input."])
        shown = []
        for letter in sorted(found):
            one = _tried(check, letter, rules, found[letter])
            if one.problem:
                return attempt.wrong([f'`{name}["{letter}"]`: {one.problem}'], table=_table(shown, checker),
                                     look=_form(name, letter, one.rule.operands))
            shown.append(one)
        table = _table(shown, checker)
        for one in shown:
            words = dict(letter=one.letter, rule=one.rule.name, at=one.at, shown=len(shown),
                         verdict=one.verdict, right_verdict=one.right.verdict)
            if one.refused and not one.right:
                why = one.why_not if one.why_not in known else "right-fails-too"
                return attempt.fault(why, (), table, **words)
            if one.refused and not one.rule.wrong:
                raise AssertionError(f"{id}: {one.rule} is meant to be right, and is refused at {one.at}")
            if not one.refused:
                at_kink = one.verdict == "at a kink" and "a-choice" in known
                return attempt.fault("a-choice" if at_kink else one.rule.clue, (), table, **words)
        if any(rule.wrong and letter not in found for letter, rule in rules.written.items()):
            return attempt.fault("missing", (), table, shown=len(shown))
        result = attempt.passed(table)
        result.fits = 1
        return result

    old = Fault("old-rules", "these are inputs for rules you had before",
                "The task has other rules now. Your inputs show what was wrong with the earlier ones.",
                f'the rules that `given("{id}")` prints, and their letters.')
    return dealt(Task(id, title, (name,), judge, tuple(faults), tuple(hints), good, lambda number: Rules(deal(number)),
                      lambda rules: f"{id}: {given(rules)}"), old, alone=True)


def _form(name: str, letter: str = "A", operands: Sequence[str] = ("x",)) -> str:
    if len(operands) == 1:
        return f'`{name} = {{"{letter}": [1.0, 2.0]}}` says: {letter} is wrong, and the input [1.0, 2.0] shows it.'
    return f'`{name} = {{"{letter}": (...)}}`, with ({", ".join(operands)}) between the round brackets.'


def _table(shown, checker) -> Table | None:
    return Table(("rule", "of", "your input", checker, "a right rule there"), tuple(s.row() for s in shown)) \
        if shown else None


def _exact(value) -> str:
    """`show`, with all digits where the short form is another number."""
    short = show(value)
    try:
        return short if np.array_equal(np.array(ast.literal_eval(short)), value) else repr(value.tolist())
    except (ValueError, SyntaxError):  # an array of many numbers is shown by its shape
        return short


def _tried(check, letter, rules, value) -> _Shown:
    """What the checker says of the rule with this letter at this input."""
    rule = rules.written[letter]
    try:
        one = _Shown(letter, rule, _inputs(rule, value))
    except (TypeError, ValueError) as error:
        one = _Shown(letter, rule, ())
        one.problem = str(error)
        return one
    with np.errstate(all="ignore"):
        try:
            one.right = check(rule.right, one.inputs, raise_exception=False)
        except Exception as error:
            one.problem = f"the function cannot be computed there. {type(error).__name__}: {error}"
            return one
        try:
            one.report = check(rules[letter], one.inputs, raise_exception=False)
        except Exception as error:
            one.raised = type(error).__name__
    return one


def _inputs(rule: Written, value) -> tuple:
    """The inputs as arrays: of floats, and of integers where the operand has no partial."""
    names = rule.operands
    if len(names) == 1:
        values = [value]
    elif isinstance(value, (tuple, list)) and len(value) == len(names):
        values = value
    else:
        raise ValueError(f"{safe_repr(value, 60)} is not one value for each of {', '.join(names)}: write a tuple.")
    arrays = []
    for operand, text, one in zip(names, rule.partials.values(), values):
        made = _array(one)
        if made is None:
            raise TypeError(f"{operand} is {safe_repr(one, 60)}; expected a number, a list of numbers or an array.")
        if text is None and (made != np.round(made)).any():
            raise ValueError(f"{operand} is {show(one)}; expected whole numbers.")
        if not np.isfinite(made).all():
            raise ValueError(f"{operand} has entries that are not finite. At such an input nothing can be compared.")
        if made.size > LARGEST:
            raise ValueError(f"{operand} has {made.size} numbers. {LARGEST} are enough for any of these rules.")
        arrays.append(made.astype(int) if text is None else made)
    return tuple(arrays)


def _array(value):
    if value is None or isinstance(value, (str, bytes, bool, complex, Mapping, set)) or callable(value):
        return None
    try:
        made = np.asarray(value.data if isinstance(value, ad.Tensor) else value)
    except Exception:
        return None
    return made.astype(float) if made.dtype.kind in "fiu" else None


def drawn(pool: Sequence[Written], first: Sequence[str], number: int, wrong: Sequence[int]) -> list[Written]:
    """The rules of a round: in round 0 those named in `first` (name and where seen), later a draw from the pool.

    `wrong`: how many wrong ones a later round may have. No function stands in a round twice.
    """
    if number == 0:
        by_name = {f"{rule.name}, {rule.seen}": rule for rule in pool}
        return [by_name[name] for name in first]
    rng = random.Random(number)
    count = wrong[number % len(wrong)]
    while True:
        chosen = rng.sample(list(pool), len(first))
        if len({rule.name for rule in chosen}) == len(chosen) and sum(rule.wrong for rule in chosen) == count:
            return chosen
