/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of an HTTP request fails once: the client gets a whole response or none and is closed,
 * nobody crashes, nothing leaks (a sanitizer looks), and who is told that nothing was decided was not
 * charged.
 */
#include <stdlib.h>

#include "os/clock.h"
#include "unit/failing_memory.h"
#include "unit/service/response_kit.h"

/* right horse, of the lowest cost */
#define HASH "$y$j75$W7aMW7aMW7aMW7aMW7aMW/$JlkNF/9o1Fs4GqxgVzV.Dw.vG4vUHG1tVp1Z6RAHhG1"

static const char yaml[] = "policies:\n"
                           "  - {name: api, limits: [1000/h, 2000/d]}\n"
                           "  - {name: full, limits: 1/d}\n"
                           "users:\n"
                           "  - {name: ops, password: p, may: all}\n"
                           "  - {name: app, password_crypt: [\"" HASH "\"], may: all}\n";

static const char *const requests[][2] = {
    {"GET /v1/take/api/k", NULL},
    {"GET /v1/take/full/k?n=2", NULL},
    {"GET /v1/take/nope/k", NULL},
    {"POST /v1/take", "{\"pairs\":[{\"policy\":\"api\",\"key\":\"a\"},{\"policy\":\"api\",\"key\":\"b\"}]}"},
    {"POST /v1/take", "{\"policy\":\"api\",\"key\":\"k\",\"id\":\"x1\"}"},
    {"POST /v1/take", "{\"policy\""},
    {"POST /v1/batch", "{\"requests\":[{\"policy\":\"api\",\"key\":\"k\"},{\"op\":\"charge\",\"policy\":"
                       "\"api\",\"key\":\"k\",\"n\":1},{\"policy\":\"nope\",\"key\":\"k\"}]}"},
    {"POST /v1/reserve", "{\"policy\":\"api\",\"key\":\"k\",\"n\":1}"},
    {"GET /v1/explain/api/k", NULL},
    {"GET /v1/policies", NULL},
    {"GET /v1/policies/api", NULL},
    {"GET /v1/top/api", NULL},
    {"GET /v1/info", NULL},
    {"PUT /v1/policies/api", "{\"limits\":\"1000/h, 2000/d\"}"},
    {"PUT /v1/overrides/api/z", "{\"limits\":\"5/s\"}"},
    {"GET /metrics", NULL},
    {"GET /livez", NULL},
    {"GET /readyz", NULL},
    {"GET /", NULL},
    {"GET /v1/openapi.json", NULL},
    {"GET /nothing", NULL},
    {"POST /throttle", "{\"key\":\"t\",\"max_burst\":3,\"count_per_period\":10,\"period\":60}"},
};
#define REQUESTS (sizeof requests / sizeof *requests)

/* What all keys of the policy have used. */
static int64_t used_of_all(void)
{
    static const char *const keys[] = {"k", "a", "b"};
    int64_t used = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        say("WEIR.PEEK api %s", keys[i]);
        used += 1000 - number_field("remaining");
    }
    return used;
}

/* Fields of one request, as ask_http writes them, without memory of its own. */
static size_t write_request(char text[static 1024], const char *const request[2], const char *login)
{
    return (size_t)snprintf(text, 1024,
                            "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                            "Authorization: %s\r\nContent-Length: %zu\r\n\r\n%s",
                            request[0], login, request[1] ? strlen(request[1]) : 0,
                            request[1] ? request[1] : "");
}

/* false: no allocation was left to fail. */
static bool run_without(int64_t allocation, const char *const request[2], const char *login, long *closed)
{
    char text[1024];
    size_t len = write_request(text, request, login);
    kit_connect("127.0.0.1:50001");
    kit_log_in(&kit, "ops");
    int64_t before = used_of_all();
    kit_connect("127.0.0.1:50001");
    weir_buffer_free(&kit.out); /* as if it were the first */
    allocations_left = allocation;
    (void)kit_ask_http(&kit, text, len);
    bool failed = allocations_left < 0;
    allocations_left = -1;
    bool answered = !kit.out.failed && buffer_len(&kit.out) > 0;
    int status = answered ? look_at_response(buffer_bytes(&kit.out), false) : 0;
    *closed += !answered;
    if (!CHECK(answered || kit.out.failed || allocation == 0) || !CHECK(status != 500 || failed))
        printf("# %s, allocation %" PRId64 "\n", request[0], allocation);
    kit.out.failed = false;
    kit_connect("127.0.0.1:50001");
    kit_log_in(&kit, "ops");
    if (status >= 400 && !CHECK_EQ(used_of_all(), before))
        printf("# %s, allocation %" PRId64 ": %d\n", request[0], allocation, status);
    return failed;
}

static void run_all(const char *user, const char *password)
{
    long allocations = 0, closed = 0;
    char login[256];
    if (!kit_begin(yaml))
        return;
    (void)snprintf(login, sizeof login, "%s", basic_credentials(user, password));
    for (size_t i = 0; i < REQUESTS; i++) {
        int64_t allocation = 0;
        while (run_without(allocation, requests[i], login, &closed) && CHECK(allocation < 2000))
            allocation++;
        allocations += allocation;
        CHECK(answer.status >= 200 && answer.status < 500); /* with all of it, it is answered as ever */
    }
    printf("# %zu requests, %ld allocations failed, %ld connections closed\n", REQUESTS, allocations, closed);
    CHECK(allocations > 50);
    kit_end();
}

TEST(a_request_without_memory_is_answered_whole_or_not_at_all)
{
    run_all("ops", "p");
}

TEST(so_is_one_whose_password_is_checked_slowly)
{
    run_all("app", "right horse");
}
