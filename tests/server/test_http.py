#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""HTTP/1.1 and the JSON API: the same decisions as over the Redis protocol, and nothing that is read two ways."""

import base64
import hashlib
import json
import os
import random
import signal
import socket
import sys
import unittest

import server
from http_client import HttpTest, basic

POLICIES = """
policies:
  - {name: api, limits: 5/m}
  - {name: two, limits: "10/s burst=20, 100/h"}
  - {name: wide, limits: 1000/s}
"""


class Decide(HttpTest):
    def test_take_answers_200_until_the_limit_refuses_with_429(self):
        client = self.http()
        statuses = [client.get("/v1/take/api/user:42").status for _ in range(6)]
        self.assertEqual(statuses, [200] * 5 + [429])

    def test_an_allowed_take_tells_all_numbers(self):
        got = self.http().post("/v1/take", {"policy": "api", "key": "k", "n": 2})
        self.assertEqual(got["content-type"], "application/json")
        numbers = {"count": 5, "window_ms": 60000, "burst": 5, "used": 2, "remaining": 3, "reset_after_ms": 24000,
                   "retry_after_ms": 0}
        self.assertEqual(got.json, {"allowed": True, "limit": "5/m", "reason": "ok", **numbers,
                                    "limits": [{"name": "5/m", **numbers}]})
        self.assertEqual(got["ratelimit-policy"], '"api";q=5;w=60')
        self.assertEqual(got["ratelimit"], '"api";r=3;t=36')
        self.assertIsNone(got["retry-after"])
        self.assertEqual(got["cache-control"], "no-store")

    def test_a_refusal_is_a_problem_that_names_the_limit(self):
        client = self.http()
        client.post("/v1/take", {"policy": "api", "key": "k", "n": 5})
        got = client.post("/v1/take", {"policy": "api", "key": "k"})
        self.assertEqual((got.status, got["content-type"]), (429, "application/problem+json"))
        self.assertEqual(got["retry-after"], "12")
        self.assertEqual(got["ratelimit"], '"api";r=0;t=12')
        self.assertEqual(got.json["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded")
        self.assertEqual(got.json["violated-policies"], ["api"])
        self.assertEqual((got.json["status"], got.json["allowed"], got.json["retry_after_ms"]), (429, False, 12000))

    def test_what_never_passes_has_no_retry_after(self):
        got = self.http().get("/v1/take/api/k?n=6")
        self.assertEqual((got.status, got["retry-after"], got.json["retry_after_ms"]), (429, None, None))
        self.assertEqual(got.json["reason"], "never")

    def test_the_status_of_a_refusal_can_be_chosen(self):
        client = self.http()
        for status in (403, 200, 429):
            self.assertEqual(client.get(f"/v1/take/api/k?n=6&status={status}").status, status)
        self.assertEqual(client.get("/v1/take/api/k?n=6&status=200")["content-type"], "application/json")
        self.assertEqual(client.get("/v1/take/api/k?status=418").status, 400)

    def test_the_rate_fields_have_dialects(self):
        client = self.http()
        got = client.get("/v1/take/api/k?headers=ietf-06")
        self.assertEqual((got["ratelimit-limit"], got["ratelimit-remaining"], got["ratelimit-reset"]), ("5", "4", "12"))
        got = client.get("/v1/take/api/k?headers=x")
        self.assertEqual((got["x-ratelimit-limit"], got["x-ratelimit-remaining"], got["x-ratelimit-reset"]),
                         ("5", "3", "24"))
        got = client.get("/v1/take/api/k?headers=x-epoch")  # the test clock began at 1970
        self.assertEqual(got["x-ratelimit-reset"], "36")
        with self.weir.connect() as resp:
            resp.ask("WEIR.CLOCK", "ADVANCE", "6000")
        self.assertEqual(client.get("/v1/take/api/k?headers=x-epoch")["x-ratelimit-reset"], "48")
        got = client.get("/v1/take/api/k?headers=none")
        self.assertFalse([name for name, _ in got.fields if "ratelimit" in name])
        self.assertEqual(client.get("/v1/take/api/k?headers=y").status, 400)

    def test_a_policy_has_a_dialect_of_its_own(self):
        client = self.http(config="http: {headers: none}\npolicies: [{name: api, limits: 5/m, headers: x},"
                                  " {name: two, limits: 5/m}]")
        self.assertEqual(client.get("/v1/take/api/k")["x-ratelimit-remaining"], "4")
        self.assertIsNone(client.get("/v1/take/two/k")["ratelimit"])
        self.assertEqual(client.get("/v1/take/api/k?headers=ietf")["ratelimit"], '"api";r=3;t=36')

    def test_several_pairs_are_all_or_none(self):
        client = self.http(config=POLICIES)
        pairs = [{"policy": "api", "key": "a", "n": 3}, {"policy": "two", "key": "b", "n": 4}]
        got = client.post("/v1/take", {"pairs": pairs})
        self.assertEqual(got.status, 200)
        self.assertEqual([limit["name"] for limit in got.json["limits"]], ["api/5/m", "two/10/s burst=20", "two/100/h"])
        got = client.post("/v1/take", {"pairs": pairs})
        self.assertEqual((got.status, got.json["limit"]), (429, "api/5/m"))
        self.assertEqual(client.get("/v1/peek/two/b").json["remaining"], 16)

    def test_a_repeated_id_gets_the_same_answer_and_takes_once(self):
        client = self.http()
        for _ in range(3):
            self.assertEqual(client.post("/v1/take", {"policy": "api", "key": "k", "id": "x1"}).json["remaining"], 4)
        self.assertEqual(client.get("/v1/peek/api/k").json["remaining"], 4)

    def test_a_peek_is_200_whatever_it_tells(self):
        client = self.http()
        client.get("/v1/take/api/k?n=5")
        got = client.get("/v1/peek/api/k")
        self.assertEqual((got.status, got.json["allowed"], got["retry-after"]), (200, False, "12"))

    def test_a_key_is_the_rest_of_the_path_decoded_once(self):
        client = self.http()
        client.get("/v1/take/api/a%2Fb/c%2520d")
        got = client.post("/v1/peek", {"policy": "api", "key": "a/b/c%20d"})
        self.assertEqual(got.json["remaining"], 4)
        self.assertEqual(client.get("/v1/take/api/%zz").status, 400)

    def test_keys_of_any_bytes_come_as_base64(self):
        client = self.http()
        key = bytes(range(256))
        client.post("/v1/take", {"policy": "api", "key_b64": base64.b64encode(key).decode()})
        with self.weir.connect(version=3) as resp:
            self.assertEqual(resp.ask("WEIR.PEEK", "api", key)["remaining"], 4)
        self.assertEqual(client.post("/v1/take", {"policy": "api", "key_b64": "*"}).status, 400)

    def test_reserve_commit_and_cancel(self):
        client = self.http()
        got = client.post("/v1/reserve", {"policy": "api", "key": "k", "n": 4, "ttl_ms": 60000})
        self.assertEqual((got.status, got.json["remaining"], got.json["due_in_ms"]), (200, 1, 0))
        settled = client.post("/v1/commit", {"id": got.json["id"], "used": 1})
        self.assertEqual((settled.status, settled.json["charged"], settled.json["given_back"]), (200, 1, 3))
        again = client.post("/v1/reserve", {"policy": "api", "key": "k", "n": 2}).json["id"]
        self.assertEqual(client.post("/v1/cancel", {"id": again}).json["given_back"], 2)
        self.assertEqual(client.get("/v1/peek/api/k").json["remaining"], 4)

    def test_give_charge_and_reset(self):
        client = self.http()
        self.assertEqual(client.post("/v1/charge", {"policy": "api", "key": "k", "n": 4}).json, {"ok": True})
        self.assertEqual(client.get("/v1/peek/api/k").json["remaining"], 1)
        client.post("/v1/give", {"policy": "api", "key": "k", "n": 2})
        self.assertEqual(client.get("/v1/peek/api/k").json["remaining"], 3)
        client.post("/v1/reset", {"policy": "api", "key": "k"})
        self.assertEqual(client.get("/v1/peek/api/k").json["remaining"], 5)

    def test_people_read_words(self):
        client = self.http()
        got = client.get("/v1/take/api/k", Accept="text/plain")
        self.assertEqual((got["content-type"], got.text), ("text/plain; charset=utf-8", "allowed; 4 left\n"))
        got = client.get("/v1/take/api/k?n=5", Accept="text/plain")
        self.assertEqual((got.status, got.text), (429, "refused by 5/m; retry after 12 s\n"))
        self.assertEqual(client.get("/v1/take/api/k?n=50", Accept="text/plain").text,
                         "refused by 5/m: 50 exceeds the burst of 5; waiting will not help\n")
        self.assertIn("used 1", client.get("/v1/explain/api/k", Accept="text/plain").text)


class Wait(HttpTest):
    def test_acquire_answers_when_the_units_are_due(self):
        client = self.http()
        client.get("/v1/take/api/k?n=5")
        client.say("POST", "/v1/acquire", {"policy": "api", "key": "k", "timeout_ms": 60000})
        with self.weir.connect() as resp:
            while "blocked_clients:1" not in resp.ask("INFO", "clients"):
                pass
            resp.ask("WEIR.CLOCK", "ADVANCE", "12000")
        got = client.response()
        self.assertEqual((got.status, got.json["allowed"], got.json["waited_ms"]), (200, True, 12000))
        self.assertEqual(len(got.json["limits"]), 1)
        self.assertIsNotNone(got["ratelimit"])

    def test_acquire_that_would_wait_too_long_is_refused(self):
        client = self.http()
        client.get("/v1/take/api/k?n=5")
        got = client.post("/v1/acquire", {"policy": "api", "key": "k", "timeout_ms": 1000})
        self.assertEqual((got.status, got["retry-after"]), (429, "11"))  # a wait of a second is enough then

    def test_a_client_that_leaves_gives_back_what_it_was_promised(self):
        client = self.http()
        client.get("/v1/take/api/k?n=5")
        client.say("POST", "/v1/acquire", {"policy": "api", "key": "k", "timeout_ms": 60000})
        with self.weir.connect(version=3) as resp:
            while "blocked_clients:1" not in resp.ask("INFO", "clients"):
                pass
            self.assertEqual(resp.ask("WEIR.PEEK", "api", "k")["retry_after_ms"], 24000)
            client.close()
            while "blocked_clients:1" in resp.ask("INFO", "clients"):
                pass
            self.assertEqual(resp.ask("WEIR.PEEK", "api", "k")["retry_after_ms"], 12000)

    def test_requests_behind_one_that_waits_are_answered_after_it(self):
        client = self.http()
        client.get("/v1/take/api/k?n=5")
        client.say("POST", "/v1/acquire", {"policy": "api", "key": "k", "timeout_ms": 60000})
        client.say("GET", "/v1/take/api/other")
        with self.weir.connect() as resp:
            while "blocked_clients:1" not in resp.ask("INFO", "clients"):
                pass
            resp.ask("WEIR.CLOCK", "ADVANCE", "12000")
        self.assertIn("waited_ms", client.response().json)
        self.assertEqual(client.response().json["remaining"], 4)


class Batch(HttpTest):
    def test_answers_come_in_the_order_of_the_questions(self):
        client = self.http(config=POLICIES)
        got = client.post("/v1/batch", {"requests": [
            {"policy": "api", "key": "k"},
            {"op": "take", "policy": "api", "key": "k", "n": 9},
            {"op": "charge", "policy": "two", "key": "k", "n": 3},
            {"policy": "nope", "key": "k"},
            {"key": "k", "n": 1, "op": "peek", "policy": "two"}]})
        self.assertEqual(got.status, 200)
        answers = got.json["answers"]
        self.assertEqual([answer.get("allowed") for answer in answers], [True, False, None, None, True])
        self.assertEqual(answers[2], {"ok": True})
        self.assertEqual(answers[3]["error"]["status"], 404)
        self.assertEqual(answers[4]["remaining"], 17)

    def test_a_thousand_and_not_one_more(self):
        client = self.http(config=POLICIES)
        question = {"policy": "wide", "key": "k"}
        got = client.post("/v1/batch", {"requests": [question] * 1000})
        self.assertEqual(sum(answer["allowed"] for answer in got.json["answers"]), 1000)
        self.assertEqual(client.post("/v1/batch", {"requests": [question] * 1001}).status, 400)

    def test_a_mistake_anywhere_decides_nothing(self):
        client = self.http()
        for wrong in ({"op": "acquire", "policy": "api", "key": "k"}, {"policy": "api"}, {"policy": "api", "key": 5},
                      {"policy": "api", "key": "k", "m": 1}, {"policy": "api", "key": "k", "n": 1.5}, 7):
            got = client.post("/v1/batch", {"requests": [{"policy": "api", "key": "k"}, wrong]})
            self.assertEqual(got.status, 400, wrong)
            self.assertIn("requests[1]", got.json["detail"])
        self.assertEqual(client.get("/v1/peek/api/k").json["remaining"], 5)

    def test_an_op_is_a_text_and_its_own(self):
        client = self.http()
        for wrong in ({"policy": "api", "key": "reset", "op": [1]}, {"policy": "reset", "op": True, "key": "k"}):
            got = client.post("/v1/batch", {"requests": [wrong]})
            self.assertEqual((got.status, "'op' is a text" in got.json["detail"]), (400, True))

    def test_pairs_of_all_requests_are_bounded_together(self):
        client = self.http(config=POLICIES)
        eight = {"pairs": [{"policy": "wide", "key": f"k{i}"} for i in range(8)]}
        self.assertEqual(client.post("/v1/batch", {"requests": [eight] * 125}).status, 200)
        self.assertEqual(client.post("/v1/batch", {"requests": [eight] * 126}).status, 400)
        self.assertEqual(client.get("/v1/peek/wide/k0").json["used"], 125)

    def test_an_empty_batch(self):
        self.assertEqual(self.http().post("/v1/batch", {"requests": []}).json, {"answers": []})


class Mistakes(HttpTest):
    def test_each_says_what_to_do(self):
        client = self.http()
        for body, text in (({"policy": "api"}, "'key' is missing"),
                           ({"policy": "api", "key": "k", "m": 2}, "unknown field 'm'"),
                           ({"policy": "api", "keyy": "k"}, "did you mean 'key'"),
                           ({"policy": "api", "key": "k", "n": "2"}, "'n' is a whole number"),
                           ({"policy": "api", "key": "k", "n": 0}, "n"),
                           ({"policy": "api", "key": "k", "n": 2 ** 53}, "'n': "),
                           ({"policy": "api", "key": "k", "n": -1}, "n"),
                           (b'{"policy":"api","key":"k","key":"l"}', "twice"),
                           (b'{"policy":"api","key":"\xff"}', "'key': "),
                           ({"policy": "api", "key": ""}, "'key' is empty"),
                           ({"policy": "api", "key": "k", "id": ["a"]}, "'id': "),
                           (b'{"policy":"api","key":"k"', "body"),
                           (b'{"policy":"api","key":"k"} x', "body"),
                           (b"[" * 100000, "body"),
                           (b'{"a":' * 100000, "no field has an object"),
                           (b"", "is missing")):
            got = client.post("/v1/take", body)
            self.assertEqual((got.status, got["content-type"]), (400, "application/problem+json"), body)
            self.assertIn(text, got.json["detail"])
        self.assertEqual(client.get("/v1/peek/api/k").json["remaining"], 5)

    def test_unknown_policies_are_404(self):
        got = self.http().get("/v1/take/apj/k")
        self.assertEqual(got.status, 404)
        self.assertIn("did you mean 'api'", got.json["detail"])

    def test_unknown_paths_are_404_and_other_methods_405(self):
        client = self.http()
        self.assertIn("/v1/take", client.get("/v1/tak").json["detail"])
        self.assertEqual(client.get("/nothing").status, 404)
        got = client.ask_http("DELETE", "/v1/take")
        self.assertEqual((got.status, got["allow"]), (405, "POST"))
        self.assertEqual(client.post("/v1/take/api/k", b"", Content_Type="text/plain").status, 405)
        self.assertIn("/v1/take or /v1/take/POLICY/KEY", client.get("/v1/take/api").json["detail"])
        self.assertEqual(client.ask_http("HEAD", "/v1/take/api/k").status, 405)
        self.assertEqual(client.get("/v1/peek/api/k").json["remaining"], 5)

    def test_a_body_belongs_to_post_and_a_query_to_get(self):
        client = self.http()
        self.assertEqual(client.post("/v1/take?n=5", {"policy": "api", "key": "k"}).status, 400)


class Admin(HttpTest):
    def test_policies_modes_and_overrides(self):
        client = self.http()
        self.assertEqual(client.ask_http("PUT", "/v1/policies/new", {"limits": "7/s"}).json, {"ok": True})
        self.assertEqual(client.get("/v1/policies/new").json["limits"], "7/s")
        self.assertEqual({policy["name"] for policy in client.get("/v1/policies").json}, {"api", "new"})
        self.assertEqual(client.ask_http("PUT", "/v1/mode/new", {"mode": "shadow", "for": "30m"}).status, 200)
        self.assertEqual(client.get("/v1/policies/new").json["mode"], "shadow")
        self.assertEqual(client.ask_http("PUT", "/v1/overrides/api/vip%3A1",
                                         {"limits": "50/m", "reason": "asked for it"}).status, 200)
        self.assertEqual(client.get("/v1/take/api/vip:1").json["count"], 50)
        self.assertEqual(client.get("/v1/overrides/api").json[0]["reason"], "asked for it")
        self.assertEqual(client.ask_http("DELETE", "/v1/overrides/api/vip:1").status, 200)
        self.assertEqual(client.ask_http("DELETE", "/v1/policies/new?forget").status, 200)
        self.assertEqual(client.get("/v1/policies/new").status, 404)
        self.assertTrue(self.weir.wait_line("event=policy-set .*policy=new .*user=default"))

    def test_a_limit_that_is_wrong_says_where(self):
        got = self.http().ask_http("PUT", "/v1/policies/new", {"limits": "7/s brust=5"})
        self.assertEqual(got.status, 400)
        self.assertIn("did you mean burst", got.json["detail"])

    def test_explain_top_and_info(self):
        client = self.http()
        client.get("/v1/take/api/k?n=2")
        self.assertEqual(client.get("/v1/explain/api/k").json["limits"][0]["used"], 2)
        self.assertEqual(client.get("/v1/top/api?by=taken&count=5").status, 200)
        self.assertEqual(client.get("/v1/top/api?by=given").status, 400)
        self.assertIn("Server", client.get("/v1/info").json)

    def test_a_reload_is_a_job_and_is_answered(self):
        client = self.http()
        self.weir.configure("policies: [{name: api, limits: 9/m}]")
        self.assertEqual(client.post("/v1/reload", {}).status, 200)
        self.assertEqual(client.get("/v1/take/api/k").json["count"], 9)


class Logins(HttpTest):
    def users(self, extra=""):
        return ("policies: [{name: api, limits: 5/m}]\nusers:\n"
                "  - {name: default, password: root-secret, may: [look, take, adjust, admin]}\n"
                "  - {name: shop, password: shop-secret, may: [take], keys: ['shop:*']}\n" + extra)

    def test_each_request_says_who_asks(self):
        client = self.http(config=self.users())
        got = client.get("/v1/take/api/shop:1")
        self.assertEqual(got.status, 401)
        self.assertEqual([value.split()[0] for name, value in got.fields if name == "www-authenticate"],
                         ["Basic", "Bearer"])
        shop, root = basic("shop", "shop-secret"), basic("default", "root-secret")
        self.assertEqual(client.get("/v1/take/api/shop:1", Authorization=shop).status, 200)
        self.assertEqual(client.get("/v1/take/api/other:1", Authorization=shop).status, 403)
        self.assertEqual(client.get("/v1/info", Authorization=shop).status, 403)
        self.assertEqual(client.get("/v1/info", Authorization=root).status, 200)
        self.assertEqual(client.get("/v1/take/api/shop:1").status, 401)

    def test_who_has_not_logged_in_is_asked_to(self):
        client = self.http(config="policies: [{name: api, limits: 5/m}]\nusers:\n"
                                  "  - {name: default, may: [look]}\n  - {name: shop, password: shop-secret, may: [take]}\n")
        got = client.get("/v1/take/api/k")
        self.assertEqual((got.status, "Authorization" in got.json["detail"]), (401, True))
        self.assertEqual(client.get("/v1/policies", Authorization=basic("shop", "shop-secret")).status, 403)

    def test_too_many_wrong_passwords_say_when_to_return(self):
        self.http(config=self.users())
        for attempt in range(40):
            got = self.client().get("/v1/take/api/shop:1", Authorization=basic("shop", f"wrong{attempt}"))
            if got.status == 429:
                break
        self.assertIn(f"try again in {got['retry-after']} s", got.json["detail"])

    def test_a_wrong_password_is_401_and_does_not_take(self):
        client = self.http(config=self.users())
        got = client.get("/v1/take/api/shop:1", Authorization=basic("shop", "wrong"))
        self.assertEqual((got.status, got["connection"]), (401, "close"))
        client = self.client()
        for value in ("Basic", "Basic ***", "Digest x", "Basic " + base64.b64encode(b"no-colon").decode()):
            self.assertEqual(client.get("/v1/take/api/shop:1", Authorization=value).status, 401)

    def test_bodies_are_small_until_the_login(self):
        client = self.http(config=self.users())
        large, root = b"[" + b" " * 200_000 + b"]", basic("default", "root-secret")
        self.assertEqual(client.get("/v1/policies", Authorization=root).status, 200)
        self.assertEqual(client.post("/v1/take", large, Authorization=root).status, 400)
        client = self.client()
        client.raw(b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200002\r\n\r\n")
        self.assertEqual(client.response().status, 413)  # nobody has to keep what strangers send

    def test_chunks_are_still_there_when_the_password_has_been_checked(self):
        slow = "$6$saltsalt$uu36rOMWBl5G3JS5WhdGJkm/dNH65GKLvrk3cEf0WYqM4g14GdRKmij8.N3cQUTnnzhyvwiDn7CUA21ZLfbnX/"  # shop-secret: not known at once
        config = self.users().replace("password: shop-secret", f'password_crypt: "{slow}"')
        body = b'{"policy":"api","key":"shop:1"}'
        inner = b"0\r\n\r\nGET /v1/take/api/shop:1 HTTP/1.1\r\nHost: a\r\n\r\n"  # read as chunks, it would be a request
        for sent, status in ((body, 200), (inner, 400)):
            client = self.http(config=config)
            client.raw(b"POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: %s\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n"
                       % (basic("shop", "shop-secret").encode(), sent[:5], len(sent) - 5, sent[5:]))
            self.assertEqual(client.response().status, status)
            self.assertEqual(client.get("/livez").json["live"], True)

    def test_a_password_that_changes_ends_the_login(self):
        client = self.http(config=self.users())
        shop = basic("shop", "shop-secret")
        self.assertEqual(client.get("/v1/take/api/shop:1", Authorization=shop).status, 200)
        self.weir.configure(self.users().replace("shop-secret", "other-secret"))
        self.assertEqual(client.post("/v1/reload", {}, Authorization=basic("default", "root-secret")).status, 200)
        self.assertEqual(client.get("/v1/take/api/shop:1", Authorization=shop).status, 401)


    def test_a_bearer_token_names_its_user(self):
        digest = hashlib.sha256(b"token-of-shop").hexdigest()
        client = self.http(config=self.users(f"  - {{name: mobile, token_sha256: {digest}, may: [take]}}\n"))
        self.assertEqual(client.get("/v1/take/api/k", Authorization="Bearer token-of-shop").status, 200)
        self.assertEqual(client.get("/v1/info", Authorization="Bearer token-of-shop").status, 403)
        for attempt in range(20):
            got = self.client().get("/v1/take/api/k", Authorization=f"Bearer wrong-token-{attempt}")
            self.assertIn(got.status, (401, 429))
        self.assertEqual(got.status, 429)
        self.assertEqual(self.client().get("/v1/take/api/k", Authorization="Bearer token-of-shop").status, 200)


class Browsers(HttpTest):
    def test_no_page_of_another_site_can_ask_where_no_login_is_needed(self):
        client = self.http()
        for fields in ({"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
            self.assertEqual(client.get("/v1/take/api/k", **fields).status, 403)
        self.assertEqual(client.post("/v1/take", {"policy": "api", "key": "k"}, Content_Type="text/plain").status, 415)
        client.raw(b"GET /v1/take/api/k HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        got = client.response()
        self.assertEqual(got.status, 403)
        self.assertIn("http: {hosts: [...]}", got.json["detail"])
        self.assertEqual(client.get("/v1/peek/api/k").json["remaining"], 5)
        self.assertEqual(client.get("/metrics", Origin="https://evil.example").status, 200)
        self.assertIsNone(client.get("/v1/peek/api/k")["access-control-allow-origin"])

    def test_origins_that_are_let_in(self):
        client = self.http(config="http: {cors: ['https://app.example'], hosts: [weir.internal]}\n"
                                  "policies: [{name: api, limits: 5/m}]")
        got = client.ask_http("OPTIONS", "/v1/take", Origin="https://app.example",
                              Access_Control_Request_Method="POST")
        self.assertEqual((got.status, got["access-control-allow-origin"]), (204, "https://app.example"))
        got = client.post("/v1/take", {"policy": "api", "key": "k"}, Origin="https://app.example")
        self.assertEqual((got.status, got["access-control-allow-origin"]), (200, "https://app.example"))
        self.assertEqual(client.get("/v1/take/api/k", Origin="https://evil.example").status, 403)


class ForwardAuth(HttpTest):
    CONFIG = """
policies: [{name: api, limits: 2/m}, {name: all, limits: 100/m}]
routes:
  - {match: {path: /free/**}, policy: all, key: [address]}
  - {match: {path: /api/**}, policy: [api, all], key: ['header:x-api-key', address]}
routes_default: allow
"""

    def ask(self, client, uri, **fields):
        return client.get("/auth", X_Original_URI=uri, X_Original_Method="GET", **fields)

    def test_a_route_decides_and_the_rest_passes(self):
        client = self.http(config=self.CONFIG)
        for status in (200, 200, 429):
            got = self.ask(client, "/api/x?status=200", X_Api_Key="k1")
            self.assertEqual(got.status, status)
        self.assertEqual(got["retry-after"], "30")
        self.assertEqual(got.json["limit"], "api/2/m")
        self.assertEqual(self.ask(client, "/api/x", X_Api_Key="k2").status, 200)
        self.assertEqual(self.ask(client, "/elsewhere").status, 200)
        self.assertEqual(client.get("/v1/peek/all/header:k1").status, 200)

    def test_the_visitors_query_changes_nothing(self):
        client = self.http(config=self.CONFIG)
        for _ in range(2):
            self.ask(client, "/api/x", X_Api_Key="k1")
        got = client.get("/auth?status=200&headers=none", X_Original_URI="/api/x", X_Original_Method="GET",
                         X_Api_Key="k1")
        self.assertEqual((got.status, got["ratelimit"] is None), (429, False))
        self.assertEqual(client.get("/auth/api/x?status=200", X_Api_Key="k1").status, 429)

    def test_another_spelling_is_no_other_key_and_no_other_route(self):
        config = """
policies: [{name: token, limits: 2/h}, {name: cookie, limits: 2/h}, {name: login, limits: 2/h}]
routes:
  - {match: {path: /token}, policy: token, key: [bearer]}
  - {match: {path: /cookie}, policy: cookie, key: ['cookie:sid']}
  - {match: {path: /login, method: [POST]}, policy: login, key: [address]}
"""
        client = self.http(config=config)
        tokens = ["Bearer t1", "Bearer   t1", "bearer t1", "Bearer \tt1"]
        self.assertEqual([self.ask(client, "/token", Authorization=value).status for value in tokens], [200, 200, 429, 429])
        cookies = ["sid=abc", "sid=abc  ; y=1", "a=b; sid =abc", 'sid="abc"', "sid=\tabc"]
        self.assertEqual([self.ask(client, "/cookie", Cookie=value).status for value in cookies], [200, 200, 429, 429, 429])
        post = lambda path, **fields: client.post(path, b"", **fields).status
        self.assertEqual([post("/auth/login"), post("/auth/login;x=1"), post("/auth/x/..;y/login")], [200, 200, 429])
        self.assertEqual(post("/auth/login", X_Forwarded_Method="GET"), 403)

    def test_credentials_of_the_visitor_are_not_those_of_the_proxy(self):
        users = ("users: [{name: default, password: root-secret, may: [admin, take, look, adjust]},"
                 " {name: proxy, password: proxy-secret, may: [take]}]\n")
        client = self.http(config=self.CONFIG + users)
        self.assertEqual(self.ask(client, "/api/x", Authorization=basic("default", "root-secret")).status, 500)
        got = self.ask(client, "/api/x", Authorization="Bearer visitor", Weir_Authorization=basic("proxy", "proxy-secret"))
        self.assertEqual((got.status, got["www-authenticate"]), (200, None))


class Framing(HttpTest):
    def test_a_pipeline_is_answered_in_its_order(self):
        client = self.http(config=POLICIES)
        client.raw(b"GET /v1/take/two/k?n=1 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        self.assertEqual([client.response().json["remaining"] for _ in range(20)], list(range(19, -1, -1)))

    def test_bytes_one_by_one(self):
        client = self.http()
        body = b'{"policy":"api","key":"k"}'
        for byte in b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
                len(body), body):
            client.raw(bytes([byte]))
        self.assertEqual(client.response().json["remaining"], 4)

    def test_chunks(self):
        client = self.http()
        client.raw(b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   b"Transfer-Encoding: chunked\r\n\r\n"
                   b'a\r\n{"policy":\r\n10\r\n"api","key":"k"}\r\n0\r\n\r\n')
        self.assertEqual(client.response().json["remaining"], 4)

    def test_expect_is_answered_before_the_body(self):
        client = self.http()
        body = b'{"policy":"api","key":"k"}'
        client.raw(b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        self.assertEqual(client.response().status, 100)
        client.raw(body)
        self.assertEqual(client.response().json["remaining"], 4)
        client.raw(b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        self.assertEqual(client.response().status, 100)  # each time
        for byte in body:
            client.raw(bytes([byte]))
        self.assertEqual(client.response().json["remaining"], 3)  # and once
        self.assertEqual(client.get("/livez").status, 200)  # which is shorter than what was waited for

    def test_what_could_be_read_two_ways_is_refused_and_closed(self):
        self.http()
        for head in (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: 5\r\nContent-Length: 5\r\n",
                     b"Content-Length: 5, 5\r\n", b"Content-Length: +5\r\n", b"Transfer-Encoding: gzip, chunked\r\n",
                     b"X: a\r\n b\r\n", b"X : a\r\n", b"X: a\nY: b\r\n", b"X: a\rb\r\n", b"Host: b\r\n"):
            client = self.client()
            client.raw(b"POST /v1/take HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n12345GET /v1/take/api/k HTTP/1.1\r\nHost: a\r\n\r\n")
            got = client.response()
            self.assertIn(got.status, (400, 501), head)
            self.assertEqual(got["connection"], "close")
            client.raw(b"GET /v1/take/api/k HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertTrue(client.is_closed())
        self.assertEqual(self.client().get("/v1/peek/api/k").json["remaining"], 5)

    def test_connection_close_and_http_1_0(self):
        client = self.http()
        got = client.get("/v1/take/api/k", Connection="close")
        self.assertEqual(got["connection"], "close")
        self.assertTrue(client.is_closed())
        client = self.client()
        client.raw(b"GET /v1/take/api/k HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        self.assertEqual(client.response()["connection"], "keep-alive")
        client.raw(b"GET /v1/take/api/k HTTP/1.0\r\n\r\n")
        self.assertEqual(client.response()["connection"], "close")
        self.assertTrue(client.is_closed())

    def test_limits_of_size(self):
        self.http()
        for said, status in ((b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
                             (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431),
                             (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 20000 + b"\r\n\r\n", 431),
                             (b"POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n", 413),
                             (b"GET / HTTP/2.0\r\n\r\n", 505), (b"\x16\x03\x01\x00\xff garbage\r\n\r\n", 400)):
            client = self.client()
            client.raw(said)
            self.assertEqual(client.response().status, status)

    def test_a_megabyte_of_pipeline_and_a_client_that_reads_late(self):
        client = self.http(config="policies: [{name: api, limits: 1000000/s}]")
        one = b"GET /v1/take/api/k HTTP/1.1\r\nHost: localhost\r\n\r\n"
        count = 20000
        client.socket.setblocking(False)
        sent, data = 0, one * count
        while sent < len(data):
            try:
                sent += client.socket.send(data[sent:sent + 65536])
            except BlockingIOError:
                break
        client.socket.setblocking(True)
        answered = 0
        while answered < count:
            if sent < len(data) and answered * len(one) + 200_000 > sent:
                piece = data[sent:sent + 65536]
                client.raw(piece)
                sent += len(piece)
            self.assertEqual(client.response().status, 200)
            answered += 1

    def test_a_browser_on_the_redis_port_is_closed(self):
        client = self.http()
        with socket.create_connection(("127.0.0.1", self.weir.port)) as plain:
            plain.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(plain.recv(100), b"")
        self.assertEqual(client.get("/v1/take/api/k").status, 200)


class Description(HttpTest):
    def test_every_operation_of_openapi_answers_a_request_made_from_it(self):
        client = self.http(config=POLICIES)
        description = client.get("/v1/openapi.json").json
        values = {"policy": "api", "key": "k", "n": 1, "id": "r-1", "limits": "9/m", "mode": "shadow", "by": "taken"}
        statuses = {}
        for path, operations in description["paths"].items():
            for method, operation in operations.items():
                filled = path.replace("{policy}", "api").replace("{key}", "k")
                schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
                body = None
                if schema:
                    names = [name for name in schema["properties"] if name in values]
                    body = {name: values[name] for name in names} or {"requests": [{"policy": "api", "key": "k"}]}
                got = client.ask_http(method.upper(), filled, body)
                statuses[(method, path)] = got.status
                self.assertNotIn(got.status, (405, 500), (method, path))
                if got.status >= 400 and got.status != 429:
                    self.assertEqual(got["content-type"], "application/problem+json")
        # A reservation of the name r-1 is not there, and by DELETE the policy has gone before what follows it.
        self.assertEqual(statuses[("post", "/v1/commit")], 400)
        self.assertEqual(statuses[("post", "/v1/take")], 200)
        self.assertEqual(statuses[("put", "/v1/policies/{policy}")], 200)

    def test_random_requests_made_from_it_are_answered_as_it_says(self):
        seed = int(os.environ.get("WEIR_SEED", "0")) or random.randrange(1 << 30)
        print(f"seed {seed}", file=sys.stderr)
        draw = random.Random(seed)
        client = self.http(config=POLICIES)
        paths = client.get("/v1/openapi.json").json["paths"]
        wrong = [None, True, 7, -1, 1.5, 2 ** 60, "", "x" * 5000, "\0", [], [[]], {}, {"a": {}}, ["x"]]

        def value(schema):
            if draw.random() < 0.1:
                return draw.choice(wrong)
            if "enum" in schema:
                return draw.choice(schema["enum"])
            if "oneOf" in schema:
                return value(draw.choice(schema["oneOf"]))
            if "$ref" in schema:
                return {"policy": "api", "key": draw.choice("ab"), "n": draw.randrange(1, 4)}
            kind = schema.get("type")
            if kind == "integer":
                return draw.randrange(0, 20)
            if kind == "array":
                return [value(schema["items"]) for _ in range(draw.randrange(3))]
            if kind == "object":
                return {name: value(inner) for name, inner in schema.get("properties", {}).items()}
            return draw.choice([True, False]) if kind == "boolean" else draw.choice(["api", "two", "k", "5/m", "1h"])

        for _ in range(400):
            path = draw.choice(list(paths))
            method = draw.choice(list(paths[path]))
            operation = paths[path][method]
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            body = value(schema) if schema else None
            body = {} if schema and body is None else body  # a POST has a body
            if isinstance(body, dict):
                body = {name: item for name, item in body.items() if draw.random() < 0.8}
            if path == "/v1/acquire" and isinstance(body, dict):
                body["timeout_ms"] = 0  # else it waits, and the clock stands still
            got = client.ask_http(method.upper(), path.replace("{policy}", "two").replace("{key}", "k"), body)
            self.assertIn(got.status, (200, 400, 404, 429), (method, path, body, got))
            json.loads(got.body)
            self.assertEqual(got["content-type"] == "application/problem+json", got.status >= 400)

    def test_fields_that_it_does_not_name_are_refused(self):
        client = self.http(config=POLICIES)
        for path, operations in client.get("/v1/openapi.json").json["paths"].items():
            if "post" in operations and "requestBody" in operations["post"]:
                got = client.post(path, {"nobody_has_this": 1})
                self.assertEqual(got.status, 400, path)


class Probes(HttpTest):
    def test_health_and_metrics(self):
        client = self.http()
        for path in ("/livez", "/healthz", "/readyz"):
            self.assertEqual(client.get(path).status, 200)
            self.assertEqual(client.ask_http("HEAD", path).body, b"")
        client.get("/v1/take/api/k")
        got = client.get("/metrics", Accept="text/plain;version=0.0.4")
        self.assertEqual(got["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        self.assertIn('weir_decisions_total{policy="api",protocol="http",result="allowed"} 1\n', got.text)
        got = client.get("/metrics", Accept="application/openmetrics-text; version=1.0.0,*/*;q=0.1")
        self.assertEqual(got["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertTrue(got.text.endswith("# EOF\n"))

    def test_only_the_admin_address_serves_them_if_there_is_one(self):
        self.weir = self.start("--test-clock", config=POLICIES, also=("http", "admin"))
        client = self.client()
        self.assertEqual(client.get("/metrics").status, 404)
        self.assertEqual(client.ask_http("PUT", "/v1/policies/new", {"limits": "7/s"}).status, 404)
        self.assertEqual(client.get("/v1/take/api/k").status, 200)
        self.assertEqual(client.get("/readyz").status, 200)
        self.weir.ports["http"] = self.weir.ports["admin"]
        client = self.client()
        self.assertEqual(client.get("/metrics").status, 200)
        self.assertEqual(client.ask_http("PUT", "/v1/policies/new", {"limits": "7/s"}).status, 200)


class Drain(HttpTest):
    CONFIG = "policies: [{name: api, limits: 5/m}]\ndrain: 10m"

    def test_probes_see_the_end_before_it_comes_and_all_is_served_meanwhile(self):
        client = self.http(config=self.CONFIG)
        self.assertEqual(client.get("/readyz").json, {"ready": True, "reasons": []})
        self.weir.signal(signal.SIGTERM)
        self.weir.wait_line("event=stopping .*drain_ms=600000")
        got = client.get("/v1/take/api/k")
        self.assertEqual((got.status, got["connection"]), (200, "close"))
        got = self.client().get("/readyz")
        self.assertEqual((got.status, got.json), (503, {"ready": False, "reasons": ["draining"]}))
        self.assertEqual(self.client().get("/livez").status, 200)
        self.weir.signal(signal.SIGTERM)  # the operator does not wait
        self.assertEqual(self.weir.wait(), 0)

    def test_a_request_that_waits_is_told(self):
        client = self.http("--drain-ms", "1")
        client.get("/v1/take/api/k?n=5")
        client.say("POST", "/v1/acquire", {"policy": "api", "key": "k", "timeout_ms": 60000})
        with self.weir.connect() as resp:
            while "blocked_clients:1" not in resp.ask("INFO", "clients"):
                pass
        self.weir.signal(signal.SIGTERM)
        got = client.response()
        self.assertEqual((got.status, got.json["code"], got["connection"]), (503, "UNAVAILABLE", "close"))

    def test_without_probes_and_by_ctrl_c_it_ends_at_once(self):
        client = self.http(config=self.CONFIG)
        client.get("/v1/take/api/k")
        self.weir.signal(signal.SIGTERM)
        self.assertEqual(self.weir.wait(), 0)
        client = self.http(config=self.CONFIG)
        client.get("/readyz")
        self.weir.signal(signal.SIGINT)
        self.assertEqual(self.weir.wait(), 0)

    def test_what_was_read_is_answered(self):
        client = self.http(config="policies: [{name: api, limits: 1000000/s}]")
        client.raw(b"GET /v1/take/api/k HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
        client.arrived()
        self.weir.signal(signal.SIGTERM)
        first = client.response()
        self.assertEqual(first.status, 200)
        answered = 1
        while first["connection"] != "close" and answered < 1000:
            first = client.response()
            answered += 1
        self.assertEqual(self.weir.wait(), 0)


class Throttlecrab(HttpTest):
    def test_its_clients_get_the_answers_they_know(self):
        client = self.http()
        question = {"key": "k", "max_burst": 3, "count_per_period": 10, "period": 60}
        got = client.post("/throttle", question)
        self.assertEqual(set(got.json), {"allowed", "limit", "remaining", "reset_after", "retry_after"})
        self.assertEqual(got.json["allowed"], True)
        for _ in range(5):
            got = client.post("/throttle", question)
        self.assertEqual((got.status, got.json["allowed"], got.json["remaining"]), (200, False, 0))
        self.assertGreater(got.json["retry_after"], 0)
        got = client.post("/throttle", {"key": "k"})
        self.assertEqual((got.status, set(got.json)), (500, {"error"}))
        got = client.post("/throttle", {**question, "period": 0})
        self.assertEqual((got.status, set(got.json)), (500, {"error"}))


class Store(HttpTest):
    def test_what_was_answered_is_there_after_a_kill(self):
        client = self.http("--data", "data", "--fsync", "always", config="policies: [{name: api, limits: 1000/d}]")
        for _ in range(30):
            client.say("GET", "/v1/take/api/k")
        for _ in range(30):
            self.assertEqual(client.response().status, 200)
        self.weir.process.send_signal(signal.SIGKILL)
        self.weir.process.wait()
        again = server.Server("--test-clock", "--data", self.weir.folder.name + "/data", also=("http",),
                              config="policies: [{name: api, limits: 1000/d}]")
        self.addCleanup(self.end, again)
        self.weir = again
        self.assertEqual(self.client().get("/v1/peek/api/k").json["used"], 30)


if __name__ == "__main__":
    server.main()
