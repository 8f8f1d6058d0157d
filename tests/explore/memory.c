/* SPDX-License-Identifier: MIT */
#include "explore/memory.h"

#include <string.h>

enum { PLAIN = 32, HIDDEN = 0 /* the location of seq_cst fences */ };

struct view {
    uint8_t at[MEMORY_LOCATIONS];    /* the write, by its number */
    uint16_t clock[EXPLORE_THREADS]; /* how far the steps of each thread are known: for races of plain data */
};

struct write {
    uint64_t value;
    struct view view;
    uint16_t past[EXPLORE_THREADS]; /* steps that it depends on */
    int thread;                     /* -1: setup */
    bool replaced;                  /* by an exchange, which has to stay right behind it */
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
    uint32_t watched;               /* locations read since the last pause, as bits, */
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
    if (size == sizeof(uint32_t))
        return *(const volatile uint32_t *)from;
    return size ? *(const volatile uint64_t *)from : 0;
}

void memory_put(void *to, size_t size, uint64_t value)
{
    if (size == sizeof(uint32_t))
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

bool memory_has_room(int location)
{
    return memory.locations[location].count < MEMORY_WRITES;
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
    struct location *location = &memory.locations[op->location];
    unsigned me = 1U << thread, users = location->users, writers = location->writers;
    location->users |= me;
    if (writes(op))
        location->writers |= me;
    return (users & ~me) && (location->users != users || location->writers != writers);
}

bool memory_is_private(int thread, const struct op *op)
{
    if (op->location < 0)
        return false;
    const struct location *location = &memory.locations[op->location];
    return (location->writers & ~(1U << thread)) == 0;
}

/* ---- views ---- */

static int place_of(const struct view *view, int location)
{
    return memory.locations[location].place[view->at[location]];
}

static void join_writes(struct view *view, const struct view *other)
{
    for (int i = 0; i < memory.count; i++)
        if (view->at[i] != other->at[i] && place_of(view, i) < place_of(other, i))
            view->at[i] = other->at[i];
}

static void join(struct view *view, const struct view *other)
{
    join_writes(view, other);
    for (int i = 0; i < memory.thread_count; i++)
        if (view->clock[i] < other->clock[i])
            view->clock[i] = other->clock[i];
}

static bool tells_no_more(const struct view *view, const struct view *other)
{
    for (int i = 0; i < memory.count; i++)
        if (view->at[i] != other->at[i] && place_of(view, i) > place_of(other, i))
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
        if (same && !write->replaced)
            outcomes[count++] = (struct outcome){number, false};
        if ((!same || spurious) && (all || !is_dominated(location, first, place)))
            outcomes[count++] = (struct outcome){number, true};
    }
    return count;
}

static int pause_outcomes(const struct thread *t, struct outcome *outcomes)
{
    int count = 0;
    for (int i = 1; i < memory.count; i++) {
        const struct location *location = &memory.locations[i];
        if (t->watched >> i & 1 && location->place[t->read[i]] + 1 < location->count)
            outcomes[count++] = (struct outcome){(uint8_t)i, false};
    }
    return count;
}

static int lock_outcomes(const struct op *op, struct outcome *outcomes)
{
    const struct location *location = &memory.locations[op->location];
    uint8_t last = location->order[location->count - 1];
    outcomes[0] = (struct outcome){last, false};
    return op->kind == OP_UNLOCK || location->writes[last].value == 0;
}

int memory_outcomes(int thread, const struct op *op, bool all, struct outcome *outcomes)
{
    const struct thread *t = &memory.threads[thread];
    if (op->kind == OP_PAUSE)
        return pause_outcomes(t, outcomes);
    if (op->kind == OP_CAS)
        return cas_outcomes(t, op, all, outcomes);
    if (op->kind == OP_LOCK || op->kind == OP_UNLOCK)
        return lock_outcomes(op, outcomes);
    const struct location *location = &memory.locations[op->location];
    int count = 0, first = place_of(&t->now, op->location);
    for (int place = first; place < location->count; place++) {
        uint8_t number = location->order[place];
        bool open = op->kind == OP_LOAD ? all || !is_dominated(location, first, place)
                                        : !location->writes[number].replaced;
        if (open)
            outcomes[count++] = (struct outcome){number, false};
    }
    return count;
}

/* ---- steps ---- */

static void see(struct thread *t, int location, uint8_t number)
{
    t->now.at[location] = t->acquired.at[location] = number;
    t->watched |= UINT32_C(1) << location;
    t->read[location] = number;
}

static void join_past(struct thread *t, const struct write *write)
{
    for (int i = 0; i < memory.thread_count; i++)
        if (t->past[i] < write->past[i])
            t->past[i] = write->past[i];
}

static void read_write(struct thread *t, const struct op *op, memory_order order, uint8_t number)
{
    const struct write *write = &memory.locations[op->location].writes[number];
    const struct view *view = &write->view;
    join_past(t, write);
    see(t, op->location, number);
    if (op->kind == OP_FENCE) { /* orders what is seen, but plain data still races */
        join_writes(&t->now, view);
        join_writes(&t->acquired, view);
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

static uint64_t written_value(int thread, const struct op *op, uint64_t old)
{
    switch (op->kind) {
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
static uint8_t write_value(int thread, const struct op *op, uint8_t behind)
{
    struct thread *t = &memory.threads[thread];
    struct location *location = &memory.locations[op->location];
    uint8_t number = insert(location, behind);
    struct write *write = &location->writes[number], *before = &location->writes[behind];
    *write = (struct write){.value = written_value(thread, op, before->value), .thread = thread};
    memcpy(write->past, t->past, sizeof write->past);
    if (location->size == 4)
        write->value = (uint32_t)write->value;
    see(t, op->location, number);
    write->view = releases(op->order) ? t->now : t->released;
    write->view.at[op->location] = number;
    if (op->kind != OP_STORE) {
        before->replaced = true;
        join(&write->view, &before->view);
    }
    tick(t);
    return number;
}

static struct effect apply_pause(struct thread *t, struct outcome outcome)
{
    int i = outcome.write;
    const struct location *location = &memory.locations[i];
    uint8_t news = location->order[location->place[t->read[i]] + 1];
    struct effect effect = {.done = true, .from = -1, .wrote = -1, .watched = t->watched};
    join_past(t, &location->writes[news]);
    if (place_of(&t->now, i) < location->place[news])
        t->now.at[i] = news;
    if (place_of(&t->acquired, i) < location->place[news])
        t->acquired.at[i] = news;
    t->watched = 0;
    return effect;
}

struct effect memory_apply(int thread, const struct op *op, struct outcome outcome)
{
    struct thread *t = &memory.threads[thread];
    if (op->kind == OP_PAUSE)
        return apply_pause(t, outcome);
    struct location *location = &memory.locations[op->location];
    struct write *write = &location->writes[outcome.write];
    struct effect effect = {.old = write->value,
                            .done = !outcome.fails,
                            .from = write->thread,
                            .read = outcome.write,
                            .wrote = -1};
    if (op->kind == OP_FENCE)
        memory_fence(thread, memory_order_acquire);
    if (op->kind != OP_STORE)
        read_write(t, op, outcome.fails ? op->failure : op->order, outcome.write);
    if (outcome.fails && write->value == op->expected)
        t->spurious--;
    if (op->kind != OP_LOAD && !outcome.fails) {
        effect.inside = location->place[outcome.write] + 1 < location->count;
        effect.wrote = write_value(thread, op, outcome.write);
    }
    if (op->kind == OP_FENCE)
        memory_fence(thread, memory_order_release);
    return effect;
}

struct effect memory_alone(const struct op *op)
{
    if (op->location < 0)
        return (struct effect){.done = true};
    struct location *location = &memory.locations[op->location];
    struct write *write = &location->writes[location->order[location->count - 1]];
    struct effect effect = {.old = write->value, .done = true};
    if (op->kind == OP_CAS)
        effect.done = write->value == op->expected;
    if (op->kind != OP_LOAD && effect.done)
        write->value = op->kind == OP_LOCK ? 1 : written_value(0, op, write->value);
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
