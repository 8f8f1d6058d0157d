/* SPDX-License-Identifier: MIT */
/*
 * The client against a server that this program plays itself, a byte at a time if it likes.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "resp_client/client.h"

#define PATIENCE_MS 20000
#define LONG        (20 * WEIR_SEC)

/* ---- the server ------------------------------------------------------------------------------- */

struct fake {
    int listener, client;
    struct server_host host;
};

static struct fake fake_new(void)
{
    struct fake fake = {.client = -1, .host = {.name = "127.0.0.1"}};
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fake.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fake.listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(fake.listener, 8), 0);
    CHECK_EQ(getsockname(fake.listener, (struct sockaddr *)&address, &size), 0);
    fake.host.port = ntohs(address.sin_port);
    return fake;
}

static bool ready(int fd)
{
    struct pollfd file = {.fd = fd, .events = POLLIN};
    return poll(&file, 1, PATIENCE_MS) > 0;
}

static void fake_accept(struct fake *fake)
{
    if (CHECK(ready(fake->listener)))
        fake->client = accept(fake->listener, NULL, NULL);
}

static void fake_say(struct fake *fake, const char *text)
{
    CHECK_EQ(send(fake->client, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Reads until `end` is the end of what has come. */
static bool fake_hears(struct fake *fake, const char *end)
{
    char bytes[4096];
    size_t len = 0;
    while (len < sizeof bytes && CHECK(ready(fake->client))) {
        ssize_t got = recv(fake->client, bytes + len, sizeof bytes - len, 0);
        if (!CHECK(got > 0))
            return false;
        len += (size_t)got;
        if (len >= strlen(end) && memcmp(bytes + len - strlen(end), end, strlen(end)) == 0)
            return true;
    }
    return false;
}

static bool fake_sees_the_end(struct fake *fake)
{
    char bytes[4096];
    ssize_t got = 1;
    while (got > 0 && CHECK(ready(fake->client)))
        got = recv(fake->client, bytes, sizeof bytes, 0);
    return got <= 0;
}

static void fake_greet(struct fake *fake)
{
    fake_accept(fake);
    CHECK(fake_hears(fake, "HELLO\r\n$1\r\n3\r\n"));
    fake_say(fake, "%1\r\n+proto\r\n:3\r\n");
}

static void fake_free(struct fake *fake)
{
    if (fake->client >= 0)
        close(fake->client);
    close(fake->listener);
}

/* ---- what is told ----------------------------------------------------------------------------- */

static struct told {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int answers, opened, closed;
    bool asked;
    char text[16][64]; /* of the answers, in the order of their coming: "name=text" */
    char why[RESP_CLIENT_WHY_MAX];
} told = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void told_clear(void)
{
    pthread_mutex_lock(&told.lock);
    told.answers = told.opened = told.closed = 0;
    told.asked = false;
    memset(told.text, 0, sizeof told.text);
    pthread_mutex_unlock(&told.lock);
}

static void answered(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    pthread_mutex_lock(&told.lock);
    snprintf(told.text[told.answers++ % 16], sizeof told.text[0], "%s=%.*s", (const char *)arg,
             value ? (int)value->text.len : 4, value ? value->text.bytes : "NULL");
    told.asked = asked;
    if (!value)
        snprintf(told.why, sizeof told.why, "%s", why);
    pthread_cond_broadcast(&told.changed);
    pthread_mutex_unlock(&told.lock);
}

static void count(int *number)
{
    pthread_mutex_lock(&told.lock);
    ++*number;
    pthread_cond_broadcast(&told.changed);
    pthread_mutex_unlock(&told.lock);
}

static void opened(void *arg, const struct server_host *host)
{
    (void)arg, (void)host;
    count(&told.opened);
}

static void closed(void *arg, const struct server_host *host, const char *why)
{
    (void)arg, (void)host, (void)why;
    count(&told.closed);
}

static void wait_for(const int *number, int least)
{
    pthread_mutex_lock(&told.lock);
    while (*number < least) /* CTest ends what never comes */
        pthread_cond_wait(&told.changed, &told.lock);
    pthread_mutex_unlock(&told.lock);
}

static struct resp_client *start(const char *user, const char *password, int64_t database)
{
    struct resp_client_options options = {.user = user,
                                          .password = password,
                                          .database = database,
                                          .connect_ns = LONG,
                                          .opened = opened,
                                          .closed = closed};
    struct weir_error err;
    told_clear();
    struct resp_client *resp_client = weir_resp_client_start(&options, &err);
    CHECK(resp_client);
    return resp_client;
}

static void ask(struct resp_client *resp_client, const struct fake *fake, const char *name,
                int64_t patience_ns)
{
    struct slice word = {name, strlen(name)};
    weir_resp_client_request(resp_client, &fake->host, &word, 1, weir_resp_client_now() + patience_ns,
                             answered, (void *)(uintptr_t)name);
}

/* ---- tests ------------------------------------------------------------------------------------ */

static struct resp_client *to_hang_up;
static const struct server_host *whom;

/* Whoever is answered may say that this line is of no use any more. */
static void hang_up(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    weir_resp_client_close_host(to_hang_up, whom, "enough");
    answered(arg, value, asked, why);
}

TEST(a_line_that_is_hung_up_ends_when_all_is_answered)
{
    static char name[] = "a";
    struct slice word = {name, 1};
    struct fake fake = fake_new();
    struct resp_client *resp_client = to_hang_up = start(NULL, NULL, 0);
    whom = &fake.host;
    weir_resp_client_request(resp_client, &fake.host, &word, 1, weir_resp_client_now() + LONG, hang_up, name);
    ask(resp_client, &fake, "b", LONG);
    fake_greet(&fake);
    CHECK(fake_hears(&fake, "b\r\n"));
    fake_say(&fake, "+one\r\n");
    wait_for(&told.answers, 1);
    ask(resp_client, &fake, "c", LONG); /* nothing more is asked on it */
    fake_say(&fake, "+two\r\n");
    CHECK(fake_sees_the_end(&fake));
    wait_for(&told.answers, 3);
    CHECK_STR(told.text[1], "b=two");
    CHECK_STR(told.text[2], "c=NULL");
    CHECK(!told.asked && strstr(told.why, "enough"));
    wait_for(&told.closed, 1);
    close(fake.client);
    ask(resp_client, &fake, "d", LONG);
    fake_greet(&fake);
    CHECK(fake_hears(&fake, "d\r\n"));
    fake_say(&fake, "+four\r\n");
    wait_for(&told.answers, 4);
    CHECK_STR(told.text[3], "d=four");
    weir_resp_client_stop(resp_client);
    fake_free(&fake);
}

TEST(answers_come_in_the_order_of_the_questions)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start(NULL, NULL, 0);
    ask(resp_client, &fake, "a", LONG);
    ask(resp_client, &fake, "b", LONG);
    ask(resp_client, &fake, "c", LONG);
    fake_greet(&fake);
    CHECK(fake_hears(&fake, "c\r\n"));
    fake_say(&fake, "+one\r\n$3\r\ntw");
    wait_for(&told.answers, 1);
    fake_say(&fake, "o\r\n-ERR three\r\n");
    wait_for(&told.answers, 3);
    CHECK_STR(told.text[0], "a=one");
    CHECK_STR(told.text[1], "b=two");
    CHECK_STR(told.text[2], "c=ERR three");
    CHECK_EQ(told.opened, 1);
    CHECK(told.asked);
    weir_resp_client_stop(resp_client);
    fake_free(&fake);
}

TEST(what_is_not_the_protocol_closes_the_line)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start(NULL, NULL, 0);
    ask(resp_client, &fake, "a", LONG);
    ask(resp_client, &fake, "b", LONG);
    fake_greet(&fake);
    CHECK(fake_hears(&fake, "b\r\n"));
    fake_say(&fake, "HTTP/1.1 400 Bad Request\r\n\r\n");
    wait_for(&told.closed, 1);
    CHECK_EQ(told.answers, 2);
    CHECK_STR(told.text[1], "b=NULL");
    CHECK(told.asked);
    CHECK(strstr(told.why, "does not speak the Redis protocol"));
    CHECK(fake_sees_the_end(&fake));
    weir_resp_client_stop(resp_client);
    fake_free(&fake);
}

TEST(an_answer_that_nobody_asked_for_closes_the_line)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start(NULL, NULL, 0);
    ask(resp_client, &fake, "a", LONG);
    fake_greet(&fake);
    CHECK(fake_hears(&fake, "a\r\n"));
    fake_say(&fake, "+one\r\n+two\r\n");
    wait_for(&told.closed, 1);
    CHECK_STR(told.text[0], "a=one");
    CHECK_EQ(told.answers, 1);
    weir_resp_client_stop(resp_client);
    fake_free(&fake);
}

/* What is not answered in time. On a busy machine it may be too late to ask it at all: then with more time.
 * Gives how many answers there were until then. */
static int ask_in_vain(struct resp_client *resp_client, const struct fake *fake, int64_t patience_ns)
{
    int answers = 1;
    do {
        ask(resp_client, fake, "b", patience_ns);
        wait_for(&told.answers, ++answers);
        CHECK_STR(told.text[(answers - 1) % 16], "b=NULL");
        patience_ns *= 2;
    } while (!told.asked && patience_ns < LONG);
    CHECK(told.asked);
    return answers;
}

TEST(a_late_answer_is_none_and_the_line_is_made_anew)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start(NULL, NULL, 0);
    ask(resp_client, &fake, "a", LONG);
    fake_greet(&fake);
    CHECK(fake_hears(&fake, "a\r\n"));
    fake_say(&fake, "+one\r\n");
    wait_for(&told.answers, 1);
    int asked = ask_in_vain(resp_client, &fake, 30 * WEIR_MS);
    wait_for(&told.closed, 1);
    ask(resp_client, &fake, "c", LONG);
    close(fake.client);
    fake_greet(&fake);
    CHECK(fake_hears(&fake, "c\r\n"));
    fake_say(&fake, "+three\r\n");
    wait_for(&told.answers, asked + 1);
    CHECK_STR(told.text[asked % 16], "c=three");
    weir_resp_client_stop(resp_client);
    fake_free(&fake);
}

TEST(a_question_to_nobody_was_certainly_not_asked)
{
    struct fake fake = fake_new();
    close(fake.listener);
    struct resp_client *resp_client = start(NULL, NULL, 0);
    told.asked = true;
    ask(resp_client, &fake, "a", LONG);
    wait_for(&told.answers, 1);
    CHECK_STR(told.text[0], "a=NULL");
    CHECK(!told.asked);
    CHECK(strstr(told.why, "refused"));
    weir_resp_client_stop(resp_client);
}

TEST(a_server_that_never_greets_is_given_up_in_time)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start(NULL, NULL, 0);
    ask(resp_client, &fake, "a", 30 * WEIR_MS);
    wait_for(&told.answers, 1);
    CHECK_STR(told.text[0], "a=NULL");
    CHECK(!told.asked);
    weir_resp_client_stop(resp_client);
    fake_free(&fake);
}

TEST(a_name_may_take_its_time)
{
    struct fake fake = {.host = {.name = "no-such-host.invalid", .port = 1}};
    struct resp_client *resp_client = start(NULL, NULL, 0);
    ask(resp_client, &fake, "a", 200 * WEIR_MS);
    wait_for(&told.answers, 1);
    CHECK_STR(told.text[0], "a=NULL");
    CHECK(!told.asked);
    weir_resp_client_stop(resp_client);
}

TEST(a_login_comes_first)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start("me", "secret", 0);
    ask(resp_client, &fake, "a", LONG);
    fake_accept(&fake);
    CHECK(fake_hears(&fake, "AUTH\r\n$2\r\nme\r\n$6\r\nsecret\r\n"));
    CHECK_EQ(told.opened, 0);
    fake_say(&fake, "%0\r\n");
    CHECK(fake_hears(&fake, "a\r\n"));
    weir_resp_client_stop(resp_client);
    CHECK_EQ(told.answers, 1);
    CHECK(told.asked);
    fake_free(&fake);
}

TEST(a_refused_login_is_told)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start("me", "wrong", 0);
    ask(resp_client, &fake, "a", LONG);
    fake_accept(&fake);
    CHECK(fake_hears(&fake, "wrong\r\n"));
    fake_say(&fake, "-WRONGPASS invalid username-password pair\r\n");
    wait_for(&told.answers, 1);
    CHECK(!told.asked);
    CHECK(strstr(told.why, "WRONGPASS"));
    CHECK(!strstr(told.why, "wrong\r"));
    weir_resp_client_stop(resp_client);
    fake_free(&fake);
}

TEST(old_servers_know_no_hello)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start(NULL, "secret", 3);
    ask(resp_client, &fake, "a", LONG);
    fake_accept(&fake);
    CHECK(fake_hears(&fake, "secret\r\n"));
    fake_say(&fake, "-ERR unknown command `HELLO`\r\n");
    CHECK(fake_hears(&fake, "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"));
    fake_say(&fake, "+OK\r\n");
    CHECK(fake_hears(&fake, "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"));
    fake_say(&fake, "+OK\r\n");
    CHECK(fake_hears(&fake, "a\r\n"));
    fake_say(&fake, "+one\r\n");
    wait_for(&told.answers, 1);
    CHECK_STR(told.text[0], "a=one");
    weir_resp_client_stop(resp_client);
    fake_free(&fake);
}

TEST(pushes_are_no_answers)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start(NULL, NULL, 0);
    ask(resp_client, &fake, "a", LONG);
    fake_greet(&fake);
    CHECK(fake_hears(&fake, "a\r\n"));
    fake_say(&fake, ">2\r\n+message\r\n+hello\r\n+one\r\n");
    wait_for(&told.answers, 1);
    CHECK_STR(told.text[0], "a=one");
    weir_resp_client_stop(resp_client);
    fake_free(&fake);
}

TEST(several_requests_in_one_piece_have_one_answer)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start(NULL, NULL, 0);
    static const char bytes[] = "*1\r\n$6\r\nASKING\r\n*1\r\n$1\r\na\r\n";
    weir_resp_client_send(resp_client, &fake.host, bytes, sizeof bytes - 1, 2, weir_resp_client_now() + LONG,
                          answered, (void *)(uintptr_t) "a");
    fake_greet(&fake);
    CHECK(fake_hears(&fake, bytes));
    fake_say(&fake, "+OK\r\n+one\r\n");
    wait_for(&told.answers, 1);
    CHECK_STR(told.text[0], "a=one");
    weir_resp_client_stop(resp_client);
    fake_free(&fake);
}

TEST(an_answer_of_many_megabytes_is_not_read)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start(NULL, NULL, 0);
    ask(resp_client, &fake, "a", LONG);
    fake_greet(&fake);
    CHECK(fake_hears(&fake, "a\r\n"));
    fake_say(&fake, "$500000000\r\n");
    static char much[1 << 16];
    memset(much, 'x', sizeof much);
    for (int i = 0; i < 200; i++)
        if (send(fake.client, much, sizeof much, MSG_NOSIGNAL) < 0)
            break;
    wait_for(&told.closed, 1);
    CHECK_STR(told.text[0], "a=NULL");
    CHECK(strstr(told.why, "too long"));
    weir_resp_client_stop(resp_client);
    fake_free(&fake);
}

TEST(what_is_on_the_way_is_answered_when_the_wire_stops)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start(NULL, NULL, 0);
    ask(resp_client, &fake, "a", LONG);
    fake_greet(&fake);
    CHECK(fake_hears(&fake, "a\r\n"));
    ask(resp_client, &fake, "b", LONG);
    weir_resp_client_stop(resp_client);
    CHECK_EQ(told.answers, 2);
    fake_free(&fake);
}

static void *play(void *arg)
{
    struct fake *fake = arg;
    fake_greet(fake);
    CHECK(fake_hears(fake, "a\r\n"));
    fake_say(fake, "*3\r\n$3\r\none\r\n*2\r\n:7\r\n+in\r\n_\r\n");
    return NULL;
}

struct copied_reply {
    struct resp_value *value;
    struct buffer bytes;
    bool asked;
};

/* An answer lasts as long as the call that tells it. */
static void copy_answer(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct copied_reply *copied = arg;
    (void)why;
    copied->asked = asked;
    copied->value = value ? weir_resp_value_copy(value, &copied->bytes) : NULL;
}

TEST(who_waits_gets_the_whole_tree)
{
    struct fake fake = fake_new();
    struct resp_client *resp_client = start(NULL, NULL, 0);
    struct copied_reply copied = {0};
    pthread_t thread;
    pthread_create(&thread, NULL, play, &fake);
    struct slice word = {"a", 1};
    weir_resp_client_wait(resp_client, &fake.host, &word, 1, weir_resp_client_now() + LONG, copy_answer,
                          &copied);
    const struct resp_value *value = copied.value;
    pthread_join(thread, NULL);
    weir_resp_client_stop(resp_client);
    if (CHECK(value) && CHECK_EQ(value->count, 3)) {
        CHECK(slice_is(value->elements[0].text, "one"));
        CHECK_EQ(value->elements[1].elements[0].integer, 7);
        CHECK(slice_is(value->elements[1].elements[1].text, "in"));
        CHECK_EQ(value->elements[2].type, RESP_NULL);
    }
    CHECK(copied.asked);
    weir_resp_value_free(copied.value);
    weir_buffer_free(&copied.bytes);
    fake_free(&fake);
}
