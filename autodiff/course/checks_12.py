"""Checks of exercise 12, teacher and student: which weights may receive a gradient, in code and by tests.

Wrong answers as a learner would type them, each with the fault it must be given, are in wrong_answers/12.txt.
"""

import io
import sys
from dataclasses import replace
from unittest import mock

from autodiff import GradStore, Tensor
from autodiff.course.forms import NO_RETURN, Case, by_hand, function, same, show, tests
from autodiff.course.judge import Fault, Run, blank, name_of, printed, run, with_words
from autodiff.course.result import WRONG, show_number
from autodiff.course.tensors import Named, reading

# 12.a: three losses by hand.

_NONE = "none"
# (x, s, p, q): no two mistakes make the same nine answers.
_DEALS = ((3.0, 7.0, 2.0, 3.0), (3.0, -4.0, -2.0, 3.0), (5.0, 3.0, 4.0, 0.5), (-2.0, 6.0, 5.0, 2.0),
          (0.5, 8.0, 3.0, -4.0), (-3.0, 2.0, 0.5, 6.0), (4.0, 7.0, 3.0, 2.0), (0.5, -6.0, 4.0, 5.0))


def _given(deal):
    x, s, p, q = map(show_number, deal)
    return (f"x = {x}, s = {s}, p = {p}, q = {q}.\n"
            "    joint: (s*x - q*(p*x))**2\n"
            "    fixed: (s*x - detach(q*(p*x)))**2\n"
            "    leak:  (s*x - detach(q)*(p*x))**2")


def _parts(deal):
    """The gradients of s, p and q when nothing is cut."""
    x, s, p, q = deal
    u = s * x - q * p * x
    return 2 * u * x, -2 * u * q * x, -2 * u * p * x


def _right(deal):
    s, p, q = _parts(deal)
    return (s, p, q), (s, _NONE, _NONE), (s, p, _NONE)


def _scaled(change):
    """The right answers with other numbers: `change(deal)` gives the three of the joint loss."""
    def answers(deal):
        s, p, q = change(deal)
        return (s, p, q), (s, _NONE, _NONE), (s, p, _NONE)

    return answers


def _with(**others):
    """The right answers with some of the three in another form, made from the gradients of s, p and q."""
    def answers(deal):
        right = dict(zip(("joint", "fixed", "leak"), _right(deal)))
        return tuple((right | {name: make(*_parts(deal)) for name, make in others.items()}).values())

    return answers


def _how(deal):
    x, s, p, q = deal
    u = show_number(s * x - q * p * x)
    return (f"the difference is {u}, and 2 * {u} arrives at it; from there one path leads to each of s, p and q",
            "two of the three paths go through the detach, and the third one is as in the joint loss",
            "only what is behind the detach loses its number; the paths to s and to p do not go through `detach(q)`")


_FAULTS_A = (
    Fault("zero-for-none", "0 stands where there is no gradient",
          "A weight behind a cut is not reached, so the store has nothing for it: \"none\". A 0 would say that it was "
          "reached, and that the slope is 0. An optimiser and a test can tell the two apart.",
          "the word for a weight that is absent from the store.",
          (_with(fixed=lambda s, p, q: (s, 0.0, 0.0), leak=lambda s, p, q: (s, p, 0.0)),
           _with(fixed=lambda s, p, q: (s, 0.0, 0.0)), _with(leak=lambda s, p, q: (s, p, 0.0)))),
    Fault("leak-overlooked", "the fixed teacher still receives a gradient",
          "In `fixed` you gave p and q the gradients of the joint loss. The value of the loss is the same, but both of "
          "their paths go through the teacher's answer, and that is detached.",
          "the path from the loss down to q. Where does it end?",
          (_with(fixed=lambda s, p, q: (s, p, q)),
           _with(fixed=lambda s, p, q: (s, p, q), leak=lambda s, p, q: (s, p, q)))),
    Fault("leak-closed", "one detach was taken for the end of every path to the teacher",
          "In `leak` only q is detached. The product q * (p*x) has two slots, and the path to p goes through the "
          "other one: p still receives the gradient that it has in `joint`.",
          "the second slot of the teacher's last product.",
          (_with(leak=lambda s, p, q: (s, _NONE, _NONE)),)),
    Fault("q-kept", "q still receives a gradient in `leak`",
          "`detach(q)` stands where q is used, so the only path to q ends there. p is the one that still receives a "
          "gradient.",
          "the slot of q in the last product.",
          (_with(leak=lambda s, p, q: (s, p, q)),)),
    Fault("wrong-one", "in `leak`, p and q are exchanged",
          "`detach(q)` cuts the way to q itself. The other factor, p*x, is connected as before.",
          "which of the two weights stands inside the detach.",
          (_with(leak=lambda s, p, q: (s, _NONE, q)),)),
    Fault("wrong-side", "the student is cut in place of the teacher",
          "In `fixed` you left the teacher its gradients and took away the student's. The detach is around the "
          "teacher's answer. With your cut the teacher would learn from the student.",
          "which side of the difference stands inside the detach.",
          (_with(fixed=lambda s, p, q: (_NONE, p, q)),
           _with(fixed=lambda s, p, q: (_NONE, p, q), leak=lambda s, p, q: (_NONE, p, q)))),
    Fault("all-stopped", "nobody learns from the fixed teacher",
          "In `fixed` you left no gradient at all. The student's answer is not inside the detach, and a detached "
          "target still has its value: the student can come closer to it.",
          "the path from the loss to s.",
          (_with(fixed=lambda s, p, q: (_NONE, _NONE, _NONE)),)),
    Fault("factor-lost", "the detached q no longer counts as a factor",
          "In `leak` your gradient of p is the right one without the factor q. `detach(q)` has the value of q, and the "
          "slope of q * (p*x) with respect to p*x is that value.",
          "what a detached tensor keeps.",
          (lambda d: (*_right(d)[:2], (_parts(d)[0], _parts(d)[1] / d[3], _NONE)),)),
    Fault("teacher-sign", "the teacher's gradients have the wrong sign",
          "The teacher's answer is subtracted, so a share that goes to its side is multiplied by -1. In a joint "
          "training the two move towards each other; with your signs they would move the same way.",
          "the slope of a difference with respect to its second operand.",
          (_scaled(lambda d: (_parts(d)[0], -_parts(d)[1], -_parts(d)[2])),)),
    Fault("own-factor", "p and q got each other's slope",
          "In a product, the slope for one factor is the *other* factor: for p that is q * x, for q it is p * x. Or "
          "the two numbers are right and have changed places: the order is s, p, q.",
          "the rule of the product, once for each slot.",
          (_scaled(lambda d: (_parts(d)[0], _parts(d)[2], _parts(d)[1])), _with(joint=lambda s, p, q: (s, q, p)))),
    Fault("two-missing", "the 2 of the square is missing",
          "The derivative of u**2 is 2 * u. All your gradients are half of what they should be.",
          "the last step of the graph, the square.",
          (_scaled(lambda d: tuple(g / 2 for g in _parts(d))),)),
    Fault("x-missing", "the factor x is missing",
          "Your gradient of s is 2 * u. The student's answer is s * x, so on the way from the answer to s a factor x "
          "comes in. The same holds for p and q.",
          "the last edge of each path, the one that ends at the weight.",
          (_scaled(lambda d: tuple(g / d[0] for g in _parts(d))),)),
)

# 12.b: the loss of both tasks, in code.


def _models(kind, numbers):
    """(student, teacher) of one of four kinds, over new Vars with these numbers."""
    import numpy as np

    import autodiff as ad

    def var(name, *shape):
        taken = [next(values) for _ in range(int(np.prod(shape)))]
        return ad.Var(np.array(taken).reshape(shape), name=name)

    values = iter(numbers)
    if kind == "one weight each":
        s, t = var("s"), var("t")
        return lambda x: s * x, lambda x: t * x
    if kind == "two weights each":
        s1, s2, t1, t2 = (var(name) for name in ("s1", "s2", "t1", "t2"))
        return lambda x: s2 * np.tanh(s1 * x), lambda x: t2 * np.tanh(t1 * x)
    if kind == "a weight e in both":
        e, s, t = (var(name) for name in ("e", "s", "t"))
        return lambda x: s * (e * x), lambda x: t * (e * x)
    w, b, v = var("w", 2, 2), var("b", 2), var("v", 2, 2)
    return lambda x: x @ w + b, lambda x: np.tanh(x @ v)


_KINDS = ("one weight each", "two weights each", "a weight e in both", "matrices")


def _cases_b(rng):
    import autodiff as ad

    def case(kind, numbers, x, joint):
        def args():
            student, teacher = _models(kind, numbers)
            return Named("student", student), Named("teacher", teacher), ad.Tensor(x), joint

        return Case(args, f"{'joint' if joint else 'fixed'}, {kind}")

    def some(n):
        return [rng.choice([-1, 1]) * rng.choice([0.25, 0.5, 0.75, 1.25, 1.5]) for _ in range(n)]

    made = [case(_KINDS[0], [1.0, 3.0], [2.0], joint) for joint in (True, False)]
    for kind in _KINDS[1:]:
        numbers = [n + 0.125 * k for k, n in enumerate(some(10))]
        x = [some(2) for _ in range(3)] if kind == "matrices" else some(3)
        made += [case(kind, numbers, x, joint) for joint in (True, False)]
    return made


def _read(made):
    """{"value": ..., name of a Var: its gradient}; what is no tensor or number stays as it is."""
    found = None if isinstance(made, (tuple, list)) else reading(made)
    return made if found is None else {"value": found[0], **dict(sorted(found[1].items()))}


def _distance(student, teacher, x, joint, fixed=None, together=None, reduced=lambda square: square.mean()):
    """The loss, with other cuts: `fixed` and `together` make the pair of answers from the two."""
    cut = (together or (lambda s, t: (s, t))) if joint else (fixed or (lambda s, t: (s, t.detach())))
    s, t = cut(student(x), teacher(x))
    return reduced((s - t) ** 2)


def _varied(**how):
    return lambda student, teacher, x, joint: _distance(student, teacher, x, joint, **how)


def _two_halves(student, teacher, x, joint):
    half = _distance(student, teacher, x, False)
    return half + _distance(student, teacher, x, True, together=lambda s, t: (s.detach(), t)) if joint else half


def _cuts(answer, case):
    """What is detached in one call: "x", "teacher" for the teacher's answer, "" for anything else."""
    student, teacher, x, joint = case.fresh()
    answers, cut = [], []

    def taught(*args):
        answers.append(teacher(*args))
        return answers[-1]

    def detach(tensor):
        cut.append("x" if tensor is x else "teacher" if any(tensor is a for a in answers) else "")
        return whole(tensor)

    whole = Tensor.detach
    with mock.patch.object(Tensor, "detach", detach):
        run(answer, student, Named("teacher", taught), x, joint)
    return cut


def _looks_like_a_loss(attempt, answer, runs):
    for _, call, result in runs:
        if isinstance(result.value, GradStore):
            return attempt.fault("store-returned", printed(result), None, call=call)
        if not isinstance(_read(result.value), dict) or isinstance(result.value, dict):
            return attempt.wrong([f"`{call}` returned {show(result.value)}; expected one loss, a tensor."],
                                 look="Look at the last line of your function.")
    if all(_would_leak(case, result) for case, _, result in runs):
        case, call, result = next(one for one in runs if not one[0].fresh()[3])
        cut = _cuts(answer, case)
        id = "detach-unused" if "teacher" in cut else "cut-at-input" if cut and set(cut) == {"x"} else None
        if id is not None:
            return attempt.fault(id, printed(result), None, call=call)
    return None


def _would_leak(case, result) -> bool:
    """Whether this is the right loss with nothing cut, for a joint task or for a fixed teacher."""
    return same(_read(result.value), _read(_varied(fixed=lambda s, t: (s, t))(*case.fresh())))


def _both_sides(s, t):
    return s.detach(), t.detach()


_FAULTS_B = (
    Fault("leak", "the gradient leaks to the fixed teacher",
          "With joint=False the teacher's weights are in the store: no path to them is cut. The value of the loss is "
          "right, so training would look good, and the teacher would change.",
          "which tensor all paths to the teacher go through, and what makes a constant of it. A `copy` does not.",
          (_varied(fixed=lambda s, t: (s, t)),)),
    Fault("detach-unused", "the teacher's answer is detached, and used as it was",
          "With joint=False the teacher's weights are in the store. Your function calls `detach` on the teacher's "
          "answer, but `t.detach()` returns a *new* tensor and changes nothing on t. If its result is not used, "
          "nothing is cut.",
          "what you do with the result of `detach()`. Which tensor stands in the last line?"),
    Fault("cut-at-input", "the input is detached, not the answer",
          "With joint=False the teacher's weights are in the store. You detached the input `x`. But the teacher's "
          "weights are not behind x: each path to them ends *before* it comes to x.",
          "the path from the loss down to a weight of the teacher. Which tensors does it go through?"),
    Fault("detach-a-function", "a model is detached, not its answer",
          "`teacher` is a function, and a function has no `detach`. What has a history is its *answer* to x, a tensor.",
          "the brackets: the answer is what a call of `teacher` returns.",
          (lambda student, teacher, x, joint: teacher.detach(),
           lambda student, teacher, x, joint: _distance(student, teacher if joint else teacher.detach(), x, joint))),
    Fault("store-returned", "a gradient store is returned, not the loss",
          "`{call}` ran a backward pass and returned its store. Asked for is the loss itself: the check asks it for "
          "its gradients.",
          "the last line of your function: it needs no `backward`."),
    Fault("not-reached", "the joint task does not reach the teacher",
          "With joint=True both are to learn, and the teacher's weights are absent from the store: its answer is cut "
          "in both tasks.",
          "where your code asks for `joint`.",
          (_varied(together=lambda s, t: (s, t.detach())),)),
    Fault("exchanged", "the two tasks stand in each other's place",
          "With joint=True the teacher is cut, and with joint=False it is not. The flag is read the wrong way round.",
          "the condition of your `if`.",
          (_varied(fixed=lambda s, t: (s, t), together=lambda s, t: (s, t.detach())),)),
    Fault("wrong-side", "with a fixed teacher, the student is cut",
          "With joint=False the weights of the student are absent, and those of the teacher are there. The teacher "
          "would learn from a fixed student. The loss would fall all the same.",
          "which of the two answers your code detaches.",
          (_varied(fixed=lambda s, t: (s.detach(), t)),)),
    Fault("all-stopped", "with a fixed teacher, nobody receives a gradient",
          "With joint=False your loss has no history at all, so the student cannot learn either. Only the teacher's "
          "answer is to be cut.",
          "how many lines stand inside `no_grad`, or what else is detached.",
          (_varied(fixed=_both_sides),)),
    Fault("no-history", "no gradient comes out in either task",
          "Your loss has the right value, and it is a plain number, an array or a detached tensor in both tasks. The "
          "loss must be returned with its history.",
          "`.item()`, `.data` or `detach` on the student's side.",
          (_varied(fixed=_both_sides, together=_both_sides),)),
    Fault("two-halves", "the loss is counted twice",
          "With joint=True your gradients are right and your loss is twice as large. You added two losses, each with "
          "one side held. The plain difference, with nothing cut, already sends a share to both sides.",
          "how many squares your joint loss has.",
          (_two_halves,)),
    Fault("sum", "the sum is taken where the mean is asked for",
          "For three inputs your loss and your gradients are three times too large. With one input there is no "
          "difference.",
          "the word in the task: sum, or mean?",
          (_varied(reduced=lambda square: square.sum()),)),
    Fault("not-reduced", "the mean is missing",
          "Your loss has one entry for each input. The mean over all entries makes one number of it.",
          "the last step of the loss.",
          (_varied(reduced=lambda square: square),)),
    NO_RETURN,
)

# 12.c and 12.d: tests for both tasks. A planted setup is a function from a NumPy generator to (loss, student, teacher).


def _setup(name, student=(), teacher=(), answer=None, begins_as_teacher=False, penalty=False, small=False,
           shared=False):
    """A setup. `student` and `teacher`: places of the weights that are cut; `answer(s, t)`: the pair of answers."""
    def make(rng):
        import numpy as np

        import autodiff as ad

        def weights(letter):
            shapes = [(2,)] if small else [(2, 3), (3,), (3,)]
            return [ad.Var(rng.standard_normal(shape), name=f"{letter}{k}") for k, shape in enumerate(shapes, 1)]

        def output(ws, cut):
            ws = [w.detach() if k in cut else w for k, w in enumerate(ws)]
            return x @ ws[0] if small else np.tanh(x @ ws[0] + ws[1]) @ ws[2]

        x = rng.standard_normal((4, 2))
        ts = weights("t")
        ss = [ad.Var(t.data, name=t.name.replace("t", "s")) for t in ts] if begins_as_teacher else weights("s")
        if shared:
            ss[0] = ts[0]
        s, t = (answer or (lambda s, t: (s, t)))(output(ss, student), output(ts, teacher))
        loss = ((s - t) ** 2).mean()
        if penalty:
            loss = loss + 0.01 * sum((w**2).sum() for w in (*ss, *ts))
        return loss, ss, ts

    make.__name__ = name
    return make


def _fresh(setup, rng):
    """A setup to call: no argument, and new weights at each call."""
    import numpy as np

    generator = np.random.default_rng(rng.randrange(2**32))
    return lambda: setup(generator)


def _teacher_cut(s, t):
    return s, t.detach()


def _student_cut(s, t):
    return s.detach(), t


_ALL = (0, 1, 2)
_RIGHT_C = {
    "teacher's answer as an array": _setup("a", answer=lambda s, t: (s, t.data)),
    "teacher's answer detached": _setup("b", answer=_teacher_cut),
    "each teacher weight detached": _setup("c", teacher=_ALL),
    "one weight each": _setup("d", answer=_teacher_cut, small=True),
    "student begins as the teacher": _setup("e", answer=_teacher_cut, begins_as_teacher=True),
}
_RIGHT_D = {
    "nothing cut": _setup("a"),
    "one weight each": _setup("b", small=True),
    "a weight that both use": _setup("c", shared=True),
    "student begins as the teacher": _setup("d", begins_as_teacher=True),
}

_ACCEPTS = Fault("accepts-all", "your tests accept everything",
                 "They accept `{name}`, and every other faulty setup. Perhaps they look at the loss, and the loss "
                 "cannot tell where a cut is.",
                 "the store that `loss.backward()` returns: which weights are in it?")
_REFUSES = Fault("refuses-all", "your tests refuse everything, also the right setups",
                 "They refuse `{name}`, and every other right setup. Ask the store with `weight in grads`: that gives "
                 "True or False for one weight, not for a list.",
                 "your conditions one at a time. Print each for one setup.")
_NONZERO = Fault("nonzero-demanded", "your tests demand a gradient that is not 0",
                 "In `{name}` the two give equal answers, so the loss is 0 and each gradient is 0 at this moment. The "
                 "weights are reached all the same, and after the next change of data they learn. Reached with slope 0 "
                 "is not the same as not reached.",
                 "a comparison of the gradient with 0. Ask whether the weight is in the store.")
_TOO_STRICT = Fault("refuses-right", "your tests refuse a right setup",
                    "`{name}` is right, and your tests refuse it. They ask for something that the task does not ask "
                    "for: perhaps a certain number of weights, a sign, or that no weight stands in both lists.",
                    "what your tests demand besides \"in the store\" and \"not in the store\".")


_PLAIN = Fault("plain-tensors-counted", "your tests do not expect a plain tensor in the store",
               "In `{name}` the detached answer is a plain Tensor and a direct input of an op, so the store has an "
               "entry for it too, beside those of the weights. The training is right. Ask for the weights one by one, "
               "and not for the whole content of the store.",
               "what your tests do with `len(grads)` or `grads.ids()`.")


_NOTHING = Fault("returns-nothing", "the function returns nothing, and no assertion fails",
                 "`{call}` returned None for every setup, right or faulty. A function that says no by `assert` may do "
                 "so for a right one, and yours never fails. What is printed is no verdict.",
                 "the last line of your function: `return`, in front of the condition.")
_NEW_MODELS = Fault("setup-again", "`setup` is called more than once",
                    "Your function calls `setup()` {calls} times. Each call makes new models with new weights. The "
                    "weights of one call are never in the store of another: it does not know them.",
                    "the line with `setup()`. One call returns all three things together.")
_LIST_ASKED = Fault("list-asked", "the store is asked for a whole list",
                    "`in` asks a gradient store about one Tensor. `student` and `teacher` are lists of them.",
                    "the line shown. Go through the list, and ask for one weight at a time.")
_DOT_GRAD = Fault("dot-grad", "a weight has no `.grad`",
                  "In PyTorch the gradient is an attribute of the leaf. Here a backward pass returns a store, and the "
                  "Vars stay as they are.",
                  "what `loss.backward()` returns, and how you ask it about one weight.")
_ERRORS = {"indexed by a Tensor, not by list": _LIST_ASKED.id, "has no .grad": _DOT_GRAD.id}


def _watched(task):
    """The task of the form `tests`, in which 0 and 1 are verdicts too, and calls of the setup are counted."""
    def judge(attempt):
        answer, = attempt.answers
        if blank(answer) or not callable(answer):
            return task.judge(attempt)
        calls, values, texts = [], [], []

        def seen(setup):
            def counted():
                calls[-1] += 1
                return setup()

            calls.append(0)
            value = answer(counted)
            values.append(value)
            texts.append(sys.stdout.getvalue() if isinstance(sys.stdout, io.StringIO) else "")
            return bool(value) if type(value) is int and value in (0, 1) else value

        seen.__name__ = name_of(answer)
        inner = replace(attempt, answers=(seen,))
        result = task.judge(inner)
        attempt.used_seed |= inner.used_seed
        return _sharper(attempt, result, calls, values, texts)

    return replace(task, judge=judge)


def _sharper(attempt, result, calls, values, texts):
    """A diagnosis from what the tests did, in place of one from what they accept."""
    said = " ".join(result.body)
    call = f"{attempt.task.wants[0]}(setup)"
    found = next((fault for text, fault in _ERRORS.items() if text in said), None)
    if result.status == WRONG and result.fault is None and found:
        return attempt.fault(found, result.body)
    if result.fault not in (_ACCEPTS.id, _REFUSES.id):
        return result
    if min(calls) > 1:
        return attempt.fault(_NEW_MODELS.id, (), result.table, calls=min(calls))
    if values and all(value is None for value in values):
        shown = printed(Run("returned", printed=next(filter(None, texts), "")))
        return attempt.fault(_NOTHING.id, shown, result.table, call=call)
    return result


def _other_task(asked, other):
    return Fault("other-task", f"your tests refuse the plain {asked} training",
                 f"They refuse `{{name}}`, the plainest {asked} training there is, and accept something else. Perhaps "
                 f"you ask of the teacher's weights what belongs to the {other} training.",
                 "what this task demands of the teacher's weights: in the store, or not? Print each condition.")


def _refusals(right):
    """Which fault is named for a right setup that is refused; the first setup is the plainest."""
    named = {name: "nonzero-demanded" if name.startswith("student begins") else "refuses-right" for name in right}
    return named | {next(iter(right)): "other-task"}


_FAULTS_C = (
    Fault("leak", "a teacher that receives gradients is accepted",
          "In `{name}` every weight of the teacher is in the store. The teacher is to stay as it is, so a test must "
          "ask for each of its weights that it is *not* there.",
          "the part of your tests that looks at `teacher`.",
          (_setup("no_cut"), _setup("penalty_on_all_weights", answer=_teacher_cut, penalty=True))),
    Fault("leak-at-zero", "a leak is accepted, because its gradients are 0 just now",
          "In `{name}` nothing is cut, and student and teacher happen to give equal answers. So the teacher's "
          "gradients are there, and they are 0. As soon as the student has moved they are not 0 any more. Present with "
          "0 and absent are two different things.",
          "a comparison of the gradient with 0. Ask whether the weight is in the store.",
          (_setup("no_cut_and_equal_answers", begins_as_teacher=True),)),
    Fault("leak-in-one", "a leak to one weight of the teacher is accepted",
          "In `{name}` a path to one weight of the teacher is open, and the others are closed. Your tests look at some "
          "of its weights, and not at this one.",
          "how many entries of `teacher` your tests ask for. All of them can leak.",
          (_setup("leak_to_the_first", teacher=(1, 2)), _setup("leak_to_the_second", teacher=(0, 2)),
           _setup("leak_to_the_last", teacher=(0, 1)))),
    Fault("student-not-reached", "a training in which nobody learns is accepted",
          "In `{name}` the student's answer is cut too. Then no teacher weight is in the store, as you ask, and no "
          "student weight either. A test for what must be absent is half a test: something must be present.",
          "the part of your tests that looks at `student`.",
          (_setup("both_answers_cut", answer=lambda s, t: (s.detach(), t.detach())),)),
    Fault("student-in-part", "a student that learns only in part is accepted",
          "In `{name}` one weight of the student is cut off, and the others are reached. It is enough for your tests "
          "that some are.",
          "`any` where `all` is meant, or a single entry of `student`.",
          (_setup("first_student_weight_cut", answer=_teacher_cut, student=(0,)),
           _setup("last_student_weight_cut", answer=_teacher_cut, student=(2,)))),
    Fault("wrong-side", "a training in which the teacher learns from the student is accepted",
          "In `{name}` the cut is on the student's side: the teacher's weights are in the store, and the student's are "
          "not. Your tests ask how many are reached, or whether one side is, but not which.",
          "the names in your conditions. Which list must be there, and which must not?",
          (_setup("student_cut", answer=_student_cut),)),
    _ACCEPTS, _REFUSES, _NONZERO, _TOO_STRICT, _PLAIN, _other_task("fixed", "joint"), _NOTHING, _NEW_MODELS,
    _LIST_ASKED, _DOT_GRAD,
)
_FAULTS_D = (
    Fault("teacher-not-reached", "a joint training that does not reach the teacher is accepted",
          "`{name}` is the other task: the teacher's answer is cut. In the joint training the teacher's weights must "
          "be in the store too.",
          "the part of your tests that looks at `teacher`.",
          (_setup("teacher_cut", answer=_teacher_cut),)),
    Fault("student-not-reached", "a joint training that does not reach the student is accepted",
          "In `{name}` the student's answer is cut, so only the teacher moves. Both must be in the store.",
          "the part of your tests that looks at `student`.",
          (_setup("student_cut", answer=_student_cut),)),
    Fault("teacher-in-part", "a teacher that learns only in part is accepted",
          "In `{name}` one weight of the teacher is cut off where it is used. It is enough for your tests that some "
          "are reached.",
          "`any` where `all` is meant, or a single entry of `teacher`.",
          (_setup("first_teacher_weight_cut", teacher=(0,)), _setup("second_teacher_weight_cut", teacher=(1,)),
           _setup("last_teacher_weight_cut", teacher=(2,)))),
    Fault("student-in-part", "a student that learns only in part is accepted",
          "In `{name}` one weight of the student is cut off where it is used. Your tests do not ask for each entry of "
          "`student`.",
          "`any` where `all` is meant, or a single entry of `student`.",
          (_setup("first_student_weight_cut", student=(0,)), _setup("last_student_weight_cut", student=(2,)))),
    Fault("nothing-reached", "a training in which nobody learns is accepted",
          "In `{name}` both answers are cut, and the store has no weight at all. Your tests compare the two sides with "
          "each other, and two empty sides are equal.",
          "a test that each weight is there.",
          (_setup("both_answers_cut", answer=lambda s, t: (s.detach(), t.detach())),)),
    _ACCEPTS, _REFUSES, _NONZERO, _TOO_STRICT, _other_task("joint", "fixed"), _NOTHING, _NEW_MODELS, _LIST_ASKED,
    _DOT_GRAD,
)

_A, _B, _C, _D = (
    by_hand("12.a", "who receives a gradient?", ("joint", "fixed", "leak"), deal=lambda k: _DEALS[k % len(_DEALS)],
            given=_given, right=_right, faults=_FAULTS_A, how=_how, words=(_NONE,), hints=(
        "Begin with the joint loss: three paths, one number for each weight. In the other two losses no number "
        "changes. A path is either open or cut, so a weight either has its number or \"none\".",
        "u is the difference.\n\n"
        "                2 * u\n"
        "                  u\n"
        "             1 /     \\ -1\n"
        "            s*x       q * (p*x)\n"
        "             |         |     |\n"
        "             s         q     p\n\n"
        "Mark the place of the detach in this picture, for `fixed` and for `leak`. Which weights are below it?",
        "With u = s*x - q*(p*x):\n\n"
        "    joint = (2 * u * x,  -2 * u * ...,  -2 * u * ...)\n"
        "    fixed = (joint[0],  ...,  ...)      # a number or \"none\"\n"
        "    leak  = (joint[0],  ...,  ...)"),
        good="A cut changes no number. It decides which weights have one."),
    function("12.b", "one loss for both tasks", "loss", "student, teacher, x, joint", cases=_cases_b, right=lambda *a:
             _read(_distance(*a)), tidy=_read, look_at=_looks_like_a_loss, faults=_FAULTS_B, did="made",
             lines=2_000_000, hints=(
        "Compute both answers first. Then there is one decision: is the teacher's answer used as it is, or as a "
        "constant? The rest of the function is the same for both tasks.",
        "    joint             joint=False\n\n"
        "    loss              loss\n"
        "    /  \\              /  \\\n"
        "   s    t            s    (t)     <- same value, no history\n"
        "   |    |            |\n"
        "  weights           weights",
        "    def loss(student, teacher, x, joint):\n"
        "        s, t = student(x), teacher(x)\n"
        "        if ...:\n"
        "            t = ...\n"
        "        return ((s - t) ** 2).mean()"),
        good="One decision: with a fixed teacher its answer is a constant, and in the joint task nothing is cut."),
    tests("12.c", "tests for the fixed teacher", "fixed_is_right", "setup", right=_RIGHT_C, faults=_FAULTS_C,
          fresh=_fresh, what="setup", hints=(
        "The loss cannot tell. Call `loss.backward()` and ask the store about every weight of both lists. What must be "
        "true for each student weight, and what for each teacher weight?",
        "    a setup                     student in store      teacher in store     accept?\n"
        "    right                       every one             none                 yes\n"
        "    no cut                      every one             every one            ?\n"
        "    both answers cut            none                  none                 ?\n"
        "    a leak to one weight        every one             one                  ?",
        "    def fixed_is_right(setup):\n"
        "        loss, student, teacher = setup()\n"
        "        grads = loss.backward()\n"
        "        learns = ...      # every weight of the student is in grads\n"
        "        stays = ...       # no weight of the teacher is\n"
        "        return learns and stays"),
        refusals=_refusals(_RIGHT_C) | {"teacher's answer detached": _PLAIN.id},
        good="Your tests accept every right setup and refuse each planted fault: they ask for what must be there, and "
             "for what must not."),
    tests("12.d", "tests for the joint training", "joint_is_right", "setup", right=_RIGHT_D, faults=_FAULTS_D,
          fresh=_fresh, what="setup", refusals=_refusals(_RIGHT_D), hints=(
        "It is the same store and the same question. Only the answer that you expect for the teacher is another one.",
        "    a setup                     student in store      teacher in store     accept?\n"
        "    right                       every one             every one            yes\n"
        "    teacher cut                 every one             none                 ?\n"
        "    one teacher weight cut      every one             all but one          ?",
        "    def joint_is_right(setup):\n"
        "        loss, student, teacher = setup()\n"
        "        grads = loss.backward()\n"
        "        return all(... for w in ...)"),
        good="In the joint training every weight of both sides must be in the store, and your tests say so."),
)
TASKS = (with_words(_A, _NONE, ("absent", None)), _B, _watched(_C), _watched(_D))
