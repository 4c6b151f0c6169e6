"""Make the exercises from their masters.

    python -m autodiff.course.generate            write exercises/ anew from solutions/
    python -m autodiff.course.generate --check    exit 1 and name every file that is out of step; write nothing
    python -m autodiff.course.generate --force    overwrite an exercise in which somebody has worked

A master is an exercise with its answers, solutions/NN_name.ipynb. Answers stand between ``### BEGIN SOLUTION`` and
``### END SOLUTION``, in prose inside HTML comments, so that readers of the master do not see the markers. Cells tagged
"master" are left out. nbgrader's preprocessors take the answers and the outputs away. The stub in their place is
``raise NotImplementedError`` inside a function, and ``name = ...`` for each name that a top-level answer assigns, or
defines as a function or class that the rest of the cell uses.
"""

import argparse
import ast
import re
import sys
from pathlib import Path

FUNCTION_STUB = 'raise NotImplementedError("your answer goes here, in place of this line")'
TEXT_STUB = "*Your answer: double-click here and write.*"
MASTER_TAG = "master"
_REGION = re.compile(r"^(?P<indent>[ \t]*)### BEGIN SOLUTION[ \t]*\n(?P<answer>.*?)^[ \t]*### END SOLUTION[ \t]*$",
                     re.M | re.S)
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


class MasterError(Exception):
    """A master that cannot become an exercise; the message names the file and the cell."""


def stub_for(source: str) -> str:
    """What replaces the answer of a code cell: see the module's first lines.

    >>> stub_for("### BEGIN SOLUTION\\na = 1\\nb, c = 2, 3\\n### END SOLUTION")
    'a = ...\\nb = ...\\nc = ...'
    >>> stub_for("### BEGIN SOLUTION\\nclass A:\\n    n = 1\\n### END SOLUTION\\ncheck('00.a', A)")
    'A = ...'
    """
    region = _REGION.search(source)
    if region is None or region["indent"]:
        return FUNCTION_STUB
    used = {node.id for node in ast.walk(ast.parse(source[region.end():])) if isinstance(node, ast.Name)}
    return "\n".join(f"{name} = ..." for name in _assigned(ast.parse(region["answer"]), used))


def _assigned(tree, used) -> dict:
    """The names that an answer assigns at its top level, with the functions and classes that are used below it."""
    names, waiting = {}, [tree]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name in used:
                names[node.name] = None
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        waiting.extend(ast.iter_child_nodes(node))
    return names


def answer_of(source: str) -> re.Match | None:
    """The solution region of a code cell: groups "indent" and "answer"."""
    return _REGION.search(source)


def exercise_from(master, name: str = "master"):
    """The exercise notebook (nbformat) of a master notebook; MasterError when the markers are not in order."""
    # Only contributors need nbgrader: the checks must import without it.
    import nbformat
    from nbgrader.preprocessors import ClearHiddenTests, ClearOutput, ClearSolutions
    from traitlets.config import Config

    _inspect(master, name)
    notebook = nbformat.from_dict(master)
    notebook.cells = [cell for cell in notebook.cells if MASTER_TAG not in cell.metadata.get("tags", [])]
    notebook.metadata = nbformat.from_dict({"kernelspec": _KERNEL, "language_info": {"name": "python"}})
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        config = Config()
        config.ClearSolutions.enforce_metadata = config.ClearHiddenTests.enforce_metadata = False
        config.ClearSolutions.code_stub = {"python": stub_for(cell.source)}
        config.ClearSolutions.text_stub = TEXT_STUB
        one = nbformat.v4.new_notebook(cells=[cell], metadata=notebook.metadata)
        for step in (ClearSolutions, ClearHiddenTests, ClearOutput):
            one, _ = step(config=config).preprocess(one, {})
        cell.update(one.cells[0])
    nbformat.validate(notebook)
    left = [cell.id for cell in notebook.cells if "SOLUTION" in cell.source]
    if left:
        raise MasterError(f"{name}, cell {left[0]}: a marker is left over")
    return notebook


def _inspect(master, name: str):
    """Refuse a master in which an answer has no check in its cell, or a marker has no partner."""
    regions = 0
    for cell in master.cells:
        source = cell.source
        begin, end = source.count("BEGIN SOLUTION"), source.count("END SOLUTION")
        where = f"{name}, cell {cell.get('id', '?')}"
        if begin != end or begin > 1:
            raise MasterError(f"{where}: {begin} BEGIN SOLUTION and {end} END SOLUTION; a cell has one of each or none")
        if not begin:
            continue
        regions += 1
        if cell.cell_type == "code":
            if _REGION.search(source) is None:
                raise MasterError(f"{where}: the markers must stand on lines of their own, ### BEGIN SOLUTION first")
            if not re.search(r"^check\(", source, re.M):
                raise MasterError(f"{where}: an answer without check(...) in the same cell")
            if not stub_for(source):
                raise MasterError(f"{where}: the answer assigns no name, so there is nothing to leave open")
    if not regions:
        raise MasterError(f"{name}: no answer between solution markers")


def text_of(notebook) -> str:
    """A notebook as the text of its file, the same every time."""
    import nbformat

    return nbformat.writes(notebook).rstrip("\n") + "\n"


def worked_in(path: Path) -> bool:
    """Whether somebody has run cells in this exercise: then it may hold answers that nobody wants to lose."""
    import nbformat

    try:
        cells = nbformat.read(path, as_version=4).cells
    except Exception:
        return True
    return any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def generate(root: Path, check: bool = False, force: bool = False) -> tuple[list[str], list[str]]:
    """Write or check every exercise under `root`. Returns what was written and what is wrong, each with its file."""
    import nbformat

    masters = sorted((root / "solutions").glob("*.ipynb"))
    written, problems = [], []
    if not masters:
        problems.append(f"no masters in {root / 'solutions'}")
    for path in masters:
        target = root / "exercises" / path.name
        name = f"exercises/{path.name}"
        try:
            wanted = text_of(exercise_from(nbformat.read(path, as_version=4), f"solutions/{path.name}"))
        except MasterError as error:
            problems.append(str(error))
            continue
        there = target.read_text(encoding="utf-8") if target.exists() else None
        if there == wanted:
            continue
        if check:
            problems.append(f"{name}: " + ("missing" if there is None else "not what its master generates"))
        elif there is not None and worked_in(target) and not force:
            problems.append(f"{name}: somebody has run cells in it, so it was left alone (--force overwrites it)")
        else:
            target.parent.mkdir(exist_ok=True)
            target.write_text(wanted, encoding="utf-8", newline="\n")
            written.append(name)
    names = {path.name for path in masters}
    stray = [p.name for p in sorted((root / "exercises").glob("*.ipynb")) if p.name not in names]
    # A learner's own copy beside the exercises is no concern of a run that writes.
    problems += [f"exercises/{name}: has no master in solutions/" for name in stray if check]
    return written, problems


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autodiff.course.generate",
                                     description="Write exercises/ from the masters in solutions/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of step")
    parser.add_argument("--force", action="store_true", help="overwrite exercises in which somebody has worked")
    parser.add_argument("--root", type=Path, default=None, help="the course folder (found from here when left out)")
    options = parser.parse_args(arguments)
    root = options.root or find_root()
    if root is None:
        print("There is no folder with solutions/ here: start this in the course folder, or name it with --root.")
        return 1
    written, problems = generate(root, options.check, options.force)
    for line in written:
        print("wrote", line)
    for line in problems:
        print(line, file=sys.stderr)
    if not written and not problems:
        print("Every exercise is in step with its master.")
    return 1 if problems else 0


def find_root() -> Path | None:
    """The course folder: the working folder or one above it, else the checkout this package was loaded from."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (folder / "solutions").is_dir() and (folder / "pyproject.toml").is_file():
            return folder
    return None


if __name__ == "__main__":
    sys.exit(main())
