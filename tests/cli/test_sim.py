#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weir sim: verdicts computed by hand, for every algorithm."""

import json
import re
import subprocess

import command

# Arguments, then what is printed. How it is computed stands above each.
SCENES = [
    # One unit every 200 ms, two are there. The third finds none and the next comes after 200 ms. At 1 s both are
    # back; three can never be.
    (["5/s burst=2", "--arrivals", "0,0,0,200ms,1s*3"], """\
    time      n  verdict    remaining   retry after
 0.000 s      1  allowed            1
 0.000 s      1  allowed            0
 0.000 s      1  refused            0        200 ms
 0.200 s      1  allowed            0
 1.000 s      3  refused            2         never
allowed 3 of 7 units (3 of 5 arrivals), refused 4
"""),
    # The same, but callers wait up to 400 ms. The third gets the unit of 200 ms, the one who comes then that of
    # 400 ms, the next one that of 600 ms; who comes at 200 ms after them would have to wait for 800 ms.
    (["5/s burst=2", "--timeout", "400ms", "--arrivals", "0,0,0,200ms,200ms,200ms"], """\
    time      n  verdict                   remaining   retry after
 0.000 s      1  allowed                           1
 0.000 s      1  allowed                           0
 0.000 s      1  allowed after 200 ms              0
 0.200 s      1  allowed after 200 ms              0
 0.200 s      1  allowed after 400 ms              0
 0.200 s      1  refused                           0        200 ms
allowed 5 of 6 units (5 of 6 arrivals), refused 1, longest wait 400 ms
"""),
    # Two a second, at least 500 ms apart; a refusal moves nothing.
    (["2/s algo=interval", "--arrivals", "0,499ms,500ms,999ms,1s,1001ms"], """\
    time      n  verdict    remaining   retry after
 0.000 s      1  allowed            0
 0.499 s      1  refused            0          1 ms
 0.500 s      1  allowed            0
 0.999 s      1  refused            0          1 ms
 1.000 s      1  allowed            0
 1.001 s      1  refused            0        499 ms
allowed 3 of 6 units (3 of 6 arrivals), refused 3
"""),
    # One leaves every 100 ms. Three may wait; there is room again when the first of them leaves, after 100 ms.
    (["10/s algo=leaky-bucket queue=3", "--arrivals", "0,0,0,0,0,100ms"], """\
    time      n  verdict                   remaining   retry after
 0.000 s      1  allowed                           0
 0.000 s      1  allowed after 100 ms              0
 0.000 s      1  allowed after 200 ms              0
 0.000 s      1  allowed after 300 ms              0
 0.000 s      1  refused, full                     0        100 ms
 0.100 s      1  allowed after 300 ms              0
allowed 5 of 6 units (5 of 6 arrivals), refused 1, longest wait 300 ms
"""),
    # One leaves every 4/3 ns. Promises are whole nanoseconds, but what is rounded does not add up: the ninth unit
    # leaves after 10.67 ns.
    (["750M/s algo=leaky-bucket queue=100", "--arrivals", "0,0,0,0,0,0,0,0,0"], """\
    time      n  verdict                   remaining   retry after
     0 s      1  allowed                           0
     0 s      1  allowed after 1 ns                0
     0 s      1  allowed after 3 ns                0
     0 s      1  allowed after 4 ns                0
     0 s      1  allowed after 5 ns                0
     0 s      1  allowed after 7 ns                0
     0 s      1  allowed after 8 ns                0
     0 s      1  allowed after 9 ns                0
     0 s      1  allowed after 11 ns               0
allowed 9 of 9 units (9 of 9 arrivals), refused 0, longest wait 11 ns
"""),
    # Refused units count, too: 12 in the first window. At 14 s 12 * 6/10 = 7.2 of them are left, and that call counts
    # as well: with one more, 2 of the 12 may be left, at 18.33 s. At 17 s 3.6 are left, and there are two: 19.17 s.
    (["4/10s algo=sliding-window refused=count", "--arrivals", "0*4,1s*4,1s*4,14s,17s"], """\
    time      n  verdict    remaining   retry after
     0 s      4  allowed            0
     1 s      4  refused            0          19 s
     1 s      4  refused            0          19 s
    14 s      1  refused            0       4.334 s
    17 s      1  refused            0       2.167 s
allowed 4 of 14 units (1 of 5 arrivals), refused 10
"""),
    # The next caller pays: 1, 1, 2, 4, 8 units take as many seconds, each starts when those before it are paid.
    (["1/s algo=smooth", "--timeout", "forever", "--arrivals", "0,0,0*2,0*4,0*8,0"], """\
    time      n  verdict                   remaining   retry after
     0 s      1  allowed                           0
     0 s      1  allowed after 1 s                 0
     0 s      2  allowed after 2 s                 0
     0 s      4  allowed after 4 s                 0
     0 s      8  allowed after 8 s                 0
     0 s      1  allowed after 16 s                0
allowed 17 of 17 units (6 of 6 arrivals), refused 0, longest wait 16 s
"""),
    # Cold: five are saved, of which the upper half costs 1 s to 3 s. The area under the line: from 5 to 4 it is
    # (3 + 2.2) / 2 = 2.6 s, to 3 it is 1.8 s, to 2 it is 0.5 * (1.4 + 1) / 2 + 0.5 = 1.1 s, then 1 s a unit.
    # So they start after 0, 2.6, 4.4, 5.5, 6.5 s.
    (["1/s algo=warmup warmup=5s", "--timeout", "forever", "--arrivals", "0,0,0,0,0"], """\
    time      n  verdict                   remaining   retry after
     0 s      1  allowed                           0
     0 s      1  allowed after 2.6 s               0
     0 s      1  allowed after 4.4 s               0
     0 s      1  allowed after 5.5 s               0
     0 s      1  allowed after 6.5 s               0
allowed 5 of 5 units (5 of 5 arrivals), refused 0, longest wait 6.5 s
"""),
    # An op is 1 ms of time. The first is given; at 10 ms the pools get 10 ms: 1 ms active, 0.1 ms burst, 8.9 ms
    # wait. The op takes 1 ms, so the callers are 9 ms behind. The next needs 0.9 ms more, which come at 1.1 times
    # the speed of time: after 0.9 / 1.1 = 0.8182 ms.
    (["1000,1.1", "--arrivals", "0,10ms,10ms"], """\
    time      n  verdict    remaining   retry after        behind
 0.000 s      1  allowed            0                        0 ns
 0.010 s      1  allowed            0                        9 ms
 0.010 s      1  refused            0      818.2 µs          9 ms
allowed 2 of 3 units (2 of 3 arrivals), refused 1
"""),
    # Two in each window of 10 s: four within 3 s, around the edge.
    (["2/10s algo=fixed-window", "--arrivals", "8s,9s,9s,10s,11s,12s"], """\
    time      n  verdict    remaining   retry after
     8 s      1  allowed            1
     9 s      1  allowed            0
     9 s      1  refused            0           1 s
    10 s      1  allowed            1
    11 s      1  allowed            0
    12 s      1  refused            0           8 s
allowed 4 of 6 units (4 of 6 arrivals), refused 2
"""),
    # Four at 9 s. At 10 s all four still count; one fits when 4 * (10 - e) / 10 is down to 3: e = 2.5 s.
    (["4/10s algo=sliding-window", "--arrivals", "9s*4,10s,12499ms,12500ms"], """\
    time      n  verdict    remaining   retry after
 9.000 s      4  allowed            0
10.000 s      1  refused            0         2.5 s
12.499 s      1  refused            0          1 ms
12.500 s      1  allowed            0
allowed 5 of 7 units (2 of 4 arrivals), refused 2
"""),
    # Never more than two in any 10 s: those of 8 s and 9 s have to be 10 s old.
    (["2/10s algo=sliding-log", "--arrivals", "8s,9s,9s,10s,18s,19s"], """\
    time      n  verdict    remaining   retry after
     8 s      1  allowed            1
     9 s      1  allowed            0
     9 s      1  refused            0           9 s
    10 s      1  refused            0           8 s
    18 s      1  allowed            0
    19 s      1  allowed            0
allowed 4 of 6 units (4 of 6 arrivals), refused 2
"""),
    # One more every 10 s, up to two; the steps are at 10, 20, 30 s whoever asks in between.
    (["1/10s burst=2 algo=step", "--arrivals", "0,0,0,5s,10s,19s,20s*3,30s*2"], """\
    time      n  verdict    remaining   retry after
     0 s      1  allowed            1
     0 s      1  allowed            0
     0 s      1  refused            0          10 s
     5 s      1  refused            0           5 s
    10 s      1  allowed            0
    19 s      1  refused            0           1 s
    20 s      3  refused            1         never
    30 s      2  allowed            0
allowed 5 of 11 units (4 of 8 arrivals), refused 6
"""),
    (["unlimited", "--arrivals", "0,1s*1000000"], """\
    time          n  verdict    remaining   retry after
     0 s          1  allowed     no bound
     1 s  1 000 000  allowed     no bound
allowed 1 000 001 of 1 000 001 units (2 of 2 arrivals), refused 0
"""),
    (["blocked", "--arrivals", "0"], """\
    time      n  verdict    remaining   retry after
     0 s      1  refused            0         never
allowed 0 of 1 units (0 of 1 arrivals), refused 1
"""),
    # 100/s runs out first; then it has one unit every 10 ms, and at 10 ms the three of the minute are gone, too: one
    # comes back every 20 s, counted from the start.
    (["100/s burst=2, 3/m name=minute", "--arrivals", "0,0,0,10ms,20ms"], """\
    time      n  verdict    remaining   retry after  decided by
 0.000 s      1  allowed            1                100/s burst=2
 0.000 s      1  allowed            0                100/s burst=2
 0.000 s      1  refused            0         10 ms  100/s burst=2
 0.010 s      1  allowed            0                minute
 0.020 s      1  refused            0       19.98 s  minute
allowed 3 of 5 units (3 of 5 arrivals), refused 2
"""),
    # At 5 s one of five is taken, so the bucket is as if empty at 4.2 s. A clock that steps back to 3 s finds it
    # 1.2 s in debt, and a unit takes 0.2 s more. Nothing is lost or won by that.
    (["5/s", "--arrivals", "0,5s,3s,5s*4"], """\
    time      n  verdict    remaining   retry after
     0 s      1  allowed            4
     5 s      1  allowed            4
the clock steps back from 5 s to 3 s
     3 s      1  refused            0         1.4 s
     5 s      4  allowed            0
allowed 6 of 7 units (3 of 4 arrivals), refused 1; the clock stepped back 1 time
"""),
]


class Verdicts(command.CommandTest):
    def test_every_algorithm(self):
        for arguments, table in SCENES:
            with self.subTest(arguments[0]):
                self.check(["sim", *arguments], table)

    def test_timeout_of_the_limit_is_the_default(self):
        arrivals = ["--arrivals", "0,0,0"]
        given = self.output("sim", "1/s burst=1 name=a", "--timeout", "1s", *arrivals)
        self.assertIn("allowed after 1 s", given)
        self.assertEqual(self.output("sim", "1/s burst=1 timeout=1s name=a", *arrivals), given)
        self.assertNotIn("after 1 s", self.output("sim", "1/s burst=1 timeout=1s", "--timeout", "0", *arrivals))

    def test_clock_that_steps_back(self):
        # At 5 s one of five is taken and four are left. The README says who goes on with them at 3 s; nobody gets
        # more than those, and from 7 s on all is as ever.
        go_on = {"hybrid pool=1s", "fixed-window", "sliding-window", "step"}
        wait = {"token-bucket", "interval", "leaky-bucket", "smooth", "warmup warmup=2s", "sliding-log"}
        for algo in go_on | wait:
            with self.subTest(algo):
                out = self.output("sim", "--json", f"5/s algo={algo}", "--timeout", "0",
                                  "--arrivals", "0,5s,3s..4s/100ms,7s")
                allowed = [a["allowed"] for a in json.loads(out)["arrivals"]]
                self.assertEqual(allowed, [True] * 2 + [i < 4 and algo in go_on for i in range(11)] + [True])

    def test_queue_without_waiting(self):
        out = self.output("sim", "10/s algo=leaky-bucket", "--timeout", "0", "--arrivals", "0,0,100ms", "--summary")
        self.assertEqual(out, "allowed 2 of 3 units (2 of 3 arrivals), refused 1\n")


class Arrivals(command.CommandTest):
    def summary(self, limit, arrivals, *options, stdin=""):
        given = [] if arrivals is None else ["--arrivals", arrivals]
        return self.output("sim", limit, *given, *options, "--summary", stdin=stdin)

    def test_range_has_both_ends(self):
        # 0, 100 ms ... 1 s are 11; five are there and one comes every 200 ms: 5 + 5.
        self.assertEqual(self.summary("5/s", "0..1s/100ms"), "allowed 10 of 11 units (10 of 11 arrivals), refused 1\n")

    def test_range_stops_before_its_end_if_the_step_does_not_fit(self):
        self.assertEqual(self.summary("unlimited", "0..1s/300ms"), "allowed 4 of 4 units (4 of 4 arrivals), refused 0\n")

    def test_units_of_a_range_and_of_the_option(self):
        self.assertEqual(self.summary("unlimited", "0..1s/500ms*7,5s", "-n", "3"),
                         "allowed 24 of 24 units (4 of 4 arrivals), refused 0\n")
        self.assertEqual(self.summary("unlimited", "0,1s", "-n3"),
                         "allowed 6 of 6 units (2 of 2 arrivals), refused 0\n")

    def test_units_have_multiples_as_in_a_limit(self):
        for n, units in {"2k": "2 000", "1.5k": "1 500", "2Ki": "2 048"}.items():
            words = f"allowed {units} of {units} units (1 of 1 arrivals), refused 0\n"
            self.assertEqual(self.summary("unlimited", "0", "-n", n), words)
            self.assertEqual(self.summary("unlimited", f"0*{n}"), words)

    def test_until_ends_an_open_range_and_leaves_out_what_is_later(self):
        self.assertEqual(self.summary("unlimited", "0../1s,3s,1500ms,0..10s/1s", "--until", "2s"),
                         "allowed 7 of 7 units (7 of 7 arrivals), refused 0; the clock stepped back 2 times\n")

    def test_standard_input_is_the_same_list(self):
        text = "# two at once\n0, 0\n\n  200ms   # then one\n1s*3,\n"
        self.assertEqual(self.output("sim", "5/s burst=2", stdin=text),
                         self.output("sim", "5/s burst=2", "--arrivals", "0,0,200ms,1s*3"))
        self.assertEqual(self.output("sim", "5/s burst=2", "--arrivals", "-", stdin=text),
                         self.output("sim", "5/s burst=2", "--arrivals", "0,0,200ms,1s*3"))
        self.assertEqual(self.output("sim", "5/s burst=2", "--arrivals", text),
                         self.output("sim", "5/s burst=2", "--arrivals", "0,0,200ms,1s*3"))

    def test_times_have_as_many_digits_as_they_need(self):
        for arrivals, first in {"1s": "     1 s", "1s,1ms": " 1.000 s", "1s..2s/1us": "1.000000 s",
                                "1s,1ns": "1.000000000 s"}.items():
            self.assertEqual(self.output("sim", "unlimited", "--arrivals", arrivals).splitlines()[1].split("  1  ")[0]
                             .rstrip(), first.rstrip(), arrivals)

    def test_ten_million_are_enough(self):
        self.assertEqual(self.summary("1/s", "0..9999999us/1us"),
                         "allowed 10 of 10 000 000 units (10 of 10 000 000 arrivals), refused 9 999 990\n")
        self.check(["sim", "1/s", "--arrivals", "0..10s/1us"], "", "0..10s/1us\n"
                   "^ that makes more than 10000000 arrivals; take a larger step or a shorter range\n", status=2)

    def test_mistakes_have_a_place(self):
        units = "behind the * stands how many units are asked for, such as 1s*5 or 1s*2k"
        comma = "between two times stands a comma or a new line, such as 0,1s"
        for text, column, message in [
            ("0,5,3s", 3, "5 what? write 5s, 5m, 5h or 5d"),
            ("0,,3s", 3, "a time is missing here, such as 0, 200ms or 1h30m"),
            ("0,soon", 3, "a time begins with a digit, such as 0, 200ms or 1h30m"),
            ("0, 5s*x", 7, units),
            ("5s*", 4, units),
            ("5s*0", 4, units),
            ("5s*1.5", 4, units),
            ("5s*2m", 4, units),
            ("5s*99999999999999999999", 4, units),
            ("0;1s", 2, comma),
            ("0;", 2, comma),
            ("5s*2;6s", 5, comma),
            ("0..5s", 1, "a range needs a step: 0..10s/100ms is every 100 ms for 10 s"),
            ("0../5s", 2, "this range has no end; write one, such as 0..10s/100ms, or use --until"),
            ("5s..1s/1s", 5, "the range ends before it begins; turn it round"),
            ("0..5s/0", 7, "a step of 0 would go on for ever; use 1ns or more"),
        ]:
            with self.subTest(text):
                self.check(["sim", "5/s", "--arrivals", text], "",
                           f"{text}\n{' ' * (column - 1)}^ {message}\n", status=2)

    def test_space_is_no_comma(self):
        for text, column in ("0 1s", 2), ("1h 30m", 3), ("5s*2 6s", 5), ("0..9s/1s 5s", 9):
            with self.subTest(text):
                done = self.run_weir("sim", "5/s", "--arrivals", text, COLUMNS="200")
                self.assertEqual((done.returncode, done.stdout, done.stderr), (
                    2, "", f"{text}\n{' ' * (column - 1)}^ between two times stands a comma or a new line, such as "
                    "0,1s; one time has no space inside: 1h30m\n"))
        self.assertEqual(self.summary("unlimited", " 0 , 1s * 2 , 2s .. 3s / 1s ,"),
                         "allowed 5 of 5 units (4 of 4 arrivals), refused 0\n")

    def test_mistakes_on_standard_input_have_a_line(self):
        self.check(["sim", "5/s"], "", "weir sim: standard input, line 3:\n1s, 7\n"
                   "    ^ 7 what? write 7s, 7m, 7h or 7d\n", status=2, stdin="0\n\n1s, 7\n")

    def test_none(self):
        message = "weir sim: no arrivals; write some, such as --arrivals 0,0,200ms\n"
        self.check(["sim", "5/s"], "", message, status=2)
        self.check(["sim", "5/s", "--arrivals", ""], "", message, status=2)
        self.check(["sim", "5/s", "--arrivals", "5s", "--until", "1s"], "",
                   message.replace("arrivals;", "arrivals until then;"), status=2)

    def test_closed_standard_input(self):
        done = subprocess.run(f"'{command.WEIR}' sim 5/s <&-", shell=True, capture_output=True, text=True,
                              env=command.environment())
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (2, "", "weir sim: cannot read standard input: Bad file descriptor\n"))


class Options(command.CommandTest):
    def test_mistakes(self):
        number = "-n takes a whole number from 1 on, such as 5 or 2k, not "
        for arguments, message in [
            ([], "which limit? For example: weir sim 5/s --arrivals 0..2s/100ms"),
            (["5/s", "burst=2"], "quote the limit: weir sim '5/s burst=2'"),
            (["5/s", "burst", "2", "--summary"], "quote the limit: weir sim '5/s burst=2'"),
            (["5/s", "100/m"], "one LIMITS only; several have commas between them: '5/s, 100/m'"),
            (["5/s", "--arrivlas", "0"], "unknown option '--arrivlas'; did you mean --arrivals?"),
            (["5/s", "-n", "0"], number + "'0'"),
            (["5/s", "-n", "-1"], number + "'-1'"),
            (["5/s", "-n", "1e3"], number + "'1e3'"),
            (["5/s", "-n", "2m"], number + "'2m'"),
            (["5/s", "-n", "99999999999999999999"], "-n is too large: '99999999999999999999'"),
            (["5/s", "--timeout", "5"], "--timeout '5': 5 what? write 5s, 5m, 5h or 5d"),
            (["5/s", "--until=5"], "--until '5': 5 what? write 5s, 5m, 5h or 5d"),
        ]:
            with self.subTest(arguments):
                self.check(["sim", *arguments], "", f"weir sim: {message}\n", status=2)

    def test_operands_behind_two_dashes(self):
        self.check(["sim", "--arrivals", "0", "--", "--5/s"], "",
                   self.run_weir("spec", "--", "--5/s").stderr, status=2)
        self.assertEqual(self.output("sim", "--summary", "--arrivals=0", "--", "5/s"),
                         "allowed 1 of 1 units (1 of 1 arrivals), refused 0\n")


class Json(command.CommandTest):
    def test_document(self):
        document = json.loads(self.output("sim", "--json", "5/s burst=2, unlimited", "--arrivals", "0,0,0*3,0,200ms"))
        self.assertEqual(document["limits"], ["5/s burst=2", "unlimited"])
        self.assertEqual(document["timeout_ns"], 0)
        self.assertEqual(document["arrivals"][0], {
            "time_ns": 0, "n": 1, "allowed": True, "reason": "ok", "remaining": 1, "retry_after_ns": 0,
            "reset_after_ns": 2 * 10**8, "wait_ns": 0, "behind_ns": 0, "limit": 0})
        self.assertEqual([(a["reason"], a["retry_after_ns"]) for a in document["arrivals"]],
                         [("ok", 0), ("ok", 0), ("never", None), ("later", 2 * 10**8), ("ok", 0)])
        self.assertEqual(document["summary"], {
            "arrivals": 5, "arrivals_allowed": 3, "units": 7, "units_allowed": 3, "units_refused": 4,
            "longest_wait_ns": 0, "clock_steps": 0})

    def test_waits(self):
        document = json.loads(self.output("sim", "--json", "10/s algo=leaky-bucket queue=1", "--arrivals", "0,0,0"))
        self.assertIsNone(document["timeout_ns"])
        self.assertEqual([(a["reason"], a["wait_ns"]) for a in document["arrivals"]],
                         [("ok", 0), ("ok", 10**8), ("full", 0)])
        self.assertEqual(document["summary"]["longest_wait_ns"], 10**8)

    def test_summary_alone(self):
        document = json.loads(self.output("sim", "--json", "--summary", "unlimited", "--arrivals", "0..1s/1ms"))
        self.assertEqual(sorted(document), ["limits", "summary", "timeout_ns"])
        self.assertEqual(document["summary"]["arrivals"], 1001)


class Fleet(command.CommandTest):
    SMALL = "sim", "fleet", "--limit", "1k/s algo=quota", "--windows", "20"

    def test_nothing_is_over_and_a_seed_repeats_itself(self):
        for coordinator in "zookeeper", "redis", "weir":
            arguments = *self.SMALL, "--coordinator", coordinator, "--json"
            document = json.loads(self.output(*arguments))
            self.assertEqual((document["over"], document["first"]), (0, ""))
            self.assertGreater(document["windows"], 5)
            self.assertGreater(document["passed"], 0)
            again = json.loads(self.output(*arguments, "--seed", "1"))
            other = json.loads(self.output(*arguments, "--seed", "2"))
            self.assertEqual(document["fingerprint"], again["fingerprint"])
            self.assertNotEqual(document["fingerprint"], other["fingerprint"])

    def test_table(self):
        out = self.output(*self.SMALL, "--nodes", "3", "--seed", "5")
        self.assertRegex(out, "^1k/s algo=quota, 3 nodes, zookeeper\n")
        self.assertRegex(out, r"\n0 of \d+ windows over\n")
        self.assertRegex(out, r"use of the total +\d+[.]\d\d % of what could pass: asked for, up to each total\n")
        self.assertRegex(out, r"faults +loss \d+, delay \d+")
        repeat = out.splitlines()[-1].partition(" s: ")[2]
        self.assertEqual(repeat, "weir sim fleet --limit '1k/s algo=quota' --windows 20 --nodes 3 --seed 5")

    def test_without_faults_almost_everything_is_used(self):
        document = json.loads(self.output("sim", "fleet", "--faults", "none", "--windows", "5", "--json"))
        self.assertGreaterEqual(document["use"], 0.98)
        self.assertLessEqual(document["writes"] / document["chunks"], 1.1)
        self.assertEqual(set(document["faults"].values()), {0})

    def test_some_faults_alone(self):
        document = json.loads(self.output(*self.SMALL, "--faults", "crash,leave", "--json"))
        happened = {name for name, count in document["faults"].items() if count}
        self.assertEqual(happened, {"crash", "leave"})

    def test_two_masters_of_a_redis_are_not_one_of_all_faults(self):
        redis = *self.SMALL, "--windows", "100", "--coordinator", "redis", "--json"
        self.assertEqual(json.loads(self.output(*redis))["faults"]["split"], 0)
        document = json.loads(self.output(*redis, "--faults", "all,split"))
        self.assertEqual(document["over"], 0)
        self.assertTrue(all(document["faults"].values()), document["faults"])
        self.assertGreater(document["stated"], 0)
        again = json.loads(self.output(*redis, "--faults", "all,split"))
        self.assertEqual(document["fingerprint"], again["fingerprint"])

    def test_stated_bounds(self):
        for options in (["--on-loss", "share"], ["--coordinator", "redis", "--failover", "trust"],
                        ["--coordinator", "redis", "--faults", "split", "--failover", "trust"],
                        ["--limit", "1k/s burst=500"], ["--tiers", "2", "--nodes", "9"], ["--users", "50", "--sparse", "0.1"]):
            with self.subTest(options):
                self.assertRegex(self.output(*self.SMALL, *options), r"\n0 of \d+ windows over\n")

    def test_mistakes(self):
        for arguments, message in [
            (["5/s"], "the limit stands behind --limit, as in --limit '100k/m algo=quota'"),
            (["--fualts", "all"], "unknown option '--fualts'; did you mean --faults?"),
            (["--faults", "losss"], "--faults does not know 'losss'; did you mean loss?"),
            (["--faults", "fire"], "--faults does not know 'fire'; weir sim fleet --help lists them"),
            (["--coordinator", "etcd"], "--coordinator takes zookeeper, redis or weir, not 'etcd'"),
            (["--faults", "all,split"], "--faults split, two masters, needs --coordinator redis"),
            (["--coordinator", "weir", "--failover", "trust"], "--failover trust needs --coordinator redis"),
            (["--on-loss", "shar"], "--on-loss takes refuse or share, not 'shar'"),
            (["--tiers", "9"], "1 to 4 tiers can be simulated"),
            (["--nodes", "0"], "--nodes takes a whole number from 1 on, such as 5 or 2k, not '0'"),
            (["--load", "x"], "--load takes a number such as 1.5, not 'x'"),
            (["--load", "nan"], "--load takes a number such as 1.5, not 'nan'"),
            (["--sparse", "2"], "sparse is a share from 0 to 1"),
            (["--seed", "-1"], "--seed takes a whole number such as 7, not '-1'"),
            (["--limit", "5"], "5: column 2: per what? write 5/s, 5/m, 5/h or 5/d"),
        ]:
            with self.subTest(arguments):
                self.check(["sim", "fleet", *arguments], "", f"weir sim fleet: {message}\n", status=2)

    def test_options_are_in_the_page_and_offered(self):
        helped = set(re.findall(r"^ +(?:-h, )?--([a-z-]+)", self.output("sim", "fleet", "--help"), re.M))
        page = (command.ROOT / "man" / "weir-sim-fleet.1").read_text()
        listed = set(re.findall(r"^\.It Fl -([a-z-]+)", page, re.M)) | {"help"}
        self.assertEqual(listed ^ helped, set())
        offered = (command.ROOT / "dist" / "completions" / "weir.bash").read_text()
        self.assertEqual({name for name in helped if f"--{name}" not in offered}, set())


if __name__ == "__main__":
    command.main()
