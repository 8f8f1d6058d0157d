/* SPDX-License-Identifier: MIT */
/*
 * What HTTP clients are answered: numbers, names, fields of the head, words for people, and requests that
 * wait. Every response is read by the strict reader of response_reader.h.
 */
#include "os/clock.h"
#include "service/http/http.h"
#include "service/pending.h"
#include "service/policies/apply.h"
#include "unit/service/response_kit.h"

#define RATE_MAX INT64_C(999999999999999) /* RFC 9651: 15 digits */

static const char yaml[] = "policies:\n"
                           "  - {name: api, limits: 5/m}\n"
                           "  - {name: sub, limits: 10/100ms}\n"
                           "  - {name: odd, limits: 3/7ms}\n"
                           "  - {name: two, limits: [10/s burst=20, 100/h name=hour]}\n"
                           "  - {name: seen, limits: 1/h, mode: shadow}\n"
                           "  - {name: none, limits: 1/h, mode: disabled}\n"
                           "  - {name: big, limits: 5000000G/d}\n"
                           "  - {name: age, limits: 1/26000d}\n"
                           "  - {name: free, limits: unlimited}\n"
                           "  - {name: blocked, limits: blocked}\n"
                           "  - {name: quoted, limits: ['5/m name=a\"b\\c', 9/m name=\xc3\xa4\xe2\x82\xac]}\n"
                           "  - {name: held, limits: 5/m, reserve: {ttl: 60s}}\n";

static bool begin(void)
{
    return kit_begin(yaml);
}

static const char *header(const char *name)
{
    const char *value = response_field(&answer, name);
    return value ? value : "(none)";
}

/* ---- numbers ---- */

TEST(an_allowed_take_tells_its_numbers)
{
    if (!begin())
        return;
    CHECK_EQ(get("/v1/take/api/k?n=2"), 200);
    CHECK_STR(json_at(""), "{\"allowed\":true,\"remaining\":3,\"retry_after_ms\":0,\"reset_after_ms\":24000,"
                           "\"limit\":\"5/m\",\"reason\":\"ok\",\"count\":5,\"window_ms\":60000,\"burst\":5,"
                           "\"used\":2,\"limits\":[{\"name\":\"5/m\",\"count\":5,\"window_ms\":60000,"
                           "\"burst\":5,\"used\":2,\"remaining\":3,\"reset_after_ms\":24000,"
                           "\"retry_after_ms\":0}]}");
    kit_end();
}

TEST(what_has_no_bound_is_null)
{
    static const char *const paths[] = {"remaining", "count", "burst", "limits.0.remaining"};
    if (!begin())
        return;
    CHECK_EQ(get("/v1/take/free/k"), 200);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        CHECK_STR(json_at(paths[i]), "null");
    CHECK_STR(json_at("used"), "0");
    CHECK_STR(header("RateLimit"), "(none)");
    CHECK_STR(header("RateLimit-Policy"), "(none)");
    CHECK_EQ(get("/v1/take/free/k?headers=x"), 200);
    CHECK_STR(header("X-RateLimit-Limit"), "(none)");
    CHECK_EQ(get("/v1/take/none/k"), 200);
    CHECK_STR(json_at("reason"), "disabled");
    CHECK_STR(json_at("remaining"), "null");
    CHECK_STR(json_at("limits.0.remaining"), "1"); /* of the limit that would decide */
    kit_end();
}

TEST(what_never_passes_has_no_time)
{
    static const char *const targets[] = {"/v1/take/api/k?n=6", "/v1/take/blocked/k", "/v1/take/two/k?n=21"};
    if (!begin())
        return;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct rate_item item;
        CHECK_EQ(get(targets[i]), 429);
        CHECK_STR(json_at("retry_after_ms"), "null");
        CHECK_STR(json_at("reason"), "never");
        CHECK_STR(header("Retry-After"), "(none)");
        CHECK(read_rate_item(response_field(&answer, "RateLimit"), &item));
        CHECK_EQ(rate_param(&item, "t"), INT64_MIN);
    }
    kit_end();
}

TEST(shadow_tells_who_would_have_refused)
{
    if (!begin())
        return;
    CHECK_EQ(get("/v1/take/seen/k"), 200);
    CHECK_STR(json_at("reason"), "ok");
    CHECK_EQ(get("/v1/take/seen/k"), 200);
    CHECK_STR(json_at("reason"), "shadow");
    CHECK_STR(json_at("allowed"), "true");
    CHECK_STR(header("Retry-After"), "(none)");
    kit_end();
}

TEST(a_reservation_has_an_id_and_a_due_time)
{
    if (!begin())
        return;
    CHECK_EQ(post("/v1/reserve", "{\"policy\":\"held\",\"key\":\"k\",\"n\":5}"), 200);
    CHECK(strlen(json_at("id")) > 4 && strcmp(json_at("id"), "(none)") != 0);
    CHECK_STR(json_at("due_in_ms"), "0");
    CHECK_EQ(post("/v1/reserve", "{\"policy\":\"held\",\"key\":\"k\",\"n\":1,\"timeout_ms\":12000}"), 200);
    CHECK_STR(json_at("due_in_ms"), "12000");
    CHECK_EQ(post("/v1/reserve", "{\"policy\":\"held\",\"key\":\"k\",\"n\":1}"), 429);
    CHECK_STR(json_at("id"), "null");
    kit_end();
}

/* ---- names ---- */

TEST(names_are_escaped_in_json_and_plain_in_fields)
{
    struct rate_item item;
    if (!begin())
        return;
    CHECK_EQ(get("/v1/take/quoted/k"), 200);
    CHECK_STR(json_at("limits.0.name"), "a\"b\\c");
    CHECK_STR(json_at("limits.1.name"), "\xc3\xa4\xe2\x82\xac");
    CHECK(read_rate_item(response_field(&answer, "RateLimit"), &item));
    CHECK_STR(item.name, "quoted a?b?c");
    CHECK_EQ(get("/v1/take/quoted/k?n=5"), 429);
    CHECK_STR(json_at("detail"), "refused by a\"b\\c; retry after 12 s");
    CHECK_STR(json_at("violated-policies.0"), "quoted a?b?c"); /* as RateLimit-Policy names it */
    CHECK_EQ(post("/v1/charge", "{\"policy\":\"quoted\",\"key\":\"d\",\"n\":3}"), 200);
    CHECK_EQ(post("/v1/reset", "{\"policy\":\"quoted\",\"key\":\"d\"}"), 200);
    CHECK(kit_policy(&kit, "quoted", "5/m, 1/m name=\xc3\xa4\xe2\x82\xac"));
    CHECK_EQ(get("/v1/take/quoted/d"), 200);
    CHECK(read_rate_item(response_field(&answer, "RateLimit"), &item));
    CHECK_STR(item.name, "quoted ?????"); /* no byte above 126, also where char has no sign */
    kit_end();
}

TEST(of_several_pairs_names_have_their_policy)
{
    struct rate_item item;
    static const char body[] = "{\"pairs\":[{\"policy\":\"two\",\"key\":\"a\",\"n\":4},"
                               "{\"policy\":\"api\",\"key\":\"b\",\"n\":3}]}";
    if (!begin())
        return;
    CHECK_EQ(post("/v1/take", body), 200);
    CHECK_STR(json_at("limits.0.name"), "two/10/s burst=20");
    CHECK_STR(json_at("limits.1.name"), "two/hour");
    CHECK_STR(json_at("limits.2.name"), "api/5/m");
    CHECK_STR(json_at("limit"), "api/5/m");
    CHECK_EQ(post("/v1/take", body), 429);
    CHECK_STR(json_at("detail"), "refused by api/5/m; retry after 12 s");
    CHECK(read_rate_item(response_field(&answer, "RateLimit-Policy"), &item));
    CHECK_STR(json_at("violated-policies.0"), item.name);
    CHECK(begins(item.name, "api"));
    CHECK_EQ(get("/v1/peek/two/a"), 200);
    CHECK_STR(json_at("limits.1.used"), "4"); /* all or none */
    kit_end();
}

/* ---- fields of the head ---- */

/* Any number of any limit, and the fields stay what RFC 9651 and the draft allow. */
static void check_fields(const char *policy, int64_t n)
{
    struct rate_item quota, state;
    char target[128];
    (void)snprintf(target, sizeof target, "/v1/take/%s/f?n=%" PRId64, policy, n);
    int status = get(target);
    CHECK(status == 200 || status == 429);
    if (!CHECK(read_rate_item(response_field(&answer, "RateLimit-Policy"), &quota)) ||
        !CHECK(read_rate_item(response_field(&answer, "RateLimit"), &state))) {
        printf("# %s: %s, %s\n", target, header("RateLimit-Policy"), header("RateLimit"));
        return;
    }
    int64_t q = rate_param(&quota, "q"), w = rate_param(&quota, "w"), r = rate_param(&state, "r"),
            t = rate_param(&state, "t");
    CHECK_STR(quota.name, state.name);
    CHECK(q >= 0 && q <= RATE_MAX && w >= 1 && w <= RATE_MAX && r >= 0 && r <= RATE_MAX);
    bool never = status == 429 && strcmp(json_at("reason"), "never") == 0;
    CHECK(never ? t == INT64_MIN : t >= 1 && t <= RATE_MAX);
    if (status == 429 && !never)
        CHECK_EQ(strtoll(header("Retry-After"), NULL, 10), t); /* no reason to come earlier */
    else
        CHECK_STR(header("Retry-After"), "(none)");
}

TEST(rate_fields_stay_within_their_grammar)
{
    static const char *const policies[] = {"api", "sub", "odd", "two", "big", "age", "blocked", "quoted"};
    static const int64_t units[] = {1, 2, 3, 5, 10, 1000000000};
    if (!begin())
        return;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        for (size_t j = 0; j < sizeof units / sizeof *units; j++)
            check_fields(policies[i], units[j]);
    kit_end();
}

TEST(windows_below_a_second_are_told_as_the_rate_of_a_second)
{
    if (!begin())
        return;
    CHECK_EQ(get("/v1/take/sub/k"), 200);
    CHECK_STR(header("RateLimit-Policy"), "\"sub\";q=100;w=1");
    CHECK_EQ(get("/v1/take/odd/k"), 200);
    CHECK_STR(header("RateLimit-Policy"), "\"odd\";q=426;w=1"); /* never more than 3 in 7 ms make */
    CHECK_EQ(get("/v1/take/big/k"), 200);
    CHECK_STR(header("RateLimit-Policy"), "\"big\";q=999999999999999;w=86400");
    kit_end();
}

TEST(seconds_are_rounded_up)
{
    if (!begin())
        return;
    CHECK_EQ(get("/v1/take/api/k?n=5"), 200);
    weir_clock_set(WEIR_MS);
    CHECK_EQ(get("/v1/take/api/k"), 429);
    CHECK_STR(header("Retry-After"), "12"); /* 11.999 */
    CHECK_STR(json_at("retry_after_ms"), "11999");
    weir_clock_set(11999 * WEIR_MS);
    CHECK_EQ(get("/v1/take/api/k"), 429);
    CHECK_STR(header("Retry-After"), "1"); /* 0.001 */
    weir_clock_set(12000 * WEIR_MS);
    CHECK_EQ(get("/v1/take/api/k"), 200);
    kit_end();
}

TEST(dialects_of_the_rate_fields)
{
    if (!begin())
        return;
    weir_clock_set(1000 * WEIR_SEC);
    CHECK_EQ(get("/v1/take/api/k?headers=ietf-06"), 200);
    CHECK_STR(header("RateLimit-Limit"), "5");
    CHECK_STR(header("RateLimit-Remaining"), "4");
    CHECK_STR(header("RateLimit-Reset"), "12");
    CHECK_STR(header("RateLimit"), "(none)");
    CHECK_EQ(get("/v1/take/api/k?headers=x"), 200);
    CHECK_STR(header("X-RateLimit-Reset"), "24");
    int64_t wall_s = service_wall_ms(kit.service, clock_now()) / 1000;
    CHECK(wall_s >= 1000);
    CHECK_EQ(get("/v1/take/api/k?headers=x-epoch"), 200);
    CHECK_EQ(strtoll(header("X-RateLimit-Reset"), NULL, 10), wall_s + 36);
    CHECK_EQ(get("/v1/take/api/k?headers=none"), 200);
    CHECK_STR(header("X-RateLimit-Limit"), "(none)");
    CHECK_STR(header("RateLimit"), "(none)");
    CHECK_EQ(get("/v1/take/api/k?headers=IETF"), 400);
    CHECK_EQ(get("/v1/take/api/k?headers="), 400);
    CHECK_EQ(get("/v1/take/age/k?headers=x"), 200); /* a lifetime */
    CHECK_EQ(strtoll(header("X-RateLimit-Reset"), NULL, 10), INT64_C(26000) * 86400);
    kit_end();
}

/* Of a wait of 12 s half as much more at the most, never less; and not always the same. */
TEST(jitter_makes_waits_longer_within_its_bounds)
{
    int64_t least = INT64_MAX, most = 0;
    if (!kit_begin("http: {retry_jitter: 50%}\npolicies: [{name: api, limits: 5/m}]\n"))
        return;
    CHECK_EQ(get("/v1/take/api/k?n=5"), 200);
    for (int i = 0; i < 300; i++) {
        CHECK_EQ(get("/v1/take/api/k"), 429);
        int64_t seconds = strtoll(header("Retry-After"), NULL, 10);
        least = seconds < least ? seconds : least;
        most = seconds > most ? seconds : most;
        CHECK_STR(json_at("retry_after_ms"), "12000"); /* the body tells what is so */
    }
    CHECK(least >= 12 && least <= 13 && most >= 17 && most <= 18);
    CHECK_EQ(get("/v1/take/api/k?n=6"), 429);
    CHECK_STR(header("Retry-After"), "(none)");
    kit_end();
}

TEST(the_status_of_a_refusal)
{
    if (!begin())
        return;
    CHECK_EQ(get("/v1/take/api/k?n=6&status=403"), 403);
    CHECK_STR(json_at("status"), "403");
    CHECK_STR(header("Content-Type"), "application/problem+json");
    CHECK_EQ(get("/v1/take/api/k?n=6&status=200"), 200);
    CHECK_STR(json_at("allowed"), "false");
    CHECK_STR(json_at("status"), "(none)");
    CHECK_STR(header("Content-Type"), "application/json");
    CHECK_EQ(get("/v1/take/nope/k?status=200"), 404); /* not a refusal */
    static const char *const wrong[] = {"", "4", "42", "4290", "500", "abc", "%34%32%39"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char target[64];
        (void)snprintf(target, sizeof target, "/v1/take/api/k?status=%s", wrong[i]);
        CHECK_EQ(get(target), 400);
    }
    CHECK_EQ(get("/v1/peek/api/k?n=6&status=403"), 200); /* a peek refuses nothing */
    CHECK_EQ(post("/v1/reserve?status=403", "{\"policy\":\"held\",\"key\":\"k\",\"n\":6}"), 403);
    kit_end();
}

/* ---- words for people ---- */

static const char *words(const char *target)
{
    static char text[8192];
    char line[512];
    (void)snprintf(line, sizeof line, "GET %s", target);
    (void)ask_http(line, "Accept: text/plain\r\n", NULL);
    CHECK_STR(header("Content-Type"), "text/plain; charset=utf-8");
    (void)snprintf(text, sizeof text, "%.*s", (int)answer.body_len, answer.body);
    return text;
}

TEST(people_read_sentences)
{
    if (!begin())
        return;
    CHECK_STR(words("/v1/take/api/k"), "allowed; 4 left\n");
    CHECK_STR(words("/v1/take/api/k?n=5"), "refused by 5/m; retry after 12 s\n");
    CHECK_STR(words("/v1/take/api/k?n=6"),
              "refused by 5/m: 6 exceeds the burst of 5; waiting will not help\n");
    CHECK_STR(words("/v1/take/free/k"), "allowed\n");
    CHECK_STR(words("/v1/take/seen/k"), "allowed; 0 left\n");
    CHECK_STR(words("/v1/take/seen/k"), "allowed in shadow mode; else refused by 1/h\n");
    CHECK(strstr(words("/v1/take/nope/k"), "no policy 'nope'") != NULL);
    CHECK_EQ(answer.status, 404);
    CHECK(strstr(words("/v1/policies/api"), "limits: 5/m\n") != NULL);
    CHECK(strstr(words("/v1/explain/api/k"), "used 1") != NULL);
    kit_end();
}

/* Programs read batches and what throttlecrab's clients read, whatever Accept says. */
TEST(json_stays_json_where_there_are_no_words)
{
    static const char batch[] = "{\"requests\":[{\"policy\":\"api\",\"key\":\"k\"},"
                                "{\"op\":\"charge\",\"policy\":\"api\",\"key\":\"k\",\"n\":1},"
                                "{\"op\":\"peek\",\"policy\":\"nope\",\"key\":\"k\"}]}";
    static const char throttle[] =
        "{\"key\":\"k\",\"max_burst\":3,\"count_per_period\":10,\"period\":60,\"quantity\":1}";
    if (!begin())
        return;
    CHECK_EQ(ask_http("POST /v1/batch", "Accept: text/plain\r\n", batch), 200);
    CHECK_STR(header("Content-Type"), "application/json");
    CHECK_STR(json_at("answers.1"), "{\"ok\":true}");
    CHECK_STR(json_at("answers.2.error.status"), "404");
    CHECK_EQ(ask_http("POST /throttle", "Accept: text/plain\r\n", throttle), 200);
    CHECK_STR(header("Content-Type"), "application/json");
    CHECK_STR(json_at("allowed"), "true");
    kit_end();
}

/* ---- HEAD, versions, connections ---- */

static const char *raw(const char *text)
{
    return kit_ask_http(&kit, text, strlen(text));
}

TEST(head_has_the_length_and_no_body)
{
    static const char *const paths[] = {"/",        "/livez",       "/readyz", "/v1/openapi.json",
                                        "/metrics", "/v1/policies", "/nothing"};
    if (!begin())
        return;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char line[64];
        int status = get(paths[i]);
        size_t len = answer.body_len;
        (void)snprintf(line, sizeof line, "HEAD %s", paths[i]);
        int head = ask_http(line, "", NULL);
        CHECK(head == status || head == 405);
        CHECK(answer.body_len == len || head == 405 || i == 4); /* metrics count this one, too */
    }
    CHECK_EQ(ask_http("HEAD /v1/take/api/k", "", NULL), 405); /* it would take */
    CHECK_EQ(get("/v1/peek/api/k"), 200);
    CHECK_STR(json_at("used"), "0");
    kit_end();
}

/* Pages of other sites that weir.yaml lets in; the longest fields that a head can have. */
TEST(a_preflight_has_no_body_and_no_length)
{
    static const char origin[] = "Origin: https://app.example\r\n";
    if (!kit_begin("http: {cors: [\"https://app.example\"]}\npolicies: [{name: api, limits: 5/m}]\n"))
        return;
    CHECK_EQ(ask_http("OPTIONS /v1/take",
                      "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n", NULL),
             204);
    CHECK_STR(header("Access-Control-Allow-Origin"), "https://app.example");
    CHECK_EQ(ask_http("GET /v1/take/api/k", origin, NULL), 200);
    CHECK_STR(header("Access-Control-Allow-Origin"), "https://app.example");
    CHECK_STR(header("Vary"), "Origin");
    CHECK_EQ(ask_http("GET /v1/take/api/k", "Origin: https://evil.example\r\n", NULL), 403);
    CHECK_STR(header("Access-Control-Allow-Origin"), "(none)");
    kit_end();
}

TEST(connections_stay_or_close_as_the_client_wants)
{
    static const struct {
        const char *head, *connection;
        enum run_state state;
    } cases[] = {{"HTTP/1.1\r\nHost: localhost\r\n", "(none)", RUN_READY},
                 {"HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", "close", RUN_CLOSE},
                 {"HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n", "(none)", RUN_READY},
                 {"HTTP/1.0\r\n", "close", RUN_CLOSE},
                 {"HTTP/1.0\r\nConnection: keep-alive\r\n", "keep-alive", RUN_READY}};
    static const char *const targets[] = {"/v1/take/api/k", "/v1/take/api/k?n=9",     "/livez",
                                          "/nothing",       "/v1/take/nope/k",        "/metrics",
                                          "/v1/policies",   "/v1/take/api/k?status=1"};
    if (!begin())
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t j = 0; j < sizeof targets / sizeof *targets; j++) {
            char text[256];
            (void)snprintf(text, sizeof text, "GET %s %s\r\n", targets[j], cases[i].head);
            http_connect();
            (void)look_at_response(raw(text), false);
            if (!CHECK_STR(header("Connection"), cases[i].connection) || !CHECK_EQ(kit.state, cases[i].state))
                printf("# %s", text);
        }
    atomic_store(&kit.service->draining, true);
    http_connect();
    CHECK_EQ(get("/v1/take/api/l"), 200);
    CHECK_STR(header("Connection"), "close");
    CHECK_EQ(kit.state, RUN_CLOSE);
    kit_end();
}

TEST(nothing_behind_a_request_that_closes_is_run)
{
    if (!begin())
        return;
    (void)look_at_response(raw("GET /v1/take/api/k HTTP/1.0\r\n\r\nGET /v1/take/api/k HTTP/1.0\r\n\r\n"),
                           false);
    http_connect();
    CHECK_EQ(get("/v1/peek/api/k"), 200);
    CHECK_STR(json_at("used"), "1");
    kit_end();
}

TEST(a_batch_with_a_mistake_decides_nothing)
{
    static const char *const wrong[] = {"7", "{\"op\":\"acquire\",\"policy\":\"api\",\"key\":\"k\"}", "{}"};
    if (!begin())
        return;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char body[256];
        (void)snprintf(body, sizeof body, "{\"requests\":[{\"policy\":\"api\",\"key\":\"k\"},%s]}", wrong[i]);
        CHECK_EQ(post("/v1/batch", body), 400);
        CHECK(begins(json_at("detail"), "requests[1]: "));
    }
    CHECK_EQ(get("/v1/peek/api/k"), 200);
    CHECK_STR(json_at("used"), "0");
    kit_end();
}

/* Such answers wait until what they tell is on the disk. */
TEST(what_changes_something_says_so)
{
    if (!begin())
        return;
    CHECK_EQ(get("/v1/take/api/k"), 200);
    CHECK(kit.changed);
    CHECK_EQ(get("/v1/peek/api/k"), 200);
    CHECK(!kit.changed);
    CHECK_EQ(
        post("/v1/batch", "{\"requests\":[{\"op\":\"charge\",\"policy\":\"api\",\"key\":\"k\",\"n\":1}]}"),
        200);
    CHECK(kit.changed);
    kit_end();
}

/* The last places are for admins: who is none is turned away as a whole, not after the first of many. */
TEST(a_batch_of_a_client_too_many_is_turned_away_as_a_whole)
{
    if (!begin())
        return;
    http_connect();
    kit.session.must_log_in = true;
    CHECK_EQ(post("/v1/batch", "{\"requests\":[{\"policy\":\"api\",\"key\":\"k\"},"
                               "{\"policy\":\"api\",\"key\":\"k\"}]}"),
             503);
    CHECK_EQ(kit.state, RUN_CLOSE);
    kit_end();
}

/* ---- requests that wait ---- */

TEST(acquire_is_answered_when_it_is_due)
{
    if (!begin())
        return;
    CHECK_EQ(get("/v1/take/api/k?n=5"), 200);
    CHECK_EQ(post("/v1/acquire", "{\"policy\":\"api\",\"key\":\"k\",\"timeout_ms\":60000}"), 0);
    CHECK_STR(kit_resume(&kit), "");
    weir_clock_set(12000 * WEIR_MS);
    CHECK_EQ(look_at_response(kit_resume(&kit), false), 200);
    CHECK_STR(json_at("waited_ms"), "12000");
    CHECK_STR(json_at("limits.0.name"), "5/m");
    CHECK_EQ(kit.state, RUN_READY);
    CHECK_EQ(ask_http("POST /v1/acquire", "Connection: close\r\nAccept: text/plain\r\n",
                      "{\"policy\":\"api\",\"key\":\"k\",\"timeout_ms\":60000}"),
             0);
    weir_clock_set(24000 * WEIR_MS);
    CHECK_EQ(look_at_response(kit_resume(&kit), false), 200);
    CHECK_EQ(kit.state, RUN_CLOSE);
    CHECK(begins(answer.body, "allowed"));
    kit_end();
}

/* right horse, of the lowest cost */
#define HASH "$y$j75$W7aMW7aMW7aMW7aMW7aMW/$JlkNF/9o1Fs4GqxgVzV.Dw.vG4vUHG1tVp1Z6RAHhG1"
#define SLOW_USERS                                                                                           \
    "policies: [{name: api, limits: 5/m}]\n"                                                                 \
    "users:\n"                                                                                               \
    "  - {name: ops, password: p, may: all}\n"                                                               \
    "  - {name: app, password_crypt: [\"" HASH "\"], may: [take]}\n"
#define SLOW_BASIC "Authorization: Basic YXBwOnJpZ2h0IGhvcnNl\r\n"

/* The request as the server keeps it, until its password was checked. */
static enum run_state begin_login(char *bytes, size_t len, struct http_request *request)
{
    static const struct http_limits limits = {.head = 4096, .body = 4096};
    struct http_parse_result parsed;
    kit.session.version = 3;
    CHECK_EQ(weir_http_parse(&limits, bytes, len, request, &parsed), HTTP_WHOLE);
    struct run_result result = weir_http_run(kit.worker, &kit.session, request, true, &kit.out);
    kit.state = result.state;
    CHECK(result.state != RUN_PENDING || result.done == 0);
    return result.state;
}

TEST(a_request_waits_for_its_password_and_then_runs)
{
    static const char body[] = "{\"policy\":\"api\",\"key\":\"k\",\"n\":2}";
    char text[1024];
    if (!kit_begin(SLOW_USERS))
        return;
    credentials = basic_credentials("app", "right horse");
    CHECK_EQ(post("/v1/take", body), 200);
    CHECK_STR(json_at("used"), "2");
    CHECK_EQ(post("/v1/take", body), 200); /* not checked again */
    http_connect();
    (void)snprintf(
        text, sizeof text,
        "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" SLOW_BASIC
        "Transfer-Encoding: chunked\r\n\r\n6\r\n%.6s\r\n%zx\r\n%s\r\n0\r\n\r\n",
        body, sizeof body - 1 - 6, body + 6);
    CHECK_EQ(look_at_response(raw(text), false), 429); /* 5 of 6 are left: it was read whole, once */
    CHECK_STR(json_at("used"), "4");
    kit_end();
}

TEST(what_was_sent_in_chunks_is_the_same_after_the_password)
{
    char text[1024], kept[1024];
    struct http_request request;
    if (!kit_begin(SLOW_USERS))
        return;
    /* The second chunk begins like a chunk of its own, and what it has like a request. */
    int len =
        snprintf(text, sizeof text,
                 "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" SLOW_BASIC
                 "Transfer-Encoding: chunked\r\n\r\n"
                 "3\r\n0\r\n\r\n1a\r\n\nGET /v1/take/api/smuggled\r\n0\r\n\r\n");
    memcpy(kept, text, sizeof kept);
    CHECK_EQ(begin_login(text, (size_t)len, &request), RUN_PENDING);
    CHECK(memcmp(text, kept, sizeof kept) == 0); /* it will be read again */
    CHECK_EQ(buffer_len(&kit.out), 0);
    kit_work(&kit);
    CHECK_EQ(kit.state, RUN_READY);
    CHECK_EQ(buffer_len(&kit.out), 0); /* the login has no answer of its own */
    CHECK_STR(kit.session.user, "app");
    CHECK_EQ(begin_login(text, (size_t)len, &request), RUN_READY);
    CHECK_EQ(look_at_response(buffer_bytes(&kit.out), false), 400);
    kit_end();
}

TEST(nothing_is_run_with_a_password_that_is_wrong)
{
    if (!kit_begin(SLOW_USERS))
        return;
    credentials = basic_credentials("app", "wrong horse");
    CHECK_EQ(get("/v1/take/api/k"), 401);
    CHECK_EQ(kit.state, RUN_CLOSE);
    http_connect();
    credentials = basic_credentials("ops", "p");
    CHECK_EQ(get("/v1/peek/api/k"), 200);
    CHECK_STR(json_at("used"), "0");
    kit_end();
}

/* A user who goes while the password is being checked is nobody; so is one whose password has changed since.
 */
TEST(credentials_end_with_their_user)
{
    char text[] = "GET /v1/take/api/k HTTP/1.1\r\nHost: localhost\r\n" SLOW_BASIC "\r\n";
    struct http_request request;
    if (!kit_begin(SLOW_USERS))
        return;
    CHECK_EQ(begin_login(text, sizeof text - 1, &request), RUN_PENDING);
    static const char fewer[] = "policies: [{name: api, limits: 5/m}]\n"
                                "users: [{name: ops, password: p, may: all}]\n";
    struct weir_error err;
    struct config *config = weir_config_parse("w.yaml", fewer, sizeof fewer - 1, NULL, NULL);
    CHECK(config && weir_service_apply(kit.service, config, &err));
    weir_config_free(config);
    kit_work(&kit);
    int status = look_at_response(buffer_bytes(&kit.out), false);
    CHECK(status == 401 || status == 503);
    http_connect();
    credentials = basic_credentials("ops", "p");
    CHECK_EQ(get("/v1/peek/api/k"), 200);
    CHECK_STR(json_at("used"), "0");
    static const char other[] = "policies: [{name: api, limits: 5/m}]\n"
                                "users: [{name: ops, password: q, may: all}]\n";
    config = weir_config_parse("w.yaml", other, sizeof other - 1, NULL, NULL);
    CHECK(config && weir_service_apply(kit.service, config, &err));
    weir_config_free(config);
    CHECK_EQ(get("/v1/peek/api/k"), 401); /* on the same connection */
    kit_end();
}
