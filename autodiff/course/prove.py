"""Prove that the exercises do what they promise.

    python -m autodiff.course.prove       every proof, with a line for each wrong answer

The promises: each stub is reported as not started and breaks nothing else; each solution passes; each named fault has
a known wrong answer, and each known wrong answer, put in place of the solution, gets its own diagnosis and no other.
Every proof returns a list of problems, empty when it holds, so that the proofs can be tested with planted failures.

Known wrong answers are in wrong_answers/NN.txt: a line ``== task fault``, then the answer as a learner would type it.
"""

import ast
import contextlib
import io
import linecache
import os
import random
import re
import sys
import textwrap
import types
from dataclasses import dataclass
from pathlib import Path

from autodiff.course import generate
from autodiff.course.result import BROKEN, NOT_STARTED, PASSED, UNFINISHED, WRONG, Result

_STATUSES = (PASSED, WRONG, NOT_STARTED, UNFINISHED, BROKEN)
_HEADLINE = re.compile(rf"^(\d\d\.[a-z])  ({'|'.join(map(re.escape, _STATUSES))})", re.M)
_CHECK = re.compile(r'^check\("(\d\d\.[a-z])"', re.M)


@dataclass(frozen=True)
class WrongAnswer:
    """An answer as typed between the solution markers of `task`, and the id of the fault it must be given."""

    task: str
    fault: str
    source: str


def wrong_answers(exercise: str) -> list[WrongAnswer]:
    """The known wrong answers of one exercise ("02"), from wrong_answers/NN.txt."""
    text = (Path(__file__).parent / "wrong_answers" / f"{exercise}.txt").read_text(encoding="utf-8")
    blocks = re.finditer(r"^== (\S+) (\S+)\n(.*?)(?=^== |\Z)", text, re.M | re.S)
    return [WrongAnswer(b[1], b[2], b[3].rstrip()) for b in blocks]


def task_of(cell) -> str | None:
    """The task that a code cell checks."""
    found = _CHECK.search(cell.source) if cell.cell_type == "code" else None
    return found[1] if found else None


@contextlib.contextmanager
def progress_off():
    """Keep proofs out of anybody's progress file, and what a page sets in the environment out of this process."""
    before = dict(os.environ)
    os.environ["AUTODIFF_PROGRESS"] = "off"
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def run_cells(notebook, replaced: dict[str, str] | None = None, only: str | None = None) -> tuple[dict, list[str]]:
    """Run a notebook's code cells in this process. Returns the `Result` of each task, and every error.

    `replaced` gives other sources for some cells by id; `only` leaves out the cells of all other tasks, and what is
    below its own.
    """
    names = {"__name__": "__main__"}
    results, errors = {}, []
    with progress_off(), contextlib.redirect_stdout(io.StringIO()):
        for cell in notebook.cells:
            task = task_of(cell)
            if cell.cell_type != "code" or (only and task and task != only):
                continue
            try:
                value = _run((replaced or {}).get(cell.id, cell.source), f"<cell {cell.id}>", names)
            except Exception as error:
                errors.append(f"cell {cell.id} raised {type(error).__name__}: {error}")
                continue
            if task:
                results[task] = value
                if task == only:
                    break
    return results, errors


def answers(master) -> dict[str, tuple]:
    """What the master's own answers hand to ``check``, by task."""
    import autodiff.course as course

    given = {}

    def keep(task, *answer, **options):
        given[task] = answer
        return real(task, *answer, **options)

    real, course.check = course.check, keep
    try:
        errors = run_cells(master)[1]
    finally:
        course.check = real
    if errors:
        raise generate.MasterError("; ".join(errors))
    return given


def _run(source: str, filename: str, names: dict):
    """Run one cell; the value of its last line when that is an expression, as a notebook shows it."""
    # As in a notebook: the source of a cell can be looked up.
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    tree = ast.parse(source, filename)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, filename, "exec"), names)
    return eval(compile(ast.Expression(last.value), filename, "eval"), names) if last else None


def substitute(master, wrong: WrongAnswer) -> dict[str, str]:
    """{cell id: source} with the answer of the master's cell for this task replaced by a wrong one."""
    cell = next((c for c in master.cells if task_of(c) == wrong.task), None)
    region = generate.answer_of(cell.source) if cell else None
    if region is None:
        raise generate.MasterError(f"{wrong.task}: the master has no answer to replace")
    answer = textwrap.indent(wrong.source, region["indent"])
    return {cell.id: cell.source[:region.start()] + answer + cell.source[region.end():]}


def _expect(results: dict, errors: list[str], tasks, status: str) -> list[str]:
    problems = list(errors)
    for task in tasks:
        got = results.get(task)
        if not isinstance(got, Result):
            problems.append(f"{task}: no check was run, or it is not the last line of its cell")
        elif got.status != status:
            problems.append(f"{task}: {got.status}, expected {status}")
    return problems


def tasks_checked_once(notebook, tasks) -> list[str]:
    """Every task of the exercise has one check cell, and no other task has one."""
    found = [task for task in map(task_of, notebook.cells) if task]
    return [f"{task}: {found.count(task)} check cells, expected {int(task in tasks)}"
            for task in sorted({*found, *tasks}) if found.count(task) != (task in tasks)]


def stub_fails_at_the_stub(exercise, tasks) -> list[str]:
    """The untouched exercise runs to its end, and each check says "not started yet"."""
    return _expect(*run_cells(exercise), tasks, NOT_STARTED)


def solution_passes(master, tasks) -> list[str]:
    """The master runs to its end, and each check passes."""
    return _expect(*run_cells(master), tasks, PASSED)


def diagnosed(master, wrong: WrongAnswer) -> tuple[str, list[str]]:
    """What a wrong answer is told, and the problems: another diagnosis, none, a pass, or a broken check."""
    try:
        results, errors = run_cells(master, substitute(master, wrong), only=wrong.task)
    except generate.MasterError as error:
        return "", [str(error)]
    got = results.get(wrong.task)
    if errors or not isinstance(got, Result):
        return "", [f"{wrong.task} {wrong.fault}: " + "; ".join(errors or ["no check was run"])]
    if got.status != WRONG or got.fault != wrong.fault:
        return got.text(), [f"{wrong.task} {wrong.fault}: diagnosed as {got.fault or got.status}"]
    return got.text(), []


def solution_passes_every_seed(master, seeds) -> list[str]:
    """The master's answers pass with every seed; the first that does not is named for each task."""
    from autodiff.course.api import check

    problems = []
    with progress_off():
        for task, answer in answers(master).items():
            failed = next((seed for seed in seeds if not check(task, *answer, seed=seed)), None)
            if failed is not None:
                problems.append(f"{task}: the solution does not pass with seed {failed}")
    return problems


@contextlib.contextmanager
def seeded(seed: int):
    """Let every check that is given no seed take this one, and begin the random numbers of notebooks with it too."""
    import numpy as np

    from autodiff.course import api

    before = api.secrets
    api.secrets = types.SimpleNamespace(randbelow=lambda most: seed % most)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        api.secrets = before


def every_verdict(root: Path, number: str, seed: int) -> list[str]:
    """Stub, solution and every known wrong answer of one exercise, all with one seed: what is not as promised."""
    import nbformat

    from autodiff.course.api import tasks as all_tasks

    path = next(path for path in masters(root) if path.name[:2] == number)
    tasks = [task for task in all_tasks() if task.startswith(number + ".")]
    master = nbformat.read(path, as_version=4)
    with seeded(seed):
        problems = stub_fails_at_the_stub(generate.exercise_from(master, path.name), tasks)
        problems += solution_passes(master, tasks)
        for wrong in wrong_answers(number):
            problems += diagnosed(master, wrong)[1]
    return [f"{problem}, with seed {seed}" for problem in problems]


def faults_are_proved(tasks: dict, wrongs: list[WrongAnswer]) -> list[str]:
    """Each task names faults, each once, in different words; each fault has a known wrong answer, and none is unknown.

    Answers to the inputs of an earlier day cannot be typed into a fresh exercise: those faults have ids that begin with
    "old-", and the tests of the progress file prove them.
    """
    problems = []
    for task in tasks.values():
        ids = [fault.id for fault in task.faults]
        if not ids:
            problems.append(f"{task.id}: a check without a named fault")
        for values in (ids, [f.title for f in task.faults], [f.why for f in task.faults]):
            problems += [f"{task.id}: two faults say the same: {v!r}" for v in set(values) if values.count(v) > 1]
        proved = {w.fault for w in wrongs if w.task == task.id}
        fresh = [i for i in ids if not i.startswith("old-")]
        problems += [f"{task.id} {i}: no known wrong answer" for i in fresh if i not in proved]
        problems += [f"{task.id} {i}: a wrong answer for an unknown fault" for i in sorted(proved - set(ids))]
    problems += [f"{w.task}: a wrong answer for an unknown task" for w in wrongs if w.task not in tasks]
    return problems


def executed(notebook, folder: Path) -> tuple[dict[str, str], list[str]]:
    """Run a notebook in a real kernel: the status each check shows, and every error."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.from_dict(notebook)
    with progress_off():
        NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True,
                       resources={"metadata": {"path": str(folder)}}).execute()
    statuses, errors = {}, []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                errors.append(f"cell {cell.id} raised {output.ename}: {output.evalue}")
            elif output.output_type == "stream" and output.name == "stderr":
                errors.append(f"cell {cell.id} wrote to stderr: {output.text}")
            elif task_of(cell) and "text/plain" in output.get("data", {}):
                found = _HEADLINE.match(output.data["text/plain"])
                if found and found[1] == task_of(cell):
                    statuses[found[1]] = found[2]
    return statuses, errors


def masters(root: Path) -> list[Path]:
    return sorted((root / "solutions").glob("*.ipynb"))


def main() -> int:
    import nbformat

    from autodiff.course.api import tasks as all_tasks

    root = generate.find_root()
    if root is None:
        print("Start this in the course folder.")
        return 1
    problems = generate.generate(root, check=True)[1]
    for path in masters(root):
        number = path.name[:2]
        tasks = {k: t for k, t in all_tasks().items() if k.startswith(number + ".")}
        master = nbformat.read(path, as_version=4)
        exercise = generate.exercise_from(master, path.name)
        wrongs = wrong_answers(number)
        problems += tasks_checked_once(exercise, tasks) + stub_fails_at_the_stub(exercise, tasks)
        problems += solution_passes(master, tasks) + faults_are_proved(tasks, wrongs)
        for wrong in wrongs:
            found = diagnosed(master, wrong)[1]
            problems += found
            print(f"{wrong.task}  {wrong.fault:20}  {'; '.join(found) or 'recognised'}")
    print("\n".join(problems) if problems else "Every proof holds.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
