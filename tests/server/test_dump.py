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

    def test_what_a_loss_means_goes_along(self):
        old, _ = self.begin("--test-clock", config="policies: [{name: p, limits: 10/d, recover: floor}]")
        dump = self.weir("dump", "-s", old.url())
        new, after = self.begin("--test-clock", config="policies: []")
        self.weir("load", "-s", new.url(), "--no-elapsed", stdin=dump)
        self.assertEqual(after.ask("WEIR.POLICY", "SHOW", "p")["recover"], "floor")

    def test_nothing_moves_to_where_it_is(self):
        weir, client = self.begin("--test-clock")
        self.spend(client)
        before = self.explain(client, "multi", "user:3")
        for url in (weir.url(), weir.url().replace("127.0.0.1", "localhost")):
            said = self.weir("load", "-s", weir.url(), "--from", url, "--policy", "multi", status=2)
            self.assertIn("is the same server", said)
        self.assertEqual(self.explain(client, "multi", "user:3"), before)

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
        elif code != "UNAVAILABLE":
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
        self.assertRegex(said, r"^moved \d+ keys? of api; .* during which they were refused\n$")
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


class SameHashes(DumpTest):
    """Servers that share a hash_key_file."""

    LIMITS = "policies: [{name: api, limits: 1000/d}]"

    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def key_file(self, name="key", text="00112233445566778899aabbccddeeff\n", mode=0o600):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def test_a_range_moves_between_servers_that_both_have_counted(self):
        path = self.key_file()
        a, first = self.begin("--test-clock", "--hash-key-file", path, config=self.LIMITS)
        b, second = self.begin("--test-clock", config=f"hash_key_file: {path}\n{self.LIMITS}")
        second.ask("WEIR.CLOCK", "SET", 5000)  # their times have nothing in common
        keys = [f"user:{i}" for i in range(64)]
        for i, key in enumerate(keys):
            self.assertTrue(first.ask("WEIR.TAKE", "api", key, 300 + i)["allowed"])
            if i % 2 == 0:
                self.assertTrue(second.ask("WEIR.TAKE", "api", key, 100)["allowed"])
        half = "0000000000000000-7fffffffffffffff"
        said = self.weir("load", "-s", b.url(), "--from", a.url(), "--policy", "api", "--hash", half)
        moved = int(re.match(r"moved (\d+) keys of api; ", said)[1])
        self.assertTrue(0 < moved < len(keys), said)
        gone = 0
        for i, key in enumerate(keys):
            here, there = first.ask("WEIR.PEEK", "api", key), second.ask("WEIR.PEEK", "api", key)
            on_both = 100 if i % 2 == 0 else 0
            if isinstance(here, server.Error):
                gone += 1
                self.assertRegex(here, "^ELSEWHERE " + re.escape(b.url()))
                self.assertEqual(there["remaining"], 1000 - 300 - i - on_both, key)
            else:
                self.assertEqual(there["remaining"], 1000 - on_both, key)
                self.assertEqual(here["remaining"], 1000 - 300 - i, key)
        self.assertEqual(gone, moved)

    def test_to_one_that_has_not_counted_states_go_as_they_are(self):
        path = self.key_file()
        a, first = self.begin("--test-clock", "--hash-key-file", path, config=CONFIG)
        b, second = self.begin("--test-clock", "--hash-key-file", path, config=CONFIG)
        self.spend(first)
        said = {pair: self.explain(first, *pair) for pair in self.KEYS}
        for policy in ("api", "multi"):
            self.weir("load", "-s", b.url(), "--from", a.url(), "--policy", policy)
        for pair in self.KEYS:
            self.assertEqual(self.explain(second, *pair), said[pair])

    def test_keys_whose_limits_come_with_the_call_go_along(self):
        path = self.key_file()
        a, first = self.begin("--test-clock", "--hash-key-file", path, config=self.LIMITS)
        b, second = self.begin("--test-clock", "--hash-key-file", path, config=self.LIMITS)
        for i in range(1200):  # more than a page
            first.ask("CL.THROTTLE", f"k{i}", 9, 10, 86400, 4)
            first.ask("RL.REDUCE", f"r{i}", 10, 86400, "TAKE", 4)
        second.ask("CL.THROTTLE", "k7", 9, 10, 86400, 3)
        second.ask("RL.REDUCE", "r7", 10, 86400, "TAKE", 3)
        dump = self.weir("dump", "-s", a.url())
        self.assertIn("\nclients cell #00112233445566778899aabbccddeeff ", dump)
        self.assertEqual(self.weir("load", "--dry-run", stdin=dump), "2 400 keys would be loaded; the dump is whole\n")
        self.assertEqual(self.weir("load", "--no-elapsed", "-s", b.url(), stdin=dump), "loaded 2 400 keys\n")
        for key, left in (("k0", 6), ("k1199", 6), ("k7", 3), ("new", 10)):
            self.assertEqual(second.ask("CL.THROTTLE", key, 9, 10, 86400, 0)[2], left, key)
        for key, left in (("r0", 6), ("r1199", 6), ("r7", 0), ("new", 10)):  # of both sides: how much is not known
            self.assertEqual(second.ask("RL.GET", key, 10, 86400), left, key)
        c, third = self.begin("--test-clock", config="policies: []")
        self.assertIn("hash_key_file", self.weir("load", "-s", c.url(), stdin=dump, status=2))
        self.assertEqual(third.ask("CL.THROTTLE", "k0", 9, 10, 86400, 0)[2], 10)

    def test_what_is_no_key(self):
        cases = [(self.key_file("open", mode=0o644), "can be read by others (mode 0644)"),
                 (self.key_file("group", mode=0o640), "can be read by others (mode 0640)"),
                 (self.key_file("short", "0011"), "does not have 32 hex digits"),
                 (self.key_file("long", "0" * 33), "does not have 32 hex digits"),
                 (self.key_file("other", "g" * 32), "does not have 32 hex digits"),
                 (self.folder.name, "is no plain file"),
                 (os.path.join(self.folder.name, "missing"), "cannot be read (No such file or directory)")]
        for path, why in cases:
            said = self.weir("serve", "--resp", "127.0.0.1:0", "--hash-key-file", path, status=2)
            self.assertIn(why, said)
            self.assertIn("openssl rand -hex 16 > FILE; chmod 600 FILE", said)

    def test_tables_that_are_there_keep_theirs(self):
        path = self.key_file()
        folder = os.path.join(self.folder.name, "data")
        weir = self.start("--test-clock", "--data", folder, config=self.LIMITS)
        with weir.connect(version=3) as client:
            client.ask("WEIR.TAKE", "api", "k", 400)
        weir.stop()
        again, client = self.begin("--test-clock", "--data", folder, "--hash-key-file", path, config=self.LIMITS)
        self.assertEqual(client.ask("WEIR.PEEK", "api", "k")["remaining"], 600)
        client.ask("WEIR.POLICY", "SET", "new", "10/d")
        self.assertIn('table "" words #00112233445566778899aabbccddeeff ',
                      self.weir("dump", "-s", again.url(), "--policy", "new"))
        self.assertNotIn("#00112233445566778899aabbccddeeff", self.weir("dump", "-s", again.url(), "--policy", "api"))


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
        said = self.weir("doctor", data)
        self.assertIn("its last moment may be missing", said)
        self.assertIn("nothing is damaged, and it can be started; see above for what may be missing", said)
        self.assertNotIn("all is well", said)
        image = sorted(name for name in os.listdir(data) if name.startswith("image-"))[-1]
        with open(os.path.join(data, image), "r+b") as file:
            file.seek(200)
            byte = file.read(1)
            file.seek(200)
            file.write(bytes([byte[0] ^ 1]))
        files = sorted(os.listdir(data))
        self.assertIn(image, self.weir("doctor", data, status=1))
        self.assertEqual(sorted(os.listdir(data)), files)
        self.assertIn("nothing is damaged", self.weir("doctor", "--repair", data))
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
        self.assertEqual((refused.returncode, "run weir doctor" in refused.stderr), (2, True), refused.stderr)

    def test_what_is_none_is_left_as_it_is(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-")
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        for files in ([], ["passwd"]):
            for name in files:
                with open(os.path.join(folder.name, name), "w", encoding="ascii"):
                    pass
            for arguments in ([], ["--repair"]):
                said = self.weir("doctor", folder.name, *arguments, status=2)
                self.assertIn("this is no data directory", said)
                self.assertNotIn("chmod", said)
                self.assertEqual(os.listdir(folder.name), files)
        said = self.weir("doctor", "/nonexistent", status=2)
        self.assertEqual(said.count("/nonexistent"), 1, said)

    def test_a_backup_is_left_as_it_is(self):
        weir, client, data = self.begin_with_data()
        self.spend(client)
        self.weir("backup", "-s", weir.url(), "mine")
        weir.signal(signal.SIGTERM)
        self.assertEqual(weir.wait(), 0)
        backup = os.path.join(data, "backups", "mine")
        if os.path.exists(os.path.join(backup, "lock")):
            os.remove(os.path.join(backup, "lock"))
        files = sorted(os.listdir(backup))
        self.weir("doctor", backup)
        self.assertEqual(sorted(os.listdir(backup)), files)
        self.assertIn("1 backup in backups/", self.weir("doctor", data))

    def test_a_repair_that_cannot_help_is_not_advised_or_done(self):
        weir, client, data = self.begin_with_data()
        self.spend(client)
        self.weir("backup", "-s", weir.url(), "mine")
        weir.signal(signal.SIGTERM)
        self.assertEqual(weir.wait(), 0)
        backup = os.path.join(data, "backups", "mine")
        (image,) = [name for name in os.listdir(backup) if name.startswith("image-")]
        with open(os.path.join(backup, image), "r+b") as file:
            file.seek(200)
            file.write(b"X")
        def check():
            files = sorted(os.listdir(backup))
            for arguments in ([], ["--repair"]):
                said = self.weir("doctor", backup, *arguments, status=1)
                self.assertIn("it would not start", said)
                self.assertIn("a repair cannot help", said)
                self.assertNotIn("(not needed)", said)
                self.assertNotIn("older image", said)
                self.assertNotIn("run weir doctor", said)
                self.assertEqual(sorted(os.listdir(backup)), files)
        check()
        for name in os.listdir(backup):
            if name != "mark":
                os.remove(os.path.join(backup, name))
        check()

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
            self.assertRegex(after.ask("WEIR.TAKE", "multi", "user:1"), "^ELSEWHERE redis://b:1 ")
            frozen = ["0000000000000000-ffffffffffffffff redis://b:1"]
            self.assertEqual(after.ask("WEIR.POLICY", "SHOW", "multi")["frozen"], frozen)
            self.assertEqual([policy["frozen"] for policy in after.ask("WEIR.POLICY", "LIST")], [[], frozen])
            self.assertIn("keys of multi are decided elsewhere", self.weir("policy", "list", "-s", again.url()))
            self.assertIn("whoever asks is sent to redis://b:1", self.explain(after, "multi", "user:1"))
            told = json.loads(after.ask("WEIR.EXPLAIN", "multi", "user:1", "JSON"))
            self.assertEqual((told["would_pass"], told["elsewhere"]), (0, "redis://b:1"))
            self.assertEqual(after.ask("WEIR.THAW", "multi"), "OK")
            for policy, key in self.KEYS:
                self.assertEqual(self.explain(after, policy, key), self.explain(before, policy, key), (policy, key))
            self.assertIn(f"is kept in {data}/retired/multi-*.weir", self.weir("policy", "del", "multi", "-s", again.url()))

    def test_what_is_no_directory(self):
        weir, _ = self.begin("--test-clock")
        self.weir("doctor", os.path.join(weir.folder.name, "nothing"), status=2)
        self.weir("doctor", weir.config_path, status=2)


if __name__ == "__main__":
    server.main()
