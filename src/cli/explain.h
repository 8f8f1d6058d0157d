/* SPDX-License-Identifier: MIT */
/*
 * What a limit lets pass, in plain words: rows of a label and a value, and notes that teach. The numbers
 * come from the compiled limit and its law, not from the text.
 */
#ifndef WEIR_CLI_EXPLAIN_H
#define WEIR_CLI_EXPLAIN_H

#include "core/limit.h"

#define EXPLAIN_ROWS_MAX  16
#define EXPLAIN_NOTES_MAX 4
#define EXPLAIN_TEXT_MAX  512 /* a limit in its canonical form */

struct explain_row {
    char label[32], value[160];
};

struct explain {
    struct explain_row rows[EXPLAIN_ROWS_MAX];
    size_t row_count;
    char notes[EXPLAIN_NOTES_MAX][EXPLAIN_TEXT_MAX + 256];
    size_t note_count;
};

/* A stretch of time that has a name. */
struct explain_span {
    int64_t span_ns;
    const char *name; /* second */
};

extern const struct explain_span explain_spans[];
extern const size_t explain_span_count;

/* Explains limit `index` of the policy. */
void explain_limit(const struct weir_policy *policy, size_t index, struct explain *explain);

/* The canonical text of one limit, and the defaults it leaves out: "token-bucket burst=5". Both give
 * `text`, which has EXPLAIN_TEXT_MAX bytes. */
const char *explain_text(const struct weir_spec *spec, char *text);
const char *explain_defaults(const struct limit *limit, char *text);

/* How a limit is called: its name, or its text, in `text`. */
const char *explain_label(const struct limit *limit, char *text);

/* Most units at one instant, one by one; WEIR_FOREVER: no bound. */
int64_t explain_at_once(const struct limit *limit);

/* Time between two units in the long run, rounded up. */
int64_t explain_interval_ns(const struct limit *limit);

/* How long nobody may ask until a limit that was used up is as if never used. */
int64_t explain_rest_ns(const struct limit *limit);

#endif
