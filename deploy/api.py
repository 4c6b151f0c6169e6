"""Write autodiff/README.md, the reference page of the engine, from its docstrings. With --check, only compare.

    python deploy/api.py [--check]
"""

from __future__ import annotations

import inspect
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "autodiff" / "README.md"

SECTIONS = [
    ("Values", "Tensor Var no_grad"),
    ("The backward pass", "sorted_nodes GradStore MissingGradientError detect_nonfinite StaleGraphError"),
    ("What is refused", "HistoryLostError NoRuleError"),
    ("Transforms", "grad value_and_grad vjp jvp jacobian hessian hvp"),
    ("Operations of your own, and memory", "custom_op checkpoint"),
    ("Checking", "gradcheck gradgradcheck GradcheckReport GradcheckError"),
    ("Seeing it", "draw trace step"),
    ("Labs", "labs.ties labs.detach labs.differences labs.broadcasting labs.training labs.checkpointing"),
    ("Optimisers", "optim.SGD optim.AdamW"),
    ("Life-cycles", "contracts.candle contracts.pytorch contracts.burn contracts.reset"),
    ("The scalar engine", "scalar.Value"),
]
INTRODUCTION = """\
# The engine

`import autodiff as ad` needs NumPy alone. This page is made from the docstrings by `make reference`; every example on
it is run by the tests.

Where things are. A file imports only what stands above it in this list:

| file | what is in it |
|---|---|
| `rules/` | the table of derivatives (`table.py`, `nn.py`), and the functions written with others |
| `freeing.py` | freeing a deep graph where Python 3.13 would overrun a thread's stack |
| `graph.py` | what a node remembers; the order to work in |
| `familiar.py` | what names of other libraries are called here |
| `outside.py` | what may come in, and what must not leave in silence |
| `recording.py` | running a NumPy function on values, and remembering how the result was computed |
| `explain.py`, `gradstore.py`, `backward.py` | the backward pass, and the store it leaves |
| `tensor.py`, `operators.py` | Tensor and Var |
| `functions.py` | what NumPy has no name for: activations, convolutions, pools, scatter and gather |
| `transforms.py`, `custom.py`, `checkpoint.py`, `optim.py`, `contracts.py` | built on top of `backward` |
| `gradcheck.py`, `checking/` | the checker of gradients, and how it explains what it finds |
| `drawing/`, `tracing/`, `widgets.py`, `labs/`, `static/` | seeing it and playing with it; loaded when asked for |
| `course/` | exercises: checks, hints, progress |
| `scalar.py` | the course's first engine, without NumPy |
"""


def page() -> str:
    """The whole page."""
    sys.path.insert(0, str(ROOT))
    import autodiff as ad
    import autodiff.scalar  # noqa: F401  shown on the page, and not loaded with the engine
    from autodiff import functions

    parts, shown = [INTRODUCTION], set()
    for title, names in SECTIONS:
        parts.append(f"## {title}\n")
        for name in names.split():
            shown.add(name.split(".")[0])
            parts.append(entry(ad, name))
    parts.append("## Functions\n")
    parts.append("PyTorch's names and argument order, NumPy's keywords. All importable from `autodiff` too.\n")
    for name in sorted(functions.__all__):
        shown.add(name)
        parts.append(entry(functions, name, "ad."))
    missing = set(ad.__all__) - shown
    if missing:
        raise SystemExit(f"deploy/api.py: give these public names a section: {', '.join(sorted(missing))}")
    parts.append(numpy_functions())
    return "\n".join(parts).rstrip() + "\n"


def entry(module, name: str, prefix: str = "ad.") -> str:
    """One name: its signature and its docstring, and those of its public members if it is a class."""
    thing = module
    for part in name.split("."):
        thing = getattr(thing, part)
    lines = [f"### `{prefix}{name}{signature(thing)}`\n", markdown(thing)]
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        lines += members(thing)
    return "\n".join(lines)


def members(cls) -> list[str]:
    """The public attributes of a class in one list, then its methods; those that are NumPy's own in one line."""
    own = [c for c in reversed(cls.__mro__) if c.__module__.startswith("autodiff")]
    if cls.__name__ == "Var":  # Tensor's own are on the page already
        own = [cls]
    public = {n: m for c in own for n, m in vars(c).items() if not n.startswith("_") and getattr(m, "__doc__", None)}
    attributes = [f"- `.{n}`: {inspect.getdoc(m)}" for n, m in public.items() if isinstance(m, property)]
    methods = {n: m for n, m in public.items() if callable(m)}
    borrowed = [n for n, m in methods.items() if m.__doc__.startswith("``np.")]
    lines = ["\n".join(attributes) + "\n"] if attributes else []
    for n, m in methods.items():
        if n not in borrowed:
            lines.append(f"#### `.{n}{signature(m)}`\n\n{markdown(m)}")
    if borrowed:
        lines.append(f"#### ndarray's own methods\n\n{', '.join(f'`.{n}`' for n in borrowed)}: as in NumPy.\n")
    return lines


def signature(thing) -> str:
    """The arguments, without annotations and without self."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [p.replace(annotation=p.empty) for p in found.parameters.values() if p.name != "self"]
    return str(found.replace(parameters=parameters, return_annotation=found.empty))


def markdown(thing) -> str:
    """A docstring, with its examples fenced."""
    text = inspect.getdoc(thing) or ""
    examples = re.split(r"(?m)^(?=>>> )", text, maxsplit=1)
    body = textwrap.dedent(examples[0]).strip()
    return body + "\n" + (f"\n```python\n{examples[1].rstrip()}\n```\n" if len(examples) > 1 else "")


def numpy_functions() -> str:
    """The NumPy functions that work on Tensors."""
    from autodiff.rules import COMPOSED, RULES, VALUES
    from autodiff.rules.hints import name_of

    def names(functions):
        found = {name_of(f) for f in functions if (getattr(f, "__module__", "") or "").startswith("numpy") or
                 "ufunc" in (type(f).__name__, type(getattr(f, "__self__", None)).__name__)}  # fmt: skip
        return ", ".join(f"`{n}`" for n in sorted(found))

    smooth = [f for f in {**RULES, **COMPOSED} if f in COMPOSED or RULES[f].differentiable]
    flat = [f for f, rule in RULES.items() if not rule.differentiable]
    return "\n\n".join([
        "## NumPy functions on Tensors",
        f"Differentiable: {names(smooth)}.",
        f"Recorded, with derivative zero almost everywhere: {names(flat)}.",
        f"Of values only: {names(VALUES)}.",
        "Any other is a `NoRuleError` that names the nearest of these.",
    ])  # fmt: skip


def main() -> int:
    made = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
            print("autodiff/README.md is out of step with the docstrings: run `make reference`")
            return 1
        return 0
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
