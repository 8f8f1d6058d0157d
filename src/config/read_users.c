/* SPDX-License-Identifier: MIT */
/*
 * The users of weir.yaml: passwords, classes of commands, prefixes of keys, policies.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/hash_key.h"
#include "config/password_hash.h"
#include "config/read_users.h"
#include "config/values.h"

/* ---- passwords ---- */

/* `least` of their keys. */
enum password_form {
    PASSWORD_PLAIN,
    PASSWORD_DIGEST,
    PASSWORD_CRYPT,
    PASSWORD_FILE,
    TOKEN_DIGEST, /* from here on: tokens */
    TOKEN_FILE
};

static size_t count_kind(const struct config_user *user, bool tokens)
{
    size_t count = 0;
    for (size_t i = 0; i < user->password_count; i++)
        count += user->passwords[i].is_token == tokens;
    return count;
}

static void add_password(struct config_user *user, struct digest digest)
{
    user->passwords[user->password_count++] = (struct password){.digest = digest};
}

static void read_plain_one(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_key *key, struct config_user *user)
{
    (void)key;
    if (node->len > CONFIG_PASSWORD_MAX)
        weir_reading_wrong(reading, node->place, "a password has at most %d bytes", CONFIG_PASSWORD_MAX);
    add_password(user, weir_sha256(node->text, node->len));
}

/* The text is not shown: it may be a password in the wrong place. */
static void read_digest_one(struct config_reader *reading, const struct yaml_node *node,
                            const struct config_key *key, struct config_user *user)
{
    struct digest digest;
    if (weir_digest_read(node->text, node->len, &digest))
        add_password(user, digest);
    else
        weir_reading_wrong(reading, node->place, "%s is something else; write %s", key->name, key->write);
}

static void read_crypt_one(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_key *key, struct config_user *user)
{
    if (!weir_password_is_hash(node->text)) {
        weir_reading_wrong(reading, node->place, "password_crypt is something else; write %s", key->write);
        return;
    }
    add_password(user, weir_sha256(node->text, node->len));
    memcpy(user->passwords[user->password_count - 1].crypt, node->text, node->len);
}

static void read_file_one(struct config_reader *reading, const struct yaml_node *node,
                          const struct config_key *key, struct config_user *user)
{
    char bytes[CONFIG_PASSWORD_MAX + 2];
    mode_t mode = 0;
    char *path = weir_reading_beside(reading, node);
    ssize_t len = path ? weir_secret_file_read(path, bytes, sizeof bytes, &mode) : -1;
    const char *why = !path || len >= 0 ? NULL : errno == EINVAL ? "it is no plain file" : strerror(errno);
    if (len > 0 && bytes[len - 1] == '\n')
        len--;
    if (why)
        weir_reading_wrong(reading, node->place, "%s %.200s cannot be read: %s", key->name, path, why);
    else if (len == 0)
        weir_reading_wrong(reading, node->place, "%s %.200s is empty", key->name, path);
    else if (len > CONFIG_PASSWORD_MAX)
        weir_reading_wrong(reading, node->place, "%s %.200s is too long: at most %d bytes", key->name, path,
                           CONFIG_PASSWORD_MAX);
    else if (len > 0 && mode & S_IWOTH)
        weir_reading_wrong(reading, node->place,
                           "%s %.200s can be written by every user (mode %04o); chmod 600 it", key->name,
                           path, (unsigned)mode & 07777);
    else if (len > 0 && key->least == TOKEN_FILE && len < CONFIG_TOKEN_MIN)
        weir_reading_wrong(
            reading, node->place,
            "%s %.200s has %zd bytes; a token has at least %d, as openssl rand -hex 32 makes it", key->name,
            path, len, CONFIG_TOKEN_MIN);
    else if (len > 0)
        add_password(user, weir_sha256(bytes, (size_t)len));
    weir_secret_wipe(bytes, sizeof bytes);
    if (len > 0 && mode & S_IROTH && !user->open_file) {
        user->open_file = path;
        return;
    }
    free(path);
}

/* One password or token, or a list of two: while clients change over, both count. */
static void read_passwords(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_key *key, void *into)
{
    static void (*const readers[])(struct config_reader *, const struct yaml_node *,
                                   const struct config_key *, struct config_user *) = {
        read_plain_one, read_digest_one, read_crypt_one, read_file_one, read_digest_one, read_file_one};
    struct config_user *user = into;
    bool tokens = key->least >= TOKEN_DIGEST;
    user->has_password = true; /* what is wrong about it is reported */
    if (node->kind == NODE_LIST && !weir_reading_is_list(reading, node, key, CONFIG_OF_EACH))
        return;
    const struct yaml_node *entry = node->kind == NODE_LIST ? node->first : node;
    for (; entry; entry = node->kind == NODE_LIST ? entry->next : NULL) {
        if (!weir_reading_is_text(reading, entry, key))
            return;
        size_t before = user->password_count;
        if (count_kind(user, tokens) == CONFIG_OF_EACH) {
            weir_reading_wrong(reading, node->key_place,
                               "a user has at most %d %s, the old and the new one; leave one out",
                               CONFIG_OF_EACH, tokens ? "tokens" : "passwords");
            return;
        }
        readers[key->least](reading, entry, key, user);
        if (user->password_count > before)
            user->passwords[before].is_token = tokens;
    }
}

/* ---- rights ---- */

static const char *const right_words[] = {"look", "take", "adjust", "admin", "all", NULL};

static void read_may(struct config_reader *reading, const struct yaml_node *node,
                     const struct config_key *key, void *into)
{
    struct config_user *user = into;
    if (node->kind == NODE_LIST && !node->first)
        weir_reading_wrong(reading, node->place, "may is an empty list; write %s", key->write);
    else if (node->kind == NODE_LIST && !weir_reading_is_list(reading, node, key, 16))
        return;
    const struct yaml_node *entry = node->kind == NODE_LIST ? node->first : node;
    for (; entry; entry = node->kind == NODE_LIST ? entry->next : NULL) {
        int word = weir_reading_word(reading, entry, key, right_words);
        if (word >= 0)
            user->may |= right_words[word + 1] ? 1u << word : (unsigned)MAY_ALL;
    }
}

static void print_may(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct config_user *user = from;
    const char *front = "[";
    weir_key_print_name(out, key, indent);
    if ((user->may & MAY_ALL) == MAY_ALL) {
        weir_buffer_print(out, "all\n");
        return;
    }
    for (unsigned i = 0; i < 4; i++)
        if (user->may & 1u << i) {
            weir_buffer_print(out, "%s%s", front, right_words[i]);
            front = ", ";
        }
    weir_buffer_print(out, "]\n");
}

static char *read_key_prefix(struct config_reader *reading, const struct yaml_node *node,
                             const struct config_key *key)
{
    char shown[READING_SHOWN];
    if (!weir_reading_is_text(reading, node, key))
        return NULL;
    if (node->len <= CONFIG_KEY_MAX && node->text[node->len - 1] == '*')
        return weir_reading_copy(reading, node->text, node->len - 1);
    weir_reading_show(node->text, node->len, shown);
    if (node->len > CONFIG_KEY_MAX)
        weir_reading_wrong(reading, node->place, "a key has at most %d bytes, not %zu", CONFIG_KEY_MAX,
                           node->len);
    else
        weir_reading_wrong(
            reading, node->place,
            "keys are the beginnings of keys and end in *; write \"%s*\" for all that begin so", shown);
    return NULL;
}

static void read_user_keys(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_key *key, void *into)
{
    struct config_user *user = into;
    weir_reading_texts(reading, node, key, CONFIG_RIGHTS_MAX, read_key_prefix, &user->prefixes);
}

static void print_user_keys(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct config_user *user = from;
    weir_key_print_texts(out, key, &user->prefixes, "*", indent);
}

static void print_hidden_password(struct buffer *out, const struct config_key *key, const void *from,
                                  int indent)
{
    (void)key;
    const struct config_user *user = from;
    if (user->has_password && (user->password_count > 0 || !user->certificate))
        weir_buffer_print(out, "%*s# password_sha256: (hidden)\n", indent, "");
}

/* ---- a user ---- */

static const struct config_key user_keys[] = {
    {"name", "a name such as app", KEY_NAME, .offset = offsetof(struct config_user, name)},
    {"password",
     "a password in quotes, or better password_file or password_sha256; a list of two while one replaces the "
     "other",
     KEY_OWN, .least = PASSWORD_PLAIN, .read = read_passwords, .print = print_hidden_password},
    {"password_sha256", "64 hexadecimal digits, as sha256sum prints them", KEY_OWN, .least = PASSWORD_DIGEST,
     .read = read_passwords},
    {"password_crypt", "a hash of crypt(3), as mkpasswd -m yescrypt prints it", KEY_OWN,
     .least = PASSWORD_CRYPT, .read = read_passwords},
    {"password_file", "the path of a file that holds the password alone", KEY_OWN, .least = PASSWORD_FILE,
     .read = read_passwords},
    {"token_sha256", "64 hexadecimal digits, as sha256sum prints them of the token without a line break",
     KEY_OWN, .least = TOKEN_DIGEST, .read = read_passwords},
    {"token_file", "the path of a file that holds the token alone", KEY_OWN, .least = TOKEN_FILE,
     .read = read_passwords},
    {"certificate", "the subject of its client certificate, such as \"CN=app,O=Example\"", KEY_TEXT,
     .offset = offsetof(struct config_user, certificate), .most = CONFIG_SUBJECT_MAX},
    {"may", "all, or some of [look, take, adjust, admin]", KEY_OWN, .read = read_may, .print = print_may},
    {"keys", "beginnings of keys: [\"user:*\"]; leave it out for all keys", KEY_OWN, .read = read_user_keys,
     .print = print_user_keys},
    {"policies", "names: [api, login]; leave it out for all policies", KEY_NAMES, .most = CONFIG_RIGHTS_MAX,
     .offset = offsetof(struct config_user, policies)},
};
static const struct config_map user_map = {KEY_ARRAY(user_keys)};

static void check_user(struct config_reader *reading, const struct yaml_node *node, struct config_user *user,
                       const char *whose)
{
    bool is_default = user->name && strcmp(user->name, "default") == 0;
    if (user->certificate && is_default)
        weir_reading_wrong(reading, node->place,
                           "`default` is who has not logged in, and has no certificate; write a user for it");
    user->has_password |= user->certificate != NULL; /* it needs a login */
    if (!weir_node_find(node, "name"))
        weir_reading_wrong(reading, node->place, "this user has no name; write name: app");
    if (!user->has_password && !is_default)
        weir_reading_wrong(reading, node->place,
                           "%s has no password; write password_file: app.password or token_file: app.token "
                           "(only `default` may go without)",
                           whose);
    if (!weir_node_find(node, "may"))
        weir_reading_wrong(reading, node->place,
                           "%s may do nothing; write may: all, or some of may: [look, take, adjust, admin]",
                           whose);
}

static void read_one_user(struct config_reader *reading, const struct yaml_node *node,
                          struct config_user *user)
{
    char whose[READING_WHOSE];
    weir_reading_whose("user", node, whose);
    user->place = node->place;
    if (weir_reading_map(reading, node, whose, &user_map, user))
        check_user(reading, node, user, whose);
}

static void check_user_twin(struct config_reader *reading, const struct config *config,
                            const struct config_user *last)
{
    for (const struct config_user *user = config->users; last->name && user < last; user++)
        if (user->name && strcmp(user->name, last->name) == 0) {
            weir_reading_wrong(reading, last->place, "user '%s' is defined twice, first at line %d",
                               last->name, user->place.line);
            return;
        }
    for (const struct config_user *user = config->users; last->certificate && user < last; user++)
        if (user->certificate && strcmp(user->certificate, last->certificate) == 0)
            weir_reading_wrong(reading, last->place, "users '%s' and '%s' have the same certificate",
                               user->name ? user->name : "", last->name ? last->name : "");
}

/* A token names its user, so no two users have the same. */
static void check_token_twin(struct config_reader *reading, const struct config *config,
                             const struct config_user *last)
{
    for (const struct config_user *user = config->users; user < last; user++)
        for (size_t i = 0; i < user->password_count; i++)
            for (size_t at = 0; at < last->password_count; at++)
                if (user->passwords[i].is_token && last->passwords[at].is_token &&
                    weir_digest_same(&user->passwords[i].digest, &last->passwords[at].digest))
                    weir_reading_wrong(reading, last->place,
                                       "this user has the same token as the one at line %d; make another one",
                                       user->place.line);
}

void weir_reading_users(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key, void *into)
{
    struct config *config = into;
    if (!weir_reading_is_list(reading, node, key, CONFIG_USERS_MAX))
        return;
    config->users = weir_reading_array(reading, weir_node_count(node), sizeof *config->users);
    for (const struct yaml_node *entry = config->users ? node->first : NULL; entry; entry = entry->next) {
        struct config_user *user = &config->users[config->user_count++];
        read_one_user(reading, entry, user);
        check_user_twin(reading, config, user);
        check_token_twin(reading, config, user);
        if (reading->complaints >= CONFIG_COMPLAINTS_MAX)
            return;
    }
}

void weir_users_print(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct config *config = from;
    if (config->user_count > 0)
        weir_buffer_print(out, "%s:\n", key->name);
    for (size_t i = 0; i < config->user_count; i++)
        weir_keys_print(out, &user_map, &config->users[i], indent + 4, true);
}

void weir_config_user_free(struct config_user *user)
{
    weir_text_list_free(&user->prefixes);
    weir_text_list_free(&user->policies);
    free(user->name);
    free(user->certificate);
    free(user->open_file);
    weir_secret_wipe(user->passwords, sizeof user->passwords);
}
