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
#include "spec/keywords.h"
#include "spec/read.h"

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
        if (!weir_spec_read_rate(reader, limit))
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
        if (!weir_spec_read_option(reader, limit))
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
