#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A short round of script/soak: every command, every change, clients that come and go; flat, and all is counted."""

import unittest

import server
import soak


class ShortSoak(unittest.TestCase):
    def test_a_short_round(self):
        done = soak.Soak(6, "--memory", "64MiB").run()
        self.assertTrue(done.verdict(), "\n".join([f"seed {done.seed}", *done.faults]))
        self.assertGreater(done.replies, 1000)


if __name__ == "__main__":
    server.main()
