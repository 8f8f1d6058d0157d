/* SPDX-License-Identifier: MIT */
/*
 * What cmd_data.c and cmd_dump.c share.
 */
#ifndef WEIR_SERVICE_COMMANDS_CMD_DATA_H
#define WEIR_SERVICE_COMMANDS_CMD_DATA_H

#include "service/commands/call.h"
#include "table/persist/export.h"

/* OK, or the error. */
void weir_data_answer(struct call *call, bool done, const struct weir_error *err);
/* [HASH from to] at the end of a command. false: an error was answered. */
bool weir_data_range(struct call *call, size_t at, struct export_range *range);

extern const struct command weir_dump_parts[], weir_load_parts[];

#define HASH_DOCS                                                                                            \
    {                                                                                                        \
        .name = "hashes", .type = ARG_BLOCK, .token = "HASH", .flags = ARG_OPTIONAL, .parts = hash_parts     \
    }
/* All of them are done by the job thread. */
#define DATA_PART(NAME, SUMMARY, ARITY, VERB, RUN)                                                           \
    COMMAND(NAME, SUMMARY, "weir", ARITY, VERB, RUN), .flags = CMD_JOB

#endif
