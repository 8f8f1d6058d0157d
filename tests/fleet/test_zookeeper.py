#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""zookeeper:// against a real ZooKeeper: nodes as documented, totals that hold, operators, ACLs, lost sessions."""

import itertools
import logging
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import ensemble
import fleet
from judge_bucket import BucketVerdict, Law
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))

import server  # noqa: E402

NODES = ("base", "refresh", "returns", "total", "usable")
LIMIT = "100/s algo=quota"
zoo = client = None


def setUpModule():
    global zoo, client
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it would tell of the servers that stand still
    zoo = ensemble.Ensemble(1)
    zoo.__enter__()
    client = zoo.client()


def tearDownModule():
    zoo.close()


class Pool(unittest.TestCase):
    """One pool for each test, seen by place.c and by kazoo."""

    root = "/weir"
    query = "base=10&answer=20s"
    limit = LIMIT

    def setUp(self):
        self.name = self.id().rpartition(".")[2]
        self.client = client

    def place(self, limit=None, **more):
        place = fleet.Place(zoo.url(self.root, query=more.pop("query", self.query), **more), self.name, limit or self.limit)
        self.addCleanup(lambda: self.assertEqual(place.close(), 0, place.complaint))  # and no sanitizer complains
        place.until("ready")
        return place

    def path(self, node=""):
        return f"{self.root}/quota/{self.name}{'/' + node if node else ''}"

    def text(self, node):
        return self.client.get(self.path(node))[0].decode()

    def write(self, node, text):
        self.client.set(self.path(node), text.encode())


class Nodes(Pool):
    def test_a_pool_is_made_as_documented(self):
        place = self.place()
        self.assertEqual(place.ask("take 1")["units"], "10")
        self.assertEqual(sorted(self.client.get_children(self.path())), list(NODES))
        self.assertEqual([self.text(node) for node in NODES],
                         ["10", "kind=quota total=100 window=1s base=10 chunk=10", "0", "100/s", "90"])
        self.assertEqual(self.text(""), "wait=1s")
        self.assertEqual(self.client.get_acls(self.path("usable"))[0], OPEN_ACL_UNSAFE)
        usable, refresh = self.client.get(self.path("usable"))[1], self.client.get(self.path("refresh"))[1]
        self.assertEqual(usable.czxid, refresh.mzxid)
        self.assertEqual(usable.version, 1)
        other = self.place("777/s algo=quota")  # what is there keeps its own
        self.assertEqual(other.ask("take 1")["total"], "100")

    def test_tickets_add_up_to_the_total(self):
        places = [self.place("95/s algo=quota") for _ in range(3)]
        for place in places:
            for _ in range(4):
                place.send("take 1")
        replies = [place.reply() for place in places for _ in range(4)]
        self.assertEqual(sorted(int(reply["units"]) for reply in replies), [0, 0, 5] + [10] * 9)
        self.assertTrue(all(reply["exhausted"] == "1" for reply in replies if reply["units"] == "0"))

    def test_one_turns_and_the_others_are_told(self):
        places = [self.place() for _ in range(3)]
        epoch = places[0].ask("take 1")["epoch"]
        for place in places:
            self.assertEqual(place.ask("look")["epoch"], epoch)
        for place in places:
            place.send(f"turn {epoch} 10")
        replies = [place.reply() for place in places]
        self.assertEqual(sorted(reply["outcome"] for reply in replies), ["done", "moved", "moved"])
        made = next(reply for reply in replies if reply["outcome"] == "done")
        usable, refresh = self.client.get(self.path("usable"))[1], self.client.get(self.path("refresh"))[1]
        self.assertEqual({usable.czxid, refresh.mzxid}, {int(made["epoch"])})
        self.assertEqual({place.ask("take 1")["epoch"] for place in places}, {made["epoch"]})
        self.assertEqual(places[0].ask(f"probe {epoch}")["outcome"], "moved")

    def test_a_probe_changes_nothing_and_tells_the_age(self):
        place = self.place()
        epoch = place.ask("take 1")["epoch"]
        before = [self.client.get(self.path(node)) for node in NODES]
        said = place.ask(f"probe {epoch}")
        self.assertEqual((said["outcome"], said["epoch"]), ("done", epoch))
        self.assertTrue(0 <= int(said["age"]) < 20e9, said)
        self.assertEqual(before, [self.client.get(self.path(node)) for node in NODES])

    def test_what_is_returned_can_be_taken_again(self):
        place, other = self.place(), self.place()
        epoch = place.ask("take 10")["epoch"]
        for _ in range(3):  # three asked in vain
            self.assertEqual(other.ask("take 1")["exhausted"], "1")
        self.assertEqual(place.ask(f"return {epoch} 2")["outcome"], "done")
        other.until("more")
        self.assertEqual([other.ask("take 1")["units"] for _ in range(3)], ["10", "10", "0"])
        place.ask(f"turn {epoch} 10")
        self.assertEqual(place.ask(f"return {epoch} 1")["outcome"], "moved")

    def test_totals_change_with_the_next_epoch(self):
        place = self.place()
        epoch = place.ask("take 1")["epoch"]
        self.write("total", "300/2s")
        self.write("base", "30\n")
        self.assertEqual(place.ask("take 1")["total"], "100")
        said = place.ask(f"turn {epoch} 0")
        self.assertEqual([said[word] for word in ("total", "window", "base", "chunk")], ["300", "2000000000", "30", "30"])
        self.assertEqual(self.text("refresh"), "kind=quota total=300 window=2s base=30 chunk=30")

    def test_quota_orders(self):
        place = self.place()
        self.assertEqual(place.ask("show")["found"], "0")
        self.assertEqual(place.ask("create 500/m algo=quota")["found"], "0")
        self.assertEqual(place.ask("create 7/m algo=quota")["next"], "500")
        place.ask("take 2")
        said = place.ask("show")
        self.assertEqual([said[word] for word in ("found", "total", "used", "left", "note")], ["1", "500", "2", "490", ""])
        said = place.ask("set 800/2m algo=quota")
        self.assertEqual((said["total"], said["next"], said["next_window"]), ("500", "800", "120000000000"))
        self.assertEqual(self.text("total"), "800/2m")
        self.write("total", "plenty")
        self.assertIn("'total' holds no number", place.ask("show")["note"])
        place.ask("list")
        self.assertIn("name " + self.name, place.heard)
        self.assertEqual(place.ask("delete")["found"], "1")
        self.assertEqual(self.client.get_children(self.path()), [])
        self.assertEqual(self.text(""), "gone wait=1m")
        self.assertEqual([place.ask("show")["found"], place.ask("delete")["found"]], ["0", "0"])
        place.heard.clear()
        place.ask("list")
        self.assertNotIn("name " + self.name, place.heard)


class Operators(Pool):
    """Whatever hands do to the nodes: no unit more than the total, and it goes on."""

    def check_waits(self, place, epoch):
        said = place.ask_until("take 1")
        self.assertGreater(int(said["epoch"]), int(epoch))
        self.assertEqual((said["units"], said["exhausted"]), ("0", "1"))
        self.assertIn(" wait=", self.text("refresh"))
        self.assertEqual(place.ask(f"turn {said['epoch']} 10")["outcome"], "done")
        self.assertEqual(place.ask("take 1")["units"], "10")

    def test_deleted_nodes_are_made_anew_and_nothing_passes_for_a_window(self):
        place = self.place()
        for node in ("usable", "refresh", "returns"):
            epoch = place.ask("take 1")["epoch"]
            self.client.delete(self.path(node))
            if node != "usable":
                place.ask("look")
            self.check_waits(place, epoch)

    def test_nonsense_in_refresh_makes_a_new_epoch_that_waits(self):
        place = self.place()
        for text in ("", "nonsense", "kind=quota total=999999 window=1s base=10 chunk=10", "x" * 100000):
            epoch = place.ask("take 1")["epoch"]
            self.write("refresh", text)
            place.ask("look")
            self.check_waits(place, epoch)

    def test_a_pool_that_vanishes_under_its_users_waits_too(self):
        place = self.place()
        epoch = place.ask("take 1")["epoch"]
        self.client.delete(self.path(), recursive=True)
        self.check_waits(place, epoch)

    def test_a_pool_that_is_deleted_and_created_waits_for_who_holds_units_of_it(self):
        place, other = self.place(), self.place()
        epoch = place.ask("take 5")["epoch"]
        self.assertEqual(other.ask("delete")["found"], "1")
        place.until("noticed")  # what it holds is void
        while int(place.heard[-1].split("epoch=")[1].split()[0]) <= int(epoch):
            place.until("noticed")
        self.assertEqual(other.ask("create 100/s algo=quota")["found"], "0")
        self.assertIn("it was made anew", other.ask("show")["note"])
        self.check_waits(other, epoch)

    def test_a_hand_on_usable_costs_a_chunk_and_one_on_returns_gives_no_more(self):
        place = self.place()
        place.ask("take 8")
        self.write("usable", "1000000")
        self.write("returns", "1000000")
        self.write("returns", "x")
        place.ask("look")
        self.assertEqual([place.ask("take 1")["units"] for _ in range(3)], ["10", "0", "0"])
        self.write("returns", "1000000")  # three times by now: two for those in vain, and one
        place.ask("look")
        self.assertEqual([place.ask("take 1")["units"] for _ in range(2)], ["10", "0"])

    def test_nonsense_in_total_and_base_keeps_the_old_terms_and_says_so(self):
        place = self.place()
        epoch = place.ask("take 1")["epoch"]
        for node, text in (("total", "lots"), ("total", "5"), ("base", "0"), ("total", "100")):
            self.write(node, text)
            self.assertIn("why=", place.until("troubled why="))
            said = place.ask(f"turn {epoch} 0")
            self.assertEqual((said["total"], said["base"]), ("100", "10"))
            epoch = said["epoch"]
        self.client.delete(self.path("base"))
        self.assertEqual(place.ask(f"turn {epoch} 0")["outcome"], "done")
        self.assertEqual(self.text("base"), "10")


class Access(Pool):
    root = "/of/ann"

    def test_a_user_may_write_and_the_world_may_look(self):
        place = self.place(user="ann:secret")
        self.assertEqual(place.ask("take 1")["units"], "10")
        self.assertTrue(self.text("usable"))
        with self.assertRaises(NoAuthError):
            self.write("total", "1")
        zoo.client(auth="ann:secret").set(self.path("total"), b"200")
        stranger = self.place()
        self.assertEqual(stranger.ask("take 1")["outcome"], "failed")
        self.assertIn(f"may not write {self.path()}: give the right user:password@", stranger.heard[-2])

    def test_who_may_only_read_cannot_join(self):
        client.ensure_path("/open/quota")  # there the time of the leader is told, and the pool refused all the same
        for self.root, self.limit in itertools.product((self.root, "/open"), ("100/h algo=quota", "100/s burst=50")):
            self.name = "only-read-" + self.limit[-2:]
            self.assertEqual(self.place(user="ann:secret").ask("look")["outcome"], "done")
            command = [fleet.program("fleet-node"), zoo.url(self.root, query=self.query), self.name, self.limit]
            for _ in range(10):  # who joins waits a moment for an answer: on a busy machine that may be too short
                said = subprocess.run([*command, "--for", "100"], capture_output=True, text=True)
                if said.returncode != 0:
                    break
            self.assertEqual(said.returncode, 1, said.stdout)
            self.assertIn(f"this user may not write {self.path()}: give the right user:password@", said.stderr)

    def test_who_may_only_read_is_refused_until_he_may_write(self):
        self.limit = "100/h algo=quota"
        self.place(user="ann:secret").ask("look")
        stranger = self.place()
        epoch = stranger.ask("look")["epoch"]
        self.assertEqual(stranger.ask(f"probe {epoch}")["outcome"], "failed")
        self.assertIn("may not write", stranger.heard[-2])
        told = len(stranger.heard)
        self.assertEqual(stranger.ask("look")["outcome"], "failed")  # that it may read is no help
        self.assertNotIn("troubled why=", stranger.heard[told:])
        zoo.client(auth="ann:secret").set_acls(self.path("usable"), OPEN_ACL_UNSAFE)
        self.assertEqual(stranger.ask("look")["outcome"], "done")
        self.assertEqual(stranger.heard[-2], "troubled why=")
        self.assertEqual(stranger.ask(f"probe {epoch}")["outcome"], "done")
        self.assertEqual(stranger.ask("take 1")["units"], "10")

    def test_who_may_write_here_but_not_above_may_take(self):
        self.root = "/above"
        acl = [make_digest_acl("ann", "secret", all=True), make_acl("world", "anyone", read=True, create=True)]
        client.ensure_path("/above/quota", acl=acl)
        place = self.place()
        said = place.ask("look")
        self.assertEqual(place.ask(f"probe {said['epoch']}")["outcome"], "done")
        self.assertEqual(place.ask("take 1")["units"], "10")

    def test_a_server_that_may_only_read_says_so(self):
        self.place(limit="100/h algo=quota", user="ann:secret").ask("look")
        weir = server.Server(config=f"""\
policies:
  - name: {self.name}
    limits: [100/h algo=quota]
    fleet: {{coordinator: "{zoo.url(self.root)}", lost_after: 300ms, wait: 10ms}}
""")
        self.addCleanup(weir.clean)
        user = weir.connect()
        self.addCleanup(user.close)
        # Who asks before the pool is joined wants nothing of it once it is: one take is not enough.
        deadline = time.monotonic() + fleet.PATIENCE_S
        while (reason := user.ask("WEIR.TAKE", self.name, "a", "1")[-1]) != "lost":
            self.assertLess(time.monotonic(), deadline, reason)
        weir.wait_line(f"event=fleet-lost .*may not write {self.path()}")
        self.assertIn(f"the coordinator is lost: this user may not write {self.path()}",
                      user.ask("WEIR.EXPLAIN", self.name, "a"))

    def test_a_private_pool_is_not_shown(self):
        place = self.place(user="ann:secret", query="base=10&acl=private")
        self.assertEqual(place.ask("take 1")["units"], "10")
        with self.assertRaises(NoAuthError):
            self.text("usable")
        self.assertEqual(self.place().ask("look")["outcome"], "failed")

    def refuse(self, url, name="x"):
        place = fleet.Place(url, name, LIMIT)
        with self.assertRaises(EOFError) as caught:
            place.until("ready")
        self.assertEqual(place.close(), 1)
        return str(caught.exception)

    def test_what_cannot_be_reached_says_so_in_time(self):
        port = ensemble.free_ports(1)[0]
        began = time.monotonic()
        said = self.refuse(f"zookeeper://127.0.0.1:{port}/weir?connect=300ms")
        self.assertLess(time.monotonic() - began, fleet.PATIENCE_S)
        self.assertRegex(said, rf"127\.0\.0\.1:{port}.*did not answer within 300 ms.*check host and port")

    def test_names_and_words_that_cannot_be(self):
        for name in ("a/b", "..", ".", "", "x" * 256, "a b", "ü"):
            self.assertTrue(self.refuse(zoo.url("/weir"), name))
        self.assertIn("acl", self.refuse(zoo.url("/weir", query="acl=maybe")))
        self.assertIn("acl=private needs", self.refuse(zoo.url("/weir", query="acl=private")))


class Losses(Pool):
    query = "base=10&session=1500ms&answer=1s"

    def sessions(self):
        """How many of this length the server knows of; it has a second to say so."""
        said, deadline = "", time.monotonic() + fleet.PATIENCE_S
        while not said and time.monotonic() < deadline:
            said = zoo.say(0, "cons")
        return len(re.findall(r"sid=0x\w+.*\bto=1500\b", said))

    def test_an_expired_session_is_begun_anew(self):
        place = self.place()
        epoch = place.ask_until("take 1")["epoch"]
        self.assertEqual(self.sessions(), 1)
        place.process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + fleet.PATIENCE_S
        while self.sessions() > 0 and time.monotonic() < deadline:  # real time: the session is the server's
            time.sleep(0.05)
        place.process.send_signal(signal.SIGCONT)
        place.until("moved up=0")
        place.until("moved up=1")
        self.assertEqual(place.ask_until("take 1")["epoch"], epoch)
        self.write("total", "oops")  # and it watches again
        place.until("troubled why='total'")

    def test_orders_to_a_server_that_stands_still_are_answered_all_the_same(self):
        place = self.place()
        place.ask_until("take 1")
        zoo.stop(0)
        try:
            said = place.ask("take 2")
            self.assertEqual((said["outcome"], said["units"]), ("unknown", "0"))
            if not any(line.startswith("moved up=0") for line in place.heard):
                place.until("moved up=0")
            self.assertEqual(place.ask("take 1")["outcome"], "failed")
        finally:
            zoo.cont(0)
        self.assertEqual(place.ask_until("take 1")["units"], "10")


class Crowds(unittest.TestCase):
    """Many names at a server that does not accept packets of more than 16 kB (jute.maxbuffer)."""

    NAME = "n" * 150
    WATCHED = 4  # nodes of a pool

    @classmethod
    def setUpClass(cls):
        cls.zoo = ensemble.Ensemble(1, java=["-Djute.maxbuffer=16000"])
        cls.zoo.__enter__()
        cls.addClassCleanup(cls.zoo.close)

    def setUp(self):
        self.place = fleet.Place(self.zoo.url("/weir", query="base=10&session=20s&answer=20s"), self.NAME, LIMIT)
        self.addCleanup(lambda: self.assertEqual(self.place.close(), 0, self.place.complaint))
        self.place.until("ready")
        self.epoch = self.place.ask("take 1")["epoch"]

    def others(self, count):
        """So many other names are looked at; the outcomes."""
        self.place.send(f"others {count}")
        return {self.place.reply()["outcome"] for _ in range(count)}

    def watches(self):
        said, deadline = "", time.monotonic() + fleet.PATIENCE_S
        while "Total watches:" not in said and time.monotonic() < deadline:  # it has a second for each answer
            said = self.zoo.say(0, "wchs")
        return int(said.split("Total watches:")[1])

    def test_a_lost_connection_of_many_names_comes_back(self):
        self.assertEqual(self.others(60), {"done"})
        self.assertEqual(self.watches(), 61 * self.WATCHED)
        self.assertGreater(self.watches() * len(self.NAME), 2 * 16000)
        self.zoo.restart(0, wait=False)  # which knows the session, and waits for it
        self.place.until("moved up=0")
        self.place.until("moved up=1", timeout=ensemble.READY_S)
        self.assertEqual(self.place.ask_until("take 1")["epoch"], self.epoch)
        self.assertNotIn("Len error", (self.zoo.folder / "0" / "log").read_text(errors="replace"))
        self.assertEqual(sum(line.startswith("moved up=0") for line in self.place.heard), 1)

    def test_names_that_are_left_are_not_watched_any_more(self):
        for count in (40, 30, 2):  # the same ones again and again
            self.assertEqual(self.others(count), {"done"})
            self.assertEqual(self.place.ask("take 1")["epoch"], self.epoch)  # behind all that was sent for those
            self.assertEqual(self.watches(), (1 + count) * self.WATCHED)
        for name in (self.NAME + "-1", self.NAME):  # what was left by one, and is another's; and what was never left
            self.zoo.client().set(f"/weir/quota/{name}/total", b"oops")
            self.place.until("troubled why='total'")
        self.assertFalse([line for line in self.place.heard if line.startswith("moved up=0")])


class Fleet(Pool):
    """Real members, four processes of them."""

    def begins(self, totals):
        """Notes when each epoch begins, by kazoo."""
        offset = fleet.wall_offset_ns()

        @self.client.DataWatch(self.path("refresh"))
        def changed(data, stat):
            if data:
                words = dict(word.split("=") for word in data.decode().split() if "=" in word)
                totals.append((stat.mtime * 1000000 + offset, words))

    def test_no_window_is_above_its_total_whatever_operators_do(self):
        totals = []
        nodes = fleet.Nodes(zoo.url("/weir", query="base=10&connect=30s"), self.name, "1k/s algo=quota", 4, "--for",
                            "100000", "--size", "7", "--threads", "2")
        self.addCleanup(nodes.close)
        deadline = time.monotonic() + fleet.PATIENCE_S
        while not self.client.exists(self.path("refresh")) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.begins(totals)
        self.until(totals, 2)
        self.write("total", "600")
        self.write("base", "6")
        self.until(totals, 4)
        self.client.delete(self.path("usable"))
        self.until(totals, 6)
        self.write("refresh", "nonsense")
        self.until(totals, 11)
        for process in nodes.processes:
            process.terminate()
        self.assertEqual(nodes.wait(), [0] * 4)
        epochs = [(when, words) for when, words in totals if "total" in words]
        # Milliseconds are cut off, the offset of the clocks is as good, and units end 2 ms before their window.
        passed = fleet.windows(nodes.taken(), [when - 1000000 for when, _ in epochs])
        said = [(words["total"], "wait" in words, units) for (_, words), units in zip(epochs, passed[1:])]
        self.assertEqual(passed[0], 0)
        for total, waits, units in said:
            self.assertLessEqual(units, 0 if waits else {"1k": 1000, "600": 600}[total], said)
        whole = [units for total, waits, units in said[:-1] if not waits]
        self.assertGreaterEqual(sum(waits for _, waits, _ in said), 2, said)
        self.assertGreaterEqual(len(whole), 4, said)
        self.assertGreaterEqual(sum(units >= 590 for units in whole), 3, said)
        self.assertTrue(any(total == "600" and units > 500 for total, _, units in said), said)

    def until(self, totals, count):
        deadline = time.monotonic() + fleet.PATIENCE_S / 4
        while len(totals) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.2)  # in the middle of it

    def test_a_bucket_of_four_obeys_its_law(self):
        nodes = fleet.Nodes(zoo.url("/weir", query="base=10"), self.name, "1k/s burst=1k", 4, "--for", "2500")
        self.addCleanup(nodes.close)
        self.assertEqual(nodes.wait(), [0] * 4)
        taken = nodes.taken()
        verdict = BucketVerdict(Law(1000, 1000, 10**9), taken)
        self.assertEqual((verdict.say_over(), verdict.wrong), ([], []))
        self.assertGreater(sum(take.units for take in taken), 1000)  # more than a burst


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
