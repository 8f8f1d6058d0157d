/* SPDX-License-Identifier: MIT */
/*
 * What weir load does: from a file, and from another server.
 */
#ifndef WEIR_CLI_TRANSFER_LOAD_H
#define WEIR_CLI_TRANSFER_LOAD_H

#include <stdio.h>

#include "cli/ask.h"
#include "cli/transfer/dump.h"

struct load_options {
    struct ask_options common;
    bool dry_run, no_elapsed;
    const char *from, *hashes, *as;
    struct dump_part part;
};

struct load_done {
    int64_t keys, full;
    int64_t paused_ns; /* while keys were refused */
};

/* A file that can be read twice: first all of it is looked at. false: said why. */
bool load_file(const struct load_options *options, FILE *file, struct load_done *done);
/* From the server `from` to that of -s. */
bool load_move(const struct load_options *options, struct load_done *done);

#endif
