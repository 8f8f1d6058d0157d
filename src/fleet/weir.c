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
#include "fleet/weir_quota.h"
#include "fleet/weir_reply.h"
#include "os/lock.h"

/* A server that is away is not greeted more often; the wire pauses longer. */
#define AGAIN_NS (200 * WEIR_MS)

struct tier {
    struct coordinator head;
    struct fleet_url url;
    struct coordinator_options options;
    struct sink sink;
    struct wire *wire;
    struct lock lock;              /* of all below, and of places; held while the sink is told */
    bool up[FLEET_HOSTS_MAX];      /* a line to it can be used */
    bool greeted[FLEET_HOSTS_MAX]; /* a PING is on its way */
    int64_t greet_at_ns;
    bool any_up;
    bool quiet; /* being closed: nothing more is told */
};

struct place {
    struct tier *tier;
    const struct fleet_host *host;
    void *owner;
    int64_t refs; /* orders on the way, and one for who has entered */
    bool left, troubled;
    char kept[TIER_WHY_MAX]; /* why chunks do not go back, though all else is well; or "" */
    char name[FLEET_NAME_MAX + 1];
};

/* An order on the way. */
struct errand {
    struct place *place;
    struct lease_order order;
};

static int64_t answer_time(const struct tier *tier)
{
    return tier->options.answer_ns > 0 ? tier->options.answer_ns : 2 * WEIR_SEC;
}

static int64_t connect_time(const struct tier *tier)
{
    return tier->options.connect_ns > 0 ? tier->options.connect_ns : 5 * WEIR_SEC;
}

/* ---- connections ---- */

static size_t index_of(const struct tier *tier, const struct fleet_host *host)
{
    for (size_t i = 0; i < tier->url.host_count; i++)
        if (tier->url.hosts[i].port == host->port && strcmp(tier->url.hosts[i].name, host->name) == 0)
            return i;
    return FLEET_HOSTS_MAX;
}

/* The sink knows one connection: it is there as long as one of them is. */
static void note_line(struct tier *tier, const struct fleet_host *host, bool up, const char *why)
{
    size_t index = index_of(tier, host);
    bool any = false;
    if (index == FLEET_HOSTS_MAX)
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

static void line_opened(void *arg, const struct fleet_host *host)
{
    note_line(arg, host, true, "");
}

static void line_closed(void *arg, const struct fleet_host *host, const char *why)
{
    note_line(arg, host, false, why);
}

struct greeting {
    struct tier *tier;
    size_t index;
};

static void greeted(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct greeting *greeting = arg;
    (void)value, (void)asked, (void)why; /* the line tells by itself what it is */
    lock_take(&greeting->tier->lock);
    greeting->tier->greeted[greeting->index] = false;
    lock_drop(&greeting->tier->lock);
    free(greeting);
}

/* A line is made only if something waits for it. */
static void greet(struct tier *tier, size_t index, int64_t now)
{
    static const struct slice ping = {"PING", 4};
    struct greeting *greeting = malloc(sizeof *greeting);
    if (!greeting)
        return;
    *greeting = (struct greeting){tier, index};
    lock_take(&tier->lock);
    tier->greeted[index] = true;
    lock_drop(&tier->lock);
    weir_wire_ask(tier->wire, &tier->url.hosts[index], &ping, 1, now + connect_time(tier), greeted, greeting);
}

/* After each round of the wire, so also when a line has closed. */
static int64_t look_after_lines(void *arg, int64_t now)
{
    struct tier *tier = arg;
    bool away[FLEET_HOSTS_MAX] = {false}, any = false;
    lock_take(&tier->lock);
    for (size_t i = 0; i < tier->url.host_count; i++) {
        away[i] = tier->wire && !tier->quiet && !tier->up[i] && !tier->greeted[i];
        any = any || away[i];
    }
    lock_drop(&tier->lock);
    if (!any || now < tier->greet_at_ns)
        return any ? tier->greet_at_ns : INT64_MAX;
    tier->greet_at_ns = now + AGAIN_NS;
    for (size_t i = 0; i < tier->url.host_count; i++)
        if (away[i])
            greet(tier, i, now);
    return INT64_MAX; /* their answers come first */
}

/* ---- open and close ---- */

struct reached {
    bool good;
    char why[WIRE_WHY_MAX];
};

/* It answers, whatever it says. */
static void reached(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct reached *reached = arg;
    (void)asked;
    reached->good = value != NULL;
    if (!value)
        (void)snprintf(reached->why, sizeof reached->why, "%s", why);
}

/* One of them is enough; each gets its part of the time. */
static bool reach(struct tier *tier, struct weir_error *err)
{
    static const struct slice ping = {"PING", 4};
    struct reached found = {0};
    int64_t end = weir_wire_now() + connect_time(tier);
    for (size_t i = 0; i < tier->url.host_count && !found.good; i++) {
        int64_t now = weir_wire_now(), share = (end - now) / (int64_t)(tier->url.host_count - i);
        weir_tier_wait(tier->wire, &tier->url.hosts[i], &ping, 1, now + share, reached, &found);
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
    if (tier->wire)
        weir_wire_stop(tier->wire);
    free(tier);
}

static struct coordinator *tier_open(const struct fleet_url *url, const struct coordinator_options *options,
                                     const struct sink *sink, struct weir_error *err)
{
    struct tier *tier = calloc(1, sizeof *tier);
    if (!tier) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    *tier = (struct tier){.head = {&weir_coordinator_weir}, .url = *url};
    if (options)
        tier->options = *options;
    if (sink)
        tier->sink = *sink;
    const struct wire_options wire = {.user = tier->url.user,
                                      .password = tier->url.password,
                                      .connect_ns = tier->options.connect_ns,
                                      .opened = line_opened,
                                      .closed = line_closed,
                                      .tick = look_after_lines,
                                      .arg = tier};
    struct wire *started = weir_wire_start(&wire, err);
    lock_take(&tier->lock);
    tier->wire = started;
    lock_drop(&tier->lock);
    if (started && reach(tier, err))
        return &tier->head;
    tier_close(&tier->head);
    return NULL;
}

/* ---- places ---- */

static struct place *tier_enter(struct coordinator *coordinator, const char *name,
                                const struct lease_terms *terms, void *owner, struct weir_error *err)
{
    struct tier *tier = (struct tier *)coordinator;
    (void)terms; /* those of the policy count */
    if (!weir_fleet_name_check(name, err))
        return NULL;
    struct place *place = calloc(1, sizeof *place);
    if (!place) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    place->tier = tier;
    place->host = weir_tier_host(&tier->url, name);
    place->owner = owner;
    place->refs = 1;
    (void)snprintf(place->name, sizeof place->name, "%s", name);
    return place;
}

/* The lock is held; it is dropped here. */
static void let_go(struct place *place)
{
    bool last = --place->refs == 0;
    lock_drop(&place->tier->lock);
    if (last)
        free(place);
}

static void tier_leave(struct place *place)
{
    lock_take(&place->tier->lock);
    place->left = true;
    let_go(place);
}

/* Tells each trouble and its end, not each reply. why: "" there is none; NULL: nobody knows. */
static void tell(struct place *place, const struct lease_reply *reply, const char *why)
{
    const struct sink *sink = &place->tier->sink;
    if (place->left || place->tier->quiet)
        return;
    if (why && sink->troubled && (why[0] || place->troubled))
        sink->troubled(place->owner, why[0] ? why : place->kept);
    if (why)
        place->troubled = why[0] != '\0';
    sink->replied(place->owner, reply);
}

static void answered(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct errand *errand = arg;
    struct place *place = errand->place;
    struct lease_reply reply;
    char line[TIER_WHY_MAX];
    if (value) {
        weir_tier_reply(value, &errand->order, &reply, line);
    } else {
        weir_tier_none(&errand->order, asked ? LEASE_UNKNOWN : LEASE_FAILED, &reply);
        (void)snprintf(line, sizeof line, "%s", why ? why : "");
    }
    free(errand);
    lock_take(&place->tier->lock);
    if (reply.op == LEASE_RETURN && reply.outcome == LEASE_DONE) {
        place->troubled = place->troubled || place->kept[0]; /* its end is told, too */
        (void)snprintf(place->kept, sizeof place->kept, "%s", line);
    }
    /* One server alone that is away is told of by `moved`. */
    tell(place, &reply, value || place->tier->url.host_count > 1 ? line : NULL);
    let_go(place);
}

/* Nothing was sent, and nothing will be. */
static void refuse(struct place *place, const struct lease_order *order, const char *why)
{
    struct lease_reply reply;
    weir_tier_none(order, LEASE_FAILED, &reply);
    lock_take(&place->tier->lock);
    tell(place, &reply, why);
    lock_drop(&place->tier->lock);
}

static void tier_order(struct place *place, const struct lease_order *order)
{
    struct tier *tier = place->tier;
    struct tier_ask ask;
    if (!weir_tier_ask(&ask, place->name, order)) {
        refuse(place, order, "a weir server ends its windows by itself");
        return;
    }
    struct errand *errand = malloc(sizeof *errand);
    if (!errand) {
        refuse(place, order, "out of memory");
        return;
    }
    *errand = (struct errand){place, *order};
    lock_take(&tier->lock);
    place->refs++;
    lock_drop(&tier->lock);
    weir_wire_ask(tier->wire, place->host, ask.words, ask.count, weir_wire_now() + answer_time(tier),
                  answered, errand);
}

static bool tier_quota(struct coordinator *coordinator, const struct quota_ask *ask,
                       struct quota_answer *answer, struct weir_error *err)
{
    struct tier *tier = (struct tier *)coordinator;
    return weir_tier_quota(tier->wire, &tier->url, weir_wire_now() + answer_time(tier), ask, answer, err);
}

const struct coordinator_ops weir_coordinator_weir = {.scheme = "weir",
                                                      .open = tier_open,
                                                      .close = tier_close,
                                                      .enter = tier_enter,
                                                      .leave = tier_leave,
                                                      .order = tier_order,
                                                      .quota = tier_quota};
