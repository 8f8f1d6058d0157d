/* SPDX-License-Identifier: MIT */
/*
 * Who may do what: a user has classes of commands, prefixes of keys and names of policies. The user `default`
 * is who has not logged in; if he has a password, nobody may do anything before.
 */
#ifndef WEIR_AUTH_USERS_H
#define WEIR_AUTH_USERS_H

#include "base/buffer.h"
#include "config/config.h"

struct user {
    char name[CONFIG_NAME_MAX + 1];
    bool has_password; /* needs one, or a token, to log in */
    struct password passwords[CONFIG_PASSWORDS];
    char
        certificate[CONFIG_SUBJECT_MAX + 1]; /* subject of the client certificate that logs it in; "": none */
    uint64_t certificate_generation;         /* as those of passwords */
    size_t password_count;                   /* 0 although it needs one: nobody can log in */
    /* Of each password, or of the login without one: a number that changes with the password and with the
     * rights. A connection that logged in under another number is logged out. */
    uint64_t generations[CONFIG_PASSWORDS];
    uint32_t share;         /* whose entries of what all users share (fair_share.h): no other user has this */
    unsigned may;           /* enum user_right */
    struct slice *prefixes; /* none: all keys */
    size_t prefix_count;
    struct slice *policies; /* none: all */
    size_t policy_count;
};

struct users {
    struct user *list;
    size_t count;          /* at least one: the first is `default` */
    const char *any_crypt; /* a slow hash of one of them; NULL: no user has one */
};

struct users *weir_users_new(const struct config *config); /* or NULL */
struct users *weir_users_copy(const struct users *users);
void weir_users_free(struct users *users);
/* Sets any_crypt; again whenever passwords were replaced. */
void weir_users_find_crypt(struct users *users);

const struct user *weir_users_find(const struct users *users, struct slice name);

/* Compares with digests alone; slow hashes are for password_check.h. Takes as long for a user that does not
 * exist. NULL: wrong. Sets *generation to that of the password. */
const struct user *weir_users_login(const struct users *users, struct slice name, struct slice password,
                                    uint64_t *generation);

/* The user whose token has this digest; NULL: none. Sets *generation. */
const struct user *weir_users_by_token(const struct users *users, const struct digest *token,
                                       uint64_t *generation);

/* Whose client certificate has that subject; or NULL. */
const struct user *weir_users_certificate(const struct users *users, const char *subject);

/* Keeps the generation of each password and certificate that the user had in `before` with the same rights;
 * all others get a new one above *last. */
void weir_users_number(struct users *users, const struct users *before, uint64_t *last);
/* Does a login of that generation still count? */
bool weir_user_has(const struct user *user, uint64_t generation);

/* May everything, everywhere: an admin without `keys` and `policies`. */
bool weir_user_is_admin(const struct user *user);
/* How many can log in and are no admins: they share the server. */
size_t weir_users_tenants(const struct users *users);

bool weir_user_may(const struct user *user, unsigned classes);
bool weir_user_may_key(const struct user *user, struct slice key);
bool weir_user_may_policy(const struct user *user, struct slice policy);

#endif
