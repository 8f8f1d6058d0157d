/* SPDX-License-Identifier: MIT */
/*
 * Reading a pool.
 *
 * The nodes are read one after the other on one session, the pool's own first and `usable` before `refresh`:
 * if `refresh` is of the transaction that made `usable`, both belong together, and the version of the pool's
 * node is not newer than they are. A turn in between shows, and all is read again; what does not belong
 * together then is broken, and made whole (create.c).
 *
 * What is read is watched. A watch stays until its node changes, which may be never; so those of a pool that
 * was left are removed when nothing of it is on the way that could set them again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "fleet/zookeeper/pool.h"

static const enum znode read_order[] = {ZNODE_POOL,    ZNODE_USABLE, ZNODE_REFRESH,
                                        ZNODE_RETURNS, ZNODE_TOTAL,  ZNODE_BASE};

static void load_all_znodes(struct zoo_load *load);

/* ---- the end of it ---- */

void weir_zoo_trouble(struct zoo_pool *zpool, const char *why)
{
    if (zpool->watch && zpool->zoo->sink.troubled && (why[0] || zpool->troubled))
        zpool->zoo->sink.troubled(zpool->owner, why);
    zpool->troubled = why[0] != '\0';
}

void weir_zoo_end_load(struct zoo_load *load, bool ok, const char *why)
{
    struct zoo_pool *zpool = load->zpool;
    struct zookeeper *zoo = zpool->zoo;
    zpool->load = NULL;
    free(load);
    zoo->loading--;
    if (ok ? zpool->right != ZOO_RIGHT_DENIED : why[0] != '\0')
        weir_zoo_trouble(zpool, why);
    zpool->orders++; /* it stays until here */
    weir_zoo_loaded(zpool, ok);
    zpool->orders--;
    if (zpool->load_again && zpool->watch) {
        zpool->load_again = false;
        weir_zoo_load(zpool);
    }
    weir_zoo_pool_release(zpool);
    weir_zoo_load_next(zoo);
}

void weir_zoo_reload(struct zoo_load *load)
{
    if (++load->tries > ZOO_TRIES_MAX)
        weir_zoo_end_load(load, false, "the nodes of this pool in ZooKeeper change all the time");
    else
        load_all_znodes(load);
}

void weir_zoo_report_denied(struct zoo_load *load)
{
    char why[160];
    (void)snprintf(why, sizeof why, "ZooKeeper: no right to %.100s: check user, password and ACL",
                   load->zpool->name);
    weir_zoo_end_load(load, false, why);
}

/* ---- reading ---- */

/* Chunks that came back: what the version and the text agree on. So a hand that writes there, whatever
 * number, adds one for each time at most, as a node would; with nonsense it takes all of them back. */
static int64_t returned_of(const struct znode_value *returns)
{
    int64_t number = 0;
    if (!weir_znode_base_read(&number, returns->text, returns->len))
        return 0;
    return min64(number, returns->stat.version);
}

static struct znode_pool loaded_pool_node(const struct zoo_load *load)
{
    struct znode_pool pool;
    weir_znode_pool_read(&pool, load->nodes[ZNODE_POOL].text, load->nodes[ZNODE_POOL].len);
    return pool;
}

static void adopt_epoch(struct zoo_load *load, const struct znode_epoch *terms)
{
    struct zoo_pool *zpool = load->zpool;
    const struct znode_value *nodes = load->nodes;
    uint64_t epoch = (uint64_t)nodes[ZNODE_USABLE].stat.czxid;
    int64_t returned = returned_of(&nodes[ZNODE_RETURNS]);
    bool is_new = epoch > zpool->epoch, more = !is_new && returned > zpool->returned;
    struct lease_terms next;
    INVARIANT(54, epoch >= zpool->epoch && nodes[ZNODE_REFRESH].stat.mzxid == nodes[ZNODE_USABLE].stat.czxid);
    zpool->epoch = epoch;
    zpool->terms = *terms;
    zpool->pool_version = nodes[ZNODE_POOL].stat.version;
    zpool->pool_wait_ns = loaded_pool_node(load).wait_ns;
    zpool->refresh_version = nodes[ZNODE_REFRESH].stat.version;
    zpool->returns_version = nodes[ZNODE_RETURNS].stat.version;
    zpool->returned = returned;
    if (is_new || nodes[ZNODE_USABLE].stat.version > zpool->usable.version) {
        zpool->usable = nodes[ZNODE_USABLE].stat;
        zpool->usable_ns = 0;
    }
    zpool->total = nodes[ZNODE_TOTAL];
    zpool->base = nodes[ZNODE_BASE];
    weir_zoo_next_terms(zpool, 0, &next);
    if (zpool->watch && is_new) {
        struct lease_reply seen = {.epoch = epoch, .terms = terms->terms, .age_ns = -1, .ends_ns = -1};
        seen.left = weir_znode_left(terms, &zpool->usable, zpool->returned, 0);
        zpool->zoo->sink.noticed(zpool->owner, &seen);
    }
    if (zpool->watch && more)
        zpool->zoo->sink.more(zpool->owner);
    weir_zoo_end_load(load, true, zpool->note);
}

void weir_zoo_next_terms(struct zoo_pool *zpool, int64_t chunk, struct lease_terms *terms)
{
    const struct znode_value *total = &zpool->total, *base = &zpool->base;
    weir_znode_next(&zpool->terms, total->text, total->code == ZCODE_OK ? total->len : 0, base->text,
                    base->code == ZCODE_OK ? base->len : 0, chunk, terms, zpool->note);
}

/* ---- what it means ---- */

/* The checks were applied: nobody has ended this epoch, though a later one was known. */
static void old_epoch_confirmed(void *arg, const struct zanswer *answer)
{
    struct zoo_load *load = arg;
    struct zoo_pool *zpool = load->zpool;
    struct zookeeper *zoo = zpool->zoo;
    const struct znode_value *refresh = &load->nodes[ZNODE_REFRESH];
    struct znode_epoch terms;
    (void)pthread_mutex_lock(&zoo->lock);
    if (answer->code == ZCODE_OK && weir_znode_refresh_read(&terms, refresh->text, refresh->len)) {
        if ((uint64_t)load->nodes[ZNODE_USABLE].stat.czxid < zpool->epoch) {
            zpool->lost = zpool->epoch > zpool->lost ? zpool->epoch : zpool->lost;
            zpool->epoch = 0;
        }
        adopt_epoch(load, &terms);
    } else {
        weir_zoo_end_load(load, false, "");
    }
    (void)pthread_mutex_unlock(&zoo->lock);
}

/* An earlier epoch than the one that is known: this server is behind, or the data is an old copy. */
static void confirm_old_epoch(struct zoo_load *load)
{
    struct zoo_pool *zpool = load->zpool;
    const enum znode which[] = {ZNODE_POOL, ZNODE_REFRESH};
    char paths[2][ZNODE_PATH_MAX];
    struct zop ops[2];
    for (int i = 0; i < 2; i++) {
        weir_znode_path(paths[i], zpool->zoo->root, zpool->name, which[i]);
        ops[i] = (struct zop){ZOP_CHECK, load->nodes[which[i]].stat.version, paths[i], NULL};
    }
    if (!weir_zclient_multi(zpool->zoo->client, ops, 2, old_epoch_confirmed, load))
        weir_zoo_end_load(load, false, "");
}

/* It was deleted: what is held of it is void. The transaction that did it stands for an epoch. */
static void notice_deleted(struct zoo_load *load)
{
    struct zoo_pool *zpool = load->zpool;
    struct lease_reply seen = {.epoch = (uint64_t)load->nodes[ZNODE_POOL].stat.mzxid,
                               .terms = zpool->terms.terms,
                               .age_ns = -1,
                               .ends_ns = -1};
    if (zpool->watch && zpool->epoch != 0 && seen.epoch > zpool->epoch)
        zpool->zoo->sink.noticed(zpool->owner, &seen);
    weir_zoo_end_load(load, false, "");
}

/* false: one could not be read, and that was the end of it. */
static bool check_all_loaded(struct zoo_load *load)
{
    for (int i = 0; i < ZNODE_COUNT; i++) {
        if (load->nodes[i].code == ZCODE_DENIED) {
            weir_zoo_report_denied(load);
            return false;
        }
        if (load->nodes[i].code != ZCODE_OK && load->nodes[i].code != ZCODE_NONE) {
            weir_zoo_end_load(load, false, "");
            return false;
        }
    }
    return true;
}

static void check_loaded_pool(struct zoo_load *load)
{
    static const enum znode needed[] = {ZNODE_USABLE, ZNODE_REFRESH, ZNODE_RETURNS};
    struct zoo_pool *zpool = load->zpool;
    const struct znode_value *nodes = load->nodes;
    struct znode_epoch terms;
    int missing = 0;
    if (!check_all_loaded(load))
        return;
    for (int i = 0; i < 3; i++)
        missing += nodes[needed[i]].code == ZCODE_NONE;
    bool wanted = zpool->waiting != NULL; /* nobody asks: what an operator deletes stays away */
    bool there = nodes[ZNODE_POOL].code == ZCODE_OK, gone = there && loaded_pool_node(load).gone;
    if (there && !gone && missing == 0 && nodes[ZNODE_REFRESH].stat.mzxid == nodes[ZNODE_USABLE].stat.czxid &&
        weir_znode_refresh_read(&terms, nodes[ZNODE_REFRESH].text, nodes[ZNODE_REFRESH].len)) {
        if ((uint64_t)nodes[ZNODE_USABLE].stat.czxid < zpool->epoch)
            confirm_old_epoch(load);
        else
            adopt_epoch(load, &terms);
    } else if (there && !(gone && missing == 3) && load->tries < 3) { /* turned while it was read? */
        weir_zoo_reload(load);
    } else if (wanted && there) {
        load->tries++;
        weir_zoo_repair_pool(load);
    } else if (wanted) {
        weir_zoo_create_pool(load);
    } else if (gone) {
        notice_deleted(load);
    } else {
        weir_zoo_end_load(load, false, "");
    }
}

static void znode_loaded(void *arg, const struct zanswer *answer)
{
    struct znode_value *reading = arg;
    struct zoo_load *load = reading->load;
    struct zookeeper *zoo = load->zpool->zoo;
    (void)pthread_mutex_lock(&zoo->lock);
    reading->code = answer->code;
    reading->stat = answer->stat;
    reading->len = answer->len < ZNODE_TEXT_MAX ? answer->len : 0;
    if (answer->len >= ZNODE_TEXT_MAX)
        reading->len = (size_t)snprintf(reading->text, sizeof reading->text, "?");
    else if (reading->len > 0)
        memcpy(reading->text, answer->data, reading->len);
    else
        reading->text[0] = '?'; /* an empty node says nothing: as nonsense */
    if (reading->code == ZCODE_OK && reading->len == 0)
        reading->len = 1;
    if (--load->waiting == 0)
        check_loaded_pool(load);
    (void)pthread_mutex_unlock(&zoo->lock);
}

static bool is_watched(enum znode which)
{
    return which != ZNODE_POOL && which != ZNODE_USABLE;
}

static bool is_any_zpool(struct name_node *entry)
{
    (void)entry;
    return true;
}

void weir_zoo_unwatch(struct zoo_pool *zpool)
{
    struct zookeeper *zoo = zpool->zoo;
    bool shared = weir_name_trie_find(&zoo->trie, zpool->name, is_any_zpool) != NULL;
    char path[ZNODE_PATH_MAX];
    for (size_t i = 0; i < ZNODE_COUNT; i++)
        if (is_watched(read_order[i])) {
            weir_znode_path(path, zoo->root, zpool->name, read_order[i]);
            weir_zclient_unwatch(zoo->client, path, zpool->watched, shared);
        }
}

static void load_all_znodes(struct zoo_load *load)
{
    struct zoo_pool *zpool = load->zpool;
    char path[ZNODE_PATH_MAX];
    load->waiting = 1; /* until all are sent */
    for (size_t i = 0; i < ZNODE_COUNT; i++) {
        enum znode which = read_order[i];
        struct znode_value *reading = &load->nodes[which];
        *reading = (struct znode_value){.load = load, .code = ZCODE_UNSURE};
        weir_znode_path(path, zpool->zoo->root, zpool->name, which);
        if (weir_zclient_get(zpool->zoo->client, path, is_watched(which) ? zpool->watch : 0, znode_loaded,
                             reading))
            load->waiting++;
    }
    if (--load->waiting == 0)
        check_loaded_pool(load);
}

void weir_zoo_load_next(struct zookeeper *zoo)
{
    if (zoo->starts_loading) /* without a connection each ends at once, and calls this: the loop goes on */
        return;
    ASSERT(!zoo->starts_loading);
    zoo->starts_loading = true;
    while (zoo->to_load && zoo->loading < ZOO_LOADS_MAX) {
        struct zoo_pool *zpool = zoo->to_load;
        zoo->to_load = zpool->next_to_load;
        zpool->load_due = false;
        struct zoo_load *load = zpool->watch ? calloc(1, sizeof *load) : NULL;
        if (!load) {
            zpool->orders++;
            weir_zoo_loaded(zpool, false);
            zpool->orders--;
            weir_zoo_pool_release(zpool);
            continue;
        }
        zoo->loading++;
        zpool->load = load;
        load->zpool = zpool;
        load_all_znodes(load);
    }
    zoo->starts_loading = false;
}

void weir_zoo_load(struct zoo_pool *zpool)
{
    struct zookeeper *zoo = zpool->zoo;
    if (zpool->load) { /* what is being read may be old already */
        zpool->load_again = true;
        return;
    }
    if (!zpool->load_due) {
        zpool->load_due = true;
        zpool->next_to_load = NULL;
        if (zoo->to_load)
            zoo->to_load_last->next_to_load = zpool;
        else
            zoo->to_load = zpool;
        zoo->to_load_last = zpool;
    }
    weir_zoo_load_next(zoo);
}
