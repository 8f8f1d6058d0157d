/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L

#include "auth/login_failures.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/sat.h"
#include "weir.h"

#define NONE    UINT32_MAX
#define TRY_NS  (60 * WEIR_SEC / LOGIN_FAILURES_RATE) /* after which a try comes back */
#define FULL_NS ((LOGIN_FAILURES_BURST - 1) * TRY_NS) /* further ahead there is no try left */
#define CHAINS  1024                                  /* a power of 2 */

struct failure_pair {
    uint64_t hash;
    int64_t until_ns; /* all its tries are back by then */
    uint64_t words[LOGIN_FAILURES_PASSWORDS];
    uint32_t word_count; /* ever, so the next one is at word_count % LOGIN_FAILURES_PASSWORDS */
    uint32_t chain;      /* the next of the same chain */
    uint32_t older, newer;
};

struct login_failures {
    pthread_mutex_t mutex;
    struct hash_key key;
    struct failure_pair *pairs;
    size_t most, count;
    int64_t refused;
    uint32_t oldest, newest;
    uint32_t chains[CHAINS];
};

struct login_failures *weir_login_failures_new(size_t most)
{
    struct login_failures *failures = calloc(1, sizeof *failures);
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

void weir_login_failures_free(struct login_failures *failures)
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
    ASSERT(address[0] == '[' || strncmp(address, "unix", 4) == 0 || !strchr(source, ':')); /* no port */
    if (address[0] != '[' || len < 2 || len >= SOURCE_MAX)
        return;
    source[len - 1] = '\0';
    if (inet_pton(AF_INET6, source + 1, &six) != 1)
        return;
    memset(six.s6_addr + 8, 0, 8); /* whoever has one address there has them all */
    (void)inet_ntop(AF_INET6, &six, source, SOURCE_MAX - 3);
    memcpy(source + strlen(source), "/64", 4);
#if WEIR_ASSERTIONS
    for (int i = 8; i < 16; i++)
        ASSERT(six.s6_addr[i] == 0);
#endif
}

static uint64_t hash_texts(const struct login_failures *failures, struct slice one, struct slice other,
                           const uint64_t numbers[static CONFIG_PASSWORDS])
{
    uint64_t parts[2 + CONFIG_PASSWORDS] = {weir_hash(&failures->key, one.bytes, one.len),
                                            weir_hash(&failures->key, other.bytes, other.len)};
    memcpy(parts + 2, numbers, CONFIG_PASSWORDS * sizeof *numbers);
    return weir_hash(&failures->key, parts, sizeof parts);
}

struct login_attempt weir_attempt(const struct login_failures *failures, const char *source,
                                  const struct users *users, struct slice name, struct slice password)
{
    static const struct user nobody = {0};
    const struct user *found = weir_users_find(users, name), *user = found ? found : &nobody;
    static const uint64_t none[CONFIG_PASSWORDS];
    struct slice from = {source, strlen(source)};
    struct login_attempt attempt = {
        .pair = hash_texts(failures, from, (struct slice){user->name, strlen(user->name)}, none),
        .word = hash_texts(failures, name, password, user->generations)};
    /* All users that do not exist are one pair, and no other is; a password is another word of each user. */
    ASSERT((attempt.pair == hash_texts(failures, from, (struct slice){"", 0}, none)) == !found);
    ASSERT(!found || attempt.word != hash_texts(failures, name, password, none));
    return attempt;
}

/* ---- the table ---- */

static uint32_t *pair_chain(struct login_failures *failures, uint64_t hash)
{
    return &failures->chains[hash % CHAINS];
}

static struct failure_pair *find_pair(struct login_failures *failures, uint64_t hash)
{
    for (uint32_t at = *pair_chain(failures, hash); at != NONE; at = failures->pairs[at].chain)
        if (failures->pairs[at].hash == hash)
            return &failures->pairs[at];
    return NULL;
}

static void unlink_pair(struct login_failures *failures, const struct failure_pair *pair)
{
    *(pair->older == NONE ? &failures->oldest : &failures->pairs[pair->older].newer) = pair->newer;
    *(pair->newer == NONE ? &failures->newest : &failures->pairs[pair->newer].older) = pair->older;
}

static void link_newest_pair(struct login_failures *failures, struct failure_pair *pair)
{
    uint32_t at = (uint32_t)(pair - failures->pairs);
    pair->older = failures->newest;
    pair->newer = NONE;
    *(failures->newest == NONE ? &failures->oldest : &failures->pairs[failures->newest].newer) = at;
    failures->newest = at;
}

/* The place of the pair that failed least recently. */
static struct failure_pair *drop_oldest_pair(struct login_failures *failures)
{
    struct failure_pair *pair = &failures->pairs[failures->oldest];
    uint32_t at = failures->oldest, *chain = pair_chain(failures, pair->hash);
    INVARIANT(36, pair->older == NONE && failures->count == failures->most);
    while (*chain != at)
        chain = &failures->pairs[*chain].chain;
    *chain = pair->chain;
    unlink_pair(failures, pair);
    return pair;
}

/* The pair, as the newest; made if there is none. */
static struct failure_pair *touch_pair(struct login_failures *failures, uint64_t hash)
{
    struct failure_pair *pair = find_pair(failures, hash);
    if (pair) {
        unlink_pair(failures, pair);
    } else {
        uint32_t *chain = pair_chain(failures, hash);
        pair = failures->count < failures->most ? &failures->pairs[failures->count++]
                                                : drop_oldest_pair(failures);
        *pair = (struct failure_pair){.hash = hash, .chain = *chain};
        *chain = (uint32_t)(pair - failures->pairs);
    }
    link_newest_pair(failures, pair);
    return pair;
}

static bool pair_knows_password(const struct failure_pair *pair, uint64_t word)
{
    for (uint32_t i = 0; i < pair->word_count && i < LOGIN_FAILURES_PASSWORDS; i++)
        if (pair->words[i] == word)
            return true;
    return false;
}

/* ---- a try ---- */

enum login_attempt_state weir_attempt_begin(struct login_failures *failures, int64_t now_ns,
                                            struct login_attempt attempt, int64_t *retry_ns)
{
    enum login_attempt_state state = ATTEMPT_OPEN;
    (void)pthread_mutex_lock(&failures->mutex);
    const struct failure_pair *pair = find_pair(failures, attempt.pair);
    int64_t ahead_ns = pair ? sat_sub(pair->until_ns, now_ns) : 0;
    if (pair && pair_knows_password(pair, attempt.word)) {
        state = ATTEMPT_KNOWN;
    } else if (ahead_ns > FULL_NS) {
        state = ATTEMPT_BLOCKED;
        *retry_ns = ahead_ns - FULL_NS;
        INVARIANT(36, *retry_ns > 0 && ahead_ns - *retry_ns <= FULL_NS);
    }
    /* An open try, if it fails, is one of LOGIN_FAILURES_BURST; a known password needs none. */
    INVARIANT(36, state != ATTEMPT_OPEN || ahead_ns + TRY_NS <= LOGIN_FAILURES_BURST * TRY_NS);
    failures->refused += state != ATTEMPT_OPEN;
    INVARIANT(36, (state == ATTEMPT_KNOWN) == (pair && pair_knows_password(pair, attempt.word)));
    (void)pthread_mutex_unlock(&failures->mutex);
    return state;
}

void weir_attempt_failed(struct login_failures *failures, int64_t now_ns, struct login_attempt attempt)
{
    (void)pthread_mutex_lock(&failures->mutex);
    failures->refused++;
    struct failure_pair *pair = touch_pair(failures, attempt.pair);
    if (!pair_knows_password(pair, attempt.word)) {
        pair->until_ns = sat_add(max64(pair->until_ns, now_ns), TRY_NS);
        pair->words[pair->word_count++ % LOGIN_FAILURES_PASSWORDS] = attempt.word;
        INVARIANT(36, pair->until_ns >= sat_add(now_ns, TRY_NS));
        INVARIANT(36, pair->words[(pair->word_count - 1) % LOGIN_FAILURES_PASSWORDS] == attempt.word);
    }
    INVARIANT(36,
              failures->newest == (uint32_t)(pair - failures->pairs) && failures->count <= failures->most);
    (void)pthread_mutex_unlock(&failures->mutex);
}

size_t weir_login_failures_count(struct login_failures *failures)
{
    (void)pthread_mutex_lock(&failures->mutex);
    size_t count = failures->count;
    (void)pthread_mutex_unlock(&failures->mutex);
    return count;
}

int64_t weir_login_failures_refused(struct login_failures *failures)
{
    (void)pthread_mutex_lock(&failures->mutex);
    int64_t refused = failures->refused;
    (void)pthread_mutex_unlock(&failures->mutex);
    return refused;
}
