#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weir quota: what it prints and refuses, its exit status; with real coordinators behind it."""

import json
import pathlib
import re
import select
import socket
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("server", "fleet")]

import command  # noqa: E402
import ensemble  # noqa: E402
import redises  # noqa: E402
import server  # noqa: E402


class Words(command.CommandTest):
    """What is wrong before anybody is asked."""

    def check_wrong(self, words, err, **settings):
        self.check(["quota", *words], "", f"weir quota: {err}\n", status=2, **settings)

    def test_words_that_are_none(self):
        self.check_wrong([], "what? write create, show, list, set, watch or delete; weir quota --help tells more")
        self.check_wrong(["crate", "a", "5/m"], "unknown word 'crate'; did you mean create?")
        self.check_wrong(["burn"], "unknown word 'burn'; write create, show, list, set, watch or delete")
        self.check_wrong(["create", "egress"],
                         "write: weir quota create NAME LIMIT, as in: weir quota create egress 50M/m")
        self.check_wrong(["show"], "write: weir quota show NAME")
        self.check_wrong(["show", "a", "b"], "write: weir quota show NAME")
        self.check_wrong(["list", "a"], "write: weir quota list")
        self.check_wrong(["show", "a", "--yes"], "--yes goes with delete")
        self.check_wrong(["show", "a", "--nodes", "5"], "--nodes goes with create and set")
        self.check_wrong(["list", "--base", "5"], "--base goes with create and set")
        self.check_wrong(["show", "a", "--count", "5"], "--count goes with watch")
        self.check_wrong(["delete", "a", "--json"], "--json goes with show, list and watch")

    def test_coordinators_that_are_none(self):
        self.check_wrong(["show", "a"], "where is the coordinator? Add -c zookeeper://zk1,zk2,zk3/weir or -c "
                         "redis://host, or set WEIR_COORDINATOR")
        self.check_wrong(["show", "a"], "local: is inside of each process: there is nothing to look at from here",
                         WEIR_COORDINATOR="local:")
        done = self.run_weir("quota", "show", "a", "-c", "zoo://zk1")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("zookeeper://", done.stderr)

    def test_names_that_nobody_can_keep(self):
        for name in ["a/b", "..", ".", "", "x" * 10240, "a b", "ä", "a\nb"]:
            for words in [["create", name, "5M/m"], ["show", name], ["delete", name, "--yes"]]:
                done = self.run_weir("quota", *words, "-c", "redis://127.0.0.1:1")
                self.assertEqual((done.returncode, done.stdout), (2, ""), name[:20])
                self.assertRegex(done.stderr, r"^weir quota: .{10,300}\n$")
                self.assertNotIn("127.0.0.1", done.stderr)  # nobody was asked

    def test_limits_that_cannot_be(self):
        url = ["-c", "redis://127.0.0.1:1"]
        for words, part in [(["100/m", "--base", "101"], "base 101 is above the total of 100"),
                            (["100/m", "--base", "0"], "--base takes a whole number from 1 on"),
                            (["100/0s"], ""), (["0/m"], "0 lets nothing pass; write at least 1\n"),
                            (["blocked"], "there is nothing to share"), (["unlimited"], "there is nothing to share"),
                            (["100/m", "--nodes", "0"], "--nodes takes"),
                            (["100/1ms"], "a window of 1 ms is too short"), (["100/m, 5/s"], "one limit"),
                            (["100/m algo=sliding-log"], "no such limit"), (["100/m brust=5"], "did you mean burst"),
                            (["100 requests per minute"], "units have no name; write 100/m\n"),
                            (["1/s burst=1"], "two chunks of 1; write a burst of at least 2\n"),
                            (["5/m algo=sliding-log"], "or 5/m burst=10 for a bucket\n"),
                            (["100/m initial=5"], "what a fleet shares begins full: initial= has no place; write "
                             "100/m algo=quota for a total in each window, or 100/m burst=200 for a bucket\n"),
                            (["499/m", "--nodes", "500"], "499 a minute for 500 nodes is less than one for each"),
                            (["50M/s", "--nodes", "500"], "more writes than the coordinator is good for, 20 000/s"),
                            (["10k/s burst=1999", "--base", "1000"], "two chunks"),
                            (["10k/s burst=20", "--nodes", "500"], "a burst of 20 is less than a chunk of 1 for each")]:
            done = self.run_weir("quota", "create", "egress", *words, *url)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(part, done.stderr)
            self.assertNotIn("127.0.0.1", done.stderr)

    def test_nobody_there(self):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))  # and does not listen
            for scheme in ["redis", "weir"]:
                begun = time.monotonic()
                url = f"{scheme}://:secret@127.0.0.1:{held.getsockname()[1]}?connect=30s"
                done = self.run_weir("quota", "create", "egress", "5M/m", "-c", url)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr, "^weir quota: .*(refused|reach).*\n$")
                self.assertNotIn("secret", done.stderr)
                self.assertLess(time.monotonic() - begun, 25)  # nobody will be there


class Life:
    """Totals from their making to their end, at a real coordinator."""

    def run_weir(self, *arguments, stdin="", **settings):
        settings.setdefault("WEIR_COORDINATOR", self.url)
        return super().run_weir(*arguments, stdin=stdin, **settings)

    def shown(self, name):
        return json.loads(self.output("quota", "show", name, "--json"))

    def test_a_life(self):
        self.check(["quota", "create", "egress", "50M/m", "--nodes", "500"], f"""\
egress: 50 000 000 a minute, kept by {self.url}
  a quota: programs join it with the limit "50M/m algo=quota"
  500 nodes: chunk 1 000, at most 1 % unspent in chunks, 50 000 coordinator
  writes a minute (833/s)
  coordinator lost: what nodes hold is spent, then all is refused; never above
  the limit
""")
        self.check(["quota", "create", "egress", "50M/m"],
                   "egress is there already: 50 000 000 a minute, base 1 000\n")
        self.check(["quota", "create", "egress", "60M/m"], "", "weir quota: egress is there already: 50 000 000 a "
                   "minute, base 1 000; weir quota set changes it\n", status=1)
        self.assertIn("egress\n", self.output("quota", "list"))
        self.assertIn("egress", json.loads(self.output("quota", "list", "--json")))
        first = self.shown("egress")
        self.assertEqual((first["next"]["total"], first["next"]["base"], first["next"]["window_ms"], first["kind"]),
                         (50000000, 1000, 60000, "quota"))
        self.check(["quota", "set", "egress", "60M/m"],
                   "egress: 60 000 000 a minute, base 1 000, from the next window on\n")
        self.check(["quota", "set", "egress", "--base", "2k"],
                   "egress: 60 000 000 a minute, base 2 000, from the next window on\n")
        then = self.shown("egress")
        self.assertEqual((then["next"]["total"], then["next"]["base"]), (60000000, 2000))
        self.check(["quota", "set", "egress", "1k/m"], "", "weir quota: base 2000 is above the total of 1000; a node "
                   "would take all of it at once; write a base of at most the total, better a hundredth for each "
                   "node\n", status=2)
        self.check(["quota", "set", "egress"], "", "weir quota: set what? For example: weir quota set egress 60M/m, "
                   "or --base 1000\n", status=2)
        self.check(["quota", "set", "egress", "10k/s burst=20k"], "", "weir quota: a quota stays one, as in 50M/m; "
                   "for a bucket, delete it and create it\n", status=2)
        self.check(["quota", "delete", "egress"], "", "weir quota: egress: 60 000 000 a minute; machines that use it "
                   "make it anew, with what they were told, and nothing passes for a window then. Is it meant? "
                   "Then add --yes\n", status=2)
        self.check(["quota", "delete", "egress", "--yes"], "egress is gone\n")
        none = f"weir quota: egress: no such name at {self.url}; weir quota create makes one, list shows them\n"
        for words in [["show", "egress"], ["set", "egress", "5M/m"], ["delete", "egress"],
                      ["delete", "egress", "--yes"], ["watch", "egress"]]:
            self.check(["quota", *words], "", none, status=1)

    def test_who_makes_what_was_deleted_is_told_that_it_waits(self):
        fresh = self.output("quota", "create", "anew", "1k/h")
        self.assertNotIn("note", fresh)
        self.output("quota", "delete", "anew", "--yes")
        note = f"  note        {self.ANEW}\n"
        self.assertEqual(self.output("quota", "create", "anew", "1k/h"), fresh + note)
        self.assertTrue(self.output("quota", "show", "anew").endswith(note))
        self.check(["quota", "create", "anew", "1k/h"], f"anew is there already: 1 000 an hour, base 10\n{note}")

    def test_list(self):
        names = ["list-" + name for name in ("c", "a", "b.1", "b", "d", "b:2", "aa")]
        for name in names:
            self.output("quota", "create", name, "5M/m")
        self.assertEqual([name for name in self.output("quota", "list").split() if name in names], sorted(names))
        self.assertEqual([name for name in json.loads(self.output("quota", "list", "--json")) if name in names],
                         sorted(names))

    def test_a_bucket(self):
        self.assertTrue(self.output("quota", "create", "flow", "10k/s burst=20k", "--base", "100").startswith(
            f"flow: 10 000 a second, burst 20 000, kept by {self.url}\n"
            '  a bucket: programs join it with the limit "10k/s burst=20k"\n'))
        self.assertEqual(self.shown("flow")["next"]["burst"], 20000)

    def test_watch(self):
        self.output("quota", "create", "seen", "5M/m")
        there = r"^\d\d:\d\d:\d\dZ  ?epoch \d+, .* left, 0 chunks asked for"
        self.assertRegex(self.output("quota", "watch", "seen", "--count", "1"), there)
        watch = subprocess.Popen([command.WEIR, "quota", "watch", "seen", "--count", "60", "-c", self.url],
                                 stdout=subprocess.PIPE, text=True, env=command.environment())
        self.addCleanup(watch.stdout.close)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        line = watch.stdout.readline()
        self.assertRegex(line, there)
        self.output("quota", "delete", "seen", "--yes")
        while re.match(there, line):  # it looks once a second
            line = watch.stdout.readline()
        self.assertRegex(line, r"^\d\d:\d\d:\d\dZ  ?gone\n$")


class Redis(Life, command.CommandTest):
    ANEW = "it was deleted, damaged or written by hand: the first window begins empty"

    @classmethod
    def setUpClass(cls):
        cls.redis = cls.enterClassContext(redises.Redises())
        cls.url = cls.redis.url()

    def test_a_database_that_is_not_there(self):
        begun = time.monotonic()
        done = self.run_weir("quota", "list", WEIR_COORDINATOR=self.url.rstrip("/") + "/77?connect=30s")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, "^weir quota: .*DB index is out of range\n$")
        self.assertLess(time.monotonic() - begun, 25)

    def test_a_wrong_password_is_told_to_its_end(self):
        self.redis.ask(0, "ACL", "SETUSER", "ann", "on", ">secret", "~*", "+@all")
        done = self.run_weir("quota", "list", "-c", self.url.replace("redis://", "redis://ann:other@"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, "^weir quota: .*: WRONGPASS .* user is disabled[.]\n$")

    def test_a_key_that_is_not_weirs_is_named(self):
        self.redis.ask(0, "SET", "weir:{garb}:quota", "hello")
        self.addCleanup(self.redis.ask, 0, "DEL", "weir:{garb}:quota")
        for words in [["show", "garb"], ["create", "garb", "1k/s"], ["set", "garb", "1k/s"], ["delete", "garb", "--yes"]]:
            self.check(["quota", *words], "", f"weir quota: {self.url}: WRONGTYPE: weir:{{garb}}:quota holds what is not "
                       "weir's; look at it, then DEL it\n", status=2)
        long = "n" * 255
        self.redis.ask(0, "SET", f"weir:{{{long}}}:quota", "hello")
        self.addCleanup(self.redis.ask, 0, "DEL", f"weir:{{{long}}}:quota")
        self.assertIn(": WRONGTYPE: weir:{nnn", err := self.run_weir("quota", "show", long).stderr)
        self.assertTrue(err.endswith("n... holds what is not weir's; look at it, then DEL it\n"), err)

    def test_a_limit_that_cannot_be_read(self):
        self.redis.ask(0, "HSET", "weir:{half}:quota", "kind", "quota")
        self.addCleanup(self.redis.ask, 0, "DEL", "weir:{half}:quota")
        self.check(["quota", "show", "half"], f"half: {self.ANEW}\n")
        self.assertRegex(self.output("quota", "watch", "half", "--count", "1"), f"^[0-9:]+Z  {self.ANEW}\n$")
        self.assertIn("half: a limit that cannot be read; ", self.run_weir("quota", "delete", "half").stderr)

    def test_a_window_that_began_empty_is_explained(self):
        weir = server.Server(threads=1, config=f"""\
policies:
  - name: doubtful
    limits: 1k/h algo=quota
    fleet: {{coordinator: "{self.url}", wait: 15s}}
""")
        self.addCleanup(weir.stop)
        with weir.connect() as client:  # this Redis was started a moment ago: others may hold units
            self.assertEqual(client.ask("WEIR.TAKE", "doubtful", "k")[1], 0)
        note = ("  note        the window is empty, after a restart, a failover or a pool that was lost or deleted: "
                "nothing passes until it ends, as units of before may be held\n")
        shown = self.output("quota", "show", "doubtful")
        self.assertTrue(shown.startswith("doubtful: 0 of 1 000 left\n") and shown.endswith(note), shown)
        self.check(["quota", "create", "doubtful", "1k/h"],
                   f"doubtful is there already: 1 000 an hour, base 10\n{note}")
        tier = self.output("quota", "show", "doubtful", "-c", weir.url().replace("redis://", "weir://"))
        self.assertIn("\n  window      its age is not known\n", tier)  # it holds nothing of it

    def test_watch_tells_of_a_coordinator_that_was_away_for_a_while(self):
        self.output("quota", "create", "seen-2", "5M/m")
        watch = subprocess.Popen([command.WEIR, "quota", "watch", "seen-2", "--count", "2", "-c", self.url],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=command.environment())
        self.addCleanup(watch.stdout.close)
        self.addCleanup(watch.stderr.close)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        watch.stdout.readline()
        for seconds in 2.2, 4.4, 8.8:  # it asks within a second, and says that an answer took longer than one
            self.redis.stop(0)
            try:
                time.sleep(seconds)
            finally:
                self.redis.cont(0)
            if select.select([watch.stderr], [], [], 2)[0]:
                break
        self.assertRegex(watch.stderr.readline(), r"^weir quota: .*(no answer for|answer in time|reach).*\n$")


class ZooKeeper(Life, command.CommandTest):
    ANEW = "it was made anew: nothing passes until what was given out before has ended"

    @classmethod
    def setUpClass(cls):
        cls.ensemble = cls.enterClassContext(ensemble.Ensemble(1))
        cls.url = cls.ensemble.url("/weir")

    def test_nodes_that_do_not_belong_together_have_no_limit_to_show(self):
        self.output("quota", "create", "torn", "1k/h")
        zoo = self.ensemble.client()
        zoo.delete("/weir/quota/torn/usable")
        note = ("its nodes do not belong together: the next node that asks makes them anew, and nothing passes for a "
                "window\n")
        self.check(["quota", "show", "torn"], "torn: " + note)
        self.assertTrue(self.output("quota", "watch", "torn", "--count", "1").endswith("Z  " + note))

    def test_a_window_grows_old_also_if_nobody_takes(self):
        begun = time.monotonic()
        self.output("quota", "create", "aged", "1k/h")
        while self.shown("aged")["age_ms"] < 100:
            self.assertLess(time.monotonic() - begun, 25)
        self.assertLessEqual(self.shown("aged")["age_ms"], (time.monotonic() - begun) * 1000 + 1000)


class Weir(command.CommandTest):
    """A weir server keeps totals as policies: they can be looked at."""

    def setUp(self):
        self.server = server.Server("--test-clock", threads=1, config="""\
policies:
  - name: egress
    limits: 5M/m algo=quota
    fleet: {coordinator: "local:", base: 1000}
  - {name: api, limits: 100/s}
users:
  - {name: default, may: [take, look]}
  - {name: ann, password: secret, may: [look]}
  - {name: bob, password: secret, may: [take]}
""")
        self.addCleanup(self.server.stop)
        self.url = re.sub("^redis", "weir", self.server.url())

    def run_weir(self, *arguments, stdin="", **settings):
        return super().run_weir(*arguments, stdin=stdin, WEIR_COORDINATOR=self.url, **settings)

    def test_show_list_and_no_more(self):
        shown = json.loads(self.output("quota", "show", "egress", "--json"))
        self.assertEqual((shown["total"], shown["window_ms"], shown["left"], shown["chunk"]),
                         (5000000, 60000, 5000000, 1000))
        self.check(["quota", "list"], "egress\n")
        done = self.run_weir("quota", "set", "egress", "6M/m")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        where = self.url.replace("weir://", "redis://")
        for words, how in [(["set", "egress", "6M/m"], "change it in"), (["create", "new", "6M/m"], "write it into"),
                           (["delete", "egress", "--yes"], "take it out of")]:
            self.check(["quota", *words], "", f"weir quota: a weir server's totals are its policies: {how} its "
                       f"weir.yaml, and weir reload -s {where}; if it leases this one itself, weir quota at the "
                       "coordinator that its file names\n", status=2)
        self.check(["quota", "show", "nobody"], "", f"weir quota: nobody: no such name at {self.url}; a policy of that "
                   "name with fleet: in the weir.yaml of that server makes one, list shows them\n", status=1)
        self.assertEqual(self.run_weir("quota", "show", "api").returncode, 2)

    def test_who_may_not_look_is_told_what_that_takes(self):
        ann = self.url.replace("weir://", "weir://ann:secret@")
        self.check(["quota", "list", "-c", ann], "egress\n")
        self.check(["quota", "show", "egress", "-c", ann], "", f"weir quota: {self.url}: NOPERM User ann has no "
                   "permissions to run the 'weir.lease' command; who looks needs the class take, and the policy\n",
                   status=2)
        bob = self.url.replace("weir://", "weir://bob:secret@")
        self.check(["quota", "list", "-c", bob], "", "weir quota: 127.0.0.1: NOPERM User bob has no permissions to run the "
                   "'weir.policy|list' command; who lists needs the class look\n", status=2)
        done = self.run_weir("quota", "list", "-c", ann.replace("secret", "other"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, "^weir quota: .*: WRONGPASS .* user is disabled[.]\n$")

    def test_who_has_not_logged_in_is_told_how(self):
        closed = server.Server("--test-clock", threads=1, config="""\
policies: [{name: egress, limits: 5M/m algo=quota, fleet: {coordinator: "local:"}}]
users: [{name: default, may: [adjust]}, {name: ann, password: secret, may: all}]
""")
        self.addCleanup(closed.stop)
        url = closed.url().replace("redis://", "weir://")
        for words, needs in [(["list"], "who lists needs the class look"),
                             (["show", "egress"], "who looks needs the class take, and the policy")]:
            done = self.run_weir("quota", *words, "-c", url)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, f"NOPERM .* command; {needs}: weir://user:password@host\n$")


if __name__ == "__main__":
    command.main()
