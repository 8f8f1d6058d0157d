# SPDX-License-Identifier: MIT
"""Processes of tests/fleet as nodes of a fleet, and what they were let pass.

    nodes = Nodes(url, "egress", "1k/s algo=quota", 4, "--for", "5000")
    nodes.wait()
    windows(nodes.taken(), begins)     # units that passed between one begin and the next

    with Place(url, "egress", "1k/s algo=quota") as place:
        place.ask("take 2")            # {'outcome': 'done', 'units': '20', ...}
"""

import bisect
import os
import queue
import subprocess
import threading
import time

from judge import Take

BUILD = os.environ.get("WEIR_BUILD", "")
PATIENCE_S = 60


def program(name):
    return os.path.join(BUILD, "tests", name)


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wall_offset_ns():
    """What to add to a wall clock reading of this machine to get its CLOCK_BOOTTIME."""
    return min((boot_ns() - time.time_ns() for _ in range(100)), key=abs)


def lines_of(said, kind):
    """The words of the whole lines of that kind."""
    return [line.split() for line in said if line.startswith(kind + " ") and line.endswith("\n")]


def take_of(words, node=0):
    """Of a line of node.c."""
    _, ns, units, _epoch, until, since = words
    return Take(int(ns), int(units), int(until), int(since), node)


def pass_enough(attempt, least):
    """Calls it until it gives at least so many units that passed. It checks the law each time; but nodes that a busy machine
    keeps from asking let nothing pass, so what is too little has to be so four times."""
    passed = []
    while len(passed) < 4:
        passed.append(attempt())
        if passed[-1] >= least:
            return
    raise AssertionError(f"at least {least} should have passed, and it was {passed}")


class Nodes:
    """So many processes that take; each may be killed or stopped: self.processes."""

    def __init__(self, url, name, limit, count, *arguments, prefix=None):
        self.processes = []
        self.said = []
        self.readers = []
        for i in range(count):
            command = [program("fleet-node"), url, name, limit, "--seed", str(i + 1), *arguments]
            self.start(command, (prefix or [[]] * count)[i])

    def start(self, command, prefix=()):
        process = subprocess.Popen([*prefix, *command], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        said = []
        reader = threading.Thread(target=lambda: said.extend(process.stdout), daemon=True)
        reader.start()
        self.processes.append(process)
        self.said.append(said)
        self.readers.append(reader)

    def wait(self, timeout=60):
        try:
            for process in self.processes:
                process.wait(timeout)
            for reader in self.readers:
                reader.join(PATIENCE_S)
        finally:
            self.close()
        return [process.returncode for process in self.processes]

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()

    def lines(self, kind):
        return [words for said in self.said for words in lines_of(said, kind)]

    def taken(self):
        """In order of time."""
        return sorted(take_of(line, i) for i, said in enumerate(self.said) for line in lines_of(said, "T"))

    def stats(self):
        return [dict(word.split("=") for word in line[1:]) for line in self.lines("S")]


def windows(taken, begins):
    """Units from each begin (ns, CLOCK_BOOTTIME) to the next; [0] is what passed before the first. Without those of which
    nobody knows on which side they passed: a node may be stopped for any time before it reads the clock."""
    sums = [0] * (len(begins) + 1)
    for take in taken:
        first, last = bisect.bisect_right(begins, take.since), bisect.bisect_right(begins, take.ns)
        if first == last:
            sums[first] += take.units
    return sums


class Place:
    """A coordinator that is asked by hand: tests/fleet/place.c."""

    def __init__(self, url, name, limit):
        self.process = subprocess.Popen([program("fleet-place"), url, name, limit], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
        self.lines = queue.Queue()
        self.heard = []
        self.complaint = ""  # on standard error, once it is closed
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def __enter__(self):
        self.until("ready")
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:  # it has ended by itself
                pass
        if self.process.poll() is None:
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.reader.join(PATIENCE_S)
        self.process.stdout.close()
        if not self.process.stderr.closed:
            self.complaint = self.process.stderr.read()
            self.process.stderr.close()
        return self.process.returncode

    def until(self, *beginnings, timeout=PATIENCE_S):
        """The next line that begins so. What came before it is in self.heard."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self.lines.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"nothing of {beginnings}; heard {self.heard[-5:]}") from None
            if line is None:
                raise EOFError(self.process.stderr.read())
            self.heard.append(line)
            if line.startswith(beginnings):
                return line

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line, timeout=PATIENCE_S):
        self.send(line)
        return self.reply(timeout)

    def reply(self, timeout=PATIENCE_S):
        said = self.until("reply ", "quota ", timeout=timeout)
        if said.startswith("quota failed "):
            return {"failed": said[len("quota failed "):]}
        words, _, note = said.partition(" note=")
        fields = dict(word.split("=", 1) for word in words.split() if "=" in word)
        return dict(fields, note=note)

    def ask_until(self, line, outcome="done", timeout=PATIENCE_S):
        """Again and again, until it is so."""
        deadline = time.monotonic() + timeout
        while True:
            said = self.ask(line)
            if said["outcome"] == outcome:
                return said
            if time.monotonic() > deadline:
                raise TimeoutError(f"{line}: {said}")
            time.sleep(0.02)
