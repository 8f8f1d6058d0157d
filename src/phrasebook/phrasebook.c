/* SPDX-License-Identifier: MIT */
#include "phrasebook/phrasebook.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "phrasebook/phrase.h"
#include "spec/keywords.h"
#include "spec/read.h"

/* ---- single words that people know from other systems ---- */

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* Words of another system: "'capacity' is called burst here". What stands between two $ gives way to the
 * number in the user's text. */
struct hint {
    const char *words, *say; /* words have spaces between them */
};

#define IS_CALL "is a call, not part of a limit; here it is "

static const struct hint hints[] = {
    {"capacity max depth bucket_size burst_size permitCapacity maxPermits allow_burst",
     "is called burst here: burst=$20$"},
    {"max_burst", "counts one less than burst: redis-cell's 15 is burst=16 here"},
    {"maxBurstSeconds", "is burst here, in units: 2 seconds of 5/s are burst=10"},
    {"initialPermits initialTokens", "is called initial here: initial=$0$"},
    {"timeoutDuration max_wait within", "is called timeout here: timeout=$5s$"},
    {"coldFactor", "is called cold here: algo=warmup warmup=4s cold=$3$"},
    {"warmupPeriod", "is called warmup here: algo=warmup warmup=$4s$"},
    {"burstRatio", "is called ratio here: algo=hybrid ratio=$1.1$"},
    {"limitForPeriod limit count", "is the count of the rate: $50$/s"},
    {"requests_per_unit", "is the count of the rate: $5$/m algo=fixed-window"},
    {"limitRefreshPeriod period window refill_time", "is the period of the rate: 100/$60s$"},
    {"unit", "is the period of the rate: 5/m algo=fixed-window"},
    {"rate qps rps tps permitsPerSecond stableRate",
     "is written as a rate, first and without a name: $100$/s"},
    {"rpm", "is written as a rate, first and without a name: $100$/m"},
    {"permits tokens cells requests request reqs req r calls ops",
     "is not needed: units have no name in a limit, such as 100/s"},
    {"cost hits weight quantity", "is the n of each take, not part of a limit"},
    {"nodelay", "is nginx's: burst=20 nodelay is burst=21 here, without it algo=leaky-bucket queue=20"},
    {"refillGreedy", "(10, 1 s) is the rate here, and capacity is burst: 10/s burst=100"},
    {"refillIntervally", "(10, 1 s) is 10/s algo=step here, and capacity is burst"},
    {"refill", "is the rate here: Smyte's 10 5 REFILL 3 is 3/5s burst=10 algo=step"},
    {"drain", "is written refused=drain here, with algo=step"},
    {"cyclerate targetrate striderate phaserate",
     "stands only in front of EngineBlock's whole text: cyclerate=12000,1.1"},
    {"in-flight max_in_flight concurrent concurrency",
     "is not yet supported: weir limits rates, such as $50$/s"},
    {"tz timezone anchor", "belongs to calendar periods, which are not yet supported"},
    {"none off disabled inf infinite infinity nolimit deny pause",
     "is written unlimited if all may pass, blocked if nothing may"},
    {"and", "is written as a comma: 100/s, 10k/h"},
    {"RateLimiter.create create", "(5) is 5/s algo=smooth here; for most uses plain 5/s"},
    {"NewLimiter rate.NewLimiter", "(10, 100) is 10/s burst=100 here"},
    {"Quota::per_second", "(50).allow_burst(10) is 50/s burst=10 here"},
    {"CL.THROTTLE", "key 15 30 60 is the limit 30/m burst=16 here"},
    {"RL.REDUCE", "key 10 5 REFILL 3 is 3/5s burst=10 algo=step here; to drain as it does add refused=drain"},
    {"tryAcquire tryConsume allow check", IS_CALL "take"},
    {"acquire acquirePermission wait until_ready", IS_CALL "acquire"},
    {"reservePermission reserve", IS_CALL "reserve"},
    {"drainPermissions", IS_CALL "drain"},
    {"setRate changeLimitForPeriod", IS_CALL "a change of the limit"},
    {"changeTimeoutDuration", IS_CALL "a change of timeout="},
    {"getAvailablePermissions", IS_CALL "peek"},
    {"addTokens", IS_CALL "give"},
    {"cancel", IS_CALL "cancel"},
};

/* Systems and shapes that people name instead of an algorithm. */
static const struct hint algo_hints[] = {
    {"bucket4j resilience4j governor redis-cell refillGreedy", "token-bucket"},
    {"envoy counter", "fixed-window"},
    {"kong rolling rolling-window", "sliding-window"},
    {"nginx queue fifo", "leaky-bucket"},
    {"bursty SmoothBursty", "smooth"},
    {"SmoothWarmingUp", "warmup"},
    {"refillIntervally", "step"},
    {"nosqlbench cyclerate", "hybrid"},
};

/* A hint, and which of its words it was. */
struct hint_match {
    const struct hint *hint;
    char word[32];
};

/* The hint of a word; or, with `guess`, of the nearest one, after a slip of the finger. */
static bool find_hint(const struct hint *list, size_t count, struct slice word, bool guess,
                      struct hint_match *match)
{
    struct nearest near = weir_nearest(word.bytes, word.len);
    match->hint = NULL;
    for (size_t i = 0; i < count && (guess || !match->hint); i++)
        for (const char *at = list[i].words; *at; at += strspn(at, " ")) {
            char known[sizeof match->word];
            size_t len = strcspn(at, " ");
            ASSERT(len < sizeof known);
            (void)snprintf(known, sizeof known, "%.*s", (int)len, at);
            at += len;
            if (!(guess ? weir_nearest_try(&near, known) : weir_text_alike(word.bytes, word.len, known)))
                continue;
            match->hint = &list[i];
            memcpy(match->word, known, sizeof known);
        }
    return match->hint;
}

static bool is_value(const char *text)
{
    return *text >= '0' && *text <= '9' && text[strspn(text, "0123456789.kKMGiBnumshdw")] == '\0';
}

/* What the hint says, after `lead`, with the value of the text in place of the sample. */
static bool say_hint(struct spec_fault *fault, const char *lead, const struct hint_match *match)
{
    const char *from = match->hint->say, *sample = strchr(from, '$'),
               *rest = sample ? strchr(sample + 1, '$') : NULL;
    struct spec_shown value = weir_spec_show(fault->value.bytes, fault->value.len);
    if (!rest)
        return weir_spec_fault(fault, FIELD_NONE, "%s'%s' %s", lead, match->word, from), true;
    if (!is_value(value.text))
        (void)snprintf(value.text, sizeof value.text, "%.*s", (int)(rest - sample - 1), sample + 1);
    (void)weir_spec_fault(fault, FIELD_NONE, "%s'%s' %.*s%s%s", lead, match->word, (int)(sample - from), from,
                          value.text, rest + 1);
    return true;
}

static bool find_word_hint(struct spec_fault *fault)
{
    struct spec_shown shown = weir_spec_show(fault->word.bytes, fault->word.len);
    struct hint_match match;
    char lead[sizeof shown.text + 24];
    if (fault->unknown == UNKNOWN_ALGO &&
        find_hint(algo_hints, COUNT_OF(algo_hints), fault->word, false, &match))
        return weir_spec_fault(fault, FIELD_ALGO, "unknown algorithm '%s'; did you mean %s?", shown.text,
                               match.hint->say),
               true;
    if (fault->unknown == UNKNOWN_ALGO || fault->unknown == UNKNOWN_NOTHING)
        return false;
    if (find_hint(hints, COUNT_OF(hints), fault->word, false, &match))
        return say_hint(fault, "", &match);
    (void)snprintf(lead, sizeof lead,
                   fault->unknown == UNKNOWN_OPTION ? "unknown option '%s'; " : "'%s' is no limit; ",
                   shown.text);
    /* Short words are near to too many others. */
    return !fault->guessed && fault->word.len >= 5 &&
           find_hint(hints, COUNT_OF(hints), fault->word, true, &match) && say_hint(fault, lead, &match);
}

/* ---- texts ---- */

/* The end of the text without the spaces behind it. */
static const char *end_of(const char *text)
{
    const char *end = text + strlen(text);
    while (end > text && strchr(" \t\n\v\f\r", end[-1]))
        end--;
    return end;
}

/* In burst=1,000 the mistake begins in the limit before the one that was refused. */
static bool find_better(const char *text, int32_t *column, struct spec_fault *fault)
{
    const char *limit = fault->limit, *before = fault->before;
    if (!limit)
        return false;
    struct spec_reader reader = {.at = limit, .end = end_of(text), .fault = fault, .wrong = fault->wrong};
    if (!weir_phrasebook_find_phrase(&reader, limit) &&
        !(before && weir_phrasebook_find_phrase(&reader, before)))
        return find_word_hint(fault);
    *column = weir_text_column(text, (size_t)(reader.wrong - text));
    return true;
}

size_t weir_phrasebook_read(const char *text, struct weir_spec *specs, size_t capacity, int32_t *column,
                            struct spec_fault *fault)
{
    size_t count = weir_spec_read(text, specs, capacity, column, fault);
    if (count == 0)
        (void)find_better(text, column, fault);
    return count;
}

void weir_phrasebook_explain(const char *text, struct weir_error *err)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    struct spec_fault fault;
    int32_t column;
    if (!text || !err || weir_spec_read(text, specs, WEIR_LIMITS_MAX, &column, &fault) > 0 ||
        column != err->column)
        return; /* it was refused for another reason */
    if (find_better(text, &column, &fault))
        weir_error_at(err, EINVAL, text, strlen(text), column, fault.text);
}
