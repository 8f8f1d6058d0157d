# SPDX-License-Identifier: MIT
"""Real ZooKeepers for tests: one, or an ensemble, on free ports of this machine, in a folder of their own.

    with Ensemble(3) as zoo:
        zoo.url("/weir")            # zookeeper://127.0.0.1:1234,.../weir
        zoo.kill9(zoo.leader()); zoo.restart(2); zoo.stop(1); zoo.cont(1)
        zoo.client()                # kazoo, an independent client, connected

Starting is waited for, with a deadline; whatever happens, all of them are killed at the end. What is missing (java, the
jar, kazoo) is an error. hosts= gives each server another address, prefix= words in front of its command line
(`ip netns exec NAME`), wall= hours by which the wall clock of each is wrong (wall.c; monotonic clocks stay right),
java= more words for the machine that runs them.
"""

import os
import pathlib
import shutil
import socket
import sys
import tempfile
import time

try:
    import kazoo.client
except ImportError:  # the interpreter of the tests need not be the one that the distribution has packages for
    sys.path.append("/usr/lib/python3/dist-packages")
    import kazoo.client

from servers import Servers, free_ports, wall_environment  # noqa: E402,F401  (also for who imports them from here)

JARS = ("/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-nop.jar")
READY_S = 90


class Ensemble(Servers):
    def __init__(self, count=1, hosts=None, prefix=None, wall=None, tick_ms=200, memory=True, folder=None,
                 java=()):
        if not shutil.which("java"):
            raise RuntimeError("java is missing: script/setup test installs it")
        for jar in JARS:
            if not os.path.exists(jar):
                raise RuntimeError(f"{jar} is missing: script/setup test installs it")
        self.count = count
        self.hosts = hosts or ["127.0.0.1"] * count
        self.prefix = prefix or [[] for _ in range(count)]
        self.wall = wall or [0] * count
        self.java = list(java)
        self.memory = memory and os.path.isdir("/dev/shm")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-zoo-", dir=folder or ("/dev/shm" if self.memory else None)))
        self.tick_ms = tick_ms
        self.processes = [None] * count
        self.clients = []
        local = all(host == "127.0.0.1" for host in self.hosts)
        # Every server may have the same ports where each has an address of its own.
        ports = free_ports(3 * count) if local else [2181] * count + [2888] * count + [3888] * count
        self.ports, peers = ports[:count], ports[count:]
        for i in range(count):
            self.write_config(i, peers)

    def write_config(self, i, peers):
        data = self.folder / str(i) / "data"
        data.mkdir(parents=True)
        lines = [f"tickTime={self.tick_ms}", "initLimit=50", "syncLimit=10", f"dataDir={data}",
                 f"clientPort={self.ports[i]}", f"clientPortAddress={self.hosts[i]}", "admin.enableServer=false",
                 "maxClientCnxns=0", "4lw.commands.whitelist=*"]
        if self.count > 1:
            (data / "myid").write_text(str(i + 1))
            lines.append("standaloneEnabled=false")
            lines += [f"server.{k + 1}={self.hosts[k]}:{peers[k]}:{peers[self.count + k]}" for k in range(self.count)]
        (self.folder / str(i) / "zoo.cfg").write_text("\n".join(lines) + "\n")

    def begin(self):
        for i in range(self.count):
            self.start(i)
        self.wait_ready()

    def close(self):
        for client in self.clients:
            try:
                client.stop()
                client.close()
            except Exception:  # the servers may be gone already
                pass
        self.clients = []
        super().close()

    # ---- single servers ----

    def start(self, i):
        command = ["java", "-Xms32m", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
                   "-Djava.net.preferIPv4Stack=true", "-Dzookeeper.jmx.log4j.disable=true"]
        if self.memory:  # nothing survives the test, so nothing has to reach a disk
            command += ["-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024"]
        command += [*self.java, "-cp", ":".join(JARS), "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    str(self.folder / str(i) / "zoo.cfg")]
        self.launch(i, command)

    def say(self, i, word):
        """What it answers to such a word of four letters; "" if it does not."""
        try:
            with socket.create_connection((self.hosts[i], self.ports[i]), timeout=1) as connection:
                connection.sendall(word.encode())
                said = b""
                while True:
                    part = connection.recv(4096)
                    if not part:
                        return said.decode()
                    said += part
        except OSError:
            return ""

    def srvr(self, i):
        return self.say(i, "srvr")

    def mode(self, i):
        said = self.srvr(i)
        return said.split("Mode: ")[1].split()[0] if "Mode: " in said else None

    def wait_ready(self, which=None):
        deadline = time.monotonic() + READY_S
        for i in which or range(self.count):
            while not self.mode(i):
                process = self.processes[i]
                if process.poll() is not None or time.monotonic() > deadline:
                    log = (self.folder / str(i) / "log").read_text(errors="replace")
                    raise RuntimeError(f"ZooKeeper {i} does not come up (status {process.poll()}):\n{log[-2000:]}")
                time.sleep(0.02)

    def leader(self):
        """The index of the leader; of a single server, 0."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            for i in range(self.count):
                if self.processes[i] and self.mode(i) in ("leader", "standalone"):
                    return i
            time.sleep(0.02)
        raise RuntimeError("there is no leader")

    def restart(self, i, wait=True):
        if self.processes[i]:
            self.kill9(i)
        self.start(i)
        if wait:
            self.wait_ready([i])

    # ---- clients ----

    def address(self):
        return ",".join(f"{host}:{port}" for host, port in zip(self.hosts, self.ports))

    def url(self, path="", user="", query=""):
        return f"zookeeper://{user + '@' if user else ''}{self.address()}{path}{'?' + query if query else ''}"

    def client(self, auth=None):
        client = kazoo.client.KazooClient(self.address(), timeout=4, auth_data=[("digest", auth)] if auth else None)
        client.start(timeout=READY_S)
        self.clients.append(client)
        return client
