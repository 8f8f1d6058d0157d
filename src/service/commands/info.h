/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_COMMANDS_INFO_H
#define WEIR_SERVICE_COMMANDS_INFO_H

#include "service/service.h"

/* What INFO says. `sections` are words of the client, none: the usual ones. Policies that the user may not
 * use are left out. */
void weir_info_write(struct worker *worker, const struct user *user, const struct slice *sections,
                     size_t count, struct buffer *out);

/* Keys and room of a policy, overrides of prefixes included; counts, so a read section should not ask for
 * many. */
struct policy_room {
    int64_t keys, capacity;
};
void weir_policy_room(const struct policy *policy, int64_t now_ns, struct policy_room *room);
/* Keys of everything: policies, limits that come with the call, RL.*. */
int64_t weir_keys_all(const struct worker *worker);

/* A policy's own mode at `now_ns`; one that has ended counts no more. */
enum policy_mode weir_policy_stated_mode(const struct worker *worker, const struct policy *policy,
                                         int *percent);

#endif
