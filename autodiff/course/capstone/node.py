"""A node: each question has a fault of its own."""

import numpy as np

from autodiff.course.capstone.bench import ENGINE_INSIDE, Bench, MiniNode, generator, told
from autodiff.course.capstone.engine import Engine
from autodiff.course.forms import same
from autodiff.course.judge import Fault
from autodiff.course.result import Table, safe_repr


FAULTS = (
    Fault("attribute-missing", "an attribute is missing",
          "A node has no `{attribute}`. It has value, op, inputs, params, variable, name and tracked.",
          "the lines of __init__."),
    Fault("not-float64", "the value is no array of float64",
          "All of our values are NumPy arrays of float64: integers would be cut off, and a list knows no arithmetic.",
          "how the value is made: np.array with a dtype."),
    Fault("froze-the-array", "the array that was handed in cannot be written to any more",
          "The node took the caller's own array and made it read-only. The array belongs to somebody else.",
          "np.asarray does not copy. What does?"),
    Fault("writeable", "the value can be overwritten",
          "`node.value[0] = 7` was accepted. The partials of every node above were to use this value: after such a "
          "line they use another one.",
          "the flag `writeable` of an array."),
    Fault("shared-array", "the value is the caller's own array",
          "After `Node(array)` a write into `array` changed the node. Its value must not change.",
          "np.asarray does not copy. What does?"),
    Fault("slots-merged", "two slots with the same node have become one",
          "In x * x both slots hold x, and each has a share of its own. A set or a dict keeps x once.",
          "how `inputs` is kept."),
    Fault("inputs-form", "`inputs` is no tuple with one entry for each slot",
          "`inputs` is a tuple: it does not change, and it has one entry for each operand slot, in order.",
          "how `inputs` is kept; tuple(...) makes a tuple of any sequence."),
    Fault("attribute-wrong", "an attribute has another value than it was given",
          "`{attribute}` is {got}; expected {want}.",
          "the line of __init__ that sets it, and its default."),
    Fault("tracked-variables", "only variables are tracked",
          "A result of a variable must be tracked too, or nothing above it is recorded.",
          "the two ways to be tracked: being a variable, or having a tracked input."),
    Fault("tracked-ops", "every result is tracked",
          "A result of constants alone leads to no variable. It has an op, and is not tracked.",
          "the two ways to be tracked: being a variable, or having a tracked input."),
    Fault("tracked-all", "a node is tracked only when all its inputs are",
          "In w * 2 one input is a constant, and w still wants a gradient. One tracked input is enough.",
          "any and all."),
    Fault("tracked-always", "every node is tracked",
          "A constant leads to no variable, and neither does a result of constants alone. Nothing is to be done for "
          "them on the way back.",
          "what your question answers for a constant, which has no inputs."),
    Fault("tracked-method", "`tracked` is a method",
          "`node.tracked` gives a method, which counts as true for every node. The other parts read it as an "
          "attribute, without brackets.",
          "the line where `tracked` gets its value. In a class, @property above a method makes an attribute of it."),
    Fault("shared-params", "two nodes share one dict of params",
          "Something was written into the params of one node, and a second node, made without params too, has it as "
          "well. A dict as a default argument is made once for all calls.",
          "the line of __init__ that sets params, and the default in its first line."),
    Fault("tracked-one-step", "only the direct results of variables are tracked",
          "Your node asks its inputs whether they are *variables*. Two steps above a variable nothing is tracked.",
          "which attribute of the inputs is asked for."),
    Fault("tracked-first", "only the first input is asked",
          "A constant plus a variable is tracked as well: the variable stands in slot 2.",
          "the inputs after the first one."),
    Fault("not-identity", "nodes are not told apart by identity",
          "Two variables may have equal values, and they are two nodes. A store uses nodes as keys, so they must be "
          "hashable, and equal only to themselves.",
          "a method __eq__ or __hash__, or @dataclass. A plain class compares by identity."),
    Fault("array-takes-over", "an array on the left takes the node apart",
          "NumPy believes that a node is one of many objects and handles each entry of the array alone. "
          "The line `__array_ufunc__ = None` in the class makes it leave the work to the node.",
          "lesson 16, the text above the class."),
    Fault("operator-missing", "an operator is missing",
          "`{expression}` found no method for it. `+ - * @` work with a node on either side, and a node has a `sum`.",
          "the methods __add__ and __radd__, and so on for - * @; and sum."),
    Fault("not-recorded", "an operator does not call `record`",
          "`{expression}` was computed without `record`. Then nobody remembers how.",
          "the body of this method: one line, with record(...)."),
    Fault("operator-returns-nothing", "an operator returns nothing",
          "`{expression}` called `record` and returned None.",
          "the word return in this method."),
    Fault("operands-swapped", "the two operands are swapped",
          "`{expression}` called `{said}`. In a method such as __rsub__ the node itself stands on the *right*.",
          "the order of self and other in the methods that begin with __r."),
    Fault("axis-not-passed", "`sum` does not pass its axis on",
          "`{expression}` called `{said}`, without the axis.",
          "the params of record: axis=axis."),
    Fault("other-call", "an operator calls `record` with something else",
          "`{expression}` called `{said}`.",
          "the name of the op and the operands in this method."),
    ENGINE_INSIDE,
)


class _Calls:
    """A `record` that only notes how it is called."""

    def __init__(self):
        self.seen = []
        self.result = MiniNode(0.0)

    def __call__(self, op, *inputs, **params):
        self.seen.append((op, inputs, params))
        return self.result


_OPERATORS = (
    ("a + b", lambda a, b: a + b, "add"), ("a - b", lambda a, b: a - b, "sub"), ("a * b", lambda a, b: a * b, "mul"),
    ("a @ b", lambda a, b: a @ b, "matmul"),
)


def _is(got, want) -> bool:
    """Whether an operand is the one that is wanted; a node made of a number or array is this number or array."""
    if got is want:
        return True
    if hasattr(want, "tracked"):
        return False
    got = getattr(got, "value", got)
    return not hasattr(got, "tracked") and same(got, want)


def _tracked_cases(make):
    """[(in words, node, whether it is tracked)]."""
    x, k = make(1.0, variable=True), make(2.0)
    mid = make(3.0, "exp", (x,))
    return [("a variable", x, True), ("a constant", k, False), ("exp of a variable", mid, True),
            ("exp of a constant", make(4.0, "exp", (k,)), False), ("exp of exp of a variable",
                                                                   make(5.0, "exp", (mid,)), True),
            ("a constant plus a variable", make(6.0, "add", (k, x)), True),
            ("a variable plus a constant", make(7.0, "add", (x, k)), True),
            ("a constant plus a constant", make(8.0, "add", (k, k)), False)]


_WRONG_TRACKED = (
    ("tracked-variables", lambda op, inputs, variable: variable),
    ("tracked-ops", lambda op, inputs, variable: variable or op is not None),
    ("tracked-all", lambda op, inputs, variable: variable or (bool(inputs) and all(i.tracked for i in inputs))),
    ("tracked-always", lambda op, inputs, variable: True),
    ("tracked-one-step", lambda op, inputs, variable: variable or any(i.variable for i in inputs)),
    ("tracked-first", lambda op, inputs, variable: variable or (bool(inputs) and inputs[0].tracked)),
)


def _make_with(rule):
    class Planted:
        def __init__(self, value, op=None, inputs=(), params=None, variable=False, name=None):
            self.variable, self.tracked = variable, bool(rule(op, inputs, variable))

    return Planted


def probe(bench: Bench) -> Table:
    """The value, the attributes, the question of being tracked, identity, and operators that call `record`."""
    Node = bench.part

    def make(text, *args, **params):
        return bench.call(f"Node({text})", Node, *args, errors=[(AttributeError, "attribute-missing")]
                          if "inputs" in text else (), **params)

    source = generator(bench).integers(1, 9, (2, 2))
    text = str(source.tolist())
    node = make(text, source.tolist())
    for name in ("value", "op", "inputs", "params", "variable", "name", "tracked"):
        if bench.run(getattr, node, name).ended != "returned":
            bench.fault("attribute-missing", [], attribute=name)
    if callable(node.tracked):
        bench.fault("tracked-method", [])
    value = node.value
    if not isinstance(value, np.ndarray) or value.dtype != np.float64:
        got = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else safe_repr(value, 40)
        bench.fault("not-float64", [f"`Node({text}).value` is {got}."])
    if not np.array_equal(value, source):
        bench.unknown(f"`Node({text}).value` is {safe_repr(value, 60)}.")
    scalar = make("3.0", 3.0)
    if np.shape(scalar.value) != ():
        bench.unknown(f"`Node(3.0).value` has the shape {np.shape(scalar.value)}; expected ().")
    mine = np.array([1.0, 2.0])
    node = make("array", mine)
    if not mine.flags.writeable:
        bench.fault("froze-the-array", [])
    try:
        node.value[0] = 7.0
        bench.fault("writeable", [])
    except (ValueError, RuntimeError):
        pass
    mine[0] = 7.0
    if node.value[0] == 7.0:
        bench.fault("shared-array", [])

    x, y = make("1.0, variable=True", 1.0, variable=True), make("2.0", 2.0)
    made = make('3.0, "mul", inputs=[x, x], params={"axis": 1}, name="m"', 3.0, "mul", [x, x], {"axis": 1}, name="m")
    inputs = made.inputs
    if isinstance(inputs, (tuple, list, set, frozenset)) and len(inputs) == 1:
        bench.fault("slots-merged", [f"With `inputs=[x, x]` the attribute `inputs` has {len(inputs)} entry."])
    if not isinstance(inputs, tuple) or len(inputs) != 2 or any(n is not x for n in inputs):
        bench.fault("inputs-form", [f"With `inputs=[x, x]` the attribute `inputs` is {safe_repr(inputs, 60)}."])
    defaults = make('4.0, "exp", inputs=(x,)', 4.0, "exp", (x,))
    wants = (("op", made.op, "mul"), ("params", made.params, {"axis": 1}), ("name", made.name, "m"),
             ("variable", made.variable, False), ("variable", x.variable, True), ("params", defaults.params, {}),
             ("inputs", y.inputs, ()), ("op", y.op, None), ("name", y.name, None))
    for attribute, got, want in wants:
        if not same(got, want) and got != want:
            bench.fault("attribute-wrong", [], attribute=attribute, got=safe_repr(got, 40), want=want)
    _probe_params(bench, defaults, y)

    cases = bench.call("the nodes of a small graph", _tracked_cases, Node)
    said = [bool(node.tracked) for _, node, _ in cases]
    rows = tuple((text, str(want), str(got)) for (text, _, want), got in zip(cases, said))
    if said != [want for *_, want in cases]:
        table = Table(("node", "tracked", "yours"), rows)
        for fault, rule in _WRONG_TRACKED:
            if said == [node.tracked for _, node, _ in _tracked_cases(_make_with(rule))]:
                bench.fault(fault, [], table)
        text = next(row[0] for row in rows if row[1] != row[2])
        bench.unknown(f"`tracked` differs for {text}.", table=table)

    twin = make("1.0, variable=True", 1.0, variable=True)
    keyed = bench.run(lambda: ({x: "x", twin: "twin"}, x == x, x == twin))
    if keyed.ended != "returned" or len(keyed.value[0]) != 2 or keyed.value[1] is not True or (
            keyed.value[2] is not False):
        shown = [told("{x: ..., twin: ...}", keyed)] if keyed.ended != "returned" else []
        bench.fault("not-identity", shown)
    _probe_operators(bench, make("[1.0, 2.0], variable=True", [1.0, 2.0], variable=True), make("[3.0, 4.0]", [3., 4.]))
    return Table(("node", "tracked", "yours"), rows)


def _probe_params(bench, first, second):
    mark = object()
    try:
        first.params[mark] = mark
        shared = mark in second.params
        del first.params[mark]
    except Exception:  # params that nobody can write to may be shared
        return
    if shared:
        bench.fault("shared-params", [])


def _probe_operators(bench, a, b):
    array = np.array([5.0, 6.0])
    for text, operator, op in _OPERATORS:
        sign = text[2]
        tries = [(text, a, b), (f"a {sign} 2.0", a, 2.0), (f"2.0 {sign} a", 2.0, a), (f"a {sign} array", a, array),
                 (f"array {sign} a", array, a)]
        for shown, left, right in tries:
            calls = _Calls()
            engine = Engine(Node=bench.part, record=calls)
            ran = bench.run(operator, left, right, engine=engine)
            if left is array and (ran.ended == "raised" or isinstance(ran.value, np.ndarray) or len(calls.seen) > 1):
                got = told(shown, ran) if ran.ended == "raised" else f"`{shown}` gave {safe_repr(ran.value, 60)}."
                bench.fault("array-takes-over", [got])
            if ran.ended == "raised" and isinstance(ran.error, TypeError) and "operand" in str(ran.error):
                bench.fault("operator-missing", [told(shown, ran)], expression=shown)
            bench.call(shown, operator, left, right, engine=engine)
            if not calls.seen:
                bench.fault("not-recorded", [], expression=shown)
            _check_call(bench, shown, calls, op, (left, right))
    for axis, text in ((None, "a.sum()"), (0, "a.sum(axis=0)")):
        calls = _Calls()
        engine = Engine(Node=bench.part, record=calls)
        params = {} if axis is None else {"axis": axis}
        ran = bench.run(lambda: a.sum(**params), engine=engine)
        if isinstance(ran.error, AttributeError) and "'sum'" in str(ran.error):
            bench.fault("operator-missing", [told(text, ran)], expression=text)
        bench.call(text, lambda: a.sum(**params), engine=engine)
        if not calls.seen:
            bench.fault("not-recorded", [], expression=text)
        _check_call(bench, text, calls, "sum", (a,), {"axis": axis})


def _check_call(bench, shown, calls, op, operands, params=None):
    got_op, inputs, got_params = calls.seen[0]
    said = f'record({", ".join([repr(got_op), *map(_name_operand(operands), inputs)])}'
    said += "".join(f", {k}={v}" for k, v in got_params.items()) + ")"
    if bench.last.value is None:
        bench.fault("operator-returns-nothing", [], expression=shown)
    if bench.last.value is not calls.result:
        bench.unknown(f"`{shown}` called `{said}`, and returned something else than what `record` returned.")
    agree = len(inputs) == len(operands) and all(map(_is, inputs, operands))
    if op in ("add", "mul") and not hasattr(operands[0], "tracked") and len(inputs) == 2:
        # For a number on the left, __radd__ = __add__ does as well: the slots change places, and the shares with them.
        agree = agree or all(map(_is, inputs[::-1], operands))
    if got_op == op and agree and (params is None or (got_params or {"axis": None}) == params):
        return
    words = dict(expression=shown, said=said)
    if got_op == op and len(inputs) == 2 == len(operands) and all(map(_is, inputs[::-1], operands)):
        bench.fault("operands-swapped", [], **words)
    if got_op == op == "sum" and agree:
        bench.fault("axis-not-passed", [], **words)
    bench.fault("other-call", [], **words)


def _name_operand(operands):
    def name(value):
        for operand, word in zip(operands, ("left", "right")):
            if value is operand and hasattr(value, "tracked"):
                return f"the {word} node" if len(operands) == 2 else "the node"
        return safe_repr(getattr(value, "value", value), 30)

    return name
