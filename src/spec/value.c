/* SPDX-License-Identifier: MIT */
#include "spec/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "spec/keywords.h"

#define FRACTION_MAX 9 /* digits after the point */
#define WHOLE_MAX    (10 * (weir_i128)SPEC_COUNT_MAX)

/* ---- the reader ------------------------------------------------------------------------------- */

bool weir_spec_wrong(struct spec_reader *reader, const char *at, const char *format, ...)
{
    va_list arguments;
    *reader->fault = (struct spec_fault){.field = FIELD_NONE};
    reader->wrong = at;
    va_start(arguments, format);
    (void)vsnprintf(reader->fault->text, sizeof reader->fault->text, format, arguments);
    va_end(arguments);
    return false;
}

static bool digit_at(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

static bool letter_at(const char *at, const char *end)
{
    return at < end &&
           ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (unsigned char)*at >= 0x80);
}

bool weir_spec_is_digit(const struct spec_reader *reader)
{
    return digit_at(reader->at, reader->end);
}

bool weir_spec_is_letter(const struct spec_reader *reader)
{
    return letter_at(reader->at, reader->end);
}

bool weir_spec_skip(struct spec_reader *reader, char byte)
{
    if (reader->at == reader->end || *reader->at != byte)
        return false;
    reader->at++;
    return true;
}

void weir_spec_skip_space(struct spec_reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || (*reader->at >= '\t' && *reader->at <= '\r')))
        reader->at++;
}

size_t weir_spec_word_len(const struct spec_reader *reader)
{
    const char *at = reader->at;
    while (letter_at(at, reader->end) || digit_at(at, reader->end) ||
           (at < reader->end && (*at == '-' || *at == '_')))
        at++;
    return (size_t)(at - reader->at);
}

size_t weir_spec_letters_len(const struct spec_reader *reader)
{
    const char *at = reader->at;
    while (letter_at(at, reader->end))
        at++;
    return (size_t)(at - reader->at);
}

size_t weir_spec_token_len(const struct spec_reader *reader)
{
    struct spec_reader look = *reader;
    for (; look.at < look.end && *look.at != ','; look.at++) {
        const char *before = look.at;
        weir_spec_skip_space(&look);
        if (look.at != before)
            return (size_t)(before - reader->at);
    }
    return (size_t)(look.at - reader->at);
}

bool weir_spec_skip_word(struct spec_reader *reader, const char *word)
{
    size_t len = weir_spec_letters_len(reader);
    if (!weir_text_same(reader->at, len, word))
        return false;
    reader->at += len;
    return true;
}

/* ---- numbers ---------------------------------------------------------------------------------- */

static weir_i128 gcd(weir_i128 a, weir_i128 b)
{
    while (b) {
        weir_i128 rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static struct quantity reduce(weir_i128 over, int64_t under)
{
    weir_i128 common = gcd(over, under);
    return (struct quantity){over / common, (int64_t)(under / common)};
}

/* digits [ "." digits ]; the caller has seen the first digit. */
static bool read_decimal(struct spec_reader *reader, struct quantity *number, size_t fraction_max)
{
    weir_i128 value = 0;
    int64_t under = 1;
    for (; weir_spec_is_digit(reader); reader->at++)
        value = value < WHOLE_MAX ? value * 10 + (*reader->at - '0') : WHOLE_MAX;
    if (weir_spec_skip(reader, '.')) {
        const char *start = reader->at, *end = start;
        for (; weir_spec_is_digit(reader); reader->at++)
            if (*reader->at != '0')
                end = reader->at + 1; /* zeros at the end say nothing */
        if (reader->at == start)
            return weir_spec_wrong(reader, start, "a digit is missing after the point");
        if ((size_t)(end - start) > fraction_max)
            return weir_spec_wrong(reader, start + fraction_max, "at most %zu digits may follow the point",
                                   fraction_max);
        for (; start < end; start++, under *= 10)
            value = value * 10 + (*start - '0');
    }
    *number = reduce(value, under);
    return true;
}

/* The multiple in a word such as k, MiB; 0 if it is none. */
static int64_t multiple_of(const char *word, size_t len)
{
    static const struct {
        const char *word;
        int64_t factor;
    } multiples[] = {
        {"k", 1000},  {"K", 1000},     {"M", 1000000},  {"G", 1000000000},
        {"Ki", 1024}, {"Mi", 1 << 20}, {"Gi", 1 << 30},
    };
    if (len > 1 && word[len - 1] == 'B')
        len--;
    for (size_t i = 0; i < sizeof multiples / sizeof multiples[0]; i++)
        if (strlen(multiples[i].word) == len && memcmp(multiples[i].word, word, len) == 0)
            return multiples[i].factor;
    return 0;
}

bool weir_spec_read_count(struct spec_reader *reader, struct quantity *quantity)
{
    const char *start = reader->at;
    if (!read_decimal(reader, quantity, FRACTION_MAX))
        return false;
    const char *after = reader->at;
    weir_spec_skip_space(reader);
    size_t len = weir_spec_word_len(reader);
    int64_t factor = multiple_of(reader->at, len);
    if (after == reader->at && len == 1 && *after == 'm') {
        struct spec_shown shown = weir_spec_show(start, (size_t)(after - start));
        return weir_spec_wrong(reader, after, "m means minutes; for %s million write %sM", shown.text,
                               shown.text);
    }
    reader->at = factor ? reader->at + len : after;
    if (factor)
        *quantity = reduce(quantity->over * factor, quantity->under);
    return true;
}

/* ---- times ------------------------------------------------------------------------------------ */

/* y and mo are known only as what they are not. */
static bool is_calendar(const char *word, size_t len)
{
    const char *unit = weir_spec_hint_unit(word, len);
    return unit && *unit == '3'; /* 30d or 365d */
}

/* Days instead of the months or years whose number stands at `start`. */
static void fault_calendar_unit(struct spec_reader *reader, const char *start)
{
    int64_t days = 0, number = 0;
    bool is_year = *reader->at == 'y' || *reader->at == 'Y';
    for (; digit_at(start, reader->end) && number < 100000; start++)
        number = number * 10 + (*start - '0');
    days = is_year ? number * 1461 / 4 : number * 30;
    if (*start == '.' || days == 0)
        days = is_year ? 365 : 30;
    if (days > SPEC_PERIOD_MAX_NS / (86400 * WEIR_SEC))
        (void)weir_spec_wrong(reader, reader->at, "a time is at most 36525d (100 years)");
    else
        (void)weir_spec_wrong(reader, reader->at, "a %s has no fixed length; write days, such as %dd",
                              is_year ? "year" : "month", (int)days);
}

/* The unit behind a number, in nanoseconds; 0 after a mistake. */
static int64_t read_unit(struct spec_reader *reader, const char *start)
{
    const char *after = reader->at;
    struct spec_shown shown = weir_spec_show(start, (size_t)(after - start));
    const char *number = shown.text;
    weir_spec_skip_space(reader);
    size_t len = weir_spec_letters_len(reader);
    bool is_option = reader->at > after && reader->at + len < reader->end && reader->at[len] == '=';
    if (len == 0 || is_option) {
        (void)weir_spec_wrong(reader, after, "%s what? write %ss, %sm, %sh or %sd", number, number, number,
                              number, number);
        return 0;
    }
    int64_t unit_ns = weir_spec_find_unit(reader->at, len);
    if (unit_ns == SPEC_CALENDAR || is_calendar(reader->at, len)) {
        fault_calendar_unit(reader, start);
        return 0;
    }
    if (unit_ns == 0) {
        reader->wrong = reader->at;
        (void)weir_spec_fault_unit(reader->fault, reader->at, weir_spec_word_len(reader));
    }
    reader->at += len;
    return unit_ns;
}

/* Another number and unit follow; after spaces only if both are there, for it may also be something else. */
static bool time_goes_on(struct spec_reader *reader)
{
    if (weir_spec_is_digit(reader))
        return true;
    struct spec_reader ahead = *reader;
    weir_spec_skip_space(&ahead);
    const char *start = ahead.at;
    while (weir_spec_is_digit(&ahead) || (ahead.at > start && ahead.at < ahead.end && *ahead.at == '.'))
        ahead.at++;
    if (ahead.at == start)
        return false;
    weir_spec_skip_space(&ahead);
    if (weir_spec_find_unit(ahead.at, weir_spec_letters_len(&ahead)) <= 0)
        return false;
    reader->at = start;
    return true;
}

bool weir_spec_read_time(struct spec_reader *reader, int64_t *time_ns)
{
    weir_i128 sum = 0;
    do {
        const char *start = reader->at;
        struct quantity number = {0, 1};
        if (!read_decimal(reader, &number, FRACTION_MAX))
            return false;
        int64_t unit_ns = read_unit(reader, start);
        if (unit_ns == 0)
            return false;
        weir_i128 rest = number.over % number.under * unit_ns;
        if (rest % number.under != 0)
            return weir_spec_wrong(reader, start, "a time is a whole number of nanoseconds");
        sum = sat_i128(sum + number.over / number.under * unit_ns + rest / number.under);
    } while (time_goes_on(reader));
    *time_ns = (int64_t)sum;
    return true;
}

bool weir_spec_read_factor(struct spec_reader *reader, int64_t *factor_ppm)
{
    struct quantity number = {0, 1};
    if (!read_decimal(reader, &number, 6))
        return false;
    *factor_ppm = sat_i128(number.over * (SPEC_FACTOR_ONE / number.under));
    return true;
}
