/* SPDX-License-Identifier: MIT */
#include "sim_file.h"

#include <stdlib.h>
#include <string.h>

#include "disk_sim.h"

#define SIM_ZEROS   UINT64_MAX
#define WRITTEN_MAX (UINT64_C(64) << 20) /* then the kernel writes it out without being asked */

static void reserve(struct sim_bytes *bytes, uint64_t room)
{
    if (room <= bytes->room)
        return;
    uint64_t larger = bytes->room < 4096 ? 4096 : bytes->room;
    while (larger < room)
        larger *= 2;
    bytes->at = realloc(bytes->at, larger);
    if (!bytes->at)
        abort();
    memset(bytes->at + bytes->room, 0, larger - bytes->room);
    bytes->room = larger;
}

static void resize(struct sim_bytes *bytes, uint64_t size)
{
    reserve(bytes, size);
    if (size < bytes->size)
        memset(bytes->at + size, 0, bytes->size - size);
    bytes->size = size;
}

static void copy(struct sim_bytes *to, const struct sim_bytes *from)
{
    resize(to, from->size);
    if (from->size > 0)
        memcpy(to->at, from->at, from->size);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void sim_file_free(struct sim_file *file)
{
    free(file->now.at);
    free(file->safe.at);
    free(file->written.at);
    free(file->writes);
}

/* ---- writes ---- */

static void note(struct sim_file *file, uint64_t offset, uint64_t len, const void *bytes)
{
    if (file->written.size + len > WRITTEN_MAX)
        sim_file_sync(file);
    if (file->count == file->space) {
        file->space = file->space ? 2 * file->space : 64;
        file->writes = realloc(file->writes, file->space * sizeof *file->writes);
        if (!file->writes)
            abort();
    }
    struct sim_write *write = &file->writes[file->count++];
    *write = (struct sim_write){offset, len, SIM_ZEROS};
    if (!bytes)
        return;
    write->from = file->written.size;
    resize(&file->written, file->written.size + len);
    memcpy(file->written.at + write->from, bytes, len);
}

static void note_size(struct sim_file *file)
{
    file->smallest = smaller(file->smallest, file->now.size);
    file->largest = larger(file->largest, file->now.size);
}

void sim_file_write(struct sim_file *file, const void *bytes, uint64_t len, uint64_t offset)
{
    if (len == 0)
        return;
    note(file, offset, len, bytes);
    resize(&file->now, larger(file->now.size, offset + len));
    memcpy(file->now.at + offset, bytes, len);
    note_size(file);
}

void sim_file_resize(struct sim_file *file, uint64_t size)
{
    if (size < file->now.size)
        note(file, size, file->now.size - size, NULL);
    resize(&file->now, size);
    note_size(file);
}

/* ---- what is kept of them ---- */

static void apply(struct sim_file *file, const struct sim_write *write, uint64_t start, uint64_t end)
{
    if (write->from == SIM_ZEROS)
        memset(file->safe.at + start, 0, end - start);
    else
        memcpy(file->safe.at + start, file->written.at + write->from + (start - write->offset), end - start);
}

static void begin_anew(struct sim_file *file)
{
    file->count = 0;
    file->written.size = 0; /* not resize: nobody reads what is behind */
    file->smallest = smaller(file->safe.size, file->now.size);
    file->largest = larger(file->safe.size, file->now.size);
}

static uint64_t furthest(const struct sim_file *file)
{
    uint64_t end = larger(file->safe.size, file->largest);
    for (size_t i = 0; i < file->count; i++)
        end = larger(end, file->writes[i].offset + file->writes[i].len);
    return end;
}

void sim_file_sync(struct sim_file *file)
{
    resize(&file->safe, furthest(file));
    for (size_t i = 0; i < file->count; i++)
        apply(file, &file->writes[i], file->writes[i].offset, file->writes[i].offset + file->writes[i].len);
    resize(&file->safe, file->now.size);
    begin_anew(file);
}

void sim_file_sync_in_place(struct sim_file *file)
{
    size_t left = 0;
    for (size_t i = 0; i < file->count; i++) {
        struct sim_write write = file->writes[i];
        uint64_t end = write.offset + write.len, safe = smaller(end, file->safe.size);
        uint64_t done = safe > write.offset ? safe - write.offset : 0;
        if (done > 0)
            apply(file, &write, write.offset, safe);
        write.offset += done;
        write.len -= done;
        write.from += write.from == SIM_ZEROS ? 0 : done;
        if (write.len > 0)
            file->writes[left++] = write;
    }
    file->count = left;
}

void sim_file_freeze(struct sim_file *file)
{
    size_t left = 0;
    for (size_t i = 0; i < file->count; i++) {
        struct sim_write write = file->writes[i];
        if (write.offset >= file->safe.size)
            continue;
        write.len = smaller(write.len, file->safe.size - write.offset);
        file->writes[left++] = write;
    }
    file->count = left;
    resize(&file->now, file->safe.size);
    file->smallest = file->largest = file->safe.size;
}

void sim_file_settle(struct sim_file *file)
{
    copy(&file->safe, &file->now);
    begin_anew(file);
}

/* ---- what is lost of them ---- */

/* Any mixture can happen. Those that are all of one kind are rare among all mixtures, and find the most. */
enum mood { ALL, NOTHING, THE_FIRST, MIXED, ALMOST_ALL, MOODS };

struct sector {
    uint32_t versions; /* that were seen so far, the one on the disk not counted */
    uint32_t upto;     /* so many writes of the file are in it, as far as they touch it */
};

/* Any version of each sector, all as likely: each that comes replaces the choice with its share of the
 * chance. */
static void choose_any(const struct sim_file *file, struct sector *sectors, struct rng *rng, bool often_last)
{
    for (size_t i = 0; i < file->count; i++) {
        uint64_t first = file->writes[i].offset / SIM_SECTOR;
        uint64_t last = (file->writes[i].offset + file->writes[i].len - 1) / SIM_SECTOR;
        for (uint64_t s = first; s <= last; s++) {
            uint64_t lot = rng_next(rng);
            sectors[s].versions++;
            if (lot % (sectors[s].versions + 1) == 0 || (often_last && lot >> 60 != 0))
                sectors[s].upto = (uint32_t)i + 1;
        }
    }
}

static void choose(const struct sim_file *file, struct sector *sectors, uint64_t count, enum mood mood,
                   struct rng *rng)
{
    uint32_t whole = mood == ALL ? (uint32_t)file->count : 0;
    if (mood == THE_FIRST && file->count > 0)
        whole = (uint32_t)rng_between(rng, 0, (int64_t)file->count - 1);
    if (mood == MIXED || mood == ALMOST_ALL)
        choose_any(file, sectors, rng, mood == ALMOST_ALL);
    else /* THE_FIRST: the write that was under way is in some sectors */
        for (uint64_t s = 0; s < count; s++)
            sectors[s].upto = whole + (mood == THE_FIRST ? (uint32_t)(rng_next(rng) >> 63) : 0);
}

static void apply_chosen(struct sim_file *file, const struct sector *sectors)
{
    for (size_t i = 0; i < file->count; i++) {
        const struct sim_write *write = &file->writes[i];
        uint64_t end = write->offset + write->len;
        for (uint64_t at = write->offset; at < end;) {
            uint64_t next = smaller((at / SIM_SECTOR + 1) * SIM_SECTOR, end);
            if (i < sectors[at / SIM_SECTOR].upto)
                apply(file, write, at, next);
            at = next;
        }
    }
}

static uint64_t choose_size(const struct sim_file *file, enum mood mood, struct rng *rng)
{
    uint64_t lot = rng_next(rng) % 4;
    if (mood == ALL && lot > 0)
        return file->now.size;
    if (mood == NOTHING && lot > 0)
        return file->safe.size;
    if (lot == 1)
        return file->smallest;
    if (lot == 2)
        return file->largest;
    return (uint64_t)rng_between(rng, (int64_t)file->smallest, (int64_t)file->largest);
}

void sim_file_lose(struct sim_file *file, struct rng *rng, bool seen)
{
    if (file->count > 0 || file->smallest != file->largest) {
        enum mood mood = (enum mood)(rng_next(rng) % MOODS);
        uint64_t size = choose_size(file, mood, rng), end = furthest(file), count = end / SIM_SECTOR + 1;
        struct sector *sectors = calloc(count, sizeof *sectors);
        if (!sectors)
            abort();
        resize(&file->safe, end);
        choose(file, sectors, count, mood, rng);
        apply_chosen(file, sectors);
        resize(&file->safe, size);
        free(sectors);
    }
    if (seen)
        copy(&file->now, &file->safe);
    begin_anew(file);
}
