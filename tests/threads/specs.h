/* SPDX-License-Identifier: MIT */
/*
 * A limit of every algorithm, and what it may be changed to: a unit every few microseconds, so that clocks
 * which disagree by some microseconds matter.
 */
#ifndef WEIR_TESTS_THREADS_SPECS_H
#define WEIR_TESTS_THREADS_SPECS_H

#include <stdbool.h>

struct specs {
    const char *name;
    const char *limits;
    const char *changes[2]; /* to the same algorithm */
    bool is_word;           /* decided without a lock: takes keep the law to the nanosecond */
};

static const struct specs all_specs[] = {
    {"token-bucket", "200k/s burst=40", {"400k/s burst=20", "100k/s burst=60"}, true},
    {"interval", "200k/s algo=interval", {"400k/s algo=interval", "100k/s algo=interval"}, true},
    {"leaky-bucket",
     "200k/s algo=leaky-bucket queue=30",
     {"400k/s algo=leaky-bucket queue=10", "100k/s algo=leaky-bucket queue=30"},
     true},
    {"smooth",
     "200k/s burst=20 algo=smooth",
     {"400k/s burst=10 algo=smooth", "100k/s burst=30 algo=smooth"},
     true},
    {"warmup",
     "200k/s algo=warmup warmup=200us",
     {"400k/s algo=warmup warmup=100us", "100k/s algo=warmup warmup=400us shape=below"},
     false},
    {"hybrid",
     "200k/s algo=hybrid ratio=1.5 pool=100us",
     {"400k/s algo=hybrid ratio=1.1 pool=100us", "100k/s algo=hybrid ratio=2 pool=200us"},
     false},
    {"fixed-window",
     "40/200us algo=fixed-window",
     {"30/100us algo=fixed-window", "50/300us algo=fixed-window"},
     false},
    {"sliding-window",
     "40/200us algo=sliding-window",
     {"30/100us algo=sliding-window", "50/300us algo=sliding-window"},
     false},
    {"sliding-log",
     "40/200us algo=sliding-log",
     {"30/100us algo=sliding-log", "50/300us algo=sliding-log"},
     false},
    {"step",
     "20/100us burst=40 algo=step",
     {"20/50us burst=30 algo=step", "20/200us burst=60 algo=step"},
     false},
    {"two limits",
     "200k/s burst=40, 30/200us algo=sliding-log",
     {"400k/s burst=20, 50/200us algo=sliding-log", "100k/s burst=60, 40/300us algo=sliding-log"},
     false},
};

enum { SPECS = sizeof all_specs / sizeof all_specs[0] };

#endif
