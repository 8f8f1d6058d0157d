/* SPDX-License-Identifier: MIT */
#include "property/store_book.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/idle.h"
#include "table/table.h"

#define POLICIES 64

const struct weir_policy *book_policy(const char *limits)
{
    static struct {
        const char *text;
        struct weir_policy *policy;
    } known[POLICIES];
    size_t i = 0;
    while (i < POLICIES && known[i].text && strcmp(known[i].text, limits) != 0)
        i++;
    if (i == POLICIES)
        abort();
    if (!known[i].text) {
        known[i].text = limits;
        known[i].policy = weir_policy_idle(limits, NULL);
        if (!known[i].policy)
            abort();
    }
    return known[i].policy;
}

struct book_entry *book_add(struct book_key *key, enum book_kind kind, int64_t time_ns, int64_t n)
{
    struct book_entry *entry = &key->entries[key->count++];
    *entry = (struct book_entry){.kind = kind, .time_ns = time_ns, .n = n, .answered_ns = -1};
    return entry;
}

/* ---- limits of each call: a table in memory says it, under a name that was never used, in time that never
 * goes back ---- */

static struct {
    struct weir_table *table;
    uint64_t name;
    int64_t shift_ns, latest_ns;
} plain;

static void plain_begin(int64_t first_ns)
{
    struct weir_table_options options = {.keys = 4096, .no_top = 1, .own_limits = 1};
    if (plain.latest_ns > WEIR_TIME_MAX / 2) {
        weir_table_free(plain.table);
        memset(&plain, 0, sizeof plain);
    }
    if (!plain.table && !(plain.table = weir_table_make(NULL, NULL, &options, NULL)))
        abort();
    plain.name++;
    plain.shift_ns = plain.latest_ns + WEIR_SEC - first_ns;
}

static int64_t plain_time(int64_t time_ns)
{
    plain.latest_ns = max64(plain.latest_ns, time_ns + plain.shift_ns);
    return time_ns + plain.shift_ns;
}

static bool plain_do(const struct book_key *key, const struct book_entry *entry)
{
    int64_t time = plain_time(entry->time_ns);
    switch (entry->kind) {
    case BOOK_TAKE:
        return weir_table_take_own_at(plain.table, time, &plain.name, 8, &key->limit, entry->n, NULL);
    case BOOK_GIVE:
        (void)weir_table_give_own_at(plain.table, time, &plain.name, 8, &key->limit, entry->n, NULL);
        return true;
    default:
        weir_table_reset_at(plain.table, time, &plain.name, 8);
        return true;
    }
}

static bool plain_replay(const struct book_key *key, size_t count, int64_t now)
{
    plain_begin(count > 0 ? key->entries[0].time_ns : now);
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = plain_do(key, &key->entries[i]);
    return good;
}

static void plain_look(const struct book_key *key, int64_t now, struct book_look *looks)
{
    for (size_t i = 0; i < BOOK_LOOKS; i++) {
        struct weir_verdict verdict = {0};
        looks[i].allowed = weir_table_peek_own_at(plain.table, plain_time(now), &plain.name, 8, &key->limit,
                                                  book_units[i], &verdict);
        looks[i].remaining = verdict.remaining;
        looks[i].retry_ns = verdict.retry_after_ns;
        looks[i].reset_ns = verdict.reset_after_ns;
    }
}

/* ---- all others: the model ---- */

static struct cell cell;

static void change(const struct book_key *key, int text, int64_t time, bool forgets)
{
    const struct weir_policy *next = key->table->policies[text];
    if (cell.own)
        return;
    if (forgets)
        cell_begin(&cell, next, key->table->words, time);
    else
        cell_change(&cell, next, time);
}

/* With all slots of a leaky bucket taken: a job that was lost may have had them. */
static void empty_cell(const struct weir_policy *policy, int64_t now)
{
    const struct weir_spec *spec = &(cell.own ? cell.own : policy)->limits[0].spec;
    (void)model_drain(&cell.model, now);
    if (spec->algo == WEIR_LEAKY_BUCKET && spec->queue > 0)
        model_charge(&cell.model, now, spec->queue);
}

static bool model_do(const struct book_key *key, const struct book_entry *entry, int *text)
{
    struct weir_verdict verdict;
    struct cell_promise promise;
    const struct book_table *table = key->table;
    switch (entry->kind) {
    case BOOK_TAKE:
        return cell_reserve(&cell, entry->time_ns, entry->n, 0, 0, &promise, &verdict);
    case BOOK_GIVE:
        cell_give(&cell, entry->time_ns, entry->n);
        return true;
    case BOOK_CHARGE:
        cell_charge(&cell, entry->time_ns, entry->n);
        return true;
    case BOOK_RESET:
    case BOOK_FRESH:
        cell_reset(&cell, entry->time_ns);
        return true;
    case BOOK_LIMITS:
        *text = entry->text;
        change(key, *text, entry->time_ns, entry->forgets);
        return true;
    case BOOK_OWN:
        cell_override(&cell, entry->text < 0 ? NULL : weir_policy_idle(table->own[entry->text], NULL),
                      table->policies[*text], table->words, entry->time_ns);
        return true;
    case BOOK_FORGOT:
        if (!cell.own)
            cell_begin(&cell, table->policies[*text], table->words, entry->time_ns);
        /* fall through */
    case BOOK_DRAIN:
        empty_cell(table->policies[*text], entry->time_ns);
        return true;
    }
    return false;
}

/* A key that was never used is so as of now. */
static bool model_replay(const struct book_key *key, size_t count, int64_t now)
{
    int text = key->first_text;
    weir_policy_free(cell.own);
    cell.own = NULL;
    cell.logged = false;
    cell_begin(&cell, key->table->policies[text], key->table->words,
               count > 0 ? key->entries[0].time_ns : now);
    for (size_t i = 0; i < count; i++)
        if (!model_do(key, &key->entries[i], &text))
            return false;
    return true;
}

static void model_look(int64_t now, struct book_look *looks)
{
    for (size_t i = 0; i < BOOK_LOOKS; i++) {
        struct weir_verdict verdict = {0};
        looks[i].allowed = cell_peek(&cell, now, book_units[i], &verdict);
        looks[i].remaining = verdict.remaining;
        looks[i].retry_ns = verdict.retry_after_ns;
        looks[i].reset_ns = verdict.reset_after_ns;
    }
}

/* ---- which part of it is there? ---- */

static bool same(const struct book_look *a, const struct book_look *b)
{
    for (size_t i = 0; i < BOOK_LOOKS; i++)
        if (a[i].allowed != b[i].allowed || (a[i].remaining != b[i].remaining && b[i].remaining >= 0) ||
            (a[i].retry_ns != b[i].retry_ns && b[i].retry_ns >= 0) ||
            (a[i].reset_ns != b[i].reset_ns && b[i].reset_ns >= 0))
            return false;
    return true;
}

static bool explains(const struct book_key *key, const struct book_found *found,
                     const struct book_look *looks)
{
    struct book_look mine[BOOK_LOOKS];
    if (!key->table->limits[0]) {
        if (!plain_replay(key, key->count, found->now_ns))
            return false;
        plain_look(key, found->now_ns, mine);
        return same(mine, looks);
    }
    if (!model_replay(key, key->count, found->now_ns))
        return false;
    model_look(found->now_ns, mine);
    return same(mine, looks) && (!found->limits || cell_explains(&cell, found->now_ns, found->limits));
}

/* The last time at which all keys were emptied; 0: never. */
static int64_t drained_at(const struct book_key *key)
{
    int64_t time = 0;
    for (size_t i = 0; i < key->count; i++)
        time = key->entries[i].kind == BOOK_DRAIN ? key->entries[i].time_ns : time;
    return time;
}

/* As if never used: it may be forgotten, and then it has what all keys have that are not there. */
static bool explains_forgotten(struct book_key *key, const struct book_found *found,
                               const struct book_look *looks)
{
    int64_t drained_ns = drained_at(key);
    if (drained_ns == 0 || found->rule != BOOK_EXACT || !model_replay(key, key->count, found->now_ns) ||
        cell.own || cell.model.limits[0].machine->fresh(&cell.model.limits[0], found->now_ns) > found->now_ns)
        return false;
    struct book_entry *entry = book_add(key, BOOK_FORGOT, drained_ns, 0);
    entry->answered_ns = 0;
    if (explains(key, found, looks))
        return true;
    key->count--;
    return false;
}

bool book_agrees(struct book_key *key, int64_t now_ns, const struct weir_limit_state *limits,
                 const struct book_look *looks)
{
    struct book_found found = {.now_ns = now_ns, .limits = limits};
    return explains(key, &found, looks) || explains_forgotten(key, &found, looks);
}

/* A change of limits is no record of the key. */
static bool must_be_there(const struct book_entry *entry, const struct book_must *must)
{
    if (entry->kind == BOOK_LIMITS)
        return false;
    return (must->written && entry->written) ||
           (entry->answered_ns >= 0 && entry->answered_ns <= must->answered_ns);
}

enum { WAY_LATE = 1, WAY_FORGETS = 2, WAY_OWN = 4, WAY_NOT_OWN = 8, WAYS = 12 };

/* The last ones but `skip`: notes of later ones may be what the cut took. */
static bool put_own(struct book_key *key, const struct book_key *all, size_t rest, size_t skip,
                    int64_t now_ns)
{
    for (size_t i = all->count; i-- > rest;)
        if (all->entries[i].kind == BOOK_OWN && skip-- == 0) {
            key->entries[key->count] = all->entries[i];
            key->entries[key->count++].time_ns = now_ns;
            return true;
        }
    return false;
}

/* As they were before. */
static bool put_own_back(struct book_key *key, int64_t now_ns)
{
    int text = -1, before = -1;
    bool any = false;
    for (size_t i = 0; i < key->count; i++)
        if (key->entries[i].kind == BOOK_OWN) {
            before = text;
            text = key->entries[i].text;
            any = true;
        }
    if (any)
        book_add(key, BOOK_OWN, now_ns, 0)->text = before;
    return any;
}

/*
 * `first` entries are there, then come, of those from `rest` on, changes of limits that no record of the key
 * tells, then what the rule does, which hides all but the first `least`. WAY_LATE: the last change counts
 * from now on, since nobody noted its time. WAY_FORGETS: the key was as if never used then. WAY_OWN: limits
 * of its own are known by the note alone, and count from now on. WAY_NOT_OWN: the note does not know them
 * yet.
 */
static bool put_together(struct book_key *key, const struct book_key *all, const struct book_found *found,
                         size_t first, size_t rest, size_t least, unsigned way, size_t skip, int64_t late_ns)
{
    struct book_entry *last = NULL;
    memcpy(key->entries, all->entries, first * sizeof key->entries[0]);
    key->count = first;
    for (size_t i = rest; i < all->count; i++)
        if (all->entries[i].kind == BOOK_LIMITS && all->entries[i].generation <= found->generation) {
            key->entries[key->count++] = all->entries[i];
            last = &key->entries[key->count - 1];
        }
    if (!last && way & WAY_LATE && !found->must.written) {
        /* What the start wrote that gave it its time may be what the cut took. */
        for (size_t i = 0; i < first; i++)
            if (key->entries[i].kind == BOOK_LIMITS || key->entries[i].kind == BOOK_OWN)
                last = &key->entries[i];
        if (last)
            last->time_ns = late_ns;
        last = NULL;
        way &= ~(unsigned)WAY_LATE;
    }
    if (last && way & WAY_LATE)
        last->time_ns = late_ns;
    if (last) /* what it was when it came into force says nothing of the part that is there */
        last->forgets = way & WAY_FORGETS;
    if (way & WAY_OWN && !put_own(key, all, rest, skip, found->now_ns))
        return false;
    if (way & WAY_NOT_OWN && !put_own_back(key, found->now_ns))
        return false;
    if (found->rule == BOOK_FLOOR)
        (void)book_add(key, BOOK_DRAIN, found->now_ns, (int64_t)least);
    else if (found->rule == BOOK_OPTIMISTIC)
        (void)book_add(key, BOOK_FRESH, found->now_ns, (int64_t)least);
    return last || !(way & (WAY_LATE | WAY_FORGETS));
}

static bool try_way(struct book_key *key, const struct book_key *all, const struct book_found *found,
                    size_t first, size_t rest, size_t least, const struct book_look *looks, unsigned way)
{
    size_t times = way & WAY_LATE ? found->began_count + 1 : 1;
    size_t overrides = way & WAY_OWN && !found->must.written ? all->count : 1;
    for (size_t skip = 0; skip < overrides; skip++)
        for (size_t i = 0; i < times; i++) {
            int64_t late_ns = i < found->began_count ? found->began_ns[i] : found->now_ns;
            if (!put_together(key, all, found, first, rest, least, way, skip, late_ns))
                return false;
            if (explains(key, found, looks) || explains_forgotten(key, found, looks))
                return true;
        }
    return false;
}

static bool try_ways(struct book_key *key, const struct book_key *all, const struct book_found *found,
                     size_t first, size_t rest, size_t least, const struct book_look *looks)
{
    for (unsigned way = 0; way < WAYS; way++)
        if (try_way(key, all, found, first, rest, least, looks, way))
            return true;
    return false;
}

static bool is_rule(const struct book_entry *entry)
{
    return entry->kind == BOOK_DRAIN || entry->kind == BOOK_FRESH;
}

/* What an earlier start did by the rule was in memory alone, if this one does it again: and it hid what was
 * there before. */
static bool try_part(struct book_key *key, const struct book_key *all, const struct book_found *found,
                     size_t first, size_t least, const struct book_look *looks)
{
    if (try_ways(key, all, found, first, first, least, looks))
        return true;
    if (found->rule == BOOK_EXACT || first == 0 || !is_rule(&all->entries[first - 1]))
        return false;
    size_t low = first;
    for (size_t part = first; part > 0; part--) {
        const struct book_entry *entry = &all->entries[part - 1];
        if (is_rule(entry) && (size_t)entry->n < low)
            low = (size_t)entry->n;
        if (part <= low)
            break;
        if (try_ways(key, all, found, part - 1, part - 1, low, looks))
            return true;
    }
    return false;
}

bool book_match(struct book_key *key, const struct book_found *found, const struct book_look *looks)
{
    static struct book_key all;
    size_t least = key->base, most = 0;
    memcpy(&all, key, offsetof(struct book_key, law));
    for (size_t i = 0; i < all.count; i++)
        if (must_be_there(&all.entries[i], &found->must) && least < i + 1)
            least = i + 1;
    while (most < all.count &&
           !(all.entries[most].kind == BOOK_LIMITS && all.entries[most].generation > found->generation))
        most++;
    for (size_t first = most + 1; first-- > least;)
        if (try_part(key, &all, found, first, least, looks)) {
            key->kept = first;
            return true;
        }
    memcpy(key, &all, offsetof(struct book_key, law));
    printf("#   key %" PRIu64 ": no part of its entries from %zu to %zu explains left %" PRId64
           ", retry %" PRId64 ", reset %" PRId64 " at %" PRId64 "; rule %d, generation %" PRIu64 "\n",
           key->name, least, most, looks[0].remaining, looks[0].retry_ns, looks[0].reset_ns, found->now_ns,
           (int)found->rule, found->generation);
    book_print(key);
    return false;
}

uint64_t book_generation(const struct book_key *key, uint64_t generation, int text)
{
    for (size_t i = key->count; i-- > 0;)
        if (key->entries[i].kind == BOOK_LIMITS && key->entries[i].generation <= generation &&
            key->entries[i].text == text)
            return key->entries[i].generation;
    return 0;
}

void book_print(const struct book_key *key)
{
    static const char *const kinds[] = {"take", "give",  "charge", "reset", "limits",
                                        "own",  "drain", "fresh",  "forgot"};
    for (size_t i = 0; i < key->count; i++) {
        const struct book_entry *entry = &key->entries[i];
        struct book_look looks[BOOK_LOOKS];
        if (key->table->limits[0] && model_replay(key, i + 1, entry->time_ns))
            model_look(entry->time_ns, looks);
        else
            looks[0].remaining = looks[0].reset_ns = -1;
        printf("#     %zu: %s %" PRId64 " at %" PRId64 ", text %d, answered %" PRId64 "%s%s: left %" PRId64
               ", full at %" PRId64 "\n",
               i + 1, kinds[entry->kind], entry->n, entry->time_ns, entry->text, entry->answered_ns,
               entry->written ? ", written" : "", i < key->base ? ", recovered before" : "",
               looks[0].remaining, entry->time_ns + looks[0].reset_ns);
    }
}
