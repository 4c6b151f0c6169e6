"""Checks of exercise 07, the store: or_insert, take, accumulate and merge, on a plain dict from a Tensor to an array.

What a learner's function leaves behind counts as much as what it returns, so each is judged through a `Situation`: it
makes the calls, and reports the returned value and the stores after them. Wrong answers as a learner would type them
are in wrong_answers/07.txt.
"""

import copy
from dataclasses import replace

import numpy as np

from autodiff import GradStore, Tensor, Var, sorted_nodes
from autodiff.course.forms import Case, function, same
from autodiff.course.judge import EARLY_RETURN, Fault, blank, name_of


class Situation:
    """What a learner's function is called with, shown as `shown`. `play(f)` makes the calls and reports."""

    def __init__(self, shown, play, **things):
        self.shown, self.how, self.things = shown, play, things

    def play(self, f):
        return self.how(f, **self.things)

    def __repr__(self):
        return self.shown


class _Maker:
    """Makes a situation anew for each call, and remembers those it made: the first is played by the learner."""

    def __init__(self, shown, play, make):
        self.shown, self.play, self.make, self.made = shown, play, make, []

    def __call__(self):
        self.made.append(Situation(self.shown, self.play, **self.make()))
        return (self.made[-1],)


def _named(store, known=None):
    """A store as {name: copy of the array}, or what was found in its place. `known`: the tensors there are."""
    if not isinstance(store, dict):
        return "a GradStore" if isinstance(store, GradStore) else store
    return {_name(key, known): _copied(g) for key, g in store.items()}


def _name(key, known):
    if isinstance(key, Tensor):
        return key.name if known is None or key in known else f"a copy of {key.name}"
    return f"'{key}'" if isinstance(key, str) else f"a {type(key).__name__}"


def _copied(value):
    return value.copy() if isinstance(value, np.ndarray) else _named(value)


def _played(*wrong):
    """The answers of a fault: what a situation reports when it is played by each of these functions."""
    return tuple(lambda s, f=f: s.play(f) for f in wrong)


def _pairs(rng, count):
    """`count` arrays of two entries, all different and positive: a share that is lost always shows."""
    numbers = rng.sample([1.5, 2.0, 2.5, 3.5, 4.0, 4.5, 5.0, 6.0, 6.5, 7.5, 8.5, 9.5], 2 * count)
    return [np.array(numbers[2 * i:2 * i + 2]) for i in range(count)]


def _silent(f):
    """The same function without its `return`."""

    def wrong(*args):
        f(*args)

    return wrong


def _task(*args, **options):
    """A task of the form `function`, in which the learner's function is played by a situation."""
    task = function(*args, did="gave", **options)

    def judge(attempt):
        answer, = attempt.answers
        if blank(answer) or not callable(answer):
            return task.judge(attempt)

        def seen(*args):
            value = answer(*args)
            if blank(value):
                raise NotImplementedError
            return value

        def played(situation):
            return situation.play(seen)

        played.__name__ = name_of(answer)
        inner = replace(attempt, answers=(played,))
        result = task.judge(inner)
        attempt.used_seed |= inner.used_seed
        return result

    return replace(task, judge=judge)


_ARRAY_TRUTH = ("An array with several entries is neither true nor false, so `if array:` and `array or ...` fail. And "
                "a gradient of zeros is still a gradient.")

# 07.a: or_insert.


_OLD = 12345.0  # what is in memory that was used before


def _used_memory(t):
    """Leave blocks of memory for arrays like t that hold other numbers, for `np.empty` to find."""
    blocks = [np.full(t.shape, _OLD, t.dtype) for _ in range(16)]
    del blocks


def _play_a(f, store, tensors):
    found, held = [], dict(store)
    with np.errstate(all="ignore"):
        for t in tensors:
            _used_memory(t)
            found.append(f(store, t))
    report = {"returned": _copied(found[0]) if len(found) == 1 else [_copied(g) for g in found]}
    after = {"store": _named(store)}
    # What is as it should be is not told, so that the report stays short.
    for t, g in zip(tensors, found):
        if isinstance(g, np.ndarray) and g.dtype != t.dtype:
            report["dtype"] = str(g.dtype)
        if isinstance(g, (Tensor, np.generic)):
            report["it is"] = "a Tensor" if isinstance(g, Tensor) else "a number"
        if isinstance(g, np.ndarray) and 0 < np.abs(g[np.isfinite(g)]).max(initial=0) < 1e-6:
            report["exactly zero"] = "no"
        if isinstance(g, np.ndarray) and t in store:
            report |= _added(g, store[t])
    report |= {f"the array of {t.name}": "another one" for t, g in held.items() if store.get(t, g) is not g}
    return report | after


def _added(g, entry):
    """What the caller finds who adds something to the array that was returned."""
    before = _copied(entry)
    try:
        np.add(g, 1, out=g, casting="unsafe")
    except ValueError:
        return {"g += 1": "fails: g cannot be written to"}
    return {} if same(entry, before + 1) else {"in the store": "another array"}


def _cases_a(rng):
    def case(at, shown, make):
        return Case(_Maker(shown, _play_a, make), at)

    z, old, value, wide = _pairs(rng, 4)

    def absent():
        return dict(store={}, tensors=[Var([1.0, 2.0], name="x")])

    def there():
        x = Var(value, name="x")
        return dict(store={x: old.copy(), Var(z, name="z"): z.copy()}, tensors=[x])

    def zeros_there():
        x = Var(value, name="x")
        return dict(store={x: _zeros(x)}, tensors=[x])

    def matrix():
        return dict(store={}, tensors=[Var(np.array([[wide[0], np.inf]], np.float32), name="w")])

    def one_number():
        return dict(store={}, tensors=[Var(z[0], name="k")])

    def two():
        return dict(store={}, tensors=[Var(value, name="x"), Var(value, name="z")])

    return [case("x is absent", "store, x", absent), case("x is there, and z", "store, x", there),
            case("x is there, with zeros", "store, x", zeros_there),
            case("w is absent; shape (1, 2), float32", "store, w", matrix),
            case("k is absent; shape ()", "store, k", one_number),
            case("x, then z, both absent, of one shape", "store, ...", two)]


def _zeros(t):
    return np.zeros(t.shape, t.dtype)


def _or_insert(store, t):
    if t not in store:
        store[t] = _zeros(t)
    return store[t]


def _always_zeros(store, t):
    store[t] = _zeros(t)
    return store[t]


def _by_value(store, t):
    for other in store:
        if np.array_equal(other.data, t.data):
            return store[other]
    return _or_insert(store, t)


def _whole_store(store, t):
    _or_insert(store, t)
    return store


def _stored_or(store, t):
    store[t] = store.get(t) or _zeros(t)
    return store[t]


def _setdefault(make):
    return lambda store, t: store.setdefault(t, make(t))


def _share_an_array(attempt, answer, runs):
    for case, call, run in runs:
        if any(same(g, np.full_like(g, _OLD)) for g in _arrays(run.value)):
            return attempt.fault("uninitialised", (), None, call=call, at=case.at)
        store = case.args.made[0].things.get("store", {})
        arrays = [(t.name, g) for t, g in store.items() if isinstance(t, Tensor) and isinstance(g, np.ndarray)]
        for i, (name, g) in enumerate(arrays):
            for other, h in arrays[:i]:
                if np.shares_memory(g, h):
                    return attempt.fault("shared-zeros", (), None, call=call, at=case.at, one=other, two=name)
    return None


def _arrays(report):
    """The arrays that were returned."""
    returned = report["returned"]
    return [g for g in (returned if isinstance(returned, list) else [returned]) if isinstance(g, np.ndarray) and g.size]


def _half_written(store, t):
    if t in store:
        return store[t]
    store[t] = _zeros(t)


def _anew(store, t):
    store[t] = np.array(_or_insert(store, t))
    return store[t]


def _zeros_anew(store, t):
    if not np.any(store.get(t, 0.0)):
        store[t] = _zeros(t)
    return store[t]


def _read_only(t):
    return np.broadcast_to(np.zeros((), t.dtype), t.shape)


_FAULTS_A = (
    Fault("not-stored", "the zeros are returned, and not stored",
          "What your function returns is right, but the store is as before. Whoever adds something to these zeros adds "
          "it to an array that nobody finds again.",
          "what `store.get(t, ...)` does with the store: nothing.",
          _played(lambda store, t: store.get(t, _zeros(t)), lambda store, t: store.get(t, np.zeros(t.shape)))),
    Fault("overwritten", "a gradient that was there is replaced by zeros",
          "x had a gradient, and after your call it has zeros. The name says it: get the gradient, *or* insert zeros.",
          "the question that must be asked before zeros are stored.",
          _played(_always_zeros)),
    Fault("shared-zeros", "two tensors were given one and the same array",
          "After `{call}` ({at}), the entries of {one} and {two} are one array. What is added to the one in place is "
          "added to the other as well.",
          "where your zeros are made. They must be made anew for each tensor, inside the function."),
    Fault("a-number", "a number is stored, not an array",
          "You stored 0 in place of an array of zeros. A gradient has the shape of its tensor, and into a number "
          "nothing can be added in place.",
          "the shape of t.",
          _played(_setdefault(lambda t: 0.0), _setdefault(lambda t: 0), _setdefault(lambda t: t.dtype.type(0)))),
    Fault("from-the-value", "the zeros are computed from the numbers of the tensor",
          "0 times a number is not always 0. One entry of w is infinite, and 0 times infinity is NaN. k has the shape "
          "(), and NumPy makes a plain number of `0 * k.data`: `slot += 1` then leaves the 0 in the store.",
          "what zeros need to know of t: its shape and its dtype, and not one of its numbers.",
          _played(*(_setdefault(lambda t, make=make: make(t)) for make in (
              lambda t: 0 * t.data, lambda t: t.data - t.data, lambda t: np.asarray(0 * t.data),
              lambda t: np.asarray(t.data - t.data))))),
    Fault("uninitialised", "the array is not filled with zeros",
          "After `{call}` ({at}), the array holds numbers that were in this place of the memory before. `np.empty` "
          "takes the memory as it is. Sometimes zeros are there by chance.",
          "the function that makes the array."),
    Fault("read-only", "nothing can be added to the array that is returned",
          "The numbers are right. But the array cannot be written to, and the caller's `slot += ...` fails: "
          "`np.broadcast_to` shows one number in many places.",
          "what `slot += 1` does with the array that your function returns.",
          _played(_setdefault(_read_only))),
    Fault("wrong-dtype", "the zeros have another dtype than the tensor",
          "w holds float32, and your zeros are float64: that is what `np.zeros` makes when it is told nothing. A "
          "gradient has the dtype of its tensor.",
          "the second argument of `np.zeros`.",
          _played(_setdefault(lambda t: np.zeros(t.shape)))),
    Fault("wrong-shape", "the zeros have another shape than the tensor",
          "Your zeros have one axis. w has two, and k has none: `k.shape` is (). For [1, 2] it does not show.",
          "`t.shape` is a tuple: it can be handed to `np.zeros` as it is.",
          _played(_setdefault(lambda t: np.zeros(t.size, t.dtype)), _setdefault(lambda t: np.zeros(t.size)),
                  _setdefault(lambda t: np.zeros(t.shape[0], t.dtype)), _setdefault(lambda t: np.zeros(t.shape[0])),
                  _setdefault(lambda t: np.zeros(len(t.data), t.dtype)), _setdefault(lambda t: np.zeros(len(t.data))))),
    Fault("value-stored", "the value of the tensor is stored as its gradient",
          "For an absent tensor you stored its own numbers. Nothing has arrived at it yet: its gradient begins with "
          "zeros.",
          "what you store when t is absent.",
          _played(_setdefault(lambda t: t.data), _setdefault(lambda t: t.data.copy()))),
    Fault("copy-returned", "a copy is returned, not the array in the store",
          "Your store is right. But what you return is another array: `slot = or_insert(store, t)` and then `slot += "
          "...` changes nothing in the store.",
          "what you return: it should be `store[t]` itself.",
          _played(lambda store, t: _or_insert(store, t).copy(),
                  lambda store, t: store[t] if t in store else _or_insert(store, t).copy())),
    Fault("entry-replaced", "the array in the store is replaced by another one",
          "x has an array in the store. After your call the store has the same numbers in another array. Whoever holds "
          "the first one adds to it, and the store does not see it. Zeros that are there are a gradient too.",
          "what happens when t is in the store: nothing changes, and `store[t]` is returned.",
          _played(_anew, _zeros_anew)),
    Fault("name-keys", "the key is the name or the number of the tensor, not the tensor",
          "The key in your store is no Tensor. Two tensors may carry the same name, and who asks the store for x "
          "itself finds nothing. A Tensor can be a key as it is.",
          "what stands in the square brackets behind `store`.",
          _played(*(lambda store, t, key=key: store.setdefault(key(t), _zeros(t))
                    for key in (lambda t: t.name, lambda t: t.id, id)))),
    Fault("by-value", "tensors with the same numbers are taken for one",
          "x and z hold equal numbers, and your store has one entry for both. They are two nodes, with two gradients. "
          "A store goes by identity, never by value.",
          "how you find the entry of t: `t in store` asks for t itself.",
          _played(_by_value)),
    Fault("ones", "ones are stored, not zeros",
          "Only the root of a pass begins with ones. Everything else begins with nothing: its gradient is the sum of "
          "what will arrive.",
          "the numbers that you store.",
          _played(_setdefault(lambda t: np.ones(t.shape, t.dtype)), _setdefault(lambda t: np.ones(t.shape)))),
    Fault("a-tensor", "a Tensor is stored, not an array",
          "Your zeros are a Tensor. A Tensor never changes, so nothing can be added to it in place. This store holds "
          "plain arrays.",
          "what your function stores: `np.zeros(...)` as it is.",
          _played(_setdefault(lambda t: Tensor(_zeros(t))))),
    Fault("returned-store", "the whole store is returned",
          "The store is right. Asked for is the gradient of t, one array of it.",
          "the last line of your function.",
          _played(_whole_store)),
    Fault("returns-none", "the function returns nothing",
          "The store is right, and where t was absent the function returned None. Asked for is the gradient itself, so "
          "that something can be added to it.",
          "each way through your function. Does it come to a `return`?",
          _played(_silent(_or_insert), _half_written)),
    Fault("key-error", "an absent tensor is looked up",
          "`store[t]` raises a KeyError when t has no entry. Here that is no mistake of the caller: it is the case "
          "your function is made for.",
          "`t in store`, or `store.setdefault`.",
          _played(lambda store, t: store[t])),
    Fault("array-truth", "an array is asked whether it is true", _ARRAY_TRUTH,
          "the question `t in store`: it looks at the key, not at the array.",
          _played(lambda store, t: store.get(t) or _zeros(t), _stored_or)),
)

# 07.b: take.


def _play_b(f, store, t, keep):
    before = set(keep)
    report = {"returned": _copied(f(store, t, keep)), "store": _named(store)}
    return report if keep == before else report | {"keep is now": sorted(k.name for k in keep)}


def _cases_b(rng):
    def case(at, g=None, kept=False, others=None, twin=False):
        def make():
            h = Tensor([0.0, 0.0], name="h")
            store = {} if g is None else {h: g.copy()}
            if others is not None:
                store[Var([1.0, 1.0], name="x")] = others.copy()
            other = Tensor([0.0, 0.0], name="h") if twin else Tensor([3.0, 1.0], name="u")
            keep = {h, other} if kept else {other} if twin or others is not None else set()
            return dict(store=store, t=h, keep=keep)

        return Case(_Maker("store, h, keep", _play_b, make), at)

    p, q, r, s = _pairs(rng, 4)
    return [case("h: [5, 6] is there; keep is empty", np.array([5.0, 6.0])),
            case("h and x are there; u is in keep", p, others=q),
            case("h is there; h and u are in keep", r, kept=True),
            case("h has zeros; keep is empty", np.zeros(2)),
            case("h is there; another tensor in keep is called h and has its numbers", q, twin=True),
            case("h is absent; u is in keep", others=s), case("h is absent; h and u are in keep", kept=True)]


def _take(store, t, keep):
    return store.get(t) if t in keep else store.pop(t, None)


def _take_by(store, t, keep, remove, absent):
    g = store.get(t)
    if g is None:
        return absent(t)
    if remove(t, keep):
        del store[t]
    return g


def _leaving(leave):
    def wrong(store, t, keep):
        g = store.get(t)
        if g is not None and t not in keep:
            store[t] = leave(t)
        return g

    return wrong


def _leaving_always(leave):
    def wrong(store, t, keep):
        g = store.get(t)
        if t not in keep:
            store[t] = leave(t)
        return g

    return wrong


def _not_kept(t, keep):
    return t not in keep


def _keep_changed(store, t, keep):
    g = _take(store, t, keep)
    keep.discard(t)
    return g


def _others_removed(store, t, keep):
    g = store.get(t)
    for other in list(store):
        if other not in keep:
            del store[other]
    return g


def _unless_zeros(g):
    return g if g is not None and np.any(g) else None


def _put_back(store, t, keep):
    g = store.pop(t, None)
    if t in keep:
        store[t] = g
    return g


def _removed(remove):
    """Take an entry by `del`, or by `pop` without a second argument: an absent node is a KeyError."""
    def wrong(store, t, keep):
        g = store.get(t)
        if remove(t, keep):
            del store[t]
        return g

    return wrong


def _truth(store, t, keep):
    return _take(store, t, keep) if store.get(t) else None


_FAULTS_B = (
    Fault("not-removed", "the gradient is read, and stays in the store",
          "Your function returns the right gradient and leaves it there. To take means to take *out*: a node that has "
          "passed its gradient on needs it no longer, and a long graph would fill the memory.",
          "what removes an entry from a dict.",
          _played(lambda store, t, keep: store.get(t))),
    Fault("kept-removed", "a node in `keep` loses its gradient",
          "h is in keep, and after your call its gradient is gone. Who asked for it, with keep=[h], finds nothing.",
          "where `keep` appears in your function.",
          _played(lambda store, t, keep: store.pop(t, None))),
    Fault("all-kept", "one node in keep keeps all of them",
          "You ask whether `keep` has anything in it. Here u is in it, and h is not, so h should have been taken out.",
          "the condition with `keep`: is it about t?",
          _played(lambda store, t, keep: store.get(t) if keep else store.pop(t, None))),
    Fault("twin-kept", "another tensor in keep is taken for this one",
          "`keep` holds a tensor that is called h, as yours is, and has the same numbers. It is another node. Your "
          "function takes the two for one: it goes by the name, or by the numbers.",
          "how you ask whether t is in keep. A set goes by identity, as the store does.",
          _played(lambda store, t, keep: _take(store, t, {t} if any(k.name == t.name for k in keep) else ()))),
    Fault("kept-not-returned", "a node in `keep` gives None",
          "h is in keep, and its gradient is still in the store, as it should be. But the pass needs it all the same, "
          "to pass it on: keep says that it *stays*, not that it is left out.",
          "what your function returns when t is in keep.",
          _played(lambda store, t, keep: None if t in keep else store.pop(t, None))),
    Fault("keep-changed", "the set `keep` is changed",
          "Your function has removed h from `keep`. The set belongs to the caller, who may need it for the next pass.",
          "the line that calls `keep.remove` or `keep.discard`.",
          _played(_keep_changed)),
    Fault("others-removed", "other entries are removed too",
          "x lost its gradient, although the call was about h. The gradients of leaves are what the whole pass is for.",
          "a loop over the store, or `store.clear()`.",
          _played(_others_removed, lambda store, t, keep: _others_removed(store, t, ()))),
    Fault("upside-down", "what should stay is taken out, and the other way round",
          "You take out what is in keep, and leave what is not.",
          "the condition with `keep`: a `not` too many or too few.",
          _played(lambda store, t, keep: store.pop(t, None) if t in keep else store.get(t))),
    Fault("zeros-for-absent", "zeros are returned where there is no gradient",
          "h is absent, and you returned zeros. Zeros say: reached, with slope 0. Absent says: not reached. The pass "
          "would go on below h with zeros, and everything there would look reached.",
          "what you return when t is not in the store.",
          _played(lambda store, t, keep: _take_by(store, t, keep, _not_kept, _zeros),
                  lambda store, t, keep: _take_by(store, t, keep, _not_kept, lambda t: 0.0),
                  lambda store, t, keep: _take_by(store, t, keep, _not_kept, lambda t: 0),
                  lambda store, t, keep: store.pop(t, 0.0) if t not in keep else store.get(t))),
    Fault("something-left", "something is left in the place of the gradient",
          "After your call the store still has an entry for h: zeros, or None. Then `h in store` is true, and h counts "
          "as a node that has a gradient.",
          "the line that writes into the store. An entry is removed with `del` or `pop`.",
          _played(_leaving(_zeros), _leaving_always(_zeros),
                  _leaving(lambda t: None), _leaving_always(lambda t: None), _put_back)),
    Fault("zeros-taken-for-absent", "a gradient of zeros is treated as absent",
          "h is in the store with a gradient of zeros: reached, with slope 0. You answered as if it had none.",
          "the question you ask: is there an entry, or is there a number other than 0?",
          _played(lambda store, t, keep: _take(store, t, keep) if t in store and np.any(store[t]) else None,
                  lambda store, t, keep: _unless_zeros(_take(store, t, keep)))),
    Fault("key-error", "an absent node stops the pass",
          "In this case h has no entry, and your function raised a KeyError. That happens in a right program: no rule "
          "has sent anything to h. The answer is None, and the pass goes on with the next node.",
          "the second argument of `store.pop`, or of `store.get`.",
          _played(lambda store, t, keep: store[t] if t in keep else store.pop(t),
                  lambda store, t, keep: store.get(t) if t in keep else store.pop(t),
                  lambda store, t, keep: store[t] if t in keep else store.pop(t, None),
                  lambda store, t, keep: store.pop(t), _removed(_not_kept), _removed(lambda t, keep: True))),
    Fault("array-truth", "an array is asked whether it is true", _ARRAY_TRUTH,
          "the question `t in store`: it looks at the key, not at the array.",
          _played(_truth, lambda store, t, keep: store.get(t) or None,
                  lambda store, t, keep: store.pop(t, None) or None)),
    Fault("returns-none", "the function returns nothing",
          "The store is right after your call, and the function returned None. The pass needs the gradient: the rules "
          "are waiting for it.",
          "the last line of your function. `del` removes, and `pop` removes *and* returns.",
          _played(_silent(_take))),
)

# 07.c: accumulate.


def _play_c(f, store, calls, shares):
    before = {name: g.copy() for name, g in shares.items()}
    for t, share in calls:
        f(store, t, shares[share] if share else None)
    changed = {f"{name} is now": g for name, g in shares.items() if not np.array_equal(g, before[name])}
    for t, g in store.items():
        if isinstance(g, Tensor):
            changed["it is"] = "a Tensor"
        elif isinstance(g, np.ndarray) and isinstance(t, Tensor) and g.dtype != t.dtype:
            changed["dtype"] = str(g.dtype)
    return {"store": _named(store)} | changed


def _play_loop(f, root, g, x, z):
    """The loop of lesson 06, for a graph of additions: both inputs of a sum are handed one and the same array."""
    store = {root: g}
    for node in sorted_nodes(root):
        if node.op is not None:
            g = store.pop(node, None)
            for t in node.op.inputs if g is not None else ():
                f(store, t, g)
    return {"store": _named(store)}


def _cases_c(rng):
    g, h, there = _pairs(rng, 3)

    def case(at, calls, numbers=None, before=None):
        def make():
            x, z = Var([1.0, 2.0], name="x"), Var([3.0, 4.0], name="z")
            named, shares = {"x": x, "z": z}, {"g": g, "h": h} if numbers is None else numbers
            used = {share for _, share in calls if share}
            return dict(store={x: before.copy()} if before is not None else {},
                        calls=[(named[name], share) for name, share in calls],
                        shares={name: share.copy() for name, share in shares.items() if name in used})

        name, share = calls[0]
        return Case(_Maker(f"store, {name}, {share}" + ("" if len(calls) == 1 else "; ..."), _play_c, make), at)

    def loop():
        x, z = Var(there, name="x"), Var(h, name="z")
        return dict(root=(x + z) + x, g=g.copy(), x=x, z=z)

    return [case("x is absent; g = [1, 2]", [("x", "g")], {"g": np.array([1.0, 2.0])}),
            case("x is there", [("x", "g")], before=there),
            case("g to x, then h to x", [("x", "g"), ("x", "h")]),
            case("g to x, g to z, then h to x", [("x", "g"), ("z", "g"), ("x", "h")]),
            Case(_Maker("store, t, share", _play_loop, loop), "the loop of lesson 06, at (x + z) + x"),
            case("zeros to x, which is absent", [("x", "g")], {"g": np.zeros(2)}),
            case("None to x, which is absent", [("x", None)]),
            case("g to x, then None to x", [("x", "g"), ("x", None)])]


def _accumulate(store, t, share):
    if share is not None:
        store[t] = store[t] + share if t in store else share


def _in_place(store, t, share):
    if share is None:
        return
    if t in store:
        store[t] += share
    else:
        store[t] = share


def _guarded(step):
    """A wrong way to add, with and without the right care for None."""
    def careful(store, t, share):
        if share is not None:
            step(store, t, share)

    return careful, step


def _overwrite(store, t, share):
    store[t] = share


def _double(store, t, share):
    store.setdefault(t, share)
    store[t] = store[t] + share


def _share_changed(store, t, share):
    if t in store:
        share += store[t]
    store[t] = share


def _start_missing(store, t, share):
    store[t] += share


def _start_missing_too(store, t, share):
    store[t] = store[t] + share


def _zeros_first(store, t, share):
    slot = _or_insert(store, t)
    if share is not None:
        slot += share


def _none_as_zeros(store, t, share):
    _accumulate(store, t, _zeros(t) if share is None else share)


def _zeros_for_none(store, t, share):
    if share is None:
        store[t] = _zeros(t)
    else:
        _accumulate(store, t, share)


def _plain(store, t, share):
    store[t] = store[t] + share if t in store else share


def _plain_get(store, t, share):
    store[t] = store.get(t, 0) + share


def _plain_zeros(store, t, share):
    store[t] = _or_insert(store, t) + share


def _plain_in_place(store, t, share):
    slot = _or_insert(store, t)
    slot += share


_FAULTS_C = (
    Fault("overwritten", "a later share replaces an earlier one",
          "Where two shares arrive, only the last one is there. `store[t] = share` throws away what was there before.",
          "what the store holds for t just before your line.",
          _played(*_guarded(_overwrite))),
    Fault("first-kept", "only the first share is kept",
          "Where two shares arrive, only the first one is there. `setdefault` writes when nothing is there, and "
          "otherwise does nothing: the second share is lost.",
          "what your function does when t is in the store already.",
          _played(*_guarded(lambda store, t, share: store.setdefault(t, share)))),
    Fault("in-place", "an array is changed that somebody else holds",
          "x is right, and z is wrong, although z got only one share. Both were handed the same array g. You stored g "
          "itself for both, and `+=` then changed this one array: z grew with x, and so did g, which belongs to the "
          "caller.",
          "the line with `+=`, or `out=`. `store[t] + share` makes a new array.",
          _played(_in_place, lambda store, t, share: _in_place(store, t, share) if share is not None else None)),
    Fault("first-doubled", "the first share is counted twice",
          "The first share is stored as the starting number and then added again. A starting number must be 0.",
          "what is in the store when your `+` runs for the first time.",
          _played(*_guarded(_double))),
    Fault("share-changed", "the share itself is changed",
          "`share +=` writes into the array that you were handed. It belongs to the caller, and the other input of a "
          "sum is handed the same one.",
          "the line with `+=`, or `out=`. `store[t] + share` makes a new array.",
          _played(*_guarded(_share_changed))),
    Fault("multiplied", "shares are multiplied, not added",
          "Where two shares arrive, your store has their product. Along one path factors are multiplied; where paths "
          "meet, shares are added.",
          "the operation between what is there and what arrives.",
          _played(*_guarded(lambda store, t, share: store.__setitem__(t, store[t] * share if t in store else share)))),
    Fault("list-of-shares", "the shares are collected, not added",
          "Your entry is a list of shares. The store is to hold one array for each tensor: their sum.",
          "what your function does with the second share.",
          _played(*_guarded(lambda store, t, share: store.setdefault(t, []).append(share)))),
    Fault("name-keys", "the key is the name or the number of the tensor, not the tensor",
          "The key in your store is no Tensor. Two tensors may carry the same name, and who asks the store for x "
          "itself finds nothing. A Tensor can be a key as it is.",
          "what stands in the square brackets behind `store`.",
          _played(*(wrong for key in (lambda t: t.name, lambda t: t.id, id)
                    for wrong in _guarded(lambda store, t, share, key=key: _plain(store, key(t), share))))),
    Fault("a-tensor", "a Tensor is stored, not an array",
          "Your entry is a Tensor. This store holds plain arrays: the pass hands them to the rules as they are.",
          "what your function stores: the share itself, or a sum of arrays.",
          _played(*_guarded(lambda store, t, share: _plain(store, t, Tensor(share))),
                  lambda store, t, share: None if share is None else store.__setitem__(
                      t, Tensor(store[t] + share) if t in store else share))),
    Fault("not-stored", "the store is as before",
          "Your function made a new dict, or a new number, and the store it was handed has not changed. Nobody looks "
          "at what `accumulate` returns.",
          "the line that writes: it should write into `store`.",
          _played(lambda store, t, share: None)),
    Fault("zeros-dropped", "a share of zeros is left out",
          "The share was [0, 0] and x was absent, and x is still absent after your call. Zeros say: reached, with "
          "slope 0. Only None means that nothing has arrived.",
          "the question that you ask about the share.",
          _played(lambda store, t, share: _accumulate(store, t, None if share is None else _unless_zeros(share)))),
    Fault("none-removes", "None takes away what was there",
          "x had a gradient, then a rule sent None, and after that the entry is gone, or has zeros. None says that "
          "*this* edge brings nothing. What other edges have brought stays.",
          "what your function does when the share is None: nothing is to be done.",
          _played(lambda store, t, share: store.pop(t, None) if share is None else _accumulate(store, t, share))),
    Fault("array-truth", "an array is asked whether it is true", _ARRAY_TRUTH,
          "the question `share is None`.",
          _played(lambda store, t, share: _accumulate(store, t, share) if share else None)),
    Fault("no-start", "a share is added to an entry that is not there",
          "The first share for t finds nothing in the store, and `store[t]` raises a KeyError.",
          "what should happen when t is absent. Task a may help.",
          _played(*_guarded(_start_missing), *_guarded(_start_missing_too))),
    Fault("zeros-for-none", "None makes an entry of zeros",
          "The share was None: the rule says that no gradient goes this way. After your call the store has zeros for "
          "x, as if it had been reached with slope 0.",
          "what your function stores when the share is None, or before it asks.",
          _played(_zeros_first, _none_as_zeros, _zeros_for_none)),
    Fault("none-stored", "None is stored, or added, like a share",
          "The share was None: the rule says that no gradient goes this way. It is no number, it cannot be added, and "
          "it is no entry for the store. Nothing is to be done.",
          "a question at the beginning of your function.",
          _played(_plain, _plain_get, _plain_zeros, _plain_in_place, lambda store, t, share:
                  _in_place(store, t, share.copy()))),
)

# 07.d: merge.


def _play_d(f, first, second):
    stores = {"first": first, "second": second}
    before = {name: _named(store) for name, store in stores.items()}
    known = {*first, *second}
    merged = f(first, second)
    report = {"merged": _named(merged, known)}
    for name, store in stores.items():
        if not same(_named(store), before[name]):
            report[f"{name} is now"] = _named(store)
        if merged is store:
            report["it is"] = f"the {name} store itself"
    return report


def _cases_d(rng):
    def case(at, shown, first, second):
        def make():
            tensors = {name: Var(np.zeros(2), name=name) for name in {**first, **(second or {})}}
            one = {tensors[name]: g.copy() for name, g in first.items()}
            other = one if second is None else {tensors[name]: g.copy() for name, g in second.items()}
            return dict(first=one, second=other)

        return Case(_Maker(shown, _play_d, make), at)

    k, m, n, p, q = _pairs(rng, 5)
    return [case("x in both", "first, second", {"x": np.array([1.0, 2.0])}, {"x": np.array([10.0, 20.0])}),
            case("x in both, a in the first, b in the second", "first, second", {"x": k, "a": m}, {"x": n, "b": p}),
            case("the second has zeros for b", "first, second", {"a": q}, {"b": np.zeros(2)}),
            case("the first is empty", "first, second", {}, {"x": k}),
            case("the second is empty", "first, second", {"x": m}, {}),
            case("one store, twice", "first, first", {"x": n, "a": q}, None)]


def _merge(first, second):
    merged = dict(first)
    for t, g in second.items():
        merged[t] = merged[t] + g if t in merged else g
    return merged


def _into_first(first, second):
    for t, g in list(second.items()):
        first[t] = first[t] + g if t in first else g
    return first


def _arrays_in_place(first, second):
    merged = dict(first)
    for t, g in second.items():
        if t in merged:
            merged[t] += g
        else:
            merged[t] = g
    return merged


def _arrays_in_place_from_nothing(first, second):
    merged = {}
    for store in (first, second):
        for t, g in store.items():
            if t in merged:
                merged[t] += g
            else:
                merged[t] = g
    return merged


def _into_first_in_place(first, second):
    for t, g in second.items():
        if t in first:
            first[t] += g
        else:
            first[t] = g
    return first


def _short_cut(first, second):
    if not first:
        return second
    return first if not second else _merge(first, second)


def _deep_copied(first, second):
    merged = copy.deepcopy(first)
    for t, g in second.items():
        merged[t] = merged[t] + g if t in merged else g
    return merged


def _doubled(first, second):
    merged = dict(first)
    for t, g in second.items():
        merged[t] = merged.get(t, g) + g
    return merged


_FAULTS_D = (
    Fault("overwritten", "where both have a gradient, only the second one is there",
          "x is in both stores, and in yours it has the gradient of the second alone. `update`, `|` and {{**first, "
          "**second}} put dicts together, and for a key in both the later value wins. Gradients are to be added.",
          "the case of a tensor that is in both.",
          _played(lambda first, second: {**first, **second})),
    Fault("first-wins", "where both have a gradient, only the first one is there",
          "x is in both stores, and in yours it has the gradient of the first alone. What the second one has for it is "
          "lost.",
          "the case of a tensor that is in both.",
          _played(lambda first, second: {**second, **first})),
    Fault("only-common", "what only one store has is lost",
          "Your result has the tensors that are in *both* stores. A tensor that only one micro-batch has reached keeps "
          "its gradient: the other one adds nothing to it.",
          "over which keys your loop runs.",
          _played(lambda first, second: {t: first[t] + second[t] for t in first if t in second})),
    Fault("second-lost", "what only the second store has is lost",
          "Your result has the tensors of the first store only. The second one may have reached others.",
          "over which keys your loop runs.",
          _played(lambda first, second: {t: g + second[t] if t in second else g for t, g in first.items()})),
    Fault("first-lost", "what only the first store has is lost",
          "Your result has the tensors of the second store only. The first one may have reached others.",
          "over which keys your loop runs.",
          _played(lambda first, second: {t: g + first[t] if t in first else g for t, g in second.items()})),
    Fault("first-changed", "the first store is changed",
          "Your result has the right gradients, but it *is* the first store, with the second one added into it. Who "
          "still holds the first store finds other gradients in it.",
          "the dict into which you write. Make a new one, and mind its arrays too: `+` makes a new array, `+=` "
          "does not.",
          _played(_into_first, _into_first_in_place)),
    Fault("second-changed", "the second store is changed",
          "Your result has the right gradients, but it *is* the second store, with the first one added into it. Who "
          "still holds the second store finds other gradients in it.",
          "the dict into which you write. Make a new one.",
          _played(lambda first, second: _into_first(second, first),
                  lambda first, second: _into_first_in_place(second, first))),
    Fault("keys-copied", "the tensors were copied",
          "`copy.deepcopy` copies the keys as well, and a copy of x is another tensor than x. Your result has one "
          "entry for x and one for its copy.",
          "the way the dict is copied: `dict(first)` keeps the keys as they are.",
          _played(_deep_copied)),
    Fault("doubled", "what only the second store has is counted twice",
          "b is in the second store alone, and you have twice its gradient. Where nothing is there yet, you begin with "
          "the gradient itself, and then add it.",
          "the default in `.get(t, ...)`, or a `setdefault` before the `+`.",
          _played(_doubled)),
    Fault("arrays-changed", "the arrays of the first store are changed",
          "You made a new dict, but its arrays are still those of the first store: copying a dict does not copy what "
          "is in it. `+=` then writes into them, and the first store changes too. With one store given twice, it is "
          "even added to itself.",
          "the line with `+=`. A `+` makes a new array.",
          _played(_arrays_in_place, _arrays_in_place_from_nothing)),
    Fault("same-dict", "with an empty store, the other one is returned itself",
          "When one of them is empty you return the other store. It has the right gradients, but it is not a new dict: "
          "what is written into your result later is written into that store.",
          "the shortcut for empty stores. Does it need to be there?",
          _played(_short_cut, lambda first, second: _merge(first, second) if first else second,
                  lambda first, second: _merge(first, second) if second else first)),
    Fault("zeros-dropped", "a gradient of zeros is left out",
          "b has a gradient of zeros in the second store, and none in your result. Zeros say: reached, with slope 0. "
          "That is not the same as absent.",
          "the question you ask before you store something.",
          _played(lambda first, second: {t: g for t, g in _merge(first, second).items() if np.any(g)})),
    Fault("averaged", "the gradients are averaged",
          "Each gradient that is in both stores is half of the right one. The gradient of a sum of losses is the sum "
          "of their gradients. If the losses are means, their weights are the business of the loss.",
          "the division.",
          _played(lambda first, second: {t: g / 2 if t in first and t in second else g
                                         for t, g in _merge(first, second).items()},
                  lambda first, second: {t: g / 2 for t, g in _merge(first, second).items()})),
    Fault("key-error", "a tensor is looked up in a store that does not have it",
          "a is in the first store alone, and b in the second alone. Looking one up in the other store raises a "
          "KeyError.",
          "what the gradient is when only one store has it.",
          _played(lambda first, second: {t: first[t] + second[t] for t in first},
                  lambda first, second: {t: first[t] + second[t] for t in second},
                  lambda first, second: {t: first[t] + second[t] for t in {**first, **second}})),
    Fault("returns-none", "the function returns nothing",
          "`{call}` returned None. Asked for is a new dict; if you wrote into one of the two stores, that is not it.",
          "the last line of your function. Note that `dict.update` returns None.",
          _played(lambda first, second: None, _silent(_into_first),
                  lambda first, second: first.update(second))),
    EARLY_RETURN,
)

TASKS = (
    _task(
        "07.a", "the gradient, or zeros", "or_insert", "store, t", cases=_cases_a, right=lambda s: s.play(_or_insert),
        faults=_FAULTS_A, look_at=_share_an_array,
        hints=(
            "Two cases: t has an entry, or it has none. In the second case something must be written into the store. "
            "In both cases the same expression can be returned.",
            "    before              or_insert(store, x)     after\n"
            "    {x: [5, 6]}         returns [5, 6]          {x: [5, 6]}\n"
            "    {}                  returns [0, 0]          {x: [0, 0]}   <-- the array that was returned",
            "The zeros have the shape *and* the dtype of t:\n\n"
            "    def or_insert(store, t):\n"
            "        if ...:\n"
            "            store[t] = np.zeros(..., ...)\n"
            "        return ..."),
        good="The gradient if there is one, else zeros of the right shape and dtype, and they stay in the store."),
    _task(
        "07.b", "take a gradient out", "take", "store, t, keep", cases=_cases_b, right=lambda s: s.play(_take),
        faults=_FAULTS_B,
        hints=(
            "Three cases: t is absent; t is there and in keep; t is there and not in keep.",
            "                      returned      entry afterwards\n"
            "    absent            None          none\n"
            "    there, kept       gradient      still there\n"
            "    there, not kept   gradient      ?",
            "`store.pop(t, something)` removes and returns; `store.get(t, something)` only returns:\n\n"
            "    def take(store, t, keep):\n"
            "        if t in keep:\n"
            "            return ...\n"
            "        return ..."),
        good="Taken out when it is passed on, left where it was asked for, and None where nothing had arrived."),
    _task(
        "07.c", "add a share", "accumulate", "store, t, share", cases=_cases_c, right=lambda s: s.play(_accumulate),
        faults=_FAULTS_C,
        hints=(
            "Three cases: the share is None; t is absent; t has something already. The array you are handed may be in "
            "somebody else's hands as well.",
            "The rule of a sum hands out one array twice:\n\n"
            "              r = s + x\n"
            "         g  /           \\  g        one and the same array\n"
            "           s             x\n\n"
            "Stored as it is, and later changed with +=, it changes for s too.",
            "One line must make a *new* array:\n\n"
            "    def accumulate(store, t, share):\n"
            "        if ...:                  # no gradient this way\n"
            "            return\n"
            "        if t in store:\n"
            "            store[t] = ...\n"
            "        else:\n"
            "            store[t] = ..."),
        good="Shares are added into new arrays, nobody else's array is changed, and None leaves the store as it is."),
    _task(
        "07.d", "merge two stores", "merge", "first, second", cases=_cases_d, right=lambda s: s.play(_merge),
        faults=_FAULTS_D,
        hints=(
            "Every tensor that is in one of the two stores is in the result. There are three cases: in both, only in "
            "the first, only in the second.",
            "    first             second            merged\n"
            "    {x: [1, 2],       {x: [10, 20],     {x: [11, 22],\n"
            "     a: [3, 3]}        b: [0, 0]}        a: [3, 3],\n"
            "                                         b: ?}",
            "Begin with a new dict:\n\n"
            "    def merge(first, second):\n"
            "        merged = dict(first)           # a new dict; its arrays are still those of first\n"
            "        for t, g in second.items():\n"
            "            ...\n"
            "        return merged"),
        good="Added where both have one, taken over where one has, and both stores are as before."),
)
