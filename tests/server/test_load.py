#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many clients at once, over TCP and a unix socket, on a clock that stands still: what passes is exact, nothing is
charged by half or twice, and every request is counted once."""

import collections
import os
import random
import re
import threading

import server

CLIENTS = 60
THREADS = 3
SEED = int(os.environ.get("WEIR_SEED") or random.randrange(1 << 32))

FEW = 1000  # units that may pass
POLICIES = """\
policies:
  - {name: bucket, limits: [1000/h]}
  - {name: log, limits: [1000/h algo=sliding-log]}
  - {name: window, limits: [1000/h algo=fixed-window]}
  - {name: several, limits: [1000/h, 5000/d, 1200/h algo=sliding-window]}
  - {name: small, limits: [300/h]}
  - {name: large, limits: [500/h, 10k/d]}
  - {name: once, limits: [30/h]}
  - {name: held, limits: [1M/d]}
  - {name: line, limits: [1/s burst=1]}
  - {name: own, limits: [1M/h]}
"""


def crowd(weir, act, count=CLIENTS):
    """Runs act(number, client) for so many clients, all at the same time, half of them over the unix socket. Gives
    what each returned."""
    start = threading.Barrier(count)
    results, faults = [None] * count, []

    def run(number):
        try:
            with weir.connect(unix=number % 2 == 1) as client:
                client.ask("PING")
                start.wait(server.PATIENCE)
                results[number] = act(number, client)
        except BaseException as fault:  # it has to come up in the test's own thread
            faults.append(fault)
            start.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise next((fault for fault in faults if not isinstance(fault, threading.BrokenBarrierError)), faults[0])
    return results


def fields(reply):
    """Names and values of a map in version 2."""
    return dict(zip(reply[::2], reply[1::2]))


class Load(server.ServerTest):
    def setUp(self):
        self.weir = self.start("--test-clock", config=POLICIES, threads=THREADS, unix=True)
        self.control = self.weir.connect()
        self.addCleanup(self.control.close)

    def shortDescription(self):
        return f"seed {SEED}"

    def remaining(self, policy, key):
        return fields(self.control.ask("WEIR.PEEK", policy, key))["remaining"]

    def counted(self):
        """What INFO says: decisions and errors."""
        return {name: int(number) for name, number in re.findall(r"^(allowed|refused|errors):(\d+)\r$",
                                                                 self.control.ask("INFO", "weir"), re.M)}

    def adds_up(self, requests, **parts):
        """Every question was allowed, refused or an error."""
        counted = self.counted()
        self.assertEqual(sum(counted.values()), requests, counted)
        for name, number in parts.items():
            self.assertEqual(counted[name], number, counted)

    def test_exactly_as_many_as_allowed(self):
        each = 40
        policies = "bucket", "log", "window", "several"

        def take(number, client):
            dice = random.Random(SEED + number)
            passed = collections.Counter()
            asks = [policy for policy in policies for _ in range(each)]
            dice.shuffle(asks)
            while asks:
                size = dice.choice((1, 1, 5, 30))
                some, asks = asks[:size], asks[size:]
                replies = client.pipeline(*[["WEIR.TAKE", policy, "k"] for policy in some])
                for policy, reply in zip(some, replies):
                    passed[policy] += reply[1]
            return passed

        passed = sum(crowd(self.weir, take), collections.Counter())
        self.assertEqual(passed, dict.fromkeys(policies, FEW))
        requests = CLIENTS * each * len(policies)
        self.adds_up(requests, errors=0, allowed=FEW * len(policies))
        self.assertEqual(self.remaining("bucket", "k"), 0)

    def test_several_pairs_are_charged_together_or_not_at_all(self):
        each = 30
        kinds = {"both": ["WEIR.TAKE", "small", "k", "AND", "large", "k", 2],
                 "turned": ["WEIR.TAKE", "large", "k", "AND", "small", "k", 1],
                 "small": ["WEIR.TAKE", "small", "k"], "large": ["WEIR.TAKE", "large", "k"]}

        def take(number, client):
            dice = random.Random(SEED + number)
            asks = [dice.choice(list(kinds)) for _ in range(each)]
            return collections.Counter({name: 0 for name in kinds}) + collections.Counter(
                name for name, reply in zip(asks, client.pipeline(*[kinds[name] for name in asks])) if reply[1])

        passed = sum(crowd(self.weir, take), collections.Counter())
        small = passed["both"] + passed["turned"] + passed["small"]
        large = 2 * passed["both"] + passed["turned"] + passed["large"]
        self.assertGreater(passed["both"] + passed["turned"], 0)
        self.assertEqual(self.remaining("small", "k"), 300 - small)
        self.assertEqual(self.remaining("large", "k"), 500 - large)
        self.assertTrue(small == 300 or large >= 499, passed)  # it was a crowd
        self.adds_up(CLIENTS * each, errors=0)

    def test_one_verdict_for_each_id(self):
        ids = 50

        def take(number, client):
            dice = random.Random(SEED + number)
            order = list(range(ids))
            dice.shuffle(order)
            found = {}
            for id in order:
                found[id] = tuple(client.ask("WEIR.TAKE", "once", "k", "ID", f"take-{id}"))
            return found

        all_found = crowd(self.weir, take)
        for id in range(ids):
            self.assertEqual(len({found[id] for found in all_found}), 1, f"id {id}")
        self.assertEqual(sum(verdict[1] for verdict in all_found[0].values()), 30)
        self.assertEqual(self.remaining("once", "k"), 0)
        self.adds_up(CLIENTS * ids, errors=0)

    def test_one_reservation_for_each_id(self):
        ids = 20

        def reserve(number, client):
            dice = random.Random(SEED + number)
            order = list(range(ids))
            dice.shuffle(order)
            replies = client.pipeline(*[["WEIR.RESERVE", "held", "k", 7, "ID", f"r-{id}"] for id in order])
            return {id: tuple(reply) for id, reply in zip(order, replies)}

        all_found = crowd(self.weir, reserve)
        for id in range(ids):
            self.assertEqual(len({found[id] for found in all_found}), 1, f"id {id}")
        names = {fields(reply)["id"] for reply in all_found[0].values()}
        self.assertEqual(len(names), ids)
        self.assertEqual(self.remaining("held", "k"), 1000000 - 7 * ids)
        self.adds_up(CLIENTS * ids, errors=0)
        for name in names:
            self.assertEqual(fields(self.control.ask("WEIR.CANCEL", name))["given_back"], 7)
        self.assertEqual(self.remaining("held", "k"), 1000000)

    def test_reservations_are_settled_once_and_units_conserved(self):
        made, lock = {}, threading.Lock()  # name: key, n

        def reserve(dice, client):
            key, n = dice.choice("kl"), dice.randrange(2, 50)
            name = fields(client.ask("WEIR.RESERVE", "held", key, n, "TTL", 60000))["id"]
            with lock:
                made[name] = key, n
                return dice.choice(list(made)[-8:])  # perhaps another's, perhaps settled already

        def settle(dice, client, name):
            """Gives what stays charged; None: somebody else has said something else."""
            n = made[name][1]
            used = dice.choice((0, 1, n - 1, n, n + 3, None))
            reply = client.ask(*["WEIR.CANCEL", name] if used is None else ["WEIR.COMMIT", name, used])
            if isinstance(reply, server.Error):
                return None
            got = fields(reply)
            self.assertEqual(got["given_back"], n if used is None else max(n - used, 0))
            return 0 if used is None else got["charged"]

        def act(number, client):
            dice = random.Random(SEED + number)
            names = [reserve(dice, client) for _ in range(40)]
            return [(name, settle(dice, client, name)) for name in names for _ in range(2)]

        charged, failed = {}, 0
        for settled in crowd(self.weir, act):
            for name, units in settled:
                if units is None:
                    failed += 1
                else:  # who says the same as the first is answered the same
                    self.assertEqual(charged.setdefault(name, units), units, name)
        self.assertLess(0, len(charged))
        self.assertLess(0, failed)
        self.adds_up(len(made) + failed, errors=failed, allowed=len(made))
        for key in "kl":
            kept = sum(charged.get(name, n) for name, (of, n) in made.items() if of == key)
            self.assertEqual(self.remaining("held", key), 1000000 - kept)

    # ---- waiting

    def wait_for_waiting(self, count):
        while f"blocked_clients:{count}\r\n" not in self.control.ask("INFO", "clients"):
            pass

    def get_in_line(self, count, first=0):
        """Clients that wait, one behind the other."""
        clients = []
        for number in range(first, first + count):
            client = self.weir.connect(unix=number % 2 == 1)
            self.addCleanup(client.close)
            client.send("WEIR.ACQUIRE", "line", "k", 1, "TIMEOUT", 600000)
            clients.append(client)
            self.wait_for_waiting(number + 1)
        return clients

    def test_who_waits_is_served_in_the_order_of_asking(self):
        self.control.ask("WEIR.TAKE", "line", "k")
        clients = self.get_in_line(24)
        for place, client in enumerate(clients, 1):
            self.control.ask("WEIR.CLOCK", "ADVANCE", 999)
            self.assertIn(f"blocked_clients:{len(clients) - place + 1}\r\n", self.control.ask("INFO", "clients"))
            self.control.ask("WEIR.CLOCK", "ADVANCE", 1)
            self.assertEqual(fields(client.read())["waited_ms"], 1000 * place)
            self.wait_for_waiting(len(clients) - place)
        self.adds_up(25, allowed=25)

    def test_who_comes_later_waits_behind_although_the_clock_jumps(self):
        self.control.ask("WEIR.TAKE", "line", "k")
        clients = self.get_in_line(10)
        self.control.ask("WEIR.CLOCK", "ADVANCE", 4000)
        for client in clients[:4]:
            self.assertEqual(fields(client.read())["allowed"], 1)
        self.wait_for_waiting(6)
        late = self.get_in_line(1, first=6)
        self.control.ask("WEIR.CLOCK", "ADVANCE", 6999)
        waited = [fields(client.read())["waited_ms"] for client in clients[4:]]
        self.assertEqual(waited, [10999] * 6)
        self.wait_for_waiting(1)
        self.control.ask("WEIR.CLOCK", "ADVANCE", 1)
        self.assertEqual(fields(late[0].read())["waited_ms"], 7000)

    def test_who_leaves_gives_the_place_back(self):
        self.control.ask("WEIR.TAKE", "line", "k")
        clients = self.get_in_line(12)
        for count, client in enumerate(reversed(clients[6:]), 1):  # the last one first
            client.close()
            self.wait_for_waiting(12 - count)
        late = self.get_in_line(1, first=6)
        self.control.ask("WEIR.CLOCK", "ADVANCE", 7000)
        self.assertEqual(fields(late[0].read())["waited_ms"], 7000)
        for client in clients[:6]:
            self.assertEqual(fields(client.read())["allowed"], 1)
        self.wait_for_waiting(0)
        self.assertEqual(fields(self.control.ask("WEIR.TAKE", "line", "k"))["allowed"], 0)

    def test_who_leaves_from_the_middle_puts_nobody_off(self):
        self.control.ask("WEIR.TAKE", "line", "k")
        clients = self.get_in_line(12)
        leaving = random.Random(SEED).sample(range(11), 5)
        for count, place in enumerate(leaving, 1):
            clients[place].close()
            self.wait_for_waiting(12 - count)
        for place, client in enumerate(clients):
            self.control.ask("WEIR.CLOCK", "ADVANCE", 1000)
            if place not in leaving:
                self.assertEqual(fields(client.read())["waited_ms"], 1000 * (place + 1))
        self.wait_for_waiting(0)

    # ---- pipelines

    @staticmethod
    def story(dice, key, count):
        """Requests, and what has to be answered to each, if nobody else uses the key."""
        left, requests, replies = 1000000, [], []

        def verdict(allowed, retry_ms=0):
            reset_ms = -(-(1000000 - left) * 36 // 10)  # 3.6 ms for each unit
            return ["allowed", int(allowed), "remaining", left, "retry_after_ms", retry_ms, "reset_after_ms", reset_ms,
                    "limit", "1M/h", "reason", "ok" if allowed else "never"]

        for number in range(count):
            kind = dice.choice(("take", "take", "take", "peek", "too many", "echo", "ping", "none", "typed"))
            n = dice.randrange(1, 20)
            if kind == "take":
                left -= n
            request, reply = {
                "take": (["WEIR.TAKE", "own", key, n], lambda: verdict(True)),
                "peek": (["WEIR.PEEK", "own", key], lambda: verdict(True)),
                "too many": (["WEIR.TAKE", "own", key, 2000000], lambda: verdict(False, -1)),
                "echo": (["ECHO", f"{number}:" + "x" * n * n], lambda: f"{number}:" + "x" * n * n),
                "ping": (["PING"], lambda: "PONG"),
                "none": (["WEIR.TAKE", "nobody", key], lambda: server.Error),
                "typed": (f"ECHO {number}\r\n".encode(), lambda: str(number)),
            }[kind]
            requests.append(request if isinstance(request, bytes) else server.encode(*request))
            replies.append(reply())
        return requests, replies

    def check_replies(self, client, replies):
        for number, want in enumerate(replies):
            got = client.read()
            if want is server.Error:
                self.assertRegex(got, "^ERR no policy 'nobody'")
            else:
                self.assertEqual(got, want, f"reply {number}, seed {SEED}")

    @staticmethod
    def questions(requests):
        """How many of them are decided, or go wrong."""
        return sum(b"WEIR.TAKE" in request for request in requests)

    def test_long_and_short_pipelines_side_by_side(self):
        def act(number, client):
            dice = random.Random(SEED + number)
            asked = 0
            requests, replies = self.story(dice, f"own-{number}", 10000 if number % 20 == 0 else 400)
            at = 0
            while at < len(requests):
                size = 10000 if number % 20 == 0 else dice.choice((1, 16, 100))
                writer = threading.Thread(target=client.raw, args=(b"".join(requests[at:at + size]),))
                writer.start()  # else both sides could wait for each other to read
                self.check_replies(client, replies[at:at + size])
                writer.join()
                asked += self.questions(requests[at:at + size])
                at += size
            return asked

        self.adds_up(sum(crowd(self.weir, act)))

    def test_the_same_bytes_cut_anywhere(self):
        def act(number, client):
            dice = random.Random(SEED + number)
            requests, replies = self.story(dice, f"cut-{number}", 120)
            data = b"".join(requests)
            most = dice.choice((1, 3, 50, 2000))
            data = data[:3000 * most]  # a byte at a time takes long; what is left of it is said at once
            at = 0
            while at < len(data):
                size = dice.randrange(1, most + 1)
                client.raw(data[at:at + size])
                at += size
            client.raw(b"".join(requests)[len(data):])
            self.check_replies(client, replies)
            return self.questions(requests)

        self.adds_up(sum(crowd(self.weir, act)))


if __name__ == "__main__":
    server.main()
