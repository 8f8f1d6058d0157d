# SPDX-License-Identifier: MIT
"""A campaign on a ZooKeeper ensemble of three whose wall clocks are an hour apart. Judged by its transaction logs."""

import re
import subprocess
import time

import server
import zoolog
from campaign import POOL, Campaign
from ensemble import Ensemble
from fleet import wall_offset_ns
from judge import MS, Window

ROOT = f"/weir/quota/{POOL}"
FACTORS = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3}
HOUR_MS = 3600 * 1000


def field(text, name):
    """A count or a period of `refresh`."""
    found = re.search(rf"\b{name}=(\d+)(\w*)", text)
    return int(found[1]) * {**FACTORS, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}[found[2]] if found else 0


class ZooKeeperCampaign(Campaign):
    kind = "zookeeper"
    tick_ms = 200

    def open(self, stack):
        count = self.servers
        self.zoo = stack.enter_context(Ensemble(
            count, hosts=[self.net.address(i) for i in range(count)], prefix=[self.net.prefix(i) for i in range(count)],
            wall=self.walls, tick_ms=self.tick_ms))
        query = f"base={self.base}&nodes={self.nodes}&session=2s&answer=500ms&lost_after=1s&connect=8s"
        return [f"zookeeper://{self.hosts_for(i)}/weir?{query}" for i in range(self.nodes)]

    def hosts_for(self, node):
        if self.net.has_machines:
            return self.zoo.address()
        pairs = [self.net.proxy(self.machine(node), i, ("127.0.0.1", self.zoo.ports[i])) for i in range(self.servers)]
        return ",".join(f"{host}:{port}" for host, port in pairs)

    # ---- its books ----

    def transactions(self):
        return zoolog.read([self.zoo.folder / str(i) / "data" / "version-2" for i in range(self.zoo.count)])

    def books(self):
        return [f"{one.zxid:#x} {one.time_ms} {one.writes}" for one in self.transactions()]

    @staticmethod
    def boot_of(time_ms):
        """The leader's clock may be wrong by whole hours, and by nothing else."""
        hours = round((time.time_ns() / MS - time_ms) / HOUR_MS)
        return MS * (time_ms + HOUR_MS * hours) + wall_offset_ns()

    def windows(self):
        found = []
        for transaction in self.transactions():
            refresh = next((data.decode() for kind, path, data in transaction.writes
                            if path == ROOT + "/refresh" and kind != "delete"), None)
            if refresh is not None:
                void = " wait=" in refresh
                found.append(Window(self.boot_of(transaction.time_ms), 0 if void else field(refresh, "total"),
                                    field(refresh, "chunk"), length=field(refresh, "window")))
            ours = any(path.startswith(ROOT) for _, path, _ in transaction.writes)
            if found and ours:
                found[-1] = found[-1]._replace(writes=found[-1].writes + 1)
        return found

    def remarks(self, verdict):
        which = [i for i in verdict.whole() if verdict.is_quiet(i) and verdict.sums[i]]
        chunks = sum(verdict.sums[i] / verdict.windows[i].chunk for i in which)
        writes = sum(verdict.windows[i].writes for i in which)
        stat = self.crew.stats()
        sizes = sorted({window.chunk for window in verdict.windows})
        return [f"{writes / max(chunks, 1):.3f} writes a chunk by ZooKeeper's log (without a fault), "
                f"{stat['writes'] / max(stat['chunks'], 1):.3f} orders a chunk by the nodes (all)",
                f"chunks of {sizes[0]} to {sizes[-1]}", f"{stat['failures']} orders without an answer",
                f"{self.crew.failed} times one could not join"]

    # ---- faults ----

    def choices(self):
        return [self.kill_node, self.stop_node, self.cut_node, self.kill_leader, self.kill_member, self.stop_member,
                self.cut_member, self.cut_all, self.change_total]

    def member(self):
        """One that no fault is at; no two at once, or there would be no majority to talk of."""
        if any(what == "server" for what, _ in self.busy):
            return None
        return self.claim("server", self.servers)

    def kill(self, i, what):
        self.zoo.kill9(i)
        return f"{what} {i} is killed", lambda: self.zoo.restart(i, wait=False)

    def kill_leader(self):
        if any(what == "server" for what, _ in self.busy):
            return None
        i = self.zoo.leader()
        self.busy.add(("server", i))
        return self.kill(i, "leader")

    def kill_member(self):
        i = self.member()
        return None if i is None else self.kill(i, "member")

    def stop_member(self):
        i = self.member()
        if i is None:
            return None
        mode = self.zoo.mode(i)
        self.zoo.stop(i)
        return f"member {i} ({mode}) is stopped", lambda: self.zoo.cont(i)

    def cut_member(self):
        if not self.net.has_machines:
            return self.stop_member()
        i = self.member()
        if i is None:
            return None
        mode = self.zoo.mode(i)
        others = [other for other in range(self.servers) if other != i]
        way = self.rng.choice(("both", "both", "in", "out"))
        self.net.cut(i, others, way)
        return f"member {i} ({mode}) is cut off from {others} ({way})", None

    def cut_all(self):
        for node in range(self.nodes):
            self.net.cut(self.machine(node), range(self.servers))
        return "all nodes are cut off", None

    def change_total(self):
        full = 100 * self.nodes * self.base
        total = self.rng.choice((full // 2, full, full, full * 3 // 2))
        said = self.set_limit(f"{total}/{int(self.window_s * 1000)}ms")
        return f"total is set to {total}{said}", None

    def set_limit(self, limit):
        """As an operator does it; gives what went wrong."""
        done = subprocess.run([server.WEIR, "quota", "set", POOL, limit, "-c",
                               self.zoo.url("/weir", query="connect=3s")], capture_output=True, text=True, timeout=20,
                              env=server.environment(), stdin=subprocess.DEVNULL, check=False)
        return "" if done.returncode == 0 else f" ({done.stderr.strip()})"

    def settle(self):
        for i in range(self.servers):
            if self.zoo.processes[i] is None or self.zoo.processes[i].poll() is not None:
                self.zoo.restart(i, wait=False)
        self.wait(0.2)
        deadline = time.monotonic() + 40
        while not all(self.zoo.mode(i) for i in range(self.servers)):
            if time.monotonic() > deadline:
                raise RuntimeError("the ensemble does not come back")
            self.wait(0.05)

    def close_books(self):
        """Until all members have written down the same."""
        self.settle()
        deadline = time.monotonic() + 40
        while len(last := {self.zxid(i) for i in range(self.servers)}) > 1 or last == {None}:
            if time.monotonic() > deadline:
                raise RuntimeError("the members do not agree")
            time.sleep(0.1)

    def zxid(self, i):
        found = re.search(r"Zxid: (\w+)", self.zoo.srvr(i))
        return found and found[1]
