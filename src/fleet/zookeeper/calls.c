/* SPDX-License-Identifier: MIT */
/*
 * Requests of a client, and their answers.
 */
#include <stdlib.h>
#include <string.h>

#include "fleet/zookeeper/session.h"

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
void weir_zcalls_end(struct zclient *client, zhandle_t *handle)
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
