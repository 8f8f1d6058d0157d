/* SPDX-License-Identifier: MIT */
/*
 * When somebody asks, and for how much: a list as a person writes it.
 *
 *     arrivals = item { "," item } [ "#" comment ] .
 *     item     = time [ "*" n ] | time ".." [ time ] "/" step [ "*" n ] .
 *
 * 1s*5 asks once for 5 units; 0..10s/100ms asks every 100 ms, at both ends, too. Times are written as the
 * periods of limits are, but without spaces inside, so that a forgotten comma is noticed; 0 is 0. n is a
 * count as limits have them: 5, 2k. A range without an end goes on until `until_ns`. Times may go back.
 */
#ifndef WEIR_SIM_ARRIVALS_H
#define WEIR_SIM_ARRIVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRIVALS_MAX 10000000

/* `count` arrivals of n units each, `step_ns` apart. */
struct arrivals_item {
    int64_t from_ns, step_ns, count, n;
};

struct arrivals {
    struct arrivals_item *items;
    size_t count, capacity;
    int64_t total;    /* arrivals */
    int64_t until_ns; /* later ones are left out; WEIR_FOREVER: none */
    int64_t n;        /* units where the item says nothing */
};

struct arrivals_fault {
    int32_t column; /* from 1 */
    char text[160]; /* what to write, a sentence */
};

void arrivals_init(struct arrivals *arrivals, int64_t n, int64_t until_ns);
void arrivals_fini(struct arrivals *arrivals);

/* Appends the arrivals of a list, which ends at the end of the line. On a mistake gives false and says what
 * is wrong. */
bool arrivals_read(struct arrivals *arrivals, const char *line, struct arrivals_fault *fault);

/* Reads how many units are asked for: 5, 2k, 1.5M. false: that is no whole number from 1 on. */
bool arrivals_read_n(const char *text, size_t len, int64_t *n);

#endif
