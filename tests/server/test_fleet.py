#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weir serve as a member of a fleet and as its root: real servers, one leasing from the other."""

import os
import tempfile
import threading
import time

import server

TOTAL = 2000


def root_config(window="300d"):
    return f"""
policies:
  - name: egress
    limits: [{TOTAL}/{window} algo=quota]
    fleet: {{coordinator: "local:", base: 50}}
  - name: flow
    limits: [1000/s burst=500]
    fleet: {{coordinator: "local:", base: 20, hold: 100ms}}
  - name: user
    limits: [20/300d algo=quota]
    fleet: {{coordinator: "local:", base: 2, keys: each}}
"""


def tier_config(port, extra="", window="300d"):
    return f"""
policies:
  - name: egress
    limits: [{TOTAL}/{window} algo=quota]
    fleet: {{coordinator: "weir://127.0.0.1:{port}", base: 50, nodes: 2{extra}}}
  - name: flow
    limits: [1000/s burst=500]
    fleet: {{coordinator: "weir://127.0.0.1:{port}", base: 20{extra}}}
  - name: user
    limits: [20/300d algo=quota]
    fleet: {{coordinator: "weir://127.0.0.1:{port}", base: 2, keys: each{extra}}}
  - name: here
    limits: [3/h]
"""


class Fleet(server.ServerTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-fleet-")
        self.addCleanup(folder.cleanup)
        self.data = os.path.join(folder.name, "data")

    def client(self, weir, **settings):
        client = weir.connect(version=3, **settings)
        self.addCleanup(client.close)
        return client

    def info(self, client, policy):
        """The line of INFO fleet, as a map."""
        for line in client.ask("INFO", "fleet").split("\r\n"):
            if line.startswith(f"fleet_{policy}:"):
                return dict(field.split("=", 1) for field in line.split(":", 1)[1].split(","))
        raise AssertionError("INFO has no " + policy)


class Takes(Fleet):
    def test_the_first_take_of_a_window_waits_instead_of_being_refused(self):
        root = self.start(config=root_config())
        tier = self.start(config=tier_config(root.port, ", wait: 15s"))
        client = self.client(tier)
        answers = client.pipeline(("WEIR.TAKE", "egress", "a"), ("PING",), ("WEIR.TAKE", "egress", "b", "40"))
        self.assertEqual([answers[0]["allowed"], answers[1], answers[2]["allowed"]], [True, "PONG", True])
        self.assertTrue(client.ask("WEIR.TAKE", "user", "ann")["allowed"])
        self.assertTrue(client.ask("WEIR.TAKE", "user", "any key \x01 at all")["allowed"])
        self.assertTrue(client.ask("WEIR.TAKE", "flow", "a")["allowed"])
        line = self.info(client, "egress")
        self.assertEqual((line["joined"], line["connected"], line["lost"]), ("1", "1", "0"))
        self.assertIn("leased from weir://127.0.0.1", client.ask("WEIR.EXPLAIN", "egress", "a"))

    def test_no_more_than_the_total_passes_on_both_together(self):
        root = self.start(config=root_config())
        tier = self.start(config=tier_config(root.port, ", wait: 15s"))
        here, there = self.client(root), self.client(tier)
        passed, misses = 0, 0
        while misses < 20:
            before = passed
            passed += 7 * there.ask("WEIR.TAKE", "egress", "a", "7")["allowed"]
            passed += 5 * here.ask("WEIR.TAKE", "egress", "b", "5")["allowed"]
            misses += passed == before
        self.assertLessEqual(passed, TOTAL)
        self.assertGreaterEqual(passed, TOTAL - 100)  # what lies in a chunk that is too small for a take
        self.assertEqual(there.ask("WEIR.TAKE", "egress", "a", "7")["reason"], "later")

    def test_each_key_has_its_own_total(self):
        root = self.start(config=root_config())
        tier = self.start(config=tier_config(root.port, ", wait: 15s"))
        here, there = self.client(root), self.client(tier)
        for key in "ann", "bob":
            passed = 0
            for _ in range(30):
                passed += there.ask("WEIR.TAKE", "user", key)["allowed"]
                passed += here.ask("WEIR.TAKE", "user", key)["allowed"]
            self.assertLessEqual(passed, 20)
            self.assertGreaterEqual(passed, 16)

    def test_several_pairs_and_reservations(self):
        root = self.start(config=root_config())
        tier = self.start(config=tier_config(root.port, ", wait: 15s"))
        client = self.client(tier)
        self.assertTrue(client.ask("WEIR.TAKE", "egress", "a", "5", "AND", "here", "a", "3")["allowed"])
        held = int(self.info(client, "egress")["held"])
        self.assertEqual(client.ask("WEIR.TAKE", "egress", "a", "5", "AND", "here", "a", "3")["limit"], "here/3/h")
        self.assertGreaterEqual(int(self.info(client, "egress")["held"]), held)
        reserved = client.ask("WEIR.RESERVE", "egress", "a", "6")
        self.assertTrue(reserved["allowed"])
        self.assertEqual(client.ask("WEIR.CANCEL", reserved["id"])["given_back"], 6)


class Differs(Fleet):
    def test_a_pool_with_another_limit_is_told_once(self):
        root = self.start(config=root_config())
        tier = self.start(config=tier_config(root.port, ", wait: 15s", window="200d"))
        client = self.client(tier)
        self.assertTrue(client.ask("WEIR.TAKE", "egress", "a")["allowed"])
        tier.wait_line(r"event=fleet-differs policy=egress .*pool=\"2 000 every 300 d\"")
        self.assertEqual((self.info(client, "egress")["differs"], self.info(client, "flow")["differs"]), ("1", "0"))
        self.assertIn("another limit", client.ask("WEIR.EXPLAIN", "egress", "a"))
        self.assertEqual(client.ask("WEIR.LEASE", "egress", "0")["window_ms"], 300 * 86400 * 1000)
        self.assertEqual(sum("fleet-differs" in line for line in tier.lines), 1)


class Lost(Fleet):
    def test_it_starts_without_its_root_and_says_so(self):
        root = self.start(config=root_config())
        port = root.port
        root.stop()
        tier = self.start(config=tier_config(port, ", lost_after: 100ms"))
        tier.wait_line("event=fleet-lost .*policy=egress")
        client = self.client(tier)
        answer = client.ask("WEIR.TAKE", "egress", "a")
        self.assertEqual((answer["allowed"], answer["reason"]), (False, "lost"))
        self.assertEqual(self.info(client, "egress")["lost"], "1")
        self.assertEqual(client.ask("PING"), "PONG")

    def test_a_root_that_comes_back_is_found(self):
        root = self.start("--resp", "127.0.0.1:0", config=root_config())
        tier = self.start(config=tier_config(root.port, ", lost_after: 200ms"))
        client = self.client(tier)
        port = root.port
        root.process.kill()
        root.wait()
        tier.wait_line("event=fleet-lost .*policy=egress")
        self.start("--resp", f"127.0.0.1:{port}", tcp=None, config=root_config())
        tier.wait_line("event=fleet-restored .*policy=egress")
        deadline = time.monotonic() + server.PATIENCE
        while not client.ask("WEIR.TAKE", "egress", "a")["allowed"]:
            self.assertLess(time.monotonic(), deadline)


class Kills(Fleet):
    def spend(self, address, stop, passed):
        """Takes until it is told to stop; whoever is not answered has not passed."""
        while not stop.is_set():
            try:
                with server.Client(address, version=3) as client:
                    while not stop.is_set():
                        passed.append(3 * client.ask("WEIR.TAKE", "egress", "k", "3")["allowed"])
            except (OSError, server.Closed):
                stop.wait(0.01)

    def test_a_root_that_is_killed_forgets_nothing(self):
        """A long window, so that all of it is one: whatever is killed, no more than the total passes."""
        root = self.start("--data", self.data, config=root_config())
        port = root.port
        tier = self.start(config=tier_config(port, ", lost_after: 200ms"))
        stop, passed = threading.Event(), []
        threads = [threading.Thread(target=self.spend, args=(weir.address(), stop, passed)) for weir in (tier, root)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                aim, deadline = sum(passed) + TOTAL // 5, time.monotonic() + 10
                while sum(passed) < aim and time.monotonic() < deadline:
                    stop.wait(0.01)
                root.process.kill()
                root.wait()
                root = self.start("--data", self.data, "--resp", f"127.0.0.1:{port}", tcp=None,
                                  config=root_config())
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertGreater(sum(passed), TOTAL // 2)
        self.assertLessEqual(sum(passed), TOTAL)


class Starts(Fleet):
    def test_a_policy_of_a_fleet_does_not_decide_alone(self):
        """The data directory has no coordinators: without the file that has them such policies are left out."""
        root = self.start("--data", self.data, config=root_config())
        self.assertTrue(self.client(root).ask("WEIR.TAKE", "egress", "a")["allowed"])
        root.stop()
        alone = self.start("--data", self.data)
        alone.wait_line("event=fleet-policy-left-out policy=egress")
        self.assertIn("no policy 'egress'", self.client(alone).ask("WEIR.TAKE", "egress", "a"))


class Commands(Fleet):
    def test_leases_by_hand(self):
        root = self.start("--test-clock", config=root_config("1s"))
        client = self.client(root)
        lease = client.ask("WEIR.LEASE", "egress", "2")
        self.assertEqual((lease["units"], lease["chunk"], lease["expires_in_ms"], lease["kind"]),
                         (100, 50, 1000, "quota"))
        self.assertEqual(client.ask("WEIR.RETURN", "egress", str(lease["epoch"]), "1"), 1)
        self.assertEqual(client.ask("WEIR.CLOCK", "ADVANCE", "1000"), "OK")
        self.assertEqual(client.ask("WEIR.RETURN", "egress", str(lease["epoch"]), "1"), 0)
        flow = client.ask("WEIR.LEASE", "flow", "100")
        self.assertEqual((flow["units"], flow["expires_in_ms"], flow["kind"]), (400, 100, "bucket"))

    def test_who_may_not_hand_back_goes_on_and_says_so_once(self):
        """Chunks that are not accepted are gone; nothing is lost for it, and nothing waits. Of a total that is large:
        nobody knows how many are gone before it is noticed."""
        total = f"{100 * TOTAL}/"
        root = self.start(config=root_config().replace(f"{TOTAL}/", total) + """
users:
  - {name: default, may: [look]}
  - {name: node, password: "n", may: [take]}
""")
        address = f"node:n@127.0.0.1:{root.port}"
        config = tier_config(0, ", wait: 15s, return_every: 5ms").replace(f"{TOTAL}/", total)
        tier = self.start(config=config.replace("127.0.0.1:0", address))
        client = self.client(tier)
        until = time.monotonic() + server.PATIENCE
        while "NOPERM" not in self.info(client, "egress")["trouble"] and time.monotonic() < until:
            self.assertTrue(client.ask("WEIR.TAKE", "egress", "a", "300")["allowed"])
            client.ask("WEIR.GIVE", "egress", "a", "300")  # more than it likes to hold, when it looks next
        tier.wait_line("event=fleet-hindered policy=egress .*chunks do not go back: NOPERM")
        known = self.info(client, "egress")
        self.assertEqual((known["lost"], known["connected"], known["returned"]), ("0", "1", "0"))
        self.assertIn("NOPERM", known["trouble"])
        self.assertEqual(client.ask("WEIR.TAKE", "egress", "a", "500")["reason"], "ok")
        known = self.info(client, "egress")
        self.assertGreater(int(known["taken"]), int(known["spent"]) + int(known["held"]))  # some are nobody's now
        self.assertEqual(len([line for line in tier.lines if "fleet-hindered" in line]), 1)

    def test_a_bucket_that_is_raised_is_learnt_by_who_is_there(self):
        root = self.start(config=root_config())
        tier = self.start(config=tier_config(root.port, ", wait: 15s"))
        client = self.client(tier)
        self.assertTrue(client.ask("WEIR.TAKE", "flow", "a")["allowed"])
        self.assertEqual(client.ask("WEIR.TAKE", "flow", "a", "1000")["reason"], "never")
        root.configure(root_config().replace("1000/s burst=500", "20k/s burst=20k"))
        self.assertEqual(self.client(root).ask("WEIR.RELOAD"), "OK")
        until = time.monotonic() + server.PATIENCE
        while not client.ask("WEIR.TAKE", "flow", "a", "1000")["allowed"] and time.monotonic() < until:
            client.ask("WEIR.TAKE", "flow", "a")  # what tells it
        self.assertEqual(self.info(client, "flow")["total"], "20000")

    def test_epochs_rise_over_restarts(self):
        seen = []
        for burst in 500, 500, 600:
            root = self.start("--data", self.data, config=root_config().replace("burst=500", f"burst={burst}"))
            client = self.client(root)
            seen.append([client.ask("WEIR.LEASE", policy, "0")["epoch"] for policy in ("flow", "egress")])
            root.stop()
        flow, egress = zip(*seen)
        self.assertTrue(flow[0] < flow[1] < flow[2], flow)
        self.assertTrue(egress[0] <= egress[1] <= egress[2], egress)

    def test_a_reload_that_changes_nothing_keeps_what_is_leased(self):
        root = self.start(config=root_config())
        tier = self.start(config=tier_config(root.port, ", wait: 15s"))
        client = self.client(tier)
        self.assertTrue(client.ask("WEIR.TAKE", "egress", "a")["allowed"])
        taken = self.info(client, "egress")["taken"]
        tier.configure(tier_config(root.port, ", wait: 15s") + "  - {name: new, limits: 5/s}\n")
        self.assertEqual(client.ask("WEIR.RELOAD"), "OK")
        self.assertTrue(client.ask("WEIR.TAKE", "egress", "a")["allowed"])
        self.assertGreaterEqual(int(self.info(client, "egress")["taken"]), int(taken))
        for other in ", wait: 6s", ", wait: 6s, above: 300":  # a server's own matter; a member's
            tier.configure(tier_config(root.port, other))
            self.assertEqual(client.ask("WEIR.RELOAD"), "OK")
            self.assertTrue(client.ask("WEIR.TAKE", "egress", "a")["allowed"])
        self.assertFalse([line for line in tier.lines if "fleet-not-joined" in line])


if __name__ == "__main__":
    server.main()
