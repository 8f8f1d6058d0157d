/* SPDX-License-Identifier: MIT */
/*
 * How what a service knows survives. Tables and records are kept by the store, which is opened before
 * anything else is made; what must be known to read them again is the note (note.h).
 *
 * Start: open the store; make what the note describes; read all records; let each table recover by its
 * policy's rule; begin to write. Then the configuration is applied, as a reload is.
 *
 * Changes: the note of the state to come is appended first. Then the steps are done and the snapshot is
 * published; then what the steps changed is appended, and the note again, with what only the change itself
 * could tell. A kill at any moment leaves the state of before or of after.
 *
 * Tallies: a store keeps a tally until its last reference goes. Threads list slots of it in turns only, and
 * whoever sees a snapshot in a turn has what he listed appended before that turn ends: so nobody has it
 * listed when it is freed. A session that waits refers to its tally by itself: who lets it go while it is not
 * in his snapshot appends first (weir_keep_let_go).
 */
#ifndef WEIR_SERVICE_KEEP_H
#define WEIR_SERVICE_KEEP_H

#include "service/edit.h"
#include "service/note.h"
#include "store/store.h"

/* Of what is no tally, in the store. */
enum keep_number { KEEP_CLIENT_KEYS = 1, KEEP_REQUESTS, KEEP_RESERVATIONS, KEEP_STEPS };

#define KEEP_WAIT_NS       (10 * WEIR_SEC) /* for a change to be on the disk, before its answer */
#define KEEP_HOW_MAX       512
#define KEEP_COMPLAINT_MAX 240

struct keeping {
    struct disk *disk;
    char *path;
    enum store_sync sync;
    struct store_found found;
    bool noted;                           /* a note was found: */
    struct note note;                     /* until everything is restored */
    size_t requests, reservations, steps; /* records that there is room for */
    int64_t shares_seen_ns;               /* the chore thread's: when it last looked at what users hold */
    _Atomic bool owed; /* the last note does not say all that is to be said by now; notes: under `change` */
    bool image_due;    /* the chore thread's: what recovery did is to be in an image soon */
    int64_t keys, took_ns;  /* of the recovery */
    char how[KEEP_HOW_MAX]; /* what was found, in plain words */
};

/* ---- keep.c: the start ---- */

/* If there is to be one. Finds out what is there. */
bool weir_keep_open(struct service *service, const struct config *config, struct weir_error *err);
/* So many, or as many as there were: what is recovered must find room. *kept has the number from now on. */
size_t weir_keep_room(size_t *kept, size_t wanted);
/* A tally that is kept if there is a store. */
struct tally *weir_keep_tally(struct service *service, const char *limits, int64_t keys,
                              enum weir_when_full on_full, struct weir_error *err);
/* Keeps one that weir_tally_new_kept or weir_note_tally made; without a store nothing is to be done. */
bool weir_keep_add(struct service *service, struct tally *tally, int64_t lead_ns, struct weir_error *err);
/* The table of limits that come with the call, as it was, or a new one. */
struct tally *weir_keep_client_keys(struct service *service, int64_t keys, int64_t horizon_ns,
                                    struct weir_error *err);
/* Everything as it was, into the snapshot, which is not in force yet; then begins to write. */
bool weir_keep_restore(struct service *service, const struct config *config, struct snapshot *snapshot,
                       struct weir_error *err);
/* Once the configuration is applied for the first time. A policy that is new may have been there before, and
 * what told of it may be what was lost: with the rule floor it begins empty, too. */
bool weir_keep_applied(struct service *service, const struct config *config, struct weir_error *err);

/* ---- keep_change.c: changes, and the rest of a life ---- */

/* Before the steps of a change; false: nothing may be changed, and `err` says why. */
bool weir_keep_before(struct edit *edit);
/* Before the first `done` steps are taken back: their old limits come again as new ones. */
void weir_keep_back(struct edit *edit, size_t done);
/* After the change came into force, or was taken back. */
void weir_keep_after(struct edit *edit);

/* By the chore thread, before an answer to something that changed: false: it may or may not be recorded. */
bool weir_keep_wait(struct service *service);
void weir_keep_tick(struct service *service);
void weir_keep_last_note(struct service *service);
/* "the disk does not take anything (No space left on device)" */
void weir_keep_complaint(struct store *store, char text[static KEEP_COMPLAINT_MAX]);
/* A waiting session's tally goes: see above. */
void weir_keep_let_go(const struct worker *worker, const struct tally *tally);
/* Something that the note has was changed by other means. Any thread. */
static inline void keep_owe(struct service *service)
{
    if (service->keeping)
        service->keeping->owed = true;
}

#endif
