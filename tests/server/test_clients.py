#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients that people have: the tools of Redis, redis-py and node-redis. script/test-clients runs more libraries."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
import unittest

import server

sys.path.insert(0, str(server.ROOT / "tests" / "clients"))
import story  # noqa: E402

CONFIG = """\
policies:
  - {name: api, limits: [2/h]}
  - {name: fast, limits: [100/s burst=5]}
"""


class Terminal:
    """A program in a terminal of its own, 150 columns wide."""

    def __init__(self, *line):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))  # or it asks the terminal
            os.execvpe(line[0], line, server.environment(TERM="xterm", HOME="/nowhere"))
        self.text = ""

    def type(self, text):
        os.write(self.file, text.encode())

    def expect(self, pattern):
        """Waits until it has shown this; gives the match and forgets all up to there."""
        deadline = time.monotonic() + server.PATIENCE
        while not (found := re.search(pattern, self.text)):
            if not select.select([self.file], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern!r} in {self.text!r}")
            try:
                self.text += os.read(self.file, 1 << 16).decode("utf-8", "replace")
            except OSError:  # it has ended
                raise AssertionError(f"no {pattern!r} at the end of {self.text!r}") from None
        self.text = self.text[found.end():]
        return found

    def end(self):
        os.close(self.file)
        try:
            os.kill(self.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)


class Tool(server.ServerTest):
    def setUp(self):
        self.weir = self.start(config=CONFIG)

    def run_tool(self, name, *arguments, text=""):
        return subprocess.run([name, "-p", str(self.weir.port), *arguments], input=text, capture_output=True, text=True,
                              env=server.environment(), timeout=server.PATIENCE)

    def say(self, name, *arguments, text=""):
        done = self.run_tool(name, *arguments, text=text)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def terminal(self, *arguments):
        terminal = Terminal("redis-cli", "-p", str(self.weir.port), *arguments)
        self.addCleanup(terminal.end)
        return terminal


class RedisCli(Tool):
    def test_version_2(self):
        self.assertRegex(self.say("redis-cli", "--no-raw", "WEIR.TAKE", "api", "k"), textwrap.dedent(r"""
            \A 1\) "allowed"
             2\) \(integer\) 1
             3\) "remaining"
             4\) \(integer\) 1
             5\) "retry_after_ms"
             6\) \(integer\) 0
             7\) "reset_after_ms"
             8\) \(integer\) 1800000
             9\) "limit"
            10\) "2/h"
            11\) "reason"
            12\) "ok"
            \Z""").lstrip())

    def test_version_3(self):
        self.assertEqual(self.say("redis-cli", "-3", "--no-raw", "WEIR.TAKE", "api", "k", "3"),
                         '1# "allowed" => (false)\n2# "remaining" => (integer) 2\n3# "retry_after_ms" => (integer) -1\n'
                         '4# "reset_after_ms" => (integer) 0\n5# "limit" => "2/h"\n6# "reason" => "never"\n')

    def test_errors(self):
        done = self.run_tool("redis-cli", "-e", "WEIR.TAKE", "ap", "k")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ERR no policy 'ap'; did you mean 'api'? (WEIR.POLICY LIST)", done.stdout + done.stderr)

    def test_acquire_waits(self):
        for _ in range(7):
            self.assertIn("allowed (true)", self.say("redis-cli", "-3", "WEIR.ACQUIRE", "fast", "k"))

    def test_script_of_commands(self):
        replies = self.say("redis-cli", text="WEIR.POLICY SET many 1000/d\nWEIR.CHARGE many k 7\nINFO weir\n")
        self.assertTrue(replies.startswith("OK\nOK\n# Weir"), replies)

    def test_pipe(self):
        takes = "".join("*3\r\n$9\r\nWEIR.TAKE\r\n$3\r\napi\r\n$%d\r\n%s\r\n" % (len(key), key)
                        for key in (f"user:{i % 50}" for i in range(5000)))
        self.assertIn("errors: 0, replies: 5000\n", self.say("redis-cli", "--pipe", text=takes))
        with self.weir.connect(version=3) as client:
            policy = client.ask("WEIR.POLICY", "SHOW", "api")
        self.assertEqual((policy["allowed"], policy["refused"], policy["errors"]), (100, 4900, 0))

    def test_pipe_with_an_error(self):
        done = self.run_tool("redis-cli", "--pipe", text="PING\r\nWEIR.TAKE nosuch k\r\n")
        self.assertIn("errors: 1, replies: 2\n", done.stdout)

    def test_stat(self):
        terminal = self.terminal("--stat", "-i", "0.1")
        terminal.expect(r"keys +mem +clients +blocked +requests +connections")
        for _ in range(2):
            terminal.expect(r"\n0 +\d+\.\d\d[KMG] +1 +0 +\d+ \(\+\d+\) +\d+ +\r")

    def test_latency_and_big_keys_have_an_answer(self):
        self.assertRegex(self.run_tool("redis-cli", "LATENCY", "LATEST").stdout, r"\A\s*\Z")
        self.assertEqual(self.say("redis-cli", "DBSIZE"), "0\n")


class Interactive(Tool):
    """What redis-cli shows while somebody types comes from COMMAND DOCS."""

    def setUp(self):
        super().setUp()
        self.cli = self.terminal("-3")
        self.cli.expect(r"127\.0\.0\.1:\d+> ")

    def test_hints(self):
        self.cli.type("WEIR.TAKE ")
        self.cli.expect(re.escape("WEIR.TAKE ") + r".*policy key \[n\] \[AND policy key \[n\]")
        self.cli.type("api k\r")
        self.cli.expect(r'1# "allowed" => \(true\)')

    def test_completion(self):
        self.cli.type("weir.acq\t")
        self.cli.expect(r"WEIR\.ACQUIRE")

    def test_help_of_a_command(self):
        self.cli.type("help WEIR.TAKE\r")
        self.cli.expect(r"\n +\S*WEIR\.TAKE\S* \S*policy key \[n\] \[AND policy key \[n\]")
        self.cli.expect(r"summary:\S* [A-Z].{20,}")
        self.cli.expect(r"since:\S* \d")
        self.cli.expect(r"group:\S* weir")

    def test_help_of_the_group(self):
        self.cli.type("help @weir\r")
        for name in ("WEIR.ACQUIRE", "WEIR.RESERVE", "WEIR.TAKE"):  # sorted
            self.assertIsNotNone(self.cli.expect(rf"{re.escape(name)}\S* "))

    def test_command_docs(self):
        self.cli.type("COMMAND DOCS weir.peek\r")
        self.cli.expect(r'"weir\.peek" => \s+1# "summary" => "')
        self.cli.expect(r'"arguments" =>')


class RedisBenchmark(Tool):
    REQUESTS = 20000

    def run_benchmark(self, *command):
        said = self.say("redis-benchmark", "-n", str(self.REQUESTS), "-P", "16", "-r", "1000", "-c", "20", "-q", *command)
        self.assertRegex(said, r"[\d.]+ requests per second")
        self.assertNotIn("WARN", said)
        with self.weir.connect(version=3) as client:
            return client.ask("WEIR.POLICY", "SHOW", "api"), client.ask("INFO", "all")

    def count(self, info, pattern):
        return int(re.search(pattern, info).group(1))

    def test_take(self):
        policy, info = self.run_benchmark("WEIR.TAKE", "api", "user:__rand_int__")
        self.assertEqual(policy["allowed"] + policy["refused"], self.REQUESTS)
        self.assertEqual(policy["allowed"], policy["units"])
        self.assertTrue(1900 < policy["allowed"] <= 2000, policy)  # two for each key, and each came about 20 times
        self.assertEqual(policy["errors"], 0)
        self.assertEqual(self.count(info, r"cmdstat_weir\.take:calls=(\d+),"), self.REQUESTS)
        self.assertEqual(self.count(info, r"total_error_replies:(\d+)"), 0)

    def test_throttle(self):
        _, info = self.run_benchmark("CL.THROTTLE", "user:__rand_int__", "15", "30", "60")
        self.assertEqual(self.count(info, r"cmdstat_cl\.throttle:calls=(\d+),"), self.REQUESTS)
        self.assertEqual(self.count(info, r"cmdstat_cl\.throttle:.*failed_calls=(\d+)"), 0)
        self.assertEqual(self.count(info, r"total_error_replies:(\d+)"), 0)

    def test_an_error_stops_it(self):
        done = self.run_tool("redis-benchmark", "-n", "100", "-q", "WEIR.TAKE", "nosuch", "k")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ERR no policy 'nosuch'", done.stdout + done.stderr)

    def test_its_own_tests_that_weir_can_answer(self):
        said = self.say("redis-benchmark", "-n", "1000", "-q", "-t", "ping")
        self.assertIn("PING_MBULK:", said)


class Libraries(unittest.TestCase):
    """The programs of tests/clients; their libraries are fetched if they are not there."""

    def tell(self, name):
        done = subprocess.run([server.ROOT / "script" / "clients-setup", name], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(story.run(name), "")

    def test_redis_py(self):
        self.tell("redis-py")

    def test_node_redis(self):
        self.tell("node-redis")

    def test_requests(self):
        self.tell("requests")

    def test_fetch(self):
        self.tell("fetch")


class Curl(server.ServerTest):
    """curl has its own ideas of uploads, versions and retries."""

    def setUp(self):
        self.weir = self.start(config=CONFIG, also=("http",))
        self.base = f"http://127.0.0.1:{self.weir.ports['http']}"

    def curl(self, *arguments, text=""):
        done = subprocess.run(["curl", "-sS", *arguments], input=text, capture_output=True, text=True,
                              env=server.environment(), timeout=server.PATIENCE)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_one_connection_for_many(self):
        said = self.curl("-w", "\n%{http_code} %{num_connects}\n", *[f"{self.base}/v1/take/api/k"] * 3)
        said = re.findall(r"^(\d+) (\d+)$", said, re.M)
        self.assertEqual(said, [("200", "1"), ("200", "0"), ("429", "0")])

    def test_text_for_people(self):
        self.assertEqual(self.curl("-H", "Accept: text/plain", f"{self.base}/v1/take/api/k"), "allowed; 1 left\n")

    def test_fail_is_for_refusals(self):
        self.curl(f"{self.base}/v1/take/api/k?n=2")
        done = subprocess.run(["curl", "-sf", f"{self.base}/v1/take/api/k"], capture_output=True, env=server.environment())
        self.assertEqual(done.returncode, 22)

    def test_uploads(self):
        body = '{"policy":"api","key":"k"}'
        line = ["-H", "Content-Type: application/json", "--data-binary", "@-", f"{self.base}/v1/take"]
        self.assertIn('"remaining":1', self.curl(*line, text=body))
        self.assertIn('"remaining":0', self.curl("-H", "Transfer-Encoding: chunked", *line, text=body))
        self.assertIn('"reason":"later"', self.curl("-H", "Expect: 100-continue", *line, text=body))
        large = "[" + " " * 900_000 + "]"  # it asks before it sends so much
        self.assertIn('"status":400', self.curl(*line, text=large))
        self.assertIn('"status":413', self.curl(*line, text=large + " " * 200_000))

    def test_other_versions(self):
        said = self.curl("--http1.0", "-i", f"{self.base}/v1/take/api/k")
        self.assertIn("\nConnection: close\n", said)  # text mode makes CRLF one
        said = self.curl("--http2", "-i", f"{self.base}/v1/take/api/k")  # offers an upgrade, which may be ignored
        self.assertTrue(said.startswith("HTTP/1.1 200 OK\n"), said)

    def test_head(self):
        self.assertIn("HTTP/1.1 200 OK", self.curl("-I", f"{self.base}/livez"))
        self.assertIn("Allow: GET", self.curl("-I", f"{self.base}/v1/take/api/k"))

    def test_it_retries_when_it_was_told(self):
        with self.weir.connect() as client:
            client.ask("WEIR.POLICY", "SET", "slow", "1/s")
        begin = time.monotonic()
        for _ in range(2):
            said = self.curl("--retry", "3", "-w", "\n%{http_code}", f"{self.base}/v1/take/slow/k")
            self.assertTrue(said.endswith("\n200"), said)
        self.assertGreaterEqual(time.monotonic() - begin, 1)

    def test_it_logs_in(self):
        weir = self.start(config=story.CONFIG, also=("http",))
        base = f"http://127.0.0.1:{weir.ports['http']}"
        for user, status in (("app:secret", "200"), ("app:wrong", "401"), ("default:open sesame", "200")):
            self.assertEqual(self.curl("-u", user, "-o", "/dev/null", "-w", "%{http_code}", f"{base}/v1/take/api/user:1"), status)


class Documents(unittest.TestCase):
    """docs/clients.md shows what the programs do, word for word."""
    PROGRAMS = {"redis-py": "redis_py.py", "node-redis": "node_redis.mjs", "ioredis": "io_redis.mjs",
                "go-redis": "go-redis/main.go", "Jedis": "jedis/Story.java", "Lettuce": "lettuce/Story.java",
                "redis-rs": "redis-rs/src/main.rs"}

    def test_examples(self):
        text = (server.ROOT / "docs" / "clients.md").read_text()
        seen = {}
        for part in re.split(r"^## ", text, flags=re.M)[1:]:
            name = part.split("\n", 1)[0]
            if name not in self.PROGRAMS:
                continue
            program = (story.HERE / self.PROGRAMS[name]).read_text()
            for block in re.findall(r"^```\w+\n(.*?)^```$", part, flags=re.M | re.S):
                for piece in block.strip("\n").split("\n\n"):
                    self.assertIn(flat(piece), flat(program), f"{name}: not in {self.PROGRAMS[name]}")
                    seen[name] = True
        self.assertEqual(set(seen), set(self.PROGRAMS))

    def test_versions(self):
        text = (server.ROOT / "docs" / "clients.md").read_text()
        for name, library in story.LIBRARIES.items():
            self.assertIn(f"| {library.version()} |", text, name)


def flat(text):
    """Without the indentation, which is another inside of a class."""
    return "\n".join(line.strip() for line in text.split("\n"))


if __name__ == "__main__":
    server.main()
