"""The course folder of `make course`: every master is an assignment, marks are as expected, feedback keeps its secrets.

The whole way, from generate_assignment to the feedback, is gone with nbgrader itself in a folder and a home of its own.
"""

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.preprocessors import CheckCellMetadata, ClearHiddenTests, ClearOutput, ComputeChecksums, LockCells
from nbgrader.utils import is_grade, is_locked, is_solution
from traitlets.config import Config

from autodiff.course import api, generate, prove
from autodiff.course.judge import Attempt
from autodiff.course.result import PASSED, WRONG

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "deploy" / "course"
MASTERS = sorted((ROOT / "solutions").glob("*.ipynb"))
NAMES = [path.stem for path in MASTERS]
KEY = "a key of the tests"


def load(name):
    spec = importlib.util.spec_from_file_location(f"course_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = load("build")
guard = load("guard")


@pytest.fixture(scope="module")
def rules():
    """The names of grading_config.py, which nbgrader would run."""
    before = dict(os.environ)
    path = FOLDER / "grading_config.py"
    names = {"get_config": Config, "__file__": str(path)}
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), names)
    os.environ.clear()
    os.environ.update(before)
    return names


def master_of(name):
    return nbformat.read(ROOT / "solutions" / f"{name}.ipynb", as_version=4)


def source_of(name):
    return build.assignment(master_of(name), f"{name}.ipynb", KEY)


def tasks_of(name):
    return [task for task in api.tasks() if task.startswith(name[:2] + ".")]


def graded_in(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code" and is_grade(cell)]


def hidden_in(cell):
    return re.search("### BEGIN HIDDEN TESTS\n(.*)### END HIDDEN TESTS", cell.source, re.S)[1]


def seeds_in(notebook):
    return [seed for cell in graded_in(notebook) for seed in re.findall(r"\d{9,}", hidden_in(cell))]


# Every master


@pytest.mark.parametrize("name", NAMES)
def test_every_master_is_an_assignment(name):
    notebook = source_of(name)
    MetadataValidator().validate_nb(notebook)
    for cell in notebook.cells:
        assert cell.metadata.nbgrader.grade_id == cell.id
        assert is_solution(cell) != is_locked(cell), "a cell is for an answer, or read-only"
        assert is_solution(cell) == ("BEGIN SOLUTION" in cell.source)
        assert is_solution(cell) or cell.cell_type == "code" or not is_grade(cell)
    assert [cell.id for cell in notebook.cells[1:3]] == ["graded-copy", "graded-progress"]
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "](../" not in text and ".ipynb)" not in text, "a link to a neighbour that a student does not have"
    assert not re.search(r"^(mark|progress)\(", text, re.M) and "Mark it yourself" not in text


@pytest.mark.parametrize("name", NAMES)
def test_every_task_has_one_graded_cell_below_its_answer(name):
    notebook = source_of(name)
    assert [cell.id for cell in graded_in(notebook)] == ["graded-" + t.replace(".", "-") for t in tasks_of(name)]
    for above, cell in zip(notebook.cells, notebook.cells[1:]):
        if cell in graded_in(notebook):
            assert is_solution(above) and f'\ncheck("{cell.id[7:9]}.{cell.id[10:]}", ' in above.source
            assert is_locked(cell) and cell.metadata.nbgrader.points > 0 and "raises-exception" in cell.metadata.tags
            assert len(set(re.findall(r"\d{9,}", hidden_in(cell)))) == build.SEEDS
    by_hand = [c.metadata.nbgrader for c in notebook.cells if is_grade(c) and is_solution(c)]
    assert [cell.points for cell in by_hand] == [build.THINK_BACK_POINTS]


@pytest.mark.parametrize("name", NAMES)
def test_what_students_get_is_the_exercise_without_answers_and_hidden_tests(name, rules):
    notebook = source_of(name)
    seeds = seeds_in(notebook)
    for step in (LockCells, rules["ClearAnswers"], ClearOutput, ClearHiddenTests, ComputeChecksums, CheckCellMetadata):
        notebook, _ = step().preprocess(notebook, {})
    text = nbformat.writes(notebook)
    assert seeds and not any(seed in text for seed in seeds)
    assert "SOLUTION" not in text and "HIDDEN" not in text and "_guard" not in text
    exercise = {cell.id: cell for cell in generate.exercise_from(master_of(name)).cells}
    for cell in notebook.cells:
        if is_solution(cell) and cell.cell_type == "code":
            assert cell.source == exercise[cell.id].source
        elif is_solution(cell):
            assert cell.source.endswith(generate.TEXT_STUB) and cell.source.startswith("## Think back\n\n")
        assert cell.metadata.deletable is False and cell.metadata.get("editable", True) is is_solution(cell)


def leaks(master, notebook):
    """The lines of the master's answers, code and prose, that stand anywhere in a notebook; short ones do not count."""
    text, found = json.dumps(notebook, ensure_ascii=False), []
    for cell in master.cells:
        for answer in re.findall(r"### BEGIN SOLUTION(?: -->)?\n(.*?)(?:<!-- )?### END SOLUTION", cell.source, re.S):
            lines = [line.strip() for line in answer.splitlines() if len(line.strip()) >= 12]
            found += [line for line in lines if json.dumps(line, ensure_ascii=False)[1:-1] in text]
    return found


def released(name, rules):
    notebook = source_of(name)
    for step in (LockCells, rules["ClearAnswers"], ClearOutput, ClearHiddenTests):
        notebook, _ = step().preprocess(notebook, {})
    return notebook


@pytest.mark.parametrize("name", NAMES)
def test_no_line_of_an_answer_is_in_what_learners_and_students_get(name, rules):
    master = master_of(name)
    assert leaks(master, nbformat.read(ROOT / "exercises" / f"{name}.ipynb", as_version=4)) == []
    assert leaks(master, released(name, rules)) == []
    assert len(leaks(master, master)) >= 3, "an answer of the master itself is not found"


def test_a_leak_is_found_wherever_it_stands(rules):
    master, exercise = master_of(NAMES[1]), generate.exercise_from(master_of(NAMES[1]))
    code, prose = "return [(a, g * b.value), (b, g * a.value)]", leaks(master, master)[-1]
    places = {
        "a page": lambda cell: cell.update(source=cell.source + f"\n\n`{code}`"),
        "prose": lambda cell: cell.update(source=f"{cell.source}\n{prose}"),
        "metadata": lambda cell: cell.metadata.update(kept={"old": f"def f():\n    {code}"}),
        "an output": lambda cell: cell.update(outputs=[{"output_type": "stream", "name": "stdout", "text": code}]),
    }
    for notebook in (exercise, released(NAMES[1], rules)):
        for place, plant in places.items():
            planted = nbformat.from_dict(json.loads(json.dumps(notebook)))
            plant(planted.cells[3])
            assert leaks(master, planted) == [prose if place == "prose" else code], place


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_passes_the_hidden_tests(name, monkeypatch):
    # In process, with a guard that compares nothing: the files may be younger than what this process has loaded.
    notebook = source_of(name)
    for cell in notebook.cells:
        ask = '_guard["ask_again"]'
        cell.source = cell.source.replace(ask, f'_guard["first_change"] = lambda task: None\n{ask}')
        # test_exercises.py tries the cells of the answers, and many seeds.
        cell.source = re.sub(r"seeds=\[(\d+).*\]", r"seeds=[\1]", cell.source)
        cell.source = re.sub(r"^check\(.*", "", cell.source, flags=re.M)
    monkeypatch.setenv("AUTODIFF_GUARD", str(FOLDER / "guard.py"))
    assert prove.run_cells(notebook)[1] == []


@pytest.mark.parametrize("name", NAMES)
def test_code_is_asked_again_on_inputs_that_no_check_of_a_student_draws(name):
    notebook, master = source_of(name), master_of(name)
    assert all(int(seed) > 10**6 for seed in seeds_in(notebook)), "`check` itself draws below a million"
    for task, answers in prove.answers(master).items():
        task = api.tasks()[task]
        if task.deal is None:
            attempt = Attempt(task, answers, 10**12)
            assert task.judge(attempt).status == PASSED
            assert attempt.used_seed, f"{task.id} has the same inputs for every seed: an answer can be made for them"


def test_a_graded_copy_never_shows_the_numbers_that_are_expected(monkeypatch):
    """They stay the same there, and in a practice copy the second miss shows them."""
    shown = {}
    for graded in (False, True):
        monkeypatch.setattr(api, "_misses", {})
        monkeypatch.setenv("AUTODIFF_GRADED", "yes")
        if not graded:
            monkeypatch.delenv("AUTODIFF_GRADED")
        for name in NAMES:
            for task in tasks_of(name):
                if api.tasks()[task].deal:
                    shown.setdefault(graded, set()).update(after_two_misses(name, task))
    assert {"01.a", "01.b", "01.c", "01.d", "02.a", "06.a", "13.a"} <= shown[False] and not shown[True]


def after_two_misses(name, task):
    """The task, when the second miss of a known wrong answer shows what is expected."""
    wrong = next(w for w in prove.wrong_answers(name[:2]) if w.task == task)
    changed = prove.substitute(master_of(name), wrong)
    for _ in range(2):
        result = prove.run_cells(master_of(name), changed, only=task)[0][task]
    assert result.status == WRONG
    return {task} if result.table and "expected" in result.table.header else set()


# The builder


def test_building_twice_gives_the_same_files(tmp_path):
    masters = two_masters(tmp_path)
    names, points = build.build(masters, tmp_path / "course")
    first = contents(tmp_path / "course")
    assert names == [path.stem for path in sorted(masters.iterdir())] and all(points)
    assert sorted(first) == sorted(["grading_config.py", "guard.py", "hidden_key", "nbgrader_config.py",
                                    *(f"source/{name}/{name}.ipynb" for name in names)])
    build.build(masters, tmp_path / "course")
    assert contents(tmp_path / "course") == first
    shutil.copytree(tmp_path / "course", tmp_path / "other", ignore=shutil.ignore_patterns("source", "*.py"))
    build.build(masters, tmp_path / "other")
    assert contents(tmp_path / "other") == first, "the key makes the seeds"
    build.build(masters, tmp_path / "third")
    third = contents(tmp_path / "third")
    assert third["hidden_key"] != first["hidden_key"] and third["guard.py"] == first["guard.py"]
    path = f"source/{names[0]}/{names[0]}.ipynb"
    ours, others = (set(seeds_in(nbformat.reads(c[path].decode(), as_version=4))) for c in (first, third))
    assert ours and not ours & others


def test_a_late_edit_changes_its_cell_alone_and_not_the_teachers_settings(tmp_path):
    masters = two_masters(tmp_path)
    names, _ = build.build(masters, tmp_path / "course")
    settings = tmp_path / "course" / "nbgrader_config.py"
    settings.write_text(settings.read_text() + "c.Autograde.create_student = False\n")
    before = contents(tmp_path / "course")
    master = masters / f"{names[0]}.ipynb"
    master.write_text(master.read_text(encoding="utf-8").replace("One skill", "The skill"), encoding="utf-8")
    build.build(masters, tmp_path / "course")
    after = contents(tmp_path / "course")
    (changed,) = [name for name in after if after[name] != before[name]]
    old, new = (nbformat.reads(c[changed].decode(), as_version=4).cells for c in (before, after))
    assert [a.id for a, b in zip(old, new) if a != b] == ["title"] and len(old) == len(new)


@pytest.mark.parametrize("cell, complaint", [
    (nbformat.v4.new_markdown_cell("![a graph](images/graph.svg)", id="p"), "a picture beside the notebook"),
    (nbformat.v4.new_code_cell("### BEGIN SOLUTION\nx = 1\n### END SOLUTION\ncheck('02.a', x, seed=1)", id="p"),
     "expected check(task, answer, ...)"),
    (nbformat.v4.new_code_cell("1", id="title"), "two cells have the id title"),
])  # fmt: skip
def test_a_master_that_cannot_be_graded_is_refused_with_its_place(cell, complaint):
    master = master_of(NAMES[1])
    master.cells.append(cell)
    with pytest.raises(generate.MasterError, match=re.escape(complaint)) as caught:
        build.assignment(master, "02_x.ipynb", KEY)
    assert "solutions/02_x.ipynb" in str(caught.value)


def test_the_command_says_what_to_type_next(tmp_path, capsys):
    assert build.main([str(tmp_path / "my course")]) == 0
    text = capsys.readouterr().out
    for name in NAMES:
        assert re.search(rf"^{name}  \d+ points$", text, re.M)
    steps = re.findall(rf"^    nbgrader (\w+) +{NAMES[0]}  # ", text, re.M)
    assert steps == ["generate_assignment", "release_assignment", "collect", "autograde", "generate_feedback",
                     "release_feedback"]  # fmt: skip
    assert f'cd "{tmp_path / "my course"}"' in text and "make clean" not in text
    assert "make clean removes build/" in build.next_steps(build.FOLDER, NAMES[0])


def two_masters(folder):
    (folder / "masters").mkdir()
    for name in NAMES[1:3]:
        shutil.copy(ROOT / "solutions" / f"{name}.ipynb", folder / "masters")
    return folder / "masters"


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# The guard: each attack in a process of its own, with an answer that is wrong

ATTACKS = {
    "a check of one's own": "import autodiff.course.api as api\napi.check = lambda *a, **k: Passed()",
    "a judge that is lenient": "import autodiff.course.api as api, dataclasses\n"
        "api.tasks()['02.b'] = dataclasses.replace(api.tasks()['02.b'], judge=lambda a: a.passed())",
    "a judge that is changed in place": "import autodiff.course.api as api\n"
        "object.__setattr__(api.tasks()['02.b'], 'judge', lambda a: a.passed())",
    "another list of tasks": "import autodiff.course.api as api\nreal = api.tasks()\n"
        "api.tasks = lambda: {**real, '02.b': real['02.a']}",
    "another code in the same function": "from autodiff.course import graphs\n"
        "def wrong(node, g): return []\ngraphs.shares.__code__ = wrong.__code__",
    "another comparison": "from autodiff.course import checks_02\nchecks_02._same_pairs = lambda a, b: True",
    "a class with another truth": "from autodiff.course.result import Result\nResult.status = 'passed'",
    "a method more": "from autodiff.course.graphs import Node\nNode.__eq__ = lambda a, b: True",
    "a builtin shadowed in a module": "from autodiff.course import checks_02\nchecks_02.all = lambda values: True",
    "another constant": "from autodiff.course import result\nresult.PASSED = 'not right'",
    "a default value": "from autodiff.course import judge\njudge.run.__kwdefaults__['lines'] = 5",
    "a module in the place of another": "import sys, types\nfake = types.ModuleType('autodiff.course.api')\n"
        "fake.__file__ = 'x'\nfake.check = lambda *a, **k: Passed()\nsys.modules['autodiff.course.api'] = fake",
    "a changed builtin": "import builtins\nbuiltins.all = lambda values: True",
    "a changed NumPy": "import numpy\nnumpy.allclose = lambda *a, **k: True",
    "a path to another autodiff": "import sys, os, autodiff.course\nsys.path.insert(0, os.getcwd())\n"
        "from autodiff.course import checks_02\nchecks_02._same_pairs = lambda a, b: True",
}  # fmt: skip

SCRIPT = """
from autodiff.course import check, given, hint
import numpy
class Passed:
    status = "passed"
def one_slot(node, g):
    a, b = node.inputs
    return [(a, g * b.value)]
def right(node, g):
    a, b = node.inputs
    return [(a, g * b.value), (b, g * a.value)]
check("02.b", right)
answer = {answer}
{attack}
guard = {{"__name__": "guard"}}
exec(compile(open({guard!r}).read(), "guard.py", "exec"), guard)
try:
    guard["ask_again"]("02.b", [answer], [11, 12])
except AssertionError as error:
    print(error)
"""


def compiling(folder):
    """The environment, in which files compiled once serve every process, and do not fall into the repository."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def asked(folder, attack="", answer="one_slot"):
    script = SCRIPT.format(answer=answer, attack=attack, guard=str(FOLDER / "guard.py"))
    environment = {**compiling(folder.parent), "AUTODIFF_GRADED_WITH": str(ROOT), "AUTODIFF_PROGRESS": "off"}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, env=environment)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_guard_lets_an_honest_answer_pass_and_tells_no_inputs_of_a_wrong_one(tmp_path):
    assert asked(tmp_path, answer="right") == ""
    # Names of the notebook may be anything: a learner who calls something `list` does nothing wrong.
    assert asked(tmp_path, "import autodiff as ad\nad.draw(ad.Var(1.0) * 2)", answer="right") == ""
    assert asked(tmp_path, "list = type = vars = all = getattr = 5", answer="right") == ""
    title = api.tasks()["02.b"].fault("one-slot").title
    text = asked(tmp_path)
    assert text.startswith(f"02.b  not right: {title}\n  The cell above passed.")
    assert not re.search(r"=|\b1[12]\b", text)


@pytest.mark.parametrize("name", ATTACKS)
def test_the_guard_sees_an_attack(name, tmp_path):
    text = asked(tmp_path, ATTACKS[name])
    assert text.endswith("is not as the course made it. Take out the cell that changes it, and hand in again.\n"), text


def test_what_use_changes_is_no_attack():
    """Each kind of thing that the guard compares, and a twin of it."""
    def make(x=1, *, y=(2,)):
        z = [x]
        return lambda: z

    assert guard.same(make, make, {}) and guard.same(make(), make(), {})
    assert not guard.same(make(), make(5), {}), "what a closure holds counts"
    assert guard.same({"a": 1, "b": 2}, {"a": 1}, {}) and not guard.same({"b": 2}, {"a": 1}, {})
    assert not guard.same((1, 2), (1, 3), {}) and not guard.same(1, True, {})
    assert guard.same({1, 2}, {1}, {}) and not guard.same({1}, {1, 2}, {})


# The whole way with nbgrader

CHOSEN = {
    "02_one_edge_twice": [("02.a", "one-edge"), ("02.b", "own-value"), ("02.c", "overwritten")],
    "03_order": [("03.a", "reversed"), ("03.b", "accepts-early"), ("03.c", "on-sight")],
}

CHEAT = """
import autodiff.course as course
from autodiff.course.result import PASSED, Result

course.check = lambda task, *answers, **options: Result("fine", task=task, status=PASSED)
get_ipython().showtraceback = lambda *args, **options: None
get_ipython().set_custom_exc((Exception,), lambda *args, **options: None)
"""

# nbgrader's own commands, one after the other: a process for each would take most of the time.
STEPS = """
import json, sys
from nbgrader.apps.nbgraderapp import NbGraderApp
for arguments in json.loads(sys.argv[1]):
    NbGraderApp.launch_instance(argv=arguments)
    NbGraderApp.clear_instance()
"""


def run_nbgrader(folder, home, *commands):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("JUPYTER", "AUTODIFF"))}
    scripts = Path(sys.executable).parent
    environment.update(HOME=str(home), USERPROFILE=str(home), PATH=f"{scripts}{os.pathsep}{os.environ['PATH']}",
                       PYTHONDONTWRITEBYTECODE="1")  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", STEPS, json.dumps(commands)], cwd=folder, env=environment,
                         capture_output=True, text=True)  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def typed(source):
    """An answer cell as a student hands it in."""
    return "\n".join(line for line in source.splitlines() if "SOLUTION" not in line)


def readme_says(pattern):
    (found,) = re.findall(pattern, (FOLDER / "README.md").read_text(encoding="utf-8"), re.S)
    return found


class Course:
    """A course folder, and students who get and hand in assignments through the exchange, as the README says.

    Each has a home of their own. All are the same user of this machine, so a student says `--student`.
    """

    def __init__(self, folder, names):
        self.folder, self.homes, self.handed_in = folder / "course", folder / "homes", {}
        (self.homes / "teacher").mkdir(parents=True)
        (folder / "exchange").mkdir()
        (folder / "masters").mkdir()
        for name in names:
            shutil.copy(ROOT / "solutions" / f"{name}.ipynb", folder / "masters")
        build.build(folder / "masters", self.folder, KEY)
        usual = '"/srv/nbgrader/exchange"'
        self.root = f"c.Exchange.root = {str(folder / 'exchange')!r}"
        settings = self.folder / "nbgrader_config.py"
        settings.write_text(settings.read_text().replace(f"# c.Exchange.root = {usual}", self.root))
        self.config = readme_says("```python\n(.*?)```").replace(f"c.Exchange.root = {usual}", self.root)
        assert self.root in settings.read_text() and self.root in self.config
        self.teach(["generate_assignment", "*"], *(["release_assignment", name] for name in names))
        self.wrong = {name: wrongs_of(name) for name in names}

    def teach(self, *commands):
        return run_nbgrader(self.folder, self.homes / "teacher", *commands)

    def mark(self, *names):
        """Collect what was handed in, mark it, and hand the feedback out: each student has it then."""
        self.teach(*(["collect", name] for name in names), ["autograde", "*"], ["generate_feedback", "*"],
                   *(["release_feedback", name] for name in names))  # fmt: skip
        for student, there in self.handed_in.items():
            home = self.homes / student
            run_nbgrader(home, home, *(["fetch_feedback", name, f"--student={student}"] for name in there))

    def path(self, step, name, student="."):
        return self.folder / step / student / name / f"{name}.ipynb"

    def answers(self, name):
        """{student: {cell: source}} for the right solution, the stub and the wrong answers."""
        master = master_of(name)
        right = {cell.id: typed(cell.source) for cell in master.cells if "BEGIN SOLUTION" in cell.source}
        answers = {"right": right, "stub": {}}
        for number, wrong in enumerate(self.wrong[name], 1):
            changed = {key: typed(source) for key, source in prove.substitute(master, wrong).items()}
            answers[f"wrong-{number}"] = {**right, **changed}
        return answers

    def hand_in(self, student, answers, tricks=lambda name, path: None):
        """Fetch, write and submit: `answers` are {assignment: {cell: source}}."""
        home, self.handed_in[student] = self.homes / student, list(answers)
        (home / ".jupyter").mkdir(parents=True)
        (home / ".jupyter" / "nbgrader_config.py").write_text(self.config)
        said = run_nbgrader(home, home, ["list"], *(["fetch_assignment", name] for name in answers))
        assert all(f"autodiff {name}" in said for name in answers), said
        for name, cells in answers.items():
            path = home / name / f"{name}.ipynb"
            notebook = nbformat.read(path, as_version=4)
            for cell in notebook.cells:
                cell.source = cells.get(cell.id, cell.source)
            nbformat.write(notebook, path)
            tricks(name, path)
        run_nbgrader(home, home, *(["submit", name, f"--student={student}"] for name in answers))

    def marks(self, name, student):
        """{cell: mark}, None for what waits for the teacher; and the sum."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}") as book:
            submission = book.find_submission(name, student)
            grades = submission.notebooks[0].grades
            return {g.name: None if g.needs_manual_grade else g.score for g in grades}, submission.score

    def feedback(self, name, student):
        """The page that the student has fetched."""
        (page,) = (self.homes / student / name / "feedback").rglob("*.html")
        return page.read_text(encoding="utf-8")


def tricks(name, path):
    """What is handed in beside an answer: a run of its own text, an error, and a module with the name of ours."""
    if name.startswith("02"):
        notebook = nbformat.read(path, as_version=4)
        notebook.cells += [nbformat.v4.new_code_cell("print(In)"), nbformat.v4.new_code_cell("1 / 0")]
        nbformat.write(notebook, path)
        (path.parent / "autodiff.py").write_text("raise ImportError('the one of the submission')")


def one_more_try(name, path):
    """Asks a check for the third time, after the answer and the graded cell below it."""
    notebook = nbformat.read(path, as_version=4)
    again = 'print("the last table has:", ", ".join(check("02.a", slot_1, slot_2, total).table.header))'
    notebook.cells.append(nbformat.v4.new_code_cell(again))
    nbformat.write(notebook, path)


def cheat(name, path):
    """Changes the check, hides errors, and takes a graded cell out."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(2, nbformat.v4.new_code_cell(CHEAT))
    notebook.cells = [cell for cell in notebook.cells if cell.id != "graded-02-c"]
    nbformat.write(notebook, path)


def wrongs_of(name):
    wrongs = prove.wrong_answers(name[:2])
    return [next(w for w in wrongs if (w.task, w.fault) == pair) for pair in CHOSEN[name]]


exchange = pytest.mark.skipif(sys.platform == "win32", reason="nbgrader has no exchange on Windows")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    made = Course(tmp_path_factory.mktemp("nbgrader"), CHOSEN)
    answers = {name: made.answers(name) for name in CHOSEN}
    for student in answers["02_one_edge_twice"]:
        both = {name: answers[name][student] for name in CHOSEN}
        made.hand_in(student, both, tricks if student == "wrong-3" else lambda name, path: None)
    made.hand_in("cheat", {"02_one_edge_twice": {}}, cheat)
    made.mark(*CHOSEN)
    return made


def expected(name, lost=(), thought=None):
    marks = {"graded-" + task.replace(".", "-"): 0 if task in lost else build.USUAL_POINTS for task in tasks_of(name)}
    return {**marks, "reflect": thought}, sum(marks.values())


@exchange
def test_one_student_goes_the_whole_way_through_the_exchange(tmp_path):
    name = "02_one_edge_twice"
    course = Course(tmp_path, [name])
    course.hand_in("wrong-1", {name: course.answers(name)["wrong-1"]}, one_more_try)
    course.mark(name)
    assert course.marks(name, "wrong-1") == expected(name, ["02.a"])
    page = html.unescape(course.feedback(name, "wrong-1"))
    assert f"02.a  not right: {api.tasks()['02.a'].fault('one-edge').title}" in page
    assert "the last table has: name, yours" in page, "what is expected would be the answer"
    commands = re.findall(rf"^\| (\w+) \| `nbgrader (\w+)(?: {name})?` ", (FOLDER / "README.md").read_text(), re.M)
    assert commands == [
        ("teacher", "generate_assignment"), ("teacher", "release_assignment"), ("student", "list"),
        ("student", "fetch_assignment"), ("student", "submit"), ("teacher", "collect"), ("teacher", "autograde"),
        ("teacher", "generate_feedback"), ("teacher", "release_feedback"), ("student", "fetch_feedback")]  # fmt: skip


@exchange
@pytest.mark.thorough
@pytest.mark.parametrize("name", CHOSEN)
def test_marks_are_as_expected(course, name):
    assert course.marks(name, "right") == expected(name)
    assert course.marks(name, "stub") == expected(name, tasks_of(name), thought=0)
    for number, wrong in enumerate(course.wrong[name], 1):
        assert course.marks(name, f"wrong-{number}") == expected(name, [wrong.task]), wrong


@exchange
@pytest.mark.thorough
def test_tricks_do_not_pay(course):
    name = "02_one_edge_twice"
    marks, score = course.marks(name, "cheat")
    # A graded cell that was taken out gives nothing, and waits for the teacher.
    assert (marks, score) == ({**expected(name, tasks_of(name), thought=0)[0], "graded-02-c": None}, 0)
    assert "autodiff.course.check is not as the course made it" in course.feedback(name, "cheat")


@exchange
@pytest.mark.thorough
@pytest.mark.parametrize("name", CHOSEN)
def test_feedback_has_the_diagnosis(course, name):
    assert "not started yet" in course.feedback(name, "stub") and "not right" not in course.feedback(name, "right")
    for number, wrong in enumerate(course.wrong[name], 1):
        title = api.tasks()[wrong.task].fault(wrong.fault).title
        assert html.unescape(course.feedback(name, f"wrong-{number}")).count(f"{wrong.task}  not right: {title}") >= 2


@exchange
@pytest.mark.thorough
@pytest.mark.parametrize("name", CHOSEN)
def test_feedback_tells_neither_hidden_tests_nor_answers(course, name, rules):
    source = nbformat.read(course.path("source", name), as_version=4)
    seeds = seeds_in(source)
    assert len(seeds) == 3 * len(tasks_of(name))
    students = [student for student, names in course.handed_in.items() if name in names]
    assert len(students) == (6 if name.startswith("02") else 5)
    for student in students:
        page = course.feedback(name, student)
        graded = course.path("autograded", name, student).read_text(encoding="utf-8")
        assert student == "cheat" or all(seed in graded for seed in seeds), "else there would be nothing to hide"
        text = re.sub(r"<[^>]+>", "", page)
        for secret in (*seeds, "HIDDEN", "_guard", "ask_again", "AUTODIFF_GUARD", "guard.py"):
            assert secret not in page and secret not in text, (student, secret)
        handed_in = course.path("submitted", name, student).read_text(encoding="utf-8")
        for cell in master_of(name).cells:
            region = generate.answer_of(cell.source) if cell.cell_type == "code" else None
            for line in region["answer"].splitlines() if region else ():
                told = json.dumps(line.strip())[1:-1] in handed_in
                assert told or len(line.strip()) < 12 or line.strip() not in text, (student, line)
    if name.startswith("02"):
        page = course.feedback(name, "wrong-3")
        assert page.count(rules["LEFT_OUT"]) == 1 and "ZeroDivisionError" in page


@exchange
@pytest.mark.thorough
def test_validate_works_on_the_released_copy(course):
    right = str(course.path("submitted", "02_one_edge_twice", "right"))
    assert "Success! Your notebook passes all the tests.\n" in course.teach(["validate", right])


@exchange
@pytest.mark.thorough
def test_nothing_is_kept_in_anybodys_progress(course):
    assert not [path for path in course.folder.parent.rglob("*progress*.json")]
