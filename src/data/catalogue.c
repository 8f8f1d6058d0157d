/* SPDX-License-Identifier: MIT */
#include "data/catalogue.h"

#include <errno.h>

#include "base/error.h"
#include "table/persist/persist.h"

#define CATALOGUE_MAGIC UINT64_C(0x5342415452494557) /* "WEIRTABS" */

/* ---- writing ---- */

void weir_catalogue_put_number(struct buffer *out, uint64_t number)
{
    char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(number >> (8 * i) & 0xFF);
    buffer_put(out, bytes, sizeof bytes);
}

void weir_catalogue_put_bytes(struct buffer *out, const char *bytes, size_t len)
{
    weir_catalogue_put_number(out, len);
    buffer_put(out, bytes, len);
}

void weir_catalogue_put_text(struct buffer *out, const char *text)
{
    weir_catalogue_put_number(out, text != NULL);
    if (text)
        weir_catalogue_put_bytes(out, text, strlen(text));
}

size_t weir_catalogue_block(struct buffer *out)
{
    weir_catalogue_put_number(out, 0);
    return buffer_len(out);
}

void weir_catalogue_block_end(struct buffer *out, size_t began)
{
    if (out->failed)
        return;
    uint64_t len = buffer_len(out) - began;
    unsigned char *at = (unsigned char *)buffer_bytes(out) + began - 8;
    for (size_t i = 0; i < 8; i++)
        at[i] = (unsigned char)(len >> (8 * i) & 0xFF);
}

void weir_catalogue_begin(struct buffer *out, enum catalogue_owner owner, uint64_t last_number,
                          uint64_t tables)
{
    out->most = CATALOGUE_MAX;
    weir_catalogue_put_number(out, CATALOGUE_MAGIC);
    weir_catalogue_put_number(out, CATALOGUE_VERSION);
    weir_catalogue_put_number(out, owner);
    weir_catalogue_put_number(out, last_number);
    weir_catalogue_put_number(out, tables);
}

void weir_catalogue_put_table(struct buffer *out, const struct catalogue_table *table,
                              struct weir_table *described)
{
    size_t began = weir_catalogue_block(out);
    weir_catalogue_put_number(out, table->number);
    weir_catalogue_put_bytes(out, table->name.bytes, table->name.len);
    weir_catalogue_put_number(out, (uint64_t)table->lead_ns);
    weir_catalogue_put_number(out, (uint64_t)table->ends_ns);
    size_t description = weir_catalogue_block(out);
    weir_table_describe(described, out);
    weir_catalogue_block_end(out, description);
    weir_catalogue_block_end(out, began);
}

/* ---- reading ---- */

struct catalogue_reader weir_catalogue_reader(struct slice bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.bytes;
    return (struct catalogue_reader){at, at + bytes.len, false};
}

uint64_t weir_catalogue_number(struct catalogue_reader *reader)
{
    uint64_t number = 0;
    if (reader->wrong || reader->end - reader->at < 8) {
        reader->wrong = true;
        return 0;
    }
    for (size_t i = 0; i < 8; i++)
        number |= (uint64_t)reader->at[i] << (8 * i);
    reader->at += 8;
    return number;
}

int64_t weir_catalogue_within(struct catalogue_reader *reader, int64_t least, int64_t most)
{
    int64_t number = (int64_t)weir_catalogue_number(reader);
    if (number < least || number > most)
        reader->wrong = true;
    return reader->wrong ? least : number;
}

struct slice weir_catalogue_bytes(struct catalogue_reader *reader, size_t most)
{
    uint64_t len = weir_catalogue_number(reader);
    if (reader->wrong || len > most || len > (uint64_t)(reader->end - reader->at)) {
        reader->wrong = true;
        return (struct slice){"", 0};
    }
    struct slice bytes = {(const char *)reader->at, len};
    reader->at += len;
    return bytes;
}

/* ---- what is said of one that cannot be used ---- */

static const struct catalogue_texts {
    const char *nonsense, *foreign, *version;
} catalogue_texts[] = {
    [CATALOGUE_PROGRAM] = {"the catalogue of the tables makes no sense; weir doctor DIR tells more, or begin "
                           "again in an empty directory",
                           "this directory belongs to a weir server; a program needs one of its own",
                           "this directory was written by another version of weir; use that one"},
    [CATALOGUE_SERVER] = {"what the data directory says about its tables and policies makes no sense; run "
                          "weir doctor on it, or start from a backup",
                          "the data directory was not written by weir serve; name another one",
                          "the data directory was written by another version of weir; start that version, or "
                          "name another directory"}};

static bool refuse_catalogue(struct weir_error *err, const char *text)
{
    weir_error_set(err, EINVAL, text);
    return false;
}

bool weir_catalogue_nonsense(enum catalogue_owner owner, struct weir_error *err)
{
    return refuse_catalogue(err, catalogue_texts[owner].nonsense);
}

bool weir_catalogue_read(const void *bytes, size_t len, enum catalogue_owner owner,
                         struct catalogue *catalogue, struct weir_error *err)
{
    struct catalogue_reader reader = weir_catalogue_reader((struct slice){bytes, len});
    *catalogue = (struct catalogue){0};
    bool known = weir_catalogue_number(&reader) == CATALOGUE_MAGIC;
    if ((!known || weir_catalogue_number(&reader) != CATALOGUE_VERSION) && !reader.wrong)
        return refuse_catalogue(err, catalogue_texts[owner].version);
    if (weir_catalogue_within(&reader, CATALOGUE_PROGRAM, CATALOGUE_SERVER) != (int64_t)owner &&
        !reader.wrong)
        return refuse_catalogue(err, catalogue_texts[owner].foreign);
    catalogue->last_number = (uint64_t)weir_catalogue_within(&reader, 0, UINT32_MAX);
    catalogue->left = (uint64_t)weir_catalogue_within(&reader, 0, CATALOGUE_TABLES);
    catalogue->tables = reader;
    for (uint64_t i = 0; i < catalogue->left && !reader.wrong; i++)
        (void)weir_catalogue_bytes(&reader, CATALOGUE_MAX);
    catalogue->rest = reader;
    return !reader.wrong || weir_catalogue_nonsense(owner, err);
}

bool weir_catalogue_next(struct catalogue *catalogue, struct catalogue_table *table)
{
    struct catalogue_reader reader =
        weir_catalogue_reader(weir_catalogue_bytes(&catalogue->tables, CATALOGUE_MAX));
    table->number = (uint64_t)weir_catalogue_within(&reader, (int64_t)catalogue->number + 1,
                                                    (int64_t)catalogue->last_number);
    table->name = weir_catalogue_bytes(&reader, WEIR_NAME_MAX);
    table->lead_ns = weir_catalogue_within(&reader, -WEIR_TIME_MAX, WEIR_TIME_MAX);
    table->ends_ns = weir_catalogue_within(&reader, 0, INT64_MAX);
    table->description = weir_catalogue_bytes(&reader, CATALOGUE_MAX);
    catalogue->number = table->number;
    catalogue->left--;
    return !reader.wrong && !memchr(table->name.bytes, '\0', table->name.len);
}
