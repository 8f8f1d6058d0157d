/* SPDX-License-Identifier: MIT */
#include "fleet/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/humanize.h"
#include "base/sat.h"
#include "base/text.h"
#include "weir.h"

/* ---- words ---- */

/* "a minute"; NULL: the time has no name. */
static const char *name_window(int64_t window_ns)
{
    static const struct {
        int64_t time_ns;
        const char *name;
    } names[] = {{WEIR_SEC, "a second"},
                 {60 * WEIR_SEC, "a minute"},
                 {3600 * WEIR_SEC, "an hour"},
                 {86400 * WEIR_SEC, "a day"},
                 {7 * 86400 * WEIR_SEC, "a week"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].time_ns == window_ns)
            return names[i].name;
    return NULL;
}

const char *weir_fleet_plan_window(int64_t window_ns, char text[static PLAN_WINDOW_MAX])
{
    char time[HUMANIZE_MAX];
    const char *name = name_window(window_ns);
    if (name)
        (void)snprintf(text, PLAN_WINDOW_MAX, "%s", name);
    else
        (void)snprintf(text, PLAN_WINDOW_MAX, "every %s", weir_humanize_duration(window_ns, 0, time));
    return text;
}

/* 833/s, 2.5/s, less than 0.01/s */
static const char *format_per_second(double number, char text[static HUMANIZE_MAX])
{
    char digits[HUMANIZE_MAX];
    if (number < 0.01)
        (void)snprintf(text, HUMANIZE_MAX, "less than 0.01/s");
    else if (number < 10)
        (void)snprintf(text, HUMANIZE_MAX, "%.2g/s", number);
    else
        (void)snprintf(text, HUMANIZE_MAX, "%.60s/s",
                       weir_humanize_number(number < 1e18 ? (int64_t)(number + 0.5) : INT64_MAX, digits));
    return text;
}

/* 1 %, 2.5 %, 100 % */
static const char *format_percent(double percent, char text[static HUMANIZE_MAX])
{
    (void)snprintf(text, HUMANIZE_MAX, "%.*f %%",
                   percent >= 10 || percent == (double)(int64_t)percent ? 0
                   : percent >= 0.1                                     ? 1
                                                                        : 3,
                   percent);
    return text;
}

/* ---- figures ---- */

/* What a URL's query says behind writes=; 0: nothing. */
static int64_t read_plan_writes(const char *query)
{
    while (*query) {
        long long number;
        if (sscanf(query, "writes=%18lld", &number) == 1 && number > 0)
            return number;
        query += strcspn(query, "&");
        query += *query == '&';
    }
    return 0;
}

static bool is_redis(const char *scheme)
{
    return strncmp(scheme, "redis", 5) == 0;
}

static bool is_local(const struct fleet_plan_input *ask)
{
    return strcmp(ask->scheme, "local") == 0;
}

static int64_t most_writes(const struct fleet_plan_input *ask)
{
    return ask->writes > 0                         ? ask->writes
           : is_local(ask)                         ? INT64_MAX
           : strcmp(ask->scheme, "zookeeper") == 0 ? PLAN_WRITES_ZOOKEEPER
           : is_redis(ask->scheme)                 ? PLAN_WRITES_REDIS
                                                   : PLAN_WRITES_WEIR;
}

static int64_t round_trip(const struct fleet_plan_input *ask)
{
    return strcmp(ask->scheme, "zookeeper") == 0 ? PLAN_ROUND_ZOOKEEPER_NS : PLAN_ROUND_NS;
}

static double window_seconds(const struct fleet_plan_input *ask)
{
    return (double)ask->terms.window_ns / (double)WEIR_SEC;
}

/* What nodes hold their chunks of. */
static int64_t shared_out(const struct fleet_plan_input *ask)
{
    return ask->terms.kind == LEASE_BUCKET ? ask->terms.burst : ask->terms.total;
}

/* Of the total, or of the burst, that N chunks are. */
static double percent_in(const struct fleet_plan_input *ask, int64_t nodes, int64_t chunk)
{
    double percent = 100.0 * (double)nodes * (double)chunk / (double)max64(shared_out(ask), 1);
    return percent < 100 ? percent : 100;
}

static void compute_figures(struct fleet_plan *plan, const struct fleet_plan_input *ask)
{
    const struct lease_terms *terms = &ask->terms;
    plan->nodes = max64(ask->nodes, 1);
    plan->chunk = max64(terms->chunk > 0 ? terms->chunk : terms->base, 1);
    plan->unspent = percent_in(ask, plan->nodes, plan->chunk);
    plan->writes = div_up(max64(terms->total, 1), plan->chunk);
    plan->writes_second = (double)plan->writes / window_seconds(ask);
    plan->writes_most = most_writes(ask);
    plan->share = ask->share ? terms->total / plan->nodes : 0;
    plan->over = ask->share ? terms->total : 0;
}

/* ---- what it says ---- */

/* Leases are for many units a write. A quarter of all in chunks is what a larger base may cost. */
static void note_single_units(const struct fleet_plan *plan, const struct fleet_plan_input *ask,
                              struct text *text)
{
    char second[HUMANIZE_MAX];
    int64_t chunk = shared_out(ask) / sat_mul(4, plan->nodes);
    if (plan->chunk > 1 || plan->writes_second < PLAN_WRITES_NOTED)
        return;
    weir_text_print(text, "; note: each unit costs a write, ");
    if (chunk > 1)
        weir_text_print(
            text, "base=%lld would make it %s", (long long)chunk,
            format_per_second((double)div_up(ask->terms.total, chunk) / window_seconds(ask), second));
    else
        weir_text_print(text, "as if one server decided; fewer nodes, or weir servers between, would make it "
                              "less");
}

static void describe_cost(struct fleet_plan *plan, const struct fleet_plan_input *ask)
{
    char chunk[HUMANIZE_MAX], percent[HUMANIZE_MAX], writes[HUMANIZE_MAX], second[HUMANIZE_MAX],
        window[PLAN_WINDOW_MAX];
    bool by_second = ask->terms.window_ns == WEIR_SEC;
    struct text text;
    weir_text_init(&text, plan->cost, sizeof plan->cost);
    weir_text_print(&text, "chunk %s, at most %s %s in chunks", weir_humanize_number(plan->chunk, chunk),
                    format_percent(plan->unspent, percent),
                    ask->terms.kind == LEASE_BUCKET ? "of the burst held" : "unspent");
    if (is_local(ask))
        return;
    weir_text_print(&text, ", %s coordinator write%s %s", weir_humanize_number(plan->writes, writes),
                    plan->writes == 1 ? "" : "s", weir_fleet_plan_window(ask->terms.window_ns, window));
    if (!by_second)
        weir_text_print(&text, " (%s)", format_per_second(plan->writes_second, second));
    note_single_units(plan, ask, &text);
}

/* "minute" of "a minute"; "window" where it has no name. */
static const char *noun_of(int64_t window_ns)
{
    const char *name = name_window(window_ns);
    return name ? strchr(name, ' ') + 1 : "window";
}

static void describe_share(struct text *text, const struct fleet_plan *plan,
                           const struct fleet_plan_input *ask)
{
    char units[HUMANIZE_MAX], window[PLAN_WINDOW_MAX];
    weir_text_print(text, "each node may pass %s %s for itself; worst case, ",
                    weir_humanize_number(plan->share, units),
                    weir_fleet_plan_window(ask->terms.window_ns, window));
    if (ask->terms.kind == LEASE_BUCKET)
        weir_text_print(text, "at the time of the loss: twice the burst");
    else
        weir_text_print(text, "in the %s of the loss: twice the total", noun_of(ask->terms.window_ns));
}

static void describe_loss(struct fleet_plan *plan, const struct fleet_plan_input *ask)
{
    struct text text;
    weir_text_init(&text, plan->lost, sizeof plan->lost);
    if (is_local(ask)) {
        weir_text_print(&text, "the coordinator is this process: it cannot be lost");
        return;
    }
    weir_text_print(&text, "coordinator lost: ");
    if (ask->share)
        describe_share(&text, plan, ask);
    else
        weir_text_print(&text, "what nodes hold is spent, then all is refused; never above the limit");
    if (ask->trust)
        weir_text_print(&text, "; failover=trust: what a failover loses can pass once more");
}

/* ---- what cannot work ---- */

static void refuse_small(struct fleet_plan *plan, const struct fleet_plan_input *ask)
{
    char total[HUMANIZE_MAX], nodes[HUMANIZE_MAX], window[PLAN_WINDOW_MAX];
    (void)snprintf(plan->why, sizeof plan->why,
                   "%s %s for %s nodes is less than one for each: chunks cannot share that out; let one "
                   "server decide each key (a policy without fleet:, asked by all), or say fewer nodes",
                   weir_humanize_number(ask->terms.total, total),
                   weir_fleet_plan_window(ask->terms.window_ns, window),
                   weir_humanize_number(plan->nodes, nodes));
}

static void refuse_short(struct fleet_plan *plan, const struct fleet_plan_input *ask)
{
    char window[HUMANIZE_MAX], trip[HUMANIZE_MAX], least[HUMANIZE_MAX];
    (void)snprintf(plan->why, sizeof plan->why,
                   "a window of %s is shorter than %d round trips to the coordinator, about %s each: use "
                   "windows of %s or more, or a bucket, as in 10k/s burst=20k",
                   weir_humanize_duration(ask->terms.window_ns, 0, window), PLAN_ROUNDS,
                   weir_humanize_duration(round_trip(ask), 0, trip),
                   weir_humanize_duration(PLAN_ROUNDS * round_trip(ask), 0, least));
}

static void refuse_burst(struct fleet_plan *plan, const struct fleet_plan_input *ask)
{
    char burst[HUMANIZE_MAX], chunk[HUMANIZE_MAX];
    (void)snprintf(
        plan->why, sizeof plan->why,
        "a burst of %s does not hold two chunks of %s, so a chunk would be dead when it comes: use "
        "burst=%lld or more, or a base of %lld or less",
        weir_humanize_number(ask->terms.burst, burst), weir_humanize_number(plan->chunk, chunk),
        (long long)sat_mul(plan->chunk, 2), (long long)max64(ask->terms.burst / 2, 1));
}

/* Chunks die, so no law is broken; but there are never enough alive for all. */
static void refuse_too_many_nodes(struct fleet_plan *plan, const struct fleet_plan_input *ask)
{
    char burst[HUMANIZE_MAX], chunk[HUMANIZE_MAX], nodes[HUMANIZE_MAX];
    int64_t base = ask->terms.burst / plan->nodes;
    struct text text;
    weir_text_init(&text, plan->why, sizeof plan->why);
    weir_text_print(&text,
                    "a burst of %s is less than a chunk of %s for each of %s nodes, so there would always be "
                    "some that have none: use burst=%lld or more, ",
                    weir_humanize_number(ask->terms.burst, burst), weir_humanize_number(plan->chunk, chunk),
                    weir_humanize_number(plan->nodes, nodes), (long long)sat_mul(plan->chunk, plan->nodes));
    if (base > 0)
        weir_text_print(&text, "a base of %lld or less, ", (long long)base);
    weir_text_print(&text,
                    "fewer nodes, or let one server decide each key (a policy without fleet:, asked by all)");
}

/* The smallest chunk for which the coordinator is good enough; 0: none that leaves the nodes most of the
 * total to spend. */
static int64_t find_chunk(const struct fleet_plan *plan, const struct fleet_plan_input *ask)
{
    double writes = (double)plan->writes_most * window_seconds(ask);
    int64_t chunk = writes >= 1 ? div_up(ask->terms.total, (int64_t)(writes < 1e18 ? writes : 1e18)) : 0;
    bool fits = ask->terms.kind == LEASE_BUCKET ? chunk <= ask->terms.burst / max64(plan->nodes, 2)
                                                : percent_in(ask, plan->nodes, chunk) <= 25;
    return fits ? chunk : 0;
}

static void refuse_writes(struct fleet_plan *plan, const struct fleet_plan_input *ask)
{
    char second[HUMANIZE_MAX], most[HUMANIZE_MAX], percent[HUMANIZE_MAX];
    struct text text;
    int64_t chunk = find_chunk(plan, ask);
    weir_text_init(&text, plan->why, sizeof plan->why);
    weir_text_print(&text, "%s are more writes than the coordinator is good for, %s/s: ",
                    format_per_second(plan->writes_second, second),
                    weir_humanize_number(plan->writes_most, most));
    if (chunk > 0)
        weir_text_print(&text, "base=%lld would do, with at most %s %s; or ", (long long)chunk,
                        format_percent(percent_in(ask, plan->nodes, chunk), percent),
                        ask->terms.kind == LEASE_BUCKET ? "of the burst held" : "unspent");
    if (strcmp(ask->scheme, "weir") != 0)
        weir_text_print(&text,
                        "let the nodes lease from a few weir servers (weir://), which then are the nodes");
    else
        weir_text_print(&text, "let the nodes lease from a few weir servers that lease from this one");
    weir_text_print(&text, "; writes=N says what yours is good for");
}

static void find_faults(struct fleet_plan *plan, const struct fleet_plan_input *ask)
{
    bool bucket = ask->terms.kind == LEASE_BUCKET;
    if (!bucket && ask->terms.total < plan->nodes)
        refuse_small(plan, ask);
    else if (!bucket && !is_local(ask) && ask->terms.window_ns < PLAN_ROUNDS * round_trip(ask))
        refuse_short(plan, ask);
    else if (bucket && ask->terms.burst / 2 < plan->chunk)
        refuse_burst(plan, ask);
    else if (bucket && ask->terms.burst / plan->nodes < plan->chunk)
        refuse_too_many_nodes(plan, ask);
    else if (plan->writes_second > (double)plan->writes_most)
        refuse_writes(plan, ask);
    plan->works = !plan->why[0];
}

void weir_fleet_plan_make(struct fleet_plan *plan, const struct fleet_plan_input *ask)
{
    memset(plan, 0, sizeof *plan);
    compute_figures(plan, ask);
    describe_cost(plan, ask);
    describe_loss(plan, ask);
    find_faults(plan, ask);
}

void weir_fleet_plan_at(struct fleet_plan *plan, const struct lease_terms *terms,
                        const struct server_url *url, const struct weir_fleet_options *options)
{
    const struct fleet_plan_input ask = {.terms = *terms,
                                         .nodes = options->nodes,
                                         .scheme = url->scheme,
                                         .writes = read_plan_writes(url->query),
                                         .share = options->on_loss == WEIR_FLEET_SHARE,
                                         .trust = strstr(url->query, "failover=trust") != NULL};
    weir_fleet_plan_make(plan, &ask);
}
