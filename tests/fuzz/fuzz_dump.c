/* SPDX-License-Identifier: MIT */
/*
 * Hostile lines of a dump. Each line of the input is split, read as every kind of line there is, and said to
 * a load of a policy. Whatever they say: nothing breaks, and what was quoted comes back as it was.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "must.h"
#include "service/transfer/dump_text.h"
#include "service/transfer/load_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char room[DUMP_LINE_MAX], again[DUMP_LINE_MAX];
static struct slice words[DUMP_WORDS_MAX], back[DUMP_WORDS_MAX];
static struct load_line key;
static struct load_table table;
static struct policy_definition definition;

/* Any word, in quotes, is the same word. */
static void quote_words(int count)
{
    for (int i = 0; i < count && words[i].len < DUMP_LINE_MAX / 4 - 2; i++) {
        struct buffer out = {0};
        weir_dump_quote(&out, words[i].bytes, words[i].len);
        MUST(weir_dump_split((struct slice){buffer_bytes(&out), buffer_len(&out)}, again, back) == 1);
        MUST(back[0].len == words[i].len && memcmp(back[0].bytes, words[i].bytes, words[i].len) == 0);
        weir_buffer_free(&out);
    }
}

static void read_line(struct slice line)
{
    struct weir_error err;
    uint64_t number;
    uint32_t crc;
    struct hash_key hash;
    int count = weir_dump_split(line, room, words);
    MUST(count >= -1 && count <= DUMP_WORDS_MAX);
    for (int i = 0; i < count; i++) {
        (void)weir_dump_read_hash(words[i], &number);
        (void)weir_dump_read_key(words[i], &hash);
    }
    quote_words(count);
    (void)weir_dump_read_end(line, &number, &crc);
    (void)weir_load_line_read(&key, line, &err);
    (void)weir_load_table_read(&table, line, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data, *end = at + size;
    struct slice lines[64];
    size_t count = 0;
    struct weir_error err;
    while (at < end && count < 64) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        lines[count] = (struct slice){at, len};
        read_line(lines[count++]);
        at += len + 1;
    }
    (void)weir_definition_read(&definition, lines, count, &err);
    return 0;
}
