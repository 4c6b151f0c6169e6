"""The engine whose parts are the learner's where they are written, and ours where they are not.

The parts call each other by their names: a `Node` calls `record`, which makes a `Node`. So an engine that is mixed of
the learner's parts and ours needs these names to mean the same in the learner's notebook and in our file, `mini`. A
``with`` block of an `Engine` gives them this meaning, and takes it back at its end.
"""

import dis
import inspect
import types
from collections.abc import Iterator, Mapping

import numpy as np

from autodiff.course.capstone import mini
from autodiff.course.capstone.watch import Watch
from autodiff.course.forms import apart, same
from autodiff.course.judge import blank, printed, run
from autodiff.course.result import Page

PARTS = ("RULES", "Node", "record", "sorted_nodes", "GradStore", "backward", "gradcheck")
OURS = types.MappingProxyType({name: getattr(mini, name) for name in PARTS})
OPS = tuple(mini.RULES)
_NOTHING = object()


class Engine:
    """Seven parts by their names: those given, and ours for the rest.

    >>> Engine(backward=lambda root: "mine").yours
    ('backward',)

    Each part is an attribute too. `RULES` may have some of the ops: the others are ours.
    """

    def __init__(self, /, **parts):
        unknown = set(parts) - set(PARTS)
        if unknown:
            raise TypeError(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
        self.given = dict(parts)
        self.parts = {**OURS, **parts}
        if isinstance(self.parts["RULES"], Mapping):
            rules = {op: rule for op, rule in self.parts["RULES"].items() if not blank(rule)}
            self.parts["RULES"] = {**OURS["RULES"], **rules}
        homes = [f.__globals__ for part in parts.values() for f in functions_of(part) if not _is_ours(f)]
        self._spaces = _different([vars(mini), *homes])
        self._before = []

    @classmethod
    def of(cls, names: Mapping) -> "Engine":
        """The engine of a notebook whose names are ``globals()``: what is still a stub is ours."""
        engine = cls(**{name: names[name] for name in PARTS if name in names and written(name, names[name])})
        return engine.around(names)

    def around(self, names: Mapping) -> "Engine":
        """This engine, whose parts have their names in a notebook too: `names` are its ``globals()``."""
        if isinstance(names, dict):
            self._spaces = _different([*self._spaces, names])
        return self

    @property
    def yours(self) -> tuple[str, ...]:
        return tuple(name for name in PARTS if name in self.given)

    def __getattr__(self, name):
        parts = self.__dict__.get("parts", {})
        if name in parts:
            return parts[name]
        raise AttributeError(f"an engine has no {name}; its parts are {', '.join(PARTS)}")

    def __enter__(self) -> "Engine":
        self._before.append([{name: space.get(name, _NOTHING) for name in PARTS} for space in self._spaces])
        for space in self._spaces:
            space.update(self.parts)
        return self

    def __exit__(self, *exc):
        for space, before in zip(self._spaces, self._before.pop()):
            for name, part in before.items():
                if part is _NOTHING:
                    space.pop(name, None)
                else:
                    space[name] = part

    def apply(self, op, *inputs, **params):
        """The node of an operation that has no operator, such as tanh."""
        return self.parts["record"](op, *inputs, **params)

    def draw(self, f, /, **values):
        """The graph of ``f`` at these values, made by this engine, with its gradients. See `step`."""
        import autodiff as ad

        return self._shown(f, values, lambda root, grads, names: ad.draw(root, grads, names=names))

    def step(self, f, /, **values):
        """Step through the backward pass of ``f`` on a twin of the graph that this engine made.

        `values` are the variables by the names of ``f``'s arguments. Where the engine stops or gives other gradients
        than its twin, a page says so.
        """
        import autodiff as ad

        return self._shown(f, values, lambda root, grads, names: ad.step(root, names=names))

    def _shown(self, f, values, display):
        def build():
            leaves = {name: self.Node(value, variable=True, name=name) for name, value in values.items()}
            root = f(**leaves)
            grads = self.backward(root)
            return leaves, root, mirror(root), {name: grads.get(leaf) for name, leaf in leaves.items()}

        with self, np.errstate(all="ignore"):
            made = run(build)
        if made.ended != "returned":
            reason = f"{type(made.error).__name__}: {made.error}" if made.error is not None else made.ended
            where = [f"    {made.where}"] if made.where else []
            return Page("Your engine stopped", [f"{reason}.", *where, *printed(made), _LOOK])
        leaves, root, twins, grads = made.value
        right = twins[root].backward()
        ours = {}
        for name, leaf in leaves.items():
            got, want = grads[name], right.get(twins[leaf]) if leaf in twins else None
            if (got is None) != (want is None) or (want is not None and not same(got, want.data)):
                told = apart("absent" if got is None else got, "absent" if want is None else want.data)
                return Page("Your engine gives another gradient than its twin", [
                    "At {}: {}; expected {}.".format(name, *told), _LOOK])
            if got is not None:
                ours[twins[leaf]] = np.asarray(got)
        label = "out" if f.__name__ == "<lambda>" else f.__name__
        return display(twins[root], ours, {label: twins[root]})


_LOOK = "Run `board(globals())`: it says which part it is."


def _different(spaces) -> list[dict]:
    return list({id(space): space for space in spaces}.values())


def mirror(root) -> dict:
    """A twin of the graph in `autodiff`: a dict from each node that `root` was made from to its Tensor or Var."""
    import autodiff as ad

    twins = {}

    def twin(node):
        if node not in twins:
            twins[node] = ad.Tensor(node.value, name=node.name)
        return twins[node]

    for node in reversed(OURS["sorted_nodes"](root)):
        if node.op is None:
            twins[node] = ad.Var(node.value, name=node.name)
        else:
            twins[node] = OURS["RULES"][node.op][0](*map(twin, node.inputs), **node.params)
    twin(root)
    return twins


_SAMPLES = {  # a call of each part by which a stub shows itself
    "Node": lambda Node: Node(1.0),
    "record": lambda record: record("add", 1.0, 2.0),
    "sorted_nodes": lambda sorted_nodes: sorted_nodes(mini.Node(1.0)),
    "GradStore": lambda GradStore: GradStore(),
    "backward": lambda backward: backward(mini.Node(1.0)),
    "gradcheck": lambda gradcheck: gradcheck(lambda x: x, np.array(1.0)),
}


def written(name: str, part) -> bool:
    """Whether a part has been written: it is no stub, and not one of ours."""
    if part is None or blank(part) or part is OURS[name]:
        return False
    if name == "RULES":
        return not isinstance(part, Mapping) or any(not blank(rule) for rule in part.values())
    with Engine(**{name: part}):
        return run(_SAMPLES[name], part).ended != "not started"


# What a part is made of


def functions_of(part) -> Iterator[types.FunctionType]:
    """The Python functions of a part: itself, the methods of a class, the lambdas of a table."""
    if isinstance(part, Mapping):
        for value in part.values():
            yield from functions_of(value)
    elif isinstance(part, (tuple, list)):
        for value in part:
            yield from functions_of(value)
    elif isinstance(part, type):
        for kind in part.__mro__:
            if kind.__module__ == part.__module__:  # a base from a library is no work of the learner's
                for value in vars(kind).values():
                    value = getattr(value, "fget", None) or getattr(value, "__func__", value)
                    if isinstance(value, types.FunctionType):
                        yield value
    else:
        part = getattr(part, "__func__", inspect.unwrap(part) if callable(part) else part)
        if isinstance(part, types.FunctionType):
            yield part


def borrowed_from(part) -> str | None:
    """What of `autodiff` a part uses, by name: then the work is not the learner's. None when there is nothing."""
    if isinstance(part, type):
        base = next((kind for kind in part.__mro__ if kind.__module__.split(".")[0] == "autodiff"), None)
        if base is not None:
            return base.__qualname__
    waiting, seen = list(functions_of(part)), set()
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        if _is_ours(function):
            return function.__qualname__
        codes = [function.__code__]
        while codes:
            code = codes.pop()
            codes += [const for const in code.co_consts if inspect.iscode(const)]
            for step in dis.get_instructions(code):
                if step.opname == "IMPORT_NAME" and step.argval.split(".")[0] == "autodiff":
                    return step.argval
                if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval not in PARTS:
                    value = function.__globals__.get(step.argval)
                    if _is_ours(value):
                        return step.argval
                    if isinstance(value, types.FunctionType):
                        waiting.append(value)
    return None


def watch_over(engine: Engine, names, answers=()) -> Watch:
    """A `Watch` for an engine in which the parts with these names must be the learner's own.

    `answers`: more functions of ours that must not run.
    """
    own, others = list(answers), []
    for name in PARTS:
        part = engine.parts[name]
        if name == "RULES" and name in names and isinstance(part, Mapping):
            # Where a learner has some of the rules, the others are ours.
            theirs = {op for op, rule in part.items() if rule is not OURS["RULES"].get(op)}
            own += functions_of({op: rule for op, rule in OURS["RULES"].items() if op in theirs})
            others += functions_of({op: rule for op, rule in OURS["RULES"].items() if op not in theirs})
        elif name in names:
            own += functions_of(OURS[name])
        else:
            others += functions_of(part if isinstance(part, (Mapping, type, types.FunctionType)) else type(part))
    return Watch(own, others)


def _is_ours(value) -> bool:
    home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return isinstance(home, str) and home.split(".")[0] == "autodiff"


def reads(names: Mapping, count: int = 20):
    """Train with the notebook's ``train`` on its engine, and show what the network reads on unseen pictures."""
    from autodiff.course.capstone import training
    from autodiff.labs.images import images

    train = names.get("train")
    if train is None or blank(train):
        return Page("Nothing to read yet", ["Write `train` first."])
    *_, x, _ = training.digits()
    with Engine.of(names), np.errstate(all="ignore"):
        made = run(train, training.network(), training.batches(), training.RATE, lines=10_000_000)
    if made.ended == "not started":
        return Page("Nothing to read yet", ["Write `train` first."])
    try:
        labels = training.scores_of([np.asarray(getattr(p, "value", p)) for p in made.value], x).argmax(axis=1)
    except Exception:
        return Page("The training did not end with four arrays", ['`check("17.h", train)` says why.'])
    return images(x[:count].reshape(-1, 8, 8), labels[:count])


def board(engine, seed: int = 0) -> Page:
    """Which lessons' tests pass on an engine: an `Engine`, or the names of a notebook, ``globals()``."""
    from autodiff.course.capstone.suite import run_suite

    return run_suite(engine if isinstance(engine, Engine) else Engine.of(engine), seed)
