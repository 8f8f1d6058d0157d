/* SPDX-License-Identifier: MIT */
#include "spec/keywords.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* ---- tables ----------------------------------------------------------------------------------- */

#define STORES (ALGO_BIT(WEIR_TOKEN_BUCKET) | ALGO_BIT(WEIR_SMOOTH) | ALGO_BIT(WEIR_STEP))
#define RATES  ((ALGO_BIT(WEIR_UNLIMITED) - 1) | ALGO_BIT(WEIR_QUOTA))

/* Messages list algorithms in this order. */
static const struct {
    const char *word;
    int32_t algo;
} algo_words[] = {
    {"token-bucket", WEIR_TOKEN_BUCKET},
    {"refill", WEIR_TOKEN_BUCKET},
    {"gcra", WEIR_TOKEN_BUCKET},
    {"sliding-log", WEIR_SLIDING_LOG},
    {"sliding-window", WEIR_SLIDING_WINDOW},
    {"fixed-window", WEIR_FIXED_WINDOW},
    {"quota", WEIR_QUOTA},
    {"interval", WEIR_INTERVAL},
    {"pace", WEIR_INTERVAL},
    {"smooth", WEIR_SMOOTH},
    {"guava", WEIR_SMOOTH},
    {"warmup", WEIR_WARMUP},
    {"warm-up", WEIR_WARMUP},
    {"hybrid", WEIR_HYBRID},
    {"engineblock", WEIR_HYBRID},
    {"leaky-bucket", WEIR_LEAKY_BUCKET},
    {"leaky", WEIR_LEAKY_BUCKET},
    {"step", WEIR_STEP},
    {"smyte", WEIR_STEP},
};

static const struct spec_choice fills[] = {
    [WEIR_FILL_CALLERS] = {"callers", ALGO_BIT(WEIR_HYBRID)},
    [WEIR_FILL_THREAD] = {"thread", ALGO_BIT(WEIR_HYBRID)},
    {NULL, 0},
};
static const struct spec_choice shapes[] = {
    [WEIR_SHAPE_ABOVE] = {"above", ALGO_BIT(WEIR_WARMUP)},
    [WEIR_SHAPE_BELOW] = {"below", ALGO_BIT(WEIR_WARMUP)},
    {NULL, 0},
};
static const struct spec_choice refusals[] = {
    [WEIR_REFUSED_IGNORE] = {"ignore", SPEC_WINDOWS | ALGO_BIT(WEIR_STEP)},
    [WEIR_REFUSED_COUNT] = {"count", SPEC_WINDOWS},
    [WEIR_REFUSED_DRAIN] = {"drain", ALGO_BIT(WEIR_STEP)},
    {NULL, 0},
};
static const struct spec_choice truths[] = {
    [false] = {"false", ALGO_BIT(WEIR_STEP)},
    [true] = {"true", ALGO_BIT(WEIR_STEP)},
    {NULL, 0},
};

#define AT(member) offsetof(struct weir_spec, member)

static const struct spec_option options[FIELD_LAST] = {
    [FIELD_BURST] = {"burst", "20", KIND_COUNT, STORES, AT(burst), NULL},
    [FIELD_INITIAL] = {"initial", "0", KIND_COUNT, STORES, AT(initial), NULL},
    [FIELD_ALGO] = {"algo", "sliding-log", KIND_ALGO, RATES, AT(algo), NULL},
    [FIELD_RATIO] = {"ratio", "1.1", KIND_FACTOR, ALGO_BIT(WEIR_HYBRID), AT(ratio_ppm), NULL},
    [FIELD_POOL] = {"pool", "1ms", KIND_TIME, ALGO_BIT(WEIR_HYBRID), AT(pool_ns), NULL},
    [FIELD_FILL] = {"fill", "callers", KIND_CHOICE, ALGO_BIT(WEIR_HYBRID), AT(fill), fills},
    [FIELD_WARMUP] = {"warmup", "4s", KIND_TIME, ALGO_BIT(WEIR_WARMUP), AT(warmup_ns), NULL},
    [FIELD_COLD] = {"cold", "3", KIND_FACTOR, ALGO_BIT(WEIR_WARMUP), AT(cold_ppm), NULL},
    [FIELD_SHAPE] = {"shape", "above", KIND_CHOICE, ALGO_BIT(WEIR_WARMUP), AT(shape), shapes},
    [FIELD_QUEUE] = {"queue", "20", KIND_COUNT, ALGO_BIT(WEIR_LEAKY_BUCKET), AT(queue), NULL},
    [FIELD_AGE] = {"age", "5s", KIND_TIME, ALGO_BIT(WEIR_LEAKY_BUCKET), AT(age_ns), NULL},
    [FIELD_REFUSED] = {"refused", "ignore", KIND_CHOICE, SPEC_WINDOWS | ALGO_BIT(WEIR_STEP), AT(refused),
                       refusals},
    [FIELD_STRICT] = {"strict", "true", KIND_CHOICE, ALGO_BIT(WEIR_STEP), AT(strict), truths},
    [FIELD_TIMEOUT] = {"timeout", "5s", KIND_TIME, RATES, AT(timeout_ns), NULL},
    [FIELD_NAME] = {"name", "api", KIND_NAME, UINT32_MAX, AT(name), NULL},
};

/* Short forms care about case, words do not; every word has a plural. */
static const struct {
    const char *word;
    bool is_short;
    int64_t length_ns;
} units[] = {
    {"ns", true, 1},
    {"us", true, 1000},
    {"\xC2\xB5s", true, 1000}, /* the micro sign and the Greek letter look the same */
    {"\xCE\xBCs", true, 1000},
    {"ms", true, WEIR_MS},
    {"s", true, WEIR_SEC},
    {"m", true, 60 * WEIR_SEC},
    {"h", true, 3600 * WEIR_SEC},
    {"d", true, 86400 * WEIR_SEC},
    {"w", true, 604800 * WEIR_SEC},
    {"second", false, WEIR_SEC},
    {"sec", false, WEIR_SEC},
    {"minute", false, 60 * WEIR_SEC},
    {"min", false, 60 * WEIR_SEC},
    {"hour", false, 3600 * WEIR_SEC},
    {"hr", false, 3600 * WEIR_SEC},
    {"day", false, 86400 * WEIR_SEC},
    {"week", false, 604800 * WEIR_SEC},
    {"month", false, SPEC_CALENDAR},
    {"year", false, SPEC_CALENDAR},
};

/* ---- look-up ---------------------------------------------------------------------------------- */

bool weir_spec_is_alone(const struct weir_spec *spec)
{
    return spec->algo == WEIR_UNLIMITED || spec->algo == WEIR_BLOCKED;
}

const struct spec_option *weir_spec_option(enum spec_field field)
{
    return options[field].name ? &options[field] : NULL;
}

static bool is_narrow(enum spec_field field)
{
    return options[field].kind == KIND_CHOICE || options[field].kind == KIND_ALGO;
}

int64_t weir_spec_value(const struct weir_spec *spec, enum spec_field field)
{
    int32_t narrow;
    int64_t wide;
    memcpy(&narrow, (const char *)spec + options[field].offset, sizeof narrow);
    if (is_narrow(field))
        return narrow;
    memcpy(&wide, (const char *)spec + options[field].offset, sizeof wide);
    return wide;
}

void weir_spec_set_value(struct weir_spec *spec, enum spec_field field, int64_t value)
{
    int32_t narrow = (int32_t)value;
    if (is_narrow(field))
        memcpy((char *)spec + options[field].offset, &narrow, sizeof narrow);
    else
        memcpy((char *)spec + options[field].offset, &value, sizeof value);
}

enum spec_field weir_spec_find_option(const char *word, size_t len)
{
    for (enum spec_field field = FIELD_NONE; field < FIELD_LAST; field++)
        if (options[field].name && weir_text_same(word, len, options[field].name))
            return field;
    return FIELD_NONE;
}

const char *weir_spec_algo_word(size_t index)
{
    return index < COUNT_OF(algo_words) ? algo_words[index].word : NULL;
}

int32_t weir_spec_find_algo(const char *word, size_t len)
{
    for (size_t i = 0; i < COUNT_OF(algo_words); i++)
        if (weir_text_same(word, len, algo_words[i].word))
            return algo_words[i].algo;
    return SPEC_ALGO_NONE;
}

const char *weir_algo_name(int32_t algo)
{
    for (size_t i = 0; i < COUNT_OF(algo_words); i++)
        if (algo_words[i].algo == algo)
            return algo_words[i].word;
    return algo == WEIR_UNLIMITED ? "unlimited" : algo == WEIR_BLOCKED ? "blocked" : "unknown";
}

static bool is_unit(size_t i, const char *word, size_t len)
{
    if (units[i].is_short)
        return strlen(units[i].word) == len && memcmp(units[i].word, word, len) == 0;
    if (weir_text_same(word, len, units[i].word))
        return true;
    return len > 1 && weir_text_lower(word[len - 1]) == 's' && weir_text_same(word, len - 1, units[i].word);
}

int64_t weir_spec_find_unit(const char *word, size_t len)
{
    for (size_t i = 0; i < COUNT_OF(units); i++)
        if (is_unit(i, word, len))
            return units[i].length_ns;
    return 0;
}

/* ---- sentences -------------------------------------------------------------------------------- */

struct spec_shown weir_spec_show(const char *word, size_t len)
{
    struct spec_shown shown;
    size_t whole = weir_text_cut(word, len, sizeof shown.text - sizeof "...");
    (void)snprintf(shown.text, sizeof shown.text, "%.*s%s", (int)whole, word, whole < len ? "..." : "");
    for (size_t i = 0; i < whole; i++)
        if (shown.text[i] >= '\t' && shown.text[i] <= '\r')
            shown.text[i] = ' '; /* a message is one line, even about 12<newline>k */
    return shown;
}

bool weir_spec_fault(struct spec_fault *fault, enum spec_field field, const char *format, ...)
{
    va_list arguments;
    *fault = (struct spec_fault){.field = field};
    va_start(arguments, format);
    (void)vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
    return false;
}

bool weir_spec_fault_zero(struct spec_fault *fault)
{
    return weir_spec_fault(fault, FIELD_COUNT, "0 lets nothing pass; write blocked");
}

/* "a", "a and b", "a, b and c" */
static void list_put(struct text *list, const char *word, size_t index, size_t count, const char *last_joint)
{
    weir_text_print(list, "%s%s", index == 0 ? "" : index + 1 == count ? last_joint : ", ", word);
}

static void list_algos(struct text *list, uint32_t algos)
{
    size_t count = 0, index = 0;
    uint32_t seen = 0;
    for (uint32_t rest = algos; rest; rest &= rest - 1)
        count++;
    for (size_t i = 0; i < COUNT_OF(algo_words); i++) {
        uint32_t bit = algo_words[i].algo >= 0 ? ALGO_BIT(algo_words[i].algo) : 0;
        if ((bit & algos) && !(bit & seen))
            list_put(list, algo_words[i].word, index++, count, " and ");
        seen |= bit;
    }
}

/* "token-bucket has no ratio; it belongs to hybrid; add algo=hybrid" */
static bool fault_owned(struct spec_fault *fault, enum spec_field field, int32_t algo, bool chosen,
                        const char *what, uint32_t owners)
{
    char words[96];
    struct text list;
    weir_text_init(&list, words, sizeof words);
    list_algos(&list, owners);
    return weir_spec_fault(fault, field, "%s has no %s; it belongs to %s; %s algo=%.*s", weir_algo_name(algo),
                           what, words, chosen ? "leave it out or write" : "add", (int)strcspn(words, ", "),
                           words);
}

bool weir_spec_fault_foreign(struct spec_fault *fault, enum spec_field field, int32_t algo, bool chosen)
{
    const char *name = weir_algo_name(algo), *option = options[field].name;
    if (algo == WEIR_UNLIMITED || algo == WEIR_BLOCKED)
        (void)weir_spec_fault(fault, field, "%s has no %s; only name= may follow it", name, option);
    else
        (void)fault_owned(fault, field, algo, chosen, option, options[field].algos);
    fault->foreign = true;
    return false;
}

bool weir_spec_fault_foreign_choice(struct spec_fault *fault, enum spec_field field, int32_t algo,
                                    bool chosen, const struct spec_choice *choice)
{
    char what[32];
    (void)snprintf(what, sizeof what, "%s=%s", options[field].name, choice->word);
    return fault_owned(fault, field, algo, chosen, what, choice->algos);
}

static void list_choices(struct text *list, const struct spec_choice *choices)
{
    size_t count = 0;
    while (choices[count].word)
        count++;
    for (size_t i = 0; i < count; i++)
        list_put(list, choices[i].word, i, count, " or ");
}

bool weir_spec_fault_choice(struct spec_fault *fault, enum spec_field field, const char *word, size_t len)
{
    if (field == FIELD_SHAPE && weir_text_same(word, len, "own"))
        return weir_spec_fault(
            fault, field, "shape=own needs a function, which no text can hold; pass it to weir_policy_from");
    char words[64];
    struct text list;
    weir_text_init(&list, words, sizeof words);
    list_choices(&list, options[field].choices);
    return weir_spec_fault(fault, field, "%s is %s, not '%s'", options[field].name, words,
                           weir_spec_show(word, len).text);
}

/*
 * What to write instead: "did you mean" for slips of the finger. Nothing here decides what a text means; it
 * only finds the sentence for a text that means nothing. Words of other systems are in src/phrasebook.
 */

/* ---- units of time ----------------------------------------------------------------------------- */

static const struct spec_hint unit_hints[] = {
    {"nanosecond", "ns"},  {"nanoseconds", "ns"},  {"nanos", "ns"},  {"nsec", "ns"},
    {"microsecond", "us"}, {"microseconds", "us"}, {"micros", "us"}, {"usec", "us"},
    {"millisecond", "ms"}, {"milliseconds", "ms"}, {"millis", "ms"}, {"msec", "ms"},
    {"hourly", "h"},       {"daily", "d"},         {"weekly", "w"},  {"monthly", "30d"},
    {"yearly", "365d"},    {"y", "365d"},          {"yr", "365d"},   {"mo", "30d"},
};

const char *weir_spec_hint_unit(const char *word, size_t len)
{
    for (size_t i = 0; i < COUNT_OF(unit_hints); i++)
        if (weir_text_alike(word, len, unit_hints[i].word))
            return unit_hints[i].say;
    return NULL;
}

/* ---- did you mean ----------------------------------------------------------------------------- */

/* For those who write a part of it, or more than it: bucket, burstsize. */
static void guess_part(struct nearest *guess, const char *candidate)
{
    size_t len = strlen(candidate);
    if (guess->found || guess->len < 3 || len < 4)
        return;
    if (weir_text_contains(candidate, len, guess->word, guess->len) ||
        weir_text_contains(guess->word, guess->len, candidate, len))
        guess->found = candidate;
}

static const char *guess_option(const char *word, size_t len)
{
    struct nearest guess = weir_nearest(word, len);
    for (enum spec_field field = FIELD_NONE; field < FIELD_LAST; field++)
        if (weir_spec_option(field))
            (void)weir_nearest_try(&guess, weir_spec_option(field)->name);
    for (enum spec_field field = FIELD_NONE; field < FIELD_LAST; field++)
        if (weir_spec_option(field))
            guess_part(&guess, weir_spec_option(field)->name);
    return guess.found;
}

static const char *guess_algo(const char *word, size_t len)
{
    struct nearest guess = weir_nearest(word, len);
    for (size_t i = 0; weir_spec_algo_word(i); i++)
        (void)weir_nearest_try(&guess, weir_spec_algo_word(i));
    for (size_t i = 0; weir_spec_algo_word(i); i++)
        guess_part(&guess, weir_spec_algo_word(i));
    return guess.found;
}

/* ---- sentences -------------------------------------------------------------------------------- */

bool weir_spec_unknown(struct spec_fault *fault, enum spec_unknown unknown, bool guessed, struct slice word,
                       struct slice value)
{
    fault->unknown = unknown;
    fault->guessed = guessed;
    fault->word = word;
    fault->value = value;
    return false;
}

bool weir_spec_fault_option(struct spec_fault *fault, struct slice word, struct slice value)
{
    struct spec_shown shown = weir_spec_show(word.bytes, word.len);
    bool is_algo = weir_spec_find_algo(word.bytes, word.len) != SPEC_ALGO_NONE;
    const char *near = guess_option(word.bytes, word.len);
    if (is_algo)
        (void)weir_spec_fault(fault, FIELD_NONE, "%s is an algorithm; write algo=%s", shown.text, shown.text);
    else if (near)
        (void)weir_spec_fault(fault, FIELD_NONE, "unknown option '%s'; did you mean %s?", shown.text, near);
    else
        (void)weir_spec_fault(
            fault, FIELD_NONE,
            "unknown option '%s'; the options are burst, initial, algo, ratio, pool, fill, warmup, "
            "cold, shape, queue, age, refused, strict, timeout and name",
            shown.text);
    return weir_spec_unknown(fault, UNKNOWN_OPTION, is_algo || near, word, value);
}

bool weir_spec_fault_algo(struct spec_fault *fault, const char *word, size_t len)
{
    struct spec_shown shown = weir_spec_show(word, len);
    if (weir_text_same(word, len, "unlimited") || weir_text_same(word, len, "blocked"))
        return weir_spec_fault(fault, FIELD_ALGO, "%s stands alone, without a rate", shown.text);
    const char *near = guess_algo(word, len);
    if (near)
        (void)weir_spec_fault(fault, FIELD_ALGO, "unknown algorithm '%s'; did you mean %s?", shown.text,
                              near);
    else
        (void)weir_spec_fault(
            fault, FIELD_ALGO,
            "unknown algorithm '%s'; use token-bucket, sliding-log, sliding-window, fixed-window, quota, "
            "interval, smooth, warmup, hybrid, leaky-bucket or step",
            shown.text);
    return weir_spec_unknown(fault, UNKNOWN_ALGO, near, (struct slice){word, len}, (struct slice){0});
}

/* A short form in the wrong case, or a long word with a slip. */
static const char *guess_unit(const char *word, size_t len)
{
    static const char *const short_words[] = {"ns", "us", "ms", "s", "h", "d", "w"};
    static const char *const long_words[] = {"second", "seconds", "minute", "minutes", "hour",
                                             "hours",  "day",     "days",   "week",    "weeks",
                                             "month",  "months",  "year",   "years"};
    if (weir_spec_hint_unit(word, len))
        return weir_spec_hint_unit(word, len);
    for (size_t i = 0; i < COUNT_OF(short_words); i++)
        if (weir_text_same(word, len, short_words[i]))
            return short_words[i];
    struct nearest guess = weir_nearest(word, len);
    for (size_t i = 0; len >= 4 && i < COUNT_OF(long_words); i++)
        (void)weir_nearest_try(&guess, long_words[i]);
    return guess.found;
}

bool weir_spec_fault_unit(struct spec_fault *fault, const char *word, size_t len)
{
    struct spec_shown shown = weir_spec_show(word, len);
    const char *near = guess_unit(word, len);
    if (len == 1 && word[0] == 'M')
        return weir_spec_fault(fault, FIELD_PERIOD, "M means million; for minutes write m");
    if (near)
        return weir_spec_fault(fault, FIELD_PERIOD, "'%s' is not a period; did you mean %s?", shown.text,
                               near);
    return weir_spec_fault(fault, FIELD_PERIOD,
                           "'%s' is not a period; use ns us ms s m h d w, such as 250ms, 10s or h",
                           shown.text);
}

/* true: there is a sentence for this word. */
static bool fault_known_start(struct spec_fault *fault, const char *word, size_t len)
{
    struct nearest guess = weir_nearest(word, len);
    (void)weir_nearest_try(&guess, "unlimited");
    (void)weir_nearest_try(&guess, "blocked");
    if (len > 1 && strchr("+-.", word[0]) && word[1] >= '0' && word[1] <= '9')
        (void)weir_spec_fault(fault, FIELD_NONE, "a count begins with a digit and has no sign: 100 or 0.5");
    else if (len > 0 && strchr("\"'`", word[0]))
        (void)weir_spec_fault(fault, FIELD_NONE, "a limit has no quotes: 100/s burst=20");
    else if (guess.found)
        (void)weir_spec_fault(fault, FIELD_NONE, "'%s' is no limit; did you mean %s?",
                              weir_spec_show(word, len).text, guess.found);
    else if (weir_spec_find_option(word, len) != FIELD_NONE ||
             weir_spec_find_algo(word, len) != SPEC_ALGO_NONE)
        (void)weir_spec_fault(fault, FIELD_NONE,
                              "the rate comes first, options follow it after a space: 100/s burst=20");
    else
        return false;
    return true;
}

bool weir_spec_fault_start(struct spec_fault *fault, struct slice word, struct slice value)
{
    bool known = fault_known_start(fault, word.bytes, word.len);
    if (!known)
        (void)weir_spec_fault(
            fault, FIELD_NONE,
            "a limit begins with a rate, such as 100/s or 5 per minute, or is unlimited or blocked");
    return weir_spec_unknown(fault, UNKNOWN_START, known, word, value);
}
