/* SPDX-License-Identifier: MIT */
/*
 * Inside of members and agents: see fleet/member.h for the words.
 *
 * Who touches what:
 *   everybody, under weir_agents_lock    the list of agents, their members' names, and who leaves: for some
 *                                        steps at a time, however many there are
 *   everybody, under member->lock        those who wait, hooks, what is told in stats
 *   everybody, under agent->lock         the inbox: what is to be done, and for whom; the connection
 *   everybody, atomic                    balances, `view`
 *   the agent's thread alone             machines, grant stores, timers, the coordinator
 * Locks are taken in this order, and none while a callback runs or a coordinator is called.
 *
 * Whoever frees the last reference posts a LEAVE and waits for the thread, as long as leave_ns say. The
 * thread takes the member apart, and itself with its last member; memory goes with whoever is last.
 */
#ifndef WEIR_FLEET_AGENT_H
#define WEIR_FLEET_AGENT_H

#include <pthread.h>

#include "fleet/claims.h"
#include "fleet/grant_store.h"
#include "fleet/member.h"
#include "fleet/name_trie.h"
#include "fleet/wake_timer.h"
#include "os/lock.h"

#define MEMBER_REPLIES  (2 * LEASE_FLIGHT_MAX) /* that wait to be read; more cannot be on the way */
#define MEMBER_TEXT_MAX 256                    /* of a limit */
#define MEMBER_WHY_MAX  200

/* What a member's inbox holds; under agent->lock. */
struct mail {
    struct fleet_member *next; /* in the agent's inbox */
    struct fleet_member **at;  /* what points to it there */
    bool listed, closed;       /* closed: the member is gone, and gets none any more */
    bool want, more, noticed, leave, hurry, away;
    int64_t want_n, missed_n; /* the most that is wanted at once; by who did not wait for it */
    struct lease_reply seen;  /* noticed: the latest epoch */
    struct lease_reply replies[MEMBER_REPLIES];
    size_t reply_count;
};

/* All members of the process, in a ring; whoever walks along it is in it, too, and keeps his place. */
struct member_link {
    struct member_link *next, *prev;
    struct fleet_member *member; /* NULL: somebody who walks */
};

/* What takers look at without a lock. */
struct member_view {
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

struct fleet_member {
    struct lease_balance balance;
    struct member_view view;
    struct fleet_agent *agent;
    struct weir_limiter *limiter;
    atom64 holders; /* of this memory: the agent, the limiter, who waits */
    char name[FLEET_NAME_MAX + 1];
    char text[MEMBER_TEXT_MAX]; /* the limit */
    struct lease_terms said;
    struct weir_fleet_options options;

    struct name_node entry; /* in the agent, by weir_agents_lock, as `ring` */
    struct member_link ring;
    bool released; /* by weir_agents_lock: its limiter is being freed */
    struct mail mail;
    char trouble[MEMBER_WHY_MAX]; /* under agent->lock */

    /* The agent's thread. */
    struct fleet_member *next_mine, **at_mine;
    struct lease lease;
    struct pool_handle *handle;
    struct grant_store granted;
    struct wake_timer timer;
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
    int64_t gather_n, gather_by_ns; /* for a take that was refused; see member_steps.c */
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

struct fleet_agent {
    struct fleet_agent *next; /* weir_agents_lock */
    struct name_trie trie;    /* of its members */
    atom64 holders;           /* of this memory: the thread, and the memory of members */

    char *url_text; /* as it was given: whoever gives the same shares it */
    struct server_url url;
    struct coordinator_options options;
    const struct coordinator_ops *ops;
    pthread_t thread;

    _Atomic uint32_t wakeup; /* moves whenever there is something to do; the thread sleeps on it */
    _Atomic uint32_t news;   /* moves whenever a member was entered, has its first units or will not have any,
                                or an attempt to open has failed */

    struct lock lock;
    struct fleet_member *inbox, **inbox_end;
    bool opening, opened;      /* a thread is at it; it has come to an end */
    struct coordinator *found; /* by it; NULL: `error` */
    struct weir_error error;
    bool up, down, told_once; /* connected; was lost since the thread has looked; has said anything */
    bool try_now;             /* somebody waits for a connection */
    bool over;                /* it never had a member, and ends */
    char why[MEMBER_WHY_MAX]; /* it is not up */

    /* The thread. */
    struct fleet_member *mine; /* members that it knows of */
    struct fleet_member *last; /* the one that has ended it */
    pthread_t opener;
    bool has_opener;
    bool seen_up; /* what its members know of the connection */
    struct coordinator *coordinator;
    struct wake_timer_heap timers;
    int64_t open_at_ns, backoff_ns;
    uint64_t random;
    atom64 failures; /* attempts to open */
};

extern struct lock weir_agents_lock;

/* ---- all agents of the process ---- */

/* Puts the member into the agent for this URL, making one if there is none. *found: one of that name is
 * there, and one more holds its limiter now: `member` is not needed. false: `err`. */
bool weir_agents_enter(struct fleet_member *member, const char *url_text, const struct server_url *url,
                       const struct coordinator_ops *ops, struct fleet_member **found,
                       struct weir_error *err);
/* Its limiter is being freed: who joins its name does not get it any more. */
void weir_agents_release(struct fleet_member *member);
/* Of the agent's thread: the member is not found any more. true: it was the last, and the agent is over. */
bool weir_agents_leave(struct fleet_member *member);
/* Calls `each` (or NULL) with the names of all members for which `is_one` says so, under no lock; gives how
 * many. Those who come or go meanwhile are told or not. */
size_t weir_agents_names(bool (*is_one)(const struct fleet_member *member),
                         void (*each)(void *arg, const char *name), void *arg);

/* ---- one of them ---- */

void weir_agent_unref(struct fleet_agent *agent);       /* one holder less */
bool weir_agent_is_me(const struct fleet_agent *agent); /* called by its thread? */

/* ---- the inbox ---- */

extern const struct sink weir_inbox_sink; /* without its agent */
enum inbox_note { INBOX_WANT, INBOX_MISSED, INBOX_LEAVE, INBOX_HURRY, INBOX_JOIN, INBOX_AWAY };
void weir_inbox_post(struct fleet_member *member, enum inbox_note note, int64_t n);
/* The agent has news for who waits for it to be reached. */
void weir_inbox_publish(struct fleet_agent *agent);

#endif
