/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SPEC_ENGINEBLOCK_H
#define WEIR_SPEC_ENGINEBLOCK_H

#include "spec/read.h"

/*
 * EngineBlock's "rate,ratio[,verb]", split by , : or ; and with or without cyclerate= in front.
 * The first one tells whether the text up to the end of the reader has that shape. `known`: the caller knows
 * that it is meant, so a bare rate is one, too.
 */
bool weir_spec_is_engineblock(const struct spec_reader *reader);
bool weir_spec_read_engineblock(struct spec_reader *reader, struct spec_limit *limit, bool known);

#endif
