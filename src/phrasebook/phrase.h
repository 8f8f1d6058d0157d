/* SPDX-License-Identifier: MIT */
/*
 * Whole phrases that people write instead of a limit.
 */
#ifndef WEIR_PHRASEBOOK_PHRASE_H
#define WEIR_PHRASEBOOK_PHRASE_H

#include "spec/value.h"

/* After a mistake in the limit that begins at `start`: if the text is a phrase that people know from
 * elsewhere, such as 5 requests per hour, sets fault and place of the reader to a better sentence. */
bool weir_phrasebook_find_phrase(struct spec_reader *reader, const char *start);

#endif
