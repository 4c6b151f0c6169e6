"""Is everything here that the lessons need? For each thing missing: what the reader loses, and what to do.

>>> from autodiff.course.setup_check import setup_check
>>> report = setup_check()
>>> [line.name for line in report.lines]
['Python', 'Notebook', 'NumPy', 'Widgets', 'Pictures', 'Plots', 'Progress file']
"""

import os
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from autodiff.course.record import location
from autodiff.course.result import Page, Table

IN_BROWSER = sys.platform == "emscripten"

_INSTALL = ["To repair this, stop the server, and in the course folder run", "    make lab", "or, without make,",
            '    python -m pip install -e ".[course]"']
if IN_BROWSER:
    _INSTALL = ["To repair this, load the page anew while the network is there."]


@dataclass(frozen=True)
class Line:
    """One thing that was looked for: is it there and how, what to know without it, does an install repair it?"""

    name: str
    ok: bool
    detail: str
    advice: str = ""
    install: bool = False


@dataclass(repr=False)
class SetupReport(Page):
    """What was found: true when nothing is missing. `lines` holds one entry a row."""

    lines: tuple[Line, ...] = ()

    def __bool__(self) -> bool:
        return all(line.ok for line in self.lines)


def setup_check(details: bool = False) -> SetupReport:
    """Look for everything the lessons use, and say what to do about each thing missing.

    The report shows the same text on every complete machine; with `details` it adds versions and places, which is what
    a bug report needs. Nothing is installed, changed or sent.

    >>> all(line.ok or line.advice for line in setup_check().lines)
    True
    """
    lines = (_python(), _notebook(), _numpy(), _widgets(), _pictures(), _plots(), _progress())
    missing = [line for line in lines if not line.ok]
    rows = tuple((line.name, "ready" if line.ok else "missing") + ((line.detail,) if details else ())
                 for line in lines)
    header = ("what", "state") + (("found",) if details else ())
    headline = "Everything is ready." if not missing else f"Missing: {', '.join(line.name for line in missing)}."
    after = [f"{line.name}: {line.advice}" for line in missing]
    if any(line.install for line in missing):
        after += _INSTALL
    return SetupReport(headline, table=Table(header, rows), lines=lines, after=after)


def widget_check():
    """A slider to move, or a sentence that says why there is none and what to do."""
    try:
        if _widgets().ok:
            from ipywidgets import IntSlider

            return IntSlider(value=3, min=0, max=10, description="move me")
    except ImportError:  # there, but broken: the advice is the same
        pass
    return Page("There is no slider here.", [_widgets().advice, *_INSTALL])


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _major(package):
    try:
        return int((_version(package) or "0").split(".")[0])
    except ValueError:
        return 0


def _python():
    return Line("Python", sys.version_info >= (3, 11), sys.version.split()[0],
                "The course needs Python 3.11 or newer. Install it, then run `make lab` again.")


def _notebook():
    # Under IPython the module is loaded already, so nothing has to be imported to find out.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    kernel = getattr(shell, "kernel", None)
    return Line("Notebook", kernel is not None, "a Jupyter kernel" if kernel is not None else "plain Python",
                "This is not a notebook, so pictures and steppers show as text. Run `make lab` in the course folder.")


def _numpy():
    return Line("NumPy", _major("numpy") >= 2, _version("numpy") or "not installed",
                "The engine needs NumPy 2 or newer.", install=True)


def _widgets():
    # In the browser the front end of the widgets is a part of the site, and no package.
    needed = ("ipywidgets", *(() if IN_BROWSER else ("jupyterlab_widgets",)), "anywidget")
    absent = [name for name in needed if find_spec(name) is None]
    detail = f"ipywidgets {_version('ipywidgets')}" if not absent else f"no {absent[0]}"
    return Line("Widgets", not absent and _major("ipywidgets") >= 8, detail,
                "Steppers and sliders need ipywidgets 8 and anywidget; without, they are still pictures.", install=True)


def _pictures():
    from autodiff.drawing import renderer

    found = {"dot": "drawn by the program dot", "wasm": "drawn by Graphviz as WebAssembly", None: "nothing that draws"}
    return Line("Pictures", renderer() is not None, found[renderer()], "Graphs show as text instead of pictures.",
                install=True)


def _plots():
    found = _version("matplotlib")
    if IN_BROWSER and found is None:
        return Line("Plots", True, "fetched when a lesson draws its first curve")
    return Line("Plots", found is not None, f"matplotlib {found}" if found else "no matplotlib",
                "A few later lessons draw curves with matplotlib.", install=True)


def _progress():
    path = location()
    if path is None:
        return Line("Progress file", True, "switched off")
    nearest = next(p for p in (path, *path.parents) if p.exists())
    return Line("Progress file", os.access(nearest, os.W_OK), str(path),
                "Your progress cannot be written there, so it lasts only until the kernel stops. Set the environment "
                f"variable AUTODIFF_PROGRESS to a file in a folder of yours, such as {Path.home() / 'progress.json'}.")
