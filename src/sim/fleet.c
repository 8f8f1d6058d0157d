/* SPDX-License-Identifier: MIT */
#include "sim/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "sim/fleet_world.h"

#define QUIET_WINDOWS 3 /* at the end, without faults: units have to flow again */

const char *weir_sim_law_name(int law)
{
    static const char *const names[SIM_LAWS] = {"total", "epoch", "bucket", "granted", "returned",
                                                "early", "share", "flight", "flow"};
    return law >= 0 && law < SIM_LAWS ? names[law] : NULL;
}

const char *weir_sim_fault_name(int bit)
{
    static const char *const names[] = {"loss",     "delay",     "duplicate", "reorder", "crash",
                                        "pause",    "partition", "expiry",    "clocks",  "failover",
                                        "operator", "leave",     "split"};
    return bit >= 0 && (size_t)bit < sizeof names / sizeof names[0] ? names[bit] : NULL;
}

const char *weir_sim_coordinator_name(int kind)
{
    static const char *const names[] = {"zookeeper", "redis", "weir"};
    return kind >= SIM_ZOOKEEPER && kind <= SIM_WEIR ? names[kind] : NULL;
}

/* ---- events and messages ---- */

void weir_sim_plan(struct sim_world *world, int64_t at_ns, int32_t kind, const struct sim_node *node,
                   int32_t message)
{
    struct sim_event event = {.at_ns = at_ns,
                              .kind = kind,
                              .node = sim_node_index(world, node),
                              .life = node->life,
                              .message = message};
    if (!weir_sim_heap_push(&world->heap, event))
        world->failed = true;
}

int32_t weir_sim_message(struct sim_world *world)
{
    if (world->message_free < 0) {
        size_t count = world->message_count ? 2 * world->message_count : 64;
        struct sim_message *messages =
            count < (1U << 30) ? realloc(world->messages, count * sizeof *messages) : NULL;
        if (!messages) {
            world->failed = true;
            return -1;
        }
        for (size_t i = world->message_count; i < count; i++)
            messages[i].next = i + 1 < count ? (int32_t)i + 1 : -1;
        world->message_free = (int32_t)world->message_count;
        world->messages = messages;
        world->message_count = count;
    }
    int32_t message = world->message_free;
    world->message_free = world->messages[message].next;
    memset(&world->messages[message], 0, sizeof world->messages[message]);
    return message;
}

void weir_sim_message_free(struct sim_world *world, int32_t message)
{
    world->messages[message].next = world->message_free;
    world->message_free = message;
}

static void link_event(struct sim_world *world, struct sim_node *node, const struct sim_message *message)
{
    if (message->more)
        node->cut = false;
    weir_sim_net_link(world, node, message->up);
}

static void notice_event(struct sim_world *world, struct sim_node *node, const struct sim_message *message)
{
    if (!node->up || node->cut)
        return;
    struct lease_event event = {.kind = message->more ? LEASE_MORE : LEASE_NOTICED, .reply = message->reply};
    weir_sim_node_step(world, node, &event, NULL);
}

/* An event for a node that is stopped comes when it goes on; for a life that is over, never. Requests were
 * sent before: they arrive. */
static void handle_event(struct sim_world *world, const struct sim_event *event)
{
    struct sim_node *node = sim_node_at(world, event->node);
    struct sim_message copy;
    bool to_node = event->kind < EVENT_START && event->kind != EVENT_REQUEST;
    if (event->message >= 0 && event->kind != EVENT_REQUEST)
        copy = world->messages[event->message];
    if (to_node && (event->life != node->life || !node->alive))
        return;
    switch (event->kind) {
    case EVENT_TIMER:
        if (node->timer_ns == event->at_ns) /* else an earlier one was planned after it */
            weir_sim_node_timer(world, node);
        break;
    case EVENT_ARRIVAL:
        weir_sim_spend_arrival(world, node);
        break;
    case EVENT_LOOK:
        weir_sim_spend_look(world, node, &copy);
        break;
    case EVENT_REQUEST:
        weir_sim_net_request(world, node, event->life, event->message);
        break;
    case EVENT_REPLY:
        weir_sim_net_reply(world, node, &copy);
        break;
    case EVENT_NOTICE:
        notice_event(world, node, &copy);
        break;
    case EVENT_LINK:
        link_event(world, node, &copy);
        break;
    case EVENT_START:
        weir_sim_node_start(world, node);
        break;
    case EVENT_RUSH:
        weir_sim_spend_rush(world);
        break;
    case EVENT_UNITE:
        weir_sim_split_end(world);
        break;
    default:
        weir_sim_fault(world);
        break;
    }
}

static bool postpone_event(struct sim_world *world, struct sim_event event)
{
    const struct sim_node *node = sim_node_at(world, event.node);
    bool at_server = event.kind == EVENT_REQUEST && node->parent >= 0;
    const struct sim_node *who = at_server ? &world->nodes[node->parent] : node;
    bool its_own = event.kind < EVENT_START && event.kind != EVENT_REQUEST;
    if (!(at_server || its_own) || who->stopped_until_ns <= world->now_ns)
        return false;
    if (event.kind == EVENT_TIMER && node->timer_ns == event.at_ns)
        sim_node_at(world, event.node)->timer_ns = who->stopped_until_ns;
    event.at_ns = who->stopped_until_ns;
    if (!weir_sim_heap_push(&world->heap, event))
        world->failed = true;
    return true;
}

static void run_events(struct sim_world *world)
{
    while (world->heap.count > 0 && !world->failed) {
        if (world->heap.items[0].at_ns >= world->end_ns)
            break;
        struct sim_event event = weir_sim_heap_pop(&world->heap);
        world->now_ns = event.at_ns;
        world->result->events++;
        if (postpone_event(world, event))
            continue;
        handle_event(world, &event);
        if (event.message >= 0)
            weir_sim_message_free(world, event.message);
    }
    world->now_ns = world->end_ns;
}

/* ---- one user ---- */

/* With many users, few of them are at many nodes: the first at all, the k-th at the k-th part, each at four.
 */
static int64_t nodes_of(const struct sim_fleet *sim, int64_t user)
{
    return max64(min64(4, sim->nodes), sim->nodes / (user + 1));
}

/* Windows in which he asks: false if in none. The first user always does. */
static bool draw_active(struct sim_world *world)
{
    const struct sim_fleet *sim = world->sim;
    int64_t windows = sim->windows + QUIET_WINDOWS + 2;
    bool any = sim->users == 1 || sim->sparse >= 1.0 || world->user == 0;
    uint64_t most = (uint64_t)(sim->sparse * 18446744073709549568.0);
    world->active = NULL;
    if (any)
        return true;
    memset(world->bits, 0, sizeof(uint64_t) * (size_t)(windows / 64 + 1));
    uint64_t base = random_mix(sim->seed ^ (uint64_t)world->user * UINT64_C(0xA0761D6478BD642F));
    for (int64_t i = 0; i < sim->windows; i++)
        if (random_mix(base + (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15)) < most) {
            world->bits[i / 64] |= UINT64_C(1) << (i % 64);
            any = true;
        }
    world->active = world->bits;
    return any;
}

/* Tier by tier, each about the square root of what is below it. Gives how many ask the coordinator. */
static int64_t count_tiers(int tiers, int64_t leaves, size_t counts[static 8])
{
    memset(counts, 0, 8 * sizeof counts[0]);
    counts[tiers - 1] = (size_t)leaves;
    for (int tier = tiers - 2; tier >= 0; tier--)
        while (counts[tier] * counts[tier] < counts[tier + 1])
            counts[tier]++;
    return (int64_t)counts[0];
}

static void place_nodes(struct sim_world *world, int64_t leaves)
{
    size_t counts[8], first = 0, above = 0;
    int tiers = world->sim->tiers;
    (void)count_tiers(tiers, leaves, counts);
    for (int tier = 0; tier < tiers; tier++) {
        for (size_t i = 0; i < counts[tier]; i++) {
            struct sim_node *node = &world->nodes[first + i];
            memset(node, 0, sizeof *node);
            node->peers = (int64_t)counts[tier];
            node->parent = tier == 0 ? -1 : (int32_t)(above + i % counts[tier - 1]);
        }
        above = first;
        first += counts[tier];
    }
    world->node_count = first;
    world->server_count = first - (size_t)leaves;
}

static bool alloc_sim_nodes(struct sim_world *world, int64_t leaves)
{
    size_t most = 2 * (size_t)leaves + 8;
    if (most <= world->node_size)
        return true;
    struct sim_node *nodes = realloc(world->nodes, most * sizeof *nodes);
    if (!nodes)
        return false;
    world->nodes = nodes;
    world->node_size = most;
    return true;
}

/* Some nodes are asked much more than others, some hardly ever. */
static void draw_weights(struct sim_world *world)
{
    static const int64_t weights[] = {10, 10, 10, 10, 20, 20, 40, 1};
    world->weights = 0;
    for (size_t i = world->server_count; i < world->node_count; i++) {
        world->nodes[i].weight = weights[random_below(&world->random, 8)];
        world->weights += world->nodes[i].weight;
    }
    world->size = max64(1, world->terms.total / 40000) * 3;
    if (world->terms.total < 100 * 3)
        world->size = 1;
}

static void set_times(struct sim_world *world)
{
    const struct sim_fleet *sim = world->sim;
    int64_t window = world->terms.window_ns, span = sim->windows * window;
    /* An order in doubt, a coordinator taken for lost and the retries after it are no matter of windows. */
    int64_t patience = 2 * (world->options.answer_ns + world->options.lost_after_ns) + window / 4;
    world->now_ns = 0;
    world->quiet_ns = sim->faults ? span : 0;
    world->end_ns = sim->faults ? span + QUIET_WINDOWS * window + patience : span;
}

static bool run_user(struct sim_world *world)
{
    const struct sim_fleet *sim = world->sim;
    int64_t leaves = sim->users == 1 ? sim->nodes : nodes_of(sim, world->user);
    size_t counts[8];
    int64_t askers = count_tiers(sim->tiers, leaves, counts);
    char why[160];
    world->terms = sim->terms;
    world->options = sim->options;
    world->options.nodes = askers;
    const char *wrong;
    if (!weir_terms_complete(&world->terms, askers, why, sizeof why) ||
        !weir_lease_options_complete(&world->options, &wrong) || !alloc_sim_nodes(world, leaves))
        return false;
    world->random = random_mix(sim->seed * UINT64_C(0xE7037ED1A0B428DB) + (uint64_t)world->user);
    world->heap.count = 0;
    world->heap.next = 0;
    world->message_free = -1;
    for (size_t i = world->message_count; i > 0; i--)
        weir_sim_message_free(world, (int32_t)i - 1);
    world->asked = world->passed = 0;
    world->masters = 0;
    world->split = false;
    world->split_after_ns = 0;
    world->loss = random_between(&world->random, 10, 100);
    world->delay = random_between(&world->random, 5, 80);
    world->duplicate = random_between(&world->random, 10, 100);
    set_times(world);
    place_nodes(world, leaves);
    draw_weights(world);
    weir_sim_judge_begin(world);
    weir_sim_root_begin(world);
    for (size_t i = 0; i < world->node_count; i++)
        weir_sim_plan(world, random_below(&world->random, 100 * WEIR_MS), EVENT_START, &world->nodes[i], -1);
    weir_sim_fault_plan(world);
    weir_sim_spend_plan_rush(world);
    run_events(world);
    weir_sim_judge_end(world);
    world->result->pools++;
    world->result->members += (int64_t)world->node_count;
    return !world->failed;
}

/* ---- all ---- */

bool weir_sim_fleet_check(struct sim_fleet *sim, char *why, size_t size)
{
    const char *wrong = NULL, *options;
    if (sim->nodes < 1 || sim->nodes > 100000)
        wrong = "1 to 100000 nodes can be simulated";
    else if (sim->users < 1 || sim->users > 100000000)
        wrong = "1 to 100M users can be simulated";
    else if (sim->windows < 1 || sim->windows > 10000000)
        wrong = "1 to 10M windows can be simulated";
    else if (sim->tiers < 1 || sim->tiers > 4)
        wrong = "1 to 4 tiers can be simulated";
    else if (!weir_sim_coordinator_name(sim->coordinator))
        wrong = "the coordinator is zookeeper, redis or weir";
    else if (!(sim->load > 0) || sim->load > 1000)
        wrong = "the load is above 0 and at most 1000 times the total";
    else if (!(sim->sparse >= 0) || sim->sparse > 1)
        wrong = "sparse is a share from 0 to 1";
    else if (sim->terms.window_ns > INT64_C(1000000000000000000) / (sim->windows + 8))
        wrong = "that is more than 30 years in all; simulate fewer windows";
    if (wrong) {
        (void)snprintf(why, size, "%s", wrong);
        return false;
    }
    struct lease_options complete = sim->options;
    struct lease_terms terms = sim->terms;
    complete.nodes = sim->nodes;
    if (!weir_lease_options_complete(&complete, &options)) {
        (void)snprintf(why, size, "%s", options);
        return false;
    }
    return weir_terms_complete(&terms, sim->nodes, why, size);
}

static void count_state(const struct sim_fleet *sim, struct sim_fleet_result *result)
{
    /* /quota/NAME and five below it; who joins watches three of them. */
    result->znodes = sim->coordinator == SIM_ZOOKEEPER ? 6 * result->pools + 1 : 0;
    result->watches = sim->coordinator == SIM_ZOOKEEPER ? 3 * result->members : 0;
    result->state_bytes = (int64_t)(sizeof(struct lease) + sizeof(struct lease_balance_view));
    result->use = result->wanted > 0 ? (double)result->counted / (double)result->wanted : 0;
}

bool weir_sim_fleet_run(const struct sim_fleet *sim, void (*progress)(void *arg, int64_t done, int64_t all),
                        void *arg, struct sim_fleet_result *result)
{
    struct sim_world world = {.sim = sim, .result = result, .message_free = -1};
    memset(result, 0, sizeof *result);
    result->worst = INT64_MIN;
    world.bits = calloc((size_t)(sim->windows + QUIET_WINDOWS + 2) / 64 + 2, sizeof *world.bits);
    bool good = world.bits != NULL;
    for (world.user = 0; good && world.user < sim->users; world.user++) {
        if (draw_active(&world))
            good = run_user(&world);
        if (progress && (world.user + 1 == sim->users || world.user % 1024 == 0))
            progress(arg, world.user + 1, sim->users);
    }
    count_state(sim, result);
    free(world.bits);
    free(world.nodes);
    free(world.messages);
    free(world.heap.items);
    return good;
}
