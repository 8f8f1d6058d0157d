/* SPDX-License-Identifier: MIT */
/*
 * A service whose disk is not to be believed: a journal that fails while syncs return 0, an end of the log
 * that is damaged.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "disk_sim.h"
#include "service/policies/retired.h"
#include "store/commit.h"
#include "store/store.h"
#include "unit/service/service_kit.h"

/* Many tables are made here, and hardly used: pages of 2 MiB would cost most of the time. */
int __wrap_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    (void)memory, (void)bytes, (void)advice;
    return 0;
}

static struct sim *sim;

static bool start(struct kit *kit, const char *yaml)
{
    struct service_options options = {
        .workers = 1, .test_clock = true, .disk = sim_disk(sim), .store_manual = true};
    return kit_open_with(kit, yaml, &options);
}

static void leave(struct kit *kit)
{
    kit_leave(kit);
    weir_service_free(kit->service);
}

static int64_t left(struct kit *kit, const char *line)
{
    return kit_field(kit_ask(kit, line), "remaining");
}

/* As the server does at the end of a read section, before answers go out. */
static bool answered(struct kit *kit)
{
    uint64_t ticket = weir_store_commit(kit->service->store);
    return weir_store_ticket_status(kit->service->store, ticket) == STORE_GO;
}

#define BASE "memory: 8MiB\ndata: data\n"

TEST(who_is_retired_in_vain_stays)
{
    int stayed = 0;
    for (uint64_t n = 0; n < 160; n++) {
        struct kit kit;
        int64_t files, bytes;
        sim = sim_new(check.seed + n);
        if (!CHECK(start(&kit, BASE "policies: [{name: api, limits: 10/h}]\n")))
            return;
        sim_abort_after(sim, n / 8); /* what syncs return then is drawn by lot */
        bool gone = strncmp(kit_ask(&kit, "WEIR.POLICY DEL api"), "+OK", 3) == 0;
        sim_stop_after(sim, 0);
        leave(&kit);
        sim_cut(sim, NULL);
        if (!CHECK(start(&kit, BASE "policies: [{name: other, limits: 1/s}]\n")))
            return;
        weir_retired_count(kit.service, &files, &bytes);
        CHECK(!gone || files >= 1);
        stayed += !gone;
        leave(&kit);
        sim_free(sim);
    }
    CHECK(stayed > 5);
}

static int64_t set_aside(const struct kit *kit)
{
    int64_t files, bytes;
    weir_retired_count(kit->service, &files, &bytes);
    return files;
}

#define STAYS BASE "fsync: never\npolicies: [{name: api, limits: 10/h}]\n"

/* Whatever the disk has done of what it calls a failure: no file tells of a policy that is still here, also
 * if the power is cut then. */
static void check_stays(uint64_t seed, enum disk_call call, uint64_t n, bool cut)
{
    struct kit kit;
    sim = sim_new(seed);
    if (!CHECK(start(&kit, STAYS)))
        return;
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 4"), 6);
    CHECK(answered(&kit));
    sim_fail(sim, call, n, EIO, false);
    CHECK(strstr(kit_ask(&kit, "WEIR.POLICY DEL api"), "cannot be retired"));
    CHECK_EQ(left(&kit, "WEIR.PEEK api a"), 6);
    if (cut) {
        sim_stop_after(sim, 0);
        leave(&kit);
        sim_cut(sim, NULL);
        if (!CHECK(start(&kit, STAYS)))
            return;
    }
    if (!CHECK(set_aside(&kit) == 0))
        printf("# %s fails on a disk with seed %" PRIu64 "\n", disk_call_names[call], seed);
    CHECK(strncmp(kit_ask(&kit, "WEIR.POLICY DEL api"), "+OK", 3) == 0);
    CHECK_EQ(set_aside(&kit), 1);
    leave(&kit);
    sim_free(sim);
}

TEST(who_cannot_be_retired_stays)
{
    for (uint64_t i = 0; i < 16; i++) {
        check_stays(check.seed + i, DISK_CALL_RENAME, 1, i % 2);
        check_stays(check.seed + i, DISK_CALL_SYNC_DIR, 2, i % 2); /* the first is of the directory above */
        check_stays(check.seed + i, DISK_CALL_WITNESS, 1, i % 2);
    }
}

/* In always a kill leaves no doubt; the last byte of the log that is not zero, once it is another one, does.
 */
static void check_end(const char *rule, bool damaged, int64_t expected)
{
    static const char first[] = "data/log-0000000000000001";
    struct kit kit;
    char yaml[200];
    uint64_t len = 0;
    sim = sim_new(check.seed);
    (void)snprintf(yaml, sizeof yaml,
                   BASE "fsync: always\npolicies: [{name: api, limits: 10/h, recover: %s}]\n", rule);
    if (!CHECK(start(&kit, yaml)))
        return;
    CHECK_EQ(left(&kit, "WEIR.TAKE api a 4"), 6);
    (void)answered(&kit);
    (void)weir_store_work(kit.service->store, STORE_WORK_SYNC);
    CHECK(answered(&kit));
    sim_stop_after(sim, 0);
    leave(&kit);
    sim_kill(sim);
    const unsigned char *bytes = sim_bytes(sim, first, &len);
    while (bytes && len > 0 && bytes[len - 1] == 0)
        len--;
    if (damaged)
        CHECK(sim_flip(sim, first, 8 * (len - 1)));
    if (!CHECK(start(&kit, yaml)))
        return;
    CHECK_EQ(left(&kit, "WEIR.PEEK api a"), expected);
    const char *info = kit_ask(&kit, "INFO persistence");
    CHECK(strstr(info, damaged ? "\r\nrecovered:unsure\r\n" : "\r\nrecovered:unclean\r\n"));
    CHECK_EQ(strstr(info, "its last changes may be missing") != NULL, damaged);
    leave(&kit);
    sim_free(sim);
}

TEST(a_damaged_end_in_always_is_told_of_and_the_rule_of_the_policy_counts)
{
    check_end("exact", false, 6);
    check_end("floor", false, 6);
    check_end("exact", true, 10);
    check_end("floor", true, 0);
}
