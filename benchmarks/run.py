"""Side by side: the engine and its peers, timed in turn in one run, in one table.

    python benchmarks/run.py [--quick] [row ...]      (make bench sets up what it needs)

Each row does the same work in each engine; contenders take turns, and the ratio is the median over the rounds, so that
a noisy machine slows all of them alike. PyTorch runs on one thread. The process keeps the memory it has freed (see
KEEP_MEMORY), as a training loop with a warm allocator does, for every contender alike. Peak memory is measured in a
process of its own for each contender. The hand-written NumPy forward and backward keep the intermediates that the
engine keeps. A contender that is not installed is left out, and the table says so.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": "4000000000", "MALLOC_MMAP_THRESHOLD_": "4000000000", "MALLOC_TOP_PAD_": "67108864",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
}  # fmt: skip
HERE = pathlib.Path(__file__).resolve()


class Row:
    """One kind of work: `reach` maps a peer to the ratio that ours may have to its time."""

    def __init__(self, name, make, reach, *, memory=None):
        self.name, self.make, self.reach, self.memory = name, make, reach, memory


def rounds(contenders: dict, budget: float) -> dict[str, list[float]]:
    """Seconds for one call of each contender, round by round, in turn."""
    calls = {}
    for name, run in contenders.items():
        run()
        start = time.perf_counter()
        run()
        calls[name] = max(1, int(0.01 / max(time.perf_counter() - start, 1e-9)))
    times = {name: [] for name in contenders}
    end = time.perf_counter() + budget
    while time.perf_counter() < end or len(times["ours"]) < 7:
        for name, run in contenders.items():
            gc.collect()
            start = time.perf_counter()
            for _ in range(calls[name]):
                run()
            times[name].append((time.perf_counter() - start) / calls[name])
        if len(times["ours"]) >= 3 and time.perf_counter() > end + budget:
            break
    return times


def installed(name: str):
    try:
        return __import__(name)
    except ImportError:
        return None


# The work


def doublings(backward_only: bool):
    def make():
        import autodiff as ad

        def forward(x):
            for _ in range(60):
                x = x + x
            return x

        one = ad.Var([1.0])
        y = forward(one)
        contenders = {"ours": (lambda: y.backward()) if backward_only else lambda: forward(ad.Var([1.0])).backward()}
        if torch := installed("torch"):
            fresh = lambda: torch.ones(1, dtype=torch.float64, requires_grad=True)  # noqa: E731
            t = forward(fresh())
            contenders["torch"] = (
                (lambda: t.backward(retain_graph=True)) if backward_only else lambda: forward(fresh()).backward()
            )
        if installed("autograd"):
            import autograd
            import numpy as np

            start = np.ones(1)
            pull, _ = autograd.make_vjp(forward)(start)
            contenders["hips"] = (
                (lambda: pull(start)) if backward_only else lambda: autograd.make_vjp(forward)(start)[0](start)
            )
        return contenders

    return make


def tanh_chain(n: int, steps: int = 100, which: tuple = ("ours", "torch", "numpy")):
    def make():
        import numpy as np

        import autodiff as ad

        x0, a0 = np.linspace(-1, 1, n), np.full(n, 0.9)
        ones = np.ones(n)

        def ours():
            x, a = ad.Var(x0), ad.Var(a0)
            for _ in range(steps):
                x = np.tanh(a * x + x)
            return x.backward()

        def by_hand():
            x, a, kept = x0.copy(), a0.copy(), []
            for _ in range(steps):
                product = a * x
                total = product + x
                y = np.tanh(total)
                kept.append((x, product, total, y))
                x = y
            g, ga = ones.copy(), None
            while kept:
                x, _, _, y = kept.pop()
                g = g * (1 - y * y)
                if ga is None:
                    ga = g * x
                else:
                    ga += g * x
                g = g + g * a
            return g, ga

        contenders = {"ours": ours, "numpy": by_hand}
        if torch := installed("torch"):
            tx0, ta0 = torch.tensor(x0), torch.tensor(a0)

            def theirs():
                x, a = tx0.clone().requires_grad_(), ta0.clone().requires_grad_()
                for _ in range(steps):
                    x = torch.tanh(a * x + x)
                x.sum().backward()

            contenders["torch"] = theirs
        return {k: v for k, v in contenders.items() if k in which}

    return make


def asking_for_less():
    import numpy as np

    import autodiff as ad

    x = h = ad.Var([0.5])
    for _ in range(100):
        h = np.tanh(0.9 * h + x)
    return {"ours": lambda: h.backward(wrt=[x]), "everything": lambda: h.backward()}


def hessian_product():
    import numpy as np

    import autodiff as ad

    rng = np.random.default_rng(0)
    xs, *ws = [rng.normal(size=s) / 16 for s in [(128, 256)] + [(256, 256)] * 6]

    def loss(ws):
        h = xs
        for w in ws:
            h = np.tanh(h @ w)
        return (h**2).sum()

    def by_hand():
        variables = [ad.Var(w) for w in ws]
        grads = loss(variables).backward(wrt=variables, detach="none")
        return sum((grads[v] * w).sum() for v, w in zip(variables, ws)).backward(wrt=variables)

    return {"ours": lambda: ad.hvp(loss, ws, ws), "by hand": by_hand, "forward": lambda: loss(ws)}


def training_step():
    import numpy as np

    import autodiff as ad

    rng = np.random.default_rng(0)
    f32 = np.float32
    xs, ts = rng.normal(size=(64, 784)).astype(f32), np.eye(10, dtype=f32)[rng.integers(0, 10, 64)]
    w1, b1 = rng.normal(size=(784, 128)).astype(f32) / f32(28), np.zeros(128, f32)
    w2, b2 = rng.normal(size=(128, 10)).astype(f32) / f32(11), np.zeros(10, f32)
    lr = f32(0.01)
    params = [ad.Var(p) for p in (w1, b1, w2, b2)]
    xs.setflags(write=False)
    ts.setflags(write=False)
    sgd = ad.optim.SGD(params, lr=0.01)

    def ours():
        w1, b1, w2, b2 = params
        loss = ((np.tanh(xs @ w1 + b1) @ w2 + b2 - ts) ** 2).mean()
        sgd.step(loss.backward())

    hand = [p.copy() for p in (w1, b1, w2, b2)]

    def by_hand():
        w1, b1, w2, b2 = hand
        h = np.tanh(xs @ w1 + b1)
        e = h @ w2 + b2 - ts
        np.mean(e**2)
        ge = e * f32(2 / e.size)
        gh = ge @ w2.T
        gs = gh * (1 - h * h)
        grads = (xs.T @ gs, gs.sum(0), h.T @ ge, ge.sum(0))
        for i, g in enumerate(grads):
            hand[i] = hand[i] - lr * g

    contenders = {"ours": ours, "numpy": by_hand}
    if torch := installed("torch"):
        tp = [torch.tensor(p, requires_grad=True) for p in (w1, b1, w2, b2)]
        tx, tt = torch.tensor(np.array(xs)), torch.tensor(np.array(ts))
        opt = torch.optim.SGD(tp, lr=0.01)

        def theirs():
            w1, b1, w2, b2 = tp
            loss = ((torch.tanh(tx @ w1 + b1) @ w2 + b2 - tt) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()

        contenders["torch"] = theirs
    return contenders


def million_adds(n: int = 1_000_000):
    def make():
        import autodiff as ad

        def chain(x):
            for _ in range(n):
                x = x + 1.0
            return x

        contenders = {"ours": lambda: chain(ad.Var([1.0])).backward()}
        if torch := installed("torch"):
            contenders["torch"] = lambda: chain(torch.ones(1, dtype=torch.float64, requires_grad=True)).backward()
        return contenders

    return make


def many_uses(n: int):
    def make():
        import numpy as np

        import autodiff as ad

        def run(x, n):
            total = x * 1.5
            for _ in range(n - 1):
                total = total + x * 1.5
            return total

        x0 = np.ones(1000)
        contenders = {
            "ours": lambda: run(ad.Var(x0), n).backward(),
            "a tenth": lambda: run(ad.Var(x0), n // 10).backward(),
        }
        if torch := installed("torch"):
            t0 = torch.ones(1000, dtype=torch.float64)
            contenders["torch"] = lambda: run(t0.clone().requires_grad_(), n).sum().backward()
        return contenders

    return make


def single_reads(n: int):
    def make():
        import numpy as np

        import autodiff as ad

        def run(x, n):
            total = x[0]
            for i in range(1, n):
                total = total + x[i]
            return total

        contenders = {
            "ours": lambda: run(ad.Var(np.ones(n)), n).backward(),
            "a quarter": lambda: run(ad.Var(np.ones(n // 4)), n // 4).backward(),
        }
        if torch := installed("torch"):
            contenders["torch"] = lambda: run(torch.ones(n, dtype=torch.float64, requires_grad=True), n).backward()
        return contenders

    return make


def conv_net():
    import numpy as np

    import autodiff as ad

    rng = np.random.default_rng(0)
    f32 = np.float32
    x = rng.normal(size=(32, 1, 28, 28)).astype(f32)
    shapes = [(8, 1, 5, 5), (8,), (16, 8, 5, 5), (16,), (256, 10), (10,)]
    start = [rng.normal(size=s).astype(f32) * f32(0.1) for s in shapes]

    def net(m, x, p):
        h = m.max_pool2d(m.relu(m.conv2d(x, p[0], p[1])), 2)
        h = m.max_pool2d(m.relu(m.conv2d(h, p[2], p[3])), 2)
        return ((h.reshape(32, 256) @ p[4] + p[5]) ** 2).mean()

    params = [ad.Var(p) for p in start]
    x.setflags(write=False)
    contenders = {"ours": lambda: net(ad, x, params).backward()}
    if torch := installed("torch"):
        tx, tp = torch.tensor(np.array(x)), [torch.tensor(p, requires_grad=True) for p in start]

        def theirs():
            for p in tp:
                p.grad = None
            net(torch.nn.functional, tx, tp).backward()

        contenders["torch"] = theirs
    return contenders


def check_network():
    import numpy as np

    import autodiff as ad

    rng = np.random.default_rng(0)
    data = [rng.normal(size=s) for s in ((6, 5), (5, 8), (8,), (8, 3), (3,))]

    def net(tanh):
        return lambda x, w, b, v, c: tanh(tanh(x @ w + b) @ v + c)

    contenders = {"ours": lambda: ad.gradcheck(net(np.tanh), tuple(data))}
    if torch := installed("torch"):
        td = tuple(torch.tensor(d, requires_grad=True) for d in data)
        contenders["torch"] = lambda: torch.autograd.gradcheck(net(torch.tanh), td)
    return contenders


def scalar_doublings():
    from autodiff.scalar import Value

    def forward(x):
        for _ in range(60):
            x = x + x
        return x

    contenders = {"ours": lambda: forward(Value(1.0)).backward()}
    if installed("micrograd"):
        from micrograd.engine import Value as Micro

        contenders["micrograd"] = lambda: forward(Micro(1.0)).backward()
    return contenders


def importing():
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(HERE.parent.parent)

    def load(code):
        return lambda: subprocess.run([sys.executable, "-c", code], check=True, env=environment)

    return {"ours": load("import numpy, autodiff"), "numpy": load("import numpy")}


# What the process of a contender does: it draws or not, then times backward over and over, when it is asked to.
BESIDE_DRAWING = """
import sys
import numpy as np
import autodiff as ad
a, b = ad.Var(0.5), ad.Var(-1.5)
z = a
for _ in range(6):
    z = np.tanh(z * a + np.sin(z) - b)
if sys.argv[1] == "drawn":
    seen = [ad.draw(z, z.backward()), ad.trace(z), ad.step(z)]
    shown = [view._repr_mimebundle_() for view in seen[::2]], seen[1].text
assert ("autodiff.drawing" in sys.modules) == (sys.argv[1] == "drawn")
for line in sys.stdin:
    for _ in range(int(line)):
        z.backward()
    print(flush=True)
"""


def beside_drawing(calls: int = 100):
    """`backward` where its graph was drawn, traced and stepped, and where nothing of that kind was ever imported."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent), "PYTHONHASHSEED": "0"}

    def started(kind):
        process = subprocess.Popen([sys.executable, "-c", BESIDE_DRAWING, kind], stdin=subprocess.PIPE, text=True,
                                   stdout=subprocess.PIPE, env=environment)  # fmt: skip

        def run():
            process.stdin.write(f"{calls}\n")
            process.stdin.flush()
            if not process.stdout.readline():
                raise RuntimeError(f"the process that is {kind} has ended")

        return run

    return {"ours": started("drawn"), "untouched": started("fresh")}


ROWS = [
    Row("60 doublings, sort and backward", doublings(True), {"torch": 0.6, "hips": 0.1}),
    Row("60 doublings, forward and backward", doublings(False), {"torch": 0.6, "hips": 0.1}),
    Row("100 tanh(a*x+x), n = 1", tanh_chain(1), {"torch": 0.65}),
    Row("100 tanh(a*x+x), n = 100", tanh_chain(100), {"torch": 0.65}),
    Row("100 tanh(a*x+x), n = 10,000", tanh_chain(10_000), {"numpy": 1.25, "torch": 1.0}),
    Row("100 tanh(a*x+x), n = 1,000,000", tanh_chain(1_000_000), {"numpy": 1.25, "torch": 1.0}),
    Row("training step 64x784-128-10, float32", lambda: training_step(), {"numpy": 1.2, "torch": 1.0}),
    Row("backward(wrt=[x]) of 100 tanh(0.9*h+x)", lambda: asking_for_less(), {"everything": 1.05}),
    Row("hvp of a 6-layer tanh net, 128x256", lambda: hessian_product(), {"by hand": 1.0, "forward": 6.0}),
    Row("1,000,000 adds: forward, backward, free", million_adds(), {"torch": 1.0}),
    Row("one Var used 10,000 times (against 1,000)", many_uses(10_000), {"a tenth": 12.0}),
    Row("sum of x[i], n = 8,000 (against 2,000)", single_reads(8_000), {"a quarter": 5.0}),
    Row("small convolutional net, 32x1x28x28", lambda: conv_net(), {"torch": 4.0}),
    Row("gradcheck of a small network", lambda: check_network(), {"torch": 1.0}),
    Row("scalar engine, 60 doublings", lambda: scalar_doublings(), {"micrograd": 1.0}),
    Row("100 backwards after draw, trace and step", lambda: beside_drawing(), {"untouched": 1.1}),
    Row("import autodiff over import numpy", lambda: importing(), {"numpy": None}),
    Row("peak memory, 20 tanh(a*x+x), n = 1,000,000", tanh_chain(1_000_000, 20), {"numpy": 1.1}, memory=True),
]  # fmt: skip


def peak_of_this_process() -> float:
    """The most memory this process has held, in megabytes."""
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # getrusage would count the parent's peak too
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def peak_memory(row: str, contender: str) -> float:
    """The megabytes that one call of a contender adds at its peak, in a process of its own."""
    code = f"""
import sys; sys.path[:0] = {[str(HERE.parent), str(HERE.parent.parent)]!r}
import run, json
peak = run.peak_of_this_process
row = next(r for r in run.ROWS if r.name == {row!r})
call = row.make()[{contender!r}]
before = peak()
call()
print(json.dumps(peak() - before))
"""
    environment = {k: v for k, v in os.environ.items() if k not in KEEP_MEMORY or k.endswith("_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def measure(row: Row, budget: float) -> tuple[list[str], bool]:
    """The cells of the row's line, and whether it reached what it must."""
    contenders = row.make()
    if row.memory:
        amounts = {name: peak_memory(row.name, name) for name in contenders}
        times = {name: [a] for name, a in amounts.items()}
        shown = {name: f"{a:.0f} MB" for name, a in amounts.items()}
    else:
        times = rounds(contenders, budget)
        shown = {name: milliseconds(statistics.median(t)) for name, t in times.items()}
    verdicts, reached = [], True
    for peer, limit in row.reach.items():
        if peer not in times:
            verdicts.append(f"{peer}: not installed")
            continue
        if limit is None:
            over = 1e3 * statistics.median(a - b for a, b in zip(times["ours"], times[peer]))
            ok, text = over <= 25, f"+{over:.0f} ms (reach 25 ms)"
        else:
            ratio = statistics.median(a / b for a, b in zip(times["ours"], times[peer]))
            ok, text = ratio <= limit, f"{ratio:.2f}x {peer} (reach {limit:g}x)"
        reached &= ok
        verdicts.append(("" if ok else "NOT REACHED ") + text)
    peers = ", ".join(f"{name} {shown[name]}" for name in contenders if name != "ours")
    return [row.name, shown["ours"], peers, "; ".join(verdicts)], reached


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("row", nargs="*", help="parts of the names of the rows to run; all when left out")
    parser.add_argument("--quick", action="store_true", help="half a second a row")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a row did not reach what it must")
    options = parser.parse_args(argv)
    if sys.platform.startswith("linux") and os.environ.get("MALLOC_TOP_PAD_") != KEEP_MEMORY["MALLOC_TOP_PAD_"]:
        os.execve(sys.executable, [sys.executable, str(HERE), *sys.argv[1:]], {**os.environ, **KEEP_MEMORY})
    sys.path[:0] = [str(HERE.parent.parent)]
    if torch := installed("torch"):
        torch.set_num_threads(1)
    gc.freeze()  # the libraries' own objects stay out of every contender's collections
    rows = [r for r in ROWS if not options.row or any(part in r.name for part in options.row)]
    lines, all_reached = [], True
    for row in rows:
        cells, reached = measure(row, 0.5 if options.quick else 3.0)
        print(f"{cells[0]:<44} {cells[1]:>10}   {cells[2]:<42} {cells[3]}", flush=True)
        lines.append(cells)
        all_reached &= reached
    print("every row reached" if all_reached else "some rows were not reached")
    return 1 if options.strict and not all_reached else 0


if __name__ == "__main__":
    sys.exit(main())
