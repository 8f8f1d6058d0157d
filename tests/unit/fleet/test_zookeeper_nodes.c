/* SPDX-License-Identifier: MIT */
/* Pools in ZooKeeper as text and Stats: zookeeper/znodes.h, zookeeper/stat.h. */
#include "base/sat.h"
#include "check.h"
#include "fleet/zookeeper/stat.h"
#include "lease/pool.h"

#define MS INT64_C(1000000)

static const struct lease_terms hundred = {
    .kind = LEASE_QUOTA, .total = 100, .window_ns = 60 * WEIR_SEC, .base = 10, .chunk = 10};
static const struct lease_terms rate = {
    .kind = LEASE_BUCKET, .total = 1000, .window_ns = WEIR_SEC, .burst = 200, .base = 10, .chunk = 10};

static struct znode_stat stat_at(int32_t version, int64_t after_ms)
{
    return (struct znode_stat){.czxid = INT64_C(3) << 32 | 7,
                               .mzxid = INT64_C(3) << 32 | 9,
                               .ctime_ms = 1000000,
                               .mtime_ms = 1000000 + after_ms,
                               .version = version};
}

static bool read_refresh(const char *text, struct znode_epoch *epoch)
{
    return weir_znode_refresh_read(epoch, text, strlen(text));
}

static bool read_total(const char *text, struct lease_terms *terms)
{
    return weir_znode_total_read(terms, text, strlen(text));
}

/* ---- text ---- */

TEST(paths_are_below_quota)
{
    char path[ZNODE_PATH_MAX];
    weir_znode_path(path, "/weir", "egress", ZNODE_USABLE);
    CHECK_STR(path, "/weir/quota/egress/usable");
    weir_znode_path(path, "", "a:b", ZNODE_POOL);
    CHECK_STR(path, "/quota/a:b");
}

TEST(refresh_is_a_line_that_people_can_read)
{
    char text[ZNODE_TEXT_MAX];
    weir_znode_refresh_write(&(struct znode_epoch){.terms = hundred}, text);
    CHECK_STR(text, "kind=quota total=100 window=1m base=10 chunk=10");
    weir_znode_refresh_write(&(struct znode_epoch){.terms = rate, .wait_ns = 390 * MS}, text);
    CHECK_STR(text, "kind=bucket total=1k window=1s burst=200 base=10 chunk=10 wait=390ms");
}

TEST(refresh_comes_back_as_it_was)
{
    struct rng rng = rng_new(1);
    for (int i = 0; i < 20000; i++) {
        struct znode_epoch epoch = {.terms = rng_between(&rng, 0, 1) ? hundred : rate}, back;
        char text[ZNODE_TEXT_MAX], why[200];
        epoch.terms.total = 1 + rng_magnitude(&rng, TICKET_TOTAL_MAX - 1);
        epoch.terms.window_ns =
            TICKET_WINDOW_MIN + rng_magnitude(&rng, TICKET_WINDOW_MAX - TICKET_WINDOW_MIN);
        epoch.terms.base = 1 + rng_magnitude(&rng, epoch.terms.total - 1);
        epoch.terms.chunk = 1 + rng_magnitude(&rng, epoch.terms.total - 1);
        epoch.wait_ns = rng_between(&rng, 0, 1) ? 0 : rng_magnitude(&rng, TICKET_WINDOW_MAX);
        if (epoch.terms.kind == LEASE_BUCKET)
            epoch.terms.burst = 1 + rng_magnitude(&rng, TICKET_TOTAL_MAX - 1);
        struct lease_terms copy = epoch.terms;
        bool sane = weir_terms_complete(&copy, 1, why, sizeof why);
        weir_znode_refresh_write(&epoch, text);
        CHECK_EQ(weir_znode_refresh_read(&back, text, strlen(text)), sane);
        if (sane && !CHECK(memcmp(&back, &epoch, sizeof back) == 0))
            printf("# %s\n", text);
    }
}

TEST(nonsense_in_refresh_is_not_believed)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "nonsense",
                                        "kind=quota",
                                        "kind=quota total=100 window=1m base=10",
                                        "kind=quota total=100 window=1m base=10 chunk=10 ",
                                        " kind=quota total=100 window=1m base=10 chunk=10",
                                        "kind=quota total=100 window=1m base=10 chunk=10\n",
                                        "kind=quota total=100  window=1m base=10 chunk=10",
                                        "kind=quota window=1m total=100 base=10 chunk=10",
                                        "kind=quota total=100 total=100 window=1m base=10 chunk=10",
                                        "kind=quota total=-100 window=1m base=10 chunk=10",
                                        "kind=quota total=0 window=1m base=10 chunk=10",
                                        "kind=quota total=100 window=0s base=10 chunk=10",
                                        "kind=quota total=100 window=1m base=0 chunk=10",
                                        "kind=quota total=100 window=1m base=10 chunk=0",
                                        "kind=quota total=100 window=1m base=10 chunk=101",
                                        "kind=quota total=100 window=1m base=10 chunk=10 wait=0s",
                                        "kind=quota total=100 window=1m burst=5 base=10 chunk=10",
                                        "kind=bucket total=100 window=1m base=10 chunk=10",
                                        "kind=Quota total=100 window=1m base=10 chunk=10",
                                        "kind=quota total=0100 window=1m base=10 chunk=10",
                                        "kind=quota total=1e2 window=1m base=10 chunk=10",
                                        "kind=quota total=100 window=60s base=10 chunk=10",
                                        "kind=quota total=99999999999999999999999 window=1m base=10 chunk=10",
                                        "kind=quota total=100 window=9999999999999d base=10 chunk=10",
                                        "kind=quota total=100.5 window=1m base=1 chunk=1"};
    struct znode_epoch epoch;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!CHECK(!read_refresh(texts[i], &epoch)))
            printf("# '%s'\n", texts[i]);
    CHECK(!weir_znode_refresh_read(&epoch, "kind=quota total=100 window=1m base=10 chunk=10\0x", 49));
    CHECK(read_refresh("kind=quota total=100 window=1m base=10 chunk=10", &epoch));
}

TEST(an_operator_writes_totals_as_he_likes)
{
    struct lease_terms terms = hundred;
    CHECK(read_total("250", &terms) && terms.total == 250 && terms.window_ns == 60 * WEIR_SEC);
    CHECK(read_total("1k\n", &terms) && terms.total == 1000);
    CHECK(read_total("100/2m", &terms) && terms.total == 100 && terms.window_ns == 120 * WEIR_SEC);
    CHECK(read_total("100/m", &terms) && terms.window_ns == 60 * WEIR_SEC);
    terms = rate;
    CHECK(read_total("10k/s burst=20k", &terms) && terms.total == 10000 && terms.burst == 20000);
    CHECK_EQ(terms.window_ns, WEIR_SEC);
}

TEST(nonsense_in_total_and_base_is_not_believed)
{
    static const char *const quotas[] = {"",        "lots",    "-5",   "0",       "1.5",
                                         "100/",    "100/0s",  "/m",   "100 ",    "100/m ",
                                         "100/m x", "100,200", "0x10", "100\n\n", "100 burst=5"};
    static const char *const buckets[] = {
        "100",    "100/s", "100/s burst=", "100/s burst=0", "100/s  burst=5 ", "100/s burst=5 algo=smooth",
        "burst=5"};
    struct lease_terms terms;
    int64_t base;
    for (size_t i = 0; i < sizeof quotas / sizeof quotas[0]; i++) {
        terms = hundred;
        if (!CHECK(!read_total(quotas[i], &terms)) || !CHECK(memcmp(&terms, &hundred, sizeof terms) == 0))
            printf("# '%s'\n", quotas[i]);
    }
    for (size_t i = 0; i < sizeof buckets / sizeof buckets[0]; i++) {
        terms = rate;
        if (!CHECK(!read_total(buckets[i], &terms)))
            printf("# '%s'\n", buckets[i]);
    }
    CHECK(!weir_znode_base_read(&base, "0", 1) && !weir_znode_base_read(&base, "ten", 3));
    CHECK(!weir_znode_base_read(&base, "1\0", 2) && !weir_znode_base_read(&base, "", 0));
    CHECK(weir_znode_base_read(&base, "12\n", 3) && base == 12);
}

TEST(totals_are_written_so_that_they_read_back)
{
    char text[ZNODE_TEXT_MAX];
    struct lease_terms terms = rate, back = rate;
    weir_znode_total_write(&terms, text);
    CHECK_STR(text, "1k/s burst=200");
    CHECK(read_total(text, &back));
    CHECK(back.total == 1000 && back.burst == 200 && back.window_ns == WEIR_SEC);
    weir_znode_total_write(&hundred, text);
    CHECK_STR(text, "100/m");
    terms = hundred;
    terms.window_ns = 90 * 60 * WEIR_SEC;
    weir_znode_total_write(&terms, text);
    back = hundred;
    CHECK(read_total(text, &back) && back.window_ns == terms.window_ns);
}

TEST(the_next_terms_are_what_was_written_as_far_as_it_can_be)
{
    struct znode_epoch epoch = {.terms = hundred, .wait_ns = 60 * WEIR_SEC};
    struct lease_terms next;
    char note[160];
    weir_znode_next(&epoch, "500", 3, "20", 2, 40, &next, note);
    CHECK_EQ(next.total, 500);
    CHECK_EQ(next.base, 20);
    CHECK_EQ(next.chunk, 40);
    CHECK_STR(note, "");
    weir_znode_next(&epoch, "5", 1, "3", 1, 40, &next, note);
    CHECK_EQ(next.chunk, 5);
    weir_znode_next(&epoch, "", 0, "", 0, 0, &next, note);
    CHECK(memcmp(&next, &hundred, sizeof next) == 0);
    CHECK_STR(note, "");
    weir_znode_next(&epoch, "lots", 4, "20", 2, 0, &next, note);
    CHECK_EQ(next.total, 100);
    CHECK_EQ(next.base, 20);
    CHECK(strstr(note, "'total' holds no number"));
    weir_znode_next(&epoch, "100", 3, "none", 4, 0, &next, note);
    CHECK_EQ(next.base, 10);
    CHECK(strstr(note, "'base' holds no number"));
    weir_znode_next(&epoch, "5", 1, "10", 2, 0, &next, note); /* total < base */
    CHECK(memcmp(&next, &hundred, sizeof next) == 0);
    CHECK(strstr(note, "cannot be"));
}

/* ---- Stats ---- */

TEST(the_age_is_of_one_leader_or_not_known)
{
    struct znode_stat stat = stat_at(3, 250);
    CHECK_EQ(weir_znode_age(&stat), 250 * MS);
    stat.mtime_ms = stat.ctime_ms - 1; /* set back */
    CHECK_EQ(weir_znode_age(&stat), -1);
    stat = stat_at(3, 250);
    stat.mzxid += INT64_C(1) << 32;
    CHECK_EQ(weir_znode_age(&stat), -1);
    stat.mtime_ms = INT64_MAX;
    stat.ctime_ms = INT64_MIN;
    CHECK_EQ(weir_znode_age(&stat), -1);
}

/* Sets of `usable` get what a pool (lease/pool.h) gives. */
TEST(tickets_of_a_quota_are_those_of_the_model)
{
    struct znode_epoch epoch = {.terms = hundred};
    struct lease_reply reply = {.left = -1};
    int64_t units = 0;
    epoch.terms.total = 95;
    for (int32_t version = 1; version <= 12; version++) {
        struct znode_stat stat = stat_at(version, 10);
        reply = (struct lease_reply){.left = -1};
        weir_znode_take(&epoch, &stat, 0, &reply);
        units += reply.units;
        CHECK_EQ(reply.units, version <= 9 ? 10 : version == 10 ? 5 : 0);
        CHECK_EQ(reply.chunks, version <= 10);
        CHECK_EQ(reply.exhausted, version > 10);
        CHECK_EQ(reply.left, version <= 10 ? 95 - units : 0);
        CHECK_EQ(reply.age_ns, 10 * MS);
    }
    CHECK_EQ(units, 95);
    struct znode_stat returned = stat_at(11, 10);
    reply = (struct lease_reply){.left = -1};
    weir_znode_take(&epoch, &returned, 2, &reply);
    CHECK_EQ(reply.units, 10);
}

TEST(an_epoch_that_waits_gives_nothing)
{
    struct znode_epoch epoch = {.terms = hundred, .wait_ns = 60 * WEIR_SEC};
    struct znode_stat stat = stat_at(1, 10);
    struct lease_reply reply = {.left = -1};
    weir_znode_take(&epoch, &stat, 5, &reply);
    CHECK(reply.units == 0 && reply.exhausted && reply.left == 0);
}

TEST(nobody_s_set_has_version_0)
{
    struct znode_epoch epoch = {.terms = hundred};
    struct znode_stat stat = stat_at(0, 10);
    struct lease_reply reply = {.left = -1};
    weir_znode_take(&epoch, &stat, 0, &reply);
    stat.version = INT32_MIN;
    weir_znode_take(&epoch, &stat, 0, &reply);
    CHECK_EQ(reply.units, 0);
}

/* Whatever the leader's clock says, cut to milliseconds: the law of a bucket holds over all spans it gives.
 */
TEST(tickets_of_a_bucket_never_start_early_nor_end_late)
{
    struct rng rng = rng_new(2);
    int64_t life = weir_ticket_life(&rate), back = weir_ticket_back(&rate);
    for (int i = 0; i < 20000; i++) {
        struct znode_epoch epoch = {.terms = rate, .wait_ns = rng_between(&rng, 0, 1) ? 0 : 390 * MS};
        int64_t began = rng_between(&rng, 0, 10 * MS), now = began + rng_between(&rng, 0, 3 * WEIR_SEC);
        int64_t number = rng_between(&rng, 0, 400);
        struct znode_stat stat = stat_at((int32_t)number + 1, 0);
        stat.ctime_ms = began / MS;
        stat.mtime_ms = now / MS;
        struct lease_reply reply = {.left = -1};
        weir_znode_take(&epoch, &stat, 0, &reply);
        if (reply.chunks == 0)
            continue;
        int64_t start = began + epoch.wait_ns - back + number * 10 * MS; /* by the exact clock */
        CHECK(now + reply.starts_ns >= start);
        CHECK(now + reply.ends_ns <= start + life);
        CHECK(reply.starts_ns >= 0 && reply.starts_ns < reply.ends_ns);
        CHECK_EQ(reply.units, 10);
    }
}

TEST(a_bucket_is_numbered_anew_when_its_ticket_is_dead_or_its_clock_is_another)
{
    struct znode_epoch epoch = {.terms = rate};
    struct znode_stat stat = stat_at(1, 500);
    struct lease_reply reply = {.left = -1};
    weir_znode_take(&epoch, &stat, 0, &reply); /* ticket 0 died half a second ago */
    CHECK(reply.stale && reply.units == 0);
    stat = stat_at(60, 500);
    reply = (struct lease_reply){.left = -1};
    weir_znode_take(&epoch, &stat, 0, &reply);
    CHECK(!reply.stale && reply.units == 10);
    stat.mzxid += INT64_C(1) << 32;
    reply = (struct lease_reply){.left = -1};
    weir_znode_take(&epoch, &stat, 0, &reply);
    CHECK(reply.stale && reply.units == 0);
    stat = stat_at(60, -3600 * 1000); /* set back by an hour */
    reply = (struct lease_reply){.left = -1};
    weir_znode_take(&epoch, &stat, 0, &reply);
    CHECK(reply.stale && reply.units == 0 && reply.exhausted);
    stat = stat_at(60, 3600 * 1000); /* and ahead by one */
    reply = (struct lease_reply){.left = -1};
    weir_znode_take(&epoch, &stat, 0, &reply);
    CHECK(reply.stale && reply.units == 0);
}

TEST(a_ticket_too_far_ahead_is_void)
{
    struct znode_epoch epoch = {.terms = rate};
    struct znode_stat stat = stat_at(100, 0);
    struct lease_reply reply = {.left = -1};
    weir_znode_take(&epoch, &stat, 0, &reply);
    CHECK(reply.units == 0 && reply.exhausted && reply.retry_ns > 0);
}

/* Numbers that wait lie behind all that were given out before, and begin to live when those have died. */
TEST(a_wait_outlives_every_ticket)
{
    struct lease_terms wide = rate;
    wide.burst = 5000;
    CHECK_EQ(weir_znode_wait(&hundred, &hundred), hundred.window_ns);
    const struct lease_terms *terms[] = {&rate, &wide};
    for (int i = 0; i < 4; i++) {
        const struct lease_terms *old = terms[i % 2], *next = terms[i / 2];
        int64_t wait = weir_znode_wait(old, next);
        CHECK(wait >= weir_znode_ahead(old) + weir_ticket_life(old));
        CHECK(wait - weir_ticket_life(next) >= weir_znode_ahead(old)); /* the origin of the new numbers */
    }
}

/* The latest start that anybody is ever granted, from when he asks. */
static int64_t latest_start(const struct lease_terms *terms)
{
    struct znode_epoch epoch = {.terms = *terms};
    int64_t latest = 0;
    for (int64_t ms = 1000; ms <= 1000 + terms->chunk; ms++)
        for (int32_t version = 1; version <= 2000; version++) {
            struct znode_stat stat = stat_at(version, ms);
            struct lease_reply reply = {.left = -1};
            weir_znode_take(&epoch, &stat, 0, &reply);
            if (reply.chunks > 0)
                latest = max64(latest, reply.starts_ns);
        }
    return latest;
}

/* The law across both numberings: what was held of the old one until it dies, spent with the last of it, and
 * the first of the new one behind that: a burst, and what comes in meanwhile. So the first start is at least
 * a chunk's time after the last. */
TEST(numbers_that_wait_start_a_chunk_s_time_behind_all_others)
{
    struct lease_terms old = rate, next = rate;
    struct znode_stat begun = stat_at(0, 0);
    for (int64_t old_chunk = 1; old_chunk <= 100; old_chunk += 33) {
        old.base = old.chunk = old_chunk;
        int64_t latest = latest_start(&old);
        for (int64_t chunk = 1; chunk <= 100; chunk++) {
            int64_t starts, ends;
            next.base = next.chunk = chunk;
            struct znode_epoch epoch = {.terms = next, .wait_ns = weir_znode_wait(&old, &next)};
            CHECK(weir_ticket_span(&next, 0, weir_znode_since(&epoch, &begun), &starts, &ends));
            if (!CHECK(starts - latest >= chunk * MS)) /* a unit comes in each ms */
                printf("# chunks of %d after %d: %d us early\n", (int)chunk, (int)old_chunk,
                       (int)((chunk * MS - starts + latest) / 1000));
        }
    }
}

/* Each ticket has to be asked for: the first of a new numbering must live until somebody has done so, or they
 * are numbered anew for ever. */
TEST(the_first_tickets_of_a_bucket_outlive_a_round_trip)
{
    struct znode_epoch epoch = {.terms = {.kind = LEASE_BUCKET,
                                          .total = 10000,
                                          .window_ns = WEIR_SEC,
                                          .burst = 2000,
                                          .base = 25,
                                          .chunk = 25}};
    for (int64_t round_ms = 0; round_ms <= 20; round_ms += 5) {
        struct znode_stat stat = stat_at(1, round_ms);
        struct lease_reply reply = {.left = -1};
        weir_znode_take(&epoch, &stat, 0, &reply);
        CHECK_EQ(reply.units, 25);
        CHECK(reply.ends_ns > weir_ticket_life(&epoch.terms) / 8);
    }
}

TEST(a_ticket_that_is_about_to_die_does_not_shorten_the_others)
{
    struct znode_epoch epoch = {.terms = rate};
    struct lease_reply reply = {.left = -1};
    for (int32_t version = 1; version <= 12; version++) { /* the first of them dies now, one each 10 ms */
        struct znode_stat stat = stat_at(version, 45);
        weir_znode_take(&epoch, &stat, 0, &reply);
    }
    CHECK(reply.chunks >= 8 && reply.ends_ns > weir_ticket_life(&rate) / 8);
}

TEST(the_pool_s_own_node_says_how_long_to_wait)
{
    static const char *const nonsense[] = {
        "",      "?",         "gone ",         "wait=",   "wait=60s",
        "gone?", "wait=1m x", "gone  wait=1m", "wait=0s", "gone wait=-1s",
        "away",  " wait=1m",  "wait=1mgone",   "GONE",    "wait=9999999999d"};
    char text[ZNODE_TEXT_MAX];
    struct znode_pool pool;
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        weir_znode_pool_read(&pool, nonsense[i], strlen(nonsense[i]));
        if (!CHECK(!pool.gone && pool.wait_ns == 0))
            printf("# '%s'\n", nonsense[i]);
    }
    weir_znode_pool_write(&(struct znode_pool){.wait_ns = 60 * WEIR_SEC}, text);
    CHECK_STR(text, "wait=1m");
    weir_znode_pool_read(&pool, text, strlen(text));
    CHECK(!pool.gone && pool.wait_ns == 60 * WEIR_SEC);
    weir_znode_pool_write(&(struct znode_pool){.gone = true, .wait_ns = 60 * WEIR_SEC}, text);
    CHECK_STR(text, "gone wait=1m");
    weir_znode_pool_read(&pool, text, strlen(text));
    CHECK(pool.gone && pool.wait_ns == 60 * WEIR_SEC);
    weir_znode_pool_write(&(struct znode_pool){.gone = true}, text);
    CHECK_STR(text, "gone");
    weir_znode_pool_read(&pool, text, strlen(text));
    CHECK(pool.gone && pool.wait_ns == 0);
}

TEST(several_tickets_of_a_bucket_share_one_span)
{
    struct znode_epoch epoch = {.terms = rate};
    struct lease_reply reply = {.left = -1}, one = {.left = -1}, first = one;
    for (int32_t version = 15; version <= 18; version++) {
        struct znode_stat stat = stat_at(version, 100);
        weir_znode_take(&epoch, &stat, 0, &reply);
        one = (struct lease_reply){.left = -1};
        weir_znode_take(&epoch, &stat, 0, &one);
        CHECK(reply.starts_ns >= one.starts_ns && reply.ends_ns <= one.ends_ns);
        if (version == 15)
            first = one;
    }
    CHECK_EQ(reply.ends_ns, first.ends_ns);
    CHECK_EQ(reply.chunks, 4);
    CHECK_EQ(reply.units, 40);
}
