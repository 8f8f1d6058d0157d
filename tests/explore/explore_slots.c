/* SPDX-License-Identifier: MIT */
/*
 * The slots of a table (src/table/slots.c, words.c) under every interleaving and every weak behaviour of two
 * or three threads. Both are compiled for this program with the explorer's atoms, otherwise as they are, and
 * work on a table of one or two lines: see small_table.h.
 *
 * A plan says what is in the slots, and what each thread does at which reading of its clock. After every
 * execution:
 *
 *   the law holds for every key, with what was taken before, each unit at the time at which it was taken
 *   no key has two entries, and none is left tentative, unless its inserter was killed
 *   every word is of the latest generation
 *   a key that nobody could forget came in once at the most
 *   if the plan is exact, there is an order of all questions in which the pure core, asked one after the
 *   other, gives the same answers and is left in the same state
 */
#include "check.h"
#include "core/index.h"
#include "explore/explore.h"
#include "explore/small_table.h"

#define NOW (10 * WEIR_SEC)

enum { THREADS = SMALL_PROCESSES, ACTS = 4, EVENTS = 32 };

/* NOBODY is an empty slot. The home of all is the first line. FULL stands for any number of debtors, which
 * never go. TWIN is another key with the identity of KEY, if the table keeps whole keys. */
enum name { NOBODY, KEY, OTHER, TWIN, FULL, KEYS };
static const uint64_t hashes[KEYS] = {0, UINT64_C(1) << 60, UINT64_C(2) << 60, UINT64_C(1) << 60,
                                      SMALL_STAYS};

static struct key key_of(enum name name)
{
    return (struct key){.hash = hashes[name], .rest = 100 + name, .form = 5};
}

enum act_verb {
    NOTHING,
    TAKE,
    FAST,
    INSERT,
    SETTLE,
    CLAIM,
    GIVE,
    HOLD,
    SWEEP,
    CHANGE,
    GROW,
    ENLARGE,
    MOVE,
    REMOVE,
    IMPORT
};

struct act {
    /* FAST is a take as callers make it. INSERT is the rest of one that has looked already, and found nobody.
     * SETTLE is an INSERT without the take. CLAIM is one whose thread looked in time, but dies in the second
     * slot. HOLD is one under the lock of the stripe. REMOVE takes away what is tentative of the key.
     * IMPORT brings what keys shared elsewhere, of which the key has taken all. */
    enum act_verb verb;
    enum name key;
    int64_t later_ns; /* than NOW, on the clock of this thread */
    int64_t n;
};

struct entry {
    enum name key;
    int64_t later_ns; /* took its units at NOW + this */
    int64_t spent;
    enum slot_kind kind;
};

struct plan {
    const char *limits[SMALL_EDITIONS + 1]; /* the first, and what each CHANGE sets */
    uint64_t segments, lines;               /* that there may be; 0: 1 */
    struct entry slots[SMALL_SEGMENTS][SMALL_LINES * LINE_SLOTS];
    struct act acts[THREADS][ACTS];
    int dies_after; /* steps of thread 0; 0: it lives */
    bool kills;     /* others die */
    bool forgets;   /* KEY may be forgotten in the course of it */
    bool exact;
    bool moves;      /* all threads are of one process */
    bool overridden; /* KEY has limits of its own: one unit */
    bool whole;      /* the table keeps whole keys */
    unsigned weaken;
    uint64_t most; /* paths, if all are too many; 0: all */
};

struct answer {
    bool done, yes;
    int64_t time; /* at which it was decided: no earlier than the reading, if that was too old */
};

static struct plan plan;
static struct answer answers[THREADS][ACTS];

static const struct limit *limit_at(uint64_t generation)
{
    return &small.editions[generation].policy->limits[0];
}

/* ---- the threads ---- */

static struct slot *slot_at(int segment, uint64_t index)
{
    return &small.slots[segment][index];
}

static void setup(void)
{
    uint64_t segments = plan.segments ? plan.segments : 1, lines = plan.lines ? plan.lines : 1;
    small_table_clear(segments, lines, false);
    for (int s = 0; s < SMALL_SEGMENTS; s++)
        for (uint64_t i = 0; i < lines * LINE_SLOTS; i++) {
            const struct entry *e = &plan.slots[s][i];
            small_table_put(slot_at(s, i), hashes[e->key], e->kind, NOW + e->later_ns, e->spent);
            small.witnesses[s][i] = (atom128){{key_of(e->key).rest}, {key_of(e->key).form}};
        }
    if (plan.whole)
        small_table_exact();
    if (plan.moves)
        small_table_unite();
    small.overridden = plan.overridden ? hashes[KEY] : 0;
    memset(answers, 0, sizeof answers);
}

static bool run_op(struct weir_table *table, enum table_verb verb, const struct act *a, struct answer *answer)
{
    struct key key = key_of(a->key);
    struct table_op op = {.verb = verb, .now = NOW + a->later_ns, .n = a->n};
    bool yes = table->kind->run(table, &key, &op);
    answer->time = op.now;
    return yes;
}

static bool take_fast(struct weir_table *table, const struct act *a, struct answer *answer)
{
    struct key key = key_of(a->key);
    answer->time = NOW + a->later_ns;
    enum slot_answer fast = weir_words_take(table, &key, answer->time, a->n, NULL);
    return fast == SLOT_ASK ? run_op(table, VERB_TAKE, a, answer) : fast == SLOT_YES;
}

static bool insert_and_take(struct weir_table *table, const struct act *a, struct answer *answer)
{
    struct key key = key_of(a->key);
    const struct edition *edition = table_edition(table);
    struct slot_ref ref = weir_slots_settle(table, &edition, &key, NOW + a->later_ns);
    if (!ref.slot || a->verb == SETTLE)
        return false;
    return take_fast(table, a, answer);
}

static void claim_and_die(const struct act *a)
{
    uint64_t number = atom_add(&small.header.number, 1, memory_order_seq_cst) + 1;
    (void)slot_exchange(slot_at(0, 1), 0, 0, hashes[a->key], slot_pack(SLOT_TENTATIVE, 0, number));
}

/* As take_all.c does it: held, decided, charged, let go. */
static bool take_held(struct weir_table *table, const struct act *a, struct answer *answer)
{
    struct key key = key_of(a->key);
    struct stripe *stripe = weir_stripe_lock(table->region, 0);
    const struct edition *edition;
    struct slot *slot;
    uint64_t hash, word;
    int64_t state[SLOT_STATE];
    answer->time = NOW + a->later_ns;
    do {
        edition = table_edition(table);
        slot = weir_slots_settle(table, &edition, &key, answer->time).slot;
        EXPLORE_CHECK(slot != NULL);
        hash = slot_hash(slot);
        word = slot_word(slot);
    } while (hash != key.hash || slot_kind(word) == SLOT_TENTATIVE || !table_is_latest(table, edition) ||
             !weir_journal_hold(table->region, NULL, slot, hash, word));
    EXPLORE_CHECK(slot_kind(word) != SLOT_HELD);
    weir_slot_word_unpack(limit_at(edition->generation), weir_slot_word_convert(table, edition, word), state);
    bool yes = weir_state_take(edition->policy, state, answer->time, a->n, NULL);
    word = slot_with_kind(weir_slot_word_pack(limit_at(edition->generation), edition, state), SLOT_HELD);
    atom_store(&slot->both.high, word, memory_order_seq_cst);
    EXPLORE_CHECK(slot_exchange(slot, hash, word, hash, slot_with_kind(word, SLOT_PLAIN)));
    weir_stripe_unlock(stripe);
    return yes;
}

static bool import_shared(struct weir_table *table, const struct act *a, struct answer *answer)
{
    struct state_transfer transfer = {.limits = 1, .spent = {a->n}};
    struct table_op op = {.verb = VERB_IMPORT, .now = NOW + a->later_ns, .n = 1, .transfer = &transfer};
    answer->time = op.now;
    return weir_words_shared(table, &op);
}

static bool act(const struct act *a, struct answer *answer)
{
    struct weir_table *table = small_table();
    switch (a->verb) {
    case TAKE:
        return run_op(table, VERB_TAKE, a, answer);
    case FAST:
        return take_fast(table, a, answer);
    case INSERT:
    case SETTLE:
        return insert_and_take(table, a, answer);
    case CLAIM:
        claim_and_die(a);
        break;
    case GIVE:
        return run_op(table, VERB_GIVE, a, answer);
    case HOLD:
        return take_held(table, a, answer);
    case SWEEP:
        (void)weir_words_sweep(table, NOW + a->later_ns, 0, SMALL_SEGMENTS * SMALL_LINES, true);
        break;
    case CHANGE:
        small_table_change(NOW);
        break;
    case GROW:
        small_table_grow();
        break;
    case ENLARGE:
        small_table_enlarge();
        break;
    case MOVE:
        small_table_move(NOW + a->later_ns);
        break;
    case REMOVE:
        (void)weir_slots_seek(table, hashes[a->key], &answer->done);
        answer->done = true;
        break;
    case IMPORT:
        return import_shared(table, a, answer);
    case NOTHING:
        break;
    }
    return true;
}

static void run_acts(void)
{
    int thread = explore_thread();
    if (thread == 0 && plan.dies_after)
        explore_die_after(plan.dies_after);
    for (int i = 0; i < ACTS && plan.acts[thread][i].verb; i++) {
        struct answer answer = {.done = true};
        answer.yes = act(&plan.acts[thread][i], &answer);
        answers[thread][i] = answer;
    }
}

/* ---- the law ---- */

struct event {
    int64_t time, units;
};

static bool takes(enum act_verb verb)
{
    return verb == TAKE || verb == FAST || verb == INSERT || verb == HOLD || verb == IMPORT;
}

static size_t list_events(enum name key, struct event *events)
{
    size_t count = 0;
    for (int s = 0; s < SMALL_SEGMENTS; s++)
        for (int i = 0; i < SMALL_LINES * LINE_SLOTS; i++) {
            const struct entry *e = &plan.slots[s][i];
            if (e->key == key && e->spent)
                events[count++] = (struct event){NOW + e->later_ns, e->spent};
        }
    for (int thread = 0; thread < THREADS; thread++)
        for (int i = 0; i < ACTS; i++) {
            const struct act *a = &plan.acts[thread][i];
            const struct answer *answer = &answers[thread][i];
            if (a->key == key && answer->yes && takes(a->verb))
                events[count++] = (struct event){answer->time, a->n};
            else if (a->key == key && answer->done && a->verb == GIVE)
                events[count++] = (struct event){answer->time, -a->n};
        }
    return count;
}

/* Of all limits that were in force the widest. */
static bool is_lawful(const struct event *events, size_t count, int64_t from, int64_t to)
{
    int64_t units = 0, burst = 0, unit = INT64_MAX;
    for (int i = 0; i < SMALL_EDITIONS && plan.limits[i]; i++) {
        burst = max64(burst, limit_at((uint64_t)i)->burst);
        unit = min64(unit, limit_at((uint64_t)i)->ticks.unit); /* all limits here have ticks of 1 ns */
    }
    for (size_t i = 0; i < count; i++)
        if (events[i].time >= from && events[i].time <= to)
            units += events[i].units;
    return (units - burst) * unit <= to - from + 1;
}

static void check_law(enum name key)
{
    struct event events[EVENTS];
    size_t count = list_events(key, events);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (events[i].time <= events[j].time)
                EXPLORE_CHECK(is_lawful(events, count, events[i].time, events[j].time));
}

/* ---- the slots ---- */

/* The key's entry that is not tentative; there is one at most. */
static struct slot *check_entries(enum name key)
{
    struct slot *found = NULL;
    for (int s = 0; s < SMALL_SEGMENTS; s++)
        for (uint64_t i = 0; i < (plan.lines ? plan.lines : 1) * LINE_SLOTS; i++) {
            struct slot *slot = slot_at(s, i);
            if ((s > 0 && plan.segments < 2) || slot_hash(slot) != hashes[key])
                continue;
            uint64_t word = slot_word(slot);
            uint64_t generation = atom_load(&small.header.generation, memory_order_relaxed);
            if (slot_kind(word) == SLOT_TENTATIVE) {
                EXPLORE_CHECK(plan.kills || plan.dies_after);
                continue;
            }
            EXPLORE_CHECK(found == NULL);
            EXPLORE_CHECK((uint64_t)s >= region_first(small.tables[0].region));
            EXPLORE_CHECK((slot_kind(word) == SLOT_HELD) == (plan.overridden && key == KEY));
            EXPLORE_CHECK(slot_generation(word) == (generation & 3));
            found = slot;
        }
    return found;
}

/* ---- the same questions, one after the other ---- */

struct course {
    uint64_t generation;
    int64_t state[SLOT_STATE]; /* of KEY */
    int done[THREADS];
};

static struct answer ask_core(struct course *c, const struct act *a)
{
    const struct weir_policy *policy = small.editions[c->generation].policy;
    int64_t now = NOW + a->later_ns, to[SLOT_STATE] = {0};
    switch (a->verb) {
    case TAKE:
    case FAST:
    case INSERT:
    case HOLD:
        return (struct answer){.yes = weir_state_take(policy, c->state, now, a->n, NULL)};
    case GIVE:
        weir_state_give(policy, c->state, now, a->n);
        break;
    case CHANGE:
        weir_state_change(policy, c->state, small.editions[++c->generation].policy, to, NOW);
        memcpy(c->state, to, sizeof to);
        break;
    default:
        break;
    }
    return (struct answer){.yes = true};
}

static int64_t level(const struct limit *limit, int64_t index)
{
    int64_t v = ticks_at(&limit->ticks, NOW);
    return v - index_at(limit, index, v);
}

static bool ends_alike(const struct course *c, const struct slot *slot)
{
    int64_t state[SLOT_STATE];
    const struct limit *limit = limit_at(c->generation);
    if (!slot) /* as if never used */
        return level(limit, c->state[STATE_HEADER]) == limit->full;
    weir_slot_word_unpack(limit, slot_word(slot), state);
    return level(limit, state[STATE_HEADER]) == level(limit, c->state[STATE_HEADER]);
}

static bool explains(const struct course *c, const struct slot *slot)
{
    bool ended = true;
    for (int thread = 0; thread < THREADS; thread++) {
        struct course after = *c;
        int i = after.done[thread]++;
        if (i == ACTS || !plan.acts[thread][i].verb)
            continue;
        ended = false;
        if (ask_core(&after, &plan.acts[thread][i]).yes == answers[thread][i].yes && explains(&after, slot))
            return true;
    }
    return ended && ends_alike(c, slot);
}

static void begin_course(struct course *c)
{
    int64_t value = ticks_at(&limit_at(0)->ticks, NOW);
    for (int i = 0; i < LINE_SLOTS; i++) {
        const struct entry *e = &plan.slots[0][i];
        if (e->key == KEY)
            value = ticks_at(&limit_at(0)->ticks, NOW + e->later_ns) + e->spent * limit_at(0)->ticks.unit;
    }
    weir_slot_word_unpack(limit_at(0), slot_pack(SLOT_PLAIN, 0, (uint64_t)value), c->state);
}

/* Whole keys: is the witness of every entry that of a key which is called so, and has it paid for no other?
 */
static void check_witness(enum name key, const struct slot *slot)
{
    struct event events[EVENTS];
    const struct limit *limit = limit_at(atom_load(&small.header.generation, memory_order_relaxed));
    const atom128 *witness = small.witnesses[0] + (slot - small.slots[0]);
    uint64_t rest = atom_load(&witness->low, memory_order_relaxed);
    int64_t state[SLOT_STATE], units = 0;
    enum name is = key == KEY && rest == key_of(TWIN).rest ? TWIN : key;
    EXPLORE_CHECK(rest == key_of(is).rest && (atom_load(&witness->high, memory_order_relaxed) & 63) == 5);
    for (size_t i = list_events(is, events); i-- > 0;)
        units += events[i].units;
    weir_slot_word_unpack(limit, slot_word(slot), state);
    EXPLORE_CHECK(plan.forgets ||
                  level(limit, state[STATE_HEADER]) == limit->full - units * limit->ticks.unit);
}

static void finish(void)
{
    struct course course = {.generation = 0};
    int came_in = 0;
    for (enum name key = KEY; key < FULL; key++) {
        check_law(key);
        if (key == TWIN) /* its entry was that of KEY */
            continue;
        if (!plan.weaken) /* else it is broken, which the checks of this file have to find */
            (void)weir_slots_check(&small.tables[0], hashes[key], !plan.kills && !plan.dies_after);
        struct slot *slot = check_entries(key);
        if (plan.whole && slot)
            check_witness(key, slot);
        if (key != KEY || !plan.exact)
            continue;
        begin_course(&course);
        EXPLORE_CHECK(explains(&course, slot));
    }
    for (int i = 0; i < THREADS; i++)
        came_in += small.came_in[i];
    if (!plan.forgets)
        EXPLORE_CHECK(came_in <= 1);
}

/* ---- plans ---- */

static struct explore explore_of(const struct plan *p)
{
    struct explore e = {.setup = setup, .finish = finish, .weaken = p->weaken, .paths_max = p->most};
    for (int thread = 0; thread < THREADS && p->acts[thread][0].verb; thread++)
        e.threads[thread] = run_acts;
    return e;
}

/* All executions, or as many as the plan has patience for. */
static bool hold(struct explore *e)
{
    explore_run(e);
    if (e->complete || strncmp(e->fault, "gave up", strlen("gave up")) == 0) {
        printf("# %s%" PRIu64 " executions, in %" PRIu64 " paths\n", e->complete ? "all " : "the first ",
               e->executions, e->paths);
        return true;
    }
    printf("# after %" PRIu64 " executions: %s\n", e->executions, e->fault);
    explore_trace(stdout);
    return false;
}

static bool run(const struct plan *p, bool (*how)(struct explore *e))
{
    plan = *p;
    struct explore e = explore_of(p);
    bool result = CHECK(small_table_read(p->limits)) && how(&e);
    small_table_free();
    return result;
}

#define DO(VERB, KEY, N)     ((struct act){.verb = (VERB), .key = (KEY), .n = (N)})
#define AT(MS, VERB, KEY, N) ((struct act){.verb = (VERB), .key = (KEY), .n = (N), .later_ns = (MS)*WEIR_MS})
/* A slot whose key owes for ever, and one whose key may be forgotten at NOW + MS. */
#define DEBTOR                                                                                               \
    {                                                                                                        \
        .key = FULL, .spent = 1000                                                                           \
    }
#define IDLE_AT(NAME, MS)                                                                                    \
    {                                                                                                        \
        .key = (NAME), .later_ns = ((MS)-1) * WEIR_MS                                                        \
    }

#define HOLDS(...)  CHECK(run(&(struct plan){__VA_ARGS__}, hold))
#define BREAKS(...) CHECK(run(&(struct plan){__VA_ARGS__}, explore_breaks))

#define BURST_1  .limits = {"1/s burst=1"}
#define CHANGING .limits = {"1/s burst=2", "2/s burst=2"}

TEST(two_inserters_of_one_key_let_one_pass)
{
    HOLDS(BURST_1, .slots = {{{0}, DEBTOR, DEBTOR, DEBTOR}},
          .acts = {{DO(TAKE, KEY, 1)}, {DO(TAKE, KEY, 1)}});
    HOLDS(BURST_1, .slots = {{IDLE_AT(OTHER, 5), {0}, DEBTOR, DEBTOR}},
          .acts = {{DO(TAKE, KEY, 1)}, {AT(5, TAKE, KEY, 1)}});
    BREAKS(BURST_1, .slots = {{IDLE_AT(OTHER, 5), {0}, DEBTOR, DEBTOR}}, .weaken = EXPLORE_NO_SEQ_CST_ACCESS,
           .acts = {{DO(INSERT, KEY, 1)}, {AT(5, INSERT, KEY, 1)}});
}

TEST(three_inserters_of_one_key_make_one_entry)
{
    HOLDS(BURST_1, .slots = {{IDLE_AT(OTHER, 5), {0}, DEBTOR, DEBTOR}}, .most = 20000,
          .acts = {{DO(SETTLE, KEY, 1)}, {AT(5, SETTLE, KEY, 1)}, {DO(SETTLE, KEY, 1)}});
}

TEST(the_entry_of_a_dead_inserter_is_settled_by_others)
{
    HOLDS(BURST_1, .slots = {{{.key = KEY, .kind = SLOT_TENTATIVE}, {0}, DEBTOR, DEBTOR}},
          .acts = {{DO(INSERT, KEY, 1)}, {DO(INSERT, KEY, 1)}});
    HOLDS(BURST_1, .slots = {{IDLE_AT(OTHER, 5), {.key = KEY, .kind = SLOT_TENTATIVE}, DEBTOR, DEBTOR}},
          .acts = {{DO(INSERT, KEY, 1)}, {AT(5, INSERT, KEY, 1)}});
}

/* An entry that was seen only in the course of a look proves nothing about the slots before it. */
TEST(an_entry_that_came_in_during_the_look_is_looked_after_again)
{
    HOLDS(BURST_1, .slots = {{{0}, {0}, DEBTOR, DEBTOR}}, .kills = true,
          .acts = {{DO(INSERT, KEY, 1), DO(CLAIM, KEY, 1)}, {DO(INSERT, KEY, 1)}});
}

TEST(an_inserter_may_be_killed_at_any_step)
{
    for (int steps = 1; steps <= 50; steps++)
        HOLDS(BURST_1, .slots = {{IDLE_AT(OTHER, 5), {0}, DEBTOR, DEBTOR}}, .dies_after = steps,
              .acts = {{DO(INSERT, KEY, 1)}, {AT(5, INSERT, KEY, 1)}});
}

TEST(a_key_that_was_forgotten_starts_at_the_floor)
{
    HOLDS(BURST_1, .slots = {{{.key = KEY, .spent = 1}, {0}, DEBTOR, DEBTOR}}, .forgets = true,
          .acts = {{AT(500, INSERT, KEY, 1)}, {AT(1002, SETTLE, OTHER, 1)}});
    HOLDS(BURST_1, .slots = {{{.key = KEY, .spent = 1}, {0}, DEBTOR, DEBTOR}}, .forgets = true,
          .acts = {{AT(500, TAKE, KEY, 1)}, {AT(1002, SWEEP, NOBODY, 1)}});
    HOLDS(BURST_1, .slots = {{{.key = KEY, .spent = 1}, {0}, DEBTOR, DEBTOR}}, .forgets = true,
          .acts = {{AT(500, INSERT, KEY, 1), AT(600, FAST, KEY, 1)}, {AT(1002, SWEEP, NOBODY, 1)}});
}

TEST(a_key_that_was_forgotten_shares_from_the_floor_on)
{
    HOLDS(BURST_1, .slots = {{{.key = KEY, .spent = 1}, DEBTOR, DEBTOR, DEBTOR}}, .forgets = true,
          .acts = {{AT(500, TAKE, KEY, 1)}, {AT(1002, SETTLE, OTHER, 1)}});
    HOLDS(BURST_1, .slots = {{{0}, DEBTOR, DEBTOR, DEBTOR}}, .forgets = true, .most = 10000,
          .acts = {{DO(INSERT, KEY, 1), AT(2000, SETTLE, OTHER, 1)}, {AT(300, TAKE, KEY, 1)}});
}

/* The floor is where KEY stands: so OTHER, whose reading is older, comes in with the same word. */
TEST(a_delayed_take_charges_nobody_else)
{
    HOLDS(BURST_1, .slots = {{{.key = KEY}, IDLE_AT(OTHER, 0), DEBTOR, DEBTOR}}, .forgets = true,
          .acts = {{DO(FAST, KEY, 1), DO(FAST, KEY, 1)},
                   {DO(SWEEP, NOBODY, 1), AT(1, SWEEP, NOBODY, 1), DO(SETTLE, OTHER, 1)}});
}

TEST(nobody_takes_twice_by_way_of_the_overflow)
{
    HOLDS(BURST_1, .slots = {{IDLE_AT(OTHER, 5), DEBTOR, DEBTOR, DEBTOR}},
          .acts = {{DO(TAKE, KEY, 1)}, {AT(5, INSERT, KEY, 1)}});
    BREAKS(BURST_1, .slots = {{IDLE_AT(OTHER, 5), DEBTOR, DEBTOR, DEBTOR}},
           .weaken = EXPLORE_NO_SEQ_CST_ACCESS, .acts = {{DO(TAKE, KEY, 1)}, {AT(5, INSERT, KEY, 1)}});
}

/* In one process only keys that are noted start from what is shared: who takes is noted before. */
TEST(who_takes_from_the_overflow_is_known)
{
    HOLDS(BURST_1, .moves = true, .slots = {{IDLE_AT(OTHER, 5), DEBTOR, DEBTOR, DEBTOR}}, .most = 20000,
          .acts = {{DO(TAKE, KEY, 1)}, {AT(5, INSERT, KEY, 1)}});
    HOLDS(BURST_1, .moves = true, .slots = {{IDLE_AT(OTHER, 5), DEBTOR, DEBTOR, DEBTOR}}, .most = 10000,
          .acts = {{DO(TAKE, KEY, 1), AT(1002, TAKE, KEY, 1)},
                   {AT(1002, TAKE, OTHER, 1), AT(5, INSERT, KEY, 1)}});
}

/* Nor is it forgotten who took elsewhere, by somebody who finds what is shared here idle still. */
TEST(who_took_from_the_overflow_elsewhere_is_known)
{
    HOLDS(BURST_1, .moves = true, .slots = {{IDLE_AT(FULL, 5), DEBTOR, DEBTOR, DEBTOR}}, .most = 20000,
          .acts = {{DO(IMPORT, KEY, 1), AT(5, INSERT, KEY, 1)}, {DO(TAKE, OTHER, 1)}});
}

TEST(a_change_keeps_units_whoever_comes_in)
{
    HOLDS(CHANGING, .exact = true, .acts = {{DO(CHANGE, NOBODY, 0)}, {DO(TAKE, KEY, 1)}});
    HOLDS(CHANGING, .exact = true, .acts = {{DO(CHANGE, NOBODY, 0)}, {DO(INSERT, KEY, 1), DO(FAST, KEY, 1)}});
    HOLDS(CHANGING, .slots = {{{.key = KEY, .kind = SLOT_TENTATIVE}, {0}, {0}, {0}}}, .exact = true,
          .acts = {{DO(CHANGE, NOBODY, 0)}, {DO(INSERT, KEY, 1)}});
    HOLDS(CHANGING, .slots = {{{.key = KEY, .kind = SLOT_TENTATIVE}, {0}, {0}, {0}}}, .exact = true,
          .most = 15000, .acts = {{DO(CHANGE, NOBODY, 0)}, {DO(INSERT, KEY, 1)}, {DO(INSERT, KEY, 1)}});
}

TEST(a_change_keeps_units_whoever_takes)
{
    HOLDS(CHANGING, .slots = {{{.key = KEY, .spent = 1}, {0}, {0}, {0}}}, .exact = true,
          .acts = {{DO(CHANGE, NOBODY, 0)}, {DO(FAST, KEY, 1)}, {DO(TAKE, KEY, 1)}});
    HOLDS(CHANGING, .slots = {{{.key = KEY, .spent = 2}, {0}, {0}, {0}}}, .exact = true,
          .acts = {{DO(CHANGE, NOBODY, 0)}, {DO(GIVE, KEY, 1)}, {DO(FAST, KEY, 1)}});
}

TEST(a_thread_that_slept_through_changes_takes_by_the_latest)
{
    HOLDS(.limits = {"1/s burst=2", "2/s burst=2", "4/s burst=2", "8/s burst=2"},
          .slots = {{{.key = KEY, .spent = 1}, {0}, {0}, {0}}}, .exact = true,
          .acts = {{DO(CHANGE, NOBODY, 0), DO(CHANGE, NOBODY, 0), DO(CHANGE, NOBODY, 0)},
                   {DO(TAKE, KEY, 1)}});
    HOLDS(.limits = {"1/s burst=2", "2/s burst=2", "4/s burst=2", "8/s burst=2", "16/s burst=2"},
          .slots = {{{.key = KEY, .spent = 1}, {0}, {0}, {0}}}, .exact = true,
          .acts = {
              {DO(CHANGE, NOBODY, 0), DO(CHANGE, NOBODY, 0), DO(CHANGE, NOBODY, 0), DO(CHANGE, NOBODY, 0)},
              {DO(FAST, KEY, 1)}});
}

TEST(who_meets_a_held_word_waits)
{
    HOLDS(BURST_1, .slots = {{{.key = KEY}, {0}, {0}, {0}}}, .exact = true,
          .acts = {{DO(HOLD, KEY, 1)}, {DO(FAST, KEY, 1)}, {DO(HOLD, KEY, 1)}});
    HOLDS(BURST_1, .slots = {{{0}, DEBTOR, DEBTOR, DEBTOR}}, .exact = true,
          .acts = {{DO(HOLD, KEY, 1)}, {DO(TAKE, KEY, 1)}});
    HOLDS(BURST_1, .slots = {{{.key = KEY}, DEBTOR, DEBTOR, {0}}}, .forgets = true,
          .acts = {{DO(HOLD, KEY, 1)}, {AT(2, SETTLE, OTHER, 1)}});
    HOLDS(BURST_1, .slots = {{{.key = KEY}, DEBTOR, DEBTOR, {0}}}, .forgets = true, .most = 8000,
          .acts = {{DO(HOLD, KEY, 1)}, {AT(2, SWEEP, NOBODY, 1), AT(2, FAST, KEY, 1)}});
    HOLDS(CHANGING, .slots = {{{.key = KEY}, {0}, {0}, {0}}}, .exact = true,
          .acts = {{DO(HOLD, KEY, 1)}, {DO(CHANGE, NOBODY, 0)}});
}

TEST(a_key_lives_once_in_all_segments)
{
    HOLDS(BURST_1, .slots = {{{0}, DEBTOR, DEBTOR, DEBTOR}, {DEBTOR, {0}, DEBTOR, DEBTOR}}, .segments = 2,
          .acts = {{DO(GROW, NOBODY, 0), DO(SETTLE, KEY, 1)}, {DO(SETTLE, KEY, 1)}});
    BREAKS(BURST_1, .slots = {{{0}, DEBTOR, DEBTOR, DEBTOR}, {DEBTOR, {0}, DEBTOR, DEBTOR}}, .segments = 2,
           .weaken = EXPLORE_NO_SEQ_CST_ACCESS,
           .acts = {{DO(GROW, NOBODY, 0), DO(INSERT, KEY, 1)}, {DO(INSERT, KEY, 1)}});
}

TEST(a_key_lives_once_in_its_window)
{
    HOLDS(BURST_1, .lines = 2,
          .slots = {{IDLE_AT(OTHER, 5), DEBTOR, DEBTOR, DEBTOR, {0}, DEBTOR, DEBTOR, DEBTOR}},
          .acts = {{DO(INSERT, KEY, 1)}, {AT(5, INSERT, KEY, 1)}});
}

/* ---- keys that move ---- */

#define MOVES .moves = true, .segments = 2
#define MOVER                                                                                                \
    {                                                                                                        \
        DO(ENLARGE, NOBODY, 0), DO(MOVE, NOBODY, 0)                                                          \
    }

TEST(a_key_that_moves_is_taken_from_once)
{
    HOLDS(BURST_1, MOVES, .slots = {{{.key = KEY}, DEBTOR, DEBTOR, DEBTOR}, {{0}, DEBTOR, DEBTOR, DEBTOR}},
          .exact = true, .acts = {MOVER, {DO(FAST, KEY, 1)}});
    HOLDS(BURST_1, MOVES, .slots = {{{.key = KEY}, DEBTOR, DEBTOR, DEBTOR}, {{0}, DEBTOR, DEBTOR, DEBTOR}},
          .exact = true, .most = 5000, .acts = {MOVER, {DO(FAST, KEY, 1)}, {DO(TAKE, KEY, 1)}});
    HOLDS(.limits = {"1/s burst=2"}, MOVES,
          .slots = {{{.key = KEY, .spent = 2}, DEBTOR, DEBTOR, DEBTOR}, {{0}, {0}, DEBTOR, DEBTOR}},
          .exact = true, .most = 5000,
          .acts = {MOVER, {DO(GIVE, KEY, 1), DO(FAST, KEY, 1)}, {DO(HOLD, KEY, 1)}});
}

/* An inserter found room in the first segment before that was closed, or looked before there was a second. */
TEST(a_key_that_comes_in_while_others_move_comes_in_once)
{
    HOLDS(BURST_1, MOVES, .slots = {{{0}, DEBTOR, DEBTOR, DEBTOR}, {{0}, {0}, DEBTOR, DEBTOR}}, .most = 20000,
          .acts = {MOVER, {DO(INSERT, KEY, 1)}});
    HOLDS(BURST_1, MOVES, .slots = {{{0}, DEBTOR, DEBTOR, DEBTOR}, {{0}, {0}, DEBTOR, DEBTOR}}, .most = 8000,
          .acts = {MOVER, {DO(INSERT, KEY, 1)}, {DO(INSERT, KEY, 1)}});
    HOLDS(BURST_1, MOVES, .slots = {{{.key = KEY}, {0}, DEBTOR, DEBTOR}, {{0}, {0}, DEBTOR, DEBTOR}},
          .most = 8000, .acts = {MOVER, {DO(INSERT, KEY, 1)}, {DO(TAKE, KEY, 1)}});
    HOLDS(BURST_1, MOVES,
          .slots = {{{.key = KEY, .kind = SLOT_TENTATIVE}, {0}, DEBTOR, DEBTOR}, {{0}, {0}, DEBTOR, DEBTOR}},
          .most = 8000, .acts = {MOVER, {DO(INSERT, KEY, 1)}});
}

TEST(a_key_is_moved_or_forgotten)
{
    HOLDS(BURST_1, MOVES, .forgets = true,
          .slots = {{{.key = KEY, .spent = 1}, DEBTOR, DEBTOR, DEBTOR}, {{0}, DEBTOR, DEBTOR, DEBTOR}},
          .acts = {{DO(ENLARGE, NOBODY, 0), AT(1002, MOVE, NOBODY, 0)}, {AT(500, TAKE, KEY, 1)}});
    HOLDS(BURST_1, MOVES, .forgets = true, .most = 5000,
          .slots = {{{.key = KEY, .spent = 1}, DEBTOR, DEBTOR, DEBTOR}, {{0}, DEBTOR, DEBTOR, DEBTOR}},
          .acts = {MOVER, {AT(1002, SWEEP, NOBODY, 0)}, {AT(500, FAST, KEY, 1)}});
}

TEST(a_key_moves_while_limits_change)
{
    HOLDS(CHANGING, MOVES, .exact = true, .most = 8000,
          .slots = {{{.key = KEY, .spent = 1}, DEBTOR, DEBTOR, DEBTOR}, {{0}, DEBTOR, DEBTOR, DEBTOR}},
          .acts = {MOVER, {DO(CHANGE, NOBODY, 0)}, {DO(FAST, KEY, 1)}});
}

TEST(a_key_with_limits_of_its_own_moves_held)
{
    HOLDS(BURST_1, MOVES, .overridden = true,
          .slots = {{{.key = KEY, .kind = SLOT_HELD}, DEBTOR, DEBTOR, DEBTOR}, {{0}, DEBTOR, DEBTOR, DEBTOR}},
          .most = 8000, .acts = {MOVER, {DO(FAST, KEY, 1)}, {DO(TAKE, KEY, 1)}});
}

/* ---- whole keys ---- */

TEST(two_inserters_of_one_whole_key_let_one_pass)
{
    CHECK(run(&(struct plan){.limits = {"1/s"},
                             .acts = {{DO(TAKE, KEY, 1)}, {DO(TAKE, KEY, 1)}},
                             .exact = true,
                             .whole = true},
              hold));
}

/* The second one finds no room, and never takes from what is the first one's. */
TEST(of_two_whole_keys_with_one_identity_one_comes_in)
{
    CHECK(run(&(struct plan){.limits = {"2/s"},
                             .acts = {{DO(INSERT, KEY, 1)}, {DO(INSERT, TWIN, 1)}},
                             .whole = true},
              hold));
}

/* The claim is taken away, and another key gets the slot: the first one must not write to its witness. */
TEST(a_delayed_inserter_leaves_the_witness_of_others_alone)
{
    CHECK(run(&(struct plan){.limits = {"2/s"},
                             .slots = {{DEBTOR, DEBTOR, DEBTOR}},
                             .acts = {{DO(SETTLE, KEY, 1)}, {DO(REMOVE, KEY, 0), DO(SETTLE, OTHER, 1)}},
                             .forgets = true,
                             .whole = true,
                             .most = 20000},
              hold));
}

TEST(an_inserter_of_a_whole_key_may_be_killed_at_any_step)
{
    for (int steps = 1; steps < 40; steps++)
        if (!CHECK(run(&(struct plan){.limits = {"2/s"},
                                      .acts = {{DO(INSERT, KEY, 1)}, {DO(INSERT, TWIN, 1)}},
                                      .dies_after = steps,
                                      .forgets = true,
                                      .whole = true,
                                      .most = 2000},
                       hold)))
            printf("#   after %d steps\n", steps);
}

TEST(a_whole_key_that_moves_is_taken_from_once)
{
    CHECK(run(&(struct plan){.limits = {"3/s"},
                             .segments = 2,
                             .slots = {{{KEY, 0, 1, SLOT_PLAIN}}},
                             .acts = {{DO(ENLARGE, NOBODY, 0), DO(MOVE, NOBODY, 0)}, {DO(FAST, KEY, 1)}},
                             .moves = true,
                             .whole = true,
                             .forgets = true,
                             .most = 20000},
              hold));
}
