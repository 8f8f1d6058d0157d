/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "fleet/wire_line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sat.h"
#include "base/secret.h"

#define READ_SIZE      16384
#define BUFFER_KEPT    65536
#define PAUSE_LEAST_NS (10 * WEIR_MS)

void weir_line_init(struct line *line, struct line_owner *owner, const struct fleet_host *host)
{
    *line = (struct line){.owner = owner, .host = *host, .fd = -1};
    questions_init(&line->expected);
    questions_init(&line->waiting);
    line->in.most = WIRE_IN_MAX;
}

bool weir_line_is_idle(const struct line *line)
{
    return line->expected.count + line->waiting.count == 0;
}

/* ---- the end of a connection ------------------------------------------------------------------ */

static void answer_all(struct line *line, struct questions *list, const char *why)
{
    struct questions all = *list;
    if (!all.first)
        all.end = &all.first;
    questions_init(list);
    for (struct question *question; (question = questions_take(&all));)
        line->owner->answered(line->owner, question, NULL,
                              list == &line->expected && question->start < line->written, why);
}

static void let_go(struct line *line)
{
    if (line->fd >= 0)
        (void)close(line->fd);
    line->fd = -1;
    line->address = NULL;
    line->ends = NULL;
    weir_lookup_drop(line->lookup);
    line->lookup = NULL;
    if (line->out.bytes)
        weir_secret_wipe(line->out.bytes, line->out.size); /* it may have the password */
    weir_buffer_free(&line->out);
    weir_buffer_free(&line->in);
    line->state = LINE_IDLE;
}

static uint64_t draw(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

void weir_line_fail(struct line *line, int64_t now, const char *reason)
{
    char why[WIRE_WHY_MAX];
    bool six = strchr(line->host.name, ':') != NULL;
    (void)snprintf(why, sizeof why, "%s%.84s%s:%d: %.64s", six ? "[" : "", line->host.name, six ? "]" : "",
                   line->host.port, reason);
    let_go(line);
    int64_t pause = max64(line->pause_ns, PAUSE_LEAST_NS);
    line->retry_ns = now + pause / 2 + (int64_t)(draw(&line->owner->random) % (uint64_t)pause);
    line->pause_ns = min64(2 * pause, line->owner->pause_most_ns);
    struct questions waiting = line->waiting;
    if (!waiting.first)
        waiting.end = &waiting.first;
    questions_init(&line->waiting);
    answer_all(line, &line->expected, why);
    answer_all(line, &waiting, why);
    line->owner->closed(line->owner, &line->host, why);
}

void weir_line_fault(struct line *line, int64_t now, int error)
{
    char reason[ERROR_REASON_MAX];
    weir_line_fail(line, now, weir_error_reason(reason, error));
}

void weir_line_free(struct line *line)
{
    let_go(line);
    answer_all(line, &line->expected, "the connection is being closed");
    answer_all(line, &line->waiting, "the connection is being closed");
}

/* ---- what goes out ---------------------------------------------------------------------------- */

void weir_line_ask(struct line *line, struct question *question, int64_t now)
{
    line->used_ns = now;
    questions_add(&line->waiting, question);
}

static void put(struct line *line, const char *bytes, size_t len)
{
    buffer_put(&line->out, bytes, len);
    line->put += len;
}

/* As much of what waits as there is room for. */
static void put_waiting(struct line *line)
{
    struct question *question;
    while ((question = line->waiting.first) &&
           (buffer_len(&line->out) == 0 || buffer_len(&line->out) + question->len <= WIRE_OUT_MAX)) {
        (void)questions_take(&line->waiting);
        question->start = line->put;
        put(line, question->bytes, question->len);
        questions_add(&line->expected, question);
    }
}

static void flush(struct line *line, int64_t now)
{
    if (line->state == LINE_OPEN && !line->ends)
        put_waiting(line);
    if (line->out.failed) {
        weir_line_fault(line, now, ENOMEM);
        return;
    }
    while (line->state >= LINE_GREETING && buffer_len(&line->out) > 0) {
        ssize_t sent = send(line->fd, buffer_bytes(&line->out), buffer_len(&line->out), MSG_NOSIGNAL);
        if (sent >= 0) {
            line->written += (uint64_t)sent;
            weir_buffer_drop(&line->out, (size_t)sent, BUFFER_KEPT);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            weir_line_fault(line, now, errno);
        }
    }
}

/* ---- what comes in ---------------------------------------------------------------------------- */

static void answered(struct line *line, int64_t now, const struct resp_value *value)
{
    if (value->type == RESP_PUSH) {
        line->owner->pushed(line->owner, &line->host, value);
    } else if (line->state == LINE_GREETING) {
        weir_line_greeted(line, now, value);
    } else if (!line->expected.first || line->expected.first->start >= line->written) {
        weir_line_fail(line, now, "it answers what nobody has asked");
    } else if (--line->expected.first->answers == 0) {
        line->owner->answered(line->owner, questions_take(&line->expected), value, true, "");
    }
}

static void read_answers(struct line *line, int64_t now)
{
    while (line->fd >= 0 && buffer_len(&line->in) > 0) {
        struct resp_value *value;
        size_t used;
        enum resp_parsed parsed =
            weir_resp_parse(buffer_bytes(&line->in), buffer_len(&line->in), &value, &used);
        if (parsed == RESP_INCOMPLETE)
            return;
        if (parsed != RESP_PARSED) {
            weir_line_fail(line, now,
                           parsed == RESP_BROKEN ? "it does not speak the Redis protocol" : "out of memory");
            return;
        }
        struct buffer bytes = line->in; /* `fail` may free the line's own while the tree points into it */
        line->in = (struct buffer){.most = WIRE_IN_MAX};
        answered(line, now, value);
        weir_resp_value_free(value);
        weir_buffer_free(&line->in);
        line->in = bytes;
        if (line->fd < 0)
            weir_buffer_free(&line->in);
        else
            weir_buffer_drop(&line->in, used, BUFFER_KEPT);
    }
}

static void receive(struct line *line, int64_t now)
{
    char *room = weir_buffer_room(&line->in, READ_SIZE);
    if (!room) {
        weir_line_fail(line, now, "its answer is too long");
        return;
    }
    ssize_t got = recv(line->fd, room, READ_SIZE, 0);
    if (got > 0) {
        buffer_wrote(&line->in, (size_t)got);
        read_answers(line, now);
    } else if (got == 0) {
        weir_line_fail(line, now, "it closed the connection");
    } else if (errno != EAGAIN && errno != EINTR) {
        weir_line_fault(line, now, errno);
    }
}

/* ---- time ------------------------------------------------------------------------------------- */

/* What waits and was not put into `out` yet may be given up without harm. */
static int64_t drop_late(struct line *line, int64_t now)
{
    int64_t next = INT64_MAX;
    struct questions all = line->waiting;
    if (!all.first)
        all.end = &all.first;
    questions_init(&line->waiting);
    for (struct question *question; (question = questions_take(&all));) {
        if (question->deadline_ns <= now) {
            line->owner->answered(line->owner, question, NULL, false, "it could not be asked in time");
        } else {
            next = min64(next, question->deadline_ns);
            questions_add(&line->waiting, question);
        }
    }
    return next;
}

static int64_t earliest(const struct questions *list)
{
    int64_t at = INT64_MAX;
    for (const struct question *question = list->first; question; question = question->next)
        at = min64(at, question->deadline_ns);
    return at;
}

int64_t weir_line_step(struct line *line, int64_t now)
{
    if (earliest(&line->expected) <= now)
        weir_line_fail(line, now, "it does not answer");
    if (line->ends && !line->expected.first)
        weir_line_fail(line, now, line->ends);
    int64_t next = drop_late(line, now);
    if (line->state == LINE_IDLE && line->waiting.first && now >= line->retry_ns)
        weir_line_begin(line, now);
    if (line->state == LINE_NAMING)
        weir_line_named(line, now);
    if (line->state != LINE_IDLE && line->state != LINE_OPEN && now >= line->until_ns)
        weir_line_fail(line, now, "it cannot be reached in time");
    flush(line, now);
    if (line->state == LINE_IDLE)
        return line->waiting.first ? min64(next, line->retry_ns) : next;
    if (line->state != LINE_OPEN)
        return min64(next, line->until_ns);
    return min64(next, earliest(&line->expected));
}

short weir_line_events(const struct line *line)
{
    if (line->state == LINE_CONNECTING)
        return POLLOUT;
    if (line->state < LINE_GREETING)
        return 0;
    return (short)(POLLIN | (line->out.end > line->out.start ? POLLOUT : 0));
}

void weir_line_ready(struct line *line, int64_t now)
{
    if (line->state == LINE_CONNECTING)
        weir_line_connected(line, now);
    else if (line->state >= LINE_GREETING)
        receive(line, now);
}
