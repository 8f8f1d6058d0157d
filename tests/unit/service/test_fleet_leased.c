/* SPDX-License-Identifier: MIT */
/*
 * Policies whose units come from a coordinator, with members that a test fills by hand: taking, waiting until
 * there is something, several pairs, ids, reservations, leasing on, and that nothing is spent twice.
 */
#define _POSIX_C_SOURCE 200809L

#include <sched.h>
#include <stdio.h>

#include "check.h"
#include "limiter/balance_limiter.h"
#include "limiter/life.h"
#include "os/futex.h"
#include "service/policies/apply.h"
#include "unit/service/exposition.h"
#include "unit/service/service_kit.h"

#define START_MS 1000
#define PATIENCE (20 * WEIR_SEC)

/* ---- members by hand ---- */

struct fake {
    struct lease_balance balance;
    struct weir_limiter *limiter;
    char name[FLEET_NAME_MAX + 1];
    struct weir_fleet_stat stat;
    uint64_t stat_next; /* the epoch after the next look at it; 0: the same */
    _Atomic bool there;
};

#define FAKES 16
static struct fake fakes[FAKES];
static _Atomic int joined, left, wants;
static _Atomic bool fails;
static member_moved *moved;

static void want(struct lease_balance *balance, int64_t n)
{
    (void)n;
    atomic_fetch_add(&wants, 1);
    weir_balance_rearm(balance);
}

static void explain(struct lease_balance *balance, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    const struct fake *fake = balance->owner;
    (void)now;
    (void)n;
    verdict->reason = fake->stat.lost ? WEIR_LOST : WEIR_LATER;
    verdict->retry_after_ns = fake->stat.exhausted || fake->stat.lost ? WEIR_SEC : WEIR_MS;
}

static bool acquire(struct lease_balance *balance, int64_t now, int64_t n, int64_t timeout_ns,
                    struct weir_stop *stop, struct weir_verdict *verdict)
{
    (void)balance, (void)now, (void)n, (void)timeout_ns, (void)stop, (void)verdict;
    return false;
}

static void leave(struct lease_balance *balance)
{
    struct fake *fake = balance->owner;
    fake->there = false;
    atomic_fetch_add(&left, 1);
}

static void cancel(struct lease_balance *balance)
{
    (void)balance;
}

static const struct balance_ops by_hand = {want, explain, acquire, leave, cancel};

struct weir_limiter *__wrap_weir_member_join(const char *url, const char *name, const char *spec,
                                             const struct weir_fleet_options *options, bool patient,
                                             struct weir_error *err);
void __wrap_weir_member_watch(struct weir_limiter *limiter, member_moved *told, void *arg);
void __wrap_weir_member_trouble(struct weir_limiter *limiter, char *text, size_t size);
bool __wrap_weir_fleet_stat(struct weir_limiter *limiter, struct weir_fleet_stat *stat);

struct weir_limiter *__wrap_weir_member_join(const char *url, const char *name, const char *spec,
                                             const struct weir_fleet_options *options, bool patient,
                                             struct weir_error *err)
{
    struct fake *fake = &fakes[atomic_load(&joined) % FAKES];
    (void)url, (void)options;
    if (!patient || fails)
        return NULL;
    memset(fake, 0, sizeof *fake);
    weir_balance_init(&fake->balance, &by_hand, fake);
    (void)snprintf(fake->name, sizeof fake->name, "%s", name);
    fake->stat = (struct weir_fleet_stat){.total = 1000, .epoch = 7, .connected = 1, .left = 500};
    fake->limiter = weir_balance_limiter(&fake->balance, spec, err);
    fake->there = fake->limiter != NULL;
    atomic_fetch_add(&joined, fake->there);
    return fake->limiter;
}

static struct fake *fake_of(const struct weir_limiter *limiter)
{
    return weir_limiter_balance(limiter)->owner;
}

void __wrap_weir_member_watch(struct weir_limiter *limiter, member_moved *told, void *arg)
{
    (void)limiter, (void)arg;
    moved = told;
}

void __wrap_weir_member_trouble(struct weir_limiter *limiter, char *text, size_t size)
{
    (void)snprintf(text, size, "%s", fake_of(limiter)->stat.lost ? "no route, to\nhost" : "");
}

bool __wrap_weir_fleet_stat(struct weir_limiter *limiter, struct weir_fleet_stat *stat)
{
    struct fake *fake = fake_of(limiter);
    *stat = fake->stat;
    stat->held = weir_balance_held(&fake->balance);
    if (fake->stat_next > 0)
        fake->stat.epoch = fake->stat_next;
    return true;
}

/* ---- the server ---- */

#define FLEET(MORE)                                                                                          \
    "policies:\n"                                                                                            \
    "  - name: egress\n"                                                                                     \
    "    limits: [1000/m algo=quota]\n"                                                                      \
    "    fleet: {coordinator: \"weir://me:s3cret@h\", base: 100" MORE "}\n"                                  \
    "  - name: local\n"                                                                                      \
    "    limits: [5/m]\n"

/* The fleet joiner joins in its own time. */
static struct fake *wait_for(int count)
{
    int64_t until_ns = weir_monotonic_ns() + PATIENCE;
    while (atomic_load(&joined) < count && weir_monotonic_ns() < until_ns)
        (void)sched_yield();
    CHECK_EQ(atomic_load(&joined), count);
    return &fakes[(count - 1) % FAKES];
}

static bool is_joined(struct kit *kit, const char *policy)
{
    const struct snapshot *snapshot = atomic_load(&kit->service->snapshot);
    const struct policy *found = weir_snapshot_policy(snapshot, (struct slice){policy, strlen(policy)});
    return !found->pools->one || pool_limiter(found->pools->one);
}

static struct fake *open_fleet(struct kit *kit, const char *yaml)
{
    struct service_options options = {.workers = 1};
    atomic_store(&joined, 0);
    atomic_store(&left, 0);
    weir_clock_set(START_MS * WEIR_MS);
    if (!CHECK(kit_open_with(kit, yaml, &options)))
        return NULL;
    struct fake *fake = wait_for(1);
    while (!is_joined(kit, "egress"))
        (void)sched_yield();
    return fake;
}

/* A window of a minute with so many units. */
static void fill(struct fake *fake, int64_t units)
{
    (void)weir_balance_set_deadline(&fake->balance, (START_MS + 60000) * WEIR_MS);
    weir_balance_put(&fake->balance, units);
}

#define COUNT(KIT, FIELD) kit_field(kit_ask((KIT), "WEIR.POLICY SHOW egress"), FIELD)

TEST(takes_of_all_keys_come_out_of_one_balance)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(""));
    if (!fake)
        return;
    CHECK_STR(fake->name, "egress");
    fill(fake, 100);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress a 30"), "remaining"), 70);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress b 30"), "remaining"), 40);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK egress c"), "remaining"), 40);
    CHECK_STR(kit_ask(&kit, "WEIR.GIVE egress a 10"), "+OK\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.CHARGE egress a 45"), "+OK\r\n");
    CHECK_EQ(weir_balance_held(&fake->balance), 5);
    CHECK(strstr(kit_ask(&kit, "WEIR.RESET egress a"), "weir quota set") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.POLICY SET egress 5/s"), "weir quota set") != NULL);
    kit_close(&kit);
    CHECK_EQ(atomic_load(&left), 1);
}

TEST(who_finds_it_empty_waits_for_the_coordinator)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(""));
    if (!fake)
        return;
    const char *const lines[] = {"WEIR.TAKE egress a 3", "PING"};
    atomic_store(&wants, 0);
    CHECK_STR(kit_ask_lines(&kit, lines, 2), "");
    CHECK_EQ(kit.state, RUN_PENDING);
    CHECK(atomic_load(&wants) >= 1);
    CHECK_EQ(atomic_load(&kit.worker->waiting), 1);
    CHECK_STR(kit_resume(&kit), "");
    CHECK_EQ(kit.state, RUN_PENDING);
    fill(fake, 10);
    CHECK_EQ(kit_field(kit_resume(&kit), "remaining"), 7);
    CHECK_EQ(kit.state, RUN_READY);
    CHECK_EQ(atomic_load(&kit.worker->waiting), 0);
    CHECK_EQ(COUNT(&kit, "allowed"), 1);
    CHECK_EQ(COUNT(&kit, "refused"), 0);
    CHECK_EQ(weir_balance_held(&fake->balance), 7);
    kit_close(&kit);
}

TEST(who_asks_by_http_waits_as_well)
{
    static const char request[] = "GET /v1/take/egress/a?n=3 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char batch[] =
        "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 44\r\n\r\n{\"requests\":[{\"policy\":\"egress\",\"key\":\"a\"}]}";
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(", wait: 20ms"));
    if (!fake)
        return;
    CHECK_STR(kit_ask_http(&kit, request, sizeof request - 1), "");
    CHECK_EQ(kit.state, RUN_PENDING);
    CHECK_STR(kit_resume(&kit), "");
    fill(fake, 10);
    const char *answer = kit_resume(&kit);
    CHECK(strncmp(answer, "HTTP/1.1 200 OK\r\n", 17) == 0 && strstr(answer, "\"remaining\":7,"));
    CHECK_EQ(kit.state, RUN_READY);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress a 7"), "allowed"), 1);
    CHECK(strstr(kit_ask_http(&kit, batch, sizeof batch - 1), "\"allowed\":false")); /* a batch does not */
    CHECK_STR(kit_ask_http(&kit, request, sizeof request - 1), "");
    kit_clock(&kit, START_MS + 20);
    answer = kit_resume(&kit);
    CHECK(strncmp(answer, "HTTP/1.1 429 ", 13) == 0 && strstr(answer, "\r\nRetry-After: 1\r\n"));
    CHECK_EQ(atomic_load(&kit.worker->waiting), 0);
    kit_close(&kit);
}

TEST(nobody_waits_longer_than_wait)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(", wait: 20ms"));
    if (!fake)
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE egress a"), "");
    kit_clock(&kit, START_MS + 19);
    CHECK_STR(kit_resume(&kit), "");
    kit_clock(&kit, START_MS + 20);
    const char *answer = kit_resume(&kit);
    CHECK_EQ(kit_field(answer, "allowed"), 0);
    CHECK_STR(kit_text(answer, "reason"), "later");
    CHECK_EQ(COUNT(&kit, "refused"), 1);
    kit_close(&kit);
    fake = open_fleet(&kit, FLEET(", wait: 0"));
    if (!fake)
        return;
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress a"), "allowed"), 0);
    kit_close(&kit);
}

TEST(an_error_after_a_wait_counts_with_its_policy)
{
    struct kit kit, other;
    struct fake *fake = open_fleet(&kit, FLEET(""));
    if (!fake)
        return;
    kit_join(&other, &kit, 0);
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE egress a 3 AND local a"), "");
    CHECK_STR(kit_ask(&other, "WEIR.FREEZE local redis://b:1"), "+OK\r\n");
    CHECK(strncmp(kit_resume(&kit), "-ELSEWHERE ", 11) == 0);
    CHECK_EQ(kit.state, RUN_READY);
    CHECK_EQ(COUNT(&kit, "errors"), 1);
    CHECK_EQ(atomic_load(&kit.worker->errors), 1);
    kit_leave(&other);
    kit_close(&kit);
}

TEST(nobody_waits_for_what_will_not_come)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(""));
    if (!fake)
        return;
    fake->stat.exhausted = 1;
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE egress a"), "reason"), "later");
    fake->stat.exhausted = 0;
    fake->stat.lost = 1;
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE egress a"), "reason"), "lost");
    CHECK(strstr(kit_ask(&kit, "INFO fleet"), ",lost=1,") != NULL);
    CHECK(strstr(kit_ask(&kit, "INFO fleet"), "trouble=no route  to host\r\n") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.EXPLAIN egress a"), "the coordinator is lost: no route") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.EXPLAIN egress a"), "; none passes until the coordinator answers") !=
          NULL);
    CHECK(!strstr(kit_ask(&kit, "INFO everything"), "s3cret"));
    fake->stat.connected = 0;
    fake->stat.orders = 5;
    fake->stat.failures = 2;
    weir_balance_put(&fake->balance, 12);
    const char *metrics = kit_ask(&kit, "WEIR.METRICS");
    CHECK_EQ(exposition_value(metrics, "weir_fleet_members{policy=\"egress\"}"), 1);
    CHECK_EQ(exposition_value(metrics, "weir_fleet_members_connected{policy=\"egress\"}"), 0);
    CHECK_EQ(exposition_value(metrics, "weir_fleet_members_lost{policy=\"egress\"}"), 1);
    CHECK_EQ(exposition_value(metrics, "weir_fleet_coordinator_reachable{policy=\"egress\"}"), 0);
    CHECK_EQ(exposition_value(metrics, "weir_fleet_orders_total{policy=\"egress\"}"), 5);
    CHECK_EQ(exposition_value(metrics, "weir_fleet_order_failures_total{policy=\"egress\"}"), 2);
    CHECK_EQ(exposition_value(metrics, "weir_fleet_balance_units{policy=\"egress\"}"), 12);
    CHECK_EQ(exposition_value(metrics, "weir_fleet_members{policy=\"local\"}"), INT64_MIN);
    CHECK_EQ(exposition_value(metrics, "weir_ready"), 1); /* a coordinator that is away is no reason */
    fake->stat.connected = 1;
    metrics = kit_ask(&kit, "WEIR.METRICS");
    CHECK_EQ(exposition_value(metrics, "weir_fleet_coordinator_reachable{policy=\"egress\"}"), 1);
    CHECK(!strstr(metrics, "s3cret"));
    CHECK(!strstr(kit_ask(&kit, "WEIR.POLICY SHOW egress"), "s3cret"));
    CHECK(!strstr(kit_ask(&kit, "WEIR.POLICY LIST"), "s3cret"));
    CHECK(!strstr(kit_ask(&kit, "WEIR.EXPLAIN egress a JSON"), "s3cret"));
    kit_close(&kit);
}

/* A pool that is there keeps its own limit: whoever wrote another one has to hear of it. */
TEST(a_pool_with_another_limit_is_no_secret)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(", child_chunk: 20"));
    if (!fake)
        return;
    fake->stat.window_ns = 60 * WEIR_SEC;
    CHECK(strstr(kit_ask(&kit, "INFO fleet"), ",differs=0,") != NULL);
    CHECK(!strstr(kit_ask(&kit, "WEIR.EXPLAIN egress a"), "another limit"));
    fake->stat.total = 500;
    fake->stat.window_ns = 10 * WEIR_SEC;
    CHECK(strstr(kit_ask(&kit, "INFO fleet"), ",differs=1,") != NULL);
    CHECK(strstr(
              kit_ask(&kit, "WEIR.EXPLAIN egress a"),
              "  the pool has another limit than this policy, and that holds: 500 every 10 s; weir quota set "
              "changes it\n") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.EXPLAIN egress a JSON"), "\"differs\":true") != NULL);
    fill(fake, 90);
    const char *answer = kit_ask(&kit, "WEIR.LEASE egress 1"); /* those below are told what holds */
    CHECK_EQ(kit_field(answer, "total"), 500);
    CHECK_EQ(kit_field(answer, "window_ms"), 10000);
    CHECK_STR(kit_text(answer, "kind"), "quota");
    kit_close(&kit);
}

TEST(who_goes_away_while_it_waits_has_taken_nothing)
{
    struct kit kit, other;
    struct fake *fake = open_fleet(&kit, FLEET(""));
    if (!fake)
        return;
    kit_join(&other, &kit, 0);
    CHECK_STR(kit_ask(&other, "WEIR.TAKE egress a"), "");
    kit_leave(&other);
    CHECK_EQ(atomic_load(&kit.worker->waiting), 0);
    fill(fake, 1);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress a"), "allowed"), 1);
    kit_close(&kit);
}

TEST(several_pairs_are_all_or_none)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(""));
    if (!fake)
        return;
    fill(fake, 100);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress a 10 AND local a 4"), "allowed"), 1);
    CHECK_EQ(weir_balance_held(&fake->balance), 90);
    const char *answer = kit_ask(&kit, "WEIR.TAKE local a 4 AND egress a 10");
    CHECK_EQ(kit_field(answer, "allowed"), 0);
    CHECK_STR(kit_text(answer, "limit"), "local/5/m");
    CHECK_EQ(weir_balance_held(&fake->balance), 90);
    answer = kit_ask(&kit, "WEIR.TAKE egress a 10 AND local b 1");
    CHECK_STR(kit_text(answer, "limit"), "local/5/m");
    CHECK_EQ(weir_balance_held(&fake->balance), 80);
    fake->stat.exhausted = 1;
    answer = kit_ask(&kit, "WEIR.TAKE egress a 81 AND local b 1");
    CHECK_STR(kit_text(answer, "limit"), "egress/1k/m algo=quota");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK local b"), "remaining"), 4);
    fake->stat.exhausted = 0;
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE egress a 81 AND local b 1"), "");
    CHECK_EQ(kit.state, RUN_PENDING);
    weir_balance_put(&fake->balance, 1);
    CHECK_EQ(kit_field(kit_resume(&kit), "allowed"), 1);
    CHECK_EQ(weir_balance_held(&fake->balance), 0);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK local b"), "remaining"), 3);
    kit_close(&kit);
}

TEST(an_id_that_waited_decides_once)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(""));
    if (!fake)
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE egress a 5 ID x"), "");
    fill(fake, 10);
    CHECK_EQ(kit_field(kit_resume(&kit), "remaining"), 5);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress a 5 ID x"), "remaining"), 5);
    CHECK_EQ(weir_balance_held(&fake->balance), 5);
    CHECK(strstr(kit_ask(&kit, "WEIR.TAKE egress b 5 ID x"), "another question") != NULL);
    kit_close(&kit);
}

static const char *settle(struct kit *kit, const char *verb, const char *id, const char *n)
{
    char line[128];
    (void)snprintf(line, sizeof line, "%s %s%s", verb, id, n);
    return kit_ask(kit, line);
}

TEST(what_was_reserved_comes_back_within_its_window_only)
{
    struct kit kit;
    char first[64], second[64];
    struct fake *fake = open_fleet(&kit, FLEET(""));
    if (!fake)
        return;
    fill(fake, 100);
    (void)snprintf(first, sizeof first, "%s", kit_text(kit_ask(&kit, "WEIR.RESERVE egress a 40"), "id"));
    (void)snprintf(second, sizeof second, "%s",
                   kit_text(kit_ask(&kit, "WEIR.RESERVE egress a 20 AND local a 2"), "id"));
    CHECK_EQ(weir_balance_held(&fake->balance), 40);
    CHECK_EQ(kit_field(settle(&kit, "WEIR.COMMIT", first, " 10"), "given_back"), 30);
    CHECK_EQ(weir_balance_held(&fake->balance), 70);
    (void)weir_balance_set_deadline(&fake->balance, (START_MS + 120000) * WEIR_MS);
    weir_balance_put(&fake->balance, 50);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress a 25"), "remaining"), 25);
    (void)settle(&kit, "WEIR.CANCEL", second, "");
    CHECK_EQ(weir_balance_held(&fake->balance), 25);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK local a"), "remaining"), 5);
    kit_close(&kit);
}

TEST(acquire_waits_as_long_as_it_says)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(""));
    if (!fake)
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.ACQUIRE egress a 5 TIMEOUT 3000"), "");
    kit_clock(&kit, START_MS + 1000);
    CHECK_STR(kit_resume(&kit), "");
    fill(fake, 10);
    const char *answer = kit_resume(&kit);
    CHECK_EQ(kit_field(answer, "allowed"), 1);
    CHECK_EQ(kit_field(answer, "waited_ms"), 1000);
    CHECK_STR(kit_ask(&kit, "WEIR.ACQUIRE egress a 6 TIMEOUT 500"), "");
    kit_clock(&kit, START_MS + 1500);
    answer = kit_resume(&kit);
    CHECK_EQ(kit_field(answer, "allowed"), 0);
    CHECK_EQ(kit_field(answer, "waited_ms"), 500);
    fake->stat.exhausted = 1; /* it is known that nothing comes for a second */
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.ACQUIRE egress a 6 TIMEOUT 500"), "allowed"), 0);
    kit_close(&kit);
}

TEST(shadow_and_disabled_do_not_wait)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(""));
    if (!fake)
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY MODE egress shadow"), "+OK\r\n");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE egress a"), "reason"), "shadow");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE egress a AND local a"), "reason"), "shadow");
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.PEEK local a"), "remaining"), 4);
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY MODE egress disabled"), "+OK\r\n");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE egress a"), "reason"), "disabled");
    kit_close(&kit);
}

TEST(what_is_leased_on_late_ends_with_what_it_was_taken_from)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(", child_chunk: 20"));
    if (!fake)
        return;
    fill(fake, 90);
    weir_clock_set((START_MS + 12000) * WEIR_MS);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 1"), "expires_in_ms"), 48000);
    kit_close(&kit);
}

TEST(what_was_leased_is_leased_on_with_its_own_end)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(", child_chunk: 20"));
    if (!fake)
        return;
    fill(fake, 90);
    const char *answer = kit_ask(&kit, "WEIR.LEASE egress 3");
    CHECK_EQ(kit_field(answer, "units"), 60);
    CHECK_EQ(kit_field(answer, "chunk"), 20);
    CHECK_EQ(kit_field(answer, "epoch"), 7);
    CHECK_EQ(kit_field(answer, "expires_in_ms"), 60000);
    CHECK_EQ(kit_field(answer, "total"), 1000);
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 7 1"), ":1\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 8 1"), ":0\r\n");
    CHECK_EQ(weir_balance_held(&fake->balance), 50);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 9"), "units"), 40); /* whole chunks */
    CHECK_STR(kit_ask(&kit, "WEIR.LEASE egress 1"), "");                    /* more is on its way */
    CHECK_EQ(kit.state, RUN_PENDING);
    weir_balance_put(&fake->balance, 20);
    CHECK_EQ(kit_field(kit_resume(&kit), "units"), 20);
    fake->stat.exhausted = 1; /* who asks too early would ask all the time */
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 1"), "retry_after_ms"), 1000);
    (void)weir_balance_set_deadline(&fake->balance, (START_MS + 120000) * WEIR_MS);
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 7 1"), ":1\r\n"); /* accepted, and dead with its window */
    CHECK_EQ(weir_balance_held(&fake->balance), 0);
    kit_close(&kit);
}

/* The balance is filled between a look at the epoch and the take: units of the new one, told as those of the
 * old, would be lifted by what comes back of that. */
TEST(units_are_never_told_as_those_of_an_earlier_epoch)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(", child_chunk: 20"));
    if (!fake)
        return;
    fill(fake, 40);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 1"), "epoch"), 7);
    fake->stat_next = 8;
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 1"), "epoch"), 8);
    CHECK_STR(kit_ask(&kit, "WEIR.RETURN egress 7 1"), ":0\r\n");
    CHECK_EQ(weir_balance_held(&fake->balance), 0);
    kit_close(&kit);
}

/* A share that is spent while its coordinator has never been reached cannot be leased on. */
TEST(nothing_is_taken_that_cannot_be_told)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(", child_chunk: 20"));
    if (!fake)
        return;
    fill(fake, 90);
    fake->stat.epoch = 0;
    CHECK(strncmp(kit_ask(&kit, "WEIR.LEASE egress 2"), "-TRYAGAIN ", 10) == 0);
    CHECK_EQ(weir_balance_held(&fake->balance), 90);
    kit_close(&kit);
}

/* Who looks has nothing to wait for, and holds up all that comes behind him; so he is told to come again. */
TEST(a_look_at_a_pool_that_is_being_joined_is_to_be_tried_again)
{
    struct kit kit;
    struct fake *fake = open_fleet(&kit, FLEET(", child_chunk: 20"));
    if (!fake)
        return;
    fake->stat.epoch = 0;
    CHECK(strncmp(kit_ask(&kit, "WEIR.LEASE egress 0"), "-TRYAGAIN ", 10) == 0);
    CHECK_EQ(kit.state, RUN_READY);
    fake->stat.epoch = 7;
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress 0"), "epoch"), 7);
    kit_close(&kit);
}

/* The names of a node share a line, and a request that waits holds up all that is behind it: of many keys
 * that is all of them. */
TEST(a_lease_of_one_key_does_not_wait)
{
    struct kit kit;
    struct service_options options = {.workers = 1};
    atomic_store(&joined, 0);
    weir_clock_set(START_MS * WEIR_MS);
    if (!CHECK(kit_open_with(&kit, FLEET(", keys: each, child_chunk: 20"), &options)))
        return;
    atomic_store(&fails, true);
    CHECK(strncmp(kit_ask(&kit, "WEIR.LEASE egress:ann 1"), "-TRYAGAIN ", 10) == 0);
    atomic_store(&fails, false);
    struct fake *fake = wait_for(1);
    int64_t until_ns = weir_monotonic_ns() + PATIENCE;
    while (kit_ask(&kit, "WEIR.LEASE egress:ann 0")[0] == '-' && weir_monotonic_ns() < until_ns)
        (void)sched_yield();
    const char *answer = kit_ask(&kit, "WEIR.LEASE egress:ann 1");
    CHECK_EQ(kit_field(answer, "units"), 0);
    CHECK_EQ(kit_field(answer, "retry_after_ms"), 10);
    fill(fake, 40);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.LEASE egress:ann 1"), "units"), 20);
    kit_close(&kit);
}

TEST(each_key_joins_and_there_is_a_bound)
{
    struct kit kit;
    struct service_options options = {.workers = 1};
    atomic_store(&joined, 0);
    weir_clock_set(START_MS * WEIR_MS);
    if (!CHECK(kit_open_with(&kit, FLEET(", keys: each, pools: 2"), &options)))
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE egress ann 3"), ""); /* it is being joined */
    struct fake *ann = wait_for(1);
    CHECK_STR(ann->name, "egress:ann");
    fill(ann, 10);
    int64_t until_ns = weir_monotonic_ns() + PATIENCE;
    const char *answer = "";
    while (!answer[0] && weir_monotonic_ns() < until_ns)
        answer = kit_resume(&kit);
    CHECK_EQ(kit_field(answer, "remaining"), 7);
    struct kit other;
    kit_join(&other, &kit, 0);
    CHECK_STR(kit_ask(&other, "WEIR.TAKE egress \"a b\""), "");
    struct fake *digest = wait_for(2);
    CHECK(strncmp(digest->name, "egress:@", 8) == 0);
    CHECK_EQ(strlen(digest->name), 48);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE egress eve"), "reason"), "full");
    CHECK(strstr(kit_ask(&kit, "WEIR.LEASE egress:eve 1"), "as many pools as it may have: 2") != NULL);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress ann"), "remaining"), 6);
    CHECK(strstr(kit_ask(&kit, "INFO fleet"), "keys=each,pools=2,most=2,") != NULL);
    const char *metrics = kit_ask(&kit, "WEIR.METRICS");
    CHECK_EQ(exposition_value(metrics, "weir_fleet_members{policy=\"egress\"}"), 2);
    CHECK_EQ(exposition_value(metrics, "weir_fleet_coordinator_reachable{policy=\"egress\"}"), 1);
    /* Pools of keys come and go: their sum is no counter. */
    CHECK_EQ(exposition_value(metrics, "weir_fleet_orders_total{policy=\"egress\"}"), INT64_MIN);
    kit_leave(&other);
    atomic_store(&left, 0);
    kit_clock(&kit, START_MS + 120000); /* two windows: who was not asked leaves, and makes room */
    until_ns = weir_monotonic_ns() + PATIENCE;
    while (atomic_load(&left) < 2 && weir_monotonic_ns() < until_ns)
        (void)sched_yield();
    CHECK_EQ(atomic_load(&left), 2);
    CHECK_STR(kit_ask(&kit, "WEIR.TAKE egress eve"), "");
    CHECK_STR(wait_for(3)->name, "egress:eve");
    kit_close(&kit);
}

/* A pool that cannot be joined holds its place no longer than others. */
TEST(who_never_joined_goes_as_well)
{
    struct kit kit;
    struct service_options options = {.workers = 1};
    atomic_store(&joined, 0);
    weir_clock_set(START_MS * WEIR_MS);
    if (!CHECK(kit_open_with(&kit, FLEET(", keys: each, pools: 2, wait: 0"), &options)))
        return;
    atomic_store(&fails, true);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE egress ann"), "reason"), "lost");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE egress bob"), "reason"), "lost");
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE egress eve"), "reason"), "full");
    kit_clock(&kit, START_MS + 120000);
    int64_t until_ns = weir_monotonic_ns() + PATIENCE;
    while (!strstr(kit_ask(&kit, "INFO fleet"), "pools=0,") && weir_monotonic_ns() < until_ns)
        (void)sched_yield();
    CHECK(strstr(kit_ask(&kit, "INFO fleet"), "pools=0,") != NULL);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE egress eve"), "reason"), "lost");
    atomic_store(&fails, false);
    CHECK_STR(wait_for(1)->name, "egress:eve");
    kit_close(&kit);
}

/* What is the same after a reload stays joined, with what it holds. */
TEST(a_reload_keeps_what_has_not_changed)
{
    struct kit kit;
    struct weir_error err;
    struct fake *fake = open_fleet(&kit, FLEET(""));
    if (!fake)
        return;
    fill(fake, 10);
    const char *same = FLEET("") "  - name: more\n    limits: [7/s]\n", *other = FLEET(", nodes: 3");
    struct config *config = weir_config_parse("w.yaml", same, strlen(same), NULL, NULL);
    CHECK(weir_service_apply(kit.service, config, &err));
    weir_config_free(config);
    CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.TAKE egress a"), "remaining"), 9);
    CHECK_EQ(atomic_load(&joined), 1);
    config = weir_config_parse("w.yaml", other, strlen(other), NULL, NULL);
    CHECK(weir_service_apply(kit.service, config, &err));
    weir_config_free(config);
    (void)wait_for(2);
    CHECK_EQ(atomic_load(&left), 1); /* before: two of a name would share what one of them was told */
    kit_close(&kit);
    CHECK_EQ(atomic_load(&left), 2);
}

TEST(a_test_clock_is_nobody_elses)
{
    struct kit kit;
    struct weir_error err;
    struct config *config = weir_config_parse("w.yaml", FLEET(""), strlen(FLEET("")), NULL, NULL);
    struct service_options options = {.workers = 1, .test_clock = true};
    if (!CHECK(config != NULL))
        return;
    kit.service = weir_service_new(config, &options, &err);
    CHECK(kit.service == NULL);
    CHECK(strstr(err.text, "--test-clock") != NULL);
    weir_config_free(config);
}
