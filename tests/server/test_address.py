#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Policies whose keys are addresses, on a real server: RESP and HTTP, lists in files, reloads and restarts."""

import os
import subprocess
import tempfile

import server
from http_client import HttpTest

TIERS = "address: [{v4: 32, v6: 64, limits: 3/h}, {v4: 24, v6: 48, limits: %s}]"
LOGIN = "policies:\n  - name: login\n    " + TIERS % "5/h" + "\n"


class Address(HttpTest):
    def resp(self, weir):
        client = weir.connect(version=3)
        self.addCleanup(client.close)
        return client

    def write_list(self, path, text):
        """As people replace a file: its content is never half there."""
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(text)
        os.replace(path + ".new", path)

    def command(self, *arguments, status=0, stdin=""):
        done = subprocess.run([server.WEIR, *arguments], input=stdin, text=True, capture_output=True, timeout=60,
                              env=server.environment())
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_tiers_over_http_and_resp_are_the_same(self):
        client = self.http(config=LOGIN + "    block: 198.51.100.0/24\n    allow: \"2001:db8::/32\"\n")
        resp = self.resp(self.weir)
        self.assertEqual([client.get("/v1/take/login/192.0.2.7").status for _ in range(4)], [200, 200, 200, 429])
        self.assertEqual([resp.ask("WEIR.TAKE", "login", "192.0.2.8")["allowed"] for _ in range(3)], [True, True, False])
        got = client.get("/v1/take/login/192.0.2.9")
        self.assertEqual((got.status, got.json["limit"], got.json["retry_after_ms"]), (429, "5/h", 720000))
        self.assertEqual([limit["name"] for limit in client.get("/v1/peek/login/192.0.3.1").json["limits"]], ["3/h", "5/h"])
        got = client.get("/v1/take/login/198.51.100.7")
        self.assertEqual((got.status, got["retry-after"], got.json["reason"], got.json["retry_after_ms"]),
                         (429, None, "blocked", None))
        got = client.get("/v1/take/login/2001:db8::7?n=100")
        self.assertEqual((got.status, got.json["reason"], got.json["remaining"]), (200, "exempt", None))
        got = client.get("/v1/take/login/user:42")
        self.assertEqual(got.status, 400)
        self.assertIn("'user:42' is no IP address", got.json["detail"])
        self.assertIn('weir_refused_total{policy="login",limit="5/h"} 2', client.get("/metrics").text)
        self.assertIn('weir_refused_total{policy="login",limit="block"} 1', client.get("/metrics").text)
        self.assertIn('weir_policy_errors_total{policy="login"} 1', client.get("/metrics").text)

    def test_forward_auth_gives_the_whole_address(self):
        config = LOGIN + ("  - {name: api, limits: 100/h}\ntrusted_proxies: [127.0.0.1]\n"
                          "routes: [{policy: [login, api], key: address}]\n")
        client = self.http(config=config)
        ask = lambda source: client.get("/auth", X_Forwarded_Uri="/x", X_Forwarded_Method="GET", X_Forwarded_For=source).status
        self.assertEqual([ask("2001:db8:1:1::%d" % i) for i in range(1, 5)], [200, 200, 200, 429])
        self.assertEqual([ask("2001:db8:1:2::1") for _ in range(3)], [200, 200, 429])
        self.assertEqual(client.get("/v1/peek/api/address:2001:db8:1:2::%2F64").json["remaining"], 98)

    def test_a_route_of_addresses_has_addresses_as_keys(self):
        bad = LOGIN + "routes: [{policy: login, key: [header:x-api-key, address]}]\n"
        client = self.http(config=LOGIN)
        self.weir.configure(bad)
        self.assertIn("the keys of policy 'login' are addresses; write key: address",
                      self.resp(self.weir).ask("WEIR.RELOAD"))
        self.assertEqual(client.get("/v1/take/login/192.0.2.7").status, 200)

    def test_spent_units_survive_a_restart(self):
        with tempfile.TemporaryDirectory(prefix="weir-") as data:
            weir = self.start("--test-clock", "--data", data, "--fsync", "always", config=LOGIN)
            client = self.resp(weir)
            self.assertTrue(client.ask("WEIR.TAKE", "login", "192.0.2.7", 3)["allowed"])
            self.assertTrue(client.ask("WEIR.TAKE", "login", "192.0.2.8", 2)["allowed"])
            self.assertEqual(client.ask("WEIR.OVERRIDE", "SET", "login", "203.0.113.0/24", "1/h"), "OK")
            weir.process.kill()
            weir.wait()
            weir = self.start("--test-clock", "--data", data, config=LOGIN)
            client = self.resp(weir)
            self.assertEqual(client.ask("WEIR.TAKE", "login", "192.0.2.7")["limit"], "3/h")
            self.assertEqual(client.ask("WEIR.TAKE", "login", "192.0.2.9")["limit"], "5/h")
            self.assertFalse(client.ask("WEIR.TAKE", "login", "203.0.113.9", 2)["allowed"])
            weir.stop()
            weir = self.start("--test-clock", "--data", data)
            weir.wait_line("event=address-policy-left-out policy=login ")
            self.assertIn("no policy 'login'", self.resp(weir).ask("WEIR.TAKE", "login", "192.0.2.7"))
            weir.stop()

    def test_a_reload_keeps_what_was_spent_in_tiers_that_stay(self):
        weir = self.start("--test-clock", config=LOGIN)
        client = self.resp(weir)
        self.assertTrue(client.ask("WEIR.TAKE", "login", "192.0.2.7", 3)["allowed"])
        more = TIERS % "10/h}, {v4: 16, v6: 32, limits: 20/h"
        for tiers in TIERS % "10/h", more:
            weir.configure("policies:\n  - name: login\n    " + tiers + "\n")
            self.assertEqual(client.ask("WEIR.RELOAD"), "OK")
            self.assertEqual(client.ask("WEIR.PEEK", "login/24-48", "192.0.2.0/24")["remaining"], 2)
            self.assertEqual(client.ask("WEIR.PEEK", "login", "192.0.2.7")["remaining"], 0)
        self.assertTrue(client.ask("WEIR.TAKE", "login", "192.0.9.1", 3)["allowed"])
        self.assertEqual(client.ask("WEIR.PEEK", "login/16-32", "192.0.0.0/16")["remaining"], 17)
        weir.configure("policies: [{name: login, limits: 4/h}]\n")
        self.assertEqual(client.ask("WEIR.RELOAD"), "OK")
        self.assertEqual([policy["name"] for policy in client.ask("WEIR.POLICY", "LIST")], ["login"])
        self.assertEqual(client.ask("WEIR.PEEK", "login", "192.0.2.7")["remaining"], 0)

    def test_lists_in_files_come_with_a_reload_or_when_they_change(self):
        with tempfile.TemporaryDirectory(prefix="weir-") as folder:
            path = os.path.join(folder, "bad.txt")
            self.write_list(path, "# crawlers\n192.0.2.0/24\n")
            weir = self.start(config=LOGIN + f"    block: \"@{path}\"\nwatch: files\n")
            client = self.resp(weir)
            self.assertEqual(client.ask("WEIR.TAKE", "login", "192.0.2.7")["reason"], "blocked")
            self.write_list(path, "198.51.100.0/24\n192.0.2.0/23\n192.0.2.7/23\n")
            self.assertIn(f"{path}:3: '192.0.2.7/23' is no network", client.ask("WEIR.RELOAD"))
            self.assertEqual(client.ask("WEIR.TAKE", "login", "192.0.2.7")["reason"], "blocked")
            self.assertEqual(client.ask("WEIR.TAKE", "login", "198.51.100.7")["reason"], "ok")
            logged = len(weir.lines)
            self.write_list(path, "198.51.100.0/24\n")
            weir.wait_line("event=reloaded", after=logged)
            self.assertEqual(client.ask("WEIR.TAKE", "login", "192.0.2.7")["reason"], "ok")
            self.assertEqual(client.ask("WEIR.TAKE", "login", "198.51.100.7")["reason"], "blocked")

    def test_dump_and_load_move_every_tier(self):
        with tempfile.TemporaryDirectory(prefix="weir-") as folder:
            key = os.path.join(folder, "hash.key")
            with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
                file.write("0123456789abcdef0123456789abcdef\n")
            config = f"hash_key_file: {key}\n" + LOGIN
            first, second, plain = (self.start("--test-clock", config=text) for text in (config, config, None))
            client = self.resp(first)
            self.assertTrue(client.ask("WEIR.TAKE", "login", "192.0.2.7", 3)["allowed"])
            dump = self.command("dump", "-s", first.url()).stdout
            self.command("load", "-s", second.url(), "--no-elapsed", stdin=dump)
            self.assertIn("the keys of this policy are addresses",
                          self.command("load", "-s", plain.url(), stdin=dump, status=2).stderr)
            self.assertEqual(self.resp(second).ask("WEIR.TAKE", "login", "192.0.2.7")["limit"], "3/h")
            self.assertEqual(self.resp(second).ask("WEIR.TAKE", "login", "192.0.2.8", 3)["limit"], "5/h")


if __name__ == "__main__":
    server.main()
