/* SPDX-License-Identifier: MIT */
/*
 * What users hold of the stores that all have in common (fair_share.h): asked by requests that make entries,
 * and looked up by the job thread.
 */
#include "service/shares.h"
#include "ledger/persist.h"
#include "service/log.h"
#include "service/service.h"
#include "table/own.h"
#include "table/verbs.h"

/* ---- by requests ---- */

static struct fair_share *share_of(const struct admission_hook *hook, uint32_t *owner)
{
    const struct share_hook *own = (const struct share_hook *)(const void *)hook;
    if (own->worker->snapshot->users->count < 2)
        return NULL;
    *owner = own->user->share;
    return own->worker->service->shares[own->store];
}

static bool share_allows(const struct admission_hook *hook)
{
    uint32_t owner;
    struct fair_share *share = share_of(hook, &owner);
    return !share || weir_share_allows(share, owner);
}

static void claim_share(const struct admission_hook *hook, uint64_t place)
{
    uint32_t owner;
    struct fair_share *share = share_of(hook, &owner);
    if (share)
        weir_share_claim(share, place, owner);
}

static bool share_lets_wake(const struct admission_hook *hook, uint64_t place)
{
    uint32_t owner;
    struct fair_share *share = share_of(hook, &owner);
    return !share || weir_share_wake(share, place, owner);
}

struct share_hook weir_share_hook(const struct worker *worker, const struct user *user,
                                  enum share_store store)
{
    return (struct share_hook){{share_allows, claim_share, share_lets_wake}, worker, user, store};
}

/* ---- by the job thread ---- */

struct share_scan {
    struct fair_share *share;
    const struct records *records;
    int64_t now_ns;
};

static void see_record(void *arg, struct record *record)
{
    const struct share_scan *look = arg;
    weir_share_see(look->share, weir_records_place(look->records, record));
}

/* One that is over gives way to any newcomer: its place is as good as free. */
static void see_reservation(void *arg, struct record *record)
{
    const struct share_scan *look = arg;
    if (!weir_ledger_is_over(record, look->now_ns))
        see_record(arg, record);
}

static void see_key(void *arg, uint64_t place, bool in_use)
{
    if (in_use)
        weir_share_see(arg, place);
    else
        weir_share_pass(arg, place);
}

static void scan_records(struct fair_share *share, struct records *records, int64_t now_ns, bool all,
                         void (*see)(void *arg, struct record *record))
{
    struct share_scan look = {share, records, now_ns};
    uint64_t *cursor = weir_share_cursor(share), count = all ? SIZE_MAX : weir_share_look(share);
    if (count == 0 || weir_records_page(records, now_ns, cursor, count, see, &look))
        return;
    *cursor = 0;
    weir_share_round(share);
}

static void look_at_keys(struct fair_share *share, struct weir_table *table, int64_t now_ns, bool all)
{
    uint64_t *cursor = weir_share_cursor(share), count = all ? UINT64_MAX : weir_share_look(share);
    if (count == 0 || weir_table_own_look(table, now_ns, cursor, count, see_key, share))
        return;
    *cursor = 0;
    weir_share_round(share);
}

void weir_shares_look(struct service *service, bool all)
{
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_acquire);
    int64_t now_ns = weir_now();
    if (snapshot->users->count < 2)
        return;
    scan_records(service->shares[SHARE_REQUESTS], service->ledger.requests, now_ns, all, see_record);
    scan_records(service->shares[SHARE_RESERVATIONS], service->ledger.reservations, now_ns, all,
                 see_reservation);
    scan_records(service->shares[SHARE_SMYTE], service->smyte, now_ns, all, see_record);
    look_at_keys(service->shares[SHARE_CLIENT_KEYS], service->client_keys->table, now_ns, all);
}

/* One that is gone since has no name any more. */
static const char *name_of(const struct service *service, uint32_t owner)
{
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_acquire);
    for (size_t i = 0; i < snapshot->users->count; i++)
        if (snapshot->users->list[i].share == owner)
            return snapshot->users->list[i].name;
    return "";
}

/* Of several users that were refused within a second the last one is named. */
void weir_shares_warn(struct service *service)
{
    static const char *const names[SHARE_STORES] = {"request ids", "reservations", "RL.* keys",
                                                    "CL.THROTTLE keys"};
    for (int i = 0; i < SHARE_STORES; i++) {
        struct share_stat stat;
        weir_share_stat(service->shares[i], &stat);
        if (stat.refused > service->upkeep.share_refused[i])
            weir_log(
                LOG_WARN_LEVEL, "share-used-up", LOG_TEXT("user", name_of(service, stat.last)),
                LOG_TEXT("of", names[i]),
                LOG_NUMBER("refused", stat.refused - service->upkeep.share_refused[i]),
                LOG_TEXT("means", "a user holds as many as are free, and gets no more, so that others do"));
        service->upkeep.share_refused[i] = stat.refused;
    }
}
