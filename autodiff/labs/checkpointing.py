"""Checkpointing: how many values are kept and how many steps are run again, for every number of segments."""

from __future__ import annotations

import math
import time
import tracemalloc
import weakref
from dataclasses import dataclass

import numpy as np

from ..checkpoint import checkpoint
from ..drawing.text import clean, number, summary
from ..graph import Node
from ..tensor import Tensor, Var
from .lab import Lab, Shown, Table, Text, button, counted, finite_arrays, function, slider, whole
from .plot import Plot

LONGEST = 1024  # steps of a recurrence


@dataclass(frozen=True)
class Cost:
    """What one way of running a recurrence costs.

    `segments`: how many checkpoints it is cut into; 0 stores everything. `kept`: values of results held at once, at
    most. `again`: steps that are run a second time.
    """

    segments: int
    kept: int
    again: int


@dataclass(frozen=True)
class Counted:
    """One run that was watched: its `cost` as counted, the value and the gradients of start and parameters."""

    cost: Cost
    value: np.ndarray
    grads: tuple


def segment_lengths(n: int, segments: int) -> list[int]:
    """`n` steps in `segments` parts that differ by at most one step, the longer ones first.

    >>> segment_lengths(10, 4)
    [3, 3, 2, 2]
    """
    short, longer = divmod(n, segments)
    return [short + 1] * longer + [short] * (segments - longer)


def predicted(n: int, values: int = 1) -> list[Cost]:
    """The costs of storing everything, then of 1 to `n` segments, for steps that make that many `values` each.

    With s segments, the s results are kept, and while one segment is run again, its values as well. So
    s + values·ceil(n/s) are kept, which is least near sqrt(values·n), and all n steps are run again.

    >>> [predicted(64)[s].kept for s in (0, 1, 8, 64)]
    [64, 65, 16, 65]
    """
    return [Cost(0, values * n, 0), *(Cost(s, s + values * math.ceil(n / s), n) for s in range(1, n + 1))]


def count(step, start, *params, length: int, segments: int) -> Counted:
    """Run a recurrence forwards and backwards, and count values and steps while it runs.

    `step(h, *params)` returns the next h. `segments`: 0 stores everything, else the number of checkpoints.

    >>> made = count(lambda h, w: h * w, 1.0, 1.01, length=64, segments=8)
    >>> made.cost, round(float(made.grads[1]), 6) == round(64 * 1.01**63, 6)
    (Cost(segments=8, kept=16, again=64), True)
    """
    watch = _Watch(step)
    h, *ps = variables = [v if isinstance(v, Var) else Var(v) for v in (start, *params)]
    if segments == 0:
        h = watch.run(length, h, ps)
    else:
        for part in segment_lengths(length, segments):
            h = checkpoint(lambda h, *ps, part=part: watch.run(part, h, ps))(h, *ps)
            watch.add(h)
    forward = watch.steps
    grads = h.backward(wrt=variables)
    found = tuple(np.asarray(grads[v].data) if v in grads else np.zeros(v.shape) for v in variables)
    return Counted(Cost(segments, watch.most, watch.steps - forward), h.data, found)


class _Watch:
    """A step that counts its calls, and how many values of results are alive."""

    def __init__(self, step):
        self.step, self.steps, self.alive, self.most = step, 0, 0, 0
        self._seen: set[int] = set()

    def run(self, n, h, params):
        """`n` steps from `h`."""
        for _ in range(n):
            self.steps += 1
            result = self.step(h, *params)
            if not isinstance(result, Tensor):
                raise TypeError(f"a step must return a Tensor, got {type(result).__name__}: {clean(result)}")
            if result.shape != h.shape:
                raise ValueError(f"a step must return the shape it gets, {h.shape}, got {result.shape}")
            self.add(result)
            h = result
        return h

    def add(self, root: Node) -> None:
        """Count those results in the graph of `root` that are new; views and aliases hold no value of their own."""
        todo = [root]
        while todo:
            node = todo.pop()
            if not isinstance(node, Node) or node._rule is None or node._id in self._seen:
                continue
            if any(np.may_share_memory(node._array, v) for v in node._values):
                todo.extend(t for t in node._inputs if node._rule.name != "copy")
                continue
            self._seen.add(node._id)
            self.alive += 1
            weakref.finalize(node, self._gone).atexit = False
            todo.extend(node._inputs)
        self.most = max(self.most, self.alive)

    def _gone(self) -> None:
        self.alive -= 1


@dataclass(frozen=True)
class Measured:
    """Peak of the memory that Python and NumPy took, in bytes, and seconds, on this machine in one run."""

    peak: int
    seconds: float


def measure(step, start, *params, length: int, segments: int) -> Measured:
    """What forward and backward pass of one run really take; other runs, and other machines, give other numbers."""
    h, *ps = variables = [Var(v) for v in (start, *params)]

    def forward(n, h, ps):
        for _ in range(n):
            h = step(h, *ps)
        return h

    def once():
        y = h if segments else forward(length, h, ps)
        for part in segment_lengths(length, segments) if segments else ():
            y = checkpoint(lambda y, *ps, part=part: forward(part, y, ps))(y, *ps)
        y.backward(wrt=variables)

    began = time.perf_counter()
    once()
    seconds = time.perf_counter() - began
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        once()
        return Measured(tracemalloc.get_traced_memory()[1] - before, seconds)
    finally:
        if not running:
            tracemalloc.stop()


@dataclass(frozen=True)
class Result:
    """The chosen number of segments as counted, storing everything as counted, and the costs of all numbers."""

    chosen: Counted
    everything: Counted
    costs: list
    values: int

    @property
    def best(self) -> Cost:
        """The fewest values kept."""
        return min(self.costs[1:], key=lambda c: c.kept)


class CheckpointingLab(Lab):
    """A recurrence that is cut into segments; a slider sets how many."""

    title = "Checkpointing: memory against time"

    def __init__(self, step, start, params, length):
        (self.start,) = finite_arrays((start,), ("start",))
        self.step, self.params, self.length = step, params, length
        self._everything = count(step, self.start, *params, length=length, segments=0)
        self._values = self._everything.cost.kept // length
        if not self._values:
            raise ValueError("the steps keep no values for the backward pass: step(h, *params) must compute its result "
                             "from h, which it gets as a Tensor, and not detach it")
        self._measured: dict[int, Measured] = {}
        super().__init__(segments=max(1, round(math.sqrt(length))))

    def _compute(self, values):
        s = values["segments"] = whole("segments", values["segments"], 0, self.length, "a whole number")
        chosen = count(self.step, self.start, *self.params, length=self.length, segments=s)
        return Result(chosen, self._everything, predicted(self.length, self._values), self._values)

    def _controls(self):
        texts = ["0, store everything", *(str(s) for s in range(1, self.length + 1))]
        return [
            slider("segments", "Segments", texts, self.values["segments"]),
            button("measure", "Measure on this machine"),
        ]

    def _act(self, changes):
        pressed = changes.pop("measure", False)
        if changes:
            self.set(**changes)
        if pressed:
            for s in sorted({0, self.values["segments"]}):
                self._measured[s] = measure(self.step, self.start, *self.params, length=self.length, segments=s)
            self._trouble = ""
            self._show()

    def _summary(self):
        c, all_ = self.result.chosen.cost, self.result.everything.cost
        if c.segments == 0:
            return f"Everything stored: {counted(c.kept, 'value')} kept at once, no step is run again."
        part = max(segment_lengths(self.length, c.segments))
        kept = f"{counted(c.kept, 'value')} kept at once instead of {all_.kept}"
        cut = f"{counted(c.segments, 'segment')} of up to {counted(part, 'step')}"
        return f"{cut}: {kept}, and {counted(c.again, 'step')} run again."

    def _blocks(self):
        made, n = self.result, self.length
        root = math.sqrt(n)
        wanted = {0, math.floor(root), math.ceil(root), made.best.segments, n, made.chosen.cost.segments}
        wanted = sorted(wanted | {2**k for k in range(int(math.log2(n)) + 1)})
        rows = []
        for s in wanted:
            c = made.costs[s]
            marks = [text for text, holds in (("sqrt(n)", s and s in (math.floor(root), math.ceil(root))),
                                              ("fewest", s and c.kept == made.best.kept)) if holds]  # fmt: skip
            rows.append((str(s) if s else "0, all stored", str(c.kept), str(n), str(c.again), ", ".join(marks)))
        current = next(i for i, s in enumerate(wanted) if s == made.chosen.cost.segments)
        same = all(
            np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)
            for a, b in zip(made.chosen.grads, made.everything.grads)
        )
        names = ["the start", *(["the parameter"] if len(self.params) == 1 else
                                [f"parameter {i + 1}" for i in range(len(self.params))])]  # fmt: skip
        grads = "; ".join(f"of {name} {summary(g)}" for name, g in zip(names, made.chosen.grads))
        told = [
            f"{f'{s} segments' if s else 'All stored'}: peak {m.peak / 1024:,.0f} KiB, {m.seconds * 1000:.1f} ms."
            for s, m in sorted(self._measured.items())
        ]
        header = ("segments", "values kept", "steps forwards", "steps again", "")
        return [
            Text(self._summary(), strong=True),
            Shown(self._memory()),
            Shown(self._trade()),
            *([Measurement("Measured on this machine: " + " ".join(told))] if told else []),
            Table(f"Costs of a recurrence of {n} steps", header, rows, current),
            Text(
                f"Gradients {grads}: {'the same' if same else 'NOT the same'} as with everything stored. Each step "
                f"makes {made.values} value{'s' * (made.values != 1)}; sqrt(n) is {number(round(root, 2))}."
            ),
        ]  # fmt: skip

    def _memory(self) -> Plot:
        made, n = self.result, self.length
        costs, c = made.costs[1:], made.chosen.cost
        top = max(max(x.kept for x in costs), made.costs[0].kept)
        stored = made.costs[0].kept
        label = (
            f"Values kept against the number of segments: from {costs[0].kept} at 1 down to {made.best.kept} at "
            f"{made.best.segments}, and up to {costs[-1].kept} at {n}; storing everything keeps {stored}"
        )
        title = "Memory: values kept at once"
        p = Plot(label, title, (0, n * 1.04), (0, top * 1.22), "segments", "values kept")
        p.line([(0, stored), (n, stored)], "ad-soft")
        p.note(n / 2, stored, f"everything stored: {stored}", dx=0, dy=-9, anchor="middle", quiet=True)
        p.line([(x.segments, x.kept) for x in costs])
        if n <= 80:
            for x in costs:
                p.point(x.segments, x.kept)
        p.upright(math.sqrt(n), f"sqrt(n) = {number(round(math.sqrt(n), 2))}")
        p.point(c.segments, c.kept, "diamond")
        p.note(c.segments, c.kept, f"{c.kept}", dx=10, dy=-10, bold=True)
        return p

    def _trade(self) -> Plot:
        made, n = self.result, self.length
        c, all_ = made.chosen.cost, made.costs[0]
        top = max(x.kept for x in made.costs)
        label = f"Memory against time: storing everything keeps {all_.kept} values and runs {n} steps"
        if c.segments:
            label += f"; {c.segments} segments keep {c.kept} and run {n + c.again}"
        x, y = (0, 2.5 * n), (0, top * 1.22)
        p = Plot(label, "Memory against time", x, y, "steps run, forwards and again", "values kept")
        p.line([(2 * n, made.best.kept), (2 * n, top)])
        p.note(2 * n, (made.best.kept + top) / 2, f"1 to {n} segments", dx=12, anchor="end", quiet=True)
        p.point(n, all_.kept, "square")
        p.note(n, all_.kept, "all stored", dx=12, anchor="end", bold=not c.segments)
        if c.segments:
            p.point(n + c.again, c.kept, "diamond")
            p.note(n + c.again, c.kept, f"{c.segments} segments: {c.kept}", dx=14, anchor="end", bold=True)
        return p


class Measurement(Text):
    """Numbers of this machine and this moment: for the widget, not for what is saved."""

    def plain(self) -> list[str]:
        return []


def checkpointing(step=None, start=0.5, *params, length: int = 64) -> CheckpointingLab:
    """A lab on checkpointing: memory against time for a recurrence in 1 to `length` segments.

    `step(h, *params)` returns the next h, in the same shape, and uses the same parameters again in each step; left out,
    it is h * w from 0.5 with w = 1.01. Values and steps are counted while the recurrence runs. ValueError for a length
    that is not from 1 to 1024. What `step` raises is raised.

    >>> from autodiff import labs
    >>> lab = labs.checkpointing(lambda h, w: np.sin(w * h), 0.5, 1.1, length=100)
    >>> lab.set(segments=10)
    >>> lab.result.chosen.cost
    Cost(segments=10, kept=30, again=100)
    """
    if step is None:
        step, params = (lambda h, w: h * w), params or (1.01,)
    function(step, "checkpointing(lambda h, w: h * w, 0.5, 1.01)")
    return CheckpointingLab(step, start, params, whole("length", length, 1, LONGEST))
