/* SPDX-License-Identifier: MIT */
#include "table/names.h"

#include <stdlib.h>
#include <string.h>

/* Head word of a record: 32 bits mark, 16 bits of the turn, 1 bit whole, 15 bits length. */
#define HEAD_MARK  UINT64_C(0x6e616d65)
#define HEAD_WHOLE (UINT64_C(1) << 15)

#define RECORD_HEAD 2 /* words: head word, hash */
#define FILTER_PART 6 /* one word of a half in so many is the filter's */
#define FILTER_WAYS 8 /* words in which a key may be remembered */

struct name_half {
    uint64_t turn;
    atom64 *filter, *words, *end;
    uint64_t filters, count; /* words of each */
};

/* ---- layout ---- */

uint64_t weir_name_log_size(uint64_t name_bytes)
{
    if (name_bytes == 0)
        return 0;
    uint64_t bytes = name_bytes < NAME_LOG_LEAST ? NAME_LOG_LEAST : name_bytes;
    return bytes > UINT64_MAX - 63 ? UINT64_MAX - 63 : (bytes + 63) / 64 * 64;
}

/* The half that is the log in that turn. false: there is no log. */
static bool find_half(const struct weir_table *table, uint64_t turn, struct name_half *half)
{
    uint64_t bytes = table->region->shape.parts[PART_NAMES];
    if (!table->names || bytes < NAME_LOG_LEAST)
        return false;
    uint64_t words = (bytes - sizeof(struct name_log)) / sizeof(atom64) / 2;
    uint64_t filters = words / FILTER_PART / FILTER_WAYS * FILTER_WAYS;
    atom64 *first = (atom64 *)(table->names + 1) + (turn & 1) * words;
    *half = (struct name_half){.turn = turn,
                               .filter = first,
                               .words = first + filters,
                               .end = &table->names->ends[turn & 1],
                               .filters = filters,
                               .count = words - filters};
    return true;
}

static uint64_t record_words(uint64_t len)
{
    return RECORD_HEAD + (len + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

static uint64_t head_make(uint64_t turn, uint64_t len)
{
    return HEAD_MARK << 32 | (turn & 0xffff) << 16 | len;
}

static uint64_t head_len(uint64_t head)
{
    return head & (HEAD_WHOLE - 1);
}

/* Could a record that fits in `room` words begin like this? */
static bool is_head(uint64_t head, uint64_t room)
{
    return head >> 32 == HEAD_MARK && head_len(head) <= NAME_LENGTH_MAX &&
           record_words(head_len(head)) <= room;
}

/* ---- appending ---- */

/* The end as noted: at most where it is. */
static uint64_t noted_end(const struct name_half *half)
{
    uint64_t end = atom_load(half->end, memory_order_acquire);
    return end < half->count ? end : half->count;
}

static void note_end(const struct name_half *half, uint64_t end)
{
    uint64_t seen = atom_load(half->end, memory_order_relaxed);
    while (seen < end && !atom_cas(half->end, &seen, end, memory_order_acq_rel)) {
    }
}

static uint64_t step_over(uint64_t head, uint64_t room)
{
    return is_head(head, room) ? record_words(head_len(head)) : 1;
}

/* Puts `head` at the end; gives where. `count`: there is no room. */
static uint64_t reserve_name_record(const struct name_half *half, uint64_t head)
{
    uint64_t at = noted_end(half), needed = record_words(head_len(head));
    while (half->count - at >= needed) {
        uint64_t seen = 0;
        if (atom_cas(&half->words[at], &seen, head, memory_order_acq_rel)) {
            note_end(half, at + needed);
            return at;
        }
        if (seen != 0)
            at += step_over(seen, half->count - at);
    }
    note_end(half, at);
    return half->count;
}

static void write_name_bytes(atom64 *words, const unsigned char *bytes, size_t len)
{
    for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, len - at < sizeof word ? len - at : sizeof word);
        atom_store(words++, word, memory_order_relaxed);
    }
}

/* What the filter has of a key that is in the log. It is another word in every turn: so what somebody who
 * slept writes later says nothing. */
static uint64_t filter_word(const struct name_half *half, uint64_t hash)
{
    return hash ^ (half->turn + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static atom64 *name_filter_of(const struct name_half *half, uint64_t hash)
{
    return &half->filter[hash_to_index(hash, half->filters / FILTER_WAYS) * FILTER_WAYS];
}

static bool is_logged(const struct name_half *half, uint64_t hash)
{
    const atom64 *ways = name_filter_of(half, hash);
    uint64_t word = filter_word(half, hash);
    for (size_t i = 0; i < FILTER_WAYS; i++)
        if (atom_load(&ways[i], memory_order_acquire) == word)
            return true;
    return false;
}

/* Where all is taken somebody is forgotten, and logged again if he comes again. */
static void remember_logged(const struct name_half *half, uint64_t hash)
{
    atom64 *ways = name_filter_of(half, hash);
    size_t way = 0;
    while (way < FILTER_WAYS && atom_load(&ways[way], memory_order_relaxed) != 0)
        way++;
    atom_store(&ways[way < FILTER_WAYS ? way : hash % FILTER_WAYS], filter_word(half, hash),
               memory_order_release);
}

/* The head word says whole by exchange: if we slept so long that the place is another's, nothing is said. */
static bool append_name(const struct name_half *half, const struct key *key)
{
    uint64_t head = head_make(half->turn, key->len), at = reserve_name_record(half, head);
    if (at == half->count)
        return false;
    atom64 *record = half->words + at;
    atom_store(&record[1], key->hash, memory_order_relaxed);
    write_name_bytes(record + RECORD_HEAD, key->bytes, key->len);
    uint64_t seen = head;
    while (!atom_cas(&record[0], &seen, head | HEAD_WHOLE, memory_order_seq_cst)) {
        if (seen != head)
            return false;
    }
    remember_logged(half, key->hash);
    return true;
}

/* If the halves change meanwhile it is done again. If not, whoever changes them later finds the record: both
 * look at the other's word after they have written their own, in one order for all (seq_cst). */
void weir_table_name(struct weir_table *table, const struct key *key)
{
    struct name_half half;
    if (!find_half(table, 0, &half))
        return;
    bool kept = false;
    uint64_t turn = atom_load(&table->names->turn, memory_order_seq_cst), before;
    do {
        (void)find_half(table, turn, &half);
        if (key->len <= NAME_LENGTH_MAX)
            kept = is_logged(&half, key->hash) || append_name(&half, key);
        before = turn;
        turn = atom_load(&table->names->turn, memory_order_seq_cst);
    } while (turn != before);
    if (!kept)
        atom_add(&table->names->lost, 1, memory_order_relaxed);
}

uint64_t weir_name_log_lost(const struct weir_table *table)
{
    return table->names ? atom_load(&table->names->lost, memory_order_relaxed) : 0;
}

/* ---- reading ---- */

/* A copy of a half's records, and a hash table: a slot is 0, or 1 + the place of a record in the copy. Of two
 * records of a key the last counts. */
struct name_index {
    uint64_t count; /* words of the copy; as many slots */
    uint64_t *words, *slots;
};

#define SLOT_MOVED (UINT64_C(1) << 63) /* compaction: it is in the other half */

/* Where the records end: at the first word that is 0. */
static uint64_t find_log_end(const struct name_half *half)
{
    uint64_t at = noted_end(half), head;
    while (at < half->count && (head = atom_load(&half->words[at], memory_order_acquire)) != 0)
        at += step_over(head, half->count - at);
    return at;
}

static const uint64_t *index_record_at(const struct name_index *index, uint64_t slot)
{
    return index->words + (slot & ~SLOT_MOVED) - 1;
}

/* The key's slot, or the empty one where it would be. */
static uint64_t *index_find_slot(const struct name_index *index, uint64_t hash)
{
    uint64_t at = hash_to_index(hash, index->count);
    while (index->slots[at] != 0 && index_record_at(index, index->slots[at])[1] != hash)
        at = at + 1 < index->count ? at + 1 : 0;
    return &index->slots[at];
}

static bool is_record(const struct weir_table *table, const uint64_t *words, uint64_t room)
{
    return is_head(words[0], room) && (words[0] & HEAD_WHOLE) &&
           table_hash(table, words + RECORD_HEAD, head_len(words[0])) == words[1];
}

static void index_records(const struct weir_table *table, struct name_index *index)
{
    for (uint64_t at = 0; at < index->count;) {
        if (!is_record(table, index->words + at, index->count - at)) {
            at++;
            continue;
        }
        INVARIANT(24, table_hash(table, index->words + at + 2, head_len(index->words[at])) ==
                          index->words[at + 1]);
        *index_find_slot(index, index->words[at + 1]) = at + 1;
        at += record_words(head_len(index->words[at]));
    }
}

/* The head word is copied before the rest of its record: if it says whole, the rest is. */
static struct name_index *read_half(const struct weir_table *table, const struct name_half *half)
{
    struct name_index *index = malloc(sizeof *index);
    if (!index)
        return NULL;
    index->count = find_log_end(half);
    index->words = calloc(index->count + 1, sizeof *index->words);
    index->slots = calloc(index->count + 1, sizeof *index->slots);
    if (!index->words || !index->slots) {
        weir_name_index_free(index);
        return NULL;
    }
    for (uint64_t i = 0; i < index->count; i++)
        index->words[i] = atom_load(&half->words[i], memory_order_seq_cst);
    index_records(table, index);
    return index;
}

struct name_index *weir_name_index_read(const struct weir_table *table)
{
    struct name_half half;
    if (!table->names || !find_half(table, atom_load(&table->names->turn, memory_order_acquire), &half))
        return NULL;
    return read_half(table, &half);
}

const void *weir_name_index_find(const struct name_index *index, uint64_t hash, size_t *len)
{
    const uint64_t *slot = index && index->count > 0 ? index_find_slot(index, hash) : NULL;
    if (!slot || *slot == 0)
        return NULL;
    const uint64_t *record = index_record_at(index, *slot);
    *len = head_len(record[0]);
    return record + RECORD_HEAD;
}

void weir_name_index_free(struct name_index *index)
{
    if (!index)
        return;
    free(index->words);
    free(index->slots);
    free(index);
}

/* ---- compaction ---- */

bool weir_name_log_needs_compaction(const struct weir_table *table)
{
    struct name_half half;
    const struct name_log *log = table->names;
    if (!log || !find_half(table, atom_load(&log->turn, memory_order_acquire), &half))
        return false;
    uint64_t end = noted_end(&half), packed = atom_load(&log->packed, memory_order_relaxed);
    uint64_t lost =
        atom_load(&log->lost, memory_order_relaxed) - atom_load(&log->lost_before, memory_order_relaxed);
    uint64_t news = end > packed ? end - packed : 0;
    return end > half.count / 4 * 3 && (news > half.count / 8 || lost > half.count / 64);
}

/* Words first, then the end: who is killed in between leaves it to be done again. */
static void clear_half(const struct name_half *half)
{
    uint64_t end = find_log_end(half);
    for (uint64_t i = 0; i < end; i++)
        atom_store(&half->words[i], 0, memory_order_relaxed);
    for (uint64_t i = 0; i < half->filters; i++) /* a compaction of this turn may have been killed */
        atom_store(&half->filter[i], 0, memory_order_relaxed);
    atom_store(half->end, 0, memory_order_release);
}

struct live_names {
    bool (*alive)(void *arg, uint64_t hash);
    void *arg;
};

/* Appends the living names of `index` to `half`, but those that `moved` says are there already (it may be
 * NULL), and marks them in `index`. */
static void move_living(struct name_index *index, const struct name_index *moved,
                        const struct name_half *half, const struct live_names *living)
{
    for (uint64_t i = 0; i < index->count; i++) {
        if (index->slots[i] == 0)
            continue;
        const uint64_t *record = index_record_at(index, index->slots[i]);
        struct key key = {.bytes = record + RECORD_HEAD, .len = head_len(record[0]), .hash = record[1]};
        bool there = moved && moved->count > 0 && (*index_find_slot(moved, key.hash) & SLOT_MOVED);
        if (!there && living->alive(living->arg, key.hash) && append_name(half, &key))
            index->slots[i] |= SLOT_MOVED;
    }
}

/* Names that come in while the first pass runs go to the old half: the second pass, when nobody begins to
 * append there any more, fetches them, and keys that were not alive and have come again. */
bool weir_name_log_compact(struct weir_table *table, bool (*alive)(void *arg, uint64_t hash), void *arg)
{
    struct name_half old, next;
    struct live_names living = {alive, arg};
    if (!find_half(table, 0, &old))
        return false;
    uint64_t turn = atom_load(&table->names->turn, memory_order_acquire);
    (void)find_half(table, turn, &old);
    (void)find_half(table, turn + 1, &next);
    struct name_index *first = read_half(table, &old);
    if (!first)
        return false;
    clear_half(&next);
    move_living(first, NULL, &next, &living);
    atom_store(&table->names->packed, noted_end(&next), memory_order_relaxed);
    atom_store(&table->names->lost_before, weir_name_log_lost(table), memory_order_relaxed);
    atom_store(&table->names->turn, turn + 1, memory_order_seq_cst);
    struct name_index *second = read_half(table, &old);
    if (second)
        move_living(second, first, &next, &living);
    weir_name_index_free(second);
    weir_name_index_free(first);
    return second != NULL;
}
