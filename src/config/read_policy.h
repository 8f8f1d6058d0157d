/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CONFIG_READ_POLICY_H
#define WEIR_CONFIG_READ_POLICY_H

#include "config/keys.h"

key_read weir_reading_policies;
key_print weir_policies_print;
/* limits: of a policy or of a part of it; a char * of canonical text. */
key_read weir_reading_limits;
key_print weir_limits_print;
void weir_config_policy_free(struct config_policy *policy);

/* The rows of struct policy_settings, in their order; NULL: there are no more. */
#define SETTINGS_COUNT (sizeof(struct policy_settings) / sizeof(int64_t))
const struct config_key *weir_setting_at(size_t number);
/* The word of one that is a word; or NULL. */
const char *weir_setting_word(const struct config_key *key, const struct policy_settings *settings);
/* What stands if nothing is said. */
struct policy_settings weir_settings_usual(void);
/* exact, floor, optimistic. */
const char *weir_recover_name(int64_t recover);

#endif
