/* SPDX-License-Identifier: MIT */
/*
 * Whole phrases that people write instead of a limit: 5 requests per hour, at most 5/m, create(2, 4,
 * SECONDS). They are asked only after the text was refused, so they decide nothing; they only know a better
 * sentence, with the numbers that stand in the text.
 */
#include "phrasebook/phrase.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "phrasebook/form.h"
#include "spec/keywords.h"
#include "spec/read.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

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

bool weir_phrasebook_find_phrase(struct spec_reader *reader, const char *start)
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
