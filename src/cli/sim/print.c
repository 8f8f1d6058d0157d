/* SPDX-License-Identifier: MIT */
#include "cli/sim/print.h"

#include <stdio.h>
#include <string.h>

#include "cli/explain.h"
#include "cli/term.h"
#include "cli/words.h"

#define REMAINING_WIDTH 11
#define TIME_WIDTH      12

/* Time in seconds with all its digits. */
static int format_seconds(const struct sim_table *table, int64_t time_ns, char *text)
{
    int64_t power = 1;
    for (int i = table->decimals; i < 9; i++)
        power *= 10;
    long long whole = (long long)(time_ns / WEIR_SEC), part = (long long)(time_ns % WEIR_SEC / power);
    if (table->decimals == 0)
        return snprintf(text, HUMANIZE_MAX, "%lld s", whole);
    return snprintf(text, HUMANIZE_MAX, "%lld.%0*lld s", whole, table->decimals, part);
}

/* The digits behind the point that `time_ns` needs: 0, 3, 6 or 9. */
static int decimals_of(int64_t time_ns)
{
    return time_ns % WEIR_SEC == 0 ? 0 : time_ns % WEIR_MS == 0 ? 3 : time_ns % 1000 == 0 ? 6 : 9;
}

void sim_table_init(struct sim_table *table, const struct weir_policy *policy,
                    const struct arrivals *arrivals, bool waits)
{
    char text[HUMANIZE_MAX];
    *table = (struct sim_table){.policy = policy, .waits = waits, .several = policy->count > 1};
    int64_t latest = 0, most = 1;
    for (size_t i = 0; i < policy->count; i++)
        table->behind |= policy->limits[i].spec.algo == WEIR_HYBRID;
    for (size_t i = 0; i < arrivals->count; i++) {
        const struct arrivals_item *item = &arrivals->items[i];
        int from = decimals_of(item->from_ns), step = item->count > 1 ? decimals_of(item->step_ns) : 0;
        table->decimals = from > table->decimals ? from : table->decimals;
        table->decimals = step > table->decimals ? step : table->decimals;
        latest = max64(latest, item->from_ns + (item->count - 1) * item->step_ns);
        most = max64(most, item->n);
    }
    table->time_width = (int)max64(format_seconds(table, latest, text), 8);
    table->n_width = (int)max64((int64_t)strlen(words_number(most, text)), 5);
    table->verdict_width = waits ? 24 : 9;
}

static void put_right(const char *text, int width)
{
    printf("%*s%s", width - term_columns(text, strlen(text)), "", text);
}

void sim_table_head(const struct sim_table *table)
{
    fputs(term_colour(stdout, TERM_DIM), stdout);
    put_right("time", table->time_width);
    put_right("n", table->n_width + 2);
    printf("  %-*s", table->verdict_width, "verdict");
    put_right("remaining", REMAINING_WIDTH);
    put_right("retry after", TIME_WIDTH + 2);
    if (table->behind)
        put_right("behind", TIME_WIDTH + 2);
    if (table->several)
        fputs("  decided by", stdout);
    puts(term_colour(stdout, TERM_PLAIN));
}

static void put_verdict(const struct sim_table *table, const struct weir_verdict *verdict)
{
    char text[HUMANIZE_MAX + 32], time[HUMANIZE_MAX];
    if (!verdict->allowed)
        snprintf(text, sizeof text, "refused%s", verdict->reason == WEIR_FULL ? ", full" : "");
    else if (verdict->wait_ns > 0)
        snprintf(text, sizeof text, "allowed after %s", words_duration_up(verdict->wait_ns, time));
    else
        snprintf(text, sizeof text, "allowed");
    int pad = table->verdict_width - term_columns(text, strlen(text));
    printf("  %s%s%s%*s", term_colour(stdout, verdict->allowed ? TERM_GOOD : TERM_BAD), text,
           term_colour(stdout, TERM_PLAIN), pad > 0 ? pad : 0, "");
}

static const char *retry_text(const struct weir_verdict *verdict, char *text)
{
    if (verdict->allowed)
        return "";
    if (verdict->retry_after_ns == WEIR_FOREVER)
        return "never";
    return words_duration_up(verdict->retry_after_ns, text);
}

void sim_table_row(const struct sim_table *table, int64_t now, int64_t n, const struct weir_verdict *verdict)
{
    char text[EXPLAIN_TEXT_MAX];
    format_seconds(table, now, text);
    put_right(text, table->time_width);
    put_right(words_number(n, text), table->n_width + 2);
    put_verdict(table, verdict);
    put_right(verdict->remaining == INT64_MAX ? "no bound" : words_number(verdict->remaining, text),
              REMAINING_WIDTH);
    const char *retry = retry_text(verdict, text);
    if (*retry || table->behind || table->several)
        put_right(retry, TIME_WIDTH + 2);
    if (table->behind)
        put_right(words_duration(verdict->behind_ns, text), TIME_WIDTH + 2);
    if (table->several)
        printf("  %s", explain_label(&table->policy->limits[verdict->limit], text));
    putchar('\n');
}

void sim_table_step(const struct sim_table *table, int64_t before, int64_t now)
{
    char from[HUMANIZE_MAX], to[HUMANIZE_MAX];
    format_seconds(table, before, from);
    format_seconds(table, now, to);
    printf("the clock steps back from %s to %s\n", from, to);
}

void sim_table_sums(const struct sim_table *table, const struct sim_sums *sums)
{
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX], c[HUMANIZE_MAX], d[HUMANIZE_MAX], e[HUMANIZE_MAX];
    printf("allowed %s of %s units (%s of %s arrivals), refused %s", words_number(sums->units_allowed, a),
           words_number(sums->units, b), words_number(sums->arrivals_allowed, c),
           words_number(sums->arrivals, d), words_number(sums->units - sums->units_allowed, e));
    if (table->waits)
        printf(", longest wait %s",
               sums->longest_wait_ns == 0 ? "0" : words_duration_up(sums->longest_wait_ns, a));
    if (sums->clock_steps > 0)
        printf("; the clock stepped back %s time%s", words_number(sums->clock_steps, a),
               sums->clock_steps == 1 ? "" : "s");
    putchar('\n');
}

/* ---- JSON ---- */

void sim_json_row(struct json *json, int64_t now, int64_t n, const struct weir_verdict *verdict)
{
    json_open(json, NULL, '{', JSON_FLAT);
    json_number(json, "time_ns", now);
    json_number(json, "n", n);
    json_bool(json, "allowed", verdict->allowed);
    json_text(json, "reason", weir_reason_name(verdict->reason));
    json_bound(json, "remaining", verdict->remaining);
    json_bound(json, "retry_after_ns", verdict->retry_after_ns);
    json_bound(json, "reset_after_ns", verdict->reset_after_ns);
    json_number(json, "wait_ns", verdict->wait_ns);
    json_number(json, "behind_ns", verdict->behind_ns);
    json_number(json, "limit", verdict->limit);
    json_close(json, '}');
}

void sim_json_sums(struct json *json, const struct sim_sums *sums)
{
    json_open(json, "summary", '{', JSON_LINES);
    json_number(json, "arrivals", sums->arrivals);
    json_number(json, "arrivals_allowed", sums->arrivals_allowed);
    json_number(json, "units", sums->units);
    json_number(json, "units_allowed", sums->units_allowed);
    json_number(json, "units_refused", sums->units - sums->units_allowed);
    json_number(json, "longest_wait_ns", sums->longest_wait_ns);
    json_number(json, "clock_steps", sums->clock_steps);
    json_close(json, '}');
}
