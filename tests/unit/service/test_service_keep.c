/* SPDX-License-Identifier: MIT */
/*
 * A service with a store: what was spent and what was set is there again, whatever ended it, and whatever the
 * file says by then; what the disk does not take is not answered.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "disk_sim.h"
#include "service/persist/catalogue.h"
#include "service/persist/record_change.h"
#include "service/policies/retired.h"
#include "store/commit.h"
#include "store/store.h"
#include "unit/service/service_kit.h"

#define HOUR (3600 * INT64_C(1000)) /* ms */

/* Many tables are made here, and hardly used: pages of 2 MiB would cost most of the time. */
int __wrap_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    (void)memory, (void)bytes, (void)advice;
    return 0;
}

/* ---- a service on a simulated disk ---- */

static struct sim *sim;

static bool start(struct kit *kit, const char *yaml)
{
    struct service_options options = {
        .workers = 1, .test_clock = true, .disk = sim_disk(sim), .store_manual = true};
    return kit_open_with(kit, yaml, &options);
}

/* As the server does at the end of a read section, before answers go out. */
static bool answered(struct kit *kit)
{
    uint64_t ticket = weir_store_commit(kit->service->store);
    return weir_store_ticket_status(kit->service->store, ticket) == STORE_GO;
}

static void stop(struct kit *kit)
{
    struct weir_error err = {0};
    CHECK(weir_persist_wait(kit->service));
    kit_leave(kit);
    CHECK(weir_service_close(kit->service, &err));
    CHECK_STR(err.text, "");
    weir_service_free(kit->service);
}

/* Nothing of what it would still do comes to the disk. */
static void die(struct kit *kit)
{
    sim_stop_after(sim, 0);
    kit_leave(kit);
    weir_service_free(kit->service);
    sim_kill(sim);
}

static int64_t left(struct kit *kit, const char *line)
{
    return kit_field(kit_ask(kit, line), "remaining");
}

#define BASE "memory: 8MiB\ndata: data\nfsync: never\n"
#define NONE BASE "policies: []\n"

static bool is_ok(struct kit *kit, const char *line)
{
    const char *reply = kit_ask(kit, line);
    if (strncmp(reply, "+OK", 3) == 0)
        return true;
    printf("# %s: %s", line, reply);
    return false;
}

/* ---- clocks ---- */

static bool starts_with_clock(bool test_clock)
{
    struct kit kit;
    struct service_options options = {
        .workers = 1, .test_clock = test_clock, .disk = sim_disk(sim), .store_manual = true};
    if (!kit_open_with(&kit, NONE, &options))
        return false;
    CHECK(is_ok(&kit, "WEIR.POLICY SET api 10/h"));
    stop(&kit);
    return true;
}

TEST(times_of_one_clock_are_not_read_by_another)
{
    for (int test = 0; test < 2; test++) {
        sim = sim_new(check.seed);
        CHECK(starts_with_clock(test));
        CHECK(starts_with_clock(test));
        CHECK(!starts_with_clock(!test));
        CHECK(starts_with_clock(test));
        sim_free(sim);
    }
}

/* ---- everything that must ---- */

static char reservation[64];

static void fill(struct kit *kit)
{
    CHECK(is_ok(kit, "WEIR.POLICY SET api 10/h"));
    CHECK(is_ok(kit, "WEIR.POLICY SET wide '10/h algo=sliding-log, 100/d algo=fixed-window'"));
    CHECK(is_ok(kit, "WEIR.POLICY SET shy 5/h"));
    CHECK(is_ok(kit, "WEIR.POLICY MODE shy shadow FOR 2h"));
    CHECK(is_ok(kit, "WEIR.POLICY MODE wide enforce PERCENT 40"));
    CHECK(is_ok(kit, "WEIR.OVERRIDE SET api big 100/h FOR 3h REASON launch"));
    CHECK(is_ok(kit, "WEIR.OVERRIDE SET api in:* 50/h"));
    CHECK_EQ(left(kit, "WEIR.TAKE api user:1 3"), 7);
    CHECK_EQ(left(kit, "WEIR.TAKE api big 30"), 70);
    CHECK_EQ(left(kit, "WEIR.TAKE api in:1 20"), 30);
    CHECK_EQ(left(kit, "WEIR.TAKE wide user:1 4"), 6);
    CHECK_STR(kit_ask(kit, "CL.THROTTLE cell 9 10 3600 4"), "*5\r\n:0\r\n:10\r\n:6\r\n:-1\r\n:1440\r\n");
    CHECK_STR(kit_ask(kit, "RL.REDUCE step 10 3600 TAKE 4"), ":10\r\n");
    CHECK_EQ(left(kit, "WEIR.TAKE api user:2 2 ID once"), 8);
    const char *reply = kit_ask(kit, "WEIR.RESERVE api user:3 5");
    (void)snprintf(reservation, sizeof reservation, "%s", kit_text(reply, "id"));
    CHECK(reservation[0] != '\0');
}

static void check_filled(struct kit *kit)
{
    char line[128];
    CHECK_EQ(left(kit, "WEIR.PEEK api user:1"), 7);
    CHECK_EQ(left(kit, "WEIR.PEEK api big"), 70);
    CHECK_EQ(left(kit, "WEIR.PEEK api in:1"), 30);
    CHECK_EQ(left(kit, "WEIR.PEEK wide user:1"), 6);
    CHECK_STR(kit_ask(kit, "CL.THROTTLE cell 9 10 3600 0"), "*5\r\n:0\r\n:10\r\n:6\r\n:-1\r\n:1440\r\n");
    CHECK_STR(kit_ask(kit, "RL.GET step 10 3600"), ":6\r\n");
    CHECK_EQ(left(kit, "WEIR.TAKE api user:2 2 ID once"), 8); /* once */
    CHECK_EQ(left(kit, "WEIR.PEEK api user:2"), 8);
    CHECK_EQ(left(kit, "WEIR.PEEK api user:3"), 5);
    (void)snprintf(line, sizeof line, "WEIR.CANCEL %s", reservation);
    CHECK(kit_ask(kit, line)[0] != '-');
    CHECK_EQ(left(kit, "WEIR.PEEK api user:3"), 10);
    const char *shy = kit_ask(kit, "WEIR.POLICY SHOW shy");
    CHECK_STR(kit_text(shy, "mode"), "shadow");
    CHECK_EQ(kit_field(shy, "mode_ends_in_ms"), 2 * HOUR);
    CHECK_EQ(kit_field(kit_ask(kit, "WEIR.POLICY SHOW wide"), "percent"), 40);
    const char *list = kit_ask(kit, "WEIR.OVERRIDE LIST api");
    CHECK(strstr(list, "launch") && strstr(list, "100/h") && strstr(list, "in:*"));
}

TEST(everything_is_there_after_a_clean_stop)
{
    struct kit kit;
    sim = sim_new(check.seed);
    if (!CHECK(start(&kit, NONE)))
        return;
    fill(&kit);
    stop(&kit);
    if (!CHECK(start(&kit, NONE)))
        return;
    CHECK(strstr(kit_ask(&kit, "INFO persistence"), "\r\nrecovered:clean\r\n"));
    check_filled(&kit);
    stop(&kit);
    CHECK_EQ(sim_handles(sim), 0);
    sim_free(sim);
}

/* One key in a table of many thousands is one, and not what a sample says. */
TEST(the_keys_that_came_back_are_counted)
{
    struct kit kit;
    sim = sim_new(check.seed);
    if (!CHECK(start(&kit,
                     BASE "policies: [{name: api, limits: 10/h, keys: 100k}, {name: two, limits: \"10/h, "
                          "20/d\"}]\n")))
        return;
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 4"), 6);
    CHECK_EQ(left(&kit, "WEIR.TAKE two a 4"), 6);
    CHECK_EQ(left(&kit, "WEIR.TAKE two b 4"), 6);
    stop(&kit);
    if (!CHECK(start(&kit,
                     BASE "policies: [{name: api, limits: 10/h, keys: 100k}, {name: two, limits: \"10/h, "
                          "20/d\"}]\n")))
        return;
    CHECK(strstr(kit_ask(&kit, "INFO persistence"), "\r\nrecovered_keys:3\r\n"));
    stop(&kit);
    sim_free(sim);
}

TEST(everything_is_there_after_a_kill)
{
    struct kit kit;
    sim = sim_new(check.seed);
    if (!CHECK(start(&kit, NONE)))
        return;
    fill(&kit);
    CHECK(answered(&kit));
    die(&kit);
    for (int i = 0; i < 3; i++) { /* also of one that did nothing but start */
        if (!CHECK(start(&kit, NONE)))
            return;
        CHECK(strstr(kit_ask(&kit, "INFO persistence"), "\r\nrecovered:unsure\r\n"));
        if (i < 2)
            die(&kit);
    }
    check_filled(&kit);
    stop(&kit);
    sim_free(sim);
}

TEST(times_run_on)
{
    struct kit kit;
    sim = sim_new(check.seed);
    if (!CHECK(start(&kit, NONE)))
        return;
    kit_clock(&kit, 5 * HOUR);
    fill(&kit);
    kit_clock(&kit, 6 * HOUR);
    CHECK_EQ(left(&kit, "WEIR.TAKE api later 10"), 0);
    stop(&kit);
    if (!CHECK(start(&kit, NONE))) /* its clock is at 0 */
        return;
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.POLICY SHOW shy"), "mode_ends_in_ms"), HOUR);
    CHECK_EQ(left(&kit, "WEIR.PEEK api later"), 0);
    kit_clock(&kit, HOUR);
    CHECK_EQ(left(&kit, "WEIR.PEEK api later"), 10);
    kit_tick(&kit);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.POLICY SHOW shy"), "mode"), "enforce");
    stop(&kit);
    sim_free(sim);
}

/* ---- another file ---- */

#define API(LIMITS) BASE "policies:\n  - {name: api, limits: " LIMITS "}\n"

TEST(the_file_stands_above_what_was_and_keys_keep_what_they_spent)
{
    struct kit kit;
    sim = sim_new(check.seed);
    if (!CHECK(start(&kit, API("10/h"))))
        return;
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 4"), 6);
    CHECK(is_ok(&kit, "WEIR.OVERRIDE SET api b 30/h"));
    CHECK_EQ(left(&kit, "WEIR.TAKE api b 4"), 26);
    CHECK(is_ok(&kit, "WEIR.POLICY SET other 10/h"));
    stop(&kit);
    if (!CHECK(start(&kit, API("20/h"))))
        return;
    CHECK_EQ(left(&kit, "WEIR.PEEK api a"), 6); /* what it had saved, of what is more now */
    CHECK_EQ(left(&kit, "WEIR.PEEK api fresh"), 20);
    CHECK_EQ(left(&kit, "WEIR.PEEK api b"), 26);
    CHECK_EQ(left(&kit, "WEIR.PEEK other c"), 10);
    stop(&kit);
    if (!CHECK(start(&kit, API("20/h algo=sliding-log")))) /* another kind: both are asked */
        return;
    CHECK_EQ(left(&kit, "WEIR.PEEK api a"), 6);
    CHECK(answered(&kit));
    die(&kit);
    if (!CHECK(start(&kit, API("20/h algo=sliding-log"))))
        return;
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 6"), 0);
    CHECK(kit_field(kit_ask(&kit, "WEIR.POLICY SHOW api"), "older_limits_end_in_ms") > 0);
    stop(&kit);
    sim_free(sim);
}

static int64_t retired_files(const struct kit *kit)
{
    int64_t files, bytes;
    weir_retired_count(kit->service, &files, &bytes);
    CHECK(files == 0 || bytes > 100);
    return files;
}

TEST(a_policy_that_is_gone_is_retired)
{
    struct kit kit;
    sim = sim_new(check.seed);
    if (!CHECK(start(&kit, API("10/h"))))
        return;
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 4"), 6);
    stop(&kit);
    if (!CHECK(start(&kit, NONE))) /* the file says that there are none */
        return;
    CHECK(strstr(kit_ask(&kit, "WEIR.PEEK api a"), "no policy 'api'"));
    CHECK_EQ(retired_files(&kit), 1);
    CHECK(is_ok(&kit, "WEIR.POLICY SET b/c 10/h"));
    CHECK_EQ(left(&kit, "WEIR.TAKE b/c a 4"), 6);
    CHECK(is_ok(&kit, "WEIR.POLICY DEL b/c"));
    CHECK(is_ok(&kit, "WEIR.POLICY SET b/c 10/h"));
    CHECK(is_ok(&kit, "WEIR.POLICY DEL b/c")); /* in the same second */
    CHECK_EQ(retired_files(&kit), 3);
    CHECK(is_ok(&kit, "WEIR.POLICY SET d 10/h"));
    CHECK(is_ok(&kit, "WEIR.POLICY DEL d FORGET"));
    CHECK_EQ(retired_files(&kit), 3);
    CHECK(strstr(kit_ask(&kit, "WEIR.POLICY DEL d FORGOT"), "-ERR syntax error"));
    CHECK(strstr(kit_ask(&kit, "INFO persistence"), "\r\nretired_files:3\r\n"));
    stop(&kit);
    sim_free(sim);
}

/* Somebody else asks while the file is being written. */
static struct {
    struct kit kit;
    int (*rename)(struct disk *disk, int dir, const char *from, const char *to);
    char *answer;
} meanwhile;

static int ask_and_rename(struct disk *disk, int dir, const char *from, const char *to)
{
    disk->rename = meanwhile.rename;
    meanwhile.answer = strdup(kit_ask(&meanwhile.kit, "WEIR.TAKE api a 1"));
    return disk->rename(disk, dir, from, to);
}

static void ask_meanwhile(void)
{
    free(meanwhile.answer);
    meanwhile.answer = NULL;
    meanwhile.rename = sim_disk(sim)->rename;
    sim_disk(sim)->rename = ask_and_rename;
}

/* What would be taken then is not in the file, and would be there again if that is loaded. */
TEST(nobody_takes_from_a_policy_that_is_being_retired)
{
    struct kit kit;
    sim = sim_new(check.seed);
    struct service_options options = {
        .workers = 2, .test_clock = true, .disk = sim_disk(sim), .store_manual = true};
    if (!CHECK(kit_open_with(&kit, API("10/h"), &options)))
        return;
    kit_join(&meanwhile.kit, &kit, 1);
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 4"), 6);
    CHECK(answered(&kit));
    ask_meanwhile();
    sim_fail(sim, DISK_CALL_RENAME, 1, EIO, false);
    CHECK(strstr(kit_ask(&kit, "WEIR.POLICY DEL api"), "cannot be retired"));
    CHECK(meanwhile.answer && strncmp(meanwhile.answer, "-UNAVAILABLE ", 13) == 0);
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 1"), 5); /* it has thawed */
    CHECK(answered(&kit));
    ask_meanwhile();
    CHECK(is_ok(&kit, "WEIR.POLICY DEL api"));
    CHECK(meanwhile.answer && strncmp(meanwhile.answer, "-UNAVAILABLE ", 13) == 0);
    CHECK_EQ(retired_files(&kit), 1);
    CHECK(strstr(kit_ask(&meanwhile.kit, "WEIR.TAKE api a 1"), "no policy 'api'"));
    free(meanwhile.answer);
    kit_leave(&meanwhile.kit);
    stop(&kit);
    sim_free(sim);
}

TEST(without_a_file_everything_stays)
{
    struct kit kit;
    struct weir_error err;
    sim = sim_new(check.seed);
    struct service_options options = {
        .workers = 1, .test_clock = true, .disk = sim_disk(sim), .store_manual = true};
    if (!CHECK(start(&kit, API("10/h"))))
        return;
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 4"), 6);
    stop(&kit);
    CHECK(!start(&kit, BASE)); /* a file that was cut off */
    struct config *config = weir_config_new();
    config->memory = INT64_C(64) << 20;
    free(config->data);
    config->data = strdup("data");
    struct service *service = weir_service_new(config, &options, &err);
    if (!CHECK(service))
        return;
    CHECK_EQ(atomic_load(&service->snapshot)->policy_count, 1);
    weir_service_free(service);
    weir_config_free(config);
    sim_free(sim);
}

/* ---- rules ---- */

#define RULE(RECOVER)                                                                                        \
    "memory: 8MiB\ndata: data\nfsync: everysec\npolicies:\n  - {name: api, limits: 10/h, recover: " RECOVER  \
    "}\n"

static void check_rule(const char *yaml, const char *later, bool kill, int64_t known, int64_t unknown)
{
    struct kit kit;
    sim = sim_new(check.seed);
    if (!CHECK(start(&kit, yaml)))
        return;
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 4"), 6);
    CHECK(answered(&kit));
    if (kill)
        die(&kit);
    else
        stop(&kit);
    if (!CHECK(start(&kit, later)))
        return;
    CHECK_EQ(left(&kit, "WEIR.PEEK api a"), known);
    CHECK_EQ(left(&kit, "WEIR.PEEK api b"), unknown);
    kit_tick(&kit); /* writes an image */
    stop(&kit);
    if (!CHECK(start(&kit, later)))
        return;
    CHECK(strstr(kit_ask(&kit, "INFO persistence"), "\r\nrecovered:clean\r\n") || known == 6);
    CHECK_EQ(left(&kit, "WEIR.PEEK api a"), known);
    CHECK_EQ(left(&kit, "WEIR.PEEK api b"), unknown);
    stop(&kit);
    sim_free(sim);
}

TEST(after_an_unclean_stop_the_rule_of_the_policy_counts)
{
    check_rule(RULE("exact"), RULE("exact"), true, 6, 10);
    check_rule(RULE("floor"), RULE("floor"), true, 0, 0);
    check_rule(RULE("optimistic"), RULE("optimistic"), true, 10, 10);
    check_rule(RULE("exact"), RULE("floor"), true, 0, 0); /* what the file says by then */
    check_rule(RULE("floor"), RULE("floor"), false, 6, 10);
}

/* ---- a disk that is ill ---- */

static bool heal(struct kit *kit)
{
    for (int i = 0; i < 1000 && !weir_store_is_well(kit->service->store); i++) {
        kit_clock(kit, weir_now() / WEIR_MS + 1000);
        for (int j = 0; j < 100 && weir_store_work(kit->service->store, STORE_WORK_SYNC | STORE_WORK_IMAGE);
             j++) {
        }
    }
    return weir_store_is_well(kit->service->store);
}

TEST(nothing_is_decided_while_the_disk_takes_nothing)
{
    struct kit kit;
    sim = sim_new(check.seed);
    if (!CHECK(start(&kit, API("10/d"))))
        return;
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 4"), 6);
    CHECK(answered(&kit));
    sim_read_only(sim, true);
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 1"), 5); /* not answered yet: */
    CHECK(!answered(&kit));
    CHECK(!weir_store_is_well(kit.service->store));
    CHECK(strstr(kit_ask(&kit, "WEIR.TAKE api a"), "-UNAVAILABLE the disk does not take anything ("));
    CHECK(strstr(kit_ask(&kit, "CL.THROTTLE cell 9 10 3600"), "-UNAVAILABLE the disk"));
    CHECK(strstr(kit_ask(&kit, "WEIR.POLICY SET api 20/d"), "-UNAVAILABLE the disk"));
    CHECK_EQ(left(&kit, "WEIR.PEEK api a"), 5);
    CHECK(strstr(kit_ask(&kit, "INFO persistence"), "\r\nstore_status:ill\r\n"));
    kit_tick(&kit);
    sim_read_only(sim, false);
    CHECK(heal(&kit));
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 1"), 4);
    CHECK(answered(&kit));
    CHECK(is_ok(&kit, "WEIR.POLICY SET api 20/d"));
    die(&kit);
    if (!CHECK(start(&kit, NONE)))
        return;
    CHECK_EQ(retired_files(&kit), 1); /* api was the file's */
    stop(&kit);
    sim_free(sim);
}

#define SWITCHED BASE "policies: [{name: api, limits: 10/d}, {name: other, limits: 10/d}]\n"

/* It charged nothing, and says so as often as it is asked. */
static void check_settles(struct kit *kit, const char *id)
{
    char line[96];
    CHECK(strncmp(id, "0-", 2) == 0); /* as docs/protocol.md says */
    (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 5 1", id);
    const char *reply = kit_ask(kit, line);
    CHECK_EQ(kit_field(reply, "charged"), 0);
    CHECK_EQ(kit_field(reply, "given_back"), 0);
    (void)snprintf(line, sizeof line, "WEIR.CANCEL %s", id);
    CHECK_EQ(kit_field(kit_ask(kit, line), "given_back"), 0);
}

/* In memory at once; in the log when the disk takes it, without another change. */
TEST(the_kill_switch_needs_no_disk)
{
    struct kit kit;
    char recorded[64], line[96];
    sim = sim_new(check.seed);
    if (!CHECK(start(&kit, SWITCHED)))
        return;
    (void)snprintf(recorded, sizeof recorded, "%s", kit_text(kit_ask(&kit, "WEIR.RESERVE other c 1"), "id"));
    CHECK(answered(&kit));
    sim_read_only(sim, true);
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 5"), 5);
    CHECK(!answered(&kit));
    CHECK(is_ok(&kit, "WEIR.POLICY MODE * shadow"));
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a 20"), "reason"), "shadow");
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 2"), 5); /* counted, and not charged */
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.POLICY SHOW api"), "shadow_refused"), 1);
    CHECK(is_ok(&kit, "WEIR.POLICY MODE * disabled"));
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a"), "reason"), "disabled");
    char id[2][64];
    for (int i = 0; i < 2; i++)
        (void)snprintf(id[i], sizeof id[i], "%s",
                       kit_text(kit_ask(&kit, "WEIR.RESERVE api a 3 AND other b 1"), "id"));
    check_settles(&kit, id[0]);
    (void)snprintf(line, sizeof line, "WEIR.CANCEL %s", recorded);
    CHECK(strstr(kit_ask(&kit, line), "-UNAVAILABLE the disk"));
    CHECK(is_ok(&kit, "WEIR.POLICY MODE * enforce"));
    CHECK(is_ok(&kit, "WEIR.POLICY MODE api disabled"));
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a"), "reason"), "disabled");
    CHECK(strstr(kit_ask(&kit, "WEIR.TAKE api a 1 AND other b"), "-UNAVAILABLE the disk"));
    CHECK(is_ok(&kit, "WEIR.POLICY MODE * disabled"));
    sim_read_only(sim, false);
    CHECK(heal(&kit));
    kit_tick(&kit); /* what is owed */
    CHECK(answered(&kit));
    check_settles(&kit, id[0]);
    check_settles(&kit, id[1]);
    CHECK_EQ(kit_field(kit_ask(&kit, line), "given_back"), 1);
    CHECK(answered(&kit));
    die(&kit);
    if (!CHECK(start(&kit, SWITCHED)))
        return;
    check_settles(&kit, id[1]);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a"), "reason"), "disabled");
    stop(&kit);
    sim_free(sim);
}

/* ---- a kill, or a fault, at every call of the disk ---- */

struct act {
    const char *line;
    const char *ask; /* a field of it tells whether it was done */
    const char *field;
    int64_t before, after;
    const char *list, *listed; /* what tells of it in a list, and how, exactly if `ask` does; or NULL */
};

static const struct act ops[] = {
    {"WEIR.POLICY SET api 20/h", "WEIR.PEEK api fresh", "remaining", 10, 20, "WEIR.POLICY SHOW api", "20/h"},
    {"WEIR.POLICY SET api 20/h algo=sliding-log", "WEIR.PEEK api fresh", "remaining", 10, 10, NULL, NULL},
    {"WEIR.OVERRIDE SET api fresh 100/h", "WEIR.PEEK api fresh", "remaining", 10, 100,
     "WEIR.OVERRIDE LIST api", "100/h"},
    {"WEIR.OVERRIDE DEL api o", "WEIR.PEEK api o", "remaining", 26, 10, NULL, NULL},
    {"WEIR.OVERRIDE SET api a* 50/h", "WEIR.PEEK api a", "remaining", 6, 50, NULL, NULL},
    {"WEIR.POLICY SET new 10/h", "WEIR.PEEK new a", "remaining", INT64_MIN, 10, NULL, NULL},
    {"WEIR.POLICY DEL api", "WEIR.PEEK api a", "remaining", 6, INT64_MIN, NULL, NULL},
    {"WEIR.POLICY MODE api enforce PERCENT 20", "WEIR.POLICY SHOW api", "percent", 100, 20, NULL, NULL},
};

static bool prepare(struct kit *kit)
{
    sim = sim_new(check.seed);
    if (!CHECK(start(kit, NONE)))
        return false;
    CHECK(is_ok(kit, "WEIR.POLICY SET api 10/h"));
    CHECK(is_ok(kit, "WEIR.OVERRIDE SET api o 30/h"));
    CHECK_EQ(left(kit, "WEIR.TAKE api a 4"), 6);
    CHECK_EQ(left(kit, "WEIR.TAKE api o 4"), 26);
    return CHECK(answered(kit));
}

/* The machine stops at the n-th call. false: there was none. */
static bool try_stop(const struct act *op, uint64_t n)
{
    struct kit kit;
    if (!prepare(&kit))
        return false;
    sim_stop_after(sim, n);
    bool done = strcmp(kit_ask(&kit, op->line), "+OK\r\n") == 0; /* not: it will be recorded later */
    bool stopped = sim_is_stopped(sim);
    die(&kit);
    if (!CHECK(start(&kit, NONE)))
        return false;
    int64_t is = kit_field(kit_ask(&kit, op->ask), op->field);
    if (!CHECK(is == op->after || (!done && is == op->before)))
        printf("# stopped at call %" PRIu64 " of %s, answered %d: %" PRId64 "\n", n, op->line, done, is);
    if (op->list) /* the catalogue and the table agree */
        CHECK((strstr(kit_ask(&kit, op->list), op->listed) != NULL) == (is == op->after));
    CHECK(left(&kit, "WEIR.PEEK api o") == 26 || op->after == INT64_MIN || strstr(op->line, " o"));
    stop(&kit);
    sim_free(sim);
    return stopped;
}

TEST(a_change_is_there_or_not_whenever_the_machine_stops)
{
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        for (uint64_t n = 0; n < 200 && try_stop(&ops[i], n); n++) {
        }
}

/* A call fails, once: what is answered is true, and what comes later works. */
static bool try_fault(const struct act *op, uint64_t n)
{
    struct kit kit;
    if (!prepare(&kit))
        return false;
    uint64_t faults = sim_faults(sim);
    sim_fail(sim, DISK_CALL_ANY, n, ENOSPC, false);
    bool done = kit_ask(&kit, op->line)[0] == '+';
    bool failed = sim_faults(sim) > faults;
    sim_no_faults(sim);
    CHECK(heal(&kit));
    int64_t is = kit_field(kit_ask(&kit, op->ask), op->field);
    CHECK(!done || is >= op->after); /* time went on meanwhile */
    CHECK(is_ok(&kit, "WEIR.POLICY SET last 10/h"));
    die(&kit);
    if (!CHECK(start(&kit, NONE)))
        return false;
    CHECK_EQ(left(&kit, "WEIR.PEEK last a"), 10);
    int64_t later = kit_field(kit_ask(&kit, op->ask), op->field);
    if (!CHECK(later == is))
        printf("# fault at call %" PRIu64 " of %s: %" PRId64 ", then %" PRId64 "\n", n, op->line, is, later);
    stop(&kit);
    sim_free(sim);
    return failed;
}

TEST(a_fault_of_the_disk_is_told_or_mended)
{
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        for (uint64_t n = 1; n < 200 && try_fault(&ops[i], n); n++) {
        }
}

/* ---- power cuts, at any time ---- */

#define CUT_POLICIES 3
#define CUT_KEYS     4
#define CUT_YAML     "memory: 8MiB\ndata: data\nfsync: always\npolicies: []\n"

/* What was answered, and what was asked without an answer since. */
struct known {
    int64_t spent[CUT_POLICIES][CUT_KEYS], perhaps[CUT_POLICIES][CUT_KEYS];
    int64_t limit[2], limit_perhaps[2]; /* of the policy q, and of one of its keys */
};

static void take_some(struct kit *kit, struct known *known, struct rng *rng)
{
    char line[64];
    int p = (int)rng_between(rng, 0, CUT_POLICIES - 1), k = (int)rng_between(rng, 0, CUT_KEYS - 1);
    int n = (int)rng_between(rng, 1, 5);
    (void)snprintf(line, sizeof line, "WEIR.TAKE p%d k%d %d", p, k, n);
    bool allowed = kit_field(kit_ask(kit, line), "allowed") == 1;
    bool told = weir_persist_wait(kit->service);
    if (allowed)
        *(told ? &known->spent[p][k] : &known->perhaps[p][k]) += n;
}

static void change_some(struct kit *kit, struct known *known, struct rng *rng)
{
    char line[64];
    int which = (int)rng_between(rng, 0, 1), to = (int)rng_between(rng, 1, 999); /* 1000 is shown as 1k */
    (void)snprintf(line, sizeof line, which ? "WEIR.OVERRIDE SET q own %d/d" : "WEIR.POLICY SET q %d/d", to);
    bool told = kit_ask(kit, line)[0] == '+';
    known->limit_perhaps[which] = to;
    if (told)
        known->limit[which] = to;
}

static void do_some(struct kit *kit, struct known *known, struct rng *rng)
{
    int64_t lot = rng_between(rng, 0, 19);
    if (lot < 14)
        take_some(kit, known, rng);
    else if (lot < 17)
        change_some(kit, known, rng);
    else if (lot < 18)
        kit_tick(kit);
    else
        (void)weir_store_work(kit->service->store, STORE_WORK_IMAGE);
}

static void compare(struct kit *kit, struct known *known)
{
    char line[64];
    for (int p = 0; p < CUT_POLICIES; p++)
        for (int k = 0; k < CUT_KEYS; k++) {
            (void)snprintf(line, sizeof line, "WEIR.PEEK p%d k%d", p, k);
            int64_t spent = 1000 - left(kit, line);
            if (!CHECK(spent >= known->spent[p][k] && spent <= known->spent[p][k] + known->perhaps[p][k]))
                printf("# %s: %" PRId64 " spent; %" PRId64 " were answered, %" PRId64 " were not\n", line,
                       spent, known->spent[p][k], known->perhaps[p][k]);
            known->spent[p][k] = spent;
            known->perhaps[p][k] = 0;
        }
    for (int i = 0; i < 2; i++) {
        const char *ask = i ? "WEIR.OVERRIDE LIST q" : "WEIR.POLICY SHOW q";
        char limits[32];
        (void)snprintf(limits, sizeof limits, "\r\n%" PRId64 "/d\r\n", known->limit[i]);
        bool is = strstr(kit_ask(kit, ask), limits) || (i && known->limit[i] == 0);
        (void)snprintf(limits, sizeof limits, "\r\n%" PRId64 "/d\r\n", known->limit_perhaps[i]);
        bool other = strstr(kit_ask(kit, ask), limits);
        CHECK(is || other);
        if (other)
            known->limit[i] = known->limit_perhaps[i];
    }
}

static void cut_story(uint64_t seed)
{
    struct rng rng = rng_new(seed);
    struct kit kit;
    struct known known = {.limit = {10, 0}};
    sim = sim_new(seed);
    if (!CHECK(start(&kit, CUT_YAML)))
        return;
    for (int p = 0; p < CUT_POLICIES; p++)
        CHECK(is_ok(&kit, p == 0   ? "WEIR.POLICY SET p0 1000/d"
                          : p == 1 ? "WEIR.POLICY SET p1 1000/d algo=fixed-window"
                                   : "WEIR.POLICY SET p2 1000/d, 10k/d"));
    CHECK(is_ok(&kit, "WEIR.POLICY SET q 10/d"));
    for (int life = 0; life < 6; life++) {
        sim_stop_after(sim, (uint64_t)rng_between(&rng, 0, 120));
        for (int i = 0; i < 60 && !sim_is_stopped(sim); i++)
            do_some(&kit, &known, &rng);
        sim_stop_after(sim, 0);
        kit_leave(&kit);
        weir_service_free(kit.service);
        sim_cut(sim, &rng);
        if (!CHECK(start(&kit, CUT_YAML)))
            return;
        compare(&kit, &known);
    }
    stop(&kit);
    sim_free(sim);
}

TEST(what_was_answered_survives_power_cuts)
{
    for (uint64_t seed = 1; seed <= 25; seed++)
        cut_story(seed);
}

/* ---- the catalogue ---- */

/* Reads a catalogue into a service that has a store of its own; whatever comes of it. */
static bool read_catalogue(struct service *service, const unsigned char *bytes, size_t len)
{
    struct weir_error err = {0};
    struct server_catalogue catalogue;
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    bool good = weir_server_catalogue_read(bytes, len, &catalogue, &err) &&
                weir_server_catalogue_policies(service, &catalogue, snapshot, &err);
    CHECK(good || err.text[0] != '\0');
    weir_snapshot_free(snapshot);
    return good;
}

TEST(a_catalogue_may_say_anything)
{
    struct kit kit, other;
    struct buffer out = {0};
    struct rng rng = rng_new(1);
    sim = sim_new(check.seed);
    if (!CHECK(start(&kit, NONE)))
        return;
    fill(&kit);
    CHECK(weir_server_catalogue_write(kit.service, atomic_load(&kit.service->snapshot), &out));
    size_t len = buffer_len(&out);
    unsigned char *bytes = malloc(len);
    memcpy(bytes, buffer_bytes(&out), len);
    weir_buffer_free(&out);
    stop(&kit);
    sim_free(sim);
    sim = sim_new(check.seed);
    if (!CHECK(start(&other, NONE)))
        return;
    CHECK(read_catalogue(other.service, bytes, len));
    for (size_t cut = 0; cut < len; cut += 1 + cut / 16) {
        unsigned char *copy = malloc(cut + 1); /* its end is the end of memory */
        memcpy(copy, bytes, cut);
        CHECK(!read_catalogue(other.service, copy, cut));
        free(copy);
    }
    for (int i = 0; i < 300; i++) {
        size_t at = (size_t)rng_between(&rng, 0, (int64_t)len - 1);
        unsigned char was = bytes[at];
        bytes[at] = (unsigned char)(i % 3 == 0 ? 0xFF : rng_between(&rng, 0, 255));
        (void)read_catalogue(other.service, bytes, len);
        bytes[at] = was;
    }
    free(bytes);
    stop(&other);
    sim_free(sim);
}
