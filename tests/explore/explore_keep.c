/* SPDX-License-Identifier: MIT */
/*
 * Numbers and words: table/persist/capture_words.c captures records of words without a lock, beside those who
 * change them. Every order of steps, every weak behaviour of two or three threads.
 *
 * Each thread changes a key and captures it afterwards, where it was listed, as a thread does before it
 * answers; or only captures it, as an image does. After every execution, of the records that there are:
 *
 *   all of them: the one that counts is the state that the key has in the end
 *   any part of them, as the log may have when the machine stops: whatever change has its own record among
 *   them has been answered, and is in what counts. No take is lost, and no give
 */
#include "check.h"
#include "explore/explore.h"
#include "explore/small_table.h"
#include "table/persist/capture_words.h"
#include "table/persist/recover.h"
#include "table/persist/records_wide.h"

#define NOW    (10 * WEIR_SEC)
#define LIMITS "1/s burst=8"
#define KEY    (UINT64_C(1) << 60)
#define DEBTOR (UINT64_C(3) << 60)

/* Of whole keys: those of KEY, and of another one that is called the same. */
#define REST      UINT64_C(7)
#define TWIN_REST UINT64_C(8)
#define TWIN_FORM (EXACT_BYTES - 1)

enum { THREADS = SMALL_PROCESSES, ACTS = 2, OLD = 2, RECORDS = THREADS * ACTS + OLD };

enum act_verb { NOTHING, TAKE, FAST, GIVE, SWEEP, LOOK, CHANGE, MOVE };

struct act {
    enum act_verb verb;
    int64_t later_ns, n;
    bool twin; /* it is the other one's */
};

struct plan {
    const char *limits[SMALL_EDITIONS + 1];
    uint64_t lines;
    struct {
        int64_t spent, later_ns; /* of KEY, where it is at first; at slot `at` */
        uint64_t at;
        bool absent;
    } first;
    uint64_t numbers[SMALL_LINES]; /* at first */
    struct word_record old[OLD];   /* records of before; number 0: none */
    struct act acts[THREADS][ACTS];
    bool moves;      /* all threads are of one process, and KEY moves to another segment */
    bool comes_anew; /* KEY comes in in the course of it: what is there counts from NOW on */
    bool exact;      /* keys are whole; one of them alone takes */
    int64_t floor;   /* of the region, at first */
    unsigned weaken;
    uint64_t most;
};

struct note { /* of an act */
    struct word_record record;
    bool captured, yes;
};

static struct plan plan;
static struct note notes[THREADS][ACTS];
static struct slot *listed[THREADS];
static struct persist keeps[THREADS];

/* ---- in the place of the store ---- */

_Thread_local struct dirty *weir_dirty;
_Thread_local uint32_t weir_dirty_holds;
_Atomic uint64_t weir_dirty_misses;

void weir_dirty_note(struct persist *persist, void *slot, uint64_t hash)
{
    (void)persist;
    if (hash == KEY) /* else it is what keys without room share */
        listed[explore_thread()] = slot;
}

bool weir_override_put_record(const struct persist *persist, struct weir_table *table, const struct key *key,
                              struct buffer *out)
{
    (void)persist, (void)table, (void)key, (void)out;
    return false;
}

static struct note *capturing[THREADS];

/* As it is read again: full since time began. */
void weir_gone_put(const struct persist *persist, uint64_t hash, uint64_t number, struct buffer *out)
{
    struct note *note = capturing[persist - keeps];
    (void)out;
    note->record = (struct word_record){
        .hash = hash, .number = number, .word = slot_pack(SLOT_PLAIN, record_generation(number), 0)};
    note->captured = true;
}

static bool is_of_one_key(const struct word_record *record)
{
    return record->rest == REST ? record->form == EXACT_BYTES
                                : record->rest == TWIN_REST && record->form == TWIN_FORM;
}

static char memory[THREADS][64];

static void capture(int thread, struct slot *slot, struct note *note)
{
    struct buffer out = {.bytes = memory[thread], .size = sizeof memory[thread]};
    capturing[thread] = note;
    weir_words_capture(&keeps[thread], slot, KEY, &out);
    if (out.end > 0) {
        struct persist_head head;
        memcpy(&head, out.bytes, sizeof head);
        memcpy(&note->record, out.bytes + sizeof head, head.bytes);
        note->captured = true;
        EXPLORE_CHECK(head.kind == (plan.exact ? TABLE_WHOLE : TABLE_WORD));
        EXPLORE_CHECK(!plan.exact || is_of_one_key(&note->record));
    }
}

/* ---- the threads ---- */

static void setup(void)
{
    small_table_clear(plan.moves ? 2 : 1, plan.lines ? plan.lines : 1, true);
    if (plan.moves)
        small_table_unite();
    uint64_t highest = 0;
    for (uint64_t i = 0; i < SMALL_LINES; i++) {
        small.numbers[0][i] = (atom64){plan.numbers[i]};
        highest = plan.numbers[i] > highest ? plan.numbers[i] : highest;
    }
    small.header.number = (atom64){highest};
    small.header.floor = (atom64){(uint64_t)plan.floor};
    for (uint64_t i = 0; i < (plan.lines ? plan.lines : 1) * LINE_SLOTS; i++)
        small_table_put(&small.slots[0][i], i == plan.first.at || i == 0 ? 0 : DEBTOR, SLOT_PLAIN, NOW, 1000);
    if (!plan.first.absent)
        small_table_put(&small.slots[0][plan.first.at], KEY, SLOT_PLAIN, NOW + plan.first.later_ns,
                        plan.first.spent);
    if (plan.exact) {
        small_table_exact();
        small.witnesses[0][plan.first.at] = (atom128){{REST}, {EXACT_BYTES}};
    }
    small.reach[0][0] = (unsigned char)(plan.lines > 1 ? 1 : 0);
    memset(notes, 0, sizeof notes);
    for (int i = 0; i < THREADS; i++) {
        listed[i] = NULL;
        keeps[i] = (struct persist){.number = 1, .owner = &small.tables[i]};
        small.regions[i].persist = &keeps[i];
    }
}

static struct key key_of(const struct act *a)
{
    return (struct key){
        .hash = KEY, .rest = a->twin ? TWIN_REST : REST, .form = a->twin ? TWIN_FORM : EXACT_BYTES};
}

static bool run_op(struct weir_table *table, enum table_verb verb, const struct act *a)
{
    struct key key = key_of(a);
    struct table_op op = {.verb = verb, .now = NOW + a->later_ns, .n = a->n};
    return table->kind->run(table, &key, &op);
}

static void act(int thread, const struct act *a, struct note *note)
{
    struct weir_table *table = small_table();
    struct key key = key_of(a);
    listed[thread] = NULL;
    switch (a->verb) {
    case TAKE:
        note->yes = run_op(table, VERB_TAKE, a);
        break;
    case FAST:
        note->yes = weir_words_take(table, &key, NOW + a->later_ns, a->n, NULL) == SLOT_YES;
        break;
    case GIVE:
        note->yes = run_op(table, VERB_GIVE, a);
        break;
    case SWEEP:
        (void)weir_words_sweep(table, NOW + a->later_ns, 0, SMALL_LINES, true);
        break;
    case LOOK:
        listed[thread] = &small.slots[0][plan.first.at];
        break;
    case CHANGE:
        small_table_change(NOW);
        break;
    case MOVE:
        small_table_enlarge();
        small_table_move(NOW);
        break;
    case NOTHING:
        break;
    }
    if (listed[thread])
        capture(thread, listed[thread], note);
    else
        note->yes = false;
}

static void run_acts(void)
{
    int thread = explore_thread();
    for (int i = 0; i < ACTS && plan.acts[thread][i].verb; i++)
        act(thread, &plan.acts[thread][i], &notes[thread][i]);
}

/* ---- the end ---- */

/* A word as it is under the latest limits. */
static uint64_t latest_value(const struct word_record *record)
{
    uint64_t generation = atom_load(&small.header.generation, memory_order_relaxed);
    struct weir_table *table = &small.tables[0];
    uint64_t word = record->word;
    for (uint64_t g = record_generation(record->number) + 1; g <= generation; g++)
        word = weir_slot_word_convert(table, &small.editions[g], word);
    return slot_value(word);
}

static const struct word_record *merge(const struct word_record *const *records, unsigned part)
{
    const struct word_record *best = NULL;
    for (int i = 0; i < RECORDS; i++)
        if ((part >> i & 1) && records[i] &&
            (!best || record_counts(records[i]->number, record_spent(records[i]->word), best->number,
                                    record_spent(best->word))))
            best = records[i];
    return best;
}

/* What has an own record in this part is in what counts. */
static void check_part(const struct word_record *const *records, unsigned part)
{
    const struct word_record *best = merge(records, part);
    int64_t taken = 0, given = 0, answered_taken = 0, answered_given = 0;
    for (int i = 0; i < THREADS * ACTS; i++) {
        const struct act *a = &plan.acts[i / ACTS][i % ACTS];
        const struct note *note = &notes[i / ACTS][i % ACTS];
        int64_t n = note->yes ? a->n : 0;
        bool answered = part >> i & 1;
        taken += a->verb != GIVE ? n : 0;
        given += a->verb == GIVE ? n : 0;
        answered_taken += answered && a->verb != GIVE ? n : 0;
        if (plan.exact && answered && n > 0)
            EXPLORE_CHECK(best->rest == key_of(a).rest);
        answered_given += answered && a->verb == GIVE ? n : 0;
    }
    if (!best || (answered_taken == 0 && answered_given == 0))
        return;
    uint64_t generation = atom_load(&small.header.generation, memory_order_relaxed);
    const struct ticks *ticks = &small.editions[generation].bucket->ticks;
    int64_t spent = plan.comes_anew ? 0 : plan.first.spent;
    int64_t value = (int64_t)latest_value(best), from = ticks_at(ticks, NOW);
    EXPLORE_CHECK(value >= from + (spent + answered_taken - given) * ticks->unit);
    if (!plan.comes_anew)
        EXPLORE_CHECK(value <= from + (spent + taken - answered_given) * ticks->unit);
}

static void finish(void)
{
    const struct word_record *records[RECORDS] = {NULL};
    unsigned all = 0;
    for (int i = 0; i < THREADS * ACTS; i++)
        if (notes[i / ACTS][i % ACTS].captured)
            records[i] = &notes[i / ACTS][i % ACTS].record;
    for (int i = 0; i < OLD; i++)
        if (plan.old[i].number)
            records[THREADS * ACTS + i] = &plan.old[i];
    for (int i = 0; i < RECORDS; i++)
        all |= (unsigned)(records[i] != NULL) << i;
    for (unsigned part = all;; part = (part - 1) & all) {
        if (part >> (THREADS * ACTS) == all >> (THREADS * ACTS)) /* old ones are always there */
            check_part(records, part);
        if (part == 0)
            break;
    }
    const struct word_record *best = merge(records, all);
    const struct slot *slot = weir_slots_find(&small.tables[0], KEY).slot;
    if (!slot || !best)
        return;
    struct word_record now = {.number =
                                  record_number(0, atom_load(&small.header.generation, memory_order_relaxed)),
                              .word = slot_word(slot)};
    EXPLORE_CHECK(slot_generation(now.word) == (record_generation(now.number) & 3));
    EXPLORE_CHECK(latest_value(best) == slot_value(now.word));
}

static bool run(const struct plan *p, bool breaks)
{
    plan = *p;
    struct explore e = {.setup = setup, .finish = finish, .weaken = p->weaken, .paths_max = p->most};
    for (int thread = 0; thread < THREADS && p->acts[thread][0].verb; thread++)
        e.threads[thread] = run_acts;
    bool result = CHECK(small_table_read(p->limits));
    if (result && breaks)
        result = explore_breaks(&e);
    else if (result) {
        explore_run(&e);
        result = e.complete || strncmp(e.fault, "gave up", strlen("gave up")) == 0;
        printf("# %s%" PRIu64 " executions%s%s\n", e.complete ? "all " : "the first ", e.executions,
               result ? "" : ": ", result ? "" : e.fault);
        if (!result)
            explore_trace(stdout);
    }
    small_table_free();
    return result;
}

#define DO(VERB, N)     ((struct act){.verb = (VERB), .n = (N)})
#define AT(MS, VERB, N) ((struct act){.verb = (VERB), .n = (N), .later_ns = (MS)*WEIR_MS})
#define HOLDS(...)      CHECK(run(&(struct plan){__VA_ARGS__}, false))
#define ONE             .limits = {LIMITS}
#define TWIN(VERB, N)   ((struct act){.verb = (VERB), .n = (N), .twin = true})
#define OLD_WORD(VALUE)                                                                                      \
    ((struct word_record){                                                                                   \
        .hash = KEY, .number = 5, .word = (uint64_t)(VALUE), .rest = REST, .form = EXACT_BYTES})

TEST(a_give_and_a_take_are_not_lost)
{
    HOLDS(ONE, .first = {.spent = 3}, .acts = {{DO(GIVE, 1)}, {DO(FAST, 2)}});
    HOLDS(ONE, .first = {.spent = 3}, .acts = {{DO(GIVE, 1)}, {DO(FAST, 2)}, {DO(LOOK, 0)}}, .most = 15000);
    HOLDS(ONE, .first = {.spent = 5}, .acts = {{DO(GIVE, 1)}, {DO(GIVE, 2)}, {DO(FAST, 1)}}, .most = 15000);
}

TEST(a_record_of_before_does_not_undo_a_give)
{
    HOLDS(ONE, .first = {.spent = 5}, .acts = {{DO(LOOK, 0), DO(LOOK, 0)}, {DO(GIVE, 2), DO(FAST, 1)}},
          .most = 15000);
}

/* In the last slot of the second line it has the number 5. It goes, and comes in at home. */
TEST(a_key_that_comes_in_again_does_not_lose_to_its_old_records)
{
    HOLDS(ONE, .lines = 2, .first = {.at = 7, .spent = 0, .later_ns = -2 * WEIR_MS}, .numbers = {0, 5},
          .old = {OLD_WORD(10 * WEIR_SEC - 2 * WEIR_MS)}, .comes_anew = true,
          .acts = {{DO(SWEEP, 0), DO(TAKE, 1)}, {DO(TAKE, 1)}}, .most = 15000);
}

/* What was given back is full again; others forget it before it is captured, and it comes in again. */
TEST(a_key_that_is_gone_is_told_of_before_it_comes_in_again)
{
    HOLDS(ONE, .first = {.absent = true}, .comes_anew = true, .acts = {{DO(LOOK, 0)}, {DO(TAKE, 2)}},
          .most = 60000);
    HOLDS(ONE, .first = {.spent = 1, .later_ns = -WEIR_SEC - 2 * WEIR_MS}, .numbers = {5},
          .old = {OLD_WORD(13 * WEIR_SEC)}, .comes_anew = true,
          .acts = {{DO(GIVE, 1)}, {DO(SWEEP, 0), DO(TAKE, 2)}}, .most = 15000);
    HOLDS(ONE, .first = {.spent = 0, .later_ns = -2 * WEIR_MS}, .numbers = {5}, .comes_anew = true,
          .acts = {{DO(LOOK, 0)}, {DO(SWEEP, 0), DO(TAKE, 2)}, {DO(TAKE, 1)}}, .most = 15000);
}

TEST(a_record_of_before_a_change_loses)
{
    HOLDS(.limits = {"1/s burst=8", "2/s burst=8"}, .first = {.spent = 3},
          .acts = {{DO(CHANGE, 0)}, {DO(TAKE, 2)}, {DO(LOOK, 0)}}, .most = 15000);
    HOLDS(.limits = {"1/s burst=8", "2/s burst=8"}, .first = {.spent = 3},
          .acts = {{DO(CHANGE, 0)}, {DO(GIVE, 2)}}, .most = 15000);
}

/* What was listed in its old place is captured where it is, under a number that is higher. */
TEST(a_key_that_moves_is_captured_where_it_is)
{
    const struct word_record old = OLD_WORD(13 * WEIR_SEC);
    HOLDS(ONE, .moves = true, .first = {.spent = 3}, .numbers = {5}, .old = {old},
          .acts = {{DO(MOVE, 0)}, {DO(FAST, 2)}}, .most = 8000);
    HOLDS(ONE, .moves = true, .first = {.spent = 3}, .numbers = {5}, .old = {old},
          .acts = {{DO(MOVE, 0)}, {DO(GIVE, 2)}}, .most = 8000);
    HOLDS(ONE, .moves = true, .first = {.spent = 3}, .numbers = {5}, .old = {old},
          .acts = {{DO(MOVE, 0)}, {DO(GIVE, 2), DO(FAST, 1)}, {DO(LOOK, 0)}}, .most = 8000);
}

TEST(a_whole_key_is_captured_with_its_word)
{
    HOLDS(ONE, .exact = true, .first = {.spent = 3}, .acts = {{DO(GIVE, 1)}, {DO(FAST, 2)}, {DO(LOOK, 0)}},
          .most = 15000);
    HOLDS(ONE, .exact = true, .first = {.absent = true}, .comes_anew = true,
          .acts = {{DO(LOOK, 0)}, {DO(TAKE, 2)}}, .most = 15000);
    HOLDS(ONE, .exact = true, .moves = true, .first = {.spent = 3}, .numbers = {5},
          .old = {OLD_WORD(13 * WEIR_SEC)}, .acts = {{DO(MOVE, 0)}, {DO(FAST, 2)}, {DO(LOOK, 0)}},
          .most = 8000);
}

/* KEY may be forgotten, and another one that is called the same comes in: whatever is captured meanwhile, the
 * record of who took is the one that counts, and it is of one key. What is given to KEY is not given to the
 * other one. */
TEST(a_record_is_of_one_of_two_whole_keys_that_are_called_the_same)
{
    HOLDS(ONE, .exact = true, .first = {.spent = 0, .later_ns = -2 * WEIR_MS}, .numbers = {5},
          .old = {OLD_WORD(10 * WEIR_SEC - 2 * WEIR_MS)}, .comes_anew = true,
          .acts = {{DO(LOOK, 0), DO(LOOK, 0)}, {TWIN(TAKE, 2)}}, .most = 4000);
    HOLDS(ONE, .exact = true, .first = {.spent = 0, .later_ns = -2 * WEIR_MS}, .numbers = {5},
          .old = {OLD_WORD(10 * WEIR_SEC - 2 * WEIR_MS)}, .comes_anew = true,
          .acts = {{DO(LOOK, 0)}, {TWIN(TAKE, 2)}, {DO(SWEEP, 0)}}, .most = 4000);
    HOLDS(ONE, .exact = true, .first = {.spent = 1, .later_ns = -WEIR_SEC - 2 * WEIR_MS}, .numbers = {5},
          .old = {OLD_WORD(13 * WEIR_SEC)}, .comes_anew = true, .acts = {{DO(GIVE, 1)}, {TWIN(TAKE, 2)}},
          .most = 15000);
    /* the word with which the other one comes in is the one that KEY had */
    HOLDS(ONE, .exact = true, .first = {.spent = 0}, .floor = NOW, .numbers = {5},
          .old = {OLD_WORD(10 * WEIR_SEC)}, .comes_anew = true,
          .acts = {{DO(LOOK, 0)}, {AT(1, SWEEP, 0), TWIN(TAKE, 2)}}, .most = 15000);
}
