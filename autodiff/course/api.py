"""The calls that exercises make: `check`, `given`, `hint`, `mark`, `progress`."""

import functools
import importlib
import importlib.resources
import os
import re
import secrets
import traceback

from autodiff.course import record
from autodiff.course.judge import Attempt, EndedFromOutside, Task, judging, own_line, sharpen, stopped
from autodiff.course.result import (
    BROKEN,
    NOT_STARTED,
    PASSED,
    UNFINISHED,
    WRONG,
    Page,
    Result,
    Table,
    paragraphs,
    safe_repr,
)

_STAGES = ("nudge", "picture", "skeleton")
_hints_shown: dict[str, int] = {}
_misses: dict[tuple[str, int], list] = {}  # the answers that missed, by task and deal


def _exercises() -> list[str]:
    here = importlib.resources.files("autodiff.course")
    found = [re.fullmatch(r"checks_(\d\d)\.py", path.name) for path in here.iterdir()]
    return sorted(match[1] for match in found if match)


def _tasks_of(exercise: str) -> tuple[Task, ...]:
    return importlib.import_module(f"autodiff.course.checks_{exercise}").TASKS


@functools.cache
def tasks() -> dict[str, Task]:
    """Every task of the course by id, in order."""
    return {task.id: task for exercise in _exercises() for task in _tasks_of(exercise)}


def _find(task_id) -> Task | None:
    """The task with this id; only the checks of its exercise are loaded."""
    exercise = task_id[:2] if isinstance(task_id, str) else None
    found = _tasks_of(exercise) if exercise in _exercises() else ()
    return next((task for task in found if task.id == task_id), None)


def _no_such_task(task_id) -> str:
    return f"There is no task {safe_repr(task_id)}. {_the_tasks(task_id)}"


def _the_tasks(near=None) -> str:
    """The tasks of the exercise that `near` begins with; else how the ids of all of them are made."""
    exercises = _exercises()
    if isinstance(near, str) and near[:2] in exercises:
        return f"The tasks are {', '.join(task.id for task in _tasks_of(near[:2]))}."
    return f'The exercises are {exercises[0]} to {exercises[-1]}; a task is written like "02.a".'


def _deals(task: Task, upto: int) -> list:
    """The inputs dealt in each round so far; the first ones are the same for everybody."""
    if task.deal is None:
        return []
    return [task.deal(number) for number in range(upto + 1)]


def check(task_id: str = ..., *answers, seed: int | None = None) -> Result:
    """Judge the answers to one task.

    Returns a `Result`: true when the answer is right, else false with a diagnosis. It never raises. The inputs are
    fresh each time; a diagnosis names the `seed` that repeats them.
    """
    if task_id is ...:
        call = 'Call check("02.a", ...) with the id of a task and your answers.'
        return Result(f"check: {WRONG}", [f"{call} {_the_tasks()}"])
    task = _find(task_id)
    if task is None:
        return Result(f"check: {WRONG}", [_no_such_task(task_id)], task=str(task_id))
    day = record.today()
    before = []

    def begin(entry):
        before.append(entry.deal)
        entry.begin_if_due(day)

    entry, notes = record.update(task.id, begin)
    came_back = entry.deal != before[0] and task.deal is not None
    if seed is None:
        seed = secrets.randbelow(1_000_000)
    numbers = (task.id, entry.deal)
    # A judge shows the target of numbers at the second miss. A graded copy never shows it.
    missed = [] if os.environ.get("AUTODIFF_GRADED") else _misses.get(numbers, [])
    attempt = Attempt(task, answers, seed, _deals(task, entry.deal), len(missed), before=missed)
    result = _judge(attempt)
    if result.missed:
        _misses[numbers] = [*missed, answers]
    if result.status == WRONG and attempt.used_seed:
        again = f'check("{task.id}", {", ".join(task.wants)}, seed={seed})'
        result.notes.append(f'To repeat with the same inputs: `{again}`. For a hint: `hint("{task.id}")`.')
    elif result.status in (WRONG, NOT_STARTED, UNFINISHED):
        result.notes.append(f'For a hint, run `hint("{task.id}")` in a new cell.')
    shown = result.missed and attempt.tells and record.location() is not None and not entry.passed_this_round
    if shown:
        result.after += [task.missed.format(id=task.id), *_new(task, entry.deal, entry.deal + 1)]
    elif came_back and result.status == WRONG:
        result.after += ["The task came back today, with inputs of its own:", *_new(task, before[0], entry.deal)]
    entry, more = record.update(task.id, lambda e: _count(e, task, result, day, shown))
    notes = list(dict.fromkeys(notes + more))
    result.notes += (_on_progress(entry, task, result, day) if not record.failed(notes) else []) + notes
    return result


def _new(task: Task, before: int, number: int) -> list[str]:
    """What `given` prints for a deal, when it is another text than that of the deal before."""
    if task.deal is None:
        return []
    was, now = (task.show(task.deal(k)) for k in (before, number))
    return paragraphs(now) if now != was else []


def _judge(attempt: Attempt) -> Result:
    task, answers = attempt.task, attempt.answers
    if len(answers) != len(task.wants):
        return attempt.wrong([f"`check` got {len(answers)} answers for this task and needs {len(task.wants)}."],
                               look=f'Call check("{task.id}", {", ".join(task.wants)}).')
    token = judging.set(True)
    try:
        return sharpen(attempt, task.judge(attempt))
    except EndedFromOutside as ended:
        return stopped(attempt, ended.run, task.wants[0])
    except Exception as error:
        if theirs := own_line(error):
            # Their object was asked for its text, its length or its value, and that failed.
            raised = type(error).__name__
            shown = [f"Something in your answer could not be looked at: it raised {raised}.", f"    {theirs}"]
            return attempt.wrong(shown, look="Which object of yours is this? Print it before the check.")
        where = "\n".join("    " + line for line in traceback.format_exc(limit=-4).splitlines())
        body = ["This is a fault of the course, not of your answer. Please report it, with your code and this:", where]
        return Result(f"{task.id}  {BROKEN}", body, task=task.id, status=BROKEN)
    finally:
        judging.reset(token)


def _count(entry: record.Entry, task: Task, result: Result, day: str, shown: bool):
    if result.status == NOT_STARTED:
        entry["emptied"] = True
    elif result.status == PASSED:
        if task.deal is not None or entry["round"] == 0 or entry["emptied"]:
            entry.add_pass(day)
    elif result.status != UNFINISHED:
        entry["tries"] += 1
        if shown:
            entry["shown"].append(entry["round"])


def _on_progress(entry: record.Entry, task: Task, result: Result, day: str) -> list[str]:
    if record.location() is None or result.status != PASSED:
        return []
    if not entry.passed_this_round:
        return [f"This is the answer of an earlier day ({entry['passes'][-1]['day']}). To finish the task, empty the "
                "answer, run the cell, and write it again without looking."]
    if entry.finished:
        return ["Done alone on a later day: this task is finished."]
    return ["Kept. The task comes back on a later day, until you have done it alone then."]


def given(task_id: str = ...):
    """Print the inputs of a task. They change when the task comes back, and after a second miss.

    Returned is what a cell computes with, such as the rules to check; of a task that is answered on paper, nothing.
    """
    if task_id is ...:
        print(f'Name the task, for example given("02.a"). {_the_tasks()}')
        return None
    task = _find(task_id)
    if task is None or task.deal is None:
        print(_no_such_task(task_id) if task is None else f"{task.id} has no numbers to deal: its answer is code.")
        return None
    entry, _ = record.update(task.id, lambda e: e.begin_if_due(record.today()))
    deal = task.deal(entry.deal)
    print(task.show(deal))
    return deal if task.hands_over else None


def hint(task_id: str = ..., stage: int | None = None) -> Page:
    """Show the next hint of a task, or one of those before it. An opened hint counts as help until the task comes back.

    Hints open one at a time: the first is a nudge, the second a picture, the third a skeleton.
    """
    if task_id is ...:
        return Page("hint", [f'Name the task, for example `hint("02.a")`. {_the_tasks()}'])
    task = _find(task_id)
    if task is None:
        return Page("hint", [_no_such_task(task_id)])
    if stage is not None and stage not in (1, 2, 3):
        return Page(f"{task.id}  hint", [f"There are hints 1, 2 and 3, not {safe_repr(stage)}."])

    def open_hint(entry):
        entry.begin_if_due(record.today())
        seen = entry["hints"] if record.location() else _hints_shown.get(task.id, 0)
        shown.append(min(stage or 3, seen + 1))
        entry["hints"] = max(entry["hints"], shown[-1])

    shown = []
    entry, notes = record.update(task.id, open_hint)
    number = shown[-1]
    _hints_shown[task.id] = max(number, _hints_shown.get(task.id, 0))
    after = [f'The next one: `hint("{task.id}")` again.' if number < 3 else
             f'This was the last hint. The first one again: `hint("{task.id}", 1)`.']
    if stage is not None and stage > number:
        after.insert(0, f"Hints open one at a time, and this is the next one, not hint {stage}.")
    headline = f"{task.id}  hint {number} of 3 ({_STAGES[number - 1]})"
    return Page(headline, task.hint(number, entry.deal).split("\n\n"), None, after, notes)


def mark(which: str = ..., how: str | None = None) -> Page:
    """Keep your own judgement of an exercise ("02") or of one task ("02.b"): on my own, with help, or not yet.

    That of an exercise is about its tasks that were passed today, or tried and not passed yet.
    """
    if which is ...:
        return Page("mark", ['Say which exercise or task, and how it went, for example `mark("02", "with help")`. '
                             + _the_tasks()])
    chosen = [t for t in tasks().values() if isinstance(which, str) and which in (t.id, t.id.split(".")[0])]
    if not chosen:
        return Page("mark", [f"There is no exercise or task {safe_repr(which)}. {_the_tasks(which)}"])
    if how not in record.MARKS:
        choices = ", ".join(f'mark("{which}", "{m}")' for m in record.MARKS)
        said = ("Replace the three dots" if how is ... else "Say how it went" if how is None
                else f"{safe_repr(how)} is none of the three marks")
        return Page(f"{which}  not marked", [f"{said}. Use one of: {choices}."])
    if record.location() is None:
        return Page(f"{which}  {how}", ["Progress is switched off here, so nothing was kept."])
    entries, notes = record.read()
    alone = chosen[0].id == which
    if not alone:
        chosen = [t for t in chosen if t.id in entries and entries[t.id].at_hand(record.today())]
    if not chosen:
        said = f"No task of {which} has been tried today, or is open after a try, so nothing is marked."
        return Page(f"{which}  not marked", [said, f'For one task: `mark("{which}.a", "{how}")`.'], None, [], notes)
    words, kept = [], []
    for task in chosen:
        entry, more = record.update(task.id, lambda e: e.add_mark(how))
        notes += more
        said = _on_mark(entry, task, how)
        if said is None:
            kept.append(task.id)
        elif entry.passed_this_round:
            words.append(said)
        else:
            words.append(said if alone else f"{task.id}: {said[0].lower()}{said[1:]}")
    if kept:
        words.insert(0, "Remembered until the kernel stops." if record.failed(notes) else
                     "Kept." if alone else f"Kept for {', '.join(kept)}.")
    return Page(f"{which}  {how}", words, None, [], list(dict.fromkeys(notes)))


def _on_mark(entry: record.Entry, task: Task, how: str) -> str | None:
    """What a mark does not change, or not yet; None when it is kept as it was said."""
    this_pass = entry.this_pass
    if this_pass is None:
        return None if how == "not yet" else "Noted. It counts when the check has passed."
    if how != "on my own":
        return None
    if this_pass["hints"]:
        hints = "1 hint" if this_pass["hints"] == 1 else f"{this_pass['hints']} hints"
        return f"You opened {hints} for {task.id}, so it comes back once more."
    if this_pass.get("shown"):
        return f"{task.helped.format(id=task.id)}, so it comes back once more."
    return None


def progress(exercise: str | None = None) -> Page:
    """List every task, or those of one exercise ("02"): how far you are, and what comes back today."""
    path = record.location()
    if path is None:
        return Page("Progress", ["Progress is switched off here."])
    chosen = [t for t in tasks().values() if exercise is None or t.id.split(".")[0] == exercise]
    if not chosen:
        return Page("Progress", [f"There is no exercise {safe_repr(exercise)}. {_the_tasks()}"])
    entries, notes = record.read()
    day = record.today()
    rows = [(t.id, t.title, *_state(entries.get(t.id, record.Entry()), day)) for t in chosen]
    due = [row[0] for row in rows if row[3] == "today"]
    body = ["Back today: " + ", ".join(due) + "." if due else "Nothing comes back today."]
    table = Table(("task", "what", "state", "comes back"), tuple(rows))
    return Page("Progress", body, table, [f"Kept in {path}"], notes)


def export_progress(file: str = "autodiff-progress.json") -> Page:
    """Write your progress to `file`, to take it to another computer."""
    if record.location() is None:
        return Page("Progress", ["Progress is switched off here, so there is nothing to export."])
    try:
        record.export(file)
    except OSError as problem:
        return Page("Progress", [f"{file} could not be written ({problem.strerror or problem}). Name another file."])
    return Page("Progress", [f'Written to {file}. There, run import_progress("{file}").'])


def import_progress(file: str = ...) -> Page:
    """Add the progress in `file`, which `export_progress` wrote, to yours. Nothing that you have is lost."""
    if file is ...:
        return Page("Progress", ['Name the file, for example import_progress("autodiff-progress.json").'])
    try:
        count, notes = record.merge(file)
    except ValueError as problem:
        return Page("Progress", [f"{file} is no progress file ({problem}). Your progress is as it was."])
    except OSError as problem:
        why = problem.strerror or problem
        return Page("Progress", [f"{file} could not be imported ({why}). Your progress is as it was."])
    said = f"Added: {count} tasks from {file}. Where both knew a task, every pass is kept."
    return Page("Progress", [said], notes=notes)


def _state(entry: record.Entry, day: str) -> tuple[str, str]:
    not_yet = entry["mark"] == "not yet"
    if not entry["passes"]:
        tries = f", {entry['tries']} tries" if entry["tries"] > 1 else ""
        return ("not yet" if not_yet else "open") + tries, "-"
    last = entry["passes"][-1]
    if entry.finished:
        return f"finished, {last['day']}", "-"
    if not_yet and not entry.passed_this_round:
        state = "not yet"
    else:
        state = f"{'on my own' if last['alone'] else 'not yet' if not_yet else 'with help'}, {last['day']}"
    return state, "today" if entry.due(day) else "from tomorrow"
