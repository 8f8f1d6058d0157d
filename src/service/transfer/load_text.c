/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "config/read_policy.h"
#include "core/idle.h"
#include "service/commands/call.h"
#include "service/transfer/load_text.h"
#include "table/persist/persist.h"

/* A line in words: too much for the stack of a thread. */
struct dump_line_split {
    char room[DUMP_LINE_MAX];
    struct slice words[DUMP_WORDS_MAX];
};

/* With a NUL behind it; false: too long, or it has one inside. */
static bool copy_word(struct slice word, char *text, size_t size)
{
    if (word.len >= size || memchr(word.bytes, '\0', word.len))
        return false;
    memcpy(text, word.bytes, word.len);
    text[word.len] = '\0';
    return true;
}

/* ---- the policy ---- */

/* What stands behind "name=", if it is that. */
static bool is_setting(struct slice word, const char *name, struct slice *value)
{
    size_t len = strlen(name);
    if (word.len <= len || memcmp(word.bytes, name, len) != 0 || word.bytes[len] != '=')
        return false;
    *value = (struct slice){word.bytes + len + 1, word.len - len - 1};
    return true;
}

static bool parse_bounded_number(struct slice value, int64_t least, int64_t most, int64_t *number)
{
    return weir_read_integer(value, number) && *number >= least && *number <= most;
}

static bool parse_mode_name(struct slice value, enum policy_mode *mode)
{
    char why[200], text[32];
    int percent;
    return copy_word(value, text, sizeof text) &&
           weir_config_mode(text, strlen(text), mode, &percent, why, sizeof why);
}

static bool parse_setting(const struct config_key *key, struct slice value, int64_t *number)
{
    if (!key->words)
        return parse_bounded_number(value, key->least, key->most, number);
    for (int64_t i = 0; key->words[i]; i++)
        if (slice_is(value, key->words[i])) {
            *number = key->least + i;
            return true;
        }
    return false;
}

static bool read_setting(struct policy_definition *definition, struct slice word)
{
    struct slice value;
    int64_t percent;
    if (is_setting(word, "mode", &value))
        return parse_mode_name(value, &definition->mode);
    if (is_setting(word, "percent", &value)) {
        if (!parse_bounded_number(value, 1, CONFIG_PERCENT_ALL, &percent))
            return false;
        definition->percent = (int)percent;
        return true;
    }
    if (is_setting(word, "fleet", &value)) {
        definition->fleet = slice_is(value, "1");
        return definition->fleet;
    }
    if (is_setting(word, "address", &value)) {
        definition->address = slice_is(value, "1");
        return definition->address;
    }
    const struct config_key *key;
    for (size_t i = 0; (key = weir_setting_at(i)); i++)
        if (is_setting(word, key->dumped, &value))
            return parse_setting(key, value, key_number(key, &definition->settings));
    return false;
}

static bool read_definition_line(struct policy_definition *definition, const struct slice *words, int count)
{
    char why[200];
    if (count == 0 || slice_is(words[0], "override"))
        return true;
    if (slice_is(words[0], "policy"))
        return count == 2 && weir_config_name(words[1].bytes, words[1].len, why, sizeof why) &&
               copy_word(words[1], definition->name, sizeof definition->name);
    if (slice_is(words[0], "limits"))
        return count == 2 && copy_word(words[1], definition->limits, sizeof definition->limits);
    bool good = slice_is(words[0], "settings");
    for (int i = 1; good && i < count; i++)
        good = read_setting(definition, words[i]);
    return good;
}

static bool read_definition(struct policy_definition *definition, const struct slice *lines, size_t count,
                            struct dump_line_split *split, struct weir_error *err)
{
    *definition =
        (struct policy_definition){.percent = CONFIG_PERCENT_ALL, .settings = weir_settings_usual()};
    for (size_t i = 0; i < count; i++) {
        int found = weir_dump_split(lines[i], split->room, split->words);
        if (found < 0 || !read_definition_line(definition, split->words, found))
            return weir_error_complain_as(
                err, EINVAL, "a line that says what the policy is makes no sense: is this a dump?");
    }
    definition->settings.ttl_ms = min64(definition->settings.ttl_ms, definition->settings.ttl_max_ms);
    if (!definition->name[0] || !definition->limits[0])
        return weir_error_complain_as(err, EINVAL,
                                      "the lines 'policy' and 'limits' are missing: is this a dump?");
    return true;
}

bool weir_definition_read(struct policy_definition *definition, const struct slice *lines, size_t count,
                          struct weir_error *err)
{
    struct dump_line_split *split = malloc(sizeof *split);
    bool good = split ? read_definition(definition, lines, count, split, err)
                      : weir_error_complain_as(err, EINVAL, "out of memory");
    free(split);
    return good;
}

/* ---- tables ---- */

static bool read_table(struct load_table *table, const struct slice *words)
{
    *table = (struct load_table){0};
    bool good = slice_is(words[0], "table") && words[1].len <= sizeof table->prefix &&
                (slice_is(words[2], "words") || slice_is(words[2], "wide")) &&
                weir_dump_read_key(words[3], &table->key) &&
                parse_bounded_number(words[4], 0, WEIR_TIME_MAX, &table->time) &&
                parse_bounded_number(words[5], 0, INT64_MAX, &table->wall_ms) &&
                parse_bounded_number(words[6], 1, INT64_C(1) << 40, &table->capacity) &&
                copy_word(words[7], table->limits, sizeof table->limits);
    struct weir_policy *policy = good ? weir_policy_idle(table->limits, NULL) : NULL;
    weir_policy_free(policy);
    if (!policy)
        return false;
    table->wide = slice_is(words[2], "wide");
    table->prefix_len = words[1].len;
    memcpy(table->prefix, words[1].bytes, words[1].len);
    return true;
}

bool weir_load_table_read(struct load_table *table, struct slice line, struct weir_error *err)
{
    struct dump_line_split *split = malloc(sizeof *split);
    if (!split)
        return weir_error_complain_as(err, EINVAL, "out of memory");
    bool good = weir_dump_split(line, split->room, split->words) == 8 && read_table(table, split->words);
    free(split);
    return good || weir_error_complain_as(err, EINVAL, "the line of a table makes no sense: is this a dump?");
}

/* ---- keys ---- */

/* The name in quotes, the hash, or of what is shared the hashes from and to. */
static bool parse_line_key(struct load_line *line, int count)
{
    const struct slice *name = &line->words[1];
    line->name = NULL;
    line->len = 0;
    line->hash = 0;
    if (line->shared)
        return count >= 3 && weir_dump_read_hash(*name, &line->hash) &&
               weir_dump_read_hash(line->words[2], &line->to) && line->hash <= line->to;
    bool quoted = name->bytes >= line->room && name->bytes <= line->room + sizeof line->room;
    if (!quoted)
        return weir_dump_read_hash(*name, &line->hash);
    line->name = name->bytes;
    line->len = name->len;
    return line->len <= KEY_MAX;
}

static bool parse_load_line(struct load_line *line, int count)
{
    if (count < 2)
        return false;
    bool shared_spent = slice_is(line->words[0], "shared-spent");
    line->shared = shared_spent || slice_is(line->words[0], "shared");
    line->spent = shared_spent || slice_is(line->words[0], "spent");
    if ((!line->spent && !line->shared && !slice_is(line->words[0], "key")) || !parse_line_key(line, count))
        return false;
    size_t first = line->shared ? 3 : 2;
    line->count = (size_t)count - first;
    for (size_t i = 0; i < line->count; i++)
        if (!weir_read_integer(line->words[first + i], &line->numbers[i]) ||
            (line->spent && line->numbers[i] < 0))
            return false;
    return true;
}

bool weir_load_line_read(struct load_line *line, struct slice text, struct weir_error *err)
{
    int count = weir_dump_split(text, line->room, line->words);
    line->nothing = count == 0;
    return parse_load_line(line, count) ||
           weir_error_complain_as(err, EINVAL, "the line of a key makes no sense: is this a dump?");
}
