/* SPDX-License-Identifier: MIT */
/*
 * Asking servers that speak the Redis protocol, without waiting: one thread with poll(2) for all lines
 * (connections) of a coordinator. A line is made for a host when something is first asked of it, logs in by
 * itself, and is made anew, after a pause that grows, whenever something waits for it.
 *
 * Law: each question is answered exactly once, by the wire's thread, without a lock held: by the server's
 * answer, or by NULL and the truth about whether a byte of it may have left (`asked`). It is answered by its
 * deadline at the latest. An answer that is late closes its line, and so does anything that is not the
 * protocol: what comes behind it could be taken for the answer to something else.
 *
 * All is bounded: lines, questions of a line, bytes on the way in both directions, and how long a name may
 * take to be resolved (by a thread of its own, since nothing can interrupt that).
 */
#ifndef WEIR_FLEET_WIRE_H
#define WEIR_FLEET_WIRE_H

#include "fleet/url.h"
#include "proto/resp_reply.h"

#define WIRE_LINES_MAX     64
#define WIRE_QUESTIONS_MAX 4096      /* on the way at once; one more is answered with NULL */
#define WIRE_OUT_MAX       (1 << 20) /* bytes of a line that the server has not taken yet */
#define WIRE_IN_MAX        (4 << 20) /* bytes of one answer */
#define WIRE_WHY_MAX       160

struct wire;

/* value: NULL: no answer will come; `why` says why then, in a line, and `asked` whether the server may have
 * seen the question: false is certain. It is called within weir_wire_ask, by its caller, if there is no
 * memory, too much is on the way already, or the wire stops. */
typedef void wire_answer(void *arg, const struct resp_value *value, bool asked, const char *why);

struct wire_options {
    const char *user, *password; /* NULL or "": no login */
    int64_t database;            /* SELECT; 0: none */
    int64_t connect_ns;          /* for name, connection and login together; 0: 2 s */
    int64_t pause_most_ns;       /* between two tries, which come 10 ms apart at first; 0: 1 s */
    /* What may be NULL, by the wire's thread, without a lock held: */
    void (*opened)(void *arg, const struct fleet_host *host); /* a line can be used */
    void (*closed)(void *arg, const struct fleet_host *host,
                   const char *why); /* it was, or could not be made */
    void (*pushed)(void *arg, const struct fleet_host *host, const struct resp_value *value); /* RESP3 */
    int64_t (*tick)(void *arg, int64_t now_ns); /* after each round; gives the time (wire_now) of the next */
    void *arg;
};

/* NULL: `err` says why. `options` is copied, what it points to as well. */
struct wire *weir_wire_start(const struct wire_options *options, struct weir_error *err);
/* Everything on the way is answered with NULL, then nothing is told any more. Not by the wire's thread. */
void weir_wire_stop(struct wire *wire);

/* The kernel's time since boot: deadlines are of it. It goes on while a test has set weir_now. */
int64_t weir_wire_now(void);

/* By any thread, also within an answer. */
void weir_wire_ask(struct wire *wire, const struct fleet_host *host, const struct slice *words, size_t count,
                   int64_t deadline_ns, wire_answer *answer, void *arg);
/* The same for several requests that must not be torn apart (ASKING): bytes as weir_resp_ask makes them, of
 * `answers` requests; the last answer counts. */
void weir_wire_send(struct wire *wire, const struct fleet_host *host, const char *bytes, size_t len,
                    size_t answers, int64_t deadline_ns, wire_answer *answer, void *arg);
/* By the wire's thread, within an answer: the line to that host is closed when all that was asked on it is
 * answered, and nothing more is asked on it. What waits is answered with NULL; the next question makes a new
 * line, and resolves the name anew. `why` stays. */
void weir_wire_hang_up(struct wire *wire, const struct fleet_host *host, const char *why);
/* Wakes the thread, so that `tick` is called. */
void weir_wire_wake(struct wire *wire);

/* Asks and waits, at most until the deadline: for those who may; not by the wire's thread. The tree is freed
 * by weir_resp_value_free, *bytes, into which it points, by weir_buffer_free. NULL: `err` says why, *asked
 * whether the server may have seen the question. */
struct resp_value *weir_wire_wait(struct wire *wire, const struct fleet_host *host, const struct slice *words,
                                  size_t count, int64_t deadline_ns, struct buffer *bytes, bool *asked,
                                  struct weir_error *err);

#endif
