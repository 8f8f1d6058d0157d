/* SPDX-License-Identifier: MIT */
/*
 * Writes policies as text (dump_text.h): what they are, and what each of their keys has spent. Beside those
 * who use them: each key is exact, all of them together are of a moment only if the policy is frozen.
 *
 * Not in a dump are request ids, reservations and candidates: weir backup has all of it. Keys of RL.* and
 * CL.THROTTLE are of no policy: dump_clients.h.
 */
#ifndef WEIR_SERVICE_TRANSFER_DUMP_H
#define WEIR_SERVICE_TRANSFER_DUMP_H

#include "service/service.h"
#include "table/persist/export.h"

/* The first lines of a dump. */
void weir_dump_head(const struct service *service, int64_t now_ns, struct buffer *out);

/* The lines that say what a policy is, up to its first table. */
void weir_dump_definition(const struct policy *policy, struct buffer *out);

/* The tables of a policy by number: its own, then those of its prefixes. *prefix is "" for its own. NULL:
 * there is none. */
struct policy_table *weir_dump_table(const struct policy *policy, size_t number, struct slice *prefix);
/* The line in front of its keys. */
void weir_dump_table_line(const struct service *service, const struct policy_table *ptable,
                          struct slice prefix, int64_t now_ns, struct buffer *out);
/* Lines of the next keys in the range, about `most`, and moves it on (weir_table_export). */
bool weir_dump_keys(const struct policy_table *ptable, int64_t now_ns, struct export_range *range,
                    size_t most, struct buffer *out, uint64_t *keys);

/* Lines of what keys of the range share that found no room; before those of the keys. */
bool weir_dump_shared(const struct policy_table *ptable, int64_t now_ns, const struct export_range *range,
                      struct buffer *out);

/* A whole dump of one policy, from the first line to the end. false: `write` said so, or no memory. */
bool weir_dump_policy(struct service *service, const struct policy *policy,
                      bool (*write)(void *arg, const char *bytes, size_t len), void *arg,
                      struct weir_error *err);

#endif
