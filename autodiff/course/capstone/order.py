"""`sorted_nodes`: an order is judged by its properties, never by comparison with one order."""

import functools

from autodiff.course.capstone.bench import ENGINE_INSIDE, Bench, MiniNode, all_nodes, leaf, op_node
from autodiff.course.capstone.engine import OURS
from autodiff.course.forms import NO_RETURN
from autodiff.course.judge import LONGEST_CHAIN, Fault
from autodiff.course.result import Table, safe_repr


FAULTS = (
    NO_RETURN,
    Fault("reversed", "the order is upside down",
          "This is the order of the forward pass: inputs before users. The root, {root}, comes first.",
          "which end of the list each node is put to."),
    Fault("by-distance", "the nodes are sorted by their distance from the root",
          "{early} is near the root, and {user} uses it too and comes later: its share has not arrived. What counts is "
          "the longest way from the root.",
          "when a node is listed: as soon as it is seen, or when nothing above it is left?"),
    Fault("on-sight", "a node is listed as soon as it is seen",
          "{user} uses {early}, and {early} was listed on another path before. A node is listed only when all its "
          "inputs are done; the list is turned round at the end.",
          "the moment at which a node goes into the list: on the way down, or on the way up?"),
    Fault("input-first", "an input stands before one of its users",
          "{user} uses {early} and comes after it, so its share arrives too late.",
          "this one pair: when was each of them listed, and why?"),
    Fault("listed-twice", "a node is listed twice",
          "{node} has several users, and is one node: it is handled once.",
          "where it is remembered that a node has been opened."),
    Fault("constants-listed", "a constant is listed",
          "{node} is not tracked: no variable stands below it. A backward pass has nothing to do there.",
          "the attribute `tracked`."),
    Fault("root-missing", "the root is missing",
          "{node} is the root, and the pass begins there.",
          "the first and the last turn of your loop."),
    Fault("variables-missing", "the variables are missing",
          "{node} has no inputs, and is listed all the same: its gradient is what one wants.",
          "what your loop does with a node without inputs."),
    Fault("nodes-missing", "a node is missing",
          "{node} was used on the way to the root, and is not in the list.",
          "whether all inputs of a node are looked at, or only one."),
    Fault("constant-root", "a constant is listed when it is the root",
          "For a constant k it returned {got}; expected [].",
          "whether the root itself is asked if it is tracked."),
    Fault("other-graph", "a node of another graph is listed",
          "{node} belongs to a graph of an earlier call. Something outlives the call.",
          "a list or set outside the function, or as a default argument. Make it inside, at each call."),
    Fault("marks-left", "a mark is left on the nodes",
          "For the same graph a first call gave {first}, and a second one {second}. An attribute of the nodes is "
          "another one after the first call, and the second call reads it.",
          "where it is kept which nodes were seen, and what of it is left after the call."),
    Fault("second-call", "a second call gives something else",
          "For the same graph a first call gave {first}, and a second one {second}. What the first call remembered is "
          "still there.",
          "a list, set or dict outside the function, or as a default argument. Make it inside, at each call."),
    Fault("by-name", "two nodes with the same name count as one",
          "L = x + x, with two variables that are both called x and have the same value, has three nodes. Your "
          "function returned two.",
          "how the nodes that were seen are remembered: by themselves, not by their name or value."),
    Fault("every-path", "every path is walked",
          "In a chain of 60 doublings, v + v again and again, there are 61 nodes and 2**60 paths. It was stopped after "
          "many lines.",
          "what happens when a node is met for the second time."),
    Fault("recursion", "it calls itself",
          "In a chain of {depth} additions it called itself too deeply. Python's stack is small; a list is not.",
          "an explicit stack: a list, with append and pop."),
    Fault("searches-a-list", "it looks for nodes in a list",
          "For 200 nodes in a row it compared nodes {count} times. `node in a_list` looks at each entry in turn: for a "
          "graph of a million nodes it never ends.",
          "the container that remembers the nodes. A set finds a node at once."),
    ENGINE_INSIDE,
)


def _graphs(rng):
    """[(in words, root)], the smallest first; names are short, for lists of them are shown."""
    x, y, k = leaf("x", 2.0), leaf("y", 3.0), leaf("k", 5.0, False)
    graphs = [("x alone", x), ("y = x * x", op_node("mul", x, x, name="y")), ("z = x * k, with a constant k",
                                                                       op_node("mul", x, k, name="z"))]
    a = op_node("exp", x, name="a")
    graphs.append(("a = exp(x), L = a + x", op_node("add", a, x, name="L")))
    graphs.append(("a = exp(x), L = x + a", op_node("add", x, a, name="L")))
    graphs.append(("a = exp(x), b = x * x, L = a + b", op_node("add", a, op_node("mul", x, x, name="b"), name="L")))
    p = op_node("mul", x, y, name="p")
    q = op_node("add", p, x, name="q")
    graphs.append(("p = x * y, q = p + x, L = q * p", op_node("mul", q, p, name="L")))
    pool = [x, y, k]
    for number in range(7):
        first, second = rng.choice(pool[-4:]), rng.choice(pool)
        pool.append(op_node(rng.choice(("add", "mul")), first, second, name=f"n{number}")
                    if first.tracked or second.tracked else op_node("add", first, x, name=f"n{number}"))
    while len(pool) > 4:
        graphs.append(("a random graph", pool[-1]))
        pool = pool[:-3]
    return graphs


def _lines(root) -> str:
    """The graph as lines such as ``L = add(a, x)``."""
    return "\n".join(f"    {n.name} = {n.op}({', '.join(i.name for i in n.inputs)})"
                     for n in OURS["sorted_nodes"](root) if n.op) or f"    {root.name}"


def _show_order(order) -> str:
    return "[" + ", ".join(str(getattr(n, "name", None) or safe_repr(n, 20)) for n in order) + "]"


def _walk(root, take, mark_early, step):
    order, waiting, seen = [], [root], {root} if mark_early else set()
    while waiting:
        node = waiting.pop(take)
        if not mark_early:
            if node in seen:
                continue
            seen.add(node)
        order.append(node)
        for n in node.inputs[::step]:
            if n.tracked and n not in seen:
                if mark_early:
                    seen.add(n)
                waiting.append(n)
    return order


_ON_SIGHT = tuple(functools.partial(_walk, take=-1, mark_early=m, step=s) for m in (True, False) for s in (1, -1))
_BY_DISTANCE = tuple(functools.partial(_walk, take=0, mark_early=m, step=s) for m in (True, False) for s in (1, -1))


def _problem(root, order):
    """(fault, words) for what is wrong with an order, or None."""
    right = OURS["sorted_nodes"](root)
    there, place = set(order), {n: k for k, n in enumerate(order)}
    if len(place) != len(order):
        name = next(n.name for k, n in enumerate(order) if n in order[:k])
        return "listed-twice", dict(node=name)
    extra = [n for n in order if n not in right]
    strange = [n for n in extra if n not in all_nodes(root)]
    if strange:
        return "other-graph", dict(node=strange[0].name)
    if extra:
        return "constants-listed", dict(node=extra[0].name)
    if right[0] not in there:
        return "root-missing", dict(node=root.name)
    missing = [n for n in right if n not in there]
    if missing and all(n.op is None for n in missing):
        return "variables-missing", dict(node=missing[0].name)
    if missing:
        return "nodes-missing", dict(node=missing[0].name)
    early = next(((u, n) for u in order for n in u.inputs if n.tracked and place[n] < place[u]), None)
    if early is None:
        return None
    return "input-first", dict(user=early[0].name, early=early[1].name)


def probe(bench: Bench) -> Table:
    """Small graphs by the properties of an order; then many paths, depth, and the cost of a long chain."""
    function = bench.part
    shown, orders = [], []
    for text, root in _graphs(bench.rng):
        order = bench.call(f"sorted_nodes({root.name})", function, root)
        if order is None:
            bench.fault("no-return", [], call=f"sorted_nodes({root.name})")
        if not isinstance(order, (list, tuple)) or not all(isinstance(n, MiniNode) for n in order):
            got = f"a {type(order).__name__}" if isinstance(order, (set, dict, frozenset)) else safe_repr(order)
            bench.wrong(f"`sorted_nodes({root.name})` returned {got}; expected a list of nodes.")
        orders.append((text, root, list(order)))
        if len(shown) < 7:
            shown.append((text, _show_order(OURS["sorted_nodes"](root)), _show_order(order)))
    wrong = [(text, root, order, _problem(root, order)) for text, root, order in orders]
    wrong = [w for w in wrong if w[3]]
    table = Table(("graph", "one right order", "yours"), tuple(shown))
    if wrong:
        _probe_second_call(bench, function, table)
        # An empty list for a variable alone may be a lost root or a lost variable: other graphs tell.
        _name_order(bench, orders, sorted(wrong, key=lambda w: w[1].op is None), table)
    constant = leaf("k", 5.0, False)
    order = bench.call("sorted_nodes(k) for a constant k", function, constant)
    if list(order) != []:
        bench.fault("constant-root", [], got=_show_order(order))

    x, other = leaf("x", 1.0), leaf("x", 1.0)
    if len(bench.call("sorted_nodes(L)", function, op_node("add", x, other, name="L"))) == 2:
        bench.fault("by-name", [])
    doubled = x
    for _ in range(60):
        doubled = MiniNode(1.0, "add", (doubled, doubled))
    ran = bench.run(function, doubled, lines=100_000)
    if ran.ended in ("lines", "memory"):
        bench.fault("every-path", [])
    order = bench.call("sorted_nodes of 60 doublings", function, doubled)
    if len(order) != 61:
        bench.unknown(f"For 60 doublings it returned {len(order)} nodes; expected 61.")
    deep = x
    for _ in range(DEEP):
        deep = MiniNode(1.0, "add", (deep, x))
    ran = bench.run(function, deep)
    if ran.ended == "recursion":
        bench.fault("recursion", [], depth=DEEP)
    order = bench.call(f"sorted_nodes of a chain of {DEEP} additions", function, deep)
    problem = _problem_of_chain(deep, order)
    if problem:
        bench.unknown(f"For a chain of {DEEP} additions {problem}.")
    _probe_cost(bench, function)
    return table


def _probe_second_call(bench, function, table):
    """Whether the first call on a graph of its own is right, and the second one is not."""
    x = leaf("x", 2.0)
    root = op_node("mul", op_node("exp", x, name="a"), x, name="L")
    before = [dict(vars(n)) for n in all_nodes(root)]
    first = list(bench.call("sorted_nodes(L)", function, root))
    marked = any(vars(n).keys() != b.keys() or any(vars(n)[k] is not b[k] for k in b)
                 for n, b in zip(all_nodes(root), before))
    second = list(bench.call("sorted_nodes(L)", function, root))
    if _problem(root, first) is None and _problem(root, second) is not None:
        words = dict(first=_show_order(first), second=_show_order(second))
        if marked:
            bench.fault("marks-left", [], table, **words)
        if len(second) < len(first):
            bench.fault("second-call", [], table, **words)


DEEP = min(2_500, LONGEST_CHAIN)


def _problem_of_chain(deep, order):
    if len(order) != DEEP + 1:
        return f"it returned {len(order)} nodes; expected {DEEP + 1}"
    place = {n: k for k, n in enumerate(order)}
    early = any(place[n] < place[node] for node in order for n in node.inputs if n in place)
    return "an input stands before its user" if early else None


class _Counting(MiniNode):
    """A node that counts how often it is compared: a search through a list compares, a set does not."""

    compared = 0
    __hash__ = object.__hash__

    def __eq__(self, other):
        _Counting.compared += 1
        return self is other


def _probe_cost(bench, function):
    chain = _Counting(1.0, variable=True)
    for _ in range(200):
        chain = _Counting(1.0, "exp", (chain,))
    _Counting.compared = 0
    bench.call("sorted_nodes of a chain of 200 nodes", function, chain)
    if _Counting.compared > 4_000:
        bench.fault("searches-a-list", [], count=_Counting.compared)


def _name_order(bench, orders, wrong, table):
    text, root, order, (fault, words) = wrong[0]
    said = [f"For this graph your function returned {_show_order(order)}:", _lines(root)]
    if all(_problem(r, o[::-1]) is None for _, r, o in orders):
        bench.fault("reversed", said, table, root=root.name)
    if fault == "input-first":
        if any(all(o == walk(r) for _, r, o in orders) for walk in _BY_DISTANCE):
            bench.fault("by-distance", said, table, **words)
        if any(all(o == walk(r) for _, r, o in orders) for walk in _ON_SIGHT):
            bench.fault("on-sight", said, table, **words)
    kinds = {w[3][0] for w in wrong}
    if fault == "root-missing" and any(_problem(r, [n for n in o if n.tracked]) is None for _, r, o, _ in wrong):
        fault = "constants-listed"
    bench.fault(fault if len(kinds) == 1 or fault != "nodes-missing" else "nodes-missing", said, table, **words)
