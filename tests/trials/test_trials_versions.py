"""Versions of Python: what continuous integration finds and runs, and what only newer ones have."""

import ast
import importlib.util
import os
import pathlib
import stat
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = sys.version_info[:3]


def scripts():
    return [*(ROOT / "autodiff").rglob("*.py"), *(ROOT / "deploy").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]


@pytest.fixture(scope="module")
def pythons():
    spec = importlib.util.spec_from_file_location("ci_pythons", ROOT / ".ci" / "pythons.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in(folder, name, says):
    """A program of this name that answers every call with this line, or fails where that is empty."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\necho {says}\n" if says else "#!/bin/sh\nexit 127\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.mark.skipif(os.name == "nt", reason="the stand-ins are shell scripts")
def test_19_the_oldest_and_the_newest_supported_python_are_found(pythons, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b b"
    stand_in(a, "python3.11", "/a/python3.11 3 11 10 final 0")
    stand_in(a, "python3.12", "")  # the wrapper of one that is not there
    stand_in(a, "python3.10", "/a/python3.10 3 10 1 final 0")
    stand_in(a, "python3.13", "/a/python3.13 3 13 0 candidate 2")
    stand_in(b, "python3.11", "/b b/python3.11 3 11 2 final 0")
    stand_in(b, "python3.12", "/b b/python3.12 3 12 1 final 0")
    found = pythons.found([11, 12, 13], [str(a), str(b), str(tmp_path / "none")])
    assert list(found.items()) == [((3, 11, 2), "/b b/python3.11"), ((3, 11, 10), "/a/python3.11"),
                                   ((3, 12, 1), "/b b/python3.12")]  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="there the program is python.exe")
def test_19_the_python_that_runs_the_tests_is_found_and_an_environment_is_not(pythons):
    minors = pythons.supported()
    assert min(minors) == 11 and HERE[1] in minors
    base = pathlib.Path(sys.base_prefix, "bin")
    if (base / f"python3.{HERE[1]}").exists():
        assert HERE in pythons.found(minors, [str(base)])
    if sys.prefix != sys.base_prefix:
        assert pythons.found(minors, [str(pathlib.Path(sys.prefix, "bin"))]) == {}


def test_19_no_archive_is_unpacked_by_an_argument_that_python_3_11_2_has_not():
    """Of what the standard library got within 3.11, the filter of archives is what an author reaches for."""
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in scripts()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("extractall", "extract", "unpack_archive")
        and any(keyword.arg == "filter" for keyword in node.keywords)
    ]  # fmt: skip
    assert not calls
