/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L

#include "auth/client_counts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define CHAINS                4096 /* of sources; a power of 2 */
#define UNAUTHENTICATED_LEAST 32
#define UNAUTHENTICATED_PART  4
#define KEPT_PART             16
#define LOOKED_AT             64 /* of the oldest unauthenticated clients, one goes */

struct client_source {
    struct client_source *next; /* of its chain */
    char text[SOURCE_MAX];
    int64_t all, unauthenticated, dropped;
};

struct client_user {
    struct client_user *next;
    char name[CONFIG_NAME_MAX + 1];
    int64_t all;
};

struct client_counts {
    pthread_mutex_t mutex;
    struct hash_key key;
    struct client_source *sources[CHAINS];
    struct client_user *users; /* those who are here; a file has few */
    struct client_entry *oldest, *newest;
    int64_t all, unauthenticated, ordinary, dropped;
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
    struct client_counts *client_counts = calloc(1, sizeof *client_counts);
    if (!client_counts || pthread_mutex_init(&client_counts->mutex, NULL) != 0) {
        free(client_counts);
        return NULL;
    }
    client_counts->key = weir_hash_key();
    return client_counts;
}

void weir_client_counts_free(struct client_counts *client_counts)
{
    if (!client_counts)
        return;
    (void)pthread_mutex_destroy(&client_counts->mutex);
    free(client_counts);
}

/* ---- sources and users: there as long as somebody is ---- */

static struct client_source **source_chain(struct client_counts *client_counts, const char *text)
{
    return &client_counts->sources[weir_hash(&client_counts->key, text, strlen(text)) % CHAINS];
}

static struct client_source *find_source(struct client_counts *client_counts, const char *address)
{
    char text[SOURCE_MAX];
    weir_source_of(address, text);
    struct client_source **chain = source_chain(client_counts, text);
    for (struct client_source *at = *chain; at; at = at->next)
        if (strcmp(at->text, text) == 0)
            return at;
    struct client_source *source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    memcpy(source->text, text, sizeof text);
    source->next = *chain;
    return *chain = source;
}

static void release_source(struct client_counts *client_counts, struct client_source *source)
{
    if (source->all > 0)
        return;
    struct client_source **at = source_chain(client_counts, source->text);
    while (*at != source)
        at = &(*at)->next;
    *at = source->next;
    free(source);
}

static struct client_user *find_user_count(struct client_counts *client_counts, const char *name)
{
    for (struct client_user *at = client_counts->users; at; at = at->next)
        if (strcmp(at->name, name) == 0)
            return at;
    struct client_user *user = calloc(1, sizeof *user);
    if (!user)
        return NULL;
    (void)snprintf(user->name, sizeof user->name, "%s", name);
    user->next = client_counts->users;
    return client_counts->users = user;
}

static void release_user(struct client_counts *client_counts, struct client_user *user)
{
    if (user->all > 0)
        return;
    struct client_user **at = &client_counts->users;
    while (*at != user)
        at = &(*at)->next;
    *at = user->next;
    free(user);
}

/* ---- unauthenticated clients ---- */

static void set_unauthenticated(struct client_counts *client_counts, struct client_entry *client_entry,
                                bool unauthenticated)
{
    if (client_entry->unauthenticated == unauthenticated)
        return;
    client_entry->unauthenticated = unauthenticated;
    client_counts->unauthenticated += unauthenticated ? 1 : -1;
    client_entry->source->unauthenticated += unauthenticated ? 1 : -1;
    if (unauthenticated) {
        client_entry->older = client_counts->newest;
        client_entry->newer = NULL;
        *(client_counts->newest ? &client_counts->newest->newer : &client_counts->oldest) = client_entry;
        client_counts->newest = client_entry;
    } else {
        *(client_entry->older ? &client_entry->older->newer : &client_counts->oldest) = client_entry->newer;
        *(client_entry->newer ? &client_entry->newer->older : &client_counts->newest) = client_entry->older;
    }
}

static void set_ordinary(struct client_counts *client_counts, struct client_entry *client_entry,
                         bool ordinary)
{
    client_counts->ordinary += (int64_t)ordinary - client_entry->ordinary;
    client_entry->ordinary = ordinary;
}

/* Who has to go for another one: of the oldest, one of the source that has the most. `source` NULL: any. */
static struct client_entry *choose_client_to_drop(const struct client_counts *client_counts,
                                                  const struct client_source *source)
{
    struct client_entry *chosen = NULL;
    int looked_at = 0;
    for (struct client_entry *at = client_counts->oldest; at && looked_at < LOOKED_AT; at = at->newer) {
        if (source && at->source != source)
            continue;
        if (!chosen || at->source->unauthenticated > chosen->source->unauthenticated)
            chosen = at;
        looked_at++;
        if (source)
            break;
    }
    return chosen;
}

static void mark_dropped(struct client_counts *client_counts, struct client_entry *client_entry)
{
    set_unauthenticated(client_counts, client_entry, false);
    client_entry->dropped = true;
    client_counts->dropped++;
    client_entry->source->dropped++;
}

/* ---- coming and going ---- */

static enum admission make_room_for_client(struct client_counts *client_counts,
                                           const struct client_count_limits *limits,
                                           const struct client_source *source, bool unauthenticated,
                                           client_drop *drop)
{
    bool full = client_counts->all - client_counts->dropped >= limits->most;
    bool strange =
        unauthenticated && client_counts->unauthenticated >= weir_unauthenticated_max(limits->most);
    bool crowded = limits->per_address > 0 && source->all - source->dropped >= limits->per_address;
    if (!full && !strange && !crowded)
        return ADMISSION_FREE;
    struct client_entry *client_entry = choose_client_to_drop(client_counts, crowded ? source : NULL);
    if (!client_entry)
        return crowded ? ADMISSION_ADDRESS_FULL : ADMISSION_REFUSED;
    mark_dropped(client_counts, client_entry);
    drop(client_entry);
    return ADMISSION_FREE;
}

static enum admission admit_client(struct client_counts *client_counts,
                                   const struct client_count_limits *limits,
                                   struct client_entry *client_entry, struct client_source *source,
                                   enum client_kind kind, client_drop *drop)
{
    bool kept =
        kind == CLIENT_ORDINARY && client_counts->ordinary >= limits->most - weir_admin_places(limits->most);
    bool unauthenticated = kind == CLIENT_UNAUTHENTICATED || kept;
    enum admission entry = make_room_for_client(client_counts, limits, source, unauthenticated, drop);
    if (entry != ADMISSION_FREE)
        return entry;
    *client_entry = (struct client_entry){.source = source};
    client_counts->all++;
    source->all++;
    set_unauthenticated(client_counts, client_entry, unauthenticated);
    set_ordinary(client_counts, client_entry, kind == CLIENT_ORDINARY && !kept);
    return kept ? ADMISSION_ADMIN_ONLY : ADMISSION_FREE;
}

enum admission weir_client_counts_enter(struct client_counts *client_counts,
                                        const struct client_count_limits *limits,
                                        struct client_entry *client_entry, const char *address,
                                        enum client_kind kind, client_drop *drop)
{
    (void)pthread_mutex_lock(&client_counts->mutex);
    struct client_source *source = find_source(client_counts, address);
    enum admission entry =
        source ? admit_client(client_counts, limits, client_entry, source, kind, drop) : ADMISSION_REFUSED;
    if (source)
        release_source(client_counts, source);
    (void)pthread_mutex_unlock(&client_counts->mutex);
    return entry;
}

static void log_out_client(struct client_counts *client_counts, struct client_entry *client_entry)
{
    struct client_user *user = client_entry->user;
    set_ordinary(client_counts, client_entry, false);
    client_entry->user = NULL;
    if (user) {
        user->all--;
        release_user(client_counts, user);
    }
}

void weir_client_counts_leave(struct client_counts *client_counts, struct client_entry *client_entry)
{
    struct client_source *source = client_entry->source;
    if (!source)
        return;
    (void)pthread_mutex_lock(&client_counts->mutex);
    log_out_client(client_counts, client_entry);
    set_unauthenticated(client_counts, client_entry, false);
    client_counts->all--;
    source->all--;
    if (client_entry->dropped) {
        client_counts->dropped--;
        source->dropped--;
    }
    release_source(client_counts, source);
    client_entry->source = NULL;
    (void)pthread_mutex_unlock(&client_counts->mutex);
}

/* ---- logging in and out ---- */

static bool may_log_in(const struct client_counts *client_counts, const struct client_count_limits *limits,
                       const struct client_entry *client_entry, const struct client_user *user, bool admin)
{
    if (admin || client_entry->user == user)
        return true;
    if (limits->per_user > 0 && user->all >= limits->per_user)
        return false;
    return client_entry->ordinary || client_counts->ordinary < limits->most - weir_admin_places(limits->most);
}

bool weir_client_counts_log_in(struct client_counts *client_counts, const struct client_count_limits *limits,
                               struct client_entry *client_entry, const char *name, bool admin)
{
    if (!client_entry->source)
        return true;
    (void)pthread_mutex_lock(&client_counts->mutex);
    struct client_user *user = find_user_count(client_counts, name);
    bool may = user && may_log_in(client_counts, limits, client_entry, user, admin);
    if (may) {
        user->all++; /* first, so that it stays if it is the same */
        log_out_client(client_counts, client_entry);
        client_entry->user = user;
        set_ordinary(client_counts, client_entry, !admin);
        set_unauthenticated(client_counts, client_entry, false);
    } else if (user) {
        release_user(client_counts, user);
    }
    (void)pthread_mutex_unlock(&client_counts->mutex);
    return may;
}

static void set_kind(struct client_counts *client_counts, struct client_entry *client_entry,
                     enum client_kind kind)
{
    if (client_entry->dropped)
        return;
    set_unauthenticated(client_counts, client_entry, kind == CLIENT_UNAUTHENTICATED);
    if (!client_entry->user)
        set_ordinary(client_counts, client_entry, kind == CLIENT_ORDINARY);
}

void weir_client_counts_log_out(struct client_counts *client_counts, struct client_entry *client_entry,
                                enum client_kind kind)
{
    if (!client_entry->source)
        return;
    (void)pthread_mutex_lock(&client_counts->mutex);
    log_out_client(client_counts, client_entry);
    set_kind(client_counts, client_entry, kind);
    (void)pthread_mutex_unlock(&client_counts->mutex);
}

void weir_client_counts_set_kind(struct client_counts *client_counts, struct client_entry *client_entry,
                                 enum client_kind kind)
{
    (void)pthread_mutex_lock(&client_counts->mutex);
    if (client_entry->source)
        set_kind(client_counts, client_entry, kind);
    (void)pthread_mutex_unlock(&client_counts->mutex);
}

struct client_count_totals weir_client_counts_read(struct client_counts *client_counts)
{
    (void)pthread_mutex_lock(&client_counts->mutex);
    struct client_count_totals count = {client_counts->all, client_counts->unauthenticated,
                                        client_counts->dropped};
    (void)pthread_mutex_unlock(&client_counts->mutex);
    return count;
}
