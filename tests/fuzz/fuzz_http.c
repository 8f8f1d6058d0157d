/* SPDX-License-Identifier: MIT */
/*
 * Hostile bytes as HTTP requests: the same ones however the bytes are cut, each ending where a slow model of
 * RFC 9112 sees its end (http_story.h). Targets are decoded and queries taken apart.
 *
 *   byte 0     bits 0-1 which limits, bits 4-7 how long the pieces are
 *   and then   what is sent
 */
#include <stdint.h>

#include "http/uri.h"
#include "http_story.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pieces of 1 to 15 bytes; 0: of lengths that the bytes themselves say. Longer ones of a long input, as each
 * arrival copies what is not used up. */
static size_t piece_len(unsigned rule, const char *bytes, size_t at, size_t len)
{
    return (rule > 0 ? rule : 1U + (unsigned char)bytes[at] % 32) * (1 + len / 256);
}

static void check_requests(unsigned first, const char *bytes, size_t len)
{
    struct http_limits limits = {.head = first & 1 ? 64 : 4096, .body = first & 2 ? 10 : 1 << 20};
    struct http_story whole, cut;
    http_story_begin(&whole, &limits);
    http_story_arrive(&whole, bytes, len);
    http_story_end(&whole, len);
    http_story_begin(&cut, &limits);
    for (size_t end = 0; end < len && !cut.ended; end += piece_len(first >> 4, bytes, end, len))
        http_story_arrive(&cut, bytes, end);
    http_story_arrive(&cut, bytes, len);
    http_story_end(&cut, len);
    MUST(buffer_len(&whole.text) == buffer_len(&cut.text));
    MUST(memcmp(whole.text.bytes, cut.text.bytes, buffer_len(&whole.text)) == 0);
    http_story_free(&whole);
    http_story_free(&cut);
}

static void check_target(const char *bytes, size_t len)
{
    struct slice query = {bytes, len}, name, value;
    char *decoded = malloc(len > 0 ? len : 1);
    MUST(decoded != NULL);
    size_t got = weir_uri_decode(query, true, decoded), taken = 0;
    MUST(got == SIZE_MAX || got <= len);
    for (; weir_query_next(&query, &name, &value); taken += name.len + value.len + 1) {
        MUST(name.bytes >= bytes && name.bytes + name.len <= value.bytes);
        MUST(value.bytes + value.len <= bytes + len);
        MUST(!memchr(name.bytes, '&', name.len) && !memchr(name.bytes, '=', name.len));
        MUST(!memchr(value.bytes, '&', value.len));
    }
    MUST(query.len == 0 && taken <= 2 * len + 1);
    free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    check_requests(data[0], (const char *)data + 1, size - 1);
    check_target((const char *)data + 1, size - 1);
    return 0;
}
