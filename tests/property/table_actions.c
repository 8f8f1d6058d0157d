/* SPDX-License-Identifier: MIT */
/*
 * The verbs of single keys, done to the library and to the model.
 */
#include <inttypes.h>
#include <string.h>

#include "core/idle.h"
#include "property/table_look.h"
#include "property/table_world.h"

/* ---- operations that may bring a key in ---- */

static bool refuse_for_room(struct weir_verdict *verdict)
{
    *verdict = (struct weir_verdict){.reason = WEIR_FULL, .retry_after_ns = WEIR_FOREVER};
    return false;
}

bool world_peek(struct site *site, uint32_t key, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    struct cell *cell = &site->cells[key];
    if (cell->present)
        return cell_peek(cell, now, n, verdict);
    int64_t time = world_floor(site, now);
    world_start(site, cell, time);
    bool allowed = cell_peek(cell, time, n, verdict);
    if (!allowed || site->policy->words == STATE_HEADER || world_has_room(site, time))
        return cell->shared ? world_says_shared(allowed, verdict) : allowed;
    if (site->plan->refuse)
        return refuse_for_room(verdict);
    world_look_shared(site, time);
    return !site->shared->present || world_says_shared(cell_peek(site->shared, time, n, verdict), verdict);
}

struct question {
    enum action_kind kind; /* TAKE, RESERVE, CHARGE */
    int64_t now, n, timeout;
};

struct answer {
    bool yes;
    struct weir_verdict verdict;
    struct cell_promise promise;
    struct cell *from; /* which state it was: the key's own, or what is shared */
    int64_t time;
};

static void put_question(struct cell *cell, uint64_t generation, const struct question *q,
                         struct answer *answer)
{
    answer->from = cell;
    answer->yes = true;
    if (q->kind == ACTION_CHARGE)
        cell_charge(cell, answer->time, q->n);
    else
        answer->yes = cell_reserve(cell, answer->time, q->n, q->kind == ACTION_TAKE ? 0 : q->timeout,
                                   generation, &answer->promise, &answer->verdict);
}

static bool counts_refusals(const struct weir_policy *policy)
{
    for (size_t i = 0; i < policy->count; i++)
        if (policy->limits[i].spec.refused != WEIR_REFUSED_IGNORE)
            return true;
    return false;
}

/* A take that is refused at once leaves no note; who promises something has been noted before. */
static void share(struct site *site, struct cell *cell, const struct question *q, struct answer *answer)
{
    bool counts = counts_refusals(site->policy), tries = !site->words || counts || q->kind == ACTION_RESERVE;
    struct weir_verdict verdict;
    if (!tries && !cell_peek(site->shared, answer->time, q->n, &verdict)) {
        put_question(site->shared, site->generation, q, answer);
    } else {
        put_question(world_share(site, answer->time), site->generation, q, answer);
        cell->took = cell->took || answer->yes || counts || (site->words && q->kind == ACTION_RESERVE);
    }
    (void)world_says_shared(answer->yes, &answer->verdict);
}

static void ask_absent(struct site *site, struct cell *cell, const struct question *q, struct answer *answer)
{
    answer->time = world_floor(site, q->now);
    world_start(site, cell, answer->time);
    put_question(cell, site->generation, q, answer);
    if (site->policy->words == STATE_HEADER || (!answer->yes && !counts_refusals(site->policy))) {
        if (cell->shared)
            (void)world_says_shared(answer->yes, &answer->verdict);
        return;
    }
    if (world_has_room(site, answer->time)) {
        world_insert(site, cell, answer->time);
    } else if (site->plan->refuse || q->kind == ACTION_CHARGE) {
        answer->yes = refuse_for_room(&answer->verdict);
    } else {
        share(site, cell, q, answer);
    }
}

/* What the model answers; what passes goes into the logs. */
static bool ask(struct world *world, struct site *site, uint32_t key, const struct question *q,
                struct answer *answer)
{
    struct cell *cell = &site->cells[key];
    world->decisions++;
    if (!world_make_room(world, site, cell))
        return false;
    answer->time = q->now;
    if (cell->present)
        put_question(cell, site->generation, q, answer);
    else
        ask_absent(site, cell, q, answer);
    if (!answer->from->word && !cell_adopt(answer->from))
        return world_fail(world, "the words of the core are not the model's");
    if (!answer->yes || q->kind == ACTION_CHARGE)
        return true;
    int64_t due = answer->time + answer->verdict.wait_ns;
    if (answer->from != cell)
        (void)law_admit(&site->shared->law, answer->time, due, q->n);
    if (answer->from == cell)
        world_log_begin(site, cell, answer->time);
    world_admit(site, cell, answer->from, answer->time, due, q->n);
    return true;
}

bool world_took(struct world *world, const struct table_ask *of, int64_t at, bool got,
                const struct weir_verdict *verdict)
{
    struct site *site = &world->sites[of->table];
    struct question q = {ACTION_TAKE, world_action_time(site, at), of->n, 0};
    struct answer answer;
    if (!ask(world, site, of->key, &q, &answer))
        return false;
    if (got != answer.yes)
        return world_fail(world, "take gives %d, the model %d", got, answer.yes);
    return !verdict || world_agrees(world, "take", answer.from, answer.time, verdict, &answer.verdict);
}

static bool do_take(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    char key[8];
    size_t len = world_key(site, op->asks[0].key, key);
    struct weir_verdict got;
    bool silent = op->id % 2 == 0;
    bool allowed = weir_table_take_at(site->table, op->at, key, len, op->asks[0].n, silent ? NULL : &got);
    return world_took(world, &op->asks[0], op->at, allowed, silent ? NULL : &got);
}

static bool do_reserve(struct world *world, const struct story_action *op)
{
    uint32_t key_number = op->asks[0].key;
    struct site *site = &world->sites[op->asks[0].table];
    struct cell *cell = &site->cells[key_number];
    struct world_held *held = &world->held[world->held_count];
    struct question q = {ACTION_RESERVE, world_action_time(site, op->at), op->asks[0].n, op->timeout};
    struct answer answer;
    struct weir_verdict got;
    char key[8];
    size_t len = world_key(site, key_number, key);
    bool allowed =
        weir_table_reserve_at(site->table, op->at, key, len, q.n, q.timeout, &held->reservation, &got);
    if (!ask(world, site, key_number, &q, &answer))
        return false;
    if (allowed != answer.yes)
        return world_fail(world, "reserve gives %d, the model %d", allowed, answer.yes);
    if (!world_agrees(world, "reserve", answer.from, answer.time, &got, &answer.verdict))
        return false;
    if (!allowed)
        return held->reservation.n == 0 || world_fail(world, "a refused reservation is one");
    const struct weir_reservation *r = &held->reservation;
    if (r->n != q.n || r->wait_ns != got.wait_ns ||
        r->due_ns != answer.time + got.wait_ns - site->table->region->offset_ns)
        return world_fail(world, "the reservation is not what the verdict says");
    held->id = op->id;
    held->table = op->asks[0].table;
    held->key = key_number;
    held->life = cell->life;
    held->era = cell->era;
    held->passed = false;
    held->log_number = cell->log_number;
    held->event = cell->law.count - 1;
    held->promise = answer.promise;
    world->held_count++;
    return true;
}

void world_mark_again(struct world *world, const struct story_action *op)
{
    if (world->held_count == 0 || world->held[world->held_count - 1].id != op->id)
        return;
    struct world_held *held = &world->held[world->held_count - 1];
    const struct cell *cell = &world->sites[held->table].cells[held->key];
    if (!cell->present)
        cell = world->sites[held->table].shared;
    for (size_t i = 0; i < cell->model.count; i++)
        if (cell->model.limits[i].machine == &model_warmup)
            held->promise.parts[i].mark = cell->model.limits[i].u.warmup.next;
}

static bool do_charge(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    struct question q = {ACTION_CHARGE, world_action_time(site, op->at), op->asks[0].n, 0};
    struct answer answer;
    char key[8];
    size_t len = world_key(site, op->asks[0].key, key);
    bool got = weir_table_charge_at(site->table, op->at, key, len, q.n);
    if (!ask(world, site, op->asks[0].key, &q, &answer))
        return false;
    return got == answer.yes || world_fail(world, "charge gives %d, the model %d", got, answer.yes);
}

/* What is given back to a key that is not there brings it in, if it would start with what keys share, and not
 * from nothing. false: it stays out. */
static bool comes_for_more(struct site *site, struct cell *cell, int64_t *now)
{
    if (cell->present)
        return true;
    *now = world_floor(site, *now);
    world_start(site, cell, *now);
    if (!cell->shared || site->policy->words == STATE_HEADER || !world_has_room(site, *now))
        return false;
    world_insert(site, cell, *now);
    return true;
}

static bool do_give(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    struct cell *cell = &site->cells[op->asks[0].key];
    int64_t now = world_action_time(site, op->at), n = op->asks[0].n;
    char key[8];
    size_t len = world_key(site, op->asks[0].key, key);
    weir_table_give_at(site->table, op->at, key, len, n);
    if (!comes_for_more(site, cell, &now))
        return true;
    if (!world_log_room(world, cell))
        return false;
    if (cell->model.promised <= now) /* else it is dropped */
        law_give(&cell->law, now, n);
    cell_give(cell, now, n);
    return true;
}

static bool do_reset(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    struct cell *cell = &site->cells[op->asks[0].key];
    int64_t now = world_action_time(site, op->at);
    struct law_fault fault;
    char key[8];
    size_t len = world_key(site, op->asks[0].key, key);
    weir_table_reset_at(site->table, op->at, key, len);
    if (!comes_for_more(site, cell, &now))
        return true;
    if (!cell_log_holds(cell, &fault))
        return world_fail(world, "%s", fault.text);
    cell_reset(cell, now);
    cell_log_begin(cell, cell->policy, now);
    return true;
}

/* ---- operations that never do ---- */

static bool do_peek(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    struct weir_verdict got, want;
    int64_t now = world_action_time(site, op->at);
    char key[8];
    size_t len = world_key(site, op->asks[0].key, key);
    bool allowed = weir_table_peek_at(site->table, op->at, key, len, op->asks[0].n, &got);
    const struct cell *cell = &site->cells[op->asks[0].key];
    int64_t time = cell->present ? now : world_floor(site, now);
    bool wanted = world_peek(site, op->asks[0].key, now, op->asks[0].n, &want);
    world->decisions++;
    if (allowed != wanted)
        return world_fail(world, "peek gives %d, the model %d", allowed, wanted);
    return world_agrees(world, "peek", cell, time, &got, &want);
}

static bool do_explain(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    struct cell *cell = &site->cells[op->asks[0].key];
    struct weir_limit_state limits[WEIR_LIMITS_MAX];
    int64_t now = world_action_time(site, op->at);
    char key[8];
    size_t len = world_key(site, op->asks[0].key, key);
    size_t count = weir_table_explain_at(site->table, op->at, key, len, limits, WEIR_LIMITS_MAX);
    if (!cell->present) {
        now = world_floor(site, now);
        world_start(site, cell, now);
    }
    world->decisions++;
    return (count == cell->policy->count && cell_explains(cell, now, limits)) ||
           world_fail(world, "explain and model differ");
}

/* Nobody hands back what he has used, whatever the clock says; and a key that was forgotten had nothing left
 * to hand back. A word cannot tell a promise from one before a reset that led to the same place, and limits
 * of its own begin to count ages anew. */
static bool is_foul(const struct site *site, const struct world_held *held, const struct cell *cell,
                    int64_t now)
{
    bool old = held->era != cell->era;
    if ((held->passed && now < held->promise.parts[0].due) || held->life != cell->life)
        return true;
    if (cell->present && cell->word && old)
        return cell_position(cell) == held->promise.position;
    return site->words && old && cell->own && !held->promise.word;
}

static bool do_cancel(struct world *world, const struct story_action *op)
{
    for (size_t i = 0; i < world->held_count; i++) {
        struct world_held *held = &world->held[i];
        if (held->id != op->ref)
            continue;
        struct site *site = &world->sites[held->table];
        struct cell *cell = &site->cells[held->key];
        int64_t now = world_action_time(site, op->at);
        char key[8];
        size_t len = world_key(site, held->key, key);
        if (is_foul(site, held, cell, now))
            continue;
        bool got = weir_table_cancel_at(site->table, op->at, key, len, &held->reservation), want = false;
        if (cell->present)
            want = cell_cancel(cell, now, site->generation, &held->promise);
        else
            world_look_shared(site, world_floor(site, now));
        if (got != want)
            return world_fail(world, "cancel gives %d, the model %d", got, want);
        if (got && held->log_number == cell->log_number)
            law_cancel(&cell->law, held->event);
    }
    return true;
}

/* ---- all of them ---- */

/* What makes no sense is refused, and nothing changes. */
static bool do_invalid(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    struct weir_verdict v = {.reason = -1};
    struct weir_reservation r;
    char key[8];
    size_t len = world_key(site, op->asks[0].key, key);
    int64_t n = op->asks[0].n;
    bool got = false, told = true;
    if (op->kind == ACTION_TAKE)
        got = weir_table_take_at(site->table, op->at, key, len, n, &v);
    else if (op->kind == ACTION_PEEK)
        got = weir_table_peek_at(site->table, op->at, key, len, n, &v);
    else if (op->kind == ACTION_RESERVE)
        got = weir_table_reserve_at(site->table, op->at, key, len, n, op->timeout, &r, &v);
    else
        told = false;
    if (op->kind == ACTION_GIVE)
        weir_table_give_at(site->table, op->at, key, len, n);
    if (op->kind == ACTION_CHARGE)
        got = weir_table_charge_at(site->table, op->at, key, len, n);
    return (!got && (!told || (v.reason == WEIR_INVALID && v.retry_after_ns == WEIR_FOREVER))) ||
           world_fail(world, "n is %" PRId64 ", but the answer is %d, reason %d", n, got, v.reason);
}

bool world_action(struct world *world, const struct story_action *op)
{
    static bool (*const actions[])(struct world *, const struct story_action *) = {
        [ACTION_TAKE] = do_take,     [ACTION_PEEK] = do_peek,      [ACTION_RESERVE] = do_reserve,
        [ACTION_CANCEL] = do_cancel, [ACTION_GIVE] = do_give,      [ACTION_CHARGE] = do_charge,
        [ACTION_RESET] = do_reset,   [ACTION_EXPLAIN] = do_explain};
    bool counts = op->kind != ACTION_CANCEL && op->kind != ACTION_RESET && op->kind != ACTION_EXPLAIN;
    return counts && op->asks[0].n < 1 ? do_invalid(world, op) : actions[op->kind](world, op);
}
