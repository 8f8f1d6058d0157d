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
/* Its answers wait for the disk, and it has sent more: it is not read for a millisecond, unless they are
 * released before, so that requests which come one by one share a commit. false: out of memory. */
bool weir_waiting_rest(struct connection *connection);
/* The server stops: a request that waits is answered that nothing was taken. */
void weir_waiting_abandon(struct connection *connection);
/* The clock or a fleet has moved: it may be due by now. */
void weir_waiting_look(struct connection *connection);

#endif
