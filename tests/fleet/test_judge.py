#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who judges the judge: histories that are wrong in one way each, and logs of ZooKeeper as it writes them."""

import os
import pathlib
import random
import socket
import struct
import tempfile
import unittest

import zoolog
from judge import MS, Take, Verdict, Window
from judge_bucket import BucketVerdict, Law, worst
from network import Loopback

SECOND = 1000 * MS
WINDOWS = [Window(begin=k * SECOND + 1, total=100, chunk=10, length=SECOND) for k in range(10, 14)]


def take(ms, units, until_ms, since_ms=None):
    return Take(ms * MS, units, until_ms * MS, (ms if since_ms is None else since_ms) * MS, 0)


class Judge(unittest.TestCase):
    def verdict(self, takes, windows=None, faults=()):
        return Verdict(windows or WINDOWS, takes, MS, faults)

    def test_all_of_a_total_and_no_more(self):
        fine = [take(10100, 60, 10990), take(10200, 40, 10990), take(11500, 100, 11990)]
        verdict = self.verdict(fine)
        self.assertEqual((verdict.sums, verdict.over, verdict.wrong), ([100, 100, 0, 0], [], []))
        verdict = self.verdict([*fine, take(10300, 1, 10990)])
        self.assertEqual((verdict.over, verdict.worst()), ([0], (1, 0)))

    def test_units_count_where_they_are_of_and_when_they_are_spent(self):
        verdict = self.verdict([take(11100, 90, 11990), take(11200, 20, 0)])  # an end that is not known
        self.assertEqual((verdict.sums[1], verdict.over), (110, [1]))
        verdict = self.verdict([take(11001, 7, 0, since_ms=10999)])
        self.assertEqual((verdict.astride, sum(verdict.sums)), (7, 0))

    def test_spent_after_their_end(self):
        self.assertIn("after the end", self.verdict([take(10995, 1, 10990)]).wrong[0])
        self.assertEqual(self.verdict([take(10995, 1, 10990, since_ms=10980)]).wrong, [])  # stopped behind the decision

    def test_spent_before_it_began(self):
        self.assertIn("before it began", self.verdict([take(10900, 1, 11500)]).wrong[0])

    def test_an_end_that_is_too_late(self):
        verdict = self.verdict([take(13100, 1, 14500)])
        self.assertIn("behind that of the window", verdict.wrong[0])

    def test_a_window_that_is_too_short(self):
        windows = [*WINDOWS, Window(begin=13500 * MS, total=100, chunk=10, length=SECOND)]
        self.assertIn("ended after 500.0 ms", self.verdict([], windows).wrong[0])

    def test_units_live_on_in_an_empty_window(self):
        windows = [WINDOWS[0], Window(begin=10500 * MS, total=0, chunk=10, length=SECOND), WINDOWS[2]]
        verdict = self.verdict([take(10900, 100, 10990)], windows)
        self.assertEqual((verdict.sums, verdict.wrong, verdict.over, verdict.void), ([100, 0], [], [], 1))

    def test_a_bound_of_its_own(self):
        windows = [WINDOWS[0]._replace(bound=200)]
        self.assertEqual(self.verdict([take(10100, 200, 10990)], windows).over, [])
        self.assertEqual(self.verdict([take(10100, 201, 10990)], windows).over, [0])

    def test_use_without_faults(self):
        verdict = self.verdict([take(10100, 50, 10990), take(12100, 100, 12990)], faults=[(9000 * MS, 9500 * MS)])
        self.assertEqual([verdict.is_quiet(i) for i in verdict.whole()], [False, True, True])
        self.assertEqual((verdict.use([0, 1, 2]), verdict.use([1, 2])), (50.0, 50.0))


class Buckets(unittest.TestCase):
    law = Law(burst=100, count=1000, period_ns=SECOND)  # one a ms

    def verdict(self, *takes, **more):
        return BucketVerdict(self.law, takes, **more)

    def test_a_burst_and_what_comes_in_and_no_more(self):
        fine = [take(10000, 100, 0), take(10007, 7, 0), take(10020, 13, 0)]  # all that came in, each time
        verdict = self.verdict(*fine)
        self.assertEqual((verdict.over, verdict.worst().above), ([], 0))
        for more in (take(10007, 1, 0), take(10020, 1, 0), take(10013, 1, 0)):
            verdict = self.verdict(*fine, more)
            self.assertEqual((len(verdict.over), verdict.worst().units()), (1, 1.0), more)
        found = self.verdict(*fine[:2], take(10019, 13, 0)).over[0]  # a ms too early
        self.assertEqual((found.begin, found.end, found.units()), (10000 * MS, 10019 * MS, 1.0))
        early = fine[2]._replace(ns=fine[2].ns - 1, since=fine[2].since - 1)  # a ns is a millionth of a unit
        self.assertEqual(self.verdict(*fine[:2], early).over[0].above, self.law.count)

    def test_the_interval_need_not_begin_with_the_first_take(self):
        takes = [take(10000, 10, 0), take(10500, 60, 0), take(10501, 42, 0), take(10900, 5, 0)]
        found = self.verdict(*takes).over[0]
        self.assertEqual((found.begin, found.end, found.units()), (10500 * MS, 10501 * MS, 1.0))
        self.assertEqual(self.verdict(takes[0], take(10500, 59, 0), *takes[2:]).over, [])

    def test_a_take_counts_where_it_lies_for_sure(self):
        burst = take(10000, 100, 0)
        self.assertEqual(self.verdict(burst, take(10020, 20, 0, since_ms=10000)).over, [])  # perhaps at the end
        self.assertEqual(len(self.verdict(burst, take(10020, 21, 0, since_ms=10000)).over), 1)
        self.assertEqual(self.verdict(burst, take(10020, 20, 0, since_ms=9000)).over, [])  # perhaps long before

    def test_spent_after_their_end(self):
        self.assertIn("after their end", self.verdict(take(10995, 1, 10990)).wrong[0])
        self.assertEqual(self.verdict(take(10995, 1, 10990, since_ms=10980)).wrong, [])

    def test_two_coordinators_have_a_bucket_each(self):
        takes = [take(10000, 100, 0), take(10050, 150, 0), take(11000, 100, 0)]
        self.assertEqual(len(self.verdict(*takes).over), 1)
        two = [(9990 * MS, 10040 * MS)]
        verdict = self.verdict(*takes, doubled=two)
        self.assertEqual((verdict.over, verdict.worst().units()), ([], 0.0))
        takes[1] = take(10050, 201, 0)
        self.assertEqual([one.units() for one in self.verdict(*takes, doubled=two).over], [1.0])

    def above(self, takes, x, y):
        units = sum(one.units for one in takes if x <= one.since and one.ns <= y)
        return units * SECOND - self.law.count * (y - x) - self.law.burst * SECOND if units else -SECOND**2

    def test_as_one_who_looks_at_every_interval(self):
        seed = int(os.environ.get("WEIR_SEED", random.SystemRandom().randrange(1 << 32)))
        rng = random.Random(seed)
        for _ in range(300):
            takes = []
            for _ in range(rng.randint(1, 25)):
                at = rng.randint(0, 60)
                takes.append(take(at, rng.randint(1, 30), 0, since_ms=at - rng.choice((0, 0, 1, 5, 20))))
            most = max(self.above(takes, x, y) for x in {one.since for one in takes} for y in {one.ns for one in takes})
            self.assertEqual(worst(takes, self.law).above, most, f"seed {seed}")

    def test_use_without_faults(self):
        verdict = self.verdict(take(10000, 100, 0), take(10500, 50, 0), take(10999, 0, 0),
                               faults=[(9000 * MS, 10100 * MS)])
        self.assertEqual(verdict.quiet(), [(10300 * MS, 10999 * MS)])
        self.assertEqual(round(verdict.use(verdict.quiet())), round(100 * 50 / 699))


class Logs(unittest.TestCase):
    def test_transactions(self):
        def text(data):
            return struct.pack(">i", len(data)) + data

        def entry(zxid, kind, body):
            data = struct.pack(">qiqqi", 1, 2, zxid, 1000 + zxid, kind) + body
            return struct.pack(">qi", 0, len(data)) + data + b"B"
        change = text(b"/a") + text(b"x") + struct.pack(">i", 7)
        multi = struct.pack(">i", 2) + struct.pack(">i", 2) + text(text(b"/b")) + struct.pack(">i", 5) + text(change)
        with tempfile.TemporaryDirectory() as folder:
            first, second = pathlib.Path(folder) / "log.1", pathlib.Path(folder) / "log.3"
            first.write_bytes(b"ZKLG" + bytes(12) + entry(1, 5, change) + entry(2, 14, multi) + bytes(100))
            second.write_bytes(b"ZKLG" + bytes(12) + entry(3, -10, b"") + entry(4, 5, change)[:-9])  # cut off
            found = zoolog.read([pathlib.Path(folder)])
        self.assertEqual([(one.zxid, one.time_ms, one.writes) for one in found], [
            (1, 1001, [("set", "/a", b"x")]), (2, 1002, [("delete", "/b", b""), ("set", "/a", b"x")]), (3, 1003, [])])

    def test_a_transaction_that_failed_has_changed_nothing(self):
        """ZooKeeper logs it all the same: what stands before the operation that failed as if it had been done."""
        def text(data):
            return struct.pack(">i", len(data)) + data
        change = text(b"/a") + text(b"x") + struct.pack(">i", 7)
        parts = [(5, change), (2, text(b"/b")), (-1, struct.pack(">i", -103)), (-1, struct.pack(">i", -2))]
        multi = struct.pack(">i", len(parts)) + b"".join(struct.pack(">i", kind) + text(body) for kind, body in parts)
        self.assertEqual(zoolog.writes_of(zoolog.MULTI, zoolog.Reader(multi)), [])


class Proxies(unittest.TestCase):
    def test_a_proxy_stands_still_and_goes_on(self):
        with socket.create_server(("127.0.0.1", 0)) as listener, Loopback(2) as net:
            address = net.proxy(1, 0, listener.getsockname())
            with socket.create_connection(address, timeout=5) as client:
                server, _ = listener.accept()
                with server:
                    server.settimeout(5)
                    client.sendall(b"1")
                    self.assertEqual(server.recv(9), b"1")
                    net.cut(1, [0], "in")  # it hears nothing, and is heard
                    server.sendall(b"2")
                    client.sendall(b"3")
                    self.assertEqual(server.recv(9), b"3")
                    client.settimeout(0.05)
                    with self.assertRaises(TimeoutError):
                        client.recv(9)
                    net.heal()
                    client.settimeout(5)
                    self.assertEqual(client.recv(9), b"2")


if __name__ == "__main__":
    unittest.main()
