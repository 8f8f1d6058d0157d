/* SPDX-License-Identifier: MIT */
/*
 * A client for the commands that ask a server: connects, logs in, asks one thing at a time and waits for the
 * answer. What fails is told in one line, which never shows a password.
 *
 *     struct cli_client *client = client_open(url, &err);
 *     const struct resp_value *value = client ? client_ask(client, words, count, &err) : NULL;
 */
#ifndef WEIR_CLI_CLIENT_H
#define WEIR_CLI_CLIENT_H

#include "resp/reply.h"
#include "weir.h"

#define CLIENT_URL        "redis://127.0.0.1:9049"
#define CLIENT_CONNECT_MS 5000
#define CLIENT_ANSWER_MS  30000

struct cli_client;

/* For rediss://, as the command line says. */
extern struct client_tls {
    const char *cacert, *cert, *key;
    bool insecure;
} client_tls;

/* To `url`, or if it is NULL to $WEIR_URL, else to CLIENT_URL. Speaks version 3. NULL: `err` says why. */
struct cli_client *client_open(const char *url, struct weir_error *err);
void client_close(struct cli_client *client); /* NULL is fine */

/* "redis://127.0.0.1:9049", without user and password. */
const char *client_shown(const struct cli_client *client);

/* How long an answer may take from now on; below 0: as long as it takes. */
void client_patience(struct cli_client *client, int64_t answer_ms);

/*
 * Asks, and gives the answer, which lasts until the next question. An error of the server is an answer of
 * type RESP_ERROR. NULL: the connection is of no use any more, and `err` says why.
 */
const struct resp_value *client_ask(struct cli_client *client, const struct slice *words, size_t count,
                                    struct weir_error *err);

#endif
