/* SPDX-License-Identifier: MIT */
/*
 * EngineBlock's way to write a rate: 12000,1.1,restart is 12000 ops a second, up to 1.1 times that to catch
 * up, and an order to the limiter. It has a comma, but is no list of limits.
 */
#include <string.h>

#include "base/text.h"
#include "spec/engineblock.h"
#include "spec/keywords.h"
#include "spec/read.h"

static const struct {
    const char *word;
    int32_t verb;
} verbs[] = {
    {"start", WEIR_VERB_START},
    {"configure", WEIR_VERB_CONFIGURE},
    {"restart", WEIR_VERB_RESTART},
};

/* Words of nosqlbench that have no place in a limit. */
static const struct spec_hint orders[] = {
    {"thread", "is no scope of a limit: make one limiter for each thread and leave the word out"},
    {"activity", "is no scope of a limit: share one limiter by all threads and leave the word out"},
    {"stop", "is no order to a limit: to pause, set the limit to blocked"},
};

#define BARE_RATIO_MAX (10 * SPEC_FACTOR_ONE)

static const char *const prefix = "cyclerate=";

static bool skip_prefix(struct spec_reader *reader)
{
    size_t len = strlen(prefix);
    if ((size_t)(reader->end - reader->at) < len || !weir_text_same(reader->at, len, prefix))
        return false;
    reader->at += len;
    return true;
}

static bool skip_separator(struct spec_reader *reader)
{
    return weir_spec_skip(reader, ',') || weir_spec_skip(reader, ':') || weir_spec_skip(reader, ';');
}

static int32_t find_engineblock_verb(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (weir_text_same(word, len, verbs[i].word))
            return verbs[i].verb;
    return WEIR_VERB_NONE;
}

static const struct spec_hint *find_order(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        if (weir_text_same(word, len, orders[i].word))
            return &orders[i];
    return NULL;
}

/* ---- the shape -------------------------------------------------------------------------------- */

static bool skip_number(struct spec_reader *reader)
{
    const char *start = reader->at;
    while (weir_spec_is_digit(reader))
        reader->at++;
    if (reader->at == start)
        return false;
    if (reader->end - reader->at > 1 && *reader->at == '.') {
        reader->at++;
        return weir_spec_is_digit(reader) && skip_number(reader);
    }
    return true;
}

bool weir_spec_is_engineblock(const struct spec_reader *reader)
{
    struct spec_reader look = *reader;
    if (skip_prefix(&look))
        return true;
    if (!skip_number(&look))
        return false;
    look.at += weir_spec_word_len(&look); /* a multiple, or what is meant as one */
    if (!skip_separator(&look))
        return false;
    if (weir_spec_is_letter(&look)) {
        size_t len = weir_spec_word_len(&look);
        return find_engineblock_verb(look.at, len) != WEIR_VERB_NONE || find_order(look.at, len);
    }
    if (!skip_number(&look))
        return false;
    if (look.at == look.end)
        return true;
    size_t len;
    return skip_separator(&look) && weir_spec_is_letter(&look) && (len = weir_spec_word_len(&look)) > 0 &&
           !weir_text_same(look.at, len, "unlimited") && !weir_text_same(look.at, len, "blocked");
}

/* ---- the parts -------------------------------------------------------------------------------- */

static bool read_engineblock_rate(struct spec_reader *reader, struct spec_limit *limit)
{
    struct quantity count;
    limit->start = limit->values[FIELD_COUNT] = reader->at;
    if (!weir_spec_is_digit(reader))
        return weir_spec_wrong(reader, reader->at,
                               "here begins EngineBlock's rate, a number of ops a second: 12000,1.1");
    if (!weir_spec_read_count(reader, &count))
        return false;
    limit->spec.algo = WEIR_HYBRID;
    return weir_spec_set_rate(reader, limit, count, WEIR_SEC);
}

static bool read_engineblock_ratio(struct spec_reader *reader, struct spec_limit *limit)
{
    size_t len = weir_spec_word_len(reader);
    const struct spec_hint *order = find_order(reader->at, len);
    if (order)
        return weir_spec_wrong(reader, reader->at, "'%s' %s", order->word, order->say);
    if (!weir_spec_is_digit(reader))
        return weir_spec_wrong(reader, reader->at,
                               "the burst ratio comes after the rate, before the verb: 12000,1.1,restart");
    limit->values[FIELD_RATIO] = reader->at;
    limit->written.fields |= UINT32_C(1) << FIELD_RATIO;
    return weir_spec_read_factor(reader, &limit->spec.ratio_ppm);
}

static bool read_engineblock_verb(struct spec_reader *reader, struct spec_limit *limit)
{
    size_t len = weir_spec_word_len(reader);
    const struct spec_hint *order = find_order(reader->at, len);
    if (order)
        return weir_spec_wrong(reader, reader->at, "'%s' %s", order->word, order->say);
    limit->spec.verb = find_engineblock_verb(reader->at, len);
    if (limit->spec.verb == WEIR_VERB_NONE)
        return weir_spec_wrong(reader, reader->at, "unknown verb '%s'; write start, configure or restart",
                               weir_spec_show(reader->at, len).text);
    reader->at += len;
    return true;
}

/* 12,500 and 1,000 without a period are more likely large numbers than a rate and a ratio. */
static bool is_grouped(const struct spec_reader *reader, const struct spec_limit *limit)
{
    const char *rate = limit->values[FIELD_COUNT], *ratio = limit->values[FIELD_RATIO];
    return ratio && ratio[-1] == ',' && reader->at - ratio == 3 && ratio - rate <= 4 &&
           !memchr(rate, '.', (size_t)(reader->at - rate));
}

static bool wrong_grouped(struct spec_reader *reader, const struct spec_limit *limit)
{
    const char *rate = limit->values[FIELD_COUNT], *comma = limit->values[FIELD_RATIO] - 1;
    return weir_spec_wrong(reader, comma,
                           "digits are not grouped; write %.*s%.3s/s, or cyclerate=%.*s,%.3s if %.3s is %s",
                           (int)(comma - rate), rate, comma + 1, (int)(comma - rate), rate, comma + 1,
                           comma + 1, "EngineBlock's burst ratio");
}

/* Two bare numbers are more likely a count and seconds; nobody catches up at ten times the rate. */
static bool wrong_ratio(struct spec_reader *reader, const struct spec_limit *limit)
{
    const char *at = limit->values[FIELD_COUNT], *second = limit->values[FIELD_RATIO], *end = second - 1;
    while (strchr(" \t\n\v\f\r,:;", end[-1]))
        end--;
    struct spec_shown rate = weir_spec_show(at, (size_t)(end - at)),
                      ratio = weir_spec_show(second, (size_t)(reader->at - second));
    if (limit->spec.ratio_ppm > SPEC_FACTOR_MAX)
        return weir_spec_wrong(reader, second,
                               "for %s in %s seconds write %s/%ss; EngineBlock's ratio is at most 1000",
                               rate.text, ratio.text, rate.text, ratio.text);
    return weir_spec_wrong(reader, second,
                           "for %s in %s seconds write %s/%ss; for EngineBlock's ratio write cyclerate=%s,%s",
                           rate.text, ratio.text, rate.text, ratio.text, rate.text, ratio.text);
}

bool weir_spec_read_engineblock(struct spec_reader *reader, struct spec_limit *limit, bool known)
{
    known = skip_prefix(reader) || known;
    if (!read_engineblock_rate(reader, limit))
        return false;
    weir_spec_skip_space(reader);
    if (skip_separator(reader)) {
        weir_spec_skip_space(reader);
        if (!read_engineblock_ratio(reader, limit))
            return false;
        if (!known && is_grouped(reader, limit))
            return wrong_grouped(reader, limit);
        if (!known && limit->spec.ratio_ppm > BARE_RATIO_MAX)
            return wrong_ratio(reader, limit);
        weir_spec_skip_space(reader);
        if (skip_separator(reader)) {
            weir_spec_skip_space(reader);
            if (!read_engineblock_verb(reader, limit))
                return false;
        }
    }
    weir_spec_skip_space(reader);
    if (reader->at < reader->end)
        return weir_spec_wrong(reader, reader->at,
                               "EngineBlock's text ends here: rate,ratio,verb such as 12000,1.1,restart");
    return weir_spec_finish(reader, limit);
}
