/* SPDX-License-Identifier: MIT */
/*
 * A member from outside: joining, what its balance asks, leaving.
 */
#define _POSIX_C_SOURCE 200809L
#include "fleet/member.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/sat.h"
#include "base/secret.h"
#include "base/text.h"
#include "fleet/agent.h"
#include "fleet/options.h"
#include "limiter/balance_limiter.h"
#include "limiter/life.h"
#include "os/futex.h"

/*
 * Waiting for the coordinator: whoever joins waits until it is reached, and a moment longer for the first
 * units, so that the first take does not have to. Where it is not reached, joining fails, or the member
 * starts as lost (unreached=lost). By real time: nobody may be there to move a clock that is set.
 */

#define GRACE_NS (200 * WEIR_MS) /* after connect_ns, for a thread that is about to be done */
#ifndef FIRST_NS                 /* tests have more patience than a quarter of a second */
#define FIRST_NS (250 * WEIR_MS) /* for the first units, of a coordinator that is there */
#endif

/* Has it come to an end? *good: in which way. */
typedef bool reach_check(struct fleet_member *member, uint64_t failures, bool *good, struct weir_error *err);

static bool is_reached(struct fleet_member *member, uint64_t failures, bool *good, struct weir_error *err)
{
    struct fleet_agent *agent = member->agent;
    uint32_t enter = atomic_load_explicit(&member->enter, memory_order_acquire);
    *good = enter == ENTER_DONE;
    if (*good)
        return true;
    lock_take(&agent->lock);
    bool failed = enter == ENTER_FAILED || atom_load(&agent->failures, memory_order_acquire) != failures;
    if (failed && err)
        *err = enter == ENTER_FAILED ? member->enter_error : agent->error;
    lock_drop(&agent->lock);
    return failed;
}

static bool has_first_units(struct fleet_member *member, uint64_t failures, bool *good,
                            struct weir_error *err)
{
    uint32_t first = atomic_load_explicit(&member->first, memory_order_acquire);
    (void)failures;
    *good = first != FIRST_FORBIDDEN;
    if (!*good) {
        lock_take(&member->agent->lock);
        (void)weir_error_complain_as(err, EHOSTUNREACH, "%s", member->trouble);
        lock_drop(&member->agent->lock);
    }
    return first != FIRST_NOT_YET;
}

/* false: the time has passed before it was over. */
static bool wait_for_news(struct fleet_member *member, reach_check *over, uint64_t failures, int64_t ns,
                          bool *good, struct weir_error *err)
{
    struct fleet_agent *agent = member->agent;
    int64_t until_ns = sat_add(weir_monotonic_ns(), ns);
    for (;;) {
        uint32_t news = atomic_load_explicit(&agent->news, memory_order_acquire);
        if (over(member, failures, good, err))
            return true;
        if (weir_monotonic_ns() >= until_ns)
            return false;
        weir_futex_wait(&agent->news, news, until_ns);
    }
}

/* Every error says which coordinator it is about. */
static bool prefix_error_with_url(const struct fleet_member *member, struct weir_error *err)
{
    char line[sizeof err->text];
    struct text text;
    if (!err || strstr(err->text, member->agent->url.shown))
        return false;
    weir_text_init(&text, line, sizeof line);
    weir_text_print(&text, "%.80s: %s", member->agent->url.shown, err->text);
    weir_error_set(err, err->code != 0 ? err->code : ENOTCONN, line);
    return false;
}

/* Of a coordinator that is there. false: it has said why not. */
static bool await_first_units(struct fleet_member *member, int64_t ns, struct weir_error *err)
{
    bool good = false;
    weir_inbox_post(member, INBOX_WANT, 1);
    bool over = wait_for_news(member, has_first_units, 0, ns, &good, err);
    return !over || good || prefix_error_with_url(member, err);
}

/* Waits until the coordinator is reached, and has given its first units or said why not. false: `err`. */
static bool member_reach(struct fleet_member *member, int64_t connect_ns, struct weir_error *err)
{
    uint64_t failures = atom_load(&member->agent->failures, memory_order_acquire);
    bool good = false;
    weir_inbox_post(member, INBOX_JOIN, 0);
    if (!wait_for_news(member, is_reached, failures, sat_add(connect_ns, GRACE_NS), &good, err))
        weir_error_set(err, ETIMEDOUT,
                       "no answer in time; is it up, and may it be reached from here? "
                       "(connect= waits longer)");
    if (!good)
        return prefix_error_with_url(member, err);
    return await_first_units(member, min64(FIRST_NS, connect_ns), err);
}

/* It is lost, or there after all. */
static bool is_lost_or_reached(struct fleet_member *member, uint64_t failures, bool *good,
                               struct weir_error *err)
{
    (void)failures, (void)err;
    *good = atomic_load_explicit(&member->enter, memory_order_acquire) != ENTER_NOT_YET;
    lock_take(&member->lock);
    *good = *good || member->stat.lost;
    lock_drop(&member->lock);
    return *good;
}

bool weir_member_begin_lost(struct fleet_member *member, struct weir_error *err)
{
    bool good = false;
    if (atomic_load_explicit(&member->enter, memory_order_acquire) == ENTER_NOT_YET) {
        weir_inbox_post(member, INBOX_AWAY, 0);
        (void)wait_for_news(member, is_lost_or_reached, 0, FIRST_NS, &good, NULL);
    }
    switch (atomic_load_explicit(&member->enter, memory_order_acquire)) { /* it may have come meanwhile */
    case ENTER_DONE:
        return await_first_units(member, FIRST_NS, err);
    case ENTER_FAILED:
        lock_take(&member->agent->lock);
        if (err)
            *err = member->enter_error;
        lock_drop(&member->agent->lock);
        return prefix_error_with_url(member, err);
    default:
        return true;
    }
}

#define LEAVE_GRACE_NS    (200 * WEIR_MS) /* after leave_ns, for a thread that is about to be done */
#define RETRY_NS          WEIR_MS         /* for who is refused while units are on their way, at least */
#define RETRY_LOST_NS     WEIR_SEC
#define RETRY_LOST_MIN_NS (100 * WEIR_MS)

/* ---- what the balance asks ---- */

void weir_member_explain(struct fleet_member *member, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    const struct member_view *view = &member->view;
    int64_t retry_at = (int64_t)atom_load(&view->retry_at, memory_order_relaxed);
    bool exhausted = atom_load(&view->exhausted, memory_order_relaxed);
    bool lost = atom_load(&view->lost, memory_order_relaxed);
    int64_t until, soon = max64((int64_t)atom_load(&view->round, memory_order_relaxed), RETRY_NS);
    verdict->allowed = 0;
    verdict->remaining = weir_balance_room(&member->balance, now, &until);
    verdict->reset_after_ns = max64(sat_sub(until, now), 0);
    verdict->reason = lost ? WEIR_LOST : WEIR_LATER;
    verdict->retry_after_ns = retry_at != WEIR_FOREVER ? max64(sat_sub(retry_at, now), 1)
                              : lost                   ? RETRY_LOST_NS
                              : exhausted              ? max64(verdict->reset_after_ns, soon)
                                                       : soon;
    /* What is due to be tried again is not likely to be there in a moment. */
    if (lost || atom_load(&view->down, memory_order_relaxed))
        verdict->retry_after_ns = max64(verdict->retry_after_ns, RETRY_LOST_MIN_NS);
    verdict->reset_after_ns = max64(verdict->reset_after_ns, verdict->retry_after_ns); /* not full before */
    if (n > (int64_t)atom_load(&view->most, memory_order_relaxed)) {
        verdict->reason = WEIR_NEVER;
        verdict->retry_after_ns = WEIR_FOREVER;
    }
}

bool weir_member_may_succeed(struct fleet_member *member, int64_t now, int64_t n, int64_t timeout_ns,
                             struct weir_verdict *verdict)
{
    int64_t retry_at = (int64_t)atom_load(&member->view.retry_at, memory_order_relaxed);
    bool known = atom_load(&member->view.exhausted, memory_order_relaxed) && retry_at != WEIR_FOREVER;
    weir_member_explain(member, now, n, verdict);
    return verdict->reason != WEIR_NEVER && !(known && sat_sub(retry_at, now) > timeout_ns);
}

static void member_want(struct lease_balance *balance, int64_t n)
{
    struct fleet_member *member = balance->owner;
    bool never = n > (int64_t)atom_load(&member->view.most, memory_order_relaxed);
    weir_inbox_post(member, INBOX_MISSED, never ? 0 : n);
}

static void member_explain(struct lease_balance *balance, int64_t now, int64_t n,
                           struct weir_verdict *verdict)
{
    weir_member_explain(balance->owner, now, n, verdict);
}

static bool member_acquire(struct lease_balance *balance, int64_t now, int64_t n, int64_t timeout_ns,
                           struct weir_stop *stop, struct weir_verdict *verdict)
{
    return weir_claims_acquire(balance->owner, now, n, timeout_ns, stop, verdict);
}

static void member_cancel(struct lease_balance *balance)
{
    weir_claims_cancel_threads(balance->owner);
}

/* ---- leaving ---- */

void weir_member_unref(struct fleet_member *member)
{
    if (atom_add(&member->holders, UINT64_MAX, memory_order_acq_rel) != 1)
        return;
    if (member->agent)
        weir_agent_unref(member->agent);
    free(member);
}

/* false: the time has passed. */
static bool wait_for_agent_thread(struct fleet_member *member, int64_t ns)
{
    int64_t until_ns = sat_add(weir_monotonic_ns(), ns);
    while (atomic_load_explicit(&member->leave, memory_order_acquire) == LEAVE_WAITED_FOR) {
        if (weir_monotonic_ns() >= until_ns)
            return false;
        weir_futex_wait(&member->leave, LEAVE_WAITED_FOR, until_ns);
    }
    return true;
}

/* From here on the limiter is nobody's, also if this does not wait until the member is gone: nobody finds it,
 * and no hook is called with it. */
static void release_member(struct fleet_member *member)
{
    weir_agents_release(member);
    lock_take(&member->lock);
    member->leaving = true;
    lock_drop(&member->lock);
}

/* By real time: nobody may be there to move a clock that is set. */
static void leave_fleet(struct fleet_member *member)
{
    struct fleet_agent *agent = member->agent;
    release_member(member);
    if (weir_agent_is_me(agent)) { /* a callback: it cannot wait for itself */
        atomic_store(&member->leave, LEAVE_GIVEN_UP);
        weir_inbox_post(member, INBOX_LEAVE, 0);
        return;
    }
    weir_inbox_post(member, INBOX_LEAVE, 0);
    if (!wait_for_agent_thread(member, member->options.leave_ns)) {
        weir_inbox_post(member, INBOX_HURRY, 0);
        (void)wait_for_agent_thread(member, LEAVE_GRACE_NS);
    }
    uint32_t state = LEAVE_WAITED_FOR;
    if (!atomic_compare_exchange_strong(&member->leave, &state, LEAVE_GIVEN_UP) && state == LEAVE_LAST)
        (void)pthread_join(agent->thread, NULL);
}

static void member_free(struct lease_balance *balance)
{
    struct fleet_member *member = balance->owner;
    if (member->agent)
        leave_fleet(member);
    else
        weir_member_unref(member); /* the agent's share */
    weir_member_unref(member);
}

static const struct balance_ops member_balance = {member_want, member_explain, member_acquire, member_free,
                                                  member_cancel};

/* ---- joining ---- */

struct join_request {
    const char *url_text;
    struct server_url url;
    const struct coordinator_ops *ops;
    struct weir_fleet_options options;
    struct lease_terms terms;
    char text[MEMBER_TEXT_MAX];
};

static bool read_join_options(struct join_request *request, const struct weir_fleet_options *options,
                              struct weir_error *err)
{
    size_t size = sizeof request->options;
    if (options && (options->size < (int64_t)sizeof options->size || options->size > 4096))
        return weir_error_complain(err, "options.size has to be sizeof(struct weir_fleet_options)");
    if (options) {
        const char *beyond = (const char *)options;
        for (size_t i = size; i < (size_t)options->size; i++)
            if (beyond[i] != 0)
                return weir_error_complain(err, "the options have a field that this version of the library "
                                                "does not know");
        memcpy(&request->options, options, (size_t)min64(options->size, (int64_t)size));
    }
    return weir_fleet_options_read(&request->options, &request->url, err);
}

static bool read_join_request(struct join_request *request, const char *url, const char *spec,
                              const struct weir_fleet_options *options, struct weir_error *err)
{
    struct weir_spec limit;
    *request = (struct join_request){.url_text = url};
    if (!weir_url_read(&request->url, url, err))
        return false;
    request->ops = weir_coordinator_kind(&request->url, err);
    if (!request->ops || !read_join_options(request, options, err) ||
        !weir_fleet_terms(spec, &request->options, &request->terms, err))
        return false;
    size_t len = weir_spec_parse(spec, &limit, 1, err) == 1
                     ? weir_spec_format(&limit, 1, request->text, sizeof request->text)
                     : 0;
    return (len > 0 && len < sizeof request->text) || weir_error_complain(err, "the limit is too long");
}

static bool begin_lease(struct fleet_member *member, struct weir_error *err)
{
    const struct weir_fleet_options *said = &member->options;
    const char *why = "";
    struct lease_options options = {
        .prefetch_percent = said->prefetch,
        .above_percent = said->above,
        .return_every_ns = said->return_every_ns,
        .ready_ns = said->ready_ns,
        .rho_ppm = said->rho,
        .guard_ns = said->guard_ns,
        .no_age = said->clock == WEIR_FLEET_CLOCK_UNUSED,
        .most_chunks = said->flight,
        .most_held = said->most_held,
        .lost_after_ns = said->lost_after_ns,
        .answer_ns = said->answer_ns,
        .on_loss = said->on_loss == WEIR_FLEET_SHARE ? LEASE_LOSS_SHARE : LEASE_LOSS_REFUSE,
        .nodes = said->nodes,
        .asked = member->said,
    };
    if (!weir_lease_options_complete(&options, &why))
        return weir_error_complain(err, "%s", why);
    weir_lease_begin(&member->lease, &options, weir_hash_key().low, weir_now());
    return true;
}

/* Not in any agent yet. */
static struct fleet_member *make_member(const struct join_request *request, const char *name,
                                        struct weir_error *err)
{
    struct fleet_member *member = aligned_alloc(_Alignof(struct fleet_member), sizeof *member);
    if (!member) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    memset(member, 0, sizeof *member);
    weir_balance_init(&member->balance, &member_balance, member);
    atom_store(&member->holders, 2, memory_order_relaxed); /* the agent, and the limiter */
    atom_store(&member->view.retry_at, (uint64_t)WEIR_FOREVER, memory_order_relaxed);
    atom_store(&member->view.most,
               (uint64_t)(request->terms.kind == LEASE_QUOTA ? request->terms.total : request->terms.burst),
               memory_order_relaxed);
    member->last.wake_ns = member->last.retry_at_ns = WEIR_FOREVER;
    member->options = request->options;
    member->said = request->terms;
    member->stat.left = -1;
    (void)snprintf(member->name, sizeof member->name, "%s", name);
    (void)snprintf(member->text, sizeof member->text, "%s", request->text);
    if (begin_lease(member, err) &&
        (member->limiter = weir_balance_limiter(&member->balance, member->text, err)))
        return member;
    free(member);
    return NULL;
}

static struct weir_limiter *join_member(const struct join_request *request, const char *name, bool patient,
                                        struct weir_error *err)
{
    struct fleet_member *own = make_member(request, name, err), *found = NULL;
    if (!own)
        return NULL;
    bool entered = weir_agents_enter(own, request->url_text, &request->url, request->ops, &found, err);
    struct fleet_member *member = found ? found : own;
    if (!entered || found)
        weir_limiter_free(own->limiter);
    if (!entered)
        return NULL;
    if (strcmp(member->text, request->text) != 0) {
        (void)weir_error_complain_as(
            err, EEXIST,
            "'%s' is joined already in this process as %s; a name has one limit, and "
            "weir quota set changes it",
            name, member->text);
    } else if (patient) {
        weir_inbox_post(member, INBOX_WANT, 0);
        return member->limiter;
    } else if (weir_agent_is_me(member->agent)) {
        (void)weir_error_complain(err, "a callback of this coordinator must not wait: join it elsewhere");
    } else if (member_reach(member, request->options.connect_ns, err) ||
               (request->options.unreached == WEIR_FLEET_LOST_AT_FIRST &&
                weir_member_begin_lost(member, err))) {
        return member->limiter;
    }
    weir_limiter_free(member->limiter);
    return NULL;
}

struct weir_limiter *weir_member_join(const char *url, const char *name, const char *spec,
                                      const struct weir_fleet_options *options, bool patient,
                                      struct weir_error *err)
{
    struct join_request request;
    struct weir_limiter *limiter = NULL;
    weir_error_clear(err);
    if (weir_fleet_name_check(name, err) && read_join_request(&request, url, spec, options, err))
        limiter = join_member(&request, name, patient, err);
    weir_secret_wipe(&request.url, sizeof request.url);
    return limiter;
}

/* ---- for the server ---- */

struct fleet_member *weir_member_of(const struct weir_limiter *limiter)
{
    struct lease_balance *balance = weir_limiter_balance(limiter);
    return balance && balance->ops == &member_balance ? balance->owner : NULL;
}

void weir_member_watch(struct weir_limiter *limiter, member_moved *moved, void *arg)
{
    struct fleet_member *member = weir_member_of(limiter);
    if (!member)
        return;
    lock_take(&member->lock);
    member->watch = moved;
    member->watch_arg = arg;
    lock_drop(&member->lock);
    while (!weir_agent_is_me(member->agent) &&
           atomic_load_explicit(&member->calling, memory_order_acquire) == 1)
        weir_futex_wait(&member->calling, 1, weir_monotonic_ns() + WEIR_MS);
}

void weir_member_trouble(struct weir_limiter *limiter, char *text, size_t size)
{
    struct fleet_member *member = weir_member_of(limiter);
    if (size == 0)
        return;
    text[0] = '\0';
    if (!member)
        return;
    lock_take(&member->agent->lock);
    const char *why = member->agent->up ? member->trouble : member->agent->why;
    bool trying = !member->agent->up && !why[0];
    (void)snprintf(text, size, "%s", why);
    lock_drop(&member->agent->lock);
    lock_take(&member->lock);
    if (trying && member->stat.lost)
        (void)snprintf(text, size, "no connection yet; it is being tried");
    lock_drop(&member->lock);
}
