/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CONFIG_READ_POLICY_H
#define WEIR_CONFIG_READ_POLICY_H

#include "config/values.h"

void weir_reading_policies(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_field *field, void *into);
void weir_config_policy_free(struct config_policy *policy);

#endif
