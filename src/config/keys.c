/* SPDX-License-Identifier: MIT */
/*
 * A configuration as YAML, complete: also what nobody said has its line.
 */
#include "config/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/values.h"
#include "spec/spec.h"

/* ---- texts ---- */

static bool is_yaml_word(const char *text, size_t len)
{
    static const char *const words[] = {"true", "false", "on", "off", "yes", "no", "y", "n", "null"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (weir_text_same(text, len, words[i]))
            return true;
    return false;
}

static bool is_plain_byte(char byte, const char *others)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr(others, byte));
}

/* May it stand without quotes, in a block as well as in brackets? */
static bool is_plain_yaml(const char *text, size_t len)
{
    if (len == 0 || len > 256 || is_yaml_word(text, len) || !is_plain_byte(text[0], "/"))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_plain_byte(text[i], "_-./=+@% ") &&
            !(text[i] == ':' && i + 1 < len && is_plain_byte(text[i + 1], "_./=+@%")))
            return false;
    return text[len - 1] != ' ';
}

/* One character in double quotes. A byte that is no UTF-8 stands as the character of its number: YAML knows
 * no bytes. */
static void print_quoted(struct buffer *out, const char *text, size_t len)
{
    uint32_t code;
    buffer_put(out, "\"", 1);
    for (size_t i = 0, step; i < len; i += step ? step : 1) {
        step = weir_utf8_read(text + i, len - i, &code);
        if (step == 0)
            weir_buffer_print(out, "\\x%02X", (unsigned)(unsigned char)text[i]);
        else if (code == '"' || code == '\\')
            weir_buffer_print(out, "\\%c", text[i]);
        else if (weir_utf8_printable(code) && code != 0xFEFF)
            buffer_put(out, text + i, step);
        else
            weir_buffer_print(out, code > 0xFFFF ? "\\U%08X" : "\\u%04X", (unsigned)code);
    }
    buffer_put(out, "\"", 1);
}

void weir_key_print_text(struct buffer *out, const char *text, size_t len)
{
    if (is_plain_yaml(text, len))
        buffer_put(out, text, len);
    else
        print_quoted(out, text, len);
}

void weir_key_print_texts(struct buffer *out, const struct config_key *key, const struct text_list *list,
                          const char *end, int indent)
{
    if (list->count == 0)
        return;
    weir_key_print_name(out, key, indent);
    for (size_t i = 0; i < list->count; i++) {
        char joined[CONFIG_KEY_MAX + 2];
        (void)snprintf(joined, sizeof joined, "%s%s", list->texts[i], end);
        weir_buffer_print(out, i > 0 ? ", " : "[");
        weir_key_print_text(out, joined, strlen(joined));
    }
    weir_buffer_print(out, "]\n");
}

void weir_key_print_time(struct buffer *out, int64_t time_ns)
{
    char text[64];
    (void)weir_spec_format_period(time_ns, text, sizeof text);
    weir_buffer_print(out, "%s", text);
}

static void print_size(struct buffer *out, int64_t bytes)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } units[] = {{"GiB", 1 << 30}, {"GB", 1000000000}, {"MiB", 1 << 20},
                 {"MB", 1000000},  {"KiB", 1 << 10},   {"", 1}};
    size_t unit = 0;
    while (bytes % units[unit].bytes != 0) /* which ends: 1 divides everything */
        unit++;
    weir_buffer_print(out, "%" PRId64 "%s", bytes / units[unit].bytes, units[unit].name);
}

/* ---- keys ---- */

static void print_number(struct buffer *out, const struct config_key *key, int64_t number)
{
    if (key->type == KEY_WORD)
        weir_buffer_print(out, "%s", key->words[number - key->least]);
    else if (key->type == KEY_SIZE)
        print_size(out, number);
    else if (key->type == KEY_COUNT)
        weir_buffer_print(out, "%" PRId64, number);
    else
        weir_key_print_time(out, key->type == KEY_MS ? number * WEIR_MS : number);
}

void weir_key_print_name(struct buffer *out, const struct config_key *key, int indent)
{
    weir_buffer_print(out, "%*s%s: ", indent, "", key->name);
}

static void print_unset(struct buffer *out, const struct config_key *key, int indent)
{
    if (!key->unset)
        return;
    if (key->unset[0] == '#')
        weir_buffer_print(out, "%*s# %s: %s\n", indent, "", key->name, key->unset + 2);
    else
        weir_buffer_print(out, "%*s%s: %s\n", indent, "", key->name, key->unset);
}

static void print_value(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    bool text = key->type == KEY_TEXT || key->type == KEY_NAME || key->type == KEY_PATH;
    const char *value = text ? *(char **)(void *)key_number(key, from) : NULL;
    int64_t number = text ? 0 : *key_number(key, from);
    if (!text && number == 0)
        number = key->usual;
    if (text ? !value : number == 0 && key->type != KEY_WORD) {
        print_unset(out, key, indent);
        return;
    }
    weir_key_print_name(out, key, indent);
    if (text)
        weir_key_print_text(out, value, strlen(value));
    else
        print_number(out, key, number);
    buffer_put(out, "\n", 1);
}

void weir_key_print(struct buffer *out, const struct config_key *key, const void *from, int indent)
{
    if (key->type == KEY_MAP) {
        size_t before = buffer_len(out);
        weir_buffer_print(out, "%*s%s:\n", indent, "", key->name);
        size_t empty = buffer_len(out);
        weir_keys_print(out, key->inside, from, indent + 2, false);
        if (buffer_len(out) == empty)
            out->end = out->start + before;
    } else if (key->type == KEY_TEXTS || key->type == KEY_NAMES) {
        const struct text_list *list = (const void *)key_number(key, from);
        if (list->count > 0)
            weir_key_print_texts(out, key, list, "", indent);
        else
            print_unset(out, key, indent);
    } else if (key->type != KEY_OWN) {
        print_value(out, key, from, indent);
    } else if (key->print) {
        key->print(out, key, from, indent);
    }
}

void weir_keys_print(struct buffer *out, const struct config_map *map, const void *from, int indent,
                     bool entry)
{
    if (entry)
        weir_buffer_print(out, "%*s- ", indent - 2, "");
    for (size_t i = 0; i < map->count; i++)
        weir_key_print(out, &map->keys[i], from, entry && i == 0 ? 0 : indent);
}
