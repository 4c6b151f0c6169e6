"""Checks of exercise 02, one edge twice: one share for each edge, added up at the node.

`TASKS` holds the tasks with their faults and hints. Wrong answers as a learner would
type them, each with the fault it must be given, are in wrong_answers/02.txt.
"""

import math
from dataclasses import replace

from autodiff.course import graphs
from autodiff.course.forms import SLOTS, apart, by_hand, set_right
from autodiff.course.graphs import Node, add, leaf, mul
from autodiff.course.judge import (
    EARLY_RETURN,
    NO_ATTRIBUTE,
    NODE_AS_NUMBER,
    NOTEBOOK_NODE,
    Fault,
    Task,
    function_or_reason,
    name_of,
    printed,
    run,
    stopped,
)
from autodiff.course.result import Table, as_number, close, safe_repr, show_number

# 02.a: three numbers by hand.

_SLOTS = ("slot_1", "slot_2", "total")


# No product of one deal is that of another one with the other sign.
_DEALS = [(-3.0, 4.0), (5.0, 3.0), (-7.0, 4.0), (11.0, 6.0), (-5.0, 4.0), (7.0, 3.0), (-11.0, 3.0), (13.0, 4.0),
          (-13.0, 3.0), (5.0, 6.0), (-7.0, 6.0), (17.0, 3.0)]


def _deal(number):
    """(x, g) for y = x * x. With x an odd prime other than g, no two mistakes make the same three numbers."""
    return _DEALS[number % len(_DEALS)]


def _given_a(deal) -> str:
    return f"y = x * x, x = {show_number(deal[0])}, and the gradient g = {show_number(deal[1])} has arrived at y"


def _right_a(deal):
    x, g = deal
    return g * x, g * x, 2 * g * x


def _how_a(deal):
    share = f"g times the value in the other slot: {show_number(deal[1])} * ({show_number(deal[0])})"
    return share, share, "slot_1 + slot_2"


_FAULTS_A = (
    Fault("upstream-missing", "the gradient that arrives at y is not used",
          "Your shares are {slot_1} = x: that is the local slope alone. The gradient g = {g} has already "
          "arrived at y, and it multiplies every share: {g} * ({x}).",
          "the edge from y to x. A share is (what arrives at y) times (the local slope of this slot).",
          (lambda d: (d[0], d[0], 2 * d[0]),)),
    Fault("whole-on-each", "the whole derivative 2x sits on each of the two edges",
          "{slot_1} = g * 2x on each edge. But d(x*x)/dx = 2x is the sum over both slots. One slot alone, with the "
          "other one held still, has the derivative x, so its share is {g} * ({x}). Counted your way, x "
          "would get 4x.",
          "the product a * b with two different letters. What is the derivative with respect to a alone?",
          (lambda d: (2 * d[1] * d[0], 2 * d[1] * d[0], 4 * d[1] * d[0]),
           lambda d: (2 * d[1] * d[0], 2 * d[1] * d[0], 2 * d[1] * d[0]))),
    Fault("one-edge", "one of the two edges is not counted",
          "Your total {total} is one share, g * x = {gx}. Two edges lead from y to x, one for each slot, and each "
          "carries its own share, so x receives {gx} + ({gx}).",
          "the picture of y = x * x. Count the lines between y and x, not the nodes.",
          (lambda d: (d[1] * d[0], d[1] * d[0], d[1] * d[0]), lambda d: (d[1] * d[0], 0.0, d[1] * d[0]),
           lambda d: (0.0, d[1] * d[0], d[1] * d[0]))),
    Fault("whole-on-one", "the total is right, but it came along one edge",
          "You put the whole of 2 * g * x on one edge and nothing on the other. The total is the same, and "
          "the graph is not: each slot of the product has its own derivative, x, and sends its own share g * x.",
          "slot 1 alone: hold the value in slot 2 still, and let only slot 1 move.",
          (lambda d: (2 * d[1] * d[0], 0.0, 2 * d[1] * d[0]), lambda d: (0.0, 2 * d[1] * d[0], 2 * d[1] * d[0]))),
    Fault("multiplied", "the two shares are multiplied, not added",
          "Your shares are right, and your total {total} is their product. Where several edges meet, the shares are "
          "added: {gx} + ({gx}).",
          "the chain rule for two paths: one product along each path, one sum over the paths.",
          (lambda d: (d[1] * d[0], d[1] * d[0], (d[1] * d[0]) ** 2),)),
    Fault("like-a-sum", "g is passed on as it is",
          "Your shares are g = {g} itself. A sum passes on what arrives, because its slopes are 1. In a product the "
          "slope of one slot is the value in the other slot.",
          "the rule of the product: d(a*b)/da = b.",
          (lambda d: (d[1], d[1], 2 * d[1]),)),
    Fault("g-added", "g is added to the slope, not multiplied with it",
          "{slot_1} is g + x. A share is g *times* the local slope: when y counts g times, so does everything that "
          "moves y.",
          "the sign between your two numbers.",
          (lambda d: (d[0] + d[1], d[0] + d[1], 2 * (d[0] + d[1])),)),
    Fault("sign-lost", "the sign is wrong",
          "Your numbers have the right size and the wrong sign. x = {x} and g = {g}: two numbers of equal sign have a "
          "positive product, two of different signs a negative one.",
          "the product {g} * ({x}).",
          (lambda d: (-d[1] * d[0], -d[1] * d[0], -2 * d[1] * d[0]),)),
    Fault("value-sent", "the value of y is sent back, not a derivative",
          "{slot_1} contains x * x, the value of y. Along an edge goes the derivative of y with respect to one "
          "slot, and for a product that is the value in the other slot: x = {x}.",
          "the rule of the product: d(a*b)/da = b.",
          (lambda d: (d[1] * d[0] ** 2, d[1] * d[0] ** 2, None), lambda d: (d[0] ** 2, d[0] ** 2, None))),
)

# 02.b: the shares of one product.


def _cases_b(rng):
    """(expression, node, g) with the canonical case first and an input of 0 last; every other number is fresh."""
    def number():
        return rng.choice([-1, 1]) * rng.choice([2.5, 3.5, 4.0, 4.5, 5.0, 5.5, 6.5, 7.0])

    x, (p, q, r) = leaf("x", -3.0), rng.sample([2.5, 3.0, -3.5, 4.5, -5.0, 7.0], 3)
    a, b, z = leaf("x", p), leaf("y", q), leaf("x", r)
    return [("x * x", mul(x, x, "y"), 1.0), ("x * x", mul(z, z, "y"), number()), ("x * y", mul(a, b, "u"), number()),
            ("y * x", mul(b, a, "u"), number()), ("x * y", mul(leaf("x", 0.0), leaf("y", q), "u"), abs(number()))]


def _pairs(value):
    """A learner's list of (node, number) pairs as [(node, float)], or None when it has another form."""
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, (set, frozenset)) or type(value).__name__ == "ndarray":
        value = list(value)
    if not isinstance(value, (list, tuple)):
        return None
    pairs = []
    for entry in value:
        if type(entry).__name__ == "ndarray":
            entry = list(entry)
        if not isinstance(entry, (tuple, list)) or len(entry) != 2 or not isinstance(entry[0], Node):
            return None
        number = as_number(entry[1])
        if number is None:
            return None
        pairs.append((entry[0], number))
    return pairs


def _same_pairs(got, want) -> bool:
    """The same pairs in any order."""
    if len(got) != len(want):
        return False
    key = lambda pair: (id(pair[0]), pair[1])
    return all(p[0] is q[0] and close(p[1], q[1]) for p, q in zip(sorted(got, key=key), sorted(want, key=key)))


def _show_pairs(pairs, product=None) -> str:
    """The pairs as text; with a `product`, nodes outside it are told from its inputs of the same name."""
    known = {product, *product._inputs} if product else {node for node, _ in pairs}
    return "[" + ", ".join(f"({'' if node in known else 'another '}{node.name}, {show_number(number)})"
                           for node, number in pairs) + "]"


def _at(node) -> str:
    return ", ".join(dict.fromkeys(f"{n.name} = {show_number(n.value)}" for n in node._inputs))


def _table_b(cases, answers=None):
    rows = []
    for i, (expression, node, g) in enumerate(cases):
        want = graphs.shares(node, g)
        at = _at(node)
        row = (expression, at, show_number(g), _show_pairs(want))
        rows.append(row if answers is None else (*row, _show_pairs(answers[i], node)))
    return Table(("node", "at", "g", "expected", "yours")[:4 if answers is None else 5], tuple(rows))


def _judge_b(attempt):
    function, = attempt.answers
    reason = function_or_reason(attempt, function, "node, g")
    if reason is not None:
        return reason
    cases = _cases_b(attempt.rng)
    answers, results, failed_at_zero = [], [], None
    for _, node, g in cases:
        call = f"{name_of(function)}({node.name}, {show_number(g)})"
        result = run(function, node, g)
        problem = stopped(attempt, result, call)
        if problem is not None:
            if result.ended == "not started":
                return attempt.not_started(_table_b(cases[:1]))
            if isinstance(result.error, ZeroDivisionError) and len(answers) == len(cases) - 1:
                failed_at_zero = [f"With {_at(node)}:", *problem.body]
                break
            return problem
        pairs = _pairs(result.value)
        if pairs is None:
            return _shape_b(attempt, result, call, node, g)
        answers.append(pairs)
        results.append(result)
    cases = cases[:len(answers)]
    rights = [graphs.shares(node, g) for _, node, g in cases]
    same = list(map(_same_pairs, answers, rights))
    if all(same) and failed_at_zero:
        return attempt.fault("divided", failed_at_zero)
    if all(same) and _calls(function, graphs.shares):
        return attempt.fault("shares-used")
    if all(same):
        return attempt.passed(_table_b(cases[:1], answers[:1]))
    table = _table_b(cases, answers)
    first = same.index(False)
    expression, node, g = cases[first]
    call = f"{name_of(function)}({node.name}, {show_number(g)})"
    got = [f"At {expression} with {_at(node)}, `{call}` returned {_show_pairs(answers[first], node)}; "
           f"expected {_show_pairs(rights[first])}.", *printed(results[first])]
    if sum(same) == 4 and not all(math.isfinite(number) for _, number in answers[first]):
        return attempt.fault("divided", got, table)
    words = dict(got=_show_pairs(answers[first], node), g=show_number(g), value=show_number(node.value),
                 a=show_number(node._inputs[0].value), b=show_number(node._inputs[1].value),
                 half=show_number(rights[first][0][1]), name=name_of(function))
    for slot in SLOTS:
        half = [] if slot is None else [f"The share of slot {slot + 1} is right. The mistake is in slot {2 - slot}."]
        for fault in attempt.task.faults:
            for answer in fault.answers:
                if _would_give_b(answer, cases, answers, rights, slot):
                    return attempt.fault(fault.id, [*got, *half], table, **words)
    return attempt.unknown(got, table)


def _would_give_b(answer, cases, answers, rights, slot) -> bool:
    woulds = [set_right(answer(node, g), right, slot) for (_, node, g), right in zip(cases, rights)]
    return None not in woulds and all(map(_same_pairs, answers, woulds))


def _calls(function, other) -> bool:
    """Whether a learner's function uses another one of the notebook, by the names in its code."""
    there = getattr(function, "__globals__", {})
    return any(there.get(name) is other for name in getattr(getattr(function, "__code__", None), "co_names", ()))


def _shape_b(attempt, result, call, node, g):
    want = _show_pairs(graphs.shares(node, g))
    if result.value is None:
        return attempt.fault("no-return", printed(result), None, call=call, want=want)
    value = result.value
    words = dict(call=call, want=want, got=safe_repr(value))
    if isinstance(value, (list, tuple)) and value and None not in [as_number(v) for v in value]:
        return attempt.fault("no-nodes", printed(result), None, **words)
    pairs = value if isinstance(value, (list, tuple)) else list(value.items()) if isinstance(value, dict) else []
    if pairs and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        if all(isinstance(first, str) for first, _ in pairs):
            return attempt.fault("names-given", printed(result), None, **words)
        if all(isinstance(second, Node) and as_number(first) is not None for first, second in pairs):
            return attempt.fault("pairs-turned", printed(result), None, **words)
    return attempt.wrong([f"`{call}` returned {safe_repr(result.value)}; expected a list like {want}.",
                          *printed(result)],
                           look="Return one pair for each slot: first the input node, then its share.")


def _two(node, left, right):
    a, b = node._inputs
    return [(a, left), (b, right)]


_FAULTS_B = (
    Fault("one-entry", "one of the two edges is lost",
          "At x * x there is one pair where two edges are. A dict has one place for each node and a set keeps each "
          "node once; here both slots hold the same node, so the second share replaced the first one.",
          "what your code does with the second slot when it holds the same node as the first. A list keeps both.",
          (lambda n, g: list({n._inputs[0]: g * n._inputs[1].value, n._inputs[1]: g * n._inputs[0].value}.items()),
           lambda n, g: [(n._inputs[0], g * n._inputs[1].value)] if n._inputs[0] is n._inputs[1]
           else graphs.shares(n, g))),
    Fault("one-slot", "only one of the two slots gets a share",
          "Every product sends a share along both of its slots, also when the nodes in them differ. Your list has "
          "one pair for x * y too.",
          "the second entry of node.inputs.",
          (lambda n, g: graphs.shares(n, g)[:1], lambda n, g: graphs.shares(n, g)[1:])),
    Fault("merged", "the two edges are merged into one",
          "The sum of your shares is right. But at x * x you return one pair with the whole of 2 * g * x, and this "
          "function answers for each edge: two slots, two pairs, each with {half}. Adding is the work of the next "
          "task.",
          "the special case for equal inputs in your code. Does it need to be there at all?",
          (lambda n, g: [(n._inputs[0], 2 * g * n._inputs[0].value)] if n._inputs[0] is n._inputs[1]
           else graphs.shares(n, g),)),
    Fault("upstream-missing", "the gradient g is not used",
          "You return a local slope alone. A share is g times the local slope, and here g is {g}. "
          "With g = 1 the mistake does not show, which is why it lives long.",
          "where g appears in your function.",
          (lambda n, g: graphs.shares(n, 1.0),)),
    Fault("own-value", "a slot gets its own value, not the value in the other slot",
          "d(a*b)/da is b, the value in the *other* slot. At x * x both are the same number, so your code looks "
          "right there. At x * y they differ: a = {a}, b = {b}.",
          "the two pairs you return: which value belongs with which node?",
          (lambda n, g: _two(n, g * n._inputs[0].value, g * n._inputs[1].value),)),
    Fault("whole-on-each", "the derivative of x * x, 2x, is on one edge",
          "You return a share of 2 * g * x at x * x. But 2x is the sum over both slots: one slot alone gives x. "
          "Added up, your shares make more than the 2 * g * x that x should get.",
          "the slots one at a time. Hold the other one still.",
          (lambda n, g: _two(n, 2 * g * n._inputs[1].value, 2 * g * n._inputs[0].value) if n._inputs[0] is n._inputs[1]
           else graphs.shares(n, g),
           lambda n, g: _two(n, 2 * g * n._inputs[1].value, 2 * g * n._inputs[0].value))),
    Fault("output-value", "the value of the product is used, not the value of the other slot",
          "Your share contains {value}, the value of the product itself. The derivative of a * b with respect to a "
          "is b alone.",
          "the difference between node.value and the value of one of its inputs.",
          (lambda n, g: _two(n, g * n.value, g * n.value),)),
    Fault("no-return", "the function returns nothing",
          "`{call}` returned None. A Python function without a `return` gives None, even when it has computed the "
          "answer or printed it. Expected: {want}.",
          "the last line of your function."),
    Fault("no-nodes", "the numbers are there, the nodes are not",
          "`{call}` returned {got}. Without the node beside it, nobody can tell where a share goes. Expected: {want}.",
          "the form of one entry: a pair (input node, share)."),
    Fault("names-given", "there are names in place of nodes",
          "`{call}` returned {got}. Two different nodes may carry the same name. Return the node itself. Expected: "
          "{want}.",
          "`.name`, or quotes, in your function."),
    Fault("pairs-turned", "each pair stands the other way round",
          "`{call}` returned {got}. First the node, then its share. Expected: {want}.",
          "the order inside of the brackets of one pair."),
    Fault("same-skipped", "where both slots hold the same node, there is no share",
          "At x * y your pairs are right, and at x * x there are none. Your code takes the *other* node as the one "
          "that is not this one, and x * x has no such node. It does have another slot.",
          "`is not` or `!=` between the inputs. Go by the slots: inputs[0] and inputs[1].",
          (lambda n, g: [] if n._inputs[0] is n._inputs[1] else graphs.shares(n, g),)),
    Fault("shares-used", "`shares` did the work",
          "Your pairs are right, and they come from `shares`, which is there for task c. This task is to write it.",
          "hint 1 of this task. Two slots, two pairs."),
    Fault("divided", "a division that fails when an input is 0",
          "Your share is the value of the product divided by the slot's own input. That makes the value in the other "
          "slot, but it fails at 0. Take the value in the other slot as it is.",
          "`inputs` has both nodes: unpack them as a and b, and no division is needed."),
    Fault("calls-itself", "the function calls itself",
          "Each call made another one, without end. This function answers for one product alone.",
          "your function's own name inside it. No other function has to be called here."),
    NOTEBOOK_NODE, NODE_AS_NUMBER, NO_ATTRIBUTE,
)

# 02.c: adding up over all edges.

_DOUBLINGS = 30


def _graphs_c(rng):
    """(expression, order) from small to large; the first three have the lesson's numbers, the others are fresh."""
    def square(value):
        x = leaf("x", value)
        return [x, mul(x, x, "y")]

    def shared(a, b):
        x, y = leaf("x", a), leaf("y", b)
        p = mul(x, y, "p")
        return [x, y, p, add(p, x, "u")]

    def lesson(a, b):
        nodes = shared(a, b)
        return [*nodes, mul(nodes[-1], nodes[-1], "L")]

    def number():
        return rng.choice([-1, 1]) * rng.choice([1.5, 2.5, 3.0, 3.5, 4.5])

    def two_ways(turned):
        """Here a, which has inputs of its own, is near to the root on one way and far from it on the other."""
        x, y = leaf("x", number()), leaf("y", number())
        a = mul(x, y, "a")
        b = mul(a, x, "b")
        return [x, y, a, b, add(*((b, a) if turned else (a, b)), "L")]

    twice = square(number())
    twice.append(mul(twice[-1], twice[-1], "z"))
    other = graphs.random_graph(rng, leaves=3, ops=6)
    # A gradient of zero hides most mistakes.
    while not all(_backward(graphs.users_first(other)).values()):
        other = graphs.random_graph(rng, leaves=3, ops=6)
    made = [("x*x", square(-3.0)), ("x*y + x", shared(3.0, 2.0)), ("(x*y + x)**2", lesson(3.0, 2.0)),
            ("x*x", square(number())), ("(x*x)*(x*x)", twice), ("(x*y + x)**2", lesson(number(), number())),
            ("a + a*x, a = x*y", two_ways(False)), ("a*x + a, a = x*y", two_ways(True))]
    return [(e, nodes[::-1]) for e, nodes in made] + [("a random graph", graphs.users_first(other))]


def _backward(order, share=graphs.shares, arrive=lambda grads, node, c: grads.get(node, 0.0) + c, seed=1.0):
    grads = {order[0]: seed}
    for node in order:
        for target, c in share(node, grads.get(node, 0.0)):
            grads[target] = arrive(grads, target, c)
    return grads


def _reset_inputs(order):
    grads = {order[0]: 1.0}
    for node in order:
        for target in node._inputs:
            grads[target] = 0.0
        for target, c in graphs.shares(node, grads[node]):
            grads[target] += c
    return grads


def _from_the_leaves(order, seed, walk, full):
    """A pass that begins at the wrong end: the place of the 1, the direction of the walk, and whether zeros are set."""
    grads = {**(_zeros(order) if full else {}), order[seed]: 1.0}
    for node in order[::walk]:
        for target, c in graphs.shares(node, grads.get(node, 0.0)):
            grads[target] = grads.get(target, 0.0) + c
    return grads


def _at_first_sight(order, last, share=graphs.shares):
    """A walk that goes on from a node as soon as it has been seen, from the last one or from the first one."""
    grads, waiting, seen = {order[0]: 1.0}, [order[0]], set()
    while waiting:
        node = waiting.pop(-1 if last else 0)
        for target, c in share(node, grads[node]):
            grads[target] = grads.get(target, 0.0) + c
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return grads


def _again_each_time(order):
    """A walk that sends on all that has arrived so far, each time that something arrives."""
    grads, waiting = {order[0]: 1.0}, [iter(graphs.shares(order[0], 1.0))]
    while waiting:
        for target, c in waiting[-1]:
            grads[target] = grads.get(target, 0.0) + c
            waiting.append(iter(graphs.shares(target, grads[target])))
            break
        else:
            waiting.pop()
    return grads


def _like_a_product(node, g):
    """The rule of the product for each node with two inputs."""
    if len(node._inputs) < 2:
        return graphs.shares(node, g)
    a, b = node._inputs
    return [(a, g * b.value), (b, g * a.value)]


def _all_set_to_one(order):
    return dict.fromkeys(order, 1.0)


def _ones(order):
    grads = dict.fromkeys(order, 1.0)
    for node in order:
        for target, c in graphs.shares(node, grads[node]):
            grads[target] += c
    return grads


def _zeros(order):
    return {node: 0.0 for node in order}


def _same_grads(got, want) -> bool:
    return all(node in got and close(got[node], number) for node, number in want.items())


def _leaves(grads) -> str:
    return ", ".join(f"{n.name}: {show_number(v)}" for n, v in grads.items() if n.op == "leaf") or "nothing"


def _table_c(cases, answers=None, count=3):
    rows = []
    for i, (expression, order) in enumerate(cases[:count]):
        want = _backward(order)
        at = ", ".join(f"{n.name} = {show_number(n.value)}" for n in order if n.op == "leaf")
        leaves = [n for n in order if n.op == "leaf"]
        row = (expression, at, _leaves({n: want[n] for n in leaves}))
        rows.append(row if answers is None else (*row, _leaves({n: answers[i][n] for n in leaves if n in answers[i]})))
    return Table(("root", "at", "expected", "yours")[:3 if answers is None else 4], tuple(rows))


def _judge_c(attempt):
    function, = attempt.answers
    reason = function_or_reason(attempt, function, "order")
    if reason is not None:
        return reason
    name = name_of(function)
    cases = _graphs_c(attempt.rng)
    answers, results = [], []
    for _, order in cases:
        call = f"{name}([{', '.join(n.name for n in order)}])"
        result = run(function, list(order))
        if result.ended == "raised" and isinstance(result.error, KeyError) and result.error.args[:1]:
            problem = _key_error(attempt, function, call, result, order, cases)
            if problem is not None:
                return problem
        problem = stopped(attempt, result, call)
        if problem is not None:
            return attempt.not_started(_table_c(cases)) if result.ended == "not started" else problem
        if result.value is None:
            return attempt.fault("no-return", printed(result), None, call=call)
        if not isinstance(result.value, dict):
            got = [f"`{call}` returned {safe_repr(result.value)}; expected a dict from node to gradient."]
            return attempt.wrong([*got, *printed(result)], look="The dict in which you add up the shares: return it.")
        if result.value and all(isinstance(key, str) for key in result.value):
            return attempt.fault("name-keys", printed(result), None, got=safe_repr(result.value))
        grads = {node: as_number(v) for node, v in result.value.items() if isinstance(node, Node)}
        bad = next((node for node, v in grads.items() if v is None), None)
        if bad is not None:
            shown = safe_repr(result.value[bad])
            got = [f"`{call}` gives {bad.name} the gradient {shown}, which is no number.", *printed(result)]
            return attempt.wrong(got)
        again = run(function, list(order))
        if again.ended == "returned" and isinstance(again.value, dict) and _same_grads(grads, _backward(order)):
            second = {n: as_number(v) for n, v in again.value.items()}
            if None in second.values() or not _same_grads(second, _backward(order)):
                words = dict(call=call, first=_leaves(grads), second=_leaves(second))
                return attempt.fault("kept-between-calls", printed(again), None, **words)
        answers.append(grads)
        results.append(result)
    rights = [_backward(order) for _, order in cases]
    if all(map(_same_grads, answers, rights)):
        many = run(function, graphs.users_first(graphs.doublings(_DOUBLINGS)), lines=100_000)
        if many.ended == "lines":
            words = dict(count=_DOUBLINGS, nodes=_DOUBLINGS + 1, edges=2 * _DOUBLINGS, paths=2**_DOUBLINGS)
            return attempt.fault("once-a-path", printed(many), None, **words)
        return attempt.passed(_table_c(cases, answers))
    return _compare_c(attempt, name, cases, answers, rights, results)


def _key_error(attempt, function, call, result, order, cases):
    """The diagnosis for a dict that was asked for a node it does not have, or None."""
    key, = result.error.args[:1]
    name = next((n.name for n in order if n is key), None)
    got = [f"`{call}` raised KeyError: {name}.", f"    {result.where}", *printed(result)]
    if key is order[0]:
        return attempt.fault("no-seed", got, _table_c(cases), root=name)
    if name is None:
        return None
    # A walk from the leaves asks for the last node first; a pass from the root asks for the first target.
    order = cases[1][1]
    other = run(function, list(order)).error
    backwards = isinstance(other, KeyError) and other.args[:1] == (order[-1],)
    return attempt.fault("from-the-leaves" if backwards else "no-start", got, None, name=name, last=order[-1].name,
                         root=cases[0][1][0].name)


def _compare_c(attempt, name, cases, answers, rights, results):
    first = next(i for i, (a, r) in enumerate(zip(answers, rights)) if not _same_grads(a, r))
    expression, order = cases[first]
    node = next(n for n in reversed(order) if n not in answers[first] or not close(answers[first][n], rights[first][n]))
    got, want = apart(answers[first].get(node, "no gradient"), rights[first][node])
    yours = f"the gradient {got}" if node in answers[first] else got
    table = _table_c(cases, answers, len(cases))
    at = ", ".join(f"{n.name} = {show_number(n.value)}" for n in order if n.op == "leaf")
    said = [f"At {expression} with {at}, `{name}` gives {node.name} {yours}; expected {want}.",
           *printed(results[first])]
    words = dict(got=got.split()[-1], want=want, name=node.name, root=order[0].name)
    for fault in attempt.task.faults:
        for answer in fault.answers:
            predicted = [answer(order) for _, order in cases]
            if all(len(a) == len(p) and _same_grads(a, p) for a, p in zip(answers, predicted)):
                return attempt.fault(fault.id, said, table, **words)
    if all(close(v, r[n]) for a, r in zip(answers, rights) for n, v in a.items() if n in r):
        return attempt.fault("missing-nodes", said, table, **words)
    also = [f.title for f in attempt.task.faults
            if any(_same_grads(answers[first], answer(order)) for answer in f.answers)]
    if also:
        said.append(f"The same numbers at {expression} also come from these mistakes: {'; '.join(also)}. On the other "
                   "graphs, though, your code does something else.")
    return attempt.unknown(said, table)


_FAULTS_C = (
    Fault("one-edge", "two edges to the same node are counted as one",
          "{got} is one share where two belong. Your code goes over the different input *nodes* of a product, and x "
          "* x has one. It must go over the *edges*, and there are two. Where the inputs differ, as in x*y + x, "
          "your code is right.",
          "a set or a dict in your loop that holds the inputs of one node. It keeps equal nodes once.",
          (lambda order: _backward(order, lambda n, g: list(dict(graphs.shares(n, g)).items())),)),
    Fault("overwritten", "a later share replaces an earlier one",
          "{name} gets {got}, which is the last share alone, and should get {want}, the sum of all. The dict holds "
          "what has arrived so far; `grads[target] = share` throws it away. It is lost for x * x and for x*y + x "
          "alike, which tells this mistake from counting edges once.",
          "the line that stores a share. What was in the dict just before?",
          (lambda order: _backward(order, arrive=lambda grads, node, c: c),)),
    Fault("first-kept", "only the first share to each node is kept",
          "{name} gets {got}, which is the first share alone, and should get {want}. A node that already has a "
          "number is skipped. To skip a node when it is *visited* again is right; to skip an *edge* is not.",
          "the `if` around the line that stores a share.",
          (lambda order: _backward(order, arrive=lambda grads, node, c: grads.get(node, c)),)),
    Fault("reset-inputs", "what earlier users sent is set back to zero",
          "Your code adds the shares of one node correctly (x * x is right), but it sets each input to 0 first. A "
          "node with several users keeps only what the last user sent.",
          "the line that writes 0.0. How often does it run for one node?",
          (_reset_inputs,)),
    Fault("upstream-missing", "what has arrived at a node is not passed on",
          "Your shares are computed with 1, not with the gradient of the node they start from. At the root that "
          "gradient is 1, so small graphs look right.",
          "the second argument of `shares`.",
          (lambda order: _backward(order, lambda n, g: graphs.shares(n, 1.0)),)),
    Fault("edges-squared", "every edge is counted twice",
          "For x * x that is 4x where 2x is right. Two loops run inside each other: one over the inputs of a node, "
          "one over its shares. `shares` already has one entry for each edge.",
          "the inner loops. One loop over `shares(node, g)` is enough.",
          (lambda order: _backward(order, lambda n, g: graphs.shares(n, g) * len(n._inputs)),
           lambda order: _backward(order, lambda n, g: [(t, c) for t in n._inputs for u, c in graphs.shares(n, g)
                                                        if u is t]))),
    Fault("first-sight", "a node passes on what it has before all of it has arrived",
          "{name} gets {got}, and should get {want}. Your code follows the inputs by itself, and goes on from a node "
          "when it first meets it. What another user sends to that node later is not passed on any more. In `order` "
          "each node stands after all its users.",
          "the loop: over which nodes does it run? `for node in order` waits for every user.",
          tuple(lambda order, last=last, share=share: _at_first_sight(order, last, share) for last in (True, False)
                for share in (graphs.shares, lambda n, g: graphs.shares(n, g)[::-1]))),
    Fault("sent-again", "what has been passed on once is passed on again",
          "{name} gets {got}, and should get {want}. Each time that a share arrives at a node, your code sends on the "
          "whole sum so far, also the part that it had sent on before. Each node passes on once, when all has arrived.",
          "the loop: `for node in order` comes to each node once, after all its users.",
          (_again_each_time,)),
    Fault("once-a-path", "every path is walked, not every edge",
          "The numbers are right. With {count} doublings, x1 = x0 + x0 and so on, there are {nodes} nodes, {edges} "
          "edges and {paths} paths, and your code was stopped: it walks each path by itself. The shares of all paths "
          "that meet at a node are added first, and then the node passes on the sum, once.",
          "the loop, or a function that calls itself. `for node in order` comes to each node once."),
    Fault("multiplied", "the shares are multiplied, not added",
          "{name} gets {got}, the product of its shares, and should get {want}. Where several edges meet, the shares "
          "are added. Multiplied is along one path.",
          "the line that stores a share, and the number with which an entry begins.",
          (lambda order: _backward(order, arrive=lambda grads, node, c: grads.get(node, 1.0) * c),)),
    Fault("averaged", "the shares are averaged, not added",
          "{name} gets {got}, and should get {want}. Each share is the effect of one edge, and when the node moves, "
          "all these effects come together. Nothing is divided.",
          "the line that stores a share.",
          (lambda order: _backward(order, arrive=lambda grads, node, c: (grads[node] + c) / 2 if node in grads else c),
           )),
    Fault("like-a-product", "a sum is treated like a product",
          "At x * x your code is right, and wherever two nodes are *added* it is not: it sends along each edge the "
          "value in the other slot. A sum passes on what has arrived.",
          "`shares(node, g)`, which knows both rules. Your task b knows the product alone.",
          (lambda order: _backward(order, _like_a_product),)),
    Fault("first-doubled", "the first share to each node is counted twice",
          "The first share is stored as the starting number and then added again. For x * x that makes three "
          "shares, 3x. A starting number must be 0.",
          "how an entry begins: `setdefault(target, share)` followed by `+=` counts the share twice.",
          (lambda order: _backward(order, arrive=lambda grads, node, c: grads.get(node, c) + c),)),
    Fault("no-seed", "the root has no gradient to start from",
          "Nothing has put a number on the root `{root}`, so nothing can flow down from it. dL/dL = 1: the pass "
          "begins with 1 at the root, which is the first node of the order.",
          "the first line of your function, before the loop.",
          (_zeros, lambda order: _backward(order, seed=0.0), lambda order: {n: 0.0 for n in order[1:]})),
    Fault("no-start", "a share is added to a number that is not there",
          "`grads[target] += share` needs a number that is already there, and nothing has been stored for `{name}` "
          "yet. Use `grads.get({name}, 0)`: it gives 0 for a node without a number.",
          "the line shown. What should a node have before its first share arrives?"),
    Fault("from-the-leaves", "the pass begins at the leaves",
          "You began at the leaves; `order` begins at the root. A gradient comes to a node from its users, so the "
          "root is first, with a 1, and the leaves are last.",
          "where your code turns the order round, or takes its last node.",
          tuple(lambda order, a=a: _from_the_leaves(order, *a)
                for a in ((0, -1, False), (-1, -1, False), (-1, -1, True), (-1, 1, False), (-1, 1, True)))),
    Fault("ones", "every node begins with 1",
          "Only the root begins with 1, because dL/dL = 1. Every other node begins with 0: its number is the sum of "
          "the shares that arrive. With a 1 in advance, {name} has {got} where {want} is right.",
          "the numbers you put into the dict before the first share arrives.",
          (_ones, _all_set_to_one)),
    Fault("seed-value", "the pass starts with the value of the root, not with 1",
          "Every gradient is too large by one factor, the value of `{root}`. The pass starts from dL/dL, and that "
          "is 1 whatever the value of L is.",
          "the number you put on order[0].",
          (lambda order: _backward(order, seed=order[0].value),)),
    Fault("missing-nodes", "the numbers are right, but some nodes are missing",
          "{name} has no gradient in your dict; it should have {want}. Every node of the order gets one: the root, "
          "the nodes between, and the leaves.",
          "what you take out of the dict, or leave out, before you return it."),
    Fault("kept-between-calls", "the second call finds what the first one left behind",
          "`{call}` was called twice. The first time the leaves had {first}, the second time {second}. Something "
          "outlives the call: a dict outside the function, or a dict as a default argument.",
          "where your dict is made. It must be made anew inside the function, at each call."),
    Fault("name-keys", "the dict has names as keys, not nodes",
          "You returned {got}. Two different nodes may carry the same name, and then their shares would be mixed. "
          "The node itself can be a key.",
          "`.name` in your code."),
    Fault("no-return", "the function returns nothing",
          "`{call}` returned None. A Python function without a `return` gives None, even when it has computed the "
          "answer.",
          "the last line of your function."),
    NOTEBOOK_NODE, EARLY_RETURN,
)

TASKS = (
    replace(by_hand(
        "02.a", "one share for each edge, by hand", _SLOTS, deal=_deal, given=_given_a, right=_right_a, how=_how_a,
        say=lambda d: dict(x=show_number(d[0]), g=show_number(d[1]), gx=show_number(d[0] * d[1])),
        faults=_FAULTS_A, hints=(
            "Two lines lead from y down to x: one from slot 1 of the product, one from slot 2. Treat them one at a "
            "time. While you look at slot 1, pretend that slot 2 holds a fixed number.",
            "Each line carries (what has arrived at y) times (the value in the other slot).\n\n"
            "      g arrives here\n"
            "              y\n"
            "    slot 1  /   \\  slot 2\n"
            "     g * ? |     | g * ?\n"
            "            \\   /\n"
            "              x",
            "Fill in the numbers that `given` printed:\n\n"
            "    slot_1 = (number of g) * (number of x)\n"
            "    slot_2 = ...        # the same rule, for the other slot\n"
            "    total = slot_1 + slot_2"),
        good="Each of the two edges carries its own share, and x receives the sum of both."), hands_over=True),
    Task("02.b", "the shares of one product", ("mul_backward",), _judge_b, _FAULTS_B, (
        "The function never has to ask whether the two inputs are the same node. Write it for a * b with two "
        "different letters, and return a list with two pairs.",
        "For node = a * b, with the gradient g at the node:\n\n"
        "    slot  input node   local slope   share\n"
        "    1     a            b.value       g * b.value\n"
        "    2     b            a.value       ?",
        "Unpack, then return a list of two pairs:\n\n"
        "    def mul_backward(node, g):\n"
        "        a, b = node.inputs\n"
        "        return [(a, ...), (b, ...)]"),
        "One pair for each edge, also when both edges lead to the same node."),
    Task("02.c", "add up over all edges", ("backward",), _judge_c, _FAULTS_C, (
        "Keep one dict from node to gradient. Begin with 1 at the root. Go through the order; whatever a node sends "
        "to a target is *added* to what the target already has.",
        "For y = x * x at x = -3 the dict goes through these states:\n\n"
        "    start                 {y: 1}\n"
        "    first edge of y       {y: 1, x: -3}\n"
        "    second edge of y      {y: 1, x: -6}\n\n"
        "Which line of your code makes the third state from the second?",
        "Two loops, one inside the other, and one line that adds:\n\n"
        "    grads = {order[0]: 1.0}\n"
        "    for node in order:\n"
        "        for target, share in shares(node, ...):\n"
        "            grads[target] = grads.get(target, ...) + ...\n"
        "    return grads"),
        "Every edge is counted once, and every node has the sum of what its users sent: x*x at -3 has -6."),
)
