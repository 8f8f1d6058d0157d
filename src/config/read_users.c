/* SPDX-License-Identifier: MIT */
/*
 * The users of weir.yaml: passwords, classes of commands, prefixes of keys, policies.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/password_hash.h"
#include "config/read_users.h"

/* ---- passwords ---- */

typedef void read_one(struct config_reader *reading, const struct yaml_node *node,
                      const struct config_field *field, struct config_user *user);

/* One password, or a list of two: while clients change over, both count. */
static void read_passwords(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_field *field, struct config_user *user, read_one *read)
{
    user->has_password = true; /* what is wrong about it is reported */
    if (node->kind == NODE_LIST && !weir_reading_is_list(reading, node, field, CONFIG_PASSWORDS))
        return;
    const struct yaml_node *entry = node->kind == NODE_LIST ? node->first : node;
    for (; entry; entry = node->kind == NODE_LIST ? entry->next : NULL) {
        if (!weir_reading_is_text(reading, entry, field))
            return;
        if (user->password_count == CONFIG_PASSWORDS) {
            weir_reading_wrong(reading, node->key_place,
                               "a user has at most %d passwords, the old and the new one; leave one out",
                               CONFIG_PASSWORDS);
            return;
        }
        read(reading, entry, field, user);
    }
}

static void add_password(struct config_user *user, struct digest digest)
{
    user->passwords[user->password_count++] = (struct password){.digest = digest};
}

static void read_plain_one(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_field *field, struct config_user *user)
{
    (void)field;
    if (node->len > CONFIG_PASSWORD_MAX)
        weir_reading_wrong(reading, node->place, "a password has at most %d bytes", CONFIG_PASSWORD_MAX);
    add_password(user, weir_sha256(node->text, node->len));
}

static void read_plain_password(struct config_reader *reading, const struct yaml_node *node,
                                const struct config_field *field, void *into)
{
    read_passwords(reading, node, field, into, read_plain_one);
}

/* The text is not shown: it may be a password in the wrong place. */
static void read_digest_one(struct config_reader *reading, const struct yaml_node *node,
                            const struct config_field *field, struct config_user *user)
{
    struct digest digest;
    if (weir_digest_read(node->text, node->len, &digest))
        add_password(user, digest);
    else
        weir_reading_wrong(reading, node->place, "password_sha256 is something else; write %s", field->write);
}

static void read_crypt_one(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_field *field, struct config_user *user)
{
    if (!weir_password_is_hash(node->text)) {
        weir_reading_wrong(reading, node->place, "password_crypt is something else; write %s", field->write);
        return;
    }
    add_password(user, weir_sha256(node->text, node->len));
    memcpy(user->passwords[user->password_count - 1].crypt, node->text, node->len);
}

static void read_crypt(struct config_reader *reading, const struct yaml_node *node,
                       const struct config_field *field, void *into)
{
    read_passwords(reading, node, field, into, read_crypt_one);
}

static void read_digest(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_field *field, void *into)
{
    read_passwords(reading, node, field, into, read_digest_one);
}

/* The whole of a small file; below 0: errno says why. Waits for nobody, as who opens a pipe would. */
static ssize_t read_small_file(const char *path, char *bytes, size_t size, mode_t *mode)
{
    struct stat about = {0};
    ssize_t len = -1, all = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, &about) == 0) {
        errno = EINVAL;
        while (S_ISREG(about.st_mode) && (len = read(fd, bytes + all, size - (size_t)all)) > 0)
            all += len;
    }
    int fault = errno;
    *mode = about.st_mode;
    (void)close(fd);
    errno = fault;
    return len == 0 || (size_t)all == size ? all : -1;
}

static void read_file_one(struct config_reader *reading, const struct yaml_node *node,
                          const struct config_field *field, struct config_user *user)
{
    char bytes[CONFIG_PASSWORD_MAX + 2];
    mode_t mode = 0;
    (void)field;
    char *path = weir_reading_beside(reading, node);
    ssize_t len = path ? read_small_file(path, bytes, sizeof bytes, &mode) : -1;
    const char *why = !path || len >= 0 ? NULL : errno == EINVAL ? "it is no plain file" : strerror(errno);
    if (len > 0 && bytes[len - 1] == '\n')
        len--;
    if (why)
        weir_reading_wrong(reading, node->place, "password_file %.200s cannot be read: %s", path, why);
    else if (len == 0)
        weir_reading_wrong(reading, node->place, "password_file %.200s is empty", path);
    else if (len > CONFIG_PASSWORD_MAX)
        weir_reading_wrong(reading, node->place, "password_file %.200s is too long: at most %d bytes", path,
                           CONFIG_PASSWORD_MAX);
    else if (len > 0 && mode & S_IWOTH)
        weir_reading_wrong(reading, node->place,
                           "password_file %.200s can be written by every user (mode %04o); chmod 600 it",
                           path, (unsigned)mode & 07777);
    else if (len > 0)
        add_password(user, weir_sha256(bytes, (size_t)len));
    weir_secret_wipe(bytes, sizeof bytes);
    if (len > 0 && mode & S_IROTH && !user->open_file) {
        user->open_file = path;
        return;
    }
    free(path);
}

static void read_password_file(struct config_reader *reading, const struct yaml_node *node,
                               const struct config_field *field, void *into)
{
    read_passwords(reading, node, field, into, read_file_one);
}

/* ---- rights ---- */

static void read_user_name(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_field *field, void *into)
{
    struct config_user *user = into;
    user->name = weir_reading_name(reading, node, field);
}

static void read_may(struct config_reader *reading, const struct yaml_node *node,
                     const struct config_field *field, void *into)
{
    static const char *const words[] = {"look", "take", "adjust", "admin", "all", NULL};
    struct config_user *user = into;
    if (node->kind == NODE_LIST && !node->first)
        weir_reading_wrong(reading, node->place, "may is an empty list; write %s", field->write);
    else if (node->kind == NODE_LIST && !weir_reading_is_list(reading, node, field, 16))
        return;
    const struct yaml_node *entry = node->kind == NODE_LIST ? node->first : node;
    for (; entry; entry = node->kind == NODE_LIST ? entry->next : NULL) {
        int word = weir_reading_word(reading, entry, field, words);
        if (word >= 0)
            user->may |= words[word + 1] ? 1u << word : (unsigned)MAY_ALL;
    }
}

/* A list of texts, each of which `check` agrees to. */
static void
read_text_list(struct config_reader *reading, const struct yaml_node *node, const struct config_field *field,
               char *(*read)(struct config_reader *, const struct yaml_node *, const struct config_field *),
               char ***texts, size_t *count)
{
    if (!weir_reading_is_list(reading, node, field, CONFIG_RIGHTS_MAX))
        return;
    *texts = weir_reading_array(reading, weir_node_count(node), sizeof(char *));
    for (const struct yaml_node *entry = *texts ? node->first : NULL; entry; entry = entry->next) {
        char *text = read(reading, entry, field);
        if (text)
            (*texts)[(*count)++] = text;
    }
}

static char *read_key_prefix(struct config_reader *reading, const struct yaml_node *node,
                             const struct config_field *field)
{
    char shown[READING_SHOWN];
    if (!weir_reading_is_text(reading, node, field))
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
                           const struct config_field *field, void *into)
{
    struct config_user *user = into;
    read_text_list(reading, node, field, read_key_prefix, &user->prefixes, &user->prefix_count);
}

static void read_user_policies(struct config_reader *reading, const struct yaml_node *node,
                               const struct config_field *field, void *into)
{
    struct config_user *user = into;
    read_text_list(reading, node, field, weir_reading_name, &user->policies, &user->policy_count);
}

/* ---- a user ---- */

static void check_user(struct config_reader *reading, const struct yaml_node *node,
                       const struct config_user *user, const char *whose)
{
    bool is_default = user->name && strcmp(user->name, "default") == 0;
    if (!weir_node_find(node, "name"))
        weir_reading_wrong(reading, node->place, "this user has no name; write name: app");
    if (!user->has_password && !is_default)
        weir_reading_wrong(reading, node->place,
                           "%s has no password; write password_file: app.password (only `default` may go "
                           "without)",
                           whose);
    if (!weir_node_find(node, "may"))
        weir_reading_wrong(reading, node->place,
                           "%s may do nothing; write may: all, or some of may: [look, take, adjust, admin]",
                           whose);
}

static void read_one_user(struct config_reader *reading, const struct yaml_node *node,
                          struct config_user *user)
{
    static const struct config_field fields[] = {
        {"name", "a name such as app", read_user_name},
        {"password",
         "a password in quotes, or better password_file or password_sha256; a list of two while one "
         "replaces the other",
         read_plain_password},
        {"password_sha256", "64 hexadecimal digits, as sha256sum prints them", read_digest},
        {"password_crypt", "a hash of crypt(3), as mkpasswd -m yescrypt prints it", read_crypt},
        {"password_file", "the path of a file that holds the password alone", read_password_file},
        {"may", "all, or some of [look, take, adjust, admin]", read_may},
        {"keys", "beginnings of keys: [\"user:*\"]; leave it out for all keys", read_user_keys},
        {"policies", "names: [api, login]; leave it out for all policies", read_user_policies},
    };
    const struct yaml_node *name = weir_node_find(node, "name");
    char shown[READING_SHOWN], whose[READING_SHOWN + 16];
    if (name && name->kind == NODE_TEXT && name->len > 0)
        (void)snprintf(whose, sizeof whose, "user '%s'", weir_reading_show(name->text, name->len, shown));
    else
        (void)snprintf(whose, sizeof whose, "a user");
    user->place = node->place;
    if (weir_reading_map(reading, node, whose, fields, sizeof fields / sizeof fields[0], user))
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
}

void weir_reading_users(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_field *field, void *into)
{
    struct config *config = into;
    if (!weir_reading_is_list(reading, node, field, CONFIG_USERS_MAX))
        return;
    config->users = weir_reading_array(reading, weir_node_count(node), sizeof *config->users);
    for (const struct yaml_node *entry = config->users ? node->first : NULL; entry; entry = entry->next) {
        struct config_user *user = &config->users[config->user_count++];
        read_one_user(reading, entry, user);
        check_user_twin(reading, config, user);
        if (reading->complaints >= CONFIG_COMPLAINTS_MAX)
            return;
    }
}

void weir_config_user_free(struct config_user *user)
{
    for (size_t i = 0; i < user->prefix_count; i++)
        free(user->prefixes[i]);
    for (size_t i = 0; i < user->policy_count; i++)
        free(user->policies[i]);
    free(user->prefixes);
    free(user->policies);
    free(user->name);
    free(user->open_file);
    weir_secret_wipe(user->passwords, sizeof user->passwords);
}
