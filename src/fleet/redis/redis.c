/* SPDX-License-Identifier: MIT */
/*
 * redis:// and redis+cluster://: pools in the hands of scripts (script.h says what they promise).
 */
#include "fleet/redis/call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "fleet/redis/exact.h"
#include "fleet/redis/reply.h"

/*
 * What `weir quota` asks of a Redis.
 */

static const char nonce[] = "quota"; /* one question at a time */

struct redis_quota_call {
    struct quota_answer *answer;
    struct weir_error *err;
    const struct redis *redis;
    bool good;
};

/* Why nothing passes, if the server has said nothing that is more urgent. A window of which nothing was taken
 * and nothing is left is one that began empty (script.h). */
static void note_empty_window(struct quota_answer *answer)
{
    bool none = answer->terms.kind == LEASE_QUOTA && answer->left == 0 && answer->used == 0;
    if (answer->found && answer->epoch > 0 && none && !answer->note[0])
        (void)snprintf(answer->note, sizeof answer->note,
                       "the window is empty, after a restart, a failover or a pool that was lost or deleted: "
                       "nothing passes until it ends, as units of before may be held");
    else if (answer->found && answer->epoch == 0 && strstr(answer->note, "damaged"))
        (void)snprintf(answer->note, sizeof answer->note,
                       "it was deleted, damaged or written by hand: the first window begins empty");
}

static void quota_call_done(struct redis_call *call, const struct resp_value *value, bool applied,
                            const char *why)
{
    struct redis_quota_call *asked = call->arg;
    (void)applied;
    if (!value)
        (void)weir_error_complain_as(asked->err, EHOSTUNREACH, "%.100s: %.130s", asked->redis->url.shown,
                                     why);
    else if (!weir_redis_read_quota(value, nonce, asked->answer))
        (void)weir_error_complain_as(
            asked->err, EPROTO, "%.100s: what is kept under this name is no quota; look at it with HGETALL",
            asked->redis->url.shown);
    else
        asked->good = true;
    if (asked->good)
        note_empty_window(asked->answer);
}

static bool ask_script(struct redis *redis, const char *op, const char *name, const struct lease_terms *terms,
                       struct quota_answer *answer, struct weir_error *err)
{
    struct redis_call call;
    struct redis_quota_call asked = {answer, err, redis, false};
    weir_redis_call_init(&call, redis, REDIS_QUOTA);
    call.done = quota_call_done;
    call.arg = &asked;
    weir_redis_pool_key(&call, name);
    weir_redis_call_word(&call, "%s", op);
    weir_redis_call_word(&call, "%s", nonce);
    weir_redis_call_word(&call, "%s", terms->kind == LEASE_BUCKET ? "bucket" : "quota");
    weir_redis_call_word(&call, "%" PRId64, terms->total);
    weir_redis_call_word(&call, "%" PRId64, terms->window_ns);
    weir_redis_call_word(&call, "%" PRId64, terms->burst);
    weir_redis_call_word(&call, "%" PRId64, terms->base);
    weir_redis_call_wait(&call);
    return asked.good;
}

/* What is 0 stays as it is. */
static bool redis_quota_set(struct redis *redis, const struct quota_ask *ask, struct quota_answer *answer,
                            struct weir_error *err)
{
    char why[160];
    if (!ask_script(redis, "show", ask->name, &ask->terms, answer, err))
        return false;
    if (!answer->found)
        return true;
    struct lease_terms terms = answer->next;
    terms.total = ask->terms.total ? ask->terms.total : terms.total;
    terms.window_ns = ask->terms.window_ns ? ask->terms.window_ns : terms.window_ns;
    terms.burst = ask->terms.burst ? ask->terms.burst : terms.burst;
    terms.base = ask->terms.base ? ask->terms.base : terms.base;
    terms.chunk = 0;
    if (!weir_terms_complete(&terms, 0, why, sizeof why))
        return weir_error_complain(err, "%.60s: %.160s", ask->name, why);
    return ask_script(redis, "set", ask->name, &terms, answer, err);
}

static bool redis_quota_create(struct redis *redis, const struct quota_ask *ask, struct quota_answer *answer,
                               struct weir_error *err)
{
    struct lease_terms terms = ask->terms;
    char why[160];
    if (!weir_terms_complete(&terms, 0, why, sizeof why))
        return weir_error_complain(err, "%.60s: %.160s", ask->name, why);
    if (!ask_script(redis, "create", ask->name, &terms, answer, err))
        return false;
    struct quota_answer made;
    if (!answer->found && ask_script(redis, "show", ask->name, &terms, &made, NULL)) {
        *answer = made;
        answer->found = false; /* before */
    }
    return true;
}

/* ---- list ------------------------------------------------------------------------------------- */

/* weir:{NAME}:quota */
static void report_pool_name(const struct quota_ask *ask, struct slice key)
{
    static const char front[] = "weir:{", back[] = "}:quota";
    size_t front_len = sizeof front - 1, back_len = sizeof back - 1;
    char name[FLEET_NAME_MAX + 1];
    if (key.len <= front_len + back_len || key.len - front_len - back_len > FLEET_NAME_MAX ||
        memcmp(key.bytes, front, front_len) != 0 ||
        memcmp(key.bytes + key.len - back_len, back, back_len) != 0)
        return;
    (void)snprintf(name, sizeof name, "%.*s", (int)(key.len - front_len - back_len), key.bytes + front_len);
    if (weir_fleet_name_check(name, NULL))
        ask->each(ask->arg, name);
}

struct scan_ask {
    const struct quota_ask *ask;
    const struct server_host *host;
    struct weir_error *err;
    char cursor[24];
    bool good;
};

/* One answer of SCAN: a cursor and keys. */
static void scan_answered(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct scan_ask *scan = arg;
    (void)asked;
    scan->good = value && value->type == RESP_ARRAY && value->count == 2 &&
                 value->elements[0].type == RESP_BULK && value->elements[0].text.len < sizeof scan->cursor &&
                 value->elements[1].type == RESP_ARRAY;
    if (!scan->good) {
        bool error = value && value->type == RESP_ERROR;
        why = value ? "its answer to SCAN is none" : why;
        (void)weir_error_complain(scan->err, "%.100s: %.*s", scan->host->name,
                                  error ? (int)min64((int64_t)value->text.len, 120) : 120,
                                  error ? value->text.bytes : why);
        return;
    }
    (void)snprintf(scan->cursor, sizeof scan->cursor, "%.*s", (int)value->elements[0].text.len,
                   value->elements[0].text.bytes);
    for (size_t i = 0; i < value->elements[1].count; i++)
        if (value->elements[1].elements[i].type == RESP_BULK)
            report_pool_name(scan->ask, value->elements[1].elements[i].text);
}

static bool scan_redis_host(struct redis *redis, const struct server_host *host, const struct quota_ask *ask,
                            int64_t deadline_ns, struct weir_error *err)
{
    struct scan_ask scan = {.ask = ask, .host = host, .err = err, .cursor = "0"};
    do {
        const struct slice words[] = {{"SCAN", 4},  {scan.cursor, strlen(scan.cursor)},
                                      {"MATCH", 5}, {"weir:{*", 7},
                                      {"COUNT", 5}, {"1000", 4},
                                      {"TYPE", 4},  {"hash", 4}};
        weir_resp_client_wait(redis->client, host, words, sizeof words / sizeof words[0], deadline_ns,
                              scan_answered, &scan);
    } while (scan.good && strcmp(scan.cursor, "0") != 0);
    return scan.good;
}

static bool redis_quota_list(struct redis *redis, const struct quota_ask *ask, struct weir_error *err)
{
    struct server_host hosts[REDIS_HOSTS_MAX];
    bool has[REDIS_HOSTS_MAX] = {false};
    size_t count = 0;
    int64_t deadline = weir_resp_client_now() + redis->options.connect_ns + redis->options.answer_ns;
    (void)pthread_mutex_lock(&redis->lock);
    for (size_t i = 0; redis->cluster && i < REDIS_SLOTS; i++)
        if (redis->slots[i] > 0)
            has[redis->slots[i] - 1] = true;
    if (!redis->cluster && redis->master >= 0)
        has[redis->master] = true;
    for (size_t i = 0; i < redis->host_count; i++)
        if (has[i])
            hosts[count++] = redis->hosts[i].host;
    (void)pthread_mutex_unlock(&redis->lock);
    for (size_t i = 0; i < count; i++)
        if (!scan_redis_host(redis, &hosts[i], ask, deadline, err))
            return false;
    return count > 0 ||
           weir_error_complain_as(err, EHOSTUNREACH, "%.100s: no master is known", redis->url.shown);
}

static bool redis_quota(struct coordinator *coordinator, const struct quota_ask *ask,
                        struct quota_answer *answer, struct weir_error *err)
{
    struct redis *redis = (struct redis *)coordinator;
    weir_error_clear(err);
    *answer = (struct quota_answer){.age_ns = -1};
    if (ask->op == QUOTA_LIST)
        return redis_quota_list(redis, ask, err);
    if (ask->op == QUOTA_CREATE)
        return redis_quota_create(redis, ask, answer, err);
    if (ask->op == QUOTA_SET)
        return redis_quota_set(redis, ask, answer, err);
    return ask_script(redis, ask->op == QUOTA_DELETE ? "delete" : "show", ask->name, &ask->terms, answer,
                      err);
}

#define RETRY_NS (100 * WEIR_MS) /* what a server has refused may go then */

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
                                          .tls = &redis->url.tls,
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

static struct coordinator *redis_open(const struct server_url *url, const struct coordinator_options *options,
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
    redis->options = *options;
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

static void note_redis_epoch(struct redis_pool *pool, const struct server_host *host,
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
    struct lease_reply reply = lease_reply_of(&pending->order, applied ? LEASE_UNKNOWN : LEASE_FAILED);
    reply.retry_ns = RETRY_NS;
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

const struct coordinator_ops weir_coordinator_redis = {.open = redis_open,
                                                       .close = redis_close,
                                                       .enter = redis_enter,
                                                       .leave = redis_leave,
                                                       .order = redis_order,
                                                       .quota = redis_quota,
                                                       .decide = weir_redis_decide};
