#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The commands that ask a server: what they print, and their exit status. The clock of the server stands still."""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))

import command  # noqa: E402
import server  # noqa: E402

CONFIG = """\
policies:
  - {name: api, limits: "100/s burst=200, 10k/h"}
  - {name: login, limits: 2/m algo=sliding-log, mode: shadow}
  - {name: job, limits: 1/s}
  - {name: free, limits: unlimited}
"""


class ClientTest(command.CommandTest):
    config = CONFIG

    def setUp(self):
        self.server = server.Server("--test-clock", config=self.config, threads=1)
        self.addCleanup(self.server.stop)
        self.wire = self.server.connect(version=3)
        self.addCleanup(self.wire.close)

    def run_weir(self, *arguments, stdin="", **settings):
        settings.setdefault("WEIR_URL", self.server.url())
        return super().run_weir(*arguments, stdin=stdin, **settings)


class Ask(ClientTest):
    def test_take(self):
        self.check(["take", "api", "user:42"], "allowed, 199 left\n")
        self.check(["take", "api", "user:42", "200"], "refused by 100/s burst=200: try again in 10 ms\n", status=1)
        self.check(["take", "api", "user:42", "1k"], "refused by 100/s burst=200: so many never pass\n", status=1)
        self.check(["take", "free", "user:42"], "allowed, no limit\n")
        self.check(["take", "-q", "api", "user:42"], "")
        self.check(["take", "--quiet", "api", "user:42", "200"], "", status=1)

    def test_several_keys_at_once(self):
        self.check(["take", "api", "k", "5", "and", "job", "k"], "allowed, 0 left\n")
        self.check(["take", "api", "k", "AND", "job", "k"], "refused by job/1/s: try again in 1 s\n", status=1)
        self.check(["peek", "api", "k"], "allowed, 195 left\n")

    def test_an_id_counts_once(self):
        for _ in range(3):
            self.check(["take", "api", "k", "50", "--id", "8f1c"], "allowed, 150 left\n")
        self.check(["charge", "api", "k", "10", "--id", "x1"], "charged\n")
        self.check(["charge", "api", "k", "10", "--id", "x1"], "charged\n")
        self.check(["peek", "api", "k"], "allowed, 140 left\n")

    def test_shadow(self):
        self.check(["take", "login", "k", "2"], "allowed, 0 left\n")
        self.check(["take", "login", "k"], "allowed in shadow: 2/m algo=sliding-log would have refused it\n")

    def test_json_has_the_six_fields(self):
        done = self.run_weir("take", "--json", "api", "k", "201")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout), {
            "allowed": False, "remaining": 200, "retry_after_ms": -1, "reset_after_ms": 0, "limit": "100/s burst=200",
            "reason": "never"})
        self.assertEqual(json.loads(self.output("peek", "--json", "api", "k"))["allowed"], True)

    def test_give_charge_reset(self):
        self.check(["charge", "api", "k", "50"], "charged\n")
        self.check(["peek", "api", "k"], "allowed, 150 left\n")
        self.check(["give", "api", "k", "30"], "OK\n")
        self.check(["peek", "api", "k"], "allowed, 180 left\n")
        self.check(["give", "-q", "api", "k"], "")
        self.check(["reset", "api", "k"], "reset\n")
        self.check(["peek", "api", "k"], "allowed, 200 left\n")

    def test_reserve_and_commit(self):
        lines = self.output("reserve", "api", "k", "50", "--ttl", "2m").splitlines()
        self.assertEqual(lines[0], "allowed, 150 left")
        self.assertRegex(lines[1], "^reservation [0-9a-f]+-[0-9]+$")
        name = lines[1].split()[1]
        self.check(["commit", name, "20"], "20 charged, 30 given back, 180 left\n")
        self.check(["commit", name, "21"], "", f"weir commit: reservation '{name}' was settled already, in another way; "
                   "nothing was changed\n", status=2)
        name = self.output("reserve", "-q", "--id", "x", "api", "k", "50").strip()
        self.assertEqual(self.output("reserve", "-q", "--id", "x", "api", "k", "50").strip(), name)
        self.check(["cancel", name], "50 given back, 180 left\n")
        self.check(["cancel", "-q", name])
        self.assertEqual(json.loads(self.output("cancel", "--json", name)), {"given_back": 50, "remaining": 180})
        self.check(["reserve", "api", "k", "500"], "refused by 100/s burst=200: so many never pass\n", status=1)
        name = self.output("reserve", "-q", "api", "k", "50", "and", "job", "k").strip()
        self.check(["commit", name, "0", "1"], "1 charged, 50 given back, 180 left\n")
        later = self.output("reserve", "job", "k", "--timeout", "5s").splitlines()
        self.assertRegex(later[1], "^reservation .*, due in 1 s$")
        for arguments, message in [
            (["commit"], "commit: write: weir commit ID [N]...; the id is what weir reserve answered"),
            (["cancel", "a", "b"], "cancel: write: weir cancel ID; the id is what weir reserve answered"),
            (["commit", "a", "many"], "commit: N is a whole number of units, such as 5 or 2k, not 'many'"),
            (["cancel", "x"], "cancel: no reservation 'x': it is named by the id that weir reserve answered, such as "),
        ]:
            with self.subTest(arguments):
                done = self.run_weir(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertTrue(done.stderr.startswith(f"weir {message}"), done.stderr)

    def test_why_nothing_passes(self):
        self.wire.ask("WEIR.OVERRIDE", "SET", "api", "mallory", "blocked", "REASON", "abuse 4711")
        self.check(["take", "api", "mallory", "5"], "refused by blocked: nothing passes; override mallory blocked "
                   "(abuse 4711)\n", status=1)
        self.wire.ask("WEIR.CHARGE", "job", "k", "1000000000000")
        self.check(["take", "job", "k"], "refused by 1/s: what it owes is never repaid: weir reset POLICY KEY forgets "
                   "it\n", status=1)
        self.check(["take", "api", "k", "and", "api", "mallory"], "refused by api/blocked: so many never pass\n", status=1)

    def test_while_disabled(self):
        self.wire.ask("WEIR.POLICY", "MODE", "*", "disabled", "FOR", "30m")
        self.check(["take", "api", "k"], "allowed: limits are disabled, nothing is counted\n")
        self.assertEqual(self.output("explain", "api", "k").splitlines()[-1], "  everything passes and no take is counted: "
                         "all policies are disabled for another 30 min (weir policy mode --all enforce ends it)")

    def test_explain(self):
        self.wire.ask("WEIR.TAKE", "api", "k", "5")
        lines = self.output("explain", "api", "k").splitlines()
        self.assertEqual(lines[0], "policy api, mode enforce, override none")
        self.assertRegex(lines[1], r"100/s burst=200 +used 5 +left 195 ")
        self.assertTrue(self.output("explain", "--json", "api", "k").startswith(
            '{\n  "policy": "api",\n  "mode": "enforce",\n  "override": null,\n  "limits": [\n    {\n      "limit": "'))
        document = json.loads(self.output("explain", "--json", "api", "k"))
        self.assertEqual([limit["used"] for limit in document["limits"]], [5, 5])

    def test_acquire_waits(self):
        self.check(["acquire", "job", "k"], "allowed, 0 left\n")
        self.check(["acquire", "--timeout", "500ms", "job", "k"], "refused by 1/s: try again in 500 ms\n", status=1)
        waiting = subprocess.Popen([command.WEIR, "acquire", "job", "k"], stdout=subprocess.PIPE, text=True,
                                   env=command.environment(WEIR_URL=self.server.url()))
        while "waiting:1" not in self.wire.ask("INFO", "weir"):
            pass
        self.wire.ask("WEIR.CLOCK", "ADVANCE", "1000")
        out, _ = waiting.communicate(timeout=server.PATIENCE)
        self.assertEqual((waiting.returncode, out), (0, "allowed after 1 s, 0 left\n"))

    def test_mistakes(self):
        for arguments, message in [
            (["take"], "take: a policy and a key are missing; weir take --help shows how it is written"),
            (["take", "api"], "take: the key is missing; weir take --help shows how it is written"),
            (["peek", "api", "k", "1", "2"], "peek: too many words; weir peek --help shows how it is written"),
            (["reset", "api", "k", "1"],
             "reset: a policy and a key are enough; weir reset --help shows how it is written"),
            (["take", "api", "k", "x"], "take: N is a whole number of units, such as 5 or 2k, not 'x'"),
            (["take", "api", "k", "99999999999999999999"],
             "take: '99999999999999999999' is too large: N is at most 1000000000000"),
            (["charge", "api", "k", "2T"], "charge: '2T' is too large: N is at most 1000000000000"),
            (["take", "ap", "k"], "take: no policy 'ap'; did you mean 'api'? (weir policy list)"),
            (["take", "WEIR.TAKE", "k"], "take: no policy 'WEIR.TAKE' (weir policy list shows them, weir policy set NAME "
             "LIMITS makes one)"),
            (["peek", "--id", "1", "api", "k"], "peek: unknown option '--id'; weir peek --help lists them"),
            (["acquire", "--timeout", "5", "api", "k"], "acquire: --timeout '5': 5 what? write 5s, 5m, 5h or 5d"),
        ]:
            with self.subTest(arguments):
                self.check(arguments, "", f"weir {message}\n", status=2)

    def test_where_to_ask(self):
        self.check(["take", "-s", self.server.url(), "api", "k"], "allowed, 199 left\n",
                   WEIR_URL="redis://127.0.0.1:1")
        done = self.run_weir("take", "--server", "redis://127.0.0.1:1", "api", "k")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^weir take: .*127\.0\.0\.1:1.*\n$")


class Slow(command.CommandTest):
    """Servers that do not answer in one go, and doors that are full."""

    def begin(self, backlog=5):
        folder = tempfile.TemporaryDirectory(prefix="weir-")
        self.addCleanup(folder.cleanup)
        path = f"{folder.name}/s"
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen(backlog)
        listener.settimeout(server.PATIENCE)
        return listener, path

    def start(self, path, *arguments):
        return subprocess.Popen([command.WEIR, *arguments, "-s", f"unix://{path}"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=command.environment())

    def finish(self, process):
        out, err = process.communicate(timeout=server.PATIENCE)
        return process.returncode, out, err

    def test_an_answer_in_pieces_with_the_end_behind_it(self):
        keys = [b"%%2\r\n+key\r\n$300\r\n%0300d\r\n+units\r\n:%d\r\n" % (number, number) for number in range(5000)]
        whole = b"*%d\r\n" % len(keys) + b"".join(keys)
        listener, path = self.begin()
        process = self.start(path, "top", "api", "--json")
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(server.PATIENCE)
            peer.recv(65536)
            peer.sendall(b"%1\r\n+proto\r\n:3\r\n")
            peer.recv(65536)
            for at in range(0, len(whole), 7001):
                peer.sendall(whole[at:at + 7001])
        status, out, err = self.finish(process)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out.count('"key"'), len(keys))

    def test_a_full_door_is_knocked_at_again(self):
        listener, path = self.begin(backlog=0)
        waiting = []
        while True:  # until it is full
            client = socket.socket(socket.AF_UNIX)
            self.addCleanup(client.close)
            client.setblocking(False)
            if client.connect_ex(path) != 0:
                break
            waiting.append(client)
        process = self.start(path, "reload")
        for _ in range(len(waiting) + 1):  # the last one is the command
            peer, _ = listener.accept()
            self.addCleanup(peer.close)
        peer.settimeout(server.PATIENCE)
        peer.recv(65536)
        peer.sendall(b"-ERR not today\r\n")
        self.assertRegex(self.finish(process)[2], "not today")


class Policy(ClientTest):
    def test_list(self):
        lines = self.output("policy").splitlines()
        self.assertEqual(lines[0].split(), ["policy", "limits", "mode", "allowed", "refused", "shadow-refused"])
        self.assertEqual([line.split()[0] for line in lines[1:]], ["api", "free", "job", "login"])
        self.assertEqual(self.output("policy", "list").splitlines(), lines)
        self.assertEqual([policy["name"] for policy in json.loads(self.output("policy", "--json"))],
                         ["api", "free", "job", "login"])

    def test_show(self):
        for _ in range(3):
            self.wire.ask("WEIR.TAKE", "login", "k")
        self.assertEqual(self.output("policy", "show", "login").splitlines()[:3], [
            "login: 3 allowed, 0 refused, 1 shadow-refused (33 %)",
            "  limits      2/m algo=sliding-log",
            "  mode        shadow"])
        self.assertEqual(json.loads(self.output("policy", "show", "login", "--json"))["shadow_refused"], 1)

    def test_shares_of_calls(self):
        """Two digits; 100 % are all of them."""
        self.wire.pipeline(*[("WEIR.TAKE", "login", "k")] * 400)
        self.assertTrue(self.output("policy", "show", "login").startswith(
            "login: 400 allowed, 0 refused, 398 shadow-refused (99 %)\n"))
        self.wire.pipeline(*[("WEIR.TAKE", "free", "k")] * 400, ("WEIR.POLICY", "SET", "free", "blocked"),
                           ("WEIR.TAKE", "free", "k"))
        self.assertTrue(self.output("policy", "show", "free").startswith(
            "free: 400 allowed, 1 refused (0.25 %)\n"))

    def test_set_and_delete(self):
        self.check(["policy", "set", "new", "5/m"], "new has the limits 5/m\n")
        self.check(["policy", "set", "two", "5/m,", "10/h"], "two has the limits 5/m, 10/h\n")
        self.assertEqual(self.wire.ask("WEIR.POLICY", "SHOW", "two")["limits"], "5/m, 10/h")
        self.check(["take", "new", "k", "5"], "allowed, 0 left\n")
        self.check(["policy", "set", "new", "10/m"], "new has the limits 10/m\n")
        self.check(["take", "-q", "new", "k", "5"], status=1)
        self.check(["policy", "set", "--fresh", "new", "10/m"],
                   "new has the limits 10/m, and nobody has spent anything\n")
        self.check(["take", "new", "k", "5"], "allowed, 5 left\n")
        self.check(["policy", "del", "new"], "new is gone, and what its keys had spent is forgotten\n")
        self.check(["policy", "delete", "two"], "two is gone, and what its keys had spent is forgotten\n")
        self.check(["policy", "del", "new"], "", "weir policy: no policy 'new'; weir policy set makes one, weir policy "
                   "list shows them\n", status=2)

    def test_modes(self):
        self.check(["policy", "mode", "login", "enforce", "--percent", "25%"], "login is enforced for 25 % of the keys\n")
        self.check(["policy", "mode", "login", "enforce", "30%"], "login is enforced for 30 % of the keys\n")
        self.assertIn("  mode        enforce 30%\n", self.output("policy", "show", "login"))
        self.check(["policy", "mode", "login", "enforce", "--percent", "5"], "login is enforced for 5 % of the keys\n")
        self.assertIn("  mode        enforce 5%\n", self.output("policy", "show", "login"))
        self.assertRegex(self.output("policy", "mode", "login", "disabled", "--for", "30m"),
                         r"^login is disabled until (\d{4}-\d\d-\d\d )?\d\d:\d\d UTC\n$")
        self.assertIn("  mode        disabled, for another 30 min\n", self.output("policy", "show", "login"))
        self.assertEqual(json.loads(self.output("policy", "mode", "login", "shadow", "--json")), {"answer": "OK"})

    def test_the_mode_of_all(self):
        self.assertRegex(self.output("policy", "mode", "--all", "disabled", "--for", "30m"),
                         r"^all policies are disabled until (\S+ )?\d\d:\d\d UTC; "
                         r"weir policy mode --all enforce ends it\n$")
        self.assertIn("; but all policies are disabled for another 30 min\n", self.output("policy", "show", "api"))
        *lines, last = self.output("policy").splitlines()
        self.assertEqual(last, "all of them are disabled for another 30 min; weir policy mode --all enforce ends that")
        self.assertTrue(all("  disabled  " in line for line in lines[1:]), lines)
        self.check(["policy", "mode", "--all", "shadow"],
                   "all policies are shadow until somebody ends it; weir policy mode --all enforce ends it\n")
        self.assertIn("all of them are shadow until somebody ends it;", self.output("policy"))
        self.check(["policy", "mode", "--all", "enforce"], "every policy has its own mode again\n")
        self.assertNotIn("all of them", self.output("policy"))
        self.assertNotIn("all policies", self.output("policy", "show", "api"))

    def test_what_the_file_says(self):
        self.assertIn("  set by      file\n", self.output("policy", "show", "login"))
        self.run_weir("policy", "set", "login", "3/m")
        self.assertIn("  set by      command (the file says 2/m algo=sliding-log, shadow)\n",
                      self.output("policy", "show", "login"))
        self.run_weir("policy", "mode", "api", "shadow", "--for", "1m")
        self.assertIn("  set by      command (the file says 100/s burst=200, 10k/h, enforce)\n",
                      self.output("policy", "show", "api"))
        self.run_weir("policy", "mode", "api", "enforce")
        self.assertIn("  set by      file\n", self.output("policy", "show", "api"))
        self.run_weir("policy", "set", "mine", "3/m")
        self.assertIn("  set by      command\n", self.output("policy", "show", "mine"))

    def test_another_kind_of_limits(self):
        self.run_weir("policy", "set", "job", "5/m algo=sliding-log")
        while "how long is known in a moment" in (shown := self.output("policy", "show", "job")):
            pass
        self.assertIn("  the limits of before must agree, too, for another 1 s\n", shown)

    def test_mistakes(self):
        for arguments, message in [
            (["sho", "api"], "unknown word 'sho'; did you mean show?"),
            (["frobnicate"], "unknown word 'frobnicate'; write list, show, set, del, mode or candidate"),
            (["show"], "write: weir policy show NAME"),
            (["set", "api"], "write: weir policy set NAME LIMITS"),
            (["mode", "api"], "write: weir policy mode NAME|--all enforce [25%]|shadow|disabled"),
            (["mode", "--all", "api", "shadow"], "write: weir policy mode NAME|--all enforce [25%]|shadow|disabled"),
            (["mode", "--all", "enforce", "25%"], "a percentage belongs to one policy; name it instead of --all"),
            (["mode", "*", "disabled"], "for all policies write --all instead of *"),
            (["show", "api", "--fresh"], "--fresh goes with set"),
            (["set", "api", "5/m", "--for", "1h"], "--for goes with mode"),
            (["set", "api", "5/m brust=2"], "5/m brust=2: column 5: unknown option 'brust'; did you mean burst?"),
        ]:
            with self.subTest(arguments):
                self.check(["policy", *arguments], "", f"weir policy: {message}\n", status=2)


class Override(ClientTest):
    def test_set_list_delete(self):
        self.check(["override", "list", "api"], "no key of this policy has limits of its own\n")
        self.assertRegex(self.output("override", "set", "api", "org:acme", "1000/s", "--for", "2h", "--reason",
                                     "launch week"), r"^org:acme has the limits 1000/s in api until .*\d\d:\d\d UTC\n$")
        self.check(["override", "set", "api", "internal:*", "unlimited"],
                   "internal:* has the limits unlimited in api\n")
        self.check(["override", "list", "api"], "org:acme    1k/s       until 1970-01-01T02:00:00Z  (launch week)\n"
                   "internal:*  unlimited\n")
        self.assertEqual(json.loads(self.output("override", "list", "api", "--json")), [
            {"key": "org:acme", "limits": "1k/s", "until_ms": 7200000, "reason": "launch week",
             "from": "command"},
            {"key": "internal:*", "limits": "unlimited", "until_ms": None, "reason": None, "from": "command"}])
        self.check(["take", "api", "org:acme", "900"], "allowed, 100 left\n")
        self.check(["take", "api", "internal:7", "9999"], "allowed, no limit\n")
        self.check(["override", "delete", "api", "org:acme"], "org:acme has the limits of api again\n")
        self.check(["override", "del", "api", "internal:*"], "internal:* has the limits of api again\n")
        self.check(["override", "list", "api"], "no key of this policy has limits of its own\n")

    def test_mistakes(self):
        how = "weir override: write: weir override "
        self.check(["override"], "", "weir override: what? write list, set or delete; weir override --help tells more\n",
                   status=2)
        self.check(["override", "set", "api", "k"], "", how + "set POLICY KEY LIMITS\n", status=2)
        self.check(["override", "list"], "", how + "list POLICY\n", status=2)
        self.check(["override", "list", "api", "--for", "1h"], "", "weir override: --for goes with set\n", status=2)
        self.assertEqual(self.run_weir("override", "delete", "api", "k").returncode, 2)


class Check(ClientTest):
    """weir check beside a real server: the small things, too."""

    config = """\
policies:
  - name: api
    limits: 10/s
    overrides:
      - {key: stays, limits: 1/s}
      - {key: other, limits: 2/s}
      - {key: goes, limits: 3/s}
      - {key: "pre:*", limits: 4/s, until: 2999-01-01}
"""

    def changes(self, text):
        path = pathlib.Path(self.server.folder.name) / "next.yaml"
        path.write_text(text, encoding="utf-8")
        return json.loads(self.output("check", "--json", str(path)))["changes"]

    def test_nothing_has_changed(self):
        self.assertEqual(self.changes(self.config), [])
        self.wire.ask("WEIR.OVERRIDE", "SET", "api", "by-command", "9/s")
        self.assertEqual(self.changes(self.config), [])  # which stays

    def test_overrides_and_on_full(self):
        text = """\
policies:
  - name: api
    limits: 10/s
    on_full: refuse
    overrides:
      - {key: stays, limits: 1/s}
      - {key: other, limits: [2/s, 5/m]}
      - {key: "pre:*", limits: 4/s, until: 2998-01-01}
      - {key: "new:*", limits: unlimited}
      - {key: past, limits: 1/s, until: 2020-01-01}
"""
        self.assertEqual(self.changes(text), [{
            "policy": "api", "change": "changed",
            "text": "10/s stays; on_full refuse (was share); override of other: 2/s, 5/m instead of 2/s; "
                    "override of pre:*: 4/s until 2998-01-01T00:00Z instead of 4/s until 2999-01-01T00:00Z; "
                    "override of new:* is new: unlimited; override of goes ends"}])

    def test_rules_room_and_modes(self):
        text = self.config.replace("limits: 10/s\n", "limits: 10/s\n    keys: 2M\n    ids: 1m\n    mode: shadow\n"
                                   "    reserve: {ttl: 2m, overrun: refuse}\n", 1)
        self.wire.ask("WEIR.POLICY", "MODE", "api", "enforce", "PERCENT", "5")
        change, = self.changes(text)
        self.assertRegex(change["text"], r"^10/s stays; mode shadow \(was enforce 5%\); reserve ttl 2m \(was 1m\); overrun "
                                         r"refuse \(was debt\); ids 1m \(was 5m\); room for 2000000 keys \(has \d+\)$")

    def test_memory_counts_later(self):
        path = pathlib.Path(self.server.folder.name) / "next.yaml"
        path.write_text("memory: 64MiB\n" + self.config, encoding="utf-8")
        self.assertEqual(self.output("check", str(path)).splitlines()[-1],
                         "note: memory is 64 MiB here and 256 MiB there; it counts from the next start on")

    def test_what_a_command_has_changed_is_still_of_the_file(self):
        self.wire.ask("WEIR.POLICY", "SET", "api", "20/s")
        self.assertEqual([change["text"] for change in self.changes(self.config)], ["10/s instead of 20/s"])
        self.assertEqual(self.changes("policies: []\n"), [{"policy": "api", "change": "removed", "text": "removed"}])

    def test_many_are_counted(self):
        many = "".join(f"      - {{key: k{number}, limits: 5/s}}\n" for number in range(500))
        change, = self.changes(self.config + many)
        self.assertTrue(change["text"].endswith("override of k7 is new: 5/s; 492 more overrides change"), change)


class Watch(ClientTest):
    def test_top(self):
        self.check(["top", "api"], "nobody in the last minutes\n")
        for _ in range(20):
            self.wire.pipeline(*[["WEIR.TAKE", "api", "busy"]] * 100)
        self.assertRegex(self.output("top", "api"), r"(?m)^ +[0-9 ]+  busy$")
        self.assertRegex(self.output("top", "api", "--refused", "--count", "1"), r"^ +[0-9 ]+  busy\n$")
        self.assertEqual(json.loads(self.output("top", "api", "--json"))[0]["key"], "busy")
        self.check(["top"], "", "weir top: of which policy? For example: weir top api\n", status=2)
        self.check(["top", "api", "--candidate"], "",
                   "weir top: policy 'api' has no candidate (weir policy candidate api limits tries some)\n", status=2)
        self.check(["policy", "candidate", "api", "1/h", "burst=2"],
                   "api is asked beside the candidate 1/h burst=2; weir top api --candidate shows whom that would refuse\n")
        for _ in range(20):
            self.wire.pipeline(*[["WEIR.TAKE", "api", "tried"]] * 100)
        self.assertRegex(self.output("top", "api", "--candidate"), r"(?m)^ +[0-9 ]+  tried$")
        self.check(["top", "api", "--candidate", "--refused"], "",
                   "weir top: --refused is by the limits in force, --candidate by those that are tried: write one of them\n",
                   status=2)
        self.check(["policy", "candidate", "api", "none"], "api has no candidate any more\n")
        self.check(["policy", "candidate", "api"], "", "weir policy: write: weir policy candidate NAME LIMITS|none\n", status=2)
        self.check(["top", "api", "--count", "0"], "", "weir top: --count takes a whole number from 1 on, such as 5 or 2k, "
                   "not '0'\n", status=2)

    def test_keys(self):
        self.check(["keys", "api"], "no key has spent anything\n")
        self.assertEqual(json.loads(self.output("keys", "api", "--json")), [])
        self.wire.ask("WEIR.OVERRIDE", "SET", "api", "vip", "50/d")
        for key, n in ("vip", 20), ("a", 1), ("b", 3):
            self.assertTrue(self.wire.ask("WEIR.TAKE", "api", key, str(n)))
        rows = json.loads(self.output("keys", "api", "--sort", "used", "--json"))
        self.assertEqual([row["key"] for row in rows][0], "vip")
        self.assertEqual([row["used"] for row in rows], sorted((row["used"] for row in rows), reverse=True))
        self.assertEqual((rows[0]["used"], rows[0]["remaining"]), (20, 30))
        self.assertEqual(len({row["id"] for row in rows}), 3)
        left = [row["remaining"] for row in json.loads(self.output("keys", "api", "--sort", "remaining", "--json"))]
        self.assertEqual(left, sorted(left))
        self.assertRegex(self.output("keys", "api", "--sort", "used", "--count", "1"), r"^ +20 used +30 left  vip\n$")
        self.assertEqual(len(json.loads(self.output("keys", "api", "--count", "2", "--json"))), 2)
        lines = self.output("keys", "api").splitlines()
        self.assertEqual(len([line for line in lines if " used " in line]), 3)
        self.check(["keys"], "", "weir keys: of which policy? For example: weir keys api\n", status=2)
        self.check(["keys", "nobody"], "", "weir keys: no policy 'nobody' (weir policy list shows them, weir policy set NAME "
                   "LIMITS makes one)\n", status=2)
        self.assertEqual(self.run_weir("keys", "nobody", "--json").stdout, "")

    def test_stat(self):
        self.wire.ask("WEIR.TAKE", "job", "k")
        self.wire.ask("WEIR.TAKE", "job", "k")
        lines = self.output("stat", "--count", "22", "--every", "1ms").splitlines()
        header = ["allowed/s", "refused/s", "shadow/s", "errors", "keys", "memory", "clients"]
        self.assertEqual([i for i, line in enumerate(lines) if line.split() == header], [0, 21])
        self.assertEqual(len(lines), 24)
        self.assertRegex(lines[-1], r"^ +0 +0 +0 +0 +\d+ +\d+\.\d MiB +2$")
        document = json.loads(self.output("stat", "--count", "1", "--json"))
        self.assertEqual((document["allowed"], document["refused"], document["clients"]), (1, 1, 2))
        self.check(["stat", "--every", "0"], "", "weir stat: --every takes 1ms to 1d, not '0'\n", status=2)


if __name__ == "__main__":
    command.main()
