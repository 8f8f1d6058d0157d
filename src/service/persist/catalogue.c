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

/* ---- plain fields: one list for writing and reading ---- */

struct catalogue_field {
    size_t offset, size;
    int64_t least, most;
};
#define FIELD(TYPE, NAME, LEAST, MOST)                                                                       \
    {                                                                                                        \
        offsetof(struct TYPE, NAME), sizeof((struct TYPE *)0)->NAME, LEAST, MOST                             \
    }
#define COUNT_OF(FIELDS) (sizeof(FIELDS) / sizeof *(FIELDS))

static const struct catalogue_field policy_fields[] = {FIELD(policy, from_file, 0, 1),
                                                       FIELD(policy, touched, 0, 1),
                                                       FIELD(policy, file_mode, MODE_ENFORCE, MODE_DISABLED),
                                                       FIELD(policy, file_percent, 1, CONFIG_PERCENT_ALL),
                                                       FIELD(policy, mode, MODE_ENFORCE, MODE_DISABLED),
                                                       FIELD(policy, percent, 1, CONFIG_PERCENT_ALL),
                                                       FIELD(policy, mode_until_ms, 0, INT64_MAX),
                                                       FIELD(policy, mode_after, MODE_ENFORCE, MODE_DISABLED),
                                                       FIELD(policy, percent_after, 1, CONFIG_PERCENT_ALL),
                                                       FIELD(policy, previous_for_ns, 0, INT64_MAX)};

static const struct catalogue_field catalogue_fields[] = {
    FIELD(server_catalogue, requests, 0, INT64_C(1) << 40),
    FIELD(server_catalogue, reservations, 0, INT64_C(1) << 40),
    FIELD(server_catalogue, smyte, 0, INT64_C(1) << 40),
    FIELD(server_catalogue, mode_for_all, 0, 1),
    FIELD(server_catalogue, all_mode, MODE_ENFORCE, MODE_DISABLED),
    FIELD(server_catalogue, all_until_ms, 0, INT64_MAX)};

static void put_fields(struct buffer *out, const void *from, const struct catalogue_field *fields,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t number = 0; /* little-endian, and never below 0 */
        memcpy(&number, (const char *)from + fields[i].offset, fields[i].size);
        weir_catalogue_put_number(out, (uint64_t)number);
    }
}

static void get_fields(struct catalogue_reader *reader, void *to, const struct catalogue_field *fields,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t number = weir_catalogue_within(reader, fields[i].least, fields[i].most);
        memcpy((char *)to + fields[i].offset, &number, fields[i].size);
    }
}

/* ---- parts ---- */

static void put_records(struct buffer *out, const struct records *records)
{
    size_t began = weir_catalogue_block(out);
    weir_records_describe(records, out);
    weir_catalogue_block_end(out, began);
}

static void put_policy_table(struct buffer *out, const struct service *service,
                             const struct policy_table *ptable)
{
    int64_t offset_ns = weir_store_offset(service->store);
    int64_t ends_ns = atomic_load_explicit(&ptable->ends_ns, memory_order_relaxed);
    if (ends_ns != 0 && ends_ns != WEIR_FOREVER)
        ends_ns = max64(sat_add(ends_ns, offset_ns), 1);
    struct catalogue_table table = {.number = ptable->serial,
                                    .lead_ns = sat_sub(ptable->table->region->offset_ns, offset_ns),
                                    .ends_ns = ends_ns};
    weir_catalogue_put_table(out, &table, ptable->table);
}

static void put_overrides(struct buffer *out, const struct policy_override *overrides, size_t count)
{
    weir_catalogue_put_number(out, count);
    for (size_t i = 0; i < count; i++) {
        const struct policy_override *override = &overrides[i];
        size_t began = weir_catalogue_block(out);
        weir_catalogue_put_bytes(out, override->key, override->len);
        weir_catalogue_put_text(out, override->limits);
        weir_catalogue_put_text(out, override->reason);
        weir_catalogue_put_number(out, (uint64_t) override->until_ms);
        weir_catalogue_put_number(out, override->from_file);
        if (override->ptable) /* it is of a prefix */
            weir_catalogue_put_number(out, override->ptable->serial);
        weir_catalogue_block_end(out, began);
    }
}

static void put_frozen(struct buffer *out, const struct frozen_range *frozen)
{
    size_t began = weir_catalogue_block(out);
    weir_catalogue_put_number(out, frozen->from);
    weir_catalogue_put_number(out, frozen->to);
    weir_catalogue_put_bytes(out, frozen->url, strlen(frozen->url));
    weir_catalogue_block_end(out, began);
}

static uint64_t serial_of(const struct policy_table *ptable)
{
    return ptable ? ptable->serial : 0;
}

static void put_policy_block(struct buffer *out, const struct policy *policy)
{
    size_t began = weir_catalogue_block(out);
    weir_catalogue_put_bytes(out, policy->name, strlen(policy->name));
    weir_catalogue_put_text(out, policy->limits);
    weir_catalogue_put_text(out, policy->candidate);
    weir_catalogue_put_text(out, policy->file_limits);
    put_fields(out, policy, policy_fields, COUNT_OF(policy_fields));
    const struct config_key *key;
    for (size_t i = 0; (key = weir_setting_at(i)); i++)
        weir_catalogue_put_number(out, (uint64_t)*key_number(key, &policy->settings));
    weir_catalogue_put_number(out, serial_of(policy->main));
    weir_catalogue_put_number(out, serial_of(policy->candidate_table));
    weir_catalogue_put_number(out, serial_of(policy->previous));
    put_overrides(out, policy->prefixes, policy->prefix_count);
    put_overrides(out, policy->keys, policy->key_count);
    weir_catalogue_put_number(out, policy->frozen_count);
    for (size_t i = 0; i < policy->frozen_count; i++)
        put_frozen(out, &policy->frozen[i]);
    if (policy->pools || policy->fleet_in_catalogue)
        weir_catalogue_put_number(out, CATALOGUE_FLEET);
    else if (policy->address || policy->is_tier || policy->address_in_catalogue)
        weir_catalogue_put_number(out, CATALOGUE_ADDRESS);
    weir_catalogue_block_end(out, began);
}

/* ---- all of it ---- */

static void put_first_part(struct buffer *out, const struct service *service, const struct snapshot *snapshot)
{
    const struct persistence *persistence = service->persistence;
    struct server_catalogue first = {.requests = (int64_t)persistence->requests,
                                     .reservations = (int64_t)persistence->reservations,
                                     .smyte = (int64_t)persistence->smyte,
                                     .mode_for_all = snapshot->mode_for_all,
                                     .all_mode = snapshot->all_mode,
                                     .all_until_ms = snapshot->all_until_ms};
    put_fields(out, &first, catalogue_fields, COUNT_OF(catalogue_fields));
    put_records(out, service->ledger.requests);
    put_records(out, service->ledger.reservations);
    put_records(out, service->smyte);
}

static void put_shares(struct buffer *out, const struct service *service)
{
    for (int i = 0; i < SHARE_STORES; i++) {
        size_t began = weir_catalogue_block(out);
        for (uint32_t owner = 1, heirs = 0; owner < SHARE_OWNERS && heirs < SHARE_HEIRS; owner++) {
            uint32_t part = weir_share_part(service->shares[i], owner);
            heirs += part > 0; /* numbers move while they are read: there could be more */
            if (part > 0)
                weir_catalogue_put_number(out, (uint64_t)owner << 32 | part);
        }
        weir_share_recorded(service->shares[i]);
        weir_catalogue_block_end(out, began);
    }
}

bool weir_server_catalogue_write(struct service *service, const struct snapshot *snapshot, struct buffer *out)
{
    weir_catalogue_begin(out, CATALOGUE_SERVER, weir_policy_table_last(), snapshot->ptable_count + 1);
    put_policy_table(out, service, service->client_keys);
    for (size_t i = 0; i < snapshot->ptable_count; i++)
        put_policy_table(out, service, snapshot->ptables[i]);
    put_first_part(out, service, snapshot);
    weir_catalogue_put_number(out, snapshot->policy_count);
    for (size_t i = 0; i < snapshot->policy_count; i++)
        put_policy_block(out, snapshot->policies[i]);
    put_shares(out, service);
    if (service->options.test_clock)
        weir_catalogue_put_number(out, CATALOGUE_TEST_CLOCK);
    return !out->failed;
}

static bool fail_catalogue(struct weir_error *err, int code, const char *text)
{
    weir_error_set(err, code, text);
    return false;
}

/* ---- texts and blocks ---- */

static struct catalogue_reader get_block(struct catalogue_reader *reader)
{
    struct catalogue_reader block = weir_catalogue_reader(weir_catalogue_bytes(reader, CATALOGUE_MAX));
    block.wrong = reader->wrong;
    return block;
}

/* A copy with a NUL behind it. NULL: out of memory, or it is wrong. */
static char *get_copy(struct catalogue_reader *reader, size_t most, size_t *len)
{
    struct slice bytes = weir_catalogue_bytes(reader, most);
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
    char *text = weir_catalogue_within(reader, 0, 1) == 1 ? get_copy(reader, most, &len) : NULL;
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

bool weir_server_catalogue_read(const void *bytes, size_t len, struct server_catalogue *catalogue,
                                struct weir_error *err)
{
    *catalogue = (struct server_catalogue){0};
    if (!weir_catalogue_read(bytes, len, CATALOGUE_SERVER, &catalogue->tables, err))
        return false;
    struct catalogue_reader *reader = &catalogue->tables.rest;
    get_fields(reader, catalogue, catalogue_fields, COUNT_OF(catalogue_fields));
    catalogue->request_keys = weir_catalogue_bytes(reader, CATALOGUE_MAX);
    catalogue->reservation_keys = weir_catalogue_bytes(reader, CATALOGUE_MAX);
    catalogue->step_keys = weir_catalogue_bytes(reader, CATALOGUE_MAX);
    return (!reader->wrong && catalogue->tables.left > 0 &&
            weir_catalogue_next(&catalogue->tables, &catalogue->client_keys)) ||
           weir_catalogue_nonsense(CATALOGUE_SERVER, err);
}

/* ---- policy tables ---- */

struct policy_table *weir_server_catalogue_table(const struct service *service,
                                                 const struct catalogue_table *table, struct weir_error *err)
{
    struct policy_table *ptable = weir_policy_table_of(
        weir_table_describe_read(table->description.bytes, table->description.len, err), table->number, err);
    int64_t ends_ns = table->ends_ns;
    if (ends_ns != 0 && ends_ns != WEIR_FOREVER)
        ends_ns = max64(sat_sub(ends_ns, weir_store_offset(service->store)), 1);
    if (ptable)
        atomic_store_explicit(&ptable->ends_ns, ends_ns, memory_order_relaxed);
    return ptable;
}

struct catalogue_restore {
    struct service *service;
    struct snapshot *snapshot;
    struct catalogue tables;       /* policies are in its rest */
    struct policy_table **ptables; /* as they come: by serial. A reference each, until a policy has it */
    size_t count;
    struct weir_error *err;
};

static bool restore_policy_table(struct catalogue_restore *restoring)
{
    struct catalogue_table table;
    if (!weir_catalogue_next(&restoring->tables, &table) || table.number < POLICY_TABLE_FIRST)
        return false;
    struct policy_table *ptable = weir_server_catalogue_table(restoring->service, &table, restoring->err);
    if (!ptable)
        return false;
    restoring->ptables[restoring->count++] = ptable;
    return weir_persist_add(restoring->service, ptable, table.lead_ns, restoring->err);
}

static bool restore_policy_tables(struct catalogue_restore *restoring)
{
    restoring->ptables = calloc(restoring->tables.left + 1, sizeof(struct policy_table *));
    if (!restoring->ptables)
        return fail_catalogue(restoring->err, ENOMEM, "out of memory");
    while (restoring->tables.left > 0)
        if (!restore_policy_table(restoring))
            return false;
    return true;
}

/* Of that serial; it goes to who asks. `least` 0: there may be none. */
static struct policy_table *claim_policy_table(struct catalogue_restore *restoring,
                                               struct catalogue_reader *reader, int64_t least)
{
    uint64_t serial = (uint64_t)weir_catalogue_within(reader, least, UINT32_MAX);
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

/* They are sorted, so each one belongs behind those that are there. */
static void read_override(struct catalogue_restore *restoring, struct catalogue_reader *list,
                          const struct policy *policy, bool prefix, struct policy_override *override)
{
    struct catalogue_reader reader = get_block(list);
    size_t count = prefix ? policy->prefix_count : policy->key_count;
    bool found = false;
    override->key = get_copy(&reader, CATALOGUE_MAX, &override->len);
    override->limits = get_limits(&reader, false);
    override->reason = get_text_copy(&reader, CATALOGUE_MAX);
    override->until_ms = weir_catalogue_within(&reader, 0, INT64_MAX);
    override->from_file = weir_catalogue_within(&reader, 0, 1) == 1;
    if (prefix) {
        override->ptable = claim_policy_table(restoring, &reader, 1);
        override->labels = override->limits ? weir_labels_new(override->limits) : NULL;
    }
    struct slice key = {override->key, override->len};
    if ((prefix && !override->labels) ||
        (!reader.wrong && weir_edit_override_at(policy, prefix, key, &found) < count))
        reader.wrong = true;
    list->wrong |= reader.wrong;
}

/* Counts also a wrong one: it is freed with the policy. */
static void read_overrides(struct catalogue_restore *restoring, struct catalogue_reader *reader,
                           struct policy *policy, bool prefix)
{
    struct policy_override **list = prefix ? &policy->prefixes : &policy->keys;
    size_t *count = prefix ? &policy->prefix_count : &policy->key_count;
    size_t most =
        (size_t)weir_catalogue_within(reader, 0, prefix ? CONFIG_PREFIXES_MAX : POLICY_TABLE_OVERRIDES);
    *list = most > 0 ? calloc(most, sizeof **list) : NULL;
    if (most > 0 && !*list)
        reader->wrong = true;
    for (; !reader->wrong && *count < most; (*count)++)
        read_override(restoring, reader, policy, prefix, &(*list)[*count]);
}

static void read_frozen(struct catalogue_reader *reader, struct policy *policy)
{
    policy->frozen_count = (size_t)weir_catalogue_within(reader, 0, FROZEN_MAX);
    for (size_t i = 0; !reader->wrong && i < policy->frozen_count; i++) {
        struct catalogue_reader block = get_block(reader);
        struct frozen_range *frozen = &policy->frozen[i];
        frozen->from = weir_catalogue_number(&block);
        frozen->to = weir_catalogue_number(&block);
        struct slice url = weir_catalogue_bytes(&block, FROZEN_URL_MAX - 1);
        if (url.len > 0)
            memcpy(frozen->url, url.bytes, url.len);
        reader->wrong |= block.wrong;
    }
}

static void read_catalogue_policy(struct catalogue_restore *restoring, struct catalogue_reader *reader,
                                  struct policy *policy)
{
    policy->limits = get_limits(reader, false);
    policy->labels = policy->limits ? weir_labels_new(policy->limits) : NULL;
    policy->candidate = get_limits(reader, true);
    policy->file_limits = get_text_copy(reader, SPEC_TEXT_MAX);
    get_fields(reader, policy, policy_fields, COUNT_OF(policy_fields));
    const struct config_key *key;
    for (size_t i = 0; (key = weir_setting_at(i)); i++)
        *key_number(key, &policy->settings) = weir_catalogue_within(reader, key->least, key->most);
    policy->main = claim_policy_table(restoring, reader, 1);
    policy->candidate_table = claim_policy_table(restoring, reader, 0);
    policy->previous = claim_policy_table(restoring, reader, 0);
    read_overrides(restoring, reader, policy, true);
    read_overrides(restoring, reader, policy, false);
    read_frozen(reader, policy);
    int64_t kind = reader->at < reader->end ? weir_catalogue_within(reader, 0, CATALOGUE_ADDRESS) : 0;
    policy->fleet_in_catalogue = kind == CATALOGUE_FLEET;
    policy->address_in_catalogue = kind == CATALOGUE_ADDRESS;
    if (!policy->labels || policy->settings.ttl_max_ms < policy->settings.ttl_ms ||
        (policy->candidate_table != NULL) != (policy->candidate != NULL))
        reader->wrong = true;
}

static bool restore_policy(struct catalogue_restore *restoring)
{
    struct catalogue_reader reader = get_block(&restoring->tables.rest);
    char why[200], text[CONFIG_NAME_MAX + 1] = "";
    struct slice name = weir_catalogue_bytes(&reader, CONFIG_NAME_MAX);
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
    size_t count = (size_t)weir_catalogue_within(&restoring->tables.rest, 0, CONFIG_POLICIES_MAX);
    for (size_t i = 0; i < count; i++)
        if (!restore_policy(restoring))
            return false;
    return !restoring->tables.rest.wrong;
}

/* Times of the one say nothing to the other. */
static bool check_clock(struct catalogue_restore *restoring)
{
    struct catalogue_reader *reader = &restoring->tables.rest;
    bool was_test = reader->at < reader->end &&
                    weir_catalogue_within(reader, 0, CATALOGUE_TEST_CLOCK) == CATALOGUE_TEST_CLOCK;
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
    struct catalogue_reader *reader = &restoring->tables.rest;
    for (int i = 0; i < SHARE_STORES; i++) {
        struct catalogue_reader block = get_block(reader);
        while (block.at < block.end && !block.wrong) {
            uint64_t number = weir_catalogue_number(&block);
            if (!weir_share_inherit(restoring->service->shares[i], (uint32_t)(number >> 32),
                                    (uint32_t)number))
                block.wrong = true;
        }
        reader->wrong |= block.wrong;
    }
    return !reader->wrong;
}

bool weir_server_catalogue_policies(struct service *service, const struct server_catalogue *catalogue,
                                    struct snapshot *snapshot, struct weir_error *err)
{
    struct catalogue_restore restoring = {
        .service = service, .snapshot = snapshot, .tables = catalogue->tables, .err = err};
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
        (void)weir_catalogue_nonsense(CATALOGUE_SERVER, err);
    return good;
}
