"""Checks that diagnose, staged hints and the learner's own progress file.

In a notebook::

    from autodiff.course import check, given, hint, mark, progress

    check("02.b", mul_backward)    # judges an answer and says which mistake its numbers are the fingerprint of
    hint("02.b")                   # the next of three hints: nudge, picture, skeleton
    mark("02", "on my own")        # or "with help", or "not yet"
    progress()                     # what is done and what comes back today
    export_progress("mine.json")   # and import_progress("mine.json") on another computer

Everything here returns an object that a notebook displays as text or HTML. Nothing raises on a wrong answer: a failed
check is a false `Result`, so that "Run All" goes on, and a program can still see the failure.

IPython is never imported.

Progress is written to the learner's own data folder. The environment variable ``AUTODIFF_PROGRESS`` names another file,
or switches progress off with the value ``off`` (see `autodiff.course.record`).
"""

from autodiff.course.api import check, export_progress, given, hint, import_progress, mark, progress
from autodiff.course.result import Result

__all__ = ["check", "export_progress", "given", "hint", "import_progress", "mark", "progress", "Result"]
