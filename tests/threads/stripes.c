/* SPDX-License-Identifier: MIT */
/*
 * Accounts under the locks of stripes, with units that go from one to another and are never made or lost:
 * by threads, by processes that are killed at moments drawn by lot, and by processes that are killed at every
 * instruction of a change and of a recovery. WEIR_KILLS says how many are killed by lot.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "region/layout.h"
#include "region/stripe.h"
#include "threads/step.h"
#include "threads/team.h"

#define STRIPES 8
#define CELLS   5
#define UNITS   UINT64_C(1000000) /* in each cell and slot at first */
#define TOTAL   (STRIPES * (CELLS + 1) * UNITS)
#define THREADS 6
#define WORKERS 3

/* One for each stripe, under its lock. It also has a slot, whose value are units. */
struct account {
    uint64_t cells[CELLS];
    uint64_t changes;
};

struct world {
    struct region *region;
    struct account *accounts;
    struct progress { /* shared, and of no account */
        atomic_bool stop;
        _Atomic uint64_t begun, done, faults;
    } * progress;
};

static struct slot *slot_of(const struct world *w, uint64_t stripe)
{
    return region_slot(&w->region->segments[0], stripe * 4);
}

/* What looks like entries, to be undone by whoever trusts what is not there yet. */
static void poison(struct world *w, struct journal *journal, uint64_t room)
{
    uint64_t *words = (uint64_t *)(void *)(journal + 1);
    for (uint64_t i = 0; i + 1 < room / sizeof words[0]; i += 2) {
        words[i] = weir_region_offset(w->region, w->accounts);
        words[i + 1] = UINT64_C(1) << 32 | sizeof words[0];
    }
}

static void poison_all(struct world *w)
{
    for (uint32_t i = 0; i < STRIPES; i++) {
        size_t count = 1;
        struct stripe *stripe = weir_stripe_lock(w->region, i);
        poison(w, &stripe->journal, w->region->header->shape.journal_size);
        weir_stripe_unlock(stripe);
        struct transaction *transaction = weir_transaction_lock(w->region, &i, &count);
        poison(w, weir_transaction_journal(transaction), w->region->header->shape.transaction_size);
        weir_transaction_unlock(w->region, transaction, &i, count);
    }
}

static void world_reset(struct world *w)
{
    for (uint64_t i = 0; i < STRIPES; i++) {
        for (int j = 0; j < CELLS; j++)
            w->accounts[i].cells[j] = UNITS;
        w->accounts[i].changes = 0;
        atom_store(&slot_of(w, i)->both.low, i + 100, memory_order_relaxed);
        atom_store(&slot_of(w, i)->both.high, slot_pack(SLOT_PLAIN, 1, UNITS), memory_order_relaxed);
    }
    weir_stripes_renew(w->region);
    poison_all(w);
}

static void must(bool done, const char *what)
{
    if (!done) {
        perror(what);
        exit(1);
    }
}

/* In a file that is gone again: children share it all the same. */
static struct region *open_shared(const struct region_shape *shape, struct weir_error *err)
{
    char path[64];
    bool made, alone;
    snprintf(path, sizeof path, "/dev/shm/weir-stripes-%d", (int)getpid());
    struct region *region = weir_region_open(path, shape, 0600, &made, &alone, err);
    if (region)
        weir_region_ready(region);
    (void)unlink(path);
    return region;
}

static struct world world_new(bool shared)
{
    struct region_shape shape = {.kind = REGION_WORDS,
                                 .capacity = 64,
                                 .slot_size = sizeof(struct slot),
                                 .line_slots = 4,
                                 .lines = 16,
                                 .stripes = STRIPES,
                                 .journal_size = weir_journal_size(sizeof(struct account), 1),
                                 .transaction_size = weir_journal_size(3 * sizeof(struct account) + 16, 4),
                                 .parts = {[PART_POLICIES] = STRIPES * sizeof(struct account)}};
    struct weir_error err;
    struct region *region = shared ? open_shared(&shape, &err) : weir_region_new(&shape, &err);
    must(region != NULL, "region");
    struct progress *progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(progress != MAP_FAILED, "mmap");
    struct world w = {region, (struct account *)(void *)region->parts[PART_POLICIES], progress};
    world_reset(&w);
    return w;
}

static void world_free(struct world *w)
{
    weir_region_free(w->region);
    (void)munmap(w->progress, sizeof *w->progress);
}

/* ---- changes ---- */

static void fault(struct world *w)
{
    atomic_fetch_add(&w->progress->faults, 1);
}

static void account_save(struct world *w, struct journal *journal, struct account *account)
{
    if (!weir_journal_save(w->region, journal, account, sizeof *account))
        fault(w);
}

static void change_one(struct world *w, uint64_t stripe, uint64_t units)
{
    struct stripe *lock = weir_stripe_lock(w->region, stripe);
    struct account *account = &w->accounts[stripe];
    weir_journal_begin(&lock->journal);
    account_save(w, &lock->journal, account);
    account->cells[0] -= units;
    account->cells[1] += 2 * units;
    account->cells[4] -= units;
    account->changes++;
    weir_journal_commit(w->region, &lock->journal);
    weir_stripe_unlock(lock);
}

/* Nobody holds it: we have its stripe. But its kind may change meanwhile. */
static uint64_t hold(struct world *w, struct journal *journal, struct slot *slot)
{
    for (int i = 0; i < 100000; i++) {
        uint64_t hash = slot_hash(slot), word = slot_word(slot);
        if (slot_kind(word) == SLOT_HELD)
            break;
        if (weir_journal_hold(w->region, journal, slot, hash, word))
            return slot_with_kind(word, SLOT_HELD);
    }
    fault(w);
    return slot_word(slot);
}

/* From the first to the second, and from the third to the slot of the first. */
static void move(struct world *w, struct journal *journal, const uint32_t *stripes, uint64_t units)
{
    struct account *a = &w->accounts[stripes[0]], *b = &w->accounts[stripes[1]],
                   *c = &w->accounts[stripes[2]];
    struct slot *slot = slot_of(w, stripes[0]);
    account_save(w, journal, a);
    a->cells[2] -= units;
    uint64_t held = hold(w, journal, slot);
    account_save(w, journal, b);
    b->cells[2] += units;
    account_save(w, journal, c);
    c->cells[3] -= units;
    a->changes++;
    atom_store(&slot->both.high, held + units, memory_order_relaxed);
}

static void change_three(struct world *w, uint32_t *stripes, uint64_t units, bool valid)
{
    size_t count = 3;
    struct transaction *transaction = weir_transaction_lock(w->region, stripes, &count);
    struct journal *journal = weir_transaction_journal(transaction);
    weir_journal_begin(journal);
    move(w, journal, stripes, units);
    if (valid)
        weir_journal_commit(w->region, journal);
    else
        weir_journal_undo(w->region, journal);
    weir_transaction_unlock(w->region, transaction, stripes, count);
}

/* As a take that needs no lock; if the slot is held, it waits at the stripe, and then it is not. */
static void flip(struct world *w, uint64_t stripe)
{
    struct slot *slot = slot_of(w, stripe);
    uint64_t hash = slot_hash(slot), word = slot_word(slot);
    if (slot_kind(word) != SLOT_HELD) {
        bool plain = slot_kind(word) == SLOT_PLAIN;
        (void)slot_exchange(slot, hash, word, hash, slot_with_kind(word, plain ? SLOT_PROMISED : SLOT_PLAIN));
        return;
    }
    struct stripe *lock = weir_stripe_lock(w->region, stripe);
    if (slot_kind(slot_word(slot)) == SLOT_HELD)
        fault(w);
    weir_stripe_unlock(lock);
}

static void change_any(struct world *w, struct rng *rng)
{
    uint64_t units = (uint64_t)rng_between(rng, 0, 9), dice = rng_next(rng) % 8;
    uint32_t first = (uint32_t)rng_between(rng, 0, STRIPES - 1), skip = (uint32_t)rng_between(rng, 1, 3);
    uint32_t stripes[] = {first, (first + skip) % STRIPES, (first + 2 * skip) % STRIPES};
    atomic_fetch_add(&w->progress->begun, 1);
    if (dice < 3)
        change_one(w, first, units);
    else if (dice < 6)
        change_three(w, stripes, units, dice != 5);
    else
        flip(w, first);
    if (dice < 5)
        atomic_fetch_add(&w->progress->done, 1);
}

/* ---- what must hold ---- */

struct sums {
    uint64_t units, changes, held;
};

/* All stripes at once. */
static struct sums count_all(struct world *w)
{
    uint32_t all[STRIPES];
    size_t count = STRIPES;
    struct sums sums = {0};
    for (uint32_t i = 0; i < STRIPES; i++)
        all[i] = STRIPES - 1 - i;
    struct transaction *transaction = weir_transaction_lock(w->region, all, &count);
    for (uint64_t i = 0; i < STRIPES; i++) {
        uint64_t word = slot_word(slot_of(w, i));
        for (int j = 0; j < CELLS; j++)
            sums.units += w->accounts[i].cells[j];
        sums.units += slot_value(word);
        sums.held += slot_kind(word) == SLOT_HELD;
        sums.changes += w->accounts[i].changes;
    }
    weir_transaction_unlock(w->region, transaction, all, count);
    return sums;
}

/* At least what was known to be done before; what was begun by now at most. */
static bool check_all(struct world *w)
{
    uint64_t done = atomic_load(&w->progress->done);
    struct sums sums = count_all(w);
    bool good = CHECK_EQ(sums.units, TOTAL);
    good = CHECK_EQ(sums.held, 0) && good;
    good = CHECK(sums.changes >= done) && good;
    good = CHECK(sums.changes <= atomic_load(&w->progress->begun)) && good;
    return CHECK_EQ(atomic_load(&w->progress->faults), 0) && good;
}

/* ---- threads ---- */

static void run_thread(size_t self, void *arg)
{
    struct world *w = arg;
    struct rng rng = rng_new(self);
    for (int64_t i = team_scaled(60000); i > 0; i--) {
        change_any(w, &rng);
        if (i % 64 == 0 && count_all(w).units != TOTAL)
            fault(w);
    }
}

TEST(threads_neither_make_nor_lose_units)
{
    struct world w = world_new(true);
    team_watch("threads");
    team_run(THREADS, run_thread, &w);
    team_watch_done();
    CHECK(check_all(&w));
    CHECK_EQ(count_all(&w).changes, atomic_load(&w.progress->done));
    world_free(&w);
}

static void run_until_stopped(size_t self, void *arg)
{
    struct world *w = arg;
    struct rng rng = rng_new(self);
    while (!atomic_load(&w->progress->stop))
        change_any(w, &rng);
}

/* The child has a copy of its own, taken while threads changed the original. */
TEST(a_fork_copies_nothing_half_done)
{
    struct world w = world_new(false);
    team_watch("forks");
    struct team *team = team_start(2, run_until_stopped, &w);
    for (int64_t i = team_scaled(300); i > 0; i--) {
        int status = 1;
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0) {
            struct sums sums = count_all(&w);
            _exit(sums.units == TOTAL && sums.held == 0 ? 0 : 1);
        }
        must(waitpid(child, &status, 0) == child, "waitpid");
        if (!CHECK_EQ(status, 0))
            break;
    }
    atomic_store(&w.progress->stop, true);
    team_join(team);
    team_watch_done();
    CHECK(check_all(&w));
    world_free(&w);
}

/* ---- processes that are killed by lot ---- */

static pid_t worker_new(struct world *w, uint64_t stream)
{
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        struct rng rng = rng_new(stream);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody is left behind if the test is stopped */
        while (!atomic_load(&w->progress->stop))
            change_any(w, &rng);
        _exit(0);
    }
    return pid;
}

/* While others do so many changes. */
static void look_on(struct world *w, uint64_t changes)
{
    uint64_t until = atomic_load(&w->progress->begun) + changes;
    for (uint64_t i = 0; atomic_load(&w->progress->begun) < until; i++) {
        if (i % 8 == 0)
            (void)count_all(w);
        team_yield();
    }
}

TEST(killed_processes_leave_everything_whole)
{
    struct world w = world_new(true);
    struct rng rng = rng_new(1000);
    pid_t workers[WORKERS];
    int64_t kills = check_env("WEIR_KILLS", team_scaled(400));
    int status;
    team_watch("kills");
    for (int i = 0; i < WORKERS; i++)
        workers[i] = worker_new(&w, (uint64_t)i);
    for (int64_t i = 0; i < kills; i++) {
        pid_t *victim = &workers[rng_between(&rng, 0, WORKERS - 1)];
        look_on(&w, (uint64_t)rng_between(&rng, 0, 1000));
        must(kill(*victim, SIGKILL) == 0 && waitpid(*victim, &status, 0) == *victim, "kill");
        if (!CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || !check_all(&w))
            break;
        *victim = worker_new(&w, (uint64_t)(i + WORKERS));
    }
    atomic_store(&w.progress->stop, true);
    for (int i = 0; i < WORKERS; i++)
        CHECK(waitpid(workers[i], &status, 0) == workers[i] && WIFEXITED(status));
    team_watch_done();
    CHECK(check_all(&w));
    CHECK(count_all(&w).changes <= atomic_load(&w.progress->done) + (uint64_t)kills);
    world_free(&w);
}

/* ---- killed at every instruction ---- */

struct scene {
    struct world world;
    struct account before[STRIPES], after[STRIPES]; /* after: if the change is valid */
    uint64_t word_after;                            /* of the slot of stripe 1 */
    uint64_t undone, valid;                         /* how often it was so */
};

static void scene_reset(void *arg)
{
    struct scene *s = arg;
    world_reset(&s->world);
}

/* Learns what is there after the change. */
static void scene_begin(struct scene *s, step_operation *operation)
{
    *s = (struct scene){.world = world_new(true)};
    memcpy(s->before, s->world.accounts, sizeof s->before);
    operation(s);
    memcpy(s->after, s->world.accounts, sizeof s->after);
    s->word_after = slot_word(slot_of(&s->world, 1));
}

/* Under the lock of a stripe nothing of it is half done. */
static void check_stripe(struct scene *s, uint64_t stripe)
{
    struct stripe *lock = weir_stripe_lock(s->world.region, stripe);
    const struct account *account = &s->world.accounts[stripe];
    CHECK(memcmp(account, &s->before[stripe], sizeof *account) == 0 ||
          memcmp(account, &s->after[stripe], sizeof *account) == 0);
    CHECK(slot_kind(slot_word(slot_of(&s->world, stripe))) != SLOT_HELD);
    weir_stripe_unlock(lock);
}

/* Each in its turn finds what the dead one left; or somebody uses its transaction for others first. */
static void meet(struct scene *s, uint64_t step)
{
    static const uint64_t stripes[] = {1, 4, 6};
    uint32_t others[] = {0, 2, 3};
    if (step % 5 < 3)
        check_stripe(s, stripes[step % 5]);
    else if (step % 5 == 3)
        change_three(&s->world, others, 1, false);
    (void)count_all(&s->world);
}

/* All of it or nothing; and all if it came to its end. */
static void scene_check(void *arg, uint64_t step, bool whole)
{
    struct scene *s = arg;
    meet(s, step);
    uint64_t word = slot_word(slot_of(&s->world, 1));
    bool undone = memcmp(s->world.accounts, s->before, sizeof s->before) == 0 &&
                  word == slot_pack(SLOT_PLAIN, 1, UNITS);
    bool valid = memcmp(s->world.accounts, s->after, sizeof s->after) == 0 && word == s->word_after;
    if (!CHECK(whole ? valid : undone || valid))
        printf("# after %" PRIu64 " instructions\n", step);
    CHECK_EQ(atomic_load(&s->world.progress->faults), 0);
    s->undone += undone;
    s->valid += valid;
}

static void scene_run(step_setup *setup, step_operation *operation, struct scene *s)
{
    uint64_t stride = (uint64_t)(70 / team_scaled(70)); /* 1, or some under a sanitizer */
    team_watch("steps");
    uint64_t steps = step_kill(setup, operation, scene_check, s, stride);
    team_watch_done();
    printf("# %" PRIu64 " instructions, %" PRIu64 " times undone, %" PRIu64 " times valid\n", steps,
           s->undone, s->valid);
    if (steps == 0)
        check_skip("no process can be led step by step here");
    world_free(&s->world);
}

static void operate_one(void *arg)
{
    struct scene *s = arg;
    change_one(&s->world, 4, 7);
}

TEST(killed_at_every_instruction_of_a_change_of_one)
{
    struct scene s;
    scene_begin(&s, operate_one);
    scene_run(scene_reset, operate_one, &s);
    CHECK(s.undone == 0 || s.valid > 2);
}

static void operate_three(void *arg)
{
    struct scene *s = arg;
    uint32_t stripes[] = {6, 1, 4};
    change_three(&s->world, stripes, 7, true);
}

TEST(killed_at_every_instruction_of_a_change_of_three)
{
    struct scene s;
    scene_begin(&s, operate_three);
    scene_run(scene_reset, operate_three, &s);
}

/* ---- the one who recovers is killed, too ---- */

/* A thread that ends with its locks is dead to the others. */
static void *die_in_the_middle(void *arg)
{
    struct scene *s = arg;
    uint32_t stripes[] = {6, 1, 4};
    size_t count = 3;
    struct journal *journal =
        weir_transaction_journal(weir_transaction_lock(s->world.region, stripes, &count));
    weir_journal_begin(journal);
    move(&s->world, journal, stripes, 7);
    return NULL;
}

static void *die_at_the_end(void *arg)
{
    struct scene *s = arg;
    uint32_t stripes[] = {6, 1, 4};
    size_t count = 3;
    struct journal *journal =
        weir_transaction_journal(weir_transaction_lock(s->world.region, stripes, &count));
    weir_journal_begin(journal);
    move(&s->world, journal, stripes, 7);
    atomic_store(&journal->state, JOURNAL_DONE); /* as weir_journal_commit does, before it lets slots go */
    return NULL;
}

static void leave_dead(struct scene *s, void *(*body)(void *))
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, body, s) == 0, "pthread_create");
    (void)pthread_join(thread, NULL);
}

static void leave_open(void *arg)
{
    scene_reset(arg);
    leave_dead(arg, die_in_the_middle);
}

static void leave_done(void *arg)
{
    scene_reset(arg);
    leave_dead(arg, die_at_the_end);
}

static void operate_recovery(void *arg)
{
    struct scene *s = arg;
    weir_stripe_unlock(weir_stripe_lock(s->world.region, 4));
}

TEST(killed_at_every_instruction_of_an_undo)
{
    struct scene s;
    scene_begin(&s, operate_three);
    memcpy(s.after, s.before, sizeof s.before); /* it is always undone */
    s.word_after = slot_pack(SLOT_PLAIN, 1, UNITS);
    scene_run(leave_open, operate_recovery, &s);
}

TEST(killed_at_every_instruction_of_a_finish)
{
    struct scene s;
    scene_begin(&s, operate_three);
    scene_run(leave_done, operate_recovery, &s);
    CHECK_EQ(s.undone, 0);
}
