/* SPDX-License-Identifier: MIT */
/*
 * Single words that people know from other systems, and what weir calls them.
 */
#include "phrasebook/words.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "spec/keywords.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* A word of another system: "'capacity' is called burst here". What stands between two $ gives way to the
 * number in the user's text. */
struct hint {
    const char *word, *say;
};

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

static const struct hint hints[] = {
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
static const struct hint algo_hints[] = {
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

static const struct hint *find_hint(const struct hint *list, size_t count, struct slice word)
{
    for (size_t i = 0; i < count; i++)
        if (weir_text_alike(word.bytes, word.len, list[i].word))
            return &list[i];
    return NULL;
}

/* The nearest word, after a slip of the finger. Short words are near to too many others. */
static const struct hint *guess_hint(struct slice word)
{
    struct nearest near = weir_nearest(word.bytes, word.len);
    const struct hint *best = NULL;
    for (size_t i = 0; word.len >= 5 && i < COUNT_OF(hints); i++)
        if (weir_nearest_try(&near, hints[i].word))
            best = &hints[i];
    return best;
}

static bool is_value(const char *text)
{
    return *text >= '0' && *text <= '9' && text[strspn(text, "0123456789.kKMGiBnumshdw")] == '\0';
}

/* What the hint says, after `lead`, with the value of the text in place of the sample. */
static bool say_hint(struct spec_fault *fault, const char *lead, const struct hint *hint)
{
    const char *from = hint->say, *sample = strchr(from, '$'),
               *rest = sample ? strchr(sample + 1, '$') : NULL;
    struct spec_shown value = weir_spec_show(fault->value.bytes, fault->value.len);
    if (!rest)
        return weir_spec_fault(fault, FIELD_NONE, "%s'%s' %s", lead, hint->word, from), true;
    if (!is_value(value.text))
        (void)snprintf(value.text, sizeof value.text, "%.*s", (int)(rest - sample - 1), sample + 1);
    (void)weir_spec_fault(fault, FIELD_NONE, "%s'%s' %.*s%s%s", lead, hint->word, (int)(sample - from), from,
                          value.text, rest + 1);
    return true;
}

static bool say_algo(struct spec_fault *fault, struct spec_shown word)
{
    const struct hint *hint = find_hint(algo_hints, COUNT_OF(algo_hints), fault->word);
    if (hint)
        (void)weir_spec_fault(fault, FIELD_ALGO, "unknown algorithm '%s'; did you mean %s?", word.text,
                              hint->say);
    return hint;
}

bool weir_phrasebook_find_word(struct spec_fault *fault)
{
    struct spec_shown shown = weir_spec_show(fault->word.bytes, fault->word.len);
    char lead[sizeof shown.text + 24];
    if (fault->unknown == UNKNOWN_NOTHING)
        return false;
    if (fault->unknown == UNKNOWN_ALGO)
        return say_algo(fault, shown);
    const struct hint *hint = find_hint(hints, COUNT_OF(hints), fault->word);
    if (hint)
        return say_hint(fault, "", hint);
    hint = fault->guessed ? NULL : guess_hint(fault->word);
    (void)snprintf(lead, sizeof lead,
                   fault->unknown == UNKNOWN_OPTION ? "unknown option '%s'; " : "'%s' is no limit; ",
                   shown.text);
    return hint && say_hint(fault, lead, hint);
}
