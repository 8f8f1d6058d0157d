/* SPDX-License-Identifier: MIT */
/*
 * Inside of members and agents: see fleet/member.h for the words.
 *
 * Who touches what:
 *   everybody, under weir_agents_lock    the list of agents, their members' names, and who leaves: for some
 *                                        steps at a time, however many there are
 *   everybody, under member->lock        those who wait, hooks, what is told in stats
 *   everybody, under agent->lock         the inbox: what is to be done, and for whom; the connection
 *   everybody, atomic                    pots, `view`
 *   the agent's thread alone             machines, stocks, alarms, the coordinator
 * Locks are taken in this order, and none while a callback runs or a coordinator is called.
 *
 * Whoever frees the last reference posts a LEAVE and waits for the thread, as long as leave_ns say. The
 * thread takes the member apart, and itself with its last member; memory goes with whoever is last.
 */
#ifndef WEIR_FLEET_AGENT_H
#define WEIR_FLEET_AGENT_H

#include <pthread.h>

#include "fleet/alarm.h"
#include "fleet/member.h"
#include "fleet/roll.h"
#include "fleet/stock.h"
#include "fleet/wait.h"
#include "os/lock.h"

#define MEMBER_REPLIES  (2 * LEASE_FLIGHT_MAX) /* that wait to be read; more cannot be on the way */
#define MEMBER_TEXT_MAX 256                    /* of a limit */
#define MEMBER_WHY_MAX  200

/* What a member's inbox holds; under agent->lock. */
struct mail {
    struct member *next; /* in the agent's inbox */
    struct member **at;  /* what points to it there */
    bool listed, closed; /* closed: the member is gone, and gets none any more */
    bool want, more, noticed, leave, hurry, away;
    int64_t want_n, missed_n; /* the most that is wanted at once; by who did not wait for it */
    struct lease_reply seen;  /* noticed: the latest epoch */
    struct lease_reply replies[MEMBER_REPLIES];
    size_t reply_count;
};

/* All members of the process, in a ring; whoever walks along it is in it, too, and keeps his place. */
struct ring {
    struct ring *next, *prev;
    struct member *member; /* NULL: somebody who walks */
};

/* What takers look at without a lock. */
struct view {
    atom64 retry_at;  /* when somebody who is refused may hope; WEIR_FOREVER: not known */
    atom64 most;      /* units beyond which no take can ever succeed */
    atom64 round;     /* ns of a question and its answer */
    atom64 down;      /* 1: there is no connection */
    atom64 exhausted; /* 1 or 0 */
    atom64 lost;
};

enum { ENTER_NOT_YET, ENTER_DONE, ENTER_FAILED };
enum { FIRST_NOT_YET, FIRST_OVER, FIRST_FORBIDDEN };
enum { LEAVE_WAITED_FOR, LEAVE_DONE, LEAVE_LAST, LEAVE_GIVEN_UP };

struct member {
    struct pot pot;
    struct view view;
    struct agent *agent;
    struct weir_limiter *limiter;
    atom64 holders; /* of this memory: the agent, the limiter, who waits */
    char name[FLEET_NAME_MAX + 1];
    char text[MEMBER_TEXT_MAX]; /* the limit */
    struct lease_terms said;
    struct weir_fleet_options options;

    struct entry entry; /* in the agent, by weir_agents_lock, as `ring` */
    struct ring ring;
    bool released; /* by weir_agents_lock: its limiter is being freed */
    struct mail mail;
    char trouble[MEMBER_WHY_MAX]; /* under agent->lock */

    /* The agent's thread. */
    struct member *next_mine, **at_mine;
    struct lease lease;
    struct place *place;
    struct stock stock;
    struct alarm alarm;
    struct {
        uint64_t id;
        int64_t sent_ns;
    } sent[MEMBER_REPLIES];
    size_t sent_next;
    struct lease_actions last; /* of the latest step */
    int64_t stepped_ns;        /* and its time */
    uint32_t told;             /* events that nobody has heard of yet */
    bool mine, up, going, moved;
    int64_t missed_n;               /* of the mail that is being read, until a step is told */
    int64_t gather_n, gather_by_ns; /* for a take that was refused; see settle.c */
    bool wants_first; /* somebody has asked before anything was known of the pool: that is not forgotten */
    int64_t leave_by_ns;

    struct lock lock;
    struct claims claims;
    bool leaving; /* nobody may begin to wait */
    weir_fleet_listener *listener;
    void *listener_arg;
    member_moved *watch;
    void *watch_arg;
    struct weir_fleet_stat stat;

    _Atomic uint32_t calling; /* 1: the thread is in a hook */
    _Atomic uint32_t enter;   /* ENTER_...; changes under agent->lock */
    struct weir_error enter_error;
    _Atomic uint32_t first; /* FIRST_...: there were units, or it is known that there are none now; FORBIDDEN:
                               it has said why not (`trouble`) */
    _Atomic uint32_t leave; /* LEAVE_... */
};

struct agent {
    struct agent *next; /* weir_agents_lock */
    struct roll roll;   /* of its members */
    atom64 holders;     /* of this memory: the thread, and the memory of members */

    char *url_text; /* as it was given: whoever gives the same shares it */
    struct fleet_url url;
    struct coordinator_options options;
    const struct coordinator_ops *ops;
    pthread_t thread;

    _Atomic uint32_t bell; /* moves whenever there is something to do; the thread sleeps on it */
    _Atomic uint32_t news; /* moves whenever a member was entered, has its first units or will not have any,
                              or an attempt to open has failed */

    struct lock lock;
    struct member *inbox, **inbox_end;
    bool opening, opened;      /* a thread is at it; it has come to an end */
    struct coordinator *found; /* by it; NULL: `error` */
    struct weir_error error;
    bool up, down, told_once; /* connected; was lost since the thread has looked; has said anything */
    bool try_now;             /* somebody waits for a connection */
    bool over;                /* it never had a member, and ends */
    char why[MEMBER_WHY_MAX]; /* it is not up */

    /* The thread. */
    struct member *mine; /* members that it knows of */
    struct member *last; /* the one that has ended it */
    pthread_t opener;
    bool has_opener;
    bool seen_up; /* what its members know of the connection */
    struct coordinator *coordinator;
    struct alarms alarms;
    int64_t open_at_ns, backoff_ns;
    uint64_t random;
    atom64 failures; /* attempts to open */
};

extern struct lock weir_agents_lock;

/* ---- agents.c: all of the process ---- */

/* Puts the member into the agent for this URL, making one if there is none. *found: one of that name is
 * there, and one more holds its limiter now: `member` is not needed. false: `err`. */
bool weir_agents_enter(struct member *member, const char *url_text, const struct fleet_url *url,
                       const struct coordinator_ops *ops, struct member **found, struct weir_error *err);
/* Its limiter is being freed: who joins its name does not get it any more. */
void weir_agents_release(struct member *member);
/* Of the agent's thread: the member is not found any more. true: it was the last, and the agent is over. */
bool weir_agents_leave(struct member *member);
/* Calls `each` (or NULL) with the names of all members for which `is_one` says so, under no lock; gives how
 * many. Those who come or go meanwhile are told or not. */
size_t weir_agents_names(bool (*is_one)(const struct member *member),
                         void (*each)(void *arg, const char *name), void *arg);

/* ---- agent.c: the thread ---- */

struct agent *weir_agent_new(const char *url_text, const struct fleet_url *url,
                             const struct coordinator_ops *ops, const struct coordinator_options *options,
                             struct weir_error *err);
void weir_agent_end(struct agent *agent);  /* of one that never had a member */
void weir_agent_drop(struct agent *agent); /* one holder less */
/* The thread looks around. */
void weir_agent_ring(struct agent *agent);
bool weir_agent_is_me(const struct agent *agent); /* called by its thread? */

/* ---- inbox.c ---- */

extern const struct sink weir_inbox_sink; /* without its agent */
enum inbox_note { INBOX_WANT, INBOX_MISSED, INBOX_LEAVE, INBOX_HURRY, INBOX_JOIN, INBOX_AWAY };
void weir_inbox_post(struct member *member, enum inbox_note note, int64_t n);
/* The next member that has mail, which is moved to *mail (replies in order); NULL: none. */
struct member *weir_inbox_next(struct agent *agent, struct mail *mail);
/* The member gets nothing any more. */
void weir_inbox_close(struct member *member);
/* The agent has news for who waits for it to be reached. */
void weir_inbox_publish(struct agent *agent);

/* ---- steps.c: a member, by the agent's thread ---- */

void weir_member_read(struct member *member, const struct mail *mail);
void weir_member_wake(struct member *member);
void weir_member_connection(struct member *member, bool up, bool down);
/* The coordinator is there: enters. */
void weir_member_enter(struct member *member);
/* Has it been told to leave, and is that done? Then it is, and nothing of it is left at the coordinator. */
bool weir_member_is_gone(struct member *member, bool hurry);

/* ---- settle.c: what follows from its steps, likewise ---- */

/* After each event. `pressed`: somebody was refused. */
void weir_member_settle(struct member *member, bool pressed);
/* To those who wait, then into the pot. true: somebody got something. */
bool weir_member_hand_out(struct member *member, int64_t now, bool pressed);
/* A take of n was refused. */
void weir_member_gather(struct member *member, int64_t n);
/* Whoever joins waits for this: FIRST_... */
void weir_member_note_first(struct member *member, uint32_t first);
bool weir_member_is_awaited(struct member *member);

/* ---- reach.c ---- */

/* Waits until the coordinator is reached, and has given its first units or said why not. false: `err`. */
bool weir_member_reach(struct member *member, int64_t connect_ns, struct weir_error *err);
/* After that has failed: it counts as lost from now on, until it is reached. true also if it was reached
 * meanwhile; false: it was, and has refused: `err`. */
bool weir_member_begin_lost(struct member *member, struct weir_error *err);

/* ---- member.c ---- */

struct member *
weir_member_of(const struct weir_limiter *limiter); /* NULL: it is none, or of another process */
void weir_member_drop(struct member *member);       /* one holder less */
/* false, and the verdict says no for sure: no answer within the timeout can be another. */
bool weir_member_may_hope(struct member *member, int64_t now, int64_t n, int64_t timeout_ns,
                          struct weir_verdict *verdict);
void weir_member_explain(struct member *member, int64_t now, int64_t n, struct weir_verdict *verdict);

#endif
