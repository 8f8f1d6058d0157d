# SPDX-License-Identifier: MIT
"""Runs the programs of this folder, one for each client library, against a server of their own.

Every program tells the same story, in version 3 and in version 2 of the protocol where its library has both:

    connect and log in as `default` by a password; PING
    WEIR.POLICY SET; WEIR.TAKE that is allowed, that is refused, that can never pass: every field
    CL.THROTTLE, RL.REDUCE
    a pipeline of 1000 WEIR.TAKE on a limit of 600: exactly 600 are allowed
    WEIR.ACQUIRE three times at 20/s: at least 100 ms
    an error that is answered; a password that is wrong: exceptions with the server's text
    log in as `app`, who may take for user:* and nothing else
    the example of docs/clients.md
    the server is stopped and started again: the same client goes on, logged in as before

Clients of HTTP tell one of their own, in HTTP_CLIENTS:

    PUT of a policy; takes that are allowed, refused with 429 and Retry-After, or can never pass; keys of any characters
    three waits of /v1/acquire: at least 100 ms; all of it so far on one connection
    a batch of 100, sent in chunks, on a limit of 60
    404, 405 with Allow, HEAD, 401 with a wrong password, 403 as `app`; where the library can: Expect
    the server is stopped and started again: the same client goes on

A program finds the port in $WEIR_PORT, or $WEIR_HTTP_PORT. It prints `restart` and waits for a line when the server is to be started again, and
`ok` at the end. Anything else, an exit status or a line of errors, is a failure.
"""

import os
import pathlib
import re
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "server"))
import server  # noqa: E402

BUILD = server.ROOT / "build" / "clients"
JAVA = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]
CONFIG = """\
policies:
  - {name: api, limits: [2/h]}
users:
  - {name: default, password: open sesame, may: all}
  - {name: app, password: secret, may: [look, take], keys: ["user:*"]}
"""


class Library:
    """A client library: how its program is run, and where its version is written down."""

    def __init__(self, command, manifest, version):
        self.command, self.manifest, self.pattern = [str(word) for word in command], manifest, version

    def version(self):
        return re.search(self.pattern, (HERE / self.manifest).read_text()).group(1)


LIBRARIES = {
    "redis-py": Library([BUILD / "python/bin/python3", HERE / "redis_py.py"], "requirements.txt", r"redis==(\S+)"),
    "node-redis": Library([BUILD / "node/bin/node", BUILD / "node/node_redis.mjs"], "package.json",
                          r'"redis": "([^"]+)"'),
    "ioredis": Library([BUILD / "node/bin/node", BUILD / "node/io_redis.mjs"], "package.json",
                       r'"ioredis": "([^"]+)"'),
    "go-redis": Library([BUILD / "go-redis/story"], "go-redis/go.mod", r"go-redis/v9 v(\S+)"),
    "jedis": Library(JAVA + [f"{BUILD}/jedis/classes:{BUILD}/jedis/jars/*", "Story"], "jedis/pom.xml",
                     r"<artifactId>jedis</artifactId>\s*<version>([^<]+)<"),
    "lettuce": Library(JAVA + [f"{BUILD}/lettuce/classes:{BUILD}/lettuce/jars/*", "Story"], "lettuce/pom.xml",
                       r"<artifactId>lettuce-core</artifactId>\s*<version>([^<]+)<"),
    "redis-rs": Library([BUILD / "redis-rs/target/debug/story"], "redis-rs/Cargo.toml", r'redis = .*"=([^"]+)"'),
}
HTTP_CLIENTS = {
    "requests": Library([BUILD / "python/bin/python3", HERE / "http_python.py", "requests"], "requirements.txt",
                        r"requests==(\S+)"),
    "httpx": Library([BUILD / "python/bin/python3", HERE / "http_python.py", "httpx"], "requirements.txt",
                     r"httpx==(\S+)"),
    "fetch": Library([BUILD / "node/bin/node", HERE / "fetch.mjs"], "fetch.mjs", r"(fetch) of Node"),
    "net-http": Library([BUILD / "net-http/story"], "net-http/go.mod", r"go (\S+)"),
}


def run(name, patience=60):
    """Tells the story; what is wrong, or "" if nothing is."""
    kind = "http" if name in HTTP_CLIENTS else "resp"
    weir = server.Server(config=CONFIG, also=("http",))
    program = None
    try:
        port = weir.port if kind == "resp" else weir.ports["http"]
        program = subprocess.Popen({**LIBRARIES, **HTTP_CLIENTS}[name].command, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, WEIR_PORT=str(port), WEIR_HTTP_PORT=str(port)))
        bell = threading.Timer(patience, program.kill)
        bell.start()
        try:
            said = program.stdout.readline()
            if said == "restart\n":
                weir.stop()
                weir = server.Server(f"--{kind}", f"127.0.0.1:{port}", config=CONFIG, tcp=None)
                said = ""
            rest, errors = program.communicate("\n")
        finally:
            bell.cancel()
        if program.returncode or said + rest != "ok\n" or errors:
            return f"exit status {program.returncode}, it said: {said + rest}{errors}"
        return ""
    except (AssertionError, OSError) as error:
        return str(error)
    finally:
        if program and program.poll() is None:
            program.kill()
            program.communicate()
        weir.stop()


def main(names):
    failed = False
    for name in names:
        wrong = run(name)
        failed = failed or wrong != ""
        print(f"{'FAILED' if wrong else 'ok':6} {name} {LIBRARIES.get(name, HTTP_CLIENTS.get(name)).version()}", flush=True)
        for line in wrong.splitlines():
            print("    " + line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [*LIBRARIES, *HTTP_CLIENTS]))
