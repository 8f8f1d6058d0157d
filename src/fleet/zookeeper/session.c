/* SPDX-License-Identifier: MIT */
/*
 * The session of a client: it comes and goes, and is begun anew.
 *
 * It lasts as long as its connection. The library would keep it, connect again and set all watches by one
 * packet; and a server drops who sends a packet above its limit (jute.maxbuffer, 1 MB: some thousand pools),
 * each time anew. Nothing is lost by a new session: no node of ours lives with one, what was on the way is
 * unsure either way, and everything is read again, which sets the watches one by one.
 */
#include "fleet/zookeeper/session.h"

#include <string.h>

#include "base/sat.h"
#include "os/futex.h"

#define TICK_NS        (50 * WEIR_MS)
#define TRY_NS         (2 * WEIR_SEC) /* how long a handle may look for a server before another one does */
#define BACKOFF_MIN_NS (100 * WEIR_MS)
#define BACKOFF_MAX_NS (5 * WEIR_SEC)

static const char *why_down(int state)
{
    return state == ZOO_EXPIRED_SESSION_STATE ? "the session with ZooKeeper has expired"
           : state == ZOO_AUTH_FAILED_STATE   ? "ZooKeeper does not accept user and password"
                                              : "the connection to ZooKeeper is lost";
}

/* Under the lock. true: it came or went. */
static bool note_state(struct zclient *client, int state)
{
    bool was = client->up;
    client->up = state == ZOO_CONNECTED_STATE && !client->ended;
    if (client->up) {
        client->backoff_ns = 0;
        return !was;
    }
    client->ended =
        client->ended || was || state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE;
    client->why = why_down(state);
    return was;
}

/* Whoever waits for it to open goes on when its owner knows: before that he would refuse orders. */
static void tell_owner(struct zclient *client, bool up, const char *why)
{
    client->owner.moved(client->owner.arg, up, why);
    (void)pthread_mutex_lock(&client->lock);
    client->came = client->came || up;
    (void)pthread_mutex_unlock(&client->lock);
}

static void zsession_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)path;
    struct zclient *client = context;
    if (type != ZOO_SESSION_EVENT)
        return;
    (void)pthread_mutex_lock(&client->lock);
    /* Of a handle that is not known yet its state is asked later; of one that is being closed it is past. */
    bool told = client->handle == handle && note_state(client, state);
    bool up = client->up;
    (void)pthread_mutex_unlock(&client->lock);
    if (told)
        tell_owner(client, up, up ? "" : why_down(state));
    if (told && !up)
        weir_futex_wake(&client->stopping, 1); /* before the library connects again */
}

static uint64_t next_session_random(struct zclient *client)
{
    client->random = client->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return client->random >> 33;
}

static void ignore_log(const char *message)
{
    (void)message;
}

bool weir_zsession_begin(struct zclient *client)
{
    int session_ms = (int)clamp64(client->options.session_ns / WEIR_MS, 100, 3600 * 1000);
    zhandle_t *handle =
        zookeeper_init2(client->hosts, zsession_event, session_ms, NULL, client, 0, ignore_log);
    if (!handle)
        return false;
    if (client->cert[0])
        (void)zoo_add_auth(handle, "digest", client->cert, (int)strlen(client->cert), NULL, NULL);
    (void)pthread_mutex_lock(&client->lock);
    client->handle = handle;
    client->ended = client->up = false;
    client->begun_ns = weir_monotonic_ns();
    bool told = note_state(client, zoo_state(handle));
    (void)pthread_mutex_unlock(&client->lock);
    if (told)
        tell_owner(client, true, "");
    return true;
}

/* Closes the handle; those who wait for an answer get one. A new one is due after a while. */
static void end_zsession(struct zclient *client)
{
    (void)pthread_mutex_lock(&client->lock);
    zhandle_t *handle = client->handle;
    bool was = client->up;
    client->handle = NULL;
    client->up = false;
    client->backoff_ns = clamp64(2 * client->backoff_ns, BACKOFF_MIN_NS, BACKOFF_MAX_NS);
    client->again_ns = weir_monotonic_ns() + client->backoff_ns / 2 +
                       (int64_t)(next_session_random(client) % (uint64_t)client->backoff_ns);
    (void)pthread_mutex_unlock(&client->lock);
    if (handle)
        weir_zcalls_end(client, handle);
    if (was)
        tell_owner(client, false, "the session with ZooKeeper was closed");
}

void *weir_zsession_keep(void *arg)
{
    struct zclient *client = arg;
    while (!atomic_load(&client->stopping)) {
        int64_t now = weir_monotonic_ns();
        (void)pthread_mutex_lock(&client->lock);
        bool dead = client->handle && (client->ended || (!client->up && now - client->begun_ns > TRY_NS));
        bool due = !client->handle && now >= client->again_ns;
        (void)pthread_mutex_unlock(&client->lock);
        if (dead)
            end_zsession(client);
        else if (due && !weir_zsession_begin(client))
            end_zsession(client);
        client->owner.tick(client->owner.arg);
        weir_futex_wait(&client->stopping, 0, weir_monotonic_ns() + TICK_NS);
    }
    return NULL;
}
