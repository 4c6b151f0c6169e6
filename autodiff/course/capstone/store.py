"""The store: each question has a fault of its own."""

import numpy as np

from autodiff.course.capstone.bench import ENGINE_INSIDE, Bench, generator, leaf, numbers, told
from autodiff.course.forms import apart, same, show
from autodiff.course.judge import Fault
from autodiff.course.result import Table, safe_repr


FAULTS = (
    Fault("first-lost", "the first share is not kept",
          "After `accumulate(a, g)` on a new store, `store[a]` finds nothing.",
          "what `accumulate` does when nothing is there yet, and under which key."),
    Fault("by-value", "two nodes share one place",
          "a and b are two nodes with equal values. After a share for a, the store has one for b.",
          "the key: the node itself, not its value or shape."),
    Fault("by-name", "two nodes with the same name share one place",
          "A name is for people: two nodes may have the same one, and most nodes have none. After a share for one of "
          "two such nodes, the store has one for the other.",
          "the key: the node itself, not its name."),
    Fault("in-place", "a share is added into an array that somebody else holds",
          "The rule of add hands the same array to both operands. `+=` writes into it, and so the gradient of the "
          "other one changes; a read-only array refuses.",
          "the line with +=, or np.add with `out`. `old + g` makes a new array."),
    Fault("writes-own-copy", "`accumulate` writes into an array that the store has handed out",
          "Whoever asked the store for the gradient of a holds this very array, and it changed when the next share "
          "came. A copy of the first share protects its sender, and nobody else.",
          "the line with +=, or np.add with `out`: into which array does it write?"),
    Fault("overwrites", "the second share overwrites the first",
          "Only the last share is left. Shares that meet at a node are added.",
          "what `accumulate` does when something is there already."),
    Fault("keeps-first", "the second share is dropped",
          "Only the first share is left. Shares that meet at a node are added.",
          "what `accumulate` does when something is there already. `old + g` must be stored again."),
    Fault("shared-stores", "all stores are one",
          "A second GradStore() finds what is in the first one. A dict in the class, or as a default argument, is made "
          "once for all.",
          "where the dict is made. In __init__ each store makes its own."),
    Fault("take-returns", "`take` does not return the gradient",
          "`take` removes the gradient from the store and returns it.",
          "the last line of `take`. dict.pop does both."),
    Fault("take-leaves", "`take` leaves the gradient in the store",
          "After `take(a)` the store still has something for a. A second share would then be added to what was passed "
          "on already.",
          "dict.pop."),
    Fault("zero-for-absent", "what is absent looks like a gradient",
          "A node that was not reached is absent, which is not the same as zeros: `store[a]` and `take(a)` raise a "
          "KeyError, and `get(a)` gives None.",
          "a defaultdict, or a default that is no None."),
    Fault("default-ignored", "`get` ignores its default",
          "`store.get(a, default)` for a missing gradient returns the default.",
          "the second argument of `get`."),
    Fault("asking-adds", "asking adds something",
          "After questions alone the store is not empty.",
          "a defaultdict or setdefault: they write while they read."),
    Fault("zeros-are-absent", "a gradient of zeros counts as absent",
          "A gradient may be 0: the node was reached, and the slope is 0 there.",
          "an `if` or `or` that asks for the value. Ask whether the node is in the dict."),
    Fault("no-shape-check", "a gradient of another shape is accepted",
          "A gradient has the shape of its value. NumPy would copy and add in silence; a ValueError shows the wrong "
          "rule at once.",
          "the first lines of `accumulate`: g.shape and node.value.shape."),
    Fault("shape-of-second", "only the first share is looked at",
          "The first share of a wrong shape is refused, and the second is accepted.",
          "where the shape is compared: before the question whether something is there."),
    Fault("stored-before-check", "a wrong gradient is stored and then refused",
          "After the ValueError for a gradient of shape {shape} for `{node}` of shape {value} it is in the store.",
          "the order of the two lines."),
    Fault("other-error", "a wrong shape is another error than asked for",
          "A gradient of shape {shape} for `{node}` of shape {value} must be a ValueError: this is what callers catch.",
          "the line with raise. An assert raises an AssertionError."),
    Fault("method-missing", "a method is missing",
          "`{call}` found no method. A store has accumulate, take, get and extend, and it knows [ ], `in` and len.",
          "the names with two underscores: __getitem__, __contains__, __len__."),
    Fault("extend-skips", "`extend` leaves something out",
          "`two` has a gradient for b and `one` has none; after `one.extend(two)` it must have it.",
          "which nodes `extend` goes through."),
    Fault("extend-overwrites", "`extend` overwrites",
          "Where both stores have a gradient, they are added.",
          "dict.update; `accumulate` does it right."),
    Fault("extend-changes-other", "`extend` changes the other store",
          "After `one.extend(two)` the store `two` is another one.",
          "`take` or pop in `extend`: the other store is only read."),
    ENGINE_INSIDE,
)



def _no_method(error) -> bool:
    if isinstance(error, TypeError):
        return any(word in str(error) for word in ("has no len()", "not iterable", "not subscriptable", "a container"))
    if isinstance(error, KeyError):
        return error.args == (0,)  # without __contains__, `in` counts up from 0
    return isinstance(error, AttributeError) and "'GradStore' object has no" in str(error)


_NO_METHOD = [(_no_method, "method-missing")]


def probe(bench: Bench) -> Table:
    """What is added, what is taken, and what no call may touch."""
    GradStore = bench.part
    a, b = leaf("a", [1.0, 1.0]), leaf("b", [1.0, 1.0])
    rng = generator(bench)
    g, h = numbers(rng, 2), 10 * numbers(rng, 2)

    def new():
        return bench.call("GradStore()", GradStore)

    def do(text, action, **more):
        return bench.call(text, action, **{"errors": _NO_METHOD, **more})

    def gradient(store, node, text):
        ran = bench.run(lambda: store[node])
        if ran.ended == "raised" and isinstance(ran.error, KeyError):
            return None
        return bench.call(text, lambda: store[node])

    store = new()
    _probe_empty(bench, store, a)
    do("store.accumulate(a, g)", lambda: store.accumulate(a, g))
    if gradient(store, a, "store[a]") is None:
        bench.fault("first-lost", [])
    _want(bench, store, a, g, "after one share", "unknown")
    if do("b in store", lambda: b in store) is not False or gradient(store, b, "store[b]") is not None:
        bench.fault("by-value", [])
    for name in ("x", None):
        first, other = leaf(name, [1.0, 1.0]), leaf(name, [1.0, 1.0])
        named = new()
        do("store.accumulate(x, g)", lambda s=named, n=first: s.accumulate(n, g))
        if do("other in store", lambda s=named, n=other: n in s) is not False:
            names = "both called x" if name else "both without a name"
            bench.fault("by-name", [f"The two nodes are {names}."])
    do("store.accumulate(b, g)", lambda: store.accumulate(b, g))
    before, second = g.copy(), h.copy()
    read_only = g.copy()
    read_only.setflags(write=False)
    held = do("store[a]", lambda: store[a])
    do("store.accumulate(a, h)", lambda: store.accumulate(a, h))
    if not np.array_equal(g, before) or not same(store[b], before):
        bench.fault("in-place", [f"g is now {show(g)}, and b has {show(store[b])}; both were {show(before)}."])
    if not np.array_equal(h, second):
        bench.fault("in-place", ["The second share was {}, and is now {}.".format(*apart(second, h))])
    if not same(store[a], before + h):
        got = store[a]
        fault = "overwrites" if same(got, h) else "keeps-first" if same(got, before) else None
        shown = f"After the shares {show(before)} and {show(h)} the store has {show(got)} for a."
        bench.fault(fault, [shown]) if fault else bench.unknown(shown)
    if not same(held, before):
        was, now = apart(before, held)
        bench.fault("writes-own-copy", [f"`held = store[a]` was {was}; after `store.accumulate(a, h)` it is {now}."])
    store = new()
    if do("len(store)", lambda: len(store)) != 0 or do("a in store", lambda: a in store):
        bench.fault("shared-stores", [])
    for share in (read_only, h):
        do("store.accumulate(a, share)", lambda s=share: store.accumulate(a, s),
           errors=[(ValueError, "in-place"), *_NO_METHOD])
    if not np.array_equal(h, second):
        bench.fault("in-place", ["The second share was changed."])

    taken = do("store.take(a)", lambda: store.take(a))
    if taken is None or not same(taken, before + h):
        bench.fault("take-returns", [f"`store.take(a)` returned {safe_repr(taken, 40)}; expected {show(before + h)}."])
    if do("a in store", lambda: a in store):
        bench.fault("take-leaves", [])
    store.accumulate(a, h)
    if not same(store[a], h):
        bench.fault("take-leaves", [f"After `take`, one share of {show(h)} makes {show(store[a])}."])
    _probe_zeros(bench, new(), a)
    _probe_shapes(bench, new)
    _probe_extend(bench, new, a, b)
    return Table(("what is done", "the store then has"), (
        ("accumulate(a, g)", "a: g"), ("accumulate(a, h)", "a: g + h, in a new array"), ("take(a)", "nothing")))


def _want(bench, store, node, want, when, fault):
    got = store[node]
    if not same(got, want):
        bench.unknown("`store[{}]` {} is {}; expected {}.".format(node.name, when, *apart(got, want)))


def _probe_empty(bench, store, a):
    if bench.call("len(store)", lambda: len(store), errors=_NO_METHOD) != 0:
        bench.unknown(f"`len` of a new store is {bench.last.value}; expected 0.")
    if bench.call("a in store", lambda: a in store, errors=_NO_METHOD) is not False:
        bench.unknown("`a in store` is true for a new store.")
    for text, action in (("store[a]", lambda: store[a]), ("store.take(a)", lambda: store.take(a))):
        ran = bench.run(action)
        if ran.ended == "returned":
            bench.fault("zero-for-absent", [f"`{text}` returned {safe_repr(ran.value, 40)} for a node without a "
                                            "gradient; expected a KeyError."])
        if not isinstance(ran.error, KeyError):
            bench.call(text, action, errors=_NO_METHOD)
    got = bench.call("store.get(a)", lambda: store.get(a), errors=_NO_METHOD)
    if got is not None:
        bench.fault("zero-for-absent", [f"`store.get(a)` returned {safe_repr(got, 40)} for a node without a gradient; "
                                        "expected None."])
    if bench.call("len(store)", lambda: len(store)) != 0:
        bench.fault("asking-adds", [])
    word = object()
    if bench.call("store.get(a, default)", lambda: store.get(a, word)) is not word:
        bench.fault("default-ignored", [])
    if bench.call("len(store)", lambda: len(store)) != 0:
        bench.fault("asking-adds", [])


def _probe_zeros(bench, store, a):
    zeros = np.zeros(2)
    bench.call("store.accumulate(a, zeros)", lambda: store.accumulate(a, zeros))
    inside, count = bench.call("a in store", lambda: a in store), bench.call("len(store)", lambda: len(store))
    if not inside or count != 1 or bench.call("store.get(a)", lambda: store.get(a)) is None:
        bench.fault("zeros-are-absent", [])
    word = np.ones(2)
    if not same(store.get(a, word), zeros):
        bench.fault("zeros-are-absent", [])


def _probe_shapes(bench, new):
    row, matrix, scalar = leaf("row", np.ones(3)), leaf("matrix", np.ones((2, 3))), leaf("scalar", 1.0)
    accepted = []
    for second in (False, True):
        for node, g in ((row, np.ones((2, 3))), (matrix, np.ones(3)), (row, np.array(1.0)), (scalar, np.ones(1)),
                        (matrix, np.ones((3, 2)))):
            store = new()
            if second:
                store.accumulate(node, np.ones(node.value.shape))
            ran = bench.run(store.accumulate, node, g)
            if ran.ended == "returned":
                accepted.append((second, node, g))
            elif ran.ended == "raised" and not isinstance(ran.error, ValueError):
                bench.fault("other-error", [told(f"store.accumulate({node.name}, g)", ran)], shape=g.shape,
                            node=node.name, value=node.value.shape)
            elif ran.ended != "raised":
                bench.call(f"store.accumulate({node.name}, g)", store.accumulate, node, g)
            elif not second and len(store):
                bench.fault("stored-before-check", [], shape=g.shape, node=node.name, value=node.value.shape)
    if accepted:
        second, node, g = accepted[0]
        shown = [f"`{node.name}` has the shape {node.value.shape}, and a gradient of shape {g.shape} was accepted"
                 f"{' as a second share' if second else ''}."]
        only_second = all(s for s, *_ in accepted)
        bench.fault("shape-of-second" if only_second else "no-shape-check", shown)
    store = new()
    bench.call("store.accumulate(scalar, np.float64(2))", store.accumulate, scalar, np.float64(2.0))


def _probe_extend(bench, new, a, b):
    one, two = new(), new()
    first, second = np.array([1.0, 1.0]), np.array([5.0, 7.0])
    one.accumulate(a, first)
    two.accumulate(a, second)
    two.accumulate(b, second)
    bench.call("one.extend(two)", lambda: one.extend(two), errors=_NO_METHOD)
    if b not in one:
        bench.fault("extend-skips", [])
    if same(one[a], second):
        bench.fault("extend-overwrites", [f"`one` had {show(first)} for a and `two` had {show(second)}; after "
                                          f"`one.extend(two)` it has {show(one[a])}."])
    if not same(one[a], first + second) or not same(one[b], second):
        bench.unknown(f"After `one.extend(two)` the store has {show(one[a])} for a and {show(one[b])} for b; "
                      f"expected {show(first + second)} and {show(second)}.")
    if len(two) != 2 or not same(two[a], [5.0, 7.0]) or not same(two[b], [5.0, 7.0]):
        bench.fault("extend-changes-other", [])
    one.accumulate(b, first)
    if not same(two[b], [5.0, 7.0]) or not np.array_equal(second, [5.0, 7.0]):
        bench.fault("in-place", ["After `one.extend(two)`, a share added to `one` changed `two`."])
