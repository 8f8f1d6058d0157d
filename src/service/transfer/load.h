/* SPDX-License-Identifier: MIT */
/*
 * Brings keys of a dump in (dump_text.h), policy by policy. By the job thread alone.
 *
 *   begin   the policy: made, if there is none of that name; then nobody can use it before the end
 *   table   what follows are keys of this table
 *   keys    pages of them, numbered from 1: the last one may be said again, and is not counted again
 *   end
 *
 * Keys are known by hashes, so a table that is loaded needs the hash key of the one that was dumped. One that
 * nobody has used yet gives way to a new one with that key, and with the region time of the dump, so that
 * states are taken over as they are. One that was used stays, and keys come to it by their names, if the dump
 * has them: by a hash it could not be told what they have spent on both sides.
 *
 * Law: what is loaded is never less spent than it was (table/persist/export.h). Time between dump and load
 * counts, by the wall clocks of both, unless told otherwise.
 */
#ifndef WEIR_SERVICE_TRANSFER_LOAD_H
#define WEIR_SERVICE_TRANSFER_LOAD_H

#include "service/service.h"

#define LOAD_ID_MAX 64
#define LOADS_MAX   4 /* at the same time; another one lets the oldest go */

struct load_name {
    struct slice policy, id; /* the id is the caller's choice */
};

struct load_begin {
    struct slice policy, id;
    const struct slice *lines; /* policy, limits, settings; others are skipped */
    size_t count;
    bool no_elapsed; /* no time has passed */
};
/* *made: there was no such policy. */
bool weir_load_begin(struct service *service, const struct load_begin *begin, bool *made,
                     struct weir_error *err);
bool weir_load_table(struct service *service, const struct load_name *name, struct slice line,
                     struct weir_error *err);

/* Instead of both: keys of RL.* or CL.THROTTLE follow (dump_clients.h). Their policy is called LOAD_CLIENTS.
 */
#define LOAD_CLIENTS "*"
bool weir_load_clients(struct service *service, struct slice id, bool no_elapsed, struct slice line,
                       struct weir_error *err);

struct load_count {
    int64_t keys, full; /* brought in; there was no room for */
};
/* All lines are looked at before the first is brought in. */
bool weir_load_keys(struct service *service, const struct load_name *name, int64_t page,
                    const struct slice *lines, size_t count, struct load_count *done, struct weir_error *err);
/* *total: of all pages. */
bool weir_load_end(struct service *service, const struct load_name *name, struct load_count *total,
                   struct weir_error *err);

void weir_loads_free(struct service *service);

#endif
