/* SPDX-License-Identifier: MIT */
/*
 * Live change (docs/internals/tables.md, 17): the next text and the time from which it counts, then the next
 * generation, then a pass that converts every state. Who is killed leaves the rest of it to the next change.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/idle.h"
#include "os/clock.h"
#include "table/change.h"
#include "table/history.h"
#include "table/override.h"
#include "table/wide_slots.h"
#include "table/words.h"

/* In policy_text.time: twice the time, or, while that is not known yet, an odd number that no other
 * generation has. */
static uint64_t time_known(int64_t time)
{
    return (uint64_t)time << 1;
}

static uint64_t time_unknown(uint64_t generation)
{
    return generation << 1 | 1;
}

/* ---- editions ---- */

void weir_edition_free(struct edition *edition)
{
    while (edition) {
        struct edition *older = edition->older;
        weir_policy_free(edition->policy);
        free(edition->text);
        free(edition);
        edition = older;
    }
}

struct edition *weir_edition_new(const char *text, uint64_t generation, int64_t time, struct weir_error *err)
{
    struct edition *edition = calloc(1, sizeof *edition);
    char canonical[sizeof((struct policy_text *)NULL)->text];
    if (!edition) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    edition->generation = generation;
    edition->time = time;
    edition->policy = weir_policy_idle(text, err);
    if (!edition->policy) {
        free(edition);
        return NULL;
    }
    if (weir_policy_text(edition->policy, canonical, sizeof canonical) >= sizeof canonical)
        weir_error_set(err, E2BIG, "the limits of a table have at most 4087 bytes of text");
    else if ((edition->text = strdup(canonical)))
        return edition;
    else
        weir_error_set(err, ENOMEM, "out of memory");
    weir_edition_free(edition);
    return NULL;
}

/* A word can hold its state, if the table has words; then a take may be the simple one. */
bool weir_edition_suits_words(struct edition *edition)
{
    const struct limit *limit = &edition->policy->limits[0];
    if (!weir_words_suit(edition->policy))
        return false;
    if (limit->algorithm == &weir_token_bucket)
        edition->bucket = limit;
    return true;
}

/* Another table kind than it was made for. */
static bool does_edition_suit(const struct weir_table *table, struct edition *edition)
{
    if (table->kind == &weir_table_words)
        return weir_edition_suits_words(edition);
    return edition->policy->words <= table->state_words;
}

/*
 * The time from which limits count. Who took by the limits of before has read the clock before he saw the old
 * generation. So the time has to lie behind the store of the new one, else units would be counted as spent
 * before the change, and refill by the new limits: whoever needs the time first reads the clock, and all
 * agree on that.
 */
static int64_t limits_time(struct weir_table *table, uint64_t generation)
{
    atom64 *time = &table->policies->texts[generation & 3].time;
    uint64_t seen = atom_load(time, memory_order_acquire);
    while (seen == time_unknown(generation)) {
        uint64_t now = time_known(region_time(table->region, clock_now()));
        if (atom_cas(time, &seen, now, memory_order_seq_cst))
            seen = now;
    }
    return min64((int64_t)(seen >> 1), WEIR_TIME_MAX); /* of another generation: it is thrown away */
}

/* The limits of that generation as they are in the region; NULL: no memory, or they are not there any more.
 */
static struct edition *read_edition(struct weir_table *table, uint64_t generation, struct weir_error *err)
{
    const struct policy_text *from = &table->policies->texts[generation & 3];
    char text[sizeof from->text];
    memcpy(text, from->text, sizeof text);
    text[sizeof text - 1] = '\0';
    struct edition *edition = weir_edition_new(text, generation, limits_time(table, generation), err);
    if (edition && does_edition_suit(table, edition))
        return edition;
    if (edition || !err || err->code != ENOMEM)
        weir_error_set(err, EINVAL, "the limits of this table are damaged; remove the file to begin anew");
    weir_edition_free(edition);
    return NULL;
}

bool weir_table_load(struct weir_table *table, struct weir_error *err)
{
    uint64_t generation = atom_load(&table->region->header->generation, memory_order_acquire);
    struct edition *latest = read_edition(table, generation, err);
    if (latest && generation > 0 && !(latest->older = read_edition(table, generation - 1, err))) {
        weir_edition_free(latest);
        return false;
    }
    atomic_store_explicit(&table->edition, latest, memory_order_release);
    return latest != NULL;
}

/* Those that are newer than `known`, which nobody else has seen. */
static void free_unseen_editions(struct edition *latest, const struct edition *known)
{
    while (latest && latest != known) {
        struct edition *older = latest->older;
        latest->older = NULL;
        weir_edition_free(latest);
        latest = older;
    }
}

/* The latest, on top of what is known already. */
static struct edition *follow_editions(struct weir_table *table, struct edition *known, uint64_t generation)
{
    struct edition *before = known;
    if (known->generation + 1 != generation) {
        before = read_edition(table, generation - 1, NULL);
        if (!before)
            return NULL;
        before->older = known;
    }
    struct edition *latest = read_edition(table, generation, NULL);
    if (latest)
        latest->older = before;
    else
        free_unseen_editions(before, known);
    return latest;
}

struct edition *weir_table_refresh(struct weir_table *table)
{
    const struct region_header *header = table->region->header;
    lock_take(&table->region->ready); /* a child of a fork finds it free */
    struct edition *known = atomic_load_explicit(&table->edition, memory_order_acquire), *latest = known;
    for (;;) {
        uint64_t generation = atom_load(&header->generation, memory_order_seq_cst);
        latest = known->generation == generation ? known : follow_editions(table, known, generation);
        atom_fence(memory_order_acquire); /* what was read, was read before */
        if (atom_load(&header->generation, memory_order_seq_cst) == generation)
            break;
        free_unseen_editions(latest,
                             known); /* it has changed again meanwhile: what was read may be a mixture */
    }
    if (latest)
        atomic_store_explicit(&table->edition, latest, memory_order_release);
    lock_drop(&table->region->ready);
    return latest;
}

/* States may be of the generation before, until all were converted. */
void weir_table_forget(struct weir_table *table, uint64_t generation)
{
    lock_take(&table->region->ready);
    struct edition *edition = atomic_load_explicit(&table->edition, memory_order_acquire);
    while (edition && edition->generation >= generation)
        edition = edition->older;
    struct edition *rest = edition ? edition->older : NULL;
    if (rest)
        edition->older = NULL;
    lock_drop(&table->region->ready);
    weir_edition_free(rest);
}

/* ---- changing ---- */

static uint64_t lines_of_segments(const struct weir_table *table, uint64_t from, uint64_t to)
{
    uint64_t lines = 0;
    for (uint64_t s = from; s < to; s++)
        lines += table->region->segments[s].lines;
    return lines;
}

uint64_t weir_table_lines(struct weir_table *table)
{
    return lines_of_segments(table, 0, region_segments(table->region));
}

uint64_t weir_table_retired(const struct weir_table *table)
{
    return lines_of_segments(table, 0, region_first(table->region));
}

uint64_t weir_table_open_slots(struct weir_table *table)
{
    uint64_t open = region_open(table->region); /* first: what opens in between is counted */
    return lines_of_segments(table, open, region_segments(table->region)) * table->region->shape.line_slots;
}

#if WEIR_ASSERTIONS
static void check_wide_generation(struct locked_stripe *locked, const struct wide_ref *place, void *arg)
{
    const struct edition *edition = arg;
    (void)locked;
    INVARIANT(17, INTACT(place->slot->generation == (uint32_t)edition->generation));
}

/* No state is of limits before these, but what is held for good, which has others. */
static void check_generations(struct weir_table *table, const struct edition *edition)
{
    if (table->kind == &weir_table_wide) {
        struct edition copy = *edition;
        (void)weir_wide_visit(table, 0, UINT64_MAX, check_wide_generation, &copy);
        return;
    }
    INVARIANT(17, INTACT(slot_generation(slot_word(&table->policies->overflow)) == edition->generation % 4));
    for (uint64_t s = region_first(table->region); s < region_segments(table->region); s++)
        for (uint64_t i = 0; i < table->region->segments[s].lines * LINE_SLOTS; i++) {
            const struct slot *slot = region_slot(&table->region->segments[s], i);
            uint64_t hash = slot_hash(slot), word = slot_word(slot);
            if (hash == 0 || slot_hash(slot) != hash || slot_kind(word) == SLOT_TENTATIVE ||
                slot_kind(word) == SLOT_HELD)
                continue;
            INVARIANT(17, INTACT(slot_generation(word) == edition->generation % 4));
        }
}
#endif

/* Converts every state that is not of the latest generation yet. */
static void convert_all_states(struct weir_table *table, const struct edition *edition, int64_t now)
{
    if (table->kind == &weir_table_words)
        weir_words_convert_shared(table, edition);
    (void)table->kind->sweep(table, now, 0, weir_table_lines(table), false);
    INVARIANT(17,
              INTACT(atom_load(&table->region->header->swept, memory_order_relaxed) != edition->generation));
#if WEIR_ASSERTIONS
    check_generations(table, edition);
#endif
    atom_store(&table->region->header->swept, edition->generation, memory_order_seq_cst);
}

void weir_table_finish_change(struct weir_table *table, const struct edition *latest, int64_t now)
{
    if (atom_load(&table->region->header->swept, memory_order_acquire) != latest->generation)
        convert_all_states(table, latest, now);
}

static void write_limits_text(struct weir_table *table, const struct edition *edition)
{
    struct policy_text *to = &table->policies->texts[edition->generation & 3];
    memcpy(to->text, edition->text, strlen(edition->text) + 1);
    atom_store(&to->time, time_known(edition->time), memory_order_relaxed);
}

void weir_table_resume(struct weir_table *table, struct edition *latest)
{
    struct region_header *header = table->region->header;
    if (latest->older)
        write_limits_text(table, latest->older);
    write_limits_text(table, latest);
    atom_store(&header->generation, latest->generation, memory_order_relaxed);
    atom_store(&header->swept, latest->generation, memory_order_relaxed);
    atomic_store_explicit(&table->edition, latest, memory_order_release);
}

static bool same_form(const struct weir_policy *a, const struct weir_policy *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->limits[i].spec.algo != b->limits[i].spec.algo)
            return false;
    return true;
}

static bool refuse_form(const struct edition *has, const struct edition *wanted, struct weir_error *err)
{
    char message[sizeof err->text];
    const char *why = same_form(has->policy, wanted->policy)
                          ? "a key has not enough memory for it"
                          : "algorithms and number of limits stay what they are";
    (void)snprintf(message, sizeof message, "the table has '%.70s'; '%.70s' needs another table: %s",
                   has->text, wanted->text, why);
    weir_error_set(err, EINVAL, message);
    return false;
}

/* Under the change lock. `now` below 0: the clock says when, see limits_time. */
static bool change_limits_locked(struct weir_table *table, int64_t now, const char *limits,
                                 struct weir_error *err)
{
    struct region_header *header = table->region->header;
    struct edition *latest = table_edition(table);
    struct edition *next = weir_edition_new(limits, 0, 0, err);
    bool done = false, whole;
    (void)region_look(table->region, &whole);
    if (!latest || !whole) /* what is not mapped here could not be converted */
        weir_error_set(err, ENOMEM, "out of memory");
    if (!latest || !whole || !next)
        goto end;
    if (!same_form(latest->policy, next->policy) || !does_edition_suit(table, next)) {
        (void)refuse_form(latest, next, err);
        goto end;
    }
    done = true;
    weir_error_clear(err);
    weir_override_settle(table);
    weir_table_finish_change(table, latest, now);
    if (strcmp(latest->text, next->text) == 0)
        goto end;
    if (table->history && !weir_history_add(table, latest->generation + 1, next->text, TIME_UNKNOWN, err)) {
        done = false;
        goto end;
    }
    INVARIANT(17, INTACT(atom_load(&header->swept, memory_order_relaxed) == latest->generation));
    struct policy_text *to = &table->policies->texts[(latest->generation + 1) & 3];
    memcpy(to->text, next->text, strlen(next->text) + 1);
    uint64_t time = now < 0 ? time_unknown(latest->generation + 1) : time_known(max64(now, latest->time));
    atom_store(&to->time, time, memory_order_release);
    INVARIANT(17, INTACT(atom_load(&header->generation, memory_order_relaxed) == latest->generation));
    atom_store(&header->generation, latest->generation + 1, memory_order_seq_cst);
    latest = weir_table_refresh(table);
    INVARIANT(17, INTACT(now < 0 || !latest || latest->time >= latest->older->time));
    if (latest && table->history)
        weir_history_set_time(table, latest->generation, latest->time);
    if (latest)
        convert_all_states(table, latest, now);
end:
    weir_edition_free(next);
    return done;
}

static bool check_new_limits(const struct weir_table *table, const char *limits, struct weir_error *err)
{
    const char *fault = !table                           ? "the table is NULL"
                        : !limits                        ? "limits is NULL"
                        : table->kind == &weir_table_own ? "limits come with each call to this table"
                                                         : NULL;
    if (fault)
        weir_error_set(err, EINVAL, fault);
    return !fault;
}

bool weir_table_can_set(struct weir_table *table, const char *limits)
{
    if (!check_new_limits(table, limits, NULL))
        return false;
    struct edition *has = table_edition(table), *next = weir_edition_new(limits, 0, 0, NULL);
    bool can = has && next && same_form(has->policy, next->policy) && does_edition_suit(table, next);
    weir_edition_free(next);
    return can;
}

static bool set_limits(struct weir_table *table, int64_t now, const char *limits, struct weir_error *err)
{
    struct table_owner *owner = weir_table_can_set(table, limits) ? table->owner : NULL;
    if (owner && !owner->begin(owner, table, limits, err))
        return false;
    weir_change_lock(table->region);
    bool done = change_limits_locked(table, now, limits, err);
    weir_change_unlock(table->region);
    if (owner)
        owner->end(owner, table);
    return done;
}

bool weir_table_set_at(struct weir_table *table, int64_t now_ns, const char *limits, struct weir_error *err)
{
    return check_new_limits(table, limits, err) &&
           set_limits(table, region_time(table->region, now_ns), limits, err);
}

bool weir_table_set(struct weir_table *table, const char *limits, struct weir_error *err)
{
    return check_new_limits(table, limits, err) && set_limits(table, -1, limits, err);
}

size_t weir_table_text(struct weir_table *table, char *text, size_t size)
{
    const struct edition *edition = table && table->kind != &weir_table_own ? table_edition(table) : NULL;
    if (text && size > 0)
        text[0] = '\0';
    if (!edition)
        return 0;
    return (size_t)snprintf(text, text ? size : 0, "%s", edition->text);
}
