/* SPDX-License-Identifier: MIT */
/*
 * What to write instead: "did you mean" for slips of the finger. Nothing here decides what a text means; it
 * only finds the sentence for a text that means nothing. Words of other systems are in src/phrasebook.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "spec/keywords.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

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

/* true: there is a sentence for this word. */
static bool fault_known_start(struct spec_fault *fault, const char *word, size_t len)
{
    struct guess guess = guess_new(word, len);
    (void)guess_try(&guess, "unlimited");
    (void)guess_try(&guess, "blocked");
    if (len > 1 && strchr("+-.", word[0]) && word[1] >= '0' && word[1] <= '9')
        (void)weir_spec_fault(fault, FIELD_NONE, "a count begins with a digit and has no sign: 100 or 0.5");
    else if (len > 0 && strchr("\"'`", word[0]))
        (void)weir_spec_fault(fault, FIELD_NONE, "a limit has no quotes: 100/s burst=20");
    else if (guess.best)
        (void)weir_spec_fault(fault, FIELD_NONE, "'%s' is no limit; did you mean %s?",
                              weir_spec_show(word, len).text, guess.best);
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
