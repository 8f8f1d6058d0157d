/* SPDX-License-Identifier: MIT */
/*
 * A pending request: it has been read and is not answered yet. It owns copies of its words, so it outlives
 * the bytes that it was read from and the read section that it was first run in. It waits for one cause:
 *
 *   PENDING_DUE    units are promised to WEIR.ACQUIRE. It is answered when they are due, or gives them back
 *   PENDING_FLEET  nothing was decided: units of a fleet are on their way. It is run again whenever a fleet
 * has moved, and at due_ns for the last time: then it must answer. So what was reloaded meanwhile counts, and
 * a client that leaves has nothing to give back PENDING_JOB    another thread runs it, which may take long
 *   PENDING_LOGIN  another thread checks its password; then it is run again and finds the result
 *
 * Whatever the cause, there is one way to begin, one to resume and one to cancel. When it is resumed its
 * command runs once more and finds it in call->pending; what another thread has run is only appended.
 *
 * A session has one pending request at most, and nothing behind it is run meanwhile: a client that sends
 * WEIR.POLICY SET and WEIR.TAKE in one pipeline relies on their order, and so does one that takes behind
 * WEIR.ACQUIRE. Requests that wait for a fleet keep that order, too: what a later request of the connection
 * may do depends on logins, RESET and CLIENT REPLY before it. Answers that wait for the disk are no pending
 * requests: they are bytes (server/disk_wait.h), and their connection goes on.
 *
 * No request is forgotten: one that waits for a fleet counts as waiting before it is run for the second time,
 * at once; a thread that puts units into a balance looks for waiting ones afterwards.
 */
#ifndef WEIR_SERVICE_PENDING_H
#define WEIR_SERVICE_PENDING_H

#include "service/commands/call.h"

enum pending_cause { PENDING_DUE, PENDING_FLEET, PENDING_JOB, PENDING_LOGIN };

struct pending {
    enum pending_cause cause;
    const struct command *command;
    int64_t asked_ns; /* when it was first run */
    int64_t due_ns;   /* DUE, FLEET: when to resume it at the latest */
    /* DUE: what is to be answered, and what is to be given back if it never is. */
    struct answer answer;
    char label[LABEL_MAX];
    struct policy_table *ptable; /* a reference */
    uint64_t hash;
    struct weir_reservation reservation;
    struct buffer out;   /* JOB: its answer. DUE: what FULL adds to it */
    bool is_done;        /* JOB, LOGIN: by the other thread */
    struct login *login; /* LOGIN: what to check, and what came of it */
    bool is_http;
    struct http_exchange http; /* if so */
    size_t count;
    struct slice args[]; /* and their bytes behind them */
};

/* ---- begin: call->state is RUN_PENDING then, and session->pending is set ---- */

/* Copies the request. NULL: out of memory, or its words have more than `most` bytes. */
struct pending *weir_pending_new(const struct call *call, size_t most);
/* Keeps `answer` for when the promised units are due. The pair's policy table is referenced until then. */
void weir_pending_due(struct call *call, struct pending *pending, const struct request *request,
                      const struct answer *answer);
/* Waits for units of a fleet, for `for_ns` since it was first run. false: it cannot; its pairs are patient no
 * more, and it has to be decided again. */
bool weir_pending_fleet(struct call *call, int64_t for_ns, struct pair *pairs, size_t count);
/* For the job thread; or answers with an error. */
void weir_pending_job(struct call *call);
/* The same for a login whose password is to be checked; takes a copy of it. false: an error was answered. */
bool weir_pending_login(struct call *call, const struct login *login);

/* ---- by the thread that does it ---- */

void weir_pending_work(struct service *service, struct session *session);
/* Does it change something? Then it goes before those that only count: it may be the kill switch. */
bool weir_pending_changes(const struct pending *pending);
/* A number of the user who asks: the background jobs of one user take turns with those of others. */
uint64_t weir_pending_whose(const struct session *session);

/* ---- by the session's own thread, in a read section ---- */

/* Answers session->pending. false: it still waits. */
bool weir_pending_resume(struct worker *worker, struct session *session, struct buffer *out);
/* The server stops: answers session->pending, which waits, that nothing was taken. */
void weir_pending_abandon(struct worker *worker, struct session *session, struct buffer *out);
/* The session goes: what was promised is given back. Not while another thread works on it. */
void weir_pending_cancel(struct worker *worker, struct session *session);

/* Is it one of those that INFO counts as waiting? */
static inline bool pending_waits(const struct pending *pending)
{
    return pending && pending->cause <= PENDING_FLEET;
}

/* When the request was first run: now, unless it was resumed. */
static inline int64_t call_asked_ns(const struct call *call)
{
    return call->pending ? call->pending->asked_ns : call->worker->now_ns;
}

#endif
