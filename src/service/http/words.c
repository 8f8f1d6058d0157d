/* SPDX-License-Identifier: MIT */
/*
 * Members are collected first, wherever they come from and in any order; then each parameter of the endpoint
 * takes its own, in the order of the words. What is left over is an error.
 */
#include "service/http/words.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"
#include "http/uri.h"
#include "service/engine/engine.h"

#define MEMBERS_MAX      12
#define NUMBERS_LIST_MAX (HTTP_WORDS_MAX - 4)

struct http_member {
    struct slice name;
    struct slice value;  /* of a string its text, of a number its digits */
    enum json_type type; /* JSON_NONE: text of the path or the query, whatever is meant by it */
    bool used;
};

/* The words of one pair, of a list of them. */
struct http_pair {
    struct slice policy, key, n; /* n.bytes NULL: not said */
};

struct http_members {
    struct http_member list[MEMBERS_MAX];
    size_t count;
    struct slice numbers[NUMBERS_LIST_MAX]; /* of the member that is a list of numbers */
    size_t number_count;
    struct http_pair pairs[HTTP_PAIRS_MAX]; /* of the member that is a list of objects */
    size_t pair_count;
};

__attribute__((format(printf, 2, 3))) static bool complain(struct http_words *words, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(words->why, sizeof words->why, format, args);
    va_end(args);
    return false;
}

__attribute__((format(printf, 2, 3))) static void append_why(struct http_words *words, const char *format,
                                                             ...)
{
    size_t len = strlen(words->why);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(words->why + len, sizeof words->why - len, format, args);
    va_end(args);
}

/* ---- collecting ------------------------------------------------------------------------------- */

static bool add_member(struct http_words *words, struct http_members *members, struct http_member member)
{
    char shown[72];
    for (size_t i = 0; i < members->count; i++)
        if (members->list[i].name.len == member.name.len &&
            memcmp(members->list[i].name.bytes, member.name.bytes, member.name.len) == 0)
            return complain(words, "'%s' is there twice", weir_shown(member.name, shown));
    if (members->count == MEMBERS_MAX)
        return complain(words, "too many fields; at most %d", MEMBERS_MAX);
    members->list[members->count++] = member;
    return true;
}

/* Base64 is decoded where it stands. */
static bool decode_base64(struct http_words *words, struct slice *value)
{
    char *bytes = (char *)(uintptr_t)value->bytes; /* of the caller's own body */
    size_t len = weir_base64_decode(*value, bytes);
    if (len == SIZE_MAX)
        return complain(words, "'key_b64' is not base64");
    value->len = len;
    return true;
}

static bool read_number(struct json_reader *reader, struct slice *digits)
{
    int64_t number;
    (void)weir_json_next(reader);
    const char *start = reader->at;
    if (!weir_json_integer(reader, &number))
        return false;
    *digits = (struct slice){start, (size_t)(reader->at - start)};
    return true;
}

static bool read_pair(struct http_words *words, struct json_reader *reader, struct http_pair *pair)
{
    struct slice name;
    char shown[72];
    *pair = (struct http_pair){0};
    if (!weir_json_enter(reader, '{'))
        return false;
    while (weir_json_member(reader, &name)) {
        bool encoded = slice_is(name, "key_b64"), is_n = slice_is(name, "n");
        struct slice *to = slice_is(name, "policy")           ? &pair->policy
                           : encoded || slice_is(name, "key") ? &pair->key
                           : is_n                             ? &pair->n
                                                              : NULL;
        if (!to)
            return weir_json_fail(reader, "unknown field '%s' in 'pairs'; a pair has policy, key and n",
                                  weir_shown(name, shown));
        if (to->bytes)
            return weir_json_fail(reader, "'%s' is there twice", weir_shown(name, shown));
        if (!(is_n ? read_number(reader, to) : weir_json_string(reader, to)))
            return false;
        if (encoded && !decode_base64(words, to))
            return false;
    }
    if (reader->why[0] == '\0' && (!pair->policy.bytes || pair->key.len == 0))
        return weir_json_fail(reader, "a pair in 'pairs' needs policy and a key that is not empty");
    return reader->why[0] == '\0';
}

/* A list of numbers, or one of pairs. */
static bool read_list(struct http_words *words, struct json_reader *reader, struct http_members *members)
{
    if (members->number_count > 0 || members->pair_count > 0)
        return weir_json_fail(reader, "there is a second list");
    (void)weir_json_enter(reader, '[');
    while (weir_json_element(reader)) {
        enum json_type type = weir_json_next(reader);
        bool is_number = type == JSON_NUMBER;
        if (type == JSON_STRING)
            return weir_json_fail(reader, "a list of texts is not known here; several limits are one text, "
                                          "with commas between them");
        if (is_number ? members->pair_count > 0 : members->number_count > 0)
            return weir_json_fail(reader, "a list has numbers or objects, not both");
        if (is_number ? members->number_count == NUMBERS_LIST_MAX : members->pair_count == HTTP_PAIRS_MAX)
            return weir_json_fail(reader, "the list is too long");
        if (is_number ? !read_number(reader, &members->numbers[members->number_count++])
                      : !read_pair(words, reader, &members->pairs[members->pair_count++]))
            return false;
    }
    return reader->why[0] == '\0';
}

static bool read_value(struct http_words *words, struct json_reader *reader, struct http_members *members,
                       struct http_member *member)
{
    bool value;
    switch (member->type) {
    case JSON_STRING:
        return weir_json_string(reader, &member->value) &&
               (!slice_is(member->name, "key_b64") || decode_base64(words, &member->value));
    case JSON_NUMBER:
        return read_number(reader, &member->value);
    case JSON_ARRAY:
        return read_list(words, reader, members);
    case JSON_TRUE:
    case JSON_FALSE:
        return weir_json_literal(reader, &value);
    case JSON_NULL:
        return weir_json_skip(reader);
    case JSON_OBJECT:
    case JSON_NONE:
        break;
    }
    return weir_json_fail(reader, "no field has an object as its value");
}

/* An object; a member that is null counts as not there. */
static bool read_members(struct http_words *words, struct json_reader *reader, struct http_members *members)
{
    struct http_member member = {.name = {0}};
    char shown[72];
    bool good = weir_json_enter(reader, '{');
    while (good && weir_json_member(reader, &member.name)) {
        member.type = weir_json_next(reader);
        member.value = (struct slice){"", 0};
        good = read_value(words, reader, members, &member) &&
               (member.type == JSON_NULL || add_member(words, members, member));
    }
    if (reader->why[0] != '\0' && member.name.len > 0 && !good)
        return complain(words, "'%s': %s", weir_shown(member.name, shown), reader->why);
    if (reader->why[0] != '\0')
        return complain(words, "the body is not a JSON object: %s", reader->why);
    return good;
}

static bool read_body(struct http_words *words, struct slice body, struct http_members *members)
{
    struct json_reader reader;
    if (body.len == 0)
        return true;
    weir_json_begin(&reader, (char *)(uintptr_t)body.bytes, body.len);
    if (!read_members(words, &reader, members))
        return false;
    return weir_json_end(&reader) || complain(words, "the body is not a JSON object: %s", reader.why);
}

/* Decoded where it stands. */
static bool add_encoded(struct http_words *words, struct http_members *members, struct slice name,
                        struct slice text, bool plus)
{
    char *bytes = (char *)(uintptr_t)text.bytes, shown[72];
    size_t len = weir_uri_decode(text, plus, bytes);
    if (len == SIZE_MAX)
        return complain(words, "'%s': a %% is followed by two hexadecimal digits", weir_shown(name, shown));
    struct http_member member = {.name = name, .value = {bytes, len}};
    return (!slice_is(name, "key_b64") || decode_base64(words, &member.value)) &&
           add_member(words, members, member);
}

bool weir_http_is_option(struct slice name)
{
    return slice_is(name, "status") || slice_is(name, "headers");
}

static bool read_query(struct http_words *words, const struct http_request *request,
                       struct http_members *members)
{
    struct slice rest = request->query, name, value;
    char shown[72];
    bool has_body = request->method & (HTTP_POST | HTTP_PUT);
    while (weir_query_next(&rest, &name, &value)) {
        if (weir_http_is_option(name))
            continue;
        if (has_body)
            return complain(words, "'%s' belongs in the JSON body, not in the query",
                            weir_shown(name, shown));
        if (!add_encoded(words, members, name, value, true))
            return false;
    }
    return true;
}

/* ---- words ------------------------------------------------------------------------------------ */

static bool add_word(struct http_words *words, struct slice word)
{
    if (words->count == HTTP_WORDS_MAX)
        return complain(words, "that is too long");
    words->words[words->count++] = word;
    return true;
}

static bool add_literal(struct http_words *words, const char *text)
{
    return add_word(words, (struct slice){text, strlen(text)});
}

static struct http_member *take_member(struct http_members *members, const char *name)
{
    for (size_t i = 0; i < members->count; i++)
        if (slice_is(members->list[i].name, name)) {
            members->list[i].used = true;
            return &members->list[i];
        }
    return NULL;
}

static bool has_type(const struct http_member *member, enum json_type type)
{
    return member->type == JSON_NONE || member->type == type;
}

static bool is_choice(const char *values, struct slice word)
{
    for (const char *at = values; *at;) {
        size_t len = strcspn(at, "|");
        if (word.len == len && memcmp(word.bytes, at, len) == 0)
            return true;
        at += len + (at[len] == '|');
    }
    return false;
}

static bool add_pairs(struct http_words *words, const struct http_members *members, bool n_needed)
{
    words->pairs = members->pair_count;
    for (size_t i = 0; i < members->pair_count; i++) {
        const struct http_pair *pair = &members->pairs[i];
        if (n_needed && !pair->n.bytes)
            return complain(words, "a pair in 'pairs' needs n here");
        if ((i > 0 && !add_literal(words, "AND")) || !add_word(words, pair->policy) ||
            !add_word(words, pair->key) ||
            !(pair->n.bytes ? add_word(words, pair->n) : add_literal(words, "1")))
            return false;
    }
    return true;
}

/* A flag stands there or not; `?fresh`, `?fresh=true`, or true in JSON. */
static bool add_flag(struct http_words *words, const struct param *param, const struct http_member *member)
{
    bool plain = member->type == JSON_NONE, empty = plain && member->value.len == 0;
    bool yes = member->type == JSON_TRUE || empty || (plain && slice_is(member->value, "true"));
    bool no = member->type == JSON_FALSE || (plain && slice_is(member->value, "false"));
    if (!yes && !no)
        return complain(words, "'%s' is true or false", param->name);
    return no || add_literal(words, param->token);
}

static bool add_numbers(struct http_words *words, const struct param *param,
                        const struct http_members *members, const struct http_member *member)
{
    if (has_type(member, JSON_NUMBER))
        return add_word(words, member->value);
    if (member->type != JSON_ARRAY || members->number_count == 0)
        return complain(words, "'%s' is a whole number or a list of them", param->name);
    for (size_t i = 0; i < members->number_count; i++)
        if (!add_word(words, members->numbers[i]))
            return false;
    return true;
}

static bool add_value(struct http_words *words, const struct param *param, const struct http_members *members,
                      const struct http_member *member)
{
    if (param->kind == PARAM_FLAG)
        return add_flag(words, param, member);
    if (param->token && !add_literal(words, param->token))
        return false;
    switch (param->kind) {
    case PARAM_NUMBER:
        return has_type(member, JSON_NUMBER) ? add_word(words, member->value)
                                             : complain(words, "'%s' is a whole number", param->name);
    case PARAM_NUMBERS:
        return add_numbers(words, param, members, member);
    case PARAM_CHOICE:
        if (has_type(member, JSON_STRING) && is_choice(param->values, member->value))
            return add_word(words, member->value);
        return complain(words, "'%s' is one of %s", param->name, param->values);
    case PARAM_POLICY:
    case PARAM_KEY:
    case PARAM_TEXT:
    case PARAM_FLAG:
    case PARAM_PAIRS:
        break;
    }
    if (!has_type(member, JSON_STRING))
        return complain(words, "'%s' is a text", param->name);
    if (param->kind == PARAM_KEY && member->value.len == 0)
        return complain(words, "'key' is empty: all who have none would share one limit");
    return add_word(words, member->value);
}

/* `pairs` stands for the parameters before it. */
static const struct param *find_pairs(const struct param *params)
{
    for (; params->name; params++)
        if (params->kind == PARAM_PAIRS)
            return params;
    return NULL;
}

static bool check_name(struct http_words *words, const struct endpoint *endpoint, struct slice name)
{
    char shown[72];
    for (const struct param *param = endpoint->params; param->name; param++)
        if (slice_is(name, param->name) || (param->kind == PARAM_KEY && slice_is(name, "key_b64")))
            return true;
    struct nearest nearest = weir_nearest(name.bytes, name.len);
    for (const struct param *param = endpoint->params; param->name; param++)
        (void)weir_nearest_try(&nearest, param->name);
    if (nearest.found)
        return complain(words, "unknown field '%s' of %s; did you mean '%s'?", weir_shown(name, shown),
                        endpoint->name, nearest.found);
    (void)complain(words, "unknown field '%s' of %s; it has", weir_shown(name, shown), endpoint->name);
    for (const struct param *param = endpoint->params; param->name; param++)
        append_why(words, param == endpoint->params ? " %s" : ", %s", param->name);
    return false;
}

/* What no parameter has taken: a name that the endpoint does not have, or one beside what stands for it. */
static bool check_rest(struct http_words *words, const struct http_members *members)
{
    char shown[72];
    for (size_t i = 0; i < members->count; i++)
        if (!members->list[i].used)
            return complain(words, "'%s' does not go with 'pairs' or 'key'",
                            weir_shown(members->list[i].name, shown));
    return true;
}

static bool add_values(struct http_words *words, const struct endpoint *endpoint,
                       struct http_members *members)
{
    const struct param *param = endpoint->params, *pairs = find_pairs(param);
    if (pairs && members->pair_count > 0 && take_member(members, pairs->name)) {
        bool n_needed = pairs[-1].required;
        if (!add_pairs(words, members, n_needed))
            return false;
        param = pairs + 1;
    }
    for (; param->name; param++) {
        if (param->kind == PARAM_PAIRS)
            continue;
        struct http_member *member = take_member(members, param->name);
        if (!member && param->kind == PARAM_KEY)
            member = take_member(members, "key_b64");
        if (!member && param->required)
            return complain(words, "'%s' is missing: %s", param->name, param->summary);
        if (member && !add_value(words, param, members, member))
            return false;
    }
    return true;
}

/* Names are looked at only if something is wrong: an unknown one comes before what is missing because of it.
 */
static bool add_params(struct http_words *words, const struct endpoint *endpoint,
                       struct http_members *members)
{
    bool good = add_values(words, endpoint, members) && check_rest(words, members);
    for (size_t i = 0; !good && i < members->count; i++)
        if (!members->list[i].used && !check_name(words, endpoint, members->list[i].name))
            return false;
    return good;
}

static bool build_words(struct http_words *words, const struct endpoint *endpoint,
                        struct http_members *members)
{
    for (size_t i = 0; i < 2 && endpoint->words[i]; i++)
        (void)add_literal(words, endpoint->words[i]);
    return add_params(words, endpoint, members) &&
           (!(endpoint->flags & ENDPOINT_NONE) || add_literal(words, "NONE")) &&
           (!(endpoint->flags & ENDPOINT_FULL) || add_literal(words, "FULL"));
}

bool weir_http_words(struct http_words *words, const struct endpoint *endpoint,
                     const struct http_request *request, struct slice policy, struct slice key)
{
    struct http_members members;
    members.count = members.number_count = members.pair_count = 0;
    words->count = 0;
    words->pairs = 1;
    words->why[0] = '\0';
    if ((endpoint->place >= PLACE_POLICY &&
         !add_encoded(words, &members, (struct slice){"policy", 6}, policy, false)) ||
        (endpoint->place >= PLACE_KEY &&
         !add_encoded(words, &members, (struct slice){"key", 3}, key, false)) ||
        !read_query(words, request, &members) ||
        (request->method & (HTTP_POST | HTTP_PUT) && !read_body(words, request->body, &members)))
        return false;
    return build_words(words, endpoint, &members);
}

bool weir_http_words_of_element(struct http_words *words, struct json_reader *reader)
{
    struct http_members members;
    members.count = members.number_count = members.pair_count = 0;
    char shown[72];
    words->count = 0;
    words->pairs = 1;
    words->why[0] = '\0';
    if (!read_members(words, reader, &members))
        return false;
    const struct http_member *op = take_member(&members, "op");
    if (op && op->type != JSON_STRING)
        return complain(words, "'op' is a text");
    struct slice name = op ? op->value : (struct slice){"take", 4};
    const struct endpoint *endpoint = weir_endpoint_in_batch(name);
    if (!endpoint)
        return complain(words,
                        "unknown op '%s' in a batch; it is take, peek, give, charge, reset, reserve, "
                        "commit or cancel",
                        weir_shown(name, shown));
    return build_words(words, endpoint, &members);
}
