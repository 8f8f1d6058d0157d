/* SPDX-License-Identifier: MIT */
/*
 * Keys whose limits come with each call, as lines of a dump (dump_text.h): of CL.THROTTLE and its kin how
 * long each needs to be full, of RL.* the buckets. Where they are loaded their tables need the same keys of
 * the hash: nothing else says of which name they are, and requests use these tables without a snapshot, so
 * that they cannot give way to others. Hence they move between servers that share a hash_key_file.
 */
#ifndef WEIR_SERVICE_TRANSFER_DUMP_CLIENTS_H
#define WEIR_SERVICE_TRANSFER_DUMP_CLIENTS_H

#include "service/service.h"
#include "table/persist/export.h"

/* The two lines in front of them. */
void weir_dump_clients(const struct service *service, int64_t now_ns, struct buffer *out);
/* Lines of the next ones, about `most`; moves on as weir_dump_keys does, and: false: out of memory. */
bool weir_dump_cells(const struct service *service, int64_t now_ns, struct export_range *range, size_t most,
                     struct buffer *out);
/* *cursor becomes 0 behind the last. */
bool weir_dump_buckets(const struct service *service, int64_t now_ns, uint64_t *cursor, size_t most,
                       struct buffer *out);

/* ---- and back ---- */

enum clients_kind { CLIENTS_NONE, CLIENTS_CELLS, CLIENTS_BUCKETS };

/* Reads a line in front of keys. CLIENTS_NONE: `err` says why they cannot come here. `elapsed_ms`: since the
 * dump, by the wall clocks. */
enum clients_kind weir_clients_begin(const struct service *service, struct slice line, int64_t *elapsed_ms,
                                     struct weir_error *err);
/* Brings one in. `bring` false: only looks. *came: there was room. */
bool weir_clients_line(struct service *service, enum clients_kind kind, int64_t elapsed_ms, struct slice line,
                       bool bring, bool *came, struct weir_error *err);

#endif
