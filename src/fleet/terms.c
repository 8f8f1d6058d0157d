/* SPDX-License-Identifier: MIT */
/*
 * From the text of a limit to what a fleet agrees on.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "fleet/member.h"

/* The error says what to write: the same rate as a quota, or as a bucket; with a burst, since a plain rate is
 * a quota for `weir quota`. */
static bool wrong_limit(const struct weir_spec *spec, const char *text, const char *what,
                        struct weir_error *err)
{
    struct weir_spec quota = {.algo = WEIR_QUOTA, .count = spec->count, .period_ns = spec->period_ns};
    struct weir_spec bucket = {
        .count = spec->count, .period_ns = spec->period_ns, .burst = sat_mul(2, spec->count)};
    char one[64], other[64], message[200];
    size_t one_len = weir_spec_format(&quota, 1, one, sizeof one);
    size_t other_len = weir_spec_format(&bucket, 1, other, sizeof other);
    bool fit = one_len > 0 && one_len < sizeof one && other_len > 0 && other_len < sizeof other;
    (void)snprintf(message, sizeof message, "%s; write %s for a total in each window, or %s for a bucket",
                   what, fit ? one : "1M/m algo=quota", fit ? other : "10k/s burst=20k");
    weir_error_at(err, EINVAL, text, strlen(text), 0, message);
    return false;
}

/* What lets nothing pass is no limit of a fleet's. */
static bool wrong_words(struct weir_error *err)
{
    char *hint = err ? strstr(err->text, "; write blocked") : NULL;
    if (hint)
        (void)snprintf(hint, sizeof err->text - (size_t)(hint - err->text), "; write at least 1");
    return false;
}

bool weir_fleet_terms(const char *spec, const struct weir_fleet_options *options, struct lease_terms *terms,
                      struct weir_error *err)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    memset(terms, 0, sizeof *terms);
    if (!spec)
        return weir_error_complain(err, "the limit that the fleet shares is missing; write one such as 50M/m "
                                        "algo=quota");
    size_t count = weir_spec_parse(spec, specs, WEIR_LIMITS_MAX, err);
    if (count == 0)
        return wrong_words(err);
    if (count > 1)
        return wrong_limit(&specs[0], spec, "a fleet shares one limit under a name, this is a list", err);
    if (specs[0].algo == WEIR_BLOCKED || specs[0].algo == WEIR_UNLIMITED)
        return wrong_limit(&specs[0], spec, "there is nothing to share", err);
    if (specs[0].algo != WEIR_QUOTA && specs[0].algo != WEIR_TOKEN_BUCKET)
        return wrong_limit(&specs[0], spec, "a fleet has no such limit", err);
    if (specs[0].algo == WEIR_TOKEN_BUCKET && specs[0].initial_given)
        return wrong_limit(&specs[0], spec, "what a fleet shares begins full: initial= has no place", err);
    terms->kind = specs[0].algo == WEIR_QUOTA ? LEASE_QUOTA : LEASE_BUCKET;
    terms->total = specs[0].count;
    terms->window_ns = specs[0].period_ns;
    terms->burst = terms->kind == LEASE_BUCKET ? specs[0].burst : 0;
    terms->base = options->base;
    char why[200];
    if (weir_terms_complete(terms, options->nodes, why, sizeof why))
        return true;
    weir_error_at(err, EINVAL, spec, strlen(spec), 0, why);
    return false;
}
