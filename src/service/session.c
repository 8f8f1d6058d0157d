/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/leases/fleet_wait.h"

void weir_session_begin(struct session *session, struct service *service, const char *address,
                        const char *local, int64_t now_ns)
{
    *session = (struct session){.version = 2, .since_ns = now_ns, .active_ns = now_ns, .user = "default"};
    session->id = atomic_fetch_add_explicit(&service->sessions, 1, memory_order_relaxed) + 1;
    session->last_command = "NULL"; /* as Redis has it */
    (void)snprintf(session->address, sizeof session->address, "%s", address);
    (void)snprintf(session->local, sizeof session->local, "%s", local);
}

void weir_session_end(struct session *session, struct worker *worker)
{
    weir_client_counts_leave(worker->service->client_counts, &session->client_entry);
    if (session->waits)
        weir_acquire_cancel(worker, session);
    weir_waiting_request_drop(worker, session);
    free(session->name);
    free(session->lib_name);
    free(session->lib_version);
    session->name = session->lib_name = session->lib_version = NULL;
}

const struct user *weir_session_user(const struct session *session, const struct snapshot *snapshot)
{
    const struct users *users = snapshot->users;
    if (!session->logged_in)
        return users->list[0].has_password || session->must_log_in ? NULL : &users->list[0];
    const struct user *user = weir_users_find(users, (struct slice){session->user, strlen(session->user)});
    return user && weir_user_has(user, session->generation) ? user : NULL;
}

void weir_session_log_in(struct session *session, const struct user *user, uint64_t generation)
{
    (void)snprintf(session->user, sizeof session->user, "%s", user->name);
    session->generation = generation;
    session->logged_in = true;
}

bool weir_session_has_ended(const struct session *session, struct worker *worker)
{
    bool began = read_section_begin(worker);
    bool ended = session->logged_in && !weir_session_user(session, worker->snapshot);
    read_section_end(worker, began);
    return ended;
}

void weir_session_mute(struct session *session, struct buffer *out, size_t before)
{
    if (__builtin_expect(session->replies == REPLY_ON, 1))
        return;
    out->end = out->start + before;
    if (session->replies == REPLY_SKIP_NEXT)
        session->replies = REPLY_SKIP;
    else if (session->replies == REPLY_SKIP)
        session->replies = REPLY_ON;
}
