/* SPDX-License-Identifier: MIT */
/*
 * YAML into a tree, by the events of libyaml: texts, lists and maps, and nothing else. Anchors, aliases and
 * tags are refused: what a configuration says stands where it says it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/text.h"
#include "config/values.h"
#include "config/yaml.h"

struct yaml_reader {
    yaml_parser_t parser;
    struct config_reader *reading;
    const char *text;
    size_t len, nodes;
};

/* Marks count characters from 0. */
static struct config_place place_of_mark(const yaml_mark_t *mark)
{
    return (struct config_place){(int)mark->line + 1, (int)mark->column + 1};
}

/* ---- memory ---- */

static void wipe_text(char *text, size_t len)
{
    if (text)
        weir_secret_wipe(text, len);
    free(text);
}

/* No deeper than CONFIG_DEPTH_MAX. */
void weir_node_free(struct yaml_node *node)
{
    while (node) {
        struct yaml_node *next = node->next;
        weir_node_free(node->first);
        wipe_text(node->text, node->len);
        wipe_text(node->key, node->key_len);
        free(node);
        node = next;
    }
}

static struct yaml_node *node_new(struct yaml_reader *yaml, enum yaml_node_kind kind, const yaml_mark_t *mark)
{
    if (++yaml->nodes > CONFIG_NODES_MAX) {
        weir_reading_wrong(yaml->reading, place_of_mark(mark), "too many values in one file: at most %d",
                           CONFIG_NODES_MAX);
        return NULL;
    }
    struct yaml_node *node = calloc(1, sizeof *node);
    if (!node) {
        weir_reading_no_memory(yaml->reading);
        return NULL;
    }
    node->kind = kind;
    node->place = place_of_mark(mark);
    return node;
}

/* ---- what libyaml complains about ---- */

/* The reader of bytes knows an offset only. */
static struct config_place place_at_offset(const struct yaml_reader *yaml, size_t offset)
{
    if (offset > yaml->len)
        offset = yaml->len;
    struct config_place place = {1, 1};
    const char *start = yaml->text;
    for (const char *at = yaml->text; at < yaml->text + offset; at++)
        if (*at == '\n') {
            place.line++;
            start = at + 1;
        }
    place.column = weir_text_column(start, (size_t)(yaml->text + offset - start));
    return place;
}

static void complain_yaml(struct yaml_reader *yaml)
{
    const yaml_parser_t *parser = &yaml->parser;
    const char *problem = parser->problem ? parser->problem : "it ends in the middle";
    if (parser->error == YAML_MEMORY_ERROR)
        weir_reading_no_memory(yaml->reading);
    else if (parser->error == YAML_READER_ERROR)
        weir_reading_wrong(yaml->reading, place_at_offset(yaml, parser->problem_offset),
                           "this is no UTF-8 text: %s", problem);
    else if (strstr(problem, "cannot start any token"))
        weir_reading_wrong(yaml->reading, place_of_mark(&parser->problem_mark),
                           "a value cannot begin like this; put it in quotes, and use no tabs");
    else if (strstr(problem, "unexpected ':'"))
        weir_reading_wrong(yaml->reading, place_of_mark(&parser->problem_mark),
                           "a word that ends in ':' is a name here; put it in quotes: \"user:\"");
    else if (parser->context && strstr(parser->context, "an alias"))
        weir_reading_wrong(yaml->reading, place_of_mark(&parser->context_mark),
                           "a text that begins with * stands in quotes: \"*\"");
    else if (parser->context && parser->context_mark.line != parser->problem_mark.line)
        weir_reading_wrong(yaml->reading, place_of_mark(&parser->problem_mark),
                           "this is no YAML: %s, %s that began in line %d; is the indent right?", problem,
                           parser->context, (int)parser->context_mark.line + 1);
    else
        weir_reading_wrong(yaml->reading, place_of_mark(&parser->problem_mark), "this is no YAML: %s",
                           problem);
}

static bool next_event(struct yaml_reader *yaml, yaml_event_t *event)
{
    if (yaml_parser_parse(&yaml->parser, event))
        return true;
    complain_yaml(yaml);
    return false;
}

/* ---- texts ---- */

static size_t count_characters(const char *text, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* Anchors and tags of a value; true: it has none. */
static bool is_bare_event(struct yaml_reader *yaml, const yaml_event_t *event, const yaml_char_t *anchor,
                          const yaml_char_t *tag)
{
    if (anchor)
        weir_reading_wrong(yaml->reading, place_of_mark(&event->start_mark),
                           "anchors (&name) are not understood here; write the value where it is needed");
    else if (tag)
        weir_reading_wrong(yaml->reading, place_of_mark(&event->start_mark),
                           "tags (!name) are not understood here; write the value alone, or in quotes");
    return !anchor && !tag;
}

static char *copy_event_text(struct yaml_reader *yaml, const yaml_event_t *event)
{
    size_t len = event->data.scalar.length;
    if (len > CONFIG_TEXT_MAX) {
        weir_reading_wrong(yaml->reading, place_of_mark(&event->start_mark),
                           "a text of %zu bytes is too long: at most %d", len, CONFIG_TEXT_MAX);
        return NULL;
    }
    return weir_reading_copy(yaml->reading, (const char *)event->data.scalar.value, len);
}

static struct yaml_node *read_yaml_text(struct yaml_reader *yaml, const yaml_event_t *event)
{
    struct yaml_node *node = node_new(yaml, NODE_TEXT, &event->start_mark);
    if (!node)
        return NULL;
    node->text = copy_event_text(yaml, event);
    if (!node->text) {
        free(node);
        return NULL;
    }
    node->len = event->data.scalar.length;
    yaml_scalar_style_t style = event->data.scalar.style;
    size_t quotes = style == YAML_PLAIN_SCALAR_STYLE ? 0 : 2;
    node->plain = quotes == 0;
    node->exact =
        (node->plain || style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
         style == YAML_DOUBLE_QUOTED_SCALAR_STYLE) &&
        event->start_mark.line == event->end_mark.line &&
        event->end_mark.index - event->start_mark.index == count_characters(node->text, node->len) + quotes;
    return node;
}

/* ---- the tree ---- */

static struct yaml_node *read_node(struct yaml_reader *yaml, const yaml_event_t *event, int depth);

static void append_child(struct yaml_node *node, struct yaml_node *child)
{
    *(node->last ? &node->last->next : &node->first) = child;
    node->last = child;
}

/* The value of the name that `name` says; NULL after a complaint. */
static struct yaml_node *read_yaml_pair(struct yaml_reader *yaml, const yaml_event_t *name, int depth)
{
    if (name->type != YAML_SCALAR_EVENT) {
        weir_reading_wrong(yaml->reading, place_of_mark(&name->start_mark),
                           "a name is expected here, as in name: value");
        return NULL;
    }
    if (!is_bare_event(yaml, name, name->data.scalar.anchor, name->data.scalar.tag))
        return NULL;
    char *key = copy_event_text(yaml, name);
    yaml_event_t event;
    if (!key || !next_event(yaml, &event)) {
        free(key);
        return NULL;
    }
    struct yaml_node *child = read_node(yaml, &event, depth + 1);
    yaml_event_delete(&event);
    if (!child) {
        free(key);
        return NULL;
    }
    child->key = key;
    child->key_len = name->data.scalar.length;
    child->key_place = place_of_mark(&name->start_mark);
    return child;
}

/* The values of a list, or the names and values of a map. */
static bool read_children(struct yaml_reader *yaml, struct yaml_node *node, int depth)
{
    bool list = node->kind == NODE_LIST;
    for (bool more = true; more;) {
        yaml_event_t event;
        struct yaml_node *child = NULL;
        if (!next_event(yaml, &event))
            return false;
        more = event.type != (list ? YAML_SEQUENCE_END_EVENT : YAML_MAPPING_END_EVENT);
        if (more)
            child = list ? read_node(yaml, &event, depth + 1) : read_yaml_pair(yaml, &event, depth);
        yaml_event_delete(&event);
        if (more && !child)
            return false;
        if (more)
            append_child(node, child);
    }
    return true;
}

static struct yaml_node *read_inside(struct yaml_reader *yaml, const yaml_event_t *event, int depth)
{
    bool list = event->type == YAML_SEQUENCE_START_EVENT;
    if (depth > CONFIG_DEPTH_MAX) {
        weir_reading_wrong(yaml->reading, place_of_mark(&event->start_mark),
                           "lists and maps stand in each other more than %d deep", CONFIG_DEPTH_MAX);
        return NULL;
    }
    if (!is_bare_event(yaml, event,
                       list ? event->data.sequence_start.anchor : event->data.mapping_start.anchor,
                       list ? event->data.sequence_start.tag : event->data.mapping_start.tag))
        return NULL;
    struct yaml_node *node = node_new(yaml, list ? NODE_LIST : NODE_MAP, &event->start_mark);
    if (node && !read_children(yaml, node, depth)) {
        weir_node_free(node);
        node = NULL;
    }
    return node;
}

static struct yaml_node *read_node(struct yaml_reader *yaml, const yaml_event_t *event, int depth)
{
    if (event->type == YAML_SCALAR_EVENT)
        return is_bare_event(yaml, event, event->data.scalar.anchor, event->data.scalar.tag)
                   ? read_yaml_text(yaml, event)
                   : NULL;
    if (event->type != YAML_ALIAS_EVENT)
        return read_inside(yaml, event, depth);
    weir_reading_wrong(yaml->reading, place_of_mark(&event->start_mark),
                       "aliases (*name) are not understood here; a text that begins with * stands in quotes");
    return NULL;
}

/* ---- the file ---- */

/* The next event has to be of this type; gives where it stands. */
static bool expect_event(struct yaml_reader *yaml, yaml_event_type_t type, yaml_event_t *event)
{
    if (!next_event(yaml, event))
        return false;
    if (event->type == type)
        return true;
    weir_reading_wrong(yaml->reading, place_of_mark(&event->start_mark), "a second document; a file has one");
    yaml_event_delete(event);
    return false;
}

static struct yaml_node *read_document(struct yaml_reader *yaml)
{
    yaml_event_t event;
    if (!next_event(yaml, &event))
        return NULL;
    struct yaml_node *node = read_node(yaml, &event, 0);
    yaml_event_delete(&event);
    if (node && expect_event(yaml, YAML_DOCUMENT_END_EVENT, &event)) {
        yaml_event_delete(&event);
        if (expect_event(yaml, YAML_STREAM_END_EVENT, &event)) {
            yaml_event_delete(&event);
            return node;
        }
    }
    weir_node_free(node);
    return NULL;
}

static struct yaml_node *read_stream(struct yaml_reader *yaml)
{
    yaml_event_t event;
    if (!expect_event(yaml, YAML_STREAM_START_EVENT, &event))
        return NULL;
    yaml_event_delete(&event);
    if (!next_event(yaml, &event))
        return NULL;
    bool empty = event.type == YAML_STREAM_END_EVENT;
    struct yaml_node *node = empty ? node_new(yaml, NODE_MAP, &event.start_mark) : NULL;
    yaml_event_delete(&event);
    return empty ? node : read_document(yaml);
}

struct yaml_node *weir_node_read(struct config_reader *reading, const char *text, size_t len)
{
    struct yaml_reader yaml = {.reading = reading, .text = text, .len = len};
    if (!yaml_parser_initialize(&yaml.parser)) {
        weir_reading_no_memory(reading);
        return NULL;
    }
    yaml_parser_set_encoding(&yaml.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&yaml.parser, (const unsigned char *)text, len);
    struct yaml_node *node = read_stream(&yaml);
    yaml_parser_delete(&yaml.parser);
    return node;
}
