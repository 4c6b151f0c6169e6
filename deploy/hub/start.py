"""Set up and start a class server on this machine: JupyterHub, one account and one private folder for each student.

    sudo python3 deploy/hub/start.py --students class.txt

What it needs: Linux, root (each student becomes a system user), git, npm (for JupyterHub's proxy), and a Python 3.11 or
newer that every user can read, such as /usr/bin/python3. Everything goes into one folder, /srv/autodiff unless --folder
names another; --remove takes the folder and the system users away again. A second start keeps accounts and work.
"""

import argparse
import os
import pathlib
import pwd
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROXY = "configurable-http-proxy@5.3.0"


class StartError(Exception):
    """Its text is the sentence the teacher reads."""


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/srv/autodiff"))
    parser.add_argument("--students", type=pathlib.Path, help="a file with one user name a line")
    parser.add_argument("--installed", action="store_true", help="use this Python and the proxy on the PATH")
    parser.add_argument("--set-up-only", action="store_true", help="do not start the server")
    parser.add_argument("--remove", action="store_true", help="remove the folder, with all work in it, and the users")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    try:
        check_machine(sys.base_prefix, options.installed)
        if options.remove:
            return remove(folder)
        if options.students and not options.students.is_file():
            raise StartError(f"There is no file {options.students}: name a file with one user name a line.")
        set_up(folder, options.installed)
        python = sys.executable if options.installed else str(folder / "venv" / "bin" / "python")
        environment = settings(folder)
        if options.students:
            add_students(folder, options.students, python, environment)
        if not options.set_up_only:
            os.chdir(folder)
            print(f"Starting the class server at {environment['AUTODIFF_HUB_BIND']}; Ctrl+C stops it.", flush=True)
            os.execve(python, [python, "-m", "jupyterhub", "-f", str(HERE / "jupyterhub_config.py")], environment)
    except StartError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def check_machine(base, installed=False):
    if sys.platform != "linux" or os.geteuid() != 0:
        raise StartError("The class server needs Linux and root, because each student becomes a system user: use sudo.")
    needed = [("git", "the course is handed out with it"), ("useradd", "each student becomes a system user")]
    if not installed:
        needed.append(("npm", "JupyterHub's proxy comes from it"))
    for program, reason in needed:
        if shutil.which(program) is None:
            raise StartError(f"There is no {program} on this machine, and {reason}: install it, then run this again.")
    for place in (pathlib.Path(base), *pathlib.Path(base).parents, ROOT, *ROOT.parents):
        if not place.stat().st_mode & 0o001:
            raise StartError(f"Students could not read {place}, and Python or the course is in it: run this with "
                             "/usr/bin/python3, from a copy of the course that everybody can read.")


def settings(folder):
    """The environment of the hub: what the caller has set goes before."""
    proxy = folder / "proxy" / "node_modules" / ".bin" / "configurable-http-proxy"
    if not proxy.exists():
        proxy = "configurable-http-proxy"
    defaults = {
        "AUTODIFF_HUB_FOLDER": str(folder),
        "AUTODIFF_HUB_BIND": "http://127.0.0.1:8000",
        "AUTODIFF_HUB_DB": f"sqlite:///{folder / 'state' / 'hub.sqlite'}",
        "AUTODIFF_HUB_PROXY": str(proxy),
    }
    return defaults | dict(os.environ)


def set_up(folder, installed=False):
    for name, mode in (("", 0o755), ("state", 0o700), ("homes", 0o711), ("proxy", 0o755)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        os.chmod(folder / name, mode)
    if not installed:
        install(folder)
    (folder / "gitconfig").write_text(f"[safe]\n\tdirectory = {folder / 'course'}\n"
                                      f"\tdirectory = {folder / 'course' / '.git'}\n")
    hand_out(folder / "course")


def install(folder):
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        print("Setting up: this takes a minute or two ...", flush=True)
        run([sys.executable, "-m", "venv", str(folder / "venv")])
    pins = ["-c", str(ROOT / "deploy" / "constraints.txt")]
    run([str(python), "-m", "pip", "install", "-q", *pins, "setuptools"])
    run([str(python), "-m", "pip", "install", "-q", *pins, "--no-build-isolation", f"{ROOT}[course,hub]"])
    if not (folder / "proxy" / "node_modules").exists():
        run(["npm", "install", "--prefix", str(folder / "proxy"), "--ignore-scripts", "--no-fund", "--no-audit",
             "--silent", PROXY])


def hand_out(course):
    """A repository with lessons and exercises alone, from which each student's copy is pulled; masters stay here."""
    course.mkdir(exist_ok=True)
    git = ["git", "-c", f"safe.directory={course}", "-C", str(course)]
    if not (course / ".git").exists():
        run([*git, "init", "-q", "-b", "main"])
    for name in ("notebooks", "exercises"):
        shutil.rmtree(course / name, ignore_errors=True)
        shutil.copytree(ROOT / name, course / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    run([*git, "add", "-A"])
    identity = ["-c", "user.name=course", "-c", "user.email=course@localhost"]
    if subprocess.run([*git, "diff", "--cached", "--quiet"]).returncode:
        run([*git, *identity, "commit", "-qm", "Hand out the course"])


def add_students(folder, listed, python, environment):
    passwords = folder / "state" / "passwords.csv"
    made = subprocess.run([python, str(HERE / "students.py"), str(listed)], env=environment, stdout=subprocess.PIPE,
                          text=True)
    if made.returncode:
        raise StartError("The class server was not started.")
    new = made.stdout.splitlines()[1:]
    if new:
        first = [] if passwords.exists() else ["name,password"]
        with open(os.open(passwords, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), "a") as stream:
            stream.write("\n".join([*first, *new]) + "\n")
        print(f"New passwords are in {passwords}: hand them out, then delete the file.", flush=True)


def remove(folder):
    if not (folder / "homes").is_dir():
        raise StartError(f"{folder} is not the folder of a class server, so it is left as it is.")
    for user in pwd.getpwall():
        if user.pw_name.startswith("ad-") and pathlib.Path(user.pw_dir).parent == folder / "homes":
            subprocess.run(["pkill", "-KILL", "-u", str(user.pw_uid)])
            run(["userdel", user.pw_name])
    shutil.rmtree(folder)
    print(f"Removed {folder} and its users.")
    return 0


def run(command):
    if subprocess.run(command).returncode:
        raise StartError(f"This command failed, and what it said is above: {' '.join(command)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
