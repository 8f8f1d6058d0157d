/* SPDX-License-Identifier: MIT */
/*
 * Numbers among the words of a request. Programs write them, so they are plain; but people try them first,
 * and are told what they meant: "write 2000".
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "service/commands/command.h"
#include "spec/read.h"

/* What a number counts, and what is possible. */
struct number_bounds {
    const char *what;
    int64_t least, most;
    enum { COUNTS_ANYTHING, COUNTS_UNITS, COUNTS_MS } counts;
};

bool weir_read_integer(struct slice text, int64_t *number)
{
    bool negative = text.len > 0 && text.bytes[0] == '-';
    size_t at = negative;
    uint64_t value = 0, most = (uint64_t)INT64_MAX + negative;
    if (at == text.len || text.len > 20 || (text.bytes[at] == '0' && text.len > 1))
        return false;
    for (; at < text.len; at++) {
        unsigned digit = (unsigned)(unsigned char)text.bytes[at] - '0';
        if (digit > 9 || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value) || value > most)
            return false;
    }
    *number = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* Nothing but digits: if it cannot be read, there are too many of them. */
static bool is_all_digits(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.bytes[i] < '0' || text.bytes[i] > '9')
            return false;
    return text.len > 0 && text.bytes[0] != '0';
}

/* 2k, 1.5M: 0 if it is nothing of the kind. */
static int64_t meant_units(const char *text)
{
    struct spec_fault fault;
    struct spec_reader reader = {.at = text, .end = text + strlen(text), .fault = &fault};
    struct quantity units = {0, 1};
    if (!weir_spec_is_digit(&reader) || !weir_spec_read_count(&reader, &units) || reader.at != reader.end ||
        units.under != 1 || units.over > UNITS_MAX)
        return 0;
    return (int64_t)units.over;
}

/* 5s, 250ms: 0 if it is nothing of the kind. */
static int64_t meant_ms(const char *text)
{
    struct spec_fault fault;
    int64_t time_ns;
    return weir_spec_read_period(text, &time_ns, &fault) && time_ns % WEIR_MS == 0 ? time_ns / WEIR_MS : 0;
}

static void refuse_word(struct call *call, struct slice word, const struct number_bounds *bounds)
{
    char shown[72], text[32] = "", hint[48] = "";
    int64_t meant = 0;
    if (word.len < sizeof text && !memchr(word.bytes, '\0', word.len) && word.len > 0)
        memcpy(text, word.bytes, word.len);
    if (text[0] && bounds->counts == COUNTS_UNITS)
        meant = meant_units(text);
    else if (text[0] && bounds->counts == COUNTS_MS)
        meant = meant_ms(text);
    if (meant > 0)
        (void)snprintf(hint, sizeof hint, "; write %" PRId64, meant);
    weir_call_error(call, "ERR %s must be a whole number%s, not '%s'%s", bounds->what,
                    bounds->counts == COUNTS_MS ? " of milliseconds" : "", weir_shown(word, shown), hint);
}

static bool read_bounded(struct call *call, size_t at, const struct number_bounds *bounds, int64_t *number)
{
    char shown[72];
    if (at >= call->count) {
        weir_call_arity(call);
        return false;
    }
    bool read = weir_read_integer(call->args[at], number);
    if (!read && !is_all_digits(call->args[at]))
        refuse_word(call, call->args[at], bounds);
    else if (!read || *number > bounds->most)
        weir_call_error(call, "ERR %s is too large: %s; at most %" PRId64, bounds->what,
                        weir_shown(call->args[at], shown), bounds->most);
    else if (*number < bounds->least)
        weir_call_error(call, "ERR %s must be %" PRId64 " or more%s", bounds->what, bounds->least,
                        strcmp(bounds->what, "n") == 0 && call->command->may == MAY_TAKE
                            ? "; to look without taking use WEIR.PEEK"
                            : "");
    else
        return true;
    return false;
}

bool weir_call_integer(struct call *call, size_t at, const char *what, int64_t least, int64_t *number)
{
    const struct number_bounds bounds = {what, least, INT64_MAX, COUNTS_ANYTHING};
    return read_bounded(call, at, &bounds, number);
}

bool weir_call_units(struct call *call, size_t at, const char *what, int64_t least, int64_t *number)
{
    const struct number_bounds bounds = {what, least, UNITS_MAX, COUNTS_UNITS};
    return read_bounded(call, at, &bounds, number);
}

bool weir_call_ms(struct call *call, size_t at, const char *what, int64_t least, int64_t *number)
{
    const struct number_bounds bounds = {what, least, INT64_MAX, COUNTS_MS};
    return read_bounded(call, at, &bounds, number);
}
