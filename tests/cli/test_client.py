#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The commands that ask a server: what they print, and their exit status. The clock of the server stands still."""

import json
import pathlib
import subprocess
import sys

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
        self.check(["give", "api", "k", "30"], "given back\n")
        self.check(["peek", "api", "k"], "allowed, 180 left\n")
        self.check(["give", "-q", "api", "k"], "")
        self.check(["reset", "api", "k"], "reset\n")
        self.check(["peek", "api", "k"], "allowed, 200 left\n")

    def test_explain(self):
        self.wire.ask("WEIR.TAKE", "api", "k", "5")
        lines = self.output("explain", "api", "k").splitlines()
        self.assertEqual(lines[0], "policy api, mode enforce, override none")
        self.assertRegex(lines[1], r"100/s burst=200 +used 5 +left 195 ")
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
            (["take", "ap", "k"], "take: no policy 'ap'; did you mean 'api'? (WEIR.POLICY LIST)"),
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
        self.check(["policy", "set", "new", "5/m"])
        self.check(["policy", "set", "two", "5/m,", "10/h"])
        self.assertEqual(self.wire.ask("WEIR.POLICY", "SHOW", "two")["limits"], "5/m, 10/h")
        self.check(["take", "new", "k", "5"], "allowed, 0 left\n")
        self.check(["policy", "set", "new", "10/m"])
        self.check(["take", "-q", "new", "k", "5"], status=1)
        self.check(["policy", "set", "--fresh", "new", "10/m"])
        self.check(["take", "new", "k", "5"], "allowed, 5 left\n")
        self.check(["policy", "del", "new"])
        self.check(["policy", "del", "new"], "", "weir policy: no policy 'new'; WEIR.POLICY SET makes one, WEIR.POLICY "
                   "LIST shows them\n", status=2)

    def test_modes(self):
        self.check(["policy", "mode", "login", "enforce", "--percent", "5"])
        self.assertIn("  mode        enforce 5%\n", self.output("policy", "show", "login"))
        self.check(["policy", "mode", "login", "disabled", "--for", "30m"])
        self.assertIn("  mode        disabled, for another 30 min\n", self.output("policy", "show", "login"))
        self.check(["policy", "mode", "--all", "disabled", "--for", "30m"])
        self.assertIn("; but all policies are disabled at present\n", self.output("policy", "show", "api"))
        self.assertTrue(self.output("policy").endswith(
            "\nall of them are disabled at present; weir policy mode --all enforce ends that\n"))
        self.check(["policy", "mode", "--all", "enforce"])
        self.assertNotIn("at present", self.output("policy"))
        self.assertNotIn("at present", self.output("policy", "show", "api"))

    def test_another_kind_of_limits(self):
        self.check(["policy", "set", "job", "5/m algo=sliding-log"])
        self.assertIn("  the limits of before must agree, too, for another 1 s\n", self.output("policy", "show", "job"))

    def test_mistakes(self):
        for arguments, message in [
            (["sho", "api"], "unknown word 'sho'; did you mean show?"),
            (["frobnicate"], "unknown word 'frobnicate'; write list, show, set, del or mode"),
            (["show"], "write: weir policy show NAME"),
            (["set", "api"], "write: weir policy set NAME LIMITS"),
            (["mode", "api"], "write: weir policy mode NAME|--all enforce|shadow|disabled"),
            (["mode", "--all", "api", "shadow"], "write: weir policy mode NAME|--all enforce|shadow|disabled"),
            (["show", "api", "--fresh"], "--fresh goes with set"),
            (["set", "api", "5/m", "--for", "1h"], "--for goes with mode"),
            (["set", "api", "5/m brust=2"], "5/m brust=2: column 5: unknown option 'brust'; did you mean burst?"),
        ]:
            with self.subTest(arguments):
                self.check(["policy", *arguments], "", f"weir policy: {message}\n", status=2)


class Override(ClientTest):
    def test_set_list_delete(self):
        self.check(["override", "list", "api"], "no key of this policy has limits of its own\n")
        self.check(["override", "set", "api", "org:acme", "1000/s", "--for", "2h", "--reason", "launch week"])
        self.check(["override", "set", "api", "internal:*", "unlimited"])
        self.check(["override", "list", "api"], "org:acme    1k/s       until 1970-01-01T02:00:00Z  (launch week)\n"
                   "internal:*  unlimited\n")
        self.assertEqual(json.loads(self.output("override", "list", "api", "--json")), [
            {"key": "org:acme", "limits": "1k/s", "until_ms": 7200000, "reason": "launch week"},
            {"key": "internal:*", "limits": "unlimited", "until_ms": None, "reason": None}])
        self.check(["take", "api", "org:acme", "900"], "allowed, 100 left\n")
        self.check(["take", "api", "internal:7", "9999"], "allowed, no limit\n")
        self.check(["override", "delete", "api", "org:acme"])
        self.check(["override", "del", "api", "internal:*"])
        self.check(["override", "list", "api"], "no key of this policy has limits of its own\n")

    def test_mistakes(self):
        how = "weir override: write: weir override "
        self.check(["override"], "", how + "list POLICY, set POLICY KEY LIMITS or delete POLICY KEY\n", status=2)
        self.check(["override", "set", "api", "k"], "", how + "set POLICY KEY LIMITS\n", status=2)
        self.check(["override", "list"], "", how + "list POLICY\n", status=2)
        self.check(["override", "list", "api", "--for", "1h"], "", "weir override: --for and --reason go with set\n",
                   status=2)
        self.assertEqual(self.run_weir("override", "delete", "api", "k").returncode, 2)


class Watch(ClientTest):
    def test_top(self):
        self.check(["top", "api"], "nobody in the last minutes\n")
        for _ in range(20):
            self.wire.pipeline(*[["WEIR.TAKE", "api", "busy"]] * 100)
        self.assertRegex(self.output("top", "api"), r"(?m)^ +[0-9 ]+  busy$")
        self.assertRegex(self.output("top", "api", "--refused", "--count", "1"), r"^ +[0-9 ]+  busy\n$")
        self.assertEqual(json.loads(self.output("top", "api", "--json"))[0]["key"], "busy")
        self.check(["top"], "", "weir top: of which policy? For example: weir top api\n", status=2)

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
        self.check(["stat", "--every", "0"], "", "weir stat: --every takes 1ms to 1d\n", status=2)


if __name__ == "__main__":
    command.main()
