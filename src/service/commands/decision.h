/* SPDX-License-Identifier: MIT */
/*
 * The commands that decide, between the Redis protocol and the engine: words -> request, answer -> bytes.
 */
#ifndef WEIR_SERVICE_COMMANDS_DECISION_H
#define WEIR_SERVICE_COMMANDS_DECISION_H

#include "service/commands/call.h"

/* ---- words: false: an error was answered ---- */

/* "policy key [n] AND policy key [n] ..." from word *at on; *at is then the first word behind them.
 * `n_needed`: n must be there; else it may be left out, and is 1. */
bool weir_parse_pairs(struct call *call, struct request *request, size_t *at, size_t most, bool n_needed);

enum decision_option { OPTION_ID = 1, OPTION_TIMEOUT = 2, OPTION_TTL = 4, OPTION_FULL = 8 };
/* Those of these options that follow, in any order. */
bool weir_parse_options(struct call *call, struct request *request, size_t at, unsigned options);

/* ---- answers ---- */

/* The six fields of an answer; `more` pairs follow that the caller writes, and then those of FULL. */
void weir_encode_verdict(struct call *call, const struct request *request, const struct answer *answer,
                         size_t more);
/* What FULL adds. */
void weir_encode_numbers(struct reply *reply, const struct request *request, const struct answer *answer);

/* ---- all of it: the `run` of a command with `parse` and `encode` ---- */

void weir_run_decision(struct call *call);

#endif
