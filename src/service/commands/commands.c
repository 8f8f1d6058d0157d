/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "service/commands/command.h"

#define MOST   512  /* commands */
#define PLACES 2048 /* of the index, a power of 2 */

static const struct command *const parts[] = {
    weir_commands_take,  weir_commands_reserve,  weir_commands_explain,    weir_commands_policy,
    weir_commands_smyte, weir_commands_cell,     weir_commands_connection, weir_commands_client,
    weir_commands_info,  weir_commands_override, weir_commands_command,    weir_commands_data,
    weir_commands_lease,
};

/* Made once, at the first look, and never changed. */
static struct {
    const struct command *list[MOST];
    size_t count;
    uint16_t places[PLACES]; /* number + 1; 0: empty */
} known;
static pthread_once_t known_once = PTHREAD_ONCE_INIT;

static inline unsigned char fold_letter(char letter)
{
    unsigned char byte = (unsigned char)letter;
    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte | 0x20) : byte;
}

/* Bit 0x20 makes letters small; what it does to others does not matter here, as long as it is always done. */
static inline size_t command_slot(const char *bytes, size_t len)
{
    const uint64_t small = UINT64_C(0x2020202020202020);
    const unsigned char *at = (const unsigned char *)bytes;
    uint64_t hash = len;
    for (size_t i = 0; i + 8 <= len; i += 8)
        hash = (hash ^ (sip_load64(at + i) | small)) * UINT64_C(0xD6E8FEB86659FD93);
    uint64_t rest = sip_rest(at, len) | (small >> (8 * (7 - len % 8)) >> 8);
    hash = (hash ^ rest) * UINT64_C(0xD6E8FEB86659FD93);
    return (size_t)(hash >> 40) & (PLACES - 1);
}

static void add_command(const struct command *command)
{
    size_t at = command_slot(command->name, strlen(command->name));
    if (known.count == MOST)
        return;
    while (known.places[at] != 0)
        at = (at + 1) & (PLACES - 1);
    known.list[known.count++] = command;
    known.places[at] = (uint16_t)known.count;
}

static void fill_command_index(void)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const struct command *command = parts[i]; command->name; command++)
            add_command(command);
}

static bool is_command_name(const char *name, struct slice word)
{
    for (size_t i = 0; i < word.len; i++)
        if (name[i] == '\0' ||
            fold_letter(word.bytes[i]) != (unsigned char)name[i]) /* no further than its NUL */
            return false;
    return name[word.len] == '\0';
}

size_t weir_command_count(void)
{
    (void)pthread_once(&known_once, fill_command_index);
    return known.count;
}

const struct command *weir_command_at(size_t number)
{
    return number < weir_command_count() ? known.list[number] : NULL;
}

/* Two slips at most, and no more than half of the word. */
static bool is_slip(struct slice word, const char *name, size_t *best)
{
    size_t distance = weir_text_distance(word.bytes, word.len, name);
    if (distance > 2 || 2 * distance > strlen(name) || distance >= *best)
        return false;
    *best = distance;
    return true;
}

const struct command *weir_command_near(struct slice name)
{
    const struct command *near = NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < weir_command_count() && name.len > 0 && name.len <= 64; i++) {
        const char *full = weir_command_at(i)->name;
        if (is_slip(name, full, &best) || (strncmp(full, "weir.", 5) == 0 && is_slip(name, full + 5, &best)))
            near = weir_command_at(i);
    }
    return near;
}

const struct command *weir_command_find(struct slice name, size_t *number)
{
    (void)pthread_once(&known_once, fill_command_index);
    if (name.len == 0 || name.len > 64)
        return NULL;
    for (size_t at = command_slot(name.bytes, name.len); known.places[at] != 0;
         at = (at + 1) & (PLACES - 1)) {
        size_t found = known.places[at] - 1u;
        if (is_command_name(known.list[found]->name, name)) {
            if (number)
                *number = found;
            return known.list[found];
        }
    }
    return NULL;
}
