/* SPDX-License-Identifier: MIT */
/*
 * What tables ask of states: policies whose keys have been idle for ever, when a state may be forgotten,
 * words that come from a damaged file, what is told of a key, and operations. WEIR_IDLE_WORDS says how many
 * damaged states are tried. That forgetting changes nothing is in property/prop_idle.c.
 */
#include "check.h"
#include "core/explain.h"
#include "core/idle.h"
#include "table/op.h"

#define WORDS 256

struct subject {
    struct weir_policy *policy;
    int64_t state[WORDS];
};

static struct subject open_at(const char *limits, int64_t now)
{
    struct weir_error err;
    struct subject s = {.policy = weir_policy_idle(limits, &err)};
    if (!s.policy || s.policy->words > WORDS) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    weir_state_init(s.policy, s.state, now);
    return s;
}

static void close_it(struct subject *s)
{
    weir_policy_free(s->policy);
}

/* ---- policies ---- */

static void check_refused(const char *limits, const char *message)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_idle(limits, &err);
    CHECK(policy == NULL);
    CHECK_STR(err.text, message);
    weir_policy_free(policy);
}

TEST(what_has_no_meaning_for_a_key_is_refused)
{
    check_refused("5/s initial=3",
                  "5/s initial=3: column 5: a key of a table starts as if idle for ever; leave initial= out");
    check_refused("5/s, 9/m algo=smooth burst=4 INITIAL=0",
                  "5/s, 9/m algo=smooth burst=4 INITIAL=0: column 30: a key of a table starts as if idle for "
                  "ever; leave initial= out");
    check_refused("5/s algo=step initial=0",
                  "5/s algo=step initial=0: column 15: a key of a table starts as if "
                  "idle for ever; leave initial= out");
    check_refused("1/s, 5/s algo=hybrid fill=thread",
                  "1/s, 5/s algo=hybrid fill=thread: column 22: a table has no thread that fills each key; "
                  "leave fill= out, or write fill=callers");
    check_refused(
        "cyclerate=12000,1.1,restart",
        "cyclerate=12000,1.1,restart: the keys of a table are neither configured nor restarted; leave "
        "the verb out, or write start");
    check_refused("5/s brust=3", "5/s brust=3: column 5: unknown option 'brust'; did you mean burst?");
    CHECK(weir_policy_idle("5/s initial=3", NULL) == NULL);
    CHECK(weir_policy_idle(NULL, NULL) == NULL);
}

static void check_text(const char *limits, const char *text)
{
    char got[256];
    struct subject s = open_at(limits, 0);
    CHECK_EQ(weir_policy_text(s.policy, got, sizeof got), strlen(text));
    CHECK_STR(got, text);
    close_it(&s);
}

TEST(what_a_key_starts_with_is_not_part_of_the_text)
{
    check_text("100/s algo=smooth", "100/s algo=smooth");
    check_text("100/s burst=7 initial=7 algo=smooth", "100/s burst=7 algo=smooth");
    check_text("100/s initial=100", "100/s");
    check_text("12000,1.1,start", "12k/s algo=hybrid ratio=1.1");
    check_text("1.5/s name=initial=3, unlimited", "3/2s burst=1 name=initial=3, unlimited");
}

static int64_t remaining(struct subject *s, int64_t now)
{
    struct weir_verdict v;
    (void)weir_state_peek(s->policy, s->state, now, 1, &v);
    return v.remaining;
}

TEST(a_key_starts_as_if_idle_for_ever)
{
    static const struct {
        const char *limits;
        int64_t units;
    } fresh[] = {{"5/s", 5},
                 {"5/s burst=9 algo=step", 9},
                 {"100/s burst=7 algo=smooth", 7},
                 {"100/3s algo=smooth", 33}, /* and a third */
                 {"5/s algo=interval", 1},
                 {"unlimited", INT64_MAX},
                 {"blocked", 0}};
    for (size_t i = 0; i < sizeof fresh / sizeof fresh[0]; i++) {
        struct subject s = open_at(fresh[i].limits, 77);
        struct weir_verdict v;
        CHECK_EQ(remaining(&s, 77), fresh[i].units);
        (void)weir_state_peek(s.policy, s.state, 77, 1, &v);
        CHECK_EQ(v.reset_after_ns, 0);
        CHECK(weir_state_valid(s.policy, s.state));
        close_it(&s);
    }
}

/* ---- forgetting ---- */

static void check_idle(struct subject *s, int64_t from)
{
    CHECK_EQ(weir_state_idle_from(s->policy, s->state), from);
    close_it(s);
}

TEST(a_bucket_may_go_when_it_is_full)
{
    struct subject s = open_at("10/s", 0);
    CHECK(weir_state_take(s.policy, s.state, WEIR_SEC, 3, NULL));
    check_idle(&s, WEIR_SEC + 300 * WEIR_MS);
    s = open_at("10/s", 0);
    weir_state_charge(s.policy, s.state, WEIR_SEC, 30); /* two seconds of debt, one to refill */
    check_idle(&s, 4 * WEIR_SEC);
    s = open_at("10/s", 0);
    weir_state_charge(s.policy, s.state, WEIR_SEC, INT64_MAX);
    check_idle(&s, WEIR_FOREVER);
    s = open_at("10/s algo=interval", 0);
    CHECK(weir_state_take(s.policy, s.state, WEIR_SEC, 1, NULL));
    check_idle(&s, WEIR_SEC + 100 * WEIR_MS);
    s = open_at("unlimited, blocked", 5);
    check_idle(&s, 0);
}

TEST(a_promise_is_kept)
{
    struct subject s = open_at("10/s algo=hybrid pool=1s ratio=1, unlimited", 0);
    CHECK(weir_state_reserve(s.policy, s.state, 0, 5, WEIR_SEC, NULL, NULL));
    check_idle(&s, 500 * WEIR_MS); /* due at 400 ms, and then it takes a while until there is one op again */
    s = open_at("10/s algo=fixed-window, 1/s", 0);
    CHECK(weir_state_take(s.policy, s.state, 0, 1, NULL));
    CHECK(weir_state_reserve(s.policy, s.state, 0, 1, WEIR_SEC, NULL, NULL));
    check_idle(&s, 2 * WEIR_SEC);
    s = open_at("10/s algo=smooth burst=1", 0);
    CHECK(weir_state_take(s.policy, s.state, 0, 6, NULL));
    CHECK(weir_state_reserve(s.policy, s.state, 0, 1, WEIR_SEC, NULL, NULL));
    check_idle(&s, 700 * WEIR_MS);
}

TEST(windows_and_logs_may_go_when_nothing_counts)
{
    struct subject s = open_at("10/s algo=fixed-window", 0);
    weir_state_charge(s.policy, s.state, 1500 * WEIR_MS, 11); /* one of them counts in the next window */
    check_idle(&s, 3 * WEIR_SEC);
    s = open_at("10/s algo=sliding-window", 0);
    CHECK(weir_state_take(s.policy, s.state, 1500 * WEIR_MS, 1, NULL));
    check_idle(&s, 3 * WEIR_SEC);
    s = open_at("10/s algo=sliding-window", 1500 * WEIR_MS); /* not before: its window has not begun */
    check_idle(&s, WEIR_SEC);
    s = open_at("10/s algo=sliding-log", 0);
    CHECK_EQ(weir_state_idle_from(s.policy, s.state), 0);
    CHECK(weir_state_take(s.policy, s.state, 1500 * WEIR_MS, 1, NULL));
    check_idle(&s, 2500 * WEIR_MS);
}

TEST(the_others_may_go_when_they_are_as_at_the_start)
{
    struct subject s = open_at("2/s algo=step burst=3", 100);
    CHECK(weir_state_take(s.policy, s.state, 200, 3, NULL));
    check_idle(&s, 100 + 2 * WEIR_SEC);
    s = open_at("10/s algo=warmup warmup=1s cold=1", 0);
    CHECK(weir_state_take(s.policy, s.state, 0, 3, NULL));
    check_idle(&s, 500 * WEIR_MS); /* 300 ms that it costs, and 3 of 15 units to be saved anew */
    s = open_at("10/s algo=hybrid pool=1s", 100);
    CHECK_EQ(weir_state_idle_from(s.policy, s.state), 100);
    weir_state_charge(s.policy, s.state, 100, 3); /* two ops of debt, and one to hold; a tenth comes on top */
    check_idle(&s, 100 + 300 * WEIR_MS);
}

/* A live change may round a store up a little; that is gone with the first tick. */
TEST(a_store_that_holds_too_much_is_not_a_fresh_one)
{
    struct subject s = open_at("10/s algo=warmup warmup=1s", 1000);
    CHECK_EQ(weir_state_idle_from(s.policy, s.state), 1000);
    s.state[STATE_HEADER + AT_SAVED]++; /* the next number there is */
    CHECK(weir_state_valid(s.policy, s.state));
    check_idle(&s, 1001);
}

/* ---- words from outside ---- */

static const char *const kinds[] = {
    "7/33ns burst=5",
    "3/us algo=interval timeout=2us",
    "3/us algo=leaky-bucket queue=4 age=900ns",
    "100/3us algo=smooth",
    "5/us algo=warmup warmup=3us",
    "5/us algo=warmup warmup=3us cold=7 shape=below",
    "5/us algo=hybrid ratio=1.3 pool=900ns",
    "5/us algo=hybrid ratio=1 pool=200ns",
    "64/ns algo=fixed-window refused=count",
    "6/us algo=fixed-window",
    "6/us algo=sliding-window refused=count",
    "6/us algo=sliding-log",
    "5/us algo=sliding-log refused=count",
    "4/us algo=step burst=9 strict=true refused=drain",
    "5/36525d algo=step burst=2",
    "60G/s algo=hybrid",
    "9/us algo=token-bucket, 5/us algo=sliding-log, 4/us algo=hybrid, 3/us algo=step, 6/us "
    "algo=sliding-window, "
    "7/us algo=warmup warmup=2us, 8/us algo=leaky-bucket",
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static int64_t roll_time(struct rng *rng)
{
    return rng_between(rng, 0, 9) > 0 ? rng_between(rng, 0, 5000) : rng_magnitude(rng, INT64_MAX);
}

static int64_t roll_n(struct rng *rng)
{
    return rng_between(rng, 0, 9) > 0 ? rng_between(rng, 1, 9) : rng_magnitude(rng, INT64_MAX);
}

/* A few verbs of all kinds. Nothing is expected of the answers: no sanitizer may have something to say. */
static void use(struct subject *s, struct rng *rng, int times)
{
    struct weir_reservation held[4][WEIR_LIMITS_MAX] = {0};
    struct weir_limit_state limits[WEIR_LIMITS_MAX];
    struct weir_verdict v;
    for (; times > 0; times--) {
        int64_t now = roll_time(rng), n = roll_n(rng);
        struct weir_reservation *mine = held[rng_between(rng, 0, 3)];
        switch (rng_between(rng, 0, 9)) {
        case 0:
        case 1:
            (void)weir_state_take(s->policy, s->state, now, n, rng_between(rng, 0, 1) ? &v : NULL);
            break;
        case 2:
            (void)weir_state_peek(s->policy, s->state, now, n, &v);
            break;
        case 3:
        case 4:
            (void)weir_state_reserve(s->policy, s->state, now, n, rng_magnitude(rng, INT64_MAX), mine, &v);
            break;
        case 5:
            (void)weir_state_cancel(s->policy, s->state, now, mine);
            break;
        case 6:
            weir_state_give(s->policy, s->state, now, n);
            break;
        case 7:
            weir_state_charge(s->policy, s->state, now, n);
            break;
        case 8:
            weir_state_explain(s->policy, s->state, now, limits, WEIR_LIMITS_MAX);
            (void)weir_state_drain(s->policy, s->state, now);
            break;
        default:
            if (rng_between(rng, 0, 3) == 0)
                weir_state_reset(s->policy, s->state, now);
        }
    }
}

static void change(struct subject *s, const char *limits, int64_t now)
{
    struct subject next = open_at(limits, 0);
    weir_state_change(s->policy, s->state, next.policy, next.state, now);
    close_it(s);
    *s = next;
}

TEST(states_that_verbs_leave_are_valid)
{
    struct rng rng = rng_new(1);
    int64_t rounds = check_env("WEIR_IDLE_WORDS", 200000) / 20;
    for (int64_t i = 0; i < rounds && check.faults == 0; i++) {
        size_t kind = (size_t)rng_between(&rng, 0, (int64_t)KINDS - 1);
        struct subject s = open_at(kinds[kind], roll_time(&rng));
        for (int k = 0; k < 6 && check.faults == 0; k++) {
            use(&s, &rng, 4);
            if (!CHECK(weir_state_valid(s.policy, s.state)))
                printf("# %s\n", kinds[kind]);
            if (k == 3)
                change(&s, kinds[rng_between(&rng, 0, (int64_t)KINDS - 1)], roll_time(&rng));
        }
        close_it(&s);
    }
}

static int64_t roll_word(struct rng *rng)
{
    static const int64_t edges[] = {INT64_MIN, INT64_MIN + 1, -2, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    switch (rng_between(rng, 0, 4)) {
    case 0:
        return edges[rng_between(rng, 0, 7)];
    case 1:
        return (int64_t)rng_next(rng);
    case 2:
        return -rng_magnitude(rng, INT64_MAX);
    case 3:
        return rng_magnitude(rng, INT64_MAX);
    default:
        return rng_between(rng, -3, 10);
    }
}

static void damage(struct subject *s, struct rng *rng)
{
    int64_t last = (int64_t)s->policy->words - 1;
    if (rng_between(rng, 0, 3) == 0) {
        for (int64_t i = 0; i <= last; i++)
            s->state[i] = roll_word(rng);
        return;
    }
    for (int64_t times = rng_between(rng, 1, 3); times > 0; times--) {
        int64_t *word = &s->state[rng_between(rng, 0, last)];
        if (rng_between(rng, 0, 1))
            *word = roll_word(rng);
        else
            *word = (int64_t)((uint64_t)*word ^ UINT64_C(1) << rng_between(rng, 0, 63));
    }
}

TEST(no_verb_stumbles_over_damaged_words)
{
    struct rng rng = rng_new(2);
    int64_t rounds = check_env("WEIR_IDLE_WORDS", 200000), valid = 0;
    struct subject subjects[KINDS];
    for (size_t k = 0; k < KINDS; k++)
        subjects[k] = open_at(kinds[k], 0);
    for (int64_t i = 0; i < rounds; i++) {
        struct subject *s = &subjects[rng_between(&rng, 0, (int64_t)KINDS - 1)];
        weir_state_init(s->policy, s->state, roll_time(&rng));
        use(s, &rng, (int)rng_between(&rng, 0, 6));
        damage(s, &rng);
        if (!weir_state_valid(s->policy, s->state))
            continue;
        int64_t from = weir_state_idle_from(s->policy, s->state);
        CHECK(from >= 0 && (from <= WEIR_TIME_MAX || from == WEIR_FOREVER));
        use(s, &rng, 8);
        struct subject *next = &subjects[rng_between(&rng, 0, (int64_t)KINDS - 1)];
        if (next != s) {
            weir_state_change(s->policy, s->state, next->policy, next->state, roll_time(&rng));
            next->state[STATE_GENERATION] = 0; /* it goes on from what it was, the last that is valid, too */
            CHECK(weir_state_valid(next->policy, next->state));
        }
        valid++;
    }
    CHECK(valid > rounds / 20); /* else it tries nothing */
    CHECK(valid < rounds);
    for (size_t k = 0; k < KINDS; k++)
        close_it(&subjects[k]);
}

static bool valid_with(const char *limits, size_t word, int64_t value)
{
    struct subject s = open_at(limits, 1000);
    s.state[word] = value;
    bool valid = weir_state_valid(s.policy, s.state);
    close_it(&s);
    return valid;
}

TEST(words_that_no_verb_leaves_are_no_state)
{
    static const struct {
        const char *limits;
        size_t word;
        int64_t good, bad;
    } words[] = {
        {"5/s", STATE_PROMISED, WEIR_TIME_MAX, WEIR_TIME_MAX + 1},
        {"5/s", STATE_PROMISED, 0, -1},
        {"5/s", STATE_GENERATION, 0, -1},
        {"5/s", STATE_GENERATION, INT64_MAX / 2, INT64_MAX - STATE_AGE},
        {"5/s", STATE_HEADER + AT_INDEX, -WEIR_SEC, -2 * WEIR_SEC},
        {"5/s", STATE_HEADER + AT_INDEX, INT64_MAX, INT64_MIN},
        {"5/s algo=warmup warmup=1s", STATE_HEADER + AT_NEXT, INT64_MAX, -1},
        {"5/s algo=warmup warmup=1s", STATE_HEADER + AT_SAVED, 0, -1 /* not a number */},
        {"5/s algo=warmup warmup=1s", STATE_HEADER + AT_SAVED, 1, 0x4059000000000000 /* 100.0 */},
        {"5/s algo=hybrid", STATE_HEADER + AT_ACTIVE, INT64_MIN, INT64_MAX},
        {"5/s algo=hybrid", STATE_HEADER + AT_WAITING, INT64_MAX, -1},
        {"5/s algo=hybrid", STATE_HEADER + AT_FILLED, 0, -1},
        {"5/s algo=hybrid", STATE_HEADER + AT_FILLED, WEIR_TIME_MAX, INT64_MAX},
        {"5/s algo=hybrid", STATE_HEADER + AT_CARRY, 0, -1},
        {"5/s algo=hybrid", STATE_HEADER + AT_CARRY, WEIR_SEC / 5 - 1, WEIR_SEC / 5},
        {"5/s algo=hybrid", STATE_HEADER + AT_HISTORY, INT64_MAX, -1},
        {"5/s algo=fixed-window", STATE_HEADER + AT_WINDOW, WEIR_TIME_MAX / WEIR_SEC, WEIR_TIME_MAX},
        {"5/s algo=fixed-window", STATE_HEADER + AT_WINDOW, 0, -1},
        {"5/s algo=fixed-window", STATE_HEADER + AT_PRESENT, INT64_MAX, -1},
        {"5/s algo=fixed-window", STATE_HEADER + AT_PREVIOUS, 0, 1},
        {"5/s algo=sliding-window", STATE_HEADER + AT_PREVIOUS, 5, 6},
        {"5/s algo=sliding-log", STATE_HEADER + AT_HEAD, 4, 5},
        {"5/s algo=sliding-log", STATE_HEADER + AT_HEAD, 0, -1},
        {"5/s algo=sliding-log", STATE_HEADER + AT_LENGTH, 5, 6},
        {"5/s algo=sliding-log", STATE_HEADER + AT_LENGTH, 0, -1},
        {"5/s algo=step", STATE_HEADER + AT_UNITS, INT64_MIN, 6},
        {"5/s algo=step", STATE_HEADER + AT_STEPPED, -WEIR_SEC, -WEIR_SEC - 1},
        {"5/s algo=step", STATE_HEADER + AT_STEPPED, WEIR_TIME_MAX, WEIR_TIME_MAX + 1},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!CHECK(valid_with(words[i].limits, words[i].word, words[i].good)) ||
            !CHECK(!valid_with(words[i].limits, words[i].word, words[i].bad)))
            printf("# %s word %zu\n", words[i].limits, words[i].word);
}

TEST(a_log_whose_times_go_back_is_none)
{
    struct subject s = open_at("3/s algo=sliding-log", 0);
    for (int64_t now = 1; now <= 4 * WEIR_SEC; now += WEIR_SEC)
        CHECK(weir_state_take(s.policy, s.state, now, 1, NULL));
    CHECK_EQ(s.state[STATE_HEADER + AT_HEAD], 1);
    CHECK(weir_state_valid(s.policy, s.state));
    s.state[STATE_HEADER + AT_TIMES + 1] = 4 * WEIR_SEC;
    CHECK(!weir_state_valid(s.policy, s.state));
    s.state[STATE_HEADER + AT_TIMES + 1] = -WEIR_SEC - 1;
    CHECK(!weir_state_valid(s.policy, s.state));
    close_it(&s);
}

/* ---- explain ---- */

static struct weir_limit_state explain(struct subject *s, int64_t now)
{
    struct weir_limit_state limits[2];
    limits[1].used = 77;
    weir_state_explain(s->policy, s->state, now, limits, 1);
    CHECK_EQ(limits[1].used, 77);
    return limits[0];
}

static void check_units(struct subject *s, int64_t now, int64_t used, int64_t left)
{
    struct weir_limit_state limit = explain(s, now);
    CHECK_EQ(limit.used, used);
    CHECK_EQ(limit.left, left);
}

TEST(a_limit_is_explained)
{
    struct subject s = open_at("10/s burst=5, 100/h name=hourly", 0);
    struct weir_limit_state limits[2];
    CHECK(weir_state_take(s.policy, s.state, 0, 3, NULL));
    weir_state_explain(s.policy, s.state, 50 * WEIR_MS, limits, 2);
    CHECK_EQ(limits[0].used, 3);
    CHECK_EQ(limits[0].left, 2);
    CHECK_EQ(limits[0].next_after_ns, 0);
    CHECK_EQ(limits[0].reset_after_ns, 250 * WEIR_MS);
    CHECK_EQ(limits[0].refuses, 0);
    CHECK_EQ(limits[0].reserved, 0);
    CHECK_STR(limits[0].text, "10/s burst=5");
    CHECK_EQ(limits[1].left, 97);
    CHECK_STR(limits[1].text, "hourly");
    weir_state_charge(s.policy, s.state, 50 * WEIR_MS, 4); /* one and a half in debt */
    weir_state_explain(s.policy, s.state, 50 * WEIR_MS, limits, 2);
    CHECK_EQ(limits[0].used, 7);
    CHECK_EQ(limits[0].left, 0);
    CHECK_EQ(limits[0].next_after_ns, 250 * WEIR_MS);
    CHECK_EQ(limits[0].refuses, 1);
    CHECK_EQ(limits[1].used, 7);
    CHECK_EQ(limits[1].refuses, 0);
    close_it(&s);
}

TEST(debts_are_counted_in_units)
{
    static const struct {
        const char *limits;
        int64_t capacity, left; /* of a fresh one */
    } limits[] = {{"10/s", 10, 10},
                  {"10/s algo=interval", 1, 1},
                  {"10/s algo=smooth burst=4", 4, 4},
                  {"10/s algo=hybrid pool=400ms ratio=2", 8, 1},
                  {"10/s algo=fixed-window", 10, 10},
                  {"10/s algo=sliding-window", 10, 10},
                  {"10/s algo=sliding-log", 10, 10},
                  {"10/s algo=step", 10, 10}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        int64_t capacity = limits[i].capacity, left = limits[i].left;
        struct subject s = open_at(limits[i].limits, 5 * WEIR_SEC);
        check_units(&s, 5 * WEIR_SEC, capacity - left, left);
        weir_state_charge(s.policy, s.state, 5 * WEIR_SEC, left);
        check_units(&s, 5 * WEIR_SEC, capacity, 0);
        for (int64_t debt = 1; debt < 40; debt += 6, weir_state_charge(s.policy, s.state, 5 * WEIR_SEC, 5)) {
            weir_state_charge(s.policy, s.state, 5 * WEIR_SEC, 1);
            check_units(&s, 5 * WEIR_SEC, capacity + debt, 0);
        }
        close_it(&s);
    }
}

TEST(a_log_counts_what_has_been_pushed_out)
{
    struct subject s = open_at("2/10ns algo=sliding-log", 0);
    weir_state_charge(s.policy, s.state, 0, 5); /* at 0, 0, 10, 10 and 20, and the last two are in the ring */
    check_units(&s, 0, 5, 0);
    check_units(&s, 5, 5, 0);
    check_units(&s, 9, 5, 0);
    check_units(&s, 10, 3, 0);
    check_units(&s, 29, 1, 1);
    check_units(&s, 30, 0, 2);
    close_it(&s);
}

TEST(queues_and_warm_ups_are_explained)
{
    struct subject s = open_at("10/s algo=leaky-bucket queue=3", 0);
    check_units(&s, 0, 0, 4);
    CHECK(weir_state_take(s.policy, s.state, 0, 3, NULL));
    check_units(&s, 0, 3, 0);
    check_units(&s, 150 * WEIR_MS, 2, 0);
    CHECK_EQ(explain(&s, 150 * WEIR_MS).next_after_ns, 150 * WEIR_MS);
    close_it(&s);
    s = open_at("10/s algo=warmup warmup=1s cold=1", 0);
    check_units(&s, 0, 0, 15);
    CHECK(weir_state_take(s.policy, s.state, 0, 2, NULL));
    check_units(&s, 0, 17, 0); /* nothing is there, and the next one waits for two */
    check_units(&s, 200 * WEIR_MS, 2, 13);
    close_it(&s);
    s = open_at("blocked", 0);
    CHECK_EQ(explain(&s, 0).next_after_ns, WEIR_FOREVER);
    check_units(&s, 0, 0, 0);
    close_it(&s);
    s = open_at("unlimited", 0);
    check_units(&s, 0, 0, INT64_MAX);
    close_it(&s);
}

/* 12 in the first window, of which 8 were refused: the next one begins with all of them, but owes none. */
TEST(refused_units_that_count_are_no_debt)
{
    struct subject s = open_at("4/10s algo=sliding-window refused=count", 0);
    CHECK(weir_state_take(s.policy, s.state, 0, 4, NULL));
    CHECK(!weir_state_take(s.policy, s.state, WEIR_SEC, 8, NULL));
    check_units(&s, WEIR_SEC, 4, 0);
    check_units(&s, 11 * WEIR_SEC, 4, 0);
    check_units(&s, 18 * WEIR_SEC, 3, 1);
    weir_state_charge(s.policy, s.state, 18 * WEIR_SEC, 5);
    check_units(&s, 18 * WEIR_SEC, 6, 0); /* 0.8 of the 4 that passed are left, rounded up */
    CHECK_EQ(weir_state_idle_from(s.policy, s.state), 40 * WEIR_SEC);
    close_it(&s);
}

TEST(nothing_is_left_behind_a_promise)
{
    struct subject s = open_at("2/s, 100/h", 0);
    struct weir_limit_state limits[2];
    CHECK(weir_state_take(s.policy, s.state, 0, 2, NULL));
    CHECK(weir_state_reserve(s.policy, s.state, 0, 1, WEIR_SEC, NULL, NULL));
    weir_state_explain(s.policy, s.state, 0, limits, 2);
    CHECK_EQ(limits[0].used, 3);
    CHECK_EQ(limits[1].used, 3);
    CHECK_EQ(limits[1].left, 0);
    CHECK_EQ(limits[1].next_after_ns, 500 * WEIR_MS);
    CHECK_EQ(limits[1].refuses, 1);
    close_it(&s);
}

TEST(a_long_text_is_cut)
{
    struct subject s =
        open_at("1234567891011/1234567891011ns burst=1234567 algo=smooth timeout=123456789123456ns", 0);
    char whole[512];
    size_t len = weir_policy_text(s.policy, whole, sizeof whole);
    CHECK(len < sizeof explain(&s, 0).text);
    CHECK_STR(explain(&s, 0).text, whole);
    close_it(&s);
}

/* ---- operations ---- */

TEST(every_verb_is_done)
{
    struct subject s = open_at("10/s", 0);
    struct weir_verdict v = {0};
    struct weir_reservation r = {.n = 9};
    struct weir_limit_state limits[1];
    struct table_op op = {.n = 10, .verdict = &v, .reservation = &r, .limits = limits, .limit_count = 1};
    CHECK(weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(v.remaining, 0);
    op.verb = VERB_PEEK;
    op.n = 1;
    CHECK(!weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(v.retry_after_ns, 100 * WEIR_MS);
    op.verb = VERB_RESERVE;
    CHECK(!weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(r.n, 0); /* no promise, no reservation */
    op.timeout_ns = WEIR_SEC;
    CHECK(weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(r.due_ns, 100 * WEIR_MS);
    op.verb = VERB_CANCEL;
    CHECK(weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(r.n, 0);
    CHECK(!weir_table_op_run(s.policy, s.state, &op));
    op.verb = VERB_GIVE;
    op.n = 4;
    CHECK(weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(remaining(&s, 0), 4);
    op.verb = VERB_CHARGE;
    CHECK(weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(remaining(&s, 0), 0);
    op.verb = VERB_RESET;
    CHECK(weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(remaining(&s, 0), 10);
    op.verb = VERB_EXPLAIN;
    CHECK(weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(op.limit_count, 1);
    CHECK_EQ(limits[0].left, 10);
    close_it(&s);
}

TEST(one_reservation_stands_for_several_limits)
{
    struct subject s = open_at("2/s algo=sliding-log, 5/s algo=fixed-window, 5/s", 0);
    struct weir_reservation r;
    struct table_op op = {.verb = VERB_TAKE, .n = 2};
    CHECK(weir_table_op_run(s.policy, s.state, &op));
    op = (struct table_op){.verb = VERB_RESERVE, .n = 1, .timeout_ns = WEIR_FOREVER};
    CHECK(weir_table_op_run(s.policy, s.state, &op)); /* nobody wants to hand it back */
    weir_state_reset(s.policy, s.state, 0);
    CHECK(weir_state_take(s.policy, s.state, 0, 2, NULL));
    op.reservation = &r;
    CHECK(weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(r.due_ns, WEIR_SEC);
    op.verb = VERB_CANCEL;
    CHECK(weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(r.n, 0);
    CHECK(weir_state_valid(s.policy, s.state));
    CHECK(!weir_state_take(s.policy, s.state, WEIR_SEC - 1, 1, NULL));
    CHECK(weir_state_take(s.policy, s.state, WEIR_SEC, 2, NULL)); /* what the log had pushed out is gone */
    CHECK(!weir_state_take(s.policy, s.state, WEIR_SEC, 1, NULL));
    op.reservation = NULL;
    CHECK(!weir_table_op_run(s.policy, s.state, &op));
    close_it(&s);
}

/* A ticket of one limit would be taken for the other's, and more could come back than was promised. */
TEST(a_cancel_of_several_limits_undoes_the_latest_promise_only)
{
    struct subject s = open_at("1/s, 1/s burst=5", 0);
    struct weir_reservation r[2];
    struct table_op op = {.verb = VERB_RESERVE, .n = 1, .timeout_ns = WEIR_FOREVER};
    int64_t first[2], second[2];
    CHECK(weir_state_take(s.policy, s.state, 0, 1, NULL));
    for (int i = 0; i < 2; i++) {
        first[i] = s.state[STATE_HEADER];
        second[i] = s.state[STATE_HEADER + 1];
        op.reservation = &r[i];
        CHECK(weir_table_op_run(s.policy, s.state, &op));
    }
    int64_t last = s.state[STATE_HEADER];
    op.verb = VERB_CANCEL;
    struct weir_reservation earlier = r[0];
    op.reservation = &earlier; /* another waits behind it */
    CHECK(weir_table_op_run(s.policy, s.state, &op));
    CHECK_EQ(s.state[STATE_HEADER], last);
    for (int i = 1; i >= 0; i--) {
        op.reservation = &r[i];
        CHECK(weir_table_op_run(s.policy, s.state, &op));
        CHECK_EQ(s.state[STATE_HEADER], first[i]);
        CHECK_EQ(s.state[STATE_HEADER + 1], second[i]);
    }
    CHECK(!weir_state_take(s.policy, s.state, WEIR_SEC - 1, 1, NULL));
    CHECK(weir_state_take(s.policy, s.state, WEIR_SEC, 1, NULL));
    close_it(&s);
}

/* What it held before the promise is not known: it counts as empty when the last of the buckets was. The
 * second has ten ticks in a nanosecond: a promise is due at the first of them. */
TEST(a_bucket_that_would_be_full_at_the_due_time_refills_from_where_one_was_empty)
{
    static const struct {
        const char *limits;
        int64_t step_ns, units, full;
    } cases[] = {{"1/h, 10/s", WEIR_SEC / 10, 1, 10}, {"1/h, 10/1ns burst=100", 1, 10, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct subject s = open_at(cases[i].limits, 0);
        struct weir_reservation r;
        struct weir_limit_state limits[2];
        struct table_op op = {.verb = VERB_RESERVE, .n = 1, .timeout_ns = WEIR_FOREVER, .reservation = &r};
        CHECK(weir_state_take(s.policy, s.state, 0, 1, NULL));
        CHECK(weir_table_op_run(s.policy, s.state, &op));
        CHECK_EQ(r.due_ns, 3600 * WEIR_SEC);
        op.verb = VERB_CANCEL;
        CHECK(weir_table_op_run(s.policy, s.state, &op));
        for (int64_t step = 0; step <= 12; step++) {
            weir_state_explain(s.policy, s.state, step * cases[i].step_ns, limits, 2);
            CHECK_EQ(limits[1].left, min64(step * cases[i].units, cases[i].full));
        }
        close_it(&s);
    }
}

/* Does it to a key that is not there; gives whether it has to be put there. The fresh state stays fresh. */
static bool needs_insert(const char *limits, struct table_op op, bool *answer)
{
    struct subject s = open_at(limits, 7), before = s;
    bool insert = true;
    op.now = 7;
    *answer = weir_table_op_absent(s.policy, s.state, false, &op, &insert);
    CHECK(memcmp(s.state, before.state, sizeof s.state) == 0);
    close_it(&s);
    return insert;
}

static void check_absent(const char *limits, enum table_verb verb, int64_t n, int64_t timeout_ns, bool insert,
                         bool answer)
{
    struct weir_verdict v;
    struct weir_reservation r;
    struct weir_limit_state explained[2];
    bool got;
    struct table_op op = {.verb = verb,
                          .n = n,
                          .timeout_ns = timeout_ns,
                          .verdict = &v,
                          .reservation = &r,
                          .limits = explained,
                          .limit_count = 2};
    bool same = CHECK_EQ(needs_insert(limits, op, &got), insert);
    if (!insert)
        same = CHECK_EQ(got, answer) && same;
    if (!same)
        printf("# %s, verb %d, n %" PRId64 "\n", limits, (int)verb, n);
}

TEST(what_a_fresh_state_can_answer_needs_no_place)
{
    check_absent("5/s", VERB_TAKE, 5, 0, true, true);
    check_absent("5/s", VERB_TAKE, 6, 0, false, false);
    check_absent("5/s", VERB_TAKE, 0, 0, false, false);
    check_absent("5/s", VERB_PEEK, 5, 0, false, true);
    check_absent("5/s", VERB_PEEK, 6, 0, false, false);
    check_absent("5/s", VERB_EXPLAIN, 0, 0, false, true);
    check_absent("5/s", VERB_GIVE, 5, 0, false, true);
    check_absent("5/s", VERB_RESET, 0, 0, false, true);
    check_absent("5/s", VERB_CANCEL, 0, 0, false, false);
    check_absent("5/s", VERB_CHARGE, 1, 0, true, true);
    check_absent("5/s", VERB_CHARGE, 0, 0, false, true);
    check_absent("5/s", VERB_RESERVE, 5, 0, true, true);
    check_absent("5/s", VERB_RESERVE, 6, WEIR_FOREVER, false, false);
    check_absent("5/s", VERB_RESERVE, 0, 0, false, false);
    check_absent("5/s algo=hybrid pool=1s", VERB_RESERVE, 3, 300 * WEIR_MS, false, false);
    check_absent("5/s algo=hybrid pool=1s", VERB_RESERVE, 3, 400 * WEIR_MS, true, true);
    check_absent("5/s algo=hybrid pool=1s timeout=400ms", VERB_RESERVE, 3, -1, true, true);
    check_absent("5/s algo=hybrid pool=1s, 9/s algo=leaky-bucket age=399ms", VERB_RESERVE, 3, WEIR_FOREVER,
                 false, false);
    check_absent("5/s algo=fixed-window", VERB_TAKE, 6, 0, false, false);
    check_absent("5/s algo=fixed-window refused=count", VERB_TAKE, 6, 0, true, false);
    check_absent("5/s algo=fixed-window refused=count", VERB_PEEK, 6, 0, false, false);
    check_absent("unlimited", VERB_TAKE, 6, 0, false, true);
    check_absent("unlimited", VERB_CHARGE, 6, 0, false, true);
    check_absent("blocked, unlimited", VERB_RESERVE, 6, WEIR_FOREVER, false, false);
}

TEST(a_refusal_without_a_place_says_why)
{
    struct weir_verdict v;
    bool answer;
    struct table_op op = {.verb = VERB_RESERVE, .n = 3, .timeout_ns = 300 * WEIR_MS, .verdict = &v};
    CHECK(!needs_insert("5/s algo=hybrid pool=1s", op, &answer));
    CHECK_EQ(v.reason, WEIR_LATER);
    CHECK_EQ(v.retry_after_ns, 100 * WEIR_MS);
    op.n = 0;
    CHECK(!needs_insert("5/s", op, &answer));
    CHECK_EQ(v.reason, WEIR_INVALID);
    op = (struct table_op){.verb = VERB_TAKE, .n = 6, .verdict = &v};
    CHECK(!needs_insert("5/s", op, &answer));
    CHECK_EQ(v.reason, WEIR_NEVER);
}

TEST(a_full_table_does_not_know_when_it_has_room)
{
    struct weir_verdict v = {.allowed = 1};
    struct weir_reservation r = {.n = 3};
    struct table_op op = {.verb = VERB_RESERVE, .n = 3, .verdict = &v, .reservation = &r};
    CHECK(!weir_table_op_full(&op));
    CHECK_EQ(v.allowed, 0);
    CHECK_EQ(v.reason, WEIR_FULL);
    CHECK_EQ(v.retry_after_ns, WEIR_FOREVER);
    CHECK_EQ(r.n, 0);
    op = (struct table_op){.verb = VERB_CHARGE, .n = 3};
    CHECK(!weir_table_op_full(&op));
}
