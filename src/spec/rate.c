/* SPDX-License-Identifier: MIT */
/*
 * The rate of a limit: 100/s, 12k per minute, 5 every 1h30m.
 */
#include <string.h>

#include "spec/keywords.h"
#include "spec/read.h"

static bool wrong_zero(struct spec_reader *reader, const char *at)
{
    reader->wrong = at;
    return weir_spec_fault_zero(reader->fault);
}

bool weir_spec_set_rate(struct spec_reader *reader, struct spec_limit *limit, struct quantity count,
                        int64_t period_ns)
{
    const char *at = limit->values[FIELD_COUNT];
    if (count.over == 0)
        return wrong_zero(reader, at);
    int64_t stretched_ns = sat_mul(period_ns, count.under);
    if (count.under > 1 && stretched_ns > SPEC_PERIOD_MAX_NS)
        return weir_spec_wrong(reader, at,
                               "a fraction this fine makes the period longer than 100 years; "
                               "write fewer digits after the point");
    limit->spec.count = sat_i128(count.over);
    limit->spec.period_ns = stretched_ns;
    if (count.under > 1)
        limit->written.whole = max64(1, sat_i128(count.over / count.under));
    return true;
}

static bool wrong_per_what(struct spec_reader *reader, const char *count, const char *after)
{
    struct spec_shown shown = weir_spec_show(count, (size_t)(after - count));
    const char *c = shown.text;
    return weir_spec_wrong(reader, after, "per what? write %s/s, %s/m, %s/h or %s/d", c, c, c, c);
}

/* What follows the count is neither a multiple nor / per every. */
static bool wrong_after_count(struct spec_reader *reader, const char *count, const char *after)
{
    struct spec_shown shown = weir_spec_show(count, (size_t)(after - count));
    size_t len = weir_spec_word_len(reader);
    const char *word = reader->at;
    bool is_option = word + len < reader->end && word[len] == '=';
    if (word == reader->end || *word == ',' || is_option || weir_spec_find_option(word, len) != FIELD_NONE)
        return wrong_per_what(reader, count, after);
    if (weir_spec_find_unit(word, len) != 0)
        return weir_spec_wrong(reader, word, "a / is missing; write %s/%s", shown.text,
                               weir_spec_show(word, len).text);
    if (len == 1 && *word == 'B')
        return weir_spec_wrong(reader, word, "B stands only behind a multiple, as in 2MiB; write %s/s",
                               shown.text);
    if (weir_spec_is_letter(reader))
        (void)weir_spec_wrong(reader, word,
                              "'%s' is no multiple; use k M G Ki Mi Gi, such as 12k, 3M or 2MiB, and then /s",
                              weir_spec_show(word, len).text);
    else
        (void)weir_spec_wrong(reader, word, "after the count comes / and a period: %s/s", shown.text);
    return weir_spec_unknown(reader->fault, UNKNOWN_MULTIPLE, true, (struct slice){word, len},
                             (struct slice){count, (size_t)(after - count)});
}

static bool read_rate_period(struct spec_reader *reader, struct spec_limit *limit, int64_t *period_ns)
{
    limit->values[FIELD_PERIOD] = reader->at;
    if (weir_spec_is_digit(reader))
        return weir_spec_read_time(reader, period_ns);
    size_t len = weir_spec_word_len(reader), all = weir_spec_token_len(reader);
    const char *semicolon = memchr(reader->at, ';', all);
    if (!semicolon)
        len = all;
    *period_ns = weir_spec_find_unit(reader->at, len);
    if (*period_ns == 0) {
        reader->wrong = reader->at;
        return weir_spec_fault_unit(reader->fault, reader->at, len);
    }
    if (*period_ns == SPEC_CALENDAR)
        limit->calendar = reader->at;
    reader->at += len;
    return true;
}

/* A limit is followed by a comma, an option or nothing. */
static bool read_end_of_rate(struct spec_reader *reader)
{
    const char *at = reader->at;
    weir_spec_skip_space(reader);
    if (reader->at < reader->end && *reader->at == ';')
        return weir_spec_wrong(reader, reader->at, "limits in a list are joined by commas: 100/s, 10k/h");
    if (reader->at == at && at < reader->end && *at != ',')
        return weir_spec_wrong(reader, at,
                               "the period ends here; a space and options such as burst=20 may follow");
    return true;
}

bool weir_spec_read_rate(struct spec_reader *reader, struct spec_limit *limit)
{
    const char *start = limit->values[FIELD_COUNT] = reader->at;
    struct quantity count;
    int64_t period_ns = 0;
    if (!weir_spec_read_count(reader, &count))
        return false;
    const char *after = reader->at;
    if (count.over == 0)
        return wrong_zero(reader, start);
    weir_spec_skip_space(reader);
    if (!weir_spec_skip(reader, '/') && !weir_spec_skip_word(reader, "per") &&
        !weir_spec_skip_word(reader, "every"))
        return wrong_after_count(reader, start, after);
    weir_spec_skip_space(reader);
    if (weir_spec_token_len(reader) == 0 || memchr(reader->at, '=', weir_spec_token_len(reader)))
        return wrong_per_what(reader, start, after);
    return read_rate_period(reader, limit, &period_ns) &&
           weir_spec_set_rate(reader, limit, count, period_ns) && read_end_of_rate(reader);
}
