# SPDX-License-Identifier: MIT
"""Campaigns on Redis: a master with two replicas that fails over, and a cluster of three masters. Wall clocks are an
hour apart. Judged by what the servers' own key says, read beside everything else.

A window that began with nothing to spend (after a failover) has a total of 0: units of the one before may still be
spent in it. Two masters at a time may give out a total each; that is what a window may have in which there were two."""

import time

import server
from campaign import POOL, Campaign
from crew import boot_ns
from fleet import wall_offset_ns
from judge import Window
from observer import Observer
from redises import Redises

KEY = f"weir:{{{POOL}}}:quota"
HOUR_US = 3600 * 10**6


class RedisBase(Campaign):
    doubt = "with two masters"
    def watch(self, stack):
        self.seen = {}     # (epoch, began) -> (Window, tickets)
        self.split = []    # (from, to): two masters, or one that is trusted although it has lost something
        addresses = [(self.redis.hosts[i], self.redis.ports[i]) for i in range(self.servers)]
        look = Observer(addresses, lambda client, _: client.ask("HGETALL", KEY), self.note)
        self.observer = stack.enter_context(look)

    more = ""

    def query(self):
        return f"{self.more}base={self.base}&nodes={self.nodes}&answer=500ms&lost_after=1s&connect=8s"

    # ---- the books ----

    @staticmethod
    def boot_of(time_us):
        """A server's clock may be wrong by whole hours, and by nothing else."""
        hours = round((time.time_ns() / 1000 - time_us) / HOUR_US)
        return 1000 * (time_us + HOUR_US * hours) + wall_offset_ns()

    def note(self, _i, _before, _after, reply):
        if not isinstance(reply, list) or isinstance(reply, server.Error):
            return
        fields = dict(zip(reply[::2], reply[1::2]))
        if "epoch" not in fields or int(fields.get("began", -1)) < 0:
            return
        of, name = fields["of"].split(), (int(fields["epoch"]), int(fields["began"]))
        used = int(fields["used"])
        if name in self.seen:
            window, most = self.seen[name]
            self.seen[name] = window, max(most, used)
            return
        total = 0 if fields["count"] == "0" else int(of[1])
        self.seen[name] = Window(self.boot_of(name[1]), total, int(of[5]), length=int(of[2])), used

    def windows(self):
        with self.observer.lock:
            found = [window._replace(writes=used) for window, used in self.seen.values()]
        found.sort()
        return [window._replace(bound=2 * window.total) if self.was_split(window) else window for window in found]

    def was_split(self, window):
        """In it, or in those beside it."""
        return any(start < window.begin + 2 * window.length and end > window.begin - 2 * window.length
                   for start, end in self.split)

    def remarks(self, verdict):
        stat = self.crew.stats()
        split = [i for i, window in enumerate(verdict.windows) if window.bound]
        above = sum(verdict.sums[i] > verdict.windows[i].total for i in split)
        which = [i for i in verdict.whole() if verdict.is_quiet(i) and verdict.sums[i]]
        tickets = sum(verdict.windows[i].writes for i in which)
        chunks = sum(verdict.sums[i] / verdict.windows[i].chunk for i in which)
        return [f"{verdict.void} windows began empty (failover)",
                f"{len(split)} windows {self.doubt} (bound 2 T), {above} of them above T",
                f"{stat['writes'] / max(stat['chunks'], 1):.3f} orders a chunk by the nodes, "
                f"{tickets / max(chunks, 1):.3f} tickets a chunk spent by the servers (without a fault)",
                f"{stat['failures']} orders without an answer", f"{self.crew.failed} times one could not join"]


class RedisCampaign(RedisBase):
    kind = "redis"

    def open(self, stack):
        count = self.servers
        self.redis = stack.enter_context(Redises(
            replicas=count - 1, wall=self.walls, hosts=[self.net.address(i) for i in range(count)],
            prefix=[self.net.prefix(i) for i in range(count)]))
        self.master = 0
        self.watch(stack)
        return [f"redis://{self.hosts_for(i)}?{self.query()}" for i in range(self.nodes)]

    def hosts_for(self, node):
        if self.net.has_machines:
            return self.redis.address()
        pairs = [self.net.proxy(self.machine(node), i, ("127.0.0.1", self.redis.ports[i])) for i in range(self.servers)]
        return ",".join(f"{host}:{port}" for host, port in pairs)

    # ---- faults ----

    def choices(self):
        return [self.kill_node, self.stop_node, self.cut_node, self.kill_master, self.lose_writes, self.stop_master,
                self.restart_master, self.stop_replica, self.kill_replica]

    def replicas(self):
        return [i for i in range(self.servers) if i != self.master]

    def claim_servers(self):
        """One fault of servers at a time."""
        if ("server", 0) in self.busy:
            return False
        self.busy.update(("server", i) for i in range(self.servers))
        return True

    def fail_over(self, to):
        """As a sentinel does it: one replica becomes master, the others follow it."""
        self.redis.promote(to)
        self.master = to
        for i in range(self.servers):
            if i != to and self.redis.processes[i]:
                self.redis.ask(i, "REPLICAOF", self.redis.hosts[to], self.redis.ports[to])

    def come_back(self, i):
        self.redis.restart(i)
        self.redis.ask(i, "REPLICAOF", self.redis.hosts[self.master], self.redis.ports[self.master])

    def kill_master(self):
        if not self.claim_servers():
            return None
        old, new = self.master, self.rng.choice(self.replicas())
        self.redis.kill9(old)
        self.wait(self.rng.uniform(0, 0.5))
        self.fail_over(new)
        return f"master {old} is killed, {new} is master", lambda: self.come_back(old)

    def lose_writes(self):
        """The replica that becomes master has not heard of what the master did last."""
        if not self.claim_servers():
            return None
        old, new = self.master, self.rng.choice(self.replicas())
        if self.net.has_machines:
            self.net.cut(old, [new])
        else:
            self.redis.cut_off(new)
        self.wait(self.rng.uniform(0.1, 1.5) * self.window_s)
        self.redis.kill9(old)
        self.net.heal()
        self.fail_over(new)
        return f"master {old} is killed, {new} is master, which has not heard all of it", lambda: self.come_back(old)

    def stop_master(self):
        """It goes on later, and thinks that it is the master, until it is told."""
        if not self.claim_servers():
            return None
        old, new = self.master, self.rng.choice(self.replicas())
        self.redis.stop(old)
        self.wait(self.rng.uniform(0, 0.5))
        self.redis.promote(new)
        self.master = new

        def go_on():
            start = boot_ns()
            self.redis.cont(old)
            self.redis.ask(old, "REPLICAOF", self.redis.hosts[new], self.redis.ports[new])
            self.split.append((start, boot_ns()))
        return f"master {old} is stopped, {new} is master", go_on

    def restart_master(self):
        """Without a failover: it has forgotten everything."""
        if not self.claim_servers():
            return None
        self.redis.kill9(self.master)
        self.wait(self.rng.uniform(0, 1))
        self.redis.restart(self.master)
        return f"master {self.master} is killed and comes back empty", None

    def stop_replica(self):
        if not self.claim_servers():
            return None
        i = self.rng.choice(self.replicas())
        self.redis.stop(i)
        return f"replica {i} is stopped", lambda: self.redis.cont(i)

    def kill_replica(self):
        if not self.claim_servers():
            return None
        i = self.rng.choice(self.replicas())
        self.redis.kill9(i)
        return f"replica {i} is killed", lambda: self.come_back(i)

    def settle(self):
        """All follow the master."""
        deadline = time.monotonic() + 30
        for i in self.replicas():
            if self.redis.processes[i] is None:
                self.come_back(i)
            self.redis.ask(i, "REPLICAOF", self.redis.hosts[self.master], self.redis.ports[self.master])
            while "master_link_status:up" not in self.redis.ask(i, "INFO", "replication"):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"replica {i} does not come back")
                self.wait(0.05)


class TrustCampaign(RedisCampaign):
    """A new master is believed: what was lost may be spent again, at most a total."""

    kind = "trust"
    more = "failover=trust&"
    doubt = "with a failover"

    def choices(self):
        return [self.kill_node, self.lose_writes, self.lose_writes, self.kill_master, self.restart_master]

    def strike(self):
        super().strike()
        self.split.append(self.faults[-1])


class ClusterCampaign(RedisBase):
    kind = "cluster"

    def open(self, stack):
        count = self.servers
        self.redis = stack.enter_context(Redises(
            cluster=count, wall=self.walls, hosts=[self.net.address(i) for i in range(count)],
            prefix=[self.net.prefix(i) for i in range(count)], arguments=["--cluster-require-full-coverage", "no"]))
        self.slot = self.redis.slot(KEY)
        self.owner = self.redis.owner(KEY)
        self.watch(stack)
        return [f"{self.redis.url(self.query())}" for _ in range(self.nodes)]

    def choices(self):
        faults = [self.kill_node, self.stop_node, self.kill_server, self.stop_server, self.move_slot, self.move_slot]
        return faults + ([self.cut_node, self.cut_server] if self.net.has_machines else [])

    def kill_server(self):
        i = self.claim("server", self.servers)
        if i is None or any(what == "slot" for what, _ in self.busy):
            return None
        self.redis.kill9(i)
        return f"server {i}{' (of the slot)' if i == self.owner else ''} is killed", lambda: self.redis.restart(i)

    def stop_server(self):
        i = self.claim("server", self.servers)
        if i is None or any(what == "slot" for what, _ in self.busy):
            return None
        self.redis.stop(i)
        return f"server {i}{' (of the slot)' if i == self.owner else ''} is stopped", lambda: self.redis.cont(i)

    def cut_server(self):
        i = self.claim("server", self.servers)
        if i is None or any(what == "slot" for what, _ in self.busy):
            return None
        self.net.cut(i, [other for other in range(self.servers) if other != i])
        return f"server {i} is cut off from the others", None

    def move_slot(self):
        """With its key, while it is used; it stays on both sides for a while."""
        if any(what in ("server", "slot") for what, _ in self.busy):
            return None
        self.busy.add(("slot", 0))
        old, new = self.owner, self.rng.choice([i for i in range(self.servers) if i != self.owner])
        ids = [self.redis.id(i) for i in range(self.servers)]
        self.redis.ask(new, "CLUSTER", "SETSLOT", self.slot, "IMPORTING", ids[old])
        self.redis.ask(old, "CLUSTER", "SETSLOT", self.slot, "MIGRATING", ids[new])
        self.wait(self.rng.uniform(0, 0.3))
        self.redis.ask(old, "MIGRATE", self.redis.hosts[new], self.redis.ports[new], KEY, 0, 1000)
        self.wait(self.rng.uniform(0, 0.3))
        for i in (new, old, *range(self.servers)):
            self.redis.ask(i, "CLUSTER", "SETSLOT", self.slot, "NODE", ids[new])
        self.owner = new
        return f"the slot has moved from {old} to {new}", None

    def settle(self):
        deadline = time.monotonic() + 30
        for i in range(self.servers):
            while "cluster_state:ok" not in self.redis.ask(i, "CLUSTER", "INFO"):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"server {i} does not come back")
                self.wait(0.05)
