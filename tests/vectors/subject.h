/* SPDX-License-Identifier: MIT */
/*
 * One limit under test: its policy, its state and the latest verdict, with the verbs short enough that a
 * test reads like the vector it is named after. Times are nanoseconds.
 */
#ifndef WEIR_TESTS_VECTORS_SUBJECT_H
#define WEIR_TESTS_VECTORS_SUBJECT_H

#include <string.h>

#include "check.h"
#include "weir.h"

#define REFUSED INT64_C(-1) /* of reserve, as Resilience4j says it */

struct subject {
    struct weir_policy *policy;
    struct weir_verdict v;
    struct weir_reservation reservation;
    int64_t state[24];
};

/* A text that does not compile ends the program: no vector makes sense without its limit. */
static inline struct weir_policy *compile(const char *limit)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_new(limit, &err);
    if (!policy || weir_policy_state_size(policy) > sizeof((struct subject *)0)->state) {
        printf("# %s\n", policy ? "the state is too large for these tests" : err.text);
        exit(1);
    }
    return policy;
}

static inline struct subject subject_new(const char *limit, int64_t now)
{
    struct subject s = {.policy = compile(limit)};
    weir_state_init(s.policy, s.state, now);
    return s;
}

static inline void subject_free(struct subject *s)
{
    weir_policy_free(s->policy);
}

static inline bool take(struct subject *s, int64_t now, int64_t n)
{
    return weir_state_take(s->policy, s->state, now, n, &s->v);
}

/* The wait until n units are due, or REFUSED. */
static inline int64_t reserve(struct subject *s, int64_t now, int64_t n, int64_t timeout)
{
    bool allowed = weir_state_reserve(s->policy, s->state, now, n, timeout, &s->reservation, &s->v);
    return allowed ? s->v.wait_ns : REFUSED;
}

/* Guava's acquire: reserves, sleeps in virtual time, gives how long. */
static inline int64_t acquire(struct subject *s, int64_t *now, int64_t n)
{
    int64_t wait = reserve(s, *now, n, WEIR_FOREVER);
    *now += wait;
    return wait;
}

static inline int64_t remaining(struct subject *s, int64_t now)
{
    (void)weir_state_peek(s->policy, s->state, now, 1, &s->v);
    return s->v.remaining;
}

static inline int64_t retry_after(struct subject *s, int64_t now, int64_t n)
{
    (void)weir_state_peek(s->policy, s->state, now, n, &s->v);
    return s->v.retry_after_ns;
}

/* How many units pass one by one at one instant. */
static inline int64_t take_all(struct subject *s, int64_t now)
{
    int64_t n = 0;
    while (n < 1000000 && take(s, now, 1))
        n++;
    return n;
}

/* A live change to another limit. */
static inline void change(struct subject *s, int64_t now, const char *limit)
{
    struct weir_policy *next = compile(limit);
    int64_t to[sizeof s->state / sizeof s->state[0]];
    weir_state_change(s->policy, s->state, next, to, now);
    memcpy(s->state, to, weir_policy_state_size(next));
    weir_policy_free(s->policy);
    s->policy = next;
}

/* The canonical text; it stays until the next call. */
static inline const char *text_of(const struct subject *s)
{
    static char text[256];
    if (weir_spec_format(weir_policy_spec(s->policy, 0), 1, text, sizeof text) == 0)
        text[0] = '\0';
    return text;
}

static inline bool refuses_text(const char *limit)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_new(limit, &err);
    weir_policy_free(policy);
    return !policy && err.code != 0 && err.text[0] != '\0';
}

#endif
