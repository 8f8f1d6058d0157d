/* SPDX-License-Identifier: MIT */
/*
 * The sampled log of refusals: what a line tells, which answers make one, how many there are, and that every
 * refusal is in a line or in the number of a later one.
 */
#define _POSIX_C_SOURCE 200809L

#include <unistd.h>

#include "check.h"
#include "rng.h"
#include "service/log.h"
#include "unit/service/service_kit.h"

#define POLICIES                                                                                             \
    "policies:\n"                                                                                            \
    "  - {name: api, limits: 2/h}\n"                                                                         \
    "  - {name: wide, limits: 100/h}\n"                                                                      \
    "  - {name: tried, limits: 1/h, mode: shadow}\n"

static struct kit kit;
static char caught[1 << 20];
static int kept = -1, file = -1;

static bool begin(const char *yaml)
{
    struct service_options options = {.workers = 1, .test_clock = true};
    char path[] = "/tmp/weir-refusals-XXXXXX";
    if (!CHECK(kit_open_with(&kit, yaml, &options)))
        return false;
    kit_clock(&kit, 0);
    file = mkstemp(path);
    (void)unlink(path);
    kept = dup(STDERR_FILENO);
    return CHECK(file >= 0 && kept >= 0 && dup2(file, STDERR_FILENO) >= 0) &&
           CHECK(weir_log_start(LOG_LOGFMT, LOG_INFO_LEVEL, false));
}

static const char *end(void)
{
    weir_log_end();
    (void)dup2(kept, STDERR_FILENO);
    (void)close(kept);
    ssize_t len = pread(file, caught, sizeof caught - 1, 0);
    caught[len > 0 ? len : 0] = '\0';
    (void)close(file);
    kit_close(&kit);
    return caught;
}

static int lines_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text++)
        count++;
    return count;
}

TEST(a_line_tells_who_was_refused_by_what)
{
    if (!begin("log: {refusals: 10/s}\n" POLICIES))
        return;
    (void)kit_ask(&kit, "WEIR.TAKE wide k 1 AND api user:42 3");
    const char *text = end();
    CHECK(strstr(text, "level=info event=refused policy=api limit=2/h key=user:42 user=default client="));
    CHECK(strstr(text, " retry_after_ms=-1 not_logged=0\n"));
    CHECK_EQ(lines_of(text, "\n"), 1);
}

TEST(what_is_allowed_or_only_looked_at_is_not_told)
{
    if (!begin("log: {refusals: 10/s}\n" POLICIES))
        return;
    (void)kit_ask(&kit, "WEIR.TAKE api k 2");
    (void)kit_ask(&kit, "WEIR.PEEK api k");
    (void)kit_ask(&kit, "WEIR.TAKE tried k 1");
    (void)kit_ask(&kit, "WEIR.TAKE tried k 1"); /* shadow */
    (void)kit_ask(&kit, "WEIR.TAKE none k 1");  /* an error */
    (void)kit_ask(&kit, "WEIR.COMMIT 1-1");
    CHECK_STR(end(), "");
}

TEST(every_verb_that_takes_is_told)
{
    if (!begin("log: {refusals: 10/s}\n" POLICIES))
        return;
    (void)kit_ask(&kit, "WEIR.TAKE api a 3");
    (void)kit_ask(&kit, "WEIR.RESERVE api b 3");
    (void)kit_ask(&kit, "WEIR.ACQUIRE api c 3 TIMEOUT 0");
    (void)kit_ask(&kit, "WEIR.TAKE api d 3 FULL");
    const char *text = end();
    for (const char *key = "abcd"; *key; key++) {
        char part[] = "key=x ";
        part[4] = *key;
        CHECK_EQ(lines_of(text, part), 1);
    }
}

TEST(without_it_nothing_is_said)
{
    static const char *const files[] = {POLICIES, "log: {refusals: none}\n" POLICIES};
    for (int i = 0; i < 2; i++) {
        if (!begin(files[i]))
            return;
        (void)kit_ask(&kit, "WEIR.TAKE api k 3");
        CHECK(!kit.service->refusal_log);
        CHECK_STR(end(), "");
    }
}

TEST(a_hostile_key_is_one_bounded_line)
{
    char line[2000] = "WEIR.TAKE api ";
    if (!begin("log: {refusals: 10/s}\n" POLICIES))
        return;
    size_t len = strlen(line);
    memset(line + len, 'k', 1000);
    memcpy(line + len + 1000, " 3", 3);
    (void)kit_ask(&kit, line);
    (void)kit_ask(&kit, "WEIR.TAKE api \"a\\nevent=x\" 3");
    const char *text = end();
    CHECK_EQ(lines_of(text, "\n"), 2);
    CHECK(strstr(text, "kkkk... user=default"));
    CHECK(strlen(text) < 800);
}

/* Lines of a second are those of the limit, whatever comes; and no refusal is forgotten. */
TEST(lines_and_their_numbers_are_all_refusals)
{
    struct rng rng = rng_new(check.seed);
    int64_t now_ms = 0, refused = 0, told = 0;
    if (!begin("log: {refusals: 3/s algo=fixed-window}\n" POLICIES))
        return;
    for (int i = 0; i < 2000; i++) {
        refused += kit_field(kit_ask(&kit, "WEIR.TAKE api k 3"), "allowed") == 0;
        if (rng_between(&rng, 0, 9) == 0)
            kit_clock(&kit, now_ms += rng_between(&rng, 0, 399));
    }
    kit_clock(&kit, now_ms += 1000);
    refused += kit_field(kit_ask(&kit, "WEIR.TAKE api k 3"), "allowed") == 0; /* tells of the rest */
    const char *text = end();
    int lines = lines_of(text, "event=refused");
    for (const char *at = text; (at = strstr(at, "not_logged=")); at++)
        told += 1 + strtoll(at + 11, NULL, 10);
    CHECK_EQ(refused, 2001);
    CHECK_EQ(told, refused);
    CHECK(lines > 3 && lines <= 3 * (now_ms / 1000 + 2));
}
