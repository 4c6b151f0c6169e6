"""Checks of exercise 17, build your own engine: seven parts, and a training loop that uses them.

Here are the tasks with their hints. What is asked of each part, and which fault each wrong answer shows, is in
`autodiff.course.capstone`. Wrong answers as a learner would type them are in wrong_answers/17.txt.
"""

from collections.abc import Mapping

from autodiff.course.capstone import backward, gradcheck, loop, node, order, record, rules, store
from autodiff.course.capstone.bench import judge_part
from autodiff.course.judge import Task


def _task(letter, part, title, home, wanted, hints, good, accepts=callable):
    judge = judge_part(part, home.probe, wanted, accepts)
    return Task(f"17.{letter}", title, (part,), judge, home.FAULTS, hints, good)


def _is_table(part):
    return isinstance(part, Mapping)


def _is_class(part):
    return isinstance(part, type)


TASKS = (
    _task("a", "RULES", "the table of rules", rules, "a dict from the name of an op to a tuple", (
        "Write one op, run the check, write the next. Begin with add. For each slot ask: when this operand grows by a "
        "little, by how much does the result grow? That, times g.",
        "The shape of a share is the shape of its operand. This alone decides most of matmul, sum and broadcast:\n\n"
        "    a (n, m)   b (m, p)   ->   y (n, p)       share of a: (n, m)     share of b: (m, p)\n"
        "    a (2, 3)              ->   y ()           each entry went into y once\n"
        "    a (3,)                ->   y (2, 3)       each entry stands in y twice, one below the other\n"
        "    a (2, 1)              ->   y (2, 3)       each entry stands in y three times, side by side",
        "Each entry is a tuple: the forward, then a function for each slot. With params, both get them by name:\n\n"
        "    RULES = {\n"
        "        \"add\": (np.add, lambda g, y, a, b: ..., lambda g, y, a, b: ...),\n"
        "        \"tanh\": (np.tanh, lambda g, y, a: ...),\n"
        "        \"sum\": (lambda a, axis=None: np.sum(a, axis=axis, keepdims=...),\n"
        "                lambda g, y, a, axis=None: ...),\n"
        "        \"broadcast\": (lambda a, shape: np.broadcast_to(a, shape), lambda g, y, a, shape: ...),\n"
        "    }\n\n"
        "For broadcast a function with a name is easier to read: sum over the axes that are new, then over those that "
        "had length 1."),
        "Nine forwards and thirteen partials, each in the shape of its operand.", _is_table),
    _task("b", "Node", "a value, and how it was computed", node, "a class", (
        "A node only keeps what it is given. One attribute it works out by itself: whether it is tracked. The "
        "operators do nothing but call `record`.",
        "Who may write into a value? Nobody:\n\n"
        "    array -> copy of float64 -> node.value, read-only\n\n"
        "Who is tracked?\n\n"
        "    x (variable)     k (constant)       tracked:  x\n"
        "          \\           /                          x * k\n"
        "            x * k                                exp(x * k)\n"
        "              |                      not tracked:  k\n"
        "          exp(x * k)                               k + 1",
        "The class, with the deciding parts left open:\n\n"
        "    class Node:\n"
        "        __array_ufunc__ = ...              # so that NumPy leaves array + node to the node\n\n"
        "        def __init__(self, value, op=None, inputs=(), params=None, ...):\n"
        "            self.value = ...               # a copy; then its flags\n"
        "            ...\n"
        "            self.tracked = ...             # two ways\n\n"
        "        def __sub__(self, other):\n"
        "            return record(\"sub\", ..., ...)\n\n"
        "        def __rsub__(self, other):         # other - self\n"
        "            return record(\"sub\", ..., ...)"),
        "A node remembers, and nobody can change what it remembers.", _is_class),
    _task("c", "record", "run an operation, and remember how", record, "a function", (
        "Four things, in this order: make nodes of what is none; make shapes equal where the op works entry by entry; "
        "compute the value; decide whether to remember.",
        "What `record(\"add\", b, m)` makes, with b of shape (3,) and m of shape (2, 3):\n\n"
        "    b (3,)\n"
        "      |\n"
        "    broadcast, shape=(2, 3)      m (2, 3)\n"
        "               \\                 /\n"
        "                    add (2, 3)",
        "The four steps:\n\n"
        "    inputs = [... for i in inputs]                    # a number or an array becomes a constant\n"
        "    if op in (\"add\", \"sub\", \"mul\"):\n"
        "        shape = np.broadcast_shapes(...)\n"
        "        inputs = [...]                                # who has another shape gets a node in between\n"
        "    value = RULES[op][0](...)\n"
        "    if ...:                                           # is there anything below that wants a gradient?\n"
        "        return Node(value, ...)\n"
        "    return Node(value)"),
        "Every edge is made here, broadcasts have nodes of their own, and constants leave no trace."),
    _task("d", "sorted_nodes", "an order to work in", order, "a function", (
        "This is task c of exercise 03, with one thing more: a node that is not tracked is not entered at all, and the "
        "root may be such a node.",
        "Each node comes up twice: when it is opened, and when its inputs are done.\n\n"
        "    L = a + x, a = exp(x)     stack                             done\n"
        "    start                     (L, no)\n"
        "    open L                    (L, yes) (a, no) (x, no)\n"
        "    open x                    (L, yes) (a, no) (x, yes)\n"
        "    close x                   (L, yes) (a, no)                  x\n"
        "    open a, close a           (L, yes)                          x a\n"
        "    close L                                                     x a L\n\n"
        "Turned round: L, a, x.",
        "One loop, one stack of pairs, one set:\n\n"
        "    done, opened, stack = [], set(), [(root, False)]\n"
        "    while stack:\n"
        "        node, inputs_done = stack.pop()\n"
        "        if inputs_done:\n"
        "            ...                      # close it\n"
        "        elif ...:                    # open it? not twice, and not when ...\n"
        "            ...                      # remember it, put (node, True) back, then its inputs\n"
        "    return ..."),
        "Each tracked node once, users before inputs, for many paths and for deep graphs."),
    _task("e", "GradStore", "gradients by node", store, "a class", (
        "Inside is a dict from node to gradient. Almost every method is one line. The one that thinks is `accumulate`: "
        "there it is decided that shares are added, and into which array.",
        "The rule of add hands the *same* array to both operands:\n\n"
        "    accumulate(a, g)      a ---> [1, 2] <--- b       one array, two names\n"
        "    accumulate(b, g)\n"
        "    accumulate(a, h)      a ---> [11, 22]            a new array for a\n"
        "                                 [1, 2] <--- b       b has what it had",
        "What a dict does already, you need not write again:\n\n"
        "    def __init__(self):\n"
        "        self.grads = {}\n\n"
        "    def accumulate(self, node, g):\n"
        "        if ...:                                  # the shape\n"
        "            raise ValueError(...)\n"
        "        self.grads[node] = ...                   # two cases, and never +=\n\n"
        "    def take(self, node): return ...             # and remove it\n"
        "    def __contains__(self, node): return ...\n"
        "    def extend(self, other): ...                 # accumulate does it"),
        "Shares are added, absent is absent, and no array is written to.", _is_class),
    _task("f", "backward", "the loop that joins the parts", backward, "a function", (
        "Seed, take, rule, accumulate. The seed is the cotangent of the root. Then every node in order gives each of "
        "its tracked inputs a share.",
        "u = x * y + x, L = u * u at x = 3, y = 2; the store after each node:\n\n"
        "    seed                  L: 1\n"
        "    L = u * u             u: 9 + 9 = 18\n"
        "    u = m + x             m: 18   x: 18\n"
        "    m = x * y             x: 18 + 36 = 54   y: 54",
        "The loop, with the deciding parts left open:\n\n"
        "    store = GradStore()\n"
        "    store.accumulate(root, ...)                  # ones of which shape, or the cotangent\n"
        "    for node in sorted_nodes(root):\n"
        "        if node.op is None:\n"
        "            ...                                  # a variable keeps its gradient\n"
        "        g = ...\n"
        "        for i, partial in zip(node.inputs, ...):\n"
        "            if ...:\n"
        "                store.accumulate(i, partial(g, ...))\n"
        "    return store"),
        "What is left are the gradients of the variables that were reached, and nothing else."),
    _task("g", "gradcheck", "the alarm", gradcheck, "a function", (
        "Two ways to the same number: the gradient that `backward` gives for a random cotangent v, and the difference "
        "of (v * f).sum() when one entry of one array moves by a step to either side.",
        "One entry of one array at a time:\n\n"
        "    x = [a  b  c]        moved: [a  b+step  c]  ->  up\n"
        "                         moved: [a  b-step  c]  ->  down\n\n"
        "    slope of entry b  =  (up - down) / (2 * step)        compare with grads[x][1]",
        "The two sides:\n\n"
        "    nodes = [Node(...) for a in arrays]\n"
        "    out = f(*nodes)\n"
        "    v = ...                                      # random, repeatable, in the shape of out\n"
        "    grads, worst = backward(out, v), 0.0\n"
        "    for k, node in enumerate(nodes):\n"
        "        got = grads.get(node, ...)               # absent counts as zeros\n"
        "        for index in np.ndindex(node.value.shape):\n"
        "            up, down = ...                       # in a copy of array k, entry index moved\n"
        "            slope = ...\n"
        "            worst = np.maximum(worst, ...)       # nan counts as larger than any number\n"
        "    return worst"),
        "It is silent for right rules, and it rings for each planted fault."),
    _task("h", "train", "train on your engine", loop, "a function", (
        "Values never change, so a step makes new nodes. For each batch: make variables of the params, record the "
        "loss, go back, step.",
        "One turn:\n\n"
        "    arrays  ->  nodes (variables)  ->  loss_of(nodes, x, hot)  ->  backward  ->  store\n"
        "       ^                                                                          |\n"
        "       +--------------  p - lr * gradient  <--------------------------------------+",
        "The loop, with the deciding parts left open:\n\n"
        "    for x, hot in batches:\n"
        "        nodes = [Node(...) for p in params]\n"
        "        grads = backward(loss_of(...))\n"
        "        params = [... for p, node in zip(params, nodes)]\n"
        "    return params"),
        "Your loop learns to read digits, with the very weights that autodiff finds."),
)
