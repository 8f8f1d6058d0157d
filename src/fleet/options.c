/* SPDX-License-Identifier: MIT */
/*
 * The options of a member: from the query of a URL over those of the struct, checked one by one, and
 * completed with their defaults.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/sat.h"
#include "base/text.h"
#include "fleet/member.h"
#include "fleet/options.h"
#include "spec/read.h"
#include "spec/spec.h"
#include "spec/value.h"

static const char *const losses[] = {"refuse", "share", NULL};
static const char *const unreached[] = {"fail", "lost", NULL};
static const char *const clocks[] = {"trusted", "unused", NULL};

static const struct fleet_option options_known[] = {
#define AT(member) offsetof(struct weir_fleet_options, member)
    {"base", OPTION_COUNT, AT(base), 0, 1, TICKET_TOTAL_MAX,
     "base is the units of a chunk, from 1: base=1000", NULL},
    {"nodes", OPTION_COUNT, AT(nodes), 1, 1, 1000000,
     "nodes is the members at a time, 1 to 1000000: nodes=500", NULL},
    {"on_loss", OPTION_WORD, AT(on_loss), 0, 0, WEIR_FLEET_SHARE, "on_loss is refuse or share", losses},
    {"prefetch", OPTION_SMALL, AT(prefetch), 20, 1, 100,
     "prefetch is 1 to 100 per cent of a chunk: prefetch=20", NULL},
    {"above", OPTION_SMALL, AT(above), 200, 100, 1000000, "above is per cent of base, from 100: above=200",
     NULL},
    {"rho", OPTION_SMALL, AT(rho), 1000, 1, 100000,
     "rho is parts per million of a clock's error, 1 to 100000: rho=1000", NULL},
    {"return_every", OPTION_TIME, AT(return_every_ns), 15 * WEIR_SEC, WEIR_MS, 86400 * WEIR_SEC,
     "return_every is a time from 1ms to 1d: return_every=15s", NULL},
    {"lost_after", OPTION_TIME, AT(lost_after_ns), 3 * WEIR_SEC, WEIR_MS, 3600 * WEIR_SEC,
     "lost_after is a time from 1ms to 1h: lost_after=3s", NULL},
    {"connect", OPTION_TIME, AT(connect_ns), 5 * WEIR_SEC, WEIR_MS, 600 * WEIR_SEC,
     "connect is a time from 1ms to 10m: connect=5s", NULL},
    {"answer", OPTION_TIME, AT(answer_ns), 2 * WEIR_SEC, WEIR_MS, 600 * WEIR_SEC,
     "answer is a time from 1ms to 10m: answer=2s", NULL},
    {"session", OPTION_TIME, AT(session_ns), 10 * WEIR_SEC, 100 * WEIR_MS, 3600 * WEIR_SEC,
     "session is a time from 100ms to 1h: session=10s", NULL},
    {"leave", OPTION_TIME, AT(leave_ns), WEIR_SEC, WEIR_MS, 600 * WEIR_SEC,
     "leave is a time from 1ms to 10m: leave=1s", NULL},
    {"clock", OPTION_WORD, AT(clock), 0, 0, WEIR_FLEET_CLOCK_UNUSED, "clock is trusted or unused", clocks},
    {"guard", OPTION_TIME, AT(guard_ns), 100 * WEIR_MS, WEIR_MS, 86400 * WEIR_SEC,
     "guard is a time from 1ms to 1d: guard=100ms", NULL},
    {"flight", OPTION_SMALL, AT(flight), 4, 1, 4, "flight is 1 to 4 orders on the way at once: flight=4",
     NULL},
    {"most_held", OPTION_COUNT, AT(most_held), 0, 0, TICKET_TOTAL_MAX,
     "most_held is units beyond which nothing is prefetched: most_held=5000", NULL},
    {"ready", OPTION_TIME, AT(ready_ns), 10 * WEIR_SEC, WEIR_MS, 86400 * WEIR_SEC,
     "ready is a time from 1ms to 1d: ready=10s", NULL},
    {"unreached", OPTION_WORD, AT(unreached), 0, 0, WEIR_FLEET_LOST_AT_FIRST, "unreached is fail or lost",
     unreached},
#undef AT
};
#define OPTIONS (sizeof options_known / sizeof options_known[0])

#define TLS_SCHEMES "rediss://, rediss+cluster:// and weirs://"

/* Words that a kind of coordinator reads for itself, spelt just so. */
static const struct url_option {
    const char *name;
    const char *scheme; /* those that begin like this have it */
    const char *say;    /* which they are */
} words_known[] = {{"failover", "redis", "redis:// and redis+cluster://"},
                   {"acl", "zookeeper", "zookeeper://"},
                   {"writes", "", "all"},
                   /* url.c takes these out of a URL with TLS: */
                   {"cacert", "rediss", TLS_SCHEMES},
                   {"cert", "rediss", TLS_SCHEMES},
                   {"key", "rediss", TLS_SCHEMES},
                   {"insecure", "rediss", TLS_SCHEMES}};
#define WORDS (sizeof words_known / sizeof words_known[0])

_Static_assert(OPTIONS + WORDS <= 32, "each has its bit among those seen");

static bool is_wide_option(const struct fleet_option *option)
{
    return option->kind == OPTION_COUNT || option->kind == OPTION_TIME;
}

int64_t weir_option_get(const struct weir_fleet_options *options, const struct fleet_option *option)
{
    const char *at = (const char *)options + option->offset;
    int64_t wide;
    int32_t narrow;
    if (is_wide_option(option))
        return memcpy(&wide, at, sizeof wide), wide;
    return memcpy(&narrow, at, sizeof narrow), narrow;
}

void weir_option_set(struct weir_fleet_options *options, const struct fleet_option *option, int64_t value)
{
    char *at = (char *)options + option->offset;
    int32_t narrow = (int32_t)value;
    if (is_wide_option(option))
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &narrow, sizeof narrow);
}

/* ---- text ---- */

static bool read_option_count(const char *text, size_t len, int64_t *value)
{
    struct spec_fault fault;
    struct spec_reader reader = {.at = text, .end = text + len, .fault = &fault};
    struct quantity quantity;
    if (!weir_spec_is_digit(&reader) || !weir_spec_read_count(&reader, &quantity) ||
        reader.at != reader.end || quantity.over % quantity.under != 0)
        return false;
    *value = sat_i128(quantity.over / quantity.under);
    return true;
}

static bool read_fleet_option_time(const char *text, size_t len, int64_t *value)
{
    struct spec_fault fault;
    char word[32];
    (void)snprintf(word, sizeof word, "%.*s", (int)len, text);
    return len < sizeof word && weir_spec_read_period(word, value, &fault);
}

static bool read_option_word(const char *text, size_t len, const char *const words[], int64_t *value)
{
    for (*value = 0; words[*value]; ++*value)
        if (weir_text_same(text, len, words[*value]))
            return true;
    return false;
}

static bool read_fleet_option_value(const struct fleet_option *option, const char *text, size_t len,
                                    int64_t *value)
{
    switch (option->kind) {
    case OPTION_COUNT:
    case OPTION_SMALL:
        return read_option_count(text, len, value);
    case OPTION_TIME:
        return read_fleet_option_time(text, len, value);
    case OPTION_WORD:
        break;
    }
    return read_option_word(text, len, option->words, value);
}

const struct fleet_option *weir_option_find(const char *name, size_t len)
{
    size_t bare = len > 3 && memcmp(name + len - 3, "_ns", 3) == 0 ? len - 3 : len;
    for (size_t i = 0; i < OPTIONS; i++)
        if (weir_text_alike(name, bare, options_known[i].name))
            return &options_known[i];
    return NULL;
}

static const struct url_option *find_url_option(const char *name, size_t len)
{
    for (size_t i = 0; i < WORDS; i++)
        if (strlen(words_known[i].name) == len && memcmp(name, words_known[i].name, len) == 0)
            return &words_known[i];
    return NULL;
}

static bool url_option_fits(const struct url_option *word, const struct server_url *url)
{
    return strncmp(url->scheme, word->scheme, strlen(word->scheme)) == 0;
}

static bool refuse_unknown_option(const char *name, size_t len, const struct server_url *url,
                                  struct weir_error *err)
{
    struct nearest near = weir_nearest(name, len);
    if (weir_text_alike(name, len, "optimistic"))
        return weir_error_complain(
            err, "a coordinator's URL has no option 'optimistic': a member lets pass what it "
                 "has leased; for more at hand write a larger prefetch= or ready=");
    for (size_t i = 0; i < OPTIONS + WORDS; i++) {
        if (i >= OPTIONS && !url_option_fits(&words_known[i - OPTIONS], url))
            continue;
        const char *known = i < OPTIONS ? options_known[i].name : words_known[i - OPTIONS].name;
        (void)weir_nearest_try(&near, known);
    }
    return weir_error_complain(err, "a coordinator's URL has no option '%.*s'%s%s%s",
                               (int)min64((int64_t)len, 40), name,
                               near.found ? "; did you mean " : "; see weir-fleet.h for those there are",
                               near.found ? near.found : "", near.found ? "?" : "");
}

/* It has not been there before, and is from now on. */
static bool mark_option_seen(uint32_t *seen, size_t index, const char *name, struct weir_error *err)
{
    uint32_t bit = UINT32_C(1) << index;
    if (*seen & bit)
        return weir_error_complain(err, "%s is written twice in the URL; leave one of them out", name);
    *seen |= bit;
    return true;
}

static bool read_url_option(struct weir_fleet_options *options, const char *word, size_t len,
                            const struct server_url *url, uint32_t *seen, struct weir_error *err)
{
    const char *equals = memchr(word, '=', len);
    if (!equals || equals == word)
        return weir_error_complain(err,
                                   "behind the ? of a URL stand options as name=value, joined by &, such "
                                   "as ?base=1000&nodes=500");
    size_t name_len = (size_t)(equals - word);
    const struct url_option *own = find_url_option(word, name_len);
    if (own && !url_option_fits(own, url))
        return weir_error_complain(err, "%s is for %s only; leave it out", own->name, own->say);
    if (own)
        return mark_option_seen(seen, OPTIONS + (size_t)(own - words_known), own->name, err);
    const struct fleet_option *option = weir_option_find(word, name_len);
    if (!option)
        return refuse_unknown_option(word, name_len, url, err);
    if (!mark_option_seen(seen, (size_t)(option - options_known), option->name, err))
        return false;
    int64_t value;
    if (!read_fleet_option_value(option, equals + 1, len - name_len - 1, &value) || value < option->least ||
        value > option->most)
        return weir_error_complain(err, "%s", option->say);
    weir_option_set(options, option, value);
    return true;
}

/* ---- the whole ---- */

static bool complete_fleet_options(struct weir_fleet_options *options, struct weir_error *err)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct fleet_option *option = &options_known[i];
        int64_t value = weir_option_get(options, option);
        if (value == 0)
            weir_option_set(options, option, option->fallback);
        else if (value < option->least || value > option->most)
            return weir_error_complain(err, "%s", option->say);
    }
    if (options->on_loss == WEIR_FLEET_SHARE && options->nodes < 2)
        return weir_error_complain(err,
                                   "on_loss=share needs the number of members, to know a share: nodes=500");
    return true;
}

bool weir_fleet_options_read(struct weir_fleet_options *options, const struct server_url *url,
                             struct weir_error *err)
{
    uint32_t seen = 0;
    const char *query = url->query;
    while (*query) {
        size_t len = strcspn(query, "&");
        if (!read_url_option(options, query, len, url, &seen, err))
            return false;
        query += len + (query[len] == '&');
    }
    return complete_fleet_options(options, err);
}

/*
 * From the text of a limit to what a fleet agrees on.
 */

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
