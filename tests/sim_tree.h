/* SPDX-License-Identifier: MIT */
/*
 * Directories and files of a simulated disk (disk_sim.h), and what a process has open of them.
 */
#ifndef WEIR_TESTS_SIM_TREE_H
#define WEIR_TESTS_SIM_TREE_H

#include "disk_sim.h"
#include "sim_file.h"
#include "sim_names.h"

#define SIM_HANDLES 1024 /* that a process can have */

struct sim_node { /* a file, or a directory */
    struct sim_node *next;
    bool is_dir, is_locked, is_reached;
    int handles;
    struct sim_file file;
    struct sim_names names;
};

struct sim_handle {
    struct sim_node *node; /* NULL: it is not open */
    enum disk_open how;
    bool has_lock;
};

struct sim {
    struct disk disk; /* first */
    struct rng rng;
    struct sim_node *root, *nodes; /* all of them */
    struct sim_handle handles[SIM_HANDLES];
    int life; /* processes so far: a handle of an earlier one is none */
    int open; /* handles */
    uint64_t calls[DISK_CALLS + 1], faults;
    uint64_t stop_in, abort_in; /* calls */
    bool stopped, aborted, read_only;
    uint64_t capacity;
    struct {
        enum disk_call kind;
        uint64_t left; /* calls of that kind up to the one that fails; 0: none does */
        int fault;
        bool for_ever;
    } order;
    struct {
        uint32_t per_million;
        int fault;
    } often[DISK_CALLS];
};

extern const struct disk sim_disk_calls; /* what it does */

struct sim_node *sim_node_new(struct sim *sim, bool is_dir);
/* Frees what no name and no handle leads to, also none that a power cut could bring back. */
void sim_tree_sweep(struct sim *sim);
void sim_tree_free(struct sim *sim);
/* The node of a path, and of the directory above it, with the last name; an errno. ENOENT: *above and *name
 * are set if that directory is there. */
int sim_tree_walk(const struct sim *sim, const char *path, struct sim_node **above, const char **name,
                  struct sim_node **node);
/* Bytes of what has a name now, or is open. */
uint64_t sim_tree_used(const struct sim *sim);

int sim_handle_open(struct sim *sim, struct sim_node *node, enum disk_open how, int *number);
struct sim_handle *sim_handle_find(struct sim *sim, int number); /* NULL: EBADF */
void sim_handle_close(struct sim *sim, struct sim_handle *handle);
void sim_handles_end(struct sim *sim); /* with the process */

#endif
