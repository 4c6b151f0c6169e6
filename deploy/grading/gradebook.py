"""The marks: nbgrader's steps for one submission after another, in one process, the only one that opens the gradebook.

nbgrader's own converters do the work: `generate_assignment` for the course's sources, then for each submission
`autograde` and `generate_feedback`. Only its step that executes is another one: what the sandbox sent is put in place.
"""

import hashlib
import json
import logging
import os
import pathlib
import re
import sysconfig
import warnings

import nbformat
import sqlalchemy
from nbgrader.api import Assignment, Comment, Grade, Gradebook, MissingEntry, SubmittedAssignment, SubmittedNotebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import Execute, NbGraderPreprocessor
from sqlalchemy.exc import SAWarning
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from deploy.grading.submissions import is_test

RESTORED = "restored"  # a folder beside nbgrader's own
TEXT = 8000  # characters of one output
_PNG = re.compile(r"[A-Za-z0-9+/=\n]*\Z")


class MarkingError(Exception):
    """nbgrader could not do its part; the message holds what it said."""


class PutIn(NbGraderPreprocessor):
    """In place of nbgrader's Execute: outputs and verdicts that came out of the sandbox."""

    outcome = None

    def preprocess(self, nb, resources):
        for cell in nb.cells:
            if cell.cell_type != "code":
                continue
            cell.execution_count = None
            if is_test(cell):
                cell.outputs = self.outcome["graded"].get(cell.metadata.nbgrader.grade_id, [NOT_REACHED])
            else:
                cell.outputs = self.outcome["outputs"].get(cell.id, [])
        return nb, resources


def failure(text):
    """The output of a graded cell that takes its points."""
    return nbformat.v4.new_output("error", ename="AssertionError", evalue=text, traceback=[f"AssertionError: {text}"])


NOT_REACHED = failure("This task was not reached.")


def clean(outputs) -> list:
    """Of outputs that came out of the sandbox, those that a page can show without risk: text and PNG pictures."""
    kept = []
    for output in outputs if isinstance(outputs, list) else []:
        kind = output.get("output_type") if isinstance(output, dict) else None
        if kind == "stream":
            name = "stderr" if output.get("name") == "stderr" else "stdout"
            kept.append(nbformat.v4.new_output("stream", name=name, text=_text(output.get("text"))))
        elif kind == "error":
            lines = output.get("traceback")
            lines = [_text(line) for line in (lines if isinstance(lines, list) else [])[:50]]
            kept.append(nbformat.v4.new_output("error", ename=_text(output.get("ename"))[:100],
                                               evalue=_text(output.get("evalue")), traceback=lines))
        elif kind in ("display_data", "execute_result") and isinstance(output.get("data"), dict):
            data = {"text/plain": _text(output["data"].get("text/plain"))}
            picture = output["data"].get("image/png")
            if isinstance(picture, str) and len(picture) < 10**6 and _PNG.match(picture):
                data["image/png"] = picture
            kept.append(nbformat.v4.new_output("display_data", data=data))
        if len(kept) == 200:
            break
    return kept


def _text(value):
    value = "".join(map(str, value)) if isinstance(value, list) else value
    return value.encode("utf-8", "replace").decode("utf-8")[:TEXT] if isinstance(value, str) else ""


class Course:
    """An nbgrader course folder with its gradebook: generate, mark, and read the marks."""

    def __init__(self, folder, db=None):
        # nbgrader starts `alembic` by its name.
        scripts = sysconfig.get_path("scripts")
        if scripts not in os.environ.get("PATH", "").split(os.pathsep):
            os.environ["PATH"] = scripts + os.pathsep + os.environ.get("PATH", os.defpath)
        self.folder = pathlib.Path(folder).resolve()
        config = Config()
        before = dict(os.environ)
        config.merge(PyFileConfigLoader("nbgrader_config.py", path=str(self.folder)).load_config())
        # It is meant for the kernels that nbgrader starts, and there are none here.
        os.environ.clear()
        os.environ.update(before)
        config.CourseDirectory.root = str(self.folder)
        # What was handed in stays as it is: nbgrader is given the restored notebooks.
        config.CourseDirectory.submitted_directory = RESTORED
        if db:
            config.CourseDirectory.db_url = driver_of(db)
        steps = config.Autograde.autograde_preprocessors
        if Execute not in steps:
            raise MarkingError(f"{self.folder / 'grading_config.py'} names no step that executes, in place of which "
                               "the sandbox's results could stand. Run make course again.")
        config.Autograde.autograde_preprocessors = [PutIn if step is Execute else step for step in steps]
        # A page for students runs nothing, whatever they wrote into their cells.
        config.HTMLExporter.sanitize_html = True
        # Said by SQLAlchemy about nbgrader's own work.
        warnings.filterwarnings("ignore", category=SAWarning)
        log = logging.getLogger("traitlets")
        log.setLevel(logging.CRITICAL)
        log.propagate = False
        self.api = NbGraderAPI(coursedir=CourseDirectory(config=config), config=config)
        self.api.log_level = "ERROR"
        self.db_url = self.api.coursedir.db_url
        self._connect()

    def _connect(self):
        """nbgrader's own words on a database that is not there lead elsewhere."""
        try:
            engine = sqlalchemy.create_engine(self.db_url)
            engine.connect().close()
            engine.dispose()
        except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
            said = (str(getattr(error, "orig", None) or error).strip() or type(error).__name__).splitlines()[0]
            raise MarkingError(f"The gradebook {without_password(self.db_url)} cannot be opened: "
                               f"{without_password(said).rstrip('.')}.") from None

    def gradebook(self):
        return Gradebook(self.db_url, self.api.coursedir.course_id)

    def generate(self, name):
        """`nbgrader generate_assignment`, with the hidden tests kept in the gradebook."""
        self._ran("generate_assignment", name, self.api.generate_assignment(name, force=True))

    def release(self, name):
        """What was handed out: the notebook that students began with."""
        path = self.folder / "release" / name / f"{name}.ipynb"
        return nbformat.read(path, as_version=4)

    def is_generated(self, name):
        with self.gradebook() as book:
            try:
                return bool(book.find_assignment(name).notebooks) and (self.folder / "release" / name).is_dir()
            except MissingEntry:
                return False

    def mark(self, student, name, notebook, outcome, timestamp=""):
        """Put one submission through nbgrader's steps, with `outcome`: {"outputs": ..., "graded": ...}.

        Returns what its page holds of the gradebook, as `shown` has it.
        """
        path = self.folder / RESTORED / student / name / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        os.replace(temporary, path)
        (path.parent / "timestamp.txt").unlink(missing_ok=True)
        if timestamp:
            (path.parent / "timestamp.txt").write_text(timestamp, encoding="ascii")
        PutIn.outcome = outcome
        try:
            self._ran("autograde", f"{student}/{name}", self.api.autograde(name, student))
        finally:
            PutIn.outcome = None
        return self.feedback(student, name)

    def feedback(self, student, name):
        """Write the page for the student; returns what it holds of the gradebook."""
        shown = self.shown(student, name).get((student, name))
        self._ran("generate_feedback", f"{student}/{name}", self.api.generate_feedback(name, student))
        return shown

    def shown(self, student=None, name=None):
        """{(student, assignment): a digest of the points and comments that a page for the student holds}."""
        found = {}
        with self.gradebook() as book:
            for table, columns in ((Grade, (Grade.auto_score, Grade.manual_score, Grade.extra_credit)),
                                   (Comment, (Comment.auto_comment, Comment.manual_comment))):
                rows = book.db.query(SubmittedAssignment.student_id, Assignment.name, table.cell_id, *columns,
                                     SubmittedNotebook.late_submission_penalty)
                rows = rows.select_from(table).join(SubmittedNotebook, table.notebook_id == SubmittedNotebook.id).join(
                    SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id).join(
                    Assignment, SubmittedAssignment.assignment_id == Assignment.id)  # fmt: skip
                if student is not None:
                    rows = rows.filter(SubmittedAssignment.student_id == student, Assignment.name == name)
                for who, what, *values in rows:
                    found.setdefault((who, what), []).append(json.dumps(values))
        return {one: hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest() for one, lines in found.items()}

    def _ran(self, step, what, result):
        if not result["success"]:
            said = (result.get("error") or "") + (result.get("log") or "")
            raise MarkingError(f"nbgrader {step} of {what} failed:\n{said.strip()[-2000:]}")

    def marks(self):
        """{(student, assignment): {"score", "max_score", "needs_manual_grade"}} of all that was handed in."""
        found = {}
        with self.gradebook() as book:
            for assignment in book.assignments:
                for one in book.assignment_submissions(assignment.name):
                    found[one.student.id, assignment.name] = {
                        "score": one.score, "max_score": one.max_score, "manual": bool(one.needs_manual_grade)}
        return found


def driver_of(url):
    """The URL for SQLAlchemy: PostgreSQL by the driver that the extra `grading` installs.

    >>> driver_of("postgresql://me@host/marks")
    'postgresql+psycopg://me@host/marks'
    """
    return re.sub(r"\Apostgres(ql)?://", "postgresql+psycopg://", url)


def without_password(url):
    """The URL as it may be shown and stored."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", url)


def dump(path, value):
    """Write JSON in one move, so that a run that is cut short leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(temporary, path)
