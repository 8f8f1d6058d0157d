/* SPDX-License-Identifier: MIT */
/*
 * Who may do what: a user has classes of commands, prefixes of keys and names of policies. The user `default`
 * is who has not logged in; if he has a password, nobody may do anything before.
 */
#ifndef WEIR_SERVICE_USERS_H
#define WEIR_SERVICE_USERS_H

#include "base/buffer.h"
#include "service/config.h"

struct user {
    char name[CONFIG_NAME_MAX + 1];
    bool has_password;
    struct digest password;
    unsigned may;           /* enum may */
    struct slice *prefixes; /* none: all keys */
    size_t prefix_count;
    struct slice *policies; /* none: all */
    size_t policy_count;
};

struct users {
    struct user *list;
    size_t count; /* at least one: the first is `default` */
};

struct users *weir_users_new(const struct config *config); /* or NULL */
struct users *weir_users_copy(const struct users *users);
void weir_users_free(struct users *users);

const struct user *weir_users_find(const struct users *users, struct slice name);

/* Takes as long for a user that does not exist. NULL: wrong. */
const struct user *weir_users_login(const struct users *users, struct slice name, struct slice password);

bool weir_user_may(const struct user *user, unsigned classes);
bool weir_user_may_key(const struct user *user, struct slice key);
bool weir_user_may_policy(const struct user *user, struct slice policy);

#endif
