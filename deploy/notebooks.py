"""Run notebooks from top to bottom and store their outputs, without anything that differs from run to run.

    python deploy/notebooks.py [NOTEBOOK ...]

Without names: every notebook of notebooks/ and solutions/. A cell that fails is shown, its notebook keeps the outputs
it had, and the exit status is 1. A notebook whose outputs are as before is not written.
"""

import concurrent.futures
import os
import pathlib
import sys
import time

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("notebooks", "solutions")
CELL_SECONDS = 120
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def main(arguments):
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    paths = [pathlib.Path(argument).resolve() for argument in arguments] or all_notebooks()
    if not paths:
        print("There is no notebook in " + " or ".join(FOLDERS) + ".")
        return 1
    if missing := [argument for argument, path in zip(arguments, paths, strict=False) if not path.is_file()]:
        print(f"No such notebook, so none was run: {', '.join(missing)}. Type one as notebooks/00_start_here.ipynb.")
        return 1
    # A stored output must not show the progress of whoever stored it, nor this run count as theirs.
    os.environ["AUTODIFF_PROGRESS"] = "off"
    failed = 0
    with concurrent.futures.ProcessPoolExecutor(max_workers=2) as pool:
        for verdict, text in pool.map(refresh, paths):
            failed += verdict == "failed"
            print(text, flush=True)
    return 1 if failed else 0


def all_notebooks():
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.ipynb"))


def refresh(path):
    """Run one notebook and store it: ("stored" | "same" | "failed", what to print)."""
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    started = time.monotonic()
    try:
        NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
            # Else each kernel warns that it talks over loopback without encryption.
            extra_arguments=["--log-level=ERROR"],
            store_widget_state=False,
            record_timing=False,
        ).execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return "failed", f"failed  {name}\n{error}"
    clean(notebook)
    nbformat.validate(notebook)
    after = nbformat.writes(notebook) + "\n"
    took = f"{time.monotonic() - started:.1f} s"
    if after == before:
        return "same", f"same    {name}  {took}"
    path.write_text(after, encoding="utf-8", newline="\n")
    return "stored", f"stored  {name}  {took}"


def clean(notebook):
    """Take out what differs from run to run or from machine to machine."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = dict(KERNEL)
    # The patch version of Python is no part of a lesson.
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(without_view, merged(cell.outputs)) if output is not None]


def merged(outputs):
    """Join neighbouring writes to one stream: how they were split depends on timing."""
    joined = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def without_view(output):
    """A widget's model is gone when the file is opened again; only then is its static form shown instead."""
    if "data" in output:
        output.data.pop(WIDGET_VIEW, None)
        if not output.data:
            return None
    return output


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
