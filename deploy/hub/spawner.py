"""A student's server: a process of a system user of their own, in a folder that nobody else can read, within limits."""

import asyncio
import os
import resource
import subprocess

import users
from jupyterhub.spawner import LocalProcessSpawner, set_user_setuid
from traitlets import Integer


class StudentSpawner(LocalProcessSpawner):
    """Each limit holds for one process; the hub's host, container or pod bounds the sum."""

    megabytes = Integer(3000, config=True, help="Memory that one process may have.")
    processes = Integer(200, config=True, help="Processes and threads that one student may have.")
    file_megabytes = Integer(500, config=True, help="The largest file.")

    @property
    def system_user(self):
        user = users.find(self.user.name)
        if user is None:
            raise users.UserError(f"{self.user.name} has no system user: start the class server with a class list.")
        return user

    def user_env(self, env):
        user = self.system_user
        env["USER"] = user.pw_name
        env["HOME"] = user.pw_dir
        env["SHELL"] = "/bin/bash"
        env["JUPYTER_RUNTIME_DIR"] = f"{user.pw_dir}/.run"  # short, because the path of a socket may have 107 signs
        return env

    def load_state(self, state):
        """Nothing runs on from an earlier hub (start.py sees to that), and its number may be another process by now."""
        super().load_state({key: value for key, value in state.items() if key != "pid"})

    def make_preexec_fn(self, name):
        become = set_user_setuid(self.system_user.pw_name)
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
            # Opened as the student, so that nothing of root's can be put in its place.
            log = os.open(".server.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)

        return preexec

    async def start(self):
        self.popen_kwargs = {"stdin": subprocess.DEVNULL}  # nor do students hold the terminal that the hub runs in
        await self.end_all()
        return await super().start()

    async def stop(self, now=False):
        """With the server goes everything else that the student runs, also what was started to outlive it."""
        await super().stop(now)
        await self.end_all()

    async def end_all(self):
        await asyncio.to_thread(users.end_processes, self.system_user.pw_uid)
