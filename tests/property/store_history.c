/* SPDX-License-Identifier: MIT */
#include "property/store_history.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/boot.h"
#include "os/clock.h"
#include "region/persist.h"
#include "store/commit.h"
#include "store/store.h"

#define WALL_START  (INT64_C(1700000000) * WEIR_SEC)
#define LIVES       5
#define HEAL_ROUNDS 200
#define STEP_NS     (WEIR_SEC / 5) /* time goes on by so much at once, so that the syncer can look */

#define CAPACITY (UINT64_C(8) << 20) /* of the disk */

struct history_counts history_counts;

/* ---- telling ---- */

void history_say(const struct history *history, const char *format, ...)
{
    va_list list;
    printf("#   %.3f (%.3f) t%d ", (double)history->real_ns / 1e9, (double)history_now(history) / 1e9,
           history->thread);
    va_start(list, format);
    (void)vprintf(format, list);
    va_end(list);
    puts("");
}

void history_fail(struct history *history, const char *format, ...)
{
    va_list list;
    history->failed = true;
    printf("#   ");
    va_start(list, format);
    (void)vprintf(format, list);
    va_end(list);
    puts("");
}

int64_t history_roll(struct history *history, int64_t low, int64_t high)
{
    return rng_between(&history->rng, low, high);
}

/* ---- time ---- */

static struct history *present; /* for the machine's clocks */

static bool boot_id(unsigned char id[BOOT_ID_SIZE])
{
    memset(id, 0, BOOT_ID_SIZE);
    memcpy(id, &present->boot, sizeof present->boot);
    return true;
}

static bool boot_shift(int64_t *shift_ns)
{
    *shift_ns = 0;
    return true;
}

static int64_t boot_wall(void)
{
    return WALL_START + present->real_ns;
}

static void set_clock(struct history *history)
{
    weir_clock_set(history->real_ns - history->boot_ns);
}

int64_t history_now(const struct history *history)
{
    return weir_now() + (history->store ? weir_store_offset(history->store) : 0);
}

static void boot(struct history *history)
{
    history->boot++;
    history->boot_ns = history->real_ns - history_roll(history, 1, 10) * WEIR_SEC;
    set_clock(history);
}

/* ---- answers ---- */

struct book_key *history_key(struct history *history, struct book_table *table, uint64_t name)
{
    for (size_t i = 0; i < history->key_count; i++)
        if (history->keys[i].table == table && history->keys[i].name == name)
            return &history->keys[i];
    if (history->key_count == BOOK_KEYS)
        abort();
    struct book_key *key = &history->keys[history->key_count++];
    memset(key, 0, offsetof(struct book_key, law));
    key->table = table;
    key->name = name;
    key->first_text = table->text;
    key->lawful = false;
    return key;
}

bool history_has_room(const struct history *history, const struct book_key *key)
{
    return key->count + 8 < BOOK_ENTRIES && history->waiting_count < HISTORY_WAITING;
}

static void note_law(struct history *history, struct book_key *key, struct book_entry *entry)
{
    if (!key->lawful || key->law.count + 8 > MODEL_EVENTS)
        return;
    if (entry->kind == BOOK_TAKE)
        entry->event = law_admit(&key->law, history->real_ns, history->real_ns, entry->n);
    else if (entry->kind == BOOK_GIVE)
        law_give(&key->law, history->real_ns, entry->n);
}

struct book_entry *history_note(struct history *history, struct book_key *key, enum book_kind kind, int64_t n)
{
    if (!history_has_room(history, key))
        abort();
    struct book_entry *entry = book_add(key, kind, history_now(history), n);
    note_law(history, key, entry);
    history->waiting[history->waiting_count++] =
        (struct waiting){.key = key, .entry = key->count - 1, .thread = history->thread};
    return entry;
}

void history_wait_for(struct history *history, uint64_t what)
{
    if (history->waiting_count == HISTORY_WAITING)
        abort();
    history->waiting[history->waiting_count++] = (struct waiting){.what = what, .thread = history->thread};
}

static void commit(struct history *history)
{
    uint64_t ticket = weir_store_commit(history->store);
    if (history->scene->committed)
        history->scene->committed(history);
    bool stopped = sim_is_stopped(history->sim);
    bool written =
        !stopped && weir_store_is_well(history->store) && sim_faults(history->sim) == history->faults;
    for (size_t i = 0; i < history->waiting_count; i++) {
        struct waiting *waiting = &history->waiting[i];
        if (waiting->thread != history->thread)
            continue;
        waiting->thread = -1;
        waiting->ticket = ticket;
        if (waiting->key)
            waiting->key->entries[waiting->entry].written = written;
    }
    TRACE(history, "commit: ticket %" PRIu64 "%s", ticket, stopped ? ", stopped" : "");
}

static void answer(struct history *history)
{
    size_t left = 0;
    struct store_state state;
    if (sim_is_stopped(history->sim))
        return;
    weir_store_state(history->store, &state);
    history->faulty |= state.faults > 0;
    for (size_t i = 0; i < history->waiting_count; i++) {
        struct waiting *waiting = &history->waiting[i];
        if (waiting->thread >= 0 || weir_store_ticket_status(history->store, waiting->ticket) != STORE_GO) {
            history->waiting[left++] = *waiting;
            continue;
        }
        history->answered_ns = history->real_ns;
        history_counts.answers++;
        if (waiting->key)
            waiting->key->entries[waiting->entry].answered_ns = history->real_ns;
        else
            history->scene->answered(history, waiting->what);
        TRACE(history, "answered: ticket %" PRIu64, waiting->ticket);
    }
    history->waiting_count = left;
}

static void switch_thread(struct history *history, int thread)
{
    history->thread = thread;
    weir_dirty = history->threads[thread];
}

static void commit_all(struct history *history)
{
    for (int i = 0; i < HISTORY_THREADS; i++) {
        switch_thread(history, i);
        commit(history);
    }
}

/* ---- what the store's threads do ---- */

static void work(struct history *history, unsigned what)
{
    bool more = weir_store_work(history->store, what);
    TRACE(history, "%s%s%s", what & STORE_WORK_SYNC ? "sync" : "image", more ? ", more" : "",
          weir_store_is_well(history->store) ? "" : ", ill");
}

static void pass_time(struct history *history, int64_t ns)
{
    while (ns > 0 && !sim_is_stopped(history->sim)) {
        int64_t step = min64(ns, STEP_NS);
        struct store_state state;
        ns -= step;
        history->real_ns += step;
        set_clock(history);
        weir_store_state(history->store, &state);
        if (!history->slow && history->sync == STORE_EVERYSEC && state.unsynced_ns >= WEIR_SEC / 2)
            work(history, STORE_WORK_SYNC);
    }
    TRACE(history, "time");
}

static void end_faults(struct history *history)
{
    sim_no_faults(history->sim);
    sim_read_only(history->sim, false);
    if (!sim_is_aborted(history->sim))
        sim_abort_after(history->sim, SIM_NEVER);
    sim_capacity(history->sim, CAPACITY);
}

/* Once the disk is well again, so is the store, and everybody is answered. */
void history_heal(struct history *history)
{
    if (sim_is_aborted(history->sim))
        return; /* not before it is mounted again */
    end_faults(history);
    commit_all(history);
    int round = 0;
    for (; round < HEAL_ROUNDS && !sim_is_stopped(history->sim) && !sim_is_aborted(history->sim); round++) {
        answer(history);
        if (history->waiting_count == 0 && weir_store_is_well(history->store))
            break;
        work(history, STORE_WORK_SYNC);
        work(history, STORE_WORK_IMAGE);
        if (!weir_store_is_well(history->store))
            pass_time(history, WEIR_SEC);
    }
    if (round == HEAL_ROUNDS)
        history_fail(history, "the disk is well, the store is not: %zu wait", history->waiting_count);
}

static void make_fault(struct history *history)
{
    static const int errors[] = {EIO, ENOSPC, EIO, EDQUOT};
    int error = errors[history_roll(history, 0, 3)];
    int64_t lot = history_roll(history, 0, 12);
    enum disk_call kind = (enum disk_call)history_roll(history, 0, DISK_CALL_ANY);
    TRACE(history, "fault %d of call %d: %s", (int)lot, (int)kind, strerror(error));
    if (lot < 5)
        sim_fail(history->sim, kind, (uint64_t)history_roll(history, 1, 12), error, lot == 0);
    else if (lot < 7)
        sim_fail_often(history->sim, kind, 300000, error);
    else if (lot < 9)
        sim_capacity(history->sim, sim_used(history->sim) + (uint64_t)history_roll(history, 0, 3000));
    else if (lot < 10)
        sim_read_only(history->sim, true);
    else
        sim_abort_after(history->sim, (uint64_t)history_roll(history, 0, 30));
}

static void go_on(struct history *history)
{
    int64_t lot = history_roll(history, 0, 99);
    switch_thread(history, (int)history_roll(history, 0, HISTORY_THREADS - 1));
    if (lot < 50) {
        history_counts.requests++;
        history->scene->act(history);
    } else if (lot < 68) {
        commit(history);
    } else if (lot < 78) {
        work(history, STORE_WORK_SYNC);
    } else if (lot < 86) {
        work(history, STORE_WORK_IMAGE);
    } else if (lot < 97) {
        pass_time(history, rng_magnitude(&history->rng, 2 * WEIR_SEC));
    } else if (lot < 98) {
        make_fault(history);
    } else {
        history_heal(history);
    }
    answer(history);
}

/* ---- lives ---- */

/* Nobody waits any more; what was not answered never will be. */
static void forget_waiting(struct history *history)
{
    history->waiting_count = 0;
    for (int i = 0; i < HISTORY_THREADS; i++)
        weir_dirty_clear(history->threads[i]);
    switch_thread(history, 0);
}

static void begin_life(struct history *history)
{
    history->faults = sim_faults(history->sim);
    history->faulty = false;
    history->slow = history_chance(history, 25);
    if (history_chance(history, 60))
        sim_stop_after(history->sim, rng_magnitude(&history->rng, 1)
                                         ? (uint64_t)history_roll(history, 0, 20)
                                         : (uint64_t)history_roll(history, 0, 250));
}

/* The process is there no more: by a kill, or because the machine went down. */
static void end_hard(struct history *history)
{
    bool cut = history_chance(history, 55) || sim_is_aborted(history->sim), ran = history->store != NULL;
    if (ran) {
        if (history->faulty)
            history->cut = history->late = true; /* a sync that fails is as bad as a cut */
        sim_stop_after(history->sim, 0);
        for (int i = 1; i < HISTORY_THREADS; i++)
            weir_dirty_clear(history->threads[i]);
        switch_thread(history, 0);
        (void)history->scene->end(history, false);
    }
    forget_waiting(history);
    TRACE(history, "%s%s", cut ? "power cut" : "kill", ran ? "" : ", while it began");
    if (cut) {
        history->late |= !ran || history->slow || history->faulty;
        history->cut = true;
        history_counts.cuts++;
        sim_cut(history->sim, &history->rng);
        if (history_chance(history, 50))
            boot(history);
    } else {
        history->late = true; /* a cut that comes now finds what was answered before */
        history_counts.kills++;
        sim_kill(history->sim);
    }
    history->real_ns += rng_magnitude(&history->rng, WEIR_SEC / 2);
    set_clock(history);
    end_faults(history);
}

static void end_life(struct history *history)
{
    if (sim_is_stopped(history->sim) || sim_is_aborted(history->sim) || !history_chance(history, 20)) {
        end_hard(history);
        return;
    }
    history_heal(history);
    if (sim_is_stopped(history->sim) || sim_is_aborted(history->sim)) {
        end_hard(history);
        return;
    }
    sim_stop_after(history->sim, SIM_NEVER);
    sim_abort_after(history->sim, SIM_NEVER);
    switch_thread(history, 0);
    TRACE(history, "ends in order");
    history_counts.closes++;
    history->clean = history->scene->end(history, true);
    if (!history->clean)
        history_fail(history, "it could not end in order");
    forget_waiting(history);
    sim_kill(history->sim);
    history->late = true;
}

struct book_found history_found(const struct history *history, const struct book_key *key,
                                uint64_t generation)
{
    struct book_found found = {.generation = generation, .now_ns = history_now(history)};
    (void)key;
    for (; found.began_count < history->began_count; found.began_count++)
        found.began_ns[found.began_count] =
            found.now_ns - (history->real_ns - history->began_ns[found.began_count]);
    found.must.written = !history->cut;
    found.must.answered_ns = INT64_MAX;
    if (history->cut && history->sync == STORE_EVERYSEC)
        found.must.answered_ns = (history->late ? history->answered_ns : history->real_ns) - WEIR_SEC - 1;
    if (history->cut && history->sync == STORE_NEVER)
        found.must.answered_ns = -1;
    if (history->found.unsure || history->found.lost)
        found.rule = history->rule;
    return found;
}

static void check_found(struct history *history)
{
    const struct store_found *found = &history->found;
    history_counts.recoveries++;
    history_counts.lost += found->unsure;
    TRACE(history,
          "recovered: clean %d, lost %d, unsure %d, holes %d, %" PRIu64 " records, unknown %" PRIu64 " %s",
          found->clean, found->lost, found->unsure, found->holes, found->records, found->unknown,
          found->text);
    if (found->lost)
        history_fail(history, "nothing was lost that was on the disk, but it says so: %s", found->text);
    if (history->clean && !found->clean && !found->unsure)
        history_fail(history, "it ended well, but is said not to have: %s", found->text);
    if (found->unknown > 0 && !found->holes) /* else the note that explains them may be what is missing */
        history_fail(history, "%" PRIu64 " records made no sense", found->unknown);
}

/* Until a process has begun to write; it may be cut off itself, several times. */
static void recover(struct history *history)
{
    for (int tries = 0; !history->failed; tries++) {
        begin_life(history);
        if (tries > 6)
            sim_stop_after(history->sim, SIM_NEVER);
        else if (history_chance(history, 15) && (history->rule == BOOK_EXACT || !history->scene->committed))
            sim_fail(history->sim, DISK_CALL_ANY, (uint64_t)history_roll(history, 1, 40), EIO, false);
        uint64_t faults = sim_faults(history->sim);
        TRACE(history, "begins");
        bool begun = history->scene->begin(history), stopped = sim_is_stopped(history->sim);
        sim_no_faults(history->sim);
        history->clean = history->clean && sim_faults(history->sim) == faults;
        if (!stopped && sim_faults(history->sim) != faults)
            history->cut = history->late = true; /* as in end_hard */
        if (begun)
            break;
        history_counts.broken++;
        if (history->began_count < BOOK_STARTS)
            history->began_ns[history->began_count++] = history->real_ns;
        history->clean = false; /* it may have begun to write */
        if (!stopped && sim_faults(history->sim) == faults)
            history_fail(history, "it does not begin, though nothing is wrong with the disk");
        else if (stopped || history_chance(history, 50))
            end_hard(history);
    }
    if (history->failed || !history->store)
        return;
    check_found(history);
    history->scene->compare(history);
    for (size_t i = 0; i < history->key_count; i++) {
        struct book_key *key = &history->keys[i];
        key->base = key->count;
    }
    history->cut = history->late = history->clean = false;
    history->began_count = 0;
}

/* What was never answered was not admitted, as far as anybody knows. */
static void end_law(struct history *history)
{
    for (size_t i = 0; i < history->key_count; i++) {
        struct book_key *key = &history->keys[i];
        for (size_t j = 0; key->lawful && j < key->count; j++)
            if (key->entries[j].kind == BOOK_TAKE && key->entries[j].answered_ns < 0)
                law_cancel(&key->law, key->entries[j].event);
    }
}

static void check_law(struct history *history)
{
    struct law_fault fault;
    for (size_t i = 0; i < history->key_count; i++)
        if (history->keys[i].lawful && !law_holds(&history->keys[i].law, 0, &fault))
            history_fail(history, "key %" PRIu64 " has more than its limit: %s", history->keys[i].name,
                         fault.text);
}

static void live(struct history *history)
{
    history_counts.lives++;
    for (int64_t i = history_roll(history, 1, 60); i > 0 && !history->failed && !sim_is_stopped(history->sim);
         i--)
        go_on(history);
    end_law(history);
    if (!history->failed)
        end_life(history);
}

static void begin_history(struct history *history, const struct scene *scene, uint64_t seed, uint64_t number)
{
    static struct book_key keys[BOOK_KEYS];
    static struct dirty threads[HISTORY_THREADS];
    *history = (struct history){.scene = scene, .number = number, .keys = keys};
    history->rng.state = (seed * UINT64_C(0x9E3779B97F4A7C15) + number) * UINT64_C(0xD1342543DE82EF95);
    (void)rng_next(&history->rng);
    for (int i = 0; i < HISTORY_THREADS; i++) {
        history->threads[i] = &threads[i];
        weir_dirty_clear(&threads[i]);
    }
    present = history;
    weir_boot = (struct boot){boot_id, boot_shift, boot_wall};
    history->real_ns = 100 * WEIR_SEC;
    boot(history);
    switch_thread(history, 0);
    history->sim = sim_new(rng_next(&history->rng));
    sim_capacity(history->sim, CAPACITY);
    history->sync = (enum store_sync)history_roll(history, STORE_ALWAYS, STORE_NEVER);
    history->rule = (enum book_rule)history_roll(history, BOOK_EXACT, BOOK_OPTIMISTIC);
}

bool history_run(const struct scene *scene, uint64_t seed, uint64_t number, bool trace)
{
    static struct history history;
    struct dirty *own = weir_dirty;
    begin_history(&history, scene, seed, number);
    history.trace = trace;
    scene->make(&history);
    TRACE(&history, "sync %d, rule %d", (int)history.sync, (int)history.rule);
    for (int64_t lives = history_roll(&history, 1, LIVES); lives > 0 && !history.failed; lives--) {
        recover(&history);
        if (!history.failed)
            live(&history);
    }
    if (!history.failed)
        recover(&history);
    if (!history.failed)
        check_law(&history);
    history_counts.faults += sim_faults(history.sim);
    sim_stop_after(history.sim, 0);
    forget_waiting(&history);
    if (history.store)
        (void)scene->end(&history, false);
    if (!history.failed && sim_handles(history.sim) != 0)
        history_fail(&history, "%d files are still open", sim_handles(history.sim));
    sim_free(history.sim);
    weir_dirty = own;
    return !history.failed;
}
