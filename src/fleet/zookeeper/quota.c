/* SPDX-License-Identifier: MIT */
/*
 * What `weir quota` asks of an ensemble: one request after the other, each waited for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "fleet/zookeeper/pool.h"
#include "os/futex.h"

#define DELETE_MAX 64 /* children of a pool that are deleted with it */
#define LIST_MAX   1000000
#define LIST_BATCH 256 /* names of a list that are looked at at a time */

/* ---- requests that are waited for, until a deadline ---- */

/* A request and who waits for its answer: the last of the two frees it. */
struct zoo_pending {
    _Atomic uint32_t done, refs;
    struct znode_value got;
    char **names;
    size_t name_count;
};

struct zoo_query {
    struct zookeeper *zoo;
    struct weir_error *err;
    int64_t deadline_ns;
    struct zoo_texts texts;
    struct znode_value nodes[ZNODE_COUNT];
};

static void zoo_pending_drop(struct zoo_pending *wait)
{
    if (atomic_fetch_sub(&wait->refs, 1) != 1)
        return;
    for (size_t i = 0; i < wait->name_count; i++)
        free(wait->names[i]);
    free(wait->names);
    free(wait);
}

static void copy_child_names(struct zoo_pending *wait, const struct zanswer *answer)
{
    size_t count = answer->name_count < LIST_MAX ? answer->name_count : LIST_MAX;
    wait->names = count > 0 ? calloc(count, sizeof *wait->names) : NULL;
    for (size_t i = 0; wait->names && i < count; i++) {
        wait->names[i] = strdup(answer->names[i]);
        if (!wait->names[i])
            break;
        wait->name_count++;
    }
}

static void zoo_query_answered(void *arg, const struct zanswer *answer)
{
    struct zoo_pending *wait = arg;
    wait->got.code = answer->code;
    wait->got.stat = answer->stat;
    if (answer->data && answer->len < ZNODE_TEXT_MAX) {
        memcpy(wait->got.text, answer->data, answer->len);
        wait->got.len = answer->len;
    }
    if (wait->got.code == ZCODE_OK && wait->got.len == 0) { /* nothing, or far too much: nonsense */
        wait->got.text[0] = '?';
        wait->got.len = 1;
    }
    if (answer->names)
        copy_child_names(wait, answer);
    atomic_store(&wait->done, 1);
    weir_futex_wake(&wait->done, 1);
    zoo_pending_drop(wait);
}

static struct zoo_pending *new_zoo_pending(struct zoo_query *query)
{
    struct zoo_pending *wait = calloc(1, sizeof *wait);
    if (wait)
        atomic_store(&wait->refs, 2);
    else
        (void)weir_error_complain_as(query->err, ENOMEM, "out of memory");
    return wait;
}

/* false: it is not answered in time. */
static bool zoo_query_await(struct zoo_query *query, struct zoo_pending *wait)
{
    while (!atomic_load(&wait->done) && weir_monotonic_ns() < query->deadline_ns)
        weir_futex_wait(&wait->done, 0, query->deadline_ns);
    return atomic_load(&wait->done);
}

static struct zoo_pending *await_zoo_query(struct zoo_query *query, struct zoo_pending *wait, bool sent)
{
    if (!sent) {
        free(wait);
        (void)weir_error_complain_as(query->err, EHOSTUNREACH,
                                     "there is no connection to ZooKeeper now; try again");
        return NULL;
    }
    bool answered = zoo_query_await(query, wait);
    if (answered && wait->got.code != ZCODE_UNSURE && wait->got.code != ZCODE_DENIED)
        return wait;
    if (answered && wait->got.code == ZCODE_DENIED)
        (void)weir_error_complain_as(query->err, EACCES,
                                     "ZooKeeper gives no right to this: check user, password and ACL");
    else
        (void)weir_error_complain_as(query->err, ETIMEDOUT,
                                     "ZooKeeper has not answered: perhaps it was done; look at it");
    zoo_pending_drop(wait);
    return NULL;
}

/* The answer, or NULL and a message. To be dropped. */
static struct zoo_pending *zoo_query_get(struct zoo_query *query, const char *path)
{
    struct zoo_pending *wait = new_zoo_pending(query);
    return wait ? await_zoo_query(query, wait,
                                  weir_zclient_get(query->zoo->client, path, 0, zoo_query_answered, wait))
                : NULL;
}

static struct zoo_pending *zoo_query_multi(struct zoo_query *query, const struct zop *ops, size_t count)
{
    struct zoo_pending *wait = new_zoo_pending(query);
    return wait
               ? await_zoo_query(query, wait,
                                 weir_zclient_multi(query->zoo->client, ops, count, zoo_query_answered, wait))
               : NULL;
}

static struct zoo_pending *zoo_query_children(struct zoo_query *query, const char *path)
{
    struct zoo_pending *wait = new_zoo_pending(query);
    return wait ? await_zoo_query(query, wait,
                                  weir_zclient_children(query->zoo->client, path, zoo_query_answered, wait))
                : NULL;
}

/* The same for who asks only what came of it. false: no answer, and a message. */
static bool zoo_query_change(struct zoo_query *query, const struct zop *ops, size_t count, int32_t *code)
{
    struct zoo_pending *wait = zoo_query_multi(query, ops, count);
    if (!wait)
        return false;
    *code = wait->got.code;
    zoo_pending_drop(wait);
    return true;
}

/* Sent, and not waited for yet. NULL: it was not sent. */
static struct zoo_pending *zoo_query_begin_get(struct zoo_query *query, const char *path)
{
    struct zoo_pending *wait = new_zoo_pending(query);
    if (wait && !weir_zclient_get(query->zoo->client, path, 0, zoo_query_answered, wait)) {
        free(wait);
        wait = NULL;
    }
    return wait;
}

/* ---- show ---- */

static bool read_nodes(struct zoo_query *query)
{
    static const enum znode order[] = {ZNODE_POOL,    ZNODE_USABLE, ZNODE_REFRESH,
                                       ZNODE_RETURNS, ZNODE_TOTAL,  ZNODE_BASE};
    for (size_t i = 0; i < ZNODE_COUNT; i++) {
        struct zoo_pending *wait = zoo_query_get(query, query->texts.paths[order[i]]);
        if (!wait)
            return false;
        query->nodes[order[i]] = wait->got;
        zoo_pending_drop(wait);
    }
    return true;
}

static struct znode_pool pool_node_of(const struct znode_value *own)
{
    struct znode_pool pool = {.gone = false};
    if (own->code == ZCODE_OK)
        weir_znode_pool_read(&pool, own->text, own->len);
    return pool;
}

static void fill_broken(const struct znode_value *nodes, struct quota_answer *answer)
{
    answer->found = nodes[ZNODE_POOL].code == ZCODE_OK && !pool_node_of(&nodes[ZNODE_POOL]).gone;
    answer->age_ns = -1;
    if (answer->found)
        (void)snprintf(
            answer->note, sizeof answer->note,
            "its nodes do not belong together: the next node that asks makes them anew, and nothing "
            "passes for a window");
}

/* The leader tells its time with a write: of the node above all pools, as a probe does. Who may not write
 * there is told how old it was at its last ticket. */
static int64_t age_of(struct zoo_query *query, const struct znode_stat *usable)
{
    struct weir_error ignored;
    struct zoo_query quiet = {.zoo = query->zoo, .err = &ignored, .deadline_ns = query->deadline_ns};
    struct znode_stat now = *usable;
    char above[ZNODE_PATH_MAX];
    (void)snprintf(above, sizeof above, "%.255s/quota", query->zoo->root);
    struct zop op = {ZOP_SET, -1, above, ""};
    struct zoo_pending *wait = zoo_query_multi(&quiet, &op, 1);
    if (wait && wait->got.code == ZCODE_OK && wait->got.stat.mzxid > 0) {
        now.mzxid = wait->got.stat.mzxid;
        now.mtime_ms = wait->got.stat.mtime_ms;
    }
    if (wait)
        zoo_pending_drop(wait);
    return weir_znode_age(&now);
}

static bool zoo_quota_show(struct zoo_query *query, struct quota_answer *answer)
{
    const struct znode_value *nodes = query->nodes;
    struct znode_epoch epoch;
    for (int tries = 0;; tries++) { /* it may be turned while it is read */
        if (!read_nodes(query))
            return false;
        bool whole = nodes[ZNODE_USABLE].code == ZCODE_OK && nodes[ZNODE_RETURNS].code == ZCODE_OK &&
                     nodes[ZNODE_REFRESH].code == ZCODE_OK &&
                     nodes[ZNODE_REFRESH].stat.mzxid == nodes[ZNODE_USABLE].stat.czxid &&
                     weir_znode_refresh_read(&epoch, nodes[ZNODE_REFRESH].text, nodes[ZNODE_REFRESH].len);
        if (whole)
            break;
        if (nodes[ZNODE_POOL].code != ZCODE_OK || pool_node_of(&nodes[ZNODE_POOL]).gone || tries == 3) {
            fill_broken(nodes, answer);
            return true;
        }
    }
    int64_t number = 0;
    (void)weir_znode_base_read(&number, nodes[ZNODE_RETURNS].text, nodes[ZNODE_RETURNS].len);
    answer->found = true;
    answer->terms = epoch.terms;
    answer->epoch = (uint64_t)nodes[ZNODE_USABLE].stat.czxid;
    answer->used = nodes[ZNODE_USABLE].stat.version;
    answer->returned = min64(number, nodes[ZNODE_RETURNS].stat.version);
    answer->left = weir_znode_left(&epoch, &nodes[ZNODE_USABLE].stat, answer->returned, 0);
    answer->age_ns = age_of(query, &nodes[ZNODE_USABLE].stat);
    weir_znode_next(&epoch, nodes[ZNODE_TOTAL].text,
                    nodes[ZNODE_TOTAL].code == ZCODE_OK ? nodes[ZNODE_TOTAL].len : 0, nodes[ZNODE_BASE].text,
                    nodes[ZNODE_BASE].code == ZCODE_OK ? nodes[ZNODE_BASE].len : 0, 0, &answer->next,
                    answer->note);
    if (epoch.wait_ns > 0 && answer->note[0] == '\0')
        (void)snprintf(answer->note, sizeof answer->note,
                       "it was made anew: nothing passes until what was given out before has ended");
    return true;
}

/* ---- create, set, delete, list ---- */

static bool create_quota_ancestors(struct zoo_query *query)
{
    char paths[ZOO_ANCESTORS_MAX][ZNODE_PATH_MAX];
    size_t count = weir_zoo_ancestors(query->zoo->root, paths, ZOO_ANCESTORS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct zop op = {ZOP_CREATE, 0, paths[i], ""};
        int32_t code;
        if (!zoo_query_change(query, &op, 1, &code))
            return false;
    }
    return true;
}

/* One that was deleted begins with an epoch that waits. *code: what came of it. */
static bool recreate_deleted_pool(struct zoo_query *query, const struct quota_ask *ask, int32_t *code)
{
    struct znode_epoch known = {.terms = ask->terms}, epoch;
    struct zop ops[ZOPS_MAX];
    if (!read_nodes(query))
        return false;
    if (!pool_node_of(&query->nodes[ZNODE_POOL]).gone || query->nodes[ZNODE_USABLE].code != ZCODE_NONE)
        return true;
    weir_zoo_repaired(&known, query->nodes, &epoch, &query->texts, query->zoo->root, ask->name);
    if (!zoo_query_change(query, ops, weir_zoo_repair_ops(&query->texts, query->nodes, ops), code))
        return false;
    if (*code != ZCODE_OK)
        *code = ZCODE_EXISTS; /* somebody else was first */
    return true;
}

/* ZCODE_OK: made; ZCODE_EXISTS: it was there already. false: no answer, and a message. */
static bool create_quota_pool(struct zoo_query *query, const struct quota_ask *ask, int32_t *code)
{
    struct znode_epoch epoch = {.terms = ask->terms};
    struct zop ops[ZOPS_MAX];
    weir_zoo_texts(&query->texts, query->zoo->root, ask->name, &epoch);
    size_t count = weir_zoo_create_ops(&query->texts, (uint64_t)weir_monotonic_ns() / 1024 % 32, ops);
    for (int tries = 0; tries < 2; tries++) {
        if (!zoo_query_change(query, ops, count, code))
            return false;
        if (*code == ZCODE_EXISTS)
            return recreate_deleted_pool(query, ask, code);
        if (*code != ZCODE_NONE || !create_quota_ancestors(query))
            break;
    }
    return true;
}

static bool zoo_quota_create(struct zoo_query *query, const struct quota_ask *ask,
                             struct quota_answer *answer)
{
    int32_t code;
    if (!create_quota_pool(query, ask, &code))
        return false;
    if (code == ZCODE_OK || code == ZCODE_EXISTS) {
        bool shown = zoo_quota_show(query, answer);
        answer->found = code == ZCODE_EXISTS;
        return shown;
    }
    if (query->err && query->err->text[0] == '\0')
        (void)weir_error_complain(query->err, "ZooKeeper refuses to make %s", query->texts.paths[ZNODE_POOL]);
    return false;
}

/* What is 0 stays; written at the versions that were read, so that of two operators one is told. */
static bool zoo_quota_set(struct zoo_query *query, const struct quota_ask *ask, struct quota_answer *answer)
{
    if (!zoo_quota_show(query, answer))
        return false;
    if (!answer->found || answer->epoch == 0)
        return weir_error_complain_as(query->err, ENOENT, "there is no quota '%s'; create it first",
                                      ask->name);
    struct lease_terms terms = answer->next;
    char why[200];
    terms.total = ask->terms.total > 0 ? ask->terms.total : terms.total;
    terms.window_ns = ask->terms.window_ns > 0 ? ask->terms.window_ns : terms.window_ns;
    terms.burst = ask->terms.burst > 0 && terms.kind == LEASE_BUCKET ? ask->terms.burst : terms.burst;
    terms.base = ask->terms.base > 0 ? ask->terms.base : terms.base;
    terms.chunk = 0;
    if (!weir_terms_complete(&terms, 1, why, sizeof why))
        return weir_error_complain(query->err, "%s", why);
    const struct znode_value *nodes = query->nodes;
    struct zop ops[2];
    char total[ZNODE_TEXT_MAX], base[32];
    weir_znode_total_write(&terms, total);
    (void)snprintf(base, sizeof base, "%" PRId64, terms.base);
    for (int i = 0; i < 2; i++) {
        enum znode which = i == 0 ? ZNODE_TOTAL : ZNODE_BASE;
        ops[i] = (struct zop){nodes[which].code == ZCODE_OK ? ZOP_SET : ZOP_CREATE, nodes[which].stat.version,
                              query->texts.paths[which], i == 0 ? total : base};
    }
    int32_t code;
    if (!zoo_query_change(query, ops, 2, &code))
        return false;
    if (code != ZCODE_OK)
        return weir_error_complain_as(
            query->err, EAGAIN, "somebody else has changed '%s' just now; look, and try again", ask->name);
    answer->next = terms;
    answer->note[0] = '\0';
    return true;
}

/* What stays of a deleted pool: its node, so that whoever makes it anew waits for those who hold units of it.
 */
static void write_mark(const struct zoo_query *query, char mark[ZNODE_TEXT_MAX])
{
    const struct znode_value *refresh = &query->nodes[ZNODE_REFRESH];
    struct znode_pool pool = pool_node_of(&query->nodes[ZNODE_POOL]);
    struct znode_epoch epoch;
    if (refresh->code == ZCODE_OK && weir_znode_refresh_read(&epoch, refresh->text, refresh->len))
        pool.wait_ns = max64(pool.wait_ns, weir_znode_outlives(&epoch));
    pool.gone = true;
    weir_znode_pool_write(&pool, mark);
}

/* One try. *gone: it is, or was not there. */
static bool try_delete(struct zoo_query *query, struct quota_answer *answer, bool *gone)
{
    struct zop ops[DELETE_MAX + 1];
    char paths[DELETE_MAX][ZNODE_PATH_MAX + 256], mark[ZNODE_TEXT_MAX];
    const struct znode_value *own = &query->nodes[ZNODE_POOL];
    if (!read_nodes(query))
        return false;
    struct zoo_pending *wait = zoo_query_children(query, query->texts.paths[ZNODE_POOL]);
    if (!wait)
        return false;
    *gone = wait->got.code == ZCODE_NONE || (pool_node_of(own).gone && wait->name_count == 0);
    answer->found = answer->found || !*gone;
    size_t count = 0;
    for (; count < wait->name_count && count < DELETE_MAX; count++) {
        (void)snprintf(paths[count], sizeof paths[0], "%s/%.255s", query->texts.paths[ZNODE_POOL],
                       wait->names[count]);
        ops[count] = (struct zop){ZOP_DELETE, -1, paths[count], NULL};
    }
    bool all = count == wait->name_count;
    zoo_pending_drop(wait);
    if (*gone)
        return true;
    write_mark(query, mark);
    ops[count++] = (struct zop){ZOP_SET, own->stat.version, query->texts.paths[ZNODE_POOL], mark};
    int32_t code;
    if (!zoo_query_change(query, ops, count, &code))
        return false;
    *gone = all && code == ZCODE_OK;
    return true;
}

static bool zoo_quota_delete(struct zoo_query *query, const struct quota_ask *ask,
                             struct quota_answer *answer)
{
    bool gone = false;
    for (int tries = 0; tries < 4 && !gone; tries++)
        if (!try_delete(query, answer, &gone))
            return false;
    return gone ||
           weir_error_complain_as(query->err, ENOTEMPTY,
                                  "%s could not be deleted: it has nodes that are not weir's", ask->name);
}

/* Those of them that were not deleted; one that is not answered in time counts as such. */
static void list_some(struct zoo_query *query, const struct quota_ask *ask, char *const *names, size_t count)
{
    struct zoo_pending *waits[LIST_BATCH];
    char path[ZNODE_PATH_MAX];
    for (size_t i = 0; i < count; i++) {
        weir_znode_path(path, query->zoo->root, names[i], ZNODE_POOL);
        waits[i] = zoo_query_begin_get(query, path);
    }
    for (size_t i = 0; i < count; i++) {
        if (!waits[i] || !zoo_query_await(query, waits[i]) || !pool_node_of(&waits[i]->got).gone)
            ask->each(ask->arg, names[i]);
        if (waits[i])
            zoo_pending_drop(waits[i]);
    }
}

static bool zoo_quota_list(struct zoo_query *query, const struct quota_ask *ask, struct quota_answer *answer)
{
    char paths[ZOO_ANCESTORS_MAX][ZNODE_PATH_MAX];
    size_t count = weir_zoo_ancestors(query->zoo->root, paths, ZOO_ANCESTORS_MAX);
    struct zoo_pending *wait = zoo_query_children(query, paths[count - 1]);
    if (!wait)
        return false;
    answer->found = wait->got.code == ZCODE_OK;
    for (size_t at = 0; at < wait->name_count; at += LIST_BATCH) {
        size_t left = wait->name_count - at;
        list_some(query, ask, wait->names + at, left < LIST_BATCH ? left : LIST_BATCH);
    }
    zoo_pending_drop(wait);
    return true;
}

bool weir_zoo_quota(struct coordinator *coordinator, const struct quota_ask *ask, struct quota_answer *answer,
                    struct weir_error *err)
{
    struct zookeeper *zoo = (struct zookeeper *)coordinator;
    struct znode_epoch nothing = {.wait_ns = 1};
    struct zoo_query *query;
    memset(answer, 0, sizeof *answer);
    weir_error_clear(err);
    query = calloc(1, sizeof *query);
    if (!query)
        return weir_error_complain_as(err, ENOMEM, "out of memory");
    query->zoo = zoo;
    query->err = err;
    query->deadline_ns = sat_add(weir_monotonic_ns(), zoo->options.answer_ns);
    if (ask->op != QUOTA_LIST)
        weir_zoo_texts(&query->texts, zoo->root, ask->name, &nothing);
    bool done = ask->op == QUOTA_CREATE   ? zoo_quota_create(query, ask, answer)
                : ask->op == QUOTA_SHOW   ? zoo_quota_show(query, answer)
                : ask->op == QUOTA_SET    ? zoo_quota_set(query, ask, answer)
                : ask->op == QUOTA_DELETE ? zoo_quota_delete(query, ask, answer)
                                          : zoo_quota_list(query, ask, answer);
    free(query);
    return done;
}
