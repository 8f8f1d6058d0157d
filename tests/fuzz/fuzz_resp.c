/* SPDX-License-Identifier: MIT */
/*
 * Hostile bytes as requests, and as replies. Requests must be the same however the bytes are cut, and lie in
 * the bytes; a reply must be the same with and without bytes behind it, and incomplete without its last one.
 *
 *   byte 0     bits 0-3 which limits, bits 4-7 how long the pieces are
 *   and then   what is sent
 */
#include <stdint.h>

#include "must.h"
#include "resp/read.h"
#include "resp/reply.h"
#include "resp_story.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- requests ------------------------------------------------------------------------------------- */

static struct resp_limits limits_of(unsigned which)
{
    return (struct resp_limits){.args = which & 1 ? 3 : 64,
                                .bulk = which & 2 ? 5 : 1 << 20,
                                .all = which & 4 ? 40 : 2 << 20,
                                .unauthenticated = which & 8};
}

/* Pieces of 1 to 15 bytes; 0: of lengths that the bytes themselves say. Longer ones of a long input, as each
 * arrival copies what is not used up. */
static size_t piece_len(unsigned rule, const char *bytes, size_t at, size_t len)
{
    return (rule > 0 ? rule : 1U + (unsigned char)bytes[at] % 32) * (1 + len / 256);
}

static void check_requests(unsigned first, const char *bytes, size_t len)
{
    struct resp_limits limits = limits_of(first & 15);
    struct story whole, cut;
    story_begin(&whole, &limits);
    story_arrive(&whole, bytes, len);
    story_end(&whole, len);
    story_begin(&cut, &limits);
    for (size_t end = 0; end < len && !cut.ended; end += piece_len(first >> 4, bytes, end, len))
        story_arrive(&cut, bytes, end);
    if (!cut.ended)
        story_arrive(&cut, bytes, len);
    story_end(&cut, len);
    MUST(whole.ended == cut.ended);
    MUST(buffer_len(&whole.text) == buffer_len(&cut.text));
    MUST(memcmp(whole.text.bytes, cut.text.bytes, buffer_len(&whole.text)) == 0);
    story_free(&whole);
    story_free(&cut);
}

/* ---- replies -------------------------------------------------------------------------------------- */

static void check_text(struct slice text, const char *bytes, size_t used)
{
    uintptr_t from = (uintptr_t)bytes, at = (uintptr_t)text.bytes;
    MUST(text.len <= used);
    MUST(text.len == 0 || (at >= from && at + text.len <= from + used));
}

/* Gives how many values there are. */
static size_t check_value(const struct resp_value *value, const char *bytes, size_t used, int depth)
{
    size_t all = 1;
    MUST(depth <= RESP_DEPTH_MAX && value->type <= RESP_PUSH);
    MUST(value->count <= RESP_ELEMENTS_MAX && (value->count == 0) == (value->elements == NULL));
    MUST(value->count == 0 || value->type >= RESP_ARRAY);
    MUST(value->type != RESP_MAP || value->count % 2 == 0);
    check_text(value->text, bytes, used);
    for (size_t i = 0; i < value->count; i++)
        all += check_value(&value->elements[i], bytes, used, depth + 1);
    (void)weir_resp_get(value, "a");
    return all;
}

static enum resp_parsed parse(const char *bytes, size_t len, size_t *used, size_t *values)
{
    struct resp_value *value;
    enum resp_parsed parsed = weir_resp_parse(bytes, len, &value, used);
    MUST((parsed == RESP_PARSED) == (value != NULL) && parsed != RESP_NO_MEMORY);
    if (value) {
        MUST(*used > 0 && *used <= len);
        *values = check_value(value, bytes, *used, 0);
    }
    weir_resp_value_free(value);
    return parsed;
}

/* The same in memory of just that length. */
static enum resp_parsed parse_exactly(const char *bytes, size_t len, size_t *used, size_t *values)
{
    char *there = malloc(len > 0 ? len : 1);
    MUST(there != NULL);
    if (len > 0)
        memcpy(there, bytes, len);
    enum resp_parsed parsed = parse(there, len, used, values);
    free(there);
    return parsed;
}

static void check_replies(const char *bytes, size_t len)
{
    size_t used = 0, values = 0, used_again = 0, values_again = 0;
    for (; parse(bytes, len, &used, &values) == RESP_PARSED; bytes += used, len -= used) {
        MUST(parse_exactly(bytes, used, &used_again, &values_again) == RESP_PARSED);
        MUST(used == used_again && values == values_again);
        MUST(parse_exactly(bytes, used - 1, &used_again, &values_again) == RESP_INCOMPLETE);
    }
    (void)parse_exactly(bytes, len, &used, &values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    check_requests(data[0], (const char *)data + 1, size - 1);
    check_replies((const char *)data + 1, size - 1);
    return 0;
}
