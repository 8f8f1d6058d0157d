/* SPDX-License-Identifier: MIT */
/*
 * A scene of tables alone: one of words, one of wide states, one whose limits and single keys change, one
 * with limits of each call; with whole keys or without. The note is their descriptions, one behind the other.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/idle.h"
#include "os/clock.h"
#include "property/store_history.h"
#include "store/commit.h"
#include "table/persist/persist.h"
#include "table/persist/recover.h"

enum { PLAIN, WIDE, LIVE, OWN, TABLES };

#define TABLE_KEYS 3

static struct {
    struct weir_table *tables[TABLES];
    struct hash_key key; /* of all tables */
    size_t key_max[TABLES];
    struct store_options options;
} scene;

/* What floor empties hides what was there before, and later takes or gives show it again, but for the first.
 */
static const char *const wide_limits[] = {
    "10/s algo=fixed-window", "10/s burst=20, 30/min algo=fixed-window",        "10/s algo=sliding-window",
    "20/2s algo=sliding-log", "10/s burst=20, 5/s algo=sliding-window, 60/min",
};
static const char *const plain_limits[] = {"10/s burst=20", "3/s burst=5", "20/min burst=8", "100k/s burst=9",
                                           "10/s algo=leaky-bucket queue=8"};
static const char *const live_limits[][BOOK_TEXTS] = {
    {"10/s burst=20", "20/s burst=7", "5/s burst=40"},
    {"30/min burst=6", "20/min burst=12", "60/min burst=3"},
};

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
    memset(&scene, 0, sizeof scene);
    scene.key = (struct hash_key){rng_next(&history->rng), rng_next(&history->rng)};
    set_limits(&history->tables[PLAIN], &plain_limits[history_roll(history, 0, 4)], 1, true);
    set_limits(&history->tables[WIDE],
               &wide_limits[history->rule == BOOK_FLOOR ? 0 : history_roll(history, 0, 4)], 1, false);
    set_limits(&history->tables[LIVE], live_limits[history_roll(history, 0, 1)], BOOK_TEXTS, true);
    history->tables[LIVE].own[0] = "7/s burst=9";
    history->tables[LIVE].own[1] = "4/s burst=30";
    for (int i = 0; i < OWN; i++) /* keys have 8 bytes */
        scene.key_max[i] = history_chance(history, 50) ? (size_t)history_roll(history, 8, 16) : 0;
    for (int i = 0; i < TABLES; i++)
        for (uint64_t name = 1; name <= TABLE_KEYS; name++) {
            struct book_key *key = history_key(history, &history->tables[i], name);
            key->limit =
                (struct weir_own_limit){.count = (int64_t)name * 5, .period_ns = WEIR_SEC, .burst = 9};
            key->lawful = i == PLAIN && key->table->policies[0]->limits[0].spec.algo == WEIR_TOKEN_BUCKET &&
                          (history->rule == BOOK_FLOOR ||
                           (history->rule == BOOK_EXACT && history->sync == STORE_ALWAYS));
            if (key->lawful)
                law_start(&key->law, key->table->policies[0], history->real_ns);
        }
    scene.options = (struct store_options){.disk = sim_disk(history->sim),
                                           .path = "data",
                                           .sync = history->sync,
                                           .manual = true,
                                           .segment_bytes = history_chance(history, 70) ? 4096 : 16384,
                                           .image_log_bytes = (uint64_t)history_roll(history, 1500, 20000),
                                           .image_age_ns = history_roll(history, 1, 60) * WEIR_SEC,
                                           .images = (uint32_t)history_roll(history, 1, 3)};
}

/* ---- the note ---- */

static void describe(struct buffer *out)
{
    for (int i = 0; i < TABLES; i++) {
        struct buffer one = {0};
        weir_table_describe(scene.tables[i], &one);
        uint64_t len = buffer_len(&one);
        buffer_put(out, (const char *)&len, sizeof len);
        buffer_put(out, buffer_bytes(&one), len);
        weir_buffer_free(&one);
    }
}

static bool note(struct history *history)
{
    struct buffer out = {0};
    describe(&out);
    bool good = weir_store_catalogue(history->store, buffer_bytes(&out), buffer_len(&out));
    weir_buffer_free(&out);
    return good;
}

static struct weir_table *make_table(const struct history *history, int i)
{
    struct weir_table_options options = {
        .keys = 16, .key_max = scene.key_max[i], .no_top = 1, .overrides = 8};
    struct weir_error err;
    if (i == OWN)
        options = (struct weir_table_options){.keys = 16, .no_top = 1, .own_limits = 1};
    struct weir_table *table =
        weir_table_new_stored(i == OWN ? NULL : history->tables[i].limits[0], &options, &scene.key, &err);
    if (!table)
        abort();
    return table;
}

static bool make_tables(struct history *history)
{
    size_t len;
    struct weir_error err;
    const unsigned char *at = weir_store_found_catalogue(history->store, &len), *end = at + len;
    for (int i = 0; i < TABLES; i++) {
        uint64_t bytes = 0;
        if (at && (size_t)(end - at) >= sizeof bytes) {
            memcpy(&bytes, at, sizeof bytes);
            at += sizeof bytes;
            scene.tables[i] = weir_table_describe_read(at, bytes, &err);
            at += bytes;
        } else {
            scene.tables[i] = make_table(history, i);
        }
        if (!scene.tables[i]) {
            history_fail(history, "table %d does not come back: %s", i, err.text);
            return false;
        }
    }
    return true;
}

/* ---- a life ---- */

static void free_tables(void)
{
    for (int i = 0; i < TABLES; i++) {
        weir_table_free(scene.tables[i]);
        scene.tables[i] = NULL;
    }
}

static bool end(struct history *history, bool clean)
{
    struct weir_error err = {0};
    bool good = weir_store_close(history->store, &err);
    history->store = NULL;
    free_tables();
    if (clean && !good)
        history_fail(history, "%s", err.text);
    return good;
}

static bool recover(struct history *history)
{
    struct weir_error err = {0};
    if (!make_tables(history))
        return false;
    for (int i = 0; i < TABLES; i++)
        if (!weir_store_add(history->store, (uint32_t)i + 1, scene.tables[i]->region, 0,
                            &weir_table_persist_ops, scene.tables[i], &err))
            return false;
    if (!weir_store_replay(history->store, &history->found, &err)) {
        TRACE(history, "replay: %s", err.text);
        return false;
    }
    bool unsure = history->found.unsure || history->found.lost;
    enum table_recover how = unsure && history->rule == BOOK_FLOOR        ? TABLE_FLOOR
                             : unsure && history->rule == BOOK_OPTIMISTIC ? TABLE_OPTIMISTIC
                                                                          : TABLE_EXACT;
    for (int i = 0; i < TABLES; i++)
        if (!weir_table_recovered(scene.tables[i], i == OWN ? TABLE_EXACT : how, history_now(history)))
            return false;
    struct buffer out = {0};
    describe(&out);
    bool good = weir_store_start(history->store, buffer_bytes(&out), buffer_len(&out), &err);
    weir_buffer_free(&out);
    if (!good)
        TRACE(history, "start: %s", err.text);
    return good;
}

static bool begin(struct history *history)
{
    struct weir_error err = {0};
    history->store = weir_store_open(&scene.options, &history->found, &err);
    if (!history->store) {
        TRACE(history, "open: %s", err.text);
        return false;
    }
    if (recover(history))
        return true;
    (void)end(history, false);
    return false;
}

/* ---- looking ---- */

static void look(const struct history *history, const struct book_key *key, struct book_look *looks)
{
    size_t at = (size_t)(key->table - history->tables);
    struct weir_table *table = scene.tables[at];
    for (size_t i = 0; i < BOOK_LOOKS; i++) {
        struct weir_verdict verdict = {0};
        int64_t time = weir_now();
        looks[i].allowed = at == OWN ? weir_table_peek_own_at(table, time, &key->name, sizeof key->name,
                                                              &key->limit, book_units[i], &verdict)
                                     : weir_table_peek_at(table, time, &key->name, sizeof key->name,
                                                          book_units[i], &verdict);
        looks[i].remaining = verdict.remaining;
        looks[i].retry_ns = verdict.retry_after_ns;
        looks[i].reset_ns = verdict.reset_after_ns;
    }
}

static int text_of(const struct history *history)
{
    char text[512], other[512];
    (void)weir_table_text(scene.tables[LIVE], text, sizeof text);
    for (int i = 0; i < BOOK_TEXTS; i++) {
        (void)weir_policy_text(history->tables[LIVE].policies[i], other, sizeof other);
        if (strcmp(text, other) == 0)
            return i;
    }
    abort();
}

static void compare(struct history *history)
{
    for (size_t i = 0; i < history->key_count && !history->failed; i++) {
        struct book_key *key = &history->keys[i];
        size_t at = (size_t)(key->table - history->tables);
        struct book_look looks[BOOK_LOOKS];
        struct book_found found = history_found(history, key, 0);
        if (at == OWN)
            found.rule = BOOK_EXACT;
        if (at == LIVE)
            found.generation =
                book_generation(key, weir_table_generation(scene.tables[at]), text_of(history));
        struct weir_limit_state limits[MODEL_LIMITS];
        if (at != OWN &&
            weir_table_explain(scene.tables[at], &key->name, sizeof key->name, limits, MODEL_LIMITS) > 0)
            found.limits = limits;
        look(history, key, looks);
        if (!book_match(key, &found, looks))
            history_fail(history, "table %zu, %s", at, key->table->limits[0] ? key->table->limits[0] : "own");
        if (at == LIVE) {
            key->table->generation = weir_table_generation(scene.tables[at]);
            key->table->text = text_of(history);
        }
    }
}

static bool agrees(const struct history *history, struct book_key *key)
{
    struct weir_limit_state limits[MODEL_LIMITS];
    struct book_look looks[BOOK_LOOKS];
    size_t at = (size_t)(key->table - history->tables);
    bool told = at != OWN &&
                weir_table_explain(scene.tables[at], &key->name, sizeof key->name, limits, MODEL_LIMITS) > 0;
    look(history, key, looks);
    return book_agrees(key, history_now(history), told ? limits : NULL, looks);
}

/* ---- what happens ---- */

static bool do_own(struct history *history, struct book_key *key, enum book_kind kind, int64_t n)
{
    struct weir_table *table = scene.tables[OWN];
    (void)history;
    if (kind == BOOK_TAKE)
        return weir_table_take_own(table, &key->name, sizeof key->name, &key->limit, n, NULL);
    if (kind == BOOK_GIVE)
        (void)weir_table_give_own(table, &key->name, sizeof key->name, &key->limit, n, NULL);
    else
        weir_table_reset(table, &key->name, sizeof key->name);
    return true;
}

static bool do_verb(struct weir_table *table, const struct book_key *key, enum book_kind kind, int64_t n)
{
    if (kind == BOOK_TAKE)
        return weir_table_take(table, &key->name, sizeof key->name, n, NULL);
    if (kind == BOOK_GIVE)
        weir_table_give(table, &key->name, sizeof key->name, n);
    else if (kind == BOOK_CHARGE)
        return weir_table_charge(table, &key->name, sizeof key->name, n);
    else
        weir_table_reset(table, &key->name, sizeof key->name);
    return true;
}

static void change_own(struct history *history, struct book_key *key)
{
    int text = (int)history_roll(history, -1, 1);
    if (!weir_table_override(scene.tables[LIVE], &key->name, sizeof key->name,
                             text < 0 ? NULL : key->table->own[text], NULL))
        return;
    history_note(history, key, BOOK_OWN, 0)->text = text;
    TRACE(history, "own limits of key %" PRIu64 ": %d", key->name, text);
}

/* As a service does it: a note, the change, a note. */
static void change(struct history *history)
{
    struct book_table *table = &history->tables[LIVE];
    int text = (table->text + 1) % BOOK_TEXTS;
    for (size_t i = 0; i < history->key_count; i++)
        if (!history_has_room(history, &history->keys[i]))
            return;
    if (!weir_table_announce(scene.tables[LIVE], table->limits[text], NULL) || !note(history))
        return;
    (void)weir_table_sweep_at(scene.tables[LIVE], weir_now(), 1 << 20);
    if (!weir_table_set(scene.tables[LIVE], table->limits[text], NULL)) {
        history_fail(history, "the limits could not be changed");
        return;
    }
    table->text = text;
    table->generation = weir_table_generation(scene.tables[LIVE]);
    TRACE(history, "limits %d: %s, generation %" PRIu64, text, table->limits[text], table->generation);
    for (size_t i = 0; i < history->key_count; i++) {
        struct book_key *key = &history->keys[i];
        if (key->table != table)
            continue;
        struct book_entry *entry = history_note(history, key, BOOK_LIMITS, 0);
        entry->text = text;
        entry->generation = table->generation;
        if (!agrees(history, key)) {
            entry->forgets = true;
            if (!agrees(history, key))
                history_fail(history, "key %" PRIu64 " is not what the change should make of it", key->name);
        }
    }
    (void)weir_store_commit(history->store);
    (void)note(history);
}

static void act(struct history *history)
{
    struct book_key *key = &history->keys[history_roll(history, 0, (int64_t)history->key_count - 1)];
    size_t at = (size_t)(key->table - history->tables);
    int64_t lot = history_roll(history, 0, 99), n = history_roll(history, 1, 5);
    enum book_kind kind = lot < 80 ? BOOK_TAKE : lot < 88 ? BOOK_GIVE : lot < 93 ? BOOK_RESET : BOOK_CHARGE;
    if (!history_has_room(history, key))
        return;
    if (at == LIVE && lot >= 93) {
        if (lot < 97 || history->rule == BOOK_FLOOR) /* what all keys have then goes through changes, too */
            change_own(history, key);
        else
            change(history);
        return;
    }
    if (key->lawful && kind == BOOK_RESET)
        kind = BOOK_GIVE;
    if ((at == OWN || at == WIDE) && kind == BOOK_CHARGE) /* a window does not tell how far it is in debt */
        kind = BOOK_GIVE;
    if (at == WIDE && kind == BOOK_GIVE &&
        history->rule == BOOK_FLOOR) /* which hides what a give would show */
        kind = BOOK_TAKE;
    if (history->rule == BOOK_FLOOR)
        (void)agrees(history, key); /* it may have been forgotten, which is noted */
    bool done = at == OWN ? do_own(history, key, kind, n) : do_verb(scene.tables[at], key, kind, n);
    TRACE(history, "table %zu key %" PRIu64 " verb %d %" PRId64 ": %s", at, key->name, (int)kind, n,
          done ? "yes" : "no");
    if (!done || ((kind == BOOK_GIVE || kind == BOOK_RESET) && agrees(history, key)))
        return; /* nothing is given to a key that is not there, also if all were emptied */
    (void)history_note(history, key, kind, n);
    if (!agrees(history, key)) {
        history_fail(history, "table %zu, key %" PRIu64 " is not what it should be", at, key->name);
        book_print(key);
    }
}

static void answered(struct history *history, uint64_t what)
{
    (void)history;
    (void)what;
}

const struct scene scene_tables = {"tables", make, begin, compare, act, end, answered, NULL};
