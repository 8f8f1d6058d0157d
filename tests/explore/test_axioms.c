/* SPDX-License-Identifier: MIT */
/*
 * The explorer's machine against the axioms of RC11 (Lahav and others, Repairing Sequential Consistency in
 * C/C++11), on random programs of two or three threads. The axioms judge executions as a whole: every
 * assignment of writes to reads and every order of the writes of a location is made, without any notion of
 * steps, and kept if no event happens before one that it follows in its location (coherence), an exchange
 * comes right behind what it reads (atomicity), program order and reads-from have no cycle, and neither has
 * what the fences that are seq_cst order, nor the accesses that are. An exchange of two words is one event
 * that reads and writes in both locations. The explorer has to come to the very same executions, each once,
 * and so it has without its shortcuts.
 */
#include "check.h"
#include "explore/explore.h"
#include "os/atomic.h"
#include "os/lock.h"
#include "os/spin.h"

enum { LOCATIONS = 2, THREADS = 3, STEPS = 4, EVENTS = LOCATIONS + THREADS * STEPS, SET = 1 << 16 };
enum kind { INIT, LOAD, STORE, SWAP, CAS, PAIR /* both locations */, FENCE, WAIT /* until it reads no 0 */ };

/* An event writes its own number, so that values tell where they come from; INIT writes 0. */
struct event {
    enum kind kind;
    int thread, location;
    memory_order order;
    int expected; /* by a CAS: the event whose value it wants */
    int second;   /* by a PAIR: the same, of the second location */
    bool locked;  /* under the one lock there is */
};

static struct {
    struct event events[EVENTS]; /* the INITs first, then thread by thread */
    int count;
    bool fences; /* some are seq_cst */
} program;

static uint64_t value_of(int event)
{
    return program.events[event].kind == INIT ? 0 : (uint64_t)event;
}

/* ---- random programs ---- */

static memory_order roll_order(struct rng *rng, enum kind kind, bool seq_cst)
{
    static const memory_order loads[] = {memory_order_relaxed, memory_order_acquire};
    static const memory_order stores[] = {memory_order_relaxed, memory_order_release};
    static const memory_order others[] = {memory_order_release, memory_order_acquire, memory_order_acq_rel,
                                          memory_order_seq_cst, memory_order_relaxed};
    if (kind == PAIR || (seq_cst && kind != FENCE && rng_between(rng, 0, 1)))
        return memory_order_seq_cst;
    if (kind == LOAD || kind == WAIT)
        return loads[rng_between(rng, 0, 1)];
    if (kind == STORE)
        return stores[rng_between(rng, 0, 1)];
    if (kind == FENCE)
        return others[rng_between(rng, 0, 3)];
    memory_order order = others[rng_between(rng, 0, 4)];
    return order == memory_order_seq_cst ? memory_order_relaxed : order;
}

/* By chance alone two words would seldom be as wanted. */
static void roll_expected(struct rng *rng, struct event *event)
{
    int64_t way = rng_between(rng, 0, 3);
    event->expected = (int)rng_between(rng, 0, program.count - 1);
    event->second = way == 0 ? (int)rng_between(rng, 0, program.count - 1) : event->expected;
    if (event->kind == PAIR && way > 1)
        event->expected = event->second = 0;
}

/* `blocking`: with locks and waits. */
static void roll_program(struct rng *rng, bool blocking)
{
    int threads = (int)rng_between(rng, 2, THREADS);
    bool seq_cst = rng_between(rng, 0, 1);
    program.count = LOCATIONS;
    program.fences = false;
    for (int i = 0; i < LOCATIONS; i++)
        program.events[i] = (struct event){.kind = INIT, .thread = -1, .location = i};
    for (int thread = 0; thread < threads; thread++) {
        int most = STEPS - (threads == 3) - (thread == 2 || blocking);
        int steps = (int)rng_between(rng, 1, most);
        for (int i = 0; i < steps; i++) {
            struct event *event = &program.events[program.count++];
            event->kind = (enum kind)rng_between(rng, LOAD, blocking ? WAIT : FENCE);
            event->locked = blocking && event->kind != WAIT && rng_between(rng, 0, 1);
            event->thread = thread;
            event->location = (int)rng_between(rng, 0, LOCATIONS - 1);
            event->order = roll_order(rng, event->kind, seq_cst);
            program.fences |= event->kind == FENCE && event->order == memory_order_seq_cst;
        }
    }
    for (int i = 0; i < program.count; i++)
        roll_expected(rng, &program.events[i]);
}

static void print_program(void)
{
    static const char *const names[] = {"init", "load", "store", "swap", "cas", "pair", "fence", "wait"};
    for (int i = LOCATIONS; i < program.count; i++) {
        const struct event *event = &program.events[i];
        printf("#   %d: thread %d %s of %d, order %d, expects %d, %d\n", i, event->thread, names[event->kind],
               event->location, (int)event->order, event->expected, event->second);
    }
}

/* ---- an execution, however it was made ---- */

struct execution {
    int from[EVENTS][LOCATIONS];  /* the event that a reading event reads */
    int order[LOCATIONS][EVENTS]; /* the writes of each location, INIT first */
    int order_count[LOCATIONS];
};

static bool reads(int e)
{
    enum kind kind = program.events[e].kind;
    return kind == LOAD || kind == SWAP || kind == CAS || kind == PAIR || kind == WAIT;
}

static bool is_at(int e, int location)
{
    const struct event *event = &program.events[e];
    return event->kind != FENCE && (event->kind == PAIR || event->location == location);
}

static bool writes(const struct execution *x, int e)
{
    const struct event *event = &program.events[e];
    if (event->kind == CAS)
        return value_of(x->from[e][event->location]) == value_of(event->expected);
    if (event->kind == PAIR)
        return value_of(x->from[e][0]) == value_of(event->expected) &&
               value_of(x->from[e][1]) == value_of(event->second);
    return event->kind == INIT || event->kind == STORE || event->kind == SWAP;
}

static void absorb(struct rng *rng, uint64_t value)
{
    rng->state = rng_next(rng) ^ value;
}

static uint64_t digest_of(const struct execution *x)
{
    struct rng rng = {0};
    for (int i = LOCATIONS; i < program.count; i++)
        for (int l = 0; l < LOCATIONS; l++)
            if (reads(i) && is_at(i, l))
                absorb(&rng, (uint64_t)x->from[i][l]);
    for (int l = 0; l < LOCATIONS; l++)
        for (int i = 0; i < x->order_count[l]; i++)
            absorb(&rng, (uint64_t)x->order[l][i]);
    return rng_next(&rng);
}

/* Executions, by their digests. */
struct set {
    size_t count;
    uint64_t digests[SET];
};

static int compare_digests(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* In order, each once. */
static void set_order(struct set *set)
{
    size_t count = 0;
    qsort(set->digests, set->count, sizeof set->digests[0], compare_digests);
    for (size_t i = 0; i < set->count; i++)
        if (i == 0 || set->digests[i] != set->digests[i - 1])
            set->digests[count++] = set->digests[i];
    set->count = count;
}

static void set_add(struct set *set, const struct execution *x)
{
    if (set->count == SET)
        set_order(set);
    if (CHECK(set->count < SET))
        set->digests[set->count++] = digest_of(x);
}

static bool set_equals(const struct set *a, const struct set *b)
{
    return a->count == b->count && memcmp(a->digests, b->digests, a->count * sizeof a->digests[0]) == 0;
}

/* ---- the axioms ---- */

struct relation {
    uint32_t to[EVENTS]; /* as bits */
};

static void relate(struct relation *r, int a, int b)
{
    r->to[a] |= UINT32_C(1) << b;
}

static bool related(const struct relation *r, int a, int b)
{
    return r->to[a] >> b & 1;
}

static void add(struct relation *r, const struct relation *more)
{
    for (int a = 0; a < program.count; a++)
        r->to[a] |= more->to[a];
}

static struct relation follow(const struct relation *first, const struct relation *then)
{
    struct relation r = {{0}};
    for (int a = 0; a < program.count; a++)
        for (int b = 0; b < program.count; b++)
            if (related(first, a, b))
                r.to[a] |= then->to[b];
    return r;
}

static void close(struct relation *r)
{
    for (int b = 0; b < program.count; b++)
        for (int a = 0; a < program.count; a++)
            if (related(r, a, b))
                r->to[a] |= r->to[b];
}

static bool has_loop(const struct relation *r)
{
    for (int a = 0; a < program.count; a++)
        if (related(r, a, a))
            return true;
    return false;
}

static bool has_cycle(struct relation r)
{
    close(&r);
    return has_loop(&r);
}

static bool is_fence(int e)
{
    return program.events[e].kind == FENCE;
}

static bool releases(int e)
{
    memory_order order = program.events[e].order;
    return order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

/* A CAS that fails acquires, whatever its order: so says os/atomic.h. */
static bool acquires(const struct execution *x, int e)
{
    memory_order order = program.events[e].order;
    return order == memory_order_acquire || order == memory_order_acq_rel || order == memory_order_seq_cst ||
           (program.events[e].kind == CAS && !writes(x, e));
}

static bool is_sc_access(const struct execution *x, int e)
{
    const struct event *event = &program.events[e];
    return event->kind != INIT && event->kind != FENCE && event->order == memory_order_seq_cst &&
           (event->kind != CAS || writes(x, e));
}

static struct relation program_order(void)
{
    struct relation sb = {{0}};
    for (int a = 0; a < program.count; a++)
        for (int b = a + 1; b < program.count; b++) {
            int thread = program.events[a].thread;
            if (program.events[b].kind != INIT && (thread < 0 || thread == program.events[b].thread))
                relate(&sb, a, b);
        }
    return sb;
}

/* All of them in one location. */
static struct relation reads_from(const struct execution *x, int l)
{
    struct relation rf = {{0}};
    for (int e = LOCATIONS; e < program.count; e++)
        if (reads(e) && is_at(e, l))
            relate(&rf, x->from[e][l], e);
    return rf;
}

static struct relation write_order(const struct execution *x, int l)
{
    struct relation mo = {{0}};
    for (int i = 0; i < x->order_count[l]; i++)
        for (int j = i + 1; j < x->order_count[l]; j++)
            relate(&mo, x->order[l][i], x->order[l][j]);
    return mo;
}

/* A read comes before all writes behind the one it reads. */
static struct relation reads_before(const struct execution *x, int l, const struct relation *mo)
{
    struct relation rb = {{0}};
    for (int e = LOCATIONS; e < program.count; e++)
        if (reads(e) && is_at(e, l))
            rb.to[e] = mo->to[x->from[e][l]] & ~(UINT32_C(1) << e);
    return rb;
}

/* Who hands on what `writer` releases: itself, and exchanges that replace it one after the other. */
static bool carries(const struct execution *x, int l, int writer, int last)
{
    while (last != writer && reads(last) && writes(x, last))
        last = x->from[last][l];
    return last == writer;
}

static bool hands_over(const struct execution *x, int writer, int reader)
{
    for (int l = 0; l < LOCATIONS; l++)
        if (reads(reader) && is_at(writer, l) && is_at(reader, l) &&
            carries(x, l, writer, x->from[reader][l]))
            return true;
    return false;
}

static bool synchronizes_with(const struct execution *x, const struct relation *sb, int a, int b)
{
    for (int writer = 0; writer < program.count; writer++) {
        bool from_a = is_fence(a) ? related(sb, a, writer) : a == writer;
        if (!writes(x, writer) || is_fence(writer) || !from_a)
            continue;
        for (int reader = LOCATIONS; reader < program.count; reader++) {
            bool to_b = is_fence(b) ? related(sb, reader, b) : b == reader;
            if (to_b && hands_over(x, writer, reader))
                return true;
        }
    }
    return false;
}

static struct relation happens_before(const struct execution *x, const struct relation *sb)
{
    struct relation hb = *sb;
    for (int a = LOCATIONS; a < program.count; a++)
        for (int b = LOCATIONS; b < program.count; b++)
            if (a != b && releases(a) && acquires(x, b) && synchronizes_with(x, sb, a, b))
                relate(&hb, a, b);
    close(&hb);
    return hb;
}

static bool is_sc_fence(int e)
{
    return is_fence(e) && program.events[e].order == memory_order_seq_cst;
}

static bool fences_agree(const struct relation *hb, const struct relation *eco)
{
    struct relation psc = follow(hb, eco);
    psc = follow(&psc, hb);
    add(&psc, hb);
    for (int a = 0; a < program.count; a++)
        for (int b = 0; b < program.count; b++)
            if (!is_sc_fence(a) || !is_sc_fence(b))
                psc.to[a] &= ~(UINT32_C(1) << b);
    return !has_cycle(psc);
}

/* `near`: reads-from, write order and reads-before. */
static bool accesses_agree(const struct execution *x, const struct relation *hb, const struct relation *near)
{
    struct relation order = *hb;
    add(&order, near);
    for (int a = 0; a < program.count; a++)
        for (int b = 0; b < program.count; b++)
            if (!is_sc_access(x, a) || !is_sc_access(x, b))
                order.to[a] &= ~(UINT32_C(1) << b);
    return !has_cycle(order);
}

static bool is_consistent(const struct execution *x)
{
    struct relation sb = program_order(), steps = sb, near = {{0}}, eco = {{0}};
    for (int l = 0; l < LOCATIONS; l++) {
        struct relation rf = reads_from(x, l), mo = write_order(x, l), rb = reads_before(x, l, &mo);
        add(&steps, &rf);
        add(&rf, &mo);
        add(&rf, &rb);
        add(&near, &rf);
        close(&rf);
        add(&eco, &rf);
    }
    struct relation hb = happens_before(x, &sb), back = follow(&hb, &eco);
    return !has_cycle(steps) && !has_loop(&hb) && !has_loop(&back) && fences_agree(&hb, &eco) &&
           accesses_agree(x, &hb, &near);
}

/* ---- all executions, by the axioms ---- */

static struct set by_axioms, by_explorer;

static void order_writes(struct execution *x, int location)
{
    if (location == LOCATIONS) {
        if (is_consistent(x))
            set_add(&by_axioms, x);
        return;
    }
    bool complete = true;
    for (int e = LOCATIONS; e < program.count; e++) {
        bool placed = !is_at(e, location) || !writes(x, e);
        for (int i = 0; i < x->order_count[location]; i++)
            placed |= x->order[location][i] == e;
        if (placed)
            continue;
        complete = false;
        if (reads(e) && x->from[e][location] != x->order[location][x->order_count[location] - 1])
            continue; /* an exchange comes right behind what it reads */
        x->order[location][x->order_count[location]++] = e;
        order_writes(x, location);
        x->order_count[location]--;
    }
    if (complete)
        order_writes(x, location + 1);
}

static void order_all_writes(struct execution *x)
{
    for (int e = LOCATIONS; e < program.count; e++)
        for (int l = 0; l < LOCATIONS; l++)
            if (reads(e) && is_at(e, l) && !writes(x, x->from[e][l]))
                return;
    for (int l = 0; l < LOCATIONS; l++) {
        x->order[l][0] = l;
        x->order_count[l] = 1;
    }
    order_writes(x, 0);
}

static bool is_later(int a, int b)
{
    return program.events[a].thread == program.events[b].thread && a > b;
}

/* `next`: event and location, as one number. */
static void assign_reads(struct execution *x, int next)
{
    int end = program.count * LOCATIONS;
    while (next < end && !(reads(next / LOCATIONS) && is_at(next / LOCATIONS, next % LOCATIONS)))
        next++;
    if (next == end) {
        order_all_writes(x);
        return;
    }
    int e = next / LOCATIONS, l = next % LOCATIONS;
    for (int w = 0; w < program.count; w++)
        if (w != e && is_at(w, l) && program.events[w].kind != LOAD && !is_later(w, e) &&
            (w > e || writes(x, w))) {
            x->from[e][l] = w;
            assign_reads(x, next + 1);
        }
}

/* ---- all executions, by the explorer ---- */

static struct lock lock;
static atom64 atoms[LOCATIONS];
static uint64_t read_values[EVENTS][LOCATIONS];

static void do_pair(int e)
{
    const struct event *event = &program.events[e];
    const uint64_t wanted[] = {value_of(event->expected), value_of(event->second)};
    const uint64_t values[] = {value_of(e), value_of(e)};
    (void)explore_atom_cas128(&atoms[0].value, &atoms[1].value, wanted, values, read_values[e]);
}

static void do_event(int e)
{
    const struct event *event = &program.events[e];
    atom64 *atom = &atoms[event->location];
    uint64_t wanted = value_of(event->expected), *read = &read_values[e][event->location];
    switch (event->kind) {
    case LOAD:
        *read = atom_load(atom, event->order);
        break;
    case STORE:
        atom_store(atom, value_of(e), event->order);
        break;
    case SWAP:
        *read = atom_swap(atom, value_of(e), event->order);
        break;
    case CAS:
        (void)atom_cas(atom, &wanted, value_of(e), event->order);
        *read = wanted;
        break;
    case PAIR:
        do_pair(e);
        break;
    case FENCE:
        atom_fence(event->order);
        break;
    case WAIT:
        while ((*read = atom_load(atom, event->order)) == 0)
            spin_pause();
        break;
    case INIT:
        break;
    }
}

static void run_events(void)
{
    for (int e = LOCATIONS; e < program.count; e++) {
        if (program.events[e].thread != explore_thread())
            continue;
        if (program.events[e].locked)
            lock_take(&lock);
        do_event(e);
        if (program.events[e].locked)
            lock_drop(&lock);
    }
}

static void note_execution(void)
{
    struct execution x = {{{0}}, {{0}}, {0}};
    for (int e = LOCATIONS; e < program.count; e++)
        for (int l = 0; l < LOCATIONS; l++)
            x.from[e][l] = read_values[e][l] ? (int)read_values[e][l] : l;
    for (int l = 0; l < LOCATIONS; l++) {
        struct explore_write list[EVENTS];
        size_t count = explore_writes(&atoms[l], list, EVENTS);
        x.order[l][x.order_count[l]++] = l;
        for (size_t i = 0; i < count; i++)
            x.order[l][x.order_count[l]++] = (int)list[i].value;
    }
    set_add(&by_explorer, &x);
}

/* Gives the number of executions; 0: there is a deadlock. */
static uint64_t explore_program(bool every_interleaving)
{
    struct explore e = {.finish = note_execution, .every_interleaving = every_interleaving};
    for (int thread = 0; thread <= program.events[program.count - 1].thread; thread++)
        e.threads[thread] = run_events;
    by_explorer.count = 0;
    explore_run(&e);
    set_order(&by_explorer);
    CHECK(e.complete || strncmp(e.fault, "deadlock", 8) == 0);
    return e.complete ? e.executions : 0;
}

static bool agrees_with_axioms(void)
{
    by_axioms.count = 0;
    assign_reads(&(struct execution){{{0}}, {{0}}, {0}}, LOCATIONS * LOCATIONS);
    set_order(&by_axioms);
    uint64_t executions = explore_program(false);
    bool once = program.fences || executions == by_explorer.count; /* fences may come in several orders */
    return CHECK(once) && CHECK(set_equals(&by_axioms, &by_explorer));
}

static bool loses_nothing(void)
{
    static struct set by_all_orders;
    bool ends = explore_program(true) > 0;
    by_all_orders = by_explorer;
    bool ends_too = explore_program(false) > 0;
    return CHECK(ends == ends_too) && (!ends || CHECK(set_equals(&by_all_orders, &by_explorer)));
}

static void try_programs(uint64_t stream, int64_t programs, bool blocking, bool (*holds)(void))
{
    struct rng rng = rng_new(stream);
    for (int64_t i = 0; i < programs; i++) {
        roll_program(&rng, blocking);
        if (!holds()) {
            printf("# program %" PRId64 " of stream %" PRIu64 "\n", i, stream);
            print_program();
            return;
        }
    }
}

TEST(the_explorer_finds_what_the_axioms_allow_and_nothing_else)
{
    try_programs(1, check_env("WEIR_EXPLORE_PROGRAMS", 2000), false, agrees_with_axioms);
}

TEST(its_shortcuts_lose_nothing)
{
    try_programs(2, check_env("WEIR_EXPLORE_PROGRAMS", 2000) / 4, true, loses_nothing);
}
