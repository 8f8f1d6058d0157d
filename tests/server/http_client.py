# SPDX-License-Identifier: MIT
"""A client of HTTP/1.1 that says any bytes: tests of framing need more than http.client lets one say."""

import base64
import json
import socket

import server


class Response:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    def __getitem__(self, name):
        """The one value of a field, or None."""
        values = [value for key, value in self.fields if key == name.lower()]
        if len(values) > 1:
            raise AssertionError(f"{name} is there {len(values)} times")
        return values[0] if values else None

    @property
    def text(self):
        return self.body.decode("utf-8")

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.fields} {self.body!r}"


class HttpClient(server.Client):
    def __init__(self, port, **how):
        super().__init__(("127.0.0.1", port), **how)

    def say(self, method, path, body=None, **fields):
        """Sends a request; a body that is no bytes goes as JSON."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode("utf-8")
            fields.setdefault("Content_Type", "application/json")
            lines.append(f"Content-Length: {len(data)}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        self.raw("\r\n".join(lines).encode("utf-8") + b"\r\n\r\n" + data)

    def response(self, to_head=False):
        line = self.line().decode("ascii")
        version, status, _ = line.split(" ", 2)
        if version != "HTTP/1.1":
            raise AssertionError(line)
        fields = []
        while field := self.line():
            name, value = field.decode("utf-8").split(":", 1)
            fields.append((name.lower(), value.strip()))
        found = Response(int(status), fields, b"")
        if int(status) not in (100, 204) and not to_head:
            found.body = self.exactly(int(found["content-length"]))
        return found

    def ask_http(self, method, path, body=None, **fields):
        self.say(method, path, body, **fields)
        return self.response(to_head=method == "HEAD")

    def get(self, path, **fields):
        return self.ask_http("GET", path, **fields)

    def post(self, path, body, **fields):
        return self.ask_http("POST", path, body, **fields)

    def is_closed(self):
        try:
            return self.socket.recv(1) == b""
        except (ConnectionResetError, socket.timeout):
            return True


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode("utf-8")).decode("ascii")


class HttpTest(server.ServerTest):
    """http() starts a server and returns a client of its HTTP port."""

    def http(self, *arguments, config="policies: [{name: api, limits: 5/m}]", **settings):
        self.weir = self.start("--test-clock", *arguments, config=config, also=("http",), **settings)
        return self.client()

    def client(self):
        client = HttpClient(self.weir.ports["http"])
        self.addCleanup(client.close)
        return client
