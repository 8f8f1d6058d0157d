/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "config/read_policy.h"
#include "core/idle.h"
#include "ledger/persist.h"
#include "service/persist/catalogue.h"
#include "service/persist/persist.h"
#include "service/policies/edit.h"
#include "table/persist/persist.h"

static void put_word64(struct buffer *out, uint64_t number)
{
    char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(number >> (8 * i) & 0xFF);
    buffer_put(out, bytes, sizeof bytes);
}

static void put_sized_bytes(struct buffer *out, const char *bytes, size_t len)
{
    put_word64(out, len);
    buffer_put(out, bytes, len);
}

/* NULL: none. */
static void put_sized_text(struct buffer *out, const char *text)
{
    put_word64(out, text != NULL);
    if (text)
        put_sized_bytes(out, text, strlen(text));
}

/* A block whose length is known when it is there: begin gives the place of it. */
static size_t block_begin(struct buffer *out)
{
    put_word64(out, 0);
    return buffer_len(out);
}

static void block_end(struct buffer *out, size_t began)
{
    if (out->failed)
        return;
    uint64_t len = buffer_len(out) - began;
    unsigned char *at = (unsigned char *)buffer_bytes(out) + began - 8;
    for (size_t i = 0; i < 8; i++)
        at[i] = (unsigned char)(len >> (8 * i) & 0xFF);
}

/* A time of weir_now as store time. */
static void put_store_time(struct buffer *out, const struct service *service, int64_t time_ns)
{
    bool plain = time_ns == 0 || time_ns == WEIR_FOREVER;
    put_word64(out,
               (uint64_t)(plain ? time_ns : max64(sat_add(time_ns, weir_store_offset(service->store)), 1)));
}

/* ---- parts ---- */

static void put_records(struct buffer *out, const struct records *records)
{
    size_t began = block_begin(out);
    weir_records_describe(records, out);
    block_end(out, began);
}

static void put_policy_table(struct buffer *out, const struct service *service,
                             const struct policy_table *ptable)
{
    size_t began = block_begin(out);
    int64_t lead_ns = sat_sub(ptable->table->region->offset_ns, weir_store_offset(service->store));
    put_word64(out, ptable->serial);
    put_word64(out, (uint64_t)lead_ns);
    put_store_time(out, service, atomic_load_explicit(&ptable->ends_ns, memory_order_relaxed));
    size_t table = block_begin(out);
    weir_table_describe(ptable->table, out);
    block_end(out, table);
    block_end(out, began);
}

/* What keys and prefixes have in common. */
static void put_override_block(struct buffer *out, struct slice name, const char *limits, const char *reason,
                               int64_t until_ms, bool from_file)
{
    put_sized_bytes(out, name.bytes, name.len);
    put_sized_text(out, limits);
    put_sized_text(out, reason);
    put_word64(out, (uint64_t)until_ms);
    put_word64(out, from_file);
}

static void put_prefix(struct buffer *out, const struct prefix_override *prefix)
{
    size_t began = block_begin(out);
    put_override_block(out, (struct slice){prefix->prefix, prefix->len}, prefix->limits, prefix->reason,
                       prefix->until_ms, prefix->from_file);
    put_word64(out, prefix->ptable->serial);
    block_end(out, began);
}

static void put_key_override(struct buffer *out, const struct key_override *key)
{
    size_t began = block_begin(out);
    put_override_block(out, (struct slice){key->key, key->len}, key->limits, key->reason, key->until_ms,
                       key->from_file);
    block_end(out, began);
}

static void put_frozen(struct buffer *out, const struct frozen_range *frozen)
{
    size_t began = block_begin(out);
    put_word64(out, frozen->from);
    put_word64(out, frozen->to);
    put_sized_bytes(out, frozen->url, strlen(frozen->url));
    block_end(out, began);
}

static void put_modes(struct buffer *out, const struct policy *policy)
{
    put_word64(out, (uint64_t)policy->file_mode);
    put_word64(out, (uint64_t)policy->file_percent);
    put_word64(out, (uint64_t)policy->mode);
    put_word64(out, (uint64_t)policy->percent);
    put_word64(out, (uint64_t)policy->mode_until_ms);
    put_word64(out, (uint64_t)policy->mode_after);
    put_word64(out, (uint64_t)policy->percent_after);
}

static void put_policy_block(struct buffer *out, const struct policy *policy)
{
    size_t began = block_begin(out);
    put_sized_bytes(out, policy->name, strlen(policy->name));
    put_sized_text(out, policy->limits);
    put_sized_text(out, policy->candidate);
    put_sized_text(out, policy->file_limits);
    put_word64(out, policy->from_file);
    put_word64(out, policy->touched);
    put_modes(out, policy);
    const struct config_key *key;
    for (size_t i = 0; (key = weir_setting_at(i)); i++)
        put_word64(out, (uint64_t)*key_number(key, &policy->settings));
    put_word64(out, policy->main->serial);
    put_word64(out, policy->candidate_table ? policy->candidate_table->serial : 0);
    put_word64(out, policy->previous ? policy->previous->serial : 0);
    put_word64(out, (uint64_t)policy->previous_for_ns);
    put_word64(out, policy->prefix_count);
    for (size_t i = 0; i < policy->prefix_count; i++)
        put_prefix(out, &policy->prefixes[i]);
    put_word64(out, policy->key_count);
    for (size_t i = 0; i < policy->key_count; i++)
        put_key_override(out, &policy->keys[i]);
    put_word64(out, policy->frozen_count);
    for (size_t i = 0; i < policy->frozen_count; i++)
        put_frozen(out, &policy->frozen[i]);
    if (policy->pools || policy->fleet_in_catalogue)
        put_word64(out, CATALOGUE_FLEET);
    block_end(out, began);
}

/* ---- all of it ---- */

static void put_first_part(struct buffer *out, const struct service *service, const struct snapshot *snapshot)
{
    const struct persistence *persistence = service->persistence;
    buffer_put(out, "WEIRNOTE", 8);
    put_word64(out, CATALOGUE_VERSION);
    put_word64(out, weir_policy_table_last());
    put_word64(out, persistence->requests);
    put_word64(out, persistence->reservations);
    put_word64(out, persistence->smyte);
    put_word64(out, snapshot->mode_for_all);
    put_word64(out, (uint64_t)snapshot->all_mode);
    put_word64(out, (uint64_t)snapshot->all_until_ms);
    put_records(out, service->ledger.requests);
    put_records(out, service->ledger.reservations);
    put_records(out, weir_smyte_records(service->smyte));
    put_policy_table(out, service, service->client_keys);
}

static void put_shares(struct buffer *out, const struct service *service)
{
    for (int i = 0; i < SHARE_STORES; i++) {
        size_t began = block_begin(out);
        for (uint32_t owner = 1, heirs = 0; owner < SHARE_OWNERS && heirs < SHARE_HEIRS; owner++) {
            uint32_t part = weir_share_part(service->shares[i], owner);
            heirs += part > 0; /* numbers move while they are read: there could be more */
            if (part > 0)
                put_word64(out, (uint64_t)owner << 32 | part);
        }
        weir_share_recorded(service->shares[i]);
        block_end(out, began);
    }
}

bool weir_catalogue_write(struct service *service, const struct snapshot *snapshot, struct buffer *out)
{
    out->most = CATALOGUE_MAX;
    put_first_part(out, service, snapshot);
    put_word64(out, snapshot->ptable_count);
    for (size_t i = 0; i < snapshot->ptable_count; i++)
        put_policy_table(out, service, snapshot->ptables[i]);
    put_word64(out, snapshot->policy_count);
    for (size_t i = 0; i < snapshot->policy_count; i++)
        put_policy_block(out, snapshot->policies[i]);
    put_shares(out, service);
    if (service->options.test_clock)
        put_word64(out, CATALOGUE_TEST_CLOCK);
    return !out->failed;
}

#define NO_SENSE                                                                                             \
    "what the data directory says about its tables and policies makes no sense; run weir doctor on it, or "  \
    "start from a backup"

static bool fail_catalogue(struct weir_error *err, int code, const char *text)
{
    weir_error_set(err, code, text);
    return false;
}

/* ---- numbers, bytes, blocks ---- */

static uint64_t get_number(struct catalogue_reader *reader)
{
    uint64_t number = 0;
    if (reader->wrong || reader->end - reader->at < 8) {
        reader->wrong = true;
        return 0;
    }
    for (size_t i = 0; i < 8; i++)
        number |= (uint64_t)reader->at[i] << (8 * i);
    reader->at += 8;
    return number;
}

/* From `least` to `most`, else it is wrong. */
static int64_t get_within(struct catalogue_reader *reader, int64_t least, int64_t most)
{
    int64_t number = (int64_t)get_number(reader);
    if (number < least || number > most)
        reader->wrong = true;
    return reader->wrong ? least : number;
}

static struct slice get_bytes(struct catalogue_reader *reader, size_t most)
{
    uint64_t len = get_number(reader);
    if (reader->wrong || len > most || len > (uint64_t)(reader->end - reader->at)) {
        reader->wrong = true;
        return (struct slice){"", 0};
    }
    struct slice bytes = {(const char *)reader->at, len};
    reader->at += len;
    return bytes;
}

static struct catalogue_reader get_block(struct catalogue_reader *reader)
{
    struct slice bytes = get_bytes(reader, CATALOGUE_MAX);
    const unsigned char *at = (const unsigned char *)bytes.bytes;
    return (struct catalogue_reader){at, at + bytes.len, reader->wrong};
}

/* A copy with a NUL behind it. NULL: out of memory, or it is wrong. */
static char *get_copy(struct catalogue_reader *reader, size_t most, size_t *len)
{
    struct slice bytes = get_bytes(reader, most);
    char *copy = reader->wrong ? NULL : malloc(bytes.len + 1);
    if (!copy) {
        reader->wrong = true;
        return NULL;
    }
    if (bytes.len > 0)
        memcpy(copy, bytes.bytes, bytes.len);
    copy[bytes.len] = '\0';
    *len = bytes.len;
    return copy;
}

/* NULL: there is none, or it is wrong. */
static char *get_text_copy(struct catalogue_reader *reader, size_t most)
{
    size_t len = 0;
    char *text = get_within(reader, 0, 1) == 1 ? get_copy(reader, most, &len) : NULL;
    if (text && strlen(text) != len)
        reader->wrong = true;
    return text;
}

/* Limits as people would be understood to have written them. */
static char *get_limits(struct catalogue_reader *reader, bool optional)
{
    char *text = get_text_copy(reader, SPEC_TEXT_MAX);
    struct weir_policy *policy = text ? weir_policy_idle(text, NULL) : NULL;
    if (text ? !policy : !optional)
        reader->wrong = true;
    weir_policy_free(policy);
    return text;
}

/* Store time as a time of weir_now. */
static int64_t get_time(struct catalogue_reader *reader, int64_t offset_ns)
{
    int64_t time_ns = get_within(reader, 0, INT64_MAX);
    return time_ns == 0 || time_ns == WEIR_FOREVER ? time_ns : max64(sat_sub(time_ns, offset_ns), 1);
}

/* ---- the first part ---- */

bool weir_catalogue_read(const void *bytes, size_t len, struct catalogue *catalogue, struct weir_error *err)
{
    struct catalogue_reader reader = {bytes, (const unsigned char *)bytes + len, false};
    *catalogue = (struct catalogue){0};
    if (len < 16 || memcmp(bytes, "WEIRNOTE", 8) != 0)
        return fail_catalogue(err, EINVAL,
                              "the data directory was not written by weir serve; name another one");
    reader.at += 8;
    if (get_number(&reader) != CATALOGUE_VERSION)
        return fail_catalogue(
            err, EINVAL,
            "the data directory was written by another version of weir; start that version, or name "
            "another directory");
    catalogue->last_serial = (uint64_t)get_within(&reader, POLICY_TABLE_FIRST - 1, UINT32_MAX);
    catalogue->requests = (uint64_t)get_within(&reader, 0, INT64_C(1) << 40);
    catalogue->reservations = (uint64_t)get_within(&reader, 0, INT64_C(1) << 40);
    catalogue->smyte = (uint64_t)get_within(&reader, 0, INT64_C(1) << 40);
    catalogue->mode_for_all = get_within(&reader, 0, 1) == 1;
    catalogue->all_mode = (enum policy_mode)get_within(&reader, MODE_ENFORCE, MODE_DISABLED);
    catalogue->all_until_ms = get_within(&reader, 0, INT64_MAX);
    catalogue->request_keys = get_bytes(&reader, CATALOGUE_MAX);
    catalogue->reservation_keys = get_bytes(&reader, CATALOGUE_MAX);
    catalogue->step_keys = get_bytes(&reader, CATALOGUE_MAX);
    catalogue->client_keys = get_bytes(&reader, CATALOGUE_MAX);
    catalogue->rest = reader;
    return !reader.wrong || fail_catalogue(err, EINVAL, NO_SENSE);
}

/* ---- policy tables ---- */

struct policy_table *weir_catalogue_policy_table(struct slice block, int64_t offset_ns, int64_t *lead_ns,
                                                 struct weir_error *err)
{
    const unsigned char *at = (const unsigned char *)block.bytes;
    struct catalogue_reader reader = {at, at + block.len, false};
    uint64_t serial = (uint64_t)get_within(&reader, 1, UINT32_MAX);
    *lead_ns = get_within(&reader, -WEIR_TIME_MAX, WEIR_TIME_MAX);
    int64_t ends_ns = get_time(&reader, offset_ns);
    struct slice table = get_bytes(&reader, CATALOGUE_MAX);
    if (reader.wrong) {
        (void)fail_catalogue(err, EINVAL, NO_SENSE);
        return NULL;
    }
    struct policy_table *ptable =
        weir_policy_table_of(weir_table_describe_read(table.bytes, table.len, err), serial, err);
    if (ptable)
        atomic_store_explicit(&ptable->ends_ns, ends_ns, memory_order_relaxed);
    return ptable;
}

struct catalogue_restore {
    struct service *service;
    struct snapshot *snapshot;
    struct catalogue_reader reader;
    int64_t offset_ns;
    struct policy_table **ptables; /* as they come: by serial. A reference each, until a policy has it */
    size_t count;
    struct weir_error *err;
};

static bool restore_policy_table(struct catalogue_restore *restoring)
{
    int64_t lead_ns;
    struct slice block = get_bytes(&restoring->reader, CATALOGUE_MAX);
    struct policy_table *ptable =
        restoring->reader.wrong
            ? NULL
            : weir_catalogue_policy_table(block, restoring->offset_ns, &lead_ns, restoring->err);
    if (!ptable)
        return false;
    restoring->ptables[restoring->count++] = ptable;
    uint64_t before = restoring->count > 1 ? restoring->ptables[restoring->count - 2]->serial : 0;
    if (ptable->serial < POLICY_TABLE_FIRST || ptable->serial <= before ||
        ptable->serial > weir_policy_table_last()) {
        restoring->reader.wrong = true;
        return false;
    }
    return weir_persist_add(restoring->service, ptable, lead_ns, restoring->err);
}

static bool restore_policy_tables(struct catalogue_restore *restoring)
{
    size_t count = (size_t)get_within(&restoring->reader, 0, CONFIG_POLICIES_MAX * (3 + CONFIG_PREFIXES_MAX));
    restoring->ptables = calloc(count + 1, sizeof(struct policy_table *));
    if (!restoring->ptables)
        return fail_catalogue(restoring->err, ENOMEM, "out of memory");
    for (size_t i = 0; i < count; i++)
        if (!restore_policy_table(restoring))
            return false;
    return !restoring->reader.wrong;
}

/* Of that serial; it goes to who asks. `least` 0: there may be none. */
static struct policy_table *claim_policy_table(struct catalogue_restore *restoring,
                                               struct catalogue_reader *reader, int64_t least)
{
    uint64_t serial = (uint64_t)get_within(reader, least, UINT32_MAX);
    for (size_t i = 0; serial > 0 && i < restoring->count; i++) {
        struct policy_table *ptable = restoring->ptables[i];
        if (!ptable || ptable->serial != serial)
            continue;
        restoring->ptables[i] = NULL;
        return ptable;
    }
    if (serial > 0)
        reader->wrong = true;
    return NULL;
}

/* ---- policies ---- */

static void read_prefix_override(struct catalogue_restore *restoring, struct catalogue_reader *list,
                                 struct policy *policy)
{
    struct catalogue_reader reader = get_block(list);
    struct prefix_override *prefix = &policy->prefixes[policy->prefix_count];
    prefix->prefix = get_copy(&reader, CATALOGUE_MAX, &prefix->len);
    prefix->limits = get_limits(&reader, false);
    prefix->reason = get_text_copy(&reader, CATALOGUE_MAX);
    prefix->until_ms = get_within(&reader, 0, INT64_MAX);
    prefix->from_file = get_within(&reader, 0, 1) == 1;
    prefix->ptable = claim_policy_table(restoring, &reader, 1);
    prefix->labels = prefix->limits ? weir_labels_new(prefix->limits) : NULL;
    if (!prefix->labels || (policy->prefix_count > 0 && prefix[-1].len < prefix->len))
        reader.wrong = true;
    policy->prefix_count++; /* also a wrong one: it is freed with the policy */
    list->wrong |= reader.wrong;
}

static void read_key_override(struct catalogue_reader *list, struct policy *policy)
{
    struct catalogue_reader reader = get_block(list);
    struct key_override *key = &policy->keys[policy->key_count];
    bool found = false;
    key->key = get_copy(&reader, CATALOGUE_MAX, &key->len);
    key->limits = get_limits(&reader, false);
    key->reason = get_text_copy(&reader, CATALOGUE_MAX);
    key->until_ms = get_within(&reader, 0, INT64_MAX);
    key->from_file = get_within(&reader, 0, 1) == 1;
    /* They are sorted, so each one belongs behind those that are there. */
    if (!reader.wrong &&
        weir_edit_key_at(policy, (struct slice){key->key, key->len}, &found) < policy->key_count)
        reader.wrong = true;
    policy->key_count++;
    list->wrong |= reader.wrong;
}

static void read_override_lists(struct catalogue_restore *restoring, struct catalogue_reader *reader,
                                struct policy *policy)
{
    size_t prefixes = (size_t)get_within(reader, 0, CONFIG_PREFIXES_MAX);
    policy->prefixes = prefixes > 0 ? calloc(prefixes, sizeof *policy->prefixes) : NULL;
    for (size_t i = 0; policy->prefixes && !reader->wrong && i < prefixes; i++)
        read_prefix_override(restoring, reader, policy);
    size_t keys = (size_t)get_within(reader, 0, POLICY_TABLE_OVERRIDES);
    policy->keys = keys > 0 ? calloc(keys, sizeof *policy->keys) : NULL;
    for (size_t i = 0; policy->keys && !reader->wrong && i < keys; i++)
        read_key_override(reader, policy);
    if ((prefixes > 0 && !policy->prefixes) || (keys > 0 && !policy->keys))
        reader->wrong = true;
}

static void read_frozen(struct catalogue_reader *reader, struct policy *policy)
{
    policy->frozen_count = (size_t)get_within(reader, 0, FROZEN_MAX);
    for (size_t i = 0; !reader->wrong && i < policy->frozen_count; i++) {
        struct catalogue_reader block = get_block(reader);
        struct frozen_range *frozen = &policy->frozen[i];
        frozen->from = get_number(&block);
        frozen->to = get_number(&block);
        struct slice url = get_bytes(&block, FROZEN_URL_MAX - 1);
        if (url.len > 0)
            memcpy(frozen->url, url.bytes, url.len);
        reader->wrong |= block.wrong;
    }
}

static void read_modes(struct catalogue_reader *reader, struct policy *policy)
{
    policy->file_mode = (enum policy_mode)get_within(reader, MODE_ENFORCE, MODE_DISABLED);
    policy->file_percent = (int)get_within(reader, 1, CONFIG_PERCENT_ALL);
    policy->mode = (enum policy_mode)get_within(reader, MODE_ENFORCE, MODE_DISABLED);
    policy->percent = (int)get_within(reader, 1, CONFIG_PERCENT_ALL);
    policy->mode_until_ms = get_within(reader, 0, INT64_MAX);
    policy->mode_after = (enum policy_mode)get_within(reader, MODE_ENFORCE, MODE_DISABLED);
    policy->percent_after = (int)get_within(reader, 1, CONFIG_PERCENT_ALL);
}

static void read_catalogue_policy(struct catalogue_restore *restoring, struct catalogue_reader *reader,
                                  struct policy *policy)
{
    policy->limits = get_limits(reader, false);
    policy->labels = policy->limits ? weir_labels_new(policy->limits) : NULL;
    policy->candidate = get_limits(reader, true);
    policy->file_limits = get_text_copy(reader, SPEC_TEXT_MAX);
    policy->from_file = get_within(reader, 0, 1) == 1;
    policy->touched = get_within(reader, 0, 1) == 1;
    read_modes(reader, policy);
    const struct config_key *key;
    for (size_t i = 0; (key = weir_setting_at(i)); i++)
        *key_number(key, &policy->settings) = get_within(reader, key->least, key->most);
    policy->main = claim_policy_table(restoring, reader, 1);
    policy->candidate_table = claim_policy_table(restoring, reader, 0);
    policy->previous = claim_policy_table(restoring, reader, 0);
    policy->previous_for_ns = get_within(reader, 0, INT64_MAX);
    read_override_lists(restoring, reader, policy);
    read_frozen(reader, policy);
    policy->fleet_in_catalogue =
        reader->at < reader->end && get_within(reader, 0, CATALOGUE_FLEET) == CATALOGUE_FLEET;
    if (!policy->labels || (policy->candidate_table != NULL) != (policy->candidate != NULL))
        reader->wrong = true;
}

static bool restore_policy(struct catalogue_restore *restoring)
{
    struct catalogue_reader reader = get_block(&restoring->reader);
    char why[200], text[CONFIG_NAME_MAX + 1] = "";
    struct slice name = get_bytes(&reader, CONFIG_NAME_MAX);
    if (reader.wrong || !weir_config_name(name.bytes, name.len, why, sizeof why))
        return false;
    memcpy(text, name.bytes, name.len);
    struct policy *policy = weir_policy_make(text, restoring->service->options.workers + 1);
    if (!policy)
        return fail_catalogue(restoring->err, ENOMEM, "out of memory");
    read_catalogue_policy(restoring, &reader, policy);
    if (reader.wrong) {
        weir_policy_drop(policy);
        return false;
    }
    return weir_snapshot_put(restoring->snapshot, policy->name, policy) ||
           fail_catalogue(restoring->err, ENOMEM, "out of memory");
}

static bool restore_policies(struct catalogue_restore *restoring)
{
    size_t count = (size_t)get_within(&restoring->reader, 0, CONFIG_POLICIES_MAX);
    for (size_t i = 0; i < count; i++)
        if (!restore_policy(restoring))
            return false;
    return !restoring->reader.wrong;
}

/* Times of the one say nothing to the other. */
static bool check_clock(struct catalogue_restore *restoring)
{
    struct catalogue_reader *reader = &restoring->reader;
    bool was_test =
        reader->at < reader->end && get_within(reader, 0, CATALOGUE_TEST_CLOCK) == CATALOGUE_TEST_CLOCK;
    if (reader->wrong)
        return false;
    if (was_test == restoring->service->options.test_clock)
        return true;
    return fail_catalogue(
        restoring->err, EINVAL,
        was_test ? "the data directory was written with --test-clock, whose time is no real one: "
                   "start with it, or name another directory"
                 : "the data directory was not written with --test-clock, and time would pass, or "
                   "stand still, that has not: start without it, or name another directory");
}

static bool restore_shares(struct catalogue_restore *restoring)
{
    for (int i = 0; i < SHARE_STORES; i++) {
        struct catalogue_reader block = get_block(&restoring->reader);
        while (block.at < block.end && !block.wrong) {
            uint64_t number = get_number(&block);
            if (!weir_share_inherit(restoring->service->shares[i], (uint32_t)(number >> 32),
                                    (uint32_t)number))
                block.wrong = true;
        }
        restoring->reader.wrong |= block.wrong;
    }
    return !restoring->reader.wrong;
}

bool weir_catalogue_policies(struct service *service, const struct catalogue *catalogue,
                             struct snapshot *snapshot, struct weir_error *err)
{
    struct catalogue_restore restoring = {.service = service,
                                          .snapshot = snapshot,
                                          .reader = catalogue->rest,
                                          .offset_ns = weir_store_offset(service->store),
                                          .err = err};
    weir_error_clear(err);
    snapshot->mode_for_all = catalogue->mode_for_all;
    snapshot->all_mode = catalogue->all_mode;
    snapshot->all_until_ms = catalogue->all_until_ms;
    bool good = restore_policy_tables(&restoring) && restore_policies(&restoring) &&
                restore_shares(&restoring) && check_clock(&restoring);
    for (size_t i = 0; i < restoring.count; i++)
        weir_policy_table_free(restoring.ptables[i]);
    free(restoring.ptables);
    if (!good && (!err || err->code == 0))
        (void)fail_catalogue(err, EINVAL, NO_SENSE);
    return good;
}
