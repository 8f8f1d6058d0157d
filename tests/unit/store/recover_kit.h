/* SPDX-License-Identifier: MIT */
/*
 * More of store_kit.h: directories that are looked at without being written to, and what must hold of
 * whatever is found in one.
 */
#ifndef WEIR_TESTS_UNIT_RECOVER_KIT_H
#define WEIR_TESTS_UNIT_RECOVER_KIT_H

#include "store/files.h"
#include "store/store.h"
#include "unit/store/store_kit.h"

#define KIT_FILES 64

struct kit_dir { /* files of a directory, by name */
    char names[KIT_FILES][DISK_NAME_MAX];
    uint64_t bytes[KIT_FILES];
    size_t count, images, segments, halves, others;
};

static inline int kit_each(void *arg, const char *name, uint64_t bytes)
{
    struct kit_dir *dir = arg;
    uint64_t number;
    enum file_kind kind = weir_file_parse(name, &number);
    if (dir->count == KIT_FILES)
        return E2BIG;
    memcpy(dir->names[dir->count], name, strlen(name) + 1);
    dir->bytes[dir->count++] = bytes;
    dir->images += kind == FILE_IMAGE;
    dir->segments += kind == FILE_SEGMENT;
    dir->halves += kind == FILE_HALF;
    dir->others += kind == FILE_OTHER;
    return 0;
}

static inline struct kit_dir kit_list(struct sim *sim, const char *path)
{
    struct kit_dir list = {0};
    struct disk *disk = sim_disk(sim);
    int dir;
    if (CHECK_EQ(disk->open_dir(disk, path, false, &dir), 0)) {
        CHECK_EQ(disk->list(disk, dir, kit_each, &list), 0);
        disk->close_dir(disk, dir);
    }
    return list;
}

static inline void kit_path(char path[128], const char *dir, const char *name)
{
    (void)snprintf(path, 128, "%s/%s", dir, name);
}

/* The newest of a kind, as a path; "": none. */
static inline void kit_newest(struct sim *sim, enum file_kind kind, char path[128])
{
    struct kit_dir list = kit_list(sim, "data");
    uint64_t best = 0, number;
    path[0] = '\0';
    for (size_t i = 0; i < list.count; i++)
        if (weir_file_parse(list.names[i], &number) == kind && number > best) {
            best = number;
            kit_path(path, "data", list.names[i]);
        }
}

static inline void life_close(struct life *life)
{
    CHECK(weir_store_close(life->store, &life->err));
    life->store = NULL;
}

/* So many changes, of keys in turn, all of them promised. */
static inline void life_story(struct life *life, uint64_t changes)
{
    for (uint64_t i = 0; i < changes; i++) {
        (void)life_raise(life, i % SHELF);
        if (i % 5 == 4)
            (void)weir_store_work(life->store, STORE_WORK_SYNC);
        life_answer(life);
    }
    (void)weir_store_work(life->store, STORE_WORK_SYNC);
    life_answer(life);
}

/* Reads what is there, and writes nothing. false: it cannot be started from, life->err. */
static inline bool life_peek(struct life *life)
{
    memset(&life->shelf, 0, sizeof life->shelf);
    life->shelf.region.header = &life->shelf.header;
    life->shelf.region.shape.kind = REGION_WORDS;
    life->err = (struct weir_error){0};
    struct store *store = weir_store_open(&life->options, &life->found, &life->err);
    bool good =
        store &&
        weir_store_add(store, SHELF_REGION, &life->shelf.region, 0, &shelf_kind, &life->shelf, &life->err) &&
        weir_store_replay(store, &life->found, &life->err);
    if (store)
        (void)weir_store_close(store, NULL);
    return good;
}

/* Between nothing and what it was; *less: not all of it. */
static inline bool kit_was_written(const struct shelf *shelf, const uint64_t written[SHELF], bool *less)
{
    bool good = true;
    *less = false;
    for (int i = 0; i < SHELF; i++) {
        uint64_t value = atomic_load(&shelf->values[i]);
        good = good && value <= written[i];
        *less = *less || value < written[i];
    }
    return good;
}

static inline void kit_values(const struct shelf *shelf, uint64_t values[SHELF])
{
    for (int i = 0; i < SHELF; i++)
        values[i] = atomic_load(&shelf->values[i]);
}

#endif
