/* SPDX-License-Identifier: MIT */
/*
 * The life of a simulated disk, orders to fail, and what a test sees of it and does to it from outside.
 */
#include "disk_sim.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "sim_tree.h"

/* ---- its life ---- */

/* One disk after the other takes the same memory: to hand it back between them would take most of the time.
 */
static void keep_memory(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 25);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 29);
#endif
}

struct sim *sim_new(uint64_t seed)
{
    keep_memory();
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        abort();
    sim->disk = sim_disk_calls;
    sim->rng.state = seed;
    sim->capacity = UINT64_MAX;
    sim->stop_in = sim->abort_in = SIM_NEVER;
    sim->root = sim_node_new(sim, true);
    return sim;
}

void sim_free(struct sim *sim)
{
    if (sim)
        sim_tree_free(sim);
    free(sim);
}

struct disk *sim_disk(struct sim *sim)
{
    return &sim->disk;
}

void sim_kill(struct sim *sim)
{
    sim_handles_end(sim);
    sim_no_faults(sim);
    sim_stop_after(sim, SIM_NEVER);
}

void sim_cut(struct sim *sim, struct rng *rng)
{
    struct rng *lot = rng ? rng : &sim->rng;
    bool frozen = sim->aborted && rng_next(lot) % 4 > 0; /* and nothing that came after that was kept */
    sim_kill(sim);
    sim_abort_after(sim, SIM_NEVER);
    for (struct sim_node *node = sim->nodes; node && frozen; node = node->next)
        sim_file_freeze(&node->file);
    for (struct sim_node *node = sim->nodes; node; node = node->next)
        if (node->is_dir)
            sim_names_lose(&node->names, lot, frozen);
        else
            sim_file_lose(&node->file, lot, true);
    sim_tree_sweep(sim);
}

/* ---- orders ---- */

void sim_stop_after(struct sim *sim, uint64_t calls)
{
    sim->stop_in = calls;
    sim->stopped = calls == 0;
}

bool sim_is_stopped(const struct sim *sim)
{
    return sim->stopped;
}

void sim_fail(struct sim *sim, enum disk_call kind, uint64_t n, int fault, bool for_ever)
{
    sim->order.kind = kind;
    sim->order.left = n;
    sim->order.fault = fault;
    sim->order.for_ever = for_ever;
}

void sim_fail_often(struct sim *sim, enum disk_call kind, uint32_t per_million, int fault)
{
    for (int i = 0; i < DISK_CALLS; i++)
        if (kind == DISK_CALL_ANY || kind == (enum disk_call)i) {
            sim->often[i].per_million = per_million;
            sim->often[i].fault = fault;
        }
}

void sim_no_faults(struct sim *sim)
{
    sim->order.left = 0;
    sim_fail_often(sim, DISK_CALL_ANY, 0, 0);
}

void sim_read_only(struct sim *sim, bool read_only)
{
    sim->read_only = read_only;
}

void sim_abort_after(struct sim *sim, uint64_t calls)
{
    sim->abort_in = calls;
    sim->aborted = calls == 0;
}

bool sim_is_aborted(const struct sim *sim)
{
    return sim->aborted;
}

void sim_capacity(struct sim *sim, uint64_t bytes)
{
    sim->capacity = bytes;
}

/* ---- what has been done ---- */

uint64_t sim_calls(const struct sim *sim, enum disk_call kind)
{
    return sim->calls[kind];
}

uint64_t sim_faults(const struct sim *sim)
{
    return sim->faults;
}

uint64_t sim_used(const struct sim *sim)
{
    return sim_tree_used(sim);
}

int sim_handles(const struct sim *sim)
{
    return sim->open;
}

/* A sum, since the order of names says nothing. */
static uint64_t digest(const struct sim_node *node, uint32_t path)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < node->names.now.count; i++) {
        const struct sim_entry *entry = &node->names.now.entries[i];
        const struct sim_bytes *bytes = &entry->node->file.now;
        uint32_t name = weir_crc32c(path, entry->name, strlen(entry->name) + 1);
        struct rng mixed = {(uint64_t)name << 32 | weir_crc32c(0, bytes->at, bytes->size)};
        sum += rng_next(&mixed) + digest(entry->node, name);
    }
    return sum;
}

uint64_t sim_digest(const struct sim *sim)
{
    return digest(sim->root, 0);
}

/* ---- damage ---- */

static struct sim_file *find_settled(struct sim *sim, const char *path)
{
    struct sim_node *above, *node;
    const char *name;
    if (sim_tree_walk(sim, path, &above, &name, &node) != 0 || node->is_dir)
        return NULL;
    sim_file_settle(&node->file);
    return &node->file;
}

bool sim_flip(struct sim *sim, const char *path, uint64_t bit)
{
    struct sim_file *file = find_settled(sim, path);
    if (!file || bit / 8 >= file->now.size)
        return false;
    file->now.at[bit / 8] ^= (unsigned char)(1U << bit % 8);
    sim_file_settle(file);
    return true;
}

bool sim_zero(struct sim *sim, const char *path, uint64_t sector)
{
    struct sim_file *file = find_settled(sim, path);
    if (!file || sector >= (file->now.size + SIM_SECTOR - 1) / SIM_SECTOR)
        return false;
    uint64_t start = sector * SIM_SECTOR, rest = file->now.size - start;
    memset(file->now.at + start, 0, rest < SIM_SECTOR ? rest : SIM_SECTOR);
    sim_file_settle(file);
    return true;
}

bool sim_shorten(struct sim *sim, const char *path, uint64_t bytes)
{
    struct sim_file *file = find_settled(sim, path);
    if (!file || bytes > file->now.size)
        return false;
    sim_file_resize(file, bytes);
    sim_file_settle(file);
    return true;
}

bool sim_lose(struct sim *sim, const char *path)
{
    struct sim_node *above, *node;
    const char *name;
    if (sim_tree_walk(sim, path, &above, &name, &node) != 0 || !above)
        return false;
    sim_names_change(&above->names, name, "", NULL);
    sim_names_sync(&above->names);
    return true;
}

const unsigned char *sim_bytes(const struct sim *sim, const char *path, uint64_t *len)
{
    struct sim_node *above, *node;
    const char *name;
    if (sim_tree_walk(sim, path, &above, &name, &node) != 0 || node->is_dir)
        return NULL;
    *len = node->file.now.size;
    return node->file.now.at ? node->file.now.at : (const unsigned char *)"";
}

bool sim_put(struct sim *sim, const char *path, const void *bytes, uint64_t len)
{
    struct sim_node *above, *node;
    const char *name;
    if (sim_tree_walk(sim, path, &above, &name, &node) == 0 ? node->is_dir : !above)
        return false;
    node = sim_node_new(sim, false);
    sim_file_write(&node->file, bytes, len, 0);
    sim_file_settle(&node->file);
    sim_names_change(&above->names, "", name, node);
    sim_names_sync(&above->names);
    return true;
}
