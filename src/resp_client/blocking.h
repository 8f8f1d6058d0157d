/* SPDX-License-Identifier: MIT */
/*
 * Asking one server, one question at a time, by the thread that waits for the answer: a loop around one
 * connection (connection.h).
 */
#ifndef WEIR_RESP_CLIENT_BLOCKING_H
#define WEIR_RESP_CLIENT_BLOCKING_H

#include "resp_client/connection.h"

struct resp_blocking_client;

/* Nothing is connected yet. NULL: out of memory or files, or those of TLS are wrong: `err` says so. */
struct resp_blocking_client *weir_resp_blocking_new(const struct server_url *url, int64_t connect_ns,
                                                    struct weir_error *err);
void weir_resp_blocking_free(struct resp_blocking_client *client);

/* Connects and logs in. false: weir_resp_blocking_failure says why. */
bool weir_resp_blocking_connect(struct resp_blocking_client *client);
/* Asks, until a time of weir_resp_client_now. The answer lasts until the next question; an error of the
 * server is one as well. NULL: weir_resp_blocking_failure says why. */
const struct resp_value *weir_resp_blocking_ask(struct resp_blocking_client *client,
                                                const struct slice *words, size_t count, int64_t deadline_ns);
const struct resp_failure *weir_resp_blocking_failure(const struct resp_blocking_client *client);

#endif
