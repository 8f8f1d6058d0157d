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
#include "fleet/zookeeper_ask.h"
#include "os/futex.h"

#define DELETE_MAX 64  /* children of a pool that are deleted with it */
#define LIST_BATCH 256 /* names of a list that are looked at at a time */

/* ---- show ---- */

static bool read_nodes(struct asking *asking)
{
    static const enum znode order[] = {ZNODE_POOL,    ZNODE_USABLE, ZNODE_REFRESH,
                                       ZNODE_RETURNS, ZNODE_TOTAL,  ZNODE_BASE};
    for (size_t i = 0; i < ZNODE_COUNT; i++) {
        struct wait *wait = weir_zoo_ask_get(asking, asking->texts.paths[order[i]]);
        if (!wait)
            return false;
        asking->nodes[order[i]] = wait->got;
        weir_zoo_drop(wait);
    }
    return true;
}

static struct znode_pool pool_of(const struct reading *own)
{
    struct znode_pool pool = {.gone = false};
    if (own->code == ZCODE_OK)
        weir_znode_pool_read(&pool, own->text, own->len);
    return pool;
}

static void fill_broken(const struct reading *nodes, struct quota_answer *answer)
{
    answer->found = nodes[ZNODE_POOL].code == ZCODE_OK && !pool_of(&nodes[ZNODE_POOL]).gone;
    answer->age_ns = -1;
    if (answer->found)
        (void)snprintf(
            answer->note, sizeof answer->note,
            "its nodes do not belong together: the next node that asks makes them anew, and nothing "
            "passes for a window");
}

/* The leader tells its time with a write: of the node above all pools, as a probe does. Who may not write
 * there is told how old it was at its last ticket. */
static int64_t age_of(struct asking *asking, const struct znode_stat *usable)
{
    struct weir_error ignored;
    struct asking quiet = {.zoo = asking->zoo, .err = &ignored, .deadline_ns = asking->deadline_ns};
    struct znode_stat now = *usable;
    char above[ZNODE_PATH_MAX];
    (void)snprintf(above, sizeof above, "%.255s/quota", asking->zoo->root);
    struct zop op = {ZOP_SET, -1, above, ""};
    struct wait *wait = weir_zoo_ask_multi(&quiet, &op, 1);
    if (wait && wait->got.code == ZCODE_OK && wait->got.stat.mzxid > 0) {
        now.mzxid = wait->got.stat.mzxid;
        now.mtime_ms = wait->got.stat.mtime_ms;
    }
    if (wait)
        weir_zoo_drop(wait);
    return weir_znode_age(&now);
}

static bool show(struct asking *asking, struct quota_answer *answer)
{
    const struct reading *nodes = asking->nodes;
    struct znode_epoch epoch;
    for (int tries = 0;; tries++) { /* it may be turned while it is read */
        if (!read_nodes(asking))
            return false;
        bool whole = nodes[ZNODE_USABLE].code == ZCODE_OK && nodes[ZNODE_RETURNS].code == ZCODE_OK &&
                     nodes[ZNODE_REFRESH].code == ZCODE_OK &&
                     nodes[ZNODE_REFRESH].stat.mzxid == nodes[ZNODE_USABLE].stat.czxid &&
                     weir_znode_refresh_read(&epoch, nodes[ZNODE_REFRESH].text, nodes[ZNODE_REFRESH].len);
        if (whole)
            break;
        if (nodes[ZNODE_POOL].code != ZCODE_OK || pool_of(&nodes[ZNODE_POOL]).gone || tries == 3) {
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
    answer->age_ns = age_of(asking, &nodes[ZNODE_USABLE].stat);
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

static bool make_ancestors(struct asking *asking)
{
    char paths[ZOO_ANCESTORS_MAX][ZNODE_PATH_MAX];
    size_t count = weir_zoo_ancestors(asking->zoo->root, paths, ZOO_ANCESTORS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct zop op = {ZOP_CREATE, 0, paths[i], ""};
        struct wait *wait = weir_zoo_ask_multi(asking, &op, 1);
        if (!wait)
            return false;
        weir_zoo_drop(wait);
    }
    return true;
}

/* One that was deleted begins with an epoch that waits. *code: what came of it. */
static bool revive(struct asking *asking, const struct quota_ask *ask, int32_t *code)
{
    struct znode_epoch known = {.terms = ask->terms}, epoch;
    struct zop ops[ZOPS_MAX];
    if (!read_nodes(asking))
        return false;
    if (!pool_of(&asking->nodes[ZNODE_POOL]).gone || asking->nodes[ZNODE_USABLE].code != ZCODE_NONE)
        return true;
    weir_zoo_mended(&known, asking->nodes, &epoch, &asking->texts, asking->zoo->root, ask->name);
    struct wait *wait =
        weir_zoo_ask_multi(asking, ops, weir_zoo_mend_ops(&asking->texts, asking->nodes, ops));
    if (!wait)
        return false;
    *code = wait->got.code == ZCODE_OK ? ZCODE_OK : ZCODE_EXISTS; /* somebody else was first */
    weir_zoo_drop(wait);
    return true;
}

/* ZCODE_OK: made; ZCODE_EXISTS: it was there already. false: no answer, and a message. */
static bool make(struct asking *asking, const struct quota_ask *ask, int32_t *code)
{
    struct znode_epoch epoch = {.terms = ask->terms};
    struct zop ops[ZOPS_MAX];
    weir_zoo_texts(&asking->texts, asking->zoo->root, ask->name, &epoch);
    size_t count = weir_zoo_make_ops(&asking->texts, (uint64_t)weir_monotonic_ns() / 1024 % 32, ops);
    for (int tries = 0; tries < 2; tries++) {
        struct wait *wait = weir_zoo_ask_multi(asking, ops, count);
        if (!wait)
            return false;
        *code = wait->got.code;
        weir_zoo_drop(wait);
        if (*code == ZCODE_EXISTS)
            return revive(asking, ask, code);
        if (*code != ZCODE_NONE || !make_ancestors(asking))
            break;
    }
    return true;
}

static bool create(struct asking *asking, const struct quota_ask *ask, struct quota_answer *answer)
{
    int32_t code;
    if (!make(asking, ask, &code))
        return false;
    if (code == ZCODE_OK || code == ZCODE_EXISTS) {
        bool shown = show(asking, answer);
        answer->found = code == ZCODE_EXISTS;
        return shown;
    }
    if (asking->err && asking->err->text[0] == '\0')
        (void)weir_error_complain(asking->err, "ZooKeeper refuses to make %s",
                                  asking->texts.paths[ZNODE_POOL]);
    return false;
}

/* What is 0 stays; written at the versions that were read, so that of two operators one is told. */
static bool set(struct asking *asking, const struct quota_ask *ask, struct quota_answer *answer)
{
    if (!show(asking, answer))
        return false;
    if (!answer->found || answer->epoch == 0)
        return weir_error_complain_as(asking->err, ENOENT, "there is no quota '%s'; create it first",
                                      ask->name);
    struct lease_terms terms = answer->next;
    char why[200];
    terms.total = ask->terms.total > 0 ? ask->terms.total : terms.total;
    terms.window_ns = ask->terms.window_ns > 0 ? ask->terms.window_ns : terms.window_ns;
    terms.burst = ask->terms.burst > 0 && terms.kind == LEASE_BUCKET ? ask->terms.burst : terms.burst;
    terms.base = ask->terms.base > 0 ? ask->terms.base : terms.base;
    terms.chunk = 0;
    if (!weir_terms_complete(&terms, 1, why, sizeof why))
        return weir_error_complain(asking->err, "%s", why);
    const struct reading *nodes = asking->nodes;
    struct zop ops[2];
    char total[ZNODE_TEXT_MAX], base[32];
    weir_znode_total_write(&terms, total);
    (void)snprintf(base, sizeof base, "%" PRId64, terms.base);
    for (int i = 0; i < 2; i++) {
        enum znode which = i == 0 ? ZNODE_TOTAL : ZNODE_BASE;
        ops[i] = (struct zop){nodes[which].code == ZCODE_OK ? ZOP_SET : ZOP_CREATE, nodes[which].stat.version,
                              asking->texts.paths[which], i == 0 ? total : base};
    }
    struct wait *wait = weir_zoo_ask_multi(asking, ops, 2);
    if (!wait)
        return false;
    int32_t code = wait->got.code;
    weir_zoo_drop(wait);
    if (code != ZCODE_OK)
        return weir_error_complain_as(
            asking->err, EAGAIN, "somebody else has changed '%s' just now; look, and try again", ask->name);
    answer->next = terms;
    answer->note[0] = '\0';
    return true;
}

/* What stays of a deleted pool: its node, so that whoever makes it anew waits for those who hold units of it.
 */
static void write_mark(const struct asking *asking, char mark[ZNODE_TEXT_MAX])
{
    const struct reading *refresh = &asking->nodes[ZNODE_REFRESH];
    struct znode_pool pool = pool_of(&asking->nodes[ZNODE_POOL]);
    struct znode_epoch epoch;
    if (refresh->code == ZCODE_OK && weir_znode_refresh_read(&epoch, refresh->text, refresh->len))
        pool.wait_ns = max64(pool.wait_ns, weir_znode_outlives(&epoch));
    pool.gone = true;
    weir_znode_pool_write(&pool, mark);
}

/* One try. *gone: it is, or was not there. */
static bool try_delete(struct asking *asking, struct quota_answer *answer, bool *gone)
{
    struct zop ops[DELETE_MAX + 1];
    char paths[DELETE_MAX][ZNODE_PATH_MAX + 256], mark[ZNODE_TEXT_MAX];
    const struct reading *own = &asking->nodes[ZNODE_POOL];
    if (!read_nodes(asking))
        return false;
    struct wait *wait = weir_zoo_ask_children(asking, asking->texts.paths[ZNODE_POOL]);
    if (!wait)
        return false;
    *gone = wait->got.code == ZCODE_NONE || (pool_of(own).gone && wait->name_count == 0);
    answer->found = answer->found || !*gone;
    size_t count = 0;
    for (; count < wait->name_count && count < DELETE_MAX; count++) {
        (void)snprintf(paths[count], sizeof paths[0], "%s/%.255s", asking->texts.paths[ZNODE_POOL],
                       wait->names[count]);
        ops[count] = (struct zop){ZOP_DELETE, -1, paths[count], NULL};
    }
    bool all = count == wait->name_count;
    weir_zoo_drop(wait);
    if (*gone)
        return true;
    write_mark(asking, mark);
    ops[count++] = (struct zop){ZOP_SET, own->stat.version, asking->texts.paths[ZNODE_POOL], mark};
    wait = weir_zoo_ask_multi(asking, ops, count);
    if (!wait)
        return false;
    *gone = all && wait->got.code == ZCODE_OK;
    weir_zoo_drop(wait);
    return true;
}

static bool delete (struct asking *asking, const struct quota_ask *ask, struct quota_answer *answer)
{
    bool gone = false;
    for (int tries = 0; tries < 4 && !gone; tries++)
        if (!try_delete(asking, answer, &gone))
            return false;
    return gone ||
           weir_error_complain_as(asking->err, ENOTEMPTY,
                                  "%s could not be deleted: it has nodes that are not weir's", ask->name);
}

/* Those of them that were not deleted; one that is not answered in time counts as such. */
static void list_some(struct asking *asking, const struct quota_ask *ask, char *const *names, size_t count)
{
    struct wait *waits[LIST_BATCH];
    char path[ZNODE_PATH_MAX];
    for (size_t i = 0; i < count; i++) {
        weir_znode_path(path, asking->zoo->root, names[i], ZNODE_POOL);
        waits[i] = weir_zoo_begin_get(asking, path);
    }
    for (size_t i = 0; i < count; i++) {
        if (!waits[i] || !weir_zoo_is_answered(asking, waits[i]) || !pool_of(&waits[i]->got).gone)
            ask->each(ask->arg, names[i]);
        if (waits[i])
            weir_zoo_drop(waits[i]);
    }
}

static bool list(struct asking *asking, const struct quota_ask *ask, struct quota_answer *answer)
{
    char paths[ZOO_ANCESTORS_MAX][ZNODE_PATH_MAX];
    size_t count = weir_zoo_ancestors(asking->zoo->root, paths, ZOO_ANCESTORS_MAX);
    struct wait *wait = weir_zoo_ask_children(asking, paths[count - 1]);
    if (!wait)
        return false;
    answer->found = wait->got.code == ZCODE_OK;
    for (size_t at = 0; at < wait->name_count; at += LIST_BATCH) {
        size_t left = wait->name_count - at;
        list_some(asking, ask, wait->names + at, left < LIST_BATCH ? left : LIST_BATCH);
    }
    weir_zoo_drop(wait);
    return true;
}

bool weir_zoo_quota(struct coordinator *coordinator, const struct quota_ask *ask, struct quota_answer *answer,
                    struct weir_error *err)
{
    struct zookeeper *zoo = (struct zookeeper *)coordinator;
    struct znode_epoch nothing = {.wait_ns = 1};
    struct asking *asking;
    memset(answer, 0, sizeof *answer);
    weir_error_clear(err);
    if (ask->op != QUOTA_LIST && !weir_fleet_name_check(ask->name, err))
        return false;
    asking = calloc(1, sizeof *asking);
    if (!asking)
        return weir_error_complain_as(err, ENOMEM, "out of memory");
    asking->zoo = zoo;
    asking->err = err;
    asking->deadline_ns = sat_add(weir_monotonic_ns(), zoo->options.answer_ns);
    if (ask->op != QUOTA_LIST)
        weir_zoo_texts(&asking->texts, zoo->root, ask->name, &nothing);
    bool done = ask->op == QUOTA_CREATE   ? create(asking, ask, answer)
                : ask->op == QUOTA_SHOW   ? show(asking, answer)
                : ask->op == QUOTA_SET    ? set(asking, ask, answer)
                : ask->op == QUOTA_DELETE ? delete (asking, ask, answer)
                                          : list(asking, ask, answer);
    free(asking);
    return done;
}
