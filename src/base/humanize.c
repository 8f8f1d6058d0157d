/* SPDX-License-Identifier: MIT */
#include "base/humanize.h"

#include <stdio.h>
#include <string.h>

#include "base/sat.h"

#define US   INT64_C(1000)
#define MS   INT64_C(1000000)
#define SEC  INT64_C(1000000000)
#define MIN  (60 * SEC)
#define HOUR (60 * MIN)
#define DAY  (24 * HOUR)

const char *weir_humanize_number(int64_t number, char *text)
{
    char digits[HUMANIZE_MAX / 2], *out = text;
    int len = snprintf(digits, sizeof digits, "%lld", (long long)number);
    for (int i = 0; i < len; i++) {
        int left = len - i;
        if (i > 0 && left % 3 == 0 && digits[i - 1] != '-')
            *out++ = ' ';
        *out++ = digits[i];
    }
    *out = '\0';
    return text;
}

/* 2.500 -> 2.5, 12.000 -> 12 */
static void strip_zeros(char *text)
{
    char *end = text + strlen(text);
    if (!strchr(text, '.'))
        return;
    while (end[-1] == '0')
        *--end = '\0';
    if (end[-1] == '.')
        *--end = '\0';
}

const char *weir_humanize_decimal(double number, char *text)
{
    if (number >= 1000 || number <= -1000)
        return weir_humanize_number((int64_t)(number < 0 ? number - 0.5 : number + 0.5), text);
    if (number > 0 && number < 0.01) {
        snprintf(text, HUMANIZE_MAX, "%.3g", number);
        return text;
    }
    int places = number >= 100 ? 1 : number >= 10 ? 2 : 3;
    snprintf(text, HUMANIZE_MAX, "%.*f", places, number);
    strip_zeros(text);
    return text;
}

static int64_t round_to(int64_t time_ns, int64_t step, bool up)
{
    int64_t steps = time_ns / step, rest = time_ns % step;
    return sat_mul(steps + (up ? rest > 0 : rest >= step - rest), step);
}

/* What a time is shown in: one unit with decimals, or two whole units. */
struct time_scale {
    int64_t below; /* for times below this */
    int64_t unit;
    const char *name;
    int64_t part; /* the smaller unit; 0: decimals */
    const char *part_name;
};

static const struct time_scale scales[] = {
    {US, 1, "ns", 0, ""},
    {MS, US, "us", 0, ""},
    {SEC, MS, "ms", 0, ""},
    {2 * MIN, SEC, "s", 0, ""},
    {HOUR, MIN, "min", SEC, "s"},
    {DAY, HOUR, "h", MIN, "min"},
    {INT64_MAX, DAY, "d", HOUR, "h"},
};

static const struct time_scale *time_scale_of(int64_t time_ns)
{
    const struct time_scale *scale = scales;
    while (time_ns >= scale->below && scale->below != INT64_MAX)
        scale++;
    return scale;
}

/* The smallest step that four digits, or the smaller of two units, can show. */
static int64_t time_scale_step(const struct time_scale *scale, int64_t time_ns)
{
    if (scale->part)
        return scale->part;
    int64_t step = scale->unit;
    for (int64_t limit = 1000; step > 1 && limit > 1 && time_ns < limit * scale->unit; limit /= 10)
        step /= 10;
    return step;
}

static const char *time_unit_name(const struct time_scale *scale, unsigned how)
{
    return scale->unit == US && (how & HUMANIZE_UTF8) ? "\xc2\xb5s" : scale->name;
}

const char *weir_humanize_duration(int64_t time_ns, unsigned how, char *text)
{
    bool up = how & HUMANIZE_UP;
    const struct time_scale *scale = time_scale_of(time_ns);
    int64_t rounded = round_to(time_ns, time_scale_step(scale, time_ns), up);
    scale = time_scale_of(rounded); /* 999.96 ms has become 1 s */
    rounded = round_to(rounded, time_scale_step(scale, rounded), up);

    char whole[HUMANIZE_MAX / 2], rest[HUMANIZE_MAX / 4 + 8] = "";
    weir_humanize_number(rounded / scale->unit, whole);
    int64_t left = rounded % scale->unit;
    if (scale->part == 0) {
        if (left > 0)
            snprintf(rest, sizeof rest, ".%0*lld",
                     scale->unit == SEC  ? 9
                     : scale->unit == MS ? 6
                                         : 3,
                     (long long)left);
        strip_zeros(rest);
        snprintf(text, HUMANIZE_MAX, "%s%s %s", whole, rest, time_unit_name(scale, how));
    } else if (left > 0) {
        snprintf(text, HUMANIZE_MAX, "%s %s %lld %s", whole, scale->name, (long long)(left / scale->part),
                 scale->part_name);
    } else {
        snprintf(text, HUMANIZE_MAX, "%s %s", whole, scale->name);
    }
    return text;
}
