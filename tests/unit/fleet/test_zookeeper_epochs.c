/* SPDX-License-Identifier: MIT */
/*
 * Epochs of pools in ZooKeeper when they are turned by others, deleted, or restored from an old copy: an
 * order ends the epoch it was given for or none, what was given out before is waited for, and it goes on.
 */
#include "base/sat.h"
#include "check.h"
#include "unit/fleet/fake_zclient.h"

#define POOL "/weir/quota/egress"

static const struct lease_terms hundred = {
    .kind = LEASE_QUOTA, .total = 100, .window_ns = 10 * WEIR_SEC, .base = 10, .chunk = 10};
static const struct lease_terms flow = {
    .kind = LEASE_BUCKET, .total = 1000, .window_ns = WEIR_SEC, .burst = 110, .base = 10, .chunk = 10};

/* The monotonic clock goes by hand, with that of the ensemble. */
int64_t __wrap_weir_monotonic_ns(void);
static int64_t monotonic_ns = 1000 * WEIR_SEC;

int64_t __wrap_weir_monotonic_ns(void)
{
    return monotonic_ns;
}

static void pass(int64_t ms)
{
    fake_zclient_pass(ms);
    monotonic_ns += ms * WEIR_MS;
}

/* ---- a member ---- */

struct fleet_member {
    struct pool_handle *handle;
    uint64_t asked;           /* orders so far */
    struct lease_reply reply; /* the last */
    struct lease_reply seen;  /* likewise */
    int64_t notices;
    uint64_t epoch; /* the latest it has heard of */
};

static void replied(void *owner, const struct lease_reply *reply)
{
    struct fleet_member *member = owner;
    member->reply = *reply;
    if (reply->epoch > member->epoch)
        member->epoch = reply->epoch;
}

static void noticed(void *owner, const struct lease_reply *seen)
{
    struct fleet_member *member = owner;
    member->seen = *seen;
    member->notices++;
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

static struct coordinator *begin(void)
{
    struct server_url url = {0};
    struct sink sink = {.replied = replied, .noticed = noticed, .more = heard, .moved = moved};
    struct coordinator_options options = {100 * WEIR_SEC, 5 * WEIR_SEC, 10 * WEIR_SEC};
    struct weir_error err = {0};
    (void)snprintf(url.path, sizeof url.path, "/weir");
    return weir_coordinator_zookeeper.open(&url, &options, &sink, &err);
}

static void enter(struct coordinator *zoo, struct fleet_member *member, const struct lease_terms *terms)
{
    *member = (struct fleet_member){.handle = NULL};
    member->handle = weir_coordinator_zookeeper.enter(zoo, "egress", terms, member, NULL);
    CHECK(member->handle != NULL);
}

static void end(struct coordinator *zoo, struct fleet_member *members, int count)
{
    for (int i = 0; i < count; i++)
        weir_coordinator_zookeeper.leave(members[i].handle);
    weir_coordinator_zookeeper.close(zoo);
}

static void send(struct fleet_member *member, int32_t op, uint64_t epoch)
{
    struct lease_order asked = {.id = ++member->asked, .op = op, .epoch = epoch, .chunks = 1, .chunk = 10};
    weir_coordinator_zookeeper.order(member->handle, &asked);
}

static const struct lease_reply *ask(struct fleet_member *member, int32_t op, uint64_t epoch)
{
    send(member, op, epoch);
    fake_zclient_run();
    CHECK_EQ(member->reply.id, member->asked);
    return &member->reply;
}

static bool turn_by_another(void)
{
    struct zop ops[] = {{ZOP_SET, -1, POOL "/refresh", "kind=quota total=100 window=10s base=10 chunk=10"},
                        {ZOP_DELETE, -1, POOL "/usable", NULL},
                        {ZOP_CREATE, 0, POOL "/usable", "100"},
                        {ZOP_DELETE, -1, POOL "/returns", NULL},
                        {ZOP_CREATE, 0, POOL "/returns", "0"}};
    return fake_zclient_by_another(ops, sizeof ops / sizeof ops[0]);
}

/* ---- an order ends its own epoch or none ---- */

enum { TURNS_MAX = 512 };
static struct {
    struct rng rng;
    uint64_t now;              /* the epoch there is */
    uint64_t asked[TURNS_MAX]; /* epochs that somebody was told to end */
    int64_t count, ended, others, quiet;
} turns;

static uint64_t epoch_there(void)
{
    struct znode_stat usable = {.czxid = 0};
    return fake_zclient_stat(POOL "/usable", &usable) ? (uint64_t)usable.czxid : 0;
}

/* Whatever has ended an epoch since: it was asked to end just that one. */
static void look_at_turns(void)
{
    uint64_t epoch = epoch_there();
    bool asked = turns.now == 0 || epoch == turns.now;
    for (int64_t i = 0; i < turns.count; i++)
        asked = asked || turns.asked[i] == turns.now;
    CHECK(asked);
    turns.ended += turns.now != 0 && epoch != turns.now;
    turns.now = epoch;
}

static void disturb(int64_t n)
{
    (void)n;
    look_at_turns();
    int64_t what = rng_between(&turns.rng, 0, turns.quiet);
    if (turns.now == 0 || what > 2)
        return;
    if (what == 0 && turn_by_another())
        turns.others++;
    if (what == 1)
        fake_zclient_write(POOL "/total", rng_between(&turns.rng, 0, 1) ? "200" : "100");
    if (what == 2)
        fake_zclient_trouble(rng_between(&turns.rng, 0, 1) ? TROUBLE_LOST : TROUBLE_LOST_LATE,
                             rng_between(&turns.rng, 0, 6));
    turns.now = epoch_there();
}

static void ask_something(struct fleet_member *member)
{
    static const int32_t ops[] = {LEASE_TURN, LEASE_TURN, LEASE_TAKE, LEASE_PROBE, LEASE_RETURN, LEASE_LOOK};
    int32_t op = ops[rng_between(&turns.rng, 0, 5)];
    uint64_t epoch = member->epoch;
    if (op == LEASE_TURN && epoch != 0 && turns.count < TURNS_MAX)
        turns.asked[turns.count++] = epoch;
    if (op != LEASE_TURN || epoch != 0)
        send(member, op, epoch);
}

TEST(a_turn_ends_the_epoch_it_was_given_for_and_no_other)
{
    int64_t ended = 0, others = 0;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        long faults = check.faults;
        struct fleet_member members[3];
        memset(&turns, 0, sizeof turns);
        turns.rng = rng_new(seed);
        turns.quiet = rng_between(&turns.rng, 5, 200);
        fake_zclient_begin();
        struct coordinator *zoo = begin();
        for (int i = 0; i < 3; i++)
            enter(zoo, &members[i], &hundred);
        (void)ask(&members[0], LEASE_TAKE, 0);
        turns.now = epoch_there();
        fake_zclient_meanwhile(disturb);
        for (int i = 0; i < 60; i++) {
            ask_something(&members[rng_between(&turns.rng, 0, 2)]);
            if (rng_between(&turns.rng, 0, 2) == 0)
                fake_zclient_run();
        }
        fake_zclient_run();
        look_at_turns();
        fake_zclient_meanwhile(NULL);
        end(zoo, members, 3);
        ended += turns.ended;
        others += turns.others;
        if (check.faults != faults) {
            printf("# seed %" PRIu64 "\n", seed);
            return;
        }
    }
    CHECK(ended > 120 && others > 120);
}

/* ---- what is deleted ---- */

static void delete_pool(const char *mark)
{
    struct zop ops[] = {{ZOP_DELETE, -1, POOL "/total", NULL},   {ZOP_DELETE, -1, POOL "/base", NULL},
                        {ZOP_DELETE, -1, POOL "/usable", NULL},  {ZOP_DELETE, -1, POOL "/refresh", NULL},
                        {ZOP_DELETE, -1, POOL "/returns", NULL}, {ZOP_SET, -1, POOL, mark}};
    CHECK(fake_zclient_by_another(ops, sizeof ops / sizeof ops[0]));
}

TEST(who_holds_units_of_a_pool_that_is_deleted_is_told)
{
    struct fleet_member member;
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    enter(zoo, &member, &hundred);
    uint64_t epoch = ask(&member, LEASE_TAKE, 0)->epoch;
    CHECK_EQ(member.reply.units, 10);
    int64_t notices = member.notices;
    delete_pool("gone wait=10s");
    fake_zclient_run();
    CHECK(member.notices > notices);
    CHECK(member.seen.epoch > epoch);
    CHECK_EQ(member.seen.left, 0);
    CHECK(epoch_there() == 0); /* and it stays away until somebody asks */
    end(zoo, &member, 1);
}

TEST(who_makes_a_deleted_pool_anew_waits_for_those_who_knew_it)
{
    struct fleet_member member;
    struct lease_terms brief = hundred;
    brief.window_ns = WEIR_SEC;
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    enter(zoo, &member, &hundred);
    (void)ask(&member, LEASE_TAKE, 0);
    end(zoo, &member, 1);
    delete_pool("gone wait=10s");
    zoo = begin();
    enter(zoo, &member, &brief);
    uint64_t epoch = ask(&member, LEASE_TAKE, 0)->epoch;
    CHECK_EQ(member.reply.units, 0);
    CHECK_EQ(member.reply.terms.window_ns, 10 * WEIR_SEC);
    CHECK_EQ(ask(&member, LEASE_TURN, epoch)->outcome, LEASE_DONE);
    CHECK_EQ(member.reply.terms.window_ns, WEIR_SEC); /* its own, from then on */
    CHECK_EQ(ask(&member, LEASE_TAKE, 0)->units, 10);
    end(zoo, &member, 1);
}

/* Versions go on, so that no order can take the new one for the old one. */
TEST(a_pool_made_anew_has_another_version)
{
    struct fleet_member member;
    struct znode_stat before, after;
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    enter(zoo, &member, &hundred);
    (void)ask(&member, LEASE_TAKE, 0);
    CHECK(fake_zclient_stat(POOL, &before));
    delete_pool("gone wait=10s");
    (void)ask(&member, LEASE_TAKE, 0);
    CHECK(fake_zclient_stat(POOL, &after) && after.version > before.version && after.czxid == before.czxid);
    end(zoo, &member, 1);
}

/* ---- what is mended by one who never knew it ---- */

static void check_mended(const char *broken, const char *text, const char *total)
{
    struct fleet_member member;
    struct lease_terms brief = hundred;
    brief.window_ns = WEIR_SEC;
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    enter(zoo, &member, &hundred);
    (void)ask(&member, LEASE_TAKE, 0);
    end(zoo, &member, 1);
    if (total)
        fake_zclient_write(POOL "/total", total);
    fake_zclient_write(broken, text);
    zoo = begin();
    enter(zoo, &member, &brief);
    (void)ask(&member, LEASE_TAKE, 0); /* perhaps of the epoch that was there */
    (void)ask(&member, LEASE_TAKE, 0);
    CHECK_EQ(member.reply.units, 0);
    CHECK_EQ(member.reply.terms.window_ns, 10 * WEIR_SEC);
    end(zoo, &member, 1);
}

TEST(a_mended_pool_waits_for_the_window_it_had)
{
    check_mended(POOL "/usable", NULL, NULL);
    check_mended(POOL "/refresh", "nonsense", NULL);
    check_mended(POOL "/refresh", NULL, NULL);
    check_mended(POOL "/refresh", NULL, "100/2s"); /* what was said last was not in force yet */
    check_mended(POOL "/refresh", NULL, "200");
}

TEST(the_window_that_is_waited_for_follows_the_total)
{
    struct fleet_member member;
    struct lease_terms brief = hundred;
    brief.window_ns = WEIR_SEC;
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    enter(zoo, &member, &brief);
    (void)ask(&member, LEASE_TAKE, 0);
    fake_zclient_write(POOL "/total", "100/20s");
    fake_zclient_run();
    uint64_t epoch = ask(&member, LEASE_TURN, member.epoch)->epoch;
    CHECK_EQ(member.reply.terms.window_ns, 20 * WEIR_SEC);
    CHECK_EQ(ask(&member, LEASE_PROBE, epoch)->outcome, LEASE_DONE); /* it knows what it wrote itself */
    end(zoo, &member, 1);
    fake_zclient_write(POOL "/refresh", NULL);
    fake_zclient_write(POOL "/total", "100");
    zoo = begin();
    enter(zoo, &member, &brief);
    (void)ask(&member, LEASE_TAKE, 0); /* perhaps of the epoch that was there */
    (void)ask(&member, LEASE_TAKE, 0);
    CHECK_EQ(member.reply.units, 0);
    CHECK_EQ(member.reply.terms.window_ns, 20 * WEIR_SEC);
    end(zoo, &member, 1);
}

/* ---- what is restored ---- */

/* The old copy has an epoch before the one that is known. Without a restart, all goes on with it. */
static void check_goes_on(struct fleet_member *member, uint64_t lost)
{
    for (int i = 0; i < 3; i++)
        (void)ask(member, LEASE_TAKE, 0);
    CHECK_EQ(member->reply.outcome, LEASE_DONE);
    CHECK(member->reply.epoch != 0 && member->reply.epoch < lost);
    uint64_t epoch = member->reply.epoch;
    const struct lease_reply *reply = ask(member, LEASE_PROBE, lost);
    CHECK_EQ(reply->outcome, LEASE_MOVED); /* so that the machine hears of it */
    CHECK_EQ(reply->epoch, epoch);
    CHECK_EQ(ask(member, LEASE_TURN, epoch)->outcome, LEASE_DONE);
    CHECK_EQ(ask(member, LEASE_TAKE, 0)->units, 10);
}

TEST(data_restored_from_an_old_copy_is_believed_when_a_write_proves_it)
{
    struct fleet_member member;
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    enter(zoo, &member, &hundred);
    (void)ask(&member, LEASE_TAKE, 0);
    fake_zclient_copy();
    uint64_t lost = member.epoch;
    for (int i = 0; i < 3; i++)
        lost = ask(&member, LEASE_TURN, lost)->epoch;
    fake_zclient_restore();
    fake_zclient_lose();
    fake_zclient_run();
    check_goes_on(&member, lost);
    end(zoo, &member, 1);
}

/* What is known of the epoch that is lost, and later, says nothing of the age of the one that is back. */
TEST(an_epoch_that_was_restored_is_as_old_as_it_is)
{
    struct fleet_member member;
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    enter(zoo, &member, &hundred);
    uint64_t epoch = ask(&member, LEASE_TAKE, 0)->epoch;
    fake_zclient_copy();
    pass(3000);
    uint64_t lost = ask(&member, LEASE_TURN, epoch)->epoch;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(ask(&member, LEASE_TAKE, 0)->epoch, lost);
    fake_zclient_restore();
    fake_zclient_lose();
    fake_zclient_run();
    pass(1000);
    (void)ask(&member, LEASE_LOOK, 0);
    const struct lease_reply *reply = ask(&member, LEASE_PROBE, epoch);
    CHECK_EQ(reply->outcome, LEASE_DONE);
    CHECK_EQ(reply->epoch, epoch);
    CHECK(reply->age_ns < 0 || reply->age_ns >= 4 * WEIR_SEC);
    end(zoo, &member, 1);
}

TEST(data_that_is_wiped_is_made_anew)
{
    struct fleet_member member;
    fake_zclient_begin();
    fake_zclient_copy();
    struct coordinator *zoo = begin();
    enter(zoo, &member, &hundred);
    uint64_t lost = ask(&member, LEASE_TAKE, 0)->epoch;
    for (int i = 0; i < 30; i++)
        lost = ask(&member, LEASE_TURN, lost)->epoch;
    fake_zclient_restore();
    fake_zclient_lose();
    fake_zclient_run();
    check_goes_on(&member, lost);
    end(zoo, &member, 1);
}

/* A server that is behind reads as an old copy does; the versions it tells are over. */
TEST(a_server_that_is_behind_is_not_taken_for_an_old_copy)
{
    struct fleet_member member;
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    enter(zoo, &member, &hundred);
    (void)ask(&member, LEASE_TAKE, 0);
    fake_zclient_copy();
    uint64_t epoch = ask(&member, LEASE_TURN, member.epoch)->epoch;
    int64_t notices = member.notices;
    fake_zclient_read_copy(true);
    CHECK_EQ(ask(&member, LEASE_LOOK, 0)->outcome, LEASE_FAILED);
    fake_zclient_read_copy(false);
    CHECK_EQ(ask(&member, LEASE_LOOK, 0)->epoch, epoch);
    CHECK_EQ(member.notices, notices);
    CHECK_EQ(ask(&member, LEASE_PROBE, epoch)->outcome, LEASE_DONE);
    end(zoo, &member, 1);
}

/* ---- buckets ---- */

TEST(what_is_known_without_a_write_does_not_count_as_one)
{
    struct fleet_member member;
    struct znode_stat before, after;
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    enter(zoo, &member, &flow);
    for (int i = 0; i < 64 && !member.reply.exhausted; i++) {
        CHECK(!member.reply.read);
        CHECK(fake_zclient_stat(POOL "/usable", &before) || i == 0);
        (void)ask(&member, LEASE_TAKE, 0);
    }
    CHECK(fake_zclient_stat(POOL "/usable", &after));
    CHECK_EQ(after.version, before.version);
    CHECK(member.reply.exhausted && member.reply.read && member.reply.retry_ns > 0);
    end(zoo, &member, 1);
}

/* Tickets that have died are asked for along with those that live, and only these are told. */
TEST(tickets_that_have_died_are_passed_over)
{
    struct fleet_member member;
    struct lease_terms slow = {.kind = LEASE_BUCKET,
                               .total = 1000,
                               .window_ns = 100 * WEIR_SEC,
                               .burst = 110,
                               .base = 10,
                               .chunk = 10};
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    enter(zoo, &member, &slow); /* a ticket a second; the first dies after 2.5 s */
    CHECK_EQ(ask(&member, LEASE_TAKE, 0)->units, 10);
    pass(5000);
    CHECK_EQ(ask(&member, LEASE_TAKE, 0)->units, 10);
    CHECK(!member.reply.stale && member.reply.ends_ns > WEIR_SEC);
    end(zoo, &member, 1);
}

/* Of many who want tickets, each asks again when the one behind the last that he has seen is near. Others
 * have had that long ago: a ticket too far ahead is void, and void for all, so he looks first. */
TEST(many_who_want_more_than_a_bucket_has_get_all_of_it)
{
    enum { CROWD = 8, STEP_MS = 10, LAST_MS = 100000 };
    struct fleet_member members[CROWD];
    int64_t again_ms[CROWD] = {0}, units = 0;
    struct lease_terms slow = {.kind = LEASE_BUCKET,
                               .total = 1000,
                               .window_ns = 100 * WEIR_SEC,
                               .burst = 50,
                               .base = 10,
                               .chunk = 10};
    fake_zclient_begin();
    struct coordinator *zoo = begin();
    for (int i = 0; i < CROWD; i++)
        enter(zoo, &members[i], &slow); /* a ticket a second, which lives for 4 */
    for (int64_t ms = 0; ms < LAST_MS; ms += STEP_MS, pass(STEP_MS))
        for (int i = 0; i < CROWD; i++) {
            if (ms < again_ms[i])
                continue;
            const struct lease_reply *reply = ask(&members[i], LEASE_TAKE, 0);
            units += reply->units;
            again_ms[i] = ms + div_up(reply->retry_ns, WEIR_MS) + 7 * i; /* a member spreads it, too */
            if (reply->stale)
                (void)ask(&members[i], LEASE_TURN, reply->epoch);
        }
    CHECK(units > 900);
    end(zoo, members, CROWD);
}
