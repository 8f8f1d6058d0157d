/* SPDX-License-Identifier: MIT */
/*
 * weir:// as coordinator, asked over sockets: a server of the test's own says what a weir server might, and
 * what it should not.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "fleet/weir/quota.h"
#include "resp/read.h"

#define LEASE                                                                                                \
    "%12\r\n$4\r\nkind\r\n$5\r\nquota\r\n$5\r\nepoch\r\n:12\r\n$5\r\nunits\r\n:2000\r\n$6\r\nchunks\r\n:"    \
    "2\r\n"                                                                                                  \
    "$5\r\nchunk\r\n:1000\r\n$5\r\ntotal\r\n:50000000\r\n$9\r\nwindow_ms\r\n:60000\r\n$5\r\nburst\r\n:0\r\n" \
    "$12\r\nstarts_in_ms\r\n:0\r\n$13\r\nexpires_in_ms\r\n:41000\r\n$4\r\nleft\r\n:49998000\r\n"             \
    "$14\r\nretry_after_ms\r\n:0\r\n"
#define LOOK                                                                                                 \
    "%11\r\n$4\r\nkind\r\n$5\r\nquota\r\n$5\r\nepoch\r\n:12\r\n$5\r\nunits\r\n:0\r\n$6\r\nchunks\r\n:0\r\n"  \
    "$5\r\nchunk\r\n:1000\r\n$5\r\ntotal\r\n:50000000\r\n$9\r\nwindow_ms\r\n:60000\r\n"                      \
    "$12\r\nstarts_in_ms\r\n:0\r\n$13\r\nexpires_in_ms\r\n:41000\r\n$4\r\nleft\r\n:49998000\r\n"             \
    "$14\r\nretry_after_ms\r\n:0\r\n"

#define PATIENCE (20 * WEIR_SEC) /* on a machine that has other work */

/* ---- a server ---- */

struct fake {
    int fd, port;
    pthread_t thread;
    _Atomic(const char *) says; /* to everything but HELLO and PING; NULL: nothing; "": it hangs up */
    atomic_bool over;
    char asked[128]; /* the last question; read when its answer is here */
};

static void serve_one(struct fake *fake, int fd)
{
    static const char hello[] = "%1\r\n$6\r\nserver\r\n$4\r\nweir\r\n";
    const struct resp_limits limits = {.args = 16, .bulk = 1024, .all = 4096};
    struct slice args[16];
    struct resp_reader reader = {0};
    struct resp_request_info got;
    char bytes[4096];
    size_t len = 0;
    struct pollfd event = {.fd = fd, .events = POLLIN};
    while (!fake->over) {
        if (poll(&event, 1, 10) != 1)
            continue;
        ssize_t more = read(fd, bytes + len, sizeof bytes - len);
        if (more <= 0)
            return;
        len += (size_t)more;
        while (weir_resp_read(&reader, &limits, bytes, len, args, &got) == RESP_REQUEST) {
            const char *answer = fake->says;
            if (slice_is(args[0], "HELLO")) {
                answer = hello;
            } else if (slice_is(args[0], "PING")) {
                answer = "+PONG\r\n";
            } else {
                fake->asked[0] = '\0';
                for (size_t i = 0; i < got.words; i++)
                    (void)snprintf(fake->asked + strlen(fake->asked),
                                   sizeof fake->asked - strlen(fake->asked), "%s%.*s", i ? " " : "",
                                   (int)args[i].len, args[i].bytes);
            }
            if (answer && (!answer[0] || write(fd, answer, strlen(answer)) < 0))
                return;
            memmove(bytes, bytes + got.used, len - got.used);
            len -= got.used;
        }
    }
}

static void *serve(void *arg)
{
    struct fake *fake = arg;
    struct pollfd event = {.fd = fake->fd, .events = POLLIN};
    while (!fake->over) {
        int fd = poll(&event, 1, 10) == 1 ? accept(fake->fd, NULL, NULL) : -1;
        if (fd < 0)
            continue;
        serve_one(fake, fd);
        (void)close(fd);
    }
    return NULL;
}

/* On `port`, or any if it is 0. */
static void fake_start(struct fake *fake, int port, const char *says)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof address;
    int one = 1;
    memset(fake, 0, sizeof *fake);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fake->fd = socket(AF_INET, SOCK_STREAM, 0);
    (void)setsockopt(fake->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fake->fd < 0 || bind(fake->fd, (struct sockaddr *)&address, size) < 0 || listen(fake->fd, 8) < 0 ||
        getsockname(fake->fd, (struct sockaddr *)&address, &size) < 0)
        abort();
    fake->port = ntohs(address.sin_port);
    fake->says = says;
    if (pthread_create(&fake->thread, NULL, serve, fake) != 0)
        abort();
}

static void fake_stop(struct fake *fake)
{
    fake->over = true;
    (void)pthread_join(fake->thread, NULL);
    (void)close(fake->fd);
}

/* ---- who is told ---- */

static struct told {
    pthread_mutex_t lock;
    struct lease_reply reply;
    int replies, ups, downs, troubles;
    char trouble[200], why[200];
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_replied(void *owner, const struct lease_reply *reply)
{
    (void)owner;
    (void)pthread_mutex_lock(&told.lock);
    told.reply = *reply;
    told.replies++;
    (void)pthread_mutex_unlock(&told.lock);
}

static void on_moved(void *agent, bool up, const char *why)
{
    (void)agent;
    (void)pthread_mutex_lock(&told.lock);
    *(up ? &told.ups : &told.downs) += 1;
    (void)snprintf(told.why, sizeof told.why, "%s", why);
    (void)pthread_mutex_unlock(&told.lock);
}

static void on_troubled(void *owner, const char *why)
{
    (void)owner;
    (void)pthread_mutex_lock(&told.lock);
    told.troubles++;
    (void)snprintf(told.trouble, sizeof told.trouble, "%s", why);
    (void)pthread_mutex_unlock(&told.lock);
}

static const struct sink sink = {.replied = on_replied, .moved = on_moved, .troubled = on_troubled};

/* Until so many have been told. */
static bool wait_for(const int *count, int wanted)
{
    int64_t end = weir_resp_client_now() + PATIENCE;
    for (bool good = false;;) {
        (void)pthread_mutex_lock(&told.lock);
        good = *count >= wanted;
        (void)pthread_mutex_unlock(&told.lock);
        if (good || weir_resp_client_now() > end)
            return good;
        (void)poll(NULL, 0, 1);
    }
}

static int told_replies(void)
{
    (void)pthread_mutex_lock(&told.lock);
    int count = told.replies;
    (void)pthread_mutex_unlock(&told.lock);
    return count;
}

static const struct coordinator_ops *const ops = &weir_coordinator_weir;
static int64_t answer_ns = PATIENCE; /* how long an order waits for its answer */

static struct coordinator *open_to(const int *ports, size_t count, struct weir_error *err)
{
    const struct coordinator_options options = {.answer_ns = answer_ns, .connect_ns = PATIENCE};
    struct server_url url = {.scheme = "weir", .host_count = count, .shown = "weir://test"};
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(url.hosts[i].name, sizeof url.hosts[i].name, "127.0.0.1");
        url.hosts[i].port = ports[i];
    }
    told.replies = told.ups = told.downs = told.troubles = 0;
    told.trouble[0] = told.why[0] = '\0';
    return ops->open(&url, &options, &sink, err);
}

/* Orders, and gives the reply. */
static struct lease_reply ask(struct pool_handle *handle, int32_t op, int64_t chunks)
{
    const struct lease_order order = {
        .id = (uint64_t)told_replies() + 1, .op = op, .epoch = 12, .chunks = chunks};
    int before = told_replies();
    ops->order(handle, &order);
    CHECK(wait_for(&told.replies, before + 1));
    CHECK_EQ(told.reply.id, order.id);
    CHECK_EQ(told.reply.op, op);
    return told.reply;
}

/* On a busy machine an order that has little time may not even leave, or its answer come too late: then once
 * more. */
static void take_until(struct pool_handle *handle, int32_t wanted)
{
    int32_t outcome;
    int tries = 0;
    do
        outcome = ask(handle, LEASE_TAKE, 2).outcome;
    while (outcome != wanted && ++tries < 20);
    CHECK_EQ(outcome, wanted);
}

/* ---- tests ---- */

TEST(orders_go_out_and_replies_come_back)
{
    struct fake fake;
    struct weir_error err;
    fake_start(&fake, 0, LEASE);
    struct coordinator *coordinator = open_to(&fake.port, 1, &err);
    if (!CHECK(coordinator != NULL))
        return;
    struct pool_handle *handle = ops->enter(coordinator, "egress", NULL, NULL, &err);
    CHECK(wait_for(&told.ups, 1));
    struct lease_reply reply = ask(handle, LEASE_TAKE, 2);
    CHECK_EQ(reply.outcome, LEASE_DONE);
    CHECK_EQ(reply.units, 2000);
    CHECK_EQ(reply.ends_ns, 41 * WEIR_SEC);
    CHECK_STR(fake.asked, "WEIR.LEASE egress 2");
    fake.says = ":2\r\n";
    CHECK_EQ(ask(handle, LEASE_RETURN, 2).outcome, LEASE_DONE);
    CHECK_STR(fake.asked, "WEIR.RETURN egress 12 2");
    fake.says = LOOK;
    CHECK_EQ(ask(handle, LEASE_PROBE, 0).outcome, LEASE_DONE);
    CHECK_STR(fake.asked, "WEIR.LEASE egress 0");
    CHECK_EQ(ask(handle, LEASE_TURN, 0).outcome, LEASE_FAILED); /* never sent */
    ops->leave(handle);
    ops->close(coordinator);
    CHECK_EQ(told.downs, 0);
    fake_stop(&fake);
}

TEST(a_name_that_the_server_does_not_know_fails_and_says_so_once_and_when_it_is_well)
{
    struct fake fake;
    struct weir_error err;
    fake_start(&fake, 0, "-ERR no policy 'egress'\r\n");
    struct coordinator *coordinator = open_to(&fake.port, 1, &err);
    if (!CHECK(coordinator != NULL))
        return;
    struct pool_handle *handle = ops->enter(coordinator, "egress", NULL, NULL, &err);
    struct lease_reply reply = ask(handle, LEASE_TAKE, 2);
    CHECK_EQ(reply.outcome, LEASE_FAILED);
    CHECK(reply.retry_ns > 0);
    CHECK_STR(told.trouble, "ERR no policy 'egress'");
    fake.says = LEASE;
    CHECK_EQ(ask(handle, LEASE_TAKE, 2).outcome, LEASE_DONE);
    CHECK_STR(told.trouble, "");
    CHECK_EQ(told.troubles, 2);
    CHECK_EQ(ask(handle, LEASE_TAKE, 2).outcome, LEASE_DONE);
    CHECK_EQ(told.troubles, 2);
    ops->leave(handle);
    ops->close(coordinator);
    fake_stop(&fake);
}

TEST(that_nothing_may_be_handed_back_is_told_until_it_may)
{
    struct fake fake;
    struct weir_error err;
    fake_start(&fake, 0, "-NOPERM no adjust\r\n");
    struct coordinator *coordinator = open_to(&fake.port, 1, &err);
    if (!CHECK(coordinator != NULL))
        return;
    struct pool_handle *handle = ops->enter(coordinator, "egress", NULL, NULL, &err);
    CHECK_EQ(ask(handle, LEASE_RETURN, 2).outcome, LEASE_DONE);
    CHECK_STR(told.trouble, "chunks do not go back: NOPERM no adjust");
    fake.says = LEASE;
    CHECK_EQ(ask(handle, LEASE_TAKE, 2).outcome, LEASE_DONE);
    CHECK_STR(told.trouble, "chunks do not go back: NOPERM no adjust"); /* it is no better for that */
    int troubles = told.troubles;
    CHECK_EQ(ask(handle, LEASE_TAKE, 2).outcome, LEASE_DONE);
    CHECK_EQ(told.troubles, troubles);
    fake.says = ":1\r\n";
    CHECK_EQ(ask(handle, LEASE_RETURN, 2).outcome, LEASE_DONE);
    CHECK_STR(told.trouble, "");
    ops->leave(handle);
    ops->close(coordinator);
    fake_stop(&fake);
}

TEST(silence_and_hanging_up_leave_it_open_and_the_line_comes_back)
{
    struct fake fake;
    struct weir_error err;
    fake_start(&fake, 0, NULL);
    answer_ns = 300 * WEIR_MS;
    struct coordinator *coordinator = open_to(&fake.port, 1, &err);
    answer_ns = PATIENCE;
    if (!CHECK(coordinator != NULL))
        return;
    struct pool_handle *handle = ops->enter(coordinator, "egress", NULL, NULL, &err);
    take_until(handle, LEASE_UNKNOWN); /* silent for answer_ns */
    CHECK(wait_for(&told.downs, 1));
    CHECK(wait_for(&told.ups, 2));
    fake.says = "";
    take_until(handle, LEASE_UNKNOWN);
    CHECK(wait_for(&told.downs, 2));
    CHECK(wait_for(&told.ups, 3));
    CHECK_EQ(told.troubles, 0); /* that it is away is no trouble of one name */
    fake.says = LEASE;
    take_until(handle, LEASE_DONE);
    ops->leave(handle);
    ops->close(coordinator);
    fake_stop(&fake);
}

TEST(what_never_left_has_failed_for_sure_and_a_server_that_comes_back_is_found)
{
    struct fake fake;
    struct weir_error err;
    fake_start(&fake, 0, LEASE);
    int port = fake.port;
    struct coordinator *coordinator = open_to(&port, 1, &err);
    if (!CHECK(coordinator != NULL))
        return;
    struct pool_handle *handle = ops->enter(coordinator, "egress", NULL, NULL, &err);
    fake_stop(&fake);
    CHECK(wait_for(&told.downs, 1));
    CHECK_EQ(ask(handle, LEASE_TAKE, 2).outcome, LEASE_FAILED);
    CHECK(told.why[0] != '\0' && told.troubles == 0);
    fake_start(&fake, port, LEASE);
    CHECK(wait_for(&told.ups, 2));
    CHECK_EQ(ask(handle, LEASE_TAKE, 2).outcome, LEASE_DONE);
    ops->leave(handle);
    ops->close(coordinator);
    fake_stop(&fake);
}

TEST(who_has_left_is_told_nothing)
{
    struct fake fake;
    struct weir_error err;
    fake_start(&fake, 0, NULL);
    struct coordinator *coordinator = open_to(&fake.port, 1, &err);
    if (!CHECK(coordinator != NULL))
        return;
    struct pool_handle *handle = ops->enter(coordinator, "egress", NULL, NULL, &err);
    const struct lease_order order = {.id = 5, .op = LEASE_TAKE, .chunks = 1};
    ops->order(handle, &order);
    ops->leave(handle);
    ops->close(coordinator); /* answers what is on the way */
    CHECK_EQ(told.replies, 0);
    fake_stop(&fake);
}

TEST(nobody_there_is_said_within_its_time)
{
    struct fake fake;
    struct weir_error err = {0};
    fake_start(&fake, 0, LEASE);
    int port = fake.port;
    fake_stop(&fake);
    int64_t before = weir_resp_client_now();
    CHECK(open_to(&port, 1, &err) == NULL);
    CHECK(strncmp(err.text, "cannot reach weir://test: 127.0.0.1:", 36) == 0);
    CHECK(weir_resp_client_now() - before < PATIENCE / 2);
}

/* `gone`, the first or the second, is away. */
static void check_two(int gone)
{
    struct fake fakes[2];
    struct weir_error err;
    for (int i = 0; i < 2; i++)
        fake_start(&fakes[i], 0, LEASE);
    int ports[] = {fakes[0].port, fakes[1].port};
    fake_stop(&fakes[gone]);
    struct coordinator *coordinator = open_to(ports, 2, &err);
    if (!CHECK(coordinator != NULL))
        return;
    int done = 0, failed = 0, names = 0;
    for (; names < 64 && (done == 0 || failed == 0); names++) { /* which of them, the ports decide */
        char name[16];
        (void)snprintf(name, sizeof name, "pool%d", names);
        struct pool_handle *handle = ops->enter(coordinator, name, NULL, NULL, &err);
        int32_t outcome = ask(handle, LEASE_TAKE, 2).outcome;
        done += outcome == LEASE_DONE;
        failed += outcome == LEASE_FAILED;
        ops->leave(handle);
    }
    CHECK_EQ(done + failed, names);
    CHECK(done > 0 && failed > 0);
    CHECK_EQ(told.troubles, failed);
    CHECK_EQ(told.downs, 0);
    CHECK_EQ(told.ups, 1);
    ops->close(coordinator);
    fake_stop(&fakes[1 - gone]);
}

TEST(one_of_two_is_enough_and_each_keeps_its_names)
{
    check_two(0);
    check_two(1);
}

TEST(a_name_stays_where_it_is_when_the_list_changes)
{
    struct server_url url = {.host_count = 5}, turned = {.host_count = 5}, fewer = {.host_count = 4};
    int kept[5] = {0}, moved = 0;
    for (int i = 0; i < 5; i++) {
        struct server_host host = {.port = 9049};
        (void)snprintf(host.name, sizeof host.name, "weir%d", i);
        url.hosts[i] = turned.hosts[4 - i] = host;
        if (i < 4)
            fewer.hosts[i] = host;
    }
    for (int i = 0; i < 1000; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "pool%d", i);
        const struct server_host *host = weir_tier_host(&url, name);
        kept[host - url.hosts]++;
        CHECK_STR(weir_tier_host(&turned, name)->name, host->name);
        if (strcmp(host->name, "weir4") != 0)
            CHECK_STR(weir_tier_host(&fewer, name)->name, host->name);
        else
            moved++;
    }
    for (int i = 0; i < 5; i++)
        CHECK(kept[i] > 120 && kept[i] < 280);
    CHECK_EQ(moved, kept[4]);
}

/* Nodes that mean the same servers ask the same one, however they write them. */
TEST(a_server_keeps_its_names_however_it_is_spelt)
{
    static const char *const spelt[][2] = {
        {"weir://a.example,b.example,c.example", "weir://C.Example:9049,a.example.,B.EXAMPLE"},
        {"weir://a.example,b.example,c.example", "weir://b.example,c.example,a.example,b.example.:9049"},
        {"weir://[::1],[2001:db8::a],10.0.0.1", "weir://10.0.0.1,[2001:DB8:0:0:0:0:0:A],[0:0::0:1]:9049"}};
    for (size_t i = 0; i < sizeof spelt / sizeof spelt[0]; i++) {
        struct server_url url, other;
        struct weir_error err;
        if (!CHECK(weir_url_read(&url, spelt[i][0], &err)) ||
            !CHECK(weir_url_read(&other, spelt[i][1], &err)))
            continue;
        for (int n = 0; n < 200; n++) {
            char name[16], one[64], same[64];
            (void)snprintf(name, sizeof name, "pool%d", n);
            weir_tier_normalize_host(weir_tier_host(&url, name), one, sizeof one);
            weir_tier_normalize_host(weir_tier_host(&other, name), same, sizeof same);
            if (!CHECK_STR(one, same))
                break;
        }
    }
}

TEST(quota_shows_what_a_look_says_and_changes_nothing)
{
    struct fake fake;
    struct weir_error err;
    struct quota_answer answer;
    fake_start(&fake, 0, LOOK);
    struct coordinator *coordinator = open_to(&fake.port, 1, &err);
    if (!CHECK(coordinator != NULL))
        return;
    struct quota_ask question = {.op = QUOTA_SHOW, .name = "egress"};
    CHECK(ops->quota(coordinator, &question, &answer, &err));
    CHECK(answer.found);
    CHECK_EQ(answer.left, 49998000);
    CHECK_EQ(answer.used, 2);
    CHECK_EQ(answer.age_ns, 19 * WEIR_SEC);
    CHECK_EQ(answer.epoch, 12);
    fake.says = "-ERR no policy 'egress'\r\n";
    CHECK(ops->quota(coordinator, &question, &answer, &err));
    CHECK(!answer.found);
    fake.says = "-NOPERM no\r\n";
    CHECK(!ops->quota(coordinator, &question, &answer, &err));
    CHECK_STR(err.text, "weir://test: NOPERM no; who looks needs the class take, and the policy");
    question.op = QUOTA_SET;
    CHECK(!ops->quota(coordinator, &question, &answer, &err));
    CHECK(strstr(err.text, "weir reload -s redis://127.0.0.1:") != NULL);
    ops->close(coordinator);
    fake_stop(&fake);
}
