/* SPDX-License-Identifier: MIT */
#include "store/store.h"

#include <errno.h>

#include "base/error.h"

struct store *weir_store_open(const struct store_options *options, struct store_found *found,
                              struct weir_error *err)
{
    (void)options;
    *found = (struct store_found){0};
    weir_error_set(err, ENOSYS, "not in this version");
    return NULL;
}

const void *weir_store_meta(const struct store *store, size_t *len)
{
    (void)store;
    *len = 0;
    return NULL;
}

bool weir_store_add(struct store *store, uint32_t number, struct region *region, int64_t lead_ns,
                    const struct keep_kind *kind, void *owner, struct weir_error *err)
{
    (void)store, (void)number, (void)region, (void)lead_ns, (void)kind, (void)owner, (void)err;
    return false;
}

void weir_store_drop(struct store *store, struct region *region)
{
    (void)store, (void)region;
}

bool weir_store_replay(struct store *store, struct store_found *found, struct weir_error *err)
{
    (void)store, (void)found, (void)err;
    return false;
}

bool weir_store_start(struct store *store, const void *meta, size_t len, struct weir_error *err)
{
    (void)store, (void)meta, (void)len, (void)err;
    return false;
}

int64_t weir_store_offset(const struct store *store)
{
    (void)store;
    return 0;
}

uint64_t weir_store_commit(struct store *store)
{
    (void)store;
    return 0;
}

enum store_may weir_store_may(struct store *store, uint64_t ticket)
{
    (void)store, (void)ticket;
    return STORE_SICK;
}

bool weir_store_wait(struct store *store, uint64_t ticket, int64_t timeout_ns)
{
    (void)store, (void)ticket, (void)timeout_ns;
    return false;
}

bool weir_store_is_well(const struct store *store)
{
    (void)store;
    return false;
}

bool weir_store_note(struct store *store, const void *meta, size_t len)
{
    (void)store, (void)meta, (void)len;
    return false;
}

bool weir_store_image(struct store *store, struct weir_error *err)
{
    (void)store, (void)err;
    return false;
}

bool weir_store_backup(struct store *store, const char *name, struct weir_error *err)
{
    (void)store, (void)name, (void)err;
    return false;
}

void weir_store_state(struct store *store, struct store_state *state)
{
    (void)store;
    *state = (struct store_state){0};
}

bool weir_store_close(struct store *store, struct weir_error *err)
{
    (void)store, (void)err;
    return false;
}

bool weir_store_work(struct store *store, unsigned what)
{
    (void)store, (void)what;
    return false;
}
