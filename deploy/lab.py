"""Open JupyterLab on the first lesson, with the whole repository in its file browser.

    python deploy/lab.py [--port N] [any option of `jupyter lab`]

Without --port it takes the first free port from 8888 on, and says so when that is another one.
"""

import argparse
import json
import os
import pathlib
import socket
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST_LESSON = "notebooks/00_start_here.ipynb"
USUAL_PORT = 8888
TRIED = 50
NOT_FOR_LEARNERS = ("@jupyter/nbgrader", "@jupyterlab/apputils-extension:announcements")


class PortTaken(Exception):
    """Its text is the sentence the user reads."""


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, help="use this port, and no other")
    options, passed_on = parser.parse_known_args(arguments)
    try:
        port = choose_port(options.port)
    except PortTaken as error:
        sys.stderr.write(f"{error}\n")
        return 1
    settle(pathlib.Path(sys.prefix))
    command = lab_command(port, passed_on)
    os.chdir(ROOT)
    if os.name == "nt":
        import subprocess

        # Windows has no exec that a terminal waits for.
        return subprocess.call(command)
    os.execv(command[0], command)


def settle(prefix):
    """In this environment alone: no news, no grader's buttons, and the glossary opens as a page, not as its source."""
    if not (prefix / "autodiff-setup.json").exists():  # somebody's own environment
        return
    off = {"disabledExtensions": dict.fromkeys(NOT_FOR_LEARNERS, True)}
    page = {"@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}}}
    for path, content in (("etc/jupyter/labconfig/page_config.json", off),
                          ("share/jupyter/lab/settings/overrides.json", page)):
        if not (prefix / path).exists():  # else it is somebody's own choice
            (prefix / path).parent.mkdir(parents=True, exist_ok=True)
            (prefix / path).write_text(json.dumps(content, indent=2))


def choose_port(asked):
    """The port to serve on: the one asked for, or the first free one."""
    if asked is not None:
        if not 0 < asked < 65536:
            raise PortTaken(f"Port {asked} does not exist: choose one from 1024 to 65535, as in make lab PORT=8890.")
        if not is_free(asked):
            other = first_free(asked + 1)
            raise PortTaken(f"Port {asked} is already taken: stop what uses it, or run make lab PORT={other}.")
        return asked
    port = first_free(USUAL_PORT)
    if port != USUAL_PORT:
        print(f"Port {USUAL_PORT} is already taken (another JupyterLab?), so this one uses {port}.", flush=True)
    return port


def first_free(start):
    tried = range(start, min(start + TRIED, 65536))
    for port in tried:
        if is_free(port):
            return port
    raise PortTaken(f"Ports {start} to {tried[-1]} are all taken: free one, or run make lab PORT=N with another N.")


def is_free(port):
    """Whether a server on this machine alone could listen on `port`."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if os.name != "nt":
                    # As the server does: a port that was in use a moment ago is free.
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address, port))
        except PermissionError:
            return False
        except OSError as error:
            if family == socket.AF_INET or error.errno in ADDRESS_IN_USE:
                return False
    return True


ADDRESS_IN_USE = (48, 98, 10048)


def lab_command(port, passed_on, root_user=None):
    if root_user is None:
        root_user = hasattr(os, "geteuid") and os.geteuid() == 0
    return [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url=/lab/tree/{FIRST_LESSON}",
        f"--port={port}",
        # The port was chosen here, so JupyterLab is not to move to another in silence.
        "--ServerApp.port_retries=0",
        # A notebook that is opened again shows the picture of a widget, and not "model not found".
        "--FileContentsManager.pre_save_hook=autodiff.widgets.keep_pictures",
        # JupyterLab refuses to run as root unless it is told to.
        *(["--allow-root"] if root_user else []),
        *passed_on,
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
