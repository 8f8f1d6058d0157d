/* SPDX-License-Identifier: MIT */
/*
 * The policies of weir.yaml: limits, with every mistake at its column of the file, modes and overrides.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/read_address.h"
#include "config/read_fleet.h"
#include "config/read_policy.h"
#include "config/timestamp.h"
#include "config/values.h"
#include "core/idle.h"
#include "phrasebook/phrasebook.h"
#include "spec/spec.h"
#include "table/override.h"

#define LIMITS_WRITE   "limits such as 100/s burst=200, or [100/s burst=200, 10k/h]"
#define NETWORKS_WRITE "addresses, networks or files of them: [192.0.2.7, \"2001:db8::/32\", \"@office.txt\"]"
#define DEFAULT_TTL_MS 60000
#define DEFAULT_IDS_NS (300 * WEIR_SEC)
#define RECOVER_MAX    2 /* of enum table_recover */
#define IDS_MAX_NS     (86400 * WEIR_SEC)

/* The message of an error that may begin with the text and the column. */
static const char *message_of(const struct weir_error *err, const char *text)
{
    char column[32];
    size_t len = strlen(text);
    if (err->column <= 0)
        return strncmp(err->text, text, len) == 0 && strncmp(err->text + len, ": ", 2) == 0
                   ? err->text + len + 2
                   : err->text;
    (void)snprintf(column, sizeof column, ": column %d: ", (int)err->column);
    const char *last = NULL;
    for (const char *at = strstr(err->text, column); at; at = strstr(at + 1, column))
        last = at;
    return last ? last + strlen(column) : err->text;
}

/* ---- limits ---- */

/* The canonical text of one entry, of at most SPEC_TEXT_MAX bytes; false after a complaint. */
static bool read_one_limit(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_key *key, char canonical[static SPEC_TEXT_MAX + 1])
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    struct spec_fault fault;
    struct weir_error err;
    int32_t column = 0;
    if (!weir_reading_is_text(reading, node, key))
        return false;
    if (weir_phrasebook_read(node->text, specs, WEIR_LIMITS_MAX, &column, &fault) == 0) {
        weir_reading_wrong_inside(reading, node, column, fault.text);
        return false;
    }
    struct weir_policy *policy = weir_policy_idle(node->text, &err);
    if (!policy) {
        weir_reading_wrong_inside(reading, node, err.column, message_of(&err, node->text));
        return false;
    }
    (void)weir_policy_text(policy, canonical, SPEC_TEXT_MAX + 1);
    weir_policy_free(policy);
    return true;
}

/* All of them together: names that are alike, too many. */
static char *read_joined(struct config_reader *reading, const struct yaml_node *node, const char *joined)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_idle(joined, &err);
    if (!policy) {
        weir_reading_wrong(reading, node->place, "%s", message_of(&err, joined));
        return NULL;
    }
    weir_policy_free(policy);
    return weir_reading_copy(reading, joined, strlen(joined));
}

/* One text or a list of them, as canonical text; NULL after a complaint. */
static char *read_limits_text(struct config_reader *reading, const struct yaml_node *node,
                              const struct config_key *key)
{
    char one[SPEC_TEXT_MAX + 1], joined[SPEC_TEXT_MAX + 1];
    struct text text;
    bool good = true;
    if (node->kind != NODE_LIST)
        return read_one_limit(reading, node, key, one) ? weir_reading_copy(reading, one, strlen(one)) : NULL;
    if (!weir_reading_is_list(reading, node, key, WEIR_LIMITS_MAX))
        return NULL;
    weir_text_init(&text, joined, sizeof joined);
    for (const struct yaml_node *entry = node->first; entry; entry = entry->next) {
        if (!read_one_limit(reading, entry, key, one)) {
            good = false;
            continue;
        }
        weir_text_print(&text, "%s%s", text.len > 0 ? ", " : "", one);
    }
    if (good && text.len > SPEC_TEXT_MAX) {
        weir_reading_wrong(reading, node->place, "%s are too long: at most %d bytes", key->name,
                           SPEC_TEXT_MAX);
        good = false;
    }
    return good ? read_joined(reading, node, joined) : NULL;
}

void weir_reading_limits(struct config_reader *reading, const struct yaml_node *node,
                         const struct config_key *key, void *into)
{
    *(char **)(void *)key_number(key, into) = read_limits_text(reading, node, key);
}

/* As a list in brackets. A comma never stands inside of a limit. */
void weir_limits_print(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const char *limits = *(char **)(void *)key_number(key, from);
    if (!limits)
        return;
    weir_key_print_name(out, key, indent);
    for (const char *front = "["; limits; front = ", ") {
        const char *comma = strchr(limits, ',');
        weir_buffer_print(out, "%s", front);
        weir_key_print_text(out, limits, comma ? (size_t)(comma - limits) : strlen(limits));
        limits = comma ? comma + 1 + strspn(comma + 1, " ") : NULL;
    }
    weir_buffer_print(out, "]\n");
}

/* What people write because it is so elsewhere. */
static const char *const limits_advice[][2] = {
    {"burst", "it stands in the limit: limits: 100/s burst=200"},
    {"rate", "write limits: 100/s"},
    {"period", "it stands in the limit: limits: 100/s"},
    {"algo", "it stands in the limit: limits: 5/m algo=sliding-log"},
    {"algorithm", "it stands in the limit: limits: 5/m algo=sliding-log"},
    {"shadow", "write mode: shadow"},
    {"disabled", "write mode: disabled"},
    {"enabled", "write mode: enforce, or mode: disabled"},
    {"enforce", "write mode: enforce, or mode: enforce 25%"},
    {"percent", "write mode: enforce 25%"},
};

/* ---- overrides ---- */

static void read_override_key(struct config_reader *reading, const struct yaml_node *node,
                              const struct config_key *key, void *into)
{
    struct config_override *override = into;
    bool text = node->kind == NODE_TEXT && node->len > 0;
    if (text && node->len > CONFIG_KEY_MAX) {
        weir_reading_wrong(reading, node->place, "a key of %zu bytes is too long: at most %d", node->len,
                           CONFIG_KEY_MAX);
        return;
    }
    /* A key is any bytes, so a quoted NUL may be among them. */
    if (!(text && !node->plain) && !weir_reading_is_text(reading, node, key))
        return;
    if (memchr(node->text, '*', node->len - 1)) {
        weir_reading_wrong(reading, node->place,
                           "a '*' inside of a key stands for nothing; the beginning of keys ends in '*': "
                           "\"internal:*\"");
        return;
    }
    override->key = weir_reading_copy(reading, node->text, node->len);
    override->prefix = node->text[node->len - 1] == '*';
    override->len = node->len - (override->prefix ? 1 : 0);
    if (override->key)
        override->key[override->len] = '\0';
}

static void print_override_key(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct config_override *override = from;
    char text[CONFIG_KEY_MAX + 1];
    size_t len = override->len < CONFIG_KEY_MAX ? override->len : CONFIG_KEY_MAX;
    memcpy(text, override->key, len);
    if (override->prefix)
        text[len++] = '*';
    weir_key_print_name(out, key, indent);
    weir_key_print_text(out, text, len);
    buffer_put(out, "\n", 1);
}

static void read_until(struct config_reader *reading, const struct yaml_node *node,
                       const struct config_key *key, void *into)
{
    struct config_override *override = into;
    if (weir_reading_is_text(reading, node, key) && !weir_timestamp_read(node->text, &override->until_ms))
        weir_reading_unfit(reading, node, key);
}

/* As short as it can be read back. */
static void print_until(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    int64_t ms = ((const struct config_override *)from)->until_ms;
    char text[TIMESTAMP_MAX];
    if (ms <= 0)
        return;
    weir_timestamp_write(ms, text);
    weir_key_print_name(out, key, indent);
    if (ms % 86400000 == 0)
        weir_buffer_print(out, "%.10s\n", text);
    else if (ms % 1000 == 0)
        weir_buffer_print(out, "%.19sZ\n", text);
    else
        weir_buffer_print(out, "%s\n", text);
}

#define AT(MEMBER) .offset = offsetof(struct config_override, MEMBER)
static const struct config_key override_keys[] = {
    {"key", "a key, or the beginning of keys with a star, in quotes: \"internal:*\"", KEY_OWN,
     .read = read_override_key, .print = print_override_key},
    {"limits", LIMITS_WRITE, KEY_OWN, AT(limits), .read = weir_reading_limits, .print = weir_limits_print},
    {"until", "a day or a time in UTC: 2027-01-31 or 2027-01-31T12:00:00Z", KEY_OWN, .read = read_until,
     .print = print_until},
    {"reason", "a few words", KEY_TEXT, AT(reason), .most = 200},
};
#undef AT
static const struct config_map override_map = {KEY_ARRAY(override_keys), KEY_ADVICE(limits_advice)};

/* The limits of a whole key have to fit beside it. */
static void check_fits(struct config_reader *reading, const struct config_override *override)
{
    struct weir_policy *policy = weir_policy_idle(override->limits, NULL);
    size_t words = weir_policy_state_size(policy) / sizeof(int64_t);
    weir_policy_free(policy);
    if (!policy)
        weir_reading_no_memory(reading);
    else if (words > OVERRIDE_WORDS)
        weir_reading_wrong(reading, override->place,
                           "the limits of a single key may remember %d numbers, and these need %zu: "
                           "a smaller sliding-log, or a policy of its own",
                           OVERRIDE_WORDS, words);
    else if (strlen(override->limits) >= OVERRIDE_TEXT_MAX)
        weir_reading_wrong(reading, override->place,
                           "the limits of a single key have too long a text: at most %d bytes",
                           OVERRIDE_TEXT_MAX - 1);
}

static void read_override(struct config_reader *reading, const struct yaml_node *node,
                          struct config_override *override)
{
    override->place = node->place;
    if (!weir_reading_map(reading, node, "an override", &override_map, override))
        return;
    if (!weir_node_find(node, "key"))
        weir_reading_wrong(reading, node->place, "this override has no key: which one is it about?");
    if (!weir_node_find(node, "limits"))
        weir_reading_wrong(reading, node->place, "this override has no limits; write limits: 100/s");
    if (override->limits && !override->prefix)
        check_fits(reading, override);
}

static int compare_config_overrides(const void *one, const void *other)
{
    const struct config_override *a = *(const struct config_override *const *)one;
    const struct config_override *b = *(const struct config_override *const *)other;
    size_t least = a->len < b->len ? a->len : b->len;
    int order = least > 0 ? memcmp(a->key, b->key, least) : 0;
    if (order == 0 && a->len != b->len)
        order = a->len < b->len ? -1 : 1;
    if (order == 0 && a->prefix != b->prefix)
        order = a->prefix ? 1 : -1;
    if (order != 0)
        return order;
    return a < b ? -1 : a > b; /* as in the file */
}

static bool same_override(const struct config_override *a, const struct config_override *b)
{
    return a->len == b->len && a->prefix == b->prefix && (a->len == 0 || memcmp(a->key, b->key, a->len) == 0);
}

static void check_twins(struct config_reader *reading, const struct config_policy *policy)
{
    const struct config_override **sorted =
        weir_reading_array(reading, policy->override_count, sizeof(struct config_override *));
    char shown[READING_SHOWN];
    size_t count = 0;
    for (size_t i = 0; sorted && i < policy->override_count; i++)
        if (policy->overrides[i].key)
            sorted[count++] = &policy->overrides[i];
    if (count > 0)
        qsort(sorted, count, sizeof *sorted, compare_config_overrides);
    for (size_t i = 1; i < count; i++)
        if (same_override(sorted[i - 1], sorted[i]))
            weir_reading_wrong(reading, sorted[i]->place,
                               "the key '%s%s' has two overrides, first at line %d",
                               weir_reading_show(sorted[i]->key, sorted[i]->len, shown),
                               sorted[i]->prefix ? "*" : "", sorted[i - 1]->place.line);
    free(sorted);
}

static void read_policy_overrides(struct config_reader *reading, const struct yaml_node *node,
                                  const struct config_key *key, void *into)
{
    struct config_policy *policy = into;
    size_t prefixes = 0;
    if (!weir_reading_is_list(reading, node, key, CONFIG_OVERRIDES_MAX))
        return;
    policy->overrides = weir_reading_array(reading, weir_node_count(node), sizeof *policy->overrides);
    for (const struct yaml_node *entry = policy->overrides ? node->first : NULL; entry; entry = entry->next) {
        struct config_override *override = &policy->overrides[policy->override_count++];
        read_override(reading, entry, override);
        if (override->prefix && ++prefixes == CONFIG_PREFIXES_MAX + 1)
            weir_reading_wrong(reading, entry->place, "a policy has at most %d overrides that end in *",
                               CONFIG_PREFIXES_MAX);
        if (reading->complaints >= CONFIG_COMPLAINTS_MAX)
            return;
    }
}

/* ---- a policy ---- */

/* Tiers say their own. */
static void print_policy_limits(struct buffer *out, const struct config_key *key, const void *from,
                                int indent)
{
    const struct config_policy *policy = from;
    if (!policy->address || !policy->address->has_tiers)
        weir_limits_print(out, key, from, indent);
}

/* With those that its tiers have taken. */
static void print_overrides(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct config_policy *policy = from;
    size_t tiers = policy->address ? policy->address->tier_count : 1;
    bool named = false;
    for (size_t tier = 0; tier < tiers; tier++)
        for (size_t i = 0; i < policy[tier].override_count; i++) {
            if (!named)
                weir_buffer_print(out, "%*s%s:\n", indent, "", key->name);
            named = true;
            weir_keys_print(out, &override_map, &policy[tier].overrides[i], indent + 4, true);
        }
}

static void read_policy_mode(struct config_reader *reading, const struct yaml_node *node,
                             const struct config_key *key, void *into)
{
    struct config_policy *policy = into;
    char why[200];
    if (weir_reading_is_text(reading, node, key) &&
        !weir_config_mode(node->text, node->len, &policy->mode, &policy->percent, why, sizeof why))
        weir_reading_wrong(reading, node->place, "%s", why);
}

static void print_mode(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct config_policy *policy = from;
    weir_key_print_name(out, key, indent);
    weir_buffer_print(out, "%s", weir_mode_name(policy->mode));
    if (policy->mode == MODE_ENFORCE && policy->percent < CONFIG_PERCENT_ALL)
        weir_buffer_print(out, " %d%%", policy->percent);
    buffer_put(out, "\n", 1);
}

static const char *const full_words[] = {"share", "refuse", NULL};                 /* enum weir_when_full */
static const char *const overrun_words[] = {"debt", "refuse", NULL};               /* enum overrun_rule */
static const char *const recover_words[] = {"exact", "floor", "optimistic", NULL}; /* enum table_recover */

#define AT(MEMBER) .offset = offsetof(struct config_policy, MEMBER)
static const struct config_key reserve_keys[] = {
    {"ttl", "a time from 1ms to 24h, such as 2m", KEY_MS, AT(settings.ttl_ms), BETWEEN(1, CONFIG_TTL_MAX_MS),
     .usual = DEFAULT_TTL_MS, .shown = "reserve_ttl_ms", .dumped = "ttl_ms", .label = "reserve ttl"},
    {"ttl_max", "a time from 1ms to 24h, such as 10m", KEY_MS, AT(settings.ttl_max_ms),
     BETWEEN(1, CONFIG_TTL_MAX_MS), .usual = CONFIG_TTL_MAX_MS, .shown = "reserve_ttl_max_ms",
     .dumped = "ttl_max_ms", .label = "reserve ttl_max"},
    {"overrun", "debt or refuse", KEY_WORD, AT(settings.overrun), BETWEEN(OVERRUN_DEBT, OVERRUN_REFUSE),
     .words = overrun_words, .shown = "overrun", .dumped = "overrun"},
};
static const struct config_map reserve_map = {KEY_ARRAY(reserve_keys)};

static const char *const headers_words[] = {"auto", "ietf", "ietf-06", "x", "x-epoch", "none", NULL};
static const struct config_key policy_keys[] = {
    {"name", "a name such as api", KEY_NAME, AT(name)},
    {"limits", LIMITS_WRITE, KEY_OWN, AT(limits), .read = weir_reading_limits, .print = print_policy_limits},
    {"address", "a list of tiers: [{v4: 32, v6: 64, limits: 5/m}, {v4: 24, v6: 48, limits: 50/m}]", KEY_OWN,
     .read = weir_reading_address, .print = weir_address_print},
    {"allow", NETWORKS_WRITE, KEY_OWN, .least = ADDRESS_ALLOWED, .read = weir_reading_address_list,
     .print = weir_address_list_print},
    {"block", NETWORKS_WRITE, KEY_OWN, .least = ADDRESS_BLOCKED, .read = weir_reading_address_list,
     .print = weir_address_list_print},
    {"candidate", LIMITS_WRITE, KEY_OWN, AT(candidate), .read = weir_reading_limits,
     .print = weir_limits_print},
    {"mode", "enforce, shadow, disabled, or enforce 25%", KEY_OWN, .read = read_policy_mode,
     .print = print_mode},
    {"on_full", "share or refuse", KEY_WORD, AT(settings.on_full), BETWEEN(WEIR_FULL_SHARE, WEIR_FULL_REFUSE),
     .words = full_words, .shown = "on_full", .dumped = "on_full"},
    {"keys", "a number of keys, such as 100k", KEY_COUNT, AT(keys), BETWEEN(1, CONFIG_KEYS_MAX)},
    {"reserve", "reserve: {ttl: 2m, overrun: debt}", KEY_MAP, .inside = &reserve_map},
    {"ids", "a time from 1s to 24h, such as 5m", KEY_NS, AT(settings.ids_ns), BETWEEN(WEIR_SEC, IDS_MAX_NS),
     .usual = DEFAULT_IDS_NS, .shown = "id_window_ms", .dumped = "ids_ns"},
    {"recover", "exact, floor or optimistic", KEY_WORD, AT(settings.recover), BETWEEN(0, RECOVER_MAX),
     .words = recover_words, .shown = "recover", .dumped = "recover"},
    {"headers", "auto, ietf, ietf-06, x, x-epoch or none", KEY_WORD, AT(settings.headers), BETWEEN(0, 5),
     .words = headers_words, .shown = "headers", .dumped = "headers"},
    {"fleet", "fleet: {coordinator: \"zookeeper://zk1,zk2,zk3/weir\", nodes: 500}", KEY_OWN,
     .read = weir_reading_fleet, .print = weir_fleet_print},
    {"overrides", "a list: - {key: org:acme, limits: 1000/s}", KEY_OWN, .read = read_policy_overrides,
     .print = print_overrides},
};
_Static_assert(offsetof(struct config_policy, settings) == 0,
               "rows have one offset for struct config_policy and struct policy_settings");
#undef AT
static const struct config_map policy_map = {KEY_ARRAY(policy_keys), KEY_ADVICE(limits_advice)};

static const struct config_key *find_setting(const struct config_map *map, size_t *number)
{
    const struct config_key *found = NULL;
    for (size_t i = 0; !found && i < map->count; i++) {
        const struct config_key *key = &map->keys[i];
        if (key->inside)
            found = find_setting(key->inside, number);
        else if (key->shown && (*number)-- == 0)
            found = key;
    }
    return found;
}

const struct config_key *weir_setting_at(size_t number)
{
    return find_setting(&policy_map, &number);
}

const char *weir_setting_word(const struct config_key *key, const struct policy_settings *settings)
{
    return key->words ? key->words[*key_number(key, settings) - key->least] : NULL;
}

struct policy_settings weir_settings_usual(void)
{
    struct policy_settings settings = {0};
    const struct config_key *key;
    for (size_t i = 0; (key = weir_setting_at(i)); i++)
        *key_number(key, &settings) = key->usual;
    return settings;
}

const char *weir_recover_name(int64_t recover)
{
    return recover_words[recover >= 0 && recover <= RECOVER_MAX ? recover : 0];
}

/* A ttl that was not said is no longer than ttl_max. */
static void check_reserve(struct config_reader *reading, const struct yaml_node *node,
                          struct policy_settings *settings)
{
    const struct yaml_node *reserve = weir_node_find(node, "reserve");
    if (settings->ttl_ms <= settings->ttl_max_ms)
        return;
    if (reserve && weir_node_find(reserve, "ttl"))
        weir_reading_wrong(reading, reserve->place,
                           "reserve: ttl is longer than ttl_max; raise ttl_max, or lower ttl");
    settings->ttl_ms = settings->ttl_max_ms;
}

static void read_one_policy(struct config_reader *reading, const struct yaml_node *node,
                            struct config_policy *policy)
{
    char whose[READING_WHOSE];
    weir_reading_whose("policy", node, whose);
    policy->place = node->place;
    policy->percent = CONFIG_PERCENT_ALL;
    policy->settings = weir_settings_usual();
    if (!weir_reading_map(reading, node, whose, &policy_map, policy))
        return;
    check_reserve(reading, node, &policy->settings);
    if (!weir_node_find(node, "name"))
        weir_reading_wrong(reading, node->place, "this policy has no name; write name: api");
    if (policy->address)
        weir_reading_address_check(reading, node, policy);
    if (!weir_node_find(node, "limits") && !weir_node_find(node, "address"))
        weir_reading_wrong(reading, node->place, "%s has no limits; write limits: 100/s", whose);
    if (policy->fleet)
        weir_reading_fleet_check(reading, node, policy);
}

static void check_policy_twin(struct config_reader *reading, const struct config *config,
                              const struct config_policy *last)
{
    for (const struct config_policy *policy = config->policies; last->name && policy < last; policy++)
        if (policy->name && strcmp(policy->name, last->name) == 0) {
            weir_reading_wrong(reading, last->place, "policy '%s' is defined twice, first at line %d",
                               last->name, policy->place.line);
            return;
        }
}

/* With room for their tiers. */
static size_t count_policies(const struct yaml_node *node)
{
    size_t count = weir_node_count(node);
    for (const struct yaml_node *entry = node->first; entry; entry = entry->next)
        if (entry->kind == NODE_MAP && weir_node_find(entry, "address"))
            count += ADDRESS_TIERS_MAX - 1;
    return count;
}

void weir_reading_policies(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_key *key, void *into)
{
    struct config *config = into;
    if (node->kind == NODE_LIST && !node->first) {
        config->no_policies = true; /* they may come by command */
        return;
    }
    if (!weir_reading_is_list(reading, node, key, CONFIG_POLICIES_MAX))
        return;
    config->policies = weir_reading_array(reading, count_policies(node), sizeof *config->policies);
    for (const struct yaml_node *entry = config->policies ? node->first : NULL; entry; entry = entry->next) {
        struct config_policy *policy = &config->policies[config->policy_count++];
        read_one_policy(reading, entry, policy);
        config->policy_count += weir_reading_address_tiers(reading, policy);
        for (; policy < config->policies + config->policy_count; policy++) {
            check_policy_twin(reading, config, policy);
            weir_reading_fleet_twin(reading, config, policy);
            if (policy->override_count > 0)
                check_twins(reading, policy);
        }
        if (reading->complaints >= CONFIG_COMPLAINTS_MAX)
            return;
    }
}

void weir_policies_print(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    const struct config *config = from;
    weir_buffer_print(out, "%s:%s\n", key->name, config->policy_count > 0 ? "" : " []");
    for (size_t i = 0; i < config->policy_count; i++)
        if (!config->policies[i].is_tier)
            weir_keys_print(out, &policy_map, &config->policies[i], indent + 4, true);
}

void weir_config_policy_free(struct config_policy *policy)
{
    for (size_t i = 0; i < policy->override_count; i++) {
        free(policy->overrides[i].key);
        free(policy->overrides[i].limits);
        free(policy->overrides[i].reason);
    }
    free(policy->overrides);
    free(policy->name);
    free(policy->limits);
    free(policy->candidate);
    weir_config_fleet_free(policy->fleet);
    weir_address_rules_drop(policy->address);
    free(policy->networks);
}
