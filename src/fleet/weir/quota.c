/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "fleet/weir/quota.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/sat.h"
#include "base/text.h"
#include "fleet/weir/reply.h"

static bool slice_starts_with(struct slice text, const char *front)
{
    return text.len >= strlen(front) && memcmp(text.bytes, front, strlen(front)) == 0;
}

/* ---- show ---- */

static void fill_quota_answer(struct quota_answer *answer, const struct lease_reply *reply)
{
    const struct lease_terms *terms = &reply->terms;
    answer->found = true;
    answer->next = answer->terms = *terms;
    answer->epoch = reply->epoch;
    answer->left = max64(reply->left, 0);
    answer->age_ns = -1;
    if (terms->kind == LEASE_QUOTA) {
        answer->used = div_up(max64(terms->total - answer->left, 0), terms->chunk);
        /* a server that leases itself, and holds nothing, tells no end */
        bool known = reply->ends_ns > 0 && reply->ends_ns <= terms->window_ns;
        answer->age_ns = known ? terms->window_ns - reply->ends_ns : -1;
    }
    if (reply->left < 0)
        (void)snprintf(answer->note, sizeof answer->note, "the server does not know what is left");
}

static const struct lease_order look = {.id = 1, .op = LEASE_LOOK};

/* What the server says to those who have not logged in is for its own clients; here a user is in the URL. */
static void set_quota_error(struct weir_error *err, const char *shown, char *line, const char *needs)
{
    bool forbidden = strncmp(line, "NOPERM ", 7) == 0;
    char *advice = forbidden ? strstr(line, "; nobody has") : NULL;
    if (advice)
        *advice = '\0';
    (void)weir_error_complain(err, "%.100s: %s%s%s", shown, line, forbidden ? needs : "",
                              advice ? ": weir://user:password@host" : "");
}

/* What is asked, and what has come of it. */
struct tier_query {
    const struct quota_ask *ask;
    struct quota_answer *answer;
    const struct server_url *url;
    const struct server_host *host;
    struct weir_error *err;
    bool good;
};

static void quota_shown(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct tier_query *query = arg;
    struct lease_reply reply;
    char line[TIER_WHY_MAX];
    (void)asked;
    if (!value) {
        (void)weir_error_complain(query->err, "%s: %s", query->url->shown, why);
        return;
    }
    bool none = value->type == RESP_ERROR && slice_starts_with(value->text, "ERR no policy");
    weir_tier_reply(value, &look, &reply, line);
    query->good = none || reply.outcome == LEASE_DONE;
    if (!query->good)
        set_quota_error(query->err, query->url->shown, line,
                        "; who looks needs the class take, and the policy");
    else if (!none)
        fill_quota_answer(query->answer, &reply);
}

/* ---- list ---- */

/* Policies that have `fleet`, and whose server this is. */
static void quota_listed(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct tier_query *query = arg;
    (void)asked;
    query->good = value && value->type == RESP_ARRAY;
    if (!query->good) {
        bool error = value && value->type == RESP_ERROR;
        char line[TIER_WHY_MAX];
        (void)snprintf(line, sizeof line, "%.*s", error ? (int)min64((int64_t)value->text.len, 159) : 159,
                       error   ? value->text.bytes
                       : value ? "it answers what is no list of policies"
                               : why);
        set_quota_error(query->err, query->host->name, line, "; who lists needs the class look");
        return;
    }
    for (size_t i = 0; i < value->count; i++) {
        const struct resp_value *name = weir_resp_get(&value->elements[i], "name");
        const struct resp_value *fleet = weir_resp_get(&value->elements[i], "fleet");
        char text[FLEET_NAME_MAX + 1];
        if (!name || name->type != RESP_BULK || name->text.len > FLEET_NAME_MAX || !fleet ||
            fleet->type == RESP_NULL)
            continue;
        (void)snprintf(text, sizeof text, "%.*s", (int)name->text.len, name->text.bytes);
        if (weir_fleet_name_check(text, NULL) && weir_tier_host(query->url, text) == query->host)
            query->ask->each(query->ask->arg, text);
    }
}

static bool tier_quota_list(struct resp_client *client, int64_t deadline_ns, struct tier_query *query)
{
    static const struct slice words[] = {{"WEIR.POLICY", 11}, {"LIST", 4}};
    bool good = true;
    for (size_t i = 0; i < query->url->host_count && good; i++) {
        query->host = &query->url->hosts[i];
        weir_resp_client_wait(client, query->host, words, 2, deadline_ns, quota_listed, query);
        good = query->good;
    }
    return good;
}

/* ---- all ---- */

/* Its file says what is shared, or who it leases from itself: what keeps the total is changed there. */
static bool refuse_quota_change(int32_t op, const struct server_url *url, const struct server_host *host,
                                struct weir_error *err)
{
    const char *how = op == QUOTA_CREATE   ? "write it into"
                      : op == QUOTA_DELETE ? "take it out of"
                                           : "change it in";
    return weir_error_complain(
        err,
        "a weir server's totals are its policies: %s its weir.yaml, and weir reload -s "
        "redis%s://%.60s:%d; if it leases this one itself, weir quota at the coordinator "
        "that its file names",
        how, url->tls.on ? "s" : "", host->name, host->port);
}

bool weir_tier_quota(struct resp_client *client, const struct server_url *url, int64_t deadline_ns,
                     const struct quota_ask *ask, struct quota_answer *answer, struct weir_error *err)
{
    struct tier_query query = {ask, answer, url, NULL, err, false};
    struct tier_ask words;
    if (answer)
        *answer = (struct quota_answer){.age_ns = -1};
    if (ask->op == QUOTA_LIST)
        return tier_quota_list(client, deadline_ns, &query);
    query.host = weir_tier_host(url, ask->name);
    if (ask->op == QUOTA_SHOW) {
        (void)weir_tier_ask(&words, ask->name, &look);
        weir_resp_client_wait(client, query.host, words.words, words.count, deadline_ns, quota_shown, &query);
        return query.good;
    }
    return refuse_quota_change(ask->op, url, query.host, err);
}

/* An address has many spellings, too. */
static void normalize_host_name(const char *name, char *text, size_t size)
{
    struct in6_addr address;
    if (inet_pton(AF_INET6, name, &address) == 1 && inet_ntop(AF_INET6, &address, text, (socklen_t)size))
        return;
    size_t len = strlen(name);
    if (len > 1 && name[len - 1] == '.') /* the root of all names, which is meant without it as well */
        len--;
    (void)snprintf(text, size, "%.*s", (int)len, name);
    for (char *at = text; *at; at++)
        *at = weir_text_lower(*at);
}

void weir_tier_normalize_host(const struct server_host *host, char *text, size_t size)
{
    char name[sizeof host->name];
    normalize_host_name(host->name, name, sizeof name);
    (void)snprintf(text, size, "%s:%d", name, host->port);
}

const struct server_host *weir_tier_host(const struct server_url *url, const char *name)
{
    /* Everybody must draw the same, so it is no secret. */
    static const struct hash_key key = {0x7765697220746965, 0x7220666f72206e61};
    const struct server_host *best = &url->hosts[0];
    uint64_t most = 0;
    for (size_t i = 0; i < url->host_count; i++) {
        char host[sizeof url->hosts[i].name + 16], text[sizeof host + FLEET_NAME_MAX + 2];
        weir_tier_normalize_host(&url->hosts[i], host, sizeof host);
        int len = snprintf(text, sizeof text, "%s/%s", host, name);
        uint64_t hash = weir_hash(&key, text, len > 0 ? (size_t)len : 0);
        if (i > 0 && hash <= most)
            continue;
        best = &url->hosts[i];
        most = hash;
    }
    return best;
}
