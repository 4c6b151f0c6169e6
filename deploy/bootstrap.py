"""Set up .venv in this repository: the engine, editable, and the extras asked for, at the versions that were tested.

    python deploy/bootstrap.py course test

Extras add up from run to run, and a run with nothing to do ends at once. An environment that is there is kept,
whichever Python runs this; with --same-python it is made again when it has another version. Making one needs Python
3.11 or newer with pip and venv, and nothing else. Any Python since 2.7 can read this file and say that it is too old.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time

OLDEST = (3, 11)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONSTRAINTS = os.path.join("deploy", "constraints.txt")
STAMP = "autodiff-setup.json"
LOG = "autodiff-setup.log"


class SetupError(Exception):
    """Its text is the one sentence a newcomer reads."""


def main(arguments):
    extras = [argument for argument in arguments if argument != "--same-python"] or ["course"]
    version = sys.version_info[:2] if "--same-python" in arguments else None
    try:
        set_up(ROOT, extras, version)
    except SetupError as error:
        sys.stderr.write("%s\n" % error)
        return 1
    except EnvironmentError as error:
        sys.stderr.write("The set-up stopped, because a file could not be read or written (%s).\n" % error)
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped. The next run starts this set-up again.\n")
        return 130
    return 0


def check_version(version, candidates=None):
    """Raise SetupError when `version` is too old, and name a newer Python of this machine when there is one."""
    if version[:2] >= OLDEST:
        return
    found = candidates if candidates is not None else newer_pythons()
    advice = "run make PYTHON=%s lab" % (found[0] if found else "python3.12")
    if not found:
        advice = "install a newer one (python.org, or your system's packages) and " + advice
    raise SetupError(
        "This course needs Python %d.%d or newer; this is %d.%d.%d: %s." % (OLDEST + version[:3] + (advice,))
    )


def newer_pythons():
    names = ["python3.%d" % minor for minor in range(OLDEST[1] + 4, OLDEST[1] - 1, -1)]
    return [name for name in names if runs(name)]


def runs(name):
    # A name on the PATH may be a wrapper for a Python that is not there.
    with open(os.devnull, "w") as nowhere:
        try:
            return subprocess.call([name, "-c", ""], stdout=nowhere, stderr=nowhere) == 0
        except OSError:
            return False


def set_up(root, extras, version=None):
    venv = os.path.join(root, ".venv")
    if is_ready(root, venv, extras, version):
        return
    check_version(tuple(sys.version_info))
    with lock(root):
        # Another run may have finished while this one waited.
        if not is_ready(root, venv, extras, version):
            install(root, venv, extras, version)


def is_ready(root, venv, extras, version):
    stamp = read_stamp(venv)
    return (
        is_usable(root, venv, stamp, version)
        and stamp.get("digest") == digest(root)
        and set(extras) <= set(stamp.get("extras", []))
    )


def is_usable(root, venv, stamp, version):
    """Whether the environment can be kept: not cut short, not moved, its Python still there and the one asked for."""
    return (
        stamp.get("state") == "ready"
        and stamp.get("root") == root
        and os.path.exists(python_of(venv))
        and version in (None, tuple(stamp.get("python", ())))
    )


def install(root, venv, extras, version=None):
    stamp = read_stamp(venv)
    known = known_extras(root)
    unknown = sorted(set(extras) - set(known))
    if unknown:
        raise SetupError("pyproject.toml has no extra named %s; it has: %s." % (", ".join(unknown), ", ".join(known)))
    if os.path.isdir(venv) and not stamp:
        raise SetupError(
            "The folder %s was not made by this script, so it is left as it is: move it away (or make clean), "
            "and run this again." % venv
        )
    usable = is_usable(root, venv, stamp, version)
    extras = sorted(set(extras) | (set(stamp.get("extras", [])) & set(known)))
    if stamp and not usable:
        say("The environment in .venv is not complete, was moved, or has another Python; making it again.")
    if not usable:
        remove(venv)
        os.makedirs(venv)
        python = list(sys.version_info[:2])
    else:
        python = stamp["python"]
    write_stamp(venv, state="installing", root=root, extras=extras)
    say("Setting up .venv with %s (the first time takes a minute or two) ..." % ", ".join(extras))
    started = time.time()
    if not usable:
        make_venv(venv)
    constraints = os.path.join(root, CONSTRAINTS)
    # setuptools first and no build isolation: else pip fetches an unpinned one for the build.
    pip_install(venv, "-c", constraints, "setuptools")
    pip_install(venv, "-c", constraints, "--no-build-isolation", "-e", "%s[%s]" % (root, ",".join(extras)))
    write_stamp(venv, state="ready", root=root, extras=extras, python=python, digest=digest(root))
    say("Ready after %d s." % (time.time() - started))


def make_venv(venv):
    import importlib.util

    package = "python%d.%d-venv" % sys.version_info[:2]
    sentence = (
        "This Python (%s) cannot make a virtual environment, because its %s module is missing: "
        "on Debian or Ubuntu run sudo apt install %s, then run this again."
    )
    for module in ("venv", "ensurepip"):
        # Debian's venv is in Python itself and its ensurepip in a package of its own.
        if importlib.util.find_spec(module) is None:
            raise SetupError(sentence % (sys.executable, module, package))
    # In an activated .venv this very Python was removed a moment ago; the one it came from is still there.
    command = [getattr(sys, "_base_executable", None) or sys.executable, "-m", "venv", venv]
    log = os.path.join(venv, LOG)
    if logged(command, log) != 0:
        raise SetupError("Python could not make the environment %s; what it said is in %s." % (venv, log))


def pip_install(venv, *arguments):
    log = os.path.join(venv, LOG)
    start = os.path.getsize(log) if os.path.exists(log) else 0
    # Only when it tries again does pip say that there is no network.
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--retries", "3"]
    if logged([python_of(venv), "-m", "pip", "install"] + options + list(arguments), log) == 0:
        return
    with open(log, errors="replace") as stream:
        stream.seek(start)
        said = stream.read()
    raise SetupError("%s pip's own words are in %s." % (reason(said), log))


def reason(said):
    """The one sentence for what pip said."""
    lowered = said.lower()
    if any(sign in lowered for sign in NO_NETWORK):
        return (
            "The package index could not be reached: this set-up needs the network once "
            "(check the connection, or the proxy or index in pip's settings), then run this again."
        )
    if "certificate_verify_failed" in lowered or "certificate verify failed" in lowered:
        return (
            "The package index answered with a certificate this Python does not trust: "
            "set the PIP_CERT variable to your network's certificate file, then run this again."
        )
    if "no space left on device" in lowered:
        return "The disk is full: free about 1 GB, then run this again."
    lines = [line.strip() for line in said.splitlines() if line.strip().lower().startswith("error:")]
    return "pip could not install the course (%s)." % (lines[-1] if lines else "it gave no reason")


NO_NETWORK = (
    "failed to establish a new connection",
    "newconnectionerror",
    "connecttimeout",
    "readtimeout",
    "connection timed out",
    "read timed out",
    "temporary failure in name resolution",
    "name or service not known",
    "nameresolutionerror",
    "getaddrinfo failed",
    "network is unreachable",
    "connection refused",
    "connection reset",
    "proxyerror",
    "cannot connect to proxy",
)


def logged(command, log):
    with open(log, "a") as stream:
        stream.write("$ %s\n" % " ".join(command))
        stream.flush()
        return subprocess.call(command, stdout=stream, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def python_of(venv):
    return os.path.join(venv, "Scripts", "python.exe") if os.name == "nt" else os.path.join(venv, "bin", "python")


def digest(root):
    found = hashlib.sha256()
    for name in ("pyproject.toml", CONSTRAINTS):
        with open(os.path.join(root, name), "rb") as stream:
            # A checkout may turn line ends around.
            found.update(stream.read().replace(b"\r\n", b"\n"))
    return found.hexdigest()


def known_extras(root):
    import tomllib

    with open(os.path.join(root, "pyproject.toml"), "rb") as stream:
        return sorted(tomllib.load(stream)["project"]["optional-dependencies"])


def read_stamp(venv):
    try:
        with open(os.path.join(venv, STAMP)) as stream:
            stamp = json.load(stream)
    except EnvironmentError:
        return {}
    except ValueError:
        # Cut short while it was written.
        return {"state": "unreadable"}
    return stamp if isinstance(stamp, dict) else {"state": "unreadable"}


def write_stamp(venv, **fields):
    path = os.path.join(venv, STAMP)
    with open(path + ".new", "w") as stream:
        json.dump(fields, stream, indent=1, sort_keys=True)
    os.replace(path + ".new", path)


def remove(venv):
    if not os.path.isdir(venv):
        return
    try:
        shutil.rmtree(venv)
    except OSError as error:
        raise SetupError(
            "%s is in use (%s): stop JupyterLab and close its notebooks, then run this again." % (venv, error)
        )


@contextlib.contextmanager
def lock(root):
    """One set-up at a time in this folder; the lock goes with the process, however that ends."""
    with open(os.path.join(root, "deploy", "bootstrap.py"), "rb+") as stream:
        if not try_lock(stream):
            say("Another set-up is running in this folder; waiting for it ...")
            while not try_lock(stream):
                time.sleep(0.5)
        yield


def try_lock(stream):
    try:
        if os.name == "nt":
            import msvcrt

            # A byte past the end, so that other readers of this file are not stopped.
            stream.seek(2**30)
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
