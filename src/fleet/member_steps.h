/* SPDX-License-Identifier: MIT */
/* A member, by the agent's thread alone: its steps, and what follows from them. */
#ifndef WEIR_FLEET_MEMBER_STEPS_H
#define WEIR_FLEET_MEMBER_STEPS_H

#include "fleet/agent.h"

/* Mail, or nothing: its time has come. */
void weir_member_read(struct fleet_member *member, const struct mail *mail);
void weir_member_connection(struct fleet_member *member, bool up, bool down);
/* The coordinator is there: enters. */
void weir_member_enter(struct fleet_member *member);
/* Has it been told to leave, and is that done? Then it is, and nothing of it is left at the coordinator. */
bool weir_member_is_gone(struct fleet_member *member, bool hurry);

#endif
