# SPDX-License-Identifier: MIT
"""requests or httpx against a server: http_python.py requests|httpx. story.py says what happens."""

import importlib
import os
import sys
import time

library = importlib.import_module(sys.argv[1])
BASE = f"http://127.0.0.1:{os.environ['WEIR_HTTP_PORT']}"
ADMIN = ("default", "open sesame")
APP = ("app", "secret")


def expect(got, wanted):
    if got != wanted:
        raise AssertionError(f"{got!r}, not {wanted!r}")


def connect(user):
    client = library.Session() if sys.argv[1] == "requests" else library.Client()
    client.auth = user
    return client


def connections(weir):
    return int(weir.get(BASE + "/v1/info", params={"section": "stats"}).json()["Stats"]["total_connections_received"])


def decide(weir):
    expect(weir.put(BASE + "/v1/policies/client", json={"limits": "2/h", "fresh": True}).json(), {"ok": True})
    for status, reason in ((200, "ok"), (200, "ok"), (429, "later")):
        got = weir.post(BASE + "/v1/take", json={"policy": "client", "key": "user:42"})
        expect((got.status_code, got.json()["reason"]), (status, reason))
    expect(got.headers["Content-Type"], "application/problem+json")
    expect(1700 < int(got.headers["Retry-After"]) <= 1800, True)
    expect(got.headers["RateLimit-Policy"], '"client";q=2;w=3600')
    expect(weir.get(BASE + "/v1/take/client/user:42", params={"n": 3}).headers.get("Retry-After"), None)
    expect(weir.get(BASE + "/v1/take/client/\xe4 b/c").json()["allowed"], True)  # the library encodes it
    expect(weir.get(BASE + "/v1/peek/client/%C3%A4%20b/c").json()["used"], 1)


def upload(weir):
    """In chunks, as a body whose length is not known."""
    pieces = [b'{"requests":['] + [b'{"policy":"many","key":"user:42"},'] * 99 + [b'{"policy":"many","key":"k"}]}']
    weir.put(BASE + "/v1/policies/many", json={"limits": "60/d", "fresh": True})
    body = {"data" if sys.argv[1] == "requests" else "content": iter(pieces)}
    got = weir.post(BASE + "/v1/batch", headers={"Content-Type": "application/json"}, **body)
    expect([answer["allowed"] for answer in got.json()["answers"]], [True] * 60 + [False] * 39 + [True])


def wait(weir):
    weir.put(BASE + "/v1/policies/pace", json={"limits": "20/s burst=1", "fresh": True})
    start = time.monotonic()
    for _ in range(3):
        got = weir.post(BASE + "/v1/acquire", json={"policy": "pace", "key": "k", "timeout_ms": 5000})
        expect(got.status_code, 200)
    expect(time.monotonic() - start >= 0.1, True)


def mistakes(weir):
    expect(weir.get(BASE + "/v1/take/nosuch/k").status_code, 404)
    expect(weir.request("DELETE", BASE + "/v1/take").headers["Allow"], "POST")
    expect((weir.head(BASE + "/livez").status_code, weir.head(BASE + "/livez").content), (200, b""))
    expect(connect(("default", "friend")).get(BASE + "/v1/policies").status_code, 401)
    app = connect(APP)
    expect(app.get(BASE + "/v1/take/api/user:43").status_code, 200)
    expect(app.get(BASE + "/v1/take/api/org:7").status_code, 403)


def main():
    weir = connect(ADMIN)
    before = connections(weir)
    decide(weir)
    upload(weir)
    wait(weir)
    expect(connections(weir), before)  # all on one connection
    mistakes(weir)
    print("restart", flush=True)
    sys.stdin.readline()
    decide(weir)
    print("ok")


main()
