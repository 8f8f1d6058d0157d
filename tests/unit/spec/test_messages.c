/* SPDX-License-Identifier: MIT */
/*
 * What is said, and where, about a text that is no limit: every kind of mistake has a sentence that tells
 * what to write instead. The library knows its own language; the command and the server have a phrasebook,
 * too.
 */
#include "check.h"
#include "phrasebook/phrasebook.h"
#include "spec/read.h"
#include "spec/spec.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static const struct {
    const char *text;
    int column;
    const char *message;
} refused[] = {
    /* the messages that the design shows */
    {"100", 4, "per what? write 100/s, 100/m, 100/h or 100/d"},
    {"5/m brust=10", 5, "unknown option 'brust'; did you mean burst?"},
    {"100/fortnight", 5, "'fortnight' is not a period; use ns us ms s m h d w, such as 250ms, 10s or h"},
    {"5/m algo=bucket", 10, "unknown algorithm 'bucket'; did you mean token-bucket?"},
    {"0/s", 1, "0 lets nothing pass; write blocked"},
    {"100/s, 50", 10, "per what? write 50/s, 50/m, 50/h or 50/d"},
    {"100/s burst 20", 7, "options are written name=value: burst=20"},
    {"100/s burst=0", 13, "burst is the most that may pass at once, so at least 1 (without it: 100)"},
    {"2m/s", 2, "m means minutes; for 2 million write 2M"},
    {"100/s ratio=1.1", 7, "token-bucket has no ratio; it belongs to hybrid; add algo=hybrid"},
    {"1/month algo=sliding-log", 1, "a month has no fixed length; only algo=quota counts by the calendar"},
    {"50k/s algo=sliding-log", 1,
     "sliding-log keeps 50 000 times for every key (400 kB), at most 10 000; sliding-window keeps two "
     "numbers: "
     "write algo=sliding-window"},
    /* counts */
    {"12000", 6, "per what? write 12000/s, 12000/m, 12000/h or 12000/d"},
    {"12\nk", 5, "per what? write 12 k/s, 12 k/m, 12 k/h or 12 k/d"},
    {"100 burst=20", 4, "per what? write 100/s, 100/m, 100/h or 100/d"},
    {"100/", 4, "per what? write 100/s, 100/m, 100/h or 100/d"},
    {"100 per , 5/s", 4, "per what? write 100/s, 100/m, 100/h or 100/d"},
    {"0", 1, "0 lets nothing pass; write blocked"},
    {"0.00k/s", 1, "0 lets nothing pass; write blocked"},
    {"2.5m/s", 4, "m means minutes; for 2.5 million write 2.5M"},
    {"100 s", 5, "a / is missing; write 100/s"},
    {"100B/s", 4, "B stands only behind a multiple, as in 2MiB; write 100/s"},
    {"100kb/s", 4, "'kb' is no multiple; use k M G Ki Mi Gi, such as 12k, 3M or 2MiB, and then /s"},
    {"1e6/s", 2, "'e6' is no multiple; use k M G Ki Mi Gi, such as 12k, 3M or 2MiB, and then /s"},
    {"100%/s", 4, "after the count comes / and a period: 100/s"},
    {"5./s", 3, "a digit is missing after the point"},
    {"-5/s", 1, "a count begins with a digit and has no sign: 100 or 0.5"},
    {"\"100/s\"", 1, "a limit has no quotes: 100/s burst=20"},
    {".5/s", 1, "a count begins with a digit and has no sign: 100 or 0.5"},
    {"1,000/s", 2, "digits are not grouped; write 1000/s"},
    {"1.0000000001/s", 12, "at most 9 digits may follow the point"},
    {"50 in-flight", 4, "'in-flight' is not yet supported: weir limits rates, such as 50/s"},
    /* periods */
    {"100/M", 5, "M means million; for minutes write m"},
    {"100/S", 5, "'S' is not a period; did you mean s?"},
    {"100/MS", 5, "'MS' is not a period; did you mean ms?"},
    {"100/minutex", 5, "'minutex' is not a period; did you mean minute?"},
    {"100/minuets", 5, "'minuets' is not a period; did you mean minutes?"},
    {"100/10 milliseconds", 8, "'milliseconds' is not a period; did you mean ms?"},
    {"100/60", 7, "60 what? write 60s, 60m, 60h or 60d"},
    {"100/1h30", 9, "30 what? write 30s, 30m, 30h or 30d"},
    {"100/1.s", 7, "a digit is missing after the point"},
    {"100/0.5ns", 5, "a time is a whole number of nanoseconds"},
    {"100/2months", 6, "a month has no fixed length; write days, such as 60d"},
    {"100/1 year", 7, "a year has no fixed length; write days, such as 365d"},
    {"100/1.5 years", 9, "a year has no fixed length; write days, such as 365d"},
    {"1/200y", 6, "a time is at most 36525d (100 years)"},
    {"1/100y", 6, "a year has no fixed length; write days, such as 36525d"},
    {"1/1218mo", 7, "a time is at most 36525d (100 years)"},
    {"1/1217mo", 7, "a month has no fixed length; write days, such as 36510d"},
    {"1/y", 3, "'y' is not a period; did you mean 365d?"},
    {"30/60 burst=16", 6, "60 what? write 60s, 60m, 60h or 60d"},
    {"100/10s!", 8, "the period ends here; a space and options such as burst=20 may follow"},
    /* options */
    {"100/s burst = 20", 12, "no spaces around =; write burst=20"},
    {"100/s burst =20", 12, "no spaces around =; write burst=20"},
    {"100/s burst= 20", 13, "no spaces around =; write burst=20"},
    {"100/s burst=", 13, "a value is missing; write burst=20"},
    {"100/s burst= algo=smooth", 13, "a value is missing; write burst=20"},
    {"100/s timeout", 7, "options are written name=value, such as timeout=5s"},
    {"100/s =20", 7, "options are written name=value, such as burst=20, not '=20'"},
    {"100/s 20", 7, "options are written name=value, such as burst=20, not '20'"},
    {"100/s burst=1 BURST=2", 15, "burst is written twice; leave one of them out"},
    {"100/s algo=smooth algo=step", 19, "algo is written twice; leave one of them out"},
    {"100/s burst=2.5", 13, "burst is a whole number of units, such as burst=20"},
    {"100/s burst=-1", 13, "burst is a whole number of units, such as burst=20"},
    {"100/s burst=5s", 13, "burst is a whole number of units, such as burst=20"},
    {"100/s burst=2m", 14, "m means minutes; for 2 million write 2M"},
    {"1.5/s burst=0", 13, "burst is the most that may pass at once, so at least 1 (without it: 1)"},
    {"5/s algo=smooth burst=0", 23,
     "burst is the most that may pass at once, so at least 1 (without it: 1 s of rate)"},
    {"100/s initial=101", 15, "initial is what is there at the start, from 0 up to burst (here: 100)"},
    {"5/s initial=6 algo=smooth", 13,
     "initial is what is there at the start, from 0 up to burst (here: 1 s of rate)"},
    {"100/s timeout=5", 16, "5 what? write 5s, 5m, 5h or 5d"},
    {"100/s timeout=soon", 15, "timeout is a time, such as timeout=5s"},
    {"100/s timeout=1month", 16, "a month has no fixed length; write days, such as 30d"},
    {"12k/s algo=hybrid ratio=110%", 25, "ratio is a number, such as ratio=1.1"},
    {"12k/s algo=hybrid ratio=1.1234567", 33, "at most 6 digits may follow the point"},
    {"12k/s algo=hybrid fill=me", 24, "fill is callers or thread, not 'me'"},
    {"5/s algo=step strict=yes", 22, "strict is false or true, not 'yes'"},
    {"5/s algo=step refused=maybe", 23, "refused is ignore, count or drain, not 'maybe'"},
    {"5/s algo=step refused=count", 23,
     "step has no refused=count; it belongs to sliding-log, sliding-window and fixed-window; leave it out or "
     "write algo=sliding-log"},
    {"5/s refused=drain algo=fixed-window", 13,
     "fixed-window has no refused=drain; it belongs to step; leave it out or write algo=step"},
    {"5/s algo=interval burst=2", 19,
     "interval has no burst; it belongs to token-bucket, smooth and step; leave it out or write "
     "algo=token-bucket"},
    {"5/s queue=0", 5, "token-bucket has no queue; it belongs to leaky-bucket; add algo=leaky-bucket"},
    {"5/s algo=hybrid refused=ignore", 17,
     "hybrid has no refused; it belongs to sliding-log, sliding-window, fixed-window and step; leave it out "
     "or "
     "write algo=sliding-log"},
    {"5/s warmup=4s", 5, "token-bucket has no warmup; it belongs to warmup; add algo=warmup"},
    {"5/s algo=gcra warmup=4s", 15,
     "token-bucket has no warmup; it belongs to warmup; leave it out or write algo=warmup"},
    {"100/s name=my limit", 15, "a name has no spaces; write name=my-limit"},
    {"100/s name=api sliding-log", 16, "sliding-log is an algorithm; write algo=sliding-log"},
    {"100/s name=api burst 20", 16, "options are written name=value: burst=20"},
    {"2/s algo=warmup", 10, "how long is the warm-up? write it as warmup=4s"},
    {"2/s algo=warmup warmup=0", 24, "a warm-up of 0 is none; write algo=smooth"},
    {"2/s algo=warmup warmup=1s shape=own", 33,
     "shape=own needs a function, which no text can hold; pass it to weir_policy_from"},
    {"2/s algo=warmup warmup=1s shape=beside", 33, "shape is above or below, not 'beside'"},
    {"10/s algo=leaky-bucket queue=0", 30, "a queue of 0 holds nothing; write algo=interval"},
    {"10/s algo=leaky-bucket age=0", 28,
     "age is the longest wait in the queue, more than 0; leave it out for no bound"},
    {"100/s algo=hybrid pool=1ms", 24,
     "a pool smaller than one op never lets anything pass; write pool=10ms or more"},
    {"100/s name=", 12, "a value is missing; write name=api"},
    {"unlimited burst=2", 11, "unlimited has no burst; only name= may follow it"},
    {"blocked timeout=2s", 9, "blocked has no timeout; only name= may follow it"},
    {"unlimited algo=smooth", 11, "unlimited has no algo; only name= may follow it"},
    {"100/s algo=blocked", 12, "blocked stands alone, without a rate"},
    /* lists */
    {"100/s,", 7, "a limit is missing after the comma"},
    {",100/s", 1, "a limit is missing before the comma"},
    {"100/s, , 5/m", 8, "a limit is missing before the comma"},
    {"100/s 10/m", 7, "a comma is missing between two limits: 100/s, 10k/h"},
    {"100/s;10/h", 6, "limits in a list are joined by commas; write 100/s, 10/h"},
    {"100/s;", 6, "limits in a list are joined by commas: 100/s, 10k/h"},
    {"100/second ; 10 per hour", 12, "limits in a list are joined by commas; write 100/s, 10/h"},
    {"5/m name=x, 5/h, 5/d name=x", 27, "two limits are called 'x'; give each its own name"},
    {"unlimited name=x, blocked name=x", 32, "two limits are called 'x'; give each its own name"},
    {"100/s and 10/m", 7, "'and' is written as a comma: 100/s, 10k/h"},
    {"100/s,burst=20", 7, "the rate comes first, options follow it after a space: 100/s burst=20"},
    {"burst=20 100/s", 1, "the rate comes first, options follow it after a space: 100/s burst=20"},
    /* not yet */
    {"20M/month tz=Europe/Berlin", 5,
     "calendar periods are not yet supported; until then write a fixed one, such as 30d"},
    {"20M per Years algo=quota", 9,
     "calendar periods are not yet supported; until then write a fixed one, such as 365d"},
    {"1/year algo=smooth", 1, "a year has no fixed length; only algo=quota counts by the calendar"},
    {"5/d algo=quota burst=7", 16,
     "quota has no burst; it belongs to token-bucket, smooth and step; leave it out or write "
     "algo=token-bucket"},
    {"5/d refused=count algo=quota", 5,
     "quota has no refused; it belongs to sliding-log, sliding-window, fixed-window and step; leave it out "
     "or "
     "write algo=sliding-log"},
    {"5/d tz=UTC", 5, "'tz' belongs to calendar periods, which are not yet supported"},
    {"5/d anchor=15", 5, "'anchor' belongs to calendar periods, which are not yet supported"},
    /* EngineBlock */
    {"12000,0.9", 7, "a burst ratio below 1.0 would never catch up; write 1.0 or more"},
    {"12k/s algo=hybrid ratio=0.999999", 25,
     "a burst ratio below 1.0 would never catch up; write 1.0 or more"},
    {"12000,1000.5", 7,
     "for 12000 in 1000.5 seconds write 12000/1000.5s; EngineBlock's ratio is at most 1000"},
    {"cyclerate=12000,1000.5", 17, "ratio is at most 1000"},
    {"5,60", 3, "for 5 in 60 seconds write 5/60s; for EngineBlock's ratio write cyclerate=5,60"},
    {"5:60", 3, "for 5 in 60 seconds write 5/60s; for EngineBlock's ratio write cyclerate=5,60"},
    {"100:60", 5, "for 100 in 60 seconds write 100/60s; for EngineBlock's ratio write cyclerate=100,60"},
    {"10;100", 4, "for 10 in 100 seconds write 10/100s; for EngineBlock's ratio write cyclerate=10,100"},
    {"5,10.000001,restart", 3,
     "for 5 in 10.000001 seconds write 5/10.000001s; for EngineBlock's ratio write cyclerate=5,10.000001"},
    {"0,1.1", 1, "0 lets nothing pass; write blocked"},
    {"12000,1.1,stop", 11, "'stop' is no order to a limit: to pause, set the limit to blocked"},
    {"12000,thread", 7,
     "'thread' is no scope of a limit: make one limiter for each thread and leave the word out"},
    {"12000,1.4,activity", 11,
     "'activity' is no scope of a limit: share one limiter by all threads and leave the word out"},
    {"12000,restart", 7, "the burst ratio comes after the rate, before the verb: 12000,1.1,restart"},
    {"12000,1.1,begin", 11, "unknown verb 'begin'; write start, configure or restart"},
    {"12000,1.1,start,2", 16, "EngineBlock's text ends here: rate,ratio,verb such as 12000,1.1,restart"},
    {"12000, 1.1", 6, "per what? write 12000/s, 12000/m, 12000/h or 12000/d"},
    {"12000,1.1,unlimited", 6, "per what? write 12000/s, 12000/m, 12000/h or 12000/d"},
    {"12000,5/s", 6, "per what? write 12000/s, 12000/m, 12000/h or 12000/d"},
    {"12,500", 3,
     "digits are not grouped; write 12500/s, or cyclerate=12,500 if 500 is EngineBlock's burst ratio"},
    {"cyclerate=5m,1.1", 12, "m means minutes; for 5 million write 5M"},
    {"cyclerate=fast", 11, "here begins EngineBlock's rate, a number of ops a second: 12000,1.1"},
    {"cyclerate=100/s", 14, "EngineBlock's text ends here: rate,ratio,verb such as 12000,1.1,restart"},
    {"100/s cyclerate=5", 7,
     "'cyclerate' stands only in front of EngineBlock's whole text: cyclerate=12000,1.1"},
    /* the whole text */
    {"", 1, "the text is empty; write a limit such as 100/s"},
    {" \t\n", 1, "the text is empty; write a limit such as 100/s"},
    {"100/s\xA0", 6, "this byte is not UTF-8; limits are written in plain text"},
    {"100/s name=\xC3", 12, "this byte is not UTF-8; limits are written in plain text"},
    {"100/s name=\xED\xA0\x80", 12, "this byte is not UTF-8; limits are written in plain text"},
    {"100/s\xC2\xA0"
     "burst=2",
     6, "this is a no-break space; write a plain one"},
    {"100/s name=a\x1B[31m", 13, "a control character cannot stand in a limit"},
    {"100/s name=\xE2\x80\xAE"
     "a",
     12, "a control character cannot stand in a limit"},
    {"\xC2\xB5/s", 1,
     "a limit begins with a rate, such as 100/s or 5 per minute, or is unlimited or blocked"},
    {"1/\xC2\xB5s name=\xC3\xBC foo=1", 13,
     "unknown option 'foo'; the options are burst, initial, algo, ratio, pool, fill, warmup, cold, shape, "
     "queue, age, "
     "refused, strict, timeout and name"},
    {"5/m algo=xyzzy", 10,
     "unknown algorithm 'xyzzy'; use token-bucket, sliding-log, sliding-window, fixed-window, quota, "
     "interval, "
     "smooth, "
     "warmup, hybrid, leaky-bucket or step"},
};

TEST(messages_say_where_and_what_to_write)
{
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        struct weir_spec specs[WEIR_LIMITS_MAX];
        struct spec_fault fault;
        int32_t column = -1;
        bool right =
            CHECK_EQ(weir_phrasebook_read(refused[i].text, specs, WEIR_LIMITS_MAX, &column, &fault), 0);
        right = CHECK_STR(fault.text, refused[i].message) && right;
        right = CHECK_EQ(column, refused[i].column) && right;
        if (!right)
            printf("#   from \"%s\"\n", refused[i].text);
    }
}

/* ---- words from elsewhere --------------------------------------------------------------------- */

static const struct {
    const char *text, *part;
} pointers[] = {
    {"100/s capacity=5", "'capacity' is called burst here: burst=5"},
    {"100/s capacity=500k", "burst=500k"},
    {"100/s capacity 500", "burst=500"},
    {"100/s capacity=lots", "burst=20"},
    {"capacity", "burst=20"},
    {"100/s timeoutDuration=250ms", "timeout=250ms"},
    {"qps=250", "250/s"},
    {"limit=250", "250/s"},
    {"limit=many", "50/s"},
    {"100/s CAPACITY=5", "'capacity' is called burst here"},
    {"100/s capcity=5", "unknown option 'capcity'; 'capacity' is called burst here"},
    {"capcity=5", "'capcity' is no limit; 'capacity' is called burst here"},
    {"100/s max=5", "called burst here"},
    {"100/s max_burst=15", "burst=16"},
    {"100/s maxBurst=15", "burst=16"},
    {"100/s allow_burst=5", "called burst here"},
    {"100/s maxBurstSeconds=2", "in units"},
    {"100/s limitForPeriod=50", "count of the rate"},
    {"limitForPeriod=50", "count of the rate"},
    {"100/s limitRefreshPeriod=5s", "the period is part of the rate; write 100/5s"},
    {"limitRefreshPeriod=5s", "period of the rate: 100/5s"},
    {"100/s timeoutDuration=5s", "called timeout here"},
    {"100/s timeout_duration=5s", "called timeout here"},
    {"100/s initialPermits=5", "called initial here"},
    {"100/s permitCapacity=5", "called burst here"},
    {"100/s coldFactor=3", "called cold here"},
    {"100/s warmupPeriod=3s", "called warmup here"},
    {"100/s burstRatio=1.1", "called ratio here"},
    {"100/s requests_per_unit=5", "algo=fixed-window"},
    {"100/s unit=minute", "algo=fixed-window"},
    {"100/s refillGreedy=5", "10/s burst=100"},
    {"100/s refillIntervally=5", "algo=step"},
    {"100/s nodelay", "burst=21"},
    {"100/s cost=5", "n of each take"},
    {"100/s permits=5", "units have no name"},
    {"100 tokens/s", "units have no name"},
    {"100 cells/s", "units have no name"},
    {"10r/s", "units have no name"},
    {"100 qps", "written as a rate"},
    {"100rps", "written as a rate"},
    {"100/s rate=5", "written as a rate"},
    {"100/s cyclerate=5", "EngineBlock"},
    {"100/s tryAcquire", "is a call"},
    {"acquirePermission(1)", "is a call"},
    {"RateLimiter.create(5)", "5/s algo=smooth"},
    {"NewLimiter(10, 100)", "10/s burst=100"},
    {"CL.THROTTLE user123 15 30 60", "30/m burst=16"},
    {"RL.REDUCE key 10 5 REFILL 3", "3/5s burst=10 algo=step"},
    {"none", "unlimited"},
    {"unlimted", "did you mean unlimited?"},
    {"blcoked", "did you mean blocked?"},
    {"100/s sliding-log", "write algo=sliding-log"},
    {"100/s interval=5s", "write algo=interval"},
    {"100/s burstlimit=5", "did you mean burst?"},
    {"100/s brst=5", "did you mean burst?"},
    {"100/s time_out=5", "did you mean timeout?"},
    {"100/s algo=slidinglog", "did you mean sliding-log?"},
    {"100/s algo=window", "did you mean sliding-window?"},
    {"100/s algo=gauva", "did you mean guava?"},
    {"100/s algo=resilience4j", "did you mean token-bucket?"},
    {"100/s algo=nginx", "did you mean leaky-bucket?"},
    {"100/s algo=envoy", "did you mean fixed-window?"},
    {"100/hourly", "did you mean h?"},
    {"100/daily", "did you mean d?"},
};

TEST(words_from_elsewhere_are_known)
{
    for (size_t i = 0; i < COUNT_OF(pointers); i++) {
        struct weir_spec spec;
        struct weir_error err;
        CHECK_EQ(weir_spec_parse(pointers[i].text, &spec, 1, &err), 0);
        weir_phrasebook_explain(pointers[i].text, &err);
        if (!CHECK(strstr(err.text, pointers[i].part) != NULL))
            printf("#   %s\n#   has no \"%s\"\n", err.text, pointers[i].part);
    }
}

/* A function that refused the limits for another reason has said it. */
TEST(the_phrasebook_leaves_other_messages_alone)
{
    struct weir_spec spec;
    struct weir_error err, kept;
    CHECK_EQ(weir_spec_parse("5/m, 5 requests per hour", &spec, 1, &err), 0);
    CHECK(strstr(err.text, "at most 1 limit may stand here") != NULL);
    kept = err;
    weir_phrasebook_explain("5/m, 5 requests per hour", &err);
    CHECK_STR(err.text, kept.text);
    CHECK_EQ(err.column, kept.column);
    weir_phrasebook_explain("5/m", &err); /* a right text, for which there was no memory */
    CHECK_STR(err.text, kept.text);
    weir_phrasebook_explain(NULL, &err);
    weir_phrasebook_explain("capacity=5", NULL);
    CHECK_STR(err.text, kept.text);
}

/* ---- what the library says alone -------------------------------------------------------------- */

static const struct {
    const char *text;
    int column;
    const char *message;
} plain[] = {
    {"10/s capacity=500", 6,
     "unknown option 'capacity'; the options are burst, initial, algo, ratio, pool, fill, warmup, cold, "
     "shape, queue, age, refused, strict, timeout and name"},
    {"RateLimiter.create(5)", 1,
     "a limit begins with a rate, such as 100/s or 5 per minute, or is unlimited or blocked"},
    {"100 qps", 5, "'qps' is no multiple; use k M G Ki Mi Gi, such as 12k, 3M or 2MiB, and then /s"},
    {"5 requests per hour", 3,
     "'requests' is no multiple; use k M G Ki Mi Gi, such as 12k, 3M or 2MiB, and then /s"},
    {"100/s algo=nginx", 12,
     "unknown algorithm 'nginx'; use token-bucket, sliding-log, sliding-window, fixed-window, quota, "
     "interval, smooth, warmup, hybrid, leaky-bucket or step"},
    {"100/s brust=5", 7, "unknown option 'brust'; did you mean burst?"},
    {"5/d tz=UTC", 5, "'tz' belongs to calendar periods, which are not yet supported"},
};

TEST(the_library_knows_its_own_language_alone)
{
    for (size_t i = 0; i < COUNT_OF(plain); i++) {
        struct weir_spec specs[WEIR_LIMITS_MAX];
        struct spec_fault fault;
        int32_t column = -1;
        bool right = CHECK_EQ(weir_spec_read(plain[i].text, specs, WEIR_LIMITS_MAX, &column, &fault), 0);
        right = CHECK_STR(fault.text, plain[i].message) && right;
        right = CHECK_EQ(column, plain[i].column) && right;
        if (!right)
            printf("#   from \"%s\"\n", plain[i].text);
    }
}

/* ---- phrases ---------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    int column;
    const char *lead, *limit; /* the message, and what it ends with: the limit to write */
} phrases[] = {
    /* digits */
    {"1 000/s", 2, "digits are not grouped; write ", "1000/s"},
    {"6 020/m", 2, "digits are not grouped; write ", "6020/m"},
    {"1_000/s", 2, "digits are not grouped; write ", "1000/s"},
    {"1'000/s", 2, "digits are not grouped; write ", "1000/s"},
    {"1,000,000 per hour burst=5", 2, "digits are not grouped; write ", "1000000/h burst=5"},
    {"100 000 000 000 000 000/200d", 4, "digits are not grouped; write ", "100000000000000000/200d"},
    {"1 000", 2, "digits are not grouped; write ", "1000/s"},
    {"5 thousand requests per hour", 3, "a thousand is k; write ", "5k/h"},
    {"2 million a day", 3, "a million is M; write ", "2M/d"},
    /* units */
    {"5 times per hour", 3, "units have no name; write ", "5/h"},
    {"5 requests per hour", 3, "units have no name; write ", "5/h"},
    {"5 requests per hour burst=10, 1/s", 3, "units have no name; write ", "5/h burst=10"},
    {"12 k calls every 90 seconds", 6, "units have no name; write ", "12k/90s"},
    {"100 req/s", 5, "units have no name; write ", "100/s"},
    {"10r/s", 3, "units have no name; write ", "10/s"},
    {"5 req", 3, "units have no name; write 5/s, 5/m, 5/h or ", "5/d"},
    {"10Mbit/s", 4, "units have no name; to count bits write ", "10M/s"},
    {"10 Mbps", 5, "units have no name; to count bits write ", "10M/s"},
    {"100 bytes/s", 5, "units have no name; to count bytes write ", "100/s"},
    {"100rps", 4, "'rps' is written as a rate: ", "100/s"},
    {"100 rpm burst=20", 5, "'rpm' is written as a rate: ", "100/m burst=20"},
    {"10 hz", 4, "'hz' is written as a rate: ", "10/s"},
    {"100 in 1 minute", 5, "'in' is written as /; write ", "100/m"},
    {"5 a day", 3, "'a' is written as /; write ", "5/d"},
    {"5 within 1h30m", 3, "'within' is written as /; write ", "5/1h30m"},
    /* behind the rate */
    {"100/s;burst=20", 6, "options follow after a space: ", "100/s burst=20"},
    {"100/s|burst=20", 6, "options follow after a space: ", "100/s burst=20"},
    {"100/10 seconds; burst=20 name=a", 15, "options follow after a space: ", "100/10s burst=20 name=a"},
    {"100/s window=60s", 7, "the period is part of the rate; write ", "100/60s"},
    {"100/s burst=3 period=1 hour", 15, "the period is part of the rate; write ", "100/h burst=3"},
    {"5/m per ip", 5, "a limit knows no keys, a table has one for each; write ", "5/m"},
    {"5/m burst=10 by ip", 14, "a limit knows no keys, a table has one for each; write ", "5/m burst=10"},
    {"5/m key=ip burst=10", 5, "a limit knows no keys, a table has one for each; write ", "5/m burst=10"},
    {"5/m/ip", 4, "a limit knows no keys, a table has one for each; write ", "5/m"},
    {"5 requests per minute per user", 3,
     "units have no name, and a limit knows no keys, a table has one for each; write ", "5/m"},
    {"10/s burst=20 nodelay", 6, "nginx's nodelay lets one more pass; write ", "10/s burst=21"},
    /* in front of the rate */
    {"max 5/m", 1, "write 5/m; for never more than 5 in any minute write ", "5/m algo=sliding-log"},
    {"at most 5 per minute", 1, "write 5/m; for never more than 5 in any minute write ",
     "5/m algo=sliding-log"},
    {"no more than 5 requests/10s", 1, "write 5/10s; for never more than 5 in any 10s write ",
     "5/10s algo=sliding-log"},
    {"max 50k/s", 1, "write ", "50k/s"},
    {"max 50 concurrent", 8, "'concurrent' is not yet supported: weir limits rates, such as ", "50/s"},
    {"20 concurrent", 4, "'concurrent' is not yet supported: weir limits rates, such as ", "20/s"},
    {"every 10s", 1, "how many? write ", "1/10s"},
    {"@every 10s", 1, "how many? write ", "1/10s"},
    {"once per minute", 1, "write ", "1/m"},
    /* options, calls and commands */
    {"limit=100 period=1s", 1, "count and period are one rate: write ", "100/s"},
    {"limit: 100, window: 1 minute", 1, "count and period are one rate: write ", "100/m"},
    {"rate=10r/s burst=20", 1, "'rate' is written as a rate, first and without a name: ", "10/s burst=20"},
    {"rate=10r/s burst=20 nodelay", 1, "a rate has no name, and nginx's nodelay lets one more pass; write ",
     "10/s burst=21"},
    {"create(2, 4, SECONDS)", 1, "'create' with a warm-up is written ", "2/s algo=warmup warmup=4s"},
    {"RateLimiter.create(2, 400, TimeUnit.MILLISECONDS)", 1,
     "'RateLimiter.create' with a warm-up is written ", "2/s algo=warmup warmup=400ms"},
    {"RateLimiter.create(7)", 1, "'RateLimiter.create' is written 7/s algo=smooth; for most uses plain ",
     "7/s"},
    {"rate.NewLimiter(20, 5)", 1, "'rate.NewLimiter' is written ", "20/s burst=5"},
    {"limitForPeriod(50).limitRefreshPeriod(500ns).timeoutDuration(5s)", 1,
     "count and period are one rate: write ", "50/500ns timeout=5s"},
    {"unit: minute, requests_per_unit: 7", 1, "count and period are one rate: write ",
     "7/m algo=fixed-window"},
    {"100/s burst=1_000", 14, "digits are not grouped; write ", "burst=1000"},
    {"100/s burst=1,000", 14, "digits are not grouped; write ", "burst=1000"},
    {"100/s max_burst=15", 7, "'max_burst' counts one less than burst; write ", "burst=16"},
};

TEST(phrases_are_answered_with_the_limit_to_write)
{
    for (size_t i = 0; i < COUNT_OF(phrases); i++) {
        char message[256], limit[64];
        struct weir_spec specs[WEIR_LIMITS_MAX];
        struct spec_fault fault;
        struct weir_error err;
        int32_t column = -1;
        snprintf(message, sizeof message, "%s%s", phrases[i].lead, phrases[i].limit);
        bool right =
            CHECK_EQ(weir_phrasebook_read(phrases[i].text, specs, WEIR_LIMITS_MAX, &column, &fault), 0);
        right = CHECK_STR(fault.text, message) && right;
        right = CHECK_EQ(column, phrases[i].column) && right;
        bool is_option = phrases[i].limit[0] == 'b';
        snprintf(limit, sizeof limit, "%s%s", is_option ? "100/s " : "", phrases[i].limit);
        if (!CHECK_EQ(weir_spec_parse(limit, specs, 1, &err), 1) || !right)
            printf("#   from \"%s\"\n", phrases[i].text);
    }
}

TEST(a_phrase_does_not_hide_an_earlier_mistake)
{
    static const struct {
        const char *text, *part;
    } texts[] = {
        {"5/m brust=3 key=ip", "'brust'"},
        {"5/m burst=0 per ip", "no keys"}, /* values are judged together, at the end */
        {"100/s burst=1, 500/q", "'q'"},
        {"100/s, 5/q", "'q'"},
        {"1 000 000 000 000 000 000 000/s", "after the count"}, /* more than can be shown */
        {"100/s burst=20k nodelay", "burst=21 here"},           /* as in general */
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct weir_spec specs[2];
        struct weir_error err;
        CHECK_EQ(weir_spec_parse(texts[i].text, specs, 2, &err), 0);
        weir_phrasebook_explain(texts[i].text, &err);
        if (!CHECK(strstr(err.text, texts[i].part) != NULL))
            printf("#   %s\n", err.text);
    }
}

static size_t put_many(char *text, const char *word, int times)
{
    size_t len = strlen(word);
    for (int i = 0; i < times; i++)
        memcpy(text + (size_t)i * len, word, len + 1);
    return len * (size_t)times;
}

/* What is shown of a text is cut; a message has an end, and is whole characters up to it. */
TEST(long_phrases_have_short_answers)
{
    char text[1024], *at = text;
    struct weir_spec spec;
    struct spec_fault fault;
    int32_t column;
    at += put_many(at, "max 5 requests per minute burst=20 name=", 1);
    at += put_many(at, "\xC3\xBC", 30);
    at += put_many(at, " timeout=5s", 5);
    CHECK_EQ(weir_phrasebook_read(text, &spec, 1, &column, &fault), 0);
    CHECK(strstr(fault.text, "write 5/m burst=20 name=") == fault.text);
    CHECK(strstr(fault.text, "...; for never more than 5 in any minute") != NULL);

    at += put_many(at, " timeout=5s", 20); /* nobody wrote that: it gets the plain answer */
    CHECK_EQ(weir_phrasebook_read(text, &spec, 1, &column, &fault), 0);
    CHECK(strstr(fault.text, "write 5/m") == NULL);
    CHECK(fault.text[0] != '\0');
}

TEST(the_error_is_one_finished_line)
{
    struct weir_spec spec;
    struct weir_error err;
    CHECK_EQ(weir_spec_parse("5/m brust=10", &spec, 1, &err), 0);
    CHECK_STR(err.text, "5/m brust=10: column 5: unknown option 'brust'; did you mean burst?");
    CHECK_EQ(err.column, 5);
    CHECK_EQ(err.code, EINVAL);
    CHECK_EQ(weir_spec_parse("5/m\tbrust=\xC3\xBC, 1/s", &spec, 1, &err), 0);
    CHECK_STR(err.text, "5/m brust=\xC3\xBC, 1/s: column 5: unknown option 'brust'; did you mean burst?");
}
