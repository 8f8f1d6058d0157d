/* SPDX-License-Identifier: MIT */
#include "fleet/zookeeper/stat.h"

#include "base/assert.h"
#include "base/sat.h"
#include "spec/spec.h"

#define MS INT64_C(1000000)

static bool same_leader(const struct znode_stat *usable)
{
    return usable->czxid >> 32 == usable->mzxid >> 32;
}

int64_t weir_znode_age(const struct znode_stat *usable)
{
    int64_t age_ms = sat_sub(usable->mtime_ms, usable->ctime_ms);
    int64_t age = same_leader(usable) && age_ms >= 0 ? sat_mul(age_ms, MS) : -1;
    INVARIANT(54, age < 0 || usable->czxid >> 32 == usable->mzxid >> 32);
    return age;
}

int64_t weir_znode_ahead(const struct lease_terms *terms)
{
    return sat_mul(2, weir_ticket_ahead(terms));
}

int64_t weir_znode_wait(const struct lease_terms *old, const struct lease_terms *next)
{
    if (next->kind == LEASE_QUOTA)
        return max64(old->window_ns, next->window_ns);
    int64_t life = max64(weir_ticket_life(old), weir_ticket_life(next)), apart, ends;
    (void)weir_ticket_span(next, 1, 0, &apart, &ends); /* ticket 0 is a chunk's time behind the last, too */
    int64_t wait = sat_add(weir_znode_ahead(old), sat_add(life, apart));
    return sat_mul(div_up(min64(wait, SPEC_PERIOD_MAX_NS - 2 * MS), MS) + 1, MS);
}

int64_t weir_znode_outlives(const struct znode_epoch *epoch)
{
    return max64(epoch->wait_ns, weir_znode_wait(&epoch->terms, &epoch->terms));
}

int64_t weir_znode_least(const struct lease_terms *terms)
{
    return weir_ticket_life(terms) / 8;
}

/* Milliseconds are cut off on both sides: what lies between two of them is wrong by less than one. */
int64_t weir_znode_since(const struct znode_epoch *epoch, const struct znode_stat *usable)
{
    int64_t since = sat_mul(sat_sub(usable->mtime_ms, usable->ctime_ms), MS);
    return sat_sub(sat_add(since, weir_ticket_back(&epoch->terms)), sat_add(epoch->wait_ns, MS));
}

int64_t weir_znode_left(const struct znode_epoch *epoch, const struct znode_stat *usable, int64_t returned,
                        int64_t later_ns)
{
    const struct lease_terms *terms = &epoch->terms;
    if (terms->kind == LEASE_QUOTA)
        return epoch->wait_ns > 0 ? 0 : weir_ticket_left(terms, usable->version, returned);
    int64_t since = sat_add(weir_znode_since(epoch, usable), max64(later_ns, 0));
    if (since <= 0 || terms->window_ns <= 0)
        return 0;
    int64_t come = mul_div(since, max64(terms->total, 0), terms->window_ns);
    return clamp64(sat_sub(sat_add(come, terms->chunk), sat_mul(usable->version, terms->chunk)), 0,
                   terms->burst);
}

static void znode_take_bucket(const struct znode_epoch *epoch, const struct znode_stat *usable,
                              struct lease_reply *reply)
{
    const struct lease_terms *terms = &epoch->terms;
    int64_t since = weir_znode_since(epoch, usable), starts, ends, late_starts, late_ends;
    int64_t number = (int64_t)usable->version - 1;
    /* Another leader is another clock: what was given out by the old one has to die first. */
    if (!same_leader(usable) || number >= weir_ticket_count(terms) ||
        !weir_ticket_span(terms, number, since, &starts, &ends)) {
        reply->stale = true;
        return;
    }
    if (starts > weir_znode_ahead(terms)) {
        reply->exhausted = true;
        reply->retry_ns = starts - weir_ticket_ahead(terms);
        /* Nobody is so far ahead: the clock was set back. */
        reply->stale = starts > sat_add(epoch->wait_ns, sat_mul(4, weir_znode_wait(terms, terms)));
        return;
    }
    if (!weir_ticket_span(terms, number, sat_add(since, 2 * MS), &late_starts, &late_ends) ||
        late_ends <= weir_znode_least(terms))
        return; /* it dies just now */
    starts = max64(starts, 0);
    if (reply->chunks > 0) { /* one span for all that the order gets */
        starts = max64(starts, reply->starts_ns);
        late_ends = min64(late_ends, reply->ends_ns);
    }
    if (starts >= late_ends)
        return;
    INVARIANT(54, same_leader(usable));
    INVARIANT(56, reply->chunks == 0 || (starts >= reply->starts_ns && late_ends <= reply->ends_ns));
    reply->starts_ns = starts;
    reply->ends_ns = late_ends;
    reply->chunks++;
    reply->units = sat_add(reply->units, terms->chunk);
}

void weir_znode_take(const struct znode_epoch *epoch, const struct znode_stat *usable, int64_t returned,
                     struct lease_reply *reply)
{
    if (usable->version < 1) /* nobody's set is answered so */
        return;
    if (epoch->terms.kind == LEASE_BUCKET) {
        znode_take_bucket(epoch, usable, reply);
        return;
    }
    int64_t units = epoch->wait_ns > 0 ? 0 : weir_ticket_units(&epoch->terms, usable->version, returned);
    reply->age_ns = weir_znode_age(usable);
    reply->left = weir_znode_left(epoch, usable, returned, 0);
    if (units <= 0) {
        reply->exhausted = true;
        return;
    }
    ASSERT(epoch->wait_ns == 0); /* else nothing of it is spent */
    ASSERT(units <= sat_sub(weir_ticket_left(&epoch->terms, usable->version - 1, returned),
                            weir_ticket_left(&epoch->terms, usable->version, returned)));
    reply->chunks++;
    reply->units = sat_add(reply->units, units);
}
