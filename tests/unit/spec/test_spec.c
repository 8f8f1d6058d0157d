/* SPDX-License-Identifier: MIT */
/*
 * The language of limits, case by case: what a text means, what its canonical form is, and where its bounds
 * are. test_messages.c has what is said about texts that mean nothing, prop_spec.c random limits.
 */
#include "check.h"
#include "phrasebook/phrasebook.h"
#include "spec/keywords.h"
#include "spec/read.h"
#include "spec/spec.h"
#include "weir.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define TEXT_SIZE       (SPEC_TEXT_MAX + 1)

static struct weir_spec read_one(const char *text)
{
    struct weir_spec spec = {.count = -1};
    struct weir_error err;
    if (!CHECK_EQ(weir_spec_parse(text, &spec, 1, &err), 1))
        printf("#   %s\n", err.text);
    return spec;
}

static const char *format_one(const struct weir_spec *spec)
{
    static char text[TEXT_SIZE];
    weir_spec_format(spec, 1, text, sizeof text);
    return text;
}

/* The canonical form, or the message. */
static const char *canonical(const char *text)
{
    static char line[TEXT_SIZE];
    struct weir_spec specs[WEIR_LIMITS_MAX];
    struct weir_error err;
    size_t count = weir_spec_parse(text, specs, WEIR_LIMITS_MAX, &err);
    if (count == 0)
        snprintf(line, sizeof line, "%s", err.text);
    else
        weir_spec_format(specs, count, line, sizeof line);
    return line;
}

/* ---- what texts mean -------------------------------------------------------------------------- */

static const struct {
    const char *text, *canonical;
} accepted[] = {
    /* counts */
    {"100/s", "100/s"},
    {"12000/s", "12k/s"},
    {"1000000/s", "1M/s"},
    {"1500000/h", "1500k/h"},
    {"3000000000/s", "3G/s"},
    {"1000000000000/d", "1000G/d"},
    {"12k/s", "12k/s"},
    {"12K/s", "12k/s"},
    {"12kB/s", "12k/s"},
    {"2MiB/s", "2097152/s"},
    {"2Ki/s", "2048/s"},
    {"3GiB/s", "3221225472/s"},
    {"1.5k/s", "1500/s"},
    {"0.5KiB/s", "512/s"},
    {"007/s", "7/s"},
    {"60/m", "60/m"},
    {"60.0/m", "60/m"},
    {"60.50/m", "121/2m burst=60"},
    {"1.5/s", "3/2s burst=1"},
    {"0.5/s", "1/2s"},
    {"0.1/s", "1/10s"},
    {"2.5/s burst=5", "5/2s"},
    {"1.5/500ms", "3/s burst=1"},
    {"1.5/s algo=leaky-bucket", "3/2s algo=leaky-bucket queue=1"},
    {"1.5/s algo=step", "3/2s burst=1 algo=step"},
    {"1.5/s algo=smooth", "3/2s algo=smooth"},
    {"1.5/s algo=fixed-window", "3/2s algo=fixed-window"},
    {"50M/m algo=quota", "50M/m algo=quota"},
    {"1.5k per hour algo=QUOTA timeout=5s", "1500/h algo=quota timeout=5s"},
    {"0.000000001/s", "1/1000000000s"},
    {"1.000000000000/s", "1/s"},
    /* periods */
    {"1/ns", "1/ns"},
    {"1/us", "1/us"},
    {"1/\xC2\xB5s", "1/us"},
    {"1/\xCE\xBCs", "1/us"},
    {"1/ms", "1/ms"},
    {"5/1s", "5/s"},
    {"5/60s", "5/m"},
    {"5/24h", "5/d"},
    {"5/7d", "5/w"},
    {"5/8d", "5/8d"},
    {"5/14d", "5/2w"},
    {"5/70d", "5/10w"},
    {"5/250ms", "5/250ms"},
    {"5/1h30m", "5/90m"},
    {"5/30m1h", "5/90m"},
    {"5/1.5h", "5/90m"},
    {"5/0.25s", "5/250ms"},
    {"5/3601s", "5/1h1s"},
    {"5/100h", "5/100h"},
    {"5/86401s", "5/1d1s"},
    {"5/1000001ns", "5/1ms1ns"},
    {"5/1 h 30 m", "5/90m"},
    {"5/second", "5/s"},
    {"5/Minute", "5/m"},
    {"5/10 SECONDS", "5/10s"},
    {"5/2 mins", "5/2m"},
    {"5/hr", "5/h"},
    {"5/3 weeks", "5/3w"},
    {"5 per second", "5/s"},
    {"5 PER 10s", "5/10s"},
    {"5 every 10 s", "5/10s"},
    {"5 per10s", "5/10s"},
    {"12 k / s", "12k/s"},
    {"  5/s\t", "5/s"},
    {"5/s\n  burst=2", "5/s burst=2"},
    /* options */
    {"100/s burst=20", "100/s burst=20"},
    {"100/s burst=100", "100/s"},
    {"100/s burst=2k", "100/s burst=2k"},
    {"100/s BURST=2KiB", "100/s burst=2048"},
    {"100/s burst=1.5k", "100/s burst=1500"},
    {"100/s initial=0", "100/s initial=0"},
    {"100/s initial=100", "100/s"},
    {"100/s initial=20 burst=20", "100/s burst=20"},
    {"100/s burst=20 initial=5", "100/s burst=20 initial=5"},
    {"100/s algo=token-bucket", "100/s"},
    {"100/s algo=refill", "100/s"},
    {"100/s algo=GCRA", "100/s"},
    {"5/m algo=sliding-log", "5/m algo=sliding-log"},
    {"5/m algo=sliding-window refused=count", "5/m algo=sliding-window refused=count"},
    {"5/m algo=fixed-window refused=ignore", "5/m algo=fixed-window"},
    {"10/s algo=pace", "10/s algo=interval"},
    {"5/s algo=guava", "5/s algo=smooth"},
    {"5/s algo=smooth burst=5", "5/s algo=smooth"},
    {"5/s algo=smooth burst=10 initial=10", "5/s burst=10 initial=10 algo=smooth"},
    {"5/s algo=smooth initial=5", "5/s initial=5 algo=smooth"},
    {"5/s algo=smooth initial=0", "5/s algo=smooth"},
    {"1/m algo=smooth burst=1", "1/m burst=1 algo=smooth"},
    {"2/s algo=warmup warmup=4s", "2/s algo=warmup warmup=4s"},
    {"2/s algo=warm-up warmup=1m cold=3.0 shape=above", "2/s algo=warmup warmup=1m"},
    {"2/s cold=2.5 algo=warmup shape=below warmup=4000ms", "2/s algo=warmup warmup=4s cold=2.5 shape=below"},
    {"12k/s algo=hybrid ratio=1.1", "12k/s algo=hybrid ratio=1.1"},
    {"12k/s algo=engineblock", "12k/s algo=hybrid ratio=1.1"},
    {"12k/s algo=hybrid ratio=1 pool=2ms fill=thread", "12k/s algo=hybrid ratio=1 pool=2ms fill=thread"},
    {"12k/s algo=hybrid pool=1ms fill=callers ratio=1.000001", "12k/s algo=hybrid ratio=1.000001"},
    {"1/s algo=hybrid pool=1s", "1/s algo=hybrid ratio=1.1"},
    {"10/s algo=leaky", "10/s algo=leaky-bucket"},
    {"10/s algo=leaky-bucket queue=10", "10/s algo=leaky-bucket"},
    {"10/s algo=leaky-bucket age=500ms queue=20", "10/s algo=leaky-bucket queue=20 age=500ms"},
    {"3/5s burst=10 algo=smyte", "3/5s burst=10 algo=step"},
    {"3/5s algo=step strict=true refused=drain initial=1",
     "3/5s initial=1 algo=step refused=drain strict=true"},
    {"3/5s algo=step strict=false", "3/5s algo=step"},
    {"100/s timeout=1h30m name=api", "100/s timeout=90m name=api"},
    {"100/s name=api timeout=1s", "100/s timeout=1s name=api"},
    {"100/s timeout=0", "100/s"},
    {"100/s timeout=0s", "100/s"},
    {"100/s name=a=b;c/\xC3\xBC", "100/s name=a=b;c/\xC3\xBC"},
    {"unlimited", "unlimited"},
    {"Blocked name=pause", "blocked name=pause"},
    /* lists */
    {"100/s burst=200, 10k/h, 200k/d", "100/s burst=200, 10k/h, 200k/d"},
    {"100/s,10k/h", "100/s, 10k/h"},
    {"100/s ,\n10k/h", "100/s, 10k/h"},
    {"unlimited, 5/s, blocked", "unlimited, 5/s, blocked"},
    {"90k/m name=tpm, 2M/d name=budget", "90k/m name=tpm, 2M/d name=budget"},
    /* names people already know */
    {"50/500ns timeout=5s", "50/500ns timeout=5s"},
    {"30/m burst=16", "30/m burst=16"},
    {"10/s burst=21", "10/s burst=21"},
    {"3/5s burst=10 algo=step", "3/5s burst=10 algo=step"},
    /* EngineBlock */
    {"12000,1.1", "12k/s algo=hybrid ratio=1.1"},
    {"12000:1.1", "12k/s algo=hybrid ratio=1.1"},
    {"12000;1.1", "12k/s algo=hybrid ratio=1.1"},
    {"12000,1.1,restart", "12k/s algo=hybrid ratio=1.1"},
    {"12k:2;Configure", "12k/s algo=hybrid ratio=2"},
    {" 12345,1.3 ", "12345/s algo=hybrid ratio=1.3"},
    {"3.6,2", "18/5s algo=hybrid ratio=2"},
    {"12000,10", "12k/s algo=hybrid ratio=10"}, /* the most without cyclerate= in front */
    {"cyclerate=5,60", "5/s algo=hybrid ratio=60"},
    {"5/s algo=hybrid ratio=60", "5/s algo=hybrid ratio=60"},
    {"cyclerate=12000,1.1", "12k/s algo=hybrid ratio=1.1"},
    {"CycleRate=12000", "12k/s algo=hybrid ratio=1.1"},
    {"cyclerate=5M,1.25,start", "5M/s algo=hybrid ratio=1.25"},
};

TEST(texts_have_one_canonical_form)
{
    for (size_t i = 0; i < COUNT_OF(accepted); i++)
        if (!CHECK_STR(canonical(accepted[i].text), accepted[i].canonical))
            printf("#   from \"%s\"\n", accepted[i].text);
}

TEST(the_canonical_form_is_its_own)
{
    for (size_t i = 0; i < COUNT_OF(accepted); i++)
        CHECK_STR(canonical(accepted[i].canonical), accepted[i].canonical);
}

/* No phrase is found in a limit that is right: what is told is the mistake at the end. */
TEST(a_mistake_at_the_end_is_found_at_the_end)
{
    for (size_t i = 0; i < COUNT_OF(accepted); i++) {
        struct weir_spec specs[WEIR_LIMITS_MAX];
        struct weir_error err;
        char text[256];
        snprintf(text, sizeof text, "%s foo=1", accepted[i].text);
        CHECK_EQ(weir_spec_parse(text, specs, WEIR_LIMITS_MAX, &err), 0);
        weir_phrasebook_explain(text, &err);
        bool is_engineblock = strstr(accepted[i].canonical, "hybrid") && !strstr(accepted[i].text, "algo");
        if (!is_engineblock && !CHECK(strstr(err.text, "unknown option 'foo'") != NULL))
            printf("#   %s\n", err.text);
    }
}

TEST(defaults_are_filled_in)
{
    struct weir_spec s = read_one("100/s");
    CHECK_EQ(s.algo, WEIR_TOKEN_BUCKET);
    CHECK_EQ(s.count, 100);
    CHECK_EQ(s.period_ns, WEIR_SEC);
    CHECK_EQ(s.burst, 100);
    CHECK_EQ(s.initial, 100);
    CHECK_EQ(s.initial_given, 0);
    CHECK_EQ(s.timeout_ns, 0);

    s = read_one("5/s algo=smooth");
    CHECK_EQ(s.burst, 0); /* a second of rate, which need not be whole */
    CHECK_EQ(s.initial, 0);

    s = read_one("2/s algo=warmup warmup=4s");
    CHECK_EQ(s.warmup_ns, 4 * WEIR_SEC);
    CHECK_EQ(s.cold_ppm, 3000000);
    CHECK_EQ(s.shape, WEIR_SHAPE_ABOVE);
    CHECK_EQ(s.burst, 0);

    s = read_one("12k/s algo=hybrid");
    CHECK_EQ(s.ratio_ppm, 1100000);
    CHECK_EQ(s.pool_ns, WEIR_MS);
    CHECK_EQ(s.fill, WEIR_FILL_CALLERS);
    CHECK_EQ(read_one("3/s algo=hybrid").pool_ns, 333333334);

    s = read_one("10/s algo=leaky-bucket");
    CHECK_EQ(s.queue, 10);
    CHECK_EQ(s.age_ns, 0);
    CHECK_EQ(s.burst, 0);

    s = read_one("1.5/s");
    CHECK_EQ(s.count, 3);
    CHECK_EQ(s.period_ns, 2 * WEIR_SEC);
    CHECK_EQ(s.burst, 1);
    CHECK_EQ(s.initial, 1);

    s = read_one("unlimited");
    CHECK_EQ(s.algo, WEIR_UNLIMITED);
    CHECK_EQ(s.count, 0);
}

TEST(initial_is_kept_only_where_it_says_something)
{
    struct weir_spec s = read_one("100/s initial=0");
    CHECK_EQ(s.initial, 0);
    CHECK_EQ(s.initial_given, 1);
    s = read_one("100/s burst=20 initial=20");
    CHECK_EQ(s.initial, 20);
    CHECK_EQ(s.initial_given, 0);
    s = read_one("5/s algo=smooth initial=0");
    CHECK_EQ(s.initial_given, 0);
    s = read_one("5/s algo=smooth initial=1");
    CHECK_EQ(s.initial, 1);
    CHECK_EQ(s.initial_given, 1);
}

/* ---- EngineBlock ------------------------------------------------------------------------------ */

TEST(engineblock_text_has_a_verb_that_is_not_printed)
{
    static const struct {
        const char *text;
        int64_t count, ratio_ppm;
        int32_t verb;
    } texts[] = {
        {"523", 523, 1100000, WEIR_VERB_NONE},
        {"12345,1.3", 12345, 1300000, WEIR_VERB_NONE},
        {"12345,1.4,configure", 12345, 1400000, WEIR_VERB_CONFIGURE},
        {"12345,1.4,ReStart", 12345, 1400000, WEIR_VERB_RESTART},
        {"12345;1.4:start", 12345, 1400000, WEIR_VERB_START},
        {" 12k , 1.4 , start ", 12000, 1400000, WEIR_VERB_START},
        {"cyclerate=12000", 12000, 1100000, WEIR_VERB_NONE},
        {"cyclerate=2M,500", 2000000, 500000000, WEIR_VERB_NONE},
        {"12,500", 12, 500000000, WEIR_VERB_NONE}, /* here nobody can mean 12500 */
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct weir_spec spec = {0};
        struct weir_error err = {.code = -1};
        if (!CHECK(weir_spec_from_engineblock(texts[i].text, &spec, &err)))
            printf("#   %s\n", err.text);
        CHECK_EQ(err.code, 0);
        CHECK_EQ(spec.algo, WEIR_HYBRID);
        CHECK_EQ(spec.count, texts[i].count);
        CHECK_EQ(spec.period_ns, WEIR_SEC);
        CHECK_EQ(spec.ratio_ppm, texts[i].ratio_ppm);
        CHECK_EQ(spec.verb, texts[i].verb);
        CHECK(strstr(format_one(&spec), "start") == NULL);
    }
    CHECK_EQ(read_one("12000,1.1,configure").verb, WEIR_VERB_CONFIGURE);
    CHECK_EQ(read_one("12k/s algo=hybrid ratio=1.1").verb, WEIR_VERB_NONE);
}

TEST(engineblock_mistakes_leave_the_spec_alone)
{
    static const char *const texts[] = {
        "", "fast", "100/s", "12000,0.5", "12000,1.1,stop", "12000,1.1,start,x", "0"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct weir_spec spec = {.count = 4711};
        struct weir_error err = {0};
        CHECK(!weir_spec_from_engineblock(texts[i], &spec, &err));
        CHECK_EQ(err.code, EINVAL);
        CHECK(err.text[0] != '\0');
        CHECK_EQ(spec.count, 4711);
        CHECK(!weir_spec_from_engineblock(texts[i], &spec, NULL));
    }
    struct weir_error err = {0};
    struct weir_spec spec;
    CHECK(!weir_spec_from_engineblock(NULL, &spec, &err));
    CHECK(err.text[0] != '\0');
    CHECK(!weir_spec_from_engineblock("12000", NULL, &err));
}

/* ---- bounds: the last value that passes and the first that does not --------------------------- */

static const struct {
    const char *inside, *outside;
    int column; /* of the fault */
} bounds[] = {
    {"1000000000G/200d", "1000000000000000001/200d", 1},
    {"1000000000G/200d algo=fixed-window", "1000000001G/200d algo=fixed-window", 1},
    {"1/ns", "1/0ns", 3},
    {"1/36525d algo=fixed-window", "1/36525d1ns algo=fixed-window", 3},
    {"64/ns", "65/ns", 1},
    {"64G/s algo=sliding-window", "64000000001/s algo=sliding-window", 1},
    {"1/s burst=1", "1/s burst=0", 11},
    {"1/s burst=2305843009", "1/s burst=2305843010", 11},
    {"1/s burst=2305843009 algo=step", "1/s burst=2305843010 algo=step", 11},
    {"1/s burst=2305843009 algo=smooth", "1/s burst=2305843010 algo=smooth", 11},
    {"1/ns burst=1000000000G", "1/ns burst=1000000000000000001", 12},
    {"2/2305843009213693950ns", "2/2305843009213693951ns", 3}, /* a burst of 2 */
    {"1/2305843009213693951ns algo=interval", "1/2305843009213693952ns algo=interval", 3},
    {"1/2305843009213693951ns algo=smooth", "1/2305843009213693952ns algo=smooth", 3},
    {"5/s initial=5", "5/s initial=6", 13},
    {"5/s burst=7 initial=7 algo=smooth", "5/s burst=7 initial=8 algo=smooth", 21},
    {"3/2s initial=1 algo=smooth", "3/2s initial=2 algo=smooth", 14},
    {"1/s queue=1 algo=leaky-bucket", "1/s queue=0 algo=leaky-bucket", 11},
    {"1/s queue=2305843009 algo=leaky-bucket", "1/s queue=2305843010 algo=leaky-bucket", 11},
    {"1/ns queue=1000000000G algo=leaky-bucket", "1/ns queue=1000000001G algo=leaky-bucket", 12},
    {"1/s age=87660h algo=leaky-bucket", "1/s age=87660h1ns algo=leaky-bucket", 9},
    {"1/s timeout=87660h", "1/s timeout=87660h1ns", 13},
    {"1/h warmup=1ns algo=warmup", "1/h warmup=0ns algo=warmup", 12},
    {"1/h warmup=87660h algo=warmup", "1/h warmup=87660h1ns algo=warmup", 12},
    {"1/s cold=1 warmup=1s algo=warmup", "1/s cold=0.999999 warmup=1s algo=warmup", 10},
    {"1/s cold=1000 warmup=1s algo=warmup", "1/s cold=1000.000001 warmup=1s algo=warmup", 10},
    {"1/ns warmup=4503599627370495ns algo=warmup", "1/ns warmup=4503599627370496ns algo=warmup", 13},
    {"1/ns warmup=2251799813685247ns shape=below algo=warmup",
     "1/ns warmup=2251799813685248ns shape=below algo=warmup", 13},
    {"1/2305843009213693951ns cold=1 warmup=1s algo=warmup",
     "1/2305843009213693951ns cold=1.000001 warmup=1s algo=warmup", 30},
    {"1/s ratio=1 algo=hybrid", "1/s ratio=0.999999 algo=hybrid", 11},
    {"1/s ratio=1000 algo=hybrid", "1/s ratio=1000.000001 algo=hybrid", 11},
    {"3/s pool=333333334ns algo=hybrid", "3/s pool=333333333ns algo=hybrid", 10},
    {"1/s pool=87660h ratio=1 algo=hybrid", "1/s pool=87660h1ns ratio=1 algo=hybrid", 10},
    {"64/ns pool=36028797018963967ns ratio=1 algo=hybrid",
     "64/ns pool=36028797018963968ns ratio=1 algo=hybrid", 12},
    {"1/87660h ratio=1 algo=hybrid", "1/87660h1ns ratio=1 algo=hybrid", 3},
    {"1/26687h59m ratio=24 algo=hybrid", "1/26689h ratio=24 algo=hybrid", 3},
    {"10000/s algo=sliding-log", "10001/s algo=sliding-log", 1},
    {"0.123456789/s", "0.1234567891/s", 12},
    {"1.000000001/3s", "1.000000001/4s", 1}, /* 3 or 4 thousand million seconds */
    {"1/s name=123456789012345678901234567890123456789012345678901234567890123",
     "1/s name=1234567890123456789012345678901234567890123456789012345678901234", 10},
};

TEST(bounds_hold_on_both_sides)
{
    for (size_t i = 0; i < COUNT_OF(bounds); i++) {
        struct weir_spec spec;
        struct weir_error err;
        bool right = CHECK_EQ(weir_spec_parse(bounds[i].inside, &spec, 1, &err), 1);
        if (!right)
            printf("#   %s\n", err.text);
        right = CHECK_EQ(weir_spec_parse(bounds[i].outside, &spec, 1, &err), 0);
        right = CHECK_EQ(err.column, bounds[i].column) && right;
        if (!right)
            printf("#   from \"%s\": %s\n", bounds[i].outside, err.text);
    }
}

/* A list of `count` limits, `len` bytes long. */
static const char *long_list(size_t count, size_t len)
{
    static char text[SPEC_TEXT_MAX + 8];
    size_t at = 0;
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s1/s", i ? "," : "");
    memset(text + at, ' ', len - at);
    text[len] = '\0';
    return text;
}

TEST(lists_and_texts_have_an_end)
{
    struct weir_spec specs[WEIR_LIMITS_MAX + 1];
    struct weir_error err;
    CHECK_EQ(weir_spec_parse(long_list(16, 100), specs, 17, &err), 16);
    CHECK_EQ(weir_spec_parse(long_list(17, 100), specs, 17, &err), 0);
    CHECK_EQ(err.column, 65);
    CHECK(strstr(err.text, "at most 16 limits may stand here") != NULL);
    CHECK_EQ(weir_spec_parse(long_list(2, 20), specs, 2, &err), 2);
    CHECK_EQ(weir_spec_parse(long_list(3, 20), specs, 2, &err), 0);
    CHECK_EQ(err.column, 9);
    CHECK_EQ(weir_spec_parse(long_list(1, SPEC_TEXT_MAX), specs, 2, &err), 1);
    CHECK_EQ(weir_spec_parse(long_list(1, SPEC_TEXT_MAX + 1), specs, 2, &err), 0);
    CHECK_EQ(err.column, 0);
    CHECK(strstr(err.text, "longer than 4096 bytes") != NULL);
}

TEST(nothing_to_read_or_nowhere_to_put_it)
{
    struct weir_spec spec;
    struct weir_error err;
    CHECK_EQ(weir_spec_parse(NULL, &spec, 1, &err), 0);
    CHECK_STR(err.text, "there is no text; write a limit such as 100/s");
    CHECK_EQ(err.code, EINVAL);
    CHECK_EQ(weir_spec_parse("1/s", &spec, 0, &err), 0);
    CHECK_STR(err.text, "1/s: there is no room for the limits that are read (capacity 0)");
    CHECK_EQ(weir_spec_parse("1/s", NULL, 1, &err), 0);
    CHECK_EQ(weir_spec_parse("1/s, 1/q", NULL, 0, NULL), 0);
    CHECK_EQ(weir_spec_parse(NULL, NULL, 0, NULL), 0);
}

TEST(specs_are_filled_only_on_success)
{
    struct weir_spec specs[2] = {{.count = 4711}, {.count = 4712}};
    struct weir_error err = {0};
    CHECK_EQ(weir_spec_parse("100/s, 5/fortnight", specs, 2, &err), 0);
    CHECK_EQ(specs[0].count, 4711);
    CHECK_EQ(specs[1].count, 4712);
    CHECK_EQ(weir_spec_parse("100/s", specs, 2, &err), 1);
    CHECK_EQ(err.code, 0);
    CHECK_EQ(err.column, 0);
    CHECK_STR(err.text, "");
    CHECK_EQ(specs[1].count, 4712);
}

/* ---- structs ---------------------------------------------------------------------------------- */

TEST(a_struct_with_zeros_means_the_defaults)
{
    CHECK_STR(format_one(&(struct weir_spec){.count = 100, .period_ns = WEIR_SEC}), "100/s");
    CHECK_STR(format_one(&(struct weir_spec){.count = 100, .period_ns = WEIR_SEC, .burst = 20}),
              "100/s burst=20");
    CHECK_STR(format_one(&(struct weir_spec){.count = 5, .period_ns = WEIR_SEC, .initial_given = 1}),
              "5/s initial=0");
    CHECK_STR(format_one(&(struct weir_spec){.count = 5, .period_ns = WEIR_SEC, .initial = 2}),
              "5/s initial=2");
    CHECK_STR(format_one(&(struct weir_spec){.algo = WEIR_BLOCKED, .count = 5, .period_ns = 7}), "blocked");
    CHECK_STR(format_one(&(struct weir_spec){.algo = WEIR_HYBRID, .count = 9, .period_ns = WEIR_SEC}),
              "9/s algo=hybrid ratio=1.1");
}

static double free_of_charge(void *arg, double stored, double n)
{
    (void)arg, (void)stored, (void)n;
    return 0;
}

TEST(a_struct_is_checked_as_a_text_is)
{
    const struct weir_spec good = {.count = 100, .period_ns = WEIR_SEC};
    const struct weir_spec warm = {.algo = WEIR_WARMUP, .count = 1, .period_ns = 1, .warmup_ns = 1};
    struct weir_spec spec;
    int dummy;
    static const struct {
        enum spec_field field;
        size_t offset, size;
        int64_t value;
    } faults[] = {
        {FIELD_ALGO, offsetof(struct weir_spec, algo), 4, -1},
        {FIELD_ALGO, offsetof(struct weir_spec, algo), 4, WEIR_QUOTA + 1},
        {FIELD_SHAPE, offsetof(struct weir_spec, shape), 4, 1},
        {FIELD_REFUSED, offsetof(struct weir_spec, refused), 4, 1},
        {FIELD_FILL, offsetof(struct weir_spec, fill), 4, 1},
        {FIELD_STRICT, offsetof(struct weir_spec, strict), 4, 1},
        {FIELD_NONE, offsetof(struct weir_spec, verb), 4, -1},
        {FIELD_NONE, offsetof(struct weir_spec, verb), 4, WEIR_VERB_RESTART + 1},
        {FIELD_NONE, offsetof(struct weir_spec, reserved), 4, 1},
        {FIELD_NONE, offsetof(struct weir_spec, spare) + 40, 8, 1},
        {FIELD_COUNT, offsetof(struct weir_spec, count), 8, 0},
        {FIELD_COUNT, offsetof(struct weir_spec, count), 8, -1},
        {FIELD_COUNT, offsetof(struct weir_spec, count), 8, INT64_MIN},
        {FIELD_PERIOD, offsetof(struct weir_spec, period_ns), 8, 0},
        {FIELD_PERIOD, offsetof(struct weir_spec, period_ns), 8, INT64_MIN},
        {FIELD_PERIOD, offsetof(struct weir_spec, period_ns), 8, INT64_MAX},
        {FIELD_BURST, offsetof(struct weir_spec, burst), 8, -1},
        {FIELD_BURST, offsetof(struct weir_spec, burst), 8, INT64_MAX},
        {FIELD_INITIAL, offsetof(struct weir_spec, initial), 8, -1},
        {FIELD_INITIAL, offsetof(struct weir_spec, initial), 8, 101},
        {FIELD_TIMEOUT, offsetof(struct weir_spec, timeout_ns), 8, -1},
        {FIELD_TIMEOUT, offsetof(struct weir_spec, timeout_ns), 8, INT64_MAX},
        {FIELD_WARMUP, offsetof(struct weir_spec, warmup_ns), 8, 1},
        {FIELD_COLD, offsetof(struct weir_spec, cold_ppm), 8, 3000000},
        {FIELD_RATIO, offsetof(struct weir_spec, ratio_ppm), 8, 1100000},
        {FIELD_POOL, offsetof(struct weir_spec, pool_ns), 8, 1000000000},
        {FIELD_QUEUE, offsetof(struct weir_spec, queue), 8, 1},
        {FIELD_AGE, offsetof(struct weir_spec, age_ns), 8, 1},
    };
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        struct spec_fault fault = {.text = ""};
        int32_t narrow = (int32_t)faults[i].value;
        struct weir_spec before;
        spec = good;
        if (faults[i].size == sizeof narrow)
            memcpy((char *)&spec + faults[i].offset, &narrow, sizeof narrow);
        else
            memcpy((char *)&spec + faults[i].offset, &faults[i].value, sizeof faults[i].value);
        before = spec;
        if (!CHECK(!weir_spec_complete(&spec, &fault)) || !CHECK_EQ(fault.field, faults[i].field) ||
            !CHECK(fault.text[0] != '\0'))
            printf("#   fault %zu: %s\n", i, fault.text);
        CHECK(memcmp(&spec, &before, sizeof spec) == 0);
        CHECK_EQ(weir_spec_format(&before, 1, NULL, 0), 0);
    }

    struct spec_fault fault;
    spec = warm;
    CHECK(weir_spec_complete(&spec, &fault));
    spec.own = free_of_charge;
    CHECK(!weir_spec_complete(&spec, &fault));
    spec.shape = WEIR_SHAPE_OWN;
    CHECK(weir_spec_complete(&spec, &fault));
    CHECK_EQ(weir_spec_format(&spec, 1, NULL, 0), 0); /* no text can hold a function */
    spec.own = NULL;
    CHECK(!weir_spec_complete(&spec, &fault));
    spec = warm;
    spec.own_arg = &dummy;
    CHECK(!weir_spec_complete(&spec, &fault));
    spec = warm;
    spec.shape = 3;
    CHECK(!weir_spec_complete(&spec, &fault));
}

TEST(names_in_a_struct_are_checked)
{
    static const char *const bad[] = {"a b", "a,b", "a\nb", "\xFF", "a\xC2\xA0z", "\xE2\x80\xAE"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct weir_spec spec = {.count = 1, .period_ns = 1};
        struct spec_fault fault;
        snprintf(spec.name, sizeof spec.name, "%s", bad[i]);
        CHECK(!weir_spec_complete(&spec, &fault));
        CHECK_EQ(fault.field, FIELD_NAME);
    }
    struct weir_spec spec = {.count = 1, .period_ns = 1};
    struct spec_fault fault;
    memset(spec.name, 'x', sizeof spec.name); /* no NUL */
    CHECK(!weir_spec_complete(&spec, &fault));
    memcpy(spec.name, "api\0rest", 9);
    CHECK(weir_spec_complete(&spec, &fault));
    CHECK_EQ(spec.name[4], 0); /* equal names are equal bytes */
    CHECK_EQ(spec.name[WEIR_NAME_MAX], 0);
}

/* ---- format ----------------------------------------------------------------------------------- */

TEST(format_counts_as_snprintf_does)
{
    struct weir_spec specs[2];
    char text[64];
    CHECK_EQ(weir_spec_parse("100/s burst=20, 5/m", specs, 2, NULL), 2);
    CHECK_EQ(weir_spec_format(specs, 2, NULL, 0), 19);
    CHECK_EQ(weir_spec_format(specs, 2, text, 20), 19);
    CHECK_STR(text, "100/s burst=20, 5/m");
    CHECK_EQ(weir_spec_format(specs, 2, text, 19), 19);
    CHECK_STR(text, "100/s burst=20, 5/");
    CHECK_EQ(weir_spec_format(specs, 2, text, 7), 19);
    CHECK_STR(text, "100/s ");
    CHECK_EQ(weir_spec_format(specs, 2, text, 1), 19);
    CHECK_STR(text, "");
    CHECK_EQ(weir_spec_format(specs, 0, text, sizeof text), 0);
    CHECK_EQ(weir_spec_format(NULL, 1, text, sizeof text), 0);
    specs[1].burst = -1;
    text[0] = 'x';
    CHECK_EQ(weir_spec_format(specs, 2, text, sizeof text), 0);
    CHECK_STR(text, "");
}

TEST(the_longest_list_fits_into_a_text)
{
    struct weir_spec specs[WEIR_LIMITS_MAX + 1];
    struct weir_spec longest = {.algo = WEIR_LEAKY_BUCKET,
                                .count = 999999999999999999,
                                .period_ns = 3155759999999999999,
                                .queue = 100000000000000001,
                                .age_ns = 315575999999999999,
                                .timeout_ns = 315575999999999999};
    char text[SPEC_TEXT_MAX + 1];
    memset(longest.name, 'n', WEIR_NAME_MAX);
    for (size_t i = 0; i <= WEIR_LIMITS_MAX; i++)
        specs[i] = longest, specs[i].name[0] = (char)('a' + i); /* each has its own */
    size_t len = weir_spec_format(specs, WEIR_LIMITS_MAX, text, sizeof text);
    CHECK(len > 3000);
    CHECK(len <= SPEC_TEXT_MAX);
    CHECK_EQ(weir_spec_parse(text, specs, WEIR_LIMITS_MAX, NULL), WEIR_LIMITS_MAX);
    CHECK_EQ(weir_spec_format(specs, WEIR_LIMITS_MAX + 1, text, sizeof text), 0);
}

TEST(a_name_is_the_name_of_one_limit)
{
    struct weir_spec specs[3] = {{.count = 1, .period_ns = 1, .name = "x"},
                                 {.count = 1, .period_ns = 1, .name = ""},
                                 {.count = 1, .period_ns = 2, .name = "x"}};
    struct weir_error err;
    char text[64];
    CHECK(!weir_policy_from(specs, 3, &err));
    CHECK_STR(err.text, "two limits are called 'x'; give each its own name");
    CHECK_EQ(err.code, EINVAL);
    CHECK_EQ(err.column, 0);
    CHECK_EQ(weir_spec_format(specs, 3, text, sizeof text), 0); /* it could not be read again */

    specs[2].name[0] = 'X';
    struct weir_policy *policy = weir_policy_from(specs, 3, &err);
    CHECK(policy != NULL);
    weir_policy_free(policy);
    specs[0].name[0] = specs[2].name[0] = '\0'; /* those without a name are not alike */
    policy = weir_policy_from(specs, 3, &err);
    CHECK(policy != NULL);
    weir_policy_free(policy);
}

TEST(counts_and_times_are_written_alone)
{
    static const struct {
        int64_t value;
        const char *count, *time;
    } numbers[] = {
        {0, "0", "0s"},
        {1, "1", "1ns"},
        {999, "999", "999ns"},
        {1000, "1k", "1us"},
        {1001, "1001", "1001ns"},
        {WEIR_SEC, "1G", "1s"},
        {1000 * WEIR_SEC, "1000G", "1000s"},
        {90 * 60 * WEIR_SEC, "5400G", "90m"},
        {100 * 3600 * WEIR_SEC, "360000G", "100h"}, /* 4d4h is no shorter */
        {7 * 86400 * WEIR_SEC, "604800G", "1w"},
        {INT64_MAX, "9223372036854775807", "9223372036854775807ns"},
        {-1, "", ""},
    };
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        char text[64];
        CHECK_EQ(weir_spec_format_count(numbers[i].value, text, sizeof text), strlen(numbers[i].count));
        CHECK_STR(text, numbers[i].count);
        CHECK_EQ(weir_spec_format_period(numbers[i].value, text, sizeof text), strlen(numbers[i].time));
        CHECK_STR(text, numbers[i].time);
    }
}

TEST(times_are_read_alone)
{
    static const struct {
        const char *text;
        int64_t time_ns; /* -1: refused */
    } times[] = {
        {"0", 0},
        {"0s", 0},
        {"250ms", 250 * WEIR_MS},
        {"1h30m", 5400 * WEIR_SEC},
        {" 5 s ", 5 * WEIR_SEC},
        {"1.5s", 1500 * WEIR_MS},
        {"36525d", SPEC_PERIOD_MAX_NS},
        {"36525d1ns", -1},
        {"5", -1},
        {"s", -1},
        {"", -1},
        {"00", -1},
        {"5s,", -1},
        {"5s burst=2", -1},
        {"1month", -1},
        {"-5s", -1},
        {"5 5s", -1},
    };
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        struct spec_fault fault = {.text = ""};
        int64_t time_ns = -1;
        CHECK_EQ(weir_spec_read_period(times[i].text, &time_ns, &fault), times[i].time_ns >= 0);
        if (!CHECK_EQ(time_ns, times[i].time_ns) || !CHECK_EQ(fault.text[0] != '\0', times[i].time_ns < 0))
            printf("#   from \"%s\": %s\n", times[i].text, fault.text);
    }
}

TEST(algorithms_have_names)
{
    CHECK_STR(weir_algo_name(WEIR_TOKEN_BUCKET), "token-bucket");
    CHECK_STR(weir_algo_name(WEIR_STEP), "step");
    CHECK_STR(weir_algo_name(WEIR_UNLIMITED), "unlimited");
    CHECK_STR(weir_algo_name(WEIR_BLOCKED), "blocked");
    CHECK_STR(weir_algo_name(WEIR_QUOTA), "quota");
    CHECK_STR(weir_algo_name(99), "unknown");
}
