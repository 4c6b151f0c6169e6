"""No verdict depends on chance, or on what else the machine does: stubs, solutions and known wrong answers, many times.

AUTODIFF_SEEDS says how often, as for test_seeds: a quarter of it for each exercise, and a fortieth for those whose
answers take long to judge. Three exercises are tried everywhere, all of them in CI.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autodiff.course import prove

ROOT = Path(__file__).resolve().parent.parent
SEEDS = int(os.environ.get("AUTODIFF_SEEDS", "8"))
NUMBERS = [path.name[:2] for path in prove.masters(ROOT)]
DEAR = {"08", "10", "13", "17"}
MEASURES = "13"  # the exercise that watches the memory itself; a watch makes others several times as slow
EVERYWHERE = {"01", "11", "16"}
CHANCES = [number if number in EVERYWHERE else pytest.param(number, marks=pytest.mark.thorough) for number in NUMBERS]
RUN = """
import gc
from pathlib import Path
from autodiff.course import prove
{prepare}
print(prove.every_verdict(Path({root!r}), {number!r}, {seed}))
"""
CIRCUMSTANCES = {
    "no garbage collection": ("1", "gc.disable()"),
    "garbage collection often": ("2", "gc.freeze(); gc.set_threshold(20, 20, 20)"),
    "memory watched": ("3", "import tracemalloc; tracemalloc.start()"),
}


@pytest.mark.parametrize("number", CHANCES)
def test_the_verdict_is_the_same_with_every_seed(number):
    for seed in range(max(2, SEEDS // (40 if number in DEAR else 4))):
        assert prove.every_verdict(ROOT, number, seed) == []


@pytest.mark.thorough
@pytest.mark.parametrize("number, circumstance", [
    (number, circumstance) for number in NUMBERS for circumstance in CIRCUMSTANCES
    if number == MEASURES or circumstance != "memory watched"])  # fmt: skip
def test_the_verdict_is_the_same_in_other_circumstances(number, circumstance):
    """Another order of sets, and of what is let go; and two other processes that want the processor all the time."""
    hashed, prepare = CIRCUMSTANCES[circumstance]
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        code = RUN.format(prepare=prepare, root=str(ROOT), number=number, seed=int(hashed))
        ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True,
                             env={**os.environ, "PYTHONHASHSEED": hashed})
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert ran.returncode == 0 and ran.stdout.strip() == "[]", ran.stdout + ran.stderr[-2000:]


def test_a_verdict_that_depends_on_the_seed_is_found(monkeypatch):
    wrong = next(w for w in prove.wrong_answers("11") if w.task == "11.c")
    some = prove.WrongAnswer(wrong.task, "by chance", wrong.source)
    monkeypatch.setattr(prove, "wrong_answers", lambda number: [some])
    problems = prove.every_verdict(ROOT, "11", 7)
    assert len(problems) == 1 and problems[0].endswith("with seed 7") and wrong.fault in problems[0]
