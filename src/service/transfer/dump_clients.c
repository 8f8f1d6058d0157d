/* SPDX-License-Identifier: MIT */
#include "service/transfer/dump_clients.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/humanize.h"
#include "ledger/persist.h"
#include "service/commands/call.h"
#include "service/transfer/dump_text.h"
#include "service/transfer/load_text.h"

/* ---- writing ---- */

static void put_hash_key_hex(struct buffer *out, const struct hash_key *key)
{
    buffer_put(out, " #", 2);
    weir_dump_hex(out, key->low);
    weir_dump_hex(out, key->high);
}

void weir_dump_clients(const struct service *service, int64_t now_ns, struct buffer *out)
{
    struct hash_key keys[2];
    int64_t wall_ms = service_wall_ms(service, now_ns);
    weir_records_keys(service->smyte, keys);
    weir_buffer_print(out, "clients cell");
    put_hash_key_hex(out, &service->client_keys->table->region->header->key);
    weir_buffer_print(out, " %" PRId64 "\nclients rl", wall_ms);
    put_hash_key_hex(out, &keys[0]);
    put_hash_key_hex(out, &keys[1]);
    weir_buffer_print(out, " %" PRId64 "\n", wall_ms);
}

static bool put_cell_line(void *arg, const struct export_key *key)
{
    struct buffer *out = arg;
    char text[HUMANIZE_MAX];
    weir_buffer_print(out, "cell #");
    weir_dump_hex(out, key->hash);
    weir_buffer_print(out, " %" PRId64 " # full in %s\n", key->spent[0],
                      weir_humanize_duration(key->spent[0], HUMANIZE_UP, text));
    return !out->failed;
}

bool weir_dump_cells(const struct service *service, int64_t now_ns, struct export_range *range, size_t most,
                     struct buffer *out)
{
    return weir_table_export(service->client_keys->table, now_ns, range, most, NULL, put_cell_line, out);
}

struct dump_buckets {
    struct buffer *out;
    int64_t now_ns;
};

static void put_bucket(void *arg, struct record *record)
{
    const struct dump_buckets *buckets = arg;
    const struct smyte_bucket *bucket = record_bytes(record);
    weir_buffer_print(buckets->out, "rl #");
    weir_dump_hex(buckets->out, record->id.word[0]);
    weir_buffer_print(buckets->out, " #");
    weir_dump_hex(buckets->out, record->id.word[1]);
    weir_buffer_print(buckets->out, " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", bucket->amount,
                      bucket->last_ms, bucket->session_ms,
                      div_up(max64(record->expires_ns - buckets->now_ns, 0), WEIR_MS));
}

bool weir_dump_buckets(const struct service *service, int64_t now_ns, uint64_t *cursor, size_t most,
                       struct buffer *out)
{
    struct dump_buckets buckets = {out, now_ns};
    if (!weir_records_page(service->smyte, now_ns, cursor, most, put_bucket, &buckets))
        *cursor = 0;
    return !out->failed;
}

/* ---- reading ---- */

struct clients_line {
    char room[DUMP_LINE_MAX];
    struct slice words[DUMP_WORDS_MAX];
};

static bool same_key(struct slice word, const struct hash_key *key)
{
    struct hash_key other;
    return weir_dump_read_key(word, &other) && other.low == key->low && other.high == key->high;
}

/* Which keys, and are they those of ours? */
static enum clients_kind read_clients_head(const struct service *service, const struct slice *words,
                                           int count, int64_t *wall_ms, bool *ours)
{
    struct hash_key keys[2];
    weir_records_keys(service->smyte, keys);
    bool known = count > 1 && slice_is(words[0], "clients") && weir_read_integer(words[count - 1], wall_ms);
    if (known && count == 4 && slice_is(words[1], "cell")) {
        *ours = same_key(words[2], &service->client_keys->table->region->header->key);
        return CLIENTS_CELLS;
    }
    if (known && count == 5 && slice_is(words[1], "rl")) {
        *ours = same_key(words[2], &keys[0]) && same_key(words[3], &keys[1]);
        return CLIENTS_BUCKETS;
    }
    return CLIENTS_NONE;
}

enum clients_kind weir_clients_begin(const struct service *service, struct slice text, int64_t *elapsed_ms,
                                     struct weir_error *err)
{
    struct clients_line *line = malloc(sizeof *line);
    int64_t wall_ms = 0;
    bool ours = false;
    if (!line)
        return weir_error_complain_as(err, ENOMEM, "out of memory"), CLIENTS_NONE;
    int count = weir_dump_split(text, line->room, line->words);
    enum clients_kind kind = read_clients_head(service, line->words, count, &wall_ms, &ours);
    free(line);
    *elapsed_ms = clamp64(sat_sub(service_wall_ms(service, weir_now()), wall_ms), 0, LOAD_ELAPSED_MS);
    if (kind == CLIENTS_NONE)
        (void)weir_error_complain_as(
            err, EINVAL, "the line before keys of RL.* and CL.THROTTLE makes no sense: is this a dump?");
    else if (!ours) {
        kind = CLIENTS_NONE;
        (void)weir_error_complain_as(
            err, EEXIST,
            "keys of RL.* and CL.THROTTLE are known by hashes, and here by other ones than in the dump: "
            "these move between servers that were first started with the same hash_key_file alone. "
            "Policies were loaded");
    }
    return kind;
}

static bool read_line_numbers(const struct slice *words, size_t count, int64_t *numbers)
{
    for (size_t i = 0; i < count; i++)
        if (!weir_read_integer(words[i], &numbers[i]))
            return false;
    return true;
}

static bool do_cell(struct service *service, int64_t elapsed_ms, const struct slice *words, int count,
                    bool bring, bool *came)
{
    int64_t debt_ns;
    struct export_key key = {.limits = 1};
    if (count != 3 || !slice_is(words[0], "cell") || !weir_dump_read_hash(words[1], &key.hash) ||
        !read_line_numbers(words + 2, 1, &debt_ns) || debt_ns < 0)
        return false;
    key.spent[0] = max64(debt_ns - elapsed_ms * WEIR_MS, 0);
    if (bring && key.spent[0] > 0)
        *came = weir_table_import(service->client_keys->table, weir_now(), &key);
    return true;
}

/* Time that has passed counts by the wall clock in it. */
static bool do_bucket(struct service *service, int64_t elapsed_ms, const struct slice *words, int count,
                      bool bring, bool *came)
{
    struct record_id id;
    int64_t numbers[4];
    if (count != 7 || !slice_is(words[0], "rl") || !weir_dump_read_hash(words[1], &id.word[0]) ||
        !weir_dump_read_hash(words[2], &id.word[1]) || !read_line_numbers(words + 3, 4, numbers))
        return false;
    struct smyte_bucket bucket = {numbers[0], numbers[1], numbers[2]};
    int64_t left_ns = sat_mul(sat_sub(numbers[3], elapsed_ms), WEIR_MS);
    if (bring && left_ns > 0)
        *came = weir_smyte_bring(service->smyte, &id, &bucket, left_ns, weir_now());
    return numbers[0] >= 0 && numbers[1] >= 0 && numbers[2] >= -1;
}

bool weir_clients_line(struct service *service, enum clients_kind kind, int64_t elapsed_ms, struct slice text,
                       bool bring, bool *came, struct weir_error *err)
{
    struct clients_line *line = malloc(sizeof *line);
    if (!line)
        return weir_error_complain_as(err, ENOMEM, "out of memory");
    *came = true;
    int count = weir_dump_split(text, line->room, line->words);
    bool good = count == 0 ||
                (kind == CLIENTS_CELLS ? do_cell(service, elapsed_ms, line->words, count, bring, came)
                                       : do_bucket(service, elapsed_ms, line->words, count, bring, came));
    free(line);
    return good || weir_error_complain_as(err, EINVAL, "the line of a key makes no sense: is this a dump?");
}
