"""The checks, hints and progress of the exercises: what they say, what they survive, what they remember."""

import functools
import itertools
import json
import linecache
import math
import os
import random
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

import nbformat
import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from autodiff.course import api, checks_02, checks_03, evidence, graphs, judge, prove, record, result
from autodiff.course import check, export_progress, given, hint, import_progress, mark, progress
from autodiff.course.graphs import Node, add, chain, doublings, leaf, mul, neg, users_first
from autodiff.course.result import BROKEN, NOT_STARTED, PASSED, UNFINISHED, WRONG, Page, Result, Table

ROOT = Path(__file__).resolve().parent.parent
TASKS = api.tasks()
HAND = [t.id for t in TASKS.values() if t.deal]
CODE = [t.id for t in TASKS.values() if not t.deal]
LINES = 20_000  # enough for an answer, and soon over for an endless one


def words(page):
    return " ".join(page.text().split())


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A progress file of its own."""
    path = tmp_path / "progress.json"
    monkeypatch.setenv("AUTODIFF_PROGRESS", str(path))
    record._session.clear()
    api._misses.clear()
    return path


@pytest.fixture
def day(monkeypatch):
    """A calendar to turn: day(3) makes it the third of the month."""
    def set_day(number):
        monkeypatch.setattr(record, "today", lambda: f"2026-11-{number:02}")

    set_day(1)
    return set_day


def mul_backward(node, g):
    a, b = node.inputs
    return [(b, g * a.value), (a, g * b.value)]


def backward(order):
    grads = dict.fromkeys(order, 0.0)
    grads[order[0]] = 1
    for node in order:
        for target, share in graphs.shares(node, grads[node]):
            grads[target] += share
    return grads


def topological(root):
    """Another right answer than the master's: counting users."""
    users, stack = {root: 0}, [root]
    while stack:
        for n in stack.pop().inputs:
            if n not in users:
                users[n] = 0
                stack.append(n)
            users[n] += 1
    order, ready = [], [root]
    while ready:
        order.append(ready.pop())
        for n in order[-1].inputs:
            users[n] -= 1
            if not users[n]:
                ready.append(n)
    return order


def is_order(root, order):
    return (len(set(order)) == len(order) and set(order) == set(topological(root))
            and all(order.index(n) > i for i, user in enumerate(order) for n in user.inputs))


class Right(dict):
    """The right answers by task; a master is run when one of its tasks is asked for."""

    def __missing__(self, task):
        (master,) = (ROOT / "solutions").glob(f"{task[:2]}_*.ipynb")
        self.update({t: a for t, a in prove.answers(nbformat.read(master, as_version=4)).items() if t not in self})
        return self[task]


RIGHT = Right({"02.a": (-12, -12.0, -24), "02.b": (mul_backward,), "02.c": (backward,),
               "03.a": ("L, b a y x",), "03.b": (is_order,), "03.c": (topological,)})  # fmt: skip


# Right answers


@pytest.mark.parametrize("task", TASKS)
def test_a_right_answer_passes_with_the_same_output_for_every_seed(task):
    shown = set()
    for seed in (None, 3):  # test_seeds.py has the smaller ones
        outcome = check(task, *RIGHT[task], seed=seed)
        assert outcome and outcome.status == PASSED and outcome.fault is None, outcome
        shown.add((outcome.text(), outcome.html()))
    assert len(shown) == 1


@pytest.mark.parametrize("value", [(-12, -12, -24), "numpy"])
def test_numbers_of_several_types_are_numbers(value):
    if value == "numpy":
        np = pytest.importorskip("numpy")
        value = np.float32(-12), np.array(-12.0), np.array([-24])
    assert check("02.a", *value)


def test_a_right_answer_may_have_another_form():
    assert check("02.b", lambda node, g: tuple(tuple(pair) for pair in mul_backward(node, g)))
    assert check("03.c", lambda root: tuple(topological(root)))
    assert check("03.c", lambda root: reversed(topological(root)[::-1]))
    assert check("03.c", lambda root: (node for node in topological(root)))
    assert check("03.a", ["L", "b", "a", "x", "y"]) and check("03.a", ("L", "b", "a", "y", "x"))
    assert check("03.a", "L -> b -> a -> x -> y") and check("03.a", "l;b;a;x;y") and check("03.a", "Lbaxy")
    assert check("03.c", lambda root: deque(topological(root)))
    assert check("03.c", lambda root: np.array(topological(root), dtype=object))
    assert check("02.b", lambda node, g: np.array(mul_backward(node, g), dtype=object))


# Answers not begun


def not_begun():
    raise NotImplementedError


@pytest.mark.parametrize("task", TASKS)
def test_an_untouched_answer_is_not_started(task):
    names = TASKS[task].wants
    answers = [(...,) * len(names)]
    if callable(RIGHT[task][0]) and not isinstance(RIGHT[task][0], type):
        answers += [(lambda *args: not_begun(),), (lambda *args: ...,)]
    for answer in answers:
        outcome = check(task, *answer)
        assert not outcome and outcome.status == NOT_STARTED and outcome.fault is None
        assert "not started yet" in outcome.text()


def test_one_number_left_open_is_named():
    outcome = check("02.a", -12, ..., ...)
    assert outcome.status == UNFINISHED and "`slot_2` and `total`: still three dots" in outcome.text()
    assert "-12" not in outcome.text(), "the target is not given away before there is an answer"


def test_the_target_of_a_sum_by_hand_is_shown_at_the_second_miss(file, day):
    first, _, second = check("02.a", -3, -3, -6), check("02.a", -12, ..., ...), check("02.a", -3, -3, -6)
    assert "expected" not in first.table.header and "expected" in second.table.header
    assert entries(file)["02.a"]["tries"] == 2, "an answer that is not finished is no try"
    assert "your code" not in check("02.a", 1, 2, 4).text()


def each_alone_in_an_array(c, x, losses):
    found = []
    for loss in losses:
        c.clear()
        c.backward(loss())
        found.append(c.grad(x))
    return np.array(found, dtype=object)


def zeros_through_a_view(store, t):
    if t not in store:
        store[t] = np.full(t.shape, 0, t.dtype)
    return store[t][...]


def fixed_in_numbers(setup):
    for _ in range(2):  # new models each time
        loss, student, teacher = setup()
        grads = loss.backward()
        if not all(w in grads for w in student) or any(w in grads for w in teacher):
            return 0
    return 1


@pytest.mark.parametrize("id, answers", [
    ("09.a", (237, 34, 3, 237, 30, None, 237, 308, 186)), ("09.a", (237, 34, 3, 237, 30, "None", 237, 308, 186)),
    ("12.a", ((18, -54, -36), [18, "absent", None], (18, -54, "None"))),
    ("05.b", (each_alone_in_an_array,)), ("07.a", (zeros_through_a_view,)), ("12.c", (fixed_in_numbers,))])
def test_an_answer_that_says_the_same_in_another_way_passes(id, answers):
    assert check(id, *answers)


def test_calls_with_missing_arguments_say_what_is_missing(capsys):
    assert 'for example `hint("02.a")`' in hint().text() and 'for example `mark("02"' in mark().text()
    assert "Say how it went" in mark("02.a").text() and "Call check(" in check().text()
    assert given() is None and 'for example given("02.a")' in capsys.readouterr().out


# Junk


class Hostile:
    """Everything that the check might do with it fails."""

    def fail(self, *args):
        raise RuntimeError("hostile")

    __repr__ = __str__ = __eq__ = __bool__ = __float__ = __len__ = __iter__ = __getitem__ = fail
    __hash__ = object.__hash__


def endless(*args):
    while True:
        pass


def endless_and_stubborn(*args):
    while True:
        try:
            _ = args[0].inputs
        except Exception:
            pass


def counts_forever(*args):
    yield from itertools.count()


def deep(*args):
    return deep(*args)


def interrupts(*args):
    raise KeyboardInterrupt


def leaves(*args):
    raise SystemExit(3)


def hostile_error(*args):
    class Odd(Exception):
        __str__ = Hostile.fail

    raise Odd


def noisy(*args):
    for _ in range(10_000):
        print("noise")


JUNK = [None, 3, -1.5, True, float("nan"), float("inf"), 1j, "text", b"bytes", [], {}, (), set(), [None], [Hostile()],
        Hostile(), Node, print, len, dict, lambda: 0, lambda *a: None, lambda *a: Hostile(), lambda *a: [Hostile()],
        lambda *a: {Hostile(): 1}, lambda *a: [(Hostile(), Hostile())], lambda *a: {}, lambda *a: [], lambda *a: 0,
        lambda *a: float("nan"), lambda *a: "text", lambda *a: a, lambda *a: a[0], lambda *a: 1 / 0,
        lambda *a: [leaf("x")], lambda *a: {leaf("x"): "1"}, endless, endless_and_stubborn, counts_forever, deep,
        interrupts, leaves, hostile_error, noisy]


@pytest.mark.parametrize("task", TASKS)
def test_junk_is_diagnosed_and_never_raises(task, capsys, monkeypatch):
    first = judge._Tracer.__init__
    monkeypatch.setattr(judge._Tracer, "__init__", lambda self, limit: first(self, min(limit, LINES)))
    for junk in JUNK:
        outcome = check(task, *(junk,) * len(TASKS[task].wants))
        # A board with no rule on it is not finished, and nothing is not started.
        fitting = (WRONG, UNFINISHED, NOT_STARTED) if task in ("17.a", "17.h") else (WRONG,)
        assert outcome.status in fitting, (junk if not isinstance(junk, Hostile) else "hostile", outcome.text())
        assert outcome.text() and outcome.html() and repr(outcome)
        assert outcome.text().count("noise") <= 11
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "arguments", [("",), ("02.b",), ("02.b", 1, 2), ("02.a", 1), ("99.z", 1), (None,), (3, 4), ([], 1), ("02",)])
def test_check_called_in_a_wrong_way_says_how_it_is_called(arguments):
    outcome = check(*arguments)
    assert outcome.status == WRONG
    said = words(outcome)
    assert "Call check(" in said or "a task is written like" in said or "The tasks are 02.a" in said


def test_the_learners_own_line_is_shown_and_not_ours():
    source = "def backward(order):\n    grads = {}\n    return grads[order[0].nme]\n"
    name = "/somewhere/ipykernel_1/123.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = {}
    exec(compile(source, name, "exec"), names)
    text = check("02.c", names["backward"]).text()
    assert "AttributeError" in text and "line 3 of the cell: return grads[order[0].nme]" in text
    assert "autodiff" not in text and "Traceback" not in text


def test_a_call_that_does_not_fit_says_so():
    text = check("03.c", lambda root, more: []).text()
    assert "TypeError" in text and "Compare the arguments of your function" in text


def test_what_the_function_prints_is_kept_back_and_shown_when_it_helps(capsys):
    text = check("02.b", lambda node, g: print("my numbers")).text()
    assert "Your function printed:" in text and "my numbers" in text
    assert capsys.readouterr().out == ""


def test_a_stopped_loop_leaves_no_exception_behind():
    for function in (endless, endless_and_stubborn):
        check("02.c", function)
        with pytest.raises(ValueError) as caught:
            raise ValueError("a later one")
        assert caught.value.__context__ is None


def test_limits_and_tracers_are_put_back():
    before, traced = sys.getrecursionlimit(), []

    def tracer(frame, event, arg):
        traced.append(event)

    sys.settrace(tracer)
    try:
        check("03.c", lambda root: sys.setrecursionlimit(before + 777) or topological(root))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(None)
    assert sys.getrecursionlimit() == before
    check("03.c", endless)
    assert sys.gettrace() is None and graphs.Budget.active is None


def test_a_debugger_keeps_its_breakpoints():
    def trace_dispatch(frame, event, arg):
        return None

    trace_dispatch.__module__ = "pydevd.tracing"
    sys.settrace(trace_dispatch)
    try:
        seen = []
        assert judge.run(lambda: seen.append(sys.gettrace())).ended == "returned"
        assert seen == [trace_dispatch]
    finally:
        sys.settrace(None)


def test_visits_and_lines_are_bounded_where_exceptions_are_swallowed():
    def swallows(root):
        while True:
            try:
                _ = root.inputs
            except Exception:
                pass

    assert judge.run(swallows, leaf("x"), visits=50).ended == "visits"
    assert judge.run(endless, lines=1000).ended == "lines"
    assert judge.run(counts_forever, lines=1000).ended == "lines"


def test_a_generator_that_is_closed_at_the_limit_does_not_lose_the_limit():
    def closes_generators():
        while True:
            any(True for _ in (1, 2))

    for limit in range(1000, 1012):
        assert judge.run(closes_generators, lines=limit).ended == "lines"


def test_a_slow_function_is_stopped_by_the_clock(monkeypatch):
    monkeypatch.setattr(judge, "SECONDS", 0.05)

    def slow(*args):
        print("at work")
        while True:
            time.sleep(0.01)

    for task in ("02.b", "02.c", "03.b", "03.c", "04.b"):
        text = check(task, slow).text()
        assert "stopped" in text and "at work" in text, task


def test_what_the_function_prints_is_shown_for_wrong_results_too():
    def says(value):
        def answer(*args):
            for number in range(12):
                print(f"line {number} for {args[0]}")
            return value
        return answer

    for task, value, seen in (("02.b", [], "for y"), ("02.c", {}, "for [y, x]"), ("03.b", True, "for y"),
                              ("03.b", False, "for y"), ("03.c", [], "for x")):
        text = check(task, says(value)).text()
        assert f"line 9 {seen}" in text and "line 10" not in text and "... and 2 more lines" in text, task


def test_a_loop_that_may_go_on_is_no_early_return():
    def goes_on(order):
        for node in order:
            if node.inputs:
                continue
            return node
        for node in order:
            if node.name:
                return node

    def ends(order):
        for node in order:
            if node.inputs:
                return node
            else:
                return None

    assert not judge.returns_in_first_turn(goes_on) and judge.returns_in_first_turn(ends)
    assert not judge.returns_in_first_turn(len) and judge.notebook_nodes(Hostile()) == []


def test_a_node_of_the_same_name_is_told_from_the_one_that_was_meant():
    text = check("02.b", lambda node, g: [(leaf(n.name), g * n.value) for n in node.inputs]).text()
    assert "[(another x, -3), (another x, -3)]" in text


def test_a_refused_valid_order_is_shown_for_a_judge_that_is_upside_down():
    outcome = check("03.b", lambda root, order: is_order(root, order[::-1]))
    text = " ".join(outcome.text().split())
    assert outcome.fault == "upside-down" and "(y, [y, x])` returned False; expected True" in text


def test_a_broken_check_says_that_it_is_not_the_learners_fault(monkeypatch):
    broken = judge.Task("02.b", "t", ("f",), functools.partial(math.sqrt, -1), (), ("", "", ""), "")
    monkeypatch.setattr(api, "_find", lambda task_id: broken)
    outcome = check("02.b", mul_backward)
    assert outcome.status == BROKEN and not outcome
    assert "not of your answer" in outcome.text() and "TypeError" in outcome.text()


# Diagnoses


def test_a_seed_repeats_a_diagnosis():
    def faulty(node, g):
        return [(n, g * n.value) for n in node.inputs]

    seed = 77
    first, second = check("02.b", faulty, seed=seed), check("02.b", faulty, seed=seed)
    assert first.text() == second.text() and f"seed={seed})" in first.text()
    assert check("02.b", faulty).text() != first.text(), "without a seed the inputs are fresh"


def test_a_diagnosis_names_the_function_the_learner_wrote():
    def my_own_name(order):
        return {node: 0.0 for node in order}

    assert "my_own_name" in check("02.c", my_own_name).text()


def test_a_mistake_without_a_name_is_called_one_and_shown_at_its_smallest():
    def odd(order):
        grads = backward(order)
        return {n: g + (0.5 if len(order) > 4 else 0) for n, g in grads.items()}

    outcome = check("02.c", odd)
    assert outcome.fault is None and outcome.status == WRONG
    assert "not one of the mistakes the check knows by name" in outcome.text()
    assert "At (x*y + x)**2 with y = 2, x = 3" in outcome.text()


def test_numbers_that_a_known_mistake_also_makes_are_mentioned_without_naming_it():
    def mixed(order):
        grads = backward(order)
        return {n: -3.0 if len(order) == 2 and n.op == "leaf" and n.value == -3 else g * 1.5 if n.op == "leaf" else g
                for n, g in grads.items()}

    outcome = check("02.c", mixed)
    assert outcome.fault is None
    assert "also come from these mistakes" in " ".join(outcome.text().split())


def test_kinds_of_orders_are_named_as_in_the_table():
    text = check("03.b", lambda root, order: order == [root] or order[:1] == [root] and order[-1] is not root).text()
    assert "several kinds of wrong orders" in text and "an order in which a leaf is missing" in text
    assert not any(kind in text for kind in checks_03._KINDS if "-" in kind)


@pytest.mark.parametrize("task, wrong", [
    ("04.b", lambda g, y, a, b: (g @ b.T + (len(a) == 3), a.T @ g)),
    ("04.c", lambda g, y, a: g if g.shape == (3, 3) else RIGHT["04.c"][0](g, y, a))])
def test_the_numbers_in_a_diagnosis_are_short(task, wrong):
    sentence = check(task, wrong).body[0]
    assert "(3, 3)" in sentence and "." not in sentence.removesuffix(".") and len(sentence) < 700, sentence


def test_recursion_is_recognised_even_with_a_raised_limit():
    def recursive(root):
        sys.setrecursionlimit(1_000_000)
        done, seen = [], set()

        def visit(node):
            if node not in seen:
                seen.add(node)
                for n in node.inputs:
                    visit(n)
                done.append(node)

        visit(root)
        return done[::-1]

    assert check("03.c", recursive).fault == "recursion"


def test_thirty_doublings_stop_soon():
    paths = judge.run(lambda root: walk_paths(root), doublings(30), visits=5000)
    assert paths.ended == "visits" and paths.visits == 5001


def walk_paths(root):
    stack = [root]
    while stack:
        stack.extend(stack.pop().inputs)


def differ(rights, answers_of_faults, same):
    """No fault answers as another one, or right, on all inputs together."""
    everything = [("right", rights), *answers_of_faults]
    for (name, a), (other, b) in itertools.combinations(everything, 2):
        if name != other:
            assert not all(map(same, a, b)), (name, other)


@pytest.mark.parametrize("number", range(len(checks_02._DEALS)))
def test_fingerprints_of_02a_differ_for_every_deal(number):
    deal = checks_02._deal(number)
    faults = [(f.id, [a(deal)]) for f in TASKS["02.a"].faults for a in f.answers]

    def same(a, b):
        return all(x is None or y is None or result.close(x, y) for x, y in zip(a, b))

    differ([checks_02._right_a(deal)], faults, same)
    for fault in TASKS["02.a"].faults:
        for answer in fault.answers:
            typed = [0.25 if v is None else v for v in answer(deal)]
            assert judge_with_deal("02.a", typed, number).fault == fault.id


def judge_with_deal(task, answers, number):
    attempt = judge.Attempt(TASKS[task], tuple(answers), 0, [TASKS[task].deal(n) for n in range(number + 1)])
    return api._judge(attempt)


@settings(max_examples=60, deadline=None)
@for_all(st.integers(0, 10**6))
def test_fingerprints_of_02b_and_02c_differ_for_every_seed(seed):
    cases = checks_02._cases_b(random.Random(seed))
    faults = [(f.id, [a(n, g) for _, n, g in cases]) for f in TASKS["02.b"].faults for a in f.answers]
    differ([graphs.shares(n, g) for _, n, g in cases], faults, checks_02._same_pairs)
    orders = [order for _, order in checks_02._graphs_c(random.Random(seed))]
    faults = [(f.id, [a(order) for order in orders]) for f in TASKS["02.c"].faults for a in f.answers]
    differ([backward(order) for order in orders], faults, checks_02._same_grads)


@pytest.mark.parametrize("number", range(12))
def test_every_deal_of_03a_tells_the_walks_apart(number):
    root = TASKS["03.a"].deal(number)
    right = users_first(root)
    assert len(right) == 5
    for fault, order in (("reversed", right[::-1]), ("by-distance", checks_03._breadth_first(root)),
                         ("on-sight", checks_03._PREORDERS[0](root)), ("missing", right[:-1]),
                         ("repeated", [*right, right[-1]])):
        assert judge_with_deal("03.a", [[n.name for n in order]], number).fault == fault
    assert judge_with_deal("03.a", [[n.name for n in right]], number)


@settings(max_examples=60, deadline=None)
@for_all(st.integers(0, 10**6))
def test_planted_orders_are_what_they_are_called(seed):
    kinds = set()
    for kind, root, order in checks_03._planted(random.Random(seed)):
        assert is_order(root, order) == (kind is None), (kind, order)
        kinds.add(kind)
    assert kinds == {None, *checks_03._KINDS}


# The graphs


@settings(max_examples=80, deadline=None)
@for_all(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 12))
def test_random_graphs_are_connected_and_their_order_and_gradients_are_right(seed, leaves, ops):
    root = graphs.random_graph(random.Random(seed), leaves, ops)
    order = users_first(root)
    assert is_order(root, order)
    grads = backward(order)
    for node in order:
        if node.op == "leaf":
            up, down = (evaluate(root, {node: node.value + h}) for h in (1e-6, -1e-6))
            assert abs((up - down) / 2e-6 - grads[node]) <= 1e-4 * max(1.0, abs(grads[node]), abs(root.value))


def evaluate(root, moved):
    value = {}
    for node in users_first(root)[::-1]:
        inputs = [value[n] for n in node.inputs]
        value[node] = moved.get(node, node.value) if node.op == "leaf" else (
            -inputs[0] if node.op == "neg" else inputs[0] + inputs[1] if node.op == "add" else inputs[0] * inputs[1])
    return value[root]


def test_deep_graphs_are_no_trouble_for_the_course_itself():
    root = chain(100_000)
    assert len(users_first(root)) == 100_001
    assert graphs.describe(neg(leaf("x"), "y")) == "y = -x"


# What is shown


def test_html_escapes_and_marks_up_what_text_shows_plainly():
    body = ["`x < 1` and *stress*, x * y * z", "    <code>\n      kept"]
    page = Page("a < b", body, Table(("<h>",), (("<c>",),)), ["after"], ["note"])
    markup = page.html()
    assert "a &lt; b" in markup and "<code>x &lt; 1</code>" in markup
    assert "<em>stress</em>" in markup and "x * y * z" in markup
    assert "&lt;code&gt;\n  kept" in markup and "&lt;h&gt;" in markup and "&lt;c&gt;" in markup
    assert "*stress*" in page.text() and "    <code>" in page.text()
    assert set(page._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_no_meaning_is_left_to_colour():
    outcome = check("02.a", -3, -3, -6)
    assert "color:" not in outcome.html().replace("currentColor", "")
    assert "differs" in outcome.html() and "not right" in outcome.html()


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_every_task_has_three_different_hints_and_says_something_good(task):
    assert len(set(task.hints)) == 3 and all(task.hints) and task.good.endswith(".")
    shown = [hint(task.id, n).text() for n in (1, 2, 3)]
    assert ["nudge" in shown[0], "picture" in shown[1], "skeleton" in shown[2]] == [True] * 3


def test_diagnoses_read_as_sentences():
    for task in TASKS.values():
        for fault in task.faults:
            assert fault.why.rstrip().endswith((".", "?", ".)")) and fault.look.rstrip().endswith((".", "?")), fault.id
            assert "  " not in fault.why and not fault.title.endswith(".")


# Hints


def test_hints_come_one_after_the_other(file):
    assert [hint("02.b").headline.split()[2] for _ in range(4)] == ["1", "2", "3", "3"]
    assert hint("02.b", 1).headline == "02.b  hint 1 of 3 (nudge)"
    assert hint("02.c").headline == "02.c  hint 1 of 3 (nudge)"
    for junk in (0, 4, "2", 2.5, []):
        assert "There are hints 1, 2 and 3" in hint("02.b", junk).text()
    assert "There is no task" in hint("nothing").text() and "There is no task" in hint(None).text()


@pytest.mark.parametrize("kept", [True, False])
def test_a_hint_opens_only_after_the_one_before_it(tmp_path, monkeypatch, kept):
    monkeypatch.setenv("AUTODIFF_PROGRESS", str(tmp_path / "progress.json") if kept else "off")
    api._hints_shown.clear()
    page = hint("02.a", 3)
    assert page.headline == "02.a  hint 1 of 3 (nudge)" and "Hints open one at a time" in words(page)
    assert hint("02.a", 3).headline == "02.a  hint 2 of 3 (picture)"
    page = hint("02.a", 3)
    assert page.headline == "02.a  hint 3 of 3 (skeleton)" and "one at a time" not in words(page)
    assert hint("02.a", 1).headline == "02.a  hint 1 of 3 (nudge)"
    if kept:
        assert entries(tmp_path / "progress.json")["02.a"]["hints"] == 3


def test_hints_go_on_without_a_progress_file(monkeypatch):
    monkeypatch.setenv("AUTODIFF_PROGRESS", "off")
    api._hints_shown.clear()
    assert [hint("03.a").headline.split()[2] for _ in range(3)] == ["1", "2", "3"]


# Progress


def entries(file):
    return json.loads(file.read_text())["tasks"]


def test_nothing_is_written_when_progress_is_off(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for setting in ("off", " OFF ", None):
        if setting is None:
            monkeypatch.delenv("AUTODIFF_PROGRESS", raising=False)
        else:
            monkeypatch.setenv("AUTODIFF_PROGRESS", setting)
        assert record.location() is None
        check("02.a", -12, -12, -24)
        hint("02.a")
        mark("02", "on my own")
        assert "switched off" in progress().text()
        assert list(tmp_path.iterdir()) == []


def test_the_default_file_is_in_the_learners_data_folder_and_outside_the_course(tmp_path, monkeypatch):
    monkeypatch.delenv("AUTODIFF_PROGRESS", raising=False)
    monkeypatch.delenv("PYTEST_VERSION", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    if sys.platform == "linux":
        for value, folder in (("", ".local/share"), (str(tmp_path / "xdg"), "xdg")):
            monkeypatch.setenv("XDG_DATA_HOME", value)
            assert record.location() == tmp_path / folder / "autodiff-course" / "progress.json"
    assert record.location().name == "progress.json" and ROOT not in record.location().parents
    monkeypatch.setattr(sys, "platform", "emscripten")
    monkeypatch.setattr(record, "_DRIVE", tmp_path / "none")
    assert record.location() == Path("progress.json")
    monkeypatch.setattr(record, "_DRIVE", tmp_path)
    assert record.location() == tmp_path / "progress.json"


def test_a_pass_survives_a_restart(file, day):
    assert "comes back on a later day" in check("02.a", -12, -12, -24).text()
    script = "from autodiff.course import progress; print(progress())"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert "on my own, 2026-11-01" in ran.stdout and str(file) in ran.stdout


def test_a_task_done_alone_comes_back_once_with_new_inputs(file, day, capsys):
    assert check("02.a", -12, -12, -24)
    assert "from tomorrow" in progress().text()
    day(2)
    assert "Back today: 02.a." in progress().text()
    x, g = given("02.a")
    assert (x, g) == (5, 3) and "x = 5, and the gradient g = 3" in capsys.readouterr().out
    outcome = check("02.a", -12, -12, -24)
    assert outcome.fault == "old-numbers" and "x = 5, and the gradient g = 3" in words(outcome)
    assert "finished" in check("02.a", g * x, g * x, 2 * g * x).text()
    day(3)
    assert "Nothing comes back today." in progress().text() and given("02.a") == (5, 3)


def test_a_graph_that_comes_back_has_new_names(file, day, capsys):
    assert check("03.a", "L b a x y")
    day(2)
    root = TASKS["03.a"].deal(1)
    given("03.a")
    assert root.name == "R" and "R = " in capsys.readouterr().out
    assert check("03.a", "L b a x y").fault == "old-graph"
    assert "finished" in check("03.a", " ".join(n.name for n in users_first(root))).text()


def test_code_that_comes_back_counts_only_when_it_was_written_again(file, day):
    assert check("02.b", mul_backward)
    day(2)
    text = check("02.b", mul_backward).text()
    assert "answer of an earlier day (2026-11-01)" in " ".join(text.split())
    assert "Back today: 02.b." in progress().text()
    assert check("02.b", lambda node, g: not_begun()).status == NOT_STARTED
    assert "finished" in check("02.b", mul_backward).text()


@pytest.mark.parametrize("help", ["hint", "mark", "mark after"])
def test_a_task_done_with_help_comes_back_until_it_is_done_alone(file, day, help):
    for number in (1, 2):
        day(number)
        x, g = given("02.a")
        if help == "hint":
            hint("02.a")
        if help == "mark":
            mark("02.a", "with help")
        assert check("02.a", g * x, g * x, 2 * g * x)
        if help == "mark after":
            mark("02", "with help")
        assert f"with help, 2026-11-0{number}" in progress().text()
    day(3)
    assert "Back today: 02.a" in progress().text()
    x, g = given("02.a")
    assert "finished" in check("02.a", g * x, g * x, 2 * g * x).text()


def test_a_hint_opened_after_the_pass_is_no_help(file, day):
    check("02.a", -12, -12, -24)
    hint("02.a")
    assert entries(file)["02.a"]["passes"][0]["alone"] is True
    said = words(mark("02.a", "on my own"))
    assert entries(file)["02.a"]["passes"][0]["alone"] is True
    assert "You opened" not in said and "Kept." in said


def test_the_hints_that_a_mark_names_are_those_of_the_pass(file, day):
    hint("02.a")
    check("02.a", -12, -12, -24)
    hint("02.a")
    assert "You opened 1 hint for 02.a, so it comes back once more." in words(mark("02.a", "on my own"))


def test_a_hint_opened_first_thing_on_the_day_a_task_comes_back_is_help(file, day):
    check("02.a", -12, -12, -24)
    day(2)
    hint("02.a")
    assert check("02.a", 15, 15, 30) and "with help, 2026-11-02" in words(progress("02"))


# Guessing a letter


def test_a_question_that_was_missed_twice_comes_in_other_words_and_counts_as_done_with_help(file, day, capsys):
    given("18.a")
    first = capsys.readouterr().out
    assert "second wrong letter" not in words(check("18.a", "a"))
    said = words(check("18.a", "b"))
    assert "This was the second wrong letter: the next right one counts as done with help" in said
    assert 'the question has other words now, which `given("18.a")` prints too' in said and "shown" not in said
    assert "The same weight w is used in four layers" in said
    given("18.a")
    assert capsys.readouterr().out.splitlines()[0] != first.splitlines()[0]
    old = words(check("18.a", "c"))
    assert "right on an earlier day or in an earlier wording" in old
    assert check("18.a", "e") and "with help, 2026-11-01" in words(progress("18"))
    said = words(mark("18.a", "on my own"))
    assert "You had chosen two wrong letters for 18.a, so it comes back once more." in said
    day(2)
    right = next(letter for letter in "abcde" if judge_with_deal("18.a", letter, 2))
    assert "finished" in words(check("18.a", right)), "the help was of another round"


def test_a_question_that_was_missed_once_is_done_alone(file, day):
    check("18.a", "a")
    assert check("18.a", "c") and "on my own" in words(progress("18"))
    assert not check("18.a", "a") and "second wrong letter" not in words(check("18.a", "b"))


def test_the_same_wrong_letter_in_a_cell_that_is_run_again_is_no_second_one(file, day):
    assert not any("second wrong letter" in words(check("18.a", letter)) for letter in ("a", "a", "(A)"))
    assert check("18.a", "c") and "on my own" in words(progress("18"))


def test_letters_tried_one_after_the_other_never_make_a_task_done_alone(file, day):
    assert next(letter for letter in "abde" + "abcde" * 4 if check("18.a", letter))
    assert "with help, 2026-11-01" in words(progress("18"))


# Right answers that were shown

BY_HAND = [t.id for t in TASKS.values() if t.knows("old-numbers")]


def shown_02a():
    """The answer to the second of two wrong tries."""
    check("02.a", -3, -3, -6)
    return check("02.a", -3, -3, -6)


def test_right_answers_that_were_shown_do_not_pass_and_the_next_ones_count_as_done_with_help(file, day, capsys):
    told = shown_02a()
    assert ("slot_1", "-12", "-3", "differs") in told.table.rows and "the next try has new numbers" in words(told)
    copied = check("02.a", -12, -12, -24)
    assert copied.fault == "old-numbers" and "x = 5, and the gradient g = 3" in words(copied)
    assert "expected" not in copied.text()
    assert given("02.a") == (5, 3) and "x = 5" in capsys.readouterr().out
    assert check("02.a", 15, 15, 30)
    assert entries(file)["02.a"]["passes"][0]["alone"] is False and "with help, 2026-11-01" in words(progress("02"))
    assert "You were shown the right answers for 02.a" in words(mark("02.a", "on my own"))
    assert "with help, 2026-11-01" in words(progress("02"))
    day(2)
    assert given("02.a") == (-7, 4) and check("02.a", -28, -28, -56)
    assert "finished, 2026-11-02" in words(progress("02")), "the help was of another round"


def test_each_deal_is_told_once_it_has_been_missed_twice(file, day):
    shown_02a()
    told = [check("02.a", *answers) for answers in ((-12, -12, -24), ("x", 1, 1), (5, 5, 10), (..., 5, 10), (5, 5, 10))]
    assert ["expected" in page.text() and page.table is not None and "expected" in page.table.header
            for page in told] == [False, False, False, False, True]
    assert entries(file)["02.a"]["shown"] == [0, 0] and given("02.a") == (-7, 4)


def test_new_numbers_survive_a_restart(file, day):
    shown_02a()
    script = "from autodiff.course import check, given; given('02.a'); print(check('02.a', -12, -12, -24).fault)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert "x = 5" in ran.stdout and "old-numbers" in ran.stdout


def test_right_answers_that_were_shown_are_remembered_on_another_computer(file, day, tmp_path, monkeypatch):
    shown_02a()
    taken = str(tmp_path / "taken.json")
    export_progress(taken)
    monkeypatch.setenv("AUTODIFF_PROGRESS", str(tmp_path / "other.json"))
    hint("02.a")
    for _ in range(2):
        import_progress(taken)
        assert given("02.a") == (5, 3), "an import that is repeated deals nothing"
    check("02.a", 15, 15, 30)
    assert entries(tmp_path / "other.json")["02.a"]["passes"][0]["alone"] is False


def test_a_wrong_try_after_the_pass_changes_neither_the_pass_nor_the_numbers(file, day):
    check("02.a", -12, -12, -24)
    assert "expected" in shown_02a().table.header and "new numbers" not in shown_02a().text()
    assert check("02.a", -12, -12, -24) and "on my own" in words(progress("02"))


def test_numbers_stay_where_nothing_is_kept(monkeypatch):
    api._misses.clear()
    assert "new numbers" not in shown_02a().text() and check("02.a", -12, -12, -24)


@pytest.mark.parametrize("task", BY_HAND)
def test_right_answers_that_were_shown_are_wrong_for_the_next_deal(task):
    assert judge_with_deal(task, RIGHT[task], 0) and judge_with_deal(task, RIGHT[task], 1).fault == "old-numbers"
    told = [TASKS[task].show(TASKS[task].deal(number)) for number in range(4)]
    assert all(first != second for first, second in itertools.pairwise(told))


def test_marks_are_kept_and_honest(file, day):
    hint("02.a")
    check("02.a", -12, -12, -24)
    assert "Noted. It counts when the check has passed." in mark("02.b", "with help").text()
    check("02.b", lambda node, g: [])
    text = " ".join(mark("02", "on my own").text().split())
    assert "You opened 1 hint for 02.a" in text and "02.b: noted. It counts when the check has passed." in text
    assert "with help, 2026-11-01" in progress().text()
    mark("02.a", "not yet")
    assert "not yet, 2026-11-01" in progress().text()


def test_a_mark_of_an_exercise_leaves_tasks_alone_that_were_not_tried(file, day):
    check("18.a", "c")
    assert "Kept for 18.a." in words(mark("18", "with help"))
    assert "with help, 2026-11-01" in words(progress("18")) and "18.b" not in entries(file)
    day(21)
    assert check("18.b", "b") and "on my own, 2026-11-21" in words(progress("18"))


def test_a_mark_of_an_exercise_leaves_what_was_passed_on_an_earlier_day(file, day):
    check("18.a", "c")
    check("18.c", "a")
    day(2)
    assert "finished" in words(check("18.a", "e"))
    day(21)
    hint("18.b")
    check("18.b", "b")
    mark("18", "with help")
    assert "finished, 2026-11-02" in words(progress("18")) and "on my own, 2026-11-01" in words(progress("18"))


def test_a_try_of_an_earlier_round_is_none_of_this_one(file, day):
    check("02.a", -3, -3, -6)
    check("02.a", -12, -12, -24)
    day(2)
    assert given("02.a") == (5, 3)
    said = words(mark("02", "with help"))
    assert "No task of 02 has been tried" in said and 'mark("02.a", "with help")' in said
    assert "finished" in words(check("02.a", 15, 15, 30))


def test_a_mark_of_an_exercise_counts_for_what_was_tried_and_not_passed(file, day):
    check("02.b", lambda node, g: [])
    assert "02.b: noted. It counts when the check has passed." in words(mark("02", "with help"))
    check("02.b", mul_backward)
    assert "with help, 2026-11-01" in words(progress("02"))


def state_of(id):
    return next(row[2] for row in progress(id[:2]).table.rows if row[0] == id)


def test_not_yet_is_shown_before_the_first_pass_and_the_pass_clears_it(file, day):
    assert "Kept." in words(mark("03.c", "not yet")) and state_of("03.c") == "not yet"
    check("02.b", lambda node, g: [])
    check("02.b", lambda node, g: [])
    assert "Kept for 02.b." in words(mark("02", "not yet")) and state_of("02.b") == "not yet, 2 tries"
    day(2)
    assert check("02.b", mul_backward) and state_of("02.b") == "on my own, 2026-11-02"
    day(3)
    check("02.b", lambda node, g: [])
    mark("02", "not yet")
    assert state_of("02.b") == "not yet"
    check("02.b", lambda node, g: not_begun())
    assert check("02.b", mul_backward) and state_of("02.b") == "finished, 2026-11-03"


@pytest.mark.parametrize("which, how", [("02", ...), ("02", None), ("02", "perfect"), ("77", "not yet"), (None, 2)])
def test_a_mark_that_is_none_changes_nothing(file, which, how):
    text = mark(which, how).text()
    assert "Use one of" in text or "There is no exercise or task" in text
    assert not file.exists()


def test_given_without_a_deal_says_so(capsys):
    assert given("02.b") is None and "its answer is code" in capsys.readouterr().out
    assert given("nothing") is None and "There is no task" in capsys.readouterr().out


def test_given_is_the_same_for_everybody_at_first(file):
    assert given("02.a") == (-3, 4) and given("02.a") == (-3, 4)
    assert graphs.describe(TASKS["03.a"].deal(0)) == "a = x * y\nb = x * a\nL = a + b"


def words_in(deal):
    """The texts in a deal, in brackets and dicts too; what is a text is no number to compute with."""
    if isinstance(deal, dict):
        return words_in([*deal.keys(), *deal.values()])
    if isinstance(deal, (tuple, list)):
        return [word for part in deal for word in words_in(part)]
    return [deal] if isinstance(deal, str) else []


@pytest.mark.parametrize("id", HAND)
def test_given_alone_in_a_cell_shows_no_answer(id, capsys):
    value = given(id)
    assert capsys.readouterr().out.strip() == TASKS[id].show(TASKS[id].deal(0)).strip()
    assert isinstance(value, evidence.Rules) or not words_in(value), "an answer in words would be displayed"
    if isinstance(value, (tuple, list)):
        parts = [part for part in value if isinstance(part, (tuple, list))]
        assert not any(check(id, *answer) for answer in (value, *parts) if len(answer) == len(TASKS[id].wants))


@pytest.mark.parametrize("id", sorted({*HAND} - {"02.a", "10.a", "16.a", "16.b", "16.c"}))
def test_given_hands_over_nothing_for_an_answer_on_paper(id):
    assert given(id) is None


def test_rules_show_their_letters_and_not_which_are_wrong():
    shown = repr(given("16.a")) + repr(given("16.a").written)
    assert "B" in shown and "norm" in shown and "wrong" not in shown and "True" not in shown


@pytest.mark.parametrize("content", [
    b"", b"{", b"[1, 2]", b'{"tasks": {}}', b"\xff\xfe\x00", b"[" * 100_000, b'{"version": 1, "tasks": {"02.a": 7}}',
    b'{"version": 1, "tasks": {"02.a": {"round": "x"}}}', b'{"version": 1, "tasks": {"02.a": {"passes": [3]}}}'])
def test_a_file_that_cannot_be_read_is_set_aside(file, content):
    file.write_bytes(content)
    outcome = check("02.a", -12, -12, -24)
    assert outcome and "could not be read" in " ".join(outcome.text().split())
    (aside,) = file.parent.glob("progress-unreadable-*.json")
    assert aside.read_bytes() == content and str(aside) in outcome.text()
    assert entries(file)["02.a"]["passes"]


def test_a_file_of_a_newer_course_is_left_alone(file):
    text = json.dumps({"version": record.VERSION + 1, "tasks": {}, "more": 1})
    file.write_text(text)
    outcome = check("02.a", -12, -12, -24)
    assert outcome and "newer version" in " ".join(outcome.text().split()) and file.read_text() == text
    assert "newer version" in " ".join(progress().text().split())


def test_a_folder_that_cannot_be_written_never_stops_a_check(tmp_path, monkeypatch):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv("AUTODIFF_PROGRESS", str(blocked / "progress.json"))
    record._session.clear()
    outcome = check("02.a", -12, -12, -24)
    assert outcome and outcome.text().count("Progress could not be kept") == 1
    assert "on my own" in progress().text(), "it is remembered for this session"
    assert hint("02.b").headline.endswith("(nudge)") and hint("02.b").headline.endswith("(picture)")
    text = mark("02.a", "with help").text()
    assert "could not be kept" in text and "Kept." not in text and "Kept." not in outcome.text()
    assert given("02.a") == (-3, 4)


def test_a_file_that_can_be_read_and_not_written_keeps_what_was_done(file, day, monkeypatch):
    check("02.a", -12, -12, -24)
    before = file.read_bytes()

    def denied(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(record.os, "replace", denied)
    day(2)
    x, g = given("02.a")
    assert (x, g) == (5, 3), "the round goes on from what the file says"
    assert "Permission denied" in " ".join(check("02.a", 15, 15, 30).text().split())
    assert file.read_bytes() == before and [p.name for p in file.parent.glob("*.tmp")] == []


def test_a_crash_while_writing_leaves_the_old_file(file, monkeypatch):
    check("02.a", -12, -12, -24)
    before = file.read_bytes()
    monkeypatch.setattr(record.json, "dump", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        record.update("02.b", lambda e: None)
    assert file.read_bytes() == before and list(file.parent.glob("*.tmp")) == []


def _try_often(path, task, times):
    os.environ["AUTODIFF_PROGRESS"] = path
    for _ in range(times):
        record.update(task, lambda e: e.update(tries=e["tries"] + 1))


def test_kernels_at_once_lose_nothing(file):
    script = ("import sys; from autodiff.course import record\n"
              "for _ in range(25): record.update(sys.argv[1], lambda e: e.update(tries=e['tries'] + 1))")
    jobs = [subprocess.Popen([sys.executable, "-c", script, task]) for task in ("02.a", "02.a", "02.b")]
    assert [job.wait(120) for job in jobs] == [0, 0, 0]
    found = entries(file)
    assert (found["02.a"]["tries"], found["02.b"]["tries"]) == (50, 25)


def test_the_lock_without_fcntl_loses_nothing_and_takes_over_an_old_lock(file, monkeypatch):
    monkeypatch.setattr(record, "fcntl", None)
    threads = [threading.Thread(target=_try_often, args=(str(file), "02.a", 20)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entries(file)["02.a"]["tries"] == 60
    lock = file.with_name(file.name + ".lock")
    lock.write_text("")
    os.utime(lock, (1, 1))
    record.update("02.a", lambda e: None)
    assert not lock.exists()


def test_a_lock_that_is_held_too_long_is_a_note_and_no_stop(file, monkeypatch):
    monkeypatch.setattr(record, "_LOCK_SECONDS", 0.05)
    with record._locked(file):
        outcome = check("02.a", -12, -12, -24)
    assert outcome and "another notebook has held it" in " ".join(outcome.text().split())


# Taken to another computer


def test_progress_taken_to_another_computer_loses_nothing(file, day, tmp_path, monkeypatch):
    check("02.a", -12, -12, -24)
    check("02.b", mul_backward)
    taken = tmp_path / "taken.json"
    assert str(taken) in export_progress(str(taken)).text()
    monkeypatch.setenv("AUTODIFF_PROGRESS", str(tmp_path / "other" / "progress.json"))
    day(2)
    hint("02.a")
    check("02.a", -12, -12, -24)
    check("03.c", topological)
    assert "Added: 2 tasks" in import_progress(str(taken)).text()
    there = entries(tmp_path / "other" / "progress.json")
    assert [p["day"] for p in there["02.a"]["passes"]] == ["2026-11-01", "2026-11-02"]
    assert [p["alone"] for p in there["02.a"]["passes"]] == [True, False] and there["02.a"]["hints"] == 1
    assert there["02.b"]["passes"] and there["03.c"]["passes"]
    before = (tmp_path / "other" / "progress.json").read_bytes()
    import_progress(str(taken))
    assert (tmp_path / "other" / "progress.json").read_bytes() == before, "a second import changes nothing"


@pytest.mark.parametrize("content", [
    b"", b"[]", b"\xff", b'{"version": 99, "tasks": {}}', b'{"version": 1, "tasks": {"a": 1}}'])
def test_a_file_that_is_no_progress_changes_nothing(file, tmp_path, content):
    check("02.a", -12, -12, -24)
    before = file.read_bytes()
    (tmp_path / "no.json").write_bytes(content)
    assert "is no progress file" in " ".join(import_progress(str(tmp_path / "no.json")).text().split())
    assert "could not be imported" in " ".join(import_progress(str(tmp_path / "absent.json")).text().split())
    assert file.read_bytes() == before and [p.name for p in tmp_path.glob("*unreadable*")] == []


def test_an_export_that_cannot_be_written_says_so(file, tmp_path):
    check("02.a", -12, -12, -24)
    assert "could not be written" in " ".join(export_progress(str(tmp_path / "no" / "x.json")).text().split())


def test_progress_of_one_exercise(file):
    assert {row[0] for row in progress("02").table.rows} == {"02.a", "02.b", "02.c"}
    assert "There is no exercise '99'" in progress("99").text()


# What is imported


def test_the_engine_does_not_load_the_course_and_the_course_loads_no_notebook_packages():
    script = ("import sys, autodiff; assert not any(m.startswith('autodiff.course') for m in sys.modules)\n"
              "import autodiff.course; autodiff.course.check('02.a', 1, 2, 3)\n"
              "print({'IPython', 'ipywidgets', 'nbgrader', 'nbformat', 'matplotlib', 'graphviz'} & set(sys.modules))")
    environment = {**os.environ, "AUTODIFF_PROGRESS": "off"}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert ran.stdout.strip() == "set()", ran.stderr


def test_a_result_is_true_exactly_when_it_passed():
    assert [bool(Result("h", status=s)) for s in (PASSED, WRONG, NOT_STARTED, BROKEN)] == [True, False, False, False]


def test_nodes_are_what_the_exercises_say():
    x = leaf("x", -3.0)
    y = mul(x, x, "y")
    assert (y.value, y.inputs, x.inputs, repr(y)) == (9.0, (x, x), (), "y")
    assert add(x, y, "u").value == 6.0 and len({x, y}) == 2
