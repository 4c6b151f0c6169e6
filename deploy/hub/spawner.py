"""A student's server: a process of a system user of their own, in a folder that nobody else can read, within limits."""

import os
import pathlib
import resource
import subprocess

from jupyterhub.spawner import LocalProcessSpawner, set_user_setuid
from traitlets import Integer, Unicode

PREFIX = "ad-"  # a student called root becomes ad-root


class StudentSpawner(LocalProcessSpawner):
    """Each limit holds for one process; the hub's host, container or pod bounds the sum."""

    homes = Unicode("/srv/autodiff/homes", config=True, help="The folder of the students' folders.")
    megabytes = Integer(3000, config=True, help="Memory that one process may have.")
    processes = Integer(200, config=True, help="Processes and threads that one student may have.")
    file_megabytes = Integer(500, config=True, help="The largest file.")

    @property
    def system_name(self):
        return PREFIX + self.user.name

    @property
    def home(self):
        return pathlib.Path(self.homes) / self.user.name

    def make_home(self):
        """The system user and the folder, made at the first start."""
        import pwd

        try:
            user = pwd.getpwnam(self.system_name)
        except KeyError:
            subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", str(self.home),
                            "--shell", "/usr/sbin/nologin", self.system_name], check=True)
            user = pwd.getpwnam(self.system_name)
        self.home.mkdir(mode=0o700, exist_ok=True)
        os.chown(self.home, user.pw_uid, user.pw_gid)
        os.chmod(self.home, 0o700)

    def user_env(self, env):
        env["USER"] = self.system_name
        env["HOME"] = str(self.home)
        env["SHELL"] = "/bin/bash"
        env["JUPYTER_RUNTIME_DIR"] = str(self.home / ".run")  # short, because the path of a socket may have 107 signs
        return env

    def make_preexec_fn(self, name):
        become = set_user_setuid(self.system_name)
        limits = [
            (resource.RLIMIT_DATA, self.megabytes * 2**20),
            (resource.RLIMIT_NPROC, self.processes),
            (resource.RLIMIT_FSIZE, self.file_megabytes * 2**20),
            (resource.RLIMIT_CORE, 0),
        ]

        def preexec():
            for limit, value in limits:
                resource.setrlimit(limit, (value, value))
            os.umask(0o077)
            become()

        return preexec

    async def start(self):
        self.make_home()
        return await super().start()
