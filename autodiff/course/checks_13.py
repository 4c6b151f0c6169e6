"""Checks of exercise 13, checkpoint: counts by hand, the recomputation, a measurement, and a report of what it cost.

The recomputation is judged by counting: how often the step ran, and how many of its results were alive at once. So is
the report: by the steps that ran and were gone back through. That is the same on every machine. Wrong answers as a
learner would type them, each with the fault it must be given, are in wrong_answers/13.txt.
"""

import contextlib
import functools
import math
import statistics
import sys
import threading
import time
import timeit
import tracemalloc
import types
import weakref
from dataclasses import dataclass

import numpy as np

import autodiff as ad
import autodiff.checkpoint  # noqa: F401  (its file name is looked for among the callers of a step)
from autodiff.explain import MissingGradientError
from autodiff.course.forms import NO_RETURN, apart, as_array, by_hand, nonzero, same, show
from autodiff.course.judge import (
    EARLY_RETURN,
    Fault,
    Task,
    function_or_reason,
    name_of,
    printed,
    run,
    stopped,
)
from autodiff.course.result import Table, as_number, close, safe_repr, show_number
from autodiff.graph import Node
from autodiff.labs.checkpointing import segment_lengths

# 13.a: counts by hand.

_A = ("held_all", "runs_from_start", "held_segments", "runs_segments", "best")

# (steps, segments, results of one step); one number of segments holds the fewest, and no two mistakes give one row.
_DEALS_A = ((48, 8, 3), (72, 6, 4), (75, 5, 3), (40, 8, 5), (84, 7, 5), (60, 6, 4), (45, 9, 5), (96, 8, 3))


def _held(s, n, values):
    return s + values * math.ceil(n / s)


def _best(n, values):
    return min(range(1, n + 1), key=lambda s: _held(s, n, values))


def _right_a(deal):
    n, s, v = deal
    return v * n, n * (n + 1) // 2, _held(s, n, v), 2 * n, _best(n, v)


def _given_a(deal):
    n, s, v = deal
    return f"{n} steps, {v} results in each step, and {s} segments of {n // s} steps."


def _how_a(deal):
    n, s, v = deal
    return (f"every one of the {n} steps leaves {v} results",
            "to go back through step k, k steps are run: 1 + 2 + ... + n",
            f"one checkpoint for each of the {s} segments, and all results of *one* segment",
            "once forward, once again", "try s = 1, 2, 3, ...: s + results * steps / s, rounded up")


def _row(**numbers):
    return tuple(numbers.get(name) for name in _A)


_FAULTS_A = (
    Fault("one-result", "each step is counted as one result",
          "Your held_all is the number of steps. But every op of a step makes a result of its own, and the backward "
          "pass needs all of them.",
          "the number of results of one step in the line that `given` prints.",
          (lambda d: _row(held_all=d[0]), lambda d: _row(held_segments=d[1] + d[0] // d[1]))),
    Fault("last-step-free", "the step itself is not counted when it is recorded",
          "Your runs_from_start is 0 + 1 + ... + (n - 1). That is what it takes to *get* to each step. Then the step "
          "itself is run once more, recorded.",
          "the last step alone: how many steps are run to go back through it?",
          (lambda d: _row(runs_from_start=d[0] * (d[0] - 1) // 2),)),
    Fault("square", "every step is taken to be as far away as the last one",
          "Your runs_from_start is n * n. For the first step only one step is run, for the last one n. On average it "
          "is about half of n.",
          "1 + 2 + ... + n, for a small n by hand.",
          (lambda d: _row(runs_from_start=d[0] ** 2),)),
    Fault("whole-graph", "all results are counted, although there are segments",
          "Your held_segments contains the results of all steps. While one segment is worked on, the others are "
          "nothing but their checkpoints.",
          "what is dropped when the backward pass leaves a segment.",
          (lambda d: _row(held_segments=d[2] * d[0]), lambda d: _row(held_segments=d[1] + d[2] * d[0]),
           lambda d: _row(held_segments=d[1] + d[0]))),
    Fault("h0-free", "h0 is not counted as a checkpoint",
          "Your held_segments is one too small. The first segment starts at h0, and h0 is held as well. (Lesson 15 "
          "counts it, and so does this task.)",
          "the checkpoints, one for each segment, the first one too.",
          (lambda d: _row(held_segments=_held(d[1], d[0], d[2]) - 1),)),
    Fault("checkpoints-free", "the checkpoints are not counted",
          "Your held_segments has the results of one segment only. The values at which the segments start are held "
          "too: without them no segment could be run again.",
          "what the forward pass keeps.",
          (lambda d: _row(held_segments=d[2] * d[0] // d[1]),)),
    Fault("segment-missing", "only the checkpoints are counted",
          "Your held_segments is the number of segments. That is true after the forward pass. But the peak comes "
          "later, when one segment has been run again, recorded.",
          "the moment at which the most is held.",
          (lambda d: _row(held_segments=d[1]),)),
    Fault("checkpoints-times", "each checkpoint is counted like a whole step",
          "Your held_segments takes several results for each checkpoint. A checkpoint is one value, the h at which its "
          "segment starts.",
          "what is needed to run a segment again.",
          (lambda d: _row(held_segments=d[2] * d[1] + d[2] * d[0] // d[1]),)),
    Fault("not-again", "the second run of the steps is not counted",
          "Your runs_segments is n. Each step is run once in the forward pass, and once again when its segment is "
          "recorded.",
          "the two loops: which of them calls the step?",
          (lambda d: _row(runs_segments=d[0]),)),
    Fault("results-for-steps", "results are counted where steps are asked for",
          "Your runs_segments has the number of results of a step in it. A step is run as a whole: one run, however "
          "many results it makes.",
          "what a run is: one call of the step.",
          (lambda d: _row(runs_segments=d[2] * d[0]),)),
    Fault("again-each", "every segment is taken to run all steps",
          "Your runs_segments grows with the number of segments. A segment begins at its checkpoint and ends at the "
          "next one; it does not run the steps of the others.",
          "the steps of one segment, and then of all of them together.",
          (lambda d: _row(runs_segments=d[0] + d[1] * d[0]), lambda d: _row(runs_segments=d[0] * d[1]))),
    Fault("sqrt-of-steps", "the square root is taken of the steps alone",
          "Your best is near the square root of n. With several results in each step a segment is dearer than its "
          "length says. s + results * n / s is least where both terms are equal.",
          "the two terms at your number of segments: are they equal?",
          (lambda d: _row(best=round(d[0] ** 0.5)), lambda d: _row(best=math.floor(d[0] ** 0.5)),
           lambda d: _row(best=math.ceil(d[0] ** 0.5)))),
    Fault("best-given", "the best number of segments is taken from the line above",
          "Your best is the number of segments that `given` prints. With another number fewer values are held.",
          "the values that are held with twice as many segments.",
          (lambda d: _row(best=d[1]),)),
    Fault("best-held", "the values are told, not the segments that hold the fewest",
          "Your best is the number of values that are held with the best number of segments. Asked for is this number "
          "of segments.",
          "what s stands for in s + results * steps / s.",
          (lambda d: _row(best=_held(_best(d[0], d[2]), d[0], d[2])),)),
    Fault("runs-exchanged", "the two numbers of runs are exchanged",
          "Your runs_from_start is the number of runs with the segments, and your runs_segments the one without any.",
          "which of the two ways keeps nothing but h0, and so runs more.",
          (lambda d: _row(runs_from_start=2 * d[0], runs_segments=d[0] * (d[0] + 1) // 2),)),
)

_TASK_A = by_hand(
    "13.a", "count before you run", _A, deal=lambda k: _DEALS_A[k % len(_DEALS_A)], given=_given_a, right=_right_a,
    faults=_FAULTS_A, how=_how_a, hints=(
        "Two things are counted here, and they are different: how many values are *held* at the worst moment, and how "
        "often a step is *run* in all.",
        "The worst moment with segments is when the graph of one segment is complete:\n\n"
        "    held    *---------*---------*---------*=========   the last segment, recorded\n"
        "            checkpoints               its results\n\n"
        "One value for each star, and all results of the steps marked with =.",
        "    held_all         results of a step * steps\n"
        "    runs_from_start  1 + 2 + ... + n\n"
        "    held_segments    ... + results of a step * steps of one segment\n"
        "    runs_segments    steps forward + ...\n"
        "    best             the s for which held_segments is least. Where are its two terms equal?"),
    good="Memory falls to about twice a square root. Time grows by one more forward pass, and no more.")

# Counting: a step that knows how often it ran, and how many of its results are alive.


class _Counted:
    """A step that counts its calls and the values of its results that are alive, recorded or not."""

    def __init__(self, step):
        self.step, self.calls, self.alive, self.most = step, 0, 0, 0
        self.after = []  # the values alive after each call
        self.starts = []  # the calls that begin a recorded segment: their h is a Var
        self.recorded = 0  # the calls whose result has a history
        self.library = False
        self._seen: set[int] = set()

    def __call__(self, h, w):
        self.calls += 1
        self.library = self.library or _called_from(_CHECKPOINT)
        if isinstance(h, ad.Var):
            self.starts.append(self.calls)
        result = self.step(h, w)
        self.recorded += isinstance(result, Node) and result.tracked
        self._see(result)
        self.after.append(self.alive)
        return result

    def _see(self, result):
        todo = [result]
        while todo:
            node = todo.pop()
            if isinstance(node, np.ndarray):
                self._add(_owner(node))
            if not isinstance(node, Node) or node.is_variable:
                continue
            own = _owner(node._array)
            if id(own) in self._seen:
                continue
            if node is result or node._rule is not None and not _same_memory(own, node._values):
                self._add(own)
            todo.extend(node._inputs)

    def _add(self, array):
        if id(array) not in self._seen:
            self._seen.add(id(array))
            self.alive += 1
            self.most = max(self.most, self.alive)
            weakref.finalize(array, self._gone, id(array)).atexit = False

    def _gone(self, key):
        self._seen.discard(key)
        self.alive -= 1


_CHECKPOINT = sys.modules["autodiff.checkpoint"].__file__


def _called_from(filename) -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == filename:
            return True
        frame = frame.f_back
    return False


def _owner(array):
    """The array that holds the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _same_memory(array, values) -> bool:
    """A broadcast or an alias has no memory of its own."""
    return any(isinstance(v, np.ndarray) and np.may_share_memory(array, v) for v in values)


# 13.b: recompute instead of store.

_STEPS = {
    "sin(w * h)": lambda h, w: np.sin(w * h),
    "h + 0.1 * sin(w * h)": lambda h, w: h + 0.1 * np.sin(w * h),
    "h + 0.1 * sin(w * tanh(h))": lambda h, w: h + 0.1 * np.sin(w * np.tanh(h)),
    "tanh(w * h) - 0.1 * h": lambda h, w: np.tanh(w * h) - 0.1 * h,
}


def _values(step) -> int:
    """How many results one recorded step makes."""
    counted = _Counted(step)
    kept = counted(ad.Var(0.5), ad.Var(1.02))
    return counted.most if kept is not None else 0


def _cases_b(rng):
    """(name of the step, h0, w, n, segments)."""
    def some():
        return np.array(0.25 * nonzero(rng))

    names = list(_STEPS)
    length, segments = rng.randrange(4, 8), rng.randrange(5, 9)
    uneven = length * segments + rng.randrange(1, segments)
    return [(names[0], np.array(0.5), np.array(1.02), 64, 8),
            (names[2], some(), some(), uneven, segments),
            (names[1], np.array([float(some()) for _ in range(4)]), some(), 30, 5),
            (rng.choice(names), some(), some(), 5, 1),
            (names[3], np.array([float(some()) for _ in range(3)]), np.array([float(some()) for _ in range(3)]), 6, 6)]


def _forward(step, h, w, n):
    for _ in range(n):
        h = step(h, w)
    return h


def _full(name, h0, w, n, segments):
    """Both gradients from the whole graph."""
    h0, w = ad.Var(h0), ad.Var(w)
    grads = _forward(_STEPS[name], h0, w, n).backward()
    return grads[h0].data, grads[w].data


def _back(name, h0, w, n, segments, lengths=None, start="own", seed="chain", first_to_last=False, join="add",
          leaves="all"):
    """Both gradients from segments, with one thing done otherwise."""
    step, w = _STEPS[name], ad.Var(w)
    mixed, lengths = lengths == "mixed", segment_lengths(n, segments) if lengths in (None, "mixed") else lengths
    starts, h = [], ad.Tensor(h0)
    with ad.no_grad():
        for part in lengths:
            starts.append(h)
            h = _forward(step, h, w, part)
    if start == "late":
        starts = [*starts[1:], h]
    elif start == "h0":
        starts = [starts[0]] * len(starts)
    jobs = list(zip(starts, lengths[::-1] if mixed else lengths))
    g, total = None, 0.0
    for at, part in jobs if first_to_last else jobs[::-1]:
        h = ad.Var(at.data) if leaves == "all" or leaves == "first" and at is starts[0] else ad.Tensor(at.data)
        end = _forward(step, h, w, part)
        grads = end.backward(g if seed == "chain" else None)
        share = grads[w].data
        if seed in ("h0 only", "scaled") and g is not None:
            share = share * g.data if seed == "scaled" else share
            g = ad.Tensor(g.data * grads[h].data)
        else:
            g = grads[h]
        total = share + total if join == "add" else share
        if join == "first":
            break
    return g.data, np.asarray(total)


def _judge_b(attempt):
    segmented, = attempt.answers
    reason = function_or_reason(attempt, segmented, "step, h0, w, n, segments")
    if reason is not None:
        return reason
    cases = _cases_b(attempt.rng)
    runs = []
    for case in cases:
        name, h0, w, n, segments = case
        counted, shown = _Counted(_STEPS[name]), f"{name_of(segmented)}(step, h0, w, {n}, {segments})"
        result = run(segmented, counted, ad.Var(h0, name="h0"), ad.Var(w, name="w"), n, segments, lines=2_000_000)
        problem = stopped(attempt, result, shown, f"h0 and w have {w.size} entries" if w.ndim else "")
        if problem is not None:
            if isinstance(result.error, MissingGradientError):
                return attempt.fault("wrong-leaf" if counted.recorded else "not-recorded", problem.body, None)
            return problem
        if counted.library:
            return attempt.fault("library", printed(result), None, call=shown)
        if result.value is None:
            return attempt.fault(NO_RETURN.id, printed(result), None, call=shown)
        pair = _pair(result.value)
        if pair is None:
            return attempt.wrong([f"`{shown}` returned {safe_repr(result.value)}; expected a pair: the gradient of h0, "
                                  "then the gradient of w.", *printed(result)], look="The form of what you return.")
        runs.append((case, shown, counted, pair, result))
    wants = [_full(*case) for case in cases]
    agree = [same(pair, want) for (_, _, _, pair, _), want in zip(runs, wants)]
    table = _table_b(runs, wants, agree)
    if not all(agree):
        return _wrong_gradients(attempt, runs, wants, agree, table)
    found = _too_much(attempt, runs, table)
    if found is None:  # a diagnosis is false, as every Result that has not passed
        found = _copies(attempt, segmented, table)
    return attempt.passed(_table_b(runs[:1], wants[:1])) if found is None else found


def _pair(value):
    if isinstance(value, np.ndarray) and value.ndim and len(value) == 2:
        value = tuple(value)
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return None
    pair = tuple(map(as_array, value))
    return None if pair[0] is None or pair[1] is None else pair


def _limit(case):
    name, _, _, n, segments = case
    return segments + _values(_STEPS[name]) * max(segment_lengths(n, segments))


def _table_b(runs, wants, agree=None):
    rows = []
    for k, (case, _, counted, pair, _) in enumerate(runs):
        name, h0, _, n, segments = case
        row = (f"{name}, n = {n}", str(segments), _cut(show(wants[k])), _cut(show(pair)), str(_limit(case)),
               str(counted.most), str(2 * n), str(counted.calls))
        rows.append(row if agree is None else (*row, "right" if agree[k] else "differs"))
    header = ("step", "segments", "gradients", "yours", "may hold", "held", "may run", "ran", "gradients")
    return Table(header if agree else header[:-1], tuple(rows))


def _cut(text: str, limit: int = 21) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _wrong_gradients(attempt, runs, wants, agree, table):
    first = agree.index(False)
    case, shown, counted, pair, result = runs[first]
    n = case[3]
    got, want = apart(pair, wants[first])
    said = [f"With {case[0]}, `{shown}` returned {got}; expected {want}.", *printed(result)]
    words = dict(call=shown, got_h0=show(pair[0]), got_w=show(pair[1]), want_h0=show(wants[first][0]),
                 want_w=show(wants[first][1]), ran=counted.calls, n=n, twice=2 * n)
    if not counted.calls:
        return attempt.fault("step-not-used", said, table, **words)
    for fault in attempt.task.faults:
        for answer in fault.answers:
            if all(_gives(answer, run[0], run[3]) for run in runs):
                return attempt.fault(fault.id, said, table, **words)
    which = [name for name, got, want in zip(("h0", "w"), pair, wants[first]) if not same(got, want)]
    said.append(f"The gradient of {' and that of '.join(which)} differ{'s' * (len(which) == 1)}.")
    n, segments = _smallest(attempt.answers[0], case)
    return attempt.unknown(said, table, look=f"Try n = {n} with {segments} segment{'s' * (segments > 1)} and the step "
                                             f"{case[0]} by hand, and compare each gradient.")


def _smallest(segmented, case) -> tuple[int, int]:
    """The fewest steps, and segments of them, at which a gradient differs; those of the case when it is no smaller."""
    name, h0, w, *most = case
    for n in range(1, 6):
        for segments in range(1, n + 1):
            result = run(segmented, _STEPS[name], ad.Var(h0), ad.Var(w), n, segments)
            pair = _pair(result.value)
            if pair is None or not same(pair, _full(name, h0, w, n, segments)):
                return n, segments
    return tuple(most)


def _gives(answer, case, pair) -> bool:
    try:
        return same(pair, tuple(map(np.asarray, answer(*case))))
    except Exception:
        return False


def _too_much(attempt, runs, table):
    """The gradients are right. A diagnosis if more was held, or more steps were run, than needed."""
    for case, shown, counted, _, result in runs:
        _, _, _, n, segments = case
        values, limit = _values(_STEPS[case[0]]), _limit(case)
        words = dict(call=shown, held=counted.most, limit=limit, ran=counted.calls, n=n, twice=2 * n, segments=segments,
                     all=values * n, forward=counted.after[n - 1] if len(counted.after) >= n else counted.most)
        if counted.most > limit + 2:
            why = _why_held(counted, n, limit, values)
            if why in ("graphs-held", "two-at-once") and any(getattr(g, "tracked", False) for g in result.value):
                why = "gradients-tracked"
            return attempt.fault(why, printed(result), table, **words)
        if counted.calls > 2 * n:
            return attempt.fault("too-many-runs", printed(result), table, **words)
    return None


def _why_held(counted, n, limit, values) -> str:
    again = [call for call in counted.starts if call > n]
    if counted.calls <= n:
        return "whole-graph"
    if counted.after[n - 1] >= values * n:
        return "forward-recorded"
    if counted.after[n - 1] >= n - 1:
        return "every-step-kept"
    if len(again) == 1:
        return "one-large"
    return "graphs-held" if counted.most > 2 * limit else "two-at-once"


def _copies(attempt, segmented, table):
    """A diagnosis if there is much more in memory than results: copies of them, which no count sees."""
    n, segments, values = 64, 8, 2
    many = ad.Var(np.linspace(0.1, 1.0, 20_000))
    watched = tracemalloc.is_tracing()
    if not watched:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        result = run(segmented, _STEPS["sin(w * h)"], many, ad.Var(1.02), n, segments, lines=2_000_000)
        peak = (tracemalloc.get_traced_memory()[1] - before) / many.data.nbytes
    finally:
        if not watched:
            tracemalloc.stop()
    limit = segments + values * n // segments
    if result.ended == "returned" and peak > 1.3 * limit + 8:
        return attempt.fault("copies-kept", printed(result), table, n=n, segments=segments, limit=limit)
    return None


_FAULTS_B = (
    Fault("overwritten", "the shares of w overwrite each other",
          "The gradient of h0 is right, and that of w is {got_w} where {want_w} is right: the share of one segment "
          "alone. w is used in *every* segment, so its shares are added over the segments.",
          "the line that stores the gradient of w.",
          (lambda *c: _back(*c, join="last"),)),
    Fault("ones", "every segment begins with ones",
          "Each of your segments starts its backward pass with ones, as if its last value were the result. Only the "
          "last segment ends in the result. Every other one gets the cotangent that came out of the segment *after* "
          "it.",
          "the argument of `backward`.",
          (lambda *c: _back(*c, seed="ones"), lambda *c: _back(*c, seed="ones", join="last"))),
    Fault("w-with-ones", "the share of w does not know what comes after its segment",
          "The gradient of h0 is right: there the cotangents of the segments are multiplied up. But the shares of w "
          "are those of segments that start from ones. They too depend on what arrives at the end of their segment.",
          "`backward(g)`: with g inside, both gradients of the segment come out right.",
          (lambda *c: _back(*c, seed="h0 only"),)),
    Fault("scaled-after", "the cotangent is multiplied in afterwards",
          "With single numbers your gradients are right. When h has several entries, the backward pass adds the "
          "entries up for w, and after that no factor can weigh them one by one. The cotangent belongs *into* the "
          "pass.",
          "the argument of `backward`.",
          (lambda *c: _back(*c, seed="scaled"),)),
    Fault("first-to-last", "the segments are taken from the first to the last",
          "A cotangent comes from the end. You go back through the first segment before anybody knows what arrives at "
          "its end.",
          "the order of the second loop.",
          (lambda *c: _back(*c, first_to_last=True), lambda *c: _back(*c, first_to_last=True, seed="ones"),
           lambda *c: _back(*c, first_to_last=True, join="last"))),
    Fault("last-segment-only", "only the last segment is gone back through",
          "Your gradients are those with respect to the start of the last segment. The loop over the segments ended "
          "after one of them.",
          "how far `return` is indented, and over what the second loop runs.",
          (lambda *c: _back(*c, join="first"),)),
    Fault("remainder", "some steps are left out, or added",
          "It ran {ran} steps, and {n} steps forward and once again are {twice}. With n = {n} not all segments can "
          "have the same length: n // segments forgets the rest.",
          "`segment_lengths(n, segments)`: one length for each segment, and together they are n.",
          (lambda *c: _back(*c, lengths=[c[3] // c[4]] * c[4]), lambda *c: _back(*c, lengths=[-(-c[3] // c[4])] * c[4]),
           lambda *c: _back(*c, lengths=[max(1, round(c[3] / c[4]))] * c[4]))),
    Fault("lengths-mixed", "a segment is run again with the length of another one",
          "When all segments are equally long, your gradients are right. Here n = {n} makes some of them longer, "
          "and checkpoints and lengths are no longer together: you go through the checkpoints backwards and through "
          "the lengths forwards.",
          "what is reversed in the second loop, and what is not.",
          (lambda *c: _back(*c, lengths="mixed"),)),
    Fault("checkpoint-late", "a checkpoint is taken where its segment ends",
          "Your segments are run again from the value at which they *end*. A segment is recorded a second time from "
          "where it started.",
          "the first loop: is the checkpoint stored before or after the steps of its segment?",
          (lambda *c: _back(*c, start="late"),)),
    Fault("from-h0", "every segment starts again at h0",
          "Each segment is run again from h0, so that all of them are recorded at the same place. A segment starts at "
          "its own checkpoint.",
          "what you keep in the first loop.",
          (lambda *c: _back(*c, start="h0"),)),
    Fault("not-a-var", "a segment starts from a constant",
          "The second run starts from a plain Tensor. What is computed from it *alone* is not recorded, and no "
          "gradient comes back through it. `ad.Var` makes a leaf that asks for its gradient.",
          "what the second run begins with.",
          (lambda *c: _back(*c, leaves="none"), lambda *c: _back(*c, leaves="first"))),
    Fault("exchanged", "the two gradients are in the wrong order",
          "Both gradients are right, and each stands in the place of the other: first h0, then w.",
          "the last line of your function.",
          (lambda *c: _full(*c)[::-1],)),
    Fault("wrong-leaf", "the store is asked for a tensor that is not in this graph",
          "Each segment was recorded from a fresh Var. The gradient that comes out at its start belongs to *this* Var, "
          "and not to h0 or to the checkpoint that its value was copied from.",
          "what you put between the brackets of `grads[...]`."),
    Fault("not-recorded", "the second run is not recorded either",
          "No step was recorded at all, so the backward pass has nothing to go back along. Recording must be off in "
          "the first loop, and on again in the second.",
          "how far the second loop is indented: is it still inside `with ad.no_grad()`?"),
    Fault("step-not-used", "the step of the check was never called",
          "`{call}` ran a step of its own. The step is an argument: another one may be handed over, and here another "
          "one was.",
          "each place where a step is computed. It should call `step(h, w)`."),
    Fault("whole-graph", "the whole graph is kept",
          "The gradients are right, and {held} results were held at once: all of them. Nothing was computed a second "
          "time ({ran} steps ran). With {segments} segments {limit} values are enough.",
          "lesson 15, the function `segmented`: two loops, and the graph of one segment at a time."),
    Fault("forward-recorded", "the forward pass is recorded",
          "When the forward pass was over, {forward} results were alive, all {all} of them. Each h that you keep as a "
          "checkpoint has a history, and the history holds everything before it.",
          "what switches recording off in the first loop, or what turns an h into a value without history."),
    Fault("every-step-kept", "the value after every step is kept",
          "When the forward pass was over, {forward} values were alive, about one for each step. A checkpoint is the "
          "value at the start of a *segment*; there are {segments} of them.",
          "where the `append` stands: in the loop over the segments, or in the one over the steps?"),
    Fault("one-large", "everything is recorded again at once",
          "After the forward pass little was alive. Then all {n} steps were recorded in one piece, and {held} values "
          "were held after all. The peak only came later.",
          "where the second run of a segment ends."),
    Fault("graphs-held", "the graphs of finished segments are kept",
          "Each segment is recorded by itself, and {held} values were alive at the end: the segments that were done "
          "are still there. Something holds them, for example a list of their last values.",
          "what is stored in the second loop. Gradients are enough."),
    Fault("gradients-tracked", "the gradients hold the graphs",
          "Each segment is recorded by itself, and {held} values were alive at the end. The gradients that you return "
          "have a history: they were computed with recording on, as `ad.vjp` and `detach=\"none\"` do. A gradient with "
          "a history holds the graph that it came from.",
          "`.data` or `.detach()` behind each gradient, or `backward` as it is."),
    Fault("two-at-once", "two segments are held at once",
          "{held} values were held, where {limit} are enough. While a segment is recorded, a name still holds the last "
          "value of the one before it, and with that its whole graph. It is set free only when the name gets its new "
          "value.",
          "a name for the result of the second run. Call `backward` on the result directly, or `del` the name."),
    Fault("copies-kept", "copies of values are kept",
          "The results were set free in time, but memory filled up all the same. For n = {n} and {segments} segments "
          "{limit} values are enough, and much more was in use: copies, one for each step.",
          "lists that grow in the loop over the steps, `.copy()`, `np.array(...)`."),
    Fault("too-many-runs", "more steps are run than needed",
          "The step ran {ran} times. {n} steps forward, and each one once again, are {twice}. Does every segment begin "
          "at h0, or is the forward pass done twice? A checkpoint is there to begin at it.",
          "each place that calls the step."),
    Fault("library", "`ad.checkpoint` did the work",
          "`{call}` called `ad.checkpoint`, or something built on it. Here you write what is inside it, with `ad.Var`, "
          "`ad.no_grad` and `backward`.",
          "lesson 15, the function `segmented`."),
    NO_RETURN, EARLY_RETURN,
)

_TASK_B = Task(
    "13.b", "recompute instead of store", ("segmented",), _judge_b, _FAULTS_B, (
        "Two loops over the segments. The first one runs forward and records nothing; it keeps one value for each "
        "segment. The second one goes from the last segment to the first, and in it one segment at a time is recorded.",
        "What goes from hand to hand in the second loop:\n\n"
        "    checkpoint 3  -> record segment 3 -> backward(nothing: ones) -> g3 at its start, share of w\n"
        "    checkpoint 2  -> record segment 2 -> backward(g3)            -> g2 at its start, share of w\n"
        "    checkpoint 1  -> record segment 1 -> backward(g2)            -> g1: this is the gradient of h0\n\n"
        "The shares of w come from three backward passes. What happens to them?",
        "With gaps:\n\n"
        "    checkpoints = []\n"
        "    with ad.no_grad():\n"
        "        for part in segment_lengths(n, segments):\n"
        "            ...                                    # keep h, then run `part` steps\n"
        "    g, dw = None, 0.0\n"
        "    for ... in reversed(...):\n"
        "        h = ad.Var(...)                            # a fresh leaf with the value of the checkpoint\n"
        "        grads = ....backward(...)                  # no name for the result: then nothing holds it\n"
        "        g, dw = ..., ...\n"
        "    return g, dw"),
    "One checkpoint for each segment, one segment recorded at a time, every step run twice, and the same gradients.")

# 13.c: measure it.

_SPIN = 0.01  # seconds of work in the shortest run
_SLOW = 3  # other runs take so many times as long, so that the best one, the mean and the sum are far apart


class _Clock:
    """Clocks that the work alone moves, in place of those of `time` and `timeit`: no verdict depends on the machine.

    `stand_ins`: by the id of what they stand in for. `read`: whether one was read. Other threads see the real time.
    """

    def __init__(self):
        self.now, self.read, self.on, self.thread = 1000.0, False, False, threading.get_ident()
        clocks = {name: self._clock(getattr(time, name), name.endswith("_ns")) for kind in (
            "process_time", "perf_counter", "thread_time", "monotonic", "time") for name in (kind, f"{kind}_ns")
            if hasattr(time, name)}
        timer = clocks["perf_counter"]
        timed = {name: functools.partial(getattr(timeit, name), timer=timer) for name in ("timeit", "repeat", "Timer")}
        self.modules = {"time": _changed(time, clocks), "timeit": _changed(timeit, timed | {"default_timer": timer})}
        self.stand_ins = {id(getattr(module, name)): other for module, others in ((time, clocks), (timeit, timed))
                          for name, other in others.items()}
        self.stand_ins |= {id(time): self.modules["time"], id(timeit): self.modules["timeit"]}

    def _clock(self, real, whole):
        def read():
            if not self.on or threading.get_ident() != self.thread:
                return real()
            self.read = True
            self.now += 1e-7  # a loop that waits for a clock comes to its end
            return round(self.now * 1e9) if whole else self.now

        return read

    @contextlib.contextmanager
    def brought_to(self, function):
        """Let the notebook of a function read these clocks."""
        names = {name: self.stand_ins[id(value)] for name, value in getattr(function, "__globals__", {}).items()
                 if id(value) in self.stand_ins}
        before = {name: sys.modules[name] for name in self.modules}
        with _brought(function, **names):
            sys.modules.update(self.modules)
            self.on = True
            try:
                yield
            finally:
                self.on = False
                sys.modules.update(before)


def _changed(module, names):
    """A module like this one, in which some names are others."""
    made = types.ModuleType(module.__name__)
    vars(made).update(vars(module) | names)
    return made


class _Work:
    """Something to measure: it takes time on a clock, holds `blocks` arrays of `size` bytes, and keeps one of them."""

    def __init__(self, clock, blocks, size):
        self.clock, self.blocks, self.size = clock, blocks, size
        self.traced, self.alone = [], []  # for each run whether tracemalloc watched; the seconds of those without

    def __call__(self):
        arrays = [np.ones(self.size // 8) for _ in range(self.blocks)]
        self.traced.append(tracemalloc.is_tracing())
        took = _SPIN if self.traced[-1] or self.traced.count(False) == 2 else _SLOW * _SPIN
        if not self.traced[-1]:
            self.alone.append(took)
        self.clock.now += took
        self.kept = arrays[0]

    def made_of(self, seconds) -> str:
        """What these seconds are of the runs alone: the "best", "summed", "averaged", or "not-best" for another run."""
        of = {"best": min(self.alone), "summed": sum(self.alone), "averaged": statistics.fmean(self.alone),
              "not-best": max(self.alone)}
        return min(of, key=lambda name: abs(seconds - of[name]))


@contextlib.contextmanager
def _unwatched():
    """Nobody watches the memory at the beginning, as in a fresh kernel, and afterwards whoever did before goes on."""
    frames = tracemalloc.get_traceback_limit() if tracemalloc.is_tracing() else 0
    tracemalloc.stop()
    try:
        yield
    finally:
        tracemalloc.stop()
        if frames:
            tracemalloc.start(frames)


def _judge_c(attempt):
    measure, = attempt.answers
    reason = function_or_reason(attempt, measure, "work")
    if reason is not None:
        return reason
    rng = attempt.rng
    for blocks in (20, rng.randrange(30, 60)):
        clock = _Clock()
        work = _Work(clock, blocks, 80_000 + 8 * rng.randrange(1000))
        begin = clock.now
        with _unwatched(), clock.brought_to(measure):
            result = run(measure, work)
            left_on = tracemalloc.is_tracing()
        elapsed = clock.now - begin
        problem = stopped(attempt, result, f"{name_of(measure)}(work)")
        if problem is not None:
            return problem
        found = _wrong_measure(attempt, measure, work, result, elapsed, left_on)
        if found is not None:
            return found
    rows = (("peak", "all arrays that were held at once"), ("time", "the best run without a watch"))
    return attempt.passed(Table(("what", "yours"), rows))


def _wrong_measure(attempt, measure, work, result, elapsed, left_on):
    call, said = f"{name_of(measure)}(work)", printed(result)
    if result.value is None:
        return attempt.fault(NO_RETURN.id, said, None, call=call)
    value = result.value
    two = isinstance(value, (tuple, list, np.ndarray)) and len(value) == 2
    numbers = [as_number(v) for v in value] if two else [None]
    if None in numbers:
        return attempt.wrong([f"`{call}` returned {safe_repr(value)}; expected a pair: the peak in bytes, and seconds.",
                              *said], look="The form of what you return.")
    peak, seconds = numbers
    size, right, alone = work.size, work.blocks * work.size, work.traced.count(False)
    words = dict(call=call, peak=show_number(peak), seconds=show_number(seconds), size=size, right=right, alone=alone,
                 blocks=work.blocks, runs=len(work.traced), spin=_SPIN)

    def is_peak(number):
        return 0.9 * right <= number <= 1.2 * right + 1.5 * size

    def is_seconds(number):
        return 0.4 * _SPIN <= number <= 2 * elapsed + 0.1

    def fault(id):
        told = f"`{call}` returned the peak {show_number(peak)} and {show_number(seconds)} s."
        return attempt.fault(id, [told, *said], None, **words)

    if not work.traced:
        return fault("not-run")
    if is_peak(seconds) and is_seconds(peak):
        return fault("exchanged")
    if True not in work.traced:
        return fault("not-watched")
    if not is_peak(peak):
        if any(is_peak(peak * unit) for unit in (1000, 1024, 1e6, 2**20)):
            return fault("peak-unit")
        return fault("peak-zero" if peak == 0 else "afterwards" if peak < 4 * size else "other-peak")
    if False not in work.traced:
        return fault("timed-while-watched")
    if not work.clock.read:
        return fault("no-clock")
    if not is_seconds(seconds):
        return fault("seconds-unit" if seconds > 1 else "seconds-zero")
    if alone < 3:
        return fault("once-only")
    made_of = work.made_of(seconds)
    if made_of != "best":
        words["times"] = ", ".join(f"{one:.3f}" for one in work.alone[:6]) + ", ..." * (len(work.alone) > 6)
        return fault(made_of)
    return fault("left-on") if left_on else None


_FAULTS_C = (
    Fault("not-run", "the work was never done",
          "`{call}` did not call `work`. A function is called with brackets: work().",
          "each place where `work` stands in your function."),
    Fault("exchanged", "the two numbers are in the wrong order",
          "The first number is a time and the second one a number of bytes. First the peak, then the seconds.",
          "the last line of your function."),
    Fault("not-watched", "the memory was not measured",
          "Nobody watched the memory in any run of `work`. `tracemalloc` knows only of what is "
          "allocated between `start()` and `stop()`.",
          "the order of `tracemalloc.start()` and `work()`."),
    Fault("afterwards", "the memory afterwards is measured, not the peak",
          "`work` holds {blocks} arrays of {size} bytes at once, {right} bytes, and keeps one of them at the end. You "
          "report {peak}: what was *left*. It decides nothing. What must fit is the most that was in use at one "
          "moment.",
          "the two numbers that `tracemalloc.get_traced_memory()` returns: (now, peak)."),
    Fault("peak-zero", "the peak is asked for when the watch is over, or before it began",
          "`{call}` reports a peak of 0. `tracemalloc.stop()` forgets everything, and before `work()` there is nothing "
          "to remember.",
          "the order: start, work, read, stop."),
    Fault("peak-unit", "the peak is not in bytes",
          "The peak is {right} bytes, and you report {peak}. Somebody who compares two reports must know the unit; "
          "here it is bytes, as `tracemalloc` gives them.",
          "a division in the line of the peak."),
    Fault("other-peak", "the peak is not that of one run",
          "`work` holds {right} bytes at its worst moment. You report {peak}.",
          "what else is alive while `tracemalloc` watches, and what you add or subtract."),
    Fault("timed-while-watched", "the time is measured while the memory is watched",
          "Each run of `work` was under the eyes of `tracemalloc`, which makes every allocation slower. So "
          "the seconds are not those of the program. Each of the two is measured in runs of its own.",
          "what stands between `start()` and `stop()`."),
    Fault("no-clock", "no clock of `time` was read",
          "You report {seconds} s, and none of the clocks of the module `time` was read. In the check the work takes "
          "{spin} s or more on these clocks, on every computer, and on no others.",
          "`process_time()` from `time`, before the work and after it."),
    Fault("seconds-zero", "hardly any time was measured",
          "`work` takes {spin} s at least, and you report {seconds}. Perhaps both readings of the clock are on the "
          "same side of `work()`, or they are subtracted the other way round.",
          "the line before the work, the work, the line after it."),
    Fault("seconds-unit", "the time is not in seconds",
          "You report {seconds} s, and the whole measurement did not take that long. Milliseconds are not seconds.",
          "a factor in the line of the time, or a clock that counts nanoseconds."),
    Fault("once-only", "the time is measured in too few runs",
          "Runs of `work` without `tracemalloc`: {alone}. Anything on a computer may disturb one run; nothing makes "
          "a run too fast. So the best of at least three counts.",
          "the loop around the timed run, and `min`."),
    Fault("summed", "the times of all runs are added",
          "Your seconds are those of {alone} runs together. The best single run is asked for.",
          "`min`, in place of `sum` or of one clock around the whole loop."),
    Fault("averaged", "the time is a mean of several runs",
          "The runs took {times} s. Your seconds are their mean. Other programs make some runs longer "
          "and none shorter, so a mean contains it, and the best run does not.",
          "`min`, in place of a sum that is divided by the number of runs."),
    Fault("not-best", "the time is not that of the best run",
          "The runs took {times} s. You report one of the longer ones: the first, the last, the longest, or the one in "
          "the middle. Nothing makes a run too fast, so the shortest one says the most.",
          "what you do with the list of times: `min` finds the best."),
    Fault("left-on", "the watch is still on",
          "The numbers are right, but `tracemalloc` still watches when you return. Everything after this cell is "
          "slower, and so is the next time that you measure.",
          "`tracemalloc.stop()`, after the peak was read."),
    NO_RETURN,
)

_TASK_C = Task(
    "13.c", "measure peak and time", ("measure",), _judge_c, _FAULTS_C, (
        "Two measurements that have nothing to do with each other: one run for the memory, and at least three runs for "
        "the time. The tool for the memory must be off while the time is measured.",
        "One run for the memory, then three for the time:\n\n"
        "    start watching | work | read the peak | stop watching\n"
        "    clock | work | clock      clock | work | clock      clock | work | clock\n\n"
        "Which of the three times is disturbed the least?",
        "With gaps:\n\n"
        "    tracemalloc.start()\n"
        "    work()\n"
        "    peak = ...\n"
        "    tracemalloc.stop()\n"
        "    times = []\n"
        "    for _ in range(3):\n"
        "        begin = process_time()\n"
        "        ...\n"
        "    return peak, ..."),
    "Peak and time, each in runs of its own: the most that was held, and the best of several runs.")

# 13.d: the report. The check brings a `measure` that counts: nothing here depends on how fast a computer is.

_D = ("stored", "parts", "memory_ratio", "time_ratio")
_N, _SEGMENTS, _SIZE = 256, 16, 4


class _Sine:
    """The step sin(w * h); `back` counts how often it was gone back through."""

    def __init__(self):
        self.back, self.sizes = 0, set()

        @ad.custom_op(vjps=[self._partial])
        def sin(x):
            return np.sin(x)

        self._sin = sin

    def _partial(self, g, y, x):
        self.back += 1
        return g * np.cos(x)

    def __call__(self, h, w):
        self.sizes.add(np.size(h))
        return self._sin(w * h)


def _segmented(step, h0, w, n, segments):
    """What task b asks for."""
    starts, y = [], h0
    with ad.no_grad():
        for part in segment_lengths(n, segments):
            starts.append((y, part))
            y = _forward(step, y, w, part)
    g, dw = None, 0.0
    for at, part in starts[::-1]:
        start = ad.Var(at.data)
        grads = _forward(step, start, w, part).backward(g)
        g, dw = grads[start], dw + grads[w]
    return g, dw


@dataclass
class _Measured:
    """One run of a work: the steps that ran, were recorded and gone back through, the values held, the segments."""

    runs: int
    recorded: int
    back: int
    held: int
    parts: int
    peak: int = 0
    seconds: float = 0.0


class _Meter:
    """Stands in for `measure`: counts what a work does, and returns a peak and seconds that follow from the counts."""

    def __init__(self, step, sine, rng):
        self.step, self.sine, self.rng, self.all = step, sine, rng, []

    def __call__(self, work):
        if not callable(work):
            raise _NoWork(type(work).__name__)
        step, back = self.step, self.sine.back
        calls, recorded, starts = step.calls, step.recorded, len(step.starts)
        step.most = step.alive
        work()
        runs, recorded = step.calls - calls, step.recorded - recorded
        # Where some steps were not recorded, the first of them began at h too.
        parts = len(step.starts) - starts - (runs > recorded)
        one = _Measured(runs, recorded, self.sine.back - back, step.most - step.alive, parts)
        one.peak = 40_000 * one.held + self.rng.randrange(1000, 9000)
        one.seconds = (one.runs + 2 * one.back + self.rng.random()) * 1e-5
        self.all.append(one)
        return one.peak, one.seconds

    def of(self, pair) -> _Measured | None:
        """The measurement that returned this pair."""
        return next((one for one in self.all if (one.peak, one.seconds) == pair), None)


class _NoWork(TypeError):
    pass


@contextlib.contextmanager
def _brought(function, **names):
    """Give the names in a function's notebook these values, for as long as the check calls it."""
    space = getattr(function, "__globals__", {})
    before = {name: space[name] for name in names if name in space}
    space.update(names)
    try:
        yield
    finally:
        for name in names:
            del space[name]
        space.update(before)


def _judge_d(attempt):
    report, = attempt.answers
    reason = function_or_reason(attempt, report, "step, h, w, n, segments")
    if reason is not None:
        return reason
    rng, rows = attempt.rng, None
    for n, s in ((_N, _SEGMENTS), (rng.randrange(100, 140), rng.randrange(6, 10))):
        sine = _Sine()
        meter = _Meter(_Counted(sine), sine, rng)
        call = f"{name_of(report)}(step, h, w, {n}, {s})"
        h = ad.Var(np.linspace(0.1, 1.0, _SIZE))
        with _brought(report, measure=meter, segmented=_segmented):
            result = run(report, meter.step, h, ad.Var(1.02), n, s, lines=3_000_000)
        if isinstance(result.error, _NoWork):
            return attempt.fault("called-at-once", printed(result), None, call=call, kind=str(result.error))
        problem = stopped(attempt, result, call)
        if problem is not None:
            return problem
        if result.value is None:
            return attempt.fault(NO_RETURN.id, printed(result), None, call=call)
        numbers = _four(result.value)
        if isinstance(numbers, str):
            return attempt.wrong([f"`{call}` returned {safe_repr(result.value, 120)}; expected {numbers}.",
                                  *printed(result)], look="The form of what you return.")
        ways = [meter.of(pair) for pair in numbers[:2]]
        rows = rows or [(name, *map(str, (one.runs, one.recorded, one.back, one.held)))
                        for name, one in zip(_D, ways) if one is not None]
        table = Table((f"n = {n}, {s} segments", "steps run", "recorded", "gone back", "values held"), tuple(rows))
        found = _wrong_ways(*ways, sine.sizes, n, s) or _wrong_ratios(*numbers)
        if found is not None:
            return _fault_d(attempt, found, result, table, ways, numbers, call=call, n=n, s=s)
    table = Table((f"n = {_N}, {_SEGMENTS} segments", *table.header[1:]), tuple(rows))
    return attempt.passed(table)


def _four(value):
    """Both measurements and the two ratios; or what is expected instead, in words."""
    if not isinstance(value, (tuple, list)) or len(value) != 4:
        return "four things: stored, parts, memory_ratio, time_ratio"
    pairs, ratios = [_pair(v) for v in value[:2]], [as_number(v) for v in value[2:]]
    for name, pair in zip(_D, pairs):
        if pair is None or any(p.size != 1 for p in pair):
            return f"`{name}` to be what `measure` returned: a peak in bytes, and seconds"
    for name, ratio in zip(_D[2:], ratios):
        if ratio is None or not math.isfinite(ratio) or ratio <= 0:
            return f"`{name}` to be a positive number"
    return *(tuple(float(p.reshape(())) for p in pair) for pair in pairs), *ratios


def _wrong_ways(stored, parts, sizes, n, s) -> str | None:
    """The fault of what was measured, by counting."""
    if stored is None or parts is None:
        return "not-measured"
    if not stored.runs or not parts.runs:
        return "step-not-used"
    if any(one.recorded > one.back for one in (stored, parts)):
        return "no-backward"
    if sizes != {_SIZE} or any(one.recorded != n or one.runs not in (n, 2 * n) for one in (stored, parts)):
        return "other-numbers"
    if stored.runs == 2 * n and parts.runs == n:
        return "ways-exchanged"
    if parts.runs == n or parts.parts == 1:
        return "no-saving"
    return "other-numbers" if stored.runs != n or parts.parts != s else None


def _wrong_ratios(stored, parts, memory, seconds) -> str | None:
    measured, timed = stored[0] / parts[0], parts[1] / stored[1]
    if close(memory, measured) and close(seconds, timed):
        return None
    if close(memory, timed) and close(seconds, measured):
        return "ratios-exchanged"
    if close(memory, 1 / measured):
        return "upside-down"
    if close(memory, measured) and close(seconds, 1 / timed):
        return "time-upside-down"
    if any(close(memory / 100, m) for m in (measured, 1 / measured, 1 - 1 / measured)):
        return "percent"
    return "other-ratios"


def _fault_d(attempt, found, result, table, ways, numbers, **words):
    stored, parts, memory, seconds = numbers
    words |= dict(memory=_two(memory), time=_two(seconds))
    if None not in ways:
        words |= dict(measured=_two(stored[0] / parts[0]), timed=_two(parts[1] / stored[1]))
        words["which"] = " and ".join(f"`{name}`" for name, one in zip(_D, ways) if one.recorded > one.back)
    return attempt.fault(found, printed(result), table if all(ways) else None, **words)


def _two(number) -> str:
    return f"{number:.3g}"


_FAULTS_D = (
    Fault("no-backward", "a way has no backward pass",
          "In {which} the steps were recorded, and not gone back through. Both ways are to give both gradients: "
          "whoever leaves the backward pass out of one of them compares half a computation with a whole one. The time "
          "ratio is then about 3.",
          "the function that you measure: where is its `.backward()`?"),
    Fault("called-at-once", "the work is done before it is measured",
          "`measure` got a {kind}. You called the function, and handed over what it returned. `measure` calls it by "
          "itself, when the clock runs.",
          "`lambda:` in front of the call makes a function of it that can be called later."),
    Fault("not-measured", "a measurement is not what `measure` returned",
          "`stored` and `parts` are the pairs that `measure` returns for the two ways, with nothing done to them.",
          "the two calls of `measure`, and what you return in the first two places."),
    Fault("step-not-used", "the step of the check was never called",
          "`{call}` measured a step of its own, or none. The check counts with the step that it hands over.",
          "each place where a step is computed: `step` is an argument of `run` and of `segmented`."),
    Fault("other-numbers", "what is measured has another size than asked for",
          "The table has what ran. With n = {n} and {s} segments, `stored` runs n steps and `parts` 2 n, from the h "
          "that is handed over.",
          "numbers and names in your function that are no arguments of it."),
    Fault("other-ratios", "the ratios are not those of your measurements",
          "From what you measured, memory_ratio is {measured} and time_ratio {timed}. You report {memory} and {time}. "
          "A report states what was measured, not what a formula says or what was expected.",
          "compute both ratios from `stored` and `parts`."),
    Fault("ratios-exchanged", "the two ratios are exchanged",
          "Your memory_ratio is made from the seconds, and your time_ratio from the peaks.",
          "which entry of the pairs goes into which ratio: first the peak, then the seconds."),
    Fault("upside-down", "the memory ratio is upside down",
          "Your memory_ratio is {memory}. It says how many times as much memory *storing everything* takes: (peak of "
          "stored) / (peak of parts), here {measured}.",
          "what stands above the line of the fraction, and what below."),
    Fault("time-upside-down", "the time ratio is upside down",
          "Your time_ratio is {time}. It is (seconds of parts) / (seconds of stored), here {timed}: how much longer "
          "the segments take.",
          "what stands above the line of the fraction, and what below."),
    Fault("percent", "a ratio is asked for, not a percentage",
          "Your memory_ratio is {memory}. It is a plain quotient: 10 when storing everything takes ten times as much.",
          "a factor of 100, or a 1 - ..., in the line of the ratio."),
    Fault("ways-exchanged", "the two ways are exchanged",
          "`stored` is to be the way that keeps the whole graph, and it ran each step twice, as the segments do.",
          "which function goes into which `measure`."),
    Fault("no-saving", "both ways keep the whole graph",
          "In `parts` all results were held at once, as in `stored`. With {s} segments one segment is held at a time.",
          "the two functions that you hand to `measure`, and the number of segments."),
    NO_RETURN,
)

_TASK_D = Task(
    "13.d", "the report", ("report",), _judge_d, _FAULTS_D, (
        "`measure` takes a function without arguments. A `lambda:` in front of a call makes one of it.",
        "The same computation in two ways, forward *and* backward in both:\n\n"
        "    stored    run n steps from h, then .sum() and .backward()\n"
        "    parts     segmented(step, h, w, n, segments)\n\n"
        "Four numbers come out: two peaks, two times. Two ratios are made of them.",
        "    stored = measure(lambda: run(step, h, w, n)....)\n"
        "    parts = measure(lambda: ...)\n"
        "    memory_ratio = ... / ...     # more than 1: what storing everything costs\n"
        "    time_ratio = ... / ...       # mostly more than 1: what running again costs\n"
        "    return stored, parts, memory_ratio, time_ratio"),
    "Memory by a factor, time by a fraction: each step is run once more, and gone back through once in both ways.")

TASKS = (_TASK_A, _TASK_B, _TASK_C, _TASK_D)
