# SPDX-License-Identifier: MIT
"""Networks that can be cut, for real processes of this machine.

    with network.make(7) as net:
        net.address(3), net.prefix(3)     # of machine 3: its address, and words in front of its command lines
        net.cut(3, [0, 1], "in")          # machine 3 hears nothing of 0 and 1; "out": they hear nothing of it; "both"
        net.heal()

Namespaces gives each machine a network namespace of its own, joined by a bridge on which this process has an address,
too; cuts are rules of iptables inside of them, so packets vanish and nobody is told. That needs root. Where it cannot
be had, Loopback puts all of them on 127.0.0.1, and whoever leads the test puts a Proxy between two of them instead:
connections through it stand still, one way or both.
"""

import os
import select
import socket
import subprocess
import sys
import threading


def run(*words):
    subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def make(count, proxies=False):
    if proxies:
        return Loopback(count)
    net = Namespaces(count)
    try:
        net.open()
        return net
    except (OSError, subprocess.CalledProcessError) as error:
        net.close()
        said = getattr(error, "stderr", b"") or str(error).encode()
        print(f"NOTE: no network namespaces here ({said.decode(errors='replace').strip()}): partitions are made by "
              "proxies and SIGSTOP instead of iptables", file=sys.stderr, flush=True)
        return Loopback(count)


class Namespaces:
    """10.A.B.1 and so on; names are of this process, so that several can be there at a time."""

    has_machines = True

    def __init__(self, count):
        self.count = count
        self.name = f"wf{os.getpid()}"
        self.net = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"

    def open(self):
        bridge = self.name + "b"
        run("ip", "link", "add", bridge, "type", "bridge")
        run("ip", "link", "set", bridge, "up")
        run("ip", "address", "add", f"{self.net}.254/24", "dev", bridge)
        for i in range(self.count):
            run("ip", "netns", "add", self.space(i))
            run("ip", "link", "add", f"{self.name}v{i}", "type", "veth", "peer", "name", "eth0", "netns", self.space(i))
            run("ip", "link", "set", f"{self.name}v{i}", "master", bridge, "up")
            inside = self.prefix(i)
            run(*inside, "ip", "address", "add", f"{self.address(i)}/24", "dev", "eth0")
            run(*inside, "ip", "link", "set", "lo", "up")
            run(*inside, "ip", "link", "set", "eth0", "up")
            run(*inside, "iptables", "-w", "-S")

    def space(self, i):
        return f"{self.name}n{i}"

    def address(self, i):
        return f"{self.net}.{i + 1}"

    def prefix(self, i):
        return ["ip", "netns", "exec", self.space(i)]

    def cut(self, i, others, way="both"):
        for other in others:
            if way in ("in", "both"):
                run(*self.prefix(i), "iptables", "-w", "-A", "INPUT", "-s", self.address(other), "-j", "DROP")
            if way in ("out", "both"):
                run(*self.prefix(i), "iptables", "-w", "-A", "OUTPUT", "-d", self.address(other), "-j", "DROP")

    def heal(self):
        for i in range(self.count):
            run(*self.prefix(i), "iptables", "-w", "-F")

    def close(self):
        for i in range(self.count):
            subprocess.run(["ip", "netns", "del", self.space(i)], check=False, capture_output=True)
            subprocess.run(["ip", "link", "del", f"{self.name}v{i}"], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self.name + "b"], check=False, capture_output=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Loopback:
    """All of it on one address. What is cut are the proxies between two machines, where there are some."""

    has_machines = False

    def __init__(self, count):
        self.count = count
        self.proxies = {}

    def address(self, _):
        return "127.0.0.1"

    def prefix(self, _):
        return []

    def proxy(self, i, other, address):
        """Where machine i finds `address` of the other one."""
        made = Proxy(address)
        self.proxies[i, other] = made
        return made.address

    def cut(self, i, others, way="both"):
        for other in others:
            for pair, in_is in (((i, other), "in"), ((other, i), "out")):
                if pair in self.proxies:
                    self.proxies[pair].cut("both" if way == "both" else "back" if way == in_is else "forth")

    def heal(self):
        for proxy in self.proxies.values():
            proxy.heal()

    def close(self):
        for proxy in self.proxies.values():
            proxy.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Proxy:
    """Listens on 127.0.0.1 and passes connections on. A direction that is cut stands still: what was sent is not lost and
    not refused, as with a network that is away for a while; connections that are made meanwhile are not answered."""

    def __init__(self, to):
        self.to = to
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.still = set()  # of "forth", "back"
        self.pairs = {}     # socket -> (the other one, the direction)
        self.wake_in, self.wake_out = os.pipe()
        self.ending = False
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def cut(self, way):
        self.still = {"forth", "back"} if way == "both" else {way}
        os.write(self.wake_out, b"!")

    def heal(self):
        self.still = set()
        os.write(self.wake_out, b"!")

    def close(self):
        self.ending = True
        os.write(self.wake_out, b"!")
        self.thread.join(5)
        for one in [self.listener, *self.pairs]:
            one.close()
        os.close(self.wake_in)
        os.close(self.wake_out)

    def work(self):
        while not self.ending:
            ready = [self.wake_in] + [one for one, (_, way) in self.pairs.items() if way not in self.still]
            if "forth" not in self.still:
                ready.append(self.listener)
            for one in select.select(ready, [], [])[0]:
                if one is self.wake_in:
                    os.read(one, 100)
                elif one is self.listener:
                    self.accept()
                elif one in self.pairs and self.pairs[one][1] not in self.still:  # it may have been cut meanwhile
                    self.pass_on(one)

    def accept(self):
        client, _ = self.listener.accept()
        try:
            server = socket.create_connection(self.to, timeout=1)
        except OSError:
            client.close()
            return
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(1)
        self.pairs[client] = server, "forth"
        self.pairs[server] = client, "back"

    def pass_on(self, one):
        other, _ = self.pairs[one]
        try:
            data = one.recv(1 << 16)
            other.sendall(data)
        except OSError:
            data = b""
        if not data:
            for each in (one, other):
                del self.pairs[each]
                each.close()
