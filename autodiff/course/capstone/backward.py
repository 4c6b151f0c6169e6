"""`backward`: graphs whose gradients are known, and what the named mistakes would leave in the store."""

import re

import numpy as np

from autodiff.course.capstone.bench import (
    ENGINE_INSIDE,
    Bench,
    Found,
    MiniNode,
    all_nodes,
    generator,
    leaf,
    op_node,
    told,
)
from autodiff.course.capstone.engine import OURS, Engine
from autodiff.course.forms import NO_RETURN, apart, same, show
from autodiff.course.judge import Fault
from autodiff.course.result import Table, safe_repr


FAULTS = (
    NO_RETURN,
    Fault("not-a-store", "the result is no GradStore",
          "It returned {got}. `backward` makes a new GradStore and returns it.",
          "the first and the last line."),
    Fault("writes-to-nodes", "a node is changed",
          "For {graph} an attribute of a node is another one after the call. Then a second call begins with what the "
          "first one left.",
          "an assignment like node.grad = ...; gradients belong into the store."),
    Fault("cotangent-ignored", "the cotangent is not used",
          "The pass begins with ones also when a cotangent is given.",
          "the first share, for the root."),
    Fault("seed-shape", "the seed has the shape of a single number",
          "A root may be an array: without a cotangent each of its entries counts once.",
          "the shape of the ones."),
    Fault("no-seed", "the root gets no gradient to begin with",
          "The first `take` finds nothing: nobody has put the cotangent of the root into the store.",
          "what stands before the loop."),
    Fault("inputs-first", "the loop goes the wrong way",
          "The first node of the loop has no gradient yet, because its users come later.",
          "the direction of the loop. `sorted_nodes` has the root first."),
    Fault("left-inside", "gradients of inner nodes are left in the store",
          "For {graph} the store has more than the variables. The gradient of an inner node is taken out when the "
          "node is processed.",
          "`take` in place of `get` or [ ]."),
    Fault("empty-store", "the store is empty at the end",
          "For {graph} no gradient is left. What was put into the store was taken out again, or never got there, or "
          "another store is returned.",
          "which nodes are taken out, and which store the last line returns."),
    Fault("slots-shifted", "a partial of another slot is used",
          "Where slot 1 is a constant, the input in slot 2 got the first partial. Slots and partials belong together, "
          "so leave an input out only after they are paired.",
          "the zip: what does it pair when one input is left out?"),
    Fault("one-edge", "two slots with the same node count once",
          "In x * x both slots send a share. A set or a dict of inputs keeps one.",
          "what goes through the inputs: one turn for each slot."),
    Fault("first-slot", "only the first slot gets a share",
          "Each slot has a partial of its own.",
          "the loop over the inputs. Does it end after the first?"),
    Fault("input-for-output", "a partial gets something else for y",
          "The second argument of a partial is the value of the node itself, the *output* of the operation.",
          "the second argument in the call of the partial."),
    Fault("too-few-arguments", "a partial gets too few arguments",
          "A partial is called with the cotangent, the value of the node, and then the value of each input as an "
          "argument of its own. One of these was left out, or the values went in as one list.",
          "the call of the partial: count what is handed over, and compare with (g, y, a, b)."),
    Fault("arguments", "the arguments of a partial are in the wrong order",
          "A partial is called as (g, y, a, b): the cotangent, the value of the node, then the values of its inputs in "
          "order.",
          "the call of the partial, argument by argument."),
    Fault("constants-too", "constants get gradients",
          "For {graph} a constant has a gradient in the store. Only tracked inputs get a share.",
          "the question that is asked before a share is sent."),
    Fault("params-missing", "the partials do not get the params",
          "`broadcast` and `sum` were recorded with params, and their partials need them too.",
          "node.params in the call of the partial."),
    Fault("no-chain", "each partial gets ones",
          "A partial gets the gradient that has arrived at *its* node, not ones.",
          "the first argument in the call of the partial."),
    Fault("overwrites", "a share overwrites another one",
          "Where two shares meet at a node, the last one stays. They are added.",
          "how a share is stored. `accumulate` adds."),
    Fault("root-skipped", "the root is not processed",
          "The gradient of the root is in the store and stays there: it was never passed on.",
          "where the loop begins. The root is the first node of the list."),
    Fault("stops-at-variable", "the loop ends at the first variable",
          "In exp(y) + x the variable x may come before exp(y). A variable is left alone, and the loop goes on.",
          "break and continue."),
    Fault("forward-too", "the forward is taken for a partial",
          "The first entry of a rule is the forward. The partial of slot 1 is the second entry.",
          "RULES[node.op][1:]."),
    Fault("params-positional", "the params are handed over as one dict",
          "A partial gets the params by name. Yours got the dict itself as one more argument.",
          "the two stars before node.params."),
    Fault("no-rule", "a variable is looked up in RULES",
          "A variable has no op, so node.op is None, and RULES has no rule for None.",
          "what the loop does when it meets a variable."),
    Fault("truth-of-array", "an array is asked whether it is true",
          "`cotangent or ...`, `if cotangent` and `cotangent == None` ask each entry of the array.",
          "`cotangent is None`."),
    Fault("nodes-for-values", "the partials get nodes",
          "A partial works with arrays: the values of the node and of its inputs.",
          "the arguments in the call of the partial: .value."),
    Fault("private", "`backward` looks inside the store",
          "It uses something of a store that lesson 16 does not promise. With another GradStore that keeps the "
          "contract it stops.",
          "the line shown: accumulate, take, get, [ ], in, len and extend are all there is."),
    Fault("own-table", "`backward` does not go by RULES",
          "The check put another table into RULES, with partials that are no derivatives, and the gradients did not "
          "follow it. New ops must need no change here.",
          "where a partial comes from: RULES[node.op][1:]."),
    Fault("second-call", "a second call gives something else",
          "Something outlives the call: a store outside the function or as a default argument.",
          "where the store is made."),
    Fault("every-path", "nodes are handled again and again",
          "In a chain of {depth} steps v = {step} there are {edges} edges, and a partial is called once for each edge. "
          "A node that is handled before all its shares have arrived is handled again for the rest, and so is all that "
          "stands below it: the work doubles with each step.",
          "the order in which your loop goes through the nodes. Which of your parts knows a right one?"),
    Fault("too-early", "a gradient is passed on before all shares have arrived",
          "In a chain of {depth} steps v = {step} the first v gets {got}; expected {want}. A node was handled while "
          "one of its users had still to send its share. What came later was not passed on.",
          "the order in which your loop goes through the nodes: each after *all* of its users. Which of your parts "
          "knows such an order?"),
    Fault("own-order", "`backward` does not call `sorted_nodes`",
          "The gradients are right, and `sorted_nodes` was not called. `backward` goes by the order that this part "
          "gives, so that a better one needs no change here.",
          "where your loop gets its nodes from."),
    Fault("constant-root", "a constant root leaves the wrong store",
          "For a constant k nothing is to be done, and the store has the seed of k, and nothing else.",
          "what is in the store before the loop."),
    ENGINE_INSIDE,
)


def _odd_rules():
    """A table with partials that are no derivatives: only an engine that reads the table gives these numbers."""
    return {
        "pair": (lambda a, b: a + 2 * b, lambda g, y, a, b: 3 * g + y, lambda g, y, a, b: 5 * g * a - b),
        "scale": (lambda a, by=1.0: by * a, lambda g, y, a, by=1.0: (by + 1) * g + 0 * y),
    }


class _Case:
    """A graph, the cotangent to send, and the leaves whose gradients are read."""

    def __init__(self, text, root, leaves, cotangent=None):
        self.text, self.root, self.leaves, self.cotangent = text, root, leaves, cotangent


def _backward_cases(rng):
    x, y, k = leaf("x", 3.0), leaf("y", 2.0), leaf("k", 4.0, False)
    cases = [_Case("x * x at -3", op_node("mul", *[leaf("x", -3.0)] * 2), [])]
    cases[0].leaves = [cases[0].root.inputs[0]]
    u = op_node("add", op_node("mul", x, y), x)
    cases.append(_Case("(x*y + x) * (x*y + x) at x = 3, y = 2", op_node("mul", u, u), [x, y]))
    cases.append(_Case("k * x with a constant k", op_node("mul", k, x), [x, k]))
    cases.append(_Case("x alone", x, [x, y]))
    v = leaf("v", np.round(rng.uniform(0.5, 1.5, 3), 2))
    out = op_node("mul", op_node("tanh", v), v)
    c = np.round(rng.uniform(0.5, 1.5, 3), 2)
    cases.append(_Case("tanh(v) * v, a vector", out, [v]))
    cases.append(_Case("tanh(v) * v, with a cotangent", out, [v], c))
    m, b = leaf("m", np.round(rng.uniform(-1.5, 1.5, (2, 3)), 2)), leaf("b", np.round(rng.uniform(0.5, 1.5, 3), 2))
    wide = MiniNode(np.broadcast_to(b.value, (2, 3)), "broadcast", (b,), {"shape": (2, 3)})
    kept = op_node("mul", m, wide)
    total = MiniNode(kept.value.sum(axis=1, keepdims=True), "sum", (kept,), {"axis": 1})
    cases.append(_Case("sum(m * b, axis=1), b broadcast", total, [m, b, v], np.round(rng.uniform(0.5, 1.5, (2, 1)), 2)))
    cases.append(_Case("exp(y) + x", op_node("add", op_node("exp", y), x), [x, y]))
    w = leaf("w", np.round(rng.uniform(-1.5, 1.5, (3, 2)), 2))
    cases.append(_Case("m @ w", op_node("matmul", m, w), [m, w]))
    return cases


def _planted_backward(how):
    """`backward` with one mistake, on plain dicts: {node: gradient}, as it would be left."""

    def run_it(root, cotangent, rules):
        seed = np.ones(root.value.shape) if cotangent is None or how == "cotangent-ignored" else np.asarray(cotangent)
        grads = {} if how == "no-seed" else {root: seed}
        order = OURS["sorted_nodes"](root)
        for node in reversed(order) if how == "inputs-first" else order[1:] if how == "root-skipped" else order:
            if node.op is None and how == "stops-at-variable":
                break
            if node.op is None:
                if how == "empty-store":
                    grads.pop(node)
                continue
            g = grads[node] if how == "left-inside" else grads.pop(node)
            values = [n.value for n in node.inputs]
            partials, inputs = rules[node.op][how != "forward-too":], node.inputs
            pairs = list(zip(inputs, partials))
            if how == "slots-shifted":
                pairs = list(zip([n for n in inputs if n.tracked], partials))
            if how == "one-edge":
                pairs = list(dict(pairs).items())
            if how == "one-edge-first":
                pairs = list({n: p for n, p in reversed(pairs)}.items())
            if how == "first-slot":
                pairs = pairs[:1]
            y = values[0] if how == "input-for-output" else g if how == "g-for-output" else node.value
            for n, partial in pairs:
                if not n.tracked and how != "constants-too":
                    continue
                params = {} if how == "params-missing" else node.params
                share = (partial(y, g, *values, **params) if how == "g-and-y-swapped"
                         else partial(g, y, *values[::-1], **params) if how == "operands-reversed"
                         else partial(np.ones_like(g), y, *values, **params) if how == "no-chain"
                         else partial(g, y, *values, params) if how == "params-positional"
                         else partial(g, y, *values, **params))
                if np.shape(share) != np.shape(n.value):
                    raise ValueError
                grads[n] = grads[n] + share if n in grads and how != "overwrites" else share
        return grads

    return run_it


_WRONG_BACKWARD = ("cotangent-ignored", "no-seed", "inputs-first", "left-inside", "slots-shifted", "one-edge",
                   "one-edge-first", "first-slot", "input-for-output", "g-for-output", "constants-too",
                   "params-missing", "g-and-y-swapped", "operands-reversed", "no-chain", "overwrites", "root-skipped",
                   "stops-at-variable", "forward-too", "params-positional", "empty-store")
_NAMED_AS = {"one-edge-first": "one-edge", "g-for-output": "input-for-output", "g-and-y-swapped": "arguments",
             "operands-reversed": "arguments"}


def _reading(grads, case):
    return [None if grads.get(leaf) is None else np.asarray(grads.get(leaf), float) for leaf in case.leaves], len(grads)


def _same_reading(a, b) -> bool:
    return a[1] == b[1] and len(a[0]) == len(b[0]) and all(
        (p is None) == (q is None) and (p is None or same(p, q)) for p, q in zip(a[0], b[0]))


def _outcome_of_planted(how, case, rules):
    try:
        return _reading(_planted_backward(how)(case.root, case.cotangent, rules), case)
    except Exception as error:
        return _kind(error)


def _kind(error) -> str:
    """The type of an error; where a call got too few arguments, this too."""
    return type(error).__name__ + _TOO_FEW * (re.search(r"missing \d+ required positional", str(error)) is not None)


_TOO_FEW = ": too few arguments"


def probe(bench: Bench) -> Table:
    """Graphs whose gradients are known; then a table of odd partials, a second call, and a constant root."""
    function = bench.part
    rules = dict(OURS["RULES"])
    cases = _backward_cases(generator(bench))
    outcomes, wrong = [], None
    for case in cases:
        before = [_state(n) for n in all_nodes(case.root)]
        args = (case.root,) if case.cotangent is None else (case.root, case.cotangent.copy())
        ran = bench.run(function, *args)
        if ran.ended == "not started":
            raise Found(bench.attempt.not_started())
        if ran.ended == "returned" and ran.value is None:
            bench.fault("no-return", [], call="backward(root)")
        if ran.ended == "returned" and not isinstance(ran.value, OURS["GradStore"]):
            bench.fault("not-a-store", [], got=safe_repr(ran.value, 60))
        right = _planted_backward("")(case.root, case.cotangent, rules)
        want = _reading(right, case)
        got = _reading(ran.value, case) if ran.ended == "returned" else _kind(ran.error)
        outcomes.append((case, got, want, ran))
        if ran.ended != "returned" and ran.ended != "raised":
            bench.call(f"backward of {case.text}", function, *args)
        if [_state(n) for n in all_nodes(case.root)] != before:
            bench.fault("writes-to-nodes", [], graph=case.text)
        if wrong is None and (isinstance(got, str) or not _same_reading(got, want)):
            wrong = outcomes[-1]
    table = Table(("graph", "leaf", "expected", "yours"), tuple(_rows(outcomes, 2 if wrong is None else None)))
    if wrong is not None:
        _name_backward(bench, outcomes, wrong, rules, table)
    _probe_backward_more(bench, function)
    return table


def _state(node):
    return {key: value.tobytes() if isinstance(value, np.ndarray) else value for key, value in vars(node).items()}


def _rows(outcomes, most):
    for case, got, want, _ in outcomes[:most]:
        if isinstance(got, str):
            yield case.text, "", "", got
            continue
        for node, w, g in zip(case.leaves, want[0], got[0]):
            yield case.text, node.name, "absent" if w is None else show(w), "absent" if g is None else show(g)


def _name_backward(bench, outcomes, wrong, rules, table):
    case, got, want, ran = wrong
    if isinstance(got, str):
        said = [told(f"backward of {case.text}", ran)]
    else:
        pairs = [(leaf.name, w, g) for leaf, w, g in zip(case.leaves, want[0], got[0])
                 if (w is None) != (g is None) or (w is not None and not same(g, w))]
        if pairs:
            name, w, g = pairs[0]
            got, want = apart(*("absent" if value is None else value for value in (g, w)))
            said = [f"For {case.text} the gradient of {name} is {got}; expected {want}."]
        else:
            said = [f"For {case.text} there are {got[1]} gradients in the store; expected {want[1]}."]
    for how in _WRONG_BACKWARD:
        if all(_equal_outcome(o[1], _outcome_of_planted(how, o[0], rules)) for o in outcomes):
            bench.fault(_NAMED_AS.get(how, how), said, table, graph=case.text)
    if isinstance(got, str) and isinstance(ran.error, ValueError) and "a gradient of shape" in str(ran.error):
        only_vectors = all(isinstance(o[1], str) == (o[0].root.value.shape != () and o[0].cotangent is None)
                           for o in outcomes)
        if only_vectors:
            bench.fault("seed-shape", said, table, graph=case.text)
    if isinstance(got, str) and got.endswith(_TOO_FEW) and "lambda" in str(ran.error):
        bench.fault("too-few-arguments", said, table, graph=case.text)
    if got == "KeyError" and ran.error.args == (None,):
        bench.fault("no-rule", said, table, graph=case.text)
    if got == "ValueError" and "truth value of an array" in str(ran.error):
        bench.fault("truth-of-array", said, table, graph=case.text)
    if isinstance(got, str) and isinstance(ran.error, AttributeError) and "'GradStore'" in str(ran.error):
        bench.fault("private", said, table, graph=case.text)
    if isinstance(got, str) and any(word in str(ran.error) for word in ("'Node'", "not Node", "type Node")):
        bench.fault("nodes-for-values", said, table, graph=case.text)
    bench.unknown(*said, table=table)


def _equal_outcome(a, b) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return _same_reading(a, b)


def _probe_backward_more(bench, function):
    odd = _odd_rules()
    x, y = leaf("x", 3.0), leaf("y", 2.0)
    p = MiniNode(7.0, "pair", (x, y))
    root = MiniNode(14.0, "scale", (p,), {"by": 2.0})
    engine = Engine(backward=function, RULES=odd)
    grads = bench.run(function, root, engine=engine)
    right = _planted_backward("")(root, None, odd)
    if grads.ended != "returned" or any(leaf not in grads.value or not same(grads.value[leaf], right[leaf])
                                        for leaf in (x, y)):
        bench.fault("own-table", [told("backward(root)", grads)] if grads.ended == "raised" else [])

    first, second = (bench.call("backward(root)", function, root, engine=engine) for _ in range(2))
    if any(not same(first[leaf], right[leaf]) or not same(second[leaf], right[leaf]) for leaf in (x, y)):
        bench.fault("second-call", [f"x has {show(first[x])} after the first call, and {show(second[x])} after the "
                                    "second one."])
    _probe_cost(bench, function)
    k = leaf("k", [1.0, 2.0], False)
    for text, args, seed in (("backward(k)", (k,), np.ones(2)), ("backward(k, [3, 4])", (k, [3.0, 4.0]), [3.0, 4.0])):
        store = bench.call(text, function, *args)
        if len(store) != 1 or k not in store or not same(store[k], seed):
            bench.fault("constant-root", [f"`{text}` left {len(store)} gradients."])
    listed = bench.call("backward(x, 2)", function, x, 2)
    if x not in listed or not same(listed[x], 2.0):
        bench.unknown("`backward(x, 2)` for a variable x must leave its seed, 2, for x.")


def _probe_cost(bench, function):
    """Chains with two ways from each step to the next, the longer one on either side: calls of partials are counted."""
    calls, sorts = [], []

    def counted(g, y, *values):
        calls.append(float(y))
        return g

    def ordered(root):
        sorts.append(root)
        return OURS["sorted_nodes"](root)

    engine = Engine(backward=function, RULES={"same": (np.array, counted), "add": (np.add, counted, counted)})
    engine.parts["sorted_nodes"] = ordered
    for text in ("same(same(v)) + v", "v + same(same(v))"):
        x = root = leaf("x", 1.0)
        for _ in range(DEPTH):
            # The values number the nodes: a partial that is called says whose it is.
            one = MiniNode(root.value + 1, "same", (root,))
            two = MiniNode(root.value + 2, "same", (one,))
            root = MiniNode(root.value + 3, "add", (two, root) if text.endswith("+ v") else (root, two))
        calls.clear()
        ran = bench.run(function, root, engine=engine)
        words = dict(depth=DEPTH, step=text, edges=4 * DEPTH)
        if len(calls) > 8 * DEPTH:
            bench.fault("every-path", [f"The partials were called {len(calls)} times."], **words)
        store = ran.value if ran.ended == "returned" else bench.call("backward(root)", function, root, engine=engine)
        if x not in store or not same(store[x], 2.0 ** DEPTH):
            got, want = apart(store[x] if x in store else "absent", 2.0 ** DEPTH)
            if calls != sorted(calls, reverse=True):  # the nodes are numbered from the inputs to the root
                bench.fault("too-early", (), got=got, want=want, **words)
            bench.unknown(f"In a chain of {DEPTH} steps v = {text} the gradient of the first v is {got}; expected "
                          f"{want}.")
    if not sorts:
        bench.fault("own-order", [])


DEPTH = 10
