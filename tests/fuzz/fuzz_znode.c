/* SPDX-License-Identifier: MIT */
/*
 * Hostile contents of nodes in ZooKeeper. What is believed has to be terms that a fleet can have, and has to
 * come back from what would be written; everything else leaves the old terms in force.
 */
#include <stdlib.h>
#include <string.h>

#include "fleet/zookeeper/stat.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_terms(const struct lease_terms *terms)
{
    struct lease_terms copy = *terms;
    char why[256];
    MUST(terms->total > 0 && terms->window_ns > 0 && terms->base > 0 && terms->chunk > 0);
    MUST(weir_terms_complete(&copy, 1, why, sizeof why));
}

static void check_refresh(const char *text, size_t len)
{
    struct znode_epoch epoch, back;
    char again[ZNODE_TEXT_MAX];
    if (!weir_znode_refresh_read(&epoch, text, len))
        return;
    check_terms(&epoch.terms);
    weir_znode_refresh_write(&epoch, again);
    MUST(strlen(again) == len && memcmp(again, text, len) == 0);
    MUST(weir_znode_refresh_read(&back, again, len) && memcmp(&back, &epoch, sizeof back) == 0);
}

static void check_pool(const char *text, size_t len)
{
    struct znode_pool pool, back;
    char again[ZNODE_TEXT_MAX];
    weir_znode_pool_read(&pool, text, len);
    MUST(pool.wait_ns >= 0);
    weir_znode_pool_write(&pool, again);
    weir_znode_pool_read(&back, again, strlen(again));
    MUST(back.gone == pool.gone && back.wait_ns == pool.wait_ns);
}

/* The first half is `total`, the second one `base`. */
static void check_next(const char *text, size_t len, int32_t kind)
{
    struct znode_epoch epoch = {.terms = {.kind = kind,
                                          .total = 1000,
                                          .window_ns = WEIR_SEC,
                                          .burst = kind == LEASE_BUCKET ? 200 : 0,
                                          .base = 10,
                                          .chunk = 10}};
    const char *half = memchr(text, '|', len);
    size_t total = half ? (size_t)(half - text) : len;
    struct lease_terms next;
    char note[160];
    weir_znode_next(&epoch, text, total, half ? half + 1 : "", half ? len - total - 1 : 0, 0, &next, note);
    check_terms(&next);
    MUST(next.kind == kind && memchr(note, '\0', sizeof note));
    char written[ZNODE_TEXT_MAX];
    struct lease_terms back = epoch.terms;
    weir_znode_total_write(&next, written);
    MUST(weir_znode_total_read(&back, written, strlen(written)));
    MUST(back.total == next.total && back.window_ns == next.window_ns && back.burst == next.burst);
}

static void check_stat(const uint8_t *data, size_t size)
{
    struct znode_epoch epoch = {.terms = {.kind = LEASE_BUCKET,
                                          .total = 1000,
                                          .window_ns = WEIR_SEC,
                                          .burst = 200,
                                          .base = 10,
                                          .chunk = 10}};
    struct znode_stat stat;
    struct lease_reply reply = {.left = -1};
    if (size < sizeof stat)
        return;
    memcpy(&stat, data, sizeof stat);
    weir_znode_take(&epoch, &stat, stat.ctime_ms, &reply);
    MUST(reply.units == 0 || reply.units == 10);
    MUST(reply.chunks == 0 || (reply.starts_ns >= 0 && reply.ends_ns > reply.starts_ns));
    epoch.terms.kind = LEASE_QUOTA;
    reply = (struct lease_reply){.left = -1};
    weir_znode_take(&epoch, &stat, 0, &reply);
    MUST(reply.units == (stat.version >= 1 && stat.version <= 100 ? 10 : 0));
    (void)weir_znode_age(&stat);
    MUST(weir_znode_left(&epoch, &stat, 0, stat.mtime_ms) <= 1000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1); /* of just this size, so that a sanitizer sees one byte too many */
    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    char *tight = realloc(text, size > 0 ? size : 1);
    if (tight) {
        check_refresh(tight, size);
        check_pool(tight, size);
        check_next(tight, size, LEASE_QUOTA);
        check_next(tight, size, LEASE_BUCKET);
        check_stat(data, size);
    }
    free(tight ? tight : text);
    return 0;
}
