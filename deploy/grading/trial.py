"""Try the grading with a whole class: 300 submissions whose marks are known, graded in several ways.

    python -m deploy.grading.trial [--count 300] [--ways 1,2,kill,dask] [--folder FOLDER]

Right and untouched submissions of each exercise, every hostile one, and one for each of as many known mistakes as it
takes. Each way grades all of them into a course folder of its own: with one worker, with two, with two of which one is
killed half-way, and on a Dask cluster on this machine. After each, every mark is compared with the one expected. The
figures go into README.md beside this file.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import nbformat

from autodiff.course import prove
from deploy.course import build
from deploy.grading import sandbox, samples
from deploy.grading.gradebook import Course
from deploy.grading.submissions import Assignment, safe_id

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMITS = ["--cell", "10", "--seconds", "150", "--memory", "1"]


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m deploy.grading.trial")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--ways", default="1,2,kill,dask")
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args(arguments)
    # The hostile ones must not even be written down as commands without a sandbox.
    print("sandbox:", sandbox.choose())
    with tempfile.TemporaryDirectory() as temporary, socket.create_server(("127.0.0.1", 0)) as server:
        folder = options.folder or pathlib.Path(temporary)
        handed_in, course = folder / "handed-in", folder / "course"
        shutil.rmtree(handed_in, ignore_errors=True)
        build.build(ROOT / "solutions", course)
        made = class_of(options.count, course, server.getsockname()[1])
        for sample in made:
            sample.write(handed_in)
        wrong = 0
        for way in options.ways.split(","):
            target = folder / f"course-{way}"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(course, target)
            took, used, most = graded(way, handed_in, target)
            found = compared(made, target)
            wrong += len(found)
            print("\n".join(found))
            print(f"{way:5} {len(made)} submissions, {took:.0f} s, {used:.0f} s of processor time in sandboxes, "
                  f"{most / 2**20:.0f} MB at most, {len(found)} marks not as expected", flush=True)  # fmt: skip
        server.setblocking(False)
        try:
            server.accept()
            print("somebody called from a sandbox")
            wrong += 1
        except BlockingIOError:
            pass
    return 1 if wrong else 0


def class_of(count, course, port):
    """The samples, of which `count` are kept; the same ones every time."""
    names = sorted(path.stem for path in (ROOT / "solutions").glob("*.ipynb"))
    nbgrader = Course(course)
    releases, masters = {}, {}
    for name in names:
        nbgrader.generate(name)
        releases[name] = nbgrader.release(name)
        masters[name] = nbformat.read(ROOT / "solutions" / f"{name}.ipynb", as_version=4)
    hostile = samples.HOSTILE
    made = list(samples.hostile(releases[hostile], masters[hostile], outside(course), port).values())
    made.append(samples.commands(releases[hostile], masters[hostile]))
    for name in names:
        made.append(samples.right(releases[name], masters[name], name, f"right {name}"))
        made.append(samples.stub(releases[name], name, f"stub {name}"))
    kinds = {name: prove.wrong_answers(name[:2]) for name in names}
    for wrongs in kinds.values():
        random.Random(0).shuffle(wrongs)
    # Round and round the exercises, of which the last one takes ten times as long as the others.
    mistakes = [(name, wrongs[n]) for n in range(max(map(len, kinds.values()))) for name, wrongs in kinds.items()
                if n < min(len(wrongs), 3 if name.startswith("17") else 1000)]
    for number, (name, wrong) in enumerate(mistakes):
        student = f"wrong {number}"
        made.append(samples.wrong(releases[name], masters[name], name, student, wrong))
    made = made[:count]
    random.Random(1).shuffle(made)
    return made


def outside(course):
    home = pathlib.Path.home()
    return [course / "hidden_key", course / "gradebook.db", course / "source", ROOT / "solutions", ROOT / "tests",
            home / ".bashrc", home / ".profile", "/etc/passwd", "/etc/shadow"]


def graded(way, handed_in, target):
    """Grade in one way: seconds, processor seconds in the sandboxes, and the most bytes in memory at a time."""
    command = [sys.executable, "-m", "deploy.grading", str(handed_in), "--course", str(target), *LIMITS]
    started, most, over = time.monotonic(), [0], threading.Event()
    threading.Thread(target=watch_memory, args=(most, over), daemon=True).start()
    if way == "dask":
        with cluster(2) as address:
            subprocess.run([*command, "--dask", address], cwd=ROOT, check=True)
    else:
        with subprocess.Popen([*command, "--workers", "2" if way == "kill" else way], cwd=ROOT) as process:
            if way == "kill":
                threading.Thread(target=kill_half_way, args=(process.pid, target, len(list(handed_in.iterdir()))),
                                 daemon=True).start()  # fmt: skip
            if process.wait():
                raise SystemExit(f"the grading ended with status {process.returncode}")
    took = time.monotonic() - started
    over.set()
    kept = [json.loads(path.read_text()) for path in (target / "results").glob("*/*.json")]
    return took, sum((entry["result"] or {}).get("cpu", 0) for entry in kept), most[0]


def watch_memory(most, over):
    """Keep the most bytes that the grading, its workers and the sandboxes hold."""
    while not over.wait(0.5):
        most[0] = max(most[0], sum(map(memory_of, sandbox.descendants(os.getpid()))))


def memory_of(pid):
    """Bytes in memory of one process; what it shares with others is divided among them."""
    try:
        lines = pathlib.Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def kill_half_way(pid, target, count):
    """End one worker process when half of the results are there."""
    while len(list((target / "results").glob("*/*.json"))) < count // 2:
        time.sleep(0.2)
    victim = workers_of(pid)[0]
    print(f"killing the worker {victim}", flush=True)
    os.kill(victim, signal.SIGKILL)


def workers_of(pid):
    """The worker processes of a run of `deploy.grading`."""
    found = []
    for child in sandbox.descendants(pid):
        try:
            if b"spawn_main" in pathlib.Path("/proc", str(child), "cmdline").read_bytes():
                found.append(child)
        except OSError:
            continue
    return found


class cluster:
    """A Dask scheduler and `count` workers on this machine, which do not share this folder."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.folder, self.running = tempfile.TemporaryDirectory(), []
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def start(self):
        from dask.distributed import Client

        # The scheduler writes this file when it answers. A question that comes earlier may wait for ever.
        about = pathlib.Path(self.folder.name) / "scheduler.json"
        self.run("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", about)
        until = time.monotonic() + 60
        while not about.exists() or not about.read_text().endswith("}"):
            if time.monotonic() > until or self.running[0].poll() is not None:
                raise RuntimeError("the scheduler of Dask does not start")
            time.sleep(0.1)
        address = json.loads(about.read_text())["address"]
        for _ in range(self.count):
            self.run("dask_worker", address, "--nthreads", "1", "--no-nanny", "--local-directory", self.folder.name)
        with Client(address, timeout="60s") as client:
            client.wait_for_workers(self.count, timeout=60)
        return address

    def run(self, program, *arguments):
        command = [sys.executable, "-P", "-m", f"distributed.cli.{program}", *arguments, "--no-dashboard"]
        quiet = {"cwd": self.folder.name, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.running.append(subprocess.Popen(command, **quiet))

    def __exit__(self, *exc):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.folder.cleanup()


def compared(made, target):
    """What is not as expected, over all samples."""
    marks, found = Course(target).marks(), []
    points = {}
    for name in {sample.assignment for sample in made}:
        assignment = Assignment.load(target, name)
        of = {c.metadata.nbgrader.grade_id: c.metadata.nbgrader.get("points", 0) for c in assignment.notebook.cells}
        points |= {task: of[grade_id] for grade_id, (task, _, _) in assignment.graded.items()}
    for sample in made:
        path = target / "results" / safe_id(sample.student) / f"{sample.assignment}.json"
        entry = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        mark = marks.get((safe_id(sample.student), sample.assignment), {})
        found += samples.problems(sample, entry, mark, points)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
