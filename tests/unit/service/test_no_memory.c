/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out: at the first piece that somebody wants, at the second, and so on until a whole story goes
 * through. Each time nothing falls over, nothing leaks (a sanitizer looks), what is answered is whole, and
 * afterwards everything is as it was or as it was asked to be: what is told of limits, and what the tables
 * count by, are the same.
 *
 * Pages count as pieces, too. Without a sanitizer also what libc and libyaml want for themselves.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "resp/reply.h"
#include "server/server.h"
#include "service/pending.h"
#include "service/policies/apply.h"
#include "service/policies/growth.h"
#include "service/run.h"
#include "table/override.h"
#include "unit/service/service_kit.h"

#define PIECES_MAX   20000 /* no story needs so many */
#define HUMANIZE_MAX 32
#define OUTPUT_MOST  (8 << 20)

/* ---- memory that runs out ------------------------------------------------------------------------- */

static struct {
    int64_t left; /* pieces, then one is missing; below 0: none is */
    bool libraries;
} memory = {.left = -1};

static bool is_missing(bool library)
{
    return memory.left >= 0 && library == memory.libraries && memory.left-- == 0;
}

#define WRAP(TYPE, NAME, PARAMETERS, ARGUMENTS, NONE)                                                        \
    TYPE __real_##NAME PARAMETERS;                                                                           \
    TYPE __wrap_##NAME PARAMETERS;                                                                           \
    TYPE __wrap_##NAME PARAMETERS                                                                            \
    {                                                                                                        \
        return is_missing(false) ? (errno = ENOMEM, NONE) : __real_##NAME ARGUMENTS;                         \
    }
WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(void *, realloc, (void *piece, size_t size), (piece, size), NULL)
WRAP(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size), NULL)
WRAP(char *, strdup, (const char *text), (text), NULL)
WRAP(void *, mmap, (void *at, size_t size, int may, int flags, int file, off_t offset),
     (at, size, may, flags, file, offset), MAP_FAILED)
WRAP(int, madvise, (void *at, size_t size, int advice), (at, size, advice), -1)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIBRARIES_TOO false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LIBRARIES_TOO false
#endif
#endif
#ifndef LIBRARIES_TOO
#define LIBRARIES_TOO true
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *piece, size_t size);

void *malloc(size_t size)
{
    return is_missing(true) ? (errno = ENOMEM, NULL) : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return is_missing(true) ? (errno = ENOMEM, NULL) : __libc_calloc(count, size);
}

void *realloc(void *piece, size_t size)
{
    return is_missing(true) ? (errno = ENOMEM, NULL) : __libc_realloc(piece, size);
}
#endif

/* `act` once for each piece of memory that it wants, each time without that one, and at last with all of
 * them; after each `look`, which is told whether it was the last time. Gives how many pieces that were. */
static int64_t for_every_piece(void (*act)(void), void (*look)(bool went_well))
{
    for (int64_t piece = 0; piece < PIECES_MAX; piece++) {
        memory.left = piece;
        act();
        bool went_well = memory.left >= 0;
        memory.left = -1;
        look(went_well);
        if (check.faults > 0)
            printf("# without piece %lld\n", (long long)piece); /* and no further */
        if (went_well || check.faults > 0)
            return piece;
    }
    CHECK(false);
    return PIECES_MAX;
}

/* ---- the world ------------------------------------------------------------------------------------ */

static const char yaml[] = "memory: 16MiB\n"
                           "users:\n"
                           "  - {name: default, may: all}\n"
                           "  - {name: app, password: x, may: [take], keys: [\"u*\"], policies: [api]}\n"
                           "policies:\n"
                           "  - name: api\n"
                           "    keys: 64\n"
                           "    limits: [1000/s burst=100000, 1M/h name=hour]\n"
                           "    candidate: 5/s\n"
                           "    overrides:\n"
                           "      - {key: own, limits: 20/s burst=50 name=mine, reason: because}\n"
                           "      - {key: \"int:*\", limits: 30/s}\n"
                           "  - {name: llm-tokens, limits: 1M/s, keys: 64}\n"
                           "  - {name: slow, limits: 1/s burst=1, keys: 64}\n";

static struct kit kit;

static struct policy *policy_named(const char *name)
{
    return weir_snapshot_policy(atomic_load(&kit.service->snapshot), (struct slice){name, strlen(name)});
}

/* What is told of a policy is what its tables count by. */
static void check_policy(const struct policy *policy)
{
    char text[SPEC_TEXT_MAX] = "";
    (void)weir_table_text(policy->main->table, text, sizeof text);
    CHECK_STR(text, policy->limits);
    CHECK(policy->labels && policy->labels->count > 0);
    for (size_t i = 0; i < policy->key_count; i++) {
        const struct policy_override *key = &policy->keys[i];
        size_t len = weir_table_override_text(policy->main->table, key->key, key->len, text, sizeof text);
        CHECK(len > 0);
        CHECK_STR(text, key->limits);
    }
    for (size_t i = 0; i < policy->prefix_count; i++) {
        (void)weir_table_text(policy->prefixes[i].ptable->table, text, sizeof text);
        CHECK_STR(text, policy->prefixes[i].limits);
    }
}

/* It still serves, and nobody has kept the lock. */
static void check_service(void)
{
    const struct snapshot *snapshot = atomic_load(&kit.service->snapshot);
    for (size_t i = 0; i < snapshot->policy_count; i++)
        check_policy(snapshot->policies[i]);
    struct kit other;
    kit_join(&other, &kit, 0);
    if (policy_named("llm-tokens"))
        CHECK_EQ(kit_field(kit_ask(&other, "WEIR.TAKE llm-tokens bystander"), "allowed"), 1);
    CHECK(pthread_mutex_trylock(&kit.service->change) == 0);
    CHECK(pthread_mutex_unlock(&kit.service->change) == 0);
    kit_leave(&other);
}

/* ---- a request ------------------------------------------------------------------------------------ */

static struct {
    char line[512];
    struct slice words[HUMANIZE_MAX];
    struct resp_request request;
    bool may_fail; /* with all memory, too */
} asked;

static bool read_words(const char *line)
{
    static const struct resp_limits limits = {.args = HUMANIZE_MAX, .bulk = 512, .all = 1024};
    struct resp_reader reader = {0};
    struct resp_request_info got;
    int len = snprintf(asked.line, sizeof asked.line, "%s\r\n", line);
    if (!CHECK(len > 0 && (size_t)len < sizeof asked.line))
        return false;
    if (!CHECK_EQ(weir_resp_read(&reader, &limits, asked.line, (size_t)len, asked.words, &got), RESP_REQUEST))
        return false;
    asked.request = (struct resp_request){asked.words, got.words};
    return true;
}

static void come(void)
{
    weir_session_begin(&kit.session, kit.service, "127.0.0.1:50000", "127.0.0.1:9049", weir_now());
}

/* A client comes, asks, perhaps waits, and goes. */
static void ask(void)
{
    come();
    weir_buffer_free(&kit.out);
    kit.out.most = OUTPUT_MOST;
    kit.state = weir_service_run(kit.worker, &kit.session, &asked.request, 1, &kit.out).state;
    kit_work(&kit);
    weir_session_end(&kit.session, kit.worker);
}

/* For want of memory, with which tables could be compared, too; or it was done before, and nobody could be
 * told. */
static bool is_excused(const struct resp_value *error)
{
    static const char *const reasons[] = {
        "memory",    "refuses", "changed the kind of its limits", "ERR no policy", "no limits of its own",
        "not frozen"};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (memmem(error->text.bytes, error->text.len, reasons[i], strlen(reasons[i])))
            return true;
    return false;
}

/* One whole value, or a connection that is closed because there is none. */
static void look_at_answer(bool went_well)
{
    struct resp_value *value = NULL;
    size_t used = 0, len = buffer_len(&kit.out);
    if (kit.out.failed) {
        CHECK(!went_well);
        CHECK_EQ(kit.state, RUN_CLOSE);
    } else if (kit.state != RUN_PENDING) {
        CHECK_EQ(weir_resp_parse(buffer_bytes(&kit.out), len, &value, &used), RESP_PARSED);
        CHECK_EQ(used, len);
        CHECK(!value || value->type != RESP_ERROR || asked.may_fail || is_excused(value));
    }
    weir_resp_value_free(value);
    check_service();
}

static void ask_without_memory(const char *line, bool may_fail)
{
    asked.may_fail = may_fail;
    long faults = check.faults;
    if (!read_words(line))
        return;
    (void)for_every_piece(ask, look_at_answer);
    if (check.faults > faults)
        printf("# %s: \"%.*s\"\n", line, (int)buffer_len(&kit.out), buffer_bytes(&kit.out));
}

static void ask_examples(const struct command *commands)
{
    for (const struct command *command = commands; command && command->name; command++) {
        if (command->example)
            ask_without_memory(command->example, strcmp(command->example, "WEIR.RELOAD") == 0);
        ask_examples(command->commands);
    }
}

static bool begin(void)
{
    memory.libraries = false;
    return CHECK(kit_open(&kit, yaml));
}

static void end(void)
{
    kit_close(&kit);
    weir_clock_set(-1);
}

TEST(every_command_does_without)
{
    if (!begin())
        return;
    for (size_t i = 0; i < weir_command_count() && check.faults == 0; i++) {
        const struct command one[2] = {*weir_command_at(i), {0}};
        ask_examples(one);
        come();
        if (!policy_named("api")) /* the example of WEIR.POLICY DEL */
            CHECK(kit_policy(&kit, "api", "1000/s burst=100000, 1M/h name=hour"));
        CHECK_STR(kit_ask(&kit, "WEIR.POLICY MODE api enforce"), "+OK\r\n");
    }
    end();
}

/* Longer ones, and those that have no example. */
static const char *const lines[] = {"WEIR.TAKE api u AND slow s AND llm-tokens t 5 ID one",
                                    "WEIR.TAKE api own",
                                    "WEIR.TAKE api int:1",
                                    "WEIR.ACQUIRE slow w",
                                    "WEIR.ACQUIRE slow w",
                                    "WEIR.ACQUIRE api own 2 TIMEOUT 5000",
                                    "WEIR.RESERVE api u 5 AND llm-tokens t 5 TTL 500 ID two",
                                    "WEIR.RESERVE slow w 1 TIMEOUT 9000",
                                    "WEIR.CHARGE api u 5 ID three",
                                    "WEIR.EXPLAIN api own JSON",
                                    "WEIR.TOP api COUNT 5",
                                    "INFO everything",
                                    "COMMAND DOCS",
                                    "CONFIG GET *",
                                    "HELLO 3 AUTH app x SETNAME me",
                                    "CLIENT SETINFO LIB-VER 1.2",
                                    "RL.REDUCE a 2 60 TAKE 3",
                                    "RL.SESSIONIZE a 2 60"};

TEST(longer_requests_do_without)
{
    if (!begin())
        return;
    for (size_t i = 0; i < sizeof lines / sizeof *lines && check.faults == 0; i++)
        ask_without_memory(lines[i], false);
    ask_without_memory("WEIR.COMMIT 1-1", true);
    ask_without_memory("AUTH app wrong", true);
    ask_without_memory("NOSUCH command", true);
    end();
}

/* ---- changes: whole, or not at all ---------------------------------------------------------------- */

static char limits_before[SPEC_TEXT_MAX];
static const char *way_back; /* a request that undoes the change */

static void note_limits(void)
{
    const struct policy *policy = policy_named("api");
    (void)snprintf(limits_before, sizeof limits_before, "%s", policy ? policy->limits : "");
}

/* One that came about though a piece was missing is taken back: the next piece is to be missing from the
 * whole of it. */
static void look_at_change(bool went_well)
{
    const struct policy *policy = policy_named("api");
    look_at_answer(went_well);
    if (!kit.out.failed && buffer_len(&kit.out) > 0 && buffer_bytes(&kit.out)[0] == '-') {
        CHECK_STR(policy ? policy->limits : "", limits_before);
    } else if (!went_well) {
        come();
        (void)kit_ask(&kit, way_back);
    }
    note_limits();
}

static void change_without_memory(const char *line, const char *back)
{
    way_back = back;
    asked.may_fail = false;
    if (!read_words(line) || check.faults > 0)
        return;
    note_limits();
    int64_t pieces = for_every_piece(ask, look_at_change);
    CHECK(pieces > 3); /* else the test looks at nothing */
    if (check.faults > 0)
        printf("# %s: \"%.*s\"\n", line, (int)buffer_len(&kit.out), buffer_bytes(&kit.out));
}

TEST(changes_are_whole_or_are_not)
{
    static const char *const changes[][2] = {
        /* the same tables; others beside the older ones; back; others */
        {"WEIR.POLICY SET api 2000/s burst=100000, 2M/h name=hour",
         "WEIR.POLICY SET api 1000/s burst=100000, 1M/h name=hour"},
        {"WEIR.POLICY SET api 2000/s algo=sliding-window", "WEIR.POLICY SET api 2000/s, 2M/h"},
        {"WEIR.POLICY SET api 3000/s, 3M/h", "WEIR.POLICY SET api 2000/s algo=sliding-window"},
        {"WEIR.POLICY SET api 1000/s FRESH", "WEIR.POLICY SET api 3000/s, 3M/h FRESH"},
        {"WEIR.POLICY SET new 5/s", "WEIR.POLICY DEL new"},
        {"WEIR.POLICY DEL new", "WEIR.POLICY SET new 5/s"},
        {"WEIR.OVERRIDE SET api k 5/s FOR 1m REASON why", "WEIR.OVERRIDE DEL api k"},
        {"WEIR.OVERRIDE SET api k 6/s", "WEIR.OVERRIDE SET api k 5/s"},
        {"WEIR.OVERRIDE SET api own 7/s algo=fixed-window", "WEIR.OVERRIDE SET api own 20/s"},
        {"WEIR.OVERRIDE SET api pre:* 5/s, 6/m", "WEIR.OVERRIDE DEL api pre:*"},
        {"WEIR.OVERRIDE SET api pre:* 6/s, 7/m", "WEIR.OVERRIDE SET api pre:* 5/s, 6/m"},
        {"WEIR.OVERRIDE DEL api pre:*", "WEIR.OVERRIDE SET api pre:* 5/s, 6/m"},
        {"WEIR.OVERRIDE DEL api k", "WEIR.OVERRIDE SET api k 5/s"},
        {"WEIR.POLICY MODE api shadow FOR 1m", "WEIR.POLICY MODE api enforce"},
        {"WEIR.POLICY MODE * disabled", "WEIR.POLICY MODE * enforce"},
        {"WEIR.POLICY MODE * enforce", "WEIR.POLICY MODE * disabled"},
    };
    if (!begin())
        return;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        change_without_memory(changes[i][0], changes[i][1]);
    end();
}

/* ---- a file that is read again -------------------------------------------------------------------- */

static char path[] = "/tmp/weir-no-memory-XXXXXX";

static bool write_file(const char *text)
{
    int file = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    bool done = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    if (file >= 0)
        close(file);
    return CHECK(done);
}

static const char *const files[] = {
    "users: [{name: default, may: all}]\n"
    "policies:\n"
    "  - {name: api, limits: [10/s, 5/m], candidate: 3/s, overrides: [{key: own, limits: 5/s}]}\n"
    "  - {name: slow, limits: 1/s}\n"
    "  - {name: login, limits: [5/m, 20/h]}\n",
    "users: [{name: app, password: x, may: [take], keys: [\"a*\"]}, {name: default, may: all}]\n"
    "policies:\n"
    "  - {name: api, limits: [20/s, 6/m], candidate: 4/s,\n"
    "     overrides: [{key: own, limits: 6/s}, {key: \"p*\", limits: 1/m}]}\n"
    "  - {name: llm-tokens, limits: 1M/s}\n"
    "  - {name: login, limits: [6/m, 30/h]}\n"};

static const struct snapshot *before_reload;
static bool reloaded;
static size_t next_file;

static void reload(void)
{
    struct buffer report = {.most = 4096};
    before_reload = atomic_load(&kit.service->snapshot);
    reloaded = weir_service_reload(kit.service, &report);
    weir_buffer_free(&report);
}

static void look_at_reload(bool went_well)
{
    CHECK(reloaded || !went_well);
    CHECK_EQ(atomic_load(&kit.service->snapshot) != before_reload, reloaded);
    CHECK(reloaded || kit.service->reload_error[0] != '\0');
    check_service();
    if (reloaded) /* perhaps though a piece was missing: the next is to be missing from another change */
        (void)write_file(files[++next_file % 2]);
}

static void reload_without_memory(bool libraries)
{
    struct service_options options = {.workers = 1, .test_clock = true, .config_path = path};
    memory.libraries = false;
    if (!CHECK(kit_open_with(&kit, yaml, &options)))
        return;
    memory.libraries = libraries;
    (void)write_file(files[++next_file % 2]);
    for (int i = 0; i < 3 && check.faults == 0; i++)
        CHECK(for_every_piece(reload, look_at_reload) > 20);
    end();
}

TEST(a_reload_is_whole_or_is_not)
{
    int file = mkostemp(path, O_CLOEXEC);
    if (!CHECK(file >= 0))
        return;
    close(file);
    reload_without_memory(false);
    if (LIBRARIES_TOO)
        reload_without_memory(true);
    unlink(path);
}

/* ---- upkeep --------------------------------------------------------------------------------------- */

static void tick(void)
{
    weir_service_tick(kit.service);
}

static void look_at_tick(bool went_well)
{
    (void)went_well;
    check_service();
}

/* What ends and could not be ended is ended the next time. */
TEST(upkeep_does_without)
{
    if (!begin())
        return;
    CHECK_STR(kit_ask(&kit, "WEIR.OVERRIDE SET api k 5/s FOR 1m"), "+OK\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.OVERRIDE SET api q* 5/s FOR 1m"), "+OK\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY MODE api shadow FOR 1m"), "+OK\r\n");
    CHECK_STR(kit_ask(&kit, "WEIR.POLICY SET slow 1/s algo=sliding-log"), "+OK\r\n");
    for (int i = 0; i < 200; i++) { /* more than there is room for: it grows */
        char line[64];
        (void)snprintf(line, sizeof line, "WEIR.CHARGE llm-tokens key%d 100000", i);
        CHECK(kit_ask(&kit, line)[0] != '\0');
    }
    kit_clock(&kit, 60001);
    CHECK(for_every_piece(tick, look_at_tick) > 10);
    kit_tick(&kit); /* a piece may have been missing for one thing, and the others were done */
    kit_clock(
        &kit,
        2 * 60001); /* previous limits end some time after the last read section that did without them */
    kit_tick(&kit);
    CHECK_EQ(policy_named("api")->key_count, 1);
    CHECK_EQ(policy_named("api")->prefix_count, 1);
    CHECK_EQ(policy_named("api")->mode, MODE_ENFORCE);
    CHECK(policy_named("slow")->previous == NULL);
    end();
}

/* ---- beginning ------------------------------------------------------------------------------------ */

static struct {
    struct config *config;
    int complaints;
    struct service *service;
    struct server *server;
    struct weir_error err;
} start;

static void complain(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    start.complaints += complaint->message[0] != '\0';
}

static void parse_config(void)
{
    start.complaints = 0;
    start.config = weir_config_parse("w.yaml", yaml, sizeof yaml - 1, complain, NULL);
}

static void look_at_config(bool went_well)
{
    CHECK(start.config || !went_well);
    CHECK_EQ(start.config != NULL, start.complaints == 0);
    weir_config_free(start.config);
    start.config = NULL;
}

TEST(a_configuration_is_read_or_is_complained_about)
{
    memory.libraries = false;
    CHECK(for_every_piece(parse_config, look_at_config) > 50);
    memory.libraries = true;
    if (LIBRARIES_TOO)
        CHECK(for_every_piece(parse_config, look_at_config) > 70);
}

static void make_service(void)
{
    struct service_options options = {.workers = 2, .test_clock = true};
    start.err = (struct weir_error){0};
    start.service = weir_service_new(start.config, &options, &start.err);
}

static void look_at_service(bool went_well)
{
    CHECK(start.service || !went_well);
    CHECK(start.service || (start.err.code != 0 && start.err.text[0] != '\0'));
    weir_service_free(start.service);
}

TEST(a_service_is_made_or_it_says_why_not)
{
    parse_config();
    if (!CHECK(start.config))
        return;
    memory.libraries = false;
    CHECK(for_every_piece(make_service, look_at_service) > 100);
    weir_config_free(start.config);
    weir_clock_set(-1);
}

static void make_server(void)
{
    struct server_options options = {.config = start.config, .service = {.test_clock = true}};
    start.err = (struct weir_error){0};
    start.server = weir_server_new(&options, &start.err);
}

static void look_at_server(bool went_well)
{
    CHECK(start.server || !went_well);
    CHECK(start.server || start.err.text[0] != '\0');
    weir_server_free(start.server);
}

/* Only what weir itself wants: libuv stops the program if it gets none. */
TEST(a_server_is_made_or_it_says_why_not)
{
    static const char text[] =
        "listen: {resp: \"127.0.0.1:0\", http: \"127.0.0.1:0\"}\nthreads: 2\nmemory: 8MiB\n"
        "policies: [{name: p, limits: 5/s, keys: 64}]\n";
    start.config = weir_config_parse("w.yaml", text, sizeof text - 1, complain, NULL);
    if (!CHECK(start.config))
        return;
    memory.libraries = false;
    CHECK(for_every_piece(make_server, look_at_server) > 50);
    weir_config_free(start.config);
    weir_clock_set(-1);
}

/* ---- answers, as a client reads them -------------------------------------------------------------- */

static struct resp_value *value;
static enum resp_parsed parsed;

static void parse_answer(void)
{
    static const char bytes[] = "%2\r\n+a\r\n*2\r\n:1\r\n$1\r\nx\r\n+b\r\n~1\r\n#t\r\n";
    size_t used;
    parsed = weir_resp_parse(bytes, sizeof bytes - 1, &value, &used);
}

static void look_at_value(bool went_well)
{
    CHECK_EQ(parsed, went_well ? RESP_PARSED : RESP_NO_MEMORY);
    CHECK_EQ(value != NULL, went_well);
    weir_resp_value_free(value);
}

TEST(an_answer_is_read_or_there_is_none)
{
    memory.libraries = false;
    CHECK_EQ(for_every_piece(parse_answer, look_at_value), 1);
}
