#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A real kernel and a disk of its own: a few cuts of script/power-cut, a disk that is full, one that is read-only."""

import json
import os
import random
import subprocess
import time
import unittest

import acks
import loop_disk
import power_cut
import server

NOT_TAKEN = "^UNAVAILABLE the disk does not take anything"
BEARS = NOT_TAKEN + ("|^(ERR|UNAVAILABLE) (image-|.*(No space left on device|Read-only file system|Input/output error|"
                     "did not take it in time))")


class Cuts(unittest.TestCase):
    def test_a_few_cuts(self):
        power = power_cut.PowerCut(4).run()
        power.report()
        self.assertEqual(power.lost["always"], 0)


class Trouble(unittest.TestCase):
    """Whatever the disk does, what was answered is there, and what cannot be kept is not answered."""
    maxDiff = None

    def setUp(self):
        self.seed = int(os.environ.get("WEIR_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"seed {self.seed}")
        self.disk = loop_disk.LoopDisk(power_cut.MEGABYTES)
        self.addCleanup(self.disk.close)
        self.book = acks.Book(random.Random(self.seed))

    def serve(self, mode):
        weir = server.Server("--data", os.path.join(self.disk.path, "data"), "--fsync", mode, config=acks.CONFIG)
        self.addCleanup(weir.clean)
        return weir

    def begin(self, mode):
        weir = self.serve(mode)
        load = acks.Load(self.book, weir, bears=BEARS)
        self.addCleanup(load.close)
        load.run(0.2)
        client = weir.connect(version=3)
        self.addCleanup(client.close)
        return weir, load, client

    def persistence(self, client):
        return dict(line.split(":", 1) for line in client.ask("INFO", "persistence").splitlines() if ":" in line)

    def until_ill(self, load, client, worsen):
        """Until nothing is acknowledged any more. What is still there, or put aside for this, is used up first."""
        end = time.monotonic() + server.PATIENCE
        while time.monotonic() < end:
            worsen()
            before = self.book.changes()
            load.run(0.2)
            told = self.persistence(client)
            if told["store_status"] == "ill" and self.book.changes() == before:
                return told
        raise AssertionError(f"units are still allowed: {told}")

    def until_refused(self, load, client, worsen):
        """The same, until it lasts: what an attempt to get well frees may be enough for a while. Keys and policies are
        none of the book's."""
        asked = ("WEIR.TAKE", "day", "beside"), ("WEIR.POLICY", "SET", "beside", "1/s")
        for _ in range(20):
            told = self.until_ill(load, client, worsen)
            answers = [client.ask(*words) for words in asked]
            if all(isinstance(answer, str) and "does not take anything" in answer for answer in answers):
                self.assertRegex(answers[0], NOT_TAKEN)
                return told
        raise AssertionError(f"something is still done: {answers}")

    def look_ill(self, weir, client, told, why):
        self.assertRegex(told["store_error"], why)
        self.assertEqual(told["aof_last_write_status"], "err")
        weir.wait_line("event=store-ill")
        self.assertEqual(client.ask("PING"), "PONG")
        self.assertIn("remaining", client.ask("WEIR.PEEK", "day", "k0"))

    def until_well(self, weir, client):
        """Perhaps an image had made room before the disk was freed: so what it says of itself counts."""
        weir.wait_line("event=store-well")
        end = time.monotonic() + server.PATIENCE
        while self.persistence(client)["store_status"] != "ok":
            self.assertLess(time.monotonic(), end, "\n".join(weir.lines))
            time.sleep(0.02)

    def look(self, mode):
        weir = self.serve(mode)
        try:
            self.book.look(weir, adopt=True)
        except acks.Fault as fault:
            raise AssertionError(f"seed {self.seed}: {fault}\n" + "\n".join(weir.lines)) from None

    def doctor(self):
        done = subprocess.run([server.WEIR, "doctor", "--json", os.path.join(self.disk.path, "data")],
                              capture_output=True, text=True, timeout=server.PATIENCE, env=server.environment(),
                              stdin=subprocess.DEVNULL, check=False)
        return json.loads(done.stdout)

    def end(self, weir, load):
        weir.process.kill()
        weir.wait()
        load.run(1)

    def fill_and_free(self, mode):
        weir, load, client = self.begin(mode)
        for _ in range(2):
            told = self.until_refused(load, client, self.disk.fill)
            self.look_ill(weir, client, told, "No space left on device")
            self.disk.free()
            self.until_well(weir, client)
            load.finish()
            before, end = self.book.changes(), time.monotonic() + server.PATIENCE
            while self.book.changes() == before and time.monotonic() < end:
                load.run(0.1)
            self.assertGreater(self.book.changes(), before)
        self.end(weir, load)
        self.look(mode)

    def test_a_full_disk_always(self):
        self.fill_and_free("always")

    def test_a_full_disk_everysec(self):
        self.fill_and_free("everysec")

    def test_a_full_disk_and_a_kill(self):
        weir, load, client = self.begin("never")
        self.until_ill(load, client, self.disk.fill)
        self.end(weir, load)
        self.book.holes = True
        self.disk.free()
        self.look("never")

    def test_a_start_on_a_full_disk(self):
        weir, load, _ = self.begin("everysec")
        self.end(weir, load)
        self.disk.fill()
        try:
            self.end(self.serve("everysec"), load)  # there may be a block left for it
        except AssertionError as refusal:
            self.assertRegex(str(refusal), "No space left on device")
        self.disk.free()
        self.book.holes = self.doctor()["holes"]
        self.look("everysec")

    def test_a_file_system_that_became_read_only(self):
        weir, load, client = self.begin("always")
        self.disk.break_off()
        told = self.until_refused(load, client, lambda: None)
        self.look_ill(weir, client, told, "Read-only file system|Input/output error")
        self.end(weir, load)
        self.book.holes = True
        self.disk.unmount()
        self.disk.repair()
        self.disk.mount()
        self.look("always")


if __name__ == "__main__":
    loop_disk.need_root()
    loop_disk.need_loops()
    server.main()
