"""The book of `make book`: every page is there, every link leads somewhere, and nothing is loaded from elsewhere."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("build_book", ROOT / "deploy" / "book" / "build.py")
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)


@pytest.fixture
def site(tmp_path):
    (tmp_path / "a.html").write_text('<h2 id="one">1</h2><a href="b.html#two">b</a><img src="c.png">', encoding="utf-8")
    (tmp_path / "b.html").write_text('<p id="two"></p><a href="a.html#one">a</a><a href="https://x.org/">x</a>',
                                     encoding="utf-8")
    (tmp_path / "c.png").write_bytes(b"")
    return tmp_path


def test_a_site_without_faults_has_none(site):
    assert build.broken_links(site) == []


@pytest.mark.parametrize("old, new, said", [
    ("b.html#two", "d.html", "a.html links to d.html, which does not exist"),
    ("b.html#two", "b.html#three", "a.html links to b.html#three, but that page has no such place"),
    ("b.html#two", "#three", "a.html links to #three, but that page has no such place"),
    ("c.png", "d.png", "a.html links to d.png, which does not exist"),
    ('src="c.png"', 'src="https://cdn.org/c.png"', "a.html loads https://cdn.org/c.png, which is not in the book"),
    ("<img", '<script src="//cdn.org/m.js"></script><img', "a.html loads //cdn.org/m.js, which is not in the book"),
])
def test_a_planted_fault_is_found(site, old, new, said):
    page = site / "a.html"
    page.write_text(page.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert build.broken_links(site) == [said]


def test_front_page_lists_every_lesson_and_exercise():
    text = build.front_page()
    for folder in ("notebooks", "exercises"):
        for path in (ROOT / folder).glob("*.ipynb"):
            assert f"<{folder}/{path.stem}>" in text


def test_the_book_shows_no_solutions(tmp_path):
    build.lay_out(tmp_path / "pages")
    names = {path.name for path in (tmp_path / "pages").iterdir()}
    assert "notebooks" in names and "solutions" not in names


@pytest.fixture(scope="module")
def book():
    ran = subprocess.run([sys.executable, str(ROOT / "deploy" / "book" / "build.py")], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ROOT / "build" / "book"


@pytest.mark.book
def test_book_builds_without_a_warning_and_with_every_link_sound(book):
    shown = {path.relative_to(book).with_suffix("").as_posix() for path in build.pages(book)}
    wanted = {f"{path.parent.name}/{path.stem}" for folder in ("notebooks", "exercises")
              for path in (ROOT / folder).glob("*.ipynb")}
    assert {"index", *wanted} <= shown
    lesson = (book / "notebooks" / "01_the_shared_node.html").read_text(encoding="utf-8")
    pictures = re.findall(r'src="\.\./(_images/\w+\.svg)"', lesson)
    assert len(pictures) >= 5 and all("<svg" in (book / name).read_text(encoding="utf-8") for name in pictures)


@pytest.mark.book
@pytest.mark.browser
def test_equations_and_pictures_show_without_a_network(book, page):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((book / "notebooks" / "01_the_shared_node.html").as_uri())
    page.wait_for_selector("mjx-container", timeout=30_000)
    assert page.locator("mjx-container").count() >= 3
    widths = page.locator(".cell_output img").evaluate_all("images => images.map(image => image.naturalWidth)")
    assert len(widths) >= 5 and all(widths)
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert not re.search(r"\$\$", page.inner_text("article"))
