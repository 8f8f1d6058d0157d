/* SPDX-License-Identifier: MIT */
#include "sim/arrivals.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/text.h"
#include "spec/read.h"
#include "spec/value.h"

/* A piece of the line. */
struct arrivals_part {
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

static struct arrivals_part trim_part(struct arrivals_part part)
{
    while (part.begin < part.end && isspace((unsigned char)*part.begin))
        part.begin++;
    while (part.begin < part.end && isspace((unsigned char)part.end[-1]))
        part.end--;
    return part;
}

/* Where `text` stands in the piece, or NULL. */
static const char *find_in_part(struct arrivals_part part, const char *text)
{
    size_t len = strlen(text);
    for (const char *at = part.begin; at + len <= part.end; at++)
        if (memcmp(at, text, len) == 0)
            return at;
    return NULL;
}

__attribute__((format(printf, 4, 5))) static bool
arrivals_fail(struct arrivals_fault *fault, const char *line, const char *at, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(fault->text, sizeof fault->text, format, list);
    va_end(list);
    fault->column = weir_text_column(line, (size_t)(at - line));
    return false;
}

/* Whether no comma was forgotten, as in 0 1s and 0;1s. The piece is trimmed: no space ends it. */
static bool check_commas(const char *line, struct arrivals_part part, struct arrivals_fault *fault)
{
    for (const char *at = part.begin; at < part.end; at++) {
        bool space = isspace((unsigned char)*at) && isdigit((unsigned char)at[1]);
        if (space || *at == ';')
            return arrivals_fail(fault, line, at,
                                 "between two times stands a comma or a new line, such as 0,1s%s",
                                 space ? "; one time has no space inside: 1h30m" : "");
    }
    return true;
}

static bool read_arrival_time(const char *line, struct arrivals_part part, int64_t *time_ns,
                              struct arrivals_fault *fault)
{
    char text[64];
    part = trim_part(part);
    size_t len = (size_t)(part.end - part.begin);
    if (len == 0)
        return arrivals_fail(fault, line, part.begin, "a time is missing here, such as 0, 200ms or 1h30m");
    if (!check_commas(line, part, fault))
        return false;
    if (len >= sizeof text)
        return arrivals_fail(fault, line, part.begin,
                             "this is too long for a time; write it as 200ms or 1h30m");
    memcpy(text, part.begin, len);
    text[len] = '\0';

    struct spec_fault inner;
    if (!isdigit((unsigned char)text[0]))
        return arrivals_fail(fault, line, part.begin,
                             "a time begins with a digit, such as 0, 200ms or 1h30m");
    if (!weir_spec_read_period(text, time_ns, &inner))
        return arrivals_fail(fault, line, part.begin, "%.150s", inner.text);
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

static bool read_n(const char *line, struct arrivals_part part, int64_t *n, struct arrivals_fault *fault)
{
    part = trim_part(part);
    if (!check_commas(line, part, fault))
        return false;
    return arrivals_read_n(part.begin, (size_t)(part.end - part.begin), n) ||
           arrivals_fail(fault, line, part.begin,
                         "behind the * stands how many units are asked for, such as 1s*5 or 1s*2k");
}

/* FROM..[TO]/STEP; `dots` is where they stand. */
static bool read_range(const struct arrivals *arrivals, const char *line, struct arrivals_part part,
                       const char *dots, struct arrivals_item *item, struct arrivals_fault *fault)
{
    const char *slash = find_in_part((struct arrivals_part){dots, part.end}, "/");
    if (!slash)
        return arrivals_fail(fault, line, part.begin,
                             "a range needs a step: 0..10s/100ms is every 100 ms for 10 s");
    int64_t to_ns = arrivals->until_ns;
    struct arrivals_part to = trim_part((struct arrivals_part){dots + 2, slash});
    if (!read_arrival_time(line, (struct arrivals_part){part.begin, dots}, &item->from_ns, fault) ||
        (to.begin < to.end && !read_arrival_time(line, to, &to_ns, fault)) ||
        !read_arrival_time(line, (struct arrivals_part){slash + 1, part.end}, &item->step_ns, fault))
        return false;
    if (to_ns == WEIR_FOREVER)
        return arrivals_fail(fault, line, dots,
                             "this range has no end; write one, such as 0..10s/100ms, or use --until");
    if (to.begin < to.end && to_ns < item->from_ns)
        return arrivals_fail(fault, line, to.begin, "the range ends before it begins; turn it round");
    if (item->step_ns == 0)
        return arrivals_fail(fault, line, slash + 1, "a step of 0 would go on for ever; use 1ns or more");
    to_ns = min64(to_ns, arrivals->until_ns);
    item->count = to_ns < item->from_ns ? 0 : (to_ns - item->from_ns) / item->step_ns + 1;
    return true;
}

static bool append_arrivals(struct arrivals *arrivals, struct arrivals_item item)
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

static bool read_item(struct arrivals *arrivals, const char *line, struct arrivals_part part,
                      struct arrivals_fault *fault)
{
    struct arrivals_item item = {.count = 1, .n = arrivals->n};
    const char *start = part.begin, *star = find_in_part(part, "*"), *dots = find_in_part(part, "..");
    if (star) {
        if (!read_n(line, (struct arrivals_part){star + 1, part.end}, &item.n, fault))
            return false;
        part.end = star;
    }
    if (dots && dots < part.end) {
        if (!read_range(arrivals, line, part, dots, &item, fault))
            return false;
    } else {
        if (!read_arrival_time(line, part, &item.from_ns, fault))
            return false;
        item.count = item.from_ns <= arrivals->until_ns;
    }
    if (item.count > ARRIVALS_MAX - arrivals->total)
        return arrivals_fail(fault, line, start,
                             "that makes more than %d arrivals; take a larger step or a shorter range",
                             ARRIVALS_MAX);
    if (item.count > 0 && !append_arrivals(arrivals, item))
        return arrivals_fail(fault, line, start, "out of memory");
    return true;
}

bool arrivals_read(struct arrivals *arrivals, const char *line, struct arrivals_fault *fault)
{
    struct arrivals_part all = trim_part((struct arrivals_part){line, line + strcspn(line, "#")});
    while (all.begin < all.end) {
        const char *comma = find_in_part(all, ",");
        struct arrivals_part item = trim_part((struct arrivals_part){all.begin, comma ? comma : all.end});
        if (!read_item(arrivals, line, item, fault))
            return false;
        all.begin = comma ? comma + 1 : all.end;
    }
    return true;
}
