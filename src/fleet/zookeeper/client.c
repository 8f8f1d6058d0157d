/* SPDX-License-Identifier: MIT */
#include "fleet/zookeeper/client.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define THREADED 1 /* it is libzookeeper_mt: zoo_remove_watches is there */
#include <zookeeper/zookeeper.h>

#include "base/error.h"
#include "base/random.h"
#include "base/sat.h"
#include "os/futex.h"
#include "os/thread.h"

struct zclient {
    struct zclient_owner owner;
    struct coordinator_options options;
    char hosts[URL_HOSTS_MAX * 272], cert[400];
    struct ACL_vector acl;
    struct ACL entries[2];
    pthread_mutex_t lock; /* of what follows; a handle is used under it, and closed without it */
    zhandle_t *handle;    /* NULL: none now */
    struct zcall *calls;
    bool up, came, ended; /* connected; was so once; this handle will never be again */
    const char *why;
    int64_t begun_ns, again_ns, backoff_ns; /* monotonic: this handle; when a new one is due */
    uint64_t random;
    pthread_t keeper;
    bool kept; /* the thread runs */
    _Atomic uint32_t stopping;
};

/* ---- requests, and their answers ---- */

/* One request; of a multi, where the library puts what came of its parts. */
struct zcall {
    struct zclient *client;
    struct zcall *next, *before; /* of those without an answer */
    zhandle_t *handle;
    zdone *done;
    void *arg;
    struct parts {
        size_t count;
        struct Stat stats[ZOPS_MAX];
        zoo_op_result_t results[ZOPS_MAX];
        int kinds[ZOPS_MAX];
    } * parts;
};

/* ---- answers ---- */

static int32_t zcode_of(int rc)
{
    switch (rc) {
    case ZOK:
        return ZCODE_OK;
    case ZNONODE:
        return ZCODE_NONE;
    case ZNODEEXISTS:
    case ZNOTEMPTY:
        return ZCODE_EXISTS;
    case ZBADVERSION:
        return ZCODE_VERSION;
    case ZNOAUTH:
    case ZINVALIDACL:
        return ZCODE_DENIED;
    case ZBADARGUMENTS:
    case ZUNIMPLEMENTED:
    case ZNOTREADONLY:
    case ZTHROTTLEDOP:
    case ZNOCHILDRENFOREPHEMERALS:
        return ZCODE_FAILED;
    default:
        return ZCODE_UNSURE;
    }
}

static struct znode_stat znode_stat_of(const struct Stat *stat)
{
    return (struct znode_stat){.czxid = stat->czxid,
                               .mzxid = stat->mzxid,
                               .ctime_ms = stat->ctime,
                               .mtime_ms = stat->mtime,
                               .version = stat->version};
}

static void free_zcall(struct zcall *call)
{
    free(call->parts);
    free(call);
}

/* Under the lock. */
static void unlink_zcall(struct zcall *call)
{
    *(call->before ? &call->before->next : &call->client->calls) = call->next;
    if (call->next)
        call->next->before = call->before;
}

static void finish_zcall(const void *data, struct zanswer *answer)
{
    struct zcall *call = (struct zcall *)(uintptr_t)data;
    (void)pthread_mutex_lock(&call->client->lock);
    unlink_zcall(call);
    (void)pthread_mutex_unlock(&call->client->lock);
    call->done(call->arg, answer);
    free_zcall(call);
}

/* The library does not answer everything that was on the way then. */
static void zcalls_end(struct zclient *client, zhandle_t *handle)
{
    struct zanswer unsure = {.code = ZCODE_UNSURE};
    (void)zookeeper_close(handle);
    for (;;) {
        (void)pthread_mutex_lock(&client->lock);
        struct zcall *call = client->calls;
        while (call && call->handle != handle)
            call = call->next;
        (void)pthread_mutex_unlock(&client->lock);
        if (!call)
            return;
        finish_zcall(call, &unsure);
    }
}

static void got_nothing(int rc, const void *data)
{
    finish_zcall(data, &(struct zanswer){.code = zcode_of(rc)});
}

static void got_stat(int rc, const struct Stat *stat, const void *data)
{
    struct zanswer answer = {.code = zcode_of(rc)};
    if (rc == ZOK && stat)
        answer.stat = znode_stat_of(stat);
    finish_zcall(data, &answer);
}

static void got_data(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
    struct zanswer answer = {.code = zcode_of(rc)};
    if (rc == ZOK && stat) {
        answer.stat = znode_stat_of(stat);
        answer.data = len > 0 && value ? value : "";
        answer.len = len > 0 && value ? (size_t)len : 0;
    }
    finish_zcall(data, &answer);
}

static void got_names(int rc, const struct String_vector *names, const void *data)
{
    struct zanswer answer = {.code = zcode_of(rc)};
    if (rc == ZOK && names && names->data && names->count > 0) {
        answer.names = (const char *const *)names->data;
        answer.name_count = (size_t)names->count;
    }
    finish_zcall(data, &answer);
}

/* Of a multi that failed, one operation says why and those around it only that they were not done. */
static void got_multi(int rc, const void *data)
{
    const struct parts *parts = ((const struct zcall *)data)->parts;
    struct zanswer answer = {.code = zcode_of(rc)};
    for (size_t i = 0; rc == ZOK && i < parts->count; i++)
        if (parts->kinds[i] == ZOP_SET) {
            answer.stat = znode_stat_of(&parts->stats[i]);
            break;
        }
    for (size_t i = 0; answer.code != ZCODE_OK && answer.code != ZCODE_UNSURE && i < parts->count; i++)
        if (parts->results[i].err != ZOK && parts->results[i].err != ZRUNTIMEINCONSISTENCY) {
            answer.failed = i;
            answer.code = zcode_of(parts->results[i].err);
            break;
        }
    finish_zcall(data, &answer);
}

/* ---- requests ---- */

/* The library says ZMARSHALLINGERROR when it has no memory, and then may still answer: the call stays, at the
 * longest until the handle is closed. */
static bool zcall_sent(struct zclient *client, struct zcall *call, int rc)
{
    bool kept = rc == ZOK || rc == ZMARSHALLINGERROR;
    if (!kept)
        unlink_zcall(call);
    (void)pthread_mutex_unlock(&client->lock);
    if (!kept)
        free_zcall(call);
    return kept;
}

/* Takes the lock, which `sent` drops. NULL: no connection, or no memory; it is not taken. */
static struct zcall *begin_zcall(struct zclient *client, zdone *done, void *arg)
{
    (void)pthread_mutex_lock(&client->lock);
    bool open = client->up && client->handle && !atomic_load(&client->stopping);
    struct zcall *call = open ? calloc(1, sizeof *call) : NULL;
    if (!call) {
        (void)pthread_mutex_unlock(&client->lock);
        return NULL;
    }
    *call = (struct zcall){
        .client = client, .next = client->calls, .handle = client->handle, .done = done, .arg = arg};
    if (call->next)
        call->next->before = call;
    client->calls = call;
    return call;
}

static void watch_fired(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)state, (void)path;
    struct zclient *client = (struct zclient *)(uintptr_t)zoo_get_context(handle);
    if (type != ZOO_SESSION_EVENT && client)
        client->owner.changed(client->owner.arg, (uint64_t)(uintptr_t)context);
}

bool weir_zclient_get(struct zclient *client, const char *path, uint64_t watch, zdone *done, void *arg)
{
    struct zcall *call = begin_zcall(client, done, arg);
    if (!call)
        return false;
    return zcall_sent(client, call,
                      zoo_awget(client->handle, path, watch ? watch_fired : NULL, (void *)(uintptr_t)watch,
                                got_data, call));
}

static void ignore_unwatch_answer(void *arg, const struct zanswer *answer)
{
    (void)arg, (void)answer;
}

/* A server knows only that this session watches, not for whom. So what others need is forgotten by the
 * library alone, which waits for nothing then, and what nobody needs by both: in order, so that a get that is
 * sent later sets it again. If there is no memory for it, it stays. (The header says that it takes a pointer
 * to the function's pointer; it takes the function's.) */
void weir_zclient_unwatch(struct zclient *client, const char *path, uint64_t watch, bool shared)
{
    if (shared) {
        (void)pthread_mutex_lock(&client->lock);
        if (client->up)
            (void)zoo_remove_watches(client->handle, path, ZWATCHTYPE_DATA, watch_fired,
                                     (void *)(uintptr_t)watch, 1);
        (void)pthread_mutex_unlock(&client->lock);
        return;
    }
    struct zcall *call = begin_zcall(client, ignore_unwatch_answer, NULL);
    if (call)
        (void)zcall_sent(client, call,
                         zoo_aremove_all_watches(client->handle, path, ZWATCHTYPE_DATA, 0,
                                                 (void *)(uintptr_t)got_nothing, call));
}

bool weir_zclient_set(struct zclient *client, const char *path, const char *data, int32_t version,
                      zdone *done, void *arg)
{
    struct zcall *call = begin_zcall(client, done, arg);
    if (!call)
        return false;
    return zcall_sent(client, call,
                      zoo_aset(client->handle, path, data, (int)strlen(data), version, got_stat, call));
}

bool weir_zclient_children(struct zclient *client, const char *path, zdone *done, void *arg)
{
    struct zcall *call = begin_zcall(client, done, arg);
    if (!call)
        return false;
    return zcall_sent(client, call, zoo_aget_children(client->handle, path, 0, got_names, call));
}

static void fill_op(struct zclient *client, const struct zop *op, zoo_op_t *filled, struct Stat *stat)
{
    switch (op->kind) {
    case ZOP_CHECK:
        zoo_check_op_init(filled, op->path, op->version);
        break;
    case ZOP_SET:
        zoo_set_op_init(filled, op->path, op->data, (int)strlen(op->data), op->version, stat);
        break;
    case ZOP_CREATE:
        zoo_create_op_init(filled, op->path, op->data, (int)strlen(op->data), &client->acl, 0, NULL, 0);
        break;
    default:
        zoo_delete_op_init(filled, op->path, op->version);
    }
}

bool weir_zclient_multi(struct zclient *client, const struct zop *ops, size_t count, zdone *done, void *arg)
{
    zoo_op_t filled[ZOPS_MAX];
    struct parts *parts = count <= ZOPS_MAX ? calloc(1, sizeof *parts) : NULL;
    struct zcall *call = parts ? begin_zcall(client, done, arg) : NULL;
    if (!call) {
        free(parts);
        return false;
    }
    call->parts = parts;
    parts->count = count;
    for (size_t i = 0; i < count; i++) {
        parts->kinds[i] = ops[i].kind;
        fill_op(client, &ops[i], &filled[i], &parts->stats[i]);
    }
    return zcall_sent(client, call,
                      zoo_amulti(client->handle, (int)count, filled, parts->results, got_multi, call));
}

/*
 * ---- the session: it comes and goes, and is begun anew ----
 *
 * It lasts as long as its connection. The library would keep it, connect again and set all watches by one
 * packet; and a server drops who sends a packet above its limit (jute.maxbuffer, 1 MB: some thousand pools),
 * each time anew. Nothing is lost by a new session: no node of ours lives with one, what was on the way is
 * unsure either way, and everything is read again, which sets the watches one by one.
 */

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

static void ignore_log(const char *message)
{
    (void)message;
}

/* Looks the hosts up, which may last; so it holds no lock. false: they cannot be. */
static bool zsession_begin(struct zclient *client)
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
    client->again_ns = weir_monotonic_ns() +
                       random_backoff(&client->random, &client->backoff_ns, BACKOFF_MIN_NS, BACKOFF_MAX_NS);
    (void)pthread_mutex_unlock(&client->lock);
    if (handle)
        zcalls_end(client, handle);
    if (was)
        tell_owner(client, false, "the session with ZooKeeper was closed");
}

/* The thread of a client: begins a session whenever there is none, with back-off, and ticks. */
static void *zsession_keep(void *arg)
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
        else if (due && !zsession_begin(client))
            end_zsession(client);
        client->owner.tick(client->owner.arg);
        weir_futex_wait(&client->stopping, 0, weir_monotonic_ns() + TICK_NS);
    }
    return NULL;
}

#define DRAIN_NS (200 * WEIR_MS)

/* ---- what the URL says ---- */

static void write_hosts(struct zclient *client, const struct server_url *url)
{
    size_t len = 0;
    for (size_t i = 0; i < url->host_count && len < sizeof client->hosts; i++) {
        const char *name = url->hosts[i].name;
        bool six = strchr(name, ':') != NULL;
        len += (size_t)snprintf(client->hosts + len, sizeof client->hosts - len, "%s%s%s%s:%d",
                                i > 0 ? "," : "", six ? "[" : "", name, six ? "]" : "",
                                url->hosts[i].port > 0 ? url->hosts[i].port : 2181);
    }
}

/* The value of `acl` in the query; "" if it is not there. */
static void read_acl(const char *query, char word[16])
{
    word[0] = '\0';
    for (const char *at = query; *at; at += strcspn(at, "&"), at += *at == '&')
        if (strncmp(at, "acl=", 4) == 0)
            (void)snprintf(word, 16, "%.*s", (int)min64(15, (int64_t)strcspn(at + 4, "&")), at + 4);
}

/* With a user: he may do everything, and the world may look, unless it must not. */
static bool write_acl(struct zclient *client, const struct server_url *url, struct weir_error *err)
{
    static char auth[] = "auth", nobody[] = "", world[] = "world", anyone[] = "anyone";
    char word[16];
    read_acl(url->query, word);
    bool private = strcmp(word, "private") == 0;
    if (word[0] && !private && strcmp(word, "world") != 0)
        return weir_error_complain(err,
                                   "acl is private, or world: everybody may read; leave it out for that");
    if (private && url->user[0] == '\0')
        return weir_error_complain(err, "acl=private needs somebody: write zookeeper://user:password@...");
    if (url->user[0] == '\0') {
        client->acl = ZOO_OPEN_ACL_UNSAFE;
        return true;
    }
    client->entries[0] = (struct ACL){.perms = ZOO_PERM_ALL, .id = {.scheme = auth, .id = nobody}};
    client->entries[1] = (struct ACL){.perms = ZOO_PERM_READ, .id = {.scheme = world, .id = anyone}};
    client->acl.data = client->entries;
    client->acl.count = private ? 1 : 2;
    (void)snprintf(client->cert, sizeof client->cert, "%s:%s", url->user, url->password);
    return true;
}

/* ---- open and close ---- */

static bool wait_connected(struct zclient *client)
{
    int64_t deadline = weir_monotonic_ns() + client->options.connect_ns;
    for (;;) {
        (void)pthread_mutex_lock(&client->lock);
        bool came = client->came; /* and went, perhaps */
        (void)pthread_mutex_unlock(&client->lock);
        if (came || weir_monotonic_ns() >= deadline)
            return came;
        weir_futex_wait(&client->stopping, 0, min64(deadline, weir_monotonic_ns() + 2 * WEIR_MS));
    }
}

struct zclient *weir_zclient_open(const struct server_url *url, const struct coordinator_options *options,
                                  const struct zclient_owner *owner, struct weir_error *err)
{
    struct zclient *client = calloc(1, sizeof *client);
    if (!client) {
        (void)weir_error_complain_as(err, ENOMEM, "out of memory");
        return NULL;
    }
    client->owner = *owner;
    client->options = *options;
    client->random = (uint64_t)weir_monotonic_ns() ^ (uint64_t)(uintptr_t)client;
    (void)pthread_mutex_init(&client->lock, NULL);
    write_hosts(client, url);
    zoo_set_debug_level(0);
    if (!write_acl(client, url, err)) {
        /* said */
    } else if (!zsession_begin(client)) {
        (void)weir_error_complain_as(err, EHOSTUNREACH,
                                     "cannot look for ZooKeeper at %.100s: check the names of the hosts",
                                     client->hosts);
    } else if (!wait_connected(client)) {
        (void)weir_error_complain_as(err, EHOSTUNREACH,
                                     "ZooKeeper at %.100s did not answer within %" PRId64
                                     " ms%s%.40s: check host and port, that it runs and has a quorum",
                                     client->hosts, options->connect_ns / WEIR_MS, client->ended ? "; " : "",
                                     client->ended ? client->why : "");
    } else if (!(client->kept = weir_thread_start(&client->keeper, zsession_keep, client))) {
        (void)weir_error_complain_as(err, EAGAIN, "no thread can be started");
    } else {
        return client;
    }
    weir_zclient_close(client);
    return NULL;
}

/* What is on the way comes home, if it is quick: else the library loses some memory with it. */
static void drain_zclient(struct zclient *client)
{
    _Atomic uint32_t nobody = 0;
    int64_t deadline = weir_monotonic_ns() + DRAIN_NS;
    for (bool busy = true; busy && weir_monotonic_ns() < deadline;) {
        (void)pthread_mutex_lock(&client->lock);
        busy = client->up && client->calls;
        (void)pthread_mutex_unlock(&client->lock);
        if (busy)
            weir_futex_wait(&nobody, 0, weir_monotonic_ns() + WEIR_MS);
    }
}

void weir_zclient_close(struct zclient *client)
{
    atomic_store(&client->stopping, 1);
    weir_futex_wake(&client->stopping, 1);
    if (client->kept)
        (void)pthread_join(client->keeper, NULL);
    drain_zclient(client);
    (void)pthread_mutex_lock(&client->lock);
    zhandle_t *handle = client->handle;
    client->handle = NULL;
    client->up = false;
    (void)pthread_mutex_unlock(&client->lock);
    if (handle)
        zcalls_end(client, handle);
    (void)pthread_mutex_destroy(&client->lock);
    free(client);
}
