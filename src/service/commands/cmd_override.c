/* SPDX-License-Identifier: MIT */
/*
 * WEIR.OVERRIDE: other limits for one key, or for all keys that begin alike. SET and DEL are done by the
 * job thread.
 */
#include <string.h>

#include "base/sat.h"
#include "config/timestamp.h"
#include "service/commands/call.h"
#include "service/policies/change.h"

#define REASON_MAX 256 /* bytes */

/* ---- looking ---------------------------------------------------------------------------------- */

static bool may_see_key(const struct call *call, const char *key, size_t len)
{
    return weir_user_may_key(call->user, (struct slice){key, len});
}

/* The rest of an entry, behind its key. */
static void answer_rest(struct reply *reply, const char *limits, int64_t until_ms, const char *reason,
                        bool from_file)
{
    weir_reply_text_field(reply, "limits", limits);
    if (until_ms > 0)
        weir_reply_field(reply, "until_ms", until_ms);
    else
        weir_reply_text_field(reply, "until_ms", NULL);
    weir_reply_text_field(reply, "reason", reason);
    weir_reply_text_field(reply, "from", from_file ? "file" : "command");
}

/* A prefix is shown with the '*' that it was set with. */
static void answer_override(struct call *call, const struct policy_override *override)
{
    char text[KEY_MAX + 1];
    size_t len = override->len < KEY_MAX ? override->len : KEY_MAX;
    memcpy(text, override->key, len);
    if (override->ptable)
        text[len++] = '*';
    weir_reply_map(&call->reply, 5);
    weir_reply_text(&call->reply, "key");
    weir_reply_bulk(&call->reply, text, len);
    answer_rest(&call->reply, override->limits, override->until_ms, override->reason, override->from_file);
}

/* Answers those that the user may see, unless it only counts them. */
static size_t answer_overrides(struct call *call, const struct policy_override *overrides, size_t count,
                               bool only_count)
{
    size_t seen = 0;
    for (size_t i = 0; i < count; i++) {
        if (!may_see_key(call, overrides[i].key, overrides[i].len))
            continue;
        seen++;
        if (!only_count)
            answer_override(call, &overrides[i]);
    }
    return seen;
}

static size_t answer_policy_overrides(struct call *call, const struct policy *policy, bool only_count)
{
    return answer_overrides(call, policy->keys, policy->key_count, only_count) +
           answer_overrides(call, policy->prefixes, policy->prefix_count, only_count);
}

/* With those of its tiers. */
static size_t answer_all_overrides(struct call *call, const struct policy *policy, bool only_count)
{
    size_t count = answer_policy_overrides(call, policy, only_count);
    for (size_t i = 1; policy->address && i < policy->address->tier_count; i++)
        count +=
            answer_policy_overrides(call, weir_snapshot_tier(call->worker->snapshot, policy, i), only_count);
    return count;
}

static void run_override_list(struct call *call)
{
    const struct policy *policy = call->request->pairs[0].policy;
    weir_reply_array(&call->reply, answer_all_overrides(call, policy, true));
    (void)answer_all_overrides(call, policy, false);
}

/* ---- changing: by the job thread ------------------------------------------------------------ */

struct override_words {
    size_t limits_end; /* they are the words before this one */
    int64_t for_ns;
    struct slice reason;
};

static bool read_override_reason(struct call *call, size_t at, struct slice *reason)
{
    if (at >= call->count || call->args[at].len > REASON_MAX ||
        memchr(call->args[at].bytes, '\0', call->args[at].len)) {
        weir_call_error(call, "ERR REASON takes one text of at most %d bytes, in quotes if it has spaces",
                        REASON_MAX);
        return false;
    }
    *reason = call->args[at];
    return true;
}

static bool is_option(const struct call *call, size_t at)
{
    return weir_call_word(call, at, "FOR") || weir_call_word(call, at, "REASON");
}

static bool read_override_words(struct call *call, struct override_words *words)
{
    size_t at = 4;
    while (at < call->count && !is_option(call, at))
        at++;
    words->limits_end = at;
    if (at == 4) { /* the first of them can be no option */
        weir_call_syntax(call, at);
        return false;
    }
    for (; at < call->count; at += 2) {
        if (weir_call_word(call, at, "FOR")) {
            if (!weir_call_time(call, at + 1, &words->for_ns))
                return false;
        } else if (weir_call_word(call, at, "REASON")) {
            if (!read_override_reason(call, at + 1, &words->reason))
                return false;
        } else {
            weir_call_syntax(call, at);
            return false;
        }
    }
    return true;
}

/* WEIR.OVERRIDE SET policy key limits ... [FOR time] [REASON text] */
static void run_override_set(struct call *call)
{
    struct weir_error err = {0};
    struct override_words words = {.reason = {"", 0}};
    char limits[LIMITS_TEXT_MAX], name[72], key[72], reason[72], until[TIMESTAMP_MAX] = "never";
    if (!read_override_words(call, &words) ||
        !weir_call_limits(call, 4, words.limits_end, limits, sizeof limits))
        return;
    if (weir_change_override(call->worker->service, call->args[2], call->args[3], limits, words.for_ns,
                             words.reason, &err)) {
        const struct service *service = call->worker->service;
        if (words.for_ns > 0)
            weir_timestamp_write(service_wall_ms(service, sat_add(weir_now(), words.for_ns)), until);
        LOG_CHANGE(call, "override-set", LOG_TEXT("policy", weir_shown(call->args[2], name)),
                   LOG_TEXT("key", weir_shown(call->args[3], key)), LOG_TEXT("limits", limits),
                   LOG_TEXT("ends", until), LOG_TEXT("reason", weir_shown(words.reason, reason)));
        weir_reply_simple(&call->reply, "OK");
    } else {
        weir_call_fail(call, &err);
    }
}

static void run_override_del(struct call *call)
{
    struct weir_error err = {0};
    char name[72], key[72];
    if (weir_change_unoverride(call->worker->service, call->args[2], call->args[3], &err)) {
        LOG_CHANGE(call, "override-removed", LOG_TEXT("policy", weir_shown(call->args[2], name)),
                   LOG_TEXT("key", weir_shown(call->args[3], key)));
        weir_reply_simple(&call->reply, "OK");
    } else {
        weir_call_fail(call, &err);
    }
}

/* ---- table ------------------------------------------------------------------------------------ */

static const struct arg set_docs[] = {{.name = "policy"},
                                      {.name = "key", .type = ARG_KEY},
                                      {.name = "limits", .flags = ARG_MULTIPLE},
                                      {.name = "time", .token = "FOR", .flags = ARG_OPTIONAL},
                                      {.name = "text", .token = "REASON", .flags = ARG_OPTIONAL},
                                      {0}};
static const struct arg del_docs[] = {{.name = "policy"}, {.name = "key", .type = ARG_KEY}, {0}};
static const struct arg list_docs[] = {{.name = "policy"}, {0}};

static const struct command override_parts[] = {
    {COMMAND("set", "Other limits for a key, or for all keys that begin so: prefix*", "weir", -5,
             ENGINE_CHANGE_OVERRIDE, run_override_set),
     .flags = CMD_JOB, .policy_at = 2, .key_at = 3, .docs = set_docs,
     .example = "WEIR.OVERRIDE SET api user:42 1000/s FOR 2h REASON launch"},
    {COMMAND("del", "Gives a key, or prefix*, the limits of its policy again", "weir", 4,
             ENGINE_CHANGE_OVERRIDE, run_override_del),
     .flags = CMD_JOB, .policy_at = 2, .key_at = 3, .docs = del_docs,
     .example = "WEIR.OVERRIDE DEL api user:42"},
    {COMMAND("list", "The overrides of a policy, with their end and reason", "weir", 3, ENGINE_LOOK_POLICY,
             run_override_list),
     .policy_at = 2, .docs = list_docs, .example = "WEIR.OVERRIDE LIST api"},
    COMMAND_HELP("weir", "WEIR.OVERRIDE HELP"),
    {0}};

const struct command weir_commands_override[] = {
    {COMMAND("weir.override", "Other limits for some keys, perhaps with an end and a reason", "weir", -2,
             ENGINE_CONNECT, NULL),
     .commands = override_parts},
    {0}};
