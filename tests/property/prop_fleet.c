/* SPDX-License-Identifier: MIT */
/*
 * What all nodes of a fleet together let pass is never above what they have agreed on: random fleets, with
 * every fault there is, against the judge of sim/fleet.h, who stands outside and knows real time.
 *
 * WEIR_FLEET_SEEDS says how many, WEIR_FLEET_FIRST with which to begin, WEIR_SEED or -s which ones. One that
 * breaks a law prints its name (total, epoch, bucket, granted, returned, early, share, flight, flow) and how
 * to repeat it.
 */
#include "check.h"
#include "property/dice.h"
#include "sim/fleet.h"

#define SECOND INT64_C(1000000000)

struct scene {
    const char *name;
    void (*shape)(struct dice *dice, struct sim_fleet *sim);
    int share; /* per cent of all seeds */
};

static struct {
    int64_t windows, events, faults;
} all;

/* ---- what all scenes begin with ---- */

static void draw_terms(struct dice *dice, struct sim_fleet *sim)
{
    struct lease_terms *terms = &sim->terms;
    terms->kind = dice_chance(dice, 35) ? LEASE_BUCKET : LEASE_QUOTA;
    terms->window_ns = dice_between(dice, 1, 10) * 3 * SECOND;
    terms->total = dice_between(dice, 20, 1200);
    terms->base = dice_chance(dice, 50) ? 0 : dice_between(dice, 1, 1 + terms->total / 30);
    if (terms->kind == LEASE_BUCKET) {
        terms->window_ns = dice_between(dice, 1, 6) * 2 * SECOND;
        terms->burst = dice_between(dice, 4 + terms->total / 20, terms->total);
        terms->base = terms->base < terms->burst / 4 ? terms->base : 0;
    }
}

static struct sim_fleet draw(struct dice *dice, uint64_t seed)
{
    struct sim_fleet sim = {.seed = seed, .users = 1, .windows = 10, .sparse = 1};
    sim.nodes = dice_between(dice, 1, 7);
    sim.coordinator = (int32_t)dice_between(dice, SIM_ZOOKEEPER, SIM_WEIR);
    sim.tiers = dice_chance(dice, 80) ? 1 : (int32_t)dice_between(dice, 2, 3);
    sim.faults = SIM_ALL;
    if (dice_chance(dice, 60)) /* a few faults show what many hide */
        sim.faults = (uint32_t)dice_between(dice, 1, SIM_ALL);
    if (dice_chance(dice, 60))
        sim.faults &= (uint32_t)dice_between(dice, 1, SIM_ALL) & (uint32_t)dice_between(dice, 1, SIM_ALL);
    sim.faults |= 1U << dice_between(dice, 0, 11);
    sim.load = (double)dice_between(dice, 5, 25) / 10;
    sim.options.rho_ppm = dice_chance(dice, 50) ? 1000 : (int32_t)dice_between(dice, 100, 50000);
    sim.options.no_age = dice_chance(dice, 15);
    draw_terms(dice, &sim);
    return sim;
}

/* ---- scenes ---- */

static void shape_plain(struct dice *dice, struct sim_fleet *sim)
{
    (void)dice, (void)sim;
}

/* Little but slow answers: who takes the moment of an answer for that of its question is over by as much. */
static void shape_slow(struct dice *dice, struct sim_fleet *sim)
{
    sim->coordinator = dice_chance(dice, 60) ? SIM_REDIS : SIM_ZOOKEEPER;
    sim->faults =
        SIM_DELAY | (dice_chance(dice, 30) ? SIM_REORDER : 0) | (dice_chance(dice, 30) ? SIM_PAUSE : 0);
    sim->terms.kind = LEASE_QUOTA;
    sim->terms.burst = 0;
    sim->terms.window_ns = dice_between(dice, 4, 20) * SECOND;
    sim->nodes = dice_between(dice, 3, 6);
    sim->tiers = 1;
    sim->windows = 30;
    sim->load = (double)dice_between(dice, 4, 15) / 10;
    sim->options.rho_ppm = 1000;
}

static void shape_share(struct dice *dice, struct sim_fleet *sim)
{
    sim->options.on_loss = LEASE_LOSS_SHARE;
    sim->options.lost_after_ns = dice_between(dice, 1, 4) * SECOND;
    sim->faults |= SIM_PARTITION | SIM_FAILOVER;
    sim->terms.kind = LEASE_QUOTA;
    sim->terms.burst = 0;
}

static void shape_trust(struct dice *dice, struct sim_fleet *sim)
{
    (void)dice;
    sim->coordinator = SIM_REDIS;
    sim->trust = true;
    sim->faults |= SIM_FAILOVER;
}

/* Two masters of a Redis: a total of each, whatever its nodes do, and nothing more before and after. */
static void shape_split(struct dice *dice, struct sim_fleet *sim)
{
    sim->coordinator = SIM_REDIS;
    sim->trust = dice_chance(dice, 25);
    sim->faults |= SIM_SPLIT;
    if (dice_chance(dice, 40)) /* hardly anything else: it happens often, and nodes go to and fro */
        sim->faults &= SIM_SPLIT | SIM_CRASH | SIM_EXPIRY | SIM_CLOCKS;
    if (sim->terms.kind == LEASE_BUCKET) /* tickets that live for moments hardly get through three of them */
        sim->tiers = 1;
}

static const struct scene scenes[] = {
    {"strict", shape_plain, 60}, {"slow", shape_slow, 10},   {"share", shape_share, 10},
    {"trust", shape_trust, 10},  {"split", shape_split, 20},
};

/* ---- running ---- */

static void print_repeat(const struct sim_fleet *sim, const struct sim_fleet_result *result, uint64_t number)
{
    printf("# seed %" PRIu64 ": %s\n", number, result->first);
    printf("#   %s, %s, %" PRId64 " nodes, %d tiers, faults 0x%x, total %" PRId64 ", window %" PRId64
           " s, burst %" PRId64 ", base %" PRId64 ", rho %d ppm, load %.1f\n",
           weir_sim_coordinator_name(sim->coordinator), sim->terms.kind == LEASE_QUOTA ? "quota" : "bucket",
           sim->nodes, sim->tiers, sim->faults, sim->terms.total, sim->terms.window_ns / SECOND,
           sim->terms.burst, sim->terms.base, sim->options.rho_ppm, sim->load);
    printf("#   to repeat it: WEIR_SEED=%" PRIu64 " WEIR_FLEET_FIRST=%" PRIu64 " WEIR_FLEET_SEEDS=1\n",
           check.seed, number);
}

static bool run_seed(const struct scene *scene, uint64_t number)
{
    struct dice dice = dice_new(check.seed, number);
    struct sim_fleet sim = draw(&dice, rng_next(&dice.rng));
    struct sim_fleet_result result;
    char why[200];
    scene->shape(&dice, &sim);
    if (!weir_sim_fleet_check(&sim, why, sizeof why)) {
        printf("# seed %" PRIu64 ": %s\n", number, why);
        return false;
    }
    if (!CHECK(weir_sim_fleet_run(&sim, NULL, NULL, &result)))
        return false;
    all.windows += result.windows;
    all.events += result.events;
    for (int bit = 0; weir_sim_fault_name(bit); bit++)
        all.faults += result.faults[bit];
    if (result.over == 0)
        return true;
    print_repeat(&sim, &result, number);
    return false;
}

static void run_scene(const struct scene *scene)
{
    int64_t seeds = check_env("WEIR_FLEET_SEEDS", 2400), progress = check_env("WEIR_FLEET_PROGRESS", 0);
    uint64_t first = (uint64_t)check_env("WEIR_FLEET_FIRST", 0), done = 0;
    int64_t mine = seeds == 1 ? 1 : (seeds * scene->share + 99) / 100, broken = 0;
    memset(&all, 0, sizeof all);
    for (uint64_t number = first; done < (uint64_t)mine && broken < 5; number++, done++) {
        broken += !run_seed(scene, number);
        if (progress > 0 && done > 0 && done % (uint64_t)progress == 0) {
            printf("# %s: %" PRIu64 " seeds\n", scene->name, done);
            fflush(stdout);
        }
    }
    CHECK_EQ(broken, 0);
    printf("# %s: %" PRIu64 " seeds, %" PRId64 " windows, %" PRId64 " events, %" PRId64 " faults\n",
           scene->name, done, all.windows, all.events, all.faults);
}

TEST(nothing_is_over_with_every_fault)
{
    run_scene(&scenes[0]);
}

TEST(slow_answers_make_nothing_live_longer)
{
    run_scene(&scenes[1]);
}

TEST(a_share_stays_a_share)
{
    run_scene(&scenes[2]);
}

TEST(a_redis_that_is_trusted_is_over_by_no_more_than_it_lost)
{
    run_scene(&scenes[3]);
}

TEST(with_two_masters_nothing_is_over_a_total_for_each)
{
    run_scene(&scenes[4]);
}

/* ---- without faults ---- */

static struct sim_fleet calm(int32_t coordinator, int64_t nodes)
{
    struct sim_fleet sim = {.seed = check.seed, .nodes = nodes, .users = 1, .windows = 8, .tiers = 1};
    sim.coordinator = coordinator;
    sim.load = 1.5;
    sim.sparse = 1;
    sim.terms = (struct lease_terms){.kind = LEASE_QUOTA, .total = 100000, .window_ns = 60 * SECOND};
    return sim;
}

/* T >= 100*N*c. */
TEST(without_faults_almost_all_of_the_total_is_used_with_hardly_more_than_a_write_for_a_chunk)
{
    for (int32_t coordinator = SIM_ZOOKEEPER; coordinator <= SIM_WEIR; coordinator++)
        for (int64_t nodes = 2; nodes <= 50; nodes += 16) {
            struct sim_fleet sim = calm(coordinator, nodes);
            struct sim_fleet_result result;
            if (!CHECK(weir_sim_fleet_run(&sim, NULL, NULL, &result)))
                return;
            double writes = (double)result.writes / (double)result.chunks;
            if (!CHECK(result.over == 0 && result.use >= 0.98 && writes <= 1.1))
                printf("# %s, %" PRId64 " nodes: use %.4f, %.3f writes a chunk. %s\n",
                       weir_sim_coordinator_name(coordinator), nodes, result.use, writes, result.first);
        }
}

static void check_use(const struct sim_fleet *sim, double least)
{
    struct sim_fleet_result result;
    if (CHECK(weir_sim_fleet_run(sim, NULL, NULL, &result)) &&
        !CHECK(result.over == 0 && result.use >= least))
        printf("# %s, %s of %" PRId64 ", load %g, %d tiers: use %.4f, not %.2f. %s\n",
               weir_sim_coordinator_name(sim->coordinator),
               sim->terms.kind == LEASE_QUOTA ? "quota" : "bucket", sim->terms.total, sim->load, sim->tiers,
               result.use, least, result.first);
}

/* Two of three who find nothing do not wait for it: so units have to be there when they come. */
TEST(where_little_is_asked_for_most_of_it_passes)
{
    for (int32_t coordinator = SIM_ZOOKEEPER; coordinator <= SIM_WEIR; coordinator++)
        for (int32_t kind = LEASE_QUOTA; kind <= LEASE_BUCKET; kind++)
            for (double load = 0.3; load < 1; load *= 3) {
                struct sim_fleet sim = calm(coordinator, 6);
                sim.load = load;
                sim.windows = 30;
                sim.terms = (struct lease_terms){.kind = kind, .total = 1000, .window_ns = SECOND};
                sim.terms.burst = kind == LEASE_BUCKET ? 1000 : 0;
                check_use(&sim, 0.65);
            }
}

TEST(tiers_cost_hardly_anything_of_a_total)
{
    for (int32_t tiers = 2; tiers <= 3; tiers++)
        for (int32_t coordinator = SIM_ZOOKEEPER; coordinator <= SIM_WEIR; coordinator++)
            for (int32_t kind = LEASE_QUOTA; kind <= LEASE_BUCKET; kind++) {
                struct sim_fleet sim = calm(coordinator, 6);
                sim.tiers = tiers;
                sim.terms = (struct lease_terms){.kind = kind, .total = 4000, .window_ns = SECOND};
                sim.terms.burst = kind == LEASE_BUCKET ? 4000 : 0;
                check_use(&sim, 0.9);
            }
}

TEST(a_seed_is_one_history)
{
    struct sim_fleet sim = calm(SIM_ZOOKEEPER, 5);
    struct sim_fleet_result one, two, other;
    sim.faults = SIM_ALL;
    sim.terms.total = 1000;
    CHECK(weir_sim_fleet_run(&sim, NULL, NULL, &one) && weir_sim_fleet_run(&sim, NULL, NULL, &two));
    sim.seed++;
    CHECK(weir_sim_fleet_run(&sim, NULL, NULL, &other));
    CHECK(memcmp(&one, &two, sizeof one) == 0);
    CHECK(one.fingerprint != other.fingerprint);
    sim.coordinator = SIM_REDIS;
    sim.faults |= SIM_SPLIT;
    CHECK(weir_sim_fleet_run(&sim, NULL, NULL, &one) && weir_sim_fleet_run(&sim, NULL, NULL, &two));
    CHECK(memcmp(&one, &two, sizeof one) == 0);
}

TEST(every_fault_happens)
{
    struct sim_fleet sim = calm(SIM_REDIS, 4);
    struct sim_fleet_result result;
    sim.windows = 60;
    sim.faults = SIM_ALL | SIM_SPLIT;
    sim.terms.total = 1000;
    CHECK(weir_sim_fleet_run(&sim, NULL, NULL, &result));
    for (int bit = 0; weir_sim_fault_name(bit); bit++)
        if (!CHECK(result.faults[bit] > 0))
            printf("# never: %s\n", weir_sim_fault_name(bit));
}

TEST(many_users_need_no_more_memory_than_one)
{
    struct sim_fleet sim = calm(SIM_ZOOKEEPER, 100);
    struct sim_fleet_result result;
    sim.users = 2000;
    sim.sparse = 0.01;
    sim.windows = 4;
    sim.terms.total = 1000;
    CHECK(weir_sim_fleet_run(&sim, NULL, NULL, &result));
    CHECK_EQ(result.over, 0);
    CHECK(result.pools > 20 && result.pools < 300); /* about 4 % of them */
}

TEST(what_cannot_be_simulated_is_said)
{
    char why[200];
    struct sim_fleet sim = calm(SIM_ZOOKEEPER, 0);
    CHECK(!weir_sim_fleet_check(&sim, why, sizeof why));
    CHECK_STR(why, "1 to 100000 nodes can be simulated");
    sim = calm(7, 4);
    CHECK(!weir_sim_fleet_check(&sim, why, sizeof why));
    CHECK_STR(why, "the coordinator is zookeeper, redis or weir");
    sim = calm(SIM_WEIR, 4);
    sim.windows = INT64_C(10000000);
    sim.terms.window_ns = INT64_C(86400) * SECOND;
    CHECK(!weir_sim_fleet_check(&sim, why, sizeof why));
    sim = calm(SIM_WEIR, 4);
    sim.load = 0;
    CHECK(!weir_sim_fleet_check(&sim, why, sizeof why));
    CHECK(weir_sim_law_name(SIM_LAWS) == NULL && weir_sim_law_name(-1) == NULL);
    CHECK(weir_sim_fault_name(13) == NULL && weir_sim_coordinator_name(3) == NULL);
}
