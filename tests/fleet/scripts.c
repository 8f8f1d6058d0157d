/* SPDX-License-Identifier: MIT */
/*
 * The scripts by which Redis keeps pools, in a real one, against the core (scripts_model.h) and against the
 * law (scripts_law.h): histories drawn at random of orders right and wrong, of operators, and of servers that
 * forget, fail over and have wrong clocks. Time, and what the server says of itself, are arguments here
 * (scripts_shim.h).
 *
 *     scripts PORT [STEPS [SEED]]       20000 steps; prints its seed; exit status 1: they differ
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sat.h"
#include "fleet/redis/reply.h"
#include "fleet/scripts_law.h"
#include "fleet/scripts_model.h"
#include "fleet/scripts_shim.h"
#include "fleet/talk.h"
#include "rng.h"
#include "weir.h"

#define WORLDS   16
#define MINDS    3
#define STEPS    150                       /* of a world, about */
#define TRUE_MAX INT64_C(2300000000000000) /* us: a world ends */
#define WALL_MAX INT64_C(700000000000000)  /* so far is a clock ahead, at most: see REDIS_EPOCH_AHEAD */
#define LEAP_MAX INT64_C(100000000000000)  /* us that pass at once */

/* What a node knows of the pool: redis.c keeps the same of a place. */
struct mind {
    uint64_t known;
    int64_t seen, known_us, span_us;
    int64_t first_us; /* when it first saw that epoch */
};

enum lost { LOST_NOTHING, LOST_BY_SERVER, LOST_BY_HAND };

/* A pool with all that is around it. */
struct world {
    char key[48], copy[48];
    struct shadow shadow, old; /* as it is; as a replica or a backup has it */
    struct host host;
    struct mind minds[MINDS];
    struct lease_terms given;
    bool trust;  /* failover=trust: what is forgotten is given out again */
    bool honest; /* nodes turn no window before it is over */
    int64_t true_us, steps;
    uint64_t top_epoch; /* the latest that anybody has seen, and its tickets */
    int64_t top_used;
    enum lost lost; /* since the last order */
    struct book book;
    /* The step on its way. */
    struct asked asked;
    struct mind *mind;
    int32_t quota_op; /* -1: an order */
    struct lease_terms terms;
    size_t before; /* answers to other things before it */
    char story[160];
};

static struct rng rng;
static char order_sha[TALK_SHA_MAX], quota_sha[TALK_SHA_MAX];
static int64_t next_run; /* no two servers are the same */
static struct {
    int64_t granted, empty, epochs, returned, faults;
} tally;

static bool one_in(int64_t n)
{
    return rng_between(&rng, 1, n) == 1;
}

static void say(struct world *world, const char *const *words, size_t count)
{
    talk_say(words, count);
    world->before++;
}

/* ---- drawing ---------------------------------------------------------------------------------- */

/* At the edges often: one unit, all there may be, chunks that leave a rest. */
static int64_t draw_amount(int64_t least, int64_t most)
{
    int64_t kind = rng_between(&rng, 0, 9);
    if (kind == 0)
        return least;
    if (kind == 1)
        return most - rng_between(&rng, 0, min64(3, most - least));
    return least + rng_magnitude(&rng, most - least);
}

static void draw_terms(struct lease_terms *terms, int32_t kind)
{
    char why[200];
    do {
        *terms = (struct lease_terms){.kind = kind, .total = draw_amount(1, TICKET_TOTAL_MAX)};
        terms->window_ns = draw_amount(TICKET_WINDOW_MIN, TICKET_WINDOW_MAX);
        if (kind == LEASE_BUCKET)
            terms->burst = draw_amount(2, TICKET_TOTAL_MAX);
        int64_t least = kind == LEASE_BUCKET ? 1 : div_up(terms->total, TICKET_COUNT_MAX);
        int64_t most = kind == LEASE_BUCKET ? terms->burst / 2 : terms->total;
        terms->base = one_in(2) ? draw_amount(least, most) : max64(least, most / rng_between(&rng, 1, 200));
    } while (!weir_terms_complete(terms, 0, why, sizeof why));
    terms->chunk = 0;
}

/* A change of one thing, as operators make it. */
static void draw_change(struct lease_terms *terms, const struct lease_terms *from)
{
    struct lease_terms other, whole;
    char why[200];
    do {
        draw_terms(&other, from->kind);
        *terms = *from;
        int64_t what = rng_between(&rng, 0, 4);
        terms->total = what == 0 || what == 4 ? other.total : terms->total;
        terms->window_ns = what == 1 || what == 4 ? other.window_ns : terms->window_ns;
        terms->burst = what == 2 || what == 4 ? other.burst : terms->burst;
        terms->base = what == 3 || what == 4 ? other.base : terms->base;
        terms->chunk = 0;
        whole = *terms;
    } while (!weir_terms_complete(&whole, 0, why, sizeof why));
}

static void draw_host(struct host *host, int64_t true_us)
{
    next_run++;
    *host = (struct host){.run = next_run, .replication = next_run, .since_us = true_us};
    int64_t kind = rng_between(&rng, 0, 3);
    host->ahead_us = kind == 0 ? 0 : rng_between(&rng, 0, kind == 1 ? 1000000 : WALL_MAX);
}

static void draw_world(struct world *world, size_t number)
{
    *world = (struct world){.steps = rng_between(&rng, 1, 2 * STEPS)};
    (void)snprintf(world->key, sizeof world->key, "weir:{%zu}:quota", number);
    (void)snprintf(world->copy, sizeof world->copy, "weir:{%zu}:old", number);
    world->true_us =
        one_in(3) ? rng_between(&rng, 1, 10000000) : rng_between(&rng, 1, INT64_C(1800000000000000));
    draw_host(&world->host, world->true_us);
    if (one_in(2))
        world->host.since_us -= rng_magnitude(&rng, INT64_C(40000000000000));
    draw_terms(&world->given, one_in(2) ? LEASE_QUOTA : LEASE_BUCKET);
    world->trust = one_in(4);
    world->honest = !one_in(4);
    say(world, (const char *[]){"DEL", world->key, world->copy}, 3);
}

/* About as long as things take here: a ticket's turn, a life, a window; none at all, or very long. */
static int64_t draw_passing(const struct world *world)
{
    const struct lease_terms *terms = world->shadow.pool.epoch ? &world->shadow.pool.terms : &world->given;
    int64_t chunk = max64(terms->chunk, 1), window = terms->window_ns / 1000, ticket;
    ticket = min64(mul_div(chunk, terms->window_ns, terms->total) / 1000, LEAP_MAX);
    switch (rng_between(&rng, 0, 11)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return rng_between(&rng, 0, 3);
    case 3:
    case 4:
        return rng_between(&rng, 0, 3 * ticket);
    case 5:
        return terms->kind == LEASE_BUCKET ? min64(weir_ticket_life(terms) / 1000, LEAP_MAX) : ticket;
    case 6:
        return window;
    case 7:
        return window + rng_between(&rng, 0, window / 100);
    case 8:
        return rng_between(&rng, 0, 3 * window);
    case 9:
        return one_in(20) ? rng_magnitude(&rng, LEAP_MAX) : 0;
    default:
        return rng_between(&rng, 0, window / 8);
    }
}

/* ---- what happens to servers ------------------------------------------------------------------ */

static int64_t wall_us(const struct world *world)
{
    return max64(1, world->true_us + world->host.ahead_us);
}

static void tell(struct world *world, const char *what)
{
    (void)snprintf(world->story, sizeof world->story, "%s", what);
    tally.faults++;
}

static void lose(struct world *world, enum lost lost)
{
    world->lost = lost > world->lost ? lost : world->lost;
}

static void vanish(struct world *world, enum lost lost)
{
    say(world, (const char *[]){"DEL", world->key}, 2);
    world->shadow = (struct shadow){.state = SHADOW_NONE};
    lose(world, lost);
}

static void put_back(struct world *world, enum lost lost)
{
    if (world->old.state == SHADOW_NONE) {
        vanish(world, lost);
        return;
    }
    say(world, (const char *[]){"COPY", world->copy, world->key, "REPLACE"}, 4);
    world->shadow = world->old;
    lose(world, lost);
}

static void copy(struct world *world)
{
    if (world->shadow.state == SHADOW_NONE)
        say(world, (const char *[]){"DEL", world->copy}, 2);
    else
        say(world, (const char *[]){"COPY", world->key, world->copy, "REPLACE"}, 4);
    world->old = world->shadow;
}

static void fail_over(struct world *world)
{
    draw_host(&world->host, world->true_us);
    world->host.since_us -= rng_magnitude(&rng, INT64_C(40000000000000));
    world->host.promoted = true;
    put_back(world, LOST_BY_SERVER);
}

static void restart(struct world *world, bool forgets)
{
    /* At times nobody has asked for long before, nor since. */
    int64_t span = forgets && one_in(2) ? min64(world->minds[0].span_us, LEAP_MAX / 4) : 0;
    world->true_us += 4 * span;
    draw_host(&world->host, world->true_us - rng_between(&rng, 0, span));
    if (forgets)
        vanish(world, LOST_BY_SERVER);
}

static void damage(struct world *world)
{
    bool terms = one_in(2);
    if (world->shadow.state != SHADOW_THERE || !world->shadow.sound)
        return;
    say(world, (const char *[]){"HSET", world->key, terms ? "total" : "used", "lots"}, 4);
    if (terms)
        world->shadow.next_fits = false;
    else
        world->shadow.sound = false;
}

static void expire(struct world *world)
{
    if (world->shadow.state != SHADOW_NONE && world->true_us >= world->shadow.expires_us) {
        say(world, (const char *[]){"DEL", world->key}, 2);
        world->shadow = (struct shadow){.state = SHADOW_NONE};
    }
    if (world->old.state != SHADOW_NONE && world->true_us >= world->old.expires_us)
        world->old = (struct shadow){.state = SHADOW_NONE};
}

static void draw_fault(struct world *world)
{
    struct host *host = &world->host;
    switch (rng_between(&rng, 0, 8)) {
    case 0:
        tell(world, "deleted by hand");
        vanish(world, LOST_BY_HAND);
        break;
    case 1:
        tell(world, "evicted");
        host->evicted = true;
        vanish(world, LOST_BY_SERVER);
        break;
    case 2:
        tell(world, "failed over");
        fail_over(world);
        break;
    case 3:
        tell(world, "an old copy put back");
        put_back(world, LOST_BY_HAND);
        break;
    case 4:
        tell(world, "restarted with its data");
        restart(world, false);
        break;
    case 5:
        tell(world, "restarted without data");
        restart(world, true);
        expire(world);
        break;
    case 6:
        tell(world, "its first replica");
        host->replication = ++next_run;
        break;
    case 7:
        tell(world, "its clock stepped back");
        host->ahead_us -= rng_magnitude(&rng, wall_us(world) - 1);
        break;
    default:
        tell(world, "damaged by hand");
        damage(world);
    }
}

/* ---- asking ----------------------------------------------------------------------------------- */

static bool is_over(const struct world *world, const struct mind *mind)
{
    const struct lease_terms *terms = &world->shadow.pool.terms;
    return mind->known == world->shadow.pool.epoch &&
           world->true_us - mind->first_us >= div_up(terms->window_ns, 1000);
}

static int32_t draw_op(void)
{
    static const int32_t ops[] = {LEASE_TAKE,   LEASE_TAKE,   LEASE_TAKE, LEASE_TAKE,
                                  LEASE_TAKE,   LEASE_TURN,   LEASE_TURN, LEASE_TURN,
                                  LEASE_RETURN, LEASE_RETURN, LEASE_LOOK, LEASE_PROBE};
    return ops[rng_between(&rng, 0, sizeof ops / sizeof ops[0] - 1)];
}

static void draw_order(struct world *world, struct lease_order *order)
{
    static uint64_t id;
    const struct lease_pool *pool = &world->shadow.pool;
    int64_t count = pool->epoch ? weir_ticket_count(&pool->terms) : 10;
    *order = (struct lease_order){.id = ++id, .op = draw_op(), .epoch = pool->epoch};
    if (one_in(8))
        order->epoch = one_in(2) ? world->mind->known : (uint64_t)rng_magnitude(&rng, INT64_MAX);
    order->chunks = one_in(3) ? draw_amount(0, count + 2) : rng_between(&rng, 1, 4);
    if (one_in(50))
        order->chunks = rng_magnitude(&rng, INT64_MAX);
    order->chunk = one_in(2) ? draw_amount(1, TICKET_TOTAL_MAX) : rng_magnitude(&rng, 4 * world->given.base);
    if (order->op == LEASE_TURN && world->honest && pool->terms.kind == LEASE_QUOTA &&
        order->epoch == pool->epoch && !is_over(world, world->mind))
        order->op = LEASE_TAKE;
}

static bool holds(const struct mind *mind, int64_t true_us)
{
    return mind->known > 0 && true_us - mind->known_us < sat_mul(2, mind->span_us);
}

static const char *number(int64_t value)
{
    static char texts[24][24];
    static size_t next;
    char *text = texts[next++ % 24];
    (void)snprintf(text, sizeof texts[0], "%" PRId64, value);
    return text;
}

/* What stands behind the script's own words. */
static void ask(const struct world *world, const char *sha, const char *const own[11])
{
    const struct host *host = &world->host;
    char server[128], stats[48], replication[128];
    const char *words[21] = {"EVALSHA", sha, "1", world->key};
    int64_t now = wall_us(world);
    (void)snprintf(server, sizeof server, "run_id:%040" PRIx64 "\r\nuptime_in_seconds:%" PRId64 "\r\n",
                   host->run, (world->true_us - host->since_us) / 1000000);
    (void)snprintf(stats, sizeof stats, "evicted_keys:%d\r\n", host->evicted);
    (void)snprintf(replication, sizeof replication,
                   "master_replid:%040" PRIx64 "\r\nsecond_repl_offset:%d\r\n", host->replication,
                   host->promoted ? 17 : -1);
    for (size_t i = 0; i < 11; i++)
        words[4 + i] = own[i];
    words[15] = number(now / 1000000);
    words[16] = number(now % 1000000);
    words[17] = server;
    words[18] = stats;
    words[19] = replication;
    words[20] = number(model_left_ms(&world->shadow, world->true_us));
    talk_say(words, 21);
}

static void ask_order(struct world *world)
{
    static const char *const ops[] = {"look", "take", "turn", "probe", "return"};
    struct asked *asked = &world->asked;
    struct lease_order *order = &asked->order;
    char terms[160];
    world->mind = &world->minds[rng_between(&rng, 0, MINDS - 1)];
    draw_order(world, order);
    asked->given = &world->given;
    asked->host = &world->host;
    asked->known = world->mind->known;
    asked->seen = world->mind->seen;
    asked->held = holds(world->mind, world->true_us);
    asked->span_ns = sat_mul(world->mind->span_us, 1000);
    asked->trust = world->trust;
    asked->now_us = wall_us(world);
    asked->true_us = world->true_us;
    weir_redis_write_terms(terms, sizeof terms, &world->given);
    ask(world, order_sha,
        (const char *[]){ops[order->op], number((int64_t)order->id), number((int64_t)asked->known),
                         asked->held ? "1" : "0", number((int64_t)order->epoch), number(order->chunks),
                         number(order->chunk), asked->trust ? "1" : "0", terms, number(asked->seen),
                         number(asked->span_ns)});
}

static void ask_quota(struct world *world)
{
    static const char *const ops[] = {"create", "show", "set", "delete"};
    static const int32_t often[] = {QUOTA_SHOW, QUOTA_SHOW, QUOTA_SET, QUOTA_SET, QUOTA_CREATE, QUOTA_DELETE};
    const struct lease_terms *from = world->shadow.next_fits ? &world->shadow.next : &world->given;
    struct lease_terms *terms = &world->terms;
    world->quota_op = often[rng_between(&rng, 0, sizeof often / sizeof often[0] - 1)];
    if (world->quota_op == QUOTA_SET && !one_in(10))
        draw_change(terms, from);
    else
        draw_terms(terms, one_in(3) ? !world->given.kind : world->given.kind);
    ask(world, quota_sha,
        (const char *[]){ops[world->quota_op], "quota", terms->kind == LEASE_BUCKET ? "bucket" : "quota",
                         number(terms->total), number(terms->window_ns), number(terms->burst),
                         number(terms->base), "", "", "", ""});
}

static void step(struct world *world)
{
    world->story[0] = '\0';
    world->quota_op = -1;
    world->true_us += draw_passing(world);
    expire(world);
    if (one_in(15))
        copy(world);
    if (one_in(25))
        draw_fault(world);
    if (one_in(12))
        ask_quota(world);
    else
        ask_order(world);
}

/* ---- checking --------------------------------------------------------------------------------- */

static bool read_said(const struct world *world, const struct resp_value *value, struct said *said)
{
    int64_t used;
    if (value->type != RESP_ARRAY || value->count != 2 || value->elements[0].type != RESP_ARRAY) {
        const struct slice *text =
            value->type == RESP_ARRAY && value->count > 0 ? &value->elements[0].text : &value->text;
        printf("no answer: %.*s\n", (int)text->len, text->bytes);
        return false;
    }
    const struct resp_value *fields = value->elements[0].elements;
    struct slice expires = value->elements[1].text;
    *said = (struct said){.expires_ms = -1};
    if (expires.len > 0 && sscanf(expires.bytes, "%" SCNd64, &said->expires_ms) != 1)
        return false;
    if (!weir_redis_read_order(&value->elements[0], &world->asked.order, &said->reply, &used)) {
        printf("an answer that is not understood: epoch %" PRId64 ", %.*s, began %" PRId64 " at %" PRId64
               ", tickets %" PRId64 " and %" PRId64 ", retry %" PRId64 "\n",
               fields[ORDER_EPOCH].integer, (int)fields[ORDER_TERMS].text.len, fields[ORDER_TERMS].text.bytes,
               fields[ORDER_BEGAN].integer, fields[ORDER_NOW].integer, fields[ORDER_USED].integer,
               fields[ORDER_GRANTED].integer, fields[ORDER_RETRY].integer);
        return false;
    }
    said->began = fields[ORDER_BEGAN].integer;
    said->first = fields[ORDER_USED].integer;
    said->granted = fields[ORDER_GRANTED].integer;
    said->returned = fields[ORDER_RETURNED].integer;
    said->accepted = fields[ORDER_ACCEPTED].integer;
    said->retry = fields[ORDER_RETRY].integer;
    said->empty = fields[ORDER_VOID].integer == 1;
    return true;
}

static void note(struct world *world, const struct said *said)
{
    struct mind *mind = world->mind;
    const struct lease_reply *reply = &said->reply;
    int64_t used = said->first + said->granted, span = reply->terms.window_ns / 1000;
    if (reply->terms.kind == LEASE_BUCKET)
        span = (int64_t)fminl(model_alive_us(&reply->terms), (long double)(INT64_MAX / 1000));
    if (mind->known < reply->epoch) {
        mind->known = reply->epoch;
        mind->seen = 0;
        mind->first_us = world->true_us;
    }
    if (mind->known == reply->epoch)
        mind->seen = max64(mind->seen, used);
    mind->known_us = world->true_us;
    mind->span_us = max64(mind->span_us, span);
    if (reply->epoch > world->top_epoch)
        world->top_used = 0;
    if (reply->epoch >= world->top_epoch) {
        world->top_epoch = reply->epoch;
        world->top_used = max64(world->top_used, used);
    }
}

/* The law, where somebody promises it. */
static bool check_law(struct world *world, const struct said *said)
{
    const struct lease_reply *reply = &said->reply;
    const struct lease_terms *terms = &reply->terms;
    int64_t now = world->true_us * 1000, returned = said->returned;
    if (terms->kind == LEASE_QUOTA &&
        world->shadow.granted > sat_add(terms->total, sat_mul(returned, terms->chunk))) {
        printf("%" PRId64 " units of an epoch with %" PRId64 ", %" PRId64 " chunks came back\n",
               world->shadow.granted, terms->total, returned);
        return false;
    }
    if (world->trust || !world->honest || reply->op != LEASE_TAKE || reply->units == 0)
        return true;
    struct book_entry entry = {*terms, reply->epoch, now + reply->starts_ns, 0, reply->units};
    entry.until_ns = terms->kind == LEASE_BUCKET ? sat_add(now, reply->ends_ns)
                                                 : sat_add(world->shadow.true_us * 1000, terms->window_ns);
    return book_add(&world->book, &entry);
}

/* What was lost by hand may be given out again by who has not seen it, and if its number comes again as well,
 * more than once. And nobody waits for units that live longer than under any terms that are left. */
static void excuse(struct world *world)
{
    bool knows = world->asked.known == world->top_epoch && world->asked.seen == world->top_used;
    long double most = model_known_us(&world->shadow, &world->asked);
    bool longer = world->lost && book_has_longer(&world->book, world->true_us * 1000, most);
    if (longer || (world->lost == LOST_BY_HAND && !knows))
        world->book.count = 0;
    if (world->lost == LOST_BY_HAND && !knows && world->top_epoch > (uint64_t)wall_us(world))
        world->honest = false;
    world->lost = LOST_NOTHING;
}

static bool check_order(struct world *world, const struct resp_value *value)
{
    struct said said;
    if (!read_said(world, value, &said))
        return false;
    excuse(world);
    if (!model_order(&world->shadow, &world->asked, &said) || !check_law(world, &said))
        return false;
    note(world, &said);
    tally.granted += said.granted > 0;
    tally.empty += world->shadow.empty && world->shadow.fresh;
    tally.epochs += world->shadow.fresh;
    tally.returned += said.accepted > 0;
    return true;
}

static bool check_quota(struct world *world, const struct resp_value *value)
{
    struct quota_answer answer;
    int64_t expires = -1;
    bool fresh = world->shadow.state == SHADOW_NONE;
    if (value->type != RESP_ARRAY || value->count != 2 ||
        !weir_redis_read_quota(&value->elements[0], "quota", &answer)) {
        printf("no answer: %.*s\n", (int)value->text.len, value->text.bytes);
        return false;
    }
    struct slice text = value->elements[1].text;
    if (text.len > 0 && sscanf(text.bytes, "%" SCNd64, &expires) != 1)
        return false;
    if (world->quota_op != QUOTA_DELETE && !model_shown(&world->shadow, &answer, wall_us(world)))
        return false;
    if (!model_quota(&world->shadow, world->quota_op, &world->terms, &world->host, world->true_us, expires))
        return false;
    if (world->quota_op == QUOTA_CREATE && fresh) /* he vouches for it that nothing is alive */
        lose(world, LOST_BY_HAND);
    return true;
}

static void explain(const struct world *world)
{
    const struct asked *asked = &world->asked;
    const struct shadow *shadow = &world->shadow;
    char given[160], next[160], terms[160];
    weir_redis_write_terms(given, sizeof given, &world->given);
    weir_redis_write_terms(next, sizeof next, &shadow->next);
    weir_redis_write_terms(terms, sizeof terms, &shadow->pool.terms);
    printf("world %s%s%s: %s", world->key, world->trust ? " trust" : "", world->honest ? "" : " dishonest",
           world->story[0] ? world->story : "quiet");
    if (world->quota_op >= 0)
        printf(", weir quota %d", world->quota_op);
    else
        printf(", order %d epoch %" PRIu64 " chunks %" PRId64 " chunk %" PRId64 " known %" PRIu64
               " seen %" PRId64 " held %d",
               asked->order.op, asked->order.epoch, asked->order.chunks, asked->order.chunk, asked->known,
               asked->seen, asked->held);
    printf("\ntrue %" PRId64 " wall %" PRId64 ", given %s, next %s, of %s\nepoch %" PRIu64 " chunk %" PRId64
           " began %" PRId64 " used %" PRId64 " returned %" PRId64 " empty %d last %" PRId64 "\n",
           world->true_us, wall_us(world), given, next, terms, shadow->pool.epoch, shadow->pool.terms.chunk,
           shadow->pool.began_ns / 1000, shadow->pool.used, shadow->pool.returned, shadow->empty,
           shadow->last_us);
}

static bool check(struct world *world)
{
    for (size_t i = 0; i < world->before; i++)
        (void)talk_hear();
    const struct resp_value *value = talk_hear();
    bool good = world->quota_op >= 0 ? check_quota(world, value) : check_order(world, value);
    if (!good)
        explain(world);
    return good;
}

/* ---- all of it -------------------------------------------------------------------------------- */

static bool run(int64_t steps)
{
    static struct world worlds[WORLDS];
    for (int64_t done = 0; done < steps; done += WORLDS) {
        for (size_t i = 0; i < WORLDS; i++) {
            worlds[i].before = 0;
            if (worlds[i].steps-- <= 0 || worlds[i].true_us > TRUE_MAX)
                draw_world(&worlds[i], i);
            step(&worlds[i]);
        }
        talk_send();
        for (size_t i = 0; i < WORLDS; i++)
            if (!check(&worlds[i]))
                return false;
    }
    return true;
}

static void load(enum redis_script script, char sha[TALK_SHA_MAX])
{
    struct buffer text = {0};
    buffer_put(&text, shim_front, sizeof shim_front - 1);
    weir_redis_script(&text, script);
    buffer_put(&text, shim_back, sizeof shim_back);
    talk_load(buffer_bytes(&text), sha);
    weir_buffer_free(&text);
}

int main(int argc, char **argv)
{
    int64_t steps = argc > 2 ? strtoll(argv[2], NULL, 10) : 20000;
    rng.state = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)weir_now();
    printf("seed %" PRIu64 "\n", rng.state);
    talk_begin(argc > 1 ? strtol(argv[1], NULL, 10) : 6379);
    load(REDIS_ORDER, order_sha);
    load(REDIS_QUOTA, quota_sha);
    bool good = run(steps);
    if (good)
        printf("%" PRId64 " steps: %" PRId64 " grants, %" PRId64 " returns, %" PRId64 " epochs, %" PRId64
               " of them empty, %" PRId64 " faults: Redis and the core agree\n",
               steps, tally.granted, tally.returned, tally.epochs, tally.empty, tally.faults);
    talk_end();
    return !good;
}
