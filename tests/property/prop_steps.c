/* SPDX-License-Identifier: MIT */
/*
 * Random RL.* traffic, with times of the callers that jump and step back and with those of the machine,
 * strict or not, beside a model that adds tokens one period after the other. And the law: what a bucket gave
 * since it was made is what it held, and what the periods brought that lie between the first and the latest
 * time that was ever named.
 */
#include "check.h"
#include "ledger/smyte.h"

#define KEYS   3
#define LIMITS 5
#define ROUNDS 200
#define CALLS  300

static const struct smyte_limit limits[LIMITS] = {
    {1, 1, 5}, {2, 2, 60}, {10, 3, 7}, {10, 1, 20}, {100, 7, 1},
};

/* ---- the model ---- */

struct model {
    bool known, has_session;
    int64_t tokens, last_ms, session_ms;
    int64_t written_ns;               /* on the clock of the machine */
    int64_t first_ms, latest_ms, got; /* for the law */
};

static int64_t periods_to_fill(const struct smyte_limit *limit)
{
    int64_t periods = 0;
    for (int64_t tokens = 0; tokens < limit->max; tokens += limit->refill)
        periods++;
    return periods;
}

static void model_begin(struct model *model, const struct smyte_request *ask, int64_t now_ns)
{
    int64_t age_ms = (now_ns - model->written_ns) / WEIR_MS;
    if (model->known && age_ms >= periods_to_fill(&ask->limit) * ask->limit.refill_ms)
        model->known = false;
    if (!model->known)
        *model = (struct model){
            .tokens = ask->limit.max, .last_ms = ask->at_ms, .first_ms = ask->at_ms, .latest_ms = ask->at_ms};
}

static struct smyte_answer model_do(struct model *kept, const struct smyte_request *ask, int64_t now_ns)
{
    struct model model = *kept;
    model_begin(&model, ask, now_ns);
    while (model.last_ms + ask->limit.refill_ms <= ask->at_ms) {
        model.last_ms += ask->limit.refill_ms;
        for (int64_t i = 0; i < ask->limit.refill && model.tokens < ask->limit.max; i++)
            model.tokens++;
    }
    struct smyte_answer answer = {.tokens = model.tokens};
    if (ask->verb == SMYTE_SESSIONIZE)
        answer.session_ms = model.has_session ? model.session_ms : ask->at_ms;
    if (ask->verb == SMYTE_GET || ask->take == 0)
        return answer;
    if (ask->verb == SMYTE_SESSIONIZE) {
        if (model.tokens >= ask->take || !model.has_session)
            model.session_ms = ask->at_ms;
        model.has_session = true;
        answer.session_ms = model.session_ms;
    }
    for (int64_t i = 0; i < ask->take && model.tokens > 0; i++) {
        model.tokens--;
        model.got++;
    }
    if ((ask->strict || ask->verb == SMYTE_SESSIONIZE) && model.tokens == 0 && ask->at_ms > model.last_ms)
        model.last_ms = ask->at_ms;
    if (ask->at_ms > model.latest_ms)
        model.latest_ms = ask->at_ms;
    model.known = true;
    model.written_ns = now_ns;
    *kept = model;
    return answer;
}

/* ---- the traffic ---- */

struct traffic {
    struct rng rng;
    struct records *buckets;
    struct model models[KEYS][LIMITS];
    int64_t now_ns, caller_ms;
    int64_t back, forgotten, exhausted; /* what has been seen: a test that sees none of it tells nothing */
};

static void pass_time(struct traffic *t)
{
    if (rng_between(&t->rng, 0, 2) == 0)
        t->now_ns += rng_between(&t->rng, 0, 40) * WEIR_MS + rng_between(&t->rng, 0, 3);
    int64_t before = t->caller_ms, jump = rng_between(&t->rng, 0, 9);
    t->caller_ms += jump == 0 ? rng_between(&t->rng, -80, 80) : jump < 6 ? rng_between(&t->rng, 0, 12) : 0;
    t->caller_ms = t->caller_ms < 0 ? 0 : t->caller_ms;
    t->back += t->caller_ms < before;
}

static struct smyte_request draw(struct traffic *t, size_t limit, bool named)
{
    struct smyte_request ask = {.verb = (enum smyte_verb)rng_between(&t->rng, SMYTE_GET, SMYTE_SESSIONIZE),
                                .limit = limits[limit],
                                .at_ms = named ? t->caller_ms : t->now_ns / WEIR_MS,
                                .strict = rng_between(&t->rng, 0, 3) == 0};
    int64_t kind = rng_between(&t->rng, 0, 5);
    ask.take = kind == 0 ? 0 : kind < 4 ? 1 : rng_between(&t->rng, 1, ask.limit.max + 2);
    return ask;
}

static bool keeps_law(const struct model *model, const struct smyte_limit *limit)
{
    int64_t periods = (model->latest_ms - model->first_ms) / limit->refill_ms;
    return !model->known || model->got <= limit->max + periods * limit->refill;
}

/* false: the model says otherwise. */
static bool one_call(struct traffic *t, bool named)
{
    size_t key = (size_t)rng_between(&t->rng, 0, KEYS - 1),
           limit = (size_t)rng_between(&t->rng, 0, LIMITS - 1);
    struct model *model = &t->models[key][limit];
    char name = (char)('a' + key);
    struct smyte_request ask = draw(t, limit, named);
    if (rng_between(&t->rng, 0, 60) == 0) {
        model->known = false;
        (void)weir_smyte_forget(t->buckets, &name, 1, &ask.limit, t->now_ns);
        return true;
    }
    bool was_known = model->known;
    struct smyte_answer answer = weir_smyte_do(t->buckets, &name, 1, &ask, t->now_ns);
    struct smyte_answer expected = model_do(model, &ask, t->now_ns);
    t->forgotten += was_known && model->got <= ask.take && expected.tokens == ask.limit.max;
    t->exhausted += expected.tokens < ask.take;
    return CHECK_EQ(answer.tokens, expected.tokens) && CHECK_EQ(answer.session_ms, expected.session_ms) &&
           CHECK(!answer.full) && CHECK(keeps_law(model, &ask.limit));
}

static void traffic(uint64_t salt, bool named)
{
    struct traffic t = {.rng = rng_new(salt)};
    for (int round = 0; round < ROUNDS; round++) {
        memset(t.models, 0, sizeof t.models);
        t.buckets = weir_smyte_new(256, NULL);
        t.now_ns = rng_magnitude(&t.rng, INT64_C(1) << 50);
        t.caller_ms = rng_between(&t.rng, 0, 1000);
        bool agrees = CHECK(t.buckets != NULL);
        for (int i = 0; agrees && i < CALLS; i++) {
            pass_time(&t);
            agrees = one_call(&t, named);
            if (rng_between(&t.rng, 0, 20) == 0)
                weir_records_sweep(t.buckets, 64, t.now_ns);
        }
        weir_records_free(t.buckets);
        if (!agrees) {
            printf("# round %d\n", round);
            return;
        }
    }
    CHECK(t.back > 100);
    CHECK(t.forgotten > 100);
    CHECK(t.exhausted > 100);
}

TEST(buckets_with_times_of_the_callers_are_as_the_model_says)
{
    traffic(1, true);
}

TEST(buckets_with_times_of_the_machine_are_as_the_model_says)
{
    traffic(2, false);
}
