/* SPDX-License-Identifier: MIT */
/*
 * `address:`, `allow:` and `block:` of a policy: see address_rules.h. A file of a list is read with the
 * configuration, so it comes into force with it or not at all.
 */
#define _POSIX_C_SOURCE 200809L

#include "config/read_address.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/hash_key.h"
#include "config/read_policy.h"
#include "config/values.h"

#define LIST_FILE_MAX ((size_t)8 << 20) /* bytes */
#define RANGE_WRITE   "an address or a network: 192.0.2.7, 192.0.2.0/24, \"2001:db8::/32\""
#define NAME_ROOM     7 /* "/32-128" */

static struct address_rules *rules_of_policy(struct config_reader *reading, struct config_policy *policy)
{
    if (!policy->address && !(policy->address = weir_address_rules_new()))
        weir_reading_no_memory(reading);
    return policy->address;
}

/* ---- tiers ---- */

#define AT(MEMBER) .offset = offsetof(struct address_tier, MEMBER)
static const struct config_key tier_keys[] = {
    {"v4", "the bits of an IPv4 prefix, 1 to 32", KEY_COUNT, AT(four), BETWEEN(1, 32)},
    {"v6", "the bits of an IPv6 prefix, 1 to 128", KEY_COUNT, AT(six), BETWEEN(1, 128)},
    {"limits", "limits such as 5/m, or [5/m, 100/d]", KEY_OWN, AT(limits), .read = weir_reading_limits,
     .print = weir_limits_print},
};
#undef AT
static const struct config_map tier_map = {KEY_ARRAY(tier_keys)};

static void read_tier(struct config_reader *reading, const struct yaml_node *node,
                      struct address_rules *rules)
{
    struct address_tier *tier = &rules->tiers[rules->tier_count++];
    tier->place = node->place;
    if (!weir_reading_map(reading, node, "a tier of address:", &tier_map, tier))
        return;
    if (!weir_node_find(node, "v4") || !weir_node_find(node, "v6") || !weir_node_find(node, "limits"))
        weir_reading_wrong(reading, node->place,
                           "a tier of address: has v4, v6 and limits: {v4: 24, v6: 48, limits: 50/m}");
    for (const struct address_tier *other = rules->tiers; other < tier; other++)
        if (other->four == tier->four && other->six == tier->six)
            weir_reading_wrong(
                reading, node->place,
                "two tiers have the same prefixes, first at line %d; write all of their limits "
                "in one",
                other->place.line);
}

void weir_reading_address(struct config_reader *reading, const struct yaml_node *node,
                          const struct config_key *key, void *into)
{
    struct address_rules *rules = rules_of_policy(reading, into);
    if (!rules || !weir_reading_is_list(reading, node, key, ADDRESS_TIERS_MAX))
        return;
    rules->has_tiers = true;
    for (const struct yaml_node *entry = node->first; entry; entry = entry->next)
        read_tier(reading, entry, rules);
}

void weir_address_print(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct address_rules *rules = ((const struct config_policy *)from)->address;
    if (!rules || !rules->has_tiers)
        return;
    weir_buffer_print(out, "%*s%s:\n", indent, "", key->name);
    for (size_t i = 0; i < rules->tier_count; i++)
        weir_keys_print(out, &tier_map, &rules->tiers[i], indent + 4, true);
}

/* ---- lists ---- */

/* What the lists of a policy say so far. */
static bool add_network(struct config_reader *reading, struct config_policy *policy,
                        struct config_place place, const struct ip_range *range, enum address_rule rule)
{
    struct config *config = reading->config;
    if (config->networks == ADDRESS_PREFIXES_MAX) {
        weir_reading_wrong(reading, place, "allow: and block: of all policies have more than %d networks",
                           ADDRESS_PREFIXES_MAX);
        return false;
    }
    if (policy->network_count == policy->network_room) {
        size_t room = policy->network_room > 0 ? 2 * policy->network_room : 64;
        struct address_entry *more = realloc(policy->networks, room * sizeof *more);
        if (!more) {
            weir_reading_no_memory(reading);
            return false;
        }
        policy->networks = more;
        policy->network_room = room;
    }
    policy->networks[policy->network_count++] = (struct address_entry){*range, rule};
    policy->address->listed[rule]++;
    config->networks++;
    return true;
}

static bool read_list_lines(struct config_reader *reading, struct config_policy *policy,
                            const struct yaml_node *node, const char *path, struct slice bytes,
                            enum address_rule rule)
{
    struct address_lines lines = {bytes, 0};
    struct ip_range range;
    struct slice text;
    char shown[READING_SHOWN];
    for (;;)
        switch (weir_address_lines_next(&lines, &range, &text)) {
        case ADDRESS_LINE_END:
            return true;
        case ADDRESS_LINE_WRONG:
            weir_reading_wrong(reading, node->place, "%.200s:%d: '%s' is no network; write " RANGE_WRITE,
                               path, lines.line, weir_reading_show(text.bytes, text.len, shown));
            return false;
        case ADDRESS_LINE_RANGE:
            if (!add_network(reading, policy, node->place, &range, rule))
                return false;
        }
}

/* "@" and the path, or NULL after a complaint. */
static char *read_list_file(struct config_reader *reading, struct config_policy *policy,
                            const struct yaml_node *node, enum address_rule rule)
{
    struct yaml_node name = *node;
    mode_t mode = 0;
    name.text++;
    name.len--;
    if (reading->config->list_files++ == ADDRESS_FILES_MAX) {
        weir_reading_wrong(reading, node->place, "allow: and block: name more than %d files",
                           ADDRESS_FILES_MAX);
        return NULL;
    }
    char *bytes = malloc(LIST_FILE_MAX + 1), *path = weir_reading_beside(reading, &name), *text = NULL;
    ssize_t len = bytes && path ? weir_secret_file_read(path, bytes, LIST_FILE_MAX + 1, &mode) : -1;
    if (!bytes)
        weir_reading_no_memory(reading);
    else if (path && len < 0)
        weir_reading_wrong(reading, node->place, "%.200s cannot be read: %s", path,
                           errno == EINVAL ? "it is no plain file" : strerror(errno));
    else if (len > (ssize_t)LIST_FILE_MAX)
        weir_reading_wrong(reading, node->place, "%.200s is too large: at most 8 MiB", path);
    else if (len >= 0 && mode & S_IWOTH)
        weir_reading_wrong(reading, node->place,
                           "%.200s can be written by every user (mode %04o); chmod o-w it", path,
                           (unsigned)mode & 07777);
    else if (len >= 0 &&
             read_list_lines(reading, policy, node, path, (struct slice){bytes, (size_t)len}, rule) &&
             (text = weir_reading_array(reading, strlen(path) + 2, 1)))
        (void)snprintf(text, strlen(path) + 2, "@%s", path);
    free(bytes);
    free(path);
    return text;
}

static char *read_list_entry(struct config_reader *reading, struct config_policy *policy,
                             const struct yaml_node *node, const struct config_key *key)
{
    enum address_rule rule = (enum address_rule)key->least;
    struct ip_range range;
    if (!weir_reading_is_text(reading, node, key))
        return NULL;
    if (node->text[0] == '@' && node->len > 1)
        return read_list_file(reading, policy, node, rule);
    if (!weir_ip_range_read((struct slice){node->text, node->len}, &range)) {
        weir_reading_unfit(reading, node, key);
        return NULL;
    }
    return add_network(reading, policy, node->place, &range, rule)
               ? weir_reading_copy(reading, node->text, node->len)
               : NULL;
}

static struct text_list *texts_of(struct address_rules *rules, const struct config_key *key)
{
    return key->least == ADDRESS_ALLOWED ? &rules->allow : &rules->block;
}

void weir_reading_address_list(struct config_reader *reading, const struct yaml_node *node,
                               const struct config_key *key, void *into)
{
    struct config_policy *policy = into;
    struct address_rules *rules = rules_of_policy(reading, policy);
    bool many = node->kind == NODE_LIST;
    if (!rules || (many && !weir_reading_is_list(reading, node, key, ADDRESS_PREFIXES_MAX)))
        return;
    struct text_list *list = texts_of(rules, key);
    list->texts = weir_reading_array(reading, many ? weir_node_count(node) : 1, sizeof *list->texts);
    for (const struct yaml_node *entry = many ? node->first : node; list->texts && entry;
         entry = many ? entry->next : NULL) {
        char *text = read_list_entry(reading, policy, entry, key);
        if (text)
            list->texts[list->count++] = text;
        if (reading->complaints >= CONFIG_COMPLAINTS_MAX)
            return;
    }
}

void weir_address_list_print(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    struct address_rules *rules = ((const struct config_policy *)from)->address;
    if (rules)
        weir_key_print_texts(out, key, texts_of(rules, key), "", indent);
}

/* ---- together ---- */

static void make_list(struct config_reader *reading, struct config_policy *policy)
{
    if (policy->network_count > 0 &&
        !(policy->address->list = weir_address_list_new(policy->networks, policy->network_count)))
        weir_reading_no_memory(reading);
    free(policy->networks);
    policy->networks = NULL;
    policy->network_count = policy->network_room = 0;
}

static void name_tiers(struct config_reader *reading, const struct yaml_node *node,
                       const struct config_policy *policy)
{
    struct address_rules *rules = policy->address;
    size_t most = CONFIG_NAME_MAX - (rules->tier_count > 1 ? NAME_ROOM : 0);
    if (strlen(policy->name) > most) {
        weir_reading_wrong(reading, node->place,
                           "the name of a policy with several tiers has at most %zu bytes: each further one "
                           "is named after it, as in login/24-48",
                           most);
        return;
    }
    for (size_t i = 0; i < rules->tier_count; i++) {
        struct address_tier *tier = &rules->tiers[i];
        (void)snprintf(tier->name, sizeof tier->name, i > 0 ? "%s/%d-%d" : "%s", policy->name,
                       (int)tier->four, (int)tier->six);
    }
}

static void check_neighbours(struct config_reader *reading, const struct yaml_node *node,
                             const struct config_policy *policy)
{
    const struct yaml_node *limits = weir_node_find(node, "limits");
    const struct yaml_node *candidate = weir_node_find(node, "candidate");
    const struct yaml_node *fleet = weir_node_find(node, "fleet");
    bool tiers = policy->address->has_tiers;
    if (tiers && limits)
        weir_reading_wrong(reading, limits->place,
                           "limits: and address: exclude each other; write limits: for whole addresses as a "
                           "tier: address: [{v4: 32, v6: 128, limits: 5/m}]");
    if (tiers && candidate)
        weir_reading_wrong(reading, candidate->place,
                           "candidate: does not go with address:; try other limits in a second policy with "
                           "mode: shadow, and ask both with AND");
    if (fleet)
        weir_reading_wrong(reading, fleet->place,
                           "fleet: does not go with address:, allow: and block:; give them to a policy of "
                           "their own, and ask both with AND");
}

/* The key of each override is that of a tier. `of`: which one. */
static bool name_override(struct config_reader *reading, const struct address_rules *rules,
                          struct config_override *override, size_t *of)
{
    char key[IP_TEXT_MAX], why[ADDRESS_WHY_MAX];
    if (!override->key)
        return false;
    struct slice prefix = {override->key, override->prefix ? 0 : override->len};
    *of = weir_address_tier_of(rules, prefix, key, why);
    if (*of == SIZE_MAX) {
        weir_reading_wrong(reading, override->place, "%s", why);
        return false;
    }
    char *copy = weir_reading_copy(reading, key, strlen(key));
    if (!copy)
        return false;
    free(override->key);
    override->key = copy;
    override->len = strlen(key);
    return true;
}

void weir_reading_address_check(struct config_reader *reading, const struct yaml_node *node,
                                struct config_policy *policy)
{
    struct address_rules *rules = policy->address;
    make_list(reading, policy);
    check_neighbours(reading, node, policy);
    if (!rules->has_tiers) {
        rules->tier_count = 1;
        rules->tiers[0] = (struct address_tier){.four = 32, .six = 128};
    }
    if (policy->name)
        name_tiers(reading, node, policy);
    if (rules->has_tiers && !policy->limits && rules->tiers[0].limits)
        policy->limits = weir_reading_copy(reading, rules->tiers[0].limits, strlen(rules->tiers[0].limits));
}

static void move_override(struct config_policy *from, size_t at, struct config_policy *to)
{
    to->overrides[to->override_count++] = from->overrides[at];
    memmove(from->overrides + at, from->overrides + at + 1,
            (--from->override_count - at) * sizeof *from->overrides);
}

static bool make_tier_policy(struct config_reader *reading, const struct config_policy *policy, size_t number)
{
    const struct address_tier *from = &policy->address->tiers[number];
    struct config_policy *tier = (struct config_policy *)(uintptr_t)policy + number;
    *tier = (struct config_policy){.settings = policy->settings,
                                   .mode = policy->mode,
                                   .percent = policy->percent,
                                   .place = from->place,
                                   .is_tier = true};
    tier->name = weir_reading_copy(reading, from->name, strlen(from->name));
    tier->limits = from->limits ? weir_reading_copy(reading, from->limits, strlen(from->limits)) : NULL;
    if (policy->override_count > 0)
        tier->overrides = weir_reading_array(reading, policy->override_count, sizeof *tier->overrides);
    return tier->overrides || policy->override_count == 0;
}

size_t weir_reading_address_tiers(struct config_reader *reading, struct config_policy *policy)
{
    const struct address_rules *rules = policy->address;
    size_t of, more = rules && rules->tier_count > 1 ? rules->tier_count - 1 : 0;
    bool good = rules != NULL;
    for (size_t i = 1; i <= more; i++)
        good = make_tier_policy(reading, policy, i) && good;
    for (size_t i = 0; good && i < policy->override_count;)
        if (name_override(reading, rules, &policy->overrides[i], &of) && of > 0)
            move_override(policy, i, policy + of);
        else
            i++;
    return more;
}
