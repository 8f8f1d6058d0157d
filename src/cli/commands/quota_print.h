/* SPDX-License-Identifier: MIT */
/*
 * weir quota: what is known of a pool, in words, as JSON, or in a line.
 */
#ifndef WEIR_CLI_COMMANDS_QUOTA_PRINT_H
#define WEIR_CLI_COMMANDS_QUOTA_PRINT_H

#include "cli/json.h"
#include "fleet/coordinator.h"
#include "fleet/plan.h"

/* "50 000 000 a minute", "10 000 a second, burst 20 000" */
#define QUOTA_LIMIT_MAX 200
const char *quota_limit(const struct lease_terms *terms, char text[static QUOTA_LIMIT_MAX]);

/* What it costs and what happens at worst, wrapped to the terminal. */
void quota_print_plan(const struct fleet_plan *plan);

/* Something that the coordinator has to say, if it has. */
void quota_print_note(const struct quota_answer *answer);

void quota_print_show(const char *name, const struct quota_answer *answer);
void quota_print_json(const char *name, const struct quota_answer *answer, enum json_layout layout);
/* One of watch: what is left, and of which epoch. */
void quota_print_line(const struct quota_answer *answer);

/* Does `now` show another pool than `before`, or another state of it? Its age alone is none. */
bool quota_changed(const struct quota_answer *now, const struct quota_answer *before);

#endif
