/* SPDX-License-Identifier: MIT */
#include "cli/commands/check_differences.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/ask.h"
#include "config/read_policy.h"
#include "config/timestamp.h"
#include "os/boot.h"
#include "spec/spec.h"

#define PART_SIZE 1024
#define SHOWN     8 /* overrides of a policy; the others are counted */

void check_add(struct text *text, const char *format, ...)
{
    char part[PART_SIZE];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(part, sizeof part, format, args);
    va_end(args);
    if (text->len > 0)
        weir_text_put(text, "; ", 2);
    weir_text_put(text, part, len < (int)sizeof part ? (size_t)len : sizeof part - 1);
}

/* A time of the file against one there; "" if it did not tell. */
static void compare_time(const char *name, int64_t wanted_ms, int64_t was_ms, struct text *text)
{
    char wanted[64], was[64];
    if (was_ms < 0 || wanted_ms == was_ms)
        return;
    (void)weir_spec_format_period(wanted_ms * WEIR_MS, wanted, sizeof wanted);
    (void)weir_spec_format_period(was_ms * WEIR_MS, was, sizeof was);
    check_add(text, "%s %s (was %s)", name, wanted, was);
}

static void compare_setting(const struct config_key *key, const struct policy_settings *settings,
                            const struct resp_value *has, struct text *text)
{
    const char *name = key->label ? key->label : key->name, *wanted = weir_setting_word(key, settings);
    int64_t number = *key_number(key, settings);
    if (!wanted) {
        compare_time(name, key->type == KEY_NS ? number / WEIR_MS : number,
                     ask_number_or(has, key->shown, -1), text);
        return;
    }
    struct slice was = ask_text(has, key->shown);
    if (was.len > 0 && !slice_is(was, wanted))
        check_add(text, "%s %s (was %.*s)", name, wanted, (int)(was.len < 16 ? was.len : 16), was.bytes);
}

static void compare_settings(struct cli_client *client, const struct config_policy *policy, struct text *text)
{
    const struct resp_value *has = ask_quietly(client, "WEIR.POLICY", "SHOW", policy->name, NULL);
    const struct config_key *key;
    if (!has || has->type != RESP_MAP)
        return;
    for (size_t i = 0; (key = weir_setting_at(i)); i++)
        compare_setting(key, &policy->settings, has, text);
    int64_t capacity = ask_number_or(has, "capacity", -1);
    if (capacity >= 0 && policy->keys > capacity)
        check_add(text, "room for %" PRId64 " keys (has %" PRId64 ")", policy->keys, capacity);
}

/* ---- overrides ---- */

/* Limits and their end: what an override is. */
struct override_terms {
    char text[600];
};

static struct override_terms terms_of(struct slice limits, int64_t until_ms)
{
    struct override_terms terms;
    char moment[TIMESTAMP_MAX] = "";
    if (until_ms > 0)
        weir_timestamp_write(until_ms, moment);
    (void)snprintf(terms.text, sizeof terms.text, "%.*s%s%.16s%s", (int)(limits.len < 400 ? limits.len : 400),
                   limits.bytes, until_ms > 0 ? " until " : "", moment, until_ms > 0 ? "Z" : "");
    return terms;
}

static struct override_terms terms_on_server(const struct resp_value *override)
{
    return terms_of(ask_text(override, "limits"), ask_number(override, "until_ms"));
}

/* A prefix has its '*' there, and none here. */
static bool is_same_override_key(const struct config_override *override, struct slice there)
{
    size_t len = override->len + override->prefix;
    return there.len == len &&
           (override->len == 0 || memcmp(there.bytes, override->key, override->len) == 0) &&
           (!override->prefix || there.bytes[len - 1] == '*');
}

static const struct resp_value *find_override_on_server(const struct resp_value *list,
                                                        const struct config_override *override)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_same_override_key(override, ask_text(&list->elements[i], "key")))
            return &list->elements[i];
    return NULL;
}

static bool has_override_ended(const struct config_override *override)
{
    return override->until_ms != 0 && override->until_ms <= weir_boot.wall() / WEIR_MS;
}

static bool is_override_in_file(const struct config_policy *policy, struct slice key)
{
    for (size_t i = 0; i < policy->override_count; i++)
        if (is_same_override_key(&policy->overrides[i], key) && !has_override_ended(&policy->overrides[i]))
            return true;
    return false;
}

/* What is in the file: new, or other than there. */
static bool check_compare_override(const struct config_override *override, const struct resp_value *there,
                                   struct text *text)
{
    struct override_terms wanted =
        terms_of((struct slice){override->limits, strlen(override->limits)}, override->until_ms);
    int shown = (int)(override->len < 80 ? override->len : 80);
    const char *star = override->prefix ? "*" : "";
    if (!there) {
        check_add(text, "override of %.*s%s is new: %s", shown, override->key, star, wanted.text);
        return true;
    }
    struct override_terms was = terms_on_server(there);
    if (strcmp(was.text, wanted.text) == 0)
        return false;
    check_add(text, "override of %.*s%s: %.400s instead of %.400s", shown, override->key, star, wanted.text,
              was.text);
    return true;
}

static void check_compare_overrides(const struct config_policy *policy, const struct resp_value *list,
                                    struct text *text)
{
    struct text unseen;
    size_t count = 0;
    weir_text_init(&unseen, NULL, 0);
    for (size_t i = 0; i < policy->override_count; i++)
        if (!has_override_ended(&policy->overrides[i]))
            count += check_compare_override(&policy->overrides[i],
                                            find_override_on_server(list, &policy->overrides[i]),
                                            count < SHOWN ? text : &unseen);
    for (size_t i = 0; i < list->count; i++) {
        struct slice key = ask_text(&list->elements[i], "key");
        if (key.len == 0 || !slice_is(ask_text(&list->elements[i], "from"), "file") ||
            is_override_in_file(policy, key))
            continue; /* those that were set by command stay */
        check_add(count++ < SHOWN ? text : &unseen, "override of %.*s ends",
                  (int)(key.len < 80 ? key.len : 80), key.bytes);
    }
    if (count > SHOWN)
        check_add(text, "%zu more overrides change", count - SHOWN);
}

void check_differences(struct cli_client *client, const struct config_policy *policy, struct text *text)
{
    compare_settings(client, policy, text);
    const struct resp_value *list = ask_quietly(client, "WEIR.OVERRIDE", "LIST", policy->name, NULL);
    if (list && list->type == RESP_ARRAY)
        check_compare_overrides(policy, list, text);
}
