/* SPDX-License-Identifier: MIT */
/*
 * The canonical form: count with the largest decimal multiple that divides it, the shortest way to write the
 * period, options in a fixed order, defaults left out. Reading it gives the same spec again.
 */
#include "base/text.h"
#include "spec/keywords.h"

/* ---- numbers ---------------------------------------------------------------------------------- */

static void put_spec_count(struct text *text, int64_t count)
{
    static const char *const multiples[] = {"", "k", "M", "G"};
    size_t i = 0;
    for (; i < 3 && count != 0 && count % 1000 == 0; i++)
        count /= 1000;
    weir_text_print(text, "%lld%s", (long long)count, multiples[i]);
}

static void put_factor(struct text *text, int64_t factor_ppm)
{
    int64_t fraction = factor_ppm % SPEC_FACTOR_ONE;
    int digits = 6;
    weir_text_print(text, "%lld", (long long)(factor_ppm / SPEC_FACTOR_ONE));
    for (; fraction != 0 && fraction % 10 == 0; fraction /= 10)
        digits--;
    if (fraction != 0)
        weir_text_print(text, ".%0*lld", digits, (long long)fraction);
}

/* ---- times ------------------------------------------------------------------------------------ */

/* Each unit is a whole number of the one before. */
static const struct {
    const char *word;
    size_t len;
    int64_t length_ns;
} units[] = {
    {"ns", 2, 1},
    {"us", 2, 1000},
    {"ms", 2, WEIR_MS},
    {"s", 1, WEIR_SEC},
    {"m", 1, 60 * WEIR_SEC},
    {"h", 1, 3600 * WEIR_SEC},
    {"d", 1, 86400 * WEIR_SEC},
    {"w", 1, 604800 * WEIR_SEC},
};

#define UNITS (sizeof units / sizeof units[0])

/* The shortest way to write a time with units below a given one: the unit it begins with, and its size. */
struct shortest {
    size_t first; /* UNITS: nothing is left to write */
    size_t len, parts;
};

static size_t count_digits(int64_t number)
{
    size_t digits = 1;
    for (; number >= 10; number /= 10)
        digits++;
    return digits;
}

static bool is_shorter(struct shortest a, struct shortest b)
{
    return a.len < b.len || (a.len == b.len && a.parts <= b.parts);
}

/* Whatever came before, what is left to write behind a number of units is the time modulo that unit: so the
 * shortest rest is found once for every unit, from the smallest on. Among equals the fewest parts win, then
 * the larger unit. */
static void find_shortest(int64_t time_ns, struct shortest rests[UNITS + 1])
{
    for (size_t i = 0; i <= UNITS; i++) {
        int64_t left = i < UNITS ? time_ns % units[i].length_ns : time_ns;
        rests[i] = (struct shortest){.first = UNITS, .len = left ? SIZE_MAX : 0};
        for (size_t j = 0; j < i && units[j].length_ns <= left; j++) {
            struct shortest rest = rests[j];
            struct shortest with = {j, count_digits(left / units[j].length_ns) + units[j].len + rest.len,
                                    rest.parts + 1};
            if (is_shorter(with, rests[i]))
                rests[i] = with;
        }
    }
}

static void put_spec_time(struct text *text, int64_t time_ns, bool bare_unit)
{
    struct shortest rests[UNITS + 1];
    if (time_ns == 0)
        weir_text_put(text, "0s", 2);
    for (size_t i = 0; bare_unit && i < UNITS; i++) {
        if (time_ns == units[i].length_ns) {
            weir_text_put(text, units[i].word, units[i].len);
            return;
        }
    }
    find_shortest(time_ns, rests);
    for (size_t i = rests[UNITS].first; i < UNITS; i = rests[i].first) {
        weir_text_print(text, "%lld%s", (long long)(time_ns / units[i].length_ns), units[i].word);
        time_ns %= units[i].length_ns;
    }
}

size_t weir_spec_format_count(int64_t count, char *text, size_t size)
{
    struct text line;
    weir_text_init(&line, text, size);
    if (count >= 0)
        put_spec_count(&line, count);
    return line.len;
}

size_t weir_spec_format_period(int64_t period_ns, char *text, size_t size)
{
    struct text line;
    weir_text_init(&line, text, size);
    if (period_ns >= 0)
        put_spec_time(&line, period_ns, false);
    return line.len;
}

/* ---- limits ----------------------------------------------------------------------------------- */

/* The ratio is always said: it is what a hybrid is chosen for. */
static bool is_said(const struct weir_spec *spec, enum spec_field field)
{
    if (!(ALGO_BIT(spec->algo) & weir_spec_option(field)->algos))
        return false;
    if (field == FIELD_NAME)
        return spec->name[0];
    return field == FIELD_RATIO || weir_spec_value(spec, field) != weir_spec_default(spec, field);
}

static void put_spec_option(struct text *text, const struct weir_spec *spec, enum spec_field field)
{
    const struct spec_option *option = weir_spec_option(field);
    int64_t value = weir_spec_value(spec, field);
    if (!is_said(spec, field))
        return;
    weir_text_print(text, " %s=", option->name);
    switch (option->kind) {
    case KIND_COUNT:
        put_spec_count(text, value);
        break;
    case KIND_TIME:
        put_spec_time(text, value, false);
        break;
    case KIND_FACTOR:
        put_factor(text, value);
        break;
    case KIND_CHOICE:
        weir_text_print(text, "%s", option->choices[value].word);
        break;
    case KIND_ALGO:
        weir_text_print(text, "%s", weir_algo_name(spec->algo));
        break;
    case KIND_NAME:
        weir_text_print(text, "%s", spec->name);
        break;
    }
}

static void put_limit(struct text *text, const struct weir_spec *spec)
{
    if (weir_spec_is_alone(spec)) {
        weir_text_print(text, "%s", weir_algo_name(spec->algo));
    } else {
        put_spec_count(text, spec->count);
        weir_text_put(text, "/", 1);
        put_spec_time(text, spec->period_ns, true);
    }
    for (enum spec_field field = FIELD_BURST; field <= FIELD_NAME; field++)
        put_spec_option(text, spec, field);
}

size_t weir_spec_format(const struct weir_spec *specs, size_t count, char *text, size_t size)
{
    struct text line;
    weir_text_init(&line, text, size);
    for (size_t i = 0; specs && i < count; i++) {
        struct weir_spec spec = specs[i];
        struct spec_fault fault;
        if (count > WEIR_LIMITS_MAX || !weir_spec_complete(&spec, &fault) || spec.shape == WEIR_SHAPE_OWN ||
            weir_spec_has_namesake(specs, i)) {
            weir_text_init(&line, text, size); /* nothing rather than a part */
            return 0;
        }
        if (i > 0)
            weir_text_put(&line, ", ", 2);
        put_limit(&line, &spec);
    }
    return line.len;
}
