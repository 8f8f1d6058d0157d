/* SPDX-License-Identifier: MIT */
/*
 * Inside of the language of limits: what its files share with each other, with limit.c and with the command.
 *
 *   read      text -> spec, with the place of every field (read.h)
 *   complete  fills in defaults and refuses what makes no sense, naming the field at fault
 *   format    spec -> canonical text
 */
#ifndef WEIR_SPEC_SPEC_H
#define WEIR_SPEC_SPEC_H

#include "base/buffer.h"
#include "weir.h"

#define SPEC_TEXT_MAX      4096                              /* bytes of a list of limits */
#define SPEC_COUNT_MAX     INT64_C(1000000000000000000)      /* count, burst, initial, queue */
#define SPEC_PERIOD_MAX_NS (36525 * INT64_C(86400000000000)) /* 100 years */
#define SPEC_TIME_MAX_NS   (87660 * INT64_C(3600000000000))  /* 10 years: warmup, pool, age, timeout */
#define SPEC_FACTOR_ONE    INT64_C(1000000)                  /* cold and ratio count in millionths */
#define SPEC_FACTOR_MAX    (1000 * SPEC_FACTOR_ONE)
#define SPEC_LOG_MAX       10000 /* count of a sliding-log: it keeps that many times for every key */

/* In the order of the canonical form. */
enum spec_field {
    FIELD_NONE,
    FIELD_COUNT,
    FIELD_PERIOD,
    FIELD_BURST,
    FIELD_INITIAL,
    FIELD_ALGO,
    FIELD_RATIO,
    FIELD_POOL,
    FIELD_FILL,
    FIELD_WARMUP,
    FIELD_COLD,
    FIELD_SHAPE,
    FIELD_QUEUE,
    FIELD_AGE,
    FIELD_REFUSED,
    FIELD_STRICT,
    FIELD_TIMEOUT,
    FIELD_NAME,
    FIELD_LAST
};

/* What a word of the text, which the language does not know, was taken for. */
enum spec_unknown { UNKNOWN_NOTHING, UNKNOWN_OPTION, UNKNOWN_ALGO, UNKNOWN_MULTIPLE, UNKNOWN_START };

/* What is wrong, as a sentence that says what to write; no position inside. */
struct spec_fault {
    enum spec_field field;
    bool foreign; /* the algorithm has no such option: its name is wrong, not its value */
    char text[200];

    /* For those who know more words (src/phrasebook): parts of the text that was read. */
    enum spec_unknown unknown;
    bool guessed;               /* the sentence names a word that may be meant */
    struct slice word, value;   /* the unknown one, and the number or the word beside it */
    const char *limit, *before; /* where the limit that is wrong begins, and the one before it; NULL: none */
    const char *wrong;          /* where the mistake is */
};

/* Fills in defaults and checks every value; on failure the spec stays as it was. Completing twice changes
 * nothing. */
bool weir_spec_complete(struct weir_spec *spec, struct spec_fault *fault);

/* What only the text knows. */
struct spec_written {
    uint32_t fields; /* bit 1 << field: written, even if its value is 0 */
    int64_t whole;   /* of a decimal count, the whole part, at least 1: the default of burst and queue */
};

/* The same for a spec that was read from text. */
bool weir_spec_complete_written(struct weir_spec *spec, const struct spec_written *written,
                                struct spec_fault *fault);

/* Is the spec at `index` called as one before it? In a list every name is the name of one limit. */
bool weir_spec_has_namesake(const struct weir_spec *specs, size_t index);
#define SPEC_NAMESAKE "two limits are called '%s'; give each its own name"

/* What an option is if nothing is said about it; the fields before it are complete. */
int64_t weir_spec_default(const struct weir_spec *spec, enum spec_field field);

/* Writes a count or a time as the canonical form does: 12k, 1s, 90m, 250ms. As snprintf; a negative value
 * gives "". */
size_t weir_spec_format_count(int64_t count, char *text, size_t size);
size_t weir_spec_format_period(int64_t period_ns, char *text, size_t size);

#endif
