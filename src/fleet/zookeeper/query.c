/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "fleet/zookeeper/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "os/futex.h"

#define LIST_MAX 1000000 /* names of a list */

static void free_child_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

void weir_zoo_pending_drop(struct zoo_pending *wait)
{
    if (atomic_fetch_sub(&wait->refs, 1) != 1)
        return;
    free_child_names(wait->names, wait->name_count);
    free(wait);
}

static void copy_child_names(struct zoo_pending *wait, const struct zanswer *answer)
{
    size_t count = answer->name_count < LIST_MAX ? answer->name_count : LIST_MAX;
    wait->names = count > 0 ? calloc(count, sizeof *wait->names) : NULL;
    for (size_t i = 0; wait->names && i < count; i++) {
        wait->names[i] = strdup(answer->names[i]);
        if (!wait->names[i])
            break;
        wait->name_count++;
    }
}

static void answered(void *arg, const struct zanswer *answer)
{
    struct zoo_pending *wait = arg;
    wait->got.code = answer->code;
    wait->got.stat = answer->stat;
    wait->failed = answer->failed;
    if (answer->data && answer->len < ZNODE_TEXT_MAX) {
        memcpy(wait->got.text, answer->data, answer->len);
        wait->got.len = answer->len;
    }
    if (wait->got.code == ZCODE_OK && wait->got.len == 0) { /* nothing, or far too much: nonsense */
        wait->got.text[0] = '?';
        wait->got.len = 1;
    }
    if (answer->names)
        copy_child_names(wait, answer);
    atomic_store(&wait->done, 1);
    weir_futex_wake(&wait->done, 1);
    weir_zoo_pending_drop(wait);
}

static struct zoo_pending *new_zoo_pending(struct zoo_query *query)
{
    struct zoo_pending *wait = calloc(1, sizeof *wait);
    if (wait)
        atomic_store(&wait->refs, 2);
    else
        (void)weir_error_complain_as(query->err, ENOMEM, "out of memory");
    return wait;
}

bool weir_zoo_query_await(struct zoo_query *query, struct zoo_pending *wait)
{
    while (!atomic_load(&wait->done) && weir_monotonic_ns() < query->deadline_ns)
        weir_futex_wait(&wait->done, 0, query->deadline_ns);
    return atomic_load(&wait->done);
}

static struct zoo_pending *await_zoo_query(struct zoo_query *query, struct zoo_pending *wait, bool sent)
{
    if (!sent) {
        free(wait);
        (void)weir_error_complain_as(query->err, EHOSTUNREACH,
                                     "there is no connection to ZooKeeper now; try again");
        return NULL;
    }
    bool answered = weir_zoo_query_await(query, wait);
    if (answered && wait->got.code != ZCODE_UNSURE && wait->got.code != ZCODE_DENIED)
        return wait;
    if (answered && wait->got.code == ZCODE_DENIED)
        (void)weir_error_complain_as(query->err, EACCES,
                                     "ZooKeeper gives no right to this: check user, password and ACL");
    else
        (void)weir_error_complain_as(query->err, ETIMEDOUT,
                                     "ZooKeeper has not answered: perhaps it was done; look at it");
    weir_zoo_pending_drop(wait);
    return NULL;
}

struct zoo_pending *weir_zoo_query_get(struct zoo_query *query, const char *path)
{
    struct zoo_pending *wait = new_zoo_pending(query);
    return wait ? await_zoo_query(query, wait, weir_zclient_get(query->zoo->client, path, 0, answered, wait))
                : NULL;
}

struct zoo_pending *weir_zoo_query_multi(struct zoo_query *query, const struct zop *ops, size_t count)
{
    struct zoo_pending *wait = new_zoo_pending(query);
    return wait ? await_zoo_query(query, wait,
                                  weir_zclient_multi(query->zoo->client, ops, count, answered, wait))
                : NULL;
}

struct zoo_pending *weir_zoo_query_children(struct zoo_query *query, const char *path)
{
    struct zoo_pending *wait = new_zoo_pending(query);
    return wait
               ? await_zoo_query(query, wait, weir_zclient_children(query->zoo->client, path, answered, wait))
               : NULL;
}

struct zoo_pending *weir_zoo_query_begin_get(struct zoo_query *query, const char *path)
{
    struct zoo_pending *wait = new_zoo_pending(query);
    if (wait && !weir_zclient_get(query->zoo->client, path, 0, answered, wait)) {
        free(wait);
        wait = NULL;
    }
    return wait;
}
