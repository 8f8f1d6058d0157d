#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A short round of script/abuse: others do nothing or do harm, a bystander loses nothing and all is counted."""

import unittest

import abuse
import server


class Abuse(unittest.TestCase):
    def test_a_short_round(self):
        self.check()

    def test_a_short_round_by_http(self):
        self.check(http=True)

    def test_a_short_round_by_tls(self):
        self.check(reasons=("did not finish the TLS handshake", "does not read its answers", "wrong version number"),
                   most=20480, seconds=3, tls=True)

    def check(self, reasons=("half a request and no more", "does not read its answers"), most=4096, seconds=6,
              **kind):
        done = abuse.Round(seconds, 500, 50, "--stuck-ms", "1000", "--login-timeout-ms", "1000", wanted=reasons, **kind).run()
        done.report()
        self.assertEqual(done.faults, [], f"seed {done.seed}")
        self.assertLess(done.figures["idle bytes"], most)
        self.assertLess(done.figures["abuse bytes"], 64 << 20)
        self.assertLess(done.figures["memory after"], 128 << 20)
        self.assertLessEqual(set(reasons), set(done.reasons()))


if __name__ == "__main__":
    server.main()
