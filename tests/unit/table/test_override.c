/* SPDX-License-Identifier: MIT */
/*
 * Keys with limits of their own, beside states of the core that are changed by weir_state_change at the same
 * times, or begin anew if they are as if never used: every verdict has to be the same.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "core/idle.h"
#include "core/state.h"
#include "weir.h"

#define START (INT64_C(1000) * WEIR_SEC)
#define KEYS  12

static const char *const own_limits[] = {
    "100/s",
    "3/s burst=50",
    "1/s burst=2",
    "20/s algo=sliding-window",
    "9/s algo=fixed-window",
    "unlimited",
    "blocked",
    "7/s, 100/m",
    "10/s algo=warmup warmup=1s",
    "30/s algo=sliding-log",
    "5/s algo=step",
    "50/s algo=hybrid",
    "2/s algo=interval",
};

static struct weir_table *make(const char *limits, struct weir_table_options options)
{
    struct weir_error err;
    if (options.keys == 0)
        options.keys = 500;
    struct weir_table *table = weir_table_make(NULL, limits, &options, &err);
    if (!CHECK(table != NULL))
        printf("# %s: %s\n", limits ? limits : "own", err.text);
    return table;
}

static bool set(struct weir_table *table, int64_t now, const char *key, const char *limits)
{
    struct weir_error err;
    bool done = weir_table_override_at(table, now, key, strlen(key), limits, &err);
    if (!done)
        printf("# %s: %s\n", limits ? limits : "(none)", err.text);
    return done;
}

static bool take(struct weir_table *table, int64_t now, const char *key, int64_t n)
{
    return weir_table_take_at(table, now, key, strlen(key), n, NULL);
}

/* ---- the model ---- */

struct model {
    struct weir_policy *base, *own; /* own: or NULL */
    int64_t state[256];
    bool is_word;
};

static const struct weir_policy *policy_of(const struct model *model)
{
    return model->own ? model->own : model->base;
}

/* A word has no time of a promise beside it: it is behind until then. */
static void become_word(struct model *model, int64_t now)
{
    const struct ticks *ticks = &model->base->limits[0].ticks;
    int64_t *state = model->state;
    if (state[STATE_PROMISED] <= now) {
        state[STATE_PROMISED] = 0;
        return;
    }
    state[STATE_HEADER] = max64(state[STATE_HEADER], ticks_at(ticks, state[STATE_PROMISED]));
    state[STATE_PROMISED] = ticks_time(ticks, state[STATE_HEADER]);
}

static void change(struct model *model, const char *limits, int64_t now)
{
    int64_t to[256];
    struct weir_policy *next = limits ? weir_policy_idle(limits, NULL) : NULL;
    const struct weir_policy *policy = policy_of(model), *after = next ? next : model->base;
    if (!model->own && next && weir_state_idle_from(policy, model->state) <= now)
        weir_state_init(after, to, now);
    else
        weir_state_change(policy, model->state, after, to, now);
    memcpy(model->state, to, sizeof to);
    weir_policy_free(model->own);
    model->own = next;
    if (!next && model->is_word)
        become_word(model, now);
}

static void check_same(const struct weir_verdict *got, const struct weir_verdict *want)
{
    CHECK_EQ(got->allowed, want->allowed);
    CHECK_EQ(got->reason, want->reason);
    CHECK_EQ(got->remaining, want->remaining);
    CHECK_EQ(got->retry_after_ns, want->retry_after_ns);
    CHECK_EQ(got->reset_after_ns, want->reset_after_ns);
}

static void act(struct weir_table *table, struct model *model, const char *key, int64_t now, struct rng *rng)
{
    struct weir_verdict got, want;
    int64_t n = rng_between(rng, 1, 4);
    switch (rng_between(rng, 0, 9)) {
    case 0:
        CHECK(weir_table_charge_at(table, now, key, strlen(key), n));
        weir_state_charge(policy_of(model), model->state, now, n);
        break;
    case 1:
        weir_table_reset_at(table, now, key, strlen(key));
        weir_state_reset(policy_of(model), model->state, now);
        break;
    case 2:
        (void)weir_table_peek_at(table, now, key, strlen(key), n, &got);
        (void)weir_state_peek(policy_of(model), model->state, now, n, &want);
        check_same(&got, &want);
        if (want.remaining > 0) { /* a debt may be a promise, and then nothing can be given */
            weir_table_give_at(table, now, key, strlen(key), 1);
            weir_state_give(policy_of(model), model->state, now, 1);
        }
        break;
    default:
        (void)weir_table_take_at(table, now, key, strlen(key), n, &got);
        (void)weir_state_take(policy_of(model), model->state, now, n, &want);
        check_same(&got, &want);
    }
}

static void compare(const char *base, size_t key_max, uint64_t stream)
{
    struct rng rng = rng_new(stream);
    struct weir_table *table = make(base, (struct weir_table_options){.key_max = key_max});
    struct weir_policy *policy = weir_policy_idle(base, NULL);
    struct model models[KEYS];
    char keys[KEYS][32], text[256], expected[256];
    int64_t now = START;
    for (int i = 0; i < KEYS; i++) {
        models[i] = (struct model){.base = policy, .is_word = key_max <= 16 && policy->words == 3};
        weir_state_init(policy, models[i].state, now);
        (void)snprintf(keys[i], sizeof keys[i], "key %d", i);
        CHECK(take(table, now, keys[i], 1)); /* all are in, and none can be forgotten while others come in */
        CHECK(weir_state_take(policy, models[i].state, now, 1, NULL));
    }
    for (int step = 0; step < 4000; step++) {
        int i = (int)rng_between(&rng, 0, KEYS - 1);
        struct model *model = &models[i];
        now += rng_between(&rng, 0, 3) ? rng_magnitude(&rng, WEIR_SEC / 2) : 0;
        if (rng_between(&rng, 0, 9) > 0) {
            act(table, model, keys[i], now, &rng);
            continue;
        }
        bool none = rng_between(&rng, 0, 2) == 0;
        const char *limits =
            none ? NULL : own_limits[rng_between(&rng, 0, sizeof own_limits / sizeof own_limits[0] - 1)];
        CHECK(set(table, now, keys[i], limits));
        if (limits || model->own)
            change(model, limits, now);
        expected[0] = '\0';
        if (model->own)
            (void)weir_policy_text(model->own, expected, sizeof expected);
        CHECK_EQ(weir_table_override_text(table, keys[i], strlen(keys[i]), text, sizeof text),
                 strlen(expected));
        CHECK_STR(text, expected);
    }
    struct weir_table_info stat;
    int64_t overridden = 0;
    for (int i = 0; i < KEYS; i++) {
        overridden += models[i].own != NULL;
        weir_policy_free(models[i].own);
    }
    weir_table_stat_at(table, now, &stat);
    CHECK_EQ(stat.overrides, overridden);
    weir_policy_free(policy);
    weir_table_free(table);
}

TEST(words_keep_what_was_spent)
{
    compare("10/s", 0, 1);
    compare("3/s burst=20", 0, 2);
    compare("4/s algo=interval", 0, 3);
    compare("5/s algo=smooth", 0, 4);
}

TEST(wide_states_keep_what_was_spent)
{
    compare("10/s, 100/m", 0, 5);
    compare("10/s algo=sliding-window", 0, 6);
    compare("100/s algo=sliding-log", 0, 7); /* more words than a key's own limits may have */
}

TEST(whole_keys_keep_what_was_spent)
{
    compare("10/s", 32, 8);
    compare("10/s algo=warmup warmup=1s", 8, 9);
}

/* ---- stories ---- */

TEST(the_tables_limits_change_for_the_others_only)
{
    struct weir_table *table = make("10/s", (struct weir_table_options){0});
    CHECK(take(table, START, "usual", 1));
    CHECK(set(table, START, "special", "5/s"));
    for (int i = 0; i < 9; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d/s", 20 + i);
        CHECK(weir_table_set_at(table, START + i, text, NULL));
    }
    int64_t later = START + 10 * WEIR_SEC;
    CHECK(!take(table, later, "special", 6));
    CHECK(take(table, later, "special", 5));
    CHECK(take(table, later, "usual", 28));
    CHECK(set(table, later, "special", NULL)); /* of the limits that are in force now */
    CHECK(!take(table, later, "special", 1));
    CHECK(take(table, later + WEIR_SEC, "special", 28));
    CHECK(!take(table, later + WEIR_SEC, "special", 1));
    weir_table_free(table);
}

TEST(a_debt_outlives_a_change_of_algorithm_and_back)
{
    static const char *const bases[] = {"10/s", "10/s, 100/s"};
    for (size_t i = 0; i < 2; i++) {
        struct weir_table *table = make(bases[i], (struct weir_table_options){0});
        CHECK(weir_table_charge_at(table, START, "a", 1, 110)); /* ten seconds of debt */
        CHECK(set(table, START, "a", "10/s algo=sliding-window"));
        CHECK(!take(table, START + 9 * WEIR_SEC, "a", 1));
        CHECK(set(table, START, "a", NULL));
        CHECK(!take(table, START + 9 * WEIR_SEC, "a", 1));
        CHECK(take(table, START + 12 * WEIR_SEC, "a", 1));
        weir_table_free(table);
    }
}

TEST(a_debt_that_was_paid_is_not_paid_twice)
{
    struct weir_table *table = make("10/s burst=100", (struct weir_table_options){0});
    CHECK(set(table, START, "a", "10/s algo=sliding-window"));
    CHECK(weir_table_charge_at(table, START, "a", 1, 30));
    CHECK(set(table, START, "a", "20/s burst=100")); /* begins now, but waits until that is repaid */
    CHECK(!take(table, START + WEIR_SEC, "a", 1));
    CHECK(set(table, START + 5 * WEIR_SEC, "a", NULL));
    CHECK(take(table, START + 5 * WEIR_SEC, "a", 100));
    weir_table_free(table);
}

TEST(a_promise_that_another_waits_behind_keeps_its_place)
{
    struct weir_table *table = make("1/s", (struct weir_table_options){0});
    struct weir_reservation r[3];
    CHECK(take(table, START, "a", 1));
    for (int i = 0; i < 2; i++)
        CHECK(weir_table_reserve_at(table, START, "a", 1, 1, WEIR_FOREVER, &r[i], NULL));
    CHECK(weir_table_cancel_at(table, START, "a", 1, &r[0]));
    for (int times = 0; times < 2; times++) { /* the latest one is undone */
        CHECK(weir_table_reserve_at(table, START, "a", 1, 1, WEIR_FOREVER, &r[2], NULL));
        CHECK_EQ(r[2].due_ns, START + 3 * WEIR_SEC);
        CHECK(weir_table_cancel_at(table, START, "a", 1, &r[2]));
    }
    weir_table_free(table);
}

TEST(a_promise_outlives_limits_of_its_own)
{
    struct weir_table *table = make("1/s", (struct weir_table_options){0});
    struct weir_reservation reservation;
    CHECK(take(table, START, "a", 1));
    CHECK(weir_table_reserve_at(table, START, "a", 1, 2, WEIR_FOREVER, NULL, NULL) == false); /* never */
    CHECK(weir_table_reserve_at(table, START, "a", 1, 1, WEIR_FOREVER, &reservation, NULL));
    CHECK(set(table, START, "a", "1/s burst=3"));
    CHECK(!weir_table_cancel_at(table, START, "a", 1, &reservation));
    weir_table_give_at(table, START, "a", 1, 1);
    CHECK(!take(table, START + WEIR_SEC, "a", 1));
    CHECK(set(table, START, "a", NULL));
    weir_table_give_at(table, START, "a", 1, 1);
    CHECK(!take(table, START + WEIR_SEC, "a", 1));
    CHECK(take(table, START + 2 * WEIR_SEC, "a", 1));
    weir_table_free(table);
}

static bool note(void *arg, const struct weir_key *key)
{
    int *seen = arg;
    seen[key->overridden]++;
    return true;
}

TEST(a_listing_shows_them_even_if_never_used)
{
    static const char *const bases[] = {"10/s", "10/s, 100/m"};
    for (size_t i = 0; i < 2; i++) {
        struct weir_table *table = make(bases[i], (struct weir_table_options){0});
        int seen[2] = {0};
        CHECK(set(table, START, "a", "5/s"));
        CHECK(set(table, START, "b", "unlimited"));
        CHECK(take(table, START + WEIR_SEC * 1000, "c", 1));
        CHECK(weir_table_each_at(table, START + WEIR_SEC * 1000, note, seen));
        CHECK_EQ(seen[0], 1);
        CHECK_EQ(seen[1], 2);
        CHECK_EQ(weir_table_sweep_at(table, START + WEIR_SEC * 2000, 100000), 1);
        CHECK(!take(table, START + WEIR_SEC * 2000, "a", 6));
        CHECK(take(table, START + WEIR_SEC * 2000, "b", 1000000));
        weir_table_free(table);
    }
}

/* ---- what cannot be ---- */

static void check_error(struct weir_table *table, const char *key, const char *limits, const char *part)
{
    struct weir_error err;
    CHECK(!weir_table_override_at(table, START, key, strlen(key), limits, &err));
    if (!CHECK(strstr(err.text, part) != NULL))
        printf("# %s\n", err.text);
    CHECK(err.code != 0);
}

TEST(errors_say_why_and_change_nothing)
{
    char text[64], names[700] = "";
    struct weir_table *table = make("1/s burst=3", (struct weir_table_options){.overrides = 2, .keys = 100});
    struct weir_table *own = make(NULL, (struct weir_table_options){.own_limits = 1});
    struct weir_table *whole = make("1/s", (struct weir_table_options){.key_max = 4});
    for (int i = 0; i < 11; i++)
        (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s%d/s name=%040d",
                       i ? ", " : "", i + 1, i);
    check_error(table, "a", "10/x", "column");
    check_error(table, "a", "61/s algo=sliding-log", "64 numbers");
    CHECK(set(table, START, "log", "60/s algo=sliding-log"));
    CHECK(set(table, START, "log", NULL));
    check_error(table, "a", names, "511 bytes");
    check_error(table, "a", "10/s initial=3", "initial");
    check_error(NULL, "a", "10/s", "NULL");
    check_error(own, "a", "10/s", "each call");
    check_error(whole, "longer", "10/s", "key_max");
    CHECK(!weir_table_override_at(table, START, NULL, 1, "10/s", NULL));
    CHECK_EQ(weir_table_override_text(table, "a", 1, text, sizeof text), 0);
    CHECK_STR(text, "");
    CHECK(take(table, START, "a", 3));   /* as if nothing had been tried */
    CHECK(set(table, START, "a", NULL)); /* nothing to take away */
    CHECK(set(table, START, "a", "1/s"));
    CHECK(set(table, START, "b", "2/s"));
    check_error(table, "c", "3/s", "overrides");
    CHECK(take(table, START, "c", 3));
    CHECK(set(table, START, "b", "4/s")); /* a change needs no more room */
    CHECK(set(table, START, "b", NULL));
    CHECK(set(table, START, "c", "3/s"));
    CHECK_EQ(weir_table_override_text(table, "c", 1, NULL, 0), 3);
    weir_table_free(table);
    weir_table_free(own);
    weir_table_free(whole);
}

TEST(a_full_table_has_no_room_for_them)
{
    static const char *const bases[] = {"1/m", "1/m, 1/h"};
    for (size_t b = 0; b < 2; b++) {
        struct weir_table *table = make(bases[b], (struct weir_table_options){.keys = 1});
        char key[32];
        for (int i = 0; i < 2000; i++) {
            (void)snprintf(key, sizeof key, "%d", i);
            (void)take(table, START, key, 1);
        }
        check_error(table, "a", "1/s", "full");
        CHECK(!take(table, START, "a", 1));
        weir_table_free(table);
    }
}

TEST(they_come_and_go_for_ever)
{
    struct weir_table *table = make("10/s", (struct weir_table_options){.overrides = 5});
    char key[32];
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(key, sizeof key, "%d", i % 50);
        CHECK(set(table, START, key, "1/s"));
        if (i >= 4) {
            (void)snprintf(key, sizeof key, "%d", (i - 4) % 50);
            CHECK(set(table, START, key, NULL));
        }
    }
    weir_table_free(table);
}

/* ---- files ---- */

static char path[64];

static const char *new_path(void)
{
    (void)snprintf(path, sizeof path, "%s/weir-override-XXXXXX",
                   access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    int file = mkstemp(path);
    CHECK(file >= 0);
    (void)close(file);
    (void)unlink(path);
    return path;
}

/* Changes the first place where the file says `from`. */
static bool damage(const char *from, const char *to)
{
    int file = open(path, O_RDWR);
    off_t size = lseek(file, 0, SEEK_END);
    char *bytes = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *at = bytes == MAP_FAILED ? NULL : memmem(bytes, (size_t)size, from, strlen(from));
    if (at)
        memcpy(at, to, strlen(to));
    if (bytes != MAP_FAILED)
        (void)munmap(bytes, (size_t)size);
    (void)close(file);
    return at != NULL;
}

TEST(a_file_keeps_them_and_damage_is_noticed)
{
    struct weir_error err;
    struct weir_table *table = weir_table_open(new_path(), "10/s", 100, &err);
    if (!CHECK(table != NULL))
        return;
    int64_t now = weir_now();
    CHECK(set(table, now, "a", "77/h"));
    CHECK(take(table, now, "a", 72)); /* it was never used: all of them were there */
    CHECK(!take(table, now, "a", 6));
    weir_table_free(table);
    table = weir_table_open(path, "20/s", 100, &err);
    struct weir_table_info stat;
    weir_table_stat_at(table, now, &stat);
    CHECK_EQ(stat.overrides, 1);
    CHECK(take(table, now, "a", 5));
    CHECK(!take(table, now, "a", 1));
    weir_table_free(table);
    CHECK(damage("77/h", "77/x"));
    CHECK(weir_table_open(path, "20/s", 100, &err) == NULL);
    CHECK(strstr(err.text, "damaged") != NULL);
    (void)unlink(path);
}
