/* SPDX-License-Identifier: MIT */
/*
 * One limit on its way from text to spec: what has been read of it, and where each part stands. Shared by
 * the files that read weir's own language and by engineblock.c.
 */
#ifndef WEIR_SPEC_READ_H
#define WEIR_SPEC_READ_H

#include "spec/value.h"

struct spec_limit {
    struct weir_spec spec;
    struct spec_written written;
    const char *start;
    const char *values[FIELD_LAST]; /* where the value of a field stands; NULL: not written */
    const char *names[FIELD_LAST];  /* where the name of an option stands */
    const char *calendar;           /* month or year */
    const char *quota;              /* the value of algo=quota */
    const char *later;              /* the first option of quota */
};

/* Makes count and period of a rate out of a count that may be decimal: 1.5/s is 3/2s. */
bool weir_spec_set_rate(struct spec_reader *reader, struct spec_limit *limit, struct quantity count,
                        int64_t period_ns);

/* Completes and checks what has been read. */
bool weir_spec_finish(struct spec_reader *reader, struct spec_limit *limit);

/* As weir_spec_parse, but the message comes without the text and the position in front. `column` counts
 * characters from 1; 0: no place in particular. */
size_t weir_spec_read(const char *text, struct weir_spec *specs, size_t capacity, int32_t *column,
                      struct spec_fault *fault);

/* Reads a single time such as 250ms or 1h30m, up to 100 years; a bare number is refused, except 0. */
bool weir_spec_read_period(const char *text, int64_t *period_ns, struct spec_fault *fault);

#endif
