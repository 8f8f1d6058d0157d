/* SPDX-License-Identifier: MIT */
/*
 * The n-th failure, through a service: it starts from what another one has left behind, takes, reserves,
 * settles, changes and forgets policies, and one call of the disk, or one piece of memory, is missing. It
 * says so or goes on; and what was answered is there when it is started again.
 */
#define _GNU_SOURCE

#include "base/sat.h"
#include "check.h"
#include "disk_faulty.h"
#include "disk_sim.h"
#include "service/persist/record_change.h"
#include "service/policies/growth.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/store.h"
#include "unit/failure_sites.h"
#include "unit/folder.h"
#include "unit/os/failing_map.h"
#include "unit/service/service_kit.h"

#define CALLS_MOST 5000 /* no story has so many */

/* ---- a service that comes and goes ---- */

static struct faulty faulty;
static struct config *config, *earlier; /* that one has a policy which then is gone, and retired */

static void complain(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    printf("# %s\n", weir_complaint_text(complaint, true, text));
}

static struct config *make_config(const char *path, const char *policies)
{
    char yaml[256];
    (void)snprintf(yaml, sizeof yaml, "memory: 8MiB\ndata: %s\nfsync: always\npolicies: [%s]\n", path,
                   policies);
    return weir_config_parse("weir.yaml", yaml, strlen(yaml), complain, NULL);
}

static bool read_config(const char *path)
{
    earlier = make_config(path, "{name: gone, limits: 10/h}");
    config = make_config(path, "");
    return CHECK(earlier && config);
}

static void free_config(void)
{
    weir_config_free(earlier);
    weir_config_free(config);
}

/* false: it says why. */
static bool start_with(struct kit *kit, const struct config *from)
{
    struct service_options options = {
        .workers = 1, .test_clock = true, .disk = &faulty.disk, .store_manual = true};
    struct weir_error err = {0};
    struct kit first = {.service = weir_service_new(from, &options, &err)};
    if (!first.service) {
        CHECK(err.text[0] != '\0');
        return false;
    }
    kit_join(kit, &first, 0);
    return true;
}

static bool start(struct kit *kit)
{
    return start_with(kit, config);
}

static void leave(struct kit *kit)
{
    kit_leave(kit);
    weir_service_free(kit->service);
}

/* Nothing more comes to the disk. */
static void die(struct kit *kit)
{
    faulty_fail(&faulty, DISK_CALL_ANY, 1, EIO, true);
    leave(kit);
    faulty_no_faults(&faulty);
}

/* ---- what was answered ---- */

#define KEYS 5

/* Keys that are only taken from. */
static const char *const takes[KEYS] = {"WEIR.TAKE api a 3", "WEIR.TAKE wide a 4", "WEIR.TAKE api own 2",
                                        "CL.THROTTLE cell 99 100 2592000 4",
                                        "RL.REDUCE step 100 2592000 TAKE 5"};
static const int64_t units[KEYS] = {3, 4, 2, 4, 5};
static const char *const looks[KEYS] = {"WEIR.PEEK api a", "WEIR.PEEK wide a", "WEIR.PEEK api own",
                                        "CL.THROTTLE cell 99 100 2592000 0", "RL.GET step 100 2592000"};
static const int64_t full[KEYS] = {100, 100, 500, 100, 100};

static struct {
    int64_t surely[KEYS]; /* spent, and that was answered */
    int64_t known[KEYS];  /* the same, perhaps not answered yet */
    int64_t most[KEYS];   /* and what nobody could say: there was no memory for the answer */
    bool new_policy, settled;
    char reservation[64];
} account;

static int64_t spent(struct kit *kit, int key)
{
    const char *reply = kit_ask(kit, looks[key]);
    int64_t left = kit_field(reply, "remaining"), cell[3];
    if (key == 3 &&
        sscanf(reply, "*5\r\n:%" SCNd64 "\r\n:%" SCNd64 "\r\n:%" SCNd64, &cell[0], &cell[1], &cell[2]) == 3)
        left = cell[2];
    if (key == 4 && sscanf(reply, ":%" SCNd64, &cell[0]) == 1)
        left = cell[0];
    return full[key] - left;
}

static bool is_told(struct kit *kit)
{
    uint64_t ticket = weir_store_commit(kit->service->store);
    (void)weir_store_work(kit->service->store, STORE_WORK_SYNC | STORE_WORK_IMAGE);
    return weir_store_ticket_status(kit->service->store, ticket) == STORE_GO;
}

static bool is_allowed(const char *reply, int key)
{
    if (key == 3)
        return strncmp(reply, "*5\r\n:0", 6) == 0;
    return key == 4 ? reply[0] == ':' : kit_field(reply, "allowed") == 1;
}

static void take_all(struct kit *kit)
{
    for (int key = 0; key < KEYS; key++) {
        const char *reply = kit_ask(kit, takes[key]);
        bool broken = kit->out.failed || kit->state == RUN_CLOSE || reply[0] == '\0';
        bool allowed = !broken && is_allowed(reply, key), told = is_told(kit);
        account.most[key] += allowed || broken ? units[key] : 0;
        account.known[key] += allowed ? units[key] : 0;
        if (told)
            account.surely[key] = account.known[key];
    }
}

static bool is_ok(struct kit *kit, const char *line)
{
    return strncmp(kit_ask(kit, line), "+OK", 3) == 0;
}

/* What the next one finds. */
static bool prepare(void)
{
    struct kit kit;
    memset(&account, 0, sizeof account);
    if (!CHECK(start_with(&kit, earlier)))
        return false;
    CHECK(is_ok(&kit, "WEIR.POLICY SET api '100/365d burst=100'"));
    CHECK(is_ok(&kit, "WEIR.POLICY SET wide '100/365d burst=100, 500/365d burst=500'"));
    CHECK(is_ok(&kit, "WEIR.POLICY SET old 10/h"));
    CHECK(is_ok(&kit, "WEIR.OVERRIDE SET api own '500/365d burst=500'"));
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE gone a"), "allowed"), 1);
    take_all(&kit);
    CHECK(weir_store_image(kit.service->store, NULL));
    take_all(&kit);
    const char *id = kit_text(kit_ask(&kit, "WEIR.RESERVE api reserved 50"), "id");
    (void)snprintf(account.reservation, sizeof account.reservation, "%s", id);
    CHECK(weir_persist_wait(kit.service));
    for (int key = 0; key < KEYS; key++)
        CHECK_EQ(account.surely[key], 2 * units[key]);
    die(&kit);
    return account.reservation[0] != '\0';
}

static void live(struct kit *kit)
{
    char line[128];
    take_all(kit);
    account.new_policy = is_ok(kit, "WEIR.POLICY SET new 10/h");
    (void)snprintf(line, sizeof line, "WEIR.COMMIT %s 20", account.reservation);
    account.settled = kit_field(kit_ask(kit, line), "given_back") == 30 && is_told(kit);
    (void)kit_ask(kit, "WEIR.POLICY DEL old");
    (void)kit_ask(kit, "WEIR.OVERRIDE SET wide b '5/h' FOR 2h");
    (void)weir_store_image(kit->service->store, NULL);
    take_all(kit);
    (void)kit_ask(kit, "WEIR.POLICY SET api '200/365d burst=100'");
    weir_service_tick(kit->service);
    take_all(kit);
}

static void check_account(struct kit *kit)
{
    for (int key = 0; key < KEYS; key++) {
        int64_t is = spent(kit, key);
        if (!CHECK(is >= account.surely[key] && is <= account.most[key]))
            printf("# %s: %" PRId64 ", and not %" PRId64 " to %" PRId64 "\n", takes[key], is,
                   account.surely[key], account.most[key]);
    }
    if (account.new_policy)
        CHECK_EQ(kit_field(kit_ask(kit, "WEIR.PEEK new a"), "remaining"), 10);
    int64_t left = kit_field(kit_ask(kit, "WEIR.PEEK api reserved"), "remaining");
    CHECK(account.settled ? left == 80 : left == 50 || left == 80);
}

/* ---- the story ---- */

/* Starts, lives and dies; the caller has said what fails. */
static void run(void)
{
    struct kit kit;
    if (!start(&kit))
        return;
    live(&kit);
    allocations_left = -1;
    die(&kit);
}

static void check_next(void)
{
    struct kit kit;
    if (!CHECK(start(&kit)))
        return;
    check_account(&kit);
    CHECK(is_ok(&kit, "WEIR.POLICY SET last 10/h"));
    struct weir_error err = {0};
    CHECK(weir_persist_wait(kit.service));
    kit_leave(&kit);
    CHECK(weir_service_close(kit.service, &err));
    weir_service_free(kit.service);
}

/* WEIR_FAILURE_STEP: of so many pieces of memory one, and of a quarter as many calls of the disk. */
static int64_t failure_step(void)
{
    return max64(1, check_env("WEIR_FAILURE_STEP", 1));
}

static bool try_call(enum disk_call kind, uint64_t n)
{
    struct sim *sim = sim_new(check.seed + n);
    long faults = check.faults;
    faulty_init(&faulty, sim_disk(sim));
    bool reached = false;
    if (prepare()) {
        sim_cut(sim, NULL);
        uint64_t before = sim_faults(sim);
        sim_fail(sim, kind, n, EIO, false);
        faulty_fail(&faulty, kind, n, 0, false);
        run();
        reached = sim_faults(sim) > before;
        if (reached)
            site_add(disk_call_names[kind], atomic_load(&faulty.site));
        faulty_no_faults(&faulty);
        sim_cut(sim, NULL);
        check_next();
        CHECK_EQ(sim_handles(sim), 0);
    }
    if (check.faults > faults)
        printf("# call %" PRIu64 " of %s\n", n, disk_call_names[kind]);
    sim_free(sim);
    return reached;
}

TEST(every_call_of_the_disk_may_fail)
{
    if (!read_config("data"))
        return;
    for (int kind = 0; kind < DISK_CALLS; kind++) {
        uint64_t n = 1;
        while (n < CALLS_MOST && check.faults < 10 && try_call((enum disk_call)kind, n))
            n += (uint64_t)max64(1, failure_step() / 4);
        CHECK(n < CALLS_MOST);
        printf("# %s: %d calls\n", disk_call_names[kind], (int)n - 1);
    }
    free_config();
}

static bool try_piece(int64_t n)
{
    long faults = check.faults;
    bool reached = false;
    faulty_init(&faulty, NULL);
    if (read_config(folder_new()) && prepare()) {
        allocation_site = NULL;
        allocations_left = n;
        run();
        allocations_left = -1;
        reached = allocation_site != NULL;
        site_add("memory", allocation_site);
        check_next();
        CHECK_EQ(atomic_load(&faulty.open), 0);
    }
    if (check.faults > faults)
        printf("# piece %d\n", (int)n);
    free_config();
    return reached;
}

TEST(every_piece_of_memory_may_be_missing)
{
    int64_t step = failure_step(), n = (int64_t)(check.seed % (uint64_t)step); /* another seed: others */
    while (n < CALLS_MOST && check.faults < 10 && try_piece(n))
        n += step;
    CHECK(n > 200 && n < CALLS_MOST);
    printf("# memory: %d pieces\n", (int)n);
}
