/* SPDX-License-Identifier: MIT */
#include "service/transfer/dump.h"

#include <errno.h>
#include <inttypes.h>

#include "base/crc.h"
#include "base/error.h"
#include "base/humanize.h"
#include "config/read_policy.h"
#include "config/timestamp.h"
#include "service/engine/decide.h"
#include "service/transfer/dump_text.h"
#include "table/table.h"

#define PAGE_KEYS 1000

/* ---- what a policy is ---- */

void weir_dump_head(const struct service *service, int64_t now_ns, struct buffer *out)
{
    char moment[TIMESTAMP_MAX];
    int64_t ms = service_wall_ms(service, now_ns);
    weir_timestamp_write(ms, moment);
    weir_buffer_print(out,
                      "weir-dump " DUMP_VERSION "\nserver weir %s %s\ntime %s %" PRId64 "\n"
                      "# not here: request ids, reservations (weir backup)\n",
                      weir_version(), service->run_id, moment, ms);
}

static void put_quoted_text(struct buffer *out, const char *text)
{
    weir_dump_quote(out, text ? text : "", text ? strlen(text) : 0);
}

static void put_dump_override(struct buffer *out, const struct policy_override *override)
{
    char name[KEY_MAX + 1];
    size_t len = override->len < sizeof name - 1 ? override->len : sizeof name - 1;
    memcpy(name, override->key, len);
    if (override->ptable)
        name[len++] = '*';
    weir_buffer_print(out, "override ");
    weir_dump_quote(out, name, len);
    weir_buffer_print(out, " ");
    put_quoted_text(out, override->limits);
    weir_buffer_print(out, " %" PRId64 " ", override->until_ms);
    put_quoted_text(out, override->reason);
    weir_buffer_print(out, "\n");
}

void weir_dump_definition(const struct policy *policy, struct buffer *out)
{
    weir_buffer_print(out, "policy ");
    put_quoted_text(out, policy->name);
    weir_buffer_print(out, "\nlimits ");
    put_quoted_text(out, policy->limits);
    bool ends = policy->mode_until_ms != 0; /* what it leads back to is what lasts */
    const struct config_key *setting;
    weir_buffer_print(out, "\nsettings mode=%s percent=%d",
                      weir_mode_name(ends ? policy->mode_after : policy->mode),
                      ends ? policy->percent_after : policy->percent);
    for (size_t i = 0; (setting = weir_setting_at(i)); i++) {
        const char *word = weir_setting_word(setting, &policy->settings);
        weir_buffer_print(out, " %s=", setting->dumped);
        if (word)
            weir_buffer_print(out, "%s", word);
        else
            weir_buffer_print(out, "%" PRId64, *key_number(setting, &policy->settings));
    }
    weir_buffer_print(out, "%s\n",
                      policy->pools                        ? " fleet=1"
                      : policy->address || policy->is_tier ? " address=1"
                                                           : "");
    for (size_t i = 0; i < policy->key_count; i++)
        put_dump_override(out, &policy->keys[i]);
    for (size_t i = 0; i < policy->prefix_count; i++)
        put_dump_override(out, &policy->prefixes[i]);
}

/* ---- tables ---- */

struct policy_table *weir_dump_table(const struct policy *policy, size_t number, struct slice *prefix)
{
    *prefix = (struct slice){"", 0};
    if (number == 0)
        return policy->main;
    if (number > policy->prefix_count)
        return NULL;
    *prefix = (struct slice){policy->prefixes[number - 1].key, policy->prefixes[number - 1].len};
    return policy->prefixes[number - 1].ptable;
}

void weir_dump_table_line(const struct service *service, const struct policy_table *ptable,
                          struct slice prefix, int64_t now_ns, struct buffer *out)
{
    struct weir_table *table = ptable->table;
    const struct region_header *header = table->region->header;
    char text[TABLE_TEXT_MAX];
    (void)weir_table_text(table, text, sizeof text);
    weir_buffer_print(out, "table ");
    weir_dump_quote(out, prefix.bytes, prefix.len);
    weir_buffer_print(out, " %s #", table->kind == &weir_table_wide ? "wide" : "words");
    weir_dump_hex(out, header->key.low);
    weir_dump_hex(out, header->key.high);
    weir_buffer_print(out, " %" PRId64 " %" PRId64 " %" PRIu64 " ", region_time(table->region, now_ns),
                      service_wall_ms(service, now_ns), atom_load(&header->capacity, memory_order_relaxed));
    weir_dump_quote(out, text, strlen(text));
    weir_buffer_print(out, "\n");
}

struct dump_lines {
    struct buffer *out;
    uint64_t keys;
};

static void put_numbers(struct buffer *out, const int64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        weir_buffer_print(out, " %" PRId64, numbers[i]);
}

static void put_key_name(struct buffer *out, const struct export_key *key)
{
    if (key->name) {
        weir_dump_quote(out, key->name, key->len);
    } else {
        buffer_put(out, "#", 1);
        weir_dump_hex(out, key->hash);
    }
}

/* "# used 37 of 200, 40 of 10000; full in 4.2 s" */
static void put_remark(struct buffer *out, const struct export_key *key)
{
    char text[HUMANIZE_MAX];
    weir_buffer_print(out, " # used");
    for (size_t i = 0; i < key->limits; i++)
        weir_buffer_print(out, "%s %" PRId64 " of %" PRId64, i > 0 ? "," : "", key->spent[i], key->most[i]);
    if (key->reset_after_ns == WEIR_FOREVER)
        weir_buffer_print(out, "; never full again\n");
    else
        weir_buffer_print(out, "; full in %s\n",
                          weir_humanize_duration(key->reset_after_ns, HUMANIZE_UP, text));
}

static bool put_dump_key(void *arg, const struct export_key *key)
{
    struct dump_lines *lines = arg;
    struct buffer *out = lines->out;
    size_t before = buffer_len(out);
    weir_buffer_print(out, key->count > 0 ? "key " : "spent ");
    put_key_name(out, key);
    if (key->count > 0)
        put_numbers(out, key->words, key->count);
    else
        put_numbers(out, key->spent, key->limits);
    if (buffer_len(out) - before > DUMP_LINE_MAX - 1000) { /* so that it can be loaded */
        out->end = out->start + before;
        weir_buffer_print(out, "spent ");
        put_key_name(out, key);
        put_numbers(out, key->spent, key->limits);
    }
    put_remark(out, key);
    lines->keys++;
    return !out->failed;
}

static void put_hashes(struct buffer *out, const char *kind, const struct export_range *of)
{
    weir_buffer_print(out, "%s #", kind);
    weir_dump_hex(out, of->from);
    buffer_put(out, " #", 2);
    weir_dump_hex(out, of->to);
}

static bool put_shared(void *arg, const struct export_shared *shared)
{
    struct buffer *out = arg;
    size_t before = buffer_len(out);
    if (shared->key.count > 0) {
        put_hashes(out, "shared", &shared->of);
        put_numbers(out, shared->key.words, shared->key.count);
    }
    if (shared->key.count == 0 || buffer_len(out) - before > DUMP_LINE_MAX - 1000) {
        out->end = out->start + before;
        put_hashes(out, "shared-spent", &shared->of);
        put_numbers(out, shared->key.spent, shared->key.limits);
    }
    put_remark(out, &shared->key);
    return !out->failed;
}

bool weir_dump_shared(const struct policy_table *ptable, int64_t now_ns, const struct export_range *range,
                      struct buffer *out)
{
    return weir_table_export_shared(ptable->table, now_ns, range, put_shared, out);
}

bool weir_dump_keys(const struct policy_table *ptable, int64_t now_ns, struct export_range *range,
                    size_t most, struct buffer *out, uint64_t *keys)
{
    struct dump_lines lines = {out, 0};
    bool done = weir_table_export(ptable->table, now_ns, range, most, NULL, put_dump_key, &lines);
    *keys += lines.keys;
    return done;
}

/* ---- all of it ---- */

struct dump_writer {
    bool (*write)(void *arg, const char *bytes, size_t len);
    void *arg;
    struct buffer out;
    uint64_t keys;
    uint32_t crc;
};

static bool flush_dump(struct dump_writer *writing)
{
    size_t len = buffer_len(&writing->out);
    if (writing->out.failed)
        return false;
    if (len == 0)
        return true;
    writing->crc = weir_crc32c(writing->crc, buffer_bytes(&writing->out), len);
    bool done = writing->write(writing->arg, buffer_bytes(&writing->out), len);
    weir_buffer_drop(&writing->out, len, 1 << 20);
    return done;
}

static bool write_tables(struct dump_writer *writing, struct service *service, const struct policy *policy)
{
    struct slice prefix;
    struct policy_table *ptable;
    int64_t now_ns = weir_now();
    for (size_t i = 0; (ptable = weir_dump_table(policy, i, &prefix)) != NULL; i++) {
        struct export_range all = {1, UINT64_MAX}, range = all;
        weir_dump_table_line(service, ptable, prefix, now_ns, &writing->out);
        if (!weir_dump_shared(ptable, now_ns, &all, &writing->out))
            return false;
        while (range.from != 0)
            if (!weir_dump_keys(ptable, now_ns, &range, PAGE_KEYS, &writing->out, &writing->keys) ||
                !flush_dump(writing))
                return false;
    }
    return true;
}

bool weir_dump_policy(struct service *service, const struct policy *policy,
                      bool (*write)(void *arg, const char *bytes, size_t len), void *arg,
                      struct weir_error *err)
{
    struct dump_writer writing = {.write = write, .arg = arg};
    weir_dump_head(service, weir_now(), &writing.out);
    weir_dump_definition(policy, &writing.out);
    bool done = write_tables(&writing, service, policy) && flush_dump(&writing);
    if (done)
        weir_dump_end(&writing.out, writing.keys, writing.crc);
    done = done && flush_dump(&writing);
    weir_buffer_free(&writing.out);
    if (!done)
        weir_error_set(err, EIO, "the keys could not be written as text: no memory, or no room");
    return done;
}
