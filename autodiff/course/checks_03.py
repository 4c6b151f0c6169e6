"""Checks of exercise 03, order: every node once, after all its users, found without recursion.

Orders are judged by their properties, never by comparison with one order. `TASKS` holds the tasks with their faults and
hints. Wrong answers as a learner would type them, each with the fault it must be given, are in wrong_answers/03.txt.
"""

import re
from collections import deque

from autodiff.course.forms import dealt
from autodiff.course.graphs import Node, add, chain, describe, doublings, leaf, mul, neg, random_graph, users_first
from autodiff.course.judge import (
    EARLY_RETURN,
    LONGEST_CHAIN,
    NOTEBOOK_NODE,
    Fault,
    Task,
    blank,
    function_or_reason,
    name_of,
    printed,
    run,
    stopped,
)
from autodiff.course.result import Table, safe_repr

# Properties of an order. Each returns None, or what is wrong in the words of the graph.


def _unknown(root, order):
    inside = set(users_first(root))
    return next((n for n in order if n not in inside), None)


def _repeated(order):
    return next((n for i, n in enumerate(order) if n in order[:i]), None)


def _missing(root, order):
    there = set(order)
    return [n for n in users_first(root) if n not in there]


def _too_early(order):
    """The first (user, input) with the input before its user."""
    place = {n: i for i, n in enumerate(order)}
    return next(((user, n) for n in order for user in order if n in user._inputs and place[n] < place[user]), None)


def _valid(root, order) -> bool:
    place = {n: i for i, n in enumerate(order)}
    return (len(place) == len(order) and not _missing(root, order) and _unknown(root, order) is None
            and all(place[n] > place[user] for user in order for n in user._inputs))


# What the known wrong walks return.


def _breadth_first(root):
    order, waiting, seen = [], [root], {root}
    while waiting:
        node = waiting.pop(0)
        order.append(node)
        for n in node._inputs:
            if n not in seen:
                seen.add(n)
                waiting.append(n)
    return order


def _depth_first(root, step, mark_at_push):
    order, stack, seen = [], [root], {root} if mark_at_push else set()
    while stack:
        node = stack.pop()
        if not mark_at_push:
            if node in seen:
                continue
            seen.add(node)
        order.append(node)
        for n in node._inputs[::step]:
            if n not in seen:
                if mark_at_push:
                    seen.add(n)
                stack.append(n)
    return order


_PREORDERS = tuple(lambda root, s=s, m=m: _depth_first(root, s, m) for s in (1, -1) for m in (True, False))


def _show(order) -> str:
    return "[" + ", ".join(n.name if isinstance(n, Node) else safe_repr(n, 20) for n in order) + "]"


def _graph_lines(root) -> str:
    return "\n".join("    " + line for line in (describe(root) or f"{root.name} is a leaf").splitlines())


# 03.a: one order by hand.

_NAMES = ("x y a b L", "u v p q R", "s t h k E", "r w c d M")


def _build_a(number):
    """A root whose first input is also used by its second one: breadth-first and depth-first both go wrong on it."""
    x, y, a, b, root = _NAMES[number % len(_NAMES)].split()
    x, y = leaf(x, 2.0), leaf(y, 3.0)
    first = (mul, add)[number % 2](x, y, a)
    second = (mul, add)[number // 2 % 2](*((first, x) if number % 3 else (x, first)), b)
    return (add, mul)[number % 2](first, second, root)


def _hint_a(root) -> str:
    """The edges of the graph, as a picture."""
    first, second = root.inputs
    x = next(n for n in second.inputs if n is not first)
    L, a, b, x = (n.name for n in (root, first, second, x))
    return (f"For {L} = {a} and {b}, with {b} made of {a} and {x}, the edges go down:\n\n"
            f"        {L}\n       / \\\n      |   {b}\n      | / |\n      {a}   |\n       \\  |\n        {x}\n\n"
            f"{a} hangs on {L} and on {b}. It cannot be taken before both are in the list.")


def _show_a(root) -> str:
    return "03.a: put these nodes in order, users before inputs\n" + _graph_lines(root)


def _judge_a(attempt):
    answer, = attempt.answers
    if blank(answer):
        return attempt.not_started()
    root = attempt.dealt[-1]
    nodes = {n.name: n for n in users_first(root)}
    names = [answer] if isinstance(answer, str) else answer
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, (str, Node)) for n in names):
        return attempt.wrong([f"`order` is {safe_repr(answer)}."],
                               look=f'Write a list of names, for example ["{root.name}", ...].')
    names = _names_in(names, nodes)
    if not names:
        return attempt.wrong(["`order` is an empty list."], look=f'Begin with the root: ["{root.name}", ...].')
    graph = [f"The graph, and your order [{', '.join(names)}]:", _graph_lines(root)]
    result = _judged_a(attempt, root, nodes, names, graph)
    result.fits = len(set(names) & set(nodes))  # the graph that was meant has most of the names
    return result


def _judged_a(attempt, root, nodes, names, graph):
    stray = next((n for n in names if n not in nodes), None)
    if stray is not None:
        return attempt.wrong([*graph, f"There is no node {safe_repr(stray)} in this graph."])
    order = [nodes[n] for n in names]
    if _valid(root, order):
        return attempt.passed()
    twice, missing = _repeated(order), _missing(root, order)
    if twice is not None:
        return attempt.fault("repeated", graph, None, name=twice.name)
    if missing:
        return attempt.fault("missing", graph, None, names=", ".join(n.name for n in missing))
    user, early = _too_early(order)
    words = dict(user=user.name, early=early.name, root=root.name)
    if _valid(root, order[::-1]):
        return attempt.fault("reversed", graph, None, **words)
    if order == _breadth_first(root):
        return attempt.fault("by-distance", graph, None, **words)
    if any(order == walk(root) for walk in _PREORDERS):
        return attempt.fault("on-sight", graph, None, **words)
    return attempt.fault("input-before-user", graph, None, **words)


def _names_in(said, nodes) -> list[str]:
    """The names that somebody wrote, with commas or arrows between them or with nothing, in capitals or not."""
    names = [name for text in said for name in re.findall(r"\w+", str(text))]
    known = {name.lower(): name for name in nodes}
    if len(names) == 1 and len(names[0]) > 1 and all(letter in known for letter in names[0].lower()):
        names = list(names[0])
    return [known.get(name.lower(), name) for name in names]


_FAULTS_A = (
    Fault("reversed", "the order is upside down",
          "This is the order of the forward pass: inputs before users. The backward pass goes the other way, "
          "because a node may send its gradient on only when all of its users have sent theirs. It begins at {root}.",
          "your list from right to left."),
    Fault("by-distance", "the nodes are sorted by their distance from the root",
          "{early} is one step from {root}, so you took it early. But {user} uses {early} too, and {user} comes "
          "later in your list: when {early} is processed, the share from {user} has not arrived. What counts is the "
          "*longest* way from the root, not the shortest.",
          "each node in your list: are all its users to the left of it?"),
    Fault("on-sight", "a node is taken as soon as it is seen",
          "You followed one path down to its end before you came back. On the way you passed {early}, and {user} "
          "also uses {early}, yet it comes later in your list. A node has to wait for *all* of its users.",
          "each node in your list: are all its users to the left of it?"),
    Fault("input-before-user", "an input stands before one of its users",
          "{user} uses {early}, and {early} stands before {user} in your list. When {early} is processed, the share "
          "from {user} has not arrived.",
          "this one pair. Then check every other line of the graph in the same way."),
    Fault("missing", "some nodes are not in the list",
          "Not in your list: {names}. Every node has a place, leaves too: the gradients of the leaves are what one "
          "wants.",
          "the names to the right of the = signs."),
    Fault("repeated", "a node stands in the list twice",
          "{name} is there more than once. It has several *edges*, but it is one node, and it is processed once, "
          "after the shares of all its edges have been added.",
          "where the second mention came from, and which of the two places is after all the users."),
)

_OLD_GRAPH = Fault("old-graph", "these are the names of a graph you had before",
                   "The task has come back with a new graph. Your order is right for the earlier one.",
                   "the lines that given(\"03.a\") prints.")

# 03.b: a function that judges an order, judged by planted faults.

_KINDS = {
    "reversed": "the right order upside down, inputs before users",
    "early": "one input that stands before one of its users",
    "missing-leaf": "an order in which a leaf is missing",
    "missing-root": "an order in which the root is missing",
    "repeated": "an order in which a node stands twice",
    "stranger-root": "a node from outside the graph in place of the root",
    "stranger-leaf": "a node from outside the graph in place of a leaf",
    "stranger": "an order with one more node, from outside the graph",
    "twin": "another node of the same name in place of a leaf",
    "empty": "an empty list",
}


def _short_and_long():
    """x is one step from L, and also at the end of a longer way."""
    x = leaf("x", 2.0)
    a = neg(x, "a")
    return add(x, a, "L")


def _diamond():
    x = leaf("x", 2.0)
    return add(neg(x, "a"), mul(x, x, "b"), "L")


def _planted(rng):
    """(kind or None when valid, root, order): valid orders of several forms, and each planted fault."""
    planted = []
    x = leaf("x", -3.0)
    wide = add(mul(leaf("x", 2.0), leaf("y", 3.0), "a"), mul(leaf("z", 4.0), leaf("w", 5.0), "b"), "L")
    for root in (mul(x, x, "y"), _short_and_long(), _diamond(), wide, random_graph(rng, 3, 5)):
        order = users_first(root)
        leaves = [n for n in order if n.op == "leaf"]
        planted += [(None, root, order), (None, root, _shuffled(root, rng)), (None, root, _shuffled(root, rng)),
                    ("reversed", root, order[::-1]), ("empty", root, []),
                    ("missing-leaf", root, [n for n in order if n is not leaves[0]]), ("missing-root", root, order[1:]),
                    ("repeated", root, [*order, order[-1]]), ("stranger", root, [*order, leaf("stranger")]),
                    ("stranger-root", root, [leaf("stranger"), *order[1:]]),
                    ("stranger-leaf", root, [leaf("stranger") if n is leaves[0] else n for n in order]),
                    ("twin", root, [leaf(n.name, n.value) if n is leaves[0] else n for n in order])]
    root = _short_and_long()
    out, a, x = users_first(root)
    planted.append(("early", root, [out, x, a]))
    root = _diamond()
    out, x = root, root._inputs[0]._inputs[0]
    planted.append(("early", root, [out, root._inputs[0], x, root._inputs[1]]))
    # Here the input and its user are far apart: comparing neighbours in the list does not find it.
    x = leaf("x", 2.0)
    first, other = neg(x, "a"), mul(leaf("y", 3.0), leaf("z", 4.0), "b")
    root = add(add(first, other, "c"), x, "L")
    y, z = other._inputs
    planted.append(("early", root, [root, x, root._inputs[0], other, y, z, first]))
    single = leaf("x", 1.0)
    return [*planted, (None, single, [single])]


def _shuffled(root, rng):
    """A valid order drawn at random: Kahn's algorithm with random choices."""
    users = {n: 0 for n in users_first(root)}
    for node in users:
        for n in node._inputs:
            users[n] += 1
    ready, order = [root], []
    while ready:
        node = ready.pop(rng.randrange(len(ready)))
        order.append(node)
        for n in node._inputs:
            users[n] -= 1
            if users[n] == 0:
                ready.append(n)
    return order


def _judge_b(attempt):
    function, = attempt.answers
    reason = function_or_reason(attempt, function, "root, order")
    if reason is not None:
        return reason
    name = name_of(function)
    wrong, refused, said_yes, crashed = {}, set(), set(), {}
    for kind, root, order in _planted(attempt.rng):
        call = f"{name}({root.name}, {_show(order)})"
        result = run(function, root, list(order))
        problem = stopped(attempt, result, call)
        if problem is not None:
            if result.ended != "raised":
                return problem
            problem.body[1:1] = ["The graph:", _graph_lines(root)]
            if kind is None:
                return problem
            crashed.setdefault(kind, (root, order, problem))
            continue
        if result.value is None:
            return attempt.fault("no-return", printed(result), None, call=call)
        if type(result.value).__name__ not in ("bool", "bool_"):
            return attempt.wrong([f"`{call}` returned {safe_repr(result.value)}.", *printed(result)],
                                 look="Return True or False.")
        # The order with one node alone says nothing about directions.
        if bool(result.value) and len(order) > 1:
            said_yes.add(kind)
        elif not result.value:
            refused.add(kind)
        if bool(result.value) != (kind is None):
            wrong.setdefault(kind, (root, order, result))
    if not wrong and not crashed:
        return attempt.passed()
    fault = _fault_b(wrong, refused, said_yes)
    if crashed and (not wrong or not fault):
        root, order, problem = next(iter(crashed.values()))
        return attempt.fault("crashes", problem.body, None, why=_why_wrong(root, order))
    kinds = [k for k in _KINDS if k in wrong]
    # A refused valid order is the better witness: it shows what the function asks for.
    right = None in wrong
    root, order, result = wrong[None] if right else wrong[kinds[0]]
    got = [f"`{name}({root.name}, {_show(order)})` returned {not right}; expected {right}. The graph:",
           _graph_lines(root), *printed(result)]
    rows = [("a valid order", "True", "False" if right else "True")]
    rows += [(text, "False", "True" if k in wrong else "an error" if k in crashed else "False")
             for k, text in _KINDS.items()]
    table = Table(("given", "expected", "yours"), tuple(rows))
    if fault:
        return attempt.fault(fault, got, table)
    accepted = "\n".join(f"    {_KINDS[kind]}" for kind in kinds)
    return attempt.unknown([*got, "Your function accepts several kinds of wrong orders:", accepted], table,
                           look="Take the kinds one at a time, from the top of the table. Each is one condition.")


def _fault_b(wrong, refused, said_yes):
    """The id of the fault that explains which kinds of orders were judged wrongly, or None."""
    kinds = set(wrong) - {None}
    if None in wrong:
        if None not in said_yes and "reversed" in kinds:
            return "upside-down"
        return "one-order" if said_yes else "always-false"
    if not refused:
        return "always-true"
    if kinds and kinds <= {"missing-leaf", "missing-root", "empty"}:
        return "accepts-missing"
    if len(kinds) > 1 and kinds <= {"stranger", "stranger-root", "stranger-leaf", "twin"}:
        return "accepts-stranger"
    if kinds and kinds <= {"stranger", "stranger-root", "stranger-leaf"}:
        return "accepts-stranger"
    if len(kinds) == 1:
        return "accepts-" + min(kinds)
    return "no-comparison" if kinds == {"reversed", "early"} else None


def _why_wrong(root, order) -> str:
    """What is wrong with a planted order, in a few words."""
    stranger, twice, missing = _unknown(root, order), _repeated(order), _missing(root, order)
    if missing:
        names = ", ".join(n.name for n in missing)
        return f"{names} {'is' if len(missing) == 1 else 'are'} missing"
    if stranger is not None:
        return f"{stranger.name} is not in the graph"
    if twice is not None:
        return f"{twice.name} is there twice"
    user, early = _too_early(order)
    return f"{early.name} stands before {user.name}, which uses it"


_FAULTS_B = (
    Fault("always-true", "every order is accepted",
          "Your function said True to each of the wrong orders. A check that cannot fail has told nobody anything.",
          "what your function compares. With which list would it come to a `return False`?"),
    Fault("always-false", "every order is refused",
          "Your function said False to each of the valid orders too.",
          "the condition that failed first. For the graph of one node, the order with this node alone is valid."),
    Fault("one-order", "some valid orders are refused",
          "The order shown has every node once, and every node after its users: it is valid. A graph has many "
          "valid orders. Your function accepts only some of them.",
          "where your function compares with one particular order, or asks that neighbours in the list be joined."),
    Fault("upside-down", "valid orders are refused, upside-down orders are accepted",
          "It accepts the orders that are upside down and refuses the valid ones. The order shown is valid: every "
          "node stands after all its users.",
          "the < or > between the two places. The user stands first, so its place is the smaller number."),
    Fault("crashes", "an error instead of False",
          "This is one of the wrong orders ({why}). Return False here, not an error.",
          "the line shown. Which conditions can you test before it, so that it is not reached with such a list?"),
    Fault("accepts-missing", "an order with missing nodes is accepted",
          "Nothing in this list is in the wrong place, but a node of the graph is not there. It would never get a "
          "gradient.",
          "how your function knows which nodes the graph has. Start from root, not from the list."),
    Fault("accepts-repeated", "a node may stand twice",
          "A node stands twice in this order, and your function accepts it. A backward pass over this list would "
          "send the shares of that node twice.",
          "a set or a dict made from the list: it forgets how often a node was there. Compare lengths."),
    Fault("accepts-stranger", "a node from outside the graph is accepted",
          "The node `stranger` cannot be reached from the root. A backward pass would ask for its gradient and find "
          "none.",
          "the nodes in the list that the walk from root never meets. Lists of equal length may have different nodes: "
          "compare the sets."),
    Fault("accepts-twin", "nodes are told apart by their names",
          "In this list a leaf is missing. In its place stands another node that has the same name, and is not in the "
          "graph. A name is for people: two nodes may have the same one.",
          "`.name` in your function. Compare the nodes themselves; they can be in a set, and be the keys of a dict."),
    Fault("accepts-reversed", "the upside-down order is accepted",
          "In this list the inputs stand before their users. Your function refuses other misplaced nodes, but not "
          "this list.",
          "the direction of your comparison: the user's place must be the smaller number."),
    Fault("accepts-early", "only a part of the edges is compared",
          "In this list one input stands before one of its users, and your function did not see it. It compares "
          "neighbours in the list, or one user for each input, or one input for each user.",
          "the edges. Every user and every one of its inputs is a pair to compare, wherever they stand."),
    Fault("no-comparison", "the places in the list are not compared",
          "Your function checks which nodes are in the list, and not where. In this list an input stands before its "
          "user.",
          "a dict from node to its place. Then compare the places of the two ends of each edge."),
    Fault("no-return", "the function returns nothing",
          "`{call}` returned None. Some way through your function ends without a `return`.",
          "the last line of your function."),
    NOTEBOOK_NODE, EARLY_RETURN,
)

# 03.c: the sort itself.

_DEPTH = LONGEST_CHAIN
_DOUBLINGS = 30


def _small(rng):
    """(title, root) from small to large."""
    x, y = leaf("x", -3.0), leaf("y", 2.0)
    return [("one leaf", leaf("x", 1.0)), ("a chain", chain(3)), ("a product", mul(leaf("x", 3.0), y, "u")),
            ("x * x", mul(x, x, "y")), ("a diamond", _diamond()), ("a short and a long way", _short_and_long()),
            ("short second", _build_a(0)), ("two doublings", doublings(2)),
            *(("a random graph", random_graph(rng, rng.randint(2, 4), rng.randint(4, 9))) for _ in range(8))]


def _walk(function, root, **limits):
    """A call of the learner's function; the order as a list, if it came in another container that has an order."""
    result = run(function, root, **limits)
    if isinstance(result.value, deque) or type(result.value).__name__ == "ndarray" and result.value.ndim:
        result.value = list(result.value)
    return result


def _judge_c(attempt):
    function, = attempt.answers
    reason = function_or_reason(attempt, function, "root")
    if reason is not None:
        return reason
    name = name_of(function)
    cases = _small(attempt.rng)
    orders, said = [], {}
    for _, root in cases:
        result = _walk(function, root, visits=20_000)
        if result.ended == "recursion":
            return _recursion(attempt, name, root, result)
        if result.ended in ("lines", "visits"):
            where = [f"    {result.where}"] if result.where else []
            got = [f"`{name}({root.name})` was stopped on this graph:", _graph_lines(root), *where, *printed(result)]
            return attempt.fault("endless", got, None)
        problem = stopped(attempt, result, f"{name}({root.name})")
        if problem is not None:
            if result.ended == "not started":
                return problem
            problem.body[1:1] = ["The graph:", _graph_lines(root)]
            return problem
        problem = _form(attempt, result, name, root)
        if problem is not None:
            return problem
        orders.append(list(result.value))
        said[root] = printed(result)
    for (_, root), order in zip(cases, orders):
        again = _walk(function, root, visits=20_000)
        if _valid(root, order) and not (again.ended == "returned" and isinstance(again.value, (list, tuple))
                                        and _valid(root, list(again.value))):
            got = safe_repr(again.value) if again.ended == "returned" else f"no order ({again.ended})"
            both = f"`{name}({root.name})` returned {_show(order)} the first time, and {got} the second time."
            return attempt.fault("kept-between-calls", [both, *printed(again)])
    bad = next(((root, order) for (_, root), order in zip(cases, orders) if not _valid(root, order)), None)
    if bad:
        return _misplaced(attempt, name, *bad, [root for _, root in cases], orders, said)
    return _large(attempt, function, name)


def _form(attempt, result, name, root):
    """The diagnosis for an answer that is no list of nodes."""
    value = result.value
    if value is None:
        return attempt.fault("no-return", printed(result), None, call=f"{name}({root.name})")
    if isinstance(value, (set, frozenset)):
        return attempt.fault("a-set", [f"`{name}({root.name})` returned {safe_repr(value)}.", *printed(result)], None)
    if not isinstance(value, (list, tuple)) or not all(isinstance(n, Node) for n in value):
        return attempt.wrong([f"`{name}({root.name})` returned {safe_repr(value)}, which is no list of nodes.",
                              *printed(result)],
                               look="Return a list with the nodes themselves in it, not their names or values.")
    return None


def _misplaced(attempt, name, root, order, roots, orders, said):
    got = [f"For this graph `{name}({root.name})` returned {_show(order)}:", _graph_lines(root), *said[root]]
    pairs = list(zip(roots, orders))
    repeated = _repeated(order)
    if repeated is not None:
        return attempt.fault("repeated", got, None, name=repeated.name)
    if _unknown(root, order) is not None:
        return attempt.wrong([*got, f"{_unknown(root, order).name} is not in this graph."])
    missing = _missing(root, order)
    if missing:
        words = dict(names=", ".join(n.name for n in missing))
        if all(set(_missing(r, o)) == {r} for r, o in pairs):
            return attempt.fault("root-missing", got, None, **words)
        if all(set(_missing(r, o)) == {n for n in users_first(r) if n.op == "leaf"} for r, o in pairs):
            return attempt.fault("leaves-missing", got, None, **words)
        plain = [_valid(r, o) for r, o in pairs if not _repeats_an_input(r)]
        if plain and all(plain):
            return attempt.fault("repeated-edge", got, None, **words)
        return attempt.fault("missing", got, None, **words)
    user, early = _too_early(order)
    words = dict(user=user.name, early=early.name, root=root.name, name=name)
    if all(_valid(r, o[::-1]) for r, o in pairs):
        return attempt.fault("reversed", got, None, **words)
    if all(o == _breadth_first(r) for r, o in pairs):
        return attempt.fault("by-distance", got, None, **words)
    if any(all(o == walk(r) for r, o in pairs) for walk in _PREORDERS):
        return attempt.fault("on-sight", got, None, **words)
    if any(all(o == walk(r)[::-1] for r, o in pairs) for walk in (_breadth_first, *_PREORDERS)):
        # On a chain this is only upside down, so show a graph on which neither direction is an order.
        root, order = next((r, o) for r, o in pairs if not _valid(r, o) and not _valid(r, o[::-1]))
        got = [f"For this graph `{name}({root.name})` returned {_show(order)}:", _graph_lines(root), *said[root]]
        user, early = _too_early(order)
        return attempt.fault("walk-reversed", got, None, user=user.name, early=early.name)
    return attempt.fault("input-before-user", got, None, **words)


def _repeats_an_input(root) -> bool:
    return any(len(set(n._inputs)) < len(n._inputs) for n in users_first(root))


def _large(attempt, function, name):
    """Small graphs are right: now the number of paths, and the depth."""
    root = doublings(_DOUBLINGS)
    result = _walk(function, root, visits=4 * (_DOUBLINGS + 1) ** 2, lines=400_000)
    if result.ended in ("visits", "lines"):
        rows = []
        for count in (2, 4, 6, 8):
            small = run(function, doublings(count), visits=200_000)
            rows.append((str(count), str(count + 1), str(2 ** count), str(small.visits)))
        rows.append((str(_DOUBLINGS), str(_DOUBLINGS + 1), str(2 ** _DOUBLINGS), "stopped"))
        table = Table(("doublings", "nodes", "paths", "visits by your code"), tuple(rows))
        got = [f"`{name}` is right on the small graphs. Now x1 = x0 + x0, x2 = x1 + x1, and so on:"]
        return attempt.fault("once-a-path", got, table, name=name)
    if result.ended == "recursion":
        return _recursion(attempt, name, root, result)
    problem = _not_valid(attempt, result, name, root, f"{_DOUBLINGS} doublings")
    if problem is not None:
        return problem
    root = chain(_DEPTH)
    result = _walk(function, root, visits=30 * _DEPTH, lines=100 * _DEPTH)
    if result.ended == "recursion":
        return _recursion(attempt, name, root, result)
    if result.ended in ("visits", "lines"):
        counts = [(n, run(function, chain(n), visits=500_000, lines=2_000_000).visits) for n in (50, 100, 200)]
        table = Table(("nodes", "visits by your code"), tuple((str(n + 1), str(v)) for n, v in counts))
        return attempt.fault("quadratic", [f"A chain of {_DEPTH} nodes took more than {30 * _DEPTH} visits or "
                                           f"{100 * _DEPTH} lines."], table)
    problem = _not_valid(attempt, result, name, root, f"a chain of depth {_DEPTH}")
    if problem is not None:
        return problem
    if not result.visits:
        return attempt.fault("not-walked", printed(result), None, name=name)
    return attempt.passed(Table(("graph", "nodes", "result"), (
        ("x * x", "2", "each node once"), ("a short and a long way", "3", "users before inputs"),
        (f"{_DOUBLINGS} doublings, {2 ** _DOUBLINGS} paths", str(_DOUBLINGS + 1), "each node once"),
        (f"a chain of depth {_DEPTH}", str(_DEPTH + 1), "no recursion"))))


def _not_valid(attempt, result, name, root, what):
    """The diagnosis for a large graph, None when the order is valid."""
    problem = stopped(attempt, result, f"{name}({root.name})")
    if problem is None and not (isinstance(result.value, (list, tuple)) and _valid(root, list(result.value))):
        return attempt.unknown([f"`{name}` is right on the small graphs, and not for {what}."])
    return problem


def _recursion(attempt, name, root, result):
    nodes = len(users_first(root))
    got = [f"On a chain of {nodes} nodes `{name}` called itself, {result.depth} calls deep."]
    if result.where:
        got += [f"{type(result.error).__name__} at", f"    {result.where}"]
    got += printed(result)
    return attempt.fault("recursion", got, None, name=name)


_FAULTS_C = (
    Fault("recursion", "the walk is recursive",
          "Each call waits on Python's call stack for the next one, and that stack has room for about 1000 calls. A "
          "network with thousands of steps is deeper. Raising the limit only moves the wall.",
          "a list of your own as the stack. What must it remember for each node, so that you can go on after an "
          "input?"),
    Fault("once-a-path", "nodes are visited once for every path, not once",
          "The visits in the table double with each doubling: your code walks into a node again each time an edge "
          "leads to it, and `{name}` drops the repeats later, or not at all. The order is right, and it would take "
          "hours.",
          "the moment when you *enter* a node. Ask there whether you have been in it before, with a set."),
    Fault("not-walked", "another function did the work",
          "The orders are right, but `{name}` asked no node for its `inputs`. So they come from a function of the "
          "course. This task is to write it.",
          "what your function calls. It needs `node.inputs`, a list, and a set."),
    Fault("quadratic", "the work grows with the square of the number of nodes",
          "Twice the nodes take four times the visits. Something goes through all nodes again for each node.",
          "a loop over all nodes inside another one, or a search through a list where a set would answer at once."),
    Fault("endless", "the walk does not end",
          "Your code ran on and on over a few nodes. Most often a node goes back on the stack each time, or is "
          "never taken off.",
          "the loop. At each turn, does the stack get shorter, or does a new node get marked as seen?"),
    Fault("reversed", "the order is upside down",
          "Inputs come before their users in every one of your orders: {early} before {user}. That is the "
          "post-order, the order of the forward pass. The backward pass needs the opposite.",
          "the last line. One step is missing there."),
    Fault("by-distance", "the walk goes level by level from the root",
          "{early} is close to {root} on one way, so it is taken early, while {user}, which also uses it, comes "
          "later. A queue sorts nodes by their *shortest* way from the root. A node must wait for its last user, at "
          "the end of the *longest* way.",
          "when a node is added to the order: at first sight, or when all that must come before it is done?"),
    Fault("on-sight", "a node is added to the order when it is first seen",
          "{early} is added on the way down one path, before {user}, which also uses it. This is a pre-order. A "
          "node is safe to place only when everything *below* it has been placed, and then the list is turned round.",
          "the line with `append`. It must run when you leave a node, not when you enter it."),
    Fault("walk-reversed", "nodes are added when they are first seen, and the list is turned round",
          "Turning round is right for a list in which each node comes after its inputs. Yours has each node when it "
          "is first seen. Here {early} stands before {user}, which uses it, and read backwards the list is no valid "
          "order either.",
          "the line with `append`. It must run when you leave a node, after all its inputs."),
    Fault("input-before-user", "an input comes before one of its users",
          "{early} stands before {user}, and {user} uses it. When {early} is processed, the share from {user} is "
          "still missing.",
          "this graph on paper. At which turn of your loop is that node added, and what was still waiting?"),
    Fault("repeated", "a node is in the order more than once",
          "{name} appears again for each edge, or each path, that leads to it. Every *edge* carries a share, but "
          "every *node* is processed once.",
          "the set of nodes you have seen. Is it asked before a node is added?"),
    Fault("repeated-edge", "a node used twice by the same user is lost",
          "Missing: {names}. Your code is right where all inputs differ. In x * x there are two edges and one user, "
          "and one of your two counts sees 2 where the other sees 1.",
          "where users are counted and where the count goes down. Both must go over edges, or both over different "
          "users."),
    Fault("root-missing", "the root is not in the order",
          "Missing in every order: the root, here {names}. It is the first to be processed.",
          "what is on the stack before the loop begins, and when a node is added."),
    Fault("leaves-missing", "the leaves are not in the order",
          "Missing in every order: the nodes without inputs, here {names}. Their gradients are what one wants in "
          "the end.",
          "what your loop does with a node whose `inputs` is empty."),
    Fault("missing", "some nodes are not in the order",
          "Missing: {names}. They can be reached from the root.",
          "which inputs your walk follows. All of them, or only the first?"),
    Fault("a-set", "a set has no order",
          "A set keeps each node once, and forgets the order in which they came.",
          "a set *beside* the list: the set answers `seen before?`, the list keeps the order."),
    Fault("kept-between-calls", "the second call finds what the first one left behind",
          "Something outlives the call: a flag on the nodes, a list or set outside the function, or one as a "
          "default argument.",
          "where your set of seen nodes is made. It must be made anew inside the function, at each call."),
    Fault("no-return", "the function returns nothing",
          "`{call}` returned None. A Python function without a `return` gives None.",
          "the last line of your function. `list.reverse()` also returns None: it changes the list in place."),
    NOTEBOOK_NODE, EARLY_RETURN,
)

TASKS = (
    dealt(Task("03.a", "one order by hand", ("order",), _judge_a, _FAULTS_A, (
        "Begin with the root. Then ask, each time: which node has all of its users in the list already?",
        _hint_a,
        "Five names. The root is first, then the node that only the root uses, and so on:\n\n"
        "    order = [root, (used by the root alone), (used by both), ..., ...]"),
        "Every node once, and each after all its users.", _build_a, _show_a, hands_over=False), _OLD_GRAPH),
    Task("03.b", "tell a valid order from a wrong one", ("is_order",), _judge_b, _FAULTS_B, (
        "Three questions: is every node of the graph in the list, is nothing in it twice or from outside, and is "
        "each user before each of its inputs?",
        "Give each node its place in the list. Then compare along every edge of the graph:\n\n"
        "    L = a + b        order   [ L   b   a   x ]        edges   L -> a    0 < 2   good\n"
        "    b = a * x        place     0   1   2   3                  L -> b    0 < 1   good\n"
        "                                                              b -> a    1 < 2   good\n"
        "                                                              b -> x    1 < 3   good",
        "Collect the nodes that can be reached from root, compare them with the list, then compare places:\n\n"
        "    def is_order(root, order):\n"
        "        reached, stack = set(), [root]\n"
        "        while stack:\n"
        "            ...                      # take a node, add it, put its inputs on the stack\n"
        "        place = {node: i for i, node in enumerate(order)}\n"
        "        if set(order) != reached or len(order) != ...:\n"
        "            return False\n"
        "        return all(place[node] < place[n] for node in order for n in ...)"),
        "It accepts every valid order, also those that no walk of yours would find, and refuses each planted fault."),
    Task("03.c", "an iterative topological sort", ("topological",), _judge_c, _FAULTS_C, (
        "A node may be added to the list only when all its inputs are in it: that list, turned round, is the "
        "answer. So each node is handled twice: once when you enter it, once when you leave it.",
        "Put on the stack not a node alone but a pair: the node, and whether its inputs are done.\n\n"
        "    y = x * x        stack                              done\n"
        "    start            (y, no)\n"
        "    enter y          (y, yes) (x, no) (x, no)\n"
        "    enter x          (y, yes) (x, no) (x, yes)\n"
        "    leave x          (y, yes) (x, no)                   x\n"
        "    x again: skip    (y, yes)                           x\n"
        "    leave y                                             x y\n\n"
        "Turned round: y, x.",
        "One loop, one stack of pairs, one set:\n\n"
        "    def topological(root):\n"
        "        done, entered, stack = [], set(), [(root, False)]\n"
        "        while stack:\n"
        "            node, inputs_done = stack.pop()\n"
        "            if inputs_done:\n"
        "                ...                  # leave the node\n"
        "            elif node not in entered:\n"
        "                ...                  # mark it, put (node, True) back, then its inputs\n"
        "        return done[::-1]"),
        "Each node once, users before inputs, for many paths and for deep graphs."),
)
