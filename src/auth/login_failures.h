/* SPDX-License-Identifier: MIT */
/*
 * Failed logins. They are counted by pairs of where a client comes from and which user it names, and only
 * that pair is blocked. What counts is a wrong password that is not one of the last eight of the pair: a
 * client that repeats an old password costs nothing and blocks no other. Within any time t, at most
 * LOGIN_FAILURES_BURST + LOGIN_FAILURES_RATE a minute * t wrong passwords of a pair are looked at, and as
 * many as are being looked at at the same moment, with any number of connections.
 *
 * The table has a fixed size; when it is full, the pair that failed least recently is dropped. So nobody is
 * blocked who has not failed. Any thread.
 */
#ifndef WEIR_AUTH_LOGIN_FAILURES_H
#define WEIR_AUTH_LOGIN_FAILURES_H

#include "auth/users.h"
#include "base/buffer.h"

#define LOGIN_FAILURES_BURST     10
#define LOGIN_FAILURES_RATE      10 /* a minute */
#define LOGIN_FAILURES_PASSWORDS 8  /* wrong passwords of a pair that may be repeated */
#define SOURCE_MAX               64

struct login_failures;

struct login_failures *weir_login_failures_new(size_t most); /* pairs; or NULL */
void weir_login_failures_free(struct login_failures *failures);

/* Where a client comes from, of an address as listen.c writes it: an IPv4 address, the first 64 bits of an
 * IPv6 address, or "unix:" and the user id. Ports do not matter. */
void weir_source_of(const char *address, char source[static SOURCE_MAX]);

/* A try to log in, as hashes: nothing of a password is kept. */
struct login_attempt {
    uint64_t pair, word;
};

/* All users that do not exist are one. The same password is another word after the user's has changed. */
struct login_attempt weir_attempt(const struct login_failures *failures, const char *source,
                                  const struct users *users, struct slice name, struct slice password);

enum login_attempt_state {
    ATTEMPT_OPEN,   /* look at the password; if it is wrong, weir_attempt_failed */
    ATTEMPT_KNOWN,  /* it was wrong before: it need not be looked at, and costs nothing */
    ATTEMPT_BLOCKED /* it must not be looked at before *retry_ns have passed */
};

enum login_attempt_state weir_attempt_begin(struct login_failures *failures, int64_t now_ns,
                                            struct login_attempt attempt, int64_t *retry_ns);
void weir_attempt_failed(struct login_failures *failures, int64_t now_ns, struct login_attempt attempt);

size_t weir_login_failures_count(struct login_failures *failures); /* pairs in the table */
/* Tries that failed or were blocked, so far. */
int64_t weir_login_failures_refused(struct login_failures *failures);

#endif
