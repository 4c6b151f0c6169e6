"""Deep graphs, built, differentiated and freed in a thread with a small stack; what came of each, as lines of JSON.

Run as a program of its own: recursion as deep as these graphs ends the process, and would end a test run with it.
"""

import faulthandler
import gc
import json
import sys
import threading
import weakref

import numpy as np

import autodiff as ad
from autodiff.scalar import Value

SMALL = 128 * 1024  # no system gives a thread less


@ad.custom_op(vjps=[lambda g, y, x: g])
def passed_on(x):
    return x + 0.0


def among_others(y):
    for _ in range(30):
        ad.Tensor(0.0) * 1.0  # other tensors are made between the links
    return y + 1.0


STEPS = {
    "sin": lambda y: np.sin(y), "index": lambda y: y[::1], "concatenate": lambda y: np.concatenate([y, y])[:2],
    "broadcast": lambda y: np.broadcast_to(y, (1, 2))[0], "reshape": lambda y: y.reshape(2, 1).reshape(2),
    "custom": passed_on,
    "checkpoint": ad.checkpoint(lambda y: y * 1.0), "maximum": lambda y: np.maximum(y, -9.0),
    "square": lambda y: y * y * 0.5 + 0.5,
    "matmul": lambda y: np.eye(2) @ y, "where": lambda y: np.where([True, False], y, y), "far apart": among_others,
}  # fmt: skip


def chain(step, n, value=1.0):
    """The gradient through a graph n steps deep, and whether all of it was freed."""
    x = ad.Var(value)
    y = x
    for _ in range(n):
        y = step(y)
    inner = weakref.ref(y.op.inputs[0])
    g = y.backward()[x].data
    del y
    return g.tolist(), inner() is None


def gradient_graph():
    """How deep the graph of a gradient is, and whether all of it was freed."""
    x = ad.Var(1.0)
    y = x
    for _ in range(5_000):
        y = y * 1.0001
    g = y.backward(detach="none")[x]
    depth = len(ad.sorted_nodes(y))
    node = weakref.ref(y)
    del y, g
    return depth, node() is None


def freed_below_a_list():
    """Whether graphs that end together are freed, one inside another's end."""
    x = ad.Var(0.0)
    ys = [x] * 20
    for _ in range(1_000):
        ys = [a + b for a, b in zip(ys, ys[1:] + ys[:1])]
    inner = weakref.ref(ys[0].op.inputs[0])
    del ys
    return inner() is None


def many_inputs():
    """Whether every gradient is right where thousands of tensors are stacked, added and broadcast."""
    xs = [ad.Var(float(i)) for i in range(6131)]
    results = [np.stack(xs).sum().item() == 6131 * 6130 / 2]
    grads = sum(xs).backward()
    results.append(all(grads[x].item() == 1 for x in xs))
    xs, weights = xs[:1500], np.arange(1500.0)
    for y in (
        np.stack(xs),
        np.concatenate([np.reshape(x, (1,)) for x in xs]),
        np.hstack(xs),
        ad.Tensor(np.zeros(1500)) + xs,
    ):
        grads = y.backward(weights)
        results.append([grads[x].item() for x in xs] == weights.tolist())
    return results


def scalar_engine():
    x = Value(1.0)
    y = x
    for _ in range(20_000):
        y = y + y * 0.0001
    y.backward()
    del y
    return x.grad


def in_thread(work, stack):
    threading.stack_size(stack)
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


WORK = {
    "long": lambda: chain(lambda y: y + y * 0.002, 50_000),
    "plain": lambda: chain(lambda y: y + 1.0, 20_000),
    **{name: (lambda step=step: chain(step, 5_000, [1.0, 1.0])) for name, step in STEPS.items()},
    "gradient graph": gradient_graph, "list": freed_below_a_list, "many inputs": many_inputs, "scalar": scalar_engine,
}  # fmt: skip


if __name__ == "__main__":
    faulthandler.enable()
    gc.disable()  # only reference counts free anything
    for name, work in WORK.items():
        # CPython 3.13 frees plain objects such as these by up to 10,000 nested calls, whatever the thread's stack.
        small = SMALL if (name, sys.version_info[:2]) != ("scalar", (3, 13)) else 4 * 1024 * 1024
        print(name, file=sys.stderr, flush=True)
        print(json.dumps([name, in_thread(work, small)]), flush=True)
