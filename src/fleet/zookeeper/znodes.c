/* SPDX-License-Identifier: MIT */
#include "fleet/zookeeper/znodes.h"

#include <stdio.h>
#include <string.h>

#include "base/sat.h"
#include "spec/read.h"
#include "spec/value.h"

static const char *const node_names[ZNODE_COUNT] = {"", "/total", "/base", "/usable", "/refresh", "/returns"};
static const char *const kind_names[] = {[LEASE_QUOTA] = "quota", [LEASE_BUCKET] = "bucket"};

void weir_znode_path(char path[ZNODE_PATH_MAX], const char *root, const char *name, enum znode which)
{
    (void)snprintf(path, ZNODE_PATH_MAX, "%.255s/quota/%.255s%s", root, name, node_names[which]);
}

/* ---- values ---- */

/* Copies what may be a text: bounded, without a NUL; an operator's echo may have left a line end. */
static bool copy_znode_text(char copy[ZNODE_TEXT_MAX], const char *text, size_t len)
{
    if (len > 0 && text[len - 1] == '\n')
        len--;
    if (len == 0 || len >= ZNODE_TEXT_MAX || memchr(text, '\0', len))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return true;
}

/* A whole number of units from 1 on, and nothing behind it. */
static bool read_znode_count(const char *text, size_t len, int64_t *count)
{
    struct spec_fault fault;
    struct spec_reader reader = {.at = text, .end = text + len, .fault = &fault};
    struct quantity quantity;
    if (len == 0 || text[0] < '0' || text[0] > '9' || !weir_spec_read_count(&reader, &quantity) ||
        reader.at != reader.end || quantity.under != 1 || quantity.over < 1 ||
        quantity.over > TICKET_TOTAL_MAX)
        return false;
    *count = (int64_t)quantity.over;
    return true;
}

static bool read_znode_period(const char *text, size_t len, int64_t *period_ns)
{
    char copy[ZNODE_TEXT_MAX];
    struct spec_fault fault;
    if (len == 0 || len >= sizeof copy || memchr(text, ' ', len))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return weir_spec_read_period(copy, period_ns, &fault) && *period_ns > 0;
}

/* ---- refresh ---- */

static void put_znode_count(char *text, const char *word, int64_t count)
{
    char value[64];
    size_t len = strlen(text);
    (void)weir_spec_format_count(count, value, sizeof value);
    (void)snprintf(text + len, ZNODE_TEXT_MAX - len, " %s=%s", word, value);
}

static void put_znode_period(char *text, const char *word, int64_t period_ns)
{
    char value[64];
    size_t len = strlen(text);
    (void)weir_spec_format_period(period_ns, value, sizeof value);
    (void)snprintf(text + len, ZNODE_TEXT_MAX - len, " %s=%s", word, value);
}

void weir_znode_refresh_write(const struct znode_epoch *epoch, char text[ZNODE_TEXT_MAX])
{
    const struct lease_terms *terms = &epoch->terms;
    (void)snprintf(text, ZNODE_TEXT_MAX, "kind=%s", kind_names[terms->kind == LEASE_BUCKET]);
    put_znode_count(text, "total", terms->total);
    put_znode_period(text, "window", terms->window_ns);
    if (terms->kind == LEASE_BUCKET)
        put_znode_count(text, "burst", terms->burst);
    put_znode_count(text, "base", terms->base);
    put_znode_count(text, "chunk", terms->chunk);
    if (epoch->wait_ns > 0)
        put_znode_period(text, "wait", epoch->wait_ns);
}

/* Steps over one `word=value`. */
static bool read_znode_pair(const char **at, struct znode_epoch *epoch)
{
    struct lease_terms *terms = &epoch->terms;
    size_t len = strcspn(*at, " "), word = strcspn(*at, "=");
    if (word >= len)
        return false;
    const char *value = *at + word + 1;
    size_t value_len = len - word - 1;
    struct znode_field {
        const char *word;
        int64_t *count, *period_ns;
    } slots[] = {{"total", &terms->total, NULL},      {"burst", &terms->burst, NULL},
                 {"base", &terms->base, NULL},        {"chunk", &terms->chunk, NULL},
                 {"window", NULL, &terms->window_ns}, {"wait", NULL, &epoch->wait_ns}};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        if (strlen(slots[i].word) != word || memcmp(*at, slots[i].word, word) != 0)
            continue;
        *at += len;
        return slots[i].count ? read_znode_count(value, value_len, slots[i].count)
                              : read_znode_period(value, value_len, slots[i].period_ns);
    }
    return false;
}

/* Terms that a fleet can have, and that say everything. */
static bool are_terms_complete(const struct lease_terms *terms)
{
    struct lease_terms again = *terms;
    char why[256];
    return terms->base > 0 && terms->chunk > 0 && weir_terms_complete(&again, 1, why, sizeof why);
}

bool weir_znode_refresh_read(struct znode_epoch *epoch, const char *text, size_t len)
{
    char copy[ZNODE_TEXT_MAX], again[ZNODE_TEXT_MAX];
    memset(epoch, 0, sizeof *epoch);
    if (!copy_znode_text(copy, text, len))
        return false;
    const char *at = copy;
    size_t kind = strcspn(at, " ");
    if (kind == strlen("kind=bucket") && memcmp(at, "kind=bucket", kind) == 0)
        epoch->terms.kind = LEASE_BUCKET;
    at += kind;
    while (*at == ' ') {
        at++;
        if (!read_znode_pair(&at, epoch))
            return false;
    }
    if (!are_terms_complete(&epoch->terms))
        return false;
    weir_znode_refresh_write(epoch, again); /* order, doubles, other spellings: it has to be our own hand */
    return strlen(again) == len && memcmp(again, text, len) == 0;
}

/* ---- the pool's own node ---- */

void weir_znode_pool_write(const struct znode_pool *pool, char text[ZNODE_TEXT_MAX])
{
    char wait[ZNODE_TEXT_MAX] = "";
    if (pool->wait_ns > 0)
        put_znode_period(wait, "wait", pool->wait_ns);
    (void)snprintf(text, ZNODE_TEXT_MAX, "%s%.64s", pool->gone ? "gone" : "", wait + !pool->gone);
}

void weir_znode_pool_read(struct znode_pool *pool, const char *text, size_t len)
{
    char copy[ZNODE_TEXT_MAX], again[ZNODE_TEXT_MAX];
    *pool = (struct znode_pool){.gone = false};
    if (!copy_znode_text(copy, text, len))
        return;
    const char *at = copy;
    struct znode_pool read = {.gone = strncmp(at, "gone", 4) == 0};
    at += read.gone ? 4 : 0;
    at += read.gone && *at == ' ';
    bool good = *at == '\0' ||
                (strncmp(at, "wait=", 5) == 0 && read_znode_period(at + 5, strlen(at + 5), &read.wait_ns));
    weir_znode_pool_write(&read, again);
    if (good && strcmp(again, copy) == 0)
        *pool = read;
}

/* ---- total and base ---- */

void weir_znode_total_write(const struct lease_terms *terms, char text[ZNODE_TEXT_MAX])
{
    char count[64], period[64];
    (void)weir_spec_format_count(terms->total, count, sizeof count);
    (void)weir_spec_format_period(terms->window_ns, period, sizeof period);
    bool one = period[0] == '1' && strcspn(period + 1, "0123456789") == strlen(period + 1);
    (void)snprintf(text, ZNODE_TEXT_MAX, "%s/%s", count, period + one); /* 10k/s */
    if (terms->kind == LEASE_BUCKET)
        put_znode_count(text, "burst", terms->burst);
}

bool weir_znode_total_read(struct lease_terms *terms, const char *text, size_t len)
{
    char copy[ZNODE_TEXT_MAX];
    struct lease_terms read = *terms;
    if (!copy_znode_text(copy, text, len))
        return false;
    char *burst = strstr(copy, " burst=");
    if ((burst != NULL) != (terms->kind == LEASE_BUCKET))
        return false;
    if (burst) {
        *burst = '\0';
        burst += strlen(" burst=");
        if (!read_znode_count(burst, strlen(burst), &read.burst))
            return false;
    }
    char *slash = strchr(copy, '/');
    size_t count = slash ? (size_t)(slash - copy) : strlen(copy);
    if (!read_znode_count(copy, count, &read.total) ||
        (slash && strspn(slash + 1, "0123456789") > 0 &&
         !read_znode_period(slash + 1, strlen(slash + 1), &read.window_ns)))
        return false;
    if (slash && strspn(slash + 1, "0123456789") == 0) { /* 10k/s: one of it */
        char one[ZNODE_TEXT_MAX + 1];
        (void)snprintf(one, sizeof one, "1%s", slash + 1);
        if (!read_znode_period(one, strlen(one), &read.window_ns))
            return false;
    }
    *terms = read;
    return true;
}

bool weir_znode_base_read(int64_t *base, const char *text, size_t len)
{
    char copy[ZNODE_TEXT_MAX];
    return copy_znode_text(copy, text, len) && read_znode_count(copy, strlen(copy), base);
}

/* A chunk that the terms can have: `chunk` as far as it fits, else what the terms give of themselves. */
static bool fit_chunk(struct lease_terms *terms, int64_t chunk, char *why, size_t size)
{
    terms->chunk = min64(chunk, terms->total);
    if (terms->chunk > 0 && are_terms_complete(terms))
        return true;
    terms->chunk = 0;
    return weir_terms_complete(terms, 1, why, size);
}

void weir_znode_next(const struct znode_epoch *epoch, const char *total, size_t total_len, const char *base,
                     size_t base_len, int64_t chunk, struct lease_terms *next, char note[160])
{
    char why[256] = "";
    struct lease_terms terms = epoch->terms;
    note[0] = '\0';
    if (total_len > 0 && !weir_znode_total_read(&terms, total, total_len))
        (void)snprintf(note, 160, "'total' holds no %s: write %s; the old total stays",
                       terms.kind == LEASE_BUCKET ? "rate" : "number",
                       terms.kind == LEASE_BUCKET ? "such as 10k/s burst=20k" : "such as 100 or 100/2m");
    if (base_len > 0 && !weir_znode_base_read(&terms.base, base, base_len))
        (void)snprintf(note, 160, "'base' holds no number from 1 on; the old one stays");
    bool same = terms.base == epoch->terms.base && terms.total == epoch->terms.total;
    if (fit_chunk(&terms, chunk > 0 ? chunk : same ? epoch->terms.chunk : terms.base, why, sizeof why)) {
        *next = terms;
        return;
    }
    (void)snprintf(note, 160, "what 'total' and 'base' say cannot be: %.100s", why);
    *next = epoch->terms;
}
