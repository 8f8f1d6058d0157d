#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weir dump, load, backup and doctor against real servers: nothing is minted, whatever moves."""

import json
import os
import re
import signal
import subprocess
import tempfile
import threading

import server

CONFIG = """\
policies:
  - name: api
    limits: 1000/d
    overrides:
      - {key: org:acme, limits: 5000/d}
      - {key: "internal:*", limits: 50/h}
  - {name: multi, limits: "100/h, 1000/d algo=sliding-window, 20/m algo=sliding-log"}
"""


class DumpTest(server.ServerTest):
    def weir(self, *arguments, status=0, stdin=""):
        done = subprocess.run([server.WEIR, *arguments], input=stdin, text=True, capture_output=True,
                              timeout=server.PATIENCE, env=server.environment())
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stdout + done.stderr

    def begin(self, *arguments, config=CONFIG):
        weir = self.start(*arguments, config=config)
        client = weir.connect(version=3)
        self.addCleanup(client.close)
        return weir, client

    def spend(self, client):
        for i in range(40):
            client.ask("WEIR.TAKE", "api", f"user:{i}", 10 * i + 1)
            client.ask("WEIR.TAKE", "multi", f"user:{i}", i % 20 + 1)
        client.ask("WEIR.TAKE", "api", "org:acme", 1234)
        client.ask("WEIR.TAKE", "api", "internal:1", 7)

    def explain(self, client, policy, key):
        said = client.ask("WEIR.EXPLAIN", policy, key)
        self.assertNotIsInstance(said, server.Error, said)
        return said

    KEYS = [("api", "user:3"), ("api", "user:39"), ("api", "new"), ("api", "org:acme"), ("api", "internal:1"),
            ("multi", "user:0"), ("multi", "user:39")]


class Load(DumpTest):
    def test_a_fresh_server_explains_the_same(self):
        old, before = self.begin("--test-clock")
        self.spend(before)
        dump = self.weir("dump", "-s", old.url())
        new, after = self.begin("--test-clock", config="policies: []")
        self.assertIn("82 keys would be loaded", self.weir("load", "--dry-run", stdin=dump))
        self.assertEqual(self.weir("load", "-s", new.url(), "--no-elapsed", stdin=dump), "loaded 82 keys\n")
        for policy, key in self.KEYS:
            self.assertEqual(self.explain(after, policy, key), self.explain(before, policy, key), (policy, key))

    def test_a_server_with_the_same_file_explains_the_same(self):
        old, before = self.begin("--test-clock")
        self.spend(before)
        new, after = self.begin("--test-clock")
        self.weir("load", "-s", new.url(), "--no-elapsed", stdin=self.weir("dump", "-s", old.url()))
        for policy, key in self.KEYS:
            self.assertEqual(self.explain(after, policy, key), self.explain(before, policy, key), (policy, key))

    def test_what_is_cut_off_or_altered_changes_nothing(self):
        old, client = self.begin("--test-clock")
        self.spend(client)
        dump = self.weir("dump", "-s", old.url(), "--policy", "api")
        new, after = self.begin("--test-clock", config="policies: []")
        lines = dump.splitlines(keepends=True)
        wrong = [dump[:-5], "".join(lines[:-1]), "".join(lines[:5]), "", dump.replace(" 0 0 -", " 0 0 -1", 1),
                 "".join(lines[:8] + lines[9:]), dump + "more\n", dump.replace("weir-dump 1", "weir-dump 2", 1)]
        for text in wrong:
            self.assertIn("nothing was changed", self.weir("load", "-s", new.url(), stdin=text, status=2))
        self.assertEqual(after.ask("WEIR.POLICY", "LIST"), [])

    def test_parts(self):
        old, client = self.begin("--test-clock")
        self.spend(client)
        whole = set(re.findall(r"^key .*$", self.weir("dump", "-s", old.url(), "--policy", "multi"), re.M))
        low = set(re.findall(r"^key .*$", self.weir("dump", "-s", old.url(), "--policy", "multi", "--hash",
                                                     "0000000000000000-7fffffffffffffff"), re.M))
        high = set(re.findall(r"^key .*$", self.weir("dump", "-s", old.url(), "--policy", "multi", "--hash",
                                                      "8000000000000000-ffffffffffffffff"), re.M))
        self.assertEqual(len(whole), 40)
        self.assertTrue(low and high and not low & high and low | high == whole)
        prefix = self.weir("dump", "-s", old.url(), "--policy", "api", "--prefix", "internal:")
        self.assertEqual(len(re.findall(r"^key ", prefix, re.M)), 1)
        self.assertIn("no limits for that prefix",
                      self.weir("dump", "-s", old.url(), "--policy", "api", "--prefix", "x", status=2))

    def test_a_file_is_there_when_all_of_it_is(self):
        old, client = self.begin("--test-clock")
        self.spend(client)
        path = os.path.join(old.folder.name, "api.dump")
        self.weir("dump", "-s", old.url(), "--policy", "nobody", "-o", path, status=2)
        self.assertFalse(os.path.exists(path) or os.path.exists(path + ".part"))
        self.weir("dump", "-s", old.url(), "--policy", "api", "-o", path)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertIn("keys would be loaded", self.weir("load", "--dry-run", path))


class Client(threading.Thread):
    """Takes units of some keys as fast as it can, and goes where it is sent."""

    def __init__(self, servers, keys, number):
        super().__init__(daemon=True)
        self.clients = {weir.url(): weir.connect(version=3) for weir in servers}
        self.at = servers[0].url()
        self.keys = keys
        self.number = number
        self.taken = dict.fromkeys(keys, 0)
        self.sent = self.refused = 0
        self.over = False
        self.fault = None
        self.until = threading.Condition()

    def run(self):
        try:
            i = self.number
            while not self.over:
                key = self.keys[i % len(self.keys)]
                i += 1
                if i % 16 == 0:
                    with self.until:
                        self.until.notify_all()
                answer = self.clients[self.at].ask("WEIR.TAKE", "api", key, 5)
                if isinstance(answer, server.Error):
                    self.turn(answer)
                elif answer["allowed"]:
                    self.taken[key] += 5
                else:
                    self.refused += 1
        except Exception as fault:  # shown by the test
            self.fault = fault
        with self.until:
            self.until.notify_all()
        for client in self.clients.values():
            client.close()

    def wait_for(self, holds):
        with self.until:
            if not self.until.wait_for(lambda: self.fault or holds(), server.PATIENCE):
                raise AssertionError("it never came")

    def turn(self, error):
        code, address = error.split(" ")[:2]
        if code == "ELSEWHERE":
            self.at = address
            self.sent += 1
        elif code != "TRYAGAIN":
            raise AssertionError(error)


class Move(DumpTest):
    def move(self, config, *arguments):
        a, first = self.begin(config="policies: [{name: api, limits: 1000/d}]")
        b, second = self.begin(config=config)
        keys = [f"user:{i}" for i in range(8)]
        clients = [Client([a, b], keys, i) for i in range(3)]
        for client in clients:
            client.start()
        clients[0].wait_for(lambda: sum(sum(client.taken.values()) for client in clients) >= 1500)
        said = self.weir("load", "-s", b.url(), "--from", a.url(), "--policy", "api", *arguments)
        self.assertRegex(said, r"^moved \d+ keys of api; .* during which they were refused\n$")
        before = [client.refused for client in clients]
        for client, many in zip(clients, before):
            client.wait_for(lambda: client.refused >= many + 100)
        for client in clients:
            client.over = True
            client.join(server.PATIENCE)
            self.assertIsNone(client.fault)
        return a, b, clients, keys

    def check_law(self, clients, keys):
        """1000 a day: within a minute no more than one comes back."""
        for key in keys:
            taken = sum(client.taken[key] for client in clients)
            self.assertLessEqual(taken, 1001, key)
            self.assertGreaterEqual(taken, 990, key)

    def test_a_policy_moves_under_load_and_nothing_is_minted(self):
        for config in ("policies: []", "policies: [{name: api, limits: 1000/d}]"):
            _, _, clients, keys = self.move(config)
            self.check_law(clients, keys)
            self.assertTrue(all(client.sent > 0 for client in clients))

    def test_half_of_the_keys_move(self):
        a, b, clients, keys = self.move("policies: []", "--hash", "0000000000000000-7fffffffffffffff")
        with a.connect(version=3) as one:
            stay = [key for key in keys if not isinstance(one.ask("WEIR.PEEK", "api", key), server.Error)]
        self.assertTrue(0 < len(stay) < len(keys))
        for key in keys:
            if key not in stay:
                self.check_law(clients, [key])

    def test_a_move_that_fails_leaves_the_keys_where_they_were(self):
        a, first = self.begin("--test-clock", config="policies: [{name: api, limits: 1000/d}]")
        b, second = self.begin("--test-clock", config="policies: [{name: api, limits: 1000/d}]")
        first.ask("WEIR.TAKE", "api", "k", 100)
        second.ask("WEIR.TAKE", "api", "k", 200)  # so its table stays, and knows keys by other hashes
        said = self.weir("load", "-s", b.url(), "--from", a.url(), "--policy", "api", status=2)
        self.assertIn("known by hashes", said)
        self.assertEqual(first.ask("WEIR.PEEK", "api", "k")["remaining"], 900)
        self.assertEqual(second.ask("WEIR.PEEK", "api", "k")["remaining"], 800)


class Doctor(DumpTest):
    def begin_with_data(self):
        weir = self.start("--test-clock", "--data", "data", config=CONFIG)
        client = weir.connect(version=3)
        self.addCleanup(client.close)
        return weir, client, os.path.join(weir.folder.name, "data")

    def test_a_backup_is_sound_and_can_be_started_from(self):
        weir, client, data = self.begin_with_data()
        self.spend(client)
        self.assertIn(f"in use by process {weir.process.pid}", self.weir("doctor", data, status=2))
        said = self.weir("backup", "-s", weir.url(), "mine")
        self.assertIn("backups/mine\nit can be started from: cp -r ", said)
        backup = os.path.join(data, "backups", "mine")
        self.assertIn("all is well", self.weir("doctor", backup))
        found = json.loads(self.weir("doctor", "--json", backup))
        self.assertTrue(found["can_start"] and found["problems"] == 0 and not found["lost"])
        self.weir("backup", "-s", weir.url(), "mine", status=2)
        self.weir("backup", "-s", weir.url(), "../mine", status=2)
        other = self.start("--test-clock", "--data", backup, config=CONFIG)
        with other.connect(version=3) as after:
            for policy, key in self.KEYS:
                self.assertEqual(self.explain(after, policy, key), self.explain(client, policy, key), (policy, key))

    def test_damage_is_noticed_explained_and_repaired_when_told(self):
        weir, client, data = self.begin_with_data()
        self.spend(client)
        self.assertEqual(client.ask("WEIR.IMAGE"), "OK")
        self.spend(client)
        before = [self.explain(client, policy, key) for policy, key in self.KEYS]
        weir.signal(9)
        weir.wait()
        self.assertEqual(json.loads(self.weir("doctor", "--json", data))["problems"], 0)
        image = sorted(name for name in os.listdir(data) if name.startswith("image-"))[-1]
        with open(os.path.join(data, image), "r+b") as file:
            file.seek(200)
            byte = file.read(1)
            file.seek(200)
            file.write(bytes([byte[0] ^ 1]))
        files = sorted(os.listdir(data))
        self.assertIn(image, self.weir("doctor", data, status=1))
        self.assertEqual(sorted(os.listdir(data)), files)
        self.assertIn("all is well", self.weir("doctor", "--repair", data))
        self.assertIn("damaged-" + image, os.listdir(data))
        again = self.start("--test-clock", "--data", data, config=CONFIG)  # the log still has all of it
        with again.connect(version=3) as after:
            self.assertEqual([self.explain(after, policy, key) for policy, key in self.KEYS], before)

    def test_a_directory_without_its_policies_is_not_called_one_that_starts(self):
        weir = self.start("--test-clock", "--data", "data", config=CONFIG)
        data = os.path.join(weir.folder.name, "data")
        with weir.connect(version=3) as client:
            for _ in range(3):  # what the log was begun with is in images alone by then
                self.assertEqual(client.ask("WEIR.TAKE", "api", "k")["allowed"], True)
                self.assertEqual(client.ask("WEIR.IMAGE"), "OK")
        weir.signal(signal.SIGTERM)
        self.assertEqual(weir.process.wait(server.PATIENCE), 0)
        for name in os.listdir(data):
            if name.startswith("image-"):
                with open(os.path.join(data, name), "r+b") as file:
                    file.truncate(200)
        said = self.weir("doctor", "--repair", data, status=1)
        self.assertIn("a start would find: it would not start", said)
        self.assertIn("start from a backup", said)
        self.assertFalse(json.loads(self.weir("doctor", "--json", data, status=1))["can_start"])
        refused = subprocess.run([server.WEIR, "serve", "--resp", "127.0.0.1:0", "--data", data], capture_output=True,
                                 text=True, timeout=server.PATIENCE, env=server.environment())
        self.assertEqual((refused.returncode, "start from a backup" in refused.stderr), (2, True), refused.stderr)

    def test_what_was_loaded_and_frozen_survives_a_kill(self):
        old, before = self.begin("--test-clock")
        self.spend(before)
        folder = tempfile.TemporaryDirectory(prefix="weir-")
        self.addCleanup(folder.cleanup)
        data = os.path.join(folder.name, "data")
        new = self.start("--test-clock", "--data", data, config="policies: []")
        self.weir("load", "-s", new.url(), "--no-elapsed", stdin=self.weir("dump", "-s", old.url()))
        with new.connect(version=3) as client:
            self.assertEqual(client.ask("WEIR.FREEZE", "multi", "redis://b:1"), "OK")
        new.signal(9)
        new.wait()
        again = self.start("--test-clock", "--data", data, config="policies: []")
        with again.connect(version=3) as after:
            for policy, key in self.KEYS:
                self.assertEqual(self.explain(after, policy, key), self.explain(before, policy, key), (policy, key))
            self.assertRegex(after.ask("WEIR.TAKE", "multi", "user:1"), "^ELSEWHERE redis://b:1 ")
            self.assertEqual(after.ask("WEIR.POLICY", "SHOW", "multi")["frozen"],
                             ["0000000000000000-ffffffffffffffff redis://b:1"])

    def test_what_is_no_directory(self):
        weir, _ = self.begin("--test-clock")
        self.weir("doctor", os.path.join(weir.folder.name, "nothing"), status=2)
        self.weir("doctor", weir.config_path, status=2)


if __name__ == "__main__":
    server.main()
