#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The recipes of docs/proxies with real proxies: what they let pass, what they refuse, and what clients get while weir
does not answer. The files of the proxies are those that the pages show, with other ports."""

import http.client
import http.server
import itertools
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import server

PAGES = server.ROOT / "docs" / "proxies"
PATIENCE = 2  # seconds in which a client must have an answer while weir says nothing; a quiet machine needs 0.1
NAMES = itertools.count(1)

BLOCKS = {"nginx": ("nginx.md", "nginx"), "caddy": ("caddy.md", "caddyfile"), "haproxy": ("haproxy.md", "haproxy"),
          "balancer": ("haproxy.md", "haproxy-tcp")}
NGINX_AROUND = """daemon off; master_process off; worker_processes 1; pid %(folder)s/pid; error_log %(folder)s/error.log;
events { worker_connections 64; }
http { access_log off; client_body_temp_path %(folder)s/b; proxy_temp_path %(folder)s/p; fastcgi_temp_path %(folder)s/f;
uwsgi_temp_path %(folder)s/u; scgi_temp_path %(folder)s/s;
%(text)s }"""


class App(http.server.BaseHTTPRequestHandler):
    """The application behind the proxy: says what it was sent."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        text = b"the app got " + self.command.encode() + b" " + self.path.encode() + b" " + body
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


class AppServer(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """A proxy has closed a connection that it kept."""


def block_of(page, language):
    """The first block of that language."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return text.split(f"```{language}\n")[1].split("```")[0]


def fail_open(text):
    """What the pages say to do about lines that end in a mark."""
    lines = [line for line in text.splitlines() if not line.endswith("# fail closed")]
    return "\n".join(re.sub(r"^(\s*)# ", r"\1", line) if line.endswith("# fail open") else line for line in lines) + "\n"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Proxy:
    """A proxy that is running, in a folder of its own."""

    def __init__(self, kind, weir_port, app_port, opened):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-proxy-")
        self.process = None
        for _ in range(5):  # another process may take the port in between
            self.port = free_port()
            self.start(kind, {"9050": weir_port, "9049": weir_port, "8000": app_port, "8080": self.port,
                              "6379": self.port}, opened)
            if self.wait_ready():
                return
        said = (pathlib.Path(self.folder.name) / "said").read_text(encoding="utf-8")
        raise AssertionError(f"{kind} does not start:\n{said}")

    def start(self, kind, ports, opened):
        folder = pathlib.Path(self.folder.name)
        page, language = BLOCKS[kind]
        text = block_of(page, language)
        text = fail_open(text) if opened else text
        for port, real in ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{real}")
        if kind == "nginx":
            text = NGINX_AROUND % {"folder": folder, "text": text}
        elif kind == "caddy":
            text = "{\n    admin off\n    auto_https off\n}\n" + text
        else:
            text = text.replace("/usr/share/weir/haproxy", str(server.ROOT / "dist" / "haproxy"))
        (folder / "config").write_text(text, encoding="utf-8")
        line = {"nginx": ["nginx", "-c", f"{folder}/config", "-p", str(folder)],
                "caddy": ["caddy", "run", "--adapter", "caddyfile", "--config", f"{folder}/config"],
                "haproxy": ["haproxy", "-db", "-f", f"{folder}/config"],
                "balancer": ["haproxy", "-db", "-f", f"{folder}/config"]}[kind]
        program = shutil.which(line[0], path=os.environ["PATH"] + ":/usr/sbin")
        env = dict(os.environ, HOME=str(folder), XDG_DATA_HOME=str(folder), XDG_CONFIG_HOME=str(folder))
        with open(folder / "said", "ab") as said:
            self.process = subprocess.Popen([program, *line[1:]], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                            env=env, cwd=folder)

    def wait_ready(self):
        deadline = time.monotonic() + server.PATIENCE
        while time.monotonic() < deadline:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", self.port)) == 0:
                    return True
            try:
                self.process.wait(0.02)
                return False
            except subprocess.TimeoutExpired:
                pass
        return False

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def ask(self, path="/", method="GET", body=None, source="127.0.0.2", **headers):
        """Status, Retry-After, body, and the seconds that it took."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=server.PATIENCE,
                                            source_address=(source, 0))
        began = time.monotonic()
        try:
            client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = client.getresponse()
            text = answer.read().decode()
        finally:
            client.close()
        return answer.status, answer.headers.get("Retry-After"), text, time.monotonic() - began


class Recipes:
    """What every recipe must do; the classes below say with which proxy."""

    kind = None

    @classmethod
    def setUpClass(cls):
        if not shutil.which(cls.kind, path=os.environ["PATH"] + ":/usr/sbin"):
            raise unittest.SkipTest(f"{cls.kind} is not installed: script/setup test")
        cls.app = AppServer(("127.0.0.1", 0), App)
        threading.Thread(target=cls.app.serve_forever, daemon=True).start()
        config = re.sub(r"listen:.*\n", "", block_of("README.md", "yaml")).replace("100/s burst=200", "3/h")
        cls.weir = server.Server(config=config, also=("http",))
        ports = cls.weir.ports["http"], cls.app.server_address[1]
        cls.closed = Proxy(cls.kind, *ports, opened=False)
        cls.opened = Proxy(cls.kind, *ports, opened=True)

    @classmethod
    def tearDownClass(cls):
        cls.closed.stop()
        cls.opened.stop()
        cls.weir.stop()
        cls.app.shutdown()
        cls.app.server_close()

    def key(self):
        return f"key-{next(NAMES)}"

    def spend(self, **how):
        for _ in range(3):
            status, _, text, _ = self.closed.ask(**how)
            self.assertEqual((status, text), (200, "the app got GET / "))

    def test_what_is_allowed_reaches_the_app(self):
        status, _, text, _ = self.closed.ask("/a/b?c=d", x_api_key=self.key())
        self.assertEqual((status, text), (200, "the app got GET /a/b?c=d "))
        status, _, text, _ = self.closed.ask("/form", "POST", "some=body", x_api_key=self.key())
        self.assertEqual((status, text), (200, "the app got POST /form some=body"))

    def test_what_is_refused_gets_429_and_retry_after(self):
        key = self.key()
        self.spend(x_api_key=key)
        for proxy in (self.closed, self.opened):
            status, retry, text, _ = proxy.ask(x_api_key=key)
            self.assertEqual(status, 429, text)
            self.assertGreaterEqual(int(retry), 1)
            self.assertLessEqual(int(retry), 3600)
            self.assertNotIn("the app", text)
        self.assertEqual(self.closed.ask(x_api_key=self.key())[0], 200)

    def test_no_header_makes_a_client_another_one(self):
        self.spend(source="127.0.0.7")
        for forged in ({"X_Forwarded_For": "6.6.6.6"}, {"X_Forwarded_For": "6.6.6.6, 127.0.0.1"},
                       {"X_Real_IP": "6.6.6.6"}, {"Forwarded": "for=6.6.6.6"}, {"X_Original_URI": "/free"},
                       {"X_Forwarded_Uri": "/free"}, {"X_Forwarded_Method": "PUT"}, {"X_Forwarded_Host": "free"},
                       {"X_Original_Method": "PUT"}, {"Weir_Authorization": "Bearer x"}):
            with self.subTest(forged=forged):
                self.assertEqual(self.closed.ask(source="127.0.0.7", **forged)[0], 429)
        self.assertEqual(self.closed.ask(source="127.0.0.8")[0], 200)

    def test_a_login_of_the_visitor_is_not_one_of_the_proxy(self):
        status, _, text, _ = self.closed.ask(x_api_key=self.key(), Authorization="Bearer of-the-app")
        self.assertEqual((status, text), (200, "the app got GET / "))
        status, _, text, _ = self.closed.ask(x_api_key=self.key(), Authorization="Basic YTpi")
        self.assertEqual((status, text), (200, "the app got GET / "))

    def test_while_weir_says_nothing(self):
        key = self.key()
        self.spend(x_api_key=key)
        self.weir.signal(signal.SIGSTOP)
        try:
            closed, _, _, took_closed = self.closed.ask(x_api_key=key)
            opened, _, text, took_opened = self.opened.ask(x_api_key=key)
        finally:
            self.weir.signal(signal.SIGCONT)
        print(f"# {self.kind}: closed {closed} in {took_closed * 1000:.0f} ms, open {opened} in {took_opened * 1000:.0f} ms")
        self.assertIn(closed, (500, 502, 503, 504))
        self.assertEqual((opened, text), (200, "the app got GET / "))
        self.assertLess(max(took_closed, took_opened), PATIENCE)
        self.assertEqual(self.closed.ask(x_api_key=self.key())[0], 200)  # and everything is as before
        self.assertEqual(self.opened.ask(x_api_key=key)[0], 429)


class Nginx(Recipes, unittest.TestCase):
    kind = "nginx"


class Caddy(Recipes, unittest.TestCase):
    kind = "caddy"


class Haproxy(Recipes, unittest.TestCase):
    kind = "haproxy"


class Balancer(server.ServerTest):
    """HAProxy in front of Redis clients: it says by the PROXY protocol whose connections they are."""

    def test_the_client_of_haproxy_is_the_client(self):
        if not shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin"):
            self.skipTest("haproxy is not installed: script/setup test")
        weir = self.start(config="listen: {proxy_protocol: [resp]}\ntrusted_proxies: [127.0.0.1]\n")
        proxy = Proxy("balancer", weir.port, 0, opened=False)
        self.addCleanup(proxy.stop)
        client = server.Client(("127.0.0.1", proxy.port), source="127.0.0.9")
        self.addCleanup(client.close)
        self.assertIn(" addr=127.0.0.9:", client.ask("CLIENT", "INFO"))


if __name__ == "__main__":
    server.main()
