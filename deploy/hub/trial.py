"""Try a class server: every student logs in at once, gets the course, runs lesson 01 and an exercise's check.

    /srv/autodiff/venv/bin/python deploy/hub/trial.py http://127.0.0.1:8000 passwords.csv [--lesson NAME]

Prints how long each part took, and what the students' processes use; exits with 1 when anything failed for anybody.
Also shown: a wrong password is refused, and one student can neither open another's server nor read their files.
"""

import argparse
import asyncio
import csv
import http.cookies
import json
import pathlib
import sys
import time
import urllib.parse
import uuid

import users
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClosedError, websocket_connect

LESSON = "notebooks/01_the_shared_node.ipynb"
CHECK = """
from autodiff.course import check
def mul_backward(node, g):
    a, b = node.inputs
    return [(a, g * b.value), (b, g * a.value)]
print(bool(check("02.b", mul_backward)), bool(check("02.b", lambda node, g: [])))
"""
LOOK = """
import os, pathlib
def reads(path):
    try:
        os.listdir(path)
        return True
    except OSError:
        return False
home = pathlib.Path.home()
print("own", reads(home), "another", reads(home.parent / {other!r}), "state", reads(home.parent.parent / "state"))
"""


class Refused(Exception):
    pass


class Student:
    """A browser with cookies of its own."""

    def __init__(self, url, name, password):
        self.url, self.name, self.password = url.rstrip("/"), name, password
        self.cookies = {}
        self.client = AsyncHTTPClient()
        self.took = {}

    def cookies_for(self, path):
        """{name: value} of the cookies that a browser sends there: hub and server each have an _xsrf of their own."""
        fitting = sorted((len(folder), name, value) for (name, folder), value in self.cookies.items()
                         if path.startswith(folder))
        return {name: value for _, name, value in fitting}

    async def ask(self, path, method="GET", body=None, form=None, timeout=300):
        cookies = self.cookies_for(path)
        headers = {"Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items()), "Referer": self.url + path,
                   "X-XSRFToken": cookies.get("_xsrf", "")}
        headers["Content-Type"] = "application/json" if form is None else "application/x-www-form-urlencoded"
        if form is not None:
            body = urllib.parse.urlencode(form)
        elif body is not None:
            body = json.dumps(body)
        elif method in ("POST", "PUT"):
            body = ""
        options = {"follow_redirects": False, "request_timeout": timeout, "connect_timeout": timeout}
        request = HTTPRequest(self.url + path, method=method, body=body, headers=headers, **options)
        answer = await self.client.fetch(request, raise_error=False)
        for line in answer.headers.get_list("Set-Cookie"):
            for key, morsel in http.cookies.SimpleCookie(line).items():
                self.cookies[key, morsel["path"] or "/"] = morsel.value
        if answer.code in (301, 302, 303) and method == "GET":
            target = urllib.parse.urlsplit(answer.headers["Location"])
            return await self.ask(target.path + ("?" + target.query if target.query else ""), timeout=timeout)
        return answer

    async def log_in(self):
        await self.ask("/hub/login")
        token = self.cookies_for("/hub/login").get("_xsrf", "")
        form = {"username": self.name, "password": self.password, "_xsrf": token}
        answer = await self.ask("/hub/login", "POST", form=form)
        if answer.code != 302:
            raise Refused(f"{self.name} was not let in (status {answer.code})")

    async def start(self):
        answer = await self.ask(f"/hub/api/users/{self.name}/server", "POST")
        while answer.code == 429:  # too many start at once: the page a browser shows says to try again, and so do we
            await asyncio.sleep(5)
            answer = await self.ask(f"/hub/api/users/{self.name}/server", "POST")
        if answer.code not in (201, 202) and b"already running" not in answer.body:
            raise Refused(f"the server of {self.name} was not started (status {answer.code}: {answer.body[:200]!r})")
        while True:
            state = json.loads((await self.ask(f"/hub/api/users/{self.name}")).body)
            if state.get("server"):
                break
            if not state.get("pending"):
                raise Refused(f"the server of {self.name} did not come up")
            await asyncio.sleep(1)
        await self.ask(f"/user/{self.name}/lab")  # the OAuth dance: now there are cookies for this server too

    async def stop(self):
        await self.ask(f"/hub/api/users/{self.name}/server", "DELETE")
        while True:
            state = json.loads((await self.ask(f"/hub/api/users/{self.name}")).body)
            if not state.get("server") and not state.get("pending"):
                break
            await asyncio.sleep(0.5)

    async def get_course(self, repository):
        query = urllib.parse.urlencode({"repo": repository, "targetpath": "course", "branch": "main"})
        answer = await self.ask(f"/user/{self.name}/git-pull/api?{query}")
        if b'"phase": "finished"' not in answer.body:
            raise Refused(f"{self.name} did not get the course: {answer.body[-300:]!r}")

    async def run(self, cells):
        """Run code in a new kernel of this student's server, and leave it open; returns what was printed."""
        base = f"/user/{self.name}/api"
        kernel = json.loads((await self.ask(f"{base}/kernels", "POST", body={"path": "course/notebooks"})).body)["id"]
        address = self.url.replace("http", "ws", 1) + f"{base}/kernels/{kernel}/channels"
        cookie = "; ".join(f"{k}={v}" for k, v in self.cookies_for(f"{base}/").items())
        async def connect():
            options = {"connect_timeout": 300, "request_timeout": 300}
            return await websocket_connect(HTTPRequest(address, headers={"Cookie": cookie}, **options))

        socket = await connect()
        for _ in range(5):  # a kernel that is slow to start closes it, and JupyterLab connects again, as is done here
            try:
                await socket.write_message(self.message("kernel_info_request", {})[1])
                if await asyncio.wait_for(socket.read_message(), 60) is not None:
                    break
            except (TimeoutError, WebSocketClosedError):
                pass
            await asyncio.sleep(2)
            socket = await connect()
        printed = []
        for code in cells:
            content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False,
                       "stop_on_error": True, "user_expressions": {}}
            asked, message = self.message("execute_request", content)
            await socket.write_message(message)
            while True:
                got = json.loads(await asyncio.wait_for(socket.read_message(), 300))
                if got["parent_header"].get("msg_id") != asked:
                    continue
                if got["msg_type"] == "stream":
                    printed.append(got["content"]["text"])
                elif got["msg_type"] == "error":
                    raise Refused(f"{self.name}: {got['content']['ename']}: {got['content']['evalue']}")
                elif got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                    break
        socket.close()
        return "".join(printed)

    @staticmethod
    def message(kind, content):
        """(id, text) of a message to a kernel."""
        header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "username": "", "session": "t", "version": "5.3"}
        whole = {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell", "buffers": []}
        return header["msg_id"], json.dumps(whole | {"content": content})

    async def lesson(self, name):
        answer = await self.ask(f"/user/{self.name}/api/contents/course/{name}")
        cells = json.loads(answer.body)["content"]["cells"]
        return await self.run([cell["source"] for cell in cells if cell["cell_type"] == "code"])

    async def timed(self, what, call):
        begin = time.monotonic()
        result = await call
        self.took[what] = time.monotonic() - begin
        return result


def memory_and_processor(names):
    """{kind: [processes, MB]} of these students' servers and kernels, and their seconds of processor.

    Memory that several processes share is divided among them.
    """
    numbers = {user.pw_uid for name in names if (user := users.find(name))}
    totals = {"server": [0, 0.0], "kernel": [0, 0.0]}
    seconds = 0.0
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            kind = "kernel" if b"ipykernel" in command else "server" if b"jupyterhub-singleuser" in command else None
            if kind is None or entry.stat().st_uid not in numbers:
                continue
            rollup = (entry / "smaps_rollup").read_text()
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        totals[kind][0] += 1
        totals[kind][1] += int(next(line for line in rollup.splitlines() if line.startswith("Pss:")).split()[1]) / 1024
        seconds += (int(fields[11]) + int(fields[12])) / 100
    return totals, seconds


async def trial(url, accounts, repository, lesson=LESSON, say=print):
    """Everything this file promises, for these (name, password) pairs; returns figures, and raises what went wrong."""
    AsyncHTTPClient.configure(None, max_clients=4 * len(accounts) + 10)
    wrong = Student(url, accounts[0][0], "not-the-password")
    try:
        await wrong.log_in()
    except Refused:
        pass
    else:
        raise AssertionError("a wrong password was let in")
    students = [Student(url, name, password) for name, password in accounts]
    for what, call in (("log in", lambda s: s.log_in()), ("start", lambda s: s.start()),
                       ("get the course", lambda s: s.get_course(repository)), ("lesson", lambda s: s.lesson(lesson)),
                       ("check", lambda s: s.run([CHECK]))):
        results = await asyncio.gather(*(s.timed(what, call(s)) for s in students), return_exceptions=True)
        failed = [r for r in results if isinstance(r, BaseException)]
        times = [s.took[what] for s in students if what in s.took]
        say(f"{what:16} {len(students) - len(failed)} of {len(students)}, the slowest in {max(times, default=0):.1f} s")
        if failed:
            raise failed[0]
        if what == "check":
            assert all(r.strip() == "True False" for r in results), results
    totals, seconds = memory_and_processor([name for name, _ in accounts])
    if len(students) > 1:
        first, second = students[:2]
        looked = await first.run([LOOK.format(other=second.name)])
        assert looked.strip() == "own True another False state False", looked
        answer = await first.ask(f"/user/{second.name}/api/contents")
        assert answer.code in (403, 404), f"another's server answered with {answer.code}"
    await asyncio.gather(*(s.stop() for s in students))
    return totals, seconds, students


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("passwords", type=pathlib.Path)
    parser.add_argument("--repository", default="file:///srv/autodiff/course")
    parser.add_argument("--lesson", default=LESSON)
    options = parser.parse_args(arguments)
    with open(options.passwords, encoding="utf-8") as stream:
        accounts = [(row["name"], row["password"]) for row in csv.DictReader(stream)]
    try:
        totals, seconds, _ = asyncio.run(trial(options.url, accounts, options.repository, options.lesson))
    except (Refused, AssertionError, HTTPClientError, OSError) as error:
        print(f"Failed: {error}")
        return 1
    for kind, (count, megabytes) in totals.items():
        if count:
            print(f"{kind}s: {count}, {megabytes / count:.0f} MB each (memory that is shared counts once)")
    print(f"processor: {seconds / len(accounts):.1f} s a student")
    print("A wrong password was refused; nobody could read another's files or server.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
