/* SPDX-License-Identifier: MIT */
/*
 * Policies of a fleet whose coordinator is this server itself: what their file may say, what WEIR.LEASE and
 * WEIR.RETURN grant and accept, and that never more is granted in a window than its total.
 */
#include <stdio.h>

#include "check.h"
#include "config/config.h"
#include "service/policies/apply.h"
#include "unit/service/service_kit.h"

#define QUOTA                                                                                                \
    "policies:\n"                                                                                            \
    "  - name: egress\n"                                                                                     \
    "    limits: [1000/s algo=quota]\n"                                                                      \
    "    fleet: {coordinator: \"local:\", base: 100}\n"

/* ---- the file ---- */

static char told[4096];

static void tell(void *arg, const struct config_complaint *complaint)
{
    size_t len = strlen(told);
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    (void)snprintf(told + len, sizeof told - len, "%s\n", weir_complaint_text(complaint, true, text));
}

static struct config *parse(const char *text)
{
    told[0] = '\0';
    return weir_config_parse("w.yaml", text, strlen(text), tell, NULL);
}

static void check_bad(const char *fields, const char *place, const char *says)
{
    char text[1024];
    (void)snprintf(text, sizeof text, "policies: [{name: a, %s}]\n", fields);
    struct config *config = parse(text);
    CHECK(config == NULL);
    weir_config_free(config);
    bool found = strstr(told, place) && strstr(told, says);
    if (!CHECK(found))
        printf("# %s -> %s# wanted %s %s\n", fields, told, place, says);
}

TEST(mistakes_are_told_at_their_place)
{
    check_bad("limits: 5/m algo=quota, fleet: {nodes: 500}", ":1:53: ", "has no coordinator");
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"zk://a\"}",
              ":1:67: ", "did you mean zookeeper?");
    check_bad("limits: [5/m algo=quota, 1/s], fleet: {coordinator: \"local:\"}", ":1:30: ", "has one limit");
    check_bad("limits: 5/m algo=sliding-log, fleet: {coordinator: \"local:\"}", ":1:", "no such limit");
    check_bad("limits: 5/m algo=quota, candidate: 6/m, fleet: {coordinator: \"local:\"}",
              ":1:46: ", "no candidate");
    check_bad("limits: 5/m algo=quota, overrides: [{key: k, limits: 6/m}], fleet: {coordinator: \"local:\"}",
              ":1:46: ", "no overrides");
    check_bad("limits: 5/m algo=quota, keys: 9, fleet: {coordinator: \"weir://h\"}",
              ":1:46: ", "counts no keys");
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"local:\", keys: all}",
              ":1:83: ", "together or each");
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"local:\", base: 0}",
              ":1:83: ", "units of a chunk");
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"local:\", base: 6}", ":1:", "base");
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"local:\", on_los: share}",
              ":1:77: ", "did you mean on_loss?");
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"local:\", optimistic: 5}",
              ":1:77: ", "unknown key 'optimistic' in fleet; a take waits for the coordinator as wait: says");
    check_bad("limits: 10k/s burst=20k, fleet: {coordinator: \"local:\", hold: 10s}", ":1:", "too small");
    check_bad("limits: 5/m algo=quota, fleet: [1]", ":1:", "fleet");
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"weir://h\", guard: 25h}",
              ":1:86: ", "up to 1d");
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"weir://h\", flight: 5}", ":1:87: ", "1 to 4");
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"weir://h\", most_held: -1}",
              ":1:90: ", "most_held");
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"weir://h\", clock: 1}",
              ":1:86: ", "trusted or unused");
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"weir://h\", leave: 11m}",
              ":1:86: ", "up to 10m");
}

/* Key b of a and the policy a:b would be one pool. */
TEST(two_policies_never_share_the_name_of_a_pool)
{
#define PAIR(FIRST, ONE, SECOND, OTHER)                                                                      \
    "policies:\n"                                                                                            \
    "  - {name: " FIRST ", limits: 5/m algo=quota, fleet: {coordinator: \"local:\"" ONE "}}\n"               \
    "  - {name: " SECOND ", limits: 6/m algo=quota, fleet: {coordinator: \"weir://h\"" OTHER "}}\n"
    static const char *const wrong[] = {PAIR("a", ", keys: each", "\"a:b\"", ""),
                                        PAIR("\"a:b\"", "", "a", ", keys: each"),
                                        PAIR("a", ", keys: each", "\"a:b:c\"", ", keys: each")};
    static const char *const right[] = {PAIR("a", "", "\"a:b\"", ", keys: each"),
                                        PAIR("a", ", keys: each", "ab", ""),
                                        PAIR("a", ", keys: each", "b", ", keys: each")};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct config *config = parse(wrong[i]);
        CHECK(config == NULL);
        CHECK(strstr(told, "w.yaml:3:5: ") && strstr(told, "'a:b") && strstr(told, "policy 'a'"));
        weir_config_free(config);
        config = parse(right[i]);
        CHECK_STR(told, "");
        weir_config_free(config);
    }
#undef PAIR
}

TEST(a_password_is_never_shown)
{
    struct config *config = parse("policies:\n"
                                  "  - name: a\n"
                                  "    limits: [5k/m algo=quota]\n"
                                  "    fleet: {coordinator: \"redis://me:s3cret@h1,h2/1\", nodes: 5}\n");
    struct buffer out = {0};
    CHECK_STR(told, "");
    if (!CHECK(config != NULL))
        return;
    CHECK(weir_config_print(config, &out));
    buffer_put(&out, "", 1);
    CHECK(!strstr(out.bytes, "s3cret"));
    CHECK(strstr(out.bytes, "coordinator: \"redis://h1") != NULL);
    CHECK(strstr(out.bytes, "(hidden)") != NULL);
    weir_config_free(config);
    config = parse(out.bytes);
    CHECK_STR(told, "");
    CHECK(config && config->policies[0].fleet && config->policies[0].fleet->options.nodes == 5);
    weir_config_free(config);
    check_bad("limits: 5/m algo=quota, fleet: {coordinator: \"redis://me:s3cret@h:99999\"}",
              ":1:", "coordinator");
    CHECK(!strstr(told, "s3cret"));
    weir_buffer_free(&out);
}

/* ---- a quota ---- */

TEST(a_lease_says_what_it_is)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, QUOTA)))
        return;
    kit_clock(&kit, 250);
    const char *answer = kit_ask(&kit, "WEIR.LEASE egress 3");
    CHECK_EQ(kit_field(answer, "epoch"), 1);
    CHECK_EQ(kit_field(answer, "units"), 300);
    CHECK_EQ(kit_field(answer, "chunks"), 3);
    CHECK_EQ(kit_field(answer, "chunk"), 100);
    CHECK_EQ(kit_field(answer, "total"), 1000);
    CHECK_EQ(kit_field(answer, "window_ms"), 1000);
    CHECK_EQ(kit_field(answer, "burst"), 0);
    CHECK_EQ(kit_field(answer, "starts_in_ms"), 0);
    CHECK_EQ(kit_field(answer, "expires_in_ms"), 750);
    CHECK_EQ(kit_field(answer, "left"), 700);
    CHECK_EQ(kit_field(answer, "retry_after_ms"), 0);
    CHECK_STR(kit_text(answer, "kind"), "quota");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 0"), "units"), 0);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 0"), "left"), 700);
    kit_close(&kit);
}

TEST(takes_of_all_keys_and_leases_share_the_total)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, QUOTA)))
        return;
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress a 450"), "remaining"), 550);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress b 1"), "remaining"), 549);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 4"), "units"), 400);
    const char *answer = kit_ask(&kit, "WEIR.LEASE egress 4"); /* as many as fit, and a smaller one */
    CHECK_EQ(kit_field(answer, "units"), 149);
    CHECK_EQ(kit_field(answer, "chunks"), 2);
    kit_clock(&kit, 400);
    answer = kit_ask(&kit, "WEIR.LEASE egress");
    CHECK_EQ(kit_field(answer, "units"), 0);
    CHECK_EQ(kit_field(answer, "chunks"), 0);
    CHECK_EQ(kit_field(answer, "retry_after_ms"), 600);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress c"), "allowed"), 0);
    kit_clock(&kit, 1000);
    answer = kit_ask(&kit, "WEIR.LEASE egress");
    CHECK_EQ(kit_field(answer, "units"), 100);
    CHECK_EQ(kit_field(answer, "epoch"), 1000000001);
    kit_close(&kit);
}

/* Nobody could spend it in time: it would be lost. */
TEST(what_is_left_of_a_window_can_be_too_short)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, QUOTA)))
        return;
    weir_clock_set(999 * WEIR_MS + 1);
    const char *answer = kit_ask(&kit, "WEIR.LEASE egress");
    CHECK_EQ(kit_field(answer, "units"), 0);
    CHECK_EQ(kit_field(answer, "retry_after_ms"), 1);
    kit_clock(&kit, 999);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress"), "expires_in_ms"), 1);
    kit_close(&kit);
}

TEST(chunks_come_back_to_their_own_epoch)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, QUOTA)))
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 1 1"), ":0\r\n"); /* nothing was leased */
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress a 500"), "remaining"), 500);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 2"), "units"), 200);
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 1000000001 1"), ":0\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 1 1"), ":1\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 0"), "left"), 400);
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 1 7"), ":1\r\n"); /* no more than are out */
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 1 7"), ":0\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 0"), "left"), 500);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 2"), "units"), 200);
    kit_clock(&kit, 1000);
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 1 1"), ":0\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 0"), "left"), 1000);
    kit_close(&kit);
}

/* The last of a window is smaller than the others: returned as a whole one it would make units. */
TEST(a_part_of_a_chunk_is_not_accepted_as_a_whole_one)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, QUOTA)))
        return;
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress a 950"), "remaining"), 50);
    const char *answer = kit_ask(&kit, "WEIR.LEASE egress 3");
    CHECK_EQ(kit_field(answer, "units"), 50);
    CHECK_EQ(kit_field(answer, "chunks"), 1);
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 1 1"), ":0\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 3"), "units"), 0);
    kit_close(&kit);
}

/* What was lent is the pool's account, not that of who has it: who may only take could hand back what others
 * are about to spend, and lease it once more. */
TEST(who_may_only_take_hands_nothing_back)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, QUOTA "users:\n"
                                    "  - {name: app, password: a, may: [take]}\n"
                                    "  - {name: node, password: n, may: [take, adjust]}\n")))
        return;
    CHECK_STR(kit_ask(&kit, "AUTH app a"), "+OK\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 10"), "units"), 1000);
    CHECK(strncmp(kit_ask(&kit, "WEIR.RETURN egress 1 10"), "-NOPERM ", 8) == 0);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 10"), "units"), 0);
    CHECK_STR(kit_ask(&kit, "AUTH node n"), "+OK\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 1 1"), ":1\r\n");
    kit_close(&kit);
}

/* Random leases, takes and returns of what was leased: what is out is never above the total. */
TEST(no_window_grants_more_than_its_total)
{
    struct kit kit;
    struct rng rng = {check.seed};
    if (!CHECK(kit_open(&kit, QUOTA)))
        return;
    int64_t out = 0, window = 0, now = 0, epoch = 0, leased = 0, asked;
    for (int i = 0; i < 4000; i++) {
        char line[64];
        now += rng_between(&rng, 0, 3) * 5;
        kit_clock(&kit, now);
        if (now / 1000 != window) {
            window = now / 1000;
            out = leased = 0;
        }
        switch (rng_between(&rng, 0, 3)) {
        case 0:
            asked = rng_between(&rng, 1, 60);
            (void)snprintf(line, sizeof line, "WEIR.TAKE egress k%d %" PRId64, i % 7, asked);
            if (kit_field(kit_ask(&kit, line), "allowed") == 1)
                out += asked;
            break;
        case 1:
            (void)snprintf(line, sizeof line, "WEIR.RETURN egress %" PRId64 " %d", epoch,
                           (int)rng_between(&rng, 1, 3));
            int64_t back = epoch > 0 ? strtoll(kit_ask(&kit, line) + 1, NULL, 10) : 0;
            CHECK(back <= leased);
            leased -= back;
            out -= back * 100;
            break;
        default:
            (void)snprintf(line, sizeof line, "WEIR.LEASE egress %d", (int)rng_between(&rng, 0, 3));
            const char *answer = kit_ask(&kit, line);
            epoch = kit_field(answer, "epoch");
            leased += kit_field(answer, "units") / 100;
            out += kit_field(answer, "units");
        }
        if (!CHECK(out <= 1000))
            printf("# seed %" PRIu64 ", step %d\n", check.seed, i);
        if (out > 1000)
            break;
    }
    kit_close(&kit);
}

/* ---- a bucket ---- */

TEST(a_bucket_is_lowered_by_what_comes_while_leases_are_out)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n"
                              "  - name: flow\n"
                              "    limits: [1000/s burst=2000]\n"
                              "    fleet: {coordinator: \"local:\", base: 500, hold: 200ms}\n")))
        return;
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.POLICY SHOW flow"), "limits"), "1k/s burst=1800");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.POLICY SHOW flow"), "from"), "file");
    const char *answer = kit_ask(&kit, "WEIR.LEASE flow 10");
    CHECK_EQ(kit_field(answer, "units"), 1800);
    CHECK_EQ(kit_field(answer, "chunks"), 4);
    CHECK_EQ(kit_field(answer, "expires_in_ms"), 200);
    CHECK_EQ(kit_field(answer, "burst"), 2000);
    CHECK_EQ(kit_field(answer, "epoch"), 1);
    CHECK_STR(kit_text(answer, "kind"), "bucket");
    answer = kit_ask(&kit, "WEIR.LEASE flow");
    CHECK_EQ(kit_field(answer, "units"), 0);
    CHECK_EQ(kit_field(answer, "retry_after_ms"), 50); /* a quarter of what comes while a lease lives */
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN flow 1 1"), ":0\r\n");
    kit_clock(&kit, 200);
    answer = kit_ask(&kit, "WEIR.LEASE flow 1");
    CHECK_EQ(kit_field(answer, "units"), 200);
    CHECK_EQ(kit_field(answer, "retry_after_ms"), 50); /* less than a chunk: there will be more */
    kit_close(&kit);
}

#define FLOW(LIMIT)                                                                                          \
    "policies:\n"                                                                                            \
    "  - name: flow\n"                                                                                       \
    "    limits: [" LIMIT "]\n"                                                                              \
    "    fleet: {coordinator: \"local:\", base: 100, hold: 100ms}\n"

static int64_t reload_flow(struct kit *kit, const char *text)
{
    struct weir_error err = {0};
    struct config *config = parse(text);
    if (!CHECK(config && weir_service_apply(kit->service, config, &err)))
        printf("# %s%s\n", told, err.text);
    weir_config_free(config);
    return kit_field(kit_ask(kit, "WEIR.LEASE flow 0"), "epoch");
}

/* Terms hold for an epoch: who has learnt some asks for others when it is another one. */
TEST(a_bucket_with_another_limit_is_another_epoch_and_mints_nothing)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, FLOW("1000/s burst=1000"))))
        return;
    kit_clock(&kit, 5000);
    const char *answer = kit_ask(&kit, "WEIR.LEASE flow 20");
    CHECK_EQ(kit_field(answer, "units"), 900);
    int64_t first = kit_field(answer, "epoch");
    CHECK(first >= 1);
    CHECK_EQ(reload_flow(&kit, FLOW("1000/s burst=1000")), first);
    int64_t second = reload_flow(&kit, FLOW("20000/s burst=20000"));
    CHECK(second > first);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE flow 0"), "burst"), 20000);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE flow 500"), "units"), 0); /* more by time alone */
    CHECK(reload_flow(&kit, FLOW("1000/s burst=1000")) > second);          /* though no time has passed */
    kit_clock(&kit, 6000);
    CHECK(reload_flow(&kit, FLOW("500/s burst=1000")) > 5000 * WEIR_MS); /* by the table's time */
    kit_close(&kit);
}

/* ---- a pool for each key ---- */

TEST(each_key_has_a_total_of_its_own)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies:\n"
                              "  - name: user\n"
                              "    limits: [100/s algo=quota]\n"
                              "    fleet: {coordinator: \"local:\", base: 10, keys: each}\n")))
        return;
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE user ann 30"), "remaining"), 70);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE user bob 1"), "remaining"), 99);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE user:ann 2"), "left"), 50);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE user:bob 1"), "left"), 89);
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN user:ann 1 1"), ":1\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK user ann"), "remaining"), 60);
    CHECK(strstr(kit_ask(&kit, "WEIR.LEASE user"), "has a pool for each key") != NULL);
    /* A key that no name can have is known by its digest, here and at those who lease it. */
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE user \"a key\" 5"), "remaining"), 95);
    struct digest digest = weir_sha256("a key", 5);
    char hex[65], line[128];
    weir_digest_write(&digest, hex);
    (void)snprintf(line, sizeof line, "WEIR.LEASE user:@%.40s 0", hex);
    CHECK_EQ(kit_field(kit_ask(&kit, line), "left"), 95);
    kit_close(&kit);
}

/* Those who lease have made a name of their key that every coordinator can keep. */
TEST(a_name_that_no_coordinator_can_keep_is_refused)
{
    static const char *const wrong[] = {"\"user:a b\"", "user:a/b", "\"user:\\x00\"", "user:\xc3\xa4",
                                        "\"user:a\\n\""};
    struct kit kit;
    char line[64];
    if (!CHECK(kit_open(&kit, "policies:\n"
                              "  - name: user\n"
                              "    limits: [100/s algo=quota]\n"
                              "    fleet: {coordinator: \"local:\", base: 10, keys: each}\n")))
        return;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(line, sizeof line, "WEIR.LEASE %s 1", wrong[i]);
        CHECK(strstr(kit_ask(&kit, line), "letters, digits and - _ . : @") != NULL);
        (void)snprintf(line, sizeof line, "WEIR.RETURN %s 1 1", wrong[i]);
        CHECK(strstr(kit_ask(&kit, line), "letters, digits and - _ . : @") != NULL);
    }
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE user:a-_.:@Z9 1"), "units"), 10);
    kit_close(&kit);
}

/* ---- what is told, what is refused ---- */

TEST(a_policy_that_leases_nothing_says_what_to_write)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, QUOTA)))
        return;
    CHECK(kit_policy(&kit, "api", "5/s"));
    CHECK(strstr(kit_ask(&kit, "WEIR.LEASE api"), "coordinator: \"local:\"") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.LEASE egres"), "did you mean 'egress'?") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.LEASE egress x"), "chunks") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.LEASE egress 1 2"), "syntax") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.RETURN egress 0 1"), "epoch") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.RETURN egress 1 -1"), "chunks") != NULL);
    kit_close(&kit);
}

TEST(what_is_shared_is_not_changed_by_command)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, QUOTA)))
        return;
    CHECK(strstr(kit_ask(&kit, "WEIR.POLICY SET egress 5/s"), "change the file") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.OVERRIDE SET egress k 5/s"), "policy of their own") != NULL);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.POLICY SHOW egress"), "limits"), "1k/s algo=quota");
    CHECK(strstr(kit_text(kit_ask(&kit, "WEIR.POLICY SHOW egress"), "fleet"), "local: ") != NULL);
    CHECK(strstr(kit_ask(&kit, "INFO fleet"), "fleet_egress:coordinator=local:,keys=together,chunk=100") !=
          NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.EXPLAIN egress k"), "root of a fleet") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.EXPLAIN egress k JSON"), "\"fleet\":{\"coordinator\":\"local:\"}") !=
          NULL);
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY MODE egress disabled"), "+OK\r\n");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 20"), "units"), 2000);
    kit_close(&kit);
}

TEST(reservations_of_a_root_are_those_of_its_table)
{
    struct kit kit;
    char line[128];
    if (!CHECK(kit_open(&kit, QUOTA)))
        return;
    const char *answer = kit_ask(&kit, "WEIR.RESERVE egress a 400");
    CHECK_EQ(kit_field(answer, "remaining"), 600);
    (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 100", kit_text(answer, "id"));
    CHECK_EQ(kit_field(kit_ask(&kit, line), "remaining"), 900);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress b 3 ID x"), "remaining"), 897);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress b 3 ID x"), "remaining"), 897);
    CHECK(strstr(kit_ask(&kit, "WEIR.TAKE egress c 3 ID x"), "another question") != NULL);
    kit_close(&kit);
}

/* In shadow units are lent that nobody has: nothing is charged, and the answer waits for no disk. */
TEST(a_lease_that_charges_nothing_changes_nothing)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, QUOTA "    mode: shadow\n")))
        return;
    (void)kit_ask(&kit, "WEIR.LEASE egress 10");
    CHECK(kit.changed);
    (void)kit_ask(&kit, "WEIR.LEASE egress 1");
    CHECK(!kit.changed);
    (void)kit_ask(&kit, "WEIR.LEASE egress 0");
    CHECK(!kit.changed);
    kit_close(&kit);
    weir_clock_set(-1);
}
