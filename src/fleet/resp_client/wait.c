/* SPDX-License-Identifier: MIT */
/*
 * Waiting for an answer. Who waits gets a copy of the tree: the bytes of the connection go on being used.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "fleet/resp_client/client.h"

struct blocking_request {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    struct resp_value *value;
    struct buffer *bytes;
    bool asked;
    struct weir_error *err;
};

static void measure_reply(const struct resp_value *value, size_t *nodes, size_t *bytes)
{
    *nodes += value->count;
    *bytes += value->text.len;
    for (size_t i = 0; i < value->count; i++)
        measure_reply(&value->elements[i], nodes, bytes); /* the parser bounds the depth */
}

static void copy_reply(struct resp_value *to, const struct resp_value *from, struct resp_value **nodes,
                       char **bytes)
{
    *to = *from;
    if (from->text.len > 0)
        memcpy(*bytes, from->text.bytes, from->text.len);
    to->text.bytes = *bytes;
    *bytes += from->text.len;
    to->elements = *nodes;
    *nodes += from->count;
    for (size_t i = 0; i < from->count; i++)
        copy_reply(&to->elements[i], &from->elements[i], nodes, bytes);
}

static struct resp_value *copy_reply_tree(const struct resp_value *from, struct buffer *bytes)
{
    size_t nodes = 1, len = 1;
    measure_reply(from, &nodes, &len);
    char *room = weir_buffer_room(bytes, len);
    struct resp_value *tree = room ? calloc(nodes, sizeof *tree) : NULL;
    if (!tree)
        return NULL;
    struct resp_value *next = tree + 1;
    copy_reply(tree, from, &next, &room);
    buffer_wrote(bytes, len);
    return tree;
}

static void blocking_request_answered(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct blocking_request *wait = arg;
    (void)pthread_mutex_lock(&wait->lock);
    wait->asked = asked;
    wait->value = value ? copy_reply_tree(value, wait->bytes) : NULL;
    if (!wait->value)
        (void)weir_error_complain(wait->err, "%s", value ? "out of memory" : why);
    wait->done = true;
    (void)pthread_cond_signal(&wait->changed);
    (void)pthread_mutex_unlock(&wait->lock);
}

struct resp_value *weir_resp_client_wait(struct resp_client *client, const struct fleet_host *host,
                                         const struct slice *words, size_t count, int64_t deadline_ns,
                                         struct buffer *bytes, bool *asked, struct weir_error *err)
{
    struct blocking_request wait = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .bytes = bytes, .err = err};
    *bytes = (struct buffer){0};
    weir_resp_client_request(client, host, words, count, deadline_ns, blocking_request_answered, &wait);
    (void)pthread_mutex_lock(&wait.lock);
    while (!wait.done)
        (void)pthread_cond_wait(&wait.changed, &wait.lock);
    (void)pthread_mutex_unlock(&wait.lock);
    (void)pthread_mutex_destroy(&wait.lock);
    (void)pthread_cond_destroy(&wait.changed);
    *asked = wait.asked;
    return wait.value;
}
