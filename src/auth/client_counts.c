/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L

#include "auth/client_counts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

#define CHAINS                4096 /* of groups; a power of 2 */
#define UNAUTHENTICATED_LEAST 32
#define UNAUTHENTICATED_PART  4
#define KEPT_PART             16
#define LOOKED_AT             64 /* of the oldest unauthenticated clients, one goes */

/* The clients of one source, or those that have logged in as one user. There as long as there is one. */
struct client_group {
    struct client_group *next; /* of its chain */
    bool user;
    char name[SOURCE_MAX];
    int64_t all, unauthenticated, dropped; /* of a user only `all` */
};
_Static_assert(CONFIG_NAME_MAX < SOURCE_MAX, "a user's name fits, too");

struct client_counts {
    pthread_mutex_t mutex;
    struct hash_key key;
    struct client_group *groups[CHAINS];
    struct client_entry *oldest, *newest;
    int64_t all, unauthenticated, ordinary, logged_in, dropped;
};

int64_t weir_unauthenticated_max(int64_t most)
{
    int64_t part = most / UNAUTHENTICATED_PART;
    return part > UNAUTHENTICATED_LEAST ? part : UNAUTHENTICATED_LEAST;
}

int64_t weir_admin_places(int64_t most)
{
    return most / KEPT_PART;
}

struct client_counts *weir_client_counts_new(void)
{
    struct client_counts *counts = calloc(1, sizeof *counts);
    if (!counts || pthread_mutex_init(&counts->mutex, NULL) != 0) {
        free(counts);
        return NULL;
    }
    counts->key = weir_hash_key();
    return counts;
}

void weir_client_counts_free(struct client_counts *counts)
{
    if (!counts)
        return;
    (void)pthread_mutex_destroy(&counts->mutex);
    free(counts);
}

/* docs/internals/server.md, 36: counts are never negative, and no client counts twice. */
static void check_counts(const struct client_counts *counts)
{
#if WEIR_ASSERTIONS
    int64_t listed = 0;
    for (const struct client_entry *at = counts->oldest; at && listed <= LOOKED_AT; at = at->newer) {
        INVARIANT(36, at->unauthenticated && !at->dropped);
        INVARIANT(36, at->newer ? at->newer->older == at : at == counts->newest);
        listed++;
    }
    INVARIANT(36, listed == counts->unauthenticated || listed > LOOKED_AT);
    INVARIANT(36, counts->dropped >= 0 && counts->unauthenticated + counts->dropped <= counts->all);
    INVARIANT(36, counts->ordinary >= 0 && counts->ordinary <= counts->all);
    INVARIANT(36, counts->logged_in >= 0 && counts->logged_in <= counts->all);
#else
    (void)counts;
#endif
}

/* ---- groups ---- */

static struct client_group **group_chain(struct client_counts *counts, const char *name)
{
    return &counts->groups[weir_hash(&counts->key, name, strlen(name)) % CHAINS];
}

static struct client_group *find_group(struct client_counts *counts, bool user, const char *name)
{
    struct client_group **chain = group_chain(counts, name);
    for (struct client_group *at = *chain; at; at = at->next)
        if (at->user == user && strcmp(at->name, name) == 0)
            return at;
    struct client_group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    (void)snprintf(group->name, sizeof group->name, "%s", name);
    group->user = user;
    group->next = *chain;
    return *chain = group;
}

static void release_group(struct client_counts *counts, struct client_group *group)
{
    INVARIANT(36, group->all >= 0 && group->all <= counts->all + 1);
    INVARIANT(36, group->dropped >= 0 && group->unauthenticated + group->dropped <= group->all);
    if (group->all > 0)
        return;
    struct client_group **at = group_chain(counts, group->name);
    while (*at != group)
        at = &(*at)->next;
    *at = group->next;
    free(group);
}

/* ---- unauthenticated clients ---- */

static void set_unauthenticated(struct client_counts *counts, struct client_entry *client,
                                bool unauthenticated)
{
    if (client->unauthenticated == unauthenticated)
        return;
    client->unauthenticated = unauthenticated;
    counts->unauthenticated += unauthenticated ? 1 : -1;
    client->source->unauthenticated += unauthenticated ? 1 : -1;
    if (unauthenticated) {
        client->older = counts->newest;
        client->newer = NULL;
        *(counts->newest ? &counts->newest->newer : &counts->oldest) = client;
        counts->newest = client;
    } else {
        *(client->older ? &client->older->newer : &counts->oldest) = client->newer;
        *(client->newer ? &client->newer->older : &counts->newest) = client->older;
    }
}

static void set_ordinary(struct client_counts *counts, struct client_entry *client, bool ordinary)
{
    counts->ordinary += (int64_t)ordinary - client->ordinary;
    client->ordinary = ordinary;
}

/* Of the oldest unauthenticated clients, the one that goes for another: of the source that has the most.
 * `source` NULL: any. */
static struct client_entry *choose_client_to_drop(const struct client_counts *counts,
                                                  const struct client_group *source)
{
    struct client_entry *chosen = NULL;
    int looked_at = 0;
    for (struct client_entry *at = counts->oldest; at && looked_at < LOOKED_AT; at = at->newer) {
        if (source && at->source != source)
            continue;
        if (!chosen || at->source->unauthenticated > chosen->source->unauthenticated)
            chosen = at;
        looked_at++;
        if (source)
            break;
    }
#if WEIR_ASSERTIONS
    bool older = true; /* than the chosen one */
    const struct client_entry *at = source ? NULL : counts->oldest;
    for (int i = 0; at && i < LOOKED_AT; at = at->newer, i++) {
        older = older && at != chosen;
        int64_t more = at->source->unauthenticated - chosen->source->unauthenticated;
        ASSERT(older ? more < 0 : more <= 0);
    }
#endif
    return chosen;
}

static void mark_dropped(struct client_counts *counts, struct client_entry *client)
{
    ASSERT(client->unauthenticated && !client->user);
    set_unauthenticated(counts, client, false);
    client->dropped = true;
    counts->dropped++;
    client->source->dropped++;
}

/* ---- coming and going ---- */

static enum admission make_room_for_client(struct client_counts *counts,
                                           const struct client_count_limits *limits,
                                           const struct client_group *source, bool unauthenticated,
                                           client_drop *drop)
{
    bool full = counts->all - counts->dropped >= limits->most;
    bool strange = unauthenticated && counts->unauthenticated >= weir_unauthenticated_max(limits->most);
    bool crowded = limits->per_address > 0 && source->all - source->dropped >= limits->per_address;
    if (!full && !strange && !crowded)
        return ADMISSION_FREE;
    struct client_entry *client = choose_client_to_drop(counts, crowded ? source : NULL);
    if (!client) { /* an unauthenticated client never keeps another one out */
        INVARIANT(36, crowded ? source->unauthenticated == 0 : counts->unauthenticated == 0);
        return crowded ? ADMISSION_ADDRESS_FULL : ADMISSION_REFUSED;
    }
    mark_dropped(counts, client);
    drop(client);
    return ADMISSION_FREE;
}

static enum admission admit_client(struct client_counts *counts, const struct client_count_limits *limits,
                                   struct client_entry *client, struct client_group *source,
                                   enum client_kind kind, client_drop *drop)
{
    bool kept = kind == CLIENT_ORDINARY && counts->ordinary >= limits->most - weir_admin_places(limits->most);
    bool unauthenticated = kind == CLIENT_UNAUTHENTICATED || kept;
    enum admission entry = make_room_for_client(counts, limits, source, unauthenticated, drop);
    if (entry != ADMISSION_FREE)
        return entry;
    *client = (struct client_entry){.source = source};
    counts->all++;
    source->all++;
    set_unauthenticated(counts, client, unauthenticated);
    set_ordinary(counts, client, kind == CLIENT_ORDINARY && !kept);
    INVARIANT(36, counts->all - counts->dropped <= limits->most);
    INVARIANT(36, limits->per_address == 0 || source->all - source->dropped <= limits->per_address);
    return kept ? ADMISSION_ADMIN_ONLY : ADMISSION_FREE;
}

enum admission weir_client_counts_enter(struct client_counts *counts,
                                        const struct client_count_limits *limits, struct client_entry *client,
                                        const char *address, enum client_kind kind, client_drop *drop)
{
    char name[SOURCE_MAX];
    weir_source_of(address, name);
    (void)pthread_mutex_lock(&counts->mutex);
    struct client_group *source = find_group(counts, false, name);
    enum admission entry =
        source ? admit_client(counts, limits, client, source, kind, drop) : ADMISSION_REFUSED;
    if (source)
        release_group(counts, source);
    check_counts(counts);
    (void)pthread_mutex_unlock(&counts->mutex);
    return entry;
}

static void log_out_client(struct client_counts *counts, struct client_entry *client)
{
    struct client_group *user = client->user;
    set_ordinary(counts, client, false);
    client->user = NULL;
    if (user) {
        user->all--;
        counts->logged_in--;
        INVARIANT(36, user->all <= counts->logged_in);
        release_group(counts, user);
    }
}

void weir_client_counts_leave(struct client_counts *counts, struct client_entry *client)
{
    struct client_group *source = client->source;
    if (!source)
        return;
    (void)pthread_mutex_lock(&counts->mutex);
    log_out_client(counts, client);
    set_unauthenticated(counts, client, false);
    counts->all--;
    source->all--;
    if (client->dropped) {
        counts->dropped--;
        source->dropped--;
    }
    release_group(counts, source);
    client->source = NULL;
    check_counts(counts);
    (void)pthread_mutex_unlock(&counts->mutex);
}

/* ---- logging in and out ---- */

static bool may_log_in(const struct client_counts *counts, const struct client_count_limits *limits,
                       const struct client_entry *client, const struct client_group *user, bool admin)
{
    if (admin || client->user == user)
        return true;
    if (limits->per_user > 0 && user->all >= limits->per_user)
        return false;
    return client->ordinary || counts->ordinary < limits->most - weir_admin_places(limits->most);
}

static void log_in_client(struct client_counts *counts, struct client_entry *client,
                          struct client_group *user, bool admin)
{
    user->all++; /* first, so that it stays if it is the same */
    counts->logged_in++;
    log_out_client(counts, client);
    client->user = user;
    set_ordinary(counts, client, !admin);
    set_unauthenticated(counts, client, false);
}

bool weir_client_counts_log_in(struct client_counts *counts, const struct client_count_limits *limits,
                               struct client_entry *client, const char *name, bool admin)
{
    if (!client->source)
        return true;
    (void)pthread_mutex_lock(&counts->mutex);
    struct client_group *user = find_group(counts, true, name);
    bool had = client->ordinary, again = user && client->user == user;
    bool may = user && may_log_in(counts, limits, client, user, admin);
    if (may)
        log_in_client(counts, client, user, admin);
    else if (user)
        release_group(counts, user);
    if (may && !admin && !again) { /* users that are no admins leave some places free */
        INVARIANT(36, limits->per_user == 0 || user->all <= limits->per_user);
        INVARIANT(36, had || counts->ordinary <= limits->most - weir_admin_places(limits->most));
    }
    check_counts(counts);
    (void)pthread_mutex_unlock(&counts->mutex);
    return may;
}

static void set_kind(struct client_counts *counts, struct client_entry *client, enum client_kind kind)
{
    if (client->dropped)
        return;
    set_unauthenticated(counts, client, kind == CLIENT_UNAUTHENTICATED);
    if (!client->user)
        set_ordinary(counts, client, kind == CLIENT_ORDINARY);
    INVARIANT(36, client->user || client->ordinary == (kind == CLIENT_ORDINARY));
    check_counts(counts);
}

void weir_client_counts_log_out(struct client_counts *counts, struct client_entry *client,
                                enum client_kind kind)
{
    if (!client->source)
        return;
    (void)pthread_mutex_lock(&counts->mutex);
    log_out_client(counts, client);
    set_kind(counts, client, kind);
    (void)pthread_mutex_unlock(&counts->mutex);
}

void weir_client_counts_set_kind(struct client_counts *counts, struct client_entry *client,
                                 enum client_kind kind)
{
    (void)pthread_mutex_lock(&counts->mutex);
    if (client->source)
        set_kind(counts, client, kind);
    (void)pthread_mutex_unlock(&counts->mutex);
}

struct client_count_totals weir_client_counts_read(struct client_counts *counts)
{
    (void)pthread_mutex_lock(&counts->mutex);
    struct client_count_totals count = {counts->all, counts->unauthenticated, counts->dropped};
    (void)pthread_mutex_unlock(&counts->mutex);
    return count;
}
