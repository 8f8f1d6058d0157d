/* SPDX-License-Identifier: MIT */
/*
 * redis:// and redis+cluster://: pools in the hands of scripts (script.h says what they promise).
 */
#include "fleet/redis/redis.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/sat.h"
#include "fleet/redis/reply.h"

#define ANSWER_NS  (2 * WEIR_SEC)
#define CONNECT_NS (5 * WEIR_SEC)
#define RETRY_NS   (100 * WEIR_MS) /* what a server has refused may go then */

struct redis_pool {
    struct redis *redis;
    void *owner;
    struct lease_terms terms;
    char name[FLEET_NAME_MAX + 1];
    /* under the lock: */
    uint64_t known;   /* the latest epoch that was seen */
    int64_t seen;     /* tickets of it that were given out, as far as was seen */
    uint64_t line;    /* on which the last answer came; at the end of another one may be another server */
    int64_t known_ns; /* when: by weir_resp_client_now */
    int64_t span_ns;  /* what was given out lives no longer than this, as far as was seen; */
    int64_t until_ns; /* by then it is dead, unless something of the kind is seen again */
    int64_t refs;     /* orders on the way, and one for who has entered */
    bool left, troubled;
};

/* An order on its way. */
struct redis_pending_order {
    struct redis_call call; /* first */
    struct redis_pool *pool;
    struct lease_order order;
};

/* ---- opening ---------------------------------------------------------------------------------- */

/* failover=wait (the default) or failover=trust in the query. */
static bool read_failover(struct redis *redis, struct weir_error *err)
{
    static const char word[] = "failover=";
    for (const char *at = redis->url.query; *at;) {
        size_t len = strcspn(at, "&");
        if (strncmp(at, word, sizeof word - 1) == 0) {
            struct slice value = {at + sizeof word - 1, len - (sizeof word - 1)};
            redis->trust = slice_is(value, "trust");
            if (!redis->trust && !slice_is(value, "wait"))
                return weir_error_complain(err,
                                           "failover=%.*s: write failover=wait (after a failover a window "
                                           "passes with nothing in it) or failover=trust (what the failover "
                                           "has forgotten may be given out twice)",
                                           (int)min64((int64_t)value.len, 20), value.bytes);
        }
        at += len + (at[len] == '&');
    }
    return true;
}

/* "/3" of redis://host/3 */
static bool read_database(const struct redis *redis, int64_t *database, struct weir_error *err)
{
    const char *path = redis->url.path;
    char *end = NULL;
    *database = path[0] ? strtoll(path + 1, &end, 10) : 0;
    if (path[0] && (path[1] < '0' || path[1] > '9' || *end || *database > 1000000))
        return weir_error_complain(err, "%.200s: behind the / of redis:// stands the number of a database",
                                   redis->url.shown);
    if (*database != 0 && redis->cluster)
        return weir_error_complain(err, "%.200s: a cluster has one database only; leave the path out",
                                   redis->url.shown);
    return true;
}

static bool make_scripts(struct redis *redis)
{
    for (int i = 0; i < REDIS_SCRIPTS; i++) {
        struct buffer text = {0};
        weir_redis_script(&text, (enum redis_script)i);
        buffer_put(&text, "", 1);
        redis->texts[i] = (struct redis_text){.redis = redis, .text = buffer_bytes(&text)};
        if (text.failed)
            return false;
    }
    return true;
}

static void redis_close(struct coordinator *coordinator)
{
    struct redis *redis = (struct redis *)coordinator;
    (void)pthread_mutex_lock(&redis->lock);
    redis->quiet = true;
    (void)pthread_mutex_unlock(&redis->lock);
    if (redis->client)
        weir_resp_client_stop(redis->client);
    for (int i = 0; i < REDIS_SCRIPTS; i++)
        free(redis->texts[i].text);
    (void)pthread_mutex_destroy(&redis->lock);
    free(redis);
}

static bool start_redis_client(struct redis *redis, struct weir_error *err)
{
    struct resp_client_options options = {.user = redis->url.user,
                                          .password = redis->url.password,
                                          .opened = weir_redis_opened,
                                          .closed = weir_redis_closed,
                                          .tick = weir_redis_tick,
                                          .arg = redis};
    if (!read_failover(redis, err) || !read_database(redis, &options.database, err))
        return false;
    if (!make_scripts(redis))
        return weir_error_complain_as(err, ENOMEM, "out of memory");
    weir_redis_route_begin(redis);
    struct resp_client *client = weir_resp_client_start(&options, err);
    (void)pthread_mutex_lock(&redis->lock);
    redis->client = client;
    (void)pthread_mutex_unlock(&redis->lock);
    if (!client)
        return false;
    weir_resp_client_wake(client);
    int64_t deadline = weir_resp_client_now() + redis->options.connect_ns;
    return weir_redis_reach(redis, deadline, err);
}

static struct coordinator *redis_open(const struct fleet_url *url, const struct coordinator_options *options,
                                      const struct sink *sink, struct weir_error *err)
{
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis) {
        (void)weir_error_complain_as(err, ENOMEM, "out of memory");
        return NULL;
    }
    redis->head.ops = &weir_coordinator_redis;
    redis->url = *url;
    redis->cluster = strcmp(url->scheme, "redis+cluster") == 0;
    if (options)
        redis->options = *options;
    if (redis->options.answer_ns <= 0)
        redis->options.answer_ns = ANSWER_NS;
    if (redis->options.connect_ns <= 0)
        redis->options.connect_ns = CONNECT_NS;
    if (sink)
        redis->sink = *sink;
    (void)pthread_mutex_init(&redis->lock, NULL);
    if (start_redis_client(redis, err))
        return &redis->head;
    redis_close(&redis->head);
    return NULL;
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* How long something that is given out under such terms may live; as the scripts reckon (`lives`). */
static int64_t redis_lifetime(const struct lease_terms *terms)
{
    if (terms->kind != LEASE_BUCKET)
        return terms->window_ns;
    int64_t life = sat_add(weir_ticket_life(terms), weir_ticket_ahead(terms));
    return sat_add(sat_add(life, life / 100), WEIR_MS);
}

static struct pool_handle *redis_enter(struct coordinator *coordinator, const char *name,
                                       const struct lease_terms *terms, void *owner, struct weir_error *err)
{
    if (!weir_fleet_name_check(name, err))
        return NULL;
    struct redis_pool *pool = calloc(1, sizeof *pool);
    if (!pool) {
        (void)weir_error_complain_as(err, ENOMEM, "out of memory");
        return NULL;
    }
    pool->redis = (struct redis *)coordinator;
    pool->owner = owner;
    pool->terms = *terms;
    pool->refs = 1;
    (void)snprintf(pool->name, sizeof pool->name, "%s", name);
    return (struct pool_handle *)pool;
}

/* Under the lock. */
static void unref_redis_pool(struct redis_pool *pool)
{
    if (--pool->refs == 0)
        free(pool);
}

static void redis_leave(struct pool_handle *opaque)
{
    struct redis_pool *pool = (struct redis_pool *)opaque;
    struct redis *redis = pool->redis;
    (void)pthread_mutex_lock(&redis->lock);
    pool->left = true;
    unref_redis_pool(pool);
    (void)pthread_mutex_unlock(&redis->lock);
}

/* ---- orders ----------------------------------------------------------------------------------- */

/* trouble: "" there is none; NULL: nobody knows. */
static void reply_redis_order(struct redis_pending_order *pending, const struct lease_reply *reply,
                              const char *trouble)
{
    struct redis_pool *pool = pending->pool;
    struct redis *redis = pool->redis;
    (void)pthread_mutex_lock(&redis->lock);
    bool told = !pool->left && !redis->quiet;
    if (told && trouble && redis->sink.troubled && (trouble[0] || pool->troubled))
        redis->sink.troubled(pool->owner, trouble);
    if (trouble)
        pool->troubled = trouble[0] != '\0';
    if (told)
        redis->sink.replied(pool->owner, reply);
    unref_redis_pool(pool);
    (void)pthread_mutex_unlock(&redis->lock);
    free(pending);
}

static void note_redis_epoch(struct redis_pool *pool, const struct fleet_host *host,
                             struct lease_reply *reply, int64_t used)
{
    struct redis *redis = pool->redis;
    (void)pthread_mutex_lock(&redis->lock);
    uint64_t line = weir_redis_connection_number(redis, host);
    reply->other = line == 0 || line != pool->line;
    pool->line = line;
    if (pool->known < reply->epoch) {
        pool->known = reply->epoch;
        pool->seen = 0;
    }
    if (pool->known == reply->epoch)
        pool->seen = max64(pool->seen, used);
    pool->known_ns = weir_resp_client_now();
    int64_t life = redis_lifetime(&reply->terms);
    if (life >= pool->span_ns || pool->known_ns >= pool->until_ns) {
        pool->span_ns = life;
        pool->until_ns = sat_add(pool->known_ns, life);
    }
    (void)pthread_mutex_unlock(&redis->lock);
}

static void redis_order_done(struct redis_call *call, const struct resp_value *value, bool applied,
                             const char *why)
{
    struct redis_pending_order *pending = (struct redis_pending_order *)call;
    struct lease_reply reply = {.id = pending->order.id,
                                .op = pending->order.op,
                                .outcome = applied ? LEASE_UNKNOWN : LEASE_FAILED,
                                .left = -1,
                                .age_ns = -1,
                                .retry_ns = RETRY_NS};
    int64_t used;
    if (value && weir_redis_read_order(value, &pending->order, &reply, &used)) {
        note_redis_epoch(pending->pool, &pending->call.host, &reply, used);
        why = "";
    } else if (value) {
        why = "Redis gave an answer that weir does not understand; is another program writing to weir:{...}?";
    } else if (!call->answered && !call->redis->cluster) {
        why = NULL; /* it is away, which `moved` tells; of a cluster others are there */
    }
    reply_redis_order(pending, &reply, why);
}

static void redis_order(struct pool_handle *opaque, const struct lease_order *order)
{
    struct redis_pool *pool = (struct redis_pool *)opaque;
    static const char *const names[] = {[LEASE_LOOK] = "look",
                                        [LEASE_TAKE] = "take",
                                        [LEASE_TURN] = "turn",
                                        [LEASE_PROBE] = "probe",
                                        [LEASE_RETURN] = "return"};
    struct redis *redis = pool->redis;
    struct redis_pending_order *pending = malloc(sizeof *pending);
    if (!pending) {
        struct lease_reply reply = {
            .id = order->id, .op = order->op, .outcome = LEASE_FAILED, .left = -1, .retry_ns = RETRY_NS};
        redis->sink.replied(pool->owner, &reply);
        return;
    }
    struct redis_call *call = &pending->call;
    char terms[160];
    (void)pthread_mutex_lock(&redis->lock);
    uint64_t known = pool->known;
    int64_t seen = pool->seen, since = sat_sub(weir_resp_client_now(), pool->known_ns);
    int64_t span = known > 0 ? pool->span_ns : 0;
    bool held = since < sat_mul(2, span);
    pool->refs++;
    (void)pthread_mutex_unlock(&redis->lock);
    weir_redis_write_terms(terms, sizeof terms, &pool->terms);
    pending->pool = pool;
    pending->order = *order;
    weir_redis_call_init(call, redis, REDIS_ORDER);
    call->done = redis_order_done;
    weir_redis_pool_key(call, pool->name);
    weir_redis_call_word(call, "%s", names[order->op]);
    weir_redis_call_word(call, "%" PRIu64, order->id);
    weir_redis_call_word(call, "%" PRIu64, known);
    weir_redis_call_word(call, "%d", held);
    weir_redis_call_word(call, "%" PRIu64, order->epoch);
    weir_redis_call_word(call, "%" PRId64, order->chunks);
    weir_redis_call_word(call, "%" PRId64, order->chunk);
    weir_redis_call_word(call, "%d", redis->trust);
    weir_redis_call_word(call, "%s", terms);
    weir_redis_call_word(call, "%" PRId64, seen);
    weir_redis_call_word(call, "%" PRId64, span);
    weir_redis_call(call);
}

const struct coordinator_ops weir_coordinator_redis = {.scheme = "redis",
                                                       .open = redis_open,
                                                       .close = redis_close,
                                                       .enter = redis_enter,
                                                       .leave = redis_leave,
                                                       .order = redis_order,
                                                       .quota = weir_redis_quota,
                                                       .decide = weir_redis_decide};
