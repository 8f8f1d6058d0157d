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

#include "cli/args.h"
#include "cli/cli.h"
#include "cli/term.h"
#include "cli/words.h"
#include "config/config.h"
#include "server/listen.h"
#include "server/notify.h"
#include "server/server.h"
#include "service/log.h"
#include "sim/arrivals.h"

#define PASSWORD_MAX    512
#define MEMORY_LEAST    (INT64_C(8) << 20)
#define MAX_CLIENTS_MAX 1000000

static const char help[] =
    "usage: weir serve [OPTION]...\n"
    "Answers Redis clients: WEIR.TAKE and its kin, CL.THROTTLE, THROTTLE, RL.REDUCE.\n"
    "\n"
    "      --config FILE          weir.yaml: policies, users, listeners; SIGHUP or weir\n"
    "                             reload reads it again\n"
    "      --resp ADDRESS         host:port, :port for all addresses, or none\n"
    "                             (127.0.0.1:9049)\n"
    "      --unix PATH            listen on a unix socket, too\n"
    "      --threads N            event loops (one for each processor, at most 16)\n"
    "      --memory SIZE          for all keys (256MiB)\n"
    "      --data DIR             what is spent survives in this directory, which is made if\n"
    "                             it is not there (none: all is gone when it stops)\n"
    "      --hash-key-file FILE   32 hex digits, of tables made from now on: servers\n"
    "                             that share it can take over keys that both have counted\n"
    "      --fsync MODE           always: on the disk before it is answered; everysec: a\n"
    "                             power cut costs one second at most; never: as the\n"
    "                             system likes (everysec). A crash of weir costs nothing\n"
    "      --password-file FILE   its first line is the password of the user default\n"
    "      --no-password          nobody needs one, although others can connect\n"
    "      --max-clients N        connections at the same time (10000)\n"
    "      --log-format FORMAT    logfmt or json\n"
    "      --log-level LEVEL      debug, info, warn or error (info)\n"
    "      --test-clock           time stands still; WEIR.CLOCK moves it. For tests\n"
    "      --print-config         say what would be in force, as YAML, and end\n"
    "  -h, --help\n"
    "\n"
    "Each has its variable: WEIR_CONFIG, WEIR_RESP, WEIR_PASSWORD_FILE and so on. What the\n"
    "command line says stands above the variables, and they above the file.\n"
    "\n"
    "Examples\n"
    "  weir serve\n"
    "  weir serve --config weir.yaml --memory 1GiB --data /var/lib/weir\n"
    "  weir serve --resp none --unix /run/weir/weir.sock\n"
    "  weir serve --resp :9049 --password-file /etc/weir/password\n";

enum {
    CONFIG,
    RESP,
    UNIX,
    THREADS,
    MEMORY,
    DATA,
    HASH_KEY_FILE,
    FSYNC,
    PASSWORD_FILE,
    MAX_CLIENTS,
    LOG_FORMAT,
    LOG_LEVEL,
    STUCK,
    STRANGER,
    DRAIN,
    VALUES
};
enum { NO_PASSWORD, TEST_CLOCK, PRINT_CONFIG, HELP, FLAGS };

static const char *const value_names[VALUES] = {
    "config",     "resp",          "unix",     "threads",          "memory",
    "data",       "hash-key-file", "fsync",    "password-file",    "max-clients",
    "log-format", "log-level",     "stuck-ms", "login-timeout-ms", "drain-ms"};
static const char *const flag_names[FLAGS] = {"no-password", "test-clock", "print-config", "help"};

struct serve_settings {
    const char *values[VALUES];
    bool by_variable[VALUES];
    bool flags[FLAGS];
};

struct serve_choices {
    const char *all[5];
};
static const struct serve_choices formats = {{"logfmt", "json"}},
                                  levels = {{"debug", "info", "warn", "error"}};

/* ---- what was said ---------------------------------------------------------------------------- */

static const char *variable_name(const char *name, char text[static 32])
{
    snprintf(text, 32, "WEIR_%s", name);
    for (char *at = text; *at; at++)
        *at = *at == '-' ? '_' : *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at;
    return text;
}

/* The two words of a variable that switches something: whoever writes "no" must not get yes. */
static bool read_switch(const char *name, const char *value, bool *on)
{
    static const char *const yes[] = {"1", "yes", "true"}, *const no[] = {"0", "no", "false", ""};
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (strcmp(value, no[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (strcmp(value, yes[i]) == 0)
            return *on = true;
    fprintf(stderr, "weir serve: %s takes 1, yes or true, or 0, no or false, not '", name);
    term_put(stderr, value, strlen(value));
    fputs("'\n", stderr);
    return false;
}

static bool read_variables(struct serve_settings *settings)
{
    char name[32];
    for (int i = 0; i < VALUES; i++) {
        const char *value = settings->values[i] ? NULL : getenv(variable_name(value_names[i], name));
        if (!value || !*value)
            continue;
        settings->values[i] = value;
        settings->by_variable[i] = true;
    }
    for (int i = 0; i < PRINT_CONFIG; i++) {
        const char *value = getenv(variable_name(flag_names[i], name));
        if (value && !read_switch(name, value, &settings->flags[i]))
            return false;
    }
    /* Of the two that exclude each other, the one on the command line counts. */
    if (settings->by_variable[PASSWORD_FILE] && settings->flags[NO_PASSWORD])
        settings->values[PASSWORD_FILE] = NULL;
    return true;
}

/* What other servers call it. */
static bool hint_redis_option(int argc, char **argv)
{
    static const char *const foreign[][2] = {
        {"--port", "the port stands behind the address: --resp 127.0.0.1:9049, or :9049 for all addresses"},
        {"-p", "the port stands behind the address: --resp 127.0.0.1:9049, or :9049 for all addresses"},
        {"--bind", "an address and its port are named by --resp 127.0.0.1:9049"},
        {"--listen", "an address and its port are named by --resp 127.0.0.1:9049"},
        {"-c", "a file is named by --config FILE"},
        {"--socket", "a unix socket is named by --unix PATH"},
    };
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (size_t j = 0; j < sizeof foreign / sizeof foreign[0]; j++) {
            size_t len = strlen(foreign[j][0]);
            if (strncmp(argv[i], foreign[j][0], len) != 0 || (argv[i][len] != '\0' && argv[i][len] != '='))
                continue;
            fprintf(stderr, "weir serve: unknown option '%s'; %s\n", foreign[j][0], foreign[j][1]);
            return false;
        }
    return true;
}

static bool read_settings(int argc, char **argv, struct serve_settings *settings)
{
    struct args_option options[VALUES + FLAGS];
    for (int i = 0; i < VALUES; i++)
        options[i] = (struct args_option){.name = value_names[i], .value = &settings->values[i]};
    for (int i = 0; i < FLAGS; i++)
        options[VALUES + i] = (struct args_option){.name = flag_names[i], .flag = &settings->flags[i]};
    options[VALUES + HELP].letter = 'h';
    int operands = hint_redis_option(argc, argv) ? args_read(argc, argv, options, VALUES + FLAGS) : -1;
    if (operands < 0)
        return false;
    if (operands > 0) {
        args_complain("serve", "unknown word", argv[1]);
        fputs("; a file is named by --config\n", stderr);
        return false;
    }
    if (settings->values[PASSWORD_FILE] && settings->flags[NO_PASSWORD]) {
        fputs("weir serve: --password-file and --no-password exclude each other; leave one out\n", stderr);
        return false;
    }
    bool password_by_line = settings->values[PASSWORD_FILE] != NULL;
    if (!settings->flags[HELP] && !read_variables(settings))
        return false;
    if (password_by_line)
        settings->flags[NO_PASSWORD] = false;
    return true;
}

/* "weir serve: --threads takes 1 to 64, not 'many'" */
static bool complain_about_setting(const struct serve_settings *settings, int which, const char *what)
{
    char name[32], shown[48];
    if (settings->by_variable[which])
        snprintf(shown, sizeof shown, "%s", variable_name(value_names[which], name));
    else
        snprintf(shown, sizeof shown, "--%s", value_names[which]);
    fprintf(stderr, "weir serve: %s takes %s, not '", shown, what);
    term_put(stderr, settings->values[which], strlen(settings->values[which]));
    fputs("'\n", stderr);
    return false;
}

/* ---- into the configuration ------------------------------------------------------------------- */

static bool set_config_number(const struct serve_settings *settings, int which, int64_t least, int64_t most,
                              const char *what, int64_t *number)
{
    const char *text = settings->values[which];
    int64_t read;
    if (!text)
        return true;
    if (!arrivals_read_n(text, strlen(text), &read) || read < least || read > most)
        return complain_about_setting(settings, which, what);
    *number = read;
    return true;
}

static bool set_config_text(const struct serve_settings *settings, int which, char **place)
{
    if (!settings->values[which])
        return true;
    char *copy = strdup(settings->values[which]);
    if (!copy) {
        fputs("weir serve: out of memory\n", stderr);
        return false;
    }
    free(*place);
    *place = copy;
    return true;
}

static bool set_config_word(const struct serve_settings *settings, int which,
                            const struct serve_choices *words, const char *what, char **place)
{
    const char *text = settings->values[which];
    bool known = !text;
    for (int i = 0; !known && words->all[i]; i++)
        known = strcmp(text, words->all[i]) == 0;
    return known ? set_config_text(settings, which, place) : complain_about_setting(settings, which, what);
}

static bool set_config_fsync(const struct serve_settings *settings, struct config *config)
{
    if (!settings->values[FSYNC])
        return true;
    int fsync = weir_fsync_read(settings->values[FSYNC]);
    if (fsync == 0)
        return complain_about_setting(settings, FSYNC, "always, everysec or never");
    config->fsync = fsync;
    return true;
}

static bool apply_serve_settings(const struct serve_settings *settings, struct config *config)
{
    int64_t threads = config->threads;
    if (settings->values[DATA] &&
        (!settings->values[DATA][0] || strlen(settings->values[DATA]) > CONFIG_DATA_MAX))
        return complain_about_setting(settings, DATA, "a path of at most 400 bytes, or none");
    if (settings->values[UNIX] && strncmp(settings->values[UNIX], "unix:", 5) == 0)
        return complain_about_setting(settings, UNIX, "a path alone, such as /run/weir/weir.sock");
    bool good =
        set_config_number(settings, THREADS, 1, SERVER_THREADS_MAX, "a number from 1 to 64", &threads) &&
        set_config_number(settings, MEMORY, MEMORY_LEAST, INT64_C(1) << 50,
                          "a size of at least 8MiB, in MiB or GiB, such as 1GiB", &config->memory) &&
        set_config_number(settings, MAX_CLIENTS, 1, MAX_CLIENTS_MAX, "a number from 1 to 1M",
                          &config->max_clients) &&
        set_config_text(settings, RESP, &config->resp) &&
        set_config_text(settings, UNIX, &config->unix_path) &&
        set_config_text(settings, DATA, &config->data) &&
        set_config_text(settings, HASH_KEY_FILE, &config->hash_key_file) &&
        set_config_fsync(settings, config) &&
        set_config_word(settings, LOG_FORMAT, &formats, "logfmt or json", &config->log_format) &&
        set_config_word(settings, LOG_LEVEL, &levels, "debug, info, warn or error", &config->log_level);
    config->threads = (int)threads;
    return good;
}

/* At a reload: the same words were right at the start. */
static bool reapply_serve_settings(void *arg, struct config *config)
{
    return apply_serve_settings(arg, config);
}

static void print_config_error(void *arg, const struct config_complaint *complaint)
{
    char text[COMPLAINT_TEXT_MAX];
    (void)arg;
    fprintf(stderr, "%s\n", weir_complaint_text(complaint, true, text));
}

static struct config *read_serve_config(const struct serve_settings *settings)
{
    const char *path = settings->values[CONFIG];
    struct config *config = path ? weir_config_read(path, print_config_error, NULL) : weir_config_new();
    if (!config) {
        if (!path) /* else it has been complained about */
            fputs("weir serve: out of memory\n", stderr);
        return NULL;
    }
    if (apply_serve_settings(settings, config))
        return config;
    weir_config_free(config);
    return NULL;
}

/* ---- the password ----------------------------------------------------------------------------- */

static bool complain_about_password_file(const char *path, const char *why)
{
    fputs("weir serve: --password-file ", stderr);
    term_put(stderr, path, strlen(path));
    fprintf(stderr, ": %s\n", why);
    return false;
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

/* "redis-cli -p 9049", "redis-cli -s /run/weir.sock" */
static void format_connect_command(const char *listens, char *text, size_t size)
{
    size_t len = strcspn(listens, "\n");
    const char *colon = memrchr(listens, ':', len);
    if (strncmp(listens, "unix:", 5) == 0)
        snprintf(text, size, "redis-cli -s %.*s", (int)len - 5, listens + 5);
    else if (colon)
        snprintf(text, size, "redis-cli -p %.*s", (int)(listens + len - colon) - 1, colon + 1);
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
    format_connect_command(listens, connect, 160);
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
        fprintf(stderr, " %.*s", (int)strcspn(at, "\n"), at);
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
        char one[136];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(at, "\n"), at);
        weir_log(LOG_INFO_LEVEL, "listening", LOG_TEXT("on", one));
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
    for (int i = 0; config->log_level && levels.all[i]; i++)
        if (strcmp(config->log_level, levels.all[i]) == 0)
            return (enum log_level)i;
    return LOG_INFO_LEVEL;
}

static bool start_log(const struct serve_settings *settings, const struct config *config,
                      struct serve_banner *banner)
{
    bool json = config->log_format && strcmp(config->log_format, "json") == 0;
    banner->person = isatty(STDERR_FILENO) && !json && !settings->values[LOG_FORMAT];
    return weir_log_start(json ? LOG_JSON : LOG_LOGFMT, log_level(config), getenv("JOURNAL_STREAM") != NULL);
}

static int run_server(struct serve_settings *settings, const struct config *config)
{
    struct weir_error err;
    struct digest password;
    struct serve_banner banner = {.config = config,
                                  .password = settings->values[PASSWORD_FILE] != NULL,
                                  .no_password = settings->flags[NO_PASSWORD]};
    int fds[LISTEN_MAX];
    int64_t patience[3] = {0};
    struct server_options options = {
        .config = config,
        .service = {.test_clock = settings->flags[TEST_CLOCK],
                    .no_password = settings->flags[NO_PASSWORD],
                    .config_path = config->path,
                    .above = reapply_serve_settings,
                    .above_arg = settings},
        .inherited = fds,
        .inherited_count = weir_notify_sockets(fds, LISTEN_MAX),
        .ready = print_serve_banner,
        .arg = &banner,
    };
    for (int i = STUCK; i <= DRAIN; i++)
        if (!set_config_number(settings, i, 1, 3600000, "milliseconds", &patience[i - STUCK]))
            return EXIT_ERROR;
    options.stuck_ms = patience[0];
    options.login_timeout_ms = patience[1];
    options.drain_ms = patience[2];
    if (settings->values[PASSWORD_FILE]) {
        if (!read_serve_password(settings->values[PASSWORD_FILE], &password))
            return EXIT_ERROR;
        options.service.password = &password;
    }
    if (!start_log(settings, config, &banner))
        return fputs("weir serve: out of memory\n", stderr), EXIT_ERROR;
    struct server *server = weir_server_new(&options, &err);
    if (!server) {
        fprintf(stderr, "weir serve: %s\n", err.text);
        weir_log_end();
        return EXIT_ERROR;
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
        fputs("weir serve: out of memory\n", stderr);
    weir_buffer_free(&text);
    return good ? EXIT_OK : EXIT_ERROR;
}

int cmd_serve(int argc, char **argv)
{
    struct serve_settings settings = {.values = {NULL}};
    if (!read_settings(argc, argv, &settings))
        return EXIT_ERROR;
    if (settings.flags[HELP])
        return fputs(help, stdout), EXIT_OK;
    struct config *config = read_serve_config(&settings);
    if (!config)
        return EXIT_ERROR;
    int status = settings.flags[PRINT_CONFIG] ? print_config(config) : run_server(&settings, config);
    weir_config_free(config);
    return status;
}
