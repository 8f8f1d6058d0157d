# SPDX-License-Identifier: MIT
"""What all nodes of a fleet were let pass, held against the law of a bucket: in any interval [x, y] at most
B + R*(y - x), whoever took it and whatever the coordinator thinks.

Of a take it is known that it was decided between `since` and `ns` (judge.py). It counts for [x, y] if both lie in
there, so whatever is accused is over for sure. Only intervals from the `since` of a take to the `ns` of one need a
look: any other has a shorter one in it with the same takes.

All of it is in whole numbers, units times the period of the rate: one unit too many is seen, and B + R*t is not.
"""

import bisect
from typing import NamedTuple

NEVER = -(1 << 200), 0


class Law(NamedTuple):
    burst: int
    count: int      # R: so many
    period_ns: int  # in this time

    def twice(self):
        return self._replace(burst=2 * self.burst, count=2 * self.count)

    def drain_ns(self):
        """In which a burst comes in: nothing that was granted lives for longer, nor starts later."""
        return self.burst * self.period_ns // self.count


class Interval(NamedTuple):
    above: int  # units above the bound, times the period; 0 or below: it is kept
    begin: int
    end: int
    law: Law

    def units(self):
        return self.above / self.law.period_ns

    def bound(self):
        return self.law.burst + self.law.count * (self.end - self.begin) / self.law.period_ns

    def __str__(self):
        return (f"{self.units():+.1f} units in {(self.end - self.begin) / 1e6:.1f} ms from {self.begin} on, "
                f"bound {self.bound():.1f}")


def worst(takes, law):
    """The interval that is farthest above the bound, or nearest to it; None: nothing was taken.

    Takes enter in the order of their ends. The tree has them in the order of their beginnings: each of its nodes has
    the units that have entered below it, and the beginning x of one of them from which on they, less what has come in
    until then, are most. So the root has the best x for each end."""
    takes = sorted(takes, key=lambda take: take.since)
    size = 1 << max(0, len(takes) - 1).bit_length()
    units, best, found = [0] * (2 * size), [NEVER] * (2 * size), None
    for i in sorted(range(len(takes)), key=lambda i: takes[i].ns):
        at, take = size + i, takes[i]
        units[at] = take.units * law.period_ns
        best[at] = units[at] + law.count * take.since, take.since
        while at > 1:
            at //= 2
            left, right = 2 * at, 2 * at + 1
            units[at] = units[left] + units[right]
            best[at] = max((best[left][0] + units[right], best[left][1]), best[right])
        above = best[1][0] - law.count * take.ns - law.burst * law.period_ns
        if found is None or above > found.above:
            found = Interval(above, best[1][1], take.ns, law)
    return found


class BucketVerdict:
    """`doubled`: (from, to) in which there were two coordinators, a bucket each. What they gave out may start and live
    for a burst longer. Such a stretch is judged for itself, by twice the law; those between two of them by the law."""

    def __init__(self, law, takes, faults=(), doubled=()):
        self.law, self.takes, self.faults = law, sorted(takes), sorted(faults)
        self.wrong = [f"node {take.node} spent {take.units} after their end: between {take.since} and {take.ns}, end "
                      f"{take.until}" for take in takes if take.until and take.since >= take.until]
        self.begin = min((take.since for take in takes), default=0)
        self.end = max((take.ns for take in takes), default=0)
        doubled = [(start, end + 2 * law.drain_ns()) for start, end in doubled]
        self.single = self.judge(self.between(doubled), law)
        self.double = self.judge(doubled, law.twice())
        self.over = [one for one in self.single + self.double if one.above > 0]

    def judge(self, stretches, law):
        found = (worst(self.within(start, end), law) for start, end in stretches)
        return [one for one in found if one]

    def within(self, start, end):
        first, last = (bisect.bisect(self.takes, edge) for edge in ((start,), (end + 1,)))
        return [take for take in self.takes[first:last] if take.since >= start]

    def between(self, stretches):
        """From the first take to the last, without these."""
        at, found = self.begin, []
        for start, end in sorted(stretches):
            if at < min(start, self.end):
                found.append((at, min(start, self.end)))
            at = max(at, end)
        return [*found, (at, self.end)] if at < self.end else found

    # ---- figures ----

    def say_over(self):
        return [str(one) for one in self.over]

    def worst(self):
        return max(self.single, key=lambda one: one.above, default=None)

    def quiet(self):
        """Stretches without a fault: each begins when a bucket has had the time to fill since the last one."""
        return self.between([(start, end + 2 * self.law.drain_ns()) for start, end in self.faults])

    @staticmethod
    def length(stretches):
        return sum(end - start for start, end in stretches)

    def use(self, stretches):
        """Per cent of R*t."""
        room = self.length(stretches) * self.law.count / self.law.period_ns
        return 100 * sum(take.units for start, end in stretches for take in self.within(start, end)) / (room or 1)
