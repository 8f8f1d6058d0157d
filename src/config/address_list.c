/* SPDX-License-Identifier: MIT */
#include "config/address_list.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/sat.h"

#define LIST_DEPTH 129 /* networks around an address: one of each length */
#define GROUP      8   /* numbers of a cache line */
#define LEVELS     8   /* of at most 8 to the 8th starts */

/* Range i is from starts[i] up to the next. The first starts at 0. Of IPv4 `low` is all 0. */
struct address_ranges {
    size_t count;
    uint64_t *high, *low; /* of where it starts */
    uint8_t *rules;
    /* levels[0] is `high`, each further one has every 8th of the one before, and the last one has 8 at the
     * most. Where a line has no more, UINT64_MAX stands. */
    uint64_t *levels[LEVELS];
    size_t sizes[LEVELS]; /* numbers of each, without those */
    size_t level_count;
};

struct address_list {
    struct address_ranges four, six;
};

/* Addresses as numbers; an IPv4 address is the upper half. */
struct address_span {
    weir_u128 first, last;
    enum address_rule rule;
};

static inline uint64_t big_endian(const unsigned char *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

/* ---- making ---- */

static struct address_span span_of(const struct address_entry *entry, bool four)
{
    const unsigned char *bytes = entry->range.first.bytes;
    weir_u128 first = four ? (weir_u128)big_endian(bytes + 12, 4) << 64
                           : (weir_u128)big_endian(bytes, 8) << 64 | big_endian(bytes + 8, 8);
    int low_bits = four ? 64 + 128 - entry->range.bits : 128 - entry->range.bits;
    weir_u128 rest = low_bits >= 128 ? ~(weir_u128)0 : ((weir_u128)1 << low_bits) - 1;
    return (struct address_span){first, first + rest, entry->rule};
}

/* Outer ones first, then those that are allowed last. */
static int compare_spans(const void *one, const void *other)
{
    const struct address_span *a = one, *b = other;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->last != b->last)
        return a->last > b->last ? -1 : 1;
    return (int)a->rule - (int)b->rule;
}

static void start_range(struct address_ranges *ranges, weir_u128 start, enum address_rule rule)
{
    uint64_t high = (uint64_t)(start >> 64), low = (uint64_t)start;
    size_t at = ranges->count;
    if (at > 0 && ranges->high[at - 1] == high && ranges->low[at - 1] == low)
        at--;
    ranges->count = at;
    if (at > 0 && ranges->rules[at - 1] == rule)
        return;
    ranges->high[at] = high;
    ranges->low[at] = low;
    ranges->rules[at] = (uint8_t)rule;
    ranges->count++;
}

/* `open` are the networks around the place where we are, the outermost first. */
static void flatten_spans(struct address_ranges *ranges, const struct address_span *spans, size_t count)
{
    struct address_span open[LIST_DEPTH];
    size_t depth = 0;
    start_range(ranges, 0, ADDRESS_UNLISTED);
    for (size_t i = 0; i <= count; i++) {
        while (depth > 0 && (i == count || open[depth - 1].last < spans[i].first)) {
            weir_u128 behind = open[--depth].last + 1;
            if (behind != 0)
                start_range(ranges, behind, depth > 0 ? open[depth - 1].rule : ADDRESS_UNLISTED);
        }
        if (i == count)
            break;
        if (depth > 0 && open[depth - 1].first == spans[i].first && open[depth - 1].last == spans[i].last)
            depth--;
        ASSERT(depth < LIST_DEPTH && (depth == 0 || open[depth - 1].last >= spans[i].last));
        open[depth++] = spans[i];
        start_range(ranges, spans[i].first, spans[i].rule);
    }
}

/* Whole lines of numbers. */
static uint64_t *new_lines(size_t count)
{
    size_t size = (count + GROUP - 1) / GROUP * GROUP;
    uint64_t *lines = aligned_alloc(GROUP * sizeof *lines, size * sizeof *lines);
    for (size_t i = 0; lines && i < size; i++)
        lines[i] = UINT64_MAX;
    return lines;
}

static bool make_levels(struct address_ranges *ranges)
{
    size_t count = ranges->count;
    ranges->levels[0] = ranges->high;
    ranges->sizes[0] = count;
    ranges->level_count = 1;
    while (count > GROUP) {
        const uint64_t *below = ranges->levels[ranges->level_count - 1];
        size_t more = (count + GROUP - 1) / GROUP;
        uint64_t *level = new_lines(more);
        if (!level)
            return false;
        for (size_t i = 0; i < more; i++)
            level[i] = below[i * GROUP];
        ASSERT(ranges->level_count < LEVELS);
        ranges->sizes[ranges->level_count] = more;
        ranges->levels[ranges->level_count++] = level;
        count = more;
    }
    return true;
}

static bool make_ranges(struct address_ranges *ranges, const struct address_entry *entries, size_t count,
                        bool four)
{
    struct address_span *spans = calloc(count + 1, sizeof *spans);
    size_t used = 0, most = 2 * count + 1;
    ranges->high = new_lines(most);
    ranges->low = calloc(most, sizeof *ranges->low);
    ranges->rules = calloc(most, sizeof *ranges->rules);
    bool good = spans && ranges->high && ranges->low && ranges->rules;
    for (size_t i = 0; good && i < count; i++)
        if (weir_ip_range_is_four(&entries[i].range) == four)
            spans[used++] = span_of(&entries[i], four);
    if (good && used > 0)
        qsort(spans, used, sizeof *spans, compare_spans);
    if (good) {
        flatten_spans(ranges, spans, used);
        for (size_t i = ranges->count; i < most; i++) /* what was written and taken back */
            ranges->high[i] = UINT64_MAX;
    }
    free(spans);
    return good && make_levels(ranges);
}

struct address_list *weir_address_list_new(const struct address_entry *entries, size_t count)
{
    struct address_list *list = calloc(1, sizeof *list);
    if (list && make_ranges(&list->four, entries, count, true) &&
        make_ranges(&list->six, entries, count, false))
        return list;
    weir_address_list_free(list);
    return NULL;
}

static void free_ranges(struct address_ranges *ranges)
{
    free(ranges->high);
    for (size_t i = 1; i < ranges->level_count; i++)
        free(ranges->levels[i]);
    free(ranges->low);
    free(ranges->rules);
}

void weir_address_list_free(struct address_list *list)
{
    if (!list)
        return;
    free_ranges(&list->four);
    free_ranges(&list->six);
    free(list);
}

/* ---- looking ---- */

/* The last that starts at `number` or before, by its upper half. One line of each level, without branches
 * that depend on it: the first of a line is at most `number`, since the level above has led here. */
static size_t last_start(const struct address_ranges *ranges, uint64_t number)
{
    size_t at = 0;
    for (size_t level = ranges->level_count; level-- > 0;) {
        const uint64_t *line = ranges->levels[level] + at * GROUP;
        size_t behind = 0;
        for (size_t i = 1; i < GROUP; i++)
            behind += line[i] <= number;
        at = at * GROUP + behind;
        at = at < ranges->sizes[level] ? at : ranges->sizes[level] - 1; /* UINT64_MAX is sought */
    }
    return at;
}

/* Ranges that start with the same upper half: the lower one decides among them. */
static size_t last_of_equal(const struct address_ranges *ranges, size_t last, uint64_t high, uint64_t low)
{
    size_t first = high == 0 ? 0 : last_start(ranges, high - 1) + 1, behind = last + 1;
    while (first < behind) {
        size_t middle = first + (behind - first) / 2;
        if (ranges->low[middle] <= low)
            first = middle + 1;
        else
            behind = middle;
    }
    return first - 1;
}

enum address_rule weir_address_list_find(const struct address_list *list, const struct ip *ip)
{
    if (weir_ip_is_four(ip))
        return (enum address_rule)list->four.rules[last_start(&list->four, big_endian(ip->bytes + 12, 4))];
    const struct address_ranges *six = &list->six;
    uint64_t high = big_endian(ip->bytes, 8), low = big_endian(ip->bytes + 8, 8);
    size_t at = last_start(six, high);
    if (six->high[at] == high && six->low[at] > low)
        at = last_of_equal(six, at, high, low);
    return (enum address_rule)six->rules[at];
}

/* ---- files ---- */

static struct slice trimmed(struct slice text)
{
    const char *comment = memchr(text.bytes, '#', text.len);
    if (comment)
        text.len = (size_t)(comment - text.bytes);
    while (text.len > 0 && strchr(" \t\r", text.bytes[text.len - 1]) && text.bytes[text.len - 1])
        text.len--;
    while (text.len > 0 && (text.bytes[0] == ' ' || text.bytes[0] == '\t'))
        text = (struct slice){text.bytes + 1, text.len - 1};
    return text;
}

enum address_line weir_address_lines_next(struct address_lines *lines, struct ip_range *range,
                                          struct slice *text)
{
    while (lines->rest.len > 0) {
        const char *end = memchr(lines->rest.bytes, '\n', lines->rest.len);
        struct slice line = {lines->rest.bytes, end ? (size_t)(end - lines->rest.bytes) : lines->rest.len};
        size_t used = line.len + (end != NULL);
        lines->rest = (struct slice){lines->rest.bytes + used, lines->rest.len - used};
        lines->line++;
        *text = trimmed(line);
        if (text->len > 0)
            return weir_ip_range_read(*text, range) ? ADDRESS_LINE_RANGE : ADDRESS_LINE_WRONG;
    }
    return ADDRESS_LINE_END;
}
