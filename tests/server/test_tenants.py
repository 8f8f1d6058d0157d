#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One tenant with the class `take` fills what all tenants have in common, as far as it can: others still find room, also
after a restart. test_tenants.py --figures prints what a tenant gets with the memory that a server has by default."""

import os
import sys
import tempfile
import time

import server

CONFIG = """\
memory: {memory}
client_limits: {{keys: {keys}}}
users:
  - {{name: greedy, password: a, may: [look, take], keys: ["a:*"]}}
  - {{name: other, password: b, may: [look, take], keys: ["b:*"]}}
  - {{name: ops, password: o, may: all}}
policies:
  - {{name: api, limits: 1000000/s burst=1000000}}
  - {{name: shut, limits: blocked}}
"""
MONTH = str(31 * 86400)
STORES = {  # how an entry is made, and how to see from the reply that it was
    "reservations": (lambda key: ("WEIR.RESERVE", "api", key, "1", "TTL", "86400000"), lambda reply: reply["allowed"]),
    "request ids": (lambda key: ("WEIR.TAKE", "api", key, "1", "ID", key), lambda reply: reply["allowed"]),
    "RL.* keys": (lambda key: ("RL.REDUCE", key, "1", MONTH), lambda reply: reply == 1),
    "CL.THROTTLE keys": (lambda key: ("CL.THROTTLE", key, "0", "1", MONTH), lambda reply: reply[0] == 0),
}


def make(client, store, prefix, count, first=0):
    """So many entries in a pipeline; gives how many were made."""
    words, made = STORES[store]
    got = 0
    for at in range(first, first + count, 1000):
        some = range(at, min(at + 1000, first + count))
        client.raw(b"".join(server.encode(*words(f"{prefix}:{i}")) for i in some))
        got += sum(made(client.read()) for _ in some)
    return got


class Tenants(server.ServerTest):
    FEW = 60

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-tenants-")
        self.addCleanup(folder.cleanup)
        self.data = os.path.join(folder.name, "data")

    def serve(self, *arguments):
        return self.start(*arguments, config=CONFIG.format(memory="8MiB", keys="8k"))

    def login(self, weir, user, password):
        client = weir.connect(version=3, user=user, password=password)
        self.addCleanup(client.close)
        return client

    def await_zero(self, client, name):
        """Until the background thread has been through."""
        deadline = time.monotonic() + server.PATIENCE
        while (left := self.info(client)[name]) > 0:
            self.assertLess(time.monotonic(), deadline, f"{name}:{left}")

    def info(self, client):
        return {name: int(value) for name, _, value in (line.partition(":") for line in client.ask("INFO").split("\r\n"))
                if value.isdigit()}

    def look(self, weir, room, first):
        """However often the greedy one tries, it has about half; the other one gets whatever it asks for."""
        greedy, other = self.login(weir, "greedy", "a"), self.login(weir, "other", "b")
        for store, places in room.items():
            for i in range(3):
                self.got[store] += make(greedy, store, "a", places // 2, first + i * places)
            self.assertLess(self.got[store], places * 2 // 3, store)
            self.assertEqual(make(other, store, "b", self.FEW, first), self.FEW, store)

    def test_others_find_room(self):
        weir = self.serve("--data", self.data)
        told = self.info(self.login(weir, "ops", "o"))
        room = {"reservations": told["ledger_capacity"], "request ids": told["requests_capacity"],
                "RL.* keys": told["rl_capacity"], "CL.THROTTLE keys": 8000}
        self.got = dict.fromkeys(room, 0)
        self.look(weir, room, 0)
        for store, places in room.items():
            self.assertGreater(self.got[store], places // 4, store)
        self.look(weir, room, 1000000)
        told = self.info(self.login(weir, "ops", "o"))
        for name in ("ledger", "requests", "rl", "client_keys"):
            self.assertGreater(told[f"{name}_share_refused"], 0)
            self.assertGreater(told[f"{name}_share_most"], 100)
        self.assertIn("user=greedy", weir.wait_line("event=share-used-up"))
        weir.stop()
        self.look(self.serve("--data", self.data), room, 2000000)

    def test_a_user_alone_may_have_all_of_it(self):
        weir = self.start(config="memory: 8MiB\nclient_limits: {keys: 8k}\npolicies: [{name: api, limits: 1000000/s burst=1000000}]")
        client = weir.connect(version=3)
        self.addCleanup(client.close)
        told = self.info(client)
        room = told["ledger_capacity"]
        self.assertGreater(make(client, "reservations", "a", room), room * 19 // 20)
        self.assertGreater(make(client, "CL.THROTTLE keys", "a", 8000), 7000)

    def test_settled_reservations_do_not_count(self):
        weir = self.serve()
        ops, greedy = self.login(weir, "ops", "o"), self.login(weir, "greedy", "a")
        for i in range(20):  # three times as many as there is room for
            greedy.raw(server.encode("WEIR.RESERVE", "api", f"a:{i}", "1", "TTL", "86400000") * 200)
            ids = [greedy.read()["id"] for _ in range(200)]
            greedy.raw(b"".join(server.encode("WEIR.COMMIT", name) for name in ids if name))
            self.assertEqual(sum(greedy.read()["charged"] for name in ids if name), 200, f"round {i}")
            self.await_zero(ops, "ledger_share_most")

    def test_reservations_that_are_over_do_not_count(self):
        weir = self.serve("--test-clock")
        ops, greedy = self.login(weir, "ops", "o"), self.login(weir, "greedy", "a")
        for i in range(20):  # three times as many as there is room for
            greedy.raw(server.encode("WEIR.RESERVE", "api", f"a:{i}", "1", "TTL", "1000") * 200)
            self.assertEqual(sum(greedy.read()["allowed"] for _ in range(200)), 200, f"round {i}")
            ops.ask("WEIR.CLOCK", "ADVANCE", "1000")
            self.await_zero(ops, "ledger_share_most")

    def test_keys_that_sleep_are_no_reserve(self):
        """Keys whose limit is over soon do not count any more, but stay in the table until others need the place."""
        weir = self.serve("--test-clock")
        ops, greedy, other = (self.login(weir, *user) for user in (("ops", "o"), ("greedy", "a"), ("other", "b")))
        names = [f"a:{i}" for i in range(12000)]

        def throttle(some, period):
            greedy.raw(b"".join(server.encode("CL.THROTTLE", name, "0", "1", period) for name in some))
            return sum(greedy.read()[0] == 0 for _ in some)

        for at in range(0, len(names), 3000):
            self.assertEqual(throttle(names[at:at + 3000], "1"), 3000)
            ops.ask("WEIR.CLOCK", "ADVANCE", "2000")
            self.await_zero(ops, "client_keys_share_most")
        woken = sum(throttle(names[at:at + 1000], MONTH) for at in range(0, len(names), 1000))
        self.assertTrue(3000 < woken < 8000 * 2 // 3, woken)
        self.assertEqual(make(other, "CL.THROTTLE keys", "b", self.FEW), self.FEW)

    def test_refusals_are_forgotten_soon(self):
        """Ids of requests that were refused are not kept for minutes: they would be everybody's that were tried."""
        weir = self.serve("--test-clock")
        ops, greedy = self.login(weir, "ops", "o"), self.login(weir, "greedy", "a")
        ids = [("WEIR.TAKE", "shut", "a:1", "1", "ID", str(i)) for i in range(1000)]
        greedy.raw(b"".join(server.encode(*words) for words in ids))
        self.assertFalse(any(greedy.read()["allowed"] for _ in ids))
        self.assertEqual(self.info(ops)["requests_used"], 1000)
        ops.ask("WEIR.CLOCK", "ADVANCE", "6000")
        self.await_zero(ops, "requests_used")

    def test_an_operator_empties_client_keys(self):
        weir = self.serve("--data", self.data)
        ops, greedy = self.login(weir, "ops", "o"), self.login(weir, "greedy", "a")
        for store in ("RL.* keys", "CL.THROTTLE keys"):
            self.assertEqual(make(greedy, store, "a", 100), 100)
            self.assertEqual(make(greedy, store, "a", 100), 0)  # they are spent
        self.assertRegex(greedy.ask("WEIR.FLUSH"), "^NOPERM ")
        self.assertEqual(ops.ask("WEIR.FLUSH"), 200)
        weir.wait_line("event=client-keys-flushed keys=200 user=ops")
        for store in ("RL.* keys", "CL.THROTTLE keys"):
            self.assertEqual(make(greedy, store, "a", 100), 100)
        self.assertEqual(ops.ask("WEIR.FLUSH"), 200)
        weir.process.kill()
        weir.wait()
        weir = self.serve("--data", self.data)
        greedy = self.login(weir, "greedy", "a")
        for store in ("RL.* keys", "CL.THROTTLE keys"):
            self.assertEqual(make(greedy, store, "a", 100), 100)


def figures():
    """What a tenant gets of each store, and what the next one gets then, with 256 MiB."""
    weir = server.Server(config=CONFIG.format(memory="256MiB", keys="1398101"))
    greedy = weir.connect(version=3, user="greedy", password="a")
    other = weir.connect(version=3, user="other", password="b")
    tries = {"reservations": 80000, "request ids": 300000, "RL.* keys": 400000, "CL.THROTTLE keys": 2600000}
    for store, count in tries.items():
        got, next_got = make(greedy, store, "a", count), make(other, store, "b", 1000)
        print(f"{store}: of {count} tries {got} were made; then the other user: {next_got} of 1000", flush=True)
    weir.stop()


if __name__ == "__main__":
    if sys.argv[1:] == ["--figures"]:
        figures()
    else:
        server.main()
