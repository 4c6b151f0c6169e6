"""The learner's own progress file.

Where it is: the file named by the environment variable ``AUTODIFF_PROGRESS``; else ``autodiff-course/progress.json`` in
the learner's data folder as platformdirs knows it, which outlives kernels and new copies of the course; where Python
runs in the browser, the top folder of the site's own file browser. With ``AUTODIFF_PROGRESS=off``, or under pytest when
the variable is not set, nothing is read or written.

How a task goes on: it is *open* until its check passes. A pass belongs to a round. A task is finished once it has been
passed alone (no hint opened, not marked "with help" or "not yet") on a later day than its first pass; until then it
comes back on each later day. A task that comes back starts a new round: numbers to work out by hand are dealt anew, and
an answer in code counts only after the check has seen it empty in this round, so that yesterday's cell is not enough.
Numbers are also dealt anew when a check has shown what it expected, which is help like a hint; and so is a question in
another wording, after two wrong letters.

The file is written to a temporary file and moved into place under a lock, so a crash leaves the old one and two kernels
do not lose each other's entries. A file that cannot be understood is set aside under another name, never overwritten.
"""

import contextlib
import datetime
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None

VERSION = 1
MARKS = ("on my own", "with help", "not yet")
_LOCK_SECONDS = 5.0
_DRIVE = Path("/drive")  # where JupyterLite keeps files from one visit to the next
_FAILED = "Progress could not be kept"


def today() -> str:
    return datetime.date.today().isoformat()


def location() -> Path | None:
    """The progress file, or None when progress is switched off."""
    chosen = os.environ.get("AUTODIFF_PROGRESS", "").strip()
    if chosen.lower() == "off" or (not chosen and "PYTEST_VERSION" in os.environ):
        return None
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "emscripten":
        return (_DRIVE if _DRIVE.is_dir() else Path()) / "progress.json"
    from platformdirs import user_data_path

    return user_data_path("autodiff-course", appauthor=False, roaming=True) / "progress.json"


class Entry(dict):
    """What is known of one task: a dict of JSON values with the questions one asks of it.

    `hints`, `tries` (that did not pass), `emptied` and `mark` are those of this round. `shown` has the round of each
    time that the expected numbers were shown, or two letters ruled out, before the answer was right.
    """

    def __init__(self, stored=()):
        super().__init__(round=0, hints=0, tries=0, emptied=False, passes=[], mark=None, shown=[])
        self.update(stored)

    @property
    def deal(self) -> int:
        """The number of the inputs that are dealt now."""
        return self["round"] + len(self["shown"])

    @property
    def finished(self) -> bool:
        return any(p["alone"] and p["day"] > self["passes"][0]["day"] for p in self["passes"])

    @property
    def this_pass(self) -> dict | None:
        """The pass of this round."""
        return next((p for p in reversed(self["passes"]) if p["round"] == self["round"]), None)

    @property
    def passed_this_round(self) -> bool:
        return self.this_pass is not None

    def at_hand(self, day: str) -> bool:
        """Whether a mark of the whole exercise is about this task: it was passed on `day`, or tried and not passed."""
        return self.this_pass["day"] == day if self.passed_this_round else self["tries"] > 0

    def due(self, day: str) -> bool:
        """Whether the task comes back on `day`, or has come back and is not passed again yet."""
        return bool(self["passes"]) and not self.finished and self["passes"][-1]["day"] < day

    def begin_if_due(self, day: str):
        """Start a new round for a task that comes back."""
        if self.due(day) and self.passed_this_round:
            self.update(round=self["round"] + 1, hints=0, tries=0, emptied=False, mark=None)

    def add_pass(self, day: str):
        """Count a passed check, once a round; hints opened before it count as help, later ones do not."""
        if not self.passed_this_round:
            if self["mark"] == "not yet":
                self["mark"] = None  # it was said before the pass
            shown = self["round"] in self["shown"]
            alone = self["hints"] == 0 and not shown and self["mark"] in (None, "on my own")
            self["passes"].append({"round": self["round"], "day": day, "alone": alone, "hints": self["hints"],
                                   "shown": shown})

    def add_mark(self, text: str):
        """Keep the learner's own judgement; it can turn this round's pass into one with help, and back."""
        self["mark"] = text
        for p in self["passes"]:
            if p["round"] == self["round"]:
                p["alone"] = p["hints"] == 0 and not p.get("shown") and text == "on my own"

    def merged(self, other: "Entry") -> "Entry":
        """What both entries know together: every pass once, the later round's hints and mark."""
        both = sorted([*self["passes"], *other["passes"]], key=lambda p: p["alone"])
        passes = {(p["round"], p["day"]): p for p in both}
        later, earlier = (self, other) if self["round"] >= other["round"] else (other, self)
        entry = Entry(later)
        entry["passes"] = sorted(passes.values(), key=lambda p: (p["day"], p["round"]))
        entry["shown"] = sorted((Counter(self["shown"]) | Counter(other["shown"])).elements())
        if later["round"] == earlier["round"]:
            entry["hints"] = max(self["hints"], other["hints"])
            entry["tries"] = max(self["tries"], other["tries"])
            entry["emptied"] = bool(self["emptied"] or other["emptied"])
            entry["mark"] = later["mark"] or earlier["mark"]
        return entry


def _check(data) -> dict[str, Entry]:
    """The entries in a parsed file; ValueError when it is no progress file of ours."""
    if not isinstance(data, dict) or not isinstance(data.get("tasks"), dict):
        raise ValueError("no progress file")
    if type(data.get("version")) is not int:
        raise ValueError("no version")
    if data["version"] > VERSION:
        raise _Newer("written by a newer version of the course")
    entries = {}
    for task, stored in data["tasks"].items():
        entry = Entry(stored)
        numbers = all(type(entry[key]) is int and entry[key] >= 0 for key in ("round", "hints", "tries"))
        passes = isinstance(entry["passes"], list) and all(
            isinstance(p, dict) and isinstance(p.get("day"), str) and isinstance(p.get("alone"), bool)
            and type(p.get("round")) is int and type(p.get("hints")) is int for p in entry["passes"])
        shown = isinstance(entry["shown"], list) and all(type(number) is int for number in entry["shown"])
        if not (numbers and passes and shown):
            raise ValueError(f"entry {task}")
        entries[task] = entry
    return entries


class _Newer(Exception):
    pass


_session: dict[str, Entry] = {}


def read() -> tuple[dict[str, Entry], list[str]]:
    """All entries and notes for the learner; entries of this session only when there is no file to use."""
    path = location()
    if path is None:
        return {}, []
    try:
        return _load(path)
    except (OSError, _Newer) as problem:
        return dict(_session), [_trouble(path, problem)]


def update(task: str, change: Callable[[Entry], None]) -> tuple[Entry, list[str]]:
    """Apply `change` to the entry of `task` and write the file. Returns the entry and notes for the learner.

    Trouble with the file never stops a check: the change is then kept for this session, and a note says why.
    """
    path = location()
    if path is None:
        entry = Entry()
        change(entry)
        return entry, []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            entries, notes = _load(path)
            entry = entries.setdefault(task, _session.pop(task, None) or Entry())
            change(entry)
            _write(path, entries)
        return entry, notes
    except (OSError, _Newer) as problem:
        if task not in _session:
            with contextlib.suppress(OSError, _Newer):
                _session.update({k: v for k, v in _load(path)[0].items() if k not in _session})
        entry = _session.setdefault(task, Entry())
        change(entry)
        return entry, [_trouble(path, problem)]


def export(target: Path):
    """Write all entries to `target`, in one move; OSError when it cannot be written."""
    _write(Path(target), read()[0])


def merge(source: Path) -> tuple[int, list[str]]:
    """Add what the file `source` knows to the progress here. Returns the number of its tasks, and notes.

    OSError when `source` cannot be read or the progress cannot be written, ValueError when it is no progress file.
    Either way nothing has changed.
    """
    try:
        more = _check(json.loads(Path(source).read_text(encoding="utf-8")))
    except (TypeError, KeyError, RecursionError, _Newer) as problem:
        raise ValueError(str(problem)) from None
    path = location()
    if path is None:
        raise OSError(0, "progress is switched off here")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        entries, notes = _load(path)
        for task, entry in more.items():
            entries[task] = entries[task].merged(entry) if task in entries else entry
        _write(path, entries)
    return len(more), notes


def failed(notes: list[str]) -> bool:
    """Whether these notes say that nothing was written."""
    return any(note.startswith(_FAILED) for note in notes)


def _trouble(path: Path, problem: Exception) -> str:
    reason = getattr(problem, "strerror", None) or str(problem)
    return (f"{_FAILED} in {path} ({reason}). Your answer is checked all the same. "
            "Set AUTODIFF_PROGRESS to a file you can write, or to off.")


def _load(path: Path) -> tuple[dict[str, Entry], list[str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}, []
    except UnicodeDecodeError:
        text = ""
    try:
        return _check(json.loads(text)), []
    except (ValueError, TypeError, KeyError, RecursionError):
        aside = path.with_name(f"{path.stem}-unreadable-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}{path.suffix}")
        os.replace(path, aside)
        return {}, [f"Your progress file could not be read. It is kept as {aside}, and a new one was begun."]


def _write(path: Path, entries: dict[str, Entry]):
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem + "-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"version": VERSION, "tasks": entries}, file, indent=1, sort_keys=True)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def _locked(path: Path):
    """Hold the lock of a progress file. The system frees it when a process dies, so it is never stale."""
    if not hasattr(fcntl, "flock"):  # Windows; and the browser, whose fcntl has none
        with _locked_by_name(path):
            yield
        return
    with open(path.with_name(path.name + ".lock"), "a") as file:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OSError(0, "another notebook has held it for too long") from None
                time.sleep(0.01)
            except OSError:
                # Some network file systems have no locks; writing atomically is then the best there is.
                break
        yield


@contextlib.contextmanager
def _locked_by_name(path: Path):
    """A lock where there is no `flock`: a file that only one process can create, taken over when it is old."""
    name = path.with_name(path.name + ".lock")
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL))
            break
        except FileExistsError:
            with contextlib.suppress(OSError):
                if time.time() - name.stat().st_mtime > 2 * _LOCK_SECONDS:
                    os.unlink(name)
            if time.monotonic() > deadline:
                raise OSError(0, "another notebook has held it for too long") from None
            time.sleep(0.01)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
