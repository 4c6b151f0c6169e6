"""Checks of exercise 11, moving target: equal losses, other gradients, and what a cut does to the training.

Wrong answers as a learner would type them, each with the fault it must be given, are in wrong_answers/11.txt.
"""

from itertools import product

from autodiff.course.forms import NO_RETURN, Case, as_array, by_hand, function, show
from autodiff.course.judge import EARLY_RETURN, Fault
from autodiff.course.result import show_number
from autodiff.course.tensors import Named, reading

# 11.a: values, gradients and one update of two losses.

_NUMBERS = ("loss_A", "loss_B", "grad_A", "grad_B", "new_A", "new_B")
# (x, n, learning rate): the target is x / n. No two mistakes make the same six numbers.
_DEALS_A = ((6.0, 2, 0.1), (-12.0, 4, 0.1), (10.0, 2, 0.2), (16.0, 4, 0.1), (-8.0, 2, 0.2), (20.0, 4, 0.2),
            (14.0, 2, 0.1), (-16.0, 4, 0.2))


def _given_a(deal):
    x, n, rate = map(show_number, deal)
    return (f"x = {x}, and the learning rate is {rate}: the new x is x - {rate} * gradient.\n"
            f"    A = (x - x/{n})**2\n    B = (x - detach(x/{n}))**2")


def _grads_a(deal):
    x, n, _ = deal
    u = x - x / n
    return 2 * u * (1 - 1 / n), 2 * u


def _answers_a(deal, grad_A, grad_B, loss_B=None, step=None):
    """The six numbers that follow from two gradients."""
    x, n, rate = deal
    loss = (x - x / n) ** 2
    step = step or (lambda x, g, rate, loss: x - rate * g)
    return loss, loss if loss_B is None else loss_B, grad_A, grad_B, *(step(x, g, rate, loss) for g in (grad_A, grad_B))


def _right_a(deal):
    return _answers_a(deal, *_grads_a(deal))


def _with_step(step):
    return lambda deal: _answers_a(deal, *_grads_a(deal), step=step)


def _with_grads(change):
    """Other gradients; the updates that follow from them, or any others."""
    def six(deal):
        x, n, _ = deal
        return _answers_a(deal, *change(x, n, x - x / n))

    return six, lambda deal: (*six(deal)[:4], None, None)


def _how_a(deal):
    x, n, rate = map(show_number, deal)
    value = f"({x} - {show_number(deal[0] / deal[1])})**2"
    return (f"put x = {x} into the formula: {value}", f"a detach never changes a value: {value} again",
            f"A is (x - x/{n})**2: the derivative of the square, times the slope of x - x/{n}",
            f"the target is the constant {show_number(deal[0] / deal[1])}: only the first x of the difference moves",
            f"{x} - {rate} * grad_A", f"{x} - {rate} * grad_B")


_FAULTS_A = (
    Fault("same-objective", "equal losses were taken for equal gradients",
          "You gave B the gradient of A, {grad_A}. The values agree at every x, and still the two losses ask for "
          "different things. In A the target moves along with x. In B the target stands still while x moves a little, "
          "so the gap grows faster.",
          "the two paths from x to the loss. How many of them are open in A, and how many in B?",
          _with_grads(lambda x, n, u: (2 * u * (1 - 1 / n),) * 2)),
    Fault("both-held", "the target of A is treated as a constant",
          "You gave A the gradient of B, {grad_B}: 2 times the difference, as if only the first x moved. In A nothing "
          "is cut, and x has a second way to the loss, through the target. That way sends a share too, with the "
          "other sign.",
          "the slope of x - x/n, when both terms move.",
          _with_grads(lambda x, n, u: (2 * u, 2 * u))),
    Fault("swapped", "the two gradients stand in each other's place",
          "{grad_A} belongs to B, and {grad_B} to A. A cut does not have to make a gradient smaller. It takes a share "
          "out of the sum, and here the two shares have opposite signs: what is left alone is larger than the sum.",
          "the sign of the share that goes through the target.",
          _with_grads(lambda x, n, u: (2 * u, 2 * u * (1 - 1 / n)))),
    Fault("other-side", "the share of the target is left, and the share of the prediction is gone",
          "{grad_B} is what comes through the target, and in B exactly that path is cut. The prediction, the first x "
          "of the difference, is still connected.",
          "which of the two tensors stands inside detach.",
          _with_grads(lambda x, n, u: (2 * u * (1 - 1 / n), -2 * u / n))),
    Fault("target-sign", "the target's share has the wrong sign",
          "In A the slope of x - x/n is 1 minus 1/n. With {grad_A} it is 1 plus 1/n: the minus in front of the target "
          "was lost on the way.",
          "the derivative of a difference with respect to its second operand.",
          _with_grads(lambda x, n, u: (2 * u * (1 + 1 / n), 2 * u))),
    Fault("stopped", "a gradient of 0, because something is detached",
          "You gave B the gradient 0. One operand is detached, and the loss is not: the other operand of the "
          "difference still leads to x, and its share arrives.",
          "the picture of B. Which edges lead from the loss to x and are not dashed?",
          _with_grads(lambda x, n, u: (2 * u * (1 - 1 / n), 0.0))),
    Fault("value-cut", "the detached target is treated as 0",
          "With a target of 0 the loss B would be x**2, and this is your {loss_B}. `detach` keeps the value. It takes "
          "away the history, and nothing else.",
          "what detach(t) holds, if t holds 3.",
          (lambda d: (_right_a(d)[0], d[0] ** 2, None, None, None, None),)),
    Fault("both-signs", "both gradients have the wrong sign",
          "Both of your numbers have the right size. The sign turns round when the square is differentiated as if the "
          "difference were target minus prediction, without the minus that x then has. Test it: make x a little larger "
          "and ask whether the loss grows or falls.",
          "the slope of the difference with respect to its first operand.",
          _with_grads(lambda x, n, u: (-2 * u * (1 - 1 / n), -2 * u))),
    Fault("two-missing", "the 2 of the square is missing",
          "The derivative of u**2 is 2 * u. Both of your gradients are half of what they should be: {grad_A} and "
          "{grad_B}.",
          "the last step of the graph, the square.",
          _with_grads(lambda x, n, u: (u * (1 - 1 / n), u))),
    Fault("uphill", "the update goes up the slope",
          "Both gradients are right. You added the learning rate times the gradient to x, and the loss then grows. A "
          "gradient points to where the loss grows, so the update subtracts it.",
          "the sign in `x - rate * gradient`.",
          (_with_step(lambda x, g, rate, loss: x + rate * g),)),
    Fault("rate-missing", "the whole gradient is subtracted",
          "{new_A} and {new_B} are x minus the gradient. The learning rate makes the step small: x - rate * gradient.",
          "the learning rate in the line above your answer.",
          (_with_step(lambda x, g, rate, loss: x - g),)),
    Fault("by-the-loss", "the update uses the loss, not the gradient",
          "{new_A} is x - rate * loss. With the loss in place of the gradient, A and B would make the same step. The "
          "value of a loss does not say in which direction x should go.",
          "what an update takes from the store.",
          (_with_step(lambda x, g, rate, loss: x - rate * loss),)),
    Fault("step-alone", "the step is there, the new x is not",
          "{new_A} and {new_B} are the changes of x alone. The question was where x is after the update.",
          "start from x, and take the step from there.",
          (_with_step(lambda x, g, rate, loss: rate * g), _with_step(lambda x, g, rate, loss: -rate * g))),
)

# 11.b: where was it cut?

_PLACES = ("nothing", "target", "prediction", "difference")
# (x, n, which place was detached in P, Q, R, S); the learning rate is 0.1.
_DEALS_B = ((8.0, 4, "target difference prediction nothing"), (-10.0, 2, "prediction nothing difference target"),
            (-16.0, 4, "nothing target prediction difference"), (14.0, 2, "difference prediction target nothing"),
            (12.0, 4, "prediction difference nothing target"), (-18.0, 2, "target nothing prediction difference"))


def _grad_b(x, n, place):
    u = x - x / n
    return {"nothing": 2 * u * (1 - 1 / n), "target": 2 * u, "prediction": -2 * u / n, "difference": 0.0}[place]


def _given_b(deal):
    x, n, places = deal
    new = [show_number(round(x - 0.1 * _grad_b(x, n, place), 9)) for place in places.split()]
    said = ", ".join(f"{name}: {value}" for name, value in zip("PQRS", new))
    return (f"four programs with the loss (x - x/{n})**2.\n"
            f"    Each made one update from x = {show_number(x)}, with the learning rate 0.1.\n    x after it: {said}")


def _how_b(deal):
    x, n, places = deal
    grads = [show_number(round(_grad_b(x, n, place), 9)) for place in places.split()]
    return tuple("it did not move, so no gradient arrived: look for the cut that closes both paths" if g == "0" else
                 f"the gradient was (x before - x after) / 0.1 = {g}; find the shares of x that make it" for g in grads)


def _exchanged(first, second):
    other = {first: second, second: first}
    return lambda deal: tuple(other.get(place, place) for place in deal[2].split())


_FAULTS_B = (
    Fault("smaller-is-cut", "the larger step is taken for the one without a cut",
          "You exchanged \"nothing\" and \"target\", perhaps because a cut should make a step smaller. It takes a "
          "share out of the sum. The target's share has the other sign, so without it the step is larger.",
          "the two shares at x, each with its sign. Their sum belongs to \"nothing\".",
          (_exchanged("nothing", "target"),)),
    Fault("other-side", "prediction and target are exchanged",
          "With the target detached the prediction's share is left, and x goes towards the target. With the prediction "
          "detached the target's share is left, and x goes *away* from 0: the loss grows.",
          "the program in which the loss has grown. Whose share drives it there?",
          (_exchanged("prediction", "target"),)),
    Fault("stands-still", "a detached prediction is taken for a program that cannot move",
          "You gave \"prediction\" to the program that did not move, and \"difference\" to the one that moved the "
          "wrong way. x is also inside the target, and that path is open when only the prediction is detached.",
          "both paths from the difference down to x. Which detach closes both?",
          (_exchanged("prediction", "difference"),)),
    Fault("target-stops", "a detached target is taken for the end of all learning",
          "You gave \"target\" to the program that did not move. A detached target is a constant, and x can still come "
          "closer to a constant. Only when nothing leads from the loss to x does x stay.",
          "the program with the largest step. What does it still follow?",
          (_exchanged("target", "difference"),)),
    Fault("same-loss", "you found no cut where the programs moved",
          "All of them began with the same loss, and you answered as if that made them the same program. But they went "
          "to different places. The loss cannot show a cut; the step can.",
          "(x before - x after) / 0.1 for each program: these are the four gradients.",
          (lambda d: ("nothing",) * 4,
           lambda d: tuple(p if p == "difference" else "nothing" for p in d[2].split()))),
    Fault("runs-away", "a program that moves away is taken for the one without a cut",
          "You exchanged \"nothing\" and \"prediction\". The x of your \"nothing\" has moved away from 0, and the loss "
          "has grown. With the whole gradient, and a step as small as this one, the loss becomes smaller.",
          "the loss before and after the update, for each of the four.",
          (_exchanged("nothing", "prediction"),)),
    Fault("no-step", "no step is taken for no cut",
          "You exchanged \"nothing\" and \"difference\". \"nothing\" says that nothing is detached, not that nothing "
          "happens: both shares then arrive at x. A program whose x stays where it is has a gradient of 0.",
          "the sum of the two shares at x, when both arrive. Is it 0?",
          (_exchanged("nothing", "difference"),)),
    Fault("word-twice", "one word is given to two programs",
          "The four programs are cut in four different ways: all four x are different after the update. The same graph "
          "with the same cut would have made the same step.",
          "the four gradients, (x before - x after) / 0.1. Each word has one of them.",
          tuple(lambda d, words=words: words for words in product(_PLACES, repeat=4) if len(set(words)) < 4)),
)

# 11.c: two losses in code.

_HALF = Named("x / 2", lambda x: x / 2)


def _targets(rng):
    """Targets made from x, with fresh numbers; in the second one x is used twice."""
    import numpy as np

    a, b = rng.choice([0.25, 0.75, 1.5]), rng.choice([0.5, 1.25, 2.0])
    return (Named(f"{b} * tanh(x)", lambda x: b * np.tanh(x)),
            Named(f"{a} * x + x * x / 8", lambda x: a * x + x * x / 8),
            Named(f"{a} * x + {b}", lambda x: a * x + b))


def _cases_c(rng):
    import autodiff as ad

    def case(target, *numbers):
        return Case(lambda: (ad.Var(numbers[0] if len(numbers) == 1 else list(numbers), name="x"), target),
                    f"target {target}")

    first, second, third = _targets(rng)
    numbers = rng.sample([-2.5, -1.5, 0.5, 1.25, 2.0, 3.5, 4.0, -4.5], 6)
    return [case(_HALF, 6.0), case(first, *numbers[:1]), case(second, *numbers[1:3]), case(third, *numbers[3:])]


def _pair(made):
    """{"moving": (value, gradient of x), "held": ...}; what is no pair of losses stays as it is."""
    found = [reading(m) for m in made] if isinstance(made, (tuple, list)) and len(made) == 2 else [None]
    if any(f is None for f in found):
        return made
    return {name: (value, grads.get("x")) for name, (value, grads) in zip(("moving", "held"), found)}


def _moving(x, target):
    return ((x - target(x)) ** 2).sum()


def _held(x, target):
    return ((x - target(x).detach()) ** 2).sum()


def _is_pair(attempt, answer, runs):
    for _, call, result in runs:
        if isinstance(result.value, dict) or not isinstance(_pair(result.value), dict):
            return attempt.wrong([f"`{call}` returned {show(result.value)}; expected two losses, as in `return moving, "
                                  "held`."], look="Look at the last line of your function.")
    return None


_FAULTS_C = (
    Fault("same-objective", "both losses have the same gradient",
          "The values agree, as they should, and the gradients agree too: nothing is cut in the second loss. Its "
          "target must have its value and no history. A `copy` has history: it is an operation with slope 1.",
          "what makes a constant from `target(x)`.",
          (lambda x, t: (_moving(x, t), _moving(x, t)),)),
    Fault("both-held", "the target is held in both losses",
          "The first loss is to follow a target that moves along with x, so nothing in it may be cut. In your first "
          "loss the target is a constant.",
          "where the cut is made: before both losses, or for the second one alone?",
          (lambda x, t: (_held(x, t), _held(x, t)),)),
    Fault("swapped", "the two losses stand in each other's place",
          "The first is to be the moving one, the second the held one. The two values are equal, so no value could "
          "have told you.",
          "the order in your `return`.",
          (lambda x, t: (_held(x, t), _moving(x, t)),)),
    Fault("other-side", "the prediction is cut, not the target",
          "In your second loss x itself is detached, and the gradient comes through the target. An update with it "
          "moves the target away from where x stands.",
          "which of the two operands of the difference should stand still.",
          (lambda x, t: (_moving(x, t), ((x.detach() - t(x)) ** 2).sum()),)),
    Fault("nothing-left", "no gradient comes out of the second loss",
          "The second loss has the right value and no history at all: everything in it is cut, also the way from x. "
          "Only the target is to be held.",
          "how much of the line stands inside `detach` or `no_grad`, or is turned into plain numbers.",
          (lambda x, t: (_moving(x, t), _moving(x, t).detach()),)),
    Fault("both-plain", "no gradient comes out of either loss",
          "Both losses have the right value and no history. A plain number, made by `.item()`, `.data` or `float`, has "
          "none, and neither has what is made inside `no_grad`. Only one thing is to be held, the target of the second "
          "loss.",
          "what both lines have in common: the way from x to the loss.",
          (lambda x, t: (_moving(x, t).detach(), _moving(x, t).detach()),)),
    Fault("own-target", "the target is always x / 2",
          "With the target x / 2 both losses are right. With other targets they are what x / 2 would give: your "
          "function does not use its argument `target`.",
          "where `target` stands in your function.",
          (lambda x, t: (_moving(x, _HALF), _held(x, _HALF)),)),
    Fault("gradients-returned", "you returned the two gradients, not the two losses",
          "Your values are the right gradients of x. Return the losses themselves, with their history: the check goes "
          "back from them on its own.",
          "your `return`. No `backward` is needed in this function.",
          (lambda x, t: (_moving(x, t).backward()[x], _held(x, t).backward()[x]),)),
    Fault("target-lost", "the value of the target is lost",
          "The second loss is the sum of x**2, as if the target were 0. A held target keeps its value.",
          "what your second target holds. Print it.",
          (lambda x, t: (_moving(x, t), (x**2).sum()),)),
    Fault("not-summed", "the squares are not added up",
          "For an x with several entries each of your losses has as many entries. The loss is their sum, one number.",
          "the last step of each loss.",
          (lambda x, t: ((x - t(x)) ** 2, (x - t(x).detach()) ** 2),)),
    Fault("mean", "the mean is taken where the sum is asked for",
          "For an x with n entries your losses and gradients are n times too small. With one entry there is no "
          "difference, so the first two calls look right.",
          "the word in the task: sum, or mean?",
          (lambda x, t: (((x - t(x)) ** 2).mean(), ((x - t(x).detach()) ** 2).mean()),)),
    NO_RETURN,
)

# 11.d: training, with three kinds of target.

_KINDS = ("moving", "anew", "once")


def _cases_d(rng):
    first, second, third = _targets(rng)
    calls = [(6.0, _HALF, 0.1, 3, kind) for kind in _KINDS]
    for target, kinds in ((first, _KINDS), (second, rng.sample(_KINDS, 2)), (third, ("anew",))):
        start, rounds = rng.choice([-2.0, 1.5, 2.5, 3.0]), rng.choice([2, 4, 5])
        calls += [(start, target, 0.05, rounds, kind) for kind in kinds]
    return [Case(call, f'"{call[4]}", {call[1]}, {call[3]} rounds') for call in calls]


def _trained(kinds=(), after=None, more=0, step=lambda x, g, rate, loss: x - rate * g, of=lambda gap: gap**2):
    """A training with other kinds, another step, more rounds, another loss of x - target, or another answer."""
    def train(start, target, rate, rounds, kind):
        import autodiff as ad

        x = ad.Var(float(start), name="x")
        kind, first = dict(kinds).get(kind, kind), target(x).detach()
        for _ in range(rounds + more):
            aim = target(x) if kind == "moving" else target(x).detach() if kind == "anew" else first
            loss = of(x - aim)
            x.set(step(x.data, loss.backward()[x].data, rate, loss.item()))
        return x.item() if after is None else after(x, loss)

    return train


def _gradients_added(start, target, rate, rounds, kind):
    total = [0.0]

    def step(x, g, rate, loss):
        total[0] += g
        return x - rate * total[0]

    return _trained(step=step)(start, target, rate, rounds, kind)


def _start_gradient(start, target, rate, rounds, kind):
    return start + rounds * (_trained()(start, target, rate, 1, kind) - start)


def _stale(name):
    def train(start, target, rate, rounds, kind):
        import autodiff as ad

        x = ad.Var(float(start), name=name)
        first = target(x)
        for _ in range(rounds):
            aim = {"moving": target(x), "anew": target(x).detach(), "once": first}[kind]
            x.set(x.data - rate * ((x - aim) ** 2).backward()[x].data)
        return x.item()

    return train


def _rebound(keep_loss):
    """A training whose x is the result of the first update, and no Var."""
    def train(start, target, rate, rounds, kind):
        import autodiff as ad

        x = ad.Var(float(start), name="x" if keep_loss == "named" else None)
        for _ in range(rounds):
            loss = (x - target(x)) ** 2
            grads = loss.backward()
            if not keep_loss:
                del loss
            x = x - rate * grads[x]
        return x

    return train


def _one(value):
    """The number in a list or an array of one."""
    made = as_array(value)
    return value if made is None or made.size != 1 else made.item()


_FAULTS_D = (
    Fault("same-objective", "the held target moves along",
          "Your x goes where the \"moving\" training goes. The loss has the same value in every kind, so nothing looks "
          "wrong. But the target of this kind must be cut from x, or its share is in the gradient.",
          "the line that makes the target. Is there a detach for this kind?",
          (_trained({"anew": "moving", "once": "moving"}), _trained({"anew": "moving"}), _trained({"once": "moving"}))),
    Fault("all-held", "the target of the \"moving\" training is cut too",
          "Your x goes where \"anew\" goes. In the \"moving\" training the target is part of the graph, and its share "
          "counts. A gradient written by hand as 2 * (x - t) leaves it out.",
          "for which kinds the target is cut in your code.",
          (_trained({"moving": "anew"}),)),
    Fault("made-once", "the target of \"anew\" is made only once",
          "Your \"anew\" keeps the target of the first round. The first step is the same in both. From the second on, "
          "x runs after a target that has moved.",
          "is `target(x)` called before the loop, or in it?",
          (_trained({"anew": "once"}),)),
    Fault("made-anew", "the target of \"once\" is made again in each round",
          "The first step is right, and then your target follows x. \"once\" keeps the number that the target had at "
          "the start.",
          "is `target(x)` called before the loop, or in it?",
          (_trained({"once": "anew"}),)),
    Fault("swapped", "\"anew\" and \"once\" stand in each other's place",
          "Your \"anew\" keeps its first target, and your \"once\" makes a new one in each round.",
          "the two branches of your code for the kind.",
          (_trained({"anew": "once", "once": "anew"}),)),
    Fault("kind-ignored", "every kind is trained in the same way",
          "In your code all three kinds go the same way, with a target that is cut.",
          "where `kind` is read in your function.",
          (_trained(dict.fromkeys(_KINDS, "anew")), _trained(dict.fromkeys(_KINDS, "once")))),
    Fault("stale", "the first target is kept with its history",
          "The target was made before the loop and not cut, so it belongs to a graph of the old x. After `set` that "
          "graph cannot be used any more. A target that is kept must be a constant.",
          "the target before the loop. What should be kept of it, and what should not?",
          (_stale("x"), _stale(None))),
    Fault("no-var", "after the first update x is no Var",
          "In the first round x is a Var. Then `x = x - ...` puts the *result* of a subtraction in its place: an "
          "interior node, for which the next store has nothing, and which brings the first round's history along.",
          "the line of the update. Give the Var a new value with `set`, or make a new Var from the number.",
          (_rebound(""), _rebound("kept"), _rebound("named"))),
    Fault("uphill", "the updates go up the slope",
          "You add the step to x, and the loss grows from round to round.",
          "the sign in x - rate * gradient.",
          (_trained(step=lambda x, g, rate, loss: x + rate * g),)),
    Fault("rate-missing", "the learning rate is not used",
          "You subtract the whole gradient in each round.",
          "where `rate` stands in your function.",
          (_trained(step=lambda x, g, rate, loss: x - g),)),
    Fault("loss-returned", "the last loss is returned, not x",
          "{got} is the last loss. The loss of different kinds can be the same where x is not, so return x itself.",
          "your `return`.",
          (_trained(after=lambda x, loss: loss.item()),)),
    Fault("off-by-one", "one round too many, or too few",
          "Your steps are right, and their number is not.",
          "the numbers that `range` gives: range(3) is 0, 1, 2.",
          (_trained(more=1), _trained(more=-1))),
    Fault("gradients-added", "the gradients of the rounds add up",
          "The first step is right. In the second one the gradient of the first is still there, as in PyTorch's "
          "life-cycle without a clear.",
          "where the gradient is kept between two rounds. Each round needs the one it has just computed, alone.",
          (_gradients_added,)),
    Fault("start-gradient", "every round uses the gradient of the first one",
          "All your steps have the same length. The loss and its gradient were computed once, for the first x.",
          "which lines stand inside the loop. After each step the loss must be computed again.",
          (_start_gradient,)),
    Fault("half-loss", "each step is half as long as it should be",
          "The loss is (x - t)**2. Your steps belong to half of it: with a factor 0.5 in front of the loss, or without "
          "the 2 that its derivative has.",
          "the loss in your function, or the gradient if you wrote it by hand.",
          (_trained(step=lambda x, g, rate, loss: x - rate * g / 2),)),
    Fault("no-square", "the difference is the loss, without its square",
          "Your steps are as long far from the target as close to it: the slope of x - t does not depend on the gap, "
          "and the slope of its square does.",
          "the loss in your function.",
          (_trained(of=lambda gap: gap),)),
    Fault("not-updated", "x is where it started",
          "You return the number `start`: no round has changed x. A new value must be put into the Var, or into the "
          "name that the next round reads.",
          "the last line inside your loop. Where does its result go?",
          (lambda start, target, rate, rounds, kind: start,)),
    EARLY_RETURN, NO_RETURN,
)

TASKS = (
    by_hand("11.a", "equal losses, two gradients", _NUMBERS, deal=lambda k: _DEALS_A[k % len(_DEALS_A)],
            given=_given_a, right=_right_a, faults=_FAULTS_A, how=_how_a, hints=(
        "Work out the losses first: put the number in. Then go back from each loss, one path at a time. In A there are "
        "two paths from the difference to x. In B one of them ends at the detach.",
        "u is the difference; the share that arrives at it is 2 * u in both losses.\n\n"
        "            2 * u                         2 * u\n"
        "    A         u                   B         u\n"
        "          1 /   \\ -1                    1 /   \\ -1\n"
        "           /     x/n                     /    (detached)\n"
        "           \\     / 1/n                   |\n"
        "              x                           x",
        "Fill in, with u = x - x/n:\n\n"
        "    loss_A = u**2\n"
        "    grad_A = 2 * u * (1 - ...)      # both paths\n"
        "    grad_B = 2 * u * ...            # one path\n"
        "    new_A  = x - rate * grad_A"),
        good="The values are equal, the gradients are not, and after one update the two x are in different places. "
             "Equal loss is not equal objective."),
    by_hand("11.b", "where was it cut?", tuple(f"cut_{name}" for name in "PQRS"),
            deal=lambda k: _DEALS_B[k % len(_DEALS_B)], given=_given_b, right=lambda d: tuple(d[2].split()),
            faults=_FAULTS_B, how=_how_b, words=_PLACES, numbers=False, hints=(
        "Undo the update: the gradient is (x before - x after) / 0.1. Do it for all four. Then compute the two shares "
        "of x in the graph without a cut, and see which sums you can make.",
        "Two shares arrive at x, one on each path, and each place of a cut stops some of them:\n\n"
        "    detached      through the prediction    through the target\n"
        "    nothing       arrives                   arrives\n"
        "    target        arrives                   stopped\n"
        "    prediction    ?                         ?\n"
        "    difference    ?                         ?",
        "With u = x - x/n:\n\n"
        "    share through the prediction = 2 * u\n"
        "    share through the target     = -2 * u / n\n"
        "    gradient with nothing cut    = their sum\n\n"
        "Write down the gradient that is left for each of the four places, and look for it in your list."),
        good="The loss was the same in all four. The step told them apart: each cut takes its share out of the sum."),
    function("11.c", "two losses in code", "losses", "x, target", cases=_cases_c,
             right=lambda x, t: _pair((_moving(x, t), _held(x, t))), tidy=_pair, look_at=_is_pair, faults=_FAULTS_C,
             did="made (value, gradient of x)", lines=1_000_000, hints=(
        "Write the first loss without any thought of cuts. Copy the line. In the copy one tensor must become a "
        "constant with the same value: which one, and how?",
        "Only one edge differs.\n\n"
        "    moving:  (x - target(x))**2          held:  (x - target(x))**2\n"
        "              |     |                            |     :\n"
        "              x     x                            x     : (no way back)",
        "    def losses(x, target):\n"
        "        moving = ((x - target(x)) ** 2).sum()\n"
        "        held = ((x - ...) ** 2).sum()\n"
        "        return moving, held"),
        good="Two losses with the same value and different gradients: only the held one has a target that is a "
             "constant."),
    function("11.d", "three trainings", "train", "start, target, rate, rounds, kind", cases=_cases_d,
             right=_trained(), faults=_FAULTS_D, expects="x after the last round, a number", lines=2_000_000, rel=1e-7,
             tidy=_one, hints=(
        "A target can differ in two ways. Is it cut from x? And is it made in each round, or once? Answer both "
        "questions for each of the three kinds before you write.",
        "    kind      target made          cut from x\n"
        "    moving    in each round        no\n"
        "    anew      in each round        ?\n"
        "    once      before the loop      ?\n\n"
        "In each round: target, loss, gradient, new x.",
        "    def train(start, target, rate, rounds, kind):\n"
        "        x = ad.Var(start)\n"
        "        first = ...                      # for \"once\"\n"
        "        for _ in range(rounds):\n"
        "            if kind == \"moving\":\n"
        "                t = ...\n"
        "            ...\n"
        "            gradient = ((x - t) ** 2).backward()[x]\n"
        "            x.set(...)\n"
        "        return x.item()"),
        good="One loss at the start, three trainings. What counts is where the target is cut, and when it is made."),
)
