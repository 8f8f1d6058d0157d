# SPDX-License-Identifier: MIT
"""A server with a data directory that is killed again and again: kill_loop.py [--http] [CYCLES], 500 by default.

Each cycle starts `weir serve --data` on what the one before has left, compares it with what was answered (acks.py),
loads it with everything that changes something, and kills it with SIGKILL at a moment drawn by lot: while it decides,
writes images or changes policies, or before it is ready. The three modes of fsync take turns on the same directory.
Exit status 1 if an answer was lost, or counted twice. Prints its seed; WEIR_SEED=N repeats what is asked, if not the
moments. With --http the load comes by HTTP, in single requests and in batches; what was kept is asked for by the Redis
protocol.
"""

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

import acks
import server

CYCLES = 500
CYCLES_OF_A_DIRECTORY = 50
MODES = ("always", "everysec", "never")
LOAD_SECONDS = 0.25  # at the most
EARLY = 0.2  # of the kills come before it is ready


class KillLoop:
    def __init__(self, cycles, seed=None, http=False):
        self.cycles = cycles
        self.http = http
        self.seed = int(os.environ.get("WEIR_SEED", seed or random.SystemRandom().randrange(1 << 32)))
        self.rng = random.Random(self.seed)
        self.kills = self.early = self.acks = self.voids = self.twice = self.cycle = 0
        self.start_seconds = 0.1  # how long a start takes, as far as is known
        self.seconds = 0.0

    def run(self):
        begin = time.monotonic()
        while self.kills < self.cycles:
            with tempfile.TemporaryDirectory(prefix="weir-kills-") as folder:
                self.use_up(os.path.join(folder, "data"))
        self.seconds = time.monotonic() - begin
        return self

    def use_up(self, data):
        """One directory over many lives; in the end a life that ends well, and one that finds all of it."""
        book = acks.Book(self.rng)
        for _ in range(min(CYCLES_OF_A_DIRECTORY, self.cycles - self.kills)):
            if self.rng.random() < EARLY:
                self.kill_early(data)
            self.live(data, book)
        for last in (False, True):
            with self.start(data) as weir:
                book.look(weir, adopt=not last)
                weir.stop()
        self.examine(data)
        self.acks += book.acks
        self.voids += book.voids
        self.twice += book.twice

    @contextlib.contextmanager
    def start(self, data, **settings):
        self.cycle += 1
        mode = MODES[self.cycle % len(MODES)]
        weir = server.Server("--data", data, "--fsync", mode, config=acks.CONFIG,
                             also=("http",) if self.http else (), **settings)
        try:
            yield weir
        except acks.Fault as fault:
            raise acks.Fault(f"seed {self.seed}, cycle {self.cycle}: {fault}\nthis server said:\n" +
                             "\n".join(weir.lines)) from None
        finally:
            weir.clean()

    def kill_early(self, data):
        with self.start(data, ready=False) as weir:
            try:
                status = weir.process.wait(self.rng.uniform(0, 1.2 * self.start_seconds))
            except subprocess.TimeoutExpired:
                weir.process.kill()
                weir.wait()
                self.early += 1
                self.kills += 1
            else:
                raise acks.Fault(f"it ended by itself with {status}")

    def live(self, data, book):
        begin = time.monotonic()
        with self.start(data) as weir:
            self.start_seconds = 0.8 * self.start_seconds + 0.2 * (time.monotonic() - begin)
            book.look(weir, adopt=True)
            killer = threading.Timer(self.rng.uniform(0, LOAD_SECONDS), weir.process.kill)
            killer.start()
            load = acks.Load(book, weir, http=self.http)
            try:
                load.run(server.PATIENCE)
            finally:
                killer.join()
                weir.wait()
                load.close()
            self.kills += 1

    def examine(self, data):
        done = subprocess.run([server.WEIR, "doctor", data], capture_output=True, text=True, timeout=server.PATIENCE,
                              env=server.environment(), stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise acks.Fault(f"seed {self.seed}: weir doctor\n{done.stdout}{done.stderr}")

    def report(self):
        print(f"{'HTTP: ' if self.http else ''}{self.kills} kills, {self.early} of them before it was ready; {self.acks} answers, none lost; "
              f"{self.voids} settlements and {self.twice} requests with an id cut in two; "
              f"{self.kills / self.seconds:.1f} kills/s; seed {self.seed}")


def main():
    words = [word for word in sys.argv[1:] if word != "--http"]
    if len(words) > 1 or not all(word.isdecimal() and int(word) > 0 for word in words):
        sys.exit("usage: [WEIR_SEED=N] kill_loop.py [--http] [CYCLES]")
    loop = KillLoop(int(words[0]) if words else CYCLES, http="--http" in sys.argv)
    print(f"seed {loop.seed}", flush=True)
    try:
        loop.run().report()
    except acks.Fault as fault:
        sys.exit(str(fault))


if __name__ == "__main__":
    main()
