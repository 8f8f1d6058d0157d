/* SPDX-License-Identifier: MIT */
/*
 * What operators do with what is stored: WEIR.BACKUP, IMAGE, FREEZE, THAW, and the rows of WEIR.DUMP and LOAD
 * (cmd_dump.c). All of it by the job thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sat.h"
#include "ledger/persist.h"
#include "os/clock.h"
#include "service/commands/cmd_data.h"
#include "service/persist/persist.h"
#include "service/policies/freeze.h"
#include "service/transfer/dump_text.h"
#include "store/backup.h"
#include "store/checkpoint.h"
#include "table/verbs.h"

void weir_data_answer(struct call *call, bool done, const struct weir_error *err)
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

bool weir_data_range(struct call *call, size_t at, struct export_range *range)
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
    if (!weir_data_range(call, 3, &range))
        return;
    if (call->args[2].len == 0) {
        weir_call_error(call, "ERR name the server that has, or will have, these keys: redis://host:port");
        return;
    }
    bool done = weir_change_freeze(call->worker->service, call->args[1], range, call->args[2], &err);
    if (done)
        log_range(call, "frozen", range, call->args[2]);
    weir_data_answer(call, done, &err);
}

static void run_thaw(struct call *call)
{
    struct export_range range;
    struct weir_error err = {0};
    if (!weir_data_range(call, 2, &range))
        return;
    bool done = weir_change_thaw(call->worker->service, call->args[1], range, call->count == 2, &err);
    if (done)
        log_range(call, "thawed", range, (struct slice){"", 0});
    weir_data_answer(call, done, &err);
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
    weir_data_answer(call, weir_store_image(call->worker->service->store, &err), &err);
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
        weir_call_error(call, "ERR the name of a backup has 1 to %d bytes", STORE_BACKUP_NAME);
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
    weir_reply_print(&call->reply, "%s/backups/%s", call->worker->service->persistence->path, name);
    weir_reply_text(&call->reply, "ms");
    weir_reply_integer(&call->reply, ms_up(clock_now() - began_ns));
}

/* ---- keys whose limits came with the call ---- */

/* In memory at once. On the disk they are gone with the next image: so that is made before the answer. */
static bool flush_all_keys(struct service *service, int64_t *keys, struct weir_error *err)
{
    *keys = sat_add(weir_table_reset_all(service->client_keys->table, weir_now()),
                    weir_records_clear(service->smyte));
    return !service->store || weir_store_image(service->store, err);
}

static void run_flush(struct call *call)
{
    struct weir_error err = {0};
    int64_t keys;
    bool recorded = flush_all_keys(call->worker->service, &keys, &err);
    LOG_CHANGE(call, "client-keys-flushed", LOG_NUMBER("keys", keys));
    if (recorded)
        weir_reply_integer(&call->reply, keys);
    else
        weir_call_error(call, "ERR the keys are gone from memory, and may be back after a crash: %s",
                        err.text);
}

/* ---- table ---- */

static const struct arg hash_parts[] = {{.name = "from"}, {.name = "to"}, {0}};
static const struct arg name_docs[] = {{.name = "name"}, {0}};
static const struct arg freeze_docs[] = {{.name = "policy"}, {.name = "url"}, HASH_DOCS, {0}};
static const struct arg thaw_docs[] = {{.name = "policy"}, HASH_DOCS, {0}};

const struct command weir_commands_data[] = {
    {DATA_PART("weir.backup", "Copies the data directory as it is now, to backups/ in it", 2,
               ENGINE_ADMIN_SERVER, run_backup),
     .docs = name_docs},
    {DATA_PART("weir.image", "Writes an image of everything now, so that the log before it can go", 1,
               ENGINE_ADMIN_SERVER, run_image)},
    {DATA_PART("weir.flush",
               "Forgets all keys whose limits came with the call (CL.THROTTLE, GCRA, THROTTLE, RL.*)", 1,
               ENGINE_CHANGE_SERVER, run_flush),
     .example = "WEIR.FLUSH"},
    {COMMAND("weir.dump", "Policies and their keys as text, a page at a time", "weir", -2, ENGINE_CONNECT,
             NULL),
     .commands = weir_dump_parts},
    {COMMAND("weir.load", "Brings keys of a dump in, a page at a time", "weir", -2, ENGINE_CONNECT, NULL),
     .commands = weir_load_parts},
    {DATA_PART("weir.freeze", "Keys of a policy are not decided here any more: who asks is sent elsewhere",
               -3, ENGINE_CHANGE_POLICY, run_freeze),
     .policy_at = 1, .docs = freeze_docs,
     .example = "WEIR.FREEZE api redis://10.0.0.2:9049 HASH 8000000000000000 ffffffffffffffff"},
    {DATA_PART("weir.thaw", "Keys that were frozen are decided here again", -2, ENGINE_CHANGE_POLICY,
               run_thaw),
     .policy_at = 1, .docs = thaw_docs, .example = "WEIR.THAW api HASH 8000000000000000 ffffffffffffffff"},
    {0}};
