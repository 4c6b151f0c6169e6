"""The stepper: a `Trace` to walk through with buttons, a slider or the arrow keys; without widgets, a table of it."""

from __future__ import annotations

import functools
import math
from pathlib import Path

from .drawing import NARROW, Drawing, RenderError
from .drawing.text import brief, clean, shape_of, shape_text, summary, table
from .tracing import Step, Trace, trace

STATIC = Path(__file__).parent / "static"
MOST = 3000  # steps: more than anyone walks through, and a saved notebook stays small
LISTED = 60  # steps in the still picture
EXPECTED = 6  # entries a prediction is asked for

NO_BUTTONS = "To step with buttons and keys: pip install anywidget ipywidgets, then start the kernel again."
VIEW = "application/vnd.jupyter.widget-view+json"

__all__ = ["Stepper", "keep_pictures", "step"]


class Stepper:
    """A backward pass to step through; where widgets do not run it shows the drawing and the table of all steps."""

    trace: Trace
    _missing = NO_BUTTONS

    def _prepare(self, recorded: Trace) -> Drawing:
        self.trace = recorded
        self._drawing = recorded.drawing()
        return self._drawing

    @property
    def text(self) -> str:
        """All steps as a table."""
        return self.trace.text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_):
        return self._still()

    def _still(self) -> dict:
        """What is saved with the notebook: the text, and a picture of the drawing with the steps below it."""
        text = f"{self.text}\n{self._missing}".rstrip()
        try:
            listing = f"{_listing(self.trace)}\n{self._missing}".rstrip()
            return {"text/plain": text, "image/svg+xml": self._drawing.svg(listing)}
        except RenderError as error:
            return {"text/plain": f"{text}\n{error}"}


def step(root, cotangent=None, *, wrt=None, keep=(), detach="all", strong_zero=False, names=None, contract=None,
         **options):  # fmt: skip
    """Step through the backward pass from `root`, a Tensor or an `autodiff.scalar.Value`; or through a `Trace`.

    In a notebook: buttons, a slider, the arrow keys, Home and End; a click on a node shows its gradient as a sum over
    its uses; "Predict" asks for each number before it is shown. `.index` and `.predict` can be set from Python. Takes
    the arguments of `trace`, `contract` too. Without ipywidgets and anywidget it is shown as a picture and a table of
    all steps. ValueError for more than three thousand steps.

    It runs wherever anywidget does, with no extension of its own: JupyterLab and Notebook 7 are tested. VS Code's
    Jupyter is not: there it relies on anywidget alone, on one module and one style sheet that come with the widget,
    import nothing and ask the network for nothing. (VS Code itself may ask to fetch its widget support once.)

    >>> import autodiff as ad
    >>> x = ad.Var(-3.0)
    >>> ad.step(x * x).trace[-1].text
    'Add it to what is there for x: -3 + (-3) = -6.'
    """
    if isinstance(root, Trace):
        recorded = root
    else:
        recorded = trace(root, cotangent, wrt=wrt, keep=keep, detach=detach, strong_zero=strong_zero, names=names,
                         contract=contract, **options)  # fmt: skip
    if len(recorded) > MOST:
        raise ValueError(f"this backward pass has {len(recorded):,} steps, and a stepper shows up to {MOST:,}: step a "
                         "part of the graph or a smaller one, or read ad.trace")  # fmt: skip
    made = _widget()
    stepper = Stepper() if made is None else made()
    drawing = stepper._prepare(recorded)
    if made is not None:
        try:
            stepper.svg = drawing.svg(columns=False)  # it scrolls
        except RenderError:
            stepper.svg = ""
        stepper.data = _data(recorded, drawing)
    return stepper


@functools.cache
def _widget():
    """The widget class, or None where the packages for it are missing."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        return None

    class StepperWidget(Stepper, anywidget.AnyWidget):
        _missing = ""
        _esm = (STATIC / "stepper.js").read_text(encoding="utf-8")
        _css = (STATIC / "stepper.css").read_text(encoding="utf-8")
        svg = traitlets.Unicode().tag(sync=True)
        data = traitlets.Dict().tag(sync=True)
        index = traitlets.Int(0).tag(sync=True)
        predict = traitlets.Bool(False).tag(sync=True)

        def _repr_mimebundle_(self, **kwargs):
            bundle = anywidget.AnyWidget._repr_mimebundle_(self, **kwargs)
            data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
            return {**data, **self._still()}, metadata

    return StepperWidget


def keep_pictures(model: dict, **_) -> None:
    """A `pre_save_hook` for Jupyter's contents manager: where a widget has a picture beside it, the picture is saved.

    JupyterLab and Notebook 7 do not fall back on the picture of a widget whose kernel is gone: without this, a notebook
    that is opened again says "model not found" there, until its cells are run. The notebook on the screen stays as it
    is. ``jupyter lab --FileContentsManager.pre_save_hook=autodiff.widgets.keep_pictures``
    """
    if model.get("type") != "notebook":
        return
    for cell in model["content"].get("cells", ()):
        for output in cell.get("outputs", ()):
            if "image/svg+xml" in output.get("data", ()):
                output["data"].pop(VIEW, None)


def _listing(recorded: Trace) -> str:
    rows = [(str(s.index), s.kind, clean(s.where, 24), clean(s.formula or s.text, 64)) for s in recorded]
    if len(rows) > LISTED:
        half = LISTED // 2
        rows = [*rows[:half], ("…", "", "", f"{len(rows) - 2 * half} more steps"), *rows[-half:]]
    return table(("step", "event", "where", "what happens"), rows)


def _data(recorded: Trace, drawing: Drawing) -> dict:
    """What the front end needs: texts only, ready to be shown."""
    # By their keys: a folded graph has views of its own.
    grads = {n.key: value for n, value in recorded.gradients().items()}
    uses = {n.key: steps for n, steps in recorded.uses().items()}
    places, joins = drawing.shown.places, {e.key for e in drawing.shown.edges if e.joins}
    rule_steps = {s.edge: s for s in recorded if s.kind == "rule"}
    rules: dict = {}
    for edge, s in rule_steps.items():
        told = {"operand": edge.operand, "name": edge.source.handle, "source": s.source}
        rules.setdefault(s.node.key, []).append(told)
    nodes = [{
        "key": n.key, "kind": n.kind, "title": clean(n.title, 60), "notes": n.notes,
        "value": None if n.kind == "folded" else summary(n.value), "shape": shape_text(n.value),
        "grad": summary(grads[n.key]) if n.key in grads else None, "grad_line": drawing.gradient_line(n),
        "rules": rules.get(n.key, []),
        "terms": [{"step": s.index, "text": summary(s.value), "name": s.node.handle} for s in uses.get(n.key, [])],
    } for n in drawing.shown.nodes]  # fmt: skip
    return {
        "title": recorded.title,
        "store": recorded.place,
        "listing": Drawing(recorded.graph).text,  # without the gradients that are still to come
        "nodes": nodes,
        "edges": [{"key": e.key, "label": drawing.edge_label(e)} for e in drawing.shown.edges],
        "steps": [_step_data(s, rule_steps.get(s.edge), places, joins) for s in recorded],
    }


def _step_data(s: Step, rule: Step | None, places: dict, joins: set) -> dict:
    """A step as texts. `node`, `input` and `edge`: what stands for them in the picture, where they are left out."""
    place = lambda part: part and places.get(part.key, part.key)
    edge = place(s.edge)
    value = s.change[1] if s.kind == "accumulate" else s.value
    question, hidden, expected = _question(s, rule)
    return {
        "kind": s.kind, "node": place(s.node), "edge": edge, "input": place(s.edge and s.edge.source),
        "operand": s.edge and s.edge.operand, "op": s.node.op, "number": "" if value is None else summary(value),
        "brief": "" if value is None or edge in joins else brief(value, NARROW), "text": s.text, "formula": s.formula,
        "source": rule.source if rule and s.edge else None,
        "question": question, "hidden": hidden, "expected": expected,
        "change": s.change and {"key": s.change[0].key, "name": s.change[0].handle,
                                "text": None if s.change[1] is None else summary(s.change[1]),
                                "brief": None if s.change[1] is None else brief(s.change[1])},
    }  # fmt: skip


def _question(s: Step, rule: Step | None) -> tuple[str, str, list | None]:
    """What to ask before this step is shown, the formula without its result and the numbers expected."""
    asked = s.kind == "contribution" or s.kind == "accumulate" and s.before is not None
    value = s.change[1] if s.kind == "accumulate" else s.value
    if not asked or getattr(value, "size", 1) > EXPECTED:
        return "", "", None
    numbers = [float(x) for x in value.ravel()] if shape_of(value) else [float(value)]
    if not all(map(math.isfinite, numbers)):  # JSON has no NaN, and nobody can type one
        return "", "", None
    to = s.edge.source.handle
    if s.kind == "contribution":
        return f"What does {s.node.handle} send to {to}?", rule.formula, numbers
    return f"What does the store hold for {to} now?", s.formula.rsplit("=", 1)[0] + "= ?", numbers
