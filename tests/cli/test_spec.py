#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weir spec: what it says about every algorithm, and about every mistake."""

import json

import command

# What is printed for a limit. The numbers follow from the law of each algorithm:
#   token-bucket    burst + rate * t
#   interval        the same with burst 1
#   leaky-bucket    1 + rate * t; queue * interval is the longest wait, one place more until it is empty
#   smooth          saved + 1 + rate * t
#   warmup above    1 + rate * t; threshold = warmup / 2 / interval, full = threshold + 2 * warmup / (stable + cold)
#   warmup below    the same, and what a full store saves: ceil((full - threshold) * (1 - 1/cold) / 2)
#   hybrid          (pool * ratio + ratio * t) / interval
#   fixed-window    count for every window that t can touch: 2 for one period, n + 1 for n
#   sliding-window  the same, in the worst case
#   sliding-log     count for every period begun
#   step            burst + count for every step that t can hold
TEXTS = {
    "100/s burst=20": """\
100/s burst=20       token-bucket
  at once            20
  after that         one every 10 ms
  in any second      at most 120
  in any minute      at most 6 020
  full again         after 200 ms of rest
""",
    "5/m": """\
5/m                  token-bucket burst=5
  at once            5
  after that         one every 12 s
  in any minute      at most 10
  full again         after 60 s of rest
note: for never more than 5 in any minute, write 5/m algo=sliding-log; for an
even flow, 5/m burst=1
""",
    "10/s burst=1": """\
10/s burst=1         token-bucket
  at once            1
  after that         one every 100 ms
  in any second      at most 11
  in any minute      at most 601
  full again         after 100 ms of rest
""",
    # 7 in 90 minutes: one every 12 min 51.4 s; a period without a name, then the next one that has one:
    # 7 + 7 * 24 h / 90 min = 119.
    "7/90m initial=0 timeout=1h name=reports": """\
7/90m initial=0 timeout=1h name=reports  token-bucket burst=7
  at once            7
  at the start       0 of 7
  after that         one every 12 min 51 s
  in any 1 h 30 min  at most 14
  in any day         at most 119
  full again         after 1 h 30 min of rest
  who waits          up to 1 h; a longer wait is refused at once
note: for never more than 7 in any 1 h 30 min, write 7/90m algo=sliding-log; for
an even flow, 7/90m burst=1
""",
    # Too fast to think in intervals.
    "2MiB/s burst=64KiB": """\
2097152/s burst=65536  token-bucket
  at once            65 536
  after that         2 097 152 a second
  in any second      at most 2 162 688
  in any minute      at most 125 894 656
  full again         after 31.25 ms of rest
""",
    "10/s algo=interval": """\
10/s algo=interval   interval
  at once            1
  after that         at least 100 ms from one to the next
  in any second      at most 11
  in any minute      at most 601
  saved up           nothing: a pause earns no burst
""",
    "10/s algo=leaky-bucket queue=20": """\
10/s algo=leaky-bucket queue=20  leaky-bucket
  at once            1; the others queue
  after that         one every 100 ms
  queue              20 at most; what finds it full is refused
  longest wait       2 s
  a larger n         leaves as one and keeps n places; up to n=21
  in any second      at most 11, one by one
  in any minute      at most 601
  empty again        after 2.1 s of rest
note: take passes only what need not wait; acquire and reserve join the queue
""",
    "10/s algo=leaky age=500ms": """\
10/s algo=leaky-bucket age=500ms  leaky-bucket queue=10
  at once            1; the others queue
  after that         one every 100 ms
  queue              10 at most; what finds it full is refused
  longest wait       500 ms, as age= says; the whole queue would be 1 s
  a larger n         leaves as one and keeps n places; up to n=11
  in any second      at most 11, one by one
  in any minute      at most 601
  empty again        after 1.1 s of rest
note: take passes only what need not wait; acquire and reserve join the queue
""",
    "5/s algo=smooth": """\
5/s algo=smooth      smooth burst=5
  at once            6: up to 5 saved, and one that the next pays for
  at the start       0 saved
  after that         one every 200 ms
  a larger n         starts at once and delays the next: n=10 by 2 s if none are
                     saved
  in any second      at most 11, one by one
  in any minute      at most 306
  full again         after 1 s of rest
note: smooth refuses no n for its size; token-bucket refuses more than its burst
""",
    # A second of 3/2s is one and a half units.
    "3/2s algo=guava": """\
3/2s algo=smooth     smooth
  at once            2: up to 1.5 saved, and one that the next pays for
  at the start       0 saved
  after that         one every 666.7 ms
  a larger n         starts at once and delays the next: n=10 by 6.667 s if none
                     are saved
  in any 2 s         at most 5, one by one
  in any minute      at most 92
  full again         after 1 s of rest
note: smooth refuses no n for its size; token-bucket refuses more than its burst
""",
    # threshold 5 / 2 / 1 = 2.5, full 2.5 + 2 * 5 / (1 + 3) = 5, cold 3 * 1 s
    "1/s algo=warmup warmup=5s": """\
1/s algo=warmup warmup=5s  warmup cold=3 shape=above
  cold               up to 3 s between two
  warm               one every 1 s
  saved up           5 at most; above the threshold of 2.5 they cost more than
                     fresh ones
  warming up         takes 5 s of steady use
  a larger n         starts at once and delays the next: n=10 by 10 s if none
                     are saved
  in any second      at most 2, one by one
  in any minute      at most 61
  cold again         after 5 s of rest
""",
    # full 2.5 + 2 * 5 / (1 + 1/4) = 10.5; a full store saves (10.5 - 2.5) * (1 - 1/4) / 2 = 3 units
    "1/s algo=warmup warmup=5s cold=4 shape=below": """\
1/s algo=warmup warmup=5s cold=4 shape=below  warmup
  after a rest       as fast as one every 250 ms
  after that         one every 1 s
  saved up           10.5 at most; above the threshold of 2.5 they cost less
                     than fresh ones
  slowing down       takes 5 s of steady use
  a larger n         starts at once and delays the next: n=10 by 10 s if none
                     are saved
  in any second      at most 5, one by one
  in any minute      at most 64
  full again         after 10.5 s of rest
""",
    # 1 ms * 1.1 / 83.33 us = 13.2; 13.2 + 13 200 in a second
    "12000,1.1": """\
12k/s algo=hybrid ratio=1.1  hybrid pool=1ms
  at once            13, once the pools are full
  at the start       1
  on schedule        12 000 a second, one every 83.33 µs
  behind it          up to 13 200 a second until the delay is made up
  active pool        1 ms (12 units): what may start at once
  burst pool         100 µs (1.2 units): on top, while behind
  waiting pool       no bound: time not used is kept
  in any second      at most 13 213
  in any minute      at most 792 013
""",
    "12k/s algo=hybrid ratio=1": """\
12k/s algo=hybrid ratio=1  hybrid pool=1ms
  at once            12, once the pools are full
  at the start       1
  on schedule        12 000 a second, one every 83.33 µs
  behind it          no faster: a delay is told (behind_ns), never made up
  active pool        1 ms (12 units): what may start at once
  waiting pool       no bound: time not used is kept
  in any second      at most 12 012
  in any minute      at most 720 012
""",
    "5/m algo=fixed-window": """\
5/m algo=fixed-window  fixed-window
  in a window        5; a new one begins every 60 s
  across an edge     up to 10 in a moment
  in any minute      at most 10
  a refusal          is not counted
  full again         with the next window
note: for never more than 5 in any minute, write 5/m algo=sliding-log
""",
    "50M/m algo=quota": """\
50M/m algo=quota     quota
  in a window        50 000 000; a new one begins every 60 s
  across an edge     up to 100 000 000 in a moment
  in any minute      at most 100 000 000
  in a fleet         one total for all machines
  full again         with the next window
""",
    "100k/m algo=sliding-window refused=count": """\
100k/m algo=sliding-window refused=count  sliding-window
  at once            100 000
  counted            the present window, and the one before as it fades
  in an even flow    100 000 in any minute
  in any minute      at most 200 000 in the worst case
  a refusal          is counted as well
  full again         after 2 min of rest
""",
    "5/m algo=sliding-log": """\
5/m algo=sliding-log  sliding-log
  at once            5
  in any minute      at most 5, exactly
  a refusal          is not counted
  full again         after 60 s of rest
  memory             a state has 72 bytes: it keeps the time of each unit
""",
    "3/5s burst=10 algo=step": """\
3/5s burst=10 algo=step  step
  at once            10
  after that         3 more every 5 s, in one step
  in any 5 s         at most 13
  in any minute      at most 46
  full again         after 20 s of rest
""",
    "3/5s burst=10 initial=0 algo=step refused=drain strict=true": """\
3/5s burst=10 initial=0 algo=step refused=drain strict=true  step
  at once            10
  at the start       0 of 10
  after that         3 more every 5 s, in one step
  in any 5 s         at most 13
  in any minute      at most 46
  a refusal          takes what is left
  used up            the period starts anew, and again with every refusal
  full again         after 20 s of rest
""",
    "unlimited": """\
unlimited            unlimited
  lets pass          everything, always
""",
    "blocked": """\
blocked              blocked
  lets pass          nothing, ever
""",
}

# 250 000 a day are 10 000 and 24 * 10 000; in a week 200 000 a day are tighter.
SEVERAL = """\
100/s burst=200      token-bucket
  at once            200
  after that         one every 10 ms
  in any second      at most 300
  in any minute      at most 6 200
  full again         after 2 s of rest

10k/h                token-bucket burst=10k
  at once            10 000
  after that         one every 360 ms
  in any hour        at most 20 000
  full again         after 1 h of rest

200k/d name=daily    token-bucket burst=200k
  at once            200 000
  after that         one every 432 ms
  in any day         at most 400 000
  full again         after 1 d of rest

all together         each must agree; the one named here decides
  at once            200                100/s burst=200
  in any second      at most 300        100/s burst=200
  in any minute      at most 6 200      100/s burst=200
  in any hour        at most 20 000     10k/h
  in any day         at most 250 000    10k/h
  in any week        at most 1 600 000  daily
"""

# Texts and messages, broken at 80 columns.
MISTAKES = """\
100
   ^ per what? write 100/s, 100/m, 100/h or 100/d
100/s burst 20
      ^ options are written name=value: burst=20
5/m brust=10
    ^ unknown option 'brust'; did you mean burst?
100/s burst=0
            ^ burst is the most that may pass at once, so at least 1 (without
              it: 100)
100/fortnight
    ^ 'fortnight' is not a period; use ns us ms s m h d w, such as 250ms, 10s or
      h
2m/s
 ^ m means minutes; for 2 million write 2M
5/m algo=bucket
         ^ unknown algorithm 'bucket'; did you mean token-bucket?
100/s ratio=1.1
      ^ token-bucket has no ratio; it belongs to hybrid; add algo=hybrid
0/s
^ 0 lets nothing pass; write blocked
1/month algo=sliding-log
^ a month has no fixed length; only algo=quota counts by the calendar
100/s, 50
         ^ per what? write 50/s, 50/m, 50/h or 50/d
50k/s algo=sliding-log
^ sliding-log keeps 50 000 times for every key (400 kB), at most 10 000;
  sliding-window keeps two numbers: write algo=sliding-window
"""


def split_mistakes():
    """Each text with all its lines."""
    blocks = []
    for line in MISTAKES.splitlines(keepends=True):
        if not line.startswith(" ") and not line.startswith("^"):
            blocks.append([line.rstrip("\n"), ""])
        blocks[-1][1] += line
    return blocks


class Words(command.CommandTest):
    def test_every_algorithm(self):
        for text, words in TEXTS.items():
            with self.subTest(text):
                self.check(["spec", text], words)

    def test_several_limits_and_which_decides(self):
        self.check(["spec", "100/s burst=200, 10k/h, 200k/d name=daily"], SEVERAL)

    def test_limit_that_never_decides_is_named(self):
        out = self.output("spec", "100/s, 10/s")
        self.assertTrue(out.endswith(
            "note: 100/s never decides: 10/s lets pass no more at once and no more later\n"), out)
        self.assertNotIn("never decides", self.output("spec", "100/s burst=5, 10/s"))

    def test_several_arguments(self):
        self.check(["spec", "blocked", "10/s burst=1"], TEXTS["blocked"] + "\n" + TEXTS["10/s burst=1"])

    def test_note_as_narrow_as_the_terminal(self):
        out = self.output("spec", "5/m", COLUMNS="49")
        self.assertEqual(out.splitlines()[5:], ["note: for never more than 5 in any minute, write",
                                                "5/m algo=sliding-log; for an even flow,", "5/m burst=1"])

    def test_memory_is_the_size_of_the_state(self):
        # 2 words of the policy's own, 2 of the log and one for each unit; a token bucket has 1.
        for limits, words in [("1/m algo=sliding-log", "a state has 40 bytes: it keeps the time of each unit"),
                              ("10k/h algo=sliding-log", "a state has 80 032 bytes: it keeps the time of each unit"),
                              ("5/m algo=sliding-log, 100/s", "56 of the 80 bytes of a state: the time of each unit")]:
            self.assertIn(f"  memory             {words}\n", self.output("spec", limits))

    def test_hybrid_that_is_only_configured_starts_with_nothing(self):
        self.assertIn("\n  at the start       0, until it is started\n", self.output("spec", "12000,1.1,configure"))
        self.assertIn("\n  active pool        1 ms (1 unit): ", self.output("spec", "1000,1.1"))

    def test_width_has_a_least(self):
        narrow = self.output("spec", "5/s algo=smooth", COLUMNS="40")
        self.assertLessEqual(max(map(len, narrow.splitlines())), 40)
        for width in "39", "20", "1":
            self.assertEqual(self.output("spec", "5/s algo=smooth", COLUMNS=width), narrow)

    def test_without_utf8_the_microsecond_is_us(self):
        self.assertIn("one every 83.33 us", self.output("spec", "12000,1.1", LC_ALL="C"))


class Mistakes(command.CommandTest):
    def test_caret_and_what_to_write(self):
        blocks = split_mistakes()
        self.assertEqual(len(blocks), 12)
        for text, message in blocks:
            with self.subTest(text):
                self.check(["spec", text], "", message, status=2)
                self.check(["sim", text, "--arrivals", "0"], "", message, status=2)

    def test_message_is_broken_to_the_width(self):
        self.check(["spec", "100/s, 50"], "", "100/s, 50\n"
                   "         ^ per what? write 50/s, 50/m,\n"
                   "           50/h or 50/d\n", status=2, COLUMNS="40")

    def test_all_mistakes_are_told_and_nothing_is_printed(self):
        self.check(["spec", "5/m", "0/s", "100"], "", "0/s\n^ 0 lets nothing pass; write blocked\n"
                   "100\n   ^ per what? write 100/s, 100/m, 100/h or 100/d\n", status=2)

    def test_forgotten_quotes(self):
        for words, limit in [
            ("5/m burst=3", "5/m burst=3"),
            ("100/s burst 20", "100/s burst=20"),
            ("100/s algo smooth burst 20 name x", "100/s algo=smooth burst=20 name=x"),
            ("100 per second", "100 per second"),
            ("100 / s burst=3", "100 / s burst=3"),
            ("100/s, 10k/h", "100/s, 10k/h"),
            ("5/m 100/s burst=20", "100/s burst=20"),
            ("9 per s burst=2 algo=step initial=0 refused=drain strict=true timeout=1s name=a",
             "9 per s burst=2 algo=step initial=0 refused=drain strict=true timeout=1s name=a"),
        ]:
            with self.subTest(words):
                self.check(["spec", *words.split()], "", f"weir spec: quote the limit: weir spec '{limit}'\n", status=2)

    def test_forgotten_quotes_and_a_mistake(self):
        self.check(["spec", "5/m", "brust=3"], "", "brust=3\n"
                   "^ a limit begins with a rate, such as 100/s or 5 per minute, or is unlimited or\n  blocked\n"
                   "weir spec: if this is one limit, quote it: weir spec '5/m brust=3'\n", status=2)
        for words in ["5/m", "0/s"], ["100", "5/m"], ["brust=3"], ["brust", "20"]:
            self.assertNotIn("quote", self.run_weir("spec", *words).stderr)

    def test_long_text_is_cut_around_the_caret(self):
        text = ", ".join(["100/s burst=20"] * 5 + ["100/s bust=20"] + ["100/s burst=20"] * 5)
        lines = self.run_weir("spec", text).stderr.splitlines()
        self.assertTrue(all(len(line) <= 80 for line in lines), lines)
        self.assertTrue(lines[0].startswith("...") and lines[0].endswith("..."), lines)
        self.assertEqual(lines[1].index("^"), lines[0].index("bust=20"))

    def test_caret_counts_characters_not_bytes(self):
        lines = self.run_weir("spec", "5/s name=\u00e4\u00f6 brust=1").stderr.splitlines()
        self.assertEqual(lines[1].index("^"), lines[0].index("brust"))

    def test_control_characters_do_not_reach_the_terminal(self):
        self.assertNotIn("\x1b", self.run_weir("spec", "5/s \x1b[31m").stderr)

    def test_usage(self):
        self.check(["spec"], "", "weir spec: which limit? For example: weir spec '100/s burst=20'\n", status=2)
        self.check(["spec", "--plto", "x", "5/m"], "", "weir spec: unknown option '--plto'; did you mean --plot?\n",
                   status=2)
        self.check(["spec", "-x", "5/m"], "", "weir spec: unknown option '-x'; weir spec --help lists them\n",
                   status=2)
        self.check(["spec", "5/m", "--plot"], "", "weir spec: --plot needs a value; weir spec --help tells which\n",
                   status=2)
        self.check(["spec", "--json=yes", "5/m"], "",
                   "weir spec: no value belongs to this option: '--json=yes'\n", status=2)
        self.check(["spec", "--json", "--chart", "5/m"], "",
                   "weir spec: --json, --chart and --plot - all want standard output; choose one\n", status=2)


class Json(command.CommandTest):
    def test_numbers(self):
        limit = json.loads(self.output("spec", "--json", "100/s burst=20"))["policies"][0]["limits"][0]
        self.assertEqual(limit, {
            "text": "100/s burst=20", "algo": "token-bucket", "count": 100, "period_ns": 10**9,
            "interval_ns": 10**7, "rest_ns": 2 * 10**8, "burst": 20, "initial": 20, "at_once": 20,
            "most": {"second": 120, "minute": 6020, "hour": 360020, "day": 8640020, "week": 60480020},
        })

    def test_every_algorithm_is_a_document(self):
        for text in TEXTS:
            with self.subTest(text):
                policies = json.loads(self.output("spec", "--json", text))["policies"]
                self.assertEqual([len(policy["limits"]) for policy in policies], [1])

    def test_warmup(self):
        limit = json.loads(self.output("spec", "--json", "1/s algo=warmup warmup=5s"))["policies"][0]["limits"][0]
        for key, value in {"threshold": 2.5, "full": 5, "stable_ns": 10**9, "edge_ns": 3 * 10**9, "cold": 3,
                           "warmup_ns": 5 * 10**9, "shape": "above"}.items():
            self.assertEqual(limit[key], value, key)

    def test_which_limit_decides(self):
        out = self.output("spec", "--json", "100/s burst=200, 10k/h, 200k/d")
        together = json.loads(out)["policies"][0]["together"]
        self.assertEqual(together["at_once"], {"most": 200, "limit": 0})
        self.assertEqual(together["day"], {"most": 250000, "limit": 1})
        self.assertEqual(together["week"], {"most": 1600000, "limit": 2})

    def test_no_bound_is_null(self):
        policy = json.loads(self.output("spec", "--json", "unlimited"))["policies"][0]
        self.assertIsNone(policy["limits"][0]["at_once"])
        self.assertEqual(policy["together"]["day"], {"most": None, "limit": None})

    def test_names_are_escaped(self):
        limit = json.loads(self.output("spec", "--json", "5/s name=a\"b"))["policies"][0]["limits"][0]
        self.assertEqual(limit["name"], "a\"b")


if __name__ == "__main__":
    command.main()
