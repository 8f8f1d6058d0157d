/* SPDX-License-Identifier: MIT */
/*
 * weir servers as coordinator: weir://host,host,... A pool is a policy of that name with `fleet:` on one of
 * the servers. Servers share nothing with each other, so of several one keeps a name: the one that wins when
 * all of them are hashed with it, whatever their order (whoever takes another server's place leaves all other
 * names where they are). While it is away the name is lost, and the others go on.
 *
 * Epochs are turned by the server's clock; each grant says for how long it holds.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fleet/coordinator.h"
#include "fleet/weir/quota.h"
#include "fleet/weir/reply.h"
#include "os/lock.h"

/* A server that is away is not greeted more often; the client pauses longer. */
#define AGAIN_NS (200 * WEIR_MS)

struct tier {
    struct coordinator head;
    struct server_url url;
    struct coordinator_options options;
    struct sink sink;
    struct resp_client *client;
    struct lock lock;            /* of all below, and of pools; held while the sink is told */
    bool up[URL_HOSTS_MAX];      /* a connection to it can be used */
    bool greeted[URL_HOSTS_MAX]; /* a PING is on its way */
    int64_t greet_at_ns;
    bool any_up;
    bool quiet; /* being closed: nothing more is told */
};

struct tier_pool {
    struct tier *tier;
    const struct server_host *host;
    void *owner;
    int64_t refs; /* orders on the way, and one for who has entered */
    bool left, troubled;
    char kept[TIER_WHY_MAX]; /* why chunks do not go back, though all else is well; or "" */
    char name[FLEET_NAME_MAX + 1];
};

/* An order on the way. */
struct tier_pending_order {
    struct tier_pool *pool;
    struct lease_order order;
};

/* ---- connections ---- */

static size_t tier_host_index(const struct tier *tier, const struct server_host *host)
{
    for (size_t i = 0; i < tier->url.host_count; i++)
        if (tier->url.hosts[i].port == host->port && strcmp(tier->url.hosts[i].name, host->name) == 0)
            return i;
    return URL_HOSTS_MAX;
}

/* The sink knows one connection: it is there as long as one of them is. */
static void note_connection(struct tier *tier, const struct server_host *host, bool up, const char *why)
{
    size_t index = tier_host_index(tier, host);
    bool any = false;
    if (index == URL_HOSTS_MAX)
        return;
    lock_take(&tier->lock);
    tier->up[index] = up;
    for (size_t i = 0; i < tier->url.host_count; i++)
        any = any || tier->up[i];
    if (any != tier->any_up && !tier->quiet && tier->sink.moved)
        tier->sink.moved(tier->sink.agent, any, why);
    tier->any_up = any;
    lock_drop(&tier->lock);
}

static void tier_connection_opened(void *arg, const struct server_host *host)
{
    note_connection(arg, host, true, "");
}

static void tier_connection_closed(void *arg, const struct server_host *host, const char *why)
{
    note_connection(arg, host, false, why);
}

struct tier_ping {
    struct tier *tier;
    size_t index;
};

static void greeted(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct tier_ping *greeting = arg;
    (void)value, (void)asked, (void)why; /* the line tells by itself what it is */
    lock_take(&greeting->tier->lock);
    greeting->tier->greeted[greeting->index] = false;
    lock_drop(&greeting->tier->lock);
    free(greeting);
}

/* A connection is made only if something waits for it. */
static void send_ping(struct tier *tier, size_t index, int64_t now)
{
    static const struct slice ping = {"PING", 4};
    struct tier_ping *greeting = malloc(sizeof *greeting);
    if (!greeting)
        return;
    *greeting = (struct tier_ping){tier, index};
    lock_take(&tier->lock);
    tier->greeted[index] = true;
    lock_drop(&tier->lock);
    weir_resp_client_request(tier->client, &tier->url.hosts[index], &ping, 1, now + tier->options.connect_ns,
                             greeted, greeting);
}

/* After each round of the client, so also when a connection has closed. */
static int64_t ping_closed_hosts(void *arg, int64_t now)
{
    struct tier *tier = arg;
    bool away[URL_HOSTS_MAX] = {false}, any = false;
    lock_take(&tier->lock);
    for (size_t i = 0; i < tier->url.host_count; i++) {
        away[i] = tier->client && !tier->quiet && !tier->up[i] && !tier->greeted[i];
        any = any || away[i];
    }
    lock_drop(&tier->lock);
    if (!any || now < tier->greet_at_ns)
        return any ? tier->greet_at_ns : INT64_MAX;
    tier->greet_at_ns = now + AGAIN_NS;
    for (size_t i = 0; i < tier->url.host_count; i++)
        if (away[i])
            send_ping(tier, i, now);
    return INT64_MAX; /* their answers come first */
}

/* ---- open and close ---- */

struct reach_result {
    bool good;
    char why[RESP_CLIENT_WHY_MAX];
};

/* It answers, whatever it says. */
static void reached(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct reach_result *reached = arg;
    (void)asked;
    reached->good = value != NULL;
    if (!value)
        (void)snprintf(reached->why, sizeof reached->why, "%s", why);
}

/* One of them is enough; each gets its part of the time. */
static bool reach_any_host(struct tier *tier, struct weir_error *err)
{
    static const struct slice ping = {"PING", 4};
    struct reach_result found = {0};
    int64_t end = weir_resp_client_now() + tier->options.connect_ns;
    for (size_t i = 0; i < tier->url.host_count && !found.good; i++) {
        int64_t now = weir_resp_client_now(), share = (end - now) / (int64_t)(tier->url.host_count - i);
        weir_resp_client_wait(tier->client, &tier->url.hosts[i], &ping, 1, now + share, reached, &found);
    }
    return found.good ||
           weir_error_complain_as(err, EHOSTUNREACH, "cannot reach %.200s: %s", tier->url.shown, found.why);
}

static void tier_close(struct coordinator *coordinator)
{
    struct tier *tier = (struct tier *)coordinator;
    lock_take(&tier->lock);
    tier->quiet = true;
    lock_drop(&tier->lock);
    if (tier->client)
        weir_resp_client_stop(tier->client);
    free(tier);
}

static struct coordinator *tier_open(const struct server_url *url, const struct coordinator_options *options,
                                     const struct sink *sink, struct weir_error *err)
{
    struct tier *tier = calloc(1, sizeof *tier);
    if (!tier) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    *tier = (struct tier){.head = {&weir_coordinator_weir}, .url = *url, .options = *options, .sink = *sink};
    const struct resp_client_options client = {.user = tier->url.user,
                                               .password = tier->url.password,
                                               .tls = &tier->url.tls,
                                               .connect_ns = tier->options.connect_ns,
                                               .opened = tier_connection_opened,
                                               .closed = tier_connection_closed,
                                               .tick = ping_closed_hosts,
                                               .arg = tier};
    struct resp_client *started = weir_resp_client_start(&client, err);
    lock_take(&tier->lock);
    tier->client = started;
    lock_drop(&tier->lock);
    if (started && reach_any_host(tier, err))
        return &tier->head;
    tier_close(&tier->head);
    return NULL;
}

/* ---- pools ---- */

static struct pool_handle *tier_enter(struct coordinator *coordinator, const char *name,
                                      const struct lease_terms *terms, void *owner, struct weir_error *err)
{
    struct tier *tier = (struct tier *)coordinator;
    (void)terms; /* those of the policy count */
    struct tier_pool *pool = calloc(1, sizeof *pool);
    if (!pool) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    pool->tier = tier;
    pool->host = weir_tier_host(&tier->url, name);
    pool->owner = owner;
    pool->refs = 1;
    (void)snprintf(pool->name, sizeof pool->name, "%s", name);
    return (struct pool_handle *)pool;
}

/* The lock is held; it is dropped here. */
static void unref_tier_pool(struct tier_pool *pool)
{
    bool last = --pool->refs == 0;
    lock_drop(&pool->tier->lock);
    if (last)
        free(pool);
}

static void tier_leave(struct pool_handle *opaque)
{
    struct tier_pool *pool = (struct tier_pool *)opaque;
    lock_take(&pool->tier->lock);
    pool->left = true;
    unref_tier_pool(pool);
}

/* Tells each trouble and its end, not each reply. why: "" there is none; NULL: nobody knows. */
static void reply_tier_order(struct tier_pool *pool, const struct lease_reply *reply, const char *why)
{
    const struct sink *sink = &pool->tier->sink;
    if (pool->left || pool->tier->quiet)
        return;
    if (why && sink->troubled && (why[0] || pool->troubled))
        sink->troubled(pool->owner, why[0] ? why : pool->kept);
    if (why)
        pool->troubled = why[0] != '\0';
    sink->replied(pool->owner, reply);
}

static void tier_order_answered(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct tier_pending_order *pending = arg;
    struct tier_pool *pool = pending->pool;
    struct lease_reply reply;
    char line[TIER_WHY_MAX];
    if (value) {
        weir_tier_reply(value, &pending->order, &reply, line);
    } else {
        weir_tier_none(&pending->order, asked ? LEASE_UNKNOWN : LEASE_FAILED, &reply);
        (void)snprintf(line, sizeof line, "%s", why ? why : "");
    }
    free(pending);
    lock_take(&pool->tier->lock);
    if (reply.op == LEASE_RETURN && reply.outcome == LEASE_DONE) {
        pool->troubled = pool->troubled || pool->kept[0]; /* its end is told, too */
        (void)snprintf(pool->kept, sizeof pool->kept, "%s", line);
    }
    /* One server alone that is away is told of by `moved`. */
    reply_tier_order(pool, &reply, value || pool->tier->url.host_count > 1 ? line : NULL);
    unref_tier_pool(pool);
}

/* Nothing was sent, and nothing will be. */
static void refuse_tier_order(struct tier_pool *pool, const struct lease_order *order, const char *why)
{
    struct lease_reply reply;
    weir_tier_none(order, LEASE_FAILED, &reply);
    lock_take(&pool->tier->lock);
    reply_tier_order(pool, &reply, why);
    lock_drop(&pool->tier->lock);
}

static void tier_order(struct pool_handle *opaque, const struct lease_order *order)
{
    struct tier_pool *pool = (struct tier_pool *)opaque;
    struct tier *tier = pool->tier;
    struct tier_ask ask;
    if (!weir_tier_ask(&ask, pool->name, order)) {
        refuse_tier_order(pool, order, "a weir server ends its windows by itself");
        return;
    }
    struct tier_pending_order *pending = malloc(sizeof *pending);
    if (!pending) {
        refuse_tier_order(pool, order, "out of memory");
        return;
    }
    *pending = (struct tier_pending_order){pool, *order};
    lock_take(&tier->lock);
    pool->refs++;
    lock_drop(&tier->lock);
    weir_resp_client_request(tier->client, pool->host, ask.words, ask.count,
                             weir_resp_client_now() + tier->options.answer_ns, tier_order_answered, pending);
}

static bool tier_quota(struct coordinator *coordinator, const struct quota_ask *ask,
                       struct quota_answer *answer, struct weir_error *err)
{
    struct tier *tier = (struct tier *)coordinator;
    return weir_tier_quota(tier->client, &tier->url, weir_resp_client_now() + tier->options.answer_ns, ask,
                           answer, err);
}

const struct coordinator_ops weir_coordinator_weir = {.open = tier_open,
                                                      .close = tier_close,
                                                      .enter = tier_enter,
                                                      .leave = tier_leave,
                                                      .order = tier_order,
                                                      .quota = tier_quota};
