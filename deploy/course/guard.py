"""Ask a graded task again, in a notebook that may have tampered with the check.

The hidden part of each graded cell runs this file, which `deploy/course/build.py` copies into the course folder, with
names of its own. `ask_again` raises AssertionError, and so takes the points, when the course's code in this kernel is
not the code in its files, or when the answer does not pass with the secret seeds.

Covered, because it needs no more than a line in a cell: a `check` or any other name of the notebook that is defined
anew; functions, classes, tasks and constants of `autodiff` that are changed or exchanged in place, which show in a
comparison with a second copy imported from its files; built-in, standard and NumPy functions that are replaced by one
of the notebook; a folder or file of the submission that is named like a package; printing a mark, or hiding an error
(grading_config.py looks at the reply of the kernel, and at nothing that a cell displays).

Not covered: whatever takes the kernel itself over (another `run_cell`, a thread, `ctypes`, `gc`), reads the right
answer from the stack or from the files of the course, or writes to those files. All of this runs with the rights of
whoever grades. Only a sandbox around the kernel can rule it out.
"""

import contextlib
import dataclasses
import functools
import importlib
import importlib.machinery
import io
import os
import sys
import types

CHANGED = "{} is not as the course made it. Take out the cell that changes it, and hand in again."
OTHERS = "{}\n  The cell above passed. This answer does not hold for the other inputs that decide the marks."

# Names that a class or a module gets from Python, or fills while it is used.
_NOISE = set("__dict__ __weakref__ __doc__ __annotations__ __builtins__ __cached__ __loader__ __spec__ __path__ "
             "__file__ __abstractmethods__ _abc_impl __slotnames__ __annotations_cache__ __annotate_func__".split())
_PLAIN = (int, float, complex, str, bytes, range, slice, type(None), type(...), type(NotImplemented))
_OUTSIDE = set("builtins contextlib copy functools importlib inspect itertools math numpy random re secrets traceback "
               "types".split())  # fmt: skip


def ask_again(task, answers, seeds):
    """Raise AssertionError unless the course's code is unchanged and `answers` pass `task` with every seed."""
    os.environ["AUTODIFF_PROGRESS"] = "off"
    changed = from_the_notebook() or first_change(task)
    if changed:
        raise AssertionError(CHANGED.format(changed))
    check = sys.modules["autodiff.course.api"].check
    for seed in seeds:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            result = check(task, *answers, seed=seed)
        if result.status != "passed":
            # The headline has no numbers in it: nothing of the secret inputs is told.
            raise AssertionError(OTHERS.format(result.headline))


def from_the_notebook():
    """The first function of Python's or NumPy's own that now is one of the notebook, or None."""
    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] in _OUTSIDE and isinstance(module, types.ModuleType):
            for attribute, value in list(vars(module).items()):
                if _home(value) == "__main__":
                    return f"{name}.{attribute}"
    return None


def _home(value):
    if isinstance(value, types.FunctionType):
        return value.__globals__.get("__name__")
    if isinstance(value, type):
        return value.__module__
    return type(value).__module__


def first_change(task):
    """The first name of the loaded course that differs from a second copy, imported from its files; or None.

    The checks of other exercises are left out: they have no part in this task.
    """
    loaded = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "autodiff"}
    root = os.environ.get("AUTODIFF_GRADED_WITH") or os.path.dirname(os.path.dirname(loaded["autodiff"].__file__))
    checks = f"autodiff.course.checks_{task[:2]}"
    with _set_aside(loaded, root):
        right = {t.id: t for t in importlib.import_module(checks).TASKS}[task]
        for name in sorted(loaded):
            if name.startswith("autodiff.course.checks_") and name != checks:
                continue
            try:
                pristine = importlib.import_module(name)
            except ImportError:
                return name
            changed = _changed_in(loaded[name], pristine)
            if changed:
                return f"{name}.{changed}"
        if not same(loaded["autodiff.course.api"].tasks().get(task), right, {}):
            return f"the task {task}"
    return None


@contextlib.contextmanager
def _set_aside(loaded, root):
    """Within the block the course is imported from `root`; after it everything is as it was."""
    path, finders = list(sys.path), list(sys.meta_path)
    standard = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter, importlib.machinery.PathFinder]
    for name in loaded:
        del sys.modules[name]
    sys.path.insert(0, root)
    sys.meta_path[:] = standard + [finder for finder in finders if finder not in standard]
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "autodiff"]:
            del sys.modules[name]
        sys.modules.update(loaded)
        sys.path[:], sys.meta_path[:] = path, finders


def _changed_in(module, pristine):
    if not isinstance(module, types.ModuleType):
        return "__class__"
    if os.path.realpath(module.__file__) != os.path.realpath(pristine.__file__):
        return "__file__"
    seen = {}
    for name, value in list(vars(module).items()):
        if name in _NOISE or isinstance(value, types.ModuleType):
            continue
        # A module that loads some names late has them only when they were asked for.
        if not hasattr(pristine, name) or not same(value, getattr(pristine, name), seen):
            return name
    lost = [n for n, v in vars(pristine).items() if n not in vars(module) and not isinstance(v, types.ModuleType)]
    return lost[0] if set(lost) - _NOISE else None


def same(a, b, seen):
    """Whether `a`, in use, does what its pristine twin `b` does. What may change while it is used is not compared."""
    if a is b or (id(a), id(b)) in seen:
        return True
    if not _twins(type(a), type(b)):
        return False
    seen[id(a), id(b)] = a, b  # kept, so that no later thing gets the same id
    if isinstance(b, types.FunctionType):
        parts = [[f.__defaults__, f.__kwdefaults__, _cells(f), vars(f), f.__globals__.get("__name__")] for f in (a, b)]
        return a.__code__ == b.__code__ and same(*parts, seen)
    if isinstance(b, type):
        return _twins(a, b) and _same_names(vars(a), vars(b), seen)
    if isinstance(b, types.ModuleType):
        return a.__name__ == b.__name__
    if isinstance(b, _PLAIN):
        return repr(a) == repr(b)
    if isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(same(x, y, seen) for x, y in zip(a, b))
    if isinstance(b, (set, frozenset)):
        return set(map(_label, b)) <= set(map(_label, a))
    if isinstance(b, dict):
        known = {_label(key): value for key, value in a.items()}
        return all(_label(key) in known and same(known[_label(key)], value, seen) for key, value in b.items())
    for kind, names in _PARTS.items():
        if isinstance(b, kind):
            return all(same(getattr(a, name), getattr(b, name), seen) for name in names)
    if hasattr(b, "__wrapped__"):
        return same(a.__wrapped__, b.__wrapped__, seen)
    fixed = dataclasses.is_dataclass(b) and b.__dataclass_params__.frozen
    mine, theirs = _state(a), _state(b)
    return all(same(mine.get(name), value, seen) for name, value in theirs.items() if fixed or callable(value))


_PARTS = {
    property: ("fget", "fset", "fdel"),
    (staticmethod, classmethod): ("__func__",),
    functools.partial: ("func", "args", "keywords"),
    types.MethodType: ("__func__", "__self__"),
}


def _twins(a, b):
    """Whether two classes are one, or the same class of two copies of the course."""
    return a is b or (b.__module__.split(".")[0] == "autodiff" and _label(a) == _label(b))


def _label(thing):
    """What names a thing in both copies."""
    name = getattr(thing, "__qualname__", None)
    return (thing.__module__, name) if isinstance(name, str) else repr(thing)


def _same_names(a, b, seen):
    names = set(b) - _NOISE
    return names == set(a) - _NOISE and all(same(a[name], b[name], seen) for name in names)


def _cells(function):
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(None)
    return found


def _state(thing):
    slots = [name for kind in type(thing).__mro__ for name in list(vars(kind).get("__slots__", ()))]
    return {**{name: getattr(thing, name, None) for name in slots}, **getattr(thing, "__dict__", {})}
