/* SPDX-License-Identifier: MIT */
/*
 * recover: floor, where not even the policy has survived: nobody can tell what its keys had spent.
 */
#include "check.h"
#include "disk_sim.h"
#include "store/commit.h"
#include "unit/service/service_kit.h"

#define YAML                                                                                                 \
    "memory: 8MiB\ndata: data\nfsync: everysec\npolicies:\n"                                                 \
    "  - {name: api, limits: 10/h, recover: floor}\n  - {name: other, limits: 10/h}\n"

/* Many tables are made here, and hardly used: pages of 2 MiB would cost most of the time. */
int __wrap_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    (void)memory, (void)bytes, (void)advice;
    return 0;
}

static bool start(struct kit *kit, struct sim *sim)
{
    struct service_options options = {
        .workers = 1, .test_clock = true, .disk = sim_disk(sim), .store_manual = true};
    return kit_open_with(kit, YAML, &options);
}

static void cut(struct kit *kit, struct sim *sim)
{
    sim_stop_after(sim, 0);
    kit_leave(kit);
    weir_service_free(kit->service);
    sim_cut(sim, NULL);
}

/* A first start, a take that is answered, and a power cut within the second that everysec may lose. */
TEST(a_policy_that_was_lost_with_all_its_keys_begins_empty_as_well)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct sim *sim = sim_new(seed);
        struct kit kit;
        if (!CHECK(start(&kit, sim)))
            return;
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE api a 10"), "remaining"), 0);
        uint64_t ticket = weir_store_commit(kit.service->store);
        bool answered = weir_store_ticket_status(kit.service->store, ticket) == STORE_GO;
        cut(&kit, sim);
        if (!CHECK(start(&kit, sim)))
            return;
        CHECK(answered);
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api a"), "remaining"), 0);
        cut(&kit, sim); /* what it began with counts at the next start, too */
        CHECK(start(&kit, sim));
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK api a"), "remaining"), 0);
        kit_close(&kit);
        sim_free(sim);
    }
}
