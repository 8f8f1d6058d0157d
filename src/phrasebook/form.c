/* SPDX-License-Identifier: MIT */
#include "phrasebook/form.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "spec/keywords.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define GROUPS_MAX      24 /* bytes: 18 digits and what separates them */

/* ---- items ------------------------------------------------------------------------------------ */

static bool keep_form_part(struct form_match *match, const char *start, char item)
{
    ASSERT(match->count < FORM_PARTS_MAX && start <= match->reader.at &&
           match->reader.at <= match->reader.end);
    match->parts[match->count++] = (struct form_part){start, (size_t)(match->reader.at - start), item};
    return match->reader.at > start;
}

static bool skip_digits(struct spec_reader *reader)
{
    const char *start = reader->at;
    while (weir_spec_is_digit(reader))
        reader->at++;
    return reader->at > start;
}

static bool fit_count(struct form_match *match, bool with_multiple)
{
    static const char *const multiples[] = {"Ki", "Mi", "Gi", "k", "K", "M", "G"};
    struct spec_reader *reader = &match->reader;
    const char *start = reader->at;
    if (!skip_digits(reader) || (weir_spec_skip(reader, '.') && !skip_digits(reader)))
        return false;
    if (!with_multiple)
        return keep_form_part(match, start, 'N');
    weir_spec_skip_space(reader);
    for (size_t i = 0; i < COUNT_OF(multiples); i++) {
        size_t len = strlen(multiples[i]);
        if ((size_t)(reader->end - reader->at) >= len && memcmp(reader->at, multiples[i], len) == 0) {
            reader->at += len;
            return keep_form_part(match, start, 'N');
        }
    }
    return false;
}

/* The mistake is the first thing that separates the groups. */
static bool fit_groups(struct form_match *match)
{
    struct spec_reader *reader = &match->reader;
    const char *start = reader->at, *joint;
    if (!skip_digits(reader) || reader->at - start > 3)
        return false;
    match->mistake = (struct form_part){reader->at, 1, 'G'};
    for (joint = reader->at; joint < reader->end && strchr(" ,_'", *joint) && *joint == *match->mistake.start;
         joint = reader->at) {
        struct spec_reader group = {.at = joint + 1, .end = reader->end};
        if (!skip_digits(&group) || group.at - joint != 4)
            break;
        reader->at = group.at;
    }
    return reader->at > match->mistake.start && reader->at - start < GROUPS_MAX &&
           keep_form_part(match, start, 'G');
}

static bool fit_period(struct form_match *match)
{
    struct spec_reader *reader = &match->reader, look = *reader;
    struct spec_fault fault;
    const char *start = reader->at;
    int64_t period_ns;
    look.fault = &fault;
    if (weir_spec_is_digit(reader)) {
        if (!weir_spec_read_time(&look, &period_ns))
            return false;
        reader->at = look.at;
        return keep_form_part(match, start, 'T');
    }
    size_t len = weir_spec_letters_len(reader);
    if (weir_spec_find_unit(start, len) == 0 && !weir_spec_hint_unit(start, len))
        return false;
    reader->at += len;
    return keep_form_part(match, start, 'T');
}

/* Up to a space, a comma, or what ends a word in other languages. */
static bool fit_word(struct form_match *match, char item)
{
    struct spec_reader *reader = &match->reader;
    const char *start = reader->at, *equals;
    size_t len = weir_spec_token_len(reader);
    for (size_t i = 0; i < len; i++)
        if (strchr(";|&", start[i]))
            len = i;
    equals = memchr(start, '=', len);
    if (!weir_spec_is_letter(reader) || (item == 'K') != (equals != NULL))
        return false;
    reader->at += len;
    return keep_form_part(match, start, item);
}

static bool fit_units(struct form_match *match)
{
    static const char *const words[] = {
        "r",     "req",     "reqs",    "request",  "requests", "time",   "times",   "call",     "calls",
        "op",    "ops",     "hit",     "hits",     "event",    "events", "message", "messages", "msg",
        "msgs",  "job",     "jobs",    "permit",   "permits",  "token",  "tokens",  "cell",     "cells",
        "query", "queries", "attempt", "attempts", "login",    "logins", "unit",    "units"};
    size_t len = weir_spec_letters_len(&match->reader);
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (weir_text_same(match->reader.at, len, words[i])) {
            match->reader.at += len;
            return true;
        }
    }
    return false;
}

static bool fit_joint(struct form_match *match)
{
    static const char *const words[] = {"per", "every", "a", "an", "each", "in"};
    if (weir_spec_skip(&match->reader, '/'))
        return true;
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (weir_spec_skip_word(&match->reader, words[i]))
            return true;
    return false;
}

static bool is_joint(char byte)
{
    return byte == ' ' || byte == '-' || byte == '_';
}

/* One of the alternatives in `item`, as a whole word. */
static bool fit_literal(struct form_match *match, const char *item, size_t len)
{
    for (const char *end = item + len, *next; item < end; item = next + 1) {
        struct spec_reader look = match->reader;
        bool same = true;
        next = memchr(item, '|', (size_t)(end - item));
        next = next ? next : end;
        for (const char *at = item; same && at < next; at++) {
            while (*at == '_' && look.at < look.end && is_joint(*look.at))
                look.at++;
            if (*at != '_')
                same = look.at < look.end && weir_text_lower(*look.at++) == weir_text_lower(*at);
        }
        bool is_word = weir_text_lower(next[-1]) >= 'a' && weir_text_lower(next[-1]) <= 'z';
        if (same && !(is_word && weir_spec_is_letter(&look))) {
            match->reader.at = look.at;
            return true;
        }
    }
    return false;
}

static bool fit_item(struct form_match *match, const char *item, size_t len)
{
    struct spec_reader *reader = &match->reader;
    const char *start = reader->at;
    if (len != 1)
        return fit_literal(match, item, len);
    switch (*item) {
    case 'n':
        return skip_digits(reader) && reader->at - start <= 4 && keep_form_part(match, start, 'N');
    case 'Z':
        return skip_digits(reader) && reader->at - start <= 8 && keep_form_part(match, start, 'Z');
    case 'G':
        return fit_groups(match);
    case 'T':
        return fit_period(match);
    case 'K':
    case 'W':
        return fit_word(match, *item);
    case 'U':
        return fit_units(match);
    case 'P':
        return fit_joint(match);
    case 'S':
        return weir_spec_skip(reader, ';') || weir_spec_skip(reader, '|') || weir_spec_skip(reader, '&');
    default:
        return fit_literal(match, item, len);
    }
}

/* ---- forms ------------------------------------------------------------------------------------ */

static bool fit_form(const char *form, struct form_match *match);

/* Tries what follows, and keeps the match only if all of it fits. */
static bool fit_rest_of_form(const char *form, const struct form_match *so_far, struct form_match *match)
{
    struct form_match next = *so_far;
    if (!fit_form(form, &next))
        return false;
    *match = next;
    return true;
}

/* 10M may be a count or the beginning of 10Mbit. */
static bool fit_either_count(const char *form, struct form_match *match)
{
    struct form_match with = *match, without;
    weir_spec_skip_space(&with.reader);
    without = with;
    return (fit_count(&with, true) && fit_rest_of_form(form, &with, match)) ||
           (fit_count(&without, false) && fit_rest_of_form(form, &without, match));
}

/* As few options as possible. */
static bool fit_options(const char *form, struct form_match *match)
{
    struct form_match so_far = *match;
    const char *start = so_far.reader.at;
    for (;;) {
        struct form_match here = so_far;
        ASSERT(here.count < FORM_PARTS_MAX);
        here.parts[here.count++] = (struct form_part){start, (size_t)(here.reader.at - start), 'O'};
        if (fit_rest_of_form(form, &here, match))
            return true;
        weir_spec_skip_space(&so_far.reader);
        size_t count = so_far.count;
        if (!fit_word(&so_far, 'K'))
            return false;
        so_far.count = count;
    }
}

static bool fit_form(const char *form, struct form_match *match)
{
    if (*form == '\0')
        return true;
    size_t len = strcspn(form, " ");
    const char *next = form + len + (form[len] == ' ');
    bool is_mistake = *form == '^', may_miss = len > 1 && form[len - 1] == '?';
    const char *item = form + is_mistake;
    len -= (size_t)is_mistake + may_miss;

    struct form_match here = *match;
    weir_spec_skip_space(&here.reader);
    if (len == 1 && (*item == 'N' || *item == 'O'))
        return *item == 'N' ? fit_either_count(next, match) : fit_options(next, match);
    const char *start = here.reader.at;
    bool fits = fit_item(&here, item, len);
    if (is_mistake)
        here.mistake = (struct form_part){start, (size_t)(here.reader.at - start), '^'};
    return (fits && fit_rest_of_form(next, &here, match)) ||
           (may_miss && fit_rest_of_form(next, match, match));
}

bool weir_form_fit(const char *form, const struct spec_reader *reader, struct form_match *match)
{
    *match = (struct form_match){.reader = *reader};
    return fit_form(form, match);
}
