/* SPDX-License-Identifier: MIT */
/*
 * What weir dump and weir load share: the lines of a dump as a server tells them.
 * What is wrong is said on standard error, as "weir COMMAND: ...".
 */
#ifndef WEIR_CLI_TRANSFER_DUMP_READ_H
#define WEIR_CLI_TRANSFER_DUMP_READ_H

#include "cli/client.h"

/* Which keys. */
struct dump_part {
    const char *policy;    /* NULL: all policies */
    const char *from, *to; /* hashes, 16 hex digits; NULL: all */
    const char *prefix;    /* or NULL */
};
/* Reads "FROM-TO" into `part`, whose texts point into `room`. */
#define DUMP_HASHES_MAX 40
bool dump_read_hashes(const char *command, const char *text, char room[static DUMP_HASHES_MAX],
                      struct dump_part *part);

/* As client_tell, for words of any bytes. */
const struct resp_value *dump_tell(const char *command, struct cli_client *client, const struct slice *words,
                                   size_t count);
/* Of words that are texts; the last is NULL. */
const struct resp_value *dump_say(const char *command, struct cli_client *client, const char *const *words);

/* FREEZE (with an address) or THAW (without). */
bool dump_freeze(const char *command, struct cli_client *client, const struct dump_part *part,
                 const char *url);

/* Lines without their ends, in the order of a dump; false: stop. */
typedef bool dump_line(void *arg, struct slice line);
bool dump_read_head(const char *command, struct cli_client *client, dump_line *each, void *arg);
/* One policy: what it is, and its tables with their keys. `definition`: without the keys. */
bool dump_read_policy(const char *command, struct cli_client *client, const struct dump_part *part,
                      bool definition, dump_line *each, void *arg);

/* Keys of RL.* and CL.THROTTLE, if there are any. */
bool dump_read_clients(const char *command, struct cli_client *client, dump_line *each, void *arg);

/* Names of all policies, each a line. */
bool dump_read_names(const char *command, struct cli_client *client, dump_line *each, void *arg);

#endif
