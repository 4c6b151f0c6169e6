"""The oldest and the newest Python of this machine that the course supports, one to a line: version, tab, program.

Looked for on the PATH, in the system's folders, and where pyenv, uv, conda and hosted runners keep theirs.
"""

import glob
import os
import pathlib
import re
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = os.path.expanduser("~")
PLACES = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/python/*/bin",
    os.environ.get("PYENV_ROOT", f"{HOME}/.pyenv") + "/versions/*/bin",
    os.environ.get("UV_PYTHON_INSTALL_DIR", f"{HOME}/.local/share/uv/python") + "/*/bin",
    os.environ.get("RUNNER_TOOL_CACHE", "/opt/hostedtoolcache") + "/Python/*/*/bin",
    f"{HOME}/*conda*/envs/*/bin",
)
# What can make an environment of its own, and is not one; a name on the PATH may stand for a Python that is not there.
PROBE = "import ensurepip, sys, venv; assert sys.prefix == sys.base_prefix; print(sys.executable, *sys.version_info)"


def supported(root=ROOT):
    """The minor versions that pyproject.toml names."""
    classifiers = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    return [int(minor) for minor in re.findall(r"Python :: 3\.(\d+)", "\n".join(classifiers))]


def found(minors, folders):
    """Version -> program, for each Python 3 of these minor versions in these folders, oldest first."""
    programs = {}
    for folder in folders:
        for minor in minors:
            program = os.path.join(folder, f"python3.{minor}")
            if not os.path.exists(program):
                continue
            try:
                probe = subprocess.run([program, "-c", PROBE], capture_output=True, text=True, timeout=60, cwd="/")
            except (OSError, subprocess.TimeoutExpired):
                continue
            if probe.returncode == 0:
                executable, *version = probe.stdout.rsplit(maxsplit=5)
                if version[3] == "final":
                    programs.setdefault(tuple(map(int, version[:3])), executable)
    return dict(sorted(programs.items()))


def main():
    folders = [*os.get_exec_path(), *(folder for place in PLACES for folder in sorted(glob.glob(place)))]
    programs = list(found(supported(), dict.fromkeys(folders)).items())
    for version, program in dict.fromkeys([programs[0], programs[-1]]) if programs else ():
        print(".".join(map(str, version)), program, sep="\t")


if __name__ == "__main__":
    main()
