#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weir servers as coordinators of processes: alone, in two tiers, killed in the middle. What all nodes together were
let pass is held against the law; and most of what may pass has to."""

import bisect
import itertools
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))

import fleet  # noqa: E402
import server  # noqa: E402
from judge_bucket import BucketVerdict, Law  # noqa: E402

NODE = os.path.join(os.environ.get("WEIR_BUILD", str(server.ROOT / "build" / "release")), "tests", "fleet-node")
MS = 1_000_000
BUNDLE_NS = 1 * MS  # a line of a node is about takes of so long


class TierTest(server.ServerTest):
    def root(self, limits, *arguments, fleet="", **settings):
        return self.start(*arguments, config=f"""\
policies:
  - name: egress
    limits: {limits}
    fleet: {{coordinator: "local:"{fleet}}}
""", **settings)

    def node(self, weir, limits, seed, time_ms, *arguments, name="egress"):
        url = weir.url().replace("redis:", "weir:", 1) + "?lost_after=1s&answer=500ms&connect=30s"
        node = subprocess.Popen([NODE, url, name, limits, "--for", str(time_ms), "--seed", str(seed), *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(node.kill)
        self.addCleanup(node.stdout.close)
        self.addCleanup(node.stderr.close)
        return node

    def takes(self, nodes):
        """Those of all of them, in order of time; and how many each had."""
        found, each = [], []
        for node in nodes:
            out, err = node.communicate(timeout=server.PATIENCE)
            self.assertEqual((node.returncode, err), (0, ""))
            mine = [fleet.take_of(words) for words in fleet.lines_of(out.splitlines(True), "T")]
            found += mine
            each.append(sum(take.units for take in mine))
        return sorted(found), each

    def check_bucket(self, takes, burst, rate):
        verdict = BucketVerdict(Law(burst, rate, 10**9), takes)
        self.assertEqual((verdict.say_over(), verdict.wrong), ([], []))

    def check_windows(self, takes, total, window_ns):
        """A stretch that is shorter than k + 1 windows touches at most k + 2 of them."""
        times = [take.ns for take in takes]
        sums = [0, *itertools.accumulate(take.units for take in takes)]
        for k in range((times[-1] - times[0]) // window_ns + 1):
            for first, time in enumerate(times):
                end = bisect.bisect_left(times, time + (k + 1) * window_ns - BUNDLE_NS)
                self.assertLessEqual(sums[end] - sums[first], total * (k + 2), f"in {k + 1} windows")

    def test_a_total_for_three_nodes(self):
        weir = self.root("1k/300ms algo=quota", fleet=", nodes: 3, base: 20")

        def attempt():
            takes, each = self.takes([self.node(weir, "1k/300ms algo=quota", seed, 1500) for seed in range(3)])
            self.check_windows(takes, 1000, 300 * MS)
            return sum(each) if min(each) > 0 else 0
        fleet.pass_enough(attempt, 3000)  # of 5 windows

    def test_a_bucket_for_three_nodes(self):
        weir = self.root("10k/s burst=4k", fleet=", nodes: 3, base: 50")

        def attempt():
            nodes = [self.node(weir, "10k/s burst=4k", seed, 1500, "--rate", "6000") for seed in range(3)]
            takes, each = self.takes(nodes)
            self.check_bucket(takes, 4000, 10000)
            return sum(each)
        fleet.pass_enough(attempt, 8000)

    def test_tiers_stack(self):
        weir = self.root("2k/300ms algo=quota", fleet=", nodes: 2")
        middle = self.start(config=f"""\
policies:
  - name: egress
    limits: 2k/300ms algo=quota
    fleet: {{coordinator: "{weir.url().replace('redis:', 'weir:')}", nodes: 2}}
""")

        def attempt():
            below = [weir, middle, middle]
            takes, each = self.takes([self.node(one, "2k/300ms algo=quota", seed, 1500) for seed, one in enumerate(below)])
            self.check_windows(takes, 2000, 300 * MS)
            return sum(each) if min(each[1:]) > 0 else 0
        fleet.pass_enough(attempt, 5000)

    def test_new_keys_join_through_a_tier(self):
        limits = "100/300ms algo=quota"
        weir = self.root(limits, fleet=", keys: each")
        middle = self.start(config=f"""\
policies:
  - name: egress
    limits: {limits}
    fleet: {{coordinator: "{weir.url().replace('redis:', 'weir:')}", keys: each, child_chunk: 5}}
""")

        def attempt():
            each = []
            for node in [self.node(middle, limits, seed, 1500, name=f"egress:k{seed}") for seed in range(3)]:
                takes, units = self.takes([node])
                self.check_windows(takes, 100, 300 * MS)
                each += units
            return min(each)
        fleet.pass_enough(attempt, 1)

    def test_a_root_that_is_killed_has_forgotten_nothing(self):
        fleet.pass_enough(self.kill_root, 1800)

    def kill_root(self):
        limits, data = "1k/s algo=quota", ["--data", "data"]
        weir = self.root(limits, *data, fleet=", nodes: 2")
        nodes = [self.node(weir, limits, seed, 4000) for seed in range(2)]  # it may take its time to come back
        for node in nodes:
            self.assertTrue(node.stdout.readline().startswith("J "))
        with weir.connect(version=3) as client:
            while client.ask("WEIR.LEASE", "egress", "0")["left"] > 500:
                pass
        weir.signal(signal.SIGKILL)
        weir.wait()
        again = server.Server("--resp", f"127.0.0.1:{weir.port}", "--data", os.path.join(weir.folder.name, "data"),
                              "--config", weir.config_path, tcp=None)
        self.addCleanup(again.stop)
        takes, each = self.takes(nodes)
        self.check_windows(takes, 1000, 1000 * MS)
        return sum(each)


if __name__ == "__main__":
    server.main()
