/* SPDX-License-Identifier: MIT */
/*
 * Answers that wait for a store: a server whose I/O thread has a store that moves when the test says so.
 * Whatever comes in whatever order, a client is never told of a change that is not safe, is told all in
 * order, and is told of what has changed nothing at once.
 */
#define _GNU_SOURCE

#include "os/futex.h"
#include "property/socket_kit.h"
#include "server/input.h"
#include "service/pending.h"
#include "store/commit.h"
#include "unit/service/service_kit.h"

#define CLIENTS     6
#define STORIES     12
#define REQUESTS    40
#define STEPS       160
#define TICKETS_MAX 100000
#define PINGS       100

static const char yaml[] = "memory: 16MiB\n"
                           "policies:\n"
                           "  - {name: big, limits: 1M/s}\n"
                           "  - {name: one, limits: 1/s burst=1}\n"
                           "  - {name: shut, limits: blocked}\n";

/* ---- a store ---------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t mutex;
    uint64_t appended, synced; /* tickets */
    bool sick;
    bool forgets;                 /* requests list a place, and do not say that they have changed something */
    int64_t changes[CLIENTS + 1]; /* of each session, */
    int64_t at[TICKETS_MAX][CLIENTS + 1]; /* and as they were when a ticket was drawn */
    struct io_thread *io_thread;
} fake = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void fake_begin(void)
{
    fake.appended = fake.synced = 0;
    fake.sick = fake.forgets = false;
    memset(fake.changes, 0, sizeof fake.changes);
}

void __real_weir_disk_wait_begin(struct io_thread *io_thread, struct store *store);
void __wrap_weir_disk_wait_begin(struct io_thread *io_thread, struct store *store);
uint64_t __wrap_weir_store_commit(struct store *store);
enum store_ticket_status __wrap_weir_store_ticket_status(struct store *store, uint64_t ticket);
struct run_result __real_weir_service_run(struct worker *worker, struct session *session,
                                          const struct resp_request *requests, size_t count,
                                          struct buffer *out);
struct run_result __wrap_weir_service_run(struct worker *worker, struct session *session,
                                          const struct resp_request *requests, size_t count,
                                          struct buffer *out);
struct run_result __real_weir_service_resume(struct worker *worker, struct session *session,
                                             struct buffer *out);
struct run_result __wrap_weir_service_resume(struct worker *worker, struct session *session,
                                             struct buffer *out);

void __wrap_weir_disk_wait_begin(struct io_thread *io_thread, struct store *store)
{
    (void)store;
    fake.io_thread = io_thread;
    __real_weir_disk_wait_begin(io_thread, (struct store *)(void *)&fake);
}

uint64_t __wrap_weir_store_commit(struct store *store)
{
    (void)store;
    if (weir_dirty)
        weir_dirty_clear(weir_dirty);
    pthread_mutex_lock(&fake.mutex);
    uint64_t ticket = ++fake.appended;
    CHECK(ticket < TICKETS_MAX);
    memcpy(fake.at[ticket % TICKETS_MAX], fake.changes, sizeof fake.changes);
    pthread_mutex_unlock(&fake.mutex);
    return ticket;
}

enum store_ticket_status __wrap_weir_store_ticket_status(struct store *store, uint64_t ticket)
{
    (void)store;
    pthread_mutex_lock(&fake.mutex);
    enum store_ticket_status may = ticket <= fake.synced ? STORE_GO : fake.sick ? STORE_SICK : STORE_WAIT;
    pthread_mutex_unlock(&fake.mutex);
    return may;
}

/* What is allowed is a change, and so is a promise: as a table that is kept lists it. */
struct run_result __wrap_weir_service_run(struct worker *worker, struct session *session,
                                          const struct resp_request *requests, size_t count,
                                          struct buffer *out)
{
    int64_t before = worker->allowed;
    struct run_result result = __real_weir_service_run(worker, session, requests, count, out);
    int64_t changes = worker->allowed - before + pending_waits(session->pending);
    if (!worker->read_section_lasts) /* the twin's */
        return result;
    result.changed = changes > 0;
    pthread_mutex_lock(&fake.mutex);
    if (fake.forgets) {
        static struct persist persist;
        weir_dirty_note(&persist, &persist, 1);
        result.changed = false;
    }
    if (session->id <= CLIENTS)
        fake.changes[session->id] += changes;
    pthread_mutex_unlock(&fake.mutex);
    return result;
}

/* As if to say that it is due were to change something. */
struct run_result __wrap_weir_service_resume(struct worker *worker, struct session *session,
                                             struct buffer *out)
{
    bool waits = pending_waits(session->pending);
    struct run_result result = __real_weir_service_resume(worker, session, out);
    result.changed = waits && result.state == RUN_READY;
    return result;
}

static uint64_t fake_appended(void)
{
    pthread_mutex_lock(&fake.mutex);
    uint64_t appended = fake.appended;
    pthread_mutex_unlock(&fake.mutex);
    return appended;
}

static void fake_sync(uint64_t up_to)
{
    pthread_mutex_lock(&fake.mutex);
    fake.synced = up_to > fake.synced ? up_to : fake.synced;
    pthread_mutex_unlock(&fake.mutex);
    weir_disk_wait_moved(fake.io_thread);
}

static void fake_sync_all(void)
{
    fake_sync(fake_appended());
}

static int64_t safe_changes(size_t session)
{
    pthread_mutex_lock(&fake.mutex);
    int64_t changes = fake.at[fake.synced % TICKETS_MAX][session];
    pthread_mutex_unlock(&fake.mutex);
    return changes;
}

/* Something that the I/O thread does soon; false: it does not. */
static bool comes_true(bool (*is)(uint64_t arg), uint64_t arg)
{
    for (int i = 0; !is(arg); i++) {
        if (i == PATIENCE_MS)
            return CHECK(false);
        (void)poll(NULL, 0, 1);
    }
    return true;
}

static bool is_appended(uint64_t after)
{
    return fake_appended() > after;
}

static void wait_for_commit(uint64_t after)
{
    (void)comes_true(is_appended, after);
}

static bool turn_has_ended(uint64_t worker)
{
    return weir_server_service(here.server)->workers[worker].read_epoch % 2 == 0;
}

static bool is_expecting(uint64_t arg)
{
    return arg == 0 && fake.io_thread->disk_wait.expects;
}

static bool parked_server(int64_t stuck_ms)
{
    fake_begin();
    return server_begin_with(&(struct here_options){.yaml = yaml, .stuck_ms = stuck_ms, .threads = 1});
}

/* ---- stories ---------------------------------------------------------------------------------------- */

struct story {
    struct client client;
    struct buffer bytes, expected;
    size_t sent;
    size_t begins[REQUESTS + 1]; /* where the answers to what was allowed begin */
    size_t allowed;
};

static void story_add(struct story *story, struct kit *twin, const char *line)
{
    size_t begin = buffer_len(&story->expected);
    int64_t before = twin->worker->allowed;
    const char *answer = kit_ask(twin, line);
    buffer_put(&story->bytes, line, strlen(line));
    buffer_put(&story->bytes, "\r\n", 2);
    buffer_put(&story->expected, answer, strlen(answer));
    if (twin->worker->allowed != before)
        story->begins[story->allowed++] = begin;
}

static void story_make(struct rng *rng, struct story *story, struct kit *twin, int number)
{
    static const char *const lines[] = {
        "WEIR.TAKE big k#", "WEIR.TAKE big k# 3",  "WEIR.TAKE shut k#", "PING",
        "WEIR.TAKE one k#", "WEIR.ACQUIRE big k#", "WEIR.PEEK big k#",  "WEIR.POLICY SET p# 5/s"};
    char line[64];
    *story = (struct story){.client = client_new()};
    client_say(&story->client, "PING\r\n"); /* so that its session has this number */
    client_hears(&story->client, "+PONG\r\n");
    for (int i = 0; i < REQUESTS; i++) {
        (void)snprintf(line, sizeof line, "%s", lines[rng_between(rng, 0, 7)]);
        char *digit = strchr(line, '#');
        if (digit)
            *digit = (char)('0' + number);
        story_add(story, twin, line);
    }
}

static void story_check(struct story *story, size_t session)
{
    const struct buffer *got = &story->client.got;
    size_t len = buffer_len(got), told = 0;
    while (told < story->allowed && story->begins[told] < len)
        told++;
    CHECK(!story->client.ended);
    CHECK(len <= buffer_len(&story->expected));
    CHECK(len == 0 || memcmp(buffer_bytes(&story->client.got), buffer_bytes(&story->expected), len) == 0);
    CHECK(safe_changes(session) >= (int64_t)told);
}

static void story_step(struct rng *rng, struct story *stories)
{
    int which = (int)rng_between(rng, 0, CLIENTS - 1);
    struct story *story = &stories[which];
    size_t left = buffer_len(&story->bytes) - story->sent;
    size_t piece = left > 0 ? 1 + (size_t)rng_between(rng, 0, 400) : 0;
    switch (rng_between(rng, 0, 3)) {
    case 0:
    case 1:
        piece = piece < left ? piece : left;
        client_send(&story->client, buffer_bytes(&story->bytes) + story->sent, piece);
        story->sent += piece;
        break;
    case 2:
        client_read(&story->client, (int)rng_between(rng, 0, 1));
        story_check(story, (size_t)which + 1);
        break;
    default:
        fake_sync((uint64_t)rng_between(rng, 0, (int64_t)fake_appended()));
    }
}

static void story_end(struct story *story, size_t session)
{
    size_t len = buffer_len(&story->expected);
    client_send(&story->client, buffer_bytes(&story->bytes) + story->sent,
                buffer_len(&story->bytes) - story->sent);
    for (int i = 0; i < PATIENCE_MS && buffer_len(&story->client.got) < len && check.faults == 0; i++) {
        fake_sync_all();
        client_read(&story->client, 1);
        story_check(story, session);
    }
    CHECK_EQ(buffer_len(&story->client.got), len);
    client_free(&story->client);
    weir_buffer_free(&story->bytes);
    weir_buffer_free(&story->expected);
}

TEST(nobody_is_told_of_a_change_that_is_not_safe)
{
    struct rng rng = rng_new(1);
    for (int round = 0; round < STORIES && check.faults == 0; round++) {
        struct story stories[CLIENTS];
        struct kit twin;
        if (!parked_server(0) || !CHECK(kit_open(&twin, yaml)))
            return;
        for (int i = 0; i < CLIENTS; i++)
            story_make(&rng, &stories[i], &twin, i);
        for (int i = 0; i < STEPS && check.faults == 0; i++)
            story_step(&rng, stories);
        for (int i = 0; i < CLIENTS; i++)
            story_end(&stories[i], (size_t)i + 1);
        kit_close(&twin);
        server_end();
    }
}

/* ---- single cases ----------------------------------------------------------------------------------- */

static const char allowed[] = "*12\r\n$7\r\nallowed\r\n:1\r\n", refused[] = "*12\r\n$7\r\nallowed\r\n:0\r\n";

/* Many rounds of the loop have passed, and it has heard nothing. */
static void hears_nothing(struct client *client)
{
    struct client other = client_new();
    for (int i = 0; i < PINGS; i++) {
        client_say(&other, "PING\r\n");
        client_hears(&other, "+PONG\r\n");
    }
    client_read(client, 0);
    CHECK_EQ(buffer_len(&client->got), 0);
    CHECK(!client->ended);
    client_free(&other);
}

/* The rest of an answer is of no interest. */
static void hears_all_of(struct client *client, const char *begin)
{
    client_hears(client, begin);
    client_say(client, "ECHO the-end\r\n");
    const char *found = NULL;
    while (!found && !client->ended) {
        client_read(client, PATIENCE_MS);
        found = memmem(buffer_bytes(&client->got), buffer_len(&client->got), "the-end\r\n", 9);
    }
    weir_buffer_drop(&client->got, buffer_len(&client->got), 0);
}

/* A whole verdict that was allowed; what follows stays. */
static void hears_verdict(struct client *client, const char *begin)
{
    static const char end[] = "$6\r\nreason\r\n$2\r\nok\r\n";
    const char *found = NULL;
    client_hears(client, begin);
    while (!found && !client->ended && check.faults == 0) {
        size_t len = buffer_len(&client->got);
        found = len > 0 ? memmem(buffer_bytes(&client->got), len, end, strlen(end)) : NULL;
        if (!found)
            (void)client_wait(client, len + 1);
    }
    if (CHECK(found != NULL))
        weir_buffer_drop(&client->got, (size_t)(found - buffer_bytes(&client->got)) + strlen(end), 0);
}

static int64_t commands_so_far(void)
{
    return sum_of(offsetof(struct worker, commands));
}

static bool commands_were_run(uint64_t count)
{
    return commands_so_far() >= (int64_t)count;
}

/* The same request many times. */
static void say_often(struct client *client, const char *line, int times)
{
    struct buffer bytes = {.most = 0};
    for (int i = 0; i < times; i++)
        buffer_put(&bytes, line, strlen(line));
    client_send(client, buffer_bytes(&bytes), buffer_len(&bytes));
    weir_buffer_free(&bytes);
}

/* Each piece is observed once, as the time that it waited. */
static void check_waits(int64_t pieces, int64_t since_ns)
{
    const struct histogram *waits = &fake.io_thread->worker->store_wait;
    int64_t count = 0;
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
        count += waits->counts[i];
    CHECK_EQ(count, pieces);
    CHECK(waits->sum_ns > 0 && waits->sum_ns <= pieces * (weir_monotonic_ns() - since_ns));
}

TEST(later_requests_are_run_while_earlier_answers_wait)
{
    int64_t began_ns = weir_monotonic_ns();
    if (!parked_server(0))
        return;
    struct client client = client_new();
    client_say(&client, "WEIR.TAKE big k\r\n");
    wait_for_commit(0);
    client_say(&client, "PING\r\n");
    (void)comes_true(commands_were_run, 2);
    client_say(&client, "WEIR.TAKE big k\r\nPING\r\n");
    wait_for_commit(1);
    (void)comes_true(commands_were_run, 4);
    hears_nothing(&client);
    fake_sync(1); /* each piece goes with its own ticket */
    hears_verdict(&client, allowed);
    client_hears(&client, "+PONG\r\n");
    hears_nothing(&client);
    check_waits(1, began_ns);
    fake_sync(2);
    hears_verdict(&client, allowed);
    client_hears(&client, "+PONG\r\n");
    check_waits(2, began_ns);
    client_free(&client);
    server_end();
}

TEST(answers_that_wait_for_the_disk_are_bounded)
{
    if (!parked_server(0))
        return;
    struct client client = client_new();
    client_say(&client, "WEIR.TAKE big k\r\n");
    wait_for_commit(0);
    say_often(&client, "PING\r\n", 3 * OUTPUT_ANSWERS);
    (void)comes_true(commands_were_run, OUTPUT_ANSWERS - BATCH);
    hears_nothing(&client);
    CHECK(commands_so_far() - PINGS <= OUTPUT_ANSWERS);
    fake_sync_all();
    hears_verdict(&client, allowed);
    for (int i = 0; i < 3 * OUTPUT_ANSWERS && check.faults == 0; i++)
        client_hears(&client, "+PONG\r\n");
    client_free(&client);
    server_end();
}

TEST(bytes_that_wait_for_the_disk_are_bounded)
{
    enum { TIMES = 100, LONG = 4000 }; /* what is not read fits into the socket's own buffer */
    const size_t len = TIMES * (LONG + strlen("$4000\r\n\r\n"));
    char line[LONG + 32] = "ECHO ", *at = line + 5;
    memset(at, 'x', LONG);
    memcpy(at + LONG, "\r\n", 3);
    if (!parked_server(0))
        return;
    struct client client = client_new();
    client_say(&client, "WEIR.TAKE big k\r\n");
    wait_for_commit(0);
    say_often(&client, line, TIMES);
    (void)comes_true(commands_were_run, OUTPUT_PAUSE / LONG);
    hears_nothing(&client);
    CHECK(commands_so_far() - PINGS <= OUTPUT_PAUSE / LONG + 2);
    fake_sync_all();
    hears_verdict(&client, allowed);
    (void)client_wait(&client, len);
    CHECK_EQ(buffer_len(&client.got), len);
    client_free(&client);
    server_end();
}

TEST(answers_of_all_causes_keep_their_order)
{
    if (!parked_server(0))
        return;
    struct client client = client_new();
    client_say(&client, "WEIR.TAKE one k\r\nWEIR.POLICY SET p 5/s\r\nWEIR.ACQUIRE one k\r\nPING\r\n"
                        "WEIR.TAKE big k\r\nPING\r\n");
    wait_for_commit(1); /* the take, and the promise behind the background job */
    hears_nothing(&client);
    weir_clock_set(WEIR_SEC);
    weir_io_thread_post(fake.io_thread, IO_TASK_LOOK);
    (void)comes_true(commands_were_run, 6 + PINGS);
    hears_nothing(&client);
    fake_sync_all();
    hears_verdict(&client, allowed);
    client_hears(&client, "+OK\r\n*14\r\n$7\r\nallowed\r\n:1\r\n");
    client_hears_last(&client, "waited_ms", 1000);
    client_hears(&client, "+PONG\r\n");
    fake_sync_all();
    hears_verdict(&client, allowed);
    client_hears(&client, "+PONG\r\n");
    client_free(&client);
    server_end();
}

TEST(who_wants_some_answers_gets_those_when_they_are_safe)
{
    if (!parked_server(0))
        return;
    struct client client = client_new();
    client_say(&client, "WEIR.TAKE big k\r\n");
    wait_for_commit(0);
    client_say(&client, "CLIENT REPLY SKIP\r\nWEIR.TAKE big k\r\nECHO one\r\n");
    wait_for_commit(1);
    client_say(&client, "CLIENT REPLY OFF\r\nWEIR.TAKE big k\r\n");
    wait_for_commit(2); /* a piece without bytes: what is behind it waits all the same */
    client_say(&client, "CLIENT REPLY ON\r\n");
    (void)comes_true(commands_were_run, 7);
    hears_nothing(&client);
    fake_sync(1);
    hears_verdict(&client, allowed);
    hears_nothing(&client);
    fake_sync(2);
    client_hears(&client, "$3\r\none\r\n");
    hears_nothing(&client);
    fake_sync(3);
    client_hears(&client, "+OK\r\n");
    client_free(&client);
    server_end();
}

static bool connections_are(uint64_t count)
{
    return sum_of(offsetof(struct worker, connections)) == (int64_t)count;
}

TEST(a_connection_that_closes_takes_its_pieces_with_it)
{
    if (!parked_server(0))
        return;
    struct client reset = client_new(), closed = client_new(), stays = client_new();
    const struct linger at_once = {.l_onoff = 1};
    for (uint64_t i = 0; i < 3; i++) { /* three pieces each, between each other */
        client_say(&reset, "WEIR.TAKE big k\r\n");
        client_say(&closed, "WEIR.TAKE big k\r\n");
        client_say(&stays, "WEIR.TAKE big k\r\n");
        (void)comes_true(commands_were_run, 3 * (i + 1));
        wait_for_commit(i);
    }
    (void)setsockopt(reset.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    client_free(&reset);
    (void)shutdown(closed.fd, SHUT_WR); /* it has asked all that it wants to, and listens */
    hears_nothing(&stays);
    hears_nothing(&closed);
    fake_sync_all();
    for (int i = 0; i < 3; i++) {
        hears_verdict(&stays, allowed);
        hears_verdict(&closed, allowed);
    }
    client_hears_the_end(&closed);
    (void)comes_true(connections_are, 1);
    client_free(&closed);
    client_free(&stays);
    server_end();
}

TEST(what_changes_nothing_does_not_wait)
{
    if (!parked_server(0))
        return;
    struct client taker = client_new(), other = client_new();
    client_say(&taker, "PING\r\nWEIR.TAKE big k\r\nPING\r\n");
    wait_for_commit(0);
    hears_nothing(&taker);
    client_say(&other, "WEIR.TAKE shut k\r\n");
    hears_all_of(&other, refused);
    fake_sync_all();
    client_hears(&taker, "+PONG\r\n*12\r\n$7\r\nallowed\r\n:1\r\n");
    hears_all_of(&taker, "$");
    client_free(&taker);
    client_free(&other);
    server_end();
}

TEST(a_last_word_is_said_when_all_before_it_is_safe)
{
    if (!parked_server(0))
        return;
    struct client client = client_new();
    client_say(&client, "WEIR.TAKE big k\r\nQUIT\r\n");
    wait_for_commit(0);
    hears_nothing(&client);
    fake_sync_all();
    client_hears(&client, allowed);
    while (!client.ended)
        client_read(&client, PATIENCE_MS);
    CHECK(memcmp(client.got.bytes + client.got.end - 5, "+OK\r\n", 5) == 0);
    client_free(&client);
    server_end();
}

TEST(who_wants_no_answers_is_logged_all_the_same)
{
    if (!parked_server(0))
        return;
    struct client client = client_new();
    client_say(&client, "CLIENT REPLY OFF\r\nWEIR.TAKE big k\r\nQUIT\r\n");
    wait_for_commit(0);
    hears_nothing(&client);
    CHECK_EQ(safe_changes(1), 0);
    fake_sync_all();
    CHECK_EQ(safe_changes(1), 1);
    client_hears_the_end(&client);
    client_free(&client);
    server_end();
}

TEST(who_leaves_while_he_waits_for_the_disk_is_forgotten)
{
    if (!parked_server(0))
        return;
    struct client gone = client_new(), stays = client_new();
    client_say(&gone, "WEIR.TAKE big k\r\n");
    wait_for_commit(0);
    client_say(&stays, "WEIR.TAKE big k\r\n");
    wait_for_commit(1);
    client_free(&gone);
    hears_nothing(&stays);
    fake_sync_all();
    hears_all_of(&stays, allowed);
    client_say(&stays, "CLIENT LIST\r\n");
    client_hears(&stays, "$");
    client_free(&stays);
    server_end();
}

TEST(a_promise_waits_for_its_time_and_for_the_store)
{
    if (!parked_server(0))
        return;
    struct client client = client_new();
    client_say(&client, "WEIR.TAKE one k\r\nWEIR.ACQUIRE one k\r\nPING\r\n");
    wait_for_commit(0);
    hears_nothing(&client);
    weir_clock_set(WEIR_SEC);
    weir_io_thread_post(fake.io_thread, IO_TASK_LOOK); /* it is due: but nothing before it has been said */
    wait_for_commit(1);
    hears_nothing(&client);
    fake_sync(1); /* what it has changed first is not all: the take alone is told */
    hears_verdict(&client, allowed);
    hears_nothing(&client);
    fake_sync_all();
    client_hears(&client, "*14\r\n$7\r\nallowed\r\n:1\r\n");
    client_hears_last(&client, "waited_ms", 1000);
    client_hears(&client, "+PONG\r\n");
    client_free(&client);
    server_end();
}

TEST(who_waits_for_the_disk_is_patient_unless_the_disk_is_sick)
{
    if (!parked_server(60))
        return;
    struct client parked = client_new(), half = client_new();
    client_say(&parked, "WEIR.TAKE big k\r\n");
    wait_for_commit(0);
    client_say(&half, "*2\r\n$4\r\nEC");
    client_hears_the_end(&half); /* so the time has passed for both */
    hears_nothing(&parked);
    fake_sync_all();
    hears_all_of(&parked, allowed);
    client_say(&parked, "WEIR.TAKE big k\r\n");
    wait_for_commit(1);
    pthread_mutex_lock(&fake.mutex);
    fake.sick = true;
    pthread_mutex_unlock(&fake.mutex);
    client_hears_the_end(&parked);
    client_free(&parked);
    client_free(&half);
    server_end();
}

static bool tasks_are_done(uint64_t arg)
{
    return arg == 0 && fake.io_thread->tasks == 0;
}

TEST(a_server_that_ends_waits_for_the_store)
{
    if (!parked_server(0))
        return;
    struct client parked = client_new(), idle = client_new();
    client_say(&idle, "PING\r\n");
    client_hears(&idle, "+PONG\r\n");
    client_say(&parked, "WEIR.TAKE big k\r\nWEIR.TAKE shut k\r\n");
    wait_for_commit(0);
    kill(getpid(), SIGTERM);
    client_hears_the_end(&idle); /* it drains */
    int64_t commands = commands_so_far();
    client_say(&parked,
               "PING\r\n"); /* it may come to an end: no more is run until the disk has taken the rest */
    for (int i = 0; i < PINGS; i++) {
        weir_io_thread_post(fake.io_thread, IO_TASK_LOOK);
        (void)comes_true(tasks_are_done, 0);
    }
    CHECK_EQ(commands_so_far(), commands);
    client_read(&parked, 0);
    CHECK_EQ(buffer_len(&parked.got), 0);
    fake_sync_all();
    client_hears(&parked, allowed);
    while (!parked.ended)
        client_read(&parked, PATIENCE_MS);
    CHECK(memmem(buffer_bytes(&parked.got), buffer_len(&parked.got), refused, strlen(refused)) != NULL);
    client_free(&parked);
    client_free(&idle);
    server_join();
}

/* Else it would go on when something else happens, which may be long. */
TEST(an_io_thread_that_waits_for_the_store_wants_to_be_told)
{
    if (!parked_server(0))
        return;
    struct client client = client_new();
    client_say(&client, "WEIR.TAKE big k\r\n");
    (void)comes_true(is_expecting, 0);
    fake_sync_all();
    hears_all_of(&client, allowed);
    client_free(&client);
    server_end();
}

/* Else nothing that it could have seen would ever be freed. */
static bool is_seen_after(uint64_t time_ms)
{
    return atomic_load(&fake.io_thread->worker->heartbeat_ms) > (int64_t)time_ms;
}

/* Probes take a thread for dead that was not seen for long. */
TEST(an_io_thread_without_clients_is_seen_at_work)
{
    if (!parked_server(60))
        return;
    CHECK(comes_true(is_seen_after, 0));
    CHECK(comes_true(is_seen_after, (uint64_t)atomic_load(&fake.io_thread->worker->heartbeat_ms)));
    server_end();
}

TEST(an_io_thread_that_sleeps_has_ended_its_read_section)
{
    if (!parked_server(0))
        return;
    struct client client = client_new();
    client_say(&client, "PING\r\nWEIR.TAKE big k\r\n");
    wait_for_commit(0);
    (void)comes_true(turn_has_ended, 0);
    fake_sync_all();
    hears_all_of(&client, "+PONG\r\n");
    (void)comes_true(turn_has_ended, 0);
    client_free(&client);
    server_end();
}

#if !WEIR_ASSERTIONS /* which end the server here */
/* Its table may be freed before something else is committed. */
TEST(what_is_listed_is_committed_also_if_nobody_says_so)
{
    if (!parked_server(0))
        return;
    struct client client = client_new();
    pthread_mutex_lock(&fake.mutex);
    fake.forgets = true;
    pthread_mutex_unlock(&fake.mutex);
    client_say(&client, "PING\r\n");
    wait_for_commit(0);
    hears_all_of(&client, "+PONG\r\n");
    client_free(&client);
    server_end();
}
#endif
