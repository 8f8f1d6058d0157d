/* SPDX-License-Identifier: MIT */
/*
 * A server in this process, on a unix socket, and a client that cuts its bytes anywhere. What the server
 * answers is what a service without sockets answers to the same requests, byte for byte. And how connections
 * begin, wait and end. Nothing is slept through: the client waits for bytes, or for the end of them.
 */
#define _GNU_SOURCE

#include "property/socket_kit.h"
#include "server/input.h"
#include "unit/service/service_kit.h"

#define STORIES     40
#define REQUESTS    60
#define STORY_MAX   4096 /* requests of a story */
#define LATE_ROUNDS 10
#define LATE_BYTES  1000000

static const char yaml[] = "memory: 16MiB\n"
                           "policies:\n"
                           "  - {name: api, limits: [10/s burst=20, 500/h name=hour], candidate: 1/s}\n"
                           "  - {name: one, limits: 1/s burst=1}\n"
                           "  - {name: seen, limits: 1/s, mode: shadow}\n";

static const char with_users[] = "memory: 16MiB\n"
                                 "users: [{name: app, password: x, may: all}]\n";

/* ---- stories -------------------------------------------------------------------------------------- */

struct story {
    struct buffer bytes, expected;
    size_t ends[STORY_MAX], answers[STORY_MAX]; /* of each request, and of what is answered by then */
    size_t count;
};

static void put_text(struct buffer *out, const char *text)
{
    buffer_put(out, text, strlen(text));
}

static void put_word(struct buffer *out, const char *bytes, size_t len)
{
    char header[32];
    (void)snprintf(header, sizeof header, "$%zu\r\n", len);
    put_text(out, header);
    buffer_put(out, bytes, len);
    put_text(out, "\r\n");
}

/* The words of a line as an array. */
static void put_array(struct buffer *out, const char *line)
{
    char header[32], copy[256], *rest = NULL;
    size_t count = 1;
    (void)snprintf(copy, sizeof copy, "%s", line);
    for (const char *at = line; *at; at++)
        count += *at == ' ';
    (void)snprintf(header, sizeof header, "*%zu\r\n", count);
    put_text(out, header);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        put_word(out, word, strlen(word));
}

static size_t rng_below(struct rng *rng, size_t bound)
{
    return (size_t)rng_between(rng, 0, (int64_t)bound - 1);
}

static void put_echo(struct rng *rng, struct buffer *out)
{
    static char bytes[BULK_MAX];
    size_t len = rng_below(rng, 8) > 0 ? rng_below(rng, 100) : rng_below(rng, sizeof bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)rng_next(rng);
    put_text(out, "*2\r\n");
    put_word(out, "ECHO", 4);
    put_word(out, bytes, len);
}

static void put_request(struct rng *rng, struct buffer *out)
{
    static const char *const lines[] = {"PING",
                                        "PING hello",
                                        "WEIR.TAKE api k#",
                                        "WEIR.TAKE api k# 7",
                                        "WEIR.TAKE api k# AND one k AND seen s",
                                        "WEIR.TAKE api k# 2 ID x",
                                        "WEIR.PEEK one k#",
                                        "WEIR.GIVE api k# 3",
                                        "WEIR.CHARGE api k# 5",
                                        "WEIR.EXPLAIN api k#",
                                        "RL.REDUCE k# 5 1",
                                        "CL.THROTTLE k# 5 1 1",
                                        "WEIR.POLICY SET p# 5/s",
                                        "WEIR.TAKE p# k",
                                        "CLIENT REPLY SKIP",
                                        "RESET",
                                        "WEIR.TAKE nosuch k#",
                                        "NOSUCH #",
                                        "ECHO \"a\\x41 #\"",
                                        "WEIR.TAKE 'api' \"k\\x3#\""};
    char line[128];
    if (rng_below(rng, 6) == 0) {
        put_echo(rng, out);
        return;
    }
    (void)snprintf(line, sizeof line, "%s", lines[rng_below(rng, sizeof lines / sizeof *lines)]);
    char *number = strchr(line, '#');
    if (number)
        *number = (char)('0' + rng_below(rng, 5));
    if (rng_below(rng, 3) > 0 && !strchr(line, '"')) {
        put_array(out, line);
    } else {
        put_text(out, line);
        put_text(out, rng_below(rng, 2) > 0 ? "\r\n" : "\n");
    }
    if (rng_below(rng, 10) == 0)
        put_text(out, rng_below(rng, 2) > 0 ? "\r\n" : "*0\r\n"); /* which ask for nothing */
}

/* What a service answers that gets one request after the other, each of them whole. */
static void ask_twin(struct story *story, struct kit *twin)
{
    static const struct resp_limits limits = {.args = 64, .bulk = BULK_MAX, .all = REQUEST_MAX};
    struct slice words[64];
    size_t len = buffer_len(&story->bytes), at = 0;
    char *bytes = malloc(len + 1); /* which the reader changes */
    if (!CHECK(bytes != NULL))
        return;
    memcpy(bytes, buffer_bytes(&story->bytes), len);
    while (at < len) {
        struct resp_reader reader = {0};
        struct resp_request_info got;
        enum resp_status what = weir_resp_read(&reader, &limits, bytes + at, len - at, words, &got);
        if (!CHECK(what == RESP_REQUEST || what == RESP_NOTHING))
            break;
        at += got.used;
        if (what == RESP_NOTHING)
            continue;
        (void)kit_ask_words(twin, words, got.words);
        buffer_put(&story->expected, buffer_bytes(&twin->out), buffer_len(&twin->out));
        story->ends[story->count] = at;
        story->answers[story->count++] = buffer_len(&story->expected);
    }
    free(bytes);
}

static size_t answered_by(const struct story *story, size_t sent)
{
    size_t answered = 0;
    for (size_t i = 0; i < story->count && story->ends[i] <= sent; i++)
        answered = story->answers[i];
    return answered;
}

/* Waits now and then for all that has to be answered by then: so it was cut just there. */
static void tell_story(struct rng *rng, const struct story *story, struct client *client)
{
    size_t len = buffer_len(&story->bytes), at = 0;
    const char *bytes = story->bytes.bytes + story->bytes.start;
    static const size_t most[] = {3, 60, 3000, 200000};
    while (at < len && !client->ended) {
        size_t piece = 1 + rng_below(rng, most[rng_below(rng, 4)]);
        piece = piece < len - at ? piece : len - at;
        client_send(client, bytes + at, piece);
        at += piece;
        if (rng_below(rng, 3) == 0 && !client_wait(client, answered_by(story, at)))
            return;
    }
    (void)client_wait(client, buffer_len(&story->expected));
}

static void compare(const struct story *story, struct client *client)
{
    size_t len = buffer_len(&story->expected), at = 0;
    const char *want = story->expected.bytes + story->expected.start, *got = buffer_bytes(&client->got);
    CHECK_EQ(buffer_len(&client->got), len);
    len = len < buffer_len(&client->got) ? len : buffer_len(&client->got);
    while (at < len && want[at] == got[at])
        at++;
    if (CHECK(at == len))
        return;
    size_t request = 0;
    while (request < story->count && story->answers[request] <= at)
        request++;
    printf("# answer %zu of %zu is another one: \"%.60s\", not \"%.60s\"\n", request, story->count, got + at,
           want + at);
}

static void story_make(struct rng *rng, struct story *story, struct kit *twin)
{
    *story = (struct story){0};
    for (int i = 0; i < REQUESTS; i++)
        put_request(rng, &story->bytes);
    put_text(&story->bytes, "PING\r\nPING\r\n"); /* one is answered, whatever was skipped: all is done then */
    ask_twin(story, twin);
}

TEST(bytes_cut_anywhere_are_answered_as_without_sockets)
{
    struct rng rng = rng_new(1);
    struct kit twin;
    if (!server_begin(yaml, 0, 0) || !CHECK(kit_open(&twin, yaml)))
        return;
    int64_t requests = 0;
    for (int i = 0; i < STORIES && check.faults == 0; i++) {
        struct story story;
        struct client client = client_new();
        weir_clock_set(weir_now() + rng_between(&rng, 0, 500) * WEIR_MS); /* for both of them */
        kit_leave(&twin);
        weir_session_begin(&twin.session, twin.service, "unix", "unix", weir_now());
        story_make(&rng, &story, &twin);
        tell_story(&rng, &story, &client);
        compare(&story, &client);
        requests += (int64_t)story.count;
        client_free(&client);
        weir_buffer_free(&story.bytes);
        weir_buffer_free(&story.expected);
    }
    CHECK_EQ(sum_of(offsetof(struct worker, commands)), requests);
    kit_close(&twin);
    server_end();
}

/* Sends until nothing has gone out for so long: the server has all that it wants, and answers wait for the
 * socket. */
static size_t client_send_blindly(struct client *client, const char *bytes, size_t len, int patience_ms)
{
    struct pollfd poll_for = {.fd = client->fd, .events = POLLOUT};
    size_t sent = 0;
    while (sent < len && poll(&poll_for, 1, patience_ms) > 0) {
        ssize_t now = send(client->fd, bytes + sent, len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += now > 0 ? (size_t)now : 0;
    }
    return sent;
}

static void read_late(struct rng *rng, struct kit *twin, struct client *client)
{
    static char word[BULK_MAX];
    struct story story = {0};
    size_t most = (size_t)1 << (8 + rng_below(rng, 8)), len = 0;
    for (int i = 0; i < STORY_MAX && len < LATE_BYTES; i++) {
        size_t size = 1 + rng_below(rng, most);
        memset(word, 'a' + (int)rng_below(rng, 26), size);
        put_text(&story.bytes, "*2\r\n$4\r\nECHO\r\n");
        put_word(&story.bytes, word, size);
        len = buffer_len(&story.bytes);
    }
    ask_twin(&story, twin);
    size_t sent = client_send_blindly(client, buffer_bytes(&story.bytes), len, 20);
    client->sip = 1 + rng_below(rng, 20000);
    client_send(client, buffer_bytes(&story.bytes) + sent, len - sent);
    (void)client_wait(client, buffer_len(&story.expected));
    compare(&story, client);
    weir_buffer_drop(&client->got, buffer_len(&client->got), 0);
    weir_buffer_free(&story.bytes);
    weir_buffer_free(&story.expected);
}

TEST(who_reads_late_gets_all_in_order)
{
    struct rng rng = rng_new(2);
    struct kit twin;
    if (!server_begin(yaml, 0, 0) || !CHECK(kit_open(&twin, yaml)))
        return;
    struct client client = client_new();
    for (int i = 0; i < LATE_ROUNDS && check.faults == 0; i++)
        read_late(&rng, &twin, &client);
    client_free(&client);
    kit_close(&twin);
    server_end();
}

/* ---- waiting -------------------------------------------------------------------------------------- */

static void wait_for_sum(size_t field, int64_t value)
{
    struct client client = client_new(); /* whose questions make time pass */
    for (int i = 0; i < PATIENCE_MS && sum_of(field) != value; i++) {
        client_say(&client, "PING\r\n");
        client_hears(&client, "+PONG\r\n");
        (void)poll(NULL, 0, 1);
    }
    CHECK_EQ(sum_of(field), value);
    client_free(&client);
}

TEST(who_waits_is_answered_when_it_is_due_and_then_what_follows)
{
    if (!server_begin(yaml, 0, 0))
        return;
    struct client one = client_new(), other = client_new();
    client_say(&one, "WEIR.TAKE one k\r\nWEIR.ACQUIRE one k\r\nPING\r\nWEIR.PEEK one k\r\n");
    wait_for_sum(offsetof(struct worker, waiting), 1);
    client_say(&other, "WEIR.CLOCK ADVANCE 999\r\nPING\r\n");
    client_hears(&other, "+OK\r\n+PONG\r\n");
    CHECK_EQ(sum_of(offsetof(struct worker, waiting)), 1);
    client_say(&other, "WEIR.CLOCK ADVANCE 1\r\n");
    client_hears(&other, "+OK\r\n");
    client_hears_last(&one, "waited_ms", 1000);
    client_hears(&one, "+PONG\r\n*12\r\n$7\r\nallowed\r\n:0\r\n");
    client_free(&one);
    client_free(&other);
    server_end();
}

TEST(who_leaves_while_he_waits_hands_his_place_back)
{
    if (!server_begin(yaml, 0, 0))
        return;
    struct client one = client_new(), other = client_new();
    client_say(&one, "WEIR.TAKE one k\r\nWEIR.ACQUIRE one k\r\n");
    wait_for_sum(offsetof(struct worker, waiting), 1);
    client_free(&one);
    wait_for_sum(offsetof(struct worker, waiting), 0);
    client_say(&other, "WEIR.CLOCK ADVANCE 1000\r\nWEIR.TAKE one k\r\n");
    client_hears(&other, "+OK\r\n*12\r\n$7\r\nallowed\r\n:1\r\n");
    client_free(&other);
    server_end();
}

/* The socket has room again, but not so much that the loop is told: who writes now must not write first. */
TEST(what_is_due_stays_behind_answers_that_wait_for_the_socket)
{
    enum { ECHOES = 15, SIZE = 20000 };
    static char word[SIZE];
    if (!server_begin(yaml, 0, 0))
        return;
    struct client one = client_new(), other = client_new();
    struct buffer asks = {0}, answers = {0};
    memset(word, 'x', sizeof word);
    for (int i = 0; i < ECHOES; i++) {
        put_text(&asks, "*2\r\n$4\r\nECHO\r\n");
        put_word(&asks, word, sizeof word);
        put_word(&answers, word, sizeof word);
    }
    put_text(&asks, "WEIR.ACQUIRE one k\r\n");
    client_say(&other, "WEIR.TAKE one k\r\n");
    client_hears(&other, "*12\r\n$7\r\nallowed\r\n:1\r\n");
    size_t sent = client_send_blindly(&one, buffer_bytes(&asks), buffer_len(&asks), PATIENCE_MS);
    CHECK_EQ(sent, buffer_len(&asks));
    wait_for_sum(offsetof(struct worker, waiting), 1);
    one.sip = 2 * SIZE;
    client_read(&one, PATIENCE_MS);
    client_say(&other, "WEIR.CLOCK ADVANCE 1000\r\n");
    wait_for_sum(offsetof(struct worker, waiting), 0);
    CHECK(client_wait(&one, buffer_len(&answers) + 1));
    CHECK(memcmp(buffer_bytes(&one.got), buffer_bytes(&answers), buffer_len(&answers)) == 0);
    weir_buffer_free(&asks);
    weir_buffer_free(&answers);
    client_free(&one);
    client_free(&other);
    server_end();
}

/* ---- ends ----------------------------------------------------------------------------------------- */

TEST(what_is_broken_is_told_after_what_came_before)
{
    if (!server_begin(yaml, 0, 0))
        return;
    struct client client = client_new();
    client_say(&client, "PING\r\n*1\r\n$4\r\nPING\r\n*1\r\n!4\r\nPING\r\nPING\r\n");
    client_hears(&client, "+PONG\r\n+PONG\r\n-ERR Protocol error: expected '$', got '!'\r\n");
    client_hears_the_end(&client);
    client_free(&client);
    client = client_new();
    client_say(&client, "PING\r\nQUIT\r\nPING\r\n");
    client_hears(&client, "+PONG\r\n+OK\r\n");
    client_hears_the_end(&client);
    client_free(&client);
    client = client_new();
    client_say(&client, "POST / HTTP/1.1\r\nWEIR.TAKE one k\r\n");
    client_hears_the_end(&client);
    client_free(&client);
    CHECK_EQ(sum_of(offsetof(struct worker, allowed)), 0);
    server_end();
}

TEST(strangers_have_little_room_and_members_have_more)
{
    if (!server_begin(with_users, 0, 0))
        return;
    struct client client = client_new();
    client_say(&client, "PING\r\n*2\r\n$4\r\nECHO\r\n$16385\r\n");
    client_hears(&client, "-NOAUTH Authentication required.\r\n"
                          "-ERR Protocol error: unauthenticated bulk length\r\n");
    client_hears_the_end(&client);
    client_free(&client);
    client = client_new();
    client_say(&client, "*11\r\n");
    client_hears(&client, "-ERR Protocol error: unauthenticated multibulk length\r\n");
    client_hears_the_end(&client);
    client_free(&client);
    client = client_new();
    client_say(&client, "*3\r\n$4\r\nAUTH\r\n$3\r\napp\r\n$1\r\nx\r\n*12\r\n"); /* in one piece */
    client_hears(&client, "+OK\r\n");
    client_say(&client, "$4\r\nPING\r\n");
    for (int i = 0; i < 11; i++)
        client_say(&client, "$1\r\nx\r\n");
    client_hears(&client, "-ERR wrong number of arguments for 'ping' command\r\n");
    client_free(&client);
    server_end();
}

TEST(more_clients_than_may_come_are_told)
{
    if (!server_begin(yaml, 2, 0))
        return;
    struct client one = client_new(), two = client_new();
    client_say(&one, "PING\r\n");
    client_hears(&one, "+PONG\r\n");
    client_say(&two, "PING\r\n");
    client_hears(&two, "+PONG\r\n");
    struct client three = client_new();
    client_hears(&three, "-ERR max number of clients reached\r\n");
    client_hears_the_end(&three);
    client_free(&three);
    client_free(&two);
    do { /* until the server has seen it */
        two = client_new();
        client_say(&two, "PING\r\n");
        (void)client_wait(&two, 7);
        CHECK(buffer_len(&two.got) >= 7);
        if (two.got.bytes[0] == '+')
            break;
        client_free(&two);
    } while (check.faults == 0);
    CHECK(weir_server_service(here.server)->rejected > 0); /* counted after it was told */
    client_free(&two);
    client_free(&one);
    server_end();
}

TEST(one_client_can_close_another)
{
    if (!server_begin(yaml, 0, 0))
        return;
    struct client one = client_new();
    client_say(&one, "CLIENT ID\r\n");
    client_hears(&one, ":1\r\n");
    struct client two = client_new(); /* in another I/O thread */
    client_say(&two, "CLIENT KILL ID 7\r\nCLIENT KILL ID 2\r\nCLIENT KILL ID 1\r\n");
    client_hears(&two, ":0\r\n:0\r\n:1\r\n");
    client_hears_the_end(&one);
    client_say(&two, "PING\r\n");
    client_hears(&two, "+PONG\r\n");
    client_free(&one);
    client_free(&two);
    server_end();
}

TEST(half_a_request_is_not_waited_for_for_ever)
{
    if (!server_begin(yaml, 0, 60))
        return;
    struct client idle = client_new(), half = client_new();
    client_say(&half, "PING\r\n*2\r\n$4\r\nEC");
    client_hears(&half, "+PONG\r\n");
    client_hears_the_end(&half);
    client_say(&idle, "PING\r\n"); /* who asks for nothing is welcome */
    client_hears(&idle, "+PONG\r\n");
    client_free(&half);
    client_free(&idle);
    server_end();
}

/* It has stopped to read, because nobody reads its answers, when it is told to end. */
TEST(a_server_that_ends_answers_what_has_come)
{
    static char word[BULK_MAX / 2];
    static struct story story;
    struct kit twin;
    if (!server_begin(yaml, 0, 0) || !CHECK(kit_open(&twin, yaml)))
        return;
    struct client busy = client_new(), idle = client_new();
    client_say(&idle, "PING\r\n");
    client_hears(&idle, "+PONG\r\n");
    for (int i = 0; i < REQUESTS; i++) {
        memset(word, 'a' + i % 26, sizeof word);
        put_text(&story.bytes, "*2\r\n$4\r\nECHO\r\n");
        put_word(&story.bytes, word, sizeof word);
    }
    ask_twin(&story, &twin);
    size_t sent = client_send_blindly(&busy, buffer_bytes(&story.bytes), buffer_len(&story.bytes), 20);
    CHECK(sent < buffer_len(&story.bytes)); /* a server that takes everything has no bound */
    kill(getpid(), SIGTERM);
    client_hears_the_end(&idle);
    story.expected.end = story.expected.start + answered_by(&story, sent);
    (void)client_wait(&busy, buffer_len(&story.expected));
    compare(&story, &busy);
    weir_buffer_drop(&busy.got, buffer_len(&busy.got), 0);
    client_hears_the_end(&busy);
    weir_buffer_free(&story.bytes);
    weir_buffer_free(&story.expected);
    client_free(&busy);
    client_free(&idle);
    kit_close(&twin);
    server_join();
}
