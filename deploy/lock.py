"""Write deploy/constraints.txt anew: the newest versions that install and import together, pinned.

Run it as `make lock`. It resolves all extras for Python 3.11 and newer on Linux, macOS and Windows, installs the result
into a throw-away environment, and replaces the file only when `pip check` is clean there.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "deploy" / "constraints.txt"
OLDEST = "3.11"

HEADER = """\
# What a newcomer installs, every package pinned: the course, its tests and its benchmarks, with all they depend on.
# Made by `make lock` (deploy/lock.py), never by hand: it resolves pyproject.toml with all extras for Python {oldest}
# and newer on Linux, macOS and Windows, installs the result and asks `pip check`.
# Tried on Python {python}, {platform}.
"""

# A CPU build of torch needs none of these, and a CUDA build pins its own.
NOT_PINNED = re.compile(r"^(nvidia|cuda|triton)\b")


def main():
    with tempfile.TemporaryDirectory() as folder:
        python = new_environment(pathlib.Path(folder, "tool"))
        run(python, "-m", "pip", "install", "-q", "uv")
        wanted = pathlib.Path(folder, "wanted.txt")
        options = ["--universal", "--python-version", OLDEST, "--fork-strategy", "fewest", "--all-extras"]
        plain = ["--quiet", "--no-header", "--no-annotate", "--prerelease", "disallow"]
        run(python, "-m", "uv", "pip", "compile", *options, *plain, "pyproject.toml", "-o", str(wanted))
        pins = [line for line in wanted.read_text().splitlines() if not NOT_PINNED.match(line)]
        header = HEADER.format(oldest=OLDEST, python=sys.version.split()[0], platform=sys.platform)
        wanted.write_text(header + "\n".join(pins) + "\n")

        python = new_environment(pathlib.Path(folder, "trial"))
        extras = "course,test,browser,bench,book,hub,grading,lite"
        run(python, "-m", "pip", "install", "-q", "-c", str(wanted), "-e", f".[{extras}]")
        run(python, "-m", "pip", "check")
        TARGET.write_text(wanted.read_text())
    print(f"Wrote {TARGET.relative_to(ROOT)}: {len(pins)} packages.")


def new_environment(folder):
    venv.create(folder, with_pip=True)
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def run(*command):
    subprocess.run([str(part) for part in command], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
