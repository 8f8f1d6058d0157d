/* SPDX-License-Identifier: MIT */
/*
 * Pools in ZooKeeper while something is missing: a request that is not sent, or whose answer is lost with the
 * connection, applied or not; or a piece of memory, each in turn. Whatever it is: every order is answered
 * once, of no epoch more is granted than its total and what came back, and a bucket gives no more than its
 * burst while no time passes.
 */
#include "base/sat.h"
#include "check.h"
#include "unit/failing_memory.h"
#include "unit/fleet/fake_zclient.h"

#define POOL "/weir/quota/egress"

enum { ORDERS_MAX = 64, EPOCHS_MAX = 32, MEMBERS = 2 };

static const struct lease_terms hundred = {
    .kind = LEASE_QUOTA, .total = 100, .window_ns = 10 * WEIR_SEC, .base = 10, .chunk = 10};
static const struct lease_terms flow = {
    .kind = LEASE_BUCKET, .total = 1000, .window_ns = WEIR_SEC, .burst = 110, .base = 10, .chunk = 10};

/* ---- the account ---- */

static struct {
    uint64_t epoch;
    int64_t total, granted, returned;
} epochs[EPOCHS_MAX];

static struct {
    struct lease_order orders[ORDERS_MAX];
    int answers[ORDERS_MAX];
    uint64_t count;
    int64_t at_once; /* BUCKET: units that may be spent while the clock stands still */
    int64_t taken;   /* units */
    int64_t turned;
    uint64_t ended[EPOCHS_MAX]; /* epochs, by those */
} all;

struct fleet_member {
    struct pool_handle *handle;
    uint64_t epoch; /* the latest it has heard of */
};

static void count_epoch(const struct lease_reply *reply, int64_t granted, int64_t returned)
{
    size_t i = 0;
    while (i < EPOCHS_MAX && epochs[i].epoch != 0 && epochs[i].epoch != reply->epoch)
        i++;
    if (!CHECK(i < EPOCHS_MAX))
        return;
    epochs[i].epoch = reply->epoch;
    epochs[i].total = reply->terms.chunk > 0 ? reply->terms.total : epochs[i].total;
    epochs[i].granted += granted;
    epochs[i].returned += returned;
    if (granted > 0)
        CHECK(epochs[i].granted <= epochs[i].total + epochs[i].returned);
}

static void take_reply(const struct lease_reply *reply)
{
    const struct lease_order *order = &all.orders[reply->id];
    CHECK(reply->units >= 0 && reply->units <= sat_mul(order->chunks, 10));
    CHECK(reply->units == 0 || reply->terms.chunk == 10);
    all.taken += reply->units;
    if (reply->units > 0 && reply->terms.kind == LEASE_QUOTA)
        count_epoch(reply, reply->units, 0);
    if (reply->units > 0 && reply->terms.kind == LEASE_BUCKET && reply->starts_ns == 0)
        all.at_once += reply->units;
    CHECK(all.at_once <= flow.burst);
}

/* One ends an epoch, whoever tries. */
static void note_turn(uint64_t epoch)
{
    for (int64_t i = 0; i < all.turned; i++)
        CHECK(all.ended[i] != epoch);
    if (CHECK(all.turned < EPOCHS_MAX))
        all.ended[all.turned++] = epoch;
}

static void replied(void *owner, const struct lease_reply *reply)
{
    struct fleet_member *member = owner;
    if (!CHECK(reply->id > 0 && reply->id <= all.count))
        return;
    CHECK_EQ(reply->op, all.orders[reply->id].op);
    CHECK_EQ(all.answers[reply->id]++, 0);
    if (reply->outcome == LEASE_DONE && reply->op == LEASE_TAKE)
        take_reply(reply);
    /* A return without an answer may have been applied: it counts as such. */
    if (reply->op == LEASE_RETURN && (reply->outcome == LEASE_DONE || reply->outcome == LEASE_UNKNOWN)) {
        struct lease_reply of = {.epoch = all.orders[reply->id].epoch};
        count_epoch(&of, 0, all.orders[reply->id].chunks * 10);
    }
    if (reply->op == LEASE_TURN && reply->outcome == LEASE_DONE)
        note_turn(all.orders[reply->id].epoch);
    if (reply->epoch > member->epoch)
        member->epoch = reply->epoch;
}

static void noticed(void *owner, const struct lease_reply *seen)
{
    struct fleet_member *member = owner;
    if (seen->epoch > member->epoch)
        member->epoch = seen->epoch;
}

static void heard(void *owner)
{
    (void)owner;
}

static void moved(void *agent, bool up, const char *why)
{
    (void)agent, (void)up, (void)why;
}

/* ---- a story ---- */

static void order(struct fleet_member *member, int32_t op, int64_t chunks)
{
    if (!member->handle || !CHECK(all.count + 1 < ORDERS_MAX))
        return;
    struct lease_order asked = {
        .id = ++all.count, .op = op, .epoch = member->epoch, .chunks = chunks, .chunk = 10};
    all.orders[asked.id] = asked;
    weir_coordinator_zookeeper.order(member->handle, &asked);
}

/* What is lost is tried again by the machine; here, a little of that. */
static void live(struct fleet_member *a, struct fleet_member *b)
{
    static const struct {
        int32_t op;
        int64_t chunks_a, chunks_b; /* below 0: it does nothing */
    } ops[] = {{LEASE_LOOK, 0, 0},    {LEASE_TAKE, 3, 2},  {LEASE_PROBE, 0, -1}, {LEASE_RETURN, 1, -1},
               {LEASE_TAKE, 2, 7},    {LEASE_TURN, 0, 0},  {LEASE_TAKE, 4, 4},   {LEASE_RETURN, -1, 2},
               {LEASE_PROBE, -1, 0},  {LEASE_TAKE, 32, 3}, {LEASE_LOOK, 0, -1},  {LEASE_TURN, -1, 0},
               {LEASE_RETURN, 1, -1}, {LEASE_TAKE, 1, 1}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (ops[i].chunks_a >= 0)
            order(a, ops[i].op, ops[i].chunks_a);
        if (ops[i].chunks_b >= 0)
            order(b, ops[i].op, ops[i].chunks_b);
        fake_zclient_run();
    }
}

/* An operator, and whoever writes what he should not. */
static void meddle(struct fleet_member *a, struct fleet_member *b)
{
    fake_zclient_write(POOL "/total", "200");
    fake_zclient_run();
    order(a, LEASE_TURN, 0);
    fake_zclient_run();
    order(b, LEASE_TAKE, 2);
    fake_zclient_run();
    fake_zclient_write(POOL "/refresh", "kind=quota total=1000000");
    order(a, LEASE_TAKE, 2);
    fake_zclient_run();
    fake_zclient_write(POOL "/usable", NULL);
    int64_t before = all.taken;
    order(b, LEASE_TAKE, 3);
    fake_zclient_run();
    order(a, LEASE_TAKE, 3);
    fake_zclient_run();
    CHECK_EQ(all.taken, before); /* nobody knows how much of the window was given out */
}

static struct coordinator *begin(void)
{
    struct server_url url = {0};
    struct sink sink = {.replied = replied, .noticed = noticed, .more = heard, .moved = moved};
    struct coordinator_options options = {100 * WEIR_SEC, 5 * WEIR_SEC, 10 * WEIR_SEC};
    struct weir_error err = {0};
    memset(epochs, 0, sizeof epochs);
    memset(&all, 0, sizeof all);
    (void)snprintf(url.path, sizeof url.path, "/weir");
    struct coordinator *zoo = weir_coordinator_zookeeper.open(&url, &options, &sink, &err);
    CHECK(zoo || err.text[0] != '\0');
    return zoo;
}

static void story(const struct lease_terms *terms)
{
    struct fleet_member members[MEMBERS] = {0};
    struct coordinator *zoo = begin();
    for (int i = 0; zoo && i < MEMBERS; i++) {
        struct weir_error err = {0};
        members[i].handle = weir_coordinator_zookeeper.enter(zoo, "egress", terms, &members[i], &err);
        CHECK(members[i].handle || err.text[0] != '\0');
    }
    if (zoo) {
        live(&members[0], &members[1]);
        if (terms->kind == LEASE_QUOTA)
            meddle(&members[0], &members[1]);
    }
    for (uint64_t id = 1; id <= all.count; id++)
        CHECK_EQ(all.answers[id], 1);
    order(&members[0], LEASE_TAKE, 1); /* on the way when it leaves */
    order(&members[1], LEASE_RETURN, 1);
    for (int i = 0; i < MEMBERS; i++)
        if (members[i].handle)
            weir_coordinator_zookeeper.leave(members[i].handle);
    if (zoo)
        weir_coordinator_zookeeper.close(zoo);
}

/* ---- tests ---- */

TEST(without_a_failure_all_of_it_is_done)
{
    fake_zclient_begin();
    story(&hundred);
    CHECK(all.taken >= 200 && all.turned >= 2);
    fake_zclient_begin();
    story(&flow);
    CHECK(all.taken >= 80 && all.taken <= 200);
}

static void try_each_request(const struct lease_terms *terms)
{
    for (int trouble = TROUBLE_NOT_SENT; trouble <= TROUBLE_LOST_LATE; trouble++) {
        int64_t n = 0;
        bool reached = true;
        for (; reached && n < 2000; n++) {
            long faults = check.faults;
            fake_zclient_begin();
            fake_zclient_trouble((enum fake_trouble)trouble, n);
            story(terms);
            reached = fake_zclient_had_trouble();
            if (check.faults != faults) {
                printf("# trouble %d at request %" PRId64 "\n", trouble, n);
                return;
            }
        }
        CHECK(!reached && n > 50);
    }
}

TEST(whichever_request_of_a_quota_is_lost_nothing_is_over)
{
    try_each_request(&hundred);
}

TEST(whichever_request_of_a_bucket_is_lost_nothing_is_over)
{
    try_each_request(&flow);
}

TEST(whichever_piece_of_memory_is_missing_nothing_is_over)
{
    for (int kind = 0; kind < 2; kind++) {
        int64_t n = 0;
        bool reached = true;
        for (; reached && n < 2000; n++) {
            long faults = check.faults;
            fake_zclient_begin();
            allocation_site = NULL;
            allocations_left = n;
            story(kind ? &flow : &hundred);
            allocations_left = -1;
            reached = allocation_site != NULL;
            if (check.faults != faults) {
                printf("# allocation %" PRId64 "\n", n);
                return;
            }
        }
        CHECK(!reached && n > 20);
    }
}

/* ---- who may only read ---- */

static void order_and_run(struct fleet_member *member, int32_t op)
{
    order(member, op, 1);
    fake_zclient_run();
}

/* A member that may read alone, and then write as well. */
static void story_of_rights(void)
{
    static const int32_t ops[] = {LEASE_PROBE, LEASE_LOOK, LEASE_TAKE, LEASE_TURN, LEASE_PROBE, LEASE_LOOK};
    struct fleet_member member = {0};
    fake_zclient_deny(false);
    struct coordinator *zoo = begin();
    member.handle = zoo ? weir_coordinator_zookeeper.enter(zoo, "egress", &hundred, &member, NULL) : NULL;
    order_and_run(&member, LEASE_LOOK);
    fake_zclient_deny(true);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        order_and_run(&member, ops[i]);
    CHECK_EQ(all.taken, 0);
    order(&member, LEASE_LOOK, 0);
    order(&member, LEASE_PROBE, 0);
    fake_zclient_deny(false);
    fake_zclient_run();
    for (int i = 0; i < 3; i++) {
        order_and_run(&member, LEASE_LOOK);
        order_and_run(&member, LEASE_TAKE);
    }
    for (uint64_t id = 1; id <= all.count; id++)
        CHECK_EQ(all.answers[id], 1);
    order(&member, LEASE_PROBE, 0); /* on the way when it leaves */
    if (member.handle)
        weir_coordinator_zookeeper.leave(member.handle);
    if (zoo)
        weir_coordinator_zookeeper.close(zoo);
}

TEST(whichever_request_is_lost_who_may_only_read_is_answered_and_goes_on_when_he_may_write)
{
    for (int trouble = TROUBLE_NONE; trouble <= TROUBLE_LOST_LATE; trouble++) {
        bool reached = true;
        for (int64_t n = 0; reached && n < 2000; n++) {
            long faults = check.faults;
            fake_zclient_begin();
            fake_zclient_trouble((enum fake_trouble)trouble, n);
            story_of_rights();
            CHECK(all.taken >= 20);
            reached = fake_zclient_had_trouble();
            if (check.faults != faults) {
                printf("# trouble %d at request %" PRId64 "\n", trouble, n);
                return;
            }
        }
    }
}

/* ---- others at the same time ---- */

static void another_turns(void)
{
    const char *refresh = "kind=quota total=100 window=10s base=10 chunk=10";
    struct zop ops[] = {{ZOP_SET, -1, POOL "/refresh", refresh},
                        {ZOP_DELETE, -1, POOL "/usable", NULL},
                        {ZOP_CREATE, 0, POOL "/usable", "100"},
                        {ZOP_DELETE, -1, POOL "/returns", NULL},
                        {ZOP_CREATE, 0, POOL "/returns", "0"}};
    CHECK(fake_zclient_by_another(ops, 5));
}

static void another_sets(const char *path, int times)
{
    for (int i = 1; i <= times; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i);
        CHECK(fake_zclient_by_another(&(struct zop){ZOP_SET, -1, path, text}, 1));
    }
}

/* One member that has looked, and then gives this order while `happens`. */
static void order_while(void (*happens)(int64_t n), int32_t op, int64_t chunks)
{
    struct fleet_member member = {0};
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    member.handle = weir_coordinator_zookeeper.enter(zoo, "egress", &hundred, &member, NULL);
    order(&member, LEASE_LOOK, 0);
    fake_zclient_run();
    CHECK(member.epoch != 0);
    fake_zclient_meanwhile(happens);
    order(&member, op, chunks);
    fake_zclient_run();
    CHECK_EQ(all.answers[all.count], 1);
    weir_coordinator_zookeeper.leave(member.handle);
    weir_coordinator_zookeeper.close(zoo);
}

static void turn_after_the_first(int64_t n)
{
    if (n == 1)
        another_turns();
}

TEST(a_take_across_a_turn_is_of_one_epoch)
{
    order_while(turn_after_the_first, LEASE_TAKE, 3);
    CHECK_EQ(all.taken, 20); /* the first ticket is of the epoch before */
}

/* Its ticket is the first in vain of an epoch that it has not read yet; when it reads it, chunks have come
 * back, and stand for the tickets behind. */
static void take_in_vain(int64_t n)
{
    if (n == 0) {
        another_turns();
        another_sets(POOL "/usable", 10);
    } else if (n == 1) {
        another_sets(POOL "/returns", 2);
    }
}

TEST(a_ticket_is_judged_by_what_had_come_back_before_it)
{
    order_while(take_in_vain, LEASE_TAKE, 1);
    CHECK_EQ(all.taken, 0);
}

static void turn_before_the_transaction(int64_t n)
{
    if (n == 6) /* what it reads first are the six nodes of the pool */
        another_turns();
}

TEST(a_return_that_crosses_a_turn_is_not_accepted)
{
    struct znode_stat returns;
    order_while(turn_before_the_transaction, LEASE_RETURN, 1);
    CHECK(fake_zclient_stat(POOL "/returns", &returns));
    CHECK_EQ(returns.version, 0);
}

/* So many that a function which calls itself for each of them would use up the stack. */
TEST(a_connection_that_is_lost_with_many_pools_costs_no_stack)
{
    enum { POOLS = 20000 };
    struct fleet_member *members = calloc(POOLS, sizeof *members);
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    if (!CHECK(zoo && members))
        return;
    for (int i = 0; i < POOLS; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "user-%d", i);
        members[i].handle = weir_coordinator_zookeeper.enter(zoo, name, &hundred, &members[i], NULL);
        if (!CHECK(members[i].handle))
            return;
    }
    fake_zclient_lose(); /* and is back: all of them are to be read */
    fake_zclient_cut();
    for (int i = 0; i < POOLS; i++)
        weir_coordinator_zookeeper.leave(members[i].handle);
    weir_coordinator_zookeeper.close(zoo);
    free(members);
}

/* ---- watches ---- */

TEST(who_leaves_watches_nothing_and_takes_no_watch_from_another)
{
    struct fleet_member stays = {0}, leaves = {0}, never = {0};
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    leaves.handle = weir_coordinator_zookeeper.enter(zoo, "egress", &hundred, &leaves, NULL);
    order(&leaves, LEASE_LOOK, 0);
    fake_zclient_run();
    CHECK_EQ(fake_zclient_watches(), 4);
    stays.handle = weir_coordinator_zookeeper.enter(zoo, "egress", &hundred, &stays, NULL);
    order(&stays, LEASE_LOOK, 0);
    fake_zclient_run();
    weir_coordinator_zookeeper.leave(leaves.handle);
    CHECK_EQ(fake_zclient_watches(), 4);
    uint64_t epoch = stays.epoch;
    another_turns();
    fake_zclient_run();
    CHECK(stays.epoch > epoch); /* it was told */
    order(&stays, LEASE_LOOK, 0);
    weir_coordinator_zookeeper.leave(stays.handle); /* while it is read */
    fake_zclient_run();
    CHECK_EQ(fake_zclient_watches(), 0);
    never.handle = weir_coordinator_zookeeper.enter(zoo, "egress", &hundred, &never, NULL);
    weir_coordinator_zookeeper.leave(never.handle);
    CHECK_EQ(fake_zclient_watches(), 0);
    weir_coordinator_zookeeper.close(zoo);
}
