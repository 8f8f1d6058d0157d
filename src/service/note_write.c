/* SPDX-License-Identifier: MIT */
#include "service/note.h"

#include "base/sat.h"
#include "ledger/keep.h"
#include "service/keep.h"
#include "table/keep.h"

static void put_number(struct buffer *out, uint64_t number)
{
    char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(number >> (8 * i) & 0xFF);
    buffer_put(out, bytes, sizeof bytes);
}

static void put_bytes(struct buffer *out, const char *bytes, size_t len)
{
    put_number(out, len);
    buffer_put(out, bytes, len);
}

/* NULL: none. */
static void put_text(struct buffer *out, const char *text)
{
    put_number(out, text != NULL);
    if (text)
        put_bytes(out, text, strlen(text));
}

/* A block whose length is known when it is there: begin gives the place of it. */
static size_t block_begin(struct buffer *out)
{
    put_number(out, 0);
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
static void put_time(struct buffer *out, const struct service *service, int64_t time_ns)
{
    bool plain = time_ns == 0 || time_ns == WEIR_FOREVER;
    put_number(out,
               (uint64_t)(plain ? time_ns : max64(sat_add(time_ns, weir_store_offset(service->store)), 1)));
}

/* ---- parts ---- */

static void put_records(struct buffer *out, const struct records *records)
{
    size_t began = block_begin(out);
    weir_records_describe(records, out);
    block_end(out, began);
}

static void put_tally(struct buffer *out, const struct service *service, const struct tally *tally)
{
    size_t began = block_begin(out);
    int64_t lead_ns = sat_sub(tally->table->region->offset_ns, weir_store_offset(service->store));
    put_number(out, tally->serial);
    put_number(out, (uint64_t)lead_ns);
    put_time(out, service, atomic_load_explicit(&tally->ends_ns, memory_order_relaxed));
    size_t table = block_begin(out);
    weir_table_describe(tally->table, out);
    block_end(out, table);
    block_end(out, began);
}

/* What keys and prefixes have in common. */
static void put_override(struct buffer *out, struct slice name, const char *limits, const char *reason,
                         int64_t until_ms, bool from_file)
{
    put_bytes(out, name.bytes, name.len);
    put_text(out, limits);
    put_text(out, reason);
    put_number(out, (uint64_t)until_ms);
    put_number(out, from_file);
}

static void put_prefix(struct buffer *out, const struct prefix_override *prefix)
{
    size_t began = block_begin(out);
    put_override(out, (struct slice){prefix->prefix, prefix->len}, prefix->limits, prefix->reason,
                 prefix->until_ms, prefix->from_file);
    put_number(out, prefix->tally->serial);
    block_end(out, began);
}

static void put_key(struct buffer *out, const struct key_override *key)
{
    size_t began = block_begin(out);
    put_override(out, (struct slice){key->key, key->len}, key->limits, key->reason, key->until_ms,
                 key->from_file);
    block_end(out, began);
}

static void put_frozen(struct buffer *out, const struct frozen *frozen)
{
    size_t began = block_begin(out);
    put_number(out, frozen->from);
    put_number(out, frozen->to);
    put_bytes(out, frozen->url, strlen(frozen->url));
    block_end(out, began);
}

static void put_modes(struct buffer *out, const struct policy *policy)
{
    put_number(out, (uint64_t)policy->file_mode);
    put_number(out, (uint64_t)policy->file_percent);
    put_number(out, (uint64_t)policy->mode);
    put_number(out, (uint64_t)policy->percent);
    put_number(out, (uint64_t)policy->mode_until_ms);
    put_number(out, (uint64_t)policy->mode_after);
    put_number(out, (uint64_t)policy->percent_after);
}

static void put_policy(struct buffer *out, const struct policy *policy)
{
    size_t began = block_begin(out);
    put_bytes(out, policy->name, strlen(policy->name));
    put_text(out, policy->limits);
    put_text(out, policy->candidate);
    put_text(out, policy->file_limits);
    put_number(out, policy->from_file);
    put_number(out, policy->touched);
    put_modes(out, policy);
    put_number(out, (uint64_t)policy->on_full);
    put_number(out, (uint64_t)policy->ttl_ms);
    put_number(out, (uint64_t)policy->ttl_max_ms);
    put_number(out, (uint64_t)policy->overrun);
    put_number(out, (uint64_t)policy->id_window_ns);
    put_number(out, (uint64_t)policy->recover);
    put_number(out, policy->main->serial);
    put_number(out, policy->tried ? policy->tried->serial : 0);
    put_number(out, policy->older ? policy->older->serial : 0);
    put_number(out, (uint64_t)policy->older_for_ns);
    put_number(out, policy->prefix_count);
    for (size_t i = 0; i < policy->prefix_count; i++)
        put_prefix(out, &policy->prefixes[i]);
    put_number(out, policy->key_count);
    for (size_t i = 0; i < policy->key_count; i++)
        put_key(out, &policy->keys[i]);
    put_number(out, policy->frozen_count);
    for (size_t i = 0; i < policy->frozen_count; i++)
        put_frozen(out, &policy->frozen[i]);
    if (policy->pools || policy->fleet_noted)
        put_number(out, NOTE_FLEET);
    block_end(out, began);
}

/* ---- all of it ---- */

static void put_first_part(struct buffer *out, const struct service *service, const struct snapshot *snapshot)
{
    const struct keeping *keeping = service->keeping;
    buffer_put(out, "WEIRNOTE", 8);
    put_number(out, NOTE_VERSION);
    put_number(out, weir_tally_last());
    put_number(out, keeping->requests);
    put_number(out, keeping->reservations);
    put_number(out, keeping->steps);
    put_number(out, snapshot->mode_for_all);
    put_number(out, (uint64_t)snapshot->all_mode);
    put_number(out, (uint64_t)snapshot->all_until_ms);
    put_records(out, service->ledger.requests);
    put_records(out, service->ledger.reservations);
    put_records(out, weir_steps_records(service->steps));
    put_tally(out, service, service->client_keys);
}

static void put_shares(struct buffer *out, const struct service *service)
{
    for (int i = 0; i < SHARE_STORES; i++) {
        size_t began = block_begin(out);
        for (uint32_t owner = 1, heirs = 0; owner < SHARE_OWNERS && heirs < SHARE_HEIRS; owner++) {
            uint32_t part = weir_share_part(service->shares[i], owner);
            heirs += part > 0; /* numbers move while they are read: there could be more */
            if (part > 0)
                put_number(out, (uint64_t)owner << 32 | part);
        }
        weir_share_noted(service->shares[i]);
        block_end(out, began);
    }
}

bool weir_note_write(struct service *service, const struct snapshot *snapshot, struct buffer *out)
{
    out->most = NOTE_MOST;
    put_first_part(out, service, snapshot);
    put_number(out, snapshot->tally_count);
    for (size_t i = 0; i < snapshot->tally_count; i++)
        put_tally(out, service, snapshot->tallies[i]);
    put_number(out, snapshot->policy_count);
    for (size_t i = 0; i < snapshot->policy_count; i++)
        put_policy(out, snapshot->policies[i]);
    put_shares(out, service);
    if (service->options.test_clock)
        put_number(out, NOTE_TEST_CLOCK);
    return !out->failed;
}
