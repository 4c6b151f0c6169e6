"""Training: a loss goes down live, and can be stopped; the same settings and seed give the same run."""

from __future__ import annotations

import asyncio
import math
import signal
import threading
import time
from dataclasses import dataclass, field, replace

import numpy as np

from ..drawing.text import clean, number
from ..optim import SGD, AdamW
from ..outside import plain
from ..recording import no_grad
from ..rules.nn import softplus
from ..structure import leaves
from ..tensor import Tensor, Var
from .lab import Lab, Progress, Shown, Table, Text, button, choice, counted, real, slider, whole
from .plot import Plot

RATES = [m * 10.0**k for k in range(-4, 2) for m in (1, 2, 5)]
EPOCHS = [1, 2, 3, 5, 10, 15, 20, 30, 50, 100, 200, 500, 1000]
OPTIMISERS = {"SGD": SGD, "AdamW": AdamW}
SECONDS_BETWEEN_VIEWS = 0.1
DIVERGED = 1e12
SEEDS = 0, 2**63
DRAWN = 400  # points of a curve


@dataclass(frozen=True)
class Task:
    """What is trained: `loss(*arrays)` of a batch, the Vars in it, the `data` (arrays with one row for each example).

    `score(*arrays)`: a number between 0 and 1 for the whole data, such as the accuracy, or None.
    """

    name: str
    loss: object
    params: tuple
    data: tuple
    score: object = None
    start: tuple = field(default=(), repr=False)

    @property
    def size(self) -> int:
        """The number of examples."""
        return len(self.data[0])


@dataclass(frozen=True)
class History:
    """A run: `losses` of the whole data, before the first epoch and after each; the settings; how it `ended`.

    `ended`: "done", "stopped", "diverged", or "running". `steps`: updates made. `score`: at the end, or None.
    `gradients`: for each parameter the largest entry of its gradient in any step, None where no gradient reached it.
    `broken`: the first step with a gradient that is not finite although the loss was; 0 where there is none.
    """

    settings: dict
    losses: tuple
    steps: int = 0
    ended: str = "running"
    score: float | None = None
    gradients: tuple = ()
    broken: int = 0

    @property
    def flat(self) -> bool:
        """Whether the loss never changed."""
        return len(set(self.losses)) == 1

    @property
    def epochs(self) -> int:
        """Epochs finished."""
        return len(self.losses) - 1


def classifier(seed: int = 0) -> Task:
    """Two half-moons that interlock, 200 points, and a network with one layer of 8 tanh units: 33 parameters."""
    rng = np.random.default_rng(seed)
    angle = np.pi * rng.random(200)
    y = np.arange(200) % 2
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (1 - 2 * y[:, None]) + y[:, None] * np.array([1.0, 0.5])
    x = x + 0.15 * rng.standard_normal((200, 2))
    w1, b1 = Var(rng.standard_normal((2, 8)), name="W1"), Var(np.zeros(8), name="b1")
    w2, b2 = Var(rng.standard_normal(8) / 3, name="w2"), Var(0.0, name="b2")
    logit = lambda x: np.tanh(x @ w1 + b1) @ w2 + b2
    loss = lambda x, y: (softplus(logit(x)) - y * logit(x)).mean()
    score = lambda x, y: np.mean((logit(x).data > 0) == (y > 0.5))
    return Task("two half-moons", loss, (w1, b1, w2, b2), (x, y.astype(float)), score)


def regression(seed: int = 0) -> Task:
    """64 noisy points of the line y = 2x - 1, and two parameters."""
    rng = np.random.default_rng(seed)
    x = np.linspace(-1, 1, 64)
    y = 2 * x - 1 + 0.2 * rng.standard_normal(64)
    w, b = Var(0.0, name="w"), Var(0.0, name="b")
    return Task("a line", lambda x, y: ((x * w + b - y) ** 2).mean(), (w, b), (x, y))


def train(task: Task, *, lr=0.5, batch=20, epochs=30, optimiser="SGD", seed=0, stop=lambda: False,
          tell=lambda history: None) -> History:  # fmt: skip
    """Train from the task's first values on; the batches of each epoch are drawn with `seed`.

    `stop()` is asked before each step, and KeyboardInterrupt stops too: what was reached by then is kept.
    `tell(history)` is called after each epoch. A loss that is not finite, or beyond ±10¹², ends the run.

    >>> run = train(regression(), lr=0.1, batch=16, epochs=10)
    >>> run.ended, run.epochs, run.steps
    ('done', 10, 40)
    """
    settings = dict(lr=lr, batch=batch, epochs=epochs, optimiser=optimiser, seed=seed)
    _check(task, settings)
    for p, value in zip(task.params, task.start):
        p.set(value)
    made, rng = OPTIMISERS[optimiser](task.params, lr=lr), np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        history = History(settings, (_whole(task),))
        tell(history)
        if _runs_away(history):
            return _ended(task, history, "diverged")
        try:
            for _ in range(epochs):
                order = rng.permutation(task.size)
                for first in range(0, task.size, batch):
                    if stop():
                        return _ended(task, history, "stopped")
                    rows = np.sort(order[first : first + batch])
                    loss = _scalar(task.loss(*(a[rows] for a in task.data)))
                    grads = loss.backward()
                    made.step(grads)
                    history = _after(history, [grads.get(p) for p in task.params], loss)
                history = replace(history, losses=(*history.losses, _whole(task)))
                tell(history)
                if _runs_away(history):
                    return _ended(task, history, "diverged")
            return _ended(task, history, "done")
        except KeyboardInterrupt:
            return _ended(task, history, "stopped")


def _after(history: History, grads, loss: Tensor) -> History:
    """The history with one more step."""
    steps, sizes = history.steps + 1, [None if g is None else float(np.abs(g.data).max(initial=0.0)) for g in grads]
    broken = any(s is not None and not math.isfinite(s) for s in sizes) and math.isfinite(loss.item())
    before = history.gradients or (None,) * len(sizes)
    most = tuple(a if b is None else b if a is None else float(np.maximum(a, b)) for a, b in zip(before, sizes))
    return replace(history, steps=steps, gradients=most, broken=history.broken or steps * broken)


def _runs_away(history: History) -> bool:
    return not abs(history.losses[-1]) <= DIVERGED


def _whole(task: Task) -> float:
    with no_grad():
        return float(_scalar(task.loss(*task.data)).item())


def _scalar(loss) -> Tensor:
    if not isinstance(loss, Tensor) or loss.size != 1:
        got = f"shape {loss.shape}" if isinstance(loss, Tensor) else f"{type(loss).__name__} {clean(loss)}"
        raise TypeError(f"the loss must be a Tensor with one entry, got {got}; take the mean of it")
    return loss


def _ended(task: Task, history: History, how: str) -> History:
    score = None
    if task.score is not None and how != "diverged":
        with no_grad():
            score = real("score(*data)", task.score(*task.data))
        if score < 0 or score > 1:
            raise ValueError(f"score(*data) must be a share from 0 to 1, got {number(score)}")
    return replace(history, ended=how, score=score)


def _check(task: Task, s: dict) -> None:
    """Make plain numbers of the settings; an error for one that can't be used."""
    if s["optimiser"] not in [*OPTIMISERS]:
        raise ValueError(f"optimiser must be one of {', '.join(OPTIMISERS)}, got {clean(repr(s['optimiser']))}")
    s["lr"] = real("lr", s["lr"], "a number from 0 on")
    if not 0 <= s["lr"] < math.inf:
        raise ValueError(f"lr must be a number from 0 on, got {clean(s['lr'])}")
    for name, least, most in (("batch", 1, task.size), ("epochs", 1, 100_000), ("seed", *SEEDS)):
        s[name] = whole(name, s[name], least, most)


# The lab


class TrainingLab(Lab):
    """Settings, Start and Stop, and the loss as it goes down. `.run()` trains from Python; an interrupt stops both."""

    title = "Training: learning rate, batch size, epochs"

    def __init__(self, task: Task, settings: dict):
        self.task, self.previous = task, None
        self._stop, self._thread, self._seen, self._loop = threading.Event(), None, 0.0, _main_loop()
        super().__init__(**settings)
        self.result = train(task, **settings)

    def _compute(self, values):
        if self.running:
            raise RuntimeError("a run is going on: stop it before the settings change")
        _check(self.task, values)
        return getattr(self, "result", None)

    @property
    def running(self) -> bool:
        """Whether a run that was started in the widget is going on."""
        return self._thread is not None and self._thread.is_alive()

    def run(self, **changes) -> TrainingLab:
        """Train with these settings, here and now, and show it in the widget meanwhile; an interrupt stops it."""
        self.set(**changes)
        self._begin()
        self._train()
        return self

    def start(self) -> None:
        """Train in the background, as the Start button does."""
        if self.running:
            raise RuntimeError("a run is going on: stop it before another one starts")
        self._begin()
        self._thread = threading.Thread(target=self._train, name="autodiff training", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # Python in a browser has no threads
            self._thread = None
            self._train()
            return
        _while_it_runs(self._loop, self._thread, self._stop)

    def stop(self) -> None:
        """Stop a run that was started with `start`; what it reached by then is kept."""
        self._stop.set()

    def wait(self) -> None:
        """Wait until a run that was started with `start` has ended."""
        if self._thread is not None:
            self._thread.join()

    def _begin(self) -> None:
        self._stop.clear()
        self._kept = self.result
        if self.result.epochs > 0:
            self.previous = self.result

    def _train(self) -> None:
        background = threading.current_thread() is self._thread
        try:
            self.result = train(self.task, **self.values, stop=self._stop.is_set, tell=self._tell)
        except Exception as error:
            self.result = self._kept
            if not background:
                raise
            self._trouble = self._told(error)
        finally:
            if background:
                self._thread = None
            self._show()

    def _tell(self, history: History) -> None:
        self.result = history
        if time.monotonic() - self._seen > SECONDS_BETWEEN_VIEWS:
            self._seen = time.monotonic()
            self._show()

    def _act(self, changes):
        start, stop = changes.pop("start", False), changes.pop("stop", False)
        if changes:
            self.set(**changes)
        if stop:
            self.stop()
            self._show()
        elif start:
            self._trouble = ""
            self.start()
            self._show()

    def _stops(self) -> dict[str, list]:
        sizes = [b for b in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if b < self.task.size] + [self.task.size]
        return {name: sorted({*stops, self.values[name]}) for name, stops in
                (("lr", RATES), ("batch", sizes), ("epochs", EPOCHS))}  # fmt: skip

    def _controls(self):
        stops = self._stops()
        labels = {"lr": "Learning rate", "batch": "Batch size", "epochs": "Epochs"}
        sliders = [slider(name, labels[name], [number(v) for v in stops[name]], stops[name].index(self.values[name]))
                   for name in labels]  # fmt: skip
        busy = self.result.ended == "running"
        return [*sliders, choice("optimiser", "Optimiser", list(OPTIMISERS), self.values["optimiser"]),
                button("start", "Start", not busy), button("stop", "Stop", busy)]  # fmt: skip

    def _read(self, name, shown):
        return self._stops()[name][shown] if name in ("lr", "batch", "epochs") else shown

    def _summary(self):
        run = self.result
        s, last = run.settings, run.losses[-1] if run.losses else math.nan
        most = counted(s["epochs"], "epoch")
        how = {"done": most, "stopped": f"stopped after {run.epochs} of {most}", "diverged": self._away(),
               "running": "running"}[run.ended]  # fmt: skip
        score = "" if run.score is None or not math.isfinite(run.score) else f", {run.score:.1%} right"
        return f"{_settings(s)}: {how}, loss {_loss(run.losses[0])} before and {_loss(last)} now{score}."

    def _away(self) -> str:
        """Why a run ended early."""
        run = self.result
        if not run.epochs:
            return "no step was made, as the loss is " + (
                "not finite" if not math.isfinite(run.losses[0]) else "beyond 1e12"
            )
        if run.broken:
            wrong = [g is not None and not math.isfinite(g) for g in run.gradients]
            return f"at step {run.broken} {self._of(wrong)} was not finite, though the loss was"
        if run.losses[-1] < run.losses[0]:
            return f"the loss fell below -1e12 in epoch {run.epochs}: it has no lowest value"
        return f"the loss ran away in epoch {run.epochs}: the learning rate is too large"

    def _of(self, which) -> str:
        names = [p.name or f"parameter {k}" for k, p in enumerate(self.task.params, 1)]
        names = [clean(n) for n, chosen in zip(names, which) if chosen]
        return f"the gradient of {', '.join(names[:6])}{', …' * (len(names) > 6)}"

    def _untrained(self) -> str:
        """What was not trained, and why; nothing where all is well."""
        run, said = self.result, []
        if not run.steps or run.ended == "diverged":
            return ""
        missing, zero = [g is None for g in run.gradients], [g == 0 for g in run.gradients]
        if any(missing):
            why = "the loss does not depend on it: its function may use other Vars by now, or a detached value"
            said.append(f"{self._of(missing)} is missing, as {why}")
        if any(zero):
            said.append(f"{self._of(zero)} is 0 at every step")
        idle = all(m or z for m, z in zip(missing, zero))
        if not idle and run.flat:
            said.append("the learning rate is 0" if run.settings["lr"] == 0 else "no step was large enough to show")
        if not said:
            return ""
        lead = "Nothing was trained, the loss did not change" if run.flat else "Not all was trained"
        return f"{lead}: {'; '.join(said)}."

    def _says(self):
        if self.result.ended == "running":
            return "Training runs."
        return " ".join(filter(None, (self._summary(), self._untrained())))

    def _blocks(self):
        run, blocks = self.result, []
        blocks.append(Text(self._summary(), strong=True))
        if self._untrained():
            blocks.append(Text(self._untrained(), strong=True))
        if {k: run.settings[k] for k in self.values} != self.values and run.ended != "running":
            blocks.append(Text("The settings have changed since this run: press Start."))
        most = run.settings["epochs"]
        blocks.append(Progress(f"epoch {run.epochs} of {most}", run.epochs, most))
        blocks.append(Shown(self._picture()))
        marks = sorted({0, *(round(run.epochs * k / 8) for k in range(9))})
        rows = [(str(k), str(run.steps * k // max(run.epochs, 1)), _loss(run.losses[k])) for k in marks]
        caption = f"Loss of all {self.task.size} examples ({self.task.name})"
        blocks.append(Table(caption, ("epoch", "steps", "loss"), rows))
        return blocks

    def _picture(self) -> Plot:
        run, before = self.result, self.previous
        curves = [run.losses, *([before.losses] if before else [])]
        drawn = [v for c in curves for v in c if math.isfinite(v)] or [1.0]
        low, top = min(drawn), max(drawn)
        log = "y" if low > 0 and top > 10 * drawn[0] else ""  # a run that went far away would flatten all others
        label = f"Loss against epochs: from {_loss(run.losses[0])} to {_loss(run.losses[-1])} after {run.epochs} epochs"
        y = (low / 1.5, top * 1.5) if log else (min(low, 0.0), top + 0.12 * abs(top))
        axes = (0, run.settings["epochs"]), y, "epoch", "loss, logarithmic" if log else "loss"
        p = Plot(label, "Loss of all examples", *axes, log=log, width=480, height=310)
        if before:
            p.line(_thinned(before.losses), "ad-soft")
            p.text(p.width - 8, 18, f"dashed: {_settings(before.settings)}", anchor="end", size=12, quiet=True)
        p.line(_thinned(run.losses), "ad-strong")
        seen = [(k, v) for k, v in enumerate(run.losses) if math.isfinite(v)]
        if seen:
            then = "" if seen[-1][0] == run.epochs else ", then not finite"
            p.point(*seen[-1], "diamond")
            p.note(*seen[-1], _loss(seen[-1][1]) + then, dy=-12, dx=8, bold=True)
        return p


def training(loss="classifier", params=None, data=None, *, score=None, lr=None, batch=None, epochs=30, optimiser="SGD",
             seed=0) -> TrainingLab:  # fmt: skip
    """A lab on training: learning rate, batch size and epochs by slider, the loss live, Start and Stop.

    `loss`: "classifier" (two half-moons), "regression" (a line), or a function of a batch, `loss(*arrays)`, that
    returns one number; then `params` are the Vars in it and `data` the arrays, one row for each example.
    `score(*arrays)`: the share of the whole data that is right. It trains once at once; an interrupt stops that and
    keeps what there is. Each run starts from the values that the Vars have now. What `loss` raises is raised.

    >>> from autodiff import labs
    >>> lab = labs.training("regression", lr=0.1, epochs=20)
    >>> lab.result.ended, [round(p.item()) for p in lab.task.params]
    ('done', [2, -1])
    """
    whole("seed", seed, *SEEDS)
    if isinstance(loss, str):
        if loss not in ("classifier", "regression") or params is not None or data is not None:
            raise ValueError(
                f"loss must be 'classifier', 'regression', or a function with params and data, got {clean(loss)!r}"
            )
        task, usual = (classifier(seed), 0.5) if loss == "classifier" else (regression(seed), 0.1)
    else:
        if params is None or data is None:
            raise TypeError("a loss of your own needs params=, the Vars in it, and data=, arrays with a row an example")
        params = tuple(leaves(params))
        if not params or not all(isinstance(p, Var) for p in params):
            got = clean(repr(next((p for p in params if not isinstance(p, Var)), params)))
            raise TypeError(f"params must be the Vars in the loss, one or more, got {got}")
        columns = data if isinstance(data, (tuple, list)) else (data,)
        arrays = tuple(np.asarray(plain(a, "the lab's data")) for a in columns)
        if not arrays or any(a.ndim == 0 or len(a) != len(arrays[0]) or not len(a) for a in arrays):
            shapes = ", ".join(str(a.shape) for a in arrays)
            raise ValueError(f"data must be arrays with the same number of rows, got shapes {shapes}")
        name = getattr(loss, "__name__", "loss").replace("<lambda>", "your loss")
        task, usual = Task(name, loss, params, arrays, score), 0.1
    lr, batch = usual if lr is None else lr, min(20, task.size) if batch is None else batch
    task = replace(task, start=tuple(p.data.copy() for p in task.params))
    return TrainingLab(task, dict(lr=lr, batch=batch, epochs=epochs, optimiser=optimiser, seed=seed))


def _thinned(losses) -> list:
    """(epoch, loss), as many as a picture can show."""
    every = max(1, len(losses) // DRAWN)
    return [(k, v) for k, v in enumerate(losses) if k % every == 0 or k == len(losses) - 1]


def _settings(s: dict) -> str:
    return f"{s['optimiser']}, learning rate {number(s['lr'])}, batch {s['batch']}"


def _loss(v: float) -> str:
    return f"{v:.4g}" if math.isfinite(v) else "not finite"


# An interrupt of the kernel reaches the main thread, and only while that runs a cell


def _main_loop():
    """The kernel's event loop, if this is a cell of a notebook."""
    try:
        return asyncio.get_running_loop() if threading.current_thread() is threading.main_thread() else None
    except RuntimeError:
        return None


def _while_it_runs(loop, thread: threading.Thread, stop: threading.Event) -> None:
    """Let an interrupt of an idle kernel stop this run: kernels ignore one between two cells."""
    if loop is None:
        return
    usual = []

    def interrupted(*_):
        stop.set()

    def check():
        # A kernel puts a handler of its own in place for each cell and message, and then back what it found; so this
        # looks again, and changes nothing while a cell runs: there an interrupt is for the cell.
        now = signal.getsignal(signal.SIGINT)
        if thread.is_alive() and now is not interrupted and now is not signal.default_int_handler:
            usual.append(now or signal.SIG_IGN)
            signal.signal(signal.SIGINT, interrupted)
        elif not thread.is_alive() and now is interrupted:
            signal.signal(signal.SIGINT, usual[0])
        elif not thread.is_alive() and now is not signal.default_int_handler:
            return
        loop.call_later(SECONDS_BETWEEN_VIEWS, check)

    loop.call_soon_threadsafe(check)
