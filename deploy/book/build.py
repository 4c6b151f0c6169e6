"""Build the lessons as a static site that is read offline: build/book/index.html.

    python deploy/book/build.py [--check-links]

Pages show the stored outputs; nothing is executed. Every link inside the book must lead to something, and no page may
load anything from elsewhere, else the exit status is 1. --check-links asks the network for the links that leave it.
"""

import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "book-pages"
BOOK = ROOT / "build" / "book"


def main(arguments):
    lay_out(BUILD)
    shutil.rmtree(BOOK, ignore_errors=True)
    if "--check-links" in arguments:
        return sphinx("linkcheck", BUILD, ROOT / "build" / "book-links")
    if status := sphinx("html", BUILD, BOOK):
        return status
    shutil.rmtree(BOOK / ".doctrees", ignore_errors=True)
    faults = broken_links(BOOK)
    index = (BOOK / "index.html").relative_to(ROOT)
    print("\n".join(faults) or f"{len(pages(BOOK))} pages, every link leads somewhere: {index}")
    return 1 if faults else 0


def sphinx(builder, source, target):
    options = ["-q", "-W", "--keep-going", "-E", "-b", builder]
    return subprocess.run([sys.executable, "-m", "sphinx", *options, str(source), str(target)], cwd=ROOT).returncode


def lay_out(folder):
    """Copy into `folder` what the book shows, each file where its links expect it."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "_static").mkdir(parents=True)
    shutil.copy(HERE / "conf.py", folder)
    shutil.copy(HERE / "book.css", folder / "_static")
    for name in ("notebooks", "exercises"):
        for path in sorted((ROOT / name).rglob("*")):
            if path.suffix in (".ipynb", ".md", ".svg", ".png") and ".ipynb_checkpoints" not in path.parts:
                copy(path, folder)
    for path in linked_files(folder):
        copy(path, folder)
    (folder / "index.md").write_text(front_page(), encoding="utf-8")


def copy(path, folder):
    target = folder / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)


def linked_files(folder):
    """The files of the project that pages link to and that are no pages: source code to read."""
    found = set()
    for page in [*folder.rglob("*.ipynb"), *folder.rglob("*.md")]:
        home = (ROOT / page.relative_to(folder)).parent
        for link in re.findall(r"\]\(([^)\s#]+)", page.read_text(encoding="utf-8")):
            target = (home / link).resolve()
            if "://" not in link and target.is_file() and target.is_relative_to(ROOT) and not (
                    folder / target.relative_to(ROOT)).exists():
                found.add(target)
    return sorted(found)


def titles(folder):
    """(page without its ending, title) of each notebook, in order."""
    import nbformat

    for path in sorted((ROOT / folder).glob("[0-9][0-9]_*.ipynb")):
        first = next(c for c in nbformat.read(path, as_version=4).cells if c.source.startswith("# "))
        yield f"{folder}/{path.stem}", first.source.splitlines()[0].removeprefix("# ").strip()


def front_page():
    lessons = "\n".join(f"{title} <{page}>" for page, title in titles("notebooks"))
    exercises = "\n".join(f"{title} <{page}>" for page, title in titles("exercises"))
    others = [(p, t) for p, t in (("GLOSSARY", "Glossary"), ("TEACHING", "Teacher's guide"))
              if (ROOT / "notebooks" / f"{p}.md").exists()]
    more = "\n".join(f"{title} <notebooks/{page}>" for page, title in others)
    return f"""# Automatic differentiation, opened up

![The graph of L = (x*y + x)**2 at x = 3, y = 2. How fast does L change with x?](notebooks/images/shared_node.svg)

These pages show the lessons with their outputs, for reading. To run them, to step the pictures and to do the exercises,
get the course and type `make lab`.

```{{toctree}}
:caption: Lessons
:maxdepth: 1

{lessons}
```

```{{toctree}}
:caption: Exercises
:maxdepth: 1

{exercises}
```

```{{toctree}}
:caption: Beside the lessons
:maxdepth: 1

{more}
```
"""


# What a browser would follow


class Links(html.parser.HTMLParser):
    """The addresses of a page: `follow` what a reader may click, `load` what is fetched at once; `ids` its anchors."""

    def __init__(self):
        super().__init__()
        self.follow, self.load, self.ids = [], [], set()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if values.get("id"):
            self.ids.add(values["id"])
        if tag == "a" and values.get("href"):
            self.follow.append(values["href"])
        elif tag == "link" and values.get("href") and values.get("rel") not in ("canonical", "prev", "next"):
            self.load.append(values["href"])
        elif tag in ("script", "img", "iframe", "source") and values.get("src"):
            self.load.append(values["src"])


def pages(book):
    return sorted(path for path in book.rglob("*.html") if "_static" not in path.parts)  # there: the theme's templates


def read_links(page):
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def broken_links(book):
    """One sentence for each link into the book that leads nowhere, and each file that a page loads from elsewhere."""
    read = {page.resolve(): read_links(page) for page in pages(book)}
    faults = []
    for page, links in read.items():
        name = page.relative_to(book.resolve())
        faults += [f"{name} loads {a}, which is not in the book" for a in links.load if outside(a)]
        for address in dict.fromkeys([*links.follow, *links.load]):
            if outside(address) or address.startswith(("mailto:", "data:", "javascript:")):
                continue
            parts = urllib.parse.urlsplit(address)
            target = (page.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else page
            if not target.exists():
                faults.append(f"{name} links to {address}, which does not exist")
            elif parts.fragment and target in read and urllib.parse.unquote(parts.fragment) not in read[target].ids:
                faults.append(f"{name} links to {address}, but that page has no such place")
    return faults


def outside(address):
    return address.startswith("//") or urllib.parse.urlsplit(address).scheme in ("http", "https")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
