/* SPDX-License-Identifier: MIT */
/*
 * weir check: is a configuration right, how much does it hold, and what would it change on a server that
 * runs.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/commands/check.h"
#include "cli/commands/check_serve.h"
#include "cli/json.h"
#include "cli/term.h"
#include "cli/words.h"
#include "config/read_policy.h"
#include "config/timestamp.h"
#include "os/boot.h"
#include "spec/spec.h"

#define TEXT_SIZE 1024

struct check_run check;

/* ---- mistakes and notes ---- */

static void check_print_mistake(void *arg, const struct config_complaint *complaint)
{
    char text[COMPLAINT_TEXT_MAX];
    (void)arg;
    check.told_mistake = true;
    if (!ask_options.json) {
        fprintf(stderr, "%s\n", weir_complaint_text(complaint, true, text));
        return;
    }
    json_open(&check.document, NULL, '{', JSON_FLAT);
    json_number(&check.document, "line", complaint->place.line);
    json_number(&check.document, "column", complaint->place.column);
    if (complaint->excerpt[0])
        json_text(&check.document, "excerpt", complaint->excerpt);
    json_text(&check.document, "message", complaint->message);
    json_close(&check.document, '}');
}

bool check_mistake(struct config_place place, const char *format, ...)
{
    struct config_complaint complaint = {.file = check.file, .place = place};
    va_list list;
    va_start(list, format);
    (void)vsnprintf(complaint.message, sizeof complaint.message, format, list);
    va_end(list);
    check_print_mistake(NULL, &complaint);
    return false;
}

void check_note(const char *format, ...)
{
    char text[600];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (ask_options.json)
        json_text(&check.document, NULL, text);
    else
        term_print(stdout, "note: %s\n", text);
}

/* ---- what it holds ---- */

static size_t count_config_overrides(const struct config *config)
{
    size_t count = 0;
    for (size_t i = 0; i < config->policy_count; i++)
        count += config->policies[i].override_count;
    return count;
}

/* To two digits: about 7.7 million, about 240 000. */
static const char *words_about(int64_t number, char text[static HUMANIZE_MAX])
{
    char digits[HUMANIZE_MAX];
    int64_t power = 1;
    while (number / power >= 100)
        power *= 10;
    number = (number + power / 2) / power * power;
    if (number >= 1000000000)
        (void)snprintf(text, HUMANIZE_MAX, "%.48s billion", words_decimal((double)number / 1e9, digits));
    else if (number >= 1000000)
        (void)snprintf(text, HUMANIZE_MAX, "%.48s million", words_decimal((double)number / 1e6, digits));
    else
        (void)words_number(number, text);
    return text;
}

static const char *words_memory(int64_t bytes, char text[static HUMANIZE_MAX])
{
    char digits[HUMANIZE_MAX];
    bool giga = bytes % (INT64_C(1) << 30) == 0;
    (void)snprintf(text, HUMANIZE_MAX, "%.48s %s",
                   words_decimal((double)bytes / (double)(INT64_C(1) << (giga ? 30 : 20)), digits),
                   giga ? "GiB" : "MiB");
    return text;
}

static void print_count(size_t count, const char *one, const char *many)
{
    char text[HUMANIZE_MAX];
    printf("%s %s", words_number((int64_t)count, text), count == 1 ? one : many);
}

static void print_summary(void)
{
    const struct config *config = check.config;
    char memory[HUMANIZE_MAX], keys[HUMANIZE_MAX];
    printf("%s: ", check.file);
    print_count(config->policy_count, "policy", "policies");
    fputs(", ", stdout);
    print_count(count_config_overrides(config), "override", "overrides");
    for (size_t i = 0; i < config->policy_count; i++)
        if (config->policies[i].candidate)
            printf(", candidate %s for %s", config->policies[i].candidate, config->policies[i].name);
    if (config->user_count > 0) {
        fputs(", ", stdout);
        print_count(config->user_count, "user", "users");
    }
    printf("; %s hold about %s keys of one limit each\n", words_memory(config->memory, memory),
           words_about(weir_config_keys(config), keys));
}

/* Overrides whose time is over do nothing; a file may keep them, but somebody should know. */
static void print_ended(void)
{
    int64_t now_ms = weir_boot.wall() / WEIR_MS;
    for (size_t i = 0; i < check.config->policy_count; i++) {
        const struct config_policy *policy = &check.config->policies[i];
        for (size_t j = 0; j < policy->override_count; j++) {
            const struct config_override *override = &policy->overrides[j];
            char moment[TIMESTAMP_MAX];
            if (override->until_ms == 0 || override->until_ms > now_ms)
                continue;
            weir_timestamp_write(override->until_ms, moment);
            term_print(stdout, "note: line %d: the override of %.*s%s in %s has ended, %.16sZ\n",
                       override->place.line, (int) override->len, override->key, override->prefix ? "*" : "",
                       policy->name, moment);
        }
    }
}

/* ---- what it would change: settings ---- */

#define PART_SIZE 1024
#define SHOWN     8 /* overrides of a policy; the others are counted */

/* A part of what is different; a semicolon stands before it unless it is the first. */
__attribute__((format(printf, 2, 3))) static void check_add(struct text *text, const char *format, ...)
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

/* What WEIR.POLICY LIST does not tell of a policy. Of a server that does not tell nothing is said. */
static void check_differences(struct cli_client *client, const struct config_policy *policy,
                              struct text *text)
{
    compare_settings(client, policy, text);
    const struct resp_value *list = ask_quietly(client, "WEIR.OVERRIDE", "LIST", policy->name, NULL);
    if (list && list->type == RESP_ARRAY)
        check_compare_overrides(policy, list, text);
}

/* ---- what it would change: policies ---- */

static bool same_text(struct slice slice, const char *text)
{
    return slice_is(slice, text ? text : "");
}

static bool is_partly(const struct config_policy *policy)
{
    return policy->mode == MODE_ENFORCE && policy->percent < CONFIG_PERCENT_ALL;
}

#define SHOW(slice) (int)((slice).len < 400 ? (slice).len : 400), (slice).bytes

static void check_compare_candidate(const struct config_policy *policy, struct slice was, struct text *text)
{
    if (same_text(was, policy->candidate))
        return;
    if (was.len == 0)
        check_add(text, "candidate %.400s is new", policy->candidate);
    else if (!policy->candidate)
        check_add(text, "candidate %.*s ends", SHOW(was));
    else
        check_add(text, "candidate %.400s instead of %.*s", policy->candidate, SHOW(was));
}

static void check_compare_mode(const struct config_policy *policy, const struct resp_value *has,
                               struct text *text)
{
    struct slice was = ask_text(has, "mode");
    int64_t percent = ask_number_or(has, "percent", CONFIG_PERCENT_ALL);
    bool same = same_text(was, weir_mode_name(policy->mode)) || was.len == 0;
    if (same && (policy->mode != MODE_ENFORCE || percent == policy->percent))
        return;
    char before[32];
    (void)snprintf(before, sizeof before, "%.*s", (int)(was.len < 16 ? was.len : 16), was.bytes);
    if (slice_is(was, "enforce") && percent < CONFIG_PERCENT_ALL)
        (void)snprintf(before, sizeof before, "enforce %d%%", (int)percent);
    if (same || (is_partly(policy) && slice_is(was, "enforce")))
        check_add(text, "enforced for %d %% of keys (was %d %%)", policy->percent, (int)percent);
    else if (is_partly(policy))
        check_add(text, "enforced for %d %% of keys (was %s)", policy->percent, before);
    else
        check_add(text, "mode %s (was %s)", weir_mode_name(policy->mode), before);
}

/* Did it come from the file, whatever a command has changed since? */
static bool is_filed(const struct resp_value *policy)
{
    return slice_is(ask_text(policy, "from"), "file") || ask_text(policy, "file_limits").len > 0;
}

/* What its table would have, which is what a server shows: a root's bucket has less than is written. */
static const char *limits_there(const struct config_policy *policy)
{
    return policy->fleet && policy->fleet->lowered ? policy->fleet->lowered : policy->limits;
}

/* Says in `line` what is different; false: nothing. */
static bool check_compare_policy(const struct config_policy *policy, const struct resp_value *has, char *line,
                                 size_t size)
{
    struct text text, rest;
    char others[2 * TEXT_SIZE];
    struct slice was = ask_text(has, "limits");
    const char *limits = limits_there(policy);
    bool stays = same_text(was, limits);
    weir_text_init(&text, line, size);
    weir_text_init(&rest, others, sizeof others);
    check_compare_candidate(policy, ask_text(has, "candidate"), &rest);
    check_compare_mode(policy, has, &rest);
    if (check.other)
        check_differences(check.other, policy, &rest);
    if (!is_filed(has))
        check_add(&rest, "was set by command, now by the file");
    if (stays && rest.len == 0)
        return false;
    if (stays)
        check_add(&text, "%.400s stays", policy->limits);
    else
        check_add(&text, "%.400s instead of %.*s%s", limits, SHOW(was),
                  limits != policy->limits ? ", the burst less hold" : "");
    if (rest.len > 0)
        weir_text_put(&text, "; ", 2);
    weir_text_put(&text, others, strlen(others));
    return true;
}

static void describe_new_policy(const struct config_policy *policy, char *line, size_t size)
{
    if (is_partly(policy))
        (void)snprintf(line, size, "new, enforced for %d %% of keys", policy->percent);
    else
        (void)snprintf(line, size, "new, %s", weir_mode_name(policy->mode));
}

static const struct resp_value *find_on_server(const struct resp_value *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (slice_is(ask_text(&list->elements[i], "name"), name))
            return &list->elements[i];
    return NULL;
}

static bool is_in_file(const struct config *config, struct slice name)
{
    for (size_t i = 0; i < config->policy_count; i++)
        if (slice_is(name, config->policies[i].name))
            return true;
    return false;
}

/* Shows one change; the first one under a heading. */
static void check_print_change(size_t *count, struct slice name, const char *kind, const char *line)
{
    char copy[CONFIG_NAME_MAX + 1];
    (void)snprintf(copy, sizeof copy, "%.*s", (int)(name.len < CONFIG_NAME_MAX ? name.len : CONFIG_NAME_MAX),
                   name.bytes);
    (*count)++;
    if (ask_options.json) {
        json_open(&check.document, NULL, '{', JSON_FLAT);
        json_text(&check.document, "policy", copy);
        json_text(&check.document, "change", kind);
        json_text(&check.document, "text", line);
        json_close(&check.document, '}');
        return;
    }
    if (*count == 1)
        printf("changes against %s\n", client_shown(check.client));
    term_print(stdout, "  %-*s %s\n", check.width, copy, line);
}

/* Of all names, so that what is said about them stands in one column; at least 8. */
static int widest_policy_name(void)
{
    size_t width = 8;
    for (size_t i = 0; i < check.config->policy_count; i++)
        width =
            strlen(check.config->policies[i].name) > width ? strlen(check.config->policies[i].name) : width;
    for (size_t i = 0; i < check.list->count; i++) {
        size_t len = ask_text(&check.list->elements[i], "name").len;
        width = len > width && len <= CONFIG_NAME_MAX ? len : width;
    }
    return (int)width;
}

/* Is it one that the user may not see? Then nobody here knows whether the server has it. */
static bool is_hidden(const char *name)
{
    const struct resp_value *value = ask_quietly(check.other, "WEIR.POLICY", "SHOW", name, NULL);
    return value && value->type == RESP_ERROR && value->text.len > 7 &&
           memcmp(value->text.bytes, "NOPERM ", 7) == 0;
}

/* Behind the changes: those of the file that could not be compared. */
static void show_hidden(void)
{
    size_t count = 0;
    if (ask_options.json)
        json_open(&check.document, "not_visible", '[', JSON_FLAT);
    for (size_t i = 0; i < check.config->policy_count; i++) {
        const char *name = check.config->policies[i].name;
        if (find_on_server(check.list, name) || !is_hidden(name))
            continue;
        if (ask_options.json)
            json_text(&check.document, NULL, name);
        else
            printf("%s%s", count == 0 ? "not compared, because this user may not see them: " : ", ", name);
        count++;
    }
    if (ask_options.json)
        json_close(&check.document, ']');
    else if (count > 0)
        fputc('\n', stdout);
}

static void check_print_changes(void)
{
    const struct config *config = check.config;
    char line[4 * TEXT_SIZE];
    size_t count = 0;
    check.width = widest_policy_name();
    for (size_t i = 0; i < config->policy_count; i++) {
        const struct config_policy *policy = &config->policies[i];
        const struct resp_value *has = find_on_server(check.list, policy->name);
        struct slice name = {policy->name, strlen(policy->name)};
        if (!has && is_hidden(policy->name))
            continue;
        if (!has)
            describe_new_policy(policy, line, sizeof line);
        if (!has || check_compare_policy(policy, has, line, sizeof line))
            check_print_change(&count, name, has ? "changed" : "new", line);
    }
    for (size_t i = 0; i < check.list->count; i++) {
        const struct resp_value *has = &check.list->elements[i];
        struct slice name = ask_text(has, "name");
        if (!is_in_file(config, name) && is_filed(has))
            check_print_change(&count, name, "removed", "removed");
    }
    if (count == 0 && !ask_options.json)
        printf("no changes against %s\n", client_shown(check.client));
}

/* ---- what is right, but should be known ---- */

/* As a reload would say it: it would take everything away. */
static void note_empty_file(void)
{
    size_t filed = 0;
    for (size_t i = 0; check.list && i < check.list->count; i++)
        filed += is_filed(&check.list->elements[i]);
    if (filed > 0 && check.config->policy_count == 0 && !check.config->no_policies)
        (void)check_mistake((struct config_place){0, 0}, CONFIG_EMPTY);
}

/* Who logged in and is not `default` is one of its users: a reload would refuse to open the server. */
static void note_user_change(void)
{
    char line[1024];
    if (check.config->user_count > 0 || !check.other)
        return;
    const struct resp_value *info = ask_quietly(check.other, "CLIENT", "INFO", NULL);
    if (!info || (info->type != RESP_BULK && info->type != RESP_VERBATIM) || info->text.len >= sizeof line)
        return;
    (void)snprintf(line, sizeof line, "%.*s", (int)info->text.len, info->text.bytes);
    const char *user = strstr(line, " user=");
    if (user && strncmp(user, " user=default ", 14) != 0)
        (void)check_mistake((struct config_place){0, 0}, CONFIG_NO_USERS);
}

/* ---- the command ---- */

static void check_against_server(const char *url)
{
    struct ask ask;
    ask_begin(&ask, "WEIR.POLICY", "LIST", NULL);
    check.client = client_open(url, &check.err);
    const struct resp_value *value =
        check.client ? client_ask(check.client, ask.words, ask.count, &check.err) : NULL;
    if (value && value->type == RESP_ARRAY) {
        check.list = value;
        check.other = client_open(url, NULL);
    } else if (value)
        (void)snprintf(check.err.text, sizeof check.err.text, "%s: %.*s", client_shown(check.client),
                       value->type == RESP_ERROR ? (int)(value->text.len < 160 ? value->text.len : 160) : 0,
                       value->type == RESP_ERROR ? value->text.bytes : "");
}

static void print_candidates(const struct config *config, struct json *json)
{
    json_open(json, "candidates", '[', JSON_LINES);
    for (size_t i = 0; i < config->policy_count; i++) {
        if (!config->policies[i].candidate)
            continue;
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "policy", config->policies[i].name);
        json_text(json, "limits", config->policies[i].candidate);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void print_summary_json(void)
{
    struct json *json = &check.document;
    json_number(json, "policies", (int64_t)check.config->policy_count);
    json_number(json, "overrides", (int64_t)count_config_overrides(check.config));
    print_candidates(check.config, json);
    json_number(json, "users", (int64_t)check.config->user_count);
    json_number(json, "memory", check.config->memory);
    json_number(json, "keys", weir_config_keys(check.config));
    if (check.list)
        json_text(json, "server", client_shown(check.client));
}

/* Opens or closes a list of the document, if there is one. */
static void check_list(bool open, const char *name)
{
    if (ask_options.json && open)
        json_open(&check.document, name, '[', JSON_LINES);
    else if (ask_options.json)
        json_close(&check.document, ']');
}

static void check_print_all(void)
{
    bool json = ask_options.json;
    if (json) {
        print_summary_json();
    } else {
        print_summary();
        print_ended();
    }
    if (check.list) {
        check_list(true, "changes");
        check_print_changes();
        check_list(false, NULL);
        show_hidden();
    } else if (!json) {
        printf("not compared with a server: %s\n", check.err.text);
    }
    check_fleet_print();
    check_list(true, "notes");
    check_notes();
    check_list(false, NULL);
}

static int check_file(const char *url)
{
    struct json *json = &check.document;
    if (ask_options.json) {
        json_open(json, NULL, '{', JSON_LINES);
        json_text(json, "file", check.file);
        json_open(json, "mistakes", '[', JSON_LINES);
    }
    check.config = weir_config_read(check.file, check_print_mistake, NULL);
    bool good = check.config && check_fleet() && check_tls() && check_serve();
    if (good) {
        check_against_server(url);
        note_empty_file();
        note_user_change();
    }
    good = good && !check.told_mistake;
    if (ask_options.json)
        json_close(json, ']');
    if (good && (ask_options.json || check.list || !url))
        check_print_all();
    else if (good)
        print_summary();
    if (ask_options.json)
        json_close(json, '}');
    if (good && url && !check.list)
        (void)args_fail("check", "%s", check.err.text);
    return good && (check.list || !url) ? EXIT_OK : EXIT_ERROR;
}

static int run_check(const struct cli_command *command, int count, char **argv)
{
    check.document.file = stdout;
    check.file = argv[1];
    (void)command;
    (void)count;
    int status = check_file(ask_options.server);
    client_close(check.other);
    client_close(check.client);
    weir_config_free(check.config);
    return status;
}

static const struct args_option options[] = {ASK_SERVER, ASK_JSON};

const struct cli_command command_check = {
    .name = "check",
    .usage = "FILE [-s URL] [--json]\n"
             "Is this configuration right, and what would it change?\n"
             "\n"
             "Every mistake is told with its line and column, and what weir serve would refuse, too.\n"
             "If a server answers, its policies are compared with those of the file. Notes tell what\n"
             "may hurt although it is right. Of policies with fleet: it prints what they cost their\n"
             "coordinator and what passes at worst, and refuses what cannot work. Nothing is changed.\n",
    ARGS_OPTIONS(options),
    .more = "The exit status is 0 if the file is right, else 2; also 2 if a server that was\n"
            "named by -s does not answer.\n"
            "\n"
            "Examples\n"
            "  weir check weir.yaml && weir reload\n"
            "  weir check --json weir.yaml | jq .changes\n",
    .least = 1,
    .most = 1,
    .few = "which file? For example: weir check weir.yaml",
    .many = "one file at a time, as in: weir check weir.yaml",
    .run = run_check,
};
