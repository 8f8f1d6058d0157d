/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L

#include "service/crowd.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define CHAINS          4096 /* of sources; a power of 2 */
#define STRANGERS_LEAST 32
#define STRANGERS_PART  4
#define KEPT_PART       16
#define LOOKED_AT       64 /* of the oldest strangers, one goes */

struct crowd_source {
    struct crowd_source *next; /* of its chain */
    char text[SOURCE_MAX];
    int64_t all, strangers, dropped;
};

struct crowd_user {
    struct crowd_user *next;
    char name[CONFIG_NAME_MAX + 1];
    int64_t all;
};

struct crowd {
    pthread_mutex_t mutex;
    struct hash_key key;
    struct crowd_source *sources[CHAINS];
    struct crowd_user *users; /* those who are here; a file has few */
    struct guest *oldest, *newest;
    int64_t all, strangers, ordinary, dropped;
};

int64_t weir_crowd_strangers_most(int64_t most)
{
    int64_t part = most / STRANGERS_PART;
    return part > STRANGERS_LEAST ? part : STRANGERS_LEAST;
}

int64_t weir_crowd_kept(int64_t most)
{
    return most / KEPT_PART;
}

struct crowd *weir_crowd_new(void)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    if (!crowd || pthread_mutex_init(&crowd->mutex, NULL) != 0) {
        free(crowd);
        return NULL;
    }
    crowd->key = weir_hash_key();
    return crowd;
}

void weir_crowd_free(struct crowd *crowd)
{
    if (!crowd)
        return;
    (void)pthread_mutex_destroy(&crowd->mutex);
    free(crowd);
}

/* ---- sources and users: there as long as somebody is ---- */

static struct crowd_source **chain_of(struct crowd *crowd, const char *text)
{
    return &crowd->sources[weir_hash(&crowd->key, text, strlen(text)) % CHAINS];
}

static struct crowd_source *get_source(struct crowd *crowd, const char *address)
{
    char text[SOURCE_MAX];
    weir_source_of(address, text);
    struct crowd_source **chain = chain_of(crowd, text);
    for (struct crowd_source *at = *chain; at; at = at->next)
        if (strcmp(at->text, text) == 0)
            return at;
    struct crowd_source *source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    memcpy(source->text, text, sizeof text);
    source->next = *chain;
    return *chain = source;
}

static void put_source(struct crowd *crowd, struct crowd_source *source)
{
    if (source->all > 0)
        return;
    struct crowd_source **at = chain_of(crowd, source->text);
    while (*at != source)
        at = &(*at)->next;
    *at = source->next;
    free(source);
}

static struct crowd_user *get_user(struct crowd *crowd, const char *name)
{
    for (struct crowd_user *at = crowd->users; at; at = at->next)
        if (strcmp(at->name, name) == 0)
            return at;
    struct crowd_user *user = calloc(1, sizeof *user);
    if (!user)
        return NULL;
    (void)snprintf(user->name, sizeof user->name, "%s", name);
    user->next = crowd->users;
    return crowd->users = user;
}

static void put_user(struct crowd *crowd, struct crowd_user *user)
{
    if (user->all > 0)
        return;
    struct crowd_user **at = &crowd->users;
    while (*at != user)
        at = &(*at)->next;
    *at = user->next;
    free(user);
}

/* ---- strangers ---- */

static void set_stranger(struct crowd *crowd, struct guest *guest, bool stranger)
{
    if (guest->stranger == stranger)
        return;
    guest->stranger = stranger;
    crowd->strangers += stranger ? 1 : -1;
    guest->source->strangers += stranger ? 1 : -1;
    if (stranger) {
        guest->older = crowd->newest;
        guest->newer = NULL;
        *(crowd->newest ? &crowd->newest->newer : &crowd->oldest) = guest;
        crowd->newest = guest;
    } else {
        *(guest->older ? &guest->older->newer : &crowd->oldest) = guest->newer;
        *(guest->newer ? &guest->newer->older : &crowd->newest) = guest->older;
    }
}

static void set_ordinary(struct crowd *crowd, struct guest *guest, bool ordinary)
{
    crowd->ordinary += (int64_t)ordinary - guest->ordinary;
    guest->ordinary = ordinary;
}

/* Who has to go for another one: of the oldest, one of the source that has the most. `source` NULL: any. */
static struct guest *choose(const struct crowd *crowd, const struct crowd_source *source)
{
    struct guest *chosen = NULL;
    int looked_at = 0;
    for (struct guest *at = crowd->oldest; at && looked_at < LOOKED_AT; at = at->newer) {
        if (source && at->source != source)
            continue;
        if (!chosen || at->source->strangers > chosen->source->strangers)
            chosen = at;
        looked_at++;
        if (source)
            break;
    }
    return chosen;
}

static void mark(struct crowd *crowd, struct guest *guest)
{
    set_stranger(crowd, guest, false);
    guest->dropped = true;
    crowd->dropped++;
    guest->source->dropped++;
}

/* ---- coming and going ---- */

static enum entry make_room(struct crowd *crowd, const struct crowd_limits *limits,
                            const struct crowd_source *source, bool stranger, crowd_drop *drop)
{
    bool full = crowd->all - crowd->dropped >= limits->most;
    bool strange = stranger && crowd->strangers >= weir_crowd_strangers_most(limits->most);
    bool crowded = limits->per_address > 0 && source->all - source->dropped >= limits->per_address;
    if (!full && !strange && !crowded)
        return ENTRY_FREE;
    struct guest *guest = choose(crowd, crowded ? source : NULL);
    if (!guest)
        return crowded ? ENTRY_ADDRESS : ENTRY_REFUSED;
    mark(crowd, guest);
    drop(guest);
    return ENTRY_FREE;
}

static enum entry enter(struct crowd *crowd, const struct crowd_limits *limits, struct guest *guest,
                        struct crowd_source *source, enum entry_kind kind, crowd_drop *drop)
{
    bool kept = kind == ENTER_ORDINARY && crowd->ordinary >= limits->most - weir_crowd_kept(limits->most);
    bool stranger = kind == ENTER_STRANGER || kept;
    enum entry entry = make_room(crowd, limits, source, stranger, drop);
    if (entry != ENTRY_FREE)
        return entry;
    *guest = (struct guest){.source = source};
    crowd->all++;
    source->all++;
    set_stranger(crowd, guest, stranger);
    set_ordinary(crowd, guest, kind == ENTER_ORDINARY && !kept);
    return kept ? ENTRY_KEPT : ENTRY_FREE;
}

enum entry weir_crowd_enter(struct crowd *crowd, const struct crowd_limits *limits, struct guest *guest,
                            const char *address, enum entry_kind kind, crowd_drop *drop)
{
    (void)pthread_mutex_lock(&crowd->mutex);
    struct crowd_source *source = get_source(crowd, address);
    enum entry entry = source ? enter(crowd, limits, guest, source, kind, drop) : ENTRY_REFUSED;
    if (source)
        put_source(crowd, source);
    (void)pthread_mutex_unlock(&crowd->mutex);
    return entry;
}

static void log_out(struct crowd *crowd, struct guest *guest)
{
    struct crowd_user *user = guest->user;
    set_ordinary(crowd, guest, false);
    guest->user = NULL;
    if (user) {
        user->all--;
        put_user(crowd, user);
    }
}

void weir_crowd_leave(struct crowd *crowd, struct guest *guest)
{
    struct crowd_source *source = guest->source;
    if (!source)
        return;
    (void)pthread_mutex_lock(&crowd->mutex);
    log_out(crowd, guest);
    set_stranger(crowd, guest, false);
    crowd->all--;
    source->all--;
    if (guest->dropped) {
        crowd->dropped--;
        source->dropped--;
    }
    put_source(crowd, source);
    guest->source = NULL;
    (void)pthread_mutex_unlock(&crowd->mutex);
}

/* ---- logging in and out ---- */

static bool may_log_in(const struct crowd *crowd, const struct crowd_limits *limits,
                       const struct guest *guest, const struct crowd_user *user, bool admin)
{
    if (admin || guest->user == user)
        return true;
    if (limits->per_user > 0 && user->all >= limits->per_user)
        return false;
    return guest->ordinary || crowd->ordinary < limits->most - weir_crowd_kept(limits->most);
}

bool weir_crowd_log_in(struct crowd *crowd, const struct crowd_limits *limits, struct guest *guest,
                       const char *name, bool admin)
{
    if (!guest->source)
        return true;
    (void)pthread_mutex_lock(&crowd->mutex);
    struct crowd_user *user = get_user(crowd, name);
    bool may = user && may_log_in(crowd, limits, guest, user, admin);
    if (may) {
        user->all++; /* first, so that it stays if it is the same */
        log_out(crowd, guest);
        guest->user = user;
        set_ordinary(crowd, guest, !admin);
        set_stranger(crowd, guest, false);
    } else if (user) {
        put_user(crowd, user);
    }
    (void)pthread_mutex_unlock(&crowd->mutex);
    return may;
}

static void set_kind(struct crowd *crowd, struct guest *guest, enum entry_kind kind)
{
    if (guest->dropped)
        return;
    set_stranger(crowd, guest, kind == ENTER_STRANGER);
    if (!guest->user)
        set_ordinary(crowd, guest, kind == ENTER_ORDINARY);
}

void weir_crowd_log_out(struct crowd *crowd, struct guest *guest, enum entry_kind kind)
{
    if (!guest->source)
        return;
    (void)pthread_mutex_lock(&crowd->mutex);
    log_out(crowd, guest);
    set_kind(crowd, guest, kind);
    (void)pthread_mutex_unlock(&crowd->mutex);
}

void weir_crowd_set_kind(struct crowd *crowd, struct guest *guest, enum entry_kind kind)
{
    (void)pthread_mutex_lock(&crowd->mutex);
    if (guest->source)
        set_kind(crowd, guest, kind);
    (void)pthread_mutex_unlock(&crowd->mutex);
}

struct crowd_count weir_crowd_count(struct crowd *crowd)
{
    (void)pthread_mutex_lock(&crowd->mutex);
    struct crowd_count count = {crowd->all, crowd->strangers, crowd->dropped};
    (void)pthread_mutex_unlock(&crowd->mutex);
    return count;
}
