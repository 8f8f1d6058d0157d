/* SPDX-License-Identifier: MIT */
#include "explore/search.h"

#include <string.h>

enum { DEPTH = 1000, OPTIONS = 64, INHERITED = 64 };

/* A state on the path, and the step that was taken from it. */
struct node {
    struct option options[OPTIONS];
    int count, taken;
    struct option asleep[INHERITED + OPTIONS]; /* what finds no room stays awake: that costs only time */
    int asleep_count;
    unsigned wanted; /* threads to try, as bits */
    struct op op;
    struct effect effect;
    int number;                     /* of the step among those of its thread, from 1 */
    uint16_t past[EXPLORE_THREADS]; /* steps of each thread that it depends on, itself included */
};

static struct {
    int threads;
    bool all;
    struct node path[DEPTH];
    int depth, length; /* where on the path, and how long it is */
} search;

void search_begin(int threads, bool all)
{
    search.threads = threads;
    search.all = all;
    search.depth = search.length = 0;
}

void search_rewind(void)
{
    search.depth = 0;
}

/* ---- sleep ---- */

static bool is_same(const struct option *a, const struct option *b)
{
    return a->thread == b->thread && a->outcome.write == b->outcome.write &&
           a->outcome.second == b->outcome.second && a->outcome.fails == b->outcome.fails;
}

static bool is_asleep(const struct node *node, const struct option *option)
{
    for (int i = 0; i < node->asleep_count; i++)
        if (is_same(&node->asleep[i], option))
            return true;
    return false;
}

static void fall_asleep(struct node *node, struct option option)
{
    node->asleep[node->asleep_count++] = option;
}

static bool is_at(const struct op *op, int location)
{
    return op->location == location || (op->second && op->second == location);
}

/* What slept before the step of `from` sleeps on if the two can change places. Reads can with all they do not
 * read, and so can writes: a store that goes behind some write does not care whether another one goes there
 * first, and an exchange that came too late is no option any more. */
static void inherit_sleep(struct node *node, const struct node *from, const struct op *const *pending)
{
    int last = from->options[from->taken].thread;
    for (int i = 0; i < from->asleep_count; i++) {
        const struct option *option = &from->asleep[i];
        bool watches = option->thread != last && pending[option->thread]->kind == OP_PAUSE &&
                       from->effect.wrote >= 0 && is_at(&from->op, option->outcome.write);
        if (option->thread != last && !watches && node->asleep_count < INHERITED)
            fall_asleep(node, *option);
    }
}

/* ---- options ---- */

static bool list_options(struct node *node, const struct op *const *pending)
{
    struct outcome outcomes[MEMORY_OUTCOMES];
    node->count = 0;
    for (int thread = 0; thread < search.threads; thread++) {
        int count = pending[thread] ? memory_outcomes(thread, pending[thread], search.all, outcomes) : 0;
        for (int i = 0; i < count; i++) {
            if (node->count == OPTIONS)
                return false;
            node->options[node->count++] = (struct option){thread, outcomes[i]};
        }
    }
    return true;
}

/* The first option that is awake, of a thread that is wanted; -1: none. */
static int find_awake(const struct node *node)
{
    for (int i = 0; i < node->count; i++)
        if (node->wanted >> node->options[i].thread & 1 && !is_asleep(node, &node->options[i]))
            return i;
    return -1;
}

static enum search_way extend(const struct op *const *pending)
{
    if (search.length == DEPTH)
        return SEARCH_LIMIT;
    struct node *node = &search.path[search.length];
    node->asleep_count = 0;
    node->wanted = ~0U;
    if (!list_options(node, pending))
        return SEARCH_LIMIT;
    if (node->count == 0)
        return SEARCH_END;
    if (search.length > 0 && !search.all)
        inherit_sleep(node, node - 1, pending);
    node->taken = find_awake(node);
    if (node->taken < 0)
        return SEARCH_KNOWN;
    if (!search.all)
        node->wanted = 1U << node->options[node->taken].thread;
    search.length++;
    return SEARCH_ON;
}

enum search_way search_next(const struct op *const *pending, struct option *option)
{
    if (search.depth == search.length) {
        enum search_way way = extend(pending);
        if (way != SEARCH_ON)
            return way;
    }
    struct node *node = &search.path[search.depth++];
    *option = node->options[node->taken];
    node->op = *pending[option->thread];
    return SEARCH_ON;
}

bool search_turn(void)
{
    while (search.length > 0) {
        struct node *node = &search.path[search.length - 1];
        if (search.all) {
            if (++node->taken < node->count)
                return true;
        } else {
            fall_asleep(node, node->options[node->taken]);
            node->taken = find_awake(node);
            if (node->taken >= 0)
                return true;
        }
        search.length--;
    }
    return false;
}

/* ---- races ---- */

static int thread_of(const struct node *node)
{
    return node->options[node->taken].thread;
}

void search_note_step(const struct effect *effect, const uint16_t *past)
{
    struct node *node = &search.path[search.depth - 1];
    node->effect = *effect;
    node->number = past[thread_of(node)];
    memcpy(node->past, past, sizeof node->past);
}

static bool depends(const uint16_t *past, const struct node *earlier)
{
    return past[thread_of(earlier)] >= earlier->number;
}

static bool could_read(const struct node *node, const struct op *write)
{
    switch (node->op.kind) {
    case OP_STORE:
    case OP_UNLOCK:
        return false;
    case OP_PAUSE:
        return (node->effect.watched >> write->location & 1) ||
               (write->second && node->effect.watched >> write->second & 1);
    default:
        return is_at(write, node->op.location) || (node->op.second && is_at(write, node->op.second));
    }
}

/* The threads with which the way from `node` to the last step can begin, if the step of `node` is left out:
 * those whose first step on it depends on no other that is on it. `past` is that of the last step, without
 * itself. */
static unsigned beginnings(const struct node *node, const uint16_t *past)
{
    const struct node *last = &search.path[search.depth - 1], *way[DEPTH];
    int count = 0;
    unsigned seen = 0, result = 0;
    for (const struct node *next = node + 1; next <= last; next++) {
        if (next != last && depends(next->past, node))
            continue;
        const uint16_t *known = next == last ? past : next->past;
        bool first = !(seen >> thread_of(next) & 1);
        for (int i = 0; i < count && first; i++)
            first = !depends(known, way[i]);
        if (first)
            result |= 1U << thread_of(next);
        seen |= 1U << thread_of(next);
        way[count++] = next;
    }
    return result;
}

/* It would have read the same, and learnt no more. A seq_cst load has its place before what it did not read:
 * that is something to learn. */
static bool is_no_news(const struct node *node)
{
    return node->op.kind == OP_LOAD && node->op.order != memory_order_seq_cst &&
           memory_is_no_news(node->op.location, node->effect.read);
}

static unsigned lowest_bit(unsigned bits)
{
    return bits & (~bits + 1);
}

/* An exchange of two words that goes before `node` may read another write where the two meet, but what it has
 * read in the other location has to be there, too: unless that comes from the step of `node`. */
static void add_read(uint16_t *past, const struct node *node, const uint16_t *read)
{
    for (int i = 0; i < search.threads && !depends(read, node); i++)
        if (past[i] < read[i])
            past[i] = read[i];
}

void search_note_write(const struct op *op, const struct effect *effect, const uint16_t *past)
{
    if (search.all || search.depth < search.length || search.depth == 0)
        return;
    const struct node *last = &search.path[search.depth - 1];
    for (struct node *node = search.path; node < last; node++) {
        if (thread_of(node) == thread_of(last) || !could_read(node, op) || depends(past, node) ||
            (effect->done && is_no_news(node)))
            continue;
        uint16_t known[EXPLORE_THREADS];
        memcpy(known, past, sizeof known);
        if (op->second) {
            add_read(known, node, memory_write_past(op->location, effect->read));
            add_read(known, node, memory_write_past(op->second, effect->read_too));
        }
        unsigned threads = beginnings(node, known);
        if (!(threads & node->wanted))
            node->wanted |= lowest_bit(threads);
    }
}
