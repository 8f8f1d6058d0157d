# SPDX-License-Identifier: MIT
"""What all campaigns of fleet_loop.py have in common: nodes that take, faults drawn by lot, and the judgement.

A fault is a method of the campaign: it does something, and gives what it was and how to undo it. One or two hold at a
time, for a while; then there is peace for a while, so that windows without any are seen, too. The law that is judged is
that of windows; loop_bucket.py has another one."""

import contextlib
import pathlib
import random
import shutil
import tempfile
import time

import network
from crew import Crew, boot_ns
from judge import MS, Verdict

POOL = "egress"


class Campaign:
    kind = ""
    servers = 3
    walls = (0, 1, -1)  # hours by which the wall clock of each server is wrong
    slack_ns = 1 * MS
    two_at_once = 0.25

    def __init__(self, windows, seed, window_s=1, nodes=4, base=10, proxies=False, say=print):
        self.wanted, self.seed, self.window_s, self.nodes, self.base = windows, seed, window_s, nodes, base
        self.total = 100 * nodes * base
        self.rng = random.Random(f"{seed} {self.kind}")
        self.proxies, self.say = proxies, say
        self.faults = []   # (from, to) in ns
        self.counts = {}   # name of a fault -> how often
        self.busy = set()  # what a fault is at: "node 2", "server 0"
        self.net = self.crew = self.folder = None

    # ---- what a campaign has to say ----

    def open(self, stack):
        """Starts the coordinator; gives a URL for each node."""
        raise NotImplementedError

    def windows(self):
        """That were seen so far."""
        raise NotImplementedError

    def choices(self):
        """Methods that are faults; one may be there several times."""
        raise NotImplementedError

    def settle(self):
        """All is well again; waits until it is."""

    def close_books(self):
        """The nodes have ended: the last look at the coordinator."""

    def books(self):
        """What the coordinator itself wrote down, line by line."""
        return self.windows()

    def remarks(self, verdict):
        """More figures."""
        return []

    # ---- the run ----

    @property
    def window_ns(self):
        return int(self.window_s * 1e9)

    def limit(self):
        return f"{self.total}/{int(self.window_s * 1000)}ms algo=quota"

    def machine(self, node):
        """The network's number of a node: the servers come first."""
        return self.servers + node

    def run(self):
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-fleet-")))
            self.net = stack.enter_context(network.make(self.servers + self.nodes, self.proxies))
            urls = self.open(stack)
            prefixes = [self.net.prefix(self.machine(i)) for i in range(self.nodes)]
            walls = [(0, 1, -1)[i % 3] for i in range(self.nodes)]
            self.crew = stack.enter_context(Crew(self.folder, urls, POOL, self.limit(), prefixes, walls, self.seed))
            self.trouble()
            self.crew.finish()
            self.close_books()
            verdict = self.judge()
            line = self.report(verdict, time.monotonic() - began)
            if verdict.over or verdict.wrong:
                self.keep()
        self.say(line, flush=True)
        return verdict

    def keep(self):
        """What all of them wrote down, for whoever wants to know why."""
        (self.folder / "coordinator").write_text("\n".join(map(str, self.books())) + "\n")
        name = shutil.make_archive(str(pathlib.Path(tempfile.gettempdir()) / f"fleet-loop-{self.kind}-{self.seed}"),
                                   "gztar", self.folder)
        self.say(f"{self.kind}: what was written down is in {name}", flush=True)

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.crew.tend()
            time.sleep(min(left, 0.05))

    def trouble(self):
        """Faults until enough windows are over."""
        self.wait(2 * self.window_s)
        deadline = time.monotonic() + 60 + 6 * self.wanted * self.window_s
        seen, told = self.seen_windows(), 0
        while seen <= self.wanted:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{seen} windows only: the fleet stands still")
            self.strike()
            self.wait(self.rng.uniform(0.5, 4) * self.window_s)
            seen = self.seen_windows()
            if seen >= told + 10:
                told = seen
                self.say(f"{self.kind}: {seen} windows, {sum(self.counts.values())} faults", flush=True)
        self.wait(0.2)

    def seen_windows(self):
        return sum(window.total > 0 for window in self.windows())

    def strike(self):
        start, undo, names = boot_ns(), [], []
        for _ in range(2 if self.rng.random() < self.two_at_once else 1):
            fault = self.rng.choice(self.choices())
            done = fault()
            if done is None:  # not now: it is taken up already
                continue
            text, mend = done
            names.append(text)
            undo.append(mend)
            name = fault.__name__.replace("_", " ")
            self.counts[name] = self.counts.get(name, 0) + 1
        if names:
            self.say(f"{self.kind}: {start / 1e9:.3f} {'; '.join(names)}", flush=True)
        self.wait(self.rng.choice((0.3, 0.8, 1.5, 3)) * self.rng.uniform(0.5, 1.5) * self.window_s)
        for mend in reversed(undo):
            if mend:
                mend()
        self.busy.clear()
        self.net.heal()
        self.settle()
        self.faults.append((start, boot_ns()))

    def claim(self, what, count):
        """One that no fault is at, or None."""
        free = [i for i in range(count) if (what, i) not in self.busy]
        if not free:
            return None
        i = self.rng.choice(free)
        self.busy.add((what, i))
        return i

    # ---- faults of nodes, the same for all ----

    def kill_node(self):
        i = self.claim("node", self.nodes)
        if i is None:
            return None
        self.crew.kill9(i)
        return f"node {i} is killed", lambda: self.crew.revive(i)

    def stop_node(self):
        i = self.claim("node", self.nodes)
        if i is None:
            return None
        self.crew.tend()
        self.crew.stop(i)
        return f"node {i} is stopped", lambda: self.crew.cont(i)

    def cut_node(self):
        i = self.claim("node", self.nodes)
        if i is None:
            return None
        others = self.rng.sample(range(self.servers), self.rng.randint(1, self.servers))
        way = self.rng.choice(("both", "in", "out"))
        self.net.cut(self.machine(i), others, way)
        return f"node {i} is cut off from {others} ({way})", None

    # ---- the judgement ----

    def judge(self):
        return Verdict(self.windows(), self.crew.takes(), self.slack_ns, self.faults)

    def report(self, verdict, seconds):
        for text in verdict.wrong[:10]:
            self.say("WRONG: " + text, flush=True)
        for text in verdict.say_over()[:10]:
            self.say("OVER: " + text, flush=True)
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        figures = [*self.figures(verdict), *self.remarks(verdict), f"faults: {faults}", f"{seconds:.0f} s",
                   f"seed {self.seed}"]
        return f"{self.kind}: " + "; ".join(figures)

    def figures(self, verdict):
        whole = verdict.whole()
        quiet = [i for i in whole if verdict.is_quiet(i) and verdict.windows[i].total >= 100 * self.nodes * self.base]
        worst, at = verdict.worst()
        return [f"T {self.total}, c {self.base}, N {self.nodes}, W {self.window_s:g} s",
                f"{len(whole)} windows, {len(verdict.over)} over, {len(verdict.wrong)} takes out of time",
                f"use {verdict.use(quiet):.1f} % of {len(quiet)} windows without a fault, "
                f"{verdict.use(whole):.1f} % of all",
                f"worst {worst:+d} (window {at})",
                f"{verdict.astride} units astride, {verdict.before} before the first"]
