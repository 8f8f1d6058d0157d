/* SPDX-License-Identifier: MIT */
/*
 * The public form of exact mode: weir-fleet.h. A coordinator of its own, and a limit. Its threads stay with
 * the process that has opened it: a forked child is refused everything, and frees nothing.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/secret.h"
#include "fleet/member.h"
#include "fleet/options.h"
#include "fleet/redis/exact.h"

struct weir_exact {
    struct coordinator *coordinator;
    struct weir_spec spec;
    pid_t owner;
};

/* Nothing is entered: nobody listens. */
static const struct sink nobody;

static struct coordinator *open_exact_coordinator(const struct server_url *url, struct weir_error *err)
{
    struct weir_fleet_options options = {.size = sizeof options};
    const struct coordinator_ops *kind = weir_coordinator_kind(url, err);
    if (!kind || !weir_fleet_options_read(&options, url, err))
        return NULL;
    if (!kind->decide) {
        (void)weir_error_complain(err, "%.150s: exact mode needs redis:// or redis+cluster://", url->shown);
        return NULL;
    }
    struct coordinator_options how = {.answer_ns = options.answer_ns, .connect_ns = options.connect_ns};
    return kind->open(url, &how, &nobody, err);
}

struct weir_exact *weir_exact_open(const char *url, const char *limit, struct weir_error *err)
{
    struct weir_error unused;
    struct exact_shape shape;
    struct server_url read;
    err = err ? err : &unused;
    weir_error_clear(err);
    struct weir_exact *exact = calloc(1, sizeof *exact);
    if (!exact) {
        (void)weir_error_complain_as(err, ENOMEM, "out of memory");
        return NULL;
    }
    exact->owner = getpid();
    size_t limits = url && limit ? weir_spec_parse(limit, &exact->spec, 1, err) : 0;
    if (limits == 1 && weir_exact_shape(&exact->spec, &shape, err) && weir_url_read(&read, url, err)) {
        exact->coordinator = open_exact_coordinator(&read, err);
        weir_secret_wipe(&read, sizeof read);
    } else if (!err->text[0]) {
        (void)weir_error_complain(err, "exact mode takes a URL and one limit");
    }
    if (exact->coordinator)
        return exact;
    free(exact);
    return NULL;
}

bool weir_exact_take(struct weir_exact *exact, const char *key, int64_t n, struct weir_verdict *verdict)
{
    struct weir_verdict unused;
    struct weir_error err;
    verdict = verdict ? verdict : &unused;
    *verdict = (struct weir_verdict){.reason = WEIR_INVALID, .retry_after_ns = WEIR_FOREVER};
    if (!exact || !key)
        return false;
    if (getpid() != exact->owner) {
        verdict->reason = WEIR_LOST;
        return false;
    }
    return exact->coordinator->ops->decide(exact->coordinator, key, &exact->spec, n, verdict, &err) &&
           verdict->allowed;
}

void weir_exact_close(struct weir_exact *exact)
{
    if (!exact || getpid() != exact->owner)
        return;
    exact->coordinator->ops->close(exact->coordinator);
    free(exact);
}
