/* SPDX-License-Identifier: MIT */
/*
 * A directory of a store, on a simulated disk, one of whose files is hostile. An input says what becomes of
 * it:
 *
 *   byte 0        bits 0-1 which file of its kind, from the newest on
 *                 bit 6: the rest of the input is the file
 *                 bit 7: checksums are made right afterwards, as far as frames follow each other
 *   bytes 1, 2    0, or 1 + the length that the file is cut to
 *   and then      offset (2 bytes), length (2 bytes), that many bytes; as often as there are
 *
 * Numbers have their low byte first. Whatever it is: it opens, or says why not; what it gives are states that
 * make sense; doctors read it, and what they have repaired can be started from.
 */
#ifndef WEIR_TESTS_FUZZ_STORE_DIR_H
#define WEIR_TESTS_FUZZ_STORE_DIR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "disk_sim.h"
#include "must.h"
#include "os/boot.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/files.h"
#include "store/frame.h"
#include "store/inspect.h"
#include "store/store.h"
#include "unit/data/shelf.h"

#define FILES_MAX 16
#define FILE_MAX  65536

static struct {
    struct {
        char path[128];
        enum file_kind kind;
        unsigned char *bytes;
        uint64_t len;
    } files[FILES_MAX];
    size_t count;
    unsigned char now[FILE_MAX];
    struct shelf shelf;
} good;

static struct store_options options_of(struct sim *sim)
{
    return (struct store_options){.disk = sim_disk(sim),
                                  .path = "data",
                                  .sync = STORE_ALWAYS,
                                  .manual = true,
                                  .no_elapsed = true,
                                  .segment_bytes = 4096};
}

/* NULL: it cannot be started from, and says why. */
static struct store *open_store(struct sim *sim)
{
    struct store_options options = options_of(sim);
    struct store_found found;
    struct weir_error err = {0};
    memset(&good.shelf, 0, sizeof good.shelf);
    good.shelf.region.header = &good.shelf.header;
    struct store *store = weir_store_open(&options, &found, &err);
    MUST(store || err.text[0]);
    if (!store)
        return NULL;
    MUST(weir_store_add(store, SHELF_REGION, &good.shelf.region, 0, &shelf_kind, &good.shelf, &err));
    if (weir_store_replay(store, &found, &err))
        return store;
    MUST(err.text[0]);
    (void)weir_store_close(store, NULL);
    return NULL;
}

static void change(struct store *store)
{
    for (uint64_t i = 0; i < 40; i++) {
        shelf_raise(&good.shelf, i);
        (void)weir_store_commit(store);
    }
    MUST(!weir_store_work(store, STORE_WORK_SYNC));
}

static int keep_file(void *arg, const char *name, uint64_t bytes)
{
    uint64_t number;
    MUST(good.count < FILES_MAX && bytes <= FILE_MAX);
    (void)snprintf(good.files[good.count].path, sizeof good.files->path, "data/%s", name);
    good.files[good.count].kind = weir_file_parse(name, &number);
    const unsigned char *now = sim_bytes(arg, good.files[good.count].path, &good.files[good.count].len);
    unsigned char *copy = malloc(bytes + 1);
    MUST(now && copy);
    memcpy(copy, now, bytes);
    good.files[good.count++].bytes = copy;
    return 0;
}

/* Two images, a log of some segments, a mark. */
static void prepare(void)
{
    struct sim *sim = sim_new(1);
    int dir;
    weir_clock_set(1000 * WEIR_SEC);
    struct store *store = open_store(sim);
    MUST(store && weir_store_start(store, "note", 4, NULL));
    for (int i = 0; i < 2; i++) {
        change(store);
        MUST(weir_store_image(store, NULL));
    }
    change(store);
    MUST(weir_store_close(store, NULL));
    struct disk *disk = sim_disk(sim);
    MUST(disk->open_dir(disk, "data", false, &dir) == 0 && disk->list(disk, dir, keep_file, sim) == 0);
    sim_free(sim);
}

static size_t number(const uint8_t **data, size_t *size)
{
    size_t low = *size > 0 ? (*data)[0] : 0, high = *size > 1 ? (*data)[1] : 0;
    size_t step = *size < 2 ? *size : 2;
    *data += step;
    *size -= step;
    return low | high << 8;
}

/* Gives the length of what is then in good.now. */
static size_t spoil(const unsigned char *bytes, size_t len, const uint8_t *data, size_t size)
{
    memset(good.now, 0, FILE_MAX);
    memcpy(good.now, bytes, len);
    size_t cut = number(&data, &size);
    while (size > 0) {
        size_t offset = number(&data, &size), count = number(&data, &size);
        count = count < size ? count : size;
        if (count > FILE_MAX - offset)
            count = FILE_MAX - offset;
        memcpy(good.now + offset, data, count);
        len = offset + count > len ? offset + count : len;
        data += count;
        size -= count;
    }
    return cut > 0 ? cut - 1 : len;
}

static void seal_all(size_t len)
{
    struct frame_head head;
    for (size_t at = 0; len - at >= sizeof head; at += frame_size(head.bytes)) {
        memcpy(&head, good.now + at, sizeof head);
        if (head.bytes > FRAME_BYTES_MAX || frame_size(head.bytes) > len - at)
            return;
        head.crc = weir_crc32c(0, good.now + at + sizeof head.crc, frame_size(head.bytes) - sizeof head.crc);
        memcpy(good.now + at, &head, sizeof head);
    }
}

/* How many of the same kind are newer. */
static size_t rank(size_t file)
{
    size_t newer = 0;
    for (size_t i = 0; i < good.count; i++)
        newer += good.files[i].kind == good.files[file].kind &&
                 strcmp(good.files[i].path, good.files[file].path) > 0;
    return newer;
}

static struct sim *make_dir(enum file_kind kind, const uint8_t *data, size_t size)
{
    struct sim *sim = sim_new(1);
    struct disk *disk = sim_disk(sim);
    int dir;
    MUST(disk->open_dir(disk, "data", true, &dir) == 0);
    disk->close_dir(disk, dir);
    for (size_t i = 0; i < good.count; i++) {
        const unsigned char *bytes = good.files[i].bytes;
        size_t len = (size_t)good.files[i].len;
        if (good.files[i].kind == kind && rank(i) == (data[0] & 3)) {
            if (data[0] & 0x40) {
                len = size - 1 < FILE_MAX ? size - 1 : FILE_MAX;
                memcpy(good.now, data + 1, len);
            } else {
                len = spoil(bytes, len, data + 1, size - 1);
            }
            if (data[0] & 0x80)
                seal_all(len);
            bytes = good.now;
        }
        MUST(sim_put(sim, good.files[i].path, bytes, len));
    }
    return sim;
}

static void ignore_sentence(void *arg, const char *text)
{
    (void)arg;
    MUST(text[0]);
}

static void look(struct sim *sim, bool can_start)
{
    struct inspect inspect;
    struct weir_error err = {0};
    MUST(weir_inspect(sim_disk(sim), "data", &inspect, &err));
    MUST(inspect.can_start == can_start || !can_start); /* what finds no room is found out by reading it */
    MUST(inspect.can_start || inspect.found.text[0]);
    weir_inspect_free(&inspect);
}

/* Goes on from it, if that is possible, and comes back to what that was. */
static void use(struct sim *sim)
{
    struct store *store = open_store(sim);
    MUST(store != NULL);
    if (!weir_store_start(store, "note", 4, NULL)) {
        (void)weir_store_close(store, NULL);
        return;
    }
    change(store);
    (void)weir_store_image(store, NULL);
    uint64_t value = atomic_load(&good.shelf.values[7]);
    if (!weir_store_close(store, NULL))
        return;
    store = open_store(sim);
    MUST(store && atomic_load(&good.shelf.values[7]) == value);
    (void)weir_store_close(store, NULL);
}

static void run_input(enum file_kind kind, const uint8_t *data, size_t size)
{
    struct weir_error err = {0};
    if (good.count == 0)
        prepare();
    if (size == 0)
        return;
    struct sim *sim = make_dir(kind, data, size);
    struct store *store = open_store(sim);
    bool opened = store != NULL;
    if (store)
        (void)weir_store_close(store, NULL);
    look(sim, opened);
    bool repaired = weir_inspect_repair(sim_disk(sim), "data", ignore_sentence, NULL, &err);
    MUST(repaired || err.text[0]);
    MUST(repaired || !opened);
    if (repaired)
        use(sim);
    sim_free(sim);
}

#endif
