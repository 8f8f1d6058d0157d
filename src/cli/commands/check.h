/* SPDX-License-Identifier: MIT */
/*
 * weir check: what its parts know of the file that is checked, and how they say what they find.
 */
#ifndef WEIR_CLI_COMMANDS_CHECK_H
#define WEIR_CLI_COMMANDS_CHECK_H

#include "cli/ask.h"
#include "config/config.h"

extern struct check_run {
    const char *file;
    struct config *config;
    struct cli_client *client;     /* NULL: no server was asked */
    const struct resp_value *list; /* its policies; NULL: it did not say */
    struct cli_client *other;      /* the same server: a question of its own does not end the list */
    struct weir_error err;         /* why not */
    bool told_mistake;
    int width; /* of the longest name */
    struct json document;
} check;

/* Says what is wrong with the file; line 0: with all of it. Always false. */
__attribute__((format(printf, 2, 3))) bool check_mistake(struct config_place place, const char *format, ...);

/* Says what is right, but should be known. */
__attribute__((format(printf, 1, 2))) void check_note(const char *format, ...);

#endif
