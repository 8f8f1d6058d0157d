/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CONFIG_READ_FLEET_H
#define WEIR_CONFIG_READ_FLEET_H

#include "config/keys.h"

/* `fleet:` of a policy; and, when all of it was read, what goes together. */
key_read weir_reading_fleet;
key_print weir_fleet_print;
void weir_reading_fleet_check(struct config_reader *reading, const struct yaml_node *node,
                              struct config_policy *policy);
/* No two policies, the last of which was just read, may have pools of one name. */
void weir_reading_fleet_twin(struct config_reader *reading, const struct config *config,
                             const struct config_policy *last);
void weir_config_fleet_free(struct config_fleet *fleet);

#endif
