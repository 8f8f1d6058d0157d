/* SPDX-License-Identifier: MIT */
/*
 * What operators do with what is stored: WEIR.BACKUP, IMAGE, DUMP, LOAD, FREEZE, THAW. All of it by the chore
 * thread, and of a dump a page at a time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sat.h"
#include "os/clock.h"
#include "service/client.h"
#include "service/dump.h"
#include "service/dump_text.h"
#include "service/freeze.h"
#include "service/keep.h"
#include "service/load.h"

#define PAGE_KEYS  1000
#define PAGE_BYTES (4 << 20)

static void answer_done(struct call *call, bool done, const struct weir_error *err)
{
    if (done)
        weir_reply_simple(&call->reply, "OK");
    else
        weir_call_error(call, "ERR %s", err->text);
}

/* ---- ranges ---- */

/* 8f3a66c01b5d2e70, with a # in front of it or not. */
static bool read_hash(struct call *call, size_t at, uint64_t *hash)
{
    char text[17] = "#", shown[72];
    struct slice word = call->args[at];
    if (word.len == 16) {
        memcpy(text + 1, word.bytes, 16);
        word = (struct slice){text, 17};
    }
    if (weir_dump_read_hash(word, hash))
        return true;
    weir_call_error(call, "ERR '%s' is no hash: 16 hex digits, from 0000000000000000 to ffffffffffffffff",
                    weir_shown(call->args[at], shown));
    return false;
}

/* [HASH from to] at the end of a command. false: an error was answered. */
static bool read_range(struct call *call, size_t at, struct export_range *range)
{
    *range = (struct export_range){0, UINT64_MAX};
    if (at == call->count)
        return true;
    if (!weir_call_word(call, at, "hash") || at + 3 != call->count) {
        weir_call_syntax(call, at);
        return false;
    }
    if (!read_hash(call, at + 1, &range->from) || !read_hash(call, at + 2, &range->to))
        return false;
    if (range->from <= range->to)
        return true;
    weir_call_error(call, "ERR the range is empty: its first hash is above its last one");
    return false;
}

static void log_range(const struct call *call, const char *event, struct export_range range, struct slice url)
{
    char text[40], shown[72], name[72];
    (void)snprintf(text, sizeof text, "%016" PRIx64 "-%016" PRIx64, range.from, range.to);
    LOG_CHANGE(call, event, LOG_TEXT("policy", weir_shown(call->args[1], name)), LOG_TEXT("hashes", text),
               LOG_TEXT("to", url.len > 0 ? weir_shown(url, shown) : ""));
}

static void run_freeze(struct call *call)
{
    struct export_range range;
    struct weir_error err = {0};
    if (!read_range(call, 3, &range))
        return;
    if (call->args[2].len == 0) {
        weir_call_error(call, "ERR name the server that has, or will have, these keys: redis://host:port");
        return;
    }
    bool done = weir_change_freeze(call->worker->service, call->args[1], range, call->args[2], &err);
    if (done)
        log_range(call, "frozen", range, call->args[2]);
    answer_done(call, done, &err);
}

static void run_thaw(struct call *call)
{
    struct export_range range;
    struct weir_error err = {0};
    if (!read_range(call, 2, &range))
        return;
    bool done = weir_change_thaw(call->worker->service, call->args[1], range, call->count == 2, &err);
    if (done)
        log_range(call, "thawed", range, (struct slice){"", 0});
    answer_done(call, done, &err);
}

/* ---- dump ---- */

/* An array of the lines in `text`; false: there was no memory for them, which was answered. */
static bool reply_lines(struct call *call, struct buffer *text)
{
    if (text->failed) {
        weir_call_error(call, "ERR out of memory");
        return false;
    }
    const char *at = buffer_bytes(text), *end = at + buffer_len(text), *stop;
    size_t count = 0;
    for (const char *seek = at; seek < end && (stop = memchr(seek, '\n', (size_t)(end - seek)));
         seek = stop + 1)
        count++;
    weir_reply_array(&call->reply, count);
    for (; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1)
        weir_reply_bulk(&call->reply, at, (size_t)(stop - at));
    return true;
}

static void run_dump_head(struct call *call)
{
    struct buffer text = {.most = PAGE_BYTES};
    weir_dump_head(call->worker->service, call->worker->now_ns, &text);
    (void)reply_lines(call, &text);
    weir_buffer_free(&text);
}

static void run_dump_policy(struct call *call)
{
    struct policy *policy = weir_call_policy(call, 2);
    struct buffer text = {.most = PAGE_BYTES};
    struct slice prefix;
    struct tally *tally;
    if (!policy)
        return;
    weir_dump_definition(policy, &text);
    if (policy_older_ends(policy) > call->worker->now_ns)
        weir_buffer_print(&text, "# limits of before a change are still asked as well; they are not here\n");
    for (size_t i = 0; (tally = weir_dump_table(policy, i, &prefix)) != NULL; i++)
        weir_dump_table_line(call->worker->service, tally, prefix, call->worker->now_ns, &text);
    (void)reply_lines(call, &text);
    weir_buffer_free(&text);
}

static struct tally *find_table(struct call *call, const struct policy *policy, struct slice prefix)
{
    struct slice has;
    struct tally *tally;
    char shown[72];
    for (size_t i = 0; (tally = weir_dump_table(policy, i, &has)) != NULL; i++)
        if (has.len == prefix.len && memcmp(has.bytes, prefix.bytes, prefix.len) == 0)
            return tally;
    weir_call_error(
        call,
        "ERR policy '%s' has no limits for the prefix '%s'; keys are known by hashes here, so only "
        "those of a prefix with limits of its own are known by it",
        policy->name, weir_shown(prefix, shown));
    return NULL;
}

static void run_dump_keys(struct call *call)
{
    struct export_range range;
    struct policy *policy = weir_call_policy(call, 2);
    struct tally *tally = policy ? find_table(call, policy, call->args[3]) : NULL;
    struct buffer text = {.most = PAGE_BYTES};
    uint64_t keys = 0;
    if (!tally || !read_range(call, 4, &range))
        return;
    if (!weir_dump_keys(tally, call->worker->now_ns, &range, PAGE_KEYS, &text, &keys)) {
        weir_call_error(call, "ERR out of memory");
    } else {
        bool more = range.from != 0 && range.from <= range.to;
        weir_reply_map(&call->reply, 3);
        weir_reply_text(&call->reply, "next");
        if (more)
            weir_reply_print(&call->reply, "%016" PRIx64, range.from);
        else
            weir_reply_text(&call->reply, "");
        weir_reply_text(&call->reply, "table");
        weir_reply_integer(&call->reply, (int64_t)tally->serial);
        weir_reply_text(&call->reply, "lines");
        (void)reply_lines(call, &text);
    }
    weir_buffer_free(&text);
}

/* ---- load ---- */

static void run_load_begin(struct call *call)
{
    struct weir_error err = {0};
    char shown[72];
    size_t at = 4;
    struct load_begin begin = {.policy = call->args[2], .id = call->args[3]};
    if (weir_call_word(call, at, "noelapsed")) {
        begin.no_elapsed = true;
        at++;
    }
    begin.lines = call->args + at;
    begin.count = call->count - at;
    bool made;
    if (!weir_load_begin(call->worker->service, &begin, &made, &err)) {
        weir_call_error(call, "ERR %s", err.text);
        return;
    }
    LOG_CHANGE(call, "load-begun", LOG_TEXT("policy", weir_shown(call->args[2], shown)));
    weir_reply_map(&call->reply, 1);
    weir_reply_text(&call->reply, "made");
    weir_reply_bool(&call->reply, made);
}

static struct load_name load_name(const struct call *call)
{
    return (struct load_name){call->args[2], call->args[3]};
}

static void run_load_table(struct call *call)
{
    struct weir_error err = {0};
    struct load_name name = load_name(call);
    answer_done(call, weir_load_table(call->worker->service, &name, call->args[4], &err), &err);
}

static void answer_count(struct call *call, bool done, const struct load_count *count,
                         const struct weir_error *err)
{
    if (!done) {
        weir_call_error(call, "ERR %s", err->text);
        return;
    }
    weir_reply_map(&call->reply, 2);
    weir_reply_text(&call->reply, "keys");
    weir_reply_integer(&call->reply, count->keys);
    weir_reply_text(&call->reply, "full");
    weir_reply_integer(&call->reply, count->full);
}

static void run_load_keys(struct call *call)
{
    struct weir_error err = {0};
    struct load_count count;
    struct load_name name = load_name(call);
    int64_t page;
    if (!weir_call_integer(call, 4, "page", 1, &page))
        return;
    bool done =
        weir_load_keys(call->worker->service, &name, page, call->args + 5, call->count - 5, &count, &err);
    answer_count(call, done, &count, &err);
}

static void run_load_end(struct call *call)
{
    struct weir_error err = {0};
    struct load_count count;
    struct load_name name = load_name(call);
    char shown[72];
    bool done = weir_load_end(call->worker->service, &name, &count, &err);
    if (done)
        LOG_CHANGE(call, "loaded", LOG_TEXT("policy", weir_shown(call->args[2], shown)),
                   LOG_NUMBER("keys", count.keys), LOG_NUMBER("full", count.full));
    answer_count(call, done, &count, &err);
}

/* ---- backup, image ---- */

static bool has_store(struct call *call)
{
    if (call->worker->service->store)
        return true;
    weir_call_error(call, "ERR everything is in memory alone: start weir serve with --data DIR");
    return false;
}

static void run_image(struct call *call)
{
    struct weir_error err = {0};
    if (!has_store(call))
        return;
    answer_done(call, weir_store_image(call->worker->service->store, &err), &err);
}

static void run_backup(struct call *call)
{
    struct weir_error err = {0};
    char name[DISK_NAME_MAX] = "";
    struct slice word = call->args[1];
    int64_t began_ns = clock_now();
    if (!has_store(call))
        return;
    if (word.len == 0 || word.len >= sizeof name || memchr(word.bytes, '\0', word.len)) {
        weir_call_error(call, "ERR the name of a backup has 1 to %d bytes", DISK_NAME_MAX - 1);
        return;
    }
    memcpy(name, word.bytes, word.len);
    if (!weir_store_backup(call->worker->service->store, name, &err)) {
        weir_call_error(call, "ERR %s", err.text);
        return;
    }
    LOG_CHANGE(call, "backup", LOG_TEXT("name", name));
    weir_reply_map(&call->reply, 2);
    weir_reply_text(&call->reply, "path");
    weir_reply_print(&call->reply, "%s/backups/%s", call->worker->service->keeping->path, name);
    weir_reply_text(&call->reply, "ms");
    weir_reply_integer(&call->reply, weir_ms_up(clock_now() - began_ns));
}

/* ---- table ---- */

#define HASH_DOCS                                                                                            \
    {                                                                                                        \
        .name = "hashes", .type = ARG_BLOCK, .token = "HASH", .flags = ARG_OPTIONAL, .parts = hash_parts     \
    }
#define DATA_PART(NAME, SUMMARY, ARITY, FLAGS, RUN)                                                          \
    .name = NAME, .summary = SUMMARY, .group = "weir", .arity = ARITY, .may = MAY_ADMIN,                     \
    .flags = CMD_CHORE | (FLAGS), .run = RUN
#define DATA_HELP(EXAMPLE)                                                                                   \
    {                                                                                                        \
        .name = "help", .summary = "Lists the subcommands", .group = "weir", .arity = 2,                     \
        .run = weir_command_help, .example = EXAMPLE                                                         \
    }

static const struct arg hash_parts[] = {{.name = "from"}, {.name = "to"}, {0}};
static const struct arg name_docs[] = {{.name = "name"}, {0}};
static const struct arg freeze_docs[] = {{.name = "policy"}, {.name = "url"}, HASH_DOCS, {0}};
static const struct arg thaw_docs[] = {{.name = "policy"}, HASH_DOCS, {0}};
static const struct arg policy_docs[] = {{.name = "policy"}, {0}};
static const struct arg keys_docs[] = {{.name = "policy"}, {.name = "prefix"}, HASH_DOCS, {0}};
static const struct arg begin_docs[] = {
    {.name = "policy"},
    {.name = "id"},
    {.name = "noelapsed", .type = ARG_TOKEN, .token = "NOELAPSED", .flags = ARG_OPTIONAL},
    {.name = "line", .flags = ARG_MULTIPLE},
    {0}};
static const struct arg table_docs[] = {{.name = "policy"}, {.name = "id"}, {.name = "line"}, {0}};
static const struct arg page_docs[] = {{.name = "policy"},
                                       {.name = "id"},
                                       {.name = "page", .type = ARG_INTEGER},
                                       {.name = "line", .flags = ARG_MULTIPLE},
                                       {0}};
static const struct arg end_docs[] = {{.name = "policy"}, {.name = "id"}, {0}};

static const struct command dump_parts[] = {
    {DATA_PART("head", "The first lines of a dump", 2, 0, run_dump_head), .example = "WEIR.DUMP HEAD"},
    {DATA_PART("policy", "The lines that say what a policy and its tables are", 3, 0, run_dump_policy),
     .policy_at = 2, .docs = policy_docs, .example = "WEIR.DUMP POLICY api"},
    {DATA_PART("keys", "A page of keys, by name or hash, each with what it has spent", -4, 0, run_dump_keys),
     .policy_at = 2, .docs = keys_docs,
     .example = "WEIR.DUMP KEYS api \"\" HASH 0000000000000000 ffffffffffffffff"},
    DATA_HELP("WEIR.DUMP HELP"),
    {0}};

static const struct command load_parts[] = {
    {DATA_PART("begin", "Begins to bring in keys of a dump; makes the policy if there is none", -6, CMD_WRITE,
               run_load_begin),
     .policy_at = 2, .docs = begin_docs,
     .example = "WEIR.LOAD BEGIN api 5f3a 'policy \"api\"' 'limits \"100/s burst=200\"'"},
    {DATA_PART("table", "The table whose keys follow, as a dump says it", 5, CMD_WRITE, run_load_table),
     .policy_at = 2, .docs = table_docs},
    {DATA_PART("keys", "A page of keys; the last one may be said again and is not counted again", -6,
               CMD_WRITE, run_load_keys),
     .policy_at = 2, .docs = page_docs},
    {DATA_PART("end", "Ends it; a policy that was made can be used from now on", 4, CMD_WRITE, run_load_end),
     .policy_at = 2, .docs = end_docs},
    DATA_HELP("WEIR.LOAD HELP"),
    {0}};

const struct command weir_commands_data[] = {
    {DATA_PART("weir.backup", "Copies the data directory as it is now, to backups/ in it", 2, 0, run_backup),
     .docs = name_docs},
    {DATA_PART("weir.image", "Writes an image of everything now, so that the log before it can go", 1, 0,
               run_image)},
    {.name = "weir.dump",
     .summary = "Policies and their keys as text, a page at a time",
     .group = "weir",
     .arity = -2,
     .commands = dump_parts},
    {.name = "weir.load",
     .summary = "Brings keys of a dump in, a page at a time",
     .group = "weir",
     .arity = -2,
     .commands = load_parts},
    {DATA_PART("weir.freeze", "Keys of a policy are not decided here any more: who asks is sent elsewhere",
               -3, CMD_WRITE, run_freeze),
     .policy_at = 1, .docs = freeze_docs,
     .example = "WEIR.FREEZE api redis://10.0.0.2:9049 HASH 8000000000000000 ffffffffffffffff"},
    {DATA_PART("weir.thaw", "Keys that were frozen are decided here again", -2, CMD_WRITE, run_thaw),
     .policy_at = 1, .docs = thaw_docs, .example = "WEIR.THAW api HASH 8000000000000000 ffffffffffffffff"},
    {0}};
