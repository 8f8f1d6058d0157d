#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Forward auth on a real server: rights, tokens, reloads, addresses, and what is answered when nothing can be decided."""

import os
import tempfile

import server
from http_client import HttpClient, HttpTest, basic

TOKEN = "0123456789abcdef0123456789abcdef"
CONFIG = """
policies: [{name: api, limits: 3/h}, {name: login, limits: 1/h}]
trusted_proxies: [127.0.0.1]
routes:
  - {match: {path: /login, method: POST}, policy: [login, api], key: address}
  - {match: {path: /api/**}, policy: api, key: [header:x-api-key, address], status: 403}
  - {match: {path: /open}, policy: login, key: address, on_unavailable: allow}
  - {match: {path: /shut}, policy: login, key: address, on_unavailable: refuse}
"""


class Routes(HttpTest):
    def auth(self, client, path, method="GET", source="192.0.2.7", **fields):
        return client.get("/auth", X_Forwarded_Uri=path, X_Forwarded_Method=method, X_Forwarded_For=source, **fields)

    def test_several_policies_are_taken_all_or_none(self):
        client = self.http(config=CONFIG)
        self.assertEqual([self.auth(client, "/login", "POST").status for _ in range(3)], [200, 429, 429])
        self.assertEqual(client.get("/v1/peek/api/address:192.0.2.7").json["remaining"], 2)
        self.assertEqual([self.auth(client, "/api/x").status for _ in range(3)], [200, 200, 403])
        self.assertEqual(self.auth(client, "/login", "POST", "192.0.2.8").status, 200)

    def test_the_key_is_the_clients_address(self):
        client = self.http(config=CONFIG)
        self.assertEqual(self.auth(client, "/api/x", source="6.6.6.6, 2001:db8:1:2:3::4").status, 200)
        self.assertEqual(client.get("/v1/peek/api/address:2001:db8:1:2::%2F64").json["remaining"], 2)
        self.assertEqual(client.get("/v1/peek/api/address:6.6.6.6").json["remaining"], 3)

    def test_a_peer_that_is_not_trusted_names_no_request_and_no_address(self):
        self.http(config=CONFIG)
        stranger = HttpClient(self.weir.ports["http"], source="127.0.0.2")
        self.addCleanup(stranger.close)
        got = self.auth(stranger, "/api/x")
        self.assertEqual(got.status, 403)
        self.assertIn("is not in trusted_proxies:", got.json["detail"])
        self.assertEqual(stranger.get("/auth/api/x", X_Forwarded_For="192.0.2.7").status, 200)
        self.assertEqual(self.client().get("/v1/peek/api/address:127.0.0.2").json["remaining"], 2)

    def test_any_method_and_host_may_ask_and_a_body_is_ignored(self):
        client = self.http(config=CONFIG)
        got = client.ask_http("POST", "/auth/login", b"user=x", Content_Type="text/plain", Origin="https://evil.example",
                              Sec_Fetch_Site="cross-site")
        self.assertEqual(got.status, 200)
        self.assertEqual(client.ask_http("PATCH", "/auth/api/x").status, 200)
        self.assertEqual(client.ask_http("HEAD", "/auth/api/x").status, 200)

    def test_who_may_take_from_the_policies_may_ask(self):
        with open(os.path.join(tempfile.mkdtemp(prefix="weir-"), "token"), "w", encoding="ascii") as file:
            file.write(TOKEN + "\n")
        os.chmod(file.name, 0o600)
        self.addCleanup(os.rmdir, os.path.dirname(file.name))
        self.addCleanup(os.unlink, file.name)
        client = self.http(config=CONFIG + f"""
users:
  - {{name: default, may: [look]}}
  - {{name: proxy, token_file: {file.name}, may: [take], policies: [api]}}
""")
        bearer = {"Weir_Authorization": "Bearer " + TOKEN}
        self.assertEqual(self.auth(client, "/api/x", **bearer).status, 200)
        for path, method, fields in (("/api/x", "GET", {}), ("/login", "POST", bearer),
                                     ("/api/x", "GET", {"Authorization": "Bearer " + TOKEN})):
            with self.subTest(path=path, fields=fields):
                self.assertEqual(self.auth(client, path, method, **fields).status, 500)
        self.assertEqual(self.auth(client, "/elsewhere").status, 200)
        got = self.auth(client, "/api/x", Weir_Authorization="Bearer x" + TOKEN[1:])
        self.assertEqual((got.status, got["www-authenticate"]), (500, None))
        client = self.client()
        self.assertEqual(client.ask_http("GET", "/v1/take/api/k", Authorization="Bearer " + TOKEN).status, 200)

    def test_wrong_passwords_block_the_client_and_not_its_proxy(self):
        client = self.http(config=CONFIG + "users: [{name: app, password: right, may: [look]}]\n")

        def log_in(password, source):
            nonlocal client
            got = client.get("/v1/policies", Authorization=basic("app", password), X_Forwarded_For=source)
            if got.status != 200:
                client = self.client()
            return got.status
        self.assertEqual([log_in(f"wrong-{i}", "6.6.6.6, 192.0.2.1") for i in range(12)], [401] * 10 + [429] * 2)
        self.assertEqual(log_in("right", "192.0.2.1"), 429)
        self.assertEqual(log_in("right", "192.0.2.2"), 200)
        self.weir.wait_line("event=login-failed address=192.0.2.1:0 user=app")

    def test_a_reload_changes_routes_and_keeps_what_was_spent(self):
        client = self.http(config=CONFIG)
        admin = self.weir.connect()
        self.addCleanup(admin.close)
        self.assertEqual([self.auth(client, "/api/x").status for _ in range(4)], [200, 200, 200, 403])
        self.assertEqual(self.auth(client, "/new/x").status, 200)
        self.weir.configure(CONFIG.replace("/api/**", "/new/**") + "routes_default: refuse\n")
        self.assertEqual(admin.ask("WEIR.RELOAD"), "OK")
        self.assertEqual(self.auth(client, "/new/x").status, 403)
        self.assertEqual(self.auth(client, "/new/x").json["limit"], "3/h")
        self.assertEqual(self.auth(client, "/api/x").json["detail"], "no route matches this request")
        self.weir.configure(CONFIG.replace("policy: api,", "policy: apo,"))
        self.assertIn("did you mean api?", admin.ask("WEIR.RELOAD"))
        self.assertEqual(self.auth(client, "/api/x").json["detail"], "no route matches this request")

    def test_when_nothing_can_be_decided_the_route_says_what_to_answer(self):
        with tempfile.TemporaryDirectory(prefix="weir-data-") as folder:
            data = os.path.join(folder, "data")
            weir = self.start("--data", data, config=CONFIG, also=("http",))
            client = HttpClient(weir.ports["http"])
            self.addCleanup(client.close)
            self.assertEqual(self.auth(client, "/open", source="192.0.2.1").status, 200)
            os.rename(data, data + ".away")
            weir.wait_line("event=store-ill")
            for path, status in (("/api/x", 503), ("/open", 200), ("/shut", 429)):
                with self.subTest(path=path):
                    self.assertEqual(self.auth(client, path).status, status)
            os.rename(data + ".away", data)
            weir.wait_line("event=store-well")
            self.assertEqual([self.auth(client, "/open").status for _ in range(2)], [200, 429])
            weir.stop()


if __name__ == "__main__":
    server.main()
