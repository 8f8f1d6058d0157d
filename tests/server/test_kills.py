#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A short round of script/kill-loop: a server that is killed under load keeps what it has answered, in every mode."""

import unittest

import kill_loop
import server

KILLS = 24
KILLS_BY_HTTP = 12


class Kills(unittest.TestCase):
    def test_a_short_round(self):
        done = kill_loop.KillLoop(KILLS).run()
        done.report()
        self.assertGreaterEqual(done.kills, KILLS)
        self.assertGreater(done.acks, 1000)

    def test_a_short_round_by_http(self):
        done = kill_loop.KillLoop(KILLS_BY_HTTP, http=True).run()
        done.report()
        self.assertGreaterEqual(done.kills, KILLS_BY_HTTP)
        self.assertGreater(done.acks, 500)


if __name__ == "__main__":
    server.main()
