/* SPDX-License-Identifier: MIT */
/*
 * One limit on its way from text to spec: what has been read of it, and where each part stands. Shared by
 * the files that read weir's own language and by spec_engineblock.c.
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

bool weir_spec_read_rate(struct spec_reader *reader, struct spec_limit *limit);
bool weir_spec_read_option(struct spec_reader *reader, struct spec_limit *limit);

/* Makes count and period of a rate out of a count that may be decimal: 1.5/s is 3/2s. */
bool weir_spec_set_rate(struct spec_reader *reader, struct spec_limit *limit, struct quantity count,
                        int64_t period_ns);

/* Completes and checks what has been read. */
bool weir_spec_finish(struct spec_reader *reader, struct spec_limit *limit);

/*
 * EngineBlock's "rate,ratio[,verb]", split by , : or ; and with or without cyclerate= in front.
 * The first one tells whether the text up to the end of the reader has that shape. `known`: the caller knows
 * that it is meant, so a bare rate is one, too.
 */
bool weir_spec_is_engineblock(const struct spec_reader *reader);
bool weir_spec_read_engineblock(struct spec_reader *reader, struct spec_limit *limit, bool known);

#endif
