/* SPDX-License-Identifier: MIT */
#include "sim/arrivals.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/text.h"
#include "core/spec_value.h"

/* A piece of the line. */
struct piece {
    const char *begin, *end;
};

void arrivals_init(struct arrivals *arrivals, int64_t n, int64_t until_ns)
{
    *arrivals = (struct arrivals){.n = n, .until_ns = until_ns};
}

void arrivals_fini(struct arrivals *arrivals)
{
    free(arrivals->items);
    arrivals->items = NULL;
}

static struct piece trim(struct piece piece)
{
    while (piece.begin < piece.end && isspace((unsigned char)*piece.begin))
        piece.begin++;
    while (piece.begin < piece.end && isspace((unsigned char)piece.end[-1]))
        piece.end--;
    return piece;
}

/* Where `text` stands in the piece, or NULL. */
static const char *find(struct piece piece, const char *text)
{
    size_t len = strlen(text);
    for (const char *at = piece.begin; at + len <= piece.end; at++)
        if (memcmp(at, text, len) == 0)
            return at;
    return NULL;
}

__attribute__((format(printf, 4, 5))) static bool fail(struct arrivals_fault *fault, const char *line,
                                                       const char *at, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(fault->text, sizeof fault->text, format, list);
    va_end(list);
    fault->column = weir_text_column(line, (size_t)(at - line));
    return false;
}

/* Whether no comma was forgotten, as in 0 1s and 0;1s. The piece is trimmed: no space ends it. */
static bool check_commas(const char *line, struct piece piece, struct arrivals_fault *fault)
{
    for (const char *at = piece.begin; at < piece.end; at++) {
        bool space = isspace((unsigned char)*at) && isdigit((unsigned char)at[1]);
        if (space || *at == ';')
            return fail(fault, line, at, "between two times stands a comma or a new line, such as 0,1s%s",
                        space ? "; one time has no space inside: 1h30m" : "");
    }
    return true;
}

static bool read_time(const char *line, struct piece piece, int64_t *time_ns, struct arrivals_fault *fault)
{
    char text[64];
    piece = trim(piece);
    size_t len = (size_t)(piece.end - piece.begin);
    if (len == 0)
        return fail(fault, line, piece.begin, "a time is missing here, such as 0, 200ms or 1h30m");
    if (!check_commas(line, piece, fault))
        return false;
    if (len >= sizeof text)
        return fail(fault, line, piece.begin, "this is too long for a time; write it as 200ms or 1h30m");
    memcpy(text, piece.begin, len);
    text[len] = '\0';

    struct spec_fault inner;
    if (!isdigit((unsigned char)text[0]))
        return fail(fault, line, piece.begin, "a time begins with a digit, such as 0, 200ms or 1h30m");
    if (!weir_spec_read_period(text, time_ns, &inner))
        return fail(fault, line, piece.begin, "%.150s", inner.text);
    return true;
}

bool arrivals_read_n(const char *text, size_t len, int64_t *n)
{
    struct spec_fault fault;
    struct spec_reader reader = {.at = text, .end = text + len, .fault = &fault};
    struct quantity units = {0, 1};
    if (!weir_spec_is_digit(&reader) || !weir_spec_read_count(&reader, &units) || reader.at != reader.end)
        return false;
    if (units.under != 1 || units.over < 1 || units.over > SPEC_COUNT_MAX)
        return false;
    *n = (int64_t)units.over;
    return true;
}

static bool read_n(const char *line, struct piece piece, int64_t *n, struct arrivals_fault *fault)
{
    piece = trim(piece);
    if (!check_commas(line, piece, fault))
        return false;
    return arrivals_read_n(piece.begin, (size_t)(piece.end - piece.begin), n) ||
           fail(fault, line, piece.begin,
                "behind the * stands how many units are asked for, such as 1s*5 or 1s*2k");
}

/* FROM..[TO]/STEP; `dots` is where they stand. */
static bool read_range(const struct arrivals *arrivals, const char *line, struct piece piece,
                       const char *dots, struct arrivals_item *item, struct arrivals_fault *fault)
{
    const char *slash = find((struct piece){dots, piece.end}, "/");
    if (!slash)
        return fail(fault, line, piece.begin, "a range needs a step: 0..10s/100ms is every 100 ms for 10 s");
    int64_t to_ns = arrivals->until_ns;
    struct piece to = trim((struct piece){dots + 2, slash});
    if (!read_time(line, (struct piece){piece.begin, dots}, &item->from_ns, fault) ||
        (to.begin < to.end && !read_time(line, to, &to_ns, fault)) ||
        !read_time(line, (struct piece){slash + 1, piece.end}, &item->step_ns, fault))
        return false;
    if (to_ns == WEIR_FOREVER)
        return fail(fault, line, dots,
                    "this range has no end; write one, such as 0..10s/100ms, or use --until");
    if (to.begin < to.end && to_ns < item->from_ns)
        return fail(fault, line, to.begin, "the range ends before it begins; turn it round");
    if (item->step_ns == 0)
        return fail(fault, line, slash + 1, "a step of 0 would go on for ever; use 1ns or more");
    to_ns = min64(to_ns, arrivals->until_ns);
    item->count = to_ns < item->from_ns ? 0 : (to_ns - item->from_ns) / item->step_ns + 1;
    return true;
}

static bool append(struct arrivals *arrivals, struct arrivals_item item)
{
    if (arrivals->count == arrivals->capacity) {
        size_t capacity = arrivals->capacity ? 2 * arrivals->capacity : 64;
        struct arrivals_item *items = realloc(arrivals->items, capacity * sizeof *items);
        if (!items)
            return false;
        arrivals->items = items;
        arrivals->capacity = capacity;
    }
    arrivals->items[arrivals->count++] = item;
    arrivals->total += item.count;
    return true;
}

static bool read_item(struct arrivals *arrivals, const char *line, struct piece piece,
                      struct arrivals_fault *fault)
{
    struct arrivals_item item = {.count = 1, .n = arrivals->n};
    const char *start = piece.begin, *star = find(piece, "*"), *dots = find(piece, "..");
    if (star) {
        if (!read_n(line, (struct piece){star + 1, piece.end}, &item.n, fault))
            return false;
        piece.end = star;
    }
    if (dots && dots < piece.end) {
        if (!read_range(arrivals, line, piece, dots, &item, fault))
            return false;
    } else {
        if (!read_time(line, piece, &item.from_ns, fault))
            return false;
        item.count = item.from_ns <= arrivals->until_ns;
    }
    if (item.count > ARRIVALS_MAX - arrivals->total)
        return fail(fault, line, start,
                    "that makes more than %d arrivals; take a larger step or a shorter range", ARRIVALS_MAX);
    if (item.count > 0 && !append(arrivals, item))
        return fail(fault, line, start, "out of memory");
    return true;
}

bool arrivals_read(struct arrivals *arrivals, const char *line, struct arrivals_fault *fault)
{
    struct piece all = trim((struct piece){line, line + strcspn(line, "#")});
    while (all.begin < all.end) {
        const char *comma = find(all, ",");
        struct piece item = trim((struct piece){all.begin, comma ? comma : all.end});
        if (!read_item(arrivals, line, item, fault))
            return false;
        all.begin = comma ? comma + 1 : all.end;
    }
    return true;
}
