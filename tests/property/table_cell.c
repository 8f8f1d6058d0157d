/* SPDX-License-Identifier: MIT */
#include "property/table_cell.h"

#include <string.h>

#include "core/idle.h"
#include "property/agree.h"
#include "region/slot.h"

#define EVENTS_MAX 24 /* of a bucket, until they are summed up: every question replays them */

/* ---- where a limit stands ---- */

static weir_i128 position_of(const struct model *m)
{
    if (m->machine == &model_token_bucket)
        return model_bucket_position(m);
    if (m->machine == &model_leaky_bucket)
        return m->u.queue.last + m->u.queue.backlog - m->limit->ticks.unit;
    return m->u.smooth.next - m->u.smooth.stored;
}

static void put_at(struct model *m, weir_i128 position, int64_t now)
{
    weir_i128 tick = model_tick(m->limit, now), end = position + m->limit->ticks.unit;
    if (m->machine == &model_token_bucket) {
        model_bucket_put(m, position, now);
    } else if (m->machine == &model_leaky_bucket) {
        m->u.queue.last = model_min(tick, end);
        m->u.queue.backlog = end - m->u.queue.last;
    } else {
        m->u.smooth.next = model_max(tick, position);
        m->u.smooth.stored = m->u.smooth.next - position;
    }
}

weir_i128 cell_position(const struct cell *cell)
{
    return position_of(&cell->model.limits[0]);
}

/* What a word cannot hold is lost. */
static void settle_word(struct cell *cell, int64_t now)
{
    struct model *m = &cell->model.limits[0];
    weir_i128 position = position_of(m), value = position + m->limit->full;
    if (value >= (weir_i128)SLOT_VALUE_MAX)
        position = INT64_MAX;
    else if (value < 0)
        position = -m->limit->full;
    put_at(m, position, now);
    if (cell->flagged)
        cell->model.promised = min64(model_when(m->limit, position, 0), WEIR_TIME_MAX);
}

static void sum_up(struct model *m)
{
    if (m->machine != &model_token_bucket || m->u.bucket.count < EVENTS_MAX)
        return;
    for (size_t i = m->u.bucket.count; i-- > 0;)
        if (m->u.bucket.events[i].kind != MODEL_CANCEL) {
            model_bucket_put(m, model_bucket_position(m), m->u.bucket.events[i].time);
            return;
        }
}

static void settle(struct cell *cell, int64_t now)
{
    cell->flagged = cell->model.promised != 0;
    if (cell->word)
        settle_word(cell, now);
    for (size_t i = 0; i < cell->model.count; i++)
        sum_up(&cell->model.limits[i]);
}

/* ---- beginning ---- */

/* Smooth has all saved that it can: of a state in whole units, what is more goes at the first look. */
static void fill_up(struct cell *cell)
{
    for (size_t i = 0; i < cell->model.count; i++) {
        struct model *m = &cell->model.limits[i];
        if (m->machine == &model_smooth)
            m->u.smooth.stored = (weir_i128)m->limit->initial * m->limit->ticks.unit;
    }
}

void cell_begin(struct cell *cell, const struct weir_policy *policy, bool word, int64_t now)
{
    cell_end(cell);
    cell->policy = policy;
    cell->word = word;
    cell->flagged = false;
    cell->due = 0;
    model_init(&cell->model, policy, now);
    weir_state_init(policy, cell->words, now);
    fill_up(cell);
    if (word)
        put_at(&cell->model.limits[0], model_tick(&policy->limits[0], now) - policy->limits[0].full, now);
}

void cell_copy(struct cell *cell, const struct cell *from)
{
    cell_end(cell);
    cell->policy = from->policy;
    cell->word = from->word;
    cell->flagged = from->flagged;
    cell->due = from->due;
    model_keep(&from->model, &cell->model);
    memcpy(cell->words, from->words, from->policy->words * sizeof from->words[0]);
}

void cell_end(struct cell *cell)
{
    model_free(&cell->model);
}

/* ---- verbs ---- */

static bool is_index(const struct model *m)
{
    return m->machine == &model_token_bucket || m->machine == &model_leaky_bucket ||
           m->machine == &model_smooth;
}

static int64_t empty_at(const struct cell *cell)
{
    int64_t latest = 0;
    for (size_t i = 0; i < cell->model.count; i++) {
        const struct model *m = &cell->model.limits[i];
        if (is_index(m))
            latest = max64(latest, model_when(m->limit, position_of(m), 0));
    }
    return latest;
}

bool cell_reserve(struct cell *cell, int64_t now, int64_t n, int64_t timeout, uint64_t generation,
                  struct cell_promise *promise, struct weir_verdict *verdict)
{
    promise->empty = cell->model.count > 1 ? empty_at(cell) : 0;
    bool allowed = model_reserve(&cell->model, now, n, timeout, false, promise->parts, verdict);
    if (!cell->word)
        (void)weir_state_reserve(cell->policy, cell->words, now, n, timeout, NULL, NULL);
    if (allowed) {
        cell->due = max64(cell->due, promise->parts[0].due);
        promise->word = cell->word;
        promise->generation = generation;
        promise->position = cell->word ? cell_position(cell) : 0;
    }
    settle(cell, now);
    return allowed;
}

bool cell_peek(struct cell *cell, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    return model_reserve(&cell->model, now, n, 0, true, NULL, verdict);
}

static bool cancel_word(struct cell *cell, int64_t now, uint64_t generation, struct cell_promise *promise)
{
    struct model_promise *p = &promise->parts[0];
    weir_i128 position = cell_position(cell);
    if (!promise->word || p->n < 1 || p->wait < 1 || p->due <= now || cell->model.promised <= now ||
        promise->generation != generation)
        return false;
    if (position == promise->position && position != INT64_MAX) {
        put_at(&cell->model.limits[0], position - (weir_i128)p->n * cell->policy->limits[0].ticks.unit, now);
        if (p->before <= now)
            cell->model.promised = 0;
    }
    p->n = 0;
    return true;
}

/* There is no room for the marks of several limits. That of the latest promise is where they stand now; any
 * other is not known, and a log believes that all were pushed out. */
static void find_marks(const struct cell *cell, struct model_promise *parts, bool latest)
{
    for (size_t i = 0; i < cell->model.count; i++) {
        const struct model *m = &cell->model.limits[i];
        parts[i].mark = INT64_MIN;
        if (m->machine == &model_sliding_log)
            parts[i].mark = parts[i].n;
        else if (latest && m->machine == &model_warmup)
            parts[i].mark = m->u.warmup.next;
        else if (latest && m->machine == &model_leaky_bucket)
            parts[i].mark = m->u.queue.last + m->u.queue.backlog;
        else if (latest && is_index(m))
            parts[i].mark = position_of(m);
    }
}

/* A bucket that ran over on the way to the due time has lost what it held before. It was empty at `empty`, or
 * earlier: it is filled from then on. */
static void refill(struct cell *cell, int64_t now, const struct cell_promise *promise)
{
    int64_t due = promise->parts[0].due;
    for (size_t i = 0; i < cell->model.count; i++) {
        struct model *m = &cell->model.limits[i];
        weir_i128 empty = model_tick(m->limit, promise->empty);
        if (is_index(m) && position_of(m) == model_promise_tick(m->limit, due) - m->limit->full)
            put_at(m, model_min(position_of(m), empty), now);
    }
}

static bool cancel_state(struct cell *cell, int64_t now, struct cell_promise *promise)
{
    struct model_promise *parts = promise->parts;
    bool several = cell->model.count > 1;
    bool latest = parts[0].number == cell->model.number && parts[0].age == cell->model.age;
    if (several)
        find_marks(cell, parts, latest);
    bool off = !promise->word && model_cancel(&cell->model, now, parts);
    if (off && several && latest)
        refill(cell, now, promise);
    return off;
}

bool cell_cancel(struct cell *cell, int64_t now, uint64_t generation, struct cell_promise *promise)
{
    bool off = cell->word ? cancel_word(cell, now, generation, promise) : cancel_state(cell, now, promise);
    settle(cell, now);
    return off;
}

void cell_give(struct cell *cell, int64_t now, int64_t n)
{
    model_give(&cell->model, now, n);
    settle(cell, now);
}

void cell_charge(struct cell *cell, int64_t now, int64_t n)
{
    model_charge(&cell->model, now, n);
    if (!cell->word)
        weir_state_charge(cell->policy, cell->words, now, n);
    settle(cell, now);
}

void cell_reset(struct cell *cell, int64_t now)
{
    model_reset(&cell->model, cell->policy, now);
    fill_up(cell);
    settle(cell, now);
    cell->era++;
}

/* ---- other limits ---- */

/* `kept`: the limits that the law sees going on. */
static void change(struct cell *cell, const struct weir_policy *next, int64_t now, bool *kept)
{
    struct weir_verdict before;
    (void)cell_peek(cell, now, 1, &before);
    model_change(&cell->model, next, now, kept);
    if (cell->logged && next->count == cell->policy->count)
        law_change(&cell->law, next, now,
                   before.retry_after_ns == WEIR_FOREVER ? now : now + before.retry_after_ns, kept);
    else if (cell->logged) /* a log has one number of limits */
        cell_log_begin(cell, next, now);
    cell->policy = next;
}

void cell_change(struct cell *cell, const struct weir_policy *next, int64_t now)
{
    bool kept[MODEL_LIMITS] = {false};
    if (!cell->word) { /* what the core makes of the words, a model of doubles takes over */
        memcpy(cell->before, cell->words, sizeof cell->words);
        weir_state_change(cell->policy, cell->before, next, cell->words, now);
    }
    change(cell, next, now, kept);
    if (cell->word) /* which stays flagged, even if the promise lies before all time for the moment */
        settle_word(cell, now);
}

void cell_override(struct cell *cell, struct weir_policy *own, const struct weir_policy *table, bool word,
                   int64_t now)
{
    bool kept[MODEL_LIMITS] = {false};
    struct weir_policy *old = cell->own;
    if (own && !old && cell_idle_from(cell) <= now) { /* as if never used: so it is under these, too */
        cell_begin(cell, own ? own : table, word && !own, now);
        cell->own = own;
        cell->era++;
        settle(cell, now);
        cell_log_begin(cell, cell->policy, now);
        weir_policy_free(old);
        return;
    }
    if (cell->word) /* which keeps no count of ages */
        cell->model.age = 0;
    change(cell, own ? own : table, now, kept);
    cell->own = own;
    cell->era++;
    cell->word = word && !own;
    if (!own && cell->model.promised <= now)
        cell->model.promised = 0;
    if (cell->word && cell->model.promised != 0) { /* behind until then */
        struct model *m = &cell->model.limits[0];
        put_at(m, model_max(position_of(m), model_tick(m->limit, cell->model.promised)), now);
    }
    settle(cell, now);
    if (old)
        cell_log_begin(cell, cell->policy, now); /* it refers to the old limits, which go */
    weir_policy_free(old);
}

/* ---- looking ---- */

int64_t cell_idle_from(const struct cell *cell)
{
    const struct limit *limit = &cell->policy->limits[0];
    return cell->word ? model_when(limit, cell_position(cell) + limit->full, 0)
                      : weir_state_idle_from(cell->policy, cell->words);
}

bool cell_is_idle(const struct cell *cell, int64_t since)
{
    return cell_idle_from(cell) <= (cell->word ? max64(since, 0) : since);
}

static bool explains(const struct cell *cell, size_t i, int64_t now, const struct weir_limit_state *is)
{
    const struct model *m = &cell->model.limits[i];
    int64_t time = max64(now, cell->model.promised), due = m->machine->due(m, time, 1);
    int64_t fresh = m->machine->fresh(m, time), left = time > now ? 0 : m->machine->remaining(m, now);
    int64_t next = due > WEIR_TIME_MAX ? WEIR_FOREVER : due - now;
    int64_t reset = fresh > WEIR_TIME_MAX ? WEIR_FOREVER : fresh - now;
    return is->next_after_ns == next && is->refuses == (next > 0) && is->used >= 0 &&
           agree_near(cell->policy, &cell->model, is->left, left) &&
           (agree_near(cell->policy, &cell->model, is->reset_after_ns, reset) ||
            m->machine == &model_warmup); /* whose end of time may be near */
}

bool cell_explains(const struct cell *cell, int64_t now, const struct weir_limit_state *limits)
{
    for (size_t i = 0; i < cell->model.count; i++)
        if (!explains(cell, i, now, &limits[i]))
            return false;
    return true;
}

bool cell_adopt(struct cell *cell)
{
    if (cell->word)
        return cell->words[STATE_HEADER] == cell_position(cell) &&
               cell->words[STATE_PROMISED] == cell->model.promised;
    for (size_t i = 0; i < cell->model.count; i++) {
        struct model *m = &cell->model.limits[i];
        if (m->machine == &model_warmup &&
            !model_warmup_adopt(m, cell->words + cell->policy->limits[i].offset))
            return false;
    }
    return cell->words[STATE_PROMISED] == cell->model.promised;
}

/* ---- the law ---- */

/* A fresh smooth has saved a little more than it keeps: if the clock then steps back, it does not notice. */
static bool notices(const struct weir_policy *policy, size_t limit)
{
    return policy->limits[limit].spec.algo != WEIR_SMOOTH;
}

void cell_log_begin(struct cell *cell, const struct weir_policy *policy, int64_t now)
{
    law_start(&cell->law, policy, now);
    for (size_t i = 0; i < policy->count; i++)
        if (!notices(policy, i))
            cell->law.clock[i] = cell->law.local[i] = 0;
    cell->logged = true;
    cell->log_number++;
}

void cell_log_see(struct cell *cell, int64_t now)
{
    for (size_t i = 0; i < cell->policy->count; i++)
        if (notices(cell->policy, i))
            law_touch(&cell->law, i, now);
}

void cell_log_touch(struct cell *cell, int64_t now)
{
    const struct weir_policy *policy = cell->policy;
    for (size_t i = 0; i < policy->count; i++) {
        size_t from = policy->limits[i].offset;
        size_t to = i + 1 < policy->count ? policy->limits[i + 1].offset : policy->words;
        if (cell->before[STATE_PROMISED] <= now) /* has come true; a debt that has ended is no promise */
            law_touch(&cell->law, i, min64(cell->before[STATE_PROMISED], cell->due));
        if (memcmp(cell->words + from, cell->before + from, (to - from) * sizeof cell->words[0]) != 0)
            law_touch(&cell->law, i, now);
    }
}

bool cell_log_holds(const struct cell *cell, struct law_fault *fault)
{
    for (size_t i = 0; cell->logged && i < cell->policy->count; i++)
        if (!law_holds(&cell->law, i, fault) || !law_most_holds(&cell->law, i, fault))
            return false;
    return true;
}
