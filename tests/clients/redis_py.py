# SPDX-License-Identifier: MIT
"""redis-py against a server; story.py says what happens."""

import os
import time

import redis


def connect(url):
    return redis.Redis.from_url(url, protocol=3, decode_responses=True)


def may_pass(weir, user):
    verdict = weir.execute_command("WEIR.TAKE", "api", f"user:{user}")
    return verdict["allowed"], verdict["retry_after_ms"]


ADDRESS = "127.0.0.1:" + os.environ["WEIR_PORT"]
DEFAULT = f"redis://:open%20sesame@{ADDRESS}"
APP = f"redis://app:secret@{ADDRESS}"
WRONG = f"redis://:friend@{ADDRESS}"
FIELDS = ["allowed", "remaining", "retry_after_ms", "reset_after_ms", "limit", "reason"]
HALF_AN_HOUR = 1800 * 1000


def expect(is_so, what):
    if not is_so:
        raise AssertionError(what)


def verdict_of(reply, version):
    """A map in version 3, a list of pairs in version 2."""
    if version == 3:
        expect(isinstance(reply, dict) and isinstance(reply["allowed"], bool), reply)
        return reply
    expect(isinstance(reply, list) and reply[1] in (0, 1), reply)
    return dict(zip(reply[::2], reply[1::2]))


def fails(weir, text, *words):
    try:
        reply = weir.execute_command(*words)
    except redis.exceptions.RedisError as error:
        expect(text in str(error), error)
        return
    raise AssertionError(f"{words} should have failed, got {reply}")


def take_and_refuse(weir, version):
    policy = f"client{version}"
    expect(weir.execute_command("WEIR.POLICY", "SET", policy, "2/h") in ("OK", True), "SET")

    def take(n):
        verdict = verdict_of(weir.execute_command("WEIR.TAKE", policy, "user:42", n), version)
        expect(list(verdict) == FIELDS and verdict["limit"] == "2/h", verdict)
        return verdict

    one = take(2)
    expect((one["allowed"], one["remaining"], one["retry_after_ms"], one["reason"]) == (1, 0, 0, "ok"), one)
    expect(HALF_AN_HOUR < one["reset_after_ms"] <= 2 * HALF_AN_HOUR, one)
    two = take(1)
    expect((two["allowed"], two["remaining"], two["reason"]) == (0, 0, "later"), two)
    expect(0 < two["retry_after_ms"] <= HALF_AN_HOUR, two)
    three = take(3)
    expect((three["allowed"], three["retry_after_ms"], three["reason"]) == (0, -1, "never"), three)


def commands_of_others(weir, version):
    key = f"user:{version}"
    expect(weir.execute_command("CL.THROTTLE", key, 15, 30, 60) == [0, 16, 15, -1, 2], "CL.THROTTLE")
    expect([weir.execute_command("RL.REDUCE", key, 2, 3600) for _ in range(3)] == [2, 1, 0], "RL.REDUCE")


def pipeline(weir, version):
    weir.execute_command("WEIR.POLICY", "SET", "many", "600/d", "FRESH")
    many = weir.pipeline(transaction=False)
    for _ in range(1000):
        many.execute_command("WEIR.TAKE", "many", "user:42")
    allowed = [verdict_of(reply, version)["allowed"] for reply in many.execute()]
    expect(allowed == [1] * 600 + [0] * 400, f"{sum(allowed)} of {len(allowed)} were allowed")


def transaction(weir, version):
    """What pipeline() makes if nobody says otherwise: MULTI and EXEC. It fails, and nothing was taken."""
    weir.execute_command("WEIR.POLICY", "SET", "many", "600/d", "FRESH")
    many = weir.pipeline()
    for _ in range(3):
        many.execute_command("WEIR.TAKE", "many", "user:42")
    try:
        reply = many.execute()
    except redis.exceptions.RedisError as error:
        expect("pipeline(transaction=False)" in str(error), error)
    else:
        raise AssertionError(f"a transaction was answered: {reply}")
    left = verdict_of(weir.execute_command("WEIR.PEEK", "many", "user:42"), version)["remaining"]
    expect(left == 600, f"{left} are left of 600")


def acquire(weir, version):
    weir.execute_command("WEIR.POLICY", "SET", "pace", "20/s burst=1", "FRESH")
    start = time.monotonic()
    for _ in range(3):
        verdict = verdict_of(weir.execute_command("WEIR.ACQUIRE", "pace", "user:42", "TIMEOUT", 5000), version)
        expect(verdict["allowed"] and list(verdict) == FIELDS + ["waited_ms"], verdict)
    expect(time.monotonic() - start >= 0.1, "three units at 20/s came too early")


def named_user(version):
    app = redis.Redis.from_url(APP, protocol=version, decode_responses=True)
    app.execute_command("WEIR.TAKE", f"client{version}", "user:43")
    fails(app, "No permissions to access a key", "WEIR.TAKE", f"client{version}", "org:7")
    fails(app, "no permissions to run", "WEIR.POLICY", "SET", "mine", "unlimited")
    app.close()


def story(version):
    weir = redis.Redis.from_url(DEFAULT, protocol=version, decode_responses=True)
    expect(weir.ping(), "PING")
    take_and_refuse(weir, version)
    commands_of_others(weir, version)
    pipeline(weir, version)
    transaction(weir, version)
    acquire(weir, version)
    fails(weir, "no policy 'nosuch'", "WEIR.TAKE", "nosuch", "user:42")
    fails(redis.Redis.from_url(WRONG, protocol=version), "invalid username-password pair", "PING")
    named_user(version)
    return weir


def example():
    weir = connect(APP)
    expect([may_pass(weir, 42)[0] for _ in range(3)] == [True, True, False], "2/h")
    expect(0 < may_pass(weir, 42)[1] <= HALF_AN_HOUR, "retry_after_ms")
    weir.close()


def main():
    clients = {version: story(version) for version in (3, 2)}
    example()
    print("restart", flush=True)
    input()
    for version, weir in clients.items():
        take_and_refuse(weir, version)
        weir.close()
    print("ok")


if __name__ == "__main__":
    main()
