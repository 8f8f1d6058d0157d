/* SPDX-License-Identifier: MIT */
/*
 * The server's part of the store's catalogue (data/catalogue.h): what its tables belong to, and all that was
 * set by command. The tables are that of client keys, then the policy tables; behind them
 *
 *   room of the records, mode for all, hash keys of requests, reservations, steps; policies;
 *   what users hold of request ids, reservations, steps and client keys: a block for each, with a number for
 *   each user, whose upper half tells which one, its lower half which part of them (fair_share.h);
 *   1 if time is that of --test-clock: nothing, if it is the usual one. Behind the other parts of a policy
 * stands 1 if it is one of a fleet: its coordinator, perhaps with a password, is the file's alone; or 2 if
 * its keys are addresses, or prefixes of them: tiers and lists are the file's alone, too
 *
 * Ends of modes and overrides are of the wall clock.
 */
#ifndef WEIR_SERVICE_PERSIST_CATALOGUE_H
#define WEIR_SERVICE_PERSIST_CATALOGUE_H

#include "data/catalogue.h"
#include "service/service.h"

#define CATALOGUE_TEST_CLOCK 1
#define CATALOGUE_FLEET      1
#define CATALOGUE_ADDRESS    2

/* Of everything, with the policies of that snapshot. Under `change`. false: out of memory, or too large. */
bool weir_server_catalogue_write(struct service *service, const struct snapshot *snapshot,
                                 struct buffer *out);

/* The first part; tables and policies stay to be read. The bytes must stay. */
struct server_catalogue {
    struct catalogue tables; /* the policy tables, and policies in its rest */
    struct catalogue_table client_keys;
    int64_t requests, reservations, smyte; /* records that there was room for */
    bool mode_for_all;
    enum policy_mode all_mode;
    int64_t all_until_ms; /* wall clock */
    struct slice request_keys, reservation_keys, step_keys;
};
/* false: it makes no sense, or is of a later version; `err` says so. */
bool weir_server_catalogue_read(const void *bytes, size_t len, struct server_catalogue *catalogue,
                                struct weir_error *err);
/* A policy table as the catalogue has it, not kept yet. */
struct policy_table *weir_server_catalogue_table(const struct service *service,
                                                 const struct catalogue_table *table, struct weir_error *err);
/* Policy tables, which are added to the store, and policies, into an empty snapshot that is not sealed. */
bool weir_server_catalogue_policies(struct service *service, const struct server_catalogue *catalogue,
                                    struct snapshot *snapshot, struct weir_error *err);

#endif
