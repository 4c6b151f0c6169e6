"""The names of NumPy and none of its arithmetic: enough to import the engine and to use it on plain numbers.

test_lite.py puts this text into a cell where Python runs in the browser without a network, because NumPy for the
browser is on no package index. Whatever is asked of an array there, the answer is nonsense.
"""

import importlib.abc
import importlib.machinery
import sys
import types

CLASSES = {"ndarray", "generic", "ufunc", "dtype", "number", "inexact", "integer", "floating", "complexfloating",
           "bool", "bool_", "int64", "float32", "float64", "Generator", "errstate", "broadcast"}  # fmt: skip


class Something:
    """A function, an array or a constant: it can be named, called and calculated with."""

    def __init__(self, name):
        self.__name__ = self.__qualname__ = name
        self.__module__ = "numpy"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Something(f"{self.__name__}.{name}")

    def __call__(self, *args, **kwargs):
        return Something(f"{self.__name__}()")

    def __float__(self):
        return 1.0

    def __iter__(self):
        return iter(())

    def __lt__(self, other):
        return False

    def __neg__(self):
        return self

    def __mul__(self, other):
        return self

    __gt__ = __lt__
    __getitem__ = __add__ = __radd__ = __sub__ = __rsub__ = __rmul__ = __truediv__ = __pow__ = __rpow__ = __mul__


class Names(types.ModuleType):
    __path__ = ()
    __version__ = "2.4.0"
    __file__ = "/numpy/__init__.py"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name.endswith("Error"):
            made = type(name, (Exception,), {})
        else:
            made = type(name, (), {}) if name in CLASSES else Something(name)
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "numpy":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Names(spec.name)

    def exec_module(self, module):
        pass


if sys.platform == "emscripten":  # pytest imports every file of this folder, and has NumPy itself
    sys.meta_path.insert(0, Finder())
