/* SPDX-License-Identifier: MIT */
/*
 * A region for stores to keep: numbers that only rise. Whatever is recovered has to be a number that it was.
 */
#ifndef WEIR_TESTS_UNIT_SHELF_H
#define WEIR_TESTS_UNIT_SHELF_H

#define SHELF        64 /* numbers */
#define SHELF_REGION 7

struct shelf {
    struct region region;
    struct region_header header;
    _Atomic uint64_t values[SHELF];
};

static inline void shelf_put(const struct persist *persist, uint64_t index, struct buffer *out)
{
    struct shelf *shelf = persist->owner;
    uint64_t body[2] = {index, atomic_load(&shelf->values[index])};
    void *room = persist_put(out, persist->number, 1, sizeof body);
    if (room)
        memcpy(room, body, sizeof body);
}

static inline void shelf_capture(const struct persist *persist, void *slot, uint64_t hash, struct buffer *out)
{
    (void)slot;
    shelf_put(persist, hash - 1, out);
}

static inline bool shelf_walk(const struct persist *persist, uint64_t *cursor, struct buffer *out,
                              size_t bytes)
{
    size_t before = buffer_len(out);
    const struct shelf *shelf = persist->owner;
    for (; *cursor < SHELF && buffer_len(out) - before < bytes; ++*cursor)
        if (atomic_load(&shelf->values[*cursor]) > 0)
            shelf_put(persist, *cursor, out);
    return *cursor < SHELF;
}

static inline bool shelf_apply(const struct persist *persist, uint8_t kind, const unsigned char *body,
                               size_t len, bool *failed)
{
    struct shelf *shelf = persist->owner;
    uint64_t words[2];
    (void)failed;
    if (kind != 1 || len != sizeof words)
        return false;
    memcpy(words, body, sizeof words);
    if (words[0] >= SHELF)
        return false;
    if (words[1] > atomic_load(&shelf->values[words[0]]))
        atomic_store(&shelf->values[words[0]], words[1]);
    return true;
}

static const struct persist_ops shelf_kind = {
    .capture = shelf_capture, .walk = shelf_walk, .apply = shelf_apply};

static inline void shelf_raise(struct shelf *shelf, uint64_t index)
{
    atomic_fetch_add(&shelf->values[index], 1);
    mark_dirty(shelf->region.persist, &shelf->values[index], index + 1);
}

#endif
