/* SPDX-License-Identifier: MIT */
/*
 * What another thread may write down between two steps of ours, if the machine stops right behind it.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "check.h"
#include "disk_sim.h"
#include "store/commit.h"
#include "table/verbs.h"
#include "unit/service/service_kit.h"

int __wrap_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    (void)memory, (void)bytes, (void)advice;
    return 0;
}

/* ---- a service whose machine stops ---- */

static struct sim *sim;
static struct kit here, other; /* workers of one service */
static bool armed;

static bool start(void)
{
    static const char yaml[] = "memory: 8MiB\ndata: data\nfsync: never\npolicies: []\n";
    struct service_options options = {
        .workers = 2, .test_clock = true, .disk = sim_disk(sim), .store_manual = true};
    if (!CHECK(kit_open_with(&here, yaml, &options)))
        return false;
    kit_join(&other, &here, 1);
    return true;
}

static void die(void)
{
    sim_stop_after(sim, 0);
    kit_leave(&other);
    kit_close(&here);
    sim_kill(sim);
}

static void *run(void *what)
{
    void (*op)(void);
    memcpy(&op, &what, sizeof op);
    op();
    (void)weir_store_commit(here.service->store);
    return NULL;
}

/* Once: another thread does that, and it is in the log; nothing that comes later is. */
static void stop_behind(void (*op)(void))
{
    pthread_t thread;
    void *what;
    if (!armed)
        return;
    armed = false;
    memcpy(&what, &op, sizeof what);
    if (CHECK(pthread_create(&thread, NULL, run, what) == 0))
        (void)pthread_join(thread, NULL);
    sim_stop_after(sim, 0);
}

/* ---- units are given back after it is written down that they were ---- */

static struct {
    struct weir_table *table;
    uint64_t hash;
} given;

static void list_given(void)
{
    weir_table_mark_dirty(given.table, given.hash);
}

void __real_weir_table_give_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash, int64_t n);
void __wrap_weir_table_give_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash, int64_t n);
void __wrap_weir_table_give_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash, int64_t n)
{
    __real_weir_table_give_by_hash(table, now_ns, hash, n);
    given.table = table;
    given.hash = hash;
    stop_behind(list_given);
}

TEST(what_was_given_back_is_not_given_back_again)
{
    char line[128], id[64];
    sim = sim_new(check.seed);
    if (!start())
        return;
    CHECK_STR(kit_ask(&here, "WEIR.POLICY SET api 10/h"), "+OK\r\n");
    CHECK_EQ(kit_field(kit_ask(&here, "WEIR.TAKE api k 4"), "remaining"), 6);
    (void)snprintf(id, sizeof id, "%s", kit_text(kit_ask(&here, "WEIR.RESERVE api k 3"), "id"));
    (void)weir_store_commit(here.service->store);
    armed = true;
    (void)snprintf(line, sizeof line, "WEIR.CANCEL %s", id);
    (void)kit_ask(&here, line);
    CHECK(!armed);
    die();
    if (!start())
        return;
    int64_t before = kit_field(kit_ask(&here, "WEIR.PEEK api k"), "remaining");
    CHECK(before == 3 || before == 6);
    (void)kit_ask(&here, line);
    CHECK(kit_field(kit_ask(&here, "WEIR.PEEK api k"), "remaining") <= 6);
    die();
    sim_free(sim);
}

/* ---- limits are noted before anybody takes by them ---- */

static int64_t left;

static void take(void)
{
    const char *reply = kit_ask(&other, "WEIR.TAKE api k 5");
    CHECK_EQ(kit_field(reply, "allowed"), 1);
    left = kit_field(reply, "remaining");
}

void __real_weir_snapshot_publish(struct service *service, struct snapshot *next);
void __wrap_weir_snapshot_publish(struct service *service, struct snapshot *next);
void __wrap_weir_snapshot_publish(struct service *service, struct snapshot *next)
{
    __real_weir_snapshot_publish(service, next);
    stop_behind(take);
}

TEST(what_was_taken_by_new_limits_is_spent_also_if_nothing_came_behind_it)
{
    sim = sim_new(check.seed);
    if (!start())
        return;
    CHECK_STR(kit_ask(&here, "WEIR.POLICY SET api 10/h"), "+OK\r\n");
    CHECK_EQ(kit_field(kit_ask(&here, "WEIR.TAKE api k 2"), "remaining"), 8);
    (void)weir_store_commit(here.service->store);
    armed = true;
    (void)kit_ask(&here, "WEIR.POLICY SET api 20/h");
    CHECK(!armed);
    die();
    if (!start())
        return;
    CHECK_EQ(kit_field(kit_ask(&here, "WEIR.PEEK api k"), "remaining"), left);
    die();
    sim_free(sim);
}
