/* SPDX-License-Identifier: MIT */
/*
 * The options of a limit: burst=20, algo=sliding-log, timeout=5s.
 */
#include <string.h>

#include "base/text.h"
#include "spec/keywords.h"
#include "spec/read.h"

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

bool weir_spec_read_option(struct spec_reader *reader, struct spec_limit *limit)
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
