/* SPDX-License-Identifier: MIT */
/*
 * Exact mode's script, in a real Redis, against the core: the same limits, takes and times for both, step by
 * step; every verdict has to be the same. The time is an argument of the script here.
 *
 *     exact PORT [STEPS [SEED]]       100000 steps; prints its seed; exit status 1: they differ
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fleet/redis/exact.h"
#include "fleet/talk.h"
#include "rng.h"
#include "weir-fleet.h"

#define KEYS     32
#define BATCH    2000
#define FORGET   64 /* one in so many keys that are full is deleted: that must make no difference */
#define GRACE_NS 4  /* the core counts in ticks: a time it tells may be off by so much */

struct key {
    struct weir_spec spec;
    struct weir_policy *policy;
    struct exact_shape shape;
    int64_t now_us, last_us; /* of the last take that passed: the script knows no later time */
    uint64_t state[8];
};

struct step {
    struct key *key;
    int64_t n, now_us;
};

/* ---- limits ---- */

static void draw_key(struct key *key, struct rng *rng)
{
    static const int64_t periods[] = {WEIR_MS, 7 * WEIR_MS, WEIR_SEC, 60 * WEIR_SEC, 3600 * WEIR_SEC};
    struct weir_error err;
    *key = (struct key){.now_us = rng_between(rng, 1, INT64_C(2000000000000000))};
    /* Up to 900: the core's nanosecond of grace then never reaches the next microsecond. */
    key->spec.count = rng_magnitude(rng, 900) + 1;
    key->spec.period_ns = periods[rng_between(rng, 0, 4)];
    if (rng_between(rng, 0, 2) == 0)
        key->spec.algo = WEIR_FIXED_WINDOW;
    else
        key->spec.burst = rng_magnitude(rng, 3 * key->spec.count) + 1;
    key->policy = weir_policy_from(&key->spec, 1, &err);
    if (!key->policy || weir_policy_state_size(key->policy) > sizeof key->state ||
        !weir_exact_shape(&key->spec, &key->shape, &err)) {
        fprintf(stderr, "exact: %s\n", err.text);
        exit(1);
    }
    weir_state_init(key->policy, key->state, 0);
}

/* Times around what a unit needs, and now and then far away, or back. */
static struct step draw_step(struct key *keys, struct rng *rng)
{
    struct key *key = &keys[rng_between(rng, 0, KEYS - 1)];
    int64_t unit = key->spec.period_ns / 1000 / key->spec.count;
    int64_t forward = rng_between(rng, 0, 3) == 0 ? 0 : rng_between(rng, 0, 2 * unit + 2);
    if (rng_between(rng, 0, 99) == 0)
        forward = rng_magnitude(rng, 5 * key->spec.period_ns / 1000);
    if (rng_between(rng, 0, 199) == 0)
        forward = -rng_magnitude(rng, key->spec.period_ns / 1000);
    key->now_us = key->now_us + forward > 0 ? key->now_us + forward : 1;
    return (struct step){key, rng_magnitude(rng, key->shape.burst + 2) + 1, key->now_us};
}

/* ---- the server ---- */

static void ask_step(const struct key *keys, const struct step *step, const char *sha)
{
    const struct exact_shape *shape = &step->key->shape;
    char name[32], n[24], count[24], period[24], burst[24], now[24];
    snprintf(name, sizeof name, "weir:exact:%td", step->key - keys);
    snprintf(n, sizeof n, "%" PRId64, step->n);
    snprintf(count, sizeof count, "%" PRId64, shape->count);
    snprintf(period, sizeof period, "%" PRId64, shape->period);
    snprintf(burst, sizeof burst, "%" PRId64, shape->burst);
    snprintf(now, sizeof now, "%" PRId64, step->now_us);
    talk_say((const char *[]){"EVALSHA", sha, "1", name, shape->window ? "window" : "bucket", n, count,
                              period, burst, now},
             10);
}

/* ---- comparing ---- */

static bool near(int64_t one, int64_t other)
{
    return one == other || (one != WEIR_FOREVER && other != WEIR_FOREVER && llabs(one - other) <= GRACE_NS);
}

static bool check(const struct step *step, const struct resp_value *value)
{
    struct key *key = step->key;
    struct weir_verdict theirs, ours;
    int64_t late = step->now_us < key->last_us && !key->shape.window ? key->last_us - step->now_us : 0;
    bool allowed = weir_state_take(key->policy, key->state, (step->now_us + late) * 1000, step->n, &ours);
    if (late > 0 && ours.retry_after_ns > 0 && ours.retry_after_ns != WEIR_FOREVER)
        ours.retry_after_ns += late * 1000;
    if (allowed && step->now_us > key->last_us)
        key->last_us = step->now_us;
    bool read = weir_exact_read(value, &key->shape, step->n, &theirs);
    if (read && theirs.allowed == ours.allowed && theirs.remaining == ours.remaining &&
        theirs.reason == ours.reason && near(theirs.retry_after_ns, ours.retry_after_ns))
        return true;
    char text[256];
    weir_spec_format(&key->spec, 1, text, sizeof text);
    printf("%s, %" PRId64 " at %" PRId64 " us: Redis allowed %d remaining %" PRId64 " retry %" PRId64
           ", the core %d %" PRId64 " %" PRId64 "%s\n",
           text, step->n, step->now_us, theirs.allowed, theirs.remaining, theirs.retry_after_ns, ours.allowed,
           ours.remaining, ours.retry_after_ns, read ? "" : " (not understood)");
    return false;
}

/* Keys that are full are forgotten by Redis in their own time. */
static void forget_some(struct key *keys, struct rng *rng)
{
    struct key *key = &keys[rng_between(rng, 0, KEYS - 1)];
    struct weir_verdict verdict;
    int64_t at = key->now_us > key->last_us ? key->now_us : key->last_us;
    (void)weir_state_peek(key->policy, key->state, at * 1000, 1, &verdict);
    if (verdict.reset_after_ns > 0)
        return;
    char name[32];
    snprintf(name, sizeof name, "weir:exact:%td", key - keys);
    talk_say((const char *[]){"DEL", name}, 2);
    talk_send();
    (void)talk_hear();
    key->now_us = at; /* what is forgotten does not know that the clock has stepped back */
}

static int64_t run(int64_t steps, struct rng *rng, const char *sha)
{
    static struct key keys[KEYS];
    static struct step batch[BATCH];
    int64_t allowed = 0;
    for (size_t i = 0; i < KEYS; i++)
        draw_key(&keys[i], rng);
    for (int64_t done = 0; done < steps;) {
        size_t count = steps - done < BATCH ? (size_t)(steps - done) : BATCH;
        for (size_t i = 0; i < count; i++) {
            batch[i] = draw_step(keys, rng);
            ask_step(keys, &batch[i], sha);
        }
        talk_send();
        for (size_t i = 0; i < count; i++) {
            const struct resp_value *value = talk_hear();
            if (!check(&batch[i], value))
                return -1;
            allowed += value->elements[0].integer;
        }
        done += (int64_t)count;
        for (int i = 0; i < KEYS / FORGET + 1; i++)
            forget_some(keys, rng);
    }
    for (size_t i = 0; i < KEYS; i++)
        weir_policy_free(keys[i].policy);
    return allowed;
}

/* A forked child has no thread that could answer it: it is told so, and does not wait. */
static bool check_child(struct weir_exact *exact)
{
    struct weir_verdict verdict;
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        bool refused = !weir_exact_take(exact, "child", 1, &verdict) && verdict.reason == WEIR_LOST;
        weir_exact_close(exact);
        _exit(refused ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* The public form: of five a minute five pass, and what cannot be is refused. */
static bool check_public(long port)
{
    struct weir_error err;
    struct weir_verdict verdict = {0};
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%ld", port);
    struct weir_exact *exact = weir_exact_open(url, "5/m", &err);
    int passed = 0;
    for (int i = 0; exact && i < 8; i++)
        passed += weir_exact_take(exact, "public", 1, &verdict);
    bool good = exact && passed == 5 && verdict.reason == WEIR_LATER && verdict.retry_after_ns > 0 &&
                !weir_exact_take(exact, "", 1, &verdict) && verdict.reason == WEIR_INVALID &&
                !weir_exact_take(exact, NULL, 1, NULL) && !weir_exact_take(exact, "public", 0, NULL);
    good = good && check_child(exact);
    weir_exact_close(exact);
    weir_exact_close(NULL);
    static const char *const wrong[][2] = {{NULL, "5/m"},
                                           {"local:", "5/m"},
                                           {"redis://127.0.0.1:1?connect=50ms", "5/m"},
                                           {"redis://x", "5/m algo=smooth"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        err.text[0] = '\0';
        good = good && !weir_exact_open(wrong[i][0], wrong[i][1], &err) && err.text[0];
    }
    if (!good)
        printf("the public form: %d of 5 passed; %s\n", passed, err.text);
    return good;
}

int main(int argc, char **argv)
{
    int64_t steps = argc > 2 ? strtoll(argv[2], NULL, 10) : 100000;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)weir_now();
    struct rng rng = {seed};
    struct buffer script = {0};
    char sha[TALK_SHA_MAX];
    long port = argc > 1 ? strtol(argv[1], NULL, 10) : 6379;
    talk_begin(port);
    weir_redis_script(&script, REDIS_EXACT);
    buffer_put(&script, "", 1);
    talk_load(buffer_bytes(&script), sha);
    printf("seed %" PRIu64 "\n", seed);
    int64_t allowed = run(steps, &rng, sha);
    if (allowed >= 0)
        printf("%" PRId64 " steps, %" PRId64 " passed: Redis and the core agree\n", steps, allowed);
    if (!check_public(port))
        allowed = -1;
    weir_buffer_free(&script);
    talk_end();
    return allowed < 0;
}
