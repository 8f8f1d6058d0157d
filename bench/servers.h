/* SPDX-License-Identifier: MIT */
/*
 * Servers that are measured: started for it on loopback, pinned to a processor of their own, and stopped
 * again whatever happens.
 */
#ifndef WEIR_BENCH_SERVERS_H
#define WEIR_BENCH_SERVERS_H

#include <stdbool.h>
#include <sys/types.h>

#define SERVER_CPU 0 /* whose processor is whose, if there are two */
#define LOAD_CPU   1

#define NGINX_COMMAND "/usr/sbin/nginx" /* Debian's */

/* How a server is reached. */
enum measured_way { WAY_TCP, WAY_UNIX, WAY_HTTP, WAY_TLS, WAY_HTTPS, MEASURED_WAYS };

struct measured_server {
    const char *name;
    pid_t pid;                /* 0: it does not run */
    int ports[MEASURED_WAYS]; /* 0: it has none */
    bool anywhere;            /* set before it is started: it may use all processors, not SERVER_CPU alone */
    bool serves_http;         /* the same: by WAY_HTTP, too; */
    bool serves_tls;          /* and with a certificate that is made for it */
    char folder[64];          /* with its unix socket and what it prints */
    char socket[96];
};

/* Whether a certificate can be made: openssl is installed. */
bool measured_can_tls(void);

/* false: it has said why on standard error. `extra` are arguments for `weir serve`, up to a NULL; or NULL. */
bool measured_start_weir(struct measured_server *server, const char *const *extra);
/* The same; without `extra` it writes nothing to a disk. */
bool measured_start_redis(struct measured_server *server, const char *const *extra);
/* One that answers every HTTP request with an empty 200, with one process. */
bool measured_start_nginx(struct measured_server *server);
void measured_stop(struct measured_server *server);
void measured_kill(struct measured_server *server); /* as a power cut for the process: SIGKILL */

/* Processor time of the process so far, all threads. */
double measured_cpu(const struct measured_server *server);
/* Bytes that it has caused to be written to disks, as the kernel counts them: whole pages. 0: unknown. */
double measured_written(const struct measured_server *server);

/* A connection, or -1. */
int measured_connect(const struct measured_server *server, enum measured_way by);

/* Sends the words, and gives the reply as text in `reply` (its first line, or the bytes of a bulk string).
 * false: no reply, or an error, which it has said. */
bool measured_ask(const struct measured_server *server, const char *const *words, size_t count, char *reply,
                  size_t size);

void bench_pin(int cpu);

#endif
