"""The forms of tasks: the right answer passes, a fault is named only when every input agrees, the rest is shown."""

import contextlib
import time

import numpy as np
import pytest

import autodiff as ad
from autodiff.course import api, checks_13, forms, judge, prove
from autodiff.course.forms import CHANGED_INPUT, KEPT, NO_RETURN, Asked, Case, by_hand, function, question
from autodiff.course.judge import Attempt, Fault
from autodiff.course.result import NOT_STARTED, PASSED, UNFINISHED, WRONG

HINTS = ("a", "b", "c")


def fault(id, *answers, why="because"):
    return Fault(id, f"title of {id}", why, "look", answers)


def judged(task, *answers, seed=1, round=0, misses=0):
    dealt = [task.deal(k) for k in range(round + 1)] if task.deal else []
    return task.judge(Attempt(task, answers, seed, dealt, misses))


def words(result):
    return " ".join(result.text().split())


# What counts as the same


@pytest.mark.parametrize("answer, want", [
    (2, 2.0), (np.float32(2), 2.0), ([1, 2], np.array([1.0, 2.0])), ((1, 2), [1, 2]), ("Absent ", "absent"),
    (None, None), (np.True_, True), ({"x": [1, 2]}, {"x": np.array([1, 2])}),
    (([1, 2], "a"), (np.array([1.0, 2.0]), "A")), (float("nan"), float("nan")),
])
def test_same(answer, want):
    assert forms.same(answer, want)


@pytest.mark.parametrize("answer, want", [
    (2.1, 2.0), ([1, 2], [1, 2, 3]), ([[1, 2]], [1, 2]), (True, 1.0), ("1", 1.0), (1.0, "1"), (0.0, None), (None, 0.0),
    ({"x": 1}, {"x": 1, "y": 2}), ((1, "b"), (1, "a")), (object(), 1.0), (float("nan"), 1.0), (1, True),
])
def test_not_same(answer, want):
    assert not forms.same(answer, want)


# By hand


@pytest.fixture
def hand():
    return by_hand("99.a", "t", ("p", "q"), deal=lambda k: (3.0 + k, 5.0 + k),
                   given=lambda d: f"a = {d[0]:g}, b = {d[1]:g}.", right=lambda d: (d[0] * d[1], d[0] + d[1]),
                   faults=[fault("no-product", lambda d: (d[0] + d[1], None), why="{p} is the sum; {want_p} is right")],
                   hints=HINTS, good="good", how=lambda d: ("a times b", "a plus b"))


def test_by_hand_tells_right_unfinished_and_untouched_apart(hand):
    assert judged(hand, 15, 8).status == PASSED
    assert judged(hand, ..., ...).status == NOT_STARTED
    assert judged(hand, 15, ...).status == UNFINISHED and "`q`" in judged(hand, 15, ...).text()


def test_by_hand_names_the_fault_and_hides_the_target_at_first(hand):
    result = judged(hand, 8, 8)
    assert result.fault == "no-product" and result.missed and "8 is the sum; another value is right" in result.text()
    assert "expected" not in result.table.header and "15" not in result.text()
    result = judged(hand, 8, 8, misses=1)
    assert "8 is the sum; 15 is right" in result.text() and "expected" in result.table.header


def test_by_hand_says_how_when_nothing_fits(hand):
    result = judged(hand, 15, 9)
    assert result.status == WRONG and result.fault is None and "a plus b" in result.text()


def test_by_hand_knows_the_answers_of_an_earlier_day(hand):
    assert judged(hand, 24, 10, round=1).status == PASSED
    result = judged(hand, 15, 8, round=1, misses=3)
    assert result.fault == "old-numbers" and not result.missed and "expected" not in result.table.header


def test_a_wrong_word_that_was_right_before_gets_its_own_diagnosis():
    cut = fault("other-end", lambda d: ("left" if d == "right" else "right",))
    task = by_hand("99.w", "t", ("end",), deal=lambda k: ("left", "right")[k % 2], given=lambda d: "Which end?",
                   right=lambda d: (d,), faults=[cut], hints=HINTS, good="good", words=("left", "right", "both"),
                   numbers=False)  # fmt: skip
    assert judged(task, "left", round=1).fault == "other-end"
    assert judged(task, "both", round=1).fault is None and judged(task, "right", round=1)


def test_by_hand_does_not_ask_for_a_sum_once_more_whose_target_is_shown(hand):
    assert "once more" in judged(hand, 15, 9).text() and "once more" not in judged(hand, 15, 9, misses=1).text()


def test_by_hand_shows_new_inputs_with_their_table():
    task = by_hand("99.a", "t", ("p",), deal=lambda k: k, given=lambda d: f"k = {d}.\n    a table",
                   right=lambda d: (d,), faults=[], hints=HINTS, good="good")
    result = judged(task, 0, round=1)
    assert "The inputs now: 99.a: k = 1." in words(result) and "\n\n    a table\n" in result.text()


def test_by_hand_says_which_form_is_wanted(hand):
    result = judged(hand, "fifteen", 8)
    assert "expected a number" in result.text() and not result.missed


@pytest.fixture
def hand_with_words():
    return by_hand("99.a", "t", ("p", "q"), deal=lambda k: 3.0 + k, given=lambda d: f"a = {d:g}.",
                   right=lambda d: ((d, "error"), d), faults=[fault("adds", lambda d: ((d, 2 * d), None))],
                   hints=HINTS, good="good", words=("error",))


def test_by_hand_takes_a_word_for_any_number_and_does_not_say_where_it_is_right(hand_with_words):
    assert judged(hand_with_words, (3, "Error"), 3).status == PASSED
    assert judged(hand_with_words, [3, 6], "error").fault == "adds"
    for answer in ((3, None), (3, "none"), (3,), 3, "error"):
        assert 'expected 2 answers in brackets, each a number or "error"' in words(judged(hand_with_words, answer, 3))
    assert 'expected a number or "error"' in words(judged(hand_with_words, (3, 6), "none"))


def test_by_hand_may_take_words_alone():
    task = by_hand("99.a", "t", ("p",), deal=lambda k: k, given=str, right=lambda d: ("up",), faults=[], hints=HINTS,
                   good="good", words=("up", "down"), numbers=False)
    assert judged(task, "Up").status == PASSED and judged(task, "down").fault is None
    for answer in (3, "left"):
        assert f'`p` is {answer!r}; expected "up" or "down".' in words(judged(task, answer))


# Questions


def test_question_follows_the_wording_that_is_dealt():
    asked = [Asked("Why?", {"a": "yes", "b": "no", "c": "may be"}, "a"),
             Asked("How?", {"a": "no", "b": "yes", "c": "x"}, "b")]
    task = question("99.a", "t", asked, faults=[fault("mixed-up", "b", "a")], hints=HINTS, good="because it adds")
    assert judged(task, "a").status == PASSED and judged(task, " B ", round=1).status == PASSED
    assert judged(task, "b").fault == "mixed-up" and judged(task, "a", round=1).fault == "mixed-up"
    assert judged(task, "c").status == WRONG and judged(task, "c").fault is None
    assert 'expected one of "a", "b", "c"' in judged(task, "z").text() and judged(task, ...).status == NOT_STARTED
    assert "b  no" in task.show(0) and "b  yes" in task.show(1)


def test_question_takes_a_letter_as_people_write_it_and_knows_the_one_of_an_earlier_day():
    asked = [Asked("Why?", {"a": "yes", "b": "no"}, "a"), Asked("How?", {"a": "no", "b": "yes"}, "b")]
    task = question("99.a", "t", asked, faults=[fault("mixed-up", "b", "a")], hints=HINTS, good="g", name="choice_a")
    for answer in ("(A)", "a.", "'a'", "a: yes", "a  ye", "Yes"):
        assert judged(task, answer).status == PASSED
    for answer in ("a b", "a no", "b yes", "", "ye", None, ["a"]):
        assert "expected one of" in judged(task, answer).text()
    assert judged(task, "b no").fault == "mixed-up"
    assert "`choice_a` is 1" in judged(task, 1).text()
    assert "right on an earlier day or in an earlier wording" in words(judged(task, "a", round=1))
    assert "right on an earlier day or in an earlier wording" not in words(judged(task, "b"))


def test_a_question_says_at_the_second_wrong_letter_what_the_next_one_counts_for():
    once = [Asked("Why?", {"a": "yes", "b": "no", "c": "may be"}, "a")]
    for asked, more in ((once, False), (once * 2, True)):
        task = question("99.a", "t", asked, faults=[fault("no", *"b" * len(asked))], hints=HINTS, good="g")
        assert [judged(task, letter).missed for letter in "abcz"] == [False, True, True, False]
        assert "counts as done with help" in task.missed and ("other words" in task.missed) == more


# Functions


def doubled(**more):
    return function("99.a", "t", "double", "x", cases=lambda rng: [Case((np.array([1.0, rng.random()]),), "small"),
                                                                   Case((np.array([rng.random(), -3.0]),), "large")],
                    right=lambda x: 2 * x, hints=HINTS, good="good",
                    faults=[fault("squared", lambda x: x * x, why="{call} gave {got}, not {want}"), CHANGED_INPUT,
                            NO_RETURN, KEPT, fault("wrong-shape", lambda x: x @ np.ones(3))], **more)


def test_function_passes_names_and_shows():
    assert judged(doubled(), lambda x: x + x).status == PASSED
    assert judged(doubled(), lambda x: x**2).fault == "squared"
    result = judged(doubled(), lambda x: x * [2, 3])
    assert result.fault is None and "They part first at index 1" in result.text() and "differs" in result.table.text()
    assert judged(doubled(), lambda x: x[:1] * 2).text().count("The shape is (1,); expected (2,).") == 1
    assert "(small) left [" in words(judged(doubled(did="left"), lambda x: x + 1))


def test_function_tells_a_wrong_entry_from_a_wrong_form():
    task = function("99.a", "t", "pair", "x", cases=lambda rng: [Case((4.0,))], right=lambda x: [x, 2 * x], faults=[],
                    hints=HINTS, good="good", expects="a list of two numbers")
    text = words(judged(task, lambda x: {0: x, 1: 2 * x}))
    assert "Expected a list of two numbers" in text and "Look at the form of what you return" in text
    assert "Expected a list" not in words(judged(task, lambda x: [x, None]))


def test_function_names_a_fault_by_the_error_it_raises():
    assert judged(doubled(), lambda x: x @ np.ones(3)).fault == "wrong-shape"
    assert judged(doubled(), lambda x: x @ np.ones(4)).fault is None


def halves(*faults):
    return function("99.a", "t", "pair", "x", cases=lambda rng: [Case((3.0,)), Case((5.0,)), Case((0.0,))],
                    right=lambda x: (10 * x, 20 * x), hints=HINTS, good="good", faults=faults)


def test_function_names_a_fault_that_is_in_one_slot_of_a_pair_and_says_which_slot_is_right():
    squared = fault("squared", lambda x: (x * x, 2 * x * x))
    for answer, right in ((lambda x: (10 * x, 2 * x * x), "first"), (lambda x: (x * x, 20 * x), "second")):
        result = judged(halves(squared), answer)
        assert result.fault == "squared" and f"The {right} of the two is right." in words(result)
    result = judged(halves(squared), lambda x: (x * x, 2 * x * x))
    assert result.fault == "squared" and "of the two is right" not in words(result)


def test_function_names_no_fault_that_is_in_another_slot_in_each_case_or_beside_a_second_mistake():
    squared = fault("squared", lambda x: (x * x, 2 * x * x))
    assert judged(halves(squared), lambda x: (x * x, 20 * x) if x < 4 else (10 * x, 2 * x * x)).fault is None
    assert judged(halves(squared), lambda x: (10 * x, 2 * x * x + 1)).fault is None
    assert judged(halves(fault("one", lambda x: x * x)), lambda x: (10 * x, x * x)).fault is None
    assert judged(halves(squared), lambda x: [10 * x, 2 * x * x, 1]).fault is None


def test_function_prefers_the_fault_that_explains_both_slots_of_a_pair():
    first, both = fault("first", lambda x: (-x, 7 * x)), fault("both", lambda x: (10 * x, 7 * x))
    assert judged(halves(first, both), lambda x: (10 * x, 7 * x)).fault == "both"


def test_function_names_an_error_in_one_slot_of_a_pair():
    task = function("99.a", "t", "pair", "a", cases=lambda rng: [Case((np.eye(2) + 1,)), Case((np.ones((2, 3)),))],
                    right=lambda a: (a @ a.T, a.T @ a), hints=HINTS, good="good",
                    faults=[fault("plain", lambda a: (3 * a.T @ a, a @ a + 1))])
    result = judged(task, lambda a: (a @ a.T, a @ a + 1))
    assert result.fault == "plain" and "raised ValueError" in result.text()
    assert judged(task, lambda a: (a @ a.T, a @ a + 2)).fault is None


def test_function_names_a_fault_by_an_error_that_differs_in_an_id_alone():
    numbers = iter(range(9, 99))

    def stale(x):
        raise ValueError(f"Var (id {next(numbers)}) of shape (2,)")

    task = function("99.a", "t", "f", "x", cases=lambda rng: [Case((1.0,))], right=lambda x: x, hints=HINTS,
                    good="good", faults=[fault("stale", stale)])
    assert judged(task, stale).fault == "stale"


def test_function_whose_fault_returns_none_is_told_from_one_without_a_return():
    task = function("99.a", "t", "half", "x", cases=lambda rng: [Case((4.0,)), Case((5.0,))], right=lambda x: x / 2,
                    faults=[fault("even-only", lambda x: x / 2 if x % 2 == 0 else None), NO_RETURN], hints=HINTS,
                    good="good")
    assert judged(task, lambda x: {4.0: 2.0}.get(x)).fault == "even-only"
    assert judged(task, lambda x: None).fault == "no-return"


def test_function_names_a_fault_by_its_error_only_when_the_cases_before_agree():
    task = function("99.a", "t", "dot", "a, b", cases=lambda rng: [Case((np.array([[1.0, 2], [3, 4]]),) * 2),
                                                                   Case((np.ones((2, 3)), np.ones((3, 4))))],
                    right=lambda a, b: a @ b, hints=HINTS, good="good", faults=[fault("left", lambda a, b: a.T @ b)])
    assert judged(task, lambda a, b: a.T @ b).fault == "left"
    assert judged(task, lambda a, b: 2 * a.T @ b).fault is None


def test_an_error_of_the_engine_is_shown_at_the_learners_line():
    text = judged(doubled(), lambda x: ad.Var([1, 2]) * x).text()
    assert "raised TypeError" in text and "line" in text and "lambda x: ad.Var([1, 2]) * x" in text


def test_a_call_that_stops_or_gives_nothing_is_shown_with_its_case():
    assert "`<lambda>([1, " in words(judged(doubled(), lambda x: 1 / 0))
    assert ")` (small) raised ZeroDivisionError" in words(judged(doubled(), lambda x: 1 / 0))
    task = function("99.a", "t", "f", "x", cases=lambda rng: [Case((1.0,), "one")], right=lambda x: x, faults=[],
                    hints=HINTS, good="good")
    assert "`<lambda>(1)` (one) returned None" in words(judged(task, lambda x: None))


def test_what_differs_is_in_the_table_when_both_sides_are_long():
    task = function("99.a", "t", "f", "x", cases=lambda rng: [Case((1.0,)), Case((2.0,))], hints=HINTS, good="good",
                    right=lambda x: {"value": 12345.0, "gradient of w1": [1, 2, 3, 4, 5], "w2": x}, faults=[])

    def nearly(x):
        return {"value": 12345.0, "gradient of w1": [1, 2, 3, 4, 5], "w2": 1.0}

    right, wrong = judged(task, nearly).table.rows
    assert wrong[1:3] == ("... w2: 2}", "... w2: 1}") and right[1] == right[2]


def test_function_shows_the_call_as_one_writes_it():
    task = function("99.a", "t", "f", "kind, x", cases=lambda rng: [Case(("max", [1.0, 2.0]))], right=lambda kind, x: x,
                    hints=HINTS, good="good", faults=[])
    assert '("max", [1, 2])` returned 3' in words(judged(task, lambda kind, x: 3))


def test_function_that_returns_nothing_writes_into_its_input_or_remembers():
    def nothing(x):
        x * 2

    def writes(x):
        x *= 2
        return x

    kept = []

    def remembers(x):
        kept.append(1)
        return 2 * x + (len(kept) > 2)

    assert judged(doubled(), nothing).fault == "no-return"
    assert judged(doubled(), writes).fault == "changed-input"
    assert "before it was [1, " in words(judged(doubled(), writes))
    assert judged(doubled(), remembers).fault == "kept-between-calls"


def test_function_may_not_special_case_the_inputs():
    seen = {}
    judged(doubled(), lambda x: seen.setdefault(1, x) * 2, seed=1)
    judged(doubled(), lambda x: seen.setdefault(2, x) * 2, seed=2)
    judged(doubled(), lambda x: seen.setdefault(3, x) * 2, seed=2)
    assert not np.array_equal(seen[1], seen[2]) and np.array_equal(seen[2], seen[3])


def test_function_gets_arguments_of_its_own_from_a_maker():
    task = function("99.a", "t", "first", "xs", cases=lambda rng: [Case(lambda: ([1, 2],))], right=lambda xs: xs[0],
                    faults=[], hints=HINTS, good="good")
    assert judged(task, lambda xs: xs.pop(0)).status == WRONG  # it changed the list
    assert judged(task, lambda xs: xs[0]).status == PASSED


def test_a_gradient_that_is_not_there_comes_with_advice():
    text = words(judged(doubled(), lambda x: ad.GradStore()[ad.Var(1.0, name="w")]))
    assert "raised MissingGradientError: no gradient for Var 'w'" in text
    assert "`tensor in grads` asks without an error" in text
    assert ".. " not in text


# Tests judged by planted faults


def right_op(x):
    return 2 * x


def half_op(x):
    return x / 2


def kink_op(x):
    return 2 * x if abs(x) < 10 else x


class Undecided:
    def __bool__(self):
        raise ValueError("neither true nor false")


@pytest.fixture
def audit():
    faults = [fault("half", half_op), fault("scale", kink_op), fault("accepts-all"), fault("refuses-all")]
    return forms.tests("99.a", "t", "audit", "op", right={"right_op": right_op}, faults=faults, hints=HINTS,
                       good="good")


def test_tests_are_judged_by_what_they_accept(audit):
    def good(op):
        assert op(1.0) == 2
        return op(100.0) == 200

    assert judged(audit, good).status == PASSED
    assert judged(audit, lambda op: op(1.0) == 2).fault == "scale"
    assert judged(audit, lambda op: True).fault == "accepts-all"
    silent = judged(audit, lambda op: print(op(1.0) == 2))
    assert silent.fault == "accepts-all" and "returned None each time" in silent.text() and "True" in silent.text()
    assert "returned None" not in judged(audit, lambda op: True).text()
    assert judged(audit, lambda op: False).fault == "refuses-all"
    result = judged(audit, lambda op: op(100.0) == 100)
    assert result.fault is None and "refuse `right_op`, which is right" in result.text()
    assert "expected True or False" in judged(audit, lambda op: "yes").text()
    assert "expected True or False" in words(judged(audit, lambda op: Undecided()))


def test_tests_may_get_a_fresh_thing_without_a_name():
    seen = []

    def fresh(op, rng):
        factor = rng.choice([1.0, 2.0])
        return lambda x: seen.append(factor) or op(x * factor) / factor

    task = forms.tests("99.a", "t", "audit", "op", right={"right_op": right_op, "half_op": half_op}, what="setup",
                       faults=[fault("wrong", kink_op), fault("accepts-all"), fault("too-strict", why="{name}")],
                       hints=HINTS, good="good", fresh=fresh, refusals={"half_op": "too-strict"})
    result = judged(task, lambda op: op(1.0) == 2.0)
    assert result.fault == "too-strict" and result.table.header[0] == "setup" and len(seen) == 3
    assert "refuse `half_op`, which is right" in result.text()
    assert judged(task, lambda op: op(100.0) != 100.0).status == PASSED
    assert judged(task, lambda op: "kink" not in op.__name__).fault == "accepts-all"


def test_tests_may_get_several_arguments_in_an_order_that_cannot_be_counted():
    seen = []

    def fresh(op, rng):
        return op, rng.randrange(1, 100)

    task = forms.tests("99.a", "t", "audit", "op, at", right={"right_op": right_op},
                       faults=[fault("half", half_op), fault("accepts-all")], hints=HINTS, good="good", fresh=fresh)
    assert judged(task, lambda op, at: op(at) == 2 * at).status == PASSED
    assert judged(task, lambda op: True).status == WRONG
    for seed in range(20):
        judged(task, lambda op, at: seen.append(op.__name__), seed=seed)
    assert {"right_op", "half_op"} == set(seen[::2]) == set(seen[1::2])


# Limits


def test_a_call_that_blocks_in_c_is_ended(monkeypatch):
    monkeypatch.setattr(judge, "SECONDS", 0.5)
    begin = time.monotonic()
    result = judge.run(lambda: time.sleep(30))
    assert result.ended == "time" and time.monotonic() - begin < 10


def test_a_call_that_asks_for_too_much_memory_is_ended():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    result = judge.run(lambda: [0] * (10**10))
    assert result.ended == "memory" and "too much" not in result.printed
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    text = judged(doubled(), lambda x: [0] * (10**10)).text()
    assert "more than 1 GB of memory" in text


def hoards(x=0):
    kept = []
    while True:
        kept.append([0] * 500_000)


def limited(folder, version, limit, own="/"):
    """The files of a control group, and the file that names it."""
    line, name = {1: (f"4:cpu,memory:{own}", "memory/memory.limit_in_bytes"), 2: (f"0::{own}", "memory.max")}[version]
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(f"{limit}\n")
    (folder / "cgroup").write_text(f"7:pids:/x\n{line}\n")


@pytest.mark.parametrize("version, limit, own, allowed", [
    (2, 300_000_000, "/", 100_000_000), (1, 300_000_000, "/", 100_000_000), (2, "max", "/", 2**30),
    (1, 2**63 - 4096, "/", 2**30), (2, 300_000_000, "/outside/of the container", 100_000_000)])
def test_a_call_may_take_a_third_of_what_a_control_group_leaves_to_the_kernel(tmp_path, monkeypatch, version, limit,
                                                                              own, allowed):
    limited(tmp_path, version, limit, own)
    monkeypatch.setattr(judge, "_GROUPS", str(tmp_path))
    monkeypatch.setattr(judge, "_OWN_GROUPS", str(tmp_path / "cgroup"))
    assert judge._allowance() == allowed


def test_the_smallest_of_several_control_groups_counts(tmp_path, monkeypatch):
    limited(tmp_path, 2, 900_000_000, "/user/anna")
    for group, limit in (("user", 300_000_000), ("user/anna", 600_000_000)):
        (tmp_path / group).mkdir()
        (tmp_path / group / "memory.max").write_text(str(limit))
    monkeypatch.setattr(judge, "_GROUPS", str(tmp_path))
    monkeypatch.setattr(judge, "_OWN_GROUPS", str(tmp_path / "cgroup"))
    assert judge._allowance() == 100_000_000
    monkeypatch.setattr(judge, "_OWN_GROUPS", str(tmp_path / "none"))
    assert judge._allowance() == judge.MEMORY


def test_a_loop_that_fills_a_small_kernel_is_ended_before_the_kernel(tmp_path, monkeypatch):
    pytest.importorskip("resource")
    limited(tmp_path, 2, 300_000_000)
    monkeypatch.setattr(judge, "_GROUPS", str(tmp_path))
    monkeypatch.setattr(judge, "_OWN_GROUPS", str(tmp_path / "cgroup"))
    before = judge._most_memory()
    text = words(judged(doubled(), hoards))
    assert "more than 0.093 GB of memory" in text and "of the cell" in text
    assert judge._most_memory() - before < 200_000_000


def test_a_loop_that_fills_the_memory_is_ended_where_the_system_sets_no_limit(monkeypatch):
    pytest.importorskip("resource")
    monkeypatch.setattr(judge, "MEMORY", 200_000_000, raising=False)
    monkeypatch.setattr(judge, "_memory_limit", lambda *allowance: contextlib.nullcontext())
    monkeypatch.setattr(judge, "SECONDS", 2)
    result = judge.run(hoards)
    assert result.ended == "memory" and "of the cell" in result.where


def test_what_the_process_has_in_memory_is_told_in_bytes():
    pytest.importorskip("resource")
    assert 20_000_000 < judge._most_memory() < 20_000_000_000


def test_an_endless_loop_is_ended():
    def endless(x):
        while True:
            pass

    assert "it might never have ended" in words(judged(doubled(), endless))


def test_lines_and_calls_of_the_engine_do_not_count_and_lines_called_from_it_do():
    def many(op):
        return [ad.gradcheck(op, np.ones(3)) for _ in range(20)]

    def endless(x):
        while True:
            pass

    assert judge.run(many, np.sin, lines=1_000).ended == "returned"
    assert judge.run(many, endless, lines=1_000).ended == "lines"


def test_a_call_that_is_stopped_in_the_engine_is_not_told_to_look_for_an_endless_loop(monkeypatch):
    monkeypatch.setattr(judge, "SECONDS", 0.3)

    def thorough(x):
        return list(map(ad.gradcheck, [np.sin] * 10_000, [np.ones(200)] * 10_000))  # no line of its own between two

    text = words(judged(doubled(), thorough))
    assert "was stopped after 0.3 s, inside of `gradcheck`" in text and "Fewer will do" in text and "loop" not in text


def test_a_call_with_wrong_arguments_is_blamed_on_the_line_that_makes_it():
    outer = words(judged(doubled(), lambda: 1))
    inner = words(judged(doubled(), lambda x: np.expand_dims(x)))
    misspelt = words(judged(doubled(), lambda x: np.sum(x, dims=0)))
    assert "Compare the arguments of your function" in outer
    assert "Compare the arguments" not in inner and "Look at the call in the line shown" in inner
    assert "the function has no argument of this name" in misspelt


@pytest.mark.parametrize("answer", [divmod, str.upper])
def test_an_error_that_came_from_no_line_of_the_learner_points_to_none(answer):
    text = words(judged(doubled(), answer))
    assert "raised TypeError" in text and "line shown" not in text and "the function that you wrote" in text


def test_an_error_of_the_engine_is_shown_to_its_last_word_and_an_endless_one_to_a_whole_word():
    text = words(judged(doubled(), lambda x: float(ad.Var(2.0) * x)))
    assert ".detach() a constant Tensor" in text

    def endless(x):
        raise ValueError("many words " * 100)

    assert "many words [...]" in words(judged(doubled(), endless))


def test_code_that_a_library_makes_is_not_the_learners():
    def stops(x):
        return Case()  # a dataclass: its __init__ has no file

    assert "return Case()" in words(judged(doubled(), stops))


# Exercise 13: nothing may hang on how busy a computer is


@pytest.mark.parametrize("seconds, made_of", [
    (0.0101, "best"), (0.0107, "best"), (0.071, "summed"), (0.0235, "averaged"), (0.0301, "not-best")])
def test_the_best_time_is_told_from_a_sum_a_mean_and_another_run(seconds, made_of):
    work = checks_13._Work(checks_13._Clock(), 1, 8)
    for _ in range(3):
        work()
    assert work.alone == [0.03, 0.01, 0.03] and work.made_of(seconds) == made_of


REPORT = """
def report(step, h, w, n, segments):
    def whole():
        y = h
        for _ in range(n):
            y = step(y, w)
        return y.sum(){}

    stored, parts = measure(whole), measure(lambda: segmented(step, h, w, n, segments))
    return stored, parts, stored[0] / parts[0], parts[1] / stored[1]
"""


def test_a_report_is_judged_by_what_ran_and_not_by_a_clock():
    for end, fault_id in (".backward()", None), ("", "no-backward"):
        names = {}
        exec(REPORT.format(end), names)
        result = judged(checks_13._TASK_D, names["report"])
        assert (result.status, result.fault) == (WRONG if fault_id else PASSED, fault_id)
        assert not {"measure", "segmented"} & set(names), "what the check brings goes with it"


# What every task has


@pytest.mark.parametrize("task", api.tasks())
def test_a_task_has_at_least_four_known_wrong_answers(task):
    """Different ones: test_exercises.py puts each in place of the solution, and looks at what it is told."""
    assert len({wrong.source for wrong in prove.wrong_answers(task[:2]) if wrong.task == task}) >= 4
