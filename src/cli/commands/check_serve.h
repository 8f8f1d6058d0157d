/* SPDX-License-Identifier: MIT */
/*
 * weir check: what weir serve would refuse, and what somebody should know before a reload, although the file
 * has no mistake.
 */
#ifndef WEIR_CLI_COMMANDS_CHECK_SERVE_H
#define WEIR_CLI_COMMANDS_CHECK_SERVE_H

#include "cli/client.h"
#include "config/config.h"

/* Could a server begin with it? Makes all of it but the sockets, and tells why not. */
bool check_serve(const struct config *config, config_complain *complain, void *arg);

/* Says each with `tell`: nowhere to listen, no password where others can come, users who may nothing that is
 * there, nobody who may take or change anything. `client` may be NULL: then memory is not compared. */
typedef void check_tell(void *arg, const char *text);
void check_notes(const struct config *config, struct cli_client *client, check_tell *tell, void *arg);

#endif
