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

/* Is its first word one of these, with | between them? */
bool dump_line_is(struct slice line, const char *kinds);

/* FREEZE (with an address) or THAW (without). */
bool dump_freeze(const char *command, struct cli_client *client, const struct dump_part *part,
                 const char *url);

/* Where lines come from, and who gets them: without their ends, in the order of a dump; false: stop. */
struct dump_source {
    const char *command;
    struct cli_client *client;
    bool (*each)(void *arg, struct slice line);
    void *arg;
};
bool dump_read_head(const struct dump_source *source);
/* One policy: what it is, and its tables with their keys. `definition`: without the keys. */
bool dump_read_policy(const struct dump_source *source, const struct dump_part *part, bool definition);
/* Keys of RL.* and CL.THROTTLE, if there are any. */
bool dump_read_clients(const struct dump_source *source);

#endif
