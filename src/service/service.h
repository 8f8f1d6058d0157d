/* SPDX-License-Identifier: MIT */
/*
 * The service: everything the server does, without a socket. Requests come in as words, answers go out as
 * bytes of the Redis protocol into a buffer. Tests call it as the server does.
 *
 *   service  policies, tables, ledger, users: one of a process
 *   worker   a thread that runs requests: its counters and its read section; one of each event loop
 *   session  a client: version of the protocol, user, name; belongs to one worker at a time
 *   job      a request that may take long: is done by the job thread, its answer comes later
 */
#ifndef WEIR_SERVICE_SERVICE_H
#define WEIR_SERVICE_SERVICE_H

#include <pthread.h>

#include "auth/client_counts.h"
#include "auth/fair_share.h"
#include "auth/login_failures.h"
#include "auth/password_check.h"
#include "base/sat.h"
#include "ledger/ledger.h"
#include "ledger/smyte.h"
#include "resp/read.h"
#include "resp/write.h"
#include "service/histogram.h"
#include "service/policies/snapshot.h"
#include "store/store.h"
#include "table/table.h"

struct session;

/* ---- service ---------------------------------------------------------------------------------- */

struct service_options {
    uint32_t workers;
    bool test_clock;               /* WEIR.CLOCK works; the clock starts at 0 and stands still */
    bool no_password;              /* the operator said so: `default` needs none */
    const char *exposed;           /* where it can be reached from elsewhere, so needs a password; or NULL */
    const struct digest *password; /* of `default`, from --password-file; NULL: as the file says */
    const char *config_path;       /* what WEIR.RELOAD reads; NULL: nothing */
    /* Puts what the command line says above what the file says; NULL: nothing does. false: out of memory. */
    bool (*above)(void *arg, struct config *config);
    void *above_arg;
    /* By the store's threads, which must not be held up: answers that wait for it may be sent by now. */
    void (*store_moved)(void *arg);
    void *store_moved_arg;
    /* By threads of a fleet, which must not be held up: who waits for its units may look again. */
    void (*fleet_moved)(void *arg);
    void *fleet_moved_arg;
    struct disk *disk; /* of the store; NULL: the real one */
    bool store_manual; /* tests call weir_store_work: it has no threads of its own */
    bool no_store;     /* whatever the configuration says: nothing but to see whether it could be in force */
    /* Where in the file the mistake is, if it cannot be put in force; NULL: the message begins with it. */
    struct config_place *wrong_at;
};

/* Whose connections CLIENT KILL closes: that one, or all of a user but the asking one. */
struct client_kill {
    uint64_t id;
    const char *user; /* NULL: the one that has `id` */
};

#define ENGINE_ERROR_MAX 1024

struct worker { /* counters are written by the worker alone, read by anybody */
    struct service *service;
    uint32_t number;
    const struct snapshot *snapshot;             /* of this read section; NULL between read sections */
    int64_t now_ns;                              /* of this read section */
    enum protocol protocol;                      /* of the requests that are being run; set before each run */
    _Alignas(64) _Atomic uint64_t read_epoch;    /* even: between read sections; see snapshot.c */
    _Atomic int64_t commands, errors;            /* requests answered; those of them with an error */
    _Atomic int64_t allowed, refused;            /* decisions by policies, as clients were answered */
    _Atomic int64_t client_limits[PROTOCOLS][2]; /* by limits that came with the call: refused, allowed */
    _Atomic int64_t input_bytes, output_bytes;
    _Atomic int64_t connections;            /* sessions that are open */
    _Atomic int64_t waiting;                /* sessions that wait: in WEIR.ACQUIRE, or for a fleet */
    _Atomic int64_t *calls, *failed, *usec; /* of each command, by its number */
    int64_t rest_ns;                        /* less than a microsecond, not in usec yet */
    struct histogram decision_time[PROTOCOLS];
    struct histogram store_wait; /* until what was answered may be sent */
    _Atomic int64_t
        heartbeat_ms;      /* of CLOCK_MONOTONIC: when its I/O thread was last seen at work; health.h */
    char label[LABEL_MAX]; /* of the last answer, where no policy has it ready */
    char error[ENGINE_ERROR_MAX]; /* of the last answer: what is wrong */
    int64_t date_s;               /* the second that `date` tells, as a field of HTTP responses */
    size_t date_len;
    char date[48];
    bool changed;            /* an answer must not be sent before what was changed is durable */
    bool began;              /* it has had a read section */
    bool read_section_lasts; /* its read section ends by weir_read_end alone, after what it changed is in the
                                log */
};

/* Of the thread that gives tables more room: growth.c. */
struct growth {
    struct table_grower grower; /* the first */
    pthread_mutex_t mutex;      /* around all that follows, and memory_used */
    pthread_cond_t work, done;
    bool woken;
    _Atomic bool runs;
    uint64_t rounds, grown; /* through all tables; and growths, so far */
    int64_t wait_ns;        /* at the most, for room; set before the thread starts */
    pthread_t thread;
    _Atomic uint64_t read_epoch; /* as a worker's */
};

struct service {
    struct service_options options;
    _Atomic(struct snapshot *) snapshot;
    struct snapshot *retired; /* under `change` */
    _Atomic uint64_t epoch;   /* snapshots that were published so far: see snapshot.c */
    pthread_mutex_t change;   /* who publishes snapshots */
    struct worker *workers;   /* options.workers, and one more: the job thread's */
    struct growth growth;
    struct hash_key credential_key; /* of hashes of HTTP credentials: never told, new in each process */
    bool has_hash_key;              /* tables that are made get this one, else each its own */
    struct hash_key hash_key;
    struct store *store;             /* NULL: everything is in memory alone */
    struct persistence *persistence; /* what goes with the store: see persist.h; or NULL */
    struct fleet_joiner
        *fleet_joiner; /* joins fleets: see pools.h; or NULL: no policy has one. Under `change` */
    struct ledger ledger;
    struct records *smyte;                   /* RL.* */
    struct policy_table *client_keys;        /* CL.THROTTLE, THROTTLE, GCRA */
    struct fair_share *shares[SHARE_STORES]; /* of what all users have in common */
    struct refusal_log *refusal_log;         /* NULL: refusals are not logged */
    int64_t horizon_ns; /* longest time a key of these may need to be full again; 0: 31 days */
    struct login_failures *login_failures; /* logins */
    struct client_counts *client_counts;   /* clients that are connected */
    struct password_check *password_check; /* logins whose passwords are checked slowly */
    int64_t memory;                        /* budget in bytes */
    _Atomic int64_t memory_used;
    /* Wall clock - weir_now: as of the last look at it, which the job thread takes at each tick, and as of
     * the start. Memory order: relaxed, it stands for itself. */
    _Atomic int64_t wall_lead_ns;
    int64_t start_lead_ns;
    int64_t started_ms, started_ns;
    char run_id[41];
    char *listens; /* for INFO: "resp 127.0.0.1:9049", a line each; NULL: no server */
    int tcp_port;
    int64_t max_clients;
    int64_t per_address, per_user;          /* of them; 0: as many, and by weir_service_clients */
    struct digest start[CONFIG_START_KEYS]; /* what takes effect after a restart: a reload compares */
    _Atomic uint64_t sessions;              /* that ever were: the last id */
    _Atomic int64_t rejected;               /* connections above max_clients */
    _Atomic int64_t displaced;              /* that had not logged in and went for another one */
    _Atomic int64_t reloads, reload_failures;
    _Atomic bool draining;          /* set by the server when it begins to stop */
    _Atomic bool ready_asked;       /* a probe has asked whether it is ready: so somebody looks */
    _Atomic int64_t tls_expires_ms; /* wall clock: the first certificate's end; 0: there is none */
    _Atomic int64_t ops_per_second;
    struct {                 /* the job thread's own */
        int64_t next_end_ns; /* when the next mode, override or previous policy table ends; 0: look */
        int64_t measured_ns; /* when commands were last counted, */
        int64_t measured;    /* and how many they were */
        size_t swept;        /* which policy table is next */
        int64_t ticks;
        int64_t requests_refused, ledger_refused, smyte_refused; /* for want of room, as last seen */
        int64_t share_refused[SHARE_STORES];                     /* as last seen */
    } upkeep;
    struct loads *loads;    /* the job thread's own: see load.c */
    char reload_error[256]; /* of the last reload; "" if it went well. Under `change` */
    uint64_t generation;    /* the last that a user's password got. Under `change` */
    /* Set by the server; a service without one leaves them NULL. */
    void (*clock_moved)(void *arg); /* WEIR.CLOCK: sessions that wait look again */
    void (*clients)(void *arg, struct session *asking, struct buffer *out); /* CLIENT LIST of all loops */
    int64_t (*kill)(void *arg, struct session *asking,
                    const struct client_kill *kill); /* CLIENT KILL: how many */
    void (*users_changed)(void *arg);                /* logins may have ended: weir_session_user */
    /* A reload, by the job thread: what the server itself uses of a file is made ready, before anything is
     * changed; false: it cannot be, and `err` says why. Then it is put in force (good) or forgotten. */
    bool (*prepare)(void *arg, const struct config *config, struct weir_error *err);
    void (*prepared)(void *arg, const struct config *config, bool good);
    void *server;
};

struct service *weir_service_new(const struct config *config, const struct service_options *options,
                                 struct weir_error *err);
/* Everything is on the disk and marked so; false: it was not. To be called when no worker runs any more and
 * nothing is to be decided; without it weir_service_free does the same, and logs what went wrong. */
bool weir_service_close(struct service *service, struct weir_error *err);
void weir_service_free(struct service *service);

/* Wall clock at a time of weir_now, by the difference that the two have now: steps when the wall clock does.
 */
static inline int64_t service_wall_ns(const struct service *service, int64_t now_ns)
{
    return now_ns + atomic_load_explicit(&service->wall_lead_ns, memory_order_relaxed);
}

static inline int64_t service_wall_ms(const struct service *service, int64_t now_ns)
{
    return service_wall_ns(service, now_ns) / WEIR_MS;
}

/* How many clients there may be, with the users of that moment. */
struct client_count_limits weir_service_clients(const struct service *service, const struct users *users);

/* The same by the difference that they had at the start: never steps, so it mints nothing. */
static inline int64_t service_steady_ms(const struct service *service, int64_t now_ns)
{
    return (now_ns + service->start_lead_ns) / WEIR_MS;
}

/* By the job thread: looks at the wall clock again. true: it has stepped, or drifted, since the last time.
 */
bool weir_service_look_at_wall(struct service *service);

/* Has that end, a wall clock time in milliseconds, come in this read section? 0: there is none. */
static inline bool worker_is_past(const struct worker *worker, int64_t until_ms)
{
    return until_ms != 0 && service_wall_ms(worker->service, worker->now_ns) >= until_ms;
}

/* That end as a time of weir_now, as it looks in this read section; 0: there is none. */
static inline int64_t worker_end_ns(const struct worker *worker, int64_t until_ms)
{
    return until_ms == 0 ? 0 : sat_sub(sat_mul(until_ms, WEIR_MS), service_wall_ns(worker->service, 0));
}

/* ---- sessions --------------------------------------------------------------------------------- */

struct pending;

struct session {
    uint64_t id;
    int version; /* 2 or 3 */
    bool logged_in;
    bool must_log_in; /* as an admin: the other places are taken */
    struct client_entry client_entry;
    uint64_t generation; /* of the password that it logged in with: see users.h */
    char user[CONFIG_NAME_MAX +
              1];     /* looked up in each read section's snapshot: a user who is gone may do nothing */
    char address[64]; /* "127.0.0.1:50211", "unix" */
    char local[64];
    char *name, *lib_name, *lib_version; /* or NULL */
    int64_t since_ns, active_ns;
    enum reply_mode { REPLY_ON, REPLY_SKIP, REPLY_SKIP_NEXT, REPLY_OFF } replies;
    const char *last_command; /* static */
    int64_t commands;
    bool closing;            /* after what it has been answered */
    bool transaction;        /* MULTI was refused: nothing is run until EXEC or DISCARD */
    bool has_certificate;    /* its client certificate is that of a user, */
    uint64_t certificate;    /* who logs in with this generation by it */
    uint64_t credential;     /* HTTP: a hash of the credentials that it has logged in with; 0: none */
    struct pending *pending; /* its request that was read and is not answered yet; or NULL */
};

void weir_session_begin(struct session *session, struct service *service, const char *address,
                        const char *local, int64_t now_ns);
/* It is that user's from now on. */
void weir_session_log_in(struct session *session, const struct user *user, uint64_t generation);
/* The same, if there may be so many clients of that user; else false, and the log says so. */
bool weir_session_enter(struct session *session, struct worker *worker, const struct user *user,
                        uint64_t generation);
/* Its client certificate has that subject: logs it in as the user who has it, if any. Between read sections.
 * false: there are too many clients of that user. */
bool weir_session_certificate(struct session *session, struct worker *worker, const char *subject);
/* It has logged in, and that counts no more: the connection is to be closed. */
bool weir_session_has_ended(const struct session *session, struct worker *worker);
/* Does it come from a trusted proxy? */
bool weir_session_is_of_proxy(const struct session *session, struct worker *worker);
/* What it waits for is cancelled. Not while another thread works on its pending request. */
void weir_session_end(struct session *session, struct worker *worker);

/* Who asks: NULL if the client has not logged in and must, or if its login has ended: the user is gone, or
 * its password or rights are others than at the login. */
const struct user *weir_session_user(const struct session *session, const struct snapshot *snapshot);

/* CLIENT REPLY: takes back what was answered since `before` bytes were in `out`, if the client wants none. */
void weir_session_mute(struct session *session, struct buffer *out, size_t before);

enum run_state {
    RUN_READY,   /* all were answered */
    RUN_PENDING, /* the last one is session->pending: weir_service_resume answers it */
    RUN_CLOSE    /* the connection is to be closed once `out` is written */
};

struct run_result {
    size_t done; /* requests that were run, a pending one included */
    enum run_state state;
    bool changed; /* what was answered must not be sent before what this thread has changed is durable */
};

#endif
