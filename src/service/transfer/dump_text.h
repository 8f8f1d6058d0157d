/* SPDX-License-Identifier: MIT */
/* clang-format off */
/*
 * The text of weir dump, a line at a time. Pure: for server and command alike.
 *
 *   weir-dump 1                                      the first line: the version of this text
 *   server weir 0.6.0 RUN-ID
 *   time 2026-11-15T20:06:40.123Z 1794859600123      milliseconds since 1970
 *   policy "api"
 *   limits "100/s burst=200, 10k/h"
 *   settings mode=enforce percent=100 on_full=share ttl_ms=60000 ttl_max_ms=86400000 overrun=debt
 *            ids_ns=300000000000                     all on one line
 *   override "org:acme" "1000/s" 1800000000000 "launch"  key, limits, until when in ms (0: no end), reason
 *   override "internal:*" "unlimited" 0 ""
 *   table "" words #KEY TIME WALL 4096 "100/s"        of a prefix: its name; hash key in 32 hex digits,
 *                                                     region time in ns and wall clock in ms at that moment,
 *                                                     capacity, limits
 *   key #8f3a66c01b5d2e70 0 0 512 # used 37 of 200; full in 4.2 s
 *   key "user:1" 0 0 512                              by name, where names are known
 *   spent "user:2" 37 120                             only what is spent of each limit is known
 *   shared #0000000000000000 #ffffffffffffffff 0 0 9  what keys of these hashes share that found no room,
 *                                                     before the keys of the table; shared-spent: only units
 *   clients cell #KEY 1794859600123                   keys of CL.THROTTLE follow: hash key, wall clock
 *   cell #8f3a66c01b5d2e70 4200000000                 each with the nanoseconds until it is full
 *   clients rl #KEY #KEY 1794859600123                buckets of RL.* follow
 *   rl #8f3a66c01b5d2e70 #0123456789abcdef 9 1794859600123 -1 60000   what is left of it, since when, its
 *                                                     session, and milliseconds until it is forgotten
 *   end 2 9a8b7c6d                                    keys, and CRC-32C of all bytes before this line
 *
 * Words are separated by blanks. In quotes stand any bytes: \" \\ and \xNN, and UTF-8 that can be printed as
 * it is. What follows "# " is for people. A line of another kind is an error: a later version says so in the
 * first line.
 */
/* clang-format on */
#ifndef WEIR_SERVICE_TRANSFER_DUMP_TEXT_H
#define WEIR_SERVICE_TRANSFER_DUMP_TEXT_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/hash.h"

#define DUMP_VERSION   "1"
#define DUMP_LINE_MAX  24000 /* bytes of a line */
#define DUMP_WORDS_MAX 1100  /* words of a line */

/* Splits a line without its end. `room` has DUMP_LINE_MAX bytes and holds what quotes have inside. Gives how
 * many words there are (0: an empty line, or nothing but a comment), or -1: it is no line of a dump. */
int weir_dump_split(struct slice line, char *room, struct slice *words);

void weir_dump_quote(struct buffer *out, const char *bytes, size_t len);
void weir_dump_hex(struct buffer *out, uint64_t number); /* 16 digits */

/* #0123456789abcdef, and the same for a key of the hash, with 32 digits. */
bool weir_dump_read_hash(struct slice word, uint64_t *hash);
bool weir_dump_read_key(struct slice word, struct hash_key *key);

/* Puts an end behind lines that gave `crc`, and reads it. */
void weir_dump_end(struct buffer *out, uint64_t keys, uint32_t crc);
bool weir_dump_read_end(struct slice line, uint64_t *keys, uint32_t *crc);

#endif
