/* SPDX-License-Identifier: MIT */
/*
 * The file is read again and put in force, all of it or nothing. Some of it counts from the next start on:
 * who has changed that is told.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sat.h"
#include "base/text.h"
#include "service/log.h"
#include "service/policies/reload.h"

/* ---- what was made at the start ---- */

enum {
    LISTEN_PART,
    DATA_PART,
    HASH_KEY_PART,
    FSYNC_PART,
    MEMORY_PART,
    THREADS_PART,
    CLIENTS_PART,
    CLIENT_LIMITS_PART,
    LOG_PART
};
static const char *const part_names[START_PARTS] = {"listen",  "data",    "hash_key_file", "fsync", "memory",
                                                    "threads", "clients", "client_limits", "log"};

/* As text, defaults included: it is only compared. */
static void write_part(const struct config *config, int part, struct text *text)
{
    switch (part) {
    case LISTEN_PART:
        weir_text_print(text, "%s %s", config->resp ? config->resp : CONFIG_RESP,
                        config->unix_path ? config->unix_path : "none");
        break;
    case DATA_PART:
        weir_text_print(text, "%s", config->data ? config->data : "none");
        break;
    case HASH_KEY_PART:
        weir_text_print(text, "%s", config->hash_key_file ? config->hash_key_file : "");
        break;
    case FSYNC_PART:
        weir_text_print(text, "%s", weir_fsync_name(config->fsync));
        break;
    case MEMORY_PART:
        weir_text_print(text, "%" PRId64, config->memory > 0 ? config->memory : CONFIG_MEMORY);
        break;
    case THREADS_PART:
        weir_text_print(text, "%d", config->threads);
        break;
    case CLIENTS_PART:
        weir_text_print(text, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
                        config->max_clients > 0 ? config->max_clients : CONFIG_CLIENTS, config->idle_ms,
                        config->per_address, config->per_user);
        break;
    case CLIENT_LIMITS_PART:
        weir_text_print(text, "%" PRId64 " %" PRId64, config->client_keys, config->horizon_ns);
        break;
    default: /* LOG_PART */
        weir_text_print(text, "%s %s", config->log_format ? config->log_format : "logfmt",
                        config->log_level ? config->log_level : "info");
    }
}

void weir_start_digest(const struct config *config, struct start_digests *start)
{
    for (int i = 0; i < START_PARTS; i++) {
        char bytes[1024];
        struct text text;
        weir_text_init(&text, bytes, sizeof bytes);
        write_part(config, i, &text);
        start->parts[i] = weir_sha256(bytes, strlen(bytes));
    }
}

static void tell_what_needs_a_start(const struct service *service, const struct config *config,
                                    struct buffer *report)
{
    struct start_digests wanted;
    weir_start_digest(config, &wanted);
    for (int i = 0; i < START_PARTS; i++) {
        if (weir_digest_same(&wanted.parts[i], &service->start.parts[i]))
            continue;
        weir_buffer_print(report, "%s counts from the next start on\n", part_names[i]);
        weir_log(LOG_WARN_LEVEL, "needs-restart", LOG_TEXT("what", part_names[i]),
                 LOG_TEXT("why", "it counts from the next start on"));
    }
}

/* ---- reading ---- */

/* A line each: a caret in a second one would stand under nothing here. */
static void report_complaint(void *arg, const char *file, struct config_place place, const char *message)
{
    const char *caret = strstr(message, "^ "), *end = caret ? strchr(message, '\n') : NULL;
    int len = end && end < caret ? (int)(end - message) : (int)strlen(message);
    const char *rest = end && end < caret ? caret + 2 : "", *colon = *rest ? ": " : "";
    if (place.line > 0)
        weir_buffer_print(arg, "%s:%d:%d: %.*s%s%s\n", file, place.line, place.column, len, message, colon,
                          rest);
    else
        weir_buffer_print(arg, "%s: %.*s%s%s\n", file, len, message, colon, rest);
}

/* With what stands above the file. */
static struct config *read_again(const struct service *service, struct buffer *report)
{
    const struct service_options *options = &service->options;
    struct config *config = weir_config_read(options->config_path, report_complaint, report);
    if (!config || !options->above || options->above(options->above_arg, config))
        return config;
    weir_config_free(config);
    return NULL;
}

/* ---- saying what came of it ---- */

/* What stays in force, by the time of day at which it came into force. */
static void say_what_stays(struct service *service, struct buffer *report)
{
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_acquire);
    int64_t second = snapshot->loaded_ms / 1000 % 86400;
    weir_buffer_print(report, "nothing was changed: the configuration of %02d:%02d:%02d stays in force\n",
                      (int)(second / 3600), (int)(second / 60 % 60), (int)(second % 60));
}

/* How much of a complaint about the file INFO may show: its place. What stands there may be a password, and
 * more users may see INFO than the file. */
static size_t shown_of(const struct service *service, const char *line, size_t len)
{
    const char *path = service->options.config_path;
    size_t at = path ? strlen(path) : 0;
    if (at == 0 || len <= at || memcmp(line, path, at) != 0 || line[at] != ':')
        return len;
    size_t digits = at + 1;
    while (digits < len && (line[digits] == ':' || (line[digits] >= '0' && line[digits] <= '9')))
        digits++;
    return digits > at + 1 ? digits : len;
}

/* Keeps the first line of the trouble, or "" if there was none. */
static void remember_reload_error(struct service *service, struct buffer *report, bool good)
{
    pthread_mutex_lock(&service->change);
    size_t len = good || report->failed ? 0 : buffer_len(report);
    const char *bytes = len > 0 ? buffer_bytes(report) : "";
    const char *end = len > 0 ? memchr(bytes, '\n', len) : NULL;
    if (end)
        len = (size_t)(end - bytes);
    size_t shown = len > 0 ? shown_of(service, bytes, len) : 0;
    (void)snprintf(service->reload_error, sizeof service->reload_error, "%.*s%s",
                   (int)min64((int64_t)shown, 200), bytes,
                   shown < len ? " not valid; see the log or weir check" : "");
    if (!good && len == 0)
        (void)snprintf(service->reload_error, sizeof service->reload_error, "out of memory");
    if (!good)
        say_what_stays(service, report);
    pthread_mutex_unlock(&service->change);
}

static void log_good(struct service *service, size_t policies)
{
    const struct snapshot *snapshot = atomic_load_explicit(&service->snapshot, memory_order_acquire);
    weir_log_change(LOG_INFO_LEVEL, "reloaded", LOG_TEXT("config", service->options.config_path),
                    LOG_NUMBER("policies", (int64_t)policies),
                    LOG_NUMBER("in_force", (int64_t)snapshot->policy_count));
}

/* A line each. */
static void log_report(struct buffer *report)
{
    const char *line = buffer_bytes(report);
    size_t left = buffer_len(report);
    while (left > 0) {
        char text[512];
        const char *end = memchr(line, '\n', left);
        size_t len = end ? (size_t)(end - line) : left;
        (void)snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : sizeof text - 1), line);
        if (len > 0)
            weir_log(LOG_ERROR_LEVEL, "reload-failed", LOG_TEXT("why", text),
                     LOG_TEXT("means", "nothing was changed"));
        line += len + (end != NULL);
        left -= len + (end != NULL);
    }
}

bool weir_service_reload(struct service *service, struct buffer *report)
{
    const char *path = service->options.config_path;
    struct weir_error err = {0};
    size_t before = buffer_len(report);
    bool good = false;
    size_t policies = 0;
    if (!path) {
        weir_buffer_print(report, "there is no file to read: weir serve was started without --config\n");
    } else {
        struct config *config = read_again(service, report);
        good = config && weir_service_apply(service, config, &err);
        if (config && !good)
            weir_buffer_print(report, "%s\n", err.text);
        if (good)
            tell_what_needs_a_start(service, config, report);
        policies = config ? config->policy_count : 0;
        weir_config_free(config);
    }
    if (!good && buffer_len(report) == before)
        weir_buffer_print(report, "out of memory\n");
    atomic_fetch_add_explicit(good ? &service->reloads : &service->reload_failures, 1, memory_order_relaxed);
    if (good)
        log_good(service, policies);
    else
        log_report(report);
    remember_reload_error(service, report, good);
    return good;
}
