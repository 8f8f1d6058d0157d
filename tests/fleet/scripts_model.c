/* SPDX-License-Identifier: MIT */
#include "fleet/scripts_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/sat.h"

#define BEGAN_MAX   9e15L /* us: what a double tells apart, and a little less */
#define EXPIRES_MAX 1e15L /* ms */
#define HOUR_MS     3600000

typedef long double us;

/* ---- comparing -------------------------------------------------------------------------------- */

static bool same(const char *what, int64_t got, int64_t want)
{
    if (got != want)
        printf("%s is %" PRId64 ", not %" PRId64 "\n", what, got, want);
    return got == want;
}

/* How far off a product of doubles may be. */
static us error_of(us x)
{
    return 1.5L + fabsl(x) * 0x1p-49L;
}

static bool near_by(const char *what, int64_t got, us want, us error)
{
    bool good = fabsl((us)got - want) <= error;
    if (!good)
        printf("%s is %" PRId64 ", not about %.1Lf\n", what, got, want);
    return good;
}

static bool near(const char *what, int64_t got, us want)
{
    return near_by(what, got, want, error_of(want));
}

/* ---- times of a bucket ------------------------------------------------------------------------ */

static int64_t chunk_of(const struct lease_terms *terms)
{
    return terms->chunk > 0 ? terms->chunk : terms->base;
}

static us step_of(const struct lease_terms *terms)
{
    return (us)terms->chunk * (us)terms->window_ns / (us)terms->total / 1000;
}

static us life_of(const struct lease_terms *terms)
{
    return (us)(terms->burst - chunk_of(terms)) * (us)terms->window_ns / (us)terms->total / 1000;
}

long double model_alive_us(const struct lease_terms *terms)
{
    us life = life_of(terms);
    return terms->kind == LEASE_QUOTA ? (us)terms->window_ns / 1000
                                      : 1.01L * (life + fminl(life / 2, 1000000)) + 1000;
}

/* A full bucket begins so long ago. */
static us full_origin(const struct lease_terms *terms, int64_t now)
{
    struct lease_terms based = *terms;
    based.chunk = terms->base;
    return (us)now - life_of(&based) + 1;
}

/* When the next ticket of a bucket dies, from now on. */
static us ends_of(const struct lease_pool *pool, int64_t now)
{
    return (us)pool->used * step_of(&pool->terms) + life_of(&pool->terms) -
           ((us)now - (us)(pool->began_ns / 1000));
}

/* ---- epochs ----------------------------------------------------------------------------------- */

int64_t model_left_ms(const struct shadow *shadow, int64_t true_us)
{
    return max64(0, shadow->expires_us - true_us) / 1000;
}

/* For how long something that was given out may be alive yet. */
static us alive_yet(const struct shadow *shadow, int64_t true_us)
{
    us wait = (us)shadow->wait_us;
    if (shadow->state == SHADOW_GONE)
        wait = fmaxl(0, (us)(model_left_ms(shadow, true_us) - 1000) * 500);
    if (shadow->pool.epoch > 0) {
        const struct lease_terms *terms = &shadow->pool.terms;
        wait = fmaxl(wait, model_alive_us(terms));
        if (terms->kind == LEASE_BUCKET) /* it waits for one before it */
            wait = fmaxl(wait, (us)(shadow->pool.began_ns / 1000 - shadow->last_us));
    }
    return wait;
}

/* The core makes the epoch; its number, and the origin of a bucket, are Redis's own. */
static bool begin(struct shadow *shadow, const struct lease_terms *terms, int64_t chunk, us origin,
                  const struct asked *asked, const struct said *said)
{
    struct lease_terms next = *terms;
    bool bucket = terms->kind == LEASE_BUCKET, good = true;
    uint64_t now = (uint64_t)asked->now_us, number = shadow->pool.epoch + 1;
    number = number > asked->known ? number : asked->known + 1;
    if (number <= now)
        number = now;
    else if (!shadow->certain) /* it, and those behind it, may be known to others, for another epoch */
        number += 1000000000 + now % 1000000000;
    next.chunk = bucket ? 0 : chunk;
    weir_pool_begin(&shadow->pool, bucket ? POOL_TURNS : POOL_TURNED, &next, asked->now_us * 1000);
    if (bucket) {
        us want = fminl(fmaxl(0, ceill(origin)), BEGAN_MAX);
        good = near("origin from now on", said->began - asked->now_us, want - (us)asked->now_us);
        shadow->pool.began_ns = said->began * 1000;
    }
    shadow->pool.epoch = number;
    shadow->aged = shadow->fresh = true;
    shadow->empty = false;
    shadow->true_us = asked->true_us;
    shadow->granted = 0;
    return good;
}

/* Nothing passes until all that there may be has died: an epoch with nothing in it that lasts long enough. */
static bool doubt(struct shadow *shadow, const struct lease_terms *terms, us wait, const struct asked *asked,
                  const struct said *said)
{
    struct lease_terms patient = *terms;
    bool good = true;
    if (terms->kind == LEASE_QUOTA && wait * 1000 > (us)terms->window_ns) {
        patient.window_ns = said->reply.terms.window_ns;
        good = near("empty window", patient.window_ns, fminl(wait * 1000, (us)TICKET_WINDOW_MAX));
    }
    good = begin(shadow, &patient, 0, (us)asked->now_us + fmaxl(model_alive_us(terms), wait), asked, said) &&
           good;
    shadow->empty = terms->kind == LEASE_QUOTA;
    return good;
}

static bool is_settled(const struct asked *asked, const struct lease_terms *terms)
{
    const struct host *host = asked->host;
    int64_t up = (asked->true_us - host->since_us) / 1000000;
    us alive = fmaxl(model_alive_us(terms), (us)asked->span_ns / 1000);
    return (us)up * 1000000 > 1.01L * alive + 2000000 && !host->evicted && !host->promoted;
}

static bool is_vouched(const struct shadow *shadow, const struct host *host)
{
    return shadow->state == SHADOW_THERE && shadow->vouched == host->run &&
           shadow->vouched_replication == host->replication;
}

/* Whether the epoch is gone on with; else another one begins. */
static bool believe(struct shadow *shadow, const struct lease_terms *next, const struct asked *asked,
                    const struct said *said)
{
    const struct host *host = asked->host;
    const struct lease_pool *pool = &shadow->pool;
    us wait = fmaxl(alive_yet(shadow, asked->true_us), (us)asked->span_ns / 1000);
    if (!shadow->sound) {
        bool calm = is_vouched(shadow, host) || (shadow->state == SHADOW_NONE && is_settled(asked, next));
        if (asked->trust || (!asked->held && calm))
            return begin(shadow, next, 0, full_origin(next, asked->now_us), asked, said);
        return doubt(shadow, next, wait, asked, said);
    }
    bool other = shadow->run != host->run || shadow->replication != host->replication;
    if (asked->known > pool->epoch || other || (asked->known == pool->epoch && asked->seen > pool->used)) {
        if (!asked->trust)
            return doubt(shadow, next, wait, asked, said);
        if (asked->known > pool->epoch)
            return begin(shadow, next, 0, full_origin(next, asked->now_us), asked, said);
        shadow->aged = shadow->aged && pool->terms.kind == LEASE_BUCKET;
    } else if (asked->now_us < shadow->last_us) {
        if (pool->terms.kind == LEASE_BUCKET)
            return doubt(shadow, next, wait, asked, said);
        shadow->aged = false;
    }
    return true;
}

/* ---- a quota ---------------------------------------------------------------------------------- */

static bool compare(const struct lease_reply *got, const struct lease_reply *want)
{
    return same("outcome", got->outcome, want->outcome) &&
           same("epoch", (int64_t)got->epoch, (int64_t)want->epoch) &&
           same("chunks", got->chunks, want->chunks) && same("units", got->units, want->units) &&
           same("left", got->left, want->left) && same("exhausted", got->exhausted, want->exhausted) &&
           same("age", got->age_ns, want->age_ns) && same("ends", got->ends_ns, want->ends_ns);
}

static bool order_quota(struct shadow *shadow, const struct lease_terms *next, const struct asked *asked,
                        const struct said *said)
{
    struct lease_pool *pool = &shadow->pool;
    struct lease_order order = asked->order;
    struct lease_reply want;
    if (order.op == LEASE_TURN && order.epoch == pool->epoch) {
        /* A measure that has changed makes what a node proposes worthless. */
        int64_t chunk = next->base == pool->terms.base ? order.chunk : 0;
        if (!begin(shadow, next, chunk, full_origin(next, asked->now_us), asked, said))
            return false;
        order.op = LEASE_PROBE;
    }
    if (shadow->empty && order.op == LEASE_TAKE)
        order.chunks = 0;
    pool->next = pool->terms;
    weir_pool_apply(pool, &order, asked->now_us * 1000, &want);
    want.age_ns = shadow->aged ? want.age_ns : -1;
    if (shadow->empty) {
        want.left = 0;
        want.exhausted = asked->order.op == LEASE_TAKE && asked->order.chunks > 0;
    }
    return same("empty", said->empty, shadow->empty) && compare(&said->reply, &want);
}

/* ---- a bucket --------------------------------------------------------------------------------- */

/* The script has a few numbers less than the core, so that a double never has one more. */
static int64_t count_of(const struct lease_terms *terms)
{
    return min64(TICKET_COUNT_MAX, INT64_C(2000000000000000000) / terms->chunk);
}

/* Those that live on are gone on with, or waited for. */
static bool number_anew(struct shadow *shadow, const struct lease_terms *next, const struct asked *asked,
                        const struct said *said, bool *failed)
{
    struct lease_pool *pool = &shadow->pool;
    const struct lease_terms *now = &pool->terms;
    us ends = ends_of(pool, asked->now_us), full = full_origin(next, asked->now_us);
    us error = error_of((us)asked->now_us - (us)(pool->began_ns / 1000));
    bool close = fabsl(ends) <= error; /* then either is right */
    *failed = false;
    if (now->total != next->total || now->window_ns != next->window_ns || now->burst != next->burst ||
        now->base != next->base) {
        bool dead = close ? said->began <= asked->now_us : ends <= 0;
        return begin(shadow, next, 0, dead ? full : (us)asked->now_us + ends + 1, asked, said);
    }
    if (pool->used >= count_of(now))
        return begin(shadow, next, 0, (us)(pool->began_ns / 1000) + (us)pool->used * step_of(now) + 1, asked,
                     said);
    if (asked->order.op != LEASE_TURN)
        return true;
    if (close ? said->reply.epoch != pool->epoch : ends <= 0)
        return begin(shadow, next, 0, full, asked, said);
    *failed = true;
    return near_by("retry", said->retry, fminl(ends, (us)TICKET_WINDOW_MAX / 1000), error + 1);
}

/* What the core would do at that time: `first` and `chunks`; when to ask again. */
static void core_takes(const struct lease_pool *pool, const struct asked *asked, int64_t now_ns,
                       int64_t *first, struct lease_reply *want)
{
    struct lease_pool copy = *pool;
    copy.next = copy.terms;
    weir_pool_apply(&copy, &asked->order, now_ns, want);
    *first = min64(copy.used - want->chunks, count_of(&copy.terms));
    want->chunks = min64(want->chunks, count_of(&copy.terms) - *first);
}

/* It has to lie between what the core would do a little earlier and a little later. */
static bool take_bucket(struct shadow *shadow, const struct asked *asked, const struct said *said)
{
    struct lease_pool *pool = &shadow->pool;
    us elapsed = fmaxl((us)asked->now_us - (us)said->began, (us)pool->used * step_of(&pool->terms));
    int64_t now = asked->now_us * 1000, off = (int64_t)(error_of(elapsed) * 1000), first, last;
    struct lease_reply early, late;
    core_takes(pool, asked, now - off, &first, &early);
    core_takes(pool, asked, now + off, &last, &late);
    int64_t least = first + early.chunks, most = last + late.chunks, used = said->first + said->granted;
    bool some = early.chunks > 0 && late.chunks > 0;
    if (said->first < first || said->first > last || used < least || used > most ||
        (some && said->granted == 0)) {
        printf("tickets from %" PRId64 " to %" PRId64 ", %" PRId64 " asked for; the core: from %" PRId64
               " or %" PRId64 " to %" PRId64 " or %" PRId64 "\n",
               said->first, used, asked->order.chunks, first, last, least, most);
        return false;
    }
    pool->used = used;
    us retry = (us)(early.chunks > 0 ? late.retry_ns : early.retry_ns) / 1000;
    return said->granted > 0 || near_by("retry", said->retry, retry, 3 * error_of(elapsed) + 1);
}

static bool order_bucket(struct shadow *shadow, const struct lease_terms *next, const struct asked *asked,
                         const struct said *said)
{
    struct lease_pool *pool = &shadow->pool;
    int32_t op = asked->order.op;
    bool named = op == LEASE_TURN || op == LEASE_RETURN, failed = false;
    bool moved = named && asked->order.epoch != pool->epoch;
    if ((op == LEASE_TAKE || op == LEASE_TURN) && !moved && !shadow->fresh &&
        !number_anew(shadow, next, asked, said, &failed))
        return false;
    int32_t outcome = failed ? LEASE_FAILED : LEASE_DONE;
    if (!same("outcome", said->reply.outcome, moved ? LEASE_MOVED : outcome) ||
        !same("epoch", (int64_t)said->reply.epoch, (int64_t)pool->epoch))
        return false;
    if (op != LEASE_TAKE)
        return same("chunks", said->reply.chunks, 0) && same("units", said->reply.units, 0);
    return take_bucket(shadow, asked, said);
}

/* ---- orders ----------------------------------------------------------------------------------- */

static bool expires(struct shadow *shadow, const struct asked *asked, const struct said *said)
{
    const struct lease_terms *terms = &shadow->pool.terms;
    if (shadow->kept)
        return same("expiry", said->expires_ms, -1);
    us span = 3 * fmaxl(model_alive_us(terms), (us)terms->window_ns / 1000);
    us future = fmaxl(0, (us)said->began - (us)asked->now_us);
    us ms = fminl(HOUR_MS + (span + future) / 1000, EXPIRES_MAX);
    shadow->expires_us = sat_add(asked->true_us, sat_mul(said->expires_ms, 1000));
    return near("expiry", said->expires_ms, ms);
}

static bool same_terms(const struct lease_terms *got, const struct lease_terms *want)
{
    return same("kind", got->kind, want->kind) && same("total", got->total, want->total) &&
           same("window", got->window_ns, want->window_ns) && same("burst", got->burst, want->burst) &&
           same("base", got->base, want->base) && same("chunk", got->chunk, want->chunk);
}

static void account(struct shadow *shadow, const struct said *said)
{
    shadow->granted += said->reply.op == LEASE_TAKE ? said->reply.units : 0;
    shadow->state = SHADOW_THERE;
    shadow->sound = true;
}

/* What holds from the next epoch on: what an operator has said, if it makes sense; a bucket stays one. */
static struct lease_terms next_of(const struct shadow *shadow, const struct lease_terms *given)
{
    const struct lease_terms *now = &shadow->pool.terms;
    bool fits = shadow->next_fits && (shadow->pool.epoch == 0 || shadow->next.kind == now->kind);
    struct lease_terms next = fits ? shadow->next : shadow->sound ? *now : *given;
    next.chunk = 0;
    return next;
}

long double model_known_us(const struct shadow *shadow, const struct asked *asked)
{
    struct lease_terms next = next_of(shadow, asked->given);
    us known = fmaxl(model_alive_us(&next), alive_yet(shadow, asked->true_us));
    return fmaxl(known, (us)asked->span_ns / 1000);
}

bool model_order(struct shadow *shadow, const struct asked *asked, const struct said *said)
{
    const struct host *host = asked->host;
    struct lease_terms next = next_of(shadow, asked->given);
    shadow->fresh = shadow->certain = false;
    if (!believe(shadow, &next, asked, said))
        return false;
    shadow->certain = true;
    bool bucket = shadow->pool.terms.kind == LEASE_BUCKET;
    if (!(bucket ? order_bucket : order_quota)(shadow, &next, asked, said))
        return false;
    if (!same_terms(&said->reply.terms, &shadow->pool.terms) || !expires(shadow, asked, said))
        return false;
    account(shadow, said);
    shadow->last_us = max64(asked->now_us, shadow->fresh ? 0 : shadow->last_us);
    shadow->run = host->run;
    shadow->replication = host->replication;
    if (shadow->fresh) {
        shadow->next = next;
        shadow->next_fits = true;
        shadow->vouched = shadow->wait_us = 0;
    }
    return true;
}

/* ---- `weir quota` ----------------------------------------------------------------------------- */

static void keep(struct shadow *shadow, const struct lease_terms *terms)
{
    shadow->next = *terms;
    shadow->next.chunk = 0;
    shadow->next_fits = shadow->kept = true;
    shadow->state = SHADOW_THERE;
    shadow->expires_us = INT64_MAX;
}

bool model_quota(struct shadow *shadow, int32_t op, const struct lease_terms *terms, const struct host *host,
                 int64_t true_us, int64_t expires_ms)
{
    bool there = shadow->state == SHADOW_THERE;
    if (op == QUOTA_CREATE && !there) {
        int64_t wait = (int64_t)fminl(alive_yet(shadow, true_us), BEGAN_MAX);
        bool gone = shadow->state == SHADOW_GONE;
        *shadow = (struct shadow){.wait_us = gone ? wait : 0};
        shadow->vouched = gone ? 0 : host->run;
        shadow->vouched_replication = host->replication;
        keep(shadow, terms);
    } else if (op == QUOTA_SET && there) {
        keep(shadow, terms);
    } else if (op == QUOTA_DELETE && there) {
        us alive = alive_yet(shadow, true_us);
        if (shadow->pool.epoch == 0)
            alive = fmaxl(alive, shadow->next_fits ? model_alive_us(&shadow->next) : 3.2e13L);
        *shadow = (struct shadow){.state = SHADOW_GONE};
        shadow->expires_us = sat_add(true_us, sat_mul(expires_ms, 1000));
        return near("mark", expires_ms, fminl(1000 + 2 * alive / 1000, EXPIRES_MAX));
    }
    return true;
}

bool model_shown(const struct shadow *shadow, const struct quota_answer *answer, int64_t now_us)
{
    const struct lease_pool *pool = &shadow->pool;
    bool sound = shadow->sound && shadow->state == SHADOW_THERE, quota = pool->terms.kind == LEASE_QUOTA;
    int64_t left = shadow->empty ? 0 : weir_ticket_left(&pool->terms, pool->used, pool->returned);
    if (!sound)
        return same("epoch shown", (int64_t)answer->epoch, 0);
    return same("epoch shown", (int64_t)answer->epoch, (int64_t)pool->epoch) &&
           same("used shown", answer->used, pool->used) &&
           same("returned shown", answer->returned, pool->returned) &&
           (!quota || same("left shown", answer->left, left)) &&
           (!quota || !shadow->aged || now_us < pool->began_ns / 1000 ||
            same("age shown", answer->age_ns, now_us * 1000 - pool->began_ns));
}
