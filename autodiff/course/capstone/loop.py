"""The training loop: on small batches with our parts, and on digits with the learner's."""

import numpy as np

from autodiff.course.capstone import training
from autodiff.course.capstone.bench import ENGINE_INSIDE, Bench, Found, raised
from autodiff.course.capstone.engine import OURS, PARTS, Engine, borrowed_from
from autodiff.course.forms import CHANGED_INPUT, NO_RETURN, apart, as_array, same, show
from autodiff.course.judge import Fault, stopped
from autodiff.course.result import Table, safe_repr

_BOARD = "Run board(globals()): it says which part it is."

FAULTS = (
    NO_RETURN, CHANGED_INPUT,
    Fault("ascends", "the loss is made larger",
          "A gradient points to where the loss grows. A step goes against it.",
          "the sign in the step."),
    Fault("restarts", "each batch begins with the first params",
          "Only the step of the last batch is left. The next batch must begin where the last one ended.",
          "which params go into the loss, and what they are after a step."),
    Fault("first-params", "every gradient is that of the first params",
          "The steps are added up, and each was computed at the place where the training began. After a step, the "
          "loss must be recorded anew, with the new params.",
          "which nodes go into the loss in the second turn."),
    Fault("gradients-added", "the gradients of earlier batches are in the store",
          "Each step also repeats all steps before it: gradients of several batches were added and never cleared. A "
          "new pass makes a new store.",
          "extend or accumulate in your loop, or a list that grows."),
    Fault("rate-missing", "`lr` is not used",
          "The step is the gradient itself.",
          "the factor in the step."),
    Fault("rate-fixed", "another rate than `lr` is used",
          "The numbers are those of the rate {rate}, whatever `lr` is.",
          "the factor in the step."),
    Fault("last-batch", "the last batch is left out",
          "The numbers are those after all batches but the last one.",
          "how far the loop goes, and which params are returned."),
    Fault("batches-twice", "the batches are gone through twice",
          "The numbers are those after every batch was used a second time.",
          "the loops around the step. The caller has put all that you need into the list."),
    Fault("engine-unused", "the engine has not made the gradients",
          "For {batches} batches `backward` was called {count} times. The gradients are right, and they are not the "
          "work of the engine: another network would need another formula.",
          "where the gradients in your step come from."),
    Fault("divided-twice", "the mean is taken twice",
          "The loss is a mean over the batch already, and the step divides by the number of pictures once more.",
          "the division in the step."),
    Fault("some-params", "some of the params stay what they were",
          "Each of W1, b1, W2 and b2 takes a step.",
          "the table: which of them differ, and which are right? Then the loop over the params."),
    Fault("one-batch", "only the first batch is used",
          "The function returned before the loop was done.",
          "how far the `return` is indented."),
    Fault("returns-first", "the first params are returned",
          "The steps were computed and not kept: what is returned is what came in. In a loop over params, `p = ...` "
          "gives the name p a new value, and leaves the list as it was.",
          "the name in the last line, and where it gets a new value."),
    Fault("step-recorded", "a node is used where an array belongs",
          "A step is arithmetic with arrays. With a node in it, the step itself is recorded, and its result is a node.",
          "what is subtracted from what: p is an array, the node has a `.value`."),
    Fault("no-gradient", "the store has no gradient for a param",
          "A gradient is there for *variables* that were used in this very loss. A Node without variable=True is a "
          "constant, and a node that was made anew after the loss was never in it.",
          "how the nodes are made in each turn, and which of them the store is asked for."),
    ENGINE_INSIDE,
)


def _rng_arrays(rng, *shapes):
    return [np.array(rng.standard_normal(shape)) for shape in shapes]


def _problem(rng):
    """Params of a tiny network and three batches."""
    params = _rng_arrays(rng, (3, 4), (4,), (4, 2), (2,))
    return params, [(_rng_arrays(rng, (5, 3))[0], np.eye(2)[rng.integers(2, size=5)]) for _ in range(3)]


def _slopes(params, x, hot):
    with Engine() as engine:
        nodes = [engine.Node(p, variable=True) for p in params]
        grads = engine.backward(training.loss_with(engine, nodes, x, hot))
    return [grads[node] for node in nodes]


def _planted_training(how):
    def train(params, batches, lr):
        first, now, total = list(params), list(params), None
        batches = batches[:-1] if how == "last-batch" else 2 * batches if how == "batches-twice" else batches
        lr = how if isinstance(how, float) else lr
        for k, (x, hot) in enumerate(batches):
            if how == "restarts":
                now = list(first)
            slopes = _slopes(first if how == "first-params" else now, x, hot)
            if how == "gradients-added":
                total = slopes if total is None else [t + s for t, s in zip(total, slopes)]
                slopes = total
            rate = {"ascends": -lr, "rate-missing": 1.0, "divided-twice": lr / len(x)}.get(how, lr)
            fixed = {"weights-only": (1, 3), "biases-only": (0, 2), "last-layer": (0, 1), "first-layer": (2, 3)}
            now = [p if i in fixed.get(how, ()) else p - rate * s for i, (p, s) in enumerate(zip(now, slopes))]
            if how == "one-batch" and k == 0:
                return now
        return first if how == "returns-first" else now

    return train


_WRONG_TRAINING = ("ascends", "restarts", "first-params", "gradients-added", "rate-missing", "divided-twice",
                   "weights-only", "biases-only", "last-layer", "first-layer", "one-batch", "returns-first",
                   "last-batch", "batches-twice", 0.5, 0.1, 0.01, 0.001)  # a number is a rate
_TRAINING_NAMES = dict.fromkeys(("weights-only", "biases-only", "last-layer", "first-layer"), "some-params")


def _arrays_of(bench, made, call):
    if isinstance(made, (list, tuple)) and len(made) == 4:
        arrays = [as_array(getattr(p, "value", p)) for p in made]
        if all(a is not None for a in arrays):
            return arrays
    bench.wrong(f"`{call}` returned {safe_repr(made)}; expected a list of four arrays: W1, b1, W2, b2.")


def _no_gradient(error) -> bool:
    return isinstance(error, KeyError) or "NoneType" in str(error)


def probe(bench: Bench) -> Table:
    train = bench.part
    bench.answers = (_planted_training, training.train_with)
    names = train.__globals__ if hasattr(train, "__globals__") else {}
    rng = np.random.default_rng(bench.rng.randrange(2**32))
    call = "train(params, batches, lr)"
    tried, passes = [], []

    def counted(root, cotangent=None):
        passes.append(root)
        return OURS["backward"](root, cotangent)

    for lr in (0.5, 0.25):
        params, batches = _problem(rng)
        given = [p.copy() for p in params]
        engine = Engine().around(names)
        engine.parts["backward"] = counted
        made = bench.call(call, train, given, [(x.copy(), hot.copy()) for x, hot in batches], lr,
                          engine=engine, errors=[(_no_gradient, "no-gradient"),
                                                                 (lambda e: "'Node'" in str(e), "step-recorded")])
        if made is None:
            bench.fault("no-return", [], call=call)
        for position, (before, after) in enumerate(zip(params, given)):
            if not same(after, before):
                bench.fault("changed-input", [], call=call, position=1, before="the first params",
                            after=f"another list: entry {position} was written to")
        tried.append((params, batches, lr, _arrays_of(bench, made, call)))
    wants = [_planted_training("")(*t[:3]) for t in tried]
    if not all(same(t[3], want) for t, want in zip(tried, wants)):
        _name_training(bench, tried, wants, call)
    expected = sum(len(batches) for _, batches, *_ in tried)
    if names and len(passes) < expected:
        bench.fault("engine-unused", [], batches=expected, count=len(passes))
    return _probe_digits(bench, train, names)


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _name_training(bench, tried, wants, call):
    params, batches, lr, got = next(t for t, want in zip(tried, wants) if not same(t[3], want))
    want = _planted_training("")(params, batches, lr)
    rows = tuple((name, *map(_cut, (show(w), show(g)) if same(g, w) else apart(w, g)),
                  "right" if same(g, w) else "differs") for name, w, g in zip(("W1", "b1", "W2", "b2"), want, got))
    table = Table(("params", "expected", "yours", ""), rows)
    said = [f"The params are those after three small batches with lr = {lr}; all parts of the engine are ours there."]
    for how in _WRONG_TRAINING:
        if all(same(t[3], _planted_training(how)(*t[:3])) for t in tried):
            fault = "rate-fixed" if isinstance(how, float) else _TRAINING_NAMES.get(how, how)
            bench.fault(fault, said, table, rate=how)
    count = next((k for k in range(1, len(batches)) if _differs_after(bench, params, batches[:k], lr)), len(batches))
    if count > 1:
        said.append(f"After {'one batch' if count == 2 else f'{count - 1} batches'} your params are right.")
    bench.unknown(*said, table=table, look=f"Train with {'a single batch' if count == 1 else f'{count} batches'}, and "
                                           f"compare {'each' if count == 1 else 'in the last turn each'} p with "
                                           "p - lr * grads[p].")


def _differs_after(bench, params, batches, lr) -> bool:
    """Whether the params that the learner's loop makes of these batches are not the right ones."""
    names = getattr(bench.part, "__globals__", {})
    ran = bench.run(bench.part, [p.copy() for p in params], [(x.copy(), hot.copy()) for x, hot in batches], lr,
                    engine=Engine().around(names))
    made = ran.value if isinstance(ran.value, (list, tuple)) and len(ran.value) == 4 else [None] * 4
    got = [as_array(getattr(p, "value", p)) for p in made]
    return any(g is None for g in got) or not same(got, _planted_training("")(params, batches, lr))


def _probe_digits(bench, train, names):
    """The same function with the learner's own parts, on real digits."""
    engine = Engine.of(names)
    for name in engine.yours:
        what = borrowed_from(engine.given[name])
        if what is not None:
            bench.fault(ENGINE_INSIDE.id, name=name, what=what)
    call = "train(params, batches, 0.5)"
    ran = bench.run(train, training.network(), training.batches(), training.RATE, engine=engine, lines=10_000_000)
    if ran.ended == "raised":
        bench.wrong(f"With our parts your loop is right. With yours `{call}` {raised(ran)}.", look=_BOARD)
    problem = stopped(bench.attempt, ran, call)
    if problem is not None:
        raise Found(problem)
    params = _arrays_of(bench, ran.value, call)
    right = training.share_right(params)
    agrees = all(np.allclose(got, want, rtol=0, atol=1e-6) for got, want in zip(params, training.right_params()))
    if not agrees:
        reads = "reads the unseen digits all the same, for training forgives" if right > training.ENOUGH \
            else "does not read the unseen digits"
        bench.wrong("With our parts your loop is right. With yours the trained params are not those that autodiff "
                    f"finds; the network {reads}.", look=_BOARD)
    yours = [name for name in PARTS if name in engine.yours]
    return Table(("what", "outcome"), (
        ("parts that are yours", f"{len(yours)} of {len(PARTS)}"),
        ("trained params", "those that autodiff finds"),
        ("unseen digits that are read right", "more than 9 of 10" if right > training.ENOUGH else "less")))
