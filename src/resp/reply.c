/* SPDX-License-Identifier: MIT */
/*
 * The bytes are walked twice: once to see whether all are there and how many values they hold, and once to
 * put the values into the one piece of memory that is then made. Nothing is believed before its bytes have
 * come.
 */
#include "resp/reply.h"

#include <math.h>
#include <stdlib.h>

#include "resp/write.h"

#define LINE_MAX_BYTES 65536
#define BULK_MAX       (512 << 20)
#define DOUBLE_MAX     64 /* digits of a double, and more than any has */

struct reply_parse {
    const char *bytes;
    size_t len, at;
};

/* What a value has that values follow. */
struct reply_frame {
    struct resp_value *next; /* NULL: they are only counted */
    size_t left;
};

/* ---- one value ------------------------------------------------------------------------------------ */

/* The line at parse->at, without its first byte and its end. */
static enum resp_parsed read_reply_line(struct reply_parse *parse, struct slice *line)
{
    const char *from = parse->bytes + parse->at;
    size_t len = parse->len - parse->at;
    const char *end = len > 0 ? memchr(from, '\n', len < LINE_MAX_BYTES ? len : LINE_MAX_BYTES) : NULL;
    if (!end)
        return len < LINE_MAX_BYTES ? RESP_INCOMPLETE : RESP_BROKEN;
    size_t line_len = (size_t)(end - from);
    if (memchr(from, '\r', line_len) != end - 1)
        return RESP_BROKEN;
    *line = (struct slice){from + 1, line_len - 2};
    parse->at += line_len + 1;
    return RESP_PARSED;
}

static bool read_integer(struct slice line, int64_t *number)
{
    bool sign = line.len > 0 && (line.bytes[0] == '-' || line.bytes[0] == '+');
    bool negative = sign && line.bytes[0] == '-';
    int64_t value = 0; /* below 0 all the way: INT64_MIN has no other side */
    if (line.len == sign)
        return false;
    for (size_t i = sign; i < line.len; i++) {
        char c = line.bytes[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, c - '0', &value))
            return false;
    }
    *number = negative ? value : value == INT64_MIN ? 0 : -value;
    return negative || value > INT64_MIN;
}

static bool read_double(struct slice line, double *number)
{
    char text[DOUBLE_MAX], *end;
    if (line.len == 0 || line.len >= sizeof text)
        return false;
    memcpy(text, line.bytes, line.len);
    text[line.len] = '\0';
    bool infinite = slice_is(line, "inf") || slice_is(line, "+inf") || slice_is(line, "-inf");
    if (!infinite && !slice_is(line, "nan") && strspn(text, "0123456789+-.eE") != line.len)
        return false; /* strtod knows more forms than the protocol */
    *number = strtod(text, &end);
    return end == text + line.len;
}

static bool is_whole_number(struct slice line)
{
    size_t sign = line.len > 0 && (line.bytes[0] == '-' || line.bytes[0] == '+');
    for (size_t i = sign; i < line.len; i++)
        if (line.bytes[i] < '0' || line.bytes[i] > '9')
            return false;
    return line.len > sign;
}

/* The bytes that a line has announced. */
static enum resp_parsed read_bulk(struct reply_parse *parse, struct slice line, struct resp_value *value)
{
    int64_t len;
    if (value->type == RESP_BULK && slice_is(line, "-1")) {
        value->type = RESP_NULL;
        return RESP_PARSED;
    }
    if (!read_integer(line, &len) || len < 0 || len > BULK_MAX)
        return RESP_BROKEN;
    const char *from = parse->bytes + parse->at;
    size_t size = (size_t)len;
    if (parse->len - parse->at < size + 2)
        return RESP_INCOMPLETE;
    if (from[size] != '\r' || from[size + 1] != '\n')
        return RESP_BROKEN;
    value->text = (struct slice){from, size};
    parse->at += size + 2;
    if (value->type != RESP_VERBATIM)
        return RESP_PARSED;
    if (size < 4 || from[3] != ':')
        return RESP_BROKEN;
    value->text = (struct slice){from + 4, size - 4};
    return RESP_PARSED;
}

static enum resp_parsed read_aggregate_count(struct slice line, struct resp_value *value)
{
    int64_t count;
    if (value->type == RESP_ARRAY && slice_is(line, "-1")) {
        value->type = RESP_NULL;
        return RESP_PARSED;
    }
    if (!read_integer(line, &count) || count < 0 || count > RESP_ELEMENTS_MAX)
        return RESP_BROKEN;
    value->count = (size_t)count * (value->type == RESP_MAP ? 2 : 1);
    return RESP_PARSED;
}

static enum resp_parsed read_scalar(char mark, struct slice line, struct resp_value *value)
{
    bool good = true;
    value->text = line;
    if (mark == ':')
        good = read_integer(line, &value->integer);
    else if (mark == ',')
        good = read_double(line, &value->number);
    else if (mark == '(')
        good = is_whole_number(line);
    else if (mark == '_')
        good = line.len == 0;
    else if (mark == '#')
        good = slice_is(line, "t") || slice_is(line, "f");
    if (mark == '#')
        value->integer = good && line.bytes[0] == 't';
    return good ? RESP_PARSED : RESP_BROKEN;
}

/* A value, without those that follow it if it holds any. */
static enum resp_parsed read_reply_value(struct reply_parse *parse, char *mark, struct resp_value *value)
{
    static const char marks[] = "+-:(_#,$!=*%~>|";
    static const enum resp_type types[] = {
        RESP_SIMPLE, RESP_ERROR,    RESP_INTEGER, RESP_BULK, RESP_NULL, RESP_BOOL, RESP_DOUBLE, RESP_BULK,
        RESP_ERROR,  RESP_VERBATIM, RESP_ARRAY,   RESP_MAP,  RESP_SET,  RESP_PUSH, RESP_MAP,
    };
    struct slice line;
    if (parse->at == parse->len)
        return RESP_INCOMPLETE;
    *mark = parse->bytes[parse->at];
    const char *known = memchr(marks, *mark, sizeof marks - 1);
    if (!known)
        return RESP_BROKEN;
    *value = (struct resp_value){.type = types[known - marks]};
    enum resp_parsed parsed = read_reply_line(parse, &line);
    if (parsed != RESP_PARSED)
        return parsed;
    if (memchr("$!=", *mark, 3))
        return read_bulk(parse, line, value);
    return memchr("*%~>|", *mark, 5) ? read_aggregate_count(line, value) : read_scalar(*mark, line, value);
}

/* ---- the tree ------------------------------------------------------------------------------------- */

/* Reads a reply and puts its values into `slots`, a value's elements side by side; NULL: only counts them. */
static enum resp_parsed walk_reply(struct reply_parse *parse, struct resp_value *slots, size_t *taken)
{
    struct reply_frame frames[RESP_DEPTH_MAX + 1] = {{.next = slots, .left = 1}};
    size_t depth = 0, seen = 0;
    *taken = 1;
    for (;;) {
        while (frames[depth].left == 0)
            if (depth-- == 0)
                return RESP_PARSED;
        struct reply_frame *frame = &frames[depth];
        struct resp_value value;
        char mark;
        enum resp_parsed parsed = read_reply_value(parse, &mark, &value);
        if (parsed != RESP_PARSED)
            return parsed;
        seen += value.count;
        if (seen > RESP_ELEMENTS_MAX || (value.count > 0 && depth == RESP_DEPTH_MAX))
            return RESP_BROKEN;
        if (value.count > 0) {
            value.elements = slots ? slots + *taken : NULL;
            *taken += value.count;
            frames[++depth] = (struct reply_frame){value.elements, value.count};
        }
        if (mark == '|')
            continue; /* it comes on top of the value that follows it, and nothing points to what it holds */
        frame->left--;
        if (frame->next)
            *frame->next++ = value;
    }
}

enum resp_parsed weir_resp_parse(const char *bytes, size_t len, struct resp_value **value, size_t *used)
{
    struct reply_parse first = {bytes, len, 0}, second = {bytes, len, 0};
    size_t count;
    *value = NULL;
    enum resp_parsed parsed = walk_reply(&first, NULL, &count);
    if (parsed != RESP_PARSED)
        return parsed;
    struct resp_value *slots = calloc(count, sizeof *slots);
    if (!slots)
        return RESP_NO_MEMORY;
    (void)walk_reply(&second, slots, &count);
    *value = slots;
    *used = second.at;
    return RESP_PARSED;
}

void weir_resp_value_free(struct resp_value *value)
{
    free(value);
}

static void measure_reply(const struct resp_value *value, size_t *nodes, size_t *bytes)
{
    *nodes += value->count;
    *bytes += value->text.len;
    for (size_t i = 0; i < value->count; i++)
        measure_reply(&value->elements[i], nodes, bytes); /* the parser bounds the depth */
}

static void copy_reply(struct resp_value *to, const struct resp_value *from, struct resp_value **nodes,
                       char **bytes)
{
    *to = *from;
    if (from->text.len > 0)
        memcpy(*bytes, from->text.bytes, from->text.len);
    to->text.bytes = *bytes;
    *bytes += from->text.len;
    to->elements = *nodes;
    *nodes += from->count;
    for (size_t i = 0; i < from->count; i++)
        copy_reply(&to->elements[i], &from->elements[i], nodes, bytes);
}

struct resp_value *weir_resp_value_copy(const struct resp_value *from, struct buffer *bytes)
{
    size_t nodes = 1, len = 1;
    measure_reply(from, &nodes, &len);
    char *room = weir_buffer_room(bytes, len);
    struct resp_value *tree = room ? calloc(nodes, sizeof *tree) : NULL;
    if (!tree)
        return NULL;
    struct resp_value *next = tree + 1;
    copy_reply(tree, from, &next, &room);
    buffer_wrote(bytes, len);
    return tree;
}

static bool is_text_value(const struct resp_value *value)
{
    return value->type == RESP_BULK || value->type == RESP_SIMPLE || value->type == RESP_VERBATIM;
}

const struct resp_value *weir_resp_get(const struct resp_value *map, const char *name)
{
    if (!map || (map->type != RESP_MAP && map->type != RESP_ARRAY))
        return NULL;
    for (size_t i = 0; i + 1 < map->count; i += 2)
        if (is_text_value(&map->elements[i]) && slice_is(map->elements[i].text, name))
            return &map->elements[i + 1];
    return NULL;
}

void weir_resp_ask(struct buffer *out, const struct slice *words, size_t count)
{
    struct reply request = {out, 2};
    weir_reply_array(&request, count);
    for (size_t i = 0; i < count; i++)
        weir_reply_bulk(&request, words[i].bytes, words[i].len);
}
