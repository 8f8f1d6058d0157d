/* SPDX-License-Identifier: MIT */
/*
 * Paths, queries and bodies, and the words of commands that they become; mistakes, and what is said about
 * them.
 */
#include "check.h"
#include "service/http/words.h"

static struct http_words words;
static char bytes[65536];

/* Reads a request with a body, if it has one. */
static bool read_request(struct http_request *request, const char *line, const char *body)
{
    static const struct http_limits limits = {.head = 16384, .body = sizeof bytes};
    struct http_parse_result result;
    int len = snprintf(bytes, sizeof bytes, "%s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n%s", line,
                       strlen(body), body);
    return CHECK(len > 0 && (size_t)len < sizeof bytes) &&
           CHECK_EQ(weir_http_parse(&limits, bytes, (size_t)len, request, &result), HTTP_WHOLE);
}

/* The words with '|' between them; of a mistake "! why". */
static const char *words_of(bool good)
{
    static char text[8192];
    size_t len = 0;
    text[0] = '\0';
    if (!good)
        (void)snprintf(text, sizeof text, "! %s", words.why);
    for (size_t i = 0; good && i < words.count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s", i > 0 ? "|" : "",
                                (int)words.words[i].len, words.words[i].bytes);
    return text;
}

static const char *ask(const char *line, const char *body)
{
    struct http_request request;
    struct slice policy = {0}, key = {0};
    unsigned allowed;
    if (!read_request(&request, line, body) || !CHECK(request.path.len > 4))
        return "";
    struct slice path = {request.path.bytes + 4, request.path.len - 4};
    const struct endpoint *endpoint = weir_endpoint_find(path, request.method, &policy, &key, &allowed);
    return endpoint ? words_of(weir_http_words(&words, endpoint, &request, policy, key)) : "no endpoint";
}

struct words_case {
    const char *line, *body, *wanted;
};

static void check_cases(const struct words_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!CHECK_STR(ask(cases[i].line, cases[i].body), cases[i].wanted))
            printf("# %s %s\n", cases[i].line, cases[i].body);
}
#define CHECK_CASES(CASES) check_cases((CASES), sizeof(CASES) / sizeof(CASES)[0])

TEST(every_endpoint_becomes_the_words_of_its_command)
{
    static const struct words_case cases[] = {
        {"POST /v1/take", "{\"policy\":\"p\",\"key\":\"k\"}", "WEIR.TAKE|p|k|FULL"},
        {"POST /v1/take", "{\"n\":3,\"id\":\"x\",\"key\":\"k\",\"policy\":\"p\"}",
         "WEIR.TAKE|p|k|3|ID|x|FULL"},
        {"GET /v1/take/p/k?n=3", "", "WEIR.TAKE|p|k|3|FULL"},
        {"GET /v1/take/p/k?id=x&n=3", "", "WEIR.TAKE|p|k|3|ID|x|FULL"},
        {"GET /v1/take/p/k?status=403&headers=x", "", "WEIR.TAKE|p|k|FULL"},
        {"GET /v1/peek/p/k", "", "WEIR.PEEK|p|k|FULL"},
        {"POST /v1/acquire", "{\"policy\":\"p\",\"key\":\"k\",\"n\":2,\"timeout_ms\":50}",
         "WEIR.ACQUIRE|p|k|2|TIMEOUT|50|FULL"},
        {"POST /v1/give", "{\"policy\":\"p\",\"key\":\"k\",\"n\":2}", "WEIR.GIVE|p|k|2"},
        {"POST /v1/charge", "{\"policy\":\"p\",\"key\":\"k\",\"n\":2,\"id\":\"y\"}",
         "WEIR.CHARGE|p|k|2|ID|y"},
        {"POST /v1/reset", "{\"policy\":\"p\",\"key\":\"k\"}", "WEIR.RESET|p|k"},
        {"POST /v1/reserve", "{\"policy\":\"p\",\"key\":\"k\",\"n\":2,\"ttl_ms\":9,\"timeout_ms\":0}",
         "WEIR.RESERVE|p|k|2|TTL|9|TIMEOUT|0|FULL"},
        {"POST /v1/commit", "{\"id\":\"r-1\"}", "WEIR.COMMIT|r-1"},
        {"POST /v1/commit", "{\"id\":\"r-1\",\"used\":4}", "WEIR.COMMIT|r-1|4"},
        {"POST /v1/commit", "{\"id\":\"r-1\",\"used\":[4,0,5]}", "WEIR.COMMIT|r-1|4|0|5"},
        {"POST /v1/cancel", "{\"id\":\"r-1\"}", "WEIR.CANCEL|r-1"},
        {"GET /v1/top/p?count=3&by=refused", "", "WEIR.TOP|p|refused|COUNT|3"},
        {"GET /v1/policies", "", "WEIR.POLICY|LIST"},
        {"GET /v1/policies/p", "", "WEIR.POLICY|SHOW|p"},
        {"PUT /v1/policies/p", "{\"limits\":\"5/s\",\"fresh\":true}", "WEIR.POLICY|SET|p|5/s|FRESH"},
        {"PUT /v1/policies/p", "{\"limits\":\"5/s\",\"fresh\":false}", "WEIR.POLICY|SET|p|5/s"},
        {"DELETE /v1/policies/p?forget", "", "WEIR.POLICY|DEL|p|FORGET"},
        {"DELETE /v1/policies/p?forget=false", "", "WEIR.POLICY|DEL|p"},
        {"PUT /v1/mode/p", "{\"mode\":\"enforce\",\"percent\":50,\"for\":\"1h\"}",
         "WEIR.POLICY|MODE|p|enforce|PERCENT|50|FOR|1h"},
        {"PUT /v1/overrides/p/a/b*", "{\"limits\":\"1/s\",\"reason\":\"two words\"}",
         "WEIR.OVERRIDE|SET|p|a/b*|1/s|REASON|two words"},
        {"DELETE /v1/overrides/p/k", "", "WEIR.OVERRIDE|DEL|p|k"},
        {"GET /v1/keys/p?cursor=1-0000000000000001&count=5", "",
         "WEIR.KEYS|p|CURSOR|1-0000000000000001|COUNT|5"},
        {"PUT /v1/candidate/p", "{\"limits\": \"5/s\"}", "WEIR.POLICY|CANDIDATE|p|5/s"},
        {"DELETE /v1/candidate/p", "", "WEIR.POLICY|CANDIDATE|p|NONE"},
        {"GET /v1/info?section=server", "", "INFO|server"},
        {"POST /v1/reload", "", "WEIR.RELOAD"},
    };
    CHECK_CASES(cases);
}

TEST(several_pairs_stand_for_policy_key_and_n)
{
    static const struct words_case cases[] = {
        {"POST /v1/take",
         "{\"pairs\":[{\"policy\":\"p\",\"key\":\"k\"},{\"n\":7,\"key_b64\":\"AQI=\",\"policy\":\"q\"}]}",
         "WEIR.TAKE|p|k|1|AND|q|\1\2|7|FULL"},
        {"POST /v1/take", "{\"id\":\"x\",\"pairs\":[{\"policy\":\"p\",\"key\":\"k\",\"n\":2}]}",
         "WEIR.TAKE|p|k|2|ID|x|FULL"},
        {"POST /v1/reserve", "{\"pairs\":[{\"policy\":\"p\",\"key\":\"k\"}]}",
         "! a pair in 'pairs' needs n here"},
        {"POST /v1/take", "{\"pairs\":[],\"policy\":\"p\",\"key\":\"k\"}",
         "! 'pairs' does not go with 'pairs' or 'key'"},
        {"POST /v1/take", "{\"pairs\":[{\"policy\":\"p\",\"key\":\"k\"}],\"policy\":\"p\",\"key\":\"k\"}",
         "! 'policy' does not go with 'pairs' or 'key'"},
        {"POST /v1/take", "{\"pairs\":[{\"policy\":\"p\",\"key\":\"k\"}],\"n\":2}",
         "! 'n' does not go with 'pairs' or 'key'"},
        {"POST /v1/peek", "{\"policy\":\"p\",\"key\":\"k\",\"pairs\":[{\"policy\":\"p\",\"key\":\"k\"}]}",
         "! unknown field 'pairs' of peek; it has policy, key, n"},
    };
    CHECK_CASES(cases);
}

TEST(text_is_decoded_once)
{
    static const struct words_case cases[] = {
        {"GET /v1/take/p/a%2Fb/c%2520d", "", "WEIR.TAKE|p|a/b/c%20d|FULL"},
        {"GET /v1/take/p/a+b?id=a+b", "", "WEIR.TAKE|p|a+b|ID|a b|FULL"},
        {"GET /v1/take/%70/k%3Fn=2", "", "WEIR.TAKE|p|k?n=2|FULL"},
        {"GET /v1/take/p/k%zz", "", "! 'key': a % is followed by two hexadecimal digits"},
        {"GET /v1/take/p/k%4", "", "! 'key': a % is followed by two hexadecimal digits"},
        {"POST /v1/take", "{\"policy\":\"p\",\"key\":\"\\u00e4\\\"\\\\\\n\"}",
         "WEIR.TAKE|p|\xc3\xa4\"\\\n|FULL"},
        {"POST /v1/take", "{\"policy\":\"p\",\"key\":\"a%20b\"}", "WEIR.TAKE|p|a%20b|FULL"},
        {"POST /v1/take", "{\"policy\":\"p\",\"key_b64\":\"AQI=\"}", "WEIR.TAKE|p|\1\2|FULL"},
        {"POST /v1/take", "{\"policy\":\"p\",\"key_b64\":\"AQ*=\"}", "! 'key_b64' is not base64"},
        {"POST /v1/take", "{\"policy\":\"p\",\"key\":\"k\",\"n\":null}", "WEIR.TAKE|p|k|FULL"},
    };
    CHECK_CASES(cases);
}

TEST(mistakes_are_named)
{
    static const struct words_case cases[] = {
        {"POST /v1/take", "", "! 'policy' is missing: The name of the policy"},
        {"POST /v1/take", "{\"policy\":\"p\"}",
         "! 'key' is missing: Who is limited, for example user:42; bytes as key_b64"},
        {"POST /v1/give", "{\"policy\":\"p\",\"key\":\"k\"}", "! 'n' is missing: The number of units"},
        {"POST /v1/take", "{\"policy\":\"p\",\"key\":\"k\",\"n\":\"2\"}", "! 'n' is a whole number"},
        {"POST /v1/take", "{\"policy\":7,\"key\":\"k\"}", "! 'policy' is a text"},
        {"POST /v1/take", "{\"policy\":\"p\",\"key\":true}", "! 'key' is a text"},
        {"POST /v1/take", "{\"policy\":\"p\",\"key\":\"k\",\"key_b64\":\"aw==\"}",
         "! 'key_b64' does not go with 'pairs' or 'key'"},
        {"POST /v1/take", "{\"policy\":\"p\",\"key\":\"k\",\"timeout_ms\":5}",
         "! unknown field 'timeout_ms' of take; it has policy, key, n, pairs, id"},
        {"POST /v1/take?n=3", "{\"policy\":\"p\",\"key\":\"k\"}",
         "! 'n' belongs in the JSON body, not in the query"},
        {"GET /v1/take/p/k?n=1&n=2", "", "! 'n' is there twice"},
        {"GET /v1/take/p/k?key=l", "", "! 'key' is there twice"},
        {"GET /v1/take/p/k?key_b64=aw==", "", "! 'key_b64' does not go with 'pairs' or 'key'"},
        {"GET /v1/top/p?by=size", "", "! 'by' is one of taken|refused|candidate"},
        {"PUT /v1/mode/p", "{\"mode\":\"off\"}", "! 'mode' is one of enforce|shadow|disabled"},
        {"PUT /v1/policies/p", "{\"limits\":\"5/s\",\"fresh\":1}", "! 'fresh' is true or false"},
        {"POST /v1/commit", "{\"id\":\"r\",\"used\":\"4\"}", "! 'used' is a whole number or a list of them"},
        {"POST /v1/commit", "{\"id\":\"r\",\"used\":[]}", "! 'used' is a whole number or a list of them"},
    };
    CHECK_CASES(cases);
}

static const char *element(const char *text)
{
    static char copy[65536];
    struct json_reader reader;
    (void)snprintf(copy, sizeof copy, "[%s]", text);
    weir_json_begin(&reader, copy, strlen(copy));
    CHECK(weir_json_enter(&reader, '[') && weir_json_element(&reader));
    return words_of(weir_http_words_of_element(&words, &reader));
}

TEST(elements_of_a_batch_are_takes_unless_they_say_otherwise)
{
    CHECK_STR(element("{\"policy\":\"p\",\"key\":\"k\"}"), "WEIR.TAKE|p|k|FULL");
    CHECK_STR(element("{\"policy\":\"p\",\"op\":\"give\",\"key\":\"k\",\"n\":1}"), "WEIR.GIVE|p|k|1");
    CHECK_STR(element("{\"op\":\"commit\",\"id\":\"r\",\"used\":[1,2]}"), "WEIR.COMMIT|r|1|2");
    static const char *const wrong[] = {"acquire", "explain", "top", "policies",
                                        "reload",  "batch",   "",    "TAKE"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "{\"op\":\"%s\",\"policy\":\"p\",\"key\":\"k\"}", wrong[i]);
        CHECK(strncmp(element(text), "! unknown op '", 14) == 0);
    }
    CHECK(element("{\"op\":5,\"policy\":\"p\",\"key\":\"k\"}")[0] == '!');
    CHECK(element("[]")[0] == '!');
    CHECK(element("7")[0] == '!');
}

/* Whatever is said, the words have room, or a complaint says that they have not. */
TEST(lists_have_bounds)
{
    static char body[65536];
    for (size_t count = 1; count <= 128; count++) {
        size_t len = (size_t)snprintf(body, sizeof body, "{\"id\":\"r\",\"used\":[1");
        for (size_t i = 1; i < count; i++)
            len += (size_t)snprintf(body + len, sizeof body - len, ",1");
        (void)snprintf(body + len, sizeof body - len, "]}");
        bool good = ask("POST /v1/commit", body)[0] != '!';
        CHECK_EQ(good, count <= HTTP_WORDS_MAX - 4);
    }
    for (size_t count = 1; count <= 20; count++) {
        size_t len = (size_t)snprintf(body, sizeof body, "{\"id\":\"x\",\"pairs\":[");
        for (size_t i = 0; i < count; i++)
            len += (size_t)snprintf(body + len, sizeof body - len,
                                    "%s{\"policy\":\"p\",\"key\":\"k\",\"n\":1}", i > 0 ? "," : "");
        (void)snprintf(body + len, sizeof body - len, "]}");
        bool good = ask("POST /v1/take", body)[0] != '!';
        CHECK_EQ(good, count <= HTTP_PAIRS_MAX);
    }
    size_t len = (size_t)snprintf(body, sizeof body, "{\"policy\":\"p\"");
    for (size_t i = 0; i < 40; i++)
        len += (size_t)snprintf(body + len, sizeof body - len, ",\"f%zu\":1", i);
    (void)snprintf(body + len, sizeof body - len, "}");
    CHECK_STR(ask("POST /v1/take", body), "! too many fields; at most 12");
}
