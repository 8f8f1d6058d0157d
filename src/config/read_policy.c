/* SPDX-License-Identifier: MIT */
/*
 * The policies of weir.yaml: limits, with every mistake at its column of the file, modes and overrides.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/read_fleet.h"
#include "config/read_policy.h"
#include "config/timestamp.h"
#include "core/idle.h"
#include "phrasebook/phrasebook.h"
#include "spec/spec.h"
#include "table/override.h"

#define TTL_MAX_NS (CONFIG_TTL_MAX_MS * WEIR_MS)
#define IDS_MAX_NS (86400 * WEIR_SEC)

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
                           const struct config_field *field, char canonical[static SPEC_TEXT_MAX + 1])
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    struct spec_fault fault;
    struct weir_error err;
    int32_t column = 0;
    if (!weir_reading_is_text(reading, node, field))
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
                              const struct config_field *field)
{
    char one[SPEC_TEXT_MAX + 1], joined[SPEC_TEXT_MAX + 1];
    struct text text;
    bool good = true;
    if (node->kind != NODE_LIST)
        return read_one_limit(reading, node, field, one) ? weir_reading_copy(reading, one, strlen(one))
                                                         : NULL;
    if (!weir_reading_is_list(reading, node, field, WEIR_LIMITS_MAX))
        return NULL;
    weir_text_init(&text, joined, sizeof joined);
    for (const struct yaml_node *entry = node->first; entry; entry = entry->next) {
        if (!read_one_limit(reading, entry, field, one)) {
            good = false;
            continue;
        }
        weir_text_print(&text, "%s%s", text.len > 0 ? ", " : "", one);
    }
    if (good && text.len > SPEC_TEXT_MAX) {
        weir_reading_wrong(reading, node->place, "%s are too long: at most %d bytes", field->name,
                           SPEC_TEXT_MAX);
        good = false;
    }
    return good ? read_joined(reading, node, joined) : NULL;
}

/* ---- overrides ---- */

static void read_override_key(struct config_reader *reading, const struct yaml_node *node,
                              const struct config_field *field, void *into)
{
    struct config_override *override = into;
    bool text = node->kind == NODE_TEXT && node->len > 0;
    if (text && node->len > CONFIG_KEY_MAX) {
        weir_reading_wrong(reading, node->place, "a key of %zu bytes is too long: at most %d", node->len,
                           CONFIG_KEY_MAX);
        return;
    }
    /* A key is any bytes, so a quoted NUL may be among them. */
    if (!(text && !node->plain) && !weir_reading_is_text(reading, node, field))
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

static void read_override_limits(struct config_reader *reading, const struct yaml_node *node,
                                 const struct config_field *field, void *into)
{
    struct config_override *override = into;
    override->limits = read_limits_text(reading, node, field);
}

static void read_until(struct config_reader *reading, const struct yaml_node *node,
                       const struct config_field *field, void *into)
{
    struct config_override *override = into;
    char shown[READING_SHOWN];
    if (weir_reading_is_text(reading, node, field) && !weir_timestamp_read(node->text, &override->until_ms))
        weir_reading_wrong(reading, node->place, "until cannot be '%s'; write %s",
                           weir_reading_show(node->text, node->len, shown), field->write);
}

static void read_override_reason_text(struct config_reader *reading, const struct yaml_node *node,
                                      const struct config_field *field, void *into)
{
    struct config_override *override = into;
    if (node->len > 200)
        weir_reading_wrong(reading, node->place, "a reason has at most 200 bytes, not %zu", node->len);
    else
        override->reason = weir_reading_text(reading, node, field);
}

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
    static const struct config_field fields[] = {
        {"key", "a key, or the beginning of keys with a star, in quotes: \"internal:*\"", read_override_key},
        {"limits", "limits such as 100/s burst=200, or [100/s burst=200, 10k/h]", read_override_limits},
        {"until", "a day or a time in UTC: 2027-01-31 or 2027-01-31T12:00:00Z", read_until},
        {"reason", "a few words", read_override_reason_text},
    };
    override->place = node->place;
    if (!weir_reading_map(reading, node, "an override", fields, sizeof fields / sizeof fields[0], override))
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
                                  const struct config_field *field, void *into)
{
    struct config_policy *policy = into;
    size_t prefixes = 0;
    if (!weir_reading_is_list(reading, node, field, CONFIG_OVERRIDES_MAX))
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
    if (policy->override_count > 0)
        check_twins(reading, policy);
}

/* ---- a policy ---- */

static void read_policy_name(struct config_reader *reading, const struct yaml_node *node,
                             const struct config_field *field, void *into)
{
    struct config_policy *policy = into;
    policy->name = weir_reading_name(reading, node, field);
}

static void read_policy_limits(struct config_reader *reading, const struct yaml_node *node,
                               const struct config_field *field, void *into)
{
    struct config_policy *policy = into;
    *(strcmp(field->name, "limits") == 0 ? &policy->limits : &policy->candidate) =
        read_limits_text(reading, node, field);
}

static void read_policy_mode(struct config_reader *reading, const struct yaml_node *node,
                             const struct config_field *field, void *into)
{
    struct config_policy *policy = into;
    char why[200];
    if (weir_reading_is_text(reading, node, field) &&
        !weir_config_mode(node->text, node->len, &policy->mode, &policy->percent, why, sizeof why))
        weir_reading_wrong(reading, node->place, "%s", why);
}

static void read_on_full(struct config_reader *reading, const struct yaml_node *node,
                         const struct config_field *field, void *into)
{
    static const char *const words[] = {"share", "refuse", NULL};
    struct config_policy *policy = into;
    policy->on_full =
        weir_reading_word(reading, node, field, words) == 1 ? WEIR_FULL_REFUSE : WEIR_FULL_SHARE;
}

static void read_policy_keys(struct config_reader *reading, const struct yaml_node *node,
                             const struct config_field *field, void *into)
{
    struct config_policy *policy = into;
    (void)weir_reading_count(reading, node, field, 1, INT64_C(1) << 40, &policy->keys);
}

static void read_ttl(struct config_reader *reading, const struct yaml_node *node,
                     const struct config_field *field, void *into)
{
    struct config_policy *policy = into;
    int64_t ttl_ns;
    if (weir_reading_time(reading, node, field, WEIR_MS, TTL_MAX_NS, &ttl_ns))
        policy->reserve_ttl_ms = (ttl_ns + WEIR_MS - 1) / WEIR_MS;
}

static void read_ttl_max(struct config_reader *reading, const struct yaml_node *node,
                         const struct config_field *field, void *into)
{
    struct config_policy *policy = into;
    int64_t ttl_ns;
    if (weir_reading_time(reading, node, field, WEIR_MS, TTL_MAX_NS, &ttl_ns))
        policy->reserve_ttl_max_ms = (ttl_ns + WEIR_MS - 1) / WEIR_MS;
}

static void read_overrun(struct config_reader *reading, const struct yaml_node *node,
                         const struct config_field *field, void *into)
{
    static const char *const words[] = {"debt", "refuse", NULL};
    struct config_policy *policy = into;
    policy->overrun = weir_reading_word(reading, node, field, words) == 1 ? OVERRUN_REFUSE : OVERRUN_DEBT;
}

static void read_reserve(struct config_reader *reading, const struct yaml_node *node,
                         const struct config_field *field, void *into)
{
    static const struct config_field fields[] = {
        {"ttl", "a time from 1ms to 24h, such as 2m", read_ttl},
        {"ttl_max", "a time from 1ms to 24h, such as 10m", read_ttl_max},
        {"overrun", "debt or refuse", read_overrun},
    };
    const struct config_policy *policy = into;
    (void)field;
    (void)weir_reading_map(reading, node, "reserve", fields, sizeof fields / sizeof fields[0], into);
    if (policy->reserve_ttl_max_ms > 0 && policy->reserve_ttl_ms > policy->reserve_ttl_max_ms)
        weir_reading_wrong(reading, node->place,
                           "reserve: ttl is longer than ttl_max; raise ttl_max, or lower ttl");
}

static void read_ids(struct config_reader *reading, const struct yaml_node *node,
                     const struct config_field *field, void *into)
{
    struct config_policy *policy = into;
    (void)weir_reading_time(reading, node, field, WEIR_SEC, IDS_MAX_NS, &policy->ids_ns);
}

static void read_recover(struct config_reader *reading, const struct yaml_node *node,
                         const struct config_field *field, void *into)
{
    struct config_policy *policy = into;
    if (!weir_reading_is_text(reading, node, field))
        return;
    int recover = weir_recover_read(node->text);
    if (recover < 0)
        weir_reading_unfit(reading, node, field);
    else
        policy->recover = recover;
}

static void read_one_policy(struct config_reader *reading, const struct yaml_node *node,
                            struct config_policy *policy)
{
    static const struct config_field fields[] = {
        {"name", "a name such as api", read_policy_name},
        {"limits", "limits such as 100/s burst=200, or [100/s burst=200, 10k/h]", read_policy_limits},
        {"candidate", "limits such as 100/s burst=200, or [100/s burst=200, 10k/h]", read_policy_limits},
        {"mode", "enforce, shadow, disabled, or enforce 25%", read_policy_mode},
        {"on_full", "share or refuse", read_on_full},
        {"keys", "a number of keys, such as 100k", read_policy_keys},
        {"reserve", "reserve: {ttl: 2m, overrun: debt}", read_reserve},
        {"ids", "a time from 1s to 24h, such as 5m", read_ids},
        {"recover", "exact, floor or optimistic", read_recover},
        {"overrides", "a list: - {key: org:acme, limits: 1000/s}", read_policy_overrides},
        {"fleet", "fleet: {coordinator: \"zookeeper://zk1,zk2,zk3/weir\", nodes: 500}", weir_reading_fleet},
    };
    const struct yaml_node *name = weir_node_find(node, "name");
    char shown[READING_SHOWN], whose[READING_SHOWN + 16];
    bool named = name && name->kind == NODE_TEXT && name->len > 0;
    if (named)
        (void)snprintf(whose, sizeof whose, "policy '%s'", weir_reading_show(name->text, name->len, shown));
    else
        (void)snprintf(whose, sizeof whose, "a policy");
    policy->place = node->place;
    policy->percent = CONFIG_PERCENT_ALL;
    if (!weir_reading_map(reading, node, whose, fields, sizeof fields / sizeof fields[0], policy))
        return;
    if (!name)
        weir_reading_wrong(reading, node->place, "this policy has no name; write name: api");
    if (!weir_node_find(node, "limits"))
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

void weir_reading_policies(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_field *field, void *into)
{
    struct config *config = into;
    if (node->kind == NODE_LIST && !node->first) {
        config->no_policies = true; /* they may come by command */
        return;
    }
    if (!weir_reading_is_list(reading, node, field, CONFIG_POLICIES_MAX))
        return;
    config->policies = weir_reading_array(reading, weir_node_count(node), sizeof *config->policies);
    for (const struct yaml_node *entry = config->policies ? node->first : NULL; entry; entry = entry->next) {
        struct config_policy *policy = &config->policies[config->policy_count++];
        read_one_policy(reading, entry, policy);
        check_policy_twin(reading, config, policy);
        weir_reading_fleet_twin(reading, config, policy);
        if (reading->complaints >= CONFIG_COMPLAINTS_MAX)
            return;
    }
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
}
