/* SPDX-License-Identifier: MIT */
/*
 * Tables that survive: by name, with what was spent, after an orderly end and after a crash.
 */
#define _GNU_SOURCE
#include "unit/folder.h"

#include <sched.h>
#include <sys/wait.h>

#include "check.h"
#include "data/catalogue.h"
#include "table/persist/persist.h"

#define SLOW        "5/d burst=100" /* no test takes so long that it would refill */
#define PATIENCE_NS (30 * WEIR_SEC) /* with a disk that has other work */

static struct weir_error err;

static struct weir_data *open_with(const char *path, int32_t sync, int32_t recover)
{
    struct weir_data_options options = {.sync = sync, .recover = recover};
    struct weir_data *data = weir_data_open(path, &options, &err);
    if (!data)
        printf("# %s: %s\n", path, err.text);
    return data;
}

static struct weir_data *open_it(const char *path)
{
    return open_with(path, WEIR_SYNC_EVERYSEC, WEIR_RECOVER_EXACT);
}

static void close_it(struct weir_data *data)
{
    if (!CHECK(weir_data_close(data, &err)))
        printf("# %s\n", err.text);
}

static struct weir_table *table_of(struct weir_data *data, const char *name, const char *limits)
{
    struct weir_table_options options = {.keys = 100};
    struct weir_table *table = weir_data_table(data, name, limits, &options, &err);
    if (!table)
        printf("# %s: %s\n", name, err.text);
    return table;
}

static int64_t left_of(struct weir_table *table, const char *key)
{
    struct weir_verdict verdict = {0};
    (void)weir_table_peek(table, key, strlen(key), 1, &verdict);
    return verdict.remaining;
}

static bool take(struct weir_table *table, const char *key, int64_t n)
{
    return weir_table_take(table, key, strlen(key), n, NULL);
}

static struct weir_data_info stat_of(struct weir_data *data)
{
    struct weir_data_info stat;
    weir_data_stat(data, &stat);
    return stat;
}

/* Runs it in a process that ends without a word, as if killed. */
static bool crash_after(void (*body)(const char *path), const char *path)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        check.faults = 0;
        body(path);
        (void)fflush(stdout);
        _exit(check.faults > 0);
    }
    return CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(a_table_is_there_again_with_what_was_spent)
{
    const char *path = folder_new();
    struct weir_data *data = open_it(path);
    if (!CHECK(data))
        return;
    CHECK(stat_of(data).fresh && !stat_of(data).lost);
    struct weir_table *api = table_of(data, "api", SLOW), *both = table_of(data, "both", SLOW ", 50/d");
    CHECK(take(api, "k", 30) && take(both, "k", 20) && take(api, "k", 1));
    CHECK(table_of(data, "api", SLOW) == api); /* the same one */
    CHECK(weir_data_commit(data, PATIENCE_NS));
    close_it(data);
    data = open_it(path);
    if (!CHECK(data))
        return;
    CHECK(stat_of(data).clean && !stat_of(data).fresh && !stat_of(data).lost && !stat_of(data).unsure);
    CHECK_EQ(left_of(table_of(data, "api", SLOW), "k"), 69);
    CHECK_EQ(left_of(table_of(data, "api", NULL), "other"), 100);
    CHECK_EQ(left_of(table_of(data, "both", NULL), "k"), 30);
    close_it(data);
}

static void spend(const char *path)
{
    struct weir_data *data = open_it(path);
    struct weir_table *api = table_of(data, "api", SLOW), *own = NULL;
    struct weir_table_options options = {.keys = 100, .own_limits = 1};
    struct weir_own_limit limit = {5, 86400 * WEIR_SEC, 10};
    CHECK(take(api, "k", 30));
    CHECK((own = weir_data_table(data, "own", NULL, &options, &err)) != NULL);
    CHECK(weir_table_take_own(own, "k", 1, &limit, 4, NULL));
    CHECK(weir_table_override(api, "vip", 3, "5/d burst=1000", &err));
    CHECK(take(api, "vip", 900));
    CHECK(weir_data_commit(data, PATIENCE_NS));
}

TEST(a_crash_loses_nothing_that_was_committed)
{
    const char *path = folder_new();
    struct weir_own_limit limit = {5, 86400 * WEIR_SEC, 10};
    struct weir_verdict verdict;
    if (!crash_after(spend, path))
        return;
    struct weir_data *data = open_it(path);
    if (!CHECK(data))
        return;
    CHECK(!stat_of(data).clean && !stat_of(data).lost);
    CHECK_EQ(left_of(table_of(data, "api", NULL), "k"), 70);
    CHECK_EQ(left_of(table_of(data, "api", NULL), "vip"), 100);
    CHECK(weir_table_peek_own(table_of(data, "own", NULL), "k", 1, &limit, 1, &verdict));
    CHECK_EQ(verdict.remaining, 5); /* after the one that is asked for */
    close_it(data);
}

TEST(after_a_crash_floor_leaves_nothing_and_optimistic_forgets)
{
    for (int32_t rule = WEIR_RECOVER_EXACT; rule <= WEIR_RECOVER_OPTIMISTIC; rule++) {
        const char *path = folder_new();
        if (!crash_after(spend, path))
            return;
        struct weir_data *data = open_with(path, WEIR_SYNC_EVERYSEC, rule);
        if (!CHECK(data))
            return;
        CHECK(stat_of(data).unsure); /* nobody can know what the last second was */
        int64_t left = left_of(table_of(data, "api", NULL), "k");
        CHECK_EQ(left, rule == WEIR_RECOVER_EXACT ? 70 : rule == WEIR_RECOVER_FLOOR ? 0 : 100);
        close_it(data);
    }
}

static void forget_and_spend(const char *path)
{
    struct weir_data *data = open_with(path, WEIR_SYNC_EVERYSEC, WEIR_RECOVER_OPTIMISTIC);
    CHECK(take(table_of(data, "api", NULL), "k", 5) && weir_data_commit(data, PATIENCE_NS));
}

TEST(what_was_forgotten_after_a_loss_is_forgotten_once)
{
    const char *path = folder_new();
    if (!crash_after(spend, path) || !crash_after(forget_and_spend, path))
        return;
    struct weir_data *data = open_it(path);
    if (CHECK(data))
        CHECK_EQ(left_of(table_of(data, "api", NULL), "k"), 95);
    close_it(data);
}

static void change(const char *path)
{
    struct weir_data *data = open_it(path);
    struct weir_table *api = table_of(data, "api", SLOW);
    CHECK(take(api, "k", 30));
    CHECK(table_of(data, "api", "5/d burst=200") == api); /* as units that are spent stay spent */
    CHECK_EQ(left_of(api, "k"), 70);
    CHECK(weir_table_set(api, "5/d burst=50", &err));
    CHECK(take(api, "k", 5));
    CHECK(weir_data_commit(data, PATIENCE_NS));
}

TEST(limits_that_were_changed_are_in_force_after_a_crash)
{
    const char *path = folder_new();
    char text[64] = "";
    if (!crash_after(change, path))
        return;
    struct weir_data *data = open_it(path);
    if (!CHECK(data))
        return;
    struct weir_table *api = table_of(data, "api", NULL);
    CHECK(weir_table_text(api, text, sizeof text) > 0);
    CHECK_STR(text, "5/d burst=50");
    CHECK_EQ(left_of(api, "k"), 45);
    for (int i = 0; i < 10; i++) { /* images come by, and what they make needless goes */
        CHECK(weir_table_set(api, i % 2 ? "5/d burst=50" : "6/d burst=60", &err));
        CHECK(weir_data_image(data, &err));
    }
    CHECK(weir_table_set(api, "5/d burst=50", &err));
    close_it(data);
    data = open_it(path);
    if (CHECK(data))
        CHECK_EQ(left_of(table_of(data, "api", NULL), "k"), 45);
    close_it(data);
}

TEST(limits_of_another_kind_are_an_error_that_says_so)
{
    const char *path = folder_new();
    struct weir_data *data = open_it(path);
    if (!CHECK(data))
        return;
    struct weir_table *api = table_of(data, "api", SLOW);
    CHECK(!weir_data_table(data, "api", SLOW ", 50/d", NULL, &err));
    CHECK(strstr(err.text, "needs another table") != NULL);
    CHECK(!weir_data_table(data, "api", "nonsense", NULL, &err) && err.text[0]);
    CHECK(take(api, "k", 1));
    close_it(data);
}

static void grow(const char *path)
{
    struct weir_data *data = open_it(path);
    struct weir_table *api = table_of(data, "api", SLOW);
    CHECK(weir_table_grow(api, 3000, &err));
    for (int i = 0; i < 2500; i++)
        CHECK(weir_table_take(api, &i, sizeof i, 1 + i % 90, NULL));
    CHECK(weir_data_commit(data, PATIENCE_NS));
}

TEST(a_table_that_has_grown_finds_room_for_all_again)
{
    const char *path = folder_new();
    if (!crash_after(grow, path))
        return;
    struct weir_data *data = open_it(path);
    if (!CHECK(data))
        return;
    struct weir_table *api = table_of(data, "api", NULL);
    int wrong = 0;
    for (int i = 0; i < 2500; i++) {
        struct weir_verdict verdict;
        (void)weir_table_peek(api, &i, sizeof i, 1, &verdict);
        wrong += verdict.remaining != 100 - (1 + i % 90);
    }
    CHECK_EQ(wrong, 0);
    close_it(data);
}

static bool count_table(void *arg, const char *name, struct weir_table *table)
{
    ++*(int *)arg;
    return table != NULL && strcmp(name, "stop") != 0;
}

static int count_tables(struct weir_data *data)
{
    int count = 0;
    CHECK(weir_data_each(data, count_table, &count));
    return count;
}

TEST(what_is_to_be_forgotten_is_not_there_the_next_time)
{
    const char *path = folder_new();
    struct weir_data *data = open_it(path);
    if (!CHECK(data))
        return;
    struct weir_table *one = table_of(data, "one", SLOW);
    CHECK(take(one, "k", 30) && take(table_of(data, "two", SLOW), "k", 20));
    CHECK_EQ(count_tables(data), 2);
    CHECK(weir_data_forget(data, "one", &err));
    CHECK(!weir_data_forget(data, "one", &err) && err.code == ENOENT);
    CHECK_EQ(count_tables(data), 1);
    CHECK(take(one, "k", 1)); /* its memory is still there */
    CHECK_EQ(left_of(table_of(data, "one", SLOW), "k"), 100);
    CHECK(weir_data_commit(data, PATIENCE_NS));
    close_it(data);
    data = open_it(path);
    if (!CHECK(data))
        return;
    CHECK_EQ(left_of(table_of(data, "one", NULL), "k"), 100);
    CHECK_EQ(left_of(table_of(data, "two", NULL), "k"), 80);
    CHECK(weir_data_forget(data, "two", &err) && weir_data_forget(data, "one", &err));
    CHECK_EQ(count_tables(data), 0);
    close_it(data);
}

TEST(a_table_belongs_to_its_data)
{
    const char *path = folder_new();
    struct weir_data *data = open_it(path);
    if (!CHECK(data))
        return;
    struct weir_table *api = table_of(data, "api", SLOW);
    weir_table_free(api);
    CHECK(take(api, "k", 30));
    close_it(data);
}

TEST(two_cannot_have_the_same_directory)
{
    const char *path = folder_new();
    struct weir_data *data = open_it(path);
    if (!CHECK(data))
        return;
    CHECK(!weir_data_open(path, NULL, &err));
    CHECK(strstr(err.text, "in use") != NULL);
    close_it(data);
}

TEST(a_directory_of_others_is_refused_and_left_as_it_is)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/notes.txt", folder_new());
    FILE *file = fopen(path, "w");
    if (!CHECK(file) || !CHECK_EQ(fclose(file), 0))
        return;
    CHECK(!weir_data_open(folder_path, NULL, &err));
    CHECK(strstr(err.text, "none of them is weir's") != NULL);
    CHECK(unlink(path) == 0 && rmdir(folder_path) == 0); /* nothing else was in it */
}

TEST(a_directory_that_is_taken_away_makes_it_ill_until_it_is_back)
{
    char away[128];
    struct weir_data *data = open_it(folder_new());
    if (!CHECK(data))
        return;
    CHECK(take(table_of(data, "api", SLOW), "k", 30) && weir_data_commit(data, PATIENCE_NS));
    (void)snprintf(away, sizeof away, "%s.away", folder_path);
    CHECK_EQ(rename(folder_path, away), 0);
    while (!stat_of(data).ill) /* its checkpointer looks several times a second */
        (void)sched_yield();
    CHECK(strstr(stat_of(data).error, "removed or replaced") != NULL);
    CHECK(!weir_data_commit(data, 0) && !weir_data_image(data, &err));
    CHECK_EQ(rename(away, folder_path), 0);
    while (stat_of(data).ill)
        (void)sched_yield();
    CHECK(take(table_of(data, "api", NULL), "k", 20) && weir_data_commit(data, PATIENCE_NS));
    CHECK_EQ(rename(folder_path, away), 0);
    CHECK(!weir_data_close(data, &err) && strstr(err.text, "removed or replaced") != NULL);
    CHECK_EQ(rename(away, folder_path), 0);
    data = open_it(folder_path);
    if (CHECK(data))
        CHECK_EQ(left_of(table_of(data, "api", NULL), "k"), 50);
    close_it(data);
}

TEST(a_child_of_a_fork_has_copies_that_nobody_keeps)
{
    const char *path = folder_new();
    struct weir_data *data = open_it(path);
    if (!CHECK(data))
        return;
    struct weir_table *api = table_of(data, "api", SLOW);
    CHECK(take(api, "k", 10));
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool good = take(api, "k", 10) && left_of(api, "k") == 80 && !weir_data_commit(data, WEIR_SEC) &&
                    !weir_data_close(data, &err) && !weir_data_image(data, &err) &&
                    !weir_data_table(data, "api", NULL, NULL, &err) && weir_table_set(api, "6/d", &err);
        _exit(good ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(take(api, "k", 5) && weir_data_commit(data, PATIENCE_NS));
    close_it(data);
    data = open_it(path);
    if (CHECK(data))
        CHECK_EQ(left_of(table_of(data, "api", NULL), "k"), 85);
    close_it(data);
}

TEST(a_backup_can_be_opened_by_itself)
{
    const char *path = folder_new();
    char copy[128];
    struct weir_data *data = open_it(path);
    if (!CHECK(data))
        return;
    struct weir_table *api = table_of(data, "api", SLOW);
    CHECK(take(api, "k", 30) && weir_data_commit(data, PATIENCE_NS));
    if (!CHECK(weir_data_backup(data, "monday", &err)))
        printf("# %s\n", err.text);
    CHECK(!weir_data_backup(data, "a/b", &err) && !weir_data_backup(data, NULL, &err));
    CHECK(take(api, "k", 30) && weir_data_commit(data, PATIENCE_NS));
    close_it(data);
    (void)snprintf(copy, sizeof copy, "%s/backups/monday", path);
    data = open_it(copy);
    if (CHECK(data))
        CHECK_EQ(left_of(table_of(data, "api", NULL), "k"), 70);
    close_it(data);
}

TEST(every_mode_commits)
{
    for (int32_t sync = WEIR_SYNC_EVERYSEC; sync <= WEIR_SYNC_NEVER; sync++) {
        const char *path = folder_new();
        struct weir_data *data = open_with(path, sync, WEIR_RECOVER_EXACT);
        if (!CHECK(data))
            return;
        for (int i = 0; i < 20; i++)
            CHECK(take(table_of(data, "api", SLOW), "k", 1) && weir_data_commit(data, PATIENCE_NS));
        if (sync == WEIR_SYNC_ALWAYS)
            CHECK_EQ(stat_of(data).unsynced_ns, 0);
        CHECK(stat_of(data).ill == 0 && stat_of(data).error[0] == '\0');
        close_it(data);
    }
}

TEST(questions_that_make_no_sense_are_errors)
{
    const char *path = folder_new();
    char long_name[WEIR_NAME_MAX + 2];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    CHECK(!weir_data_open(NULL, NULL, &err) && !weir_data_open("", NULL, &err));
    CHECK(!weir_data_open("/nowhere/at/all", NULL, &err) && err.text[0]);
    struct weir_data_options options = {.sync = 3};
    CHECK(!weir_data_open(path, &options, &err));
    options = (struct weir_data_options){.recover = -1};
    CHECK(!weir_data_open(path, &options, &err));
    options = (struct weir_data_options){.image_age_ns = -1};
    CHECK(!weir_data_open(path, &options, &err));
    struct weir_data *data = open_it(path);
    CHECK(!weir_data_table(data, NULL, SLOW, NULL, &err) && !weir_data_table(data, "", SLOW, NULL, &err));
    CHECK(!weir_data_table(data, long_name, SLOW, NULL, &err));
    CHECK(!weir_data_table(data, "api", NULL, NULL, &err)); /* there is none, and no limits for one */
    CHECK(!weir_data_table(NULL, "api", SLOW, NULL, &err));
    CHECK(!weir_data_table(data, "api", "rubbish", NULL, &err) && strstr(err.text, "rubbish") != NULL);
    CHECK_EQ(count_tables(data), 0);
    struct weir_table *usual = weir_data_table(data, "api", SLOW, NULL, &err);
    CHECK(usual && take(usual, "k", 30) && left_of(usual, "k") == 70);
    CHECK(!weir_data_commit(NULL, 0) && !weir_data_each(NULL, count_table, NULL));
    CHECK(!weir_data_forget(NULL, "x", &err) && !weir_data_image(NULL, &err));
    CHECK(weir_data_close(NULL, &err));
    close_it(data);
}

/* ---- the catalogue ---- */

static size_t described;

static size_t note_of(unsigned char *bytes, size_t size)
{
    struct buffer out = {0}, description = {0};
    struct weir_table_options options = {.keys = 100};
    struct weir_table *table = weir_table_new_stored(SLOW, &options, NULL, &err);
    struct catalogue_table one = {.number = 3, .name = {"one", 3}, .lead_ns = -5, .ends_ns = 7},
                           other = {.number = 9, .name = {"eight888", 8}};
    weir_catalogue_begin(&out, CATALOGUE_PROGRAM, 9, 2);
    weir_catalogue_put_table(&out, &one, table);
    weir_catalogue_put_table(&out, &other, table);
    weir_table_describe(table, &description);
    described = buffer_len(&description);
    size_t len = buffer_len(&out);
    CHECK(len <= size);
    memcpy(bytes, buffer_bytes(&out), len);
    weir_buffer_free(&out);
    weir_buffer_free(&description);
    weir_table_free(table);
    return len;
}

static bool read_all(const unsigned char *bytes, size_t len, struct catalogue_table *tables, size_t most)
{
    struct catalogue catalogue;
    size_t count = 0;
    if (!weir_catalogue_read(bytes, len, CATALOGUE_PROGRAM, &catalogue, &err))
        return false;
    while (catalogue.left > 0 && count < most)
        if (!weir_catalogue_next(&catalogue, &tables[count++]))
            return false;
    return catalogue.left == 0;
}

TEST(a_note_is_read_as_it_was_written)
{
    unsigned char bytes[1024];
    struct catalogue_table tables[2];
    size_t len = note_of(bytes, sizeof bytes);
    if (!CHECK(read_all(bytes, len, tables, 2)))
        return;
    CHECK(tables[0].number == 3 && slice_is(tables[0].name, "one") && tables[0].lead_ns == -5 &&
          tables[0].ends_ns == 7 && tables[0].description.len == described);
    CHECK(tables[1].number == 9 && slice_is(tables[1].name, "eight888") && tables[1].lead_ns == 0);
}

TEST(a_note_that_was_cut_or_changed_is_refused_or_read_within_its_bounds)
{
    unsigned char bytes[1024];
    struct catalogue_table tables[2];
    size_t len = note_of(bytes, sizeof bytes);
    for (size_t cut = 0; cut < len; cut++) {
        unsigned char *part = malloc(cut ? cut : 1); /* of its own: a sanitizer sees what lies outside */
        memcpy(part, bytes, cut);
        CHECK(!read_all(part, cut, tables, 2));
        free(part);
    }
    for (size_t i = 0; i < 8 * len; i++) {
        unsigned char *other = malloc(len);
        memcpy(other, bytes, len);
        other[i / 8] ^= (unsigned char)(1u << i % 8);
        (void)read_all(other, len, tables, 2);
        free(other);
    }
    bytes[16] = CATALOGUE_SERVER;
    CHECK(!read_all(bytes, len, tables, 2) && strstr(err.text, "belongs to a weir server"));
    bytes[8]++;
    CHECK(!read_all(bytes, len, tables, 2) && strstr(err.text, "another version"));
    bytes[0] = 'X';
    CHECK(!read_all(bytes, len, tables, 2) && strstr(err.text, "another version"));
}
