/* SPDX-License-Identifier: MIT */
/*
 * Who is connected: how many clients there are, from where and as whom, and which of them have not logged in
 * although they must (strangers). A stranger never keeps another client out: when there is no room, one of
 * the oldest strangers goes, of the source that has the most. Users who are no admins leave some places free,
 * which strangers use to log in, and admins. Any thread; nothing here waits.
 */
#ifndef WEIR_SERVICE_CROWD_H
#define WEIR_SERVICE_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include "service/failures.h"

struct crowd;
struct crowd_source;
struct crowd_user;

/* A client; belongs to the crowd from weir_crowd_enter to weir_crowd_leave. */
struct guest {
    struct crowd_source *source; /* NULL: has not entered */
    struct crowd_user *user;     /* that it has logged in as, or NULL */
    struct guest *older, *newer; /* of the strangers */
    bool stranger, ordinary;     /* must log in; has a place of those that are not kept for admins */
    bool dropped;                /* was asked to leave */
};

struct crowd_limits {
    int64_t most;        /* clients */
    int64_t per_address; /* of them from one source; 0: any number */
    int64_t per_user;    /* of them as one user who is no admin; 0: any number */
};

struct crowd *weir_crowd_new(void); /* or NULL */
void weir_crowd_free(struct crowd *crowd);

enum entry {
    ENTRY_FREE,    /* may do what `default` may */
    ENTRY_KEPT,    /* only places for admins are left: it must log in as one */
    ENTRY_REFUSED, /* there is no room */
    ENTRY_ADDRESS  /* its source has as many as it may have */
};
enum entry_kind {
    ENTER_STRANGER, /* must log in */
    ENTER_ORDINARY, /* need not, and is no admin */
    ENTER_ADMIN     /* need not, and is one */
};
/* Asks a guest to leave; called with the crowd locked, and must not call back. */
typedef void crowd_drop(struct guest *guest);
enum entry weir_crowd_enter(struct crowd *crowd, const struct crowd_limits *limits, struct guest *guest,
                            const char *address, enum entry_kind kind, crowd_drop *drop);
void weir_crowd_leave(struct crowd *crowd, struct guest *guest);

/* false: the user has as many as it may have, or only places for admins are left. The guest stays what it
 * was. One that has not entered is let through. */
bool weir_crowd_log_in(struct crowd *crowd, const struct crowd_limits *limits, struct guest *guest,
                       const char *user, bool admin);
/* It is as if it had just come, as one of that kind. */
void weir_crowd_log_out(struct crowd *crowd, struct guest *guest, enum entry_kind kind);
/* It must log in, or need not any more. Who has logged in keeps the place that it got by that. */
void weir_crowd_set_kind(struct crowd *crowd, struct guest *guest, enum entry_kind kind);

struct crowd_count {
    int64_t all, strangers, dropped; /* the last: asked to leave, and still there */
};
struct crowd_count weir_crowd_count(struct crowd *crowd);

/* Strangers there may be: a quarter of all, 32 at least. Places kept for them and for admins: a sixteenth. */
int64_t weir_crowd_strangers_most(int64_t most);
int64_t weir_crowd_kept(int64_t most);

#endif
