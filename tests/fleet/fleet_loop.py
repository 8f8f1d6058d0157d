# SPDX-License-Identifier: MIT
"""Fleets of real processes under faults: fleet_loop.py [KIND] [WINDOWS] [--seed S]

KIND: zookeeper, redis, trust, cluster, weir; with a bucket instead of windows zookeeper-bucket, redis-bucket,
cluster-bucket, weir-bucket; or all.

Each campaign starts a real coordinator and node processes that take from one limit as fast as they can, on machines of
their own (network namespaces; where those cannot be had it says so), with wall clocks that are an hour apart. Then
nodes and servers are killed, stopped and cut off, by lot, until so many windows are over (100). Whoever judges looks at
what the nodes wrote down and at the coordinator's own account. Exit status 1 if a window was above its total, or any
interval t above B + R*t of the bucket. Prints its seed, which repeats the faults, if not their moments.
"""

import argparse
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))

from loop_bucket import ClusterBucket, RedisBucket, WeirBucket, ZooKeeperBucket  # noqa: E402
from loop_redis import ClusterCampaign, RedisCampaign, TrustCampaign  # noqa: E402
from loop_weir import WeirCampaign  # noqa: E402
from loop_zookeeper import ZooKeeperCampaign  # noqa: E402

KINDS = {kind.kind: kind for kind in (ZooKeeperCampaign, RedisCampaign, TrustCampaign, ClusterCampaign, WeirCampaign,
                                      ZooKeeperBucket, RedisBucket, ClusterBucket, WeirBucket)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", nargs="?", default="all", choices=[*KINDS, "all"])
    parser.add_argument("windows", nargs="?", type=int, default=100)
    seed = os.environ.get("WEIR_SEED", random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--seed", type=int, default=int(seed))
    parser.add_argument("--window", type=float, help="its length in seconds, 1; for all, 2")
    parser.add_argument("--proxies", action="store_true", help="no network namespaces: proxies and SIGSTOP instead")
    asked = parser.parse_args()
    asked.window = asked.window or (2 if asked.what == "all" else 1)
    if asked.windows < 1 or not 0.1 <= asked.window <= 60:
        parser.error("WINDOWS must be 1 or more, --window from 0.1 to 60")
    print(f"seed {asked.seed}", flush=True)
    wrong = 0
    for kind in KINDS if asked.what == "all" else [asked.what]:
        verdict = KINDS[kind](asked.windows, asked.seed, window_s=asked.window, proxies=asked.proxies).run()
        wrong += len(verdict.over) + len(verdict.wrong)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
