"""Measure what a reader downloads: the first visit, and the next one in the same browser.

    python deploy/lite/measure.py [SITE]

SITE is one that was built with --pyodide, so that every byte comes from here and can be counted; build/lite when left
out. A visit opens the first lesson and imports the engine. Counted is what the server sent, bodies and headers: by one
that compresses text and WebAssembly, as most hosts do, and by one that does not. On the next visit the browser asks of
each file whether it has changed, as it does after some hours. Needs the extra `browser`.
"""

import contextlib
import functools
import gzip
import json
import pathlib
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import serve

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPRESSED = {".css", ".html", ".ipynb", ".js", ".json", ".md", ".mjs", ".py", ".svg", ".wasm", ".webmanifest"}
WAIT = 180_000  # milliseconds
IDLE = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
RUN = """async () => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const reply = await kernel.requestExecute({ code: "import autodiff" }).done;
  return reply.content.status === "ok" ? "" : reply.content.evalue;
}"""


class Handler(serve.Handler):
    """Serves files, compressed or not, and counts."""

    protocol_version = "HTTP/1.1"
    compress, sent = False, {}

    def send_head(self):
        path = pathlib.Path(self.translate_path(self.path))
        if not path.is_file() or "If-Modified-Since" in self.headers:
            return super().send_head()
        body = path.read_bytes()
        if path.name == "jupyter-lite.json":  # so that this script can talk to the page
            config = json.loads(body)
            config.setdefault("jupyter-config-data", {})["exposeAppInBrowser"] = True
            body = json.dumps(config).encode()
        self.send_response(200)
        if self.compress and path.suffix in COMPRESSED:
            body = compressed(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def setup(self):
        super().setup()
        self.wfile = Counter(self.wfile, self)


@functools.cache
def compressed(body):
    return gzip.compress(body, 6, mtime=0)


class Counter:
    """A stream that counts what is written, under the path that was asked for."""

    def __init__(self, stream, handler):
        self.stream, self.handler = stream, handler

    def write(self, data):
        path = getattr(self.handler, "path", "")
        self.handler.sent[path] = self.handler.sent.get(path, 0) + len(data)
        return self.stream.write(data)

    def __getattr__(self, name):
        return getattr(self.stream, name)


@contextlib.contextmanager
def served(site, compress):
    """The address of the site below a path, and what was sent so far, by path."""
    sent = {}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "course").symlink_to(site, target_is_directory=True)
        kind = type("Counting", (Handler,), {"compress": compress, "sent": sent})
        server = serve.Server(("127.0.0.1", 0), functools.partial(kind, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/course/", sent
        finally:
            server.shutdown()
            server.server_close()


def visit(playwright, chromium, flags, profile, address):
    """Open the first lesson in a browser with this profile and import the engine; seconds until that was done."""
    started = time.monotonic()
    browser = playwright.chromium.launch_persistent_context(profile, executable_path=chromium, args=flags)
    try:
        page = browser.new_page()
        page.goto(address)
        page.goto(f"{address}lab/index.html?path=notebooks/00_start_here.ipynb")
        page.wait_for_function(IDLE, timeout=WAIT)
        problem = page.evaluate(RUN)
        if problem and "numpy" not in problem:
            raise RuntimeError(problem)
    finally:
        browser.close()
    return time.monotonic() - started


def measure(site, chromium, flags, compress):
    """[(bytes of the site, bytes of Python, addresses, seconds)] of two visits. Python: what is Pyodide's."""
    from playwright.sync_api import sync_playwright

    visits = []
    with tempfile.TemporaryDirectory() as profile, served(site, compress) as (address, sent), sync_playwright() as made:
        for _ in range(2):
            sent.clear()
            seconds = visit(made, chromium, flags, profile, address)
            python = sum(n for path, n in sent.items() if "/pyodide/" in path and "pyodide-lock" not in path)
            visits.append((sum(sent.values()) - python, python, len(sent), seconds))
    return visits


def main(arguments):
    sys.path.insert(0, str(ROOT / "tests"))
    from browser_support import CHROMIUM_FLAGS, chromium

    site = pathlib.Path(arguments[0] if arguments else ROOT / "build" / "lite").resolve()
    if not (site / "pyodide" / "pyodide.mjs").exists() or chromium() is None or shutil.which(chromium()) is None:
        print("Build the site with --pyodide FOLDER, and have a Chromium on the PATH: then it can be measured.")
        return 1
    for compress in (True, False):
        visits = measure(site, chromium(), CHROMIUM_FLAGS, compress)
        for name, (own, python, files, seconds) in zip(("first", "next"), visits):
            print(f"{'compressed' if compress else 'plain':10}  {name:5} visit: site {own / 1e6:6.2f} MB, "
                  f"Python {python / 1e6:6.2f} MB, {files} addresses, {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
