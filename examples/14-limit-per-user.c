/* SPDX-License-Identifier: MIT */
/*
 * A limit for each user: a table holds the state of every key. Three limits have to agree; a customer who
 * pays more gets limits of his own; explain says where a user stands.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <weir.h>

static void ask(struct weir_table *users, const char *user, int64_t n)
{
    struct weir_verdict v;
    if (weir_table_take(users, user, strlen(user), n, &v))
        printf("%-6s %4" PRId64 " pass, %" PRId64 " left\n", user, n, v.remaining);
    else
        printf("%-6s %4" PRId64 " refused by limit %d, again in %" PRId64 " ms\n", user, n, (int)v.limit,
               (v.retry_after_ns + WEIR_MS - 1) / WEIR_MS);
}

static void explain(struct weir_table *users, const char *user)
{
    struct weir_limit_state limits[WEIR_LIMITS_MAX];
    size_t count = weir_table_explain(users, user, strlen(user), limits, WEIR_LIMITS_MAX);
    printf("%s\n", user);
    for (size_t i = 0; i < count; i++)
        printf("  %-16s used %5" PRId64 "  left %5" PRId64 "%s\n", limits[i].text, limits[i].used,
               limits[i].left, limits[i].refuses ? "  refuses" : "");
}

int main(void)
{
    struct weir_error err;
    struct weir_table *users = weir_table_new("100/s burst=200, 1k/h, 5k/d", 10000, &err);
    if (!users)
        return fprintf(stderr, "%s\n", err.text), 1;
    weir_clock_set(WEIR_SEC); /* time stands still, so that this prints the same every time */

    ask(users, "ada", 150);
    ask(users, "ada", 100); /* 50 are left in the first limit */
    ask(users, "grace", 100);
    for (int64_t second = 2; second <= 6; second++) {
        weir_clock_set(second * WEIR_SEC);
        ask(users, "grace", 180);
    }
    explain(users, "grace");

    if (!weir_table_override(users, "grace", 5, "1k/s burst=5k, 1M/d", &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    weir_clock_set(16 * WEIR_SEC);
    ask(users, "grace", 2000);

    struct weir_table_info stat;
    weir_table_stat(users, &stat);
    printf("%" PRId64 " users are busy, %" PRId64 " of them with limits of their own\n", stat.keys,
           stat.overrides);
    weir_table_free(users);
}
