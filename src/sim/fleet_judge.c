/* SPDX-License-Identifier: MIT */
/*
 * The judge: knows real time, when each epoch really began, and of every unit that passed.
 *
 * An epoch's time goes from its beginning to that of the next; of one that ends by the coordinator's own
 * clock, to that end. An epoch that was begun because a Redis may have lost writes has nothing to spend;
 * until the next one the units of the epoch before are the only ones, so it counts as a part of that.
 *
 * The bucket is exact: level and rate are kept in units times window, times a million, and the rate is what
 * a clock that runs fast by rho would make of it. When the coordinator's wall clock is set forward, what has
 * become due by that comes on top, at most B.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/fleet_world.h"

#define MILLION INT64_C(1000000)

void weir_sim_broken(struct sim_world *world, int law, const char *format, ...)
{
    struct sim_fleet_result *result = world->result;
    result->broken[law]++;
    result->over++;
    if (result->first[0])
        return;
    char text[160];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)snprintf(result->first, sizeof result->first, "%s, at %.6f s: %s", weir_sim_law_name(law),
                   (double)world->now_ns / 1e9, text);
}

static struct sim_judged_epoch *current_judged_epoch(struct sim_world *world)
{
    return &world->judge.epochs[EPOCHS_MAX - 1];
}

static void refill_judged_bucket(struct sim_world *world);

static double max_double(double a, double b)
{
    return a > b ? a : b;
}

/* ---- quota ---- */

/* What was stated to come on top of a total. */
static int64_t stated_bound(const struct sim_world *world)
{
    const struct sim_judge *judge = &world->judge;
    return judge->lost_now + judge->shared_now + judge->shared_before;
}

static void close_epoch(struct sim_world *world, const struct sim_judged_epoch *epoch)
{
    struct sim_fleet_result *result = world->result;
    double share = epoch->total > 0 ? (double)epoch->spent / (double)epoch->total : 0;
    int64_t wanted = min64(epoch->asked, epoch->total);
    if (epoch->epoch == 0 || epoch->asked == 0)
        return;
    result->windows++;
    if (result->windows == 1 || epoch->spent - epoch->total > result->worst)
        result->worst = epoch->spent - epoch->total;
    result->worst_percent = max_double(result->worst_percent, 100 * share);
    result->counted += epoch->spent;
    result->wanted += wanted;
    if (world->user == 0 && result->plotted < SIM_PLOT_MAX)
        result->plot[result->plotted++] = share;
}

void weir_sim_judge_epoch(struct sim_world *world, uint64_t epoch, int64_t total, int64_t ends_ns,
                          bool floored)
{
    struct sim_judge *judge = &world->judge;
    struct sim_judged_epoch *last = current_judged_epoch(world);
    judge->most_total = max64(judge->most_total, total);
    if (floored && last->epoch != 0) {
        last->began_ns = world->now_ns; /* nobody may turn it before a window from now */
        return;
    }
    if (last->epoch != 0 && world->terms.kind == LEASE_QUOTA)
        close_epoch(world, last);
    else if (last->epoch != 0)
        refill_judged_bucket(world);
    last->ends_ns = min64(last->ends_ns, world->now_ns);
    memmove(judge->epochs, judge->epochs + 1, (EPOCHS_MAX - 1) * sizeof judge->epochs[0]);
    *last = (struct sim_judged_epoch){
        .epoch = epoch, .began_ns = world->now_ns, .ends_ns = ends_ns, .total = total};
    judge->shared_before = judge->shared_now;
    judge->shared_now = 0;
    if (world->now_ns > judge->lost_ns + 2 * judge->window_ns) /* all that was granted then is dead */
        judge->lost_now = 0;
    judge->was_over = false;
    judge->window_ns = world->root.pool.terms.window_ns;
}

void weir_sim_judge_asked(struct sim_world *world, int64_t units)
{
    current_judged_epoch(world)->asked += units;
    if (world->split)
        world->other.judge.epochs[EPOCHS_MAX - 1].asked += units;
    world->asked += units;
}

/* Only who trusts a Redis is told that this comes on top. */
void weir_sim_judge_lost(struct sim_world *world, int64_t units)
{
    if (!world->sim->trust)
        return;
    world->judge.lost_now += units;
    world->judge.lost_ns = world->now_ns;
    world->judge.lost += (weir_i128)units * world->terms.window_ns * MILLION;
}

/* Two masters that are trusted go on with one epoch: units that come back, from a server of a tier or a node
 * that has gone over, may be those of the other, so there the sum counts. */
static int64_t left_of_twin(const struct sim_world *world, uint64_t epoch)
{
    const struct sim_judged_epoch *twin = &world->other.judge.epochs[EPOCHS_MAX - 1];
    bool same = world->masters > 0 && world->sim->trust && twin->epoch == epoch;
    return same ? max64(0, twin->total - twin->spent) : 0;
}

static void spent_of_quota(struct sim_world *world, const struct sim_node *node,
                           const struct sim_units *piece)
{
    struct sim_judge *judge = &world->judge;
    struct sim_judged_epoch *now = current_judged_epoch(world);
    uint64_t epoch = piece->origin.epoch;
    now->spent += piece->units;
    world->result->bound = max64(world->result->bound, stated_bound(world));
    if (now->spent > now->total + stated_bound(world) + left_of_twin(world, now->epoch) && !judge->was_over) {
        judge->was_over = true;
        weir_sim_broken(world, SIM_TOTAL, "epoch %llu: %lld units spent of %lld and %lld on top",
                        (unsigned long long)now->epoch, (long long)now->spent, (long long)now->total,
                        (long long)stated_bound(world));
    }
    bool wrong = epoch != 0 && (epoch != now->epoch || world->now_ns >= now->ends_ns);
    if (wrong && !world->sim->trust)
        weir_sim_broken(world, SIM_EPOCH, "node %u spent %lld units of epoch %llu in epoch %llu%s",
                        sim_node_index(world, node), (long long)piece->units,
                        (unsigned long long)piece->origin.epoch, (unsigned long long)now->epoch,
                        world->now_ns >= now->ends_ns ? ", which had ended" : "");
}

/* ---- bucket ---- */

static weir_i128 scaled(const struct sim_world *world, int64_t units)
{
    return (weir_i128)units * world->terms.window_ns * MILLION;
}

/* After a change of terms the old ones hold as well for as long as their tickets live. */
static int64_t rate_now(struct sim_world *world)
{
    const struct sim_judged_epoch *now = current_judged_epoch(world), *before = now - 1;
    bool both = world->now_ns < now->began_ns + 3 * weir_ticket_life(&world->terms);
    return both ? max64(now->total, before->total) : now->total;
}

static void refill_judged_bucket(struct sim_world *world)
{
    struct sim_judge *judge = &world->judge;
    int64_t total = rate_now(world), span = world->now_ns - judge->level_ns;
    judge->level += (weir_i128)span * total * (MILLION + world->options.rho_ppm);
    if (judge->level > judge->full)
        judge->level = judge->full;
    judge->level_ns = world->now_ns;
    if (world->now_ns >= judge->credit_until_ns)
        judge->credit = 0;
}

void weir_sim_judge_stepped(struct sim_world *world, int64_t by_ns)
{
    struct sim_judge *judge = &world->judge;
    if (by_ns <= 0 || world->terms.kind != LEASE_BUCKET)
        return;
    refill_judged_bucket(world);
    weir_i128 due = (weir_i128)by_ns * world->root.pool.terms.total * MILLION;
    judge->level += due < judge->full ? due : judge->full;
    if (judge->level <= judge->full)
        return;
    judge->credit += judge->level - judge->full;
    judge->level = judge->full;
    judge->credit_until_ns = world->now_ns + 2 * weir_ticket_life(&world->terms) + WEIR_SEC;
}

/* What is still missing when as much as there is was taken from `more`. */
static weir_i128 draw_on(weir_i128 *more, weir_i128 missing)
{
    weir_i128 some = *more < missing ? *more : missing;
    *more -= some;
    return missing - some;
}

static void spent_of_bucket(struct sim_world *world, const struct sim_node *node,
                            const struct sim_units *piece)
{
    struct sim_judge *judge = &world->judge;
    refill_judged_bucket(world);
    weir_i128 one = scaled(world, 1);
    judge->level -= one * piece->units;
    current_judged_epoch(world)->spent += piece->units;
    int64_t used = world->terms.burst - (int64_t)(judge->level / one);
    world->result->worst_percent =
        max_double(world->result->worst_percent, 100.0 * (double)used / (double)world->terms.burst);
    weir_i128 missing = draw_on(&judge->lost, draw_on(&judge->credit, judge->level < 0 ? -judge->level : 0));
    if (judge->level < 0)
        judge->level = 0;
    if (missing == 0)
        return;
    int64_t units = (int64_t)((missing + one - 1) / one);
    world->result->worst = max64(world->result->worst, units);
    weir_sim_broken(world, SIM_BUCKET, "node %u spent %lld units of epoch %llu, %lld more than there are",
                    sim_node_index(world, node), (long long)piece->units,
                    (unsigned long long)piece->origin.epoch, (long long)units);
}

/* ---- all ---- */

void weir_sim_judge_begin(struct sim_world *world)
{
    struct sim_judge *judge = &world->judge;
    memset(judge, 0, sizeof *judge);
    judge->window_ns = world->terms.window_ns;
    if (world->terms.kind != LEASE_BUCKET)
        return;
    /* Two nanoseconds for what clocks and divisions round. */
    judge->full = scaled(world, world->terms.burst) + (weir_i128)2 * world->terms.total * MILLION;
    judge->level = judge->full;
}

/* Not before a ticket starts, not after it ends. */
static void check_ticket_span(struct sim_world *world, const struct sim_node *node,
                              const struct sim_units *piece)
{
    int64_t clock = weir_sim_clock(&world->root.clock, world->now_ns);
    int64_t early = piece->origin.starts_ns - clock, late = clock - piece->origin.ends_ns;
    if (piece->origin.epoch != 0 && (early > 0 || late >= 0))
        weir_sim_broken(world, SIM_EPOCH, "node %u spent %lld units %lld ns %s", sim_node_index(world, node),
                        (long long)piece->units, (long long)(early > 0 ? early : late),
                        early > 0 ? "before they start" : "after their end");
}

static void judge(struct sim_world *world, const struct sim_node *node, const struct sim_units *piece)
{
    check_ticket_span(world, node, piece);
    world->result->passed += piece->units;
    world->passed += piece->units;
    if (world->now_ns >= world->quiet_ns)
        world->judge.flowed += piece->units;
    sim_mix_fingerprint(world, (uint64_t)world->now_ns,
                        (uint64_t)piece->units * 31 + sim_node_index(world, node));
    if (world->terms.kind == LEASE_QUOTA)
        spent_of_quota(world, node, piece);
    else
        spent_of_bucket(world, node, piece);
}

/* Each of two masters has a total of its own. */
void weir_sim_judge_spent(struct sim_world *world, const struct sim_node *node, const struct sim_units *piece)
{
    bool other = piece->origin.epoch != 0 && piece->origin.master != world->root.id;
    if (other)
        weir_sim_split_face(world);
    judge(world, node, piece);
    if (!other)
        return;
    world->result->bound =
        max64(world->result->bound, current_judged_epoch(world)->total + stated_bound(world));
    weir_sim_split_face(world);
}

/* ---- two masters ---- */

/* Who is not trusted gives out nothing before a window has passed. */
void weir_sim_judge_split(struct sim_world *world)
{
    struct sim_judge *judge = &world->judge;
    struct sim_judged_epoch *now = current_judged_epoch(world);
    now->began_ns = world->root.since_ns;
    now->epoch = world->root.pool.epoch;
    now->total = world->sim->trust ? world->root.pool.terms.total : 0;
    now->spent = now->asked = 0;
    judge->lost_now = judge->shared_now = judge->shared_before = 0;
    judge->was_over = false;
    judge->level = world->sim->trust ? judge->full : 0;
    judge->level_ns = world->now_ns;
    judge->credit = judge->lost = 0;
}

int64_t weir_sim_judge_unite(struct sim_world *world)
{
    struct sim_judged_epoch *last = current_judged_epoch(world);
    int64_t slow = MILLION - world->options.rho_ppm;
    int64_t lasts = max64(world->judge.window_ns, 2 * weir_ticket_life(&world->terms) + WEIR_SEC);
    if (world->terms.kind == LEASE_QUOTA)
        last->ends_ns =
            min64(last->ends_ns, last->began_ns + mul_div_up(world->judge.window_ns, MILLION, slow));
    return world->now_ns + mul_div_up(lasts, 2 * MILLION, slow);
}

void weir_sim_judge_end(struct sim_world *world)
{
    struct sim_judge *judge = &world->judge;
    struct sim_fleet_result *result = world->result;
    if (world->terms.kind == LEASE_BUCKET) {
        result->windows += world->now_ns / world->terms.window_ns;
        weir_i128 most =
            (weir_i128)world->terms.total * world->now_ns / world->terms.window_ns + world->terms.burst;
        result->wanted += min64(world->asked, sat_i128(most));
        result->counted += world->passed;
    }
    if (world->sim->faults != 0 && !world->active && world->weights > 0 && judge->flowed == 0)
        weir_sim_broken(world, SIM_FLOW, "nothing has passed since faults ended at %.3f s",
                        (double)world->quiet_ns / 1e9);
}
