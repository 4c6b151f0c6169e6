"""Verdicts of the checks: by the numbers an answer was made from, with its mistakes named, and never by chance."""

import copy
import importlib
import itertools
import textwrap
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import nbformat
import numpy as np
import pytest

from autodiff.course import api, checks_13, forms, judge, prove, record
from autodiff.course.judge import Attempt
from autodiff.course.result import WRONG

ROOT = Path(__file__).resolve().parents[2]
TASKS = api.tasks()


def master_of(number):
    return nbformat.read(next(path for path in prove.masters(ROOT) if path.name.startswith(number)), as_version=4)


def specifications(form):
    """What each task of a form was made from, by its id."""
    kept, made = {}, getattr(forms, form)

    def spy(id, *args, **options):
        kept[id] = options
        return made(id, *args, **options)

    modules = [importlib.import_module(f"autodiff.course.checks_{number}") for number in api._exercises()]
    try:
        setattr(forms, form, spy)
        for module in modules:
            if hasattr(module, form):
                importlib.reload(module)
    finally:
        setattr(forms, form, made)
        for module in modules:
            if hasattr(module, form):
                importlib.reload(module)
        api.tasks.cache_clear()
        TASKS.update(api.tasks())
    return kept


MASTER_17 = master_of("17")
HAND, CODE = specifications("by_hand"), specifications("function")
WORDS_ALONE = {id for id, options in HAND.items() if not options.get("numbers", True)}


def leaves(value):
    if isinstance(value, (tuple, list)) or np.ndim(value) > 0:
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def like(wants, flat):
    """The flat values in the form of the right answers."""
    flat = iter(flat)

    def filled(value):
        if isinstance(value, (tuple, list)):
            return type(value)(map(filled, value))
        return [filled(part) for part in value] if np.ndim(value) > 0 else next(flat)

    return tuple(map(filled, wants))


def judged(id, answers, *numbers, misses=0):
    dealt = [TASKS[id].deal(number) for number in numbers]
    return TASKS[id].judge(Attempt(TASKS[id], tuple(answers), 1, dealt, misses))


def mistakes(id, deal):
    """(fault, the whole row of answers that it makes) for each known mistake."""
    wants = HAND[id]["right"](deal)
    return [(fault, tuple(want if value is None else value for value, want in zip(answer(deal), wants)))
            for fault in TASKS[id].faults for answer in fault.answers]


# New numbers after the right ones were shown


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTODIFF_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(record, "today", lambda: "2026-11-01")
    for kept in (api._misses, api._hints_shown, record._session):
        kept.clear()


@pytest.mark.parametrize("id", sorted(HAND))
def test_27_a_verdict_that_brings_new_numbers_says_them(file, id):
    task = TASKS[id]
    wrong = next(row for _, row in mistakes(id, task.deal(0)) if api.check(id, *row).missed)
    told = api.check(id, *wrong)
    new = task.show(task.deal(1))
    assert told.missed and all(" ".join(line.split()) in " ".join(told.text().split()) for line in new.splitlines())


def test_27_the_first_number_that_differs_is_one_that_is_wrong_for_the_numbers_it_was_made_from(file):
    for _ in range(2):
        told = api.check("01.b", 1, 1, 99, 1, 1, 1, 1)
    x, y = TASKS["01.b"].deal(0)
    assert "expected" in told.table.header and "x = 3, y = 4" in told.text()
    b = x * y + x
    right = (1, 1, 2 * b, 2 * b, 2 * b, (2 * b + 1) * y, (2 * b + 1) * x)  # by hand: a = x y, b = a + x, L = b² + a
    third = api.check("01.b", *right[:5], right[5] + 0.5, right[6])
    assert "first that differs is `share_ax`" in third.text() and not third.missed
    assert "x = 2, y = 3" in third.text() and "x = 3, y = 4" in third.text()
    assert [row[-1] for row in third.table.rows] == ["right"] * 5 + ["differs", "right"]


@pytest.mark.parametrize("id", sorted(HAND))
def test_27_an_answer_is_judged_by_the_numbers_that_it_was_made_from(id):
    """A mistake of the earlier deal is the same one when the new deal has begun, and one of the new deal its own."""
    task, seen = TASKS[id], 0
    for (fault, row), number in itertools.product(mistakes(id, task.deal(0)), (1, 2)):
        alone = judged(id, row, 0)
        later = judged(id, row, *range(number + 1))
        unclear = judged(id, row, number).fits >= alone.fits  # explained as well by the numbers of now
        if alone.status == WRONG and id not in WORDS_ALONE and not unclear:
            assert later.fault == alone.fault and not later.missed, fault.id
            assert " ".join(task.show(task.deal(number)).split("\n")[0].split()) in " ".join(later.text().split())
            seen += 1
    assert seen or id in WORDS_ALONE or id == "01.d"
    for number in (1, 2):
        for fault, row in mistakes(id, task.deal(number)):
            alone, later = judged(id, row, number), judged(id, row, *range(number + 1))
            assert (later.fault, later.body, later.missed) == (alone.fault, alone.body, alone.missed), fault.id


def test_27_an_order_of_the_earlier_graph_is_explained_on_that_graph():
    right, wrong = judged("03.a", ["L b a x y"], 0, 1), judged("03.a", ["L a b x y"], 0, 1)
    assert right.fault == "old-graph" and "R = p * q" in right.text()
    assert wrong.fault == judged("03.a", ["L a b x y"], 0).fault and "R = p * q" in wrong.text()


# What a verdict says


@pytest.mark.parametrize("one, other", [
    (6.0, 6.00000002), (np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-8])), ((1.0, [2.0]), (1.0, [2.0 + 3e-9])),
    (np.arange(30.0), np.arange(30.0) + 1e-9), ("6", 6.0), (None, "None"), ({"x": 1e9}, {"x": 1e9 + 2.0}),
    (np.float64(0.1), 0.1 + 1e-16), (True, "True")])
def test_28_two_values_that_differ_are_shown_apart(one, other):
    told = forms.apart(one, other)
    assert told[0] != told[1] and forms.apart(other, one) == told[::-1]


def test_28_a_difference_below_the_usual_digits_is_shown_by_14_d():
    def twins(x):
        return np.abs(x).sum(), (np.maximum(x, 0) + np.maximum(-x, 0)).sum() + 2e-8

    text = api.check("14.d", twins, seed=1).text()
    assert "the values are 6 and 6.00000002" in text


@pytest.mark.parametrize("id", sorted(HAND))
def test_28_two_known_mistakes_at_once_are_not_unknown(id):
    for number in (0, 1):
        wants = leaves(HAND[id]["right"](TASKS[id].deal(number)))
        for (one, first), (two, second) in itertools.combinations(mistakes(id, TASKS[id].deal(number)), 2):
            rows = leaves(first), leaves(second)
            if one is two or not len(rows[0]) == len(rows[1]) == len(wants) or "-" in (*rows[0], *rows[1]):
                continue
            both = [a if forms.same(b, want) else b for a, b, want in zip(*rows, wants)]
            result = judged(id, like(HAND[id]["right"](TASKS[id].deal(number)), both), number)
            assert result or result.fault, (one.id, two.id)


def test_28_both_of_two_mistakes_are_said():
    s, p, q = (36.0 / 2, -108.0 / 2, -72.0 / 2)  # x = 3, s = 7, p = 2, q = 3: u = 3, and the 2 of the square is missing
    text = " ".join(judged("12.a", ((s / 2, p / 2, q / 2), (s / 2, 0, 0), (s / 2, p / 2, 0)), 0).text().split())
    assert "the 2 of the square is missing" in text and "0 stands where there is no gradient" in text


def combined(one, two, want):
    """What two mistakes make together of a right answer: each in its own entries, their factors where both do."""
    if isinstance(want, (tuple, list)):
        return type(want)(map(combined, one, two, want))
    return np.where(want == 0, one + two, one * two / np.where(want == 0, 1, want))[()]


@pytest.mark.parametrize("id, one, two", [
    ("04.a", "sign", "product-missing"), ("04.d", "losers-too", "upstream-missing"), ("08.a", "without-2", "x2-kept"),
    ("15.a", "one-sided", "integers")])
def test_28_two_mistakes_in_code_are_both_said(id, one, two):
    task, right = TASKS[id], CODE[id]["right"]
    (first, *_), (second, *_) = task.fault(one).answers, task.fault(two).answers

    def answer(*args):
        return combined(*(function(*copy.deepcopy(args)) for function in (first, second, right)))

    for seed in range(3):
        result = api.check(id, answer, seed=seed)
        assert result.fault, result.text()
        assert "There is a second mistake" in result.text() or "of the two is right" in result.text()


SCALED = """
def train(params, batches, lr):
    for k, (x, hot) in enumerate(batches):
        nodes = [Node(p, variable=True) for p in params]
        grads = backward(loss_of(nodes, x, hot))
        params = [p - lr * grads[node] * (1.5 if k == {turn} else 1.0) for p, node in zip(params, nodes)]
    return params
"""


@pytest.mark.parametrize("turn, advice", [(0, "a single batch"), (1, "2 batches"), (2, "3 batches")])
def test_28_the_advice_of_17_h_is_to_train_with_as_many_batches_as_show_the_mistake(turn, advice):
    wrong = prove.WrongAnswer("17.h", "", textwrap.dedent(SCALED).strip().split("\n", 1)[1].format(turn=turn))
    text = prove.diagnosed(MASTER_17, replace(wrong, source=textwrap.dedent(wrong.source)))[0]
    assert f"Train with {advice}" in " ".join(text.split()), text
    assert ("your params are right" in text) == (turn > 0)


@pytest.mark.parametrize("taken", ["pop()", "pop(0)"])
def test_28_a_gradient_that_is_passed_on_too_early_has_a_name_in_17_f(taken):
    wrong = next(w for w in prove.wrong_answers("17") if w.fault == "too-early" and f"waiting.{taken}" in w.source)
    text, problems = prove.diagnosed(MASTER_17, wrong)
    assert problems == [] and "expected 1024" in text  # two ways in each of ten steps


def test_28_a_fresh_array_in_place_of_the_one_in_the_store_is_not_accepted():
    def or_insert(store, t):
        if t not in store or not np.any(store[t]):
            store[t] = np.zeros(t.shape, t.dtype)
        return store[t]

    assert api.check("07.a", or_insert, seed=1).fault == "entry-replaced"
    assert api.check("07.a", lambda store, t: store.setdefault(t, np.zeros(t.shape, t.dtype)), seed=1)


def test_28_the_advice_of_13_b_is_a_case_that_shows_the_mistake():
    assert checks_13._smallest(lambda *c: checks_13._full("sin(w * h)", c[1].data, c[2].data, *c[3:]), (
        "sin(w * h)", np.array(0.5), np.array(1.02), 9, 4)) == (9, 4)  # nothing smaller shows anything

    def uneven(step, h0, w, n, segments):
        right = checks_13._full("sin(w * h)", h0.data, w.data, n, segments)
        return right if n % segments == 0 else (right[0] + 1, right[1])

    assert checks_13._smallest(uneven, ("sin(w * h)", np.array(0.5), np.array(1.02), 9, 4)) == (3, 2)


def test_28_a_hint_belongs_to_the_wording_that_is_asked():
    first, second = (TASKS["18.a"].hint(2, number) for number in (0, 1))
    assert "30 h" in first and "30 h" not in second and "layer" in second and TASKS["18.a"].hint(2, 2) == first
    for number in range(4):
        nodes = TASKS["03.a"].show(TASKS["03.a"].deal(number)).split("\n", 1)[1].split()
        assert TASKS["03.a"].hint(2, number).split()[1] in nodes, "the root of the graph that is dealt"


def test_28_new_inputs_are_told_with_their_table():
    right = HAND["09.c"]["right"](TASKS["09.c"].deal(0))
    text = judged("09.c", right, 0, 1).text()
    assert all(line.strip() in text for line in TASKS["09.c"].show(TASKS["09.c"].deal(1)).splitlines())


# Nothing by chance or by the clock


@pytest.mark.parametrize("seed", [53, 162])
def test_20_a_step_that_is_too_large_is_not_refused_beside_an_inflection(seed, monkeypatch):
    """With these seeds a sine, or a softmax, was asked where its slope does not change, and hid the step."""
    master = master_of("15")
    monkeypatch.setattr(api.secrets, "randbelow", lambda most: seed)
    for wrong in prove.wrong_answers("15"):
        if (wrong.task, wrong.fault) == ("15.c", "step-too-large"):
            assert prove.diagnosed(master, wrong)[1] == []


def test_20_a_right_answer_that_shares_the_machine_is_not_too_slow(monkeypatch):
    """Time that other programs take is no time of the answer: the clock on the wall alone ends nothing that works."""
    wall = time.monotonic
    monkeypatch.setattr(judge, "_wall", lambda: 1000 * wall())
    ran = judge.run(lambda: sum(k * k for k in range(2000)))
    assert ran.ended == "returned" and ran.value == sum(k * k for k in range(2000))


@pytest.mark.parametrize("id, function", [
    ("02.c", "def f(order):\n    if len(order) > 20: spin()\n    return right(order)"),
    ("03.c", "def f(root):\n    spin()"),
    ("04.a", "def f(g, y, a, b):\n    return wait(g, y, a, b)"),
    ("08.b", "def f():\n    spin()"),
])
def test_20_want_of_time_is_never_another_diagnosis(monkeypatch, id, function):
    monkeypatch.setattr(judge, "SECONDS", 0.2)
    calls = []

    def wait(*args):
        """Right at first, and then it waits for ever: the second call of the check decides."""
        calls.append(args)
        g, y, a, b = args
        slope = g * (1 - y * y)
        if len(calls) > 6:
            time.sleep(60)
        return slope * b, slope * a

    def spin():
        any(iter(lambda: time.sleep(0.01), 1))

    def right(order):
        from autodiff.course import checks_02

        return checks_02._backward(order)

    names = dict(spin=spin, wait=wait, right=right, __name__="__main__")
    exec(compile(function, "<cell 1>", "exec"), names)
    result = api.check(id, names["f"], seed=1)
    assert result.status == WRONG and result.fault is None and "was stopped after" in result.text(), result.text()


@pytest.mark.parametrize("clock", [
    "process_time", "perf_counter", "thread_time", "monotonic", "time", "perf_counter_ns", "process_time_ns"])
def test_20_the_verdict_on_a_measurement_hangs_on_no_clock_of_the_machine(clock):
    read, unit = getattr(time, clock), 1e-9 if clock.endswith("_ns") else 1.0

    def source(best):
        return f"""
def measure(work):
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    times = []
    for _ in range(3):
        begin = read()
        busy()
        work()
        times.append((read() - begin) * unit)
    return peak, {best}(times)
"""

    def busy():  # as if another program had the processor meanwhile
        time.sleep(0.03)

    for best, fault in (("min", None), ("max", "not-best"), ("sum", "summed")):
        names = dict(tracemalloc=tracemalloc, read=read, unit=unit, busy=busy)
        exec(source(best), names)
        assert api.check("13.c", names["measure"]).fault == fault
    assert names["read"] is read and importlib.import_module("time") is time


def test_20_copies_are_seen_while_somebody_watches_the_memory_already():
    wrong, master = next(w for w in prove.wrong_answers("13") if w.fault == "copies-kept"), master_of("13")
    tracemalloc.start()
    try:
        kept = [bytes(10_000_000)]
        del kept
        assert prove.diagnosed(master, wrong)[1] == []
    finally:
        tracemalloc.stop()


def test_20_a_measurement_is_judged_as_in_a_fresh_kernel_where_somebody_watches_the_memory_already():
    right = prove.answers(master_of("13"))["13.c"]
    tracemalloc.start()
    try:
        kept = [bytes(10_000_000)]
        del kept
        assert api.check("13.c", *right) and tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
    assert api.check("13.c", *right) and not tracemalloc.is_tracing()


def test_20_right_rounded_times_are_right():
    clock = checks_13._Clock()
    work = checks_13._Work(clock, 1, 80)
    for _ in range(4):
        work()
    assert [work.made_of(s) for s in (0.01, 0.0100004, 0.03, 0.1, 0.025)] == [
        "best", "best", "not-best", "summed", "averaged"]
