/* SPDX-License-Identifier: MIT */
/*
 * A strict reader of what Prometheus scrapes, in both dialects: the text format 0.0.4 and OpenMetrics 1.0.
 * `exposition_check` says what is wrong; `exposition_value` is the value of one series, written as the server
 * writes it: weir_keys{policy="api"}.
 */
#ifndef WEIR_TESTS_EXPOSITION_H
#define WEIR_TESTS_EXPOSITION_H

#include <math.h>

#include "check.h"

#define EXPOSITION_SERIES 65536

struct exposition {
    const char *at;
    bool openmetrics;
    char family[128], type[16], series[256]; /* of the metric, and of the histogram that is being read */
    bool has_help, has_sample;
    double last_bucket; /* cumulative; below 0: none yet */
    double infinite;    /* the bucket of +Inf; below 0: none yet */
    char (*families)[128];
    char **seen; /* every series */
    size_t family_count, seen_count;
};

/* Complains about this line. */
CHECK_FUNCTION bool exposition_wrong(const char *line, const char *why)
{
    printf("# %s: %.*s\n", why, (int)strcspn(line, "\n"), line);
    return check_true(false, why, "exposition", 0);
}

CHECK_FUNCTION bool is_name_sign(char sign, bool first)
{
    return (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') || sign == '_' || sign == ':' ||
           (!first && sign >= '0' && sign <= '9');
}

CHECK_FUNCTION size_t name_len(const char *text)
{
    size_t len = 0;
    while (is_name_sign(text[len], len == 0))
        len++;
    return len;
}

CHECK_FUNCTION bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), part = strlen(end);
    return len >= part && strcmp(text + len - part, end) == 0;
}

/* "# TYPE name type": begins a family; HELP and UNIT belong to it. The first line of each is HELP. */
CHECK_FUNCTION bool exposition_comment(struct exposition *e)
{
    const char *line = e->at;
    char word[8], name[128], rest[256];
    if (sscanf(line, "# %7[A-Z] %127[a-zA-Z0-9_:] %255[^\n]", word, name, rest) != 3)
        return exposition_wrong(line, "a comment that is none of HELP, TYPE, UNIT");
    if (strcmp(word, "HELP") == 0) {
        for (size_t i = 0; i < e->family_count; i++)
            if (strcmp(e->families[i], name) == 0)
                return exposition_wrong(line, "a metric that is there twice");
        (void)snprintf(e->families[e->family_count++], sizeof *e->families, "%s", name);
        (void)snprintf(e->family, sizeof e->family, "%s", name);
        e->type[0] = '\0';
        e->has_sample = false;
        return ends_with(rest, ".") || exposition_wrong(line, "a help without its full stop");
    }
    if (strcmp(name, e->family) != 0 || e->has_sample)
        return exposition_wrong(line, "a line about another metric than the last one");
    if (strcmp(word, "UNIT") == 0)
        return (e->openmetrics && ends_with(name, rest)) || exposition_wrong(line, "a unit that is not its");
    if (strcmp(word, "TYPE") != 0 || e->type[0])
        return exposition_wrong(line, "another type");
    (void)snprintf(e->type, sizeof e->type, "%.15s", rest);
    bool counter = strcmp(rest, "counter") == 0;
    if (counter && ends_with(name, "_total") == e->openmetrics)
        return exposition_wrong(line, "a counter whose name is that of the other dialect");
    e->last_bucket = e->infinite = -1;
    e->series[0] = '\0';
    return counter || strcmp(rest, "gauge") == 0 || strcmp(rest, "histogram") == 0 ||
           (e->openmetrics && strcmp(rest, "info") == 0) || exposition_wrong(line, "no such type");
}

/* What stands behind the name of the family in that of a sample. */
CHECK_FUNCTION bool suffix_fits(const struct exposition *e, const char *suffix)
{
    if (strcmp(e->type, "histogram") == 0)
        return strcmp(suffix, "_bucket") == 0 || strcmp(suffix, "_sum") == 0 || strcmp(suffix, "_count") == 0;
    if (e->openmetrics && strcmp(e->type, "counter") == 0)
        return strcmp(suffix, "_total") == 0;
    if (strcmp(e->type, "info") == 0)
        return strcmp(suffix, "_info") == 0;
    return suffix[0] == '\0';
}

/* {name="value",...}: gives where it ends, NULL: it is none. Of le, its value goes to `le`. */
CHECK_FUNCTION const char *exposition_labels(const char *at, char le[static 32])
{
    do {
        size_t len = name_len(++at);
        bool is_le = len == 2 && strncmp(at, "le", 2) == 0;
        if (len == 0 || at[len] != '=' || at[len + 1] != '"')
            return NULL;
        const char *value = at += len + 2;
        while (*at != '"') {
            if (*at == '\0' || *at == '\n' || (*at == '\\' && !strchr("\\\"n", at[1])))
                return NULL;
            at += *at == '\\' ? 2 : 1;
        }
        if (is_le)
            (void)snprintf(le, 32, "%.*s", (int)(at - value), value);
        at++;
    } while (*at == ',');
    return *at == '}' ? at + 1 : NULL;
}

/* Buckets never fall, the last one is that of +Inf, and it is the count. */
CHECK_FUNCTION bool histogram_fits(struct exposition *e, const char *suffix, const char *le, double value)
{
    if (strcmp(suffix, "_bucket") == 0) {
        bool grows = e->infinite < 0 && value >= e->last_bucket && le[0];
        e->last_bucket = value;
        if (strcmp(le, "+Inf") == 0)
            e->infinite = value;
        return grows;
    }
    bool ended = e->infinite >= 0;
    if (strcmp(suffix, "_count") != 0)
        return ended;
    bool equal = ended && value == e->infinite;
    e->last_bucket = e->infinite = -1; /* of the next one */
    return equal;
}

CHECK_FUNCTION bool exposition_sample(struct exposition *e)
{
    const char *line = e->at, *at = line + name_len(line);
    char name[128], le[32] = "";
    size_t family = strlen(e->family);
    (void)snprintf(name, sizeof name, "%.*s", (int)(at - line), line);
    if (at == line || !e->type[0] || strncmp(name, e->family, family) != 0 || !suffix_fits(e, name + family))
        return exposition_wrong(line, "a sample of another metric");
    if (*at == '{')
        at = exposition_labels(at, le);
    if (!at || *at != ' ')
        return exposition_wrong(line, "labels that are none");
    e->seen[e->seen_count++] = strndup(line, (size_t)(at - line));
    char *end;
    double value = strtod(at + 1, &end);
    if (end == at + 1 || *end != '\n' || strchr("\n +", at[1]) || isnan(value))
        return exposition_wrong(line, "a value that is none");
    if (strcmp(e->type, "gauge") != 0 && value < 0)
        return exposition_wrong(line, "a counter below 0");
    e->has_sample = true;
    return strcmp(e->type, "histogram") != 0 || histogram_fits(e, name + family, le, value) ||
           exposition_wrong(line, "a histogram that does not add up");
}

CHECK_FUNCTION int by_text(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

CHECK_FUNCTION bool exposition_lines(struct exposition *e)
{
    for (; *e->at; e->at += strcspn(e->at, "\n") + 1) {
        if (!strchr(e->at, '\n') || e->seen_count == EXPOSITION_SERIES || e->family_count == 1000)
            return exposition_wrong(e->at, "a line without its end, or too many");
        if (e->openmetrics && strcmp(e->at, "# EOF\n") == 0)
            return true;
        if (e->at[0] == '#' ? !exposition_comment(e) : !exposition_sample(e))
            return false;
    }
    return !e->openmetrics || exposition_wrong("", "no # EOF");
}

CHECK_FUNCTION bool exposition_check(const char *text, bool openmetrics)
{
    struct exposition e = {.at = text, .openmetrics = openmetrics};
    e.families = calloc(1001, sizeof *e.families);
    e.seen = calloc(EXPOSITION_SERIES, sizeof *e.seen);
    bool good = CHECK(e.families && e.seen) && exposition_lines(&e);
    qsort(e.seen, e.seen_count, sizeof *e.seen, by_text);
    for (size_t i = 1; good && i < e.seen_count; i++)
        if (strcmp(e.seen[i - 1], e.seen[i]) == 0)
            good = exposition_wrong(e.seen[i], "a series that is there twice");
    for (size_t i = 0; i < e.seen_count; i++)
        free(e.seen[i]);
    free(e.seen);
    free(e.families);
    return good;
}

/* INT64_MIN: there is no such series. Parts of a second are cut off. */
CHECK_FUNCTION int64_t exposition_value(const char *text, const char *series)
{
    size_t len = strlen(series);
    for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        if (strncmp(at, series, len) == 0 && at[len] == ' ')
            return strtoll(at + len + 1, NULL, 10);
    return INT64_MIN;
}

#endif
