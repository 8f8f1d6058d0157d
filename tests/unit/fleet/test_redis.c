/* SPDX-License-Identifier: MIT */
/*
 * What is pure of the Redis coordinator: slots, and reading whatever a server answers.
 */
#include "check.h"
#include "fleet/redis/exact.h"
#include "fleet/redis/reply.h"

static unsigned slot(const char *key)
{
    return weir_redis_slot(key, strlen(key));
}

TEST(slots_are_those_of_redis)
{
    CHECK_EQ(weir_redis_crc16("123456789", 9), 0x31c3);
    CHECK_EQ(slot("foo"), 12182);
    CHECK_EQ(slot(""), 0);
    CHECK_EQ(slot("{user1000}.following"), slot("{user1000}.followers"));
    CHECK_EQ(slot("{user1000}.following"), slot("user1000"));
    CHECK_EQ(slot("foo{bar}{zap}"), slot("bar"));
    CHECK_EQ(slot("foo{{bar}}zap"), slot("{bar"));
    CHECK_EQ(slot("foo{}{bar}"), weir_redis_crc16("foo{}{bar}", 10) % REDIS_SLOTS);
    CHECK_EQ(slot("foo{bar"), weir_redis_crc16("foo{bar", 7) % REDIS_SLOTS);
}

static struct slice text(const char *bytes)
{
    return (struct slice){bytes, strlen(bytes)};
}

TEST(redirections)
{
    struct server_host from = {.name = "me", .port = 1}, to;
    unsigned number = 0;
    CHECK_EQ(weir_redis_read_redirect(text("MOVED 3999 10.0.0.1:6381"), &from, &number, &to), REDIRECT_MOVED);
    CHECK_EQ(number, 3999);
    CHECK_STR(to.name, "10.0.0.1");
    CHECK_EQ(to.port, 6381);
    CHECK_EQ(weir_redis_read_redirect(text("ASK 0 ::1:6381"), &from, &number, &to), REDIRECT_ASK);
    CHECK_STR(to.name, "::1");
    CHECK_EQ(weir_redis_read_redirect(text("MOVED 7 :6381"), &from, &number, &to), REDIRECT_MOVED);
    CHECK_STR(to.name, "me");
    static const char *const wrong[] = {
        "MOVED",     "MOVED ",      "MOVED 16384 a:1", "MOVED 1 a:0", "MOVED 1 a:65536",
        "MOVED 1 a", "MOVED x a:1", "MOVED 1  a:1x",   "ASKED 1 a:1", "MOVED 99999999999999999999 a:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(weir_redis_read_redirect(text(wrong[i]), &from, &number, &to), REDIRECT_NONE);
}

static struct resp_value *parse(const char *bytes)
{
    struct resp_value *value = NULL;
    size_t used;
    CHECK_EQ(weir_resp_parse(bytes, strlen(bytes), &value, &used), RESP_PARSED);
    return value;
}

TEST(roles)
{
    bool master = false;
    size_t replicas = 0;
    struct server_host of;
    struct resp_value *value = parse("*3\r\n$6\r\nmaster\r\n:10\r\n*2\r\n*0\r\n*0\r\n");
    CHECK(weir_redis_read_role(value, &master, &replicas, &of) && master && replicas == 2);
    weir_resp_value_free(value);
    value = parse("*5\r\n$5\r\nslave\r\n$4\r\nhost\r\n:7000\r\n$9\r\nconnected\r\n:1\r\n");
    CHECK(weir_redis_read_role(value, &master, &replicas, &of) && !master && of.port == 7000);
    CHECK_STR(of.name, "host");
    weir_resp_value_free(value);
    value = parse("*1\r\n:1\r\n");
    CHECK(!weir_redis_read_role(value, &master, &replicas, &of));
    weir_resp_value_free(value);
}

static void each(void *arg, unsigned first, unsigned last, const struct server_host *host)
{
    snprintf(arg, 64, "%u-%u %.30s:%d", first, last, host->name, host->port);
}

TEST(slots_of_a_cluster)
{
    struct server_host from = {.name = "me", .port = 1};
    char seen[64] = "";
    struct resp_value *value = parse(
        "*1\r\n*4\r\n:5\r\n:9\r\n*3\r\n$1\r\nh\r\n:7000\r\n$2\r\nid\r\n*3\r\n$1\r\nr\r\n:1\r\n$1\r\nx\r\n");
    CHECK(weir_redis_read_slots(value, &from, each, seen));
    CHECK_STR(seen, "5-9 h:7000");
    weir_resp_value_free(value);
    value = parse("*1\r\n*3\r\n:5\r\n:9\r\n*2\r\n_\r\n:7000\r\n");
    CHECK(weir_redis_read_slots(value, &from, each, seen));
    CHECK_STR(seen, "5-9 me:7000");
    weir_resp_value_free(value);
    static const char *const wrong[] = {
        "+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*3\r\n:9\r\n:5\r\n*2\r\n+a\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n+a\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n+a\r\n:0\r\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        value = parse(wrong[i]);
        CHECK(!weir_redis_read_slots(value, &from, each, seen));
        weir_resp_value_free(value);
    }
}

TEST(terms_as_they_are_kept)
{
    struct lease_terms terms, again;
    char written[160];
    CHECK(weir_redis_read_terms(text("quota 100 60000000000 0 10 7"), &terms));
    CHECK(terms.kind == LEASE_QUOTA && terms.total == 100 && terms.window_ns == 60 * WEIR_SEC &&
          terms.base == 10 && terms.chunk == 7);
    weir_redis_write_terms(written, sizeof written, &terms);
    CHECK_STR(written, "quota 100 60000000000 0 10");
    CHECK(weir_redis_read_terms(text(written), &again) && again.chunk == 0);
    CHECK(weir_redis_read_terms(text("bucket 1000 1000000000 2000 10 10"), &terms));
    CHECK(terms.kind == LEASE_BUCKET && terms.burst == 2000);
    static const char *const wrong[] = {"",
                                        "quota",
                                        "quota 100 60000000000 0 0 7",
                                        "quota 100 60000000000 0 10 0",
                                        "quota 100 60000000000 0 10 101",
                                        "quota 100 60000000000 0 10 7 ",
                                        "quota 100 60000000000 0 10 7 7",
                                        "quota 100 60000000000 0 -1 7",
                                        "quota 99999999999999999999 60000000000 0 10 7",
                                        "quota 100 1 0 10 7",
                                        "Quota 100 60000000000 0 10 7",
                                        "bucket 1000 1000000000 19 10 10"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (!CHECK(!weir_redis_read_terms(text(wrong[i]), &terms)))
            printf("  %s\n", wrong[i]);
}

/* ---- answers to orders ------------------------------------------------------------------------ */

static int64_t used_now; /* as the answer says */

static bool read_order(const struct lease_order *order, struct lease_reply *reply, const char *terms,
                       const char *numbers)
{
    char bytes[1024];
    long long epoch;
    int outcome, now, began, used, granted, returned, accepted, is_void, retry;
    int read = sscanf(numbers, "%d %lld %d %d %d %d %d %d %d %d", &outcome, &epoch, &now, &began, &used,
                      &granted, &returned, &accepted, &is_void, &retry);
    CHECK_EQ(read, 10);
    snprintf(
        bytes, sizeof bytes,
        "*12\r\n$1\r\n5\r\n:%d\r\n:%lld\r\n$%zu\r\n%s\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:"
        "%d\r\n",
        outcome, epoch, strlen(terms), terms, now, began, used, granted, returned, accepted, is_void, retry);
    struct resp_value *value = parse(bytes);
    bool good = weir_redis_read_order(value, order, reply, &used_now);
    weir_resp_value_free(value);
    return good;
}

#define QUOTA "quota 25 60000000000 0 10 10"

TEST(a_grant_is_what_its_tickets_stand_for)
{
    struct lease_order order = {.id = 5, .op = LEASE_TAKE, .chunks = 2};
    struct lease_reply reply;
    /*                         outcome epoch now began used granted returned accepted void retry */
    CHECK(read_order(&order, &reply, QUOTA, "0 77 1000 400 0 2 0 0 0 0"));
    CHECK(reply.outcome == LEASE_DONE && reply.epoch == 77 && reply.chunks == 2 && reply.units == 20);
    CHECK(reply.left == 5 && reply.age_ns == 600000 && !reply.exhausted && reply.ends_ns == -1);
    CHECK_EQ(used_now, 2);
    CHECK(read_order(&order, &reply, QUOTA, "0 77 1000 400 2 1 0 0 0 0"));
    CHECK(reply.units == 5 && reply.left == 0 && reply.exhausted);
    CHECK(read_order(&order, &reply, QUOTA, "0 77 1000 -1 3 0 0 0 0 0"));
    CHECK(reply.units == 0 && reply.exhausted && reply.age_ns == -1);
    CHECK(read_order(&order, &reply, QUOTA, "0 77 1000 400 0 0 0 0 1 0"));
    CHECK(reply.units == 0 && reply.left == 0 && reply.exhausted);
}

TEST(what_does_not_fit_grants_nothing)
{
    struct lease_order order = {.id = 5, .op = LEASE_TAKE, .chunks = 2};
    struct lease_reply reply;
    static const char *const wrong[] = {
        "3 77 1000 400 0 1 0 0 0 0",               /* no such outcome */
        "0 0 1000 400 0 1 0 0 0 0",                /* no epoch */
        "0 3200000000001001 1000 400 0 1 0 0 0 0", /* a century ahead */
        "0 77 1000 400 0 3 0 0 0 0",               /* more than was asked for */
        "0 77 1000 400 2 2 0 0 0 0",               /* more than there is */
        "0 77 1000 400 3 1 0 0 0 0",
        "0 77 1000 400 0 1 0 0 1 0", /* of nothing */
        "0 77 1000 400 -1 1 0 0 0 0",
        "0 77 1000 400 1 1 2 0 0 0",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (!CHECK(!read_order(&order, &reply, QUOTA, wrong[i])))
            printf("  %s\n", wrong[i]);
        CHECK_EQ(reply.outcome, LEASE_UNKNOWN);
    }
    order.id = 6; /* somebody else's answer */
    CHECK(!read_order(&order, &reply, QUOTA, "0 77 1000 400 0 1 0 0 0 0"));
    order.id = 5;
    order.op = LEASE_PROBE;
    CHECK(!read_order(&order, &reply, QUOTA, "0 77 1000 400 0 1 0 0 0 0"));
    order.op = LEASE_TAKE;
    CHECK(!read_order(&order, &reply, "quota 25 60000000000 0 10", "0 77 1000 400 0 1 0 0 0 0"));
    struct resp_value *value = parse("*1\r\n+5\r\n");
    CHECK(!weir_redis_read_order(value, &order, &reply, &used_now));
    weir_resp_value_free(value);
}

#define BUCKET "bucket 1000 1000000000 100 10 10" /* a ticket every 10 ms lives for 90 ms */

TEST(tickets_of_a_bucket_have_a_start_and_an_end)
{
    struct lease_order order = {.id = 5, .op = LEASE_TAKE, .chunks = 4};
    struct lease_reply reply;
    CHECK(read_order(&order, &reply, BUCKET, "0 77 100000 0 8 2 0 0 0 0"));
    CHECK(reply.units == 20 && reply.starts_ns == 0 && reply.ends_ns == 70 * WEIR_MS);
    CHECK_EQ(used_now, 10);
    CHECK(read_order(&order, &reply, BUCKET, "0 77 100000 0 12 1 0 0 0 0"));
    CHECK(reply.units == 10 && reply.starts_ns == 20 * WEIR_MS && reply.ends_ns == 110 * WEIR_MS);
    CHECK(read_order(&order, &reply, BUCKET, "0 77 100000 0 10 3 0 0 0 0")); /* the time that all have */
    CHECK(reply.units == 30 && reply.starts_ns == 20 * WEIR_MS && reply.ends_ns == 90 * WEIR_MS);
    CHECK(read_order(&order, &reply, BUCKET, "0 77 100000 0 12 0 0 0 0 70000"));
    CHECK(reply.units == 0 && reply.exhausted && reply.retry_ns == 70 * WEIR_MS);
    CHECK(read_order(&order, &reply, BUCKET, "0 77 100000 0 1 1 0 0 0 0")); /* dead since a moment */
    CHECK(reply.units == 0 && reply.exhausted);
    CHECK(!read_order(&order, &reply, BUCKET, "0 77 100000 -1 8 2 0 0 0 0"));
}

/* ---- exact mode ------------------------------------------------------------------------------- */

TEST(limits_that_exact_mode_can_hold)
{
    struct exact_shape shape;
    struct weir_error err;
    struct weir_spec spec;
    CHECK_EQ(weir_spec_parse("200k/d", &spec, 1, &err), 1);
    CHECK(weir_exact_shape(&spec, &shape, &err));
    CHECK(!shape.window && shape.count == 1 && shape.period == 432000 && shape.burst == 200000);
    CHECK_EQ(weir_spec_parse("10/s algo=fixed-window", &spec, 1, &err), 1);
    CHECK(weir_exact_shape(&spec, &shape, &err) && shape.window && shape.period == 1000000);
    static const char *const wrong[] = {"10/s algo=sliding-log", "10/s initial=3", "7919/d burst=60000"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (CHECK_EQ(weir_spec_parse(wrong[i], &spec, 1, &err), 1))
            CHECK(!weir_exact_shape(&spec, &shape, &err) && err.text[0]);
    spec = (struct weir_spec){.count = 1, .period_ns = 1500};
    CHECK(!weir_exact_shape(&spec, &shape, &err));
}

TEST(keys_of_exact_mode_have_their_limit_in_them)
{
    struct exact_shape shape = {.count = 1, .period = 100000, .burst = 5};
    char key[EXACT_NAME_MAX];
    CHECK_EQ(weir_exact_key(&shape, "k", key), strlen("weir:exact:bucket:1:100000:5:k"));
    CHECK_STR(key, "weir:exact:bucket:1:100000:5:k");
    shape.window = true;
    (void)weir_exact_key(&shape, "of {alice}", key);
    CHECK_STR(key, "weir:exact:window:1:100000:5:of {alice}");
    CHECK_EQ(slot(key), slot("alice")); /* what the user has put together stays together */
    char longest[EXACT_KEY_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[EXACT_KEY_MAX + 1] = '\0';
    CHECK_EQ(weir_exact_key(&shape, longest, key), 0);
    CHECK_EQ(weir_exact_key(&shape, "", key), 0);
    shape = (struct exact_shape){false, INT64_MAX, INT64_MAX, INT64_MAX};
    CHECK(weir_exact_key(&shape, longest + 1, key) > EXACT_KEY_MAX);
}

TEST(answers_of_exact_mode)
{
    struct exact_shape shape = {.count = 1, .period = 100000, .burst = 5}; /* 10/s burst=5 */
    struct weir_verdict verdict;
    struct resp_value *value = parse("*4\r\n:0\r\n:1000\r\n:500000\r\n:1000\r\n");
    CHECK(weir_exact_read(value, &shape, 1, &verdict));
    CHECK(!verdict.allowed && verdict.reason == WEIR_LATER && verdict.retry_after_ns == 100 * WEIR_MS &&
          verdict.reset_after_ns == 500 * WEIR_MS && verdict.remaining == 0);
    CHECK(weir_exact_read(value, &shape, 6, &verdict) && verdict.reason == WEIR_NEVER);
    weir_resp_value_free(value);
    value = parse("*4\r\n:1\r\n:1000\r\n:500001\r\n:1000\r\n"); /* more than full */
    CHECK(!weir_exact_read(value, &shape, 1, &verdict) && !verdict.allowed);
    weir_resp_value_free(value);
    value = parse("*4\r\n:0\r\n:1000\r\n:900000\r\n:1000\r\n"); /* the same, but it has refused */
    CHECK(weir_exact_read(value, &shape, 2, &verdict) && !verdict.allowed && verdict.reason == WEIR_LATER);
    CHECK(verdict.remaining == 0 && verdict.retry_after_ns == 600 * WEIR_MS &&
          verdict.reset_after_ns == 900 * WEIR_MS);
    CHECK(weir_exact_read(value, &shape, 6, &verdict) && verdict.reason == WEIR_NEVER);
    weir_resp_value_free(value);
    value = parse("*4\r\n:0\r\n:1000\r\n:9007199254740991\r\n:9007199254740991\r\n");
    CHECK(weir_exact_read(value, &shape, 5, &verdict) && verdict.retry_after_ns > 0 &&
          verdict.remaining == 0);
    weir_resp_value_free(value);
    shape = (struct exact_shape){.window = true, .count = 5, .period = 100000, .burst = 5};
    value = parse("*4\r\n:0\r\n:130000\r\n:9\r\n:100000\r\n");
    CHECK(weir_exact_read(value, &shape, 1, &verdict) && verdict.reason == WEIR_LATER);
    CHECK(verdict.remaining == 0 && verdict.retry_after_ns == 70 * WEIR_MS);
    weir_resp_value_free(value);
    shape = (struct exact_shape){.count = 1, .period = 100000, .burst = 5};
    value = parse("*4\r\n:2\r\n:1000\r\n:1\r\n:1000\r\n");
    CHECK(!weir_exact_read(value, &shape, 1, &verdict));
    weir_resp_value_free(value);
    value = parse("*4\r\n:1\r\n:1000\r\n:1\r\n:1000\r\n");
    CHECK(!weir_exact_read(value, &shape, 6, &verdict));
    CHECK(weir_exact_read(value, &shape, 1, &verdict) && verdict.allowed && verdict.remaining == 4);
    weir_resp_value_free(value);
}
