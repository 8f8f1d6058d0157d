/* SPDX-License-Identifier: MIT */
/*
 * weir check: what policies with `fleet:` cost their coordinator, what passes at worst, and what cannot work.
 */
#ifndef WEIR_CLI_COMMANDS_CHECK_FLEET_H
#define WEIR_CLI_COMMANDS_CHECK_FLEET_H

#include "cli/json.h"
#include "config/config.h"

/* Complains of each that cannot work, naming what does. */
bool check_fleet(const struct config *config, config_complain *complain, void *arg);

/* Two lines of each, under a heading; nothing if there are none. */
void check_fleet_print(const struct config *config);
/* "fleet": [...]; nothing if there are none. */
void check_fleet_json(const struct config *config, struct json *json);

#endif
