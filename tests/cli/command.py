# SPDX-License-Identifier: MIT
"""Runs the weir command as a person would, and compares what it prints to the letter."""

import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEIR = os.environ.get("WEIR", "")


def environment(**changes):
    """Nothing of the caller's own settings may show in what is printed."""
    base = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    base.update(changes)
    return base


class CommandTest(unittest.TestCase):
    maxDiff = None

    def run_weir(self, *arguments, stdin="", **settings):
        return subprocess.run([WEIR, *arguments], input=stdin, capture_output=True, text=True, encoding="utf-8",
                              env=environment(**settings))

    def check(self, arguments, out="", err="", status=0, stdin="", **settings):
        """Exactly this output, exactly this message, exactly this status."""
        done = self.run_weir(*arguments, stdin=stdin, **settings)
        self.assertEqual(done.stderr, err)
        self.assertEqual(done.stdout, out)
        self.assertEqual(done.returncode, status)

    def output(self, *arguments, stdin="", **settings):
        done = self.run_weir(*arguments, stdin=stdin, **settings)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout


def main():
    """Called by every test file. The command is $WEIR or the first argument."""
    global WEIR
    if not WEIR and len(sys.argv) > 1:
        WEIR = sys.argv.pop(1)
    if not os.access(WEIR, os.X_OK):
        sys.exit(f"cannot run '{WEIR}'; name the weir command as first argument or in $WEIR")
    unittest.main(module="__main__")
