/* SPDX-License-Identifier: MIT */
#include "phrasebook/phrasebook.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "phrasebook/phrase.h"
#include "phrasebook/words.h"
#include "spec/read.h"

/* The end of the text without the spaces behind it. */
static const char *end_of(const char *text)
{
    const char *end = text + strlen(text);
    while (end > text && strchr(" \t\n\v\f\r", end[-1]))
        end--;
    return end;
}

/* In burst=1,000 the mistake begins in the limit before the one that was refused. */
static bool find_better(const char *text, int32_t *column, struct spec_fault *fault)
{
    const char *limit = fault->limit, *before = fault->before;
    if (!limit)
        return false;
    struct spec_reader reader = {.at = limit, .end = end_of(text), .fault = fault, .wrong = fault->wrong};
    if (!weir_phrasebook_find_phrase(&reader, limit) &&
        !(before && weir_phrasebook_find_phrase(&reader, before)))
        return weir_phrasebook_find_word(fault);
    *column = weir_text_column(text, (size_t)(reader.wrong - text));
    return true;
}

size_t weir_phrasebook_read(const char *text, struct weir_spec *specs, size_t capacity, int32_t *column,
                            struct spec_fault *fault)
{
    size_t count = weir_spec_read(text, specs, capacity, column, fault);
    if (count == 0)
        (void)find_better(text, column, fault);
    return count;
}

void weir_phrasebook_explain(const char *text, struct weir_error *err)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    struct spec_fault fault;
    int32_t column;
    if (!text || !err || weir_spec_read(text, specs, WEIR_LIMITS_MAX, &column, &fault) > 0 ||
        column != err->column)
        return; /* it was refused for another reason */
    if (find_better(text, &column, &fault))
        weir_error_at(err, EINVAL, text, strlen(text), column, fault.text);
}
