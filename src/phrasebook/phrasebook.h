/* SPDX-License-Identifier: MIT */
/*
 * What people write who know another system: its words, calls and configuration. The library says what is
 * wrong with a text and where; the command and the server know such texts, too, and say what to write
 * instead, with the numbers that stand in the text. Nothing here decides what a text means.
 */
#ifndef WEIR_PHRASEBOOK_PHRASEBOOK_H
#define WEIR_PHRASEBOOK_PHRASEBOOK_H

#include "spec/spec.h"

/* As weir_spec_read, with a better sentence where there is one. */
size_t weir_phrasebook_read(const char *text, struct weir_spec *specs, size_t capacity, int32_t *column,
                            struct spec_fault *fault);

/* After a function of the library has refused the limits `text`: replaces its message, which is about the
 * place that `err` names, where there is a better one. */
void weir_phrasebook_explain(const char *text, struct weir_error *err);

#endif
