"""What students get: a repository with the lessons and exercises alone, and a link to each of them.

    python deploy/hub/handout.py FOLDER

Each student's copy is pulled from it by nbgitpuller. Solutions and the teacher's guide are not in it. Of the engine it
has the files that a lesson links to.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = {"notebooks": "Lessons", "exercises": "Exercises"}
ENGINE = re.compile(r"\]\(\.\./(autodiff/[\w/]+\.py)")  # a link in a lesson
KEPT_BACK = ("TEACHING.md", ".*")  # the teacher's guide, and what editors leave


class HandOutError(Exception):
    """Its text is the sentence the teacher reads."""


def hand_out(course):
    """Bring the repository in the folder `course` up to date with the lessons and exercises as they are here."""
    course.mkdir(parents=True, exist_ok=True)
    if not (course / ".git").exists():
        git(course, "init", "-q", "-b", "main")
    shutil.rmtree(course / "autodiff", ignore_errors=True)
    for part in PARTS:
        shutil.rmtree(course / part, ignore_errors=True)
        shutil.copytree(ROOT / part, course / part, ignore=shutil.ignore_patterns(*KEPT_BACK))
        for path in (course / part).glob("*.ipynb"):
            for name in ENGINE.findall(path.read_text(encoding="utf-8")):
                (course / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, course / name)
    git(course, "add", "-A")
    if git(course, "status", "--porcelain"):
        identity = ["-c", "user.name=course", "-c", "user.email=course@localhost"]
        git(course, *identity, "commit", "-qm", "Hand out the course")


def git(folder, *arguments):
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise HandOutError(f"This command failed, and what it said is above: {' '.join(command)}")
    return done.stdout


def changed():
    """Lessons and exercises that are not here as they were committed; none where git cannot tell."""
    command = ["git", "-C", str(ROOT), "status", "--porcelain", "--", *PARTS]
    return [line[3:] for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines()]


def link(course, path):
    """Where a student clicks, below /hub/: their copy is made or brought up to date, then this notebook opens in it."""
    query = {"repo": f"file://{course}", "targetpath": "course", "branch": "main", "urlpath": f"lab/tree/course/{path}"}
    return "user-redirect/git-pull?" + urllib.parse.urlencode(query)


def contents(course):
    """{heading: [(title, link)]} of the notebooks that are handed out."""
    listed = {}
    for part, heading in PARTS.items():
        paths = sorted((course / part).glob("*.ipynb"))
        listed[heading] = [(title(path), link(course, f"{part}/{path.name}")) for path in paths]
    return listed


def title(path):
    """The heading that a notebook begins with, without the word that says what it is."""
    first = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]).splitlines()[0]
    return first.removeprefix("# ").removeprefix("Exercise ")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    hand_out(pathlib.Path(sys.argv[1]).resolve())
