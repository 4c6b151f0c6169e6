"""Run one submission in a sandbox: the only place where code of other people runs.

`work(job)` is all that a worker does, in a process of this machine or on a Dask cluster. It needs nothing but the
standard library, knows no gradebook, and returns plain data of which nothing is to be believed but the verdicts (see
`inside.py`, which runs in the sandbox).

The sandbox is bubblewrap where it works, else a container when an image is named, else none: then `NoSandbox` says why.
It has no network, no other processes, no files but Python, its packages and the course, all read-only, and an empty
/tmp of limited size. System calls that an answer never needs are refused (`refused`). Limits on time, memory, processes
and output are set inside; this file watches from outside too.
"""

import contextlib
import ctypes
import importlib.util
import json
import os
import pathlib
import resource
import secrets
import selectors
import shutil
import signal
import site
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time

LIMITS = {
    "cell": 30.0,  # seconds of one cell
    "seconds": 180.0,  # seconds of all cells and checks, twice: to show, and to judge
    "memory": 2 * 2**30,  # bytes, all processes together
    "processes": 64,  # processes and threads
    "output": 200_000,  # characters shown
    "files": 64 * 2**20,  # bytes in /tmp
}
START = 120.0  # seconds until Python and the course are loaded, on a machine that is busy
MOST = 40 * 2**20  # bytes from the sandbox
SHOWN = 10  # times the characters that may be shown: with what JSON adds to them
BASE = 100 * 2**20  # bytes of a process that has loaded the course
UNSAFE = "none"

WHY = """Submissions are other people's code, and this machine has no sandbox to run it in: {}.
Install bubblewrap (on Debian or Ubuntu: sudo apt install bubblewrap), or name a container image with the course in it
(--image, with docker or podman), or on Linux say --unsafe: then each submission can read, change and send whatever you
can."""


class NoSandbox(Exception):
    """There is no sandbox here; the message says why and what to do."""


class WrongCourse(Exception):
    """The worker has another version of the course than the one that asks."""


_chosen = {}


def choose(image=None, unsafe=False):
    """The sandbox of this machine: "bwrap as root", "bwrap", "container" or, when asked for, "none"."""
    if (image, unsafe) not in _chosen:
        _chosen[image, unsafe] = _choose(image, unsafe)
    return _chosen[image, unsafe]


def _choose(image, unsafe):
    reasons = []
    for kind in ["bwrap as root", "bwrap"] if os.geteuid() == 0 else ["bwrap"]:
        reason = _fails(kind)
        if reason is None:
            return kind
        reasons.append(reason)
    if image and engine():
        return "container"
    if image:
        reasons.append("there is neither docker nor podman for the image")
    if unsafe and sys.platform.startswith("linux"):
        return UNSAFE
    if unsafe:
        reasons.append("--unsafe works on Linux only")
    raise NoSandbox(WHY.format("; ".join(dict.fromkeys(reasons))))


def engine():
    """docker or podman, whichever answers; None for neither."""
    for name in ("podman", "docker"):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if shutil.which(name) and subprocess.run([name, "info"], capture_output=True, timeout=30).returncode == 0:
                return name
    return None


def _fails(kind):
    """Why bubblewrap cannot be used here, found by using it; None when it can."""
    if not sys.platform.startswith("linux"):
        return "bubblewrap is for Linux"
    if not shutil.which("bwrap"):
        return "bubblewrap (bwrap) is not installed"
    script = "import os, socket; print(os.getpid(), [name for _, name in socket.if_nameindex()])"
    try:
        with refused() as (filtered, more):
            ran = subprocess.run([*_bwrap(kind, LIMITS), *filtered, sys.executable, "-c", script],
                                 capture_output=True, timeout=60, **more)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start ({error})"
    if ran.returncode:
        said = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        return f"bubblewrap does not work here ({said[-1] if said else f'exit status {ran.returncode}'})"
    if ran.stdout.split(None, 1) != [b"1", b"['lo']\n"]:
        return "bubblewrap does not shut off processes and network here"
    return None


def _bwrap(kind, limits, script=None):
    command = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
               "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--hostname", "grading"]
    if kind == "bwrap as root":
        # The first process gives its children an id that nobody has: root itself has no limit on processes.
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_KILL"):
            command += ["--cap-add", capability]
    else:
        command += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
        if "--disable-userns" in subprocess.run(["bwrap", "--help"], capture_output=True, text=True).stdout:
            command += ["--disable-userns"]
    command += ["--clearenv"]
    for name, value in environment().items():
        command += ["--setenv", name, value]
    command += ["--perms", "1777", "--size", str(int(limits["files"])), "--tmpfs", "/tmp"]
    # bwrap makes the folders above a bound one for root alone.
    for folder in sorted({str(parent) for path in python_paths() for parent in pathlib.Path(path).parents}):
        if folder not in ("/", "/tmp") and not folder.startswith("/usr"):
            command += ["--perms", "0755", "--dir", folder]
    for path in system_paths():
        command += ["--ro-bind-try", path, path]
    for path in python_paths():
        command += ["--ro-bind", path, path]
    if script:
        command += ["--ro-bind", script, "/inside.py"]
    command += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--remount-ro", "/"]
    return [*command, "--chdir", "/tmp"]


# Numbers of system calls on x86_64 and aarch64. They make memory that no limit counts, namespaces in which a process is
# root again, or reach into other processes or the kernel's own machinery.
_REFUSED = {
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218),
}  # fmt: skip
_CLONE, _CLONE3 = (56, 220), 435
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


@contextlib.contextmanager
def refused():
    """The arguments with which bwrap refuses system calls, and those that subprocess needs for it; none elsewhere."""
    machine = os.uname().machine
    if machine not in _MACHINES or sys.maxsize < 2**32:
        yield [], {}
        return
    read, write = os.pipe()
    try:
        os.write(write, _filter(machine))
        os.close(write)
        yield ["--seccomp", str(read)], {"pass_fds": [read]}
    finally:
        os.close(read)


def _filter(machine):
    """The program for the kernel: see seccomp(2), and linux/filter.h for the numbers."""
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill, not_permitted, not_there = 0x7FFF0000, 0x80000000, 0x50001, 0x50026  # EPERM, ENOSYS
    column = list(_MACHINES).index(machine)
    # Each: the code, how many lines to skip when it holds and when not, the number.
    lines = [(load, 0, 0, 4), (equal, 1, 0, _MACHINES[machine]), (give, 0, 0, kill), (load, 0, 0, 0),
             (at_least, 0, 1, 0x40000000), (give, 0, 0, not_permitted)]  # fmt: skip
    for numbers in _REFUSED.values():
        lines += [(equal, 0, 1, numbers[column]), (give, 0, 0, not_permitted)]
    # The C library falls back on clone, whose flags can be looked at: a user namespace is refused, a thread is not.
    lines += [(equal, 0, 1, _CLONE3), (give, 0, 0, not_there)]
    lines += [(equal, 0, 3, _CLONE[column]), (load, 0, 0, 16), (any_bit, 0, 1, 0x10000000), (give, 0, 0, not_permitted)]
    lines += [(give, 0, 0, allow)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _container(image, limits, script, name):
    command = [engine(), "run", "--rm", "-i", "--name", name, "--network", "none", "--read-only", "--cap-drop", "ALL",
               "--security-opt", "no-new-privileges", "--user", "65534:65534", "--hostname", "grading",
               "--pids-limit", str(limits["processes"] + 8), "--memory", str(int(limits["memory"] * 1.5) + 4 * BASE),
               "--tmpfs", f"/tmp:size={int(limits['files'])},mode=1777", "--workdir", "/tmp",
               "--volume", f"{script}:/inside.py:ro"]  # fmt: skip
    for key, value in environment().items():
        command += ["--env", f"{key}={value}"] if key not in ("PATH", "PYTHONPATH") else []
    return [*command, "--entrypoint", "python", image, "-s", "-P", "/inside.py"]


def environment():
    """The environment in the sandbox. The course is found beside nothing else, however it is installed here."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "AUTODIFF_PROGRESS": "off",
            "PYTHONPATH": os.path.dirname(os.path.dirname(importlib.util.find_spec("autodiff").origin)),
            "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "IPYTHONDIR": "/tmp/.ipython",
            "MPLCONFIGDIR": "/tmp/.matplotlib", "MPLBACKEND": "module://matplotlib_inline.backend_inline", **one}


def system_paths():
    return ["/usr", "/lib", "/lib64", "/lib32", "/bin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts"]


def python_paths():
    """Python, its packages and the course, and nothing beside them: no path in here holds the teacher's own files."""
    package = importlib.util.find_spec("autodiff").origin
    folders = [sys.prefix, sys.base_prefix, *site.getsitepackages(), sysconfig.get_paths()["stdlib"],
               os.path.dirname(os.path.realpath(sys.executable)), os.path.dirname(package)]
    if site.ENABLE_USER_SITE and os.path.isdir(site.getusersitepackages()):
        folders.append(site.getusersitepackages())
    kept = []
    for folder in sorted({os.path.realpath(f) for f in folders} | set(folders), key=len):
        there = os.path.isdir(folder) and folder not in ("/", "/usr")
        if there and not any(folder.startswith(k + os.sep) for k in [*kept, "/usr"]):
            kept.append(folder)
    return kept


# One submission


def work(job):
    """Run the job's notebook and return what it shows, the verdict on each task, and how it ended.

    NoSandbox and WrongCourse are this machine's fault; whatever the notebook does ends in the result.
    """
    options = job["options"]
    kind = choose(options["image"], options["unsafe"])
    limits = {**LIMITS, **options["limits"]}
    started = time.monotonic()
    result = {"outputs": {}, "verdicts": {}, "ended": None, "where": None, "forged": 0, "undone": [], "denied": [],
              "sandbox": kind, "worker": f"{os.uname().nodename}:{os.getpid()}"}
    with tempfile.TemporaryDirectory(prefix="autodiff-grading-") as folder:
        script = os.path.join(folder, "inside.py")
        pathlib.Path(script).write_text(options["inside"], encoding="utf-8")
        os.chmod(script, 0o644)
        os.chmod(folder, 0o755)
        with _started(kind, options["image"], limits, script, folder) as (process, kill):
            ended = _talk(process, job, kind, limits, result)
            kill()
    if ended and not result["ended"]:
        result["ended"] = ended
    if not result.pop("ready", False):
        raise NoSandbox(f"the sandbox ({kind}) did not get as far as loading the course ({result['ended']})")
    result["seconds"] = round(time.monotonic() - started, 2)
    return result


@contextlib.contextmanager
def _started(kind, image, limits, script, folder):
    name = f"autodiff-grading-{secrets.token_hex(6)}"
    more, closing = {}, contextlib.ExitStack()
    if kind == "container":
        command = _container(image, limits, script, name)
    elif kind == UNSAFE:
        command = [sys.executable, "-s", "-P", script]
        own = {"HOME": folder, "PATH": os.environ.get("PATH", os.defpath)}
        more = {"env": {**environment(), **own}, "cwd": folder}
    else:
        filtered, more = closing.enter_context(refused())
        command = [*_bwrap(kind, limits, script), *filtered, sys.executable, "-s", "-P", "/inside.py"]
    with closing:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   start_new_session=True, **more)
    group = ControlGroup(name, limits, process.pid) if kind == "bwrap as root" else None

    def kill():
        # All in the sandbox end with it. By their numbers they must not be ended: a fork bomb uses up so many that a
        # number may be another process by then.
        process.kill()
        if kind == "container":
            subprocess.run([engine(), "rm", "--force", name], capture_output=True)

    try:
        yield process, kill
    finally:
        kill()
        process.stdin.close()
        process.stdout.close()
        process.wait()
        if group:
            group.remove()


def _talk(process, job, kind, limits, result):
    """Lead the conversation with `inside.py`; returns how it ended when that was not by its last word."""
    sent = {**limits, "processes": limits["processes"] + _processes_of_mine(kind)}
    _put(process, {"cells": job["cells"], "limits": sent})
    deadline = time.monotonic() + START + 3 * (limits["seconds"] + 15)
    kept, size, shown, looked = bytearray(), 0, 0, time.monotonic()
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while True:
            if ready.select(0.25):
                got = os.read(process.stdout.fileno(), 2**20)
                if not got:
                    return f"the sandbox ended before its last word (exit status {process.wait()})"
                size += len(got)
                kept += got
                if b"\n" not in got:
                    lines = []
                else:
                    *lines, rest = bytes(kept).split(b"\n")
                    kept = bytearray(rest)
                for line in lines:
                    message = json.loads(line)
                    if message["kind"] == "done":
                        result["cpu"] = message["cpu"]
                        return None
                    if message["kind"] == "shown":
                        _put(process, {"seeds": job["seeds"]})
                    if message["kind"] == "show":
                        shown += len(message["line"])
                    if shown <= SHOWN * limits["output"] or message["kind"] != "show":
                        _hear(message, job, result)
                if size > MOST:
                    return "output"
            now = time.monotonic()
            if now > deadline:
                return "time"
            if now > looked + 0.5:
                looked = now
                if memory_of(process.pid) > 1.5 * limits["memory"] + limits["processes"] * BASE:
                    return "memory"


def _put(process, message):
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()


def _hear(message, job, result):
    kind = message["kind"]
    if kind == "ready":
        result["ready"] = True
        if message["digest"] != job["options"]["digest"]:
            raise WrongCourse(f"{os.uname().nodename} has another version of the course: install there what is here")
    elif kind == "judged":
        result["forged"] += message["forged"]
        result["ended"] = result["ended"] or message["ended"]
    elif kind == "shown":
        result["shown"] = message["ended"]
    # These hold lines of a child, and so perhaps of the notebook, in any form.
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        if kind == "show":
            line = json.loads(message["line"])
            if line["what"] == "cell" and line["id"] in [cell["id"] for cell in job["cells"]]:
                result["outputs"][line["id"]] = line["outputs"]
        elif kind == "judge":
            _judged(message["line"], result)


def _judged(line, result):
    if line["what"] == "verdict":
        result["verdicts"][line["task"]] = line
    elif line["what"] == "begin":
        result["where"] = line["id"]
    elif line["what"] == "end":
        result["undone"] += line["undone"]
        result["denied"] += line["denied"]
    elif line["what"] == "broke":
        result["broke"], result["ended"] = line["text"], "broke"


def _processes_of_mine(kind):
    """Processes and threads that count towards the limit before the first of the sandbox starts.

    In a user namespace, a Linux before 5.14 counts those of the same user outside too.
    """
    if kind == "bwrap as root" or kind == "container":
        return 0
    mine, count = os.getuid(), 0
    for path in pathlib.Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                if path.stat().st_uid == mine:
                    count += len(os.listdir(path / "task"))
    return count


def descendants(root):
    """The processes that came from `root`, deepest first."""
    parents = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                text = pathlib.Path("/proc", name, "stat").read_text()
                parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(name))
    found, front = [], [root]
    while front:
        front = [child for pid in front for child in parents.get(pid, ())]
        found += front
    return found[::-1]


def memory_of(root):
    """Bytes in memory of all that came from `root`; what a child has from its parent is counted for both."""
    total = 0
    for pid in descendants(root):
        with contextlib.suppress(OSError, IndexError, ValueError):
            resident, shared = pathlib.Path("/proc", str(pid), "statm").read_text().split()[1:3]
            total += int(resident) - int(shared)
    return total * resource.getpagesize()


def end_with_parent(parent):
    """Let this worker process, and so its sandbox, end when `parent` does, however that ends."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


class ControlGroup:
    """A control group of Linux with a limit on memory and processes, where root may make one; else nothing."""

    def __init__(self, name, limits, pid):
        self.folders = []
        base = pathlib.Path("/sys/fs/cgroup")
        memory, count = str(int(limits["memory"] * 1.5) + 4 * BASE), str(limits["processes"] + 8)
        wanted = [(base / name, {"memory.max": memory, "memory.swap.max": "0", "pids.max": count})]
        if not (base / "cgroup.controllers").exists():
            wanted = [(base / "memory" / name, {"memory.limit_in_bytes": memory}),
                      (base / "pids" / name, {"pids.max": count})]
        for folder, values in wanted:
            with contextlib.suppress(OSError):
                folder.mkdir()
                self.folders.append(folder)
                for file, value in values.items():
                    if (folder / file).exists():
                        (folder / file).write_text(value)
                for process in [pid, *descendants(pid)]:
                    (folder / "cgroup.procs").write_text(str(process))

    def remove(self):
        for folder in self.folders:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.02)


