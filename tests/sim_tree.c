/* SPDX-License-Identifier: MIT */
#include "sim_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sim_node *sim_node_new(struct sim *sim, bool is_dir)
{
    struct sim_node *node = calloc(1, sizeof *node);
    if (!node)
        abort();
    node->is_dir = is_dir;
    node->next = sim->nodes;
    sim->nodes = node;
    return node;
}

static void node_free(struct sim_node *node)
{
    sim_file_free(&node->file);
    sim_names_free(&node->names);
    free(node);
}

/* ---- who is reached ---- */

static void reach(struct sim_node *node, bool after_cut);

static void reach_list(const struct sim_list *list, bool after_cut)
{
    for (size_t i = 0; i < list->count; i++)
        reach(list->entries[i].node, after_cut);
}

static void reach(struct sim_node *node, bool after_cut)
{
    if (!node || node->is_reached)
        return;
    node->is_reached = true;
    reach_list(&node->names.now, after_cut);
    if (!after_cut)
        return;
    reach_list(&node->names.safe, after_cut);
    for (size_t i = 0; i < node->names.count; i++)
        reach(node->names.changes[i].node, after_cut);
}

static void mark(const struct sim *sim, bool after_cut)
{
    for (struct sim_node *node = sim->nodes; node; node = node->next)
        node->is_reached = false;
    reach(sim->root, after_cut);
    for (int i = 0; sim->open > 0 && i < SIM_HANDLES; i++)
        reach(sim->handles[i].node, after_cut);
}

void sim_tree_sweep(struct sim *sim)
{
    mark(sim, true);
    for (struct sim_node **at = &sim->nodes; *at;) {
        struct sim_node *node = *at;
        if (node->is_reached) {
            at = &node->next;
            continue;
        }
        *at = node->next;
        node_free(node);
    }
}

void sim_tree_free(struct sim *sim)
{
    while (sim->nodes) {
        struct sim_node *node = sim->nodes;
        sim->nodes = node->next;
        node_free(node);
    }
}

uint64_t sim_tree_used(const struct sim *sim)
{
    uint64_t bytes = 0;
    mark(sim, false);
    for (const struct sim_node *node = sim->nodes; node; node = node->next)
        if (node->is_reached)
            bytes += (node->file.now.size + SIM_SECTOR - 1) / SIM_SECTOR * SIM_SECTOR;
    return bytes;
}

/* ---- paths ---- */

int sim_tree_walk(const struct sim *sim, const char *path, struct sim_node **above, const char **name,
                  struct sim_node **node)
{
    char part[DISK_NAME_MAX];
    *above = NULL;
    *name = "";
    *node = sim->root;
    while (*(path += strspn(path, "/"))) {
        size_t len = strcspn(path, "/");
        if (!*node || !(*node)->is_dir) {
            *above = NULL;
            return *node ? ENOTDIR : ENOENT;
        }
        if (len >= sizeof part)
            return ENAMETOOLONG;
        memcpy(part, path, len);
        part[len] = '\0';
        *above = *node;
        *name = path;
        *node = sim_names_find(&(*above)->names, part);
        path += len;
    }
    return *node ? 0 : ENOENT;
}

/* ---- handles ---- */

int sim_handle_open(struct sim *sim, struct sim_node *node, enum disk_open how, int *number)
{
    for (int i = 0; i < SIM_HANDLES; i++)
        if (!sim->handles[i].node) {
            sim->handles[i] = (struct sim_handle){.node = node, .how = how};
            node->handles++;
            sim->open++;
            *number = sim->life * SIM_HANDLES + i;
            return 0;
        }
    return EMFILE;
}

struct sim_handle *sim_handle_find(struct sim *sim, int number)
{
    if (number < 0 || number / SIM_HANDLES != sim->life)
        return NULL;
    struct sim_handle *handle = &sim->handles[number % SIM_HANDLES];
    return handle->node ? handle : NULL;
}

void sim_handle_close(struct sim *sim, struct sim_handle *handle)
{
    if (handle->has_lock)
        handle->node->is_locked = false;
    handle->node->handles--;
    *handle = (struct sim_handle){0};
    sim->open--;
}

void sim_handles_end(struct sim *sim)
{
    for (int i = 0; i < SIM_HANDLES; i++)
        if (sim->handles[i].node)
            sim_handle_close(sim, &sim->handles[i]);
    sim->life++;
}
