/* SPDX-License-Identifier: MIT */
/*
 * Slow and obvious models of every algorithm, and of a policy of several. They are written to be believed,
 * not to be fast: in other terms than the library, in 128-bit integers, with searches in place of formulas.
 *
 * A model reads the compiled numbers of a limit (ticks, sizes), because the compiled limit is what a state
 * is exact to, and none of its functions.
 */
#ifndef WEIR_TESTS_MODEL_MODEL_H
#define WEIR_TESTS_MODEL_MODEL_H

#include "core/limit.h"

#define MODEL_EVENTS 512 /* more than one sequence has */

struct model;

/* What a model keeps of a reservation, for each limit. */
struct model_promise {
    int64_t n, wait, due, before, age;
    weir_i128 mark; /* where the limit stood after it */
    int64_t number; /* how many had been promised before it and not been undone, and this one */
};

struct machine {
    void (*init)(struct model *model, int64_t now);
    int64_t (*due)(const struct model *model, int64_t now, int64_t n);
    weir_i128 (*enter)(struct model *model, int64_t now, int64_t n);
    /* The same for units that wait for `due`; NULL: as `enter`. */
    weir_i128 (*promise)(struct model *model, int64_t due, int64_t n);
    int64_t (*open)(const struct model *model, int64_t now, int64_t n, int64_t due);
    void (*refuse)(struct model *model, int64_t now, int64_t n);
    /* `promised`: the time of the latest promise. Gives true if nothing came after this one. */
    bool (*cancel)(struct model *model, const struct model_promise *promise, int64_t promised);
    void (*give)(struct model *model, int64_t now, int64_t n);
    void (*charge)(struct model *model, int64_t now, int64_t n);
    void (*drain)(struct model *model, int64_t now);
    void (*change)(struct model *model, const struct limit *next, int64_t now);
    int64_t (*remaining)(const struct model *model, int64_t now);
    int64_t (*fresh)(const struct model *model, int64_t now);
};

enum model_event_kind { MODEL_TAKE, MODEL_PROMISE, MODEL_CHARGE, MODEL_GIVE, MODEL_DRAIN, MODEL_CANCEL };

struct model_event {
    enum model_event_kind kind;
    int64_t time;
    weir_i128 ticks;
};

struct model {
    const struct machine *machine;
    const struct limit *limit;
    union {
        struct { /* everything that ever happened, from a level at a time on */
            weir_i128 level;
            int64_t start;
            struct model_event events[MODEL_EVENTS];
            size_t count;
        } bucket;
        struct { /* work in front of the server, as of a tick */
            weir_i128 backlog, last;
        } queue;
        struct { /* Guava's words: permits stored, and the tick at which the next caller may start */
            weir_i128 stored, next;
        } smooth;
        struct {
            long double stored, cost; /* cost: of the last take, for the tolerance */
            int64_t next;
        } warmup;
        struct { /* EngineBlock's words */
            weir_i128 active, waiting, last, carry, history;
            bool started;
        } hybrid;
        struct { /* units of each window that had any */
            int64_t window[MODEL_EVENTS];
            weir_i128 units[MODEL_EVENTS];
            size_t count;
        } windows;
        struct {
            int64_t window, present, previous, refused;
        } sliding;
        struct { /* the times of the last `count` units, oldest first */
            int64_t *times;
            int64_t length;
        } log;
        struct {
            weir_i128 units;
            int64_t next; /* time of the next step */
        } step;
    } u;
};

extern const struct machine model_token_bucket, model_leaky_bucket, model_smooth, model_warmup, model_hybrid,
    model_fixed_window, model_sliding_window, model_sliding_log, model_step, model_unlimited, model_blocked;

/* ---- what the models share ---- */

/* v(t), from the rate of the compiled limit. */
weir_i128 model_tick(const struct limit *limit, int64_t time);
/* The first tick that the nanosecond before `due` does not have: no promise for `due` is earlier. */
weir_i128 model_promise_tick(const struct limit *limit, int64_t due);
/* The first time from `from` on at which `tick` is reached, found by bisection. */
int64_t model_when(const struct limit *limit, weir_i128 tick, int64_t from);
weir_i128 model_div_up(weir_i128 a, weir_i128 b);

static inline weir_i128 model_min(weir_i128 a, weir_i128 b)
{
    return a < b ? a : b;
}

static inline weir_i128 model_max(weir_i128 a, weir_i128 b)
{
    return a > b ? a : b;
}

/* ---- hybrid and warmup alone ---- */

int64_t model_hybrid_behind(const struct model *model, int64_t now);
int64_t model_hybrid_total(const struct model *model, int64_t now);
int64_t model_hybrid_restart(struct model *model, int64_t now);

/* Compares with the words of a state, which count in doubles, and takes them over if they are within the
 * stated tolerance of the model; else gives false. */
bool model_warmup_adopt(struct model *model, const int64_t *words);

/* ---- the models of one word ---- */

/* The tick at which the level is 0, of a bucket; and puts it there. */
weir_i128 model_bucket_position(const struct model *model);
void model_bucket_put(struct model *model, weir_i128 position, int64_t now);

/* ---- a policy ---- */

#define MODEL_LIMITS 4

/*
 * A limiter does as a state does, with two exceptions. What is taken back from a state of more than one word:
 * the last promise, if nothing has happened since, is undone exactly (model_keep, model_restore); and of
 * several limits it keeps no tickets: any other promise returns nothing that only a ticket could tell. And
 * `blocked` is a pause: nothing passes, but limits and state stay as they are.
 */
struct model_policy {
    bool limiter, paused;
    size_t count;
    int64_t promised; /* the time of the latest promise that is outstanding */
    int64_t age;      /* promises of an earlier one cannot be taken back any more */
    int64_t number;   /* of the latest promise */
    struct model limits[MODEL_LIMITS];
};

void model_init(struct model_policy *model, const struct weir_policy *policy, int64_t now);
/* The same for a limiter. */
void model_init_limiter(struct model_policy *model, const struct weir_policy *policy, int64_t now);
/* Is it a limiter, with a state of more than one word? */
bool model_is_wide(const struct model_policy *model);
void model_reset(struct model_policy *model, const struct weir_policy *policy, int64_t now);
void model_free(struct model_policy *model);

/* `promises` has an element for each limit; NULL: do not keep what was promised. `peek`: change nothing. */
bool model_reserve(struct model_policy *model, int64_t now, int64_t n, int64_t timeout, bool peek,
                   struct model_promise *promises, struct weir_verdict *verdict);
/* Writes the numbers of limit i into a verdict. */
void model_describe(const struct model_policy *model, int64_t now, size_t i, struct weir_verdict *verdict);
/* Has limit i at most the share of limit j left, if each of them may be wrong by a unit? */
bool model_has_no_more_left(const struct model_policy *model, int64_t now, size_t i, size_t j);
bool model_cancel(struct model_policy *model, int64_t now, struct model_promise *promises);
/* Fills `copy`, which model_restore puts back and frees, or model_free frees. */
void model_keep(const struct model_policy *model, struct model_policy *copy);
void model_restore(struct model_policy *model, struct model_policy *copy);
void model_give(struct model_policy *model, int64_t now, int64_t n);
void model_charge(struct model_policy *model, int64_t now, int64_t n);
int64_t model_drain(struct model_policy *model, int64_t now);
/* `kept[i]`: limit i goes on from where limit i was, as a law over both can see it. */
void model_change(struct model_policy *model, const struct weir_policy *next, int64_t now, bool *kept);
int64_t model_restart(struct model_policy *model, int64_t now);
int64_t model_behind(const struct model_policy *model, int64_t now);

#endif
