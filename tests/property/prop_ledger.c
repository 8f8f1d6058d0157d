/* SPDX-License-Identifier: MIT */
/*
 * Random stories of takes, reservations, commits, cancels, request ids and time, told to a service and to a
 * model of it: a table for each policy, a list of reservations and a list of ids. Every answer must be the
 * same, and so must be what is left of every key. (That tables count as they should is shown by prop-table.)
 * WEIR_LEDGER_STORIES says how many, WEIR_SEED or -s where to begin.
 */
#include <stdarg.h>

#include "base/sat.h"
#include "check.h"
#include "property/dice.h"
#include "unit/service/service_kit.h"

#define STEPS    150
#define POLICIES 3
#define KEYS     2
#define IDS      4
#define PAIRS    3
#define BOOKED   64

static const char config[] =
    "policies:\n"
    "  - {name: p0, limits: [20/s burst=50]}\n"
    "  - {name: p1, limits: [10/s burst=40, 100/m], ids: 1m}\n"
    "  - {name: p2, limits: [30/m algo=fixed-window], ids: 2s, reserve: {ttl: 3s, overrun: refuse}}\n";
static const char *const limits[POLICIES] = {"20/s burst=50", "10/s burst=40, 100/m",
                                             "30/m algo=fixed-window"};
static const int64_t ttls[POLICIES] = {60000, 60000, 3000}, windows_ms[POLICIES] = {300000, 60000, 2000};

/* ---- the model ---- */

struct model_pair {
    int policy, key;
    int64_t n;
};

struct question {
    size_t count;
    struct model_pair pairs[PAIRS];
    int64_t ttl_ms, timeout_ms; /* -1: not said */
    int id;                     /* -1: none */
};

struct outcome {
    bool allowed;
    int64_t remaining, retry_after_ms, due_in_ms;
    bool whole; /* remaining and retry_after_ms are known: of one pair they are */
    int booked; /* which reservation, or -1 */
};

struct booking {
    char text[LEDGER_TEXT_MAX];
    struct question question;
    struct weir_reservation promise;
    int64_t due_ns, expires_ns;
    int64_t kept_ns; /* until when its record is there */
    int settled;     /* 0, 1: committed, 2: cancelled */
    bool late;       /* it was settled after its end */
    int64_t used[PAIRS];
    int64_t charged, given_back, remaining;
};

struct remembered {
    struct question question;
    struct outcome outcome;
    int64_t expires_ns; /* 0: nothing */
};

struct world {
    struct kit *kit;
    struct weir_table *tables[POLICIES];
    struct booking bookings[BOOKED];
    int booked;
    struct remembered ids[POLICIES][IDS]; /* of the first pair's policy */
    uint64_t story;
    int64_t now_ns;
    char line[512];
    bool good;
};

struct name {
    char text[32];
    size_t len;
};

static struct name name_of(const struct world *world, const struct model_pair *pair)
{
    struct name name;
    name.len = (size_t)snprintf(name.text, sizeof name.text, "s%" PRIu64 ":%d", world->story, pair->key);
    return name;
}

static bool model_take(struct world *world, const struct model_pair *pair)
{
    struct name name = name_of(world, pair);
    return weir_table_take_at(world->tables[pair->policy], world->now_ns, name.text, name.len, pair->n, NULL);
}

static bool model_peek(struct world *world, const struct model_pair *pair, struct weir_verdict *verdict)
{
    struct name name = name_of(world, pair);
    return weir_table_peek_at(world->tables[pair->policy], world->now_ns, name.text, name.len, pair->n,
                              verdict);
}

/* ---- asking and comparing ---- */

__attribute__((format(printf, 2, 3))) static void add(struct world *world, const char *format, ...)
{
    size_t len = strlen(world->line);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(world->line + len, sizeof world->line - len, format, args);
    va_end(args);
}

static void expect(struct world *world, const char *reply, const char *name, int64_t want)
{
    int64_t got = kit_field(reply, name);
    if (got == want || !world->good)
        return;
    printf("# story %" PRIu64 " at %" PRId64 " ms: %s\n#   %s is %" PRId64 ", not %" PRId64 "\n",
           world->story, world->now_ns / WEIR_MS, world->line, name, got, want);
    if (reply[0] == '-')
        printf("#   %s\n", reply);
    world->good = false;
}

static void expect_error(struct world *world, const char *reply, const char *start)
{
    if (strncmp(reply, start, strlen(start)) == 0 || !world->good)
        return;
    printf("# story %" PRIu64 ": %s\n#   %s\n#   should be %s\n", world->story, world->line, reply, start);
    world->good = false;
}

static int64_t model_ms_up(int64_t time_ns)
{
    return time_ns == WEIR_FOREVER ? -1 : div_up(max64(time_ns, 0), WEIR_MS);
}

static int64_t left_of(struct world *world, const struct model_pair *pair)
{
    struct model_pair one = {pair->policy, pair->key, 1};
    struct weir_verdict verdict;
    (void)model_peek(world, &one, &verdict);
    return max64(verdict.remaining, 0);
}

/* ---- reserve ---- */

static struct question roll_question(struct dice *dice)
{
    struct question question = {.ttl_ms = -1, .timeout_ms = -1, .id = -1};
    question.count = dice_chance(dice, 70) ? 1 : (size_t)dice_between(dice, 2, PAIRS);
    for (size_t i = 0; i < question.count; i++) /* no key twice */
        question.pairs[i] = (struct model_pair){(int)(i == 0 ? dice_between(dice, 0, POLICIES - 1)
                                                             : (question.pairs[i - 1].policy + 1) % POLICIES),
                                                (int)dice_between(dice, 0, KEYS - 1),
                                                dice_between(dice, 1, dice_chance(dice, 90) ? 20 : 60)};
    if (dice_chance(dice, 50))
        question.ttl_ms = dice_between(dice, 1, 5000);
    if (question.count == 1 && dice_chance(dice, 50))
        question.timeout_ms = dice_between(dice, 0, 3000);
    if (dice_chance(dice, 40))
        question.id = (int)dice_between(dice, 0, IDS - 1);
    return question;
}

static void write_question(struct world *world, const struct question *question)
{
    world->line[0] = '\0';
    add(world, "WEIR.RESERVE");
    for (size_t i = 0; i < question->count; i++)
        add(world, "%s p%d s%" PRIu64 ":%d %" PRId64, i ? " AND" : "", question->pairs[i].policy,
            world->story, question->pairs[i].key, question->pairs[i].n);
    if (question->ttl_ms >= 0)
        add(world, " TTL %" PRId64, question->ttl_ms);
    if (question->timeout_ms >= 0)
        add(world, " TIMEOUT %" PRId64, question->timeout_ms);
    if (question->id >= 0)
        add(world, " ID s%" PRIu64 ":%d", world->story, question->id);
}

static int64_t ttl_of(const struct question *question)
{
    return question->ttl_ms >= 0 ? question->ttl_ms : ttls[question->pairs[0].policy];
}

static bool is_same(const struct question *one, const struct question *other)
{
    bool same =
        one->count == other->count && ttl_of(one) == ttl_of(other) && one->timeout_ms == other->timeout_ms;
    for (size_t i = 0; same && i < one->count; i++)
        same = one->pairs[i].policy == other->pairs[i].policy && one->pairs[i].key == other->pairs[i].key &&
               one->pairs[i].n == other->pairs[i].n;
    return same;
}

static bool take_all(struct world *world, const struct question *question)
{
    for (size_t i = 0; i < question->count; i++)
        if (!model_peek(world, &question->pairs[i], NULL))
            return false;
    for (size_t i = 0; i < question->count; i++)
        (void)model_take(world, &question->pairs[i]);
    return true;
}

static struct outcome decide(struct world *world, const struct question *question)
{
    struct outcome outcome = {.booked = -1, .whole = question->count == 1};
    struct booking booking = {.question = *question, .due_ns = world->now_ns};
    struct weir_verdict verdict = {0};
    const struct model_pair *pair = &question->pairs[0];
    struct name name = name_of(world, pair);
    if (question->count > 1)
        outcome.allowed = take_all(world, question);
    else
        outcome.allowed = weir_table_reserve_at(
            world->tables[pair->policy], world->now_ns, name.text, name.len, pair->n,
            question->timeout_ms < 0 ? -1 : question->timeout_ms * WEIR_MS, &booking.promise, &verdict);
    outcome.remaining = max64(verdict.remaining, 0);
    outcome.retry_after_ms = outcome.allowed ? 0 : model_ms_up(verdict.retry_after_ns);
    if (outcome.allowed) {
        if (question->count == 1)
            booking.due_ns = sat_add(world->now_ns, verdict.wait_ns);
        outcome.due_in_ms = model_ms_up(booking.due_ns - world->now_ns);
        booking.expires_ns = booking.due_ns + ttl_of(question) * WEIR_MS;
        booking.kept_ns = booking.expires_ns + windows_ms[question->pairs[0].policy] * WEIR_MS;
        outcome.booked = world->booked;
        world->bookings[world->booked++] = booking;
    }
    return outcome;
}

static void compare(struct world *world, const char *reply, const struct outcome *outcome)
{
    expect(world, reply, "allowed", outcome->allowed);
    expect(world, reply, "due_in_ms", outcome->due_in_ms);
    if (outcome->whole) {
        expect(world, reply, "remaining", outcome->remaining);
        expect(world, reply, "retry_after_ms", outcome->retry_after_ms);
    }
    const char *text = kit_text(reply, "id");
    if (outcome->booked < 0) {
        world->good = CHECK_STR(text, "") && world->good;
        return;
    }
    struct booking *booking = &world->bookings[outcome->booked];
    if (booking->text[0] == '\0')
        (void)snprintf(booking->text, sizeof booking->text, "%.39s", text);
    world->good = CHECK_STR(text, booking->text) && CHECK(text[0] != '\0') && world->good;
}

static void do_reserve(struct world *world, struct dice *dice)
{
    struct question question = roll_question(dice);
    struct remembered *id = question.id < 0 ? NULL : &world->ids[question.pairs[0].policy][question.id];
    bool known = id && world->now_ns < id->expires_ns;
    if (known && dice_chance(dice, 70))
        question = id->question;
    if (world->booked == BOOKED)
        return;
    write_question(world, &question);
    const char *reply = kit_ask(world->kit, world->line);
    if (known && !is_same(&question, &id->question)) {
        expect_error(world, reply, "-ERR the id 's");
        return;
    }
    struct outcome outcome = known ? id->outcome : decide(world, &question);
    compare(world, reply, &outcome);
    if (id && !known) {
        int64_t window_ns = windows_ms[question.pairs[0].policy] * WEIR_MS;
        if (outcome.booked < 0) /* refused */
            window_ns = min64(window_ns, 5 * WEIR_SEC);
        *id = (struct remembered){question, outcome, world->now_ns + window_ns};
        if (outcome.booked >= 0)
            id->expires_ns = max64(id->expires_ns, world->bookings[outcome.booked].expires_ns);
    }
}

/* ---- settle ---- */

static void settle_pair(struct world *world, struct booking *booking, size_t i, bool cancel)
{
    const struct model_pair *pair = &booking->question.pairs[i];
    struct weir_table *table = world->tables[pair->policy];
    struct name name = name_of(world, pair);
    bool promised = booking->due_ns > world->now_ns;
    int64_t used = cancel ? 0 : booking->late ? max64(booking->used[i], pair->n) : booking->used[i];
    if (cancel && promised) {
        if (weir_table_cancel_at(table, world->now_ns, name.text, name.len, &booking->promise))
            booking->given_back += pair->n;
    } else if (used < pair->n && !promised) {
        weir_table_give_at(table, world->now_ns, name.text, name.len, pair->n - used);
        booking->given_back += pair->n - used;
        booking->charged += used;
    } else {
        if (used > pair->n)
            (void)weir_table_charge_at(table, world->now_ns, name.text, name.len, used - pair->n);
        booking->charged += max64(used, pair->n);
    }
}

static void model_settle(struct world *world, struct booking *booking, const int64_t *used, bool cancel)
{
    memcpy(booking->used, used, sizeof booking->used);
    booking->late = world->now_ns >= booking->expires_ns;
    if (booking->late)
        booking->kept_ns = world->now_ns + windows_ms[booking->question.pairs[0].policy] * WEIR_MS;
    for (size_t i = 0; i < booking->question.count; i++)
        settle_pair(world, booking, i, cancel);
    booking->remaining = left_of(world, &booking->question.pairs[0]);
    booking->settled = cancel ? 2 : 1;
}

/* The one policy that is strict. */
static bool is_overrun(const struct booking *booking, const int64_t *used)
{
    for (size_t i = 0; i < booking->question.count; i++)
        if (booking->question.pairs[i].policy == 2 && used[i] > booking->question.pairs[i].n)
            return true;
    return false;
}

static void roll_used(const struct booking *booking, struct dice *dice, int64_t *used)
{
    for (size_t i = 0; i < booking->question.count; i++) {
        int64_t n = booking->question.pairs[i].n;
        used[i] = dice_chance(dice, 60)   ? dice_between(dice, 0, n)
                  : dice_chance(dice, 50) ? n
                                          : dice_between(dice, n, n + 10);
    }
}

static void do_settle(struct world *world, struct dice *dice)
{
    int64_t used[PAIRS] = {0};
    bool cancel = dice_chance(dice, 40), bare = dice_chance(dice, 20);
    if (world->booked == 0)
        return;
    struct booking *booking = &world->bookings[dice_between(dice, 0, world->booked - 1)];
    roll_used(booking, dice, used);
    if (booking->settled && dice_chance(dice, 50)) { /* the same again */
        cancel = booking->settled == 2;
        bare = false;
        memcpy(used, booking->used, sizeof used);
    }
    for (size_t i = 0; bare && i < booking->question.count; i++)
        used[i] = booking->question.pairs[i].n;
    world->line[0] = '\0';
    add(world, "WEIR.%s %s", cancel ? "CANCEL" : "COMMIT", booking->text);
    for (size_t i = 0; i < booking->question.count && !cancel && !bare; i++)
        add(world, " %" PRId64, used[i]);
    const char *reply = kit_ask(world->kit, world->line);
    bool same = booking->settled == 1 + cancel && (cancel || memcmp(used, booking->used, sizeof used) == 0);
    bool gone = world->now_ns >= booking->kept_ns;
    bool over = cancel && !booking->settled && world->now_ns >= booking->expires_ns;
    if (gone || over || (booking->settled && !same)) {
        expect_error(world, reply, gone ? "-ERR no reservation '" : "-ERR reservation '");
        return;
    }
    if (!booking->settled && !cancel && is_overrun(booking, used)) {
        expect_error(world, reply, "-ERR ");
        return;
    }
    if (!booking->settled)
        model_settle(world, booking, used, cancel);
    if (!cancel)
        expect(world, reply, "charged", booking->charged);
    expect(world, reply, "late", booking->late ? 1 : INT64_MIN);
    expect(world, reply, "given_back", booking->given_back);
    expect(world, reply, "remaining", booking->remaining);
}

/* ---- the rest ---- */

static void do_take(struct world *world, struct dice *dice)
{
    struct model_pair pair = {(int)dice_between(dice, 0, POLICIES - 1), (int)dice_between(dice, 0, KEYS - 1),
                              dice_between(dice, 1, 15)};
    world->line[0] = '\0';
    add(world, "WEIR.TAKE p%d s%" PRIu64 ":%d %" PRId64, pair.policy, world->story, pair.key, pair.n);
    const char *reply = kit_ask(world->kit, world->line);
    expect(world, reply, "allowed", model_take(world, &pair));
}

static void move_clock(struct world *world, int64_t by_ns)
{
    world->now_ns += by_ns;
    kit_clock(world->kit, world->now_ns / WEIR_MS);
}

static void check_keys(struct world *world)
{
    for (int policy = 0; policy < POLICIES; policy++)
        for (int key = 0; key < KEYS; key++) {
            struct model_pair pair = {policy, key, 1};
            world->line[0] = '\0';
            add(world, "WEIR.PEEK p%d s%" PRIu64 ":%d", policy, world->story, key);
            expect(world, kit_ask(world->kit, world->line), "remaining", left_of(world, &pair));
        }
}

static void do_step(struct world *world, struct dice *dice)
{
    int64_t lot = dice_between(dice, 1, 100);
    if (lot <= 35)
        do_reserve(world, dice);
    else if (lot <= 70)
        do_settle(world, dice);
    else if (lot <= 80)
        do_take(world, dice);
    else if (lot <= 98)
        move_clock(world, dice_between(dice, 0, 2000) * WEIR_MS);
    else
        move_clock(world, dice_between(dice, 0, 70000) * WEIR_MS);
}

static bool tell(struct world *world)
{
    struct dice dice = dice_new(check.seed, world->story);
    world->booked = 0;
    world->good = true;
    memset(world->bookings, 0, sizeof world->bookings);
    memset(world->ids, 0, sizeof world->ids);
    for (int i = 0; i < STEPS && world->good; i++)
        do_step(world, &dice);
    check_keys(world);
    move_clock(world, 3600 * WEIR_SEC); /* what was told is forgotten */
    return world->good;
}

TEST(a_service_answers_as_the_model_does)
{
    static struct world world;
    struct kit kit;
    int64_t stories = check_env("WEIR_LEDGER_STORIES", 500);
    if (!CHECK(kit_open(&kit, config)))
        return;
    world.kit = &kit;
    for (int i = 0; i < POLICIES; i++) {
        world.tables[i] = weir_table_new(limits[i], 1000, NULL);
        if (!CHECK(world.tables[i] != NULL))
            return;
    }
    for (int64_t i = 0; i < stories && CHECK(tell(&world)); i++)
        world.story++;
    for (int i = 0; i < POLICIES; i++)
        weir_table_free(world.tables[i]);
    kit_close(&kit);
}
