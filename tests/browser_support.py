"""JupyterLab and Notebook 7 on this machine alone, served to a headless Chromium: the fixtures of the browser tests.

AUTODIFF_CHROMIUM names the browser when it is not on the PATH; AUTODIFF_ARTIFACTS is the folder for screenshots.
"""

import contextlib
import functools
import importlib.util
import itertools
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_SECONDS = 90

# Nothing here may ask the network, and a container offers neither a sandbox nor a graphics card.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

# All cells stay in the page, so that a test can look at each; and JupyterLab asks nobody for news.
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}


@functools.cache
def chromium():
    named = os.environ.get("AUTODIFF_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


def missing():
    """Why the browser tests cannot run here, or None."""
    for module in ("playwright", "pytest_playwright"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed: python deploy/bootstrap.py browser"
    if chromium() is None:
        return "no Chromium on the PATH: install one, or name it in AUTODIFF_CHROMIUM"
    return None


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    arguments = [*browser_type_launch_args.get("args", []), *CHROMIUM_FLAGS]
    return {**browser_type_launch_args, "executable_path": chromium(), "args": arguments}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args):
    return {**browser_context_args, "viewport": {"width": 1280, "height": 900}}


@pytest.fixture(scope="session")
def picture(request):
    """picture(page, name): a screenshot for people to look at."""
    folder = pathlib.Path(os.environ.get("AUTODIFF_ARTIFACTS") or ROOT / ".artifacts")
    folder.mkdir(parents=True, exist_ok=True)
    return lambda page, name: page.screenshot(path=folder / f"{name}.png")


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """Address and token of a JupyterLab that serves a copy of the course, with a home and settings of its own.

    Each address is a workspace of its own: JupyterLab would else open what an earlier test had open, beside the page or
    in its place.
    """
    numbers = itertools.count()
    with served(tmp_path_factory.mktemp("lab"), "jupyterlab", "LabApp") as address:
        yield lambda path: address(f"lab/workspaces/test-{next(numbers)}/tree", path)


@pytest.fixture(scope="session")
def notebook7(tmp_path_factory):
    """The same for Notebook 7."""
    if importlib.util.find_spec("notebook") is None:
        pytest.skip("notebook is not installed: python deploy/bootstrap.py browser")
    with served(tmp_path_factory.mktemp("notebook"), "notebook", "JupyterNotebookApp") as address:
        yield lambda path: address("notebooks", path)


@contextlib.contextmanager
def served(folder, module, app):
    """Run a Jupyter server; gives address(page, path)."""
    root = folder / "served"
    root.mkdir()
    for name in ("notebooks", "exercises", "solutions"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    settings = folder / "settings"
    for name, values in SETTINGS.items():
        path = settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    environment = dict(os.environ)
    for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        environment[name] = str(folder / name.lower())
        (folder / name.lower()).mkdir()
    token = secrets.token_hex(16)
    port = free_port()
    command = [
        *(sys.executable, "-m", module, "--no-browser", "--ip=127.0.0.1", f"--port={port}"),
        *("--ServerApp.port_retries=0", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}"),
        *(f"--{app}.user_settings_dir={settings}", f"--{app}.workspaces_dir={folder / 'workspaces'}"),
        *(f"--{app}.expose_app_in_browser=True", "--LabApp.news_url=", "--ServerApp.allow_origin="),
        "--FileContentsManager.pre_save_hook=autodiff.widgets.keep_pictures",
        *(["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
    ]
    log = folder / "server.log"
    with open(log, "wb") as stream:
        server = subprocess.Popen(
            command, cwd=root, env=environment, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until_up(server, f"{address}/api/status?token={token}", log)
        yield lambda page, path: f"{address}/{page}/{path}?token={token}"
    finally:
        stop(server)


class Notebook:
    """A notebook of these cells, open in a page: `page`, and what can be done with all of it."""

    IDLE = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
    DONE = """(count) => {
        const cells = Array.from(window.jupyterapp.shell.currentWidget.content.model.cells);
        const ran = cell => cell.executionCount !== null && cell.executionState === 'idle';
        return cells.length === count && cells.every(ran);
    }"""
    ERRORS = """() => Array.from(window.jupyterapp.shell.currentWidget.content.model.cells)
        .flatMap(cell => cell.outputs.toJSON()).filter(output => output.output_type === 'error').map(e => e.evalue)"""

    def __init__(self, context, address, name, sources):
        self.context, self.name, self.count = context, name, len(sources)
        self.url = urllib.parse.urlsplit(address(name))
        self.problems = []
        cells = [
            {"cell_type": "code", "id": f"c{i}", "source": s, "metadata": {}, "outputs": [], "execution_count": None}
            for i, s in enumerate(sources)
        ]
        kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)"}
        content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        made = context.request.put(
            self.api(f"contents/{name}"),
            data=json.dumps({"type": "notebook", "content": content}),
            headers={"Content-Type": "application/json"},
        )
        assert made.ok, made.text()
        self.open()

    def api(self, path):
        return f"{self.url.scheme}://{self.url.netloc}/api/{path}?{self.url.query}"

    def open(self):
        """In a page of its own, with a running kernel."""
        self.page = self.context.new_page()
        self.page.on("dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.goto(self.url.geturl())
        self.page.wait_for_function(self.IDLE, timeout=START_SECONDS * 1000)
        # From here on; Notebook 7 stumbles over settings of its own while it starts.
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))

    def run(self):
        """All cells, by the menu; none may fail."""
        self.page.get_by_role("menubar").get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        self.page.wait_for_function(self.DONE, arg=self.count, timeout=START_SECONDS * 1000)
        assert self.page.evaluate(self.ERRORS) == []

    def command(self, name):
        self.page.evaluate("name => window.jupyterapp.commands.execute(name)", name)

    def cell(self, index):
        return self.page.locator(".jp-CodeCell").nth(index)

    def saved(self):
        """Save, and give what is in the file."""
        self.command("docmanager:save")
        return self.context.request.get(self.api(f"contents/{self.name}")).json()["content"]

    def reopen(self):
        """Close it, end its kernel, and open it again."""
        self.page.close()
        for session in self.context.request.get(self.api("sessions")).json():
            if session["path"] == self.name:
                self.context.request.delete(self.api(f"sessions/{session['id']}"))
        self.open()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_up(server, address, log):
    # A proxy set for the machine must not be asked for a loopback address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            with opener.open(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"The server did not start:\n{log.read_text(errors='replace')[-3000:]}")


def stop(server):
    """End the server and the kernels it started."""
    server.terminate()
    try:
        server.wait(timeout=15)
    except subprocess.TimeoutExpired:
        if hasattr(os, "killpg"):
            os.killpg(server.pid, signal.SIGKILL)
        server.kill()
        server.wait(timeout=15)
