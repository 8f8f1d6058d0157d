/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CONFIG_READ_USERS_H
#define WEIR_CONFIG_READ_USERS_H

#include "config/keys.h"

key_read weir_reading_users;
key_print weir_users_print;
void weir_config_user_free(struct config_user *user);

#endif
