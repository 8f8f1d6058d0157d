/* SPDX-License-Identifier: MIT */
/*
 * One connection of a wire (wire.h), in the hands of the wire's thread alone. What it tells goes through the
 * functions of struct line_owner, which may not touch the line.
 */
#ifndef WEIR_FLEET_WIRE_LINE_H
#define WEIR_FLEET_WIRE_LINE_H

#include "fleet/wire.h"
#include "fleet/wire_name.h"

struct question {
    struct question *next;
    struct fleet_host host;
    int64_t deadline_ns;
    size_t answers; /* that are still to come */
    wire_answer *answer;
    void *arg;
    uint64_t start; /* where it begins in what the line has put into `out` so far */
    size_t len;
    char bytes[];
};

/* A list with its end. */
struct questions {
    struct question *first, **end;
    size_t count;
};

struct line_owner {
    char user[128], password[256]; /* "": no login */
    int64_t database, connect_ns, pause_most_ns;
    struct bell *bell;
    uint64_t random;
    void (*answered)(void *owner, struct question *question, const struct resp_value *value, bool asked,
                     const char *why); /* takes the question */
    void (*opened)(void *owner, const struct fleet_host *host);
    void (*closed)(void *owner, const struct fleet_host *host, const char *why);
    void (*pushed)(void *owner, const struct fleet_host *host, const struct resp_value *value);
};

enum line_state { LINE_IDLE, LINE_NAMING, LINE_CONNECTING, LINE_GREETING, LINE_OPEN };
enum line_greeting { GREET_HELLO, GREET_AUTH, GREET_SELECT };

struct line {
    struct line_owner *owner;
    struct fleet_host host;
    enum line_state state;
    enum line_greeting greeting; /* the answer that is awaited */
    int fd;
    struct lookup *lookup;
    const struct addrinfo *address; /* that is being tried; the ones behind it are next */
    int64_t until_ns;               /* it has to be open */
    int64_t retry_ns, pause_ns;     /* not again before that */
    int64_t used_ns;                /* when something was last asked */
    const char *ends;               /* why it is closed as soon as nothing is expected; NULL: it is not */
    struct questions expected;      /* put into `out`, in this order */
    struct questions waiting;       /* for the line to open, or for room */
    struct buffer out, in;
    uint64_t put, written; /* bytes, ever */
};

void weir_line_init(struct line *line, struct line_owner *owner, const struct fleet_host *host);
void weir_line_free(struct line *line); /* everything is answered with NULL */
void weir_line_ask(struct line *line, struct question *question, int64_t now);
/* Whatever the time demands: connects, sends, gives up. Gives when it is to be called again. */
int64_t weir_line_step(struct line *line, int64_t now);
/* What poll is to look for; 0: nothing. */
short weir_line_events(const struct line *line);
void weir_line_ready(struct line *line, int64_t now);
bool weir_line_is_idle(const struct line *line); /* nobody waits for anything on it */

/* ---- between wire_line.c and wire_connect.c ---- */

/* Closed: everything is answered with NULL, and nothing is tried again before a pause, which grows until a
 * line has opened. */
void weir_line_fail(struct line *line, int64_t now, const char *reason);
void weir_line_fault(struct line *line, int64_t now, int error); /* an errno value */
void weir_line_begin(struct line *line, int64_t now);
void weir_line_named(struct line *line, int64_t now);     /* LINE_NAMING: perhaps the name is known now */
void weir_line_connected(struct line *line, int64_t now); /* LINE_CONNECTING: it is, or is not */
void weir_line_greeted(struct line *line, int64_t now, const struct resp_value *value); /* LINE_GREETING */

static inline void questions_init(struct questions *list)
{
    list->first = NULL;
    list->end = &list->first;
    list->count = 0;
}

static inline void questions_add(struct questions *list, struct question *question)
{
    question->next = NULL;
    *list->end = question;
    list->end = &question->next;
    list->count++;
}

static inline struct question *questions_take(struct questions *list)
{
    struct question *question = list->first;
    if (!question)
        return NULL;
    list->first = question->next;
    if (!list->first)
        list->end = &list->first;
    list->count--;
    return question;
}

static inline bool host_same(const struct fleet_host *one, const struct fleet_host *other)
{
    return one->port == other->port && strcmp(one->name, other->name) == 0;
}

#endif
