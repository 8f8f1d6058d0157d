/* SPDX-License-Identifier: MIT */
#include "explore/memory.h"

#include <string.h>

enum { PLAIN = 32, HIDDEN = 0 /* the location of seq_cst fences */ };

_Static_assert(MEMORY_LOCATIONS % sizeof(uint64_t) == 0, "join_writes takes whole words");

struct view {
    uint8_t at[MEMORY_LOCATIONS];    /* the write, by its number */
    uint8_t sc[MEMORY_LOCATIONS];    /* the latest seq_cst write that comes before */
    uint16_t clock[EXPLORE_THREADS]; /* how far the steps of each thread are known: for races of plain data */
};

struct write {
    uint64_t value;
    struct view view;
    uint16_t past[EXPLORE_THREADS]; /* steps that it depends on */
    int thread;                     /* -1: setup */
    bool replaced;                  /* by an exchange, which has to stay right behind it */
    bool seq_cst;
    uint8_t readers[MEMORY_LOCATIONS]; /* what comes before seq_cst accesses that read it, as in a view */
};

struct location {
    const volatile void *atom;
    const char *name;
    size_t size;
    unsigned users, writers; /* threads, as bits; kept for the whole search */
    int count;               /* of writes; 0: not yet used in this execution */
    uint8_t order[MEMORY_WRITES], place[MEMORY_WRITES];
    struct write writes[MEMORY_WRITES];
};

struct thread {
    struct view now, acquired, released;
    uint16_t past[EXPLORE_THREADS];
    uint64_t watched;               /* locations read since the last pause, as bits, */
    uint8_t read[MEMORY_LOCATIONS]; /* and the write that was read last */
    int spurious;
};

struct plain {
    const void *data;
    uint16_t wrote[EXPLORE_THREADS], read[EXPLORE_THREADS]; /* clock of the latest access of each thread */
};

static struct {
    struct location locations[MEMORY_LOCATIONS];
    int count;
    struct thread threads[EXPLORE_THREADS];
    int thread_count;
    struct plain plain[PLAIN];
    int plain_count;
} memory;

/* ---- locations ---- */

void memory_forget(void)
{
    memset(memory.locations, 0, sizeof memory.locations);
    memory.count = 1;
    memory.locations[HIDDEN].name = "";
}

void memory_begin(int threads, int spurious)
{
    for (int i = 0; i < memory.count; i++)
        memory.locations[i].count = 0;
    memset(memory.threads, 0, sizeof memory.threads);
    memory.thread_count = threads;
    for (int i = 0; i < threads; i++) {
        memory.threads[i].now.clock[i] = memory.threads[i].acquired.clock[i] = 1;
        memory.threads[i].spurious = spurious;
    }
    memory.plain_count = 0;
}

uint64_t memory_get(const volatile void *from, size_t size)
{
    if (size == sizeof(uint8_t))
        return *(const volatile uint8_t *)from;
    if (size == sizeof(uint32_t))
        return *(const volatile uint32_t *)from;
    return size ? *(const volatile uint64_t *)from : 0;
}

void memory_put(void *to, size_t size, uint64_t value)
{
    if (size == sizeof(uint8_t))
        *(uint8_t *)to = (uint8_t)value;
    else if (size == sizeof(uint32_t))
        *(uint32_t *)to = (uint32_t)value;
    else
        *(uint64_t *)to = value;
}

/* The memory of an atom is read here and never written, so that what setup leaves alone keeps its first
 * value. */
static void use_location(struct location *location)
{
    if (location->count)
        return;
    location->count = 1;
    location->order[0] = location->place[0] = 0;
    location->writes[0] = (struct write){.value = memory_get(location->atom, location->size), .thread = -1};
}

static int find_location(const volatile void *atom)
{
    for (int i = 1; i < memory.count; i++)
        if (memory.locations[i].atom == atom)
            return i;
    return -1;
}

int memory_location(const volatile void *atom, size_t size)
{
    int i = find_location(atom);
    if (i < 0) {
        if (memory.count == MEMORY_LOCATIONS)
            return -1;
        i = memory.count++;
        memory.locations[i] = (struct location){.atom = atom, .size = size};
    }
    if (size) /* a name may have come first */
        memory.locations[i].size = size;
    use_location(&memory.locations[i]);
    return i;
}

void memory_name(const volatile void *atom, const char *name)
{
    int i = find_location(atom);
    if (i < 0 && memory.count < MEMORY_LOCATIONS) {
        i = memory.count++;
        memory.locations[i] = (struct location){.atom = atom};
    }
    if (i >= 0)
        memory.locations[i].name = name;
}

const char *memory_location_name(int location)
{
    return memory.locations[location].name;
}

static int words(const struct op *op)
{
    return op->second ? 2 : 1;
}

static int location_of(const struct op *op, int word)
{
    return word ? op->second : op->location;
}

static uint8_t write_of(const struct outcome *outcome, int word)
{
    return word ? outcome->second : outcome->write;
}

bool memory_has_room(const struct op *op)
{
    bool room = true;
    for (int word = 0; word < words(op); word++)
        room &= memory.locations[location_of(op, word)].count < MEMORY_WRITES;
    return room;
}

int memory_fence_location(void)
{
    use_location(&memory.locations[HIDDEN]);
    return HIDDEN;
}

static bool writes(const struct op *op)
{
    return op->kind != OP_LOAD && op->kind != OP_PAUSE;
}

bool memory_share(int thread, const struct op *op)
{
    if (op->location < 0)
        return false;
    bool news = false;
    for (int word = 0; word < words(op); word++) {
        struct location *location = &memory.locations[location_of(op, word)];
        unsigned me = 1U << thread, users = location->users, writers = location->writers;
        location->users |= me;
        if (writes(op))
            location->writers |= me;
        news |= (users & ~me) && (location->users != users || location->writers != writers);
    }
    return news;
}

bool memory_is_private(int thread, const struct op *op)
{
    if (op->location < 0)
        return false;
    unsigned writers = 0;
    for (int word = 0; word < words(op); word++)
        writers |= memory.locations[location_of(op, word)].writers;
    return (writers & ~(1U << thread)) == 0;
}

/* ---- views ---- */

static int place_of(const struct view *view, int location)
{
    return memory.locations[location].place[view->at[location]];
}

static bool is_older(int location, uint8_t write, uint8_t than)
{
    return write != than && memory.locations[location].place[write] < memory.locations[location].place[than];
}

static void raise(uint8_t *writes, int location, uint8_t number)
{
    if (is_older(location, writes[location], number))
        writes[location] = number;
}

/* Of each location the later write. Most of them are the same, or are those of setup, which have the number 0
 * and are the oldest. */
static void join_writes(uint8_t *writes, const uint8_t *others)
{
    for (int from = 0; from < memory.count; from += (int)sizeof(uint64_t)) {
        uint64_t ours, theirs;
        memcpy(&ours, writes + from, sizeof ours);
        memcpy(&theirs, others + from, sizeof theirs);
        for (int i = from; theirs != 0 && theirs != ours && i < from + (int)sizeof theirs; i++)
            raise(writes, i, others[i]);
    }
}

static void join(struct view *view, const struct view *other)
{
    join_writes(view->at, other->at);
    join_writes(view->sc, other->sc);
    for (int i = 0; i < memory.thread_count; i++)
        if (view->clock[i] < other->clock[i])
            view->clock[i] = other->clock[i];
}

static bool tells_no_more(const struct view *view, const struct view *other)
{
    for (int i = 0; i < memory.count; i++)
        if (is_older(i, other->at[i], view->at[i]) || is_older(i, other->sc[i], view->sc[i]))
            return false;
    for (int i = 0; i < memory.thread_count; i++)
        if (view->clock[i] > other->clock[i])
            return false;
    return true;
}

static bool acquires(memory_order order)
{
    return order == memory_order_acquire || order == memory_order_consume || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

static bool releases(memory_order order)
{
    return order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

/* What the thread does from now on is not covered by what it has released. */
static void tick(struct thread *thread)
{
    int i = (int)(thread - memory.threads);
    thread->now.clock[i]++;
    thread->acquired.clock[i]++;
}

void memory_fence(int thread, memory_order order)
{
    struct thread *t = &memory.threads[thread];
    if (acquires(order))
        t->now = t->acquired;
    if (releases(order)) {
        t->released = t->now;
        tick(t);
    }
}

/* ---- the order of seq_cst accesses ---- */

static bool is_seq_cst(const struct op *op, const struct outcome *outcome)
{
    return op->kind <= OP_CAS && (outcome->fails ? op->failure : op->order) == memory_order_seq_cst;
}

/* What comes before a write that goes behind this one: seq_cst writes up to here, and who has read them. */
static void join_earlier(uint8_t *before, const struct location *location, uint8_t behind)
{
    for (int place = 0; place <= location->place[behind]; place++) {
        const struct write *write = &location->writes[location->order[place]];
        join_writes(before, write->readers);
        if (write->seq_cst)
            join_writes(before, write->view.sc);
    }
}

/* The seq_cst writes that come before such a step, of each location the latest. */
static void find_before(const struct thread *t, const struct op *op, const struct outcome *outcome,
                        uint8_t *before)
{
    memcpy(before, t->now.sc, sizeof t->now.sc);
    for (int word = 0; word < words(op); word++) {
        const struct location *location = &memory.locations[location_of(op, word)];
        uint8_t number = write_of(outcome, word);
        if (op->kind != OP_STORE)
            join_writes(before, location->writes[number].view.sc);
        if (op->kind != OP_LOAD && !outcome->fails)
            join_earlier(before, location, number);
    }
}

static bool has_its_place(const struct thread *t, const struct op *op, const struct outcome *outcome)
{
    uint8_t before[MEMORY_LOCATIONS];
    if (!is_seq_cst(op, outcome))
        return true;
    find_before(t, op, outcome, before);
    for (int word = 0; word < words(op); word++) {
        int location = location_of(op, word);
        if (is_older(location, write_of(outcome, word), before[location]))
            return false;
    }
    return true;
}

/* The step that reads or makes this write comes before the later seq_cst writes there: so do all that come
 * before it. */
static void tell_later(int location, uint8_t number, const uint8_t *before)
{
    if (memory.locations[location].place[number] + 1 == memory.locations[location].count)
        return;
    for (int i = 0; i < memory.thread_count; i++) {
        struct thread *t = &memory.threads[i];
        uint8_t *known[] = {t->now.sc, t->acquired.sc, t->released.sc};
        for (int k = 0; k < 3; k++)
            if (is_older(location, number, known[k][location]))
                join_writes(known[k], before);
    }
    for (int i = 1; i < memory.count; i++)
        for (int w = 0; w < memory.locations[i].count; w++) {
            struct write *write = &memory.locations[i].writes[w];
            if (is_older(location, number, write->view.sc[location]))
                join_writes(write->view.sc, before);
            if (is_older(location, number, write->readers[location]))
                join_writes(write->readers, before);
        }
}

/* ---- the ways a step can go ---- */

/* Reading the older of two writes of one value leaves the thread with everything it could still see after the
 * newer one, and more: what can go wrong goes wrong after the older one, too. */
static bool is_dominated(const struct location *location, int first, int place)
{
    const struct write *write = &location->writes[location->order[place]];
    for (int i = first; i < place; i++) {
        const struct write *older = &location->writes[location->order[i]];
        if (older->value == write->value && tells_no_more(&older->view, &write->view))
            return true;
    }
    return false;
}

static int cas_outcomes(const struct thread *t, const struct op *op, bool all, struct outcome *outcomes)
{
    const struct location *location = &memory.locations[op->location];
    int count = 0, first = place_of(&t->now, op->location);
    for (int place = first; place < location->count; place++) {
        uint8_t number = location->order[place];
        const struct write *write = &location->writes[number];
        bool same = write->value == op->expected, spurious = op->weak && t->spurious > 0;
        struct outcome done = {.write = number}, failed = {.write = number, .fails = true};
        if (same && !write->replaced && has_its_place(t, op, &done))
            outcomes[count++] = done;
        if ((!same || spurious) && has_its_place(t, op, &failed) &&
            (all || is_seq_cst(op, &failed) || !is_dominated(location, first, place)))
            outcomes[count++] = failed;
    }
    return count;
}

/* Two words: what was written together is read together. */
static bool belong_together(const struct op *op, const struct outcome *outcome)
{
    const struct view *one = &memory.locations[op->location].writes[outcome->write].view;
    const struct view *two = &memory.locations[op->second].writes[outcome->second].view;
    return !is_older(op->location, outcome->write, two->at[op->location]) &&
           !is_older(op->second, outcome->second, one->at[op->second]);
}

static int cas_two_outcomes(const struct thread *t, const struct op *op, struct outcome *outcomes)
{
    const struct location *one = &memory.locations[op->location], *two = &memory.locations[op->second];
    int count = 0, first = place_of(&t->now, op->location), second = place_of(&t->now, op->second);
    for (int i = first; i < one->count; i++)
        for (int j = second; j < two->count && count < MEMORY_OUTCOMES; j++) {
            struct outcome outcome = {.write = one->order[i], .second = two->order[j]};
            const struct write *a = &one->writes[outcome.write], *b = &two->writes[outcome.second];
            outcome.fails = a->value != op->expected || b->value != op->second_expected;
            if ((outcome.fails || (!a->replaced && !b->replaced)) && belong_together(op, &outcome) &&
                has_its_place(t, op, &outcome))
                outcomes[count++] = outcome;
        }
    return count;
}

static int pause_outcomes(const struct thread *t, struct outcome *outcomes)
{
    int count = 0;
    for (int i = 1; i < memory.count; i++) {
        const struct location *location = &memory.locations[i];
        if (t->watched >> i & 1 && location->place[t->read[i]] + 1 < location->count)
            outcomes[count++] = (struct outcome){.write = (uint8_t)i};
    }
    return count;
}

static int lock_outcomes(const struct op *op, struct outcome *outcomes)
{
    const struct location *location = &memory.locations[op->location];
    uint8_t last = location->order[location->count - 1];
    outcomes[0] = (struct outcome){.write = last};
    return op->kind == OP_UNLOCK || location->writes[last].value == 0;
}

int memory_outcomes(int thread, const struct op *op, bool all, struct outcome *outcomes)
{
    const struct thread *t = &memory.threads[thread];
    if (op->kind == OP_PAUSE)
        return pause_outcomes(t, outcomes);
    if (op->kind == OP_CAS)
        return op->second ? cas_two_outcomes(t, op, outcomes) : cas_outcomes(t, op, all, outcomes);
    if (op->kind == OP_LOCK || op->kind == OP_UNLOCK)
        return lock_outcomes(op, outcomes);
    const struct location *location = &memory.locations[op->location];
    int count = 0, first = place_of(&t->now, op->location);
    for (int place = first; place < location->count; place++) {
        struct outcome outcome = {.write = location->order[place]};
        bool skips = !all && !is_seq_cst(op, &outcome);
        bool open = op->kind == OP_LOAD ? !skips || !is_dominated(location, first, place)
                                        : !location->writes[outcome.write].replaced;
        if (open && has_its_place(t, op, &outcome))
            outcomes[count++] = outcome;
    }
    return count;
}

/* ---- steps ---- */

static void see(struct thread *t, int location, uint8_t number)
{
    t->now.at[location] = number;
    raise(t->acquired.at, location, number);
    t->watched |= UINT64_C(1) << location;
    t->read[location] = number;
}

static void join_past(struct thread *t, const struct write *write)
{
    for (int i = 0; i < memory.thread_count; i++)
        if (t->past[i] < write->past[i])
            t->past[i] = write->past[i];
}

static void read_write(struct thread *t, const struct op *op, memory_order order, int location,
                       uint8_t number)
{
    const struct write *write = &memory.locations[location].writes[number];
    const struct view *view = &write->view;
    join_past(t, write);
    see(t, location, number);
    if (op->kind == OP_FENCE) { /* orders what is seen, but plain data still races */
        join_writes(t->now.at, view->at);
        join_writes(t->acquired.at, view->at);
        return;
    }
    join(&t->acquired, view);
    if (acquires(order))
        join(&t->now, view);
}

static uint8_t insert(struct location *location, uint8_t behind)
{
    int place = location->place[behind] + 1;
    uint8_t number = (uint8_t)location->count++;
    for (int i = location->count - 1; i > place; i--) {
        location->order[i] = location->order[i - 1];
        location->place[location->order[i]] = (uint8_t)i;
    }
    location->order[place] = number;
    location->place[number] = (uint8_t)place;
    return number;
}

static uint64_t written_value(int thread, const struct op *op, int word, uint64_t old)
{
    switch (op->kind) {
    case OP_CAS:
        return word ? op->second_value : op->value;
    case OP_ADD:
        return old + op->value;
    case OP_LOCK:
        return (uint64_t)thread + 1;
    case OP_UNLOCK:
    case OP_FENCE:
        return 0;
    default:
        return op->value;
    }
}

/* `behind`: the write it follows in the order; an exchange has read it and hands its view on. */
static uint8_t write_value(int thread, const struct op *op, int word, uint8_t behind)
{
    struct thread *t = &memory.threads[thread];
    int at = location_of(op, word);
    struct location *location = &memory.locations[at];
    uint8_t number = insert(location, behind);
    struct write *write = &location->writes[number], *before = &location->writes[behind];
    *write = (struct write){.value = written_value(thread, op, word, before->value), .thread = thread};
    memcpy(write->past, t->past, sizeof write->past);
    if (location->size == sizeof(uint8_t))
        write->value = (uint8_t)write->value;
    else if (location->size == sizeof(uint32_t))
        write->value = (uint32_t)write->value;
    see(t, at, number);
    write->seq_cst = op->kind <= OP_CAS && op->order == memory_order_seq_cst;
    if (write->seq_cst) {
        raise(t->now.sc, at, number);
        raise(t->acquired.sc, at, number);
    }
    write->view = releases(op->order) ? t->now : t->released;
    write->view.at[at] = number;
    if (op->kind != OP_STORE) {
        before->replaced = true;
        join(&write->view, &before->view);
    }
    return number;
}

/* Who sees one of two words that were written together sees the other one, too. */
static void write_second(int thread, const struct op *op, uint8_t first, uint8_t behind)
{
    uint8_t second = write_value(thread, op, 1, behind);
    struct view *one = &memory.locations[op->location].writes[first].view;
    struct view *two = &memory.locations[op->second].writes[second].view;
    one->at[op->second] = second;
    two->at[op->location] = first;
    if (op->order == memory_order_seq_cst)
        one->sc[op->second] = second;
}

static struct effect apply_pause(struct thread *t, struct outcome outcome)
{
    int i = outcome.write;
    const struct location *location = &memory.locations[i];
    uint8_t news = location->order[location->place[t->read[i]] + 1];
    struct effect effect = {.done = true, .from = -1, .wrote = -1, .watched = t->watched};
    join_past(t, &location->writes[news]);
    raise(t->now.at, i, news);
    raise(t->acquired.at, i, news);
    t->watched = 0;
    return effect;
}

/* A seq_cst step was made, with this before it. */
static void take_place(struct thread *t, const struct op *op, const struct outcome *outcome,
                       const uint8_t *before)
{
    for (int word = 0; word < words(op); word++) {
        int location = location_of(op, word);
        uint8_t read = write_of(outcome, word);
        if (op->kind == OP_LOAD || outcome->fails)
            join_writes(memory.locations[location].writes[read].readers, before);
        tell_later(location, t->now.at[location], t->now.sc);
    }
}

static struct effect apply_access(int thread, const struct op *op, struct outcome outcome)
{
    struct thread *t = &memory.threads[thread];
    struct location *location = &memory.locations[op->location];
    const struct write *write = &location->writes[outcome.write];
    struct effect effect = {.old = write->value,
                            .done = !outcome.fails,
                            .from = write->thread,
                            .read = outcome.write,
                            .read_too = outcome.second,
                            .wrote = -1};
    if (op->second)
        effect.second = memory.locations[op->second].writes[outcome.second].value;
    if (outcome.fails && op->weak && effect.old == op->expected)
        t->spurious--;
    memory_order order = outcome.fails ? op->failure : op->order;
    for (int word = 0; word < words(op) && op->kind != OP_STORE; word++)
        read_write(t, op, order, location_of(op, word), write_of(&outcome, word));
    if (op->kind != OP_LOAD && !outcome.fails) {
        effect.inside = location->place[outcome.write] + 1 < location->count;
        effect.wrote = write_value(thread, op, 0, outcome.write);
        if (op->second)
            write_second(thread, op, (uint8_t)effect.wrote, outcome.second);
        tick(t);
    }
    return effect;
}

static struct effect apply_seq_cst(int thread, const struct op *op, struct outcome outcome)
{
    struct thread *t = &memory.threads[thread];
    uint8_t before[MEMORY_LOCATIONS];
    find_before(t, op, &outcome, before);
    join_writes(t->now.sc, before);
    join_writes(t->acquired.sc, before);
    struct effect effect = apply_access(thread, op, outcome);
    take_place(t, op, &outcome, before);
    return effect;
}

struct effect memory_apply(int thread, const struct op *op, struct outcome outcome)
{
    struct thread *t = &memory.threads[thread];
    if (op->kind == OP_PAUSE)
        return apply_pause(t, outcome);
    if (is_seq_cst(op, &outcome))
        return apply_seq_cst(thread, op, outcome);
    if (op->kind == OP_FENCE)
        memory_fence(thread, memory_order_acquire);
    struct effect effect = apply_access(thread, op, outcome);
    if (op->kind == OP_FENCE)
        memory_fence(thread, memory_order_release);
    return effect;
}

static struct write *last_write(int location)
{
    struct location *l = &memory.locations[location];
    return &l->writes[l->order[l->count - 1]];
}

struct effect memory_alone(const struct op *op)
{
    if (op->location < 0)
        return (struct effect){.done = true};
    struct write *write = last_write(op->location), *second = op->second ? last_write(op->second) : NULL;
    struct effect effect = {.old = write->value, .second = second ? second->value : 0, .done = true};
    if (op->kind == OP_CAS)
        effect.done = effect.old == op->expected && effect.second == op->second_expected;
    if (op->kind == OP_LOAD || !effect.done)
        return effect;
    write->value = op->kind == OP_LOCK ? 1 : written_value(0, op, 0, write->value);
    if (second)
        second->value = op->second_value;
    return effect;
}

/* ---- for the search ---- */

void memory_step(int thread)
{
    memory.threads[thread].past[thread]++;
}

const uint16_t *memory_past(int thread)
{
    return memory.threads[thread].past;
}

const uint16_t *memory_write_past(int location, uint8_t write)
{
    return memory.locations[location].writes[write].past;
}

bool memory_is_no_news(int location, uint8_t read)
{
    const struct location *l = &memory.locations[location];
    const struct write *old = &l->writes[read], *made = &l->writes[l->count - 1];
    return old->value == made->value && l->place[read] < l->place[l->count - 1] &&
           tells_no_more(&old->view, &made->view);
}

size_t memory_writes(int location, struct explore_write *list, size_t capacity)
{
    const struct location *l = &memory.locations[location];
    size_t count = 0;
    for (int place = 1; place < l->count && count < capacity; place++) {
        const struct write *write = &l->writes[l->order[place]];
        list[count++] = (struct explore_write){write->thread, write->value};
    }
    return count;
}

/* ---- plain data ---- */

static struct plain *find_plain(const void *data)
{
    for (int i = 0; i < memory.plain_count; i++)
        if (memory.plain[i].data == data)
            return &memory.plain[i];
    if (memory.plain_count == PLAIN)
        return NULL;
    memory.plain[memory.plain_count] = (struct plain){.data = data};
    return &memory.plain[memory.plain_count++];
}

bool memory_touch(int thread, const void *data, bool write)
{
    struct plain *plain = find_plain(data);
    const struct view *now = &memory.threads[thread].now;
    if (!plain)
        return false;
    for (int i = 0; i < memory.thread_count; i++)
        if (plain->wrote[i] > now->clock[i] || (write && plain->read[i] > now->clock[i]))
            return false;
    (write ? plain->wrote : plain->read)[thread] = now->clock[thread];
    return true;
}
