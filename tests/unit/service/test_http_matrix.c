/* SPDX-License-Identifier: MIT */
/*
 * Who may do what over HTTP: every row of weir_endpoints, every element of a batch and the paths with words
 * of their own, for every set of classes that a user can have, with a key and a policy that are his and with
 * ones that are not. The same user asks the command of the row by the Redis protocol, with words that are put
 * together here: 403 over HTTP if and only if NOPERM there. That the command is right is shown by
 * unit-matrix.
 */
#include "base/text.h"
#include "os/clock.h"
#include "service/commands/commands.h"
#include "service/http/endpoints.h"
#include "service/http/special.h"
#include "unit/service/response_kit.h"

#define OWN_POLICY   "mine"
#define OTHER_POLICY "theirs"
#define OWN_KEY      "mine:1"
#define OTHER_KEY    "theirs:1"
#define OWN_KEYS     "[\"mine:*\", \"header:x-key:mine:*\"]" /* of a route: see forward_auth.h */
#define LEAST_WORDS  7

static const char *const class_names[] = {"look", "take", "adjust", "admin"};

struct http_question {
    char line[256];
    char body[512]; /* "": none */
};

/* ---- users ---- */

#define POLICIES                                                                                             \
    "policies:\n"                                                                                            \
    "  - {name: " OWN_POLICY ", limits: 1M/s}\n"                                                             \
    "  - {name: " OTHER_POLICY ", limits: 1M/s}\n"                                                           \
    "routes:\n"                                                                                              \
    "  - {match: {path: /mine}, policy: " OWN_POLICY ", key: [header:x-key]}\n"                              \
    "  - {match: {path: /theirs}, policy: " OTHER_POLICY ", key: [header:x-key]}\n"                          \
    "users:\n"

/* Fifteen users with keys and a policy of their own, four admins, and one who may do all. */
static bool begin(void)
{
    static char yaml[8192];
    size_t len =
        (size_t)snprintf(yaml, sizeof yaml,
                         POLICIES "  - {name: full, password: p, may: all}\n"
                                  "  - {name: policies, password: p, may: all, policies: [" OWN_POLICY "]}\n"
                                  "  - {name: keys, password: p, may: all, keys: " OWN_KEYS "}\n"
                                  "  - {name: both, password: p, may: all, keys: " OWN_KEYS ", policies: "
                                  "[" OWN_POLICY "]}\n");
    for (unsigned may = 1; may < 16; may++) {
        len += (size_t)snprintf(yaml + len, sizeof yaml - len, "  - {name: user%u, password: p, may: [", may);
        for (unsigned i = 0, some = 0; i < 4; i++)
            if (may & 1u << i)
                len += (size_t)snprintf(yaml + len, sizeof yaml - len, "%s%s", some++ ? ", " : "",
                                        class_names[i]);
        len += (size_t)snprintf(yaml + len, sizeof yaml - len,
                                "], keys: " OWN_KEYS ", policies: [" OWN_POLICY "]}\n");
    }
    return kit_begin(yaml);
}

static const char *user_name(size_t number)
{
    static const char *const admins[] = {"full", "policies", "keys", "both"};
    static char name[32];
    if (number < 4)
        return admins[number];
    (void)snprintf(name, sizeof name, "user%zu", number - 3);
    return name;
}
#define USERS 19

/* ---- the command ---- */

static const struct command *command_of(const char *const words[2])
{
    const struct command *command = weir_command_find((struct slice){words[0], strlen(words[0])}, NULL);
    for (const struct command *part = command && words[1] ? command->commands : NULL; part && part->name;
         part++)
        if (weir_text_same(words[1], strlen(words[1]), part->name))
            return part;
    return words[1] ? NULL : command;
}

/* As many words as it needs, "1" where nothing else is known: who may not is told so before they are looked
 * at. */
static bool command_refuses(const char *const words[2], const char *policy, const char *key)
{
    const struct command *command = command_of(words);
    struct slice said[16];
    if (!CHECK(command))
        return false;
    size_t least = (size_t)(command->arity < 0 ? -command->arity : command->arity);
    size_t count = command->arity > 0 || least > LEAST_WORDS ? least : LEAST_WORDS;
    for (size_t i = 0; i < count; i++)
        said[i] = (struct slice){"1", 1};
    for (size_t i = 0; i < 2 && words[i]; i++)
        said[i] = (struct slice){words[i], strlen(words[i])};
    if (command->policy_at > 0)
        said[command->policy_at] = (struct slice){policy, strlen(policy)};
    if (command->key_at > 0)
        said[command->key_at] = (struct slice){key, strlen(key)};
    look_at(kit_ask_words(&kit, said, count));
    return begins(error_text(), "NOPERM ");
}

/* ---- the request ---- */

static bool has_json_body(const struct endpoint *endpoint)
{
    return endpoint->method & (HTTP_POST | HTTP_PUT);
}

/* A value that is right, so that nothing but rights is in the way; NULL: it is left out. */
static const char *value_of(const struct param *param, const char *policy, const char *key)
{
    static char choice[32], fresh[32];
    static unsigned serial;
    switch (param->kind) {
    case PARAM_POLICY:
        return policy;
    case PARAM_KEY:
        return key;
    case PARAM_NUMBER:
    case PARAM_NUMBERS:
        return "1";
    case PARAM_CHOICE:
        (void)snprintf(choice, sizeof choice, "%.*s", (int)strcspn(param->values, "|"), param->values);
        return choice;
    case PARAM_TEXT: /* a request id that was not used yet, and a reservation that is not there */
        (void)snprintf(fresh, sizeof fresh, "x%u", serial++);
        return strcmp(param->name, "limits") == 0    ? "1M/s"
               : strcmp(param->name, "for") == 0     ? "1h"
               : strcmp(param->name, "section") == 0 ? "server"
                                                     : fresh;
    case PARAM_FLAG:
    case PARAM_PAIRS:
        break;
    }
    return NULL;
}

/* What the path does not have stands in the body, if there is one; in the query only what must be there. */
static void put_params(const struct endpoint *endpoint, struct http_question *question, const char *policy,
                       const char *key)
{
    size_t len = strlen(question->body);
    size_t in_path = (size_t)endpoint->place;
    for (const struct param *param = endpoint->params; param->name; param++) {
        const char *value = value_of(param, policy, key);
        if ((size_t)(param - endpoint->params) < in_path || !value ||
            !(param->required || has_json_body(endpoint)))
            continue;
        bool number = param->kind == PARAM_NUMBER || param->kind == PARAM_NUMBERS;
        len +=
            (size_t)snprintf(question->body + len, sizeof question->body - len, "%s\"%s\":%s%s%s",
                             len > 1 ? "," : "", param->name, number ? "" : "\"", value, number ? "" : "\"");
    }
}

static void ask_for(const char *prefix, const struct endpoint *endpoint, struct http_question *question,
                    const char *policy, const char *key)
{
    static const char *const methods[] = {
        [HTTP_GET] = "GET", [HTTP_POST] = "POST", [HTTP_PUT] = "PUT", [HTTP_DELETE] = "DELETE"};
    (void)snprintf(question->line, sizeof question->line, "%s %s%s%s%s%s%s", methods[endpoint->method],
                   prefix, endpoint->name, endpoint->place >= PLACE_POLICY ? "/" : "",
                   endpoint->place >= PLACE_POLICY ? policy : "", endpoint->place >= PLACE_KEY ? "/" : "",
                   endpoint->place >= PLACE_KEY ? key : "");
    question->body[0] = '\0';
    if (!has_json_body(endpoint))
        return;
    (void)snprintf(question->body, sizeof question->body, "{");
    put_params(endpoint, question, policy, key);
    size_t len = strlen(question->body);
    (void)snprintf(question->body + len, sizeof question->body - len, "}");
}

static void put_in_batch(const struct endpoint *endpoint, struct http_question *question)
{
    char element[512];
    (void)snprintf(element, sizeof element, "%s", question->body + 1);
    (void)snprintf(question->line, sizeof question->line, "POST /v1/batch");
    (void)snprintf(question->body, sizeof question->body, "{\"requests\":[{\"op\":\"%s\",%.300s]}",
                   endpoint->name, element);
}

/* ---- both ---- */

static long allowed, refused;

static void check_one(const char *const words[2], const struct http_question *question, const char *user,
                      bool own_policy, bool own_key, bool in_batch)
{
    const char *policy = own_policy ? OWN_POLICY : OTHER_POLICY, *key = own_key ? OWN_KEY : OTHER_KEY;
    CHECK(kit_policy(&kit, OWN_POLICY, "1M/s") && kit_policy(&kit, OTHER_POLICY, "1M/s"));
    http_connect();
    kit_log_in(&kit, user);
    bool wanted = command_refuses(words, policy, key);
    CHECK(kit_policy(&kit, OWN_POLICY, "1M/s") && kit_policy(&kit, OTHER_POLICY, "1M/s")); /* one was DEL */
    http_connect();
    credentials = basic_credentials(user, "p");
    int status = ask_http(question->line, "", *question->body ? question->body : NULL);
    if (in_batch) {
        CHECK_EQ(status, 200);
        const char *error = json_at("answers.0.error.status");
        status = strcmp(error, "(none)") == 0 ? 200 : (int)strtol(error, NULL, 10);
    }
    bool good = CHECK((status == 403) == wanted) && CHECK(status != 401 && status != 405 && status != 500);
    /* What is permitted reaches the command: only settlements of nothing and reloads without a file fail. */
    bool settles = strstr(question->line, "/commit") || strstr(question->line, "/cancel") || in_batch;
    if (!wanted && !settles && !strstr(question->line, "/reload") && !strstr(question->line, "DELETE"))
        good = CHECK(status == 200) && good;
    if (!good)
        printf("# %s %s as %s: %d, by the Redis protocol %s\n", question->line, question->body, user, status,
               wanted ? "NOPERM" : "permitted");
    *(wanted ? &refused : &allowed) += 1;
}

static void check_endpoint(const char *prefix, const struct endpoint *endpoint, bool in_batch)
{
    for (size_t user = 0; user < USERS; user++)
        for (unsigned own = 0; own < 4; own++) {
            struct http_question question;
            ask_for(prefix, endpoint, &question, own & 1 ? OWN_POLICY : OTHER_POLICY,
                    own & 2 ? OWN_KEY : OTHER_KEY);
            if (in_batch)
                put_in_batch(endpoint, &question);
            check_one(endpoint->words, &question, user_name(user), own & 1, own & 2, in_batch);
        }
}

/* Paths that are no rows of the table, as such. */
static const struct param no_params[] = {{0}};
static const struct param throttle_params[] = {{"key", PARAM_KEY, true, .summary = ""},
                                               {"max_burst", PARAM_NUMBER, true, .summary = ""},
                                               {"count_per_period", PARAM_NUMBER, true, .summary = ""},
                                               {"period", PARAM_NUMBER, true, .summary = ""},
                                               {0}};
static const struct endpoint own_paths[] = {
    {"metrics", HTTP_GET, PLACE_NONE, 0, {"WEIR.METRICS"}, no_params, ""},
    {"throttle", HTTP_POST, PLACE_NONE, 0, {"THROTTLE"}, throttle_params, ""},
};
#define OWN_PATHS (sizeof own_paths / sizeof *own_paths)

TEST(every_user_may_do_over_http_what_the_command_permits_and_no_more)
{
    long asked = 0;
    if (!begin())
        return;
    allowed = refused = 0;
    for (const struct endpoint *row = weir_endpoints; row->name; row++, asked++) {
        check_endpoint("/v1/", row, false);
        if (row->flags & ENDPOINT_BATCH) {
            check_endpoint("/v1/", row, true);
            asked++;
        }
    }
    for (size_t i = 0; i < OWN_PATHS; i++, asked++)
        check_endpoint("/", &own_paths[i], false);
    printf("# %ld questions, %d users, 4 owners: %ld requests, %ld permitted, %ld not\n", asked, USERS,
           allowed + refused, allowed, refused);
    CHECK_EQ(allowed + refused, asked * USERS * 4);
    CHECK(allowed > 500 && refused > 500);
    kit_end();
}

/* ---- who has not logged in ---- */

static void check_closed(const struct http_question *question)
{
    static const char *const wrong[] = {
        NULL, "Basic ZnVsbDpx", "Basic bm9ib2R5OnA=", "Bearer p", "Basic !", "p"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        http_connect();
        weir_clock_set(clock_now() + 3600 * WEIR_SEC); /* failed logins are forgotten by then */
        credentials = wrong[i];
        if (!CHECK_EQ(ask_http(question->line, "", *question->body ? question->body : NULL), 401))
            printf("# %s as %s\n", question->line, wrong[i] ? wrong[i] : "nobody");
        const char *challenge = response_field(&answer, "WWW-Authenticate");
        CHECK(challenge && begins(challenge, "Basic "));
    }
}

TEST(nobody_gets_in_without_credentials_that_are_right)
{
    struct http_question question;
    if (!begin())
        return;
    for (const struct endpoint *row = weir_endpoints; row->name; row++) {
        ask_for("/v1/", row, &question, OWN_POLICY, OWN_KEY);
        check_closed(&question);
        if (row->flags & ENDPOINT_BATCH) {
            put_in_batch(row, &question);
            check_closed(&question); /* as a whole: clients look at the status */
        }
    }
    for (size_t i = 0; i < OWN_PATHS; i++) {
        ask_for("/", &own_paths[i], &question, OWN_POLICY, OWN_KEY);
        check_closed(&question);
    }
    for (const struct special_path *row = weir_special_paths; row->path; row++) {
        bool tried = false;
        for (size_t i = 0; i < OWN_PATHS; i++)
            tried = tried || strcmp(row->path + 1, own_paths[i].name) == 0;
        http_connect();
        if (!CHECK(row->access == SPECIAL_OPEN ? get(row->path) == 200 : tried)) /* none is left out above */
            printf("# %s\n", row->path);
    }
    kit_end();
}

/* The credentials of each request count, not those of the one before it on the same connection. */
TEST(a_connection_is_whoever_the_request_says)
{
    static const struct {
        const char *user, *password;
        int status;
    } turns[] = {{"user2", "p", 200}, {"user1", "p", 403}, {"user2", "p", 200}, {NULL, NULL, 401},
                 {"user2", "p", 200}, {"user1", "p", 403}, {"full", "p", 200},  {NULL, NULL, 401}};
    if (!begin())
        return;
    http_connect();
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        credentials = turns[i].user ? basic_credentials(turns[i].user, turns[i].password) : NULL;
        if (!CHECK_EQ(get("/v1/take/" OWN_POLICY "/" OWN_KEY), turns[i].status))
            printf("# turn %zu\n", i);
    }
    credentials = basic_credentials("full", "p");
    CHECK_EQ(get("/v1/take/" OWN_POLICY "/" OWN_KEY), 200);
    CHECK_EQ(ask_http("GET /v1/take/" OWN_POLICY "/" OWN_KEY, "Authorization: Basic dXNlcjE6cA==\r\n", NULL),
             401); /* two of them: nobody knows which one counts */
    credentials = basic_credentials("full", "q");
    CHECK_EQ(get("/v1/take/" OWN_POLICY "/" OWN_KEY), 401);
    CHECK_EQ(kit.state, RUN_CLOSE);
    CHECK_STR(response_field(&answer, "Connection"), "close");
    kit_end();
}

/* A proxy that has logged in asks for the policies of routes; what it may not take its visitors do not get.
 */
TEST(forward_auth_takes_what_its_user_may)
{
    struct http_question question;
    if (!begin())
        return;
    for (size_t user = 0; user < USERS; user++)
        for (unsigned own = 0; own < 4; own++) {
            static const char *const words[2] = {"WEIR.TAKE"};
            const char *policy = own & 1 ? OWN_POLICY : OTHER_POLICY, *value = own & 2 ? OWN_KEY : OTHER_KEY;
            char fields[256], key[64];
            (void)snprintf(key, sizeof key, "header:x-key:%s", value);
            http_connect();
            kit_log_in(&kit, user_name(user));
            bool wanted = command_refuses(words, policy, key);
            http_connect();
            (void)snprintf(question.line, sizeof question.line, "GET /auth/%s", policy);
            (void)snprintf(fields, sizeof fields, "X-Key: %s\r\nWeir-Authorization: %s\r\n", value,
                           basic_credentials(user_name(user), "p"));
            if (!CHECK_EQ(ask_http(question.line, fields, NULL), wanted ? 500 : 200))
                printf("# %s for %s as %s\n", question.line, key, user_name(user));
        }
    http_connect();
    CHECK_EQ(ask_http("GET /auth/" OWN_POLICY, "X-Key: " OWN_KEY "\r\n", NULL), 500);
    CHECK_EQ(
        ask_http("GET /auth/" OWN_POLICY, "X-Key: " OWN_KEY "\r\nAuthorization: Basic ZnVsbDpw\r\n", NULL),
        500); /* that is the visitor's */
    kit_end();
}

TEST(administrative_paths_are_not_found_where_they_have_an_address_of_their_own)
{
    struct http_question question;
    if (!begin())
        return;
    kit.not_admin = true;
    for (const struct endpoint *row = weir_endpoints; row->name; row++) {
        ask_for("/v1/", row, &question, OWN_POLICY, OWN_KEY);
        http_connect();
        credentials = basic_credentials("full", "p");
        int status = ask_http(question.line, "", *question.body ? question.body : NULL);
        const struct command *command = command_of(row->words);
        bool changes = command && weir_verbs[command->verb].may & MAY_ADMIN;
        CHECK(!changes || row->flags & ENDPOINT_ADMIN); /* none is forgotten */
        if (!CHECK((status == 404) == ((row->flags & ENDPOINT_ADMIN) != 0)))
            printf("# %s: %d\n", question.line, status);
    }
    CHECK_EQ(get("/metrics"), 404);
    kit_end();
}

/* ---- nothing is left out ---- */

/* The description lists what can be asked; a path that is neither a row nor in a list here is a failure. */
TEST(the_description_has_no_path_that_is_not_tried_here)
{
    if (!begin())
        return;
    http_connect();
    CHECK_EQ(get("/v1/openapi.json"), 200);
    char *copy = malloc(answer.body_len);
    struct json_reader reader;
    struct slice path, method;
    size_t operations = 0, rows = 0;
    memcpy(copy, answer.body, answer.body_len);
    weir_json_begin(&reader, copy, answer.body_len);
    CHECK(step_into(&reader, "paths", 5) && weir_json_enter(&reader, '{'));
    while (weir_json_member(&reader, &path)) {
        (void)weir_json_enter(&reader, '{');
        bool known = slice_is(path, "/v1/batch");
        for (size_t i = 0; i < OWN_PATHS; i++)
            known =
                known || (path.len > 1 && weir_text_same(path.bytes + 1, path.len - 1, own_paths[i].name));
        while (weir_json_member(&reader, &method) && weir_json_skip(&reader))
            operations += !known;
    }
    for (const struct endpoint *row = weir_endpoints; row->name; row++)
        rows++;
    CHECK_EQ(operations, rows);
    free(copy);
    kit_end();
}

TEST(every_pair_is_checked_not_only_the_first)
{
    static const char *const bodies[] = {"{\"pairs\":[{\"policy\":\"mine\",\"key\":\"mine:1\",\"n\":1},"
                                         "{\"policy\":\"theirs\",\"key\":\"mine:1\",\"n\":1}]}",
                                         "{\"pairs\":[{\"policy\":\"mine\",\"key\":\"mine:1\",\"n\":1},"
                                         "{\"policy\":\"mine\",\"key\":\"theirs:1\",\"n\":1}]}"};
    if (!begin())
        return;
    http_connect();
    credentials = basic_credentials("both", "p");
    for (size_t i = 0; i < 2; i++) {
        char batch[512];
        CHECK_EQ(post("/v1/take", bodies[i]), 403);
        CHECK_EQ(post("/v1/reserve", bodies[i]), 403);
        (void)snprintf(batch, sizeof batch, "{\"requests\":[%s]}", bodies[i]);
        CHECK_EQ(post("/v1/batch", batch), 200);
        CHECK_STR(json_at("answers.0.error.status"), "403");
    }
    CHECK_EQ(get("/v1/peek/mine/mine:1"), 200);
    CHECK_STR(json_at("used"), "0"); /* what was not permitted was not taken, either */
    kit_end();
}
