/* SPDX-License-Identifier: MIT */
/*
 * weir.h: may n units pass now?
 *
 *   limiter   one thing to limit, shared by any number of threads
 *   table     one limit (or several) for each of many keys, in memory or shared by processes
 *   data      a directory in which tables survive crashes
 *   registry  limiters by name, with named configurations
 *   queue     jobs that leave one by one, evenly (algo=leaky-bucket)
 *   handle    a share of a limiter that one thread spends alone, without clock or lock
 *   policy    the pure core at the end: limits and states without clock, threads or memory of their own
 *
 * Reading a limit: R/P burst=B lets at most B units pass at one instant and R per P in the long run;
 * in any stretch of time t never more than B + R*t/P. Without burst=, B is R.
 *
 * Every question has one shape: it returns true only when the units are yours. Refused, invalid,
 * NULL: all false, and nothing was taken. Pass a verdict to learn why and when, or NULL if the answer
 * is enough. Any thread may call anything except _free.
 *
 * Times are nanoseconds. Each call has a twin that ends in _at and takes the time instead of reading the
 * clock (weir_now). Time counts from 0 to WEIR_TIME_MAX (146 years; for limits above 1 unit a nanosecond that
 * much less) and is clamped to that. A clock that steps back mints nothing: what passes until it has caught
 * up counts at the time before the step; most limits then wait.
 *
 * Coming from elsewhere? tryAcquire is weir_limiter_take, acquirePermission is weir_limiter_acquire,
 * reservePermission is weir_limiter_reserve, setRate and changeLimitForPeriod are weir_limiter_set;
 * libweir(3) has the whole table.
 */
#ifndef WEIR_H
#define WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0
#define WEIR_VERSION       "0.1.0"

#ifndef WEIR_API /* weir.c inside of another library: -DWEIR_API= keeps it inside */
#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif
#endif

#define WEIR_MS         INT64_C(1000000)
#define WEIR_SEC        INT64_C(1000000000)
#define WEIR_FOREVER    INT64_MAX
#define WEIR_TIME_MAX   (INT64_MAX / 2)
#define WEIR_LIMITS_MAX 16 /* limits in one policy */
#define WEIR_NAME_MAX   63 /* bytes of a name= */

enum weir_reason {
    WEIR_OK,       /* allowed */
    WEIR_LATER,    /* refused now; retry_after_ns tells when the same question would pass */
    WEIR_NEVER,    /* refused, and no waiting helps: n is more than the limit can ever hold */
    WEIR_FULL,     /* the queue is full; retry_after_ns tells when it has room */
    WEIR_LOST,     /* the coordinator is away (fleet) */
    WEIR_CANCELED, /* the wait was cancelled */
    WEIR_INVALID,  /* the question made no sense: n below 1, a NULL, a queue of the process before a fork */
    WEIR_SHARED /* as WEIR_LATER, but refused by a limit that all keys share that found no room in a table */
};

/* The answer: 64 bytes, integers only, the same in every language. Of several limits, all numbers are those
 * of one: the one that refused or makes the caller wait, else the one with the least share of its units left.
 * After a wait, remaining, reset_after_ns and behind_ns are those of the moment of asking, when the promise
 * was made. */
struct weir_verdict {
    int32_t allowed;        /* 1 or 0 */
    int32_t reason;         /* enum weir_reason */
    int64_t remaining;      /* units of it that would pass now (smooth, warmup: units saved, if none waits) */
    int64_t retry_after_ns; /* 0 if allowed, WEIR_FOREVER if waiting cannot help */
    int64_t reset_after_ns; /* until waiting gains nothing more: full, empty, or cold */
    int64_t wait_ns;        /* acquire: time slept. reserve: time until due */
    int64_t behind_ns;      /* how far behind schedule the callers are (algo=hybrid) */
    int32_t limit;          /* whose numbers these are: which of several limits decided, from 0 */
    int32_t reserved[3];    /* 0 */
};

/* Filled by every function that takes text. `text` is one finished line, ready to be printed:
 * "5/m brust=10: column 5: unknown option 'brust'; did you mean burst?" */
struct weir_error {
    int32_t code;   /* 0: no error, else an errno value: EINVAL if the text or an argument is wrong, ENOMEM,
                       ENOENT, EEXIST, ENOSPC, EIO, EACCES, EBUSY; a coordinator that is away: EHOSTUNREACH */
    int32_t column; /* where in the text, from 1; 0 if nowhere in particular */
    char text[248];
};

WEIR_API const char *weir_version(void);
/* The name of a reason: "ok", "later", "never", "full", "lost", "canceled", "invalid"; else "unknown". */
WEIR_API const char *weir_reason_name(int32_t reason);

/* ---- clock ------------------------------------------------------------------------------------ */

/* The clock every call without _at reads: nanoseconds since the machine started, suspend included. */
WEIR_API int64_t weir_now(void);

/* For tests of programs: the clock stands at `now_ns` (at most WEIR_TIME_MAX) until it is set again, and
 * whoever waits for a time that has come goes on. Below 0: the real clock again. A program of one thread must
 * not wait on a clock that it has to move itself: reserve instead, or move it from another thread. Threads
 * that sleep while the clock changes between real and set notice it within a second. With fill=thread the
 * pools lag behind a set clock until their thread has noticed, some milliseconds of real time. */
WEIR_API void weir_clock_set(int64_t now_ns);

/* ---- limiter: one thing to limit, any number of threads --------------------------------------- */

struct weir_limiter;
struct weir_spec;

WEIR_API struct weir_limiter *weir_limiter_new(const char *limits, struct weir_error *err); /* or NULL */
WEIR_API struct weir_limiter *weir_limiter_from(const struct weir_spec *specs, size_t count,
                                                struct weir_error *err);
/* Nobody may wait for it or use it any more; a build without NDEBUG stops the program if somebody waits, any
 * other cancels the waits first. */
WEIR_API void weir_limiter_free(struct weir_limiter *limiter);
/* One more owner, who frees it, too: the last one to do so ends it. Gives the limiter. */
WEIR_API struct weir_limiter *weir_limiter_ref(struct weir_limiter *limiter);

/* Live change: spent units stay spent, saved ones stay saved up to the new burst. Threads that wait may go
 * earlier, never later than they were told. Another algorithm starts empty, and not before debts (what was
 * charged beyond the limit) are paid; what is only used up it does not wait for, and `unlimited` waits for
 * nothing. The same limits again change nothing, and reservations stay valid. false: the text is wrong, or
 * out of memory, and nothing has changed.
 *
 * `blocked` is a pause: nothing passes, but limit and state are kept. What is charged counts, give and reset
 * work, handles lose their shares, and the next set goes on from there. A limiter that was made as `blocked`
 * starts fresh with its first limits. */
WEIR_API bool weir_limiter_set(struct weir_limiter *limiter, const char *limits, struct weir_error *err);
WEIR_API bool weir_limiter_set_from(struct weir_limiter *limiter, const struct weir_spec *specs, size_t count,
                                    struct weir_error *err);
/* The limits as canonical text; as snprintf does. */
WEIR_API size_t weir_limiter_text(struct weir_limiter *limiter, char *text, size_t size);

/* Now or not at all. */
WEIR_API bool weir_limiter_take(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict);
/* Take without taking: the same answer, nothing changes. */
WEIR_API bool weir_limiter_peek(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict);

/* Waits for its turn, first come, first served. If that would take longer than `timeout_ns` (below 0: the
 * timeout= of the limit; none: 0) it says no at once. With WEIR_FOREVER it also waits while the limit is
 * `blocked`, until it is set to something else. Signals do not end it, nor does pthread_cancel: it is no
 * cancellation point. */
WEIR_API bool weir_limiter_acquire(struct weir_limiter *limiter, int64_t n, int64_t timeout_ns,
                                   struct weir_verdict *verdict);

/* Ends waits from another thread, or from a signal handler. Starts as { 0 }; may be given to any number of
 * waits; once set, all of them return false with WEIR_CANCELED, at once, until it is cleared. Clear it only
 * when they have returned: set and clear at once may go unnoticed. A wait that is stopped leaves nothing
 * behind, those who wait behind it move up; if they are 256 or more, or something else came in between, it is
 * handed back as weir_limiter_cancel does. */
struct weir_stop {
    uint32_t word;
};
WEIR_API void weir_stop_set(struct weir_stop *stop);
WEIR_API void weir_stop_clear(struct weir_stop *stop);
WEIR_API bool weir_limiter_acquire_unless(struct weir_limiter *limiter, int64_t n, int64_t timeout_ns,
                                          struct weir_stop *stop, struct weir_verdict *verdict);

/* Units that are taken, may be due later, and may still be handed back. Keep it where it is: a copy could be
 * handed back twice. To wait for it in an event loop, set a timer to due_ns (a time of weir_now). */
struct weir_reservation {
    int64_t n, wait_ns, due_ns;
    int64_t before_ns, generation; /* private: the promise before it, and which can be recalled */
    uint64_t ticket;               /* private: where the limit stood after it */
};
/* Promises n units within `timeout_ns` (as in acquire), or changes nothing. `reservation` may be NULL. */
WEIR_API bool weir_limiter_reserve(struct weir_limiter *limiter, int64_t n, int64_t timeout_ns,
                                   struct weir_reservation *reservation, struct weir_verdict *verdict);
/* Hands a reservation back before it is due. true: the promise is off, and what the law leaves comes back:
 * all of it if nothing was promised behind it, else less, or nothing. false: too late, or already handed
 * back, or made before a reset or a live change; the units count as used. */
WEIR_API bool weir_limiter_cancel(struct weir_limiter *limiter, struct weir_reservation *reservation);

/* Hands unused units back: at most what refilling has not already made up for, never above full, and not at
 * all while a promise is outstanding. */
WEIR_API void weir_limiter_give(struct weir_limiter *limiter, int64_t n);
/* It has already happened: count it, even into debt. */
WEIR_API void weir_limiter_charge(struct weir_limiter *limiter, int64_t n);
/* Takes all that is there, but nothing while a promise is outstanding; gives how many units that were.
 * Handles keep their shares. */
WEIR_API int64_t weir_limiter_drain(struct weir_limiter *limiter);
/* As if never used. Promises made before stand, and come on top. */
WEIR_API void weir_limiter_reset(struct weir_limiter *limiter);
/* EngineBlock's restart (algo=hybrid): gives the nanoseconds behind schedule that were discarded. (Its verb
 * "configure": a limiter made so refuses with WEIR_NEVER until it is set with "start", or without a verb.) */
WEIR_API int64_t weir_limiter_restart(struct weir_limiter *limiter);

/* A look at a limiter. */
struct weir_stat {
    int64_t available;       /* units that would pass now */
    int64_t waiting;         /* threads in acquire */
    int64_t wait_ns;         /* until one unit would pass; WEIR_FOREVER: not before something changes */
    int64_t behind_ns;       /* how far behind schedule the callers are (algo=hybrid) */
    int64_t behind_total_ns; /* the same with all that restarts discarded; no change forgets it */
    int64_t handles;         /* open handles that have a share */
    int64_t held;            /* units of the burst that are set aside for them */
    int64_t reserved;        /* 0 */
};
WEIR_API void weir_limiter_stat(struct weir_limiter *limiter, struct weir_stat *stat);

/* A call under a limiter: waits for n units, runs, and drains the limiter if the result says so. */
struct weir_call {
    int64_t (*run)(void *arg);
    void *arg;
    int64_t n;                                   /* units, unless `count` computes them; 0: 1 */
    int64_t (*count)(void *arg);                 /* or NULL */
    bool (*drain_on)(void *arg, int64_t result); /* or NULL */
    int64_t timeout_ns;                          /* as in acquire; 0: now or not at all */
    struct weir_stop *stop;                      /* ends the wait, not the run; or NULL */
    int64_t result;                              /* what run gave */
};
/* false: not run. */
WEIR_API bool weir_limiter_call(struct weir_limiter *limiter, struct weir_call *call,
                                struct weir_verdict *verdict);

/* The twins. acquire_at asks as of `now_ns`, and then waits until weir_now has come to the due time. */
WEIR_API bool weir_limiter_set_at(struct weir_limiter *limiter, int64_t now_ns, const char *limits,
                                  struct weir_error *err);
WEIR_API bool weir_limiter_take_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n,
                                   struct weir_verdict *verdict);
WEIR_API bool weir_limiter_peek_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n,
                                   struct weir_verdict *verdict);
WEIR_API bool weir_limiter_acquire_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n,
                                      int64_t timeout_ns, struct weir_stop *stop,
                                      struct weir_verdict *verdict);
WEIR_API bool weir_limiter_reserve_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n,
                                      int64_t timeout_ns, struct weir_reservation *reservation,
                                      struct weir_verdict *verdict);
WEIR_API bool weir_limiter_cancel_at(struct weir_limiter *limiter, int64_t now_ns,
                                     struct weir_reservation *reservation);
WEIR_API void weir_limiter_give_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n);
WEIR_API void weir_limiter_charge_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n);
WEIR_API int64_t weir_limiter_drain_at(struct weir_limiter *limiter, int64_t now_ns);
WEIR_API void weir_limiter_reset_at(struct weir_limiter *limiter, int64_t now_ns);
WEIR_API int64_t weir_limiter_restart_at(struct weir_limiter *limiter, int64_t now_ns);
WEIR_API void weir_limiter_stat_at(struct weir_limiter *limiter, int64_t now_ns, struct weir_stat *stat);

/* ---- events ----------------------------------------------------------------------------------- */

enum weir_event_kind {
    WEIR_EVENT_SUCCESS, /* n units taken, reserved or acquired */
    WEIR_EVENT_FAILURE, /* n units refused, or their wait cancelled */
    WEIR_EVENT_DRAINED, /* n units drained */
    WEIR_EVENT_ADDED,   /* registry: a limiter */
    WEIR_EVENT_REMOVED,
    WEIR_EVENT_REPLACED
};

struct weir_event {
    int32_t kind;   /* enum weir_event_kind */
    int32_t reason; /* FAILURE: enum weir_reason */
    int64_t n;
    int64_t time_ns;              /* of asking, also if it had to wait */
    const char *name;             /* of the limiter in its registry; "" if it has none */
    struct weir_limiter *limiter; /* valid while the listener runs; weir_limiter_ref keeps it */
};
/* Runs in the thread that caused the event, under no lock: it may call anything, the limiter itself, too;
 * what it causes is told in turn, so it must know when to stop. Questions without sense (a NULL, n below 1)
 * and waits whose stop was set before are told to nobody. */
typedef void weir_listener(void *arg, const struct weir_event *event);

/* false: out of memory, or it listens already. */
WEIR_API bool weir_limiter_listen(struct weir_limiter *limiter, weir_listener *listener, void *arg);
/* An event that is just being told may still arrive. false: it did not listen. */
WEIR_API bool weir_limiter_unlisten(struct weir_limiter *limiter, weir_listener *listener, void *arg);

/* ---- table: limits for each of many keys ------------------------------------------------------ */

/* One limit, or several, for each of any number of keys: users, addresses, tenants. A key is any bytes, also
 * none; a key never seen is one that has been idle for ever, and one that is as if never used may be
 * forgotten to make room. Nothing else ever is: no debt, no spent unit. All memory is taken when the table is
 * made. `initial=`, fill=thread and EngineBlock's verbs are errors here.
 *
 * A single token-bucket, interval, leaky-bucket or smooth limit takes 24 bytes a key, and takes do not wait
 * for each other; other limits, and several on a key, are decided under one of many locks. Any thread may
 * call anything except _free. After a fork the child has a copy of a table in memory; one from a file stays
 * shared.
 */
struct weir_table;

enum weir_when_full {
    WEIR_FULL_SHARE, /* keys that find no room share one key's limits, until there is room again */
    WEIR_FULL_REFUSE /* they are refused, with WEIR_FULL */
};

/* Zero means "the default" everywhere. */
struct weir_table_options {
    size_t keys;    /* how many are to fit at the same time */
    size_t key_max; /* keep keys as they are, up to so many bytes (4096 at the most; up to 16 a single limit
                       needs no lock); longer ones are WEIR_INVALID (default:
                       keep 64 bits of a keyed hash, with which two keys of 10^7 are mistaken for one
                       another with a chance of 3 in a million, and then share a limit) */
    size_t name_bytes;  /* memory for names, so that weir_table_each can tell them (default: none) */
    size_t overrides;   /* most keys with limits of their own (default: 64; at most 65536) */
    int32_t when_full;  /* enum weir_when_full */
    int32_t no_top;     /* 1: weir_table_top is not needed */
    int32_t own_limits; /* 1: limits come with each call: weir_table_take_own; `limits` is then NULL,
                           key_max and name_bytes 0 */
    int32_t mode; /* file mode (default: 0600). 0660: share the file with other users of its group, 0666:
                     with everybody; whoever can write to it controls the processes that use it, whoever
                     can read it can predict hashes */
    int64_t horizon_ns; /* own_limits: longest time a key may need to be full again (default: 31 days) */
    int64_t spare[8];   /* 0 */
};

/* NULL: an error. A table for `keys` keys at the same time. */
WEIR_API struct weir_table *weir_table_new(const char *limits, size_t keys, struct weir_error *err);
/* The same in a file, for all processes of this machine that open it: made if it is not there yet. If it is,
 * other rates or bursts are a live change for everybody; another algorithm or number of limits is an error,
 * and so is a file that is no table, or damaged. `keys` counts when it is made. A process that is killed, at
 * any moment, leaves the others a whole table; one that is stopped delays those who need its lock. /dev/shm
 * is the place for it: elsewhere the kernel writes it to disk. It outlives an orderly reboot, not a power
 * cut. Who shrinks the file while it is open kills all who use it (SIGBUS).
 * Fails with EPERM if the file belongs to another user, or if more users can write to it than `mode` says,
 * and with ELOOP if it is a symbolic link. A process that can write to the file must be trusted: it can
 * change all counts, and the file holds mutexes whose pointers the C library follows. Use a directory that no
 * other user can write to, such as $XDG_RUNTIME_DIR or one with mode 0700. */
WEIR_API struct weir_table *weir_table_open(const char *path, const char *limits, size_t keys,
                                            struct weir_error *err);
/* Both, with options. `path` NULL: in memory. */
WEIR_API struct weir_table *weir_table_make(const char *path, const char *limits,
                                            const struct weir_table_options *options, struct weir_error *err);
WEIR_API void weir_table_free(struct weir_table *table); /* a file stays */

/* Live change for all keys: spent units stay spent. Takes go on meanwhile; the call returns when the last key
 * is converted. Same algorithms, in the same order. false: wrong text, other algorithms, or more than a key
 * has memory for, and nothing has changed. Each change keeps half a
 * kilobyte of the process until the table is freed. */
WEIR_API bool weir_table_set(struct weir_table *table, const char *limits, struct weir_error *err);
/* The limits as canonical text; as snprintf does. */
WEIR_API size_t weir_table_text(struct weir_table *table, char *text, size_t size);

/* The verbs are those of a limiter. */
WEIR_API bool weir_table_take(struct weir_table *table, const void *key, size_t len, int64_t n,
                              struct weir_verdict *verdict);
WEIR_API bool weir_table_peek(struct weir_table *table, const void *key, size_t len, int64_t n,
                              struct weir_verdict *verdict);
WEIR_API bool weir_table_reserve(struct weir_table *table, const void *key, size_t len, int64_t n,
                                 int64_t timeout_ns, struct weir_reservation *reservation,
                                 struct weir_verdict *verdict);
/* Units come back if nothing was promised behind it; else less does, with token buckets nothing. */
WEIR_API bool weir_table_cancel(struct weir_table *table, const void *key, size_t len,
                                struct weir_reservation *reservation);
WEIR_API void weir_table_give(struct weir_table *table, const void *key, size_t len, int64_t n);
/* false: the key is new and the table is full: it was not counted. */
WEIR_API bool weir_table_charge(struct weir_table *table, const void *key, size_t len, int64_t n);
WEIR_API void weir_table_reset(struct weir_table *table, const void *key, size_t len);

/* One limit of a key, as it stands. */
struct weir_limit_state {
    int64_t used, left;     /* units; used is more than all there are if the key is in debt */
    int64_t next_after_ns;  /* until one unit would pass; 0: now; WEIR_FOREVER: never */
    int64_t reset_after_ns; /* until it is as if never used */
    int32_t refuses;        /* 1: one unit would be refused now, by this limit */
    int32_t reserved;       /* 0 */
    char text[128];         /* the limit: its name=, or its text */
};
/* Fills at most `count` elements, one for each limit; gives how many limits there are, 0 on an error. */
WEIR_API size_t weir_table_explain(struct weir_table *table, const void *key, size_t len,
                                   struct weir_limit_state *limits, size_t count);

/* Several keys at once. */
struct weir_ask {
    struct weir_table *table;
    const void *key;
    size_t len;
    int64_t n;
    struct weir_verdict verdict;
    int64_t spare[2]; /* 0 */
};
/* Each for itself, as weir_table_take, but the memory of all is fetched first; gives how many passed. */
WEIR_API size_t weir_take_each(struct weir_ask *asks, size_t count);
/* All of them or none; none is true; at most WEIR_ALL_MAX, of any tables but those with own_limits. Asks for
 * the same key are added up. Refused: nothing is charged or counted, nobody else is refused because of it,
 * and no verdict says allowed; those that would have passed alone have the reason WEIR_OK, the others say why
 * and when. Who is killed meanwhile has taken all or nothing of each table; of several files perhaps of some
 * only, and then those units are lost. */
#define WEIR_ALL_MAX 16
WEIR_API bool weir_take_all(struct weir_ask *asks, size_t count);
/* Which of them decided: the refusing one with the longest wait; `count` if all passed. */
WEIR_API size_t weir_ask_refusing(const struct weir_ask *asks, size_t count);

/* Limits of its own for a key, of any algorithm, until they are taken away (limits NULL). A key that is as if
 * never used has their whole burst; else what was spent stays spent, as in a live change of a limiter: so
 * another algorithm, or one limit more, starts empty. The table's own changes leave such a key alone. false:
 * wrong text, limits that remember more than 64 numbers, as a sliding-log of more than 60 does, no room for
 * the key, or too many such keys; nothing has changed then. */
WEIR_API bool weir_table_override(struct weir_table *table, const void *key, size_t len, const char *limits,
                                  struct weir_error *err);
/* As snprintf does. 0: none. */
WEIR_API size_t weir_table_override_text(struct weir_table *table, const void *key, size_t len, char *text,
                                         size_t size);

/* Shows the keys that are in the table, those that could be forgotten left out. Takes go on meanwhile: what
 * comes or goes while it runs may be shown or not; a key that goes and comes back may be shown twice. false:
 * the callback gave false, which ends it. */
struct weir_key {
    uint64_t id;     /* what the table keeps of a key: its keyed hash */
    const void *key; /* NULL: not known (see key_max and name_bytes) */
    size_t len;
    struct weir_verdict verdict; /* of a peek for one unit; own_limits: only reset_after_ns is known */
    int32_t overridden;          /* 1: it has limits of its own */
    int32_t reserved[7];         /* 0 */
};
typedef bool weir_each_key(void *arg, const struct weir_key *key);
WEIR_API bool weir_table_each(struct weir_table *table, weir_each_key *each, void *arg);

/* Looks at the next so many slots and clears those that could be forgotten; gives how many. Nobody has to
 * call it: new keys take such slots, too. */
WEIR_API size_t weir_table_sweep(struct weir_table *table, size_t slots);
/* Room for `keys` keys in all, beside what is there; takes go on meanwhile. A table that has grown is slower
 * than one that was made large. At most 63 times, in a file 7 times. */
WEIR_API bool weir_table_grow(struct weir_table *table, size_t keys, struct weir_error *err);

struct weir_table_info {
    int64_t keys;        /* that cannot be forgotten now; an estimate if there are more than 65536 slots */
    int64_t capacity;    /* the keys it was made for, and grown to */
    int64_t slots;       /* places for them */
    int64_t bytes;       /* of memory, all in all */
    int64_t shared;      /* takes that found the table full: shared one limit, */
    int64_t refused;     /* or were refused */
    int64_t overrides;   /* keys with limits of their own */
    int64_t changes;     /* live changes so far */
    int64_t names_lost;  /* names that found no room (name_bytes) */
    int32_t nearly_full; /* 1: keys is 80 % of capacity, or more */
    int32_t huge_pages;  /* 1: its memory was asked for in huge pages */
    int64_t reserved[5]; /* 0 */
};
WEIR_API void weir_table_stat(struct weir_table *table, struct weir_table_info *stat);

/* The keys that took most, or were refused most, the first first; gives how many. Counted on a sample of the
 * calls, fading by half every minute: who takes r a minute shows r to 2 r. Names are cut to 127 bytes. */
enum weir_top { WEIR_TOP_TAKEN, WEIR_TOP_REFUSED };
struct weir_top_key {
    uint64_t id;
    int64_t units;    /* estimate */
    uint32_t len;     /* of the whole key */
    char name[128];   /* its first bytes, and a NUL */
    int32_t reserved; /* 0 */
};
WEIR_API size_t weir_table_top(struct weir_table *table, enum weir_top by, struct weir_top_key *keys,
                               size_t count);

/* A key of an IP address, as snprintf does: its first v4_bits of 32, or v6_bits of 128, so that all addresses
 * of a network share a key: "192.0.2.0/24", "2001:db8:1:2::/64"; without the length if that is all of it.
 * ::ffff:192.0.2.7 is 192.0.2.7; a port and brackets are left out. 0: it is no address, or no such number of
 * bits. With several of them in weir_take_all, a network has limits beside those of its addresses. */
#define WEIR_ADDRESS_KEY_MAX 52 /* bytes that are enough, with the NUL */
WEIR_API size_t weir_address_key(const char *text, size_t len, int v4_bits, int v6_bits, char *key,
                                 size_t size);

/* A table with own_limits: each call brings its token bucket along, for servers whose clients name the limit.
 * A key that is asked for under another limit than before keeps the time at which it is full again. Units
 * cost whole nanoseconds: a limit may be slower by a millionth than it says, and above 1000/s each call may
 * cost up to a nanosecond more. A limit that needs longer than horizon_ns to fill its burst is WEIR_INVALID,
 * and so are all other verbs here, but for a reset. */
struct weir_own_limit {
    int64_t count, period_ns, burst;
};
WEIR_API bool weir_table_take_own(struct weir_table *table, const void *key, size_t len,
                                  const struct weir_own_limit *limit, int64_t n,
                                  struct weir_verdict *verdict);
WEIR_API bool weir_table_peek_own(struct weir_table *table, const void *key, size_t len,
                                  const struct weir_own_limit *limit, int64_t n,
                                  struct weir_verdict *verdict);
/* Gives back n units, also none, as much of them as the key still owes: it is full again earlier by what they
 * cost, but not before now. The verdict is that of somebody who takes nothing afterwards; so n 0 tells how a
 * key stands. false: it owes more than this limit's burst even then, or WEIR_INVALID. */
WEIR_API bool weir_table_give_own(struct weir_table *table, const void *key, size_t len,
                                  const struct weir_own_limit *limit, int64_t n,
                                  struct weir_verdict *verdict);

/* The twins. Times are those of weir_now. */
WEIR_API bool weir_table_set_at(struct weir_table *table, int64_t now_ns, const char *limits,
                                struct weir_error *err);
WEIR_API bool weir_table_take_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                                 int64_t n, struct weir_verdict *verdict);
WEIR_API bool weir_table_peek_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                                 int64_t n, struct weir_verdict *verdict);
WEIR_API bool weir_table_reserve_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                                    int64_t n, int64_t timeout_ns, struct weir_reservation *reservation,
                                    struct weir_verdict *verdict);
WEIR_API bool weir_table_cancel_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                                   struct weir_reservation *reservation);
WEIR_API void weir_table_give_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                                 int64_t n);
WEIR_API bool weir_table_charge_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                                   int64_t n);
WEIR_API void weir_table_reset_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len);
WEIR_API size_t weir_table_explain_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                                      struct weir_limit_state *limits, size_t count);
WEIR_API size_t weir_take_each_at(struct weir_ask *asks, size_t count, int64_t now_ns);
WEIR_API bool weir_take_all_at(struct weir_ask *asks, size_t count, int64_t now_ns);
WEIR_API bool weir_table_override_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                                     const char *limits, struct weir_error *err);
WEIR_API bool weir_table_each_at(struct weir_table *table, int64_t now_ns, weir_each_key *each, void *arg);
WEIR_API size_t weir_table_sweep_at(struct weir_table *table, int64_t now_ns, size_t slots);
WEIR_API void weir_table_stat_at(struct weir_table *table, int64_t now_ns, struct weir_table_info *stat);
WEIR_API size_t weir_table_top_at(struct weir_table *table, int64_t now_ns, enum weir_top by,
                                  struct weir_top_key *keys, size_t count);
WEIR_API bool weir_table_take_own_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                                     const struct weir_own_limit *limit, int64_t n,
                                     struct weir_verdict *verdict);
WEIR_API bool weir_table_peek_own_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                                     const struct weir_own_limit *limit, int64_t n,
                                     struct weir_verdict *verdict);
WEIR_API bool weir_table_give_own_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                                     const struct weir_own_limit *limit, int64_t n,
                                     struct weir_verdict *verdict);

/* ---- data: tables that survive ---------------------------------------------------------------- */

/* A directory that keeps tables of one process: a log of what has changed, and images of all of it, written
 * by two threads of its own. Tables are in memory as any other, as fast, and have the same verbs.
 *
 * What a thread was answered is safe once it has called weir_data_commit: so it takes, for one request or for
 * many, commits once, and then lets its answers out. "Safe" is, after the process was killed at any moment:
 * all of it (with WEIR_RECOVER_EXACT). After a power cut: all of it (WEIR_SYNC_ALWAYS), all but the last
 * second of commits (WEIR_SYNC_EVERYSEC), whatever the kernel has written (WEIR_SYNC_NEVER). Refusals need no
 * commit.
 *
 * Any thread may call anything except _close. After a fork the parent has the data, and the child copies of
 * the tables that nobody keeps. Not for tables in files (weir_table_open).
 */
struct weir_data;

enum weir_sync { WEIR_SYNC_EVERYSEC, WEIR_SYNC_ALWAYS, WEIR_SYNC_NEVER };

/* What keys have spent if something may be missing: if files are damaged, and after a power cut, or a kill,
 * that is not told from one unless it is WEIR_SYNC_ALWAYS. */
enum weir_recover {
    WEIR_RECOVER_EXACT,     /* what is still known */
    WEIR_RECOVER_FLOOR,     /* everything: all keys are empty, and refill from then on. Nothing is minted */
    WEIR_RECOVER_OPTIMISTIC /* nothing: all keys are as if never used */
};

/* Zero means "the default" everywhere. */
struct weir_data_options {
    int32_t sync;            /* enum weir_sync */
    int32_t recover;         /* enum weir_recover */
    int64_t image_log_bytes; /* an image is made when the log is longer than this (default: 64 MiB) and than
                                the last image, */
    int64_t image_age_ns;    /* or this old (default: 15 minutes) */
    int64_t spare[8];        /* 0 */
};

/* NULL: an error, such as another process that has it open. A directory that is not there is made; one that
 * is there must be empty, or one of these. After a loss it opens, too: weir_data_stat tells. */
WEIR_API struct weir_data *weir_data_open(const char *path, const struct weir_data_options *options,
                                          struct weir_error *err);
/* All that was answered is on the disk, also of threads that have not committed; false: it is not, and `err`
 * says why. Frees everything, the tables, too: every other thread that has changed one has committed since,
 * or ended. */
WEIR_API bool weir_data_close(struct weir_data *data, struct weir_error *err);

/* The table of that name (1 to 63 bytes), with all its keys; made if there is none. `limits` that differ from
 * what it had are a live change (see weir_table_set, which works as well; NULL: as they are); another
 * algorithm or number of limits is an error. `options` (NULL: room for 100 000 keys) count when it is made.
 * It belongs to the data: weir_table_free leaves it alone. Tables that nobody asks for stay in the directory,
 * and in memory. */
WEIR_API struct weir_table *weir_data_table(struct weir_data *data, const char *name, const char *limits,
                                            const struct weir_table_options *options, struct weir_error *err);
/* It will not be there when the directory is opened next. Its memory goes at the end; the name is free. */
WEIR_API bool weir_data_forget(struct weir_data *data, const char *name, struct weir_error *err);
/* Shows all tables; calls nothing else of this data meanwhile. false: the callback gave false, which ends it.
 */
typedef bool weir_each_table(void *arg, const char *name, struct weir_table *table);
WEIR_API bool weir_data_each(struct weir_data *data, weir_each_table *each, void *arg);

/* What this thread was answered so far, by tables of this data, is safe. Waits for the disk, if it must, at
 * most `timeout_ns` (0: not at all). false: it may get lost; nothing is taken back, and a later commit that
 * is true covers it, too. While weir_data_stat says `ill`, it is better to refuse. */
WEIR_API bool weir_data_commit(struct weir_data *data, int64_t timeout_ns);

/* An image, now: the next start is faster. */
WEIR_API bool weir_data_image(struct weir_data *data, struct weir_error *err);
/* A copy that can be opened by itself, PATH/backups/NAME, while everything goes on. */
WEIR_API bool weir_data_backup(struct weir_data *data, const char *name, struct weir_error *err);

struct weir_data_info {
    /* What was found when it was opened. */
    int32_t fresh;      /* 1: nothing */
    int32_t clean;      /* 1: it was closed in order, and all of it is there */
    int32_t lost;       /* 1: something is missing, or damaged, that was on the disk */
    int32_t unsure;     /* 1: something that was answered may be missing */
    int64_t records;    /* that were read */
    int64_t elapsed_ns; /* since it was last used, as far as clocks tell */
    char found[400];    /* the worst of it, in a sentence; "" */
    /* What is now. */
    int32_t ill;         /* 1: the disk does not take anything; it is tried again by itself */
    int32_t slow;        /* 1: the disk is behind, commits wait */
    int64_t log_bytes;   /* behind the last image */
    int64_t image_bytes; /* of the last image */
    int64_t images, faults, syncs;
    int64_t unsynced_ns; /* age of the oldest change that is not on the disk; 0: all are */
    char error[160];     /* of the last fault; "" */
    int64_t reserved[8]; /* 0 */
};
WEIR_API void weir_data_stat(struct weir_data *data, struct weir_data_info *stat);

/* ---- registry: limiters by name --------------------------------------------------------------- */

#define WEIR_REGISTRY_MAX      1048576 /* limiters in one registry, and configurations */
#define WEIR_REGISTRY_NAME_MAX 255     /* bytes of a name */
#define WEIR_TAG_MAX           255     /* bytes of the key of a tag, and of its value */
#define WEIR_TAGS_MAX          32      /* tags of a limiter, and of the registry itself */

/* Limiters by name, made where they are first asked for. Names are any bytes but NUL, at least one. A limiter
 * from here is counted by reference: the registry has one and you have one, which weir_limiter_free drops. So
 * what is removed or replaced, or was in a registry that is freed, lives on for those who have it. A lookup
 * takes a lock and costs more than a take: keep the limiter. For a limit on each of many users a registry is
 * the wrong place: it forgets nobody. */
struct weir_registry;

/* `default_limits` is the configuration "default": what a limiter gets if nothing else is said. */
WEIR_API struct weir_registry *weir_registry_new(const char *default_limits, struct weir_error *err);
WEIR_API void weir_registry_free(struct weir_registry *registry);

/* A configuration is limits under a name, for limiters made from now on; it takes the place of an older one
 * of that name. "default" is reserved. */
WEIR_API bool weir_registry_configure(struct weir_registry *registry, const char *name, const char *limits,
                                      struct weir_error *err);
WEIR_API bool weir_registry_configure_from(struct weir_registry *registry, const char *name,
                                           const struct weir_spec *specs, size_t count,
                                           struct weir_error *err);
/* false: there is none of that name, or it is "default". Limiters made from it stay as they are. */
WEIR_API bool weir_registry_unconfigure(struct weir_registry *registry, const char *name);
/* Its limits as canonical text; as snprintf does. 0: there is none, or no text says it (WEIR_SHAPE_OWN). */
WEIR_API size_t weir_registry_configuration(struct weir_registry *registry, const char *name, char *text,
                                            size_t size);

/* The limiter of that name, or a new one: from the configuration called `config` (NULL: "default"), or from
 * `config` as limits if there is none. A limiter that exists is given as it is, whatever `config` says.
 * Threads that ask for the same name at once get the same limiter. NULL: an error. */
WEIR_API struct weir_limiter *weir_registry_limiter(struct weir_registry *registry, const char *name,
                                                    const char *config, struct weir_error *err);
/* NULL: there is none of that name. */
WEIR_API struct weir_limiter *weir_registry_find(struct weir_registry *registry, const char *name);
/* false: there is none of that name. */
WEIR_API bool weir_registry_remove(struct weir_registry *registry, const char *name);
/* A new limiter takes the place of one that exists, and begins anew; tags stay. To change a limit for those
 * who use it, and to keep what was spent, call weir_limiter_set instead. */
WEIR_API bool weir_registry_replace(struct weir_registry *registry, const char *name, const char *config,
                                    struct weir_error *err);

/* Shows the limiters that are there now, in the order of their names' bytes, under no lock: the callback may
 * change the registry. Each is valid while it is shown; no reference to drop. false: the callback gave false,
 * which ends it, or out of memory, and none was shown. */
typedef bool weir_each_limiter(void *arg, const char *name, struct weir_limiter *limiter);
WEIR_API bool weir_registry_each(struct weir_registry *registry, weir_each_limiter *each, void *arg);
WEIR_API size_t weir_registry_count(struct weir_registry *registry);

/* Tags: pairs of key and value, of a limiter, or with the name NULL of the registry, whose tags all its
 * limiters inherit; of two with the same key the limiter's own counts. They belong to the name: gone when it
 * is removed, kept when it is replaced. Setting one again changes it. */
WEIR_API bool weir_registry_tag(struct weir_registry *registry, const char *name, const char *key,
                                const char *value, struct weir_error *err);
/* false: it has no such tag of its own. */
WEIR_API bool weir_registry_untag(struct weir_registry *registry, const char *name, const char *key);
/* As snprintf does. 0: no such tag. */
WEIR_API size_t weir_registry_tag_value(struct weir_registry *registry, const char *name, const char *key,
                                        char *value, size_t size);
/* All that count, in the order of their keys, under no lock. false: the callback gave false, which ends it,
 * or there is no such limiter. */
typedef bool weir_each_tag(void *arg, const char *key, const char *value);
WEIR_API bool weir_registry_tags(struct weir_registry *registry, const char *name, weir_each_tag *each,
                                 void *arg);

/* WEIR_EVENT_ADDED, _REMOVED and _REPLACED (with the new limiter); n is 0. To hear also what limiters decide,
 * call weir_limiter_listen on ADDED and REPLACED: other threads may use the limiter already. Events of two
 * threads may arrive in either order. weir_registry_free tells nothing. */
WEIR_API bool weir_registry_listen(struct weir_registry *registry, weir_listener *listener, void *arg);
WEIR_API bool weir_registry_unlisten(struct weir_registry *registry, weir_listener *listener, void *arg);

/* ---- handle: a share of a limiter for one thread ---------------------------------------------- */

/* Spends from a share of `chunk` units that it takes from the limiter at once, so that most takes read no
 * clock and touch nothing shared. The law holds across all handles: the limiter's burst is lower by the chunk
 * while the handle is open, and a refusal through one handle does not mean that nothing is left in another. A
 * limit other than one token-bucket, or a burst that leaves no room, has no shares: then every take asks the
 * limiter, and weir_handle_chunk is 0. Opening and freeing leave reservations valid. Of one thread at a time;
 * valid in a forked child. */
struct weir_handle;
WEIR_API struct weir_handle *weir_handle_new(struct weir_limiter *limiter, int64_t chunk,
                                             struct weir_error *err);
WEIR_API bool weir_handle_take(struct weir_handle *handle, int64_t n, struct weir_verdict *verdict);
WEIR_API int64_t weir_handle_chunk(const struct weir_handle *handle);
/* Before its limiter. What it had left goes back; without memory nothing does, and the burst stays lower
 * until the next weir_limiter_set. */
WEIR_API void weir_handle_free(struct weir_handle *handle);

/* ---- queue: jobs that leave evenly ------------------------------------------------------------ */

/* A FIFO of jobs under one algo=leaky-bucket limit: one unit leaves every period/count. A job is discarded
 * with WEIR_FULL if more than queue= units would wait, or if it would wait, or has waited, longer than age=.
 */
struct weir_queue;

/* verdict->allowed: its turn has come; else it was discarded, and verdict->reason says why. Runs under no
 * lock. */
typedef void weir_job(void *arg, const struct weir_verdict *verdict);

enum weir_queue_by {
    WEIR_QUEUE_THREAD,
    WEIR_QUEUE_LOOP
}; /* jobs run in a thread of its own, or in weir_queue_run */
enum weir_queue_end {
    WEIR_QUEUE_DRAIN,
    WEIR_QUEUE_DROP
}; /* at the end the rest leaves evenly, or is cancelled */

WEIR_API struct weir_queue *weir_queue_new(const char *limit, enum weir_queue_by by, struct weir_error *err);
/* false: discarded at once, the job is not called. wait_ns is the time until its turn, if jobs leave on time.
 * In loop mode a put wakes nobody: wake your loop. */
WEIR_API bool weir_queue_put(struct weir_queue *queue, int64_t n, weir_job *job, void *arg,
                             struct weir_verdict *verdict);
/* Discards what is too old and lets at most one job leave; gives the time to call again, WEIR_FOREVER if
 * nothing waits or another thread runs it. */
WEIR_API int64_t weir_queue_run(struct weir_queue *queue);
WEIR_API int64_t weir_queue_length(struct weir_queue *queue); /* units that wait */
/* The last call. Waits for a job that runs; from inside a job it returns at once, and the rest happens after
 * that job: with WEIR_QUEUE_LOOP inside the weir_queue_run that called it, which with WEIR_QUEUE_DRAIN
 * returns only when all have left. A forked child may only free: put refuses there (WEIR_INVALID), and
 * nothing runs. */
WEIR_API void weir_queue_free(struct weir_queue *queue, enum weir_queue_end end);

WEIR_API bool weir_queue_put_at(struct weir_queue *queue, int64_t now_ns, int64_t n, weir_job *job, void *arg,
                                struct weir_verdict *verdict);
WEIR_API int64_t weir_queue_run_at(struct weir_queue *queue, int64_t now_ns);

/* ---- spec: a limit as a person writes it ------------------------------------------------------ */

enum weir_algo {
    WEIR_TOKEN_BUCKET,   /* lazily, gradually refilled; the default */
    WEIR_INTERVAL,       /* at least period/count between two */
    WEIR_LEAKY_BUCKET,   /* a FIFO that drains evenly */
    WEIR_SMOOTH,         /* the next caller pays; a large n starts at once */
    WEIR_WARMUP,         /* smooth, but saved units cost more (or less) than fresh ones */
    WEIR_HYBRID,         /* three pools; catches up after a stall at `ratio` times the rate */
    WEIR_FIXED_WINDOW,   /* a counter that starts anew every period */
    WEIR_SLIDING_WINDOW, /* two counters, the previous one weighted */
    WEIR_SLIDING_LOG,    /* never more than count in any period, exactly */
    WEIR_STEP,           /* count units added every period, in steps */
    WEIR_UNLIMITED,
    WEIR_BLOCKED,
    WEIR_QUOTA /* a total per window, which a fleet may share (weir-fleet.h); alone as fixed-window */
};

enum weir_shape { WEIR_SHAPE_ABOVE, WEIR_SHAPE_BELOW, WEIR_SHAPE_OWN };
enum weir_refused { WEIR_REFUSED_IGNORE, WEIR_REFUSED_COUNT, WEIR_REFUSED_DRAIN };
enum weir_fill { WEIR_FILL_CALLERS, WEIR_FILL_THREAD };
enum weir_verb { WEIR_VERB_NONE, WEIR_VERB_START, WEIR_VERB_CONFIGURE, WEIR_VERB_RESTART };

/* How long, in nanoseconds, it takes to spend `n` of `stored` saved units (n <= stored). Must be
 * additive: f(s, a+b) = f(s, a) + f(s-a, b). What is not a number, or negative, costs as fresh. */
typedef double weir_stored_wait(void *arg, double stored, double n);

/* What the text says. Zero means "the default" unless noted, so { .count = 100, .period_ns = WEIR_SEC } is
 * 100/s. */
struct weir_spec {
    int32_t algo;             /* enum weir_algo */
    int32_t shape;            /* warmup: enum weir_shape */
    int32_t refused;          /* windows, sliding-log: IGNORE, COUNT; step: IGNORE, DRAIN */
    int32_t fill;             /* hybrid: enum weir_fill */
    int32_t strict;           /* step: 1: a take that leaves nothing restarts the period */
    int32_t verb;             /* EngineBlock's order to the limiter; not part of the limit */
    int32_t initial_given;    /* 1: `initial` counts even if 0 */
    int32_t reserved;         /* 0 */
    int64_t count, period_ns; /* count units per period; both 1 or more */
    int64_t burst;            /* most units at one instant (default: count; smooth: 1 s of rate) */
    int64_t initial;          /* units at the start (default: burst; smooth: 0) */
    int64_t timeout_ns;       /* the wait that acquire and reserve accept if they are not told */
    int64_t warmup_ns;        /* warmup: time from cold to warm */
    int64_t cold_ppm;         /* warmup: cold factor in millionths (default: 3 000 000) */
    int64_t ratio_ppm;        /* hybrid: burst ratio in millionths (default: 1 100 000) */
    int64_t pool_ns;          /* hybrid: size of the active pool (default: one op, at least 1 ms) */
    int64_t queue;            /* leaky-bucket: most units waiting (default: count) */
    int64_t age_ns;           /* leaky-bucket: longest wait in the queue (default: no bound) */
    weir_stored_wait *own;    /* warmup with WEIR_SHAPE_OWN: not expressible in text */
    void *own_arg;
    char name[WEIR_NAME_MAX + 1]; /* shown in verdicts and headers; "" if none; no two alike in a policy */
    int64_t spare[6];             /* 0 */
};

/* Reads a comma list of limits into `specs`; gives their number, 0 on error. */
WEIR_API size_t weir_spec_parse(const char *text, struct weir_spec *specs, size_t capacity,
                                struct weir_error *err);

/* Reads EngineBlock's "rate[,ratio[,verb]]", also with "cyclerate=" in front; here a bare number is a
 * rate per second. */
WEIR_API bool weir_spec_from_engineblock(const char *text, struct weir_spec *spec, struct weir_error *err);

/* Writes the canonical text, as snprintf does: gives the length it needs, writes at most size - 1
 * bytes and a NUL. 0 if a spec is invalid. weir_spec_parse of it gives the same specs back, without verbs. */
WEIR_API size_t weir_spec_format(const struct weir_spec *specs, size_t count, char *text, size_t size);

/* ---- policy: limits made ready for arithmetic ------------------------------------------------- */

/* From here on everything is pure: no clock is read, no memory is taken except by _new and _from, nothing is
 * shared. A policy never changes and may be shared by any number of threads; a state is plain memory of
 * yours, without pointers inside, and belongs to one thread at a time. */

struct weir_policy; /* immutable; any thread */

WEIR_API struct weir_policy *weir_policy_new(const char *limits, struct weir_error *err); /* or NULL */
WEIR_API struct weir_policy *weir_policy_from(const struct weir_spec *specs, size_t count,
                                              struct weir_error *err);
WEIR_API void weir_policy_free(struct weir_policy *policy);
WEIR_API size_t weir_policy_count(const struct weir_policy *policy); /* how many limits */
WEIR_API const struct weir_spec *weir_policy_spec(const struct weir_policy *policy, size_t index);

/* The law as a number: the most units, taken one by one, that limit `index` lets pass in any stretch
 * of `span_ns` (both ends included; sliding-log: without the last). WEIR_FOREVER if there is no bound. */
WEIR_API int64_t weir_policy_most(const struct weir_policy *policy, size_t index, int64_t span_ns);

/* ---- state: what evolves ---------------------------------------------------------------------- */

/* A state is weir_policy_state_size bytes, a multiple of 8 and aligned to 8. */
WEIR_API size_t weir_policy_state_size(const struct weir_policy *policy);
WEIR_API void weir_state_init(const struct weir_policy *policy, void *state, int64_t now_ns);

/* Now or not at all. */
WEIR_API bool weir_state_take(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n,
                              struct weir_verdict *verdict);
/* Take without taking: the same answer, nothing changes. */
WEIR_API bool weir_state_peek(const struct weir_policy *policy, const void *state, int64_t now_ns, int64_t n,
                              struct weir_verdict *verdict);

/* Promises n units within `timeout_ns`, or changes nothing; below 0 the shortest timeout= of the limits
 * counts (none: 0). `reservations` has an element for each limit of the policy (weir_policy_count), or is
 * NULL if the units will not be handed back; all have the same due time. In the verdict, retry_after_ns
 * says when the same question, with the same timeout, would pass. */
WEIR_API bool weir_state_reserve(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n,
                                 int64_t timeout_ns, struct weir_reservation *reservations,
                                 struct weir_verdict *verdict);
/* Hands a reservation back before it is due. true: the promise is off. How much comes back is what the law
 * leaves: all of it if nothing was promised behind it, else less, or nothing. fixed-window, sliding-window,
 * step and hybrid have moved on to the promised time and stay there; sliding-log may count a little more.
 * false: nothing changes, because it is too late (what is due at once is not handed back but given), or
 * handed back already, or made before a reset, a restart or a live change. */
WEIR_API bool weir_state_cancel(const struct weir_policy *policy, void *state, int64_t now_ns,
                                struct weir_reservation *reservations);

/* Hands unused units back: never above full, and not at all while a promise is outstanding. */
WEIR_API void weir_state_give(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n);
/* It has already happened: count it, even into debt. */
WEIR_API void weir_state_charge(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n);
/* Takes all that is there (nothing, while a promise is outstanding); gives how many units that were (the
 * least of the limits). Forgives no debt. */
WEIR_API int64_t weir_state_drain(const struct weir_policy *policy, void *state, int64_t now_ns);
/* As if never used. Promises made before stand, and come on top. */
WEIR_API void weir_state_reset(const struct weir_policy *policy, void *state, int64_t now_ns);

/* Live change: fills `to` (a state of the policy `next`) from `from`. Spent units stay spent, saved
 * units stay saved up to the new burst, debts and promises are kept (smooth and warmup keep the time of the
 * next start, hybrid the time in its pools, sliding-log its times). Limits are matched by name, then by
 * algorithm and period, then by algorithm; one without a match starts empty (a bucket without units, a window
 * that is used up, smooth with nothing saved, warmup cold: those two start at once), and not before those
 * that have no successor would be out of debt (`unlimited` waits for nothing). `from` and `to` must not
 * overlap. */
WEIR_API void weir_state_change(const struct weir_policy *policy, const void *from,
                                const struct weir_policy *next, void *to, int64_t now_ns);

/* EngineBlock's restart (algo=hybrid): empties the pools, but forgives no debt; gives the nanoseconds behind
 * schedule that were discarded; they stay in weir_state_behind. Other algorithms: 0, nothing changes. */
WEIR_API int64_t weir_state_restart(const struct weir_policy *policy, void *state, int64_t now_ns);
/* All time the callers were behind schedule, across restarts and changes (algo=hybrid, else 0). */
WEIR_API int64_t weir_state_behind(const struct weir_policy *policy, const void *state, int64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
