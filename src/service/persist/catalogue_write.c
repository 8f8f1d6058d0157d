/* SPDX-License-Identifier: MIT */
#include "service/persist/catalogue.h"

#include "base/sat.h"
#include "ledger/persist.h"
#include "service/persist/persist.h"
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
    put_word64(out, (uint64_t)policy->on_full);
    put_word64(out, (uint64_t)policy->ttl_ms);
    put_word64(out, (uint64_t)policy->ttl_max_ms);
    put_word64(out, (uint64_t)policy->overrun);
    put_word64(out, (uint64_t)policy->id_window_ns);
    put_word64(out, (uint64_t)policy->recover);
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
