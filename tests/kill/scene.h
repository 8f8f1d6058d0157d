/* SPDX-License-Identifier: MIT */
/*
 * A scene: one or two tables in files, some keys, and an operation that is killed. Before each kill all is as
 * it was; after it three look at the tables: one that has them open all the time, one that opens them now,
 * and one that opens copies of the files alone, as if everybody had been killed at that moment. For a single
 * test program, which includes it once.
 */
#ifndef WEIR_TESTS_KILL_SCENE_H
#define WEIR_TESTS_KILL_SCENE_H

#include <string.h>
#include <unistd.h>

#include "check.h"
#include "kill/files.h"
#include "table/wide.h"
#include "table/wide_slots.h"
#include "threads/step.h"
#include "threads/team.h"

#define TABLES  2
#define LIMITS  3
#define SOME    24 /* kills of an operation, if nobody says otherwise */
#define AGO_NS  (1000 * WEIR_SEC)
#define PATH(S) ((S)->paths[0])

enum { BUSY, OTHER, IDLE, NEW, OWN, KEYS };
static const char *const names[KEYS] = {"busy", "other", "idle", "a new one", "own"};

struct key_view {
    size_t limits;
    int64_t used[LIMITS], left[LIMITS];
    char own[48];
};

struct table_view {
    char text[96];
    int64_t slots;
    struct key_view keys[KEYS];
};

struct scene {
    const char *limits[TABLES]; /* of the second one: NULL if there is only one */
    struct weir_table_options options;
    int64_t now;
    struct weir_reservation reservation;
    bool apart;   /* every key by itself is as before or as after */
    bool crowded; /* keys that find no room share what is left */
    bool owed;    /* a promise to OWN stands, so it is given nothing */
    bool closed;  /* nobody has the table open but the one who is killed */
    char paths[TABLES][FILES_PATH_MAX], copies[TABLES][FILES_PATH_MAX];
    struct weir_table *tables[TABLES];
    struct image images[TABLES]; /* as it was before */
    struct image copied[TABLES]; /* what was last opened alone */
    struct image seen[TABLES];   /* what has_changed saw last */
    struct table_view before[TABLES], after[TABLES], alone[TABLES];
    long undone, valid;
};

/* ---- looking ---- */

static struct weir_table *open_at(const struct scene *s, const char *path, const char *limits)
{
    struct weir_error err;
    struct weir_table *table = weir_table_make(path, limits, &s->options, &err);
    if (!CHECK(table != NULL))
        printf("#   %s\n", err.text);
    return table;
}

static void look_at_key(struct weir_table *table, int64_t now, const char *name, struct key_view *view)
{
    struct weir_limit_state limits[LIMITS];
    view->limits = weir_table_explain_at(table, now, name, strlen(name), limits, LIMITS);
    for (size_t i = 0; i < view->limits && i < LIMITS; i++) {
        view->used[i] = limits[i].used;
        view->left[i] = limits[i].left;
    }
    (void)weir_table_override_text(table, name, strlen(name), view->own, sizeof view->own);
}

static void look_at(struct weir_table *table, int64_t now, struct table_view *view)
{
    struct weir_table_info info;
    memset(view, 0, sizeof *view);
    if (!table)
        return;
    for (size_t i = 0; i < KEYS; i++)
        look_at_key(table, now, names[i], &view->keys[i]);
    (void)weir_table_text(table, view->text, sizeof view->text);
    weir_table_stat_at(table, now, &info);
    view->slots = info.slots;
}

static bool is_same(const struct table_view *view, const struct table_view *other)
{
    return memcmp(view, other, sizeof *view) == 0;
}

static bool is_either(const struct scene *s, const struct table_view *view, size_t table)
{
    const struct table_view *before = &s->before[table], *after = &s->after[table];
    bool either = true;
    if (!s->apart)
        return is_same(view, before) || is_same(view, after);
    for (size_t i = 0; i < KEYS; i++)
        either = either && (memcmp(&view->keys[i], &before->keys[i], sizeof view->keys[i]) == 0 ||
                            memcmp(&view->keys[i], &after->keys[i], sizeof view->keys[i]) == 0);
    return either;
}

/* ---- what holds of every table ---- */

/* Tentative entries carry nothing: they may be there twice until somebody comes by. */
static bool is_nobody_twice(struct weir_table *table)
{
    uint64_t seen[1024];
    size_t count = 0;
    if (table->kind == &weir_table_wide)
        return weir_wide_check(table);
    for (uint64_t s = 0; s < region_segments(table->region); s++) {
        const struct segment *segment = &table->region->segments[s];
        for (uint64_t i = 0; i < segment->lines * 4 && count < 1024; i++) {
            const struct slot *slot = region_slot(segment, i);
            if (slot_hash(slot) == 0 || slot_kind(slot_word(slot)) == SLOT_TENTATIVE)
                continue;
            for (size_t j = 0; j < count; j++)
                if (seen[j] == slot_hash(slot))
                    return false;
            seen[count++] = slot_hash(slot);
        }
    }
    return true;
}

static int64_t least_left(const struct key_view *view)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < view->limits; i++)
        least = view->left[i] < least ? view->left[i] : least;
    return least;
}

/* Takes all there is. */
static bool is_all_that_was_left(const struct scene *s, struct weir_table *table,
                                 const struct table_view *view)
{
    bool right = true;
    for (size_t i = 0; i < KEYS; i++) {
        int64_t left = least_left(&view->keys[i]), taken = 0;
        while (taken <= left && weir_table_take_at(table, s->now, names[i], strlen(names[i]), 1, NULL))
            taken++;
        right = right && (s->crowded ? taken <= left : taken == left);
    }
    return right;
}

static bool is_promise_kept(const struct scene *s, struct weir_table *table, const struct table_view *view)
{
    struct table_view given;
    weir_table_give_at(table, s->now, names[OWN], strlen(names[OWN]), 1);
    look_at(table, s->now, &given);
    return is_same(view, &given);
}

/* A name that is told is the right one. */
static bool is_name_right(void *arg, const struct weir_key *key)
{
    const struct weir_table *table = arg;
    return !key->key || table_hash(table, key->key, key->len) == key->id;
}

/* Two changes, after which all is as it was: who was passed over by the one before is known by no limits. */
static bool change_and_change_back(const struct scene *s, struct weir_table *table)
{
    struct weir_error err;
    char text[96], other[96];
    (void)weir_table_text(table, text, sizeof text);
    (void)snprintf(other, sizeof other, "%c%s", text[0] == '1' ? '2' : '1', text + 1);
    (void)weir_table_set_at(table, s->now, other, &err); /* it may need more memory than keys have */
    return weir_table_set_at(table, s->now, text, &err);
}

/* In the end all go, but those with limits of their own, which are counted right. */
static bool is_nobody_left(const struct scene *s, struct weir_table *table)
{
    struct weir_table_info info;
    int64_t later = s->now + 1000 * AGO_NS, own = 0;
    char text[48];
    for (size_t i = 0; i < KEYS; i++)
        own += weir_table_override_text(table, names[i], strlen(names[i]), text, sizeof text) > 0;
    (void)weir_table_sweep_at(table, later, 1000);
    weir_table_stat_at(table, later, &info);
    return info.keys == own && info.overrides == own;
}

/* Nothing is blocked: whatever lock there is can be had. */
static bool goes_on(const struct scene *s, struct weir_table *table)
{
    struct weir_error err;
    struct weir_table_info info;
    bool changed = change_and_change_back(s, table); /* first: a sweep would convert all */
    (void)weir_table_override_at(table, s->now, "later", 5, "5/s", &err);
    (void)weir_table_override_at(table, s->now, "later", 5, NULL, &err);
    (void)weir_table_sweep_at(table, s->now, 1000);
    weir_table_stat_at(table, s->now, &info);
    return changed && weir_table_each_at(table, s->now, is_name_right, table) && info.keys <= info.slots &&
           weir_table_grow(table, (size_t)info.capacity + 1, &err) && is_nobody_left(s, table);
}

/* ---- before and after each kill ---- */

static void close_all(struct scene *s)
{
    for (size_t i = 0; i < TABLES; i++) {
        weir_table_free(s->tables[i]);
        s->tables[i] = NULL;
    }
}

static void setup(void *arg)
{
    struct scene *s = arg;
    close_all(s);
    for (size_t i = 0; i < TABLES && s->limits[i]; i++) {
        if (s->images[i].size == 0)
            (void)unlink(s->paths[i]);
        else
            image_write(&s->images[i], s->paths[i]);
        if (s->closed)
            continue;
        struct key_view ready; /* a key's own limits are, before they are asked for again */
        s->tables[i] = open_at(s, s->paths[i], s->limits[i]);
        look_at_key(s->tables[i], s->now, names[OWN], &ready);
    }
}

/* Has the process that is led changed something that others see? Asked after each of its instructions. */
static bool has_changed(void *arg)
{
    struct scene *s = arg;
    bool changed = false;
    for (size_t i = 0; i < TABLES && s->limits[i]; i++) {
        struct image now = {NULL, 0, 0};
        if (s->tables[i]) {
            const struct region *region = s->tables[i]->region;
            now.bytes = (unsigned char *)region->header;
            now.size = region->segments[0].offset + region->segments[0].bytes;
        } else
            image_read(&now, s->paths[i]);
        if (!image_is(&now, &s->seen[i])) {
            image_copy(&s->seen[i], &now);
            changed = true;
        }
        if (!s->tables[i])
            image_free(&now);
    }
    return changed;
}

/* Who opens a table wants to leave its limits as they are. */
static void read_text(const struct scene *s, size_t i, char *text, size_t size)
{
    if (s->tables[i])
        (void)weir_table_text(s->tables[i], text, size);
    else
        (void)snprintf(text, size, "%s", s->limits[i]);
}

/* A copy, opened by somebody who has it alone. The same bytes give the same again. */
static void look_alone(struct scene *s, size_t i, const char *text)
{
    struct image image = {NULL, 0, 0};
    image_read(&image, s->paths[i]);
    if (s->copied[i].size == 0 || !image_is(&image, &s->copied[i])) {
        image_write(&image, s->copies[i]);
        struct weir_table *table = open_at(s, s->copies[i], text);
        look_at(table, s->now, &s->alone[i]);
        CHECK(!table || is_nobody_twice(table));
        weir_table_free(table);
        struct image last = s->copied[i];
        s->copied[i] = image;
        image = last;
    }
    image_free(&image);
}

/* The key gets limits of its own again before anybody has asked for it. */
static void check_promise_again(struct scene *s, size_t i, const char *text)
{
    struct weir_error err;
    struct table_view view;
    image_write(&s->copied[i], s->copies[i]);
    struct weir_table *table = open_at(s, s->copies[i], text);
    CHECK(weir_table_override_at(table, s->now, names[OWN], strlen(names[OWN]), "30/s burst=3", &err));
    look_at(table, s->now, &view);
    CHECK(is_promise_kept(s, table, &view));
    weir_table_free(table);
}

static bool check_table(struct scene *s, size_t i, uint64_t step, bool whole)
{
    struct table_view survivor, fresh;
    char text[96];
    long faults = check.faults;
    read_text(s, i, text, sizeof text);
    look_alone(s, i, text);
    if (s->owed)
        check_promise_again(s, i, text);
    if (s->tables[i] && step % 2)
        look_at(s->tables[i], s->now, &survivor);
    struct weir_table *table = open_at(s, s->paths[i], text);
    if (!table)
        return false;
    look_at(table, s->now, &fresh);
    if (!s->tables[i])
        survivor = fresh;
    else
        look_at(s->tables[i], s->now, &survivor);
    CHECK(is_either(s, &survivor, i));
    CHECK(is_same(&survivor, &fresh));
    CHECK(is_same(&survivor, &s->alone[i]));
    CHECK(!whole || is_same(&survivor, &s->after[i]));
    CHECK(is_nobody_twice(table));
    bool changed = !is_same(&survivor, &s->before[i]);
    CHECK(!s->owed || is_promise_kept(s, table, &survivor));
    CHECK(is_all_that_was_left(s, s->tables[i] && step % 3 ? s->tables[i] : table, &survivor));
    CHECK(goes_on(s, s->tables[i] && step % 3 ? table : s->tables[i] ? s->tables[i] : table));
    CHECK(is_nobody_twice(table));
    weir_table_free(table);
    if (check.faults != faults && check.faults < 10)
        printf("#   table %zu, after %" PRIu64 " instructions\n", i, step);
    return changed;
}

static void check_scene(void *arg, uint64_t step, bool whole)
{
    struct scene *s = arg;
    bool changed = false;
    for (size_t i = 0; i < TABLES && s->limits[i]; i++)
        changed = check_table(s, i, step, whole) || changed;
    *(changed ? &s->valid : &s->undone) += 1;
}

/* ---- scenes ---- */

/* It takes long to learn the way of some operations; they have their turn when there is time for all of it.
 */
static bool has_time(void)
{
    if (check_env("WEIR_KILL_STRIDE", 0) > 0)
        return true;
    check_skip("takes long; WEIR_KILL_STRIDE=100 does it");
    return false;
}

static bool do_take(const struct scene *s, size_t table, size_t key, int64_t now, int64_t n)
{
    return weir_table_take_at(s->tables[table], now, names[key], strlen(names[key]), n, NULL);
}

/* With a table of so many keys, in which these have taken something. */
static void begin(struct scene *s, const char *first, const char *second, size_t keys)
{
    static const char *const files[] = {"first", "second"}, *const copies[] = {"copy", "copy of the second"};
    s->limits[0] = first;
    s->limits[1] = second;
    s->options.keys = keys;
    s->options.overrides = 4;
    s->now = weir_now() + AGO_NS;
    for (size_t i = 0; i < TABLES && s->limits[i]; i++) {
        files_path(s->paths[i], files[i]);
        files_path(s->copies[i], copies[i]);
        (void)unlink(s->paths[i]);
        (void)unlink(s->copies[i]);
        s->tables[i] = open_at(s, s->paths[i], s->limits[i]);
        CHECK(do_take(s, i, IDLE, s->now - AGO_NS / 2, 1));
        CHECK(do_take(s, i, BUSY, s->now, 2));
    }
}

static void operate(step_operation *operation, struct scene *s, struct table_view *views)
{
    setup(s);
    if (operation)
        operation(s);
    for (size_t i = 0; i < TABLES && s->limits[i]; i++) {
        struct weir_table *own = s->closed ? open_at(s, s->paths[i], s->limits[i]) : NULL;
        look_at(own ? own : s->tables[i], s->now, &views[i]);
        weir_table_free(own);
    }
}

static void end(struct scene *s)
{
    close_all(s);
    for (size_t i = 0; i < TABLES; i++) {
        image_free(&s->images[i]);
        image_free(&s->copied[i]);
        image_free(&s->seen[i]);
    }
}

/* As the tables are now, so they are each time. */
static void keep(struct scene *s)
{
    close_all(s);
    for (size_t i = 0; i < TABLES && s->limits[i]; i++)
        image_read(&s->images[i], s->paths[i]);
}

static void run_kept(struct scene *s, step_operation *operation)
{
    operate(NULL, s, s->before);
    operate(operation, s, s->after);
    bool changes = memcmp(s->before, s->after, sizeof s->before) != 0;

    team_watch("steps");
    int64_t stride = check_env("WEIR_KILL_STRIDE", 0);
    uint64_t steps = stride > 0 ? step_kill(setup, operation, check_scene, s, (uint64_t)stride)
                                : step_kill_some(setup, operation, check_scene, has_changed, s,
                                                 (uint64_t)check_env("WEIR_KILLS", SOME), check.seed * 7919);
    team_watch_done();
    printf("# %" PRIu64 " instructions, %ld times as before, %ld times changed\n", steps, s->undone,
           s->valid);
    if (steps == 0)
        check_skip("no process can be led step by step here");
    else
        CHECK(s->undone > 0 && (!changes || s->valid > 0));
    end(s);
}

static void run(struct scene *s, step_operation *operation)
{
    keep(s);
    run_kept(s, operation);
}

#endif
