/* SPDX-License-Identifier: MIT */
#include "data/note.h"

#include <errno.h>

#include "base/error.h"

static const char magic[8] = {'W', 'E', 'I', 'R', 'D', 'A', 'T', 'A'};

struct note_head {
    char magic[8];
    uint32_t version, count, last_number, spare;
};

struct note_entry {
    uint32_t number, name_len, description_len, spare;
};

/* ---- writing ---- */

static void put_padded(struct buffer *out, struct slice bytes)
{
    static const char zeros[8];
    buffer_put(out, bytes.bytes, bytes.len);
    buffer_put(out, zeros, -bytes.len & 7);
}

void weir_data_note_begin(struct buffer *out, uint32_t count, uint32_t last_number)
{
    struct note_head head = {.version = NOTE_VERSION, .count = count, .last_number = last_number};
    memcpy(head.magic, magic, sizeof magic);
    buffer_put(out, (const char *)&head, sizeof head);
}

void weir_data_note_put(struct buffer *out, uint32_t number, struct slice name, struct slice description)
{
    struct note_entry entry = {number, (uint32_t)name.len, (uint32_t)description.len, 0};
    buffer_put(out, (const char *)&entry, sizeof entry);
    put_padded(out, name);
    put_padded(out, description);
}

/* ---- reading ---- */

static bool refuse(struct weir_error *err, const char *text)
{
    weir_error_set(err, EINVAL, text);
    return false;
}

static bool makes_no_sense(struct weir_error *err)
{
    return refuse(err,
                  "the note of the tables makes no sense; weir doctor DIR tells more, or begin again in an "
                  "empty directory");
}

bool weir_data_note_read(const void *bytes, size_t len, struct note_reader *reader, struct weir_error *err)
{
    struct note_head head;
    if (len < sizeof head)
        return makes_no_sense(err);
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0)
        return refuse(err, "this directory belongs to a weir server; a program needs one of its own");
    if (head.version != NOTE_VERSION)
        return refuse(err, "this directory was written by a later version of weir; use that one");
    if (head.count > NOTE_TABLES_MAX)
        return makes_no_sense(err);
    *reader = (struct note_reader){(const unsigned char *)bytes + sizeof head,
                                   (const unsigned char *)bytes + len, head.count, head.last_number};
    return true;
}

static bool get_padded(struct note_reader *reader, uint32_t len, struct slice *slice)
{
    size_t padded = ((size_t)len + 7) & ~(size_t)7;
    if ((size_t)(reader->end - reader->at) < padded)
        return false;
    *slice = (struct slice){(const char *)reader->at, len};
    reader->at += padded;
    return true;
}

bool weir_data_note_next(struct note_reader *reader, struct note_table *table, struct weir_error *err)
{
    struct note_entry entry;
    if (reader->left == 0 || (size_t)(reader->end - reader->at) < sizeof entry)
        return makes_no_sense(err);
    memcpy(&entry, reader->at, sizeof entry);
    reader->at += sizeof entry;
    reader->left--;
    table->number = entry.number;
    if (entry.number == 0 || entry.number > reader->last_number || entry.name_len < 1 ||
        entry.name_len > WEIR_NAME_MAX || !get_padded(reader, entry.name_len, &table->name) ||
        !get_padded(reader, entry.description_len, &table->description) ||
        memchr(table->name.bytes, '\0', table->name.len))
        return makes_no_sense(err);
    return true;
}
