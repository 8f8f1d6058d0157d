/* SPDX-License-Identifier: MIT */
/*
 * The door: listeners, and who comes in through them goes to the lane that has the fewest.
 */
#ifndef WEIR_SERVER_ACCEPT_H
#define WEIR_SERVER_ACCEPT_H

#include "server/lane.h"
#include "server/listen.h"

struct door {
    struct listener listeners[LISTEN_MAX];
    struct watch *watches[LISTEN_MAX];
    struct timer *rest_timer;
    size_t count;
    struct lane *lanes;
    int lane_count;
    struct service *service;
    int spare; /* a descriptor to be given up when there are no others, so that clients can be told */
};

/* Takes the addresses that the configuration says, or takes over sockets that are there. */
bool weir_door_open(struct door *door, const struct config *config, const int *inherited, int count,
                    struct weir_error *err);
/* Is every listener for this machine alone? Else *other is one that is not. */
bool weir_door_is_local(const struct door *door, const char **other);
/* Lets them in: by the first lane's thread, to `lanes`. */
bool weir_door_watch(struct door *door, struct loop *loop, struct weir_error *err);
void weir_door_close(struct door *door); /* nobody comes in any more */

#endif
