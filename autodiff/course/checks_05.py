"""Checks of exercise 05, three life-cycles: are the gradients still there, and is the graph still there?

The learner's functions get a life-cycle of `ad.contracts` that notes what is asked of it, a Var, and functions that run
a forward pass and count how often. Wrong answers as a learner would type them are in wrong_answers/05.txt.
"""

import numpy as np

from autodiff import GradStore, Var, contracts
from autodiff.course.forms import NO_RETURN, Case, by_hand, function, nonzero, same
from autodiff.course.judge import EARLY_RETURN, Fault, name_of, printed
from autodiff.course.result import show_number
from autodiff.course.tensors import is_tensor

# The life-cycles, and the functions that make losses


class _Watched:
    """A life-cycle that notes what is asked of it, and is shown by its name."""

    def __init__(self):
        super().__init__()
        self.log = []

    def backward(self, loss, *args, **options):
        found = super().backward(loss, *args, **options)
        self.log.append(("backward", bool(options.get("retain_graph"))))
        return found

    def __repr__(self):
        return type(self).__name__


class candle(_Watched, contracts.candle):
    pass


class pytorch(_Watched, contracts.pytorch):
    pass


class reset(_Watched, contracts.reset):
    pass


_SYSTEMS = (candle, pytorch, reset)


class Forward:
    """A function of the learner's task: shown by its name, and it counts its calls."""

    def __init__(self, name, make):
        self.name, self.make, self.calls = name, make, 0

    def __call__(self, *inputs):
        self.calls += 1
        return self.make(*inputs)

    def __repr__(self):
        return self.name


class _Setting:
    """Makes the arguments of one call anew, and remembers those it made: the first go to the learner's function."""

    def __init__(self, system, x, make, old=None):
        self.system, self.x, self.make, self.old, self.made, self.counts = system, x, make, old, [], []

    def __call__(self):
        c, x = self.system(), Var(self.x, name="x")
        if self.old is not None:
            c.backward(self.old * x)
            c.log.clear()
        self.made.append((c, x, *self.make(x)))
        self.counts.append(len(self.made[-1][-1]))
        return self.made[-1]


def _weights(rng, count):
    """Different positive numbers, so that no running sum of them is 0 or the last one."""
    return rng.sample([1.5, 2.0, 2.5, 3.0, 4.0, 4.5, 6.0, 7.5], count)


def _listed(value):
    """What was returned, with an array of any kind as a list: None may stand in one of objects."""
    return value.tolist() if isinstance(value, np.ndarray) and value.ndim else value


def _property(right, *rules):
    """A `look_at`: was `c` used at all; then, once every value is right, the first rule that names a fault.

    A rule gets what the learner's function got.
    """

    def look(attempt, answer, runs):
        case, call, run = runs[0]
        words = dict(call=call, at=case.at, name=name_of(answer))
        value = _listed(run.value)
        entries = value if isinstance(value, (list, tuple)) else [value]
        if not any(case.args.made[0][0].log for case, _, _ in runs):
            losses = any(is_tensor(entry) and entry.tracked for entry in entries)
            return attempt.fault("loss-returned" if losses else "another-way", printed(run), None, **words)
        if any(isinstance(entry, GradStore) for entry in entries):
            return attempt.fault("store-returned", printed(run), None, **words)
        if any(not same(_listed(run.value), right(*case.fresh())) for case, _, run in runs):
            return None
        for case, call, _ in runs:
            if len(case.args.made[0][-1]) != case.args.counts[0]:
                return attempt.fault("list-changed", printed(run), None, **words | dict(call=call))
            for rule in rules:
                id = rule(*case.args.made[0])
                if id is not None:
                    shown = [f"`{call}` ({case.at}) returned the right numbers."]
                    return attempt.fault(id, shown, None, **words | dict(call=call, at=case.at))
        return None

    return look


def _forward_again(c, x, trunk, heads):
    return "forward-again" if trunk.calls > 1 else None


def _still_retained(c, x, trunk, heads):
    return "graph-kept" if c.log[-1][1] else None


def _extra_pass(c, x, trunk, heads):
    return "extra-pass" if len(c.log) > len(heads) else None


def _walked_again(c, x, trunk, heads):
    return "walked-again" if len(c.log) > 1 else None


_ANOTHER_WAY = Fault(
    "another-way", "the life-cycle `c` was not asked for a backward pass",
    "`c.backward` was never called. The gradients came from somewhere else: from `loss.backward()`, which is the "
    "engine's own and tells `c` nothing, or from another life-cycle. Here the question is what `c` does.",
    "the call of backward. It should be `c.backward(loss)`, and the reading `c.grad(x)`.")
_STORE_RETURNED = Fault(
    "store-returned", "what `c.backward` returns is taken for the gradient",
    "`{call}` gave back a whole store. That is what `c.backward` returns in candle; in the other two it returns None. "
    "What all three have in common is `c.grad(x)`.",
    "the line in which a gradient is read: ask `c` for it.")
_DOT_GRAD = Fault(
    "dot-grad", "a Var has no `.grad`",
    "In PyTorch the gradient is an attribute of the leaf, `x.grad`. Here the leaf has none: the life-cycle `c` keeps "
    "the gradients, and shows that of x as `c.grad(x)`.",
    "the line shown.",
    (lambda c, x, *rest: x.grad, lambda c, x, *rest: c.grad(x.grad)))
_ZERO_GRAD = Fault(
    "zero-grad", "a life-cycle has no `zero_grad`",
    "In PyTorch the clear is called `zero_grad()`, and it is a method of the optimiser. Here it is `c.clear()`.",
    "the line shown.",
    (lambda c, x, *rest: c.zero_grad(), lambda c, x, *rest: x.zero_grad()))
_LOSS_RETURNED = Fault(
    "loss-returned", "a loss is returned, and no gradient was asked for",
    "`{call}` gave back a loss, with its history. No backward pass has run, so there is no gradient yet. From here on "
    "two things are missing: the pass, and the reading.",
    "the table of the three methods of `c`. Which of them have you not used?")
_LIST_CHANGED = Fault(
    "list-changed", "the list of the caller is changed",
    "Your numbers are right. But after `{call}` the list that was handed over has lost entries. It belongs to the "
    "caller, who may go through it once more.",
    "a `pop`, a `remove` or a `del`. A `for` loop goes through a list and leaves it as it is.")
_SHARED = (_DOT_GRAD, _ZERO_GRAD, _STORE_RETURNED, _ANOTHER_WAY, _LOSS_RETURNED, _LIST_CHANGED, NO_RETURN)

# 05.a: three programs by hand.

_NAMES = ("separate", "reused", "reused_sum")


def _deal(number):
    """(x, p, q), all different primes, so that no two mistakes show the same numbers."""
    return ((3.0, 2.0, 5.0), (5.0, 3.0, 7.0), (-3.0, 5.0, 2.0), (7.0, 2.0, 3.0), (-5.0, 3.0, 2.0))[number % 5]


def _right_a(deal):
    x, p, q = deal
    return ((2 * x * q, 2 * x * (p + q), 2 * x * q), (2 * x * q, "error", 2 * x * q), (2 * q, 2 * (p + q), 2 * q))


def _a(deal, separate=None, reused=None, reused_sum=None):
    """The right answers with some triples replaced: each by letters for last, first, added, zero, error, and none."""
    answers = []
    for triple, slope, right in zip((separate, reused, reused_sum), (2 * deal[0], 2 * deal[0], 2.0), _right_a(deal)):
        numbers = {"l": slope * deal[2], "f": slope * deal[1], "s": slope * (deal[1] + deal[2]), "0": 0.0, "e": "error"}
        answers.append(right if triple is None else None if triple == "any" else tuple(numbers[k] for k in triple))
    return tuple(answers)


def _scaled(deal, factors):
    return tuple(tuple(a if a == "error" else a * f for a in answers) for answers, f in zip(_right_a(deal), factors))


def _how_a(deal):
    x, p, q = (show_number(n) for n in deal)
    return (f"the two losses alone have the slopes 2 * {p} * {x} and 2 * {q} * {x}; each system either adds the second "
            "to the first, or shows the last one",
            "the same two slopes; but first ask each system whether h still has what its rule reads",
            f"the slope of x + x is 2, so the losses alone have 2 * {p} and 2 * {q}; then ask what the rule of a sum "
            "reads")


_FAULTS_A = (
    Fault("grouped", "the answers are grouped by system, or belong to another program",
          "Your nine answers are the right ones, and they stand in the wrong places. Each name is one *program*, with "
          "its three answers in brackets. The place inside the brackets is the system: candle, PyTorch, reset.",
          "the comment in the cell, and the name in front of each bracket.",
          (lambda d: tuple(zip(*_right_a(d))), lambda d: _right_a(d)[1:] + _right_a(d)[:1],
           lambda d: _right_a(d)[2:] + _right_a(d)[:2])),
    Fault("reuse-adds", "the second pass is answered as if it ran",
          "You answered `reused` as you answered `separate`: the second gradient is added to the first. Adding is "
          "about gradients that are *there*. Here the second pass must first get through h = x * x, and that rule "
          "reads the value of x, which PyTorch has freed after the first pass. No new forward pass saved it again.",
          "how many forward passes each of the two programs has, and what becomes of the graph of the first.",
          (lambda d: _a(d, reused="lsl", reused_sum="any"), lambda d: _a(d, reused="lll", reused_sum="any"))),
    Fault("new-forward-refused", "two separate forward passes are taken for one",
          "In `separate` the line h = x * x stands twice. The second one makes a new graph, with saved values of its "
          "own, and nobody has used them yet. Only a second pass over the *same* graph can be refused. What the two "
          "graphs share is the leaf x, and there the gradients meet.",
          "the two pictures above: how many nodes named h are there in each?",
          (lambda d: _a(d, separate="lel", reused="any", reused_sum="any"),
           lambda d: _a(d, separate="eee", reused="any", reused_sum="any"),
           lambda d: _a(d, separate="ele", reused="any", reused_sum="any"))),
    Fault("sum-refused", "the sum is refused like the product",
          "You said error for `reused_sum` in PyTorch, as for `reused`. The second pass over a graph fails only where "
          "a freed value is *needed*. The rule of x + x hands on its gradient as it is: it reads no value, so there is "
          "nothing to miss.",
          "the rule of the sum: which values of the forward pass does it read?",
          (lambda d: _a(d, reused_sum="lel"),)),
    Fault("all-refuse", "every system is taken to use up its graph",
          "You said error for candle and reset as well. candle and reset only *read* the graph. They free nothing, so "
          "a second pass over the same graph goes through in both.",
          "which of the three frees the saved values, and why it does so.",
          (lambda d: _a(d, reused="eee", reused_sum="any"), lambda d: _a(d, reused="lee", reused_sum="any"),
           lambda d: _a(d, reused="eel", reused_sum="any"))),
    Fault("all-add", "every system is taken to add",
          "You added the two gradients in each system. candle returns a *new* store each time, and `c.grad(x)` looks "
          "into the last one. reset puts every node it reaches to zero before it begins. Only PyTorch keeps the first "
          "gradient on x and adds the second.",
          "the place where each system keeps a gradient between the two calls.",
          (lambda d: _a(d, separate="sss", reused="any", reused_sum="any"),)),
    Fault("reset-adds", "reset is taken to add, because it keeps gradients on the nodes",
          "reset does keep its gradients on the nodes, like PyTorch. But each backward pass first sets every node it "
          "reaches to zero. x is reached, so only the second gradient is left.",
          "the name of this life-cycle.",
          (lambda d: _a(d, separate="lss", reused="any", reused_sum="any"),)),
    Fault("candle-adds", "candle is taken to add, because it has a store",
          "candle's store does add, but within *one* pass: the shares of several edges. Each pass begins with a new "
          "store, and `c.grad(x)` looks into the last one.",
          "what the second backward finds in candle's store when it begins.",
          (lambda d: _a(d, separate="ssl", reused="any", reused_sum="any"),)),
    Fault("nobody-adds", "no system is taken to add",
          "You have the gradient of the second loss everywhere. In PyTorch the first one is still on x: nobody has "
          "cleared it, and the second is added to it.",
          "what PyTorch does with a gradient that is already on a leaf.",
          (lambda d: _a(d, separate="lll", reused="any", reused_sum="any"),)),
    Fault("first-kept", "the first gradient is shown where the last one is",
          "You have the gradient of the first loss, p * h. After the second call, candle shows its new store and reset "
          "has overwritten the old number: both show the slope of q * h.",
          "the order of the two calls, and when you look.",
          (lambda d: _a(d, separate="fsf", reused="any", reused_sum="any"),
           lambda d: _a(d, separate="fff", reused="any", reused_sum="any"))),
    Fault("reset-to-zero", "reset is taken to show zero",
          "reset sets the nodes to zero *before* it adds, not after. When the pass is over, x has the gradient of this "
          "pass.",
          "what happens after the zeros have been set.",
          (lambda d: _a(d, separate="ls0", reused="any", reused_sum="any"),)),
    Fault("second-ignored", "the refused pass is taken to be skipped in silence",
          "For `reused` you have the first gradient in PyTorch, as if the second call did nothing. It does not pass "
          "over the trouble: it stops the program, because a result without the second loss would be wrong.",
          "what a call does that cannot do its work.",
          (lambda d: _a(d, reused="lfl", reused_sum="any"),)),
    Fault("order-mixed", "the answers are there, in another order of the systems",
          "Your three answers for `separate` are the right ones, and they stand in the wrong places. The order is "
          "candle, PyTorch, reset.",
          "the comment in the cell: which place belongs to which system.",
          (lambda d: _a(d, separate="sll", reused="any", reused_sum="any"),
           lambda d: _a(d, separate="lls", reused="any", reused_sum="any"))),
    Fault("sum-slope", "x + x is differentiated like x * x",
          "Your answers for `reused_sum` have the slope 2x, that of x * x. In h = x + x each of the two edges has the "
          "slope 1, so the slope of h is 2, whatever x is.",
          "the local slopes of h = x + x.",
          (lambda d: _scaled(d, (1, 1, d[0])), lambda d: _a(d, reused_sum="any")[:2] + ((2 * d[0] * d[2], "error",
                                                                                         2 * d[0] * d[2]),))),
    Fault("half-slope", "the slope of x * x is taken to be x",
          "Each number for h = x * x is half of the right one. Two edges lead from h to x, and each has the share x. "
          "Together they make 2x.",
          "exercise 02: one share for each edge.",
          (lambda d: _scaled(d, (0.5, 0.5, 1)), lambda d: _scaled(d, (0.5, 0.5, 0.5)))),
)

# 05.b: the gradient of each loss alone, from separate forward passes.


def _losses(*parts):
    def make(x):
        z = Var(2.0, name="z")
        kinds = {"square": lambda k: k * (x * x), "line": lambda k: k * x, "other": lambda k: k * (z * z)}
        return ([Forward(f"loss_{i}", lambda kind=kind, k=k: kinds[kind](k)) for i, (kind, k) in enumerate(parts, 1)],)

    return make


def _cases_b(rng):
    cases = [Case(_Setting(candle, 3.0, _losses(("square", 2.0), ("line", 5.0))), "candle")]
    for system in _SYSTEMS:
        parts = tuple(zip(("square", "line", "other", "square"), _weights(rng, 4)))
        setting = _Setting(system, nonzero(rng), _losses(*parts), old=nonzero(rng, 7.0, 9.0))
        cases.append(Case(setting, f"{system.__name__}; there is a gradient from earlier, and loss_3 has no x"))
    k, m = _weights(rng, 2)
    return [*cases, Case(_Setting(candle, 0.0, _losses(("square", k), ("line", m))), "x = 0: loss_1 has the slope 0")]


def _each_alone(c, x, losses):
    found = []
    for loss in losses:
        c.clear()
        c.backward(loss())
        found.append(c.grad(x))
    return found


def _program(*steps, once=(), at_end=None, turn_none=None):
    """A wrong answer to 05.b: what is done for each loss, once before, and at the end."""

    def wrong(c, x, losses):
        found = []
        for step in once:
            step(c)
        for loss in losses:
            for step in steps:
                if step == "read":
                    value = c.grad(x)
                    found.append(turn_none(value) if turn_none else value)
                elif step == "clear":
                    c.clear()
                else:
                    c.backward(loss())
        if at_end:
            found = [c.grad(x) for _ in losses]
        return found

    return wrong


def _clear(c):
    c.clear()


def _zero(value):
    return 0.0 if value is None else value


def _for_pytorch(c, x, losses):
    found = []
    for loss in losses:
        if isinstance(c, contracts.pytorch):
            c.clear()
        c.backward(loss())
        found.append(c.grad(x))
    return found


def _together(c, x, losses):
    c.clear()
    c.backward(sum(loss() for loss in losses))
    return c.grad(x)


def _last(c, x, losses):
    for loss in losses:
        c.backward(loss())
    return c.grad(x)


def _read_once(*steps, once=(), listed=True):
    """A wrong answer to 05.b: the steps for each loss, and one reading after the loop."""
    run = _program(*steps, once=once)

    def wrong(c, x, losses):
        run(c, x, losses)
        return [c.grad(x)] if listed else c.grad(x)

    return wrong


def _retained(c, x, losses):
    return [c.backward(loss(), retain_graph=True) for loss in losses]


def _loss_read(clear):
    def wrong(c, x, losses):
        found = []
        for loss in losses:
            if clear:
                c.clear()
            root = loss()
            c.backward(root)
            found.append(c.grad(root))
        return found

    return wrong


_NONE_AS_NUMBER = Fault(
    "none-as-number", "None is used as a number",
    "A loss that does not contain x leaves no gradient on it: `c.grad(x)` is None. None has no value to take out.",
    "the line shown. What should the list have there, when there is no gradient?",
    (_program("clear", "backward", "read", turn_none=float),
     _program("clear", "backward", "read", turn_none=lambda value: value.item()),
     _program("clear", "backward", "read", turn_none=lambda value: value + 0.0),
     _program("clear", "backward", "read", turn_none=lambda value: value.copy())))

_FAULTS_B = (
    Fault("not-cleared", "nothing was cleared between the passes",
          "Your numbers are right for candle. PyTorch keeps the gradient on x and adds the next one, so your list has "
          "running sums there. reset sets to zero only the nodes it reaches: for loss_3, which has no x, you read what "
          "loss_2 has left on x.",
          "what must be forgotten before each backward pass.",
          (_program("backward", "read"),)),
    Fault("cleared-once", "cleared once, before the first pass only",
          "The gradient from earlier is gone, but from the second loss on you read what earlier losses have left: "
          "running sums in PyTorch, and in reset the number of loss_2 for loss_3, which has no x.",
          "how often the clear runs: once, or once for each loss?",
          (_program("backward", "read", once=(_clear,)),)),
    Fault("cleared-late", "the first reading has what was there before",
          "You clear after each reading. So the first pass in PyTorch is added to a gradient that was on x from "
          "earlier, and the first number of your list is too large by it. The other numbers are right.",
          "what `c` may hold when your function is called.",
          (_program("backward", "read", "clear"),)),
    Fault("cleared-before-reading", "nothing is there when the gradient is read",
          "Your list has only None. Each time you looked, a clear had just removed what was there, and no pass had run "
          "since.",
          "the order of the three steps. Between a clear and a reading there must be a pass.",
          (_program("backward", "clear", "read"), _program("clear", "read", "backward"))),
    Fault("read-early", "the gradient is read before the pass",
          "Each entry of your list is what was there *before* the backward pass of this loss. `c.grad(x)` shows the "
          "gradient of now; it does not wait for the pass.",
          "the order of the steps in your loop.",
          (_program("read", "backward"), _program("read", "clear", "backward"),
           _program("read", "backward", once=(_clear,)))),
    Fault("read-at-the-end", "everything is read at the end",
          "All entries of your list are the same number: what `c` shows when all passes are over. By then the earlier "
          "gradients are gone or added up.",
          "when the gradient of one loss can be read at the latest.",
          (_program("backward", at_end=True), _program("clear", "backward", at_end=True),
           _program("backward", once=(_clear,), at_end=True))),
    Fault("zero-for-none", "0 where there is no gradient",
          "loss_3 does not contain x. Its gradient is not 0: there is none, and the list should have None. Zero says "
          "that x was reached and the slope is 0 there; None says that x was not reached.",
          "what `c.grad(x)` gives for loss_3, and what you do with it.",
          (_program("clear", "backward", "read", turn_none=_zero), _program("backward", "read", turn_none=_zero))),
    Fault("nan-for-none", "NaN where there is no gradient",
          "loss_3 does not contain x, and the list should have None. Yours has NaN: an array of numbers has no place "
          "for None. NaN says that a computation went wrong; here there was none.",
          "what holds your results. A list can hold None.",
          (_program("clear", "backward", "read", turn_none=lambda g: np.nan if g is None else g),
           _program("backward", "read", turn_none=lambda g: np.nan if g is None else g))),
    Fault("none-left-out", "the list has no entry where there is no gradient",
          "loss_3 does not contain x, and your list is shorter by one entry. Then nobody can tell which number belongs "
          "to which loss.",
          "the `if` around the line that appends.",
          (lambda c, x, losses: [g for g in _each_alone(c, x, losses) if g is not None],
           lambda c, x, losses: [g for g in _program("backward", "read")(c, x, losses) if g is not None])),
    Fault("none-for-zero", "a gradient of 0 is taken for none",
          "loss_1 contains x, and at x = 0 its slope is 0. x was reached, so there is a gradient, and it is 0. Python "
          "takes 0 for false, as it does None: `if g` cannot tell the two apart.",
          "the question you ask about the gradient. It should be about None, and about nothing else.",
          (_program("clear", "backward", "read", turn_none=lambda g: g if g else None),
           _program("backward", "read", turn_none=lambda g: g if g else None),
           lambda c, x, losses: [g for g in _each_alone(c, x, losses) if g])),
    _NONE_AS_NUMBER,
    Fault("reset-not-cleared", "the clear is made for PyTorch only",
          "Your numbers are right for candle and PyTorch. reset does set nodes to zero by itself, but only those that "
          "the pass *reaches*. loss_3 has no x, so x keeps the number that loss_2 has left there, and you read it.",
          "the `if` around the clear. Does it need to be there?",
          (_for_pytorch,)),
    Fault("all-together", "there is one number for all losses together",
          "You added the losses, and there is one number for all of them. Asked for is a list: what each loss *alone* "
          "gives to x.",
          "how often `c.grad(x)` is read. It should be read once for each loss.",
          (_together, lambda c, x, losses: [_together(c, x, losses)])),
    Fault("read-once", "the gradient is read once, after the loop",
          "You have one number, read when all passes are over. What earlier losses gave is then gone, or added up. "
          "Asked for is a list with one entry for each loss.",
          "the indentation of the line that reads `c.grad(x)`. How often does it run?",
          tuple(_read_once(*steps, once=once, listed=listed) for listed in (True, False)
                for steps, once in ((("backward",), ()), (("clear", "backward"), ()), (("backward",), (_clear,))))),
    Fault("retain-unknown", "a graph is retained that nobody uses again",
          "`retain_graph` is known to PyTorch alone; candle and reset refuse the word. And no system needs it here: "
          "each call of `loss()` makes a new graph. To keep *gradients* from adding up, or from getting lost, it does "
          "nothing at all.",
          "how many passes go over one and the same graph.",
          (_retained,)),
    Fault("asked-the-loss", "the gradient of the loss is read, not that of x",
          "You asked `c` for the gradient of the loss itself. candle and PyTorch do not keep it, and reset shows 1: "
          "the loss grows as fast as the loss.",
          "what you give to `c.grad`.",
          (_loss_read(True), _loss_read(False))),
    Fault("not-called", "a loss is a function, and was not called",
          "You gave `c.backward` the function itself. The forward pass has not run, so there is no graph. Calling the "
          "function runs it and gives the loss.",
          "the brackets in `loss()`.",
          (lambda c, x, losses: [c.backward(loss) for loss in losses],)),
    EARLY_RETURN, *_SHARED,
)

# 05.c and 05.d: one forward pass, and several heads on it.


def _trunk(kind, *weights):
    kinds = {"square": lambda x: x * x, "cube": lambda x: x * x * x, "shifted": lambda x: (x + 1.0) * x}

    def make(x):
        heads = [Forward(f"head_{i}", lambda h, k=k: k * h) for i, k in enumerate(weights, 1)]
        if kind == "shifted":  # a head need not be a multiple of h
            heads[-1].make = lambda h, k=weights[-1]: k * (h * h)
        return Forward("trunk", lambda: kinds[kind](x)), heads

    return make


def _cases_c(rng):
    def fresh(kind, count):
        return _Setting(pytorch, nonzero(rng), _trunk(kind, *_weights(rng, count)), old=nonzero(rng, 7.0, 9.0))

    return [Case(_Setting(pytorch, 3.0, _trunk("square", 2.0, 5.0)), "h = x * x, two heads"),
            Case(fresh("shifted", 3), "three heads, and a gradient from earlier"),
            Case(fresh("cube", 1), "one head, and a gradient from earlier"),
            Case(_Setting(pytorch, nonzero(rng), _twice(_trunk("square", *_weights(rng, 2)))),
                 "three heads; two of them are the same one")]


def _twice(make):
    """The same trunk, with its last head once more at the end of the list."""
    def made(x):
        trunk, heads = make(x)
        return trunk, [*heads, heads[-1]]

    return made


def _each_head(c, x, trunk, heads):
    h, found = trunk(), []
    for i, head in enumerate(heads):
        c.clear()
        c.backward(head(h), retain_graph=i < len(heads) - 1)
        found.append(c.grad(x))
    return found


def _heads(*steps, retain=lambda i, n: True, once=(), again=False, at_end=False):
    """A wrong answer to 05.c: the steps for each head, and which passes retain the graph."""

    def wrong(c, x, trunk, heads):
        h, found = trunk(), []
        for step in once:
            step(c)
        for i, head in enumerate(heads):
            for step in steps:
                if step == "clear":
                    c.clear()
                elif step == "read":
                    found.append(c.grad(x))
                else:
                    c.backward(head(trunk() if again else h), retain_graph=retain(i, len(heads)))
        return [c.grad(x) for _ in heads] if at_end else found

    return wrong


def _until_found(c, x, trunk, heads):
    h, found = trunk(), []
    for head in heads:
        c.clear()
        c.backward(head(h), retain_graph=head is not heads[-1])
        found.append(c.grad(x))
    return found


def _but_last(i, n):
    return i < n - 1


_FORWARD_AGAIN = Fault(
    "forward-again", "the trunk ran more than once",
    "But the trunk ran once for each head. That is a new graph each time, so nothing had to be retained, and the most "
    "expensive part was computed again and again. Here one forward pass is to be reused.",
    "where `trunk()` stands in your code, and how often this line runs.")
_FREED = ("The second pass came to a node of the trunk whose saved values the first pass has freed. A clear does not "
          "help: it forgets *gradients*, and what is missing here are *values* of the graph.")

_FAULTS_C = (
    Fault("freed", "the graph is gone when the second pass comes", _FREED,
          "the first call of backward. What must it be told, so that it frees nothing?",
          (_heads("clear", "backward", "read", retain=lambda i, n: False),
           _heads("backward", "read", retain=lambda i, n: False),
           _heads("clear", "backward", "read", retain=lambda i, n: i == n - 1))),
    Fault("freed-too-early", "only the first pass retains the graph",
          "With two heads this works. With three, the second pass frees the saved values, and the third finds them "
          "gone. Each pass decides for itself, and the last one alone may free.",
          "the condition in `retain_graph=...`: for which passes is it true?",
          (_heads("clear", "backward", "read", retain=lambda i, n: i == 0),
           _heads("backward", "read", retain=lambda i, n: i == 0))),
    Fault("last-by-name", "the last pass is told by its head, not by its place",
          "With different heads this works. Here one head stands in the list twice. The graph is let go when it comes "
          "for the first time, and the pass after it finds the saved values gone.",
          "the condition in `retain_graph=...`. It should ask how many passes are still to come.",
          (_until_found,)),
    Fault("added", "the graph is retained, and the gradients are not cleared",
          "Your list has running sums. `retain_graph` is about the *graph*: it lets the second pass go through. It "
          "does nothing to the *gradients*, and they still add up on x.",
          "what must be forgotten before each pass, so that each head stands alone.",
          (_heads("backward", "read"), _heads("backward", "read", retain=_but_last),
           _heads("backward", "read", once=(_clear,)), _heads("backward", "read", retain=_but_last, once=(_clear,)),
           _heads("backward", "read", again=True))),
    Fault("cleared-late", "the first reading has what was there before",
          "You clear after each reading. When `c` comes with a gradient from earlier, the first pass is added to it, "
          "and the first number of your list is too large.",
          "what `c` may hold when your function is called.",
          (_heads("backward", "read", "clear"), _heads("backward", "read", "clear", retain=_but_last))),
    Fault("cleared-before-reading", "the gradient is cleared before it is read",
          "Your list has only None. Each time you looked, a clear had just removed what was there, and no pass had run "
          "since.",
          "the order of the three steps. Between a clear and a reading there must be a pass.",
          (_heads("backward", "clear", "read"), _heads("backward", "clear", "read", retain=_but_last))),
    Fault("read-at-the-end", "everything is read at the end",
          "All entries of your list are the same number: what is on x when all passes are over.",
          "when the gradient of one head can be read at the latest.",
          (_heads("backward", retain=_but_last, at_end=True),
           _heads("clear", "backward", retain=_but_last, at_end=True),
           _heads("backward", retain=_but_last, at_end=True, once=(_clear,)))),
    Fault("read-once", "the gradient is read once, after the loop",
          "You have one number, read when all passes are over. What earlier heads gave is then gone, or added up. "
          "Asked for is a list with one entry for each head.",
          "the indentation of the line that reads `c.grad(x)`. How often does it run?",
          tuple(lambda *args, run=run, listed=listed: run(*args)[-1:] if listed else run(*args)[-1]
                for listed in (True, False)
                for run in (_heads("clear", "backward", "read"), _heads("backward", "read")))),
    Fault("graph-kept", "the last pass keeps the graph alive",
          "But the last pass, too, had `retain_graph=True`. Nobody comes after it, and the saved values stay in memory "
          "for as long as somebody holds h or a loss.",
          "which pass is the last one to need the graph."),
    Fault("extra-pass", "there are more passes than heads",
          "But there was one more pass than there are heads. If it is there to free the graph: the last pass that you "
          "need can do that itself. And it leaves a gradient on x that belongs to no head.",
          "each call of `c.backward`. Which head is it for?"),
    Fault("all-together", "there is one number for all heads together",
          "Your number is the gradient of all heads together. Task d asks for it. Here a list is asked for: what each "
          "head *alone* gives to x.",
          "how often `c.backward` and `c.grad(x)` are called. Each head needs both.",
          (lambda c, x, trunk, heads: _all_heads(c, x, trunk, heads),
           lambda c, x, trunk, heads: [_all_heads(c, x, trunk, heads)])),
    _FORWARD_AGAIN,
    Fault("retain-grad", "`retain_grad` is not `retain_graph`",
          "PyTorch has both words. `retain_grad` is about one interior *gradient*: keep it, where it would not be "
          "kept. `retain_graph` is about the *graph* and its saved values. backward knows the second one only.",
          "the two questions of this exercise: which one do you want to answer with yes?",
          (lambda c, x, trunk, heads: c.backward(heads[0](trunk()), retain_grad=True),)),
    Fault("through-x", "backward is called on the trunk, not on a head",
          "Your numbers are the slopes of h itself, without the weight of the head. The loss of a head is `head(h)`.",
          "what you give to `c.backward`.",
          (lambda c, x, trunk, heads: [_slope_of_trunk(c, x, trunk)] * len(heads),)),
    EARLY_RETURN, *_SHARED,
)


def _slope_of_trunk(c, x, trunk):
    c.clear()
    c.backward(trunk())
    return c.grad(x)


def _cases_d(rng):
    cases = [Case(_Setting(candle, 3.0, _trunk("square", 2.0, 5.0)), "candle; h = x * x, two heads")]
    for system in _SYSTEMS:
        setting = _Setting(system, nonzero(rng), _trunk("shifted", *_weights(rng, 3)), old=nonzero(rng, 7.0, 9.0))
        cases.append(Case(setting, f"{system.__name__}; three heads, and a gradient from earlier"))
    return cases


def _all_heads(c, x, trunk, heads):
    h = trunk()
    c.clear()
    c.backward(sum(head(h) for head in heads))
    return c.grad(x)


def _summed(clear_first=True, join=sum, read=lambda c, x: c.grad(x)):
    def wrong(c, x, trunk, heads):
        h = trunk()
        if clear_first:
            c.clear()
        c.backward(join([head(h) for head in heads]))
        return read(c, x)

    return wrong


def _passes(clear=False, add=False, clear_first=True, only_pytorch=True, retain=True):
    """A pass for each head: retained where the system can, cleared between or not, and read at the end or added up."""

    def wrong(c, x, trunk, heads):
        h, total = trunk(), 0.0
        if clear_first:
            c.clear()
        for head in heads:
            if clear:
                c.clear()
            if retain and (isinstance(c, contracts.pytorch) or not only_pytorch):
                c.backward(head(h), retain_graph=True)
            else:
                c.backward(head(h))
            total = total + c.grad(x)
        return total if add else c.grad(x)

    return wrong


def _mean(losses):
    return sum(losses) / len(losses)


_FAULTS_D = (
    Fault("pass-for-each", "a pass for each head, on a graph that is used up",
          _FREED + " Giving each head a pass of its own needs another care in each system. There is a way that needs "
          "none: walk the trunk once, with everything it is to be asked.",
          "what single number has the gradient you want? A backward pass begins at one root.",
          (_passes(retain=False), _passes(retain=False, clear=True), _passes(retain=False, clear_first=False),
           _passes(retain=False, add=True))),
    Fault("retain-unknown", "only PyTorch knows `retain_graph`",
          "candle and reset free nothing, so their backward has no such switch, and it refuses the word. You could ask "
          "which life-cycle `c` is. There is a way that needs no switch at all: walk the trunk once.",
          "what single number has the gradient you want? A backward pass begins at one root.",
          (_passes(only_pytorch=False),)),
    Fault("last-only", "only the last head is counted",
          "Your number is the gradient of the last head alone. candle shows the store of the last pass, and reset "
          "begins each pass with zeros: in these two nobody adds for you.",
          "who does the adding in each of the three systems.",
          (_passes(), _passes(clear=True), _passes(clear_first=False))),
    Fault("sums-added", "running sums are added up",
          "Your number is right for candle and reset, where each reading has one head. In PyTorch the readings are "
          "running sums already, and adding them counts the first head several times.",
          "what `c.grad(x)` shows in PyTorch after the second pass.",
          (_passes(add=True), _passes(add=True, clear_first=False))),
    Fault("old-included", "the gradient from earlier is counted too",
          "Your number is right for candle and reset. PyTorch had a gradient on x before your function was called, and "
          "your pass was added to it.",
          "what `c` may hold when your function is called.",
          (_summed(clear_first=False),)),
    Fault("averaged", "the losses are averaged, not added",
          "Your number is the right one divided by the number of heads. The gradient of all heads together is that of "
          "their sum.",
          "the operation that joins the losses.",
          (_summed(join=_mean), _summed(join=_mean, clear_first=False))),
    Fault("returned-none", "there was nothing to return",
          "That happens in three ways: the function has no `return`; it reads `c.grad(x)` when "
          "nothing is there, before the pass or after a clear; or it returns what `c.backward` returns, which is None "
          "in PyTorch and reset.",
          "your last lines, from the call of backward on.",
          (_summed(read=lambda c, x: None),)),
    Fault("walked-again", "the trunk was walked back more than once",
          "But `c.backward` was called more than once, and each call walked through the trunk again. With a pass for "
          "each head, each system needs a care of its own. There is a way with one pass.",
          "what single number has the gradient you want? A backward pass begins at one root."),
    Fault("in-a-list", "the number stands in a list",
          "The number is right. Asked for is the number itself, not a list with one entry.",
          "the brackets around what you return.",
          (lambda c, x, trunk, heads: [_all_heads(c, x, trunk, heads)],)),
    EARLY_RETURN, _FORWARD_AGAIN, _DOT_GRAD, _ZERO_GRAD, _ANOTHER_WAY, _LOSS_RETURNED, _LIST_CHANGED,
)

TASKS = (
    by_hand(
        "05.a", "three programs, three life-cycles, by hand", _NAMES, deal=_deal,
        given=lambda d: f"x = {show_number(d[0])}, p = {show_number(d[1])}, q = {show_number(d[2])}.",
        right=_right_a, faults=_FAULTS_A, words=("error",), how=_how_a,
        hints=(
            "Ask two questions about each program, and keep them apart. Is the *graph* still there when the second "
            "pass begins? If so: is the first *gradient* still there?",
            "For each system and each program:\n\n"
            "    second backward\n"
            "      |\n"
            "      |-- the same graph? does a rule read a value that was freed? --> error\n"
            "      |\n"
            "      |-- is the first gradient still where the second one goes?\n"
            "              kept and added to   -->  first + second\n"
            "              a new store, or set to zero  -->  second",
            "Work out four numbers first. Then choose, for each system, one of the last two, their sum, or an "
            "error:\n\n    slope of p * h alone:   p * (slope of h)\n"
            "    slope of q * h alone:   q * (slope of h)\n\n"
            "    separate = (..., ..., ...)      # slope of h = x * x\n"
            "    reused = (..., ..., ...)        # the same two numbers, if the pass can run\n"
            "    reused_sum = (..., ..., ...)    # slope of h = x + x"),
        good="A new forward pass makes a new graph, and PyTorch adds; the same graph again is refused only where a "
             "freed value is needed. candle and reset show the last pass."),
    function(
        "05.b", "the gradient of each loss alone", "each_alone", "c, x, losses", cases=_cases_b, right=_each_alone,
        faults=_FAULTS_B, look_at=_property(_each_alone), tidy=_listed,
        expects="a list with one entry for each loss",
        hints=(
            "You need not ask which life-cycle you have. There is an order of three calls that is right in all of "
            "them, also when `c` holds something from earlier.",
            "What `c.grad(x)` shows, when nothing is ever cleared:\n\n"
            "              before   loss_1         loss_2              loss_3 (without x)\n"
            "    candle    old      g1             g2                  None\n"
            "    pytorch   old      old + g1       old + g1 + g2       old + g1 + g2\n"
            "    reset     old      g1             g2                  g2\n\n"
            "Wanted is g1, g2, None in every row.",
            "Three calls in each turn. Which order?\n\n"
            "    def each_alone(c, x, losses):\n"
            "        found = []\n"
            "        for loss in losses:\n"
            "            ...          # c.backward(loss()), c.clear(), found.append(c.grad(x))\n"
            "        return found"),
        good="Clear, backward, read: in this order it is right in each life-cycle, whatever was there before."),
    function(
        "05.c", "one forward pass, each head alone", "each_head", "c, x, trunk, heads", cases=_cases_c,
        right=_each_head, faults=_FAULTS_C,
        look_at=_property(_each_head, _forward_again, _still_retained, _extra_pass), tidy=_listed,
        expects="a list with one entry for each head",
        hints=(
            "Two switches, and neither does the work of the other. One keeps the graph for the next pass. One forgets "
            "the gradients of the pass before.",
            "With three heads:\n\n"
            "    pass    gradients on x before it   graph after it\n"
            "    1       must be gone               must still be there\n"
            "    2       must be gone               ?\n"
            "    3       must be gone               ?",
            "Count the heads while you go through them:\n\n"
            "    def each_head(c, x, trunk, heads):\n"
            "        h = trunk()\n"
            "        found = []\n"
            "        for i, head in enumerate(heads):\n"
            "            ...\n"
            "            c.backward(head(h), retain_graph=...)     # True for which i?\n"
            "            ...\n"
            "        return found"),
        good="The graph lives until the last pass that needs it, and each pass begins without old gradients."),
    function(
        "05.d", "one forward pass, all heads together", "all_heads", "c, x, trunk, heads", cases=_cases_d,
        right=_all_heads, faults=_FAULTS_D, look_at=_property(_all_heads, _forward_again, _walked_again),
        expects="one number",
        hints=(
            "The gradient of all heads together is the gradient of one number. Which number?",
            "Where the shares of the heads meet:\n\n"
            "    head_1   head_2   head_3\n"
            "        \\      |      /\n"
            "         \\     |     /        all three have arrived at h\n"
            "               h              before h is passed\n"
            "               |\n"
            "               x\n\n"
            "A single root above the three heads makes this one pass.",
            "One pass is enough:\n\n"
            "    def all_heads(c, x, trunk, heads):\n"
            "        h = trunk()\n"
            "        loss = ...            # one number, made of head(h) for each head\n"
            "        ...\n"
            "        c.backward(loss)\n"
            "        return ..."),
        good="One root, one pass: the shares meet at h, the trunk is walked once, and no switch is needed."),
)
