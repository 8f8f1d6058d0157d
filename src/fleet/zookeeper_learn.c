/* SPDX-License-Identifier: MIT */
/*
 * Reading a pool.
 *
 * The nodes are read one after the other on one session, the pool's own first and `usable` before `refresh`:
 * if `refresh` is of the transaction that made `usable`, both belong together, and the version of the pool's
 * node is not newer than they are. A turn in between shows, and all is read again; what does not belong
 * together then is broken, and made whole (zookeeper_make.c).
 *
 * What is read is watched. A watch stays until its node changes, which may be never; so those of a place that
 * was left are removed when nothing of it is on the way that could set them again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "fleet/zookeeper_place.h"

static const enum znode read_order[] = {ZNODE_POOL,    ZNODE_USABLE, ZNODE_REFRESH,
                                        ZNODE_RETURNS, ZNODE_TOTAL,  ZNODE_BASE};

static void read_all(struct learn *learn);

/* ---- the end of it ---- */

void weir_zoo_trouble(struct place *place, const char *why)
{
    if (place->watch && place->zoo->sink.troubled && (why[0] || place->troubled))
        place->zoo->sink.troubled(place->owner, why);
    place->troubled = why[0] != '\0';
}

void weir_zoo_end_learn(struct learn *learn, bool ok, const char *why)
{
    struct place *place = learn->place;
    struct zookeeper *zoo = place->zoo;
    place->learn = NULL;
    free(learn);
    zoo->learning--;
    if (ok ? place->right != ZOO_RIGHT_DENIED : why[0] != '\0')
        weir_zoo_trouble(place, why);
    place->orders++; /* it stays until here */
    weir_zoo_learned(place, ok);
    place->orders--;
    if (place->learn_again && place->watch) {
        place->learn_again = false;
        weir_zoo_learn(place);
    }
    weir_zoo_place_release(place);
    weir_zoo_learn_next(zoo);
}

void weir_zoo_read_again(struct learn *learn)
{
    if (++learn->tries > ZOO_TRIES_MAX)
        weir_zoo_end_learn(learn, false, "the nodes of this pool in ZooKeeper change all the time");
    else
        read_all(learn);
}

void weir_zoo_say_denied(struct learn *learn)
{
    char why[160];
    (void)snprintf(why, sizeof why, "ZooKeeper: no right to %.100s: check user, password and ACL",
                   learn->place->name);
    weir_zoo_end_learn(learn, false, why);
}

/* ---- reading ---- */

/* Chunks that came back: what the version and the text agree on. So a hand that writes there, whatever
 * number, adds one for each time at most, as a node would; with nonsense it takes all of them back. */
static int64_t returned_of(const struct reading *returns)
{
    int64_t number = 0;
    if (!weir_znode_base_read(&number, returns->text, returns->len))
        return 0;
    return min64(number, returns->stat.version);
}

static struct znode_pool pool_of(const struct learn *learn)
{
    struct znode_pool pool;
    weir_znode_pool_read(&pool, learn->nodes[ZNODE_POOL].text, learn->nodes[ZNODE_POOL].len);
    return pool;
}

static void adopt(struct learn *learn, const struct znode_epoch *terms)
{
    struct place *place = learn->place;
    const struct reading *nodes = learn->nodes;
    uint64_t epoch = (uint64_t)nodes[ZNODE_USABLE].stat.czxid;
    int64_t returned = returned_of(&nodes[ZNODE_RETURNS]);
    bool is_new = epoch > place->epoch, more = !is_new && returned > place->returned;
    struct lease_terms next;
    place->epoch = epoch;
    place->terms = *terms;
    place->pool_version = nodes[ZNODE_POOL].stat.version;
    place->pool_wait_ns = pool_of(learn).wait_ns;
    place->refresh_version = nodes[ZNODE_REFRESH].stat.version;
    place->returns_version = nodes[ZNODE_RETURNS].stat.version;
    place->returned = returned;
    if (is_new || nodes[ZNODE_USABLE].stat.version > place->usable.version) {
        place->usable = nodes[ZNODE_USABLE].stat;
        place->usable_ns = 0;
    }
    place->total = nodes[ZNODE_TOTAL];
    place->base = nodes[ZNODE_BASE];
    weir_zoo_next_terms(place, 0, &next);
    if (place->watch && is_new) {
        struct lease_reply seen = {.epoch = epoch, .terms = terms->terms, .age_ns = -1, .ends_ns = -1};
        seen.left = weir_znode_left(terms, &place->usable, place->returned, 0);
        place->zoo->sink.noticed(place->owner, &seen);
    }
    if (place->watch && more)
        place->zoo->sink.more(place->owner);
    weir_zoo_end_learn(learn, true, place->note);
}

void weir_zoo_next_terms(struct place *place, int64_t chunk, struct lease_terms *terms)
{
    const struct reading *total = &place->total, *base = &place->base;
    weir_znode_next(&place->terms, total->text, total->code == ZCODE_OK ? total->len : 0, base->text,
                    base->code == ZCODE_OK ? base->len : 0, chunk, terms, place->note);
}

/* ---- what it means ---- */

/* The checks were applied: nobody has ended this epoch, though a later one was known. */
static void confirmed(void *arg, const struct zanswer *answer)
{
    struct learn *learn = arg;
    struct place *place = learn->place;
    struct zookeeper *zoo = place->zoo;
    const struct reading *refresh = &learn->nodes[ZNODE_REFRESH];
    struct znode_epoch terms;
    (void)pthread_mutex_lock(&zoo->lock);
    if (answer->code == ZCODE_OK && weir_znode_refresh_read(&terms, refresh->text, refresh->len)) {
        if ((uint64_t)learn->nodes[ZNODE_USABLE].stat.czxid < place->epoch) {
            place->lost = place->epoch > place->lost ? place->epoch : place->lost;
            place->epoch = 0;
        }
        adopt(learn, &terms);
    } else {
        weir_zoo_end_learn(learn, false, "");
    }
    (void)pthread_mutex_unlock(&zoo->lock);
}

/* An earlier epoch than the one that is known: this server is behind, or the data is an old copy. */
static void confirm(struct learn *learn)
{
    struct place *place = learn->place;
    const enum znode which[] = {ZNODE_POOL, ZNODE_REFRESH};
    char paths[2][ZNODE_PATH_MAX];
    struct zop ops[2];
    for (int i = 0; i < 2; i++) {
        weir_znode_path(paths[i], place->zoo->root, place->name, which[i]);
        ops[i] = (struct zop){ZOP_CHECK, learn->nodes[which[i]].stat.version, paths[i], NULL};
    }
    if (!weir_zclient_multi(place->zoo->client, ops, 2, confirmed, learn))
        weir_zoo_end_learn(learn, false, "");
}

/* It was deleted: what is held of it is void. The transaction that did it stands for an epoch. */
static void notice_gone(struct learn *learn)
{
    struct place *place = learn->place;
    struct lease_reply seen = {.epoch = (uint64_t)learn->nodes[ZNODE_POOL].stat.mzxid,
                               .terms = place->terms.terms,
                               .age_ns = -1,
                               .ends_ns = -1};
    if (place->watch && place->epoch != 0 && seen.epoch > place->epoch)
        place->zoo->sink.noticed(place->owner, &seen);
    weir_zoo_end_learn(learn, false, "");
}

/* false: one could not be read, and that was the end of it. */
static bool all_read(struct learn *learn)
{
    for (int i = 0; i < ZNODE_COUNT; i++) {
        if (learn->nodes[i].code == ZCODE_DENIED) {
            weir_zoo_say_denied(learn);
            return false;
        }
        if (learn->nodes[i].code != ZCODE_OK && learn->nodes[i].code != ZCODE_NONE) {
            weir_zoo_end_learn(learn, false, "");
            return false;
        }
    }
    return true;
}

static void judge(struct learn *learn)
{
    static const enum znode needed[] = {ZNODE_USABLE, ZNODE_REFRESH, ZNODE_RETURNS};
    struct place *place = learn->place;
    const struct reading *nodes = learn->nodes;
    struct znode_epoch terms;
    int missing = 0;
    if (!all_read(learn))
        return;
    for (int i = 0; i < 3; i++)
        missing += nodes[needed[i]].code == ZCODE_NONE;
    bool wanted = place->waiting != NULL; /* nobody asks: what an operator deletes stays away */
    bool there = nodes[ZNODE_POOL].code == ZCODE_OK, gone = there && pool_of(learn).gone;
    if (there && !gone && missing == 0 && nodes[ZNODE_REFRESH].stat.mzxid == nodes[ZNODE_USABLE].stat.czxid &&
        weir_znode_refresh_read(&terms, nodes[ZNODE_REFRESH].text, nodes[ZNODE_REFRESH].len)) {
        if ((uint64_t)nodes[ZNODE_USABLE].stat.czxid < place->epoch)
            confirm(learn);
        else
            adopt(learn, &terms);
    } else if (there && !(gone && missing == 3) && learn->tries < 3) { /* turned while it was read? */
        weir_zoo_read_again(learn);
    } else if (wanted && there) {
        learn->tries++;
        weir_zoo_mend_pool(learn);
    } else if (wanted) {
        weir_zoo_make_pool(learn);
    } else if (gone) {
        notice_gone(learn);
    } else {
        weir_zoo_end_learn(learn, false, "");
    }
}

static void read_one(void *arg, const struct zanswer *answer)
{
    struct reading *reading = arg;
    struct learn *learn = reading->learn;
    struct zookeeper *zoo = learn->place->zoo;
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
    if (--learn->waiting == 0)
        judge(learn);
    (void)pthread_mutex_unlock(&zoo->lock);
}

static bool is_watched(enum znode which)
{
    return which != ZNODE_POOL && which != ZNODE_USABLE;
}

static bool is_any(struct entry *entry)
{
    (void)entry;
    return true;
}

void weir_zoo_unwatch(struct place *place)
{
    struct zookeeper *zoo = place->zoo;
    bool shared = weir_roll_find(&zoo->roll, place->name, is_any) != NULL;
    char path[ZNODE_PATH_MAX];
    for (size_t i = 0; i < ZNODE_COUNT; i++)
        if (is_watched(read_order[i])) {
            weir_znode_path(path, zoo->root, place->name, read_order[i]);
            weir_zclient_unwatch(zoo->client, path, place->watched, shared);
        }
}

static void read_all(struct learn *learn)
{
    struct place *place = learn->place;
    char path[ZNODE_PATH_MAX];
    learn->waiting = 1; /* until all are sent */
    for (size_t i = 0; i < ZNODE_COUNT; i++) {
        enum znode which = read_order[i];
        struct reading *reading = &learn->nodes[which];
        *reading = (struct reading){.learn = learn, .code = ZCODE_UNSURE};
        weir_znode_path(path, place->zoo->root, place->name, which);
        if (weir_zclient_get(place->zoo->client, path, is_watched(which) ? place->watch : 0, read_one,
                             reading))
            learn->waiting++;
    }
    if (--learn->waiting == 0)
        judge(learn);
}

void weir_zoo_learn_next(struct zookeeper *zoo)
{
    if (zoo->starts_learning) /* without a connection each ends at once, and calls this: the loop goes on */
        return;
    zoo->starts_learning = true;
    while (zoo->to_learn && zoo->learning < ZOO_LEARN_MAX) {
        struct place *place = zoo->to_learn;
        zoo->to_learn = place->next_to_learn;
        place->learn_due = false;
        struct learn *learn = place->watch ? calloc(1, sizeof *learn) : NULL;
        if (!learn) {
            place->orders++;
            weir_zoo_learned(place, false);
            place->orders--;
            weir_zoo_place_release(place);
            continue;
        }
        zoo->learning++;
        place->learn = learn;
        learn->place = place;
        read_all(learn);
    }
    zoo->starts_learning = false;
}

void weir_zoo_learn(struct place *place)
{
    struct zookeeper *zoo = place->zoo;
    if (place->learn) { /* what is being read may be old already */
        place->learn_again = true;
        return;
    }
    if (!place->learn_due) {
        place->learn_due = true;
        place->next_to_learn = NULL;
        if (zoo->to_learn)
            zoo->to_learn_last->next_to_learn = place;
        else
            zoo->to_learn = place;
        zoo->to_learn_last = place;
    }
    weir_zoo_learn_next(zoo);
}
