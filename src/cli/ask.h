/* SPDX-License-Identifier: MIT */
/*
 * What the commands that ask a server share: reading fields of an answer, and answers as JSON.
 */
#ifndef WEIR_CLI_ASK_H
#define WEIR_CLI_ASK_H

#include <stdio.h>

#include "cli/client.h"
#include "cli/json.h"

#define ASK_WORDS_MAX 96 /* words of a question */

/* A question in the making. */
struct ask {
    const char *words[ASK_WORDS_MAX];
    size_t count;
};
bool ask_add(struct ask *ask, const char *word); /* false: too many */

/* Options of every command here, for its table. */
struct ask_options {
    bool json, help;
    const char *server;
};
#define ASK_OPTIONS(options)                                                                                 \
    {"server", 's', NULL, &(options).server}, {"json", 0, &(options).json, NULL},                            \
    {                                                                                                        \
        "help", 'h', &(options).help, NULL                                                                   \
    }
#define ASK_HELP                                                                                             \
    "  -s, --server URL     redis://[user:password@]host:port or unix:///path\n"                             \
    "                       (default: WEIR_URL, else redis://127.0.0.1:9049)\n"                              \
    "      --json           one JSON document on standard output\n"                                          \
    "  -h, --help           this text\n"

/* Fields of a map; 0, false or an empty text if there is none. */
int64_t ask_number(const struct resp_value *map, const char *name);
bool ask_truth(const struct resp_value *map, const char *name);
struct slice ask_text(const struct resp_value *map, const char *name);
bool ask_has(const struct resp_value *map, const char *name); /* and it is not null */
/* What INFO says of it; empty: nothing. */
struct slice ask_info(struct slice info, const char *name);

/* Writes text of the server's to a terminal, whatever is in it. */
void ask_put(FILE *file, struct slice text);
/* Its columns there. */
int ask_width(struct slice text);

/* The whole answer as a JSON document. */
void ask_print_json(const struct resp_value *value);

/* Asks one thing and is done: prints the answer as JSON, or lets `print` do it, which gives the exit status.
 */
int ask_once(const char *command, const struct ask_options *options, const struct ask *ask,
             int (*print)(const struct resp_value *value));
int ask_print_nothing(const struct resp_value *value);

/* When something that begins now ends: " until 18:45 UTC", with the day if it is another one; "" if `time` is
 * NULL. */
#define ASK_UNTIL_MAX 64
const char *ask_until(const char *time, char text[static ASK_UNTIL_MAX]);

#endif
