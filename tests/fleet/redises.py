# SPDX-License-Identifier: MIT
"""Real Redis servers for tests, on free ports of this machine, in a folder of their own.

    with Redises() as redis:                    # one server
    with Redises(replicas=2) as redis:          # 0 is the master, 1 and 2 follow it
    with Redises(cluster=3) as redis:           # masters of a cluster, the slots in equal parts
        redis.url()                             # redis://127.0.0.1:1234,..., or redis+cluster://...
        redis.ask(0, "HGETALL", "weir:{a}:quota")
        redis.kill9(0); redis.promote(1); redis.restart(0); redis.stop(1); redis.cont(1)

Starting is waited for, with a deadline; whatever happens, all of them are killed at the end. A redis-server that is
missing is an error. wall= hours by which the wall clock of each is wrong (wall.c), hosts= another address for each,
prefix= words in front of its command line (`ip netns exec NAME`).
"""

import pathlib
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))
import server  # noqa: E402  (a client that speaks the protocol)

from servers import Servers, free_ports  # noqa: E402

READY_S = 60
SLOTS = 16384


def wait_until(what, seconds=READY_S):
    """Asks until it is true; what raises OSError is not."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if what():
                return
        except (OSError, server.Closed):
            pass
        if time.monotonic() > deadline:
            raise RuntimeError(f"in {seconds} s it did not come to pass: {what.__name__}")
        time.sleep(0.01)


class Redises(Servers):
    def __init__(self, replicas=0, cluster=0, wall=None, arguments=(), hosts=None, prefix=None):
        if not shutil.which("redis-server"):
            raise RuntimeError("redis-server is missing: script/setup test installs it")
        self.count = cluster or 1 + replicas
        self.replicas, self.cluster = replicas, cluster
        self.wall = wall or [0] * self.count
        self.arguments = list(arguments)
        self.hosts = hosts or ["127.0.0.1"] * self.count
        self.prefix = prefix or [[] for _ in range(self.count)]
        local = all(host == "127.0.0.1" for host in self.hosts)
        ports = free_ports(2 * self.count) if local else [6379] * self.count + [16379] * self.count
        self.ports, self.buses = ports[:self.count], ports[self.count:]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-redis-"))
        self.processes = [None] * self.count

    def begin(self):
        for i in range(self.count):
            self.start(i)
        for i in range(self.count):
            self.wait_ready(i)
        if self.cluster:
            self.join()
        for i in range(1, 1 + self.replicas):
            self.follow(i, 0)

    # ---- single servers ----

    def start(self, i):
        folder = self.folder / str(i)
        folder.mkdir(exist_ok=True)
        command = ["redis-server", "--port", str(self.ports[i]), "--bind", self.hosts[i],
                   "--protected-mode", "no", "--save", "", "--appendonly",
                   "no", "--dir", str(folder), "--repl-diskless-sync-delay", "0", "--repl-timeout", "5"]
        if self.cluster:
            command += ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout",
                        "1000", "--cluster-port", str(self.buses[i])]
        self.launch(i, command + self.arguments)

    def wait_ready(self, i):
        def it_answers():
            if self.processes[i].poll() is not None:
                log = (self.folder / str(i) / "log").read_text(errors="replace")
                raise RuntimeError(f"redis-server {i} ended:\n{log[-2000:]}")
            said = self.ask(i, "PING")
            return said == "PONG" or said.startswith("NOAUTH")
        wait_until(it_answers)

    def client(self, i=0):
        return server.Client((self.hosts[i], self.ports[i]))

    def ask(self, i, *words):
        with self.client(i) as client:
            return client.ask(*[str(word) for word in words])

    def restart(self, i):
        if self.processes[i]:
            self.kill9(i)
        self.start(i)
        self.wait_ready(i)

    # ---- replicas ----

    def follow(self, i, master):
        self.ask(i, "REPLICAOF", self.hosts[master], self.ports[master])

        def it_has_everything():
            return "master_link_status:up" in self.ask(i, "INFO", "replication")
        wait_until(it_has_everything)

    def cut_off(self, i):
        """It stays a replica, but hears no more: what the master writes from now on it will not know."""
        self.ask(i, "REPLICAOF", "127.0.0.1", 1)

    def promote(self, i):
        self.ask(i, "REPLICAOF", "NO", "ONE")

    # ---- the cluster ----

    def join(self):
        for i in range(self.count):
            first, last = SLOTS * i // self.count, SLOTS * (i + 1) // self.count - 1
            self.ask(i, "CLUSTER", "ADDSLOTSRANGE", first, last)
            self.ask(i, "CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            if i > 0:
                self.ask(i, "CLUSTER", "MEET", self.hosts[0], self.ports[0], self.buses[0])
        for i in range(self.count):
            def all_is_well(i=i):
                said = self.ask(i, "CLUSTER", "INFO")
                return "cluster_state:ok" in said and f"cluster_known_nodes:{self.count}" in said
            wait_until(all_is_well)

    def id(self, i):
        return self.ask(i, "CLUSTER", "MYID")

    def slot(self, key):
        return int(self.ask(0, "CLUSTER", "KEYSLOT", key))

    def owner(self, key):
        return self.slot(key) * self.count // SLOTS

    # ---- for weir ----

    def address(self, which=None):
        return ",".join(f"{self.hosts[i]}:{self.ports[i]}" for i in (which or range(self.count)))

    def url(self, query="", which=None):
        scheme = "redis+cluster" if self.cluster else "redis"
        return f"{scheme}://{self.address(which)}{'?' + query if query else ''}"
