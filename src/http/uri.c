/* SPDX-License-Identifier: MIT */
#include "http/uri.h"

#include "base/text.h"

size_t weir_uri_decode(struct slice text, bool plus, char *bytes)
{
    size_t len = 0;
    if (bytes == text.bytes && text.len > 0 && !plus &&
        !memchr(bytes, '%', text.len)) /* most have nothing to decode */
        return text.len;
    for (size_t i = 0; i < text.len; i++) {
        char byte = text.bytes[i];
        if (byte == '%') {
            uint64_t code;
            if (text.len - i < 3 || !weir_text_hex_number(text.bytes + i + 1, 2, &code))
                return SIZE_MAX;
            byte = (char)code;
            i += 2;
        } else if (byte == '+' && plus) {
            byte = ' ';
        }
        bytes[len++] = byte;
    }
    return len;
}

/* The bytes up to the first `mark`, which is taken, too, or all of them. */
static struct slice take_until(struct slice *text, char mark)
{
    const char *found = memchr(text->bytes, mark, text->len);
    struct slice taken = {text->bytes, found ? (size_t)(found - text->bytes) : text->len};
    size_t used = taken.len + (found != NULL);
    *text = (struct slice){text->bytes + used, text->len - used};
    return taken;
}

bool weir_query_next(struct slice *query, struct slice *name, struct slice *value)
{
    while (query->len > 0) {
        *value = take_until(query, '&');
        if (value->len > 0) {
            *name = take_until(value, '=');
            return true;
        }
    }
    return false;
}
