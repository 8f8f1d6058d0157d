# SPDX-License-Identifier: MIT
"""Limits of a policy with very many keys are changed under load: reload_load.py [KEYS [SECONDS]]

Prints latencies of a steady load without changes and while WEIR.POLICY SET changes the rate again and again, and how
long a change takes. Exit status 1 if a request failed, or a key lost or won units.
"""

import random
import sys
import time

import server
import traffic

KEYS = 10000000
SECONDS = 20.0
RATE = 50000
PIPELINE = 16
BURST = 1000
RATES = f"20/h burst={BURST}", f"10/h burst={BURST}"  # slow: a key stays in use for minutes
LOOKED_AT = 1000  # keys, one by one


class Change:
    def __init__(self, keys, seconds, threads=2):
        self.keys, self.seconds = keys, seconds
        room = keys + keys // 5
        config = (f"memory: {max(room * 48 >> 20, 16) + 256}MiB\n"
                  f"policies: [{{name: big, limits: [{RATES[1]}], keys: {room}}}]\n")
        self.weir = server.Server(config=config, threads=threads)
        self.faults = []
        self.times = []

    def run(self):
        try:
            with self.weir.connect(version=3) as client:
                self.go(client)
            self.weir.stop()
        finally:
            self.weir.clean()
        return self

    def go(self, client):
        filler = traffic.Steady(self.weir, "big", self.keys, 1, pipeline=100, connections=4)
        filler.begin("fill", self.keys)
        filled = filler.end()
        filler.close()
        self.inserted = filled["allowed"]
        if filled["errors"] or self.inserted != self.keys - self.keys % 100:
            self.faults.append(f"not all keys were inserted: {filled}")
        self.fill_seconds = filled["seconds"]
        steady = traffic.Steady(self.weir, "big", self.keys, RATE, pipeline=PIPELINE, connections=8)
        steady.run(min(self.seconds, 2))  # so that what is used first is there
        self.without = steady.run(self.seconds)
        self.change(client, steady)
        self.check(client)
        steady.close()

    def change(self, client, steady):
        end = time.monotonic() + self.seconds
        steady.begin("run", self.seconds)
        while (begin := time.monotonic()) < end or len(self.times) < 2:
            reply = client.ask("WEIR.POLICY", "SET", "big", RATES[len(self.times) % 2])
            self.times.append(time.monotonic() - begin)
            if reply != "OK":
                self.faults.append(reply)
                break
        self.during = steady.end()

    def check(self, client):
        """All is still there: nobody has more than the rate can have brought back."""
        said = traffic.info(client, "weir")["policy_big"]
        if int(said["refused"]) or int(said["errors"]) or self.without["errors"] or self.during["errors"]:
            self.faults.append(f"requests were refused or failed: {said}")
        if int(said["keys"]) < 0.9 * self.inserted:  # it is an estimate, which may be off by 5 %
            self.faults.append(f"{said['keys']} keys are left of {self.inserted}")
        some = random.sample(range(self.inserted), min(self.inserted, LOOKED_AT))
        peeks = client.pipeline(*(("WEIR.PEEK", "big", f"{number:012}") for number in some))
        if full := [number for number, peek in zip(some, peeks) if peek["remaining"] >= BURST]:
            self.faults.append(f"{len(full)} keys of {len(some)} have not spent anything, such as {full[0]}")

    def report(self):
        print(f"keys               {self.inserted}, inserted in {self.fill_seconds:.1f} s")
        print(f"load               {RATE} requests a second in pipelines of {PIPELINE}")
        print(f"without changes    {traffic.shown_us(self.without)}  most {self.without['max_us'] / 1000:.3f} ms")
        print(f"with changes       {traffic.shown_us(self.during)}  most {self.during['max_us'] / 1000:.3f} ms")
        print(f"changes            {len(self.times)}, each {min(self.times):.2f} to {max(self.times):.2f} s")
        print(f"p99.99             {self.during['p9999_us'] / self.without['p9999_us']:.2f} times that without changes")
        for fault in self.faults:
            print(f"FAULT  {fault}")


def main():
    try:
        keys = int(sys.argv[1]) if len(sys.argv) > 1 else KEYS
        seconds = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    except ValueError:
        sys.exit("usage: reload_load.py [KEYS [SECONDS]]")
    done = Change(keys, seconds).run()
    done.report()
    sys.exit(1 if done.faults else 0)


if __name__ == "__main__":
    main()
