"""Set up and start a class server on this machine: JupyterHub, one account and one private folder for each student.

    sudo python3 deploy/hub/start.py --students class.txt

What it needs: Linux, root (each student becomes a system user), git, npm (for JupyterHub's proxy), and a Python 3.11 or
newer that every user can read, such as /usr/bin/python3. Everything goes into one folder, /srv/autodiff unless --folder
names another; --remove takes the folder and the system users away again. A second start keeps accounts and work. While
the server runs, the same command takes in new names and changed exercises, and --collect copies what students did.
"""

import argparse
import errno
import fcntl
import hashlib
import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True  # root leaves nothing in the teacher's folder
import collect  # noqa: E402
import handout  # noqa: E402
import students  # noqa: E402
import users  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROXY = "configurable-http-proxy@5.3.0"
OLDEST = (3, 11)
NETLOC = re.compile(r"([\w.-]+|\[[\da-fA-F:]+\])(:\d{1,5})?")
# What a folder of a class server has in it, and the longest path of a socket less what Jupyter adds below a home.
PARTS = {"course", "gitconfig", "homes", "proxy", "state", "venv"}
LONGEST_HOME = 107 - len("/.run/kernel-00000000-0000-0000-0000-000000000000-ipc-1")


class StartError(Exception):
    """Its text is the sentence the teacher reads."""


def parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/srv/autodiff"))
    parser.add_argument("--students", type=pathlib.Path, help="a file with one user name a line")
    parser.add_argument("--new-password", metavar="NAME", action="append", default=[], help="for one who forgot theirs")
    parser.add_argument("--collect", metavar="TARGET", type=pathlib.Path, help="copy what students did into a folder")
    parser.add_argument("--installed", action="store_true", help="use this Python and the proxy on the PATH")
    parser.add_argument("--set-up-only", action="store_true", help="do not start the server")
    parser.add_argument("--remove", action="store_true", help="remove the folder, with all work in it, and the users")
    return parser


def main(arguments):
    options = parser().parse_args(arguments)
    os.umask(0o022)
    try:
        folder = options.folder.resolve()
        if reason := not_root() if options.remove or options.collect else missing(options.installed):
            raise StartError(reason)
        if options.remove:
            remove(folder)
        elif options.collect:
            print("\n".join(collect.collect(folder, options.collect)))
        else:
            start(folder, options)
    except (StartError, collect.CollectError, handout.HandOutError, users.UserError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. The next start goes on from here.", file=sys.stderr)
        return 130
    return 0


def start(folder, options):
    environment = settings(folder, options.installed)
    if options.students:
        check_names(folder, options.students)
    check_bind(environment)
    make_folders(folder)
    python = sys.executable if options.installed else str(folder / "venv" / "bin" / "python")
    with Lock(folder) as lock:
        if not lock.held:
            return take_in(folder, options, python, lock.holder())
        end_leftovers(folder)
        if not options.set_up_only:
            check_port(environment)
        set_up(folder, options.installed)
        accounts(folder, options, python, ["--end-sessions"])
        if not options.set_up_only:
            serve(folder, python, environment | inside_ports(), lock)


def take_in(folder, options, python, holder):
    """New names, new passwords and changed exercises, for a class server that runs."""
    if not (options.installed or (folder / "state" / "installed").exists()):
        raise StartError(f"A class server is being set up in {folder} (process {holder}): wait for it.")
    hand_out(folder)
    accounts(folder, options, python)
    print(f"The class server runs already (process {holder}); what is new was taken in.")


# What must be there


def not_root():
    if sys.platform != "linux" or os.geteuid() != 0:
        return "The class server needs Linux and root, because each student becomes a system user: use sudo."
    return None


def missing(installed=False):
    """The sentence about what is missing to set a class server up here, or None."""
    if reason := not_root():
        return reason
    needed = [("git", "the course is handed out with it"), ("useradd", "each student becomes a system user")]
    needed.append(("configurable-http-proxy", "JupyterHub needs it") if installed else
                  ("npm", "JupyterHub's proxy comes from it"))
    for program, reason in needed:
        if shutil.which(program) is None:
            return f"There is no {program} on this machine, and {reason}: install it, then run this again."
    if installed:
        prefix = pathlib.Path(sys.prefix)
        for place in (prefix / "bin", prefix / "lib", prefix, *prefix.parents):
            if place.stat().st_mode & 0o002:
                return f"Students could change {place}, and JupyterHub is in it: shut it with chmod o-w {place}."
    elif find_python() is None:
        return ("There is no Python 3.11 or newer on this machine that every user can read and that has venv: install "
                "one for all users (on Debian and Ubuntu python3 and python3-venv), then run this again.")
    return None


def find_python():
    """A Python for the students' servers: this one, or the system's where this one is in somebody's home."""
    fits = f"import ensurepip, sys, venv; sys.exit(sys.version_info < {OLDEST})"
    versions = [shutil.which(f"python3.{minor}") for minor in range(15, OLDEST[1] - 1, -1)]
    for candidate in (f"{sys.base_prefix}/bin/python3", "/usr/bin/python3", *filter(None, versions)):
        real = pathlib.Path(candidate).resolve()
        if is_open(real) and subprocess.run([str(real), "-c", fits], capture_output=True).returncode == 0:
            return candidate
    return None


def is_open(path):
    """Whether every user can reach and run this."""
    return path.exists() and all(place.stat().st_mode & 0o001 for place in (path, *path.parents))


def check_names(folder, listed):
    """Raise before anything is made."""
    try:
        names = students.read(listed)
    except students.ListError as error:
        raise StartError(f"Nothing has changed:\n{error}") from None
    longest = max(names, key=len)
    if len(f"{folder}/homes/{longest}") > LONGEST_HOME:
        raise StartError(f"The path {folder}/homes/{longest} is too long for the sockets of its kernels: choose a "
                         f"folder whose path has at most {LONGEST_HOME - len('/homes/' + longest)} signs.")


def check_bind(environment):
    """Raise where the address and the certificate do not fit, and say so where passwords would travel in the open."""
    url = urllib.parse.urlsplit(environment["AUTODIFF_HUB_BIND"])
    certificate, key = (environment.get(f"AUTODIFF_HUB_{name}") for name in ("CERTIFICATE", "KEY"))
    if url.scheme not in ("http", "https") or not url.hostname or not NETLOC.fullmatch(url.netloc):
        raise StartError(f"AUTODIFF_HUB_BIND is an address such as https://0.0.0.0:443, and not {url.geturl()!r}.")
    if (url.scheme == "https") != bool(certificate and key):
        raise StartError("An address with https needs AUTODIFF_HUB_CERTIFICATE and AUTODIFF_HUB_KEY, and one with http "
                         f"takes neither: AUTODIFF_HUB_BIND is {url.geturl()}.")
    if certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        except OSError as error:  # no such file, no certificate in it, or one that another key belongs to
            raise StartError(f"The certificate {certificate} with the key {key} cannot be used: {error}.") from None
        if has_expired(certificate):
            print(f"The certificate {certificate} has expired: browsers will warn everybody.", flush=True)
    elif url.hostname not in ("127.0.0.1", "::1", "localhost"):
        print("There is no certificate: passwords travel in the open, unless a reverse proxy that has one is in front.",
              flush=True)


def has_expired(certificate):
    command = ["openssl", "x509", "-noout", "-checkend", "0", "-in", certificate]
    return shutil.which("openssl") is not None and subprocess.run(command, capture_output=True).returncode == 1


def address(environment):
    """The address to give to students, as far as it can be known here."""
    url = urllib.parse.urlsplit(environment["AUTODIFF_HUB_BIND"])
    if url.hostname not in ("0.0.0.0", "::"):
        return url.geturl()
    return url._replace(netloc=socket.getfqdn() + (f":{url.port}" if url.port else "")).geturl()


def check_port(environment):
    url = urllib.parse.urlsplit(environment["AUTODIFF_HUB_BIND"])
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    if not is_free(url.hostname, port):
        raise StartError(f"Port {port} is taken: stop what uses it, or choose another port, as in "
                         f"AUTODIFF_HUB_BIND={url.scheme}://{url.hostname}:{port + 10}.")


def inside_ports():
    """Free ports for the hub and for its proxy's orders; chosen anew at each start."""
    with socket.socket() as hub, socket.socket() as proxy:
        chosen = {}
        for name, probe in (("AUTODIFF_HUB_PORT", hub), ("AUTODIFF_HUB_PROXY_PORT", proxy)):
            probe.bind(("127.0.0.1", 0))
            chosen[name] = str(probe.getsockname()[1])
    return chosen


def is_free(host, port):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise StartError(f"The class server cannot listen at {host}: {error.strerror}.") from None
    return True


def settings(folder, installed=False):
    """The environment of the hub, which runs in its own folder."""
    proxy = folder / "proxy" / "node_modules" / ".bin" / "configurable-http-proxy"
    named = [name for name in ("AUTODIFF_HUB_CERTIFICATE", "AUTODIFF_HUB_KEY") if os.environ.get(name)]
    files = {name: os.path.abspath(os.environ[name]) for name in named}
    return {"AUTODIFF_HUB_BIND": "http://127.0.0.1:8000"} | dict(os.environ) | files | {
        "AUTODIFF_HUB_FOLDER": str(folder),
        "AUTODIFF_HUB_PROXY": "configurable-http-proxy" if installed else str(proxy),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


# Setting up


def make_folders(folder):
    if folder.exists() and (others := set(os.listdir(folder)) - PARTS):
        raise StartError(f"{folder} holds other things ({', '.join(sorted(others))}): name a folder for the class "
                         "server alone.")
    for name, mode in (("", 0o755), ("state", 0o700), ("homes", 0o711), ("proxy", 0o755)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        os.chmod(folder / name, mode)
    closed = next((place for place in (folder, *folder.parents) if not place.stat().st_mode & 0o001), None)
    if closed:
        raise StartError(f"Students could not read {closed}: choose another folder with --folder.")


class Lock:
    """Held by what sets up or serves this folder, as long as it lives, and however it ends."""

    def __init__(self, folder):
        self.file = open(folder / "state" / "lock", "a+")

    def __enter__(self):
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.held = True
            self.name(os.getpid())
        except BlockingIOError:
            self.held = False
        return self

    def __exit__(self, *what):
        self.file.close()

    def name(self, pid):
        self.file.truncate(0)
        print(pid, file=self.file, flush=True)

    def holder(self):
        self.file.seek(0)
        return self.file.read().strip()


def set_up(folder, installed):
    if not installed:
        install(folder)
    (folder / "gitconfig").write_text(f"[safe]\n\tdirectory = {folder / 'course'}\n"
                                      f"\tdirectory = {folder / 'course' / '.git'}\n")
    hand_out(folder)


def install(folder):
    """JupyterHub, the course and the proxy, anew where an earlier set-up did not come to its end."""
    stamp, digest = folder / "state" / "installed", contents()
    if stamp.exists() and stamp.read_text() == digest:
        return
    print("Setting up: this takes a minute or two ...", flush=True)
    python, log = folder / "venv" / "bin" / "python", folder / "state" / "setup.log"
    log.unlink(missing_ok=True)
    if not (stamp.exists() and python.exists()):
        stamp.unlink(missing_ok=True)
        shutil.rmtree(folder / "proxy" / "node_modules", ignore_errors=True)
        run([find_python(), "-m", "venv", "--clear", str(folder / "venv")], log)
    pip = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "deploy" / "constraints.txt")]
    run([*pip, "setuptools"], log)
    with tempfile.TemporaryDirectory() as copy:  # a build leaves things behind, and the course may be another user's
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, copy)
        shutil.copytree(ROOT / "autodiff", f"{copy}/autodiff", ignore=shutil.ignore_patterns("__pycache__"))
        run([*pip, "--no-build-isolation", f"{copy}[course,hub]"], log)
    shutil.copytree(HERE / "labconfig", folder / "venv" / "etc" / "jupyter" / "labconfig", dirs_exist_ok=True)
    proxy = folder / "proxy"
    proxy.mkdir(exist_ok=True)
    (proxy / "package.json").write_text('{"private": true}\n')
    # In its folder and not with --prefix, which makes npm overlook what this machine has set for all, as a certificate.
    run(["npm", "install", "--ignore-scripts", "--no-fund", "--no-audit", PROXY], log, cwd=proxy)
    run([settings(folder)["AUTODIFF_HUB_PROXY"], "--version"], log, "the proxy does not run, which needs Node.js 18")
    stamp.write_text(digest)


def contents():
    """A digest of what is installed: the course's package, and the versions of all others."""
    digest = hashlib.sha256(PROXY.encode())
    paths = [ROOT / "pyproject.toml", ROOT / "deploy" / "constraints.txt", HERE / "labconfig" / "page_config.json"]
    for path in [*paths, *sorted((ROOT / "autodiff").rglob("*"))]:
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def hand_out(folder):
    if changed := handout.changed():
        print(f"Handed out as they are here, and not as committed: {', '.join(changed)}.", flush=True)
    if is_open(ROOT / "solutions"):
        print(f"Students can read {ROOT / 'solutions'}: keep them out with chmod o-rx {ROOT}.", flush=True)
    handout.hand_out(folder / "course")


def accounts(folder, options, python, more=()):
    """Accounts, passwords and system users; the folders of earlier students are theirs again in a new container."""
    command = [python, str(HERE / "students.py"), str(folder / "state"), *more]
    command += ["--students", str(options.students)] if options.students else []
    command += [f"--new-password={name}" for name in options.new_password]
    homes = folder / "homes"
    names = os.listdir(homes)
    if options.students:
        names += [name for name in students.read(options.students) if name not in names]
    for name in names:
        users.make(name, homes)
    if subprocess.run(command, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}).returncode:
        raise StartError("No accounts were made.")


def run(command, log, reason="this command failed", cwd=None):
    """Run a step of the set-up. What it said is shown when it failed."""
    with open(log, "a+") as stream:
        print("$", *command, file=stream, flush=True)
        said = stream.tell()
        if subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream).returncode:
            stream.seek(said)
            last = "".join(stream.readlines()[-20:])
            raise StartError(f"{last}The set-up stopped, because {reason}: {' '.join(command)}\n"
                             f"All that was said is in {log}. The next start tries again.")


# Serving


def serve(folder, python, environment, lock):
    """Run the hub until it is told to stop, with everything it says in a file."""
    log = folder / "state" / "hub.log"
    if log.exists():
        log.replace(log.with_suffix(".old"))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell that starts this in the background has it ignored
    with open(log, "w") as stream:
        hub = subprocess.Popen([python, "-m", "jupyterhub", "-f", str(HERE / "jupyterhub_config.py")], env=environment,
                               cwd=folder, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                               pass_fds=[lock.file.fileno()], start_new_session=True)
    lock.name(hub.pid)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: hub.terminate())
    while hub.poll() is None and not answers(environment["AUTODIFF_HUB_BIND"]):
        time.sleep(0.1)
    if hub.poll() is None:
        print(f"The class server runs, and Ctrl+C stops it. Students log in at {address(environment)}\n"
              "After the login there is a link for each lesson and exercise, to click or to hand out.", flush=True)
    if hub.wait():
        last = "".join(log.read_text(errors="replace").splitlines(keepends=True)[-20:])
        raise StartError(f"{last}The class server ended by itself. All that it said is in {log}.")
    print("The class server has stopped.")


def answers(url):
    """Whether the hub is there, behind its proxy, whatever its certificate says."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unverified)
    try:
        urllib.request.build_opener(*handlers).open(f"{url.rstrip('/')}/hub/health", timeout=10).close()
    except (OSError, http.client.HTTPException):
        return False
    return True


# Ending


def end_leftovers(folder):
    """What a class server that was killed has left running: its proxy, its services, and the students' servers."""
    for pid in users.processes(0):
        try:
            command, environment = (pathlib.Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
        except OSError:  # it ended meanwhile
            continue
        of_this_hub = f"AUTODIFF_HUB_FOLDER={folder}".encode() in environment.split(b"\0")
        if of_this_hub and re.search(rb"jupyterhub|configurable-http-proxy", command):
            os.kill(pid, signal.SIGKILL)
    (folder / "state" / "proxy.pid").unlink(missing_ok=True)
    for user in users.of(folder / "homes"):
        users.end_processes(user.pw_uid)


def remove(folder):
    found = set(os.listdir(folder)) if folder.is_dir() else set()
    if "homes" not in found or found - PARTS:
        raise StartError(f"{folder} is not the folder of a class server alone, so it is left as it is.")
    (folder / "state").mkdir(mode=0o700, exist_ok=True)
    with Lock(folder) as lock:
        if not lock.held:
            raise StartError(f"The class server runs: stop it first, with Ctrl+C where it was started, or with kill "
                             f"{lock.holder()}.")
        end_leftovers(folder)
        for user in users.of(folder / "homes"):
            users.remove(user)
        for name in sorted(found - {"homes"}):  # the sign of a class server goes last
            shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
        shutil.rmtree(folder)
    print(f"Removed {folder} and its users.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
