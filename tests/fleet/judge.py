# SPDX-License-Identifier: MIT
"""What all nodes of a fleet were let pass, held against the windows that the coordinator had, as it tells them itself.

A take is a line of a node (node.c): units, the end that they had, and two readings of the clock around the decision.
Law: a window lasts for its length at least; its units are spent after it began, before their end, and that lies before
the next window begins; and their sum is at most the total of the window. A window whose total is 0 has no units; those
of the one before may live on in it. One with a bound of its own had two coordinators, so that alone counts.

All clocks are CLOCK_BOOTTIME of one machine. `slack_ns` is how exactly the beginnings are known: it decides nothing but
whether a take lies before one or behind it.
"""

import bisect
from typing import NamedTuple

MS = 1_000_000


class Window(NamedTuple):
    begin: int
    total: int
    chunk: int
    bound: int = 0      # what is allowed, where that is more than the total; 0: the total
    length: int = 0     # ns
    writes: int = 0     # that the coordinator counted; 0: not known


class Take(NamedTuple):
    ns: int
    units: int
    until: int  # 0: not known
    since: int
    node: int


class Verdict:
    def __init__(self, windows, takes, slack_ns, faults=()):
        self.windows = sorted(window for window in windows if window.total > 0)
        self.void = len(windows) - len(self.windows)
        self.begins = [window.begin for window in self.windows]
        self.slack = slack_ns
        self.faults = faults  # (from, to) in ns
        self.sums = [0] * len(self.windows)
        self.by_time = [0] * len(self.windows)
        self.wrong = []
        self.astride = self.before = 0  # units that no window can be told for; units of before the first
        for take in takes:
            self.count(take)
        for i, (old, new) in enumerate(zip(self.windows, self.windows[1:])):
            if new.begin - old.begin < old.length - slack_ns and not (old.bound or new.bound):
                self.wrong.append(f"window {i} (begun {old.begin}) ended after {(new.begin - old.begin) / MS:.1f} ms")
        self.over = [i for i in range(len(self.windows)) if max(self.sums[i], self.by_time[i]) > self.bound(i)]

    def bound(self, i):
        return max(self.windows[i].bound, self.windows[i].total)

    def place(self, ns):
        return bisect.bisect_right(self.begins, ns) - 1

    def count(self, take):
        first, last = self.place(take.since - self.slack), self.place(take.ns + self.slack)
        if first == last and first >= 0:
            self.by_time[first] += take.units
        if take.until == 0:
            if first != last or first < 0:
                self.astride += take.units
            else:
                self.sums[first] += take.units
            return
        i = bisect.bisect_left(self.begins, take.until - self.slack) - 1
        if i < 0:
            self.before += take.units
            return
        self.sums[i] += take.units
        window = self.windows[i]
        if take.ns < window.begin - self.slack:
            self.complain(take, i, "before it began")
        if take.since >= take.until:
            self.complain(take, i, "after the end of the units")
        if window.length and take.until > window.begin + window.length + self.slack:
            self.complain(take, i, "with an end behind that of the window")

    def complain(self, take, i, what):
        if self.windows[i].bound:
            return
        self.wrong.append(f"node {take.node} spent {take.units} of window {i} (begun {self.windows[i].begin}) {what}: "
                          f"between {take.since} and {take.ns}, end {take.until}")

    # ---- figures ----

    def say_over(self):
        return [f"window {i}, begun {self.windows[i].begin}: {self.sums[i]} of {self.bound(i)}, by time "
                f"{self.by_time[i]}" for i in self.over]

    def whole(self):
        """Windows that are over, as far as they were used at all."""
        return list(range(len(self.windows) - 1))

    def is_quiet(self, i):
        begin = self.windows[i].begin - self.windows[i].length
        end = self.windows[i + 1].begin
        return not any(start < end and stop > begin for start, stop in self.faults)

    def use(self, which):
        total = sum(self.windows[i].total for i in which)
        return 100 * sum(self.sums[i] for i in which) / total if total else 0.0

    def worst(self):
        """(units above the bound, below 0: under it; the window)"""
        return max(((max(self.sums[i], self.by_time[i]) - self.bound(i), i) for i in range(len(self.windows))),
                   default=(0, 0))
