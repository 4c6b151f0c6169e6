"""Exercise 17: the board, tested against planted faults, and parts that are mixed from a learner's and ours."""

import linecache
import sys
import threading
import time
from pathlib import Path

import nbformat
import numpy as np
import pytest

from autodiff.course import api, prove
from autodiff.course.capstone import PARTS, Engine, board, mini, reads, training
from autodiff.course.capstone.engine import OURS, borrowed_from, mirror, written
from autodiff.course.capstone.loop import _planted_training
from autodiff.course.capstone.programs import programs
from autodiff.course.capstone.suite import SUITE, TASK_OF, lines_of
from autodiff.course.capstone.watch import Watch
from autodiff.course.graphs import users_first
from autodiff.course.result import NOT_STARTED, PASSED, WRONG

MASTER = nbformat.read(Path(__file__).parent.parent / "solutions" / "17_build_your_own_engine.ipynb", as_version=4)
WRONGS = [w for w in prove.wrong_answers("17") if w.task in TASK_OF.values()]
CELLS = {prove.task_of(cell): cell for cell in MASTER.cells if prove.task_of(cell)}
LOSS = next(cell.source for cell in MASTER.cells if cell.id == "loss")


@pytest.fixture(autouse=True)
def progress_off(monkeypatch):
    monkeypatch.setenv("AUTODIFF_PROGRESS", "off")


def notebook(tasks="abcdefg", **sources):
    """The names of a notebook in which the parts of these tasks are written; `sources` replace some of them."""
    names = {"__name__": "__main__", "np": np, "check": lambda *answers: None}
    for letter in tasks:
        prove._run(CELLS[f"17.{letter}"].source, f"<cell {letter}>", names)
    for part, source in sources.items():
        add(names, part, source)
    return names


def add(names, label, source):
    linecache.cache[f"<{label}>"] = (len(source), None, source.splitlines(True), f"<{label}>")
    exec(compile(source, f"<{label}>", "exec"), names)


def with_wrong(wrong, tasks="abcdefg"):
    names = notebook(tasks)
    (source,) = prove.substitute(MASTER, wrong).values()
    prove._run(source, f"<wrong {wrong.fault}>", names)
    return names


def states(names):
    return states_of(board(names))


def states_of(made):
    """Test -> the first word of what its line of the board says."""
    return {test: row[-1].partition(":")[0] for test, row in zip(SUITE, made.table.rows, strict=True)}


def red(names, alone=False):
    return {t.part or t.what for t, state in states(names).items() if state == "failed" and (t.part or not alone)}


def wrong_answer(task, fault, number=0):
    return [w for w in WRONGS if (w.task, w.fault) == (task, fault)][number]


# The board


def test_seven_right_parts_leave_nothing_of_ours():
    made = board(notebook())
    assert set(states_of(made).values()) == {"passed"}
    assert "7 of 7 parts" in made.headline and "Nothing of ours is left" in made.text()
    assert "<table>" in made.html() and "the shared node" in made.html() and "failed" not in made.text()


def test_without_parts_all_is_ours():
    for names in ({}, dict.fromkeys(PARTS, ...), dict(OURS)):
        assert set(states(names).values()) == {"ours"}
    assert "0 of 7 parts" in board({}).text() and "Yours: nothing yet." in board({}).text()


@pytest.mark.parametrize("tasks", ["abc", "d", "e", "bf", "acdefg", "bcdefg", "abdefg", "abcefg", "abcdfg", "abcdeg"])
def test_whoever_stops_in_between_has_an_engine_that_works(tasks):
    made = board(notebook(tasks))
    mine = {part for part, task in TASK_OF.items() if task[-1] in tasks}
    assert all(state == ("passed" if test.part is None or test.part in mine else "ours")
               for test, state in states_of(made).items())
    assert "You may stop here" in made.text()


# The exercise's own tests show for every wrong answer that its line fails; that no other does, two of each part show.
TWO = [of[i] for task in TASK_OF.values() for of in [[w for w in WRONGS if w.task == task]] for i in (0, -1)]


@pytest.mark.parametrize("wrong", TWO, ids=[f"{w.task}-{w.fault}" for w in TWO])
def test_a_wrong_part_fails_in_its_own_line_and_in_no_other_parts(wrong):
    engine = Engine.of(with_wrong(wrong))
    part = next(p for p, task in TASK_OF.items() if task == wrong.task)
    for test in SUITE:
        if test.part:
            (line,) = [line for line in _lines_of(engine, [test])]
            assert line.state == ("failed" if test.part == part else "passed"), line.why
            title = api.tasks()[wrong.task].fault(wrong.fault).title
            assert line.why == (f"{title}." if test.part == part else "")


def _lines_of(engine, tests):
    from autodiff.course.capstone.suite import _line

    return [_line(test, engine, 0) for test in tests]


WHAT = {  # short names for the lines of the whole
    "shared": "the shared node: 54 and 54, and -6 for x*x", "values": "random programs: the values of autodiff",
    "order": "random programs: users before inputs", "vjp": "(x*y, x*x + y) with three cotangents",
    "gradients": "random programs: the gradients of autodiff, or absent",
    "linear": "random programs: linear in the cotangent", "twice": "random programs: twice the same, nothing written",
    "layer": "the layer of lesson 10, to the last digit", "gap": "random programs: gradcheck finds no gap",
    "train": "the classifier learns what it learns with autodiff",
}


def test_the_short_names_are_all_lines_of_the_whole():
    assert list(WHAT.values()) == [test.what for test in SUITE if test.part is None]


@pytest.mark.parametrize("task, fault, lines", [
    ("17.a", "not-divided", "gradients gap train"),  # log is in no lesson's numbers
    ("17.a", "square-missing", "gradients layer gap train"),
    ("17.a", "sign", "gradients gap train"),
    ("17.a", "own-slot", "shared vjp gradients gap train"),
    ("17.b", "writeable", ""),  # nobody writes, so only the part's own line can see it
    ("17.b", "tracked-variables", "shared order vjp gradients layer gap train"),
    ("17.c", "constants-recorded", ""),
    ("17.c", "order-turned", "gradients linear twice layer gap train"),
    ("17.d", "variables-missing", "order"),
    ("17.d", "recursion", ""),  # no program is deep
    ("17.d", "reversed", "shared order vjp gradients linear twice layer gap train"),
    ("17.e", "overwrites", "shared vjp gradients layer gap train"),
    ("17.e", "shared-stores", "vjp gradients linear"),
    ("17.f", "cotangent-ignored", "vjp gradients linear layer gap"),
    ("17.f", "one-edge", "shared vjp gradients layer gap"),
    ("17.f", "left-inside", "gradients"),
    ("17.f", "overwrites", "shared vjp gradients layer gap train"),
    ("17.g", "one-sided", "layer"),
    ("17.g", "half-step", "layer gap"),
    ("17.g", "never-rings", ""),  # silent for right engines, as it should be
])
def test_a_wrong_part_makes_exactly_these_lines_of_the_whole_red(task, fault, lines):
    wrong = wrong_answer(task, fault)
    part = next(p for p, t in TASK_OF.items() if t == task)
    assert red(with_wrong(wrong)) == {part, *(WHAT[line] for line in lines.split())}


def test_the_friend_of_the_reflection_reads_digits_with_a_wrong_rule():
    names = notebook(RULES='RULES["tanh"] = (np.tanh, lambda g, y, a: g)', loss=LOSS, train=LOOPS[0])
    assert red(names) == {"RULES", *(WHAT[line] for line in "gradients layer gap train".split())}
    said = next(line.why for line in lines_of(Engine.of(names)) if line.test.what == WHAT["train"])
    assert "the digits are read all the same" in said
    with Engine.of(names) as engine:
        assert 0.94 < training.share_right(training.train_with(engine)) < 0.96


def test_a_board_says_which_check_says_more():
    text = board(with_wrong(wrong_answer("17.d", "reversed"))).text()
    assert "6 of 7 parts are yours and right" in text and "failed: the order is upside down." in text
    assert 'check("17.d", sorted_nodes) says more' in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("names", [
    {"Node": 3, "RULES": [], "GradStore": "x"}, {"RULES": {"add": None}}, {"record": print, "backward": len},
    {"Node": object, "GradStore": dict},
])
def test_a_board_shows_anything_and_never_raises(names):
    assert "failed" in board(names).text()


def test_a_part_that_never_ends_is_stopped():
    began = time.monotonic()
    names = notebook("abc", sorted_nodes="def sorted_nodes(root):\n    while True:\n        pass")
    assert "sorted_nodes" in red(names) and time.monotonic() - began < 60


def test_a_test_that_breaks_is_said_and_not_raised(monkeypatch):
    def broken(attempt):
        raise ZeroDivisionError("planted")

    task = api.tasks()["17.d"]
    monkeypatch.setattr(api, "tasks", lambda: {**{t: task for t in TASK_OF.values()}, "17.d": _with(task, broken)})
    assert "the test itself broke, please report it: ZeroDivisionError: planted" in " ".join(
        board(notebook("d")).text().split())


def _with(task, judge):
    from dataclasses import replace

    return replace(task, judge=judge)


def test_a_part_that_writes_into_what_it_gets_does_not_spoil_later_boards():
    assert red(with_wrong(wrong_answer("17.a", "changed-input")))
    assert not red(notebook())


# Parts in another style than ours pass, alone and together

STYLES = {
    "RULES": '''
def back(g, y, a, shape=None):
    while g.ndim > a.ndim:
        g = g.sum(0)
    for k, n in enumerate(a.shape):
        if n == 1 and g.shape[k] != 1:
            g = np.expand_dims(g.sum(k), k)
    return g


class Exp:
    def __call__(self, g, y, a): return y * g


RULES = {
    "add": [lambda a, b: a + b, lambda g, y, a, b: g.copy(), lambda g, y, a, b: 1.0 * g],
    "sub": [lambda a, b: a - b, lambda g, y, a, b: +g, lambda g, y, a, b: np.negative(g)],
    "mul": (np.multiply, lambda g, y, p, q: q * g, lambda g, y, p, q: np.multiply(g, p)),
    "matmul": (lambda a, b: a.dot(b), lambda g, y, a, b: np.matmul(g, np.transpose(b)),
               lambda g, y, a, b: np.einsum("nm,np->mp", a, g)),
    "tanh": (np.tanh, lambda g, y, a: g / np.cosh(a) ** 2), "exp": (np.exp, Exp()),
    "log": (np.log, lambda g, y, a: g * a**-1.0),
    "sum": (lambda a, axis=None: np.sum(a) if axis is None else np.expand_dims(np.sum(a, axis), axis),
            lambda g, y, a, axis=None: np.zeros_like(a) + g),
    "broadcast": (np.broadcast_to, back), "more": (np.divide,),
}''',
    "Node": '''
class Node:
    __slots__ = ("_value", "op", "inputs", "params", "variable", "name")
    __array_ufunc__ = None

    def __init__(self, value, op=None, inputs=(), params=None, variable=False, name=None):
        self._value = np.array(value).astype(np.float64)
        self._value.setflags(write=False)
        self.op, self.inputs, self.variable, self.name = op, tuple(inputs), bool(variable), name
        self.params = {} if params is None else dict(params)

    @property
    def value(self): return self._value

    @property
    def tracked(self): return self.variable or max((i.tracked for i in self.inputs), default=False)

    def sum(self, axis=None): return record("sum", self) if axis is None else record("sum", self, axis=axis)


def both(op):
    wrap = lambda other: other if isinstance(other, Node) else Node(other)
    return lambda self, other: record(op, self, wrap(other)), lambda self, other: record(op, wrap(other), self)


for op in ("add", "sub", "mul", "matmul"):
    left, right = both(op)
    setattr(Node, f"__{op}__", left)
    setattr(Node, f"__r{op}__", right)''',
    "record": '''
def record(op, *inputs, **params):
    nodes = [n if hasattr(n, "tracked") else Node(n) for n in inputs]
    forward = RULES[op][0]
    if not any(n.tracked for n in nodes):
        return Node(forward(*[n.value for n in nodes], **params))
    if op in {"add", "sub", "mul"}:
        shape = np.broadcast(*[n.value for n in nodes]).shape
        for k, n in enumerate(nodes):
            if n.value.shape != shape:
                value = np.broadcast_to(n.value, shape)
                nodes[k] = Node(value, "broadcast", (n,), {"shape": shape}) if n.tracked else Node(value)
    return Node(forward(*[n.value for n in nodes], **params), op=op, inputs=tuple(nodes), params=params)''',
    "sorted_nodes": '''
def sorted_nodes(root):
    """Kahn's way: count users, and take who has none left."""
    users, stack = ({root: 0}, [root]) if root.tracked else ({}, [])
    while stack:
        for i in stack.pop().inputs:
            if i.tracked:
                if i not in users:
                    users[i] = 0
                    stack.append(i)
                users[i] += 1
    ready = [root] if root.tracked else []
    for node in ready:
        for i in node.inputs:
            if i.tracked:
                users[i] -= 1
                if not users[i]:
                    ready.append(i)
    yield from ready''',
    "GradStore": '''
class GradStore(dict):
    def accumulate(self, node, g):
        if np.shape(g) != node.value.shape:
            raise ValueError
        self[node] = np.add(self.get(node, 0.0), g)

    def take(self, node): return self.pop(node)

    def extend(self, other):
        for node in other:
            self.accumulate(node, other[node])''',
    "backward": '''
def backward(root, cotangent=None):
    seed = np.ones_like(root.value) if cotangent is None else np.array(cotangent, float)
    order, grads, store = list(sorted_nodes(root)), {root: seed}, GradStore()
    if not order:
        store.accumulate(root, seed)
    for node in order:
        g = grads.pop(node)
        if node.variable:
            store.accumulate(node, g)
            continue
        for k, i in enumerate(node.inputs):
            if i.tracked:
                share = RULES[node.op][k + 1](g, node.value, *[j.value for j in node.inputs], **node.params)
                grads[i] = grads[i] + share if i in grads else share
    return store''',
    "gradcheck": '''
def gradcheck(f, *arrays, step=1e-6, rng=0):
    """Relative to the larger of slope and gradient, with other random numbers than ours."""
    draw, worst = np.random.RandomState(rng), 0.0
    nodes = [Node(a, variable=True) for a in arrays]
    out = f(*nodes)
    v = draw.uniform(0.5, 2, out.value.shape) * draw.choice([-1.0, 1.0], out.value.shape)
    grads = backward(out, v)
    for k, node in enumerate(nodes):
        base, g = [np.array(a, float) for a in arrays], grads.get(node)
        for index, old in np.ndenumerate(base[k].copy()):
            base[k][index] = old + step
            up = (v * f(*map(Node, base)).value).sum()
            base[k][index] = old - step
            slope = (up - (v * f(*map(Node, base)).value).sum()) / 2 / step
            base[k][index] = old
            mine = 0.0 if g is None else g[index]
            worst = np.maximum(worst, abs(slope - mine) / max(abs(slope), abs(mine), 1e-8))
    return worst''',
}


ALSO_RIGHT = {
    "Node, one method for both sides": ("Node", lambda source: source.replace(
        "def __radd__(self, other):", "__radd__ = __add__\n    def _unused_add(self, other):").replace(
        "def __rmul__(self, other):", "__rmul__ = __mul__\n    def _unused_mul(self, other):")),
    "Node, one empty dict for all, which nobody can write to": ("Node", lambda source: (
        "import types\n" + source.replace("params or {}", "params or types.MappingProxyType({})"))),
    "gradcheck, inf for nan": ("gradcheck", lambda source: source.replace(
        "    return worst", "    return worst if worst == worst else np.inf")),
    "gradcheck, without a division": ("gradcheck", lambda source: source.replace(" / max(1, abs(slope))", "")),
    "gradcheck, all gaps and then the largest": ("gradcheck", lambda source: source.replace(
        "np.maximum(worst, ", "np.max([worst, ").replace("max(1, abs(slope)))", "max(1, abs(slope))])")),
    "GradStore, that gives copies": ("GradStore", lambda source: source.replace(
        "return self.grads[node]", "return self.grads[node].copy()")),
}


@pytest.mark.parametrize("case", ALSO_RIGHT)
def test_a_right_answer_with_another_line_is_not_refused(case):
    part, change = ALSO_RIGHT[case]
    source = CELLS[TASK_OF[part]].source.split("\n\n\ncheck(")[0]
    assert change(source) != source
    names = notebook(**{part: change(source)})
    result = api.check(TASK_OF[part], names[part], seed=3)
    assert result, result.text()


def test_no_sentence_of_a_fault_shows_a_placeholder():
    for letter in "abcdefgh":
        for fault in api.tasks()[f"17.{letter}"].faults:
            assert "{" not in fault.title + fault.look, fault.id  # only `why` is filled in


@pytest.mark.parametrize("longer_first", [True, False])
def test_our_backward_calls_a_partial_once_for_each_edge(longer_first):
    calls = []

    def counted(g, y, *values):
        calls.append(y)
        return g

    root = x = mini.Node(1.0, variable=True)
    for _ in range(30):
        way = mini.Node(1.0, "same", (root,))
        root = mini.Node(1.0, "add", (way, root) if longer_first else (root, way))
    with Engine(RULES={"same": (np.array, counted), "add": (np.add, counted, counted)}) as engine:
        assert engine.backward(root)[x] == 2.0**30 and len(calls) == 90


def test_our_gradcheck_does_not_take_a_nan_for_a_small_gap():
    with Engine(RULES={"tanh": (np.tanh, lambda g, y, a: g * [1, 1, np.nan])}) as engine:
        assert np.isnan(engine.gradcheck(lambda x: engine.apply("tanh", x), np.array([0.1, 0.2, 0.3])))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_in_another_style_passes(part):
    names = notebook(**{part: STYLES[part]})
    assert all(api.check(TASK_OF[part], names[part], seed=seed) for seed in range(10))
    assert not red(names)


def test_seven_parts_in_another_style_pass_together():
    made = board(notebook("", **STYLES))
    assert set(states_of(made).values()) == {"passed"} and "7 of 7" in made.headline


LOOPS = ('''
def train(params, batches, lr):
    nodes = [Node(p, variable=True) for p in params]
    for batch in batches:
        store = backward(loss_of(nodes, *batch))
        nodes = [Node(n.value - lr * store.get(n), variable=True) for n in nodes]
    return tuple(nodes)''', '''
def train(params, batches, lr):
    W1, b1, W2, b2 = map(np.array, params)
    for x, hot in batches:
        nodes = [Node(p, variable=True) for p in (W1, b1, W2, b2)]
        grads = backward(loss_of(nodes, x, hot))
        for p, node in zip((W1, b1, W2, b2), nodes):
            p -= lr * grads[node]
    return [W1, b1, W2, b2]''')


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("tasks", ["", "abc", "abcdefg"])
def test_a_training_loop_passes_on_any_engine_that_is_right(loop, tasks):
    names = notebook(tasks, loss=LOSS, train=loop)
    result = api.check("17.h", names["train"])
    assert result and f"{len(tasks)} of 7" in result.text()
    assert "20 pictures" in repr(reads(names))


def test_a_right_loop_on_a_wrong_engine_is_told_so():
    names = notebook(loss=LOSS, train=LOOPS[0], RULES='RULES["tanh"] = (np.tanh, lambda g, y, a: g)')
    result = api.check("17.h", names["train"])
    text = " ".join(result.text().split())
    assert result.status == WRONG and "With our parts your loop is right." in text and "training forgives" in text
    assert "board(globals())" in text
    names = notebook(loss=LOSS, train=LOOPS[0], backward="def backward(root, cotangent=None):\n    return root.lost")
    assert "With yours `train(params, batches, 0.5)` raised AttributeError" in " ".join(
        api.check("17.h", names["train"]).text().split())


def test_a_change_of_one_word_after_the_check_is_seen_by_the_next_one():
    names = notebook("d")
    assert api.check("17.d", names["sorted_nodes"])
    add(names, "again", "def sorted_nodes(root):\n    return [root]")
    assert not api.check("17.d", names["sorted_nodes"])


# Mixing


def test_in_a_block_the_names_mean_one_engine_and_after_it_what_they_meant_before():
    names = notebook("bd")
    names["record"] = ...
    before = {name: names.get(name, "absent") for name in PARTS}
    with Engine.of(names) as engine:
        assert names["record"] is OURS["record"] and mini.Node is names["Node"] is engine.Node
        node = eval("2 * Node(3.0, variable=True)", names)
        assert node.value == 6 and type(node) is names["Node"]
        with Engine():
            assert mini.Node is OURS["Node"]
        assert mini.Node is names["Node"]
    assert {name: names.get(name, "absent") for name in PARTS} == before
    assert all(getattr(mini, name) is OURS[name] for name in PARTS)


def test_an_error_in_a_block_leaves_nothing_behind():
    names = notebook("b")
    with pytest.raises(ZeroDivisionError), Engine.of(names):
        raise ZeroDivisionError
    assert mini.Node is OURS["Node"] and "record" not in names


def test_an_engine_takes_only_its_parts():
    with pytest.raises(TypeError, match="there is no part nodes; the parts are RULES, Node"):
        Engine(nodes=3)
    with pytest.raises(AttributeError, match="an engine has no train"):
        _ = Engine().train


def test_rules_may_be_written_one_by_one():
    engine = Engine(RULES={"add": ("mine",), "mul": ...})
    assert engine.RULES["add"] == ("mine",) and engine.RULES["mul"] is OURS["RULES"]["mul"]
    assert written("RULES", {"mul": ...}) is False and written("RULES", {"add": ("mine",)}) is True


@pytest.mark.parametrize("part", PARTS)
def test_stubs_and_our_own_parts_count_as_not_written(part):
    names = {"np": np}
    cell = generate_stub(part)
    exec(cell, names)
    assert not written(part, names[part]) and not written(part, OURS[part])
    for answer in (names[part], OURS[part]):
        assert api.check(TASK_OF[part], answer).status == NOT_STARTED


def generate_stub(part):
    from autodiff.course import generate

    source = CELLS[TASK_OF[part]].source
    region = generate.answer_of(source)
    lines = source[:region.start()] + region["indent"] + generate.stub_for(source)
    return lines.split("\n\n\ncheck(")[0]


def test_a_class_that_is_half_written_is_not_finished():
    names = notebook("", Node='''
class Node:
    def __init__(self, value, op=None, inputs=(), params=None, variable=False, name=None):
        self.value = np.array(value, dtype=float)
        self.value.flags.writeable = False
        self.op, self.inputs, self.params = op, tuple(inputs), params or {}
        self.variable, self.name = variable, name
        self.tracked = variable or any(i.tracked for i in self.inputs)
    def __add__(self, other): raise NotImplementedError''')
    assert api.check("17.b", names["Node"]).status == "not finished yet"


def test_what_is_borrowed_from_autodiff_is_found():
    names = {"__name__": "__main__", "np": np}
    exec("""
import autodiff as ad
from autodiff.course.capstone.mini import backward as theirs
def helper(a): return ad.exp(a)
def direct(root): return ad.sorted_nodes(root)
def hidden(root): return helper(root)
def local(root):
    from autodiff import sorted_nodes
    return sorted_nodes(root)
class Node(ad.Var): pass
class Inner:
    def sum(self): return theirs(self)
def clean(root): return np.sum(root)
""", names)
    assert borrowed_from(names["direct"]) == borrowed_from(names["hidden"]) == "ad"
    assert borrowed_from(names["local"]) == "autodiff" and borrowed_from(names["Node"]) == "Var"
    assert borrowed_from(names["Inner"]) == "theirs" and borrowed_from({"exp": (np.exp, names["hidden"])}) == "ad"
    assert borrowed_from(names["theirs"]) == "backward" and borrowed_from(names["clean"]) is None
    assert all(borrowed_from(notebook()[part]) is None for part in PARTS)


# Ways to our parts that no name in the code betrays: `ours()` is our part of the name `part`.
GET = {
    "sys.modules, in the call": """
import sys
ours = lambda: sys.modules["autodiff.course.capstone.engine"].OURS[part]""",
    "sys.modules, before it": """
import sys
kept = [sys.modules["autodiff.course.capstone.engine"].OURS]
ours = lambda: kept[0][part]""",
    "importlib": """
import importlib
ours = lambda: importlib.import_module("autodiff.course.capstone.engine").OURS[part]""",
    "__import__": """
ours = lambda: __import__("autodiff.course.capstone.engine", fromlist=["OURS"]).OURS[part]""",
    "the frames": """
import sys
def ours():
    frame = sys._getframe()
    while "OURS" not in frame.f_globals:
        frame = frame.f_back
    return frame.f_globals["OURS"][part]""",
}
AS_A_PART = {
    "RULES": """
def borrowed(op, k):
    return lambda *given, **named: ours()[op][k](*given, **named)
RULES = {"add": (np.add, borrowed("add", 1), borrowed("add", 2)), "tanh": (np.tanh, borrowed("tanh", 1)),
         "mul": (np.multiply, borrowed("mul", 1), borrowed("mul", 2))}""",
    "Node": """
class Node:
    __array_ufunc__ = None
    def __init__(self, *given, **named): self.__dict__.update(vars(ours()(*given, **named)))
    def sum(self, axis=None): return record("sum", self, axis=axis)
for op in ("add", "sub", "mul", "matmul"):
    setattr(Node, f"__{op}__", lambda self, other, op=op: record(op, self, other))
    setattr(Node, f"__r{op}__", lambda self, other, op=op: record(op, other, self))""",
    "GradStore": """
class GradStore:
    def __init__(self): self.inner = ours()()
    def __getattr__(self, name): return getattr(self.inner, name)
    def __getitem__(self, node): return self.inner[node]
    def __contains__(self, node): return node in self.inner
    def __len__(self): return len(self.inner)""",
    **{part: f"""
def {part}(*given, **named):
    return ours()(*given, **named)""" for part in ("record", "sorted_nodes", "backward", "gradcheck")},
}  # fmt: skip


def borrowing(part, way, tasks="", **sources):
    return notebook(tasks, part=f"part = {part!r}", way=GET[way], borrowed=AS_A_PART[part], **sources)


@pytest.mark.parametrize("way", GET)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_ours_that_is_reached_in_another_way_is_found(part, way):
    result = api.check(TASK_OF[part], borrowing(part, way)[part])
    assert result.fault == "engine-inside", result.text()


DISGUISES = {
    "a closure": """
def hide(f):
    return lambda *given: f(*given)
sorted_nodes = hide(OURS["sorted_nodes"])""",
    "a default value": """
def sorted_nodes(root, theirs=OURS["sorted_nodes"]):
    return theirs(root)""",
    "a partial": """
import functools
sorted_nodes = functools.partial(OURS["sorted_nodes"])""",
    "an object that is called": """
class Sorter:
    def __init__(self, f): self.f = f
    def __call__(self, root): return self.f(root)
sorted_nodes = Sorter(OURS["sorted_nodes"])""",
    "its code under another name": """
def sorted_nodes(root): pass
sorted_nodes.__code__ = OURS["sorted_nodes"].__code__.replace(co_filename="mine")""",
    "an attribute": """
def sorted_nodes(root): return sorted_nodes.theirs(root)
sorted_nodes.theirs = OURS["sorted_nodes"]""",
    "another thread": """
import threading
def sorted_nodes(root):
    made = []
    thread = threading.Thread(target=lambda: made.append(OURS["sorted_nodes"](root)))
    thread.start()
    thread.join()
    return made[0]""",
    "a watch that is switched off": """
import sys
def sorted_nodes(root):
    sys.setprofile(None)
    return OURS["sorted_nodes"](root)""",
    "a function of another exercise": """
def sorted_nodes(root):
    return [node for node in elsewhere[0](root) if node.tracked]""",
}


@pytest.mark.parametrize("way", DISGUISES)
def test_a_part_of_ours_in_disguise_is_found(way):
    names = {"__name__": "__main__", "OURS": dict(OURS), "elsewhere": [users_first]}
    add(names, "disguise", DISGUISES[way])
    result = api.check("17.d", names["sorted_nodes"])
    assert result.fault == "engine-inside", result.text()


ENGINE_AT_WORK = """
import sys
theirs = lambda: sys.modules["autodiff"]
RULES = {"tanh": (np.tanh, lambda g, y, a: theirs().vjp(np.tanh, a)[1](g)[0])}


def train(params, batches, lr):
    ad = theirs()
    variables = [ad.Var(p) for p in params]
    for x, hot in batches:
        W1, b1, W2, b2 = variables
        scores = np.tanh(x @ W1 + b1) @ W2 + b2
        grads = (-(ad.log_softmax(scores, axis=1) * hot).sum() / len(x)).backward()
        variables = [ad.Var(v.data - lr * grads[v].data) for v in variables]
    return [v.data for v in variables]
"""


def test_the_engine_at_work_inside_a_part_is_found():
    names = notebook("", ways=ENGINE_AT_WORK)
    for task, part in (("17.a", "RULES"), ("17.h", "train")):
        assert api.check(task, names[part]).fault == "engine-inside"


@pytest.mark.parametrize("way", ["sys.modules, in the call", "sys.modules, before it"])
@pytest.mark.parametrize("part", [part for part in PARTS if part != "gradcheck"])  # training needs no gradcheck
def test_a_training_loop_on_a_borrowed_part_does_not_pass_and_the_board_says_why(part, way):
    others = "".join(task[-1] for p, task in TASK_OF.items() if p != part)
    names = borrowing(part, way, others, loss=LOSS, train=LOOPS[0])
    result = api.check("17.h", names["train"])
    assert result.fault == "engine-inside", result.text()
    said = {line.test.what: line.why for line in lines_of(Engine.of(names))}
    assert said[WHAT["train"]].startswith("autodiff does the work, with `")


def test_a_training_loop_of_ours_is_found():
    names = notebook(loss=LOSS, box="box = []\ndef train(*given): return box[0](*given)")
    names["box"].append(_planted_training(""))
    assert api.check("17.h", names["train"]).fault == "engine-inside"


def test_a_watch_ends_with_its_block_also_after_an_error():
    before = sys.getprofile(), threading.getprofile()
    with pytest.raises(ZeroDivisionError), Watch() as watch:
        assert sys.getprofile() is not before[0]
        raise ZeroDivisionError
    assert (sys.getprofile(), threading.getprofile()) == before and watch.found is None


def test_a_class_of_ours_below_a_learners_one_is_not_touched():
    import autodiff.tensor

    names = {"__name__": "__main__"}
    exec("import autodiff as ad\nclass Node(ad.Var): pass", names)
    with Engine(Node=names["Node"]):
        assert "GradStore" not in vars(autodiff.tensor) or autodiff.tensor.GradStore is not mini.GradStore


# Random programs


def test_random_programs_reach_every_op_in_every_way():
    reached, axes, shared, absent, constants = [], set(), 0, 0, 0
    for program, _, grads in programs(0):
        first = len(program.leaves)
        needed, uses = {first + len(program.steps) - 1}, []
        for k in range(len(program.steps) - 1, -1, -1):
            op, operands, extra = program.steps[k]
            if first + k in needed:
                needed |= set(operands)
                uses += operands
                reached.append(op)
                axes |= {extra} if op == "sum" else set()
        shared += len(uses) > len(set(uses))
        absent += any(g is None for g in grads)
        constants += first - 1 in needed
    counts = {op: reached.count(op) for op in set(reached)}
    assert set(counts) == {"tanh", "exp", "log", "sum", "number", "matmul", "add", "sub", "mul"}
    assert min(counts.values()) >= 5 and axes == {None, 0, 1}
    assert shared > 10 and absent > 5 and constants > 5


def test_other_seeds_make_other_programs_and_our_engine_passes_them():
    assert str(programs(0)[0][0].steps) != str(programs(1)[0][0].steps)
    names = notebook("d")
    for seed in range(1, 6):
        assert all(line.state != "failed" for line in lines_of(Engine.of(names), seed)), seed


# Drawing


def square_of_sum(x, y):
    u = x * y + x
    return u * u


def test_the_graph_that_is_drawn_is_that_of_the_learners_engine():
    engine = Engine.of(notebook())
    assert "square_of_sum" in repr(engine.draw(square_of_sum, x=3.0, y=2.0))
    for shown in (engine.draw(square_of_sum, x=3.0, y=2.0), engine.step(square_of_sum, x=3.0, y=2.0)):
        assert "54" in repr(shown)
    unread = repr(engine.draw(lambda x, y: x * 2, x=[1.0, 2.0], y=3.0))
    assert "out" in unread and "y" not in unread.split("node")[1].split("shape")[0]


def test_a_drawing_of_a_broken_engine_is_a_page_that_says_so():
    stops = Engine.of(with_wrong(wrong_answer("17.d", "reversed")))
    assert "Your engine stopped" in repr(stops.draw(square_of_sum, x=3.0, y=2.0))
    other = Engine.of(with_wrong(wrong_answer("17.e", "overwrites")))
    assert "another gradient than its twin" in repr(other.step(square_of_sum, x=3.0, y=2.0))


def test_a_mirror_has_the_values_and_edges_of_the_graph():
    x, k = mini.Node([1.0, 2.0], variable=True, name="x"), mini.Node([3.0, 4.0])
    out = (x * k + x).sum()
    twins = mirror(out)
    assert twins[out].item() == out.value and twins[x].is_variable and not twins[k].tracked
    assert twins[out].backward()[twins[x]].data.tolist() == [4.0, 5.0]
    assert mirror(k)[k].data.tolist() == [3.0, 4.0]


def test_reads_says_what_is_missing():
    assert "Write `train` first." in repr(reads({}))
    assert "did not end with four arrays" in repr(reads({"train": lambda params, batches, lr: None}))
    assert PASSED == "passed"
