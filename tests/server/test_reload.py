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
