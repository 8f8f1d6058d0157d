/* SPDX-License-Identifier: MIT */
/*
 * weir check: what weir serve would refuse, what policies with `fleet:` cost their coordinator, and what
 * somebody should know before a reload, although the file has no mistake.
 */
#ifndef WEIR_CLI_COMMANDS_CHECK_SERVE_H
#define WEIR_CLI_COMMANDS_CHECK_SERVE_H

#include <stdbool.h>

/* Could a server begin with it? Makes all of it but the sockets, and tells why not. */
bool check_serve(void);
/* Reads the certificate of the file, if it has or needs one. */
bool check_tls(void);

/* Complains of each policy of a fleet that cannot work, naming what does. */
bool check_fleet(void);
/* What each costs and what passes at worst; nothing if there are none. */
void check_fleet_print(void);

/* Nowhere to listen, no password where others can come, users who may nothing that is there, nobody who may
 * take or change anything. */
void check_notes(void);

#endif
