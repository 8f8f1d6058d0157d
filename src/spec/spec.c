/* SPDX-License-Identifier: MIT */
/*
 * From what a person wrote to what is meant: fills in defaults, and refuses what makes no sense or what the
 * arithmetic of limits could not hold. A spec that passes compiles to a limit without any further check.
 */
#include <string.h>

#include "base/text.h"
#include "base/ticks.h"
#include "spec/keywords.h"

struct spec_check {
    struct weir_spec *spec;
    const struct spec_written *written;
    struct spec_fault *fault;
    uint32_t given; /* fields that are not left to their default */
    int64_t unit;   /* ticks a unit is worth */
};

static bool is_given(const struct spec_check *check, enum spec_field field)
{
    return check->given & UINT32_C(1) << field;
}

static bool has_algo(const struct weir_spec *spec, uint32_t algos)
{
    return ALGO_BIT(spec->algo) & algos;
}

/* ---- defaults --------------------------------------------------------------------------------- */

/* One op, rounded up, but never so little that a filler could not keep up. */
static int64_t default_pool(const struct weir_spec *spec)
{
    return max64(div_up(spec->period_ns, spec->count), WEIR_MS);
}

int64_t weir_spec_default(const struct weir_spec *spec, enum spec_field field)
{
    switch (field) {
    case FIELD_BURST:
        return has_algo(spec, ALGO_BIT(WEIR_TOKEN_BUCKET) | ALGO_BIT(WEIR_STEP)) ? spec->count : 0;
    case FIELD_INITIAL:
        return has_algo(spec, ALGO_BIT(WEIR_TOKEN_BUCKET) | ALGO_BIT(WEIR_STEP)) ? spec->burst : 0;
    case FIELD_RATIO:
        return 11 * SPEC_FACTOR_ONE / 10;
    case FIELD_POOL:
        return default_pool(spec);
    case FIELD_COLD:
        return 3 * SPEC_FACTOR_ONE;
    case FIELD_QUEUE:
        return spec->count;
    default:
        return 0;
    }
}

/* The same, except that a decimal count has been made whole by a longer period: 1.5/s is 3/2s, but its burst
 * is the 1 that fits into a second. */
static int64_t default_units(const struct spec_check *check, enum spec_field field)
{
    int64_t units = weir_spec_default(check->spec, field);
    return units && check->written->whole ? check->written->whole : units;
}

/* ---- fields that belong together -------------------------------------------------------------- */

static uint32_t given_fields(const struct weir_spec *spec, const struct spec_written *written)
{
    uint32_t given = written->fields;
    for (enum spec_field field = FIELD_BURST; field < FIELD_NAME; field++)
        if (field != FIELD_ALGO && weir_spec_value(spec, field) != 0)
            given |= UINT32_C(1) << field;
    if (spec->initial_given)
        given |= UINT32_C(1) << FIELD_INITIAL;
    return given;
}

static bool check_choice(struct spec_check *check, enum spec_field field)
{
    const struct spec_option *option = weir_spec_option(field);
    int64_t value = weir_spec_value(check->spec, field), count = 0;
    while (option->choices[count].word)
        count++;
    if (value < 0 || value >= count)
        return weir_spec_fault(check->fault, field, "%s has no value %d", option->name, (int)value);
    if (is_given(check, field) && !has_algo(check->spec, option->choices[value].algos))
        return weir_spec_fault_foreign_choice(check->fault, field, check->spec->algo,
                                              is_given(check, FIELD_ALGO), &option->choices[value]);
    return true;
}

static bool check_spec_options(struct spec_check *check)
{
    struct weir_spec *spec = check->spec;
    if (spec->algo < WEIR_TOKEN_BUCKET || spec->algo > WEIR_QUOTA)
        return weir_spec_fault(check->fault, FIELD_ALGO, "there is no algorithm number %d", (int)spec->algo);
    check->given = given_fields(spec, check->written);
    for (enum spec_field field = FIELD_BURST; field <= FIELD_NAME; field++)
        if (is_given(check, field) && !has_algo(spec, weir_spec_option(field)->algos))
            return weir_spec_fault_foreign(check->fault, field, spec->algo, is_given(check, FIELD_ALGO));
    bool has_own = spec->shape == WEIR_SHAPE_OWN;
    if (has_own != (spec->own != NULL) || (!has_own && spec->own_arg))
        return weir_spec_fault(check->fault, FIELD_SHAPE,
                               "the function `own` and WEIR_SHAPE_OWN go together");
    if (spec->verb < WEIR_VERB_NONE || spec->verb > WEIR_VERB_RESTART)
        return weir_spec_fault(check->fault, FIELD_NONE, "there is no verb number %d", (int)spec->verb);
    static const int64_t nothing[sizeof spec->spare / sizeof spec->spare[0]];
    if (spec->reserved != 0 || memcmp(spec->spare, nothing, sizeof nothing) != 0)
        return weir_spec_fault(check->fault, FIELD_NONE, "a reserved field is not 0");
    return (has_own || check_choice(check, FIELD_SHAPE)) && check_choice(check, FIELD_FILL) &&
           check_choice(check, FIELD_REFUSED) && check_choice(check, FIELD_STRICT);
}

static bool check_limit_name(struct spec_check *check)
{
    char *name = check->spec->name;
    size_t len = 0;
    uint32_t code;
    while (len < sizeof check->spec->name && name[len])
        len++;
    if (len > WEIR_NAME_MAX)
        return weir_spec_fault(check->fault, FIELD_NAME, "a name has at most %d bytes", WEIR_NAME_MAX);
    for (size_t i = 0, step; i < len; i += step) {
        step = weir_utf8_read(name + i, len - i, &code);
        if (step == 0 || !weir_utf8_printable(code) || code == ' ' || code == 0xA0 || code == ',')
            return weir_spec_fault(check->fault, FIELD_NAME,
                                   "a name is printable text without spaces and commas");
    }
    memset(name + len, 0, sizeof check->spec->name - len); /* equal names are equal bytes */
    return true;
}

/* ---- rate ------------------------------------------------------------------------------------- */

#define COUNT_MAX_TEXT "1000000000G (10^18)"

static bool check_spec_rate(struct spec_check *check)
{
    struct weir_spec *spec = check->spec;
    struct ticks ticks;
    if (spec->count == 0)
        return weir_spec_fault_zero(check->fault);
    if (spec->count < 0 || spec->count > SPEC_COUNT_MAX)
        return weir_spec_fault(check->fault, FIELD_COUNT,
                               "a count is at least 1 and at most " COUNT_MAX_TEXT);
    if (spec->period_ns < 1 || spec->period_ns > SPEC_PERIOD_MAX_NS)
        return weir_spec_fault(check->fault, FIELD_PERIOD,
                               "a period is at least 1ns and at most 36525d (100 years)");
    if (!weir_ticks_init(&ticks, spec->count, spec->period_ns))
        return weir_spec_fault(
            check->fault, FIELD_COUNT,
            "weir counts at most %d units a nanosecond; count in larger units, such as KiB "
            "instead of bytes",
            TICKS_PER_NS);
    check->unit = ticks.unit;
    return true;
}

/* Windows count units in a period; the others count the time that units are worth. */
static bool check_unit(struct spec_check *check)
{
    if (!has_algo(check->spec, SPEC_WINDOWS) && check->unit > TICKS_SPAN_MAX)
        return weir_spec_fault(check->fault, FIELD_PERIOD,
                               "one unit takes longer than 73 years; write a shorter period");
    return true;
}

/* ---- units ------------------------------------------------------------------------------------ */

/* Units that are worth more time than can be counted. */
static bool check_units_span(struct spec_check *check, enum spec_field field, const char *verb)
{
    int64_t units = weir_spec_value(check->spec, field);
    char shown[32];
    if (sat_mul(units, check->unit) <= TICKS_SPAN_MAX)
        return true;
    (void)weir_spec_format_count(units, shown, sizeof shown);
    return weir_spec_fault(check->fault, is_given(check, field) ? field : FIELD_PERIOD,
                           "at this rate a %s of %s takes decades to %s, longer than weir can count; "
                           "write a smaller %s or a shorter period",
                           weir_spec_option(field)->name, shown, verb, weir_spec_option(field)->name);
}

static bool fault_burst(struct spec_check *check)
{
    int64_t units = default_units(check, FIELD_BURST);
    char shown[32] = "1 s of rate";
    if (units)
        (void)weir_spec_format_count(units, shown, sizeof shown);
    return weir_spec_fault(check->fault, FIELD_BURST,
                           "burst is the most that may pass at once, so at least 1 (without it: %s)", shown);
}

static bool check_burst(struct spec_check *check)
{
    struct weir_spec *spec = check->spec;
    if (!has_algo(spec, weir_spec_option(FIELD_BURST)->algos))
        return true;
    if (!is_given(check, FIELD_BURST))
        spec->burst = default_units(check, FIELD_BURST);
    else if (spec->burst < 1)
        return fault_burst(check);
    if (spec->burst > SPEC_COUNT_MAX)
        return weir_spec_fault(check->fault, FIELD_BURST, "burst is at most " COUNT_MAX_TEXT);
    if (!check_units_span(check, FIELD_BURST, "refill"))
        return false;
    if (spec->algo == WEIR_SMOOTH &&
        (weir_i128)spec->burst * spec->period_ns == (weir_i128)spec->count * WEIR_SEC)
        spec->burst = 0; /* a second of rate, as without it */
    return true;
}

/* More than a burst that is a second of rate? */
static bool is_over_second(const struct weir_spec *spec)
{
    return (weir_i128)spec->initial * spec->period_ns > (weir_i128)spec->count * WEIR_SEC;
}

static bool check_initial(struct spec_check *check)
{
    struct weir_spec *spec = check->spec;
    if (!has_algo(spec, weir_spec_option(FIELD_INITIAL)->algos))
        return true;
    int64_t fallback = weir_spec_default(spec, FIELD_INITIAL);
    if (!is_given(check, FIELD_INITIAL))
        spec->initial = fallback;
    char shown[32] = "1 s of rate";
    if (spec->burst)
        (void)weir_spec_format_count(spec->burst, shown, sizeof shown);
    if (spec->initial < 0 || (spec->burst ? spec->initial > spec->burst : is_over_second(spec)))
        return weir_spec_fault(check->fault, FIELD_INITIAL,
                               "initial is what is there at the start, from 0 up to burst (here: %s)", shown);
    spec->initial_given = spec->initial != fallback;
    return true;
}

/* ---- times and factors ------------------------------------------------------------------------ */

static bool check_time(struct spec_check *check, enum spec_field field)
{
    int64_t time_ns = weir_spec_value(check->spec, field);
    if (time_ns >= 0 && time_ns <= SPEC_TIME_MAX_NS)
        return true;
    return weir_spec_fault(check->fault, field, "%s is at most 87660h (10 years)%s",
                           weir_spec_option(field)->name, time_ns < 0 ? " and not negative" : "");
}

static bool check_factor(struct spec_check *check, enum spec_field field, const char *meaning)
{
    if (!is_given(check, field))
        weir_spec_set_value(check->spec, field, weir_spec_default(check->spec, field));
    int64_t factor = weir_spec_value(check->spec, field);
    if (factor < SPEC_FACTOR_ONE)
        return weir_spec_fault(check->fault, field, "%s; write 1.0 or more", meaning);
    if (factor > SPEC_FACTOR_MAX)
        return weir_spec_fault(check->fault, field, "%s is at most 1000", weir_spec_option(field)->name);
    return true;
}

/* ---- algorithms ------------------------------------------------------------------------------- */

/* The store of a warmup is counted in doubles; beyond 2^52 they skip units. */
static bool check_store(struct spec_check *check)
{
    const struct weir_spec *spec = check->spec;
    weir_i128 cold = spec->cold_ppm, both = cold + SPEC_FACTOR_ONE;
    weir_i128 rest = 4 * (spec->shape == WEIR_SHAPE_BELOW ? cold : SPEC_FACTOR_ONE);
    weir_i128 units = ((weir_i128)spec->warmup_ns * spec->count + spec->period_ns - 1) / spec->period_ns;
    if (units * (both + rest) / (2 * both) < (INT64_C(1) << 52))
        return true;
    return weir_spec_fault(check->fault, FIELD_WARMUP,
                           "so long a warm-up saves more units than weir can count; write a shorter warmup");
}

static bool check_warmup(struct spec_check *check)
{
    struct weir_spec *spec = check->spec;
    if (spec->algo != WEIR_WARMUP)
        return true;
    if (!is_given(check, FIELD_WARMUP))
        return weir_spec_fault(check->fault, FIELD_WARMUP, "how long is the warm-up? write it as warmup=4s");
    if (spec->warmup_ns == 0)
        return weir_spec_fault(check->fault, FIELD_WARMUP, "a warm-up of 0 is none; write algo=smooth");
    if (!check_time(check, FIELD_WARMUP) ||
        !check_factor(check, FIELD_COLD,
                      "cold is how many times a cold unit costs a warm one, so not below 1"))
        return false;
    if (spec->shape != WEIR_SHAPE_BELOW &&
        (weir_i128)check->unit * spec->cold_ppm > (weir_i128)TICKS_SPAN_MAX * SPEC_FACTOR_ONE)
        return weir_spec_fault(
            check->fault, FIELD_COLD,
            "one cold unit takes longer than 73 years; write a smaller cold or a shorter period");
    return check_store(check);
}

static bool check_pool(struct spec_check *check)
{
    struct weir_spec *spec = check->spec;
    struct ticks ticks;
    if (is_given(check, FIELD_POOL) && (weir_i128)spec->pool_ns * spec->count < spec->period_ns) {
        char shown[32];
        (void)weir_spec_format_period(div_up(spec->period_ns, spec->count), shown, sizeof shown);
        return weir_spec_fault(check->fault, FIELD_POOL,
                               "a pool smaller than one op never lets anything pass; write pool=%s or more",
                               shown);
    }
    if (!is_given(check, FIELD_POOL))
        spec->pool_ns = default_pool(spec);
    if (!is_given(check, FIELD_POOL) && spec->pool_ns > SPEC_TIME_MAX_NS)
        return weir_spec_fault(
            check->fault, FIELD_PERIOD,
            "one op takes longer than 10 years, the most a pool holds; write a shorter period");
    if (!check_time(check, FIELD_POOL))
        return false;
    (void)weir_ticks_init(&ticks, spec->count, spec->period_ns);
    weir_i128 over = (weir_i128)weir_ticks_of_span(&ticks, spec->pool_ns) * spec->ratio_ppm / SPEC_FACTOR_ONE;
    if (over > TICKS_SPAN_MAX)
        return weir_spec_fault(check->fault, is_given(check, FIELD_POOL) ? FIELD_POOL : FIELD_PERIOD,
                               "pool times ratio is more than weir can count; write a smaller pool or ratio");
    return true;
}

static bool check_hybrid(struct spec_check *check)
{
    if (check->spec->algo != WEIR_HYBRID)
        return true;
    return check_factor(check, FIELD_RATIO, "a burst ratio below 1.0 would never catch up") &&
           check_pool(check);
}

static bool check_leaky(struct spec_check *check)
{
    struct weir_spec *spec = check->spec;
    if (spec->algo != WEIR_LEAKY_BUCKET)
        return true;
    if (!is_given(check, FIELD_QUEUE))
        spec->queue = default_units(check, FIELD_QUEUE);
    if (spec->queue < 1)
        return weir_spec_fault(check->fault, FIELD_QUEUE, "a queue of 0 holds nothing; write algo=interval");
    if (spec->queue > SPEC_COUNT_MAX)
        return weir_spec_fault(check->fault, FIELD_QUEUE, "queue is at most " COUNT_MAX_TEXT);
    if (is_given(check, FIELD_AGE) && spec->age_ns == 0)
        return weir_spec_fault(
            check->fault, FIELD_AGE,
            "age is the longest wait in the queue, more than 0; leave it out for no bound");
    return check_units_span(check, FIELD_QUEUE, "drain") && check_time(check, FIELD_AGE);
}

/* 50 000 */
static void put_grouped(struct text *text, int64_t number)
{
    if (number >= 1000) {
        put_grouped(text, number / 1000);
        weir_text_print(text, " %03d", (int)(number % 1000));
    } else {
        weir_text_print(text, "%d", (int)number);
    }
}

_Static_assert(SPEC_LOG_MAX == 10000, "the message below says so");

static bool check_log(struct spec_check *check)
{
    static const char *const scales[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
    int64_t count = check->spec->count, bytes = sat_mul(count, 8);
    if (check->spec->algo != WEIR_SLIDING_LOG || count <= SPEC_LOG_MAX)
        return true;
    char shown[32];
    struct text text;
    weir_text_init(&text, shown, sizeof shown);
    put_grouped(&text, count);
    size_t scale = 0;
    for (; bytes >= 1000; bytes /= 1000)
        scale++;
    return weir_spec_fault(
        check->fault, FIELD_COUNT,
        "sliding-log keeps %s times for every key (%d %s), at most 10 000; sliding-window keeps two numbers: "
        "write algo=sliding-window",
        shown, (int)bytes, scales[scale]);
}

/* ---- all -------------------------------------------------------------------------------------- */

static bool check_spec_fields(struct spec_check *check)
{
    struct weir_spec *spec = check->spec;
    if (!check_spec_options(check) || !check_limit_name(check))
        return false;
    if (weir_spec_is_alone(spec)) {
        spec->count = spec->period_ns = 0;
        return true;
    }
    return check_spec_rate(check) && check_unit(check) && check_burst(check) && check_initial(check) &&
           check_warmup(check) && check_hybrid(check) && check_leaky(check) && check_log(check) &&
           check_time(check, FIELD_TIMEOUT);
}

bool weir_spec_complete_written(struct weir_spec *spec, const struct spec_written *written,
                                struct spec_fault *fault)
{
    struct weir_spec whole = *spec;
    struct spec_check check = {.spec = &whole, .written = written, .fault = fault};
    if (!check_spec_fields(&check))
        return false;
    *spec = whole;
    return true;
}

bool weir_spec_complete(struct weir_spec *spec, struct spec_fault *fault)
{
    return weir_spec_complete_written(spec, &(struct spec_written){.fields = 0}, fault);
}

bool weir_spec_has_namesake(const struct weir_spec *specs, size_t index)
{
    const char *name = specs[index].name;
    for (size_t i = 0; *name && i < index; i++)
        if (strncmp(specs[i].name, name, sizeof specs[i].name) == 0)
            return true;
    return false;
}

/*
 * The canonical form: count with the largest decimal multiple that divides it, the shortest way to write the
 * period, options in a fixed order, defaults left out. Reading it gives the same spec again.
 */

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
} time_units[] = {
    {"ns", 2, 1},
    {"us", 2, 1000},
    {"ms", 2, WEIR_MS},
    {"s", 1, WEIR_SEC},
    {"m", 1, 60 * WEIR_SEC},
    {"h", 1, 3600 * WEIR_SEC},
    {"d", 1, 86400 * WEIR_SEC},
    {"w", 1, 604800 * WEIR_SEC},
};

#define TIME_UNITS (sizeof time_units / sizeof time_units[0])

/* The shortest way to write a time with units below a given one: the unit it begins with, and its size. */
struct shortest {
    size_t first; /* TIME_UNITS: nothing is left to write */
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
static void find_shortest(int64_t time_ns, struct shortest rests[TIME_UNITS + 1])
{
    for (size_t i = 0; i <= TIME_UNITS; i++) {
        int64_t left = i < TIME_UNITS ? time_ns % time_units[i].length_ns : time_ns;
        rests[i] = (struct shortest){.first = TIME_UNITS, .len = left ? SIZE_MAX : 0};
        for (size_t j = 0; j < i && time_units[j].length_ns <= left; j++) {
            struct shortest rest = rests[j];
            struct shortest with = {
                j, count_digits(left / time_units[j].length_ns) + time_units[j].len + rest.len,
                rest.parts + 1};
            if (is_shorter(with, rests[i]))
                rests[i] = with;
        }
    }
}

static void put_spec_time(struct text *text, int64_t time_ns, bool bare_unit)
{
    struct shortest rests[TIME_UNITS + 1];
    if (time_ns == 0)
        weir_text_put(text, "0s", 2);
    for (size_t i = 0; bare_unit && i < TIME_UNITS; i++) {
        if (time_ns == time_units[i].length_ns) {
            weir_text_put(text, time_units[i].word, time_units[i].len);
            return;
        }
    }
    find_shortest(time_ns, rests);
    for (size_t i = rests[TIME_UNITS].first; i < TIME_UNITS; i = rests[i].first) {
        weir_text_print(text, "%lld%s", (long long)(time_ns / time_units[i].length_ns), time_units[i].word);
        time_ns %= time_units[i].length_ns;
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
