/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L

#include "service/failures.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sat.h"
#include "weir.h"

#define NONE    UINT32_MAX
#define TRY_NS  (60 * WEIR_SEC / FAILURES_RATE) /* after which a try comes back */
#define FULL_NS ((FAILURES_BURST - 1) * TRY_NS) /* further ahead there is no try left */
#define CHAINS  1024                            /* a power of 2 */

struct pair {
    uint64_t hash;
    int64_t until_ns; /* all its tries are back by then */
    uint64_t words[FAILURES_WORDS];
    uint32_t word_count; /* ever, so the next one is at word_count % FAILURES_WORDS */
    uint32_t chain;      /* the next of the same chain */
    uint32_t older, newer;
};

struct failures {
    pthread_mutex_t mutex;
    struct hash_key key;
    struct pair *pairs;
    size_t most, count;
    uint32_t oldest, newest;
    uint32_t chains[CHAINS];
};

struct failures *weir_failures_new(size_t most)
{
    struct failures *failures = calloc(1, sizeof *failures);
    if (!failures)
        return NULL;
    failures->pairs = calloc(most, sizeof *failures->pairs);
    if (!failures->pairs || pthread_mutex_init(&failures->mutex, NULL) != 0) {
        free(failures->pairs);
        free(failures);
        return NULL;
    }
    failures->key = weir_hash_key();
    failures->most = most;
    failures->oldest = failures->newest = NONE;
    memset(failures->chains, 0xFF, sizeof failures->chains);
    return failures;
}

void weir_failures_free(struct failures *failures)
{
    if (!failures)
        return;
    (void)pthread_mutex_destroy(&failures->mutex);
    free(failures->pairs);
    free(failures);
}

/* ---- who tries what ---- */

void weir_source_of(const char *address, char source[static SOURCE_MAX])
{
    struct in6_addr six;
    const char *colon = strrchr(address, ':');
    size_t len = colon && strncmp(address, "unix", 4) != 0 ? (size_t)(colon - address) : strlen(address);
    (void)snprintf(source, SOURCE_MAX, "%.*s", (int)len, address);
    if (address[0] != '[' || len < 2 || len >= SOURCE_MAX)
        return;
    source[len - 1] = '\0';
    if (inet_pton(AF_INET6, source + 1, &six) != 1)
        return;
    memset(six.s6_addr + 8, 0, 8); /* whoever has one address there has them all */
    (void)inet_ntop(AF_INET6, &six, source, SOURCE_MAX - 3);
    memcpy(source + strlen(source), "/64", 4);
}

static uint64_t hash_texts(const struct failures *failures, struct slice one, struct slice other,
                           const uint64_t numbers[static CONFIG_PASSWORDS])
{
    uint64_t parts[2 + CONFIG_PASSWORDS] = {weir_hash(&failures->key, one.bytes, one.len),
                                            weir_hash(&failures->key, other.bytes, other.len)};
    memcpy(parts + 2, numbers, CONFIG_PASSWORDS * sizeof *numbers);
    return weir_hash(&failures->key, parts, sizeof parts);
}

struct attempt weir_attempt(const struct failures *failures, const char *source, const struct users *users,
                            struct slice name, struct slice password)
{
    static const struct user nobody = {0};
    const struct user *found = weir_users_find(users, name), *user = found ? found : &nobody;
    static const uint64_t none[CONFIG_PASSWORDS];
    return (struct attempt){.pair = hash_texts(failures, (struct slice){source, strlen(source)},
                                               (struct slice){user->name, strlen(user->name)}, none),
                            .word = hash_texts(failures, name, password, user->generations)};
}

/* ---- the table ---- */

static uint32_t *chain_of(struct failures *failures, uint64_t hash)
{
    return &failures->chains[hash % CHAINS];
}

static struct pair *find(struct failures *failures, uint64_t hash)
{
    for (uint32_t at = *chain_of(failures, hash); at != NONE; at = failures->pairs[at].chain)
        if (failures->pairs[at].hash == hash)
            return &failures->pairs[at];
    return NULL;
}

static void unlink_age(struct failures *failures, const struct pair *pair)
{
    *(pair->older == NONE ? &failures->oldest : &failures->pairs[pair->older].newer) = pair->newer;
    *(pair->newer == NONE ? &failures->newest : &failures->pairs[pair->newer].older) = pair->older;
}

static void link_newest(struct failures *failures, struct pair *pair)
{
    uint32_t at = (uint32_t)(pair - failures->pairs);
    pair->older = failures->newest;
    pair->newer = NONE;
    *(failures->newest == NONE ? &failures->oldest : &failures->pairs[failures->newest].newer) = at;
    failures->newest = at;
}

/* The place of the pair that failed least recently. */
static struct pair *drop_oldest(struct failures *failures)
{
    struct pair *pair = &failures->pairs[failures->oldest];
    uint32_t at = failures->oldest, *chain = chain_of(failures, pair->hash);
    while (*chain != at)
        chain = &failures->pairs[*chain].chain;
    *chain = pair->chain;
    unlink_age(failures, pair);
    return pair;
}

/* The pair, as the newest; made if there is none. */
static struct pair *touch(struct failures *failures, uint64_t hash)
{
    struct pair *pair = find(failures, hash);
    if (pair) {
        unlink_age(failures, pair);
    } else {
        uint32_t *chain = chain_of(failures, hash);
        pair = failures->count < failures->most ? &failures->pairs[failures->count++] : drop_oldest(failures);
        *pair = (struct pair){.hash = hash, .chain = *chain};
        *chain = (uint32_t)(pair - failures->pairs);
    }
    link_newest(failures, pair);
    return pair;
}

static bool knows(const struct pair *pair, uint64_t word)
{
    for (uint32_t i = 0; i < pair->word_count && i < FAILURES_WORDS; i++)
        if (pair->words[i] == word)
            return true;
    return false;
}

/* ---- a try ---- */

enum attempt_state weir_attempt_begin(struct failures *failures, int64_t now_ns, struct attempt attempt,
                                      int64_t *retry_ns)
{
    enum attempt_state state = ATTEMPT_OPEN;
    (void)pthread_mutex_lock(&failures->mutex);
    const struct pair *pair = find(failures, attempt.pair);
    int64_t ahead_ns = pair ? sat_sub(pair->until_ns, now_ns) : 0;
    if (pair && knows(pair, attempt.word)) {
        state = ATTEMPT_KNOWN;
    } else if (ahead_ns > FULL_NS) {
        state = ATTEMPT_BLOCKED;
        *retry_ns = ahead_ns - FULL_NS;
    }
    (void)pthread_mutex_unlock(&failures->mutex);
    return state;
}

void weir_attempt_failed(struct failures *failures, int64_t now_ns, struct attempt attempt)
{
    (void)pthread_mutex_lock(&failures->mutex);
    struct pair *pair = touch(failures, attempt.pair);
    if (!knows(pair, attempt.word)) {
        pair->until_ns = sat_add(max64(pair->until_ns, now_ns), TRY_NS);
        pair->words[pair->word_count++ % FAILURES_WORDS] = attempt.word;
    }
    (void)pthread_mutex_unlock(&failures->mutex);
}

size_t weir_failures_count(struct failures *failures)
{
    (void)pthread_mutex_lock(&failures->mutex);
    size_t count = failures->count;
    (void)pthread_mutex_unlock(&failures->mutex);
    return count;
}
