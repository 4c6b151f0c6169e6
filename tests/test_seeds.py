"""Every solution passes on every input: AUTODIFF_SEEDS of them for each task, 3 when it is not set, 200 in CI."""

import os
from pathlib import Path

import nbformat
import pytest

from autodiff.course import prove

ROOT = Path(__file__).resolve().parent.parent
SEEDS = range(int(os.environ.get("AUTODIFF_SEEDS", "3")))


@pytest.mark.parametrize("path", sorted((ROOT / "solutions").glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_solution_passes_with_every_seed(path):
    assert prove.solution_passes_every_seed(nbformat.read(path, as_version=4), SEEDS) == []


def test_a_solution_that_fails_on_some_inputs_is_found():
    master = nbformat.read(ROOT / "solutions" / "02_one_edge_twice.ipynb", as_version=4)
    cell = next(cell for cell in master.cells if prove.task_of(cell) == "02.b")
    cell.source = cell.source.replace("return [(a, g * b.value), (b, g * a.value)]",
                                      "return [(a, g * b.value), (b, g * a.value)][:1 + (g < 4)]")
    problems = prove.solution_passes_every_seed(master, range(50))
    assert len(problems) == 1 and problems[0].startswith("02.b: the solution does not pass with seed ")
