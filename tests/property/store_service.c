/* SPDX-License-Identifier: MIT */
/*
 * A scene of a whole service, asked by its commands: policies whose limits and single keys change, limits of
 * each call, reservations that are settled in the same life or a later one, and requests with an id.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/idle.h"
#include "os/clock.h"
#include "property/store_history.h"
#include "service/persist/persist.h"
#include "store/internal.h"
#include "table/persist/persist.h"
#include "unit/service/service_kit.h"

enum { API, WINDOW, LIVE, CELL, TABLES };

#define TABLE_KEYS   2
#define RESERVATIONS 24
#define REQUESTS     12

static const char *const names[TABLES] = {"api", "window", "live", NULL};

struct told { /* something that has to be the same in all lives, once it was told */
    bool there, sure;
    int64_t answered_ns; /* real time; -1: not yet */
};

struct reservation {
    struct told made, settled;
    char id[64];
    struct book_key *key;
    size_t entry; /* of its charge */
    int64_t n, used;
    bool brief, charged;
};

struct asked {
    struct told told;
    struct book_key *key;
    int64_t n;
    bool allowed;
};

static struct {
    struct kit kits[HISTORY_THREADS];
    char yaml[400];
    struct reservation reservations[RESERVATIONS];
    size_t reservation_count;
    struct asked asked[REQUESTS];
    bool live_told;  /* it will be there, whatever happens */
    bool pending;    /* limits were to be changed, and were not: */
    int announced;   /* limits that somebody wanted; they may come into force by a note alone */
    uint64_t images; /* bytes of log between them */
} scene;

static const char *const live_limits[][BOOK_TEXTS] = {
    {"10/s burst=20", "20/s burst=7", "5/s burst=40"},
    {"30/min burst=6", "20/min burst=12", "60/min burst=3"},
};
/* What floor empties hides what was there before, and a give shows it again, but for the first. */
static const char *const window_limits[] = {"10/s algo=fixed-window", "10/s algo=sliding-window",
                                            "20/2s algo=sliding-log"};

/* ---- making ---- */

static void set_limits(struct book_table *table, const char *const *limits, size_t count, bool words)
{
    table->words = words;
    for (size_t i = 0; i < BOOK_TEXTS; i++) {
        table->limits[i] = limits[i < count ? i : 0];
        table->policies[i] = book_policy(table->limits[i]);
    }
}

static void make(struct history *history)
{
    static const char *const syncs[] = {"", "always", "everysec", "never"};
    static const char *const rules[] = {"exact", "floor", "optimistic"};
    memset(&scene, 0, sizeof scene);
    scene.images = (uint64_t)history_roll(history, 3000, 30000);
    set_limits(&history->tables[API], live_limits[history_roll(history, 0, 1)], 1, true);
    set_limits(&history->tables[WINDOW],
               &window_limits[history_roll(history, 0, history->rule == BOOK_FLOOR ? 0 : 2)], 1, false);
    set_limits(&history->tables[LIVE], live_limits[history_roll(history, 0, 1)], BOOK_TEXTS, true);
    history->tables[LIVE].own[0] = "7/s burst=9";
    history->tables[LIVE].own[1] = "4/s burst=30";
    const char *rule = rules[history->rule];
    (void)snprintf(
        scene.yaml, sizeof scene.yaml,
        "memory: 8MiB\ndata: data\nfsync: %s\npolicies:\n"
        "  - {name: api, limits: '%s', recover: %s}\n  - {name: window, limits: '%s', recover: %s}\n",
        syncs[history->sync], history->tables[API].limits[0], rule, history->tables[WINDOW].limits[0], rule);
    for (int i = 0; i < TABLES; i++)
        for (uint64_t name = 1; name <= TABLE_KEYS; name++) {
            struct book_key *key = history_key(history, &history->tables[i], name);
            key->limit =
                (struct weir_own_limit){.count = (int64_t)name * 5, .period_ns = WEIR_SEC, .burst = 9};
            key->lawful = i == API && (history->rule == BOOK_FLOOR ||
                                       (history->rule == BOOK_EXACT && history->sync == STORE_ALWAYS));
            if (key->lawful)
                law_start(&key->law, key->table->policies[0], history->real_ns);
        }
}

/* ---- a life ---- */

__attribute__((format(printf, 2, 3))) static const char *ask(struct history *history, const char *format, ...)
{
    char line[200];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(line, sizeof line, format, list);
    va_end(list);
    const char *reply = kit_ask(&scene.kits[history->thread], line);
    TRACE(history, "%s: %.60s", line, reply);
    return reply;
}

static bool end(struct history *history, bool clean)
{
    struct weir_error err = {0};
    struct service *service = scene.kits[0].service;
    for (int i = 0; i < HISTORY_THREADS; i++) {
        if (scene.kits[i].worker->snapshot)
            weir_read_end(scene.kits[i].worker);
        kit_leave(&scene.kits[i]);
    }
    bool good = weir_service_close(service, &err);
    if (clean && !good)
        history_fail(history, "%s", err.text);
    weir_service_free(service);
    history->store = NULL;
    return good;
}

static bool has_live(void)
{
    const struct snapshot *snapshot = atomic_load(&scene.kits[0].service->snapshot);
    return weir_snapshot_policy(snapshot, (struct slice){names[LIVE], strlen(names[LIVE])}) != NULL;
}

/* This one is set by a command: the file would stand above it at every start. */
static bool set_live(struct history *history)
{
    if (scene.live_told)
        history_fail(history, "a policy was set, and is not there");
    for (size_t i = 0; i < history->key_count; i++)
        if (history->keys[i].table == &history->tables[LIVE])
            history->keys[i].count = history->keys[i].base = 0, history->keys[i].first_text = 0;
    const char *reply = ask(history, "WEIR.POLICY SET live '%s'", history->tables[LIVE].limits[0]);
    scene.live_told = reply[0] == '+' && !sim_is_stopped(history->sim) && history->sync == STORE_ALWAYS;
    return reply[0] == '+';
}

static void complain(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    printf("# %s\n", weir_complaint_text(complaint, true, text));
}

static bool begin(struct history *history)
{
    struct service_options options = {
        .workers = HISTORY_THREADS, .disk = sim_disk(history->sim), .store_manual = true};
    struct weir_error err;
    struct config *config = weir_config_parse("weir.yaml", scene.yaml, strlen(scene.yaml), complain, NULL);
    struct kit service = {.service = config ? weir_service_new(config, &options, &err) : NULL};
    weir_config_free(config);
    if (!service.service) {
        TRACE(history, "start: %s", err.text);
        return false;
    }
    for (uint32_t i = 0; i < HISTORY_THREADS; i++)
        kit_join(&scene.kits[i], &service, i);
    for (int i = 0; i < HISTORY_THREADS; i++)
        scene.kits[i].worker->read_section_lasts = true; /* as those of the server do */
    history->store = scene.kits[0].service->store;
    history->found = scene.kits[0].service->persistence->found;
    history->store->options.segment_bytes = 4096; /* so that something happens */
    history->store->options.image_log_bytes = scene.images;
    if (has_live() || set_live(history))
        return true;
    sim_stop_after(history->sim, 0); /* what it did by the rule would be in an image, and nobody knows */
    (void)end(history, false);
    return false;
}

static void committed(struct history *history)
{
    struct worker *worker = scene.kits[history->thread].worker;
    if (worker->snapshot)
        weir_read_end(worker);
}

/* ---- looking ---- */

static struct weir_table *table_of(const struct history *history, const struct book_key *key)
{
    size_t at = (size_t)(key->table - history->tables);
    struct service *service = scene.kits[0].service;
    if (at == CELL)
        return service->client_keys->table;
    struct slice name = {names[at], strlen(names[at])};
    return weir_snapshot_policy(atomic_load(&service->snapshot), name)->main->table;
}

static size_t key_text(const struct book_key *key, char text[16])
{
    return (size_t)snprintf(text, 16, "k%" PRIu64, key->name);
}

static bool look(const struct history *history, const struct book_key *key, struct book_look *looks,
                 struct weir_limit_state *limits)
{
    char text[16];
    size_t len = key_text(key, text);
    bool own = !key->table->limits[0];
    struct weir_table *table = table_of(history, key);
    for (size_t i = 0; i < BOOK_LOOKS; i++) {
        struct weir_verdict verdict = {0};
        looks[i].allowed = own ? weir_table_peek_own(table, text, len, &key->limit, book_units[i], &verdict)
                               : weir_table_peek(table, text, len, book_units[i], &verdict);
        looks[i].remaining = verdict.remaining;
        looks[i].retry_ns = verdict.retry_after_ns;
        looks[i].reset_ns = verdict.reset_after_ns;
    }
    return !own && weir_table_explain(table, text, len, limits, MODEL_LIMITS) > 0;
}

static bool agrees(const struct history *history, struct book_key *key)
{
    struct weir_limit_state limits[MODEL_LIMITS];
    struct book_look looks[BOOK_LOOKS];
    bool told = look(history, key, looks, limits);
    return book_agrees(key, history_now(history), told ? limits : NULL, looks);
}

/* ---- after a recovery ---- */

static void remember(struct told *told, const struct book_must *must)
{
    told->sure =
        told->sure || (told->there && told->answered_ns >= 0 && told->answered_ns <= must->answered_ns);
    if (!told->sure)
        told->answered_ns = -1; /* until somebody is told again */
}

/* What was not surely kept may be there or not. */
static void compare_told(const struct history *history)
{
    const struct book_found found = history_found(history, NULL, 0);
    for (size_t i = 0; i < scene.reservation_count; i++) {
        struct reservation *r = &scene.reservations[i];
        remember(&r->made, &found.must);
        remember(&r->settled, &found.must);
        r->charged = r->charged && (found.rule != BOOK_EXACT || r->entry < r->key->kept);
    }
    for (size_t i = 0; i < REQUESTS; i++)
        remember(&scene.asked[i].told, &found.must);
}

static int text_of(const struct history *history)
{
    char text[512], other[512];
    const struct book_table *table = &history->tables[LIVE];
    for (size_t i = 0; i < history->key_count; i++)
        if (history->keys[i].table == table)
            (void)weir_table_text(table_of(history, &history->keys[i]), text, sizeof text);
    for (int i = 0; i < BOOK_TEXTS; i++) {
        (void)weir_policy_text(table->policies[i], other, sizeof other);
        if (strcmp(text, other) == 0)
            return i;
    }
    abort();
}

/* A change that was noted and not made is made by the recovery. */
static void note_change(struct history *history)
{
    struct book_table *table = &history->tables[LIVE];
    if (!scene.pending || text_of(history) != scene.announced)
        return;
    for (size_t i = 0; i < history->key_count; i++) {
        struct book_key *key = &history->keys[i];
        if (key->table != table)
            continue;
        struct book_entry *entry = book_add(key, BOOK_LIMITS, history_now(history), 0);
        entry->text = scene.announced;
        entry->generation = weir_table_generation(table_of(history, key));
    }
    TRACE(history, "limits %d came by the note", scene.announced);
}

/* Was the policy made at this start? Then nothing was found of it, and its rule has nothing to rule. */
static bool is_new(const struct history *history, const struct book_key *key)
{
    const struct service *service = scene.kits[0].service;
    size_t at = (size_t)(key->table - history->tables);
    struct slice name = {names[at], names[at] ? strlen(names[at]) : 0};
    return names[at] && weir_snapshot_policy(atomic_load(&service->snapshot), name)->main->serial >
                            service->persistence->catalogue.tables.last_number;
}

static void compare(struct history *history)
{
    note_change(history);
    for (size_t i = 0; i < history->key_count && !history->failed; i++) {
        struct book_key *key = &history->keys[i];
        struct book_look looks[BOOK_LOOKS];
        struct weir_limit_state limits[MODEL_LIMITS];
        size_t at = (size_t)(key->table - history->tables);
        struct book_found found = history_found(history, key, 0);
        if (at == LIVE)
            found.generation =
                book_generation(key, weir_table_generation(table_of(history, key)), text_of(history));
        if (look(history, key, looks, limits))
            found.limits = limits;
        if (at == CELL || at == LIVE || (history->rule != BOOK_FLOOR && is_new(history, key)))
            found.rule = BOOK_EXACT;
        if (!book_match(key, &found, looks))
            history_fail(history, "policy %s, %s", names[at] ? names[at] : "of each call",
                         key->table->limits[0] ? key->table->limits[0] : "");
        if (at == LIVE) {
            key->table->generation = weir_table_generation(table_of(history, key));
            key->table->text = text_of(history);
        }
    }
    scene.pending = false;
    compare_told(history);
}

static void answered(struct history *history, uint64_t what)
{
    struct told *told = what < 1000   ? &scene.reservations[what].made
                        : what < 2000 ? &scene.reservations[what - 1000].settled
                                      : &scene.asked[what - 2000].told;
    told->answered_ns = history->real_ns;
    told->sure = false;
}

/* ---- requests ---- */

/* The key was changed so, or the service has said so and it is not true. */
static void note(struct history *history, struct book_key *key, enum book_kind kind, int64_t n)
{
    if ((kind == BOOK_GIVE || kind == BOOK_RESET) && agrees(history, key))
        return;
    (void)history_note(history, key, kind, n);
    if (agrees(history, key) || sim_is_stopped(history->sim))
        return;
    history_fail(history, "k%" PRIu64 " is not what it should be", key->name);
    book_print(key);
}

static void plain_request(struct history *history, struct book_key *key, const char *policy, int64_t n)
{
    int64_t lot = history_roll(history, 0, 19);
    if (lot < 12 &&
        kit_field(ask(history, "WEIR.TAKE %s k%" PRIu64 " %" PRId64, policy, key->name, n), "allowed") == 1)
        note(history, key, BOOK_TAKE, n);
    else if (lot == 17 && ask(history, "WEIR.GIVE %s k%" PRIu64 " %" PRId64, policy, key->name, n)[0] != '-')
        note(history, key, BOOK_GIVE, n);
    else if (lot == 18 && key->table->words &&
             ask(history, "WEIR.CHARGE %s k%" PRIu64 " %" PRId64, policy, key->name, n)[0] != '-')
        note(history, key, BOOK_CHARGE, n);
    else if (lot == 19 && !key->lawful &&
             ask(history, "WEIR.RESET %s k%" PRIu64, policy, key->name)[0] != '-')
        note(history, key, BOOK_RESET, n);
}

static void cell_request(struct history *history, struct book_key *key, int64_t n)
{
    const char *reply = ask(history, "CL.THROTTLE k%" PRIu64 " %" PRId64 " %" PRId64 " 1 %" PRId64, key->name,
                            key->limit.burst - 1, key->limit.count, n);
    if (strncmp(reply, "*5\r\n:0", 6) == 0)
        note(history, key, BOOK_TAKE, n);
}

/* One verdict for an id, whoever asks, in whichever life; but a refusal is remembered for seconds only. */
static void id_request(struct history *history, struct book_key *key, const char *policy, int64_t n)
{
    size_t at = (size_t)history_roll(history, 0, REQUESTS - 1);
    struct asked *asked = &scene.asked[at];
    if (asked->told.there) {
        key = asked->key;
        n = asked->n;
        policy = names[key->table - history->tables];
    }
    if (!history_has_room(history, key))
        return;
    const char *reply =
        ask(history, "WEIR.TAKE %s k%" PRIu64 " %" PRId64 " ID id%zu", policy, key->name, n, at);
    int64_t allowed = kit_field(reply, "allowed");
    if (allowed < 0)
        return;
    bool same = agrees(history, key), first = !asked->told.there || !asked->allowed;
    if (asked->told.sure && asked->allowed && (allowed != 1 || !same))
        history_fail(history, "id%zu was told %d, and now %d, %s", at, asked->allowed, (int)allowed,
                     same ? "without a charge" : "with a charge");
    if (allowed == 1 && !same)
        note(history, key, BOOK_TAKE, n);
    if (first || !asked->told.sure)
        *asked = (struct asked){{.there = true, .answered_ns = -1}, key, n, allowed == 1};
    if (history_has_room(history, key))
        history_wait_for(history, 2000 + at);
}

static void reserve(struct history *history, struct book_key *key, const char *policy, int64_t n)
{
    if (scene.reservation_count == RESERVATIONS)
        return;
    bool brief = history_chance(history, 30); /* it is over soon, and a commit of it is late */
    const char *reply = ask(history, "WEIR.RESERVE %s k%" PRIu64 " %" PRId64 " TTL %d TIMEOUT 0", policy,
                            key->name, n, brief ? 1 : 3600000);
    if (kit_field(reply, "allowed") != 1)
        return;
    struct reservation *r = &scene.reservations[scene.reservation_count];
    *r = (struct reservation){.made = {.there = true, .answered_ns = -1},
                              .settled = {.answered_ns = -1},
                              .key = key,
                              .n = n,
                              .brief = brief,
                              .charged = true};
    (void)snprintf(r->id, sizeof r->id, "%s", kit_text(reply, "id"));
    note(history, key, BOOK_TAKE, n);
    r->entry = key->count - 1;
    if (history_has_room(history, key))
        history_wait_for(history, scene.reservation_count);
    scene.reservation_count++;
}

/* `used` -1: a cancel. */
static const char *say_settle(struct history *history, const struct reservation *r, int64_t used)
{
    return used < 0 ? ask(history, "WEIR.CANCEL %s", r->id)
                    : ask(history, "WEIR.COMMIT %s %" PRId64, r->id, used);
}

static void note_settled(struct history *history, struct reservation *r, int64_t used, bool late)
{
    if (!r->charged)
        history_fail(history, "reservation %s is there, what it had charged is not", r->id);
    if (r->settled.sure)
        history_fail(history, "reservation %s was settled twice", r->id);
    if (late && used < r->n)
        history_fail(history, "reservation %s was over, and something came back", r->id);
    if (used < r->n)
        note(history, r->key, BOOK_GIVE, r->n - max64(used, 0));
    else
        note(history, r->key, BOOK_CHARGE, used - r->n);
}

static void settle(struct history *history)
{
    if (scene.reservation_count == 0)
        return;
    size_t at = (size_t)history_roll(history, 0, (int64_t)scene.reservation_count - 1);
    struct reservation *r = &scene.reservations[at];
    int64_t used = history_roll(history, -1, r->key->table->words ? r->n + 2 : r->n);
    if (!history_has_room(history, r->key))
        return;
    if (r->settled.there && history_chance(history, 50))
        used = r->used;
    if (history->rule == BOOK_FLOOR)
        (void)agrees(history, r->key);
    const char *reply = say_settle(history, r, used);
    if (reply[0] == '-') {
        if (r->made.sure && !r->settled.there && !r->brief && strstr(reply, "no reservation"))
            history_fail(history, "reservation %s was told, and is not there any more", r->id);
        return;
    }
    if (!agrees(history, r->key))
        note_settled(history, r, used, kit_field(reply, "late") == 1);
    else if (r->settled.sure && used != r->used)
        history_fail(history, "reservation %s was settled in another way, and that was told", r->id);
    if (!r->settled.sure) {
        r->used = used;
        r->settled.there = true;
        r->settled.answered_ns = -1;
    }
    if (history_has_room(history, r->key))
        history_wait_for(history, 1000 + at);
}

/* ---- changes ---- */

/* It may be in a note, or half done. */
static void clear_up(struct history *history)
{
    if (sim_is_stopped(history->sim))
        return;
    history_heal(history);
    kit_tick(&scene.kits[0]);
    history_heal(history);
    scene.pending = scene.pending && sim_is_stopped(history->sim);
}

static void change(struct history *history)
{
    struct book_table *table = &history->tables[LIVE];
    int text = (table->text + 1) % BOOK_TEXTS;
    for (size_t i = 0; i < history->key_count; i++)
        if (!history_has_room(history, &history->keys[i]))
            return;
    scene.announced = text;
    scene.pending = true;
    bool done = ask(history, "WEIR.POLICY SET live '%s'", table->limits[text])[0] == '+';
    for (size_t i = 0; i < history->key_count; i++) {
        struct book_key *key = &history->keys[i];
        uint64_t generation = key->table == table ? weir_table_generation(table_of(history, key)) : 0;
        if (key->table != table || generation <= table->generation)
            continue;
        struct book_entry *entry = history_note(history, key, BOOK_LIMITS, 0);
        entry->text = text;
        entry->generation = generation;
        entry->forgets = !agrees(history, key);
        if (done)
            entry->answered_ns = history->real_ns;
        if (!agrees(history, key))
            history_fail(history, "k%" PRIu64 " is not what the change should make of it", key->name);
    }
    struct book_key *first = history_key(history, table, 1);
    if (weir_table_generation(table_of(history, first)) > table->generation) {
        table->generation = weir_table_generation(table_of(history, first));
        table->text = text;
        scene.pending = false;
    }
    if (done)
        history->answered_ns = history->real_ns;
    else
        clear_up(history);
}

static void override(struct history *history, struct book_key *key)
{
    int text = (int)history_roll(history, -1, 1), now = -1;
    for (size_t i = 0; i < key->count; i++)
        if (key->entries[i].kind == BOOK_OWN)
            now = key->entries[i].text;
    if (now == text)
        return; /* nothing would be written of the key */
    const char *reply =
        text < 0 ? ask(history, "WEIR.OVERRIDE DEL live k%" PRIu64, key->name)
                 : ask(history, "WEIR.OVERRIDE SET live k%" PRIu64 " '%s'", key->name, key->table->own[text]);
    bool done = reply[0] == '+';
    if (reply[0] == '-' && strstr(reply, "no override"))
        return;
    if (done || sim_is_stopped(history->sim) || !agrees(history, key)) {
        struct book_entry *entry = history_note(history, key, BOOK_OWN, 0);
        entry->text = text;
        if (done)
            entry->answered_ns = history->answered_ns = history->real_ns;
        if (!sim_is_stopped(history->sim) && !agrees(history, key))
            history_fail(history, "k%" PRIu64 " is not what limits of its own should make of it", key->name);
    }
    if (!done)
        clear_up(history);
}

static void act(struct history *history)
{
    struct book_key *key = &history->keys[history_roll(history, 0, (int64_t)history->key_count - 1)];
    size_t at = (size_t)(key->table - history->tables);
    int64_t lot = history_roll(history, 0, 99), n = history_roll(history, 1, 5);
    if (!history_has_room(history, key))
        return;
    if (history->rule == BOOK_FLOOR)
        (void)agrees(history, key); /* it may have been forgotten, which is noted */
    if (at == CELL)
        cell_request(history, key, n);
    else if (at == LIVE && lot < 5)
        change(history);
    else if (at == LIVE && lot < 12)
        override(history, key);
    else if (lot < 20)
        id_request(history, key, names[at], n);
    else if (lot < 32)
        reserve(history, key, names[at], n);
    else if (lot < 50)
        settle(history);
    else if (lot < 52)
        kit_tick(&scene.kits[0]);
    else
        plain_request(history, key, names[at], n);
}

const struct scene scene_service = {"service", make, begin, compare, act, end, answered, committed};
