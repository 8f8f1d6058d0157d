/* SPDX-License-Identifier: MIT */
/*
 * Hostile bytes as JSON. weir_json_skip and a reader that asks for every value by its type agree on what is
 * JSON, but for numbers that are not whole; strings that were read are UTF-8, and are read again from what is
 * written of them. The same bytes as base64: what is decoded and written again is decoded alike.
 */
#include <stdint.h>

#include "http/json.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *copy_bytes(const void *bytes, size_t len)
{
    char *copy = malloc(len > 0 ? len : 1);
    MUST(copy != NULL);
    if (len > 0)
        memcpy(copy, bytes, len);
    return copy;
}

static void check_string(const struct json_reader *reader, struct slice text)
{
    MUST(text.bytes >= reader->start && text.bytes + text.len < reader->at);
    MUST(weir_json_is_utf8(text.bytes, text.len));
    struct buffer out = {0};
    weir_json_put_string(&out, text.bytes, text.len);
    struct json_reader again;
    struct slice same;
    weir_json_begin(&again, buffer_bytes(&out), buffer_len(&out));
    MUST(weir_json_string(&again, &same) && weir_json_end(&again));
    MUST(same.len == text.len && memcmp(same.bytes, text.bytes, text.len) == 0);
    weir_buffer_free(&out);
}

/* By type; *odd: a number was no whole one, or too large. */
static bool read_value(struct json_reader *reader, bool *odd)
{
    struct slice text;
    int64_t number;
    bool flag;
    MUST(reader->depth <= JSON_DEPTH_MAX);
    switch (weir_json_next(reader)) {
    case JSON_OBJECT:
        if (weir_json_enter(reader, '{'))
            while (weir_json_member(reader, &text)) {
                check_string(reader, text);
                if (!read_value(reader, odd))
                    return false;
            }
        return !reader->why[0];
    case JSON_ARRAY:
        if (weir_json_enter(reader, '['))
            while (weir_json_element(reader))
                if (!read_value(reader, odd))
                    return false;
        return !reader->why[0];
    case JSON_STRING:
        if (!weir_json_string(reader, &text))
            return false;
        check_string(reader, text);
        return true;
    case JSON_NUMBER:
        if (weir_json_integer(reader, &number)) {
            MUST(number >= -JSON_INTEGER_MAX && number <= JSON_INTEGER_MAX);
            return true;
        }
        *odd = true;
        return false;
    case JSON_TRUE:
    case JSON_FALSE:
        return weir_json_literal(reader, &flag);
    default:
        return weir_json_skip(reader);
    }
}

static void check_json(const uint8_t *data, size_t size)
{
    char *skipped = copy_bytes(data, size), *read = copy_bytes(data, size);
    struct json_reader skip, by_type;
    bool odd = false;
    weir_json_begin(&skip, skipped, size);
    weir_json_begin(&by_type, read, size);
    bool is_json = weir_json_skip(&skip) && weir_json_end(&skip);
    bool same = read_value(&by_type, &odd) && weir_json_end(&by_type);
    MUST(is_json == same || odd);
    MUST(is_json == (skip.why[0] == '\0') && same == (by_type.why[0] == '\0'));
    MUST(!is_json || (skip.at == skip.end && skip.depth == 0));
    MUST(is_json || odd || strcmp(skip.why, by_type.why) == 0);
    MUST(strlen(skip.why) < sizeof skip.why && skip.at <= skip.end);
    free(skipped);
    free(read);
}

static void check_base64(const uint8_t *data, size_t size)
{
    char *bytes = copy_bytes(data, size);
    struct slice text = {(const char *)data, size};
    size_t len = weir_base64_decode(text, bytes);
    struct buffer out = {0};
    if (len != SIZE_MAX) {
        MUST(len <= size / 4 * 3 + 2);
        weir_base64_put(&out, bytes, len);
        MUST(buffer_len(&out) == (len + 2) / 3 * 4);
        char *room = copy_bytes(buffer_bytes(&out), buffer_len(&out));
        MUST(weir_base64_decode((struct slice){buffer_bytes(&out), buffer_len(&out)}, room) == len);
        MUST(len == 0 || memcmp(room, bytes, len) == 0);
        free(room);
    }
    weir_buffer_free(&out);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_json(data, size);
    check_base64(data, size);
    return 0;
}
