#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/protocol.md is right: every example is run and every command is described.

A block ```weir holds lines "> COMMAND", each followed by the reply as redis-cli -3 prints it. For every block a server
is started anew, with the configuration that the document shows as ```yaml, on a test clock that stands at 0.
Numbers of reservations differ from run to run; the document's are replaced by those that the server gave.

usage: test_protocol.py            the tests
       test_protocol.py --write    puts the replies of the server into the document, to be read before they are kept
"""

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
import unittest

import server

DOCUMENT = server.ROOT / "docs" / "protocol.md"
BLOCK = re.compile(r"^```weir\n(.*?)^```$", re.M | re.S)
CONFIG = re.compile(r"^```yaml\n(.*?)^```$", re.M | re.S)
NUMBER = re.compile(r'"id" => "([0-9a-f]+)-\d+"')
SETTLE = re.compile(r"^WEIR\.(?:COMMIT|CANCEL) ([0-9a-f]+)-\d+")
CLI = shutil.which("redis-cli")


def read_examples(block):
    """[(command, lines of its reply)]"""
    examples = []
    for line in block.splitlines():
        if line.startswith("> "):
            examples.append((line[2:], []))
        elif line and examples:
            examples[-1][1].append(line)
    return examples


def run_cli(port, lines):
    """What redis-cli prints for these lines, typed one after the other on one connection."""
    done = subprocess.run([CLI, "-3", "--no-raw", "-p", str(port)], input="\n".join(lines) + "\n", text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=server.PATIENCE,
                          env=server.environment())
    return done.stdout


def split_replies(text, count):
    """Behind each reply stands the answer to an ECHO."""
    replies = []
    for number in range(count):
        reply, mark, text = text.partition(f'"end of {number}"\n')
        if not mark:
            raise AssertionError(f"reply {number} has no end: {reply!r}")
        # Of what took half a second, redis-cli tells how long it took.
        replies.append([line.rstrip() for line in reply.splitlines()
                        if line.strip() and not re.fullmatch(r"\(\d+\.\d\ds\)", line.strip())])
    return replies


def own_number(text, commands):
    """The part of reservations' numbers that the document made up, and the one of this server."""
    written = next(filter(None, map(SETTLE.match, commands)), None)
    given = NUMBER.search(text)
    return (written.group(1), given.group(1)) if written and given else None


def run_block(weir, examples):
    """The replies to all of them, with the document's numbers of reservations."""
    def lines(commands):
        return [line for number, command in enumerate(commands) for line in (command, f'ECHO "end of {number}"')]

    commands = [command for command, _ in examples]
    first = next((at for at, (command, _) in enumerate(examples) if command.startswith("WEIR.RESERVE")), None)
    if first is None:
        return split_replies(run_cli(weir.port, lines(commands)), len(commands))
    text = run_cli(weir.port, lines(commands[:first + 1]))
    replies, rest = split_replies(text, first + 1), commands[first + 1:]
    numbers = own_number(text, commands)
    if numbers:
        written, given = numbers
        rest = [command.replace(written + "-", given + "-") for command in rest]
    replies += split_replies(run_cli(weir.port, lines(rest)), len(rest))
    if numbers:
        replies = [[line.replace(given + "-", written + "-") for line in reply] for reply in replies]
    return replies


def read_document():
    return DOCUMENT.read_text(encoding="utf-8")


def start(document):
    return server.Server("--test-clock", config=CONFIG.search(document).group(1), threads=1)


@unittest.skipUnless(CLI, "there is no redis-cli")
class Examples(unittest.TestCase):
    maxDiff = None

    def test_every_example_is_answered_to_the_letter(self):
        document = read_document()
        blocks = BLOCK.findall(document)
        count = 0
        for number, block in enumerate(blocks):
            examples = read_examples(block)
            weir = start(document)
            try:
                replies = run_block(weir, examples)
            finally:
                weir.stop()
            for (command, expected), reply in zip(examples, replies):
                with self.subTest(block=number, command=command):
                    self.assertEqual(reply, expected)
                count += 1
        self.assertGreaterEqual(count, 40)
        print(f"# {count} examples in {len(blocks)} blocks")


class Descriptions(server.ServerTest):
    def ask(self, *words):
        if not hasattr(self, "client"):
            self.client = self.start("--test-clock").connect(version=3)
            self.addCleanup(self.client.close)
        return self.client.ask(*words)

    def test_every_command_stands_in_the_document(self):
        document = read_document()
        missing = []
        for name, docs in self.ask("COMMAND", "DOCS").items():
            if f"`{name.upper()}" not in document and f"### {name.upper()}" not in document:
                missing.append(name)
            for part in docs.get("subcommands", {}):
                parent, word = part.upper().split("|")
                if word != "HELP" and not re.search(rf"{re.escape(parent)}[^\n]*\b{re.escape(word)}\b", document):
                    missing.append(part)
        self.assertEqual(missing, [])

    def test_every_command_has_docs(self):
        docs = self.ask("COMMAND", "DOCS")
        self.assertEqual(sorted(docs), sorted(self.ask("COMMAND", "LIST")))
        self.assertEqual(len(docs), self.ask("COMMAND", "COUNT"))
        for name, doc in docs.items():
            for one, part in [(name, doc)] + list(doc.get("subcommands", {}).items()):
                with self.subTest(command=one):
                    self.assertTrue(part["summary"])
                    self.assertFalse(part["summary"].endswith("."))
                    self.assertRegex(part["since"], r"^\d+\.\d+\.\d+$")
                    self.assertTrue(part["group"])
            if name.startswith("weir."):
                self.assertEqual(doc["group"], "weir")

    def test_examples_of_the_table_are_known(self):
        """Whatever the document shows as a command is one."""
        names = set(self.ask("COMMAND", "LIST"))
        for block in BLOCK.findall(read_document()):
            for command, reply in read_examples(block):
                if not (reply and reply[0].startswith("(error) ERR unknown command")):
                    self.assertIn(command.split()[0].lower(), names)


class Terminal:
    """redis-cli as a person has it before him."""

    def __init__(self, *arguments):
        self.seen = ""
        self.screen, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 240, 0, 0))
        self.process = subprocess.Popen([CLI, *arguments], stdin=inside, stdout=inside, stderr=inside,
                                        start_new_session=True,
                                        env=server.environment(TERM="xterm", HOME="/nonexistent"))
        os.close(inside)

    def type(self, text):
        self.seen = ""
        os.write(self.screen, text.encode())

    def wait(self, pattern):
        """Until something like this stands there, without colours and movements."""
        deadline = time.monotonic() + server.PATIENCE
        while True:
            plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", self.seen)
            if re.search(pattern, plain):
                return plain
            if not select.select([self.screen], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"nothing like {pattern!r} in {plain!r}")
            self.seen += os.read(self.screen, 65536).decode("utf-8", "replace")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.screen)


@unittest.skipUnless(CLI, "there is no redis-cli")
class RedisCli(server.ServerTest):
    def open(self, *arguments):
        terminal = Terminal("-p", str(self.start().port), *arguments)
        self.addCleanup(terminal.close)
        return terminal

    def test_hints_and_help_come_from_command_docs(self):
        terminal = self.open()
        terminal.wait(r"\d> $")
        terminal.type("WEIR.TAKE ")
        terminal.wait(r"WEIR\.TAKE policy key \[n\] \[AND policy key \[n\].*\] \[ID request-id\]")
        terminal.type("\x15WEIR.POLICY MODE ")
        terminal.wait(r"MODE name\|\* enforce\|shadow\|disabled \[PERCENT percent\] \[FOR time\]")
        terminal.type("\x15help weir.take\r")
        terminal.wait(r"since: \d+\.\d+\.\d+\s+group: weir\s+\S+\d> $")  # it reads again
        terminal.type("\x15help @weir\r")
        self.assertIn("WEIR.OVERRIDE SET", terminal.wait(r"WEIR\.TOP"))

    def test_stat_prints_numbers(self):
        terminal = self.open("--stat")
        lines = terminal.wait(r"\n\s*\d+ +[\d.]+[KMG] +1 +0 +\d+ \(\+\d+\) +\d+ ")
        self.assertNotIn("-9223372036854775808", lines)


def write():
    document = read_document()

    def fill(match):
        examples = read_examples(match.group(1))
        weir = start(document)
        try:
            replies = run_block(weir, examples)
        finally:
            weir.stop()
        parts = ["\n".join([f"> {command}"] + reply) + "\n" for (command, _), reply in zip(examples, replies)]
        return "```weir\n" + "".join(parts) + "```"

    DOCUMENT.write_text(BLOCK.sub(fill, document), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        server.main()
