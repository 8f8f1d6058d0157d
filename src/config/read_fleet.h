/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CONFIG_READ_FLEET_H
#define WEIR_CONFIG_READ_FLEET_H

#include "config/values.h"

/* `fleet:` of a policy; and, when all of it was read, what goes together. */
void weir_reading_fleet(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_field *field, void *into);
void weir_reading_fleet_check(struct config_reader *reading, const struct yaml_node *node,
                              struct config_policy *policy);
/* No two policies, the last of which was just read, may have pools of one name. */
void weir_reading_fleet_twin(struct config_reader *reading, const struct config *config,
                             const struct config_policy *last);
/* Its lines in a configuration that is printed. */
void weir_fleet_print(const struct config_fleet *fleet, struct buffer *out);
void weir_config_fleet_free(struct config_fleet *fleet);

#endif
