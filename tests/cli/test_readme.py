# SPDX-License-Identifier: MIT
"""What README.md shows is what happens: its weir commands print what stands below them, its program is the
first example."""

import re
import shlex
import unittest

from command import ROOT, CommandTest

README = (ROOT / "README.md").read_text(encoding="utf-8")


def sessions(text):
    """The indented `$ command` lines, each with the indented lines that follow it."""
    for block in re.findall(r"(?:^    .*\n)+", text, re.M):
        for part in re.split(r"^    \$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, re.sub(r"^    ", "", output, flags=re.M)


class Readme(CommandTest):
    def test_commands(self):
        shown = [(c, o) for c, o in sessions(README) if c.startswith("weir ")]
        self.assertGreater(len(shown), 1)
        for command, output in shown:
            with self.subTest(command):
                self.check(shlex.split(command)[1:], output)

    def test_program(self):
        example = (ROOT / "examples/01-first-limit.c").read_text(encoding="utf-8")
        program = re.search(r"```c\n(.*?)```", README, re.S).group(1)
        self.assertEqual(program, example[example.index("#include"):])
        output = [o for c, o in sessions(README) if c.startswith("cc ") and o]
        self.assertEqual(output, [(ROOT / "examples/01-first-limit.out").read_text(encoding="utf-8")])


if __name__ == "__main__":
    unittest.main()
