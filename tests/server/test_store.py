#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weir serve --data DIR: what was answered is there at the next start, however the last one ended."""

import datetime
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

import server

CONFIG = """
policies:
  - {name: day, limits: 10/d burst=10}
  - {name: ring, limits: 5/d algo=sliding-log}
  - {name: tokens, limits: 100/d burst=100, reserve: {ttl: 30m}}
  - {name: shut, limits: blocked}
"""


class Kept(server.ServerTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-store-")
        self.addCleanup(folder.cleanup)
        self.data = os.path.join(folder.name, "data")

    def serve(self, *arguments, config=CONFIG, **settings):
        return self.start("--data", self.data, *arguments, config=config, **settings)

    def client(self, weir, **settings):
        client = weir.connect(**settings)
        self.addCleanup(client.close)
        return client

    def again(self, weir, how, *arguments, **settings):
        """Ends it, or kills it, and starts another one."""
        if how == "kill":
            weir.process.kill()
            weir.wait()
        else:
            weir.stop()
        return self.serve(*arguments, **settings)


class Survives(Kept):
    def fill(self, weir):
        client = self.client(weir, version=3)
        self.assertEqual(client.ask("WEIR.TAKE", "day", "k", "4")["remaining"], 6)
        self.assertEqual(client.ask("WEIR.TAKE", "ring", "k", "2")["remaining"], 3)
        self.assertEqual(client.ask("RL.REDUCE", "rl", "7", "86400", "TAKE", "3"), 7)
        self.assertEqual(client.ask("CL.THROTTLE", "cl", "9", "10", "86400", "6")[:3], [0, 10, 4])
        self.first = client.ask("WEIR.TAKE", "day", "by-id", "3", "ID", "order-1")
        self.assertEqual(client.ask("WEIR.POLICY", "SET", "mine", "20/d burst=20"), "OK")
        self.assertEqual(client.ask("WEIR.TAKE", "mine", "k", "5")["remaining"], 15)
        self.assertEqual(client.ask("WEIR.OVERRIDE", "SET", "day", "vip", "50/d burst=50"), "OK")
        self.assertEqual(client.ask("WEIR.TAKE", "day", "vip", "20")["remaining"], 30)
        self.assertEqual(client.ask("WEIR.POLICY", "CANDIDATE", "mine", "5/d"), "OK")
        self.reservation = client.ask("WEIR.RESERVE", "tokens", "k", "40")["id"]
        self.assertEqual(client.ask("WEIR.PEEK", "tokens", "k")["remaining"], 60)

    def look(self, weir):
        client = self.client(weir, version=3)
        self.assertEqual(client.ask("WEIR.PEEK", "day", "k")["remaining"], 6)
        self.assertEqual(client.ask("WEIR.PEEK", "ring", "k")["remaining"], 3)
        self.assertEqual(client.ask("RL.GET", "rl", "7", "86400"), 4)
        self.assertEqual(client.ask("CL.THROTTLE", "cl", "9", "10", "86400", "5")[0], 1)
        self.assertEqual(client.ask("WEIR.TAKE", "day", "by-id", "3", "ID", "order-1"), self.first)
        self.assertEqual(client.ask("WEIR.PEEK", "day", "by-id")["remaining"], 7)
        self.assertEqual(client.ask("WEIR.PEEK", "mine", "k")["remaining"], 15)
        self.assertEqual(client.ask("WEIR.POLICY", "SHOW", "mine")["candidate"], "5/d")
        self.assertEqual(client.ask("WEIR.PEEK", "day", "vip")["remaining"], 30)
        self.assertEqual(client.ask("WEIR.PEEK", "tokens", "k")["remaining"], 60)

    def test_an_end_and_a_kill(self):
        for how in ("end", "kill"):
            for mode in ("always", "everysec", "never"):
                with self.subTest(how=how, mode=mode):
                    self.setUp()
                    weir = self.serve("--fsync", mode, "--test-clock")
                    self.fill(weir)
                    weir = self.again(weir, how, "--fsync", mode, "--test-clock")
                    self.look(weir)
                    weir = self.again(weir, "kill", "--test-clock")  # also if nothing was taken in between
                    self.look(weir)
                    client = self.client(weir, version=3)
                    client.ask("WEIR.CANCEL", self.reservation)
                    self.assertEqual(client.ask("WEIR.PEEK", "tokens", "k")["remaining"], 100)
                    weir.stop()

    def test_a_late_commit_is_charged_once_whatever_is_killed(self):
        weir = self.serve("--fsync", "always")
        reservation = self.client(weir, version=3).ask("WEIR.RESERVE", "tokens", "k", "40", "TTL", "1")["id"]
        weir = self.again(weir, "kill", "--fsync", "always")
        first = self.client(weir, version=3).ask("WEIR.COMMIT", reservation, "55")
        self.assertEqual((first["charged"], first["given_back"], first["late"]), (55, 0, True))
        for _ in range(2):
            weir = self.again(weir, "kill", "--fsync", "always")
            client = self.client(weir, version=3)
            self.assertEqual(client.ask("WEIR.COMMIT", reservation, "55"), first)
            self.assertIn("settled already", str(client.ask("WEIR.COMMIT", reservation, "56")))
            self.assertEqual(client.ask("WEIR.PEEK", "tokens", "k")["remaining"], first["remaining"])

    def test_busy_keys_are_listed_after_a_kill(self):
        def listed(weir):
            page = self.client(weir, version=3).ask("WEIR.KEYS", "day", "COUNT", "1000")
            self.assertEqual(page["cursor"], "0")
            return sorted((key["id"], key["used"], key["remaining"]) for key in page["keys"])

        weir = self.serve("--fsync", "always", "--test-clock")
        client = self.client(weir, version=3)
        for i in range(9):
            client.ask("WEIR.TAKE", "day", f"key:{i}", str(i + 1))
        before = listed(weir)
        self.assertEqual(sorted(used for _, used, _ in before), list(range(1, 10)))
        self.assertEqual(listed(self.again(weir, "kill", "--fsync", "always", "--test-clock")), before)

    def test_takes_without_answers(self):
        weir = self.serve("--fsync", "always")
        client = self.client(weir, version=3)
        client.raw(server.encode("CLIENT", "REPLY", "OFF") +
                   b"".join(server.encode("WEIR.TAKE", "day", "silent") for _ in range(4)) + server.encode("QUIT"))
        self.assertEqual(client.rest(), b"")  # it was closed after that
        weir = self.again(weir, "kill")
        self.assertEqual(self.client(weir, version=3).ask("WEIR.PEEK", "day", "silent")["remaining"], 6)

    def test_who_left_has_handed_his_place_back(self):
        weir = self.serve("--test-clock", threads=1)  # so that what INFO tells was appended, or is before it is told
        client, other = self.client(weir, version=3), self.client(weir)
        client.ask("WEIR.TAKE", "day", "k", "10")
        other.send("WEIR.ACQUIRE", "day", "k", "TIMEOUT", "86400000")
        while "blocked_clients:1\r\n" not in client.ask("INFO", "clients"):
            pass
        other.close()
        while "blocked_clients:0\r\n" not in client.ask("INFO", "clients"):
            pass
        client = self.client(self.again(weir, "kill", "--test-clock"), version=3)
        client.ask("WEIR.CLOCK", "ADVANCE", str(86400000 // 10))
        self.assertEqual(client.ask("WEIR.TAKE", "day", "k")["allowed"], True)

    def test_many_connections_and_a_kill(self):
        """Whatever was answered is there: each client counts its own."""
        config = "policies: [{name: much, limits: 1M/d burst=1M}]"
        weir = self.serve("--fsync", "always", "--test-clock", config=config)
        clients = [self.client(weir) for _ in range(20)]
        for _ in range(5):
            for number, client in enumerate(clients):
                client.raw(b"".join(server.encode("WEIR.TAKE", "much", f"k{number}") for _ in range(10)))
        answered = [0] * len(clients)
        for number, client in enumerate(clients):
            for _ in range(5 * 10 - number):
                self.assertEqual(client.read()[1], 1)
                answered[number] += 1
        weir = self.again(weir, "kill", "--test-clock", config=config)
        client = self.client(weir, version=3)
        for number, count in enumerate(answered):
            remaining = client.ask("WEIR.PEEK", "much", f"k{number}")["remaining"]
            self.assertLessEqual(remaining, 1000000 - count)
            self.assertGreaterEqual(remaining, 1000000 - 50)

    def test_a_policy_that_is_removed_is_retired(self):
        weir = self.serve("--test-clock")
        self.client(weir).ask("WEIR.TAKE", "day", "k", "4")
        weir.configure(CONFIG.replace("  - {name: day, limits: 10/d burst=10}\n", ""))
        client = self.client(weir, version=3)
        self.assertIsInstance(client.ask("WEIR.RELOAD"), str)
        self.assertRegex(client.ask("WEIR.PEEK", "day", "k"), "no policy|unknown policy")
        kept = os.listdir(os.path.join(self.data, "retired"))
        self.assertEqual(len(kept), 1, kept)
        self.assertRegex(kept[0], r"^day-.*\.weir$")


class Order(Kept):
    def test_pipelines_keep_their_order(self):
        weir = self.serve("--fsync", "always")
        client = self.client(weir, version=3)
        requests = []
        for number in range(200):
            requests += [("WEIR.TAKE", "day", f"k{number % 7}"), ("ECHO", str(number)), ("WEIR.TAKE", "shut", "k"),
                         ("PING",)]
        answers = client.pipeline(*requests)
        for number in range(200):
            take, echo, refusal, ping = answers[4 * number:4 * number + 4]
            self.assertEqual(take["allowed"], number // 7 < 10)
            self.assertEqual((echo, refusal["allowed"], ping), (str(number), False, "PONG"))

    def test_jobs_stay_between_what_stands_around_them(self):
        weir = self.serve("--fsync", "always")
        answers = self.client(weir, version=3).pipeline(
            ("WEIR.TAKE", "day", "k"), ("WEIR.POLICY", "SET", "new", "3/d burst=3"), ("WEIR.TAKE", "new", "k"),
            ("PING",), ("WEIR.POLICY", "DEL", "new"), ("WEIR.TAKE", "new", "k"), ("WEIR.TAKE", "day", "k"))
        self.assertEqual(answers[0]["remaining"], 9)
        self.assertEqual(answers[1], "OK")
        self.assertEqual(answers[2]["remaining"], 2)
        self.assertEqual(answers[3], "PONG")
        self.assertIsInstance(answers[5], server.Error)
        self.assertEqual(answers[6]["remaining"], 8)

    def test_half_closed_clients_get_their_answers(self):
        weir = self.serve("--fsync", "always")
        client = self.client(weir)
        client.raw(b"".join(server.encode("WEIR.TAKE", "day", "k") for _ in range(12)))
        client.finish()
        self.assertEqual([client.read()[1] for _ in range(12)], [1] * 10 + [0] * 2)
        self.assertEqual(client.rest(), b"")


class Told(Kept):
    def test_start_says_where_it_is_kept(self):
        weir = self.serve("--fsync", "always")
        self.assertRegex(weir.wait_line("event=data"), rf"data={re.escape(self.data)} fsync=always")
        self.assertEqual(stat.S_IMODE(os.stat(self.data).st_mode), 0o700)

    def test_a_path_is_seen_from_where_it_was_started(self):
        weir = self.start("--data", "here", config=CONFIG)
        self.assertTrue(os.path.isdir(os.path.join(weir.folder.name, "here")))

    def test_variables(self):
        weir = self.start(config=CONFIG, env={"WEIR_DATA": self.data, "WEIR_FSYNC": "never"})
        self.assertRegex(weir.wait_line("event=data"), "fsync=never")

    def test_info(self):
        weir = self.serve("--fsync", "always")
        client = self.client(weir)
        client.ask("WEIR.TAKE", "day", "k")
        info = client.ask("INFO", "persistence")
        self.assertIn(self.data, info)
        self.assertIn("always", info)
        none = self.client(self.start(config=CONFIG)).ask("INFO", "persistence")
        self.assertNotIn(self.data, none)


    def test_what_to_try_changes_nothing_that_was_recovered(self):
        weir = self.serve("--test-clock", config=None)
        self.assertIn("WEIR.POLICY SET api", weir.wait_line("event=ready"))
        self.client(weir).ask("WEIR.POLICY", "SET", "mine", "20/d")
        weir = self.again(weir, "end", "--test-clock", config=None)
        self.assertRegex(weir.wait_line("event=ready"), 'try="redis-cli -p [0-9]+ WEIR.TAKE mine some-key"')
        self.assertIn("policies=1", weir.wait_line("event=loaded"))

    def test_fsync_without_a_directory(self):
        self.assertIn("whatever fsync says", self.start("--fsync", "always").wait_line("event=data"))


class Away(Kept):
    """The directory is renamed, or another one takes its place, while it is used. (A disk is tried again by the
    clock, which has to run.)"""

    def begin(self, *arguments):
        weir = self.serve(*arguments)
        self.assertEqual(self.client(weir, version=3).ask("WEIR.TAKE", "day", "k", "4")["remaining"], 6)
        os.rename(self.data, self.data + ".away")
        self.assertIn("was removed or replaced", weir.wait_line("event=store-ill"))
        return weir

    def test_nothing_is_decided_until_it_is_back(self):
        weir = self.begin()
        client = self.client(weir, version=3)
        for words in ("WEIR.TAKE day k", "WEIR.TAKE day k 1 ID 7", "WEIR.ACQUIRE day k", "WEIR.RESERVE tokens k 1",
                      "CL.THROTTLE cl 9 10 60", "RL.REDUCE rl 7 60", "WEIR.POLICY SET day 20/d"):
            self.assertRegex(client.ask(*words.split()), "^UNAVAILABLE the disk does not take anything")
        self.assertIn("store_status:ill", client.ask("INFO", "persistence"))
        os.rename(self.data + ".away", self.data)
        weir.wait_line("event=store-well")
        self.assertEqual(client.ask("WEIR.TAKE", "day", "k")["remaining"], 5)
        weir = self.again(weir, "kill")
        self.assertEqual(self.client(weir, version=3).ask("WEIR.PEEK", "day", "k")["remaining"], 5)

    def test_the_kill_switch_works_meanwhile(self):
        weir = self.begin()
        client = self.client(weir, version=3)
        later = "OK; in force now, and recorded when the disk has recovered"
        self.assertEqual(client.ask("WEIR.POLICY", "MODE", "*", "shadow"), later)
        for words in (("WEIR.TAKE", "day", "k", "7"), ("WEIR.TAKE", "ring", "k", "1", "AND", "day", "k", "7", "ID", "1"),
                      ("WEIR.ACQUIRE", "day", "k", "7", "TIMEOUT", "0"), ("WEIR.RESERVE", "day", "k", "7")):
            verdict = client.ask(*words)
            self.assertEqual((verdict["allowed"], verdict["reason"]), (True, "shadow"), words)
        self.assertEqual(client.ask("WEIR.POLICY", "MODE", "*", "disabled"), later)
        self.assertEqual(client.ask("WEIR.TAKE", "shut", "k")["reason"], "disabled")
        self.assertEqual(client.ask("WEIR.POLICY", "MODE", "*", "enforce"), later)
        self.assertRegex(client.ask("WEIR.TAKE", "day", "k"), "^UNAVAILABLE ")
        self.assertEqual(client.ask("WEIR.POLICY", "MODE", "ring", "disabled"), later)  # one of them alone
        self.assertEqual(client.ask("WEIR.TAKE", "ring", "k", "9")["reason"], "disabled")
        self.assertRegex(client.ask("WEIR.TAKE", "ring", "k", "1", "AND", "day", "k"), "^UNAVAILABLE ")
        said = subprocess.run([server.WEIR, "policy", "mode", "--all", "shadow", "-s", weir.url()], capture_output=True,
                              text=True, timeout=server.PATIENCE)
        self.assertEqual(said.stdout.split("\n")[0], later[len("OK; "):] + ":", said.stderr)
        self.assertTrue(said.stdout.split("\n")[1].startswith("all policies are shadow"))
        os.rename(self.data + ".away", self.data)
        weir.wait_line("event=store-well")
        self.assertEqual(client.ask("WEIR.TAKE", "day", "k")["remaining"], 5)  # nothing was charged meanwhile
        weir = self.again(weir, "end")
        weir.wait_line("level=warn event=mode-of-all mode=shadow ")
        client = self.client(weir, version=3)
        self.assertEqual(client.ask("WEIR.TAKE", "shut", "k")["reason"], "shadow")
        self.assertEqual(client.ask("WEIR.POLICY", "MODE", "*", "enforce"), "OK")
        self.assertFalse([line for line in self.again(weir, "end").lines if "event=mode-of-all" in line])

    def test_a_stop_waits_for_it(self):
        weir = self.begin("--drain-ms", "15000")  # the longer it was ill, the less often it tries
        weir.signal(signal.SIGTERM)
        weir.wait_line("event=stopping")
        os.rename(self.data + ".away", self.data)
        self.assertEqual(weir.wait(), 0, weir.lines)

    def test_a_stop_does_not_wait_for_ever(self):
        weir = self.begin("--drain-ms", "300")
        weir.signal(signal.SIGTERM)
        self.assertEqual(weir.wait(), 2, weir.lines)
        began, ended = (datetime.datetime.fromisoformat(re.search("time=([^Z]*)", weir.wait_line(event)).group(1))
                        for event in ("event=stopping", "event=stopped"))
        self.assertGreaterEqual((ended - began).total_seconds(), 0.29)  # nobody waits, but what memory has may be saved
        self.assertTrue(any("event=store-not-closed" in line and "removed or replaced" in line for line in weir.lines))


class Refused(Kept):
    def refuse(self, *arguments, status=2):
        done = subprocess.run([server.WEIR, "serve", "--resp", "127.0.0.1:0", *arguments], capture_output=True,
                              text=True, env=server.environment(), timeout=server.PATIENCE, stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("weir serve: "), done.stderr)
        return done.stderr

    def test_a_limit_on_the_size_of_files(self):
        """RLIMIT_FSIZE: a file that may not grow is a disk that takes nothing, and no reason to die."""
        most = 64 << 10
        weir = self.serve("--fsync", "always", config=CONFIG, before=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (most, most)))
        client = self.client(weir, version=3)
        end = time.monotonic() + server.PATIENCE
        while not any("event=store-ill" in line for line in weir.lines) and time.monotonic() < end:
            client.pipeline(*(("WEIR.TAKE", "day", f"k{i}") for i in range(200)))
        self.assertIn("File too large", weir.wait_line("event=store-ill"))
        self.assertEqual(client.ask("PING"), "PONG")
        self.assertIsNone(weir.process.poll())

    def test_a_second_server(self):
        weir = self.serve()
        told = self.refuse("--data", self.data)
        self.assertIn(self.data, told)
        self.assertIn(str(weir.process.pid), told)
        self.assertEqual(self.client(weir).ask("PING"), "PONG")

    def test_where_nothing_can_be_written(self):
        if os.geteuid() == 0:
            self.skipTest("root may write anywhere")
        os.mkdir(self.data, 0o500)
        self.assertIn(self.data, self.refuse("--data", self.data))

    def test_no_such_place(self):
        self.assertIn("/nowhere/at/all", self.refuse("--data", "/nowhere/at/all"))
        with open(self.data, "w", encoding="ascii"):
            pass
        self.assertIn(self.data, self.refuse("--data", self.data))

    def test_a_directory_of_others(self):
        os.mkdir(self.data, 0o700)  # or there would be a warning as well
        with open(os.path.join(self.data, "main.c"), "w", encoding="ascii"):
            pass
        self.assertIn("none of them is weir's", self.refuse("--data", self.data))
        self.assertEqual(os.listdir(self.data), ["main.c"])

    def test_another_clock(self):
        for first, then in (((), ("--test-clock",)), (("--test-clock",), ())):
            with self.subTest(first=first):
                self.setUp()
                weir = self.serve(*first)
                self.client(weir).ask("WEIR.TAKE", "day", "k", "4")
                weir.stop()
                self.assertIn("with --test-clock", self.refuse("--data", self.data, *then))
                weir = self.serve(*first)
                self.assertEqual(self.client(weir, version=3).ask("WEIR.PEEK", "day", "k")["remaining"], 6)

    def test_words(self):
        self.assertIn("--data takes a path", self.refuse("--data="))
        self.assertEqual(self.refuse("--fsync", "sometimes"),
                         "weir serve: --fsync takes always, everysec or never, not 'sometimes'\n")

    def test_a_port_in_use_is_told_before_anything_is_read(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = subprocess.run([server.WEIR, "serve", "--resp", f"127.0.0.1:{port}", "--data", self.data],
                                  capture_output=True, text=True, env=server.environment(), timeout=server.PATIENCE,
                                  stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is in use", done.stderr)
        self.assertFalse(os.path.exists(self.data))


class Loading(Kept):
    LOADING = "LOADING weir is reading its data directory; try again soon"

    def first_answers(self, weir):
        """What clients are told from the start of a server until it serves."""
        told = set()
        while "PONG" not in told:
            try:
                with server.Client(weir.path) as client:
                    told.add(client.ask("PING"))
            except (FileNotFoundError, ConnectionError):
                self.assertIsNone(weir.process.poll(), weir.lines)
        return told

    def test_clients_that_come_too_early_are_told(self):
        weir = self.serve(config=None)
        with weir.connect() as client:
            client.socket.sendall(server.encode("CL.THROTTLE", "key", "9", "10", "86400") * 20000)  # makes a long log
            for _ in range(20000):
                client.read()
        told = set()
        for _ in range(50):  # it takes a moment to read, in which a client has to come
            weir = self.again(weir, "kill", config=None, tcp=False, unix=True, ready=False)
            told |= self.first_answers(weir)
            if self.LOADING in told:
                break
        self.assertEqual(told, {self.LOADING, "PONG"})


class Ends(Kept):
    def test_an_end_waits_for_what_was_asked(self):
        weir = self.serve("--fsync", "always")
        client = self.client(weir)
        client.raw(b"".join(server.encode("WEIR.TAKE", "day", f"k{i}") for i in range(500)))
        self.assertEqual(client.read()[1], 1)
        weir.signal(signal.SIGTERM)
        self.assertEqual([client.read()[1] for _ in range(499)], [1] * 499)
        self.assertEqual(weir.wait(), 0)
        self.assertTrue(any("event=stopped" in line for line in weir.lines))


if __name__ == "__main__":
    server.main()
