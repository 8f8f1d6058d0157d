/* SPDX-License-Identifier: MIT */
#include "fleet/zookeeper/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "fleet/zookeeper/session.h"
#include "os/futex.h"
#include "os/thread.h"

#define DRAIN_NS (200 * WEIR_MS)

/* ---- what the URL says ---- */

static void write_hosts(struct zclient *client, const struct fleet_url *url)
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
static bool write_acl(struct zclient *client, const struct fleet_url *url, struct weir_error *err)
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

struct zclient *weir_zclient_open(const struct fleet_url *url, const struct coordinator_options *options,
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
    } else if (!weir_zsession_begin(client)) {
        (void)weir_error_complain_as(err, EHOSTUNREACH,
                                     "cannot look for ZooKeeper at %.100s: check the names of the hosts",
                                     client->hosts);
    } else if (!wait_connected(client)) {
        (void)weir_error_complain_as(err, EHOSTUNREACH,
                                     "ZooKeeper at %.100s did not answer within %" PRId64
                                     " ms%s%.40s: check host and port, that it runs and has a quorum",
                                     client->hosts, options->connect_ns / WEIR_MS, client->ended ? "; " : "",
                                     client->ended ? client->why : "");
    } else if (!(client->kept = weir_thread_start(&client->keeper, weir_zsession_keep, client))) {
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
        weir_zcalls_end(client, handle);
    (void)pthread_mutex_destroy(&client->lock);
    free(client);
}
