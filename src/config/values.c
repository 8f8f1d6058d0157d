/* SPDX-License-Identifier: MIT */
/*
 * What the readers of weir.yaml share: complaints, maps by their fields, and values.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/text.h"
#include "config/values.h"
#include "spec/value.h"

#define SHOWN_COLUMNS 72 /* of an excerpt */

/* ---- complaints ---- */

/* The next one, to be filled in; NULL: there are enough. */
static struct config_complaint *new_complaint(struct config_reader *reading, struct config_place place)
{
    if (reading->complaints++ >= CONFIG_COMPLAINTS_MAX)
        return NULL;
    struct config_complaint *complaint = &reading->kept[reading->complaints - 1];
    complaint->file = reading->file;
    complaint->place = place;
    complaint->excerpt[0] = '\0';
    complaint->caret = -1;
    return complaint;
}

void weir_reading_wrong(struct config_reader *reading, struct config_place place, const char *format, ...)
{
    struct config_complaint *complaint = new_complaint(reading, place);
    if (!complaint)
        return;
    char *message = complaint->message;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof complaint->message, format, args);
    va_end(args);
    message[weir_text_cut(message, strlen(message), sizeof complaint->message - 1)] = '\0';
}

static void put_visible_text(struct text *line, const char *text, size_t len)
{
    uint32_t code;
    for (size_t i = 0, step; i < len; i += step ? step : 1) {
        step = weir_utf8_read(text + i, len - i, &code);
        bool good = step > 0 && weir_utf8_printable(code);
        weir_text_put(line, good ? text + i : text[i] == '\n' ? " " : "?", good ? step : 1);
    }
}

void weir_reading_wrong_inside(struct config_reader *reading, const struct yaml_node *node, int32_t column,
                               const char *message)
{
    size_t at = column > 0 ? (size_t)column - 1 : 0, cut = at < SHOWN_COLUMNS ? 0 : at - SHOWN_COLUMNS / 2;
    size_t begin = weir_text_offset(node->text, node->len, cut + 1);
    size_t end = begin + weir_text_offset(node->text + begin, node->len - begin, SHOWN_COLUMNS + 1);
    struct config_place place = node->place;
    if (node->exact)
        place.column += (int)at + (node->plain ? 0 : 1);
    struct config_complaint *complaint = new_complaint(reading, place);
    if (!complaint)
        return;
    struct text text;
    weir_text_init(&text, complaint->excerpt, sizeof complaint->excerpt);
    weir_text_put(&text, "...", cut > 0 ? 3 : 0);
    put_visible_text(&text, node->text + begin, end - begin);
    weir_text_put(&text, "...", end < node->len ? 3 : 0);
    complaint->caret = column > 0 ? (int)(at - cut) + (cut > 0 ? 3 : 0) : -1;
    (void)snprintf(complaint->message, sizeof complaint->message, "%s", message);
}

static bool stands_before(struct config_place one, struct config_place other)
{
    return one.line != other.line ? one.line < other.line : one.column < other.column;
}

/* By insertion, since there are few: those of one place stay as they came. */
void weir_reading_tell(struct config_reader *reading)
{
    const struct config_complaint *sorted[CONFIG_COMPLAINTS_MAX];
    int count = reading->complaints < CONFIG_COMPLAINTS_MAX ? reading->complaints : CONFIG_COMPLAINTS_MAX;
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && stands_before(reading->kept[i].place, sorted[at - 1]->place); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = &reading->kept[i];
    }
    for (int i = 0; i < count; i++)
        reading->complain(reading->arg, sorted[i]);
}

void weir_reading_no_memory(struct config_reader *reading)
{
    if (!reading->out_of_memory)
        weir_reading_wrong(reading, (struct config_place){0, 0}, "out of memory");
    reading->out_of_memory = true;
}

const char *weir_reading_show(const char *bytes, size_t len, char text[static READING_SHOWN])
{
    struct text shown;
    size_t most = READING_SHOWN - 4, step;
    uint32_t code;
    weir_text_init(&shown, text, READING_SHOWN);
    for (size_t i = 0; i < len; i += step ? step : 1) {
        step = weir_utf8_read(bytes + i, len - i, &code);
        bool good = step > 0 && weir_utf8_printable(code);
        if (shown.len + (good ? step : 1) > most) {
            weir_text_put(&shown, "...", 3);
            break;
        }
        weir_text_put(&shown, good ? bytes + i : "?", good ? step : 1);
    }
    return text;
}

/* ---- memory ---- */

char *weir_reading_beside(struct config_reader *reading, const struct yaml_node *node)
{
    const char *slash = strrchr(reading->file, '/');
    size_t folder = slash && node->text[0] != '/' ? (size_t)(slash - reading->file) + 1 : 0;
    char *path = weir_reading_array(reading, folder + node->len + 1, 1);
    if (path) {
        memcpy(path, reading->file, folder);
        memcpy(path + folder, node->text, node->len);
    }
    return path;
}

char *weir_reading_copy(struct config_reader *reading, const char *bytes, size_t len)
{
    char *copy = malloc(len + 1);
    if (!copy) {
        weir_reading_no_memory(reading);
        return NULL;
    }
    if (len > 0)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

void *weir_reading_array(struct config_reader *reading, size_t count, size_t size)
{
    void *array = calloc(count, size);
    if (!array)
        weir_reading_no_memory(reading);
    return array;
}

/* ---- maps ---- */

static bool is_node_named(const struct yaml_node *node, const char *name)
{
    return node->key_len == strlen(name) && memcmp(node->key, name, node->key_len) == 0;
}

const struct yaml_node *weir_node_find(const struct yaml_node *map, const char *name)
{
    for (const struct yaml_node *node = map->kind == NODE_MAP ? map->first : NULL; node; node = node->next)
        if (is_node_named(node, name))
            return node;
    return NULL;
}

size_t weir_node_count(const struct yaml_node *node)
{
    size_t count = 0;
    for (const struct yaml_node *child = node->first; child; child = child->next)
        count++;
    return count;
}

static const char *find_advice(const struct config_map *map, const struct yaml_node *node)
{
    for (size_t i = 0; i < map->advice_count; i++)
        if (is_node_named(node, map->advice[i][0]))
            return map->advice[i][1];
    return NULL;
}

static void complain_unknown(struct config_reader *reading, const struct yaml_node *node, const char *whose,
                             const struct config_map *map)
{
    char shown[READING_SHOWN];
    struct weir_spec specs[WEIR_LIMITS_MAX];
    struct nearest near = weir_nearest(node->key, node->key_len);
    const char *advice = find_advice(map, node);
    for (size_t i = 0; i < map->count; i++)
        (void)weir_nearest_try(&near, map->keys[i].name);
    weir_reading_show(node->key, node->key_len, shown);
    if (advice)
        weir_reading_wrong(reading, node->key_place, "unknown key '%s' in %s; %s", shown, whose, advice);
    else if (near.found)
        weir_reading_wrong(reading, node->key_place, "unknown key '%s' in %s; did you mean %s?", shown, whose,
                           near.found);
    else if (node->len == 0 && node->kind == NODE_TEXT &&
             weir_spec_parse(node->key, specs, WEIR_LIMITS_MAX, NULL) > 0)
        weir_reading_wrong(reading, node->key_place,
                           "in braces several limits stand in brackets: limits: [100/s, %s]", shown);
    else
        weir_reading_wrong(reading, node->key_place, "unknown key '%s' in %s", shown, whose);
}

/* Stands a name twice in a map? Looks no further than the first of that name, which is near the front. */
static bool is_first(struct config_reader *reading, const struct yaml_node *map, const struct yaml_node *node,
                     const char *whose)
{
    const struct yaml_node *first = weir_node_find(map, node->key);
    if (first == node)
        return true;
    weir_reading_wrong(reading, node->key_place, "%s stands twice in %s, first in line %d", node->key, whose,
                       first->key_place.line);
    return false;
}

bool weir_reading_map(struct config_reader *reading, const struct yaml_node *node, const char *whose,
                      const struct config_map *map, void *into)
{
    if (node->kind != NODE_MAP) {
        weir_reading_wrong(reading, node->place, "%s is written as names and values, such as %s: ...", whose,
                           map->keys[0].name);
        return false;
    }
    for (const struct yaml_node *child = node->first; child; child = child->next) {
        const struct config_key *key = NULL;
        for (size_t i = 0; i < map->count && !key; i++)
            if (is_node_named(child, map->keys[i].name))
                key = &map->keys[i];
        if (!key)
            complain_unknown(reading, child, whose, map);
        else if (is_first(reading, node, child, whose))
            weir_reading_key(reading, child, key, into);
        if (reading->complaints >= CONFIG_COMPLAINTS_MAX)
            break;
    }
    return true;
}

void weir_reading_whose(const char *what, const struct yaml_node *node, char whose[static READING_WHOSE])
{
    const struct yaml_node *name = weir_node_find(node, "name");
    char shown[READING_SHOWN];
    if (name && name->kind == NODE_TEXT && name->len > 0)
        (void)snprintf(whose, READING_WHOSE, "%s '%s'", what,
                       weir_reading_show(name->text, name->len, shown));
    else
        (void)snprintf(whose, READING_WHOSE, "a %s", what);
}

/* ---- values ---- */

static bool is_yaml_boolean(const struct yaml_node *node)
{
    static const char *const words[] = {"true", "false", "on", "off", "yes", "no"};
    for (size_t i = 0; node->plain && i < sizeof words / sizeof words[0]; i++)
        if (weir_text_same(node->text, node->len, words[i]))
            return true;
    return false;
}

static bool is_nothing(const struct yaml_node *node)
{
    return node->len == 0 || (node->plain && (weir_text_same(node->text, node->len, "~") ||
                                              weir_text_same(node->text, node->len, "null")));
}

bool weir_reading_is_text(struct config_reader *reading, const struct yaml_node *node,
                          const struct config_key *key)
{
    const char *fault = NULL;
    char message[160];
    if (node->kind != NODE_TEXT)
        fault =
            node->kind == NODE_LIST ? "takes one value, not a list" : "takes one value, not names and values";
    else if (is_nothing(node))
        fault = "has no value";
    else if (memchr(node->text, '\0', node->len))
        fault = "has a NUL character inside";
    if (!fault && is_yaml_boolean(node)) {
        (void)snprintf(message, sizeof message, "is '%.8s', which many YAML tools take for true or false",
                       node->text);
        fault = message;
    }
    if (fault)
        weir_reading_wrong(reading, node->place, "%s %s; write %s", key->name, fault, key->write);
    return !fault;
}

bool weir_reading_is_list(struct config_reader *reading, const struct yaml_node *node,
                          const struct config_key *key, size_t most)
{
    if (node->kind != NODE_LIST)
        weir_reading_wrong(reading, node->place, "%s takes a list; write %s", key->name, key->write);
    else if (!node->first)
        weir_reading_wrong(reading, node->place, "%s is an empty list; leave it out, or write %s", key->name,
                           key->write);
    else if (weir_node_count(node) > most)
        weir_reading_wrong(reading, node->place, "%s has %zu entries; at most %zu", key->name,
                           weir_node_count(node), most);
    else
        return true;
    return false;
}

static void read_each_text(struct config_reader *reading, const struct yaml_node *entry, size_t count,
                           const struct config_key *key, text_read *read, struct text_list *list)
{
    list->texts = weir_reading_array(reading, count, sizeof(char *));
    for (size_t i = 0; list->texts && i < count; i++, entry = entry->next) {
        char *text = read(reading, entry, key);
        if (text)
            list->texts[list->count++] = text;
    }
}

void weir_reading_texts(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key, size_t most, text_read *read, struct text_list *list)
{
    if (weir_reading_is_list(reading, node, key, most))
        read_each_text(reading, node->first, weir_node_count(node), key, read, list);
}

static bool read_scaled_count(const struct yaml_node *node, int64_t *number)
{
    struct spec_fault fault;
    struct spec_reader reader = {.at = node->text, .end = node->text + node->len, .fault = &fault};
    struct quantity quantity;
    if (!weir_spec_is_digit(&reader) || !weir_spec_read_count(&reader, &quantity) ||
        reader.at != reader.end || quantity.under != 1 || quantity.over > SPEC_COUNT_MAX)
        return false;
    *number = (int64_t)quantity.over;
    return true;
}

void weir_reading_unfit(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key)
{
    char shown[READING_SHOWN];
    weir_reading_wrong(reading, node->place, "%s cannot be '%s'; write %s", key->name,
                       weir_reading_show(node->text, node->len, shown), key->write);
}

bool weir_reading_number(struct config_reader *reading, const struct yaml_node *node,
                         const struct config_key *key, int64_t *number)
{
    char why[256];
    int64_t value;
    bool is_time = key->type == KEY_MS || key->type == KEY_NS;
    if (!weir_reading_is_text(reading, node, key))
        return false;
    if (is_time && !weir_config_time(node->text, node->len, &value, why, sizeof why)) {
        weir_reading_wrong(reading, node->place, "%s: %s", key->name, why);
        return false;
    }
    if (!is_time && !read_scaled_count(node, &value)) {
        weir_reading_unfit(reading, node, key);
        return false;
    }
    if (key->type == KEY_MS)
        value = value < key->least * WEIR_MS ? 0 : div_up(value, WEIR_MS);
    if (value < key->least || value > key->most) {
        weir_reading_unfit(reading, node, key);
        return false;
    }
    *number = value;
    return true;
}

int weir_reading_word(struct config_reader *reading, const struct yaml_node *node,
                      const struct config_key *key, const char *const *words)
{
    if (!weir_reading_is_text(reading, node, key))
        return -1;
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == node->len && memcmp(words[i], node->text, node->len) == 0)
            return i;
    weir_reading_unfit(reading, node, key);
    return -1;
}

void weir_reading_later(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key, void *into)
{
    (void)into;
    weir_reading_wrong(reading, node->key_place, "%s is not in this version of weir; %s", key->name,
                       key->write);
}

char *weir_reading_name(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key)
{
    char why[160];
    if (!weir_reading_is_text(reading, node, key))
        return NULL;
    if (weir_config_name(node->text, node->len, why, sizeof why))
        return weir_reading_copy(reading, node->text, node->len);
    weir_reading_wrong(reading, node->place, "%s", why);
    return NULL;
}

/* ---- keys ---- */

void weir_reading_set_text(char **at, char *text)
{
    if (!text)
        return;
    free(*at);
    *at = text;
}

static bool is_fit_text(struct config_reader *reading, const struct yaml_node *node,
                        const struct config_key *key)
{
    if (key->type == KEY_TEXT && key->most > 0 && node->len > (size_t)key->most) {
        weir_reading_wrong(reading, node->place, "%s has %zu bytes; at most %" PRId64, key->name, node->len,
                           key->most);
        return false;
    }
    char shown[READING_SHOWN];
    const char *fault = key->fault ? key->fault(node->text) : NULL;
    bool fit = !fault && (!key->check || key->check(node->text));
    if (fault)
        weir_reading_wrong(reading, node->place, "%s cannot be '%s'; %s", key->name,
                           weir_reading_show(node->text, node->len, shown), fault);
    else if (!fit)
        weir_reading_unfit(reading, node, key);
    return fit;
}

static void read_key_text(struct config_reader *reading, const struct yaml_node *node,
                          const struct config_key *key, char **at)
{
    if (key->type == KEY_NAME)
        weir_reading_set_text(at, weir_reading_name(reading, node, key));
    else if (!weir_reading_is_text(reading, node, key))
        return;
    else if (key->type == KEY_PATH)
        weir_reading_set_text(at, weir_reading_beside(reading, node));
    else if (key->words ? weir_reading_word(reading, node, key, key->words) >= 0
                        : is_fit_text(reading, node, key))
        weir_reading_set_text(at, weir_reading_copy(reading, node->text, node->len));
}

static char *read_listed_text(struct config_reader *reading, const struct yaml_node *node,
                              const struct config_key *key)
{
    return weir_reading_is_text(reading, node, key) && is_fit_text(reading, node, key)
               ? weir_reading_copy(reading, node->text, node->len)
               : NULL;
}

static void read_key_texts(struct config_reader *reading, const struct yaml_node *node,
                           const struct config_key *key, struct text_list *list)
{
    text_read *read = key->type == KEY_NAMES ? weir_reading_name : read_listed_text;
    if (key->one && node->kind == NODE_TEXT)
        read_each_text(reading, node, 1, key, read, list);
    else
        weir_reading_texts(reading, node, key, (size_t)key->most, read, list);
}

static bool is_unset(const struct yaml_node *node, const struct config_key *key)
{
    return key->unset && node->kind == NODE_TEXT && strcmp(node->text, key->unset) == 0;
}

void weir_reading_key(struct config_reader *reading, const struct yaml_node *node,
                      const struct config_key *key, void *into)
{
    int64_t *number = key_number(key, into);
    int word;
    if (key->type == KEY_OWN)
        key->read(reading, node, key, into);
    else if (key->type == KEY_MAP)
        (void)weir_reading_map(reading, node, key->name, key->inside, into);
    else if (key->type == KEY_TEXT || key->type == KEY_NAME || key->type == KEY_PATH) {
        if (!is_unset(node, key))
            read_key_text(reading, node, key, (char **)(void *)number);
    } else if (key->type == KEY_TEXTS || key->type == KEY_NAMES) {
        if (!is_unset(node, key))
            read_key_texts(reading, node, key, (struct text_list *)(void *)number);
    } else if (is_unset(node, key))
        *number = 0;
    else if (key->type != KEY_WORD)
        (void)weir_reading_number(reading, node, key, number);
    else if ((word = weir_reading_word(reading, node, key, key->words)) >= 0)
        *number = word + key->least;
}
