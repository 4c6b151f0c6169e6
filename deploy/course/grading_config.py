"""How nbgrader makes, runs and returns the exercises of this course. `make course` writes this file anew each time.

What a teacher wants to set stands in nbgrader_config.py, which loads this file first.
"""

import importlib.util
import json
import os
import re

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions, Execute, GetGrades, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution, is_task
from traitlets import List

from autodiff.course.generate import TEXT_STUB, stub_for

LEFT_OUT = "This output is left out: it holds something of the hidden tests."


def is_test(cell):
    return cell.cell_type == "code" and is_grade(cell) and not is_solution(cell) and not is_task(cell)


class ClearAnswers(ClearSolutions):
    """Leaves what exercises/ leaves in place of an answer: `name = ...` where the answer assigns names."""

    def preprocess_cell(self, cell, resources, cell_index):
        if cell.cell_type == "code":
            self.code_stub = {"python": stub_for(cell.source)}
        self.text_stub = TEXT_STUB
        return super().preprocess_cell(cell, resources, cell_index)


class KeepErrors(NbGraderPreprocessor):
    """A graded cell shows an error or nothing: a value would be taken for a mark, and a warning for a failure."""

    def preprocess_cell(self, cell, resources, cell_index):
        if is_test(cell):
            cell.outputs = [output for output in cell.outputs if output.output_type == "error"]
        return cell, resources


class LeaveOutHiddenTests(ClearHiddenTests):
    """Takes hidden tests out of the feedback: their lines, the tracebacks that quote them, and copies in outputs."""

    # nbconvert sets it for every step of an exporter.
    display_data_priority = List().tag(config=True)

    def preprocess(self, nb, resources):
        tests = "\n".join(cell.source for cell in nb.cells if is_test(cell))
        hidden = re.findall(f"{self.begin_test_delimeter}(.*?){self.end_test_delimeter}", tests, re.S)
        lines = {line.strip() for region in hidden for line in region.splitlines() if len(line.strip()) > 20}
        seeds = {number for region in hidden for number in re.findall(r"\d{9,}", region)}
        self.secrets = {json.dumps(secret)[1:-1] for secret in lines | seeds}
        return super().preprocess(nb, resources)

    def preprocess_cell(self, cell, resources, cell_index):
        if is_test(cell):
            self._remove_hidden_test_region(cell)
            for output in cell.outputs:
                output.traceback = [f"{output.ename}: {output.evalue}"]
        if cell.cell_type == "code":
            cell.outputs = [self._without_secrets(output) for output in cell.outputs]
        return cell, resources

    def _without_secrets(self, output):
        text = json.dumps(output)
        if not any(secret in text for secret in self.secrets):
            return output
        return type(output)(output_type="stream", name="stdout", text=LEFT_OUT)


def replaced(preprocessors, old, *new):
    return [one for p in preprocessors for one in (new if p is old else (p,))]


# The kernels of nbgrader inherit these.
course = os.path.dirname(os.path.abspath(__file__))
package = importlib.util.find_spec("autodiff").origin
os.environ["AUTODIFF_PROGRESS"] = "off"
os.environ["AUTODIFF_GRADED"] = "yes"
os.environ["AUTODIFF_GUARD"] = os.path.join(course, "guard.py")
os.environ["AUTODIFF_GRADED_WITH"] = os.path.dirname(os.path.dirname(os.path.abspath(package)))
# A file of the submission must not be imported in place of a package.
os.environ["PYTHONSAFEPATH"] = "1"

c = get_config()  # noqa: F821  traitlets gives it to a configuration file
c.CourseDirectory.root = course
c.CourseDirectory.ignore = [".ipynb_checkpoints", "__pycache__", "*.pyc", "*.py", "*.so", "*.pyd", "*.pth", "feedback"]
c.Execute.extra_arguments = ["--HistoryManager.hist_file=:memory:", "--IPKernelApp.ignore_cwd=True",
                             "--log-level=ERROR"]  # else each kernel warns about its transport
c.Execute.timeout = 120
c.ClearSolutions.enforce_metadata = True
c.GenerateAssignment.preprocessors = replaced(GenerateAssignment.preprocessors.default(), ClearSolutions, ClearAnswers)
c.Autograde.autograde_preprocessors = replaced(
    Autograde.autograde_preprocessors.default(), Execute, Execute, KeepErrors)  # fmt: skip
c.GenerateFeedback.preprocessors = [GetGrades, LeaveOutHiddenTests, CSSHTMLHeaderPreprocessor]
