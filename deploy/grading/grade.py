"""Grade everything that was handed in, each submission in a sandbox of its own.

    python -m deploy.grading [SUBMISSIONS] [--course FOLDER] [--workers N | --dask ADDRESS] [--db URL]

SUBMISSIONS holds STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb, or STUDENT/ASSIGNMENT.ipynb; the course's own submitted/ when
left out. The course is the nbgrader folder of `make course`, and is made when it is not there. Results, marks, pages
for students (feedback/) and a report for the teacher (report/) are written there.

Workers run the notebooks (`sandbox.py`, `inside.py`) and know no gradebook. This process alone marks (`gradebook.py`),
in the order in which results arrive. What is done is kept, so a second run does only what is left: new and changed
submissions, those that a fault of this machine has left over, and the pages of those that were marked by hand since.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import sys
import time

from deploy.course import build
from deploy.grading import pools, report, sandbox
from deploy.grading.gradebook import TEXT, Course, MarkingError, clean, dump, failure, without_password
from deploy.grading.submissions import Assignment, SourceError, Unreadable, find, read, restored, worth_a_look

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEPT = "results"
STATUSES = report.STATUSES[:-1]  # the last one is for tasks without a verdict


def main(arguments):
    parser = argparse.ArgumentParser(prog="make grade", description="Grade submissions, each in a sandbox of its own.")
    parser.add_argument("submissions", nargs="?", type=pathlib.Path, help="STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb in it")
    parser.add_argument("--course", type=pathlib.Path, default=build.FOLDER, help="the nbgrader folder (build/course)")
    parser.add_argument("--workers", type=workers, default=os.cpu_count() or 1, help="processes (one for each core)")
    parser.add_argument("--dask", metavar="ADDRESS", help="the address of a Dask scheduler, tcp://host:8786")
    parser.add_argument("--db", metavar="URL", help="the gradebook (SQLite in the course folder): postgresql://...")
    parser.add_argument("--image", help="a container image with the course in it, where there is no bubblewrap")
    parser.add_argument("--unsafe", action="store_true", help="run without a sandbox where there is none (Linux)")
    parser.add_argument("--again", action="store_true", help="grade all of them again")
    parser.add_argument("--cell", type=float, default=sandbox.LIMITS["cell"], help="seconds of one cell (%(default)g)")
    parser.add_argument("--seconds", type=float, default=sandbox.LIMITS["seconds"], help="of a notebook (%(default)g)")
    parser.add_argument("--memory", type=float, default=sandbox.LIMITS["memory"] / 2**30, help="in GB (%(default)g)")
    parser.add_argument("--processes", type=int, default=sandbox.LIMITS["processes"], help="and threads (%(default)d)")
    options = parser.parse_args(arguments)
    limits = {"cell": options.cell, "seconds": options.seconds, "memory": int(options.memory * 2**30),
              "processes": options.processes}
    try:
        if not options.dask:
            kind = sandbox.choose(options.image, options.unsafe)
            say(f"Sandbox: {kind}." if kind != sandbox.UNSAFE else "There is NO sandbox: --unsafe was given.")
        return Run(options, limits).grade()
    except (sandbox.NoSandbox, sandbox.WrongCourse, SourceError, MarkingError, pools.Left, OSError) as problem:
        say(str(problem), sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. What is graded is kept; the same command does the rest.", file=sys.stderr)
        return 130


def workers(text):
    """The number that --workers names."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: it takes one or more")
    return int(text)


def say(text, file=None):
    print(printable(text), file=file or sys.stdout, flush=True)


def printable(text):
    """A file's name may hold anything, commands for a terminal too."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


class Run:
    """One run: what is to do, what came of it, and the files in which it is kept."""

    def __init__(self, options, limits):
        self.options, self.limits = options, limits
        self.folder = options.course.resolve()
        if not (self.folder / "source").is_dir():
            build.build(ROOT / "solutions", self.folder)
            say(f"Made the course in {self.folder}.")
        self.course = Course(self.folder, options.db)
        self.inside = (HERE / "inside.py").read_text(encoding="utf-8")
        self.digest = course_digest()
        self.gradebook = hashlib.sha256(self.course.db_url.encode()).hexdigest()[:16]
        self.assignments, self.releases = {}, {}
        self.waiting, self.left, self.written_anew = {}, [], 0
        self.failures_in_a_row = 0

    def grade(self):
        names = sorted(path.parent.name for path in (self.folder / "source").glob("*/*.ipynb"))
        submissions = self.options.submissions or self.folder / "submitted"
        if not submissions.is_dir():
            print(f"There is no folder {submissions}: put notebooks there, as STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb.",
                  file=sys.stderr)
            return 1
        found, alone = find(submissions, names)
        for line in alone:
            say("left alone  " + line)
        if not found:
            print(f"There are no submissions in {submissions}. The assignments are: {', '.join(names)}.",
                  file=sys.stderr)
            return 1
        for name in sorted({one.assignment for one in found}):
            self.load(name)
        started, count = time.monotonic(), len(found)
        bar = Progress(count)
        jobs = self.jobs(found, bar)
        done = (pools.on_dask(jobs, self.options.dask) if self.options.dask
                else pools.on_processes(jobs, self.options.workers))  # fmt: skip
        for job, result in done:
            self.take(job, result, bar)
        bar.end()
        took = time.monotonic() - started
        page = report.write(self.folder, self.entries(found), self.course.marks(), self.left, alone)
        say(f"{bar.skipped} were graded before, {bar.done - bar.skipped - len(self.left)} now, in {took:.0f} s; "
            f"gradebook: {without_password(self.course.db_url)}")
        if self.written_anew:
            say(f"Pages for students written anew, since points or comments were given by hand: {self.written_anew}.")
        for line in self.left:
            say("not graded  " + line, sys.stderr)
        say(f"For students: {self.folder / 'feedback'}\nFor the teacher: {page}")
        if self.folder == build.FOLDER.resolve():
            say(f'{build.CLEANED} Then: make grade ARGS="--course ../my-course".')
        return 1 if self.left else 0

    def load(self, name):
        """Read the assignment's source, and let nbgrader generate it when it is new or has changed."""
        assignment = Assignment.load(self.folder, name)
        stamp = self.folder / KEPT / f"generated-{self.gradebook}.json"
        known = json.loads(stamp.read_text(encoding="utf-8")) if stamp.exists() else {}
        if known.get(name) != assignment.digest or not self.course.is_generated(name):
            self.course.generate(name)
            dump(stamp, {**known, name: assignment.digest})
        self.assignments[name], self.releases[name] = assignment, self.course.release(name)

    def file(self, one):
        return self.folder / KEPT / one.id / f"{one.assignment}.json"

    def kept(self, one):
        try:
            return json.loads(self.file(one).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    def entries(self, found):
        return [(one, self.kept(one)) for one in found]

    def jobs(self, found, bar):
        """The jobs that are left, made one by one; what needs no worker is done on the way."""
        shown = self.course.shown()
        for one in found:
            name = one.assignment
            assignment, release = self.assignments[name], self.releases[name]
            try:
                data, problem = one.bytes(), ""
                cells = read(data)
            except Unreadable as unreadable:
                data, problem = str(unreadable).encode(), str(unreadable)
                cells = []
            key = hashlib.sha256(json.dumps([
                hashlib.sha256(data).hexdigest(), assignment.digest, self.digest, self.limits,
                *[hashlib.sha256((HERE / file).read_bytes()).hexdigest() for file in ("inside.py", "submissions.py")],
            ]).encode()).hexdigest()  # fmt: skip
            before = {} if self.options.again else self.kept(one)
            if before.get("key") == key and before.get("marked") == self.gradebook:
                if before.get("page") == shown.get((one.id, name)):
                    bar.skip()
                else:
                    self.write_anew(one, before, bar)
                continue
            notebook, notes = restored(release, cells)
            entry = {"key": key, "student": one.student, "assignment": name, "notes": notes if not problem else [],
                     "look": worth_a_look(release, notebook), "unreadable": problem}
            if before.get("key") == key:
                self.mark(one, notebook, before, bar)
            elif problem:
                self.mark(one, notebook, {**entry, "result": None}, bar)
            else:
                self.waiting[key, one.id] = (one, notebook, entry)
                yield {"name": [key, one.id], "cells": assignment.cells(notebook), "seeds": assignment.seeds(),
                       "options": {"image": self.options.image, "unsafe": self.options.unsafe, "limits": self.limits,
                                   "inside": self.inside, "digest": self.digest}}

    def take(self, job, result, bar):
        one, notebook, entry = self.waiting.pop(tuple(job["name"]))
        if isinstance(result, sandbox.NoSandbox | sandbox.WrongCourse):
            self.leave(one, result, bar)
        elif isinstance(result, BaseException):
            self.leave(one, f"{type(result).__name__}: {result}", bar, alone=True)
        else:
            self.mark(one, notebook, {**entry, "result": result}, bar)

    def mark(self, one, notebook, entry, bar):
        """Keep the result, put it through nbgrader's steps, and note that this is done."""
        entry.pop("marked", None)
        entry["verdicts"] = verdicts(self.assignments[one.assignment], entry)
        graded = {}
        for name, (task, _, _) in self.assignments[one.assignment].graded.items():
            found = entry["verdicts"][task]
            graded[name] = [] if found["status"] == "passed" else [failure(found["text"])]
        shown = (entry["result"] or {}).get("outputs", {})
        try:
            dump(self.file(one), entry)
            outputs = {name: clean(outputs) for name, outputs in shown.items()}
            page = self.course.mark(one.id, one.assignment, notebook, {"outputs": outputs, "graded": graded},
                                    one.timestamp)  # fmt: skip
            dump(self.file(one), {**entry, "marked": self.gradebook, "page": page})
        except (MarkingError, OSError) as problem:
            self.leave(one, problem, bar)
            return
        self.failures_in_a_row = 0
        bar.step(f"{one.student}/{one.assignment}")

    def write_anew(self, one, entry, bar):
        """The page for the student, after somebody gave points or comments by hand."""
        try:
            page = self.course.feedback(one.id, one.assignment)
            dump(self.file(one), {**entry, "page": page})
        except (MarkingError, OSError) as problem:
            self.leave(one, problem, bar)
            return
        self.written_anew += 1
        bar.skip()

    def leave(self, one, problem, bar, alone=False):
        """Note that a submission is left ungraded, and end the run when this machine leaves one after another."""
        self.left.append(f"{one.student}/{one.assignment}: {problem}")
        bar.step(f"{one.student}/{one.assignment}")
        self.failures_in_a_row += not alone
        if self.failures_in_a_row >= 5:
            raise problem


def course_digest():
    """The digest of the course's code, as `inside.py` makes it in the sandbox."""
    from deploy.grading import inside

    return inside.digest()


def verdicts(assignment, entry):
    """{task: {"status", "fault", "text", "hidden"}} for every task, with the reason where there is no verdict."""
    from autodiff.course import api

    result = entry["result"] or {}
    found = {}
    for task, _, _ in assignment.graded.values():
        said = result.get("verdicts", {}).get(task)
        if isinstance(said, dict) and said.get("status") in STATUSES and isinstance(said.get("text"), str):
            fault = said.get("fault")
            known = isinstance(fault, str) and task in api.tasks() and api.tasks()[task].knows(fault)
            found[task] = {"status": said["status"], "fault": fault if known else None, "text": said["text"][:TEXT],
                           "hidden": bool(said.get("hidden")), "tampered": bool(said.get("tampered"))}
        else:
            found[task] = {"status": "failed", "fault": None, "text": f"{task}  {why(entry)}", "hidden": False,
                           "tampered": False}
    return found


def why(entry):
    """In one sentence, why a task has no verdict."""
    if entry["unreadable"]:
        return f"The notebook could not be read: {entry['unreadable']}."
    result = entry["result"]
    ended, where = result["ended"] or "", f" (the last cell was {result['where']})" if result["where"] else ""
    reasons = {
        "time": "The notebook was stopped before this task, because it took too long",
        "memory": "The notebook was stopped before this task, because it took too much memory",
        "output": "The notebook was stopped before this task, because it sent too much",
        "broke": "What the notebook did ended the check before this task",
        "left": "The notebook ended its own process before this task",
    }
    if ended.startswith("signal"):
        return f"The notebook's process crashed or was ended ({ended}) before this task{where}."
    return reasons.get(ended, f"This task was not reached: {ended or 'the notebook ended early'}") + where + "."


class Progress:
    """A bar on a terminal, a line for each tenth elsewhere."""

    def __init__(self, count):
        self.count, self.done, self.skipped, self.started = count, 0, 0, time.monotonic()
        self.live, self.told = sys.stderr.isatty(), 0

    def skip(self):
        self.skipped += 1
        self.step("")

    def step(self, name):
        self.done += 1
        fresh = self.done - self.skipped
        rate = fresh / max(time.monotonic() - self.started, 1e-9)
        left = f", about {(self.count - self.done) / rate:.0f} s left" if fresh and self.done < self.count else ""
        if self.live:
            filled = 30 * self.done // self.count
            name = printable(name).replace("\n", "?")[-40:]
            bar = f"[{'#' * filled}{'.' * (30 - filled)}] {self.done}/{self.count}{left}  {name}"
            width = min(110, shutil.get_terminal_size().columns - 1)
            sys.stderr.write("\r" + bar[:width].ljust(width))
            sys.stderr.flush()
        elif 10 * self.done // self.count > self.told:
            self.told = 10 * self.done // self.count
            print(f"{self.done} of {self.count}{left}", file=sys.stderr, flush=True)

    def end(self):
        if self.live:
            sys.stderr.write("\n")


