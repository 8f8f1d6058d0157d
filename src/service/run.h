/* SPDX-License-Identifier: MIT */
/*
 * What the files around run.c need of each other.
 */
#ifndef WEIR_SERVICE_RUN_H
#define WEIR_SERVICE_RUN_H

#include "base/admission_hook.h"
#include "base/sat.h"
#include "service/commands/command.h"

/* Counters that one thread writes and others read. Units can be as many as a client says. */
static inline void count_up(_Atomic int64_t *count, int64_t by)
{
    atomic_store_explicit(count, sat_add(atomic_load_explicit(count, memory_order_relaxed), by),
                          memory_order_relaxed);
}

/* Begins a read section, unless it has begun; true: read_section_end is to end it. */
static inline bool read_section_begin(struct worker *worker)
{
    if (worker->snapshot)
        return false;
    weir_read_begin(worker);
    return true;
}

static inline void read_section_end(struct worker *worker, bool began)
{
    if (began && !worker->read_section_lasts)
        weir_read_end(worker);
}

/* The same for what comes from outside: it sees what is in force now, also in a read section that has begun
 * before.
 */
static inline bool read_section_renew(struct worker *worker)
{
    if (read_section_begin(worker))
        return true;
    weir_read_renew(worker);
    return false;
}

/* Entries that a call makes in a store of all users: may_admit and came. Where there is one user alone
 * nothing is counted. */
struct call_admission_hook {
    struct admission_hook hook;
    const struct call *call;
    enum share_store store;
};
struct call_admission_hook weir_call_admission_hook(const struct call *call, enum share_store store);

/* Who asks: NULL if the client has not logged in and must, or if its login has ended: the user is gone, or
 * its password or rights are others than at the login. */
const struct user *weir_session_user(const struct session *session, const struct snapshot *snapshot);

/* CLIENT REPLY: takes back what was answered since `before` bytes were in `out`, if the client wants none. */
void weir_session_mute(struct session *session, struct buffer *out, size_t before);

/* Puts the request away for the job thread: call->state is RUN_JOB. Or answers with an error. */
void weir_job_begin(struct call *call);
/* The same for a login whose password is to be checked; takes a copy of it. false: an error was answered. */
struct login;
bool weir_job_login(struct call *call, const struct login *login);

/* In the order of Redis: is there such a command, are the words enough, who asks, may he? Else answers. */
bool weir_call_ready(struct call *call);

/* It was answered with an error: that counts with the worker, the command, if there is such a one, and the
 * policy that a deciding command names. */
void weir_call_count_error(const struct call *call, const struct command *command, size_t number);

/* cmd_take.c: the answer to a WEIR.ACQUIRE that is due; and what is to be given up if it will never be. */
void weir_acquire_answer(struct worker *worker, struct session *session, struct buffer *out);
void weir_acquire_cancel(struct worker *worker, struct session *session);

/* transaction.c: between MULTI, which is refused, and EXEC nothing is run; true: it was answered. */
bool weir_transaction_stops(struct call *call);

/* "; nobody has logged in: ..." behind a NOPERM, if that may be why; else "". */
const char *weir_call_login_hint(const struct call *call);

/* The command's name as people know it: "client|list". */
const char *weir_call_name(const struct call *call, char text[static 64]);

#endif
