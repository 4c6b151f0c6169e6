"""The reference page, and the docstrings it is made of."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import autodiff as ad
from autodiff import functions

ROOT = Path(__file__).resolve().parent.parent
NOT_CALLED = {"contracts", "optim"}
PUBLIC = [n for n in ad.__all__ if n not in NOT_CALLED] + ["optim.SGD", "optim.AdamW", "draw", "trace", "step"]


def test_the_reference_page_is_in_step_with_the_docstrings(tmp_path):
    check = [sys.executable, str(ROOT / "deploy" / "api.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_comparison_of_the_reference_page_can_fail(tmp_path):
    copy = tmp_path / "deploy"
    copy.mkdir()
    (copy / "api.py").write_text((ROOT / "deploy" / "api.py").read_text())
    (tmp_path / "autodiff").symlink_to(ROOT / "autodiff", target_is_directory=True)
    other = tmp_path / "page.md"
    other.write_text((ROOT / "autodiff" / "README.md").read_text() + "an edit by hand\n")
    text = (copy / "api.py").read_text().replace('PAGE = ROOT / "autodiff" / "README.md"', f"PAGE = __import__('pathlib').Path({str(other)!r})")  # noqa: E501
    (copy / "api.py").write_text(text)
    done = subprocess.run([sys.executable, str(copy / "api.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 1 and "make reference" in done.stdout, done.stderr


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_says_what_it_is_and_shows_an_example(name):
    thing = ad
    for part in name.split("."):
        thing = getattr(thing, part)
    text = inspect.getdoc(thing)
    assert text and text.split("\n")[0].rstrip().endswith((".", ":"))
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        assert ">>> " in text, f"{name} has no example"


def test_every_function_is_importable_from_both_places():
    for name in functions.__all__:
        assert getattr(ad, name) is getattr(functions, name)
