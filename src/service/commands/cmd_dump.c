/* SPDX-License-Identifier: MIT */
/*
 * WEIR.DUMP and WEIR.LOAD: by the job thread, a page at a time.
 */
#include <inttypes.h>
#include <string.h>

#include "service/commands/cmd_data.h"
#include "service/transfer/dump.h"
#include "service/transfer/dump_clients.h"
#include "service/transfer/load.h"

#define PAGE_KEYS  1000
#define PAGE_BYTES (4 << 20)

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
    const struct policy *policy = call->request->pairs[0].policy;
    struct buffer text = {.most = PAGE_BYTES};
    struct slice prefix;
    struct policy_table *ptable;
    weir_dump_definition(policy, &text);
    if (policy_previous_ends(policy) > call->worker->now_ns)
        weir_buffer_print(&text, "# limits of before a change are still asked as well; they are not here\n");
    for (size_t i = 0; (ptable = weir_dump_table(policy, i, &prefix)) != NULL; i++)
        weir_dump_table_line(call->worker->service, ptable, prefix, call->worker->now_ns, &text);
    (void)reply_lines(call, &text);
    weir_buffer_free(&text);
}

static struct policy_table *find_table(struct call *call, const struct policy *policy, struct slice prefix)
{
    struct slice has;
    struct policy_table *ptable;
    char shown[72];
    for (size_t i = 0; (ptable = weir_dump_table(policy, i, &has)) != NULL; i++)
        if (has.len == prefix.len && memcmp(has.bytes, prefix.bytes, prefix.len) == 0)
            return ptable;
    weir_call_error(
        call,
        "ERR policy '%s' has no limits for the prefix '%s'; keys are known by hashes here, so only "
        "those of a prefix with limits of its own are known by it",
        policy->name, weir_shown(prefix, shown));
    return NULL;
}

/* Where the rest begins, if there is any. */
static void reply_page(struct call *call, const struct policy_table *ptable, const struct export_range *rest,
                       struct buffer *text)
{
    weir_reply_map(&call->reply, 3);
    weir_reply_text(&call->reply, "next");
    if (rest && rest->from != 0 && rest->from <= rest->to)
        weir_reply_print(&call->reply, "%016" PRIx64, rest->from);
    else
        weir_reply_text(&call->reply, "");
    weir_reply_text(&call->reply, "table");
    weir_reply_integer(&call->reply, (int64_t)ptable->serial);
    weir_reply_text(&call->reply, "lines");
    (void)reply_lines(call, text);
}

static void run_dump_keys(struct call *call)
{
    struct export_range range;
    struct policy_table *ptable = find_table(call, call->request->pairs[0].policy, call->args[3]);
    struct buffer text = {.most = PAGE_BYTES};
    uint64_t keys = 0;
    if (!ptable || !weir_data_range(call, 4, &range))
        return;
    if (weir_dump_keys(ptable, call->worker->now_ns, &range, PAGE_KEYS, &text, &keys))
        reply_page(call, ptable, &range, &text);
    else
        weir_call_error(call, "ERR out of memory");
    weir_buffer_free(&text);
}

static void run_dump_shared(struct call *call)
{
    struct export_range range;
    struct policy_table *ptable = find_table(call, call->request->pairs[0].policy, call->args[3]);
    struct buffer text = {.most = PAGE_BYTES};
    if (!ptable || !weir_data_range(call, 4, &range))
        return;
    if (weir_dump_shared(ptable, call->worker->now_ns, &range, &text))
        reply_page(call, ptable, NULL, &text);
    else
        weir_call_error(call, "ERR out of memory");
    weir_buffer_free(&text);
}

static void run_dump_clients(struct call *call)
{
    struct buffer text = {.most = PAGE_BYTES};
    weir_dump_clients(call->worker->service, call->worker->now_ns, &text);
    (void)reply_lines(call, &text);
    weir_buffer_free(&text);
}

static void run_dump_cells(struct call *call)
{
    struct service *service = call->worker->service;
    struct export_range range;
    struct buffer text = {.most = PAGE_BYTES};
    if (!weir_data_range(call, 2, &range))
        return;
    if (weir_dump_cells(service, call->worker->now_ns, &range, PAGE_KEYS, &text))
        reply_page(call, service->client_keys, &range, &text);
    else
        weir_call_error(call, "ERR out of memory");
    weir_buffer_free(&text);
}

/* In the order of their places, which are told as hashes are. */
static void run_dump_buckets(struct call *call)
{
    struct service *service = call->worker->service;
    struct export_range rest;
    struct buffer text = {.most = PAGE_BYTES};
    if (!weir_data_range(call, 2, &rest))
        return;
    if (weir_dump_buckets(service, call->worker->now_ns, &rest.from, PAGE_KEYS, &text))
        reply_page(call, service->client_keys, &rest, &text);
    else
        weir_call_error(call, "ERR out of memory");
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

static void run_load_clients(struct call *call)
{
    struct weir_error err = {0};
    bool no_elapsed = call->count > 4 && weir_call_word(call, 3, "noelapsed");
    if (call->count > 5 || (call->count == 5 && !no_elapsed)) {
        weir_call_syntax(call, 3);
        return;
    }
    weir_data_answer(call,
                     weir_load_clients(call->worker->service, call->args[2], no_elapsed,
                                       call->args[call->count - 1], &err),
                     &err);
}

static struct load_name load_name(const struct call *call)
{
    return (struct load_name){call->args[2], call->args[3]};
}

static void run_load_table(struct call *call)
{
    struct weir_error err = {0};
    struct load_name name = load_name(call);
    weir_data_answer(call, weir_load_table(call->worker->service, &name, call->args[4], &err), &err);
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

/* ---- tables ---- */

static const struct arg hash_parts[] = {{.name = "from"}, {.name = "to"}, {0}};
static const struct arg policy_docs[] = {{.name = "policy"}, {0}};
static const struct arg keys_docs[] = {{.name = "policy"}, {.name = "prefix"}, HASH_DOCS, {0}};
static const struct arg begin_docs[] = {
    {.name = "policy"},
    {.name = "id"},
    {.name = "noelapsed", .type = ARG_TOKEN, .token = "NOELAPSED", .flags = ARG_OPTIONAL},
    {.name = "line", .flags = ARG_MULTIPLE},
    {0}};
static const struct arg cells_docs[] = {HASH_DOCS, {0}};
static const struct arg clients_docs[] = {
    {.name = "id"},
    {.name = "noelapsed", .type = ARG_TOKEN, .token = "NOELAPSED", .flags = ARG_OPTIONAL},
    {.name = "line"},
    {0}};
static const struct arg table_docs[] = {{.name = "policy"}, {.name = "id"}, {.name = "line"}, {0}};
static const struct arg page_docs[] = {{.name = "policy"},
                                       {.name = "id"},
                                       {.name = "page", .type = ARG_INTEGER},
                                       {.name = "line", .flags = ARG_MULTIPLE},
                                       {0}};
static const struct arg end_docs[] = {{.name = "policy"}, {.name = "id"}, {0}};

const struct command weir_dump_parts[] = {
    {DATA_PART("head", "The first lines of a dump", 2, ENGINE_ADMIN, run_dump_head),
     .example = "WEIR.DUMP HEAD"},
    {DATA_PART("policy", "The lines that say what a policy and its tables are", 3, ENGINE_DUMP_POLICY,
               run_dump_policy),
     .policy_at = 2, .docs = policy_docs, .example = "WEIR.DUMP POLICY api"},
    {DATA_PART("keys", "A page of keys, by name or hash, each with what it has spent", -4, ENGINE_DUMP_POLICY,
               run_dump_keys),
     .policy_at = 2, .docs = keys_docs,
     .example = "WEIR.DUMP KEYS api \"\" HASH 0000000000000000 ffffffffffffffff"},
    {DATA_PART("shared", "What keys that found no room share, and have spent; before the keys", -4,
               ENGINE_DUMP_POLICY, run_dump_shared),
     .policy_at = 2, .docs = keys_docs, .example = "WEIR.DUMP SHARED api \"\""},
    {DATA_PART("clients", "The lines before keys whose limits come with each call", 2, ENGINE_ADMIN_SERVER,
               run_dump_clients),
     .example = "WEIR.DUMP CLIENTS"},
    {DATA_PART("cells", "A page of keys of CL.THROTTLE, THROTTLE and GCRA", -2, ENGINE_ADMIN_SERVER,
               run_dump_cells),
     .docs = cells_docs, .example = "WEIR.DUMP CELLS"},
    {DATA_PART("buckets", "A page of keys of RL.*", -2, ENGINE_ADMIN_SERVER, run_dump_buckets),
     .docs = cells_docs, .example = "WEIR.DUMP BUCKETS"},
    COMMAND_HELP("weir", "WEIR.DUMP HELP"),
    {0}};

const struct command weir_load_parts[] = {
    {DATA_PART("begin", "Begins to bring in keys of a dump; makes the policy if there is none", -6,
               ENGINE_CHANGE_POLICY, run_load_begin),
     .policy_at = 2, .docs = begin_docs,
     .example = "WEIR.LOAD BEGIN api 5f3a 'policy \"api\"' 'limits \"100/s burst=200\"'"},
    {DATA_PART("table", "The table whose keys follow, as a dump says it", 5, ENGINE_CHANGE_POLICY,
               run_load_table),
     .policy_at = 2, .docs = table_docs},
    {DATA_PART("keys", "A page of keys; the last one may be said again and is not counted again", -6,
               ENGINE_CHANGE_POLICY, run_load_keys),
     .policy_at = 2, .docs = page_docs},
    {DATA_PART("clients", "Keys whose limits come with each call follow: of the policy *", -4,
               ENGINE_CHANGE_SERVER, run_load_clients),
     .docs = clients_docs},
    {DATA_PART("end", "Ends it; a policy that was made can be used from now on", 4, ENGINE_CHANGE_POLICY,
               run_load_end),
     .policy_at = 2, .docs = end_docs},
    COMMAND_HELP("weir", "WEIR.LOAD HELP"),
    {0}};
