/* SPDX-License-Identifier: MIT */
#include "auth/password_check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "config/password_hash.h"

#define KNOWN 64 /* passwords that were right: more than users log in at the same time */

struct known_password {
    uint64_t generation; /* 0: none */
    struct digest digest;
};

struct waiting_check {
    uint64_t source; /* 0: a free place */
    uint64_t word;   /* of the attempt */
};

struct password_check {
    pthread_mutex_t mutex;
    struct hash_key key;
    struct digest salt;
    struct known_password known[KNOWN];
    size_t next; /* of `known` */
    struct waiting_check waiting[PASSWORD_CHECKS_MAX];
    uint64_t wrong[KNOWN]; /* words of attempts, so that those who wait with the same one need no check */
    size_t next_wrong;
    atomic_bool stopping;
};

struct password_check *weir_password_check_new(void)
{
    struct password_check *check = calloc(1, sizeof *check);
    if (!check || pthread_mutex_init(&check->mutex, NULL) != 0) {
        free(check);
        return NULL;
    }
    struct hash_key keys[2] = {weir_hash_key(), weir_hash_key()};
    check->key = weir_hash_key();
    memcpy(check->salt.bytes, keys, sizeof check->salt.bytes);
    return check;
}

void weir_password_check_free(struct password_check *check)
{
    if (!check)
        return;
    (void)pthread_mutex_destroy(&check->mutex);
    weir_secret_wipe(check, sizeof *check);
    free(check);
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

#if WEIR_ASSERTIONS
static size_t count_waiting(const struct password_check *check, uint64_t source, const uint64_t *word)
{
    size_t count = 0;
    for (size_t i = 0; i < PASSWORD_CHECKS_MAX; i++)
        count += check->waiting[i].source == source && (!word || check->waiting[i].word == *word);
    return count;
}
#endif

bool weir_login_wait(struct password_check *check, struct login *login, const char *source)
{
    size_t same = 0, place = PASSWORD_CHECKS_MAX;
    bool follows = false;
    login->source = weir_hash(&check->key, source, strlen(source)) | 1;
    (void)pthread_mutex_lock(&check->mutex);
    for (size_t i = 0; i < PASSWORD_CHECKS_MAX; i++) {
        same += check->waiting[i].source == login->source;
        if (check->waiting[i].source == 0)
            place = i;
        else if (check->waiting[i].word == login->attempt.word)
            follows = true;
    }
    bool may = same < PASSWORD_CHECKS_PER_SOURCE && place < PASSWORD_CHECKS_MAX;
    if (follows)
        login->source = 0;
    else if (may)
        check->waiting[place] = (struct waiting_check){login->source, login->attempt.word};
#if WEIR_ASSERTIONS
    INVARIANT(36,
              login->source == 0 || count_waiting(check, login->source, NULL) <= PASSWORD_CHECKS_PER_SOURCE);
    INVARIANT(36, login->source == 0 || count_waiting(check, login->source, &login->attempt.word) == may);
#endif
    (void)pthread_mutex_unlock(&check->mutex);
    return may || follows;
}

static void check_password(struct login *login)
{
    login->checked = true;
    for (size_t i = 0; i < login->count; i++) {
        enum password_match match = weir_password_match(login->password, login->hashes[i]);
        login->checked = login->checked && match != PASSWORD_UNKNOWN;
        if (match == PASSWORD_RIGHT)
            login->right = login->generations[i];
    }
}

/* ---- what was right ---- */

static struct digest digest_of(const struct password_check *check, const struct login *login)
{
    char text[sizeof check->salt.bytes + sizeof login->password];
    size_t len = strlen(login->password);
    memcpy(text, check->salt.bytes, sizeof check->salt.bytes);
    memcpy(text + sizeof check->salt.bytes, login->password, len);
    struct digest digest = weir_sha256(text, sizeof check->salt.bytes + len);
    weir_secret_wipe(text, sizeof text);
    return digest;
}

uint64_t weir_password_check_known(struct password_check *check, const struct login *login)
{
    struct digest digest = digest_of(check, login);
    uint64_t found = 0;
    (void)pthread_mutex_lock(&check->mutex);
    for (size_t i = 0; i < KNOWN; i++)
        for (size_t at = 0; at < login->count; at++)
            if (login->generations[at] > 0 && check->known[i].generation == login->generations[at] &&
                weir_digest_same(&check->known[i].digest, &digest))
                found = login->generations[at];
#if WEIR_ASSERTIONS
    bool kept = false;
    for (size_t i = 0; i < KNOWN; i++)
        kept |= check->known[i].generation == found && weir_digest_same(&check->known[i].digest, &digest);
    ASSERT(found == 0 || kept); /* a changed password has another generation */
#endif
    (void)pthread_mutex_unlock(&check->mutex);
    return found;
}

static bool was_wrong(struct password_check *check, const struct login *login)
{
    bool found = false;
    (void)pthread_mutex_lock(&check->mutex);
    for (size_t i = 0; i < KNOWN && i < check->next_wrong; i++)
        found = found || check->wrong[i] == login->attempt.word;
    (void)pthread_mutex_unlock(&check->mutex);
    return found;
}

static void remember_right_password(struct password_check *check, const struct login *login)
{
    struct digest digest = digest_of(check, login);
    (void)pthread_mutex_lock(&check->mutex);
    if (login->right > 0)
        check->known[check->next++ % KNOWN] = (struct known_password){login->right, digest};
    else if (login->checked)
        check->wrong[check->next_wrong++ % KNOWN] = login->attempt.word;
    (void)pthread_mutex_unlock(&check->mutex);
}

void weir_login_check(struct password_check *check, struct login *login)
{
    if (atomic_load(&check->stopping))
        return;
    login->right = weir_password_check_known(check, login);
    login->checked = login->right > 0 || was_wrong(check, login);
    if (login->checked)
        return;
    check_password(login);
    remember_right_password(check, login);
}

void weir_password_check_stop(struct password_check *check)
{
    atomic_store(&check->stopping, true);
}

void weir_login_end(struct password_check *check, struct login *login)
{
    (void)pthread_mutex_lock(&check->mutex);
    for (size_t i = 0; i < PASSWORD_CHECKS_MAX && login->source > 0; i++)
        if (check->waiting[i].source == login->source && check->waiting[i].word == login->attempt.word) {
            check->waiting[i].source = 0;
            break;
        }
#if WEIR_ASSERTIONS
    INVARIANT(36, login->source == 0 || count_waiting(check, login->source, &login->attempt.word) == 0);
#endif
    (void)pthread_mutex_unlock(&check->mutex);
    weir_secret_wipe(login->password, sizeof login->password);
}
