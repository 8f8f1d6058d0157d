/* SPDX-License-Identifier: MIT */
/*
 * What `weir quota` asks of a Redis.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "fleet/redis/redis.h"
#include "fleet/redis/reply.h"

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

/* One answer of SCAN: a cursor and keys. false: it is something else. */
static bool read_scan(const struct resp_value *value, const struct quota_ask *ask, char cursor[24])
{
    if (!value || value->type != RESP_ARRAY || value->count != 2 || value->elements[0].type != RESP_BULK ||
        value->elements[0].text.len >= 24 || value->elements[1].type != RESP_ARRAY)
        return false;
    (void)snprintf(cursor, 24, "%.*s", (int)value->elements[0].text.len, value->elements[0].text.bytes);
    for (size_t i = 0; i < value->elements[1].count; i++)
        if (value->elements[1].elements[i].type == RESP_BULK)
            report_pool_name(ask, value->elements[1].elements[i].text);
    return true;
}

static bool scan_redis_host(struct redis *redis, const struct fleet_host *host, const struct quota_ask *ask,
                            int64_t deadline_ns, struct weir_error *err)
{
    char cursor[24] = "0";
    do {
        const struct slice words[] = {{"SCAN", 4},  {cursor, strlen(cursor)},
                                      {"MATCH", 5}, {"weir:{*", 7},
                                      {"COUNT", 5}, {"1000", 4},
                                      {"TYPE", 4},  {"hash", 4}};
        struct buffer bytes;
        bool asked;
        struct weir_error why = {0};
        struct resp_value *value = weir_resp_client_wait(
            redis->client, host, words, sizeof words / sizeof words[0], deadline_ns, &bytes, &asked, &why);
        bool good = read_scan(value, ask, cursor);
        if (!good && value && value->type == RESP_ERROR)
            (void)weir_error_complain(err, "%.100s: %.*s", host->name,
                                      (int)min64((int64_t)value->text.len, 120), value->text.bytes);
        else if (!good)
            (void)weir_error_complain(err, "%.100s: %.120s", host->name,
                                      value ? "its answer to SCAN is none" : why.text);
        weir_resp_value_free(value);
        weir_buffer_free(&bytes);
        if (!good)
            return false;
    } while (strcmp(cursor, "0") != 0);
    return true;
}

static bool redis_quota_list(struct redis *redis, const struct quota_ask *ask, struct weir_error *err)
{
    struct fleet_host hosts[REDIS_HOSTS_MAX];
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

bool weir_redis_quota(struct coordinator *coordinator, const struct quota_ask *ask,
                      struct quota_answer *answer, struct weir_error *err)
{
    struct redis *redis = (struct redis *)coordinator;
    weir_error_clear(err);
    *answer = (struct quota_answer){.age_ns = -1};
    if (ask->op == QUOTA_LIST)
        return redis_quota_list(redis, ask, err);
    if (!weir_fleet_name_check(ask->name, err))
        return false;
    if (ask->op == QUOTA_CREATE)
        return redis_quota_create(redis, ask, answer, err);
    if (ask->op == QUOTA_SET)
        return redis_quota_set(redis, ask, answer, err);
    return ask_script(redis, ask->op == QUOTA_DELETE ? "delete" : "show", ask->name, &ask->terms, answer,
                      err);
}
