#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One user floods its policy with new keys while another asks for lists as fast as it can: who comes afterwards passes as
long as there is memory, and the flooded policy leaves the others theirs. How soon a table grows does not matter: keys of
the flood that came too early are not looked at, those that come once there is room are."""

import threading
import time

import server

CONFIG = """\
memory: 16MiB
users:
  - {name: greedy, password: a, may: [take], policies: [p0]}
  - {name: curious, password: l, may: [look]}
  - {name: other, password: b, may: [take], policies: [p1]}
  - {name: ops, password: o, may: all}
policies:
"""
BATCH = 10000


def told(text):
    """Lines of INFO."""
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


def all_replies(client):
    """Up to that of PING, as bytes."""
    data = b""
    while not data.endswith(b"+PONG\r\n"):
        client.more()
        data, client.bytes = data + client.bytes, b""
    return data


class Flood(server.ServerTest):
    def setUp(self):
        # Two limits make large keys: the memory is soon used up.
        policies = "".join(f"  - {{name: p{i}, limits: '20/d, 100/30d'}}\n" for i in range(8))
        self.weir = self.start(config=CONFIG + policies)
        self.ops = self.login("ops", "o")
        self.greedy = [self.login("greedy", "a") for _ in range(4)]
        self.other = self.login("other", "b")
        self.made = 0
        self.flooded = 0

    def login(self, user, password):
        client = self.weir.connect(version=3, user=user, password=password)
        self.addCleanup(client.close)
        return client

    def memory(self):
        lines = told(self.ops.ask("INFO"))
        return int(lines["memory_used"]), int(lines["memory_budget"])

    def wait_for_room(self, policy):
        """The table has reached the mark at which it grows: until it has grown."""
        deadline = time.monotonic() + server.PATIENCE
        while True:
            fields = dict(field.split("=") for field in told(self.ops.ask("INFO"))[f"policy_{policy}"].split(","))
            if int(fields["keys"]) < int(fields["capacity"]) * 19 // 20:
                return
            self.assertLess(time.monotonic(), deadline, f"{policy} does not grow: {fields}")

    def new_keys(self, client, policy):
        """A hundred, and how many of them pass."""
        self.wait_for_room(policy)
        first, self.made = self.made, self.made + 100
        replies = client.pipeline(*(("WEIR.TAKE", policy, f"new:{i}") for i in range(first, first + 100)))
        return sum(reply["allowed"] for reply in replies)

    def flood(self):
        """A batch on each connection, all at once; meanwhile a hundred new keys of the other user."""
        batches = []
        for _ in self.greedy:
            keys = range(self.flooded, self.flooded + BATCH)
            self.flooded += BATCH
            takes = b"".join(server.encode("WEIR.TAKE", "p0", f"flood:{i}") for i in keys)
            batches.append(takes + server.encode("PING"))
        threads = [threading.Thread(target=client.raw, args=(batch,)) for client, batch in zip(self.greedy, batches)]
        for thread in threads:
            thread.start()
        passed = self.new_keys(self.other, "p1")
        for client in self.greedy:
            all_replies(client)
        for thread in threads:
            thread.join()
        self.assertEqual(passed, 100, f"beside {self.flooded} keys of the flood")

    def look(self, client, ends):
        while not ends.is_set():
            client.raw(server.encode("WEIR.POLICY", "LIST") * 50 + server.encode("PING"))
            all_replies(client)

    def curious(self):
        """Lists in pipelines, until the test has ended."""
        ends = threading.Event()
        threads = [threading.Thread(target=self.look, args=(self.login("curious", "l"), ends)) for _ in range(4)]
        for thread in threads:
            thread.start()
            self.addCleanup(thread.join)
        self.addCleanup(ends.set)

    def test_new_users_pass_while_there_is_memory(self):
        self.curious()
        self.flood()
        self.assertEqual(self.new_keys(self.greedy[0], "p0"), 100)
        self.assertEqual(self.new_keys(self.other, "p1"), 100)

    def test_a_flooded_policy_leaves_others_their_memory(self):
        self.curious()
        start, budget = self.memory()
        while not any("event=table-full policy=p0" in line for line in self.weir.lines):
            self.assertLess(self.flooded, 400000, "it never becomes full")
            self.flood()
        used, budget = self.memory()
        self.assertLess(used - start, (budget - start) * 3 // 4)
        while self.made < 10000:  # more than it has room for from the start
            self.assertEqual(self.new_keys(self.other, "p1"), 100, f"after {self.made}")
        used, budget = self.memory()
        self.assertLessEqual(used, budget)


if __name__ == "__main__":
    server.main()
