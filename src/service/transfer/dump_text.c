/* SPDX-License-Identifier: MIT */
#include "service/transfer/dump_text.h"

#include <inttypes.h>

#include "base/text.h"
#include "service/commands/call.h"

/* ---- reading ---- */

/* What stands behind the first quote, up to the second. Gives the bytes read, the second quote included; 0:
 * it does not end, or makes no sense. */
static size_t read_quoted(const char *bytes, size_t len, char *room, size_t *wrote)
{
    *wrote = 0;
    for (size_t i = 0; i < len; i++) {
        char letter = bytes[i];
        if (letter == '"')
            return i + 1;
        if (letter != '\\') {
            room[(*wrote)++] = letter;
            continue;
        }
        if (i + 1 < len && (bytes[i + 1] == '"' || bytes[i + 1] == '\\')) {
            room[(*wrote)++] = bytes[++i];
            continue;
        }
        if (i + 3 >= len || bytes[i + 1] != 'x')
            return 0;
        int high = weir_text_hex(bytes[i + 2]), low = weir_text_hex(bytes[i + 3]);
        if (high < 0 || low < 0)
            return 0;
        room[(*wrote)++] = (char)(high * 16 + low);
        i += 3;
    }
    return 0;
}

static size_t read_bare(const char *bytes, size_t len)
{
    size_t i = 0;
    while (i < len && bytes[i] != ' ') {
        if ((unsigned char)bytes[i] < ' ' || bytes[i] == '"')
            return 0;
        i++;
    }
    return i;
}

int weir_dump_split(struct slice line, char *room, struct slice *words)
{
    size_t at = 0, used = 0;
    int count = 0;
    if (line.len > DUMP_LINE_MAX)
        return -1;
    while (at < line.len) {
        const char *bytes = line.bytes + at;
        size_t rest = line.len - at, read, wrote;
        if (bytes[0] == ' ') {
            at++;
            continue;
        }
        if (bytes[0] == '#' && (rest == 1 || bytes[1] == ' '))
            break;
        if (count == DUMP_WORDS_MAX)
            return -1;
        if (bytes[0] == '"') {
            read = read_quoted(bytes + 1, rest - 1, room + used, &wrote);
            words[count++] = (struct slice){room + used, wrote};
            used += wrote;
            at += read + 1;
        } else {
            read = read_bare(bytes, rest);
            words[count++] = (struct slice){bytes, read};
            at += read;
        }
        if (read == 0 || (at < line.len && line.bytes[at] != ' '))
            return -1;
    }
    return count;
}

bool weir_dump_read_hash(struct slice word, uint64_t *hash)
{
    return word.len == 17 && word.bytes[0] == '#' && weir_text_hex_number(word.bytes + 1, 16, hash);
}

bool weir_dump_read_key(struct slice word, struct hash_key *key)
{
    return word.len == 33 && word.bytes[0] == '#' && weir_text_hex_number(word.bytes + 1, 16, &key->low) &&
           weir_text_hex_number(word.bytes + 17, 16, &key->high);
}

bool weir_dump_read_end(struct slice line, uint64_t *keys, uint32_t *crc)
{
    char room[64];
    struct slice words[DUMP_WORDS_MAX];
    int64_t count;
    uint64_t sum;
    if (line.len >= sizeof room || weir_dump_split(line, room, words) != 3 || !slice_is(words[0], "end") ||
        !weir_read_integer(words[1], &count) || count < 0 || words[2].len != 8 ||
        !weir_text_hex_number(words[2].bytes, 8, &sum))
        return false;
    *keys = (uint64_t)count;
    *crc = (uint32_t)sum;
    return true;
}

/* ---- writing ---- */

void weir_dump_quote(struct buffer *out, const char *bytes, size_t len)
{
    buffer_put(out, "\"", 1);
    for (size_t i = 0; i < len;) {
        uint32_t code;
        size_t size = weir_utf8_read(bytes + i, len - i, &code);
        if (bytes[i] == '"' || bytes[i] == '\\') {
            buffer_put(out, "\\", 1);
            buffer_put(out, bytes + i++, 1);
        } else if (size > 0 && code >= ' ' && weir_utf8_printable(code)) {
            buffer_put(out, bytes + i, size);
            i += size;
        } else {
            weir_buffer_print(out, "\\x%02x", (unsigned)(unsigned char)bytes[i++]);
        }
    }
    buffer_put(out, "\"", 1);
}

void weir_dump_hex(struct buffer *out, uint64_t number)
{
    weir_buffer_print(out, "%016" PRIx64, number);
}

void weir_dump_end(struct buffer *out, uint64_t keys, uint32_t crc)
{
    weir_buffer_print(out, "end %" PRIu64 " %08" PRIx32 "\n", keys, crc);
}
