# SPDX-License-Identifier: MIT
"""Power cuts with a real kernel: power_cut.py [CUTS], 50 by default. Needs root, for a loop device with ext4.

A server works on a disk of its own, under load. At a moment drawn by lot it is stopped, and what the disk has is copied:
what the kernel has not written by then is lost, as it is when the power goes. The copy is mounted, another server starts
on it, and is compared with what was answered (acks.py). With `always` all of it has to be there, with `everysec` what is
older than 1.0 s. Then the first one goes on, is killed, or ends, until the next cut. Exit status 1 if something is
missing. Prints its seed; WEIR_SEED=N repeats what is asked, if not the moments.
"""

import os
import random
import signal
import sys
import time

import acks
import loop_disk
import server

CUTS = 50
MEGABYTES = 128
MODES = ("always", "everysec")
LOSS_SECONDS = {"always": None, "everysec": 1.0}
LOAD_SECONDS = {"always": (0.05, 0.5), "everysec": (0.3, 1.6)}
CUTS_OF_A_LIFE = 3
CUTS_OF_A_DISK = 12


class PowerCut:
    def __init__(self, cuts, seed=None):
        self.cuts = cuts
        self.seed = int(os.environ.get("WEIR_SEED", seed or random.SystemRandom().randrange(1 << 32)))
        self.rng = random.Random(self.seed)
        self.done = dict.fromkeys(MODES, 0)
        self.lost = dict.fromkeys(MODES, 0)
        self.oldest = dict.fromkeys(MODES, 0.0)  # answer that was lost, in seconds before the cut
        self.acks = 0
        self.seconds = 0.0

    def count(self):
        return sum(self.done.values())

    def run(self):
        begin = time.monotonic()
        while self.count() < self.cuts:
            with loop_disk.LoopDisk(MEGABYTES) as disk:
                self.use_up(disk)
        self.seconds = time.monotonic() - begin
        return self

    def use_up(self, disk):
        book = acks.Book(self.rng)
        last = min(self.count() + CUTS_OF_A_DISK, self.cuts)
        mode = self.rng.choice(MODES)
        while self.count() < last:
            mode = MODES[1 - MODES.index(mode)]
            self.live(disk, mode, book, min(self.rng.randint(1, CUTS_OF_A_LIFE), last - self.count()))
        self.acks += book.acks

    def serve(self, disk, mode):
        return server.Server("--data", os.path.join(disk.path, "data"), "--fsync", mode, config=acks.CONFIG)

    def live(self, disk, mode, book, cuts):
        weir = self.serve(disk, mode)
        try:
            book.look(weir, adopt=True)
            load = acks.Load(book, weir)
            for _ in range(cuts):
                load.run(self.rng.uniform(*LOAD_SECONDS[mode]))
                if load.gone:
                    raise acks.Fault("it has closed its connections")
                self.cut(disk, weir, mode, load)
            if self.rng.random() < 0.5:
                weir.signal(signal.SIGTERM)
            else:
                weir.process.kill()
            load.run(server.PATIENCE)
            load.close()
            weir.wait()
        except acks.Fault as fault:
            raise acks.Fault(f"seed {self.seed}, cut {self.count()}, {mode}: {fault}\nthe server said:\n" +
                             "\n".join(weir.lines)) from None
        finally:
            weir.clean()

    def cut(self, disk, weir, mode, load):
        loss = LOSS_SECONDS[mode]
        weir.signal(signal.SIGSTOP)
        moment = time.monotonic()
        load.take_in()  # what was sent before that was answered
        with disk.cut() as other:
            weir.signal(signal.SIGCONT)
            self.done[mode] += 1
            again = self.serve(other, mode)
            try:
                lost, since = load.book.look(again, until=None if loss is None else moment - loss)
                self.lost[mode] += lost
                self.oldest[mode] = max(self.oldest[mode], moment - since if lost else 0)
            except acks.Fault as fault:
                raise acks.Fault(f"{fault}\nwhat was started on the copy said:\n" + "\n".join(again.lines)) from None
            finally:
                again.process.kill()
                again.wait()
                again.clean()

    def report(self):
        modes = "; ".join(f"{mode}: {self.done[mode]} cuts, {self.lost[mode]} units lost, the oldest answered "
                          f"{self.oldest[mode]:.2f} s before" for mode in MODES)
        print(f"{self.acks} answers; {modes}; {self.count() / self.seconds:.1f} cuts/s; seed {self.seed}")


def main():
    if len(sys.argv) > 2 or not all(word.isdecimal() and int(word) > 0 for word in sys.argv[1:]):
        sys.exit("usage: [WEIR_SEED=N] power_cut.py [CUTS]")
    loop_disk.need_root()
    power = PowerCut(int(sys.argv[1]) if len(sys.argv) > 1 else CUTS)
    print(f"seed {power.seed}", flush=True)
    try:
        power.run().report()
    except acks.Fault as fault:
        sys.exit(str(fault))


if __name__ == "__main__":
    main()
