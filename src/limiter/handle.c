/* SPDX-License-Identifier: MIT */
/*
 * A handle: units taken from the limiter in advance, for one thread to spend alone.
 *
 * Law: while a handle with a chunk of c units is open, the limiter's burst is lower by c. Whatever stretch of
 * time one looks at, what the limiter let out of itself in it is at most (B - sum of c) + R * t, and each
 * handle brings at most c from before: B + R * t in all. So a handle needs no deadline and reads no clock.
 *
 * A live change makes all shares void: it gives the limiter another handle_generation, which a handle
 * compares before it spends. What it held counts as spent, and it asks for a share of the new burst. A take
 * that has just compared counts as made before the change.
 *
 * What can be spent lies in a page that a forked child finds wiped (its generation is 0, never that of a
 * limiter), so the same units are not spent twice.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "limiter/balance_limiter.h"
#include "limiter/change.h"
#include "limiter/life.h"
#include "limiter/limiter.h"
#include "os/clock.h"

/* Only its thread touches it. */
struct handle_share {
    int64_t left;
    uint64_t generation;
};

struct weir_handle {
    struct handle_share *share; /* a page of its own */
    struct weir_limiter *limiter;
    int64_t wanted, chunk;
    uint64_t generation; /* the one in which `chunk` was set aside */
};

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- setting a chunk aside, under the lock ---- */

/* How much of the burst can be set aside: half of it at the most, and not for less than two units. */
static int64_t handle_chunk(const struct weir_limiter *limiter, int64_t wanted)
{
    const struct limit *limit = &limiter->policy->limits[0];
    if (limiter->paused || limiter->policy->count != 1 || limit->spec.algo != WEIR_TOKEN_BUCKET)
        return 0;
    int64_t chunk = min64(wanted, limit->burst / 2);
    return chunk < 2 ? 0 : chunk;
}

/* The policy that was set, with `held` units less of burst; in the same step units move out of the limiter or
 * back into it. */
static bool set_held_burst(struct weir_limiter *limiter, int64_t held, int64_t now, int64_t *out)
{
    struct weir_spec spec = limiter->said->limits[0].spec;
    spec.burst -= held;
    spec.initial = min64(spec.initial, spec.burst);
    struct weir_policy *next = weir_policy_from(&spec, 1, NULL);
    if (!next || !weir_limiter_install(limiter, next, now, out)) {
        weir_policy_free(next);
        return false;
    }
    limiter->held = held;
    INVARIANT(8, held >= 0 && limiter->policy->limits[0].burst == limiter->said->limits[0].burst - held);
    return true;
}

/* Takes up to `units` out of the limiter, without a word to the listeners. */
static int64_t take_some(struct weir_limiter *limiter, int64_t units, int64_t now)
{
    struct weir_verdict verdict;
    while (units > 0 && !weir_limiter_ask(limiter, now, units, &verdict))
        units = min64(units - 1, verdict.remaining);
    return max64(units, 0);
}

/* The chunk is filled before it is taken from the burst, so that a full limiter loses nothing. */
static void handle_set_aside(struct weir_handle *handle, int64_t now)
{
    struct weir_limiter *limiter = handle->limiter;
    lock_take(&limiter->lock);
    handle->chunk = handle_chunk(limiter, handle->wanted);
    handle->generation = atom_load(&limiter->handle_generation, memory_order_relaxed);
    *handle->share = (struct handle_share){.generation = handle->generation};
    if (handle->chunk > 0) {
        int64_t taken = handle->chunk;
        if (set_held_burst(limiter, limiter->held + handle->chunk, now, &taken)) {
            handle->share->left = taken;
            limiter->handles++;
        } else {
            handle->chunk = 0; /* out of memory: every take asks the limiter */
        }
    }
    lock_drop(&limiter->lock);
}

/* ---- begin and end ---- */

static struct weir_handle *handle_alloc(void)
{
    struct weir_handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return NULL;
    handle->share = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (handle->share != MAP_FAILED && madvise(handle->share, page_size(), MADV_WIPEONFORK) == 0)
        return handle;
    if (handle->share != MAP_FAILED)
        (void)munmap(handle->share, page_size());
    free(handle);
    return NULL;
}

struct weir_handle *weir_handle_new(struct weir_limiter *limiter, int64_t chunk, struct weir_error *err)
{
    if (!limiter || chunk < 1) {
        weir_error_set(err, EINVAL,
                       limiter ? "a handle takes chunks of 1 unit or more" : "a handle needs a limiter");
        return NULL;
    }
    if (limiter->balance)
        return weir_limiter_balance_refuse(err, "it has no handles, take from the limiter itself"), NULL;
    struct weir_handle *handle = handle_alloc();
    if (!handle) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    handle->limiter = limiter;
    handle->wanted = chunk;
    handle_set_aside(handle, weir_now());
    weir_error_clear(err);
    return handle;
}

/* Raising the burst adds no units; those left come back. */
void weir_handle_free(struct weir_handle *handle)
{
    if (!handle)
        return;
    struct weir_limiter *limiter = handle->limiter;
    const struct handle_share *share = handle->share;
    int64_t out = share->generation == handle->generation ? -share->left : 0;
    INVARIANT(8, share->left >= 0 && -out <= share->left);
    lock_take(&limiter->lock);
    bool valid = handle->generation == atom_load(&limiter->handle_generation, memory_order_relaxed);
    if (handle->chunk > 0 && valid &&
        set_held_burst(limiter, limiter->held - handle->chunk, weir_now(), &out))
        limiter->handles--;
    lock_drop(&limiter->lock);
    (void)munmap(handle->share, page_size());
    free(handle);
}

int64_t weir_handle_chunk(const struct weir_handle *handle)
{
    return handle ? handle->chunk : 0;
}

/* ---- spending ---- */

/* Is the share of this generation, and of this process? */
static bool is_share_valid(const struct weir_handle *handle)
{
    uint64_t generation = atom_load(&handle->limiter->handle_generation, memory_order_relaxed);
    return handle->generation == generation && handle->share->generation == generation;
}

static void renew_share(struct weir_handle *handle, int64_t now)
{
    if (handle->generation != atom_load(&handle->limiter->handle_generation, memory_order_relaxed))
        handle_set_aside(handle, now);
    else /* in a forked child, whose copy of the limiter has the chunk set aside, too */
        *handle->share = (struct handle_share){.generation = handle->generation};
}

/* Fills the share up to a whole chunk, and beyond if n units need more. */
static void refill_share(struct weir_handle *handle, int64_t n, int64_t now)
{
    struct weir_limiter *limiter = handle->limiter;
    struct handle_share *share = handle->share;
    share->left += take_some(limiter, handle->chunk - share->left, now);
    if (n > handle->chunk && n > share->left && weir_limiter_ask(limiter, now, n - share->left, NULL))
        share->left = n;
}

static bool refill_and_take(struct weir_handle *handle, int64_t n, struct weir_verdict *verdict)
{
    int64_t now = weir_now();
    if (!is_share_valid(handle))
        renew_share(handle, now);
    if (handle->chunk == 0)
        return weir_limiter_take_at(handle->limiter, now, n, verdict);
    if (handle->share->left < n)
        refill_share(handle, n, now);
    return handle->share->left >= n;
}

/* What is left here comes on top of what the limiter has; and the limiter knows when more will be there. */
static void describe_handle(const struct weir_handle *handle, int64_t n, bool allowed,
                            struct weir_verdict *verdict)
{
    int64_t left = handle->share->left, missing = allowed ? 1 : n - left;
    bool there = weir_limiter_peek(handle->limiter, missing, verdict);
    verdict->allowed = allowed;
    verdict->remaining = sat_add(verdict->remaining, left);
    if (allowed || there) { /* there: it has just come */
        verdict->reason = allowed ? WEIR_OK : WEIR_LATER;
        verdict->retry_after_ns = 0;
    }
}

static __attribute__((noinline)) bool take_slowly(struct weir_handle *handle, int64_t n,
                                                  struct weir_verdict *verdict)
{
    if (!handle || n < 1)
        return weir_limiter_take(NULL, n, verdict);
    bool allowed = refill_and_take(handle, n, verdict);
    if (handle->chunk == 0)
        return allowed;
    if (allowed)
        handle->share->left -= n;
    INVARIANT(8, handle->share->left >= 0);
    if (verdict)
        describe_handle(handle, n, allowed, verdict);
    limiter_notify(handle->limiter, allowed, n, weir_now(), verdict);
    return allowed;
}

bool weir_handle_take(struct weir_handle *handle, int64_t n, struct weir_verdict *verdict)
{
    if (__builtin_expect(!handle || n < 1, 0))
        return take_slowly(handle, n, verdict);
    struct handle_share *share = handle->share;
    struct weir_limiter *limiter = handle->limiter;
    if (n > share->left ||
        share->generation != atom_load(&limiter->handle_generation, memory_order_relaxed) || verdict ||
        listeners_any(&limiter->listeners))
        return take_slowly(handle, n, verdict);
    share->left -= n;
    return true;
}
