#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Short rounds of script/soak and script/reload-load: every command, every change, clients that come and go; flat, and
all is counted."""

import unittest

import reload_load
import server
import soak


class Soak(unittest.TestCase):
    def test_a_short_round(self):
        done = soak.Soak(6, "--memory", "64MiB").run()
        self.assertTrue(done.verdict(), "\n".join([f"seed {done.seed}", *done.faults]))
        self.assertGreater(done.replies, 1000)

    def test_changes_under_load(self):
        done = reload_load.Change(100000, 0.7).run()
        done.report()
        self.assertEqual(done.faults, [])
        self.assertGreater(len(done.times), 1)


if __name__ == "__main__":
    server.main()
