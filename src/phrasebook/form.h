/* SPDX-License-Identifier: MIT */
/*
 * Forms: what a phrase looks like, as a row of items with free spaces between them.
 *
 *   N  a count                 n  one of at most 4 digits    G  digits in groups: 1 000 or 1_000
 *   T  a period                Z  a number of seconds        O  any number of options
 *   W  a word                  K  one option
 *   P  what may stand between count and period               U  a word for units
 *   S  a separator of other languages: ; | &
 *
 * Anything else stands for itself, whatever the case: | separates alternatives, _ is a space, - or _ that may
 * be missing. ? at the end of an item means that it may be missing, ^ in front of it marks the place of the
 * mistake.
 */
#ifndef WEIR_PHRASEBOOK_FORM_H
#define WEIR_PHRASEBOOK_FORM_H

#include "spec/value.h"

#define FORM_PARTS_MAX 6

struct form_part {
    const char *start;
    size_t len;
    char item;
};

struct form_match {
    struct spec_reader reader; /* behind all that fits */
    struct form_part mistake;
    struct form_part parts[FORM_PARTS_MAX]; /* the items of the first three lines above, in their order */
    size_t count;
};

/* Does the text begin with this form? */
bool weir_form_fit(const char *form, const struct spec_reader *reader, struct form_match *match);

#endif
