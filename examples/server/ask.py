# SPDX-License-Identifier: MIT
"""How a program asks weir: with a deadline, and a rule for when there is no answer.

    pip install redis
    weir serve --config examples/server/weir.yaml &
    python3 examples/server/ask.py
"""

import math
import os
import time

import redis

DEADLINE = 0.05  # seconds, for connecting and for an answer
PAUSE = 1.0  # seconds in which a server that failed is left alone


class Limit:
    """A policy of the server. `open_when_away` says what counts while there is no answer."""

    away_until = 0.0  # for all policies: it is one server

    def __init__(self, policy, open_when_away, url=None):
        self.policy = policy
        self.open_when_away = open_when_away
        self.server = redis.Redis.from_url(url or os.environ.get("WEIR_URL", "redis://127.0.0.1:9049"), protocol=3,
                                           socket_connect_timeout=DEADLINE, socket_timeout=DEADLINE,
                                           decode_responses=True)

    def take(self, key, n=1):
        """Whether to go on, and else the seconds for Retry-After, as HTTP wants them; None: waiting will not help."""
        if time.monotonic() < Limit.away_until:
            return self.guess()
        try:
            verdict = self.server.execute_command("WEIR.TAKE", self.policy, key, n)
        except redis.RedisError as error:
            undecided = str(error).startswith("UNAVAILABLE")  # its disk has failed; LOADING is no ResponseError
            if isinstance(error, redis.ResponseError) and not undecided:
                raise  # a mistake of ours, such as a policy that is not there
            Limit.away_until = time.monotonic() + PAUSE
            return self.guess()
        never = verdict["retry_after_ms"] < 0
        return verdict["allowed"], None if never else math.ceil(verdict["retry_after_ms"] / 1000)

    def guess(self):
        return self.open_when_away, 1


def main():
    jobs = Limit("jobs", open_when_away=False)
    for attempt in range(1, 8):
        allowed, retry_after = jobs.take("user:42")
        if allowed:
            print(f"attempt {attempt}: go on")
        elif retry_after is None:  # more than the limit ever lets pass at once: no Retry-After
            print(f"attempt {attempt}: 429")
        else:
            print(f"attempt {attempt}: 429, Retry-After: {retry_after}")


if __name__ == "__main__":
    main()
