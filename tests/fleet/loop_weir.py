# SPDX-License-Identifier: MIT
"""A campaign on weir servers: a root that keeps its table on disk, a second tier that leases from it, and nodes below
both. Judged by what the root says of its windows, read beside everything else."""

import os
import signal

import server
from campaign import POOL, Campaign
from ensemble import free_ports
from judge import MS, Window
from observer import Observer

PORT = 9049
ROOT, TIER = 0, 1


class Life:
    """One server: started, killed and started again at the same address, with the same files."""

    def __init__(self, folder, config, prefix, host, port, *arguments):
        self.path = os.path.join(folder, "weir.yaml")
        os.makedirs(folder, exist_ok=True)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(config)
        self.prefix, self.host, self.port, self.arguments = prefix, host, port, arguments
        self.weir = None

    def start(self):
        self.weir = server.Server("--resp", f"{self.host}:{self.port}", "--no-password", "--config", self.path,
                                  *self.arguments, tcp=None, prefix=self.prefix)

    def kill9(self):
        self.weir.process.kill()
        self.weir.wait()
        self.weir.clean()
        self.weir = None

    def close(self):
        if self.weir:
            self.kill9()


class WeirCampaign(Campaign):
    kind = "weir"
    servers = 2
    # The root tells its end in whole ms, rounded down; a look takes some time.
    slack_ns = 2 * MS

    def policy(self, coordinator):
        return f"""\
policies:
  - name: {POOL}
    limits: {self.limit()}
    fleet: {{coordinator: "{coordinator}", nodes: {self.nodes}, base: {self.base}, answer: 500ms, lost_after: 1s}}
"""

    def open(self, stack):
        ports = [PORT] * 2 if self.net.has_machines else free_ports(2)
        self.ends = {}  # epoch -> (earliest, latest) that its end can be, in ns
        self.lives = []
        for i in (ROOT, TIER):
            coordinator = "local:" if i == ROOT else f"weir://{self.net.address(ROOT)}:{ports[ROOT]}"
            data = ["--data", str(self.folder / "data")] if i == ROOT else []
            self.lives.append(Life(str(self.folder / f"server-{i}"), self.policy(coordinator), self.net.prefix(i),
                                   self.net.address(i), ports[i], *data))
            stack.callback(self.lives[i].close)
            self.lives[i].start()
        address = self.net.address(ROOT), ports[ROOT]
        self.observer = stack.enter_context(
            Observer([address], lambda client, _: client.ask("WEIR.LEASE", POOL, "0"), self.note))
        query = f"base={self.base}&nodes={self.nodes}&answer=500ms&lost_after=1s&connect=8s"
        return [f"weir://{self.host_for(i, ports)}?{query}" for i in range(self.nodes)]

    def host_for(self, node, ports):
        """The last node is below the root itself."""
        i = ROOT if node == self.nodes - 1 else TIER
        if self.net.has_machines:
            return f"{self.net.address(i)}:{ports[i]}"
        host, port = self.net.proxy(self.machine(node), i, ("127.0.0.1", ports[i]))
        return f"{host}:{port}"

    # ---- the books ----

    def note(self, _i, before, after, reply):
        if not isinstance(reply, list) or isinstance(reply, server.Error):
            return
        fields = dict(zip(reply[::2], reply[1::2]))
        epoch, left = int(fields["epoch"]), int(fields["expires_in_ms"]) * MS
        earliest, latest = self.ends.get(epoch, (0, 1 << 62))
        self.ends[epoch] = max(earliest, before + left), min(latest, after + left + MS)

    def windows(self):
        with self.observer.lock:
            ends = sorted(self.ends.values())
        return [Window(self.end_of(between, ends) - self.window_ns, self.total, self.base, length=self.window_ns)
                for between in ends]

    def end_of(self, between, ends):
        """Of one that was hardly looked at, because it has just begun or the machine had other work, as exactly as of
        the nearest that is known well: they follow each other by the clock."""
        earliest, latest = between
        end = (earliest + latest) // 2
        known = [sum(other) // 2 for other in ends if other[1] - other[0] <= self.slack_ns]
        if latest - earliest > self.slack_ns and known:
            near = min(known, key=lambda other: abs(other - end))
            by_clock = near + round((end - near) / self.window_ns) * self.window_ns
            end = min(max(by_clock, earliest), latest)
        return end

    def books(self):
        return sorted(self.ends.items())

    def remarks(self, verdict):
        stat = self.crew.stats()
        return [f"{stat['writes'] / max(stat['chunks'], 1):.3f} orders a chunk by the nodes",
                f"{stat['failures']} orders without an answer", f"{self.crew.failed} times one could not join"]

    # ---- faults ----

    def choices(self):
        return [self.kill_node, self.stop_node, self.cut_node, self.kill_root, self.stop_root, self.kill_tier,
                self.stop_tier] + ([self.cut_tier] if self.net.has_machines else [])

    def claim_server(self, i):
        if ("server", i) in self.busy:
            return False
        self.busy.add(("server", i))
        return True

    def kill(self, i, name):
        if not self.claim_server(i):
            return None
        self.lives[i].kill9()
        return f"{name} is killed", self.lives[i].start

    def stop(self, i, name):
        if not self.claim_server(i):
            return None
        self.lives[i].weir.signal(signal.SIGSTOP)
        return f"{name} is stopped", lambda: self.lives[i].weir.signal(signal.SIGCONT)

    def kill_root(self):
        return self.kill(ROOT, "the root")

    def stop_root(self):
        return self.stop(ROOT, "the root")

    def kill_tier(self):
        return self.kill(TIER, "the second tier")

    def stop_tier(self):
        return self.stop(TIER, "the second tier")

    def cut_tier(self):
        if not self.claim_server(TIER):
            return None
        way = self.rng.choice(("both", "in", "out"))
        self.net.cut(TIER, [ROOT], way)
        return f"the second tier is cut off from the root ({way})", None
