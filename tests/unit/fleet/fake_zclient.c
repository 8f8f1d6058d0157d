/* SPDX-License-Identifier: MIT */
#include "unit/fleet/fake_zclient.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 16, EVENTS_MAX = 4096 };

struct node {
    char path[ZNODE_PATH_MAX]; /* "": free */
    char data[ZNODE_TEXT_MAX];
    struct znode_stat stat;
    uint64_t watch; /* 0: none */
};

struct event {
    zdone *done; /* NULL: a watch */
    void *arg;
    struct zanswer answer;
    char data[ZNODE_TEXT_MAX];
    uint64_t watch;
};

struct zclient {
    struct zclient_owner owner;
    bool up;
};

static struct {
    struct node nodes[NODES_MAX];
    struct event events[EVENTS_MAX]; /* in their order */
    size_t event_count;
    struct zclient client;
    int64_t zxid, wall_ms;
    enum fake_trouble trouble;
    int64_t trouble_in;
    bool had_trouble, lost, cut;
    void (*happens)(int64_t n);
    int64_t requests; /* since it was set */
    struct node copy[NODES_MAX];
    int64_t copy_zxid;
    bool reads_copy, denied;
} fake;

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    printf("# fake_zclient: %s\n", what);
    abort();
}

/* ---- nodes ---- */

static struct node *find(struct node *nodes, const char *path)
{
    for (size_t i = 0; i < NODES_MAX; i++)
        if (strcmp(nodes[i].path, path) == 0)
            return &nodes[i];
    return NULL;
}

static bool has_parent(struct node *nodes, const char *path)
{
    char parent[ZNODE_PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return slash != NULL;
    (void)snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    return find(nodes, parent) != NULL;
}

static int32_t set_node(struct node *node, const struct zop *op)
{
    if (!node)
        return ZCODE_NONE;
    if (fake.denied && op->kind != ZOP_CHECK) /* before it looks at the version, as it does */
        return ZCODE_DENIED;
    if (op->version >= 0 && node->stat.version != op->version)
        return ZCODE_VERSION;
    if (op->kind == ZOP_CHECK)
        return ZCODE_OK;
    if (op->kind == ZOP_DELETE) {
        node->path[0] = '\0';
        return ZCODE_OK;
    }
    (void)snprintf(node->data, sizeof node->data, "%s", op->data);
    node->stat.version++;
    node->stat.mzxid = fake.zxid;
    node->stat.mtime_ms = fake.wall_ms;
    return ZCODE_OK;
}

static int32_t apply(struct node *nodes, const struct zop *op)
{
    struct node *node = find(nodes, op->path);
    if (op->kind != ZOP_CREATE)
        return set_node(node, op);
    if (node)
        return ZCODE_EXISTS;
    if (!has_parent(nodes, op->path))
        return ZCODE_NONE;
    node = find(nodes, "");
    must(node != NULL, "too many nodes");
    (void)snprintf(node->path, sizeof node->path, "%s", op->path);
    (void)snprintf(node->data, sizeof node->data, "%s", op->data);
    node->stat = (struct znode_stat){fake.zxid, fake.zxid, fake.wall_ms, fake.wall_ms, 0};
    return ZCODE_OK;
}

/* ---- what is told later ---- */

static struct event *add_event(zdone *done, void *arg)
{
    must(fake.event_count < EVENTS_MAX, "too many events");
    struct event *event = &fake.events[fake.event_count++];
    memset(event, 0, sizeof *event);
    event->done = done;
    event->arg = arg;
    return event;
}

/* Whoever reads a node is told once that it has changed. Watches of nodes that are gone stay with the path.
 */
static void fire(const char *path)
{
    struct node *node = find(fake.nodes, path);
    if (!node || node->watch == 0)
        return;
    add_event(NULL, NULL)->watch = node->watch;
    node->watch = 0;
}

static void answer_get(struct event *event, const char *path, uint64_t watch)
{
    struct node *node = find(fake.reads_copy ? fake.copy : fake.nodes, path);
    event->answer.code = node ? ZCODE_OK : ZCODE_NONE;
    if (!node)
        return;
    if (!fake.reads_copy)
        node->watch = watch;
    event->answer.stat = node->stat;
    event->answer.len = strlen(node->data);
    memcpy(event->data, node->data, sizeof event->data);
}

static void answer_multi(struct event *event, const struct zop *ops, size_t count)
{
    static struct node nodes[NODES_MAX];
    bool stat_told = false;
    fake.zxid++;
    memcpy(nodes, fake.nodes, sizeof nodes);
    for (size_t i = 0; i < count; i++) {
        event->answer.code = apply(nodes, &ops[i]);
        event->answer.failed = i;
        if (event->answer.code != ZCODE_OK)
            return;
        if (ops[i].kind == ZOP_SET && !stat_told) {
            event->answer.stat = find(nodes, ops[i].path)->stat;
            stat_told = true;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (ops[i].kind != ZOP_CHECK)
            fire(ops[i].path);
    for (size_t i = 0; i < NODES_MAX; i++) { /* those that fired */
        struct node *now = find(fake.nodes, nodes[i].path);
        nodes[i].watch = now ? now->watch : 0;
    }
    memcpy(fake.nodes, nodes, sizeof nodes);
}

/* ---- the client ---- */

/* false: it is not sent. *applies: what it says is done. */
static bool may_send(const struct zclient *client, bool *applies)
{
    *applies = true;
    if (!client->up || fake.lost || fake.cut)
        return false;
    if (fake.happens)
        fake.happens(fake.requests++);
    if (fake.trouble == TROUBLE_NONE || fake.trouble_in-- > 0)
        return true;
    enum fake_trouble trouble = fake.trouble;
    fake.trouble = TROUBLE_NONE;
    fake.had_trouble = true;
    fake.lost = trouble != TROUBLE_NOT_SENT;
    *applies = trouble != TROUBLE_LOST;
    return trouble != TROUBLE_NOT_SENT;
}

struct zclient *weir_zclient_open(const struct server_url *url, const struct coordinator_options *options,
                                  const struct zclient_owner *owner, struct weir_error *err)
{
    (void)url, (void)options, (void)err;
    fake.client = (struct zclient){*owner, true};
    owner->moved(owner->arg, true, "");
    return &fake.client;
}

bool weir_zclient_get(struct zclient *client, const char *path, uint64_t watch, zdone *done, void *arg)
{
    bool applies;
    if (!may_send(client, &applies))
        return false;
    answer_get(add_event(done, arg), path, watch);
    return true;
}

/* A node has one watch, of whoever has read it last. */
void weir_zclient_unwatch(struct zclient *client, const char *path, uint64_t watch, bool shared)
{
    struct node *node = find(fake.nodes, path);
    (void)client, (void)watch;
    if (node && !shared)
        node->watch = 0;
}

bool weir_zclient_multi(struct zclient *client, const struct zop *ops, size_t count, zdone *done, void *arg)
{
    bool applies;
    if (!may_send(client, &applies))
        return false;
    struct event *event = add_event(done, arg);
    if (applies)
        answer_multi(event, ops, count);
    return true;
}

bool weir_zclient_set(struct zclient *client, const char *path, const char *data, int32_t version,
                      zdone *done, void *arg)
{
    struct zop op = {ZOP_SET, version, path, data};
    return weir_zclient_multi(client, &op, 1, done, arg);
}

bool weir_zclient_children(struct zclient *client, const char *path, zdone *done, void *arg)
{
    (void)client, (void)path, (void)done, (void)arg;
    return false;
}

/* One event; those of a connection that is lost are unsure. */
static void deliver(bool unsure)
{
    struct event event = fake.events[0];
    memmove(fake.events, fake.events + 1, --fake.event_count * sizeof event);
    if (!event.done) {
        if (!unsure)
            fake.client.owner.changed(fake.client.owner.arg, event.watch);
        return;
    }
    event.answer.data = event.data;
    if (unsure)
        event.answer = (struct zanswer){.code = ZCODE_UNSURE};
    event.done(event.arg, &event.answer);
}

void weir_zclient_close(struct zclient *client)
{
    client->up = false;
    while (fake.event_count > 0)
        deliver(true);
}

/* ---- for tests ---- */

void fake_zclient_begin(void)
{
    memset(&fake, 0, sizeof fake);
    fake.zxid = INT64_C(1) << 32;
    fake.wall_ms = 1000000;
}

void fake_zclient_trouble(enum fake_trouble trouble, int64_t n)
{
    fake.trouble = trouble;
    fake.trouble_in = n;
    fake.had_trouble = false;
}

bool fake_zclient_had_trouble(void)
{
    return fake.had_trouble;
}

static void lose(void)
{
    struct zclient *client = &fake.client;
    client->up = false;
    for (size_t i = 0; i < NODES_MAX; i++)
        fake.nodes[i].watch = 0;
    while (fake.event_count > 0)
        deliver(true);
    client->owner.moved(client->owner.arg, false, "lost");
}

void fake_zclient_lose(void)
{
    lose();
    fake.client.up = true;
    fake.client.owner.moved(fake.client.owner.arg, true, "");
}

void fake_zclient_cut(void)
{
    fake.cut = true;
    lose();
}

void fake_zclient_run(void)
{
    for (int i = 0; i < 100000 && (fake.event_count > 0 || fake.lost); i++) {
        if (!fake.lost) {
            deliver(false);
            continue;
        }
        fake.lost = false;
        fake_zclient_lose();
    }
    must(fake.event_count == 0, "it never ends");
}

int fake_zclient_watches(void)
{
    int count = 0;
    for (size_t i = 0; i < NODES_MAX; i++)
        count += fake.nodes[i].path[0] != '\0' && fake.nodes[i].watch != 0;
    return count;
}

void fake_zclient_elect(int64_t wall_ms)
{
    fake.zxid = ((fake.zxid >> 32) + 1) << 32;
    fake.wall_ms = wall_ms;
}

void fake_zclient_meanwhile(void (*happens)(int64_t n))
{
    fake.happens = happens;
    fake.requests = 0;
}

bool fake_zclient_by_another(const struct zop *ops, size_t count)
{
    struct event ignored = {0};
    answer_multi(&ignored, ops, count);
    return ignored.answer.code == ZCODE_OK;
}

void fake_zclient_write(const char *path, const char *text)
{
    struct zop op = {text ? ZOP_SET : ZOP_DELETE, -1, path, text};
    fake.zxid++;
    fire(path);
    (void)apply(fake.nodes, &op);
}

bool fake_zclient_stat(const char *path, struct znode_stat *stat)
{
    struct node *node = find(fake.nodes, path);
    if (node)
        *stat = node->stat;
    return node != NULL;
}

void fake_zclient_pass(int64_t ms)
{
    fake.wall_ms += ms;
}

void fake_zclient_copy(void)
{
    memcpy(fake.copy, fake.nodes, sizeof fake.copy);
    fake.copy_zxid = fake.zxid;
}

void fake_zclient_restore(void)
{
    memcpy(fake.nodes, fake.copy, sizeof fake.nodes);
    fake.zxid = fake.copy_zxid;
}

void fake_zclient_deny(bool denied)
{
    fake.denied = denied;
}

void fake_zclient_read_copy(bool copy)
{
    fake.reads_copy = copy;
}
