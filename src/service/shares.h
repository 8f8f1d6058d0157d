/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_SHARES_H
#define WEIR_SERVICE_SHARES_H

#include "base/admission_hook.h"
#include "service/service.h"

/* Finds out what users hold of what all have in common: fair_share.h. By the job thread. */
void weir_shares_look(struct service *service, bool all); /* a part of them, or all */
void weir_shares_warn(struct service *service);           /* once a second: who was refused */

/* Entries that a user's request makes in a store of all users. Where there is one user alone nothing is
 * counted. */
struct share_hook {
    struct admission_hook hook;
    const struct worker *worker;
    const struct user *user;
    enum share_store store;
};
struct share_hook weir_share_hook(const struct worker *worker, const struct user *user,
                                  enum share_store store);

#endif
