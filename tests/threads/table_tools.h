/* SPDX-License-Identifier: MIT */
/*
 * For tests of tables in the hands of many threads and processes: tables whose keys are numbers, memory that
 * processes share, and a look at the slots as they are.
 *
 * Time is a number that these tests move by themselves; nobody reads a clock.
 */
#ifndef WEIR_TESTS_THREADS_TABLE_TOOLS_H
#define WEIR_TESTS_THREADS_TABLE_TOOLS_H

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "table/slots.h"
#include "table/wide.h"
#include "threads/team.h"

#define START (INT64_C(1000) * WEIR_SEC)

#define TOOL __attribute__((unused)) static

/* ---- tables ---- */

/* `path` NULL: in memory. No memory, a wrong text: stops the program. */
TOOL struct weir_table *table_open(const char *path, const char *limits, struct weir_table_options options)
{
    struct weir_error err;
    struct weir_table *table = weir_table_make(path, limits, &options, &err);
    if (!table) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return table;
}

TOOL bool take(struct weir_table *table, uint64_t key, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    return weir_table_take_at(table, now, &key, sizeof key, n, verdict);
}

TOOL int64_t take_until_refused(struct weir_table *table, uint64_t key, int64_t now)
{
    int64_t taken = 0;
    while (take(table, key, now, 1, NULL))
        taken++;
    return taken;
}

TOOL struct weir_ask ask_for(struct weir_table *table, const uint64_t *key, int64_t n)
{
    return (struct weir_ask){.table = table, .key = key, .len = sizeof *key, .n = n};
}

/* ---- slots as they are ---- */

struct copies {
    size_t live, tentative;
};

static inline bool is_wide(const struct weir_table *table)
{
    return table->kind == &weir_table_wide;
}

/* Entries of a key, while nobody else uses the table. */
TOOL struct copies copies_of(struct weir_table *table, uint64_t key)
{
    struct copies copies = {0, 0};
    uint64_t hash = table_hash(table, &key, sizeof key), segments = region_segments(table->region);
    const struct region_shape *shape = &table->region->header->shape;
    for (uint64_t s = 0; s < segments; s++) {
        const struct segment *segment = &table->region->segments[s];
        for (uint64_t i = 0; i < segment->lines * shape->line_slots; i++) {
            const struct slot *slot = (const void *)(segment->slots + i * shape->slot_size);
            if (atom_load((const atom64 *)(const void *)slot, memory_order_seq_cst) != hash)
                continue;
            bool tentative = !is_wide(table) && slot_kind(slot_word(slot)) == SLOT_TENTATIVE;
            copies.live += !tentative;
            copies.tentative += tentative;
        }
    }
    return copies;
}

struct sight {
    const struct slot *slot;
    uint64_t word;
};

static inline bool is_still_there(const struct sight *sight, uint64_t hash)
{
    return sight->slot && slot_hash(sight->slot) == hash && slot_word(sight->slot) == sight->word;
}

/*
 * Is the key there twice, while others go on? It may go from a slot that was looked at and come in at one
 * that is still to be looked at. So the second sight counts only if the first is still what it was: a key
 * that goes and comes again has a later word.
 */
TOOL bool lives_twice(struct weir_table *table, uint64_t key)
{
    struct sight first = {NULL, 0};
    uint64_t hash = table_hash(table, &key, sizeof key), segments = region_segments(table->region);
    for (uint64_t s = 0; s < segments; s++) {
        const struct segment *segment = &table->region->segments[s];
        for (uint64_t i = 0; i < segment->lines * LINE_SLOTS; i++) {
            const struct slot *slot = region_slot(segment, i);
            if (slot_hash(slot) != hash)
                continue;
            struct sight sight = {slot, slot_word(slot)};
            if (slot_kind(sight.word) == SLOT_TENTATIVE || !is_still_there(&sight, hash))
                continue;
            if (is_still_there(&first, hash))
                return true;
            first = sight;
        }
    }
    return false;
}

/* ---- processes ---- */

/* Memory that this process and its children share. */
TOOL void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

/* The path of a file that is not there, until the next call. */
TOOL const char *table_path(void)
{
    static char path[64];
    static int count;
    (void)snprintf(path, sizeof path, "%s/weir-threads-%d-%d",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid(), ++count);
    (void)unlink(path);
    return path;
}

/* Runs `body` in so many processes at once, each with a number from 0 on; it gives 0 if all was well. They
 * end as programs do, so that a sanitizer has its say. */
TOOL void run_processes(int count, int (*body)(size_t self, void *arg), void *arg)
{
    pid_t children[8];
    fflush(stdout);
    for (int i = 0; i < count; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            (void)alarm(team_patience()); /* the watchdog of the parent is not inherited */
            exit(body((size_t)i, arg));
        }
    }
    for (int i = 0; i < count; i++) {
        int status = 0;
        CHECK(children[i] > 0 && waitpid(children[i], &status, 0) == children[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

#endif
