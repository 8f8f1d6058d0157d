#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the documents tell about the server is so: their commands are run on a real one and print what stands below.

Each document is one session from its top to its end, on a server of its own whose clock stands at 0. `weir` and
`redis-cli` are the real ones, led to the port of that server; `…` stands for anything. Numbers of reservations differ
from run to run; the document's is replaced by the one that the server gave.
"""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import server

sys.path.insert(0, str(server.ROOT / "tests" / "cli"))
from test_readme import displays, sessions  # noqa: E402

CLI = shutil.which("redis-cli")
CONFIG = "examples/server/weir.yaml"
PORT = "9049"
MADE_UP = "5f3a-1"  # the reservation that documents speak of
PYTHON = server.ROOT / "build" / "clients" / "python" / "bin" / "python3"

REDIS_CLI = """#!/bin/sh
exec {cli} --no-raw "$@"
"""
WEIR = """#!/bin/sh
WEIR_URL=redis://127.0.0.1:{port} exec {weir} "$@"
"""


def read(name):
    return (server.ROOT / name).read_text(encoding="utf-8")


def as_pattern(text):
    """`…` stands for anything within its line."""
    return re.compile(".*".join(map(re.escape, text.split("…"))) + r"\Z")


class Session:
    """A shell in the project's folder, whose commands find this server at the usual port."""

    def __init__(self, weir, names=None):
        """`names`: what documents say instead of something that is different here."""
        self.port = str(weir.port)
        self.names = names or {}
        self.folder = tempfile.TemporaryDirectory(prefix="weir-")
        self.write("redis-cli", REDIS_CLI.format(cli=CLI))
        self.write("weir", WEIR.format(port=self.port, weir=server.WEIR))
        self.number = MADE_UP

    def write(self, name, text):
        path = pathlib.Path(self.folder.name, name)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def run(self, command):
        command = command.replace(f"-p {PORT}", f"-p {self.port}").replace(MADE_UP, self.number)
        for shown, real in self.names.items():
            command = command.replace(shown, real)
        path = self.folder.name + os.pathsep + os.environ["PATH"]
        done = subprocess.run(["sh", "-c", command], cwd=server.ROOT, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=server.PATIENCE,
                              env=server.environment(PATH=path, COLUMNS="120"))
        if given := re.search(r'"id"(?: => |:)"([0-9a-f]+-\d+)"', done.stdout):
            self.number = given.group(1)
        output = done.stdout.replace(self.number, MADE_UP)
        for shown, real in self.names.items():
            output = output.replace(real, shown)
        return output.replace(f":{self.port}", f":{PORT}")

    def close(self):
        self.folder.cleanup()


@unittest.skipUnless(CLI, "there is no redis-cli")
class Documents(server.ServerTest):
    def session(self, *arguments, config=None):
        weir = self.start("--test-clock", *arguments, config=config, also=("http",))
        shell = Session(weir, {"localhost:9050": f"127.0.0.1:{weir.ports['http']}"})
        self.addCleanup(shell.close)
        return shell

    def check(self, name, least, config=None):
        """Runs what asks a server, in its order."""
        shell = self.session("--config", str(server.ROOT / CONFIG)) if config is None else self.session(config=config)
        asks = [(command, output) for command, output in sessions(read(name))
                if re.match(r"redis-cli |curl |weir (?!serve|spec|sim|bench)", command)]
        self.assertGreaterEqual(len(asks), least)
        for command, output in asks:
            with self.subTest(f"{name}: {command}"):
                got = re.sub(r" +$", "", shell.run(command), flags=re.M)
                got += "\n" if got and not got.endswith("\n") else ""
                if not as_pattern(output).match(got):
                    self.assertEqual(got, output)

    def test_the_readme(self):
        self.check("README.md", 4, config="")

    def test_the_tutorial(self):
        self.check("docs/server.md", 20)

    def test_http(self):
        self.check("docs/http.md", 5)

    def test_coming_from(self):
        self.check("docs/coming-from.md", 5, config="")

    def test_the_man_page(self):
        display = next(text for text in displays(read("man/weir.1")) if "weir serve" in text)
        shell = self.session()
        asks = list(sessions(re.sub("^", "    ", display, flags=re.M)))[1:]
        self.assertGreaterEqual(len(asks), 3)
        for command, output in asks:
            with self.subTest(command):
                self.assertEqual(shell.run(command), re.sub(r"^ +\Z", "", output))

    def test_the_story_on_a_terminal(self):
        """What start-up says to a person."""
        shown = dict(sessions(read("docs/server.md")))[f"weir serve --config {CONFIG}"]
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(server.ROOT)
            os.execve(server.WEIR, ["weir", "serve", "--config", CONFIG, "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"],
                      server.environment())
        try:
            text, deadline = "", time.monotonic() + server.PATIENCE
            while not re.search(r"WEIR\.TAKE.*\n", text) and select.select([terminal], [], [], deadline - time.monotonic())[0]:
                text += os.read(terminal, 1 << 16).decode()
        finally:
            os.kill(pid, 15)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
            os.close(terminal)
        port, http = re.search(r"127\.0\.0\.1:(\d+), http 127\.0\.0\.1:(\d+)", text).groups()
        self.assertEqual(text.replace("\r", "").replace(port, PORT).replace(http, "9050"), shown)


@unittest.skipUnless(CLI, "there is no redis-cli")
class Operations(server.ServerTest):
    """docs/operations.md, with a data directory, and another server to which keys move."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-")
        self.addCleanup(folder.cleanup)
        self.data, self.srv = (os.path.join(folder.name, name) for name in ("data", "srv"))
        os.mkdir(self.srv)

    def serve(self, command):
        """A server that a document starts: it comes up, and ends well. Its clock is that of the others."""
        weir = self.start("--test-clock", *command.replace("/srv/", self.srv + "/").split()[2:])
        weir.stop()

    def test_all_of_it(self):
        weir = self.start("--test-clock", "--data", self.data, config=read(CONFIG))
        other = self.start("--test-clock", "--data", os.path.join(self.srv, "other"))
        shell = Session(weir, {"redis://10.0.0.2:9049": other.url(), "redis://127.0.0.1:9049": weir.url(),
                               "/var/lib/weir": self.data, "/srv/": self.srv + "/"})
        self.addCleanup(shell.close)
        asks = list(sessions(read("docs/operations.md")))
        self.assertGreaterEqual(len(asks), 20)
        for command, output in asks:
            with self.subTest(command):
                if command.startswith("weir serve"):
                    self.serve(command)
                    continue
                got = re.sub(r"[ \r]+$", "", shell.run(command), flags=re.M)
                if not as_pattern(re.sub(r" +$", "", output, flags=re.M)).match(got):
                    self.assertEqual(got, output)

    def test_every_field_of_info_is_told_of(self):
        told = set(re.findall(r"`((?:store|recovered|retired)_?[a-z_]*)`", read("docs/operations.md")))
        weir = self.start("--data", self.data)
        with weir.connect() as client:
            info = client.ask("INFO", "persistence")
        self.assertEqual(told, {line.split(":")[0] for line in info.splitlines()
                                if re.match("(store|recovered|retired)(_|:)", line)})

    def test_every_line_of_the_log_is_one_that_is_written(self):
        source = "".join(path.read_text(encoding="utf-8") for folder in ("service", "server", "cli")
                         for path in sorted((server.ROOT / "src" / folder).rglob("*.c")))
        events = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", read("docs/operations.md"))) - {"token-bucket"}
        self.assertGreaterEqual(len(events), 9)
        for event in events:
            self.assertIn(f'"{event}"', source, event)


class Configurations(unittest.TestCase):
    """Every weir.yaml that is shown can be used."""

    def check(self, path):
        done = subprocess.run([server.WEIR, "check", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=server.environment(WEIR_URL="redis://127.0.0.1:1"))
        self.assertEqual((done.returncode, done.stdout.splitlines()[1:2][0][:12]), (0, "not compared"), done.stdout)

    def test_the_examples(self):
        self.check(server.ROOT / CONFIG)
        self.check(server.ROOT / "dist/weir.yaml")

    def test_the_documents(self):
        policies = "policies: [{name: api, limits: 5/s}, {name: login, limits: 5/m}]\n"
        for name, more in [("README.md", ""), ("docs/server.md", policies)]:
            blocks = re.findall(r"^```yaml\n(.*?)^```", read(name), re.M | re.S)
            self.assertGreaterEqual(len(blocks), 1)
            for block in blocks:
                with tempfile.TemporaryDirectory(prefix="weir-") as folder:
                    pathlib.Path(folder, "app.password").write_text("secret\n", encoding="utf-8")
                    path = pathlib.Path(folder, "weir.yaml")
                    has_policies = re.search("^policies:", block, re.M)
                    path.write_text(block + ("" if has_policies else more), encoding="utf-8")
                    self.check(path)


class AskingProgram(server.ServerTest):
    """examples/server/ask.py, by redis-py: it is refused, and it has a rule for when nobody answers."""

    @classmethod
    def setUpClass(cls):
        done = subprocess.run([server.ROOT / "script" / "clients-setup", "redis-py"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise AssertionError(done.stdout)

    def ask(self, url):
        done = subprocess.run([PYTHON, server.ROOT / "examples/server/ask.py"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=server.environment(WEIR_URL=url),
                              timeout=server.PATIENCE)
        return done.stdout.splitlines()

    ALONE = [f"attempt {i}: 429, Retry-After: 1" for i in range(1, 8)]

    def test_it_is_refused(self):
        for _ in range(20):  # it gives a server 50 ms, which may be short on a busy machine
            weir = self.start("--test-clock", config=read(CONFIG))  # the one that it says it is for
            said = self.ask(weir.url())
            if said != self.ALONE:
                break
        self.assertEqual(said, ["attempt 1: go on"] + self.ALONE[1:])

    def test_nobody_answers(self):
        self.assertEqual(self.ask("redis://127.0.0.1:1"), self.ALONE)

    def test_a_server_that_cannot_decide_counts_as_away(self):
        """Its data directory is gone, so it answers UNAVAILABLE; a mistake of the caller is raised all the same."""
        program = """if True:
            import time, ask
            ask.DEADLINE = 20  # the machine may be busy
            for policy, is_open in (("api", True), ("api", False), ("nosuch", True)):
                ask.Limit.away_until = 0
                try:
                    print(ask.Limit(policy, is_open).take("user:42")[0], ask.Limit.away_until > 0)
                except ask.redis.ResponseError as error:
                    print(str(error).split(";")[0])"""
        folder = tempfile.TemporaryDirectory(prefix="weir-ask-")
        self.addCleanup(folder.cleanup)
        data = os.path.join(folder.name, "data")
        weir = self.start("--data", data, config="policies: [{name: api, limits: 5/s}]")
        os.rename(data, data + ".away")
        weir.wait_line("event=store-ill")
        done = subprocess.run([PYTHON, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              cwd=server.ROOT / "examples/server", timeout=server.PATIENCE,
                              env=server.environment(WEIR_URL=weir.url(), PYTHONDONTWRITEBYTECODE="1"))
        os.rename(data + ".away", data)
        weir.wait_line("event=store-well")
        self.assertEqual(done.stdout.splitlines(), ["True True", "False True", "no policy 'nosuch' "
                                                    "(WEIR.POLICY LIST shows them, WEIR.POLICY SET name limits makes one)"])


if __name__ == "__main__":
    server.main()
