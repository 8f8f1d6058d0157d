/* SPDX-License-Identifier: MIT */
/*
 * Vectors of the ZooKeeper quota (total 100, base 10 unless said) against the lease machine and a pool. Each
 * test has the id of its vector; README.md tells which are kept and which are fixed. The original answers
 * with what a node has left and what is `usable`; so do these: held, and left in the pool.
 */
#include "unit/lease/lease_kit.h"

#define NOW (1000 * WEIR_SEC)

struct story {
    struct lease_pool pool;
    struct kit_node nodes[2];
    int64_t passed;
};

/* A node that joins where `usable` units are left of 100, and holds `local`. The epoch is its own. */
static void node_join(struct story *s, struct kit_node *node, int64_t window_ns)
{
    kit_begin(node, NULL, 1, NOW - 2 * window_ns);
    kit_event(node, LEASE_UP, NOW - 2 * window_ns);
    kit_settle(node, &s->pool, NOW - 2 * window_ns);
}

static void story_begin(struct story *s, int64_t window_ns)
{
    struct lease_terms terms = {
        .kind = LEASE_QUOTA, .total = 100, .window_ns = window_ns, .base = 10, .chunk = 10};
    memset(s, 0, sizeof *s);
    weir_pool_begin(&s->pool, POOL_TURNED, &terms, NOW - 2 * window_ns);
    for (int i = 0; i < 2; i++) {
        node_join(s, &s->nodes[i], window_ns);
        s->nodes[i].patient = true; /* as those of the seed are */
    }
    struct lease_order turn = {.op = LEASE_TURN, .epoch = 1, .chunk = 10};
    struct lease_reply reply;
    weir_pool_apply(&s->pool, &turn, NOW, &reply);
    for (int i = 0; i < 2; i++) { /* they have seen it begin, and had written just before */
        s->nodes[i].lease.answered_ns = NOW;
        kit_step(&s->nodes[i], &(struct lease_event){.kind = LEASE_NOTICED, .reply = reply}, NOW);
    }
}

/* As acquire does: what is not there is waited for, as long as the coordinator may still give it. */
static bool request(struct story *s, int i, int64_t n)
{
    struct kit_node *node = &s->nodes[i];
    bool passes = n <= node->lease.terms.total && kit_take(node, NOW, n);
    kit_settle(node, &s->pool, NOW);
    if (!passes && n <= node->lease.terms.total)
        passes = kit_take(node, NOW, n);
    kit_settle(node, &s->pool, NOW);
    s->passed += passes ? n : 0;
    return passes;
}

static int64_t usable(const struct story *s)
{
    return weir_ticket_left(&s->pool.terms, s->pool.used, s->pool.returned);
}

/* Answer, what is left in the node, what is left in the pool; and no unit twice, or lost. */
static void check_request(struct story *s, int i, int64_t n, bool passes, int64_t local, int64_t left)
{
    bool did = request(s, i, n);
    int64_t held = kit_held(&s->nodes[i], NOW);
    if (did != passes || held != local || usable(s) != left)
        printf("# %" PRId64 ": %d, %" PRId64 ", %" PRId64 "\n", n, did, held, usable(s));
    CHECK_EQ(did, passes);
    CHECK_EQ(held, local);
    CHECK_EQ(usable(s), left);
    CHECK_EQ(s->passed + kit_held(&s->nodes[0], NOW) + kit_held(&s->nodes[1], NOW) + usable(s), 100);
}

/* The pool without `gone` units, which another node has spent. */
static void spent_elsewhere(struct story *s, int64_t gone)
{
    s->pool.used = gone / 10;
    s->passed = gone;
}

TEST(z1)
{
    static struct story s;
    story_begin(&s, 60 * WEIR_SEC);
    check_request(&s, 0, 4, true, 6, 90);
    check_request(&s, 0, 6, true, 10, 80); /* 20 % are left: the next chunk is there before it is needed */
    check_request(&s, 0, 15, true, 5, 70);
    check_request(&s, 0, 10, true, 5, 60);
    check_request(&s, 0, 1, true, 4, 60);
    check_request(&s, 0, 25, true, 9, 30);
    check_request(&s, 0, 9, true, 10, 20);
    check_request(&s, 0, 20, true, 10, 0);
    check_request(&s, 0, 5, true, 5, 0);
    CHECK_EQ(s.passed, 95);
}

TEST(z2)
{
    static struct story s;
    story_begin(&s, 60 * WEIR_SEC);
    static const int64_t sizes[] = {4, 6, 15, 10, 1, 25, 9, 20, 5, 3, 10, 8, 9, 12, 1, 1, 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        (void)request(&s, 0, sizes[i]);
        CHECK(s.passed <= 100);
    }
    CHECK_EQ(s.passed, 100);
    CHECK(!request(&s, 0, 1));
}

TEST(z3)
{
    static struct story s;
    story_begin(&s, 60 * WEIR_SEC);
    spent_elsewhere(&s, 30);
    check_request(&s, 0, 15, true, 5, 50);
}

TEST(z4)
{
    static struct story s;
    story_begin(&s, 60 * WEIR_SEC);
    spent_elsewhere(&s, 80);
    check_request(&s, 0, 8, true, 12, 0); /* two are left: it asks for the next */
    check_request(&s, 0, 8, true, 4, 0);
    for (int i = 0; i < 3; i++)
        check_request(&s, 0, 8, false, 4, 0); /* a refusal takes nothing */
    check_request(&s, 0, 4, true, 0, 0);
}

TEST(z6)
{
    static struct story s;
    story_begin(&s, 60 * WEIR_SEC);
    /* Both ask before either has an answer. */
    CHECK(!kit_take(&s.nodes[0], NOW, 20));
    CHECK(!kit_take(&s.nodes[1], NOW, 30));
    check_request(&s, 0, 20, true, 10, 70);
    check_request(&s, 1, 30, true, 10, 30);
}

TEST(z8)
{
    static struct story s;
    story_begin(&s, 60 * WEIR_SEC);
    struct kit_node *node = &s.nodes[0];
    check_request(&s, 0, 35, true, 5, 60);
    CHECK(!kit_take(node, NOW, 25)); /* and gone again before it is answered */
    kit_settle(node, &s.pool, NOW);
    CHECK_EQ(kit_held(node, NOW), 25);
    CHECK_EQ(usable(&s), 40);
    kit_event(node, LEASE_WAKE, NOW + 15 * WEIR_SEC - 1);
    CHECK_EQ(node->withdrawn, 0);
    kit_event(node, LEASE_WAKE, NOW + 15 * WEIR_SEC);
    kit_settle(node, &s.pool, NOW + 15 * WEIR_SEC);
    CHECK_EQ(kit_held(node, NOW + 15 * WEIR_SEC), 15); /* a whole chunk; the half stays */
    CHECK_EQ(usable(&s), 50);

    story_begin(&s, 60 * WEIR_SEC);
    check_request(&s, 0, 40, true, 10, 50);
    CHECK(!kit_take(node, NOW, 15));
    kit_settle(node, &s.pool, NOW);
    CHECK_EQ(kit_held(node, NOW), 20);
    kit_event(node, LEASE_WAKE, NOW + 15 * WEIR_SEC);
    CHECK_EQ(node->withdrawn, 0);
}

TEST(z9)
{
    static struct story s;
    story_begin(&s, 60 * WEIR_SEC);
    check_request(&s, 0, 101, false, 0, 100);
    check_request(&s, 0, 1, true, 9, 90);
}

TEST(z10)
{
    static const int64_t windows[] = {WEIR_SEC, 59 * WEIR_SEC, 60 * WEIR_SEC, 400 * WEIR_SEC};
    for (int i = 0; i < 4; i++) {
        static struct story s;
        int64_t window = windows[i];
        story_begin(&s, window);
        struct kit_node *node = &s.nodes[0];
        check_request(&s, 0, 4, true, 6, 90);
        int wakes = 0;
        for (int64_t now = node->last.wake_ns; now < NOW + 2 * window; now = node->last.wake_ns) {
            node->wanted = 1;
            kit_event(node, LEASE_WAKE, now);
            kit_settle(node, &s.pool, now);
            CHECK(node->last.wake_ns > now);
            wakes++;
            if (s.pool.epoch == 3)
                break;
        }
        CHECK(wakes < 20); /* it does not poll */
        CHECK_EQ(s.pool.epoch, 3);
        CHECK(s.pool.began_ns > NOW + window && s.pool.began_ns < NOW + window + window / 50);
        CHECK_EQ(kit_held(node, s.pool.began_ns) + usable(&s), 100); /* what was held before is void */
    }
}

TEST(z11)
{
    static struct story s;
    story_begin(&s, 60 * WEIR_SEC);
    spent_elsewhere(&s, 90);
    check_request(&s, 0, 4, true, 6, 0);
    check_request(&s, 0, 11, false, 6, 0);
    check_request(&s, 0, 6, true, 0, 0);
    CHECK(s.nodes[0].last.exhausted);
}

TEST(z12)
{
    static struct story s;
    story_begin(&s, 60 * WEIR_SEC);
    spent_elsewhere(&s, 90);
    check_request(&s, 0, 1, true, 9, 0);
    check_request(&s, 0, 1, true, 8, 0);
}
