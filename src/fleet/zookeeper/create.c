/* SPDX-License-Identifier: MIT */
/*
 * Making a pool, and making it whole.
 *
 * One multi does it, with an epoch of which nothing can be spent (a bucket: until all that was given out
 * before has died) if somebody may have been given something, because nobody knows what. It checks every
 * version it was decided upon, so of many who mend one does.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/random.h"
#include "base/sat.h"
#include "fleet/zookeeper/pool.h"

/* ---- texts and operations ---- */

void weir_zoo_texts(struct zoo_texts *texts, const char *root, const char *name,
                    const struct znode_epoch *epoch)
{
    const struct lease_terms *terms = &epoch->terms;
    for (int i = 0; i < ZNODE_COUNT; i++)
        weir_znode_path(texts->paths[i], root, name, (enum znode)i);
    weir_znode_pool_write(&(struct znode_pool){.wait_ns = weir_znode_outlives(epoch)}, texts->pool);
    weir_znode_total_write(terms, texts->total);
    (void)snprintf(texts->base, sizeof texts->base, "%" PRId64, terms->base);
    weir_znode_refresh_write(epoch, texts->refresh);
    (void)snprintf(texts->usable, sizeof texts->usable, "%" PRId64,
                   weir_znode_left(epoch, &(struct znode_stat){.version = 0}, 0, 0));
}

size_t weir_zoo_create_ops(const struct zoo_texts *texts, size_t lots, struct zop ops[ZOPS_MAX])
{
    size_t count = 0;
    ops[count++] = (struct zop){ZOP_CREATE, 0, texts->paths[ZNODE_POOL], texts->pool};
    for (size_t i = 0; i < lots; i++)
        ops[count++] = (struct zop){ZOP_SET, -1, texts->paths[ZNODE_POOL], texts->pool};
    ops[count++] = (struct zop){ZOP_CREATE, 0, texts->paths[ZNODE_TOTAL], texts->total};
    ops[count++] = (struct zop){ZOP_CREATE, 0, texts->paths[ZNODE_BASE], texts->base};
    ops[count++] = (struct zop){ZOP_CREATE, 0, texts->paths[ZNODE_REFRESH], texts->refresh};
    ops[count++] = (struct zop){ZOP_CREATE, 0, texts->paths[ZNODE_USABLE], texts->usable};
    ops[count++] = (struct zop){ZOP_CREATE, 0, texts->paths[ZNODE_RETURNS], "0"};
    return count;
}

size_t weir_zoo_ancestors(const char *root, char paths[][ZNODE_PATH_MAX], size_t most)
{
    char whole[ZNODE_PATH_MAX];
    size_t count = 0;
    (void)snprintf(whole, sizeof whole, "%.255s/quota", root);
    for (size_t i = 1; whole[i - 1] && count < most; i++)
        if (whole[i] == '/' || whole[i] == '\0')
            (void)snprintf(paths[count++], ZNODE_PATH_MAX, "%.*s", (int)i, whole);
    return count;
}

/* ---- making ---- */

/* Of a multi that makes something: done or lost to another, it is read again. */
static void znodes_created(void *arg, const struct zanswer *answer)
{
    struct zoo_load *load = arg;
    struct zookeeper *zoo = load->zpool->zoo;
    (void)pthread_mutex_lock(&zoo->lock);
    if (answer->code == ZCODE_DENIED)
        weir_zoo_report_denied(load);
    else if (answer->code == ZCODE_UNSURE || answer->code == ZCODE_FAILED)
        weir_zoo_end_load(load, false, "");
    else
        weir_zoo_reload(load);
    (void)pthread_mutex_unlock(&zoo->lock);
}

static void ignore_create_answer(void *arg, const struct zanswer *answer)
{
    (void)arg, (void)answer;
}

static void create_ancestors(struct zoo_load *load)
{
    struct zookeeper *zoo = load->zpool->zoo;
    char paths[ZOO_ANCESTORS_MAX][ZNODE_PATH_MAX];
    size_t count = weir_zoo_ancestors(zoo->root, paths, ZOO_ANCESTORS_MAX);
    bool sent = count > 0;
    for (size_t i = 0; i < count && sent; i++) {
        struct zop op = {ZOP_CREATE, 0, paths[i], ""};
        bool last = i + 1 == count;
        sent = weir_zclient_multi(zoo->client, &op, 1, last ? znodes_created : ignore_create_answer,
                                  last ? load : NULL);
    }
    if (!sent)
        weir_zoo_end_load(load, false, "");
}

static void pool_created(void *arg, const struct zanswer *answer)
{
    struct zoo_load *load = arg;
    struct zookeeper *zoo = load->zpool->zoo;
    if (answer->code != ZCODE_NONE) {
        znodes_created(arg, answer);
        return;
    }
    (void)pthread_mutex_lock(&zoo->lock);
    create_ancestors(load);
    (void)pthread_mutex_unlock(&zoo->lock);
}

/* ---- an epoch of which nobody knows what was given out before ---- */

/* How long anybody may still spend that, as far as the nodes say. */
static int64_t still_spent(const struct znode_value nodes[ZNODE_COUNT], const struct lease_terms *next)
{
    const struct znode_value *own = &nodes[ZNODE_POOL], *refresh = &nodes[ZNODE_REFRESH];
    struct znode_pool pool = {.gone = false};
    struct znode_epoch epoch;
    if (own->code == ZCODE_OK)
        weir_znode_pool_read(&pool, own->text, own->len);
    if (refresh->code == ZCODE_OK && weir_znode_refresh_read(&epoch, refresh->text, refresh->len))
        return max64(pool.wait_ns, max64(weir_znode_outlives(&epoch), weir_znode_wait(&epoch.terms, next)));
    return pool.wait_ns;
}

void weir_zoo_repaired(const struct znode_epoch *known, const struct znode_value nodes[ZNODE_COUNT],
                       struct znode_epoch *epoch, struct zoo_texts *texts, const char *root, const char *name)
{
    const struct znode_value *total = &nodes[ZNODE_TOTAL], *base = &nodes[ZNODE_BASE];
    struct lease_terms next;
    char note[160];
    weir_znode_next(known, total->text, total->code == ZCODE_OK ? total->len : 0, base->text,
                    base->code == ZCODE_OK ? base->len : 0, 0, &next, note);
    int64_t wait = max64(known->wait_ns, weir_znode_wait(&known->terms, &next));
    *epoch = (struct znode_epoch){.terms = next, .wait_ns = max64(wait, still_spent(nodes, &next))};
    epoch->wait_ns = min64(epoch->wait_ns, TICKET_WINDOW_MAX);
    if (next.kind == LEASE_QUOTA)
        epoch->terms.window_ns = epoch->wait_ns;
    weir_zoo_texts(texts, root, name, epoch);
    weir_znode_total_write(&next, texts->total);
}

static size_t remake_ops(const struct znode_value *node, const char *path, const char *data, struct zop *ops)
{
    size_t count = 0;
    if (node->code == ZCODE_OK)
        ops[count++] = (struct zop){ZOP_DELETE, -1, path, NULL};
    ops[count++] = (struct zop){ZOP_CREATE, 0, path, data};
    return count;
}

size_t weir_zoo_repair_ops(const struct zoo_texts *texts, const struct znode_value nodes[ZNODE_COUNT],
                           struct zop ops[ZOPS_MAX])
{
    size_t count = 0;
    ops[count++] =
        (struct zop){ZOP_SET, nodes[ZNODE_POOL].stat.version, texts->paths[ZNODE_POOL], texts->pool};
    if (nodes[ZNODE_REFRESH].code == ZCODE_OK)
        ops[count++] = (struct zop){ZOP_SET, nodes[ZNODE_REFRESH].stat.version, texts->paths[ZNODE_REFRESH],
                                    texts->refresh};
    else
        ops[count++] = (struct zop){ZOP_CREATE, 0, texts->paths[ZNODE_REFRESH], texts->refresh};
    count += remake_ops(&nodes[ZNODE_USABLE], texts->paths[ZNODE_USABLE], texts->usable, ops + count);
    count += remake_ops(&nodes[ZNODE_RETURNS], texts->paths[ZNODE_RETURNS], "0", ops + count);
    if (nodes[ZNODE_TOTAL].code == ZCODE_NONE)
        ops[count++] = (struct zop){ZOP_CREATE, 0, texts->paths[ZNODE_TOTAL], texts->total};
    if (nodes[ZNODE_BASE].code == ZCODE_NONE)
        ops[count++] = (struct zop){ZOP_CREATE, 0, texts->paths[ZNODE_BASE], texts->base};
    return count;
}

/* ---- for those who ask ---- */

static void repaired_texts(const struct zoo_load *load, struct zoo_texts *texts)
{
    const struct zoo_pool *zpool = load->zpool;
    struct znode_epoch known = {.terms = zpool->asked}, epoch;
    weir_zoo_repaired(zpool->epoch ? &zpool->terms : &known, load->nodes, &epoch, texts, zpool->zoo->root,
                      zpool->name);
}

/* One that was there when this node last looked, and is gone, may have given out units as well. */
void weir_zoo_create_pool(struct zoo_load *load)
{
    struct zoo_pool *zpool = load->zpool;
    struct zookeeper *zoo = zpool->zoo;
    struct zoo_texts texts;
    struct zop ops[ZOPS_MAX];
    if (zpool->epoch)
        repaired_texts(load, &texts);
    else
        weir_zoo_texts(&texts, zoo->root, zpool->name, &(struct znode_epoch){.terms = zpool->asked});
    size_t count = weir_zoo_create_ops(&texts, (size_t)random_below(&zoo->random, 32), ops);
    if (!weir_zclient_multi(zoo->client, ops, count, pool_created, load))
        weir_zoo_end_load(load, false, "");
}

void weir_zoo_repair_pool(struct zoo_load *load)
{
    struct zoo_texts texts;
    struct zop ops[ZOPS_MAX];
    repaired_texts(load, &texts);
    size_t count = weir_zoo_repair_ops(&texts, load->nodes, ops);
    if (!weir_zclient_multi(load->zpool->zoo->client, ops, count, znodes_created, load))
        weir_zoo_end_load(load, false, "");
}
