"""The tests that an engine of exercise 17 must pass, by lesson, and the board that shows them.

A test of one part runs this part with ours for the rest: a fault anywhere else cannot make it fail. The tests of the
whole run all parts together, and compare with `autodiff`. Every test says in one sentence what it found first.
"""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autodiff.course.capstone import training
from autodiff.course.capstone.bench import raised
from autodiff.course.capstone.engine import PARTS, Engine, watch_over
from autodiff.course.capstone.programs import on_nodes, programs
from autodiff.course.forms import apart, show
from autodiff.course.judge import Attempt, Run, run
from autodiff.course.result import NOT_STARTED, PASSED, Page, Table

OURS_NOTE = "ours"
TASK_OF = {part: f"17.{letter}" for part, letter in zip(PARTS, "abcdefg")}


class Failed(Exception):
    """What a test found, in one sentence."""


@dataclass(frozen=True)
class Test:
    """One line of the board.

    `part`: the only part it looks at, or None for all of them together. `prepare(seed)`: makes what `autodiff` says to
    it, before the learner's code has a budget.
    """

    lesson: str
    what: str
    part: str | None
    run: Callable
    prepare: Callable = lambda seed: None


def _nodes_of(engine, program):
    leaves = [engine.Node(a, variable=k < len(program.leaves) - 1) for k, a in enumerate(program.leaves)]
    return leaves, program.run(leaves, on_nodes(engine))


def _near(a, b) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=1e-9))


def _differs(got, want) -> str:
    return "{}; expected {}".format(*apart(np.asarray(got), np.asarray(want)))


def _of_program(number, step=None) -> str:
    return f"in program {number}" + (f", step {step}" if step is not None else "")


def values_of_programs(engine, seed):
    for number, (program, values, _) in enumerate(programs(seed)):
        for k, (node, want) in enumerate(zip(_nodes_of(engine, program)[1], values)):
            if not _near(node.value, want):
                at = k - len(program.leaves)
                op = program.steps[at][0] if at >= 0 else "a leaf"
                raise Failed(f"{_of_program(number, at)} ({op}): the value is "
                             f"{_differs(node.value, want)}.")


def order_of_programs(engine, seed):
    for number, (program, *_) in enumerate(programs(seed)):
        root = _nodes_of(engine, program)[1][-1]
        order = list(engine.sorted_nodes(root))
        place = {node: k for k, node in enumerate(order)}
        if not order or order[0] is not root:
            raise Failed(f"{_of_program(number)}: the root is not first.")
        if len(place) != len(order):
            raise Failed(f"{_of_program(number)}: {len(order) - len(place)} nodes stand there twice.")
        for node in order:
            for n in node.inputs:
                if n.tracked and n not in place:
                    raise Failed(f"{_of_program(number)}: an input of {node.op} is missing.")
                if n.tracked and place[n] < place[node]:
                    raise Failed(f"{_of_program(number)}: an input of {node.op} stands before it.")


def _compare_gradients(store, leaves, wants, where):
    for k, (leaf, want) in enumerate(zip(leaves, wants)):
        got = store.get(leaf)
        if (got is None) != (want is None):
            there, should = ("absent", "there") if got is None else ("there", "absent")
            raise Failed(f"{where}: the gradient of leaf {k} is {there}; it should be {should}.")
        if want is not None and not _near(got, want):
            raise Failed(f"{where}: the gradient of leaf {k} is {_differs(got, want)}.")
    if len(store) != sum(want is not None for want in wants):
        raise Failed(f"{where}: {len(store)} gradients are left; expected {sum(w is not None for w in wants)}.")


def gradients_of_programs(engine, seed):
    for number, (program, _, grads) in enumerate(programs(seed)):
        leaves, pool = _nodes_of(engine, program)
        store = engine.backward(pool[-1], program.seed_of_root.copy())
        _compare_gradients(store, leaves, grads, _of_program(number))


def linear_in_the_cotangent(engine, seed):
    for number, (program, *_) in enumerate(programs(seed)):
        leaves, pool = _nodes_of(engine, program)
        u, v = program.seed_of_root, program.other_seed
        of_u, of_v, of_both = (engine.backward(pool[-1], c) for c in (u.copy(), v.copy(), 2 * u - 3 * v))
        for k, leaf in enumerate(leaves):
            if leaf in of_both and not _near(of_both[leaf], 2 * of_u[leaf] - 3 * of_v[leaf]):
                raise Failed(f"{_of_program(number)}: the gradient of leaf {k} for 2u - 3v is not "
                             "2 times that for u minus 3 times that for v.")


def twice_the_same(engine, seed):
    for number, (program, *_) in enumerate(programs(seed)):
        leaves, pool = _nodes_of(engine, program)
        before = [np.array(node.value) for node in pool]
        first, second = (engine.backward(pool[-1]) for _ in range(2))
        for k, leaf in enumerate(leaves):
            if (leaf in first) != (leaf in second) or (leaf in first and not _near(first[leaf], second[leaf])):
                raise Failed(f"{_of_program(number)}: a second backward gives leaf {k} another gradient.")
        if not all(np.array_equal(node.value, value) for node, value in zip(pool, before)):
            raise Failed(f"{_of_program(number)}: a value is not what it was before backward.")


def differences_of_programs(engine, seed):
    # Slopes that are not small: a gap relative to the slope is a gap too.
    plain = [n for n, (*_, grads) in enumerate(programs(seed)) if all(g is None or np.min(np.abs(g)) > 0.02
                                                                       for g in grads)]
    for number in plain[:6]:
        program = programs(seed)[number][0]
        *variables, constant = program.leaves

        def f(*nodes):
            return program.run([*nodes, engine.Node(constant)], on_nodes(engine))[-1]

        gap = engine.gradcheck(f, *variables)
        if not abs(gap) < 1e-5:
            raise Failed(f"{_of_program(number)}: gradcheck finds a gap of {gap:.1g}.")


# The numbers of the lessons


def _expect(name, got, want):
    if got is None or not _near(got, want):
        shown = f"absent; expected {show(want)}" if got is None else _differs(got, want)
        raise Failed(f"the gradient of {name} is {shown}.")


def the_shared_node(engine, seed):
    x, y = engine.Node(3.0, variable=True), engine.Node(2.0, variable=True)
    u = x * y + x
    out = u * u
    if not _near(out.value, 81.0):
        raise Failed(f"(x*y + x)*(x*y + x) at x = 3, y = 2 has the value {_differs(out.value, 81.0)}.")
    grads = engine.backward(out)
    for name, leaf in (("x", x), ("y", y)):
        _expect(f"{name} in (x*y + x)*(x*y + x)", grads.get(leaf), 54.0)
    x = engine.Node(-3.0, variable=True)
    _expect("x in x*x at -3", engine.backward(x * x).get(x), -6.0)


def the_vector_jacobian_product(engine, seed):
    x, y = engine.Node(3.0, variable=True), engine.Node(2.0, variable=True)
    out = x * y * np.array([1.0, 0.0]) + (x * x + y) * np.array([0.0, 1.0])
    for v in ([1.0, 0.0], [0.0, 1.0], [2.0, 3.0]):
        grads = engine.backward(out, np.array(v))
        _expect(f"x in (x*y, x*x + y) for v = {v}", grads.get(x), v[0] * 2.0 + v[1] * 6.0)
        _expect(f"y in (x*y, x*x + y) for v = {v}", grads.get(y), v[0] * 3.0 + v[1])


_XS = np.array([[1, -2], [0.5, 3], [-1, 0.25], [2, 2.0]])
_W = np.array([[0.1, -0.3, 0.2], [0.7, 0.05, -0.4]])
_B = np.array([0.01, -0.02, 0.03])
_W_GRAD = np.array([[-0.022252, -2.686380, -0.424579], [1.790514, -0.126415, -4.387318]])
_B_GRAD = np.array([0.092104, -0.923299, -1.083957])


def the_checked_layer(engine, seed):
    def layer(w, b):
        h = engine.apply("tanh", _XS @ w + b)
        return (h * h).sum()

    w, b = engine.Node(_W, variable=True), engine.Node(_B, variable=True)
    grads = engine.backward(layer(w, b))
    for name, leaf, want in (("w", w, _W_GRAD), ("b", b, _B_GRAD)):
        got = grads.get(leaf)
        if got is None or np.shape(got) != want.shape or not np.allclose(got, want, rtol=0, atol=1e-6):
            _expect(f"{name} in sum(tanh(xs @ w + b)**2)", got, want)
    gap = engine.gradcheck(layer, _W, _B)
    if not abs(gap) < 1e-6:
        raise Failed(f"gradcheck finds a gap of {gap:.1g} in sum(tanh(xs @ w + b)**2).")


def the_classifier(engine, seed):
    params = training.train_with(engine)
    for name, got, want in zip(("W1", "b1", "W2", "b2"), params, training.right_params()):
        if not np.allclose(got, want, rtol=0, atol=1e-6):
            right = training.share_right(params)
            reads = "the digits are read all the same" if right > training.ENOUGH else "it does not read the digits"
            raise Failed(f"after training {name} differs from the one that autodiff finds; {reads}.")


# The suite


def _of_part(part):
    def test(engine, seed):
        from autodiff.course.api import tasks

        task = tasks()[TASK_OF[part]]
        try:
            result = task.judge(Attempt(task, (engine.given[part],), seed))
        except Exception as error:
            raise Failed(f"the test itself broke, please report it: {type(error).__name__}: {error}.") from error
        if result.status == PASSED:
            return
        if result.status == NOT_STARTED:
            raise Failed("it raises NotImplementedError somewhere: it is not finished.")
        title = result.headline.partition(": ")[2]
        raise Failed(f"{title}." if title else result.body[0].strip())

    return test


SUITE = (
    Test("02", "a node has its value and how it was made", "Node", _of_part("Node")),
    Test("02", "what is recorded, and what is not", "record", _of_part("record")),
    Test("03", "users before inputs, each once, at any depth", "sorted_nodes", _of_part("sorted_nodes")),
    Test("04", "each rule against the right one", "RULES", _of_part("RULES")),
    Test("05", "one pass: seed, take, rule, accumulate", "backward", _of_part("backward")),
    Test("06", "the store adds, and writes into no array", "GradStore", _of_part("GradStore")),
    Test("10", "it rings for planted faults, and only for them", "gradcheck", _of_part("gradcheck")),
    Test("01", "the shared node: 54 and 54, and -6 for x*x", None, the_shared_node),
    Test("02", "random programs: the values of autodiff", None, values_of_programs, programs),
    Test("03", "random programs: users before inputs", None, order_of_programs, programs),
    Test("05", "(x*y, x*x + y) with three cotangents", None, the_vector_jacobian_product),
    Test("05", "random programs: the gradients of autodiff, or absent", None, gradients_of_programs, programs),
    Test("05", "random programs: linear in the cotangent", None, linear_in_the_cotangent, programs),
    Test("06", "random programs: twice the same, nothing written", None, twice_the_same, programs),
    Test("10", "the layer of lesson 10, to the last digit", None, the_checked_layer),
    Test("10", "random programs: gradcheck finds no gap", None, differences_of_programs, programs),
    Test("14", "the classifier learns what it learns with autodiff", None, the_classifier,
         lambda seed: training.right_params()),
)


@dataclass(frozen=True)
class Line:
    """What one test said: `state` is "passed", "failed" or "ours"."""

    test: Test
    state: str
    why: str = ""


def lines_of(engine: Engine, seed: int = 0) -> list[Line]:
    """Run the suite on an engine."""
    return [_line(test, engine, seed) for test in SUITE]


def _line(test: Test, engine: Engine, seed: int) -> Line:
    if not engine.yours or (test.part and test.part not in engine.yours):
        return Line(test, OURS_NOTE)
    if test.part:
        try:
            test.run(engine, seed)
        except Failed as failed:
            return Line(test, "failed", str(failed))
        return Line(test, "passed")
    test.prepare(seed)
    with engine, np.errstate(all="ignore"), watch_over(engine, engine.yours) as watch:
        ran = run(lambda: test.run(engine, seed), lines=1_000_000)
    why = f"autodiff does the work, with `{watch.found}`." if watch.found else _why(ran)
    return Line(test, "failed" if why else "passed", why)


def _why(ran: Run) -> str:
    if ran.ended == "returned":
        return ""
    if isinstance(ran.error, Failed):
        return str(ran.error)
    if ran.ended in ("raised", "not started"):
        return f"a part {raised(ran)}."
    return {"recursion": "a part called itself too deeply.", "memory": "it needs too much memory.",
            "interrupted": "it was interrupted."}.get(ran.ended, "it was stopped: it might never have ended.")


class Board(Page):
    """A page whose table has sentences in the last column."""

    def text(self) -> str:
        """As a page, with the last column wrapped under itself."""
        left = [max(map(len, column)) for column in list(zip(self.table.header, *self.table.rows))[:-1]]
        start = sum(left) + 2 * len(left)
        rows = []
        for row in (self.table.header, *self.table.rows):
            cells = "".join(cell.ljust(width) + "  " for cell, width in zip(row, left))
            first, *more = textwrap.wrap(row[-1], max(30, 118 - start)) or [""]
            rows += [(cells + first).rstrip(), *(" " * start + line for line in more)]
        rows.insert(1, "-" * max(map(len, rows)))
        return "\n\n".join([self.headline, *self.body, textwrap.indent("\n".join(rows), "  "), *self.after])


def run_suite(engine: Engine, seed: int = 0) -> Board:
    """The board of an engine."""
    lines = lines_of(engine, seed)
    failed = [line for line in lines if line.state == "failed"]
    right = [line.test.part for line in lines if line.test.part and line.state == "passed"]
    body = [f"Yours: {', '.join(engine.yours) or 'nothing yet'}.",
            *([f"Ours: {', '.join(p for p in PARTS if p not in engine.yours)}."] if len(engine.yours) < 7 else [])]
    rows = tuple((line.test.lesson, line.test.part or "all parts", line.test.what,
                  line.state + (f": {line.why}" if line.why else "")) for line in lines)
    if not engine.yours:
        after = ["Write a part, and run this cell again."]
    elif failed:
        first = failed[0]
        after = [f'Begin with the first line that failed. check("{TASK_OF[first.test.part]}", {first.test.part}) '
                 "says more." if first.test.part else
                 "Each of your parts passes alone, and together they fail: please report this, with your parts."]
    elif len(right) == len(PARTS):
        after = ["Nothing of ours is left in this engine."]
    else:
        after = ["All that is yours passes. You may stop here: what is not written stays ours."]
    headline = f"Board: {len(right)} of {len(PARTS)} parts are yours and right"
    return Board(headline, body, Table(("lesson", "part", "what is tested", "result"), rows), after)
