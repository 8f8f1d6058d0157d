/* SPDX-License-Identifier: MIT */
#include "table/top.h"

#include <string.h>

/* No tls_model("initial-exec"): it would save libweir.so 1 ns a take, but musl then refuses to dlopen the
 * library. In a program the linker makes fixed offsets of all of them anyway. */
_Thread_local uint32_t weir_top_countdown;

static _Thread_local uint64_t lots; /* state of the thread's generator; 0: not begun */

/* How many calls a sample of this thread stands for, and when it last took one. */
static _Thread_local uint32_t step = TOP_SAMPLE;
static _Thread_local int64_t last_sample;
static _Thread_local bool adapts; /* see weir_top_begin */

/* ---- which calls are sampled ---- */

static uint64_t next_lot(void)
{
    uint64_t x = lots += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint32_t lot_below(uint32_t end)
{
    return (uint32_t)hash_to_index(next_lot(), end);
}

/* Where calls are few, a sample of all of them costs nothing and tells small numbers right. Each sample
 * counts for as many calls as the step by which it came, so a change of the step makes nothing wrong. A clock
 * that stands still looks like very many calls. */
static uint32_t next_step(int64_t now)
{
    int64_t past = sat_sub(now, last_sample), expected = (int64_t)step * TOP_CALL_NS;
    last_sample = now;
    if (!adapts || past < expected)
        return step < TOP_SAMPLE ? 2 * step : TOP_SAMPLE;
    return past > 4 * expected && step > 1 ? step / 2 : step;
}

void weir_top_begin(void)
{
    struct hash_key key = weir_hash_key();
    lots = key.low | 1;
    step = 1;
    adapts = true;
    weir_top_countdown = 0;
}

/*
 * A thread begins as if it had been calling for ever: then its first call is sampled with the same chance as
 * any other, and many short threads count right. Steps are 1 to 2 * TOP_SAMPLE - 1, all as likely, so the
 * chance that r more calls pass before the next sample falls evenly to 0 at r = 2 * TOP_SAMPLE - 1: as that
 * of the lower of two different numbers below 2 * TOP_SAMPLE.
 */
static uint32_t first_gap(void)
{
    uint32_t a = lot_below(2 * TOP_SAMPLE), b = lot_below(2 * TOP_SAMPLE - 1);
    b += b >= a;
    return a < b ? a : b;
}

/* For how many calls does this one stand as a sample? 0: it is none. The steps are drawn by lot: fixed ones
 * could fall in with the traffic's. */
static uint32_t draw_sample(int64_t now)
{
    if (__builtin_expect(lots == 0, 0)) {
        struct hash_key key = weir_hash_key();
        lots = key.low | 1; /* never 0 */
        uint32_t gap = first_gap();
        if (gap > 0) {
            weir_top_countdown = gap - 1;
            return 0;
        }
    }
    uint32_t stands_for = step;
    step = next_step(now);
    weir_top_countdown = lot_below(2 * step - 1);
    return stands_for;
}

/* ---- the lock ---- */

static bool lock_list(struct top_list *list, uint64_t mine)
{
    uint64_t seen = atom_load(&list->lock, memory_order_relaxed);
    uint64_t age = mine > seen ? mine - seen : seen - mine; /* a clock may have stepped back */
    if (seen != 0 && age <= TOP_HELD_NS)
        return false;
    return atom_cas(&list->lock, &seen, mine, memory_order_acquire);
}

static void unlock_list(struct top_list *list, uint64_t mine)
{
    uint64_t seen = mine; /* else somebody has passed us over */
    while (!atom_cas(&list->lock, &seen, 0, memory_order_acq_rel) && seen == mine) {
    }
}

/* ---- counting ---- */

static uint64_t top_get(const atom64 *figure)
{
    return atom_load(figure, memory_order_relaxed);
}

static void top_put(atom64 *figure, uint64_t value)
{
    atom_store(figure, value, memory_order_relaxed);
}

static unsigned halvings(const struct top_list *list, uint64_t minute)
{
    uint64_t halved = top_get(&list->halved);
    return halved >= minute ? 0 : minute - halved > 63 ? 63 : (unsigned)(minute - halved);
}

/* Threads read the clock, and come here later: one may still be in the minute before, and must not set it
 * back. A later minute was noted by a clock that stepped back, or by nobody. */
static void top_fade(struct top_list *list, uint64_t minute)
{
    unsigned times = halvings(list, minute);
    if (times > 0 || top_get(&list->halved) > minute + 1)
        top_put(&list->halved, minute);
    for (size_t i = 0; times > 0 && i < (size_t)TOP_SETS * TOP_WAYS; i++) {
        struct top_set *set = &list->sets[i / TOP_WAYS];
        struct top_detail *detail = &list->details[i / TOP_WAYS][i % TOP_WAYS];
        uint64_t units = top_get(&set->units[i % TOP_WAYS]) >> times;
        top_put(&set->units[i % TOP_WAYS], units);
        top_put(&detail->error, top_get(&detail->error) >> times);
        if (units == 0)
            top_put(&set->hash[i % TOP_WAYS], 0);
    }
}

static size_t top_set_of(uint64_t hash)
{
    return hash_to_index(hash, TOP_SETS);
}

/* The key's place in its set, or the one of the smallest. */
static size_t find_way(const struct top_set *set, uint64_t hash)
{
    size_t least = 0;
    uint64_t fewest = UINT64_MAX;
    for (size_t way = 0; way < TOP_WAYS; way++)
        if (top_get(&set->hash[way]) == hash)
            return way;
    for (size_t way = 0; way < TOP_WAYS; way++) {
        uint64_t units = top_get(&set->units[way]);
        least = units < fewest ? way : least;
        fewest = units < fewest ? units : fewest;
    }
    return least;
}

/* The place is nobody's until all is written: who is killed in between leaves no name that is another's. */
static void top_replace(struct top_set *set, struct top_detail *detail, size_t way, const struct key *key)
{
    uint64_t name[TOP_NAME_WORDS] = {0};
    size_t most = sizeof name - 1;
    if (key->len > 0)
        memcpy(name, key->bytes, key->len < most ? key->len : most);
    top_put(&set->hash[way], 0);
    atom_fence(memory_order_release);
    top_put(&detail->error, top_get(&set->units[way]));
    top_put(&detail->len, key->len);
    for (size_t i = 0; i < TOP_NAME_WORDS; i++)
        top_put(&detail->name[i], name[i]);
    atom_store(&set->hash[way], key->hash, memory_order_release);
}

/* May a key with so many units take the place of one that has `has`? By lot: in u of u + has cases. A sum
 * that overflows comes of damage, which is always replaced. */
static bool may_replace(uint64_t units, uint64_t has)
{
    return hash_to_index(next_lot(), units + has) < units;
}

static void count_units(struct top_list *list, const struct key *key, uint64_t units)
{
    struct top_set *set = &list->sets[top_set_of(key->hash)];
    size_t way = find_way(set, key->hash);
    if (top_get(&set->hash[way]) != key->hash) {
        if (!may_replace(units, top_get(&set->units[way])))
            return;
        top_replace(set, &list->details[top_set_of(key->hash)][way], way, key);
    }
    uint64_t sum = top_get(&set->units[way]) + units; /* units < 2^63; what is there may be anything */
    top_put(&set->units[way], sum < units || sum > INT64_MAX ? INT64_MAX : sum);
}

void weir_table_sample(struct weir_table *table, const struct key *key, int64_t n, bool allowed, int64_t now)
{
    uint32_t stands_for = draw_sample(now);
    if (stands_for == 0 || !table->top || n <= 0 || now < 0)
        return;
    struct top_list *list = &table->top->lists[allowed ? WEIR_TOP_TAKEN : WEIR_TOP_REFUSED];
    uint64_t mine = (uint64_t)now + 1;
    if (!lock_list(list, mine))
        return;
    top_fade(list, (uint64_t)now / TOP_HALVING_NS);
    count_units(list, key, (uint64_t)sat_mul(n, stands_for));
    unlock_list(list, mine);
}

/* ---- reading ---- */

/* A whole name can be proved to be this key's. */
static bool is_name_of(const struct weir_table *table, const struct weir_top_key *key)
{
    return key->len >= sizeof key->name || table_hash(table, key->name, key->len) == key->id;
}

/* false: nobody is there, somebody else comes in just now, or it makes no sense. */
static bool read_place(const struct weir_table *table, const struct top_list *list, size_t set, size_t way,
                       struct weir_top_key *key)
{
    const struct top_detail *detail = &list->details[set][way];
    uint64_t hash = atom_load(&list->sets[set].hash[way], memory_order_acquire), name[TOP_NAME_WORDS];
    uint64_t error = top_get(&detail->error), units = top_get(&list->sets[set].units[way]),
             len = top_get(&detail->len);
    if (hash == 0 || top_set_of(hash) != set)
        return false;
    for (size_t i = 0; i < TOP_NAME_WORDS; i++)
        name[i] = top_get(&detail->name[i]);
    atom_fence(memory_order_acquire);
    if (top_get(&list->sets[set].hash[way]) != hash || units <= error)
        return false;
    uint64_t own = units - error;
    *key = (struct weir_top_key){.id = hash,
                                 .units = own < INT64_MAX ? (int64_t)own : INT64_MAX,
                                 .len = len < UINT32_MAX ? (uint32_t)len : UINT32_MAX};
    memcpy(key->name, name, sizeof key->name);
    key->name[sizeof key->name - 1] = '\0';
    return is_name_of(table, key);
}

static bool goes_before(const struct weir_top_key *a, const struct weir_top_key *b)
{
    return a->units != b->units ? a->units > b->units : a->id < b->id;
}

/* Into its place among the largest so far; the last falls off if there are too many. Two writers at once may
 * have given a key two places: the larger is told. */
static size_t put_in_order(struct weir_top_key *keys, size_t used, size_t count,
                           const struct weir_top_key *key)
{
    for (size_t i = 0; i < used; i++) {
        if (keys[i].id == key->id) {
            if (keys[i].units >= key->units)
                return used;
            memmove(keys + i, keys + i + 1, (--used - i) * sizeof *keys);
        }
    }
    size_t at = used;
    while (at > 0 && goes_before(key, &keys[at - 1]))
        at--;
    if (at == count)
        return used;
    used += used < count;
    memmove(keys + at + 1, keys + at, (used - at - 1) * sizeof *keys);
    keys[at] = *key;
    return used;
}

size_t weir_top_read(const struct weir_table *table, enum weir_top by, int64_t now, struct weir_top_key *keys,
                     size_t count)
{
    if (!table->top || (by != WEIR_TOP_TAKEN && by != WEIR_TOP_REFUSED))
        return 0;
    const struct top_list *list = &table->top->lists[by];
    unsigned times = halvings(list, (uint64_t)max64(now, 0) / TOP_HALVING_NS);
    size_t used = 0;
    for (size_t i = 0; i < (size_t)TOP_SETS * TOP_WAYS; i++) {
        struct weir_top_key key;
        if (!read_place(table, list, i / TOP_WAYS, i % TOP_WAYS, &key))
            continue;
        key.units >>= times;
        if (key.units > 0)
            used = put_in_order(keys, used, count, &key);
    }
    return used;
}

size_t weir_table_top_at(struct weir_table *table, int64_t now_ns, enum weir_top by,
                         struct weir_top_key *keys, size_t count)
{
    if (!table || !keys || count == 0)
        return 0;
    return weir_top_read(table, by, region_time(table->region, now_ns), keys, count);
}

size_t weir_table_top(struct weir_table *table, enum weir_top by, struct weir_top_key *keys, size_t count)
{
    return weir_table_top_at(table, weir_now(), by, keys, count);
}
