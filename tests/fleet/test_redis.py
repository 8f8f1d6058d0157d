#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Redis as coordinator: every step by hand (tests/fleet/place.c), processes as nodes of a fleet, failover that forgets,
a cluster whose slots move, servers that answer rubbish, exact mode."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import fleet  # noqa: E402
from judge import MS, Verdict, Window  # noqa: E402
from judge_bucket import BucketVerdict, Law  # noqa: E402
from network import Proxy  # noqa: E402
from redises import Redises, server, wait_until  # noqa: E402

TESTS = pathlib.Path(os.environ.get("WEIR_BUILD", str(server.ROOT / "build" / "release"))) / "tests"
MINUTE = "1k/m algo=quota"  # in chunks of 10
SHORT = "answer=800ms&connect=2s"  # patience with servers that do not answer
TAKEN = "WRONGTYPE: weir:{pool}:quota holds what is not weir's; look at it, then DEL it"


class Place:
    """A place of the coordinator: says orders, reads replies as dictionaries."""

    def __init__(self, test, url, name="pool", limit=MINUTE, patience="answer=20s&connect=20s"):
        url += ("&" if "?" in url else "?") + "base=10&" + patience
        self.process = subprocess.Popen([TESTS / "fleet-place", url, name, limit], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        test.addCleanup(self.close)
        self.said = []

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(timeout=server.PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.returncode not in (0, 1):  # a sanitizer has something to say
            raise AssertionError(f"status {self.process.returncode}: {self.process.stderr.read()}")
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()

    def failure(self):
        """Why it could not be opened."""
        assert self.process.wait(timeout=server.PATIENCE) == 1
        return self.process.stderr.read()

    def line(self, start):
        for line in iter(self.process.stdout.readline, ""):
            self.said.append(line.rstrip("\n"))
            if line.split()[0] == start.split()[0]:
                assert line.startswith(start), line
                return line.rstrip("\n")
        raise AssertionError(f"it ended without '{start}': {self.said} {self.process.stderr.read()}")

    def ready(self):
        self.line("ready")
        return self

    def ask(self, text, start):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        words = self.line(start).split(" note=")[0].split()
        pairs = (word.split("=", 1) for word in words if "=" in word)
        return {name: int(value) if value.lstrip("-").isdigit() else value for name, value in pairs}

    def order(self, text):
        return self.ask(text, "reply")

    def quota(self, text):
        return self.ask(text, "quota ok")

    def decide(self, text):
        return self.ask("decide " + text, "decided ok")

    def take(self, chunks=1):
        return self.order(f"take {chunks}")


class Door(Proxy):
    """A name in front of a server, which may lead to another one later; remembers when somebody came."""

    def __init__(self, test, port):
        self.times = []
        super().__init__(("127.0.0.1", port))
        self.url = f"redis://127.0.0.1:{self.address[1]}"
        test.addCleanup(self.close)

    def accept(self):
        self.times.append(time.monotonic())
        super().accept()


class RedisTest(unittest.TestCase):
    def servers(self, **settings):
        redis = Redises(**settings)
        redis.__enter__()
        self.addCleanup(redis.close)
        return redis

    def place(self, url, *arguments, **settings):
        return Place(self, url, *arguments, **settings).ready()

    def since(self, began):
        """Milliseconds that have passed, at most."""
        return 1000 * (time.monotonic() - began) + 10

    def vouched(self, redis, query="", **settings):
        """A place of a pool that an operator has made: it has all of its units at once."""
        place = self.place(redis.url(query), **settings)
        place.quota("create " + settings.get("limit", MINUTE))
        return place

    def assertVoid(self, reply):
        self.assertEqual((reply["outcome"], reply["units"], reply["left"], reply["exhausted"]), ("done", 0, 0, 1), reply)


class Late(RedisTest):
    """Who is started before Redis is."""

    def weir(self, redis, on_loss):
        weir = server.Server(config=f"""\
policies:
  - name: pool
    limits: [1k/s algo=quota]
    fleet: {{coordinator: "{redis.url()}", lost_after: 100ms, wait: 10ms, nodes: 4, on_loss: {on_loss}}}
""")
        self.addCleanup(weir.clean)
        client = weir.connect(version=3)
        self.addCleanup(client.close)
        return weir, client

    def test_a_server_refuses_or_shares_and_joins_by_itself(self):
        redis = Redises()
        self.addCleanup(redis.close)
        for on_loss, reason in (("refuse", "lost"), ("share", "ok")):
            weir, client = self.weir(redis, on_loss)
            weir.wait_line("event=fleet-lost .*policy=pool")
            self.assertEqual(client.ask("PING"), "PONG")
            wait_until(lambda: client.ask("WEIR.TAKE", "pool", "a")["reason"] == reason)
            redis.start(0)
            redis.wait_ready(0)
            weir.wait_line("event=fleet-restored .*policy=pool")
            wait_until(lambda: client.ask("WEIR.TAKE", "pool", "a")["allowed"])
            self.assertTrue(redis.ask(0, "KEYS", "*pool*"))
            redis.kill9(0)


class Orders(RedisTest):
    @classmethod
    def setUpClass(cls):
        cls.redis = Redises()
        cls.redis.__enter__()
        cls.addClassCleanup(cls.redis.close)

    def setUp(self):
        self.redis.ask(0, "FLUSHALL")

    def test_a_window_from_its_beginning_to_its_end(self):
        place = self.vouched(self.redis)
        first = place.take(3)
        self.assertEqual((first["outcome"], first["chunks"], first["units"], first["left"]), ("done", 3, 30, 970))
        self.assertGreaterEqual(first["age"], 0)
        self.assertEqual(first["ends"], -1)
        back = place.order(f"return {first['epoch']} 2")
        self.assertEqual((back["outcome"], back["chunks"], back["left"]), ("done", 2, 990))
        rest = place.take(200)
        self.assertEqual((rest["units"], rest["left"], rest["exhausted"]), (990, 0, 1))
        self.assertEqual(place.take()["units"], 0)
        self.assertEqual(place.order("turn 5 10")["outcome"], "moved")
        self.assertEqual(place.order("return 5 1")["outcome"], "moved")
        turned = place.order(f"turn {first['epoch']} 20")
        self.assertEqual((turned["outcome"], turned["left"], turned["chunk"], turned["age"]), ("done", 1000, 20, 0))
        self.assertGreater(turned["epoch"], first["epoch"])
        self.assertEqual(place.order(f"turn {first['epoch']} 20")["outcome"], "moved")
        self.assertEqual(place.order(f"return {first['epoch']} 1")["outcome"], "moved")
        self.assertEqual(place.order(f"probe {turned['epoch']}")["epoch"], turned["epoch"])
        self.assertEqual(place.take(90)["units"], 1000)

    def test_two_nodes_share_a_pool(self):
        one, other = self.vouched(self.redis), self.place(self.redis.url())
        self.assertEqual(one.take(4)["units"], 40)
        self.assertEqual(other.take(97)["units"], 960)
        self.assertEqual(one.take()["units"], 0)

    def test_an_operator_looks_and_changes(self):
        place = self.vouched(self.redis)
        self.assertEqual(place.quota("create 5/s algo=quota")["next"], 1000)  # there is one already
        epoch = place.take(3)["epoch"]
        shown = place.quota("show")
        self.assertEqual((shown["found"], shown["used"], shown["left"], shown["epoch"]), (1, 3, 970, epoch))
        self.assertEqual(place.quota("set 2k/m algo=quota")["next"], 2000)
        self.assertEqual(place.take(99)["units"], 970)  # of this window
        self.assertEqual(place.order(f"turn {epoch} 10")["left"], 2000)
        self.assertEqual(self.redis.ask(0, "PTTL", "weir:{pool}:quota"), -1)
        self.assertIn("name pool", place.ask("list", "quota ok") and place.said)
        self.assertEqual(place.quota("delete")["found"], 1)
        self.assertEqual(place.quota("show")["found"], 0)
        self.assertVoid(self.place(self.redis.url()).take())  # some may still be spent

    def test_what_nobody_made_expires_and_what_is_new_waits_for_the_server_to_settle(self):
        place = self.place(self.redis.url())
        self.assertVoid(place.take())  # a minute may be older than this server
        self.assertGreater(self.redis.ask(0, "PTTL", "weir:{pool}:quota"), 3_600_000)
        wait_until(lambda: int(self.redis.ask(0, "INFO", "server").split("uptime_in_seconds:")[1].split()[0]) > 2)
        self.assertEqual(self.place(self.redis.url(), "short", limit="1k/100ms algo=quota").take()["units"], 10)

    def test_a_pool_that_is_deleted_begins_in_doubt(self):
        place = self.vouched(self.redis, limit="1k/10s algo=quota")
        epoch = place.take(4)["epoch"]
        self.redis.ask(0, "DEL", "weir:{pool}:quota")
        reply = place.take()
        self.assertVoid(reply)
        self.assertGreater(reply["epoch"], epoch)

    def test_a_pool_that_went_back_in_time_begins_in_doubt(self):
        """As a backup that is restored into a server that goes on."""
        place = self.vouched(self.redis)
        before = place.take(2)["epoch"]
        old = self.redis.ask(0, "HGETALL", "weir:{pool}:quota")
        turned = place.order(f"turn {before} 10")["epoch"]
        place.take(2)
        self.redis.ask(0, "HSET", "weir:{pool}:quota", *old)
        reply = place.take()
        self.assertVoid(reply)
        self.assertGreater(reply["epoch"], turned)

    def test_a_copy_of_the_same_epoch_that_is_put_back_is_noticed_by_who_has_seen_more(self):
        place = self.vouched(self.redis)
        place.take(3)
        old = self.redis.ask(0, "HGETALL", "weir:{pool}:quota")
        place.take(5)
        self.redis.ask(0, "HSET", "weir:{pool}:quota", *old)
        reply = place.take(100)
        self.assertVoid(reply)
        self.assertEqual(place.order(f"turn {reply['epoch']} 10")["left"], 1000)

    def test_made_anew_by_an_operator_while_somebody_holds_units(self):
        place = self.vouched(self.redis)
        place.take(3)
        self.redis.ask(0, "DEL", "weir:{pool}:quota")
        place.quota("create " + MINUTE)
        self.assertVoid(place.take())

    def test_an_epoch_far_ahead_of_all_clocks_locks_nobody_out(self):
        for value in (9_000_000_000_000_000, 8_999_999_999_999_999, (1 << 53) - 1):
            with self.subTest(value=value):
                self.redis.ask(0, "FLUSHALL")
                place = self.vouched(self.redis)
                place.take(3)
                self.redis.ask(0, "HSET", "weir:{pool}:quota", "epoch", value)
                reply = place.take()
                self.assertVoid(reply)
                turned = place.order(f"turn {reply['epoch']} 10")
                self.assertEqual((turned["outcome"], turned["left"]), ("done", 1000))
                self.assertEqual(place.take(2)["units"], 20)
                place.close()

    def test_a_clock_that_steps_back_tells_no_age(self):
        place = self.vouched(self.redis)
        place.take()
        self.redis.ask(0, "HSET", "weir:{pool}:quota", "last", 8_000_000_000_000_000)
        reply = place.take()
        self.assertEqual((reply["units"], reply["age"]), (10, -1))

    def test_what_an_operator_writes_by_hand_mints_nothing(self):
        for field, value in (("of", "rubbish"), ("used", "-5"), ("used", "1e3"), ("epoch", "x"), ("began", ""),
                             ("count", "99999999999"), ("returned", "77"), ("run", ""), ("of", "quota 1 2 3 4 5")):
            with self.subTest(field=field, value=value):
                self.redis.ask(0, "FLUSHALL")
                place = self.vouched(self.redis)
                place.take(3)
                self.redis.ask(0, "HSET", "weir:{pool}:quota", field, value)
                self.assertVoid(place.take())
                place.close()

    def test_terms_that_do_not_fit_leave_the_last_ones_in_force(self):
        place = self.vouched(self.redis)
        epoch = place.take()["epoch"]
        self.redis.ask(0, "HSET", "weir:{pool}:quota", "total", "lots")
        self.assertIn("fit", (place.quota("show"), place.said[-1])[1])
        self.assertEqual(place.order(f"turn {epoch} 10")["left"], 1000)

    def test_terms_that_no_node_would_understand_are_not_begun_with(self):
        for limit, field, value in ((MINUTE, "window", 31_700_000_000_000_000), ("1k/s burst=200", "total", 10 ** 9)):
            with self.subTest(limit=limit):
                self.redis.ask(0, "FLUSHALL")
                place = self.vouched(self.redis, limit=limit)
                epoch = place.take()["epoch"]
                self.redis.ask(0, "HSET", "weir:{pool}:quota", field, value)
                self.assertIn(place.order(f"turn {epoch} 10")["outcome"], ("done", "failed"))
                self.assertEqual(place.take()["units"], 10)
                place.close()

    def test_an_empty_window_lasts_as_long_as_what_was_given_out(self):
        place = self.vouched(self.redis, limit="1k/h algo=quota")
        place.take(3)
        place.quota("set 1k/s algo=quota")
        for _ in range(2):
            self.redis.ask(0, "HSET", "weir:{pool}:quota", "run", "another")
            reply = place.take()
            self.assertVoid(reply)
            self.assertEqual(reply["window"], 3_600_000 * MS)
        turned = place.order(f"turn {reply['epoch']} 10")
        self.assertEqual((turned["left"], turned["window"]), (1000, 1000 * MS))

    def test_a_bucket_in_doubt_goes_on_waiting_for_the_one_before(self):
        place = self.vouched(self.redis, limit="1k/s burst=1M")
        place.take(3)
        place.quota("set 1k/s burst=100")
        self.assertGreater(place.take()["retry"], 100_000 * MS)  # an eighth of a life is left of the next ticket
        self.redis.ask(0, "HSET", "weir:{pool}:quota", "run", "another")
        self.assertGreater(place.take()["retry"], 100_000 * MS)

    def test_what_is_made_anew_waits_for_what_was_deleted(self):
        for limit, field in (("1k/s algo=quota", "window"), ("1k/s burst=100", "retry")):
            with self.subTest(limit=limit):
                self.redis.ask(0, "FLUSHALL")
                place = self.vouched(self.redis, limit="1k/h algo=quota")
                place.take(3)
                for _ in range(2):
                    place.quota("delete")
                    self.assertGreater(self.redis.ask(0, "PTTL", "weir:{pool}:quota"), 2 * 3_590_000)
                    place.quota("create " + limit)
                reply = self.place(self.redis.url(), limit=limit).take()
                self.assertEqual(reply["units"], 0)
                self.assertGreater(reply[field], 3_590_000 * MS)
                place.close()

    def test_the_mark_of_a_bucket_stays_until_its_tickets_have_died(self):
        place = self.vouched(self.redis, limit="1k/s burst=100k")
        place.take(3)
        place.quota("delete")
        self.assertGreater(self.redis.ask(0, "PTTL", "weir:{pool}:quota"), 2 * 90_000)

    def test_another_kind_of_key_is_told(self):
        self.redis.ask(0, "SET", "weir:{pool}:quota", "mine")
        place = self.place(self.redis.url())
        self.assertEqual(place.take()["outcome"], "failed")
        self.assertTrue(any(TAKEN in line for line in place.said if line.startswith("troubled")), place.said)

    def test_scripts_that_were_flushed_are_sent_again(self):
        place = self.vouched(self.redis)
        self.redis.ask(0, "SCRIPT", "FLUSH")
        self.assertEqual(place.take()["units"], 10)

    def test_scripts_that_a_server_would_not_keep_at_first_are_not_sent_for_ever(self):
        self.addCleanup(self.redis.ask, 0, "ACL", "SETUSER", "default", "+@all")
        self.redis.ask(0, "ACL", "SETUSER", "default", "-script")
        place = self.vouched(self.redis)
        self.assertEqual(place.take()["units"], 10)
        self.redis.ask(0, "ACL", "SETUSER", "default", "+@all")
        self.redis.ask(0, "CONFIG", "RESETSTAT")
        wait_until(lambda: (place.take(0), "cmdstat_evalsha:" in self.redis.ask(0, "INFO", "commandstats"))[1])

    def test_a_bucket(self):
        limit = "100/s burst=200"
        place = self.place(self.redis.url("failover=trust"), limit=limit)
        granted, retry, began = 0, 0, time.monotonic()
        while not retry:
            reply = place.take(50)
            self.assertEqual(reply["outcome"], "done")
            granted += reply["units"]
            self.assertTrue(reply["units"] == 0 or 0 <= reply["starts"] < reply["ends"], reply)
            retry = reply["retry"] if not reply["units"] else 0
        self.assertGreaterEqual(granted, 150)
        self.assertLessEqual(granted, 200 + 250 + self.since(began) / 10)  # what may be asked for ahead, and has come
        self.assertEqual(place.order(f"turn {reply['epoch']} 10")["outcome"], "failed")
        self.redis.ask(0, "HSET", "weir:{pool}:quota", "last", 8_000_000_000_000_000)
        later = self.place(self.redis.url(), limit=limit).take(5)
        self.assertEqual(later["units"], 0)
        self.assertGreater(later["retry"], 1500 * MS)  # until all that was given out has died

    def test_exact_mode(self):
        place = self.place(self.redis.url())
        began = time.monotonic()
        self.assertEqual(place.decide("k 5 5/m")["remaining"], 0)
        refused = place.decide("k 1 5/m")
        self.assertEqual((refused["allowed"], refused["reason"]), (0, "later"))
        self.assertTrue(12_000 - self.since(began) < refused["retry"] / MS <= 12_000, refused)
        self.assertEqual(place.decide("k 6 5/m")["reason"], "never")
        lives_ms = self.redis.ask(0, "PTTL", "weir:exact:bucket:1:12000000:5:k")
        self.assertTrue(60_000 - self.since(began) < lives_ms <= 60_001, lives_ms)
        place.process.stdin.write("decide k 1 5/m algo=sliding-log\n")
        place.process.stdin.flush()
        self.assertIn("failed exact mode decides by", place.line("decided"))

    def test_limits_of_exact_mode_do_not_share_what_a_key_has_spent(self):
        place = self.place(self.redis.url())
        self.assertEqual(place.decide("k 100 10/s burst=100")["allowed"], 1)
        self.assertEqual(place.decide("k 100 1/s burst=100")["remaining"], 0)  # its own burst, and no more
        self.assertTrue(place.decide("k 90 1/s burst=100")["retry"] > 70_000 * MS)
        self.assertEqual(place.decide("k 50 60/m burst=100")["allowed"], 0)  # the same limit in other words
        self.assertEqual(place.decide("k 10 10/m algo=fixed-window")["allowed"], 1)
        self.assertEqual(place.decide("k 1 10/s burst=50")["allowed"], 1)
        self.redis.ask(0, "SET", "weir:exact:bucket:1:100000:50:k", f"{60 * 100_000} {8 * 10 ** 15}")  # by hand
        refused = place.decide("k 1 10/s burst=50")
        self.assertEqual((refused["allowed"], refused["reason"], refused["remaining"]), (0, "later", 0))

    def test_exact_mode_decides_as_the_core_does(self):
        steps, seed = os.environ.get("WEIR_EXACT_STEPS", "100000"), os.environ.get("WEIR_SEED", "1")
        command = [TESTS / "fleet-exact", str(self.redis.ports[0]), steps, seed]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_pools_are_kept_as_the_core_keeps_them_and_the_law_holds(self):
        steps, seed = os.environ.get("WEIR_SCRIPT_STEPS", "20000"), os.environ.get("WEIR_SEED", "1")
        command = [TESTS / "fleet-scripts", str(self.redis.ports[0]), steps, seed]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Failover(RedisTest):
    def fail_over(self, query, **settings):
        """A replica that has not seen the last five chunks becomes the master."""
        redis = self.servers(replicas=1, **settings)
        place = self.vouched(redis, query)
        place.take(3)
        wait_until(lambda: redis.ask(1, "HGET", "weir:{pool}:quota", "used") == "3")
        redis.cut_off(1)
        self.assertEqual(place.take(5)["units"], 50)
        redis.kill9(0)
        redis.promote(1)
        wait_until(lambda: place.take(0)["outcome"] == "done")
        return place

    def test_what_it_forgot_is_not_given_out_again(self):
        place = self.fail_over("failover=wait")
        reply = place.take(10)
        self.assertVoid(reply)
        self.assertEqual(place.order(f"turn {reply['epoch']} 10")["left"], 1000)

    def test_clocks_that_are_hours_apart(self):
        """Epochs have higher numbers all the same, or nodes would take a new one for one that is over."""
        place = self.fail_over("failover=wait", wall=[1, -1])
        before = next(line for line in place.said if " op=take " in line).split("epoch=")[1].split()[0]
        reply = place.take(10)
        self.assertVoid(reply)
        self.assertGreater(reply["epoch"], int(before))
        turned = place.order(f"turn {reply['epoch']} 10")
        self.assertEqual((turned["outcome"], turned["left"]), ("done", 1000))
        self.assertGreater(turned["epoch"], reply["epoch"])

    def test_trust_gives_out_again_what_it_forgot_and_no_more(self):
        self.assertEqual(self.fail_over("failover=trust").take(100)["units"], 1000 - 30)  # 50 of them once more

    def there_and_back(self, redis):
        """The replica becomes the master, its old master follows it and is promoted again: one process all the time."""
        redis.follow(0, 1)
        redis.promote(0)

    def test_there_and_back_again(self):
        redis = self.servers(replicas=1)
        place = self.place(redis.url(which=[0]))
        place.quota("create " + MINUTE)
        place.take(3)
        wait_until(lambda: redis.ask(1, "HGET", "weir:{pool}:quota", "used") == "3")
        redis.promote(1)
        self.assertEqual(place.take(5)["units"], 50)  # of one that does not know yet
        self.there_and_back(redis)
        self.assertEqual(redis.ask(0, "HGET", "weir:{pool}:quota", "used"), "3")
        self.assertIn("empty", (place.quota("show"), place.said[-1])[1])
        reply = self.place(redis.url(which=[0])).take(100)  # somebody who has seen nothing
        self.assertVoid(reply)
        self.assertEqual(place.order(f"turn {reply['epoch']} 10")["left"], 1000)

    def test_there_and_back_again_with_what_an_operator_has_made(self):
        redis = self.servers(replicas=1)
        place = self.place(redis.url(which=[0]))
        place.quota("create " + MINUTE)
        wait_until(lambda: redis.ask(1, "HEXISTS", "weir:{pool}:quota", "vouched") == 1)
        redis.promote(1)
        self.assertEqual(place.take(100)["units"], 1000)
        self.there_and_back(redis)
        self.assertVoid(self.place(redis.url(which=[0])).take())

    def test_a_server_that_lost_everything(self):
        redis = self.servers()
        place = self.vouched(redis)
        place.take(3)
        redis.kill9(0)
        self.assertNotEqual(place.take()["outcome"], "done")
        redis.restart(0)
        wait_until(lambda: place.take(0)["outcome"] == "done")
        self.assertFalse(any(line.startswith("troubled") for line in place.said), place.said)  # it was not there
        self.assertVoid(place.take())
        self.assertVoid(self.place(redis.url()).take())

    def test_who_knows_how_long_units_live_tells_a_server_that_lost_everything(self):
        """The pool keeps its own window, whatever nodes were told."""
        redis = self.servers()
        one, other = (self.place(redis.url(), limit="1k/s algo=quota") for _ in range(2))
        one.quota("create 1k/h algo=quota")
        self.assertEqual(one.take()["window"], 3_600_000 * MS)
        other.order("probe 1")
        redis.restart(0)
        wait_until(lambda: other.take(0)["outcome"] == "done")
        reply = other.take()
        self.assertVoid(reply)
        self.assertEqual(reply["window"], 3_600_000 * MS)
        self.assertEqual(other.order(f"turn {reply['epoch']} 10")["window"], 1000 * MS)

    def test_a_replica_that_became_a_master_does_not_believe_that_a_pool_is_new(self):
        redis = self.servers(replicas=1)
        redis.kill9(0)
        redis.promote(1)
        wait_until(lambda: int(redis.ask(1, "INFO", "server").split("uptime_in_seconds:")[1].split()[0]) > 2)
        self.assertVoid(self.place(redis.url(), limit="1k/100ms algo=quota").take())

    def test_a_replica_alone_is_no_coordinator(self):
        redis = self.servers(replicas=1)
        place = self.place(redis.url(which=[1]))
        self.assertEqual(place.take()["outcome"], "failed")
        self.assertTrue(any("READONLY" in line for line in place.said), place.said)

    def test_a_replica_that_takes_writes_is_no_coordinator_either(self):
        redis = self.servers(replicas=1, arguments=["--replica-read-only", "no"])
        place = self.place(redis.url(which=[1]))
        self.assertEqual(place.take()["outcome"], "failed")
        self.assertEqual(redis.ask(1, "EXISTS", "weir:{pool}:quota"), 0)
        self.vouched(redis)
        wait_until(lambda: redis.ask(1, "EXISTS", "weir:{pool}:quota") == 1)
        self.assertEqual(self.place(redis.url(which=[1])).quota("show")["found"], 1)

    def test_one_name_that_leads_to_whoever_is_the_master(self):
        """A virtual address, a name, a service: who connects anew reaches the new one."""
        redis = self.servers(replicas=1)
        proxy = Door(self, redis.ports[0])
        place = self.place(proxy.url)
        place.quota("create " + MINUTE)
        self.assertEqual(place.take()["units"], 10)
        redis.promote(1)
        redis.follow(0, 1)
        self.assertEqual(place.take()["outcome"], "failed")
        proxy.to = "127.0.0.1", redis.ports[1]
        wait_until(lambda: place.take(0)["outcome"] == "done")
        self.assertVoid(place.take())

    def test_one_name_that_leads_to_a_replica_is_tried_less_and_less_often(self):
        redis = self.servers(replicas=1)
        proxy = Door(self, redis.ports[1])
        self.assertEqual(self.place(proxy.url).take()["outcome"], "failed")
        wait_until(lambda: len(proxy.times) >= 5)
        self.assertGreater(proxy.times[4] - proxy.times[0], 2, proxy.times)  # 0.2, 0.4, 0.8, 1.6 s; one may be late

    def test_the_master_is_found_wherever_it_stands(self):
        redis = self.servers(replicas=2)
        self.assertEqual(self.vouched(redis).take()["units"], 10)
        self.assertEqual(self.place(redis.url(which=[2, 1])).take()["units"], 10)  # which name the master

    def test_a_master_that_stands_still(self):
        redis = self.servers(replicas=1)
        place = self.vouched(redis, patience=SHORT)
        place.take()
        redis.stop(0)
        self.assertEqual(place.take()["outcome"], "unknown")
        redis.promote(1)
        wait_until(lambda: place.take(0)["outcome"] == "done")
        self.assertVoid(place.take())


class Cluster(RedisTest):
    @classmethod
    def setUpClass(cls):
        cls.redis = Redises(cluster=3, arguments=["--cluster-node-timeout", "5000"])  # a busy machine is no failure
        cls.redis.__enter__()
        cls.addClassCleanup(cls.redis.close)

    def test_pools_on_all_servers(self):
        owners = set()
        for name in ("a", "b", "c", "d", "e", "f"):
            owners.add(self.redis.owner(name))
            place = self.place(self.redis.url(which=[0]), name)
            place.quota("create " + MINUTE)
            self.assertEqual(place.take(2)["units"], 20)
        self.assertEqual(owners, {0, 1, 2})
        self.assertTrue({f"name {name}" for name in "abcdef"} <= set((place.ask("list", "quota ok"), place.said)[1]))

    def test_a_slot_that_moves_while_it_is_used(self):
        redis, name = self.redis, "moving"
        slot, source = redis.slot(name), redis.owner(name)
        target = (source + 1) % 3
        place = self.place(redis.url(which=[0]), name)
        place.quota("create " + MINUTE)
        place.take(3)
        redis.ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", redis.id(source))
        redis.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", redis.id(target))
        key = "weir:{moving}:quota"
        self.assertEqual(redis.ask(source, "MIGRATE", "127.0.0.1", redis.ports[target], key, 0, 10_000), "OK")
        reply = place.take()  # ASK; to the other server it is somebody else's
        self.assertVoid(reply)
        turned = place.order(f"turn {reply['epoch']} 10")
        self.assertEqual((turned["outcome"], turned["left"]), ("done", 1000))
        for i in range(3):
            redis.ask(i, "CLUSTER", "SETSLOT", slot, "NODE", redis.id(target))
        self.assertEqual(place.take(2)["units"], 20)  # MOVED
        self.assertEqual(redis.ask(target, "HGET", key, "used"), "2")
        for i in range(3):  # back, for the other tests
            redis.ask(i, "CLUSTER", "SETSLOT", slot, "NODE", redis.id(source))
        redis.ask(target, "DEL", key)

    def test_a_server_that_is_away_grants_nothing(self):
        name = next(name for name in map(str, range(100)) if self.redis.owner(name) == 2)
        place = self.place(self.redis.url(), name)
        place.quota("create " + MINUTE)
        place.take(3)
        self.redis.kill9(2)
        reply = place.take()
        self.assertIn(reply["outcome"], ("failed", "unknown"))
        self.assertEqual(reply["units"], 0)
        self.assertTrue(any(line > "troubled why=" for line in place.said), place.said)  # the others are there
        self.redis.restart(2)
        wait_until(lambda: place.take(0)["outcome"] == "done")
        self.assertIn("troubled why=", place.said)
        self.assertVoid(place.take())

    def test_one_server_is_no_cluster(self):
        redis = self.servers()
        place = Place(self, redis.url().replace("redis:", "redis+cluster:"))
        self.assertIn("is it a cluster?", place.failure())


class Rubbish(RedisTest):
    """A server of the test's own: each request is answered by the next of its lines, then by the last one."""

    def serve(self, *answers, greeting=b"%0\r\n"):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        # Or a thread that still accepts would serve whatever socket gets this number next.
        self.addCleanup(listener.shutdown, socket.SHUT_RDWR)
        port = b"%d" % listener.getsockname()[1]

        def talk(connection):
            said = [greeting, *answers]
            with connection, connection.makefile("rb") as requests:
                while self.request(requests):
                    answer = said.pop(0) if len(said) > 1 else said[0]
                    if answer is None:
                        return
                    connection.sendall(answer.replace(b"PORT", port))

        def accept():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=self.quietly, args=(talk, connection), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        return f"redis://127.0.0.1:{port.decode()}"

    @staticmethod
    def request(stream):
        count = stream.readline()
        for _ in range(int(count[1:] or 0)):
            stream.read(int(stream.readline()[1:]) + 2)
        return count

    @staticmethod
    def quietly(talk, connection):
        try:
            talk(connection)
        except OSError:
            pass

    def test_nothing_is_granted_by_rubbish(self):
        grant = b"*12\r\n$1\r\n%s\r\n:0\r\n:77\r\n$27\r\nquota 100 60000000000 0 10 10\r\n:9\r\n:9\r\n:0\r\n:%d\r\n:0\r\n:0\r\n:0\r\n:0\r\n"
        for answer in (b"+OK\r\n", b":5\r\n", b"*0\r\n", b"-ERR no\r\n", b"-OOM no\r\n", b"-MOVED 1 127.0.0.1:1\r\n", b"$-1\r\n",
                       b"HTTP/1.1 200 OK\r\n\r\n", b"\0\0\0\0", None, b"*1000000000\r\n", b"-ASK 99999 x:1\r\n",
                       grant.replace(b"$27", b"$28") % (b"1", 2), grant.replace(b"$27", b"$28") % (b"7", 1)):
            with self.subTest(answer=answer):
                place = self.place(self.serve(b"+PONG\r\n", b"+no\r\n", answer), patience=SHORT)
                reply = place.take()
                self.assertEqual(reply["units"], 0, reply)
                self.assertIn(reply["outcome"], ("failed", "unknown"))
                place.close()

    def test_a_replica_in_the_words_of_redis_6(self):
        said = b"-ERR Error running script (call to f_" + 40 * b"0" + b"): @user_script:118: @user_script: 118: -READONLY No.\r\n"
        place = self.place(self.serve(b"+PONG\r\n", b"+no\r\n", said))
        self.assertEqual(place.take()["outcome"], "failed")
        self.assertTrue(any("it is a replica" in line for line in place.said), place.said)

    def test_another_kind_of_key_in_the_words_of_redis_6(self):
        said = b"-ERR Error running script (call to f_" + 40 * b"0" + b"): @user_script:34: -WRONGTYPE Operation against a key\r\n"
        place = self.place(self.serve(b"+PONG\r\n", b"+no\r\n", said))
        self.assertEqual(place.take()["units"], 0)
        self.assertTrue(any(TAKEN in line for line in place.said), place.said)

    def test_redirections_in_a_circle_end(self):
        place = self.place(self.serve(b"+PONG\r\n", b"+no\r\n", b"-MOVED 1 :PORT\r\n"))
        self.assertEqual(place.take()["outcome"], "failed")

    def test_who_cannot_be_reached_is_told_in_time(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            urls = [f"redis://127.0.0.1:{silent.getsockname()[1]}", "redis://127.0.0.1:1",
                    "redis://127.0.0.1:1,127.0.0.1:2", "redis+cluster://127.0.0.1:1", "redis://no-such-host.invalid"]
            began = time.monotonic()
            places = [Place(self, url, patience=SHORT) for url in urls]
            for url, place in zip(urls, places):
                self.assertIn("cannot reach " + url, place.failure())
            self.assertLess(time.monotonic() - began, server.PATIENCE)

    def test_wrong_passwords_and_words_are_told(self):
        redis = self.servers(arguments=["--requirepass", "secret"])
        host = f"127.0.0.1:{redis.ports[0]}"
        for scheme in "redis", "redis+cluster":
            self.assertIn(f": {host}: NOAUTH: it wants a password: {scheme}://:password@host (or user:password@)",
                          Place(self, f"{scheme}://{host}").failure())
        wrong = Place(self, f"redis://:nonsense@{host}").failure()
        self.assertIn("WRONGPASS", wrong)
        self.assertNotIn("nonsense", wrong)
        self.assertEqual(self.place(f"redis://:secret@{host}/3?failover=trust").take()["units"], 10)
        self.assertIn("failover=", Place(self, f"redis://{host}?failover=maybe").failure())
        self.assertIn("number of a database", Place(self, f"redis://{host}/three").failure())


class Fleet(RedisTest):
    """Processes as nodes; what they were let pass is held against the law by time. The number of an epoch is the time
    of the server at which it began, and the server's clock is the one of this machine."""

    def node(self, redis, limit, seed, time_ms, query=""):
        url = redis.url("base=20&nodes=4&lost_after=1s&answer=500ms&connect=30s" + query)
        node = subprocess.Popen([TESTS / "fleet-node", url, "pool", limit, "--for", str(time_ms), "--seed", str(seed)],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(node.kill)
        self.addCleanup(node.stdout.close)
        self.addCleanup(node.stderr.close)
        return node

    def takes(self, nodes):
        found = []
        for node in nodes:
            out, err = node.communicate(timeout=server.PATIENCE)
            self.assertIn(node.returncode, (0, -signal.SIGKILL), err)
            found += [(fleet.take_of(words), int(words[3])) for words in fleet.lines_of(out.splitlines(True), "T")]
        return sorted(found)

    def check_windows(self, takes, total):
        offset_ns = fleet.wall_offset_ns()
        windows = [Window(1000 * epoch + offset_ns, total, 20) for epoch in sorted({epoch for _, epoch in takes}) if epoch]
        verdict = Verdict(windows, [take for take, _ in takes], 2 * MS)
        self.assertEqual((verdict.over, verdict.wrong), ([], []), verdict.sums)
        return verdict.sums

    def test_windows_with_a_failover_that_forgets_and_a_node_that_dies(self):
        fleet.pass_enough(self.fail_over, 1900)

    def fail_over(self):
        """Gives the units of a window in the middle, in order of size."""
        redis = self.servers(replicas=1)
        limit = "2k/600ms algo=quota"
        self.place(redis.url(), limit=limit).quota("create " + limit)
        nodes = [self.node(redis, limit, seed, 4500) for seed in range(4)]
        time.sleep(1.2)
        nodes[0].kill()
        redis.cut_off(1)
        time.sleep(0.2)
        redis.kill9(0)
        redis.promote(1)
        sums = self.check_windows(self.takes(nodes), 2000)
        return sorted(sums)[len(sums) // 2] if len(sums) >= 4 else 0

    def test_a_bucket_of_all_nodes(self):
        redis = self.servers()
        rate, burst = 20_000, 4_000
        limit = "20k/s burst=4k"
        self.place(redis.url(), limit=limit).quota("create " + limit)

        def attempt():
            takes = [take for take, _ in self.takes([self.node(redis, limit, seed, 1800) for seed in range(4)])]
            verdict = BucketVerdict(Law(burst, rate, 10**9), takes)
            self.assertEqual((verdict.say_over(), verdict.wrong), ([], []))
            return sum(take.units for take in takes)
        fleet.pass_enough(attempt, rate)


if __name__ == "__main__":
    unittest.main()
