/* SPDX-License-Identifier: MIT */
/*
 * What the commands that ask a server share: their options, questions, fields of an answer, answers as JSON.
 * What fails is printed as "weir COMMAND: ...".
 */
#ifndef WEIR_CLI_ASK_H
#define WEIR_CLI_ASK_H

#include <stdio.h>

#include "cli/client.h"
#include "cli/json.h"

/* ---- options ---- */

/* As the command line says. */
extern struct ask_options {
    const char *server;
    bool json;
} ask_options;

/* Rows of the table of options. */
#define ASK_SERVER                                                                                           \
    OPT_TEXT("server", 's', &ask_options.server, "URL",                                                      \
             "redis://[user:password@]host:port or unix:///path (default: WEIR_URL, else "                   \
             "redis://127.0.0.1:9049); rediss:// is with TLS, whose options are in weir(1)"),                \
        OPT_TEXT("cacert", 0, &client_tls.cacert, "FILE", NULL),                                             \
        OPT_TEXT("cert", 0, &client_tls.cert, "FILE", NULL),                                                 \
        OPT_TEXT("key", 0, &client_tls.key, "FILE", NULL),                                                   \
        OPT_FLAG("insecure", 0, &client_tls.insecure, NULL)
#define ASK_JSON OPT_FLAG("json", 0, &ask_options.json, "one JSON document on standard output")

/* ---- questions ---- */

#define ASK_WORDS_MAX   512
#define ASK_NUMBERS_MAX 40

/* What does not fit is counted, and refused by ask_tell. */
struct ask {
    struct slice words[ASK_WORDS_MAX];
    size_t count;
    char numbers[ASK_NUMBERS_MAX][24];
    size_t number_count;
};
void ask_add(struct ask *ask, const char *word);
void ask_add_slice(struct ask *ask, struct slice word);
void ask_add_number(struct ask *ask, int64_t number);
/* Nothing if `word` is NULL. */
void ask_add_option(struct ask *ask, const char *name, const char *word);
/* Begins a question; the last word is NULL. */
__attribute__((sentinel)) void ask_begin(struct ask *ask, const char *word, ...);

/* A connection to the server of the options. `patient`: an answer may take as long as it takes. NULL: said
 * why. */
struct cli_client *ask_open(const char *command, const char *server, bool patient);

/* The answer, which lasts until the next question; NULL after a message, also if it is an error. */
const struct resp_value *ask_tell(const char *command, struct cli_client *client, const struct ask *ask);
/* The same for words that end with NULL. */
__attribute__((sentinel)) const struct resp_value *ask_words(const char *command, struct cli_client *client,
                                                             const char *word, ...);
/* Without a message; an error is an answer. `client` may be NULL. */
__attribute__((sentinel)) const struct resp_value *ask_quietly(struct cli_client *client, const char *word,
                                                               ...);

/* Asks one thing and is done: prints the answer as JSON, or lets `print` do it, which returns the exit
 * status. */
int ask_once(const char *command, const struct ask *ask, int (*print)(const struct resp_value *value));
int ask_print_nothing(const struct resp_value *value);

/* ---- answers ---- */

/* Fields of a map, which may be NULL; 0, false or an empty text if there is none. */
int64_t ask_number(const struct resp_value *map, const char *name);
int64_t ask_number_or(const struct resp_value *map, const char *name, int64_t without);
bool ask_truth(const struct resp_value *map, const char *name);
struct slice ask_text(const struct resp_value *map, const char *name);
bool ask_has(const struct resp_value *map, const char *name); /* and it is not null */

/* The value behind "name:" in an answer of INFO. */
struct slice ask_info(const struct resp_value *info, const char *name);

/* Writes text of the server's to a terminal, whatever is in it. */
void ask_put(FILE *file, struct slice text);
int ask_width(struct slice text); /* its columns there */
/* Words of the command line, argv[from] to before argv[to], with spaces between them, to standard output. */
void ask_put_words(char **argv, int from, int to);

/* A server speaks to programs: "WEIR.POLICY LIST shows them". Writes that in the words that people can type:
 * "weir policy list shows them". What stands between ' and ' is left as it is. One line without its end, or
 * any number of lines. */
void ask_put_hint(FILE *file, const char *text, size_t len);
void ask_put_hints(FILE *file, const char *text, size_t len);

/* The whole answer as a JSON document. */
void ask_print_json(const struct resp_value *value);

/* When something that begins now ends: " until 18:45 UTC", with the day if it is another one; "" if `time` is
 * NULL. */
#define ASK_UNTIL_MAX 64
const char *ask_until(const char *time, char text[static ASK_UNTIL_MAX]);

#endif
