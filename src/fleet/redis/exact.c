/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "fleet/redis/exact.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sat.h"
#include "base/secret.h"
#include "fleet/member.h"
#include "fleet/options.h"
#include "fleet/redis/call.h"
#include "spec/spec.h"

#define NUMBER_MAX (INT64_C(1) << 53)

/* ---- limits ----------------------------------------------------------------------------------- */

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

bool weir_exact_shape(const struct weir_spec *spec, struct exact_shape *shape, struct weir_error *err)
{
    struct weir_spec whole = *spec;
    struct spec_fault fault;
    if (!weir_spec_complete(&whole, &fault))
        return weir_error_complain(err, "%s", fault.text);
    *shape = (struct exact_shape){.window = whole.algo == WEIR_FIXED_WINDOW};
    if (whole.algo != WEIR_FIXED_WINDOW && whole.algo != WEIR_TOKEN_BUCKET)
        return weir_error_complain(err, "exact mode decides by algo=token-bucket or algo=fixed-window alone");
    if (whole.refused != WEIR_REFUSED_IGNORE || (!shape->window && whole.initial != whole.burst))
        return weir_error_complain(err, "exact mode has no refused= and no initial=");
    if (whole.period_ns % 1000 != 0)
        return weir_error_complain(err,
                                   "exact mode counts time in microseconds; write a period of whole ones");
    shape->count = whole.count;
    shape->period = whole.period_ns / 1000;
    shape->burst = whole.count;
    if (!shape->window) {
        int64_t common = common_divisor(shape->count, shape->period);
        shape->count /= common;
        shape->period /= common;
        shape->burst = whole.burst;
    }
    int64_t most = shape->window ? max64(shape->period, shape->count) : sat_mul(shape->burst, shape->period);
    if (max64(most, shape->count) >= NUMBER_MAX / 2)
        return weir_error_complain(err, "numbers of this limit are too large for Redis, which counts up to "
                                        "2^53; write a smaller burst, or a period that the rate divides");
    return true;
}

static const char *exact_kind_name(const struct exact_shape *shape)
{
    return shape->window ? "window" : "bucket";
}

size_t weir_exact_key(const struct exact_shape *shape, const char *key, char name[EXACT_NAME_MAX])
{
    if (key[0] == '\0' || strlen(key) > EXACT_KEY_MAX)
        return 0;
    int len = snprintf(name, EXACT_NAME_MAX, "weir:exact:%s:%" PRId64 ":%" PRId64 ":%" PRId64 ":%s",
                       exact_kind_name(shape), shape->count, shape->period, shape->burst, key);
    return len > 0 && len < EXACT_NAME_MAX ? (size_t)len : 0;
}

/* ---- answers ---------------------------------------------------------------------------------- */

static void fill_bucket_verdict(const struct exact_shape *shape, int64_t n, int64_t late_us, int64_t level,
                                struct weir_verdict *verdict)
{
    int64_t full = shape->burst * shape->period;
    int64_t late_ns = sat_mul(late_us, 1000);
    verdict->remaining = max64(0, full - level) / shape->period;
    verdict->reset_after_ns = level == 0 ? 0 : sat_add(late_ns, mul_div_up(level, 1000, shape->count));
    if (verdict->allowed)
        return;
    if (n > shape->burst)
        verdict->retry_after_ns = WEIR_FOREVER;
    else
        verdict->retry_after_ns =
            sat_add(late_ns, mul_div_up(level + n * shape->period - full, 1000, shape->count));
}

static void fill_window_verdict(const struct exact_shape *shape, int64_t n, int64_t late_us, int64_t level,
                                struct weir_verdict *verdict)
{
    int64_t ends_ns = sat_mul(sat_add(late_us, shape->period), 1000);
    verdict->remaining = max64(0, shape->count - level);
    verdict->reset_after_ns = level == 0 ? 0 : ends_ns;
    if (!verdict->allowed)
        verdict->retry_after_ns = n > shape->count ? WEIR_FOREVER : ends_ns;
}

bool weir_exact_read(const struct resp_value *value, const struct exact_shape *shape, int64_t n,
                     struct weir_verdict *verdict)
{
    int64_t numbers[EXACT_FIELDS];
    *verdict = (struct weir_verdict){.reason = WEIR_LOST, .retry_after_ns = WEIR_FOREVER};
    if (value->type != RESP_ARRAY || value->count != EXACT_FIELDS)
        return false;
    for (size_t i = 0; i < EXACT_FIELDS; i++) {
        numbers[i] = value->elements[i].integer;
        if (value->elements[i].type != RESP_INTEGER || numbers[i] < 0 || numbers[i] >= NUMBER_MAX)
            return false;
    }
    int64_t allowed = numbers[EXACT_ALLOWED], level = numbers[EXACT_LEVEL];
    int64_t most = shape->window ? shape->count : shape->burst * shape->period;
    if (allowed > 1 || (allowed && (level > most || n > shape->burst)))
        return false;
    *verdict = (struct weir_verdict){.allowed = (int32_t)allowed};
    (shape->window ? fill_window_verdict : fill_bucket_verdict)(
        shape, n, numbers[EXACT_SINCE] - numbers[EXACT_NOW], level, verdict);
    if (!allowed)
        verdict->reason = verdict->retry_after_ns == WEIR_FOREVER ? WEIR_NEVER : WEIR_LATER;
    return true;
}

/* ---- asking ----------------------------------------------------------------------------------- */

struct exact_call {
    const struct exact_shape *shape;
    int64_t n;
    struct weir_verdict *verdict;
    struct weir_error *err;
    bool good;
};

static void exact_call_done(struct redis_call *call, const struct resp_value *value, bool applied,
                            const char *why)
{
    struct exact_call *decision = call->arg;
    (void)applied; /* nobody knows whether it counts: it was not allowed */
    if (!value)
        (void)weir_error_complain_as(decision->err, EHOSTUNREACH, "%.100s: %.130s", call->redis->url.shown,
                                     why);
    else if (!weir_exact_read(value, decision->shape, decision->n, decision->verdict))
        (void)weir_error_complain_as(decision->err, EPROTO,
                                     "%.100s: an answer that is none; who else writes to weir:exact:?",
                                     call->redis->url.shown);
    else
        decision->good = true;
}

bool weir_redis_decide(struct coordinator *coordinator, const char *key, const struct weir_spec *spec,
                       int64_t n, struct weir_verdict *verdict, struct weir_error *err)
{
    struct redis_call call;
    struct exact_shape shape;
    struct exact_call decision = {&shape, n, verdict, err, false};
    char name[EXACT_NAME_MAX];
    *verdict = (struct weir_verdict){.reason = WEIR_INVALID, .retry_after_ns = WEIR_FOREVER};
    if (!weir_exact_shape(spec, &shape, err))
        return false;
    size_t len = weir_exact_key(&shape, key, name);
    if (n < 1 || n >= NUMBER_MAX / 2 || len == 0)
        return weir_error_complain(err, "exact mode takes 1 or more units, of a key of 1 to %d bytes",
                                   EXACT_KEY_MAX);
    verdict->reason = WEIR_LOST;
    weir_redis_call_init(&call, (struct redis *)coordinator, REDIS_EXACT);
    call.done = exact_call_done;
    call.arg = &decision;
    weir_redis_call_key(&call, name, len);
    weir_redis_call_word(&call, "%s", exact_kind_name(&shape));
    weir_redis_call_word(&call, "%" PRId64, n);
    weir_redis_call_word(&call, "%" PRId64, shape.count);
    weir_redis_call_word(&call, "%" PRId64, shape.period);
    weir_redis_call_word(&call, "%" PRId64, shape.burst);
    weir_redis_call_wait(&call);
    return decision.good;
}

/*
 * The public form: weir-fleet.h. A coordinator of its own, and a limit. Its threads stay with the process
 * that has opened it: a forked child is refused everything, and frees nothing.
 */

struct weir_exact {
    struct coordinator *coordinator;
    struct weir_spec spec;
    pid_t owner;
};

static struct coordinator *open_exact_coordinator(const struct server_url *url, struct weir_error *err)
{
    const struct coordinator_ops *kind = weir_coordinator_kind(url, err);
    if (kind && !kind->decide) {
        (void)weir_error_complain(err, "%.150s: exact mode needs redis:// or redis+cluster://", url->shown);
        return NULL;
    }
    return kind ? weir_coordinator_open(kind, url, err) : NULL;
}

struct weir_exact *weir_exact_open(const char *url, const char *limit, struct weir_error *err)
{
    struct weir_error unused;
    struct exact_shape shape;
    struct server_url read;
    err = err ? err : &unused;
    weir_error_clear(err);
    struct weir_exact *exact = calloc(1, sizeof *exact);
    if (!exact) {
        (void)weir_error_complain_as(err, ENOMEM, "out of memory");
        return NULL;
    }
    exact->owner = getpid();
    size_t limits = url && limit ? weir_spec_parse(limit, &exact->spec, 1, err) : 0;
    if (limits == 1 && weir_exact_shape(&exact->spec, &shape, err) && weir_url_read(&read, url, err)) {
        exact->coordinator = open_exact_coordinator(&read, err);
        weir_secret_wipe(&read, sizeof read);
    } else if (!err->text[0]) {
        (void)weir_error_complain(err, "exact mode takes a URL and one limit");
    }
    if (exact->coordinator)
        return exact;
    free(exact);
    return NULL;
}

bool weir_exact_take(struct weir_exact *exact, const char *key, int64_t n, struct weir_verdict *verdict)
{
    struct weir_verdict unused;
    struct weir_error err;
    verdict = verdict ? verdict : &unused;
    *verdict = (struct weir_verdict){.reason = WEIR_INVALID, .retry_after_ns = WEIR_FOREVER};
    if (!exact || !key)
        return false;
    if (getpid() != exact->owner) {
        verdict->reason = WEIR_LOST;
        return false;
    }
    return exact->coordinator->ops->decide(exact->coordinator, key, &exact->spec, n, verdict, &err) &&
           verdict->allowed;
}

void weir_exact_close(struct weir_exact *exact)
{
    if (!exact || getpid() != exact->owner)
        return;
    exact->coordinator->ops->close(exact->coordinator);
    free(exact);
}
