/* SPDX-License-Identifier: MIT */
#include "lease/ticket.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/humanize.h"
#include "base/sat.h"

/* ---- terms ---- */

__attribute__((format(printf, 3, 4))) static bool refuse(char *why, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return false;
}

static bool window_fits(const struct lease_terms *terms, char *why, size_t size)
{
    char window[HUMANIZE_MAX];
    if (terms->window_ns <= 0)
        return refuse(why, size, "a window has to last; write one of 10 ms to 366 days, as in 100/m");
    if (terms->window_ns < TICKET_WINDOW_MIN)
        return refuse(why, size,
                      "a window of %s is too short to be leased over a network; "
                      "10 ms is the least, a second is sensible",
                      weir_humanize_duration(terms->window_ns, 0, window));
    if (terms->window_ns > TICKET_WINDOW_MAX)
        return refuse(why, size, "a window is at most 366 days long");
    return true;
}

static bool amounts_fit(const struct lease_terms *terms, char *why, size_t size)
{
    if (terms->total <= 0)
        return refuse(why, size, "a total of %" PRId64 " lets nothing pass; write at least 1", terms->total);
    if (terms->total > TICKET_TOTAL_MAX || terms->burst > TICKET_TOTAL_MAX)
        return refuse(why, size, "at most %" PRId64 " units can be shared; count in larger units",
                      TICKET_TOTAL_MAX);
    if (terms->base < 0 || terms->chunk < 0 || terms->burst < 0)
        return refuse(why, size, "base, chunk and burst are not below 0; 0 means the default");
    return true;
}

/* A hundred chunks a node: what nodes still hold when the pool is empty is about a hundredth of it. */
static int64_t default_base(const struct lease_terms *terms, int64_t nodes)
{
    int64_t base = terms->total / sat_mul(100, max64(nodes, 1));
    if (terms->kind == LEASE_BUCKET)
        base = min64(base, terms->burst / 4);
    return max64(base, max64(1, terms->kind == LEASE_QUOTA ? div_up(terms->total, TICKET_COUNT_MAX) : 1));
}

static bool quota_fits(const struct lease_terms *terms, char *why, size_t size)
{
    if (terms->base > terms->total)
        return refuse(why, size,
                      "base %" PRId64 " is above the total of %" PRId64 "; a node would take all of it at "
                      "once; write a base of at most the total, better a hundredth for each node",
                      terms->base, terms->total);
    if (terms->chunk > terms->total)
        return refuse(why, size, "a chunk of %" PRId64 " is above the total of %" PRId64 "; leave it out",
                      terms->chunk, terms->total);
    if (div_up(terms->total, terms->chunk) > TICKET_COUNT_MAX)
        return refuse(why, size,
                      "%" PRId64 " units in chunks of %" PRId64 " are more than %" PRId64
                      " chunks a window; write a base of at least %" PRId64,
                      terms->total, terms->chunk, TICKET_COUNT_MAX, div_up(terms->total, TICKET_COUNT_MAX));
    return true;
}

static bool bucket_fits(const struct lease_terms *terms, char *why, size_t size)
{
    if (terms->chunk > terms->burst / 2)
        return refuse(why, size,
                      "a burst of %" PRId64 " is below two chunks of %" PRId64
                      "; write a burst of at least %" PRId64 "%s",
                      terms->burst, terms->chunk, sat_mul(2, terms->chunk),
                      terms->chunk > 1 ? ", or a smaller base" : "");
    if (weir_ticket_life(terms) < TICKET_WINDOW_MIN / 10)
        return refuse(why, size,
                      "a burst of %" PRId64 " at this rate is used up in less than 1 ms, before it could be "
                      "leased; write a larger burst",
                      terms->burst);
    return true;
}

bool weir_terms_complete(struct lease_terms *terms, int64_t nodes, char *why, size_t size)
{
    if (terms->kind != LEASE_QUOTA && terms->kind != LEASE_BUCKET)
        return refuse(why, size, "a fleet shares a quota or a bucket");
    if (!amounts_fit(terms, why, size) || !window_fits(terms, why, size))
        return false;
    if (terms->base == 0)
        terms->base = default_base(terms, nodes);
    if (terms->chunk == 0)
        terms->chunk = terms->base;
    return terms->kind == LEASE_QUOTA ? quota_fits(terms, why, size) : bucket_fits(terms, why, size);
}

/* ---- tickets of a quota ---- */

/* Whatever terms say: no division by 0. */
static int64_t terms_chunk(const struct lease_terms *terms)
{
    return max64(terms->chunk, 1);
}

/* The law of sums: with r returned, tickets up to whole + r are whole and the one after them is the rest. One
 * who has seen fewer returns than there were finds fewer units in his ticket, never more. */
int64_t weir_ticket_units(const struct lease_terms *terms, int64_t number, int64_t returned)
{
    int64_t chunk = terms_chunk(terms);
    if (terms->kind == LEASE_BUCKET)
        return number >= 0 && number < weir_ticket_count(terms) ? chunk : 0;
    int64_t total = max64(terms->total, 0), whole = sat_add(total / chunk, max64(returned, 0)), units;
    if (number < 1 || number > sat_add(whole, 1))
        units = 0;
    else
        units = number <= whole ? chunk : total % chunk;
    ASSERT(number >= 1 || units == 0);
    ASSERT(number < 1 || weir_ticket_left(terms, 0, returned) == INT64_MAX ||
           units == sat_sub(weir_ticket_left(terms, number - 1, returned),
                            weir_ticket_left(terms, number, returned)));
    return units;
}

int64_t weir_ticket_count(const struct lease_terms *terms)
{
    if (terms->kind == LEASE_BUCKET) /* as many as can be numbered from one origin */
        return min64(TICKET_COUNT_MAX, (INT64_MAX / 4) / terms_chunk(terms));
    return div_up(max64(terms->total, 0), terms_chunk(terms));
}

int64_t weir_ticket_left(const struct lease_terms *terms, int64_t used, int64_t returned)
{
    int64_t chunk = terms_chunk(terms), total = max64(terms->total, 0);
    int64_t whole = sat_add(total / chunk, max64(returned, 0));
    used = max64(used, 0);
    if (used > whole)
        return 0;
    int64_t left = sat_add(sat_mul(whole - used, chunk), total % chunk);
    ASSERT(used > 0 || left == sat_add(total, sat_mul(max64(returned, 0), chunk)));
    return left;
}

/* ---- the size of a chunk ---- */

static int64_t largest_chunk(const struct lease_terms *terms, int64_t nodes)
{
    int64_t base = max64(terms->base, 1);
    if (terms->kind == LEASE_BUCKET)
        return max64(1, min64(base, terms->burst / 2));
    if (nodes > 0)
        base = clamp64(terms->total / sat_mul(100, nodes), base, sat_mul(4, base));
    return max64(1, min64(base, terms->total));
}

/* Smaller ones than a hundred for each node cost writes, and leave hardly less unspent. */
static int64_t smallest_chunk(const struct lease_terms *terms, int64_t nodes)
{
    int64_t base = max64(terms->base, 1);
    int64_t least = max64(1, max64(terms->base, 1) / 4);
    if (terms->kind == LEASE_QUOTA && nodes > 0)
        least = clamp64(terms->total / sat_mul(100, nodes), least, base);
    if (terms->kind == LEASE_QUOTA) /* versions of a znode must not run out */
        least = max64(least, div_up(max64(terms->total, 0), TICKET_COUNT_MAX));
    return least;
}

/* Used up early: everybody spends what he gets, and larger chunks save writes. Used up late: somebody held
 * what another one wanted, and smaller chunks strand less. Not used up: towards base. */
int64_t weir_chunk_next(const struct lease_terms *terms, int64_t used, int64_t lasted_ns, int64_t nodes)
{
    int64_t base = max64(terms->base, 1), chunk = terms_chunk(terms);
    bool exhausted = lasted_ns < terms->window_ns && used >= weir_ticket_count(terms) / 2;
    if (terms->kind == LEASE_BUCKET)
        chunk = base;
    else if (exhausted && lasted_ns < terms->window_ns / 4)
        chunk = sat_mul(chunk, 2);
    else if (exhausted)
        chunk /= 2;
    else
        chunk = chunk < base ? min64(base, sat_mul(chunk, 2)) : max64(base, chunk / 2);
    int64_t most = largest_chunk(terms, nodes);
    int64_t next = clamp64(chunk, min64(smallest_chunk(terms, nodes), most), most);
    ASSERT(next >= 1 && next <= sat_mul(4, base) && (next <= base || nodes > 0));
    ASSERT(next >= base / 4 || next == most);
    return next;
}

/* ---- tickets of a bucket ---- */

/* When `units` have come in since the origin, at R = total/window. */
static int64_t ticket_time_of_units(const struct lease_terms *terms, int64_t units, bool up)
{
    int64_t window = max64(terms->window_ns, 0), total = max64(terms->total, 1);
    return up ? mul_div_up(units, window, total) : mul_div(units, window, total);
}

int64_t weir_ticket_life(const struct lease_terms *terms)
{
    return ticket_time_of_units(terms, max64(0, sat_sub(terms->burst, terms_chunk(terms))), false);
}

int64_t weir_ticket_ahead(const struct lease_terms *terms)
{
    return min64(weir_ticket_life(terms) / 2, INT64_C(1000000000));
}

int64_t weir_ticket_back(const struct lease_terms *terms)
{
    int64_t life = weir_ticket_life(terms);
    return life - life / 4;
}

#if WEIR_ASSERTIONS
/* Exactly: the first moment at which k*c units have come in, and the last at which k*c + B - c have. */
static void check_ticket_span(const struct lease_terms *terms, int64_t number, int64_t now_ns,
                              int64_t starts_ns, int64_t ends_ns)
{
    weir_i128 window = max64(terms->window_ns, 0), total = max64(terms->total, 1), chunk = terms_chunk(terms);
    weir_i128 starts = (weir_i128)starts_ns + now_ns, ends = (weir_i128)ends_ns + now_ns;
    weir_i128 before = (weir_i128)number * chunk, last = before + max64(terms->burst, (int64_t)chunk) - chunk;
    ASSERT(number >= 0);
    if (now_ns > INT64_MAX / 4 || now_ns < -INT64_MAX / 4 || last > INT64_MAX / 4 ||
        last * window / total >= INT64_MAX / 4)
        return; /* sums are cut off there */
    ASSERT(starts * total >= before * window && (starts - 1) * total < before * window);
    ASSERT(ends * total <= last * window && (ends + 1) * total > last * window);
}
#endif

/* Starts are rounded up and ends down: what is spent lies within the exact times, so B + R*t holds exactly.
 */
bool weir_ticket_span(const struct lease_terms *terms, int64_t number, int64_t now_ns, int64_t *starts_ns,
                      int64_t *ends_ns)
{
    int64_t chunk = terms_chunk(terms);
    if (number < 0 || number > weir_ticket_count(terms)) {
        *starts_ns = *ends_ns = INT64_MAX; /* it has no number: nobody may spend it, ever */
        return true;
    }
    int64_t before = number * chunk; /* count bounds it by INT64_MAX / 4 */
    *starts_ns = sat_sub(ticket_time_of_units(terms, before, true), now_ns);
    *ends_ns = sat_sub(
        ticket_time_of_units(terms, sat_add(before, max64(0, sat_sub(terms->burst, chunk))), false), now_ns);
#if WEIR_ASSERTIONS
    check_ticket_span(terms, number, now_ns, *starts_ns, *ends_ns);
#endif
    return *ends_ns > 0;
}
