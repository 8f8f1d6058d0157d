/* SPDX-License-Identifier: MIT */
/*
 * Who is to be asked. All state is under redis->lock; nothing is asked of the client while it is held.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/sat.h"
#include "fleet/redis/redis.h"
#include "fleet/redis/reply.h"
#include "os/futex.h"

#define LOOK_NS   (200 * WEIR_MS) /* between two looks, while nobody is known */
#define OTHERS_NS (100 * WEIR_MS) /* somebody says that he is the master: so long others may object */
#define ROLE_NS   WEIR_SEC        /* for an answer */
#define PEACE_NS  (2 * WEIR_SEC)  /* for one host alone that is a replica, at most */
#define CALM_NS   (10 * WEIR_SEC) /* it was none for so long: the next pause is a short one again */

static const char replica[] = "it is a replica, not the master";

/* ---- hosts ------------------------------------------------------------------------------------ */

static bool is_alone(const struct redis *redis)
{
    return !redis->cluster && redis->url.host_count == 1;
}

static int host_index(const struct redis *redis, const struct fleet_host *host)
{
    for (size_t i = 0; i < redis->host_count; i++)
        if (redis->hosts[i].host.port == host->port && strcmp(redis->hosts[i].host.name, host->name) == 0)
            return (int)i;
    return -1;
}

static void forget_slots(struct redis *redis, int index)
{
    for (size_t i = 0; i < REDIS_SLOTS; i++)
        if (redis->slots[i] == index + 1)
            redis->slots[i] = 0;
}

/* Its index; a new one, if need be in place of one that was learnt and is away. -1: there is no room. */
static int add_redis_host(struct redis *redis, const struct fleet_host *host)
{
    int index = host_index(redis, host);
    if (index >= 0)
        return index;
    if (redis->host_count < REDIS_HOSTS_MAX)
        index = (int)redis->host_count++;
    for (size_t i = 0; index < 0 && i < redis->host_count; i++)
        if (!redis->hosts[i].named && !redis->hosts[i].open && redis->master != (int)i)
            index = (int)i;
    if (index < 0)
        return -1;
    forget_slots(redis, index);
    redis->hosts[index] = (struct redis_host){.host = *host};
    return index;
}

void weir_redis_route_begin(struct redis *redis)
{
    for (size_t i = 0; i < redis->url.host_count; i++) {
        int index = add_redis_host(redis, &redis->url.hosts[i]);
        if (index >= 0)
            redis->hosts[index].named = true;
    }
    redis->master = is_alone(redis) ? 0 : -1;
    (void)snprintf(redis->why, sizeof redis->why, "it does not answer");
}

/* ---- up and down ------------------------------------------------------------------------------ */

/* Under the lock. */
static void publish_redis_state(struct redis *redis)
{
    bool up = !redis->cluster && redis->master >= 0 && redis->hosts[redis->master].open;
    for (size_t i = 0; redis->cluster && i < redis->host_count; i++)
        up = up || redis->hosts[i].open;
    if (up == redis->up)
        return;
    redis->up = up;
    atomic_fetch_add(&redis->moves, 1);
    weir_futex_wake(&redis->moves, INT32_MAX);
    if (!redis->quiet && redis->sink.moved)
        redis->sink.moved(redis->sink.agent, up, up ? "" : redis->why);
}

void weir_redis_opened(void *arg, const struct fleet_host *host)
{
    struct redis *redis = arg;
    (void)pthread_mutex_lock(&redis->lock);
    int index = host_index(redis, host);
    if (index >= 0) {
        redis->hosts[index].open = true;
        redis->hosts[index].line = ++redis->lines;
    }
    publish_redis_state(redis);
    (void)pthread_mutex_unlock(&redis->lock);
}

uint64_t weir_redis_connection_number(const struct redis *redis, const struct fleet_host *host)
{
    int index = host_index(redis, host);
    return index >= 0 && redis->hosts[index].open ? redis->hosts[index].line : 0;
}

/* Under the lock. */
static void drop_master(struct redis *redis, int64_t look_at_ns)
{
    redis->master = -1;
    redis->look_at_ns = look_at_ns;
    redis->find.round++;
    redis->find.left = 0;
}

/* Under the lock: is that the master, and are there others that might be? */
static bool may_leave_master(const struct redis *redis, int index)
{
    return index >= 0 && redis->master == index && !is_alone(redis);
}

/* Whoever waits for an answer of one host alone need not wait any longer. */
static bool is_permanent_failure(const char *why)
{
    static const char *const reasons[] = {
        ": NOAUTH",       ": WRONGPASS",          ": NOPERM",
        ": ERR DB index", ": Connection refused", ": Name or service not known"};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (strstr(why, reasons[i]))
            return true;
    return false;
}

/* What it says then is about HELLO, and long; who reads this has written a URL. */
static void describe_login_failure(const struct redis *redis, char *why, size_t size)
{
    char *at = strstr(why, "NOAUTH ");
    if (at)
        (void)snprintf(at, size - (size_t)(at - why),
                       "NOAUTH: it wants a password: %s://:password@host (or user:password@)",
                       redis->url.scheme);
}

void weir_redis_closed(void *arg, const struct fleet_host *host, const char *why)
{
    struct redis *redis = arg;
    (void)pthread_mutex_lock(&redis->lock);
    int index = host_index(redis, host);
    (void)snprintf(redis->why, sizeof redis->why, "%s", why);
    describe_login_failure(redis, redis->why, sizeof redis->why);
    redis->refused = is_permanent_failure(why);
    if (redis->refused) {
        atomic_fetch_add(&redis->moves, 1);
        weir_futex_wake(&redis->moves, INT32_MAX);
    }
    if (index >= 0) {
        redis->hosts[index].open = false;
        if (may_leave_master(redis, index))
            drop_master(redis, 0);
    }
    publish_redis_state(redis);
    (void)pthread_mutex_unlock(&redis->lock);
}

void weir_redis_doubt(struct redis *redis, unsigned slot, const struct fleet_host *host, const char *why)
{
    (void)pthread_mutex_lock(&redis->lock);
    int index = host_index(redis, host);
    if (index >= 0 && redis->slots[slot] == index + 1)
        redis->slots[slot] = 0;
    if (may_leave_master(redis, index)) {
        (void)snprintf(redis->why, sizeof redis->why, "%s", why);
        drop_master(redis, 0);
        publish_redis_state(redis);
    }
    (void)pthread_mutex_unlock(&redis->lock);
    weir_resp_client_wake(redis->client);
}

/* Under the lock: when one host alone that is a replica is looked at again. */
static int64_t next_role_check(struct redis *redis)
{
    int64_t now = weir_resp_client_now();
    bool again = sat_sub(now, redis->demoted_ns) < CALM_NS;
    redis->pause_ns = again ? clamp64(2 * redis->pause_ns, LOOK_NS, PEACE_NS) : LOOK_NS;
    redis->demoted_ns = now;
    return now + redis->pause_ns;
}

void weir_redis_demoted(struct redis *redis, unsigned slot, const struct fleet_host *host)
{
    weir_resp_client_close_host(redis->client, host, replica);
    (void)pthread_mutex_lock(&redis->lock);
    if (is_alone(redis) && redis->master >= 0 && host_index(redis, host) == redis->master) {
        (void)snprintf(redis->why, sizeof redis->why, "%s", replica);
        drop_master(redis, next_role_check(redis));
        publish_redis_state(redis);
    }
    (void)pthread_mutex_unlock(&redis->lock);
    weir_redis_doubt(redis, slot, host, replica);
}

bool weir_redis_route(struct redis *redis, unsigned slot, struct fleet_host *host,
                      char why[RESP_CLIENT_WHY_MAX])
{
    (void)pthread_mutex_lock(&redis->lock);
    int index = redis->master;
    if (redis->cluster || redis->slots[slot] > 0)
        index = redis->slots[slot] > 0 ? redis->slots[slot] - 1 : (int)(redis->turn++ % redis->host_count);
    if (index >= 0)
        *host = redis->hosts[index].host;
    (void)snprintf(why, RESP_CLIENT_WHY_MAX, "no master is known: %.100s", redis->why);
    (void)pthread_mutex_unlock(&redis->lock);
    return index >= 0;
}

void weir_redis_moved(struct redis *redis, unsigned slot, const struct fleet_host *host)
{
    (void)pthread_mutex_lock(&redis->lock);
    int index = add_redis_host(redis, host);
    if (index >= 0)
        redis->slots[slot] = (uint8_t)(index + 1);
    (void)pthread_mutex_unlock(&redis->lock);
}

/* ---- looking for the master ------------------------------------------------------------------- */

struct role_ask {
    struct redis *redis;
    struct fleet_host host;
    uint64_t round;
};

/* Under the lock. */
static void choose_master(struct redis *redis)
{
    redis->master = redis->find.best;
    redis->find.round++;
    redis->find.left = 0;
    publish_redis_state(redis);
}

static void take_role_answer(struct redis *redis, const struct role_ask *ask, const struct resp_value *value)
{
    bool master = false;
    size_t replicas = 0;
    struct fleet_host of = {0};
    int index = host_index(redis, &ask->host);
    bool error = value && value->type == RESP_ERROR;
    if (error)
        (void)snprintf(redis->why, sizeof redis->why, "%.*s", (int)min64((int64_t)value->text.len, 120),
                       value->text.bytes);
    if (error && is_alone(redis))
        master = true; /* it does not tell, or this user may not ask: it is taken as it is again */
    else if (!value || error || !weir_redis_read_role(value, &master, &replicas, &of))
        return;
    if (master && index >= 0 && (redis->find.best < 0 || replicas > redis->find.replicas)) {
        redis->find.best = index;
        redis->find.replicas = replicas;
        redis->find.until_ns = min64(redis->find.until_ns, weir_resp_client_now() + OTHERS_NS);
    } else if (!master) {
        (void)snprintf(redis->why, sizeof redis->why, "%.100s:%d is a replica", ask->host.name,
                       ask->host.port);
        if (is_alone(redis)) {
            weir_resp_client_close_host(redis->client, &ask->host, replica);
            redis->look_at_ns = next_role_check(redis);
        } else if (of.port > 0) {
            (void)add_redis_host(redis, &of); /* asked in the next round */
        }
    }
}

static void role_answered(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct role_ask *ask = arg;
    struct redis *redis = ask->redis;
    (void)asked, (void)why;
    (void)pthread_mutex_lock(&redis->lock);
    if (ask->round == redis->find.round && redis->find.left > 0) {
        take_role_answer(redis, ask, value);
        if (--redis->find.left == 0 && redis->find.best >= 0)
            choose_master(redis);
    }
    (void)pthread_mutex_unlock(&redis->lock);
    free(ask);
}

/* A connection is made only if something waits for it, so whoever needs not tell his role is asked PING. */
static void ask_all_hosts(struct redis *redis, const struct role_ask *all, size_t count, bool role,
                          int64_t now)
{
    const struct slice word = role ? (struct slice){"ROLE", 4} : (struct slice){"PING", 4};
    for (size_t i = 0; i < count; i++) {
        struct role_ask *ask = malloc(sizeof *ask);
        if (!ask)
            continue; /* the round ends by its time */
        *ask = all[i];
        weir_resp_client_request(redis->client, &ask->host, &word, 1, now + ROLE_NS, role_answered, ask);
    }
}

static void find_master(struct redis *redis, int64_t now)
{
    struct role_ask all[REDIS_HOSTS_MAX];
    size_t count = 0;
    (void)pthread_mutex_lock(&redis->lock);
    redis->find.round++;
    redis->find.best = -1;
    redis->find.replicas = 0;
    redis->find.until_ns = now + ROLE_NS + LOOK_NS;
    for (size_t i = 0; i < redis->host_count; i++)
        if (!redis->hosts[i].open || !redis->up)
            all[count++] = (struct role_ask){redis, redis->hosts[i].host, redis->find.round};
    redis->find.left = count;
    bool role = !redis->cluster && redis->master < 0;
    (void)pthread_mutex_unlock(&redis->lock);
    ask_all_hosts(redis, all, count, role, now);
}

/* ---- the slots of a cluster ------------------------------------------------------------------- */

static void store_slot_range(void *arg, unsigned first, unsigned last, const struct fleet_host *host)
{
    struct redis *redis = arg;
    int index = add_redis_host(redis, host);
    for (unsigned slot = first; index >= 0 && slot <= last; slot++)
        redis->slots[slot] = (uint8_t)(index + 1);
}

/* Asks one after the other until somebody knows them. */
static bool load_slots(struct redis *redis, int64_t deadline_ns, struct weir_error *err)
{
    static const struct slice words[] = {{"CLUSTER", 7}, {"SLOTS", 5}};
    for (size_t i = 0; i < redis->url.host_count; i++) {
        struct buffer bytes;
        bool asked, good = false;
        int64_t now = weir_resp_client_now();
        int64_t share = max64(0, deadline_ns - now) / (int64_t)(redis->url.host_count - i);
        const struct fleet_host *host = &redis->url.hosts[i];
        struct resp_value *value =
            weir_resp_client_wait(redis->client, host, words, 2, now + share, &bytes, &asked, err);
        if (value && value->type == RESP_ERROR)
            (void)weir_error_complain(err, "%.80s:%d: %.*s; is it a cluster? redis:// is one server",
                                      host->name, host->port, (int)min64((int64_t)value->text.len, 80),
                                      value->text.bytes);
        if (value && value->type != RESP_ERROR) {
            (void)pthread_mutex_lock(&redis->lock);
            good = weir_redis_read_slots(value, host, store_slot_range, redis);
            (void)pthread_mutex_unlock(&redis->lock);
            if (!good)
                (void)weir_error_complain_as(err, EPROTO, "%.80s:%d does not know its slots", host->name,
                                             host->port);
        }
        weir_resp_value_free(value);
        weir_buffer_free(&bytes);
        if (good)
            return true;
    }
    return false;
}

/* ---- time ------------------------------------------------------------------------------------- */

int64_t weir_redis_tick(void *arg, int64_t now)
{
    struct redis *redis = arg;
    (void)pthread_mutex_lock(&redis->lock);
    if (redis->find.left > 0 && now >= redis->find.until_ns) {
        if (redis->find.best >= 0)
            choose_master(redis);
        redis->find.left = 0;
    }
    bool ready = redis->client && !redis->quiet;
    bool due = ready && !redis->up && redis->find.left == 0 && now >= redis->look_at_ns;
    if (due)
        redis->look_at_ns = now + LOOK_NS;
    int64_t next = redis->find.left > 0 ? redis->find.until_ns : redis->look_at_ns;
    if (redis->up || !ready)
        next = INT64_MAX;
    (void)pthread_mutex_unlock(&redis->lock);
    if (due)
        find_master(redis, now);
    return due ? now : next;
}

bool weir_redis_reach(struct redis *redis, int64_t deadline_ns, struct weir_error *err)
{
    struct weir_error why;
    if (redis->cluster) {
        if (load_slots(redis, deadline_ns, &why))
            return true;
        describe_login_failure(redis, why.text, sizeof why.text);
        return weir_error_complain_as(err, EHOSTUNREACH, "cannot reach %.100s: %.140s", redis->url.shown,
                                      why.text);
    }
    for (;;) {
        uint32_t moves = atomic_load(&redis->moves);
        int64_t left = deadline_ns - weir_resp_client_now();
        (void)pthread_mutex_lock(&redis->lock);
        bool up = redis->up, over = up || left <= 0 || (redis->refused && redis->host_count == 1);
        if (over && !up)
            (void)weir_error_complain_as(err, EHOSTUNREACH, "cannot reach %.100s: %.140s", redis->url.shown,
                                         redis->why);
        (void)pthread_mutex_unlock(&redis->lock);
        if (over)
            return up;
        weir_futex_wait(&redis->moves, moves, weir_monotonic_ns() + left);
    }
}
