/* SPDX-License-Identifier: MIT */
/*
 * Forgetting changes nothing. A state sees random traffic, is copied, and the copy is replaced by a fresh one
 * at a time at which it may be forgotten; then both see the same traffic. WEIR_IDLE_STORIES says how many
 * such stories are told of each algorithm, WEIR_SEED or -s where to begin.
 *
 *   exact    all verdicts are equal, in every field
 *   hybrid   has a backlog that may be forgotten: the fresh one never holds more than the other
 *   step     has a phase that may be forgotten: at the moment of forgetting all verdicts are equal
 *   all      the law holds over all intervals, however often a state is forgotten
 *   tight    a nanosecond earlier something differs
 */
#include "check.h"
#include "core/idle.h"
#include "core/state.h"
#include "property/scenario.h"

#define LIMITS 3
#define HELD   4
#define WORDS  (STATE_HEADER + LIMITS * 128) /* of the largest state */

struct story {
    struct dice dice;
    struct weir_policy *policy;
    int64_t now, from;
    int64_t kept[WORDS], fresh[WORDS];
    struct weir_reservation held[2][HELD][LIMITS]; /* of the kept one, and of the fresh one */
    struct weir_verdict last;
};

/* ---- policies ---- */

/* A random limit that a table may have, as text. */
static size_t roll_limit(int32_t algo, struct dice *dice, char *text, size_t size)
{
    struct weir_spec spec, complete;
    struct spec_fault fault;
    do {
        spec = scenario_spec(algo, dice);
        spec.initial = spec.initial_given = spec.verb = 0;
        if (spec.shape == WEIR_SHAPE_OWN)
            spec.shape = WEIR_SHAPE_BELOW;
        spec.own = NULL;
        spec.own_arg = NULL;
        if (dice_chance(dice, 20))
            spec.timeout_ns = dice_magnitude(dice, WEIR_SEC);
        complete = spec;
    } while (!weir_spec_complete(&complete, &fault) || (algo == WEIR_SLIDING_LOG && spec.count > 100));
    return weir_spec_format(&spec, 1, text, size);
}

/* What the text says and what the policy says are the same. */
static void check_text(const struct weir_policy *policy, const char *text)
{
    char again[1024];
    (void)weir_policy_text(policy, again, sizeof again);
    CHECK_STR(again, text);
    struct weir_policy *twin = weir_policy_idle(again, NULL);
    if (!CHECK(twin != NULL))
        return;
    CHECK_EQ(twin->words, policy->words);
    CHECK_EQ(twin->timeout_ns, policy->timeout_ns);
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *a = &policy->limits[i], *b = &twin->limits[i];
        CHECK(memcmp(&a->spec, &b->spec, sizeof a->spec) == 0);
        CHECK(memcmp(&a->ticks, &b->ticks, sizeof a->ticks) == 0);
        CHECK(a->full == b->full && a->initial == b->initial && a->burst == b->burst);
    }
    weir_policy_free(twin);
}

static struct weir_policy *roll_policy(const int32_t *algos, size_t count, struct dice *dice)
{
    char text[1024] = "";
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s", i > 0 ? ", " : "");
        len += roll_limit(algos[i], dice, text + len, sizeof text - len);
    }
    struct weir_error err;
    struct weir_policy *policy = weir_policy_idle(text, &err);
    if (!policy) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    check_text(policy, text);
    return policy;
}

/* ---- traffic ---- */

static const struct limit *any_limit(struct story *s)
{
    return &s->policy->limits[dice_between(&s->dice, 0, (int64_t)s->policy->count - 1)];
}

static int64_t unit_ns(const struct limit *limit)
{
    return limit->spec.count > 0 ? max64(limit->spec.period_ns / limit->spec.count, 1) : 1;
}

static int64_t roll_start(struct story *s)
{
    const struct limit *limit = any_limit(s);
    int64_t period = max64(limit->spec.period_ns, 1), some = sat_mul(period, dice_between(&s->dice, 0, 5));
    int64_t starts[] = {0,
                        0,
                        dice_between(&s->dice, 0, 100),
                        some,
                        some,
                        dice_magnitude(&s->dice, WEIR_TIME_MAX),
                        max64(limit->ticks.time_max - some, 0)};
    return min64(DICE_PICK(&s->dice, starts), WEIR_TIME_MAX);
}

static int64_t roll_later(struct story *s)
{
    const struct limit *limit = any_limit(s);
    int64_t period = max64(limit->spec.period_ns, 1), retry = s->last.retry_after_ns;
    int64_t edge = sat_mul(s->now / period + 1, period);
    int64_t times[] = {s->now,
                       s->now,
                       sat_add(s->now, 1),
                       sat_add(s->now, retry == WEIR_FOREVER ? 0 : retry),
                       sat_add(s->now, retry == WEIR_FOREVER ? 0 : max64(retry - 1, 0)),
                       sat_add(s->now, sat_mul(unit_ns(limit), dice_between(&s->dice, 1, 3))),
                       sat_add(s->now, dice_between(&s->dice, 0, sat_mul(period, 2))),
                       edge,
                       edge - 1};
    return min64(DICE_PICK(&s->dice, times), WEIR_TIME_MAX);
}

static int64_t roll_n(struct story *s)
{
    const struct limit *limit = any_limit(s);
    int64_t burst = max64(limit->spec.burst ? limit->spec.burst : limit->spec.count, 1);
    int64_t sizes[] = {1,
                       1,
                       1,
                       dice_between(&s->dice, 1, 5),
                       max64(s->last.remaining, 1),
                       sat_add(s->last.remaining, 1),
                       burst,
                       dice_between(&s->dice, 1, burst),
                       dice_chance(&s->dice, 5) ? dice_magnitude(&s->dice, INT64_MAX) : 1};
    return DICE_PICK(&s->dice, sizes);
}

static int64_t roll_timeout(struct story *s)
{
    const struct limit *limit = any_limit(s);
    int64_t timeouts[] = {0, -1, sat_mul(unit_ns(limit), dice_between(&s->dice, 1, 5)),
                          sat_mul(limit->spec.period_ns, dice_between(&s->dice, 1, 3)), WEIR_FOREVER};
    return DICE_PICK(&s->dice, timeouts);
}

enum act { TAKE, RESERVE, CANCEL, GIVE, CHARGE, RESET };

struct step {
    enum act act;
    int64_t n, timeout_ns;
    size_t place;
};

static struct step roll_step(struct story *s)
{
    int64_t way = dice_between(&s->dice, 0, 99);
    enum act act = way < 55   ? TAKE
                   : way < 75 ? RESERVE
                   : way < 83 ? CANCEL
                   : way < 90 ? GIVE
                   : way < 98 ? CHARGE
                              : RESET;
    return (struct step){act, roll_n(s), roll_timeout(s), (size_t)dice_between(&s->dice, 0, HELD - 1)};
}

/* Does it to one of the two; gives the answer. */
static bool act(struct story *s, int64_t *state, const struct step *step, struct weir_verdict *verdict)
{
    struct weir_reservation *held = s->held[state == s->fresh][step->place];
    *verdict = (struct weir_verdict){0};
    switch (step->act) {
    case TAKE:
        return weir_state_take(s->policy, state, s->now, step->n, verdict);
    case RESERVE:
        return weir_state_reserve(s->policy, state, s->now, step->n, step->timeout_ns, held, verdict);
    case CANCEL:
        return weir_state_cancel(s->policy, state, s->now, held);
    case GIVE:
        weir_state_give(s->policy, state, s->now, step->n);
        break;
    case CHARGE:
        weir_state_charge(s->policy, state, s->now, step->n);
        break;
    case RESET:
        weir_state_reset(s->policy, state, s->now);
        break;
    }
    return true;
}

/* A live change to limits of the same kind. */
static void change(struct story *s, const int32_t *algos, size_t count)
{
    struct weir_policy *next = roll_policy(algos, count, &s->dice);
    weir_state_change(s->policy, s->kept, next, s->fresh, s->now);
    memcpy(s->kept, s->fresh, sizeof s->kept);
    weir_policy_free(s->policy);
    s->policy = next;
}

/* The first part: what there is to forget. */
static void begin(struct story *s, const int32_t *algos, size_t count, uint64_t stream)
{
    memset(s, 0, sizeof *s);
    s->dice = dice_new(check.seed, stream);
    s->policy = roll_policy(algos, count, &s->dice);
    s->now = roll_start(s);
    weir_state_init(s->policy, s->kept, s->now);
    for (int64_t steps = dice_between(&s->dice, 0, 25); steps > 0; steps--) {
        struct step step = roll_step(s);
        s->now = roll_later(s);
        if (dice_chance(&s->dice, 5)) /* the clock steps back */
            s->now = max64(0, s->now - max64(any_limit(s)->spec.period_ns, 1));
        (void)act(s, s->kept, &step, &s->last);
        if (dice_chance(&s->dice, 2))
            change(s, algos, count);
        CHECK(weir_state_valid(s->policy, s->kept));
    }
    s->from = weir_state_idle_from(s->policy, s->kept);
}

/* Goes to a time at which it may be forgotten, and makes the fresh one. */
static bool forget(struct story *s)
{
    if (s->from == WEIR_FOREVER)
        return false;
    int64_t later[] = {0, 0, 1, dice_between(&s->dice, 0, 100), dice_magnitude(&s->dice, WEIR_TIME_MAX)};
    s->now = min64(sat_add(s->from, DICE_PICK(&s->dice, later)), WEIR_TIME_MAX);
    memset(s->fresh, 0, sizeof s->fresh);
    weir_state_init(s->policy, s->fresh, s->now);
    return true;
}

static void end(struct story *s, const char *what)
{
    if (check.faults > 0) {
        char text[1024];
        (void)weir_policy_text(s->policy, text, sizeof text);
        printf("# %s: %s, idle from %" PRId64 ", now %" PRId64 "\n", what, text, s->from, s->now);
    }
    weir_policy_free(s->policy);
}

/* ---- properties ---- */

static bool same_verdict(struct story *s, int64_t n)
{
    struct weir_verdict kept, fresh;
    (void)weir_state_peek(s->policy, s->kept, s->now, n, &kept);
    (void)weir_state_peek(s->policy, s->fresh, s->now, n, &fresh);
    s->last = fresh;
    return memcmp(&kept, &fresh, sizeof kept) == 0;
}

static bool same_verdicts(struct story *s)
{
    return same_verdict(s, 1) && same_verdict(s, roll_n(s)) && same_verdict(s, roll_n(s));
}

static bool has_log(const struct weir_policy *policy)
{
    for (size_t i = 0; i < policy->count; i++)
        if (policy->limits[i].spec.algo == WEIR_SLIDING_LOG)
            return true;
    return false;
}

/* After a cancel a log may count a little more, if it had pushed old times out. */
static void check_exact(struct story *s)
{
    CHECK(same_verdicts(s));
    for (int i = 0; i < 12 && check.faults == 0; i++) {
        struct step step = roll_step(s);
        struct weir_verdict kept, fresh;
        if (step.act == CANCEL && has_log(s->policy))
            continue;
        s->now = roll_later(s);
        CHECK(same_verdicts(s));
        CHECK_EQ(act(s, s->kept, &step, &kept), act(s, s->fresh, &step, &fresh));
        CHECK(memcmp(&kept, &fresh, sizeof kept) == 0);
    }
}

/* What the active pool of a single hybrid holds at a time: a charge of one unit fills it up to then. */
static int64_t active_at(const struct story *s, const int64_t *state, int64_t time)
{
    int64_t copy[WORDS];
    memcpy(copy, state, sizeof copy);
    weir_state_charge(s->policy, copy, time, 1);
    return sat_add(copy[STATE_HEADER + AT_ACTIVE], s->policy->limits[0].ticks.unit);
}

/* Both admit the same, and now and later the fresh one holds no more than the other, but for the one tick
 * that a full pool has not kept. */
static void check_no_more(struct story *s)
{
    for (int i = 0; i < 12 && check.faults == 0; i++) {
        struct step step = roll_step(s);
        struct weir_verdict kept, fresh;
        int64_t later = roll_later(s);
        CHECK(active_at(s, s->fresh, s->now) <= active_at(s, s->kept, s->now) + (i > 0));
        CHECK(active_at(s, s->fresh, later) <= active_at(s, s->kept, later) + 1);
        (void)weir_state_peek(s->policy, s->kept, s->now, step.n, &kept);
        (void)weir_state_peek(s->policy, s->fresh, s->now, step.n, &fresh);
        s->last = fresh;
        if ((step.act == TAKE && fresh.allowed && kept.allowed) || step.act == GIVE || step.act == CHARGE)
            CHECK_EQ(act(s, s->fresh, &step, &fresh), act(s, s->kept, &step, &kept));
        s->now = later;
    }
}

/* As late as this, a fresh one would still change an answer. */
static void check_tight(struct story *s)
{
    if (s->from == 0)
        return;
    s->now = (s->from == WEIR_FOREVER ? s->policy->limits[0].ticks.time_max : s->from) - 1;
    weir_state_init(s->policy, s->fresh, s->now);
    CHECK(!same_verdict(s, 1));
}

static int64_t stories(void)
{
    return check_env("WEIR_IDLE_STORIES", 10000);
}

enum property { EXACT = 1, NO_MORE = 2, AT_ONCE = 4, TIGHT = 8 };

static void tell(const int32_t *algos, size_t count, unsigned properties, uint64_t stream)
{
    struct story s;
    begin(&s, algos, count, stream);
    if (properties & TIGHT)
        check_tight(&s);
    if (forget(&s) && (properties & EXACT))
        check_exact(&s);
    else if (s.from != WEIR_FOREVER && (properties & AT_ONCE))
        CHECK(same_verdicts(&s));
    else if (s.from != WEIR_FOREVER && (properties & NO_MORE))
        check_no_more(&s);
    end(&s, "forgotten");
}

/* ---- the law ---- */

#define LOG_MAX 60

struct admitted {
    int64_t times[LOG_MAX];
    size_t count;
};

/* What may pass within `span`. Costs of a warmup below the line are doubles, and rounded as such. */
static int64_t most(const struct weir_policy *policy, int64_t span)
{
    const struct weir_spec *spec = &policy->limits[0].spec;
    if (spec->algo == WEIR_WARMUP && spec->shape == WEIR_SHAPE_BELOW)
        span += span >> 45;
    return weir_policy_most(policy, 0, span + (spec->algo == WEIR_SLIDING_LOG)); /* a log's end is left out */
}

/* In every interval that begins and ends with a unit. */
static void check_law(const struct weir_policy *policy, const struct admitted *log)
{
    for (size_t first = 0; first < log->count; first++)
        for (size_t last = first; last < log->count; last++)
            if (!CHECK((int64_t)(last - first + 1) <= most(policy, log->times[last] - log->times[first])))
                return;
}

/* One unit at a time, and a fresh state whenever it makes no difference. */
static void tell_law(int32_t algo, uint64_t stream)
{
    struct story s = {.dice = dice_new(check.seed, stream)};
    struct admitted log = {.count = 0};
    s.policy = roll_policy(&algo, 1, &s.dice);
    s.now = roll_start(&s);
    weir_state_init(s.policy, s.kept, s.now);
    while (log.count < LOG_MAX && dice_chance(&s.dice, 98)) {
        int64_t timeout_ns = dice_chance(&s.dice, 80) ? 0 : roll_timeout(&s);
        struct weir_verdict verdict;
        s.now = roll_later(&s);
        s.from = weir_state_idle_from(s.policy, s.kept);
        if (s.from <= s.now && dice_chance(&s.dice, 60))
            weir_state_init(s.policy, s.kept, s.now);
        if (weir_state_reserve(s.policy, s.kept, s.now, 1, timeout_ns, NULL, &verdict))
            log.times[log.count++] = s.now + verdict.wait_ns;
        s.last = verdict;
    }
    check_law(s.policy, &log);
    end(&s, "law");
}

static void prove(int32_t algo, unsigned properties)
{
    for (int64_t i = 0; i < stories() && check.faults == 0; i++) {
        tell(&algo, 1, properties, (uint64_t)i * 32 + (uint64_t)algo);
        tell_law(algo, (uint64_t)i * 32 + (uint64_t)algo + 16);
    }
}

TEST(token_bucket)
{
    prove(WEIR_TOKEN_BUCKET, EXACT | TIGHT);
}

TEST(interval)
{
    prove(WEIR_INTERVAL, EXACT | TIGHT);
}

TEST(leaky_bucket)
{
    prove(WEIR_LEAKY_BUCKET, EXACT | TIGHT);
}

TEST(smooth)
{
    prove(WEIR_SMOOTH, EXACT | TIGHT);
}

TEST(warmup)
{
    prove(WEIR_WARMUP, EXACT);
}

TEST(hybrid)
{
    prove(WEIR_HYBRID, NO_MORE);
}

TEST(fixed_window)
{
    prove(WEIR_FIXED_WINDOW, EXACT);
}

TEST(quota)
{
    prove(WEIR_QUOTA, EXACT);
}

TEST(sliding_window)
{
    prove(WEIR_SLIDING_WINDOW, EXACT);
}

TEST(sliding_log)
{
    prove(WEIR_SLIDING_LOG, EXACT | TIGHT);
}

TEST(step)
{
    prove(WEIR_STEP, AT_ONCE);
}

TEST(unlimited)
{
    prove(WEIR_UNLIMITED, EXACT);
}

TEST(blocked)
{
    prove(WEIR_BLOCKED, EXACT);
}

TEST(several_limits)
{
    static const int32_t exact[] = {WEIR_TOKEN_BUCKET,   WEIR_INTERVAL,    WEIR_LEAKY_BUCKET,
                                    WEIR_SMOOTH,         WEIR_WARMUP,      WEIR_FIXED_WINDOW,
                                    WEIR_SLIDING_WINDOW, WEIR_SLIDING_LOG, WEIR_UNLIMITED};
    for (int64_t i = 0; i < stories() && check.faults == 0; i++) {
        struct dice dice = dice_new(check.seed, (uint64_t)i * 32 + 14);
        int32_t algos[LIMITS];
        size_t count = (size_t)dice_between(&dice, 2, LIMITS);
        for (size_t k = 0; k < count; k++)
            algos[k] = DICE_PICK(&dice, exact);
        tell(algos, count, EXACT, (uint64_t)i * 32 + 15);
    }
}
