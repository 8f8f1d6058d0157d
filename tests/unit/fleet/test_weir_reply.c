/* SPDX-License-Identifier: MIT */
/*
 * What weir servers are asked, and what their answers mean: never a unit that they did not grant.
 */
#include "check.h"
#include "fleet/weir/reply.h"
#include "weir.h"

static struct lease_order order_of(int32_t op, int64_t chunks)
{
    return (struct lease_order){.id = 77, .op = op, .epoch = 12, .chunks = chunks};
}

/* The words, with a space between them. */
static const char *words_of(const struct lease_order *order)
{
    static char text[128];
    struct tier_ask ask;
    text[0] = '\0';
    if (!weir_tier_ask(&ask, "egress", order))
        return "nothing";
    for (size_t i = 0; i < ask.count; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.*s", i ? " " : "",
                       (int)ask.words[i].len, ask.words[i].bytes);
    return text;
}

TEST(orders_become_words)
{
    struct lease_order take = order_of(LEASE_TAKE, 3), look = order_of(LEASE_LOOK, 9),
                       probe = order_of(LEASE_PROBE, 0), back = order_of(LEASE_RETURN, 2),
                       turn = order_of(LEASE_TURN, 0), wrong = order_of(LEASE_TAKE, -1);
    CHECK_STR(words_of(&take), "WEIR.LEASE egress 3");
    CHECK_STR(words_of(&look), "WEIR.LEASE egress 0");
    CHECK_STR(words_of(&probe), "WEIR.LEASE egress 0");
    CHECK_STR(words_of(&back), "WEIR.RETURN egress 12 2");
    back.chunk = 100;
    CHECK_STR(words_of(&back), "WEIR.RETURN egress 12 2 200");
    CHECK_STR(words_of(&turn), "nothing");
    CHECK_STR(words_of(&wrong), "nothing");
}

/* ---- answers ---- */

struct answer {
    const char *kind;
    int64_t epoch, units, chunks, chunk, total, window, burst, starts, expires, left, retry;
};

static const struct answer fine = {.kind = "quota",
                                   .epoch = 12,
                                   .units = 2000,
                                   .chunks = 2,
                                   .chunk = 1000,
                                   .total = 50000000,
                                   .window = 60000,
                                   .expires = 41000,
                                   .left = 49998000};

static void put(struct buffer *out, const char *name, int64_t number)
{
    weir_buffer_print(out, "$%zu\r\n%s\r\n:%" PRId64 "\r\n", strlen(name), name, number);
}

/* As the server writes it, in version 3. */
static void write_answer(struct buffer *out, const struct answer *answer)
{
    weir_buffer_print(out, "%%12\r\n$4\r\nkind\r\n$%zu\r\n%s\r\n", strlen(answer->kind), answer->kind);
    put(out, "epoch", answer->epoch);
    put(out, "units", answer->units);
    put(out, "chunks", answer->chunks);
    put(out, "chunk", answer->chunk);
    put(out, "total", answer->total);
    put(out, "window_ms", answer->window);
    put(out, "burst", answer->burst);
    put(out, "starts_in_ms", answer->starts);
    put(out, "expires_in_ms", answer->expires);
    put(out, "left", answer->left);
    put(out, "retry_after_ms", answer->retry);
}

static struct lease_reply read_bytes(const char *bytes, size_t len, const struct lease_order *order,
                                     char *why)
{
    struct resp_value *value = NULL;
    struct lease_reply reply = {0};
    size_t used;
    if (CHECK_EQ(weir_resp_parse(bytes, len, &value, &used), RESP_PARSED))
        weir_tier_reply(value, order, &reply, why);
    weir_resp_value_free(value);
    return reply;
}

static struct lease_reply reply_to(const struct answer *answer, const struct lease_order *order)
{
    struct buffer out = {0};
    char why[TIER_WHY_MAX];
    write_answer(&out, answer);
    struct lease_reply reply = read_bytes(buffer_bytes(&out), buffer_len(&out), order, why);
    CHECK((reply.outcome == LEASE_DONE) == !why[0]);
    weir_buffer_free(&out);
    return reply;
}

static struct lease_reply say(const char *bytes, const struct lease_order *order, char *why)
{
    return read_bytes(bytes, strlen(bytes), order, why);
}

TEST(a_grant_is_what_the_answer_says)
{
    struct lease_order take = order_of(LEASE_TAKE, 2);
    struct lease_reply reply = reply_to(&fine, &take);
    CHECK_EQ(reply.id, 77);
    CHECK_EQ(reply.op, LEASE_TAKE);
    CHECK_EQ(reply.outcome, LEASE_DONE);
    CHECK_EQ(reply.epoch, 12);
    CHECK_EQ(reply.units, 2000);
    CHECK_EQ(reply.chunks, 2);
    CHECK_EQ(reply.terms.kind, LEASE_QUOTA);
    CHECK_EQ(reply.terms.total, 50000000);
    CHECK_EQ(reply.terms.window_ns, 60 * WEIR_SEC);
    CHECK_EQ(reply.terms.chunk, 1000);
    CHECK_EQ(reply.starts_ns, 0);
    CHECK_EQ(reply.ends_ns, 41 * WEIR_SEC);
    CHECK_EQ(reply.left, 49998000);
    CHECK_EQ(reply.age_ns, -1);
    CHECK(!reply.exhausted && !reply.stale);
}

TEST(fewer_chunks_than_asked_for_mean_that_there_are_no_more)
{
    struct lease_order take = order_of(LEASE_TAKE, 3);
    struct answer none = fine;
    struct lease_reply reply = reply_to(&fine, &take);
    CHECK(reply.exhausted);
    CHECK_EQ(reply.units, 2000);
    none.units = none.chunks = none.left = 0;
    none.retry = 41000;
    reply = reply_to(&none, &take);
    CHECK_EQ(reply.outcome, LEASE_DONE);
    CHECK(reply.exhausted);
    CHECK_EQ(reply.units, 0);
    CHECK_EQ(reply.retry_ns, 41 * WEIR_SEC);
}

TEST(a_look_grants_nothing_and_exhausts_nothing)
{
    struct lease_order look = order_of(LEASE_LOOK, 0);
    struct answer none = fine;
    none.units = none.chunks = 0;
    struct lease_reply reply = reply_to(&none, &look);
    CHECK_EQ(reply.outcome, LEASE_DONE);
    CHECK(!reply.exhausted);
    CHECK_EQ(reply_to(&fine, &look).outcome, LEASE_UNKNOWN); /* nobody asked for these */
    CHECK_EQ(reply_to(&fine, &look).units, 0);
}

TEST(a_bucket_has_a_burst)
{
    struct lease_order take = order_of(LEASE_TAKE, 2);
    struct answer bucket = fine;
    bucket.kind = "bucket";
    CHECK_EQ(reply_to(&bucket, &take).outcome, LEASE_UNKNOWN);
    bucket.burst = 20000;
    bucket.starts = 5;
    struct lease_reply reply = reply_to(&bucket, &take);
    CHECK_EQ(reply.outcome, LEASE_DONE);
    CHECK_EQ(reply.terms.kind, LEASE_BUCKET);
    CHECK_EQ(reply.terms.burst, 20000);
    CHECK_EQ(reply.starts_ns, 5 * WEIR_MS);
}

/* One field is wrong at a time, and nothing is granted. */
TEST(an_answer_that_contradicts_itself_is_not_believed)
{
    struct lease_order take = order_of(LEASE_TAKE, 2);
    static const struct {
        size_t field;
        int64_t value;
    } wrong[] = {{offsetof(struct answer, epoch), 0},        {offsetof(struct answer, epoch), -1},
                 {offsetof(struct answer, units), 2001},     {offsetof(struct answer, units), -1},
                 {offsetof(struct answer, units), 0},        {offsetof(struct answer, chunks), 3},
                 {offsetof(struct answer, chunks), 0},       {offsetof(struct answer, chunks), -2},
                 {offsetof(struct answer, chunk), 0},        {offsetof(struct answer, chunk), 999},
                 {offsetof(struct answer, total), 0},        {offsetof(struct answer, total), INT64_MAX},
                 {offsetof(struct answer, window), 0},       {offsetof(struct answer, window), INT64_MAX},
                 {offsetof(struct answer, burst), -1},       {offsetof(struct answer, starts), -1},
                 {offsetof(struct answer, expires), -1},     {offsetof(struct answer, expires), INT64_MAX},
                 {offsetof(struct answer, left), -2},        {offsetof(struct answer, retry), -1},
                 {offsetof(struct answer, retry), INT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct answer answer = fine;
        memcpy((char *)&answer + wrong[i].field, &wrong[i].value, sizeof wrong[i].value);
        struct lease_reply reply = reply_to(&answer, &take);
        CHECK_EQ(reply.outcome, LEASE_UNKNOWN);
        CHECK_EQ(reply.units, 0);
        CHECK_EQ(reply.chunks, 0);
        if (reply.outcome != LEASE_UNKNOWN)
            printf("# case %zu\n", i);
    }
    struct answer named = fine;
    named.kind = "gift";
    CHECK_EQ(reply_to(&named, &take).outcome, LEASE_UNKNOWN);
}

TEST(other_types_are_not_believed)
{
    static const char *const answers[] = {"+OK\r\n", ":5\r\n",  "_\r\n",  "*0\r\n",
                                          "%0\r\n",  "$-1\r\n", "#t\r\n", "*3\r\n+a\r\n+b\r\n+c\r\n"};
    struct lease_order take = order_of(LEASE_TAKE, 2);
    char why[TIER_WHY_MAX];
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct lease_reply reply = say(answers[i], &take, why);
        CHECK_EQ(reply.outcome, LEASE_UNKNOWN);
        CHECK_EQ(reply.units, 0);
        CHECK(why[0] != '\0');
    }
}

TEST(an_error_that_refuses_is_certain_and_one_of_the_store_is_not)
{
    struct lease_order take = order_of(LEASE_TAKE, 2);
    char why[TIER_WHY_MAX];
    struct lease_reply reply = say("-ERR no policy 'egres'; did you mean 'egress'?\r\n", &take, why);
    CHECK_EQ(reply.outcome, LEASE_FAILED);
    CHECK_EQ(reply.retry_ns, TIER_RETRY_NS);
    CHECK_STR(why, "ERR no policy 'egres'; did you mean 'egress'?");
    CHECK_EQ(say("-NOPERM user app may not take\r\n", &take, why).outcome, LEASE_FAILED);
    CHECK_EQ(say("-UNAVAILABLE the disk does not take anything\r\n", &take, why).outcome, LEASE_FAILED);
    CHECK_EQ(say("-MISCONF the disk is full\r\n", &take, why).outcome, LEASE_UNKNOWN);
    CHECK_STR(why, "MISCONF the disk is full");
    CHECK_EQ(say("-ERRATIC\r\n", &take, why).outcome, LEASE_UNKNOWN);
}

/* It is about to know more. */
TEST(to_be_tried_again_is_no_trouble)
{
    struct lease_order look = order_of(LEASE_LOOK, 0);
    char why[TIER_WHY_MAX];
    struct lease_reply reply = say("-TRYAGAIN the coordinator has not answered yet\r\n", &look, why);
    CHECK_EQ(reply.outcome, LEASE_FAILED);
    CHECK_STR(why, "");
    CHECK(reply.retry_ns < TIER_RETRY_NS);
}

/* The chunk is gone: that is all that follows from it. */
TEST(who_may_not_hand_back_goes_on)
{
    struct lease_order back = order_of(LEASE_RETURN, 2), take = order_of(LEASE_TAKE, 2);
    char why[TIER_WHY_MAX];
    struct lease_reply reply = say("-NOPERM user 'app' may not\r\n", &back, why);
    CHECK_EQ(reply.outcome, LEASE_DONE);
    CHECK_EQ(reply.epoch, 12);
    CHECK_EQ(reply.chunks, 0);
    CHECK_EQ(reply.retry_ns, 0);
    CHECK(reply.read); /* nothing was written: it tells nothing of when an epoch began */
    CHECK_STR(why, "chunks do not go back: NOPERM user 'app' may not");
    CHECK_EQ(say("-ERR no policy 'egress'\r\n", &back, why).outcome, LEASE_FAILED);
    CHECK_EQ(say("-NOPERM user 'app' may not\r\n", &take, why).outcome, LEASE_FAILED);
}

TEST(a_servers_error_is_a_line_that_can_be_printed)
{
    struct lease_order take = order_of(LEASE_TAKE, 2);
    char why[TIER_WHY_MAX], bytes[1100] = "-ERR \033[2J";
    (void)say("-ERR \033[2Jgone\r\n", &take, why);
    CHECK_STR(why, "ERR ?[2Jgone");
    memset(bytes + strlen(bytes), 'x', 1000);
    (void)snprintf(bytes + 1008, 8, "\r\n");
    (void)say(bytes, &take, why);
    CHECK(strlen(why) < TIER_WHY_MAX && strlen(why) > TIER_WHY_MAX - 10);
}

TEST(a_return_is_accepted_into_its_own_epoch_or_not_at_all)
{
    struct lease_order back = order_of(LEASE_RETURN, 2);
    char why[TIER_WHY_MAX];
    struct lease_reply reply = say(":2\r\n", &back, why);
    CHECK_EQ(reply.outcome, LEASE_DONE);
    CHECK_EQ(reply.epoch, 12);
    CHECK_EQ(reply.chunks, 2);
    reply = say(":0\r\n", &back, why);
    CHECK_EQ(reply.outcome, LEASE_MOVED);
    CHECK_EQ(reply.epoch, 0);
    CHECK_EQ(say(":3\r\n", &back, why).outcome, LEASE_UNKNOWN);
    CHECK_EQ(say(":-1\r\n", &back, why).outcome, LEASE_UNKNOWN);
    CHECK_EQ(say("+OK\r\n", &back, why).outcome, LEASE_UNKNOWN);
}
