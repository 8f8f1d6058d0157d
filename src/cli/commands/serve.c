/* SPDX-License-Identifier: MIT */
/*
 * weir serve: reads what the command line, the environment and the file say, in this order of weight, and
 * runs the server.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/term.h"
#include "cli/words.h"
#include "config/config.h"
#include "server/listen.h"
#include "server/notify.h"
#include "server/server.h"
#include "service/log.h"

#define PASSWORD_MAX    512
#define MEMORY_LEAST    (INT64_C(8) << 20)
#define MAX_CLIENTS_MAX 1000000

/* What the command line says, else the environment; NULL, 0 and -1: neither. */
static struct serve_settings {
    const char *config, *listen[LISTENER_KINDS], *data, *hash_key_file, *password_file;
    int64_t threads, memory, max_clients;
    int fsync, log_format, log_level; /* numbers of the words below */
    bool no_password, test_clock, print_config;
    int64_t stuck_ms, login_timeout_ms, drain_ms;
} settings = {.fsync = -1, .log_format = -1, .log_level = -1};

static const char *const formats[] = {"logfmt", "json"};
static const char *const levels[] = {"debug", "info", "warn", "error"};
static const char *const fsyncs[] = {"always", "everysec", "never"};

/* ---- what was said ---------------------------------------------------------------------------- */

/* Of the two that exclude each other, the one on the command line counts. */
static bool read_serve_environment(const struct cli_command *command)
{
    bool password_by_line = settings.password_file != NULL;
    if (settings.password_file && settings.no_password)
        return args_fail(command->name,
                         "--password-file and --no-password exclude each other; leave one out"),
               false;
    if (!args_read_environment(command))
        return false;
    if (password_by_line)
        settings.no_password = false;
    if (settings.no_password)
        settings.password_file = NULL;
    return true;
}

/* ---- into the configuration ------------------------------------------------------------------- */

static bool set_config_text(const char *text, char **place)
{
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        return args_fail("serve", "out of memory"), false;
    if (copy) {
        free(*place);
        *place = copy;
    }
    return true;
}

/* Also at a reload, whose file says something else. */
static bool apply_serve_settings(void *arg, struct config *config)
{
    (void)arg;
    config->threads = settings.threads ? (int)settings.threads : config->threads;
    config->memory = settings.memory ? settings.memory : config->memory;
    config->max_clients = settings.max_clients ? settings.max_clients : config->max_clients;
    if (settings.fsync >= 0)
        config->fsync = weir_fsync_read(fsyncs[settings.fsync]);
    for (int kind = 0; kind < LISTENER_KINDS; kind++)
        if (!set_config_text(settings.listen[kind], &config->listen[kind]))
            return false;
    return set_config_text(settings.data, &config->data) &&
           set_config_text(settings.hash_key_file, &config->hash_key_file) &&
           set_config_text(settings.log_format >= 0 ? formats[settings.log_format] : NULL,
                           &config->log_format) &&
           set_config_text(settings.log_level >= 0 ? levels[settings.log_level] : NULL, &config->log_level);
}

/* What a path may be is no matter of numbers. */
static bool check_paths(void)
{
    if (settings.data && (!settings.data[0] || strlen(settings.data) > CONFIG_DATA_MAX))
        return args_fail("serve", "--data takes a path of at most 400 bytes, or none, not '%s'",
                         settings.data),
               false;
    if (settings.listen[LISTEN_UNIX] && strncmp(settings.listen[LISTEN_UNIX], "unix:", 5) == 0)
        return args_fail("serve", "--unix takes a path alone, such as /run/weir/weir.sock, not '%s'",
                         settings.listen[LISTEN_UNIX]),
               false;
    return true;
}

static void print_config_error(void *arg, const struct config_complaint *complaint)
{
    char text[COMPLAINT_TEXT_MAX];
    (void)arg;
    fprintf(stderr, "%s\n", weir_complaint_text(complaint, true, text));
}

static struct config *read_serve_config(void)
{
    const char *path = settings.config;
    struct config *config = path ? weir_config_read(path, print_config_error, NULL) : weir_config_new();
    if (!config) {
        if (!path) /* else it has been complained about */
            (void)args_fail("serve", "out of memory");
        return NULL;
    }
    if (apply_serve_settings(NULL, config))
        return config;
    weir_config_free(config);
    return NULL;
}

/* ---- the password ----------------------------------------------------------------------------- */

static bool complain_about_password_file(const char *path, const char *why)
{
    return args_fail("serve", "--password-file %s: %s", path, why), false;
}

static bool read_serve_password(const char *path, struct digest *digest)
{
    char text[PASSWORD_MAX + 2];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return complain_about_password_file(path, strerror(errno));
    struct stat about = {0};
    ssize_t got = fstat(fd, &about) == 0 ? read(fd, text, sizeof text) : -1;
    int fault = errno;
    close(fd);
    if (got < 0)
        return complain_about_password_file(path, strerror(fault));
    bool plain = S_ISREG(about.st_mode);
    if (plain && about.st_mode & S_IWOTH)
        return complain_about_password_file(path, "every user of this machine can write to it; chmod 600 it");
    if (plain && about.st_mode & S_IROTH)
        fprintf(stderr,
                "warning: every user of this machine can read the --password-file; chmod 640 it, or 600\n");
    const char *end = memchr(text, '\n', (size_t)got);
    size_t len = end ? (size_t)(end - text) : (size_t)got;
    if (len > 0 && text[len - 1] == '\r')
        len--;
    bool good = len > 0 && len <= PASSWORD_MAX;
    if (good)
        *digest = weir_sha256(text, len);
    weir_secret_wipe(text, sizeof text);
    return good || complain_about_password_file(path, "its first line is the password, 1 to 512 bytes");
}

/* ---- what start-up says ----------------------------------------------------------------------- */

struct serve_banner {
    const struct config *config;
    bool person;                      /* somebody looks at it as it starts */
    bool password, no_password;       /* of `default`, by the command line */
    size_t policies;                  /* in force, also such as were set by command before */
    char policy[CONFIG_NAME_MAX + 1]; /* one of them */
};

static const char all_in_memory[] = "everything is in memory alone; --data DIR keeps it";
static const char no_fsync[] = "everything is in memory alone, whatever fsync says; --data DIR keeps it";

static bool is_kept(const struct config *config)
{
    return config->data && strcmp(config->data, "none") != 0;
}

/* The line of the first that Redis clients can talk to; or NULL. */
static const char *find_redis_listener(const char *listens)
{
    for (const char *at = listens; *at; at += strcspn(at, "\n") + 1)
        if (strncmp(at, "resp", 4) == 0 || strncmp(at, "unix", 4) == 0)
            return at;
    return NULL;
}

/* "redis-cli -p 9049", "redis-cli --tls -p 9449", "redis-cli -s /run/weir.sock" */
static void format_connect_command(const char *line, char *text, size_t size)
{
    const char *address = line + strcspn(line, " ") + 1;
    size_t len = strcspn(address, "\n");
    const char *colon = memrchr(address, ':', len);
    if (strncmp(address, "unix:", 5) == 0)
        snprintf(text, size, "redis-cli -s %.*s", (int)len - 5, address + 5);
    else if (colon)
        snprintf(text, size, "redis-cli%s -p %.*s", strncmp(line, "resp_tls", 8) == 0 ? " --tls" : "",
                 (int)(address + len - colon) - 1, colon + 1);
}

/* "redis-cli -p 9049 --user app --askpass": as somebody who may take. */
static void add_login(const struct serve_banner *banner, char *text, size_t size)
{
    const struct config_user *user = NULL;
    for (size_t i = 0; i < banner->config->user_count; i++) {
        const struct config_user *one = &banner->config->users[i];
        if ((one->may & MAY_TAKE) && (!user || strcmp(one->name, "default") == 0))
            user = one;
    }
    size_t len = strlen(text);
    if (user && strcmp(user->name, "default") != 0)
        (void)snprintf(text + len, size - len, " --user %s --askpass", user->name);
    else if (banner->password || (user && user->has_password && !banner->no_password))
        (void)snprintf(text + len, size - len, " --askpass");
}

/* Something that changes no policy, unless there is none yet. */
static void format_first_command(const struct serve_banner *banner, const char *listens, char *text,
                                 size_t size)
{
    char connect[160 + CONFIG_NAME_MAX] = "redis-cli";
    const char *line = find_redis_listener(listens);
    if (line)
        format_connect_command(line, connect, 160);
    add_login(banner, connect, sizeof connect);
    if (banner->policies > 0)
        (void)snprintf(text, size, "%s WEIR.TAKE %s some-key", connect, banner->policy);
    else
        (void)snprintf(text, size, "%s WEIR.POLICY SET api 100/s", connect);
}

/* Before anybody can change them. */
static void count_policies_in_force(struct serve_banner *banner, const struct service *service)
{
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_relaxed);
    const struct config *config = banner->config;
    banner->policies = snapshot->policy_count;
    if (banner->policies > 0)
        (void)snprintf(banner->policy, sizeof banner->policy, "%s",
                       config->policy_count > 0 ? config->policies[0].name : snapshot->policies[0]->name);
}

static void print_welcome(const struct serve_banner *banner, const char *listens, const char *try)
{
    char keys[HUMANIZE_MAX];
    const struct config *config = banner->config;
    fprintf(stderr, "weir %s listens on", weir_version());
    for (const char *at = listens; *at; at += strcspn(at, "\n") + 1)
        fprintf(stderr, "%s %.*s", at > listens ? "," : "", (int)strcspn(at, "\n"), at);
    fprintf(stderr, "\n%zu polic%s%s%s; memory for about %s keys of one limit each\n", banner->policies,
            banner->policies == 1 ? "y" : "ies",
            config->path && config->policy_count == banner->policies ? " from " : "",
            config->path && config->policy_count == banner->policies ? config->path : "",
            words_number((weir_config_keys(config) + 50000) / 100000 * 100000, keys));
    if (is_kept(config))
        fprintf(stderr, "what is spent is kept in %s, fsync %s\n", config->data,
                weir_fsync_name(config->fsync));
    else
        fprintf(stderr, "%s\n", config->fsync ? no_fsync : all_in_memory);
    fprintf(stderr, "try   %s\n", try);
    if (banner->policies == 0) /* the beginning is the same */
        fprintf(stderr, "      %.*s WEIR.TAKE api user:42\n", (int)(strstr(try, " WEIR.") - try), try);
}

/* Nobody asks who they are, and they come from elsewhere. */
static void warn_open(struct server *server, bool person)
{
    const struct service_options *options = &weir_server_service(server)->options;
    if (!options->exposed || !options->no_password)
        return;
    if (person)
        fprintf(stderr, "warning: whoever can reach %s needs no password (--no-password)\n",
                options->exposed);
    else
        weir_log(LOG_WARN_LEVEL, "no-password", LOG_TEXT("on", options->exposed),
                 LOG_TEXT("means", "whoever can reach it needs no password"));
}

static void print_serve_banner(void *arg, struct server *server)
{
    const struct serve_banner *banner = arg;
    const char *listens = weir_server_listens(server);
    char try[400];
    format_first_command(banner, listens, try, sizeof try);
    warn_open(server, banner->person);
    if (banner->person) {
        print_welcome(banner, listens, try);
        return;
    }
    for (const char *at = listens; *at; at += strcspn(at, "\n") + 1) {
        char kind[16], one[136];
        snprintf(kind, sizeof kind, "%.*s", (int)strcspn(at, " "), at);
        at += strcspn(at, " ") + 1;
        snprintf(one, sizeof one, "%.*s", (int)strcspn(at, "\n"), at);
        weir_log(LOG_INFO_LEVEL, "listening", LOG_TEXT("on", one), LOG_TEXT("for", kind));
    }
    weir_log(LOG_INFO_LEVEL, "loaded",
             LOG_TEXT("config", banner->config->path ? banner->config->path : "none"),
             LOG_NUMBER("policies", (int64_t)banner->policies), LOG_NUMBER("memory", banner->config->memory),
             LOG_NUMBER("keys_that_fit", weir_config_keys(banner->config)));
    if (is_kept(banner->config))
        weir_log(LOG_INFO_LEVEL, "data", LOG_TEXT("data", banner->config->data),
                 LOG_TEXT("fsync", weir_fsync_name(banner->config->fsync)));
    else
        weir_log(LOG_INFO_LEVEL, "data", LOG_TEXT("data", "none"),
                 LOG_TEXT("means", banner->config->fsync ? no_fsync : all_in_memory));
    weir_log(LOG_INFO_LEVEL, "ready", LOG_TEXT("version", weir_version()),
             LOG_NUMBER("threads", weir_server_threads(server)), LOG_TEXT("try", try));
}

/* ---- running ---------------------------------------------------------------------------------- */

static enum log_level log_level(const struct config *config)
{
    for (int i = LOG_DEBUG_LEVEL; config->log_level && i <= LOG_ERROR_LEVEL; i++)
        if (strcmp(config->log_level, levels[i]) == 0)
            return (enum log_level)i;
    return LOG_INFO_LEVEL;
}

static bool start_log(const struct config *config, struct serve_banner *banner)
{
    bool json = config->log_format && strcmp(config->log_format, "json") == 0;
    banner->person = isatty(STDERR_FILENO) && !json && settings.log_format < 0;
    return weir_log_start(json ? LOG_JSON : LOG_LOGFMT, log_level(config), getenv("JOURNAL_STREAM") != NULL);
}

static int run_server(const struct config *config)
{
    struct weir_error err;
    struct digest password;
    struct serve_banner banner = {
        .config = config, .password = settings.password_file != NULL, .no_password = settings.no_password};
    struct inherited_socket sockets[LISTEN_MAX];
    struct server_options options = {
        .config = config,
        .service = {.test_clock = settings.test_clock,
                    .no_password = settings.no_password,
                    .password = settings.password_file ? &password : NULL,
                    .config_path = config->path,
                    .above = apply_serve_settings},
        .inherited = sockets,
        .inherited_count = weir_notify_sockets(sockets, LISTEN_MAX),
        .ready = print_serve_banner,
        .arg = &banner,
        .stuck_ms = settings.stuck_ms,
        .login_timeout_ms = settings.login_timeout_ms,
        .drain_ms = settings.drain_ms,
    };
    if (settings.password_file && !read_serve_password(settings.password_file, &password))
        return EXIT_ERROR;
    if (!start_log(config, &banner))
        return args_fail("serve", "out of memory");
    struct server *server = weir_server_new(&options, &err);
    if (!server) {
        weir_log_end();
        return args_fail("serve", "%s", err.text);
    }
    count_policies_in_force(&banner, weir_server_service(server));
    int status = weir_server_run(server);
    weir_server_free(server);
    weir_log_end();
    return status;
}

static int print_config(const struct config *config)
{
    struct buffer text = {0};
    bool good = weir_config_print(config, &text);
    if (good && buffer_len(&text) > 0)
        fwrite(buffer_bytes(&text), 1, buffer_len(&text), stdout);
    else if (!good)
        (void)args_fail("serve", "out of memory");
    weir_buffer_free(&text);
    return good ? EXIT_OK : EXIT_ERROR;
}

static int run_serve(const struct cli_command *command, int count, char **argv)
{
    (void)count;
    (void)argv;
    if (!read_serve_environment(command) || !check_paths())
        return EXIT_ERROR;
    struct config *config = read_serve_config();
    if (!config)
        return EXIT_ERROR;
    int status = settings.print_config ? print_config(config) : run_server(config);
    weir_config_free(config);
    return status;
}

#define SERVE_TEST_MS(NAME, INTO) OPT_RANGE(NAME, ARGS_COUNT, INTO, 1, 3600000, "milliseconds", "MS", NULL)

static const struct args_option options[] = {
    OPT_TEXT("config", 0, &settings.config, "FILE",
             "weir.yaml: policies, users, listeners; SIGHUP or weir reload reads it again"),
    OPT_TEXT("resp", 0, &settings.listen[LISTEN_RESP], "ADDRESS",
             "for Redis clients: host:port, :port for all addresses, or none (127.0.0.1:9049)"),
    OPT_TEXT("resp-tls", 0, &settings.listen[LISTEN_RESP_TLS], "ADDRESS", "the same with TLS (none)"),
    OPT_TEXT("http", 0, &settings.listen[LISTEN_HTTP], "ADDRESS", "for HTTP (127.0.0.1:9050)"),
    OPT_TEXT("https", 0, &settings.listen[LISTEN_HTTPS], "ADDRESS", "the same with TLS (none)"),
    OPT_TEXT("admin", 0, &settings.listen[LISTEN_ADMIN], "ADDRESS",
             "HTTP that alone serves metrics and what changes policies (none: http and https do)"),
    OPT_TEXT("unix", 0, &settings.listen[LISTEN_UNIX], "PATH", "for Redis clients: a unix socket"),
    OPT_RANGE("threads", ARGS_COUNT, &settings.threads, 1, SERVER_THREADS_MAX, "a number from 1 to 64", "N",
              "event loops (one for each processor, at most 16)"),
    OPT_RANGE("memory", ARGS_COUNT, &settings.memory, MEMORY_LEAST, INT64_C(1) << 50,
              "a size of at least 8MiB, in MiB or GiB, such as 1GiB", "SIZE", "for all keys (256MiB)"),
    OPT_TEXT("data", 0, &settings.data, "DIR",
             "what is spent survives in this directory, which is made if it is not there (none: all is gone "
             "when it stops)"),
    OPT_TEXT("hash-key-file", 0, &settings.hash_key_file, "FILE",
             "32 hex digits, of tables made from now on: servers that share it can take over keys that both "
             "have counted"),
    OPT_WORD("fsync", &settings.fsync, "always|everysec|never", "MODE",
             "always: on the disk before it is answered; everysec: a power cut costs one second at most; "
             "never: as the system likes (everysec). A crash of weir costs nothing"),
    OPT_TEXT("password-file", 0, &settings.password_file, "FILE",
             "its first line is the password of the user default"),
    OPT_FLAG("no-password", 0, &settings.no_password, "nobody needs one, although others can connect"),
    OPT_RANGE("max-clients", ARGS_COUNT, &settings.max_clients, 1, MAX_CLIENTS_MAX, "a number from 1 to 1M",
              "N", "connections at the same time (10000)"),
    OPT_WORD("log-format", &settings.log_format, "logfmt|json", "FORMAT", "logfmt or json"),
    OPT_WORD("log-level", &settings.log_level, "debug|info|warn|error", "LEVEL",
             "debug, info, warn or error (info)"),
    OPT_FLAG("test-clock", 0, &settings.test_clock, "time stands still; WEIR.CLOCK moves it. For tests"),
    OPT_FLAG("print-config", 0, &settings.print_config, "say what would be in force, as YAML, and end"),
    SERVE_TEST_MS("stuck-ms", &settings.stuck_ms),
    SERVE_TEST_MS("login-timeout-ms", &settings.login_timeout_ms),
    SERVE_TEST_MS("drain-ms", &settings.drain_ms),
};

#define PORT_HINT "the port stands behind the address: --resp 127.0.0.1:9049, or :9049 for all addresses"
#define BIND_HINT "an address and its port are named by --resp 127.0.0.1:9049"
static const struct args_foreign foreign[] = {
    {"--port", PORT_HINT},
    {"-p", PORT_HINT},
    {"--bind", BIND_HINT},
    {"--listen", BIND_HINT},
    {"-c", "a file is named by --config FILE"},
    {"--socket", "a unix socket is named by --unix PATH"},
    {NULL, NULL},
};

const struct cli_command command_serve = {
    .name = "serve",
    .usage = "[OPTION]...\n"
             "Answers HTTP and Redis clients: WEIR.TAKE and its kin, CL.THROTTLE, RL.REDUCE.\n",
    ARGS_OPTIONS(options),
    .more = "Each has its variable: WEIR_CONFIG, WEIR_RESP, WEIR_PASSWORD_FILE and so on. What the\n"
            "command line says stands above the variables, and they above the file.\n"
            "\n"
            "Examples\n"
            "  weir serve\n"
            "  weir serve --config weir.yaml --memory 1GiB --data /var/lib/weir\n"
            "  weir serve --resp none --unix /run/weir/weir.sock\n"
            "  weir serve --resp :9049 --password-file /etc/weir/password\n",
    .many = "; a file is named by --config",
    .foreign = foreign,
    .run = run_serve,
};
