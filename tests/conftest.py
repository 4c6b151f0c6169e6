"""Parts of the suite that need more than `make test` installs: skipped with a reason, or required by AUTODIFF_REQUIRE.

AUTODIFF_REQUIRE=torch,browser (as CI sets it) makes a missing part an error, and a skip of a test marked so a failure.
"""

import importlib.util
import os
import pathlib
import shutil
import sys

import browser_support
import hypothesis
import pytest
from browser_support import browser_context_args, browser_type_launch_args, lab, picture  # noqa: F401  fixtures

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The same examples in every run, and none too slow: a suite must not fail by chance or by the clock. To look for more
# of them: AUTODIFF_EXPLORE=1.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("explore" if os.environ.get("AUTODIFF_EXPLORE") else "same")


def missing_torch():
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed: python deploy/bootstrap.py bench"
    return None


def missing_book():
    if importlib.util.find_spec("myst_nb") is None:
        return "Sphinx and myst-nb are not installed: python deploy/bootstrap.py book"
    return None


def missing_hub():
    if importlib.util.find_spec("jupyterhub") is None:
        return "JupyterHub is not installed: python deploy/bootstrap.py hub"
    if sys.platform != "linux":
        return "a class server runs on Linux"
    sys.path.insert(0, str(ROOT / "deploy" / "hub"))
    try:
        return importlib.import_module("start").missing()
    finally:
        sys.path.pop(0)
        for name in ("start", "students", "users", "handout", "collect"):
            sys.modules.pop(name, None)


def missing_lite():
    if importlib.util.find_spec("jupyterlite_pyodide_kernel") is None:
        return "JupyterLite is not installed: python deploy/bootstrap.py lite"
    if shutil.which("npm") is None:
        return "there is no npm to get Pyodide from: install Node.js"
    return None


def missing_sandbox():
    if sys.platform != "linux":
        return "bubblewrap is for Linux"
    sys.path.insert(0, str(ROOT))
    from deploy.grading import sandbox

    try:
        return None if sandbox.choose().startswith("bwrap") else "bubblewrap is not what is used here"
    except sandbox.NoSandbox as problem:
        return str(problem).splitlines()[0]
    finally:
        sys.path.remove(str(ROOT))


def programs_of_postgresql():
    """The folder of initdb and pg_ctl, which Debian keeps off the PATH; None without them."""
    found = [shutil.which("initdb"), *sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
    folders = [pathlib.Path(path).resolve().parent for path in found if path]
    return next((folder for folder in folders if (folder / "pg_ctl").exists()), None)


def missing_postgresql():
    if importlib.util.find_spec("psycopg") is None:
        return "the driver of PostgreSQL is not installed: python deploy/bootstrap.py grading"
    if programs_of_postgresql() is None:
        return "the programs of PostgreSQL (initdb and pg_ctl) are not installed"
    return None


def missing_time():
    if not os.environ.get("AUTODIFF_THOROUGH"):
        return "it takes long, and CI runs it: AUTODIFF_THOROUGH=1"
    return None


OPTIONAL = {"torch": missing_torch, "browser": browser_support.missing, "book": missing_book, "hub": missing_hub,
            "lite": missing_lite, "sandbox": missing_sandbox, "postgresql": missing_postgresql,
            "thorough": missing_time}  # fmt: skip


def required():
    return {name.strip() for name in os.environ.get("AUTODIFF_REQUIRE", "").split(",") if name.strip()}


def pytest_configure():
    for name in sorted(required()):
        if name not in OPTIONAL:
            raise pytest.UsageError(f"AUTODIFF_REQUIRE names {name!r}; it knows {', '.join(OPTIONAL)}.")
        if reason := OPTIONAL[name]():
            raise pytest.UsageError(f"AUTODIFF_REQUIRE asks for {name}, but: {reason}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    for name, missing in OPTIONAL.items():
        if item.get_closest_marker(name) and (reason := missing()):
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    parts = {name for name in OPTIONAL if item.get_closest_marker(name)}
    # A test that needs two parts may be skipped for the one that is not asked for.
    others = [name for name in parts - required() if OPTIONAL[name]()]
    if report.skipped and parts & required() and not others:
        report.outcome = "failed"
        report.longrepr = f"skipped, although AUTODIFF_REQUIRE asks for it: {report.longrepr}"
    return report
