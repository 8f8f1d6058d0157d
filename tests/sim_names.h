/* SPDX-License-Identifier: MIT */
/*
 * The names in a directory of a simulated disk (disk_sim.h): as they surely are, and what was done to them
 * since.
 */
#ifndef WEIR_TESTS_SIM_NAMES_H
#define WEIR_TESTS_SIM_NAMES_H

#include <stddef.h>

#include "os/disk.h"
#include "rng.h"

struct sim_node;

struct sim_entry {
    char name[DISK_NAME_MAX];
    struct sim_node *node;
};

struct sim_list {
    struct sim_entry *entries;
    size_t count, space;
};

struct sim_change { /* first nobody has the name `gone`, then `node` has the name `name`; "": no such part */
    char gone[DISK_NAME_MAX], name[DISK_NAME_MAX];
    struct sim_node *node;
};

struct sim_names {
    struct sim_list now, safe;
    struct sim_change *changes; /* that lead from `safe` to `now` */
    size_t count, space;
};

void sim_names_free(struct sim_names *names);
/* Who has that name; NULL: nobody. */
struct sim_node *sim_names_find(const struct sim_names *names, const char *name);
void sim_names_change(struct sim_names *names, const char *gone, const char *name, struct sim_node *node);
void sim_names_sync(struct sim_names *names);
/* A sync that fails: some changes are safe, the others are still to be. */
void sim_names_sync_some(struct sim_names *names, struct rng *rng);
/* A power cut: the others are gone. `all`: nothing was kept since the last sync. */
void sim_names_lose(struct sim_names *names, struct rng *rng, bool all);

#endif
