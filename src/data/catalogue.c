/* SPDX-License-Identifier: MIT */
#include "data/catalogue.h"

#include <errno.h>

#include "base/error.h"

static const char magic[8] = {'W', 'E', 'I', 'R', 'D', 'A', 'T', 'A'};

struct catalogue_head {
    char magic[8];
    uint32_t version, count, last_number, spare;
};

struct catalogue_entry {
    uint32_t number, name_len, description_len, spare;
};

/* ---- writing ---- */

static void put_padded_slice(struct buffer *out, struct slice bytes)
{
    static const char zeros[8];
    buffer_put(out, bytes.bytes, bytes.len);
    buffer_put(out, zeros, -bytes.len & 7);
}

void weir_data_catalogue_begin(struct buffer *out, uint32_t count, uint32_t last_number)
{
    struct catalogue_head head = {
        .version = DATA_CATALOGUE_VERSION, .count = count, .last_number = last_number};
    memcpy(head.magic, magic, sizeof magic);
    buffer_put(out, (const char *)&head, sizeof head);
}

void weir_data_catalogue_put(struct buffer *out, uint32_t number, struct slice name, struct slice description)
{
    struct catalogue_entry entry = {number, (uint32_t)name.len, (uint32_t)description.len, 0};
    buffer_put(out, (const char *)&entry, sizeof entry);
    put_padded_slice(out, name);
    put_padded_slice(out, description);
}

/* ---- reading ---- */

static bool refuse_catalogue(struct weir_error *err, const char *text)
{
    weir_error_set(err, EINVAL, text);
    return false;
}

static bool refuse_damaged_catalogue(struct weir_error *err)
{
    return refuse_catalogue(
        err, "the catalogue of the tables makes no sense; weir doctor DIR tells more, or begin again in an "
             "empty directory");
}

bool weir_data_catalogue_read(const void *bytes, size_t len, struct data_catalogue_reader *reader,
                              struct weir_error *err)
{
    struct catalogue_head head;
    if (len < sizeof head)
        return refuse_damaged_catalogue(err);
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0)
        return refuse_catalogue(err,
                                "this directory belongs to a weir server; a program needs one of its own");
    if (head.version != DATA_CATALOGUE_VERSION)
        return refuse_catalogue(err, "this directory was written by a later version of weir; use that one");
    if (head.count > CATALOGUE_TABLES_MAX)
        return refuse_damaged_catalogue(err);
    *reader =
        (struct data_catalogue_reader){(const unsigned char *)bytes + sizeof head,
                                       (const unsigned char *)bytes + len, head.count, head.last_number};
    return true;
}

static bool get_padded_slice(struct data_catalogue_reader *reader, uint32_t len, struct slice *slice)
{
    size_t padded = ((size_t)len + 7) & ~(size_t)7;
    if ((size_t)(reader->end - reader->at) < padded)
        return false;
    *slice = (struct slice){(const char *)reader->at, len};
    reader->at += padded;
    return true;
}

bool weir_data_catalogue_next(struct data_catalogue_reader *reader, struct catalogue_table *table,
                              struct weir_error *err)
{
    struct catalogue_entry entry;
    if (reader->left == 0 || (size_t)(reader->end - reader->at) < sizeof entry)
        return refuse_damaged_catalogue(err);
    memcpy(&entry, reader->at, sizeof entry);
    reader->at += sizeof entry;
    reader->left--;
    table->number = entry.number;
    if (entry.number == 0 || entry.number > reader->last_number || entry.name_len < 1 ||
        entry.name_len > WEIR_NAME_MAX || !get_padded_slice(reader, entry.name_len, &table->name) ||
        !get_padded_slice(reader, entry.description_len, &table->description) ||
        memchr(table->name.bytes, '\0', table->name.len))
        return refuse_damaged_catalogue(err);
    return true;
}
