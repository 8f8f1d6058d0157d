/* SPDX-License-Identifier: MIT */
/*
 * Text in bounded memory: a builder that counts as snprintf does, UTF-8 one character at a time, and words
 * compared as people mean them. Only ASCII letters have a case here; no locale is asked. Any thread.
 */
#ifndef WEIR_BASE_TEXT_H
#define WEIR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- builder ---------------------------------------------------------------------------------- */

struct text {
    char *bytes;
    size_t size; /* of `bytes`; what does not fit is counted but not written */
    size_t len;  /* that the whole text needs, without the NUL */
};

void weir_text_init(struct text *text, char *bytes, size_t size);
void weir_text_put(struct text *text, const char *bytes, size_t len);
__attribute__((format(printf, 2, 3))) void weir_text_print(struct text *text, const char *format, ...);

/* ---- characters ------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `bytes`, 0 if there is none (len 0, cut off, overlong, surrogate). */
size_t weir_utf8_read(const char *bytes, size_t len, uint32_t *code);

/* May stand in a line on a terminal: no control character, nothing that turns or hides its neighbours. */
bool weir_utf8_printable(uint32_t code);

/* The column of byte `offset`, from 1: a character is one column, and so is a byte that is none. */
int32_t weir_text_column(const char *bytes, size_t offset);

/* The byte at which column `column` begins; `len` if the text ends before it. */
size_t weir_text_offset(const char *bytes, size_t len, size_t column);

/* The most bytes up to `most` that do not cut a character in two. */
size_t weir_text_cut(const char *bytes, size_t len, size_t most);

/* ---- words ------------------------------------------------------------------------------------ */

char weir_text_lower(char letter);

/* Of a hexadecimal digit, either case; below 0: it is none. */
int weir_text_hex(char digit);
/* So many digits, at most 16, as a number. false: one is none. */
bool weir_text_hex_number(const char *digits, size_t count, uint64_t *number);

/* Equal but for case: so many letters; all of them, where the length of a literal costs nothing. */
bool weir_text_same_letters(const char *bytes, const char *word, size_t len);
static inline bool weir_text_same(const char *bytes, size_t len, const char *word)
{
    return strlen(word) == len && weir_text_same_letters(bytes, word, len);
}

/* Equal but for case, - and _: maxBurst, max_burst and Max-Burst are alike. */
bool weir_text_alike(const char *bytes, size_t len, const char *word);

/* `part` occurs in `bytes`, whatever the case. */
bool weir_text_contains(const char *bytes, size_t len, const char *part, size_t part_len);

/* Letters to insert, delete, change or swap with their neighbour to get from one to the other. Long words
 * count as far apart. */
size_t weir_text_distance(const char *bytes, size_t len, const char *word);

/* "Did you mean": of any number of known words, the one that a mistyped word comes nearest to. At most two
 * slips, and no more than half of the shorter word: others are not near, and `found` stays NULL. */
struct nearest {
    const char *word;
    size_t len;
    const char *found;
    size_t distance;
};
struct nearest weir_nearest(const char *word, size_t len);
/* Returns true if `known` is the nearest so far. */
bool weir_nearest_try(struct nearest *nearest, const char *known);

#endif
