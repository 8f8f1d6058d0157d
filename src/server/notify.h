/* SPDX-License-Identifier: MIT */
/*
 * systemd, without its library: sockets it hands over, and what it wants to be told.
 */
#ifndef WEIR_SERVER_NOTIFY_H
#define WEIR_SERVER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "server/listen.h"

/* Sockets for this process, from descriptor 3 on, with the kind that FileDescriptorName= says; the variables
 * are taken out of the environment. */
int weir_notify_sockets(struct inherited_socket *sockets, int room);

/* "READY=1\nSTATUS=...": false: nobody listens, or it failed. */
bool weir_notify_send(const char *state);

/* How often the watchdog wants to hear from us, half its time; 0: there is none. */
int64_t weir_notify_watchdog_ms(void);

#endif
