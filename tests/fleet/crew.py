# SPDX-License-Identifier: MIT
"""Node processes (node.c) that are killed, stopped and started again, and all that they were let pass.

Each writes into a file of its own, one line for each take, before the next: what is killed has said all but its last.
A node that ends by itself (it could not join) is started again."""

import os
import signal
import subprocess
import time

from ensemble import wall_environment
from judge import Take

AGAIN_S = 0.3
KINDS = (("--size", "1"), ("--size", "5"), ("--threads", "2"), ("--wait", "150", "--size", "3"))


def program(name):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    return os.path.join(os.environ.get("WEIR_BUILD", os.path.join(root, "build", "release")), "tests", name)


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Crew:
    def __init__(self, folder, urls, name, limit, prefixes, walls, seed):
        self.folder, self.urls, self.name, self.limit = folder, urls, name, limit
        self.prefixes, self.walls, self.seed = prefixes, walls, seed
        self.count = len(urls)
        self.processes = [None] * self.count
        self.files = [[] for _ in urls]
        self.down = set()   # that are to stay dead for now
        self.next = [0.0] * self.count
        self.failed = 0     # times that one could not join
        self.ending = False

    def __enter__(self):
        self.tend()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process and process.poll() is None:
                process.kill()
                process.wait()

    def start(self, i):
        path = os.path.join(self.folder, f"node-{i}-{len(self.files[i])}")
        seed = self.seed * 1000 + 10 * len(self.files[i]) + i
        command = [*self.prefixes[i], program("fleet-node"), self.urls[i], self.name, self.limit, "--for", "1000000000",
                   "--bundle", "0", "--stat", "1", "--seed", str(seed), *KINDS[i % len(KINDS)]]
        self.files[i].append(path)
        with open(path, "wb") as out, open(path + ".err", "wb") as err:
            self.processes[i] = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                                 env=wall_environment(self.walls[i]))

    def tend(self):
        """Whoever is away and should not be is started."""
        if self.ending:
            return
        for i, process in enumerate(self.processes):
            if i in self.down or time.monotonic() < self.next[i]:
                continue
            if process is None or process.poll() is not None:
                if process and process.returncode == 1:
                    self.failed += 1
                elif process and process.returncode not in (0, -signal.SIGKILL):
                    raise RuntimeError(f"node {i} ended with {process.returncode}: {self.complaint(i)}")
                self.next[i] = time.monotonic() + AGAIN_S
                self.start(i)

    def complaint(self, i):
        with open(self.files[i][-1] + ".err", encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def kill9(self, i):
        self.down.add(i)
        self.processes[i].kill()
        self.processes[i].wait()

    def revive(self, i):
        self.down.discard(i)

    def stop(self, i):
        self.processes[i].send_signal(signal.SIGSTOP)

    def cont(self, i):
        self.processes[i].send_signal(signal.SIGCONT)

    def rest(self, resting=True):
        """Nobody asks any of them for a while: whoever is there takes nothing."""
        for i, process in enumerate(self.processes):
            if i not in self.down and process and process.poll() is None and self.has_joined(i):
                process.send_signal(signal.SIGUSR1 if resting else signal.SIGUSR2)

    def has_joined(self, i):
        """It listens to signals."""
        with open(self.files[i][-1], "rb") as file:
            return b"J " in file.read(64)

    def finish(self):
        """All of them leave in order."""
        self.ending = True
        for process in self.processes:
            if process and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 15
        for i, process in enumerate(self.processes):
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"node {i} does not end") from None
            if process.returncode not in (0, 1, -signal.SIGTERM, -signal.SIGKILL):
                raise RuntimeError(f"node {i} ended with {process.returncode}: {self.complaint(i)}")
        for path in (name + ".err" for names in self.files for name in names):
            with open(path, encoding="utf-8", errors="replace") as file:
                said = file.read()
            if "Sanitizer" in said:
                raise RuntimeError(said[-4000:])

    # ---- what they said ----

    def lines(self, i, kind):
        for path in self.files[i]:
            with open(path, encoding="ascii") as file:
                for line in file:
                    if line.startswith(kind + " ") and line.endswith("\n"):
                        yield path, line.split()

    def takes(self):
        found = [Take(int(words[1]), int(words[2]), int(words[4]), int(words[5]), i)
                 for i in range(self.count) for _, words in self.lines(i, "T")]
        found.sort()
        return found

    def stats(self):
        """Sums over all processes, of the last that each said of itself; "chunks": as many as were taken, by the size
        that they had then."""
        sums = dict.fromkeys(("taken", "spent", "returned", "dropped", "orders", "writes", "failures"), 0)
        chunks, last = 0.0, {}
        for i in range(self.count):
            for path, words in self.lines(i, "S"):
                stat = {key: int(value) for key, value in (word.split("=") for word in words[1:])}
                old = last.get(path, {"taken": 0, "chunk": stat["chunk"]})
                chunks += (stat["taken"] - old["taken"]) / max(old["chunk"], 1)
                last[path] = stat
        for stat in last.values():
            for key in sums:
                sums[key] += stat[key]
        return dict(sums, chunks=chunks)
