/* SPDX-License-Identifier: MIT */
/*
 * The words of the language of limits: the tables that parse, complete and format share, and the sentences
 * about them.
 */
#ifndef WEIR_SPEC_KEYWORDS_H
#define WEIR_SPEC_KEYWORDS_H

#include "spec/spec.h"

#define ALGO_BIT(algo) (UINT32_C(1) << (algo))

#define SPEC_WINDOWS                                                                                         \
    (ALGO_BIT(WEIR_FIXED_WINDOW) | ALGO_BIT(WEIR_SLIDING_WINDOW) | ALGO_BIT(WEIR_SLIDING_LOG))

#define SPEC_ALGO_NONE (-1)
#define SPEC_CALENDAR  INT64_C(-1)

enum spec_kind {
    KIND_COUNT,  /* int64_t: 20, 2k, 2MiB */
    KIND_TIME,   /* int64_t in nanoseconds: 250ms, 1h30m */
    KIND_FACTOR, /* int64_t in millionths: 1.1 */
    KIND_CHOICE, /* int32_t, one of `choices` */
    KIND_ALGO,   /* int32_t */
    KIND_NAME    /* char[] */
};

struct spec_choice {
    const char *word; /* NULL: end */
    uint32_t algos;   /* that know it */
};

struct spec_option {
    const char *name, *sample; /* a value for messages */
    enum spec_kind kind;
    uint32_t algos;                    /* that have it */
    size_t offset;                     /* in struct weir_spec */
    const struct spec_choice *choices; /* the index is the value */
};

/* unlimited or blocked: no rate, no option but name= */
bool weir_spec_is_alone(const struct weir_spec *spec);

/* NULL if the field is no option. */
const struct spec_option *weir_spec_option(enum spec_field field);
/* The value of an option that is a number or a choice. */
int64_t weir_spec_value(const struct weir_spec *spec, enum spec_field field);
void weir_spec_set_value(struct weir_spec *spec, enum spec_field field, int64_t value);

/* FIELD_NONE if the word is no option. */
enum spec_field weir_spec_find_option(const char *word, size_t len);
/* The words for algorithms, synonyms included, until NULL; the first one of an algorithm is canonical. */
const char *weir_spec_algo_word(size_t index);
/* SPEC_ALGO_NONE if it is no algorithm; unlimited and blocked are none. */
int32_t weir_spec_find_algo(const char *word, size_t len);
/* Nanoseconds, SPEC_CALENDAR, or 0 if it is no unit of time. */
int64_t weir_spec_find_unit(const char *word, size_t len);

/* A word of the text, cut so that it fits into a message: printf("%s", weir_spec_show(word, len).text) */
struct spec_shown {
    char text[32];
};
struct spec_shown weir_spec_show(const char *word, size_t len);

/* These give false, so that a check can return them. */
__attribute__((format(printf, 3, 4))) bool weir_spec_fault(struct spec_fault *fault, enum spec_field field,
                                                           const char *format, ...);
bool weir_spec_fault_zero(struct spec_fault *fault);
/* `chosen`: the algorithm was written, not left to its default. */
bool weir_spec_fault_foreign(struct spec_fault *fault, enum spec_field field, int32_t algo, bool chosen);
bool weir_spec_fault_foreign_choice(struct spec_fault *fault, enum spec_field field, int32_t algo,
                                    bool chosen, const struct spec_choice *choice);
bool weir_spec_fault_choice(struct spec_fault *fault, enum spec_field field, const char *word, size_t len);

/* ---- hints ---- */

/* A word that has no place in the language, and what is said about it. */
struct spec_hint {
    const char *word, *say;
};

/* The unit of time that is meant by a word that is none, such as millis; NULL if none is. */
const char *weir_spec_hint_unit(const char *word, size_t len);

/* Adds to a fault which word of the text is not known. `value` is what stands beside it, if anything does. */
bool weir_spec_unknown(struct spec_fault *fault, enum spec_unknown unknown, bool guessed, struct slice word,
                       struct slice value);
bool weir_spec_fault_option(struct spec_fault *fault, struct slice word, struct slice value);
bool weir_spec_fault_algo(struct spec_fault *fault, const char *word, size_t len);
bool weir_spec_fault_unit(struct spec_fault *fault, const char *word, size_t len);
/* A limit that begins with neither a number nor a word it may begin with. */
bool weir_spec_fault_start(struct spec_fault *fault, struct slice word, struct slice value);

/* The canonical word of an algorithm: "token-bucket". */
const char *weir_algo_name(int32_t algo);

#endif
