"""The class server: its list of accounts, what it says when it cannot start, and a class on loopback that tries it.

The class has AUTODIFF_STUDENTS students, 3 when that is not set. It needs Linux, root, git and npm.
"""

import asyncio
import concurrent.futures
import datetime
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
HUB = ROOT / "deploy" / "hub"
NAMES = ("start", "students", "users", "handout", "collect", "trial", "spawner")

linux = pytest.mark.skipif(sys.platform != "linux", reason="a class server runs on Linux")


@pytest.fixture
def load(monkeypatch):
    """A module of deploy/hub, imported as start.py imports it, and forgotten after the test."""
    monkeypatch.syspath_prepend(str(HUB))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


# The class list and the passwords


def test_a_class_list_has_a_name_a_line(load):
    assert load("students").names_in("# class 3\nanna\n\n li-2 \n") == ["anna", "li-2"]


@pytest.mark.parametrize("line", ["Anna", "2b", "a b", "root;rm", "../x", "a" * 25, "ä", "-a"])
def test_a_line_that_is_no_name_is_named_and_nothing_is_made(load, line):
    students = load("students")
    with pytest.raises(students.ListError, match="line 2: .* is no user name"):
        students.names_in(f"anna\n{line}\n")


def test_a_name_that_stands_twice_is_named(load):
    students = load("students")
    with pytest.raises(students.ListError, match="line 3: 'anna' stands twice"):
        students.names_in("anna\nli\nanna\n")


def test_a_list_that_a_windows_editor_saved_is_read(load, tmp_path):
    (tmp_path / "class.txt").write_bytes("\ufeffanna\r\nli\r\n".encode())
    assert load("students").read(tmp_path / "class.txt") == ["anna", "li"]


@pytest.mark.parametrize("content", [b"", b"# nobody\n", "anna\n".encode("utf-16")])
def test_a_list_without_names_or_in_another_encoding_is_refused(load, tmp_path, content):
    (tmp_path / "class.txt").write_bytes(content)
    students = load("students")
    with pytest.raises(students.ListError, match="no names|UTF-8"):
        students.read(tmp_path / "class.txt")


def test_passwords_are_long_and_differ(load):
    made = {load("students").new_password() for _ in range(100)}
    assert len(made) == 100 and all(len(password) >= 14 for password in made)


@linux
def test_the_file_of_passwords_is_the_owners_alone_and_keeps_those_of_earlier_starts(load, tmp_path):
    students, path = load("students"), tmp_path / "passwords.csv"
    students.write(path, {"anna": "first", "li": "kept"})
    students.write(path, {"anna": "second", "max": "new"})
    assert path.read_text() == "name,password\nanna,second\nli,kept\nmax,new\n"
    assert path.stat().st_mode & 0o777 == 0o600


# What students get


def test_solutions_and_the_guide_are_kept_back_and_what_lessons_link_to_is_there(load, tmp_path):
    handout = load("handout")
    handout.hand_out(tmp_path / "course")
    got = handout.git(tmp_path / "course", "ls-files").splitlines()
    assert not [name for name in got if re.search("solution|TEACHING|checkpoints/", name)]
    linked = set()
    for path in [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "exercises").glob("*.ipynb")]:
        assert f"{path.parent.name}/{path.name}" in got
        linked |= {name for name in re.findall(r"\]\(\.\./([\w/.]+)", path.read_text(encoding="utf-8"))}
    assert linked and linked <= set(got), linked - set(got)


def test_a_second_hand_out_of_the_same_course_is_no_new_version(load, tmp_path):
    handout = load("handout")
    handout.hand_out(tmp_path)
    handout.hand_out(tmp_path)
    assert handout.git(tmp_path, "rev-list", "--count", "HEAD").strip() == "1"


def test_every_notebook_has_a_title_and_a_link_that_opens_it(load, tmp_path):
    handout = load("handout")
    handout.hand_out(tmp_path)
    listed = handout.contents(tmp_path)
    assert [len(listed["Lessons"]), len(listed["Exercises"])] == [17, 18]
    for title, link in listed["Lessons"] + listed["Exercises"]:
        assert re.match(r"\d\d · \w", title)
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)
        assert query["repo"] == [f"file://{tmp_path}"] and query["targetpath"] == ["course"]
        assert (tmp_path / query["urlpath"][0].removeprefix("lab/tree/course/")).is_file()


@pytest.mark.hub
def test_what_a_student_saved_outlives_a_changed_hand_out(load, monkeypatch, tmp_path):
    pull = importlib.import_module("nbgitpuller.pull")
    handout, master, mine = load("handout"), tmp_path / "master", tmp_path / "mine"
    for part in handout.PARTS:
        shutil.copytree(ROOT / part, master / part)
    shutil.copytree(ROOT / "autodiff", master / "autodiff", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(handout, "ROOT", master)
    monkeypatch.chdir(tmp_path)

    def get():
        handout.hand_out(tmp_path / "course")
        list(pull.GitPuller(f"file://{tmp_path}/course", str(mine), branch="main").pull())

    get()
    lesson, other = "notebooks/01_the_shared_node.ipynb", "exercises/02_one_edge_twice.ipynb"
    (mine / lesson).write_text("the student's")
    (master / lesson).write_text("the teacher's second")
    (master / other).write_text("the teacher's second")
    get()
    assert (mine / lesson).read_text() == "the student's"
    assert (mine / other).read_text() == "the teacher's second"


# What start.py says


@linux
def test_who_is_not_root_is_told_so(load, monkeypatch, capsys, tmp_path):
    start = load("start")
    monkeypatch.setattr(start.os, "geteuid", lambda: 1000)
    for more in ([], ["--remove"]):
        assert start.main(["--folder", str(tmp_path / "hub"), *more]) == 1
        assert "needs Linux and root" in capsys.readouterr().err
    assert not (tmp_path / "hub").exists()


@linux
@pytest.mark.parametrize("program", ["git", "npm", "useradd"])
def test_a_program_that_is_missing_is_named_with_its_reason(load, monkeypatch, program):
    start = load("start")
    monkeypatch.setattr(start.os, "geteuid", lambda: 0)
    monkeypatch.setattr(start.shutil, "which", lambda name: None if name == program else f"/usr/bin/{name}")
    assert re.match(f"There is no {program} on this machine, and .*: install it", start.missing())


@linux
def test_a_python_in_somebodys_home_is_passed_over(load, monkeypatch, tmp_path):
    start = load("start")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    monkeypatch.setattr(start.sys, "base_prefix", str(tmp_path))
    monkeypatch.setattr(start, "is_open", lambda path: True)
    assert start.find_python() == f"{tmp_path}/bin/python3"
    home = pathlib.Path(sys.executable).resolve()
    monkeypatch.setattr(start, "is_open", lambda path: path != home)
    assert start.find_python() != f"{tmp_path}/bin/python3"
    monkeypatch.setattr(start, "is_open", lambda path: False)
    assert start.find_python() is None


@linux
def test_a_folder_that_others_cannot_enter_is_not_open(load, tmp_path):
    start, inner = load("start"), tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    for place in (tmp_path, *tmp_path.parents):
        if not place.stat().st_mode & 0o001:
            assert not start.is_open(inner)
            return
    assert start.is_open(inner)
    inner.parent.chmod(0o700)
    assert not start.is_open(inner)


@linux
@pytest.mark.parametrize("bind", ["0.0.0.0:8000", "http://", "ftp://127.0.0.1", "http://127.0.0.1:eighty"])
def test_an_address_that_is_none_is_refused(load, bind):
    start = load("start")
    with pytest.raises(start.StartError, match="is an address such as"):
        start.check_bind({"AUTODIFF_HUB_BIND": bind})


@linux
def test_https_without_a_certificate_and_a_certificate_without_https_are_refused(load):
    start = load("start")
    both = {"AUTODIFF_HUB_CERTIFICATE": "class.crt", "AUTODIFF_HUB_KEY": "class.key"}
    for environment in ({"AUTODIFF_HUB_BIND": "https://0.0.0.0"}, {"AUTODIFF_HUB_BIND": "http://0.0.0.0"} | both,
                        {"AUTODIFF_HUB_BIND": "https://0.0.0.0", "AUTODIFF_HUB_CERTIFICATE": "class.crt"}):
        with pytest.raises(start.StartError, match="needs AUTODIFF_HUB_CERTIFICATE and AUTODIFF_HUB_KEY"):
            start.check_bind(environment)
    with pytest.raises(start.StartError, match="The certificate class.crt with the key class.key cannot be used"):
        start.check_bind({"AUTODIFF_HUB_BIND": "https://0.0.0.0"} | both)


def write_certificate(path, days):
    """A certificate for these days, one before now and the others after it, and its key beside it."""
    x509 = importlib.import_module("cryptography.x509")
    ec = importlib.import_module("cryptography.hazmat.primitives.asymmetric.ec")
    forms = importlib.import_module("cryptography.hazmat.primitives.serialization")
    hashes = importlib.import_module("cryptography.hazmat.primitives.hashes")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hub")])
    first = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), first,
                                   first + datetime.timedelta(days=days)).sign(key, hashes.SHA256())
    path.write_bytes(made.public_bytes(forms.Encoding.PEM))
    path.with_suffix(".key").write_bytes(key.private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()))


@pytest.mark.hub
@linux
@pytest.mark.skipif(shutil.which("openssl") is None, reason="without openssl nothing is said")
def test_an_expired_certificate_is_mentioned_and_one_of_another_key_refused(load, monkeypatch, capsys, tmp_path):
    start = load("start")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTODIFF_HUB_BIND", "https://127.0.0.1:8443")
    for name, days in (("old", 0.5), ("class", 2)):
        write_certificate(tmp_path / f"{name}.crt", days)
        monkeypatch.setenv("AUTODIFF_HUB_CERTIFICATE", f"{name}.crt")
        monkeypatch.setenv("AUTODIFF_HUB_KEY", f"{name}.key")
        environment = start.settings(tmp_path)
        assert environment["AUTODIFF_HUB_CERTIFICATE"] == str(tmp_path / f"{name}.crt")
        start.check_bind(environment)
        assert ("has expired" in capsys.readouterr().out) == (name == "old")
    with pytest.raises(start.StartError, match="cannot be used"):
        start.check_bind(environment | {"AUTODIFF_HUB_KEY": str(tmp_path / "old.key")})


@linux
def test_passwords_in_the_open_are_mentioned_and_on_this_machine_alone_are_not(load, capsys):
    start = load("start")
    start.check_bind({"AUTODIFF_HUB_BIND": "http://127.0.0.1:8000"})
    assert capsys.readouterr().out == ""
    start.check_bind({"AUTODIFF_HUB_BIND": "http://0.0.0.0:8000"})
    assert "passwords travel in the open" in capsys.readouterr().out


@linux
def test_a_port_that_is_taken_is_named_with_another(load):
    start = load("start")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(start.StartError, match=f"Port {port} is taken: .*=http://127.0.0.1:{port + 10}"):
            start.check_port({"AUTODIFF_HUB_BIND": f"http://127.0.0.1:{port}"})
    start.check_port({"AUTODIFF_HUB_BIND": f"http://127.0.0.1:{port}"})


@linux
def test_a_host_that_this_machine_does_not_have_is_no_taken_port(load):
    start = load("start")
    with pytest.raises(start.StartError, match="cannot listen at 192.0.2.1"):
        start.check_port({"AUTODIFF_HUB_BIND": "http://192.0.2.1:8000"})


@linux
def test_a_folder_with_other_things_in_it_is_neither_used_nor_removed(load, tmp_path):
    start = load("start")
    (tmp_path / "homes").mkdir()
    (tmp_path / "work.txt").write_text("kept")
    with pytest.raises(start.StartError, match="holds other things"):
        start.make_folders(tmp_path)
    with pytest.raises(start.StartError, match="left as it is"):
        start.remove(tmp_path)
    with pytest.raises(start.StartError, match="left as it is"):
        start.remove(tmp_path / "nowhere")
    assert (tmp_path / "work.txt").exists() and (tmp_path / "homes").exists()


@linux
def test_a_list_or_path_that_cannot_be_is_refused_before_anything_is_made(load, tmp_path):
    start = load("start")
    listed = tmp_path / "class.txt"
    with pytest.raises(start.StartError, match="Nothing has changed"):
        start.check_names(pathlib.Path("/srv/autodiff"), listed)
    listed.write_text("a" * 24 + "\n")
    start.check_names(pathlib.Path("/srv/autodiff"), listed)
    with pytest.raises(start.StartError, match="too long for the sockets"):
        start.check_names(pathlib.Path("/srv/autodiff-of-the-whole-school"), listed)


@linux
def test_a_system_user_that_is_somebody_elses_is_left_alone(load, monkeypatch, tmp_path):
    users = load("users")
    other = users.pwd.getpwuid(os.getuid())
    monkeypatch.setattr(users, "find", lambda name: other)
    with pytest.raises(users.UserError, match="has a user ad-anna already"):
        users.make("anna", tmp_path)
    assert not (tmp_path / "anna").exists()


@linux
def test_a_step_of_the_set_up_that_fails_shows_what_it_said(load, tmp_path):
    start = load("start")
    start.run(["echo", "fine"], tmp_path / "log")
    with pytest.raises(start.StartError, match="(?s)no network.*The set-up stopped.*The next start tries again"):
        start.run(["sh", "-c", "echo no network; exit 1"], tmp_path / "log")


# What students hand in


@pytest.fixture
def homes(load, monkeypatch):
    """A folder as that of a class server, with the homes of two students who have system users by number alone."""
    users = load("users")
    with tempfile.TemporaryDirectory(dir=place(), prefix="autodiff-homes-") as folder:
        folder = pathlib.Path(folder).resolve()
        folder.chmod(0o755)
        (folder / "course" / "exercises").mkdir(parents=True)
        for path in sorted((ROOT / "exercises").glob("*.ipynb"))[:6]:
            shutil.copy(path, folder / "course" / "exercises")
        found = []
        for number, name in ((61001, "anna"), (61002, "li")):
            shutil.copytree(folder / "course", folder / "homes" / name / "course")
            found.append(users.pwd.struct_passwd((f"ad-{name}", "x", number, number, "", f"{folder}/homes/{name}", "")))
            subprocess.run(["chown", "-R", f"{number}:{number}", folder / "homes" / name], check=True)
            (folder / "homes" / name).chmod(0o700)
        monkeypatch.setattr(users, "of", lambda homes: found if homes == folder / "homes" else [])
        yield folder


as_root = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="the class server needs root")


@as_root
def test_what_students_changed_is_collected_in_a_folder_that_the_grading_takes(homes, load, tmp_path, monkeypatch,
                                                                               capsys):
    start = load("start")
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("SUDO_UID", "61003")
    monkeypatch.setenv("SUDO_GID", "61004")
    changed = homes / "homes" / "anna" / "course" / "exercises" / "02_one_edge_twice.ipynb"
    for content in ("first", "second"):
        changed.write_text(content)
        assert start.main(["--folder", str(homes), "--collect", str(tmp_path / "handed in")]) == 0
        out = capsys.readouterr().out
        assert "Nothing was taken of li." in out and "1 changed exercises of 1 students are in" in out
        assert (tmp_path / "handed in" / "anna" / changed.name).read_text() == content
    submissions = importlib.import_module("deploy.grading.submissions")
    found, left = submissions.find(tmp_path / "handed in", ["02_one_edge_twice"])
    assert [(one.student, one.assignment) for one in found] == [("anna", "02_one_edge_twice")] and left == []
    for made in [tmp_path / "handed in", *(tmp_path / "handed in").rglob("*")]:
        about = made.stat()
        assert (about.st_uid, about.st_gid) == (61003, 61004) and not about.st_mode & 0o077, made


@as_root
def test_what_stands_in_the_place_of_a_notebook_gives_away_nothing(homes, load, tmp_path):
    collect = load("collect")
    secret = homes / "secret"
    secret.write_text("of somebody else")
    secret.chmod(0o600)
    mine, other = (homes / "homes" / name / "course" / "exercises" for name in ("anna", "li"))
    names = sorted(path.name for path in mine.iterdir())
    for path in mine.iterdir():
        path.unlink()
    (mine / names[0]).symlink_to(secret)
    (mine / names[1]).symlink_to(other / names[1])
    os.mkfifo(mine / names[2])
    (mine / names[3]).mkdir()
    (mine / names[4]).write_bytes(b"x" * (collect.MOST + 1))
    os.link(secret, mine / names[5])
    shutil.move(other, homes / "exercises")
    other.symlink_to(homes / "exercises")
    lines = collect.collect(homes, tmp_path / "handed-in")
    assert [line.removeprefix("not taken  anna/") for line in lines[:6]] == [
        f"{names[0]}: a link stands there", f"{names[1]}: a link stands there", f"{names[2]}: it is no regular file",
        f"{names[3]}: it is no regular file", f"{names[4]}: it is larger than 20 MB", f"{names[5]}: Permission denied"]
    assert lines[6:12] == [f"not taken  li/{name}: a link stands there" for name in names]
    assert not list((tmp_path / "handed-in").iterdir()) and os.geteuid() == os.getegid() == 0


@as_root
def test_nothing_is_collected_into_a_folder_of_the_class_server_or_of_somebody_else(homes, load, tmp_path):
    collect = load("collect")
    with pytest.raises(collect.CollectError, match="in the folder of the class server"):
        collect.collect(homes, homes / "handed-in")
    (tmp_path / "other").mkdir()
    os.chown(tmp_path / "other", 61001, 61001)
    with pytest.raises(collect.CollectError, match="somebody else's"):
        collect.collect(homes, tmp_path / "other")
    with pytest.raises(collect.CollectError, match="There is no folder .*/none: make it first"):
        collect.collect(homes, tmp_path / "none" / "handed-in")
    with pytest.raises(collect.CollectError, match="no class server with students"):
        collect.collect(tmp_path, tmp_path.parent / "handed-in")


# A class


class Server:
    """A class server on loopback, in a folder of its own."""

    def __init__(self, folder, count):
        self.folder = folder
        self.names = [f"t{os.getpid()}-{k:02}" for k in range(count)]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        self.environment = {**os.environ, "AUTODIFF_HUB_BIND": self.url}
        self.log, self.process = folder / "state" / "hub.log", None

    def run(self, *arguments):
        """start.py with these arguments, to its end."""
        return subprocess.run(self.command(*arguments), env=self.environment, capture_output=True, text=True)

    def command(self, *arguments):
        return [sys.executable, str(HUB / "start.py"), "--folder", str(self.folder), *map(str, arguments)]

    def start(self, *arguments):
        self.process = subprocess.Popen(self.command(*arguments), env=self.environment, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = []
        for line in self.process.stdout:
            said.append(line)
            if line.startswith("The class server runs"):
                return "".join(said)
        raise AssertionError("the class server did not start:\n" + "".join(said))

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        said = self.process.communicate(timeout=120)[0]
        assert self.process.returncode == 0 and "The class server has stopped." in said, said

    def passwords(self):
        lines = (self.folder / "state" / "passwords.csv").read_text().splitlines()[1:]
        return dict(line.split(",") for line in lines)

    def programs(self):
        """The command lines of root's processes that serve this folder."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if entry.stat().st_uid == 0 and f"AUTODIFF_HUB_FOLDER={self.folder}" in (entry / "environ").read_text():
                    found.append((entry / "cmdline").read_text())
            except OSError:
                continue
        return found

    def uid(self, name):
        return (self.folder / "homes" / name).stat().st_uid


def place():
    """Where every user may read: in memory where there is room, because a disk may take minutes to forget it all."""
    memory = pathlib.Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > 4e9 and not os.statvfs(memory).f_flag & os.ST_NOEXEC:
        return memory
    return pathlib.Path("/srv")


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    sys.path.insert(0, str(HUB))
    try:
        if sys.platform != "linux" or (reason := importlib.import_module("start").missing()):
            pytest.skip(reason if sys.platform == "linux" else "a class server runs on Linux")
    finally:
        sys.path.remove(str(HUB))
    for left in place().glob("autodiff-test-*"):  # of a run that was killed
        subprocess.run([sys.executable, str(HUB / "start.py"), "--folder", str(left), "--remove"])
    server = Server(place() / f"autodiff-test-{os.getpid()}", int(os.environ.get("AUTODIFF_STUDENTS", "3")))
    listed = tmp_path_factory.mktemp("hub") / "class.txt"
    listed.write_text("\n".join(server.names))
    server.listed = listed
    try:
        server.start("--students", listed)
        yield server
        server.stop()
    finally:
        if server.process.poll() is None:
            server.process.terminate()
            server.process.wait(120)
        removed = server.run("--remove")
        assert removed.returncode == 0, removed.stdout + removed.stderr
        assert not server.folder.exists()
        assert not server.programs()
        assert not list(pathlib.Path("/tmp").glob(f"left-by-t{os.getpid()}-*"))
        for kind in ("passwd", "group", "shadow"):
            assert f"ad-t{os.getpid()}-" not in pathlib.Path(f"/etc/{kind}").read_text()


def students(hub, load, *indices):
    """The students with these numbers, logged in and with a running server and the course. To be awaited."""
    trial, passwords = load("trial"), hub.passwords()

    async def come():
        found = [trial.Student(hub.url, hub.names[k], passwords[hub.names[k]]) for k in indices]
        for student in found:
            await student.log_in()
            await student.start()
            await student.get_course(f"file://{hub.folder}/course")
        return found

    return come()


def finish(coroutine):
    """What it returns. In a thread of its own: in this one a browser of an earlier test may keep its loop running."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


@pytest.mark.hub
def test_a_whole_class_logs_in_at_once_starts_runs_a_lesson_and_a_check(hub):
    count = len(hub.names)
    tried = subprocess.run(
        [hub.folder / "venv" / "bin" / "python", HUB / "trial.py", hub.url, hub.folder / "state" / "passwords.csv",
         "--repository", f"file://{hub.folder}/course"],
        capture_output=True, text=True, timeout=900)
    assert tried.returncode == 0, tried.stdout + tried.stderr + hub.log.read_text()[-3000:]
    assert f"check            {count} of {count}" in tried.stdout
    assert "nobody could read another's files or server" in tried.stdout
    print(tried.stdout)


@pytest.mark.hub
def test_the_page_after_the_login_has_a_link_for_each_lesson_and_each_opens(hub, load):
    handout = load("handout")

    async def go():
        [student] = await students(hub, load, 0)
        page = (await student.ask("/")).body.decode()
        for links in handout.contents(hub.folder / "course").values():
            for title, link in links:
                assert f'<a href="/hub/{link.replace("&", "&amp;")}">{title}</a>' in page
        answer = await student.ask(f"/hub/{link}")
        assert answer.code == 200 and b"Synchronizing" in answer.body
        opened = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)["urlpath"][0]
        assert (await student.ask(f"/user/{student.name}/{opened}")).code == 200
        path = opened.removeprefix("lab/tree/")
        assert (await student.ask(f"/user/{student.name}/api/contents/{path}")).code == 200

    finish(go())


@pytest.mark.hub
def test_progress_is_in_the_students_own_folder_and_is_there_after_a_stop(hub, load):
    code = ["from autodiff.course import check, progress", "check('01.a', 0)", "print(progress())"]

    async def go():
        [student] = await students(hub, load, 1)
        await student.run(code[:2])
        await student.stop()
        await student.start()
        assert "01.a" in await student.run([code[0], code[2]])

    finish(go())
    kept = hub.folder / "homes" / hub.names[1] / ".local/share/autodiff-course/progress.json"
    assert "01.a" in kept.read_text() and kept.stat().st_uid == hub.uid(hub.names[1])


# Run in a student's notebook. Each attempt must fail, but for those that show that an attempt can succeed.
ATTEMPTS = r"""
import json, os, pathlib, resource, subprocess, urllib.request
folder, other = pathlib.Path({folder!r}), {other!r}
succeeded, me, parent = [], os.getuid(), os.getppid()

def attempt(what, call):
    try:
        call()
    except (OSError, ValueError, MemoryError, subprocess.CalledProcessError):
        return
    succeeded.append(what)

def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, cwd=pathlib.Path.home())

def fetch(url, token, method="GET", body=None, timeout=30):
    headers = {{"Authorization": f"token {{token}}"}}
    request = urllib.request.Request(url, method=method, data=body, headers=headers)
    urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(request, timeout=timeout).read()

def environment(pid):
    lines = pathlib.Path(f"/proc/{{pid}}/environ").read_bytes().decode().split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)

def listening():
    for line in open("/proc/net/tcp").readlines()[1:]:
        words = line.split()
        if words[3] == "0A":
            yield int(words[1].rsplit(":", 1)[1], 16), int(words[7])

# Files
for name in ("hub.sqlite", "passwords.csv", "hub.log", "setup.log", "proxy.pid"):
    attempt(f"read state/{{name}}", (folder / "state" / name).read_bytes)
for place in ("state", "homes", f"homes/{{other}}", f"homes/{{other}}/.run", f"homes/{{other}}/course"):
    attempt(f"list {{place}}", lambda: os.listdir(folder / place))
for place in (".", "course", "course/.git", "course/notebooks", "venv", "venv/bin", "venv/etc/jupyter", "proxy",
              "homes"):
    attempt(f"write to {{place}}", (folder / place / "x").touch)
attempt("change a lesson", lambda: open(folder / "course/notebooks/01_the_shared_node.ipynb", "a"))
attempt("push to the course", lambda: run("git", "-C", "course", "push", "-q", "origin", "HEAD:refs/heads/x"))

# Processes of others
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        command, uid = (entry / "cmdline").read_bytes().decode(), entry.stat().st_uid
    except OSError:
        continue
    if uid != me and str(folder) in command:
        for name in ("environ", "mem", "maps"):
            attempt(f"read {{name}} of {{command}}", lambda: open(entry / name, "rb").read(1))
        attempt(f"list files of {{command}}", lambda: os.listdir(entry / "fd"))
        attempt(f"signal {{command}}", lambda: os.kill(int(entry.name), 0))

# The hub's and the proxy's own ports, and the servers of others, with the token of this student's server
mine = environment(parent)
token, api = mine["JUPYTERHUB_API_TOKEN"], mine["JUPYTERHUB_API_URL"]
name = mine["JUPYTERHUB_USER"]
attempt("ask the hub who I am", lambda: fetch(f"{{api}}/user", token))
for method, path, body in (
        ("GET", "/users", None), ("GET", f"/users/{{other}}", None), ("POST", "/users/mallory", b""),
        ("PATCH", f"/users/{{name}}", b'{{"admin": true}}'), ("POST", f"/users/{{other}}/server", b""),
        ("DELETE", f"/users/{{other}}/server", None), ("POST", f"/users/{{other}}/tokens", b"{{}}"),
        ("POST", f"/users/{{name}}/tokens", b'{{"scopes": ["admin:users"]}}'),
        ("POST", f"/users/{{name}}/tokens", b'{{"roles": ["admin"]}}'), ("POST", f"/shares/{{name}}/", b"{{}}"),
        ("POST", "/shutdown", b""), ("GET", "/proxy", None), ("GET", "/services", None), ("GET", "/groups", None)):
    attempt(f"{{method}} {{path}}", lambda: fetch(api + path, token, method, body))
attempt("read the proxy's routes", lambda: fetch("http://127.0.0.1:{proxy}/api/routes", token))
found = 0
for port, uid in listening():
    if uid == {uid}:
        found += 1
        url = f"http://127.0.0.1:{{port}}/user/{{other}}/api/contents"
        attempt("read another's server", lambda: fetch(url, token, timeout=8))  # a kernel's port never answers

# The machine
attempt("raise a limit", lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000)))
attempt("take 4 GB", lambda: bytearray(4 * 2**30))
attempt("write 600 MB", lambda: run("dd", "if=/dev/zero", "of=large", "bs=1M", "count=600"))
attempt("become root", lambda: run("su", "-c", "true"))
attempt("make a user", lambda: run("/usr/sbin/useradd", "mallory"))
held = [os.readlink(f"/proc/{{parent}}/fd/{{number}}") for number in range(3)]
subprocess.Popen(["sleep", "1000"], start_new_session=True)
(pathlib.Path("/tmp") / f"left-by-{{name}}").touch()
started = []
try:
    while len(started) < 1000:
        started.append(subprocess.Popen(["sleep", "100"]))
except OSError:
    pass
for process in started:
    process.kill()
print(json.dumps([succeeded, os.getgroups() == [os.getgid()], found, held, len(started)]))
"""


@pytest.mark.hub
def test_from_a_notebook_nothing_of_others_and_nothing_of_the_hub_is_within_reach(hub, load):
    mallory, other = hub.names[:2]
    chosen = int(re.search(r"Proxy API at \S*?(\d{4,5})", hub.log.read_text())[1])
    code = ATTEMPTS.format(folder=str(hub.folder), other=other, proxy=chosen, uid=hub.uid(other))

    async def go():
        student, victim = await students(hub, load, 0, 1)
        await victim.run(["print('here')"])
        printed = json.loads(await student.run([code]))
        await student.stop()
        return printed, load("users").processes(hub.uid(mallory))

    (succeeded, groups, found, held, started), left = finish(go())
    assert succeeded == ["ask the hub who I am"]
    assert groups, "a student is in a group besides their own"
    assert found, "another's server was not found, so that nothing was tried on it"
    log = f"{hub.folder}/homes/{mallory}/.server.log"
    assert held == ["/dev/null", log, log], "a student holds the teacher's terminal"
    assert 10 < started < 200, "as many processes as a student likes"
    assert not left, "what a student started outlives a stop"
    assert not {"mallory", "ad-mallory"} & {line.split(":")[0] for line in open("/etc/passwd")}


@pytest.mark.hub
def test_with_a_browser_nobody_opens_anothers_server_signs_up_or_becomes_an_administrator(hub, load):
    async def go():
        student, _ = await students(hub, load, 0, 1)
        mine, other = student.name, hub.names[1]
        for path in ("/hub/home", f"/user/{mine}/api/contents"):
            assert (await student.ask(path)).code == 200, path
        for method, path, body in (
                ("GET", f"/user/{other}/api/contents", None), ("GET", f"/user/{other}/lab", None),
                ("GET", f"/user/{other}/files/course/notebooks/01_the_shared_node.ipynb", None),
                ("GET", f"/hub/spawn/{other}", None), ("POST", f"/hub/api/users/{other}/server", {}),
                ("GET", "/hub/admin", None), ("GET", "/hub/api/users", None), ("GET", "/hub/metrics", None),
                ("GET", "/hub/authorize", None), ("GET", f"/hub/authorize/{mine}", None),
                ("GET", f"/hub/change-password/{other}", None), ("GET", "/hub/signup", None),
                ("POST", "/hub/api/users/mallory", {}), ("PATCH", f"/hub/api/users/{mine}", {"admin": True}),
                ("POST", f"/hub/api/users/{mine}/tokens", {"scopes": ["admin:users"]}),
                ("POST", f"/hub/api/users/{mine}/servers/second", {}), ("POST", f"/hub/api/shares/{mine}/", {})):
            answer = await student.ask(path, method, body)
            assert answer.code in (400, 403, 404), (method, path, answer.code)
        token = student.cookies_for("/hub/")["_xsrf"]
        forms = {"/hub/signup": "signup_password", f"/hub/change-password/{other}": "new_password"}
        for path, field in forms.items():
            form = {"_xsrf": token, "username": "mallory", field: "abcd-efgh", f"{field}_confirmation": "abcd-efgh"}
            answer = await student.ask(path, "POST", form=form)
            assert answer.code in (403, 404), (path, answer.code)
        state = json.loads((await student.ask(f"/hub/api/users/{mine}")).body)
        assert state["admin"] is False

    finish(go())


@pytest.mark.hub
def test_while_it_runs_new_names_and_new_passwords_are_taken_in(hub, load, tmp_path):
    trial, forgot, before = load("trial"), hub.names[-1], hub.passwords()
    added = f"t{os.getpid()}-late"
    (tmp_path / "class.txt").write_text("\n".join([*hub.names[1:], added]))
    again = hub.run("--students", tmp_path / "class.txt", "--new-password", forgot)
    assert again.returncode == 0, again.stderr
    assert "The class server runs already" in again.stdout and "2 new passwords are in" in again.stdout
    assert f"Not in the list, and kept with their work: {hub.names[0]}." in again.stdout
    after = hub.passwords()
    assert before | {forgot: after[forgot], added: after[added]} == after and after[forgot] != before[forgot]

    async def go():
        with pytest.raises(trial.Refused):
            await trial.Student(hub.url, forgot, before[forgot]).log_in()
        await trial.Student(hub.url, forgot, after[forgot]).log_in()
        late = trial.Student(hub.url, added, after[added])
        await late.log_in()
        await late.start()
        assert await late.run(["import os; print(os.getcwd())"]) == f"{hub.folder}/homes/{added}\n"
        await late.stop()

    finish(go())
    wrong = hub.run("--new-password", "nobody")
    assert wrong.returncode == 1 and "There is no account of nobody" in wrong.stderr


@pytest.mark.hub
def test_it_is_not_removed_while_it_runs(hub):
    refused = hub.run("--remove")
    assert refused.returncode == 1 and "stop it first" in refused.stderr
    assert (hub.folder / "state" / "hub.sqlite").exists()


@pytest.mark.hub
def test_after_a_crash_the_next_start_ends_what_was_left_and_logs_everybody_out(hub, load):
    name, users = hub.names[1], load("users")
    number = hub.uid(name)

    async def before():
        [student] = await students(hub, load, 1)
        assert (await student.ask("/hub/home")).effective_url.endswith("/hub/home")
        return student.cookies

    cookies, left = finish(before()), users.processes(number)
    children = pathlib.Path(f"/proc/{hub.process.pid}/task/{hub.process.pid}/children").read_text().split()
    for pid in [hub.process.pid, *map(int, children)]:
        os.kill(pid, signal.SIGKILL)
    hub.process.wait()
    proxy = int((hub.folder / "state" / "proxy.pid").read_text())
    assert left and set(users.processes(number)) == set(left) and proxy in users.processes(0)
    hub.start()
    assert not users.processes(number) and proxy not in users.processes(0)
    programs = hub.programs()
    assert len(programs) == 3 and all(any(part in program for program in programs)
                                      for part in ("jupyterhub\0-f", "configurable-http-proxy", "idle_culler"))

    async def after():
        trial = load("trial")
        student = trial.Student(hub.url, name, hub.passwords()[name])
        student.cookies = cookies
        assert "/hub/login" in (await student.ask("/hub/home")).effective_url
        student.cookies = {}
        await student.log_in()
        await student.start()
        assert await student.run(["print(1)"]) == "1\n"

    finish(after())


@pytest.mark.hub
def test_a_server_that_nobody_uses_is_stopped_and_its_files_stay(hub, load):
    name, users = hub.names[0], load("users")
    hub.stop()
    hub.environment["AUTODIFF_HUB_IDLE"] = "3"
    hub.start()

    async def go():
        [student] = await students(hub, load, 0)
        assert users.processes(hub.uid(name))
        for _ in range(120):
            if not json.loads((await student.ask(f"/hub/api/users/{name}")).body)["servers"]:
                return
            await asyncio.sleep(1)
        raise AssertionError("nobody stopped the server")

    finish(go())
    assert not users.processes(hub.uid(name))
    assert (hub.folder / "homes" / name / "course" / "exercises").is_dir()


# The image and Kubernetes, which are not run here


def instructions():
    """[(instruction, rest)] of the image."""
    text = re.sub(r"\\\n\s*", "", (HUB / "Dockerfile").read_text(encoding="utf-8"))
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line and not line.startswith("#")]


def values():
    return yaml.safe_load((HUB / "values.yaml").read_text(encoding="utf-8"))


def test_image_is_made_from_environment_yml_and_from_files_that_are_there_and_not_ignored():
    kept = [line[1:] for line in (HUB / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    assert all((ROOT / name).exists() for name in kept)
    assert not [name for name in kept if "solutions".startswith(name) or "tests".startswith(name)]
    sources = [rest.split()[0] for kind, rest in instructions() if kind == "COPY"]
    assert sources == ["environment.yml", "deploy/hub/environment.yml", "."]
    run = " ".join(rest for kind, rest in instructions() if kind in ("RUN", "CMD"))
    assert run.index("-f /course/environment.yml") < run.index("-f /course/deploy/hub/environment.yml")
    for name in set(re.findall(r"(?<!/opt)/course/([\w./-]+)", run)):
        assert (ROOT / name).exists() and any(name == k or name.startswith(k + "/") for k in kept), name


def test_image_has_the_packages_of_the_hub_extra_and_each_has_an_upper_bound():
    listed = yaml.safe_load((HUB / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    assert listed[0] == "pip"
    flat = [line for entry in listed[1:] for line in (entry["pip"] if isinstance(entry, dict) else [entry])]
    assert all(re.fullmatch(r"[\w-]+>=[\d.]+,<\d+", line) for line in flat)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.match(r"[\w-]+", line)[0] for line in project["optional-dependencies"]["hub"]}
    wanted |= {"configurable-http-proxy"}
    assert {re.match(r"[\w-]+", line)[0] for line in flat} == wanted


@linux
def test_image_starts_as_root_with_options_that_start_py_knows_in_packages_that_students_cannot_change(load):
    image = instructions()
    command = json.loads(dict(image)["CMD"])
    assert command[:2] == ["python", "/course/deploy/hub/start.py"]
    options = load("start").parser().parse_args(command[2:])
    assert options.installed and str(options.students) == "/class.txt" and not options.set_up_only
    assert [rest for kind, rest in image if kind == "USER"] == ["root"]
    run = [rest for kind, rest in image if kind == "RUN"]
    assert run[0].startswith("chmod go-w /opt/conda /opt/conda/conda-meta ")
    assert json.loads(dict(image)["ENTRYPOINT"])[0] == "tini" and " tini " in run[0]
    assert dict(image)["VOLUME"] == str(options.folder)


def test_kubernetes_runs_the_image_as_its_user_with_the_arguments_that_the_class_server_uses():
    single = values()["singleuser"]
    run = next(rest for kind, rest in instructions() if kind == "RUN")
    uid, name = re.search(r"useradd --uid (\d+) --gid users --create-home (\w+)", run).groups()
    assert single["uid"] == int(uid) and single["fsGid"] == 100  # Debian's group users
    home = f"/home/{name}"
    assert single["storage"]["homeMountPath"] == single["extraEnv"]["HOME"] == home
    assert values()["hub"]["config"]["KubeSpawner"]["working_dir"] == home
    config = (HUB / "jupyterhub_config.py").read_text(encoding="utf-8")
    assert single["cmd"][0] == "jupyterhub-singleuser" and f'"{single["cmd"][0]}"' in config
    assert len(single["cmd"]) > 1 and all(f'"{argument}"' in config for argument in single["cmd"][1:])


def test_the_link_for_kubernetes_opens_a_lesson_of_the_course_that_is_in_the_image(load):
    text = (HUB / "values.yaml").read_text(encoding="utf-8")
    link = load("handout").link("/opt/course", "notebooks/01_the_shared_node.ipynb")
    assert f"#   https://class.example.org/hub/{link}\n" in text
    assert "handout.py /opt/course" in dict(instructions())["RUN"]


# What these settings are called in values.schema.yaml of the chart's version 4. None: a value, or passed on as it is.
KNOWN = {
    "hub": {"config": None, "db": {"type"}, "concurrentSpawnLimit": None, "consecutiveFailureLimit": None,
            "resources": {"requests": None, "limits": None}},
    "proxy": {"https": {"enabled", "type", "hosts", "letsencrypt", "manual", "secret"}},
    "singleuser": {
        "image": {"name", "tag"}, "uid": None, "fsGid": None, "cmd": None, "defaultUrl": None, "extraEnv": None,
        "startTimeout": None, "memory": {"guarantee", "limit"}, "cpu": {"guarantee", "limit"},
        "storage": {"type", "homeMountPath", "capacity"},
        "networkPolicy": {"enabled": None, "egressAllowRules": {"privateIPs", "cloudMetadataServer"}},
        "cloudMetadata": {"blockWithIptables", "ip"}},
    "scheduling": {"userScheduler": {"enabled"}, "podPriority": {"enabled"},
                   "userPlaceholder": {"enabled", "replicas"}},
    "cull": {"enabled", "timeout", "every"},
}


def unknown(given, known, path=""):
    for key, value in given.items():
        if key not in known:
            yield path + key
        elif isinstance(known, dict) and known[key] is not None:
            yield from unknown(value, known[key], f"{path}{key}.")


def test_kubernetes_values_have_names_that_the_chart_knows():
    assert list(unknown({"hub": {"typo": 1}, "cull": {"enabled": True}}, KNOWN)) == ["hub.typo"]
    assert list(unknown(values(), KNOWN)) == []
    shown = re.search(r"#   singleuser: \{image.*?(?=# The link)", (HUB / "values.yaml").read_text(), re.DOTALL)[0]
    secrets = yaml.safe_load(re.sub(r"^#   ?", "", shown, flags=re.MULTILINE))
    assert set(secrets) == {"singleuser", "proxy", "hub"} and list(unknown(secrets, KNOWN)) == []


def test_the_number_of_nodes_in_the_readme_follows_from_what_the_values_guarantee():
    user, text = values()["singleuser"], (HUB / "README.md").read_text(encoding="utf-8")
    memory, cores = int(user["memory"]["guarantee"].removesuffix("M")) / 1000, user["cpu"]["guarantee"]
    assert f"0.9 · 64 / {memory:g} = {0.9 * 64 / memory:.0f} " in text
    assert f"0.9 · 8 / {cores:g} = {0.9 * 8 / cores:.0f}." in text
    node = min(0.9 * 64 / memory, 0.9 * 8 / cores, 110 - 10)
    for students in (300, 3000):
        assert f"{students:,} / {node:.0f} = {students / node:.0f} nodes" in text


def test_kubernetes_values_are_closed_limited_and_culled():
    given = values()
    config = given["hub"]["config"]
    assert config["JupyterHub"] == {"authenticator_class": "generic-oauth", "admin_access": False}
    assert config["GenericOAuthenticator"]["allow_all"] is False
    user = given["singleuser"]
    assert user["memory"]["limit"] and user["cpu"]["limit"] and user["startTimeout"] >= 180
    assert given["cull"]["enabled"] is True and given["proxy"]["https"]["enabled"] is True
    assert user["networkPolicy"] == {"enabled": True,
                                     "egressAllowRules": {"privateIPs": False, "cloudMetadataServer": False}}
