/* SPDX-License-Identifier: MIT */
/*
 * Resolving a name without waiting for it: getaddrinfo(3) cannot be interrupted, so a thread of its own does
 * it for each name, and whoever asked may go away before it is done. And the bell that such a thread rings.
 */
#ifndef WEIR_FLEET_WIRE_NAME_H
#define WEIR_FLEET_WIRE_NAME_H

#include <netdb.h>
#include <stdbool.h>

#include "fleet/url.h"

#define LOOKUPS_MAX 16 /* threads of a process that resolve at once; one more is told to try later */

/* An eventfd that lives as long as somebody may ring it. */
struct bell;
struct bell *weir_bell_new(void);
struct bell *weir_bell_keep(struct bell *bell);
void weir_bell_drop(struct bell *bell);
int weir_bell_fd(const struct bell *bell); /* readable: it was rung */
void weir_bell_ring(struct bell *bell);
void weir_bell_hush(struct bell *bell);

struct lookup;

/* NULL: no thread or no memory is to be had. An address needs no thread and is done at once. */
struct lookup *weir_lookup_begin(const struct fleet_host *host, struct bell *bell);
/* false: not yet; the bell will be rung. *addresses belongs to the lookup; NULL: *why, a line. */
bool weir_lookup_done(struct lookup *lookup, const struct addrinfo **addresses, const char **why);
void weir_lookup_drop(struct lookup *lookup); /* NULL is fine; done or not */

#endif
