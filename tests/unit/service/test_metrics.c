/* SPDX-License-Identifier: MIT */
/*
 * What Prometheus scrapes: its text in both dialects, and that it counts what clients were answered.
 */
#define _POSIX_C_SOURCE 200809L

#include "disk_sim.h"
#include "service/health.h"
#include "service/http/http.h"
#include "service/metrics.h"
#include "service/policies/apply.h"
#include "service/process_stat.h"
#include "store/commit.h"
#include "unit/service/command_kit.h"
#include "unit/service/exposition.h"

#define POLICIES                                                                                             \
    "policies:\n"                                                                                            \
    "  - {name: api, limits: [2/h, 3/d name=day], keys: 1000}\n"                                             \
    "  - {name: login, limits: 1/m, keys: 1000, mode: shadow}\n"

static struct buffer text;

/* The text, with a NUL behind it; checked. */
static const char *scrape(bool openmetrics)
{
    text.start = text.end = 0;
    text.most = 0;
    bool begins = !kit.worker->snapshot;
    if (begins)
        weir_read_begin(kit.worker);
    weir_metrics_write(kit.worker, NULL, openmetrics, &text);
    if (begins)
        weir_read_end(kit.worker);
    buffer_put(&text, "", 1);
    CHECK(!text.failed);
    CHECK(exposition_check(buffer_bytes(&text), openmetrics));
    return buffer_bytes(&text);
}

__attribute__((format(printf, 1, 2))) static int64_t scraped(const char *format, ...)
{
    char series[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(series, sizeof series, format, args);
    va_end(args);
    return exposition_value(scrape(false), series);
}

static int64_t decisions(const char *policy, const char *protocol, const char *result)
{
    return scraped("weir_decisions_total{policy=\"%s\",protocol=\"%s\",result=\"%s\"}", policy, protocol,
                   result);
}

static void metrics_end(void)
{
    weir_buffer_free(&text);
    kit_end();
}

/* Another client of the same server, by HTTP; its answer, with a NUL behind it. */
__attribute__((format(printf, 1, 2))) static const char *get(const char *format, ...)
{
    static char answer[8192];
    static const struct http_limits limits = {.head = 8192, .body = 1024};
    char bytes[512] = "GET ";
    struct http_request request;
    struct http_parse_result parsed;
    struct kit client;
    va_list args;
    va_start(args, format);
    size_t len = 4 + (size_t)vsnprintf(bytes + 4, 256, format, args);
    va_end(args);
    len += (size_t)snprintf(bytes + len, sizeof bytes - len, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK_EQ(weir_http_parse(&limits, bytes, len, &request, &parsed), HTTP_WHOLE);
    kit_join(&client, &kit, 0);
    (void)weir_http_run(kit.worker, &client.session, &request, false, &client.out);
    (void)snprintf(answer, sizeof answer, "%.*s", (int)buffer_len(&client.out), buffer_bytes(&client.out));
    kit_leave(&client);
    return answer;
}

/* The text of a field of JSON; valid until the next one. */
static const char *json_text(const char *json, const char *name)
{
    static char value[64];
    char start[64];
    (void)snprintf(start, sizeof start, "\"%s\":\"", name);
    const char *at = strstr(json, start);
    at = at ? at + strlen(start) : "";
    (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\""), at);
    return value;
}

/* ---- the text ---- */

TEST(the_text_of_a_small_server_is_this)
{
    static const char first[] =
        "# HELP weir_decisions_total Decisions by policy, protocol and result.\n"
        "# TYPE weir_decisions_total counter\n"
        "weir_decisions_total{policy=\"api\",protocol=\"resp\",result=\"allowed\"} 2\n"
        "weir_decisions_total{policy=\"api\",protocol=\"resp\",result=\"refused\"} 1\n"
        "weir_decisions_total{policy=\"api\",protocol=\"resp\",result=\"shadow_refused\"} 0\n"
        "weir_decisions_total{policy=\"api\",protocol=\"resp\",result=\"unavailable\"} 0\n"
        "weir_decisions_total{policy=\"api\",protocol=\"http\",result=\"allowed\"} 0\n"
        "weir_decisions_total{policy=\"api\",protocol=\"http\",result=\"refused\"} 0\n"
        "weir_decisions_total{policy=\"api\",protocol=\"http\",result=\"shadow_refused\"} 0\n"
        "weir_decisions_total{policy=\"api\",protocol=\"http\",result=\"unavailable\"} 0\n"
        "weir_decisions_total{policy=\"login\",protocol=\"resp\",result=\"allowed\"} 1\n"
        "weir_decisions_total{policy=\"login\",protocol=\"resp\",result=\"refused\"} 0\n"
        "weir_decisions_total{policy=\"login\",protocol=\"resp\",result=\"shadow_refused\"} 1\n"
        "weir_decisions_total{policy=\"login\",protocol=\"resp\",result=\"unavailable\"} 0\n"
        "weir_decisions_total{policy=\"login\",protocol=\"http\",result=\"allowed\"} 0\n"
        "weir_decisions_total{policy=\"login\",protocol=\"http\",result=\"refused\"} 0\n"
        "weir_decisions_total{policy=\"login\",protocol=\"http\",result=\"shadow_refused\"} 0\n"
        "weir_decisions_total{policy=\"login\",protocol=\"http\",result=\"unavailable\"} 0\n"
        "# HELP weir_refused_total Refusals by the limit that refused.\n"
        "# TYPE weir_refused_total counter\n"
        "weir_refused_total{policy=\"api\",limit=\"2/h\"} 1\n"
        "weir_refused_total{policy=\"api\",limit=\"day\"} 0\n"
        "weir_refused_total{policy=\"login\",limit=\"1/m\"} 0\n"
        "# HELP weir_units_total Units of requests that were allowed.\n"
        "# TYPE weir_units_total counter\n"
        "weir_units_total{policy=\"api\"} 2\n"
        "weir_units_total{policy=\"login\"} 2\n";
    if (!kit_begin(POLICIES))
        return;
    for (int i = 0; i < 3; i++)
        (void)say("WEIR.TAKE api k");
    for (int i = 0; i < 2; i++)
        (void)say("WEIR.TAKE login k");
    CHECK(begins(scrape(false), first));
    metrics_end();
}

TEST(openmetrics_names_families_units_and_its_end)
{
    if (!kit_begin(POLICIES))
        return;
    (void)say("WEIR.TAKE api k");
    const char *open = scrape(true);
    CHECK(begins(open, "# HELP weir_decisions Decisions by policy, protocol and result.\n"
                       "# TYPE weir_decisions counter\n"
                       "weir_decisions_total{policy=\"api\",protocol=\"resp\",result=\"allowed\"} 1\n"));
    CHECK(strstr(open, "# TYPE weir_memory_used_bytes gauge\n# UNIT weir_memory_used_bytes bytes\n"));
    CHECK(strstr(open, "# TYPE weir_build info\nweir_build_info{version=\"" WEIR_VERSION "\"} 1\n"));
    CHECK(strstr(open, "# TYPE process_cpu_seconds counter\n# UNIT process_cpu_seconds seconds\n"));
    CHECK(strstr(open, "weir_decision_duration_seconds_bucket{protocol=\"resp\",le=\"+Inf\"} 1\n"));
    CHECK_STR(open + strlen(open) - 6, "# EOF\n");
    CHECK(!strstr(scrape(false), "# EOF"));
    CHECK(!strstr(scrape(false), "# UNIT"));
    metrics_end();
}

TEST(labels_are_escaped)
{
    if (!kit_begin("policies: [{name: 'a:b/c.d-e_f', limits: ['1/h name=say\"\\hé']}]"))
        return;
    for (int i = 0; i < 2; i++)
        (void)say("WEIR.TAKE a:b/c.d-e_f k");
    CHECK_EQ(scraped("weir_refused_total{policy=\"a:b/c.d-e_f\",limit=\"say\\\"\\\\hé\"}"), 1);
    metrics_end();
}

TEST(no_key_is_in_the_text)
{
    if (!kit_begin(POLICIES))
        return;
    (void)say("WEIR.TAKE api customer-of-ours");
    (void)say("WEIR.OVERRIDE SET api another-customer 7/h");
    (void)say("WEIR.OVERRIDE SET api some-* 8/h");
    (void)say("CL.THROTTLE cell-customer 1 1 60");
    CHECK(!strstr(scrape(false), "customer") && !strstr(scrape(false), "some-"));
    metrics_end();
}

TEST(more_than_fits_fails_and_writes_no_more)
{
    if (!kit_begin(POLICIES))
        return;
    struct buffer small = {.most = 1000};
    weir_read_begin(kit.worker);
    weir_metrics_write(kit.worker, NULL, false, &small);
    weir_read_end(kit.worker);
    CHECK(small.failed && buffer_len(&small) <= 1000);
    weir_buffer_free(&small);
    metrics_end();
}

TEST(many_policies_have_all_their_series)
{
    enum { MANY = 400 };
    static char yaml[MANY * 64];
    size_t len = (size_t)snprintf(yaml, sizeof yaml, "memory: 256MiB\npolicies:\n");
    for (int i = 0; i < MANY; i++)
        len +=
            (size_t)snprintf(yaml + len, sizeof yaml - len, "  - {name: p%03d, limits: 1/h, keys: 64}\n", i);
    if (!kit_begin(yaml))
        return;
    (void)say("WEIR.TAKE p399 k");
    CHECK_EQ(decisions("p000", "http", "unavailable"), 0);
    CHECK_EQ(decisions("p399", "resp", "allowed"), 1);
    CHECK_EQ(scraped("weir_keys{policy=\"p399\"}"), 1);
    CHECK_EQ(scraped("weir_keys{policy=\"p200\"}"), 0);
    CHECK_EQ(scraped("weir_policies"), MANY);
    CHECK(buffer_len(&text) < MANY * 2048); /* linear */
    metrics_end();
}

/* ---- counts ---- */

#define WATCHED 4
static const char *const watched[WATCHED] = {"api", "shadow", "idle", "deep"};
#define TRAFFIC(API)                                                                                         \
    "policies:\n"                                                                                            \
    "  - {name: api, limits: " API ", keys: 1000, overrides: [{key: big, limits: 20/h}, "                    \
    "{key: 'part-*', limits: 4/h name=part}]}\n"                                                             \
    "  - {name: shadow, limits: 3/h, keys: 1000, mode: shadow}\n"                                            \
    "  - {name: idle, limits: 3/h, keys: 1000, mode: disabled}\n"                                            \
    "  - {name: deep, limits: [5/m name=minute, 7/h name=hour], keys: 1000}\n"

/* What a client has seen. */
#define LABELS 16
static struct {
    int64_t results[WATCHED][PROTOCOLS][RESULTS];
    struct {
        char policy[16], label[64];
        int64_t refused;
    } labels[LABELS];
    size_t label_count;
} client;

static void see_refusal(const char *policy, const char *label)
{
    size_t at = 0;
    while (at < client.label_count &&
           (strcmp(client.labels[at].policy, policy) != 0 || strcmp(client.labels[at].label, label) != 0))
        at++;
    if (at == client.label_count && CHECK(at < LABELS)) {
        client.label_count++;
        (void)snprintf(client.labels[at].policy, sizeof client.labels[at].policy, "%s", policy);
        (void)snprintf(client.labels[at].label, sizeof client.labels[at].label, "%s", label);
    }
    client.labels[at].refused++;
}

struct seen {
    bool allowed, shadow;
    char limit[64];
};

static struct seen take_by(enum protocol protocol, const char *policy, const char *key, int n)
{
    struct seen seen = {0};
    if (protocol == PROTOCOL_HTTP) {
        const char *answer = get("/v1/take/%s/%s?n=%d", policy, key, n);
        seen.allowed = strstr(answer, "\"allowed\":true") != NULL;
        CHECK(seen.allowed || strstr(answer, "\"allowed\":false"));
        seen.shadow = strcmp(json_text(answer, "reason"), "shadow") == 0;
        (void)snprintf(seen.limit, sizeof seen.limit, "%s", json_text(answer, "limit"));
    } else {
        (void)say("WEIR.TAKE %s %s %d", policy, key, n);
        seen.allowed = number_field("allowed") == 1;
        seen.shadow = strcmp(text_field("reason"), "shadow") == 0;
        (void)snprintf(seen.limit, sizeof seen.limit, "%s", text_field("limit"));
    }
    return seen;
}

static void take_some(struct rng *rng, int count)
{
    static const char *const keys[] = {"a", "b", "big", "part-1", "part-2"};
    for (int i = 0; i < count; i++) {
        size_t policy = (size_t)rng_between(rng, 0, WATCHED - 1);
        enum protocol protocol = (enum protocol)rng_between(rng, 0, PROTOCOLS - 1);
        const char *key = keys[rng_between(rng, 0, 4)];
        struct seen seen = take_by(protocol, watched[policy], key, (int)rng_between(rng, 1, 3));
        enum decision_result result = seen.shadow    ? RESULT_SHADOW_REFUSED
                                      : seen.allowed ? RESULT_ALLOWED
                                                     : RESULT_REFUSED;
        client.results[policy][protocol][result]++;
        if (result == RESULT_REFUSED)
            see_refusal(watched[policy], seen.limit);
    }
}

static void check_counts(const char *gone)
{
    static const char *const results[RESULTS] = {"allowed", "refused", "shadow_refused", "unavailable"};
    static const char *const protocols[PROTOCOLS] = {"resp", "http"};
    for (int policy = 0; policy < WATCHED; policy++) {
        int64_t refused = 0;
        for (int protocol = 0; protocol < PROTOCOLS; protocol++)
            for (int result = 0; result < RESULTS; result++)
                CHECK_EQ(decisions(watched[policy], protocols[protocol], results[result]),
                         client.results[policy][protocol][result]);
        for (int protocol = 0; protocol < PROTOCOLS; protocol++)
            refused += client.results[policy][protocol][RESULT_REFUSED];
        (void)say("WEIR.POLICY SHOW %s", watched[policy]); /* the same, summed up */
        CHECK_EQ(number_field("refused"), refused);
    }
    for (size_t i = 0; i < client.label_count; i++) {
        bool is_gone = strcmp(client.labels[i].label, gone) == 0;
        CHECK_EQ(scraped("weir_refused_total{policy=\"%s\",limit=\"%s\"}", client.labels[i].policy,
                         client.labels[i].label),
                 is_gone ? INT64_MIN : client.labels[i].refused);
    }
}

static void complain(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    char text_of_it[COMPLAINT_TEXT_MAX];
    printf("# %s\n", weir_complaint_text(complaint, true, text_of_it));
}

static bool apply_yaml(const char *yaml)
{
    struct weir_error err = {0};
    struct config *config = weir_config_parse("weir.yaml", yaml, strlen(yaml), complain, NULL);
    bool done = config && weir_service_apply(kit.service, config, &err);
    weir_config_free(config);
    return done;
}

TEST(counters_are_what_clients_were_answered_across_a_reload)
{
    struct rng rng = rng_new(1);
    memset(&client, 0, sizeof client);
    if (!kit_begin(TRAFFIC("[10/h, 12/d name=day]")))
        return;
    take_some(&rng, 400);
    check_counts("");
    CHECK(client.label_count >= 5); /* of own limits, a key's, a prefix's: each has refused */
    CHECK(apply_yaml(TRAFFIC("[11/h, 12/d name=day]")));
    take_some(&rng, 400);
    check_counts("10/h");
    metrics_end();
}

/* After a change to another kind of limits both must agree for a while, and either may refuse. */
TEST(limits_of_before_a_change_keep_their_counts_while_they_decide)
{
    struct rng rng = rng_new(2);
    memset(&client, 0, sizeof client);
    if (!kit_begin(TRAFFIC("3/h")))
        return;
    take_some(&rng, 200);
    CHECK(apply_yaml(TRAFFIC("[50/h algo=fixed-window, 60/h algo=fixed-window name=more]")));
    take_some(&rng, 200);
    check_counts("");
    kit_clock(&kit, 3 * 3600 * 1000);
    kit_tick(&kit);
    CHECK(apply_yaml(TRAFFIC("[51/h algo=fixed-window, 60/h algo=fixed-window name=more]")));
    CHECK_EQ(scraped("weir_refused_total{policy=\"api\",limit=\"3/h\"}"), INT64_MIN);
    metrics_end();
}

TEST(a_policy_that_is_removed_disappears_and_comes_back_with_zeros)
{
    if (!kit_begin(POLICIES))
        return;
    (void)say("WEIR.TAKE api k");
    CHECK_EQ(decisions("api", "resp", "allowed"), 1);
    CHECK(apply_yaml("policies: [{name: login, limits: 1/m}]"));
    CHECK_EQ(decisions("api", "resp", "allowed"), INT64_MIN);
    CHECK(!strstr(scrape(true), "\"api\""));
    CHECK(apply_yaml(POLICIES));
    CHECK_EQ(decisions("api", "resp", "allowed"), 0);
    CHECK_EQ(scraped("weir_refused_total{policy=\"api\",limit=\"day\"}"), 0);
    metrics_end();
}

/* Who is let through counts with each policy, who is refused with the one that refused. */
TEST(several_pairs_count_with_their_policies)
{
    if (!kit_begin("policies: [{name: one, limits: 5/h}, {name: two, limits: 2/h}]"))
        return;
    for (int i = 0; i < 3; i++)
        (void)say("WEIR.TAKE one k AND two k");
    CHECK_EQ(decisions("one", "resp", "allowed"), 2);
    CHECK_EQ(decisions("one", "resp", "refused"), 0);
    CHECK_EQ(decisions("two", "resp", "allowed"), 2);
    CHECK_EQ(decisions("two", "resp", "refused"), 1);
    CHECK_EQ(scraped("weir_refused_total{policy=\"two\",limit=\"2/h\"}"), 1);
    (void)say("WEIR.RESERVE two k 1");
    (void)say("WEIR.ACQUIRE two k 1 TIMEOUT 0");
    CHECK_EQ(scraped("weir_refused_total{policy=\"two\",limit=\"2/h\"}"), 3);
    (void)say("WEIR.TAKE one k 1 ID first");
    (void)say("WEIR.TAKE one k 1 ID first"); /* the same answer again is no decision */
    CHECK_EQ(decisions("one", "resp", "allowed"), 3);
    metrics_end();
}

TEST(what_could_not_be_decided_is_unavailable)
{
    if (!kit_begin("policies: [{name: one, limits: 5/h}, {name: two, limits: 5/h}]"))
        return;
    struct policy *two = weir_snapshot_policy(atomic_load(&kit.service->snapshot), (struct slice){"two", 3});
    two->frozen[0] = (struct frozen_range){.to = UINT64_MAX}; /* as while it is being loaded */
    two->frozen_count = 1;
    CHECK(begins(say("WEIR.TAKE two k"), "-UNAVAILABLE "));
    CHECK(begins(say("WEIR.TAKE one k AND two k"), "-UNAVAILABLE "));
    CHECK(begins(say("WEIR.CHARGE two k 1"), "-UNAVAILABLE "));
    CHECK(begins(get("/v1/take/two/k"), "HTTP/1.1 503 "));
    CHECK_EQ(decisions("two", "resp", "unavailable"), 3);
    CHECK_EQ(decisions("two", "http", "unavailable"), 1);
    CHECK_EQ(decisions("one", "resp", "unavailable"), 1);
    two->frozen_count = 0;
    (void)say("WEIR.TAKE two k x"); /* a mistake is none */
    CHECK_EQ(decisions("two", "resp", "unavailable"), 3);
    CHECK_EQ(decisions("two", "resp", "allowed"), 0);
    CHECK_EQ(scraped("weir_policy_errors_total{policy=\"two\"}"), 4);
    CHECK_EQ(scraped("weir_policy_errors_total{policy=\"one\"}"), 1); /* the first that is named */
    metrics_end();
}

TEST(limits_that_come_with_the_call_count_apart)
{
    if (!kit_begin("client_limits: {keys: 1000}"))
        return;
    for (int i = 0; i < 3; i++)
        (void)say("CL.THROTTLE k 0 1 60");
    (void)say("THROTTLE other 5 1 60");
    CHECK_EQ(scraped("weir_client_limit_decisions_total{protocol=\"resp\",result=\"allowed\"}"), 2);
    CHECK_EQ(scraped("weir_client_limit_decisions_total{protocol=\"resp\",result=\"refused\"}"), 2);
    CHECK_EQ(scraped("weir_client_limit_decisions_total{protocol=\"http\",result=\"allowed\"}"), 0);
    CHECK_EQ(scraped("weir_client_keys"), 2);
    (void)say("INFO weir");
    CHECK(strstr(text_of(got), "\r\nallowed:2\r\nrefused:2\r\n"));
    metrics_end();
}

TEST(the_server_tells_of_itself)
{
    if (!kit_begin(
            "users: [{name: default, password: secret, may: all}]\npolicies: [{name: api, limits: 5/h}]"))
        return;
    (void)say("AUTH wrong");
    (void)say("AUTH wrong");
    (void)say("AUTH worse");
    (void)say("AUTH secret");
    CHECK_EQ(scraped("weir_login_failures_total"), 3);
    (void)say("WEIR.TAKE api k 2 ID x");
    (void)say("WEIR.RESERVE api k 1");
    CHECK_EQ(scraped("weir_records{store=\"request_ids\"}"), 1);
    CHECK_EQ(scraped("weir_records{store=\"reservations\"}"), 1);
    CHECK_EQ(scraped("weir_units_total{policy=\"api\"}"), 3);
    CHECK_EQ(scraped("weir_commands_total"), 6);
    CHECK_EQ(scraped("weir_command_errors_total"), 3);
    CHECK_EQ(scraped("weir_ready"), 1);
    CHECK_EQ(scraped("weir_connections_accepted_total"), 1);
    CHECK_EQ(scraped("weir_memory_limit_bytes"), kit.service->memory);
    CHECK_EQ(scraped("weir_tls_certificate_expiry_timestamp_seconds"), INT64_MIN);
    kit.service->tls_expires_ms = INT64_C(1800000000123);
    CHECK_EQ(scraped("weir_tls_certificate_expiry_timestamp_seconds"), 1800000000);
    kit_clock(&kit, 90500);
    CHECK(strstr(scrape(false), "\nweir_uptime_seconds 90.500000000\n"));
    CHECK_EQ(scraped("weir_store_healthy"), INT64_MIN); /* it has none */
    CHECK_EQ(scraped("weir_fleet_members{policy=\"api\"}"), INT64_MIN);
    metrics_end();
}

TEST(a_command_tells_users_of_their_policies)
{
    if (!kit_begin("users: [{name: app, password: a, may: [look], policies: [api]}, {name: root, password: "
                   "r, may: all}]\n" POLICIES))
        return;
    kit_log_in(&kit, "root");
    (void)say("WEIR.METRICS");
    CHECK(begins(text_of(got), "# HELP weir_decisions_total "));
    CHECK(strstr(text_of(got), "\"login\""));
    (void)say("WEIR.METRICS openMetrics");
    CHECK(begins(text_of(got), "# HELP weir_decisions Decisions"));
    CHECK(begins(say("WEIR.METRICS xml"), "-ERR "));
    CHECK(begins(say("WEIR.METRICS openmetrics more"), "-ERR "));
    kit_log_in(&kit, "app");
    (void)say("WEIR.METRICS");
    CHECK(strstr(text_of(got), "\"api\"") && !strstr(text_of(got), "\"login\""));
    metrics_end();
}

TEST(the_kernel_knows_the_process)
{
    struct process_stat stat;
    weir_process_stat(&stat);
    CHECK_EQ(stat.threads, 1);
    CHECK(stat.resident_bytes > 100000 && stat.virtual_bytes >= stat.resident_bytes);
    CHECK(stat.open_files >= 3 && stat.open_files < stat.most_files);
    int64_t files = stat.open_files;
    FILE *more = fopen("/dev/null", "r");
    weir_process_stat(&stat);
    CHECK_EQ(stat.open_files, files + 1);
    CHECK(stat.cpu_ns > 0);
    if (more)
        (void)fclose(more);
}

/* ---- times ---- */

static int64_t at_or_below(const struct histogram *histogram, size_t bound)
{
    int64_t sum = 0;
    for (size_t i = 0; i <= bound; i++)
        sum += histogram->counts[i];
    return sum;
}

TEST(a_bound_is_the_last_of_its_bucket)
{
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        struct histogram histogram = {0};
        int64_t bound = weir_decision_bounds[i].ns;
        CHECK(i == 0 || bound > weir_decision_bounds[i - 1].ns);
        CHECK(strtod(weir_decision_bounds[i].text, NULL) == (double)bound / 1e9);
        CHECK(strtod(weir_store_wait_bounds[i].text, NULL) == (double)weir_store_wait_bounds[i].ns / 1e9);
        histogram_observe(&histogram, weir_decision_bounds, bound, 1);
        CHECK_EQ(at_or_below(&histogram, i), 1);
        histogram_observe(&histogram, weir_decision_bounds, bound + 1, 1);
        CHECK_EQ(at_or_below(&histogram, i), 1);
        histogram_observe(&histogram, weir_decision_bounds, 3 * bound, 3); /* the mean of three */
        CHECK_EQ(at_or_below(&histogram, i), 4);
        histogram_observe(&histogram, weir_decision_bounds, 3 * bound + 1, 3);
        CHECK_EQ(at_or_below(&histogram, i), 4);
        CHECK_EQ(at_or_below(&histogram, HISTOGRAM_BOUNDS), 8);
        CHECK_EQ(histogram.sum_ns, 8 * bound + 2);
    }
    struct histogram none = {0};
    histogram_observe(&none, weir_decision_bounds, 5, 0);
    CHECK_EQ(none.sum_ns, 0);
    histogram_observe(&none, weir_decision_bounds, INT64_MAX, INT64_MAX / 2);
    CHECK_EQ(none.counts[0], INT64_MAX / 2); /* nothing overflows */
}

/* Each decision is counted once, with its protocol, whatever stands beside it in a pipeline. */
TEST(every_decision_is_timed)
{
    static const char *const lines[] = {"WEIR.TAKE api k", "WEIR.TAKE api k",     "PING", "WEIR.PEEK api k",
                                        "INFO memory",     "CL.THROTTLE k 1 1 1", "PING", "WEIR.TAKE api k"};
    if (!kit_begin(POLICIES))
        return;
    (void)kit_ask_lines(&kit, lines, 4);
    (void)kit_ask_lines(&kit, lines + 5, 3);
    (void)get("/v1/take/api/k");
    (void)get("/v1/peek/api/k");
    CHECK_EQ(scraped("weir_decision_duration_seconds_count{protocol=\"resp\"}"), 5);
    CHECK_EQ(scraped("weir_decision_duration_seconds_count{protocol=\"http\"}"), 2);
    metrics_end();
}

/* ---- health ---- */

static const char *reasons(const struct service *service, bool ready)
{
    static char shown[128];
    struct buffer json = {.most = 128};
    CHECK_EQ(weir_health_ready(service, &json), ready);
    (void)snprintf(shown, sizeof shown, "%.*s", (int)buffer_len(&json), buffer_bytes(&json));
    weir_buffer_free(&json);
    return shown;
}

TEST(a_server_is_ready_unless_it_loads_or_drains)
{
    if (!kit_begin(""))
        return;
    CHECK_STR(reasons(NULL, false), "[\"loading\"]");
    CHECK_STR(reasons(kit.service, true), "[]");
    kit.service->draining = true;
    CHECK_STR(reasons(kit.service, false), "[\"draining\"]");
    CHECK_EQ(scraped("weir_ready"), 0);
    metrics_end();
}

TEST(a_server_is_alive_if_every_io_thread_was_seen)
{
    struct service_options options = {.workers = 3, .test_clock = true};
    uint32_t silent = 7;
    if (!CHECK(kit_open_with(&kit, NULL, &options)))
        return;
    for (int i = 0; i < 3; i++)
        health_beat(&kit.service->workers[i], 100000 + i);
    CHECK(weir_health_live(kit.service, 100000 + HEALTH_SILENT_MS, &silent));
    CHECK_EQ(silent, 0);
    CHECK(!weir_health_live(kit.service, 100001 + HEALTH_SILENT_MS, &silent));
    CHECK_EQ(silent, 1);
    CHECK(!weir_health_live(kit.service, 100003 + HEALTH_SILENT_MS, &silent));
    CHECK_EQ(silent, 3);
    for (int i = 0; i < 3; i++)
        health_beat(&kit.service->workers[i], 200000);
    CHECK(weir_health_live(kit.service, 200000, NULL));
    CHECK(weir_health_live(kit.service, 199999, NULL)); /* it was seen by a clock that is ahead by a moment */
    kit_end();
}

/* ---- the store ---- */

/* As the server does at the end of a round. */
static bool commit_changes(void)
{
    uint64_t ticket = weir_store_commit(kit.service->store);
    return weir_store_ticket_status(kit.service->store, ticket) == STORE_GO;
}

static bool heal_store(void)
{
    struct store *store = kit.service->store;
    for (int i = 0; i < 1000 && !weir_store_is_well(store); i++) {
        kit_clock(&kit, weir_now() / WEIR_MS + 1000);
        for (int j = 0; j < 100 && weir_store_work(store, STORE_WORK_SYNC | STORE_WORK_IMAGE); j++) {
        }
    }
    return weir_store_is_well(store);
}

TEST(a_store_that_fails_is_seen_until_it_is_well)
{
    struct sim *sim = sim_new(check.seed);
    struct service_options options = {
        .workers = 1, .test_clock = true, .disk = sim_disk(sim), .store_manual = true};
    if (!CHECK(kit_open_with(&kit, "memory: 8MiB\ndata: data\nfsync: never\n" POLICIES, &options)))
        return;
    (void)say("WEIR.TAKE api k");
    CHECK(commit_changes());
    CHECK_EQ(scraped("weir_store_healthy"), 1);
    CHECK_EQ(scraped("weir_store_failures_total"), 0);
    CHECK(scraped("weir_store_records_total") > 0);
    sim_read_only(sim, true);
    (void)say("WEIR.TAKE api k");
    CHECK(!commit_changes());
    CHECK(begins(say("WEIR.TAKE api k"), "-UNAVAILABLE "));
    CHECK(begins(say("WEIR.RESET api k"), "-UNAVAILABLE "));
    CHECK_EQ(kit_field(say("WEIR.TAKE login k"), "allowed"), 1); /* in shadow it passes in any case */
    CHECK_EQ(decisions("api", "resp", "unavailable"), 2);
    CHECK_EQ(decisions("login", "resp", "unavailable"), 0);
    CHECK_EQ(scraped("weir_store_healthy"), 0);
    CHECK_EQ(scraped("weir_ready"), 0);
    CHECK(scraped("weir_store_failures_total") > 0);
    CHECK_STR(reasons(kit.service, false), "[\"store\"]");
    sim_read_only(sim, false);
    CHECK(heal_store());
    CHECK_EQ(scraped("weir_store_healthy"), 1);
    CHECK(scraped("weir_store_last_image_timestamp_seconds") >= 0);
    CHECK_STR(reasons(kit.service, true), "[]");
    metrics_end();
    sim_free(sim);
}
