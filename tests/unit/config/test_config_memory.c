/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out while a configuration is read, printed or made into users: each time at another place. It
 * is told, nothing leaks and nothing falls over; a sanitizer watches.
 */
#define _POSIX_C_SOURCE 200809L

#include "auth/users.h"
#include "base/buffer.h"
#include "check.h"
#include "config/config.h"
#include "unit/failing_memory.h"

static int complaints;

static void count_complaint(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    complaints++;
    CHECK(complaint->message[0] != '\0');
}

static const char text[] =
    "listen: {resp: 127.0.0.1:9049, unix: /run/weir.sock}\n"
    "data: none\n"
    "log: {format: json, level: warn}\n"
    "routes: [{match: {host: h, method: [GET, PUT], path: /a/*}, policy: [p, q], key: [header:a, address]},\n"
    "         {match: {method: GET}, policy: p}]\n"
    "trusted_proxies: [10.0.0.0/8, unix]\n"
    "http: {hosts: [a, b], cors: [\"https://a\"]}\n"
    "users:\n"
    "  - {name: default, may: look}\n"
    "  - {name: bot, token_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, may: "
    "all}\n"
    "  - {name: app, password: x, may: [take], keys: [\"a*\", \"b*\"], policies: [p, q]}\n"
    "policies:\n"
    "  - name: p\n"
    "    limits: [5/s, 10/m name=x]\n"
    "    candidate: 5/m\n"
    "    overrides:\n"
    "      - {key: k, limits: 5/s, reason: r, until: 2030-01-01}\n"
    "      - {key: \"k*\", limits: unlimited}\n"
    "  - {name: q, limits: 5/s}\n"
    "  - {name: f, limits: 50/s algo=quota, fleet: {coordinator: \"redis://u:p@h1,h2/1\", nodes: 2}}\n"
    "  - {name: g, limits: 500/s burst=900, fleet: {coordinator: \"local:\", keys: each}}\n"
    "  - name: h\n"
    "    address: [{v4: 32, v6: 64, limits: 5/m}, {v4: 24, v6: 48, limits: 50/m}]\n"
    "    allow: [10.0.0.0/8, 10.1.2.3]\n"
    "    block: [\"2001:db8::/32\"]\n"
    "    overrides: [{key: 192.0.2.0/24, limits: 5/s}]\n";

static struct config *parse(void)
{
    complaints = 0;
    return weir_config_parse("w.yaml", text, sizeof text - 1, count_complaint, NULL);
}

TEST(reading_survives_every_failure)
{
    int64_t rounds = 0;
    for (struct config *config = NULL; !config && rounds < 10000; rounds++) {
        allocations_left = rounds;
        config = parse();
        bool failed = allocations_left < 0; /* it has come to pass */
        allocations_left = -1;
        CHECK_EQ(!config, failed);
        CHECK_EQ(complaints > 0, failed);
        weir_config_free(config);
    }
    CHECK(rounds > 50 && rounds < 10000);
}

TEST(users_and_printing_survive_every_failure)
{
    struct config *config = parse();
    if (!CHECK(config != NULL))
        return;
    int64_t rounds = 0;
    for (bool done = false; !done && rounds < 1000; rounds++) {
        struct buffer out = {0};
        allocations_left = rounds;
        struct users *users = weir_users_new(config);
        struct users *copy = users ? weir_users_copy(users) : NULL;
        bool printed = weir_config_print(config, &out);
        bool failed = allocations_left < 0;
        allocations_left = -1;
        done = users && copy && printed;
        CHECK_EQ(!done, failed);
        weir_users_free(users);
        weir_users_free(copy);
        weir_buffer_free(&out);
    }
    CHECK(rounds > 10 && rounds < 1000);
    weir_config_free(config);
}
