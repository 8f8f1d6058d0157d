/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CONFIG_READ_USERS_H
#define WEIR_CONFIG_READ_USERS_H

#include "config/values.h"

void weir_reading_users(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_field *field, void *into);
void weir_config_user_free(struct config_user *user);

#endif
