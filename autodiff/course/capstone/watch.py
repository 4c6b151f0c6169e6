"""Whether an engine does its own work: what runs is looked at, not what a name says.

A learner's part may reach ours in many ways: an import, `importlib`, `sys.modules`, the globals of a function that it
was handed, a copy of the code. In each of them code of `autodiff` runs in the end, and a `Watch` sees it.
"""

import contextlib
import os
import sys
import sysconfig
import threading
import types

import numpy

_COURSE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_ENGINE = os.path.dirname(os.path.dirname(_COURSE)) + os.sep
# In the browser the standard library is a zip file, and sysconfig names folders that are not there.
_FOLDERS = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), os.path.dirname(contextlib.__file__),
            os.path.dirname(os.path.dirname(numpy.__file__)))
_NOT_THEIRS = (_ENGINE, *(folder + os.sep for folder in _FOLDERS), "<frozen ")


class Watch:
    """Sees code of `autodiff` that runs in its ``with`` block for a learner: `found` is its name, or None, and `user`
    the name of the learner's function from which it was reached.

    `own`: the functions of ours that the learner's stand in for; none of them may run, whoever calls it. Neither may
    any function of the engine. Of the functions of the course, a learner's code may call our parts that stand in for
    stubs, `allowed`, and what a test hands over, which is made within a function or a class of ours.
    """

    def __init__(self, own=(), allowed=()):
        self._own, self._allowed = set(codes_of(own)), set(codes_of(allowed))
        self._verdicts = {}
        self.found = self.user = None

    def __enter__(self) -> "Watch":
        self._before = sys.getprofile(), threading.getprofile()
        self._hook = self._see
        sys.setprofile(self._hook)
        threading.setprofile(self._hook)
        return self

    def __exit__(self, *exc):
        if sys.getprofile() is not self._hook:
            self.found = self.found or "sys.setprofile"
        sys.setprofile(self._before[0])
        threading.setprofile(self._before[1])

    def _see(self, frame, event, arg):
        if event != "call" or self.found is not None:
            return
        code = frame.f_code
        if code not in self._verdicts:
            self._verdicts[code] = self._verdict(code)
        verdict = self._verdicts[code]
        if verdict == "never" or (verdict == "not directly" and _is_theirs(frame.f_back)):
            self.found, frame = code.co_qualname, frame.f_back
            while frame is not None and not _is_theirs(frame):
                frame = frame.f_back
            self.user = frame and frame.f_code.co_name

    def _verdict(self, code) -> str:
        file = code.co_filename
        if code in self._own or (file.startswith(_ENGINE) and not file.startswith(_COURSE)):
            return "never"
        function_of_a_module = code.co_qualname.isidentifier() and code not in self._allowed
        return "not directly" if file.startswith(_COURSE) and function_of_a_module else "fine"


def _is_theirs(frame) -> bool:
    return frame is not None and not frame.f_code.co_filename.startswith(_NOT_THEIRS)


def codes_of(functions):
    """The code of functions, with that of the functions inside them."""
    waiting = [function.__code__ for function in functions]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [const for const in code.co_consts if isinstance(const, types.CodeType)]
