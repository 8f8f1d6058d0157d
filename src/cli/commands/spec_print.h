/* SPDX-License-Identifier: MIT */
/*
 * The answers of `weir spec`: plain words, or JSON.
 */
#ifndef WEIR_CLI_COMMANDS_SPEC_PRINT_H
#define WEIR_CLI_COMMANDS_SPEC_PRINT_H

#include "cli/json.h"
#include "core/limit.h"

/* Limit `index` in plain words. */
void spec_print_limit(const struct weir_policy *policy, size_t index);

/* What several limits let pass together, and which of them decides. */
void spec_print_together(const struct weir_policy *policy);

void spec_print_json(struct json *json, const struct weir_policy *policy);

/* "limits": their canonical texts. */
void spec_print_json_texts(struct json *json, const struct weir_policy *policy);

#endif
