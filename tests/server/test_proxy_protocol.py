#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Connections that a load balancer passes on: the header of the PROXY protocol says whose they are."""

import socket
import ssl
import struct
import tempfile

import server
import test_tls

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
CONFIG = """listen: {proxy_protocol: [resp, http]}
trusted_proxies: [127.0.0.1]
policies: [{name: api, limits: 5/h}]
"""


def header(client, port=40000, command=0x21, behind=b""):
    """Of a connection from that address."""
    family = socket.AF_INET6 if ":" in client else socket.AF_INET
    source = socket.inet_pton(family, client)
    here = socket.inet_pton(family, "::1" if ":" in client else "127.0.0.1")
    body = source + here + struct.pack("!HH", port, 9049) + behind
    return SIGNATURE + struct.pack("!BBH", command, 0x21 if ":" in client else 0x11, len(body)) + body


def address(client):
    """What the server calls it."""
    return dict(word.split("=", 1) for word in client.ask("CLIENT", "INFO").split())["addr"]


class ProxyProtocol(server.ServerTest):
    def connect(self, weir, first, source="127.0.0.1"):
        client = server.Client(weir.address(), first=first, source=source)
        self.addCleanup(client.close)
        return client

    def test_the_client_is_the_one_of_the_header(self):
        weir = self.start(config=CONFIG)
        self.assertEqual(address(self.connect(weir, header("192.0.2.7"))), "192.0.2.7:40000")
        self.assertEqual(address(self.connect(weir, header("2001:db8::7"))), "[2001:db8::7]:40000")
        self.assertEqual(address(self.connect(weir, header("::ffff:192.0.2.8"))), "192.0.2.8:40000")
        self.assertEqual(address(self.connect(weir, header("192.0.2.9", behind=b"\x04\0\x01x"))), "192.0.2.9:40000")
        local = self.connect(weir, header("192.0.2.7", command=0x20))
        self.assertTrue(address(local).startswith("127.0.0.1:"))

    def test_a_header_may_come_in_pieces_and_with_requests_behind(self):
        weir = self.start(config=CONFIG)
        slow = self.connect(weir, b"")
        for byte in header("192.0.2.7"):
            slow.raw(bytes([byte]))
            slow.arrived()
        self.assertEqual(address(slow), "192.0.2.7:40000")
        quick = self.connect(weir, header("192.0.2.7") + server.encode("PING") + server.encode("ECHO", "x" * 10000))
        self.assertEqual([quick.read(), len(quick.read())], ["PONG", 10000])

    def test_what_is_no_header_is_closed(self):
        weir = self.start(config=CONFIG)
        whole = header("192.0.2.7")
        for first in (server.encode("PING"), b"PROXY TCP4 192.0.2.7 127.0.0.1 1 2\r\n", b"\r\n\r\nPING\r\n",
                      SIGNATURE + b"\x21\x11\xff\xff", SIGNATURE + b"\x21\x11\0\x04abcd", SIGNATURE + b"\x31\x11\0\0",
                      whole[:13] + b"\x12" + whole[14:]):
            with self.subTest(first=first):
                client = self.connect(weir, first)
                self.assertEqual(client.rest(), b"")
        weir.wait_line("why=.it did not begin with the header of the PROXY protocol")

    def test_a_peer_that_is_not_trusted_is_closed(self):
        weir = self.start(config=CONFIG)
        self.assertEqual(self.connect(weir, header("192.0.2.7") + server.encode("PING"), "127.0.0.2").first_line(), b"")
        weir.wait_line("client=127.0.0.2:.*not in trusted_proxies")

    def test_connections_are_counted_by_the_real_address(self):
        weir = self.start(config=CONFIG + "clients: {per_address: 2}\n")
        kept = [self.connect(weir, header(f"192.0.2.{1 + i // 2}")) for i in range(6)]
        self.assertEqual([client.ask("PING") for client in kept], ["PONG"] * 6)
        self.assertEqual(self.connect(weir, header("192.0.2.1")).rest(), b"")
        self.assertEqual(self.connect(weir, header("192.0.2.4")).ask("PING"), "PONG")

    def test_other_listeners_need_no_header(self):
        weir = self.start(config=CONFIG.replace("[resp, http]", "[http]"))
        self.assertEqual(self.connect(weir, server.encode("PING")).read(), "PONG")

    def test_tls_begins_behind_the_header(self):
        with tempfile.TemporaryDirectory(prefix="weir-tls-") as folder:
            files = test_tls.Files(folder)
            files.sign("server")
            weir = self.start(also=("resp_tls",), config=CONFIG.replace("[resp, http]", "[resp_tls]") +
                              f"tls: {{cert: {files.path('server.pem')}, key: {files.path('server.key')}}}\n")
            context = ssl.create_default_context(cafile=files.path("ca.pem"))
        client = server.Client(("127.0.0.1", weir.ports["resp_tls"]), first=header("192.0.2.7"), tls=context)
        self.addCleanup(client.close)
        self.assertEqual(address(client), "192.0.2.7:40000")

    def test_one_that_says_nothing_does_not_keep_the_server_from_ending(self):
        weir = self.start(config=CONFIG)
        silent, half = self.connect(weir, b""), self.connect(weir, header("192.0.2.7")[:20])
        half.arrived()
        weir.stop()
        self.assertEqual((silent.rest(), half.rest()), (b"", b""))


if __name__ == "__main__":
    server.main()
