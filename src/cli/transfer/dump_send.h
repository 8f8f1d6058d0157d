/* SPDX-License-Identifier: MIT */
/*
 * A dump to a server, line by line.
 */
#ifndef WEIR_CLI_TRANSFER_DUMP_SEND_H
#define WEIR_CLI_TRANSFER_DUMP_SEND_H

#include "cli/client.h"

struct dump_sender;
struct dump_sent {
    bool made;          /* the policy was not there */
    int64_t keys, full; /* full: for which there was no room */
};
/* `no_elapsed`: no time has passed since the dump. */
struct dump_sender *dump_sender_new(const char *command, struct cli_client *client, bool no_elapsed);
void dump_sender_free(struct dump_sender *sender);
const struct dump_sent *dump_sender_sent(const struct dump_sender *sender);
/* Any line of a dump. */
bool dump_send(void *sender, struct slice line);
/* Sends what is left; and ends the policy that is being loaded. */
bool dump_sender_flush(struct dump_sender *sender);
bool dump_sender_finish(struct dump_sender *sender);

#endif
