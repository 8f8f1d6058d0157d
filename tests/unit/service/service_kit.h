/* SPDX-License-Identifier: MIT */
/*
 * A service without sockets, to be asked as a client asks a server: words in, raw bytes of the answer out. It
 * has a test clock that stands at 0 until kit_clock moves it, and one worker unless told otherwise.
 * Background jobs are done at once.
 *
 *     struct kit kit;
 *     if (!kit_open(&kit, NULL)) return;
 *     kit_policy(&kit, "api", "100/s burst=200");
 *     CHECK_STR(kit_ask(&kit, "WEIR.TAKE api user:1"), "*12\r\n...");
 *     kit_close(&kit);
 */
#ifndef WEIR_TESTS_SERVICE_KIT_H
#define WEIR_TESTS_SERVICE_KIT_H

#include "service/engine/decide.h"

struct kit {
    struct service *service;
    struct worker *worker; /* the first */
    struct session session;
    struct buffer out;    /* of the last request */
    enum run_state state; /* after it; RUN_PENDING: kit_resume */
    bool changed;         /* it has to be durable before its answer is sent */
    bool not_admin;       /* HTTP: administrative paths have an address of their own */
};

/* `yaml` is a file's text, or NULL: no policies. Says what is wrong and gives false. With `workers` 0: 1. */
bool kit_open(struct kit *kit, const char *yaml);
bool kit_open_with(struct kit *kit, const char *yaml, const struct service_options *options);
void kit_close(struct kit *kit);

/* As WEIR.POLICY SET. */
bool kit_policy(struct kit *kit, const char *name, const char *limits);

void kit_clock(struct kit *kit, int64_t now_ms);
/* What ends, grows or is to be swept at this time. */
void kit_tick(struct kit *kit);

/* A line as a person types it, quotes and escapes allowed; gives the raw answer with a NUL behind it, valid
 * until the next. "" if there is none (yet). */
const char *kit_ask(struct kit *kit, const char *line);
const char *kit_ask_words(struct kit *kit, const struct slice *words, size_t count);
/* Any number of lines, as one batch; the answers one behind the other. */
const char *kit_ask_lines(struct kit *kit, const char *const *lines, size_t count);
/* The bytes of HTTP requests, run one after the other as the server's input does; the raw responses. After a
 * login that took its time the same bytes are read again. Stops at what is no whole request. */
const char *kit_ask_http(struct kit *kit, const char *bytes, size_t len);
/* Background jobs and logins: does it, and appends the answer. Else nothing. */
void kit_work(struct kit *kit);
/* The answer to a request that waited, "" if it still does. */
const char *kit_resume(struct kit *kit);

/* Another client, in a kit's place: the same service, a session and answers of its own. */
void kit_join(struct kit *kit, const struct kit *first, uint32_t worker);
void kit_leave(struct kit *kit);

/* Logs in without a password; also as a user that does not exist. */
void kit_log_in(struct kit *kit, const char *user);

/* The value of a field in an answer that is a map (either version): of "allowed" 1 or 0, of a number that
 * number; INT64_MIN: there is none. */
int64_t kit_field(const char *reply, const char *name);
/* The same for text: "" if there is none. Valid until the next call. */
const char *kit_text(const char *reply, const char *name);

#endif
