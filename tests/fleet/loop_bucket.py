# SPDX-License-Identifier: MIT
"""The campaigns once more, with a bucket instead of windows: nodes take from it as fast as they can, under the same
faults, and in no interval they are let pass more than B + R*t. A bucket counts by the coordinator's wall clock, so the
servers' are right (a leader whose clock is another is worth a burst); the nodes' are an hour apart. Judged by the
nodes' own account alone. A window is nothing but a measure of time here.

Who always takes what has come in never sees a burst, and is far from the bound. So all of them rest now and then, and
then fall upon a full bucket, by preference when something else goes wrong as well."""

from crew import boot_ns
from judge_bucket import BucketVerdict, Law
from loop_redis import ClusterCampaign, RedisCampaign
from loop_weir import WeirCampaign
from loop_zookeeper import ZooKeeperCampaign

SECOND = 10**9


class BucketLaw:
    """In front of a campaign: what is taken from, and who judges."""

    walls = (0, 0, 0)
    law = Law(burst=1000, count=2000, period_ns=SECOND)
    bases = 10, 50, 250  # drawn by lot: how many a burst holds decides what there is between two numberings
    split = ()  # two masters: a bucket each
    two_at_once = 0.5

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.base = self.rng.choice(self.bases)

    def limit(self, part=1):
        return f"{self.law.count // part}/s burst={self.law.burst // part}"

    def trouble(self):
        self.began = boot_ns()
        super().trouble()

    def seen_windows(self):
        return (boot_ns() - self.began) // self.window_ns

    def choices(self):
        return super().choices() + 3 * [self.rest]

    def rest(self):
        if ("rest", 0) in self.busy:
            return None
        self.busy.add(("rest", 0))
        self.crew.rest()
        return "nobody is asked", lambda: self.crew.rest(False)

    def judge(self):
        return BucketVerdict(self.law, self.crew.takes(), self.faults, self.split)

    def figures(self, verdict):
        quiet, whole = verdict.quiet(), [(verdict.begin, verdict.end)]
        return [f"{self.limit()}, c {self.base}, N {self.nodes}",
                f"{verdict.length(whole) / 1e9:.0f} s, {len(verdict.takes)} takes, {len(verdict.over)} intervals over, "
                f"{len(verdict.wrong)} takes out of time",
                f"use {verdict.use(quiet):.1f} % of {verdict.length(quiet) / 1e9:.0f} s without a fault, "
                f"{verdict.use(whole):.1f} % of all", f"worst {verdict.worst()}"]

    def remarks(self, verdict):
        stat = self.crew.stats()
        two = [f"{len(self.split)} times two masters (2 B + 2 R*t)"] if self.split else []
        return [*two, f"{stat['failures']} orders without an answer", f"{self.crew.failed} times one could not join"]


class ZooKeeperBucket(BucketLaw, ZooKeeperCampaign):
    kind = "zookeeper-bucket"

    def change_total(self):
        """Half a bucket for a while: never above the whole one, whichever is in force."""
        said = self.set_limit(self.limit(2))
        return f"half a bucket{said}", lambda: self.set_limit(self.limit())


class RedisBucket(BucketLaw, RedisCampaign):
    kind = "redis-bucket"


class ClusterBucket(BucketLaw, ClusterCampaign):
    kind = "cluster-bucket"


class WeirBucket(BucketLaw, WeirCampaign):
    kind = "weir-bucket"
