/* SPDX-License-Identifier: MIT */
#include "phrasebook/phrasebook.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "phrasebook/form.h"
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

/* ---- phrases ---- */

/*
 * Whole phrases that people write instead of a limit: 5 requests per hour, at most 5/m, create(2, 4,
 * SECONDS). They are asked only after the text was refused, so they decide nothing; they only know a better
 * sentence, with the numbers that stand in the text.
 */

#define PHRASE_MAX 160 /* bytes; nobody writes longer ones, and those who attack wait in vain */

/*
 * form.h explains the forms. In the sentence $1 is the first part of the text that the form names, $1+
 * one more than that number, $1~ that period in words, $0 the mistake, $* the options behind. No form may fit
 * the beginning of a limit that is right.
 */
struct phrase {
    const char *form, *say;
};

#define MOST                                                                                                 \
    "^max|maximum|at_most|no_more_than|not_more_than|never_more_than|up_to|limit|limit_to|limited_to|allow|" \
    "only"
#define PERIOD      "period|window|window_size|duration|limitRefreshPeriod|refill_time|refill_period|per"
#define COUNT       "limit|count|max|requests|calls|permits|tokens|amount|limitForPeriod|rate|points"
#define GUAVA       "^RateLimiter.create|create"
#define NO_NAME     "units have no name; write $1/$2$*"
#define NO_KEYS     "a limit knows no keys, a table has one for each; write $1/$2"
#define NO_GROUPS   "digits are not grouped; write "
#define AS_RATE     "'$0' is written as a rate: $1"
#define ONE_RATE    "count and period are one rate: write "
#define WITH_SPACE  "options follow after a space: $1/$2 $3$*"
#define NOT_FLIGHTS "'$0' is not yet supported: weir limits rates, such as $1/s"

/* The first one that fits. */
static const struct phrase phrases[] = {
    /* numbers */
    {"G P T", NO_GROUPS "$1/$2$*"},
    {"G", NO_GROUPS "$1/s"},
    {"N ^thousand|thousands U? P T", "a thousand is k; write $1k/$2$*"},
    {"N ^million|millions|mio U? P T", "a million is M; write $1M/$2$*"},
    {"N ^billion|billions U? P T", "a thousand million is G; write $1G/$2$*"},
    /* between count and period */
    {"N ^bit|bits P T", "units have no name; to count bits write $1/$2$*"},
    {"N ^byte|bytes P T", "units have no name; to count bytes write $1/$2$*"},
    {"N ^bps", "units have no name; to count bits write $1/s"},
    {"^rate = N U? P T burst = n nodelay",
     "a rate has no name, and nginx's nodelay lets one more pass; write $1/$2 burst=$3+"},
    {"N U? P T ^burst = n nodelay", "nginx's nodelay lets one more pass; write $1/$2 burst=$3+"},
    {"N ^U P T per|by|for|each W", "units have no name, and " NO_KEYS "$*"},
    {"N ^U P T", NO_NAME},
    {"N ^U", "units have no name; write $1/s, $1/m, $1/h or $1/d"},
    {"N ^in|a|an|each|within T", "'$0' is written as /; write $1/$2$*"},
    {"N ^hz|hertz", AS_RATE "/s$*"},
    {"N ^rps|qps|tps|ops/s", AS_RATE "/s$*"},
    {"N ^rpm|qpm|tpm", AS_RATE "/m$*"},
    {"N ^rph|qph|tph", AS_RATE "/h$*"},
    {"N ^rpd|qpd|tpd", AS_RATE "/d$*"},
    /* after the rate */
    {"N P T ^S N P T", "limits in a list are joined by commas; write $1/$2, $3/$4"},
    {"N P T ^S K", WITH_SPACE},
    {"N P T O ^" PERIOD " = T", "the period is part of the rate; write $1/$4$3$*"},
    {"N P T O burst = G", NO_GROUPS "burst=$4"},
    {"N P T O ^max_burst = n", "'$0' counts one less than burst; write burst=$4+"},
    {"N P T O ^key|keys|by|scope = W", NO_KEYS "$3$*"},
    {"N P T O ^per|by|for|each|/ W", NO_KEYS "$3$*"},
    /* in front of the rate */
    {"^@every|every|each T", "how many? write 1/$1$*"},
    {"^once|one P T", "write 1/$1$*"},
    {MOST " n U? P T", "write $1/$2$*; for never more than $1 in any $2~ write $1/$2 algo=sliding-log"},
    {MOST " N U? P T", "write $1/$2$*"},
    {"max|at_most|up_to N ^in_flight|concurrent|concurrency|concurrently|parallel|at_once|at_a_time",
     NOT_FLIGHTS},
    {"N ^in_flight|concurrent|concurrency|concurrently|parallel|at_once|at_a_time", NOT_FLIGHTS},
    /* the rate as options */
    {"^rate|limit|limits =|: N U? P T", "'$0' is written as a rate, first and without a name: $1/$2$*"},
    {"^" COUNT " =|: N ,? " PERIOD " =|: T", ONE_RATE "$1/$2$*"},
    {"^limitForPeriod ( N ) . limitRefreshPeriod ( T ) . timeoutDuration ( T )", ONE_RATE "$1/$2 timeout=$3"},
    {"^limitForPeriod ( N ) . limitRefreshPeriod ( T )", ONE_RATE "$1/$2"},
    {"^unit : T ,? requests_per_unit : N", ONE_RATE "$2/$1 algo=fixed-window"},
    {"^requests_per_unit : N ,? unit : T", ONE_RATE "$1/$2 algo=fixed-window"},
    /* calls */
    {GUAVA " ( N , N , TimeUnit.? T )", "'$0' with a warm-up is written $1/s algo=warmup warmup=$2$3"},
    {GUAVA " ( N )", "'$0' is written $1/s algo=smooth; for most uses plain $1/s"},
    {"^NewLimiter|rate.NewLimiter ( N , N )", "'$0' is written $1/s burst=$2"},
    {"^Quota::per_second ( N ) . allow_burst ( N )", "'$0' is written $1/s burst=$2"},
    {"^Quota::per_minute ( N ) . allow_burst ( N )", "'$0' is written $1/m burst=$2"},
    {"^Quota::per_second ( N )", "'$0' is written $1/s"},
    {"^Quota::per_minute ( N )", "'$0' is written $1/m"},
    {"^CL.THROTTLE W n N Z", "'$0' is written $3/$4 burst=$2+, one more than its max_burst"},
    {"^RL.REDUCE W N Z REFILL N",
     "'$0' is written $4/$3 burst=$2 algo=step; to drain as it does add refused=drain"},
};

/* ---- sentences -------------------------------------------------------------------------------- */

static bool is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static void put_shown(struct text *text, const char *start, size_t len)
{
    struct spec_shown shown = weir_spec_show(start, len);
    weir_text_put(text, shown.text, strlen(shown.text));
}

static void put_phrase_options(struct text *text, const char *start, size_t len)
{
    for (; len > 0 && is_space(*start); len--)
        start++;
    weir_text_put(text, " ", len > 0);
    put_shown(text, start, len);
}

/* 12 k is written 12k. */
static void put_phrase_count(struct text *text, const struct form_part *part)
{
    struct spec_shown shown = weir_spec_show(part->start, part->len);
    for (const char *at = shown.text; *at; at++)
        weir_text_put(text, at, *at != ' ');
}

/* 1m is written m behind a /, but 1h30m is not h30m. */
static const char *drop_one(const char *period)
{
    return period[0] == '1' && period[1] && !strpbrk(period + 1, "0123456789.") ? period + 1 : period;
}

/* Short forms only: 60s and 1h30m, not 60 seconds. */
static bool is_short_period(const char *period)
{
    size_t letters = 0;
    for (; *period && *period != ' ' && letters <= 2; period++)
        letters = *period >= '0' && *period <= '9' ? 0 : letters + 1;
    return *period == '\0' && letters <= 2;
}

/* As it stands in the text if that is short, else as weir writes it. */
static void put_phrase_period(struct text *text, const struct form_part *part, bool in_words)
{
    static const char *const words[][2] = {
        {"s", "second"}, {"m", "minute"}, {"h", "hour"}, {"d", "day"}, {"w", "week"}};
    struct spec_shown shown = weir_spec_show(part->start, part->len);
    struct spec_fault fault;
    char written[sizeof shown.text + 2], period[sizeof written];
    int64_t period_ns = 0;
    bool has_number = *shown.text >= '0' && *shown.text <= '9';
    const char *unit = weir_spec_hint_unit(part->start, part->len);
    (void)snprintf(written, sizeof written, "%s%s%s", has_number ? "" : "1", unit ? unit : shown.text,
                   part->item == 'Z' ? "s" : "");
    bool is_known = weir_spec_read_period(written, &period_ns, &fault) &&
                    weir_spec_format_period(period_ns, period, sizeof period) < sizeof period;
    const char *put =
        drop_one(is_known && (part->item == 'Z' || !is_short_period(written)) ? period : written);
    for (size_t i = 0; in_words && i < COUNT_OF(words); i++)
        if (strcmp(put, words[i][0]) == 0)
            put = words[i][1];
    weir_text_put(text, put, strlen(put));
}

/* Digits without what groups them; at most 18. */
static void put_phrase_number(struct text *text, const struct form_part *part, int more)
{
    int64_t number = 0;
    for (size_t i = 0; i < part->len; i++)
        if (part->start[i] >= '0' && part->start[i] <= '9')
            number = number * 10 + (part->start[i] - '0');
    weir_text_print(text, "%" PRId64, number + more);
}

/* The options that follow. */
static void put_rest(struct text *text, const struct spec_reader *reader)
{
    struct spec_reader look = *reader;
    weir_spec_skip_space(&look);
    const char *start = look.at, *end = start;
    for (size_t len = weir_spec_token_len(&look);
         len > 0 && weir_spec_is_letter(&look) && memchr(look.at, '=', len);
         len = weir_spec_token_len(&look)) {
        end = look.at += len;
        weir_spec_skip_space(&look);
    }
    put_phrase_options(text, start, (size_t)(end - start));
}

/* Puts what stands behind a $ and gives how many bytes that were. */
static size_t put_phrase_part(struct text *text, const struct form_match *match, const char *name)
{
    if (*name == '*') {
        put_rest(text, &match->reader);
        return 1;
    }
    if (*name == '0') {
        put_shown(text, match->mistake.start, match->mistake.len);
        return 1;
    }
    ASSERT(*name >= '1' && (size_t)(*name - '1') < match->count); /* the sentence fits its form */
    const struct form_part *part = &match->parts[*name - '1'];
    if (part->item == 'T' || part->item == 'Z')
        put_phrase_period(text, part, name[1] == '~');
    else if (part->item == 'G' || name[1] == '+') /* n+ or G, so few digits */
        put_phrase_number(text, part, name[1] == '+');
    else if (part->item == 'N')
        put_phrase_count(text, part);
    else if (part->item == 'O')
        put_phrase_options(text, part->start, part->len);
    else
        put_shown(text, part->start, part->len);
    return name[1] == '~' || name[1] == '+' ? 2 : 1;
}

/* An option before the phrase is wrong itself. */
static bool is_too_late(const struct form_match *match, const char *wrong)
{
    for (const struct form_part *part = match->parts; part < match->parts + match->count; part++)
        if (part->item == 'O' && wrong >= part->start && wrong < part->start + part->len)
            return true;
    return false;
}

/* After a mistake in the limit that begins at `start`: if the text is a phrase, sets fault and place of the
 * reader to a better sentence. */
static bool find_phrase(struct spec_reader *reader, const char *start)
{
    struct spec_reader limit = {.at = start, .end = reader->end};
    struct form_match match;
    char bytes[2 * sizeof reader->fault->text];
    struct text text;
    size_t i = 0;
    if (limit.end - start > PHRASE_MAX)
        return false;
    while (i < COUNT_OF(phrases) && !weir_form_fit(phrases[i].form, &limit, &match))
        i++;
    if (i == COUNT_OF(phrases) || is_too_late(&match, reader->wrong))
        return false;
    weir_text_init(&text, bytes, sizeof bytes);
    for (const char *say = phrases[i].say; *say;) {
        if (*say == '$')
            say += 1 + put_phrase_part(&text, &match, say + 1);
        else
            weir_text_put(&text, say++, 1);
    }
    size_t len = weir_text_cut(bytes, strlen(bytes), sizeof reader->fault->text - 1);
    (void)weir_spec_wrong(reader, match.mistake.start, "%.*s", (int)len, bytes);
    return true;
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
    if (!find_phrase(&reader, limit) && !(before && find_phrase(&reader, before)))
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
