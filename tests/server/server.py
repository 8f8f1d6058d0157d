# SPDX-License-Identifier: MIT
"""A real server on loopback, and a client that says any bytes and reads what comes back.

    class Take(server.ServerTest):
        def test_a_take(self):
            weir = self.start("--test-clock", config="policies: [{name: api, limits: 5/s}]")
            client = weir.connect(version=3)
            self.assertEqual(client.ask("WEIR.TAKE", "api", "k")["allowed"], True)

The command is $WEIR. Nothing here sleeps: starting and log lines are waited for.
"""

import fcntl
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEIR = os.environ.get("WEIR", str(ROOT / "build" / "release" / "weir"))
PATIENCE = float(os.environ.get("WEIR_PATIENCE", "60"))  # seconds until something counts as stuck


class Error(str):
    """An error that the server answered with, its code word first."""

    def __repr__(self):
        return f"Error({str.__repr__(self)})"


class Closed(Exception):
    """The server has closed the connection."""


class Client:
    """Says bytes, reads replies of both versions. Text is str; what is no UTF-8 comes as surrogates."""

    def __init__(self, address, version=2, user=None, password=None, tls=None, source=None, first=b""):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE)
        try:
            if source:
                self.socket.bind((source, 0))
            self.socket.connect(address)
            self.socket.sendall(first)  # before TLS
        except OSError:
            self.socket.close()
            raise
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            try:
                self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
            except OSError:
                self.socket.close()
                raise
        self.bytes = b""
        self.at = 0
        if version == 3 or password is not None:
            login = ["AUTH", user or "default", password] if password is not None else []
            try:
                hello = self.ask("HELLO", str(version), *login)
            except (Closed, OSError):
                self.close()
                raise
            if isinstance(hello, Error):
                self.close()
                raise AssertionError(f"HELLO: {hello}")

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- out

    def raw(self, data):
        self.socket.sendall(data)

    def send(self, *words):
        self.raw(encode(*words))

    def ask(self, *words):
        self.send(*words)
        return self.read()

    def pipeline(self, *requests):
        """All at once; the list of their replies."""
        self.raw(b"".join(encode(*request) for request in requests))
        return [self.read() for _ in requests]

    def arrived(self):
        """Waits until all that was said over TCP is with the server's kernel, whether it was read or not."""
        deadline = time.monotonic() + PATIENCE
        while any(fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(4))):
            if time.monotonic() > deadline:
                raise AssertionError("it does not arrive")

    def finish(self):
        """Nothing more will be said."""
        self.socket.shutdown(socket.SHUT_WR)

    # ---- in

    def more(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise Closed()
        self.bytes = self.bytes[self.at:] + data
        self.at = 0

    def line(self):
        start = self.at
        while (end := self.bytes.find(b"\r\n", start)) < 0:
            self.more()
            start = 0
        line = self.bytes[self.at:end]
        self.at = end + 2
        return line

    def exactly(self, count):
        while len(self.bytes) - self.at < count:
            self.more()
        data = self.bytes[self.at:self.at + count]
        self.at += count
        return data

    def read(self):
        """One reply: str, int, float, bool, None, list, dict, set as tuple, or Error."""
        line = self.line()
        kind, rest = line[:1], line[1:].decode("utf-8", "surrogateescape")
        if kind == b"+":
            return rest
        if kind == b"-":
            return Error(rest)
        if kind in b":(":
            return int(rest)
        if kind == b"_":
            return None
        if kind == b"#":
            return {"t": True, "f": False}[rest]
        if kind == b",":
            return float(rest)
        size = int(rest)
        if kind in (b"$", b"=", b"!"):
            if size < 0:
                return None
            text = self.exactly(size + 2)[:-2].decode("utf-8", "surrogateescape")
            return text[4:] if kind == b"=" else Error(text) if kind == b"!" else text
        if size < 0:
            return None
        if kind in (b"%", b"|"):
            pairs = {freeze(self.read()): self.read() for _ in range(size)}
            return pairs if kind == b"%" else self.read()
        if kind in (b"*", b">", b"~"):
            items = [self.read() for _ in range(size)]
            return tuple(items) if kind == b"~" else items
        raise AssertionError(f"no reply begins with {line!r}")

    def first_line(self):
        """A line, or b"" if the connection was closed."""
        try:
            return self.line()
        except (Closed, ConnectionResetError):
            return b""

    def rest(self):
        """Everything up to the end of the connection, as bytes."""
        try:
            while True:
                self.more()
        except (Closed, ConnectionResetError):
            data = self.bytes[self.at:]
            self.bytes, self.at = b"", 0
            return data


def freeze(value):
    return tuple(value) if isinstance(value, list) else value


def encode(*words):
    """A request as clients write it."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape")
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


def environment(**changes):
    """Of a command, which must not listen on the default port of HTTP: tests run beside each other."""
    base = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "WEIR_HTTP": "none"}
    for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
        if name in os.environ:
            base[name] = os.environ[name]
    base.update(changes)
    return base


class Server:
    """`weir serve` in a folder of its own. `config` is the text of its weir.yaml. `also` are other listeners, such as
    "http": the OS chooses their ports, which are in `ports`."""

    def __init__(self, *arguments, config=None, tcp=True, unix=False, env=None, threads=2, ready=True, pass_fds=(),
                 before=None, prefix=(), also=()):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-")
        self.path = os.path.join(self.folder.name, "weir.sock") if unix else None
        self.config_path = os.path.join(self.folder.name, "weir.yaml")
        line = [*prefix, WEIR, "serve"]
        if tcp is True:
            line += ["--resp", "127.0.0.1:0"]
        elif tcp is False:
            line += ["--resp", "none"]
        if unix:
            line += ["--unix", self.path]
        for kind in also:
            line += ["--" + kind.replace("_", "-"), "127.0.0.1:0"]
        if threads:
            line += ["--threads", str(threads)]
        if config is not None:
            self.configure(config)
            line += ["--config", self.config_path]
        self.lines = []
        self.said = threading.Condition()
        self.ended = False
        self.process = subprocess.Popen(line + list(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=environment(**(env or {})), cwd=self.folder.name,
                                        pass_fds=pass_fds, preexec_fn=before)
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()
        self.port = None
        self.ports = {}  # of the first listener of each kind
        if ready:
            try:
                self.wait_ready()
            except AssertionError:
                self.clean()
                raise

    def listen(self):
        for line in self.process.stderr:
            with self.said:
                self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                self.said.notify_all()
        with self.said:
            self.ended = True
            self.said.notify_all()

    def wait_line(self, pattern, after=0):
        """The first line of its log that fits, from line `after` on; waits for it."""
        deadline = time.monotonic() + PATIENCE
        with self.said:
            while True:
                for line in self.lines[after:]:
                    if re.search(pattern, line):
                        return line
                if self.ended or not self.said.wait(deadline - time.monotonic()):
                    raise AssertionError("no line like %r, only:\n%s" % (pattern, "\n".join(self.lines)))

    def wait_ready(self):
        self.wait_line(r"event\"?[=:]\"?ready")
        for line in self.lines:
            found = re.search(r"listening\"?[ ,].*\bon\"?[=:]\"?(?:127\.0\.0\.1|\[::1\]|0\.0\.0\.0|\[::\]):(\d+)"
                              r"\"?[ ,]+\"?for\"?[=:]\"?(\w+)", line)
            if found:
                self.ports.setdefault(found.group(2), int(found.group(1)))
        self.port = self.ports.get("resp")

    def configure(self, text):
        with open(self.config_path, "w", encoding="utf-8") as file:
            file.write(text)

    def address(self, unix=None):
        use_unix = self.port is None if unix is None else unix
        return self.path if use_unix else ("127.0.0.1", self.port)

    def connect(self, version=2, unix=None, **login):
        return Client(self.address(unix), version, **login)

    def admit(self, password):
        """A client that has logged in: once more if something kept it from doing so in the time for unauthenticated clients."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.connect(password=password)
            except (Closed, ConnectionError):
                if time.monotonic() > deadline:
                    raise

    def url(self):
        return f"redis://127.0.0.1:{self.port}" if self.port else f"unix://{self.path}"

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """Its exit status; everything it said is in `lines`."""
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("it does not end; it said:\n" + "\n".join(self.lines)) from None
        self.reader.join(PATIENCE)
        return status

    def stop(self):
        """Ends it as an operator does. Anything but exit status 0 is a failure."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        status = self.wait()
        self.clean()
        if status != 0:
            raise AssertionError(f"exit status {status}; it said:\n" + "\n".join(self.lines))

    def clean(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()
        self.folder.cleanup()

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class ServerTest(unittest.TestCase):
    """start() gives a server that is stopped, and has to stop well, at the end of the test."""
    maxDiff = None

    def start(self, *arguments, **settings):
        weir = Server(*arguments, **settings)
        self.addCleanup(self.end, weir)
        return weir

    def end(self, weir):
        if weir.process.poll() is None:
            weir.stop()
        else:
            weir.clean()


def main():
    """Called by every test file."""
    if not os.access(WEIR, os.X_OK):
        sys.exit(f"cannot run '{WEIR}'; name the weir command in $WEIR")
    unittest.main(module="__main__")
