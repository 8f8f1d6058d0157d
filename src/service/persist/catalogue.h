/* SPDX-License-Identifier: MIT */
/*
 * The catalogue that goes with a store: all that must be known before its records can be read again, and all
 * that was set by command. It is written anew, as a whole, with every change.
 *
 *   "WEIRNOTE", version, the last serial that was given, room of the records, mode for all,
 *   blocks: hash keys of requests, reservations, steps; the table of client keys; policy tables; policies;
 *   what users hold of request ids, reservations, steps and client keys: a block for each, with a number for
 *   each user, whose upper half tells which one, its lower half which part of them (fair_share.h);
 *   1 if time is that of --test-clock: nothing, if it is the usual one. Behind the other parts of a policy
 * stands 1 if it is one of a fleet: its coordinator, perhaps with a password, is the file's alone
 *
 * Numbers are 64 bits, little-endian; a block is its length and its bytes; lists are their count and a block
 * for each element, so that a later version can add to the end of it. Times are store time (0: none,
 * WEIR_FOREVER: not known yet), but for ends of modes and overrides, which are of the wall clock.
 *
 * Who reads trusts nothing: a catalogue that makes no sense stops the start, and says so.
 */
#ifndef WEIR_SERVICE_PERSIST_CATALOGUE_H
#define WEIR_SERVICE_PERSIST_CATALOGUE_H

#include "service/service.h"

#define CATALOGUE_VERSION 2
#define CATALOGUE_MAX     ((size_t)60 << 20) /* bytes; see FRAME_BYTES_MAX */

#define CATALOGUE_TEST_CLOCK 1
#define CATALOGUE_FLEET      1

/* Of everything, with the policies of that snapshot. Under `change`. false: out of memory, or too large. */
bool weir_catalogue_write(struct service *service, const struct snapshot *snapshot, struct buffer *out);

/* ---- reading ---- */

struct catalogue_reader { /* what is left of a catalogue, or block */
    const unsigned char *at, *end;
    bool wrong; /* it makes no sense: everything that is read from now on is 0 */
};

/* The first part; the rest stays to be read. The bytes must stay. */
struct catalogue {
    uint64_t last_serial;
    uint64_t requests, reservations, smyte; /* records that there was room for */
    bool mode_for_all;
    enum policy_mode all_mode;
    int64_t all_until_ms; /* wall clock */
    struct slice request_keys, reservation_keys, step_keys, client_keys;
    struct catalogue_reader rest;
};
/* false: it makes no sense, or is of a later version; `err` says so. */
bool weir_catalogue_read(const void *bytes, size_t len, struct catalogue *catalogue, struct weir_error *err);
/* The table of a block that weir_catalogue_write made, not kept yet; and how far its time is ahead. */
struct policy_table *weir_catalogue_policy_table(struct slice block, int64_t offset_ns, int64_t *lead_ns,
                                                 struct weir_error *err);
/* Policy tables, which are added to the store, and policies, into an empty snapshot that is not sealed. */
bool weir_catalogue_policies(struct service *service, const struct catalogue *catalogue,
                             struct snapshot *snapshot, struct weir_error *err);

#endif
