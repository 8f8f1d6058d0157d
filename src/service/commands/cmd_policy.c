/* SPDX-License-Identifier: MIT */
/*
 * WEIR.POLICY, WEIR.RELOAD and WEIR.CLOCK: for operators. What changes something, or counts keys, is done by
 * the job thread. A change does not show in the snapshot of the read section in which it is made.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sat.h"
#include "config/read_policy.h"
#include "config/timestamp.h"
#include "service/commands/call.h"
#include "service/commands/info.h"
#include "service/leases/lease_text.h"
#include "service/policies/apply.h"
#include "service/policies/change.h"
#include "store/commit.h"

#define REPORT_MOST 65536 /* bytes of what a reload complains about */
#define FIRST_MOST  600   /* of its first line in an answer, so that the rest is not cut off */

/* ---- looking ---------------------------------------------------------------------------------- */

/* Does it stand as the file says? */
static bool is_as_filed(const struct policy *policy, enum policy_mode mode, int percent)
{
    return policy->from_file && !policy->candidate_set && policy->file_limits &&
           strcmp(policy->limits, policy->file_limits) == 0 && mode == policy->file_mode &&
           percent == policy->file_percent;
}

/* The ten fields that LIST and SHOW have in common. Keys are counted for it: some hundred microseconds for
 * each table. */
static void answer_policy(struct call *call, const struct policy *policy, size_t more,
                          struct policy_room *room)
{
    struct reply *reply = &call->reply;
    struct policy_sums sums;
    int percent;
    enum policy_mode mode = weir_policy_stated_mode(call->worker, policy, &percent);
    weir_counters_sum(policy->counters, &sums);
    weir_policy_room(policy, call->worker->now_ns, room);
    weir_reply_map(reply, 10 + more);
    weir_reply_text_field(reply, "name", policy->name);
    weir_reply_text_field(reply, "limits", policy->limits);
    weir_reply_text_field(reply, "mode", weir_mode_name(mode));
    weir_reply_field(reply, "percent", percent);
    weir_reply_text_field(reply, "candidate", policy->candidate);
    weir_reply_text_field(reply, "from", is_as_filed(policy, mode, percent) ? "file" : "command");
    weir_reply_field(reply, "keys", room->keys);
    weir_reply_field(reply, "allowed", sums.allowed);
    weir_reply_field(reply, "refused", sums.refused);
    weir_reply_field(reply, "shadow_refused", sums.shadow_refused);
}

static bool may_see_policy(const struct call *call, const struct policy *policy)
{
    return weir_user_may_policy(call->user, (struct slice){policy->name, strlen(policy->name)});
}

/* Milliseconds until a time of weir_now, or null if there is none or it has passed. */
static void answer_end(struct call *call, const char *name, int64_t until_ns)
{
    weir_reply_text(&call->reply, name);
    if (until_ns > call->worker->now_ns)
        weir_reply_integer(&call->reply, ms_up(until_ns - call->worker->now_ns));
    else
        weir_reply_null(&call->reply);
}

/* The mode that WEIR.POLICY MODE * has put above all others, or NULL. */
static const char *mode_of_all(const struct worker *worker)
{
    const struct snapshot *snapshot = worker->snapshot;
    bool over = worker_is_past(worker, snapshot->all_until_ms);
    return snapshot->mode_for_all && !over ? weir_mode_name(snapshot->all_mode) : NULL;
}

static void answer_mode_of_all(struct call *call)
{
    const char *mode = mode_of_all(call->worker);
    weir_reply_text_field(&call->reply, "mode_of_all", mode);
    answer_end(call, "mode_of_all_ends_in_ms",
               mode ? worker_end_ns(call->worker, call->worker->snapshot->all_until_ms) : 0);
}

/* What the file says of it, whatever was changed by command since; null: nothing. */
static void answer_file(struct call *call, const struct policy *policy)
{
    char mode[24];
    (void)snprintf(mode, sizeof mode, "%s", weir_mode_name(policy->file_mode));
    if (policy->file_percent != CONFIG_PERCENT_ALL)
        (void)snprintf(mode, sizeof mode, "enforce %d%%", policy->file_percent);
    weir_reply_text_field(&call->reply, "file_limits", policy->from_file ? policy->file_limits : NULL);
    weir_reply_text_field(&call->reply, "file_mode", policy->from_file ? mode : NULL);
}

/* Where its units come from, without passwords; null: this server counts for itself. */
static void answer_fleet(struct call *call, const struct policy *policy)
{
    char text[FLEET_TEXT_MAX];
    weir_reply_text_field(&call->reply, "fleet", policy->pools ? weir_fleet_text(policy, text) : NULL);
}

/* What the file says of addresses; null: its keys are any. */
static void answer_address(struct call *call, const struct policy *policy)
{
    char text[ADDRESS_TEXT_MAX] = "a tier";
    weir_reply_text_field(&call->reply, "address",
                          policy->address   ? weir_address_text(policy->address, text)
                          : policy->is_tier ? text
                                            : NULL);
}

/* "0000000000000000-7fffffffffffffff redis://10.0.0.2:9049" */
static void answer_frozen(struct reply *reply, const struct policy *policy)
{
    weir_reply_text(reply, "frozen");
    weir_reply_array(reply, policy->frozen_count);
    for (size_t i = 0; i < policy->frozen_count; i++)
        weir_reply_print(reply, "%016" PRIx64 "-%016" PRIx64 " %s", policy->frozen[i].from,
                         policy->frozen[i].to, policy->frozen[i].url);
}

static void run_policy_list(struct call *call)
{
    const struct snapshot *snapshot = call->worker->snapshot;
    struct policy_room room;
    size_t count = 0;
    for (size_t i = 0; i < snapshot->policy_count; i++)
        count += may_see_policy(call, snapshot->policies[i]);
    weir_reply_array(&call->reply, count);
    for (size_t i = 0; i < snapshot->policy_count; i++)
        if (may_see_policy(call, snapshot->policies[i])) {
            answer_policy(call, snapshot->policies[i], 7, &room);
            answer_mode_of_all(call);
            answer_frozen(&call->reply, snapshot->policies[i]);
            answer_file(call, snapshot->policies[i]);
            answer_fleet(call, snapshot->policies[i]);
            answer_address(call, snapshot->policies[i]);
        }
}

static void answer_settings(struct reply *reply, const struct policy_settings *settings)
{
    const struct config_key *key;
    for (size_t i = 0; (key = weir_setting_at(i)); i++) {
        int64_t number = *key_number(key, settings);
        if (key->words)
            weir_reply_text_field(reply, key->shown, weir_setting_word(key, settings));
        else
            weir_reply_field(reply, key->shown, key->type == KEY_NS ? ms_up(number) : number);
    }
}

static void answer_more(struct call *call, const struct policy *policy, int64_t capacity)
{
    struct reply *reply = &call->reply;
    struct policy_sums sums;
    weir_counters_sum(policy->counters, &sums);
    weir_reply_field(reply, "candidate_refused", sums.candidate_refused);
    weir_reply_field(reply, "errors", sums.errors);
    weir_reply_field(reply, "units", sums.units);
    weir_reply_field(reply, "capacity", capacity);
    answer_end(call, "mode_ends_in_ms", worker_end_ns(call->worker, policy->mode_until_ms));
    answer_mode_of_all(call);
    answer_settings(reply, &policy->settings);
    answer_end(call, "older_limits_end_in_ms", policy_previous_ends(policy));
    weir_reply_field(reply, "overrides", (int64_t)(policy->prefix_count + policy->key_count));
    answer_frozen(reply, policy);
    answer_file(call, policy);
    answer_fleet(call, policy);
    answer_address(call, policy);
}

static void run_policy_show(struct call *call)
{
    const struct policy *policy = call->request->pairs[0].policy;
    struct policy_room room;
    answer_policy(call, policy, 14 + SETTINGS_COUNT, &room);
    answer_more(call, policy, room.capacity);
}

/* ---- changing: by the job thread ------------------------------------------------------------ */

static void answer_change(struct call *call, bool done, const struct weir_error *err)
{
    if (done)
        weir_reply_simple(&call->reply, "OK");
    else
        weir_call_fail(call, err);
}

/* WEIR.POLICY SET name limits ... [FRESH] */
static void run_policy_set(struct call *call)
{
    struct weir_error err = {0};
    char limits[LIMITS_TEXT_MAX], name[72];
    bool fresh = call->count > 4 && weir_call_word(call, call->count - 1, "FRESH");
    if (!weir_call_limits(call, 3, call->count - fresh, limits, sizeof limits))
        return;
    bool done = weir_change_policy(call->worker->service, call->args[2], limits, fresh, &err);
    if (done)
        LOG_CHANGE(call, "policy-set", LOG_TEXT("policy", weir_shown(call->args[2], name)),
                   LOG_TEXT("limits", limits), LOG_TEXT("fresh", fresh ? "yes" : ""));
    answer_change(call, done, &err);
}

/* WEIR.POLICY CANDIDATE name limits ... | NONE */
static void run_policy_candidate(struct call *call)
{
    struct weir_error err = {0};
    char limits[LIMITS_TEXT_MAX], name[72];
    bool none = call->count == 4 && weir_call_word(call, 3, "NONE");
    if (!none && !weir_call_limits(call, 3, call->count, limits, sizeof limits))
        return;
    bool done = weir_change_candidate(call->worker->service, call->args[2], none ? NULL : limits, &err);
    if (done)
        LOG_CHANGE(call, "candidate-set", LOG_TEXT("policy", weir_shown(call->args[2], name)),
                   LOG_TEXT("limits", none ? "none" : limits));
    answer_change(call, done, &err);
}

/* WEIR.POLICY DEL name [FORGET] */
static void run_policy_del(struct call *call)
{
    struct weir_error err = {0};
    char name[72];
    bool forget = call->count == 4 && weir_call_word(call, 3, "FORGET");
    if (call->count > 3 && !forget) {
        weir_call_syntax(call, 3);
        return;
    }
    bool done = weir_change_remove(call->worker->service, call->args[2], forget, &err);
    if (done)
        LOG_CHANGE(call, "policy-removed", LOG_TEXT("policy", weir_shown(call->args[2], name)),
                   LOG_TEXT("forget", forget ? "yes" : ""));
    answer_change(call, done, &err);
}

/* Ends the word there with a '%'? */
static bool is_percent_word(const struct call *call, size_t at)
{
    return at < call->count && call->args[at].len > 0 && call->args[at].bytes[call->args[at].len - 1] == '%';
}

struct mode_words {
    enum policy_mode mode;
    int percent;
    int64_t for_ns;
};

/* 25 or 25% */
static bool read_percent_word(struct call *call, size_t at, int *percent)
{
    int64_t number;
    struct slice word = at < call->count ? call->args[at] : (struct slice){"", 0};
    word.len -= is_percent_word(call, at);
    if (!weir_read_integer(word, &number) || number < 1 || number > 100) {
        weir_call_error(call, "ERR PERCENT takes a whole number from 1 to 100");
        return false;
    }
    *percent = (int)number;
    return true;
}

static bool read_mode_words(struct call *call, struct mode_words *words)
{
    char why[160] = "";
    size_t at = 4;
    if (!weir_config_mode(call->args[3].bytes, call->args[3].len, &words->mode, &words->percent, why,
                          sizeof why)) {
        weir_call_error(call, "ERR %s", why);
        return false;
    }
    if (is_percent_word(call, at) && !read_percent_word(call, at++, &words->percent)) /* enforce 25% */
        return false;
    for (; at < call->count; at += 2) {
        if (weir_call_word(call, at, "PERCENT")) {
            if (!read_percent_word(call, at + 1, &words->percent))
                return false;
        } else if (weir_call_word(call, at, "FOR")) {
            if (!weir_call_time(call, at + 1, &words->for_ns))
                return false;
        } else {
            weir_call_syntax(call, at);
            return false;
        }
    }
    if (words->percent != CONFIG_PERCENT_ALL && words->mode != MODE_ENFORCE) {
        weir_call_error(call, "ERR PERCENT goes with enforce only");
        return false;
    }
    return true;
}

static void log_mode(const struct call *call, const struct mode_words *words)
{
    char name[72], mode[32], until[TIMESTAMP_MAX] = "never";
    int64_t now_ns = weir_now();
    (void)snprintf(mode, sizeof mode, "%s", weir_mode_name(words->mode));
    if (words->percent != CONFIG_PERCENT_ALL)
        (void)snprintf(mode, sizeof mode, "enforce %d%%", words->percent);
    if (words->for_ns > 0)
        weir_timestamp_write(service_wall_ms(call->worker->service, sat_add(now_ns, words->for_ns)), until);
    LOG_CHANGE(call, "mode-set", LOG_TEXT("policy", weir_shown(call->args[2], name)), LOG_TEXT("mode", mode),
               LOG_TEXT("ends", until));
}

/* WEIR.POLICY MODE name|* mode [PERCENT p] [FOR time] */
static void run_policy_mode(struct call *call)
{
    struct weir_error err = {0};
    struct mode_words words = {.percent = CONFIG_PERCENT_ALL};
    if (!read_mode_words(call, &words))
        return;
    bool done =
        weir_change_mode(call->worker->service, call->args[2], words.mode, words.percent, words.for_ns, &err);
    if (done)
        log_mode(call, &words);
    const struct store *store = call->worker->service->store;
    if (done && store && !weir_store_is_well(store))
        weir_reply_simple(&call->reply, "OK; in force now, and recorded when the disk has recovered");
    else
        answer_change(call, done, &err);
}

/* A report of several lines as one. */
static struct slice one_line(struct buffer *report)
{
    char *text = buffer_bytes(report);
    size_t len = buffer_len(report);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n')
            text[i] = ';';
    return (struct slice){text, len};
}

/* An error is one line: the first mistake, how many there are more, and what stays in force. */
static void answer_report(struct call *call, struct buffer *report)
{
    const char *text = buffer_len(report) > 0 ? buffer_bytes(report) : "";
    const char *end = text + buffer_len(report), *first_end = memchr(text, '\n', (size_t)(end - text));
    const char *last = text;
    int lines = 0;
    for (const char *at = text, *stop; at < end && (stop = memchr(at, '\n', (size_t)(end - at)));
         at = stop + 1, lines++)
        last = at;
    if (lines < 2) {
        weir_call_error(call, "ERR out of memory; nothing was changed");
        return;
    }
    char more[200] = "";
    int first = (int)min64(first_end - text, FIRST_MOST), rest = (int)(end - last) - 1;
    if (lines > 2)
        (void)snprintf(more, sizeof more, " (and %d more; weir check %.120s shows all)", lines - 2,
                       call->worker->service->options.config_path);
    weir_call_error(call, "ERR %.*s%s; %.*s", first, text, more, rest, last);
}

/* "OK; memory counts from the next start on" */
static void answer_reloaded(struct call *call, struct buffer *report)
{
    struct slice line = one_line(report);
    char text[CONFIG_START_KEYS * 64];
    (void)snprintf(text, sizeof text, "OK%s%.*s", line.len > 0 ? "; " : "", (int)line.len,
                   line.len > 0 ? line.bytes : "");
    weir_reply_simple(&call->reply, text);
}

static void run_reload(struct call *call)
{
    struct buffer report = {.most = REPORT_MOST};
    LOG_CHANGE(call, "reload-asked", LOG_TEXT("by", "command"));
    if (!call->worker->service->options.config_path)
        weir_call_error(call, "ERR there is no file to read again; start weir serve with --config");
    else if (weir_service_reload(call->worker->service, &report))
        answer_reloaded(call, &report);
    else
        answer_report(call, &report);
    weir_buffer_free(&report);
}

/* ---- WEIR.CLOCK ------------------------------------------------------------------------------- */

static bool has_clock(struct call *call)
{
    if (call->worker->service->options.test_clock)
        return true;
    weir_call_error(call, "ERR the clock is the machine's and cannot be set; only weir serve --test-clock, "
                          "which is for tests, has one of its own");
    return false;
}

/* What follows in this read section happens at the new time, and who waits for a time looks again. */
static void set_test_clock(struct call *call, int64_t now_ms)
{
    struct service *service = call->worker->service;
    if (now_ms > WEIR_TIME_MAX / WEIR_MS) {
        weir_call_error(call, "ERR that is too late for a clock; at most %" PRId64 " ms",
                        WEIR_TIME_MAX / WEIR_MS);
        return;
    }
    weir_clock_set(now_ms * WEIR_MS);
    call->worker->now_ns = now_ms * WEIR_MS;
    if (service->clock_moved)
        service->clock_moved(service->server);
    weir_reply_simple(&call->reply, "OK");
}

static void run_clock_set(struct call *call)
{
    int64_t ms;
    if (has_clock(call) && weir_call_integer(call, 2, "ms", 0, &ms))
        set_test_clock(call, ms);
}

static void run_clock_advance(struct call *call)
{
    int64_t ms;
    if (has_clock(call) && weir_call_integer(call, 2, "ms", 0, &ms))
        set_test_clock(call, sat_add(weir_now() / WEIR_MS, ms));
}

/* ---- table ------------------------------------------------------------------------------------ */

static const struct arg name_docs[] = {{.name = "name"}, {0}};
static const struct arg del_docs[] = {
    {.name = "name"}, {.name = "forget", .type = ARG_TOKEN, .token = "FORGET", .flags = ARG_OPTIONAL}, {0}};
static const struct arg set_docs[] = {
    {.name = "name"},
    {.name = "limits", .flags = ARG_MULTIPLE},
    {.name = "fresh", .type = ARG_TOKEN, .token = "FRESH", .flags = ARG_OPTIONAL},
    {0}};
static const struct arg candidate_docs[] = {
    {.name = "name"}, {.name = "limits|NONE", .flags = ARG_MULTIPLE}, {0}};
static const struct arg mode_parts[] = {{.name = "enforce", .type = ARG_TOKEN, .token = "enforce"},
                                        {.name = "shadow", .type = ARG_TOKEN, .token = "shadow"},
                                        {.name = "disabled", .type = ARG_TOKEN, .token = "disabled"},
                                        {0}};
static const struct arg mode_docs[] = {
    {.name = "name|*"},
    {.name = "mode", .type = ARG_ONEOF, .parts = mode_parts},
    {.name = "percent", .type = ARG_INTEGER, .token = "PERCENT", .flags = ARG_OPTIONAL},
    {.name = "time", .token = "FOR", .flags = ARG_OPTIONAL},
    {0}};
static const struct arg clock_docs[] = {{.name = "ms", .type = ARG_INTEGER}, {0}};

static const struct command policy_parts[] = {
    {COMMAND("list", "All policies: limits, mode, what was allowed and refused", "weir", 2, ENGINE_LOOK,
             run_policy_list),
     .flags = CMD_JOB, .example = "WEIR.POLICY LIST"},
    {COMMAND("show", "Everything about a policy", "weir", 3, ENGINE_LOOK_POLICY, run_policy_show),
     .flags = CMD_JOB, .policy_at = 2, .docs = name_docs, .example = "WEIR.POLICY SHOW api"},
    {COMMAND("set", "Limits of a new policy, or other limits; what was spent stays spent unless FRESH",
             "weir", -4, ENGINE_CHANGE_POLICY, run_policy_set),
     .flags = CMD_JOB, .policy_at = 2, .docs = set_docs,
     .example = "WEIR.POLICY SET api 100/s burst=200, 10k/h"},
    {COMMAND("del", "Removes a policy; with a data directory its keys are retired to a file, unless FORGET",
             "weir", -3, ENGINE_CHANGE_POLICY, run_policy_del),
     .flags = CMD_JOB, .policy_at = 2, .docs = del_docs, .example = "WEIR.POLICY DEL api"},
    {COMMAND("mode", "Enforces a policy, for some keys only, counts without refusing, or lets all pass",
             "weir", -4, ENGINE_CHANGE_MODE, run_policy_mode),
     .flags = CMD_JOB, .policy_at = 2, .docs = mode_docs, .example = "WEIR.POLICY MODE api shadow FOR 30m"},
    {COMMAND("candidate", "Tries other limits beside those of a policy: counts what they would refuse",
             "weir", -4, ENGINE_CHANGE_POLICY, run_policy_candidate),
     .flags = CMD_JOB, .policy_at = 2, .docs = candidate_docs,
     .example = "WEIR.POLICY CANDIDATE api 80/s burst=100"},
    COMMAND_HELP("weir", "WEIR.POLICY HELP"),
    {0}};

static const struct command clock_parts[] = {
    {COMMAND("set", "Sets the clock of --test-clock to a time in milliseconds", "weir", 3,
             ENGINE_ADMIN_SERVER, run_clock_set),
     .docs = clock_docs, .example = "WEIR.CLOCK SET 1000"},
    {COMMAND("advance", "Moves the clock of --test-clock on by so many milliseconds", "weir", 3,
             ENGINE_ADMIN_SERVER, run_clock_advance),
     .docs = clock_docs, .example = "WEIR.CLOCK ADVANCE 250"},
    COMMAND_HELP("weir", "WEIR.CLOCK HELP"),
    {0}};

const struct command weir_commands_policy[] = {
    {COMMAND("weir.policy", "Names with limits: list, show, set, del, mode, candidate", "weir", -2,
             ENGINE_CONNECT, NULL),
     .commands = policy_parts},
    {COMMAND("weir.reload", "Reads the configuration again; what is wrong changes nothing", "weir", 1,
             ENGINE_CHANGE_SERVER, run_reload),
     .flags = CMD_JOB, .example = "WEIR.RELOAD"},
    {COMMAND("weir.clock", "Moves the clock of a server that was started with --test-clock", "weir", -2,
             ENGINE_CONNECT, NULL),
     .commands = clock_parts},
    {0}};
