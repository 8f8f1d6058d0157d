/* SPDX-License-Identifier: MIT */
#include "server/lane.h"

#include <stdlib.h>
#include <string.h>

#include "server/connection.h"
#include "service/client.h"

#define WATCH_MS 1000 /* how often patience is looked at, at most */

/* ---- those that go on ------------------------------------------------------------------------- */

/* By an order and not by a timer of 0 ms: libuv runs those again and again before it looks at the files. */
void weir_lane_again(struct lane *lane, struct connection *connection)
{
    if (connection->in_again)
        return;
    connection->in_again = true;
    connection->next_again = NULL;
    if (!lane->again)
        weir_loop_post(lane->loop, &lane->again_order);
    *lane->again_end = connection;
    lane->again_end = &connection->next_again;
}

static void run_again(void *arg)
{
    struct lane *lane = arg;
    struct connection *connection = lane->again;
    lane->again = NULL;
    lane->again_end = &lane->again;
    while (connection) {
        struct connection *next = connection->next_again;
        weir_connection_go_on(connection);
        connection = next;
    }
}

/* ---- patience --------------------------------------------------------------------------------- */

/* Whether those who have not logged in need to. A reload may change it; that it is noticed a little later
 * matters only to how much a client may send. */
static void look_at_users(struct lane *lane)
{
    bool begins = !lane->worker->snapshot; /* else it is in the middle of a turn that lasts */
    if (begins)
        weir_worker_begin(lane->worker);
    const struct user *user = &lane->worker->snapshot->users->list[0];
    int as = user->has_password ? ENTER_STRANGER : weir_user_is_admin(user) ? ENTER_ADMIN : ENTER_ORDINARY;
    atomic_store_explicit(&lane->comes_as, as, memory_order_relaxed);
    if (begins)
        weir_worker_end(lane->worker);
}

static void watch_all(void *arg)
{
    struct lane *lane = arg;
    int64_t now_ms = weir_loop_now_ms(lane->loop);
    look_at_users(lane);
    struct connection *next;
    for (struct connection *connection = lane->connections; connection; connection = next) {
        next = connection->next;
        weir_connection_watch(connection, now_ms);
    }
}

static int64_t watch_every(const struct patience *patience)
{
    int64_t every = WATCH_MS;
    const int64_t times[] = {patience->stuck_ms, patience->stranger_ms, patience->idle_ms,
                             patience->linger_ms};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (times[i] > 0 && times[i] / 2 < every)
            every = times[i] / 2;
    return every > 10 ? every : 10;
}

/* ---- wishes ----------------------------------------------------------------------------------- */

static void for_each(struct lane *lane, void (*act)(struct connection *connection))
{
    struct connection *next;
    for (struct connection *connection = lane->connections; connection; connection = next) {
        next = connection->next;
        act(connection);
    }
}

static void close_marked(struct connection *connection)
{
    if (connection->displaced)
        weir_connection_close(connection, "it had not logged in, and another one needed the place");
    else if (connection->killed)
        weir_connection_close(connection, NULL);
}

static void close_any(struct connection *connection)
{
    weir_connection_close(connection, NULL);
}

static void grant_wishes(void *arg)
{
    struct lane *lane = arg;
    unsigned wishes = atomic_exchange(&lane->wishes, 0);
    if (wishes & WISH_STORE)
        weir_parking_look(lane);
    if (wishes & WISH_LOOK)
        for_each(lane, weir_connection_look);
    if (wishes & WISH_KILL)
        for_each(lane, close_marked);
    if (wishes & WISH_USERS) {
        look_at_users(lane);
        for_each(lane, weir_connection_log_out);
    }
    if (wishes & WISH_DRAIN) {
        lane->draining = true;
        for_each(lane, weir_connection_drain);
        weir_lane_left(lane);
    }
    if (wishes & WISH_END) {
        for_each(lane, close_any);
        weir_loop_stop(lane->loop);
    }
}

void weir_lane_wish(struct lane *lane, unsigned wishes)
{
    if (atomic_fetch_or(&lane->wishes, wishes) == 0)
        weir_loop_post(lane->loop, &lane->wishes_order);
}

void weir_lane_left(struct lane *lane)
{
    if (!lane->draining || lane->drain_told || atomic_load(&lane->load) > 0)
        return;
    lane->drain_told = true;
    if (lane->drained)
        lane->drained(lane->drained_arg);
}

/* ---- looked at by others ---------------------------------------------------------------------- */

void weir_lane_list(struct lane *lane, int64_t now_ns, struct buffer *out)
{
    pthread_mutex_lock(&lane->mutex);
    for (const struct connection *at = lane->connections; at && !out->failed; at = at->next)
        weir_client_line(&at->session, now_ns, out);
    pthread_mutex_unlock(&lane->mutex);
}

static bool is_meant(const struct session *session, const struct session *asking, const struct kill *kill)
{
    return session != asking &&
           (kill->user ? strcmp(session->user, kill->user) == 0 : session->id == kill->id);
}

int64_t weir_lane_kill(struct lane *lane, const struct session *asking, const struct kill *kill)
{
    int64_t killed = 0;
    pthread_mutex_lock(&lane->mutex);
    for (struct connection *at = lane->connections; at; at = at->next)
        if (!at->killed && is_meant(&at->session, asking, kill)) {
            at->killed = true;
            killed++;
        }
    pthread_mutex_unlock(&lane->mutex);
    if (killed > 0)
        weir_lane_wish(lane, WISH_KILL);
    return killed;
}

/* ---- life ------------------------------------------------------------------------------------- */

bool weir_lane_begin(struct lane *lane, struct worker *worker, struct loop *chores,
                     const struct patience *patience)
{
    *lane = (struct lane){.worker = worker, .chores = chores, .patience = *patience, .held_most = HELD_MOST};
    pthread_mutex_init(&lane->mutex, NULL);
    lane->again_end = &lane->again;
    lane->again_order = (struct order){.run = run_again, .arg = lane};
    lane->wishes_order = (struct order){.run = grant_wishes, .arg = lane};
    lane->out.most = OUTPUT_MOST;
    lane->read_bytes = malloc(HEADROOM + READ_SIZE);
    lane->args = malloc((BATCH_WORDS + ARGS_MAX) * sizeof *lane->args);
    lane->loop = weir_loop_new();
    if (!lane->read_bytes || !lane->args || !lane->loop)
        return false;
    lane->watch_timer = weir_timer_new(lane->loop, watch_all, lane);
    if (!lane->watch_timer)
        return false;
    int64_t every_ms = watch_every(patience);
    weir_timer_set(lane->watch_timer, every_ms, every_ms);
    look_at_users(lane);
    return weir_parking_begin(lane, worker->service->store);
}

void weir_lane_clear(struct lane *lane)
{
    struct connection *next;
    for (struct connection *connection = lane->again; connection; connection = next) {
        next = connection->next_again;
        connection->in_again = false;
        if (connection->gone)
            weir_connection_free(connection);
    }
    lane->again = NULL;
    lane->again_end = &lane->again;
    for_each(lane, weir_connection_free);
    weir_parking_end(lane);
}

void weir_lane_end(struct lane *lane)
{
    weir_lane_clear(lane);
    weir_loop_free(lane->loop);
    weir_buffer_free(&lane->out);
    free(lane->read_bytes);
    free(lane->args);
    pthread_mutex_destroy(&lane->mutex);
}
