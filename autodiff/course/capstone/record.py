"""`record`: one call after the other, from a plain product to constants alone."""

import numpy as np

from autodiff.course.capstone.bench import ENGINE_INSIDE, Bench, MiniNode, generator, leaf, numbers, told
from autodiff.course.capstone.engine import Engine
from autodiff.course.forms import NO_RETURN, apart, show
from autodiff.course.judge import Fault
from autodiff.course.result import Table, safe_repr


FAULTS = (
    NO_RETURN,
    Fault("not-a-node", "the result is no node",
          "`{call}` returned {got}. `record` returns a Node, whose value is what the forward gave.",
          "the last line."),
    Fault("history-lost", "nothing is remembered",
          "`{call}` has neither op nor inputs, and x is a variable.",
          "the arguments of Node(...) when an input is tracked."),
    Fault("result-is-variable", "the result is marked as a variable",
          "`{call}` is a result. Variables are what the user wants gradients of; a result is tracked through its "
          "inputs.",
          "the argument `variable` of Node(...)."),
    Fault("number-not-wrapped", "a number or an array has not become a node",
          "In `{call}` one operand is a plain number or array. It must become a constant, a Node that is no variable, "
          "before anything else is done with it.",
          "the first line of `record`: what are the inputs that are no nodes?"),
    Fault("constant-dropped", "a constant is missing among the inputs",
          "`{call}` remembers {count} of its two operands. A constant sends nothing further back, and it has a slot "
          "all the same: the slots and the partials are counted off side by side, and the partial of the other slot "
          "needs its value.",
          "what is left out between the operands and Node(...)."),
    Fault("number-tracked", "a number has become a variable",
          "In `{call}` the plain operand is tracked. Nobody wants its gradient.",
          "the argument `variable` where constants are made."),
    Fault("no-broadcast", "no broadcast is recorded",
          "In `{call}` the shapes differ, and NumPy copied in silence. Nobody will sum over the copies on the way "
          "back.",
          "np.broadcast_shapes gives the common shape. Which operands do not have it?"),
    Fault("one-side", "only one of the operands is broadcast",
          "In `{call}` the operand in slot {slot} has another shape than the result, and no node of its own makes it "
          "fit. It may be either of them, or both.",
          "the operands that are looked at: all of them?"),
    Fault("to-the-other", "an operand is broadcast to a shape that it cannot have",
          "In `{call}` the shapes are (3,) and (2, 3), in this order or the other. Copying makes (2, 3) of (3,), and "
          "nothing makes (3,) of (2, 3). Either operand may be the one that has to grow.",
          "the shape that you broadcast to: whose is it?"),
    Fault("not-every-op", "one of add, sub, mul is not broadcast",
          "In `{call}` no broadcast is recorded. Missing for: {ops}.",
          "the list of ops at this place."),
    Fault("broadcast-cut", "the copying is not recorded",
          "In `{call}` the operand has got the right shape, and the way back to it is lost: its new node is no "
          "`broadcast` of it.",
          "how the operand of the right shape is made. `record` itself can do this."),
    Fault("broadcast-params", "the broadcast does not know its shape",
          "In `{call}` the params of the broadcast node are {got}; expected the shape {shape} under the name `shape`.",
          "the call that records the broadcast."),
    Fault("matmul-broadcast", "`matmul` is broadcast like add",
          "In `{call}` the operands have different shapes, as they must in a matrix product. Only add, sub and mul "
          "work entry by entry.",
          "for which ops the shapes are made equal."),
    Fault("needless-broadcast", "operands that fit are broadcast too",
          "In `{call}` the shapes are equal, and there is a broadcast node all the same.",
          "the question that comes before a broadcast: does the shape differ?"),
    Fault("params-not-used", "the forward does not get the params",
          "In `{call}` a forward was called without its params.",
          "the call of RULES[op][0]."),
    Fault("params-lost", "the params are not remembered",
          "`{call}.params` is {got}. The partial of `sum` will need the axis on the way back.",
          "the arguments of Node(...)."),
    Fault("constants-recorded", "a result of constants alone is remembered",
          "`{call}` has the op {got} and {count} inputs. No variable stands below it, so no gradient will ever pass "
          "here: it is a constant too.",
          "what is returned when no input is tracked."),
    Fault("asks-variable", "a result of a result is not remembered",
          "In `{call}` h is exp of a variable: it is tracked, and no variable itself. Your `record` asks for "
          "variables.",
          "which attribute of the inputs is asked for."),
    Fault("needs-all-tracked", "a result is remembered only when all inputs are tracked",
          "In `{call}` k is a constant and x a variable. One tracked input is enough.",
          "any and all."),
    Fault("own-table", "`record` does not look into RULES",
          "The check put an op of its own into RULES, and `record` does not know it. New ops must need no change here.",
          "where the forward comes from: RULES[op][0]."),
    Fault("whole-rule", "the rule is called as if it were the forward",
          "In `{call}` the entry of RULES was called. It is a tuple: the forward stands first, then the partials.",
          "RULES[op][0]."),
    Fault("common-shape", "the common shape is another one",
          "In `{call}` the shapes are (2, 1) and (3,), and both grow: the result has the shape (2, 3), which neither "
          "of them has.",
          "np.broadcast_shapes."),
    Fault("broadcast-lost", "the broadcast operand is an array",
          "In `{call}` the operand was copied to the right shape and became a plain array on the way. It must be a "
          "node, and remember where it came from.",
          "the line that makes the right shape. `record` itself can do this."),
    Fault("values-for-nodes", "the inputs are values, not nodes",
          "`{call}` remembers arrays. The way back goes from node to node.",
          "the arguments of Node(...): which list holds the nodes?"),
    Fault("slots-merged", "a slot is lost",
          "In `{call}` both slots hold the same node, and each has a share of its own.",
          "a set or a dict of inputs. A list keeps both."),
    Fault("order-turned", "the slots are in the wrong order",
          "The partials stand in the order of the slots, and `{call}` turned it round.",
          "what reverses the inputs."),
    Fault("copies", "the inputs are copies",
          "`{call}` remembers nodes that are not x and y themselves. The gradients would go to the copies.",
          "whether Node(...) is called for something that is a node already."),
    ENGINE_INSIDE,
)


def _shape_of(node):
    return np.shape(node.value)


def probe(bench: Bench) -> Table:
    """One call after the other, from a plain product to constants alone."""
    record, rng = bench.part, generator(bench)
    x, y = leaf("x", numbers(rng, 3)), leaf("y", numbers(rng, 3))

    def call(text, *args, **params):
        node = bench.call(text, record, *args, errors=_record_errors(text), **params)
        if node is None:
            bench.fault("no-return", [], call=text)
        if not isinstance(node, MiniNode):
            bench.fault("not-a-node", [], call=text, got=safe_repr(node, 60))
        return node

    text = 'record("mul", x, y)'
    node = call(text, "mul", x, y)
    if not np.array_equal(node.value, x.value * y.value):
        bench.unknown(f"`{text}.value` is {safe_repr(node.value, 60)}; expected {safe_repr(x.value * y.value)}.",
                      look="The forward is `RULES[op][0]`, and it gets the values of the inputs, in order.")
    if node.op is None and not node.inputs:
        bench.fault("history-lost", [], call=text)
    _check_inputs(bench, text, node, (x, y))
    if node.op != "mul":
        bench.unknown(f"`{text}.op` is {safe_repr(node.op)}; expected 'mul'.")
    if node.variable:
        bench.fault("result-is-variable", [], call=text)
    _check_inputs(bench, 'record("mul", x, x)', call('record("mul", x, x)', "mul", x, x), (x, x))
    k, c = leaf("k", [1.0, 2.0, 3.0], False), leaf("c", [4.0, 5.0, 6.0], False)
    text = 'record("add", k, x)'
    node = call(text, "add", k, x)
    if node.op is None:
        bench.fault("needs-all-tracked", [], call=text)
    if len(node.inputs) < 2:
        bench.fault("constant-dropped", [], call=text, count=len(node.inputs))
    _check_inputs(bench, text, node, (k, x))

    s = leaf("s", numbers(rng))
    for text, args, at in (('record("add", s, 2.0)', (s, 2.0), 1), ('record("sub", 2, s)', (2, s), 0),
                           ('record("mul", x, array)', (x, np.array([1.0, 0.0, 2.0])), 1)):
        node = call(text, text.split('"')[1], *args)
        if len(node.inputs) < 2:
            bench.fault("constant-dropped", [], call=text, count=len(node.inputs))
        there = node.inputs[at] if len(node.inputs) == 2 else None
        if not isinstance(there, MiniNode):
            bench.fault("number-not-wrapped", [], call=text, got=safe_repr(there, 40))
        if there.tracked:
            bench.fault("number-tracked", [], call=text)
        if not np.array_equal(there.value, args[at]):
            bench.unknown(f"In `{text}` the constant has the value {safe_repr(there.value, 60)}.")

    m = leaf("m", numbers(rng, 2, 3))
    text = 'record("sum", m, axis=1)'
    node = call(text, "sum", m, axis=1)
    if _shape_of(node) != (2, 1):
        bench.fault("params-not-used", [f"Its shape is {_shape_of(node)}; expected (2, 1)."], call=text)
    if node.params.get("axis") != 1:
        bench.fault("params-lost", [], call=text, got=safe_repr(node.params, 40))

    _probe_broadcasts(bench, call, rng)

    w = leaf("w", np.ones((3, 2)))
    _check_inputs(bench, 'record("matmul", m, w)', call('record("matmul", m, w)', "matmul", m, w), (m, w))

    text = 'record("add", k, c)'
    node = call(text, "add", k, c)
    if node.op is not None or node.inputs:
        bench.fault("constants-recorded", [], call=text, got=safe_repr(node.op), count=len(node.inputs))
    mid = MiniNode(np.exp(x.value), "exp", (x,))
    text = 'record("tanh", h)'
    node = call(text, "tanh", mid)
    if node.op is None:
        bench.fault("asks-variable", [], call=text)
    _check_inputs(bench, text, node, (mid,))

    node = call('record("sub", column, b)', "sub", leaf("column", numbers(rng, 2, 1)), x)
    want = node.inputs[0].inputs[0].value - x.value
    if not np.array_equal(node.value, want):
        bench.unknown("The value of a (2, 1) minus a (3,) is {}; expected {}.".format(*apart(node.value, want)))
    odd = {"thrice": (lambda a: 3 * a, lambda g, y, a: 3 * g)}
    engine = Engine(record=record, RULES=odd)
    ran = bench.run(record, "thrice", x, engine=engine)
    made = ran.value
    if ran.ended != "returned" or not isinstance(made, MiniNode) or not np.array_equal(made.value, 3 * x.value):
        bench.fault("own-table", [told('record("thrice", x)', ran)] if ran.ended == "raised" else [])
    return Table(("call", "op", "inputs"), (('record("mul", x, x)', "mul", "x, x"),
                                            ('record("add", s, 2.0)', "add", "s and a constant"),
                                            ('record("add", b, m)', "add", "broadcast of b, m"),
                                            ('record("add", k, c)', "none", "none: both are constants")))


def _record_errors(text):
    errors = []
    if "2" in text or "array" in text:  # a plain number or array is among the inputs
        errors.append(((AttributeError, TypeError), "number-not-wrapped"))
    if "matmul" in text:
        errors.append((ValueError, "matmul-broadcast"))
    errors.append((lambda error: isinstance(error, TypeError) and "'shape'" in str(error), "params-not-used"))
    errors.append((lambda error: "'tuple' object is not callable" in str(error), "whole-rule"))
    if "column" in text:
        errors.append((ValueError, "common-shape"))
    if "b, m" in text or "m, b" in text:
        errors.append((lambda error: isinstance(error, ValueError) and "remapp" in str(error), "to-the-other"))
        errors.append((lambda error: "'numpy.ndarray' object has no attribute" in str(error), "broadcast-lost"))
    return errors


def _check_inputs(bench, text, node, wants):
    inputs = node.inputs
    shown = [f"`{text}.inputs` is {_names(inputs)}; expected {_names(wants)}."]
    if len(inputs) == len(wants) and all(a is b for a, b in zip(inputs, wants)):
        return
    if any(not isinstance(n, MiniNode) for n in inputs):
        bench.fault("values-for-nodes", shown, call=text)
    if len(inputs) < len(wants):
        bench.fault("slots-merged", shown, call=text)
    if len(inputs) == len(wants) and all(a is b for a, b in zip(inputs[::-1], wants)):
        bench.fault("order-turned", shown, call=text)
    if any(n.op == "broadcast" for n in inputs):
        bench.fault("matmul-broadcast" if "matmul" in text else "needless-broadcast", shown, call=text)
    bench.fault("copies", shown, call=text)


def _names(inputs) -> str:
    return "(" + ", ".join((n.name or (f"a node of {n.op}" if n.op else f"a node with the value {show(n.value)}"))
                           if isinstance(n, MiniNode) else safe_repr(n, 30) for n in inputs) + ")"


def _probe_broadcasts(bench, call, rng):
    b, m, column = leaf("b", numbers(rng, 3)), leaf("m", numbers(rng, 2, 3)), leaf("column", numbers(rng, 2, 1))
    cases = [(op, args, shape) for op in ("add", "sub", "mul")
             for args, shape in (((b, m), (2, 3)), ((m, b), (2, 3)), ((column, b), (2, 3)))]
    wrong, cut, seen = [], None, 0
    for op, args, shape in cases:
        text = f'record("{op}", {args[0].name}, {args[1].name})'
        node = call(text, op, *args)
        for k, (given, there) in enumerate(zip(args, node.inputs)):
            if _shape_of(given) == shape:
                continue
            seen += 1
            if there is given:
                wrong.append((op, text, k))
            elif there.op != "broadcast" or len(there.inputs) != 1 or there.inputs[0] is not given:
                cut = cut or (text, there, given)
            elif tuple(there.params.get("shape", ())) != shape:
                bench.fault("broadcast-params", [], call=text, got=safe_repr(there.params, 40), shape=shape)
    if cut:
        text, there, given = cut
        bench.fault("broadcast-cut", [f"In `{text}` the slot of {given.name} has a node with op "
                                      f"{safe_repr(there.op)} of shape {_shape_of(there)}."], call=text)
    if len(wrong) == seen:
        bench.fault("no-broadcast", [], call=wrong[0][1])
    if wrong and {k for *_, k in wrong} != {0, 1}:
        bench.fault("one-side", [], call=wrong[0][1], slot=wrong[0][2] + 1)
    if wrong and len({op for op, *_ in wrong}) < 3:
        bench.fault("not-every-op", [], call=wrong[0][1], ops=" and ".join(dict.fromkeys(op for op, *_ in wrong)))
    if wrong:
        bench.unknown(f"In `{wrong[0][1]}` slot {wrong[0][2] + 1} has an operand whose shape is not that of the "
                      "result.")
