"""The class server: its list of accounts, its settings, and a small class that logs in and works, on loopback."""

import importlib.util
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
HUB = ROOT / "deploy" / "hub"


def load(name):
    spec = importlib.util.spec_from_file_location(name, HUB / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The class list


def test_a_class_list_has_a_name_a_line():
    assert load("students").names_in("# class 3\nanna\n\n li-2 \n") == ["anna", "li-2"]


@pytest.mark.parametrize("line", ["Anna", "2b", "a b", "root;rm", "../x", "a" * 25, "ä", "-a"])
def test_a_line_that_is_no_name_is_named_and_nothing_is_made(line):
    with pytest.raises(ValueError, match="line 2: .* is no user name"):
        load("students").names_in(f"anna\n{line}\n")


def test_a_name_that_stands_twice_is_named():
    with pytest.raises(ValueError, match="line 3: 'anna' stands twice"):
        load("students").names_in("anna\nli\nanna\n")


def test_passwords_are_long_and_differ():
    made = {load("students").new_password() for _ in range(100)}
    assert len(made) == 100 and all(len(password) >= 14 for password in made)


# Settings


def settings(monkeypatch):
    """deploy/hub/jupyterhub_config.py as JupyterHub reads it."""
    traitlets = pytest.importorskip("traitlets.config")
    pytest.importorskip("jupyterhub", reason="JupyterHub is not installed: python deploy/bootstrap.py hub")
    config = traitlets.Config()
    monkeypatch.syspath_prepend(str(HUB))
    source = (HUB / "jupyterhub_config.py").read_text(encoding="utf-8")
    names = {"get_config": lambda: config, "__file__": str(HUB / "jupyterhub_config.py")}
    exec(compile(source, "jupyterhub_config.py", "exec"), names)
    return config


@pytest.mark.hub
def test_nobody_comes_in_without_an_account(monkeypatch):
    config = settings(monkeypatch)
    assert config.JupyterHub.authenticator_class == "native"
    assert config.NativeAuthenticator.enable_signup is False and config.NativeAuthenticator.open_signup is False
    assert config.JupyterHub.bind_url.startswith("http://127.0.0.1:") and config.JupyterHub.admin_access is False


@pytest.mark.hub
def test_a_whole_class_may_start_at_once(monkeypatch):
    config = settings(monkeypatch)
    assert config.Spawner.start_timeout == config.Spawner.http_timeout == 180
    assert config.JupyterHub.concurrent_spawn_limit >= 30


def test_kubernetes_values_are_closed_limited_and_culled():
    values = yaml.safe_load((HUB / "values.yaml").read_text(encoding="utf-8"))
    assert values["hub"]["config"]["JupyterHub"]["authenticator_class"] not in ("dummy", "null")
    assert values["hub"]["config"]["Authenticator"]["allow_all"] is False
    user = values["singleuser"]
    assert user["memory"]["limit"] and user["cpu"]["limit"] and user["startTimeout"] >= 180
    assert values["cull"]["enabled"] is True and values["proxy"]["https"]["enabled"] is True
    assert user["networkPolicy"]["enabled"] is True


def test_image_is_built_from_the_same_list_of_packages():
    text = (HUB / "Dockerfile").read_text(encoding="utf-8")
    assert "COPY environment.yml" in text and "-f /course/environment.yml" in text
    more = yaml.safe_load((HUB / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    assert all("<" in line for line in more), "every package has an upper bound"
    for source in ("environment.yml", "deploy/hub/environment.yml"):
        assert (ROOT / source).exists() and source in text


# What start.py says


def test_a_machine_that_cannot_serve_is_told_why(monkeypatch):
    start = load("start")
    monkeypatch.setattr(start.os, "geteuid", lambda: 1000, raising=False)
    with pytest.raises(start.StartError, match="needs Linux and root"):
        start.check_machine(sys.base_prefix)


@pytest.mark.skipif(sys.platform != "linux", reason="permissions of Linux")
def test_a_python_that_students_cannot_read_is_refused(monkeypatch, tmp_path):
    start = load("start")
    monkeypatch.setattr(start.os, "geteuid", lambda: 0)
    monkeypatch.setattr(start.shutil, "which", lambda name: name)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(start.StartError, match="Students could not read .*closed"):
        start.check_machine(str(closed))


def test_only_a_folder_of_a_class_server_is_removed(tmp_path):
    start = load("start")
    (tmp_path / "work.txt").write_text("kept")
    with pytest.raises(start.StartError, match="is not the folder of a class server"):
        start.remove(tmp_path)
    assert (tmp_path / "work.txt").exists()


# A class


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


def readable(python):
    """Whether every user could run this Python."""
    real = pathlib.Path(python).resolve()
    return real.exists() and all(place.stat().st_mode & 0o001 for place in (real, *real.parents))


def a_python():
    """One that students can run: the system's, when this one is in somebody's home."""
    candidates = [sys.base_prefix + "/bin/python3", "/usr/bin/python3"]
    found = next((p for p in candidates if readable(p)), None)
    new_enough = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"
    if found is None or subprocess.run([found, "-c", new_enough], capture_output=True).returncode:
        pytest.skip("no Python 3.11 on this machine that every user can read")
    return found


@pytest.mark.hub
def test_a_class_logs_in_at_once_runs_a_lesson_and_a_check_and_goes_again(tmp_path_factory):
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("npm") is None:
        pytest.skip("the class server needs Linux, root and npm")
    folder = pathlib.Path("/srv") / f"autodiff-test-{os.getpid()}"
    python = a_python()
    count = int(os.environ.get("AUTODIFF_STUDENTS", "3"))
    listed = tmp_path_factory.mktemp("hub") / "class.txt"
    listed.write_text("".join(f"test{os.getpid()}-{k:03}\n" for k in range(count)))
    outside, inside, proxy = free_ports(3)
    environment = {**os.environ, "AUTODIFF_HUB_BIND": f"http://127.0.0.1:{outside}", "AUTODIFF_HUB_PORT": str(inside),
                   "AUTODIFF_HUB_PROXY_PORT": str(proxy), "PYTHONDONTWRITEBYTECODE": ""}
    command = [python, str(HUB / "start.py"), "--folder", str(folder)]
    server = None
    try:
        made = subprocess.run([*command, "--students", str(listed), "--set-up-only"], env=environment,
                              capture_output=True, text=True)
        assert made.returncode == 0, made.stdout + made.stderr
        log = open(folder / "state" / "hub.log", "w")
        server = subprocess.Popen([*command], env=environment, stdout=log, stderr=log)
        wait_for(f"http://127.0.0.1:{outside}/hub/login", server, folder / "state" / "hub.log")
        tried = subprocess.run(
            [folder / "venv" / "bin" / "python", HUB / "trial.py", f"http://127.0.0.1:{outside}",
             folder / "state" / "passwords.csv", "--repository", f"file://{folder}/course"],
            capture_output=True, text=True, timeout=900)
        assert tried.returncode == 0, tried.stdout + tried.stderr + (folder / "state" / "hub.log").read_text()[-3000:]
        assert f"check            {count} of {count}" in tried.stdout
        assert "nobody could read another's files or server" in tried.stdout
        print(tried.stdout)
    finally:
        if server is not None:
            server.terminate()
            server.wait(60)
        if folder.exists():
            removed = subprocess.run([*command, "--remove"], env=environment, capture_output=True, text=True)
            assert removed.returncode == 0 and not folder.exists(), removed.stdout + removed.stderr
    users = pathlib.Path("/etc/passwd").read_text()
    assert f"ad-test{os.getpid()}-" not in users


def wait_for(url, server, log, seconds=180):
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(url, timeout=5)
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                raise AssertionError("the class server did not start:\n" + log.read_text()[-3000:]) from None
            time.sleep(0.5)
