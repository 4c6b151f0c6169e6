"""Take in what students have changed: a folder that `make grade` takes, with STUDENT/EXERCISE.ipynb in it.

Of each home only the exercises are read that were handed out, with the rights of the student and through no link: what
a student may not read cannot be had this way, whatever stands in the place of a notebook.
"""

import contextlib
import errno
import os
import pathlib
import stat

import users

MOST = 20 * 2**20  # bytes of a notebook, as `make grade` takes them


class CollectError(Exception):
    """Its text is the sentence the teacher reads."""


def collect(folder, target):
    """Copy the changed exercises of the class server in `folder` into `target`; returns lines for the teacher."""
    target = target.resolve()
    if target == folder or folder in target.parents:
        raise CollectError(f"{target} is in the folder of the class server: name another one.")
    handed_out = {path.name: path.read_bytes() for path in sorted((folder / "course" / "exercises").glob("*.ipynb"))}
    found = users.of(folder / "homes")
    if not handed_out or not found:
        raise CollectError(f"There is no class server with students in {folder}: name its folder with --folder.")
    make(target)
    count, idle, lines = 0, [], []
    for user in sorted(found):
        student, before = pathlib.Path(user.pw_dir).name, count
        for name, untouched in handed_out.items():
            try:
                data = read(user, ("course", "exercises", name))
            except FileNotFoundError:
                continue
            except OSError as error:
                lines.append(f"not taken  {student}/{name}: {reason(error)}")
                continue
            if data != untouched:
                write(target / student / name, data)
                count += 1
        if count == before:
            idle.append(student)
    if idle:
        lines.append(f"Nothing was taken of {', '.join(idle)}.")
    lines.append(f"{count} changed exercises of {len(found) - len(idle)} students are in {target}. Next, without sudo:")
    return [*lines, f'    make grade SUBMISSIONS="{target}"']


def teacher():
    """The numbers of the user and the group behind sudo; root's own without it."""
    return int(os.environ.get("SUDO_UID", "0")), int(os.environ.get("SUDO_GID", "0"))


def make(place):
    """A folder that the teacher alone can enter."""
    if not place.parent.is_dir():
        raise CollectError(f"There is no folder {place.parent}: make it first.")
    if not place.exists():
        place.mkdir(mode=0o700)
        os.chown(place, *teacher())
    if place.stat().st_uid not in (0, teacher()[0]):
        raise CollectError(f"{place} is somebody else's: name another folder.")


def write(path, data):
    make(path.parent)
    draft = path.with_suffix(".new")
    with open(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as stream:
        stream.write(data)
        os.fchown(stream.fileno(), *teacher())
    os.replace(draft, path)


@contextlib.contextmanager
def as_user(user):
    """With the rights of this system user alone. Its own processes cannot reach this one, which stays root's."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(user.pw_gid)
    os.seteuid(user.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def read(user, names):
    """The bytes of a regular file below the home of this user; OSError where a link, a pipe or too much is there."""
    with as_user(user), contextlib.ExitStack() as opened:
        at = None
        for name in (user.pw_dir, *names):
            more = os.O_NONBLOCK if name == names[-1] else os.O_DIRECTORY
            at = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | more, dir_fd=at)
            opened.callback(os.close, at)
        if not stat.S_ISREG(os.fstat(at).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        with open(at, "rb", closefd=False) as stream:
            data = stream.read(MOST + 1)
        if len(data) > MOST:
            raise OSError(errno.EFBIG, f"it is larger than {MOST // 2**20} MB")
        return data


def reason(error):
    return "a link stands there" if error.errno in (errno.ELOOP, errno.ENOTDIR) else error.strerror
