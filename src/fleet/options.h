/* SPDX-License-Identifier: MIT */
/*
 * The options of a member, by their names: of struct weir_fleet_options, of a coordinator's URL, and of
 * `fleet:` in a policy. All three have the same bounds.
 */
#ifndef WEIR_FLEET_OPTIONS_H
#define WEIR_FLEET_OPTIONS_H

#include "weir-fleet.h"

struct server_url;
struct lease_terms;

enum option_kind { OPTION_COUNT, OPTION_SMALL, OPTION_TIME, OPTION_WORD };

struct fleet_option {
    const char *name; /* as in the struct, without _ns */
    enum option_kind kind;
    size_t offset;
    int64_t fallback, least, most; /* a default of 0: 0 has a meaning of its own */
    const char *say;               /* what to write */
    const char *const *words;      /* OPTION_WORD: what its values are called, up to NULL */
};

/* NULL: there is no such name. */
const struct fleet_option *weir_option_find(const char *name, size_t len);
int64_t weir_option_get(const struct weir_fleet_options *options, const struct fleet_option *option);
void weir_option_set(struct weir_fleet_options *options, const struct fleet_option *option, int64_t value);

/* Reads `?name=value&...` of a URL over `options`, and checks all of it. */
bool weir_fleet_options_read(struct weir_fleet_options *options, const struct server_url *url,
                             struct weir_error *err);

/* Terms of a spec: one limit, algo=quota or token-bucket. */
bool weir_fleet_terms(const char *spec, const struct weir_fleet_options *options, struct lease_terms *terms,
                      struct weir_error *err);

#endif
