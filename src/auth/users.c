/* SPDX-License-Identifier: MIT */
#include "auth/users.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/fair_share.h"
#include "base/assert.h"

/* ---- making ---- */

static void free_slices(struct slice *slices, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)slices[i].bytes);
    free(slices);
}

/* Copies of `count` texts, or else of as many slices; *done tells how many there are, also if memory ran out.
 */
static bool copy_slices(char *const *texts, const struct slice *from, size_t count, struct slice **slices,
                        size_t *done)
{
    *slices = count > 0 ? calloc(count, sizeof **slices) : NULL;
    for (size_t i = 0; *slices && i < count; i++) {
        struct slice text = texts ? (struct slice){texts[i], strlen(texts[i])} : from[i];
        char *copy = malloc(text.len + 1);
        if (!copy)
            return false;
        if (text.len > 0)
            memcpy(copy, text.bytes, text.len);
        copy[text.len] = '\0';
        (*slices)[(*done)++] = (struct slice){copy, text.len};
    }
    return count == 0 || *slices;
}

static struct users *users_alloc(size_t count)
{
    struct users *users = calloc(1, sizeof *users);
    if (!users)
        return NULL;
    users->list = calloc(count, sizeof *users->list);
    if (!users->list) {
        free(users);
        return NULL;
    }
    users->count = count;
    return users;
}

static bool is_default(const struct config_user *user)
{
    return strcmp(user->name, "default") == 0;
}

static bool init_user(struct user *user, const struct config_user *from)
{
    (void)snprintf(user->name, sizeof user->name, "%s", from->name);
    user->has_password = from->has_password;
    memcpy(user->passwords, from->passwords, sizeof user->passwords);
    user->password_count = from->password_count;
    (void)snprintf(user->certificate, sizeof user->certificate, "%s",
                   from->certificate ? from->certificate : "");
    user->may = from->may;
    return copy_slices(from->prefixes.texts, NULL, from->prefixes.count, &user->prefixes,
                       &user->prefix_count) &&
           copy_slices(from->policies.texts, NULL, from->policies.count, &user->policies,
                       &user->policy_count);
}

/* Who does not log in, if the file does not say. Without any users everybody may do everything. With some,
 * only they may: a password is needed, and there is none. */
static void init_default(struct user *user, bool others)
{
    (void)snprintf(user->name, sizeof user->name, "default");
    user->has_password = others;
    user->may = MAY_ALL;
}

void weir_users_find_crypt(struct users *users)
{
    users->any_crypt = NULL;
    for (size_t i = 0; i < users->count && !users->any_crypt; i++)
        for (size_t at = 0; at < users->list[i].password_count && !users->any_crypt; at++)
            if (users->list[i].passwords[at].crypt[0])
                users->any_crypt = users->list[i].passwords[at].crypt;
}

static bool is_taken(const struct users *users, size_t count, uint32_t owner)
{
    for (size_t i = 0; i < count; i++)
        if (users->list[i].share == owner)
            return true;
    return false;
}

/* Names may have the same hash: the one that comes later in the list gets the next number that is free. */
static void number_shares(struct users *users)
{
    for (size_t i = 0; i < users->count; i++) {
        uint32_t owner = weir_share_owner(users->list[i].name);
        while (is_taken(users, i, owner))
            owner = owner % (SHARE_OWNERS - 1) + 1;
        ASSERT(!is_taken(users, i, owner));
        users->list[i].share = owner;
    }
}

struct users *weir_users_new(const struct config *config)
{
    size_t named = config->user_count;
    for (size_t i = 0; i < config->user_count; i++)
        named -= is_default(&config->users[i]);
    struct users *users = users_alloc(named + 1);
    if (!users)
        return NULL;
    if (named == config->user_count)
        init_default(&users->list[0], named > 0);
    size_t next = 1;
    for (size_t i = 0; i < config->user_count; i++) {
        size_t at = is_default(&config->users[i]) ? 0 : next++;
        if (!init_user(&users->list[at], &config->users[i])) {
            weir_users_free(users);
            return NULL;
        }
    }
    weir_users_find_crypt(users);
    number_shares(users);
    return users;
}

struct users *weir_users_copy(const struct users *users)
{
    struct users *copy = users_alloc(users->count);
    for (size_t i = 0; copy && i < users->count; i++) {
        const struct user *from = &users->list[i];
        struct user *user = &copy->list[i];
        *user = *from;
        user->prefixes = user->policies = NULL;
        user->prefix_count = user->policy_count = 0;
        if (!copy_slices(NULL, from->prefixes, from->prefix_count, &user->prefixes, &user->prefix_count) ||
            !copy_slices(NULL, from->policies, from->policy_count, &user->policies, &user->policy_count)) {
            weir_users_free(copy);
            return NULL;
        }
    }
    if (copy)
        weir_users_find_crypt(copy);
    return copy;
}

void weir_users_free(struct users *users)
{
    if (!users)
        return;
    for (size_t i = 0; i < users->count; i++) {
        free_slices(users->list[i].prefixes, users->list[i].prefix_count);
        free_slices(users->list[i].policies, users->list[i].policy_count);
    }
    weir_secret_wipe(users->list, users->count * sizeof *users->list);
    free(users->list);
    free(users);
}

/* ---- asking ---- */

const struct user *weir_users_find(const struct users *users, struct slice name)
{
    for (size_t i = 0; i < users->count; i++)
        if (slice_is(name, users->list[i].name))
            return &users->list[i];
    return NULL;
}

/* Goes through all of them, and compares all digests also if there is no such user: the time of a refusal
 * depends on nothing but how many users there are and how long the words are. */
const struct user *weir_users_login(const struct users *users, struct slice name, struct slice password,
                                    uint64_t *generation)
{
    static const struct user nobody = {.has_password = true};
    const struct user *found = &nobody;
    for (size_t i = 0; i < users->count; i++)
        if (slice_is(name, users->list[i].name))
            found = &users->list[i];
    struct digest digest = weir_sha256(password.bytes, password.len);
    bool good = !found->has_password;
    *generation = found->generations[0];
    for (size_t i = 0; i < CONFIG_PASSWORDS; i++)
        if (weir_digest_same(&digest, &found->passwords[i].digest) && i < found->password_count &&
            !found->passwords[i].crypt[0]) {
            good = true;
            if (found->has_password)
                *generation = found->generations[i];
        }
#if WEIR_ASSERTIONS
    bool right = false;
    for (size_t i = 0; i < found->password_count; i++)
        right |= !found->passwords[i].crypt[0] && weir_digest_same(&digest, &found->passwords[i].digest);
    INVARIANT(36, good == (!found->has_password || right));
    INVARIANT(36, !good || weir_user_has(found, *generation));
#endif
    weir_secret_wipe(&digest, sizeof digest);
    return good ? found : NULL;
}

/* A digest is compared in full only if its first 8 bytes agree, which is one comparison and so tells nothing
 * about a part of them. */
const struct user *weir_users_by_token(const struct users *users, const struct digest *token,
                                       uint64_t *generation)
{
    for (size_t i = 0; i < users->count; i++)
        for (size_t at = 0; at < users->list[i].password_count; at++) {
            const struct password *has = &users->list[i].passwords[at];
            uint64_t front, wanted;
            memcpy(&front, has->digest.bytes, sizeof front);
            memcpy(&wanted, token->bytes, sizeof wanted);
            if (has->is_token && front == wanted && weir_digest_same(&has->digest, token)) {
                *generation = users->list[i].generations[at];
                INVARIANT(36, weir_user_has(&users->list[i], *generation));
                return &users->list[i];
            }
        }
    return NULL;
}

const struct user *weir_users_certificate(const struct users *users, const char *subject)
{
    for (size_t i = 0; i < users->count; i++)
        if (users->list[i].certificate[0] && strcmp(users->list[i].certificate, subject) == 0)
            return &users->list[i];
    return NULL;
}

/* ---- generations ---- */

static bool same_slices(const struct slice *one, size_t count, const struct slice *other, size_t other_count)
{
    bool same = count == other_count;
    for (size_t i = 0; same && i < count; i++)
        same = one[i].len == other[i].len && memcmp(one[i].bytes, other[i].bytes, one[i].len) == 0;
    return same;
}

static bool same_rights(const struct user *one, const struct user *other)
{
    return one->may == other->may && one->has_password == other->has_password &&
           same_slices(one->prefixes, one->prefix_count, other->prefixes, other->prefix_count) &&
           same_slices(one->policies, one->policy_count, other->policies, other->policy_count);
}

/* Of password `at`, as `before` has it; 0: it has no such password. */
static uint64_t generation_before(const struct user *user, size_t at, const struct user *before)
{
    if (!user->has_password)
        return before->generations[0];
    for (size_t i = 0; i < before->password_count; i++)
        if (weir_digest_same(&user->passwords[at].digest, &before->passwords[i].digest))
            return before->generations[i];
    return 0;
}

/* docs/internals/server.md, 36: a connection stays logged in only if its password and its rights are the
 * same. */
static void check_generation(const struct user *user, size_t at, const struct user *was)
{
#if WEIR_ASSERTIONS
    size_t kept = 0;
    while (kept < CONFIG_PASSWORDS && was->generations[kept] != user->generations[at])
        kept++;
    if (kept < CONFIG_PASSWORDS) {
        INVARIANT(36, user->may == was->may && user->has_password == was->has_password);
        INVARIANT(36, user->prefix_count == was->prefix_count && user->policy_count == was->policy_count);
        INVARIANT(36, !user->has_password ||
                          weir_digest_same(&user->passwords[at].digest, &was->passwords[kept].digest));
    } else if (at < user->password_count && same_rights(user, was)) {
        for (size_t i = 0; i < was->password_count; i++)
            INVARIANT(36, was->generations[i] == 0 ||
                              !weir_digest_same(&user->passwords[at].digest, &was->passwords[i].digest));
    }
#else
    (void)user, (void)at, (void)was;
#endif
}

void weir_users_number(struct users *users, const struct users *before, uint64_t *last)
{
#if WEIR_ASSERTIONS
    const char *any = users->any_crypt;
    weir_users_find_crypt(users);
    ASSERT(users->any_crypt == any);
#endif
    for (size_t i = 0; i < users->count; i++) {
        struct user *user = &users->list[i];
        const struct user *was = weir_users_find(before, (struct slice){user->name, strlen(user->name)});
        bool same = was && same_rights(user, was);
        for (size_t at = 0; at < CONFIG_PASSWORDS; at++) {
            uint64_t kept = same ? generation_before(user, at, was) : 0;
            user->generations[at] = kept > 0 ? kept : ++*last;
            if (was)
                check_generation(user, at, was);
        }
        bool shown = same && strcmp(user->certificate, was->certificate) == 0;
        user->certificate_generation = shown ? was->certificate_generation : ++*last;
    }
}

bool weir_user_has(const struct user *user, uint64_t generation)
{
    size_t count = user->has_password ? user->password_count : 1;
    if (user->certificate[0] && user->certificate_generation == generation)
        return true;
    for (size_t i = 0; i < count; i++)
        if (user->generations[i] == generation)
            return true;
    return false;
}

bool weir_user_is_admin(const struct user *user)
{
    return user->may & MAY_ADMIN && user->prefix_count == 0 && user->policy_count == 0;
}

size_t weir_users_tenants(const struct users *users)
{
    size_t tenants = 0;
    for (size_t i = 0; i < users->count; i++)
        tenants += users->list[i].has_password && !weir_user_is_admin(&users->list[i]);
    return tenants;
}

bool weir_user_may(const struct user *user, unsigned classes)
{
    bool may = (user->may & classes) == classes;
    ASSERT(may == !(classes & ~user->may));
    return may;
}

static bool begins_with(struct slice key, struct slice prefix)
{
    return prefix.len <= key.len && (prefix.len == 0 || memcmp(prefix.bytes, key.bytes, prefix.len) == 0);
}

bool weir_user_may_key(const struct user *user, struct slice key)
{
    for (size_t i = 0; i < user->prefix_count; i++)
        if (begins_with(key, user->prefixes[i])) {
#if WEIR_ASSERTIONS
            for (size_t at = 0; at < user->prefixes[i].len; at++)
                ASSERT(key.bytes[at] == user->prefixes[i].bytes[at]);
#endif
            return true;
        }
    return user->prefix_count == 0;
}

bool weir_user_may_policy(const struct user *user, struct slice policy)
{
    for (size_t i = 0; i < user->policy_count; i++)
        if (user->policies[i].len == policy.len && begins_with(policy, user->policies[i])) {
            ASSERT(user->policies[i].len == policy.len);
            return true;
        }
    return user->policy_count == 0;
}
