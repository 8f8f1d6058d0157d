/* SPDX-License-Identifier: MIT */
/*
 * Single words that people know from other systems, such as capacity for burst.
 */
#ifndef WEIR_PHRASEBOOK_WORDS_H
#define WEIR_PHRASEBOOK_WORDS_H

#include "spec/spec.h"

/* After weir_spec_read has refused a text: if a word that it does not know is one of another system, sets the
 * text of the fault to what weir calls that, and returns true. */
bool weir_phrasebook_find_word(struct spec_fault *fault);

#endif
