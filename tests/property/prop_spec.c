/* SPDX-License-Identifier: MIT */
/*
 * The language of limits over random limits and random mistakes:
 *
 *   - parse(format(x)) = x, and formatting again gives the same text
 *   - what has been completed is complete, and compiles
 *   - decimals are exact, times are written as short as possible
 *   - a damaged text is either read, and then the above holds, or refused with a message and a place
 */
#include "algorithms.h"
#include "base/sat.h"
#include "base/text.h"
#include "check.h"
#include "spec/read.h"
#include "spec/spec.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* ---- random limits ---------------------------------------------------------------------------- */

/* Round numbers are where the formatter has choices. */
static int64_t round_number(struct rng *rng, int64_t high)
{
    static const int64_t steps[] = {
        1, 1, 1000, 1000000, 1000000000, 60 * WEIR_SEC, 3600 * WEIR_SEC, 86400 * WEIR_SEC};
    int64_t step = steps[rng_between(rng, 0, COUNT_OF(steps) - 1)];
    int64_t number = sat_mul(rng_magnitude(rng, high / step + 1), step);
    return number > high ? high : number;
}

static bool chance(struct rng *rng, int64_t one_in)
{
    return rng_between(rng, 1, one_in) == 1;
}

static void random_name(struct rng *rng, char *name)
{
    static const char *const letters[] = {
        "a", "Z", "0", "-", "_", "=", ":", "/", ";", "\xC3\xBC", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    size_t len = 0;
    for (int64_t i = rng_between(rng, 1, 63); i > 0; i--) {
        const char *letter = letters[rng_between(rng, 0, COUNT_OF(letters) - 1)];
        if (len + strlen(letter) > WEIR_NAME_MAX)
            return;
        memcpy(name + len, letter, strlen(letter));
        len += strlen(letter);
    }
}

static void random_own(struct rng *rng, struct weir_spec *spec)
{
    switch ((enum weir_algo)spec->algo) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_SMOOTH:
    case WEIR_STEP:
        if (chance(rng, 2))
            spec->burst = round_number(rng, chance(rng, 2) ? SPEC_COUNT_MAX : 1000000);
        if (chance(rng, 2))
            spec->initial = round_number(rng, spec->burst ? spec->burst : spec->count);
        spec->initial_given = chance(rng, 2);
        if (spec->algo == WEIR_STEP) {
            spec->refused = chance(rng, 2) ? WEIR_REFUSED_DRAIN : WEIR_REFUSED_IGNORE;
            spec->strict = chance(rng, 2);
        }
        break;
    case WEIR_LEAKY_BUCKET:
        spec->queue = chance(rng, 2) ? round_number(rng, SPEC_COUNT_MAX) : 0;
        spec->age_ns = chance(rng, 2) ? round_number(rng, SPEC_TIME_MAX_NS) : 0;
        break;
    case WEIR_WARMUP:
        spec->warmup_ns = round_number(rng, SPEC_TIME_MAX_NS);
        spec->cold_ppm = chance(rng, 2) ? rng_between(rng, SPEC_FACTOR_ONE, 10 * SPEC_FACTOR_ONE) : 0;
        spec->shape = chance(rng, 2) ? WEIR_SHAPE_BELOW : WEIR_SHAPE_ABOVE;
        break;
    case WEIR_HYBRID:
        spec->ratio_ppm = chance(rng, 2) ? SPEC_FACTOR_ONE + round_number(rng, 10 * SPEC_FACTOR_ONE) : 0;
        spec->pool_ns = chance(rng, 2) ? round_number(rng, SPEC_TIME_MAX_NS) : 0;
        spec->fill = chance(rng, 2) ? WEIR_FILL_THREAD : WEIR_FILL_CALLERS;
        break;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_LOG:
        spec->refused = chance(rng, 2) ? WEIR_REFUSED_COUNT : WEIR_REFUSED_IGNORE;
        break;
    case WEIR_INTERVAL:
    case WEIR_QUOTA:
    case WEIR_UNLIMITED:
    case WEIR_BLOCKED:
        break;
    }
}

/* Any limit that makes sense, and many that do not. */
static struct weir_spec random_spec(struct rng *rng)
{
    struct weir_spec spec = {.algo = algo_any(rng)};
    if (chance(rng, 3))
        random_name(rng, spec.name);
    if (spec.algo == WEIR_UNLIMITED || spec.algo == WEIR_BLOCKED)
        return spec;
    int64_t most = spec.algo == WEIR_SLIDING_LOG ? SPEC_LOG_MAX : chance(rng, 2) ? SPEC_COUNT_MAX : 100000;
    spec.count = round_number(rng, most);
    spec.period_ns = round_number(rng, SPEC_PERIOD_MAX_NS);
    if (chance(rng, 3))
        spec.timeout_ns = round_number(rng, SPEC_TIME_MAX_NS);
    random_own(rng, &spec);
    return spec;
}

static size_t random_limits(struct rng *rng, struct weir_spec *specs, size_t most, int64_t *tries)
{
    struct spec_fault fault;
    size_t count = 0, want = (size_t)rng_between(rng, 1, (int64_t)most);
    while (count < want) {
        ++*tries;
        specs[count] = random_spec(rng);
        if (!weir_spec_complete(&specs[count], &fault))
            CHECK(fault.text[0] != '\0');
        else if (!weir_spec_has_namesake(specs, count))
            count++;
    }
    return count;
}

/* ---- laws ------------------------------------------------------------------------------------- */

/* Specs that were read or completed come back from their own text. */
static bool check_round_trip(const struct weir_spec *specs, size_t count)
{
    char text[SPEC_TEXT_MAX + 1], again[SPEC_TEXT_MAX + 1];
    struct weir_spec back[WEIR_LIMITS_MAX];
    struct weir_error err;
    size_t len = weir_spec_format(specs, count, text, sizeof text);
    bool right = CHECK(len > 0) && CHECK(len <= SPEC_TEXT_MAX) && CHECK_EQ(strlen(text), len) &&
                 CHECK_EQ(weir_spec_parse(text, back, WEIR_LIMITS_MAX, &err), count) &&
                 CHECK(memcmp(specs, back, count * sizeof back[0]) == 0) &&
                 CHECK_EQ(weir_spec_format(back, count, again, sizeof again), len) && CHECK_STR(again, text);
    if (!right)
        printf("#   from \"%s\": %s\n", text, err.text);
    return right;
}

TEST(every_limit_comes_back_from_its_text)
{
    struct rng rng = rng_new(1);
    int64_t rounds = check_env("WEIR_SPEC_ROUNDS", 1000000), tries = 0;
    for (int64_t done = 0; done < rounds;) {
        struct weir_spec specs[WEIR_LIMITS_MAX], twice;
        struct spec_fault fault;
        size_t count = random_limits(&rng, specs, chance(&rng, 100) ? WEIR_LIMITS_MAX : 1, &tries);
        done += (int64_t)count;
        twice = specs[0];
        if (!CHECK(weir_spec_complete(&twice, &fault)) ||
            !CHECK(memcmp(&twice, &specs[0], sizeof twice) == 0) || !check_round_trip(specs, count))
            return;
    }
    CHECK(tries < 20 * rounds); /* the generator mostly makes sense */
}

TEST(every_limit_compiles)
{
    struct rng rng = rng_new(2);
    int64_t tries = 0;
    for (int i = 0; i < 20000; i++) {
        struct weir_spec specs[3];
        struct weir_error err;
        char text[SPEC_TEXT_MAX + 1];
        size_t count = random_limits(&rng, specs, COUNT_OF(specs), &tries);
        weir_spec_format(specs, count, text, sizeof text);
        struct weir_policy *policy = weir_policy_new(text, &err);
        if (!CHECK(policy != NULL)) {
            printf("#   %s\n", err.text);
            return;
        }
        CHECK_EQ(weir_policy_count(policy), count);
        for (size_t j = 0; j < count; j++)
            CHECK(memcmp(weir_policy_spec(policy, j), &specs[j], sizeof specs[j]) == 0);
        weir_policy_free(policy);
    }
}

TEST(decimals_are_exact)
{
    struct rng rng = rng_new(3);
    for (int i = 0; i < 100000; i++) {
        int64_t whole = rng_magnitude(&rng, 1000000), digits = rng_between(&rng, 1, 6), scale = 1, period_ms;
        for (int64_t j = 0; j < digits; j++)
            scale *= 10;
        int64_t fraction = rng_between(&rng, 0, scale - 1);
        period_ms = rng_between(&rng, 1, 100000);
        if (whole + fraction == 0)
            continue;
        char text[96];
        struct weir_spec spec;
        struct weir_error err;
        snprintf(text, sizeof text, "%" PRId64 ".%0*" PRId64 "/%" PRId64 "ms", whole, (int)digits, fraction,
                 period_ms);
        if (!CHECK_EQ(weir_spec_parse(text, &spec, 1, &err), 1)) {
            printf("#   %s\n", err.text);
            return;
        }
        weir_i128 written = (weir_i128)(whole * scale + fraction) * spec.period_ns;
        CHECK(written == (weir_i128)spec.count * period_ms * WEIR_MS * scale);
        CHECK_EQ(spec.burst, whole > 0 ? whole : 1);
        if (fraction == 0)
            CHECK_EQ(spec.count, whole); /* never reduced further than the decimal needs */
    }
}

/* The shortest of all ways that take as many as they can of each unit they use. */
static size_t shortest_len(int64_t time_ns)
{
    static const struct {
        int64_t length_ns;
        const char *word;
    } units[] = {
        {604800 * WEIR_SEC, "w"}, {86400 * WEIR_SEC, "d"}, {3600 * WEIR_SEC, "h"}, {60 * WEIR_SEC, "m"},
        {WEIR_SEC, "s"},          {WEIR_MS, "ms"},         {1000, "us"},           {1, "ns"},
    };
    size_t best = SIZE_MAX;
    for (unsigned used = 1; used < 256; used++) {
        char text[96];
        size_t len = 0;
        int64_t left = time_ns;
        for (size_t i = 0; i < COUNT_OF(units); i++) {
            if (!(used & 1u << i) || left < units[i].length_ns)
                continue;
            len += (size_t)snprintf(text, sizeof text, "%" PRId64 "%s", left / units[i].length_ns,
                                    units[i].word);
            left %= units[i].length_ns;
        }
        if (left == 0 && len < best)
            best = len;
    }
    return best;
}

TEST(times_are_written_as_short_as_possible)
{
    struct rng rng = rng_new(4);
    for (int i = 0; i < 5000; i++) {
        int64_t time_ns = round_number(&rng, SPEC_PERIOD_MAX_NS - 2000) + rng_magnitude(&rng, 1000) + 1,
                back = 0;
        struct spec_fault fault;
        char text[64];
        size_t len = weir_spec_format_period(time_ns, text, sizeof text);
        CHECK_EQ(len, shortest_len(time_ns));
        CHECK(weir_spec_read_period(text, &back, &fault));
        if (!CHECK_EQ(back, time_ns))
            printf("#   %s\n", text);
    }
}

/* ---- damaged texts ---------------------------------------------------------------------------- */

static const char *const samples[] = {
    "100/s burst=20",
    "100/s burst=200, 10k/h, 200k/d",
    "5 per minute algo=sliding-log refused=count name=login",
    "1.5/s initial=0 timeout=1h30m",
    "2/s algo=warmup warmup=4s cold=2.5 shape=below",
    "12k/s algo=hybrid ratio=1.1 pool=2ms fill=thread",
    "10/s algo=leaky-bucket queue=20 age=500ms",
    "3/5s burst=10 algo=step refused=drain strict=true",
    "12000,1.1,restart",
    "cyclerate=12k;1.25",
    "2MiB/s burst=4MiB name=bytes, unlimited, blocked name=x",
    "20M/month tz=Europe/Berlin anchor=15",
    "1/\xC2\xB5s name=\xC3\xBC",
};

/* Cuts, doubles, swaps or replaces something; longest result: twice as long and some. */
static void damage(struct rng *rng, char *text, size_t size)
{
    static const char bytes[] = "0159.kMGiB/,:;= \t-_mshdwnuperalgoburst\xC2\xB5\xFF\x1B%";
    size_t len = strlen(text), at = (size_t)rng_between(rng, 0, (int64_t)len);
    size_t part = (size_t)rng_between(rng, 0, min64((int64_t)(len - at), 12));
    char byte = bytes[rng_between(rng, 0, sizeof bytes - 2)];
    switch (rng_between(rng, 0, 4)) {
    case 0:
        memmove(text + at, text + at + part, len - at - part + 1);
        break;
    case 1:
        if (at < len)
            text[at] = byte;
        break;
    case 2:
        if (len + 2 < size) {
            memmove(text + at + 1, text + at, len - at + 1);
            text[at] = byte;
        }
        break;
    case 3:
        if (len + part + 1 < size) {
            memmove(text + at + part, text + at, len - at + 1);
            memmove(text + at, text + at + part, part);
        }
        break;
    default:
        if (at + 1 < len) {
            char other = text[at];
            text[at] = text[at + 1];
            text[at + 1] = other;
        }
        break;
    }
}

static bool check_refusal(const char *text, const struct weir_error *err)
{
    int32_t columns = weir_text_column(text, strlen(text));
    return CHECK_EQ(err->code, EINVAL) && CHECK(err->column >= 1) && CHECK(err->column <= columns) &&
           CHECK(memchr(err->text, '\0', sizeof err->text) != NULL) &&
           CHECK(strstr(err->text, ": column ") != NULL) && CHECK(strlen(err->text) > 20);
}

TEST(damaged_texts_are_read_or_explained)
{
    struct rng rng = rng_new(5);
    int64_t rounds = check_env("WEIR_SPEC_ROUNDS", 1000000) / 3, read = 0;
    for (int64_t i = 0; i < rounds; i++) {
        char text[512];
        snprintf(text, sizeof text, "%s", samples[rng_between(&rng, 0, COUNT_OF(samples) - 1)]);
        for (int64_t j = rng_between(&rng, 1, 3); j > 0; j--)
            damage(&rng, text, sizeof text);
        struct weir_spec specs[WEIR_LIMITS_MAX];
        struct weir_error err;
        size_t count = weir_spec_parse(text, specs, WEIR_LIMITS_MAX, &err);
        for (size_t j = 0; j < count; j++)
            specs[j].verb = WEIR_VERB_NONE; /* an order, not part of the limit */
        if (count ? !check_round_trip(specs, count) : !check_refusal(text, &err)) {
            printf("#   from \"%s\"\n", text);
            return;
        }
        read += count > 0;
    }
    CHECK(read > rounds / 20); /* both ways have been tried often */
    CHECK(read < rounds / 2);
}
