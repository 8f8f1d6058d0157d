/* SPDX-License-Identifier: MIT */
/*
 * WEIR.KEYS: the keys of a policy that are not as if never used, a page at a time, by the job thread.
 *
 * Law: a key that is busy all the while is met once. Tables are walked in the order of their serial numbers,
 * which last, and each by its hashes (table/persist/export.h); a cursor says both. So it means the same
 * whatever comes, goes or is changed between two pages, and also after a restart with a data directory.
 *
 * A table keeps hashes. Names are known of keys with limits of their own and of those that WEIR.TOP would
 * tell; of all others the id is told, and users who may see some keys only are not told of those.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "service/commands/call.h"
#include "table/persist/export.h"

#define KEYS_COUNT 100 /* of a page, unless told */
#define KEYS_MOST  1000
#define KEYS_TOP   128   /* names of heavy hitters, of each kind */
#define KEYS_SLOTS 65536 /* that a page looks at, about */

/* ---- names ---- */

struct known_name {
    uint64_t hash;
    struct slice name;
};

struct known_names {
    struct known_name *list;
    size_t count;
    struct weir_top_key top[2 * KEYS_TOP];
};

static int compare_known_names(const void *left, const void *right)
{
    const struct known_name *a = left, *b = right;
    return (a->hash > b->hash) - (a->hash < b->hash);
}

/* A name that was cut is none. */
static void add_top_names(struct known_names *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct weir_top_key *key = &names->top[i];
        if (key->len < sizeof key->name)
            names->list[names->count++] = (struct known_name){key->id, {key->name, key->len}};
    }
}

/* false: out of memory. */
static bool read_known_names(struct known_names *names, const struct policy *policy, struct weir_table *table,
                             int64_t now_ns)
{
    names->count = 0;
    names->list = malloc((policy->key_count + 2 * KEYS_TOP) * sizeof *names->list);
    if (!names->list)
        return false;
    size_t count = weir_table_top_at(table, now_ns, WEIR_TOP_TAKEN, names->top, KEYS_TOP);
    count += weir_table_top_at(table, now_ns, WEIR_TOP_REFUSED, names->top + count, KEYS_TOP);
    add_top_names(names, count);
    for (size_t i = 0; i < policy->key_count; i++) {
        const struct policy_override *own = &policy->keys[i];
        names->list[names->count++] =
            (struct known_name){table_hash(table, own->key, own->len), {own->key, own->len}};
    }
    ASSERT(names->count <= policy->key_count + 2 * KEYS_TOP);
    qsort(names->list, names->count, sizeof *names->list, compare_known_names);
    return true;
}

static struct slice find_known_name(const struct known_names *names, uint64_t hash)
{
    struct known_name wanted = {.hash = hash};
    const struct known_name *found =
        bsearch(&wanted, names->list, names->count, sizeof *names->list, compare_known_names);
    return found ? found->name : (struct slice){0};
}

/* ---- a page ---- */

struct key_row {
    uint64_t hash;
    struct slice name; /* bytes NULL: not known */
    int64_t used, remaining, reset_after_ns;
};

struct keys_page {
    const struct call *call;
    const struct known_names *names;
    struct buffer rows; /* of struct key_row */
};

/* Of several limits the one of which the least is left. */
static bool add_key_row(void *arg, const struct export_key *key)
{
    struct keys_page *page = arg;
    struct key_row row = {.hash = key->hash,
                          .name = find_known_name(page->names, key->hash),
                          .remaining = INT64_MAX,
                          .reset_after_ns = key->reset_after_ns};
    const struct user *user = page->call->user;
    if (row.name.bytes ? !weir_user_may_key(user, row.name) : user->prefix_count > 0)
        return true;
    for (size_t i = 0; i < key->limits; i++) {
        int64_t left = max64(sat_sub(key->most[i], key->spent[i]), 0);
        if (left < row.remaining || i == 0) {
            row.remaining = left;
            row.used = key->spent[i];
        }
    }
    buffer_put(&page->rows, (const char *)&row, sizeof row);
    return !page->rows.failed;
}

static void put_key_row(struct reply *reply, const struct key_row *row)
{
    char id[17];
    (void)snprintf(id, sizeof id, "%016" PRIx64, row->hash);
    weir_reply_map(reply, 5);
    weir_reply_text(reply, "key");
    if (row->name.bytes)
        weir_reply_bulk(reply, row->name.bytes, row->name.len);
    else
        weir_reply_null(reply);
    weir_reply_text_field(reply, "id", id);
    weir_reply_field(reply, "used", row->used);
    weir_reply_field(reply, "remaining", row->remaining);
    weir_reply_field(reply, "reset_after_ms", ms_up(row->reset_after_ns));
}

/* ---- cursors ---- */

struct keys_cursor {
    uint64_t serial; /* of the table; 0: the first one */
    uint64_t from;   /* hash */
};

/* "0", or serial and hash in hexadecimal digits: 1f-00a3000000000000. */
static bool read_keys_cursor(struct call *call, size_t at, struct keys_cursor *cursor)
{
    char text[40], same[40], shown[72];
    struct slice word = at < call->count ? call->args[at] : (struct slice){"", 0};
    *cursor = (struct keys_cursor){0, 1};
    if (slice_is(word, "0"))
        return true;
    if (word.len > 0 && word.len < sizeof text) {
        memcpy(text, word.bytes, word.len);
        text[word.len] = '\0';
        if (sscanf(text, "%16" SCNx64 "-%16" SCNx64, &cursor->serial, &cursor->from) == 2 &&
            cursor->from > 0) {
            (void)snprintf(same, sizeof same, "%" PRIx64 "-%016" PRIx64, cursor->serial, cursor->from);
            if (strcmp(same, text) == 0) /* written exactly so */
                return true;
        }
    }
    weir_call_error(call, "ERR no cursor '%s': it is 0 at first, then what the last answer had",
                    weir_shown(word, shown));
    return false;
}

/* The table with the lowest serial from this one on; NULL: there is none. */
static const struct policy_table *next_keys_table(const struct policy *policy, uint64_t serial)
{
    const struct policy_table *next = policy->main->serial >= serial ? policy->main : NULL;
    for (size_t i = 0; i < policy->prefix_count; i++) {
        const struct policy_table *ptable = policy->prefixes[i].ptable;
        if (ptable->serial >= serial && (!next || ptable->serial < next->serial))
            next = ptable;
    }
    return next;
}

/* ---- the command ---- */

static void answer_keys(struct call *call, const struct keys_cursor *next, struct buffer *rows)
{
    size_t count = buffer_len(rows) / sizeof(struct key_row);
    weir_reply_map(&call->reply, 2);
    weir_reply_text(&call->reply, "cursor");
    if (next->serial != 0)
        weir_reply_print(&call->reply, "%" PRIx64 "-%016" PRIx64, next->serial, next->from);
    else
        weir_reply_text(&call->reply, "0");
    weir_reply_text(&call->reply, "keys");
    weir_reply_array(&call->reply, count);
    for (size_t i = 0; i < count; i++) {
        struct key_row row;
        memcpy(&row, buffer_bytes(rows) + i * sizeof row, sizeof row);
        put_key_row(&call->reply, &row);
    }
}

/* Until there are enough, or so many slots were looked at: others wait for the job thread, too. */
static bool read_keys_page(struct keys_page *page, struct weir_table *table, struct export_range *range,
                           size_t most)
{
    bool good = true;
    for (size_t looked = 0; good && range->from != 0 && looked < KEYS_SLOTS; looked += most) {
        if (buffer_len(&page->rows) >= most * sizeof(struct key_row))
            break;
        good = weir_table_export(table, page->call->worker->now_ns, range, most, NULL, add_key_row, page);
    }
    return good;
}

/* A page is of one table. */
static void list_keys_of(struct call *call, const struct policy_table *ptable, struct keys_cursor cursor,
                         size_t most)
{
    const struct policy *policy = call->request->pairs[0].policy;
    struct known_names names;
    struct keys_page page = {.call = call, .names = &names};
    struct export_range range = {cursor.from, UINT64_MAX};
    bool good = read_known_names(&names, policy, ptable->table, call->worker->now_ns) &&
                read_keys_page(&page, ptable->table, &range, most);
    struct keys_cursor next = {ptable->serial, range.from};
    if (range.from == 0) {
        const struct policy_table *other = next_keys_table(policy, ptable->serial + 1);
        next = (struct keys_cursor){other ? other->serial : 0, 1};
    }
    if (good)
        answer_keys(call, &next, &page.rows);
    else
        weir_call_error(call, "ERR out of memory");
    weir_buffer_free(&page.rows);
    free(names.list);
}

/* WEIR.KEYS policy [CURSOR c] [COUNT n] */
static void run_keys(struct call *call)
{
    struct keys_cursor cursor = {0, 1};
    int64_t count = KEYS_COUNT;
    size_t at = 2;
    if (weir_call_word(call, at, "cursor")) {
        if (!read_keys_cursor(call, at + 1, &cursor))
            return;
        at += 2;
    }
    if (weir_call_word(call, at, "count")) {
        if (!weir_call_integer(call, at + 1, "COUNT", 1, &count))
            return;
        at += 2;
    }
    if (at < call->count) {
        weir_call_syntax(call, at);
        return;
    }
    const struct policy_table *ptable = next_keys_table(call->request->pairs[0].policy, cursor.serial);
    if (!ptable) {
        answer_keys(call, &(struct keys_cursor){0, 0}, &(struct buffer){0});
        return;
    }
    if (ptable->serial != cursor.serial)
        cursor.from = 1;
    list_keys_of(call, ptable, cursor, (size_t)min64(count, KEYS_MOST));
}

static const struct arg keys_docs[] = {
    {.name = "policy", .type = ARG_STRING},
    {.name = "cursor", .type = ARG_STRING, .token = "CURSOR", .flags = ARG_OPTIONAL},
    {.name = "n", .type = ARG_INTEGER, .token = "COUNT", .flags = ARG_OPTIONAL},
    {0},
};

const struct command weir_commands_keys[] = {
    {COMMAND("weir.keys", "Lists the keys of a policy that have spent something, a page at a time", "weir",
             -2, ENGINE_LOOK_POLICY, run_keys),
     .flags = CMD_JOB, .policy_at = 1, .docs = keys_docs, .example = "WEIR.KEYS api CURSOR 0 COUNT 100"},
    {0},
};
