/* SPDX-License-Identifier: MIT */
/*
 * A connection whose request is pending (service/pending.h): a timer says when it is due, or another thread
 * works on it.
 */
#ifndef WEIR_SERVER_WAITING_H
#define WEIR_SERVER_WAITING_H

#include "server/connection.h"

/* Its request is pending: sets the timer, or sends it to its thread, if that has not been done yet. false:
 * out of memory. */
bool weir_waiting_begin(struct connection *connection);
/* The clock or a fleet has moved: it may be due by now. */
void weir_waiting_look(struct connection *connection);

#endif
