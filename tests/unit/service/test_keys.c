/* SPDX-License-Identifier: MIT */
/*
 * WEIR.KEYS: every busy key once, with what PEEK says of it, whatever happens between pages; names where they
 * are known, and to whom they may be shown.
 */
#include <inttypes.h>

#include "rng.h"
#include "service/policies/policy.h"
#include "service/policies/snapshot.h"
#include "table/table.h"
#include "unit/service/command_kit.h"

#define POLICIES                                                                                             \
    "policies:\n"                                                                                            \
    "  - name: api\n"                                                                                        \
    "    limits: 100/h\n"                                                                                    \
    "    overrides:\n"                                                                                       \
    "      - {key: \"vip:*\", limits: 500/h}\n"                                                              \
    "      - {key: \"w:*\", limits: [50/h, 200/d]}\n"                                                        \
    "      - {key: own, limits: 7/h}\n"                                                                      \
    "  - {name: other, limits: [20/m, 100/h]}\n"
#define USERS                                                                                                \
    "users:\n"                                                                                               \
    "  - {name: default, may: all}\n"                                                                        \
    "  - {name: some, password: p, may: [look], keys: [\"own*\", \"vip:*\"]}\n"
#define MODELLED 400

static struct policy *policy_named(const char *name)
{
    struct slice of = {name, strlen(name)};
    return weir_snapshot_policy(atomic_load(&kit.service->snapshot), of);
}

/* What stands for a key in answers. */
static void id_of(const char *policy, const char *key, char id[static 17])
{
    struct slice of = {key, strlen(key)};
    const struct policy_table *ptable = weir_policy_find_table(policy_named(policy), of, NULL);
    (void)snprintf(id, 17, "%016" PRIx64, table_hash(ptable->table, key, strlen(key)));
}

/* ---- all pages ---- */

static struct listed_key {
    char id[17], key[64];
    int64_t used, remaining;
} listed[4 * MODELLED];
static size_t listed_count, pages;

/* Reads a page behind `cursor`, and puts the next one there. */
static bool read_page(const char *policy, int64_t count, char cursor[static 40])
{
    say("WEIR.KEYS %s CURSOR %s COUNT %" PRId64, policy, cursor, count);
    const struct resp_value *keys = field("keys");
    if (!CHECK(keys && keys->count + listed_count <= sizeof listed / sizeof *listed))
        return false;
    for (size_t i = 0; i < keys->count; i++) {
        const struct resp_value *row = &keys->elements[i];
        struct listed_key *to = &listed[listed_count++];
        (void)snprintf(to->id, sizeof to->id, "%.16s", text_of(weir_resp_get(row, "id")));
        (void)snprintf(to->key, sizeof to->key, "%.63s", text_of(weir_resp_get(row, "key")));
        to->used = weir_resp_get(row, "used")->integer;
        to->remaining = weir_resp_get(row, "remaining")->integer;
    }
    pages++;
    (void)snprintf(cursor, 40, "%.39s", text_field("cursor"));
    return strcmp(cursor, "0") != 0;
}

static void read_all(const char *policy, int64_t count)
{
    char cursor[40] = "0";
    listed_count = pages = 0;
    while (read_page(policy, count, cursor) && CHECK(pages < 10 * MODELLED))
        ;
}

static const struct listed_key *find_listed(const char *id, size_t *times)
{
    const struct listed_key *found = NULL;
    *times = 0;
    for (size_t i = 0; i < listed_count; i++)
        if (strcmp(listed[i].id, id) == 0) {
            found = &listed[i];
            ++*times;
        }
    return found;
}

/* ---- tests ---- */

TEST(a_policy_that_nobody_has_used_has_no_keys)
{
    if (!kit_begin(POLICIES))
        return;
    read_all("api", 10);
    CHECK_EQ(listed_count, 0);
    say("WEIR.KEYS api");
    CHECK_EQ(got->count, 4); /* two fields */
    kit_end();
}

TEST(names_are_told_where_they_are_known)
{
    char id[17];
    size_t times;
    if (!kit_begin(POLICIES))
        return;
    say("WEIR.TAKE api own 5");
    read_all("api", 10);
    if (CHECK_EQ(listed_count, 1)) {
        CHECK_STR(listed[0].key, "own");
        CHECK_EQ(listed[0].used, 5);
        CHECK_EQ(listed[0].remaining, 2);
        id_of("api", "own", id);
        CHECK_STR(listed[0].id, id);
    }
    for (int i = 0; i < 2000; i++) /* a heavy hitter */
        say("WEIR.TAKE api greedy 1");
    id_of("api", "greedy", id);
    read_all("api", 10);
    const struct listed_key *greedy = find_listed(id, &times);
    CHECK(greedy && times == 1 && strcmp(greedy->key, "greedy") == 0 && greedy->remaining == 0);
    kit_end();
}

TEST(who_may_see_some_keys_sees_those)
{
    if (!kit_begin(POLICIES USERS))
        return;
    say("WEIR.TAKE api own 5");
    say("WEIR.TAKE api stranger 5");
    say("WEIR.OVERRIDE SET api alien 9/h"); /* its name is known */
    say("WEIR.TAKE api alien 5");
    read_all("api", 10);
    CHECK_EQ(listed_count, 3);
    kit_log_in(&kit, "some");
    read_all("api", 10);
    if (CHECK_EQ(listed_count, 1))
        CHECK_STR(listed[0].key, "own");
    kit_end();
}

TEST(a_table_that_goes_takes_none_of_the_next_with_it)
{
    char cursor[40];
    if (!kit_begin(POLICIES))
        return;
    say("WEIR.TAKE api vip:1 1");
    say("WEIR.POLICY SET api 5/h algo=fixed-window FRESH"); /* its main table is now the last */
    for (int i = 0; i < 50; i++)
        say("WEIR.TAKE api k%d 1", i);
    (void)snprintf(cursor, sizeof cursor, "%" PRIx64 "-ffffffffffffff00",
                   policy_named("api")->main->serial - 1);
    listed_count = pages = 0;
    while (read_page("api", 10, cursor) && CHECK(pages < 1000))
        ;
    CHECK_EQ(listed_count, 50);
    kit_end();
}

TEST(what_is_no_cursor_is_said)
{
    static const char *const wrong[] = {"1",  "x",    "0-0",
                                        "-1", "1-1",  "1-0000000000000000",
                                        "",   "01-1", "1-00000000000000000000000000000000000000000001"};
    if (!kit_begin(POLICIES))
        return;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(begins(say("WEIR.KEYS api CURSOR \"%s\"", wrong[i]), "-ERR no cursor '"));
    CHECK(begins(say("WEIR.KEYS api COUNT 0"), "-ERR "));
    CHECK(begins(say("WEIR.KEYS api COUNT 5 CURSOR 0"), "-ERR syntax error near 'CURSOR'"));
    say("WEIR.KEYS api CURSOR ffffffffffff-0000000000000001"); /* a table that is gone, and none behind it */
    CHECK_STR(text_field("cursor"), "0");
    kit_end();
}

/* ---- against a model: the keys that were taken from, each asked by PEEK ---- */

static struct {
    char key[16];
    int64_t used;
} modelled[MODELLED];

static void take_some(struct rng *rng, const char *policy, size_t count)
{
    static const char *const prefixes[] = {"", "vip:", "w:"};
    for (size_t i = 0; i < count; i++) {
        int64_t at = rng_between(rng, 0, MODELLED - 1), n = rng_between(rng, 1, 20);
        (void)snprintf(modelled[at].key, sizeof modelled[at].key, "%sk%" PRId64, prefixes[at % 3], at);
        say("WEIR.TAKE %s %s %" PRId64, policy, modelled[at].key, n);
        modelled[at].used += number_field("allowed") == 1 ? n : 0;
    }
}

/* `whole`: nothing has happened since the first page. */
static void compare_with_model(const char *policy, bool whole)
{
    size_t busy = 0;
    for (size_t i = 0; i < MODELLED; i++) {
        char id[17];
        size_t times;
        if (modelled[i].used == 0)
            continue;
        busy++;
        id_of(policy, modelled[i].key, id);
        const struct listed_key *row = find_listed(id, &times);
        if (!CHECK_EQ(times, 1) || !whole)
            continue;
        say("WEIR.PEEK %s %s", policy, modelled[i].key);
        CHECK_EQ(row->remaining, number_field("remaining"));
        CHECK_EQ(row->used, modelled[i].used);
    }
    CHECK(!whole || busy == listed_count);
}

TEST(every_busy_key_is_met_once)
{
    struct rng rng = rng_new(check.seed);
    if (!kit_begin(POLICIES))
        return;
    for (int round = 0; round < 8; round++) {
        memset(modelled, 0, sizeof modelled);
        const char *policy = round % 2 ? "other" : "api";
        say("WEIR.POLICY SET %s %s FRESH", policy, round % 2 ? "20/m, 100/h" : "100/h");
        if (round % 2 == 0) /* overrides have tables of their own, which begin anew, too */
            for (int i = 0; i < 2; i++) {
                say("WEIR.OVERRIDE DEL api %s", i ? "w:*" : "vip:*");
                say("WEIR.OVERRIDE SET api %s", i ? "w:* 50/h, 200/d" : "vip:* 500/h");
            }
        take_some(&rng, policy, (size_t)rng_between(&rng, 1, MODELLED));
        read_all(policy, rng_between(&rng, 1, 50));
        compare_with_model(policy, true);
    }
    kit_end();
}

TEST(what_happens_between_pages_hides_no_key)
{
    struct rng rng = rng_new(check.seed + 1);
    char cursor[40] = "0";
    if (!kit_begin(POLICIES))
        return;
    memset(modelled, 0, sizeof modelled);
    take_some(&rng, "api", MODELLED);
    listed_count = pages = 0;
    for (int64_t more = 0; read_page("api", rng_between(&rng, 1, 20), cursor) && CHECK(pages < 1000);) {
        say("WEIR.TAKE api new%" PRId64 " 1", more++); /* comes meanwhile */
        if (pages == 3)
            say("WEIR.OVERRIDE SET api later:* 9/h"); /* another table */
        if (pages == 5)
            say("WEIR.POLICY SET api 110/h"); /* nobody is full by that */
    }
    compare_with_model("api", false);
    kit_end();
}
