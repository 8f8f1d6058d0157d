/* SPDX-License-Identifier: MIT */
/*
 * The language of limits, read by recursive descent:
 *
 *     limits = limit { "," limit } .
 *     limit  = ( rate | "unlimited" | "blocked" ) { option } .
 *     rate   = count ( "/" | "per" | "every" ) period .
 *     option = name "=" value .
 *
 * Each function reads one of these or leaves a sentence that says what to write instead, and where.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "spec/engineblock.h"
#include "spec/keywords.h"
#include "spec/read.h"

/*
 * The rate of a limit: 100/s, 12k per minute, 5 every 1h30m.
 */

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

static bool spec_read_rate(struct spec_reader *reader, struct spec_limit *limit)
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

/*
 * The options of a limit: burst=20, algo=sliding-log, timeout=5s.
 */

static bool read_option_units(struct spec_reader *value, struct spec_limit *limit, enum spec_field field)
{
    const char *start = value->at;
    const struct spec_option *option = weir_spec_option(field);
    struct quantity count = {0, 1};
    if (weir_spec_is_digit(value) && !weir_spec_read_count(value, &count))
        return false;
    if (value->at == start || value->at < value->end || count.under != 1)
        return weir_spec_wrong(value, start, "%s is a whole number of units, such as %s=%s", option->name,
                               option->name, option->sample);
    weir_spec_set_value(&limit->spec, field, sat_i128(count.over));
    return true;
}

static bool read_option_time(struct spec_reader *value, struct spec_limit *limit, enum spec_field field)
{
    const char *start = value->at;
    const struct spec_option *option = weir_spec_option(field);
    int64_t time_ns = 0;
    bool is_zero = value->end - start == 1 && *start == '0';
    if (!is_zero && weir_spec_is_digit(value) && !weir_spec_read_time(value, &time_ns))
        return false;
    if (!is_zero && (value->at == start || value->at < value->end))
        return weir_spec_wrong(value, start, "%s is a time, such as %s=%s", option->name, option->name,
                               option->sample);
    weir_spec_set_value(&limit->spec, field, time_ns);
    return true;
}

static bool read_option_factor(struct spec_reader *value, struct spec_limit *limit, enum spec_field field)
{
    const char *start = value->at;
    const struct spec_option *option = weir_spec_option(field);
    int64_t factor_ppm = 0;
    if (weir_spec_is_digit(value) && !weir_spec_read_factor(value, &factor_ppm))
        return false;
    if (value->at == start || value->at < value->end)
        return weir_spec_wrong(value, start, "%s is a number, such as %s=%s", option->name, option->name,
                               option->sample);
    weir_spec_set_value(&limit->spec, field, factor_ppm);
    return true;
}

static bool read_option_choice(struct spec_reader *value, struct spec_limit *limit, enum spec_field field)
{
    size_t len = (size_t)(value->end - value->at);
    const struct spec_choice *choices = weir_spec_option(field)->choices;
    for (int64_t i = 0; choices[i].word; i++) {
        if (weir_text_same(value->at, len, choices[i].word)) {
            weir_spec_set_value(&limit->spec, field, i);
            return true;
        }
    }
    value->wrong = value->at;
    return weir_spec_fault_choice(value->fault, field, value->at, len);
}

static bool read_option_algo(struct spec_reader *value, struct spec_limit *limit)
{
    size_t len = (size_t)(value->end - value->at);
    int32_t algo = weir_spec_find_algo(value->at, len);
    if (algo == SPEC_ALGO_NONE) {
        value->wrong = value->at;
        return weir_spec_fault_algo(value->fault, value->at, len);
    }
    if (algo == WEIR_QUOTA)
        limit->quota = value->at;
    if (!weir_spec_is_alone(&limit->spec))
        limit->spec.algo = algo;
    return true;
}

static bool read_option_name(struct spec_reader *value, struct spec_limit *limit)
{
    size_t len = (size_t)(value->end - value->at);
    if (len > WEIR_NAME_MAX)
        return weir_spec_wrong(value, value->at, "a name has at most %d bytes", WEIR_NAME_MAX);
    memcpy(limit->spec.name, value->at, len);
    return true;
}

static bool read_option_value(struct spec_reader *value, struct spec_limit *limit, enum spec_field field)
{
    switch (weir_spec_option(field)->kind) {
    case KIND_COUNT:
        return read_option_units(value, limit, field);
    case KIND_TIME:
        return read_option_time(value, limit, field);
    case KIND_FACTOR:
        return read_option_factor(value, limit, field);
    case KIND_CHOICE:
        return read_option_choice(value, limit, field);
    case KIND_ALGO:
        return read_option_algo(value, limit);
    case KIND_NAME:
        break;
    }
    return read_option_name(value, limit);
}

/* Does the reader stand at the token that follows the one at `token`? */
static bool is_next_token(const char *token, const struct spec_reader *reader)
{
    struct spec_reader look = {.at = token, .end = reader->end};
    look.at += weir_spec_token_len(&look);
    weir_spec_skip_space(&look);
    return look.at == reader->at;
}

/* A word that no = follows. */
static bool wrong_option(struct spec_reader *reader, const struct spec_limit *limit)
{
    struct spec_reader next = *reader;
    const char *word = reader->at;
    size_t len = weir_spec_token_len(reader);
    next.at += len;
    weir_spec_skip_space(&next);
    bool spaced = weir_spec_skip(&next, '=');
    weir_spec_skip_space(&next);
    struct slice after = {next.at, weir_spec_token_len(&next)};
    struct spec_shown name = weir_spec_show(word, len), value = weir_spec_show(after.bytes, after.len);

    reader->wrong = word;
    enum spec_field field = weir_spec_find_option(word, len);
    if (field != FIELD_NONE && (value.text[0] == '\0' || strchr(value.text, '=')))
        return weir_spec_wrong(reader, word, "options are written name=value, such as %s=%s", name.text,
                               weir_spec_option(field)->sample);
    if (spaced)
        return weir_spec_wrong(reader, word + len, "no spaces around =; write %s=%s", name.text, value.text);
    if (field != FIELD_NONE)
        return weir_spec_wrong(reader, word, "options are written name=value: %s=%s", name.text, value.text);
    if (weir_spec_is_digit(reader) && memchr(word, '/', len))
        return weir_spec_wrong(reader, word, "a comma is missing between two limits: 100/s, 10k/h");
    if (!weir_spec_is_letter(reader))
        return weir_spec_wrong(reader, word, "options are written name=value, such as burst=20, not '%s'",
                               name.text);
    if (limit->names[FIELD_NAME] && is_next_token(limit->names[FIELD_NAME], reader) &&
        weir_spec_find_algo(word, len) == SPEC_ALGO_NONE)
        return weir_spec_wrong(reader, word, "a name has no spaces; write name=%s-%s", limit->spec.name,
                               name.text);
    return weir_spec_fault_option(reader->fault, (struct slice){word, len}, after);
}

static bool wrong_no_value(struct spec_reader *reader, enum spec_field field, const char *at)
{
    const struct spec_option *option = weir_spec_option(field);
    struct spec_reader next = {.at = at, .end = reader->end};
    weir_spec_skip_space(&next);
    if (next.at > at && weir_spec_token_len(&next) > 0 && !memchr(next.at, '=', weir_spec_token_len(&next)))
        return weir_spec_wrong(reader, at, "no spaces around =; write %s=%s", option->name,
                               weir_spec_show(next.at, weir_spec_token_len(&next)).text);
    return weir_spec_wrong(reader, at, "a value is missing; write %s=%s", option->name, option->sample);
}

static bool spec_read_option(struct spec_reader *reader, struct spec_limit *limit)
{
    const char *name = reader->at, *end = name + weir_spec_token_len(reader);
    const char *equals = memchr(name, '=', (size_t)(end - name));
    if (!equals || equals == name)
        return wrong_option(reader, limit);
    size_t len = (size_t)(equals - name);
    enum spec_field field = weir_spec_find_option(name, len);
    reader->at = end;
    if (field == FIELD_NONE && (weir_text_same(name, len, "tz") || weir_text_same(name, len, "anchor"))) {
        limit->later = limit->later ? limit->later : name;
        return true;
    }
    if (field == FIELD_NONE) {
        reader->wrong = name;
        return weir_spec_fault_option(reader->fault, (struct slice){name, len},
                                      (struct slice){equals + 1, (size_t)(end - equals - 1)});
    }
    if (equals + 1 == end)
        return wrong_no_value(reader, field, end);
    if (limit->written.fields & UINT32_C(1) << field)
        return weir_spec_wrong(reader, name, "%s is written twice; leave one of them out",
                               weir_spec_option(field)->name);
    limit->written.fields |= UINT32_C(1) << field;
    limit->names[field] = name;
    limit->values[field] = equals + 1;

    struct spec_reader value = {.at = equals + 1, .end = end, .fault = reader->fault};
    if (read_option_value(&value, limit, field))
        return true;
    reader->wrong = value.wrong;
    return false;
}

/* ---- limits ----------------------------------------------------------------------------------- */

static bool fault_calendar_rate(struct spec_reader *reader, const struct spec_limit *limit)
{
    bool is_year = weir_text_lower(*limit->calendar) == 'y';
    if (limit->values[FIELD_ALGO] && !limit->quota)
        return weir_spec_wrong(reader, limit->start,
                               "a %s has no fixed length; only algo=quota counts by the calendar",
                               is_year ? "year" : "month");
    return weir_spec_wrong(reader, limit->calendar,
                           "calendar periods are not yet supported; until then write a fixed one, such as %s",
                           is_year ? "365d" : "30d");
}

bool weir_spec_finish(struct spec_reader *reader, struct spec_limit *limit)
{
    if (limit->calendar)
        return fault_calendar_rate(reader, limit);
    if (limit->later) {
        bool is_zone = weir_text_lower(*limit->later) == 't';
        return weir_spec_wrong(reader, limit->later,
                               "'%s' belongs to calendar periods, which are not yet supported",
                               is_zone ? "tz" : "anchor");
    }
    if (weir_spec_complete_written(&limit->spec, &limit->written, reader->fault))
        return true;

    enum spec_field field = reader->fault->field;
    const char *place = reader->fault->foreign ? limit->names[field] : limit->values[field];
    if (!place)
        place = limit->values[FIELD_ALGO];
    reader->wrong = place ? place : limit->start;
    return false;
}

/* A limit that begins with neither a number nor a word it may begin with. */
static bool wrong_start(struct spec_reader *reader)
{
    size_t len = weir_spec_token_len(reader), word = 0;
    while (word < len && !strchr("=(:", reader->at[word]))
        word++;
    size_t value = word < len ? word + 1 : word;
    reader->wrong = reader->at;
    return weir_spec_fault_start(reader->fault, (struct slice){reader->at, word},
                                 (struct slice){reader->at + value, len - value});
}

static bool read_parts(struct spec_reader *reader, struct spec_limit *limit)
{
    *limit = (struct spec_limit){.start = reader->at};
    if (weir_spec_is_digit(reader)) {
        if (!spec_read_rate(reader, limit))
            return false;
    } else if (weir_spec_skip_word(reader, "unlimited")) {
        limit->spec.algo = WEIR_UNLIMITED;
    } else if (weir_spec_skip_word(reader, "blocked")) {
        limit->spec.algo = WEIR_BLOCKED;
    } else {
        return wrong_start(reader);
    }
    for (weir_spec_skip_space(reader); reader->at < reader->end && *reader->at != ',';
         weir_spec_skip_space(reader))
        if (!spec_read_option(reader, limit))
            return false;
    return weir_spec_finish(reader, limit);
}

/* `before` is where the limit before this one begins. */
static bool read_limit_spec(struct spec_reader *reader, struct spec_limit *limit, const char *before)
{
    const char *start = reader->at;
    if (read_parts(reader, limit))
        return true;
    reader->fault->limit = start;
    reader->fault->before = before;
    reader->fault->wrong = reader->wrong;
    return false;
}

/* Gives the number of limits, 0 after a mistake. */
static size_t read_limit_specs(struct spec_reader *reader, struct weir_spec *specs, size_t capacity)
{
    struct spec_limit limit = {.start = reader->at};
    if (weir_spec_is_engineblock(reader)) {
        if (!weir_spec_read_engineblock(reader, &limit, false))
            return 0;
        specs[0] = limit.spec;
        return 1;
    }
    for (size_t count = 0;;) {
        weir_spec_skip_space(reader);
        if (reader->at == reader->end || *reader->at == ',') {
            (void)weir_spec_wrong(reader, reader->at, "a limit is missing %s the comma",
                                  reader->at == reader->end ? "after" : "before");
            return 0;
        }
        if (count == capacity) {
            (void)weir_spec_wrong(reader, reader->at,
                                  "at most %zu limit%s may stand here, and this is one more", capacity,
                                  capacity == 1 ? "" : "s");
            return 0;
        }
        if (!read_limit_spec(reader, &limit, count > 0 ? limit.start : NULL))
            return 0;
        specs[count] = limit.spec;
        if (weir_spec_has_namesake(specs, count)) {
            (void)weir_spec_wrong(reader, limit.values[FIELD_NAME], SPEC_NAMESAKE, limit.spec.name);
            return 0;
        }
        count++;
        if (!weir_spec_skip(reader, ','))
            return count;
    }
}

/* ---- the whole text --------------------------------------------------------------------------- */

static bool check_characters(struct spec_reader *reader)
{
    const char *at = reader->at;
    uint32_t code = 0;
    for (size_t step; at < reader->end; at += step) {
        step = weir_utf8_read(at, (size_t)(reader->end - at), &code);
        if (step == 0)
            return weir_spec_wrong(reader, at, "this byte is not UTF-8; limits are written in plain text");
        if (code == 0xA0)
            return weir_spec_wrong(reader, at, "this is a no-break space; write a plain one");
        if (!weir_utf8_printable(code) && !(code >= '\t' && code <= '\r'))
            return weir_spec_wrong(reader, at, "a control character cannot stand in a limit");
    }
    return true;
}

/* Sets the reader to the text without the spaces around it. */
static bool open_text(struct spec_reader *reader, const char *text)
{
    if (!text)
        return weir_spec_wrong(reader, NULL, "there is no text; write a limit such as 100/s");
    size_t len = 0;
    while (len <= SPEC_TEXT_MAX && text[len])
        len++;
    if (len > SPEC_TEXT_MAX)
        return weir_spec_wrong(reader, NULL, "the text is longer than %d bytes", SPEC_TEXT_MAX);
    reader->at = text;
    reader->end = text + len;
    if (!check_characters(reader))
        return false;
    while (reader->end > text && strchr(" \t\n\v\f\r", reader->end[-1]))
        reader->end--;
    weir_spec_skip_space(reader);
    if (reader->at == reader->end)
        return weir_spec_wrong(reader, reader->at, "the text is empty; write a limit such as 100/s");
    return true;
}

static int32_t column_of(const char *text, const char *wrong)
{
    return wrong ? weir_text_column(text, (size_t)(wrong - text)) : 0;
}

size_t weir_spec_read(const char *text, struct weir_spec *specs, size_t capacity, int32_t *column,
                      struct spec_fault *fault)
{
    struct weir_spec read[WEIR_LIMITS_MAX];
    struct spec_reader reader = {.fault = fault};
    size_t count = 0;
    if (!specs || capacity == 0)
        (void)weir_spec_wrong(&reader, NULL, "there is no room for the limits that are read (capacity 0)");
    else if (open_text(&reader, text))
        count = read_limit_specs(&reader, read, capacity < WEIR_LIMITS_MAX ? capacity : WEIR_LIMITS_MAX);
    *column = 0;
    if (count == 0) {
        *column = column_of(text, reader.wrong);
        return 0;
    }
    *fault = (struct spec_fault){.field = FIELD_NONE};
    memcpy(specs, read, count * sizeof read[0]);
    return count;
}

static void set_error(struct weir_error *err, const char *text, int32_t column,
                      const struct spec_fault *fault)
{
    if (text)
        weir_error_at(err, EINVAL, text, strlen(text), column, fault->text);
    else
        weir_error_set(err, EINVAL, fault->text);
}

size_t weir_spec_parse(const char *text, struct weir_spec *specs, size_t capacity, struct weir_error *err)
{
    struct spec_fault fault;
    int32_t column;
    size_t count = weir_spec_read(text, specs, capacity, &column, &fault);
    if (count == 0)
        set_error(err, text, column, &fault);
    else
        weir_error_clear(err);
    return count;
}

bool weir_spec_from_engineblock(const char *text, struct weir_spec *spec, struct weir_error *err)
{
    struct spec_fault fault;
    struct spec_reader reader = {.fault = &fault};
    struct spec_limit limit = {.start = text};
    if (!spec)
        (void)weir_spec_wrong(&reader, NULL, "there is no room for the limit that is read");
    else if (open_text(&reader, text) && weir_spec_read_engineblock(&reader, &limit, true)) {
        *spec = limit.spec;
        weir_error_clear(err);
        return true;
    }
    set_error(err, text, column_of(text, reader.wrong), &fault);
    return false;
}

bool weir_spec_read_period(const char *text, int64_t *period_ns, struct spec_fault *fault)
{
    struct spec_reader reader = {.fault = fault};
    int64_t time_ns = 0;
    if (!open_text(&reader, text))
        return false;
    bool is_zero = reader.end - reader.at == 1 && *reader.at == '0';
    if (!is_zero && !weir_spec_is_digit(&reader))
        return weir_spec_wrong(&reader, reader.at,
                               "a time is a number and a unit, such as 250ms, 10s or 1h30m");
    if (!is_zero && !weir_spec_read_time(&reader, &time_ns))
        return false;
    if (!is_zero && reader.at < reader.end)
        return weir_spec_wrong(&reader, reader.at, "the time ends here; write it as 250ms, 10s or 1h30m");
    if (time_ns > SPEC_PERIOD_MAX_NS)
        return weir_spec_wrong(&reader, reader.at, "a time is at most 100 years");
    *period_ns = time_ns;
    return true;
}
