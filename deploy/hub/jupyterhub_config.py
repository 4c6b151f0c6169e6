"""JupyterHub for one class on one machine. deploy/hub/start.py runs it; deploy/hub/README.md says how.

Closed as it stands: accounts are made from a class list, nobody can sign up, nobody is an administrator, and it listens
on this machine alone until it is told where else to (AUTODIFF_HUB_BIND), which needs a certificate or a reverse proxy
that has one.
"""

import os
import pathlib
import secrets
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import handout  # noqa: E402
from spawner import StudentSpawner  # noqa: E402

FOLDER = pathlib.Path(os.environ["AUTODIFF_HUB_FOLDER"])
STATE = FOLDER / "state"

c = get_config()  # noqa: F821  JupyterHub defines it

c.JupyterHub.bind_url = os.environ["AUTODIFF_HUB_BIND"]
c.JupyterHub.hub_port = int(os.environ["AUTODIFF_HUB_PORT"])
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{os.environ['AUTODIFF_HUB_PROXY_PORT']}"
c.ConfigurableHTTPProxy.pid_file = str(STATE / "proxy.pid")
c.ConfigurableHTTPProxy.command = [os.environ["AUTODIFF_HUB_PROXY"]]
c.JupyterHub.db_url = f"sqlite:///{STATE / 'hub.sqlite'}"
c.JupyterHub.upgrade_db = True
c.JupyterHub.cookie_secret = secrets.token_bytes(32)  # a start logs everybody out
if certificate := os.environ.get("AUTODIFF_HUB_CERTIFICATE"):
    c.JupyterHub.ssl_cert, c.JupyterHub.ssl_key = certificate, os.environ["AUTODIFF_HUB_KEY"]

# Who may come in

c.JupyterHub.authenticator_class = "native"
c.NativeAuthenticator.enable_signup = False
c.NativeAuthenticator.open_signup = False
c.NativeAuthenticator.minimum_password_length = 10
c.NativeAuthenticator.check_common_password = True
c.NativeAuthenticator.allowed_failed_logins = 5
c.NativeAuthenticator.seconds_before_next_try = 300
c.Authenticator.allow_all = True  # that is: everybody who has an account, and only the teacher makes accounts
# Students' servers share the hub's address, so a page of theirs could act for whoever looks at it: nobody is an
# administrator here, and the teacher's commands are those of start.py.
c.Authenticator.admin_users = set()
c.JupyterHub.admin_access = False

# Where they come in: the list of lessons, with a link to each

c.JupyterHub.default_url = "/hub/home"
c.JupyterHub.template_paths = [str(HERE / "templates")]
c.JupyterHub.template_vars = {"course": handout.contents(FOLDER / "course")}

# A server for each student

c.JupyterHub.spawner_class = StudentSpawner
c.Spawner.cmd = [str(pathlib.Path(sys.executable).parent / "jupyterhub-singleuser")]
c.Spawner.default_url = "/lab"
c.Spawner.disable_user_config = True
c.Spawner.args = [
    "--FileContentsManager.pre_save_hook=autodiff.widgets.keep_pictures",
    "--ServerApp.terminals_enabled=False",
    # Sockets in the student's own folder: of thirty kernels that choose five ports each at once, some choose the same.
    "--KernelManager.transport=ipc",
]
# With the defaults (30 s) most of a class that logs in at once fails to start: all of them share the processors.
c.Spawner.start_timeout = c.Spawner.http_timeout = 180
c.JupyterHub.concurrent_spawn_limit = 60
c.Spawner.environment = {
    "PATH": f"{pathlib.Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
    # One thread for each student's arithmetic: thirty kernels with a thread for every core slow each other down.
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    # It says that the course may be cloned although its folder belongs to another user.
    "GIT_CONFIG_SYSTEM": str(FOLDER / "gitconfig"),
}
c.Spawner.env_keep = ["LANG", "LC_ALL"]

# A server that nobody has used for an hour is stopped; its files stay.
idle = int(os.environ.get("AUTODIFF_HUB_IDLE", "3600"))
c.JupyterHub.load_roles = [{
    "name": "idle-culler",
    "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
    "services": ["idle-culler"],
}]
c.JupyterHub.services = [{
    "name": "idle-culler",
    "command": [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={idle}",
                f"--cull-every={min(idle, 300)}"],
    "environment": {"AUTODIFF_HUB_FOLDER": str(FOLDER)},  # the sign by which start.py knows what a crash has left
}]
