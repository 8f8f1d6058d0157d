/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "bench/servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/folder.h"
#include "cli/program.h"
#include "resp/reply.h"

#define READY_S  60.0 /* until a server answers; it may have much to read */
#define STEP_S   0.002
#define ARGS_MAX 32

#define PATH_ROOM       96 /* for a file in a server's folder */
#define OPENSSL_COMMAND "/usr/bin/openssl"

void bench_pin(int cpu)
{
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

/* The parent may be pinned, and that is inherited. */
static void unpin(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN) && cpu < CPU_SETSIZE; cpu++)
        CPU_SET((size_t)cpu, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

/* One that nobody has now. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0), port = 0;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

static int measured_connect_to(const struct sockaddr *address, socklen_t len, bool by_unix)
{
    int fd = socket(by_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (fd < 0 || connect(fd, address, len) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (!by_unix)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

int measured_connect(const struct measured_server *server, enum measured_way by)
{
    if (by == WAY_UNIX) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path, sizeof address.sun_path, "%s", server->socket);
        return measured_connect_to((struct sockaddr *)&address, sizeof address, true);
    }
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)server->ports[by]),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return measured_connect_to((struct sockaddr *)&address, sizeof address, false);
}

static void show_output(const struct measured_server *server)
{
    char path[96], line[256];
    snprintf(path, sizeof path, "%s/output", server->folder);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        fprintf(stderr, "    %s", line);
    if (file)
        fclose(file);
}

/* It is asked something, and does not answer that it is still reading its data. Closes the socket. */
static bool has_loaded(int fd)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    const struct timeval patience = {.tv_sec = 1};
    char answer[8] = "";
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    bool sent = send(fd, ping, sizeof ping - 1, MSG_NOSIGNAL) == (ssize_t)sizeof ping - 1;
    bool loads =
        !sent || recv(fd, answer, sizeof answer, 0) <= 0 || memcmp(answer, "-LOADING", sizeof answer) == 0;
    close(fd);
    return !loads;
}

/* It serves on both sockets; or it has ended, or takes too long. */
static bool wait_ready(struct measured_server *server)
{
    for (double waited = 0; waited < READY_S; waited += STEP_S) {
        int tcp = measured_connect(server, WAY_TCP), local = measured_connect(server, WAY_UNIX);
        bool by_tcp = tcp >= 0 && has_loaded(tcp), by_unix = local >= 0 && has_loaded(local);
        if (by_tcp && by_unix)
            return true;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            break;
        }
        bench_sleep(STEP_S);
    }
    fprintf(stderr, "weir bench: %s does not answer; it said:\n", server->name);
    show_output(server);
    measured_stop(server);
    return false;
}

/* In the child. Dies with its parent, so that nothing is left behind. */
static void run_child(const struct measured_server *server, const char *const *args)
{
    char path[96];
    snprintf(path, sizeof path, "%s/output", server->folder);
    int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), null = open("/dev/null", O_RDONLY);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(null, 0);
    (void)dup2(out, 1);
    (void)dup2(out, 2);
    if (server->anywhere)
        unpin();
    else
        bench_pin(SERVER_CPU);
    execvp(args[0], (char *const *)(uintptr_t)args);
    perror(args[0]);
    _exit(127);
}

static bool start_measured(struct measured_server *server, const char *const *args)
{
    fflush(NULL);
    server->pid = fork();
    if (server->pid < 0) {
        fprintf(stderr, "weir bench: cannot start %s: %s\n", server->name, strerror(errno));
        server->pid = 0;
        return false;
    }
    if (server->pid == 0)
        run_child(server, args);
    return wait_ready(server);
}

static bool prepare_measured(struct measured_server *server, const char *name)
{
    *server = (struct measured_server){.name = name,
                                       .anywhere = server->anywhere,
                                       .serves_http = server->serves_http,
                                       .serves_tls = server->serves_tls};
    server->ports[WAY_TCP] = free_port();
    server->ports[WAY_HTTP] = server->serves_http ? free_port() : 0;
    server->ports[WAY_TLS] = server->serves_tls ? free_port() : 0;
    server->ports[WAY_HTTPS] = server->serves_tls && server->serves_http ? free_port() : 0;
    snprintf(server->folder, sizeof server->folder, "/tmp/weir-bench-XXXXXX");
    if (!mkdtemp(server->folder) || server->ports[WAY_TCP] == 0) {
        fprintf(stderr, "weir bench: no folder or no port for %s: %s\n", name, strerror(errno));
        return false;
    }
    snprintf(server->socket, sizeof server->socket, "%s/socket", server->folder);
    return true;
}

bool measured_can_tls(void)
{
    return access(OPENSSL_COMMAND, X_OK) == 0;
}

/* Makes a certificate in the server's folder: `cert` and `key`. */
static bool make_certificate(const struct measured_server *server, char cert[static PATH_ROOM],
                             char key[static PATH_ROOM])
{
    int status = 1;
    snprintf(cert, PATH_ROOM, "%s/cert", server->folder);
    snprintf(key, PATH_ROOM, "%s/key", server->folder);
    const char *args[] = {
        OPENSSL_COMMAND, "req",           "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
        "-nodes",        "-out",          cert,    "-keyout", key,  "-days",    "2",
        "-subj",         "/CN=localhost", NULL};
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        run_child(server, args);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fprintf(stderr, "weir bench: openssl makes no certificate\n");
    return status == 0;
}

/* What goes by command line alone does: only the certificate needs a file. */
static bool write_tls_config(const struct measured_server *server, char path[static PATH_ROOM])
{
    char cert[PATH_ROOM], key[PATH_ROOM];
    snprintf(path, PATH_ROOM, "%s/weir.yaml", server->folder);
    FILE *file = make_certificate(server, cert, key) ? fopen(path, "w") : NULL;
    if (!file)
        return false;
    fprintf(file, "listen: {resp_tls: \"127.0.0.1:%d\", https: \"127.0.0.1:%d\"}\ntls: {cert: %s, key: %s}\n",
            server->ports[WAY_TLS], server->ports[WAY_HTTPS], cert, key);
    return fclose(file) == 0;
}

bool measured_start_weir(struct measured_server *server, const char *const *extra)
{
    char resp[32], http[32] = "none", path[PATH_MAX], config[PATH_ROOM];
    if (!prepare_measured(server, "weir"))
        return false;
    snprintf(resp, sizeof resp, "127.0.0.1:%d", server->ports[WAY_TCP]);
    if (server->serves_http)
        snprintf(http, sizeof http, "127.0.0.1:%d", server->ports[WAY_HTTP]);
    const char *weir = program_beside("weir", path, sizeof path);
    const char *args[ARGS_MAX] = {weir,        "serve", "--resp",      resp,   "--unix", server->socket,
                                  "--threads", "1",     "--log-level", "warn", "--http", http};
    size_t count = 12;
    if (server->serves_tls) {
        if (!write_tls_config(server, config))
            return false;
        args[count++] = "--config";
        args[count++] = config;
    }
    while (extra && *extra && count < ARGS_MAX - 1)
        args[count++] = *extra++;
    return start_measured(server, args);
}

bool measured_start_redis(struct measured_server *server, const char *const *extra)
{
    char port[16], tls_port[16], cert[PATH_ROOM], key[PATH_ROOM];
    if (!prepare_measured(server, "redis-server"))
        return false;
    snprintf(port, sizeof port, "%d", server->ports[WAY_TCP]);
    const char *args[ARGS_MAX] = {"redis-server", "--port",       port,     "--bind", "127.0.0.1",
                                  "--unixsocket", server->socket, "--save", ""};
    static const char *const in_memory[] = {"--appendonly", "no", NULL};
    const char *const *more = extra ? extra : in_memory;
    size_t count = 9;
    while (*more && count < ARGS_MAX - 1)
        args[count++] = *more++;
    if (server->serves_tls) {
        if (!make_certificate(server, cert, key))
            return false;
        snprintf(tls_port, sizeof tls_port, "%d", server->ports[WAY_TLS]);
        const char *const tls[] = {"--tls-port",         tls_port, "--tls-cert-file",    cert,
                                   "--tls-key-file",     key,      "--tls-ca-cert-file", cert,
                                   "--tls-auth-clients", "no"};
        memcpy(args + count, tls, sizeof tls);
    }
    return start_measured(server, args);
}

/* Everything that it writes is in its folder. */
static bool write_nginx_config(const struct measured_server *server, char path[static 96])
{
    const char *folder = server->folder;
    snprintf(path, 96, "%s/nginx.conf", folder);
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    fprintf(file,
            "daemon off; master_process off; worker_processes 1; pid %s/pid; error_log %s/errors;\n"
            "events { worker_connections 1024; }\n"
            "http { access_log off; keepalive_requests 1000000000;\n"
            "  client_body_temp_path %s/body; proxy_temp_path %s/proxy; fastcgi_temp_path %s/fastcgi;\n"
            "  uwsgi_temp_path %s/uwsgi; scgi_temp_path %s/scgi;\n"
            "  server { listen 127.0.0.1:%d; listen unix:%s; location / { return 200; } } }\n",
            folder, folder, folder, folder, folder, folder, folder, server->ports[WAY_HTTP], server->socket);
    return fclose(file) == 0;
}

bool measured_start_nginx(struct measured_server *server)
{
    char path[96], prefix[80];
    if (!prepare_measured(server, "nginx"))
        return false;
    server->ports[WAY_HTTP] = server->ports[WAY_TCP];
    snprintf(prefix, sizeof prefix, "%s/", server->folder);
    if (!write_nginx_config(server, path))
        return false;
    return start_measured(server, (const char *[]){NGINX_COMMAND, "-p", prefix, "-c", path, NULL});
}

/* What has ended by itself is gone. */
static bool has_measured_ended(const struct measured_server *server)
{
    return waitpid(server->pid, NULL, WNOHANG) != 0;
}

static void end_measured(struct measured_server *server, int how)
{
    bool gone = server->pid == 0;
    if (!gone)
        (void)kill(server->pid, how);
    for (double waited = 0; !gone && waited < READY_S; waited += STEP_S) {
        gone = has_measured_ended(server);
        if (!gone)
            bench_sleep(STEP_S);
    }
    if (!gone) {
        (void)kill(server->pid, SIGKILL);
        (void)waitpid(server->pid, NULL, 0);
    }
    server->pid = 0;
    struct folder folder = {.path = ""};
    snprintf(folder.path, sizeof folder.path, "%s", server->folder);
    folder_remove(&folder);
}

void measured_stop(struct measured_server *server)
{
    end_measured(server, SIGTERM);
}

void measured_kill(struct measured_server *server)
{
    end_measured(server, SIGKILL);
}

double measured_cpu(const struct measured_server *server)
{
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(server->pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
        return 0;
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double measured_written(const struct measured_server *server)
{
    static const char name[] = "write_bytes:";
    char path[64], line[128];
    double bytes = 0;
    snprintf(path, sizeof path, "/proc/%d/io", (int)server->pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, sizeof name - 1) == 0)
            bytes = (double)strtoll(line + sizeof name - 1, NULL, 10);
    if (file)
        fclose(file);
    return bytes;
}

static bool measured_send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = write(fd, bytes, len);
        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool copy_reply_text(const struct resp_value *value, char *reply, size_t size)
{
    if (value->type == RESP_INTEGER)
        snprintf(reply, size, "%lld", (long long)value->integer);
    else
        snprintf(reply, size, "%.*s", (int)value->text.len, value->text.bytes ? value->text.bytes : "");
    return value->type != RESP_ERROR;
}

bool measured_ask(const struct measured_server *server, const char *const *words, size_t count, char *reply,
                  size_t size)
{
    struct slice slices[ARGS_MAX];
    struct buffer out = {0}, in = {0};
    struct resp_value *value = NULL;
    size_t used;
    bool good = false;
    for (size_t i = 0; i < count && i < ARGS_MAX; i++)
        slices[i] = (struct slice){words[i], strlen(words[i])};
    weir_resp_ask(&out, slices, count);
    int fd = measured_connect(server, WAY_TCP);
    if (fd >= 0 && !out.failed && measured_send_all(fd, buffer_bytes(&out), buffer_len(&out))) {
        ssize_t got;
        char bytes[4096];
        while (!value && (got = read(fd, bytes, sizeof bytes)) > 0) {
            buffer_put(&in, bytes, (size_t)got);
            if (in.failed ||
                weir_resp_parse(buffer_bytes(&in), buffer_len(&in), &value, &used) == RESP_BROKEN)
                break;
        }
    }
    if (value)
        good = copy_reply_text(value, reply, size);
    if (!good)
        fprintf(stderr, "weir bench: %s to %s: %s\n", words[0], server->name, value ? reply : "no answer");
    if (fd >= 0)
        close(fd);
    weir_resp_value_free(value);
    weir_buffer_free(&in);
    weir_buffer_free(&out);
    return good;
}
