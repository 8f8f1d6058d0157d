/* SPDX-License-Identifier: MIT */
/*
 * A configuration as a snapshot, and requests as text: for what looks at both and at nothing else.
 */
#ifndef WEIR_TESTS_HTTP_KIT_H
#define WEIR_TESTS_HTTP_KIT_H

#include "check.h"
#include "http/request.h"
#include "service/policies/snapshot.h"

struct http_kit {
    struct config *config;
    struct snapshot snapshot;
    char bytes[16384];
    struct http_request request;
};

static inline void kit_complain(void *arg, const struct config_complaint *complaint)
{
    char text[COMPLAINT_TEXT_MAX];
    (void)arg;
    CHECK_STR(weir_complaint_text(complaint, true, text), "");
}

static inline void kit_begin(struct http_kit *kit, const char *yaml)
{
    kit->config = weir_config_parse("w.yaml", yaml, strlen(yaml), kit_complain, NULL);
    if (!kit->config)
        abort();
    kit->snapshot = (struct snapshot){.http = kit->config->http, .users = weir_users_new(kit->config)};
    if (!kit->snapshot.users)
        abort();
}

static inline void kit_end(struct http_kit *kit)
{
    weir_users_free((struct users *)(uintptr_t)kit->snapshot.users);
    weir_config_free(kit->config);
}

/* `first` is the method and target, `headers` are lines, each with its line break. */
static inline void kit_say(struct http_kit *kit, const char *first, const char *headers)
{
    static const struct http_limits limits = {.head = sizeof kit->bytes, .body = 1024};
    struct http_parse_result result;
    int len = snprintf(kit->bytes, sizeof kit->bytes, "%s HTTP/1.1\r\n%s%s\r\n", first,
                       strstr(headers, "Host:") == headers ? "" : "Host: weir\r\n", headers);
    if (weir_http_parse(&limits, kit->bytes, (size_t)len, &kit->request, &result) != HTTP_WHOLE) {
        printf("# not a request: %s\n", result.why ? result.why : "more is needed");
        abort();
    }
}

#endif
