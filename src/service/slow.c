/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "service/slow.h"

#include <crypt.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define LEAST 22 /* signs of a hash behind its salt: with fewer, it is a salt alone */
#define KNOWN 64 /* passwords that were right: more than users log in at the same time */

struct known {
    uint64_t generation; /* 0: none */
    struct digest digest;
};

struct waiting {
    uint64_t source; /* 0: a free place */
    uint64_t word;   /* of the attempt */
};

struct slow {
    pthread_mutex_t mutex;
    struct hash_key key;
    struct digest salt;
    struct known known[KNOWN];
    size_t next; /* of `known` */
    struct waiting waiting[SLOW_WAITING];
    uint64_t wrong[KNOWN]; /* words of attempts, so that those who wait with the same one need no check */
    size_t next_wrong;
    atomic_bool stopping;
};

struct slow *weir_slow_new(void)
{
    struct slow *slow = calloc(1, sizeof *slow);
    if (!slow || pthread_mutex_init(&slow->mutex, NULL) != 0) {
        free(slow);
        return NULL;
    }
    struct hash_key keys[2] = {weir_hash_key(), weir_hash_key()};
    slow->key = weir_hash_key();
    memcpy(slow->salt.bytes, keys, sizeof slow->salt.bytes);
    return slow;
}

void weir_slow_free(struct slow *slow)
{
    if (!slow)
        return;
    (void)pthread_mutex_destroy(&slow->mutex);
    weir_secret_wipe(slow, sizeof *slow);
    free(slow);
}

bool weir_slow_is_hash(const char *text)
{
    const char *last = strrchr(text, '$');
    return strlen(text) <= CONFIG_CRYPT_MAX && last && strlen(last) > LEAST &&
           crypt_checksalt(text) == CRYPT_SALT_OK;
}

/* ---- a login ---- */

static void add_hash(struct login *login, const char *hash, uint64_t generation)
{
    memcpy(login->hashes[login->count], hash, strlen(hash) + 1);
    login->generations[login->count++] = generation;
}

bool weir_login_init(struct login *login, const struct users *users, struct slice name, struct slice password)
{
    const struct user *user = weir_users_find(users, name);
    *login = (struct login){0};
    if (password.len > CONFIG_PASSWORD_MAX || memchr(password.bytes, '\0', password.len))
        return false;
    memcpy(login->password, password.bytes, password.len);
    for (size_t i = 0; user && i < user->password_count; i++)
        if (user->passwords[i].crypt[0])
            add_hash(login, user->passwords[i].crypt, user->generations[i]);
    if (login->count == 0)
        add_hash(login, users->any_crypt, 0);
    return true;
}

bool weir_login_wait(struct slow *slow, struct login *login, const char *source)
{
    size_t same = 0, place = SLOW_WAITING;
    bool follows = false;
    login->source = weir_hash(&slow->key, source, strlen(source)) | 1;
    (void)pthread_mutex_lock(&slow->mutex);
    for (size_t i = 0; i < SLOW_WAITING; i++) {
        same += slow->waiting[i].source == login->source;
        if (slow->waiting[i].source == 0)
            place = i;
        else if (slow->waiting[i].word == login->attempt.word)
            follows = true;
    }
    bool may = same < SLOW_PER_SOURCE && place < SLOW_WAITING;
    if (follows)
        login->source = 0;
    else if (may)
        slow->waiting[place] = (struct waiting){login->source, login->attempt.word};
    (void)pthread_mutex_unlock(&slow->mutex);
    return may || follows;
}

static bool is_right(struct login *login, const char *hash, struct crypt_data *data)
{
    errno = 0;
    const char *got = crypt_r(login->password, hash, data);
    if (!got || got[0] == '*') {
        login->checked = login->checked && errno != ENOMEM;
        return false;
    }
    struct digest one = weir_sha256(got, strlen(got)), other = weir_sha256(hash, strlen(hash));
    return weir_digest_same(&one, &other);
}

/* All of them, whether one was right or not. */
static void check(struct login *login)
{
    struct crypt_data *data = calloc(1, sizeof *data);
    login->checked = data;
    for (size_t i = 0; data && i < login->count; i++)
        if (is_right(login, login->hashes[i], data))
            login->right = login->generations[i];
    if (data)
        weir_secret_wipe(data, sizeof *data);
    free(data);
}

/* ---- what was right ---- */

static struct digest digest_of(const struct slow *slow, const struct login *login)
{
    char text[sizeof slow->salt.bytes + sizeof login->password];
    size_t len = strlen(login->password);
    memcpy(text, slow->salt.bytes, sizeof slow->salt.bytes);
    memcpy(text + sizeof slow->salt.bytes, login->password, len);
    struct digest digest = weir_sha256(text, sizeof slow->salt.bytes + len);
    weir_secret_wipe(text, sizeof text);
    return digest;
}

uint64_t weir_slow_known(struct slow *slow, const struct login *login)
{
    struct digest digest = digest_of(slow, login);
    uint64_t found = 0;
    (void)pthread_mutex_lock(&slow->mutex);
    for (size_t i = 0; i < KNOWN; i++)
        for (size_t at = 0; at < login->count; at++)
            if (login->generations[at] > 0 && slow->known[i].generation == login->generations[at] &&
                weir_digest_same(&slow->known[i].digest, &digest))
                found = login->generations[at];
    (void)pthread_mutex_unlock(&slow->mutex);
    return found;
}

static bool was_wrong(struct slow *slow, const struct login *login)
{
    bool found = false;
    (void)pthread_mutex_lock(&slow->mutex);
    for (size_t i = 0; i < KNOWN && i < slow->next_wrong; i++)
        found = found || slow->wrong[i] == login->attempt.word;
    (void)pthread_mutex_unlock(&slow->mutex);
    return found;
}

static void remember(struct slow *slow, const struct login *login)
{
    struct digest digest = digest_of(slow, login);
    (void)pthread_mutex_lock(&slow->mutex);
    if (login->right > 0)
        slow->known[slow->next++ % KNOWN] = (struct known){login->right, digest};
    else if (login->checked)
        slow->wrong[slow->next_wrong++ % KNOWN] = login->attempt.word;
    (void)pthread_mutex_unlock(&slow->mutex);
}

void weir_login_check(struct slow *slow, struct login *login)
{
    if (atomic_load(&slow->stopping))
        return;
    login->right = weir_slow_known(slow, login);
    login->checked = login->right > 0 || was_wrong(slow, login);
    if (login->checked)
        return;
    check(login);
    remember(slow, login);
}

void weir_slow_stop(struct slow *slow)
{
    atomic_store(&slow->stopping, true);
}

void weir_login_end(struct slow *slow, struct login *login)
{
    (void)pthread_mutex_lock(&slow->mutex);
    for (size_t i = 0; i < SLOW_WAITING && login->source > 0; i++)
        if (slow->waiting[i].source == login->source && slow->waiting[i].word == login->attempt.word) {
            slow->waiting[i].source = 0;
            break;
        }
    (void)pthread_mutex_unlock(&slow->mutex);
    weir_secret_wipe(login->password, sizeof login->password);
}
