"""The system users of a class: one for each student, with a folder that nobody else can read."""

import os
import pathlib
import pwd
import shutil
import signal
import stat
import subprocess
import time

PREFIX = "ad-"  # a student called root becomes ad-root
# Where every user may write; what a student left there goes with them.
SHARED = ("/tmp", "/var/tmp", "/dev/shm")


class UserError(Exception):
    """Its text is the sentence the teacher reads."""


def find(name):
    """The system user of this student, or None."""
    try:
        return pwd.getpwnam(PREFIX + name)
    except KeyError:
        return None


def of(homes):
    """The system users whose folders are in `homes`."""
    return [u for u in pwd.getpwall() if u.pw_name.startswith(PREFIX) and pathlib.Path(u.pw_dir).parent == homes]


def make(name, homes):
    """Make a student's system user and folder where they are missing.

    A folder that is there already, as in a container made anew, keeps its number, so that its files stay the student's.
    """
    home = homes / name
    user = find(name)
    if user is not None and user.pw_dir != str(home):
        raise UserError(f"This machine has a user {PREFIX}{name} already, with the folder {user.pw_dir}, so {name} "
                        "cannot have an account here: choose another name, or remove that user.")
    if user is None:
        command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", str(home),
                   "--shell", "/usr/sbin/nologin"]
        if home.exists() and not is_taken(home.stat().st_uid):
            command += ["--uid", str(home.stat().st_uid)]
        if subprocess.run([*command, PREFIX + name]).returncode:
            raise UserError(f"The system user {PREFIX}{name} could not be made; what useradd said is above.")
        user = find(name)
    if not home.exists():
        home.mkdir(mode=0o700)
    if home.stat().st_uid != user.pw_uid:
        subprocess.run(["chown", "-hR", f"{user.pw_uid}:{user.pw_gid}", str(home)], check=True)
    os.chmod(home, 0o700)


def is_taken(number):
    try:
        pwd.getpwuid(number)
    except KeyError:
        return False
    return True


def processes(number):
    """The ids of the processes of the system user with this number, but for those that have ended."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if entry.stat().st_uid == number and (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.append(int(entry.name))
        except OSError:  # it ended meanwhile
            continue
    return found


def end_processes(number, seconds=10):
    """End every process of this system user: one that starts others is stopped first, and cannot go on."""
    end = time.monotonic() + seconds
    while left := processes(number):
        for kind in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                try:
                    os.kill(pid, kind)
                except ProcessLookupError:
                    continue
        if time.monotonic() > end:
            raise UserError(f"These processes do not end: {', '.join(map(str, left))}.")
        time.sleep(0.02)


def remove(user):
    """End what this system user runs, and remove the user, the group, and what is left in folders that all share."""
    end_processes(user.pw_uid)
    for place in filter(os.path.isdir, SHARED):
        for entry in os.scandir(place):
            try:
                found = entry.stat(follow_symlinks=False)
                if found.st_uid == user.pw_uid:
                    shutil.rmtree(entry.path) if stat.S_ISDIR(found.st_mode) else os.unlink(entry.path)
            except FileNotFoundError:  # somebody else's, and gone meanwhile
                continue
    if subprocess.run(["userdel", user.pw_name]).returncode:
        raise UserError(f"The system user {user.pw_name} could not be removed; what userdel said is above.")
