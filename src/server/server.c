/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "server/server.h"

#include "config/address_rules.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/sat.h"
#include "server/accept.h"
#include "server/connection.h"
#include "server/file_watch.h"
#include "server/loading.h"
#include "server/notify.h"
#include "service/log.h"
#include "service/policies/apply.h"
#include "service/policies/growth.h"
#include "store/commit.h"
#include "store/store.h"

#define THREADS_DEFAULT 16 /* at most: a processor each, but not all of a large machine */
#define TICK_MS         20
#define WATCH_FILES_MS  250 /* a change counts when it is seen twice */
#define DRAIN_MS        5000
#define FILES_RESERVED  40 /* descriptors that are no clients: listeners, files, connections of fleets */
#define FILES_OF_LOOP   4
#define CLIENTS_LEAST   8 /* with descriptors for fewer it does not start */

struct server {
    struct server_options options;
    struct service *service;
    struct acceptor acceptor;
    struct io_thread *io_threads;
    int io_thread_count, running; /* I/O threads that run */
    struct loop *jobs, *logins;
    pthread_t job_thread, login_thread;
    bool jobs_running, login_runs;
    struct timer *announce_timer, *drain_timer, *dog_timer;
    struct loop_callback reload;
    struct transport_tls tls;
    struct tls_context *next_tls;    /* the job thread's: of a reload that is on its way */
    struct file_watch files_watched; /* the job thread's */
    struct rlimit files;
    /* I/O threads that the threads of the store and of fleets may talk to: they run before there are any, and
     * after. Held while one talks: whoever sets it to 0 knows that nobody talks to any afterwards. */
    pthread_mutex_t talking;
    int io_threads_told;
    _Atomic int undrained;
    atomic_bool reloading;
    bool stopping, announcing; /* announcing: it still serves all that comes */
    bool needs_tls;            /* it has a listener with TLS */
    int64_t patient_until_ns;  /* weir_now: so long it waits for a disk that takes nothing */
};

/* ---- what the service asks of it -------------------------------------------------------------- */

static void post_to_all(struct server *server, enum io_task task)
{
    for (int i = 0; i < server->io_thread_count; i++)
        weir_io_thread_post(&server->io_threads[i], task);
}

static void on_clock_moved(void *arg)
{
    post_to_all(arg, IO_TASK_LOOK);
}

/* By the store's threads. */
static void on_store_moved(void *arg)
{
    struct server *server = arg;
    pthread_mutex_lock(&server->talking);
    for (int i = 0; i < server->io_threads_told; i++)
        weir_disk_wait_moved(&server->io_threads[i]);
    pthread_mutex_unlock(&server->talking);
}

/* By threads of fleets. Who begins to wait counts before he looks for the last time. */
static void on_fleet_moved(void *arg)
{
    struct server *server = arg;
    pthread_mutex_lock(&server->talking);
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < server->io_threads_told; i++)
        if (atomic_load_explicit(&server->io_threads[i].worker->waiting, memory_order_relaxed) > 0)
            weir_io_thread_post(&server->io_threads[i], IO_TASK_LOOK);
    pthread_mutex_unlock(&server->talking);
}

static void set_io_threads_told(struct server *server, int io_threads)
{
    pthread_mutex_lock(&server->talking);
    server->io_threads_told = io_threads;
    pthread_mutex_unlock(&server->talking);
}

/* Each looks at all I/O threads, one after the other, and must hold none of them meanwhile: two who held
 * their own and waited for the other's would wait for ever. */
static struct io_thread *io_thread_at(struct session *session)
{
    struct connection *connection =
        (struct connection *)(void *)((char *)session - offsetof(struct connection, session));
    return connection->io_thread;
}

static void list_clients(void *arg, struct session *asking, struct buffer *out)
{
    struct server *server = arg;
    struct io_thread *own = io_thread_at(asking);
    pthread_mutex_unlock(&own->mutex);
    for (int i = 0; i < server->io_thread_count; i++)
        weir_io_thread_list(&server->io_threads[i], own->worker->now_ns, out);
    pthread_mutex_lock(&own->mutex);
}

static int64_t kill_clients(void *arg, struct session *asking, const struct client_kill *kill)
{
    struct server *server = arg;
    struct io_thread *own = io_thread_at(asking);
    int64_t killed = 0;
    pthread_mutex_unlock(&own->mutex);
    for (int i = 0; i < server->io_thread_count; i++)
        killed += weir_io_thread_kill(&server->io_threads[i], asking, kill);
    pthread_mutex_lock(&own->mutex);
    return killed;
}

/* By the job thread. */
static void on_users_changed(void *arg)
{
    post_to_all(arg, IO_TASK_USERS);
}

/* ---- certificates ----------------------------------------------------------------------------- */

static void set_certificate(struct server *server, struct tls_context *context)
{
    atomic_store_explicit(&server->service->tls_expires_ms, context ? weir_tls_expires_ms(context) : 0,
                          memory_order_relaxed);
    weir_transport_tls_set(&server->tls, context);
}

static bool on_prepare(void *arg, const struct config *config, struct weir_error *err)
{
    struct server *server = arg;
    return weir_transport_certificate(config, &server->next_tls, err) &&
           (server->next_tls || !server->needs_tls ||
            weir_error_complain(err, "tls: is missing, and clients connect with TLS; a restart without "
                                     "resp_tls and https does without"));
}

static void add_list_files(const struct text_list *list, const char **paths, size_t *count)
{
    for (size_t i = 0; i < list->count && *count < FILES_WATCHED; i++)
        if (list->texts[i][0] == '@')
            paths[(*count)++] = list->texts[i] + 1;
}

static void watch_files(struct server *server, const struct config *config)
{
    const char *paths[FILES_WATCHED] = {config->path, config->tls_cert, config->tls_key, config->tls_ca};
    size_t count = 4;
    _Static_assert(FILES_WATCHED == 4 + ADDRESS_FILES_MAX, "all can be watched");
    for (size_t i = 0; i < config->policy_count; i++)
        if (config->policies[i].address) {
            add_list_files(&config->policies[i].address->allow, paths, &count);
            add_list_files(&config->policies[i].address->block, paths, &count);
        }
    weir_file_watch_set(&server->files_watched, paths, config->watch == WATCH_FILES ? count : 0);
}

static void on_prepared(void *arg, const struct config *config, bool good)
{
    struct server *server = arg;
    if (good) {
        set_certificate(server, server->next_tls);
        watch_files(server, config);
    } else {
        weir_tls_context_free(server->next_tls);
    }
    server->next_tls = NULL;
}

/* ---- the job thread ------------------------------------------------------------------------- */

static void on_tick(void *arg)
{
    weir_service_tick(arg);
}

static void reload_service(void *arg)
{
    struct server *server = arg;
    struct buffer report = {.most = 65536};
    atomic_store(&server->reloading, false);
    weir_notify_send("RELOADING=1");
    (void)weir_service_reload(server->service, &report); /* which logs what comes of it */
    weir_buffer_free(&report);
    weir_notify_send("READY=1");
}

static void look_at_files(void *arg)
{
    struct server *server = arg;
    if (!weir_file_watch_look(&server->files_watched))
        return;
    weir_log(LOG_INFO_LEVEL, "files-changed", LOG_TEXT("config", server->service->options.config_path));
    reload_service(server);
}

static void *run_job_thread(void *arg)
{
    struct server *server = arg;
    struct timer *timer = weir_timer_new(server->jobs, on_tick, server->service);
    struct timer *files = weir_timer_new(server->jobs, look_at_files, server);
    if (timer)
        weir_timer_set(timer, TICK_MS, TICK_MS);
    if (files)
        weir_timer_set(files, WATCH_FILES_MS, WATCH_FILES_MS);
    weir_loop_run(server->jobs);
    weir_timer_free(timer);
    weir_timer_free(files);
    return NULL;
}

/* Passwords that are checked slowly: neither requests nor background jobs wait for them. */
static void *run_logins(void *arg)
{
    struct server *server = arg;
    weir_loop_run(server->logins);
    return NULL;
}

/* ---- stopping --------------------------------------------------------------------------------- */

static void end_io_threads(void *arg)
{
    post_to_all(arg, IO_TASK_END);
}

/* By each I/O thread itself; the last one ends them all. */
static void on_io_thread_drained(void *arg)
{
    struct server *server = arg;
    if (atomic_fetch_sub(&server->undrained, 1) == 1)
        end_io_threads(server);
}

/* Answers what has come, takes no new clients, and ends when all have gone. */
static void begin_drain(void *arg)
{
    struct server *server = arg;
    int64_t drain_ms = server->options.drain_ms > 0 ? server->options.drain_ms : DRAIN_MS;
    if (!server->stopping || server->patient_until_ns > 0)
        return; /* it has begun before its time came */
    server->announcing = false;
    server->patient_until_ns = sat_add(weir_now(), sat_mul(drain_ms, WEIR_MS));
    weir_acceptor_close(&server->acceptor);
    weir_timer_set(server->drain_timer, drain_ms, 0);
    post_to_all(server, IO_TASK_DRAIN);
}

/* A load balancer that asks /readyz must see that this server stops before it does: meanwhile all is served,
 * and every response says Connection: close. Nobody waits where nobody ever asked. */
static int64_t announce_ms(const struct server *server, int number)
{
    int64_t ms = server->options.config->drain_ms;
    bool watched = atomic_load_explicit(&server->service->ready_asked, memory_order_relaxed);
    return number == SIGINT || !watched ? 0 : ms > 0 ? ms : CONFIG_DRAIN_MS;
}

static void on_stop(void *arg, int number)
{
    struct server *server = arg;
    if (server->stopping && server->announcing) {
        begin_drain(server);
        return;
    }
    if (server->stopping) { /* somebody is in a hurry */
        server->patient_until_ns = 0;
        end_io_threads(server);
        return;
    }
    int64_t wait_ms = announce_ms(server, number);
    server->stopping = true;
    atomic_store_explicit(&server->service->draining, true, memory_order_relaxed);
    weir_notify_send("STOPPING=1");
    weir_log(LOG_INFO_LEVEL, "stopping", LOG_TEXT("signal", number == SIGINT ? "SIGINT" : "SIGTERM"),
             LOG_NUMBER("drain_ms", wait_ms));
    server->announcing = wait_ms > 0;
    if (server->announcing)
        weir_timer_set(server->announce_timer, wait_ms, 0);
    else
        begin_drain(server);
}

static void on_reload(void *arg, int number)
{
    struct server *server = arg;
    (void)number;
    if (!atomic_exchange(&server->reloading, true))
        weir_loop_post_ahead(server->jobs, &server->reload);
}

static void feed_watchdog(void *arg)
{
    (void)arg;
    weir_notify_send("WATCHDOG=1");
}

/* ---- making ----------------------------------------------------------------------------------- */

static int count_threads(const struct config *config)
{
    cpu_set_t set;
    if (config->threads > 0)
        return (int)(config->threads < SERVER_THREADS_MAX ? config->threads : SERVER_THREADS_MAX);
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : count < THREADS_DEFAULT ? count : THREADS_DEFAULT;
}

/* Descriptors that are no clients. */
static rlim_t own_files(const struct server *server)
{
    rlim_t loops = (rlim_t)server->options.service.workers + 2; /* for background jobs and for logins */
    return FILES_RESERVED + FILES_OF_LOOP * loops;
}

/* As many as the system lets us have. Before anything else is opened: with too few there would be a server
 * that turns everybody away. */
static bool raise_files(struct server *server, struct weir_error *err)
{
    const struct config *config = server->options.config;
    rlim_t most = config->max_clients > 0 ? (rlim_t)config->max_clients : CONFIG_CLIENTS;
    rlim_t own = own_files(server), wanted = own + most,
           clients = most < CLIENTS_LEAST ? most : CLIENTS_LEAST;
    if (getrlimit(RLIMIT_NOFILE, &server->files) < 0)
        server->files.rlim_cur = server->files.rlim_max = RLIM_INFINITY; /* nobody knows: it is tried */
    if (server->files.rlim_cur < wanted) {
        server->files.rlim_cur = server->files.rlim_max < wanted ? server->files.rlim_max : wanted;
        (void)setrlimit(RLIMIT_NOFILE, &server->files);
        (void)getrlimit(RLIMIT_NOFILE, &server->files);
    }
    return server->files.rlim_cur >= own + clients ||
           weir_error_complain(
               err,
               "%lld file descriptors are too few: %lld are needed, %lld of them for clients; raise the "
               "limit (ulimit -n, LimitNOFILE=)",
               (long long)server->files.rlim_cur, (long long)(own + clients), (long long)clients);
}

/* Then as many clients as there are descriptors for. */
static void fit_clients(struct server *server)
{
    struct service *service = server->service;
    rlim_t most = server->files.rlim_cur - own_files(server);
    if ((rlim_t)service->max_clients <= most)
        return;
    service->max_clients = (int64_t)most;
    weir_log(LOG_WARN_LEVEL, "few-descriptors", LOG_NUMBER("max_clients", service->max_clients),
             LOG_TEXT("do", "raise the limit: ulimit -n, LimitNOFILE="));
}

static bool make_io_threads(struct server *server, struct weir_error *err)
{
    const struct config *config = server->options.config;
    struct io_timeouts timeouts = {
        .stuck_ms = server->options.stuck_ms > 0 ? server->options.stuck_ms : STUCK_MS,
        .login_timeout_ms =
            server->options.login_timeout_ms > 0 ? server->options.login_timeout_ms : LOGIN_TIMEOUT_MS,
        .idle_ms = config->idle_ms,
        .linger_ms = LINGER_MS,
    };
    int wanted = (int)server->options.service.workers;
    server->jobs = weir_loop_new();
    server->logins = weir_loop_new();
    server->io_threads = calloc((size_t)wanted, sizeof *server->io_threads);
    if (!server->jobs || !server->logins || !server->io_threads)
        return weir_error_complain_as(err, ENOMEM, "out of memory");
    for (int i = 0; i < wanted; i++) {
        struct io_thread *io_thread = &server->io_threads[server->io_thread_count++];
        if (!weir_io_thread_begin(io_thread, &server->service->workers[i], server->jobs, &timeouts))
            return weir_error_complain_as(
                err, EMFILE, "no memory or descriptors for %d threads; --threads 1 needs less", wanted);
        io_thread->logins = server->logins;
        io_thread->tls = &server->tls;
        io_thread->buffered_max = BUFFERED_MAX / wanted;
        io_thread->drained = on_io_thread_drained;
        io_thread->drained_arg = server;
    }
    set_io_threads_told(server, wanted);
    atomic_store(&server->undrained, wanted);
    server->announce_timer = weir_timer_new(server->io_threads[0].loop, begin_drain, server);
    server->drain_timer = weir_timer_new(server->io_threads[0].loop, end_io_threads, server);
    server->dog_timer = weir_timer_new(server->io_threads[0].loop, feed_watchdog, NULL);
    return (server->announce_timer && server->drain_timer && server->dog_timer) ||
           weir_error_complain_as(err, ENOMEM, "out of memory");
}

static bool log_listeners(struct server *server, struct weir_error *err)
{
    struct buffer text = {.most = LISTEN_MAX * 256};
    for (size_t i = 0; i < server->acceptor.count; i++) {
        const struct listen_socket *listener = &server->acceptor.listeners[i];
        const char *kind = weir_listener_name(listener->kind);
        buffer_put(&text, kind, strlen(kind));
        buffer_put(&text, " ", 1);
        buffer_put(&text, listener->text, strlen(listener->text));
        buffer_put(&text, "\n", 1);
        if (listener->kind == LISTEN_RESP && server->service->tcp_port == 0)
            server->service->tcp_port = listener->port;
    }
    buffer_put(&text, "", 1);
    server->service->listens = text.failed ? NULL : strdup(text.bytes);
    weir_buffer_free(&text);
    return server->service->listens || weir_error_complain_as(err, ENOMEM, "out of memory");
}

/* Who can be reached from elsewhere needs a clock that nobody can set; and a password, which the service sees
 * to, at each reload. */
static bool check_exposure(struct server *server, struct weir_error *err)
{
    struct service_options *options = &server->options.service;
    if (weir_acceptor_is_local(&server->acceptor, &options->exposed))
        options->exposed = NULL;
    if (!options->exposed || !options->test_clock)
        return true;
    return weir_error_complain(
        err,
        "--test-clock lets any client set the time, and %s is not for this machine alone; "
        "listen on 127.0.0.1 or a unix socket",
        options->exposed);
}

/* Clients that connect while a data directory is read are told LOADING, and can go elsewhere. */
static bool make_service(struct server *server, struct weir_error *err)
{
    struct loading loading = {.runs = false};
    const char *data = server->options.config->data;
    if (data && strcmp(data, "none") != 0)
        weir_loading_begin(&loading, &server->acceptor);
    server->service = weir_service_new(server->options.config, &server->options.service, err);
    weir_loading_end(&loading);
    return server->service != NULL;
}

/* Addresses are taken first: an address in use is found before a long recovery, not after it. */
static bool make_server(struct server *server, struct weir_error *err)
{
    struct server_options *options = &server->options;
    struct tls_context *context = NULL;
    options->service.workers = (uint32_t)count_threads(options->config);
    if (!raise_files(server, err) || !weir_transport_certificate(options->config, &context, err))
        return false;
    weir_transport_tls_set(&server->tls, context);
    server->acceptor.tls = context != NULL;
    if (!weir_acceptor_open(&server->acceptor, options->config, options->inherited, options->inherited_count,
                            err) ||
        !check_exposure(server, err))
        return false;
    options->service.store_moved = on_store_moved;
    options->service.store_moved_arg = server;
    options->service.fleet_moved = on_fleet_moved;
    options->service.fleet_moved_arg = server;
    if (!make_service(server, err) || !make_io_threads(server, err) || !log_listeners(server, err))
        return false;
    for (size_t i = 0; i < server->acceptor.count; i++)
        server->needs_tls |= listener_is_tls(&server->acceptor.listeners[i]);
    server->service->server = server;
    server->service->clock_moved = on_clock_moved;
    server->service->clients = list_clients;
    server->service->kill = kill_clients;
    server->service->users_changed = on_users_changed;
    server->service->prepare = on_prepare;
    server->service->prepared = on_prepared;
    atomic_store(&server->service->tls_expires_ms, context ? weir_tls_expires_ms(context) : 0);
    watch_files(server, options->config);
    fit_clients(server);
    server->acceptor.io_threads = server->io_threads;
    server->acceptor.io_thread_count = server->io_thread_count;
    server->acceptor.service = server->service;
    server->reload = (struct loop_callback){.run = reload_service, .arg = server};
    struct loop *loop = server->io_threads[0].loop;
    if (!weir_loop_on_signal(loop, SIGTERM, on_stop, server) ||
        !weir_loop_on_signal(loop, SIGINT, on_stop, server) ||
        !weir_loop_on_signal(loop, SIGHUP, on_reload, server))
        return weir_error_complain_as(err, EMFILE, "no memory or descriptors for an event loop");
    return weir_acceptor_watch(&server->acceptor, loop, err);
}

struct server *weir_server_new(const struct server_options *options, struct weir_error *err)
{
    struct server *server = calloc(1, sizeof *server);
    if (!server) {
        weir_error_complain_as(err, ENOMEM, "out of memory");
        return NULL;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a fault of the disk, EFBIG, and no end */
    (void)pthread_mutex_init(&server->talking, NULL);
    weir_transport_tls_begin(&server->tls);
    server->options = *options;
    server->acceptor.spare = -1;
    if (make_server(server, err))
        return server;
    weir_server_free(server);
    return NULL;
}

/* ---- running ---------------------------------------------------------------------------------- */

static void *run_io_thread(void *arg)
{
    struct io_thread *io_thread = arg;
    weir_loop_run(io_thread->loop);
    return NULL;
}

static bool start_threads(struct server *server)
{
    if (!weir_growth_start(server->service))
        return false;
    server->jobs_running = pthread_create(&server->job_thread, NULL, run_job_thread, server) == 0;
    server->login_runs = pthread_create(&server->login_thread, NULL, run_logins, server) == 0;
    for (server->running = 1;
         server->jobs_running && server->login_runs && server->running < server->io_thread_count;
         server->running++) {
        struct io_thread *io_thread = &server->io_threads[server->running];
        if (pthread_create(&io_thread->thread, NULL, run_io_thread, io_thread) != 0)
            return false;
    }
    return server->jobs_running && server->login_runs;
}

/* Also if nobody waits for an answer: what is in memory alone is lost when this process ends. */
static void wait_for_disk(const struct server *server)
{
    struct store *store = server->service->store;
    int64_t left_ns = sat_sub(server->patient_until_ns, weir_now());
    uint64_t ticket = weir_store_commit(store);
    if (!weir_store_is_well(store) && left_ns > 0)
        (void)weir_store_wait(store, ticket, left_ns);
}

/* After all threads: what those who have gone gave back is logged, then everything is synced. Nobody looks at
 * the I/O threads any more. */
static bool close_server_store(struct server *server)
{
    struct weir_error err = {0};
    if (!server->service->store)
        return true;
    for (int i = 0; i < server->io_thread_count; i++)
        weir_io_thread_clear(&server->io_threads[i]);
    wait_for_disk(server);
    if (weir_service_close(server->service, &err))
        return true;
    weir_log(LOG_ERROR_LEVEL, "store-not-closed", LOG_TEXT("why", err.text),
             LOG_TEXT("means", "what was answered last may be missing at the next start"));
    return false;
}

int weir_server_run(struct server *server)
{
    int64_t dog_ms = weir_notify_watchdog_ms();
    bool good = start_threads(server);
    if (good) {
        if (dog_ms > 0)
            weir_timer_set(server->dog_timer, dog_ms, dog_ms);
        if (server->options.ready)
            server->options.ready(server->options.arg, server);
        weir_notify_send("READY=1\nSTATUS=serving");
    } else {
        weir_log(LOG_ERROR_LEVEL, "no-thread", LOG_TEXT("do", "raise the limit of threads, or --threads 1"));
        end_io_threads(server);
    }
    weir_loop_run(server->io_threads[0].loop);
    for (int i = 1; i < server->running; i++)
        pthread_join(server->io_threads[i].thread, NULL);
    if (server->jobs_running) { /* after the I/O threads: background jobs that they have asked for are done
                                   first */
        weir_loop_stop(server->jobs);
        pthread_join(server->job_thread, NULL);
    }
    weir_growth_stop(server->service);
    if (server->login_runs) { /* who still waits for it is gone */
        weir_password_check_stop(server->service->password_check);
        weir_loop_stop(server->logins);
        pthread_join(server->login_thread, NULL);
    }
    good = close_server_store(server) && good;
    weir_log(LOG_INFO_LEVEL, "stopped", LOG_NUMBER("status", good ? 0 : 2));
    return good ? 0 : 2;
}

void weir_server_free(struct server *server)
{
    if (!server)
        return;
    weir_acceptor_close(&server->acceptor);
    set_io_threads_told(server, 0);
    ASSERT_ALWAYS(server->io_threads_told == 0);
    for (int i = 0; i < server->io_thread_count; i++)
        weir_io_thread_end(&server->io_threads[i]);
    if (server->stopping) { /* the loops have stopped to listen: who asks again must not spoil the exit status
                             */
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
    }
    weir_loop_free(server->jobs);
    weir_loop_free(server->logins);
    weir_service_free(server->service);
    (void)pthread_mutex_destroy(&server->talking);
    weir_transport_tls_end(&server->tls);
    weir_file_watch_set(&server->files_watched, NULL, 0);
    free(server->io_threads);
    free(server);
}

struct service *weir_server_service(struct server *server)
{
    return server->service;
}

const char *weir_server_listens(const struct server *server)
{
    return server->service->listens;
}

int weir_server_threads(const struct server *server)
{
    return server->io_thread_count;
}
