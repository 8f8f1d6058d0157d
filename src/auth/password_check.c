/* SPDX-License-Identifier: MIT */
#include "auth/password_check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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
    struct password_check *password_check = calloc(1, sizeof *password_check);
    if (!password_check || pthread_mutex_init(&password_check->mutex, NULL) != 0) {
        free(password_check);
        return NULL;
    }
    struct hash_key keys[2] = {weir_hash_key(), weir_hash_key()};
    password_check->key = weir_hash_key();
    memcpy(password_check->salt.bytes, keys, sizeof password_check->salt.bytes);
    return password_check;
}

void weir_password_check_free(struct password_check *password_check)
{
    if (!password_check)
        return;
    (void)pthread_mutex_destroy(&password_check->mutex);
    weir_secret_wipe(password_check, sizeof *password_check);
    free(password_check);
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

bool weir_login_wait(struct password_check *password_check, struct login *login, const char *source)
{
    size_t same = 0, place = PASSWORD_CHECKS_MAX;
    bool follows = false;
    login->source = weir_hash(&password_check->key, source, strlen(source)) | 1;
    (void)pthread_mutex_lock(&password_check->mutex);
    for (size_t i = 0; i < PASSWORD_CHECKS_MAX; i++) {
        same += password_check->waiting[i].source == login->source;
        if (password_check->waiting[i].source == 0)
            place = i;
        else if (password_check->waiting[i].word == login->attempt.word)
            follows = true;
    }
    bool may = same < PASSWORD_CHECKS_PER_SOURCE && place < PASSWORD_CHECKS_MAX;
    if (follows)
        login->source = 0;
    else if (may)
        password_check->waiting[place] = (struct waiting_check){login->source, login->attempt.word};
    (void)pthread_mutex_unlock(&password_check->mutex);
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

static struct digest digest_of(const struct password_check *password_check, const struct login *login)
{
    char text[sizeof password_check->salt.bytes + sizeof login->password];
    size_t len = strlen(login->password);
    memcpy(text, password_check->salt.bytes, sizeof password_check->salt.bytes);
    memcpy(text + sizeof password_check->salt.bytes, login->password, len);
    struct digest digest = weir_sha256(text, sizeof password_check->salt.bytes + len);
    weir_secret_wipe(text, sizeof text);
    return digest;
}

uint64_t weir_password_check_known(struct password_check *password_check, const struct login *login)
{
    struct digest digest = digest_of(password_check, login);
    uint64_t found = 0;
    (void)pthread_mutex_lock(&password_check->mutex);
    for (size_t i = 0; i < KNOWN; i++)
        for (size_t at = 0; at < login->count; at++)
            if (login->generations[at] > 0 && password_check->known[i].generation == login->generations[at] &&
                weir_digest_same(&password_check->known[i].digest, &digest))
                found = login->generations[at];
    (void)pthread_mutex_unlock(&password_check->mutex);
    return found;
}

static bool was_wrong(struct password_check *password_check, const struct login *login)
{
    bool found = false;
    (void)pthread_mutex_lock(&password_check->mutex);
    for (size_t i = 0; i < KNOWN && i < password_check->next_wrong; i++)
        found = found || password_check->wrong[i] == login->attempt.word;
    (void)pthread_mutex_unlock(&password_check->mutex);
    return found;
}

static void remember_right_password(struct password_check *password_check, const struct login *login)
{
    struct digest digest = digest_of(password_check, login);
    (void)pthread_mutex_lock(&password_check->mutex);
    if (login->right > 0)
        password_check->known[password_check->next++ % KNOWN] = (struct known_password){login->right, digest};
    else if (login->checked)
        password_check->wrong[password_check->next_wrong++ % KNOWN] = login->attempt.word;
    (void)pthread_mutex_unlock(&password_check->mutex);
}

void weir_login_check(struct password_check *password_check, struct login *login)
{
    if (atomic_load(&password_check->stopping))
        return;
    login->right = weir_password_check_known(password_check, login);
    login->checked = login->right > 0 || was_wrong(password_check, login);
    if (login->checked)
        return;
    check_password(login);
    remember_right_password(password_check, login);
}

void weir_password_check_stop(struct password_check *password_check)
{
    atomic_store(&password_check->stopping, true);
}

void weir_login_end(struct password_check *password_check, struct login *login)
{
    (void)pthread_mutex_lock(&password_check->mutex);
    for (size_t i = 0; i < PASSWORD_CHECKS_MAX && login->source > 0; i++)
        if (password_check->waiting[i].source == login->source &&
            password_check->waiting[i].word == login->attempt.word) {
            password_check->waiting[i].source = 0;
            break;
        }
    (void)pthread_mutex_unlock(&password_check->mutex);
    weir_secret_wipe(login->password, sizeof login->password);
}
