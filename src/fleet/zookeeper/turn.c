/* SPDX-License-Identifier: MIT */
/*
 * Orders that are one transaction each, and fail if the epoch is not what they were sent for.
 *
 *   TURN     writes `refresh`, makes `usable` and `returns` anew, and checks what the new terms were read
 *            from. A bucket is only numbered anew if its last ticket is dead and still the last; or else the
 *            new numbers wait until all old ones are
 *   PROBE    only checks: the leader gives it a place among the writes all the same
 *   RETURN   adds to `returns`, at the version that was read. Tickets that were asked for when nothing was
 *            left stand between what is valid and what comes next; so many as were read are made up for. (A
 *            ticket is judged by the returns that were known before it was asked for, so none of them comes
 *            alive.)
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "fleet/zookeeper/pool.h"
#include "os/futex.h"

/* Not applied: this is how it stands, as far as was read. */
static void answer_current_epoch(struct zoo_order *order, enum lease_outcome outcome)
{
    struct lease_reply reply = lease_reply_of(&order->asked, outcome);
    reply.epoch = order->zpool->epoch;
    reply.terms = order->zpool->terms.terms;
    weir_zoo_answer(order, &reply);
}

/* What they have in common: the epoch is that of the order, and known. */
static bool is_order_in_epoch(struct zoo_order *order)
{
    struct zoo_pool *zpool = order->zpool;
    if (zpool->epoch == 0 || (order->asked.epoch > zpool->epoch && order->asked.epoch > zpool->lost)) {
        weir_zoo_load_first(order);
        return false;
    }
    if (order->asked.epoch != zpool->epoch) {
        answer_current_epoch(order, LEASE_MOVED);
        return false;
    }
    INVARIANT(54, order->asked.epoch == zpool->epoch);
    return true;
}

static void finish_multi(struct zoo_order *order, const struct zanswer *answer)
{
    struct zoo_pool *zpool = order->zpool;
    struct lease_reply reply = lease_reply_of(&order->asked, LEASE_DONE);
    reply.epoch = order->epoch;
    reply.terms = order->made.terms;
    reply.chunks = order->asked.op == LEASE_RETURN ? order->asked.chunks : 0;
    if (order->asked.op == LEASE_PROBE && answer->stat.mzxid > 0)
        reply.age_ns = weir_znode_age(&(struct znode_stat){.czxid = (int64_t)order->epoch,
                                                           .mzxid = answer->stat.mzxid,
                                                           .ctime_ms = order->ctime_ms,
                                                           .mtime_ms = answer->stat.mtime_ms});
    if (order->asked.op == LEASE_TURN) {
        reply.epoch = (uint64_t)answer->stat.mzxid;
        reply.age_ns = 0;
        reply.left = weir_znode_left(&order->made, &(struct znode_stat){.version = 0}, 0, 0);
        if (reply.epoch > zpool->epoch) {
            zpool->epoch = reply.epoch;
            zpool->terms = order->made;
            zpool->refresh_version = answer->stat.version;
            if (order->pool_wait_ns > 0) {
                zpool->pool_version++;
                zpool->pool_wait_ns = order->pool_wait_ns;
            }
            zpool->returns_version = 0;
            zpool->returned = 0;
            zpool->usable = (struct znode_stat){.czxid = answer->stat.mzxid,
                                                .mzxid = answer->stat.mzxid,
                                                .ctime_ms = answer->stat.mtime_ms,
                                                .mtime_ms = answer->stat.mtime_ms};
            zpool->usable_ns = weir_monotonic_ns();
        }
    }
    weir_zoo_answer(order, &reply);
}

static void multi_done(void *arg, const struct zanswer *answer)
{
    struct zoo_order *order = arg;
    struct zoo_pool *zpool = order->zpool;
    struct zookeeper *zoo = zpool->zoo;
    (void)pthread_mutex_lock(&zoo->lock);
    order->waiting--;
    if (order->replied) {
        weir_zoo_release(order);
    } else if (answer->code == ZCODE_OK) {
        finish_multi(order, answer);
    } else if (answer->code == ZCODE_UNSURE) {
        weir_zoo_answer_outcome(order, LEASE_UNKNOWN, 0);
    } else if (answer->code == ZCODE_DENIED && order->asked.op == LEASE_PROBE && answer->failed == 2) {
        zoo->no_time = true; /* it does without */
        weir_zoo_probe(order);
    } else if (answer->code == ZCODE_DENIED || answer->code == ZCODE_FAILED) {
        if (answer->code == ZCODE_DENIED)
            weir_zoo_denied(zpool);
        weir_zoo_answer_outcome(order, LEASE_FAILED, ZOO_DENIED_NS);
    } else { /* something is not as it was read */
        weir_zoo_load_first(order);
    }
    (void)pthread_mutex_unlock(&zoo->lock);
}

#if WEIR_ASSERTIONS
/* The epoch is what was read, or nothing is done: two of them look at the versions that say so (pool.h). */
static bool checks_epoch(const struct zoo_order *order, const struct zop *ops, size_t count)
{
    const struct zoo_pool *zpool = order->zpool;
    char pool[ZNODE_PATH_MAX], refresh[ZNODE_PATH_MAX];
    bool of_pool = false, of_refresh = false;
    weir_znode_path(pool, zpool->zoo->root, zpool->name, ZNODE_POOL);
    weir_znode_path(refresh, zpool->zoo->root, zpool->name, ZNODE_REFRESH);
    for (size_t i = 0; i < count; i++) {
        of_pool |= strcmp(ops[i].path, pool) == 0 && ops[i].version == zpool->pool_version;
        of_refresh |= strcmp(ops[i].path, refresh) == 0 && ops[i].version == zpool->refresh_version;
    }
    return of_pool && of_refresh;
}
#endif

static void send_multi(struct zoo_order *order, const struct zop *ops, size_t count)
{
#if WEIR_ASSERTIONS
    INVARIANT(54, checks_epoch(order, ops, count));
#endif
    if (weir_zclient_multi(order->zpool->zoo->client, ops, count, multi_done, order))
        order->waiting++;
    else
        weir_zoo_answer_outcome(order, LEASE_FAILED, ZOO_RETRY_NS);
}

static size_t epoch_checks(const struct zoo_pool *zpool, const struct zoo_texts *texts, struct zop *ops)
{
    ops[0] = (struct zop){ZOP_CHECK, zpool->pool_version, texts->paths[ZNODE_POOL], NULL};
    ops[1] = (struct zop){ZOP_CHECK, zpool->refresh_version, texts->paths[ZNODE_REFRESH], NULL};
    return 2;
}

/* ---- turn ---- */

/* BUCKET: how may it be numbered anew? By the last ticket that was asked for. */
enum renumber { RENUMBER_NOT, RENUMBER_AT_ONCE, RENUMBER_LATER };

static enum renumber renumber(struct zoo_pool *zpool)
{
    const struct lease_terms *terms = &zpool->terms.terms;
    const struct znode_stat *usable = &zpool->usable;
    int64_t starts, ends, last = max64(0, (int64_t)usable->version - 1);
    if (usable->czxid >> 32 != usable->mzxid >> 32) /* another leader, another clock */
        return RENUMBER_LATER;
    if (!weir_ticket_span(terms, last, weir_znode_since(&zpool->terms, usable), &starts, &ends))
        return RENUMBER_AT_ONCE;
    bool set_back = starts > sat_add(zpool->terms.wait_ns, sat_mul(4, weir_znode_wait(terms, terms)));
    return set_back || last >= weir_ticket_count(terms) || weir_zoo_has_new_terms(zpool) ? RENUMBER_LATER
                                                                                         : RENUMBER_NOT;
}

static size_t keep_ops(const struct znode_value *node, const char *path, const char *text, struct zop *op)
{
    *op = node->code == ZCODE_OK ? (struct zop){ZOP_CHECK, node->stat.version, path, NULL}
                                 : (struct zop){ZOP_CREATE, 0, path, text};
    return 1;
}

/* The pool's node is checked; and written, if the new epoch lives for another time than the old one. */
static struct zop pool_op(struct zoo_order *order, const struct zoo_texts *texts)
{
    const struct zoo_pool *zpool = order->zpool;
    int64_t wait_ns = weir_znode_outlives(&order->made);
    order->pool_wait_ns = wait_ns == zpool->pool_wait_ns ? 0 : wait_ns;
    return (struct zop){order->pool_wait_ns ? ZOP_SET : ZOP_CHECK, zpool->pool_version,
                        texts->paths[ZNODE_POOL], texts->pool};
}

void weir_zoo_turn(struct zoo_order *order)
{
    struct zoo_pool *zpool = order->zpool;
    struct zoo_texts texts;
    struct zop ops[16];
    size_t count = 0;
    if (!is_order_in_epoch(order))
        return;
    bool bucket = zpool->terms.terms.kind == LEASE_BUCKET;
    enum renumber how = bucket ? renumber(zpool) : RENUMBER_AT_ONCE;
    if (how == RENUMBER_NOT) {
        answer_current_epoch(order, LEASE_FAILED);
        return;
    }
    order->made = (struct znode_epoch){.wait_ns = 0};
    weir_zoo_next_terms(zpool, order->asked.chunk, &order->made.terms);
    if (how == RENUMBER_LATER)
        order->made.wait_ns = weir_znode_wait(&zpool->terms.terms, &order->made.terms);
    int32_t last = bucket && how == RENUMBER_AT_ONCE ? zpool->usable.version : -1;
    weir_zoo_texts(&texts, zpool->zoo->root, zpool->name, &order->made);
    ops[count++] = (struct zop){ZOP_SET, zpool->refresh_version, texts.paths[ZNODE_REFRESH], texts.refresh};
    ops[count++] = pool_op(order, &texts);
    ops[count++] = (struct zop){ZOP_DELETE, last, texts.paths[ZNODE_USABLE], NULL};
    ops[count++] = (struct zop){ZOP_CREATE, 0, texts.paths[ZNODE_USABLE], texts.usable};
    ops[count++] = (struct zop){ZOP_DELETE, -1, texts.paths[ZNODE_RETURNS], NULL};
    ops[count++] = (struct zop){ZOP_CREATE, 0, texts.paths[ZNODE_RETURNS], "0"};
    count += keep_ops(&zpool->total, texts.paths[ZNODE_TOTAL], texts.total, &ops[count]);
    count += keep_ops(&zpool->base, texts.paths[ZNODE_BASE], texts.base, &ops[count]);
    send_multi(order, ops, count);
}

/* ---- probe, return, look ---- */

/* Nothing of the pool is written: whether that may be has to be asked for, if there is reason to doubt it. */
static bool is_doubtful(const struct zoo_pool *zpool)
{
    return zpool->right == ZOO_RIGHT_DENIED || (zpool->zoo->no_time && zpool->right != ZOO_RIGHT_THERE);
}

/* The node above all pools is written along with it: nobody reads that, but its Stat tells the leader's time.
 */
void weir_zoo_probe(struct zoo_order *order)
{
    struct zoo_pool *zpool = order->zpool;
    struct zookeeper *zoo = zpool->zoo;
    struct zoo_texts texts;
    char above[ZNODE_PATH_MAX];
    struct zop ops[3];
    if (is_doubtful(zpool)) {
        weir_zoo_right_first(order);
        return;
    }
    if (!is_order_in_epoch(order))
        return;
    weir_zoo_texts(&texts, zoo->root, zpool->name, &zpool->terms);
    size_t count = epoch_checks(zpool, &texts, ops);
    (void)snprintf(above, sizeof above, "%.255s/quota", zoo->root);
    if (!zoo->no_time)
        ops[count++] = (struct zop){ZOP_SET, -1, above, ""};
    order->epoch = zpool->epoch;
    order->made = zpool->terms;
    order->ctime_ms = zpool->usable.ctime_ms;
    send_multi(order, ops, count);
}

/* Tickets that were asked for in vain: so many numbers are between what is valid and what comes next. */
static int64_t vain_tickets(const struct zoo_pool *zpool)
{
    const struct lease_terms *terms = &zpool->terms.terms;
    int64_t valid = sat_add(weir_ticket_count(terms), zpool->returned);
    return max64(0, (int64_t)zpool->usable.version - valid);
}

void weir_zoo_return(struct zoo_order *order)
{
    struct zoo_pool *zpool = order->zpool;
    struct zoo_texts texts;
    struct zop ops[ZOPS_MAX];
    char text[ZOPS_MAX][24];
    if (order->tries == 0) { /* what was read last may be old, and then it would fail */
        weir_zoo_load_first(order);
        return;
    }
    if (!is_order_in_epoch(order))
        return;
    if (zpool->terms.terms.kind == LEASE_BUCKET || zpool->terms.wait_ns > 0 || order->asked.chunks < 1) {
        weir_zoo_answer_outcome(order, LEASE_FAILED, WEIR_FOREVER);
        return;
    }
    order->asked.chunks = min64(order->asked.chunks, ZOO_RETURN_MAX);
    weir_zoo_texts(&texts, zpool->zoo->root, zpool->name, &zpool->terms);
    size_t count = epoch_checks(zpool, &texts, ops);
    int64_t sets = order->asked.chunks + min64(vain_tickets(zpool), ZOO_RETURN_MAX);
    for (int64_t i = 0; i < sets; i++) {
        (void)snprintf(text[count], sizeof text[0], "%lld", (long long)(zpool->returned + i + 1));
        ops[count] = (struct zop){ZOP_SET, zpool->returns_version + (int32_t)i, texts.paths[ZNODE_RETURNS],
                                  text[count]};
        count++;
    }
    order->epoch = zpool->epoch;
    order->made = zpool->terms;
    send_multi(order, ops, count);
}
