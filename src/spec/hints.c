/* SPDX-License-Identifier: MIT */
/*
 * What to write instead: words that people know from other systems, and "did you mean" for slips of the
 * finger. Nothing here decides what a text means; it only finds the sentence for a text that means nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "spec/keywords.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* ---- words from elsewhere --------------------------------------------------------------------- */

#define IS_BURST  "is called burst here: burst=$20$"
#define IS_COUNT  "is the count of the rate: $50$/s"
#define IS_PERIOD "is the period of the rate: 100/$60s$"
#define IS_RATE   "is written as a rate, first and without a name: $100$/s"
#define IS_UNITS  "is not needed: units have no name in a limit, such as 100/s"
#define IS_N      "is the n of each take, not part of a limit"
#define IS_CALL   "is a call, not part of a limit; here it is "
#define IS_CYCLE  "stands only in front of EngineBlock's whole text: cyclerate=12000,1.1"
#define IS_FLIGHT "is not yet supported: weir limits rates, such as $50$/s"
#define IS_END    "is written unlimited if all may pass, blocked if nothing may"

static const struct spec_hint hints[] = {
    {"capacity", IS_BURST},
    {"max", IS_BURST},
    {"depth", IS_BURST},
    {"bucket_size", IS_BURST},
    {"burst_size", IS_BURST},
    {"permitCapacity", IS_BURST},
    {"maxPermits", IS_BURST},
    {"allow_burst", IS_BURST},
    {"max_burst", "counts one less than burst: redis-cell's 15 is burst=16 here"},
    {"maxBurstSeconds", "is burst here, in units: 2 seconds of 5/s are burst=10"},
    {"initialPermits", "is called initial here: initial=$0$"},
    {"initialTokens", "is called initial here: initial=$0$"},
    {"timeoutDuration", "is called timeout here: timeout=$5s$"},
    {"max_wait", "is called timeout here: timeout=$5s$"},
    {"within", "is called timeout here: timeout=$5s$"},
    {"coldFactor", "is called cold here: algo=warmup warmup=4s cold=$3$"},
    {"warmupPeriod", "is called warmup here: algo=warmup warmup=$4s$"},
    {"burstRatio", "is called ratio here: algo=hybrid ratio=$1.1$"},
    {"limitForPeriod", IS_COUNT},
    {"limit", IS_COUNT},
    {"count", IS_COUNT},
    {"requests_per_unit", "is the count of the rate: $5$/m algo=fixed-window"},
    {"limitRefreshPeriod", IS_PERIOD},
    {"period", IS_PERIOD},
    {"window", IS_PERIOD},
    {"refill_time", IS_PERIOD},
    {"unit", "is the period of the rate: 5/m algo=fixed-window"},
    {"rate", IS_RATE},
    {"qps", IS_RATE},
    {"rps", IS_RATE},
    {"tps", IS_RATE},
    {"rpm", "is written as a rate, first and without a name: $100$/m"},
    {"permitsPerSecond", IS_RATE},
    {"stableRate", IS_RATE},
    {"permits", IS_UNITS},
    {"tokens", IS_UNITS},
    {"cells", IS_UNITS},
    {"requests", IS_UNITS},
    {"request", IS_UNITS},
    {"reqs", IS_UNITS},
    {"req", IS_UNITS},
    {"r", IS_UNITS},
    {"calls", IS_UNITS},
    {"ops", IS_UNITS},
    {"cost", IS_N},
    {"hits", IS_N},
    {"weight", IS_N},
    {"quantity", IS_N},
    {"nodelay", "is nginx's: burst=20 nodelay is burst=21 here, without it algo=leaky-bucket queue=20"},
    {"refillGreedy", "(10, 1 s) is the rate here, and capacity is burst: 10/s burst=100"},
    {"refillIntervally", "(10, 1 s) is 10/s algo=step here, and capacity is burst"},
    {"refill", "is the rate here: Smyte's 10 5 REFILL 3 is 3/5s burst=10 algo=step"},
    {"drain", "is written refused=drain here, with algo=step"},
    {"cyclerate", IS_CYCLE},
    {"targetrate", IS_CYCLE},
    {"striderate", IS_CYCLE},
    {"phaserate", IS_CYCLE},
    {"in-flight", IS_FLIGHT},
    {"max_in_flight", IS_FLIGHT},
    {"concurrent", IS_FLIGHT},
    {"concurrency", IS_FLIGHT},
    {"tz", "belongs to calendar periods, which are not yet supported"},
    {"timezone", "belongs to calendar periods, which are not yet supported"},
    {"anchor", "belongs to calendar periods, which are not yet supported"},
    {"none", IS_END},
    {"off", IS_END},
    {"disabled", IS_END},
    {"inf", IS_END},
    {"infinite", IS_END},
    {"infinity", IS_END},
    {"nolimit", IS_END},
    {"deny", IS_END},
    {"pause", IS_END},
    {"and", "is written as a comma: 100/s, 10k/h"},
    {"RateLimiter.create", "(5) is 5/s algo=smooth here; for most uses plain 5/s"},
    {"create", "(5) is 5/s algo=smooth here; for most uses plain 5/s"},
    {"NewLimiter", "(10, 100) is 10/s burst=100 here"},
    {"rate.NewLimiter", "(10, 100) is 10/s burst=100 here"},
    {"Quota::per_second", "(50).allow_burst(10) is 50/s burst=10 here"},
    {"CL.THROTTLE", "key 15 30 60 is the limit 30/m burst=16 here"},
    {"RL.REDUCE", "key 10 5 REFILL 3 is 3/5s burst=10 algo=step here; to drain as it does add refused=drain"},
    {"tryAcquire", IS_CALL "take"},
    {"acquire", IS_CALL "acquire"},
    {"acquirePermission", IS_CALL "acquire"},
    {"reservePermission", IS_CALL "reserve"},
    {"drainPermissions", IS_CALL "drain"},
    {"setRate", IS_CALL "a change of the limit"},
    {"changeLimitForPeriod", IS_CALL "a change of the limit"},
    {"changeTimeoutDuration", IS_CALL "a change of timeout="},
    {"getAvailablePermissions", IS_CALL "peek"},
    {"tryConsume", IS_CALL "take"},
    {"addTokens", IS_CALL "give"},
    {"allow", IS_CALL "take"},
    {"wait", IS_CALL "acquire"},
    {"reserve", IS_CALL "reserve"},
    {"cancel", IS_CALL "cancel"},
    {"check", IS_CALL "take"},
    {"until_ready", IS_CALL "acquire"},
};

/* Systems and shapes that people name instead of an algorithm. */
static const struct spec_hint algo_hints[] = {
    {"bucket4j", "token-bucket"},     {"resilience4j", "token-bucket"},
    {"governor", "token-bucket"},     {"redis-cell", "token-bucket"},
    {"refillGreedy", "token-bucket"}, {"envoy", "fixed-window"},
    {"counter", "fixed-window"},      {"kong", "sliding-window"},
    {"rolling", "sliding-window"},    {"rolling-window", "sliding-window"},
    {"nginx", "leaky-bucket"},        {"queue", "leaky-bucket"},
    {"fifo", "leaky-bucket"},         {"bursty", "smooth"},
    {"SmoothBursty", "smooth"},       {"SmoothWarmingUp", "warmup"},
    {"refillIntervally", "step"},     {"nosqlbench", "hybrid"},
    {"cyclerate", "hybrid"},
};

static const struct spec_hint unit_hints[] = {
    {"nanosecond", "ns"},  {"nanoseconds", "ns"},  {"nanos", "ns"},  {"nsec", "ns"},
    {"microsecond", "us"}, {"microseconds", "us"}, {"micros", "us"}, {"usec", "us"},
    {"millisecond", "ms"}, {"milliseconds", "ms"}, {"millis", "ms"}, {"msec", "ms"},
    {"hourly", "h"},       {"daily", "d"},         {"weekly", "w"},  {"monthly", "30d"},
    {"yearly", "365d"},    {"y", "365d"},          {"yr", "365d"},   {"mo", "30d"},
};

static const struct spec_hint *find_hint(const struct spec_hint *list, size_t count, const char *word,
                                         size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (weir_text_alike(word, len, list[i].word))
            return &list[i];
    return NULL;
}

const struct spec_hint *weir_spec_hint(const char *word, size_t len)
{
    return find_hint(hints, COUNT_OF(hints), word, len);
}

const char *weir_spec_hint_unit(const char *word, size_t len)
{
    const struct spec_hint *hint = find_hint(unit_hints, COUNT_OF(unit_hints), word, len);
    return hint ? hint->say : NULL;
}

/* ---- did you mean ----------------------------------------------------------------------------- */

/* The best of any number of candidates. */
struct guess {
    const char *word;
    size_t len;
    const char *best; /* NULL: none is near */
    size_t distance;
};

static struct guess guess_new(const char *word, size_t len)
{
    return (struct guess){.word = word, .len = len, .distance = (len + 1) / 3 + 1};
}

/* Gives true if the candidate is the best so far. */
static bool guess_try(struct guess *guess, const char *candidate)
{
    size_t distance = weir_text_distance(guess->word, guess->len, candidate);
    if (distance >= guess->distance)
        return false;
    guess->best = candidate;
    guess->distance = distance;
    return true;
}

/* For those who write a part of it, or more than it: bucket, burstsize. */
static void guess_part(struct guess *guess, const char *candidate)
{
    size_t len = strlen(candidate);
    if (guess->best || guess->len < 3 || len < 4)
        return;
    if (weir_text_contains(candidate, len, guess->word, guess->len) ||
        weir_text_contains(guess->word, guess->len, candidate, len))
        guess->best = candidate;
}

static const char *guess_option(const char *word, size_t len)
{
    struct guess guess = guess_new(word, len);
    for (enum spec_field field = FIELD_NONE; field < FIELD_LAST; field++)
        if (weir_spec_option(field))
            (void)guess_try(&guess, weir_spec_option(field)->name);
    for (enum spec_field field = FIELD_NONE; field < FIELD_LAST; field++)
        if (weir_spec_option(field))
            guess_part(&guess, weir_spec_option(field)->name);
    return guess.best;
}

static const char *guess_algo(const char *word, size_t len)
{
    struct guess guess = guess_new(word, len);
    for (size_t i = 0; weir_spec_algo_word(i); i++)
        (void)guess_try(&guess, weir_spec_algo_word(i));
    for (size_t i = 0; weir_spec_algo_word(i); i++)
        guess_part(&guess, weir_spec_algo_word(i));
    return guess.best;
}

/* Short words are near to too many others. */
static const struct spec_hint *guess_hint(const char *word, size_t len)
{
    struct guess guess = guess_new(word, len);
    const struct spec_hint *best = NULL;
    for (size_t i = 0; len >= 5 && i < COUNT_OF(hints); i++)
        if (guess_try(&guess, hints[i].word))
            best = &hints[i];
    return best;
}

/* ---- sentences -------------------------------------------------------------------------------- */

static bool is_value(const char *text)
{
    return *text >= '0' && *text <= '9' && text[strspn(text, "0123456789.kKMGiBnumshdw")] == '\0';
}

/* What the hint says, after `lead`, with the value of the text in place of the sample. */
static bool fault_hint(struct spec_fault *fault, const char *lead, const struct spec_hint *hint,
                       struct spec_shown value)
{
    const char *from = hint->say, *sample = strchr(from, '$'),
               *rest = sample ? strchr(sample + 1, '$') : NULL;
    if (!rest)
        return weir_spec_fault(fault, FIELD_NONE, "%s'%s' %s", lead, hint->word, from);
    int len = (int)(rest - sample - 1);
    if (!is_value(value.text))
        (void)snprintf(value.text, sizeof value.text, "%.*s", len, sample + 1);
    return weir_spec_fault(fault, FIELD_NONE, "%s'%s' %.*s%s%s", lead, hint->word, (int)(sample - from), from,
                           value.text, rest + 1);
}

bool weir_spec_fault_hint(struct spec_fault *fault, const struct spec_hint *hint, struct spec_shown value)
{
    return fault_hint(fault, "", hint, value);
}

bool weir_spec_fault_option(struct spec_fault *fault, const char *word, size_t len, struct spec_shown value)
{
    const struct spec_hint *hint = weir_spec_hint(word, len);
    if (hint)
        return fault_hint(fault, "", hint, value);

    struct spec_shown shown = weir_spec_show(word, len);
    int32_t algo = weir_spec_find_algo(word, len);
    if (algo != SPEC_ALGO_NONE)
        return weir_spec_fault(fault, FIELD_NONE, "%s is an algorithm; write algo=%s", shown.text,
                               shown.text);
    const char *near = guess_option(word, len);
    if (near)
        return weir_spec_fault(fault, FIELD_NONE, "unknown option '%s'; did you mean %s?", shown.text, near);
    char lead[sizeof shown.text + 24];
    hint = guess_hint(word, len);
    (void)snprintf(lead, sizeof lead, "unknown option '%s'; ", shown.text);
    if (hint)
        return fault_hint(fault, lead, hint, value);
    return weir_spec_fault(
        fault, FIELD_NONE,
        "unknown option '%s'; the options are burst, initial, algo, ratio, pool, fill, warmup, "
        "cold, shape, queue, age, refused, strict, timeout and name",
        shown.text);
}

bool weir_spec_fault_algo(struct spec_fault *fault, const char *word, size_t len)
{
    struct spec_shown shown = weir_spec_show(word, len);
    if (weir_text_same(word, len, "unlimited") || weir_text_same(word, len, "blocked"))
        return weir_spec_fault(fault, FIELD_ALGO, "%s stands alone, without a rate", shown.text);
    const struct spec_hint *hint = find_hint(algo_hints, COUNT_OF(algo_hints), word, len);
    const char *near = hint ? hint->say : guess_algo(word, len);
    if (near)
        return weir_spec_fault(fault, FIELD_ALGO, "unknown algorithm '%s'; did you mean %s?", shown.text,
                               near);
    return weir_spec_fault(
        fault, FIELD_ALGO,
        "unknown algorithm '%s'; use token-bucket, sliding-log, sliding-window, fixed-window, quota, "
        "interval, smooth, warmup, hybrid, leaky-bucket or step",
        shown.text);
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
    struct guess guess = guess_new(word, len);
    for (size_t i = 0; len >= 4 && i < COUNT_OF(long_words); i++)
        (void)guess_try(&guess, long_words[i]);
    return guess.best;
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

bool weir_spec_fault_start(struct spec_fault *fault, const char *word, size_t len, struct spec_shown value)
{
    const struct spec_hint *hint = weir_spec_hint(word, len);
    if (hint)
        return fault_hint(fault, "", hint, value);
    if (len > 1 && strchr("+-.", word[0]) && word[1] >= '0' && word[1] <= '9')
        return weir_spec_fault(fault, FIELD_NONE, "a count begins with a digit and has no sign: 100 or 0.5");
    if (len > 0 && strchr("\"'`", word[0]))
        return weir_spec_fault(fault, FIELD_NONE, "a limit has no quotes: 100/s burst=20");
    struct spec_shown shown = weir_spec_show(word, len);
    struct guess guess = guess_new(word, len);
    (void)guess_try(&guess, "unlimited");
    (void)guess_try(&guess, "blocked");
    if (guess.best)
        return weir_spec_fault(fault, FIELD_NONE, "'%s' is no limit; did you mean %s?", shown.text,
                               guess.best);
    if (weir_spec_find_option(word, len) != FIELD_NONE || weir_spec_find_algo(word, len) != SPEC_ALGO_NONE)
        return weir_spec_fault(fault, FIELD_NONE,
                               "the rate comes first, options follow it after a space: 100/s burst=20");
    char lead[sizeof shown.text + 24];
    hint = guess_hint(word, len);
    (void)snprintf(lead, sizeof lead, "'%s' is no limit; ", shown.text);
    if (hint)
        return fault_hint(fault, lead, hint, value);
    return weir_spec_fault(
        fault, FIELD_NONE,
        "a limit begins with a rate, such as 100/s or 5 per minute, or is unlimited or blocked");
}
