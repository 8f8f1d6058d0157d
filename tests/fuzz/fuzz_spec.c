/* SPDX-License-Identifier: MIT */
/*
 * Hostile text as limits. What is read must come back from its canonical form and compile; what is refused
 * must have a message and a place; nothing may depend on the room that is offered.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "must.h"
#include "phrasebook/phrasebook.h"
#include "spec/read.h"
#include "spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const char *line)
{
    uint32_t code = 0;
    size_t len = strlen(line);
    MUST(len > 0);
    for (size_t i = 0, step; i < len; i += step) {
        step = weir_utf8_read(line + i, len - i, &code);
        MUST(step > 0 && weir_utf8_printable(code));
    }
}

static void check_refusal(const char *text, const struct weir_error *err)
{
    int32_t end = weir_text_column(text, strlen(text));
    MUST(err->code == EINVAL);
    MUST(err->column >= 0 && err->column <= end);
    MUST(memchr(err->text, '\0', sizeof err->text));
    check_line(err->text);
}

static void check_round_trip(struct weir_spec *specs, size_t count)
{
    char text[SPEC_TEXT_MAX + 1], again[SPEC_TEXT_MAX + 1];
    struct weir_spec back[WEIR_LIMITS_MAX];
    for (size_t i = 0; i < count; i++)
        specs[i].verb = WEIR_VERB_NONE; /* an order, not part of the limit */
    size_t len = weir_spec_format(specs, count, text, sizeof text);
    MUST(len > 0 && len <= SPEC_TEXT_MAX);
    check_line(text);
    MUST(weir_spec_parse(text, back, WEIR_LIMITS_MAX, NULL) == count);
    MUST(memcmp(specs, back, count * sizeof back[0]) == 0);
    MUST(weir_spec_format(back, count, again, sizeof again) == len);
    MUST(strcmp(text, again) == 0);
    MUST(weir_spec_format(specs, count, again, len / 2 + 1) == len);
    MUST(strlen(again) == len / 2 && strncmp(text, again, len / 2) == 0);
}

static void check_policy(const char *text, const struct weir_spec *specs, size_t count)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_new(text, &err);
    MUST(!policy == (count == 0));
    if (!policy) {
        check_refusal(text, &err);
        return;
    }
    MUST(weir_policy_count(policy) == count);
    for (size_t i = 0; i < count; i++)
        MUST(memcmp(weir_policy_spec(policy, i), &specs[i], sizeof specs[i]) == 0);
    weir_policy_free(policy);
}

static void check_limits(const char *text)
{
    struct weir_spec specs[WEIR_LIMITS_MAX], one[1];
    struct weir_error err;
    memset(&err, 'x', sizeof err);
    size_t count = weir_spec_parse(text, specs, WEIR_LIMITS_MAX, &err);
    MUST(weir_spec_parse(text, one, 1, NULL) == (count == 1));
    check_policy(text, specs, count);
    if (count == 0) {
        check_refusal(text, &err);
        weir_phrasebook_explain(text, &err);
        check_refusal(text, &err);
        return;
    }
    MUST(err.code == 0 && err.column == 0 && err.text[0] == '\0');
    for (size_t i = 0; i < count; i++) {
        struct weir_spec twice = specs[i];
        struct spec_fault fault;
        MUST(weir_spec_complete(&twice, &fault));
        MUST(memcmp(&twice, &specs[i], sizeof twice) == 0);
    }
    check_round_trip(specs, count);
}

static void check_engineblock(const char *text)
{
    struct weir_spec spec;
    struct weir_error err;
    if (weir_spec_from_engineblock(text, &spec, &err))
        check_round_trip(&spec, 1);
    else
        check_refusal(text, &err);
}

static void check_time(const char *text)
{
    struct spec_fault fault;
    int64_t time_ns, back;
    char again[64];
    if (!weir_spec_read_period(text, &time_ns, &fault)) {
        check_line(fault.text);
        return;
    }
    MUST(time_ns >= 0 && time_ns <= SPEC_PERIOD_MAX_NS);
    MUST(weir_spec_format_period(time_ns, again, sizeof again) < sizeof again);
    MUST(weir_spec_read_period(again, &back, &fault) && back == time_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1); /* of just this size, so that a sanitizer sees one byte too many */
    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    check_limits(text);
    check_engineblock(text);
    check_time(text);
    free(text);
    return 0;
}
