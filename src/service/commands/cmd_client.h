/* SPDX-License-Identifier: MIT */
/*
 * What others need of the commands about clients.
 */
#ifndef WEIR_SERVICE_COMMANDS_CMD_CLIENT_H
#define WEIR_SERVICE_COMMANDS_CMD_CLIENT_H

#include "service/commands/call.h"

#define REDIS_VERSION   "7.4.0" /* whose commands and replies are meant; clients choose features by it */
#define CLIENT_TEXT_MAX 128     /* bytes of a name that a client gives itself or its library */

/* Gives the session a name, "" for none. false: an error was answered, and nothing has changed. */
bool weir_client_set_name(struct call *call, struct slice name);

/* One line of CLIENT LIST, with its line break. By the session's own thread, or while that stands still. */
void weir_client_line(const struct session *session, int64_t now_ns, struct buffer *out);

#endif
