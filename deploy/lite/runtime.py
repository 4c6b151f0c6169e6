"""Get a Pyodide that a site can serve itself, without NumPy: for tests, and to look at the site without a network.

    python deploy/lite/runtime.py FOLDER

The runtime is the npm package of the version that JupyterLite's kernel is made for. That package comes without
Pyodide's own packages; those that the kernel needs are pure Python and are the same on the package index. NumPy for the
browser is on neither, so lessons that need it do not run. FOLDER is kept when it is complete already.
"""

import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import build

DONE = "complete"


def main(arguments):
    if len(arguments) != 1:
        print(__doc__)
        return 2
    try:
        print(f"Pyodide {fetch(pathlib.Path(arguments[0]).resolve())} is in {arguments[0]}.")
    except build.BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def fetch(folder):
    """Fill `folder`; gives the version."""
    version = build.kernel_constants().PYODIDE_VERSION
    stamp = folder / DONE
    if stamp.exists() and stamp.read_text(encoding="utf-8") == version:
        return version
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(build.unpack_npm(version, pathlib.Path(scratch)), folder)
    entries = pure_packages(build.distribution(folder)["packages"])
    build.fetch_wheels([f"{entry['name']}=={entry['version']}" for entry in entries], folder)
    for entry in entries:
        if not (folder / entry["file_name"]).exists():
            raise build.BuildError(f"The package index has {entry['name']} under another name: {entry['file_name']}.")
    stamp.write_text(version, encoding="utf-8")
    return version


def pure_packages(packages):
    """What the kernel and our own packages need from the distribution, followed to the last."""
    known = {build.canonical(name): entry for name, entry in packages.items()}
    open_names, seen = [*build.AT_START, "traitlets", "typing-extensions"], {}
    while open_names:
        name = build.canonical(open_names.pop())
        if name in known and name not in seen:
            seen[name] = known[name]
            open_names += known[name]["depends"]
    return [entry for entry in seen.values() if entry["file_name"].endswith("none-any.whl")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
