/* SPDX-License-Identifier: MIT */
/*
 * weir check: what WEIR.POLICY LIST does not tell of a policy, compared with the file.
 */
#ifndef WEIR_CLI_COMMANDS_CHECK_DIFFERENCES_H
#define WEIR_CLI_COMMANDS_CHECK_DIFFERENCES_H

#include "base/text.h"
#include "cli/client.h"
#include "config/config.h"

/* A part of what is different; a semicolon stands before it unless it is the first. */
__attribute__((format(printf, 2, 3))) void check_add(struct text *text, const char *format, ...);

/* Asks for on_full and the overrides, and says in `text` what is different. Of a server that does not tell
 * nothing is said. */
void check_differences(struct cli_client *client, const struct config_policy *policy, struct text *text);

#endif
