#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A ZooKeeper that answers rubbish. libzookeeper 3.8.0 does not check whether a reply could be read: it hands on, and frees,
what stands in memory then, so a server may be killed by it (docs/fleet.md). Whether it is or not, it starts again from
its data with nothing lost, and serves what needs no coordinator."""

import contextlib
import pathlib
import socket
import struct
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))
import server  # noqa: E402

GET, CHILDREN, PING = 4, 8, 11
CONFIG = """\
policies:
  - {{name: own, limits: [5/d]}}
  - name: pool
    limits: [100/m algo=quota]
    fleet: {{coordinator: "zookeeper://127.0.0.1:{port}/weir", lost_after: 100ms, wait: 10ms, connect: 300ms, answer: 300ms}}
"""
STAT = struct.pack(">qqqqiiiqiiq", 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1)
RUBBISH = {  # what stands behind the head of a reply to getData
    "nothing": b"",
    "a length and no data": struct.pack(">i", 10),
    "a length beyond the reply": struct.pack(">i", 0x7FFFFFFF) + b"x" * 20,
    "a length below zero": struct.pack(">i", -2) + STAT,
    "data without an end": struct.pack(">i", 3) + b"100" + STAT[:7],
    "data of another kind": struct.pack(">i", 8) + b"\xff" * 8 + STAT,
}


class Zoo:
    """Accepts sessions, and answers every question for data with the same rubbish."""

    def __init__(self, rubbish):
        self.rubbish, self.answered = rubbish, threading.Semaphore(0)
        self.begins = threading.Event()  # until then it says nothing
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets, self.threads = [], [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def close(self):
        self.begins.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.threads[0].join()
        self.listener.close()
        for one, thread in zip(self.sockets, self.threads[1:]):
            with contextlib.suppress(OSError):  # whoever has gone already
                one.shutdown(socket.SHUT_RDWR)
            thread.join()
            one.close()

    def accept(self):
        try:
            while True:
                one = self.listener.accept()[0]
                self.sockets.append(one)
                self.threads.append(threading.Thread(target=self.serve, args=(one,)))
                self.threads[-1].start()
        except OSError:
            pass

    @staticmethod
    def frame(stream):
        head = stream.read(4)
        return stream.read(struct.unpack(">i", head)[0]) if len(head) == 4 else b""

    def serve(self, one):
        try:
            with one.makefile("rb") as stream:
                self.frame(stream)  # the session's
                self.say(one, struct.pack(">iiqi", 0, 4000, 1, 16) + b"p" * 16)
                while request := self.frame(stream):
                    self.begins.wait()
                    xid, kind = struct.unpack(">ii", request[:8])
                    asks = kind in (GET, CHILDREN)
                    self.say(one, struct.pack(">iqi", xid, 1, 0) + (self.rubbish if asks else b""))
                    if asks:
                        self.answered.release()
        except OSError:
            pass

    @staticmethod
    def say(one, body):
        one.sendall(struct.pack(">i", len(body)) + body)


class Hostile(unittest.TestCase):
    def start(self, port, data):
        weir = server.Server("--data", data, "--fsync", "always", config=CONFIG.format(port=port))
        self.addCleanup(weir.clean)
        return weir

    def suffer(self, rubbish, data):
        """A server spends three units, and is answered rubbish until it dies or has had enough of it."""
        zoo = Zoo(rubbish)
        try:
            weir = self.start(zoo.port, data)
            try:
                with weir.connect(version=3) as client:
                    self.assertTrue(client.ask("WEIR.TAKE", "own", "a", "3")["allowed"])
                    zoo.begins.set()
                    for _ in range(3):
                        client.ask("WEIR.TAKE", "pool", "a")
                        zoo.answered.acquire(timeout=1)
            except (OSError, server.Closed):
                pass  # it may die of it
            died = weir.process.poll() is not None
            weir.process.kill()
            weir.wait()
            return died
        finally:
            zoo.close()

    def test_a_server_that_was_killed_by_it_starts_again_with_what_it_had(self):
        for name, rubbish in RUBBISH.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as data:
                print(f"# {name}: {'died' if self.suffer(rubbish, data) else 'lived'}", flush=True)
                with socket.create_server(("127.0.0.1", 0)) as nobody:
                    port = nobody.getsockname()[1]
                weir = self.start(port, data)
                with weir.connect(version=3) as client:
                    self.assertEqual(client.ask("WEIR.PEEK", "own", "a")["remaining"], 2)
                    self.assertFalse(client.ask("WEIR.TAKE", "pool", "a")["allowed"])
                weir.stop()


if __name__ == "__main__":
    unittest.main()
