"""What the caller calls the nodes: the variables of the calling frame and of the notebook."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

PACKAGE = str(Path(__file__).resolve().parent.parent)
MANY = 1000  # entries of a container that are looked at


def callers_names(is_node) -> dict:
    """Node -> the name of the first variable that holds it, or holds a list, tuple or dict with it."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    scopes = [frame.f_locals, frame.f_globals] if frame is not None else []
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        scopes.append(shell.user_ns)
    found: dict = {}
    inside: dict = {}
    for scope in scopes:
        for name, value in list(scope.items()):
            if not str(name).isidentifier() or name.startswith("_") or name in ("In", "Out"):
                continue
            if is_node(value):
                found.setdefault(value, name)
            elif type(value) in (list, tuple):
                for i, item in enumerate(islice(value, MANY)):
                    if is_node(item):
                        inside.setdefault(item, f"{name}[{i}]")
            elif type(value) is dict:
                for key, item in islice(value.items(), MANY):
                    if is_node(item) and isinstance(key, (str, int)):
                        inside.setdefault(item, f"{name}[{key!r}]")
    return {**inside, **found}
