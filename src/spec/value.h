/* SPDX-License-Identifier: MIT */
/*
 * Reading the values of a limit from text: counts, times and factors, exactly, without floating point.
 */
#ifndef WEIR_SPEC_VALUE_H
#define WEIR_SPEC_VALUE_H

#include "base/sat.h"
#include "spec/spec.h"

/* Stands in a text and stops at the first mistake. Functions that read give false after one. */
struct spec_reader {
    const char *at, *end; /* next byte; end of what may be read */
    struct spec_fault *fault;
    const char *wrong; /* where the mistake is; NULL: no place in particular */
};

__attribute__((format(printf, 3, 4))) bool weir_spec_wrong(struct spec_reader *reader, const char *at,
                                                           const char *format, ...);

bool weir_spec_is_digit(const struct spec_reader *reader);  /* the next byte is 0..9 */
bool weir_spec_is_letter(const struct spec_reader *reader); /* ... is a letter, a non-ASCII one too */
bool weir_spec_skip(struct spec_reader *reader, char byte); /* steps over it if it is next */
void weir_spec_skip_space(struct spec_reader *reader);

/* Length of the word that begins here: letters, or letters, digits, - and _. */
size_t weir_spec_letters_len(const struct spec_reader *reader);
size_t weir_spec_word_len(const struct spec_reader *reader);
/* Length of all that stands before the next space, comma or end. */
size_t weir_spec_token_len(const struct spec_reader *reader);
/* Steps over `word`, in any case, if the letters that follow are just that. */
bool weir_spec_skip_word(struct spec_reader *reader, const char *word);

/* over / under, in lowest terms. A number too large to count with is larger than SPEC_COUNT_MAX. */
struct quantity {
    weir_i128 over;
    int64_t under;
};

/* 100, 12k, 1.5, 2MiB. Spaces may stand before the multiple; what is no multiple is left. */
bool weir_spec_read_count(struct spec_reader *reader, struct quantity *quantity);

/* 250ms, 1h30m, 1 h 30 m. Saturates at INT64_MAX. */
bool weir_spec_read_time(struct spec_reader *reader, int64_t *time_ns);

/* 1.1 in millionths. Saturates at INT64_MAX. */
bool weir_spec_read_factor(struct spec_reader *reader, int64_t *factor_ppm);

#endif
