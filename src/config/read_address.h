/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CONFIG_READ_ADDRESS_H
#define WEIR_CONFIG_READ_ADDRESS_H

#include "config/address_rules.h"
#include "config/keys.h"

struct yaml_node;

/* address:, allow: and block: of a policy. */
key_read weir_reading_address, weir_reading_address_list;
key_print weir_address_print, weir_address_list_print;
/* When all of the policy is read: what goes together, and the limits of the first tier. */
void weir_reading_address_check(struct config_reader *reading, const struct yaml_node *node,
                                struct config_policy *policy);
/* The policies of its further tiers, which follow it; they take its overrides that are theirs. Returns how
 * many. */
size_t weir_reading_address_tiers(struct config_reader *reading, struct config_policy *policy);

#endif
