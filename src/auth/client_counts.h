/* SPDX-License-Identifier: MIT */
/*
 * Who is connected: how many clients there are, from where and as whom, and which of them have not logged in
 * although they must (unauthenticated clients). An unauthenticated client never keeps another client out:
 * when there is no room, one of the oldest unauthenticated clients goes, of the source that has the most.
 * Users who are no admins leave some places free, which unauthenticated clients use to log in, and admins.
 * Any thread; nothing here waits.
 */
#ifndef WEIR_AUTH_CLIENT_COUNTS_H
#define WEIR_AUTH_CLIENT_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/login_failures.h"

struct client_counts;
struct client_group;

/* A client; belongs to the client counts from weir_client_counts_enter to weir_client_counts_leave. */
struct client_entry {
    struct client_group *source;        /* NULL: has not entered */
    struct client_group *user;          /* that it has logged in as, or NULL */
    struct client_entry *older, *newer; /* of the unauthenticated clients */
    bool unauthenticated, ordinary;     /* must log in; has a place of those that are not kept for admins */
    bool dropped;                       /* was asked to leave */
};

struct client_count_limits {
    int64_t most;        /* clients */
    int64_t per_address; /* of them from one source; 0: any number */
    int64_t per_user;    /* of them as one user who is no admin; 0: any number */
};

struct client_counts *weir_client_counts_new(void); /* or NULL */
void weir_client_counts_free(struct client_counts *counts);

enum admission {
    ADMISSION_FREE,        /* may do what `default` may */
    ADMISSION_ADMIN_ONLY,  /* only places for admins are left: it must log in as one */
    ADMISSION_REFUSED,     /* there is no room */
    ADMISSION_ADDRESS_FULL /* its source has as many as it may have */
};
enum client_kind {
    CLIENT_UNAUTHENTICATED, /* must log in */
    CLIENT_ORDINARY,        /* need not, and is no admin */
    CLIENT_ADMIN            /* need not, and is one */
};
/* Asks a client to leave; called with the client counts locked, and must not call back. */
typedef void client_drop(struct client_entry *client);
enum admission weir_client_counts_enter(struct client_counts *counts,
                                        const struct client_count_limits *limits, struct client_entry *client,
                                        const char *address, enum client_kind kind, client_drop *drop);
void weir_client_counts_leave(struct client_counts *counts, struct client_entry *client);

/* false: the user has as many as it may have, or only places for admins are left. The client stays what it
 * was. One that has not entered is let through. */
bool weir_client_counts_log_in(struct client_counts *counts, const struct client_count_limits *limits,
                               struct client_entry *client, const char *user, bool admin);
/* It is as if it had just come, as one of that kind. */
void weir_client_counts_log_out(struct client_counts *counts, struct client_entry *client,
                                enum client_kind kind);
/* It must log in, or need not any more. Who has logged in keeps the place that it got by that. */
void weir_client_counts_set_kind(struct client_counts *counts, struct client_entry *client,
                                 enum client_kind kind);

struct client_count_totals {
    int64_t all, unauthenticated, dropped; /* the last: asked to leave, and still there */
};
struct client_count_totals weir_client_counts_read(struct client_counts *counts);

/* Unauthenticated clients there may be: a quarter of all, 32 at least. Places kept for them and for admins: a
 * sixteenth. */
int64_t weir_unauthenticated_max(int64_t most);
int64_t weir_admin_places(int64_t most);

#endif
