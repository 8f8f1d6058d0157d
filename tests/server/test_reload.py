#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A configuration that changes under a running server: keys keep what they spent, ends come by themselves."""

import signal

import server

START = """\
policies:
  - {name: api, limits: 10/h}
  - {name: old, limits: 1/h}
"""


class Reload(server.ServerTest):
    def begin(self, config=START):
        weir = self.start("--test-clock", config=config)
        client = weir.connect(version=3)
        self.addCleanup(client.close)
        return weir, client

    def reload(self, weir, client, config):
        weir.configure(config)
        return client.ask("WEIR.RELOAD")

    def take(self, client, policy, key, n=1):
        return client.ask("WEIR.TAKE", policy, key, n)["allowed"]

    def until(self, holds):
        """What the tick does comes within moments."""
        for _ in range(100000):
            if holds():
                return
        self.fail("it never came")

    def test_keys_keep_what_they_spent(self):
        weir, client = self.begin()
        self.assertTrue(self.take(client, "api", "k", 8))
        self.assertEqual(self.reload(weir, client, "policies: [{name: api, limits: 5/h}]"), "OK")
        self.assertEqual(client.ask("WEIR.PEEK", "api", "k")["remaining"], 2)
        self.assertEqual(client.ask("WEIR.PEEK", "api", "other")["remaining"], 5)

    def test_the_password_cannot_go_where_others_can_come(self):
        users = "users: [{name: default, password: open sesame, may: all}]\n"
        weir = self.start("--resp", "0.0.0.0:0", config=users + START)
        client = weir.connect(version=3, user="default", password="open sesame")
        self.addCleanup(client.close)
        self.assertRegex(self.reload(weir, client, START), "can be reached from elsewhere and there is no password")
        with weir.connect() as stranger:
            self.assertRegex(stranger.ask("PING"), "^NOAUTH")

    def test_policies_come_and_go(self):
        weir, client = self.begin()
        client.ask("WEIR.POLICY", "SET", "mine", "3/h")
        self.assertEqual(self.reload(weir, client, "policies: [{name: api, limits: 10/h}, {name: new, limits: 1/h}]"),
                         "OK")
        self.assertEqual([policy["name"] for policy in client.ask("WEIR.POLICY", "LIST")], ["api", "mine", "new"])
        self.assertRegex(client.ask("WEIR.TAKE", "old", "k"), "no policy 'old'")
        self.assertTrue(self.take(client, "new", "k"))

    def test_a_bad_file_keeps_the_old_one_and_says_why(self):
        weir, client = self.begin()
        self.assertTrue(self.take(client, "api", "k", 8))
        answer = self.reload(weir, client, "policies: [{name: api, limits: 10/h brust=3}, {name: new, limits: 1/h}]")
        self.assertIsInstance(answer, server.Error)
        self.assertRegex(answer, r"weir\.yaml:1:\d+: .*did you mean burst\?.*nothing was changed: the configuration of "
                                 r"00:00:00 stays in force")
        self.assertEqual([policy["name"] for policy in client.ask("WEIR.POLICY", "LIST")], ["api", "old"])
        self.assertEqual(client.ask("WEIR.PEEK", "api", "k")["remaining"], 2)
        weir.wait_line("reload-failed")
        self.assertEqual(self.reload(weir, client, START), "OK")

    def test_every_mistake_is_logged_once(self):
        weir, client = self.begin()
        bad = "policies:\n  - {name: api, limits: 10/h brust=3}\n  - {name: new, limts: 1/h}\n"
        mistakes = ["weir.yaml:2:30: 10/h brust=3: unknown option 'brust'; did you mean burst?",
                    "weir.yaml:3:5: policy 'new' has no limits; write limits: 100/s",
                    "weir.yaml:3:17: unknown key 'limts' in policy 'new'; did you mean limits?"]
        for by_signal in False, True:
            before = len(weir.lines)
            weir.configure(bad)
            if by_signal:
                weir.signal(signal.SIGHUP)
                weir.wait_line("unknown key 'limts'", before)
                self.assertEqual(client.ask("WEIR.POLICY", "DEL", "none")[:3], "ERR")  # one background job after the other
            else:
                answer = client.ask("WEIR.RELOAD")
                self.assertTrue(answer.endswith("; nothing was changed: the configuration of 00:00:00 stays in force"))
                self.assertIn(mistakes[0] + f" (and 2 more; weir check {weir.config_path} shows all); nothing", answer)
                weir.wait_line("unknown key 'limts'", before)
            lines = [line for line in weir.lines[before:] if "event=reload-failed" in line]
            self.assertEqual(len(lines), 3, lines)
            for mistake, line in zip(mistakes, lines):
                self.assertIn(mistake, line)
                self.assertIn('means="nothing was changed"', line)

    def test_an_empty_file_takes_nothing_away(self):
        weir, client = self.begin()
        for text in ("", "# policies went missing\n", "memory: 256MiB\n"):
            self.assertRegex(self.reload(weir, client, text), "^ERR .*weir.yaml: it names no policies, and all that came "
                             r"from the file would go; if that is meant, write policies: \[\]; nothing was changed")
        self.assertTrue(self.take(client, "api", "k"))
        self.assertEqual(self.reload(weir, client, "policies: []\n"), "OK")
        self.assertEqual(client.ask("WEIR.POLICY", "LIST"), [])
        self.assertEqual(self.reload(weir, client, ""), "OK")  # there are none to lose

    def test_changes_by_command_are_logged(self):
        users = "users:\n  - {name: default, may: [look]}\n  - {name: ops, password: open sesame, may: all}\n"
        weir = self.start("--test-clock", config=users + START)
        client = weir.connect(version=3, user="ops", password="open sesame")
        self.addCleanup(client.close)
        for words, line in (
                ("WEIR.POLICY SET new 5/m FRESH", "policy-set policy=new limits=5/m fresh=yes"),
                ("WEIR.POLICY MODE api enforce PERCENT 5", 'mode-set policy=api mode="enforce 5%" ends=never'),
                ("WEIR.POLICY MODE * disabled FOR 30m", r"mode-set policy=\* mode=disabled ends=1970-01-01T00:30:00.000Z"),
                ("WEIR.OVERRIDE SET api int:* 5/m FOR 1h REASON why",
                 r"override-set policy=api key=int:\* limits=5/m ends=1970-01-01T01:00:00.000Z reason=why"),
                ("WEIR.OVERRIDE DEL api int:*", r"override-removed policy=api key=int:\*"),
                ("WEIR.POLICY DEL new", "policy-removed policy=new"),
                ("WEIR.RELOAD", "reload-asked by=command")):
            with self.subTest(words):
                before = len(weir.lines)
                self.assertEqual(client.ask(*words.split()), "OK")
                weir.wait_line(rf"level=info event={line} user=ops client=127\.0\.0\.1:\d+$", before)
        before = len(weir.lines)
        self.assertRegex(client.ask("WEIR.POLICY", "DEL", "new"), "^ERR")
        client.ask("WEIR.POLICY", "DEL", "old")
        weir.wait_line("policy-removed", before)
        self.assertEqual(sum("policy-removed" in line for line in weir.lines[before:]), 1)  # what failed is no change
        self.assertNotIn("sesame", "\n".join(weir.lines))

    def test_what_a_command_had_set_is_told(self):
        weir, client = self.begin()
        client.ask("WEIR.POLICY", "SET", "api", "5/h")
        client.ask("WEIR.POLICY", "MODE", "old", "shadow")
        self.assertEqual(client.ask("WEIR.POLICY", "SHOW", "api")["from"], "command")
        self.assertEqual(client.ask("WEIR.POLICY", "SHOW", "api")["file_limits"], "10/h")
        client.ask("WEIR.POLICY", "SET", "mine", "1/h")
        large = START.replace("limits: 1/h", "limits: 1/h, keys: 900000000")
        self.assertRegex(self.reload(weir, client, large), "^ERR")  # what is refused has changed nothing
        self.assertEqual(self.reload(weir, client, START), "OK")
        weir.wait_line("event=policy-from-file policy=api was=5/h is=10/h")
        weir.wait_line("event=mode-from-file policy=old was=shadow is=enforce")
        weir.wait_line("event=reloaded .* policies=2 in_force=3")
        self.assertFalse([line for line in weir.lines if "policy-from-file policy=old" in line])
        self.assertEqual(sum("-from-file" in line for line in weir.lines), 2)
        self.assertEqual(client.ask("WEIR.POLICY", "SHOW", "api")["from"], "file")

    def test_what_needs_a_restart_is_told(self):
        weir = self.start("--threads", "2", "--memory", "64MiB", config=START, threads=None)
        client = weir.connect()
        self.addCleanup(client.close)
        self.assertEqual(self.reload(weir, client, "threads: 3\nmemory: 32MiB\n" + START), "OK")  # flags stand above
        parts = ["listen: {unix: /tmp/other.sock}", "clients: {max: 77}", "clients: {idle: 5m}",
                 "client_limits: {keys: 1000}", "client_limits: {horizon: 1d}", "log: {format: json}", "log: {level: warn}",
                 "log: {refusals: 10/s}"]
        for part in parts:
            with self.subTest(part):
                name, before = part.split(":")[0], len(weir.lines)
                self.assertEqual(self.reload(weir, client, f"{part}\n{START}"), f"OK; {name} counts from the next start on")
                weir.wait_line(f"level=warn event=needs-restart what={name} ", before)
        self.assertEqual(self.reload(weir, client, f"clients: {{max: 10000}}\nlog: {{level: info}}\n{START}"), "OK")
        answer = self.reload(weir, client, f"clients: {{max: 7}}\nlog: {{level: warn}}\n{START}")
        self.assertEqual(answer, "OK; clients counts from the next start on;log counts from the next start on")
        self.assertEqual(client.ask("CONFIG", "GET", "maxclients")[1], "10000")

    def test_memory_and_threads_of_the_file(self):
        weir, client = self.begin("memory: 64MiB\n" + START)
        self.assertEqual(self.reload(weir, client, "memory: 32MiB\n" + START), "OK; memory counts from the next start on")
        self.assertEqual(self.reload(weir, client, "memory: 64MiB\n" + START), "OK")

    def test_by_signal(self):
        weir, client = self.begin()
        weir.configure("policies: [{name: api, limits: 7/h}]")
        weir.signal(signal.SIGHUP)
        weir.wait_line("event=reloaded")
        self.assertEqual(client.ask("WEIR.PEEK", "api", "k")["remaining"], 7)

    def test_a_mode_for_a_time_ends(self):
        weir, client = self.begin()
        self.assertTrue(self.take(client, "old", "k"))
        self.assertEqual(client.ask("WEIR.POLICY", "MODE", "old", "disabled", "FOR", "30s"), "OK")
        self.assertTrue(self.take(client, "old", "k"))
        self.assertEqual(self.reload(weir, client, START), "OK")  # does not cut it short
        self.assertTrue(self.take(client, "old", "k"))
        client.ask("WEIR.CLOCK", "ADVANCE", "29999")
        self.assertTrue(self.take(client, "old", "k"))
        client.ask("WEIR.CLOCK", "ADVANCE", "1")
        self.assertFalse(self.take(client, "old", "k"))
        weir.wait_line("event=mode-ended")
        self.assertEqual(client.ask("WEIR.POLICY", "SHOW", "old")["mode"], "enforce")

    def test_all_of_them_for_a_time(self):
        weir, client = self.begin()
        self.assertTrue(self.take(client, "old", "k"))
        self.assertEqual(client.ask("WEIR.POLICY", "MODE", "*", "disabled", "FOR", "30m"), "OK")
        self.assertTrue(self.take(client, "old", "k"))
        client.ask("WEIR.CLOCK", "ADVANCE", str(30 * 60000))
        self.assertFalse(self.take(client, "old", "k"))
        weir.wait_line("event=mode-ended")

    def test_an_override_ends(self):
        weir, client = self.begin("policies: [{name: api, limits: 10/h, overrides: "
                                  "[{key: org, limits: 50/h, until: 2027-01-31, reason: launch}]}]")
        self.assertEqual(client.ask("WEIR.PEEK", "api", "org")["remaining"], 50)
        self.assertEqual(client.ask("WEIR.OVERRIDE", "SET", "api", "k", "20/h", "FOR", "2h"), "OK")
        self.assertEqual(client.ask("WEIR.PEEK", "api", "k")["remaining"], 20)
        client.ask("WEIR.CLOCK", "ADVANCE", str(2 * 3600000))
        self.until(lambda: len(client.ask("WEIR.OVERRIDE", "LIST", "api")) == 1)
        self.assertEqual(client.ask("WEIR.PEEK", "api", "k")["remaining"], 10)
        client.ask("WEIR.CLOCK", "SET", "1801353600000")  # 2027-01-31T00:00:00Z
        self.until(lambda: client.ask("WEIR.OVERRIDE", "LIST", "api") == [])
        self.assertEqual(client.ask("WEIR.PEEK", "api", "org")["limit"], "10/h")

    def test_another_algorithm_agrees_with_the_old_one_until_that_has_forgotten(self):
        weir, client = self.begin("policies: [{name: login, limits: 5/m algo=sliding-log}]")
        self.assertTrue(self.take(client, "login", "k", 5))
        self.assertEqual(self.reload(weir, client, "policies: [{name: login, limits: 100/s}]"), "OK")
        self.assertEqual(client.ask("WEIR.TAKE", "login", "k")["limit"], "5/m algo=sliding-log")
        self.assertFalse(self.take(client, "login", "k"))
        # Its time begins when no turn is left that asks the old one alone.
        self.until(lambda: client.ask("WEIR.POLICY", "SHOW", "login")["older_limits_end_in_ms"] == 60000)
        client.ask("WEIR.CLOCK", "ADVANCE", "59999")
        self.assertFalse(self.take(client, "login", "k"))
        client.ask("WEIR.CLOCK", "ADVANCE", "1")
        self.assertTrue(self.take(client, "login", "k", 100))
        self.until(lambda: client.ask("WEIR.POLICY", "SHOW", "login")["older_limits_end_in_ms"] is None)

    def test_users_change_for_those_who_are_connected(self):
        weir, client = self.begin()
        self.assertTrue(self.take(client, "api", "k"))
        self.assertEqual(self.reload(weir, client, START + "users: [{name: default, may: [look]}]\n"), "OK")
        self.assertRegex(client.ask("WEIR.TAKE", "api", "k"), "^NOPERM")


if __name__ == "__main__":
    server.main()
