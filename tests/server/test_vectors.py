#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Commands of other limiters over a socket, byte for byte, with the clock set: the rows of docs/compatible.md."""

import server


def reply(answer):
    """An answer as bytes: an integer, a list of integers, or the text of an error."""
    if isinstance(answer, str):
        return f"-{answer}\r\n".encode()
    if isinstance(answer, int):
        return f":{answer}\r\n".encode()
    return f"*{len(answer)}\r\n".encode() + b"".join(reply(one) for one in answer)


INTEGER = "Value is not an integer or out of range"
SYNTAX = "Syntax error"


def arity(command):
    return f"Wrong number of arguments for '{command}' command"


class Vectors(server.ServerTest):

    def setUp(self):
        self.client = self.start("--test-clock").connect()
        self.addCleanup(self.client.close)

    def clock(self, seconds):
        self.assertEqual(self.client.ask("WEIR.CLOCK", "SET", round(seconds * 1000)), "OK")

    def says(self, line, answer):
        """The reply has exactly these bytes: the one behind it follows at once."""
        wanted = reply(answer)
        self.client.raw(server.encode(*line.split()) + server.encode("ECHO", "end"))
        got = self.client.exactly(len(wanted))
        self.assertEqual(got, wanted, line)
        self.assertEqual(self.client.read(), "end", line)


class Smyte(Vectors):

    def test_s3(self):
        for tokens in (2, 1, 0, 0):
            self.says("RL.REDUCE twoPerMin 2 60", tokens)
        self.clock(59.999)
        self.says("RL.REDUCE twoPerMin 2 60", 0)
        self.clock(60)
        self.says("RL.REDUCE twoPerMin 2 60", 2)

    def test_s5(self):
        """Seen from outside: which bucket is asked, how much is taken, when it comes back."""
        self.says("rl.reduce abc 10 500 REFILL 5 take 2 at 1005", 10)
        self.says("RL.PGET abc 10 500000 REFILL 5 AT 1005000", 8)
        self.says("RL.PGET abc 10 500000 REFILL 5 AT 1504999", 8)
        self.says("RL.PGET abc 10 500000 REFILL 5 AT 1505000", 10)
        self.says("rl.preduce abc 20 500 at 1005 take 2", 20)
        self.says("RL.PGET abc 20 500 REFILL 20 AT 1504", 18)
        self.says("RL.PGET abc 20 500 AT 1505", 20)
        self.says("rl.reduce abc 20 700 STRICT at 3005 REFILL 4", 20)
        self.says("RL.GET abc 20 700 REFILL 4 AT 3005", 19)
        self.says("rl.reduce abc 3 9 take 1 TAKE 2 at 5", 3)
        self.says("rl.get abc 3 9 refill 9 REFILL 3 at 13", arity("rl.get"))
        self.says("rl.get abc 3 9 at 1 At 13", 1)
        self.says("rl.get abc 3 9 refill 9 REFILL 3 strict", 1)
        self.says("rl.get abc 3 9 at 14", 3)

    def test_s6(self):
        for line, error in (
                ("rl.get abc 10 abc", INTEGER),
                ("rl.pget abc 0 60", INTEGER),
                ("rl.reduce abc 10 60 refill strict 1", INTEGER),
                ("rl.pget abc 0 60 take 2", SYNTAX),
                ("rl.reduce abc 10 60 refill", SYNTAX),
                ("rl.preduce abc 10 60 refill 1 strict abc", SYNTAX),
                ("rl.reduce abc 10", arity("rl.reduce")),
                ("rl.reduce abc 10 2147483648", INTEGER),
                ("rl.get abc 10 60 refill 1 at 1 strict at 2", arity("rl.get"))):
            self.says(line, error)

    def test_s8(self):
        self.says("RL.REDUCE k 10 60 TAKE 4", 10)
        self.says("RL.REDUCE k 10 60 TAKE 7", 6)
        self.says("RL.GET k 10 60", 0)

    def test_s9(self):
        self.says("RL.REDUCE k 10 60", 10)
        self.says("RL.REDUCE k 10 60 REFILL 1", 10)
        self.says("RL.REDUCE k 11 60", 11)
        self.says("RL.PREDUCE k 10 60000", 9)

    def test_s10(self):
        self.says("RL.REDUCE k 10 5 REFILL 1 TAKE 10 AT 100", 10)
        self.says("RL.GET k 10 5 REFILL 1 AT 50", 0)
        self.says("RL.GET k 10 5 REFILL 1 AT 104", 0)
        self.says("RL.GET k 10 5 REFILL 1 AT 105", 1)

    def test_s10_strict(self):
        self.says("RL.REDUCE k 1 5 AT 100 STRICT", 1)
        self.says("RL.REDUCE k 1 5 AT 50 STRICT", 0)
        self.says("RL.REDUCE k 1 5 AT 101 STRICT", 0)
        self.says("RL.GET k 1 5 AT 105", 0)
        self.says("RL.GET k 1 5 AT 106", 1)

    def test_s11(self):
        self.says("RL.REDUCE k 10 60 REFILL 1 AT 0", 10)
        self.says("RL.REDUCE k 10 60 REFILL 1 AT 119 TAKE 10", 10)
        self.says("RL.GET k 10 60 REFILL 1 AT 120", 1)

    def test_s13(self):
        self.clock(7)
        self.says("RL.REDUCE k 1 5", 1)
        self.says("RL.SESSIONIZE k 1 5", [0, 7000])
        self.clock(11)
        self.says("RL.SESSIONIZE k 1 5", [0, 7000])
        self.clock(16)
        self.says("RL.PSESSIONIZE k 1 5000", [1, 16000])
        self.says("RL.REDUCE k 1 5", 0)

    def test_other_cases(self):
        self.says("RL.REDUCE k 5 60 TAKE 0", 5)
        self.says("RL.GET k 5 60", 5)
        self.says("RL.REDUCE k 1 5 AT 9223372036854775807", INTEGER)
        self.says("RL.REDUCE k 9223372036854775807 1 REFILL 9223372036854775807", 9223372036854775807)
        self.says("RL.REDUCE k 31 86400 REFILL 1", 31)
        self.assertRegex(self.client.ask("RL.REDUCE", "k", "32", "86400", "REFILL", "1"), "^ERR .* 2678400 s")
        self.says("RL.REDUCE k 5 60 TAKE 5", 5)
        self.says("RL.DEL k 5 60 REFILL 1", 0)
        self.says("RL.DEL k 5 60", 1)
        self.says("RL.PDEL k 5 60000", 0)
        self.says("RL.GET k 5 60", 5)

    def test_a_pipeline_of_all_of_them(self):
        lines = ["RL.REDUCE a 2 60", "RL.GET a 2 60", "RL.NONSENSE", "RL.GET a x 60", "RL.SESSIONIZE b 1 5",
                 "CL.THROTTLE a 15 30 60"]
        self.client.raw(b"".join(server.encode(*line.split()) for line in lines))
        self.assertEqual(self.client.exactly(8), b":2\r\n:1\r\n")
        self.assertRegex(self.client.read(), "^ERR unknown command 'RL.NONSENSE'")
        self.assertEqual([self.client.read() for _ in range(3)], [INTEGER, [1, 0], [0, 16, 15, -1, 2]])


class Cell(Vectors):

    def vector(self, limit, quantity, before, at, five):
        """`before` are the words of calls at 0 s that leave the key as it must stand."""
        self.clock(0)
        self.client.ask("DEL", "k")
        for line in before:
            self.assertEqual(self.client.ask(*line.split())[0], 0, line)
        self.clock(at)
        self.says(f"CL.THROTTLE k {limit} {quantity}", five)

    def test_vectors(self):
        for vector in (
                ("15 30 60", 1, [], 0, [0, 16, 15, -1, 2]),
                ("15 30 60", 1, ["CL.THROTTLE k 15 30 60 2"], 0.5, [0, 16, 13, -1, 6]),
                ("0 1 2", 1, ["CL.THROTTLE k 0 1 2"], 0, [1, 1, 0, 2, 2]),
                ("2 1 1", 0, [], 0, [0, 3, 3, -1, 0]),
                ("2 1 1", 0, ["CL.THROTTLE k 2 1 1 3"], 0, [0, 3, 0, -1, 3]),
                ("4 1 1", 5, [], 0, [0, 5, 0, -1, 5]),
                ("4 1 1", 2, ["CL.THROTTLE k 4 1 1 5"], 0, [1, 5, 0, 2, 5]),
                ("9 3 1", 1, [], 0, [0, 10, 9, -1, 1]),
                ("9 3 1", 1, ["CL.THROTTLE k 9 3 1 10"], 0, [1, 10, 0, 1, 4]),
                ("1 1 1", 1, ["CL.THROTTLE k 9 1 1 10"], 0, [1, 2, 0, 9, 10]),
                ("1 1 1", 0, ["CL.THROTTLE k 9 1 1 10"], 0, [1, 2, 0, 8, 10]),
                # half a millisecond is left: the clock of the test has whole ones, so the key has 2.0005 s
                ("0 1 2", 1, ["GCRA k 0 1 2.0005"], 2, [1, 1, 0, 1, 1])):
            self.vector(*vector)

    def test_the_sequence(self):
        for at, quantity, five in (
                (0, 1, [0, 5, 4, -1, 1]), (0, 1, [0, 5, 3, -1, 2]), (0, 1, [0, 5, 2, -1, 3]),
                (0, 1, [0, 5, 1, -1, 4]), (0, 1, [0, 5, 0, -1, 5]), (0, 1, [1, 5, 0, 1, 5]),
                (3.0, 1, [0, 5, 2, -1, 3]), (3.1, 1, [0, 5, 1, -1, 4]), (4.0, 1, [0, 5, 1, -1, 4]),
                (8.0, 1, [0, 5, 4, -1, 1]), (9.5, 1, [0, 5, 4, -1, 1]), (9.5, 0, [0, 5, 4, -1, 1]),
                (9.5, 2, [0, 5, 2, -1, 3]), (9.5, 5, [1, 5, 2, 3, 3])):
            self.clock(at)
            self.says(f"CL.THROTTLE k 4 1 1 {quantity}", five)

    def test_edges(self):
        for line, answer in (
                ("CL.THROTTLE k 0 1 1 2", [1, 1, 1, -1, 0]),
                ("CL.THROTTLE k 4 1 1 5", [0, 5, 0, -1, 5]),
                ("CL.THROTTLE k 4 1 1 -2", [0, 5, 2, -1, 3]),
                ("CL.THROTTLE k 4 1 1 -9223372036854775808", [0, 5, 5, -1, 0]),
                ("CL.THROTTLE k +4 1 1 +1", [0, 5, 4, -1, 1]),
                ("CL.THROTTLE fast 99 4000000000 1", [0, 100, 96, -1, 1]),
                ("CL.THROTTLE k 4 0 1", "ERR Zero rates are not supported: count and period must be 1 or more"),
                ("CL.THROTTLE k 4 1 0", "ERR Zero rates are not supported: count and period must be 1 or more"),
                ("CL.THROTTLE k -1 1 1", "ERR max_burst must be 0 or more, got -1"),
                ("CL.THROTTLE k 4 -1 1", "ERR count must be 1 or more, got -1"),
                ("CL.THROTTLE k 4 1 -1", "ERR period must be 1 to 9223372036 seconds, got -1"),
                ("CL.THROTTLE k 4 abc 1", "ERR Couldn't parse as integer: abc"),
                ("CL.THROTTLE k 4 1 1 9223372036854775808", "ERR Couldn't parse as integer: 9223372036854775808"),
                ("CL.THROTTLE k 4 1", "ERR Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                                      "[<quantity>]"),
                ("CL.THROTTLE", "ERR Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"),
                ("DEL k other", 1),
                ("DEL k", 0)):
            self.says(line, answer)
        self.assertRegex(self.client.ask("CL.THROTTLE", "k", "31", "1", "86400"), "^ERR .* 2678400 s")

    def test_keys_are_any_bytes(self):
        for key in (b"", b"\xff\xfe\x00", b"a\r\nb"):
            self.assertEqual(self.client.ask("CL.THROTTLE", key, 1, 1, 60), [0, 2, 1, -1, 60])
            self.assertEqual(self.client.ask("CL.THROTTLE", key, 1, 1, 60), [0, 2, 0, -1, 120])

    def test_throttlecrab(self):
        for line, answer in (
                ("THROTTLE k 2 30 60", [1, 2, 1, 2, 0]),
                ("THROTTLE k 2 30 60", [1, 2, 0, 4, 0]),
                ("THROTTLE k 2 30 60", [0, 2, 0, 4, 2]),
                ("THROTTLE k 2 30 60 3", [0, 2, 0, 4, -1]),
                ("THROTTLE k 2 30 60 0", [1, 2, 0, 4, 0]),
                ("THROTTLE k 2 30 60 -1", "ERR negative quantity: -1"),
                ("THROTTLE k 2 x 60", "ERR invalid count_per_period"),
                ("THROTTLE k 0 1 60", "ERR invalid rate limit parameters: max_burst must be 1 or more, got 0"),
                ("THROTTLE k 2 30", "ERR wrong number of arguments for 'throttle' command"),
                ("THROTTLE k 2 30 60 1 1", "ERR wrong number of arguments for 'throttle' command")):
            self.says(line, answer)

    def test_gcra(self):
        for line, answer in (
                ("GCRA k 15 30 60", [0, 16, 15, -1, 2]),
                ("GCRA k 15 30 60.0 TOKENS 2", [0, 16, 13, -1, 6]),
                ("gcra k 15 30 60 num_requests 14", [1, 16, 13, 2, 6]),
                ("GCRA k 15 30 60 TOKENS 17", [1, 16, 13, -1, 6]),
                ("GCRA half 0 1 .5", [0, 1, 0, -1, 1]),
                ("GCRA k 15 30 60 TOKENS", "ERR Missing TOKENS value"),
                ("GCRA k 15 30 1e3", "ERR period must be > 0 and < 9223372036 seconds"),
                ("GCRA k 15 30 0.0", "ERR period must be > 0 and < 9223372036 seconds")):
            self.says(line, answer)

    def test_one_key_one_state(self):
        self.says("CL.THROTTLE k 1 1 60 2", [0, 2, 0, -1, 120])
        self.says("THROTTLE k 2 1 60", [0, 2, 0, 120, 60])
        self.says("GCRA k 1 1 60", [1, 2, 0, 60, 120])

    def test_the_same_in_version_3(self):
        self.client.ask("HELLO", "3")
        self.says("CL.THROTTLE k 15 30 60", [0, 16, 15, -1, 2])
        self.says("RL.SESSIONIZE k 1 5", [1, 0])
        self.says("RL.GET k 1", arity("rl.get"))


if __name__ == "__main__":
    server.main()
