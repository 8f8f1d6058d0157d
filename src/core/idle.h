/* SPDX-License-Identifier: MIT */
/*
 * What tables need to know of states: from when on one may be forgotten, and whether words that come from a
 * file can be one. In a table a key that is not there is one that has been idle for ever, so a fresh state
 * has to be just that: see weir_policy_idle.
 */
#ifndef WEIR_CORE_IDLE_H
#define WEIR_CORE_IDLE_H

#include "core/limit.h"

/* As weir_policy_new, for the keys of a table: every state begins as if it had been idle for ever. Refuses
 * what has no meaning there: another initial=, fill=thread, EngineBlock's configure and restart. */
struct weir_policy *weir_policy_idle(const char *limits, struct weir_error *err);

/* The canonical text, which weir_policy_idle reads back to an equal policy; as snprintf does. */
size_t weir_policy_text(const struct weir_policy *policy, char *text, size_t size);

/*
 * The first time from which on the state may be forgotten (0: always, WEIR_FOREVER: never): at any time t
 * from then on no promise is outstanding, and a state made at t by weir_state_init answers, at t and later,
 * as this one would. Two may lose something, so that they can go at all, but gain nothing by it: hybrid its
 * backlog, and step the phase of its steps; their files say why the law holds. A function of the state alone;
 * the policy is one of weir_policy_idle.
 */
int64_t weir_state_idle_from(const struct weir_policy *policy, const int64_t *state);

/* Could this be a state of the policy? Then no verb overflows, runs for long or leaves the state, whatever
 * the words say. */
bool weir_state_valid(const struct weir_policy *policy, const int64_t *state);

#endif
