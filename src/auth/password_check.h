/* SPDX-License-Identifier: MIT */
/*
 * Passwords that are kept as slow, salted hashes of crypt(3): yescrypt and its like. Checking one takes some
 * ten milliseconds and as many megabytes, so a thread of its own does it, one after the other; no other
 * client waits for it. How many may wait for it is bounded, in all and for each source; who waits with the
 * same name and password as another one needs no place, for both are checked once. A password that was right
 * is remembered, as a salted digest in memory, until the user's changes: when all clients of an application
 * connect again, only the first one is checked slowly.
 */
#ifndef WEIR_AUTH_PASSWORD_CHECK_H
#define WEIR_AUTH_PASSWORD_CHECK_H

#include "auth/login_failures.h"

#define PASSWORD_CHECKS_MAX        64 /* logins that are being checked, or wait for it */
#define PASSWORD_CHECKS_PER_SOURCE 8

struct password_check;

struct password_check *weir_password_check_new(void); /* or NULL */
void weir_password_check_free(struct password_check *check);

/* A login that is to be checked: against each hash of its user, or against another one if there is no such
 * user, so that it takes as long. */
struct login {
    struct login_attempt attempt; /* of the users that it is checked against */
    uint64_t source;
    size_t count;
    char hashes[CONFIG_PASSWORDS][CONFIG_CRYPT_MAX + 1];
    uint64_t generations[CONFIG_PASSWORDS]; /* 0: nobody's */
    bool checked;                           /* false: it is not known whether one is right */
    uint64_t right;                         /* the generation of the right one; 0: none is */
    char password[CONFIG_PASSWORD_MAX + 1];
};

/* false: its password has bytes that no hash can be of. */
bool weir_login_init(struct login *login, const struct users *users, struct slice name,
                     struct slice password);
/* Takes a place for it, if it needs one; false: too many wait. Whoever got one calls weir_login_end. */
bool weir_login_wait(struct password_check *check, struct login *login, const char *source);
/* Takes its time, unless the same was checked before; sets login->right and remembers it. Without memory, and
 * after weir_password_check_stop, login->checked stays false. By any thread that may. */
void weir_login_check(struct password_check *check, struct login *login);
/* Nothing is checked any more: the server ends. */
void weir_password_check_stop(struct password_check *check);
/* Gives the place back; wipes the password. */
void weir_login_end(struct password_check *check, struct login *login);

/* The generation of a password of that user that was right before; 0: it has to be checked. */
uint64_t weir_password_check_known(struct password_check *check, const struct login *login);

#endif
