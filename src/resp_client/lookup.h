/* SPDX-License-Identifier: MIT */
/*
 * Resolving a name without waiting for it: getaddrinfo(3) cannot be interrupted, so a thread of its own does
 * it for each name, and whoever asked may go away before it is done. And the wakeup that such a thread
 * signals.
 */
#ifndef WEIR_RESP_CLIENT_LOOKUP_H
#define WEIR_RESP_CLIENT_LOOKUP_H

#include <netdb.h>
#include <stdbool.h>

#include "resp_client/url.h"

#define LOOKUPS_MAX 16 /* threads of a process that resolve at once; one more is told to try later */

/* An eventfd that lives as long as somebody may ring it. */
struct wakeup;
struct wakeup *weir_wakeup_new(void);
struct wakeup *weir_wakeup_ref(struct wakeup *wakeup);
void weir_wakeup_unref(struct wakeup *wakeup);
int weir_wakeup_fd(const struct wakeup *wakeup); /* readable: it was rung */
void weir_wakeup_signal(struct wakeup *wakeup);
void weir_wakeup_clear(struct wakeup *wakeup);

struct lookup;

/* NULL: no thread or no memory is to be had. An address, or the path of a unix socket, needs no thread and is
 * done at once. */
struct lookup *weir_lookup_begin(const struct server_host *host, struct wakeup *wakeup);
/* false: not yet; the wakeup will be signalled. *addresses belongs to the lookup; NULL: *why, a line. */
bool weir_lookup_done(struct lookup *lookup, const struct addrinfo **addresses, const char **why);
void weir_lookup_drop(struct lookup *lookup); /* NULL is fine; done or not */

#endif
