/* SPDX-License-Identifier: MIT */
/*
 * A server that leases out what it has, while memory runs out: each allocation fails once. It does not start,
 * or says so, or goes on; and of a window no more is ever out than its total.
 */
#include <stdio.h>

#include "check.h"
#include "unit/failing_memory.h"
#include "unit/service/service_kit.h"

#define ROOT                                                                                                 \
    "memory: 8MiB\n"                                                                                         \
    "policies:\n"                                                                                            \
    "  - name: egress\n"                                                                                     \
    "    limits: [1000/s algo=quota]\n"                                                                      \
    "    fleet: {coordinator: \"local:\", base: 100}\n"                                                      \
    "  - name: users\n"                                                                                      \
    "    limits: [1000/s algo=quota]\n"                                                                      \
    "    fleet: {coordinator: \"local:\", base: 100, keys: each}\n"

/* ---- what is out ---- */

struct story {
    struct kit kit;
    int64_t out;  /* units that were leased or taken and did not come back, as far as was answered */
    bool unclear; /* an answer was missing: it may have been given back */
};

/* Without memory for the answer a request has none, and its connection ends. */
static const char *ask(struct story *story, const char *line)
{
    const char *reply = kit_ask(&story->kit, line);
    if (story->kit.out.failed || story->kit.state == RUN_CLOSE || reply[0] == '\0') {
        struct kit first = story->kit;
        story->unclear = true;
        kit_leave(&story->kit);
        kit_join(&story->kit, &first, 0);
        return "";
    }
    return reply;
}

static void lease(struct story *story, const char *line)
{
    int64_t units = kit_field(ask(story, line), "units");
    if (units > 0)
        story->out += units;
}

static void give(struct story *story, const char *name, uint64_t epoch)
{
    char line[80];
    long long chunks = 0;
    (void)snprintf(line, sizeof line, "WEIR.RETURN %s %llu 1", name, (unsigned long long)epoch);
    const char *reply = ask(story, line);
    if (sscanf(reply, ":%lld", &chunks) == 1)
        story->out -= chunks * 100;
    else
        story->out -= 100; /* perhaps */
}

static void lease_from(struct story *story, const char *name)
{
    char line[80];
    story->out = 0;
    (void)snprintf(line, sizeof line, "WEIR.LEASE %s 3", name);
    lease(story, line);
    int64_t epoch = kit_field(ask(story, line), "epoch");
    story->out += epoch > 0 ? 300 : 0;
    if (epoch > 0)
        give(story, name, (uint64_t)epoch);
    lease(story, line);
    (void)ask(story, "WEIR.EXPLAIN egress a");
    (void)ask(story, "INFO");
    allocations_left = -1;
    (void)snprintf(line, sizeof line, "WEIR.LEASE %s 100", name);
    lease(story, line);
    CHECK(story->out <= 1000);
    CHECK(story->unclear || story->out == 1000);
}

/* ---- tests ---- */

static void fail_each(const char *name)
{
    int64_t n = 0, started = 0;
    bool reached = true;
    for (; reached && n < 5000; n++) {
        struct story story = {.out = 0};
        long faults = check.faults;
        allocation_site = NULL;
        allocations_left = n;
        if (kit_open(&story.kit, ROOT)) {
            started++;
            lease_from(&story, name);
            kit_close(&story.kit);
        }
        allocations_left = -1;
        reached = allocation_site != NULL;
        if (check.faults != faults) {
            printf("# allocation %" PRId64 "\n", n + 1);
            return;
        }
    }
    CHECK(!reached && started > 5);
    printf("# %" PRId64 " allocations, %" PRId64 " of them after the start\n", n, started);
}

TEST(a_root_without_memory_leases_no_more_than_its_total)
{
    fail_each("egress");
}

TEST(so_does_one_with_a_total_for_each_key)
{
    fail_each("users:me");
}
